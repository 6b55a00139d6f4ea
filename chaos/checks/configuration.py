"""Did somebody else steer the cluster in mid-run? What was measured since then says nothing of the cluster.

A record from before this was watched says nothing about it.
"""

from __future__ import annotations

from typing import Any

from chaos.base import text
from chaos.checks import outside
from chaos.checks.evidence import Gap, unwatched
from chaos.checks.record import SECOND, Record
from chaos.history import configuration as events

WHAT = "whether somebody else changed the cluster's settings"


def gaps(record: Record) -> tuple[Gap, ...]:
    """Each change of an external actor that can have caused a finding, from the last moment at which it was not there;
    and a watch that broke.

    Who deletes the index, or has its writes confirmed before they are on disk, loses documents that were acknowledged.
    """
    changed = (
        Gap(
            _says(record, event),
            int(event["since"]),
            third_hand=True,
            may_break=outside.may_break(record, event),
        )
        for event in outside.changes(record)
    )
    nobody = unwatched(record, "configuration_watched", events.WATCHED, events.UNWATCHED, WHAT)
    return (*changed, *(nobody or _unseen(record)))


def _says(record: Record, event: dict[str, Any]) -> str:
    says = events.sentence(event)
    a, b = ((int(event[key]) - record.origin) / SECOND for key in ("since", "t"))
    return f"{says[:1].upper()}{text.clip(says[1:], 200)}, between {a:.1f} s and {b:.1f} s of the run"


def _unseen(record: Record) -> list[Gap]:
    """Somebody watched, and saw nothing: at all, or after the phases, though the cluster was led."""
    over = record.first(events.UNWATCHED)
    if over is None:
        return []
    last, leaders = over.get("last"), record.of_kind("cluster.leader")
    if last is None:
        return [Gap(f"Nobody could look {WHAT}", None)]
    if leaders and leaders[-1].get("leader") and record.spans and int(last) < record.spans[-1].end:
        return [Gap(f"Nobody looked again, after the phases, {WHAT}", int(last))]
    return []
