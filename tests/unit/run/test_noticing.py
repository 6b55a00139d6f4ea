"""When ``until: {green: true}`` counts, and where it can never come; what the runner waits for and writes down."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import ROOT, FakeLab
from making import FAULTS, OFFERS, built

from chaos.checks.instrument import ClusterSight, Instrument, Observer
from chaos.definitions import Experiment, load_topology
from chaos.definitions.detection import Detection
from chaos.definitions.steps import Scene
from chaos.faults.kinds import settings
from chaos.opensearch.views import View
from chaos.registry import load_experiment
from chaos.run import noticing, phases, plan
from chaos.run.instruments import Instruments
from chaos.run.noticing import SECOND, Wait
from chaos.targets.wiring import Wiring

STANDBY = load_topology(ROOT / "topologies" / "3az-standby.yaml")
DROP = "inject: {network.drop: {links: around everything in zone c}}"
GREEN = "until: {green: true, stable: 10s, within: 180s}"


def experiment(folder: Path, phases: str) -> Experiment:
    file = folder / "x.yaml"
    file.write_text(
        "apiVersion: opensearch-chaos/v1\nname: x\n"
        f"topology: {ROOT / 'topologies'}/3az-standby.yaml\n"
        "load:\n  write: {rate: 100/s, good: ok within 100ms}\n"
        f"phases:\n{phases}expect:\n  - {{acknowledged.lost: 0}}\n"
    )
    return load_experiment(file)


def foreseen(tmp_path: Path, *lines: str, found: Detection | None = None) -> dict[str, noticing.Foreseen]:
    loaded = experiment(tmp_path, "".join(f"  {line}\n" for line in lines))
    return plan.foreseen(loaded, 1, OFFERS, found=found)


def fault(kind: str, **given: Any) -> tuple[Any, Any]:
    params = FAULTS[kind].model_validate(given)
    wiring = Wiring.of("plan", STANDBY.nodes, STANDBY.zones)
    return params, built(params, Scene.of(STANDBY, 1, "f1"), wiring)


# ------------------------------------------------------------------------------------------------- as planned


def test_green_in_the_phase_of_a_drop_counts_after_detection_and_never_comes(tmp_path: Path) -> None:
    """The elected cluster manager may sit in zone c: another is elected first, whose publication waits as well."""
    found = foreseen(tmp_path, f"dark: {{{DROP}, {GREEN}}}")["dark"]
    assert found.after == 34 + 10 + 34
    assert (
        "else at most 78 s into the phase" in found.says
        and "packets vanish on links around everything in zone c" in found.says
    )
    assert found.never == (
        "packets vanish on links around everything in zone c keeps c-cm, c-data out of the cluster, and 2 data nodes "
        "cannot hold 3 copies of a shard"
    )
    (step,) = [
        each["step"]
        for each in plan.steps(experiment(tmp_path, f"  dark: {{{DROP}, {GREEN}}}\n"), 1, OFFERS)
        if each["step"].startswith("until")
    ]
    assert step.startswith("until green, stable for 10s, at most 3m; green counts once a node was seen to leave")


def test_where_no_cluster_manager_is_hit_it_is_sooner(tmp_path: Path) -> None:
    drop = "inject: {network.drop: {links: between node a-data and node c-data}}"
    found = foreseen(tmp_path, f"dark: {{{drop}, {GREEN}}}")["dark"]
    assert found.after == 34 and found.never == ""


def test_an_undo_before_detection_is_waited_for_and_one_after_it_is_not(tmp_path: Path) -> None:
    for held, after in (("8s", 70), ("78s", 0), ("3m", 0)):
        found = foreseen(tmp_path, f"dark: {{for: {held}, {DROP}}}", f"back: {{undo: all, {GREEN}}}")["back"]
        assert (found.after, found.never) == (after, "")


def test_of_a_drop_that_was_undone_in_a_phase_before_it_is_the_same(tmp_path: Path) -> None:
    lines = (f"dark: {{for: 2s, {DROP}}}", "back: {undo: all, for: 3s}", f"calm: {{{GREEN}}}")
    assert foreseen(tmp_path, *lines)["calm"].after == 73


@pytest.mark.parametrize(
    ("inject", "held", "undone"),
    [
        ("{network.latency: {links: to zone c, delay: 300ms}}", 78, 0),
        ("{node.cpu_starvation: {target: node c-data, quota: 20%}}", 34, 0),
        ("{cluster_manager.admin_storm: {rate: 20/s}}", 78, 0),
        ("{node.kill: {target: node c-data}}", 2, 0),
        ("{node.pause: {target: node c-data}}", 34, 24),
    ],
)
def test_what_makes_slow_only_is_over_with_its_undo(tmp_path: Path, inject: str, held: float, undone: float) -> None:
    assert foreseen(tmp_path, f"on: {{inject: {inject}, {GREEN}}}")["on"].after == held
    lines = (f"on: {{for: 10s, inject: {inject}}}", f"off: {{undo: all, {GREEN}}}")
    assert foreseen(tmp_path, *lines)["off"].after == undone


def test_the_settings_of_the_cluster_decide(tmp_path: Path) -> None:
    tuned = Detection.planned(load_topology(ROOT / "topologies" / "3az-tuned.yaml"))
    assert foreseen(tmp_path, f"dark: {{{DROP}, {GREEN}}}", found=tuned)["dark"].after == tuned.within("by checks")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ((f"a: {{inject: {{node.kill: {{target: node c-data}}}}, {GREEN}}}",), "kill node c-data keeps c-data out"),
        (
            ("a: {for: 5s, inject: {node.pause: {target: zone b}}}", f"b: {{{GREEN}}}"),
            "pause zone b keeps b-cm, b-data out of the cluster",
        ),
        (
            (f"a: {{inject: {{node.kill: {{target: elected cluster manager}}}}, {GREEN}}}",),
            "kill elected cluster manager keeps a node out of the cluster",
        ),
        (
            ("a: {for: 5s, do: {decommission: {zone: c, no_delay: true}}}", f"b: {{{GREEN}}}"),
            "zone c is decommissioned, and its nodes are not in the cluster",
        ),
        (
            (f"a: {{inject: {{settings.change: {{scope: index, settings: {{number_of_replicas: 3}}}}}}, {GREEN}}}",),
            "set number_of_replicas: 3 on the load's index, and there are 3 data nodes for 4 copies of a shard",
        ),
        ((f"a: {{inject: {{node.restart: {{target: zone c}}}}, {GREEN}}}",), ""),
        ((f"a: {{inject: {{node.kill: {{target: node c-data, flap: {{down: 1s, up: 9s}}}}}}, {GREEN}}}",), ""),
        ((f"a: {{inject: {{network.drop: {{links: between zone c and clients}}}}, {GREEN}}}",), ""),
        (("a: {for: 5s, inject: {node.kill: {target: zone c}}}", f"b: {{undo: all, {GREEN}}}"), ""),
    ],
)
def test_green_that_can_never_come(tmp_path: Path, lines: tuple[str, ...], says: str) -> None:
    *_, last = foreseen(tmp_path, *lines).values()
    assert last.never.startswith(says) and bool(last.never) == bool(says)


# -------------------------------------------------------------------------------------------------- as it runs


def test_a_wait_is_over_when_it_was_seen_or_must_have_been() -> None:
    wait = Wait("f1", since=100 * SECOND, made=102 * SECOND, seconds=34, lingers=True)
    assert not wait.over(103 * SECOND, None)
    assert not wait.over(103 * SECOND, 99 * SECOND), "that was before"
    assert wait.over(103 * SECOND, 101 * SECOND)
    assert not wait.over(136 * SECOND - 1, None) and wait.over(136 * SECOND, None)


class Seen(Observer, ClusterSight):
    """How the cluster was last seen."""

    def __init__(self, worse: int | None) -> None:
        self.worse, self.version = worse, 5


class Held(phases.Phases):
    """The part of a run that knows what was made."""

    def __init__(self, active: tuple[str, ...], worse: int | None = None) -> None:
        self.lifecycle = SimpleNamespace(active=[SimpleNamespace(id=id) for id in active])  # type: ignore[assignment]
        self.instruments = Instruments([(Instrument("seen", "", lambda context: None), Seen(worse))])


def test_the_runner_waits_for_what_is_active_or_lingers_and_writes_it_down() -> None:
    now = time.monotonic_ns()
    drop, slow = (
        Wait.of(params, made, now, now, Detection(), STANDBY)
        for params, made in (
            fault("network.drop", links="around everything in zone c"),
            fault("network.latency", links="to zone c", delay="300ms"),
        )
    )
    held = Held(active=())
    held.made = (drop, slow)
    held.waits = held.to_notice()
    assert held.waits == (drop,), "latency that is undone leaves nothing behind"
    fresh, stale = (View("a-cm", version, "a-cm", frozenset(), ()) for version in (5, 4))
    assert not held.has_noticed(fresh) and Held(("f1",), worse=now).has_noticed(fresh)
    assert not Held(("f1",), worse=now).has_noticed(stale), "the sampler has seen a newer state"
    held = Held(active=("f1",))
    held.made = (drop,)
    held.waits = held.to_notice()
    assert held.noticed == {
        "notices": [{"fault": "f1", "since": now, "made": now, "seconds": 78.0}],
        "away": {"f1": ["c-cm", "c-data"]},
    }


def test_settings_are_read_from_the_cluster_and_else_the_longest_that_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = FakeLab()
    monkeypatch.setattr(settings, "effective", lambda lab, node, index: None)
    assert noticing.detection(lab) == Detection()  # type: ignore[arg-type]
    told = {"cluster.fault_detection.follower_check.timeout": ("2s", True)}
    monkeypatch.setattr(settings, "effective", lambda lab, node, index: told)
    assert noticing.detection(lab).follower_timeout == 2  # type: ignore[arg-type]
    others = iter([told, {"cluster.fault_detection.follower_check.timeout": ("5s", True)}])
    monkeypatch.setattr(settings, "effective", lambda lab, node, index: next(others))
    assert noticing.detection(lab).follower_timeout == 5  # type: ignore[arg-type]
