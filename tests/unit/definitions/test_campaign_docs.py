"""docs/campaigns.md: its campaign loads, and its examples for other platforms say what they are said to."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from shipped import ROOT

from chaos.campaign.matrix import Shard
from chaos.commands.campaign import loaded

PAGE = (ROOT / "docs" / "campaigns.md").read_text()
BLOCKS = re.findall(r"^```(yaml|sh)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def block(part: str) -> str:
    (found,) = [text for _, text in BLOCKS if part in text]
    return found


def shards(command: str, **variables: str) -> str:
    """What a shell makes of the command's ``--shard``."""
    (given,) = re.findall(r'--shard ("[^"]*"|\S+)', command)
    done = subprocess.run(["bash", "-c", f"echo {given}"], env=variables, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_campaign_of_the_page_loads(tmp_path: Path) -> None:
    folder = ROOT / "experiments" / "campaigns"
    text = block("kind: campaign").replace("../", f"{folder.parent}/")
    file = tmp_path / "two-releases.yaml"
    file.write_text(text)
    assert len(loaded(file).cells) == 4 * 2 * 5


@pytest.mark.parametrize("number", range(4))
def test_shards_of_a_slurm_array_and_of_an_indexed_job(number: int) -> None:
    slurm = shards(block("#SBATCH"), SLURM_ARRAY_TASK_ID=str(number + 1))
    job = YAML(typ="safe").load(block("completionMode"))["spec"]
    kubernetes = shards(job["template"]["spec"]["containers"][0]["command"][2], JOB_COMPLETION_INDEX=str(number))
    assert Shard.parse(slurm) == Shard.parse(kubernetes) == Shard(number + 1, 4)
    assert job["completions"] == 4 and "--array=1-4 " in block("#SBATCH")


def test_shards_of_a_matrix() -> None:
    data = YAML(typ="safe").load(block("fail-fast"))
    found = [Shard.parse(f"{each}/4") for each in data["strategy"]["matrix"]["shard"]]
    assert found == [Shard(number, 4) for number in range(1, 5)]
    assert "--shard ${{ matrix.shard }}/4" in data["steps"][0]["run"]
