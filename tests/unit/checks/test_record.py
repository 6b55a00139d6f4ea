"""What a record answers when it is asked for events by their classes."""

from __future__ import annotations

import synthetic
from synthetic import Chapter, Story

from chaos.checks.record import Record
from chaos.history.events import ClusterLeader, NodeJoined, NodeLeft


def recorded() -> Record:
    first, second = Chapter("healthy", 10), Chapter("dead", 10)
    first.event(2.0, "cluster.node_left", node="a-data", zone="a")
    second.event(1.0, "cluster.leader", leader="b-cm")
    second.event(2.0, "cluster.node_joined", node="a-data")
    second.event(3.0, "cluster.node_left", node="c-data", zone="c")
    return Record(Story(chapters=[first, second]).history())


def test_events_of_several_classes_come_in_the_order_of_the_record() -> None:
    record = recorded()
    found: list[NodeLeft | NodeJoined] = record.seen(NodeJoined, NodeLeft)
    assert [(type(event), event.node) for event in found] == [
        (NodeLeft, "a-data"),
        (NodeJoined, "a-data"),
        (NodeLeft, "c-data"),
    ]
    assert [event.t for event in found] == sorted(event.t for event in found)
    assert record.seen() == []


def test_of_a_phase_are_those_within_it_and_a_key_that_is_not_there_is_none() -> None:
    record = recorded()
    healthy, dead = record.spans
    assert [event.node for event in record.seen(NodeLeft, span=healthy)] == ["a-data"]
    assert [event.node for event in record.seen(NodeLeft, span=dead)] == ["c-data"]
    (joined,) = record.seen(NodeJoined, span=dead)
    assert (joined.zone, joined.t) == (None, dead.start + 2 * synthetic.S)
    assert [event.leader for event in record.seen(ClusterLeader, span=dead)] == ["b-cm"]
