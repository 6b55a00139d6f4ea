"""The first screen's four answers: what was done, what happened to users, why this verdict, what to do.

Everything is taken from the findings and the record; nothing is judged here. What to do follows from the reason that
decides (:mod:`chaos.checks.reasons`), and from what users bore where nothing was missed. Links are to places in the
page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.base import text
from chaos.checks import during as waited
from chaos.checks import instruments, plainly, shown, starved, theirs, usable, words, writes
from chaos.checks.models import FindingItem, FindingsFile, ReasonItem
from chaos.checks.reasons import Cause, deciding
from chaos.checks.record import SECOND, Record
from chaos.checks.regained import bad_windows
from chaos.checks.shown import CLEAR, Shown
from chaos.checks.summary import NOTICED, bad_throughout, spread
from chaos.checks.verdict import unplaced
from chaos.history import configuration, during
from chaos.history.models import Plan
from chaos.opensearch.administration import LAST_FAILED
from chaos.report import in_force
from chaos.report.enough_for import enough_for
from chaos.report.meanings import Remedy, group_of, meanings

WORDS = {
    "pass": ("✓", "held"),
    "weakness": ("✗", "missed"),
    "inconclusive": ("?", "not proven"),
    "relaxed": ("~", "relaxed"),
    "known_weakness": ("✗", "known weakness"),
    "unexpected_pass": ("↑", "improved: held, though called a known weakness"),
}
"""A mark and a word for what a finding counts as."""
UNMEASURED = (Cause.PROCESS, Cause.DOCUMENTS)
"""What decides without a target that it could be set against."""
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
class Lane:
    """Lines that belong together, under a word of their own."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """One question of the first screen. ``kind`` is an outcome, for the colour; ``sign`` says the same as a shape."""

    question: str
    kind: str
    sign: str
    answer: str
    details: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    lanes: tuple[Lane, ...] = ()


def answers(record: Record, findings: FindingsFile) -> tuple[Answer, ...]:
    """The four, in the order in which they are asked."""
    return (
        _done_here(record),
        _users(record, findings),
        _why(findings),
        _to_do(record, findings),
    )


# -- why this verdict -----------------------------------------------------------------------------


SIGNS = {
    Shown.PASS: "held",
    Shown.KNOWN: "held, but for what is known",
    Shown.IMPROVED: "held, and better than expected",
    Shown.WEAKNESS: "missed",
    Shown.INCONCLUSIVE: "not proven",
    Shown.ABORTED: "stopped early",
    Shown.ERROR: "no answer",
}
"""How each verdict answers whether it held."""


def _why(findings: FindingsFile) -> Answer:
    """What was expected and held, and what decides with its figure and target."""
    called = shown.of(findings)
    by = _by_how_much(findings)
    tally = shown.tally(findings)
    links = (*by.links, Link("expected", "all expectations"))
    if called in (Shown.ABORTED, Shown.ERROR, Shown.INCONCLUSIVE):
        decides = deciding(findings)
        why = plainly.reason(decides, findings["findings"], findings["tables"]) if decides else ""
        details = [_upper(text.clip(why, 200)), tally] if why else [tally]
        return Answer(WHY, called.value, shown.MARKS[called], _upper(SIGNS[called]), tuple(details), links)
    details = [by.answer, *by.details] if by.answer != NO_FIGURE else []
    return Answer(WHY, called.value, shown.MARKS[called], _upper(tally), tuple(details), links)


WHY = "Why this verdict?"
NO_FIGURE = "No figure can be set against a target"


# -- by how much ----------------------------------------------------------------------------------


def badness(item: FindingItem) -> float | None:
    """How far a finding is from its target, as a factor: above 1 it is missed. None when it cannot be said.

    For a good share that must be at least t it is the failures over those allowed, (1 - m) / (1 - t); for another
    lower limit it is t / m, and for an upper one m / t.
    """
    value, target = item["measured"], item.get("target_value")
    if value is None or target is None:
        return None
    if item["metric"].endswith(".good") and item["comparison"] in (">=", ">"):
        value, target = 1 - value, 1 - target
    elif item["comparison"] in (">=", ">"):
        return target / value if value > 0 else NO_LIMIT if target > 0 else None
    if target <= 0:
        return NO_LIMIT * (1 + value) if value > 0 else 0.0
    return float(value / target)


def with_targets(findings: FindingsFile, plan: Plan) -> list[FindingItem]:
    """The findings with ``comparison`` and ``target_value`` of the plan's expectations."""
    known = {item.get("text"): item for item in (plan.get("experiment") or {}).get("expect") or []}
    untils = {item.get("name"): item.get("until") for item in (plan.get("experiment") or {}).get("phases") or []}
    found: list[FindingItem] = []
    for item in findings["findings"]:
        suffix = f" in {item['phase']}" if item["phase"] else ""
        given = known.get(item["title"].removesuffix(suffix)) or {}
        comparison, value = given.get("comparison"), given.get("value")
        if item.get("default"):
            comparison, value = "==", 0.0
        if item["metric"] == "until":
            comparison, value = "<=", (untils.get(item["phase"]) or {}).get("within")
        judged: FindingItem = {**item, "comparison": comparison, "target_value": value}
        found.append(judged)
    return found


