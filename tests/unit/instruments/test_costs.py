"""Costs: what counters grew by, in which time, for how many documents; and what is missing is no figure."""

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
from chaos.checks.measure import Bound
from chaos.checks.record import SECOND, Record
from chaos.history import History
from chaos.instruments import costs as module
from chaos.instruments.costs import FILE, OF_INDEX, PATH, STORED, USED, Costs, counted, stored
from chaos.report.page import render_html
from chaos.statistics import facts

NODES = ("a-cm", "a-data", "b-cm", "b-data", "c-cm", "c-data")


def body(cpu: int, sent: int, up: int) -> dict[str, Any]:
    """As OpenSearch 3.8.0 answers to PATH."""
    own = {
        "process": {"cpu": {"total_in_millis": cpu}},
        "transport": {"tx_size_in_bytes": sent},
        "jvm": {"uptime_in_millis": up},
    }
    return {"nodes": {"x1": own}}


def size(total: int, successful: int, failed: int = 0) -> dict[str, Any]:
    return {
        "_shards": {"total": total, "successful": successful, "failed": failed},
        "_all": {"primaries": {"docs": {"count": 70}}, "total": {"store": {"size_in_bytes": 21_000}}},
    }


def test_what_a_node_and_an_index_say() -> None:
    assert counted(body(12, 34, 56)) == {"cpu": 12, "sent": 34, "up": 56}
    with pytest.raises(ValueError, match="no counters"):
        counted(body(-1, 34, 56))
    assert stored(size(9, 9)) == {"bytes": 21_000, "documents": 70}
    assert stored(size(9, 8)) is None and stored(size(9, 9, failed=1)) is None


class Nodes(FakeCluster):
    """``silent``: those that do not answer."""

    def __init__(self) -> None:
        super().__init__("3az-standby")
        self.asked: dict[str, int] = {}
        self.silent: set[str] = set()
        self.sized = size(9, 9)

    def answer(self, node: str, method: str, path: str, given: Any) -> tuple[int, Any]:
        if path == OF_INDEX.format("chaos"):
            return 200, self.sized
        if path != PATH:
            return super().answer(node, method, path, given)
        if node in self.silent:
            return 503, {}
        self.asked[node] = self.asked.get(node, 0) + 1
        return 200, body(100, 200, 300)


@pytest.mark.parametrize(("patient", "shards"), [(True, 9), (False, 9), (True, 8)])
def test_every_node_is_asked_and_in_the_end_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patient: bool, shards: int
) -> None:
    monkeypatch.setattr(module, "PERIOD_SECONDS", 0.1)
    cluster = Nodes()
    cluster.silent.add("b-data")
    cluster.sized = size(9, shards)
    file = tmp_path / "history" / FILE
    watch = Costs(cluster, "chaos", file, pytest.fail)  # type: ignore[arg-type]
    watch.stop()  # before it began
    watch.start()
    assert wait_until(lambda: min(cluster.asked.values(), default=0) > 3 and len(cluster.asked) == 5, 30)
    watch.stop(patient=patient)
    watch.stop(patient=patient)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    used = [line for line in lines if line["kind"] == USED]
    assert {line["node"] for line in used} == {node.name for node in cluster.topology.nodes} - {"b-data"}
    assert all((line["cpu"], line["sent"], line["up"]) == (100, 200, 300) for line in used)
    wanted = [{"bytes": 21_000, "documents": 70}] if patient and shards == 9 else []
    assert [{key: line[key] for key in ("bytes", "documents")} for line in lines if line["kind"] == STORED] == wanted


def test_on_a_cluster_that_is_not_ours_nothing_is_asked() -> None:
    class Context:
        existing = object()

    assert module.INSTRUMENT.observe(Context()) is None  # type: ignore[arg-type]


def record_of(change: Any = None) -> History:
    """A made-up run of 3 phases, whose nodes used 0.05 s and sent 20 kB in each second."""
    history: History = synthetic.slow_zone().history()
    start, end = history.phases[0].start_ns, history.phases[-1].end_ns
    lines = module.SOUND(start, end)
    history.give(FILE, change(lines, start, end) if change else lines)
    return history


def test_costs_are_ratios_of_what_was_acknowledged_in_the_phases() -> None:
    record = Record(record_of())
    acknowledged, good, seconds = module.written(record)
    assert acknowledged > 100 and 0 < good <= acknowledged
    found = module.processor(record)
    assert found.value == pytest.approx(6 * 50 * seconds / acknowledged, rel=0.01) and found.unit == "seconds"
    assert module.network(record).value == pytest.approx(6 * 20_000 * seconds / acknowledged, rel=0.01)
    assert module.disk(record).value == 600.0
    assert module.goodput(record).value == pytest.approx(good / seconds)
    assert found.bound is Bound.EXACT and "6 nodes" in found.says


def test_a_process_that_is_another_one_began_at_zero() -> None:
    def restarted(lines: list[dict[str, Any]], start: int, end: int) -> list[dict[str, Any]]:
        middle = (start + end) // 2
        kept = []
        for line in lines:
            if line["kind"] == USED and line["node"] == "c-data" and line["t"] > middle:
                up = line["t"] - middle
                line = {**line, "cpu": 50 * up // SECOND, "sent": 20_000 * up // SECOND, "up": up // 1_000_000}
            kept.append(line)
        return kept

    whole, anew = module.processor(Record(record_of())), module.processor(Record(record_of(restarted)))
    assert anew.value == pytest.approx(whole.value, rel=0.03)


def test_a_node_that_was_not_heard_may_have_used_more() -> None:
    def silent(lines: list[dict[str, Any]], start: int, end: int) -> list[dict[str, Any]]:
        return [line for line in lines if line.get("node") != "c-data" or line["t"] < (start + end) // 2]

    found = module.processor(Record(record_of(silent)))
    assert found.bound is Bound.AT_LEAST and "of c-data too little is known" in found.says
    (known,) = [
        value
        for name, value in facts.metrics({"tables": {"costs": {"processor": module._row(found)}}}).items()
        if name == "costs.processor"
    ]
    assert known.high == float("inf") and known.low == found.value


@pytest.mark.parametrize(
    ("change", "measure", "says"),
    [
        (lambda lines, *_: [x for x in lines if x["kind"] == STORED], module.processor, "too little is known"),
        (lambda lines, *_: [x for x in lines if x["kind"] == USED], module.disk, "was not asked"),
        (lambda lines, *_: [{**x, "documents": 0} for x in lines if x["kind"] == STORED], module.disk, "no documents"),
        (lambda lines, *_: [x for x in lines if x.get("node") in NODES[:2]], module.network, "too little is known"),
    ],
)
def test_what_is_missing_is_no_figure(change: Any, measure: Any, says: str) -> None:
    found = measure(Record(record_of(change)))
    assert found.value is None and says in found.says


def test_a_run_that_did_not_record_it_has_no_table() -> None:
    story = synthetic.slow_zone()
    assert "costs" not in evaluate(story.history()).to_json()["tables"]
    found = evaluate(record_of()).to_json()
    metrics = facts.metrics(found)
    assert {name: value.unit for name, value in metrics.items() if name.startswith("costs.")} == {
        "costs.processor": "seconds",
        "costs.network": "number",
        "costs.disk": "number",
        "costs.goodput": "number",
    }
    assert facts.higher_is_better("number", "costs.goodput") and not facts.higher_is_better("number", "costs.disk")


def test_the_report_has_a_section() -> None:
    history = record_of()
    words = Page(render_html(history, evaluate(history).to_json())).words
    assert "What the load cost the cluster" in words and "Bytes on disk, all copies" in words
