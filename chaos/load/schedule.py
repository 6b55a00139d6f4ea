"""When arrivals are wanted: an open-loop plan that no answer can slow down.

A pure function of the operations, the law and the seed. Time is cut into windows of any size; the plan is
the same however it is cut, because every arrival's time follows from its own number (uniform) or from the
whole second it lies in (poisson: a Poisson count per second, spread evenly at random within it, which is the
same process as exponential gaps).

Of a rate that changes, both laws hold for its integral: evenly spaced arrivals come where it passes whole numbers and
the shift, and random ones are spread over what it grows by in a second. It begins to change at a moment that is told
while the load is on (:meth:`Schedule.begin`); what was planned before is what is planned with that moment known.
Of a list of times both laws hold until that moment, and then its arrivals are those that are listed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from chaos.history.format import SCHEDULED
from chaos.load.rates import AnyRate, ListedTimes, VaryingRate

SECOND = 1_000_000_000
_MARGIN = 1e-3  # of a period: keeps an even plan's arrivals off the edges of seconds, where rounding decides


class Share(NamedTuple):
    """Which arrivals of a load one process sends.

    Of each of ``operations`` (their numbers; None: all) every ``of``-th, from ``first`` on. So processes that share an
    operation have the same rate at every moment, each knows its own arrivals without asking another, and none is tied
    to an operation or a zone, as it might be if all arrivals of a load were dealt out in turn. ``process`` of
    ``processes`` in all: arrivals have the numbers that leave this rest, so no two have the same.
    """

    operations: tuple[int, ...] | None = None
    first: int = 0
    of: int = 1
    process: int = 0
    processes: int = 1

    def has(self, op: int) -> bool:
        return self.operations is None or op in self.operations


ALL = Share()
"""That of the only process."""


class Schedule:
    """The plan of one load, or of a process's share of it. Times are ns from its start; arrivals are numbered from 0
    over all operations.

    ``rates``: arrivals per second of each operation, how they change, or when they come. ``law``: ``uniform``
    (evenly spaced per operation, the operations shifted against each other by a seeded fraction of their period) or
    ``poisson``.
    """

    def __init__(self, rates: Sequence[AnyRate], law: str, seed: int, share: Share = ALL) -> None:
        if law not in ("uniform", "poisson"):
            raise ValueError(f"unknown arrival law {law!r}")
        self.rates = tuple(rate if isinstance(rate, VaryingRate | ListedTimes) else float(rate) for rate in rates)
        self.law = law
        self.seed = seed
        self._shift = [
            _MARGIN + (1 - 2 * _MARGIN) * float(np.random.default_rng([seed, op]).random())
            for op in range(len(self.rates))
        ]
        self._planned_to = 0
        self._share = share
        self._gone = [0] * len(self.rates)
        self._next_k = 0

    def begin(self, at: int) -> int:
        """Rates that change begin to at this time. It is to be later than all that is planned, which stays as it is.
        Returns by how much (ns) it is not."""
        for rate in self.rates:
            if isinstance(rate, VaryingRate | ListedTimes):
                rate.begin(at / SECOND)
        return max(0, self._planned_to - at)

    def times(self, op: int, begin: int, end: int) -> np.ndarray:
        """The times (int64 ns, ascending) of one operation's arrivals in ``[begin, end)``."""
        if end <= begin:
            return np.zeros(0, np.int64)
        rate = self.rates[op]
        if isinstance(rate, ListedTimes):
            until = end if rate.zero is None else max(begin, min(end, rate.zero))
            listed = rate.times(until, end)
            if until == begin:
                return listed
            return np.concatenate([self._by_law(op, rate.before, begin, until), listed])
        return self._by_law(op, rate, begin, end)

    def _by_law(self, op: int, rate: float | VaryingRate, begin: int, end: int) -> np.ndarray:
        return self._even(op, rate, begin, end) if self.law == "uniform" else self._random(op, rate, begin, end)

    def _even(self, op: int, rate: float | VaryingRate, begin: int, end: int) -> np.ndarray:
        shift = self._shift[op]
        if isinstance(rate, VaryingRate):
            return self._even_in(rate, shift, begin, end)
        first = max(0, math.floor(begin * rate / SECOND - shift) - 1)
        last = math.ceil(end * rate / SECOND - shift) + 1
        numbers = np.arange(first, last + 1, dtype=np.float64)
        times = ((numbers + shift) / rate * SECOND).astype(np.int64)
        return times[(times >= begin) & (times < end)]

    @staticmethod
    def _even_in(rate: VaryingRate, shift: float, begin: int, end: int) -> np.ndarray:
        first = max(0, math.floor(rate.number(begin / SECOND) - shift) - 1)
        last = math.ceil(rate.number(end / SECOND) - shift) + 1
        seconds = rate.when(np.arange(first, last + 1, dtype=np.float64) + shift)
        times = (seconds[np.isfinite(seconds)] * SECOND).astype(np.int64)
        own: np.ndarray = times[(times >= begin) & (times < end)]
        return own

    def _random(self, op: int, rate: float | VaryingRate, begin: int, end: int) -> np.ndarray:
        seconds = range(begin // SECOND, (end - 1) // SECOND + 1)
        times = np.concatenate([self._random_second(op, rate, second) for second in seconds])
        return times[(times >= begin) & (times < end)]

    def _random_second(self, op: int, rate: float | VaryingRate, second: int) -> np.ndarray:
        rng = np.random.default_rng([self.seed, op, second])
        if isinstance(rate, VaryingRate):
            before = rate.number(second)
            grown = max(0.0, rate.number(second + 1) - before)  # at rest rounding may leave a little less than nothing
            numbers = before + np.sort(rng.random(rng.poisson(grown))) * grown
            times = (rate.when(numbers) * SECOND).astype(np.int64)
            inside: np.ndarray = times.clip(second * SECOND, (second + 1) * SECOND - 1)
            return inside
        count = rng.poisson(rate)
        return np.sort(rng.integers(0, SECOND, size=count)) + second * SECOND

    def take(self) -> int:
        """The number of an arrival that is in no plan: of a closed loop."""
        self._next_k += 1
        return int(self._number(self._next_k - 1))

    def _number(self, place: Any) -> Any:
        """The number of this process's arrival in a place (from 0), or an array of them."""
        return place * self._share.processes + self._share.process

    def until(self, end: int) -> np.ndarray:
        """The next arrivals, from where the last call ended, up to (not including) ``end``.

        Rows of dtype :data:`~chaos.history.format.SCHEDULED` in the order of ``intended``; ``k`` goes on.
        """
        parts = [self._own(op, self.times(op, self._planned_to, end)) for op in range(len(self.rates))]
        self._planned_to = max(self._planned_to, end)
        intended = np.concatenate(parts)
        ops = np.repeat(np.arange(len(parts), dtype=np.uint8), [len(part) for part in parts])
        order = np.argsort(intended, kind="stable")  # a tie goes to the earlier operation
        rows = np.zeros(len(intended), SCHEDULED)
        rows["k"] = self._number(self._next_k + np.arange(len(rows), dtype=np.int64))
        rows["op"] = ops[order]
        rows["intended"] = intended[order]
        self._next_k += len(rows)
        return rows

    def _own(self, op: int, times: np.ndarray) -> np.ndarray:
        """Those of an operation's next arrivals that are of this share."""
        share, gone = self._share, self._gone[op]
        self._gone[op] += len(times)
        if not share.has(op):
            return times[:0]
        return times if share.of == 1 else times[(share.first - gone) % share.of :: share.of]
