"""What every driver writes of a load: rows of arrivals, figures of each second, its share where there are several."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from chaos.history.format import ARRIVAL, SCHEDULED
from chaos.load.config import ClosedConfig, OperationConfig, Part
from chaos.load.schedule import Share

ROW = struct.Struct("<QBBHBBBBqqq")
PLAN_ROW = struct.Struct("<QBq")
assert ROW.size == ARRIVAL.itemsize and PLAN_ROW.size == SCHEDULED.itemsize


class Second:
    """What happened in the current second, per operation, for the status line and the driver's validity."""

    def __init__(self, operations: int) -> None:
        self.lags: list[int] = []
        self.dropped = 0
        self.ok = [0] * operations
        self.bad = [0] * operations
        self.good = [0] * operations
        self.latencies: list[list[int]] = [[] for _ in range(operations)]

    def words(
        self, every: Sequence[OperationConfig | ClosedConfig], waiting: Sequence[int]
    ) -> dict[str, dict[str, Any]]:
        """The figures of each operation, as the status has them. ``waiting``: of each, how many requests are under
        way."""
        return {
            operation.name: {
                "ok": self.ok[op],
                "bad": self.bad[op],
                "good": self.good[op],
                "waiting": waiting[op],
                "p50_ms": percentile_ms(self.latencies[op], 0.5),
                "p99_ms": percentile_ms(self.latencies[op], 0.99),
            }
            for op, operation in enumerate(every)
        }


def percentile_ms(times_ns: list[int], share: float) -> float | None:
    if not times_ns:
        return None
    times_ns.sort()
    return round(times_ns[min(len(times_ns) - 1, int(share * len(times_ns)))] / 1e6, 3)


def share_of(part: Part) -> Share:
    """The arrivals of a process."""
    return Share(part.operations, part.first, part.of, part.process, part.processes)


def clients_of(share: Share, op: int, clients: int) -> int:
    """How many clients of a closed loop a process has."""
    return len(range(share.first, clients, share.of)) if share.has(op) else 0


def of_several(part: Part) -> dict[str, int]:
    """What the start of one of several processes says beside."""
    return {} if part.processes == 1 else {"process": part.process, "processes": part.processes}
