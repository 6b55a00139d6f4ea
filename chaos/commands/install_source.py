"""Where a repository of a team's own installs this package from: a source that was seen to have it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from email import message_from_string
from importlib import metadata, util
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import chaos
from chaos.base.errors import InvalidInput

PACKAGE = "opensearch-chaos"
WHEELS = "wheels"
"""The folder of the repository that a wheel is copied into."""
REMEDY = "say it: --install-from with a wheel, a checkout, git+https://HOST/PATH[@REF], or index"
_WAIT_SECONDS = 120
_COMMIT = re.compile("[0-9a-f]{40}")


@dataclass(frozen=True)
class InstallSource:
    """``requirement``: the line of requirements.txt. ``wheel``: a file that goes into the repository's ``wheels/``."""

    requirement: str
    says: str
    wheel: Path | None = None


def stated(text: str, scratch: Path) -> InstallSource:
    """What somebody said: a wheel, a checkout, ``git+…`` or ``index``. A checkout's wheel is built in ``scratch``.

    Raises InvalidInput where this package is not there.
    """
    if text == "index":
        return _of_index()
    if text.startswith("git+"):
        return _of_git(text)
    path = Path(text).expanduser()
    if path.suffix == ".whl" and path.is_file():
        return _of_wheel(path, f"the wheel {path}")
    if path.is_dir():
        return _of_checkout(path, scratch)
    raise InvalidInput(f"--install-from {text}: there is no such wheel or checkout", remedy=REMEDY)


def own(scratch: Path) -> InstallSource:
    """Where this installation came from (``direct_url.json``, PEP 610). Raises InvalidInput where that is gone."""
    try:
        written = metadata.distribution(PACKAGE).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return _of_checkout(Path(chaos.__file__).parents[1], scratch)
    return _as_installed(json.loads(written), scratch) if written else _of_index()


def _as_installed(told: dict[str, Any], scratch: Path) -> InstallSource:
    address = str(told["url"])
    if "vcs_info" in told:
        return _from_git(f"git+{address}@{told['vcs_info']['commit_id']}")
    parts = urlsplit(address)
    if parts.scheme != "file":
        return InstallSource(f"{PACKAGE} @ {address}", address)
    return stated(unquote(parts.path), scratch)


# ------------------------------------------------------------------------------------------------ each kind


def _of_wheel(path: Path, says: str) -> InstallSource:
    try:
        with zipfile.ZipFile(path) as wheel:
            (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
            found = message_from_string(wheel.read(name).decode())["Name"]
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InvalidInput(f"--install-from {path}: this is no wheel: {error}", remedy=REMEDY) from None
    if found != PACKAGE:
        raise InvalidInput(f"--install-from {path}: this is a wheel of {found}", remedy=REMEDY)
    return InstallSource(f"./{WHEELS}/{path.name}", f"{WHEELS}/{path.name}, from {says}", path)


def _of_checkout(folder: Path, scratch: Path) -> InstallSource:
    settings = folder / "pyproject.toml"
    if not settings.is_file() or f'name = "{PACKAGE}"' not in settings.read_text():
        raise InvalidInput(f"--install-from {folder}: this is no checkout of {PACKAGE}", remedy=REMEDY)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(scratch)]
    if util.find_spec("hatchling") is not None:
        command.append("--no-build-isolation")  # what builds it is here: nothing is fetched
    _run([*command, str(folder.resolve())], f"no wheel can be built from {folder}")
    (built,) = scratch.glob("*.whl")
    return _of_wheel(built, f"the checkout {folder}")


def _of_git(text: str) -> InstallSource:
    """A git address, asked whether it is there, and whether it has the ref behind ``@``."""
    address, ref = _split(text.removeprefix("git+"))
    listed = _run(["git", "ls-remote", address], f"--install-from {text}: git does not find it")
    names = {line.split("\t")[1] for line in listed.splitlines() if "\t" in line}
    if ref and not _COMMIT.fullmatch(ref) and not {f"refs/heads/{ref}", f"refs/tags/{ref}", ref} & names:
        raise InvalidInput(f"--install-from {text}: {address} has no branch and no tag {ref}", remedy=REMEDY)
    return _from_git(text)


def _from_git(text: str) -> InstallSource:
    return InstallSource(f"{PACKAGE} @ {text}", text)


def _split(address: str) -> tuple[str, str]:
    """An address and the ref behind its path; an ``@`` before the host is a user's."""
    parts = urlsplit(address)
    path, _, ref = parts.path.partition("@")
    return parts._replace(path=path).geturl(), ref


def _of_index() -> InstallSource:
    wanted = chaos.__version__
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "index", "versions", PACKAGE]
    listed = _run(command, f"pip's index has no {PACKAGE}")
    versions = next((line for line in listed.splitlines() if line.startswith("Available versions:")), "")
    if wanted not in versions.partition(":")[2].replace(" ", "").split(","):
        raise InvalidInput(f"pip's index has {PACKAGE}, and not this version, {wanted}", remedy=REMEDY)
    return InstallSource(f"{PACKAGE}=={wanted}", f"version {wanted} of pip's index")


def _run(command: list[str], says: str) -> str:
    """A program's output. Raises InvalidInput, which begins with ``says``, where it cannot say so in time."""
    environment = os.environ | {"GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_WAIT_SECONDS, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidInput(f"{says}: {error}", remedy=REMEDY) from None
    if done.returncode:
        last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "it says nothing")
        raise InvalidInput(f"{says}: {last.strip()}", remedy=REMEDY)
    return done.stdout
