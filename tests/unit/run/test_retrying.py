"""An inconclusive run is made once more, and nothing else is; the budget, the words, and what the second says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import synthetic
from fakes import ROOT

from chaos import cli as module
from chaos.base.errors import ChaosError, Exit, InvalidInput, LabError
from chaos.report import render
from chaos.report.suite import suite_page
from chaos.run import execution as running
from chaos.run import retrying
from chaos.run.options import RunOptions, RunResult
from chaos.run.retrying import Retries
from chaos.statistics import facts
from chaos.targets.labs import network

EXPERIMENT = ROOT / "experiments" / "data-node-kill.yaml"
CODES = {"pass": 0, "weakness": 1, "inconclusive": 3, "aborted": 4, "error": 5}


def result(outcome: str, number: int = 1, *, clean: bool | None = True, stopped: bool = False) -> RunResult:
    code = 6 if clean is False else CODES[outcome]
    findings = {
        "outcome": outcome,
        "headline": f"so {number}",
        "summary": f"so {number}",
        "findings": [],
        "exit_code": code,
        "clean": clean,
    }
    return RunResult(Path(f"reports/run-{number}"), findings | {"reasons": []}, clean is True, stopped)


class Clock:
    """Time that passes only while a run is made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("chaos.run.retrying.time.monotonic", lambda: self.now)


class Runs:
    """Runs that end as told, each after so many seconds; a ChaosError is raised."""

    def __init__(self, clock: Clock, *ends: RunResult | ChaosError, seconds: float = 100.0) -> None:
        self.clock, self.ends, self.seconds = clock, list(ends), seconds
        self.second_of: list[dict[str, Any] | None] = []

    def __call__(self, second_of: dict[str, Any] | None) -> RunResult:
        self.second_of.append(second_of)
        self.clock.now += self.seconds
        end = self.ends[len(self.second_of) - 1]
        if isinstance(end, ChaosError):
            raise end
        return end


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def carried_out(runs: Runs, retries: Retries | None, refused: str | None = None) -> tuple[list[str], list[str]]:
    said: list[str] = []
    made = [each.findings["outcome"] for each in retrying.runs("x", runs, retries, said.append, lambda: refused)]
    return made, said


@pytest.mark.parametrize("second", ["pass", "weakness", "inconclusive", "error", "aborted"])
def test_what_is_inconclusive_is_made_once_more_and_no_more(clock: Clock, second: str) -> None:
    runs, retries = Runs(clock, result("inconclusive"), result(second, 2)), Retries(1200.0)
    made, said = carried_out(runs, retries)
    assert made == ["inconclusive", second]
    assert said == ["x: inconclusive: so 1; repeated once (--retry-inconclusive, 20 min of 20 min left)"]
    assert runs.second_of == [
        None,
        {"run": "run-1", "outcome": "inconclusive", "says": "so 1", "seconds": 100.0, "option": "--retry-inconclusive"},
    ]
    assert (retries.left, retries.runs, retries.repeated) == (1100.0, 1, 1)
    assert retries.tally == "1 of 1 experiment repeated (--retry-inconclusive, 18 min 20 s of 20 min left)"


@pytest.mark.parametrize(
    "first",
    [
        result("pass"),
        result("weakness"),
        result("aborted"),
        result("error"),
        result("inconclusive", clean=False),
        result("inconclusive", clean=None),
        result("inconclusive", stopped=True),
        result("pass", clean=None),
    ],
    ids=["pass", "weakness", "aborted", "error", "dirty", "clean-up unknown", "stopped", "pass, clean-up unknown"],
)
def test_nothing_else_ever_gets_a_second_chance(clock: Clock, first: RunResult) -> None:
    retries = Retries(1200.0)
    made, said = carried_out(Runs(clock, first), retries)
    assert len(made) == 1 and said == [] and (retries.repeated, retries.left) == (0, 1200.0)


def test_without_the_option_an_inconclusive_run_stays_one(clock: Clock) -> None:
    assert carried_out(Runs(clock, result("inconclusive")), None) == (["inconclusive"], [])


