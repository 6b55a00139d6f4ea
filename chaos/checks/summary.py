"""The run in a few short sentences, for the person who reads nothing else.

First what decides: the headline. Then what users saw: which of them noticed, for how long, during what, and when it
was over; that is built from what was measured, never from what was expected.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from chaos.base import text
from chaos.checks import plainly, writes
from chaos.checks.models import FaultItem, FindingItem, ReasonItem
from chaos.checks.reasons import Cause

NOTICED = 0.5
"""Outage-equivalent seconds below which an operation "held"."""


def told(
    outcome: str,
    tables: dict[str, Any],
    reasons: Sequence[ReasonItem],
    findings: Sequence[FindingItem],
    faults: Sequence[FaultItem],
) -> tuple[str, str]:
    """(headline, the rest), each of whole sentences. Arguments are parts of findings.json, reasons in their order.

    The headline is what decides: the first reason, and whatever else stands with it as high. Of a run that passed it
    is what users saw. The rest is what users saw, and every process that ended unasked.
    """
    story = _story(tables, faults, {f["op"] for f in findings if f["verdict"] == "fail" and f["op"]})
    lost = writes.broken(tables)
    kept = f"{lost}." if lost else "No acknowledged write was lost." if _none_lost(tables) else ""
    if outcome == "pass":
        return _joined(*story) or kept or "Everything that was expected held.", _joined(kept if story else "")
    mine = [reason for reason in reasons if reason["outcome"] == outcome]
    said = [plainly.reason(reason, findings, tables) for reason in mine[:1]]
    ended = [str(end["says"]) for end in tables.get("ends") or [] if not _in(str(end["says"]), said)]
    if outcome == "weakness":
        said += [plainly.reason(reason, findings, tables) for reason in _also(mine)]
        headline = _joined(*(f"{each}." for each in said))
        if lost and _in(lost, said):
            kept = ""
        return headline, _joined(*story, kept, *(f"{each}." for each in ended[:2]))
    first = _lower(said[0]) if said else {"error": "the run failed", "aborted": "a guard stopped it"}.get(outcome)
    beside = [plainly.reason(reason, findings, tables) for reason in _beside(reasons)]
    stands = f"This stands beside it: {'; '.join(map(_lower, beside))}." if beside else ""
    rest = [*([kept] if lost and not _in(lost, beside) else []), *(f"{each}." for each in ended[:2])]
    if outcome == "error":
        return _joined(f"No verdict: {first}.", stands), _joined(*rest)
    if outcome == "aborted":
        until = [f"Until then {_lower(each)}" for each in story[:1]]
        return _joined(f"Stopped early: {first}.", stands), _joined(*until, *story[1:], *rest)
    return f"Nothing proven: {first or 'too little data'}.", _joined(*rest)


ALSO = 2
"""How many more sentences a headline may have."""


def _also(mine: Sequence[ReasonItem]) -> list[ReasonItem]:
    """What stands beside the first reason of a weakness: one of each other kind that is as grave."""
    kinds = {mine[0]["cause"]} if mine else set()
    found = []
    for reason in mine[1:]:
        if reason["cause"] not in kinds and reason["cause"] in GRAVE:
            kinds.add(reason["cause"])
            found.append(reason)
    return found[:ALSO]


def _beside(reasons: Sequence[ReasonItem]) -> list[ReasonItem]:
    """What was seen to be wrong with data in a run that ended as an error or was stopped: neither takes that away."""
    data = (Cause.DATA, Cause.DOCUMENTS)
    return [each for each in reasons if each["outcome"] == "weakness" and each["cause"] in data][:BESIDE]


BESIDE = 3
"""How many findings about data a headline names beside what ended the run."""
GRAVE = (Cause.PROCESS, Cause.DISK, Cause.DATA, Cause.DOCUMENTS, Cause.USERS)


def _joined(*sentences: str) -> str:
    return " ".join(each for each in sentences if each)


def _in(says: str, said: list[str]) -> bool:
    return any(says.lower() in each.lower() for each in said)


def _none_lost(tables: dict[str, Any]) -> bool:
    return (tables.get("writes") or {}).get("value") == 0


def _story(tables: dict[str, Any], faults: Sequence[FaultItem], missed: Collection[str]) -> list[str]:
    """What users saw, in sentences. ``missed``: operations that missed a target; those did not hold, however short."""
    held: list[str] = []
    hurt: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for op, row in tables.get("outage", {}).items():
        if row["total"] < NOTICED and op not in missed:
            held.append(f"{op}s")
        else:
            hurt.setdefault(_cause(row, faults), []).append((op, row))
    parts = [f"{text.listed(held)} held."] if held else []
    for cause, rows in hurt.items():
        lengths = [
            f"{op}s {'failed or came late for ' if i == 0 else 'for '}{text.seconds(row['total'])}"
            for i, (op, row) in enumerate(rows)
        ]
        said = f"{text.listed(lengths)} {cause}"
        parts.append(said + _backs([(op, _came_back(op, row, tables, cause)) for op, row in rows]) + ".")
    return [part[:1].upper() + part[1:] for part in parts]


def _cause(row: dict[str, Any], faults: Sequence[FaultItem]) -> str:
    """During what most of it was lost: the fault of the worst phase, else the phase."""
    worst = max(row["phases"], key=lambda name: row["phases"][name])
    fault = next((fault for fault in faults if fault["phase"] == worst), None)
    return f"during “{text.clip(fault['says'], 90)}”" if fault else f"in the phase “{text.clip(worst, 60)}”"


def _came_back(op: str, row: dict[str, Any], tables: dict[str, Any], cause: str) -> tuple[str, str] | None:
    """(how long, after what), counted in the worst phase; in a later one when it did not come back in that."""
    regained = tables.get("regained", {}).get(op, {})
    names = list(row["phases"])
    worst = max(names, key=lambda name: row["phases"][name])
    items = [(name, item) for name in names[names.index(worst) :] if (item := regained.get(name))]
    known = [item for name, item in items if item["value"] or (name != worst and _taken_back(item))]
    for item in known:
        if item["bound"] == "exact":
            trigger = text.clip(item["trigger"], 90)
            long = text.seconds(item["value"]) if item["value"] else "at once"
            return long, "it began" if trigger in cause else f"“{trigger}”"
    return ("", "") if known else None


def _taken_back(item: dict[str, Any]) -> bool:
    """Nothing was bad any more when the fault was undone."""
    return item["value"] == 0 and str(item["trigger"]).startswith("undo ")


def _backs(backs: list[tuple[str, tuple[str, str] | None]]) -> str:
    """When the operations of one sentence came back, as its end."""
    seen = [(op, *back) for op, back in backs if back is not None]
    never = [f"{op}s" for op, long, _ in seen if not long]
    came = [(op, long, after) for op, long, after in seen if long]
    words = ""
    if len(backs) == 1:
        words += "".join(f", and came back {long} after {after}" for _, long, after in came)
        return words + (", and were not seen to come back" if never else "")
    if len(came) == len(backs) and len({after for _, _, after in came}) == 1:
        times = list(dict.fromkeys(long for _, long, _ in came))
        return (
            f"; they came back {text.listed([long for _, long, _ in came] if times[1:] else times)} after {came[0][2]}"
        )
    words += "".join(f"; {op}s came back {long} after {after}" for op, long, after in came)
    return words + (f"; {text.listed(never)} were not seen to come back" if never else "")


def _lower(words: str) -> str:
    """For use inside a sentence; a word in capitals stays."""
    return words[:1].lower() + words[1:] if words[1:2].islower() else words
