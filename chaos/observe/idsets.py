"""Sets of documents' ids for any number of documents: numbers by kind of id, as sorted arrays.

Ids of the load are a kind and a number (:mod:`chaos.base.ids`). Ten million of them are 40 MB here, a quarter of a
second to compare, and more than a gigabyte as a set of texts. Ids of any other form, which the load never makes, stay
texts: there are few.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from chaos.base.ids import is_ours
from chaos.opensearch.routing import shard_of, shards_of

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]
"""Sorted, each once; of 32 bits without a sign where all fit, else of 64."""

KINDS = "cpvw"
"""The kinds of ids, in the order in which ids are named."""
KEY = KINDS.index("c")
"""The kind of a key of compare-and-set."""
OTHER = -1
"""The kind of an id that is none of the load's, or whose number has more than 18 digits."""
MOST_DIGITS = 18
CHUNK = 1 << 18
"""Numbers that are looked up at once."""
_FORM = re.compile(rf"([{KINDS}])-(0|[1-9][0-9]{{0,{MOST_DIGITS - 1}}})")


class Ids(Set[str]):
    """A set of ids that does not change. It is read and compared as any set of texts is, with these as with others;
    between two of its own kind the work is done on arrays. Its order is that of kinds and numbers, other ids last."""

    __slots__ = ("_numbers", "others")

    def __init__(self, numbers: Mapping[str, npt.ArrayLike] | None = None, others: Iterable[str] = ()) -> None:
        """``numbers``: by kind, in any order. ``others``: ids that are of no kind."""
        made = {kind: _sorted(np.asarray(each)) for kind, each in (numbers or {}).items()}
        self._numbers = {kind: made[kind] for kind in KINDS if kind in made and len(made[kind])}
        self.others = frozenset(others)

    @classmethod
    def _made(cls, numbers: Mapping[str, Numbers], others: frozenset[str]) -> Ids:
        """From arrays that are sorted already, with each number once."""
        made = Ids()
        made._numbers = {kind: numbers[kind] for kind in KINDS if kind in numbers and len(numbers[kind])}
        made.others = others
        return made

    @classmethod
    def of(cls, ids: Iterable[str]) -> Ids:
        """From texts; what is one already stays as it is."""
        if isinstance(ids, Ids):
            return ids
        kept = Collected()
        kept.add(list(ids))
        return kept.ids()

    _from_iterable = of  # type: ignore[assignment]

    def numbers(self, kind: str) -> Ints:
        """The numbers of the ids of a kind, sorted."""
        return self._numbers.get(kind, _NONE).astype(np.int64)

    def kinds(self) -> Iterator[tuple[str, Numbers]]:
        """Each kind of which there are ids, with their numbers."""
        yield from self._numbers.items()

    def __len__(self) -> int:
        return sum(map(len, self._numbers.values())) + len(self.others)

    def __iter__(self) -> Iterator[str]:
        for kind, numbers in self._numbers.items():
            for first in range(0, len(numbers), CHUNK):
                yield from (f"{kind}-{number}" for number in numbers[first : first + CHUNK].tolist())
        yield from sorted(self.others, key=lambda id: (not is_ours(id), id))

    def __contains__(self, id: object) -> bool:
        if not isinstance(id, str):
            return False
        if (known := _FORM.fullmatch(id)) is None:
            return id in self.others
        numbers, number = self._numbers.get(known[1]), int(known[2])
        if numbers is None or number > numbers[-1]:
            return False
        return bool(numbers[np.searchsorted(numbers, numbers.dtype.type(number))] == number)

    def __repr__(self) -> str:
        return f"Ids({', '.join(self.first(5))}{', …' if len(self) > 5 else ''}: {len(self)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ids):
            return super().__eq__(other)
        return (
            self.others == other.others
            and self._numbers.keys() == other._numbers.keys()
            and all(np.array_equal(each, other._numbers[kind]) for kind, each in self._numbers.items())
        )

    __hash__ = None  # type: ignore[assignment]

    def __sub__(self, other: Set[Any]) -> Ids:
        return self._those(Ids.of(other), wanted=False)

    def __rsub__(self, other: Set[Any]) -> Ids:
        return Ids.of(other) - self

    def __and__(self, other: Iterable[Any]) -> Ids:
        other = Ids.of(other)
        return self._those(other, wanted=True) if len(self) <= len(other) else other._those(self, wanted=True)

    __rand__ = __and__

    def __or__(self, other: Iterable[Any]) -> Ids:
        other = Ids.of(other)
        numbers = dict(self._numbers)
        for kind, theirs in other._numbers.items():
            mine = numbers.get(kind, _NONE)
            more = theirs[~_among(theirs, mine)]
            if len(mine) == 0 or len(more) == len(theirs) == 0:
                numbers[kind] = theirs
            elif len(more):
                numbers[kind] = _sorted(np.concatenate([mine, more]))
        return self._made(numbers, self.others | other.others)

    __ror__ = __or__

    def _those(self, other: Ids, *, wanted: bool) -> Ids:
        """Those of these that are in another set (``wanted``), or are not."""
        numbers = {}
        for kind, mine in self._numbers.items():
            there = _among(mine, other._numbers.get(kind, _NONE))
            count = np.count_nonzero(there)
            if count == (len(mine) if wanted else 0):
                numbers[kind] = mine
            elif count != (0 if wanted else len(mine)):
                numbers[kind] = mine[there if wanted else ~there]
        others = self.others & other.others if wanted else self.others - other.others
        return self._made(numbers, others)

    def first(self, most: int) -> list[str]:
        """The first of them by kind and number."""
        return list(itertools.islice(self, most))

    def has(self, kinds: npt.NDArray[np.int8], numbers: Ints) -> npt.NDArray[np.bool_]:
        """Of ids that were :func:`parsed`: which are here. Of those of no kind it says that they are not."""
        found = np.zeros(len(kinds), np.bool_)
        for kind, mine in self._numbers.items():
            rows = kinds == KINDS.index(kind)
            if rows.any():
                found[rows] = _among(numbers[rows], mine)
        return found

    def only(self, kinds: str) -> Ids:
        """Those of some kinds."""
        return self._made({kind: each for kind, each in self._numbers.items() if kind in kinds}, frozenset())

    def by_shard(self, shards: int, routing_shards: int) -> list[Ids]:
        """Those that belong to each shard."""
        if shards == 1:
            return [self]
        others: list[set[str]] = [set() for _ in range(shards)]
        for id in self.others:
            others[shard_of(id, shards, routing_shards)].add(id)
        where = {kind: shards_of(f"{kind}-", each, shards, routing_shards) for kind, each in self._numbers.items()}
        return [
            self._made(
                {kind: each[where[kind] == shard] for kind, each in self._numbers.items()}, frozenset(others[shard])
            )
            for shard in range(shards)
        ]

    def drawn(self, seed: int, most: int) -> Self | Ids:
        """At most so many of them, all if there are no more: they follow from the ids and the seed alone.

        Fewer are always among more. Keys of compare-and-set come first.
        """
        if len(self) <= most:
            return self
        keys = self.only("c")
        if len(keys) >= most:
            return keys.drawn_alone(seed, most)
        return keys | (self - keys).drawn_alone(seed, most - len(keys))

    def drawn_alone(self, seed: int, most: int) -> Ids:
        """The same, whatever their kind."""
        if len(self) <= most:
            return self
        share = (most + 8 * math.sqrt(most)) / len(self)  # so many, or some more, have a place in the first such share
        while True:
            bound = min(int(share * 2**64), 2**64 - 1)
            places, rows = self._placed(seed, bound)
            if len(places) >= most:
                break
            share *= 2
        first = np.sort(rows[np.argsort(places, kind="stable")[:most]])
        start, numbers = 0, {}
        for kind, each in self._numbers.items():
            numbers[kind] = each[first[(first >= start) & (first < start + len(each))] - start]
            start += len(each)
        others = sorted(self.others)
        return self._made(numbers, frozenset(others[row - start] for row in first[first >= start].tolist()))

    def _placed(self, seed: int, bound: int) -> tuple[npt.NDArray[np.uint64], Ints]:
        """Those whose place in the order of the seed is up to a bound: the places, and which of all ids they are."""
        places, rows, start = [], [], 0
        for kind, each in self._numbers.items():
            for first in range(0, len(each), CHUNK):
                place = _scattered(each[first : first + CHUNK], ord(kind), seed)
                near = np.flatnonzero(place <= np.uint64(bound))
                places.append(place[near])
                rows.append(near + start + first)
            start += len(each)
        place = np.array([_scattered_text(id, seed) for id in sorted(self.others)], np.uint64)
        near = np.flatnonzero(place <= np.uint64(bound))
        return np.concatenate([*places, place[near]]), np.concatenate([*rows, near + start])


