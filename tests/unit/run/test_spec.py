"""A run spec is data, means the same run wherever it is read, and is the only way to a run folder."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import ROOT
from hypothesis import given
from hypothesis import strategies as st
from shipped import EXPERIMENTS

from chaos.base.console import Reporter
from chaos.base.errors import ChaosError, InvalidInput
from chaos.registry import GRAMMAR, PROVIDERS, load_experiment
from chaos.run import execution, plan
from chaos.run.options import RunOptions, RunResult
from chaos.run.spec import On, RunSpec, carry_out, in_python
from chaos.targets.labs import kinds

LOADED = {path: load_experiment(path) for path in EXPERIMENTS}
words = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), max_size=12)


@st.composite
def specs(draw: st.DrawFn) -> RunSpec:
    return RunSpec(
        LOADED[draw(st.sampled_from(EXPERIMENTS))],
        draw(st.integers(0, 2**63)),
        On(draw(st.sampled_from(["local", "docker", "existing"])), draw(st.none() | words)),
        draw(st.dictionaries(words, words, max_size=3)),
        draw(st.none() | words),
        draw(st.booleans()),
        draw(st.none() | words),
    )


@given(specs())
def test_json_and_back_is_the_same_run(spec: RunSpec) -> None:
    again = RunSpec.from_json(json.loads(json.dumps(spec.to_json())), GRAMMAR.experiment)
    assert again == spec
    assert (again.digest, again.command) == (spec.digest, spec.command)
    assert plan.digest(again.experiment) == plan.digest(spec.experiment)


@given(specs(), specs())
def test_the_digest_is_over_what_decides_what_a_run_does(one: RunSpec, other: RunSpec) -> None:
    same = (plan.digest(one.experiment), one.seed, one.on, one.versions) == (
        plan.digest(other.experiment),
        other.seed,
        other.on,
        other.versions,
    )
    assert (one.digest == other.digest) is same
    moved = one.experiment.model_copy(update={"file": Path("/elsewhere/x.yaml")})
    assert RunSpec(moved, one.seed, one.on, one.versions, command_given="make demo").digest == one.digest


def test_the_command_makes_the_run_again() -> None:
    experiment = LOADED[ROOT / "experiments" / "no-fault.yaml"]
    assert RunSpec.of(experiment).command.endswith(f"no-fault.yaml --seed {experiment.seed}")
    spec = RunSpec.of(experiment, 7, on=On(file="my clusters/staging.yaml"), topology="3az", controlled=False)
    assert spec.command.endswith("--seed 7 --topology 3az --no-controller --on 'my clusters/staging.yaml'")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": 2}, "a run spec of format 2, and this version reads 1"),
        ({"experiment": {}}, "no run spec"),
        ({"on": {"cloud": "x"}}, "no run spec"),
        ({"seed": None}, "no run spec"),
        ({"versions": 3}, "no run spec"),
    ],
)
def test_what_is_none_is_refused(change: dict[str, Any], says: str) -> None:
    data = RunSpec.of(LOADED[EXPERIMENTS[0]]).to_json()
    with pytest.raises(InvalidInput, match=says):
        RunSpec.from_json({**data, **change}, GRAMMAR.experiment)
    for key in data:
        with pytest.raises(InvalidInput, match="no run spec"):
            RunSpec.from_json({k: v for k, v in data.items() if k != key}, GRAMMAR.experiment)


@pytest.mark.parametrize("error", [None, ChaosError("no room"), KeyboardInterrupt()])
def test_it_is_carried_out_with_what_it_says_and_the_reporter_is_closed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException | None
) -> None:
    seen: list[tuple[Any, RunOptions]] = []
    closed: list[bool] = []

    def run(experiment: Any, options: RunOptions, reporter: Reporter) -> RunResult:
        seen.append((experiment, options))
        if error is not None:
            raise error
        return RunResult(tmp_path, {"outcome": "pass", "exit_code": 0}, True)  # type: ignore[typeddict-item]

    monkeypatch.setattr(execution, "run", run)
    reporter = Reporter(quiet=True)
    monkeypatch.setattr(reporter, "close", lambda: closed.append(True))
    spec = RunSpec.of(LOADED[EXPERIMENTS[0]], 99, on=On("docker"))
    try:
        result = carry_out(spec, out=tmp_path, providers=PROVIDERS, reporter=reporter, second_of={"run": "first"})
        assert result.folder == tmp_path and error is None
    except (ChaosError, KeyboardInterrupt) as raised:
        assert raised is error
    ((experiment, options),) = seen
    assert experiment is spec.experiment and closed == [True]
    assert (options.seed, options.kind, options.command, options.second_of) == (
        99,
        "docker",
        spec.command,
        {"run": "first"},
    )


def test_nothing_else_calls_the_runner() -> None:
    """Else what a run is would be put together in several places, each a little differently."""
    found = []
    for file in sorted((ROOT / "chaos").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "chaos.run.execution":
                found += [file for alias in node.names if alias.name in ("run", "_run")]
            if isinstance(node, ast.Attribute) and node.attr == "run" and getattr(node.value, "id", "") == "execution":
                found.append(file)
            called = node.func if isinstance(node, ast.Call) else None
            if getattr(called, "id", getattr(called, "attr", "")) in ("RunOptions", "Execution"):
                found.append(file)
    names = {str(file.relative_to(ROOT / "chaos")) for file in found}
    assert names == {"run/spec.py", "run/execution.py"}, names


def test_a_lab_that_is_up_is_named_by_its_kind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """``kind`` of the options is of a lab that is still to be made, as it always was; the spec says what it runs on."""
    seen: list[RunOptions] = []
    result = RunResult(tmp_path, {"outcome": "pass", "exit_code": 0}, True)  # type: ignore[typeddict-item]
    monkeypatch.setattr(execution, "run", lambda experiment, options, reporter: seen.append(options) or result)
    lab: Any = SimpleNamespace(kind="docker")
    spec = RunSpec.of(LOADED[EXPERIMENTS[0]], on=On(lab.kind))
    carry_out(spec, out=tmp_path, providers=PROVIDERS, reporter=Reporter(quiet=True), lab=lab)
    assert seen[0].lab is lab and seen[0].kind == kinds.DEFAULT
    assert spec.to_json()["on"] == {"kind": "docker", "file": None}
    assert spec.digest != RunSpec.of(LOADED[EXPERIMENTS[0]]).digest


def test_a_test_in_python_has_a_spec_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    experiment = LOADED[EXPERIMENTS[0]].model_copy(update={"phases": (), "expect": (), "file": Path("test_x.py")})
    spec = RunSpec.of(experiment, 5, command_given="pytest -m chaos test_x.py::test_x")
    again = RunSpec.from_json(json.loads(json.dumps(spec.to_json())), GRAMMAR.experiment)
    assert (again, again.digest) == (spec, spec.digest)
    monkeypatch.setattr(execution, "Execution", lambda *given: given)
    lab: Any = SimpleNamespace(manifest=SimpleNamespace(parts="parts"))
    made: Any = in_python(again, out=tmp_path, providers=PROVIDERS, reporter=Reporter(quiet=True), lab=lab)
    assert (made[0], made[1].command, made[1].seed, made[1].lab, made[2]) == (
        experiment, spec.command, 5, lab, "parts"
    )  # fmt: skip
    assert made[3].parent == tmp_path and made[3].is_dir()
