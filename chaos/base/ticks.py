"""Whether the runner itself stands still: a thread that wakes every 50 ms and notes when it was late.

What hangs on the runner are its commands, the ends of phases, and the moments at which it sees what the cluster does.
A node that left while the runner stood still is seen to have left when it goes on.
"""

from __future__ import annotations

import threading
import time
from typing import Any

BEAT_SECONDS = 0.05
LATE_SECONDS = 0.1
"""Threads of one interpreter take turns; what is later than this was no turn of another one."""


class Ticks(threading.Thread):
    """Runs from ``start`` to :meth:`stop`."""

    def __init__(self) -> None:
        super().__init__(name="ticks", daemon=True)
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._own: list[tuple[int, int]] = []
        self._since = self._last = time.monotonic_ns()

    def run(self) -> None:
        while not self._stopped.wait(BEAT_SECONDS):
            now = time.monotonic_ns()
            with self._lock:
                if now - self._last > (BEAT_SECONDS + LATE_SECONDS) * 1e9:
                    self._own.append((self._last, now))
                self._last = now

    def taken(self) -> dict[str, Any]:
        """``since`` and ``until`` (ns), between which it was measured, and each stop in ``own``; each is told once."""
        with self._lock:
            found: dict[str, Any] = {"since": self._since, "until": self._last}
            own, self._own, self._since = self._own, [], self._last
        return found | ({"own": own} if own else {})

    def stop(self) -> None:
        """Does not wait for its end."""
        self._stopped.set()
