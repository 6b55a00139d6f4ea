"""What OpenSearch said of requests that it did not answer well: told once, counted, and bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opensearchpy.exceptions import ConnectionTimeout, TransportError

from chaos.history import cancelled
from chaos.history.cancelled import By
from chaos.history.failures import Failure
from chaos.load.said import CHARACTERS, DEEPEST, EACH, MOST, Said, told

WINDOW = (
    "Result window is too large, from + size must be less than or equal to: [5] but was [10]. See the scroll api for a "
    "more efficient way to request large data sets. This limit can be set by changing the [index.max_result_window] "
    "index level setting."
)
TOO_LARGE = {
    "error": {
        "root_cause": [{"type": "illegal_argument_exception", "reason": WINDOW}],
        "type": "search_phase_execution_exception",
        "reason": "all shards failed",
        "failed_shards": [{"shard": 0, "reason": {"type": "illegal_argument_exception", "reason": WINDOW}}],
    },
    "status": 400,
}


def shard_failure(type_: str, reason: str, **more: Any) -> dict[str, Any]:
    return {"shard": 1, "node": "n", "reason": {"type": type_, "reason": reason, **more}}


class Events:
    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []

    def __call__(self, kind: str, **fields: Any) -> None:
        self.written.append({"kind": kind, **fields})


@pytest.fixture
def events() -> Events:
    return Events()


def refused(status: int, body: Any) -> TransportError:
    return TransportError(status, "type", body)


def test_what_caused_an_error_is_told_before_the_error_and_names_its_setting_to_the_end() -> None:
    assert told(TOO_LARGE) == [
        ("illegal_argument_exception", WINDOW),
        ("search_phase_execution_exception", "all shards failed"),
    ]
    assert len(WINDOW) < CHARACTERS


@pytest.mark.parametrize(
    ("body", "types"),
    [
        ({"_shards": {"failures": [shard_failure("task_cancelled_exception", "x")]}}, ["task_cancelled_exception"]),
        (
            {"_shards": {"failures": [shard_failure("a", "x", caused_by={"type": "b", "reason": "y"})]}},
            ["b", "a"],
        ),
        ({"error": "no handler found for uri"}, [""]),
        ("<html><title>502 Bad Gateway</title></html>", [""]),
        ({"found": False}, []),
        ({"_shards": {"failures": "none"}, "error": {"root_cause": 7, "type": None}}, []),
        (None, []),
        ([1], []),
        ("", []),
    ],
)
def test_bodies_of_other_shapes(body: Any, types: list[str]) -> None:
    assert [type_ for type_, _ in told(body)] == types


def test_a_cause_of_a_cause_without_an_end_is_not_followed_for_ever() -> None:
    endless: dict[str, Any] = {"type": "x", "reason": "y"}
    endless["caused_by"] = endless
    assert told({"error": endless}) == [("x", "y")] and DEEPEST < 100


KEYS = st.sampled_from(["error", "root_cause", "failed_shards", "reason", "type", "caused_by", "_shards", "failures"])
BODIES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=400),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=30,
)


@settings(max_examples=100, deadline=None)
@given(BODIES)
def test_whatever_a_body_is_it_raises_nothing_and_what_is_told_of_it_is_bounded(body: Any) -> None:
    found = told(body)
    assert len(found) <= EACH and len({type_ for type_, _ in found}) == len(found)
    assert all(type(type_) is type(reason) is str and len(reason) <= CHARACTERS for type_, reason in found)


def test_each_kind_is_written_down_once_and_each_answer_counted(events: Events) -> None:
    said = Said(events)
    for _ in range(300):
        said.raised("read", refused(400, TOO_LARGE), "a-data")
    said.raised("read", refused(404, {"error": {"type": "index_not_found_exception", "reason": "no"}}), "b-data")
    first = [(e["op"], e["status"], e["type"], e["node"]) for e in events.written]
    assert first == [
        ("read", 400, "illegal_argument_exception", "a-data"),
        ("read", 400, "search_phase_execution_exception", "a-data"),
        ("read", 404, "index_not_found_exception", "b-data"),
    ]
    assert "index.max_result_window" in events.written[0]["reason"]
    assert said.taken() == [
        ["read", 400, "illegal_argument_exception", None, 300],
        ["read", 400, "search_phase_execution_exception", None, 300],
        ["read", 404, "index_not_found_exception", None, 1],
    ]
    assert said.taken() == []


def test_what_had_no_answer_says_nothing(events: Events) -> None:
    said = Said(events)
    said.raised("read", ConnectionTimeout("TIMEOUT", "x", TimeoutError()), "a-data")
    said.raised("read", ValueError("x"), None)
    said.partial("read", 200, b"no json", None)
    assert said.taken() == [] and events.written == []


def test_a_reason_is_cut_and_so_is_the_number_of_kinds_but_a_cancellation_is_always_told_apart(events: Events) -> None:
    said = Said(events)
    for number in range(3 * MOST):
        said.raised("read", refused(500, {"error": {"type": f"t{number}", "reason": "x" * 10_000}}), None)
    body = {"_shards": {"failures": [shard_failure(cancelled.TYPE, "cancelled task with reason: by user request")]}}
    said.partial("read", 200, json.dumps(body), None)
    assert len(events.written) == MOST and all(len(each["reason"]) <= CHARACTERS for each in events.written)
    counted = {tuple(each[:4]): each[4] for each in said.taken()}
    assert counted["read", 500, "other", None] == 2 * MOST
    assert counted["read", 200, cancelled.TYPE, None] == 1


def test_reasons_of_cancellations_are_told_apart_and_not_by_their_numbers(events: Events) -> None:
    said = Said(events)
    for took in ("30.1s", "31s"):
        reason = f"cancelled task with reason: elapsed time exceeded [{took} >= 30s]"
        said.partial("read", 200, json.dumps({"_shards": {"failures": [shard_failure(cancelled.TYPE, reason)]}}), None)
    ((_, _, _, why, number),) = said.taken()
    assert number == 2 and cancelled.by(why) is By.CLUSTER


def test_a_shard_that_says_who_cancelled_is_heard_before_one_that_does_not() -> None:
    vague = shard_failure(cancelled.TYPE, "request has been terminated")
    tells = shard_failure(cancelled.TYPE, "cancelled task with reason: by user request")
    for failures in ([vague, tells], [tells, vague]):
        assert told({"_shards": {"failures": failures}}) == [(cancelled.TYPE, tells["reason"]["reason"])]


@pytest.mark.parametrize(
    ("reason", "who"),
    [
        ("cancelled task with reason: by user request", By.REQUEST),
        ("The parent task was cancelled, reason [by user request]", By.REQUEST),
        ("Task cancelled before it started: by user request", By.REQUEST),
        ("cancelled task with reason: cpu usage exceeded [15.9s >= 15s]", By.CLUSTER),
        ("cancelled task with reason: heap usage exceeded [1gb >= 50mb]", By.CLUSTER),
        ("Cancellation timeout of 1s is expired", By.CLUSTER),
        ("cancelled task with reason: channel closed", By.CLUSTER),
        ("The query has been cancelled", By.UNKNOWN),
        ("request has been terminated", By.UNKNOWN),
        (None, By.UNKNOWN),
    ],
)
def test_who_cancelled(reason: str | None, who: By) -> None:
    assert cancelled.by(reason) is who


def search(**shards: int) -> dict[str, Any]:
    return {"timed_out": False, "_shards": {"total": 3, "successful": 3, "failed": 0, **shards}, "hits": {"hits": []}}


HEALTH = {"cluster_name": "c", "status": "green", "timed_out": True, "number_of_nodes": 6}


def test_a_health_request_that_waited_in_vain_is_laid_to_the_cluster_manager(events: Events) -> None:
    assert Said(events).raised("monitor", refused(408, HEALTH), "a-data") is Failure.CLUSTER_MANAGER_BUSY
    assert Said(events).partial("monitor", 200, json.dumps(HEALTH), "a-data") is Failure.CLUSTER_MANAGER_BUSY
    gateway = "<html><title>408 Request Time-out</title></html>"
    assert Said(events).raised("monitor", refused(408, gateway), "a-data") is not Failure.CLUSTER_MANAGER_BUSY


def item(**more: Any) -> dict[str, Any]:
    return {"create": {"_id": "w-1", "status": 201, "_shards": {"total": 3, "successful": 3, "failed": 0}, **more}}


PRESSURE = {
    "type": "rejected_execution_exception",
    "reason": "rejected execution of coordinating operation [coordinating_and_primary_bytes=0, replica_bytes=0]",
}


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        (search(successful=2), Failure.NO_SHARD),
        ({**search(), "timed_out": True}, Failure.SEARCH_TIMED_OUT),
        (
            {**search(failed=1), "_shards": {"failures": [shard_failure("node_disconnected_exception", "x")]}},
            Failure.NODE_CONNECTION_LOST,
        ),
        (search(), Failure.NONE),
        ({"found": False}, Failure.DOCUMENT_MISSING),
        ({"result": "created", "_shards": {"total": 3, "successful": 2, "failed": 1}}, Failure.COPY_FAILED),
        (
            {
                "result": "created",
                "_shards": {
                    "failed": 1,
                    "failures": [shard_failure("no_node_available_exception", "unknown node [x]")],
                },
            },
            Failure.NODE_CONNECTION_LOST,
        ),
        ({"errors": True, "items": [item(), item(status=429, error=PRESSURE)]}, Failure.INDEXING_PRESSURE),
        (
            {
                "errors": True,
                "items": [item(status=500, error={"type": "odd", "reason": "x"}), item(status=429, error=PRESSURE)],
            },
            Failure.INDEXING_PRESSURE,
        ),
        ({"errors": True, "items": [item(status=500, error={"type": "odd", "reason": "x"})]}, Failure.OTHER),
        ({"errors": False, "items": [item(), item(_shards={"total": 3, "failed": 1})]}, Failure.COPY_FAILED),
        (
            {
                "responses": [
                    search(),
                    {
                        "status": 503,
                        "error": {"type": "search_phase_execution_exception", "reason": "all shards failed"},
                    },
                ]
            },
            Failure.NO_SHARD,
        ),
        ([], Failure.OTHER),
    ],
)
def test_why_an_answer_of_2xx_is_not_whole(events: Events, body: Any, failure: Failure) -> None:
    assert Said(events).partial("read", 200, json.dumps(body), None) is failure


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (refused(429, {"error": PRESSURE, "status": 429}), Failure.INDEXING_PRESSURE),
        (refused(503, "OpenSearch Security not initialized."), Failure.SECURITY_NOT_INITIALISED),
        (refused(503, "<html>"), Failure.GATEWAY),
        (refused(404, {"_index": "x", "_id": "1", "found": False}), Failure.DOCUMENT_MISSING),
        (refused(401, "Unauthorized"), Failure.NOT_AUTHENTICATED),
        (refused(409, {"error": {"type": "version_conflict_engine_exception", "reason": "x"}}), Failure.CONFLICT),
        (ConnectionTimeout("TIMEOUT", "x", TimeoutError()), Failure.TIMEOUT),
        (ValueError("x"), Failure.OTHER),
    ],
)
def test_why_a_request_raised(events: Events, error: Exception, failure: Failure) -> None:
    assert Said(events).raised("read", error, None) is failure


def test_a_request_has_its_word_also_beyond_the_kinds_that_are_told_apart(events: Events) -> None:
    said = Said(events)
    for number in range(2 * MOST):
        said.raised("read", refused(500, {"error": {"type": f"t{number}", "reason": "x"}}), None)
    assert said.raised("read", refused(429, {"error": PRESSURE, "status": 429}), None) is Failure.INDEXING_PRESSURE
