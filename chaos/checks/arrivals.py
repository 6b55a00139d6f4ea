"""The arrivals of one operation as checks see them: parallel columns in the order of the intended time.

Outside, :class:`Arrivals` gives plain arrays. Inside they are kept in parts of up to a quarter of a million, 18 bytes
an arrival: ``intended`` 4 and ``k`` 1 (steps from one to the next), ``start`` and ``end`` 4 each (ns after
``intended``), and 1 each for ``outcome``, ``good``, ``phase``, ``client`` and ``node``. A part in which a number does
not fit (an answer after more than 4.29 s, two arrivals farther apart than that) keeps that column as int64: at worst 8
bytes for each of the four. A phase, a stretch of time or a selection shares the parts that lie wholly inside.

The columns (``intended`` ... ``node``) and :meth:`Arrivals.where` make new arrays of the whole length when they are
asked for (the two asked for last are kept, up to 8 million rows): ask once, never in a loop over windows, nodes or
seconds. What needs no memory to speak of, for any number of arrivals: :meth:`Arrivals.pieces` (one small part at a
time), :meth:`Arrivals.between`, :meth:`Arrivals.in_phase`, :attr:`Arrivals.counts`, :meth:`Arrivals.ranked`,
:func:`binned` and :func:`per_window`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from chaos.history.format import Outcome

SECOND = 1_000_000_000
UNANSWERED = (Outcome.REFUSED, Outcome.RESET, Outcome.TIMEOUT, Outcome.DROPPED, Outcome.UNKNOWN)
"""Outcomes without an HTTP answer: their latency is not a number, it is "longer than anyone waited"."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Compact = npt.NDArray[Any]

_NEVER = np.uint32(2**32 - 1)
"""Stands for "there was none" among times that are kept as ns after the intended one."""
_KEPT_ROWS, _KEPT_COLUMNS = 1 << 23, 2
"""Columns that were asked for and are kept: code that asks in a loop shall not take hours."""
_CODES = ("outcome", "good", "phase", "client", "node")
"""The columns of one byte."""
_IS_UNANSWERED = np.isin(np.arange(256), [int(item) for item in UNANSWERED])


@dataclass(frozen=True, eq=False)
class _Steps:
    """Ascending numbers as the first one and the steps between them (the first step is 0), in few bytes."""

    first: int
    steps: Compact
    """Of type int64: the numbers themselves, because a step is too large for 4 bytes or negative."""

    @classmethod
    def of(cls, numbers: Ints) -> _Steps:
        steps = np.diff(numbers, prepend=numbers[:1])
        low, high = (int(steps.min()), int(steps.max())) if len(steps) else (0, 0)
        if low < 0 or high >= 2**32:
            return cls(0, np.ascontiguousarray(numbers, np.int64))
        return cls(int(numbers[0]) if len(numbers) else 0, steps.astype(np.uint8 if high < 256 else np.uint32))

    def numbers(self) -> Ints:
        return self.steps if self.steps.dtype == np.int64 else _added_up(self)


@lru_cache(maxsize=8)  # a walk over windows asks for the same part again and again
def _added_up(spaced: _Steps) -> Ints:
    found = np.cumsum(spaced.steps, dtype=np.int64)
    found += spaced.first
    found.flags.writeable = False
    return found


