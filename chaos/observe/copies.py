"""Searches on one copy of one shard, on the node that holds it.

``preference=_shards:n|_only_local``: zone weights forbid naming nodes, but not this. The path is the direct one.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import urllib3

from chaos.opensearch.rest import UNREADABLE
from chaos.opensearch.views import ShardCopy
from chaos.targets.protocol import Lab

TIMEOUT = 30.0
"""Seconds for each search."""
OF_HITS = ("_id", "fields", "sort", "_seq_no", "_primary_term", "_source", "matched_queries")
WANTED = ",".join(["_shards", "timed_out", "hits.total", *(f"hits.hits.{part}" for part in OF_HITS)])
"""Parts of an answer that are needed, to whoever asks for them."""


class NotRead(Exception):
    """A copy did not answer, or not in full, or not so that the answer could be read."""


class Page(NamedTuple):
    """Some of the documents that a search found. ``total``: how many it found, on the first page alone.

    ``size``: how many documents there are. ``after``: the place of the last, from where the next page begins.
    """

    hits: list[dict[str, Any]]
    total: int | None
    size: int
    after: list[Any]


class Part(Protocol):
    """What is made of an answer with documents."""

    @property
    def size(self) -> int: ...

    @property
    def after(self) -> list[Any]: ...


P = TypeVar("P", bound=Part)


def page(answer: bytes) -> Page:
    """The documents of an answer. Raises :class:`NotRead` where it is not the whole answer of one copy."""
    try:
        found = json.loads(answer.decode())
        _refuse(found)
        hits = list(found.get("hits", {}).get("hits", []))
        for hit in hits:
            if (named := hit.get("_routing")) is not None:  # only where it was asked for: see CopySearch
                hit["_id"] = named
        total = found.get("hits", {}).get("total")
        after = list(hits[-1]["sort"]) if hits else []
        return Page(hits, None if total is None else int(total["value"]), len(hits), after)
    except UNREADABLE as error:
        raise odd_answer(error) from error


def _refuse(answer: dict[str, Any]) -> None:
    if answer.get("timed_out") or answer["_shards"]["successful"] != 1:
        raise NotRead(f"status 200: {str(answer)[:200]}")


class Shared(Generic[P]):
    """What is made of answers, once for several copies that give the same: they do, where their documents are.

    Answers are the same byte by byte, by their BLAKE2b hash. One is decoded at a time: several threads at it would only
    take turns, and drive each other's objects out of the processor's cache.
    """

    def __init__(self, make: Callable[[bytes], P], kept: int) -> None:
        """``kept``: of how many answers is kept what was made, for copies that are behind."""
        self._make, self._kept = make, kept
        self._made = OrderedDict[bytes, P]()
        self._lock = threading.Lock()

    def __call__(self, answer: bytes) -> P:
        name = hashlib.blake2b(answer, digest_size=16).digest()
        with self._lock:
            if (made := self._made.get(name)) is None:
                made = self._made[name] = self._make(answer)
                if len(self._made) > self._kept:
                    self._made.popitem(last=False)
            return made


ABSENT = {"missing": "_last"}
"""Where documents without a field stand, which is where they stand anyway. Unless it is said, OpenSearch
3.8.0 (tried) passes over every segment in which no document has the first field, once an answer continues another."""


class CopySearch:
    """A copy of a shard that can be searched. Close it when done. ``unreachable``: its node gave no answer, once."""

    def __init__(self, lab: Lab, copy: ShardCopy, order: Sequence[str], most: int, *, routed: bool = False) -> None:
        """``order``: fields by which all documents can be read page by page; together no two have the same. ``most``:
        how many documents an answer may have. ``routed``: OpenSearch gave documents their ids, and ours is the value
        by which they were routed; it takes the id's place in all that is read."""
        self._routed = routed
        assert copy.node is not None
        self._client = lab.client(copy.node, timeout=TIMEOUT)
        self._order, self._most = [{field: ABSENT} for field in order], most
        self.unreachable = False
        self._path = (
            f"/{copy.index}/_search?preference=_shards:{copy.shard}%7C_only_local&allow_partial_search_results=false"
            f"&request_cache=false&filter_path={WANTED}{',hits.hits._routing' if routed else ''}"
        )

    def named(self, ids: Sequence[str]) -> dict[str, Any]:
        """The query that finds the documents with these ids of ours."""
        by_id: dict[str, Any] = {"ids": {"values": list(ids)}}
        if not self._routed:
            return by_id
        return {"bool": {"should": [by_id, {"terms": {"_routing": list(ids)}}]}}

    def search(self, body: dict[str, Any]) -> bytes:
        """The answer of this very copy, not decoded. Raises :class:`NotRead`."""
        try:
            status, answer = self._client.fetch("POST", self._path, body=body)
        except urllib3.exceptions.HTTPError as error:
            self.unreachable = True
            raise NotRead(str(error)) from error
        if status != 200:
            raise NotRead(f"status {status}: {answer[:200].decode(errors='replace')}")
        return answer

    def pages(self, body: dict[str, Any], size: int, made: Callable[[bytes], P]) -> Iterator[P]:
        """Every document that ``body`` finds, ``size`` at a time, each answer as it is ``made`` of its bytes
        (:func:`page`).

        Raises :class:`NotRead`.
        """
        size = min(size, self._most)
        after: list[Any] | None = None
        while True:
            more = {"search_after": after} if after is not None else {}
            part = made(
                self.search({**body, "size": size, "sort": self._order, "track_total_hits": after is None, **more})
            )
            yield part
            if part.size < size:
                return
            after = part.after

    def count(self, query: dict[str, Any]) -> int:
        """How many documents a query finds. Raises :class:`NotRead`."""
        found = page(self.search({"size": 0, "track_total_hits": True, "query": query})).total
        if found is None:
            raise NotRead("an answer does not say how many documents it found")
        return found

    def close(self) -> None:
        self._client.close()


def odd_answer(error: Exception) -> NotRead:
    """What is said of an answer of another shape than expected."""
    return NotRead(f"an answer that cannot be read: {type(error).__name__} {error}")
