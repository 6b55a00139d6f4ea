"""The repository that ``init`` writes: whole, valid, and never over something that is there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import chaos
from chaos import cli
from chaos.base.errors import InvalidInput
from chaos.commands import repository
from chaos.registry import load_experiment


def test_what_is_written_is_valid_and_whole(tmp_path: Path) -> None:
    written = repository.write(tmp_path / "ours")
    assert {str(file.relative_to(tmp_path / "ours")) for file in written} == set(repository.FILES)
    experiment = load_experiment(tmp_path / "ours" / "experiments" / "zone-goes-dark.yaml")
    assert experiment.topology.file == str(tmp_path / "ours" / "topologies" / "ours.yaml")
    assert (tmp_path / "ours" / "requirements.txt").read_text() == f"opensearch-chaos=={chaos.__version__}\n"
    workflow = YAML(typ="safe").load(tmp_path / "ours" / ".github" / "workflows" / "chaos.yml")
    runs = " ".join(step.get("run", "") for step in workflow["jobs"]["smoke"]["steps"])
    assert '-m "chaos and smoke"' in runs and "opensearch-chaos recover" in runs


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("mine")
    with pytest.raises(InvalidInput, match="is there already, and nothing was written"):
        repository.write(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["pytest.ini"]


def test_a_folder_that_cannot_be_made_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(sys, "argv", ["opensearch-chaos", "init", str(tmp_path / "file" / "ours")])
    with pytest.raises(SystemExit) as end:
        cli.main()
    said = capsys.readouterr()
    assert end.value.code == 2 and "cannot write" in said.out + said.err and "Traceback" not in said.err
