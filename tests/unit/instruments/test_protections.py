"""Protections: what nodes' counters grew by, in which phase, what of it is not known, and who was refused meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic
from fake_cluster import FakeCluster
from pages import Page

from chaos.base.waiting import wait_until
from chaos.checks import evaluate
from chaos.checks.measure import Bound, Verdict, judge
from chaos.checks.record import SECOND, Record
from chaos.history import History
from chaos.history.format import ItemOutcome, Outcome
from chaos.history.items import Items
from chaos.instruments import protections as module
from chaos.instruments.protections import (
    EVERY,
    FILE,
    INSTRUMENT,
    PATH,
    Protections,
    answered,
    counted,
    grown,
    measure,
    same,
    table,
)
from chaos.opensearch import protections as catalogue
from chaos.opensearch.polling import Polling
from chaos.opensearch.rest import UNREADABLE
from chaos.report.page import render_html

BY_METRIC = {each.metric: each for each in EVERY}
REFUSED = "indexing_pressure.rejected"


def body(up: int = 60_000, *, at: int = 1_000_000, refused: int = 0, held: int = 0, **more: Any) -> dict[str, Any]:
    """As OpenSearch 3.8.0 answers to PATH: what has never happened is 0 or not there."""
    task = {"cancellation_stats": {"cancellation_count": 0, "cancellation_limit_reached_count": 0}}
    limits = {"node_limits": 0, "no_successful_request_limits": 0, "throughput_degradation_limits": 0}
    own: dict[str, Any] = {
        "jvm": {"timestamp": at, "uptime_in_millis": up},
        "thread_pool": {"search": {"rejected": 0}, "write": {"rejected": 0}},
        "breakers": {"parent": {"tripped": 0}, "request": {"tripped": 0}},
        "indexing_pressure": {
            "memory": {
                "current": {"all_in_bytes": held},
                "total": {"coordinating_rejections": refused, "primary_rejections": 0, "replica_rejections": 0},
            }
        },
        "shard_indexing_pressure": {"total_rejections_breakup_shadow_mode": limits},
        "search_backpressure": {"search_task": task, "search_shard_task": task},
        "cluster_manager_throttling": {"stats": {"throttled_tasks_per_task_type": {}}},
        "task_cancellation": {"search_shard_task": {"current_count_post_cancel": 0}},
    }
    return {"nodes": {"x1": own | more}}


def test_every_counter_is_one_protections_own_and_none_is_two_s() -> None:
    cancelled = {"cancellation_stats": {"cancellation_count": 3, "cancellation_limit_reached_count": 4}}
    limits = {"node_limits": 5, "no_successful_request_limits": 6, "throughput_degradation_limits": 7}
    found = counted(
        body(
            refused=2,
            held=900,
            search_backpressure={"search_task": cancelled},
            admission_control={"global_cpu_usage": {"transport": {"rejection_count": {"search": 8}}}},
            shard_indexing_pressure={"total_rejections_breakup": limits},
            cluster_manager_throttling={"stats": {"throttled_tasks_per_task_type": {"put-mapping": 9}}},
            segment_replication_backpressure={"total_rejected_requests": 12},
            thread_pool={"search": {"rejected": 10}, "fixed": {}},
            breakers={"request": {"tripped": 11}},
            task_cancellation={"search_shard_task": {"current_count_post_cancel": 1}},
        )
    )
    mine = {each.metric: {n: c for n, c in found.counters.items() if each.owns(n) and c} for each in EVERY}
    assert mine == {
        "search_backpressure.cancelled": {"search_backpressure.search_task": 3},
        "admission_control.rejected": {"admission_control.cpu.search": 8},
        "indexing_pressure.rejected": {"indexing_pressure.coordinating": 2},
        "shard_indexing_pressure.rejected": {f"shard_indexing_pressure.{name}": n for name, n in limits.items()},
        "shard_indexing_pressure.would_reject": {},
        "manager_throttling.throttled": {"manager_throttling.put-mapping": 9},
        "segment_replication_backpressure.rejected": {"segment_replication_backpressure.rejected": 12},
        "thread_pools.rejected": {"thread_pools.search": 10},
        "circuit_breakers.tripped": {"circuit_breakers.request": 11},
    }
    assert found.held == {"indexing_pressure.bytes": 900, "search_backpressure.running": 1}
    shadow = counted(body(shard_indexing_pressure={"total_rejections_breakup_shadow_mode": limits})).counters
    assert sum(n for name, n in shadow.items() if BY_METRIC["shard_indexing_pressure.would_reject"].owns(name)) == 18
    assert not any(BY_METRIC["shard_indexing_pressure.rejected"].owns(name) for name, n in shadow.items() if n)


@pytest.mark.parametrize("broken", [{"nodes": {}}, {"nodes": {"x": {"jvm": {}}}}, body(held=-1), body(breakers=7)])
def test_an_answer_of_another_shape_is_none(broken: Any) -> None:
    with pytest.raises(UNREADABLE):
        counted(broken)


def test_a_counter_that_was_not_there_before_began_at_0_and_one_that_fell_says_nothing() -> None:
    before, now = counted(body(60_000)), counted(body(62_000, at=1_002_000, refused=4))
    assert same(before, now) and grown(before, now) == {"indexing_pressure.coordinating": 4}
    assert grown(now, counted(body(64_000, at=1_004_000, refused=3))) is None
    assert not same(now, counted(body(500, at=1_004_000)))


def test_what_shard_indexing_pressure_has_counted_does_not_count_again_when_it_is_enforced() -> None:
    """Its counters have another name from then on, and hold what they held."""

    def limits(enforced: bool, number: int) -> module.Answer:
        name = f"total_rejections_breakup{'' if enforced else '_shadow_mode'}"
        return counted(body(shard_indexing_pressure={name: {"node_limits": number, "no_successful_request_limits": 0}}))

    shadow, enforced = "shard_indexing_pressure.shadow.node_limits", "shard_indexing_pressure.node_limits"
    assert grown(limits(False, 5), limits(True, 5)) == grown(limits(True, 5), limits(False, 5)) == {}
    assert grown(limits(False, 5), limits(True, 7)) == {enforced: 2}
    assert grown(limits(True, 5), limits(False, 7)) == {shadow: 2}
    assert grown(limits(True, 5), limits(True, 7)) == {enforced: 2}
    assert grown(limits(False, 5), limits(True, 3)) is None, "counters do not fall"


class Nodes(FakeCluster):
    """b-data does not answer at first; c-data is another process from its third answer on."""

    def __init__(self) -> None:
        super().__init__("3az-standby")
        self.asked: dict[str, int] = {}
        self.silent = {"b-data"}

    def answer(self, node: str, method: str, path: str, given: Any) -> tuple[int, Any]:
        assert (method, path) == ("GET", PATH)
        turn = self.asked[node] = self.asked.get(node, 0) + 1
        if node in self.silent:
            return 503, {}
        if node == "c-data" and turn >= 3:
            return 200, body(20, at=5_000_000, refused=5)
        return 200, body(60_000 * 60, at=1_000_000, refused=7 * min(turn, 2), held=10)


def test_each_process_begins_at_0_and_a_node_that_is_silent_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PERIOD_SECONDS", 0.1)
    cluster, file = Nodes(), tmp_path / "history" / FILE
    watch = Protections(cluster, file, pytest.fail)  # type: ignore[arg-type]
    watch.stop()  # before it began
    watch.start()
    assert wait_until(lambda: min(cluster.asked.values(), default=0) > 4 and len(cluster.asked) == 6, 30)
    watch.stop()
    watch.stop()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    by_node = {node: [line for line in lines if line["node"] == node] for node in cluster.asked}
    assert by_node["b-data"] == []
    first, second, *rest = by_node["a-data"]
    assert first["seconds"] == 0 and "grew" not in first, "what it had counted before us is not ours"
    assert second["grew"] == {"indexing_pressure.coordinating": 7} and not any("grew" in line for line in rest)
    assert first["now"] == {"indexing_pressure.bytes": 10}
    third = by_node["c-data"][2]
    assert third["grew"] == {"indexing_pressure.coordinating": 5} and third["seconds"] <= 0.02


def test_a_clock_that_is_set_makes_no_new_process(tmp_path: Path) -> None:
    """By its own words it began at another time, and it has run for longer than since the answer before."""
    watch = Protections(Nodes(), tmp_path / FILE, pytest.fail)  # type: ignore[arg-type]
    before = counted(body(60_000, at=1_000_000, refused=40))
    now = counted(body(65_000, at=1_075_000, refused=42))
    assert not same(before, now)
    assert watch._since((100.0, before), now, 105.0) == (5.0, {"indexing_pressure.coordinating": 2})
    anew = counted(body(3_000, at=1_075_000, refused=4))
    assert watch._since((100.0, before), anew, 105.0) == (3.0, {"indexing_pressure.coordinating": 4})


def test_a_look_is_made_when_a_phase_begins(tmp_path: Path) -> None:
    """The period is five seconds; it does not wait for its end."""
    cluster = Nodes()
    watch = Protections(cluster, tmp_path / "history" / FILE, pytest.fail)  # type: ignore[arg-type]
    watch.edge()
    watch.start()
    assert wait_until(lambda: len(cluster.asked) == 6, 30)
    before = dict(cluster.asked)
    watch.edge()
    assert wait_until(lambda: all(cluster.asked[node] > n for node, n in before.items()), 3)
    watch.stop(patient=False)


def test_polling_ends_at_once_while_it_waits() -> None:
    polling = Polling(Nodes(), PATH, lambda node, answer: None, name="x", period=600.0, timeout=1.0)  # type: ignore[arg-type]
    polling.start()
    assert polling.stop() and not polling.stop()


def test_on_a_cluster_that_is_not_ours_nothing_is_asked() -> None:
    class Context:
        existing = object()

    assert INSTRUMENT.observe(Context()) is None  # type: ignore[arg-type]


def run(lines: Any, story: synthetic.Story | None = None) -> tuple[History, Record]:
    history = (story or synthetic.slow_zone()).history()
    found = []
    for span in history.phases:
        found += lines(span)
    history.give(FILE, found)
    return history, Record(history)


def quiet(span: Any) -> list[dict[str, Any]]:
    return module._lines("indexing_pressure.coordinating", 0)(span.start_ns, span.end_ns)


def busy(where: str, n: int = 3, **more: Any) -> Any:
    """Lines of which those of one phase grow."""

    def lines(span: Any) -> list[dict[str, Any]]:
        made = module._lines("indexing_pressure.coordinating", n if span.name == where else 0)(
            span.start_ns, span.end_ns
        )
        return [line | more for line in made]

    return lines


def test_what_grew_in_a_phase_is_told_node_by_node_and_in_no_other_phase() -> None:
    history, record = run(busy(run(quiet)[1].spans[1].name))
    spans = record.spans
    found = measure(record, spans[1], BY_METRIC[REFUSED])
    assert found.value and found.value % 3 == 0 and found.bound is Bound.EXACT
    assert found.says.endswith("by coordinating")
    others = [measure(record, span, BY_METRIC[REFUSED]).value for span in spans if span is not spans[1]]
    assert set(others) == {0.0}
    assert {measure(record, spans[1], each).value for each in EVERY if each.metric != REFUSED} == {0.0}
    words = Page(render_html(history, evaluate(history).to_json())).words
    assert "What protections refused or cancelled" in words and "indexing_pressure.coordinating" in words


def test_what_grew_around_the_beginning_of_a_phase_is_of_neither_for_sure() -> None:
    _, record = run(quiet)
    (first, second), every = record.spans[:2], module.stretches(record)
    every.append(
        module.Stretch("c-data", second.start - SECOND, second.start + SECOND, {"indexing_pressure.primary": 4}, {})
    )
    for span in (first, second):
        found = module._measure(module.of_phase(record, every, span), BY_METRIC[REFUSED])
        assert found.value is None and "4 more while the phase began or ended" in found.says
        assert judge(found, "==", 0) is Verdict.INCONCLUSIVE
    every.append(module.Stretch("c-data", second.start, second.end, {"indexing_pressure.primary": 2}, {}))
    found = module._measure(module.of_phase(record, every, second), BY_METRIC[REFUSED])
    assert (found.value, found.bound) == (2, Bound.AT_LEAST)


def test_where_stretches_overlap_by_a_moment_no_more_than_all_of_a_phase_is_known() -> None:
    """An answer is written some milliseconds after it came, which its stretch does not know."""
    _, record = run(quiet)
    span = record.spans[1]
    every = [each for each in module.stretches(record) if each.node == "a-data"]
    late = [module.Stretch(each.node, each.start - SECOND // 50, each.end, {}, {}) for each in every]
    assert sum(each.seconds_in(span) for each in late) > span.seconds
    assert module.known(span, late) == module.of_phase(record, late, span).known["a-data"] == 1.0
    assert module.known(span, []) == 0.0
    half = [each for each in late if each.end <= (span.start + span.end) // 2]
    assert 0 < module.known(span, half) <= 0.5
    around = module.Stretch("a-data", span.start - SECOND, span.end + SECOND, {}, {})
    assert module.known(span, [around, *late]) == 1.0


REASON = "rejected execution of coordinating operation [coordinating_and_primary_bytes=0, all_bytes=0]"
REJECTION = "rejected_execution_exception"


@pytest.mark.parametrize(
    ("type_", "reason", "named"),
    [
        pytest.param(REJECTION, REASON, 7, id="its own"),
        pytest.param(REJECTION, None, 7, id="its type, and a text that was told at another time"),
        pytest.param("circuit_breaking_exception", "[parent] Data too large", None, id="a breaker's"),
        pytest.param(
            REJECTION, "rejected execution of x on y[name = z, queue capacity = 1]", None, id="a full queue's"
        ),
    ],
)
def test_the_errors_that_clients_were_told_are_held_against_type_and_text(
    type_: str, reason: str | None, named: int | None
) -> None:
    story = synthetic.slow_zone()
    where = story.chapters[1].name
    story.chapters[1].write = synthetic.mixed((0, 600, 0.5, Outcome.REJECTED, 0.01))
    _, record = run(busy(where), story)
    span = record.spans[1]
    at = (span.start + span.end) // 2
    counted = {"t": at, "kind": "self", "errors": [["write", 429, type_, None, 7]]}
    early = {"t": record.spans[0].start - 60 * SECOND, "kind": "self", "errors": [["write", 429, REJECTION, None, 90]]}
    first = {"t": at, "kind": "answer.error", "op": "write", "status": 429, "type": type_, "reason": reason}
    record.driver = [early, counted, *([first] if reason else [])]
    row = table(record)["phases"][where]["metrics"][REFUSED]
    assert row["named"] == ({} if named is None else {"429": {"write": named}})
    assert row["tries"] == {"429": {"write": 7}}
    assert row["errors"] == [{"op": "write", "status": "429", "type": type_, "reason": reason, "number": 7}]


def test_what_clients_were_told_is_not_known_of_a_run_that_kept_no_errors() -> None:
    story = synthetic.slow_zone()
    where = story.chapters[1].name
    story.chapters[1].write = synthetic.mixed((0, 600, 0.5, Outcome.REJECTED, 0.01))
    _, record = run(busy(where), story)
    row = table(record)["phases"][where]["metrics"][REFUSED]
    assert row["answers"]["429"]["write"] > 10 and not {"named", "errors", "tries"} & set(row)


def test_what_clients_send_again_until_it_is_taken_was_refused_all_the_same() -> None:
    """All arrivals are answered well at last; the driver counts each try that was not, and when."""
    story = synthetic.slow_zone()
    where = story.chapters[1].name
    _, record = run(busy(where), story)
    span = record.spans[1]
    tries = [["write", 429, REJECTION, None, 5], ["write", 429, "circuit_breaking_exception", None, 2]]
    more = [["read", 503, "x", None, 3], ["read", 404, "index_not_found_exception", None, 8]]
    early = record.spans[0].start - 60 * SECOND
    far = {"t": early, "kind": "self", "errors": [["write", 429, REJECTION, None, 90]]}
    record.driver = [far, {"t": (span.start + span.end) // 2, "kind": "self", "errors": [*tries, *more]}]
    row = table(record)["phases"][where]["metrics"][REFUSED]
    assert row["answers"] == {} and row["tries"] == {"429": {"write": 7}, "5xx": {"read": 3}}
    record.driver = [far]
    assert "tries" not in table(record)["phases"][where]["metrics"][REFUSED]


def test_the_catalogue_has_each_counter_once_and_no_text_is_two_protections_own() -> None:
    of_metric = [each for each in catalogue.EVERY if each.metric is not None]
    assert len(catalogue.OF_METRIC) == len(of_metric)
    assert set(catalogue.OF_METRIC) == set(BY_METRIC) - {"shard_indexing_pressure.would_reject"}
    told = [each.error for each in catalogue.EVERY if each.error is not None]
    for error in told:
        assert error.status in module.REFUSALS
        others = [other for other in told if other is not error and other.told(error.status, error.type, error.text)]
        assert others == [], error


def test_a_node_that_was_not_heard_may_have_refused_more() -> None:
    name = run(quiet)[1].spans[1].name

    def lines(span: Any) -> list[dict[str, Any]]:
        return [line for line in quiet(span) if not (span.name == name and line["node"] == "a-data")]

    history, record = run(lines)
    found = measure(record, record.spans[1], BY_METRIC[REFUSED])
    assert found.value is None and "of a-data too little is known" in found.says
    assert measure(record, record.spans[0], BY_METRIC[REFUSED]).value == 0
    assert measure(Record(synthetic.slow_zone().history()), record.spans[0], BY_METRIC[REFUSED]).value is None
    words = Page(render_html(history, evaluate(history).to_json())).words
    assert "What protections refused or cancelled" not in words, "nothing grew"


def test_the_answer_after_a_pause_speaks_of_all_of_it() -> None:
    """No counter grew over it, so none did in any of its phases."""

    def lines(span: Any) -> list[dict[str, Any]]:
        return [line for line in quiet(span) if line["node"] != "a-data"]

    history, record = run(lines)
    end, start = record.spans[-1].end, record.spans[0].start
    paused = {"t": end, "kind": "counted", "node": "a-data", "seconds": (end - start) / SECOND}
    history.give(FILE, [*record.lines(FILE), paused])
    record = Record(history)
    assert [measure(record, span, BY_METRIC[REFUSED]).value for span in record.spans] == [0.0] * len(record.spans)


@pytest.mark.parametrize(("kind", "counted"), [("node.kill", 0.0), ("network.latency", None)])
def test_a_node_that_is_proven_to_have_no_process_counts_nothing(kind: str, counted: float | None) -> None:
    """Else nothing could be said of a protection of a node that comes back."""
    story = synthetic.slow_zone()
    story.chapters[1] = synthetic.Chapter("slow", 40).fault(kind=kind, targets=("c-data",), effect=0.2)

    def lines(span: Any) -> list[dict[str, Any]]:
        return [line for line in quiet(span) if not (span.name == "slow" and line["node"] == "c-data")]

    record = run(lines, story)[1]
    assert [measure(record, span, BY_METRIC[REFUSED]).value for span in record.spans] == [0.0, counted, 0.0, 0.0]


@pytest.mark.parametrize("status", [Outcome.REJECTED, Outcome.SERVER_ERROR])
def test_who_was_refused_in_the_same_seconds_is_told_by_operation(status: Outcome) -> None:
    story = synthetic.slow_zone()
    story.chapters[1].write = synthetic.mixed((0, 600, 0.5, status, 0.01))
    story.chapters[0].write = synthetic.mixed((0, 600, 0.5, status, 0.01))
    _, record = run(busy(story.chapters[1].name), story)
    rows = table(record)["phases"]
    answers = rows[story.chapters[1].name]["metrics"][REFUSED]["answers"]
    key = {Outcome.REJECTED: "429", Outcome.SERVER_ERROR: "5xx"}[status]
    assert set(answers) == {key} and set(answers[key]) == {"write"} and answers[key]["write"] > 10
    assert "answers" not in rows[story.chapters[0].name]["metrics"][REFUSED], "refused by something else"


def test_a_document_of_a_bulk_that_was_refused_counts_as_an_answer() -> None:
    story = synthetic.slow_zone()
    story.chapters[1].write = synthetic.constant(Outcome.PARTIAL)
    _, record = run(busy(story.chapters[1].name), story)
    assert answered(record, [(record.spans[0].start, record.spans[-1].end)], "429") == {}
    k = next(iter(record.in_phase("write", record.spans[1]).pieces())).k[:2]
    refused, stored = int(ItemOutcome.REJECTED), int(ItemOutcome.CREATED)
    record.items = Items(np.array(k), np.array([0, 2, 4]), np.array([stored, stored, stored, refused], np.uint8))
    assert answered(record, [(record.spans[0].start, record.spans[-1].end)], "429") == {"write": 1}


def test_what_is_held_at_the_end_is_told_and_who_was_not_heard_then() -> None:
    _, record = run(quiet)
    assert table(record)["end"] == {"held": {}, "unheard": []}
    name = record.spans[-1].name

    def lines(span: Any) -> list[dict[str, Any]]:
        made = [line for line in quiet(span) if not (span.name == name and line["node"] == "a-cm")]
        return [line | ({"now": {"indexing_pressure.bytes": 5}} if line["node"] == "b-data" else {}) for line in made]

    _, record = run(lines)
    assert table(record)["end"] == {"held": {"b-data": {"indexing_pressure.bytes": 5}}, "unheard": ["a-cm"]}


@pytest.mark.parametrize(
    "line", [{"kind": "counted"}, {"kind": "counted", "node": "a-data", "seconds": 1, "grew": 7}, {"kind": "other"}]
)
def test_a_line_that_was_cut_or_is_unknown_spoils_no_page(line: dict[str, Any]) -> None:
    history, record = run(busy("slow"))
    history.give(FILE, [*record.lines(FILE), {"t": record.spans[0].start + SECOND, **line}])
    assert render_html(history, evaluate(history).to_json())
