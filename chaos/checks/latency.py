"""Latency quantiles from the intended start, with arrivals that got no answer counted as longer than any.

The q-quantile is the ceil(q * n)-th smallest of all n scheduled arrivals (nearest rank: a latency that
somebody really saw). Taken over the answered ones alone it would improve when answers stop coming; so when
the rank falls among the unanswered it is censored and reads "> timeout".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from chaos.base import text
from chaos.checks.check import Check, Scope, rows
from chaos.checks.good import FEWEST
from chaos.checks.measure import Bound, Measure
from chaos.checks.prospect import Prospect
from chaos.checks.record import Expected, Floats, Record, Span
from chaos.checks.trial import Altered, Mutation, Trial
from chaos.checks.words import Words
from chaos.history.format import Outcome

QUANTILES: dict[str, float] = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


def quantile(latency: Floats, q: float) -> float:
    """Nearest-rank quantile in seconds, inf where the rank has no answer. ``ValueError`` when empty."""
    if not len(latency):
        raise ValueError("no arrivals")
    return float(np.partition(latency, (place := rank(len(latency), q)) - 1)[place - 1])


def rank(n: int, q: float) -> int:
    """The nearest rank (from 1) of the q-quantile of ``n`` values."""
    return max(1, math.ceil(q * n - 1e-9))


def needed(q: float) -> int:
    """Arrivals without which the quantile is only the largest value: 1 / (1 - q), at least 100."""
    return max(FEWEST, math.ceil(1 / (1 - q) - 1e-6))


def measure(record: Record, op: str, span: Span, name: str) -> Measure:
    """One quantile of one operation in one phase; ``name`` is a key of :data:`QUANTILES`."""
    q = QUANTILES[name]
    arrivals = record.in_phase(op, span)
    n, answered = len(arrivals), arrivals.answered
    if n < needed(q):
        return Measure.missing("seconds", f"only {n} arrivals in the phase, {needed(q)} are needed for {name}")
    unanswered = text.percent(1 - answered / n)
    says = f"{text.count(answered)} answered of {text.count(n)} scheduled, {unanswered} without an answer"
    evidence = {"scheduled": n, "answered": answered, "unanswered_share": 1 - answered / n}
    found = arrivals.ranked([rank(n, each) for each in QUANTILES.values()])  # all at once, and only once
    value = found[list(QUANTILES).index(name)]
    if math.isinf(value):
        return Measure(record.request_timeout, "seconds", says, Bound.MORE_THAN, evidence)
    return Measure(value, "seconds", says, evidence=evidence)


def row(record: Record, op: str, span: Span) -> dict[str, Any]:
    """All quantiles of one operation in one phase."""
    arrivals = record.in_phase(op, span)
    found: dict[str, Any] = {"scheduled": len(arrivals), "answered": arrivals.answered}
    for name in QUANTILES:
        known = measure(record, op, span, name)
        found[name] = {"value": known.value, "text": known.text, "bound": known.bound.value}
    return found


def _measure(record: Record, wanted: Expected, span: Span) -> Measure:
    return measure(record, str(wanted.op), span, wanted.quantity)


def foresee(prospect: Prospect) -> Iterator[str]:
    """Too few arrivals, or a bound beyond the clients' timeout: an arrival without an answer is only known to be
    longer than that."""
    yield from prospect.needs(needed(QUANTILES[prospect.quantity]))
    if prospect.timeout is not None:
        says = f"clients wait {text.seconds(prospect.timeout)}, and of what takes longer no more is known"
        yield from prospect.decides(prospect.timeout, says)


def _slower(share: float, seconds: float) -> Mutation:
    def a_share_of_answers_slower(run: Altered, op: str = "write") -> None:
        run.hit(op, "returned", share=share, outcome=Outcome.OK, seconds=seconds)

    return a_share_of_answers_slower


TRIALS = {
    "p50": Trial("<= 30ms", "returned", (_slower(0.6, 0.04),)),
    "p90": Trial("<= 50ms", "returned", (_slower(0.2, 0.06),)),
    "p99": Trial("<= 85ms", "returned", (_slower(0.03, 0.09),)),
    "p99.9": Trial("<= 90ms", "returned", (_slower(0.003, 1.0),)),
}


MEANS: dict[str, tuple[str, tuple[str, ...]]] = {
    "p50": (
        "Half of the arrivals were answered within this time, unanswered ones counting as slower than any.",
        ("headroom", "zone-failover", "adaptive-replicas"),
    ),
    "p90": (
        "9 of 10 arrivals were answered within this time, unanswered ones counting as slower than any.",
        ("headroom", "zone-failover", "adaptive-replicas"),
    ),
    "p99": (
        "99 of 100 arrivals were answered within this time, unanswered ones counting as slower than any.",
        ("failure-detection", "client-retries", "adaptive-replicas", "headroom"),
    ),
    "p99.9": (
        "999 of 1000 arrivals were answered within this time, unanswered ones counting as slower than any.",
        ("failure-detection", "client-retries", "adaptive-replicas", "headroom"),
    ),
}
"""Each with what it means, and what helps."""


CHECKS = tuple(
    Check(
        name,
        "duration",
        _measure,
        Words.of(
            missed=f"{name.removeprefix('p')} % of {{op}}s took up to {{measured}}{{inside}}; wanted was {{want}}",
            question="{op}s were fast enough{inside}",
            promise=f"{name.removeprefix('p')} % of {{op}}s take {{want}}{{inside}}",
            short=name,
        ),
        group="users",
        scope=Scope.OPERATION,
        late=True,
        foresee=foresee,
        meaning=MEANS[name][0],
        helps=MEANS[name][1],
        tables={"latency": rows(row)} if name == "p50" else {},
        order=40,
        trial=TRIALS[name],
    )
    for name in QUANTILES
)
