"""The repository that ``init`` writes: whole, valid, and never over something that is there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import chaos
from chaos import cli
from chaos.base.errors import InvalidInput
from chaos.commands import install_source, repository
from chaos.commands.install_source import InstallSource
from chaos.registry import load_experiment

ANY = InstallSource("opensearch-chaos @ git+https://git.example/chaos@v1", "git+https://git.example/chaos@v1")


def test_what_is_written_is_valid_and_whole(tmp_path: Path) -> None:
    written = repository.write(tmp_path / "ours", ANY)
    assert {str(file.relative_to(tmp_path / "ours")) for file in written} == set(repository.FILES)
    experiment = load_experiment(tmp_path / "ours" / "experiments" / "zone-goes-dark.yaml")
    assert experiment.topology.file == str(tmp_path / "ours" / "topologies" / "ours.yaml")
    assert (tmp_path / "ours" / "requirements.txt").read_text() == f"{ANY.requirement}\n"
    assert ANY.says in (tmp_path / "ours" / "README.md").read_text()
    workflow = YAML(typ="safe").load(tmp_path / "ours" / ".github" / "workflows" / "chaos.yml")
    runs = " ".join(step.get("run", "") for step in workflow["jobs"]["smoke"]["steps"])
    assert '-m "chaos and smoke"' in runs and "opensearch-chaos recover" in runs


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("mine")
    with pytest.raises(InvalidInput, match="is there already, and nothing was written"):
        repository.write(tmp_path, ANY)
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


# --------------------------------------------------------------------------- where the package is installed from


def wheel(folder: Path, name: str = "opensearch-chaos") -> Path:
    path = folder / "opensearch_chaos-9.9-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x-9.9.dist-info/METADATA", f"Metadata-Version: 2.4\nName: {name}\nVersion: 9.9\n")
    return path


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, str]]:
    """What programs say, by their first words; no other program is started."""
    known: dict[str, tuple[int, str]] = {}

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        ((code, says),) = [answer for begins, answer in known.items() if begins in " ".join(command)]
        return subprocess.CompletedProcess(command, code, says if not code else "", says if code else "")

    monkeypatch.setattr(install_source.subprocess, "run", run)
    return known


def installed_from(monkeypatch: pytest.MonkeyPatch, told: dict[str, Any] | None) -> None:
    """As if pip had written this into direct_url.json; None: it came from an index."""

    class Installed:
        def read_text(self, name: str) -> str | None:
            return json.dumps(told) if told is not None else None

    monkeypatch.setattr(install_source.metadata, "distribution", lambda name: Installed())


def test_a_wheel_is_brought_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = wheel(tmp_path)
    for source in (
        install_source.stated(str(path), tmp_path),
        [installed_from(monkeypatch, {"url": path.as_uri(), "archive_info": {}}), install_source.own(tmp_path)][1],
    ):
        assert source is not None
        assert source.requirement == f"./wheels/{path.name}" and source.wheel == path
        written = repository.write(tmp_path / source.says.replace("/", "-"), source)
        assert written[-1].name == path.name and written[-1].parent.name == "wheels"
        assert written[-1].read_bytes() == path.read_bytes()
        shutil.rmtree(written[0].parent)


@pytest.mark.parametrize(
    ("said", "ref"),
    [
        ("git+https://git.example/chaos", None),
        ("git+https://git.example/chaos@v1", "v1"),
        ("git+ssh://git@h/c@main", "main"),
    ],
)
def test_a_git_address_that_answers(tmp_path: Path, answers: dict[str, Any], said: str, ref: str | None) -> None:
    answers["git ls-remote"] = (0, "1f\tHEAD\n1f\trefs/heads/main\n2f\trefs/tags/v1\n")
    source = install_source.stated(said, tmp_path)
    assert source == InstallSource(f"opensearch-chaos @ {said}", said)


@pytest.mark.parametrize(
    ("said", "answer", "why"),
    [
        ("git+https://git.example/none", (128, "fatal: repository not found"), "git does not find it: fatal: repos"),
        ("git+https://git.example/chaos@v2", (0, "1f\trefs/heads/main\n"), "no branch and no tag v2"),
        ("index", (1, "ERROR: No matching distribution found"), "pip's index has no opensearch-chaos: ERROR"),
        ("index", (0, "opensearch-chaos (7.0)\nAvailable versions: 7.0, 6.0\n"), "has opensearch-chaos, and not this"),
        ("/nowhere/x.whl", (0, ""), "there is no such wheel or checkout"),
        (".", (0, ""), "this is no checkout"),
    ],
)
def test_a_source_that_has_it_not_is_refused_and_nothing_is_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answers: dict[str, Any],
    said: str,
    answer: tuple[int, str],
    why: str,
) -> None:
    answers[""] = answer
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["opensearch-chaos", "init", "ours", "--install-from", said])
    with pytest.raises(SystemExit) as end:
        cli.main()
    error = " ".join(capsys.readouterr().err.split())
    assert end.value.code == 2 and why in error and "git+https://HOST/PATH[@REF], or index" in error
    assert not (tmp_path / "ours").exists()


def test_files_that_are_no_wheel_of_this_package_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="this is a wheel of requests"):
        install_source.stated(str(wheel(tmp_path, "requests")), tmp_path)
    (tmp_path / "x.whl").write_text("no")
    with pytest.raises(InvalidInput, match="this is no wheel"):
        install_source.stated(str(tmp_path / "x.whl"), tmp_path)


def test_what_was_installed_from_git_or_an_index_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]
) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    installed_from(monkeypatch, {"url": "https://git.example/c", "vcs_info": {"vcs": "git", "commit_id": commit}})
    assert install_source.own(tmp_path).requirement == f"opensearch-chaos @ git+https://git.example/c@{commit}"
    installed_from(monkeypatch, None)
    answers["pip"] = (0, f"opensearch-chaos ({chaos.__version__})\nAvailable versions: 9.0, {chaos.__version__}\n")
    assert install_source.own(tmp_path).requirement == f"opensearch-chaos=={chaos.__version__}"
    installed_from(monkeypatch, {"url": "file:///gone/opensearch_chaos-1.0-py3-none-any.whl", "archive_info": {}})
    with pytest.raises(InvalidInput, match="there is no such wheel"):
        install_source.own(tmp_path)


def test_a_checkout_becomes_a_wheel(tmp_path: Path, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "pyproject.toml").write_text('[project]\nname = "opensearch-chaos"\n')
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    built = wheel(scratch)
    answers["pip wheel"] = (0, "")
    installed_from(monkeypatch, {"url": checkout.as_uri(), "dir_info": {"editable": True}})
    source = install_source.own(scratch)
    assert source.wheel == built and str(checkout) in source.says
    answers["pip wheel"] = (1, "error: no hatchling")
    with pytest.raises(InvalidInput, match=r"no wheel can be built from .*: error: no hatchling"):
        install_source.own(scratch)


def test_it_is_said_with_a_repository_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["x", "init", str(tmp_path), "--from", "http://h:9", "--install-from", "index"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2 and "--install-from is of a repository" in capsys.readouterr().err
