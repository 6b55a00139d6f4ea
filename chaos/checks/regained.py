"""Time to regain the objective: from what was done in a phase until the last bad window was over.

A window (1 s at 100 arrivals/s, else wider) is bad when nothing was scheduled in it, or when so many
arrivals were not good that chance would explain it with less than alpha: P(X >= f | n, p0) < alpha,
X binomial, with p0 = max(the healthy phases' own rate, 0.1 %) (the
binomial upper tail). One bad arrival in a hundred is therefore no outage; a short lull in a flapping outage is no
recovery, because the LAST bad window counts and only 10 good seconds after it make it the last.

Which alpha: the record is complete when it is judged, so the strict retrospective definition is used, alpha = 0.01
shared out over all windows looked at (Bonferroni), and never more than 1e-3 for one: with no fault at all, at most one
phase in a hundred seems to have lost its objective, however long it is. With a fixed 1e-3 that share would grow with
the phase's length. The price is small: on a flapping trace (12 s outage, 3 s lull, 25 % for 4 s, 2 s
lull, 5 % for 3 s) both definitions find 24 s at 100 arrivals/s (tests/unit/checks/test_regained.py). What stays as it
is: the rule of 10 good seconds in a row, so that a lull that is longer ends an outage.

The clock starts at the phase's first command (fault, action or undo), else at its start. When the phase
ends before 10 good seconds were seen, the watch goes on into the next phases as long as nothing is
commanded. When it is not seen to be over, the value is censored at what is known: never averaged, never
taken for exact.

An arrival that the next fault's command meets in flight counts for that fault's phase (checks/README.md), so in the
windows before that command it is no failure: a fault cannot have broken the phase before it. Runs whose plan does not
say :data:`BY_PHASE` were judged without this, and are judged so still.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from chaos.base import text
from chaos.checks.arrivals import Arrivals
from chaos.checks.check import Check, Scope, rows
from chaos.checks.good import FEWEST
from chaos.checks.measure import Bound, Measure
from chaos.checks.prospect import Prospect
from chaos.checks.record import SECOND, TRIGGERS, Bools, Ints, Record, Span, per_window, window_width, windows
from chaos.checks.trial import Trial, five_seconds_without_an_answer, lost_once_more_later
from chaos.checks.words import Item, Words, filled

ALPHA = 1e-3
"""The most for one window."""
FAMILY = 0.01
"""For all windows that are looked at together."""
FLOOR = 1e-3
"""p0 is at least this: a healthy phase without one failure does not make the first failure an outage."""
BY_PHASE = "windows_by_phase"
"""The key of plan.json by which windows hold only those failures against a phase that count for it."""
STABLE = 10.0
"""Seconds of good windows after which it counts as regained; at least three windows when they are wider."""


@lru_cache(maxsize=4096)
def tolerated(n: int, p0: float, alpha: float = ALPHA) -> int:
    """The most arrivals of ``n`` that may be not good in a window that is not bad.

    The largest f with P(X >= f) >= alpha for X ~ Binomial(n, p0).
    """
    if not 0 < p0 < 1:
        return 0 if p0 <= 0 else n
    tail = 1.0  # P(X >= 0)
    for f in range(n + 1):
        if tail < alpha:
            return f - 1
        log_pmf = (
            math.lgamma(n + 1)
            - math.lgamma(f + 1)
            - math.lgamma(n - f + 1)
            + f * math.log(p0)
            + (n - f) * math.log1p(-p0)
        )
        tail -= math.exp(log_pmf)
    return n


def alpha_of(number: int) -> float:
    """The level for each of ``number`` windows that are looked at together."""
    return min(ALPHA, FAMILY / number) if number else ALPHA


def are_bad(scheduled: Ints, failed: Ints, p0: float, alpha: float) -> Bools:
    """Pure: which windows are bad, from their arrivals and how many of those were not good."""
    return np.array(
        [n == 0 or f > tolerated(int(n), p0, alpha) for n, f in zip(scheduled, failed, strict=True)], np.bool_
    )


def lost(record: Record, op: str, frames: list[tuple[int, int]], counts: tuple[Ints, Ints], alpha: float) -> Bools:
    """Which windows of an operation are bad, by what was due in them and not good. Where listed arrivals ask for
    nothing none is."""
    return are_bad(*counts, p0_of(record, op), alpha) & ~record.quiet(op, frames)


def p0_of(record: Record, op: str) -> float:
    return max(record.baseline_rate(op), FLOOR)


def trigger_of(record: Record, span: Span) -> tuple[int, str]:
    """When the phase's clock starts (ns), and at what, in words."""
    triggers = record.triggers(span)
    if not triggers:
        return span.start, f"the start of {span.name}"
    return int(triggers[0]["t"]), record.words(triggers[0])


