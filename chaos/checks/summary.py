"""The run in a few short sentences, for the person who reads nothing else.

First what decides: the headline. Then what users saw: which of them noticed, for how long, during what, and when it
was over; that is built from what was measured, never from what was expected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from chaos.base import text
from chaos.checks import catalogue, gravity, plainly, theirs, writes
from chaos.checks.check import Rests
from chaos.checks.models import FaultItem, FindingItem, ReasonItem
from chaos.checks.reasons import Cause
from chaos.checks.validity import STEADY

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

    The headline is what decides: the first reason, and whatever else stands with it as high; of a run that passed, what
    is known to be weak, and else what users saw. What matters to users stands in it whatever decides: writes that were
    lost although nothing asks about them, and answers that were garbled. The rest is what users saw, what happened to
    the traffic of others, and every process that ended unasked.
    """
    story = _story(tables, faults, {f["op"] for f in findings if f["verdict"] == "fail" and f["op"]})
    beside = theirs.sentences(tables)
    kept = "No acknowledged write was lost." if _none_lost(tables) else ""
    if outcome == "pass":
        return _of_a_pass(tables, findings, story, beside, kept)
    mine = [reason for reason in reasons if reason["outcome"] == outcome]
    said = [plainly.reason(reason, findings, tables) for reason in mine[:1]]
    ended = [f"{end['says']}." for end in tables.get("ends") or [] if not _in(str(end["says"]), said)][:2]
    matters = _unasked(findings, tables)
    if outcome == "weakness":
        said += [plainly.reason(reason, findings, tables) for reason in _also(mine)]
        if others := _other_data(mine, findings, tables):
            said.insert(1, f"Besides: {text.listed(others)}")
        if mine and mine[0]["cause"] == Cause.NOTE:
            said[0] = f"Improved: {said[0]}"
        headline = _joined(*(f"{each}." for each in said), *matters)
        return headline, _joined(*story, *beside, kept, *_known(findings, tables), _open(findings, said), *ended)
    first = _lower(said[0]) if said else {"error": "the run failed", "aborted": "a guard stopped it"}.get(outcome)
    lost = [f"{each}." for each in _broken(findings, tables)]
    if outcome == "error":
        return _joined(f"No verdict: {first}.", *lost, *matters), _joined(*beside, *ended)
    if outcome == "aborted":
        until = [f"Until then {_lower(each)}" for each in story[:1]]
        return _joined(f"Stopped early: {first}.", *lost, *matters), _joined(*until, *story[1:], *beside, *ended)
    return _joined(f"Nothing proven: {first or 'too little data'}.", *lost, *matters), _joined(*beside, *ended)


def _of_a_pass(
    tables: dict[str, Any],
    findings: Sequence[FindingItem],
    story: list[str],
    beside: list[str],
    kept: str,
) -> tuple[str, str]:
    """What decides a pass is what does not keep it from being one: it comes first, where there is any."""
    first = [*_unasked(findings, tables), *_known(findings, tables)]
    if first:
        return _joined(*first), _joined(*story, *beside, kept)
    if story:
        return _joined(*story, *beside), kept
    return _joined(kept or "Everything that was expected held.", *beside), ""


def _known(findings: Sequence[FindingItem], tables: dict[str, Any]) -> list[str]:
    """The known weaknesses that were seen, as a sentence that names the gravest."""
    known = by_gravity(item for item in findings if item["counts_as"] == "known_weakness")
    if not known:
        return []
    first = _lower(plainly.missed(known[0], tables))
    return [f"{'Known weakness' if len(known) == 1 else f'{len(known)} known weaknesses, the first'}: {first}."]


def by_gravity(findings: Iterable[FindingItem]) -> list[FindingItem]:
    """What is about data first and by what it means for users, then reads and writes, then the rest."""

    def place(item: FindingItem) -> tuple[int, int]:
        if catalogue.rests_on(item["metric"], Rests.DATA):
            return 0, gravity.rank(item["metric"])
        return (1 if item.get("op") else 2), 0

    return sorted(findings, key=place)


def _unasked(findings: Sequence[FindingItem], tables: dict[str, Any]) -> list[str]:
    """What matters to users although it decides nothing: no line asks about it, a line allows it, or it is garbled."""
    found = []
    if lost := gravity.unasked(findings, tables):
        found.append(f"No expectation asks about it, and yet: {text.listed(lost)}.")
    found += [f"{_upper(says)}." for item in findings if (says := gravity.of_relaxed(item, tables))]
    if garbled := gravity.garbled(tables):
        found.append(f"{_upper(garbled)}.")
    return found


def _broken(findings: Sequence[FindingItem], tables: dict[str, Any]) -> list[str]:
    """Promises about data that were broken, in a run that something graver decides."""
    missed = [item for item in findings if item["verdict"] == "fail" and catalogue.rests_on(item["metric"], Rests.DATA)]
    return [gravity.brief(item["metric"], float(item["measured"] or 0), tables) for item in by_gravity(missed)]


ALSO = 2
"""How many more sentences a headline may have."""


