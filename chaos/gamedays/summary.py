"""What a day's record says: what ran, whether the hypothesis held, what stays to do, and how earlier days went.

Pure: from the record's lines (``kind`` and its fields) and the findings of its runs. Whatever is not there is said to
be missing, and never counts as good.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import Any

from chaos.base import text

Line = Mapping[str, Any]
Lines = Sequence[Line]
Runs = Sequence[Mapping[str, Any]]
"""Each run: ``folder``, relative to the page, and ``findings``, what its findings.json holds (None: it has none)."""
NONE = "none"
"""An outcome that is not in the record."""
ALREADY = "held already"
"""The outcome of a firing that found its day held, or under way, by another one."""
OUTCOMES = ("pass", "weakness", "inconclusive", "aborted", "error", "dirty", "refused", "held", ALREADY)
NOT_THERE = "not in the record"
MISSED = ("weakness",)
GUARD = "guard."


@dataclass(frozen=True)
class Experiment:
    """One experiment of the day. ``outcome`` is :data:`NONE` where it has no end on record; times are epoch seconds."""

    number: int | None
    name: str
    rung: str
    began: float | None
    ended: float | None
    outcome: str
    exit_code: int | None
    clean: bool | None
    seconds: float | None
    headline: str
    folder: str | None
    findings: Mapping[str, Any] | None

    @property
    def improved(self) -> list[str]:
        """Expectations that held although their file calls them known weaknesses."""
        items = (self.findings or {}).get("findings") or []
        return [str(item.get("title")) for item in items if item.get("counts_as") == "unexpected_pass"]

    @property
    def has_improved(self) -> bool:
        """Whether it is a weakness by nothing but a known one that is gone."""
        return self.outcome == "weakness" and self.headline.startswith("Improved: ")

    @property
    def missed(self) -> list[str]:
        """Expectations that did not hold, each with what was measured."""
        items = (self.findings or {}).get("findings") or []
        return [
            f"{item.get('title')}: measured {item.get('measured_text') or text.NO_VALUE}"
            for item in items
            if item.get("counts_as") in MISSED
        ]


@dataclass(frozen=True)
class Todo:
    """Something that stays to do, and why."""

    what: str
    why: str


@dataclass(frozen=True)
class Held:
    """Whether the hypothesis held. ``kind``: pass (yes), weakness (no), inconclusive (not shown)."""

    kind: str
    says: str

    @property
    def word(self) -> str:
        return {"pass": "Yes", "weakness": "No"}.get(self.kind, "Not shown")


def shown(lines: Lines) -> list[Line]:
    """The same without letters that nobody sees, which could turn a text around or move a cursor."""
    return [_visible(dict(line)) for line in lines]


def shown_runs(runs: Runs) -> list[dict[str, Any]]:
    """Of each run what is drawn, and that without such letters too."""
    made = []
    for run in runs:
        given = run.get("findings")
        kept = None if given is None else {"findings": given.get("findings"), "faults": _faults(given.get("faults"))}
        made.append({"folder": run.get("folder"), "findings": _visible(kept)})
    return made


def _faults(given: Any) -> list[dict[str, Any]] | None:
    names = ("says", "phase", "targets", "links", "proven", "gone")
    return (
        None if given is None else [{**{name: fault.get(name) for name in names}, **_effect(fault)} for fault in given]
    )


def _effect(fault: Mapping[str, Any]) -> dict[str, Any]:
    """Whether its effect was proven, whatever became of its end."""
    stage = (fault.get("stages") or {}).get("effect") or {}
    return {"effect": stage.get("proven") is True and fault.get("in_effect") is not None}


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return "".join(letter if letter.isprintable() or letter == "\u00a0" else " " for letter in value)
    if isinstance(value, Mapping):
        return {_visible(name): _visible(each) for name, each in value.items()}
    return [_visible(each) for each in value] if isinstance(value, list | tuple) else value


def at(line: Line) -> float | None:
    """When a line was written, in seconds since the epoch; None where that cannot be read."""
    try:
        return datetime.fromisoformat(str(line.get("t"))).timestamp()
    except (ValueError, OverflowError):
        return None


def of(lines: Lines, *kinds: str) -> list[Line]:
    return [line for line in lines if line.get("kind") in kinds]


def last(lines: Lines, kind: str) -> Line:
    """The last line of a kind; empty where there is none."""
    return next(iter(reversed(of(lines, kind))), {})


def word(value: Any, missing: str = NOT_THERE) -> str:
    """A field as text; one that is not there, or is empty, says so."""
    return missing if value is None or value == "" else str(value)


def number(value: Any) -> float | None:
    """A finite number; None for anything else."""
    return float(value) if type(value) in (int, float) and math.isfinite(value) else None


def outcome_of(line: Line) -> str:
    return str(line.get("outcome")) if line.get("outcome") in OUTCOMES else NONE


def seen_back(lines: Lines) -> bool:
    """Whether what was hit by a run that was stopped was seen back after it, where the run itself had no proof."""
    return any(line.get("ok") is True for line in of(lines, "back"))


def experiments(lines: Lines, runs: Runs = ()) -> list[Experiment]:
    """Those that began, in their order."""
    folders = {PurePath(str(run["folder"])).name: run for run in runs if run.get("folder")}
    ends = of(lines, "experiment.end")
    made = []
    for begin in of(lines, "experiment.begin"):
        key = (begin.get("number"), begin.get("name"))
        end = next((each for each in ends if (each.get("number"), each.get("name")) == key), {})
        run = folders.get(PurePath(str(end.get("folder") or "")).name) or {}
        clean, code = end.get("clean"), end.get("exit_code")
        made.append(
            Experiment(
                number=begin["number"] if type(begin.get("number")) is int else None,
                name=word(begin.get("name")),
                rung=word(begin.get("rung")),
                began=at(begin),
                ended=at(end) if end else None,
                outcome=outcome_of(end),
                exit_code=code if type(code) is int else None,
                clean=clean if isinstance(clean, bool) else None,
                seconds=number(end.get("seconds")),
                headline=word(end.get("headline"), "it has no end on record" if not end else "no headline on record"),
                folder=str(run["folder"]) if run else None,
                findings=run.get("findings"),
            )
        )
    return made


def already(lines: Lines) -> bool:
    """Whether this firing found its day held by another one, so that nothing was to be done."""
    return outcome_of(last(lines, "day.end")) == ALREADY


def is_day(lines: Lines) -> bool:
    """Whether a record is that of a day: not of a hold that was cleared, nor of a firing that found it held already."""
    return bool(of(lines, "day.asked")) and not already(lines)


def not_run(lines: Lines) -> list[str]:
    """Experiments that were planned, as ``day.asked`` says where it does, and never began; none of a day that another
    firing held."""
    if already(lines):
        return []
    planned = [str(name) for name in last(lines, "day.asked").get("experiments") or []]
    begun = Counter(each.name for each in experiments(lines))
    return [name for n, name in enumerate(planned) if planned[:n].count(name) >= begun[name]]


def dirty_drill(lines: Lines) -> bool:
    """Whether the drill left something. Records of before do not say so."""
    return any(line.get("clean") is False for line in of(lines, "drill"))


def refused(lines: Lines) -> list[Line]:
    """Gates that did not let it go on. One without an answer did not either."""
    return [gate for gate in of(lines, "gate") if gate.get("ok") is not True]


def tripped(lines: Lines) -> list[tuple[Line, str | None]]:
    """Stops by a guard, with what that guard counts as (None: not in the record)."""
    counts = {str(line.get("name")): line.get("counts") for line in of(lines, "guard")}
    stops = [line for line in of(lines, "stop") if str(line.get("by")).removeprefix(GUARD) in counts]
    return [(stop, counts[str(stop.get("by")).removeprefix(GUARD)]) for stop in stops]


def held(lines: Lines, runs: Runs = ()) -> Held:
    """Whether the hypothesis held, in one sentence with by how much."""
    ran = experiments(lines, runs)
    alerts = of(lines, "expectation")
    broke = [f"{each.name}: {each.headline}" for each in ran if each.outcome == "weakness" and not each.has_improved]
    broke += [
        f"the guard {word(stop.get('by'))}: {word(stop.get('why'))}" for stop, c in tripped(lines) if c == "outcome"
    ]
    broke += [
        f"the alert {word(a.get('name'))}: {word(a.get('says'))}" for a in alerts if a.get("verdict") == "weakness"
    ]
    if broke:
        more = f" And {len(broke) - 1} more." if len(broke) > 1 else ""
        return Held("weakness", sentence(broke[0]) + more)
    why = next(_unshown(lines, ran), None)
    if why is not None:
        return Held("inconclusive", sentence(why))
    return Held("pass", " ".join(sentence(f"{each.name}: {each.headline}") for each in ran))


def _unshown(lines: Lines, ran: Sequence[Experiment]) -> Iterator[str]:
    """Why it is not shown that the hypothesis held; what decides comes first."""
    end = last(lines, "day.end")
    gates = refused(lines)
    if already(lines):
        yield word(end.get("says")).removeprefix("already held: ")
    if not ran and gates:
        yield f"{word(gates[0].get('name'))}: {word(gates[0].get('says'))}"
    for stop in of(lines, "stop"):
        yield f"it was stopped by {word(stop.get('by'))}: {word(stop.get('why'))}"
    if not end:
        yield "the record has no end: its runner died, or the day is still under way"
    for each in ran:
        if each.outcome != "pass" and not each.has_improved:
            yield f"{each.name}: {each.headline}"
    for each in ran:
        if each.clean is not True:
            yield f"{each.name} {'left something behind' if each.clean is False else 'may have left something behind'}"
    if not ran:
        yield "no experiment began"
    for name in not_run(lines):
        yield f"{name} was planned and did not run"
    for gate in gates:
        yield f"{word(gate.get('name'))} refused it: {word(gate.get('says'))}"
    for alert in of(lines, "expectation"):
        if alert.get("verdict") != "pass":
            yield f"the alert {word(alert.get('name'))}: {word(alert.get('says'))}"
    improved = any(each.has_improved for each in ran)  # what else was a weakness is told before
    if (end.get("outcome"), end.get("exit_code")) != (("weakness", 1) if improved else ("pass", 0)):
        yield word(end.get("says"), "the day did not end as passed, and says not why")


def sentence(given: str) -> str:
    """Ends with a full stop, once."""
    kept = given.strip()
    return kept if kept.endswith((".", "!", "?", "…")) else f"{kept}."


def to_do(lines: Lines, runs: Runs = ()) -> list[Todo]:
    """What stays to do, what endangers the cluster first."""
    return list(dict.fromkeys(_to_do(lines, runs)))


def _to_do(lines: Lines, runs: Runs) -> Iterator[Todo]:
    ran, end = experiments(lines, runs), last(lines, "day.end")
    for each in ran:
        if each.clean is False:
            yield Todo(f"Undo what {each.name} left: opensearch-chaos recover --on TARGET", "its clean-up failed")
        elif each.clean is None:
            yield Todo(f"Make sure that nothing of {each.name} is left", "the record does not say that it is clean")
    if dirty_drill(lines):
        yield Todo("Undo what the drill left: opensearch-chaos recover --on TARGET", "its clean-up failed")
    if not end:
        yield Todo(
            "See whether anything is still changed on the cluster", "the record has no end: its runner may be dead"
        )
    stops, undone = of(lines, "stop"), of(lines, "undone")
    if stops and not undone:
        yield Todo("See whether all is undone", "it was stopped, and no undo is on record")
    for line in undone:
        if line.get("nothing") is True:
            continue
        seconds, bound = number(line.get("seconds")), number(line.get("bound"))
        if line.get("all") is not True:
            yield Todo("See whether all is undone", "when the run was stopped, not all could be taken back at once")
        elif line.get("proven") is not True and not seen_back(lines):
            yield Todo("See that what was hit is back", "the run was stopped, and waited for no proof of it")
        if seconds is None or bound is None:
            yield Todo("See whether all was undone in time", "the record does not say how long it took")
        elif seconds > bound:
            yield Todo(
                "Make an abort faster", f"it took {text.seconds(seconds)}, and {text.seconds(bound)} are the bound"
            )
    for line in of(lines, "hold"):
        yield Todo("Understand what happened, then clear the hold", word(line.get("why")))
    for line in of(lines, "lock.lost"):
        yield Todo("Find out who took the lock", word(line.get("says")))
    for each in ran:
        if each.has_improved:
            what = f"Clear the notes of {each.name} before the next release: a known weakness is gone"
            yield Todo(what, "; ".join(each.improved[:5]) or each.headline)
        elif each.outcome == "weakness":
            yield Todo(f"Mend what {each.name} found, or accept it", "; ".join(each.missed[:5]) or each.headline)
    for line, counts in tripped(lines):
        why = f"{word(line.get('by'))}: {word(line.get('why'))}"
        yield Todo("See why users were hit" if counts == "outcome" else "See what else broke", why)
    for line in of(lines, "expectation"):
        if line.get("verdict") != "pass":
            doing = "Mend the alert" if line.get("verdict") == "weakness" else "Show once more that it fires: the alert"
            yield Todo(f"{doing} {word(line.get('name'))}", word(line.get("says")))
    for line in of(lines, "drill"):
        if line.get("ok") is not True:
            yield Todo("Mend the kill switch before the next day", word(line.get("says")))
    for line in refused(lines):
        yield Todo(
            word(line.get("remedy"), f"Mend {word(line.get('name'))}"),
            f"{word(line.get('name'))}: {word(line.get('says'))}",
        )
    for each in ran:
        if each.outcome not in ("pass", "weakness"):
            yield Todo(f"Run {each.name} again", each.headline)
    for name in not_run(lines):
        yield Todo(f"Run {name}", "it was planned and did not run")
    for line in of(lines, "announced"):
        if line.get("ok") is not True:
            why = f"{word(line.get('event'))} was not told: {word(line.get('why'))}"
            yield Todo(f"Mend the announcement by {word(line.get('way'))} to {word(line.get('label'))}", why)
    for name, labels in firing(lines):
        yield Todo(
            f"See why the alert {name} is still firing", f"{labels or 'it'} had not resolved when the record ended"
        )


def firing(lines: Lines) -> list[tuple[str, str]]:
    """Alerts that fired when the record ended: name, and labels as text."""
    state: dict[tuple[str, str], Any] = {}
    for line in of(lines, "alert"):
        state[(word(line.get("name")), labels_of(line))] = line.get("state")
    return [key for key, now in state.items() if now == "firing"]


def labels_of(line: Line) -> str:
    given = line.get("labels")
    return ", ".join(f"{name}={value}" for name, value in sorted(given.items())) if isinstance(given, Mapping) else ""


@dataclass(frozen=True)
class Past:
    """One day of the trend. ``cells``: an outcome and a headline for each experiment; None: it did not run."""

    when: str
    outcome: str
    held: str
    cells: tuple[tuple[str, str] | None, ...]


@dataclass(frozen=True)
class Trend:
    """Days of one game day, the newest last."""

    experiments: tuple[str, ...]
    days: tuple[Past, ...]
    left_out: int


def trend(days: Sequence[Lines], most: int = 8) -> Trend:
    """The last ``most`` of these records, in the order of their beginning."""
    known = sorted(days, key=lambda lines: at(lines[0]) or -math.inf if lines else -math.inf)
    shown = known[-most:]
    names = list(dict.fromkeys(each.name for lines in shown for each in experiments(lines)))
    made = []
    for lines in shown:
        ran = {each.name: (each.outcome, each.headline) for each in experiments(lines)}
        when = str(lines[0].get("t") or NOT_THERE)[:16].replace("T", " ") if lines else NOT_THERE
        made.append(Past(when, outcome_of(last(lines, "day.end")), held(lines).kind, tuple(map(ran.get, names))))
    return Trend(tuple(names), tuple(made), len(known) - len(shown))
