"""A rate of arrivals that changes with time: steps and ramps, and what follows from them by arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

Piece = tuple[float, float, float]
"""From when (seconds from the load's start), at which rate (per second) it begins, and at which it ends. The last piece
never ends, so its two rates are the same."""


def steps(*given: tuple[float, float]) -> tuple[Piece, ...]:
    """Pieces of a rate that stays: ``(from when, rate)``."""
    return tuple((at, rate, rate) for at, rate in given)


def ramp(first: float, last: float, over: float) -> tuple[Piece, ...]:
    """Pieces of a rate that grows, or falls, evenly for ``over`` seconds, and then stays."""
    return (0.0, first, last), (over, last, last)


class Profile:
    """A rate that changes. Raises ValueError where the pieces make none. Before its first piece nothing arrives."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        if not pieces or pieces[0][0] != 0:
            raise ValueError("the first piece of a rate begins at 0 s")
        if any(later <= earlier for (earlier, *_), (later, *_) in pairwise(pieces)):
            raise ValueError(
                f"the pieces of a rate begin one after the other, and not at {[at for at, *_ in pieces]} s"
            )
        table = np.array(pieces, np.float64)
        self._at, self._first, self._last = table.T
        if not np.isfinite(table).all() or (table < 0).any():
            raise ValueError("a rate and its times are finite, and never below 0")
        if self._first[-1] != self._last[-1]:
            raise ValueError("the last piece of a rate never ends, so it stays as it begins")
        if not self._first.any() and not self._last.any():
            raise ValueError("a rate of 0 all the time: no request would ever be sent")
        lengths = np.diff(self._at)
        self._slope = np.append((self._last - self._first)[:-1] / lengths, 0.0)
        whole = (self._first + self._last)[:-1] / 2 * lengths
        self._before = np.append(0.0, np.cumsum(whole))

    @property
    def most(self) -> float:
        """The highest rate, per second."""
        return float(max(self._first.max(), self._last.max()))

    def number(self, seconds: float) -> float:
        """How many arrivals are expected from the start until then: the integral of the rate."""
        if seconds <= 0:
            return 0.0
        piece = int(np.searchsorted(self._at, seconds, side="right")) - 1
        into = seconds - self._at[piece]
        return float(self._before[piece] + (self._first[piece] + self._slope[piece] * into / 2) * into)

    def when(self, numbers: np.ndarray) -> np.ndarray:
        """The seconds at which :meth:`number` reaches each of ``numbers`` (0 or more); infinite where it never does."""
        piece = np.searchsorted(self._before, numbers, side="right") - 1
        missing = np.maximum(numbers - self._before[piece], 0)
        first, slope = self._first[piece], self._slope[piece]
        speed = first + np.sqrt(np.maximum(first * first + 2 * slope * missing, 0))
        into = np.full(len(numbers), np.inf)
        np.divide(2 * missing, speed, out=into, where=speed > 0)
        into[missing == 0] = 0
        ends = np.append(self._at[1:], np.inf)  # rounding must not carry an arrival into the next piece
        found: np.ndarray = np.minimum(self._at[piece] + into, ends[piece])
        return found
