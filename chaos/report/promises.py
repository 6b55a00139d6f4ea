"""For who pays: each promise, whether it was kept, how it was before, and how sure that is; in half a page.

What earlier runs of the same experiment found is written down beside a run's record (``last.json``) when the run ends,
so that its report can still be drawn from its folder alone. Earlier runs are those in the same folder whose names say
that they are of the same experiment, the newest :data:`MOST` of them; runs that were repeated or renamed elsewhere are
not known.
"""

from __future__ import annotations

import glob
import json
from pathlib import Path
from typing import Any

from chaos.base.paths import write_json
from chaos.checks import plainly
from chaos.checks.models import FindingItem, FindingsFile

FILE = "last.json"
MOST = 20
"""Earlier runs that are looked at."""
SHOWN = 12
"""Promises that are shown; the findings have all."""
KEPT = {
    "pass": ("✓", "kept", "pass"),
    "weakness": ("✗", "broken", "weakness"),
    "known_weakness": ("✗", "broken, as known", "known_weakness"),
    "unexpected_pass": ("✓", "kept, though called weak", "pass"),
    "inconclusive": ("?", "not known", "inconclusive"),
}
DECIDED = ("pass", "weakness", "known_weakness", "unexpected_pass")


def remember(folder: Path, experiment: str) -> None:
    """Write what earlier runs of the experiment found into a run's folder; nothing where there were none.

    Raises OSError when the folder cannot be written.
    """
    runs: list[dict[str, Any]] = []
    for other in sorted(folder.parent.glob(f"*-{glob.escape(experiment)}-*"), reverse=True):
        if len(runs) == MOST:
            break
        if other.name < folder.name and (found := _read(other / "findings.json")) and _experiment(found) == experiment:
            runs.append(found)
    if not runs:
        return
    tally: dict[str, list[int]] = {}
    for found in runs:
        for item in found["findings"]:
            kept, decided = tally.setdefault(str(item["title"]), [0, 0])
            good = item["counts_as"] in ("pass", "unexpected_pass")
            tally[str(item["title"])] = [kept + good, decided + (item["counts_as"] in DECIDED)]
    last = {
        "run": runs[0]["run"].get("name"),
        "started": runs[0]["run"].get("started"),
        "outcome": runs[0]["outcome"],
        "findings": {
            item["title"]: {"counts_as": item["counts_as"], "measured_text": item["measured_text"]}
            for item in runs[0]["findings"]
        },
    }
    write_json(folder / FILE, {"format": 1, "runs": len(runs), "last": last, "tally": tally})


def _read(file: Path) -> dict[str, Any] | None:
    """An earlier run's findings; None where there are none that can be read."""
    try:
        found = json.loads(file.read_text())
        return found if isinstance(found["findings"], list) and isinstance(found["run"], dict) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _experiment(found: dict[str, Any]) -> str:
    return str(found["run"].get("experiment"))


def earlier(folder: Path) -> dict[str, Any] | None:
    """What was written down of earlier runs; None for the first one, and for folders from before this was."""
    found = _read_any(folder / FILE)
    return found if found and isinstance(found.get("last"), dict) else None


def _read_any(file: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def section(findings: FindingsFile, last: dict[str, Any] | None) -> dict[str, Any] | None:
    """The half page; None where nothing was promised."""
    items = findings["findings"]
    if not items:
        return None
    before = ((last or {}).get("last") or {}).get("findings") or {}
    rows = [_row(item, before.get(item["title"]), (last or {}).get("tally") or {}) for item in items[:SHOWN]]
    run = (last or {}).get("last") or {}
    return {
        "rows": rows,
        "more": max(0, len(items) - SHOWN),
        "against": f"{run.get('run')}, {run.get('outcome')}" if run else None,
        "runs": 1 + int((last or {}).get("runs") or 0),
    }


def _row(item: FindingItem, before: dict[str, Any] | None, tally: dict[str, Any]) -> dict[str, str]:
    mark, word, kind = KEPT[item["counts_as"]]
    then = "first run"
    if before is not None:
        then = f"{KEPT[before['counts_as']][1]}, {before['measured_text']}"
    return {
        "promise": plainly.promise(item),
        "mark": mark,
        "word": word,
        "kind": kind,
        "measured": str(item["measured_text"]),
        "before": then,
        "sure": _sure(item, tally.get(item["title"])),
    }


def _sure(item: FindingItem, counted: list[int] | None) -> str:
    """On how many runs a word rests: one run is one run."""
    kept, decided = counted or [0, 0]
    kept += item["counts_as"] in ("pass", "unexpected_pass")
    decided += item["counts_as"] in DECIDED
    if decided == 0:
        return "no run decided it"
    return "one run" if decided == 1 else f"kept in {kept} of {decided} runs"
