"""How many cluster managers were elected in a phase."""

from __future__ import annotations

from typing import Any

import pytest
import synthetic
from synthetic import Chapter, Story

from chaos.checks.elections import measure, section
from chaos.checks.measure import Bound, Measure
from chaos.checks.record import Record


def recorded(
    *leaders: tuple[float, str | None], before: tuple[str | None, ...] = ("a-cm",), blind: float = 0
) -> Record:
    """With a second phase of 30 s, in which the sampler saw these leaders; ``blind``: seconds without an answer."""
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
    return Record(history)


def measured(
    *leaders: tuple[float, str | None], before: tuple[str | None, ...] = ("a-cm",), blind: float = 0
) -> Measure:
    """Of the second phase."""
    record = recorded(*leaders, before=before, blind=blind)
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


def test_the_same_manager_after_looks_that_no_node_answered_was_not_elected() -> None:
    """Records of before have an event without a leader where no node had answered."""
    assert measured((1, None), (3, "a-cm"), blind=4).value == 0
    assert measured((1, None), (3, "a-cm")).value == 1
    other = measured((1, None), (3, "b-cm"), (8, None), (9, "b-cm"), blind=4)
    assert other.says == "elected in this order: b-cm and b-cm"


def test_they_are_named_in_their_order() -> None:
    found = measured((2, None), (4, "b-cm"), (9, None), (12, "c-cm"))
    assert found.says == "elected in this order: b-cm and c-cm"
    assert [each["leader"] for each in found.evidence["elected"]] == ["b-cm", "c-cm"]


def test_what_the_sampler_did_not_see_is_not_said_to_be_none() -> None:
    assert measured(blind=15).value is None
    some = measured((20, None), (22, "b-cm"), blind=15)
    assert (some.value, some.bound) == (1, Bound.AT_LEAST)
    assert measured(blind=40).says == "the cluster answered no sample in this phase"


def test_the_report_lists_when_who_and_in_which_phase() -> None:
    record = recorded((2, None), (4, "b-cm"), (9, None), (12.25, "a-cm"), before=("a-cm", None, "c-cm"))
    found = section(record, {})
    assert found is not None and not found.gaps
    assert [(row.head, *row.cells) for row in found.rows] == [
        ("1.0 s", "a-cm", "healthy"),  # it was c-cm before the load
        ("3.0 s", "c-cm", "healthy"),
        ("24.0 s", "b-cm", "dead"),
        ("32.2 s", "a-cm", "dead"),
    ]


def test_the_report_has_no_list_of_none_and_says_when_some_may_be_missing() -> None:
    assert section(recorded((2, None), (4, None), before=("c-cm",)), {}) is None
    for blind in (15, 40):
        found = section(recorded((20, None), (22, "b-cm"), blind=blind), {})
        assert found is not None and found.gaps.startswith("in dead it had no answer for more than 10 s, or none"), (
            blind
        )


def test_an_election_before_the_phases_is_in_none_and_a_long_list_is_cut() -> None:
    history: Any = Story(chapters=[Chapter("healthy", 20)]).history()
    begin = history.phases[0].start_ns
    history.events += [
        {"t": begin - (200 - number) * synthetic.S, "kind": "cluster.leader", "leader": f"{number % 2}-cm"}
        for number in range(110)
    ]
    found = section(Record(history), {})
    assert found is not None and len(found.rows) == 100 and "The first 100 of 110 are listed" in found.small
    assert found.rows[0].cells == ("1-cm", "outside the phases") and found.rows[0].head.startswith("-")