_NONE: Numbers = np.empty(0, np.uint32)


class Collected:
    """Ids as they come, in any order, some of them more than once.

    ``repeats``: by kind, the number of each id that came again, once for every time that it did; known after
    :meth:`ids_and_twice`.
    """

    def __init__(self) -> None:
        self.repeats: dict[str, Numbers] = {}
        self._numbers: dict[str, list[Numbers]] = {}
        self._others: list[str] = []
        self._waiting: list[str] = []

    def add_one(self, id: str) -> None:
        self._waiting.append(id)
        if len(self._waiting) >= 8192:
            self._take()

    def _take(self) -> None:
        if self._waiting:
            self.add(self._waiting)
            self._waiting = []

    def add(self, ids: Sequence[str]) -> None:
        self.add_parts(*parts(ids, *parsed(ids)))

    def add_parts(self, numbers: Mapping[str, Numbers], others: Sequence[str]) -> None:
        """Numbers by kind, and ids that are of none."""
        for kind, each in numbers.items():
            self._numbers.setdefault(kind, []).append(each)
        self._others += others

    def ids(self) -> Ids:
        """All of them, each once."""
        return self.ids_and_twice()[0]

    def ids_and_twice(self) -> tuple[Ids, Ids]:
        """All of them, each once, and those that came more than once."""
        self._take()
        numbers, twice = {}, {}
        for kind, pages in self._numbers.items():
            every = _joined(pages)
            if not _increasing(every):
                every.sort()
                again = every[1:] == every[:-1]
                if again.any():
                    self.repeats[kind] = every[1:][again]
                    twice[kind] = np.unique(self.repeats[kind])
                    every = np.concatenate([every[:1], every[1:][~again]])
            numbers[kind] = every
            pages.append(every)
        others = frozenset(self._others)
        seen: set[str] = set()
        more = frozenset(id for id in self._others if id in seen or seen.add(id))  # type: ignore[func-returns-value]
        return Ids._made(numbers, others), Ids._made(twice, more)