def _by_how_much(findings: FindingsFile) -> Answer:
    question = "By how much?"
    decides = deciding(findings)
    if findings["outcome"] == "weakness" and decides is not None and decides["cause"] in UNMEASURED:
        says = plainly.reason(decides, findings["findings"], findings["tables"])
        place = Link("ends", "its end") if decides["cause"] == Cause.PROCESS else Link("readback", "the read-back")
        return Answer(question, "weakness", "✗", _upper(says), (), (place,))
    missed = [item for item in findings["findings"] if item["counts_as"] == "weakness"]
    if missed:
        worst = max(missed, key=_rank)
        more = [f"also {plainly.short(item)}: {item['measured_text']}" for item in missed if item is not worst]
        details = [margin(worst, findings["tables"]), *more[:1]]
        if len(more) > 1:
            details.append(f"and {len(more) - 1} more")
        return Answer(
            question,
            "weakness",
            "✗",
            _upper(f"{plainly.short(worst)}: {worst['measured_text']}, wanted {_spaced(worst['target'])}"),
            tuple(item for item in details if item),
            (Link(f"finding-{findings['findings'].index(worst)}", "the finding"),),
        )
    harmless = [item for item in findings["findings"] if badness(item) is not None and not words.bites(item)]
    known = [item for item in harmless if item["counts_as"] == "known_weakness"]
    better = [item for item in harmless if item["counts_as"] == "unexpected_pass"]
    held = known or better or [item for item in harmless if item["counts_as"] == "pass"] or harmless
    if not held:
        return Answer(question, "none", "-", NO_FIGURE)
    closest = max(held, key=lambda item: badness(item) or 0.0)
    counts = closest["counts_as"]
    words_of = {"pass": "Closest", "known_weakness": "As known", "unexpected_pass": "Better than expected"}
    said = words_of.get(counts, "Measured, but it does not count")
    return Answer(
        question,
        "pass" if counts == "pass" and findings["outcome"] == "pass" else "none",
        "✓" if counts == "pass" else "-",
        f"{said}: {plainly.short(closest)} {closest['measured_text']}, wanted {_spaced(closest['target'])}",
        tuple(item for item in (margin(closest, findings["tables"]),) if item),
        (Link(f"finding-{findings['findings'].index(closest)}", "the finding"),),
    )


def _rank(item: FindingItem) -> tuple[int, float]:
    """Lost data first, then what users see, then the rest; among alike by how far the target was missed."""
    weight = 2 if group_of(item["metric"]) == "data" else 1 if item.get("op") else 0
    return weight, badness(item) or 0.0


def margin(item: FindingItem, tables: dict[str, Any]) -> str:
    """How far from its target, in words; empty when there is nothing to add."""
    factor = badness(item)
    if factor is None:
        return ""
    if item["metric"].endswith(".good") and item["comparison"] in (">=", ">"):
        row = ((tables.get("good") or {}).get(item["op"]) or {}).get(item["phase"]) or {}
        if not row.get("scheduled"):
            return ""
        bad = row["scheduled"] - row["good"]
        allowed = math.floor((1 - (item["target_value"] or 0.0)) * row["scheduled"] + 1e-6)
        return (
            f"{text.plural(bad, 'arrival')} not good, {text.count(allowed)} allowed of {text.count(row['scheduled'])}"
        )
    if item["metric"].endswith(".good"):
        return ""  # a fault that was to bite: both shares are said already
    if item["comparison"] in (">=", ">"):
        part = (item["measured"] or 0.0) / (item["target_value"] or 1.0)
        return f"{text.percent(part)} of what was wanted" if factor > 1 else ""
    if factor >= NO_LIMIT:
        return "nothing was allowed"
    return f"{factor:.1f} times what was wanted" if factor >= 1 else f"{factor * 100:.0f} % of the limit"


