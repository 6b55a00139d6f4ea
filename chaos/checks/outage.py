"""Outage-equivalent seconds: for how long nobody would have been served, had the loss been total.

D = sum over windows of w * (1 - a_w), less what the healthy phases lose in the same time; w is 1 s at 100 arrivals/s
and more. Unlike a percentage it does not depend on how long the run was, so one fault's D can be set against a budget:
a month of 30 days at 99.9 % holds 2592 s, at 99.99 % 259.2 s. Seconds in a phase in which the definition waits on
purpose (``scripted_wait``) are summed apart: there the experiment, not the cluster, chose how long it took.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chaos.base import text
from chaos.checks import failures
from chaos.checks.check import Check, Scope
from chaos.checks.good import FEWEST
from chaos.checks.measure import Measure
from chaos.checks.prospect import Prospect
from chaos.checks.record import SECOND, Record, Span, per_window, windows
from chaos.checks.trial import Trial, five_seconds_without_an_answer, rejected_for_ten_seconds
from chaos.checks.words import Words

MONTH = 30 * 24 * 3600.0
BUDGETS = {"99.9 %": MONTH * 1e-3, "99.99 %": MONTH * 1e-4}
"""Seconds per 30 days that a service level leaves: 2592 and 259.2."""


@dataclass(frozen=True)
class Outage:
    """Outage-equivalent seconds of one operation over a run; phases in order, the sums derived."""

    phases: dict[str, float]
    scripted_phases: frozenset[str]

    @property
    def scripted(self) -> float:
        return sum(value for name, value in self.phases.items() if name in self.scripted_phases)

    @property
    def own(self) -> float:
        """The cluster's own seconds."""
        return sum(value for name, value in self.phases.items() if name not in self.scripted_phases)

    @property
    def total(self) -> float:
        return self.scripted + self.own


def in_phase(record: Record, op: str, span: Span) -> float:
    """D of one phase in seconds, never negative. A window in which nothing was scheduled counts as lost, unless listed
    arrivals left it out."""
    frames = windows(span.start, span.end, record.window(op))
    if not frames:
        return 0.0
    scheduled, bad = per_window(record.in_phase(op, span), frames, clip=True)
    quiet = record.quiet(op, frames)
    lost = sum(
        (end - start) / SECOND * (bad[i] / scheduled[i] if scheduled[i] else 1.0 - quiet[i])
        for i, (start, end) in enumerate(frames)
    )
    return max(0.0, float(lost) - record.baseline_rate(op) * span.seconds)


def of_run(record: Record, op: str) -> Outage:
    return Outage(
        {span.name: in_phase(record, op, span) for span in record.spans},
        frozenset(span.name for span in record.spans if span.scripted_wait),
    )


def budget_shares(lost: float) -> dict[str, float]:
    """The share of each monthly budget that ``lost`` seconds use; above 1 it is spent."""
    return {name: lost / budget for name, budget in BUDGETS.items()}


def tables(record: Record) -> dict[str, Any]:
    """Seconds of each operation by phase, their sums, and what they take of monthly budgets."""
    found = {op.name: of_run(record, op.name) for op in record.operations}
    return {
        op: {
            "phases": out.phases,
            "scripted": out.scripted,
            "own": out.own,
            "total": out.total,
            "budget": budget_shares(out.total),
            "budget_own": budget_shares(out.own),
        }
        for op, out in found.items()
    }


def measure(record: Record, op: str, span: Span) -> Measure:
    """D of one phase as an expectation sees it."""
    scheduled = len(record.in_phase(op, span))
    if scheduled < FEWEST:
        return Measure.missing("seconds", f"only {scheduled} arrivals in the phase, {FEWEST} are needed")
    value = in_phase(record, op, span)
    healthy = record.baseline_rate(op)
    return Measure(
        value,
        "seconds",
        f"sum over {record.window(op):.0f} s windows of the share not good, "
        + (
            f"less the {text.percent(healthy)} that is lost when healthy"
            if record.healthy
            else "no healthy phase to subtract"
        ),
        evidence={
            "baseline_loss": healthy,
            "phase_seconds": span.seconds,
            "scripted_wait": span.scripted_wait,
        },
    )


def _foresee(prospect: Prospect) -> Iterator[str]:
    yield from prospect.needs(FEWEST)
    yield from prospect.decides(prospect.length.most, f"the phase lasts {text.seconds(prospect.length.most)} at most")


CHECKS = (
    Check(
        "outage",
        "duration",
        lambda record, wanted, span: measure(record, str(wanted.op), span),
        Words.of(
            missed="{Op}s were as good as gone for {measured}{inside}; wanted was {want}",
            question="{op}s were gone for too long{inside}",
            promise="{Op}s are gone{inside} for {want}",
            short="outage-equivalent time",
        ),
        group="users",
        scope=Scope.OPERATION,
        late=True,
        foresee=_foresee,
        meaning=(
            "For how long nobody would have been served, had the loss been total: the seconds weighed with the "
            "share that was lost. Half of the users for 10 s are 5 s. It can be set against a monthly budget."
        ),
        helps=("failure-detection", "zone-failover", "client-retries", "headroom"),
        tables={"outage": tables, "failures": failures.table},
        section=failures.section,
        order=30,
        trial=Trial("<= 2s", "dead", (five_seconds_without_an_answer, rejected_for_ten_seconds)),
    ),
)
