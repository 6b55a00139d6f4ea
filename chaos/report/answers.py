"""The first screen's four answers: did it hold, by how much, what broke first, what to do.

Everything is taken from the findings and the record; nothing is judged here. Links are to places in the page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from chaos.checks import ends, text
from chaos.checks.record import SECOND, Record
from chaos.checks.regained import bad_windows
from chaos.history import configuration
from chaos.report.meanings import Remedy, group_of, meanings

WORDS = {
    "pass": ("✓", "held"),
    "weakness": ("✗", "missed"),
    "inconclusive": ("?", "not proven"),
    "known_weakness": ("✗", "known weakness"),
    "unexpected_pass": ("✗", "held, though known to fail"),
}
"""A mark and a word for what a finding counts as."""
MISSED = ("weakness", "unexpected_pass")
ENDED = "process.ended"
"""The meaning of an end that nobody had asked for."""
LAST_LINES = 3
NO_LIMIT = 1e6
"""How bad a value is whose target allows nothing."""


@dataclass(frozen=True)
class Link:
    """``place``: the id of an element of the page."""

    place: str
    text: str


@dataclass(frozen=True)
class Answer:
    """One question of the first screen. ``kind`` is an outcome, for the colour; ``sign`` says the same as a shape."""

    question: str
    kind: str
    sign: str
    answer: str
    details: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()


def answers(record: Record, findings: dict[str, Any]) -> tuple[Answer, ...]:
    """The four, in the order in which they are asked."""
    return (
        _held(findings),
        _by_how_much(findings),
        _first(record),
        _to_do(record, findings),
    )


# -- did it hold ----------------------------------------------------------------------------------


def _held(findings: dict[str, Any]) -> Answer:
    judged = findings["findings"]
    counted: dict[str, int] = {}
    for item in judged:
        counted[item["counts_as"]] = counted.get(item["counts_as"], 0) + 1
    held, all_ = counted.get("pass", 0), len(judged)
    outcome = findings["outcome"]
    known = counted.get("known_weakness", 0)
    tally = f"{held} of {text.plural(all_, 'expectation')} held"
    more = [f"{known} missed as known"] if known else []
    if counted.get("inconclusive"):
        more.append(f"{counted['inconclusive']} not proven")
    answer = {
        "pass": ("✓", "Yes" if not known else "Yes, but for what is known"),
        "weakness": ("✗", "No"),
        "inconclusive": ("?", "Not proven"),
        "aborted": ("■", "Stopped early"),
        "error": ("!", "No answer"),
    }[outcome]
    return Answer(
        "Did it hold?", outcome, answer[0], answer[1], (", ".join([tally, *more]),), (Link("expected", "all of them"),)
    )


# -- by how much ----------------------------------------------------------------------------------


def badness(item: dict[str, Any]) -> float | None:
    """How far a finding is from its target, as a factor: above 1 it is missed. None when it cannot be said.

    For a share that must be at least t it is the failures over those allowed, (1 - m) / (1 - t); for an upper
    limit it is m / t.
    """
    value, target = item["measured"], item.get("target_value")
    if value is None or target is None:
        return None
    if item["metric"].endswith(".good") and item["comparison"] in (">=", ">"):
        value, target = 1 - value, 1 - target
    elif item["comparison"] in (">=", ">"):
        return None if value == 0 else target / value
    if target <= 0:
        return NO_LIMIT * (1 + value) if value > 0 else 0.0
    return float(value / target)


def with_targets(findings: dict[str, Any], plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The findings with ``comparison`` and ``target_value`` of the plan's expectations."""
    known = {item.get("text"): item for item in (plan.get("experiment") or {}).get("expect") or []}
    untils = {item.get("name"): item.get("until") for item in (plan.get("experiment") or {}).get("phases") or []}
    found = []
    for item in findings["findings"]:
        suffix = f" in {item['phase']}" if item["phase"] else ""
        given = known.get(item["title"].removesuffix(suffix)) or {}
        comparison, value = given.get("comparison"), given.get("value")
        if item["metric"] == "until":
            comparison, value = "<=", (untils.get(item["phase"]) or {}).get("within")
        found.append(item | {"comparison": comparison, "target_value": value})
    return found


