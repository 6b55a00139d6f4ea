"""Uploads: what nodes say of them, which primary is furthest ahead of the store, and what of it is not known."""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path
from typing import Any

import pytest
import synthetic
from fake_cluster import FakeCluster
from hypothesis import given
from hypothesis import strategies as st
from pages import Page

from chaos.base.waiting import wait_until
from chaos.checks import evaluate
from chaos.checks.measure import Bound
from chaos.checks.record import SECOND, Record
from chaos.history import History
from chaos.instruments import remote_uploads as module
from chaos.instruments.remote_uploads import ASKED, FILE, UPLOADS, furthest, grown
from chaos.opensearch.remote_store import REQUESTS, UPTIME, requests, uploads, uploads_path
from chaos.report.page import render_html

PRIMARY: dict[str, Any] = {
    "routing": {"state": "STARTED", "primary": True, "node": "x"},
    "segment": {
        "download": {},
        "upload": {
            "local_refresh_timestamp_in_millis": 9_400,
            "remote_refresh_timestamp_in_millis": 9_000,
            "refresh_time_lag_in_millis": 1_250,
            "refresh_lag": 1,
            "bytes_lag": 40_000,
            "backpressure_rejection_count": 3,
            "consecutive_failure_count": 2,
            "total_uploads": {"started": 12, "succeeded": 9, "failed": 2},
        },
    },
    "translog": {"upload": {"total_uploads": {"started": 50, "failed": 4, "succeeded": 46}}, "download": {}},
}
REPLICA = {"routing": {"state": "STARTED", "primary": False, "node": "y"}, "segment": {"download": {}, "upload": {}}}
EMPTY = {"routing": {"state": "STARTED", "primary": True, "node": "x"}, "segment": {"download": {}, "upload": {}}}
ANSWER = {"_shards": {"total": 3}, "indices": {"chaos": {"shards": {"0": [REPLICA], "1": [PRIMARY], "2": [EMPTY]}}}}
REPOSITORIES = {
    "nodes": {
        "x": {
            "repositories": [
                {
                    "repository_name": "store",
                    "repository_type": "s3",
                    "request_counts": {"PutObject": 7},
                    "request_success_total": {"PutObject": 7, "GetObject": 2},
                    "request_failures_total": {"PutObject": 1},
                    "request_retry_count_total": {"PutObject": 4},
                    "request_time_in_millis": {"PutObject": 90, "GetObject": 10},
                },
                {"repository_name": "folder", "repository_type": "fs", "request_counts": {}},
            ]
        }
    }
}


def test_an_answer_tells_of_primaries_alone_and_one_without_uploads_is_not_behind() -> None:
    one, two = uploads(ANSWER, 9.9)
    assert (one.index, one.shard, one.seconds, one.refreshes, one.bytes, one.pending) == (
        "chaos",
        1,
        1.25,
        1,
        40_000,
        1,
    )
    assert one.counts == {"segments": 2, "translog": 4, "rejected": 3}
    assert (two.shard, two.seconds, two.pending) == (2, 0.0, 0) and set(two.counts.values()) == {0}
    assert uploads({"_shards": {"total": 0}, "indices": {}}, 9.9) == []
    assert furthest([one, two]) == {
        **{"primaries": 2, "lag": 1.25, "index": "chaos", "shard": 1},
        **{"refreshes": 1, "bytes": 40_000, "pending": 1},
    }
    assert furthest([two])["index"] is None and furthest([])["primaries"] == 0


def told(**changes: Any) -> Any:
    """What a node tells of one primary."""
    upload = {name: value for name, value in (PRIMARY["segment"]["upload"] | changes).items() if value is not None}
    shards = {"0": [{**PRIMARY, "segment": {"download": {}, "upload": upload}}]}
    return {"_shards": {"total": 1}, "indices": {"chaos": {"shards": shards}}}