@dataclass(frozen=True)
class _Part:
    """Some arrivals in a row. ``start`` and ``end``: see :func:`_after`. ``forgiven``: whose latency is ``pardon``."""

    spaced: _Steps
    """The intended times."""
    numbered: _Steps
    """The ``k``."""
    start: Compact
    end: Compact
    outcome: Compact
    good: Bools
    phase: Compact
    client: Compact
    node: Compact
    forgiven: Bools | None = None
    pardon: float = 0.0

    def __len__(self) -> int:
        return len(self.outcome)

    def of(self, rows: slice | Bools) -> _Part:
        """The part's ``rows``."""
        rest: dict[str, Any] = {name: getattr(self, name)[rows] for name in ("start", "end", *_CODES)}
        forgiven = None if self.forgiven is None else self.forgiven[rows]
        spaced, numbered = (_Steps.of(each.numbers()[rows]) for each in (self.spaced, self.numbered))
        return _Part(spaced, numbered, **rest, forgiven=forgiven, pardon=self.pardon)

    def selected(self, mask: Bools) -> _Part:
        return self if mask.all() else self.of(mask)

    def column(self, name: str) -> npt.NDArray[Any]:
        """One of the columns of :class:`Arrivals`, in its full width."""
        if name == "latency":
            return self.latency()
        if name in ("intended", "k"):
            return (self.spaced if name == "intended" else self.numbered).numbers()
        kept: Compact = getattr(self, name)
        if name in ("start", "end"):
            return _moment(kept, self.spaced)
        return kept if name == "good" else kept.astype(np.int64)

    def latency(self) -> Floats:
        kept = self.end
        never = kept == _NEVER if kept.dtype == np.uint32 else kept <= 0
        found: Floats = np.divide(kept if kept.dtype == np.uint32 else kept - self.spaced.numbers(), SECOND)
        found[never | _IS_UNANSWERED[self.outcome]] = np.inf
        if self.forgiven is not None:
            found[self.forgiven] = self.pardon
        return found

    @cached_property
    def times(self) -> tuple[int, int]:
        """The first and the last intended time (ns)."""
        intended = self.spaced.numbers()
        return int(intended[0]), int(intended[-1])

    @cached_property
    def phases(self) -> tuple[int, int]:
        """The lowest and the highest phase."""
        return int(self.phase.min()), int(self.phase.max())

    @cached_property
    def counts(self) -> Ints:
        key = self.outcome.astype(np.intp) * 2 + self.good
        return np.bincount(key, minlength=2 * len(Outcome)).reshape(-1, 2)