def _by_how_much(findings: dict[str, Any]) -> Answer:
    question = "By how much?"
    missed = [item for item in findings["findings"] if item["counts_as"] == "weakness"]
    if missed:
        worst = max(missed, key=_rank)
        more = [f"also {_spoken(item)}: {item['measured_text']}" for item in missed if item is not worst]
        details = [margin(worst, findings["tables"]), *more[:1]]
        if len(more) > 1:
            details.append(f"and {len(more) - 1} more")
        return Answer(
            question,
            "weakness",
            "✗",
            _upper(f"{_spoken(worst)}: {worst['measured_text']}, wanted {_spaced(worst['target'])}"),
            tuple(item for item in details if item),
            (Link(f"finding-{findings['findings'].index(worst)}", "the finding"),),
        )
    harmless = [item for item in findings["findings"] if badness(item) is not None and not _bites(item)]
    known = [item for item in harmless if item["counts_as"] == "known_weakness"]
    held = known or [item for item in harmless if item["counts_as"] == "pass"] or harmless
    if not held:
        return Answer(question, "none", "-", "No figure can be set against a target")
    closest = max(held, key=lambda item: badness(item) or 0.0)
    counts = closest["counts_as"]
    said = {"pass": "Closest", "known_weakness": "As known"}.get(counts, "Measured, but it does not count")
    return Answer(
        question,
        "pass" if counts == "pass" and findings["outcome"] == "pass" else "none",
        "✓" if counts == "pass" else "-",
        f"{said}: {_spoken(closest)} {closest['measured_text']}, wanted {_spaced(closest['target'])}",
        tuple(item for item in (margin(closest, findings["tables"]),) if item),
        (Link(f"finding-{findings['findings'].index(closest)}", "the finding"),),
    )


def _rank(item: dict[str, Any]) -> tuple[int, float]:
    """Lost data first, then what users see, then the rest; among alike by how far the target was missed."""
    return {"data": 2, "reads": 1, "writes": 1}.get(group_of(item["metric"]) or "", 0), badness(item) or 0.0


def _bites(item: dict[str, Any]) -> bool:
    """An expectation that the fault hurts: a guard on the experiment, no wish of users."""
    return item["metric"].endswith(".good") and item.get("comparison") in ("<", "<=")


def _spoken(item: dict[str, Any]) -> str:
    op, _, quantity = item["metric"].partition(".")
    words = {"good": "good", "regained": "objective regained", "outage": "outage-equivalent time"}.get(
        quantity, quantity
    )
    where = f" in {text.clip(item['phase'], 40)}" if item["phase"] else ""
    if item["op"]:
        return f"{op}s {words}{where}"
    names = {
        "acknowledged.lost": "acknowledged writes lost",
        "shards.moved": "shard copies moved",
        "failovers": "times that a controller led traffic away",
        "cpu.survivors": "processors used by the busiest zone",
        "cluster.recovered": "green again",
        "until": text.clip(item["title"].partition(" within ")[0], 60),
    }
    return f"{names.get(item['metric'], item['metric'])}{where}"


def margin(item: dict[str, Any], tables: dict[str, Any]) -> str:
    """How far from its target, in words; empty when there is nothing to add."""
    factor = badness(item)
    if factor is None:
        return ""
    if item["metric"].endswith(".good") and item["comparison"] in (">=", ">"):
        row = ((tables.get("good") or {}).get(item["op"]) or {}).get(item["phase"]) or {}
        if not row.get("scheduled"):
            return ""
        bad = row["scheduled"] - row["good"]
        allowed = math.floor((1 - item["target_value"]) * row["scheduled"] + 1e-6)
        return (
            f"{text.plural(bad, 'arrival')} not good, {text.count(allowed)} allowed of {text.count(row['scheduled'])}"
        )
    if factor >= NO_LIMIT:
        return "nothing was allowed"
    return f"{factor:.1f} times what was wanted" if factor >= 1 else f"{factor * 100:.0f} % of the limit"


def _upper(words: str) -> str:
    return words[:1].upper() + words[1:]


def _spaced(target: str) -> str:
    return target.replace(">=", "≥").replace("<=", "≤").replace("%", " %")


# -- what broke first -----------------------------------------------------------------------------


