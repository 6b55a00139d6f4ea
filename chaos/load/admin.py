"""Monitoring calls, as dashboards, agents and scripts make them at a rate: a fixed list, all of which only read.

The usual ones have the names and paths of the storm of such calls (``cluster_manager.admin_storm``). Each arrival makes
one of a stream's calls, scattered over them by its number. Its answer is good where it is whole and has the shape that
it must have: what OpenSearch's documentation names is there, with the right type, and no node or shard failed to
answer. What it says of the cluster is not judged: a red cluster that says so has answered well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Raw, Struct

from chaos.history.format import Outcome
from chaos.load.workload import Request

Filled = Annotated[str, Meta(min_length=1)]
Object = dict[str, Raw]
"""What is in it is skipped: to build it took the driver 33 ms of a state of 6,000 entries, and other requests wait."""


class Health(Struct):
    status: Literal["green", "yellow", "red"]
    timed_out: bool
    number_of_nodes: int

    @property
    def whole(self) -> bool:
        return not self.timed_out


class State(Struct):
    version: int
    nodes: Object
    metadata: Object
    routing_table: Object


class Counts(Struct):
    total: int
    successful: int
    failed: int


class OfNodes(Struct):
    """Collected from nodes: whole where all of them are in it."""

    counts: Counts = msgspec.field(name="_nodes")
    nodes: Object

    @property
    def whole(self) -> bool:
        return self.counts.failed == 0 and self.counts.successful == self.counts.total > 0


class ByNode(OfNodes):
    """The same with a part for each node."""

    def __post_init__(self) -> None:
        if len(self.nodes) != self.counts.successful:
            raise ValueError("parts are missing")


class Tasks(Struct):
    nodes: Object
    node_failures: list[Raw] | None = None
    task_failures: list[Raw] | None = None

    @property
    def whole(self) -> bool:
        return not self.node_failures and not self.task_failures


class OfShards(Struct):
    """Of shards that have no copy there is no word in it, as in what others see."""

    counts: Counts = msgspec.field(name="_shards")
    every: Object = msgspec.field(name="_all")

    @property
    def whole(self) -> bool:
        return self.counts.failed == 0 and self.counts.successful <= self.counts.total


class Row(Struct):
    index: Filled


class PageOfIndices(Struct):
    """One page of a table, and how to get the next one."""

    next_token: str | None
    indices: list[Row]


class PageOfShards(Struct):
    next_token: str | None
    shards: list[Row]


class Allocation(Struct):
    """A row for a node, or for copies that have none."""

    node: Filled


class IndexSettings(Struct):
    settings: Object


class Mappings(Struct):
    mappings: Object


class Settings(Struct):
    persistent: Object
    transient: Object
    defaults: Object


class Pending(Struct):
    tasks: list[Raw]


class Call(NamedTuple):
    """``shape``: the type that an answer must have. Where parts may be missing in one, the type's ``whole`` tells."""

    path: str
    shape: Any


CALLS: Mapping[str, Call] = {
    "state": Call("/_cluster/state", State),
    "health": Call("/_cluster/health", Health),
    "stats": Call("/_cluster/stats", OfNodes),
    "nodes": Call("/_nodes/stats", ByNode),
    "indices": Call("/_stats", OfShards),
    "cat": Call("/_cat/shards?format=json", list[Row]),
    "mappings": Call("/_mapping", dict[str, Mappings]),
    "settings": Call("/_cluster/settings?include_defaults=true", Settings),
    "tasks": Call("/_tasks", Tasks),
    "pending": Call("/_cluster/pending_tasks", Pending),
}
"""The usual ones: those of a stream that names none."""
NAMED: Mapping[str, Call] = {
    "index-settings": Call("/_settings", dict[str, IndexSettings]),
    "cat-indices": Call("/_cat/indices?format=json", list[Row]),
    "cat-allocation": Call("/_cat/allocation?format=json", Annotated[list[Allocation], Meta(min_length=1)]),
    "list-indices": Call("/_list/indices?format=json&size=100", PageOfIndices),
    "list-shards": Call("/_list/shards?format=json&size=2000", PageOfShards),
    "stats-filtered": Call("/_cluster/stats/os,jvm,process/nodes/_all", OfNodes),
    "nodes-filtered": Call("/_nodes/stats/os,jvm,process", ByNode),
    "health-indices": Call("/_cluster/health?level=indices", Health),
    "health-queue": Call("/_cluster/health?wait_for_events=high&timeout=4s&cluster_manager_timeout=4s", Health),
}
"""Those of a stream that names them. Of a table in pages the first page is asked. ``health-queue`` waits in the cluster
manager's queue like an update of a mapping (priority high), and changes nothing."""
EVERY: Mapping[str, Call] = {**CALLS, **NAMED}
_DECODERS = {call.path: msgspec.json.Decoder(call.shape) for call in EVERY.values()}


class Calls:
    """The requests of a stream. ``names``: of its calls; none: all."""

    def __init__(self, names: Sequence[str]) -> None:
        self._paths = [EVERY[name].path for name in names or CALLS]

    def of(self, kind: str, k: int) -> Request:
        """The call of arrival ``k``."""
        scattered = (k * 2654435761) % 2**32 >> 7  # else it would go in step with streams beside it
        return Request("GET", self._paths[scattered % len(self._paths)], None)


def judge(path: str, text: str | bytes) -> Outcome:
    """What came of a call that was answered with a status of 2xx. ``path``: as it was asked."""
    try:
        answer = _DECODERS[path].decode(text)
    except msgspec.DecodeError:
        return Outcome.GARBLED
    return Outcome.OK if getattr(answer, "whole", True) else Outcome.PARTIAL