class Arrivals:
    """The arrivals of one operation, in the order of their intended time; what is cheap and what is not: see above.

    ``end`` and ``start`` are 0 where there was none. ``latency`` is in seconds from the intended start, inf
    where unanswered. ``phase`` is the index of the phase that the arrival counts for, -1 for none. ``k`` is
    the arrival's number, ``client`` and ``node`` point into :attr:`Record.clients` and :attr:`Record.nodes`
    (the client host that sent it, the node that it was sent to), -1 for none.
    """

    def __init__(self, parts: Iterable[_Part] = ()) -> None:
        self._parts = tuple(part for part in parts if len(part))
        self._length = sum(len(part) for part in self._parts)
        self._by_phase: dict[int, Arrivals] = {}
        self._ranked: dict[int, float] = {}
        self._kept: dict[str, npt.NDArray[Any]] = {}

    @classmethod
    def of(
        cls,
        *,
        intended: Ints,
        start: Ints,
        end: Ints,
        outcome: Compact,
        phase: Compact,
        k: Compact,
        client: Compact,
        node: Compact,
        good_within: float,
    ) -> Arrivals:
        """From whole columns, which become one part. Good: ok within ``good_within`` s of the intended start."""
        part = _Part(
            spaced=_Steps.of(intended),
            numbered=_Steps.of(k.astype(np.int64)),
            start=_after(start, intended),
            end=_after(end, intended),
            outcome=outcome.astype(np.uint8),
            good=np.zeros(len(intended), bool),
            phase=_code(phase),
            client=_code(client),
            node=_code(node),
        )
        good = (part.outcome == Outcome.OK) & (part.latency() <= good_within)
        return cls([replace(part, good=good)])

    @classmethod
    def joined(cls, several: Iterable[Arrivals]) -> Arrivals:
        """All of some, by their intended time; of equal ones the earlier given comes first."""
        whole = cls(part for one in several for part in one._parts)
        if all(_ascending(part.spaced) for part in whole._parts) and all(
            one.times[1] <= other.times[0] for one, other in itertools.pairwise(whole._parts)
        ):
            return whole
        order = np.argsort(whole.intended, kind="stable")
        intended, k, start, end = (getattr(whole, name)[order] for name in ("intended", "k", "start", "end"))
        rest: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in whole._parts])[order] for name in _CODES
        }
        rest |= {"start": _after(start, intended), "end": _after(end, intended)}
        return cls([_Part(_Steps.of(intended), _Steps.of(k), **rest)])

    def __len__(self) -> int:
        return self._length

    @property
    def intended(self) -> Ints:
        return self._column("intended", np.int64)

    @property
    def start(self) -> Ints:
        return self._column("start", np.int64)

    @property
    def end(self) -> Ints:
        return self._column("end", np.int64)

    @property
    def latency(self) -> Floats:
        return self._column("latency", np.float64)

    @property
    def outcome(self) -> Ints:
        return self._column("outcome", np.int64)

    @property
    def good(self) -> Bools:
        return self._column("good", np.bool_)

    @property
    def phase(self) -> Ints:
        return self._column("phase", np.int64)

    @property
    def k(self) -> Ints:
        return self._column("k", np.int64)

    @property
    def client(self) -> Ints:
        return self._column("client", np.int64)

    @property
    def node(self) -> Ints:
        return self._column("node", np.int64)

    def _column(self, name: str, dtype: Any) -> npt.NDArray[Any]:
        if name in self._kept:
            return self._kept[name]
        if len(self) <= _KEPT_ROWS:
            for oldest in list(self._kept)[: len(self._kept) + 1 - _KEPT_COLUMNS]:
                del self._kept[oldest]
            self._kept[name] = self._made(name, dtype)
            return self._kept[name]
        return self._made(name, dtype)

    def _made(self, name: str, dtype: Any) -> npt.NDArray[Any]:
        if len(self._parts) == 1:
            return self._parts[0].column(name)
        whole = np.empty(len(self), dtype)
        at = 0
        for part in self._parts:
            whole[at : at + len(part)] = part.column(name)
            at += len(part)
        return whole

    def where(self, mask: Bools) -> Arrivals:
        """Those for which ``mask`` (one for each) is true."""
        ends = list(itertools.accumulate(len(part) for part in self._parts))
        return Arrivals(part.selected(mask[end - len(part) : end]) for part, end in zip(self._parts, ends, strict=True))

    def pieces(self) -> Iterator[Arrivals]:
        """All arrivals in their order, a small part at a time, of which arrays cost no memory to speak of."""
        return (Arrivals([part]) for part in self._parts)

    def between(self, start: int, end: int) -> Arrivals:
        """Those intended in [start, end) ns."""
        found = []
        for part in self._parts:
            first, last = part.times
            if start <= first and last < end:
                found.append(part)
            elif first < end and last >= start:
                low, high = np.searchsorted(part.spaced.numbers(), [start, end])
                found.append(part.of(slice(int(low), int(high))))
        return Arrivals(found)

    def in_phase(self, index: int) -> Arrivals:
        """Those that count for the phase number ``index``; found once."""
        if index not in self._by_phase:
            near = [part for part in self._parts if part.phases[0] <= index <= part.phases[1]]
            self._by_phase[index] = Arrivals(
                part if part.phases == (index, index) else part.of(part.phase == index) for part in near
            )
        return self._by_phase[index]

    @cached_property
    def counts(self) -> Ints:
        """How many, by outcome (row: its code) and goodness (column: not good, good). Counted once."""
        return sum((part.counts for part in self._parts), np.zeros((len(Outcome), 2), np.int64))

    @cached_property
    def answered(self) -> int:
        """How many have a latency."""
        return sum(int(np.isfinite(part.latency()).sum()) for part in self._parts)

    @property
    def last(self) -> int | None:
        """The last intended time (ns); None when there are no arrivals."""
        return self._parts[-1].times[1] if self._parts else None

    def ranked(self, ranks: Sequence[int]) -> list[float]:
        """The ``ranks``-th smallest latencies (s; 1: the smallest), exactly. Several at once cost little more."""
        new = sorted(set(ranks) - self._ranked.keys())
        if new:
            found = ranked(lambda: (part.latency() for part in self._parts), new)
            self._ranked.update(zip(new, found, strict=True))
        return [self._ranked[rank] for rank in ranks]

    def with_good(self, good: Bools) -> Arrivals:
        """The same with another answer to which of them (one for each) are good."""
        ends = list(itertools.accumulate(len(part) for part in self._parts))
        return Arrivals(
            replace(part, good=good[end - len(part) : end]) for part, end in zip(self._parts, ends, strict=True)
        )

    def forgiving(self, forgivable: Callable[[Arrivals], Bools], latency: float) -> Arrivals:
        """With those that ``forgivable`` picks (it is given a piece) as good, after ``latency`` seconds."""
        found = []
        for part in self._parts:
            mask = forgivable(Arrivals([part]))
            found.append(replace(part, good=part.good | mask, forgiven=mask, pardon=latency) if mask.any() else part)
        return Arrivals(found)


