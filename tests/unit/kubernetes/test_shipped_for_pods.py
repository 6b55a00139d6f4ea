"""Experiments that are made for pods: that they can be had there, whom they hit at most, what is refused instead."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from apiserver import SETS
from fakes import ROOT
from podcluster import Cluster, written
from unit.kubernetes.test_helper_pods import IMAGE

from chaos.commands.on_kubernetes import Where
from chaos.definitions.existing import Existing, load_existing
from chaos.registry import PROVIDERS, load_experiment
from chaos.run import reaching
from chaos.targets.existing import mapping
from chaos.targets.existing.seen import Seen, seen_of

SHIPPED = sorted((ROOT / "experiments" / "kubernetes").glob("*.yaml"))
DATA = {f"{SETS[1]}-{number}" for number in range(3)}
LIKE = """\
apiVersion: opensearch-chaos/v1
name: x
topology: 3az
load: {{read: {{rate: 10/s, good: ok within 1s}}, write: {{rate: 10/s, good: ok within 1s}}}}
phases:
  hit: {{inject: {{{fault}}}, for: 10s}}
  returned: {{undo: all, for: 10s}}
expect: [{{acknowledged.lost: 0}}]
"""


@pytest.fixture
def seen(cluster: Cluster, where: Where, state: Path) -> tuple[Existing, Seen]:
    written(where, state)
    file = next((state / "topologies" / "existing").glob("*.yaml"))
    file.write_text(file.read_text().replace("\n  forward:", f"\n  helper: {IMAGE}\n  forward:", 1))
    target = load_existing(file)
    return target, seen_of(target)


def steps(seen: tuple[Existing, Seen], path: Path) -> dict[str, reaching.Reached]:
    """Each phase as it would be on these pods."""
    target, there = seen
    asked = load_experiment(path)
    found = mapping.mapped(asked.topology, target.written, there)
    assert found.unmet == (), found.unmet
    asked = asked.model_copy(update={"topology": found.topology})
    offers = reaching.offers_on(PROVIDERS, target.written)
    told = reaching.reached(asked, target, there, 1, offers, date(2026, 11, 28))
    return {each.phase: each for each in told}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_an_experiment_for_pods_can_be_had_there(seen: tuple[Existing, Seen], path: Path) -> None:
    found = steps(seen, path)
    assert [row.says for each in found.values() for step in each.steps for row in step.rows] == []
    assert "kubernetes" in load_experiment(path).tags


def test_a_rollout_hits_any_one_of_the_data_nodes_at_a_time(seen: tuple[Existing, Seen]) -> None:
    (step,) = steps(seen, ROOT / "experiments" / "kubernetes" / "rollout.yaml")["rolled"].steps
    assert step.rung == reaching.ZONE and step.away == DATA
    assert step.hits is not None and {name for each in step.hits for name in each} == DATA
    assert all(len(each) == 1 for each in step.hits)


def zones(found: reaching.Reached) -> str:
    """Which zones a phase hits at worst, in words."""
    (row,) = [each for each in found.rows if each.what == "zones hit"]
    return row.says


def test_all_at_once_hits_the_data_nodes_of_one_zone(seen: tuple[Existing, Seen]) -> None:
    found = steps(seen, ROOT / "experiments" / "kubernetes" / "all-at-once.yaml")["deleted"]
    assert found.hit == (f"{SETS[1]}-1",) and zones(found) == "zone b alone"


def test_a_rollout_while_a_zone_is_slow_is_allowed_in_that_zone_alone(
    seen: tuple[Existing, Seen], tmp_path: Path
) -> None:
    shipped = ROOT / "experiments" / "kubernetes" / "rollout-slow-zone.yaml"
    found = steps(seen, shipped)["rolled"]
    assert set(found.hit) == {f"{SETS[1]}-1", f"{SETS[0]}-1"} and zones(found) == "zone b alone"
    everywhere = tmp_path / shipped.name
    everywhere.write_text(shipped.read_text().replace("restarts: role data and zone b", "restarts: role data"))
    assert zones(steps(seen, everywhere)["rolled"]) == "zones a and b could be hit at the same time: one at most"


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("node.restart: {target: role data, rolling: {wait: ready}}", "the last copy of a shard may be"),
        ("node.restart: {target: role data, rolling: false}", "zones a and b and c could be hit at the same time"),
        ("node.kill: {target: role data}", "zones a and b and c could be hit at the same time"),
    ],
    ids=["by readiness", "at once", "killed"],
)
def test_what_could_take_the_last_copy_is_refused_before_the_run(
    seen: tuple[Existing, Seen], tmp_path: Path, fault: str, says: str
) -> None:
    (tmp_path / "x.yaml").write_text(LIKE.format(fault=fault))
    told = [row.says for row in steps(seen, tmp_path / "x.yaml")["hit"].forbids]
    assert [each for each in told if says in each], told
