"""From a sequence of views to events: what changed, once each, and nothing while nobody can be asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from fake_cluster import FakeCluster
from fakes import FakeLab, Log

from chaos.instruments import sampler as module
from chaos.instruments.sampler import Sampler
from chaos.opensearch import counters, views
from chaos.opensearch.routing import default_routing_shards
from chaos.opensearch.views import ShardCopy, View, another_leader

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
    version: int = 1,
    cluster: str = "uuid",
) -> View:
    """One shard. ``unassigned``: is each unassigned copy the primary; ``moving``: node → where its copy goes."""
    held = [
        ShardCopy(index, 0, primary, state, node, (moving or {}).get(node))
        for node, (state, primary) in (WHOLE if copies is None else copies).items()
    ]
    lost = [ShardCopy(index, 0, primary, "UNASSIGNED", None) for primary in unassigned]
    return View("a-cm", version, leader, frozenset(nodes), (*held, *lost), cluster=cluster)


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
    found = [event for event in log.events if event["kind"] not in ("sample", "cluster.primary")]
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


FEWER = tuple(n for n in NODES if n != "c-cm")
GONE = {"b-data": ("STARTED", True), "c-data": ("STARTED", False)}


@pytest.mark.parametrize(
    ("seen", "worse"),
    [
        ([view(nodes=FEWER)], True),
        ([view(GONE, unassigned=(False,))], True),
        ([view(leader=None)], False),
        ([view(leader="b-cm")], False),  # it is another one's, and the nodes that are gone are still in it
        ([view()], False),
        ([], False),  # nobody answered the sampler: that is no word of the cluster
    ],
    ids=["a node left", "yellow", "no leader", "another leader", "as before", "no answer"],
)
def test_it_knows_when_the_cluster_became_worse(sampler: Sampler, seen: list[View], worse: bool) -> None:
    assert sampler.worse is None
    sampler._take(seen)
    assert (sampler.worse is not None) == worse
    before = sampler.worse
    sampler._take([view(leader="b-cm") if worse and seen[0].leader == "b-cm" else view()])
    assert sampler.worse == before, "that it became better is no news of this kind"


def test_missing_views_are_no_departures(sampler: Sampler, log: Log) -> None:
    sampler._take([])
    sampler._take([])
    assert changes(log) == [{"kind": "cluster.status", "status": "unknown"}]
    sampler._take([view()])
    assert changes(log) == [{"kind": "cluster.status", "status": "green"}]
    sampler._take([])
    sampler._take([view(leader="b-cm")])
    assert log.of("cluster.leader") == [{"kind": "cluster.leader", "leader": "b-cm"}], "another leads since"


def test_a_state_that_is_older_than_one_that_was_seen_changes_nothing(sampler: Sampler, log: Log) -> None:
    """Of a leader that was cut off and does not know it yet, while no other node answers in time."""
    new, old = view(leader="b-cm", version=12), view({}, unassigned=(True,), version=10)
    sampler._take([new])
    log.events.clear()
    for seen in ([old], [old, new], [old]):
        sampler._take(seen)
    assert [event["kind"] for event in log.events] == ["sample"] * 3
    assert {(each["ok"], each["led"], each["status"], each["nodes"]) for each in log.of("sample")} == {
        (1, 1, "green", len(NODES)),
        (2, 2, "green", len(NODES)),
    }
    assert sampler.status == "green" and sampler.red_since is None


def test_a_cluster_that_is_formed_anew_is_seen_though_it_counts_its_states_from_the_beginning(
    sampler: Sampler, log: Log
) -> None:
    sampler._take([view(version=500)])
    log.events.clear()
    sampler._take([view(leader="b-cm", version=3, cluster="another")])
    sampler._take([view(leader="b-cm", version=4, cluster="another")])
    assert log.of("cluster.leader") == [{"kind": "cluster.leader", "leader": "b-cm"}] and sampler.version == 4


def test_an_older_state_is_believed_when_no_newer_one_was_seen_for_long(
    sampler: Sampler, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Managers that were put back to an older state go on from there."""
    sampler._take([view(version=500)])
    log.events.clear()
    monkeypatch.setattr(sampler, "heard", time.monotonic() - module.OLD_SECONDS + 10)
    sampler._take([view(leader="b-cm", version=3)])
    assert log.of("cluster.leader") == []
    monkeypatch.setattr(sampler, "heard", time.monotonic() - module.OLD_SECONDS - 1)
    sampler._take([view(leader="b-cm", version=3)])
    sampler._take([view(leader="c-cm", version=4)])
    assert [event["leader"] for event in log.of("cluster.leader")] == ["b-cm", "c-cm"]


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


