"""Exact binomial intervals of the good share, for steady phases only.

While nothing is broken, arrivals that are not good are rare and far apart, and Clopper and Pearson's interval says what
so many arrivals can certify: 30 000 without a miss a share of 99.99 %. Under a fault they cluster, and the same
interval would cover the truth in 3 % of runs instead of 95 (docs/statistics.md); so no other phase
has one. What several runs say is :mod:`chaos.statistics`.
"""

from __future__ import annotations

from typing import Any

from chaos.base import text
from chaos.base.intervals import LEVEL, clopper_pearson
from chaos.checks.record import Record


def table(record: Record) -> dict[str, dict[str, Any]]:
    """Operation → healthy phase → good, scheduled, low and high (shares 0..1), level, says. Empty without one."""
    found: dict[str, dict[str, Any]] = {}
    for op in record.operations:
        for span in record.healthy:
            arrivals = record.in_phase(op.name, span)
            good, scheduled = int(arrivals.counts[:, 1].sum()), len(arrivals)
            if not scheduled:
                continue
            low, high = clopper_pearson(good, scheduled)
            found.setdefault(op.name, {})[span.name] = {
                "good": good,
                "scheduled": scheduled,
                "low": low,
                "high": high,
                "level": LEVEL,
                "says": f"the true share is {text.percent(low)} to {text.percent(high)} with 95 % confidence",
            }
    return found
