"""Did somebody else steer the cluster in mid-run? What was measured since then says nothing of the cluster.

A record from before this was watched says nothing about it.
"""

from __future__ import annotations

from typing import Any

from chaos.checks import text
from chaos.checks.evidence import Gap
from chaos.checks.record import Record
from chaos.history import configuration as events


def gaps(record: Record) -> tuple[Gap, ...]:
    """Each change of a third hand, from the last moment at which it was not there; and a watch that broke."""
    changed = (Gap(_says(record, event), int(event["since"])) for event in record.of_kind(events.CHANGED))
    return (*changed, *_unwatched(record))


def _says(record: Record, event: dict[str, Any]) -> str:
    says = events.sentence(event)
    a, b = ((int(event[key]) - record.origin) / 1e9 for key in ("since", "t"))
    return f"{says[:1].upper()}{text.clip(says[1:], 200)}, between {a:.1f} s and {b:.1f} s of the run"


def _unwatched(record: Record) -> list[Gap]:
    began, over = record.first(events.WATCHED), record.first(events.UNWATCHED)
    what = "whether somebody else changed the cluster's settings"
    if began is None:
        due = record.plan.get("configuration_watched") and record.first("load.start") is not None
        return [Gap(f"Nobody watched {what}", None)] if due else []
    if over is None:
        ended = record.first("run.end") is not None
        return [Gap(f"Nobody knows until when it was watched {what}", int(began["t"]))] if ended else []
    if over.get("because"):
        return [Gap(f"From some time on nobody watched {what} ({over['because']})", int(began["t"]))]
    last = over.get("last")
    if last is None:
        return [Gap(f"Nobody could look {what}", None)]
    leaders = record.of_kind("cluster.leader")
    if leaders and leaders[-1].get("leader") and record.spans and int(last) < record.spans[-1].end:
        return [Gap(f"Nobody looked again, after the phases, {what}", int(last))]
    return []
