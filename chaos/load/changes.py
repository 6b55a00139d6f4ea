"""Which earlier documents the items of bulks update or delete, while a load runs.

An item names a document of its own stream that was acknowledged, and of which no change is under way. When a change is
acknowledged its document may be changed again; when it is not, what became of it is not known, and the document is left
alone for good. So at most the last change of a document is open, and the final read-back knows which states are
allowed (:mod:`chaos.observe.written`). Documents are numbers in arrays; which change is about which document is written
down before it is sent (:mod:`chaos.history.changes`). Of a stream that several processes share, each changes what it
has written itself. An index holds the documents of whole streams, so no change leaves its index.

The content that item ``n`` gives to a document is that of document ``n``, which no item creates. So what is found in a
document says which change it holds, and no content is kept.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from chaos.history.changes import ROW
from chaos.history.format import ACKNOWLEDGED_ITEMS, Action
from chaos.load.turns import mixed

MOST_KNOWN = 1_000_000
"""Documents among which a stream chooses, at most: 16 bytes each. Beyond it a new one takes the place of another."""
CREATE, UPDATE, DELETE = map(int, Action)


class Planned(NamedTuple):
    """What the items of one bulk do, by their place. ``first``: the number of the first item.

    ``documents``: which document each is about: its own, or the one that it changes. ``held``: the number whose content
    that document has until then; of a document that is new its own.
    """

    first: int
    actions: bytearray
    documents: array[int]
    held: array[int]

    def of(self, n: int) -> tuple[int, int, int]:
        """Of item ``n`` the action, the document, and what the document held."""
        place = n - self.first
        return self.actions[place], self.documents[place], self.held[place]

    @property
    def rows(self) -> bytes:
        """The changes among them, as they are written down."""
        return b"".join(
            ROW.pack(self.first + place, self.documents[place], action)
            for place, action in enumerate(self.actions)
            if action != CREATE
        )


class Updates:
    """Which document each update that was sent is about: sixteen bytes an update, by the bulk's first item.

    ``process`` of ``processes`` that share the load: an arrival's number says of which it is.
    """

    def __init__(self, stride: int, process: int = 0, processes: int = 1) -> None:
        self._stride, self._process, self._processes = stride, process, processes
        self._bulks: dict[int, tuple[array[int], array[int]]] = {}

    def add(self, plan: Planned) -> None:
        places = [place for place, action in enumerate(plan.actions) if action == UPDATE]
        if places:
            items = array("q", [plan.first + place for place in places])
            self._bulks[plan.first // self._stride] = items, array("q", [plan.documents[place] for place in places])

    def document(self, n: int) -> int | None:
        """The document that item ``n`` updates; None where it updates none."""
        found = self._bulks.get(n // self._stride)
        if found is None:
            return None
        place = bisect_left(found[0], n)
        return found[1][place] if place < len(found[0]) and found[0][place] == n else None

    def may_hold(self, document: int, n: int) -> bool:
        """Whether a document may have the content that item ``n`` gives. Which documents another process updates is
        not known here, but they are of its own."""
        of = n // self._stride % self._processes
        if of == self._process:
            return self.document(n) == document
        return document // self._stride % self._processes == of


class Changing:
    """Chooses what the items of one stream's bulks do. ``weights``: of create, update and delete."""

    def __init__(self, weights: Sequence[int], seed: int, updates: Updates) -> None:
        self._create, self._update, self._delete = weights
        self._seed, self._updates = seed, updates
        self._free, self._held = array("q"), array("q")

    def plan(self, numbers: range) -> Planned:
        """What these items do. Their documents are taken until :meth:`told`. Where none is free an item writes a new
        document instead."""
        plan = Planned(numbers.start, bytearray(len(numbers)), array("q", numbers), array("q", numbers))
        total = self._create + self._update + self._delete
        for place, n in enumerate(numbers):
            draw = mixed(self._seed, n)
            chosen = draw % total
            if chosen < self._create or not self._free:
                continue
            plan.actions[place] = UPDATE if chosen < self._create + self._update else DELETE
            plan.documents[place], plan.held[place] = self._take((draw >> 20) % len(self._free))
        self._updates.add(plan)
        return plan

    def told(self, plan: Planned, outcomes: bytes | None) -> None:
        """What became of each item of a bulk; None: of none of them it is known."""
        for place, outcome in enumerate(outcomes or b""):
            if outcome in ACKNOWLEDGED_ITEMS and plan.actions[place] != DELETE:
                self._put(plan.documents[place], plan.first + place)

    def _take(self, place: int) -> tuple[int, int]:
        taken = self._free[place], self._held[place]
        last = self._free.pop(), self._held.pop()
        if place < len(self._free):
            self._free[place], self._held[place] = last
        return taken

    def _put(self, document: int, held: int) -> None:
        if len(self._free) < MOST_KNOWN:
            self._free.append(document)
            self._held.append(held)
        else:
            place = mixed(self._seed, held) % MOST_KNOWN
            self._free[place], self._held[place] = document, held