def test_a_refresh_whose_metadata_alone_are_missing_is_behind_although_its_node_says_0() -> None:
    """A node takes the files of its segments for all: while the metadata hang it says that nothing is behind."""
    (hangs,) = uploads(told(refresh_time_lag_in_millis=0, bytes_lag=0), 21.4)
    assert hangs.seconds == pytest.approx(12.0)
    (well,) = uploads(told(refresh_time_lag_in_millis=0, bytes_lag=0, refresh_lag=0), 21.4)
    assert well.seconds == 0.0
    (told_more,) = uploads(told(refresh_time_lag_in_millis=30_000), 21.4)
    assert told_more.seconds == 30.0


@pytest.mark.parametrize("name", ["refresh_time_lag_in_millis", "refresh_lag", "local_refresh_timestamp_in_millis"])
def test_a_field_that_is_missing_is_not_read_as_none_behind(name: str) -> None:
    with pytest.raises(LookupError):
        uploads(told(**{name: None}), 9.9)


@pytest.mark.parametrize("broken", [{}, {"error": "x"}, {"_shards": {}, "indices": {"a": {}}}])
def test_what_is_no_answer_is_not_read_as_none_behind(broken: dict[str, Any]) -> None:
    with pytest.raises((ValueError, LookupError, TypeError)):
        uploads(broken, 9.9)


def test_requests_of_all_repositories_and_operations_are_added_up_and_a_folder_counts_none() -> None:
    assert requests(REPOSITORIES) == {"sent": 9, "failed": 1, "retried": 4, "ms": 100}


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.integers(0, 7))
def test_what_grew_is_never_less_than_nothing_and_a_counter_that_fell_began_anew(grows: list[int], at: int) -> None:
    count, total, before = 0, 0, {}
    for number, more in enumerate(grows):
        count = more if number == at else count + more
        fell = count < before.get("a", {}).get("failed", 0)
        now = {"a": {"failed": count}}
        total += grown(before, now).get("failed", 0)
        expected = count if fell or not before else count - before["a"]["failed"]
        assert grown(before, now).get("failed", 0) == expected >= 0
        before = now
    assert total >= count


def test_a_shard_that_comes_to_a_node_counts_from_nothing_and_one_that_leaves_takes_nothing_away() -> None:
    before = {("chaos", 0): {"segments": 5}}
    assert grown(before, {("chaos", 1): {"segments": 2}}) == {"segments": 2}
    assert grown(before, {}) == {} and grown(before, before) == {}


class Storing(FakeCluster):
    """Each time it is asked b-data has had one more upload of translog that failed. ``silent``: who does not answer."""

    def __init__(self) -> None:
        super().__init__("3az-remote-store")
        self.asked: list[tuple[str, str]] = []
        self.silent: set[str] = set()
        self.up = 3_600_000

    def answer(self, node: str, method: str, path: str, body: Any) -> tuple[int, Any]:
        if path == UPTIME:
            return 200, {"nodes": {"x": {"jvm": {"uptime_in_millis": self.up}}}}
        if not path.startswith(("/_remotestore/stats", REQUESTS)):
            return super().answer(node, method, path, body)
        self.asked.append((node, path))
        if node in self.silent:
            return 503, {}
        if path == REQUESTS:
            return 200, REPOSITORIES
        found = copy.deepcopy(ANSWER)
        failed = PRIMARY["translog"]["upload"]["total_uploads"] | {"failed": self.asked.count((node, path))}
        primary = found["indices"]["chaos"]["shards"]["1"][0]
        primary["translog"] = {"upload": {"total_uploads": failed}}
        primary["segment"]["upload"]["local_refresh_timestamp_in_millis"] = round(time.time() * 1000)
        return 200, found


