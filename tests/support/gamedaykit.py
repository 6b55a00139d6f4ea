"""Game days for tests of their parts: as short as the grammar takes them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from chaos.definitions.gameday import GameDay, GameDayFile, Guard

DAY: dict[str, Any] = {
    "apiVersion": "opensearch-chaos/v1",
    "kind": "gameday",
    "name": "tuesday",
    "owner": "team-search",
    "hypothesis": "nobody notices",
    "target": "staging.yaml",
    "experiments": [{"experiment": "zone.yaml", "rung": "zone"}],
    "window": {"zone": "Europe/Berlin", "days": "tue", "from": "10:00", "to": "16:00"},
    "approval": {"allowed_signers": "signers"},
    "ladder": {"waived": "a test of a part"},
    "guards": {"ours": {"counts": "outcome", "program": {"run": "true"}}},
    "announce": [{"slack": "env:SLACK"}],
    "bounds": {"day": "90m"},
    "stop": {"file": "/run/stop"},
}


def a_day(folder: Path, **more: Any) -> GameDay:
    """A day whose files would be in ``folder``; none of them is read."""
    return GameDay(file="tuesday.yaml", folder=folder, written=GameDayFile.model_validate({**DAY, **more}))


def with_guards(folder: Path, **guards: Guard) -> GameDay:
    """The same with these guards, as they are: a test's may be asked more often than a file may say."""
    day = a_day(folder)
    return day.model_copy(update={"written": day.written.model_copy(update={"guards": guards})})


class Lines:
    """A day's record: what was told, in order."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def __call__(self, kind: str, **fields: Any) -> None:
        with self._lock:
            self.told.append({"kind": kind, **fields})


class Clock:
    """A clock that a test moves."""

    def __init__(self, at: float = 1000.0) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at
