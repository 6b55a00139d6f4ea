"""Experiments that come with the package, by their names: found, listed, copied; never in place of somebody's own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import chaos
from chaos import cli
from chaos.base.errors import InvalidInput
from chaos.definitions import shipped
from chaos.registry import load_experiment

ROOT = Path(__file__).parents[3]


def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["opensearch-chaos", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    out = capsys.readouterr()
    return int(end.value.code or 0), out.out, " ".join(out.err.split())


@pytest.mark.parametrize("name", ["no-fault", "experiments/no-fault.yaml", "no-fault.yaml", "experiments/no-fault"])
def test_a_name_is_found_from_anywhere(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shipped.found(Path(name)) == ROOT / "experiments" / "no-fault.yaml"
    assert shipped.found(Path("ab/refresh-interval")).is_file()


def test_what_is_there_and_what_means_another_place_is_as_it_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "no-fault.yaml").write_text("mine")
    for name in (
        "experiments/no-fault.yaml",
        "/no-fault.yaml",
        "../experiments/no-fault.yaml",
        "~/no-fault.yaml",
        "ours/no-fault.yaml",
        "experiments/none.yaml",
    ):
        assert shipped.found(Path(name)) == Path(name)


def test_each_is_listed_and_can_be_read_without_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As from a wheel: experiments and topologies beside the package's modules."""
    package = tmp_path / "chaos"
    package.mkdir()
    for name in ("experiments", "topologies"):
        (package / name).symlink_to(ROOT / name)
    monkeypatch.setattr(chaos, "__file__", str(package / "__init__.py"))
    monkeypatch.chdir(tmp_path)
    code, out, _ = said(monkeypatch, capsys, "experiments")
    names = [line.split()[0] for line in out.splitlines()]
    written = {str(file.relative_to(ROOT / "experiments")) for file in (ROOT / "experiments").rglob("*.yaml")}
    assert code == 0 and {f"{name}.yaml" for name in names} == written
    assert load_experiment(shipped.named("data-node-kill")).topology.file.startswith(str(package))
    code, _, err = said(monkeypatch, capsys, "validate", "experiments/no-fault.yaml")
    assert code == 0 and "experiments/no-fault.yaml: the one that comes with opensearch-chaos" in err
    code, _, err = said(monkeypatch, capsys, "validate", "no-falt.yaml")
    assert code == 2 and "there is no such file" in err


def test_copies_bring_what_they_name_and_never_write_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, _ = said(monkeypatch, capsys, "experiments", "no-fault", "ingestion/flat-object", "--copy-to", "ours")
    assert code == 0
    assert {str(path.relative_to(tmp_path / "ours")) for path in (tmp_path / "ours").rglob("*.yaml")} == {
        "experiments/no-fault.yaml",
        "experiments/ingestion/flat-object.yaml",
        "experiments/ingestion/workloads/attributes-dynamic.yaml",
        "experiments/ingestion/workloads/attributes-flat.yaml",
    }
    load_experiment(tmp_path / "ours" / "experiments" / "ingestion" / "flat-object.yaml", sides=True)
    (tmp_path / "ours" / "experiments" / "no-fault.yaml").write_text("mine")
    code, _, err = said(monkeypatch, capsys, "experiments", "no-fault", "no-fault", "--copy-to", "ours")
    assert code == 2 and "is there already, and nothing was written" in err
    assert (tmp_path / "ours" / "experiments" / "no-fault.yaml").read_text() == "mine"
    code, _, err = said(monkeypatch, capsys, "experiments", "no-falt", "--copy-to", "other")
    assert code == 2 and 'did you mean "no-fault"' in err and not (tmp_path / "other").exists()
    code, _, err = said(monkeypatch, capsys, "experiments", "--copy-to", "other")
    assert code == 2 and "name some" in err
    with pytest.raises(InvalidInput, match="brings no experiments"):
        monkeypatch.setattr(chaos, "__file__", str(tmp_path / "chaos" / "__init__.py"))
        shipped.folder()


def test_companions_are_files_of_the_same_folder() -> None:
    named = shipped.with_companions(shipped.named("protections/indexing-pressure"))
    assert [path.name for path in named] == ["indexing-pressure.yaml", "large-documents.yaml"]
