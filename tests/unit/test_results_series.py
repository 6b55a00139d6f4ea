"""Rows of docs/results.md that are made of a campaign's committed cells are those that `results.py record` makes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import campaignkit as kit
import pytest
import results
import series
from shipped import ROOT

from chaos.base.errors import Exit
from chaos.campaign import code
from chaos.campaign import worker as working
from chaos.campaign.child import Result
from chaos.campaign.records import Ended
from chaos.run import plan

WHAT = "experiments/no-fault.yaml"
SAMPLE = ROOT / "reports" / "sample"
TIMES = ("began", "ended", "seconds")


def git(folder: Path, *arguments: str) -> str:
    named = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *named, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository with one experiment and with nothing that is not committed; the suite is taken to lie in it."""
    root = tmp_path / "suite"
    for name in ("chaos", "experiments"):
        (root / name).mkdir(parents=True)
    (root / "chaos" / "cli.py").write_text("1\n")
    (root / ".gitignore").write_text("/reports/\n/build/\n/store/\n")
    shutil.copyfile(ROOT / WHAT, root / WHAT)
    shutil.copytree(ROOT / "topologies", root / "topologies")
    git(root, "init", "-q")
    commit(root)
    monkeypatch.setenv("OPENSEARCH_CHAOS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(root)
    monkeypatch.setattr(results, "ROOT", root)
    recorded_in(monkeypatch, root / "kept")
    checkout = code.checkout
    monkeypatch.setattr(code, "checkout", lambda: checkout(root / "chaos"))
    yield root


def commit(root: Path) -> None:
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "a state")


def recorded_in(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(results, "RESULTS", folder)


def run_of(cell_hash: str, seed: int, folder: Path) -> Path:
    """The folder of a whole run, as if it had been one of this definition and seed."""
    shutil.copytree(SAMPLE, folder)
    written = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps(written | {"hash": cell_hash, "seed": seed}))
    return folder


def record(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """`results.py record each`, whose command leaves a run's folder in place of making a run."""
    really = subprocess.run

    def ran(command: list[str], **how: Any) -> Any:
        if command[0] != sys.executable:
            return really(command, **how)
        assert command[1:5] == ["-m", "chaos", "run", WHAT]
        run_of(hash_of(root), 1, root / "reports" / "a-run")
        return subprocess.CompletedProcess(command, 0, "", "")

    (root / "reports").mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "run", ran)
        results.record("each", 1, 60)


def hash_of(root: Path) -> str:
    return plan.digest(series.load_experiment(root / WHAT))


def carried(monkeypatch: pytest.MonkeyPatch, how: str = "") -> None:
    """Workers' runs are over at once. ``how``: what they end with in place of a result."""

    def carry(self: Any, cell: Any, folder: Path, lock: int) -> tuple[int, bool]:
        if how == "error":
            Result(None, "error", Exit.ERROR, True, False, "Java did not start").write(folder)
        elif how == "refused":
            Result(None, "error", Exit.USAGE, True, False, "rsyslog is not here").write(folder)
        elif not how:
            run_of(cell.to_json()["hash"], cell.seed, folder / "a-run")
            Result("a-run", "pass", Exit.PASS, True, False, "made up").write(folder)
        return 0, False

    monkeypatch.setattr(working.Worker, "_carry", carry)


def worked(file: Path, root: Path) -> Path:
    """The campaign's store, after a worker."""
    store = root / kit.matrix_of(file).file.store
    kit.worker(file, store, root.parent / "machine").work()
    return store


def timeless(row: dict[str, Any]) -> dict[str, Any]:
    left = {key: value for key, value in row.items() if key not in TIMES}
    return left | {"machine": {key: value for key, value in row["machine"].items() if key != "busy"}}


