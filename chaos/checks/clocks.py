"""Time that was not the cluster's, summed up, so that it can be asked for between any two moments of many arrivals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from chaos.checks.record import SECOND, Floats, Ints

Stretch = tuple[int, int]
"""From and to, in ns."""


class Clock:
    """Stretches of time, none of which overlaps another, and how much of each (0..1) was not the cluster's."""

    def __init__(self, start: Ints, end: Ints, share: Floats) -> None:
        """In the order of time."""
        self.start, self.end, self.share = start, end, share
        self._edges = np.empty(2 * len(start), np.float64)
        self._edges[0::2], self._edges[1::2] = start, end
        sums = np.concatenate([[0], np.cumsum(share * (end - start))]).astype(np.float64)
        self._sums = np.empty(2 * len(start), np.float64)
        self._sums[0::2], self._sums[1::2] = sums[:-1], sums[1:]

    @staticmethod
    def of(stretches: Iterable[Stretch]) -> Clock:
        """Wholly not the cluster's; they may overlap."""
        whole = np.array(united(stretches), np.int64).reshape(-1, 2)
        return Clock(whole[:, 0], whole[:, 1], np.ones(len(whole)))

    def between(self, start: Ints, end: Ints) -> Floats:
        """Seconds in each [start, end] (ns). Where nothing is known, none."""
        if not len(self._edges):
            return np.zeros(len(start))
        found: Floats = np.interp(end, self._edges, self._sums) - np.interp(start, self._edges, self._sums)
        return found / SECOND

    def joined(self, other: Clock) -> Clock:
        """At each moment the larger share of the two, so that nothing counts twice."""
        edges = np.unique(np.concatenate([self.start, self.end, other.start, other.end]))
        if len(edges) < 2:
            return self
        middle = edges[:-1] + np.diff(edges) // 2
        return Clock(edges[:-1], edges[1:], np.maximum(self._at(middle), other._at(middle)))

    def _at(self, t: Ints) -> Floats:
        """The share at each moment."""
        if not len(self.start):
            return np.zeros(len(t))
        place = np.searchsorted(self.start, t, side="right") - 1
        inside = (place >= 0) & (t < self.end[place])
        return np.where(inside, self.share[place], 0.0)


def united(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The same time as stretches that do not overlap, in order."""
    found: list[Stretch] = []
    for start, end in sorted((start, end) for start, end in stretches if end > start):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def without(stretch: Stretch, others: Sequence[Stretch]) -> list[Stretch]:
    """What is left of a stretch when ``others`` (united) are taken out of it."""
    found, at = [], stretch[0]
    for start, end in others:
        if end <= at or start >= stretch[1]:
            continue
        if start > at:
            found.append((at, start))
        at = end
    return [*found, (at, stretch[1])] if at < stretch[1] else found


def length(stretches: Iterable[Stretch]) -> float:
    """Seconds in all."""
    return sum(end - start for start, end in stretches) / SECOND