def test_a_second_run_begins_only_when_the_first_s_length_fits_into_what_is_left(clock: Clock) -> None:
    retries = Retries(250.0)
    for number, repeated in enumerate((True, True, False)):
        made, said = carried_out(Runs(clock, result("inconclusive"), result("pass", 2)), retries)
        assert len(made) == 1 + repeated, number
    assert said == [
        "x: inconclusive: so 1; not repeated (--retry-inconclusive: it took 100 s, and there are 50 s of 250 s left)"
    ]
    assert (retries.runs, retries.repeated, retries.left) == (3, 2, 50.0)
    assert len(retries.told) == 3


def test_a_lab_that_is_not_as_it_was_is_not_used_again(clock: Clock) -> None:
    retries = Retries(250.0)
    made, said = carried_out(Runs(clock, result("inconclusive")), retries, "lab 'play' is not as its topology says")
    assert made == ["inconclusive"] and "not repeated (--retry-inconclusive: lab 'play' is not" in said[0]
    assert retries.left == 250.0


def test_a_second_run_that_cannot_be_made_costs_its_time_and_is_an_error(clock: Clock) -> None:
    retries = Retries(250.0)
    with pytest.raises(LabError, match="no memory"):
        carried_out(Runs(clock, result("inconclusive"), LabError("no memory")), retries)
    assert retries.left == 150.0


@pytest.mark.parametrize(
    ("given", "says"),
    [("10", "10 has no unit"), ("soon", "cannot read"), ("0s", "nothing can be repeated in no time")],
)
def test_a_budget_that_is_none(given: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as wrong:
        Retries.parse(given, "--chaos-retry-inconclusive")
    assert str(wrong.value).startswith(f"--chaos-retry-inconclusive {given}: ")


# ---- the command -----------------------------------------------------------------------------------------


def command(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, ends: list[RunResult | ChaosError], *arguments: str | Path
) -> tuple[int, str, str, list[RunOptions]]:
    asked: list[RunOptions] = []

    def run(experiment: Any, options: RunOptions, reporter: Any) -> RunResult:
        asked.append(options)
        end = ends[len(asked) - 1]
        if isinstance(end, ChaosError):
            raise end
        return end

    monkeypatch.setattr(running, "run", run)
    monkeypatch.setattr(network, "namespaces", lambda prefix="": [])
    monkeypatch.setattr(sys, "argv", ["opensearch-chaos", "run", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        module.main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err, asked


@pytest.mark.parametrize("second", ["pass", "weakness", "inconclusive", "error"])
def test_the_exit_code_is_the_second_run_s_and_both_verdicts_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, second: str
) -> None:
    ends: list[RunResult | ChaosError] = [result("inconclusive"), result(second, 2)]
    code, out, _, asked = command(monkeypatch, capsys, ends, EXPERIMENT, "-q", "--retry-inconclusive", "10m")
    assert code == CODES[second]
    lines = out.splitlines()
    told = lines.index(
        "data-node-kill: inconclusive: so 1; repeated once (--retry-inconclusive, 10 min of 10 min left)"
    )
    assert "data-node-kill: INCONCLUSIVE  so 1" in lines[:told]
    assert f"data-node-kill: {second.upper()}  so 2" in lines[told:]
    first, again = asked
    assert first.second_of is None and again.second_of is not None and again.second_of["run"] == "run-1"
    assert (first.seed, first.command, first.lab, first.out) == (again.seed, again.command, again.lab, again.out)


def test_a_weakness_is_told_once(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    ends: list[RunResult | ChaosError] = [result("weakness")]
    code, out, _, asked = command(monkeypatch, capsys, ends, EXPERIMENT, "-q", "--retry-inconclusive", "10m")
    assert code == Exit.WEAKNESS and len(asked) == 1 and "repeated" not in out


def test_a_second_run_that_cannot_begin_leaves_the_first_s_verdict_in_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    ends: list[RunResult | ChaosError] = [result("inconclusive"), LabError("node a-cm died")]
    code, _, err, _ = command(monkeypatch, capsys, ends, EXPERIMENT, "-q", "--retry-inconclusive", "10m")
    assert code == Exit.ERROR and "node a-cm died" in err


def test_of_several_experiments_the_share_that_was_repeated_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    ends: list[RunResult | ChaosError] = [result("pass"), result("inconclusive", 2), result("pass", 3)]
    arguments = (EXPERIMENT, EXPERIMENT, "-q", "--retry-inconclusive", "10m")
    code, out, _, _ = command(monkeypatch, capsys, ends, *arguments)
    assert code == 0 and "1 of 2 experiments repeated (--retry-inconclusive, 10 min of 10 min left)" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--retry-inconclusive", "10m", "--repeat", "5"], "is fixed before the first"),
        (["--retry-inconclusive", "10"], "--retry-inconclusive 10: 10 has no unit"),
        (["--retry-inconclusive", "10", "--dry-run"], "10 has no unit"),
    ],
)
def test_what_cannot_be_had_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, arguments: list[str], says: str
) -> None:
    code, out, err, asked = command(monkeypatch, capsys, [], EXPERIMENT, *arguments)
    assert code == Exit.USAGE and says in err and err.count("\n") == 1 and asked == [] and out == ""


