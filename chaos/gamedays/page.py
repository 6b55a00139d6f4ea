"""The page of a game day, and what stays to do in Markdown.

Everything that comes from the record is text for the template, which escapes all of it. The page needs no script and no
other file; each run's own report is linked beside it. Like all our pages it has a table under each figure that says the
same in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from chaos.base import text
from chaos.base.errors import Exit
from chaos.gamedays import summary
from chaos.gamedays.summary import NONE, NOT_THERE, Experiment, Line, Lines, Runs, at, last, number, of, word
from chaos.report import overview
from chaos.report.markdown import SIGNS, escaped

WIDTH, LEFT, RIGHT, ROW = 1120.0, 196.0, 28.0, 26.0
WORDS = {
    **overview.WORDS,
    "dirty": ("!", "dirty"),
    "refused": ("■", "refused"),
    "held": ("■", "held: a person must let it go on"),
    summary.ALREADY: ("-", "held already by another firing"),
    NONE: ("-", "no end on record"),
}
SPOKEN_SECONDS = 90.0
"""Guards are told to the record when they change and each minute; after so long without a word nobody knows."""
MOST_LANES, MOST_ROWS = 12, 400
SHAPES = {
    "announced": "dot",
    "gate": "dot",
    "stop": "square",
    "hold": "square",
    "undone": "diamond",
    "drill": "diamond",
    "lock.lost": "cross",
}


@dataclass(frozen=True)
class Band:
    """Something that lasts. ``kind``: an outcome, or good, bad, silent, pending, firing."""

    x: float
    width: float
    kind: str
    title: str
    label: str = ""


@dataclass(frozen=True)
class Mark:
    """A moment. ``shape``: dot, square, diamond, cross."""

    x: float
    shape: str
    title: str


@dataclass(frozen=True)
class Lane:
    label: str
    y: float
    bands: tuple[Band, ...]
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Row:
    """A line of the timeline's table."""

    clock: str
    after: str
    what: str
    says: str
    kind: str


@dataclass(frozen=True)
class Axis:
    """Seconds since the epoch to x."""

    begin: float
    end: float

    def x(self, moment: float) -> float:
        share = min(max((moment - self.begin) / max(self.end - self.begin, 1.0), 0.0), 1.0)
        return round(LEFT + (WIDTH - LEFT - RIGHT) * share, 1)

    def ticks(self) -> list[tuple[float, str]]:
        lasted = max(self.end - self.begin, 1.0)
        step = next((each for each in (5, 10, 30, 60, 120, 300, 600, 1800, 3600) if lasted / each <= 9), 7200)
        return [(self.x(self.begin + after), text.seconds(float(after))) for after in range(0, int(lasted) + 1, step)]


def page(lines: Lines, runs: Runs = (), earlier: Sequence[Lines] = (), *, head: str | None = None) -> str:
    """The page of one day. ``earlier``: records of days before it. ``head``: SHA-256 of the record's last line."""
    lines, runs, earlier = summary.shown(lines), summary.shown_runs(runs), [summary.shown(each) for each in earlier]
    asked, end = last(lines, "day.asked"), last(lines, "day.end")
    ran = summary.experiments(lines, runs)
    held = summary.held(lines, runs)
    todo = summary.to_do(lines, runs)
    outcome = summary.outcome_of(end)
    rows = list(_rows(lines))
    context: dict[str, Any] = {
        "words": WORDS,
        "outcome": outcome,
        "name": word(asked.get("gameday"), "a game day"),
        "heading": f"{_heading(held, lines)}: {held.says}",
        "hypothesis": asked.get("hypothesis"),
        "answers": _answers(lines, ran, held, todo),
        "facts": list(_facts(lines, ran)),
        "dirty": [
            *(["the drill"] if summary.dirty_drill(lines) else []),
            *(each.name for each in ran if each.clean is False),
        ],
        "holds": [word(line.get("why")) for line in of(lines, "hold")],
        "ended": bool(end),
        "gates": _gates(lines),
        "touched": [_touched(each) for each in ran],
        "approvals": _approvals(lines),
        "drills": of(lines, "drill"),
        "stops": _stops(lines),
        "timeline": _timeline(lines, ran),
        "rows": rows[:MOST_ROWS],
        "more_rows": max(0, len(rows) - MOST_ROWS),
        "experiments": [_experiment(each) for each in ran],
        "not_run": summary.not_run(lines),
        "expectations": of(lines, "expectation"),
        "firing": summary.firing(lines),
        "guards": _guards(lines),
        "announced": of(lines, "announced"),
        "todo": todo,
        "trend": summary.trend([*earlier, lines]) if earlier else None,
        "head": text.printable(head) if head else None,
        "lines": len(lines),
    }
    return overview.environment().get_template("gameday.html.j2").render(**context)


