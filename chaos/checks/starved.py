"""What this machine, and not the cluster, made late.

The nodes of a local lab share processors with each other, with the load and with whatever else runs. While no
processor is idle, every request waits for one, and that wait says nothing about a cluster whose nodes have machines of
their own. The load driver therefore measures the processors in slices of 0.1 s.

Of a slice in which n processors were busy for the share b, one of them was free for at most n (1 - b) of the time, so
none was for at least 1 - n (1 - b). Where somebody may use some of the processors only, n and b are theirs
(:mod:`.usable`). Slices in which that is less than half of the time excuse nothing: what is slow on
a machine that is merely used is slow. What follows from it for late answers is in :mod:`chaos.checks.forgiving`.
"""

from __future__ import annotations

import numpy as np

from chaos.checks import clocks, usable
from chaos.checks.record import SECOND, Floats, Ints, Record
from chaos.checks.usable import MOSTLY

SATURATED = 0.95
"""Busy share of all processors in a slice from which on it counts as one without a free processor (0.1 s of two
processors are 20 clock ticks: one idle tick is the resolution)."""
NONE_FREE = "none of this machine's processors was free"


def applies(record: Record) -> bool:
    """Only a lab on the driver's own machine shares its processors. An old record names its kind only."""
    lab = record.plan.get("lab") or {}
    return bool(lab.get("shares_processors", lab.get("kind") in ("local", "docker")))


def slices(record: Record) -> tuple[Ints, Ints, Floats]:
    """Start, end (ns) and busy share of all measured slices, in order."""
    return usable.in_order([usable.table(event["processors"]) for event in record.driver if event.get("processors")])


class Clock(clocks.Clock):
    """Time in which certainly no processor was free."""

    def __init__(self, record: Record) -> None:
        start, end, busy = slices(record)
        number = (record.plan.get("machine") or {}).get("processors")
        # an old record does not say how many there are: then only slices that were all busy excuse anything
        certain = 1 - int(number) * (1 - busy) if number else np.where(busy >= SATURATED, 1.0, 0.0)
        made = clocks.Clock(start, end, np.where(certain >= MOSTLY, certain, 0.0))
        if (apart := usable.clock(record)) is not None:
            made = made.joined(apart) if len(start) else apart
        super().__init__(made.start, made.end, made.share)


def full(record: Record) -> list[tuple[int, int]]:
    """Stretches (ns) in which no processor that the run may use was free at any time, in order."""
    start, end, busy = slices(record)
    rows = zip(start.tolist(), end.tolist(), (busy >= SATURATED).tolist(), strict=True)
    return clocks.united([*((a, b) for a, b, whole in rows if whole), *usable.full(record, SATURATED)])


def none_free(record: Record) -> str:
    """What is meant by it in this run: goes on from "while"."""
    if (limits := usable.words(record)) is None:
        return NONE_FREE
    return f"no processor that this run may use was free ({limits})"


def share(record: Record) -> tuple[float | None, float]:
    """(Share of the phases' time without a free processor, share of it that was measured)."""
    start, end, busy = slices(record)
    total = sum(span.end - span.start for span in record.spans)
    inside = np.zeros(len(start), np.bool_)
    for span in record.spans:
        inside |= (start >= span.start) & (start < span.end)
    measured = int((end - start)[inside].sum())
    if not measured or not total:
        return None, 0.0
    starved = int((end - start)[inside & (busy >= SATURATED)].sum())
    known = min(1.0, measured / total, usable.measured(record))
    if (apart := usable.clock(record)) is None:
        return starved / measured, known
    edges = np.array([(span.start, span.end) for span in record.spans], np.int64)
    waited = float(apart.between(edges[:, 0], edges[:, 1]).sum()) * SECOND
    return max(starved / measured, min(1.0, waited / total)), known
