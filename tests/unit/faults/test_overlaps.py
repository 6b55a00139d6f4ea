"""Faults that overlap: who holds what is refused at plan time with its place, or at inject time by the moment."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import ROOT, FakeEvidence, FakeLab, Log
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.base.errors import FaultError, InvalidInput
from chaos.definitions.crosschecks import _both_hold
from chaos.definitions.steps import FaultParams, Scene
from chaos.faults.ledger import Ledger, standing
from chaos.faults.lifecycle import Lifecycle
from chaos.registry import FAULTS, load_experiment, ready


def loaded(folder: Path, *phases: str) -> None:
    file = folder / "x.yaml"
    file.write_text(
        "apiVersion: opensearch-chaos/v1\nname: x\n"
        f"topology: {ROOT / 'topologies' / '3az-standby.yaml'}\n"
        "load: {write: {rate: 100/s, good: ok within 100ms}}\n"
        "phases:\n" + "".join(f"  p{n}: {{for: 5s, {phase}}}\n" for n, phase in enumerate(phases, 1)) + "expect:\n"
        "  - {acknowledged.lost: 0}\n"
    )
    load_experiment(file)


CONFLICTS = {
    "freeze and kill of one node": (
        ["inject: {node.pause: {target: node c-data}}", "inject: {node.kill: {target: zone c}}"],
        "7:37: node.pause is still active on the process of c-data: expected it undone first",
    ),
    "two owners of one link": (
        [
            "inject: {network.latency: {links: to zone c, delay: 1s}}",
            "inject: {network.drop: {links: from node a-data to node c-data}}",
        ],
        "7:40: network.latency is still active on the link a-data → c-data: expected it undone first",
    ),
    "two of one phase": (
        ["inject: {node.pause: {target: node c-data}, node.stop: {target: node c-data}}"],
        "6:72: node.pause is still active on the process of c-data: expected it undone first",
    ),
    "the elected one twice": (
        [
            "inject: {node.kill: {target: elected cluster manager}}",
            "inject: {node.kill: {target: elected cluster manager, name: again}}",
        ],
        "7:37: node.kill is still active on elected cluster manager: expected it undone first",
    ),
}


@pytest.mark.parametrize("case", CONFLICTS)
def test_a_conflict_is_refused_when_the_plan_is_read(case: str, tmp_path: Path) -> None:
    phases, says = CONFLICTS[case]
    with pytest.raises(InvalidInput) as refused:
        loaded(tmp_path, *phases)
    (line,) = refused.value.message.splitlines()
    assert line.endswith(f"x.yaml:{says}")


@pytest.mark.parametrize(
    "phases",
    [
        ["inject: {node.pause: {target: node c-data}}", "inject: {node.kill: {target: node c-cm}}"],
        ["inject: {node.pause: {target: node c-data}}", "undo: node.pause, inject: {node.kill: {target: node c-data}}"],
        ["inject: {network.drop: {links: to zone c}, node.pause: {target: node c-data}}"],
        [
            "inject: {network.latency: {links: from node a-data to node c-data, delay: 1s}}",
            "inject: {network.drop: {links: from node c-data to node a-data}}",
        ],
        # whether these meet, only the moment can tell
        ["inject: {node.pause: {target: node c-cm}}", "inject: {node.kill: {target: elected cluster manager}}"],
    ],
)
def test_what_does_not_meet_may_overlap(phases: list[str], tmp_path: Path) -> None:
    loaded(tmp_path, *phases)


@pytest.fixture
def lifecycle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lifecycle:
    monkeypatch.setattr("chaos.faults.kinds.node.ProcessEvidence", lambda *_, **__: FakeEvidence())
    return Lifecycle(FakeLab(), Ledger(tmp_path / "ledger.jsonl"), Log())  # type: ignore[arg-type]


def test_what_only_the_moment_can_tell_is_refused_before_anything_is_written_or_made(lifecycle: Lifecycle) -> None:
    lab = lifecycle._lab
    paused = ready("f1", FAULTS["node.pause"](target="node c-cm"), lab, seed=1, elected=None)
    kill = FAULTS["node.kill"](target="elected cluster manager")
    assert lifecycle.inject(paused)
    with pytest.raises(FaultError, match=r"node\.pause is still active on the process of c-cm; undo the one before"):
        lifecycle.inject(ready("f2", kill, lab, seed=1, elected="c-cm"))
    assert lab.effects == {("paused", "c-cm")}  # type: ignore[attr-defined]
    assert [entry.fault for entry in standing(lifecycle._ledger.path)] == ["f1"]
    assert lifecycle.inject(ready("f3", kill, lab, seed=1, elected="a-cm"))


fixed_examples = st.sampled_from(
    [
        params
        for kind, fault in FAULTS.items()
        if fault.example_topology == "3az-standby"
        for example in fault.examples
        if (params := FAULTS[kind](**example)).fixed
    ]
)


@given(one=fixed_examples, other=fixed_examples)
@settings(max_examples=60, deadline=None)
def test_plan_and_moment_agree_on_what_conflicts(one: FaultParams, other: FaultParams) -> None:
    topology = FakeLab().topology
    scene = Scene.of(topology, 0, "")
    common = one.claims(scene) & other.claims(scene)
    assert bool(_both_hold(one, other, topology)) == bool(common)