def test_an_index_that_is_made_meanwhile_is_at_home_where_it_first_is_whole(
    sampler: Sampler, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rollover is no move; what leaves those places later is one."""

    def both(copies: dict[str, tuple[str, bool]] | None, unassigned: tuple[bool, ...] = ()) -> View:
        ours, new = view(), view(copies, unassigned=unassigned, index="chaos-000002")
        return View(ours.seen_by, 2, ours.leader, ours.nodes, (*ours.copies, *new.copies))

    away = (False,)  # its node is gone, so the new index is not whole yet
    sampler._take([both({"a-data": ("INITIALIZING", True), "b-data": ("INITIALIZING", False)}, away)])
    sampler._take([both({"a-data": ("STARTED", True), "b-data": ("STARTED", False)}, away)])
    sampler._take([both({**WHOLE, "c-data": ("INITIALIZING", False)})])
    settled = time.time()
    sampler._take([both(WHOLE)])
    assert not log.of("cluster.shard_moved")
    assert {home["node"] for home in sampler.homes() if home["index"] == "chaos-000002"} == set(WHOLE)
    found = [
        {"index": "chaos-000002", "shard": 0, "node": node, "started_ms": round(1000 * t), "stage": "DONE"}
        for node, t in (("c-data", settled - 1), ("b-data", settled + 1))
    ]
    written: list[dict[str, Any]] = []
    monkeypatch.setattr(counters, "recoveries", lambda *_: found)
    monkeypatch.setattr(
        module, "Recovery", lambda **each: written.append(each) or SimpleNamespace(write=lambda events: None)
    )
    assert sampler.returned() and [each["node"] for each in written] == ["b-data"]  # c-data's was its first copy
    sampler._take([both({**WHOLE, "a-cm": ("INITIALIZING", False)})])
    (moved,) = log.of("cluster.shard_moved")
    assert (moved["index"], moved["node"]) == ("chaos-000002", "a-cm")


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


# -- where the primaries are, who served, how copies came back -------------------------------------


def test_where_a_primary_is_is_said_at_first_and_when_it_changes(log: Log) -> None:
    made = Sampler(FakeLab(), log, "chaos")  # type: ignore[arg-type]
    made._take([view()])
    made._take([view({}, unassigned=(True, False, False))])
    made._take([view({"b-data": ("INITIALIZING", True)}, unassigned=(False, False))])
    made._take([view({"b-data": ("STARTED", True)}, unassigned=(False, False))])
    made._take([view({"b-data": ("STARTED", True)}, unassigned=(False, False))])
    assert [event["node"] for event in log.of("cluster.primary")] == ["a-data", None, "b-data"]


def test_a_sample_says_how_long_each_node_took_and_how_late_it_was(sampler: Sampler, log: Log) -> None:
    sampler._take([view()], {"a-cm": 3.1, "c-cm": None}, 0.0123)
    (sample,) = log.of("sample")
    assert sample["answers"] == {"a-cm": 3.1, "c-cm": None} and sample["late_ms"] == 12.3


class Answering(FakeLab):
    """Answers of OpenSearch by the beginning of the path; nodes in ``dead`` give none."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__()
        self.answers, self.dead = answers, set[str]()
        self.asked: list[tuple[str, str]] = []

    def client(self, node: str, *, timeout: float = 5.0) -> Any:
        lab = self

        class Client:
            def request(self, method: str, path: str) -> tuple[int, Any]:
                lab.asked.append((node, path))
                if node in lab.dead:
                    raise urllib3.exceptions.ReadTimeoutError(None, path, "no answer")  # type: ignore[arg-type]
                found = next((answer for start, answer in lab.answers.items() if path.startswith(start)), None)
                return (200, found) if found is not None else (404, {})

            def close(self) -> None:
                return

        return Client()


def recovery(**changes: Any) -> dict[str, Any]:
    """One copy as ``_recovery`` of OpenSearch 3.8.0 shows it; by operations alone."""
    size = {"total_in_bytes": 0, "reused_in_bytes": 0, "recovered_in_bytes": 0, "percent": "0.0%"}
    return {
        "id": 0,
        "type": "PEER",
        "stage": "DONE",
        "primary": False,
        "start_time_in_millis": 2_000_000_000_000,
        "total_time_in_millis": 250,
        "source": {"name": "a-data"},
        "target": {"name": "c-data"},
        "index": {"size": size, "files": {"total": 0, "reused": 0, "recovered": 0}},
        "translog": {"recovered": 321, "total": 321},
        **changes,
    }


def test_copies_that_came_back_are_written_down_once_with_their_size() -> None:
    log = Log()
    lab = Answering(
        {
            "/chaos/_recovery": {"chaos": {"shards": [recovery(), recovery(id=1, start_time_in_millis=5)]}},
            "/_cat/shards/chaos": [{"shard": "0", "node": "c-data", "store": "4096"}, {"shard": "1", "node": None}],
        }
    )
    made = Sampler(lab, log, "chaos")  # type: ignore[arg-type]
    lab.dead = {"a-cm"}
    assert made.returned() and made.returned()
    (event,) = log.of("cluster.recovery")  # the one of 1970 is older than the run
    assert event["operations"] == 321 and event["shard_bytes"] == 4096 and event["seconds"] == 0.25
    assert (event["shard"], event["node"], event["source"], event["bytes_copied"]) == (0, "c-data", "a-data", 0)


def test_nobody_answers_or_in_another_shape_and_nothing_is_said() -> None:
    log = Log()
    lab = Answering({"/chaos/_recovery": {"chaos": {"shards": [{"id": 0}]}}})
    made = Sampler(lab, log, "chaos")  # type: ignore[arg-type]
    assert not made.returned() and log.events == []


def test_it_is_asked_for_when_the_cluster_is_green_again_and_not_before(sampler: Sampler) -> None:
    sampler._take([view()])
    assert not sampler._green_again
    sampler._take([view({}, unassigned=(True,))])
    assert not sampler._green_again
    sampler._take([view()])
    assert sampler._green_again


def test_counters_of_who_served_and_the_routing_of_the_index() -> None:
    stats = {"indices": {"search": {"query_total": 9}, "get": {"total": 2}}}
    stats["weighted_routing"] = {"stats": {"fail_open_count": 4}}  # type: ignore[dict-item]
    metadata = {"settings": {"index": {"number_of_shards": "3"}}, "routing_num_shards": 768}
    lab: Any = Answering(
        {
            "/_nodes/_local/stats": {"nodes": {"x": stats}},
            "/_cluster/state/metadata/chaos": {"metadata": {"indices": {"chaos": metadata}}},
        }
    )
    assert counters.served(lab, "a-data", 1.0) == {"query": 9, "get": 2, "fail_open": 4}
    assert counters.routing(lab, "a-data", "chaos", 1.0) == {"shards": 3, "routing_shards": 768}
    lab.answers = {}
    assert counters.served(lab, "a-data", 1.0) is None and counters.routing(lab, "a-data", "chaos", 1.0) is None


def test_processor_time_that_nobody_tells_is_no_zero() -> None:
    process = {"timestamp": 1_790_000_000_123, "cpu": {"total_in_millis": 4200}}
    own = {"name": "a-data", "os": {"allocated_processors": 2}}
    lab: Any = Answering(
        {
            "/_nodes/_local/stats/process": {"nodes": {"x": {"process": process}}},
            "/_nodes/os": {"nodes": {"x": own}},
        }
    )
    assert counters.process_time(lab, "a-data", 1.0) == {"ms": 4200, "at": 1_790_000_000_123}
    assert counters.processors(lab, "a-cm", 1.0) == {"a-data": 2}
    process["cpu"] = {"total_in_millis": -1}  # as OpenSearch says that it does not know
    assert counters.process_time(lab, "a-data", 1.0) is None
    lab.answers = {"/_nodes/_local/stats/process": {"nodes": {}}}
    assert counters.process_time(lab, "a-data", 1.0) is None and counters.processors(lab, "a-cm", 1.0) is None


def test_who_does_not_tell_its_processor_time_is_not_written_down() -> None:
    log = Log()
    process = {"timestamp": 7, "cpu": {"total_in_millis": 5}}
    lab = Answering({"/_nodes/_local/stats/process": {"nodes": {"x": {"process": process}}}})
    made = Sampler(lab, log, "chaos")  # type: ignore[arg-type]
    lab.dead = {"b-data"}
    made._work()
    lab.dead = {"a-data", "b-data", "c-data"}
    made._work()
    (event,) = log.of("nodes.cpu")
    assert event["nodes"] == {"a-data": {"ms": 5, "at": 7}, "c-data": {"ms": 5, "at": 7}}


def test_a_leader_that_was_cut_off_is_found_out_by_what_a_third_node_says() -> None:
    lab: Any = Answering({"/_cat/cluster_manager": [{"node": "b-cm"}]})
    assert another_leader(lab, "c-cm", "a-cm")  # c follows b
    assert not another_leader(lab, "b-cm", "a-cm")  # b's own word alone is no news
    assert not another_leader(lab, "c-cm", "b-cm")
    lab.dead = {"c-cm"}
    assert not another_leader(lab, "c-cm", "a-cm")


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[FakeCluster, Log]]:
    """A sampler at work on a cluster in memory, a beat every 50 ms."""
    monkeypatch.setattr(module, "PERIOD_SECONDS", 0.0)
    lab, log = FakeCluster(), Log()
    made = Sampler(lab, log, "chaos")  # type: ignore[arg-type]
    made.start()
    yield lab, log
    made.stop()
    assert not made._thread.is_alive()
    assert [event for event in log.of("note")] == []


