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

from chaos.base.errors import ChaosError
from chaos.base.paths import write_json
from chaos.checks import plainly
from chaos.checks.models import FindingItem, FindingsFile, ReasonItem
from chaos.checks.reasons import Cause
from chaos.statistics.judged import judged

FILE = "last.json"
MOST = 20
"""Earlier runs that are looked at."""
SHOWN = 12
"""Promises that are shown; the findings have all."""
KEPT = {
    "weakness": ("✗", "broken", "weakness"),
    "inconclusive": ("?", "not known", "inconclusive"),
    "known_weakness": ("✗", "broken, as known", "known_weakness"),
    "relaxed": ("~", "broken, as allowed", "relaxed"),
    "unexpected_pass": ("↑", "kept, though called weak", "unexpected_pass"),
    "pass": ("✓", "kept", "pass"),
}
"""A mark, a word and a colour for what a finding counts as; in the order in which promises are shown."""
HELD = ("pass", "unexpected_pass")
DECIDED = (*HELD, "weakness", "known_weakness", "relaxed")


def remember(folder: Path, experiment: str) -> None:
    """Write what earlier runs of the experiment found into a run's folder; nothing where there were none.

    Raises OSError when the folder cannot be written.
    """
    runs: list[tuple[bool, FindingsFile]] = []
    ours = _setup(folder)
    for other in sorted(folder.parent.glob(f"*-{glob.escape(experiment)}-*"), reverse=True):
        if len(runs) == MOST:
            break
        if other.name < folder.name and (found := _read(other)) and _experiment(found) == experiment:
            runs.append((ours is not None and _setup(other) == ours, found))
    if not runs:
        return
    tally: dict[str, list[int]] = {}
    for found in (found for same, found in runs if same):
        for item in found["findings"]:
            kept, decided, asked = tally.setdefault(str(item["title"]), [0, 0, 0])
            good = item["counts_as"] in HELD
            tally[str(item["title"])] = [kept + good, decided + (item["counts_as"] in DECIDED), asked + 1]
    same, before = runs[0]
    last = {
        "run": before["run"].get("name"),
        "started": before["run"].get("started"),
        "outcome": before["outcome"],
        "same": same,
        "findings": {
            item["title"]: {"counts_as": item["counts_as"], "measured_text": item["measured_text"]}
            for item in before["findings"]
        },
    }
    write_json(folder / FILE, {"format": 1, "runs": len(runs), "last": last, "tally": tally})


def _setup(folder: Path) -> tuple[str, str] | None:
    """What two runs must share to be counted together; None where a plan does not say it."""
    plan = _read_any(folder / "plan.json") or {}
    versions = plan.get("versions")
    version = versions.get("opensearch") if isinstance(versions, dict) else None
    return (str(plan["hash"]), str(version)) if plan.get("hash") and version else None


def _read(run: Path) -> FindingsFile | None:
    """An earlier run's findings; None where it cannot be judged."""
    try:
        return judged(run)
    except (ChaosError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _experiment(found: FindingsFile) -> str:
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


def section(findings: FindingsFile, last: dict[str, Any] | None, *, redacted: bool = False) -> dict[str, Any] | None:
    """The half page, what was not kept first; None where nothing was promised and nothing decides.

    ``redacted``: earlier runs were left out on purpose.
    """
    run = (last or {}).get("last") or {}
    before, tally = run.get("findings"), (last or {}).get("tally") or {}
    rows = [_reason(each, findings) for each in findings["reasons"] if each["finding"] is None]
    for item in sorted(findings["findings"], key=lambda item: list(KEPT).index(item["counts_as"])):
        then = "left out" if redacted else "no run before" if before is None else "not asked before"
        if before is not None and item["title"] in before:
            then = f"{KEPT[before[item['title']]['counts_as']][1]}, {before[item['title']]['measured_text']}"
        rows.append(_row(item, then, tally.get(item["title"])))
    if not rows:
        return None
    against = "No earlier run of this experiment is known here."
    if redacted:
        against = "Earlier runs are left out of a redacted page."
    elif run:
        other = "" if run.get("same") else ", of another definition, topology or version"
        against = f"Against the run before: {run.get('run')}, {run.get('outcome')}{other}."
    return {"rows": rows[:SHOWN], "more": max(0, len(rows) - SHOWN), "against": against}


OF_NO_FINDING = {
    Cause.DOCUMENTS: "Only documents that somebody wrote are there",
    Cause.DISK: "Its disks have room",
    Cause.PROCESS: "No process ends or is paused, unless the run does that",
}


def _reason(reason: ReasonItem, findings: FindingsFile) -> dict[str, str]:
    """What decides and is no expectation: nobody asked for it in words, and everybody counts on it."""
    mark, word, kind = KEPT["weakness" if reason["outcome"] == "weakness" else "inconclusive"]
    return {
        "promise": OF_NO_FINDING.get(Cause(reason["cause"]), "The run shows what it claims to show"),
        "mark": mark,
        "word": word,
        "kind": kind,
        "measured": "",
        "before": plainly.reason(reason, findings["findings"], findings["tables"]),
        "sure": "one run",
    }


def _row(item: FindingItem, then: str, counted: list[int] | None) -> dict[str, str]:
    mark, word, kind = KEPT[item["counts_as"]]
    return {
        "promise": plainly.promise(item),
        "mark": mark,
        "word": word,
        "kind": kind,
        "measured": str(item["measured_text"]),
        "before": then,
        "sure": _sure(item, counted),
    }


def _sure(item: FindingItem, counted: list[int] | None) -> str:
    """On how many runs of the same setup a word rests: one run is one run, and one that decided nothing is told."""
    kept, decided, asked = counted or [0, 0, 0]
    kept += item["counts_as"] in HELD
    decided += item["counts_as"] in DECIDED
    asked += 1
    if asked == 1:
        return "one run"
    if decided == 0:
        return f"none of {asked} runs decided it"
    return f"kept in {kept} of {decided} runs" + (f", undecided in {asked - decided}" if asked > decided else "")
