"""SLIs of the team's own: what a Prometheus says while a run lasts, the guard over it, and what it said in a phase.

Each SLI is asked in a thread of its own (:mod:`chaos.opensearch.prometheus`), and every answer is written down. A line
of ``history/slis.jsonl``: ``t`` (when it was asked, CLOCK_MONOTONIC ns), ``kind`` sli, ``name``, ``value`` (None:
there is none), ``at`` (for which moment it was evaluated, by the server's clock), ``took_ms``, and without a value
``why`` in our words and ``said`` in those of others. The words of others may hold any name of theirs. Of alert rules
(:mod:`chaos.opensearch.alerts`) ``value`` is how many alerts fire, and ``alerts`` names those of which one does.

The history has an answer every few seconds, with a value or with
why there is none. An answer belongs to the phase in which it was asked for and came; one that came in the next belongs
to none, since nobody knows when it was evaluated. What it says is of the time before (the window of a ``rate``, the
last scrape), which nobody here can know.

Missing data never passes. Where so many answers in a row have no value as a guard would not bear either, or nobody was
asked for as long, or less than :data:`COVERED` of the answers that were due have one, nobody knows what was in between.
Only what was seen to miss its target stands whatever else is missing: a largest value that is too large, a smallest one
that is too small.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from chaos.base import text
from chaos.base.console import Reporter
from chaos.base.errors import InvalidInput
from chaos.base.guarding import Guard
from chaos.base.text import one_line
from chaos.checks.check import Check
from chaos.checks.instrument import Begins, Context, Ends, Event, Instrument, Observer
from chaos.checks.measure import Bound, Measure, Verdict, judge
from chaos.checks.record import SECOND, Expected, Record, Span
from chaos.checks.words import Words, filled, verbatim
from chaos.definitions import Experiment
from chaos.definitions.experiment import Guards
from chaos.definitions.slis import FIRES, FIRING, INTERVALS, OF_ALERTS, ResolvedSli, Sli, SliLimit, of_plan, parted
from chaos.history.writer import Broken, EventWriter
from chaos.opensearch.alerts import AlertAsker
from chaos.opensearch.prometheus import DEADLINE_SECONDS, Answer, Asker

FILE = "slis.jsonl"
BYTES = 400
"""An answer about an SLI, words of its Prometheus included."""


def _asker(sli: ResolvedSli, folder: Path) -> Asker | AlertAsker:
    return Asker(sli, folder) if sli.rules is None else AlertAsker(sli, folder)


def refuse_unready(experiment: Experiment, reporter: Reporter | None = None) -> None:
    """Ask for each SLI once, before anything is started. Raises InvalidInput with all that cannot be evaluated.

    One without data yet is said: what it measures may only begin with the run. A guard needs its data now, and one of
    alerts that none fires already.
    """
    wrong = []
    for name, sli in experiment.slis.items():
        asker = _asker(sli, experiment.file.parent)
        try:
            answer = asker.ask()
        finally:
            asker.close()
        where = f"the SLI {name} ({sli.prometheus})"
        limit = experiment.guards.sli.get(name)
        if answer.value is not None:
            if limit is not None and limit.firing and limit.beyond(answer.value):
                wrong.append(f"{where}: {', '.join(answer.alerts)} fires already; a guard would end the run at once")
            continue
        if answer.reached and not answer.wrong and asker.looks_back is False and sli.fresh is None:
            wrong.append(
                f"{where}: it goes by no lookback_delta, so nobody knows how old its data is: "
                "say it under fresh, for example fresh: time() - max(timestamp(METRIC))"
            )
        elif not answer.reached or answer.wrong:
            wrong.append(f"{where}: {answer.sentence}")
        elif limit is not None:
            wrong.append(f"{where}: {answer.sentence}; a guard that has no data cannot be evaluated")
        elif reporter is not None:
            reporter.line(f"no data yet for the SLI {name}: {answer.sentence}")
    if wrong:
        said = "\n".join([f"{experiment.name} asks for what cannot be had:", *(f"  {each}" for each in wrong)])
        raise InvalidInput(said, remedy="try the query at its address, and mend it under slis")


@dataclass(frozen=True)
class Said:
    """The last answer about an SLI. ``number`` of how many, ``heard`` when it was there (``time.monotonic()``)."""

    number: int
    heard: float
    value: float | None
    why: str | None


class Limit:
    """``sli``: a number of the team's own stays on the wrong side of a limit, answer by answer.

    An answer without a value says nothing; so many in a row, or nobody who asks any more, end the run. ``said``: the
    last answer, see :meth:`Slis.said`.
    """

    def __init__(self, name: str, limit: SliLimit, sli: Sli, said: Callable[[], Said | None]) -> None:
        self.name = f"sli.{name}"
        self._sli, self._limit, self._every, self._said = name, limit, float(sli.every), said
        self._number, self._without = 0, 0
        self._heard: float | None = None
        self._beyond_since: float | None = None

    def tripped(self, now: float) -> str | None:
        said = self._said()
        self._heard = now if self._heard is None else self._heard
        if said is None or said.number == self._number:
            silent = (INTERVALS + 1) * self._every
            if now - self._heard > silent:
                return f"it cannot be evaluated: nothing was heard of {self._sli} for {silent:g} s"
            return None
        self._number, self._heard = said.number, said.heard
        if said.value is None:
            self._without += 1
            if self._without < INTERVALS:
                return None
            return f"it cannot be evaluated: {self._sli} had no value {self._without} times in a row ({said.why})"
        self._without = 0
        if not self._limit.beyond(said.value):
            self._beyond_since = None
            return None
        if self._beyond_since is None:
            self._beyond_since = said.heard
        if said.heard - self._beyond_since < self._limit.seconds:
            return None
        if self._limit.for_ is None:
            return f"{self._sli} fires ({text.plural(int(said.value), 'alert')})"
        return f"{self._sli} was {self._limit.says} for {self._limit.for_.text} (at last {said.value:g})"


class Slis(Observer):
    """All SLIs of a run, from :meth:`start` to :meth:`stop`. Without any it does nothing."""

    def __init__(self, experiment: Experiment, history: Path, broken: Broken) -> None:
        """``history``: the folder of the run's record. ``broken``: told when an answer cannot be written."""
        self._wanted, self._folder = experiment.slis, experiment.file.parent
        self._file, self._broken = history / FILE, broken
        self._over = threading.Event()
        self._said: dict[str, Said] = {}
        self._threads: list[threading.Thread] = []
        self._events: EventWriter | None = None

    def start(self) -> None:
        """Raises InvalidInput when secrets or files cannot be read (any more)."""
        if not self._wanted:
            return
        askers = {name: _asker(sli, self._folder) for name, sli in self._wanted.items()}
        self._events = EventWriter(self._file, self._broken)
        for name, asker in askers.items():
            thread = threading.Thread(target=self._run, args=(name, asker), name=f"sli {name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self, *, patient: bool = True) -> None:
        """Idempotent. Waits for answers that are under way, each for its deadline at most."""
        self._over.set()
        until = time.monotonic() + 2 * DEADLINE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        if self._events is not None and not any(thread.is_alive() for thread in self._threads):
            self._events.close()

    def guards(self, wanted: Guards) -> Sequence[Guard]:
        return [Limit(name, limit, self._wanted[name], partial(self.said, name)) for name, limit in wanted.sli.items()]

    def said(self, name: str) -> Said | None:
        """The last answer; None before there is one."""
        return self._said.get(name)

    def _run(self, name: str, asker: Asker | AlertAsker) -> None:
        every = float(self._wanted[name].every)
        due = time.monotonic()
        try:
            while not self._over.is_set():
                with suppress(OSError):  # of the disk: whoever owns the record has been told, and ends the run
                    self._once(name, asker.ask)
                due += every * max(1.0, math.ceil((time.monotonic() - due) / every))  # what was missed is not made up
                if self._over.wait(max(0.0, due - time.monotonic())):
                    return
        finally:
            asker.close()

    def _once(self, name: str, ask: Callable[[], Answer]) -> None:
        asked = time.monotonic_ns()
        try:
            answer = ask()
        except Exception as error:  # then there is no value, and the record says why
            answer = Answer(why=f"asking failed: {type(error).__name__}", said=one_line(str(error)))
        heard = time.monotonic_ns()
        fields: dict[str, Any] = {"name": name, "value": answer.value, "at": answer.at}
        fields["took_ms"] = round((heard - asked) / 1e6, 1)
        if answer.value is None:
            fields |= {"why": answer.why, "said": answer.said}
        if answer.alerts:
            fields["alerts"] = list(answer.alerts)
        before = self._said.get(name)
        self._said[name] = Said(before.number + 1 if before else 1, heard / 1e9, answer.value, answer.why)
        assert self._events is not None
        self._events.write("sli", t=asked, **fields)


# -- judging ---------------------------------------------------------------------------------------

HOLE = INTERVALS + 0.5
"""Intervals from one value to the next, or to the phase's edges, at most; half a one is for lateness."""
COVERED = 0.5
"""The share of the answers due in a phase that must have a value."""
WRONG_SIDE = {"max": ("<", "<="), "min": (">", ">="), FIRING: ("<", "<=", "==")}
"""Quantity → comparisons that one value alone can miss for good; of ``==`` one that is larger."""
SHORT = {"max": "largest", "min": "smallest", "mean": "mean", "last": "last"}
UNITS = {"count": "count", "duration": "seconds"}


def unit_of(target: str) -> str:
    """How values are shown: as the target was written (``< 1%``, ``<= 250ms``, ``> 3``)."""
    return "ratio" if target.endswith("%") else "seconds" if target[-1:] in ("s", "m", "h") else "number"


def measure(record: Record, wanted: Expected, span: Span) -> Measure:
    """One quantity of one SLI in one phase."""
    name, quantity = parted(wanted.metric) or ("", "")
    unit = UNITS[OF_ALERTS[quantity]] if quantity in OF_ALERTS else unit_of(wanted.text)
    planned = of_plan(record.plan.get("experiment") or {}).get(name)
    if planned is None:
        return Measure.missing(unit, f"the plan has no SLI {name}")
    every = float(planned["every"])
    answers = [
        each
        for each in record.lines(FILE)
        if each.get("name") == name and span.holds(int(each["t"])) and span.holds(_heard(each))
    ]
    seen = [(int(each["t"]), float(each["value"])) for each in answers if each.get("value") is not None]
    due = max(1, round(span.seconds / every))
    evidence = {"values": len(seen), "due": due, "every": every}
    hole = _hole(record, span, [at for at, _ in seen], answers, every, due)
    if quantity == FIRES:
        return _fires(record, name, wanted, span, answers, hole, every)
    if not seen:
        return Measure.missing(unit, hole or _nothing(answers), **evidence)
    value, says = _value(record, quantity, seen)
    says = f"{says}, of {text.plural(len(seen), 'value')}"
    if hole is None and quantity == "last" and int(answers[-1]["t"]) != seen[-1][0]:
        hole = f"the last answer of the phase has no value{_reasons(answers[-1:])}"
    if hole is None:
        return Measure(value, unit, says, evidence=evidence)
    known = Measure(value, unit, f"{says}; besides, {hole}", evidence=evidence)
    if wanted.comparison in WRONG_SIDE.get(quantity, ()) and _missed(known, wanted):
        return known
    there = f"of the values that are there the {_short(quantity)} is {known.text}"
    return Measure.missing(unit, f"{hole} ({there})", **evidence)


def _heard(answer: Mapping[str, Any]) -> int:
    """When an answer was there (ns): it was evaluated before, and after it was asked for."""
    return int(answer["t"]) + round(float(answer.get("took_ms") or 0) * 1e6)


def _fires(
    record: Record,
    name: str,
    wanted: Expected,
    span: Span,
    answers: Sequence[Mapping[str, Any]],
    hole: str | None,
    every: float,
) -> Measure:
    """Seconds from the phase's begin until the first answer in which an alert fires."""
    first = next((each for each in answers if each.get("value")), None)
    if first is None:
        if hole is not None:
            return Measure.missing("seconds", f"no answer in which it fires, and {hole}")
        last = max((int(each["t"]) for each in answers if each.get("value") is not None), default=None)
        if last is None:
            return Measure.missing("seconds", _nothing(answers))
        return Measure((last - span.start) / SECOND, "seconds", "no alert fired in the phase", Bound.MORE_THAN)
    before = [each for each in record.lines(FILE) if each.get("name") == name and int(each["t"]) < span.start]
    known = [*before[-1:], *itertools.takewhile(lambda each: each is not first, answers)]
    if known and known[0].get("value"):
        return Measure.missing("seconds", "an alert fired already when the phase began, so the phase did not make it")
    silent = [int(each["t"]) for each in known if each.get("value") == 0]
    if not silent:
        says = "an alert fires at the first answer, and nothing is known of the time before"
        return Measure.missing("seconds", f"{says}{_reasons(known)}")
    heard = _heard(first)
    latest = span.start + wanted.value * SECOND
    if heard - silent[-1] > HOLE * every * SECOND and silent[-1] < latest < heard:
        return Measure.missing("seconds", f"an alert fires after a time of which nothing is known{_reasons(known[1:])}")
    fired = " and ".join(map(str, first.get("alerts") or ())) or "an alert"
    says = f"{verbatim(fired)} fired at {text.seconds(record.since_start(heard) or 0.0)}"
    return Measure((heard - span.start) / SECOND, "seconds", says)


def _short(quantity: str) -> str:
    return "number of alerts that fire at once" if quantity == FIRING else SHORT[quantity]


def _missed(measured: Measure, wanted: Expected) -> bool:
    if wanted.comparison == "==" and measured.value is not None and measured.value <= wanted.value:
        return False
    return judge(measured, wanted.comparison, wanted.value) is Verdict.FAIL


def _value(record: Record, quantity: str, seen: Sequence[tuple[int, float]]) -> tuple[float, str]:
    """The quantity of (moment, value) pairs, of which there is one at least, and where it comes from."""
    if quantity == "mean":
        return sum(value / len(seen) for _, value in seen), "the mean"
    best = {
        "max": lambda: max(seen, key=lambda pair: pair[1]),
        "min": lambda: min(seen, key=lambda pair: pair[1]),
        "last": lambda: seen[-1],
        FIRING: lambda: max(seen, key=lambda pair: pair[1]),
    }
    at, value = best[quantity]()
    if quantity == FIRING and not value:
        return value, "no alert fired"
    return value, f"the {SHORT.get(quantity, 'most')}, at {text.seconds(record.since_start(at) or 0.0)}"


def _hole(
    record: Record, span: Span, seen: Sequence[int], answers: Sequence[Mapping[str, Any]], every: float, due: int
) -> str | None:
    """Why too little of a phase is known, in words; None when enough is. ``seen``: the moments that have a value."""
    edges = [span.start, *seen, span.end]
    start, end = max(itertools.pairwise(edges), key=lambda gap: gap[1] - gap[0])
    if (end - start) / SECOND <= HOLE * every:
        start, end = max(itertools.pairwise(edges), key=lambda gap: len(_between(answers, *gap)))
    between = _between(answers, start, end)
    if (end - start) / SECOND > HOLE * every or len(between) >= INTERVALS:
        since, until = (text.seconds(max(0.0, record.since_start(at) or 0.0)) for at in (start, end))
        return f"no data from {since} to {until}, one answer every {text.seconds(every)} was due{_reasons(between)}"
    if len(seen) < COVERED * due:
        return f"only {len(seen)} of {due} answers have a value{_reasons(answers)}"
    return None


def _between(answers: Sequence[Mapping[str, Any]], start: int, end: int) -> list[Mapping[str, Any]]:
    """The answers without a value from one moment to another."""
    return [each for each in answers if start <= int(each["t"]) < end and each.get("value") is None]


def _nothing(answers: Sequence[Mapping[str, Any]]) -> str:
    """Of a phase so short that no answer is missed."""
    return f"no answer with a value in the phase{_reasons(answers)}"


def _reasons(answers: Sequence[Mapping[str, Any]]) -> str:
    """What was said most often instead of a value; empty where nobody was asked, or nobody says."""
    counted = Counter(str(each["why"]) for each in answers if each.get("why"))
    if not counted:
        return ", and nobody was asked" if not answers else ""
    why, times = counted.most_common(1)[0]
    said = next((str(each["said"]) for each in answers if each.get("why") == why and each.get("said")), None)
    return f": {why} ({times} of {len(answers)})" + (f", “{text.one_line(said)}”" if said else "")


def check_of(metric: str) -> Check | None:
    """The check of an SLI's metric; None for one that is of no SLI."""
    if (found := parted(metric)) is None:
        return None
    name, quantity = found
    if quantity in OF_ALERTS:
        return _of_alerts(metric, name, quantity)
    which = f"{SHORT[quantity]} value of {name}" if quantity != "mean" else f"mean of {name}"
    meaning = (
        "What your own monitoring said: the answers of one PromQL query while the phase lasted. A value speaks of the "
        "time before it, by the query's window and the last scrape."
    )
    return _check(metric, "number", which, meaning)


def _of_alerts(metric: str, name: str, quantity: str) -> Check:
    """The check of how many alerts of an SLI's rules fire, or of when the first does."""
    which = f"time until {name} fires" if quantity == FIRES else f"number of alerts of {name} that fire at once"
    meaning = (
        "What your own alert rules came to while the phase lasted, evaluated as Prometheus does, with their `for`. A "
        "rule whose metric is not there is no data."
    )
    return _check(metric, UNITS[OF_ALERTS[quantity]], which, meaning)


def _check(metric: str, unit: str, which: str, meaning: str) -> Check:
    plain = verbatim(which)
    return Check(
        metric,
        unit,
        measure,
        Words(
            missed=lambda item, _: filled(f"The {plain} was {{measured}}{{inside}}; wanted was {{want}}", item),
            question=lambda item: filled(f"the {plain} was as wanted{{inside}}", item),
            promise=lambda item: filled(f"The {plain}{{inside}}: {{want}}", item),
            short=which,
        ),
        group="users",
        meaning=meaning,
    )


def means(record: Record) -> dict[str, dict[str, float]]:
    """Of each SLI the mean of its values by phase; a phase without a value is left out."""
    found: dict[str, dict[str, list[float]]] = {}
    for each in record.lines(FILE):
        place = record.place(int(each["t"]))
        if each.get("value") is not None and place is not None:
            found.setdefault(str(each.get("name")), {}).setdefault(record.spans[place].name, []).append(
                float(each["value"])
            )
    return {
        name: {phase: round(sum(values) / len(values), 6) for phase, values in by_phase.items()}
        for name, by_phase in found.items()
    }


def values(record: Record) -> list[tuple[int, str, float]]:
    """(When it was asked (ns), name, value) of each answer that has a value."""
    return [
        (int(each["t"]), str(each.get("name")), float(each["value"]))
        for each in record.lines(FILE)
        if each.get("value") is not None
    ]


def _observe(context: Context) -> Slis:
    return Slis(context.experiment, context.folder / "history", context.broken)


def _room(experiment: Experiment) -> float:
    return sum(BYTES / float(sli.every) for sli in experiment.slis.values())


def _redact(line: Event) -> Event:
    """What a Prometheus said in words may have any label in it, by itself."""
    return {**line, "said": None, **({"alerts": []} if "alerts" in line else {})}


INSTRUMENT = Instrument(
    name="slis",
    says="numbers of the team's own, by its Prometheus",
    observe=_observe,
    begins=Begins.INDEX,
    ends=Ends.LOAD,
    order=80,
    answers=("sli.",),
    refuse=refuse_unready,
    room=_room,
    file=FILE,
    check_of=check_of,
    tables={"slis": means},
    redact=_redact,
    values=values,
)
