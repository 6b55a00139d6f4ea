"""Cluster managers that were elected in a phase: how often the cluster changed, or lost and found, its leader.

Counted from the sampler's events: each time a leader is seen where none or another one was before. The leader that the
sampler finds when it begins is no election, nor is the same one after looks that no node answered. It looks once a
second, so a leader that was gone for less, and was elected again, is not seen: the count is never too high. With a
stretch of more than 10 s without an answer it is a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.base import text
from chaos.checks import timeline
from chaos.checks.check import Check
from chaos.checks.measure import Bound, Measure
from chaos.checks.movement import BLIND, longest_blind
from chaos.checks.record import Record, Span
from chaos.checks.section import Row, Section
from chaos.checks.trial import Altered, Trial, nobody_answered_the_sampler_for_15_s
from chaos.checks.words import Words
from chaos.history.events import ClusterLeader

MOST = 100
"""Elections of a phase that its evidence names, and of a run that the report lists."""


def elected(record: Record) -> list[ClusterLeader]:
    """Each leader that was seen where none or another one was before, of the whole run."""
    found: list[ClusterLeader] = []
    looks = timeline.sampled(record)
    before: str | None = None
    none_since: int | None = None
    for number, event in enumerate(record.seen(ClusterLeader)):
        if event.leader is None:
            none_since = event.t
            continue
        again = none_since is not None and timeline.answered(looks, none_since, event.t)
        if number and (event.leader != before or again):
            found.append(event)
        before, none_since = event.leader, None
    return found


def measure(record: Record, span: Span) -> Measure:
    """Leaders that were elected in one phase."""
    blind = longest_blind(record, span)
    if blind is None:
        return Measure.missing("count", "the cluster answered no sample in this phase")
    inside = [event for event in elected(record) if span.holds(event.t)]
    evidence = {
        "elected": [{"leader": str(event.leader), "at": record.since_start(event.t)} for event in inside[:MOST]],
        "longest_blind_seconds": blind,
    }
    if blind > BLIND:
        says = f"no answer from the cluster for {blind:.0f} s of the phase; elections may have been missed"
        if not inside:
            return Measure.missing("count", says, **evidence)
        return Measure(float(len(inside)), "count", says, Bound.AT_LEAST, evidence)
    names = text.listed([str(event.leader) for event in inside])
    says = f"elected in this order: {names}" if inside else "the leader stayed, or nobody was elected"
    return Measure(float(len(inside)), "count", says, evidence=evidence)


def section(record: Record, tables: Mapping[str, Any]) -> Section | None:
    """Every election of the run, also outside its phases; None where none was seen."""
    found = elected(record)
    if not found:
        return None
    blind = [span.name for span in record.spans if _is_blind(record, span)]
    return Section(
        id="elections",
        title="Elections of a cluster manager",
        short="Elections",
        says="Each time the sampler saw another cluster manager than before, or one after none.",
        gaps=f"in {text.listed(blind)} it had no answer for more than {BLIND:g} s, or none at all, so elections may be "
        "missing."
        if blind
        else "",
        head=("At#", "Cluster manager", "Phase"),
        rows=tuple(_row(record, event) for event in found[:MOST]),
        small="Seconds since the start of the load. The sampler looks once a second."
        + (f" The first {MOST} of {len(found)} are listed." if len(found) > MOST else ""),
    )


def _is_blind(record: Record, span: Span) -> bool:
    blind = longest_blind(record, span)
    return blind is None or blind > BLIND


def _row(record: Record, event: ClusterLeader) -> Row:
    at, place = record.since_start(event.t), record.place(event.t)
    phase = "outside the phases" if place is None else record.spans[place].name
    return Row(text.NO_VALUE if at is None else f"{at:.1f} s", (str(event.leader), phase))


def one_manager_after_another(run: Altered) -> None:
    for at, leader in ((8.9, None), (11.9, "b-cm"), (15.9, None), (17.9, "a-cm")):
        run.add("dead", at, "cluster.leader", leader=leader)


def leadership_passed_on_without_a_gap(run: Altered) -> None:
    run.add("dead", 12.9, "cluster.leader", leader="b-cm")


CHECKS = (
    Check(
        "elections",
        "count",
        lambda record, _, span: measure(record, span),
        Words.of(
            missed="The cluster elected a cluster manager {times}{inside}; wanted was {want}",
            question="the cluster kept its manager{inside}",
            promise="Elections of a cluster manager{inside}: {want}",
            short="elections of a cluster manager",
        ),
        group="recovery",
        meaning=(
            "How often a cluster manager was elected in the phase. A lost one costs one election; more mean that "
            "leaders come and go, and each time nothing is removed, promoted or created until the next is in office."
        ),
        helps=("three-managers", "failure-detection"),
        section=section,
        order=160,
        trial=Trial(
            "<= 1",
            "dead",
            (one_manager_after_another, leadership_passed_on_without_a_gap),
            (nobody_answered_the_sampler_for_15_s,),
        ),
    ),
)
