"""When the arrivals of a rate that changes, or of a list, come, for a load that is on before they begin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from chaos.base.rates import Piece, Profile, Trace

_SECOND = 1_000_000_000


class VaryingRate:
    """A rate that changes, on the clock of a load: seconds from the load's start.

    It is as in its first moment until :meth:`begin` says when it begins to change, which is not known when the load
    starts. Raises ValueError where the pieces make no rate.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.profile = Profile(pieces)
        self.zero = math.inf
        self._before = np.array([self.profile.number(at) for at, *_ in self.profile.pieces])
        self._at, self._first, last = np.array(self.profile.pieces, np.float64).T
        self._slope = np.append((last - self._first)[:-1] / np.diff(self._at), 0.0)

    def begin(self, seconds: float) -> None:
        """It begins to change at this moment."""
        self.zero = seconds

    @property
    def _waited(self) -> float:
        """How many arrivals are expected before it begins to change."""
        return self.profile.first * self.zero if self.profile.first else 0.0

    def number(self, seconds: float) -> float:
        """How many arrivals are expected from the load's start until then: the integral of the rate."""
        if seconds <= self.zero:
            return max(0.0, self.profile.first * seconds)
        return self._waited + self.profile.number(seconds - self.zero)

    def when(self, numbers: np.ndarray) -> np.ndarray:
        """The seconds at which :meth:`number` reaches each of ``numbers`` (0 or more); infinite where it never does."""
        found = np.full(len(numbers), np.inf)
        early = numbers < self._waited
        if early.any():  # only where the first rate is above 0
            found[early] = numbers[early] / self.profile.first
        if math.isfinite(self.zero):
            found[~early] = self.zero + self._after(numbers[~early] - self._waited)
        return found

    def _after(self, numbers: np.ndarray) -> np.ndarray:
        """The seconds from when it begins to change, as of :meth:`when`."""
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


class ListedTimes:
    """Arrivals at listed moments, on the clock of a load; at a constant rate until :meth:`begin` says when they begin.

    Raises ValueError where the times make no list.
    """

    def __init__(self, times: Sequence[float], before: float) -> None:
        self.before = Trace(times, before).first
        self._times = np.round(np.asarray(times, np.float64) * _SECOND).astype(np.int64)
        self.zero: int | None = None
        """When the list begins (ns from the load's start); None: it has not been told."""

    def begin(self, seconds: float) -> None:
        """The list begins at this moment."""
        self.zero = round(seconds * _SECOND)

    def times(self, begin: int, end: int) -> np.ndarray:
        """The listed arrivals (int64 ns from the load's start, ascending) in ``[begin, end)``."""
        if self.zero is None:
            return self._times[:0]
        first, last = np.searchsorted(self._times, [begin - self.zero, end - self.zero], side="left")
        found: np.ndarray = self._times[first:last] + self.zero
        return found


AnyRate: TypeAlias = "float | VaryingRate | ListedTimes"
"""As a schedule takes it."""


def rate_of(rate: float, changes: Sequence[Piece], times: Sequence[float] = (), before: float = 0.0) -> AnyRate:
    """The rate of an operation, as a schedule takes it."""
    if times:
        return ListedTimes(times, before)
    return VaryingRate(changes) if changes else rate
