"""What ends a run early: a signal, a guard, a failure of ours, or what nobody had asked for."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from chaos.base.console import Reporter
from chaos.base.errors import Aborted, ChaosError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Those that ask for an orderly end."""


class Unasked(ChaosError):
    """Something happened that nobody had asked for, a process ended or settings changed.

    The run ends early, and its checks say what that means.
    """


class Unproven(ChaosError):
    """A fault whose effect could not be proven: the run ends early and is inconclusive."""


@dataclass
class Stop:
    """Why a run is to end early; the first reason stays. A failure of ours is one too, and the worse of two."""

    reason: str | None = None
    guard: str | None = None
    failure: str | None = None
    """What broke of ours (the record, the load driver), from whatever thread noticed it."""
    at: int | None = None
    """When it was asked for, in monotonic ns: abort latency counts from here."""
    ended: str | None = None
    """What happened that nobody had asked for (a process ended, settings changed): nothing more is begun, and what is
    in effect is undone."""
    failed: bool = False
    """It was one of ours that failed by itself."""
    signalled: bool = False
    """A signal came, first or after whatever had ended the run already."""
    at_once: Callable[[], None] | None = None
    """Called when it is first asked for, by whoever asks. That may be a signal's handler: short, and no lock."""
    # one thread may come twice: a second signal's handler interrupts the first one's
    _lock: Any = field(default_factory=threading.RLock)

    def ask(self, reason: str, guard: str | None = None) -> None:
        with self._lock:
            if self.reason is not None:
                return
            self.at = time.monotonic_ns()
            self.reason, self.guard = reason, guard
        if self.at_once is not None:
            self.at_once()

    def cut(self, ended: str, *, failed: bool = False) -> None:
        """Something has happened that nobody had asked for. The first one stays."""
        with self._lock:
            if self.ended is None:
                self.ended, self.failed = ended, failed

    def fail(self, says: str) -> None:
        """End the run as an error. One that is ending already goes on to its end, and then counts as one."""
        with self._lock:
            if self.failure is None:
                self.failure = says
            self.ask(says)

    @property
    def asked(self) -> bool:
        return self.reason is not None

    def was_asked(self) -> bool:
        return self.asked

    def is_over(self) -> bool:
        """Whether nothing more is to be begun, or waited for longer than it takes to see that it is gone."""
        return self.asked or self.ended is not None

    def check(self) -> None:
        """Raises ChaosError when something of ours broke, Aborted after a stop, Unasked when a process ended."""
        if self.failure is not None:
            raise ChaosError(self.failure)
        if self.reason is not None:
            raise Aborted(self.reason)
        if self.ended is not None:
            raise ChaosError(self.ended) if self.failed else Unasked(self.ended)


@contextmanager
def signals(stop: Stop, reporter: Reporter, *, undoes: bool = True) -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP ask for an orderly end; asking again changes nothing, because undo must finish.

    ``undoes`` False: there is nothing to undo, and a second one is only told so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        stop.signalled = True
        if not undoes:
            reporter.line(f"{name}: reporting, then exiting")
        elif stop.asked:
            reporter.line(f"{name}: already undoing; this must finish (after a kill -9: `opensearch-chaos recover`)")
        else:
            reporter.line(f"{name}: undoing, reporting, then exiting")
        stop.ask(f"stopped by {name}")

    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
