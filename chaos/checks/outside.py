"""External actors that steer the cluster in mid-run: since when, and what their doing can have caused.

Under rules 1 each change of a setting, of a weight or of a vote spoils everything that was not over before it. Under
rules 2 it spoils what it can have caused (:mod:`chaos.history.affects`).
"""

from __future__ import annotations

from typing import Any

from chaos.checks.record import Record
from chaos.history import affects, configuration
from chaos.history.affects import Affects


def changes(record: Record) -> list[dict[str, Any]]:
    """The changes (events ``configuration.changed``) that can have caused a finding, in their order."""
    every = record.of_kind(configuration.CHANGED)
    if record.rules < 2:
        return every
    return [event for event in every if affects.of(event) is not Affects.NOTHING]


def first_change(record: Record) -> int | None:
    """When the cluster was last seen as it had been left (ns); None: no external actor changed anything."""
    return min((int(event["since"]) for event in changes(record)), default=None)


def may_break(record: Record, event: dict[str, Any]) -> tuple[str, ...] | None:
    """The metrics of data that a change can have made fail; None: all of them."""
    if record.rules >= 2 and affects.of(event) is Affects.AVAILABILITY:
        copied = str(event.get("name")).startswith(COPYING)
        return (*SHOWN, *COPIED) if copied else SHOWN
    return None


SHOWN = ("stale.reads",)
"""What is said of data by what searches show, which a change of how and when they are answered can have caused."""
COPYING = "indices.replication."
"""Settings of how fast replicas copy segments."""
COPIED = ("replicas.stale",)
"""What is said of replicas that an external actor can have kept from copying: by such a setting, or between nodes."""
