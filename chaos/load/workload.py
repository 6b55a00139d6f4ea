"""The load's index, its documents and its requests: small, synthetic, and checkable one by one.

Every document's content follows from its id alone, so that the final read-back can tell a wrong document
from a right one without having kept any. Arrival ``k`` of a write makes ``w-<k>``; preloaded documents are
``p-<n>``, those of the probes of visibility ``v-<n>``. Only the documents ``c-<n>``, for compare-and-set, change:
their ``seq`` is the value that they hold, and ``check`` follows from id and value. The mapping is strict: a
document of another shape would be refused, not absorbed. Texts are made of a few words (:data:`WORDS`), so that
by which of them a document is found can be asked of all documents at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from opensearchpy import OpenSearch
from opensearchpy.exceptions import OpenSearchException
from opensearchpy.helpers import bulk

from chaos.base.errors import LabError
from chaos.opensearch.rest import UNREADABLE

INDEX = "chaos"
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


def write_id(k: int) -> str:
    """The id of the document that arrival ``k`` writes."""
    return f"w-{k}"


def preload_id(n: int) -> str:
    return f"p-{n}"


def probe_id(n: int) -> str:
    """The id of the document that probe ``n`` of visibility writes."""
    return f"v-{n}"


def cas_id(n: int) -> str:
    """The id of key ``n`` of compare-and-set."""
    return f"c-{n}"


def cas_source(doc_id: str, value: int) -> dict[str, Any]:
    """The content of a key of compare-and-set that holds ``value``. No search of the load asks for its group."""
    return {**numbers(doc_id, value), "text": ""}


def check_of(doc_id: str, seq: int) -> int:
    """What the field ``check`` of a document must hold whose ``seq`` is this: both say so for a key that changes."""
    return check_value(f"{doc_id}:{seq}" if doc_id.startswith("c-") else doc_id)


def check_value(doc_id: str) -> int:
    """What the field ``check`` of a document must hold: 63 bits of the id's BLAKE2b hash."""
    return int.from_bytes(hashlib.blake2b(doc_id.encode(), digest_size=8).digest(), "big") >> 1


def numbers(doc_id: str, value: int = 0) -> dict[str, int]:
    """The fields of a document that are numbers; of a key of compare-and-set those with which it holds ``value``.

    Raises ``ValueError`` for an id that is none of ours.
    """
    kind, _, number = doc_id.partition("-")
    if kind == "c":
        return {"seq": value, "group": -1, "check": check_of(doc_id, value)}
    if kind not in ("w", "p", "v"):
        raise ValueError(f"{doc_id!r} is not the id of a document of the load")
    seq = int(number)
    return {"seq": seq, "group": seq % GROUPS, "check": check_value(doc_id)}


def source(doc_id: str) -> dict[str, Any]:
    """The whole content of a document that never changes. Raises ``ValueError`` for an id of no such document."""
    if doc_id.startswith("c-"):
        raise ValueError(f"{doc_id!r} is not the id of a document whose content follows from it")
    fields = numbers(doc_id)
    text = " ".join(WORDS[(fields["check"] >> (5 * place)) % len(WORDS)] for place in range(12))
    return {**fields, "text": text}


def content(doc_id: str, value: int = 0) -> dict[str, Any]:
    """The whole content of any document of the load; of a key of compare-and-set the one with which it holds ``value``.

    Raises ``ValueError`` for an id that is none of ours.
    """
    return cas_source(doc_id, value) if doc_id.startswith("c-") else source(doc_id)


def document(k: int) -> dict[str, Any]:
    """The document that arrival ``k`` writes."""
    return source(write_id(k))


def body(doc_id: str) -> str:
    """A document as it goes over the wire."""
    return json.dumps(source(doc_id), separators=(",", ":"))


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


class Request(NamedTuple):
    """One request of the load, as it goes over the wire. ``least_hits``: see :func:`least_hits`."""

    method: str
    path: str
    body: str | None
    least_hits: int = 0


class Requests:
    """Makes the request of each arrival from its number alone; what repeats is made once."""

    def __init__(self, index: str, documents: int) -> None:
        self._index = index
        self._documents = documents
        # only what the outcome needs comes back, and the ids of the hits: less to decode per request
        path = f"/{index}/_search?filter_path=timed_out,_shards,hits.total,hits.hits._id"
        self._searches = [
            Request("POST", path, search_body(group), least_hits(group, documents)) for group in range(GROUPS)
        ]

    def of(self, kind: str, k: int) -> Request:
        """The request of arrival ``k``. ``kind``: ``search``, ``get`` or ``index``."""
        if kind == "index":
            doc_id = write_id(k)
            # index, not create: ids are ours alone, and a create that the cluster itself repeats after a
            # failover meets its own first try (seen: ten 409 in one decommission), which index does not mind
            return Request("PUT", f"/{self._index}/_doc/{doc_id}?filter_path=result,_shards", body(doc_id))
        scattered = (k * 2654435761) % 2**32 >> 7  # neighbours in time ask for different things
        if kind == "search":
            return self._searches[scattered % GROUPS]
        return Request("GET", f"/{self._index}/_doc/{preload_id(scattered % self._documents)}", None)


def preload(client: OpenSearch, documents: int, index: str = INDEX, *, keys: int = 0) -> None:
    """Write ``p-0`` to ``p-<documents - 1>`` and the ``keys`` of compare-and-set, each with the value 0.

    Makes them visible and checks that they are all there. Raises :class:`LabError`.
    """
    if documents + keys == 0:
        return
    actions = _actions(index, documents, keys)
    documents += keys
    try:
        _, failures = bulk(client, actions, chunk_size=500, raise_on_error=False, request_timeout=60)
        client.indices.refresh(index=index, request_timeout=60)
        found = client.count(index=index, request_timeout=60)["count"]
    except (OpenSearchException, *UNREADABLE) as error:
        raise LabError(f"the documents of the load could not be written: {type(error).__name__} {error}") from error
    if failures:
        raise LabError(f"{len(failures)} of {documents} documents were refused, the first: {failures[0]}")
    if found < documents:
        raise LabError(f"{documents} documents were written to {index}, but only {found} are found")


def _actions(index: str, documents: int, keys: int) -> Iterable[dict[str, Any]]:
    for n in range(documents):
        doc_id = preload_id(n)
        yield {"_op_type": "create", "_index": index, "_id": doc_id, "_source": source(doc_id)}
    for n in range(keys):
        doc_id = cas_id(n)
        yield {"_op_type": "create", "_index": index, "_id": doc_id, "_source": cas_source(doc_id, 0)}
