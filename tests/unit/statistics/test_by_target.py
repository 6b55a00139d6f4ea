"""What is proven on clusters that exist: made-up runs there, in folders and in game days' records."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import synthetic
from unit.statistics.test_commands import Cli, checked, cli  # noqa: F401

from chaos.base.errors import Exit
from chaos.checks.reasons import Outcome
from chaos.gamedays.record import FILE, Record
from chaos.statistics import facts
from chaos.statistics.by_target import OnRecord, Standing, Targets, evaluate

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
VALID = timedelta(days=90)
READS = "read.good"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENSEARCH_CHAOS_CACHE", str(tmp_path / "cache"))


Made = Callable[..., Path]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Writes a run that began so many days before now, on a cluster; ``cluster`` None: on a lab."""

    def make(
        days: float,
        cluster: str | None = "staging",
        *,
        identity: str = "0123456789abcdef",
        story: Callable[[], synthetic.Story] = synthetic.slow_zone,
        late: float = 0.0,
        into: Path | None = None,
        now: datetime = NOW,
        known: bool = False,
    ) -> Path:
        made = story()
        if late:
            made.chapters[1].read = synthetic.healthy(late=late)
        if known:
            made.expect = [{**each, "known_weakness": "it always was"} for each in made.expect]
        begin = now - timedelta(days=days)
        run = made.write((into or tmp_path / "runs") / f"run-{begin:%Y%m%dT%H%M%S}-{cluster}-{identity[:4]}")
        plan = json.loads((run / "plan.json").read_text())
        plan["started"] = begin.isoformat()
        if cluster is not None:
            lab = plan.get("lab") or {}
            plan["lab"] = {**lab, "kind": "existing", "id": f"existing-{cluster}", "cluster": identity}
        (run / "plan.json").write_text(json.dumps(plan))
        return run

    return make


def judged(*runs: Path, day: str | None = None, owner: str | None = None) -> Targets:
    return evaluate([OnRecord(facts.of_folder(run), day, owner) for run in runs], NOW, VALID)


def reads(found: Targets) -> Any:
    """The row of reads in the slow phase, which the made-up run asks for."""
    (row,) = [row for row in found.rows if row.promise.startswith(READS) and "slow" in row.promise]
    return row


def test_a_promise_is_proven_for_a_while_and_then_expired(made: Made) -> None:
    for days, standing, outcome in ((10, Standing.PROVEN, Outcome.PASS), (100, Standing.EXPIRED, Outcome.INCONCLUSIVE)):
        found = judged(made(days))
        row = reads(found)
        assert (row.standing, found.outcome) == (standing, outcome)
        assert row.last_proven == NOW - timedelta(days=days) and row.expires == row.last_proven + VALID
        assert row.cluster == "staging" and row.last == "held" and row.runs == 1 and row.owner is None


def test_the_newest_run_that_decides_counts(made: Made) -> None:
    held, missed = made(20), made(5, late=0.5)
    found = judged(missed, held)
    row = reads(found)
    assert (row.standing, found.outcome) == (Standing.BROKEN, Outcome.WEAKNESS)
    assert row.last_proven == NOW - timedelta(days=20) and row.last.startswith("missed") and row.runs == 2
    again = judged(missed, held, made(1))
    assert reads(again).standing is Standing.PROVEN and reads(again).last_proven == NOW - timedelta(days=1)


def test_what_is_known_to_be_broken_is_no_weakness_and_never_proven(made: Made) -> None:
    row = reads(judged(made(5, late=0.5, known=True)))
    assert row.standing is Standing.KNOWN and row.last_proven is None and row.expires is None


def test_what_is_broken_as_the_file_allows_is_never_proven(made: Made) -> None:
    found = facts.of_folder(made(5))
    (item,) = [each for each in found.by_id.values() if each["title"].startswith(READS) and "slow" in each["title"]]
    item["counts_as"] = "relaxed"
    row = reads(evaluate([OnRecord(found)], NOW, VALID))
    assert row.standing is Standing.KNOWN and row.last_proven is None and row.last.startswith("missed, as known: ")


def test_a_run_that_proves_nothing_is_passed_over_only_for_its_instruments(made: Made) -> None:
    held, unproven = made(20), made(5, story=synthetic.unproven)
    found = facts.of_folder(unproven)
    assert found.excluded is not None and found.hides
    row = reads(judged(held, unproven))
    assert row.standing is Standing.OPEN and row.last_proven == NOW - timedelta(days=20)
    assert row.last.startswith("not proven: ")
    assert reads(judged(unproven)).standing is Standing.NEVER

    behind = facts.of_folder(made(2))
    late = {"what": "schedule lag", "measured": "60 ms", "limit": "at most 50 ms", "ok": False}
    behind = replace(behind, findings={**behind.findings, "validity": {"checks": [late]}})
    assert behind.instruments and not behind.hides
    row = reads(evaluate([OnRecord(facts.of_folder(held)), OnRecord(behind)], NOW, VALID))
    assert row.standing is Standing.PROVEN and row.last_proven == NOW - timedelta(days=20) and row.runs == 2


