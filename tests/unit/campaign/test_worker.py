"""What a worker does around a run: which it begins, what it keeps of it, and what it writes down."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import campaignkit as kit
import pytest

import chaos
from chaos.base import paths
from chaos.base.errors import Exit, InvalidInput
from chaos.base.paths import ProcessIdentity
from chaos.campaign import child, code
from chaos.campaign import worker as module
from chaos.campaign.child import Result
from chaos.campaign.folder_store import FolderStore
from chaos.campaign.machine import LOCK
from chaos.campaign.progress import State, of_cell
from chaos.campaign.records import Ended
from chaos.campaign.stores import StoreError
from chaos.faults.ledger import Registration
from chaos.run.options import Unreported


@pytest.fixture(autouse=True)
def _runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run is over at once, and passed."""

    def carry(self: Any, cell: Any, folder: Path, lock: int) -> tuple[int, bool]:
        (folder / "run").mkdir()
        (folder / "run" / "plan.json").write_text("{}")
        Result("run", "pass", Exit.PASS, True, False, "made up").write(folder)
        return 0, False

    monkeypatch.setattr(module.Worker, "_carry", carry)


def made(tmp_path: Path, store: Any = None, budget: str = "machines: 9", **more: Any) -> Any:
    file = kit.write_campaign(tmp_path, tmp_path / "store", 1, lost=1)
    file.write_text(file.read_text().replace("machines: 9", budget))
    return kit.worker(file, store or tmp_path / "store", tmp_path / "machine", **more)


def dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on every worker of before is dead."""
    monkeypatch.setattr(ProcessIdentity, "alive", lambda self: False)


def test_a_run_that_is_kept_stays_when_the_next_worker_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = made(tmp_path, keep=True).work()
    kept = sorted((tmp_path / "machine" / "out").glob("*/run/plan.json"))
    assert len(done.made) == len(kept) == 2
    dead(monkeypatch)
    shutil.rmtree(tmp_path / "store")
    made(tmp_path).work()
    assert sorted((tmp_path / "machine" / "out").glob("*/run/plan.json")) == kept


def test_what_cannot_be_read_is_left_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "machine" / "out"
    for name, text in (("torn", '{"worker": {"pid"'), ("another", "[]"), ("dead", None)):
        (out / name).mkdir(parents=True)
        if text is None:
            child.write_request(out / name, {})
        else:
            (out / name / child.REQUEST).write_text(text)
    dead(monkeypatch)
    assert made(tmp_path).work().exit_code is Exit.PASS
    assert sorted(each.name for each in out.iterdir()) == ["another", "torn"]


def test_a_ledger_that_recover_needs_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run and its worker were killed together: its registry entry says that there may be something to undo."""
    monkeypatch.setenv(paths.STATE_VARIABLE, str(tmp_path / "state"))
    ledger = tmp_path / "machine" / "out" / "killed" / "run" / "ledger.jsonl"
    ledger.parent.mkdir(parents=True)
    ledger.write_text("")
    child.write_request(ledger.parents[1], {})
    Registration("run", ledger, "r0a1b", ProcessIdentity.me()).write()
    dead(monkeypatch)
    made(tmp_path).work()
    assert ledger.is_file()
    Registration("run", ledger, "r0a1b", ProcessIdentity.me()).remove()
    shutil.rmtree(tmp_path / "store")
    made(tmp_path).work()
    assert not ledger.exists()


def test_no_run_begins_after_the_budget_of_time_because_another_held_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.05)
    worker = made(tmp_path)
    worker.expected = {cell.key: 0.5 for cell in worker.matrix.cells}
    worker.ends_at = time.monotonic() + 3.0
    with paths.locked(tmp_path / "machine" / LOCK):
        began = time.monotonic()
        done = worker.work()
    assert time.monotonic() - began < 10
    assert done.exit_code is Exit.INCONCLUSIVE and done.left == 2
    assert all(worker.records.attempts(cell.key) == [] for cell in worker.matrix.cells)


def test_nor_where_it_was_let_go_too_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = made(tmp_path, ends_at=time.monotonic() + 60)
    worker.expected = {cell.key: 50.0 for cell in worker.matrix.cells}
    chosen = worker._next

    def slowly(cells: Any) -> Any:
        cell = chosen(cells)
        worker.ends_at = time.monotonic() + 40
        return cell

    monkeypatch.setattr(worker, "_next", slowly)
    done = worker.work()
    assert done.left == 2 and all(worker.records.attempts(cell.key) == [] for cell in worker.matrix.cells)


