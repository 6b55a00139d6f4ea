"""What another package brings is there as ours is: in the catalogue, in files, in plans; or it says why it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from extending import command, installed, metadata
from fakes import ROOT

EXPERIMENT = f"""\
apiVersion: opensearch-chaos/v1
name: blocked
topology: {ROOT / "topologies" / "3az.yaml"}
load: {{write: {{rate: 50/s, good: ok within 1s}}, workload: WORKLOAD}}
phases:
  healthy: {{for: 20s}}
  blocked:
    for: 20s
    inject:
      example.write_block: {{PARAMETERS}}
  after: {{until: {{green: true, within: 60s}}, undo: example.write_block}}
expect:
  - {{write.good: ">= 99%", phase: blocked}}
  - {{example.nodes_left: EXPECTED, phase: blocked}}
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("package"))


def experiment(folder: Path, parameters: str = "{}", expected: str = "0", workload: str = "notes") -> str:
    file = folder / "blocked.yaml"
    text = EXPERIMENT.replace("{PARAMETERS}", parameters).replace("EXPECTED", expected)
    file.write_text(text.replace("WORKLOAD", workload))
    return str(file)


def test_a_kind_and_its_provider_are_in_the_catalogue(package: Path) -> None:
    done = command(package, "faults", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = [each for each in json.loads(done.stdout)["faults"] if each["kind"] == "example.write_block"]
    assert found["providers"] == ["example"] and found["available"] and found["family"] == "index"
    assert found["mechanism"] == "the index' setting index.blocks.write"


def test_a_file_names_it_and_a_mistake_in_it_has_its_position(package: Path, tmp_path: Path) -> None:
    done = command(package, "validate", experiment(tmp_path))
    assert done.returncode == 0, done.stderr
    done = command(package, "validate", experiment(tmp_path, "{blok: true}"))
    assert done.returncode == 2 and "blocked.yaml:10:29:" in done.stderr and "blok" in done.stderr, done.stderr


def test_a_workload_is_chosen_by_its_name(package: Path, tmp_path: Path) -> None:
    done = command(package, "validate", experiment(tmp_path, workload="letters"))
    assert done.returncode == 2 and "blocked.yaml:4:" in done.stderr, done.stderr
    assert "documents" in done.stderr and "notes" in done.stderr, done.stderr


def test_a_check_is_compared_as_its_unit_says(package: Path, tmp_path: Path) -> None:
    done = command(package, "validate", experiment(tmp_path, expected='"<= 10s"'))
    assert done.returncode == 2 and "blocked.yaml:14:" in done.stderr and "count" in done.stderr, done.stderr


def test_a_plan_says_who_carries_it_out_and_takes_it_back(package: Path, tmp_path: Path) -> None:
    done = command(package, "plan", experiment(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    (step,) = [each for each in json.loads(done.stdout)["steps"] if "fault" in each]
    assert (step["provider"], step["grade"]) == ("example", "path")
    assert step["moves"] == ["example.block index=chaos"] and step["inverse"] == ["example.unblock index=chaos"]


def test_a_target_is_chosen_by_its_name(package: Path, tmp_path: Path) -> None:
    done = command(package, "faults", "--lab", "quiet", "--json")
    assert done.returncode == 0, done.stderr
    done = command(package, "faults", "--lab", "podman")
    assert done.returncode == 2 and "choose one of: local, docker, quiet" in done.stderr, done.stderr


def test_without_the_package_its_kind_is_unknown(tmp_path: Path) -> None:
    done = command(tmp_path, "validate", experiment(tmp_path))
    assert done.returncode == 2 and "example.write_block" in done.stderr


@pytest.mark.parametrize(
    ("group", "code", "says"),
    [
        ("kinds", "raise RuntimeError('oh no')", "cannot be loaded: RuntimeError: oh no"),
        ("providers", "THING = 3", "which is no provider"),
        ("kinds", "THING = 3", "which is no kind of fault"),
        ("providers", "from chaos.providers.process import PROVIDER as THING", "two providers named 'process'"),
        ("checks", "THING = 3", "which is no check"),
        ("checks", "from chaos.checks.movement import CHECKS; THING = CHECKS[0]", "two metrics named 'shards.moved'"),
        ("kinds", "from chaos.faults.kinds.node import NodeKill as THING", "two kinds of fault named 'node.kill'"),
    ],
)
def test_a_package_that_is_broken_is_named_and_nothing_is_started(
    tmp_path: Path, group: str, code: str, says: str
) -> None:
    (tmp_path / "theirs.py").write_text(code + "\n")
    metadata(tmp_path, "their-package", "0.1", {f"opensearch_chaos.{group}": {"theirs": "theirs:THING"}})
    done = command(tmp_path, "faults")
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_a_target_that_is_broken_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text("raise RuntimeError('oh no')\n")
    metadata(tmp_path, "their-package", "0.1", {"opensearch_chaos.targets": {"theirs": "theirs:THING"}})
    assert command(tmp_path, "faults", "--lab", "local").returncode == 0
    done = command(tmp_path, "faults", "--lab", "theirs")
    assert done.returncode == 2 and "package their-package 0.1" in done.stderr and "oh no" in done.stderr, done.stderr
