"""The example package of tests/extension, installed for the processes that a test starts, and nowhere else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from fakes import ROOT

SOURCE = ROOT / "tests" / "extension"


def metadata(folder: Path, name: str, version: str, points: Mapping[str, Mapping[str, str]]) -> None:
    """What an installer writes of a package, next to it."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        line for group, named in points.items() for line in (f"[{group}]", *(f"{k} = {v}" for k, v in named.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def installed(folder: Path) -> Path:
    """A folder with the package and its metadata, to be put on a Python path."""
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]
    shutil.copytree(
        SOURCE / "oschaos_example", folder / "oschaos_example", ignore=shutil.ignore_patterns("__pycache__")
    )
    metadata(folder, project["name"], project["version"], project["entry-points"])
    return folder


def command(
    folder: Path, *arguments: str, cwd: Path | None = None, state: Path | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """``opensearch-chaos`` with the packages in ``folder``."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]), "COLUMNS": "200"}
    if state is not None:
        environment["OPENSEARCH_CHAOS_STATE"] = str(state)
    return subprocess.run(
        [sys.executable, "-m", "chaos", *arguments],
        cwd=cwd or folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
