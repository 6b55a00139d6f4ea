"""Good arrivals: what share of the users' requests was answered fully and in time.

A = good / SCHEDULED, per operation and phase. Good
is outcome ok and latency, from the intended start, within the objective. A partial answer, a wrong or a slow one, an
arrival without an outcome and one that the driver dropped are all not good: leaving them out is how outages
vanish.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from chaos.base import text
from chaos.checks import searches, wrong
from chaos.checks.check import Check, Scope, rows
from chaos.checks.measure import Measure
from chaos.checks.prospect import Prospect
from chaos.checks.record import OUTCOMES, Expected, Record, Span
from chaos.checks.trial import (
    Trial,
    answers_were_garbled,
    clients_of_one_zone_were_refused,
    late_answers,
    shards_failed_under_status_200,
)
from chaos.checks.words import Item, Words, bites, filled

FEWEST = 100
"""Arrivals in a phase below which a share says nothing."""


def needed(comparison: str, target: float) -> int:
    """Arrivals without which a share is not compared with the target.

    For ``>= p`` at least 1 / (1 - p): with fewer, one single bad arrival would already miss the target, so
    that the verdict hung on one request. (Certifying p with 95 % confidence takes ln 0.05 / ln p, three times
    as many; a single run does not claim that.) Never fewer than :data:`FEWEST`.
    """
    if comparison in (">=", ">") and target < 1:
        return max(FEWEST, math.ceil(1 / (1 - target) - 1e-6))
    return FEWEST


def table(record: Record, op: str, span: Span) -> dict[str, float | int | dict[str, int] | None]:
    """Counts of one operation in one phase: scheduled, good, share, late (ok but too slow), by outcome."""
    arrivals = record.in_phase(op, span)
    counts = arrivals.counts
    scheduled, good = len(arrivals), int(counts[:, 1].sum())
    return {
        "scheduled": scheduled,
        "good": good,
        "share": good / scheduled if scheduled else None,
        "late": int(counts[OUTCOMES["ok"], 0]),
        "outcomes": {name: number for name, code in OUTCOMES.items() if (number := int(counts[code].sum()))},
    }


def measure(record: Record, op: str, span: Span, comparison: str = "<", target: float = 1.0) -> Measure:
    """The share of good arrivals; no value with fewer than :func:`needed` arrivals."""
    counts = table(record, op, span)
    scheduled, good = int(counts["scheduled"]), int(counts["good"])  # type: ignore[arg-type]
    least = needed(comparison, target)
    if scheduled < least:
        return Measure.missing(
            "share",
            f"only {text.count(scheduled)} arrivals in the phase, {text.count(least)} needed for this target",
            **counts,
        )
    says = f"{text.count(good)} good of {text.count(scheduled)} scheduled"
    if number := counts["outcomes"].get("wrong", 0):  # type: ignore[union-attr]
        says = f"{says}; {wrong.says(record, op, span, number)}"
    return Measure(good / scheduled, "share", says, evidence=dict(counts))


def _measure(record: Record, wanted: Expected, span: Span) -> Measure:
    return measure(record, str(wanted.op), span, wanted.comparison, wanted.value)


def _foresee(prospect: Prospect) -> Iterator[str]:
    return prospect.needs(needed(prospect.comparison, prospect.value))


def _told(hurt: str, well: str, item: Item) -> str:
    """An expectation that the fault bites is told otherwise than a wish of users."""
    return filled(hurt if bites(item) else well, item)


CHECKS = (
    Check(
        "good",
        "percent",
        _measure,
        Words(
            lambda item, _: _told(
                "The fault hurt {op}s too little{inside}: {measured} were good; wanted was {want}",
                "Only {measured} of {op}s were good{inside}; wanted was {want}",
                item,
            ),
            lambda item: _told("the fault hurt {op}s enough{inside}", "enough {op}s were good{inside}", item),
            lambda item: _told(
                "The fault is felt: {want} of {op}s are good{inside}", "{Op}s are good{inside}: {want}", item
            ),
            "good",
        ),
        group="users",
        scope=Scope.OPERATION,
        late=True,
        foresee=_foresee,
        meaning=(
            "The share of scheduled arrivals that were answered fully and within their objective, counted from the "
            "moment at which they were due. Slow, partial, wrong, garbled, refused and unanswered arrivals are all "
            "not good: this is what users saw. Wrong is an answer that is whole by its own word and not what was "
            "asked for: another document, hits that do not match, fewer shards than the index has. Garbled is one "
            "that cannot be read: cut short, no JSON, no HTTP. Where no process died in the middle of one, look at "
            "what stands between clients and nodes."
        ),
        helps=("failure-detection", "balancer-probe", "client-retries", "headroom"),
        tables={"good": rows(table), "searches": searches.table},
        section=searches.section,
        order=10,
        trial=Trial(
            ">= 98%",
            "dead",
            (
                late_answers,
                shards_failed_under_status_200,
                answers_were_garbled,
                clients_of_one_zone_were_refused,
            ),
        ),
    ),
)
