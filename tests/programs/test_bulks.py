"""Bulks of the real driver, against a stub that answers like OpenSearch: each document has its own fate on record."""

from __future__ import annotations

import time

import pytest
from load_stub import serving
from programs.test_driver import config, drive, run, wait_for  # noqa: F401 - two are fixtures

from chaos.history import History
from chaos.load.config import ClosedConfig, OperationConfig, RetryConfig
from chaos.observe.written import Written, writes_of

ITEMS = 5
"""Documents of a bulk; of these the stub's modes spoil the third."""


def bulks(run, drive, mode="ok", least=20, retry=None, automatic=False, **more):  # noqa: F811
    """The history of a load of bulks and searches, while the stub was in this mode."""
    operations = (
        OperationConfig(name="read", kind="search", rate=20),
        OperationConfig(name="write", kind="bulk", rate=40, items=ITEMS, retry=retry, automatic=automatic),
    )
    with serving() as server:
        server.mode(mode)
        driver = drive(config(run, server, operations=operations, alias=None, shards=3, copies=3, **more))
        wait_for(lambda: driver.status.get("sent_total", 0) > least)
        assert driver.stop()
    return History.open(run)


def outcomes(history) -> set[str]:
    writes = history.arrivals[history.arrivals.op == "write"]
    return set(writes.outcome[writes.outcome != "unknown"])


def test_each_document_of_each_bulk_is_acknowledged_and_found_by_searches(run, drive):  # noqa: F811
    history = bulks(run, drive)
    writes = history.arrivals[history.arrivals.op == "write"]
    assert len(writes) > 10 and set(writes.outcome) == {"ok"} and set(writes.status) == {200}
    assert history.items.counts() == {"created": ITEMS * len(writes)} and set(history.items.k) == set(writes.k)
    assert set(history.arrivals.outcome[history.arrivals.op == "read"]) == {"ok"}
    found = Written.of(history, documents=2, writers={"write": ITEMS}, stride=ITEMS)
    assert found.acknowledged == {f"w-{k * ITEMS + i}" for k in writes.k for i in range(ITEMS)} | {"p-0", "p-1"}
    assert not found.open and not found.refused


@pytest.mark.parametrize(
    ("mode", "request_outcome", "item", "acknowledged"),
    [
        # those that are full have their judgement in tests/unit/load/test_bulks.py
        ("bulk_rejected", "partial", "rejected", 4),
        pytest.param("bulk_blocked", "partial", "blocked", 4, marks=pytest.mark.full),
        pytest.param("bulk_conflict", "partial", "conflict", 4, marks=pytest.mark.full),
        pytest.param("bulk_invalid", "partial", "invalid", 4, marks=pytest.mark.full),
        pytest.param("bulk_failed", "partial", "failed", 4, marks=pytest.mark.full),
        ("bulk_degraded", "partial", "degraded", 5),
        ("bulk_hidden_errors", "wrong", "rejected", 4),
        ("bulk_swapped", "wrong", "wrong", 3),
        pytest.param("bulk_elsewhere", "wrong", "wrong", 4, marks=pytest.mark.full),
        pytest.param("bulk_short", "wrong", "unknown", 0, marks=pytest.mark.full),
    ],
)
def test_what_a_200_hides_is_on_record_for_each_document(run, drive, mode, request_outcome, item, acknowledged):  # noqa: F811
    history = bulks(run, drive, mode)
    assert outcomes(history) == {request_outcome}
    counts, bulks_ = history.items.counts(), len(history.items)
    assert counts[item] == {"wrong": 5 - acknowledged, "unknown": 5}.get(item, 1) * bulks_
    taken, refused, left_open = writes_of(history, {"write": ITEMS}, ITEMS)
    assert len(taken) == acknowledged * bulks_ and not len(refused)
    assert len(left_open) == (5 - acknowledged) * bulks_ and not set(taken) & set(left_open)
    if item in ("rejected", "blocked", "conflict", "invalid", "failed") and request_outcome == "partial":
        assert {each["op"] for each in history.driver if each["kind"] == "answer.error"} == {"write"}
    assert bool(history.wrong) == (request_outcome == "wrong")


@pytest.mark.parametrize(("mode", "outcome"), [("429", "rejected"), ("reset", "reset"), ("html", "garbled")])
def test_of_a_bulk_without_an_answer_all_documents_are_open(run, drive, mode, outcome):  # noqa: F811
    history = bulks(run, drive, mode)
    assert outcomes(history) == {outcome} and not len(history.items)
    taken, refused, left_open = writes_of(history, {"write": ITEMS}, ITEMS)
    writes = history.arrivals[history.arrivals.op == "write"]
    assert not len(taken) and not len(refused)
    assert sorted(left_open) == sorted(k * ITEMS + i for k in writes.k for i in range(ITEMS))


