"""What became of each document of a bulk: ``history/items.bin``, beside the bulk's own row in ``arrivals.bin``.

For each bulk that was answered per document: its arrival's number (uint64), how many documents it had (uint32), and one
byte for each in their order (:class:`~chaos.history.format.ItemOutcome`), little-endian. A bulk without such an entry
got no answer that speaks of its documents; its own outcome says what is known. A bulk has one entry at most.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from chaos.history.format import ACKNOWLEDGED_ITEMS, ItemOutcome

HEAD = struct.Struct("<QI")
NAMES: tuple[str, ...] = tuple(outcome.name.lower() for outcome in ItemOutcome)
"""The names of the outcomes; the position is the number."""

Numbers = npt.NDArray[np.int64]


def entry(k: int, outcomes: bytes | Sequence[int]) -> bytes:
    """The bytes of one bulk's entry. ``outcomes``: of its documents, in their order."""
    of_each = bytes(outcomes)
    return HEAD.pack(k, len(of_each)) + of_each


@dataclass(frozen=True)
class Items:
    """The documents of all bulks that were answered, as arrays over bulks and over documents.

    ``k``: the bulks' arrivals, ascending. ``first``: where the documents of each begin in ``outcome``, and at its end
    how many documents there are.
    """

    k: Numbers
    first: Numbers
    outcome: npt.NDArray[np.uint8]

    @classmethod
    def read(cls, *paths: Path) -> Items:
        """Those of some files, an entry in one of them; none where they are not there. What a killed driver left of an
        entry is left out."""
        parts, ks, starts, lengths = [], [], [], []
        before = 0
        for path in paths:
            try:
                part = path.read_bytes()
            except FileNotFoundError:
                continue
            at, end = 0, len(part)
            while at + HEAD.size <= end:
                k, length = HEAD.unpack_from(part, at)
                at += HEAD.size
                if at + length > end:
                    break
                ks.append(k)
                starts.append(before + at)
                lengths.append(length)
                at += length
            parts.append(part)
            before += end
        data = b"".join(parts) if len(parts) != 1 else parts[0]
        order = np.argsort(np.array(ks, np.int64), kind="stable")
        whole = np.frombuffer(data, np.uint8)
        pieces = [whole[starts[place] : starts[place] + lengths[place]] for place in order]
        sizes = np.array(lengths, np.int64)[order]
        first = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        outcome = np.concatenate(pieces) if pieces else np.empty(0, np.uint8)
        return cls(np.array(ks, np.int64)[order], first, outcome)

    @classmethod
    def none(cls) -> Items:
        return cls(np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.uint8))

    def __len__(self) -> int:
        """How many bulks there are."""
        return len(self.k)

    @property
    def sizes(self) -> Numbers:
        """How many documents each bulk had."""
        return np.diff(self.first)

    def numbers(self, stride: int) -> Numbers:
        """The number of each document (:mod:`chaos.base.ids`)."""
        places = np.arange(len(self.outcome)) - np.repeat(self.first[:-1], self.sizes)
        return np.repeat(self.k, self.sizes) * stride + places

    @cached_property
    def acknowledged(self) -> npt.NDArray[np.bool_]:
        """Of each document whether the cluster said that it has it."""
        return np.isin(self.outcome, ACKNOWLEDGED_ITEMS)

    def counts(self, chosen: Numbers | None = None, names: Sequence[str] = NAMES) -> dict[str, int]:
        """How many documents of these bulks (arrivals; None: all) had which outcome; only those that occur. ``names``:
        of the outcomes, by their number."""
        outcome = self.outcome
        if chosen is not None:
            outcome = outcome[np.repeat(np.isin(self.k, chosen), self.sizes)]
        found = np.bincount(outcome, minlength=len(names))
        return {name: int(number) for name, number in zip(names, found, strict=True) if number}
