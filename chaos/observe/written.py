"""What the load has tried to write, by what became of it: the other side of the final read-back.

Three answers are kept apart. *Acknowledged*: the cluster said yes, so it must be there. *Refused for sure*: no
connection was made, so no node has ever seen the request, and it must not be there. *Open*: everything else,
which may be there or not. A 409, 429 or 5xx is open and no refusal: the coordinating node repeats a write by
itself when it loses the primary, and what the client is told is the fate of the last try alone
(ConcurrentSeqNoVersioningIT, ``TransportReplicationAction``). The same goes for a refused connection after
other attempts of the same request, and for a garbled answer: who sends it may have done the write, and has not said
so. An id that is in none of the three was never sent at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import NamedTuple, Self

import numpy as np

from chaos.history import History
from chaos.history.models import WRITES
from chaos.observe.idsets import Ids, Ints


@dataclass
class Written:
    """Ids by fate; texts are taken too. ``probes``: those of the probes of visibility, whatever their fate."""

    acknowledged: Ids = field(default_factory=Ids)
    refused: Ids = field(default_factory=Ids)
    open: Ids = field(default_factory=Ids)
    probes: Ids = field(default_factory=Ids)

    def __post_init__(self) -> None:
        for each in fields(self):
            setattr(self, each.name, Ids.of(getattr(self, each.name)))

    @classmethod
    def of(cls, history: History, *, documents: int, keys: int = 0, writer: str | None = WRITES) -> Self:
        """From a run's record and the numbers of preloaded documents and compare-and-set keys.

        ``writer``: the operation of the load that writes documents; None when there is none.
        """
        writes = writes_of(history, writer)
        known = Ids({"w": writes.acknowledged, "p": np.arange(documents), "c": np.arange(keys)})
        ids = {event["n"]: event["id"] for event in history.probes if event["kind"] == "write"}
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
        )


class Writes(NamedTuple):
    """The numbers of the documents ``w-<number>`` by fate; what was never sent is in none."""

    acknowledged: Ints
    refused: Ints
    open: Ints


def writes_of(history: History, writer: str | None) -> Writes:
    """What became of the documents that the operation ``writer`` of the load wrote, one for each arrival."""
    none = np.empty(0, np.int64)
    found = [Writes(none, none, none)]
    for arrivals in history.batches(("k", "op", "outcome", "attempts")):
        rows = arrivals[(arrivals["op"] == writer).to_numpy()]
        acknowledged = rows["outcome"].isin(["ok", "partial"]).to_numpy()
        refused = ((rows["outcome"] == "refused") & (rows["attempts"] <= 1)).to_numpy()
        never = (rows["outcome"] == "dropped").to_numpy()
        k = rows["k"].to_numpy().astype(np.int64)
        found.append(Writes(k[acknowledged], k[refused], k[~(acknowledged | refused | never)]))
    return Writes(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
