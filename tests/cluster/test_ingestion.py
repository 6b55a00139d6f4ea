"""experiments/ingestion on real labs, shortened: what a side changes shows in what is measured of its runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from clusterkit import ROOT, cli, nothing_left
from ruamel.yaml import YAML

INGESTION = ROOT / "experiments" / "ingestion"


def shortened(name: str, folder: Path, **phases: dict[str, Any]) -> Path:
    """A copy of a shipped experiment whose sides run once each, with other times in its phases."""
    yaml = YAML()
    data = yaml.load((INGESTION / f"{name}.yaml").read_text())
    data["vary"]["times"] = 1
    for phase, times in phases.items():
        data["phases"][phase] |= times
    file = folder / f"{data['name']}.yaml"
    with open(file, "w") as target:
        yaml.dump(data, target)
    return file


def rows(out: Path) -> dict[str, dict[str, Any]]:
    """Metric → how the second side compares with the first."""
    (folder,) = out.iterdir()
    (comparison,) = json.loads((folder / "compare.json").read_text())["comparisons"].values()
    return {row["metric"]: row for row in comparison["metrics"]}


@pytest.mark.full
def test_a_power_loss_takes_what_async_has_acknowledged_and_nothing_else(out, spotless, tmp_path):
    file = shortened(
        "faults/durability-power-loss",
        tmp_path,
        healthy={"for": "10s"},
        dark={"for": "5s"},
        returned={"until": {"green": True, "stable": "5s", "within": "180s"}},
    )
    code, output = cli("run", file, "--out", out, timeout=600)
    lost = rows(out)["acknowledged.lost"]
    assert lost["a"] == ["0"], output
    assert lost["verdict"] == "fail" and "in any of default" in lost["says"], output
    assert code == 1 and "Side advice is worse than default in acknowledged.lost" in output
    assert nothing_left() == []