def test_a_committed_cell_is_the_row_that_record_makes_of_the_same_run(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded_in(monkeypatch, repository / "reports" / "by-record")
    record(monkeypatch, repository)
    (by_record,) = results.lines("each")

    recorded_in(monkeypatch, repository / "reports" / "by-campaign")
    carried(monkeypatch)
    file = series.campaign("each", 1)
    worked(file, repository)
    assert series.rows("each", file) == (1, [])
    (by_campaign,) = results.lines("each")

    assert by_record["outcome"] == "pass" and by_record["findings"] and by_record["helps"], "it says a lot"
    assert timeless(by_campaign) == timeless(by_record) and {*by_campaign} == {*by_record}
    for name in ("began", "ended"):
        apart = datetime.fromisoformat(by_campaign[name]) - datetime.fromisoformat(by_record[name])
        assert 0 <= apart.total_seconds() < 600 and by_campaign[name].endswith("+00:00")
    assert isinstance(by_campaign["machine"]["busy"], float) and isinstance(by_campaign["seconds"], int)
    assert results.page().count("| no-fault | pass") == 1


def test_a_series_goes_on_by_its_rows_and_a_row_that_is_there_stays(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried(monkeypatch)
    file = series.campaign("each", 1)
    worked(file, repository)
    series.rows("each", file)
    (row,) = results.lines("each")
    results.keep(row | {"summary": "as it was written then"})
    assert series.rows("each", file) == (0, [])
    assert [line["summary"] for line in results.lines("each")] == ["as it was written then"]
    with pytest.raises(SystemExit, match="nothing of each is left"):
        series.campaign("each", 1)
    before = file.read_text()
    (repository / "chaos" / "cli.py").write_text("2\n")
    with pytest.raises(SystemExit, match=r"uncommitted code: chaos/cli\.py"):
        series.campaign("each", 1)
    commit(repository)
    after = series.campaign("each", 1).read_text()
    stores = [line for text in (before, after) for line in text.splitlines() if line.startswith("store:")]
    assert len({*stores}) == 2, "runs of before a change would stand for after it"


def test_a_row_of_another_run_is_never_written_over(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carried(monkeypatch)
    file = series.campaign("each", 1)
    worked(file, repository)
    series.rows("each", file)
    (row,) = results.lines("each")
    results.keep(row | {"run": "another"})
    with pytest.raises(SystemExit, match="another run is recorded that began in the same second: another"):
        series.rows("each", file)
    assert [line["run"] for line in results.lines("each")] == ["another"]


def test_runs_without_a_fault_have_a_seed_each_and_count_as_a_series(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried(monkeypatch)
    file = series.campaign("no-fault", 2)
    seconds = iter(range(9))
    begin = working.Records.begin

    def begun(self: Any, *given: Any, **more: Any) -> str:
        """Rows are named by the second, and these runs take none."""
        id = begin(self, *given, **more)
        name = next(Path(self.store.address).glob(f"attempts/*/{id}/begun.json"))
        name.write_text(
            name.read_text().replace('"began": "2', f'"began": "2100-01-01T00:00:0{next(seconds)}+00:00", "x": "')
        )
        return id

    monkeypatch.setattr(working.Records, "begin", begun)
    worked(file, repository)
    assert series.rows("no-fault", file) == (2, [])
    assert [(row["what"], row.get("seed")) for row in results.rows("no-fault")] == [(WHAT, None), (WHAT, 2)]
    with pytest.raises(SystemExit, match="nothing of no-fault is left"):
        series.campaign("no-fault", 2)
    assert len(kit.matrix_of(series.campaign("no-fault", 3)).cells) == 3


@pytest.mark.parametrize(("how", "outcome"), [("error", "error"), ("dies", "cut off"), ("refused", None)])
def test_what_was_not_committed_is_a_row_where_a_run_began(
    how: str, outcome: str | None, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried(monkeypatch, how)
    file = series.campaign("each", 1)
    file.write_text(file.read_text().replace("{error: 0}", "{error: 0, lost: 0}"))
    worked(file, repository)
    new, left_out = series.rows("each", file)
    assert (new, left_out) == (int(outcome is not None), [])
    for row in results.rows("each"):
        assert row["outcome"] == outcome and row["what"] == WHAT and row["code"] == results.code("each", WHAT)
        assert ("ended" in row) is (row.get("said") == "Java did not start") is (outcome == "error")
    results.page()


def test_a_run_that_was_taken_for_cut_off_and_is_committed_later_replaces_its_row(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker was frozen, and thaws."""
    carried(monkeypatch)
    file = series.campaign("each", 1)
    records = kit.records_at(worked(file, repository))
    (cell,) = kit.matrix_of(file).cells
    commit = records.of_cell(cell.key)
    name = repository / records.store.address / "cells" / f"{cell.key}.json"
    committed = name.read_text()
    name.unlink()
    records.end(cell.key, commit.attempt, Ended.LOST, "Dask lost its worker")
    assert series.rows("each", file) == (1, [])
    assert [row["outcome"] for row in results.rows("each")] == ["cut off"]
    name.write_text(committed)
    assert series.rows("each", file) == (1, []) and series.rows("each", file) == (0, [])
    assert [row["run"] for row in results.rows("each")] == ["a-run"]


def test_a_record_that_was_too_large_is_the_row_of_an_error(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carried(monkeypatch)
    monkeypatch.setattr(series, "ARTIFACTS", "1B")
    file = series.campaign("each", 1)
    worked(file, repository)
    assert series.rows("each", file) == (1, [])
    (row,) = results.lines("each")
    assert row["outcome"] == "error" and "raise budget.artifacts" in row["said"]


def test_what_was_made_twice_or_is_under_way_is_no_row(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carried(monkeypatch)
    file = series.campaign("each", 1)
    records = kit.records_at(worked(file, repository))
    (cell,) = kit.matrix_of(file).cells
    second = records.begin(cell, {}, 60.0)
    records.end(cell.key, second, Ended.SURPLUS, "another was first")
    records.begin(cell, {}, 60.0)
    assert series.rows("each", file) == (1, [])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"checkout": None}, "does not say by which commit it was made"),
        ({"checkout": {"commit": "HEAD", "changed": ["README.md", "chaos/cli.py"]}}, "uncommitted code: chaos/cli.py"),
        ({"checkout": {"commit": "HEAD", "changed": [WHAT]}}, f"uncommitted code: {WHAT}"),
        ({"checkout": {"commit": "0" * 40, "changed": []}}, "which this clone does not have"),
    ],
)
def test_a_run_of_no_committed_code_is_no_row(
    wrong: dict[str, Any], says: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried(monkeypatch)
    file = series.campaign("each", 1)
    (begun,) = worked(file, repository).rglob("begun.json")
    begun.write_text(json.dumps(json.loads(begun.read_text()) | wrong))
    new, (why,) = series.rows("each", file)
    assert new == 0 and says in why and not results.lines("each")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("repeats: 1", "seeds: [5]"), "its seed is 5, and the experiment's is 1"),
        (("repeats: 1", "repeats: 1\nmatrix_versions"), "another topology or version"),
    ],
)
def test_a_cell_that_is_not_what_run_makes_is_no_row(
    change: tuple[str, str], says: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried(monkeypatch)
    file = series.campaign("each", 1)
    text = file.read_text().replace(*change).replace("\nmatrix_versions", "")
    file.write_text(text.replace("matrix:\n", "matrix:\n  versions: [2.19.6]\n") if "version" in says else text)
    records = kit.records_at(repository / kit.matrix_of(file).file.store)
    worker = kit.worker(file, records.store, repository.parent / "machine")
    monkeypatch.setattr(series, "folder_of", lambda cell, commit, records: pytest.fail("no run is read"))
    worker.work()
    new, (why,) = series.rows("each", file)
    assert new == 0 and says in why and not results.lines("each")


def test_the_commands_say_what_is_wrong(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def called(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["series.py", *words])
        return series.main()

    carried(monkeypatch)
    assert called("campaign", "each") == 0
    assert "1 cell; next: opensearch-chaos campaign run build/each.yaml" in capsys.readouterr().out
    file = repository / "build" / "each.yaml"
    (begun,) = worked(file, repository).rglob("begun.json")
    begun.write_text(json.dumps(json.loads(begun.read_text()) | {"checkout": None}))
    capsys.readouterr()
    assert called("rows", "each", str(file)) == Exit.INCONCLUSIVE
    out, err = capsys.readouterr()
    assert "0 new rows, 1 left out" in out and err.startswith("no row: no-fault 3az-standby")
    assert called("rows", "each", "absent.yaml") == Exit.USAGE and "absent.yaml" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        called("campaign", "each", "--of", WHAT)
