"""What the load knows of its own documents while it runs: how many a search must find by now, and how many it can.

A search must find what was there before the load, and every document that was acknowledged long enough before it was
sent: a refresh makes documents visible, and a node that is short of processor refreshes late. So :data:`LATE_S` is
allowed beyond the refresh interval that is in force for the index. It can find no more than what was ever sent,
acknowledged or not.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Collection

from chaos.base.ids import number_of, preload_id
from chaos.load.schedule import SECOND
from chaos.load.workload import Asked

LATE_S = 10.0
"""Seconds beyond the refresh interval until an acknowledged document must be found. OpenSearch promises no number: a
scheduled refresh waits for a thread and a processor. Warm-ups on two cores answered 2.9 s late at worst, so ten are
no busy moment any more."""
MOST_FRESH = 1_000_000
"""Acknowledged documents that wait to be counted as visible, at most; beyond it the oldest is not counted on."""


class Known:
    """The load's documents by what searches ask for.

    ``found_by``: of a document's id, see :meth:`chaos.load.workload.Workload.found_by`. ``documents`` and ``keys``: how
    many were there before the load. ``visible_after_s``: seconds until an acknowledged document must be found by a
    search; None: not known, so only what was there before is counted on. ``alone``: no other process writes; where one
    does, this one does not know how many documents there can be.
    """

    def __init__(
        self,
        found_by: Callable[[str], Collection[Asked]],
        documents: int,
        *,
        keys: int = 0,
        visible_after_s: float | None = None,
        alone: bool = True,
    ) -> None:
        self._found_by = found_by
        self._after = None if visible_after_s is None else int(visible_after_s * SECOND)
        self._least: Counter[Asked] = Counter()
        for n in range(documents):
            self._least.update(found_by(preload_id(n)))
        self._most = Counter(self._least)
        self._before = Counter(self._least)
        self._fresh: deque[tuple[int, Collection[Asked]]] = deque(maxlen=MOST_FRESH)
        unknown = -1 if alone else sys.maxsize
        self._alone = alone
        self.last = {"p": documents - 1, "c": keys - 1 if alone else unknown, "w": unknown, "v": unknown}
        """The highest number of each kind of id that was there before or has been sent."""
        self._left: Counter[Asked] = Counter()
        self._all = documents + keys

    def sent(self, doc_id: str) -> None:
        """A write of this document begins: from now on searches may find it."""
        kind, number = doc_id[:1], number_of(doc_id)
        self.last[kind] = max(self.last[kind], number)
        self._all += 1
        for each in self._found_by(doc_id):
            self._most[each] += 1

    def updating(self, doc_id: str, held: str) -> None:
        """An update begins: its document has had the content of the document ``held``, and is to have that of
        ``doc_id``. From now on searches may find it by either, and must find it by neither."""
        number = number_of(doc_id)
        self.last["w"] = max(self.last["w"], number)
        for each in self._found_by(doc_id):
            self._most[each] += 1
        self.leaving(held)

    def leaving(self, held: str) -> None:
        """A document that has this content may be gone from now on, or have another."""
        if self._after is not None:
            asked = self._found_by(held)
            self._least.subtract(asked)  # what is not counted yet is taken off before it is
            self._left.update(asked)

    def before(self, asks: Asked | None) -> int:
        """How many of the documents that were there before the load a search must find, always."""
        return 0 if asks is None else self._before[asks]

    def left(self, asks: Asked | None) -> int:
        """How many documents that were to be found have been changed so far: a search that is under way meanwhile need
        not find those that are more than when it was sent."""
        return 0 if asks is None else self._left[asks]

    def acknowledged(self, doc_id: str, t: int) -> None:
        """It was acknowledged at ``t`` (CLOCK_MONOTONIC ns); these come in the order of their times."""
        if self._after is not None:
            self._fresh.append((t + self._after, self._found_by(doc_id)))

    def least(self, asks: Asked | None, t: int) -> int:
        """How many documents a search sent at ``t`` (ns) must find."""
        fresh = self._fresh
        while fresh and fresh[0][0] <= t:
            self._least.update(fresh.popleft()[1])
        return 0 if asks is None else max(0, self._least[asks])

    def most(self, asks: Asked | None) -> int:
        """How many documents a search can find that is answered now."""
        if not self._alone:
            return sys.maxsize
        return self._all if asks is None else self._most[asks]


def numbered(doc_id: str) -> tuple[str, int] | None:
    """The kind of an id of ours and its number; None for one that this load never makes, as ``w-007``."""
    kind, _, number = doc_id.partition("-")
    ours = kind in ("p", "c", "w", "v") and number.isdecimal() and str(int(number)) == number
    return (kind, int(number)) if ours else None
