"""Pauses for garbage collection: what a node's counters grew by, in which phase, and what of it is not known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import synthetic
from fake_cluster import FakeCluster
from pages import Page

from chaos.base.waiting import wait_until
from chaos.checks import evaluate
from chaos.checks.measure import Bound, Verdict, judge
from chaos.checks.record import SECOND, Record
from chaos.history import History
from chaos.instruments import garbage_collection as module
from chaos.instruments.garbage_collection import (
    FILE,
    INSTRUMENT,
    PATH,
    Collections,
    Counters,
    by_node,
    counted,
    grown,
    measure,
)
from chaos.report.page import render_html


def body(at: int, up: int, young: tuple[int, int], old: tuple[int, int] = (0, 0)) -> dict[str, Any]:
    """As OpenSearch 3.8.0 answers to PATH."""
    collectors = {
        name: {"collection_count": count, "collection_time_in_millis": ms}
        for name, (count, ms) in (("young", young), ("old", old), ("G1 Concurrent GC", (2, 3)))
    }
    return {"nodes": {"x1": {"jvm": {"timestamp": at, "uptime_in_millis": up, "gc": {"collectors": collectors}}}}}


def test_what_grew_between_two_answers_is_told_collector_by_collector() -> None:
    before, now = counted(body(10_000, 4_000, (3, 30))), counted(body(12_000, 6_001, (5, 52), (1, 900)))
    assert grown(before, now) == {
        "seconds": 2.0,
        "young": {"count": 2, "ms": 22},
        "old": {"count": 1, "ms": 900},
        "G1 Concurrent GC": {"count": 0, "ms": 0},
    }


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(body(10_000, 4_000, (3, 30)), id="the same answer"),
        pytest.param(body(12_000, 500, (9, 90)), id="another JVM"),
        pytest.param(body(12_000, 6_000, (2, 20)), id="counters that fell"),
    ],
)
def test_another_jvm_begins_anew(now: dict[str, Any]) -> None:
    assert grown(counted(body(10_000, 4_000, (3, 30))), counted(now)) is None


class Nodes(FakeCluster):
    """Each answer 2 s of the node's clock after the one before. ``silent``: those that do not answer."""

    def __init__(self) -> None:
        super().__init__("3az-standby")
        self.asked: dict[str, int] = {}
        self.silent: set[str] = set()

    def answer(self, node: str, method: str, path: str, given: Any) -> tuple[int, Any]:
        assert (method, path) == ("GET", PATH)
        if node in self.silent:
            return 503, {}
        turn = self.asked[node] = self.asked.get(node, 0) + 1
        return 200, body(10_000 + 2_000 * turn, 2_000 * turn, (turn, 7 * turn))


def test_every_node_is_asked_and_one_that_is_silent_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PERIOD_SECONDS", 0.1)
    cluster = Nodes()
    cluster.silent.add("b-data")
    file = tmp_path / "history" / FILE
    watch = Collections(cluster, file, pytest.fail)  # type: ignore[arg-type]
    watch.stop()  # before it began
    watch.start()
    assert wait_until(lambda: min(cluster.asked.values(), default=0) > 3 and len(cluster.asked) == 5, 30)
    watch.stop()
    watch.stop()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {line["node"] for line in lines} == {node.name for node in cluster.topology.nodes} - {"b-data"}
    assert all(line["kind"] == "collected" and line["seconds"] == 2.0 for line in lines)
    assert all(line["young"] == {"count": 1, "ms": 7} for line in lines)


def test_on_a_cluster_that_is_not_ours_nothing_is_asked() -> None:
    class Context:
        existing = object()

    assert INSTRUMENT.observe(Context()) is None  # type: ignore[arg-type]


def run(lines: Any) -> tuple[History, Record]:
    history = synthetic.observed(FILE, lines)
    return history, Record(history)


def test_the_node_that_collected_most_decides_and_a_node_that_is_not_known_leaves_it_open() -> None:
    _, record = run(module._lines(100))
    span = record.spans[1]
    found = measure(record, span)
    assert found.value == pytest.approx(0.05) and found.says.startswith("c-data, in ")
    _, record = run(lambda start, end: [line for line in module._lines(100)(start, end) if line["node"] != "a-cm"])
    found = measure(record, span)
    assert found.says.endswith("of a-cm too little is known") and found.bound is Bound.AT_LEAST
    assert judge(found, "<=", 0.5) is Verdict.INCONCLUSIVE and judge(found, "<=", 0.01) is Verdict.FAIL


def test_a_stretch_counts_for_each_phase_by_its_share() -> None:
    edge: list[int] = []

    def lines(start: int, end: int) -> list[dict[str, Any]]:
        edge.append(start)
        young = {"count": 2, "ms": 200}
        return [{"t": start + SECOND, "kind": "collected", "node": "a-data", "seconds": 2.0, "young": young}]

    _, record = run(lines)
    (row,) = by_node(record, record.spans[0]).values()
    assert row["count"] == 1 and row["share"] == pytest.approx(0.1) and row["worst"] == 200
    assert by_node(record, record.spans[1]) == {}


@pytest.mark.parametrize(
    "line",
    [
        {"kind": "collected"},
        {"kind": "collected", "node": "a-data", "seconds": 0, "young": {"count": 1, "ms": 1}},
        {"kind": "collected", "node": "a-data", "seconds": None},
        {"kind": "collected", "node": "of another topology", "seconds": 2.0, "young": {"count": 1, "ms": 1}},
        {"kind": "other"},
    ],
)
def test_a_line_that_was_cut_or_is_unknown_spoils_no_page(line: dict[str, Any]) -> None:
    history, _ = run(lambda start, end: [*module._lines(10)(start, end), {"t": start + SECOND, **line}])
    assert "Pauses for garbage collection" in Page(render_html(history, evaluate(history).to_json())).words


def test_the_report_draws_it_and_a_run_without_it_has_no_such_section() -> None:
    history, _ = run(module._lines(400))
    words = Page(render_html(history, evaluate(history).to_json())).words
    assert "Share of the time in pauses, of the node that collected most: 20 % in the middle" in words
    assert "20.0\u00a0%, 400\u00a0ms" in words
    bare = synthetic.slow_zone().history()
    assert "gc" not in evaluate(bare).tables
    assert "Pauses for garbage collection" not in Page(render_html(bare, evaluate(bare).to_json())).words


def test_counters_of_a_jvm_know_when_it_began() -> None:
    assert Counters(10_000, 4_000, {}).began == 6_000
