"""A run's findings, for those who look at several runs: judged from its history, and never only read.

Judging takes about half a second, so it is done once. The findings.json of a run of rules 2 stands where the same code
made it from the same record (:mod:`chaos.checks.made`). Whatever else was judged here is kept in the cache, under the
digests of code and record: nothing is written into the folder of a run that is only looked at.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from chaos.base import paths
from chaos.checks import evaluate, made, sealed
from chaos.checks.models import FindingsFile
from chaos.history import History
from chaos.history.seal import Look

MOST = 500
"""Judged runs that are kept, 40 kB each."""


def judged(folder: Path) -> FindingsFile:
    """The findings of a run's folder. Raises ChaosError when it is none, or its history cannot be read."""
    history = History.open(folder)
    look = history.seal
    assert look is not None  # it has a plan
    if int(history.plan.get("rules", 1)) >= sealed.RULES and (stored := _read(folder / made.FILE, look)) is not None:
        return stored
    kept = paths.cache() / "judged" / f"{hashlib.sha256(f'{made.code()} {look.digest}'.encode()).hexdigest()}.json"
    if (found := _read(kept, look)) is not None:
        return found
    findings = made.stamped(evaluate(history).to_json(), look)
    with suppress(OSError):  # then it is judged again the next time
        paths.write_json(kept, findings)
        _forget(kept.parent)
    return findings


def _read(file: Path, look: Look) -> FindingsFile | None:
    """Findings that stand for the record; None where there are none, or others."""
    try:
        found: Any = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    return cast(FindingsFile, found) if isinstance(found, dict) and made.stands(found, look) else None


def _forget(folder: Path) -> None:
    """Those that were made first, where there are too many."""
    there = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime)
    for file in there[:-MOST]:
        file.unlink(missing_ok=True)