FEW = 100_000
"""So many numbers are sorted sooner than :func:`ranked` has looked through its buckets, of which most are empty."""


def ranked(values: Callable[[], Iterable[Floats]], ranks: Sequence[int], few: int = FEW) -> list[float]:
    """The ``ranks``-th smallest (1 is the smallest) of many values, exactly, in two passes and with little memory.

    ``values`` gives them in arrays, the same ones each time. A ``few`` are sorted as they are. Of more the first pass
    counts them in buckets (3 % wide: a double's sign, exponent and 5 bits more, which keep the order), the second sorts
    the buckets in which the ranks fall. No value may be NaN. ``IndexError`` for a rank that there is not.
    """
    if (all_of := _few(values, few)) is not None:
        if any(not 1 <= rank <= len(all_of) for rank in ranks):
            raise IndexError(f"ranks {list(ranks)} of {len(all_of)} values")
        return [float(all_of[rank - 1]) for rank in ranks]
    total = 0
    counts = np.zeros(1 << 17, np.int64)
    for some in values():
        total += len(some)
        counts += np.bincount(_bucket(some), minlength=len(counts))
    if any(not 1 <= rank <= total for rank in ranks):
        raise IndexError(f"ranks {list(ranks)} of {total} values")
    upto = np.cumsum(counts)
    bucket_of = {rank: int(np.searchsorted(upto, rank)) for rank in ranks}
    infinite = int(_bucket(np.array([np.inf]))[0])  # nothing else is in that bucket
    kept: dict[int, list[Floats]] = {bucket: [] for bucket in bucket_of.values() if bucket != infinite}
    if kept:
        for some in values():
            buckets = _bucket(some)
            for bucket, found in kept.items():
                found.append(some[buckets == bucket])
    inside = {bucket: np.sort(np.concatenate(found)) for bucket, found in kept.items()}
    inside[infinite] = np.broadcast_to(np.inf, int(counts[infinite]))
    return [float(inside[at][rank - 1 - (upto[at] - counts[at])]) for rank in ranks for at in (bucket_of[rank],)]


def _few(values: Callable[[], Iterable[Floats]], few: int) -> Floats | None:
    """All values in their order; None: there are more than a ``few``."""
    taken: list[Floats] = []
    total = 0
    for some in values():
        taken.append(some)
        total += len(some)
        if total > few:
            return None
    return np.sort(np.concatenate(taken)) if taken else np.empty(0)


def _bucket(values: Floats) -> npt.NDArray[np.intp]:
    """The first 17 bits of doubles as a number that is no smaller for a greater double."""
    bits = np.ascontiguousarray(values).view(np.int64)
    if len(values) and bits.min() < 0:
        bits = bits ^ ((bits >> 63) & np.int64(2**63 - 1))  # of negative ones the greater pattern is the smaller number
    return (bits >> 47) + (1 << 16)


