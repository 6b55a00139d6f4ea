"""Traffic of a cluster that is not ours: what its nodes count of every copy of every shard, less our own indices.

Counters belong to a copy on a node. They begin at 0 where a copy is made, comes back or moves to, and are gone with a
node that leaves, so sums of them fall and rise for no reason. Therefore copies are compared one by one, those that are
in both of two answers, and one of whose counters any has fallen began anew and says nothing of that time. Nodes are
asked by ``_nodes/stats``, which waits for each of them no longer than it is told; ``_stats`` waits for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

PERIOD_SECONDS = 2.0
"""Between two questions of those who sample. An answer has some 170 bytes for each copy of a shard, see
``benchmarks/foreign_cost.py``."""
CANARY = ".failover-canary"
"""How those of failover controllers begin. A name with a dot: ``awareness.balance`` refuses other indices whose copies
are no multiple of the zones (``getIndexSettingsValidationErrors`` of OpenSearch's MetadataCreateIndexService)."""
WHO = "/_cluster/state/cluster_manager_node?local=true&filter_path=cluster_uuid,cluster_manager_node,master_node"
"""Whether who answers is in the cluster: a node that was put out of it has no cluster manager, and old counters."""
_OF_A_COPY = "nodes.*.indices.shards.*.*."
COUNTERS = (
    "/_nodes/stats/indices/search,indexing?level=shards&timeout=1s&filter_path=_nodes.successful,_nodes.failed,"
    f"{_OF_A_COPY}search.query_total,{_OF_A_COPY}search.query_time_in_millis,{_OF_A_COPY}indexing.index_total,"
    f"{_OF_A_COPY}indexing.index_time_in_millis,{_OF_A_COPY}indexing.index_failed"
)
Key = tuple[str, str, str]
"""Index, shard and node of a copy."""


@dataclass(frozen=True)
class Copy:
    """What one copy of a shard has done since it came to its node. Milliseconds are of all its requests together."""

    searches: int
    search_ms: int
    indexed: int
    index_ms: int
    failed: int


@dataclass(frozen=True)
class Counted:
    """One answer. ``nodes`` answered, ``unheard`` did not: nothing is known of their copies."""

    copies: Mapping[Key, Copy]
    nodes: int
    unheard: int


@dataclass(frozen=True)
class Grown:
    """What was done between two answers, ``seconds`` apart, by the ``copies`` that are in both.

    ``searches`` counts each shard that was searched, as OpenSearch does, with the milliseconds of all their queries.
    ``documents`` counts each once, ``indexed`` on every copy, with the milliseconds of all of these; ``failed`` are
    those that a copy refused.
    """

    seconds: float
    searches: int
    search_ms: int
    documents: int
    indexed: int
    index_ms: int
    failed: int
    copies: int


def not_of(prefix: str, notes: str | None) -> Callable[[str], bool]:
    """Whether an index, by its name, is not ours. ``prefix``: how the names of ours begin; ``notes``: the index of
    notes. Canaries are nobody's traffic."""
    return lambda index: not index.startswith((prefix, f"{CANARY}-")) and index != notes


def counted(answer: Any, foreign: Callable[[str], bool]) -> Counted:
    """An answer to :data:`COUNTERS`, without our own indices. Raises one of ``rest.UNREADABLE`` where it is none."""
    copies = {}
    for node, said in answer.get("nodes", {}).items():
        for index, shards in said.get("indices", {}).get("shards", {}).items():
            if not foreign(index):
                continue
            for group in shards:
                for shard, copy in group.items():
                    copies[index, str(shard), str(node)] = _copy(copy)
    return Counted(copies, _number(answer["_nodes"]["successful"]), _number(answer["_nodes"]["failed"]))


def _copy(said: Any) -> Copy:
    search, indexing = said["search"], said["indexing"]
    return Copy(
        _number(search["query_total"]),
        _number(search["query_time_in_millis"]),
        _number(indexing["index_total"]),
        _number(indexing["index_time_in_millis"]),
        _number(indexing["index_failed"]),
    )


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no counter")
    return value


def grown(first: Counted, second: Counted, seconds: float) -> Grown:
    """What was done between two answers.

    A document is indexed once on every copy of its shard that is there (with segment replication on the primary
    alone), so the copy that indexed most says how many there were, whichever of them is the primary by now.
    """
    sums = dict.fromkeys((field.name for field in fields(Copy)), 0)
    documents: dict[tuple[str, str], int] = {}
    compared = 0
    for key, now in second.copies.items():
        before = first.copies.get(key)
        if before is None:
            continue
        more = {name: getattr(now, name) - getattr(before, name) for name in sums}
        if min(more.values()) < 0:
            continue
        compared += 1
        for name, value in more.items():
            sums[name] += value
        group = key[:2]
        documents[group] = max(documents.get(group, 0), more["indexed"])
    return Grown(seconds, documents=sum(documents.values()), copies=compared, **sums)
