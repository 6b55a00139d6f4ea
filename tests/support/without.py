"""This suite as it is where a file of it is missing: a copy of the package, by hard links, without that file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NINE = (
    "sampler",
    "slis",
    "settings",
    "process_exits",
    "echo",
    "neighbour_impact",
    "foreign_traffic",
    "domain_health",
    "controllers",
)
"""The instruments that were named by the run before they were found."""


def copy(folder: Path, *without: str) -> Path:
    """A copy of the package in ``folder``, without these instruments; what it reads beside itself is linked."""
    try:
        shutil.copytree(ROOT / "chaos", folder / "chaos", copy_function=os.link, ignore=shutil.ignore_patterns("*.pyc"))
    except (OSError, shutil.Error):  # another file system
        shutil.rmtree(folder / "chaos", ignore_errors=True)
        shutil.copytree(ROOT / "chaos", folder / "chaos", ignore=shutil.ignore_patterns("*.pyc"))
    for name in ("topologies", "experiments", "docs"):
        (folder / name).symlink_to(ROOT / name)
    for name in without:
        (folder / "chaos" / "instruments" / f"{name}.py").unlink()
    return folder


def python(folder: Path, *arguments: str, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
    """Run Python with the copy instead of what is installed."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
