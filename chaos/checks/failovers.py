"""What failover controllers noticed, decided and did, from their own events in the history."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from chaos.base import text
from chaos.checks import starved, usable
from chaos.checks.check import Check
from chaos.checks.clocks import Clock
from chaos.checks.measure import Measure
from chaos.checks.record import SECOND, Record, Span
from chaos.checks.timeline import Ladder
from chaos.checks.trial import Altered, Trial
from chaos.checks.words import Words

STEPS = ("noticed", "decided", "acted")
"""The steps of a recovery that are a controller's."""
KINDS = 2
"""How many kinds of evidence a step needs (:class:`chaos.programs.failover.decide.Policy`)."""
_LATE = re.compile(r", late$|Timeout")
"""How a controller says that an answer came late, or not in time."""
_HELD_UP = re.compile(r", late\)|Timeout")
"""The same, in a decision that gives it in brackets."""
TOGETHER = 30
"""Seconds within which the same step of several controllers is one."""


def planned(record: Record) -> list[str]:
    """The zones in which the experiment has controllers."""
    controller = (record.plan.get("experiment") or {}).get("controller")
    if not controller:
        return []
    return list(controller.get("zones") or record.plan["topology"]["zones"])


def missing(record: Record) -> str | None:
    """Why nothing can be said of what controllers did; None: each that was planned was there from start to end."""
    zones = planned(record)
    if not zones:
        return "no failover controller was part of the run"
    for kind, never in (("failover.ready", "never saw the whole cluster"), ("failover.stop", "did not end in order")):
        there = {event.get("controller") for event in record.of_kind(kind)}
        if absent := [zone for zone in zones if f"controller-{zone}" not in there]:
            return f"the controller of zone {text.listed(absent)} {never}"
    return None


def count(record: Record, span: Span) -> Measure:
    """How many times controllers led traffic away from a zone in a phase, or would have: rotations do not count."""
    return _counted(record, _away(record, span))


def rotations(record: Record, span: Span) -> Measure:
    """How many times controllers swapped the zones' roles in a phase though nothing was wrong with any of them."""
    done = record.within(span, "failover.done")
    return _counted(
        record,
        [event for event in done if event.get("step") == "weights" and not event.get("against")],
        nothing="no controller rotated the roles",
    )


def rotations_in_doubt(record: Record, span: Span, same: Callable[[Measure], bool]) -> tuple[Measure, str] | None:
    """The count with rotations that were held up by answers that this machine made late, and why; None where the
    verdict is the same."""
    if not starved.applies(record):
        return None
    held = _held_up(record, span)
    if not held:
        return None
    count = (rotations(record, span).value or 0.0) + held
    own = Measure(count, "count", "with rotations that late answers held up", evidence={})
    return None if same(own) else (own, f"with rotations that late answers held up while {starved.none_free(record)}")


def _held_up(record: Record, span: Span) -> int:
    """How many rotations late answers can have held up, by the controller that was held up most often.

    A controller says why it does not rotate each time that it is another reason. Of reasons in a row that are late
    answers, while no processor was free, one rotation may have waited for; unless a reason beside them is none of the
    machine's, as a certificate that has expired.
    """
    clock = starved.Clock(record)
    told: dict[str, list[dict[str, Any]]] = {}
    for event in record.within(span, "failover.decision"):
        told.setdefault(str(event.get("controller")), []).append(event)
    most = 0
    for said in told.values():
        groups = [list(group) for _, group in itertools.groupby(said, key=lambda event: _holds_up(str(event["says"])))]
        reasons = [_holds_up(str(group[0]["says"])) for group in groups]
        ends = [int(group[0]["t"]) for group in groups[1:]] + [span.end]
        found = 0
        for n, (group, reason, end) in enumerate(zip(groups, reasons, ends, strict=True)):
            busy = clock.between(np.array([int(group[0]["t"])]), np.array([end]))[0]
            found += bool(reason == "late" and busy and "other" not in reasons[max(0, n - 1) : n + 2])
        most = max(most, found)
    return most


def _holds_up(says: str) -> str:
    """By what a decision says that a rotation is held up: ``late`` answers or something ``other``; empty: it is not."""
    if not says.endswith(": no rotation"):
        return ""
    return "late" if _HELD_UP.search(says) else "other"


def in_doubt(record: Record, span: Span, same: Callable[[Measure], bool]) -> tuple[Measure, str] | None:
    """The count without steps that rest on what this machine made late, and why; None where the verdict is the same."""
    if not starved.applies(record):
        return None
    clock = starved.Clock(record)
    own = _counted(record, [event for event in _away(record, span) if not _hurried(record, event, clock)])
    late = f"without steps that rest on answers that were late while {starved.none_free(record)}"
    return None if same(own) else (own, late)


def _away(record: Record, span: Span) -> list[dict[str, Any]]:
    """The steps that led traffic away from a zone, or would have."""
    steps = [event for event in record.within(span, "failover.done") if event.get("against")]
    return [*steps, *(event for event in record.within(span, "failover.recommends") if event.get("evidence"))]


def _counted(
    record: Record,
    steps: list[dict[str, Any]],
    *,
    nothing: str = "no controller led anything away",
) -> Measure:
    if says := missing(record):
        return Measure.missing("count", says)
    last: dict[tuple[Any, Any], int] = {}
    words = []
    for event in sorted(steps, key=lambda event: int(event["t"])):
        what, at = (event.get("step"), event.get("against") or event.get("zone")), int(event["t"])
        if what not in last or at - last[what] > TOGETHER * SECOND:
            words.append(str(event.get("says") or event.get("because")))
        last[what] = at
    return Measure(float(len(words)), "count", "; ".join(words) or nothing, evidence={})


