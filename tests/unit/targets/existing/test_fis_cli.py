"""What `fis export` writes and prints is what the real AWS CLI takes; skipped where there is none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import ROOT
from fishands import TinyLab, needs_moto

from chaos.commands import fis as commands
from chaos.definitions.existing import load_existing
from chaos.definitions.fis import FisFile
from chaos.fis_endpoint import standing
from chaos.fis_endpoint.clients import REGION
from chaos.registry import load_experiment
from chaos.targets.existing.fis import Fis
from chaos.targets.existing.target import ExistingTarget

EXPERIMENTS = [ROOT / "experiments" / "fis" / f"{name}.yaml" for name in ("instance-stopped", "process-killed")]
AWS = shutil.which("aws")
pytestmark = pytest.mark.full  # the CLI takes seconds to start


class There:
    def __init__(self, lab: Any, stands: standing.Standing, folder: Path) -> None:
        self.url, self.file = stands.url, folder / "staging.yaml"
        nodes = {
            node.name: {"zone": node.zone, "roles": list(node.roles), "url": f"http://127.0.0.1:{port}"}
            for port, node in enumerate(lab.topology.nodes, 10)
        }
        written = {
            "apiVersion": "opensearch-chaos/v1",
            "kind": "existing",
            "name": "staging",
            "endpoints": ["http://127.0.0.1:9"],
            "identity": {"cluster_uuid": "c" * 22, "cluster_name": "shop"},
            "opensearch": lab.topology.version,
            "zones": {"names": {zone: zone for zone in lab.topology.zones}},
            "nodes": nodes,
            "fis": stands.fis,
        }
        self.file.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in written.items()))
        self.fis = Fis(FisFile.model_validate(stands.fis), "staging")
        self.target = ExistingTarget(load_existing(self.file), lab.topology)

    def aws(self, *words: str) -> tuple[int, str]:
        """Exit code and what it said."""
        assert AWS is not None
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment |= {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_DEFAULT_REGION": REGION}
        environment |= {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
        done = subprocess.run(
            [AWS, "--endpoint-url", self.url, "--output", "json", *words],
            env=environment, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def created(self, file: Path) -> str:
        code, output = self.aws("fis", "create-experiment-template", "--cli-input-json", f"file://{file}")
        assert code == 0, output
        return str(json.loads(output)["experimentTemplate"]["id"])


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[There]:
    if AWS is None:
        pytest.skip("no AWS CLI on the PATH: pip install awscli")
    needs_moto()
    lab: Any = TinyLab("fis-of-a-cli")
    with standing.standing(lab, time_scale=600.0, folder=tmp_path / "endpoint") as stands:
        made = There(lab, stands, tmp_path)
        monkeypatch.setattr(commands, "target_of", lambda on: made.target)
        monkeypatch.setattr(  # the cluster is not asked
            commands,
            "mapped_on",
            lambda paths, there: [
                load_experiment(path).model_copy(update={"topology": lab.topology}) for path in paths
            ],
        )
        yield made


def test_what_export_writes_and_prints_the_cli_takes_and_what_it_deletes_is_gone(
    there: There, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    commands.fis_export(EXPERIMENTS, there.file, out)
    capsys.readouterr()
    made = [there.created(file) for file in sorted(out.iterdir())]
    commands.fis_export(EXPERIMENTS[:1], there.file)
    printed = tmp_path / "printed.json"
    printed.write_text(capsys.readouterr().out)
    made.append(there.created(printed))
    commands.fis_export(EXPERIMENTS[:1], there.file)  # another export has another token
    printed.write_text(capsys.readouterr().out)
    made.append(there.created(printed))
    assert len(set(made)) == 4
    found = there.fis.left()
    for id in made:
        (words,) = [says for says in found if id in says]
        command = words.partition("delete it, ")[2]
        assert command.split()[0] == "aws"
        assert there.aws(*command.split()[1:])[0] == 0
    assert there.fis.left() == []


def test_what_several_print_is_a_map_by_name_whose_parts_the_cli_takes(
    there: There, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.fis_export(EXPERIMENTS, there.file)
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"instance-stopped-f1", "process-killed-f1"}
    for name, request in found.items():
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(request))
        there.created(file)
