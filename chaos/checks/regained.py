"""Time to regain the objective: from what was done in a phase until the last bad window was over.

A window (1 s at 100 arrivals/s, else wider) is bad when nothing was scheduled in it, or when so many
arrivals were not good that chance would explain it with less than alpha = 1e-3: P(X >= f | n, p0) < alpha,
X binomial, with p0 = max(the healthy phases' own rate, 0.1 %) (load-and-measurement, section 5:
TTR_stable). One bad arrival in a hundred is therefore no outage; a short lull in a flapping outage is no
recovery, because the LAST bad window counts and only 10 good seconds after it make it the last.

The clock starts at the phase's first command (fault, action or undo), else at its start. When the phase
ends before 10 good seconds were seen, the watch goes on into the next phases as long as nothing is
commanded. When it is not seen to be over, the value is censored at what is known: never averaged, never
taken for exact.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from chaos.checks.good import FEWEST
from chaos.checks.measure import Bound, Measure
from chaos.checks.record import SECOND, TRIGGERS, Bools, Record, Span, per_window, windows

ALPHA = 1e-3
FLOOR = 1e-3
"""p0 is at least this: a healthy phase without one failure does not make the first failure an outage."""
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


def p0_of(record: Record, op: str) -> float:
    return max(record.baseline_rate(op), FLOOR)


def bad_windows(record: Record, op: str, start: int, end: int) -> tuple[list[tuple[int, int]], Bools]:
    """The windows of [start, end) in ns, and which of them are bad."""
    frames = windows(start, end, record.window(op))
    if not frames:
        return [], np.empty(0, bool)
    scheduled, bad = per_window(record.arrivals[op].between(start, end), frames)
    p0 = p0_of(record, op)
    return frames, np.array([n == 0 or f > tolerated(int(n), p0) for n, f in zip(scheduled, bad, strict=True)], bool)


def trigger_of(record: Record, span: Span) -> tuple[int, str]:
    """When the phase's clock starts (ns), and at what, in words."""
    triggers = record.triggers(span)
    if not triggers:
        return span.start, f"the start of {span.name}"
    return int(triggers[0]["t"]), record.words(triggers[0])


def measure(record: Record, op: str, span: Span) -> Measure:
    """Seconds to regain the objective in one phase; 0 when it was never lost."""
    scheduled = len(record.in_phase(op, span))
    if scheduled < FEWEST:
        return Measure.missing("seconds", f"only {scheduled} arrivals in the phase, {FEWEST} are needed")
    trigger, what = trigger_of(record, span)
    later = [int(event["t"]) for event in record.of_kind(*TRIGGERS) if int(event["t"]) >= span.end]
    horizon = min([record.load_end, *later])
    width = record.window(op)
    stable = max(STABLE, 3 * width)
    phase_end = min(span.end, horizon)
    if phase_end - trigger < width * SECOND:
        return Measure.missing("seconds", "the load lasted for less than one window after the phase's first command")
    frames, bad = bad_windows(record, op, trigger, phase_end)
    # The watch beyond the phase: its windows are its own, so that the phase's stay as they are.
    # Less than a whole window (the moment between two phases) shows nothing.
    more = horizon - phase_end >= width * SECOND
    beyond, bad_beyond = bad_windows(record, op, phase_end, horizon) if more else ([], bad[:0])
    over = trigger
    last_bad = False
    for (_, end), is_bad in zip(frames, bad, strict=True):
        over, last_bad = (end, True) if is_bad else (over, False)
    watched = phase_end
    for (_, end), is_bad in zip(beyond, bad_beyond, strict=True):
        if over == trigger or (watched - over) / SECOND >= stable:
            break
        watched = end
        over, last_bad = (end, True) if is_bad else (over, False)
    value = (over - trigger) / SECOND
    evidence = {
        "trigger": what,
        "trigger_at": record.since_start(trigger),
        "window_seconds": width,
        "p0": p0_of(record, op),
        "bad_windows": int(bad.sum()),
        "windows": len(frames),
        "watched_seconds": (watched - trigger) / SECOND,
    }
    if not bad.any():
        return Measure(0.0, "seconds", f"never lost after: {what}", evidence=evidence)
    if (watched - over) / SECOND >= stable - 1e-9:
        return Measure(value, "seconds", f"counted from: {what}", evidence=evidence)
    if last_bad:
        says = f"still not regained when the watch ended, {evidence['watched_seconds']:.0f} s after: {what}"
        return Measure(value, "seconds", says, Bound.MORE_THAN, evidence)
    says = f"good again, but watched for less than {stable:.0f} s after that; counted from: {what}"
    return Measure(value, "seconds", says, Bound.AT_LEAST, evidence)
