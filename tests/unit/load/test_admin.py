"""Monitoring calls: good where the answer is whole and has its shape, whatever it says of the cluster."""

from __future__ import annotations

import copy
import json
from collections import Counter
from typing import Any, get_args

import pytest

from chaos.base import operations
from chaos.faults.kinds.cluster_manager import AdminRequest
from chaos.history.format import Outcome
from chaos.load import admin
from chaos.load.known import Known
from chaos.load.right import Judge
from chaos.load.workloads.documents import WORKLOAD
from chaos.providers.rest import ADMIN

COUNTS = {"total": 2, "successful": 2, "failed": 0}
WHOLE: dict[str, Any] = {
    "health": {"status": "red", "timed_out": False, "number_of_nodes": 2},
    "state": {"version": 7, "nodes": {}, "metadata": {}, "routing_table": {}},
    "stats": {"_nodes": COUNTS, "nodes": {"count": {"total": 2}}, "status": "yellow"},
    "nodes": {"_nodes": COUNTS, "nodes": {"a": {}, "b": {}}},
    "indices": {"_shards": {"total": 9, "successful": 6, "failed": 0}, "_all": {}, "indices": {}},
    "cat": [{"index": "chaos", "shard": "0", "state": "UNASSIGNED"}],
    "mappings": {"chaos": {"mappings": {}}},
    "settings": {"persistent": {}, "transient": {}, "defaults": {}},
    "tasks": {"nodes": {"a": {"tasks": {}}}},
    "pending": {"tasks": []},
}
WHOLE |= {
    "index-settings": {"chaos": {"settings": {"index": {}}}},
    "cat-indices": [{"index": "chaos", "health": "red"}],
    "cat-allocation": [{"node": "a-data", "shards": "3"}, {"node": "UNASSIGNED", "shards": "1"}],
    "list-indices": {"next_token": None, "indices": [{"index": "chaos"}]},
    "list-shards": {"next_token": "MTA=", "shards": []},
    "stats-filtered": WHOLE["stats"],
    "nodes-filtered": WHOLE["nodes"],
    "health-indices": WHOLE["health"],
    "health-queue": WHOLE["health"],
}
CUT: dict[str, Any] = {
    "health": {"timed_out": True},
    "stats": {"_nodes": {**COUNTS, "successful": 1, "failed": 1}},
    "nodes": {"_nodes": {**COUNTS, "successful": 1, "failed": 1}, "nodes": {"a": {}}},
    "indices": {"_shards": {"total": 9, "successful": 6, "failed": 3}},
    "tasks": {"node_failures": [{"type": "failed_node_exception"}]},
}
"""What an answer says that some node or shard is missing in."""
OTHER: dict[str, Any] = {
    "health": {"status": "blue"},
    "state": {"nodes": []},
    "stats": {"_nodes": {**COUNTS, "total": "2"}},
    "nodes": {"nodes": {"a": {}}},
    "indices": {"_all": None},
    "settings": {"defaults": None},
    "tasks": {"nodes": None},
    "pending": {"tasks": None},
    "index-settings": {"chaos": {"mappings": {}}},
    "list-indices": {"indices": None},
    "list-shards": {"shards": [{"node": "a-data"}]},
}


EMPTY = (("cat", []), ("cat-indices", []), ("mappings", {}), ("index-settings", {}))
"""Answers of a cluster without indices."""


def judged(name: str, answer: Any) -> Outcome:
    return admin.judge(admin.EVERY[name].path, json.dumps(answer))


def test_they_are_those_of_the_storm_and_only_read() -> None:
    assert tuple(admin.CALLS) == operations.CALLS == get_args(AdminRequest)
    assert {name: call.path for name, call in admin.CALLS.items()} == ADMIN
    made = [admin.Calls(names).of("admin", k) for names in ((), operations.NAMED_CALLS) for k in range(100)]
    assert {each.method for each in made} == {"GET"}
    assert {each.path for each in made[:100]} == set(ADMIN.values()), "those that must be named are not made by default"
    assert tuple(admin.NAMED) == operations.NAMED_CALLS and not set(admin.NAMED) & set(admin.CALLS)
    assert len({call.path for call in admin.EVERY.values()}) == len(admin.EVERY), "an answer is judged by its path"


@pytest.mark.parametrize("name", admin.EVERY)
def test_an_answer_is_good_where_it_is_whole_and_has_its_shape(name: str) -> None:
    assert judged(name, WHOLE[name]) is Outcome.OK
    for nothing in (None, [], 1, "red", {}, [1]):
        if (name, nothing) not in EMPTY:
            assert judged(name, nothing) is Outcome.GARBLED, nothing
    assert admin.judge(admin.EVERY[name].path, "<html>") is Outcome.GARBLED


@pytest.mark.parametrize("name", CUT)
def test_an_answer_that_lacks_a_node_or_a_shard_is_partial(name: str) -> None:
    assert judged(name, {**copy.deepcopy(WHOLE[name]), **CUT[name]}) is Outcome.PARTIAL


@pytest.mark.parametrize("name", OTHER)
def test_an_answer_of_another_shape_is_garbled(name: str) -> None:
    assert judged(name, {**WHOLE[name], **OTHER[name]}) is Outcome.GARBLED


@pytest.mark.parametrize("name", admin.EVERY)
def test_an_answer_that_was_cut_off_is_garbled_also_in_parts_that_are_skipped(name: str) -> None:
    whole = json.dumps(WHOLE[name])
    for end in range(len(whole)):
        assert admin.judge(admin.EVERY[name].path, whole[:end]) is Outcome.GARBLED, whole[:end]
    assert admin.judge(admin.EVERY[name].path, whole.encode()) is Outcome.OK


def test_a_number_is_no_truth_and_what_an_answer_says_of_itself_is_no_verdict() -> None:
    assert judged("health", {**WHOLE["health"], "number_of_nodes": True}) is Outcome.GARBLED
    assert judged("health", {**WHOLE["health"], "timed_out": 0}) is Outcome.GARBLED
    assert judged("state", {**WHOLE["state"], "whole": False}) is Outcome.OK


def test_a_page_without_a_way_to_the_next_one_and_an_allocation_without_its_node_are_garbled() -> None:
    assert judged("list-indices", {"indices": [{"index": "chaos"}]}) is Outcome.GARBLED
    assert judged("cat-allocation", [{"shards": "3"}]) is Outcome.GARBLED


def test_each_call_of_a_stream_is_made_as_often_also_beside_others_in_step() -> None:
    calls = admin.Calls(("health", "cat", "pending"))
    for step in (1, 2, 3, 7):
        made = Counter(calls.of("admin", k).path for k in range(0, 3000 * step, step))
        assert len(made) == 3 and min(made.values()) > 800, (step, made)


def test_the_judge_of_a_load_asks_for_the_shape_of_the_very_call() -> None:
    judge = Judge(WORKLOAD, Known(WORKLOAD.found_by, 0), "chaos")
    request = admin.Calls(("health",)).of("admin", 3)
    sent = judge.sent("admin", 3, request, request.path, 0)
    assert judge.of(sent, 200, json.dumps(WHOLE["health"]), 1).outcome is Outcome.OK
    assert judge.of(sent, 200, json.dumps(WHOLE["pending"]), 1).outcome is Outcome.GARBLED
    assert judge.of(sent, 503, "{}", 1).outcome is Outcome.SERVER_ERROR