class Full(FolderStore):
    """Takes no file of a run."""

    def put(self, name: str, file: Path) -> None:
        raise StoreError(f"store {self.address}: cannot write {name}: No space left on device")


def test_a_run_that_the_store_does_not_take_is_an_error_and_no_lost_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STORE_TRIES", 1)
    worker = made(tmp_path, Full(tmp_path / "store"))
    assert worker.work().exit_code is Exit.ERROR
    dead(monkeypatch)
    found = of_cell(worker.matrix.cells[0], worker.records, worker.matrix.file.retry)
    assert (found.state, found.errors, found.lost) == (State.WAITING, 1, 0) and "No space left" in found.why


def test_what_was_given_up_says_how_it_is_tried_again(tmp_path: Path) -> None:
    lines: list[str] = []
    worker = made(tmp_path)
    worker.reporter.line = lines.append
    one, other = worker.matrix.cells
    for cell, ended, times in ((one, Ended.ERROR, 3), (other, Ended.LOST, 2)):
        for _ in range(times):
            worker.records.end(cell.key, worker.records.begin(cell, {}, 60.0), ended, "no network")
    assert worker.work().exit_code is Exit.ERROR
    told = [line for line in lines if line.startswith("given up")]
    assert [line.partition("to try it again ")[2] for line in told] == [
        "raise retry.error in the campaign's file",
        "raise retry.lost in the campaign's file",
    ]


def test_commits_say_by_which_code_they_were_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = made(tmp_path)
    worker.work()
    commits = [worker.records.of_cell(cell.key) for cell in worker.matrix.cells]
    assert [commit.code for commit in commits] == [code.digest()] * 2
    file = tmp_path / "store" / "cells" / f"{commits[0].key}.json"
    before = {key: value for key, value in json.loads(file.read_text()).items() if key != "code"}
    file.write_text(json.dumps(before))
    assert worker.records.of_cell(commits[0].key).code == ""  # as commits of before this was recorded


def test_another_source_is_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos, "__file__", str(tmp_path / "__init__.py"))
    (tmp_path / "a.py").write_text("x = 1\n")
    one = code.digest()
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "test_x.py").write_text("y = 1\n")
    assert code.digest() == one and len(one) == code.DIGITS
    (tmp_path / "a.py").write_text("x = 2\n")
    two = code.digest()
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert len({one, two, code.digest()}) == 3


