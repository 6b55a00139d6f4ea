"""Why requests failed, by what OpenSearch 2.19 and 3.8 answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chaos.history import failures
from chaos.history.failures import OF_PROTECTION, WORDS, Failure, of_answer
from chaos.load.said import told
from chaos.opensearch import protections

NUMBERS = {
    **{"NONE": 0, "OTHER": 1},
    **{"CONNECTION_REFUSED": 10, "UNREACHABLE": 11, "NOT_TRUSTED": 12, "CONNECTION_RESET": 13},
    **{"CONNECT_TIMEOUT": 14, "TIMEOUT": 15, "GARBLED": 16, "WRONG": 17, "DRIVER": 18},
    **{"NO_SHARD": 30, "PRIMARY_NOT_ACTIVE": 31, "SHARD_NOT_READY": 32, "NO_CLUSTER_MANAGER": 33},
    **{"STATE_NOT_RECOVERED": 34, "NODE_CONNECTION_LOST": 35, "CLUSTER_MANAGER_BUSY": 36},
    **{"SECURITY_NOT_INITIALISED": 37, "GATEWAY": 38, "DISK_FULL": 39},
    **{"ADMISSION_CONTROL": 50, "INDEXING_PRESSURE": 51, "SHARD_INDEXING_PRESSURE": 52},
    **{"SEGMENT_REPLICATION_BACKPRESSURE": 53, "REMOTE_STORE_PRESSURE": 54, "THREAD_POOL_QUEUE": 55},
    **{"CIRCUIT_BREAKER": 56, "SEARCH_BACKPRESSURE": 57, "WORKLOAD_MANAGEMENT": 58, "CANCELLED_AFTER_TIME": 59},
    **{"CANCELLED_BY_REQUEST": 60, "CANCELLED": 61, "OTHER_REJECTION": 62, "SEARCH_LIMIT": 63},
    **{"BLOCKED_BY_DISK": 70, "BLOCKED": 71, "INDEX_CLOSED": 72, "NOT_AUTHENTICATED": 73, "NOT_PERMITTED": 74},
    **{"SEARCH_TIMED_OUT": 80, "DOCUMENT_MISSING": 81, "CONTEXT_LOST": 82, "COPY_FAILED": 83},
    **{"CONFLICT": 90, "INDEX_MISSING": 91, "INVALID_REQUEST": 92},
}
"""As they are on disk."""
ANSWERS = json.loads((Path(__file__).parent / "failed_answers.json").read_text())
"""Bodies of a cluster of three nodes of 3.8.0 and of 2.19.6, as they came: what was done, the status, the word for it.
Of a bulk the item stands alone."""


def test_the_numbers_on_disk_never_change() -> None:
    assert {each.name: int(each) for each in Failure} == NUMBERS
    assert all(number < 256 for number in NUMBERS.values())


def test_each_has_words_of_its_own() -> None:
    assert set(WORDS) == set(Failure)
    assert len(set(WORDS.values())) == len(WORDS)


def test_every_protection_whose_error_is_known_has_a_word() -> None:
    assert set(OF_PROTECTION) == {each.name for each in protections.EVERY if each.error is not None}


@pytest.mark.parametrize("each", [p for p in protections.EVERY if p.error], ids=lambda p: p.name)
def test_the_text_of_a_protection_is_told_from_every_other(each: protections.Protection) -> None:
    assert each.error is not None
    status = int(each.error.status.replace("5xx", "500"))
    reason = f"before {each.error.text} after"
    if each.name == "search backpressure":  # its text alone is that of every cancelled task
        reason += ": elapsed time exceeded [30s >= 30s]"
    assert of_answer(status, [(each.error.type, reason)]) is OF_PROTECTION[each.name]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda each: f"{each['version']}-{each['of']}")
def test_what_a_real_answer_says(answer: dict[str, Any]) -> None:
    assert of_answer(answer["status"], told(answer["body"])).label == answer["failure"]


@pytest.mark.parametrize(
    ("status", "errors", "failure"),
    [
        (503, [], Failure.GATEWAY),
        (502, [("", "<html> Bad Gateway")], Failure.GATEWAY),
        (500, [("null_pointer_exception", "x")], Failure.OTHER),
        (429, [("", "Too Many Requests")], Failure.OTHER_REJECTION),
        (429, [("rejected_execution_exception", "of a protection to come")], Failure.OTHER_REJECTION),
        (401, [("", "Unauthorized")], Failure.NOT_AUTHENTICATED),
        (403, [("security_exception", "no permissions for [indices:data/write/index]")], Failure.NOT_PERMITTED),
        (401, [("security_exception", "missing credentials")], Failure.NOT_AUTHENTICATED),
        (400, [("mapper_parsing_exception", "failed to parse")], Failure.INVALID_REQUEST),
        (409, [("version_conflict_engine_exception", "document already exists")], Failure.CONFLICT),
        (200, [("null_pointer_exception", "of a shard")], Failure.OTHER),
    ],
)
def test_where_no_error_is_known_the_status_says_it(
    status: int, errors: list[tuple[str, str]], failure: Failure
) -> None:
    assert of_answer(status, errors) is failure


@pytest.mark.parametrize(
    "body",
    [
        "OpenSearch Security not initialized.",  # BackendRegistry, 2.19
        "OpenSearch Security not initialized. Cluster manager not present",  # 3.1 and later say more
        {"error": {"type": "security_exception", "reason": "OpenSearch Security not initialized for indices:x"}},
    ],
)
def test_a_node_whose_security_is_not_there_yet(body: Any) -> None:
    """By the texts of the plugin's sources: labs here initialise it before a load begins."""
    assert of_answer(503, told(body)) is Failure.SECURITY_NOT_INITIALISED


def test_the_stored_answers_are_of_both_versions_and_of_most_kinds() -> None:
    assert {each["version"] for each in ANSWERS} == {"3.8.0", "2.19.6"}
    assert len({each["failure"] for each in ANSWERS}) >= 14


@pytest.mark.parametrize(
    ("reason", "failure"),
    [
        ("blocked by: [SERVICE_UNAVAILABLE/1/state not recovered / initialized];", Failure.STATE_NOT_RECOVERED),
        ("blocked by: [SERVICE_UNAVAILABLE/2/no cluster-manager];", Failure.NO_CLUSTER_MANAGER),
        ("index [chaos] blocked by: [FORBIDDEN/8/index write (api)];", Failure.BLOCKED),
        ("index [chaos] blocked by: [FORBIDDEN/12/index read-only / allow delete (api)];", Failure.BLOCKED_BY_DISK),
        ("index [chaos] blocked by: [FORBIDDEN/5/index read-only (api)];", Failure.BLOCKED),
        ("index [chaos] blocked by: [FORBIDDEN/4/index closed];", Failure.INDEX_CLOSED),
        ("words that are no block", Failure.BLOCKED),
    ],
)
def test_a_block_is_known_by_its_number_whatever_the_status(reason: str, failure: Failure) -> None:
    for status in (403, 429, 503):
        assert of_answer(status, [("cluster_block_exception", reason)]) is failure


def test_a_cause_is_taken_before_the_error_that_it_caused() -> None:
    errors = [
        ("node_disconnected_exception", "[b] disconnected"),
        ("search_phase_execution_exception", "all shards failed"),
    ]
    assert of_answer(500, errors) is Failure.NODE_CONNECTION_LOST
    assert failures.of_answer(503, errors[1:]) is Failure.NO_SHARD
    assert failures.of_answer(500, errors[1:]) is Failure.OTHER
