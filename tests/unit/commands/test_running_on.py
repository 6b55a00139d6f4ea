"""``run --on FILE``: what is refused together, and after which ends no other run begins. Runs end as a test says."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.run.test_reaching import TODAY, target, there
from unit.test_pytest_plugin_on import CALM, KILL, OUT, ended, experiment

from chaos.base.errors import Aborted, Exit, InvalidInput, LabError
from chaos.base.paths import STATE_VARIABLE
from chaos.commands import running_on
from chaos.commands.running_on import runs_on
from chaos.registry import load_experiment
from chaos.run import leftovers, on_target
from chaos.run.options import RunResult
from chaos.targets.existing.compare import Row, Sign

Ends = Callable[..., tuple[Exit, list[str]]]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ends:
    """(how each run ends) → the exit code, and which were run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    monkeypatch.setattr("chaos.targets.existing.seen.seen_of", lambda *_, **__: there())
    monkeypatch.setattr("chaos.definitions.existing.today", lambda: TODAY)
    monkeypatch.setattr(on_target, "refused_templates", lambda *_: [])
    monkeypatch.setattr(on_target, "refused_beside", lambda *_: [])
    monkeypatch.setattr(leftovers, "refuse_leftovers", lambda: None)
    monkeypatch.setattr(running_on, "print_verdict", lambda *_: None)
    target(tmp_path)

    def call(*ends: RunResult | Exception, files: list[str] | None = None, **options: Any) -> tuple[Exit, list[str]]:
        ran: list[str] = []

        def one(experiment: Any, *_: Any) -> RunResult:
            ran.append(experiment.name)
            end = ends[len(ran) - 1] if len(ran) <= len(ends) else ended()
            if isinstance(end, Exception):
                raise end
            return end

        monkeypatch.setattr("chaos.run.execution.run", one)
        files = files or [experiment("one"), experiment("two", CALM), experiment("three")]
        given = {"dry_run": False, "quiet": True, "controlled": True} | options
        loaded = [load_experiment(file) for file in files]
        return runs_on(Path("staging.yaml"), loaded, None, Path("reports"), **given), ran

    return call


def test_they_run_one_after_the_other_and_the_worst_outcome_counts(runs: Ends) -> None:
    assert runs() == (Exit.PASS, ["one", "two", "three"])
    weak = ended()
    weak.findings["exit_code"] = 1
    assert runs(ended(), weak) == (Exit.WEAKNESS, ["one", "two", "three"])


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (ended(Exit.ABORTED), Exit.ABORTED),
        (ended(Exit.DIRTY), Exit.DIRTY),
        (LabError("no longer"), Exit.ERROR),
        (InvalidInput("a stop file is there"), Exit.USAGE),
    ],
)
def test_no_other_begins_after_one_that_did_not_end_in_order(
    runs: Ends, end: RunResult | Exception, code: Exit, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runs(ended(), end) == (code, ["one", "two"])
    if isinstance(end, Exception):
        assert str(end) in capsys.readouterr().err


@pytest.mark.parametrize("code", [Exit.PASS, Exit.ABORTED, Exit.DIRTY])
def test_no_other_begins_after_a_signal_whatever_the_run_came_to(runs: Ends, code: Exit) -> None:
    """It may come while the run is undone, or while its report is made."""
    worst = Exit.DIRTY if code is Exit.DIRTY else Exit.ABORTED
    assert runs(ended(code, stopped=True)) == (worst, ["one"])


def test_what_forbids_any_of_them_is_told_of_all_before_the_first(runs: Ends) -> None:
    with pytest.raises(InvalidInput) as refused:
        runs(files=[experiment("one"), experiment("much", load="500/s"), experiment("killed", KILL)])
    text = str(refused.value)
    assert "much may not run on staging:\n  the file, caps: requests per second: 500" in text
    assert "killed may not run on staging:\n  faults, no provider: node.kill in phase dark" in text
    assert "one may not" not in text and text.count("see: opensearch-chaos plan") == 1


def test_what_holds_for_all_of_them_is_told_once(runs: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.targets.existing.seen.seen_of", lambda *_, **__: replace(there(), status="red"))
    with pytest.raises(
        InvalidInput, match="no experiment may run on staging:\n  the cluster, health: it is red"
    ) as all_:
        runs()
    assert str(all_.value).count("it is red") == 1
    with pytest.raises(InvalidInput, match="one may not run on staging:\n  the cluster, health: it is red"):
        runs(files=[experiment("one")])


def test_another_run_is_told_first_of_what_it_makes_of_the_cluster(runs: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.targets.existing.seen.seen_of", lambda *_, **__: replace(there(), relocating=3))
    row = Row("another run", Sign.BLOCKS, "run one of here is under way")
    monkeypatch.setattr(on_target, "under_way", lambda *_: [row])
    with pytest.raises(InvalidInput) as error:
        runs()
    said = str(error.value)
    assert 0 < said.index("run one of here is under way") < said.index("3 shards move")

    def silent(*_: Any) -> list[Row]:
        raise LabError("nobody says")

    monkeypatch.setattr(on_target, "under_way", silent)
    with pytest.raises(InvalidInput, match="3 shards move"):
        runs()


def test_a_dry_run_prints_plans_and_runs_nothing(runs: Ends, capsys: pytest.CaptureFixture[str]) -> None:
    assert runs(files=[experiment("one", OUT), experiment("two", CALM)], dry_run=True) == (Exit.PASS, [])
    out = capsys.readouterr().out
    assert "one on staging" in out and "two on staging" in out and out.count("at rung node: ") == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("answer", ["y\n", "YES\n"])
def test_above_one_node_the_person_at_the_terminal_says_yes_first(
    runs: Ends, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    assert runs() == (Exit.PASS, ["one", "two", "three"])
    said = capsys.readouterr()
    assert "staging.yaml allows rung zone until 2027-01-31." in said.out
    assert "one hits at worst: c-cm, c-data (rung zone is needed)" in said.out
    assert said.err.startswith("Run on staging, which is cluster ") and said.err.count("[y/N]") == 1


@pytest.mark.parametrize("answer", ["\n", "n\n", "", "yes please\n"])
def test_what_is_no_yes_starts_nothing(runs: Ends, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    with pytest.raises(Aborted, match="nothing was started"):
        runs()


def test_nobody_is_asked_with_yes_without_a_terminal_for_a_plan_and_up_to_one_node(
    runs: Ends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert runs(yes=True)[0] is Exit.PASS
    assert runs(dry_run=True, quiet=False) == (Exit.PASS, [])
    target(tmp_path, "rung: node\nuntil: 2027-01-31\n")
    assert runs(files=[experiment("two", CALM)])[0] is Exit.PASS
    target(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert runs()[0] is Exit.PASS
    assert "[y/N]" not in capsys.readouterr().err
