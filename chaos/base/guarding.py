"""Stop conditions of a run (guards), and the thread that asks them.

A guard is one small object that is asked ten times a second and answers None, or why the run must end. A guard that
breaks ends the run with that as its reason, so none is ever off without a word.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

TICK_SECONDS = 0.1


class Guard(Protocol):
    """One stop condition. One that holds something open has a ``close()``, which is called at the end."""

    name: str

    def tripped(self, now: float) -> str | None:
        """Why the run must end at ``now`` (``time.monotonic()``), None while it may go on."""


class Lasting:
    """Something that may last no longer than ``limit`` seconds; ``since`` (monotonic) None: it does not last now."""

    name: str
    says: str

    def __init__(self, limit: float, text: str, since: Callable[[], float | None]) -> None:
        self._limit, self._text, self._since = limit, text, since

    def tripped(self, now: float) -> str | None:
        since = self._since()
        return self.says.format(self._text) if since is not None and now - since > self._limit else None


class Watch:
    """Asks every guard, in a thread of its own, from the beginning of the block to its end.

    ``ask`` (reason, guard) is called once, for the first that trips; a guard that raises has tripped as well.
    """

    def __init__(self, guards: Sequence[Guard], ask: Callable[[str, str], None]) -> None:
        self._guards, self._ask = guards, ask
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="guards", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for guard in self._guards:
            if (close := getattr(guard, "close", None)) is not None:
                close()

    def _run(self) -> None:
        while True:
            for guard in self._guards:
                if (why := reason(guard, time.monotonic())) is not None:
                    self._ask(why, guard.name)
                    return
            if self._over.wait(TICK_SECONDS):
                return


def reason(guard: Guard, now: float) -> str | None:
    """Why this guard ends the run; a guard that breaks does so too."""
    try:
        return guard.tripped(now)
    except Exception as error:
        return f"it cannot be evaluated: {type(error).__name__}: {error}"
