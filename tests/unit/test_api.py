"""``chaos.api`` is all that another package needs, and a package for another version is refused by name."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from extending import SOURCE, metadata
from fakes import ROOT

from chaos import api
from chaos.base import plugins
from chaos.base.errors import InvalidInput

MODULES = sorted(path.stem for path in (ROOT / "chaos" / "api").glob("*.py") if path.stem != "__init__")


def imports(file: Path) -> set[str]:
    """What a file imports of chaos."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found |= {name for name in names if name == "chaos" or name.startswith("chaos.")}
    return found


def test_the_example_package_imports_nothing_else() -> None:
    files = sorted(SOURCE.rglob("*.py"))
    found = set().union(*(imports(file) for file in files))
    assert found and all(name.startswith("chaos.api.") for name in found), found
    assert len(files) >= 6


def test_the_recipes_name_nothing_else() -> None:
    named = set(re.findall(r"`(chaos\.[A-Za-z_.]+)", (ROOT / "CONTRIBUTING.md").read_text()))
    assert named and {name for name in named if not name.startswith("chaos.api")} == set(), named


@pytest.mark.parametrize("module", MODULES)
def test_each_name_is_there_and_explained(module: str) -> None:
    there = importlib.import_module(f"chaos.api.{module}")
    assert there.__doc__ and sorted(there.__all__) == sorted(set(there.__all__))
    for name in there.__all__:
        assert getattr(there, name) is not None
    public = {name for name in vars(there) if not name.startswith(("_", "@"))} - {"annotations"}
    assert public == set(there.__all__)


def test_nothing_of_ours_goes_by_it() -> None:
    """It is the face; behind it names move freely."""
    behind = [file for file in (ROOT / "chaos").rglob("*.py") if "api" not in file.relative_to(ROOT).parts]
    assert not [file for file in behind if any(name.startswith("chaos.api") for name in imports(file))]


def test_a_check_of_a_package_loads_no_lab() -> None:
    code = (
        "import sys, chaos.api.checks; print([m for m in sys.modules if m.startswith(('chaos.targets', 'chaos.load'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_metadata_of_a_package_can_name_each_version() -> None:
    assert {getattr(api, f"V{number}") for number in plugins.API_VERSIONS} == plugins.API_VERSIONS
    assert max(plugins.API_VERSIONS) == api.VERSION


def brought(folder: Path, monkeypatch: pytest.MonkeyPatch, asked: str | None) -> object:
    """What a package brings that asks for this."""
    points = {"opensearch_chaos.checks": {"theirs": "os.path:sep"}}
    if asked is not None:
        points["opensearch_chaos.api"] = {"version": asked}
    metadata(folder, "their-package", "0.1", points)
    monkeypatch.syspath_prepend(folder)
    (point,) = [each for each in entry_points(group="opensearch_chaos.checks") if each.name == "theirs"]
    return plugins.loaded(point)


@pytest.mark.parametrize("asked", [None, "chaos.api:V0"])
def test_a_package_for_a_version_that_is_here_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str | None
) -> None:
    assert brought(tmp_path, monkeypatch, asked) == "/"


@pytest.mark.parametrize(
    ("asked", "says"),
    [("chaos.api:V7", "asks for version 7 of chaos.api"), ("chaos.api:NEW", "'chaos.api:NEW', which is no version")],
)
def test_a_package_for_another_version_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, says: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        brought(tmp_path, monkeypatch, asked)
    said = str(caught.value)
    assert says in said and "package their-package 0.1" in said and "opensearch-chaos has 0" in said
    assert "install a version of that package that fits" in str(caught.value.remedy)