def _first(record: Record) -> Answer:
    """The first bad window of every operation, and what the cluster did around it.

    What was bad before anything was done is told and broke nothing, unless nothing was bad later.
    """
    question = "What broke first?"
    if not record.spans:
        return Answer(question, "none", "-", "No phase ran")
    early, broken = list[tuple[int, str]](), list[tuple[int, str]]()
    done = min((int(e["t"]) for e in record.events if e.get("kind") in _COMMANDS), default=0)
    for op in record.operations:
        frames, bad = bad_windows(record, op.name, record.spans[0].start, record.load_end)
        found = [frame[0] for frame, is_bad in zip(frames, bad, strict=True) if is_bad]
        later = [at for at in found if at >= done - record.window(op.name) * SECOND]
        broken += [(at, f"{op.name}s stopped being good") for at in later[:1]]
        if found and found[:1] != later[:1]:
            early.append((found[0], f"{op.name}s were not good, before anything was done"))
    broken.sort()
    moments = broken + early
    broken = broken or sorted(early)
    begins = int(record.spans[0].start)
    for kind, words in (("cluster.leader", "the cluster manager changed"), ("cluster.node_left", "{node} left")):
        event = next((each for each in record.of_kind(kind) if int(each["t"]) >= begins), None)
        if event is not None:
            moments.append((int(event["t"]), words.format(node=text.clip(str(event.get("node")), 40))))
    for end in ends.table(record):
        moments.append((record.origin + round(end["at"] * SECOND), f"{end['what']} {end['name']} ended {end['how']}"))
    red = next(
        (e for e in record.of_kind("cluster.status") if int(e["t"]) >= begins and e.get("status") == "red"), None
    )
    if red is not None:
        moments.append((int(red["t"]), "the cluster was red"))
    moments.sort()
    links = (Link("timeline", "timeline"),)
    story = [f"{_at(record, at)} {words}" for at, words in moments]
    if not broken:
        return Answer(question, "pass", "✓", "Nothing that users would notice", tuple(story[:4]), links)
    at, words = broken[0]
    after = "" if broken == sorted(early) else _after(record, at)
    return Answer(question, "weakness", "✗", f"{_upper(words)}{after}", tuple(story[:4]), links)


def _at(record: Record, t: int) -> str:
    return f"{record.since_start(t) or 0.0:.0f} s:"


def _after(record: Record, t: int) -> str:
    """What was commanded last before it; windows begin up to one width before what broke them."""
    width = max((record.window(op.name) for op in record.operations), default=1.0)
    before = [
        event for event in record.events if event.get("kind") in _COMMANDS and int(event["t"]) <= t + width * SECOND
    ]
    if not before:
        return ", before anything was done"
    last = before[-1]
    late = max(0.0, (t - int(last["t"])) / SECOND)
    what = text.clip(record.words(last), 80)
    return f" {text.seconds(round(late))} after “{what}”" if late >= 1 else f" at once with “{what}”"


_COMMANDS = ("fault.command", "action.command", "fault.undo")


# -- what to do -----------------------------------------------------------------------------------


def causes(record: Record, findings: dict[str, Any], phase: str | None) -> list[str]:
    """Kinds of the faults and actions that a phase was under, those that began last first. None: the whole run."""
    span = record.span(phase) if phase else None
    start, end = (-math.inf, math.inf)
    if span is not None:
        start, end = record.since_start(span.start) or 0.0, record.since_start(span.end) or 0.0
    found: list[tuple[float, str]] = []
    for fault in findings["faults"]:
        began = fault["command"] if fault["command"] is not None else -math.inf
        over = fault["gone"] if fault["gone"] is not None else math.inf
        if began < end and over > start:
            found.append((began, str(fault["kind"])))
    for event in record.of_kind("action.command"):
        at = record.since_start(int(event["t"])) or 0.0
        if start <= at < end:
            found.append((at, str(event.get("action_kind"))))
    return list(dict.fromkeys(kind for _, kind in sorted(found, key=lambda pair: -pair[0])))


def advice(record: Record, findings: dict[str, Any], item: dict[str, Any]) -> tuple[Remedy, ...]:
    """What may help against one missed finding; nothing for one that expected the fault to hurt."""
    if _bites(item):
        return ()
    return meanings().advice(item["metric"], causes(record, findings, item["phase"]))