def _upper(words: str) -> str:
    return words[:1].upper() + words[1:]


def _spaced(target: str) -> str:
    return target.replace(">=", "≥").replace("<=", "≤").replace("%", " %")


# -- what broke first -----------------------------------------------------------------------------


MOST = 4
"""Lines of a lane."""
MOST_DONE = 8
"""Lines of what was done: it is the experiment."""


def _done_here(record: Record) -> Answer:
    """What was done to the cluster, each with its time."""
    commands = _commands(record)
    if not record.spans:
        return Answer(DONE, "none", "-", "Nothing: no phase ran")
    if not commands:
        return Answer(DONE, "none", "-", "Nothing was done to the cluster")
    first = [event for event in commands if event["kind"] in ("fault.command", during.BEGUN)] or commands
    said = list(dict.fromkeys(_done(record, event) for event in first))
    more = f", and {len(said) - 2} more" if len(said) > 2 else ""
    lines = [f"{_at(record, int(event['t']))} {_done(record, event)}" for event in commands]
    if len(lines) > MOST_DONE:
        lines = [*lines[:MOST_DONE], f"and {len(lines) - MOST_DONE} more"]
    return Answer(
        DONE, "none", "→", _upper(f"{'; '.join(said[:2])}{more}"), tuple(lines), (Link("timeline", "timeline"),)
    )


DONE, USERS = "What was done?", "What happened to users?"


def _users(record: Record, findings: FindingsFile) -> Answer:
    """For how long each operation was bad, when that began, and what the cluster did about it.

    What was bad before anything was done is told and broke nothing, unless nothing was bad later.
    """
    if not record.spans:
        return Answer(USERS, "none", "-", "No phase ran")
    early, broken = _bad_windows(record)
    begins = int(record.spans[0].start)
    harm = [*early, *broken]
    harm += instruments.harm(record)
    red = next(
        (e for e in record.of_kind("cluster.status") if int(e["t"]) >= begins and e.get("status") == "red"), None
    )
    if red is not None:
        harm.append((int(red["t"]), "the cluster was red"))
    lanes = (
        _lane(record, "What broke", harm if len(harm) > 1 else []),
        _lane(record, "What the cluster did", _reactions(record, begins)),
    )
    first = broken or sorted(early)
    seldom = spread(findings["tables"])
    details = []
    if first and (bore := _borne(findings)):
        at, words = first[0]
        details.append(f"{_upper(words)}{_after(record, at) if broken else ''}")
        says = _upper(bore)
    elif first:
        at, words = first[0]
        says = f"{_upper(words)}{_after(record, at) if broken else ''}"
    elif seldom:
        says = _upper(text.listed([bad_throughout(op, share) for op, share in seldom.items()]))
    else:
        says = "Nothing that users would notice" if any(map(len, record.arrivals.values())) else "Nothing was asked"
    if lost := writes.broken(findings["tables"]):
        details.insert(0, _upper(lost))
    elif (findings["tables"].get("writes") or {}).get("value") == 0:
        details.append("no acknowledged write was lost")
    details += theirs.sentences(findings["tables"])
    hurt = bool(first or lost or seldom)
    return Answer(
        USERS,
        "hurt" if hurt else "pass",
        "!" if hurt else "✓",
        says,
        tuple(details),
        (Link("good", "figures"), Link("timeline", "timeline")),
        tuple(each for each in lanes if each),
    )


Moments = list[tuple[int, str]]
"""(ns, what happened)."""


def _bad_windows(record: Record) -> tuple[Moments, Moments]:
    """The first bad window of every operation: (those before anything was done, those after it), in order."""
    early, broken = Moments(), Moments()
    done = min((int(e["t"]) for e in record.events if e.get("kind") in _COMMANDS), default=0)
    for op in record.operations:
        frames, bad = bad_windows(record, op.name, record.spans[0].start, record.load_end)
        found = [frame[0] for frame, is_bad in zip(frames, bad, strict=True) if is_bad]
        later = [at for at in found if at >= done - _reach(record, op.name)]
        broken += [(_in_window(record, op.name, at), f"{op.name}s stopped being good") for at in later[:1]]
        if found and found[:1] != later[:1]:
            early.append((found[0], f"{op.name}s were not good, before anything was done"))
    return early, sorted(broken)


