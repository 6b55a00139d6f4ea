"""What the wheel is made of, by its settings: one version, all that the docs name, nothing that is large and rare."""

from __future__ import annotations

import re
import tomllib

from fakes import ROOT

import chaos
from chaos.definitions import shipped

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]


def test_the_version_has_one_source_and_the_changelog_is_of_it() -> None:
    assert PROJECT["dynamic"] == ["version"] and "version" not in PROJECT
    assert SETTINGS["tool"]["hatch"]["version"] == {"path": "chaos/__init__.py"}
    newest = re.search(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None and newest[1].rstrip(",") == chaos.__version__


def test_an_index_would_take_its_metadata() -> None:
    assert PROJECT["license"] == "Apache-2.0" and (ROOT / PROJECT["license-files"][0]).is_file()
    assert not any(each.startswith("License ::") for each in PROJECT["classifiers"])  # beside an expression: refused
    assert len(PROJECT["description"]) < 512 and (ROOT / PROJECT["readme"]).is_file()


def test_the_wheel_brings_experiments_and_topologies() -> None:
    wheel = SETTINGS["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"] == {"experiments": "chaos/experiments", "topologies": "chaos/topologies"}
    brought = SETTINGS["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {"/chaos", "/experiments", "/topologies"} <= set(brought)  # a wheel is built from it, too


def test_every_extra_is_in_all_and_in_the_docs() -> None:
    extras = PROJECT["optional-dependencies"]
    (every,) = extras["all"]
    named = set(re.findall(r"[\w-]+", every.partition("[")[2]))
    assert named == set(extras) - {"all", "dev"}
    page = (ROOT / "docs" / "ci.md").read_text()
    assert all(f"`{each}`" in page for each in named)


def test_no_large_package_is_needed() -> None:
    """pyarrow reads in tests what we write; cryptography is of secured labs alone."""
    needed = {re.split(r"[<>=;\[ ]", each)[0] for each in PROJECT["dependencies"]}
    assert not needed & {"pyarrow", "cryptography", "boto3", "moto", "docker", "aiohttp", "bokeh", "distributed"}


def test_experiments_that_the_docs_run_are_shipped() -> None:
    """Those of pages for newcomers; others are written on the page that runs them."""
    pages = [ROOT / "README.md", *(ROOT / "docs" / name for name in ("image.md", "ci.md", "which-path.md", "ab.md"))]
    own = {"zone-goes-dark", "zone-out"}  # of `init`, and of the staging box
    for page in pages:
        named = re.findall(r"\b(?:run|plan|validate) experiments/([\w/-]+)\.yaml", page.read_text())
        assert set(named) - own <= set(shipped.files()), page.name
