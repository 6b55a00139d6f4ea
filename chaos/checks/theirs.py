"""On a cluster that exists: what is this suite's own, and what happened to the team's traffic while it ran.

Figures of others' searches and indexing are those of the table ``foreign``; what a Prometheus said, of the table
``slis``. Neither judges anything here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.base import text
from chaos.checks.record import Record

BEFORE, WARM_UP, AFTER = "before the load", "warm-up", "after the phases"
"""Rows of the table ``foreign`` beside those of the phases."""

OTHER = 1.2
"""How many times what it was before a figure must be, or the other way round, to be told with its phase."""


def own(record: Record) -> dict[str, Any]:
    """The documents of the run's own index, as they were read back; those that were prepared where none were read."""
    prepared = ((record.plan.get("experiment") or {}).get("load") or {}).get("documents")
    return {"documents": (record.readback or {}).get("documents") or prepared}


def whose(tables: Mapping[str, Any]) -> str:
    """`` of this suite's own index (861 documents)``; empty on a lab, where all is the suite's own."""
    others = tables.get("foreign")
    if others is None:
        return ""
    documents = (others.get("own") or {}).get("documents")
    return " of this suite's own index" + (f" ({text.plural(int(documents), 'document')})" if documents else "")


def sentences(tables: Mapping[str, Any]) -> list[str]:
    """What happened to the team's own traffic, and to its SLIs. Nothing on a lab."""
    others = tables.get("foreign")
    if others is None:
        return []
    return [_traffic(others), *(_sli(name, values) for name, values in (tables.get("slis") or {}).items() if values)]


def _traffic(others: Mapping[str, Any]) -> str:
    rows = {name: row for name, row in (others.get("rows") or {}).items() if row.get("known")}
    before = rows.get(BEFORE)
    phases = {name: row for name, row in rows.items() if name not in (BEFORE, WARM_UP, AFTER)}
    if not phases:
        return "What happened to the team's own traffic was not seen."
    if not any(row.get("searches") or row.get("documents") for row in rows.values()):
        return "The team's own indices had no traffic meanwhile."
    parts = []
    for key, rate, what in (("search_ms", "searches", "searches of a shard"), ("index_ms", "documents", "documents")):
        if told := _slowest(before, phases, key, rate, what):
            parts.append(told)
    failed = sum(int(row.get("failed") or 0) for row in phases.values())
    parts.append(f"{text.count(failed)} of them failed" if failed else "none failed")
    return f"The team's own traffic: {'; '.join(parts)}."


def _slowest(
    before: Mapping[str, Any] | None, phases: Mapping[str, Mapping[str, Any]], key: str, rate: str, what: str
) -> str:
    """What one took in its slowest phase, and before; empty where there was none."""
    known = {name: row for name, row in phases.items() if row.get(key) is not None}
    if not known:
        return ""
    name = max(known, key=lambda each: float(known[each][key]))
    took = f"{what} took {_ms(known[name][key])} each in “{text.clip(name, 40)}” ({known[name][rate]:.3g}/s)"
    if before is None or before.get(key) is None:
        return took
    if not _differs(float(known[name][key]), float(before[key])):
        return f"{what} took {_ms(before[key])} each, as before the load"
    return f"{took}, {_ms(before[key])} before the load ({before[rate]:.3g}/s)"


def _ms(value: float) -> str:
    return text.seconds(float(value) / 1000)


def _sli(name: str, by_phase: Mapping[str, float]) -> str:
    """The mean in the first phase, and that of the phase in which it was farthest from it."""
    (first, usual), *rest = by_phase.items()
    where, far = max(rest, key=lambda pair: abs(pair[1] - usual), default=(first, usual))
    said = f"SLI {text.clip(name, 40)}: mean {usual:.3g} in “{text.clip(first, 40)}”"
    if where == first or not _differs(far, usual):
        return f"{said}{', and much the same after it' if rest else ''}."
    return f"{said}, {far:.3g} in “{text.clip(where, 40)}”."


def _differs(one: float, other: float) -> bool:
    low, high = sorted((abs(one), abs(other)))
    return high > OTHER * low or (one < 0) != (other < 0)
