"""What the load has tried to write, by what became of it: the other side of the final read-back.

Three answers are kept apart. *Acknowledged*: the cluster said yes, so it must be there. *Refused for sure*: no
connection was made, so no node has ever seen the request, and it must not be there. *Open*: everything else,
which may be there or not. A 409, 429 or 5xx is open and no refusal: the coordinating node repeats a write by
itself when it loses the primary, and what the client is told is the fate of the last try alone
(ConcurrentSeqNoVersioningIT, ``TransportReplicationAction``). The same goes for a refused connection after
other attempts of the same request, and for a garbled answer: who sends it may have done the write, and has not said
so. The same of each document of a bulk that is not acknowledged. An id that is in none of the three was never sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

from chaos.base.ids import cas_id, preload_id, write_id
from chaos.history import History
from chaos.history.models import WRITES


@dataclass
class Written:
    """Ids by fate. ``probes``: those of the probes of visibility, whatever their fate."""

    acknowledged: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    probes: set[str] = field(default_factory=set)

    @classmethod
    def of(
        cls, history: History, *, documents: int, keys: int = 0, writer: str | None = WRITES, stride: int = 1
    ) -> Self:
        """From a run's record and the numbers of preloaded documents and compare-and-set keys.

        ``writer``: the operation of the load that writes documents; None when there is none. ``stride``: how many
        documents each of its requests has (:mod:`chaos.base.ids`).
        """
        found = cls(*map(_ids, numbers(history, writer, stride)))
        found.acknowledged |= {preload_id(n) for n in range(documents)}
        found.acknowledged |= {cas_id(n) for n in range(keys)}
        ids = {event["n"]: event["id"] for event in history.probes if event["kind"] == "write"}
        fates = {event["n"]: event for event in history.probes if event["kind"] == "written"}
        for n, id in ids.items():
            fate = fates.get(n)
            if fate is not None and fate["acknowledged"]:
                found.acknowledged.add(id)
            elif fate is not None and fate.get("sent") is False:
                found.refused.add(id)
            else:
                found.open.add(id)
        found.probes = set(ids.values())
        return found


Numbers = npt.NDArray[np.int64]


def numbers(history: History, writer: str | None, stride: int) -> tuple[Numbers, Numbers, Numbers]:
    """The written documents' numbers by fate: acknowledged, refused for sure, open.

    Of a bulk that was answered each document has its own fate (:mod:`chaos.history.items`); all documents of any other
    have the request's, of which only a refused connection is a fate for sure.
    """
    arrivals = history.arrivals
    writes = arrivals[arrivals["op"] == writer]
    k = writes["k"].to_numpy().astype(np.int64)
    refused = ((writes["outcome"] == "refused") & (writes["attempts"] <= 1)).to_numpy()
    never = (writes["outcome"] == "dropped").to_numpy()
    if stride == 1:
        acknowledged = writes["outcome"].isin(["ok", "partial"]).to_numpy()
        return k[acknowledged], k[refused], k[~(acknowledged | refused | never)]
    items = history.items
    answered = np.isin(k, items.k)
    of_items = items.numbers(stride)
    places = np.arange(stride)

    def all_of(bulks: Numbers) -> Numbers:
        return (bulks[:, None] * stride + places).ravel()

    unanswered = all_of(k[~(answered | refused | never)])
    return (
        of_items[items.acknowledged],
        all_of(k[refused & ~answered]),
        np.concatenate([of_items[~items.acknowledged], unanswered]),
    )


def _ids(numbers: Iterable[int]) -> set[str]:
    return {write_id(int(k)) for k in numbers}
