"""Changes of the zones' weights, and what they cost: requests in the seconds before and after each.

A zone that begins to serve reads does so with cold caches. Changes are those that failover controllers saw, whoever
made them, and an experiment's own; what several saw is one.
"""

from __future__ import annotations

import math
from typing import Any

from chaos.checks import latency
from chaos.checks.record import SECOND, Record
from chaos.history.events import ActionCommand, ActionDone

AROUND = 10
"""Seconds before a change and after it."""


def table(record: Record) -> list[dict[str, Any]]:
    """Every change under load: ``at`` (s), ``says``, and ``requests``: operation → before and after.

    Of each: how many were ``scheduled``, how many of them ``not_good``, ``p50`` and ``p99`` in seconds (None: that
    many were not answered).
    """
    if not record.spans:
        return []
    start, end = record.spans[0].start, record.load_end
    return [
        {
            "at": record.since_start(t),
            "says": says,
            "requests": {
                op.name: {
                    "before": _around(record, op.name, max(start, t - AROUND * SECOND), t),
                    "after": _around(record, op.name, t, min(end, t + AROUND * SECOND)),
                }
                for op in record.operations
            },
        }
        for t, says in sorted(_changes(record))
        if start < t < end
    ]


def _changes(record: Record) -> list[tuple[int, str]]:
    seen: dict[int, tuple[int, str]] = {}
    for event in record.of_kind("failover.weights"):
        shared = ", ".join(f"{zone} {weight}" for zone, weight in sorted((event.get("weights") or {}).items()))
        change = int(event["t"]), f"weights {shared}"
        version = int(event.get("version") or 0)
        seen[version] = min(change, seen.get(version, change))
    own = {each.action: str(each.says) for each in record.seen(ActionCommand) if each.action_kind == "weights"}
    done = [each for each in record.seen(ActionDone) if each.ok and each.action in own]
    return [*seen.values(), *((each.t, own[each.action]) for each in done if not seen)]


def _around(record: Record, op: str, start: int, end: int) -> dict[str, Any]:
    arrivals = record.arrivals[op].between(start, end)
    scheduled = len(arrivals)
    if not scheduled:
        return {"scheduled": 0, "not_good": 0, "p50": None, "p99": None}
    found = arrivals.ranked([latency.rank(scheduled, q) for q in (0.5, 0.99)])
    p50, p99 = (None if math.isinf(value) else value for value in found)
    return {"scheduled": scheduled, "not_good": int(arrivals.counts[:, 0].sum()), "p50": p50, "p99": p99}
