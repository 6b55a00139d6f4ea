"""SLIs of the team's own: what a Prometheus said in a phase, as one number.

The history has an answer every few seconds (``history/slis.jsonl``, :mod:`chaos.observe.slis`), with a value or with
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
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from chaos.base import text
from chaos.checks.check import Check
from chaos.checks.measure import Measure, Verdict, judge
from chaos.checks.record import SECOND, Expected, Record, Span
from chaos.checks.words import Words, filled, verbatim
from chaos.definitions.slis import INTERVALS, of_plan, parted

HOLE = INTERVALS + 0.5
"""Intervals from one value to the next, or to the phase's edges, at most; half a one is for lateness."""
COVERED = 0.5
"""The share of the answers due in a phase that must have a value."""
WRONG_SIDE = {"max": ("<", "<="), "min": (">", ">=")}
"""Quantity → comparisons that one value alone can miss for good."""
SHORT = {"max": "largest", "min": "smallest", "mean": "mean", "last": "last"}


def unit_of(target: str) -> str:
    """How values are shown: as the target was written (``< 1%``, ``<= 250ms``, ``> 3``)."""
    return "ratio" if target.endswith("%") else "seconds" if target[-1:] in ("s", "m", "h") else "number"


def measure(record: Record, wanted: Expected, span: Span) -> Measure:
    """One quantity of one SLI in one phase."""
    name, quantity = parted(wanted.metric) or ("", "")
    unit = unit_of(wanted.text)
    planned = of_plan(record.plan.get("experiment") or {}).get(name)
    if planned is None:
        return Measure.missing(unit, f"the plan has no SLI {name}")
    every = float(planned["every"])
    answers = [
        each
        for each in record.slis
        if each.get("name") == name and span.holds(int(each["t"])) and span.holds(_heard(each))
    ]
    seen = [(int(each["t"]), float(each["value"])) for each in answers if each.get("value") is not None]
    due = max(1, round(span.seconds / every))
    evidence = {"values": len(seen), "due": due, "every": every}
    hole = _hole(record, span, [at for at, _ in seen], answers, every, due)
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
    there = f"of the values that are there the {SHORT[quantity]} is {known.text}"
    return Measure.missing(unit, f"{hole} ({there})", **evidence)


def _heard(answer: Mapping[str, Any]) -> int:
    """When an answer was there (ns): it was evaluated before, and after it was asked for."""
    return int(answer["t"]) + round(float(answer.get("took_ms") or 0) * 1e6)


def _missed(measured: Measure, wanted: Expected) -> bool:
    return judge(measured, wanted.comparison, wanted.value) is Verdict.FAIL


def _value(record: Record, quantity: str, seen: Sequence[tuple[int, float]]) -> tuple[float, str]:
    """The quantity of (moment, value) pairs, of which there is one at least, and where it comes from."""
    if quantity == "mean":
        return sum(value / len(seen) for _, value in seen), "the mean"
    best = {
        "max": lambda: max(seen, key=lambda pair: pair[1]),
        "min": lambda: min(seen, key=lambda pair: pair[1]),
        "last": lambda: seen[-1],
    }
    at, value = best[quantity]()
    return value, f"the {SHORT[quantity]}, at {text.seconds(record.since_start(at) or 0.0)}"


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
    which = f"{SHORT[quantity]} value of {name}" if quantity != "mean" else f"mean of {name}"
    plain = verbatim(which)
    return Check(
        metric,
        "number",
        measure,
        Words(
            missed=lambda item, _: filled(f"The {plain} was {{measured}}{{inside}}; wanted was {{want}}", item),
            question=lambda item: filled(f"the {plain} was as wanted{{inside}}", item),
            promise=lambda item: filled(f"The {plain}{{inside}}: {{want}}", item),
            short=which,
        ),
        group="users",
        meaning="What your own monitoring said: the answers of one PromQL query while the phase lasted. A value speaks "
        "of the time before it, by the query's window and the last scrape.",
    )