def _in_window(record: Record, op: str, begins: int) -> int:
    """When a bad window went bad, as far as that is known: where something was done within it, not before that."""
    ends = begins + _reach(record, op)
    return min((int(e["t"]) for e in _commands(record) if begins <= int(e["t"]) < ends), default=begins)


def _reach(record: Record, op: str) -> int:
    """How long (ns) after a window's begin something may be done that makes it bad: a request at its end is under way
    for as long as it may take and be good."""
    within = next((each.good_within for each in record.operations if each.name == op), 0.0)
    return int((record.window(op) + within) * SECOND)


def _lane(record: Record, title: str, moments: list[tuple[int, str]]) -> Lane | None:
    """``moments``: what must be seen first, first. What happened again is told once, with how often."""
    times: dict[str, list[int]] = {}
    for at, said in moments:
        times.setdefault(said, []).append(at)
    kept = sorted((min(at), said, len(at)) for said, at in list(times.items())[:MOST])
    lines = [f"{_at(record, at)} {said}" + (f" ({often} times)" if often > 1 else "") for at, said, often in kept]
    if len(times) > MOST:
        lines.append(f"and {len(times) - MOST} more")
    return Lane(title, tuple(lines)) if lines else None


def _commands(record: Record) -> list[dict[str, Any]]:
    return [event for event in record.events if event.get("kind") in _COMMANDS]


def _done(record: Record, event: dict[str, Any]) -> str:
    return text.clip(record.words(event), 80)


def _reactions(record: Record, begins: int) -> list[tuple[int, str]]:
    """What the cluster, and controllers, did: who left, whom the others chose, which copies took over."""
    found = _departures(record, begins)
    for event in record.of_kind("cluster.leader"):
        if int(event["t"]) >= begins and event.get("leader"):
            found.append((int(event["t"]), f"{text.clip(str(event['leader']), 40)} became cluster manager"))
    promoted = [event for event in record.of_kind("cluster.primary_promoted") if int(event["t"]) >= begins]
    if promoted:
        found.append((int(promoted[0]["t"]), "copies began to take over as primaries"))
    for event in record.of_kind("failover.done"):
        found.append((int(event["t"]), f"a controller: {text.clip(str(event.get('says') or event.get('step')), 60)}"))
    return found


def _departures(record: Record, begins: int) -> list[tuple[int, str]]:
    """Nodes that left, each once, at its first time: those with data first, for without them copies are missing.

    Those that left within a second of each other, and for the same reason, are one line.
    """
    times: dict[tuple[str, str], list[int]] = {}
    for event in record.of_kind("cluster.node_left"):
        if int(event["t"]) >= begins:
            times.setdefault((str(event.get("node")), _asked_to(record, event)), []).append(int(event["t"]))
    managers = {
        str(node["name"])
        for node in (record.plan.get("topology") or {}).get("nodes") or ()
        if "data" not in (node.get("roles") or ("data",))
    }
    groups: list[tuple[int, str, list[str]]] = []
    for (node, why), at in sorted(times.items(), key=lambda each: (each[0][0] in managers, each[1][0])):
        shown_as = text.clip(node, 40) + (f" ({len(at)} times)" if len(at) > 1 else "")
        near = next((group for group in groups if group[1] == why and abs(group[0] - at[0]) <= SECOND), None)
        if near is None:
            groups.append((at[0], why, [shown_as]))
        else:
            near[2].append(shown_as)
    return [(at, f"{text.listed(nodes)} left{why}") for at, why, nodes in groups]


def _asked_to(record: Record, event: dict[str, Any]) -> str:
    """Whether a node left because its zone was decommissioned: that was done, and did not break.

    Once the zone has been taken in again, a node of it that leaves was not asked to.
    """
    t, zone = int(event["t"]), str(event.get("zone"))
    if waited.explains(record, str(event.get("node")), t):
        return ", as the phase waited for"
    out = False
    for action in record.of_kind("action.command"):
        if int(action["t"]) <= t and f"zone {zone} " in f"{record.words(action)} ":
            kind = action.get("action_kind")
            out = kind == "decommission" or (out and kind != "recommission")
    return ", as it was asked to" if out else ""


def _at(record: Record, t: int) -> str:
    return f"{record.since_start(t) or 0.0:.0f} s:"


