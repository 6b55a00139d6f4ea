"""Time until the cluster was green again: from the phase's first undo to the end of its last non-green
stretch.

0 when it was green all the time. Without an undo in the phase the clock starts at its first action (a
recommission, say). An unknown status is not green. Not green at the phase's end is censored: "> T".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chaos.base import text
from chaos.checks.check import Check
from chaos.checks.measure import Bound, Measure
from chaos.checks.movement import longest_blind
from chaos.checks.prospect import Prospect
from chaos.checks.record import SECOND, Record, Span
from chaos.checks.trial import Trial, green_much_later, never_green_again, red_once_more
from chaos.checks.words import Words
from chaos.history.events import ActionCommand, ClusterStatus, FaultUndo


def measure(record: Record, span: Span) -> Measure:
    """Seconds from undo to green in one phase."""
    starts = record.within(span, "fault.undo") or record.within(span, "action.command")
    if not starts:
        return Measure.missing("seconds", "nothing was undone in this phase, so there is no start to count from")
    if longest_blind(record, span) is None:
        return Measure.missing("seconds", "the cluster answered no sample in this phase")
    return since(record, int(starts[0]["t"]), span.end, record.words(starts[0]))


def table(record: Record) -> dict[str, Any]:
    """The phases in which something was given back, or acted."""
    spans = [span for span in record.spans if record.seen(FaultUndo, ActionCommand, span=span)]
    return {span.name: measure(record, span).to_json() for span in spans}


def since(record: Record, start: int, end: int, what: str) -> Measure:
    """Seconds from ``start`` to the end of the last non-green stretch before ``end`` (both ns)."""
    statuses = record.seen(ClusterStatus)
    before = [event for event in statuses if event.t <= start]
    after = [event for event in statuses if start < event.t < end]
    if not before and not after:
        return Measure.missing("seconds", "the cluster's status is not in the history")
    green = bool(before) and before[-1].status == "green"
    over = start
    trail = [{"at": record.since_start(start), "status": before[-1].status if before else "unknown"}]
    for event in after:
        now = event.status == "green"
        if now and not green:
            over = event.t
        green = now
        trail.append({"at": record.since_start(event.t), "status": event.status})
    evidence = {"statuses": trail, "from": what}
    if green:
        return Measure((over - start) / SECOND, "seconds", f"green, counted from: {what}", evidence=evidence)
    value = (end - start) / SECOND
    return Measure(value, "seconds", "not green at the end of the phase", Bound.MORE_THAN, evidence)


def _foresee(prospect: Prospect) -> Iterator[str]:
    """It is counted to the phase's end at most. A phase that waits for green and is not green by then fails by that."""
    if prospect.length.least == prospect.length.most:
        yield from prospect.decides(
            prospect.length.most, f"the phase ends after {text.seconds(prospect.length.most)}, and so does the count"
        )


CHECKS = (
    Check(
        "cluster.recovered",
        "duration",
        lambda record, _, span: measure(record, span),
        Words.of(
            missed="Being green again took {measured}{inside}; wanted was {want}",
            question="being green again came in time{inside}",
            promise="Being green again{inside}: {want}",
            short="green again",
        ),
        group="recovery",
        late=True,
        foresee=_foresee,
        meaning=(
            "From the first undo, or the first action, until the cluster was green again: every copy of every shard "
            "active. Until then the next fault may meet the last copy."
        ),
        helps=("rejoin-sooner", "search-contexts", "retention-leases", "delayed-allocation", "recovery-speed"),
        tables={"recovered": table},
        order=140,
        trial=Trial("<= 20s", "returned", (green_much_later, never_green_again, red_once_more)),
    ),
)
