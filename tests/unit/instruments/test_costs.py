"""Costs: what counters grew by, in which time, for how many documents; and what is missing is no figure."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import synthetic
from fake_cluster import FakeCluster
from pages import Page

from chaos.base.waiting import wait_until
from chaos.checks import evaluate, spent
from chaos.checks.measure import Bound
from chaos.checks.record import SECOND, Record
from chaos.history import History
from chaos.history.events import ClusterLeader
from chaos.instruments import costs as module
from chaos.instruments.costs import FILE, OF_INDEX, PATH, STORE, STORED, USED, Costs, counted, stored
from chaos.report.page import render_html
from chaos.statistics import facts

NODES = ("a-cm", "a-data", "b-cm", "b-data", "c-cm", "c-data")


def body(cpu: int, sent: int, up: int) -> dict[str, Any]:
    """As OpenSearch 3.8.0 answers to PATH."""
    own = {
        "process": {"timestamp": 1_000_000, "cpu": {"total_in_millis": cpu}},
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
    assert counted(body(12, 34, 56), 1000.7) == {"cpu": 12, "sent": 34, "up": 56, "old": 700}
    assert [counted(body(12, 34, 56), now)["old"] for now in (999.0, 5000.0)] == [0, 3000], "clocks that differ"
    with pytest.raises(ValueError, match="no counters"):
        counted(body(-1, 34, 56), 1000.0)
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
    monkeypatch.setattr(module, "PERIOD_SECONDS", 60.0)
    asked_last = time.monotonic_ns()
    watch.stop(patient=patient)
    watch.stop(patient=patient)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    used = [line for line in lines if line["kind"] == USED]
    assert {line["node"] for line in used} == {node.name for node in cluster.topology.nodes} - {"b-data"}
    assert used[-1]["t"] >= asked_last, "once more when it ends"
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
    assert found.value == pytest.approx(6 * 50 * seconds / acknowledged, rel=0.01) and found.unit == "number"
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


def test_a_counter_that_is_old_is_of_when_it_was_taken() -> None:
    def old(lines: list[dict[str, Any]], start: int, end: int) -> list[dict[str, Any]]:
        """Each answer came 0.9 s after its counter was taken, but that of the bytes."""
        return [{**line, "t": line["t"] + 900_000_000, "old": 900} if line["kind"] == USED else line for line in lines]

    whole = spent.stretches(Record(record_of()), "cpu")["a-data"]
    assert spent.stretches(Record(record_of(old)), "cpu")["a-data"] == whole
    assert spent.stretches(Record(record_of(old)), "sent")["a-data"] != whole


@pytest.mark.parametrize(("kind", "known"), [("node.kill", True), ("network.latency", False)])
def test_while_a_node_is_proven_to_have_no_process_it_uses_nothing(kind: str, known: bool) -> None:
    """Else no experiment that kills a node would know what its documents cost."""
    story = synthetic.slow_zone()
    story.chapters[1] = synthetic.Chapter("slow", 40).fault(kind=kind, targets=("c-data",), effect=0.2)
    history = story.history()
    dead, back = history.phases[1].start_ns, history.phases[2].start_ns
    kept = []
    for line in module.SOUND(history.phases[0].start_ns, history.phases[-1].end_ns):
        if line["kind"] == USED and line["node"] == "c-data" and line["t"] > dead:
            up = line["t"] - back
            if up <= 0:
                continue
            line = {**line, "cpu": 50 * up // SECOND, "sent": 20_000 * up // SECOND, "up": up // 1_000_000}
        kept.append(line)
    history.give(FILE, kept)
    record = Record(history)
    found, (acknowledged, _, seconds) = module.processor(record), module.written(record)
    assert (found.bound is Bound.EXACT) is known, found.says
    assert found.value == pytest.approx((6 * seconds - 40) * 50 / acknowledged, rel=0.03)


def test_an_uptime_that_is_a_second_off_is_no_other_process() -> None:
    def jumping(lines: list[dict[str, Any]], start: int, end: int) -> list[dict[str, Any]]:
        return [
            {**line, "up": line["up"] - 1200 * (number % 2)} if "up" in line else line
            for number, line in enumerate(lines)
        ]

    assert module.processor(Record(record_of(jumping))) == module.processor(Record(record_of()))


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
        "costs.processor": "number",
        "costs.network": "number",
        "costs.disk": "number",
        "costs.goodput": "number",
        "costs.elected": "share",
        "costs.store": "number",
    }
    assert facts.higher_is_better("number", "costs.goodput") and not facts.higher_is_better("number", "costs.disk")


def test_the_stores_time_is_counted_apart_at_the_edges_of_phases_and_only_where_there_is_one(tmp_path: Path) -> None:
    readings = iter([1000, None, 4500])
    file = tmp_path / "history" / FILE
    watch = Costs(Nodes(), "chaos", file, pytest.fail, lambda: next(readings))  # type: ignore[arg-type]
    watch.start()
    for _ in range(3):
        watch.edge()
    watch.stop(patient=False)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["cpu"] for line in lines if line["kind"] == STORE] == [1000, 4500]


def test_the_stores_time_is_held_against_what_was_acknowledged_and_known_from_first_to_last() -> None:
    record = Record(record_of())
    begin, end = record.spans[0].start, record.spans[-1].end
    acknowledged, _, _ = module.written(record)

    def at(*readings: tuple[int, int]) -> Any:
        lines = [{"t": t, "kind": STORE, "cpu": cpu} for t, cpu in readings]
        return lambda given, *_: [x for x in given if x["kind"] != STORE] + lines

    whole = at((begin, 500), ((begin + end) // 2, 600), (end, 500 + 3 * acknowledged))
    assert module.of_store(Record(record_of(whole))).value == 3.0
    for change in (at(), at((begin, 500)), at((begin, 500), (end, 100)), at((begin - 9 * SECOND, 1), (end, 2))):
        record = Record(record_of(change))
        assert module.of_store(record).value is None
    assert "store" not in (module.table(Record(record_of(at()))) or {})


def test_the_report_has_a_section() -> None:
    history = record_of()
    words = Page(render_html(history, evaluate(history).to_json())).words
    assert "What the load cost the cluster" in words and "Bytes on disk, all copies" in words


# -- the elected cluster manager -----------------------------------------------------------------------


def managed(calls: bool = False, silent: tuple[str, ...] = ()) -> Record:
    """c-cm is elected at first, which uses 0.4 s in each second and after it a-cm as much; every other node uses 0.1 s.
    In the midst nobody is, for a second. ``calls``: whether reads are monitoring calls; ``silent``: unheard at last."""
    story = synthetic.slow_zone()
    history: History = story.history()
    start, end = history.phases[0].start_ns, history.phases[-1].end_ns
    middle = start + (end - start) // 2 // SECOND * SECOND
    leaders = [event for event in history.events if event["kind"] == "cluster.leader"]
    history.events[:] = [event for event in history.events if event not in leaders[1:]] + [
        {"t": middle, "kind": "cluster.leader", "leader": None},
        {"t": middle + SECOND, "kind": "cluster.leader", "leader": "a-cm"},
    ]
    step, lines = SECOND, []
    for node in NODES:
        cpu = 0
        for t in range(start - step, end - 30 * SECOND if node in silent else end + 2 * step, step):
            lines.append({"t": t, "kind": USED, "node": node, "cpu": cpu, "sent": 0, "up": t // 1_000_000})
            cpu += 400 if node == ("c-cm" if t < middle else "a-cm" if t >= middle + SECOND else "") else 100
    history.give(FILE, lines)
    record = Record(history)
    record.operations = tuple(replace(op, admin=op.name == "read" and calls) for op in record.operations)
    return record


def test_the_elected_manager_is_followed_through_an_election() -> None:
    record = managed()
    found = spent.by_kind(record, "cpu")
    start, end = record.spans[0].start, record.spans[-1].end
    seconds = (end - start) / SECOND
    assert found["elected"].wanted == pytest.approx(seconds - 1, abs=0.01), "a second without one is nobody's"
    assert found["elected"].grown == pytest.approx(400 * (seconds - 1), rel=0.01)
    assert found["managers"].grown == pytest.approx(100 * (2 * seconds + 1), rel=0.01), "three managers, one elected"
    assert found["data"].grown == pytest.approx(100 * 3 * seconds, rel=0.01)
    assert found["coordinating"] == spent.Spent(0.0, 0.0, 0.0)
    assert sum(each.wanted for each in found.values()) == pytest.approx(6 * seconds), "nobody's time is lost or twice"
    measured = module.elected(record)
    assert measured.value == pytest.approx(0.4, rel=0.01) and measured.bound is Bound.EXACT


def test_while_no_manager_is_seen_one_may_have_used_more() -> None:
    record = managed()
    middle = next(event.t for event in record.seen(ClusterLeader) if event.leader is None)
    long = replace(record.spans[0], start=middle - 5 * SECOND, end=middle + 6 * SECOND)
    found = module.elected(record, long)
    assert found.bound is Bound.AT_LEAST and "no cluster manager was seen" in found.says


def test_a_time_in_which_no_node_answered_is_nobody_s() -> None:
    """Who was elected before may not be any more."""
    whole, record = managed(), managed()
    middle = next(event.t for event in record.seen(ClusterLeader) if event.leader is None)
    silent = [event for event in record.of_kind("sample") if 0 <= middle - event["t"] < 4 * SECOND]
    assert len(silent) == 4
    for event in silent:
        event["ok"] = 0
    long = replace(record.spans[0], start=middle - 20 * SECOND, end=middle + SECOND)
    assert spent.led(record, long) == pytest.approx(spent.led(whole, long) - 3.5 / 21, abs=0.001)
    assert [name for name, _, _ in spent.terms(record, long.start, long.end + 9 * SECOND)] == ["c-cm", "a-cm"]


def test_what_it_used_is_told_of_each_phase_that_is_long_enough() -> None:
    history = record_of()
    before, after = (span.start_ns for span in history.phases[1:3])

    def busy(lines: list[dict[str, Any]], start: int, end: int) -> list[dict[str, Any]]:
        """Every node uses 0.2 s more in each second of the second phase."""
        used = (line for line in lines if line["kind"] == USED)
        return [
            {**line, "cpu": line["cpu"] + 200 * (min(max(line["t"], before), after) - before) // SECOND}
            for line in used
        ]

    record = Record(record_of(busy))
    found = module.by_phase(record)
    assert found is not None
    first, second, third, last = (found[span.name]["value"] for span in record.spans)
    assert 0.049 < first < 0.1 and second == pytest.approx(0.25, rel=0.1) and 0.049 < third < 0.1
    whole = module.elected(record).value
    assert whole is not None and last == pytest.approx(0.05, rel=0.01) and last < whole < second
    short = replace(record.spans[1], end=record.spans[1].start + 9 * SECOND)
    assert "shorter than 10 s" in module.elected(record, short).says
    assert module.by_phase(Record(synthetic.slow_zone().history())) is None, "nothing was recorded"


def test_what_grew_over_a_long_gap_is_no_phases() -> None:
    def unheard(lines: list[dict[str, Any]], start: int, end: int) -> list[dict[str, Any]]:
        """For 20 s in the midst of the run."""
        middle = (start + end) // 2
        return [line for line in lines if not 0 < line["t"] - middle < 20 * SECOND]

    record = Record(record_of(unheard))
    unknown = [span.name for span in record.spans if module.elected(record, span).value is None]
    assert unknown == ["failover"] and "failover" not in (module.by_phase(record) or {})
    assert module.elected(record).bound is Bound.EXACT, "of all phases it does not matter in which it grew"


def test_processor_time_is_held_against_the_monitoring_calls() -> None:
    record = managed(calls=True)
    made = module.calls(record)
    assert made == sum(len(record.in_phase("read", span).k) for span in record.spans) > 100
    total = {kind: module.of_calls(record, kind) for kind in spent.KINDS}
    assert total["elected"].value == pytest.approx(spent.by_kind(record, "cpu")["elected"].grown / made)
    assert total["coordinating"].value is None and "no such node" in total["coordinating"].says
    assert module.of_calls(managed(), "elected").value is None, "no monitoring call was made"
    assert set(module.table(record) or ()) >= {"elected", "calls_elected", "calls_managers", "calls_data"}
    assert "calls_coordinating" not in (module.table(record) or ())


@pytest.mark.parametrize(("silent", "bound"), [(("a-cm",), Bound.AT_LEAST), (("c-data",), Bound.EXACT)])
def test_a_manager_that_was_not_heard_may_have_used_more(silent: tuple[str, ...], bound: Bound) -> None:
    assert module.elected(managed(silent=silent)).bound is bound


def test_without_a_cluster_manager_there_is_no_figure() -> None:
    record = managed()
    record.events = [event for event in record.events if event["kind"] != "cluster.leader"]
    assert module.elected(record).value is None
