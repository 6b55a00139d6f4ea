"""How busy the processors were, for whoever must know what could not have been faster on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

ONLINE = Path("/sys/devices/system/cpu/online")


def busy(before: Any, after: Any) -> float | None:
    """The share (0..1) of all processors' time between two ``psutil.cpu_times()`` that somebody had.

    Niced processes count: in theory they give way, but beside some of them a lab that used half of two processors
    answered 100 ms late (seen; counted as free they made the machine's faults the cluster's). None when no time had
    passed.
    """
    total = sum(after) - sum(before)
    free = sum(getattr(after, name) - getattr(before, name) for name in ("idle", "iowait"))
    return round(1 - free / total, 4) if total > 0 else None


def places(numbers: Sequence[int], online: Path = ONLINE) -> list[int]:
    """Where ``psutil.cpu_times(percpu=True)`` has the processors of these numbers: it lists those alone that work."""
    order: list[int] = list(range(psutil.cpu_count() or 1))
    with suppress(OSError, ValueError):
        parts = [part.partition("-") for part in online.read_text().strip().split(",")]
        order = [number for first, _, last in parts for number in range(int(first), int(last or first) + 1)]
    return [order.index(number) for number in numbers if number in order]


def busy_of(before: Sequence[Any], after: Sequence[Any], some: Sequence[int]) -> float | None:
    """As :func:`busy`, of the processors at these places alone; None when one of them is not there any more."""
    if len(before) != len(after) or any(place >= len(after) for place in some):
        return None
    shares = [busy(before[place], after[place]) for place in some]
    known = [share for share in shares if share is not None]
    return round(sum(known) / len(known), 4) if known and len(known) == len(shares) else None
