"""Monitoring calls, as dashboards, agents and scripts make them at a rate: a fixed list, all of which only read.

The usual ones have the names and paths of the storm of such calls (``cluster_manager.admin_storm``). Each arrival makes
one of a stream's calls, scattered over them by its number. Its answer is good where it is whole and has the shape that
it must have: what OpenSearch's documentation names is there, with the right type, and no node or shard failed to
answer. What it says of the cluster is not judged: a red cluster that says so has answered well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from chaos.history.format import Outcome
from chaos.load.workload import Request
from chaos.opensearch.rest import UNREADABLE


class Call(NamedTuple):
    """``whole``: whether an answer is, of which each raises one of UNREADABLE for what has another shape."""

    path: str
    whole: Callable[[Any], bool]


def _whole_health(answer: Any) -> bool:
    timed_out, nodes = answer["timed_out"], answer["number_of_nodes"]
    _must(answer["status"] in ("green", "yellow", "red") and type(timed_out) is bool and type(nodes) is int)
    return not timed_out


def _whole_state(answer: Any) -> bool:
    _must(isinstance(answer["nodes"], Mapping) and isinstance(answer["metadata"], Mapping))
    _must(type(answer["version"]) is int and isinstance(answer["routing_table"], Mapping))
    return True


def _whole_of_nodes(answer: Any) -> bool:
    """An answer that was collected from nodes: all of them are in it."""
    counts = answer["_nodes"]
    total, successful, failed = counts["total"], counts["successful"], counts["failed"]
    _must(type(total) is type(successful) is type(failed) is int and isinstance(answer["nodes"], Mapping))
    return bool(failed == 0 and successful == total > 0)


def _whole_by_node(answer: Any) -> bool:
    """The same with a part for each node."""
    whole = _whole_of_nodes(answer)
    _must(len(answer["nodes"]) == answer["_nodes"]["successful"])
    return whole


def _whole_of_tasks(answer: Any) -> bool:
    _must(isinstance(answer["nodes"], Mapping))
    return not answer.get("node_failures") and not answer.get("task_failures")


def _whole_of_shards(answer: Any) -> bool:
    """Of shards that have no copy there is no word in it, as in what others see."""
    shards = answer["_shards"]
    total, successful, failed = shards["total"], shards["successful"], shards["failed"]
    _must(type(total) is type(successful) is type(failed) is int and isinstance(answer["_all"], Mapping))
    return bool(failed == 0 and successful <= total)


def _whole_table(answer: Any) -> bool:
    _must(type(answer) is list and all(isinstance(row, Mapping) and row.get("index") for row in answer))
    return True


def _whole_page(rows: str) -> Callable[[Any], bool]:
    """One page of a table, and how to get the next one."""

    def whole(answer: Any) -> bool:
        _must("next_token" in answer)
        return _whole_table(answer[rows])

    return whole


def _whole_allocation(answer: Any) -> bool:
    """A row for each node, and one for copies that have none."""
    _must(type(answer) is list and bool(answer) and all(isinstance(row, Mapping) and row.get("node") for row in answer))
    return True


def _whole_index_settings(answer: Any) -> bool:
    _must(isinstance(answer, Mapping) and all(isinstance(each["settings"], Mapping) for each in answer.values()))
    return True


def _whole_mappings(answer: Any) -> bool:
    _must(isinstance(answer, Mapping) and all(isinstance(each["mappings"], Mapping) for each in answer.values()))
    return True


def _whole_settings(answer: Any) -> bool:
    _must(all(isinstance(answer[each], Mapping) for each in ("persistent", "transient", "defaults")))
    return True


def _whole_pending(answer: Any) -> bool:
    _must(type(answer["tasks"]) is list)
    return True


def _must(right: bool) -> None:
    if not right:
        raise TypeError("no answer to this call")


CALLS: Mapping[str, Call] = {
    "state": Call("/_cluster/state", _whole_state),
    "health": Call("/_cluster/health", _whole_health),
    "stats": Call("/_cluster/stats", _whole_of_nodes),
    "nodes": Call("/_nodes/stats", _whole_by_node),
    "indices": Call("/_stats", _whole_of_shards),
    "cat": Call("/_cat/shards?format=json", _whole_table),
    "mappings": Call("/_mapping", _whole_mappings),
    "settings": Call("/_cluster/settings?include_defaults=true", _whole_settings),
    "tasks": Call("/_tasks", _whole_of_tasks),
    "pending": Call("/_cluster/pending_tasks", _whole_pending),
}
"""The usual ones: those of a stream that names none."""
NAMED: Mapping[str, Call] = {
    "index-settings": Call("/_settings", _whole_index_settings),
    "cat-indices": Call("/_cat/indices?format=json", _whole_table),
    "cat-allocation": Call("/_cat/allocation?format=json", _whole_allocation),
    "list-indices": Call("/_list/indices?format=json&size=100", _whole_page("indices")),
    "list-shards": Call("/_list/shards?format=json&size=2000", _whole_page("shards")),
    "stats-filtered": Call("/_cluster/stats/os,jvm,process/nodes/_all", _whole_of_nodes),
    "nodes-filtered": Call("/_nodes/stats/os,jvm,process", _whole_by_node),
    "health-indices": Call("/_cluster/health?level=indices", _whole_health),
    "health-queue": Call("/_cluster/health?wait_for_events=high&timeout=4s&cluster_manager_timeout=4s", _whole_health),
}
"""Those of a stream that names them. Of a table in pages the first page is asked. ``health-queue`` waits in the cluster
manager's queue like an update of a mapping (priority high), and changes nothing."""
EVERY: Mapping[str, Call] = {**CALLS, **NAMED}
_BY_PATH = {call.path: call for call in EVERY.values()}


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
        return Outcome.OK if _BY_PATH[path].whole(json.loads(text)) else Outcome.PARTIAL
    except UNREADABLE:
        return Outcome.GARBLED
