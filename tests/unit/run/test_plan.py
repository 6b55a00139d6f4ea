"""The plan: every step with its inverse, and the same draws as the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes import ROOT, FakeLab
from hypothesis import given, settings
from hypothesis import strategies as st
from making import OFFERS
from shipped import EXPERIMENTS
from typer.testing import CliRunner

from chaos.cli import app
from chaos.definitions import Experiment
from chaos.registry import load_experiment, ready
from chaos.run import plan


def experiment(folder: Path, phases: str, topology: str = "3az-standby") -> Experiment:
    file = folder / "x.yaml"
    file.write_text(
        "apiVersion: opensearch-chaos/v1\nname: x\n"
        f"topology: {ROOT / 'topologies'}/{topology}.yaml\n"
        "load:\n  write: {rate: 100/s, good: ok within 100ms}\n"
        f"phases:\n{phases}expect:\n  - {{acknowledged.lost: 0}}\n"
    )
    return load_experiment(file)


@pytest.mark.parametrize("file", EXPERIMENTS, ids=lambda file: file.stem)
def test_every_step_of_the_shipped_experiments_is_shown_with_its_inverse(file: Path) -> None:
    loaded = load_experiment(file)
    steps = list(plan.steps(loaded, 7, OFFERS))
    json.dumps(steps)
    injects = [step for step in steps if step["step"].startswith("inject ")]
    assert [step["fault"] for step in injects] == [each.id for each in plan.faults(loaded)]
    assert len([s for s in steps if s["step"].startswith("do ")]) == sum(len(p.do) for p in loaded.phases)
    assert len([s for s in steps if s["step"].startswith("undo ")]) == sum(len(p.undo) for p in loaded.phases)
    assert [s["phase"] for s in steps] == sorted((s["phase"] for s in steps), key=[p.name for p in loaded.phases].index)
    controlled = [step for step in steps if step["step"].startswith("failover controllers")]
    assert len(controlled) == (loaded.controller is not None) and all(
        "recommission" in s["inverse"] for s in controlled
    )
    for step in injects:
        assert step["inverse"]
        if "moves" in step:
            assert len(step["inverse"]) == max(1, len(step["moves"]))


def test_inverses_are_shown_last_first_and_what_cannot_be_taken_back_says_so(tmp_path: Path) -> None:
    phases = "  a: {for: 5s, inject: {node.loss: {target: zone c}}}\n"
    (step,) = [s for s in plan.steps(experiment(tmp_path, phases), 1, OFFERS) if "moves" in s]
    assert step["moves"] == [
        "node.kill node=c-cm",
        "node.wipe node=c-cm",
        "node.kill node=c-data",
        "node.wipe node=c-data",
    ]
    assert step["inverse"] == [
        "none: cannot be taken back",
        "node.start node=c-data",
        "none: cannot be taken back",
        "node.start node=c-cm",
    ]


def test_what_is_waited_for_is_shown_with_what_proves_it(tmp_path: Path) -> None:
    phases = (
        "  roll: {during: {command: [./roll, a b], within: 5m, restarts: role data, changes: [x.y]}}\n"
        "  hand: {during: {manual: an upgrade, within: 5m}}\n"
    )
    roll, hand = plan.steps(experiment(tmp_path, phases), 1, OFFERS)
    assert roll["step"] == "wait for others, at most 5m: command: ./roll 'a b'"
    assert roll["targets"] == ["a-data", "b-data", "c-data"] and roll["grade"] == "path"
    assert roll["proof"] == "each of role data must be seen to have another process afterwards; it may change x.y"
    assert str(roll["inverse"]).startswith("the command is ended")
    assert (hand["grade"], hand["proof"]) == ("reported", "nothing proves what it does")
    assert hand["inverse"] == "none: what a person does is not ours to undo"
    shown = CliRunner().invoke(app, ["plan", str(tmp_path / "x.yaml")])
    assert shown.exit_code == 0 and "proof: nothing proves what it does (grade reported)" in shown.output


def test_actions_and_holds_are_shown(tmp_path: Path) -> None:
    steps = list(
        plan.steps(
            experiment(
                tmp_path,
                "  out: {for: 5s, do: {decommission: {zone: c, no_delay: true}}}\n"
                "  in: {do: {recommission: {zone: c}, weights: {a: 1, b: 1, c: 1}}, "
                "until: {green: true, stable: 2s, within: 60s}}\n",
            ),
            1,
            OFFERS,
        )
    )
    assert [step["inverse"] for step in steps] == [
        "recommission zone c",
        None,
        None,
        "the weights that were there before",
        None,
    ]
    assert steps[1]["step"] == "hold for 5s"
    assert steps[-1]["step"].startswith("until green, stable for 2s, at most ")


def test_what_only_the_moment_can_tell_is_named_as_such(tmp_path: Path) -> None:
    phases = "  a: {for: 5s, inject: {node.kill: {target: elected cluster manager}}}\n"
    (step,) = [s for s in plan.steps(experiment(tmp_path, phases), 1, OFFERS) if "fault" in s]
    assert step["resolved"] == "at inject time, one of a-cm, b-cm, c-cm"
    assert "moves" not in step and step["inverse"]


@given(seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_the_plan_draws_what_the_run_draws(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    loaded = experiment(
        tmp_path_factory.mktemp("plan"),
        "  a: {for: 5s, inject: {node.kill: {target: one of role data}, "
        "network.latency: {links: to one of group cm, delay: 300ms}}}\n"
        "  b: {for: 5s, undo: all, inject: {node.pause: {target: 2 of role data}}}\n",
    )
    lab = FakeLab(id="plan")
    shown = {step["fault"]: step for step in plan.steps(loaded, seed, OFFERS) if "fault" in step}
    for each in plan.faults(loaded):
        fault = ready(each.id, each.params, lab, seed=seed, elected="a-cm")
        assert shown[each.id]["targets"] == list(fault.targets)
        assert shown[each.id]["links"] == [f"{a} -> {b}" for a, b in fault.links]
        assert shown[each.id]["moves"] == [str(both.move) for both in fault.moves]
        assert fault.targets or fault.links


def test_the_digest_is_of_the_content_not_of_the_place(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first = experiment(tmp_path / "one", "  a: {for: 5s}\n")
    same = experiment(tmp_path / "two", "  a: {for: 5s}\n")
    other = experiment(tmp_path / "two", "  a: {for: 6s}\n")
    topology = experiment(tmp_path / "two", "  a: {for: 5s}\n", "3az")
    assert plan.digest(first) == plan.digest(same)
    assert len({plan.digest(each) for each in (first, other, topology)}) == 3


def test_differences_name_heaps_and_the_parts_own_notes(tmp_path: Path) -> None:
    found = plan.differences(experiment(tmp_path, "  a: {for: 5s}\n"), ["C1 only"])
    assert found[-1] == "C1 only" and any("256" in each and "384" in each for each in found)
