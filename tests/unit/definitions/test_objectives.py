"""Objectives from the command line: what is read, what is refused, and that plan, hash and report know them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import synthetic
from fakes import PARTS, ROOT, topology
from hypothesis import given
from hypothesis import strategies as st
from shipped import EXPERIMENTS

from chaos import cli as module
from chaos.base.console import Reporter
from chaos.base.errors import Exit, InvalidInput
from chaos.definitions import Duration, Experiment, objectives, writing
from chaos.registry import GRAMMAR, PROVIDERS, load_experiment
from chaos.report import render
from chaos.run import execution as running
from chaos.run import in_python, plan
from chaos.run.options import RunOptions, RunResult
from chaos.statistics.rejudge import rejudge
from chaos.targets.labs import network

EXPERIMENT = """\
apiVersion: opensearch-chaos/v1
name: x
topology: {root}/topologies/3az-standby.yaml
load:
  read:  {{rate: 100/s, good: ok within 500ms}}
  write: {{rate: 100/s, good: ok within 500ms}}
phases:
  healthy: {{for: 10s}}
  slow:    {{for: 10s, inject: {{network.latency: {{links: to zone c, delay: {delay}}}}}}}
  after:   {{for: 10s}}
  away:    {{for: 10s, undo: all}}
expect:
  - {{phase: {bites}, write.good: "< 10%"}}
  - {{acknowledged.lost: 0}}
