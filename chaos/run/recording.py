"""The watch over a run's own record: whether what it writes is still in the folder that it began.

A run whose folder somebody removes, moves or replaces ends as an error within seconds, through the ordinary tail, and
what it wrote is put back under its names: events and ledger at once, since whoever undoes for a dead runner reads the
ledger by its name; what other processes write, when all of them have ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from chaos.base.logs import LOG
from chaos.base.paths import write_json
from chaos.faults.ledger import Ledger
from chaos.history import EventWriter
from chaos.history.kept import Kept
from chaos.history.models import Plan
from chaos.history.writer import EVENTS

EVERY_SECONDS = 1.0
PLAN, LEDGER = "plan.json", "ledger.jsonl"


class Recording:
    """``lost`` is called once, in this watch's thread, with what has become of the record; it must not raise."""

    def __init__(self, folder: Path, events: EventWriter, ledger: Ledger, lost: Callable[[str], None]) -> None:
        self._folder, self._events, self._ledger, self._lost = folder.absolute(), events, ledger, lost
        self._kept = Kept(self._folder, (PLAN, LEDGER))
        self._plan: Plan | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="record", daemon=True)
        self.says: str | None = None
        """What has become of it; None while it is as it was."""

    def start(self, plan: Plan) -> None:
        self._plan = plan
        self.look()
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            if self.look():
                return

    def look(self) -> bool:
        """Whether the record is lost, as of now."""
        if self.says is not None:
            return True
        try:
            self.says = self._kept.look()
        except OSError as error:
            self.says = f"{self._folder} cannot be looked at: {error.strerror}"
        if self.says is None:
            return False
        try:
            self._put_back()
        except OSError as error:
            self.says += f", and cannot be written again ({error.strerror})"
        self._lost(self.says)
        return True

    def _put_back(self) -> None:
        for name in ("history", "logs"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        for writer, name in ((self._ledger, LEDGER), (self._events, f"history/{EVENTS}")):
            writer.put_back()
            self._kept.leave(name)
        if self._plan is not None and not (self._folder / PLAN).exists():
            write_json(self._folder / PLAN, self._plan)
            self._kept.leave(PLAN)

    def stop(self) -> None:
        """Look once more, and put back what the run's other processes wrote. Idempotent; never raises."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
            self.look()
        if self.says is not None:
            try:
                self._put_back()
                self._kept.put_back()
            except OSError:
                LOG.exception("the record cannot be put back")
        self._kept.close()