def test_every_data_node_is_asked_about_the_loads_indices_and_what_grew_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PERIOD_SECONDS", 0.1)
    cluster = Storing()
    cluster.silent.add("c-data")
    watch = module.Uploads(cluster, lambda: ("chaos", "two"), tmp_path / "history" / FILE, pytest.fail)  # type: ignore[arg-type]
    watch.start()
    assert wait_until(lambda: len([1 for node, path in cluster.asked if "stats" in path and node == "b-data"]) > 5, 30)
    watch.edge()
    watch.stop()
    watch.stop()
    assert {path for _, path in cluster.asked} == {uploads_path(("chaos", "two")), REQUESTS}
    assert {node for node, _ in cluster.asked} == {"a-data", "b-data", "c-data"}
    lines = [json.loads(line) for line in (tmp_path / "history" / FILE).read_text().splitlines()]
    assert {line["node"] for line in lines} == {"a-data", "b-data"}
    mine = [line for line in lines if line["node"] == "b-data" and line["kind"] == UPLOADS]
    assert mine[0]["seconds"] == 0 and "grew" not in mine[0]
    assert all(line["seconds"] > 0 and line["grew"] == {"translog": 1} for line in mine[1:])
    assert all(line["lag"] == 1.25 and line["primaries"] == 2 for line in mine)
    asked = [line for line in lines if line["kind"] == ASKED]
    assert asked and all("grew" not in line for line in asked)


@pytest.mark.parametrize(
    ("seconds", "up", "grew"),
    [(20.0, 8_000, 5), (20.0, 90_000, 2), (20.0, None, 2), (1.0, 0, 2)],
    ids=["another process", "the same", "it does not say", "answered a second ago"],
)
def test_a_process_that_began_since_counts_from_nothing_although_it_counts_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, up: int | None, grew: int
) -> None:
    """A node has counted 3 when it is last heard, and 5 when it is heard again."""
    cluster, now = Storing(), [100.0]
    cluster.up = up  # type: ignore[assignment]
    watch = module.Uploads(cluster, lambda: ("chaos",), tmp_path / FILE, pytest.fail)  # type: ignore[arg-type]
    watch._events = module.EventWriter(tmp_path / FILE, pytest.fail)
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    watch._write(UPLOADS, "b-data", {("chaos", 1): {"translog": 3}})
    now[0] += seconds
    watch._write(UPLOADS, "b-data", {("chaos", 1): {"translog": 5}})
    watch._events.close()
    first, second = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    assert "grew" not in first and (second["grew"], second["seconds"]) == ({"translog": grew}, seconds)


def test_without_an_index_in_a_store_no_node_is_asked(tmp_path: Path) -> None:
    cluster = Storing()
    watch = module.Uploads(cluster, tuple, tmp_path / "history" / FILE, pytest.fail)  # type: ignore[arg-type]
    watch.stop()
    watch.start()
    watch.edge()
    watch.stop()
    assert cluster.asked == [] and not (tmp_path / "history" / FILE).exists()


# -- judging -----------------------------------------------------------------------------------------


def run(lines: Any) -> tuple[History, Record]:
    history = synthetic.observed(FILE, lines)
    return history, Record(history)


