"""What a person sees while something runs: a live line on a terminal, plain lines everywhere else."""

from __future__ import annotations

import time
from contextlib import suppress

from rich.console import Console
from rich.status import Status

PLAIN_EVERY_SECONDS = 10.0


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
        if not self._quiet:
            self.console.print(f"{self._stamp()}  {text}", markup=False)

    def status(self, text: str) -> None:
        """What is going on right now: overwritten on a terminal, a line every ten seconds elsewhere."""
        if self._quiet:
            return
        if self.console.is_terminal:
            if self._status is None:
                self._status = self.console.status("")
                self._status.start()
            self._status.update(_escaped(text))
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