def test_a_dry_run_says_what_would_be_repeated(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    code, out, _, asked = command(monkeypatch, capsys, [], EXPERIMENT, "--dry-run", "--retry-inconclusive", "10m")
    assert code == 0 and asked == []
    assert out.splitlines()[-1] == "a run that ends inconclusive is repeated once: 10 min of 10 min left"


# ---- what the second run says ----------------------------------------------------------------------------


def test_report_summary_junit_and_suite_name_the_first_run_and_its_reason(tmp_path: Path) -> None:
    first, second = (synthetic.slow_zone().write(tmp_path / name) for name in ("first", "second"))
    plan = json.loads((second / "plan.json").read_text())
    plan["second_of"] = retrying.first(result("inconclusive", 7), 163.21, Retries(600.0))
    (second / "plan.json").write_text(json.dumps(plan))
    said = "Second of two runs (--retry-inconclusive): the first, run-7, was inconclusive: so 7"
    for folder in (first, second):
        render(folder)
        texts = {name: (folder / name).read_text() for name in ("report.html", "summary.md", "junit.xml")}
        texts["summary.md"] = texts["summary.md"].replace("\\", "")
        assert all((said in text) is (folder is second) for text in texts.values())
    found = json.loads((second / "findings.json").read_text())
    assert found["run"]["second_of"]["seconds"] == 163.2
    assert found["outcome"] == json.loads((first / "findings.json").read_text())["outcome"] == "pass"
    runs = [facts.of_folder(folder) for folder in (first, second)]
    page = suite_page(runs, tmp_path / "suite.html").read_text()
    assert "1 of them repeats one that was inconclusive" in page and page.count(", second of two") == 1
    assert "second of two" not in suite_page(runs[:1], tmp_path / "one.html").read_text()


def test_of_two_runs_the_second_counts_on_the_suite_page(tmp_path: Path) -> None:
    first, second = (synthetic.slow_zone().write(tmp_path / name) for name in ("first", "second"))
    plan = json.loads((second / "plan.json").read_text())
    plan["second_of"] = {"run": "first", "outcome": "inconclusive", "option": "--retry-inconclusive"}
    (second / "plan.json").write_text(json.dumps(plan))
    for folder in (first, second):
        render(folder)
    (first / "history" / "readback.json").unlink()

    def page(runs: list[facts.Facts]) -> str:
        return suite_page(runs, tmp_path / "suite.html").read_text()

    both = [facts.of_folder(folder) for folder in (first, second)]
    assert '<div class="verdict inconclusive">' in page(both[:1])
    assert '<div class="verdict pass">' in page(both) and ", first of two, repeated" in page(both)
