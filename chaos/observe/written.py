"""What the load has tried to write, by what became of it: the other side of the final read-back.

Three answers are kept apart. *Acknowledged*: the cluster said yes, so it must be there. *Refused for sure*: no
connection was made, so no node has ever seen the request, and it must not be there. *Open*: everything else,
which may be there or not. A 409, 429 or 5xx is open and no refusal: the coordinating node repeats a write by
itself when it loses the primary, and what the client is told is the fate of the last try alone
(ConcurrentSeqNoVersioningIT, ``TransportReplicationAction``). The same goes for a refused connection after
other attempts of the same request, and for a garbled answer: who sends it may have done the write, and has not said
so. The same of each document of a bulk that is not acknowledged. An id that is in none of the three was never sent.

Where items of bulks update or delete documents, an acknowledged one must hold what its last change left it with, be
gone (*deleted*), or may be either (*doubtful*): :mod:`chaos.observe.changed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import NamedTuple, Self

import numpy as np

from chaos.history import History
from chaos.history.models import WRITES
from chaos.observe.changed import Held
from chaos.observe.idsets import Ids, Ints


@dataclass
class Written:
    """Ids by fate; texts are taken too. ``probes``: those of the probes of visibility, whatever their fate.

    ``deleted``: acknowledged, and so was their delete. ``doubtful``: acknowledged, and their delete has no clear
    answer. ``held``: what changed documents hold; None where none was to change.
    """

    acknowledged: Ids = field(default_factory=Ids)
    refused: Ids = field(default_factory=Ids)
    open: Ids = field(default_factory=Ids)
    probes: Ids = field(default_factory=Ids)
    deleted: Ids = field(default_factory=Ids)
    doubtful: Ids = field(default_factory=Ids)
    held: Held | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            if each.name != "held":
                setattr(self, each.name, Ids.of(getattr(self, each.name)))

    @classmethod
    def of(
        cls,
        history: History,
        *,
        documents: int,
        keys: int = 0,
        writers: Mapping[str, int] = MappingProxyType({WRITES: 1}),
        stride: int = 1,
        alone: bool = True,
        probes: bool = True,
    ) -> Self:
        """From a run's record and the numbers of preloaded documents and compare-and-set keys.

        ``writers``: the operations of the load that write documents there, and how many in each request. ``stride``:
        the most of any (:mod:`chaos.base.ids`). ``alone``: no others write elsewhere. ``probes``: those of visibility
        are written there.
        """
        writes = writes_of(history, writers, stride, alone=alone)
        held, deleted, doubtful = None, Ids(), Ids()
        changes = history.changes
        if len(changes) and not alone:
            changes = changes.only(_arrivals(history, writers), stride)
        if len(changes):
            held = Held.of(changes, writes.acknowledged, writes.refused)
            deleted, doubtful = Ids({"w": held.deleted}), Ids({"w": held.doubtful})
            writes = _documents(writes, held)
        known = Ids({"w": writes.acknowledged, "p": np.arange(documents), "c": np.arange(keys)})
        ids = {event["n"]: event["id"] for event in history.probes if event["kind"] == "write" and probes}
        fates = {event["n"]: event for event in history.probes if event["kind"] == "written"}
        acknowledged, refused, unsure = set(), set(), set()
        for n, id in ids.items():
            fate = fates.get(n)
            if fate is not None and fate["acknowledged"]:
                acknowledged.add(id)
            elif fate is not None and fate.get("sent") is False:
                refused.add(id)
            else:
                unsure.add(id)
        return cls(
            known | acknowledged,
            Ids({"w": writes.refused}) | refused,
            Ids({"w": writes.open}) | unsure,
            Ids.of(ids.values()),
            deleted,
            doubtful,
            held,
        )


class Writes(NamedTuple):
    """The numbers of the documents ``w-<number>`` by fate; what was never sent is in none."""

    acknowledged: Ints
    refused: Ints
    open: Ints


def _documents(items: Writes, held: Held) -> Writes:
    """The documents, given the fates of all items: those that changed one made none of their own. What was changed had
    been acknowledged before, and what was deleted, or may have been, is acknowledged no more."""
    changes = held.changes
    gone = np.concatenate([held.deleted, held.doubtful])
    known = np.setdiff1d(np.union1d(items.acknowledged, changes.document), changes.item)
    return Writes(
        np.setdiff1d(known, gone),
        np.setdiff1d(items.refused, changes.item),
        np.setdiff1d(items.open, np.concatenate([changes.item, changes.document])),
    )


def writes_of(history: History, writers: Mapping[str, int], stride: int = 1, *, alone: bool = True) -> Writes:
    """What became of the documents that these operations of the load wrote: name → how many in each request, of which
    ``stride`` is the most. ``alone``: the load has no others that write.

    Of a bulk that was answered each document has its own fate (:mod:`chaos.history.items`). All documents of any other
    have the request's, of which a refused connection, or none for want of something of ours, is a fate for
    sure at the first try alone.
    """
    none = np.empty(0, np.int64)
    items = history.items
    of_items, told = items.numbers(stride), items.acknowledged
    if not alone:
        own = np.repeat(np.isin(items.k, _arrivals(history, writers)), items.sizes)
        of_items, told = of_items[own], told[own]
    found = [Writes(of_items[told], none, of_items[~told])]
    pieces = (
        (arrivals[(arrivals["op"] == writer).to_numpy()], number)
        for arrivals in history.batches(("k", "op", "outcome", "attempts"))
        for writer, number in writers.items()
    )
    for rows, number in pieces:
        k = rows["k"].to_numpy().astype(np.int64)
        whole = ~np.isin(k, items.k)
        # of a bulk without an answer for each document nothing is acknowledged, whatever its outcome
        acknowledged = rows["outcome"].isin(["ok", "partial"]).to_numpy() & (number == 1)
        refused = ((rows["outcome"] == "refused") & (rows["attempts"] <= 1)).to_numpy()
        never = ((rows["outcome"] == "dropped") & (rows["attempts"] <= 1)).to_numpy()
        fates = (acknowledged & whole, refused & whole, ~(acknowledged | refused | never) & whole)
        places = np.arange(number, dtype=np.int64)
        found.append(Writes(*((k[fate][:, None] * stride + places).ravel() for fate in fates)))
    return Writes(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _arrivals(history: History, writers: Mapping[str, int]) -> Ints:
    """The arrivals of these operations."""
    found = [np.empty(0, np.int64)]
    for arrivals in history.batches(("k", "op")):
        found.append(arrivals["k"][arrivals["op"].isin(list(writers))].to_numpy().astype(np.int64))
    return np.concatenate(found)
