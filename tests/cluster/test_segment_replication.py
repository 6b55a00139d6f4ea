"""The suite's short experiments and planted weaknesses, on clusters whose replicas copy segments."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusterkit import ROOT, cli, findings
from ruamel.yaml import YAML

from chaos.base.errors import Exit

pytestmark = [pytest.mark.cluster, pytest.mark.full]
STRATEGY = "cluster.indices.replication.strategy"
SMOKE = ("cluster-manager-kill", "data-node-kill", "zone-network-slowdown")
PLANTED = ("planted-data-loss", "planted-no-replicas-setting", "zone-loss-without-awareness", "only-manager-kill")


def copying(folder: Path, experiment: Path) -> Path:
    """The topology of an experiment, with segment replication for all indices."""
    yaml = YAML()
    name = yaml.load(experiment.read_text())["topology"]
    made = yaml.load((ROOT / "topologies" / f"{name}.yaml").read_text())
    made["name"] = f"{name}-copying"
    made["settings"].setdefault("node", {})[STRATEGY] = "SEGMENT"
    made["settings"].setdefault("index", {}).setdefault("refresh_interval", "1s")
    file = folder / f"{made['name']}.yaml"
    yaml.dump(made, file)
    return file


def run(folder: Path, experiment: Path) -> tuple[int, str]:
    given = f"topology={copying(folder, experiment)}"
    return cli("run", experiment, "--set", given, "--out", folder / "run", timeout=600)


@pytest.mark.parametrize("name", SMOKE)
def test_a_short_experiment_decides_there(name: str, tmp_path: Path) -> None:
    code, output = run(tmp_path, ROOT / "experiments" / f"{name}.yaml")
    assert code in (Exit.PASS, Exit.WEAKNESS), output
    found = findings(tmp_path / "run")
    assert found["clean"] is True and not [each for each in found["findings"] if each["counts_as"] == "inconclusive"]


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_weakness_fails_there_too(name: str, tmp_path: Path) -> None:
    code, output = run(tmp_path, ROOT / "experiments" / "controls" / f"{name}.yaml")
    assert code == Exit.WEAKNESS and findings(tmp_path / "run")["clean"] is True, output