@pytest.mark.parametrize(
    "name", ["load/workloads/logs.yaml", "provision/opensearch-3.8.0.lock.json", "provision/home/log4j2.properties"]
)
def test_what_sources_read_is_code_too(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker with another lock runs another OpenSearch, and one with another workload sends other documents."""
    assert (Path(chaos.__file__).parent / name).is_file()
    monkeypatch.setattr(chaos, "__file__", str(tmp_path / "__init__.py"))
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("1")
    one = code.digest()
    (tmp_path / name).write_text("2")
    assert code.digest() != one


def test_what_tools_leave_in_a_package_is_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel that was installed has the digest of the checkout that it was made of."""
    monkeypatch.setattr(chaos, "__file__", str(tmp_path / "__init__.py"))
    (tmp_path / "load").mkdir()
    (tmp_path / "load" / "a.py").write_text("x = 1\n")
    one = code.digest()
    left = ("load/__pycache__/a.cpython-311.pyc", "load/__pycache__/a.tmp", "load/b.pyc", ".mypy_cache/x.json")
    for name in (*left, "load/.a.py.swp", "topologies/3az.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("left")
    (tmp_path / "load" / "empty").mkdir()
    assert code.digest() == one


def test_an_attempt_names_the_commit_and_how_busy_the_machine_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[str, Any] | None = {"commit": "a" * 40, "changed": ["chaos/cli.py"]}
    monkeypatch.setattr(code, "checkout", lambda: found)
    worker = made(tmp_path)
    worker.work()
    (first, second) = [worker.records.attempts(cell.key)[0] for cell in worker.matrix.cells]
    assert first.checkout == second.checkout == found
    assert first.machine["busy"] >= 0 and first.machine["memory_bytes"] > 2**20 and first.machine["kernel"]
    assert "busy" not in worker.records.of_cell(worker.matrix.cells[0].key).machine, (
        "a class of machines is not of a moment"
    )
    shutil.rmtree(tmp_path / "store")
    found = None
    made(tmp_path).work()
    (begun, _) = (tmp_path / "store").rglob("begun.json")
    assert "checkout" not in json.loads(begun.read_text())
    assert worker.records.attempts(worker.matrix.cells[0].key)[0].checkout is None


def test_an_attempt_of_before_that_was_written_down_can_be_read(tmp_path: Path) -> None:
    worker = made(tmp_path)
    cell = worker.matrix.cells[0]
    id = worker.records.begin(cell, {}, 60.0)
    worker.records.end(cell.key, id, Ended.ERROR, "no Java")
    (begun,) = (tmp_path / "store").rglob("begun.json")
    data = json.loads(begun.read_text())
    data.pop("machine")
    begun.write_text(json.dumps(data))
    (attempt,) = worker.records.attempts(cell.key)
    assert (attempt.machine, attempt.checkout, attempt.ended) == ({}, None, Ended.ERROR)
    assert attempt.ended_at is not None and attempt.ended_at >= attempt.began


def ends(monkeypatch: pytest.MonkeyPatch, **how: Any) -> None:
    """Each run is over at once, with this result."""

    def carry(self: Any, cell: Any, folder: Path, lock: int) -> tuple[int, bool]:
        result = Result(**{**vars(Result("run", "pass", Exit.PASS, True, False, "made up")), **how})
        if result.run is not None:
            (folder / result.run).mkdir()
            (folder / result.run / "plan.json").write_text("{}")
        result.write(folder)
        return 0, False

    monkeypatch.setattr(module.Worker, "_carry", carry)


def test_a_run_whose_record_is_too_large_is_not_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends(monkeypatch, outcome="weakness")
    worker = made(tmp_path, budget="artifacts: 1B")
    assert worker.work().exit_code is Exit.ERROR
    assert made(tmp_path, budget="artifacts: 1B").work().exit_code is Exit.ERROR
    for cell in worker.matrix.cells:
        assert [each.ended for each in worker.records.attempts(cell.key)] == [Ended.TOO_LARGE]
        assert of_cell(cell, worker.records, worker.matrix.file.retry, 1).state is State.GIVEN_UP


def test_what_was_too_large_says_so_and_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends(monkeypatch, outcome="weakness")
    lines: list[str] = []
    worker = made(tmp_path, budget="artifacts: 1B")
    worker.reporter.line = lines.append
    worker.work()
    told = [line.partition(": it ended")[2] for line in lines if line.startswith("given up")]
    says = " as weakness, and its record is 2 bytes without its logs, and a cell may keep 1"
    assert told == [f"{says}; raise budget.artifacts in the campaign's file"] * 2


def test_a_larger_budget_makes_the_cell_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends(monkeypatch, outcome="weakness")
    made(tmp_path, budget="artifacts: 1B").work()
    assert len(made(tmp_path, budget="artifacts: 2B").work().made) == 2


def test_a_run_that_cannot_be_reported_is_an_error_and_no_machine_lacks_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = Unreported(tmp_path, InvalidInput("no room"), ["namespace x"])
    ends(monkeypatch, run=None, outcome="error", exit_code=why.exit_code, clean=False, why=str(why), kind="Unreported")
    worker = made(tmp_path, looks=lambda: ["namespace x"])
    done = worker.work()
    assert why.exit_code is Exit.DIRTY and done.refused == [] and done.exit_code is Exit.DIRTY
    assert [each.ended for each in worker.records.attempts(worker.matrix.cells[0].key)] == [Ended.ERROR]


def test_the_ledger_of_a_dirty_run_stays_after_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry points at it, and `recover` undoes by it."""
    ends(monkeypatch, clean=False)
    done = made(tmp_path, looks=lambda: ["namespace x"]).work()
    (folder,) = (tmp_path / "machine" / "out").iterdir()
    assert len(done.made) == 1 and done.exit_code is Exit.DIRTY
    assert sorted(each.name for each in folder.iterdir()) == ["result.json", "run", "why.txt"]
    assert "opensearch-chaos recover" in (folder / "why.txt").read_text()


def test_a_machine_that_was_retired_while_its_lock_was_waited_for_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = made(tmp_path, looks=lambda: ["namespace x"])
    chosen = worker._next

    def slowly(cells: Any) -> Any:
        cell = chosen(cells)
        worker.machine.retire("another's run left it dirty")
        return cell

    monkeypatch.setattr(worker, "_next", slowly)
    assert worker.work().exit_code is Exit.DIRTY
    assert all(worker.records.attempts(cell.key) == [] for cell in worker.matrix.cells)
