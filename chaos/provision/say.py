"""What provisioning says while it works: one line per fact, and a bar for what takes long.

On a terminal a transfer is a rich progress bar; anywhere else (a CI log) it is a plain line every
few seconds. Everything goes to standard error, so that a command's own output stays clean.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from chaos.base.console import Console

console = Console(stderr=True, highlight=False, soft_wrap=True)

PLAIN_LINE_EVERY_S = 5.0


def say(line: str) -> None:
    """One line for the user, on standard error."""
    console.print(line, markup=False)


class Transfer:
    """Progress of ``total`` bytes in several threads; a context manager. Silent when not ``shown``."""

    def __init__(self, title: str, total: int, *, shown: bool = True) -> None:
        self.title = title
        self.total = total
        self.done = 0
        self._shown = shown
        self._lock = threading.Lock()
        self._last = 0.0
        self._bar: Progress | None = None
        if shown and console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task(title, total=total)

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        elif self._shown:
            say(f"{self.title}: {self.total / 1e6:.0f} MB to fetch")
        self._last = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
        if self._shown and kind is None:
            say(f"{self.title}: {self.done / 1e6:.0f} MB fetched")

    def advance(self, size: int) -> None:
        """``size`` more bytes are here (negative when a file has to begin again)."""
        with self._lock:
            self.done += size
            if self._bar:
                self._bar.update(self._task, completed=self.done)
            elif self._shown and time.monotonic() - self._last >= PLAIN_LINE_EVERY_S:
                self._last = time.monotonic()
                say(f"{self.title}: {self.done / 1e6:.0f} of {self.total / 1e6:.0f} MB")
