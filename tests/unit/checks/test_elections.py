"""How many cluster managers were elected in a phase."""

from __future__ import annotations

from typing import Any

import pytest
import synthetic
from synthetic import Chapter, Story

from chaos.checks.elections import measure
from chaos.checks.measure import Bound, Measure
from chaos.checks.record import Record


def measured(
    *leaders: tuple[float, str | None], before: tuple[str | None, ...] = ("a-cm",), blind: float = 0
) -> Measure:
    """Of a second phase of 30 s, in which the sampler saw these leaders; ``blind``: seconds without an answer."""
    first, second = Chapter("healthy", 20), Chapter("dead", 30)
    for number, leader in enumerate(before):
        first.event(1.0 + number, "cluster.leader", leader=leader)
    for at, leader in leaders:
        second.event(at, "cluster.leader", leader=leader)
    history: Any = Story(chapters=[first, second]).history()
    begin = next(span for span in history.phases if span.name == "dead").start_ns
    if not before:  # the story's own was there before the load
        history.events = [event for event in history.events if event["kind"] != "cluster.leader" or event["t"] >= begin]
    for event in history.events:
        if event["kind"] == "sample" and begin <= event["t"] < begin + blind * synthetic.S:
            event["ok"] = 0
    record = Record(history)
    span = record.span("dead")
    assert span is not None
    return measure(record, span)


@pytest.mark.parametrize(
    ("leaders", "before", "number"),
    [
        ((), ("a-cm",), 0),
        (((2, None),), ("a-cm",), 0),  # lost, and nobody was elected
        (((2, None), (4, "b-cm")), ("a-cm",), 1),
        (((2, None), (4, "a-cm")), ("a-cm",), 1),  # the same one once more
        (((2, "b-cm"),), ("a-cm",), 1),  # too quick for the sampler to see none
        (((2, "b-cm"), (9, None), (12, "a-cm")), ("a-cm",), 2),
        (((2, "a-cm"),), (), 0),  # the sampler's first look
        (((4, "b-cm"),), ("a-cm", None), 1),  # lost before the phase, elected in it
        (((2, None),), ("a-cm", None, "b-cm"), 0),  # elected before it
    ],
)
def test_each_leader_after_none_or_another_is_an_election(
    leaders: tuple[tuple[float, str | None], ...], before: tuple[str | None, ...], number: int
) -> None:
    found = measured(*leaders, before=before)
    assert (found.value, found.bound, len(found.evidence["elected"])) == (number, Bound.EXACT, number)


def test_they_are_named_in_their_order() -> None:
    found = measured((2, None), (4, "b-cm"), (9, None), (12, "c-cm"))
    assert found.says == "elected in this order: b-cm and c-cm"
    assert [each["leader"] for each in found.evidence["elected"]] == ["b-cm", "c-cm"]


def test_what_the_sampler_did_not_see_is_not_said_to_be_none() -> None:
    assert measured(blind=15).value is None
    some = measured((20, None), (22, "b-cm"), blind=15)
    assert (some.value, some.bound) == (1, Bound.AT_LEAST)
    assert measured(blind=40).says == "the cluster answered no sample in this phase"