def test_the_primary_that_is_furthest_ahead_decides_its_phase_alone() -> None:
    def lines(start: int, end: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = module._lines(0.4)(start, end)
        found[6 * 40] |= {"lag": 31.5, "shard": 2}
        return found

    _, record = run(lines)
    (where,) = [span for span in record.spans if span.holds(record.spans[0].start + 40 * SECOND)]
    worst = module.lag(record, where)
    assert worst.value == 31.5 and worst.bound is Bound.EXACT
    assert worst.says.startswith("shard 2 of chaos on a-data")
    assert {module.lag(record, span).value for span in record.spans if span != where} == {0.4}


def test_a_node_that_is_not_heard_may_be_further_behind_and_hide_failures() -> None:
    def lines(start: int, end: int) -> list[dict[str, Any]]:
        return [line for line in module._lines(0.4)(start, end) if line["node"] != "c-data"]

    _, record = run(lines)
    found, count = module.lag(record, record.spans[1]), module.failures(record, record.spans[1])
    assert (found.value, found.bound) == (0.4, Bound.AT_LEAST) and "c-data" in found.says
    assert count.value is None and "c-data" in count.says  # none seen proves nothing
    _, record = run(lambda start, end: [])
    assert module.lag(record, record.spans[1]).value is None and module.table(record) == {}


def test_what_grew_over_the_begin_of_a_phase_is_of_neither_for_sure() -> None:
    def lines(start: int, end: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = module._lines(0.4)(start, end)
        first = next(line for line in found if line["kind"] == UPLOADS and line["t"] > at)
        first |= {"seconds": 20.0, "grew": {"segments": 7}}
        return found

    at = Record(synthetic.slow_zone().history()).spans[1].start
    _, record = run(lines)
    measure = module.failures(record, record.spans[1])
    assert measure.value is None and "7 more may be of the phase before" in measure.says
    assert module.failures(record, record.spans[0]).value == 0


def test_counts_are_those_of_the_phase() -> None:
    _, record = run(module._lines(failed=1, refused=2, again=3))
    span = record.spans[1]
    looks = len([look for look in module.looks(record, UPLOADS) if span.holds(look.t)])
    assert module.failures(record, span).value == looks
    assert module.rejected(record, span).value == 2 * looks and module.retried(record, span).value == 3 * looks


def test_that_a_folders_clients_count_nothing_is_no_proof_that_nothing_was_tried_again() -> None:
    def of_a_folder(start: int, end: int) -> list[dict[str, Any]]:
        return [{**line, "grew": {}} if line["kind"] == ASKED else line for line in module._lines()(start, end)]

    _, record = run(of_a_folder)
    measure = module.retried(record, record.spans[1])
    assert measure.value is None and "object store alone" in measure.says
    assert module.failures(record, record.spans[1]).value == 0  # uploads are counted of any store
    _, record = run(module._lines())
    assert module.retried(record, record.spans[1]).value == 0


@pytest.mark.parametrize("line", [{"kind": UPLOADS}, {"kind": UPLOADS, "node": "a-data", "seconds": None}])
def test_a_line_that_was_cut_spoils_no_page(line: dict[str, Any]) -> None:
    history, _ = run(lambda start, end: [*module._lines()(start, end), {"t": start + SECOND, **line}])
    assert "How far the store was behind" in Page(render_html(history, evaluate(history).to_json())).words


def test_the_report_draws_it_and_a_run_without_it_has_no_such_section() -> None:
    history, _ = run(module._lines(2.5, failed=1))
    words = Page(render_html(history, evaluate(history).to_json())).words
    assert "Lag of the store behind the primary that is furthest ahead" in words and "2.5 s" in words
    assert "_remotestore/stats" in words
    bare = synthetic.slow_zone().history()
    assert "remote_uploads" not in evaluate(bare).tables
    assert "How far the store was behind" not in Page(render_html(bare, evaluate(bare).to_json())).words


def test_a_primary_that_no_node_reports_may_be_behind() -> None:
    """All data nodes answer, and one of the primaries is on none of them in the second phase."""
    _, sound = run(module._lines(0.4))
    span = sound.spans[1]

    def red(start: int, end: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = module._lines(0.4)(start, end)
        for line in found:
            if line["kind"] == module.UPLOADS and line["node"] == "c-data" and span.holds(line["t"]):
                line |= {"primaries": 0, "lag": 0.0}
        return found

    _, record = run(red)
    found = module.lag(record, record.spans[1])
    assert found.bound is Bound.AT_LEAST and "of all primaries" in found.says
    assert module.lag(record, record.spans[0]).bound is Bound.EXACT


def test_without_any_primary_nothing_is_known_of_lags() -> None:
    def none(start: int, end: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = module._lines(0.0)(start, end)
        return [line | ({"primaries": 0} if line["kind"] == module.UPLOADS else {}) for line in found]

    _, record = run(none)
    assert module.lag(record, record.spans[1]).bound is Bound.AT_LEAST


def test_an_answer_in_which_shards_failed_is_none() -> None:
    with pytest.raises(ValueError, match="some shards"):
        uploads({"_shards": {"total": 2, "successful": 1, "failed": 1}, "indices": {}}, 9.9)
