"""An observation: what is asked, what is written down, what it comes to."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as some

from chaos.base.errors import Exit, InvalidInput
from chaos.commands.observing import RECORD, concluded
from chaos.programs.observation import watch
from chaos.programs.observation.summary import lines_of, reads, summary
from chaos.programs.observation.watch import ANOTHER, FINISHED, STOPPED, Watch, Way
from chaos.report import observation

ABOUT = {"target": "staging", "cluster": "c", "version": "3.8.0"}
UUID = "wIIGSa4PQIyKYzcvn_m1Ag"


class Cluster:
    """Answers as one does; ``change`` says from which second on what is different."""

    def __init__(self, clock: Clock, *changes: tuple[float, dict[str, Any]]) -> None:
        self.clock, self.changes = clock, changes
        self.asked: list[str] = []

    def __call__(self, path: str) -> tuple[int, Any]:
        self.asked.append(path)
        now: dict[str, Any] = {"uuid": UUID, "leader": "1", "nodes": ["a", "b", "c"], "status": "green", "moving": 0}
        for since, change in self.changes:
            if self.clock.now >= since:
                now |= change
        if "silent" in now:
            raise urllib3.exceptions.HTTPError("timed out")
        if path.startswith("/_nodes/stats"):
            spent = int(self.clock.now)
            node = {
                "name": "a",
                "indices": {"search": {"query_total": 50 * spent, "query_time_in_millis": 100 * spent}},
                "thread_pool": {"search": {"rejected": now.get("rejected", 0)}},
                "os": {"cpu": {"percent": 12}},
            }
            return 200, {"nodes": {"1": node}}
        if path.startswith("/_cluster/state"):
            named = {str(n): {"name": name} for n, name in enumerate(now["nodes"], 1)}
            return 200, {"cluster_uuid": now["uuid"], "cluster_manager_node": now["leader"], "nodes": named}
        return 200, {
            "status": now["status"],
            "relocating_shards": now["moving"],
            "initializing_shards": 0,
            "unassigned_shards": 0,
            "number_of_pending_tasks": 0,
        }


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(watch.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(watch.time, "sleep", self.pass_)

    def pass_(self, seconds: float) -> None:
        self.now += max(seconds, 0.001)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def observed(cluster: Cluster, folder: Path, seconds: float = 40.0, **options: Any) -> tuple[str, dict[str, Any]]:
    how = Watch([Way("http://x:9200", cluster)], UUID, folder / "o.jsonl", about=ABOUT, **options).run(seconds)
    return how, summary(lines_of(folder / "o.jsonl"))


def test_a_calm_cluster_is_green_for_all_the_time(clock: Clock, tmp_path: Path) -> None:
    cluster = Cluster(clock)
    how, found = observed(cluster, tmp_path)
    assert how == FINISHED and found["enough"] and found["share"] == 1.0 and found["happenings"] == []
    assert found["headline"] == "Green for all 40 s; nobody left" and found["seconds"] == {"green": 40.0}
    assert [rate["searches"] for rate in found["rates"]] == [pytest.approx(50, abs=6)] * 3
    assert found["rates"][0]["search_ms"] == 2.0 and found["rates"][0]["cpu"] == 12
    assert all("local=true" in path for path in cluster.asked if path.startswith("/_cluster"))


def test_what_happens_is_told_with_its_second(clock: Clock, tmp_path: Path) -> None:
    cluster = Cluster(
        clock,
        (5, {"nodes": ["a", "b"], "status": "yellow", "leader": "2"}),
        (15, {"nodes": ["a", "b", "c"], "moving": 2, "rejected": 30}),
        (25, {"status": "green", "moving": 0, "leader": None}),
        (30, {"leader": "2"}),
    )
    _, found = observed(cluster, tmp_path)
    said = [(round(each["t"]), each["says"]) for each in found["happenings"]]
    assert (5, "yellow, after green") in said and (5, "c left") in said and (15, "c joined") in said
    assert (5, "b became cluster manager, after a") in said and (15, "2 shards move") in said
    assert (25, "no leader, after yellow") in said and (30, "green, after no leader") in said
    assert any("30 searches of the nodes' thread pools were rejected" in words for _, words in said)
    assert found["seconds"] == pytest.approx({"green": 15, "yellow": 20, "no leader": 5}, abs=1.1)
    assert "a node left once" in found["headline"] and "1 new cluster manager" in found["headline"]


def test_where_too_little_was_answered_nothing_is_concluded(clock: Clock, tmp_path: Path) -> None:
    _, found = observed(Cluster(clock, (10, {"silent": True}), (20, {"uuid": UUID})), tmp_path)
    assert not found["enough"] and found["headline"].startswith("Too little was seen")
    assert found["seconds"]["no answer"] == pytest.approx(30, abs=1.1)


def test_a_cluster_that_is_exchanged_ends_it(clock: Clock, tmp_path: Path) -> None:
    how, found = observed(Cluster(clock, (10, {"uuid": "other"})), tmp_path)
    assert how == ANOTHER and found["reason"] == ANOTHER and "cluster_uuid other answers" in found["says"]
    assert found["lasted"] == pytest.approx(10, abs=1.1)


def test_a_stop_ends_it_and_what_was_seen_is_kept(clock: Clock, tmp_path: Path) -> None:
    how, found = observed(Cluster(clock), tmp_path, stopped=lambda: clock.now > 12)
    assert how == STOPPED and found["lasted"] == pytest.approx(12, abs=1.1) and found["enough"]


def test_a_record_that_was_cut_off_says_so(clock: Clock, tmp_path: Path) -> None:
    observed(Cluster(clock), tmp_path)
    text = (tmp_path / "o.jsonl").read_text()
    (tmp_path / "o.jsonl").write_text(text[: len(text) // 2])
    found = summary(lines_of(tmp_path / "o.jsonl"))
    assert found["reason"] == "killed" and "ended before its time" in found["says"]


def test_a_folder_is_concluded_again_from_what_is_in_it(
    clock: Clock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    observed(Cluster(clock), tmp_path)
    (tmp_path / "o.jsonl").rename(tmp_path / RECORD)
    assert concluded(tmp_path) is Exit.PASS and "staging: Green for all 40 s" in capsys.readouterr().out
    text = (tmp_path / RECORD).read_text().splitlines()
    (tmp_path / RECORD).write_text("\n".join(text[:-1]))  # as after a SIGKILL
    assert concluded(tmp_path) is Exit.ERROR and "its process ended before its time" in capsys.readouterr().out
    (tmp_path / RECORD).write_text("")
    with pytest.raises(InvalidInput, match="does not say what was observed"):
        concluded(tmp_path)


def test_nothing_but_gets_can_be_sent() -> None:
    assert "request" not in vars(Watch) and Way.__annotations__.keys() == {"address", "get"}


@given(some.lists(some.sampled_from(["green", "yellow", "red", "silent", "lost"]), max_size=30))
def test_every_second_has_one_state(states: list[str]) -> None:
    lines: list[dict[str, Any]] = [{"kind": "begin", "t": 0.0, "wall": 0.0, "seconds": 30.0, "period": 1.0}]
    for t, state in enumerate(states):
        found = {"ok": state != "silent", "status": state, "leader": None if state == "lost" else "a", "relocating": 0}
        lines.append({"kind": "sample", "t": t + 0.1, "asked": float(t), "nodes": 1, **found})
    lines.append({"kind": "end", "t": float(len(states)), "reason": "finished"})
    found = summary(lines)
    assert sum(found["seconds"].values()) == pytest.approx(len(states))
    spans = found["spans"]
    assert all(a["to"] == b["from"] and a["state"] != b["state"] for a, b in itertools.pairwise(spans))


def arrivals(*rows: tuple[str, float, float]) -> pd.DataFrame:
    """(outcome, sent so many s late, answered so many s after it was due; 0: never)."""
    S = 1_000_000_000
    return pd.DataFrame(
        {
            "outcome": pd.Categorical([outcome for outcome, _, _ in rows]),
            "intended": [n * S for n in range(len(rows))],
            "start": [round((n + late) * S) for n, (_, late, _) in enumerate(rows)],
            "end": [round((n + took) * S) if took else 0 for n, (_, _, took) in enumerate(rows)],
            "latency_ms": [took * 1000 if took else float("nan") for _, _, took in rows],
        }
    )


def test_searches_are_counted_from_when_they_were_due_and_slow_is_not_good() -> None:
    found = reads(
        arrivals(*[("ok", 0.001, 0.02)] * 97, ("ok", 0.0, 1.5), ("partial", 0.0, 0.02), ("timeout", 0, 5)), 1.0
    )
    assert (found["scheduled"], found["good"], found["share"], found["doubt"]) == (100, 97, 0.97, None)
    assert found["outcomes"] == {"ok": 98, "partial": 1, "timeout": 1} and found["p50_ms"] == 20.0
    assert observation.said_of(found).startswith("97.0 % of 100 were good (whole, within 1 s)")


@pytest.mark.parametrize(
    ("rows", "doubt"),
    [
        ([], "none was sent"),
        ([("ok", 0.2, 0.3)] * 20, "sent up to 0.20 s late"),
        ([("ok", 0.0, 0.1)] * 20 + [("dropped", 0.0, 0.0)], "of 1 of them nobody knows"),
    ],
)
def test_searches_that_the_driver_could_not_send_well_do_not_count(rows: list[Any], doubt: str) -> None:
    found = reads(arrivals(*rows), 1.0)
    assert doubt in found["doubt"] and "they do not count" in observation.said_of(found)


def test_the_page_shows_hostile_names_as_text(clock: Clock, tmp_path: Path) -> None:
    evil = '<script>document.title="owned"</script>'
    _, found = observed(Cluster(clock, (5, {"nodes": ["a", "b", "c", evil]})), tmp_path)
    about = {"target": "staging", "cluster": evil, "version": "3.8.0"}
    page = observation.page(json.loads(json.dumps(found)), about, None, tmp_path / "report.html").read_text()
    assert "<script>document" not in page and "joined" in page and "Searches of shards per second" in page
    empty = summary([])
    assert "0% of the seconds" in observation.page(empty, about, None, tmp_path / "empty.html").read_text()
