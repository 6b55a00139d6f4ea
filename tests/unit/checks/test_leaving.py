"""Nodes that left, and leaders that were replaced: which of them the experiment explains, and which this machine."""

from __future__ import annotations

from typing import Any

import pytest
from synthetic import T0, Chapter, S, Story, expect

from chaos.checks import evaluate, leaving
from chaos.checks.record import Record

STARVED = ((65.0, 99.0),)
MINE = ("elections@returned", "cluster.recovered@returned", "recovery.green@returned", "until@returned")


def story(**given: Any) -> Story:
    """Zone c is slow from 30 s on and well from 60 s on; b-data, which no fault hits, leaves at 100 s, and the leader
    is another one from 103 s on. The wait for green ends in vain at 130 s."""
    returned = Chapter("returned", 70, reason="deadline", until={"green": True, "stable": 0.0, "within": 70.0})
    return Story(
        **{"rules": 2, "starved": STARVED, **given},
        chapters=[
            Chapter("healthy", 30),
            Chapter("slow", 30).fault(),
            returned.lift()
            .event(40.0, "cluster.node_left", node="b-data", zone="b")
            .event(40.1, "cluster.status", status="yellow")
            .event(41.0, "cluster.leader", leader=None)
            .event(43.0, "cluster.leader", leader="a-cm"),
        ],
        expect=[
            expect("read.good", ">=", 0.99, ("healthy", "slow")),
            expect("elections", "==", 0, ("slow", "returned")),
            expect("cluster.recovered", "<=", 60, ("returned",)),
            expect("recovery.green", "<=", 60, ("returned",)),
        ],
    )


def gaps(told: Story) -> list[tuple[float, str]]:
    found = leaving.gaps(Record(told.history()))
    return [((gap.since - T0) / S, gap.says) for gap in found if gap.since is not None]


def counted(told: Story) -> dict[str, str]:
    return {finding.id: finding.counts_as.value for finding in evaluate(told.history()).findings}


def test_what_this_machine_pushed_out_is_no_weakness_of_the_cluster() -> None:
    found = counted(story())
    assert {name: found[name] for name in MINE} == dict.fromkeys(MINE, "inconclusive")
    assert found["read.good@healthy"] == found["read.good@slow"] == found["elections@slow"] == "pass"
    none_free = "in which none of this machine's processors was free"
    assert gaps(story()) == [
        (65.0, f"b-data left the cluster 100 s into the run after 34 s {none_free}"),
        (66.0, f"c-cm lost the leadership 101 s into the run after 33 s {none_free}"),
    ]


@pytest.mark.parametrize("starved", [(), ((20.0, 60.0),), ((98.0, 98.9),)])
def test_with_free_processors_before_it_is_one(starved: tuple[tuple[float, float], ...]) -> None:
    found = counted(story(starved=starved))
    assert {name: found[name] for name in MINE} == dict.fromkeys(MINE, "weakness")


def led(*moves: tuple[float, str | None], silent: tuple[float, float] | None = None) -> Story:
    """The looks at the leader after 100 s, while nobody left; no look was answered while it was ``silent``."""
    told = story()
    returned = told.chapters[2]
    returned.events = [event for event in returned.events if not event[1].startswith("cluster.")]
    for at, leader in moves:
        returned.event(at - 60.0, "cluster.leader", leader=leader)

    def mutate(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        begin, end = (T0 + round(at * S) for at in silent or (0.0, 0.0))
        return [event for event in events if event["kind"] != "sample" or not begin <= event["t"] <= end]

    told.mutate = mutate
    return told


def test_a_leader_that_was_only_out_of_sight_was_not_replaced() -> None:
    assert gaps(led((100.0, None), (106.0, "c-cm"), silent=(99.8, 106.2))) == []
    assert [since for since, _ in gaps(led((100.0, None), (106.0, "c-cm")))] == [65.0]
    assert [since for since, _ in gaps(led((100.0, None)))] == [65.0]
    assert [since for since, _ in gaps(led((100.0, "a-cm")))] == [65.0]


def test_a_leader_that_the_experiment_unseats_was_not_pushed_out() -> None:
    for kind in ("exclude_votes", "include_votes"):
        told = led((100.0, "a-cm"))
        told.chapters[2].action("a1", kind, "take the votes of c-cm away", 38.0, 0.1)
        assert gaps(told) == []
    for killed, explained in ((("a-cm", "b-cm"), True), (("b-cm",), False)):
        told = led((100.0, None))
        told.chapters[2].fault("f2", kind="node.kill", says="kill", at=39.0, targets=killed)
        command = next(each for _, kind, each in told.chapters[2].events if kind == "fault.command")
        command["links"] = []
        assert (gaps(told) == []) is explained


def test_nodes_that_a_leader_does_not_know_yet_after_a_lost_quorum_were_not_pushed_out() -> None:
    """As in tests/corpus, quorum-lost: the managers were gone, and the one that is elected then has lost the others."""
    for killed, explained in ((("a-cm", "b-cm", "c-cm"), True), ((), False)):
        told = led((104.0, "a-cm"))
        returned = told.chapters[2].event(44.0, "cluster.node_left", node="b-data", zone="b")
        if killed:
            returned.fault("f2", kind="cluster_manager.quorum_loss", says="kill them", at=30.0, targets=killed)
            next(each for _, kind, each in returned.events if kind == "fault.command")["links"] = []
        assert (gaps(told) == []) is explained


def test_under_rules_1_where_copies_are_hangs_on_it_alone() -> None:
    found = counted(story(rules=1))
    assert {name: found[name] for name in MINE} == dict.fromkeys(MINE, "weakness")
    record = Record(story(rules=1).history())
    assert str(leaving.pushed(record, record.spans[2])).startswith("b-data left the cluster 100 s into the run")


@pytest.mark.parametrize(("back", "explained"), [(None, True), (75.0, True), (62.0, False)])
def test_a_zone_that_was_taken_back_explains_nothing_later(back: float | None, explained: bool) -> None:
    """Zone b was out from 31 s on; b-data leaves at 100 s."""
    told = story()
    told.chapters[2].events = [each for each in told.chapters[2].events if each[1] != "cluster.leader"]
    told.chapters[1].action("a1", "decommission", "decommission zone b without delay", 1.0, 2.0)
    if back is not None:
        told.chapters[2].action("a2", "recommission", "recommission zone b", back - 60.0, 0.5)
    record = Record(told.history())
    assert (leaving.pushed(record, record.spans[2]) is None) is explained
    assert (leaving.gaps(record) == ()) is explained


def test_another_zone_s_return_leaves_it_out() -> None:
    told = story()
    told.chapters[1].action("a1", "decommission", "decommission zone b without delay", 1.0, 2.0)
    told.chapters[2].action("a2", "recommission", "recommission zone a", 1.0, 0.5)
    record = Record(told.history())
    assert leaving.pushed(record, record.spans[2]) is None