def markdown(lines: Lines, runs: Runs = ()) -> str:
    """How it ended and what stays to do, to paste. Every name in it is escaped."""
    lines, runs = summary.shown(lines), summary.shown_runs(runs)
    asked, held = last(lines, "day.asked"), summary.held(lines, runs)
    outcome = summary.outcome_of(last(lines, "day.end"))
    made = [
        f"## {SIGNS.get(outcome, '❔')} Game day {escaped(word(asked.get('gameday'), 'without a name'))}: "
        f"{escaped(WORDS[outcome][1])}",
        "",
        f"**{_heading(held, lines)}:** {escaped(held.says, 700)}",
        "",
        "### What stays to do",
        "",
    ]
    todo = summary.to_do(lines, runs)
    made += [f"- [ ] {escaped(each.what)}: {escaped(each.why, 500)}" for each in todo] or [_nothing(held)]
    return "\n".join([*made, ""])


def _nothing(held: summary.Held) -> str:
    return "Nothing." if held.kind == "pass" else "Nothing that the record names; the hypothesis is open all the same."


def _heading(held: summary.Held, lines: Lines) -> str:
    if summary.already(lines):
        return "The day was held already"
    if not summary.experiments(lines) and summary.refused(lines):
        return "The day was refused before its first experiment"
    return {"pass": "The hypothesis held", "weakness": "The hypothesis did not hold"}.get(
        held.kind, "The hypothesis is not shown"
    )


# -- the first screen ----------------------------------------------------------------------------


def _answers(lines: Lines, ran: Sequence[Experiment], held: summary.Held, todo: Sequence[summary.Todo]) -> list[Any]:
    rungs = [each.rung for each in ran]
    reached = "a whole zone" if "zone" in rungs else "nodes" if "node" in rungs else NOT_THERE
    approvals = _approvals(lines)
    nothing = "Nothing" if of(lines, "day.end") else "Nothing that is on record"
    said = f"{text.plural(len(ran), 'experiment')}, up to {reached}" if ran else nothing
    who = approvals[0]["says"] if approvals else "nobody: no approval is in the record"
    could, how = _stoppable(lines)
    return [
        _answer(
            held.kind, "Did the hypothesis hold?", held.word, [f"{e.name}: {e.headline}" for e in ran], "experiments"
        ),
        _answer(
            NONE if approvals or not ran else "inconclusive",
            "What was touched?",
            said,
            [f"Approved by {who}"],
            "touched",
        ),
        _answer(could, "Could it be stopped?", how[0], how[1:], "stops"),
        _answer(
            "weakness" if todo else "pass" if held.kind == "pass" else "inconclusive",
            "What stays to do?",
            text.plural(len(todo), "thing") if todo else _nothing(held),
            [each.what for each in todo[:3]],
            "todo",
        ),
    ]


def _answer(kind: str, question: str, said: str, details: Sequence[str], place: str) -> dict[str, Any]:
    sign = "" if kind == NONE else WORDS[kind][0]
    return {"kind": kind, "question": question, "said": said, "details": details[:4], "sign": sign, "place": place}