def _after(record: Record, t: int) -> str:
    """What was commanded nearest to it, of what came before it or within a window's width after: windows begin up to
    one width before what broke them. Of few requests they are so wide that the undo is within one, too."""
    width = max((record.window(op.name) for op in record.operations), default=1.0)
    before = [
        event for event in record.events if event.get("kind") in _COMMANDS and int(event["t"]) <= t + width * SECOND
    ]
    if not before:
        return ", before anything was done"
    last = min(before, key=lambda event: abs(int(event["t"]) - t))
    late = max(0.0, (t - int(last["t"])) / SECOND)
    what = text.clip(record.words(last), 80)
    return f" {text.seconds(round(late))} after “{what}”" if late >= 1 else f" at once with “{what}”"


_COMMANDS = ("fault.command", "action.command", "fault.undo", during.BEGUN)


# -- what to do -----------------------------------------------------------------------------------


OF_SERVICE = " of a service"
"""How meanings call a fault on a service that nodes use (an object store), whose nodes themselves are well."""


def cause_of(record: Record, fault: Mapping[str, Any]) -> str:
    """The kind of a fault, as meanings call it: ``disk.full of a service`` where the disk is no node's, and ``network
    of a service`` where every link leads to one, since what helps nodes does not help there."""
    kind = str(fault["kind"])
    services = set((record.plan.get("topology") or {}).get("services") or ())
    links = [set(str(link).split(" → ")) for link in fault.get("links") or ()]
    if kind.startswith("network.") and links and all(link & services for link in links):
        return f"network{OF_SERVICE}"
    planned = (each for phase in record.plan["experiment"]["phases"] for each in phase.get("inject") or ())
    of_service = any(each.get("kind") == kind and each.get("service") for each in planned)
    other = f"{kind}{OF_SERVICE}"
    return other if of_service and not fault["targets"] and other in meanings().faults else kind


def causes(record: Record, findings: FindingsFile, phase: str | None) -> list[str]:
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
            found.append((began, cause_of(record, fault)))
    for event in record.of_kind("action.command"):
        at = record.since_start(int(event["t"])) or 0.0
        if start <= at < end:
            found.append((at, str(event.get("action_kind"))))
    return list(dict.fromkeys(kind for _, kind in sorted(found, key=lambda pair: -pair[0])))


def advice(record: Record, findings: FindingsFile, item: FindingItem) -> tuple[Remedy, ...]:
    """What may help against one missed finding; nothing for one that expected the fault to hurt.

    What this run had already is left out, and what could not have helped (:mod:`.in_force`).
    """
    if words.bites(item):
        return ()
    kinds = causes(record, findings, item["phase"])
    useless = _useless(record, kinds, item.get("op"), item.get("phase"))
    offered = meanings().advice(item["metric"], kinds)
    lost = unplaced(record, item["phase"]) if item["metric"] == "until" and item["phase"] else []
    if any(LAST_FAILED in each for each in lost):
        offered = (meanings().remedies[ASK_WHY], *(each for each in offered if each.id != ASK_WHY))
    return tuple(each for each in offered if each.id not in useless)


def _useless(record: Record, kinds: Sequence[str], op: str | None, phase: str | None) -> frozenset[str]:
    """The ids of the remedies that are no answer (:func:`.in_force.useless`), nor one to the faults of a phase: where a
    service alone was broken, no node is dead or slow. ``kinds``: :func:`causes` of the phase."""
    faults = [kind for kind in kinds if kind in meanings().faults]
    services_alone = bool(faults) and all(kind.endswith(OF_SERVICE) or kind.startswith("store.") for kind in faults)
    return in_force.useless(record, op, phase) | frozenset(in_force.OF_NODES if services_alone else ())