def test_a_lost_write_is_broken_whatever_the_instruments_were_worth(made: Made) -> None:
    """As in a series: the run itself is a weakness, and nothing passes over it."""
    held, lost = facts.of_folder(made(20)), facts.of_folder(made(2, story=synthetic.lost_writes))
    assert lost.outcome == "weakness"
    late = {"what": "schedule lag", "measured": "60 ms", "limit": "at most 50 ms", "ok": False}
    lost = replace(lost, findings={**lost.findings, "validity": {"checks": [late]}})
    assert lost.instruments and lost.excluded is not None
    found = evaluate([OnRecord(held), OnRecord(lost)], NOW, VALID)
    missed = [row for row in found.rows if row.standing is Standing.BROKEN]
    assert found.outcome is Outcome.WEAKNESS and any("acknowledged" in row.promise for row in missed)
    assert all("schedule lag" not in row.last for row in missed)


def test_another_cluster_of_the_same_name_proves_nothing_of_this_one(made: Made) -> None:
    old, new = made(20, identity="a" * 16), made(5, identity="b" * 16, late=0.5)
    found = judged(old, new)
    standings = {
        row.identity: row.standing for row in found.rows if row.promise.startswith(READS) and "slow" in row.promise
    }
    assert standings == {"a" * 16: Standing.PROVEN, "b" * 16: Standing.BROKEN}
    assert "on 2 clusters" in found.sentence


def test_runs_on_labs_and_from_the_future_are_left_out(made: Made) -> None:
    found = judged(made(5, None), made(-3))
    assert found.rows == () and found.outcome is Outcome.INCONCLUSIVE
    assert [why for _, why in found.left_out] == [
        "it was on a lab",
        "it began at 2026-12-01T12:00:00Z, which is yet to come",
    ]
    assert found.sentence == "No run on a cluster that exists is on record here."


def test_the_worst_comes_first(made: Made) -> None:
    rows = judged(made(5, late=0.5)).rows
    order = [*Standing]
    assert [row.standing for row in rows] == sorted((row.standing for row in rows), key=order.index)
    assert rows[0].standing is Standing.BROKEN and rows[-1].standing is Standing.PROVEN


def a_day(folder: Path, owner: str, drill: str = "drilled") -> Path:
    with Record(folder / FILE) as record:
        record.add("day.asked", gameday="tuesday", owner=owner, target="staging.yaml")
        record.add("drill", ok=True, folder=str(folder / "runs" / drill))
        record.add("day.end", outcome="pass")
    return folder


def test_the_command_says_who_answers(cli: Cli, made: Made, tmp_path: Path) -> None:  # noqa: F811
    now = datetime.now(UTC)
    day = a_day(tmp_path / "days" / "one", "team-search <search@example.com>")
    made(3, into=day / "runs", now=now)
    made(4, into=day / "runs", now=now).rename(day / "runs" / "drilled")
    made(200, "other", into=tmp_path / "days" / "loose", now=now)
    page = tmp_path / "targets.html"
    code, out, _ = cli("scorecard", "--by", "target", tmp_path / "days", "-o", page)
    assert code == Exit.INCONCLUSIVE  # one has expired
    expired = (now - timedelta(days=110)).date()
    assert f"expired: other: zone-network-slowdown: {READS}" in out
    assert f"expired after {expired}; owner not on record" in out
    data = json.loads(page.with_suffix(".json").read_text())
    owners = {row["cluster"]: row["owner"] for row in data["rows"]}
    assert owners == {"staging": "team-search <search@example.com>", "other": None}
    assert {row["day"] for row in data["rows"]} == {"tuesday", None} and data["valid_days"] == 90
    assert data["left_out"] == [
        {"what": "drilled", "why": "it was the drill of a game day, which is stopped on purpose"}
    ]
    checked(page)
    html = page.read_text()
    assert "team-search &lt;search@example.com&gt;" in html and "tuesday" in html and "staging" in html
    code, _, _ = cli("scorecard", "--by", "target", tmp_path / "days", "-o", page, "--valid-days", "365")
    assert code == Exit.PASS


def test_a_record_that_was_changed_names_no_owner(cli: Cli, made: Made, tmp_path: Path) -> None:  # noqa: F811
    now = datetime.now(UTC)
    day = a_day(tmp_path / "days" / "one", "team-search")
    made(3, into=day / "runs", now=now)
    file = day / FILE
    file.write_text(file.read_text().replace("team-search", "team-others"))
    page = tmp_path / "targets.html"
    assert cli("scorecard", "--by", "target", day, "-o", page)[0] == Exit.PASS
    data = json.loads(page.with_suffix(".json").read_text())
    assert {row["owner"] for row in data["rows"]} == {None}
    assert [each["what"] for each in data["left_out"]] == [str(file)]
    assert "its owner is not taken from it" in data["left_out"][0]["why"]


def test_folders_without_runs_are_refused(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    code, _, err = cli("scorecard", "--by", "target", tmp_path, "-o", tmp_path / "page.html")
    assert code == Exit.USAGE and "holds none" in err and not (tmp_path / "page.html").exists()