def binned(arrivals: Arrivals, edges: Ints) -> tuple[Ints, Iterator[Floats]]:
    """The counts (shape: bins, outcomes, 2; as :attr:`Arrivals.counts`) and, one by one, the latencies (s) of bins.

    ``edges``: ascending moments (ns), one more than there are bins; a bin holds what was intended in [edge, next).
    """
    number, kinds = len(edges) - 1, 2 * len(Outcome)
    counts = np.zeros(number * kinds, np.int64)
    for part in arrivals._parts:
        at = np.searchsorted(part.spaced.numbers(), edges)
        inside = slice(int(at[0]), int(at[-1]))
        code = part.outcome[inside].astype(np.intp) * 2 + part.good[inside]
        counts += np.bincount(np.repeat(np.arange(number) * kinds, np.diff(at)) + code, minlength=len(counts))
    return counts.reshape(number, len(Outcome), 2), _latencies(arrivals, edges)


def _latencies(arrivals: Arrivals, edges: Ints) -> Iterator[Floats]:
    """The latencies of each bin; only those of one part are in memory."""
    begun: list[Floats] = []
    place = 0
    for part in arrivals._parts:
        at = np.searchsorted(part.spaced.numbers(), edges)
        held = np.flatnonzero(np.diff(at))
        if not len(held):
            continue
        latency = part.latency()
        for index in range(place, int(held[-1])):  # the last one may go on in the next part
            yield np.concatenate([*begun, latency[at[index] : at[index + 1]]])
            begun = []
        place = int(held[-1])
        begun.append(latency[at[place] : at[place + 1]].copy())
    for _ in range(place, len(edges) - 1):
        yield np.concatenate(begun or [np.empty(0)])
        begun = []


def per_window(arrivals: Arrivals, frames: list[tuple[int, int]], *, clip: bool = False) -> tuple[Ints, Ints]:
    """(scheduled, not good) per window, by intended time. ``frames``: consecutive [start, end) in ns.

    ``clip`` counts those before the first window in it, and those after the last in that.
    """
    edges = np.array([start for start, _ in frames] + [frames[-1][1]], np.int64)
    scheduled, bad = np.zeros(len(frames), np.int64), np.zeros(len(frames), np.int64)
    for part in arrivals._parts:
        # Both are in order, so the edges are looked up among the arrivals, and only those in the part's own time.
        reach = np.searchsorted(edges, part.times, side="right") - 1
        low, high = (int(each) for each in np.clip(reach, 0, len(frames) - 1))
        at = np.searchsorted(part.spaced.numbers(), edges[low : high + 2])
        if clip and low == 0:
            at[0] = 0
        if clip and high == len(frames) - 1:
            at[-1] = len(part)
        good_upto = np.concatenate([[0], np.cumsum(part.good)])
        scheduled[low : high + 1] += np.diff(at)
        bad[low : high + 1] += np.diff(at) - np.diff(good_upto[at])
    return scheduled, bad


def _ascending(spaced: _Steps) -> bool:
    return spaced.steps.dtype != np.int64 or bool((np.diff(spaced.steps) >= 0).all())


def _code(numbers: Compact) -> Compact:
    """Small whole numbers from -1 on, in one byte where they fit."""
    return numbers.astype(np.int8 if not len(numbers) or int(numbers.max()) < 128 else np.int32)


def _after(t: Ints, intended: Ints) -> Compact:
    """Moments (0: none) as ns after the intended ones (uint32, :data:`_NEVER` for none), or as they are."""
    after = t - intended
    none = t == 0
    if not (none | ((after >= 0) & (after < _NEVER))).all():
        return np.ascontiguousarray(t, np.int64)
    short = after.astype(np.uint32)
    short[none] = _NEVER
    return short


def _moment(kept: Compact, spaced: _Steps) -> Ints:
    """What :func:`_after` was given."""
    if kept.dtype != np.uint32:
        return kept
    t = spaced.numbers() + kept
    t[kept == _NEVER] = 0
    return t