ASK_WHY = "explain-allocation"
QUESTION = "What to do?"
QUIETER = "Run it again on a quieter or larger machine"
MORE_OF_IT = "Let it use all of this machine's processors (no taskset, cpuset or quota), then run it again"
LONGER = "Run it again with longer phases or more load"
NEXT = {
    Cause.RECORD: "Put the run's folder back from where it is whole, or run it again",
    Cause.ERROR: "Look at what failed, then run it again",
    Cause.RUNNER_DIED: "Look at what failed, clean up (opensearch-chaos recover), then run it again",
    Cause.REFUSED: "Correct the load, or the setting that forbids what it asks for",
    Cause.CHECK_BROKEN: "Report it: a check of this suite failed",
    Cause.GUARD: "Look at what stopped it, then run it again",
    Cause.ABORTED: "Run it again, to its end",
    Cause.DISK: "Make room on the disk that is named, then run it again",
    Cause.STEP: "Find out why this step did not happen, then run it again",
    Cause.NEVER_GOOD: "See why this was never good, then run it again",
    Cause.NEVER_SHOWN: "See why the checks on data were not answered, then run it again",
    Cause.TOO_LITTLE: LONGER,
    Cause.PUSHED: QUIETER,
    Cause.INSTRUMENT: QUIETER,
    Cause.NOTHING_EXPECTED: "Say in “expect” what users want, then run it again",
    Cause.NO_READBACK: "Find out why nothing was read back, then run it again",
}
"""What follows from a cause alone; of the others it depends on what was found."""


def _to_do(record: Record, findings: FindingsFile) -> Answer:
    decides = deciding(findings)
    if findings["clean"] is False:
        return Answer(QUESTION, "error", "!", "Clean up first: opensearch-chaos recover", links=())
    if findings["clean"] is None and (decides is None or decides["cause"] != Cause.RUNNER_DIED):
        return Answer(
            QUESTION, "error", "!", "Nobody knows whether it was cleaned up: opensearch-chaos recover", links=()
        )
    if decides is None:
        return _well(record, findings)
    outcome, cause = findings["outcome"], Cause(decides["cause"])
    if outcome == "weakness":
        return _against(record, findings, cause)
    if cause is Cause.PROCESS and (ended := findings["tables"].get("ends")):
        return _look_at(ended, outcome)
    mark = {"error": "!", "aborted": "■"}.get(outcome, "?")
    says = (_unsteady(record, findings) or _instrument(findings)) if cause is Cause.INSTRUMENT else None
    says = says or _unlimited(record, decides, cause)
    says = says or NEXT.get(cause) or enough_for(findings, decides) or _prove(findings, decides, cause)
    return Answer(QUESTION, outcome, mark, says, (text.clip(decides["says"], 200),), (Link("trust", "why"),))


def _unlimited(record: Record, decides: ReasonItem, cause: Cause) -> str | None:
    """Where the machine decides, and the run could not use all of it: a larger one would not help."""
    if not usable.limited(record):
        return None
    by_machine = cause in (Cause.INSTRUMENT, Cause.PUSHED) or "processor" in decides["says"].lower()
    return MORE_OF_IT if by_machine else None


OF_INSTRUMENTS = {
    "machine": "See why this machine's processors were not measured, then run it again",
    "pulse": "See why it was not measured whether the instruments were paused, then run it again",
    "path": "Keep the fault off the runner's own way to the nodes, then run it again",
    "steered": "See why load balancers did not hear from their failover controller, then run it again",
}
"""What follows from a condition that no quieter machine would mend, by the first part of its id."""


def _instrument(findings: FindingsFile) -> str | None:
    """Of the first condition that does not hold; None where a quieter or larger machine may help."""
    failed = [str(each["id"]) for each in (findings.get("validity") or {}).get("checks") or () if not each["ok"]]
    return OF_INSTRUMENTS.get(failed[0].partition(".")[0]) if failed else None


EXPLAINS = 0.05
"""Share of the phases' time without a free processor below which the machine explains no bad answers."""


def _unsteady(record: Record, findings: FindingsFile) -> str | None:
    """Where nothing but bad answers before the first fault is wrong, and processors were free: no machine is too small.

    None where something else is wrong, or where the machine may explain it.
    """
    failed = [check["id"] for check in (findings.get("validity") or {}).get("checks") or () if not check["ok"]]
    if not failed or not all(str(id).startswith("steady.") for id in failed):
        return None
    share, _ = starved.share(record) if starved.applies(record) else (0.0, 1.0)
    if share is None or share >= EXPLAINS:
        return None
    ops = text.listed([f"{str(id).removeprefix('steady.')}s" for id in failed])
    return f"Find out what made {ops} bad before anything was done to the cluster, then run it again"