def _stoppable(lines: Lines) -> tuple[str, list[str]]:
    """What drill and real stops showed."""
    undone = [line for line in of(lines, "undone") if line.get("nothing") is not True]
    pairs = [(number(line.get("seconds")), number(line.get("bound"))) for line in undone]
    said = [f"{_undone(line).capitalize()}: {_of_bound(line)}" for line in undone]
    drills = of(lines, "drill")
    failed = [drill for drill in drills if drill.get("ok") is not True]
    for drill in drills:
        why = f"; {word(drill.get('says'))}" if drill.get("ok") is not True else ""
        said.append(f"Drill: {_of_bound(drill)}, by {word(drill.get('how'))}{why}")
    if of(lines, "stop") and not of(lines, "undone"):
        return "weakness", ["It was stopped, and no undo is on record", *said]
    if any(line.get("all") is not True for line in undone):
        return "weakness", ["Not all was undone at once", *said]
    if any(_is_late(line) for line in (*undone, *failed)):
        return "weakness", ["Not within its bound", *said]
    if failed:
        return "weakness", ["The drill of the kill switch failed", *said]
    if any(None in pair for pair in pairs):
        return "inconclusive", ["Nobody knows whether within its bound", *said]
    said += [_back(line) for line in of(lines, "back")]
    if any(line.get("proven") is not True for line in undone) and not summary.seen_back(lines):
        return "inconclusive", ["It was stopped, and not seen to be back", *said]
    if of(lines, "undone"):
        return "pass", ["Yes, it was stopped", *said, *([] if undone else ["Nothing was under way then"])]
    if drills:
        return "pass", ["Yes, it was drilled", *said]
    return NONE, ["Not tried: no drill and no stop is in the record"]


def _is_late(line: Line) -> bool:
    """Whether it took longer than its bound, as far as the record says."""
    seconds, bound = number(line.get("seconds")), number(line.get("bound"))
    return seconds is not None and bound is not None and seconds > bound


NOT_ALL = "not all undone"


def _undone(line: Line) -> str:
    if line.get("nothing") is True:
        return "nothing was under way"
    if line.get("all") is not True:
        return NOT_ALL
    return "all undone, and proven" if line.get("proven") is True else "all undone, its end not yet proven"


def _back(line: Line) -> str:
    seconds = number(line.get("seconds"))
    when = f"{text.seconds(seconds)} after the stop" if seconds is not None else "at a time that is not in the record"
    if line.get("ok") is True:
        return f"Seen back {when}"
    missing = line.get("missing")
    what = text.listed([str(each) for each in missing]) if isinstance(missing, list) and missing else NOT_THERE
    return f"Not seen back {when}: {what}"


def _of_bound(line: Line) -> str:
    if line.get("nothing") is True:
        return "nothing to undo"
    seconds, bound = number(line.get("seconds")), number(line.get("bound"))
    took = text.seconds(seconds) if seconds is not None else "a time that is not in the record"
    return f"{took} of {text.seconds(bound)}" if bound is not None else f"{took}; its bound is not in the record"


def _facts(lines: Lines, ran: Sequence[Experiment]) -> Iterator[tuple[str, str]]:
    asked, end = last(lines, "day.asked"), last(lines, "day.end")
    yield "Game day", word(asked.get("gameday"))
    for name in ("target", "owner"):
        if asked.get(name):
            yield name.capitalize(), str(asked[name])
    yield "Asked for", f"{_clock(at(asked), day=True)} by {word(asked.get('user'))} on {word(asked.get('host'))}"
    begun, ended = at(asked), at(end) if end else None
    yield "Lasted", text.seconds(max(0.0, ended - begun)) if begun is not None and ended is not None else NOT_THERE
    yield "Exit code", _code(end.get("exit_code"))
    yield "Version", word(asked.get("version"))
    planned = asked.get("digest") or last(lines, "approval").get("digest") or last(lines, "ticket").get("digest")
    yield "Plan", word(planned)[:16]


def _code(given: Any) -> str:
    if type(given) is not int:
        return NOT_THERE
    try:
        return f"{given} ({Exit(given).name.lower()})"
    except ValueError:
        return str(given)


def _clock(moment: float | None, *, day: bool = False) -> str:
    if moment is None:
        return NOT_THERE
    try:
        return f"{datetime.fromtimestamp(moment, UTC):{'%Y-%m-%d %H:%M' if day else '%H:%M:%S'}} UTC"
    except (ValueError, OverflowError, OSError):
        return NOT_THERE


# -- sections ------------------------------------------------------------------------------------


