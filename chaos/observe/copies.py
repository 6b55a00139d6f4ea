"""Searches on one copy of one shard, on the node that holds it.

``preference=_shards:n|_only_local``: zone weights forbid naming nodes, but not this. The path is the direct one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import urllib3

from chaos.opensearch.rest import UNREADABLE
from chaos.opensearch.views import ShardCopy
from chaos.targets.protocol import Lab

TIMEOUT = 30.0
"""Seconds for each search."""
WANTED = ",".join(
    ["_shards", "timed_out", "hits.total"]
    + [
        f"hits.hits.{part}"
        for part in ("_id", "fields", "sort", "_seq_no", "_primary_term", "_source", "matched_queries")
    ]
)
"""Parts of an answer that are needed, to whoever asks for them."""


class NotRead(Exception):
    """A copy did not answer, or not in full, or not so that the answer could be read."""


class Page(NamedTuple):
    """Some of the documents that a search found. ``total``: how many it found, on the first page alone."""

    hits: list[dict[str, Any]]
    total: int | None


class CopySearch:
    """A copy of a shard that can be searched. Close it when done."""

    def __init__(self, lab: Lab, copy: ShardCopy, order: Sequence[str]) -> None:
        """``order``: fields by which all documents can be read page by page; together no two have the same."""
        assert copy.node is not None
        self._client = lab.client(copy.node, timeout=TIMEOUT)
        self._order = list(order)
        self._path = (
            f"/{copy.index}/_search?preference=_shards:{copy.shard}%7C_only_local&allow_partial_search_results=false"
            f"&request_cache=false&filter_path={WANTED}"
        )

    def search(self, body: dict[str, Any]) -> dict[str, Any]:
        """The answer of this very copy. Raises :class:`NotRead`."""
        try:
            status, answer = self._client.request("POST", self._path, body=body)
            if status != 200 or answer.get("timed_out") or answer["_shards"]["successful"] != 1:
                raise NotRead(f"status {status}: {str(answer)[:200]}")
            return dict(answer)
        except urllib3.exceptions.HTTPError as error:
            raise NotRead(str(error)) from error
        except UNREADABLE as error:
            raise _odd(error) from error

    def pages(self, body: dict[str, Any], size: int) -> Iterator[Page]:
        """Every document that ``body`` finds, ``size`` at a time. Raises :class:`NotRead`."""
        after: list[Any] | None = None
        while True:
            more = {"search_after": after} if after is not None else {}
            answer = self.search({**body, "size": size, "sort": self._order, "track_total_hits": after is None, **more})
            try:
                hits = list(answer.get("hits", {}).get("hits", []))
                total = int(answer["hits"]["total"]["value"]) if after is None else None
                after = list(hits[-1]["sort"]) if hits else []
            except UNREADABLE as error:
                raise _odd(error) from error
            yield Page(hits, total)
            if len(hits) < size:
                return

    def count(self, query: dict[str, Any]) -> int:
        """How many documents a query finds. Raises :class:`NotRead`."""
        answer = self.search({"size": 0, "track_total_hits": True, "query": query})
        try:
            return int(answer["hits"]["total"]["value"])
        except UNREADABLE as error:
            raise _odd(error) from error

    def close(self) -> None:
        self._client.close()


def _odd(error: Exception) -> NotRead:
    return NotRead(f"an answer that cannot be read: {type(error).__name__} {error}")
