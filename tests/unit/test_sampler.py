"""From a sequence of views to events: what changed, once each, and nothing while nobody can be asked."""

from __future__ import annotations

import pytest
from fakes import FakeLab, Log

from chaos.observe import sampler as module
from chaos.observe.cluster import ShardCopy, View
from chaos.observe.sampler import Sampler

NODES = tuple(node.name for node in FakeLab().topology.nodes)
WHOLE = {"a-data": ("STARTED", True), "b-data": ("STARTED", False), "c-data": ("STARTED", False)}


def view(
    copies: dict[str, tuple[str, bool]] | None = None,
    *,
    unassigned: tuple[bool, ...] = (),
    leader: str | None = "a-cm",
    nodes: tuple[str, ...] = NODES,
    moving: dict[str, str] | None = None,
    index: str = "chaos",
) -> View:
    """One shard. ``unassigned``: is each unassigned copy the primary; ``moving``: node → where its copy goes."""
    held = [
        ShardCopy(index, 0, primary, state, node, (moving or {}).get(node))
        for node, (state, primary) in (WHOLE if copies is None else copies).items()
    ]
    lost = [ShardCopy(index, 0, primary, "UNASSIGNED", None) for primary in unassigned]
    return View("a-cm", 1, leader, frozenset(nodes), (*held, *lost))


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def sampler(log: Log) -> Sampler:
    made = Sampler(FakeLab(), log, "chaos")  # type: ignore[arg-type]
    made._take([view()])
    log.events.clear()
    return made


def changes(log: Log) -> list[dict[str, object]]:
    found = [event for event in log.events if event["kind"] != "sample"]
    log.events.clear()
    return found


def test_the_first_view_says_status_and_leader_and_no_more() -> None:
    log = Log()
    Sampler(FakeLab(), log, "chaos")._take([view()])  # type: ignore[arg-type]
    assert changes(log) == [
        {"kind": "cluster.status", "status": "green"},
        {"kind": "cluster.leader", "leader": "a-cm"},
    ]


def test_what_does_not_change_is_no_event(sampler: Sampler, log: Log) -> None:
    for _ in range(3):
        sampler._take([view()])
    assert [event["kind"] for event in log.events] == ["sample"] * 3
    assert changes(log) == []


def test_a_node_leaves_and_comes_back(sampler: Sampler, log: Log) -> None:
    sampler._take([view(nodes=tuple(n for n in NODES if n != "c-cm"))])
    assert changes(log) == [{"kind": "cluster.node_left", "node": "c-cm", "zone": "c"}]
    sampler._take([view()])
    assert changes(log) == [{"kind": "cluster.node_joined", "node": "c-cm", "zone": "c"}]


def test_a_leader_is_lost_and_another_elected(sampler: Sampler, log: Log) -> None:
    sampler._take([view(leader=None)])
    assert changes(log) == [
        {"kind": "cluster.status", "status": "unknown"},
        {"kind": "cluster.leader", "leader": None},
    ]
    sampler._take([view(leader="b-cm")])
    assert changes(log) == [
        {"kind": "cluster.status", "status": "green"},
        {"kind": "cluster.leader", "leader": "b-cm"},
    ]


def test_missing_views_are_no_departures(sampler: Sampler, log: Log) -> None:
    sampler._take([])
    sampler._take([])
    kinds = [event["kind"] for event in changes(log)]
    assert kinds == ["cluster.status", "cluster.leader"]
    sampler._take([view()])
    assert [event["kind"] for event in changes(log)] == ["cluster.status", "cluster.leader"]


def test_a_dead_primary_is_unassigned_and_another_promoted(sampler: Sampler, log: Log) -> None:
    gone = {"b-data": ("STARTED", True), "c-data": ("STARTED", False)}
    sampler._take([view(gone, unassigned=(False,))])
    assert changes(log) == [
        {"kind": "cluster.status", "status": "yellow"},
        {"kind": "cluster.primary_promoted", "index": "chaos", "shard": 0, "node": "b-data"},
        {"kind": "cluster.shard_unassigned", "index": "chaos", "shard": 0, "primary": False, "copies": 1},
    ]
    sampler._take([view(gone, unassigned=(False,))])
    assert changes(log) == []
    # it comes back where it was: that is no move
    sampler._take([view({**gone, "a-data": ("INITIALIZING", False)})])
    assert changes(log) == []
    sampler._take([view({**gone, "a-data": ("STARTED", False)})])
    assert changes(log) == [
        {"kind": "cluster.status", "status": "green"},
        {"kind": "cluster.shard_started", "index": "chaos", "shard": 0, "node": "a-data", "primary": False},
    ]


def test_no_primary_at_all_is_red_and_says_so(sampler: Sampler, log: Log) -> None:
    sampler._take([view({}, unassigned=(True, False, False))])
    assert changes(log) == [
        {"kind": "cluster.status", "status": "red"},
        {"kind": "cluster.shard_unassigned", "index": "chaos", "shard": 0, "primary": True, "copies": 3},
    ]


def test_a_copy_on_a_node_that_held_none_is_a_move_once(sampler: Sampler, log: Log) -> None:
    elsewhere = {"a-data": ("STARTED", True), "b-data": ("STARTED", False), "a-cm": ("INITIALIZING", False)}
    moved = {"kind": "cluster.shard_moved", "index": "chaos", "shard": 0, "node": "a-cm"}
    sampler._take([view(elsewhere)])
    assert moved in changes(log)
    sampler._take([view({**elsewhere, "a-cm": ("STARTED", False)})])
    assert [event["kind"] for event in changes(log)] == ["cluster.status", "cluster.shard_started"]


def test_a_relocation_is_a_move_as_soon_as_it_begins(sampler: Sampler, log: Log) -> None:
    sampler._take([view({**WHOLE, "c-data": ("RELOCATING", False)}, moving={"c-data": "a-cm"})])
    assert {"kind": "cluster.shard_moved", "index": "chaos", "shard": 0, "node": "a-cm"} in changes(log)


def test_homes_are_those_of_the_first_whole_view() -> None:
    """A copy that is not yet assigned when the load begins is at home wherever it is put first."""
    log = Log()
    made = Sampler(FakeLab(), log, "chaos")  # type: ignore[arg-type]
    made._take([view({"a-data": ("STARTED", True)}, unassigned=(False, False))])
    assert made.homes() == []
    made._take([view()])
    made._take([view()])
    assert [home["node"] for home in made.homes()] == ["a-data", "b-data", "c-data"]
    assert not log.of("cluster.shard_moved")


def test_other_indices_are_not_ours(sampler: Sampler, log: Log) -> None:
    other = view({"a-cm": ("STARTED", True)}, index="other").copies
    ours = view()
    sampler._take([View(ours.seen_by, 2, ours.leader, ours.nodes, (*ours.copies, *other))])
    assert changes(log) == []


def test_red_since_is_when_red_began(sampler: Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 20.0, 30.0, 40.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    red = view({}, unassigned=(True,))
    sampler._take([red])
    sampler._take([red])
    assert sampler.red_since == 10.0
    monkeypatch.undo()
    sampler._take([view()])
    assert sampler.red_since is None
