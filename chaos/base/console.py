"""What a person sees while something runs: a live line on a terminal, plain lines everywhere else.

Whoever reads may go away: ``| head`` does, and Ctrl-C ends ``| tee`` before it ends us. Nothing may end for that, least
of all an undo, and no exit code may become another one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import IO, Any, TextIO

from rich import console as rich_console
from rich.status import Status

from chaos.base.logs import LOG
from chaos.base.text import clean

PLAIN_EVERY_SECONDS = 10.0


class Clean:
    """A stream that takes text in which others may have had a say: what commands a terminal does not pass.

    :func:`keep_clean` puts it before the process's own. What :class:`Console` writes is clean, and has colours.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, given: str) -> int:
        self.stream.write(clean(given))
        return len(given)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def keep_clean() -> None:
    """From now on nothing that this process prints commands a terminal. Idempotent."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, Clean):
            setattr(sys, name, Clean(stream))


class Console(rich_console.Console):
    """Falls silent when nobody reads any more. (Rich's own would end the process with 1, which is a verdict's code.)
    What is printed is clean."""

    @property
    def file(self) -> IO[str]:
        """Rich's own commands pass."""
        stream = super().file
        return stream.stream if isinstance(stream, Clean) else stream

    @file.setter
    def file(self, new: IO[str]) -> None:
        self._file = new

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(clean(each) if isinstance(each, str) else each for each in objects), **options)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        with suppress(OSError, ValueError):  # what Python still holds of the line is flushed when the process ends
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.file.fileno())
            os.close(nowhere)


class Reporter:
    """Lines that stay, and one status that changes. Quiet prints nothing but what :meth:`line` is told to force."""

    def __init__(self, *, quiet: bool = False, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._quiet = quiet
        self._began = time.monotonic()
        self._status: Status | None = None
        self._last_plain = 0.0

    def _stamp(self) -> str:
        return f"{time.monotonic() - self._began:6.1f}s"

    def line(self, text: str) -> None:
        """A line that stays."""
        LOG.info("%s", text)
        if not self._quiet:
            with suppress(OSError):  # a full disk, where the lines go to a file
                self.console.print(f"{self._stamp()}  {text}", markup=False)

    def demand(self, text: str) -> None:
        """What somebody must do: told to the quiet too."""
        LOG.info("%s", text)
        with suppress(OSError):
            self.console.print(text, markup=False)

    def status(self, text: str) -> None:
        """What is going on right now: overwritten on a terminal, a line every ten seconds elsewhere."""
        if self._quiet:
            return
        if self.console.is_terminal:
            with suppress(OSError):  # a terminal that was closed
                if self._status is None:
                    self._status = self.console.status("")
                    self._status.start()
                self._status.update(_escaped(clean(text)))
        elif time.monotonic() - self._last_plain >= PLAIN_EVERY_SECONDS:
            self._last_plain = time.monotonic()
            self.line(text)

    def close(self) -> None:
        """Take the live line away."""
        if self._status is not None:
            with suppress(Exception):
                self._status.stop()
            self._status = None


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")
