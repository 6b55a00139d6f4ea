"""Findings about data with their dates: what was seen before an external actor changed anything is not his doing.

Compare-and-set violations and stale reads need nothing but what came before them: so they are measured once more on
the record as it was when the cluster was last seen as it had been left. What the read-back finds (lost, wrong, dirty,
unexpected) is seen at the end alone. That a write was acknowledged before the change says nothing of when it was lost,
so a loss that the change can have caused stays open.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from chaos.base import text
from chaos.base.ids import arrival_of, is_write, number_of
from chaos.checks.evidence import Gap
from chaos.checks.measure import Bound, Measure
from chaos.checks.record import SECOND, Record

DATED = ("cas.violations", "stale.reads")
"""Metrics whose evidence has dates, and whose failure no later event takes back."""


def before(record: Record, since: int) -> Record:
    """The record of the checks on data as it was at a moment (ns); what is seen at the end only is not in it."""
    other = copy.copy(record)
    other.cas, other.probes, other.stale = (
        [line for line in lines if int(line["t"]) < since] for lines in (record.cas, record.probes, record.stale)
    )
    other.readback = None
    return other


def earlier(record: Record, metric: str, gaps: Sequence[Gap]) -> tuple[Record, Gap] | None:
    """The record before the first of these gaps, and that gap; None where a finding of this metric has no date."""
    first = min(gaps, key=lambda gap: -1 if gap.since is None else gap.since, default=None)
    if record.rules < 2 or metric not in DATED or first is None or first.since is None:
        return None
    return before(record, first.since), first


def stands(record: Record, found: Measure, gap: Gap) -> Measure:
    """What was found on the record before a gap, in words that say so."""
    at = (int(gap.since or 0) - record.origin) / SECOND
    first = "; ".join(found.says.split("; ")[:2])
    says = f"{found.text} were seen by {at:.1f} s of the run, before this: {gap.says}; {first}"
    return Measure(found.value, found.unit, says, Bound.AT_LEAST, found.evidence)


def acknowledged(record: Record, ids: Collection[Any]) -> tuple[float, float] | None:
    """When the first and the last of some documents was acknowledged (s of the run); None: none was by the load."""
    numbers = np.array([number_of(each) for each in ids if is_write(each)], np.int64)
    if not record.writers or not len(numbers):
        return None
    written_by, _ = arrival_of(numbers, record.stride)
    ends = [
        piece.end[mask]
        for op in record.writers
        for piece in record.arrivals[op.name].pieces()
        if (mask := np.isin(piece.k, written_by) & (piece.end > 0)).any()
    ]
    if not ends:
        return None
    first, last = min(int(each.min()) for each in ends), max(int(each.max()) for each in ends)
    return (first - record.origin) / SECOND, (last - record.origin) / SECOND


def says(record: Record, ids: Collection[Any]) -> str | None:
    """The same in words, to go on from a count."""
    when = acknowledged(record, ids)
    if when is None:
        return None
    first, last = (text.seconds(each) for each in when)
    return f"acknowledged {first} into the run" if first == last else f"acknowledged {first} to {last} into the run"