def _hurried(record: Record, event: dict[str, Any], clock: Clock) -> bool:
    """Whether a step rests on late answers while no processor of this machine was free (``clock``).

    So it does where fewer kinds of evidence than a step needs are left without those of which the last word is a late
    answer or none in time, and of whose time more than half had no free processor.
    """
    asked = [event]
    if event["kind"] == "failover.done":  # its evidence is where it was decided
        asked = [
            step
            for step in record.of_kind("failover.step")
            if (step.get("controller"), *_step(step)) == (event.get("controller"), *_step(event))
            and int(step["t"]) <= int(event["t"])
        ]
    found = asked[-1].get("evidence") or [] if asked else []
    if not found:
        return False
    at = int(asked[-1]["t"])

    def starving(seconds: float) -> bool:
        start, end = np.array([at - round(seconds * SECOND)]), np.array([at])
        return bool(seconds and clock.between(start, end)[0] >= usable.MOSTLY * seconds)

    late = [each for each in found if _LATE.search(str(each.get("says"))) and starving(float(each.get("seconds") or 0))]
    return len(found) - len(late) < min(KINDS, len(found))


def noticed(ladder: Ladder) -> Measure:
    """When a controller first had evidence against a zone."""

    def found(event: dict[str, Any]) -> str | None:
        kinds = [each["kind"] for each in event.get("evidence") or ()]
        return f"{event.get('controller')}: zone {event.get('zone')} by {text.listed(kinds)}" if kinds else None

    return _first(ladder, "no controller had evidence against a zone", found, "failover.evidence")


def decided(ladder: Ladder) -> Measure:
    """When a controller first took a step, or would have."""

    def found(event: dict[str, Any]) -> str:
        return f"{event.get('controller')}: {event.get('step')} of zone {event.get('zone')}, {event.get('because')}"

    return _first(ladder, "no controller took a step", found, "failover.step", "failover.recommends")


def acted(ladder: Ladder) -> Measure:
    """When the last step of any controller was in effect; also says which steps were never taken, and why."""
    if says := missing(ladder.record):
        return Measure.missing("seconds", says)
    done = ladder.during("failover.done")
    taken = {_step(event) for event in done}
    failed = {_step(event): str(event.get("says")) for event in ladder.during("failover.failed")}
    words = [text.clip(says) for step, says in failed.items() if step not in taken]
    if not done:
        return ladder.not_reached("; ".join(["no controller's step came into effect", *words]))
    return ladder.reached(int(done[-1]["t"]), "; ".join([*(str(event.get("says")) for event in done), *words]))


def _step(event: dict[str, Any]) -> tuple[Any, Any]:
    return event.get("step"), event.get("zone")


def _first(ladder: Ladder, nothing: str, says: Any, *kinds: str) -> Measure:
    if why := missing(ladder.record):
        return Measure.missing("seconds", why)
    for event in ladder.during(*kinds):
        if words := says(event):
            return ladder.reached(int(event["t"]), words)
    return ladder.not_reached(nothing)


def a_second_failover(run: Altered) -> None:
    run.add("dead", 20.0, "failover.done", controller="controller-b", step="decommission", against="a", says="done")


def a_rotation(run: Altered) -> None:
    weights = {"step": "weights", "zone": "a", "against": None, "says": "weights a 0, b 1, c 1: done"}
    run.add("dead", 20.0, "failover.done", controller="controller-b", **weights)


def one_that_would_have_acted_too(run: Altered) -> None:
    run.add("dead", 20.0, "failover.recommends", controller="controller-b", evidence=[{"kind": "probe"}])


CHECKS = (
    Check(
        "failovers",
        "count",
        lambda record, _, span: count(record, span),
        Words.of(
            missed="Failover controllers led traffic away {times}{inside}; wanted was {want}",
            question="failover controllers led traffic away{inside}",
            promise="Failovers{inside}: {want}",
            short="times that a controller led traffic away",
        ),
        group="recovery",
        doubt=in_doubt,
        of_controllers=True,
        meaning=(
            "How often failover controllers led reads or writes away from a zone, or would have. One that was not "
            "needed costs cold caches and a third of the capacity; rotations on schedule are none."
        ),
        helps=("zone-failover", "headroom"),
        order=70,
        trial=Trial("<= 1", "dead", (a_second_failover, one_that_would_have_acted_too)),
    ),
    Check(
        "rotations",
        "count",
        lambda record, _, span: rotations(record, span),
        Words.of(
            missed="Failover controllers rotated the zones' roles {times}{inside}; wanted was {want}",
            question="failover controllers rotated the zones' roles{inside}",
            promise="Rotations of the zones' roles{inside}: {want}",
            short="times that controllers rotated the roles",
        ),
        group="recovery",
        doubt=rotations_in_doubt,
        of_controllers=True,
        meaning=(
            "How often failover controllers swapped the zones' roles though no zone was bad: by schedule, or asked to. "
            "The same swap by several controllers is one."
        ),
        helps=("zone-failover",),
        order=71,
        trial=Trial("<= 0", "dead", (a_rotation,)),
    ),
)
