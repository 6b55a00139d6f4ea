"""Which code makes a campaign's runs: a digest over the files of this package, as they are on disk.

It is in no cell's key, because then each change of a word would have all cells made again; it is said in every attempt
and commit, workers of other code are refused, and a scorecard says where its runs were made by several. Where the
package lies in its own git checkout an attempt names the commit as well, and what was changed since.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import chaos

DIGITS = 16
DECIDES = ("chaos", "experiments", "topologies", "pyproject.toml", "requirements.lock", "Makefile")
"""What of a checkout decides what a run does."""
GIT_SECONDS = 30.0
"""So long one question to git may take."""
BROUGHT = ("experiments", "topologies")
"""Folders that a wheel has in the package and a checkout beside it: definitions, which a cell's key holds itself."""


def digest() -> str:
    """The first hexadecimal digits of a SHA-256 over names and contents: of sources, and of what they read, such as
    workloads and the locks of OpenSearch. Read anew each time: a run's process loads them as they are when it begins.
    """
    package, found = Path(chaos.__file__).parent, hashlib.sha256()
    for file in sorted(package.rglob("*")):
        name = file.relative_to(package)
        if name.parts[0] not in BROUGHT and not _left_by_tools(name) and file.is_file():
            found.update(f"{name}\0{file.stat().st_size}\0".encode())
            found.update(file.read_bytes())
    return found.hexdigest()[:DIGITS]


def _left_by_tools(name: Path) -> bool:
    """Compiled sources, caches and files of editors: they are in one copy of the package and not in another."""
    return name.suffix == ".pyc" or any(part == "__pycache__" or part.startswith(".") for part in name.parts)


def checkout(package: Path = Path(chaos.__file__).parent) -> dict[str, Any] | None:
    """``{"commit": 40 digits, "changed": [files]}``: the commit that is checked out, and which of :data:`DECIDES` are
    not as they are in it, new files too. None where the package lies in no git checkout of its own, or git does not
    say: there is no git, or the checkout is another user's."""
    root = package.parent
    try:
        commit, top = _git(root, "rev-parse", "HEAD", "--show-toplevel").splitlines()
        if Path(top).resolve() != root.resolve():  # it is installed inside a checkout of something else
            return None
        status = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", *DECIDES)
        changed = sorted(line[3:] for line in _git(root, *status).split("\0") if line)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "changed": changed}


def _git(root: Path, *arguments: str) -> str:
    """What git answers. Raises OSError, ValueError (no text) and SubprocessError. Nothing is written: no index is
    refreshed, which would be root's from then on."""
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=GIT_SECONDS).stdout