"""


def file(folder: Path, delay: str = "1500ms", bites: str = "slow", text: str = EXPERIMENT) -> Path:
    path = folder / "x.yaml"
    path.write_text(text.format(root=ROOT, delay=delay, bites=bites))
    return path


def call(arguments: list[str | Path], monkeypatch: pytest.MonkeyPatch, capsys: Any) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["opensearch-chaos", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        module.main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


# ---- what is read, and what is refused -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "read", "write"),
    [
        ([], 0.5, 0.5),
        (["read=100ms"], 0.1, 0.5),
        (["write=2s", "read=100ms"], 0.1, 2.0),
        (["250ms"], 0.25, 0.25),
    ],
)
def test_an_objective_is_for_one_operation_or_for_both(
    tmp_path: Path, given: list[str], read: float, write: float
) -> None:
    loaded = load_experiment(file(tmp_path), good=objectives.parse(given, GRAMMAR.operations))
    assert loaded.load.operation("read") is not None and loaded.load.operation("write") is not None
    assert (loaded.load.operation("read").good_within, loaded.load.operation("write").good_within) == (read, write)
    assert dict(loaded.good_in_file) == {op: 0.5 for op, good in (("read", read), ("write", write)) if good != 0.5}
    assert GRAMMAR.experiment(json.loads(json.dumps(loaded.to_json()))) == loaded


def test_both_means_what_the_load_has(tmp_path: Path) -> None:
    path = file(tmp_path, text=re.sub(r"  read: .*\n", "", EXPERIMENT))
    loaded = load_experiment(path, good=objectives.parse(["100ms"], GRAMMAR.operations))
    assert objectives.options(loaded) == ["write=100ms"]


WRONG = {
    "no unit": (["read=100"], "100 has no unit"),
    "no duration": (["read="], "cannot read ''"),
    "no operation": (["reads=100ms"], "there is no operation 'reads'; expected read or write"),
    "cas": (["cas=1s"], "there is no operation 'cas'"),
    "nothing": (["read=0ms"], "expected more than 0"),
    "twice": (["read=1s", "read=2s"], "given twice"),
    "one and both": (["read=1s", "2s"], "given twice"),
    "both and one": (["2s", "read=1s"], "given twice"),
    "later than clients wait": (["read=8s"], "nothing can be good after 8s"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_objective_is_one_error_and_exit_2_before_anything_starts(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    given, says = WRONG[case]
    monkeypatch.setattr(running, "run", lambda *_: pytest.fail("a run was started"))
    arguments = ["run", file(tmp_path), *(word for each in given for word in ("--objective", each))]
    code, out, err = call(arguments, monkeypatch, capsys)
    assert code == Exit.USAGE and out == "" and err.count("\n") == 1 and says in err


def test_an_objective_for_what_the_load_does_not_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    path = file(tmp_path, text=re.sub(r"  read: .*\n", "", EXPERIMENT))
    for command in ("run", "plan"):
        code, _, err = call([command, path, "--objective", "read=100ms"], monkeypatch, capsys)
        assert code == Exit.USAGE and "x.yaml has no reads" in err and err.count("\n") == 1


def test_validate_takes_no_objective(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    code, _, err = call(["validate", file(tmp_path), "--objective", "1s"], monkeypatch, capsys)
    assert code == Exit.USAGE and "--objective" in err


# ---- plan and hash ---------------------------------------------------------------------------------------


def test_the_hash_is_of_the_objectives_in_force_whoever_gave_them(tmp_path: Path) -> None:
    stated = load_experiment(file(tmp_path))
    same = load_experiment(file(tmp_path), good=objectives.parse(["500ms"], GRAMMAR.operations))
    other = load_experiment(file(tmp_path), good=objectives.parse(["100ms"], GRAMMAR.operations))
    (tmp_path / "b").mkdir()
    in_file = load_experiment(file(tmp_path / "b", text=EXPERIMENT.replace("500ms", "100ms")))
    assert plan.digest(stated) == plan.digest(same) != plan.digest(other) == plan.digest(in_file)
    assert same == stated and "good_in_file" not in stated.to_json()  # as in plans from before the option
    assert "good_in_file" in other.to_json() and objectives.sentences(stated) == []


@given(st.lists(st.sampled_from(["read", "write"]), unique=True), st.integers(1, 5_000))
def test_the_command_that_repeats_a_run_gives_the_same_plan(
    tmp_path_factory: pytest.TempPathFactory, operations: list[str], milliseconds: int
) -> None:
    path = file(tmp_path_factory.mktemp("x"))
    first = load_experiment(path, good={each: Duration(milliseconds / 1000) for each in operations})
    again = load_experiment(path, good=objectives.parse(objectives.options(first), GRAMMAR.operations))
    assert again == first and plan.digest(again) == plan.digest(first)
    command = plan.again(path, 1, good=objectives.options(first))
    assert command.count("--objective") == len(first.good_in_file)


def test_a_definition_that_is_written_states_the_objective_in_force(tmp_path: Path) -> None:
    changed = load_experiment(file(tmp_path), good=objectives.parse(["read=100ms"], GRAMMAR.operations))
    (tmp_path / "y.yaml").write_text(writing.experiment(changed, f"{ROOT}/topologies/3az-standby.yaml"))
    written = load_experiment(tmp_path / "y.yaml")
    assert written.load == changed.load and not written.good_in_file
    assert plan.digest(written) == plan.digest(changed)


def test_the_printed_plan_says_both_and_so_does_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    path = file(tmp_path)
    for command in (["plan"], ["run", "--dry-run"]):
        code, out, _ = call([*command, path, "--objective", "read=100ms"], monkeypatch, capsys)
        said = "good within 100ms (given on the command line; the file says 500ms), from zones"
        assert code == 0 and said in out and out.count("command line") == 1 and "good within 500ms, from" in out
    _, out, _ = call(["plan", path, "--json", "--objective", "100ms"], monkeypatch, capsys)
    found = json.loads(out)
    assert found["experiment"]["good_in_file"] == {"read": 0.5, "write": 0.5}
    assert found["experiment"]["load"]["read"]["good_within"] == 0.1 and found["notes"] == []


def test_a_run_gets_the_experiment_with_the_objective_and_the_command_that_repeats_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    seen: list[tuple[Experiment, RunOptions]] = []

    def run(experiment: Experiment, options: RunOptions, reporter: Any) -> RunResult:
        seen.append((experiment, options))
        return RunResult(
            tmp_path,
            {"outcome": "pass", "exit_code": 0}
            | dict.fromkeys(("headline", "summary"), "")
            | {"reasons": [], "findings": []},
            True,
        )

    monkeypatch.setattr(running, "run", run)
    assert call(["run", file(tmp_path), "--objective", "write=2s", "-q"], monkeypatch, capsys)[0] == 0
    ((experiment, options),) = seen
    assert experiment.load.operation("write") is not None and experiment.load.operation("write").good_within == 2
    assert options.command.endswith("--seed 1 --objective write=2s")


def test_a_drawn_plan_states_its_objective_and_is_drawn_again_by_its_own_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    drawn = ["nemesis", "3az-standby", "--for", "60s", "--objective", "read=250ms"]
    _, text, _ = call(drawn, monkeypatch, capsys)
    (tmp_path / "x.yaml").write_text(text)
    load = load_experiment(tmp_path / "x.yaml").load
    assert load.operation("read") is not None and load.operation("read").good_within == 0.25
    assert load.operation("write") is not None and load.operation("write").good_within != 0.25
    again = text.splitlines()[0].partition("opensearch-chaos ")[2].split()
    assert "--objective" in again and call(again, monkeypatch, capsys)[1] == text
    code, _, err = call(["nemesis", "--shrink", "x", "--objective", "1s"], monkeypatch, capsys)
    assert code == Exit.USAGE and "its own objectives" in err


def test_runs_that_are_made_already_are_compared_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(network, "namespaces", lambda prefix="": [])
    code, _, err = call(["compare", tmp_path, tmp_path, "--objective", "1s"], monkeypatch, capsys)
    assert code == Exit.USAGE and "judge RUN --objective" in err and err.count("\n") == 1


def test_a_load_in_python_takes_the_option_and_its_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "Execution", lambda experiment, options, *_: (experiment, options))
    lab = SimpleNamespace(kind="local", topology=topology("3az"), manifest=SimpleNamespace(parts=PARTS))

    def made(given: list[str], write: str | None = "10/s", good: str = "1s") -> Any:
        return in_python.python_execution(
            name="test_x",
            lab=lab,  # type: ignore[arg-type]
            out=tmp_path,
            rates={"read": "10/s", "write": write},
            good=good,
            client={},
            seed=1,
            file=Path("test_x.py"),
            providers=PROVIDERS,
            reporter=Reporter(quiet=True),
            objectives=(objectives.parse(given, GRAMMAR.operations), "--chaos-objective"),
        )

    experiment, options = made(["read=250ms"])
    assert (experiment.load.operation("read").good_within, experiment.load.operation("write").good_within) == (
        0.25,
        1.0,
    )
    assert options.command == "pytest -m chaos test_x.py::test_x --chaos-objective=read=250ms"
    assert not experiment.good_in_file  # the test said nothing that would be replaced
    assert made([])[1].command == "pytest -m chaos test_x.py::test_x"
    with pytest.raises(InvalidInput, match=r"--chaos-objective write=2s: the load of test_x.py has no writes"):
        made(["write=2s"], write=None)
    with pytest.raises(InvalidInput, match=r"load: 0/s is nothing: expected more than zero"):
        made([], write="0/s")
    with pytest.raises(InvalidInput, match=r"load: nothing can be good after 8s: clients wait 5s for an answer"):
        made([], good="8s")


# ---- faults that must bite -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delay", "bites", "given", "notes"),
    [
        ("1500ms", "slow", [], 0),
        ("1499ms", "slow", [], 1),
        ("300ms", "slow", [], 1),
        ("300ms", "slow", ["write=100ms"], 0),
        ("1500ms", "slow", ["write=501ms"], 1),
        ("1500ms", "slow", ["read=5s"], 0),  # nobody asks for reads
        ("300ms", "healthy", [], 0),  # before it
        ("300ms", "after", [], 1),  # still there
        ("300ms", "away", [], 0),  # undone
        ("300ms", "[slow, after]", [], 2),
    ],
)
def test_a_delay_that_may_not_bite_is_noted(
    tmp_path: Path, delay: str, bites: str, given: list[str], notes: int
) -> None:
    loaded = load_experiment(file(tmp_path, delay, bites), good=objectives.parse(given, GRAMMAR.operations))
    found = plan.blunt(loaded)
    assert len(found) == notes
    for note in found:
        assert (
            f"+{Duration.parse(delay).text} on links to zone c is less than three times the objective of" in note
            and "chance" in note
        )


def test_the_printed_plan_has_the_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    code, out, _ = call(["plan", file(tmp_path), "--objective", "1s"], monkeypatch, capsys)
    assert code == 0 and "  note: +1500ms on links to zone c is less than three times the objective of 1s" in (
        out.replace("+1.5s", "+1500ms")
    )


@pytest.mark.parametrize("shipped", EXPERIMENTS, ids=lambda shipped: shipped.stem)
def test_whatever_must_bite_in_a_shipped_experiment_does_so_at_three_times_the_objective(shipped: Path) -> None:
    assert plan.blunt(load_experiment(shipped)) == []


# ---- report and judging ----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return synthetic.slow_zone().write(tmp_path / "run")


def test_the_report_says_whose_objective_it_is(folder: Path) -> None:
    render(folder)
    said = "given on the command line; the file says 500 ms"
    for name in ("report.html", "summary.md", "junit.xml"):
        assert said not in (folder / name).read_text()
    written = json.loads((folder / "plan.json").read_text())
    written["experiment"]["good_in_file"] = {"read": 0.5}
    (folder / "plan.json").write_text(json.dumps(written))
    render(folder)
    for name in ("report.html", "summary.md", "junit.xml"):
        text = (folder / name).read_text()
        assert f"100 ms, {said}" in text, name
        assert text.count(said) == 1, name


def test_an_old_run_is_held_against_another_objective(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    _, found, notes = rejudge(folder, None, objectives.parse(["write=1s"], GRAMMAR.operations))
    counts = {each["id"]: each["counts_as"] for each in found["findings"]}
    assert counts["write.good@slow"] == "weakness"  # 100 % within a second: the fault does not bite
    assert counts["read.good@slow"] == counts["acknowledged.lost"] == "pass"
    assert found["run"]["objectives"]["write"] == {"within": 1.0, "in_file": 0.1}
    assert found["run"]["objectives"]["read"]["in_file"] is None
    assert notes == ["good writes are now within 1 s, not 100 ms"]

    page = tmp_path / "other.html"
    code, out, _ = call(["judge", folder, "--objective", "write=1s", "-o", page], monkeypatch, capsys)
    assert code == Exit.WEAKNESS and "by other objectives: WEAKNESS" in out
    assert "1 s, given on the command line; the file says 100 ms" in page.read_text()
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before

    code, _, err = call(["judge", folder], monkeypatch, capsys)
    assert code == Exit.USAGE and "--experiment NEW.yaml, --objective" in err and err.count("\n") == 1


def test_an_old_run_without_such_an_operation_is_refused(folder: Path) -> None:
    written = json.loads((folder / "plan.json").read_text())
    del written["experiment"]["load"]["write"]
    (folder / "plan.json").write_text(json.dumps(written))
    for by in (None, load_experiment(EXPERIMENTS[0])):
        with pytest.raises(InvalidInput, match=r"--objective for writes: the load of .*run has none; leave write= out"):
            rejudge(folder, by, objectives.parse(["write=1s"], GRAMMAR.operations))


def test_the_file_s_objective_again_is_no_other_one(folder: Path) -> None:
    written = json.loads((folder / "plan.json").read_text())
    written["experiment"]["good_in_file"] = {"read": 0.5}
    (folder / "plan.json").write_text(json.dumps(written))
    _, found, _ = rejudge(folder, None, objectives.parse(["read=500ms"], GRAMMAR.operations))
    assert found["run"]["objectives"]["read"] == {"within": 0.5, "in_file": None}
