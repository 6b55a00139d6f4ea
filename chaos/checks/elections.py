"""Cluster managers that were elected in a phase: how often the cluster changed, or lost and found, its leader.

Counted from the sampler's events: each time a leader is seen where none or another one was before. The leader that the
sampler finds when it begins is no election. It looks once a second, so a leader that was gone for less, and was elected
again, is not seen: the count is never too high. With a stretch of more than 10 s without an answer it is a lower bound.
"""

from __future__ import annotations

import itertools

from chaos.base import text
from chaos.checks.check import Check
from chaos.checks.measure import Bound, Measure
from chaos.checks.movement import BLIND, longest_blind
from chaos.checks.record import Record, Span
from chaos.checks.trial import Altered, Trial, nobody_answered_the_sampler_for_15_s
from chaos.checks.words import Words


def measure(record: Record, span: Span) -> Measure:
    """Leaders that were elected in one phase."""
    blind = longest_blind(record, span)
    if blind is None:
        return Measure.missing("count", "the cluster answered no sample in this phase")
    pairs = itertools.pairwise(record.of_kind("cluster.leader"))
    elected = [now for before, now in pairs if now.get("leader") and now["leader"] != before.get("leader")]
    inside = [event for event in elected if span.start <= int(event["t"]) < span.end]
    evidence = {
        "elected": [
            {"leader": str(event["leader"]), "at": record.since_start(int(event["t"]))} for event in inside[:100]
        ],
        "longest_blind_seconds": blind,
    }
    if blind > BLIND:
        says = f"no answer from the cluster for {blind:.0f} s of the phase; elections may have been missed"
        if not inside:
            return Measure.missing("count", says, **evidence)
        return Measure(float(len(inside)), "count", says, Bound.AT_LEAST, evidence)
    names = text.listed([str(event["leader"]) for event in inside])
    says = f"elected in this order: {names}" if inside else "the leader stayed, or nobody was elected"
    return Measure(float(len(inside)), "count", says, evidence=evidence)


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
        order=160,
        trial=Trial(
            "<= 1",
            "dead",
            (one_manager_after_another, leadership_passed_on_without_a_gap),
            (nobody_answered_the_sampler_for_15_s,),
        ),
    ),
)
