"""How busy the processors were, for whoever must know what could not have been faster on this machine."""

from __future__ import annotations

from typing import Any


def busy(before: Any, after: Any) -> float | None:
    """The share (0..1) of all processors' time between two ``psutil.cpu_times()`` that somebody had.

    Niced processes count: in theory they give way, but beside some of them a lab that used half of two processors
    answered 100 ms late (seen; counted as free they made the machine's faults the cluster's). None when no time had
    passed.
    """
    total = sum(after) - sum(before)
    free = sum(getattr(after, name) - getattr(before, name) for name in ("idle", "iowait"))
    return round(1 - free / total, 4) if total > 0 else None