def _against(record: Record, findings: FindingsFile, cause: Cause) -> Answer:
    """What may help against a weakness, by what decides it."""
    if cause is Cause.PROCESS:
        return _look_at(findings["tables"].get("ends") or [], "weakness")
    if cause is Cause.NOTE:
        return Answer(
            QUESTION,
            Shown.IMPROVED.value,
            "→",
            _upper(CLEAR),
            ("A weakness that the file calls known is gone",),
            (Link("expected", "the finding"),),
        )
    if cause is Cause.DISK:
        return Answer(QUESTION, "weakness", "✗", "Make room on the cluster's disks", (), (Link("expected", "why"),))
    missed = [item for item in findings["findings"] if item["counts_as"] == "weakness"]
    if cause is Cause.DOCUMENTS:
        missed.insert(0, {"metric": "documents.unexpected", "phase": None, "measured": None, "target": "0"})
    return _try(record, findings, missed)


def _well(record: Record, findings: FindingsFile) -> Answer:
    """Of a run that passed: what is known to be weak, what users bore all the same, what the checklist found."""
    known = [item for item in findings["findings"] if item["counts_as"] == "known_weakness"]
    if known:
        return _try(record, findings, known, Shown.KNOWN, _notes(known))
    failed = _checklist(record, findings)
    remedies = relief(record, findings)
    if not remedies and not failed:
        unread = () if record.audit else ("The checklist of the cluster was not read",)
        return Answer(QUESTION, "pass", "✓", "Nothing. Keep it as a test, and try a harder fault", unread)
    links = [Link(f"help-{remedy.id}", f"To bear less: {remedy.title}") for remedy in remedies[:2]]
    if failed:
        links.append(_audited(failed))
        found = text.clip(str(failed[0].get("value") or ""), 90)
        says = f"It held. Now mend what fails on the checklist: “{text.clip(str(failed[0].get('title')), 60)}”"
        says += f" ({found})" if found else ""
    else:
        says = f"It held as was asked. Users bore {_borne(findings)}; less of it: {_lower(remedies[0].title)}"
    details = [text.clip(str(row.get("remedy") or ""), 160) for row in failed[:1]]
    return Answer(QUESTION, "pass", "→", says, tuple(each for each in details if each), tuple(links))


OF_A_LAB = ("managers.size", "shards.size", "heap", "heap.size", "storage", "storage.zone", "cpu")
"""Rows of the checklist that say how small the machine of a lab is, on which all nodes are."""
BEARS_ON = {
    "detection": ("network.", "zone.", "link."),
    "detection.stalled": ("disk.", "node.pause"),
    "awareness.forced": ("node.", "zone.", "decommission"),
    "awareness": ("node.", "zone."),
    "zones": ("zone.",),
    "managers": ("cluster_manager.", "zone."),
    "replicas": ("node.", "zone.", "disk."),
    "copies": ("node.", "zone.", "disk."),
}
"""Rows of the checklist, or the first words of their names, and the kinds of fault under which they matter most."""


def _checklist(record: Record, findings: FindingsFile) -> list[dict[str, Any]]:
    """What fails on the cluster's checklist, and not for the size of a lab; what bears on this run's faults first."""
    failed = [row for row in (record.audit or {}).get("rows") or [] if row.get("status") == "fail"]
    if starved.applies(record):
        failed = [row for row in failed if row.get("id") not in OF_A_LAB]
    kinds = causes(record, findings, None)

    def far(row: dict[str, Any]) -> bool:
        id = str(row.get("id"))
        near = BEARS_ON.get(id) or BEARS_ON.get(id.partition(".")[0]) or ()
        return not any(kind.startswith(near) for kind in kinds)

    return sorted(failed, key=far)


def _audited(failed: Sequence[dict[str, Any]]) -> Link:
    return Link("audit", f"{text.plural(len(failed), 'row')} of the checklist failed")


def _worst(findings: FindingsFile) -> list[tuple[str, str, float]]:
    """(operation, phase, outage-equivalent seconds) where each bore most, those that noticed it; the worst first."""
    found = []
    for op, row in (findings["tables"].get("outage") or {}).items():
        if row["phases"] and row["total"] >= NOTICED:
            phase = max(row["phases"], key=lambda name, row=row: float(row["phases"][name]))  # type: ignore[misc]
            found.append((str(op), str(phase), float(row["total"])))
    return sorted(found, key=lambda each: -each[2])


def _borne(findings: FindingsFile) -> str:
    return text.listed([f"{text.seconds(round(total, 1))} without {op}s" for op, _, total in _worst(findings)])


