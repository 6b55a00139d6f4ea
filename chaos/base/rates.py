"""A rate of arrivals that changes with time: pieces of straight lines, or a list of the arrivals themselves, and what
follows from them by arithmetic.

Times are seconds from the zero of the rate, which is the begin of a run's first phase.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from chaos.base.units import Duration, Rate

Piece = tuple[float, float, float]
"""From when (s), at which rate (per second) it begins, and at which it ends. The last piece never ends, so its two
rates are the same."""


def steps(*given: tuple[float, float]) -> tuple[Piece, ...]:
    """Pieces of a rate that stays: ``(from when, rate)``."""
    return tuple((at, rate, rate) for at, rate in given)


def ramp(first: float, last: float, over: float) -> tuple[Piece, ...]:
    """Pieces of a rate that grows, or falls, evenly for ``over`` seconds, and then stays."""
    return (0.0, first, last), (over, last, last)


class Profile:
    """A rate that changes. Before its zero it is as in its first moment.

    Raises ValueError where the pieces make none.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        if not pieces or pieces[0][0] != 0:
            raise ValueError("the first piece of a rate begins at 0 s")
        if any(later <= earlier for (earlier, *_), (later, *_) in pairwise(pieces)):
            raise ValueError(
                f"the pieces of a rate begin one after the other, and not at {[at for at, *_ in pieces]} s"
            )
        if any(not math.isfinite(value) or value < 0 for piece in pieces for value in piece):
            raise ValueError("a rate and its times are finite, and never below 0")
        if pieces[-1][1] != pieces[-1][2]:
            raise ValueError("the last piece of a rate never ends, so it stays as it begins")
        if not any(first or last for _, first, last in pieces):
            raise ValueError("a rate of 0 all the time: no request would ever be sent")
        self.pieces = tuple((float(at), float(first), float(last)) for at, first, last in pieces)
        self._at = [at for at, *_ in self.pieces]
        self._slopes = [
            *((last - first) / (later - at) for (at, first, last), (later, *_) in pairwise(self.pieces)),
            0.0,
        ]
        self._before = [0.0]
        """How many are expected from the zero to the begin of each piece."""
        for (at, first, last), (later, *_) in pairwise(self.pieces):
            self._before.append(self._before[-1] + (first + last) / 2 * (later - at))

    @property
    def first(self) -> float:
        """The rate (per second) with which it begins, and before."""
        return self.pieces[0][1]

    @property
    def lowest(self) -> float:
        """The lowest rate, per second."""
        return min(min(first, last) for _, first, last in self.pieces)

    @property
    def highest(self) -> float:
        """The highest rate, per second."""
        return max(max(first, last) for _, first, last in self.pieces)

    def number(self, seconds: float) -> float:
        """How many arrivals are expected from the zero until then: the integral of the rate; below 0 before."""
        if seconds <= 0:
            return self.first * seconds
        piece = bisect_right(self._at, seconds) - 1
        into = seconds - self._at[piece]
        return self._before[piece] + (self.pieces[piece][1] + self._slopes[piece] * into / 2) * into

    def expected(self, begin: float, end: float) -> float:
        """How many arrivals are expected from one moment to another."""
        return max(0.0, self.number(end) - self.number(begin))

    def most(self, begin: float, end: float) -> float:
        """The highest rate (per second) from one moment to another."""
        return max(rate for _, rate in self.corners(begin, end))

    def corners(self, begin: float, end: float) -> Iterator[tuple[float, float]]:
        """(When, the rate then) where its line bends or jumps, from one moment to another, both with them."""
        yield begin, self._rate(begin)
        before = self.first
        for at, first, last in self.pieces:
            if begin < at < end:
                yield at, before
                if first != before:
                    yield at, first
            before = last
        yield end, self._rate(end, before=True)

    def _rate(self, seconds: float, *, before: bool = False) -> float:
        """The rate at a moment; where it jumps the one after that, or ``before`` it."""
        if seconds <= 0:
            return self.first
        piece = bisect_right(self._at, seconds) - 1
        if before and seconds == self._at[piece]:
            return self.pieces[piece - 1][2]
        return self.pieces[piece][1] + self._slopes[piece] * (seconds - self._at[piece])

    @property
    def text(self) -> str:
        """In words: ``40/s, evenly to 120/s from 30s to 90s``."""
        said, now = [Rate(self.first).text], self.first
        for (at, first, last), (end, *_) in zip(self.pieces, [*self.pieces[1:], (math.inf, 0.0, 0.0)], strict=True):
            if first != now:
                said.append(f"{Rate(first).text} from {Duration(at).text}")
            if last != first:
                said.append(f"evenly to {Rate(last).text} from {Duration(at).text} to {Duration(end).text}")
            now = last
        return ", ".join(said)


class Trace:
    """Arrivals that were listed: one at each of ``times`` (s from the zero, ascending), and then no more.

    Before its zero they come at the rate ``before`` (per second; None: their mean). It answers what a :class:`Profile`
    does. Where a rate at a moment is asked for it is the number of arrivals in the whole second around it.
    Raises ValueError where the times make no list.
    """

    def __init__(self, times: Sequence[float], before: float | None = None) -> None:
        if not times:
            raise ValueError("a list of times has one at least")
        if before is not None and (not math.isfinite(before) or before <= 0):
            raise ValueError("the rate before a list of times is finite, and above 0")
        if any(not math.isfinite(at) or at < 0 for at in times):
            raise ValueError("times of arrivals are finite, and never below 0")
        if any(later < earlier for earlier, later in pairwise(times)):
            raise ValueError("times of arrivals stand in ascending order")
        self.times = tuple(float(at) for at in times)
        self.first = self.mean if before is None else float(before)
        self._seconds = Counter(int(at) for at in self.times)

    @property
    def last(self) -> float:
        """When the last one comes (s)."""
        return self.times[-1]

    @property
    def mean(self) -> float:
        """Arrivals per second from the zero to the end of the last one's second."""
        return len(self.times) / (math.floor(self.last) + 1)

    @property
    def highest(self) -> float:
        """The highest rate, per second, of any whole second or before the zero."""
        return float(max(self.first, *self._seconds.values()))

    def number(self, seconds: float) -> float:
        """How many arrivals come from the zero until then (without one at that moment); below 0 before."""
        return self.first * seconds if seconds <= 0 else float(bisect_left(self.times, seconds))

    def expected(self, begin: float, end: float) -> float:
        """How many arrivals come from one moment to another."""
        return max(0.0, self.number(end) - self.number(begin))

    def most(self, begin: float, end: float) -> float:
        """The highest rate (per second) of a whole second that lies, also in part, between two moments."""
        return max(rate for _, rate in self.corners(begin, end))

    def corners(self, begin: float, end: float) -> Iterator[tuple[float, float]]:
        """(When, the rate then) where its line jumps, from one moment to another, both with them."""
        rate = self._rate(begin)
        yield begin, rate
        for second in range(max(0, math.floor(begin) + 1), math.ceil(end)):
            if (later := self._rate(second)) != rate:
                yield second, rate
                yield second, later
                rate = later
        yield end, rate

    def _rate(self, seconds: float) -> float:
        return self.first if seconds < 0 else float(self._seconds[int(seconds)])

    @property
    def text(self) -> str:
        """In words: ``1,200 arrivals listed over 1m, 20/s before``."""
        several = "arrival" if len(self.times) == 1 else "arrivals"
        over = Duration(math.floor(self.last) + 1).text
        return f"{len(self.times):,} {several} listed over {over}, {Rate(self.first).text} before"