def _gates(lines: Lines) -> list[dict[str, Any]]:
    """The refused ones first, otherwise in their order."""
    gates = [
        {
            "name": word(gate.get("name")),
            "kind": "pass" if gate.get("ok") is True else "refused" if gate.get("ok") is False else NONE,
            "says": word(gate.get("says")),
            "remedy": gate.get("remedy") or "",
            "before": word(gate.get("before")),
        }
        for gate in of(lines, "gate")
    ]
    return sorted(gates, key=lambda gate: gate["kind"] == "pass")


def _approvals(lines: Lines) -> list[dict[str, str]]:
    made = []
    for line in of(lines, "approval"):
        people = line.get("people")
        names = [str(each) for each in people] if isinstance(people, list | tuple) else [str(people)] if people else []
        made.append(
            {
                "says": text.listed(names) or "nobody who is named",
                "digest": word(line.get("digest")),
                "until": word(line.get("until")),
                "ok": "pass" if names else NONE,
            }
        )
    for line in of(lines, "ticket"):
        says = f"the ticket {word(line.get('url'))} ({word(line.get('state'))}: {word(line.get('says'))})"
        good = line.get("ok") is True
        made.append({"says": says, "digest": "", "until": "", "ok": "pass" if good else "refused"})
    return [each for each in made if each["ok"] == "pass"] + [each for each in made if each["ok"] != "pass"]


def _stops(lines: Lines) -> list[dict[str, str]]:
    made = []
    for line in of(lines, "stop", "undone", "back"):
        if line.get("kind") == "back":
            made.append({"clock": _clock(at(line)), "what": "looked for what was hit", "says": _back(line)})
        elif line.get("kind") == "stop":
            made.append(
                {"clock": _clock(at(line)), "what": f"stopped by {word(line.get('by'))}", "says": word(line.get("why"))}
            )
        else:
            made.append({"clock": _clock(at(line)), "what": _undone(line), "says": _of_bound(line)})
    return made


def _touched(each: Experiment) -> dict[str, Any]:
    faults = (each.findings or {}).get("faults")
    rows = []
    for fault in faults or []:
        whom = [str(one) for one in fault.get("targets") or []]
        links = [str(one) for one in fault.get("links") or []]
        proven = fault.get("proven")
        rows.append(
            {
                "says": word(fault.get("says")),
                "phase": word(fault.get("phase")),
                "whom": text.listed(whom[:12]) or (text.plural(len(links), "link") if links else NOT_THERE),
                "proof": "in effect, proven"
                if proven is True
                else "its effect was proven, its end was not"
                if fault.get("effect") is True
                else "not proven",
                "kind": "pass" if proven is True else "inconclusive",
                "gone": "gone again" if fault.get("gone") is not None else "not seen to be gone",
            }
        )
    return {"name": each.name, "rung": each.rung, "faults": rows, "known": faults is not None}


def _experiment(each: Experiment) -> dict[str, Any]:
    return {
        "number": word(each.number, "-"),
        "name": each.name,
        "rung": each.rung,
        "outcome": each.outcome,
        "clean": {True: "clean", False: "DIRTY", None: "clean-up unknown"}[each.clean],
        "dirty": each.clean is not True,
        "code": _code(each.exit_code),
        "seconds": text.seconds(each.seconds) if each.seconds is not None else text.NO_VALUE,
        "headline": each.headline,
        "link": link(each.folder),
        "missed": each.missed[:5],
    }


def link(folder: str | None) -> str | None:
    """Where a run's report is, seen from the page; None where its folder is not below the page's."""
    if not folder:
        return None
    path = PurePosixPath(folder)
    if path.is_absolute() or ".." in path.parts:
        return None
    return f"./{quote(str(path / 'report.html'))}"