def _to_do(record: Record, findings: dict[str, Any]) -> Answer:
    question = "What to do?"
    outcome = findings["outcome"]
    if findings["clean"] is False:
        return Answer(question, "error", "!", "Clean up first: opensearch-chaos recover", links=())
    if outcome == "error":
        return Answer(
            question, "error", "!", "Look at what failed, then run it again", (_why(findings),), (Link("trust", "why"),)
        )
    ended = findings["tables"].get("ends") or []
    weak = any(end["weakness"] for end in ended)
    if weak or (ended and outcome == "inconclusive"):
        return _look_at(ended, "weakness" if weak else "inconclusive")
    missed = [item for item in findings["findings"] if item["counts_as"] == "weakness"]
    if missed:
        return _try(record, findings, missed)
    if outcome == "aborted":
        return Answer(
            question,
            "aborted",
            "■",
            "Look at what stopped it, then run it again",
            (_why(findings),),
            (Link("trust", "why"),),
        )
    if outcome == "weakness":
        return Answer(
            question,
            "weakness",
            "✗",
            "Remove the note: a known weakness is gone",
            (),
            (Link("expected", "the finding"),),
        )
    if outcome == "inconclusive":
        return Answer(question, "inconclusive", "?", _prove(findings), (_why(findings),), (Link("trust", "why"),))
    known = [item for item in findings["findings"] if item["counts_as"] == "known_weakness"]
    if known:
        return _try(record, findings, known)
    return Answer(question, "pass", "✓", "Nothing. Keep it as a test, and try a harder fault")


def _look_at(ended: list[dict[str, Any]], outcome: str) -> Answer:
    """Of a process that ended unasked: what it said last. A node that ended by itself comes first."""
    end = next((end for end in ended if end["weakness"]), ended[0])
    who = {"node": f"node {end['name']}", "driver": "the load driver"}.get(end["what"], f"{end['what']} {end['name']}")
    last = [line for line in [end["fatal"], *end["log_tail"][-LAST_LINES:]] if line]
    again = "" if outcome == "weakness" else ", find out who ended it, and run it again"
    return Answer(
        "What to do?",
        outcome,
        "→" if outcome == "weakness" else "?",
        f"Read what {who} said last{again}",
        tuple(dict.fromkeys(text.clip(line, 200) for line in last)),
        (Link("ends", "the last lines of its log"),),
    )


def _try(record: Record, findings: dict[str, Any], missed: list[dict[str, Any]]) -> Answer:
    """The first remedy of every missed finding, the worst first; three at most."""
    remedies: dict[str, Remedy] = {}
    chosen = sorted(missed, key=_rank, reverse=True)
    for depth in range(3):
        for item in chosen:
            offered = advice(record, findings, item)
            if depth < len(offered) and len(remedies) < 3:
                remedies.setdefault(offered[depth].id, offered[depth])
    if not remedies:
        return Answer(
            "What to do?",
            "weakness",
            "✗",
            "The fault did less than the experiment expects of it: look at its evidence",
            (),
            (Link("evidence", "evidence"),),
        )
    first, *others = remedies.values()
    return Answer(
        "What to do?",
        "weakness",
        "→",
        first.title,
        (),
        (
            Link(f"help-{first.id}", "How, and at what price"),
            *(Link(f"help-{remedy.id}", f"Or: {remedy.title}") for remedy in others),
        ),
    )


def _why(findings: dict[str, Any]) -> str:
    return text.clip(next((r["says"] for r in findings["reasons"] if r["outcome"] == findings["outcome"]), ""), 200)


def _prove(findings: dict[str, Any]) -> str:
    """What would make an inconclusive run a conclusive one."""
    if any(reason["says"].lower().startswith(configuration.HAND) for reason in findings["reasons"]):
        return "Find out who else works on the cluster, then run it again"
    if any(fault.get("vanished") for fault in findings["faults"]):
        return "Find out who changed the fault while it was to hold, then run it again"
    if any(not fault["proven"] for fault in findings["faults"]):
        return "Find out why the fault is not proven, then run it again"
    if not findings["validity"]["valid"]:
        return "Run it again on a quieter or larger machine"
    if any("processors" in reason["says"] for reason in findings["reasons"]):
        return "Run it again on a quieter or larger machine"
    if any("arrivals in the phase" in reason["says"] for reason in findings["reasons"]):
        return "Run it again with longer phases or more load"
    return "See what is missing, then run it again"