@dataclass(frozen=True)
class Watch:
    """What is looked at after a phase's trigger, in ns: the phase, and what follows until the next command."""

    trigger: int
    what: str
    phase_end: int
    horizon: int

    @classmethod
    def of(cls, record: Record, span: Span) -> Watch:
        trigger, what = trigger_of(record, span)
        later = [int(event["t"]) for event in record.of_kind(*TRIGGERS) if int(event["t"]) >= span.end]
        horizon = min([record.load_end, *later])
        return cls(trigger, what, min(span.end, horizon), horizon)

    def frames(self, width: float) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """The windows of the phase, and those beyond it: their own, so that the phase's stay as they are.

        Less than a whole window beyond (the moment between two phases) shows nothing.
        """
        inside = windows(self.trigger, self.phase_end, width)
        more = self.horizon - self.phase_end >= width * SECOND
        return inside, windows(self.phase_end, self.horizon, width) if more else []


def failures(record: Record, op: str, frames: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    """Arrivals scheduled in each window of one watch, and how many of them were not good.

    One that counts for a later phase (:func:`of_later_phase`) is scheduled, and no failure.
    """
    if not frames:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    near = record.arrivals[op].between(frames[0][0], frames[-1][1])
    return per_window(near.with_good(near.good | of_later_phase(record, near)), frames)


def of_later_phase(record: Record, arrivals: Arrivals) -> Bools:
    """Which arrivals were intended before the phase that they count for began: its fault met them in flight."""
    if not record.plan.get(BY_PHASE):
        return np.zeros(len(arrivals), np.bool_)
    starts = np.array([*(span.start for span in record.spans), 0], np.int64)  # -1, for no phase, picks the 0
    return np.asarray(arrivals.intended < starts[arrivals.phase])


def known_by(record: Record, span: Span, at: int) -> Record | None:
    """The record with a watch of this phase that ends at ``at`` (ns, after the phase); None where it had ended by then.

    What was under way then, and within its objective, is neither late nor a failure.
    """
    if Watch.of(record, span).horizon <= at:
        return None
    other = copy.copy(record)
    other.arrivals = dict(record.arrivals)
    for op in record.operations:

        def under_way(part: Arrivals, within: int = round(op.good_within * SECOND)) -> Bools:
            return np.asarray((part.intended < at) & (part.intended > at - within) & (part.end > at))

        other.arrivals[op.name] = record.arrivals[op.name].forgiving(under_way, 0.0)
    other.__dict__["load_end"] = at
    return other


def bad_windows(record: Record, op: str, start: int, end: int) -> tuple[list[tuple[int, int]], Bools]:
    """The windows of [start, end) in ns, and which of them are bad, whatever phases they are in."""
    frames = windows(start, end, record.window(op))
    counts = per_window(record.arrivals[op].between(start, end), frames)
    return frames, lost(record, op, frames, counts, alpha_of(len(frames)))


def measure(record: Record, op: str, span: Span) -> Measure:
    """Seconds to regain the objective in one phase; 0 when it was never lost."""
    p0 = p0_of(record, op)

    def bad(frames: list[tuple[int, int]], alpha: float) -> Bools:
        return lost(record, op, frames, failures(record, op, frames), alpha)

    found = until_good(record, op, span, bad)
    return replace(found, evidence={**found.evidence, "p0": p0}) if found.evidence else found


def until_good(
    record: Record,
    op: str,
    span: Span,
    bad_of: Callable[[list[tuple[int, int]], float], Bools],
    never: str = "never lost",
    still: str = "still not regained",
) -> Measure:
    """Seconds from the phase's trigger to the end of the last bad window; ``bad_of(frames, alpha)`` tells which are."""
    scheduled = len(record.in_phase(op, span))
    if scheduled < FEWEST:
        return Measure.missing("seconds", f"only {scheduled} arrivals in the phase, {FEWEST} are needed")
    watch, width = Watch.of(record, span), record.window(op)
    trigger, stable = watch.trigger, stable_for(width)
    if watch.phase_end - trigger < width * SECOND:
        return Measure.missing("seconds", "the load lasted for less than one window after the phase's first command")
    frames, beyond = watch.frames(width)
    alpha = alpha_of(len(frames) + len(beyond))
    bad = bad_of(frames, alpha)
    over, last_bad, watched = trigger, False, watch.phase_end
    for (_, end), is_bad in zip(frames, bad, strict=True):
        over, last_bad = (end, True) if is_bad else (over, False)
    for (_, end), is_bad in zip(beyond, bad_of(beyond, alpha), strict=True):
        if over == trigger or (watched - over) / SECOND >= stable:
            break
        watched = end
        over, last_bad = (end, True) if is_bad else (over, False)
    value = (over - trigger) / SECOND
    evidence = {
        "trigger": watch.what,
        "trigger_at": record.since_start(trigger),
        "window_seconds": width,
        "alpha": alpha,
        "bad_windows": int(bad.sum()),
        "windows": len(frames),
        "watched_seconds": (watched - trigger) / SECOND,
    }
    if not bad.any():
        return Measure(0.0, "seconds", f"{never} after: {watch.what}", evidence=evidence)
    if (watched - over) / SECOND >= stable - 1e-9:
        return Measure(value, "seconds", f"counted from: {watch.what}", evidence=evidence)
    if last_bad:
        says = f"{still} when the watch ended, {evidence['watched_seconds']:.0f} s after: {watch.what}"
        return Measure(value, "seconds", says, Bound.MORE_THAN, evidence)
    says = f"good again, but watched for less than {stable:.0f} s after that; counted from: {watch.what}"
    return Measure(value, "seconds", says, Bound.AT_LEAST, evidence)


def stable_for(width: float) -> float:
    """Seconds of good windows of this ``width`` after which the objective counts as regained."""
    return max(STABLE, 3 * width)


def foresee(prospect: Prospect) -> Iterator[str]:
    """Too few arrivals, or a watch that ends before the bound could be shown."""
    yield from prospect.needs(FEWEST)
    watch, stable = prospect.watch, stable_for(window_width(prospect.window_rate))
    ends = f"it is watched for {text.seconds(watch.most)}, until the next command or the end of the phases"
    late = list(prospect.decides(watch.most, ends))
    yield from late
    needed = prospect.value + stable
    if not late and prospect.upper and watch.most < needed:
        yield (
            f"{prospect.what} may be inconclusive: what is good again after {text.seconds(prospect.value)} must stay "
            f"so for {text.seconds(stable)}, and {ends}; {text.seconds(needed)} are needed"
        )


def _missed(item: Item) -> str:
    if str(item["measured_text"]).startswith((">", "≥")):
        return filled("{Op}s were not seen to come back{inside} ({measured}); wanted was {want}", item)
    return filled("{Op}s came back only after {measured}{inside}; wanted was {want}", item)


CHECKS = (
    Check(
        "regained",
        "duration",
        lambda record, wanted, span: measure(record, str(wanted.op), span),
        Words(
            lambda item, _: _missed(item),
            lambda item: filled("{op}s came back in time{inside}", item),
            lambda item: filled("{Op}s come back{inside}: {want}", item),
            "objective regained",
        ),
        group="users",
        scope=Scope.OPERATION,
        late=True,
        known_by=known_by,
        foresee=foresee,
        meaning=(
            "From what was done in the phase until the last bad second was over. A second is bad when chance does "
            "not explain its failures."
        ),
        helps=("failure-detection", "zone-failover", "balancer-probe", "client-retries"),
        tables={"regained": rows(lambda record, op, span: measure(record, op, span).to_json())},
        order=20,
        trial=Trial("<= 10s", "dead", (lost_once_more_later, five_seconds_without_an_answer)),
    ),
)
