"""Healthy clusters stay healthy with a protection on: ``no-fault``, once with the settings of each side *on* below
``experiments/protections``. A protection that refuses what need not be refused, or that costs users something, is found
there.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from clusterkit import ROOT, cli, findings

QUIET = ROOT / "experiments" / "no-fault.yaml"
PROTECTIONS = sorted((ROOT / "experiments" / "protections").glob("*.yaml"))


def quiet(file: Path, folder: Path) -> Path:
    """``no-fault`` with the protection of an experiment on, in a file of its own. Nothing may be refused."""
    provoked, experiment = (yaml.safe_load(each.read_text()) for each in (file, QUIET))
    sides, counter = provoked["vary"]["sides"], provoked["vary"]["protection"]["counter"]
    experiment |= {"name": f"no-fault-{file.stem}", "topology": provoked["topology"]}
    experiment["expect"].append({"phase": "all", counter: 0})
    experiment["vary"] = {"sides": {"off": {}, "on": {"topology": sides["on"]["topology"]}}, "decide": ["read.good"]}
    made = folder / f"no-fault-{file.stem}.yaml"
    made.write_text(yaml.safe_dump(experiment, sort_keys=False))
    return made


@pytest.mark.full
@pytest.mark.parametrize("file", PROTECTIONS, ids=lambda file: file.stem)
def test_nothing_is_refused_and_users_notice_nothing(file: Path, tmp_path: Path, out: Path) -> None:
    code, output = cli("run", quiet(file, tmp_path), "--side", "on", "--out", out)
    assert code == 0, output
    found = findings(out)
    assert found["outcome"] == "pass" and found["reasons"] == [] and found["clean"] is True, output
