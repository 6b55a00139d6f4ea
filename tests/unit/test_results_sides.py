"""An experiment with sides is recorded as one row of shifts, goes on where it was cut off, fills pages of docs."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import asked
import claims
import pytest
import results
import synthetic
from claims import ClaimError
from shipped import SIDES

from chaos.campaign import sides as making
from chaos.definitions.varied import Varied
from chaos.opensearch import protections as catalogue
from chaos.registry import load_experiment
from chaos.run import plan
from chaos.statistics.sides import SideRun

WHAT = "experiments/late.yaml"
FILE = """\
apiVersion: opensearch-chaos/v1
name: late
description: >-
  Advice: answer sooner (claim in-2), if you can. Decided by reads. Expected: better.
topology: 3az-standby
load:
  read:  {rate: 50/s, good: ok within 100ms}
  write: {rate: 50/s, good: ok within 100ms}
phases:
  healthy: {for: 20s}
expect:
  - {phase: all, read.good: ">= 99%"}
vary:
  sides:
    default: {}
    late: {topology: {settings: {index: {refresh_interval: 30s}}}}
  times: TIMES
  decide: [read.good, read.p98]
"""


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results, "RESULTS", tmp_path / "kept")
    (tmp_path / "reports").mkdir()
    return tmp_path


def made(root: Path, times: int, runs: int) -> Path:
    """The folder of an experiment with sides, of whose ``times`` runs a side ``runs`` in all were made; those of the
    second side have late answers."""
    file = root / WHAT
    file.parent.mkdir(exist_ok=True)
    file.write_text(FILE.replace("TIMES", str(times)))
    experiment = load_experiment(file, sides=True)
    assert isinstance(experiment, Varied)
    folder, written = making.begin(experiment, root / "reports", 1)
    for number, name in making.order(experiment.names, times, 1)[:runs]:
        story = synthetic.STORIES["slow_zone"]()
        story.seed = 1 + number
        if name == "late":
            story.chapters[1].read = synthetic.healthy(late=0.05)
        run = story.write(folder / name / f"run-{number}")
        data = json.loads((run / "plan.json").read_text())
        (run / "plan.json").write_text(json.dumps(data | {"hash": plan.digest(experiment.side(name).experiment)}))
        written.runs.append(SideRun(name, number, run.name))
        written.write(folder)
    return folder


def row(folder: Path, **more: Any) -> dict[str, Any]:
    found = results.compared(folder)
    begun = {"series": "sides", "what": WHAT, "code": "1", "commit": "abc", "began": "2026-11-01T00:00:00+00:00"}
    machine = {"busy": 0.1, "processors": 2, "memory_gib": 24}
    return {**begun, "machine": machine, "ended": "t", "exit_code": 1, "seconds": 9, **found, **more}


def test_a_row_has_how_far_each_metric_was_moved(root: Path) -> None:
    found = results.compared(made(root, 4, 8))
    assert (found["outcome"], found["baseline"], found["times"]) == ("fail", "default", 4)
    assert found["counted"] == {"default": 4, "late": 4} and {len(each) for each in found["runs"].values()} == {4}
    assert found["differences"] == {"late": ["topology.settings.index.refresh_interval: not set → 30s"]}
    kept = {each["metric"]: each for each in found["metrics"]}
    worse = kept["read.good@slow"]
    assert (worse["side"], worse["word"], worse["decides"], worse["unit"]) == ("late", "worse", True, "share")
    assert worse["interval"]["high"] < -0.01 and worse["moved"].startswith("-") and "points [" in worse["moved"]
    assert kept["read.p98"]["word"] == "open", "no run measured it"
    assert "read.p50@slow" not in kept, "it decides nothing, and is no cost"
    assert json.loads(json.dumps(found)) == found


def test_a_row_of_versions_names_that_of_each_side(root: Path) -> None:
    folder = made(root, 4, 8)
    assert "opensearch" not in results.compared(folder), "one version, which stands among the versions"
    for file in (folder / "late").glob("*/plan.json"):
        data = json.loads(file.read_text())
        file.write_text(json.dumps(data | {"versions": data["versions"] | {"opensearch": "3.9.0"}}))
    found = row(folder)
    first = found["versions"]["opensearch"]
    assert found["opensearch"] == f"{first} in default and 3.9.0 in late"
    what = "experiments/ingestion/ids.yaml"
    lines = list(asked.figures(asked.ROOT / "experiments" / "ingestion", {what: found}))
    assert any(f"level 95 %; OpenSearch {first} in default and 3.9.0 in late" in line for line in lines)


def test_runs_that_are_missing_leave_it_without_an_outcome(root: Path) -> None:
    assert results.compared(made(root, 4, 7))["outcome"] == "cut off"


def test_it_is_recorded_and_goes_on_where_it_was_cut_off(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def chaos(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        if "--resume" not in command:
            made(root, 4, 3)
        else:
            folder = Path(command[command.index("--resume") + 1])
            shutil.rmtree(folder)
            made(root, 4, 8).rename(folder)
        return subprocess.CompletedProcess(command, 4 if "--resume" not in command else 3, "", "")

    monkeypatch.setattr(results, "refuse_uncommitted", lambda *_: None)
    monkeypatch.setattr(results, "git", lambda *arguments: "abc\n")
    monkeypatch.setattr(results, "code", lambda series, what: "1")
    monkeypatch.setattr(subprocess, "run", chaos)
    results.record("sides", 1, 60, (WHAT,))
    (first,) = results.lines("sides")
    assert (first["outcome"], "ended" in first, first["exit_code"]) == ("cut off", False, 4)
    assert list(results.wanted("sides", 1, results.lines("sides"), lambda what: "1")) == [WHAT]
    results.keep(first | {"began": "2026-11-01T00:00:00+00:00"})  # a row is kept by the second that it began in
    results.file_of(first).unlink()
    results.record("sides", 1, 60, (WHAT,))
    assert "--resume" in asked[1] and Path(asked[1][-1]).name == first["run"]
    assert [line["outcome"] for line in results.rows("sides")] == ["fail"]
    assert list(results.wanted("sides", 1, results.lines("sides"), lambda what: "1")) == []
    assert list(results.wanted("sides", 1, results.lines("sides"), lambda what: "2")) == [WHAT]


def test_no_other_series_and_no_older_one_is_gone_on_with(root: Path) -> None:
    folder = made(root, 2, 1)
    begun = {"what": WHAT, "code": "1", "began": "2026-11-01T00:00:00+00:00"}
    reports = root / "reports"
    assert results.unfinished(reports, WHAT, [begun], "1") == folder
    assert results.unfinished(reports, WHAT, [begun], "2") is None, "other code"
    assert results.unfinished(reports, WHAT, [begun | {"ended": "t"}], "1") is None
    assert results.unfinished(reports, WHAT, [begun | {"began": "2099-01-01T00:00:00+00:00"}], "1") is None, "older"
    assert results.unfinished(reports, "experiments/other.yaml", [begun], "1") is None
    (folder / "sides.json").write_text((made(root, 2, 4) / "sides.json").read_text())
    assert results.unfinished(reports, WHAT, [begun], "1") is None, "all runs are there"


def test_what_has_sides_is_in_its_own_series_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "ROOT", asked.ROOT)
    each = set(results.wanted("each", 0, [], lambda what: "1"))
    sides = set(results.wanted("sides", 0, [], lambda what: "1"))
    assert sides == {str(path.relative_to(asked.ROOT)) for path in SIDES}
    assert not each & sides and "experiments/no-fault.yaml" in each


def test_the_page_of_results_names_what_a_comparison_came_to(root: Path) -> None:
    results.keep(row(made(root, 4, 8)))
    (line,) = [line for line in results.section("sides") if line.startswith("| late |")]
    assert "| a side is worse | 9 |" in line
    assert results.called({"series": "sides", "outcome": "pass", "exit_code": 6}) == "no side is worse; not clean"


# -- answers to claims -------------------------------------------------------------------------------


def test_an_answer_by_sides_rests_on_metrics_that_are_known(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "ROOT", root)
    folder = made(root, 4, 8)
    with pytest.raises(ClaimError, match="no run of it is recorded"):
        claims.evidence(WHAT, ("read.good",))
    results.keep(row(folder))
    found = claims.evidence(WHAT, ("read.good@slow",))
    assert found.command == f"opensearch-chaos run {WHAT}" and found.outcome == "a side is worse"
    for rests, says in ((("read.p98",), "rests on read.p98"), ((), "rests on no metric")):
        with pytest.raises(ClaimError, match=says):
            claims.evidence(WHAT, rests)
    results.keep(row(folder, outcome="cut off"))
    with pytest.raises(ClaimError, match="ended with cut off"):
        claims.evidence(WHAT, ("read.good@slow",))


# -- docs/protections.md ------------------------------------------------------------------------------


def test_the_table_of_protections_is_made_of_the_files_and_the_recorded_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "ROOT", asked.ROOT)
    monkeypatch.setattr(results, "RESULTS", asked.ROOT / "reports" / "results")
    text = asked.PROTECTIONS.read_text()
    assert text == asked.protections_page(text), "run: python benchmarks/asked.py"


def test_a_protection_without_a_whole_series_is_not_yet_measured_and_one_with_it_has_its_word() -> None:
    what = "experiments/protections/indexing-pressure.yaml"
    found = {"word": "protects", "why": ["it acted in all 5 runs", "it let go"]}
    row = {"ended": "t", "outcome": "pass", "protection": found, "counted": {"off": 5, "on": 5}, "commit": "abc"}
    for recorded, says in (
        ({}, "not yet measured"),
        ({what: {**row, "outcome": "cut off"}}, "not yet measured"),
        ({what: {key: value for key, value in row.items() if key != "ended"}}, "not yet measured"),
        ({what: row}, "| **protects** | it acted in all 5 runs; it let go | 5 of off, 5 of on; commit abc |"),
    ):
        (line,) = [each for each in asked.protections(asked.PROTECTED, recorded) if what in each]
        assert says in line and ("protects**" in line) is (says[0] == "|")
        every = list(asked.every_protection(asked.PROTECTED, recorded, {}))
        (mine,) = [each for each in every if each.startswith("| **indexing pressure**")]
        assert (
            "indexing-pressure: **protects** | not measured |" if says[0] == "|" else "not yet measured |  |"
        ) in mine


def test_what_a_protection_cost_is_what_its_last_side_moved() -> None:
    file = asked.PROTECTED / "indexing-pressure.yaml"
    moved = [
        {"side": side, "metric": metric, "moved": f"+{n} %", "word": "worse"}
        for n, (side, metric) in enumerate(
            [("monitoring", "costs.processor"), ("on", "costs.processor"), ("on", "lookup.good@stuck")]
        )
    ]
    counted = {"off": 5, "monitoring": 5, "on": 5}
    row = {"ended": "t", "outcome": "pass", "protection": {"word": "protects", "why": []}, "counted": counted}
    row |= {"commit": "abc", "metrics": moved}
    what = str(file.relative_to(asked.ROOT))
    assert asked.cost(file, {what: row}) == "costs.processor +1 %, worse"
    assert asked.cost(file, {what: {**row, "outcome": "cut off"}}) == asked.cost(file, {}) == ""


def test_what_is_provoked_alone_acts_where_its_own_test_passed() -> None:
    row = {"ended": "t", "outcome": "red", "commit": "abc", "bad": {"test_of_another": "failure: no"}}
    row["passed"] = ["test_mine"]
    assert asked.acted("test_mine", {asked.ACT: row}) == "**acts and lets go**, provoked alone (commit abc)"
    assert "did not do what is said here (commit abc): failure: no" in asked.acted("test_of_another", {asked.ACT: row})
    for other in ("test_that_was_skipped", "test_that_is_newer_than_the_row"):
        assert asked.acted(other, {asked.ACT: row}) == "provoked alone: not run (commit abc)"
    for none in ({}, {**row, "outcome": "none"}, {**row, "outcome": "cut off"}, {"outcome": "green", "commit": "abc"}):
        assert asked.acted("test_mine", {asked.ACT: none}) == "provoked alone: not run yet"


def test_a_row_that_does_not_name_what_passed_says_so_of_all_tests_or_of_none() -> None:
    (test, *_), number = asked.written(), len(asked.written())
    before = {"ended": "t", "outcome": "green", "commit": "abc", "bad": {}, "known": 0, "items": number}
    assert "acts and lets go" in asked.acted(test, {asked.ACT: before})
    for change in (
        {"known": 1},  # one was skipped, and it is not known which
        {"items": number - 1},  # one is newer than the row
        {"items": 1, "outcome": "red", "bad": {"tests.cluster.test_protections_act": "error: collection failure"}},
    ):
        assert asked.acted(test, {asked.ACT: before | change}) == "provoked alone: not run (commit abc)", change
    assert asked.acted("test_of_no_file", {asked.ACT: before}) == "provoked alone: not run (commit abc)"


def test_each_test_that_provokes_a_protection_is_there_and_none_is_unnamed() -> None:
    assert asked.written() == {each.test for each in catalogue.EVERY if each.test}


def test_how_long_admission_control_is_inert_is_said_of_the_recorded_measurement_alone(tmp_path: Path) -> None:
    (line,) = asked.window(tmp_path / "none.json")
    assert "not yet measured" in line and "admission_window.py --record" in line
    came_back = {"first_search_s": 9.5, "searches": 214, "refused_s": 121.0, "counted": 1}
    beside = {"first_search_s": 150.0, "searches": 0, "refused_s": 150.0, "counted": 1}
    head = {"opensearch": "3.8.0", "topology": "1cm-3data", "commit": "abc"}
    (tmp_path / "w.json").write_text(json.dumps({**head, "came_back": came_back, "beside": beside}))
    first, second, last = asked.window(tmp_path / "w.json")
    assert first == "| killed and started again | 9.5 | 214 | 121.0 |" and "| 150.0 | 0 | 150.0 |" in second
    assert "3.8.0" in last and "abc" in last


def test_each_protection_of_the_catalogue_is_measured_by_an_experiment_or_says_why_not() -> None:
    for line in asked.every_protection(asked.PROTECTED, {}, {}):
        cells = [cell.strip() for cell in line.removeprefix("| ").removesuffix(" |").split(" | ")]
        assert len(cells) == len(asked.HEADS["catalogue"][1].strip("|").split("|")) and cells[-2], line


def test_each_experiment_on_a_protection_says_what_it_proves() -> None:
    for file in asked.files(asked.PROTECTED):
        assert asked.load(file).protection is not None, file


# -- pages that asked.py makes tables of -------------------------------------------------------------------------


@pytest.mark.parametrize("page", asked.PAGES, ids=lambda page: page.stem)
def test_the_committed_tables_are_made_of_the_files_and_the_recorded_runs(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "ROOT", asked.ROOT)
    monkeypatch.setattr(results, "RESULTS", asked.ROOT / "reports" / "results")
    text = page.read_text()
    assert text == asked.page(text, asked.PAGES[page]), "run: python benchmarks/asked.py"


@pytest.mark.parametrize(
    ("folder", "shipped"),
    [(folder, [path for path in SIDES if folder in path.parents]) for folder in asked.PAGES.values()],
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
def test_every_experiment_is_in_both_tables_and_those_without_a_row_say_so(
    folder: Path, shipped: list[Path], root: Path
) -> None:
    files = asked.files(folder)
    names = [path.stem for path in files]
    assert names and sorted(names) == sorted(path.stem for path in shipped)
    lines = list(asked.advices(folder))
    assert [
        f"`opensearch-chaos run {path.relative_to(asked.ROOT)}`" in line
        for path, line in zip(files, lines, strict=True)
    ] == [True] * len(names)
    assert list(asked.figures(folder, {})) == [f"| {name} | not yet measured |  |  |  |  |  |" for name in names]
    what = str(files[0].relative_to(asked.ROOT))
    found = row(made(root, 4, 8))
    lines = list(asked.figures(folder, {what: found}))
    assert lines[0].startswith(f"| {names[0]} | late | **read.good@")
    assert any("**read.good@slow** | 100 % |" in line and line.endswith("| worse |") for line in lines)
    assert "|  | runs | of 4 a side count: 4 of default, 4 of late; commit abc, level 95 % |  |  |  |  |" in lines
    cut_off = {key: value for key, value in found.items() if key != "ended"}
    assert next(iter(asked.figures(folder, {what: cut_off}))) == f"| {names[0]} | not yet measured |  |  |  |  |  |"