def test_where_nobody_listens_no_document_was_ever_sent(run, drive):  # noqa: F811
    with serving() as server:
        server.kill()
        operations = (OperationConfig(name="write", kind="bulk", rate=40, items=ITEMS),)
        driver = drive(config(run, server, operations=operations, kind="pinned"))
        wait_for(lambda: driver.status.get("sent_total", 0) > 20)
        assert driver.stop()
    taken, refused, left_open = writes_of(History.open(run), {"write": ITEMS}, ITEMS)
    assert len(refused) >= 20 * ITEMS and not len(taken) and not len(left_open)


RETRY = RetryConfig(times=2, wait_s=0.05, most_s=1.0)


def test_what_was_rejected_is_sent_again_alone_and_is_then_acknowledged(run, drive):  # noqa: F811
    """The stub rejects the third document of a bulk: the second try has one document, which it takes."""
    history = bulks(run, drive, "bulk_rejected", retry=RETRY)
    writes = history.arrivals[history.arrivals.op == "write"]
    writes = writes[writes.attempts == 2]  # the last may have been stopped before it tried again
    assert len(writes) > 10 and set(writes.outcome) == {"ok"}
    assert (writes.end - writes.start >= 50_000_000).all()
    assert history.items.counts(writes.k.to_numpy()) == {"created": ITEMS * len(writes)}
    assert {each["op"] for each in history.driver if each["kind"] == "answer.error"} == {"write"}
    told = [each for event in history.driver for each in event.get("errors", ())]
    assert {(op, status) for op, status, *_ in told} == {("write", 429)}, "its last answer hides that it was refused"
    assert sum(number for *_, number in told) >= len(writes)


def test_a_bulk_that_is_rejected_each_time_is_given_up_after_its_tries(run, drive):  # noqa: F811
    history = bulks(run, drive, "429", retry=RETRY)
    writes = history.arrivals[history.arrivals.op == "write"]
    assert set(writes.outcome) == {"rejected"} and set(writes.attempts) <= {1, 2, 3} and 3 in set(writes.attempts)
    assert not len(history.items)


def test_what_failed_otherwise_is_not_sent_again(run, drive):  # noqa: F811
    history = bulks(run, drive, "bulk_failed", retry=RETRY)
    assert set(history.arrivals.attempts[history.arrivals.op == "write"]) == {1}


def test_with_ids_of_opensearch_s_each_document_is_acknowledged_and_found_by_its_content(run, drive):  # noqa: F811
    history = bulks(run, drive, automatic=True)
    assert outcomes(history) == {"ok"} and not history.wrong
    assert history.items.counts() == {"created": ITEMS * len(history.items)}
    assert len(writes_of(history, {"write": ITEMS}, ITEMS).acknowledged) == ITEMS * len(history.items)
    assert set(history.arrivals.outcome[history.arrivals.op == "read"]) == {"ok"}


def test_a_client_that_waits_to_try_again_is_let_go_by_a_stop_and_sends_no_more(run, drive):  # noqa: F811
    """What was rejected is on record as that, and not as unknown; the wait is not sat out."""
    began = time.monotonic()
    history = bulks(run, drive, "bulk_rejected", retry=RetryConfig(times=2, wait_s=300.0, most_s=300.0))
    assert time.monotonic() - began < 60
    writes = history.arrivals[history.arrivals.op == "write"]
    assert set(writes.outcome) == {"partial"} and set(writes.attempts) == {1}
    assert history.items.counts() == {"created": 4 * len(writes), "rejected": len(writes)}


@pytest.mark.full
def test_several_writers_never_make_the_same_document(run, drive):  # noqa: F811
    """Bulks of two sizes and single documents, in open and closed loops: each has numbers of its own."""
    operations = (
        OperationConfig(name="feed", kind="bulk", rate=30, items=ITEMS),
        OperationConfig(name="note", kind="index", rate=30),
    )
    closed = (ClosedConfig(name="other", kind="bulk", answer="bulk", clients=2, items=2),)
    with serving() as server:
        more = {"closed": closed, "alias": None, "shards": 3, "copies": 3}
        driver = drive(config(run, server, operations=operations, **more))
        wait_for(lambda: driver.status.get("sent_total", 0) > 60)
        assert driver.stop()
    history = History.open(run)
    assert not history.wrong
    writers = {"feed": ITEMS, "note": 1, "other": 2}
    taken, refused, left_open = writes_of(history, writers, ITEMS)
    sent = history.arrivals[history.arrivals.outcome == "ok"]
    assert set(sent.op) == set(writers)
    wanted = [k * ITEMS + i for k, op in zip(sent.k, sent.op, strict=True) for i in range(writers[op])]
    assert sorted(taken) == sorted(wanted) and len(set(wanted)) == len(wanted)
    assert not len(refused) and not set(left_open) & set(taken)
