"""Asks AWS for the health of a domain while a run lasts, and writes down what it says as it changes.

It is AWS's word, some time late, and no verdict hangs on it: it stands beside what the run itself saw.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from chaos.base.errors import ChaosError
from chaos.faults.moves import Events
from chaos.history import domain


class DomainHealth:
    """Runs in a thread of its own from :meth:`start` to :meth:`stop`. ``ask``: one question, which may raise
    ChaosError. ``every``: seconds between two."""

    def __init__(self, ask: Callable[[], Mapping[str, Any]], events: Events, every: float) -> None:
        self._ask, self._events, self._every = ask, events, every
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="domain", daemon=True)
        self._last: dict[str, Any] | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Idempotent. A question that is under way is not waited for long."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(self._every)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                found: dict[str, Any] = {"said": dict(self._ask())}
            except ChaosError as error:
                found = {"said": None, "why": str(error)}
            if found != self._last and not self._over.is_set():
                self._last = found
                with suppress(OSError):  # the record says by itself that it broke
                    self._events.write(domain.HEALTH, **found)
            self._over.wait(self._every)
