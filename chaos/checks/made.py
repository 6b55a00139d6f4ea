"""Who made a findings.json, so that it stands for judging the run again only where that would say the same.

``made_by`` holds the rules, the code that judged and the record that it read, each as a digest, and a digest of the
findings themselves: what was judged by another version, from other files, or was edited since, is judged anew.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chaos.base.paths import write_json
from chaos.checks import catalogue
from chaos.checks.models import FindingsFile, MadeBy
from chaos.history.seal import Look

FILE = "findings.json"
ROOMS = ("chaos.base", "chaos.history", "chaos.checks")
"""The rooms on which a verdict rests."""
ALSO = ("chaos.definitions.slis", "chaos.opensearch.routing")
"""What the checks use of other rooms."""


@functools.cache
def code() -> str:
    """SHA-256 over the code that judges, with the checks that other packages bring."""
    digest = hashlib.sha256()
    for file in sorted(_sources()):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _sources() -> Iterator[Path]:
    for name in ROOMS:
        (folder,) = importlib.util.find_spec(name).submodule_search_locations  # type: ignore[union-attr, misc]
        yield from Path(folder).rglob("*.py")
    brought = {check.measure.__module__ for check in catalogue.checks().values()}
    for name in (*ALSO, *(each for each in brought if not each.startswith(ROOMS))):
        if (spec := importlib.util.find_spec(name)) is not None and spec.origin is not None:
            yield Path(spec.origin)


def stamped(findings: FindingsFile, look: Look | None) -> FindingsFile:
    """The findings with who made them. ``look``: the record that they were made from; None: it was in no folder."""
    if look is None or look.digest is None:
        return findings
    by: MadeBy = {"rules": int(findings["rules"]["judged_by"]), "code": code(), "record": look.digest}
    return {**findings, "made_by": {**by, "findings": _digest(findings)}}


def stands(findings: Mapping[str, Any], look: Look | None) -> bool:
    """Whether judging the record that ``look`` saw would give these findings."""
    by = findings.get("made_by")
    if look is None or not isinstance(by, dict):
        return False
    said = {name: value for name, value in findings.items() if name != "made_by"}
    return by.get("code") == code() and by.get("record") == look.digest and by.get("findings") == _digest(said)


def _digest(findings: Mapping[str, Any]) -> str:
    """Over the findings as JSON has them, so that a file that was read gives the same."""
    as_read = json.loads(json.dumps(findings))
    return hashlib.sha256(json.dumps(as_read, sort_keys=True).encode()).hexdigest()


def write(folder: Path, findings: FindingsFile, look: Look | None) -> FindingsFile:
    """Write a folder's findings.json, with who made it; returns what was written. Raises OSError."""
    made = stamped(findings, look)
    write_json(folder / FILE, made)
    return made