def _guards(lines: Lines) -> list[dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {}
    for line in of(lines, "guard"):
        name = word(line.get("name"))
        row = made.setdefault(name, {"name": name, "bad": 0, "silent": 0})
        state = str(line.get("state"))
        row["bad"] += state == "bad"
        row["silent"] += state not in ("good", "bad")
        value = number(line.get("value"))
        row |= {
            "counts": word(line.get("counts")),
            "state": {"good": "pass", "bad": "weakness"}.get(state, "inconclusive"),
            "now": {"good": "good", "bad": "bad"}.get(state, text.NO_VALUE),
            "value": text.number(value) if value is not None else "-",
            "why": line.get("why") or "",
            "answers": word(line.get("number"), text.NO_VALUE),
        }
    stopped = {str(stop.get("by")).removeprefix(summary.GUARD) for stop, _ in summary.tripped(lines)}
    return [{**row, "stopped": name in stopped} for name, row in made.items()]


# -- the timeline --------------------------------------------------------------------------------


def _timeline(lines: Lines, ran: Sequence[Experiment]) -> dict[str, Any] | None:
    moments = [moment for line in lines if (moment := at(line)) is not None]
    if len(moments) < 2:
        return None
    axis = Axis(min(moments), max(moments))
    found: list[tuple[str, list[Band], list[Mark]]] = [
        ("experiments", [_band(axis, each) for each in ran if each.began is not None], []),
        ("gates", [], _marks(axis, of(lines, "gate"))),
        ("announced", [], _marks(axis, of(lines, "announced"))),
        ("stops", [], _marks(axis, of(lines, "drill", "stop", "undone", "hold", "lock.lost"))),
    ]
    guards = _grouped(of(lines, "guard"), lambda line: word(line.get("name")))
    alerts = _grouped(of(lines, "alert"), lambda line: word(line.get("name")))
    found += [(f"guard {name}", list(_guard_bands(axis, said)), []) for name, said in list(guards.items())[:MOST_LANES]]
    found += [(f"alert {name}", list(_alert_bands(axis, said)), []) for name, said in list(alerts.items())[:MOST_LANES]]
    lanes = [Lane(name, 8 + n * ROW, tuple(bands), tuple(marks)) for n, (name, bands, marks) in enumerate(found)]
    return {
        "lanes": lanes,
        "ticks": axis.ticks(),
        "bottom": 8 + len(lanes) * ROW,
        "begin": _clock(axis.begin, day=True),
        "left_out": max(0, len(guards) - MOST_LANES) + max(0, len(alerts) - MOST_LANES),
        "size": {"width": WIDTH, "left": LEFT, "right": WIDTH - RIGHT},
    }


def _grouped(lines: Lines, key: Any) -> dict[str, list[Line]]:
    made: dict[str, list[Line]] = {}
    for line in lines:
        if at(line) is not None:
            made.setdefault(key(line), []).append(line)
    return made


def _band(axis: Axis, each: Experiment) -> Band:
    begin = axis.x(each.began or axis.begin)
    width = max(axis.x(each.ended if each.ended is not None else axis.end) - begin, 2.0)
    mark, said = WORDS[each.outcome]
    label = text.clip(f"{mark} {each.name}", int(width / 6.8)) if width > 40 else ""
    return Band(begin, round(width, 1), each.outcome, f"{each.name}: {said}. {each.headline}", label)


def _marks(axis: Axis, lines: Lines) -> list[Mark]:
    made = []
    for line in lines:
        if (moment := at(line)) is not None:
            what, says, kind = described(line)
            shape = "cross" if kind in ("weakness", "refused", "error") else SHAPES[str(line["kind"])]
            made.append(Mark(axis.x(moment), shape, f"{_clock(moment)}: {what}. {says}"))
    return made


def _guard_bands(axis: Axis, said: Lines) -> Iterator[Band]:
    """From each word to the next; where the next is late, nobody knows in between."""
    for n, line in enumerate(said):
        begin = at(line) or axis.begin
        until = at(said[n + 1]) if n + 1 < len(said) else None
        until = axis.end if until is None else until
        state = {"good": "good", "bad": "bad"}.get(str(line.get("state")), "silent")
        known = min(until, begin + SPOKEN_SECONDS)
        value = number(line.get("value"))
        title = (
            f"{state if state != 'silent' else text.NO_VALUE}{f', {text.number(value)}' if value is not None else ''}"
        )
        yield _span(axis, begin, known, state, f"{title} {line.get('why') or ''}".strip())
        if until > known:
            yield _span(axis, known, until, "silent", "nothing is on record")


def _alert_bands(axis: Axis, said: Lines) -> Iterator[Band]:
    """Alerts of one name lie over each other: who differs in labels is told apart by the titles, and in the table."""
    for labels, lines in _grouped(said, summary.labels_of).items():
        for n, line in enumerate(lines):
            state = str(line.get("state"))
            if state in ("pending", "firing"):
                until = at(lines[n + 1]) if n + 1 < len(lines) else axis.end
                ends = "" if n + 1 < len(lines) else ", to the end of the record"
                yield _span(axis, at(line) or axis.begin, until or axis.end, state, f"{state}{ends}. {labels}")


def _span(axis: Axis, begin: float, end: float, kind: str, title: str) -> Band:
    x = axis.x(begin)
    return Band(x, round(max(axis.x(end) - x, 1.5), 1), kind, f"{_clock(begin)}: {title}")


def _rows(lines: Lines) -> Iterator[Row]:
    """The timeline in words: each line but those of guards that say what they said before."""
    begin = next((moment for line in lines if (moment := at(line)) is not None), None)
    spoken: dict[str, str] = {}
    for line in lines:
        if line.get("kind") == "guard":
            name, state = word(line.get("name")), str(line.get("state"))
            if spoken.get(name) == state:
                continue
            spoken[name] = state
        moment = at(line)
        after = text.seconds(max(0.0, moment - begin)) if moment is not None and begin is not None else "-"
        what, says, kind = described(line)
        yield Row(_clock(moment), after, what, says, kind)


def described(line: Line) -> tuple[str, str, str]:
    """What happened, what is said of it, and the outcome that it looks like (none: it is neither good nor bad)."""
    kind, ok = str(line.get("kind")), line.get("ok")
    good = "pass" if ok is True else "refused" if kind == "gate" else "weakness"
    name, says = word(line.get("name")), word(line.get("says"), "")
    if kind == "gate":
        passed = (
            {True: "let it pass", False: "refused"}.get(ok, "gave no answer") if isinstance(ok, bool) else "no answer"
        )
        return f"gate {name}, before {word(line.get('before'))}: {passed}", says, good
    if kind == "announced":
        told = "told" if ok is True else "NOT told"
        what = f"{word(line.get('event'))} {told} by {word(line.get('way'))} to {word(line.get('label'))}"
        return what, word(line.get("why"), ""), good
    if kind == "guard":
        state = str(line.get("state"))
        value = number(line.get("value"))
        shown = {"good": "good", "bad": "bad"}.get(state, text.NO_VALUE)
        much = f", {text.number(value)}" if value is not None else ""
        look = {"good": "pass", "bad": "weakness"}.get(state, "inconclusive")
        return f"guard {name}: {shown}{much}", word(line.get("why"), ""), look
    if kind == "alert":
        state = word(line.get("state"))
        return f"alert {name}: {state}", summary.labels_of(line), NONE
    if kind == "experiment.begin":
        return f"{name} began", f"up to {word(line.get('rung'))}", NONE
    if kind == "experiment.end":
        outcome = summary.outcome_of(line)
        return f"{name} ended: {WORDS[outcome][1]}", word(line.get("headline")), outcome
    if kind == "expectation":
        verdict = line.get("verdict")
        return f"expected of the alert {name}", says, verdict if verdict in WORDS else NONE
    if kind == "drill":
        return "the kill switch was drilled", f"{_of_bound(line)}. {says}", good
    if kind == "stop":
        return f"stopped by {word(line.get('by'))}", word(line.get("why")), "aborted"
    if kind == "undone":
        said = _undone(line)
        return said, _of_bound(line), "weakness" if said == NOT_ALL else NONE
    if kind == "hold":
        return "a hold was left", word(line.get("why")), "aborted"
    if kind == "approval":
        return "approved", next(iter(_approvals([line])))["says"], NONE
    if kind == "ticket":
        return f"ticket {word(line.get('url'))}: {word(line.get('state'))}", says, good
    if kind == "lock.taken":
        return "the lock was taken", f"token {word(line.get('token'))}", NONE
    if kind == "lock.lost":
        return "the lock was lost", says, "error"
    if kind == "day.asked":
        return "the day was asked for", f"by {word(line.get('user'))} on {word(line.get('host'))}", NONE
    if kind == "day.end":
        outcome = summary.outcome_of(line)
        return f"the day ended: {WORDS[outcome][1]}", says, outcome
    return kind, says, NONE
