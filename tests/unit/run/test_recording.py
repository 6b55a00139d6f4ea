"""A run whose record is taken away ends as an error that says so, undoes first, and writes what it still can."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import FakeLab, a_fault
from making import block

from chaos.base.console import Reporter
from chaos.base.errors import Aborted, ChaosError
from chaos.checks import evaluate
from chaos.checks.reasons import Cause
from chaos.faults.ledger import Ledger, standing
from chaos.faults.lifecycle import Lifecycle
from chaos.history import EventWriter, History, seal
from chaos.history.events import RunEnd
from chaos.run import recording as module
from chaos.run.execution import Execution
from chaos.run.instruments import Instruments
from chaos.run.recording import Recording
from chaos.run.stopping import Stop
from chaos.targets.labs.processes import wait_until

PLAN: Any = {"rules": 2, "run": "run-1", "experiment": {"name": "x"}}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An execution with a real record and no lab of its own, with one fault in effect."""
    monkeypatch.setattr(module, "EVERY_SECONDS", 0.02)
    folder = tmp_path / "reports" / "run-1"
    (folder / "history").mkdir(parents=True)
    run = object.__new__(Execution)
    run.folder, run.stop, run.reporter = folder, Stop(), Reporter(quiet=True)
    run.driver, run.outcome, run.early, run.dirt = None, "finished", False, []
    run.lab = FakeLab()  # type: ignore[assignment]
    run.for_undo = run.for_report = SimpleNamespace(release=lambda: None)  # type: ignore[assignment]
    run.instruments = Instruments()
    run.events = EventWriter(folder / "history" / "events.jsonl", run.broken)
    run.ledger = Ledger(folder / "ledger.jsonl", run.broken)
    run.recording = Recording(folder, run.events, run.ledger, run.broken)
    run.lifecycle = Lifecycle(run.lab, run.ledger, run.events, stopped=run.stop.is_over)
    run.lab_away = lambda: None  # type: ignore[method-assign]
    (folder / "plan.json").write_text(json.dumps(PLAN))
    run.recording.start(PLAN)
    run.events.write("run.start", run="run-1")
    assert run.lifecycle.inject(a_fault("f1", [block("a-data", "c-data")]))
    yield run
    run.recording.stop()
    run.events.close()
    run.ledger.close()


def ended(run: Any) -> str:
    """Wait until the run is told to end, and end it as the runner does. Returns why."""
    assert wait_until(run.stop.is_over, 10.0)
    with pytest.raises(ChaosError) as raised:
        run.stop.check()
    assert not isinstance(raised.value, Aborted)
    run.failed(str(raised.value))
    run.close_down()
    run.stop_recording()
    return str(raised.value)


def without_history(folder: Path) -> None:
    _remove(folder / "history")


def without_folder(folder: Path) -> None:
    _remove(folder)


def _remove(folder: Path) -> None:
    """What the run puts back meanwhile may stay."""
    shutil.rmtree(folder, ignore_errors=True)


def moved(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))


def replaced(folder: Path) -> None:
    """Moved, and another one in its place: what ``cp -a``, ``mv`` and a tidy hand leave."""
    shutil.copytree(folder, folder.with_name("copy"))
    folder.rename(folder.with_name("moved"))
    folder.with_name("copy").rename(folder)


@pytest.mark.parametrize("change", [without_history, without_folder, moved, replaced])
def test_a_record_that_is_taken_away_ends_the_run_undone_and_reported(
    made: Any, change: Callable[[Path], None]
) -> None:
    change(made.folder)
    says = ended(made)
    assert str(made.folder) in says and says.endswith("while the run went on")
    assert made.lab.effects == set() and made.outcome == "error" and made.dirt == []
    made.note(RunEnd(reason=made.outcome))
    seal.write(made.folder, "run", "the run ended: error")
    findings = evaluate(History.open(made.folder))
    assert findings.outcome.value == "error" and findings.reasons[0].cause is Cause.ERROR
    assert findings.reasons[0].says == says and all("died" not in each.says for each in findings.reasons)
    kinds = [event["kind"] for event in History.open(made.folder).events]
    assert kinds[0] == "run.start" and "fault.command" in kinds and kinds[-1] == "run.end"


def test_whoever_undoes_for_a_dead_runner_finds_the_ledger_again(made: Any) -> None:
    without_folder(made.folder)
    assert wait_until(made.stop.is_over, 10.0)
    assert [each.fault for each in standing(made.folder / "ledger.jsonl")] == ["f1"]


def test_one_of_two_files_that_other_processes_write_is_noticed_and_put_back(made: Any) -> None:
    """The driver's, which has it open and notices nothing."""
    file = made.folder / "history" / "driver.jsonl"
    with open(file, "a") as driver:
        driver.write('{"t": 1, "kind": "self"}\n')
        driver.flush()
        assert wait_until(lambda: "history/driver.jsonl" in made.recording._kept._held, 10.0)
        file.unlink()
        assert "driver.jsonl was removed while the run went on" in ended(made)
        assert file.read_text() == '{"t": 1, "kind": "self"}\n'


def test_it_takes_seconds_and_no_more(made: Any) -> None:
    assert module.EVERY_SECONDS < 1.0  # of this test
    began = time.monotonic()
    without_history(made.folder)
    assert wait_until(made.stop.is_over, 10.0) and time.monotonic() - began < 5.0


def test_a_record_that_is_taken_away_after_the_last_phase_is_an_error_too(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.recording._over.set()
    made.recording._thread.join()
    without_history(made.folder)
    made.close_down()
    assert made.outcome == "finished"
    made.stop_recording()
    assert made.outcome == "error"
    (says,) = [event["says"] for event in History.open(made.folder).events if event["kind"] == "error"]
    assert says.endswith("events.jsonl was removed while the run went on")


def test_where_nothing_can_be_written_again_it_says_so_and_undoes_all_the_same(made: Any) -> None:
    shutil.rmtree(made.folder.parent)
    made.folder.parent.write_text("a file where the folder was")
    says = ended(made)
    assert "was removed while the run went on, and cannot be written again (" in says
    assert made.lab.effects == set() and made.outcome == "error"


def test_a_run_that_nobody_touches_ends_as_ever(made: Any) -> None:
    for _ in range(3):
        made.events.write("note", says="more")
        assert not made.recording.look()
    made.close_down()
    made.stop_recording()
    assert made.outcome == "finished" and made.recording.says is None and made.lab.effects == set()