def seen(log: Log, what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline, log.kinds[-20:]
        time.sleep(0.01)


def test_at_work_it_asks_the_leader_alone_and_every_fifth_time_all(running: tuple[FakeCluster, Log]) -> None:
    _, log = running
    seen(log, lambda: len(log.of("sample")) >= 11)
    asked = [sorted(event["answers"]) for event in log.of("sample")[:11]]
    assert asked.count(["a-cm"]) == 8 and asked[0] == asked[5] == asked[10] == sorted(NODES)
    assert all(0 <= event["late_ms"] < 10_000 for event in log.of("sample"))


def test_at_work_it_asks_each_node_once_for_shards_of_a_state_that_does_not_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Named(FakeCluster):
        def _state(self) -> dict[str, Any]:
            return {**super()._state(), "state_uuid": "the only one"}

    monkeypatch.setattr(module, "PERIOD_SECONDS", 0.0)
    lab, log = Named(), Log()
    made = Sampler(lab, log, "chaos")  # type: ignore[arg-type]
    made.start()
    seen(log, lambda: len(log.of("sample")) >= 11)
    made.stop()
    whole = [node for node, _, path in lab.requests if path == views.STATE]
    assert sorted(whole) == sorted(NODES), "in the first turn, in which all are asked"
    assert {event["status"] for event in log.of("sample")} == {log.of("sample")[0]["status"]} and not log.of("note")


def test_at_work_a_leader_that_was_replaced_is_found_out_before_all_are_asked(
    running: tuple[FakeCluster, Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    """a-cm goes on to call itself the leader; c-cm follows b-cm, whose view is the newer one."""
    lab, log = running
    seen(log, lambda: len(log.of("sample")) >= 2)
    monkeypatch.setattr(module, "ALL_NODES_EVERY", 10**9)
    lab.cut_off("a-cm", "b-cm")
    seen(log, lambda: [event["leader"] for event in log.of("cluster.leader")][-1:] == ["b-cm"])


def test_the_default_routing_shards_are_those_of_opensearch() -> None:
    # MetadataCreateIndexServiceTests.testCalculateNumRoutingShards
    expected = {1: 1024, 2: 1024, 3: 768, 9: 576, 512: 1024, 1024: 2048, 2048: 4096}
    assert {shards: default_routing_shards(shards) for shards in expected} == expected