def _also(mine: Sequence[ReasonItem]) -> list[ReasonItem]:
    """What stands beside the first reason of a weakness: one of each other kind that is as grave."""
    kinds = {_kind(mine[0])} if mine else set()
    found = []
    for reason in mine[1:]:
        if _kind(reason) not in kinds and reason["cause"] in GRAVE:
            kinds.add(_kind(reason))
            found.append(reason)
    return found[:ALSO]


GRAVE = (Cause.PROCESS, Cause.DISK, Cause.DATA, Cause.DOCUMENTS, Cause.USERS)


def _kind(reason: ReasonItem) -> str:
    """Findings about data are of one kind, whether an expectation asks about them or not; those of users are of one
    kind for each operation."""
    if reason["cause"] == Cause.USERS and reason["finding"]:
        return f"{Cause.USERS}.{reason['finding'].partition('.')[0]}"
    return Cause.DATA if reason["cause"] == Cause.DOCUMENTS else reason["cause"]


def _other_data(mine: Sequence[ReasonItem], findings: Sequence[FindingItem], tables: dict[str, Any]) -> list[str]:
    """What else is broken about data, each with its number; the gravest is told in full."""
    about = [reason for reason in mine if _kind(reason) == Cause.DATA]
    by_id = {item["id"]: item for item in findings}
    found = []
    for reason in about[1:]:
        item = by_id.get(str(reason["finding"]))
        metric = item["metric"] if item is not None else "documents.unexpected"
        count = item["measured"] if item is not None else writes.beyond_count(tables)
        found.append(gravity.brief(metric, float(count or 0), tables))
    return list(dict.fromkeys(found))


def _open(findings: Sequence[FindingItem], said: Sequence[str]) -> str:
    """What a weakness leaves open, and why the first of it."""
    left = [item for item in findings if item["counts_as"] == "inconclusive"]
    if not left:
        return ""
    why = str(left[0].get("because") or left[0]["says"])
    shown = "" if _in(why, list(said)) else f": {text.clip(why, 160)}"
    return f"{text.plural(len(left), 'expectation is', 'expectations are')} not proven{shown}."


def _joined(*sentences: str) -> str:
    return " ".join(each for each in sentences if each)


def _in(says: str, said: list[str]) -> bool:
    return any(says.lower() in each.lower() for each in said)


def _upper(words: str) -> str:
    return words[:1].upper() + words[1:]


def _none_lost(tables: dict[str, Any]) -> bool:
    return (tables.get("writes") or {}).get("value") == 0


def _story(tables: dict[str, Any], faults: Sequence[FaultItem], missed: Collection[str]) -> list[str]:
    """What users saw, in sentences. ``missed``: operations that missed a target; those did not hold, however short."""
    held: list[str] = []
    without: list[str] = []
    seldom = spread(tables)
    hurt: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for op, row in tables.get("outage", {}).items():
        if not _asked(tables, op):
            without.append(f"{op}s")
        elif row["total"] < NOTICED and op in seldom:
            continue
        elif row["total"] < NOTICED and op not in missed:
            held.append(f"{op}s")
        else:
            hurt.setdefault(_cause(row, faults), []).append((op, row))
    parts = [f"{text.listed(held)}{theirs.whose(tables)} held."] if held else []
    parts += [f"{_upper(bad_throughout(op, share))}." for op, share in seldom.items()]
    parts += [f"No {text.listed(without)} were sent."] if without else []
    whose = f"{theirs.whose(tables).strip()} " if theirs.whose(tables) and not held else ""
    for cause, rows in hurt.items():
        lengths = [
            f"{op}s {f'{whose}failed or came late for ' if i == 0 else 'for '}{text.seconds(row['total'])}"
            for i, (op, row) in enumerate(rows)
        ]
        said = f"{text.listed(lengths)} {cause}"
        parts.append(said + _backs([(op, _came_back(op, row, tables, cause)) for op, row in rows]) + ".")
    return [part[:1].upper() + part[1:] for part in parts]


def spread(tables: dict[str, Any]) -> dict[str, float]:
    """Operation → share of its requests that were good, of those that had no outage to notice and were not served well
    all the same: as seldom before anything was done as later, so that no window is worse than usual."""
    found = {}
    for op, row in tables.get("outage", {}).items():
        phases = (tables.get("good") or {}).get(op, {}).values()
        scheduled = sum(int(phase["scheduled"]) for phase in phases)
        good = sum(int(phase["good"] or 0) for phase in phases)
        if row["total"] < NOTICED and scheduled and good / scheduled < STEADY:
            found[op] = good / scheduled
    return found


def bad_throughout(op: str, share: float) -> str:
    """One of :func:`spread`, in words."""
    return f"only {text.percent(share)} of {op}s were good, without an outage: as few from the start"


def _asked(tables: dict[str, Any], op: str) -> bool:
    """Whether any arrival of an operation was due in the phases: of none nothing held."""
    phases = (tables.get("good") or {}).get(op)
    return phases is None or any(row["scheduled"] for row in phases.values())


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
