"""Which code makes a campaign's runs: a digest over the sources of this package, as they are on disk.

It is in no cell's key, because then each change of a word would have all cells made again; it is said in every attempt
and commit, workers of other code are refused, and a scorecard says where its runs were made by several.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import chaos

DIGITS = 16
BROUGHT = ("experiments", "topologies")
"""Folders that a wheel has in the package and a checkout beside it: definitions, which a cell's key holds itself."""


def digest() -> str:
    """The first hexadecimal digits of a SHA-256 over names and contents. Read anew each time: a run's process loads
    the sources as they are when it begins."""
    package, found = Path(chaos.__file__).parent, hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        name = file.relative_to(package)
        if name.parts[0] not in BROUGHT:
            found.update(f"{name}\0{file.stat().st_size}\0".encode())
            found.update(file.read_bytes())
    return found.hexdigest()[:DIGITS]