def _joined(pages: list[Numbers]) -> Numbers:
    """All pages in one array. They are let go one by one, so that there is never twice as much."""
    wide = max((page.dtype for page in pages), key=lambda dtype: dtype.itemsize, default=_NONE.dtype)
    every = np.empty(sum(map(len, pages)), wide)
    end = len(every)
    while pages:
        page = pages.pop()
        every[end - len(page) : end] = page
        end -= len(page)
    return every


def parsed(ids: Sequence[str]) -> tuple[npt.NDArray[np.int8], Ints]:
    """Kind and number of each id: the place in :data:`KINDS`, or :data:`OTHER` with the number 0."""
    joined = "\n".join(ids).encode("utf-8", "surrogatepass")
    if not joined or joined.count(b"\n") != len(ids) - 1:
        return _one_by_one(ids)
    data = np.frombuffer(joined, np.uint8)
    ends = np.append(np.flatnonzero(data == ord("\n")), len(data))
    starts = np.append(0, ends[:-1] + 1)
    digits = ends - starts - 2
    fits = (digits >= 1) & (digits <= MOST_DIGITS)
    starts, last = np.where(fits, starts, 0), np.where(fits, ends - 1, 0)
    kinds = _CODES[data[starts]]
    fits &= (kinds != OTHER) & (data[np.minimum(starts + 1, len(data) - 1)] == ord("-"))
    fits &= (digits == 1) | (data[np.minimum(starts + 2, len(data) - 1)] != ord("0"))
    numbers = np.zeros(len(ids), np.int64)
    for place in range(int(digits[fits].max(initial=0))):
        here = fits & (digits > place)
        digit = data[np.where(here, last - place, 0)].astype(np.int64) - ord("0")
        fits &= ~here | ((digit >= 0) & (digit <= 9))
        numbers += np.where(here & fits, digit, 0) * 10**place
    return np.where(fits, kinds, np.int8(OTHER)).astype(np.int8), np.where(fits, numbers, 0)


