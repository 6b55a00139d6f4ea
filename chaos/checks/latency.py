"""Latency quantiles from the intended start, with arrivals that got no answer counted as longer than any.

The q-quantile is the ceil(q * n)-th smallest of all n scheduled arrivals (nearest rank: a latency that
somebody really saw). Taken over the answered ones alone it would improve when answers stop coming; so when
the rank falls among the unanswered it is censored and reads "> timeout".
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from chaos.base import text
from chaos.checks.check import Check, Scope
from chaos.checks.good import FEWEST
from chaos.checks.measure import Bound, Measure
from chaos.checks.prospect import Prospect
from chaos.checks.record import Expected, Floats, Record, Span
from chaos.checks.words import Words

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


def _measure(record: Record, wanted: Expected, span: Span) -> Measure:
    return measure(record, str(wanted.op), span, wanted.quantity)


def foresee(prospect: Prospect) -> Iterator[str]:
    """Too few arrivals, or a bound beyond the clients' timeout: an arrival without an answer is only known to be
    longer than that."""
    yield from prospect.needs(needed(QUANTILES[prospect.quantity]))
    if prospect.timeout is not None:
        says = f"clients wait {text.seconds(prospect.timeout)}, and of what takes longer no more is known"
        yield from prospect.decides(prospect.timeout, says)


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
    )
    for name in QUANTILES
)
