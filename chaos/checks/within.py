"""Answers by how soon they came: of the scheduled arrivals, those answered fully within each of a few limits.

Side by side they show what other limits would have said of the same arrivals, and whether a share hangs on the
objective or on the cluster: an arrival that failed is good within none of them. Nothing is judged by this table. (With
another objective some arrivals at a phase's edge would belong to its neighbour; ``judge --objective`` tells that too.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaos.checks.arrivals import Arrivals, Ints
from chaos.checks.record import OUTCOMES, LoadOperation, Record

LIMITS = (0.05, 0.1, 0.25, 0.5, 1.0)
"""Seconds from the intended start. An objective is a column of its own where it is none of them."""


def table(record: Record) -> dict[str, Any]:
    """``limits`` (s), and per operation its objective (s) and, per phase, counts and shares within each limit."""
    limits = sorted({*LIMITS, *(operation.good_within for operation in record.operations)})
    return {
        "limits": limits,
        "operations": {operation.name: _of(record, operation, limits) for operation in record.operations},
    }


def _of(record: Record, operation: LoadOperation, limits: list[float]) -> dict[str, Any]:
    phases = {}
    for span in record.spans:
        arrivals = record.in_phase(operation.name, span)
        counts = [int(count) for count in within(arrivals, limits)]
        scheduled = len(arrivals)
        shares = [count / scheduled if scheduled else None for count in counts]
        phases[span.name] = {"scheduled": scheduled, "counts": counts, "shares": shares}
    return {"objective": operation.good_within, "phases": phases}


def within(arrivals: Arrivals, limits: list[float]) -> Ints:
    """How many were answered fully within each of the ascending ``limits`` (s). One pass, a piece at a time."""
    found = np.zeros(len(limits) + 1, np.int64)
    for piece in arrivals.pieces():
        answered = piece.latency[piece.outcome == OUTCOMES["ok"]]
        # the place of the first limit that is not below it; behind the last: later than all
        found += np.bincount(np.searchsorted(limits, answered), minlength=len(limits) + 1)
    counted: Ints = np.cumsum(found)[:-1]
    return counted