_CODES = np.full(256, OTHER, np.int8)
for _place, _kind in enumerate(KINDS):
    _CODES[ord(_kind)] = _place


def parts(ids: Sequence[str], kinds: npt.NDArray[np.int8], numbers: Ints) -> tuple[dict[str, Numbers], list[str]]:
    """Ids that were :func:`parsed`: their numbers by kind, in their order, and those that are of none."""
    each = {kind: _narrow(numbers[kinds == code]) for code, kind in enumerate(KINDS) if (kinds == code).any()}
    return each, [ids[row] for row in np.flatnonzero(kinds == OTHER).tolist()]


def _one_by_one(ids: Sequence[str]) -> tuple[npt.NDArray[np.int8], Ints]:
    kinds, numbers = np.full(len(ids), OTHER, np.int8), np.zeros(len(ids), np.int64)
    for row, id in enumerate(ids):
        if known := _FORM.fullmatch(id):
            kinds[row], numbers[row] = KINDS.index(known[1]), int(known[2])
    return kinds, numbers


def _narrow(numbers: npt.NDArray[Any]) -> Numbers:
    fits = numbers.dtype != np.uint32 and numbers.max(initial=0) < 2**32
    return numbers.astype(np.uint32) if fits else numbers


def _sorted(numbers: npt.NDArray[Any]) -> Numbers:
    """Sorted, each once."""
    narrow = _narrow(numbers if len(numbers) else _NONE)
    return narrow if _increasing(narrow) else np.unique(narrow)


def _increasing(numbers: Numbers) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def _among(values: Numbers, those: Numbers) -> npt.NDArray[np.bool_]:
    """Which of the values are among those, which are sorted."""
    if len(those) == 0 or len(values) == 0:
        return np.zeros(len(values), np.bool_)
    if np.array_equal(values, those):
        return np.ones(len(values), np.bool_)
    found = np.empty(len(values), np.bool_)
    for first in range(0, len(values), CHUNK):
        part = values[first : first + CHUNK]
        low, high = np.searchsorted(those, [part.min(), part.max()])
        near = those[low : high + 1]
        if len(near) == 0:
            found[first : first + CHUNK] = False
            continue
        at = np.minimum(np.searchsorted(near, part), len(near) - 1)
        found[first : first + CHUNK] = near[at] == part
    return found


def _scattered(numbers: Numbers, kind: int, seed: int) -> npt.NDArray[np.uint64]:
    """A place for each number in an order that looks like chance (SplitMix64)."""
    with np.errstate(over="ignore"):
        mixed = numbers.astype(np.uint64) + np.uint64(_salt(kind, seed))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed ^= mixed >> np.uint64(shift)
            mixed *= np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
    return mixed


def _salt(kind: int, seed: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{kind}:{seed}".encode(), digest_size=8).digest(), "big")


def _scattered_text(id: str, seed: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed}:{id}".encode(errors="surrogatepass"), digest_size=8).digest(), "big")
