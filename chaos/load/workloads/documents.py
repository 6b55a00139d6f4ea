"""Small synthetic documents, checkable one by one: the workload of every experiment that names no other.

Every document's content follows from its id alone. Only the documents ``c-<n>``, for compare-and-set, change: their
``seq`` is the value that they hold, and ``check`` follows from id and value. The mapping is strict: a document of
another shape would be refused, not absorbed. Texts are made of a few words (:data:`WORDS`), so that by which of them a
document is found can be asked of all documents at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from chaos.base.ids import is_key, number_of, preload_id, write_id
from chaos.load.workload import Request, Workload
from chaos.opensearch.requests import WRITE_FIELDS

GROUPS = 100
HITS = 10
"""How many documents a search asks for."""

MAPPING: dict[str, Any] = {
    "dynamic": "strict",
    "properties": {
        "seq": {"type": "long"},
        "group": {"type": "integer"},
        "check": {"type": "long"},
        "text": {"type": "text"},
    },
}

WORDS = (
    "amber",
    "basin",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "heron",
    "inlet",
    "jetty",
    "knoll",
    "larch",
    "meadow",
    "north",
    "orchard",
    "prairie",
    "quarry",
    "ridge",
    "spruce",
    "tundra",
    "upland",
    "valley",
    "willow",
    "yarrow",
)
"""Every text is made of these, in the order of the alphabet. A document without text has none of them."""


def cas_source(doc_id: str, value: int) -> dict[str, Any]:
    """The content of a key of compare-and-set that holds ``value``. No search of the load asks for its group."""
    return {**numbers(doc_id, value), "text": ""}


def check_of(doc_id: str, seq: int) -> int:
    """What the field ``check`` of a document must hold whose ``seq`` is this: both say so for a key that changes."""
    return check_value(f"{doc_id}:{seq}" if is_key(doc_id) else doc_id)


def check_value(doc_id: str) -> int:
    """What the field ``check`` of a document must hold: 63 bits of the id's BLAKE2b hash."""
    return int.from_bytes(hashlib.blake2b(doc_id.encode(), digest_size=8).digest(), "big") >> 1


def numbers(doc_id: str, value: int = 0) -> dict[str, int]:
    """The fields of a document that are numbers; of a key of compare-and-set those with which it holds ``value``.

    Raises ``ValueError`` for an id that is none of ours.
    """
    seq = number_of(doc_id)
    if is_key(doc_id):
        return {"seq": value, "group": -1, "check": check_of(doc_id, value)}
    return {"seq": seq, "group": seq % GROUPS, "check": check_value(doc_id)}


def source(doc_id: str) -> dict[str, Any]:
    """The whole content of a document that never changes. Raises ``ValueError`` for an id of no such document."""
    if is_key(doc_id):
        raise ValueError(f"{doc_id!r} is not the id of a document whose content follows from it")
    fields = numbers(doc_id)
    text = " ".join(WORDS[(fields["check"] >> (5 * place)) % len(WORDS)] for place in range(12))
    return {**fields, "text": text}


def content(doc_id: str, value: int = 0) -> dict[str, Any]:
    """The whole content of any document of the load; of a key of compare-and-set the one with which it holds ``value``.

    Raises ``ValueError`` for an id that is none of ours.
    """
    return cas_source(doc_id, value) if is_key(doc_id) else source(doc_id)


def document(k: int) -> dict[str, Any]:
    """The document that arrival ``k`` writes."""
    return source(write_id(k))


def search_body(group: int) -> str:
    """A search for the documents of one group, best first by a word that many have."""
    return json.dumps(
        {
            "size": HITS,
            "query": {
                "bool": {
                    "filter": [{"term": {"group": group}}],
                    "should": [{"match": {"text": WORDS[group % len(WORDS)]}}],
                }
            },
        },
        separators=(",", ":"),
    )


def least_hits(group: int, documents: int) -> int:
    """How many preloaded documents a search for ``group`` must at least find."""
    return documents // GROUPS + (1 if group < documents % GROUPS else 0)


class Requests:
    """Makes the request of each arrival from its number alone; what repeats is made once."""

    def __init__(self, index: str, documents: int) -> None:
        self._index = index
        self._documents = documents
        # only what an answer is judged by comes back: less to decode per request
        hits = ",".join(f"hits.hits.{field}" for field in ("_index", "_id", "_score", "_source"))
        path = f"/{index}/_search?filter_path=timed_out,_shards,hits.total,{hits}"
        self._searches = [
            Request("POST", path, search_body(group), least_hits(group, documents), group) for group in range(GROUPS)
        ]

    def search(self, k: int, place: int) -> Request:
        """Search ``place`` (from 0) of the several that arrival ``k`` sends in one request."""
        return self._searches[((k + 104729 * place) * 2654435761 % 2**32 >> 7) % GROUPS]

    def of(self, kind: str, k: int) -> Request:
        """The request of arrival ``k``. ``kind``: ``search``, ``get`` or ``index``."""
        if kind == "index":
            doc_id = write_id(k)
            # index, not create: ids are ours alone, and a create that the cluster itself repeats after a
            # failover meets its own first try (seen: ten 409 in one decommission), which index does not mind
            path = f"/{self._index}/_doc/{doc_id}?{WRITE_FIELDS}"
            return Request("PUT", path, json.dumps(source(doc_id), separators=(",", ":")))
        scattered = (k * 2654435761) % 2**32 >> 7  # neighbours in time ask for different things
        if kind == "search":
            return self._searches[scattered % GROUPS]
        return Request("GET", f"/{self._index}/_doc/{preload_id(scattered % self._documents)}", None)


def _checks(kind: str, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """:func:`check_value` of the ids ``<kind>-<number>``."""
    hashed = (_hashed(b"%b-%d" % (kind.encode(), number), digest_size=8).digest() for number in numbers.tolist())
    return (np.frombuffer(b"".join(hashed), ">u8") >> np.uint64(1)).astype(np.int64)


_hashed = hashlib.blake2b


class Documents(Workload):
    """Three numbers and twelve words a document; searches for a group, gets by id."""

    name = "documents"
    says = "small documents: three numbers, and a text of twelve words"
    mapping = MAPPING
    fields = ("seq", "group", "check")
    value = "seq"
    unique = "check"
    text = "text"
    words = WORDS

    def requests(self, index: str, documents: int) -> Requests:
        return Requests(index, documents)

    def numbers(self, doc_id: str, value: int = 0) -> dict[str, int]:
        return numbers(doc_id, value)

    def columns(self, kind: str, numbers: npt.NDArray[np.int64], names: Collection[str]) -> dict[str, npt.NDArray[Any]]:
        """As the base says; without a dictionary for each document."""
        made: dict[str, Callable[[], npt.NDArray[np.int64]]] = {
            "seq": lambda: numbers,
            "group": lambda: numbers % GROUPS,
            "check": lambda: _checks(kind, numbers),
        }
        return {name: made[name]() for name in names}

    def content(self, doc_id: str, value: int = 0) -> dict[str, Any]:
        return content(doc_id, value)

    def found_by(self, doc_id: str) -> tuple[int, ...]:
        """Its group; no search asks for that of a key."""
        return () if is_key(doc_id) else (number_of(doc_id) % GROUPS,)


WORKLOAD = Documents()
