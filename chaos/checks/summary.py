"""The run in one sentence, for the person who reads nothing else.

It is built from what was measured, never from what was expected: which users noticed, for how long, during
what, and when it was over. What forbids a verdict comes first.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from chaos.checks import text

NOTICED = 0.5
"""Outage-equivalent seconds below which an operation "held"."""


def sentence(
    outcome: str,
    tables: dict[str, Any],
    reasons: list[dict[str, Any]],
    findings: list[dict[str, Any]],
    faults: list[dict[str, Any]],
) -> str:
    """A few sentences. Arguments are parts of findings.json.

    A process that ended unasked is always told, and first where it is the weakness: no figure says as much.
    """
    told = _sentence(outcome, tables, reasons, findings, faults)
    ended = [end for end in tables.get("ends") or [] if str(end["says"]).lower() not in told.lower()]
    first = [f"{end['says']}." for end in ended if end["weakness"]]
    last = [f"{end['says']}." for end in ended if not end["weakness"]]
    return " ".join([*first[:2], *([told] if told != "." else []), *last[:2]])


def _sentence(
    outcome: str,
    tables: dict[str, Any],
    reasons: list[dict[str, Any]],
    findings: list[dict[str, Any]],
    faults: list[dict[str, Any]],
) -> str:
    missed = {finding["op"] for finding in findings if finding["verdict"] == "fail" and finding["op"]}
    story = _story(tables, faults, missed)
    why = next((reason["says"] for reason in reasons if reason["outcome"] == outcome), None)
    if outcome == "error":
        return f"No verdict: {_lower(why or 'the run failed')}."
    if outcome == "aborted":
        return f"Stopped early: {_lower(why or 'a guard stopped it')}." + (
            f" Until then {_lower(story)}." if story else ""
        )
    if outcome == "inconclusive":
        return f"Nothing proven: {_lower(why or 'too little data')}."
    surprise = [finding for finding in findings if finding["counts_as"] == "unexpected_pass"]
    if outcome == "weakness" and surprise and all(item["counts_as"] != "weakness" for item in findings):
        return f"{story}. A known weakness is gone: remove its note."
    lost = _lost(findings, tables)
    if lost and outcome == "weakness":
        return f"{lost}. {story}." if story else f"{lost}."
    kept = "no acknowledged write was lost" if _none_lost(tables) else None
    return "; ".join(part for part in (story, kept) if part) + "."


def _lost(findings: list[dict[str, Any]], tables: dict[str, Any]) -> str | None:
    writes = tables.get("writes") or {}
    count = int(writes.get("value") or 0)
    if not count:
        return None
    shown = text.plural(count, "acknowledged write")
    if (writes.get("differing") or 0) == 0:
        return f"{shown} {'was' if count == 1 else 'were'} lost"
    wrong = int(writes.get("wrong") or 0)
    if wrong == count:
        return f"{shown} {'has' if count == 1 else 'have'} other content than was sent"
    if wrong:
        return f"{shown} are lost, differ between copies or have other content than was sent"
    return f"{shown} {'is' if count == 1 else 'are'} lost or differ{'s' if count == 1 else ''} between copies"


def _none_lost(tables: dict[str, Any]) -> bool:
    return (tables.get("writes") or {}).get("value") == 0


def _story(tables: dict[str, Any], faults: list[dict[str, Any]], missed: Collection[str]) -> str:
    """``missed``: operations that missed one of their targets; those did not hold, however short it was."""
    held: list[str] = []
    hurt: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for op, row in tables.get("outage", {}).items():
        if row["total"] < NOTICED and op not in missed:
            held.append(f"{op}s")
        else:
            hurt.setdefault(_cause(row, faults), []).append((op, row))
    parts = [f"{text.listed(held)} held"] if held else []
    for cause, rows in hurt.items():
        lengths = [
            f"{op}s {'were not good for ' if i == 0 else 'for '}{text.seconds(row['total'])}"
            for i, (op, row) in enumerate(rows)
        ]
        said = f"{text.listed(lengths)} {cause}"
        parts.append(said + _backs([(op, _came_back(op, row, tables, cause)) for op, row in rows]))
    joined = "; ".join(parts)
    return joined[:1].upper() + joined[1:]


def _cause(row: dict[str, Any], faults: list[dict[str, Any]]) -> str:
    """During what most of it was lost: the fault of the worst phase, else the phase."""
    worst = max(row["phases"], key=lambda name: row["phases"][name])
    fault = next((fault for fault in faults if fault["phase"] == worst), None)
    return f"during “{text.clip(fault['says'], 90)}”" if fault else f"in the phase “{text.clip(worst, 60)}”"


def _came_back(op: str, row: dict[str, Any], tables: dict[str, Any], cause: str) -> tuple[str, str] | None:
    """(how long, after what), counted in the worst phase; in a later one when it did not come back in that."""
    regained = tables.get("regained", {}).get(op, {})
    names = list(row["phases"])
    worst = max(names, key=lambda name: row["phases"][name])
    known = [item for name in names[names.index(worst) :] if (item := regained.get(name)) and item["value"]]
    for item in known:
        if item["bound"] == "exact":
            trigger = text.clip(item["trigger"], 90)
            return text.seconds(item["value"]), "it began" if trigger in cause else f"“{trigger}”"
    return ("", "") if known else None


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
        return f"; they came back {text.listed([long for _, long, _ in came])} after {came[0][2]}"
    words += "".join(f"; {op}s came back {long} after {after}" for op, long, after in came)
    return words + (f"; {text.listed(never)} were not seen to come back" if never else "")


def _lower(words: str) -> str:
    """For use inside a sentence; a word in capitals stays."""
    return words[:1].lower() + words[1:] if words[1:2].islower() else words
