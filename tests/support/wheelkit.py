"""The package as a user gets it: its wheel, all that it needs, and an empty environment with nothing else."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from chaos.base import paths

ROOT = Path(__file__).parents[2]
_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def wheelhouse(folder: Path) -> Path:
    """Every wheel of an installation. Those of others are kept while pyproject.toml is the same, ours is made anew."""
    key = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + sys.version.encode()).hexdigest()[:12]
    kept = paths.cache() / "tests" / f"wheels-{key}"
    wheel = [*_PIP, "wheel", "--quiet"]
    if not kept.is_dir():
        made = kept.with_suffix(".made")
        shutil.rmtree(made, ignore_errors=True)
        subprocess.run([*wheel, "--wheel-dir", str(made), str(ROOT)], check=True)
        for ours in made.glob("opensearch_chaos-*.whl"):
            ours.unlink()
        made.rename(kept)
    shutil.copytree(kept, folder)
    subprocess.run([*wheel, "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)], check=True)
    return folder


def offline(wheels: Path) -> dict[str, str]:
    """The environment of a pip that asks no index: what it finds it finds among ``wheels``."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    return ours | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def installed(folder: Path, wheels: Path) -> Path:
    """An empty environment with the wheel in it, in ``folder``; its ``bin``."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    (wheel,) = wheels.glob("opensearch_chaos-*.whl")
    python = folder / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", str(wheel)], env=offline(wheels), check=True)
    return folder / "bin"


def environment_of_ours() -> Path:
    """An environment with this checkout's wheel and what it needs, and nothing else; kept while the wheel is the same.

    To make it takes two minutes and no cluster: ``python tests/support/wheelkit.py``.
    """
    with tempfile.TemporaryDirectory() as folder:
        wheels = wheelhouse(Path(folder) / "wheels")
        (wheel,) = wheels.glob("opensearch_chaos-*.whl")
        key = hashlib.sha256(wheel.read_bytes() + sys.version.encode()).hexdigest()[:12]
        made = paths.cache() / "tests" / f"environment-{key}"
        done = made / "made"
        if not done.exists():
            for old in made.parent.glob("environment-*"):
                shutil.rmtree(old)
            # pip notes where a package came from, and ``opensearch-chaos init`` takes it from there again
            installed(made, shutil.copytree(wheels, made / "wheels"))
            done.touch()
    return made


def megabytes(environment: Path) -> float:
    """What the packages take on disk, in whole blocks, without those that every new environment brings."""
    (site,) = environment.glob("lib/python*/site-packages")
    theirs = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")
    ours = [path for path in site.iterdir() if not path.name.startswith(theirs)]
    return sum(file.lstat().st_blocks * 512 for path in ours for file in (path, *path.rglob("*"))) / 2**20


if __name__ == "__main__":
    print(environment_of_ours())
