"""How busy the processors were, for whoever must know what could not have been faster on this machine."""

from __future__ import annotations

from typing import Any


def busy(before: Any, after: Any) -> float | None:
    """The share (0..1) of all processors' time between two ``psutil.cpu_times()`` that nobody else could have had.

    Idle time is free; so is that of niced processes, which give way. None when no time had passed.
    """
    total = sum(after) - sum(before)
    free = sum(getattr(after, name) - getattr(before, name) for name in ("idle", "iowait", "nice"))
    return round(1 - free / total, 4) if total > 0 else None