def relief(record: Record, findings: FindingsFile) -> list[Remedy]:
    """What may make the time shorter in which users were not served, though nobody had asked for less."""
    found: dict[str, Remedy] = {}
    for op, phase, _ in _worst(findings):
        kinds = causes(record, findings, phase)
        useless = _useless(record, kinds, op, phase)
        for remedy in meanings().advice(f"{op}.outage", kinds):
            if remedy.id not in useless:
                found.setdefault(remedy.id, remedy)
    return list(found.values())


def _look_at(ended: list[dict[str, Any]], outcome: str) -> Answer:
    """Of a process that ended unasked: what it said last. A node that ended by itself comes first."""
    end = next((end for end in ended if end["weakness"]), ended[0])
    who = {"node": f"node {end['name']}", "driver": "the load driver"}.get(end["what"], f"{end['what']} {end['name']}")
    last = [line for line in [end["fatal"], *end["log_tail"][-LAST_LINES:]] if line]
    again = "" if outcome == "weakness" else ", find out who ended it, and run it again"
    return Answer(
        QUESTION,
        outcome,
        "→" if outcome == "weakness" else "?",
        f"Read what {who} said last{again}",
        tuple(dict.fromkeys(text.clip(line, 200) for line in last)),
        (Link("ends", "the last lines of its log"),),
    )


def _notes(known: Sequence[FindingItem]) -> tuple[str, ...]:
    """What the file says of its gravest known weakness: the last sentence, where a note names its remedy."""
    said = " ".join(str(max(known, key=_rank)["known_weakness"]).split())
    *before, last = re.split(r"(?<=[.!?]) (?=\w)", said)
    return (f"Its note: {'… ' if before else ''}{text.clip(last, 180)}",)


def _try(
    record: Record,
    findings: FindingsFile,
    missed: Sequence[FindingItem],
    called: Shown = Shown.WEAKNESS,
    details: tuple[str, ...] = (),
) -> Answer:
    """The first remedy of every missed finding, the worst first; three at most."""
    remedies: dict[str, Remedy] = {}
    chosen = sorted(missed, key=_rank, reverse=True)
    for depth in range(3):
        for item in chosen:
            offered = advice(record, findings, item)
            if depth < len(offered) and len(remedies) < 3:
                remedies.setdefault(offered[depth].id, offered[depth])
    if not remedies and not all(map(words.bites, chosen)):
        says = "Nothing more that is known here: what usually helps is in force, or could not have helped"
        return Answer(QUESTION, called.value, "→", says, details, (Link("meanings", "what usually helps"),))
    if not remedies:
        return Answer(
            QUESTION,
            "weakness",
            "✗",
            "The fault did less than the experiment expects of it: look at its evidence",
            (),
            (Link("evidence", "evidence"),),
        )
    first, *others = remedies.values()
    return Answer(
        QUESTION,
        called.value,
        "→",
        first.title,
        details or _how(first),
        (
            Link(f"help-{first.id}", "How, and at what price"),
            *(Link(f"help-{remedy.id}", f"Or: {remedy.title}") for remedy in others),
            *([_audited(failed)] if (failed := _checklist(record, findings)) else []),
        ),
    )


def _how(remedy: Remedy) -> tuple[str, ...]:
    """The first setting of a remedy, for who reads no further."""
    return tuple(f"{name}: {value}" for name, value in list(remedy.settings.items())[:1])


def _prove(findings: FindingsFile, decides: ReasonItem, cause: Cause) -> str:
    """What would make an inconclusive run a conclusive one, where the cause alone does not tell."""
    says = decides["says"].lower()
    if cause is Cause.SETTINGS:
        if says.startswith(configuration.HAND):
            return "Find out who else works on the cluster, then run it again"
        if "cancelled" in says:
            return "Find out who cancelled tasks on the cluster, then run it again"
        watched = "Toxiproxies" if "toxiprox" in says else "cluster's settings"
        return f"Find out why nobody watched the {watched}, then run it again"
    if cause is Cause.FAULT:
        if any(fault.get("vanished") for fault in findings["faults"]):
            return "Find out who changed the fault while it was to hold, then run it again"
        return "Find out why the fault is not proven, then run it again"
    if cause is Cause.PROCESS:
        if findings["tables"].get("pauses"):
            return "Find out what paused it, then run it again"
        return "Find out why nobody watched the processes, then run it again"
    if "processors" in says:
        return QUIETER
    if "stood still" in says or "paused" in says:
        return "Find out what stopped it, then run it again"
    return "See what is missing, then run it again"


def _lower(words: str) -> str:
    return words[:1].lower() + words[1:] if words[1:2].islower() else words
