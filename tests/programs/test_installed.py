"""The package from its wheel in an empty environment: its size, and the first hour's commands without a cluster."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import wheelkit
from ruamel.yaml import YAML

from chaos.campaign import code
from chaos.definitions import shipped

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
MOST_MEGABYTES = 350


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheelkit.wheelhouse(tmp_path_factory.mktemp("wheels") / "house")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Path:
    """The ``bin`` of an environment with the wheel and what it needs."""
    return wheelkit.installed(tmp_path_factory.mktemp("installed") / "venv", wheels)


def run(programs: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(programs / "opensearch-chaos"), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_it_takes_no_more_than_it_may(programs: Path) -> None:
    """334 MB when this was written; pip and setuptools of the environment itself are not counted."""
    assert 200 < wheelkit.megabytes(programs.parent) <= MOST_MEGABYTES


def test_it_is_the_wheel_and_no_checkout(programs: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(programs / "python"), "-c", "import chaos; print(chaos.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(programs.parent))
    missing = subprocess.run([str(programs / "python"), "-c", "import pyarrow, cryptography, moto"], check=False)
    assert missing.returncode == 1


def test_its_code_is_that_of_the_checkout(programs: Path, tmp_path: Path) -> None:
    """A worker that has the wheel takes cells of a client that has the checkout."""
    asked = [str(programs / "python"), "-c", "from chaos.campaign import code; print(code.digest())"]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == code.digest()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "First steps"),
        (("--version",), "."),
        (("faults", "node.kill"), "node.kill"),
        (("experiments",), "graviton/"),
        (("audit", "--print-script"), "curl"),
        (("upstream",), "cancel-waits-for-a-paused-node"),
        (("workload", "list"), "logs"),
        (("validate", "experiments/campaigns/release.yaml"), "release"),
        (("campaign", "plan", "experiments/campaigns/no-fault.yaml"), "no-fault"),
        (("plan", "zone-network-slowdown"), "undo"),
    ],
)
def test_commands_that_need_no_cluster(programs: Path, tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    done = run(programs, tmp_path, *words)
    assert done.returncode == 0 and says in done.stdout, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_every_experiment_that_the_readme_runs_is_in_the_wheel(programs: Path, tmp_path: Path) -> None:
    named = sorted(set(re.findall(r"\brun (experiments/[\w./-]+\.yaml)", (ROOT / "README.md").read_text())))
    assert len(named) >= 8
    done = run(programs, tmp_path, "validate", *named)
    assert done.returncode == 0, done.stderr


def test_every_shipped_experiment_is_valid_from_the_wheel(programs: Path, tmp_path: Path) -> None:
    done = run(programs, tmp_path, "validate", *shipped.files())
    assert done.returncode == 0, done.stderr


def test_what_needs_an_extra_says_what_installs_it(programs: Path, tmp_path: Path) -> None:
    for topology, extra in (("3az-secure", "secure"), ("3az-remote-store", "s3")):
        done = run(programs, tmp_path, "lab", "up", topology)
        assert done.returncode == 2 and f"opensearch-chaos[{extra}]" in done.stderr, done.stdout + done.stderr
    done = run(programs, tmp_path, "run", "no-fault", "--lab", "docker")
    assert done.returncode == 2 and "opensearch-chaos[docker]" in done.stderr, done.stdout + done.stderr
    campaign = ("campaign", "run", "experiments/campaigns/no-fault.yaml", "--scheduler", "tcp://127.0.0.1:8786")
    done = run(programs, tmp_path, *campaign)
    assert done.returncode == 2 and "opensearch-chaos[dask]" in done.stderr, done.stdout + done.stderr


def test_a_stored_run_is_judged(programs: Path, tmp_path: Path) -> None:
    """Its arrivals are a Parquet file that pyarrow wrote; the page is as the one that the run left."""
    sample = tmp_path / "sample"
    shutil.copytree(ROOT / "reports" / "sample", sample)
    before = json.loads((sample / "findings.json").read_text())
    done = run(programs, tmp_path, "report", str(sample))
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((sample / "findings.json").read_text())["findings"] == before["findings"]


def test_the_repository_of_init_installs_and_collects_as_its_workflow_says(
    programs: Path, wheels: Path, tmp_path: Path
) -> None:
    done = run(programs, tmp_path, "init", "ours")
    assert done.returncode == 0 and "it installs opensearch-chaos from wheels/" in done.stdout, done.stderr
    ours = tmp_path / "ours"
    workflow = YAML(typ="safe").load(ours / ".github" / "workflows" / "chaos.yml")
    steps = {step["name"]: step["run"] for step in workflow["jobs"]["smoke"]["steps"] if "run" in step}
    path = f"{programs}:/usr/bin:/bin"
    environment = wheelkit.offline(wheels) | {"PATH": path}
    subprocess.run(["bash", "-ec", steps["Install"]], cwd=ours, env=environment, check=True)
    smoke = " ".join(steps["Smoke"].split()).partition(".venv/bin/python ")[2]
    collected = subprocess.run(
        ["bash", "-ec", f".venv/bin/python {smoke} --collect-only -q"],
        cwd=ours,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert collected.returncode == 0 and "5 tests collected" in collected.stdout, collected.stdout + collected.stderr
    again = run(programs, tmp_path, "init", "others", "--install-from", str(next(wheels.glob("opensearch_chaos-*"))))
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "others" / "requirements.txt").read_text().startswith("./wheels/opensearch_chaos-")
