"""Requests that have several searches (``_msearch``): what became of each of these, by operation and phase.

Such a request is good as a whole or not at all (``NAME.good``); one of which some searches failed is partial. Here the
searches are counted one by one. Those of requests that were not answered for each stand with their request's outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from chaos.base import text
from chaos.checks.record import OUTCOMES, LoadOperation, Record, Span
from chaos.checks.section import Row, Section
from chaos.history import models


def _several(record: Record) -> dict[str, int]:
    """The operations whose requests have several searches, and how many."""
    load = (record.plan.get("experiment") or {}).get("load")
    given = {**models.operations(load), **models.closed(load)}
    return {name: int(each["searches"]) for name, each in given.items() if each.get("searches")}


def figures(record: Record, op: LoadOperation, span: Span, number: int) -> dict[str, int]:
    """How many searches of an operation that were due in a phase had which outcome."""
    arrivals = record.in_phase(op.name, span)
    alone = np.bincount(arrivals.outcome[~np.isin(arrivals.k, record.parts.k)], minlength=len(OUTCOMES))
    found = Counter({f"request {name}": int(each) * number for name, each in zip(OUTCOMES, alone, strict=True)})
    found.update(record.parts.counts(arrivals.k, tuple(OUTCOMES)))
    return {name: each for name, each in found.items() if each}


def table(record: Record) -> dict[str, Any] | None:
    """By operation and phase; None where no request has several searches."""
    several = _several(record)
    found = {
        op.name: {span.name: figures(record, op, span, several[op.name]) for span in record.spans}
        for op in (*record.operations, *record.closed)
        if op.name in several
    }
    return found or None


def section(record: Record, tables: Mapping[str, Any]) -> Section | None:
    """What became of single searches; None where no request has several."""
    rows = tables.get("searches") or {}
    if not rows:
        return None
    names = list(dict.fromkeys(name for phases in rows.values() for found in phases.values() for name in found))
    return Section(
        id="searches",
        title="Searches",
        short="Searches",
        says="What became of each search of requests that have several.",
        head=("Operation", "Phase", "Searches#", *(f"{name.replace('_', ' ').capitalize()}#" for name in names)),
        rows=tuple(
            Row(op, (phase, text.count(sum(found.values())), *(text.count(found.get(name, 0)) for name in names)))
            for op, phases in rows.items()
            for phase, found in phases.items()
        ),
        small="Requests that were not answered for each search stand with their own outcome.",
    )
