"""Which states of its documents a load that updates and deletes allows: the other side of the read-back for changes.

Of each document all changes but the last were acknowledged (:mod:`chaos.history.changes`), so its state follows from
the last one. An acknowledged update: its content, and no other. An acknowledged delete: it is on no copy. An update
without a clear answer: what was there before, or its content, and the same on every copy. A delete without one: there,
as it was before, or gone. A change of which no node has heard for sure changed nothing.

Content ``n`` is what the workload says of document ``w-<n>``; item ``n`` updates a document to content ``n``. So a
workload of documents that change is the workload itself, asked for other numbers (:class:`Changed`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from chaos.base.ids import is_write, number_of, write_id
from chaos.history.changes import Changes
from chaos.history.format import Action
from chaos.load.workload import Requests, Workload

Ints = npt.NDArray[np.int64]
_NONE: Ints = np.empty(0, np.int64)
WRITTEN = "w"
"""The kind of ids of documents that arrivals write; no others are changed."""


@dataclass(frozen=True)
class Held:
    """What changed documents hold. All arrays are sorted by document.

    ``documents`` and ``contents``: those that hold another content than their own, and which; what was deleted too, for
    where it is there all the same. ``undecided``: documents of which an update has no clear answer; they hold
    ``before`` or ``after``. ``deleted``: those whose delete was acknowledged; ``doubtful``: of which it has no clear
    answer. ``changes``: all that were sent.
    """

    documents: Ints
    contents: Ints
    undecided: Ints
    before: Ints
    after: Ints
    deleted: Ints
    doubtful: Ints
    changes: Changes

    @classmethod
    def of(cls, changes: Changes, acknowledged: Ints, refused: Ints) -> Self:
        """From all changes and the numbers of the items that were acknowledged, and refused for sure."""
        last = changes.last
        documents, items, actions = changes.document[last], changes.item[last], changes.action[last]
        before = _before(changes, last)
        done, not_done = np.isin(items, acknowledged), np.isin(items, refused)
        updates, deletes = actions == Action.UPDATE, actions == Action.DELETE
        contents = np.where(updates & done, items, before)
        other = contents != documents
        undecided = updates & ~done & ~not_done
        return cls(
            documents[other],
            contents[other],
            documents[undecided],
            before[undecided],
            items[undecided],
            documents[deletes & done],
            documents[deletes & ~done & ~not_done],
            changes,
        )

    def content(self, documents: Ints) -> Ints:
        """The content that each of some documents holds; of undecided ones the one before."""
        found = documents.astype(np.int64)
        at, there = _places(self.documents, found)
        return np.where(there, self.contents[at], found) if len(self.contents) else found

    def is_earlier(self, document: int, content: int) -> bool:
        """Whether a document has had this content before its last change."""
        at, there = _places(self._last[0], np.array([document]))
        if not there[0] or content == self._last[1][at[0]]:
            return False
        at, there = _places(self._items[0], np.array([content]))
        return content == document or bool(there[0] and self._items[1][at[0]] == document)

    @cached_property
    def _items(self) -> tuple[Ints, Ints]:
        """All changes by item, and their documents."""
        order = np.argsort(self.changes.item)
        return self.changes.item[order], self.changes.document[order]

    @cached_property
    def _last(self) -> tuple[Ints, Ints]:
        """All changed documents, and the item that changed each last."""
        last = self.changes.last
        return self.changes.document[last], self.changes.item[last]

    def counts(self) -> dict[str, int]:
        """For people: of how many documents what is known."""
        gone = np.concatenate([self.deleted, self.doubtful])
        return {
            "changes": len(self.changes),
            "updated": len(self.documents) - int(np.isin(self.documents, gone).sum()),
            "undecided": len(self.undecided),
            "deleted": len(self.deleted),
            "doubtful": len(self.doubtful),
        }


class Changed(Workload):
    """A workload whose written documents hold what a load has changed them to.

    One for each copy that is read: of undecided documents it knows after :meth:`settle` what that copy holds.
    """

    def __init__(self, workload: Workload, held: Held) -> None:
        self.plain, self.held = workload, held
        named = ("name", "says", "operations", "mapping", "fields", "value", "unique", "text", "words", "settings")
        vars(self).update({name: getattr(workload, name) for name in named})  # what others say of their class
        self.settled: dict[int, int] = {}

    def apart(self) -> Changed:
        """The same for another copy."""
        return Changed(self.plain, self.held)

    def undecided(self, kind: str, numbers: Ints) -> npt.NDArray[np.bool_]:
        """Of which documents several contents are right."""
        return _places(self.held.undecided, numbers)[1] if kind == WRITTEN else np.zeros(len(numbers), np.bool_)

    def settle(self, doc_id: str, held: Mapping[str, Any]) -> None:
        """Of an undecided document: a copy's doc values are these."""
        number = _written(doc_id)
        place = int(np.searchsorted(self.held.undecided, number)) if number is not None else 0
        if number is None or place == len(self.held.undecided) or self.held.undecided[place] != number:
            return
        after = int(self.held.after[place])
        arrived = held.get(self.value) == self.plain.numbers(write_id(after))[self.value]
        self.settled[number] = after if arrived else int(self.held.before[place])

    def outdated(self, doc_id: str, held: Mapping[str, Any]) -> bool:
        """Whether these doc values are those of an earlier content of this document: an update of it was lost."""
        number, content = _written(doc_id), held.get(self.value)
        if number is None or type(content) is not int or content < 0 or not self.held.is_earlier(number, content):
            return False
        return self.plain.numbers(write_id(content)) == held

    def _as_held(self, doc_id: str) -> str:
        number = _written(doc_id)
        if number is None:
            return doc_id
        if (content := self.settled.get(number)) is None:
            content = int(self.held.content(np.array([number]))[0])
        return write_id(content)

    def requests(self, index: str, documents: int) -> Requests:
        return self.plain.requests(index, documents)

    def numbers(self, doc_id: str, value: int = 0) -> dict[str, int]:
        return self.plain.numbers(self._as_held(doc_id), value)

    def content(self, doc_id: str, value: int = 0) -> dict[str, Any]:
        return self.plain.content(self._as_held(doc_id), value)

    def columns(self, kind: str, numbers: Ints, names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
        if kind != WRITTEN:
            return self.plain.columns(kind, numbers, names)
        held = self.held.content(numbers)
        if self.settled:
            documents = np.array(sorted(self.settled), np.int64)
            at, there = _places(documents, numbers)
            contents = np.array([self.settled[document] for document in documents.tolist()], np.int64)
            held = np.where(there, contents[at], held)
        return self.plain.columns(kind, held, names)

    def found_by(self, doc_id: str) -> Collection[Any]:
        return self.plain.found_by(self._as_held(doc_id))


def of_held(workload: Workload, held: Held | None) -> Workload:
    """The workload by which a read-back judges documents; itself where none has changed."""
    return workload if held is None or not len(held.changes) else Changed(workload, held)


def undecided(workload: Workload, kind: str, numbers: Ints) -> npt.NDArray[np.bool_]:
    """Of which documents several contents are right; of a plain workload of none."""
    return workload.undecided(kind, numbers) if isinstance(workload, Changed) else np.zeros(len(numbers), np.bool_)


def apart(workload: Workload) -> Workload:
    """The workload for one copy."""
    return workload.apart() if isinstance(workload, Changed) else workload


def _written(doc_id: str) -> int | None:
    return number_of(doc_id) if is_write(doc_id) else None


def _before(changes: Changes, last: Ints) -> Ints:
    """The content that the documents of the last changes held before these: of the update before it, or their own."""
    order = np.lexsort((np.arange(len(changes)), changes.document))
    previous = np.full(len(changes), -1, np.int64)
    same = changes.document[order][1:] == changes.document[order][:-1]
    previous[order[1:][same]] = order[:-1][same]
    before = previous[last]
    return np.where(before >= 0, changes.item[before], changes.document[last])


def _places(sorted_: Ints, wanted: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Where numbers are among others that are sorted, and whether they are."""
    if not len(sorted_):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    at = np.minimum(np.searchsorted(sorted_, wanted), len(sorted_) - 1)
    return at, sorted_[at] == wanted
