"""Labs on this machine's disk count free bytes; those with disks of their own, and those that say otherwise, do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import PARTS, ROOT
from hypothesis import given
from hypothesis import strategies as st

from chaos.definitions import Topology, load_topology
from chaos.registry import load_experiment
from chaos.run import plan
from chaos.targets.labs import config, watermarks
from chaos.targets.labs.watermarks import MIB, OFF, PREFIX
from chaos.targets.wiring import Wiring

LARGE = 250 * 2**30


def topology(name: str = "3az", level: str = "node", **settings: Any) -> Topology:
    spec = load_topology(name)
    changed = getattr(spec.settings, level) | {key.replace("__", "."): value for key, value in settings.items()}
    return spec.model_copy(update={"settings": spec.settings.model_copy(update={level: changed})})


def written(spec: Topology) -> dict[str, Any]:
    wiring = Wiring.of("t", spec.nodes, spec.zones)
    found = config.node_settings(spec, spec.nodes[0], wiring, PARTS, Path("d"), Path("l"))
    return {name: value for name, value in found.items() if name.startswith(watermarks.DISK)}


def test_nodes_on_this_machine_s_disk_count_bytes_and_the_plan_says_so() -> None:
    spec = topology()
    low, high, flood = written(spec).values()
    assert (low, high, flood) == ("200mb", "150mb", "100mb")
    assert watermarks.needed(spec, LARGE) == 200 * MIB  # 584 MiB free at 97 % are enough
    experiment = load_experiment(ROOT / "experiments" / "no-fault.yaml")
    assert any("free bytes (low 200 MiB" in each for each in plan.differences(experiment))
    assert not any("watermarks" in each for each in plan.differences(experiment, shared=False))


def test_nodes_with_disks_of_their_own_keep_shares_which_disk_full_fills_to() -> None:
    experiment = load_experiment(ROOT / "experiments" / "disk-flood-stage.yaml")
    assert written(experiment.topology) == {}
    assert watermarks.needed(experiment.topology, LARGE) == 0
    assert not any("watermarks" in each for each in plan.differences(experiment))


@pytest.mark.parametrize("level", ["node", "cluster"])
def test_a_topology_that_names_one_gets_none_of_ours(level: str) -> None:
    spec = topology(level=level, **{f"{PREFIX}high": "92%"})
    assert set(written(spec)) <= {f"{PREFIX}high"}
    assert watermarks.needed(spec, LARGE) == round(0.15 * LARGE)  # the low one is OpenSearch's own then
    off = topology(level=level, **{OFF: False})
    assert watermarks.needed(off, LARGE) == 0 and set(written(off)) <= {OFF}


def test_a_node_of_its_own_mind_counts_too() -> None:
    spec = topology()
    nodes = tuple(node.model_copy(update={"settings": {f"{PREFIX}low": "1gb"}}) for node in spec.nodes)
    assert watermarks.needed(spec.model_copy(update={"nodes": nodes}), LARGE) == 2**30


def test_an_experiment_whose_fault_sets_one_runs_on_openSearch_s_own() -> None:
    spec = topology()
    assert watermarks.stock(spec, ["cluster.routing.allocation.enable"]) is spec
    changed = watermarks.stock(spec, [f"{PREFIX}low"])
    assert list(written(changed).values()) == ["85%", "90%", "95%"]
    disks = load_topology("3az-disks")
    assert watermarks.stock(disks, [f"{PREFIX}low"]) is disks


@pytest.mark.parametrize(
    ("said", "free"),
    [("85%", 15), ("0.85", 15), ("99.5%", 0.5), ("1b", 1), ("20b", 20), ("1kb", 1024), ("all", 0), ("", 0)],
)
def test_watermarks_as_free_bytes(said: str, free: float) -> None:
    assert watermarks.free_of(said, 1000 if isinstance(free, float) else 100) == (5 if free == 0.5 else free)


@given(st.integers(0, 100), st.integers(1, 10**13))
def test_a_share_never_needs_more_than_there_is(share: int, total: int) -> None:
    assert 0 <= watermarks.free_of(f"{share}%", total) <= total


def test_a_lab_of_its_own_lets_a_fault_set_one(tmp_path: Path) -> None:
    plain = load_experiment(ROOT / "experiments" / "no-fault.yaml")
    assert plan.lab_topology(plain) is plain.topology
    file = tmp_path / "sets-one.yaml"
    file.write_text(
        "apiVersion: opensearch-chaos/v1\nname: sets-one\ntopology: 3az\n"
        "load: {read: {rate: 40/s, good: ok within 1s}, write: {rate: 20/s, good: ok within 1s}}\n"
        "phases:\n  healthy: {for: 30s}\n"
        f'  low: {{for: 30s, inject: {{settings.change: {{scope: cluster, settings: {{"{PREFIX}low": "20%"}}}}}}}}\n'
        '  after: {undo: settings.change, for: 30s}\nexpect:\n  - {phase: low, read.good: ">= 99%"}\n'
        "guards: {max: 5m}\n"
    )
    experiment = load_experiment(file)
    assert list(written(plan.lab_topology(experiment)).values()) == ["85%", "90%", "95%"]
    assert not any("watermarks" in each for each in plan.differences(experiment))
