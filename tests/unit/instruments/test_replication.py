"""Lag: the replica that is furthest behind, in which phase, and what of it is not known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import synthetic
from fake_cluster import FakeCluster
from pages import Page

from chaos.base import text
from chaos.base.waiting import wait_until
from chaos.checks import evaluate
from chaos.checks.measure import Bound, Verdict, judge
from chaos.checks.record import SECOND, Record
from chaos.history import History
from chaos.instruments import replication as module
from chaos.instruments.replication import BEHIND, FILE, REJECTED, Replication, counts, rejected, worst
from chaos.opensearch.replication import REJECTIONS, parse, path
from chaos.report.page import render_html


def row(node: str, checkpoints: int, size: int, ms: int) -> dict[str, str]:
    numbers = {"checkpoints_behind": checkpoints, "bytes_behind": size, "current_lag": ms}
    return {"shardId": "[chaos][1]", "target_node": node, **{name: str(value) for name, value in numbers.items()}}


def test_the_worst_of_all_replicas_is_kept() -> None:
    rows = [row("a-data", 2, 900, 400), row("b-data", 1, 40_000, 2_500), row("c-data", 0, 0, 0)]
    assert worst(parse(rows)) == {
        **{"replicas": 3, "seconds": 2.5, "checkpoints": 2, "bytes": 40_000},
        **{"index": "chaos", "shard": 1, "node": "b-data"},
    }
    assert worst([])["replicas"] == 0 and worst([])["node"] is None


class Copying(FakeCluster):
    """``silent``: nodes that do not answer about replicas."""

    def __init__(self) -> None:
        super().__init__("3az")
        self.silent: set[str] = set()
        self.asked: list[tuple[str, str]] = []

    def answer(self, node: str, method: str, path_: str, given: Any) -> tuple[int, Any]:
        if path_.startswith(REJECTIONS):
            rejected = {"segment_replication_backpressure": {"total_rejected_requests": 3}}
            return 200, {"nodes": {"x": {"name": "a-data", "jvm": {"uptime_in_millis": 60_000}, **rejected}}}
        if path_.startswith("/_cat/segment_replication/"):
            self.asked.append((node, path_))
            return (503, {}) if node in self.silent else (200, [row("b-data", 1, 40_000, 2_500)])
        return super().answer(node, method, path_, given)


def watched(cluster: Copying, folder: Path, *copying: str) -> Replication:
    return Replication(cluster, lambda: copying, folder / "history" / FILE, pytest.fail)  # type: ignore[arg-type]


def test_only_indices_of_segment_replication_are_asked_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PERIOD_SECONDS", 0.1)
    cluster = Copying()
    cluster.silent.add("a-data")
    watch = watched(cluster, tmp_path, "two")
    watch.start()
    assert wait_until(lambda: len(cluster.asked) > 3, 30)
    watch.stop()
    watch.stop()
    assert {asked for _, asked in cluster.asked} == {f"{path(['two'])}&timeout=1s"}
    assert [node for node, _ in cluster.asked][:3] == ["a-data", "b-data", "b-data"]  # the first does not answer
    lines = [json.loads(line) for line in (tmp_path / "history" / FILE).read_text().splitlines()]
    behind, rejected = ([line for line in lines if line["kind"] == kind] for kind in (BEHIND, REJECTED))
    assert behind and rejected and len(lines) == len(behind) + len(rejected)
    assert all(line["seconds"] == 2.5 for line in behind) and all(line["nodes"] == {"a-data": 3} for line in rejected)
    assert all(line["up"] == {"a-data": 60_000} for line in rejected)


def test_nothing_is_begun_where_no_index_copies_segments(tmp_path: Path) -> None:
    cluster = Copying()
    watch = watched(cluster, tmp_path)
    watch.stop()  # before it began
    watch = watched(cluster, tmp_path)
    watch.start()
    watch.stop()
    assert cluster.asked == [] and not (tmp_path / "history" / FILE).exists()


def run(lines: Any) -> tuple[History, Record]:
    history = synthetic.observed(FILE, lines)
    return history, Record(history)


def test_the_largest_lag_of_a_phase_decides() -> None:
    def lines(start: int, end: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = module._lines(0.4, 100)(start, end)
        found[80] |= {"seconds": 7.5, "bytes": 5_000, "checkpoints": 9}
        return found

    _, record = run(lines)
    (where,) = [span for span in record.spans if span.holds(record.spans[0].start + 40 * SECOND)]
    assert module._measure(record, where, "seconds").value == 7.5
    assert module._measure(record, where, "seconds").says.startswith("shard 1 of chaos on c-data")
    assert module._measure(record, where, "bytes").value == 5_000
    most = module._measure(record, where, "checkpoints")
    assert (most.value, most.unit) == (9, "count")
    others = [span for span in record.spans if span != where]
    assert {module._measure(record, span, "seconds").value for span in others} == {0.4}


def _looks(start: int, end: int) -> list[dict[str, Any]]:
    return [line for line in module._lines(0.4, 100)(start, end) if line["kind"] == BEHIND]


def test_a_phase_in_which_nothing_was_heard_for_long_is_open() -> None:
    _, record = run(lambda start, end: _looks(start, end)[::2])
    assert module._measure(record, record.spans[1], "seconds").value == 0.4  # each second one was missed
    _, record = run(lambda start, end: _looks(start, end)[::8])
    found = module._measure(record, record.spans[1], "seconds")
    assert found.value is None and "of this phase are known" in found.says


@pytest.mark.parametrize("shape", [{}, {"replication": "SEGMENT", "shards": 3, "copies": 3}])
def test_replicas_that_were_not_heard_may_have_been_worse(shape: dict[str, Any]) -> None:
    """By the replicas that the index has, or where that is not known by the most that were ever heard."""

    def lines(start: int, end: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = module._lines(0.4, 100)(start, end)
        for line in [each for each in found if each["kind"] == BEHIND][0 if shape else 1 :]:
            line["replicas"] = 4
        return found

    history, _ = run(lines)
    history.events.append({"t": history.phases[0].start_ns, "kind": "index.shape", "index": "chaos", **shape})
    record = Record(history)
    found = module._measure(record, record.spans[1], "seconds")
    assert found.value == 0.4 and found.bound is Bound.AT_LEAST and "of all 6 replicas" in found.says
    assert judge(found, "<=", 2.0) is Verdict.INCONCLUSIVE and judge(found, "<=", 0.1) is Verdict.FAIL


@pytest.mark.parametrize(
    "line", [{"kind": BEHIND}, {"kind": BEHIND, "replicas": 6, "seconds": None}, {"kind": "other"}]
)
def test_a_line_that_was_cut_or_is_unknown_spoils_no_page(line: dict[str, Any]) -> None:
    history, _ = run(lambda start, end: [*module._lines(0.4, 100)(start, end), {"t": start + SECOND, **line}])
    assert "How far replicas were behind" in Page(render_html(history, evaluate(history).to_json())).words


def test_the_report_draws_it_and_a_run_without_it_has_no_such_section() -> None:
    history, _ = run(module._lines(0.4, 132_966))
    words = Page(render_html(history, evaluate(history).to_json())).words
    assert "Lag of the replica that is furthest behind" in words and text.count(132_966) in words
    assert "Writes that primaries rejected because replicas were too far behind" in words
    history, _ = run(_looks)  # from before they were counted
    assert "Rejected" not in Page(render_html(history, evaluate(history).to_json())).words
    bare = synthetic.slow_zone().history()
    assert "replication" not in evaluate(bare).tables
    assert "How far replicas were behind" not in Page(render_html(bare, evaluate(bare).to_json())).words


def counting(change: Callable[[list[dict[str, Any]]], Any], each: int = 2) -> Record:
    """A run in which three nodes reject ``each`` requests a second, with their counts changed."""

    def lines(start: int, end: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = module._lines(0.4, 100, each)(start, end)
        change([line for line in found if line["kind"] == REJECTED])
        return found

    return run(lines)[1]


def test_what_nodes_rejected_is_the_growth_of_their_counts_in_a_phase() -> None:
    record = counting(lambda lines: None)
    for place, span in enumerate(record.spans):
        found = rejected(record, span)
        seconds = round(span.seconds)
        assert found.bound is Bound.EXACT and found.value == 6 * (seconds - (place == 0))  # the first only begins
    quiet = counting(lambda lines: None, 0)
    assert [rejected(quiet, span).value for span in quiet.spans] == [0.0] * len(quiet.spans)


def test_a_node_that_was_started_again_counts_from_nothing() -> None:
    def restarted(lines: list[dict[str, Any]]) -> None:
        for number, line in enumerate(lines[30:]):
            line["nodes"]["c-data"] = 5 * number

    record = counting(restarted, 0)
    assert sum(each.more for each in counts(record)) == 5 * (len(counts(record)) - 31)


@pytest.mark.parametrize(
    ("up", "ended", "number", "bound"),
    [
        (True, None, 12, Bound.AT_LEAST),
        (True, 39.5, 12, Bound.EXACT),
        (False, None, 5, Bound.EXACT),
    ],
    ids=["its end is not known", "its end is proven", "a record of before"],
)
def test_a_node_that_is_another_process_counts_from_nothing_although_it_counts_more(
    monkeypatch: pytest.MonkeyPatch, up: bool, ended: float | None, number: int, bound: Bound
) -> None:
    """c-data has counted 7 when it is last heard, and its next process 12 when it is first heard."""

    def restarted(lines: list[dict[str, Any]]) -> None:
        for place, line in enumerate(lines):
            if 40 <= place < 43:
                del line["nodes"]["c-data"], line["up"]["c-data"]
            elif place >= 43:
                line["nodes"]["c-data"], line["up"]["c-data"] = 12, 1_000 * (place - 42)
            if not up:
                del line["up"]

    record = counting(restarted, 0)
    begin = record.lines(FILE)[0]["t"]
    proven = {} if ended is None else {"c-data": [begin + round(ended * SECOND)]}
    monkeypatch.setattr(module.evidence, "ended", lambda record: proven)
    (span,) = [span for span in record.spans if span.holds(begin + 43 * SECOND)]
    assert span.holds(begin + 39 * SECOND)
    found = rejected(record, span)
    assert (found.value, found.bound) == (number, bound)
    assert ("before another process took over" in found.says) is (bound is Bound.AT_LEAST)
    assert sum(each.more for each in counts(record)) == number
    others = [rejected(record, each) for each in record.spans if each != span]
    assert {(each.value, each.bound) for each in others} == {(0.0, Bound.EXACT)}


def test_what_a_node_that_is_not_heard_rejects_is_not_known() -> None:
    def silent(lines: list[dict[str, Any]]) -> None:
        for line in lines[1:]:
            del line["nodes"]["b-data"]

    for each, verdict in ((0, Verdict.INCONCLUSIVE), (2, Verdict.FAIL)):
        record = counting(silent, each)
        found = rejected(record, record.spans[1])
        assert judge(found, "==", 0.0) is verdict and "of all 3 nodes" in found.says
    _, record = run(_looks)
    assert rejected(record, record.spans[1]).value is None
    assert "rejected" not in module.table(record)[record.spans[1].name]


def test_what_a_silent_node_rejected_around_an_edge_is_of_neither_phase_for_sure() -> None:
    """c-data rejects 900 writes in the last seconds of the second phase, and is heard again in the third one."""
    _, sound = run(module._lines(0.4, 100, 0))
    slow, after = sound.spans[1:3]

    def silent(lines: list[dict[str, Any]]) -> None:
        for line in lines:
            if slow.end - 6 * SECOND <= line["t"] < slow.end:
                del line["nodes"]["c-data"]
            elif line["t"] >= slow.end:
                line["nodes"]["c-data"] += 900

    record = counting(silent, 0)
    for span in (slow, after):
        found = rejected(record, span)
        assert judge(found, "==", 0.0) is Verdict.INCONCLUSIVE and "900 more may be of this phase" in found.says
    assert rejected(record, record.spans[0]).value == rejected(record, record.spans[3]).value == 0
