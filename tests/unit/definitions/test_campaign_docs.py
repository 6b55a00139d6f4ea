"""docs/campaigns.md: its campaign loads, and its examples for other platforms say what they are said to."""

from __future__ import annotations

import contextlib
import copy
import inspect
import re
import subprocess
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import pytest
from distributed import Scheduler, SSHCluster, Worker
from distributed.cli import dask_scheduler, dask_worker
from ruamel.yaml import YAML
from shipped import ROOT

from chaos.campaign.dask_cluster import Tls, check
from chaos.campaign.dask_order import RESOURCE
from chaos.campaign.matrix import Shard
from chaos.commands import campaign
from chaos.commands.campaign_runs import loaded
from chaos.definitions.campaign import load_campaign

PAGE = (ROOT / "docs" / "campaigns.md").read_text()
BLOCKS = re.findall(r"^```(yaml|sh|python)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


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
    text = block("name: two-releases").replace("../", f"{folder.parent}/")
    file = tmp_path / "two-releases.yaml"
    file.write_text(text)
    assert len(loaded(file).cells) == 4 * 2 * 5


def test_the_first_campaign_of_the_page_is_what_its_commands_say(tmp_path: Path) -> None:
    text = block("name: two-by-two").replace("../", f"{ROOT / 'experiments'}/")
    file = tmp_path / "two-by-two.yaml"
    file.write_text(text)
    commands = block("campaign plan experiments/campaigns/two-by-two.yaml")
    (cells,) = re.findall(r"campaign plan .*# (\d+) cells", commands)
    assert len(loaded(file).cells) == int(cells) == 2 * 2 * 5
    named = re.findall(r"opensearch-chaos campaign (\w+) (\S+)", commands)
    assert [command for command, _ in named] == ["plan", "run", "status", "report"] and {*campaign.COMMANDS} >= {
        command for command, _ in named
    }
    assert {path for _, path in named} == {"experiments/campaigns/two-by-two.yaml"}


@pytest.mark.parametrize("number", range(4))
def test_shards_of_a_slurm_array_and_of_an_indexed_job(number: int) -> None:
    slurm = shards(block("#SBATCH"), SLURM_ARRAY_TASK_ID=str(number + 1))
    job = YAML(typ="safe").load(block("completionMode"))["spec"]
    kubernetes = shards(job["template"]["spec"]["containers"][0]["command"][2], JOB_COMPLETION_INDEX=str(number))
    assert Shard.parse(slurm) == Shard.parse(kubernetes) == Shard(number + 1, 4)
    assert job["completions"] == 4 and "--array=1-4 " in block("#SBATCH")


def test_the_campaign_that_examples_name_may_have_so_many_shards() -> None:
    release = ROOT / "experiments" / "campaigns" / "release.yaml"
    assert "campaign work experiments/campaigns/release.yaml" in block("#SBATCH")
    assert load_campaign(release).written.budget.machines >= 4


def test_shards_of_a_matrix() -> None:
    data = YAML(typ="safe").load(block("fail-fast"))
    found = [Shard.parse(f"{each}/4") for each in data["strategy"]["matrix"]["shard"]]
    assert found == [Shard(number, 4) for number in range(1, 5)]
    assert "--shard ${{ matrix.shard }}/4" in data["steps"][0]["run"]


def test_the_script_for_ssh_uses_what_dask_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is run with a cluster that only looks at what it is given; Dask's own schema and signatures say what is
    known."""
    ran: list[list[str]] = []
    given: dict[str, Any] = {}

    def cluster(hosts: list[str], **options: Any) -> Any:
        inspect.signature(SSHCluster).bind(hosts, **options)
        given.update(options, hosts=hosts, config=copy.deepcopy(dask.config.config))
        return contextlib.nullcontext(SimpleNamespace(scheduler_address="tls://10.0.0.1:8786"))

    def run(command: list[str]) -> Any:
        ran.append(command)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr("dask.distributed.SSHCluster", cluster)
    monkeypatch.setattr("subprocess.run", run)
    known = copy.deepcopy(dask.config.config)
    try:
        with pytest.raises(SystemExit):
            exec(compile(block("SSHCluster"), "docs/campaigns.md", "exec"), {})
    finally:
        dask.config.config.clear()
        dask.config.config.update(known)
    inspect.signature(Scheduler.__init__).bind(None, **given["scheduler_options"])
    inspect.signature(Worker.__init__).bind(None, "tls://10.0.0.1:8786", **given["worker_options"])
    assert given["worker_options"]["resources"] == {RESOURCE: 1} and given["worker_class"] == "distributed.Worker"
    assert _keys(given["config"]) == _keys(known)  # no key that Dask does not have
    tls = given["config"]["distributed"]["comm"]["tls"]
    assert all(tls[role]["cert"] and tls[role]["key"] for role in ("scheduler", "worker", "client")) and tls["ca-file"]
    (words,) = ran
    options = dict(pairwise(words))
    check(options["--scheduler"], Tls(off=False, **{name: Path(__file__) for name in ("ca", "cert", "key")}))
    accepted = inspect.signature(campaign.run).parameters
    assert {"scheduler", "store", "tls_ca", "tls_cert", "tls_key"} <= {*accepted}
    assert {word for word in words if word.startswith("--")} == {
        "--store", "--scheduler", "--tls-ca", "--tls-cert", "--tls-key",
    }  # fmt: skip


def _keys(config: Any, at: str = "") -> set[str]:
    if not isinstance(config, dict) or not config:
        return {at}
    return {found for key, value in config.items() for found in _keys(value, f"{at}.{key}")}


def test_the_lines_that_start_scheduler_and_workers_use_what_dask_has() -> None:
    for part, command in (("dask worker", dask_worker.main), ("dask scheduler", dask_scheduler.main)):
        words = block(part).replace("\\\n", " ").split()
        known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        used = {word for word in words if word.startswith("--")}
        assert used and used <= known, used - known
