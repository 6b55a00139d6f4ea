"""What a node's answer says of the cluster, and waiting for green on a made-up clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import urllib3
from fake_cluster import FakeCluster
from fakes import FakeLab

from chaos.base.errors import LabError
from chaos.opensearch import views
from chaos.opensearch.views import NOBODY, ShardCopy, View, administer, await_green, elected, newest, parse, view

NODES = frozenset(node.name for node in FakeLab().topology.nodes)


def copy(state: str, primary: bool = True, node: str | None = "a-data") -> ShardCopy:
    return ShardCopy("chaos", 0, primary, state, node)


def seen(
    *copies: ShardCopy, by: str = "a-cm", leader: str | None = "a-cm", version: int = 1, nodes: Any = NODES
) -> View:
    return View(by, version, leader, frozenset(nodes), copies)


def test_parse_turns_ids_into_names() -> None:
    view = parse(
        "a-cm",
        {
            "version": 42,
            "cluster_manager_node": "id1",
            "nodes": {"id1": {"name": "a-cm"}, "id2": {"name": "a-data"}},
            "routing_table": {
                "indices": {
                    "chaos": {
                        "shards": {
                            "0": [
                                {"primary": True, "state": "RELOCATING", "node": "id2", "relocating_node": "id1"},
                                {"primary": False, "state": "UNASSIGNED", "node": None, "relocating_node": None},
                            ],
                            "1": [{"primary": True, "state": "STARTED", "node": "gone", "relocating_node": None}],
                        }
                    }
                }
            },
        },
    )
    assert (view.seen_by, view.version, view.leader, view.nodes) == ("a-cm", 42, "a-cm", {"a-cm", "a-data"})
    assert view.copies == (
        ShardCopy("chaos", 0, True, "RELOCATING", "a-data", "a-cm"),
        ShardCopy("chaos", 0, False, "UNASSIGNED", None, None),
        ShardCopy("chaos", 1, True, "STARTED", "gone", None),
    )


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"recovery_source": {"type": "EMPTY_STORE"}, "unassigned_info": {"reason": "INDEX_CREATED"}}, "yellow"),
        ({"recovery_source": {"type": "EXISTING_STORE"}, "unassigned_info": {"reason": "NODE_LEFT"}}, "red"),
        ({"recovery_source": {"type": "EMPTY_STORE"}, "unassigned_info": {"failed_attempts": 1}}, "red"),
        ({"recovery_source": {"type": "EMPTY_STORE"}, "unassigned_info": {"allocation_status": "deciders_no"}}, "red"),
        ({}, "red"),
    ],
)
def test_an_index_that_has_just_been_made_is_not_red(more: dict[str, Any], status: str) -> None:
    """As OpenSearch has it: nothing can be lost of what has never been there."""
    primary = {"primary": True, "state": "INITIALIZING", "node": None, "relocating_node": None, **more}
    table = {"indices": {"new": {"shards": {"0": [primary]}}}}
    assert parse("a-cm", {"version": 1, "routing_table": table}).status == status


def test_parse_of_a_node_without_a_cluster_manager() -> None:
    view = parse("c-cm", {"version": 7})
    assert (view.leader, view.nodes, view.copies) == (None, frozenset(), ())
    assert parse("c-cm", {"version": 7, "cluster_manager_node": "unknown"}).leader is None


@pytest.mark.parametrize(
    ("states", "status", "building"),
    [
        ([], "green", False),
        ([("STARTED", True), ("STARTED", False)], "green", False),
        ([("RELOCATING", True), ("STARTED", False)], "green", True),
        ([("STARTED", True), ("INITIALIZING", False)], "yellow", True),
        ([("STARTED", True), ("UNASSIGNED", False)], "yellow", False),
        ([("INITIALIZING", True), ("STARTED", False)], "red", True),
        ([("UNASSIGNED", True)], "red", False),
    ],
)
def test_status_as_opensearch_computes_it(states: list[tuple[str, bool]], status: str, building: bool) -> None:
    view = seen(*(copy(*each) for each in states))
    assert (view.status, view.building) == (status, building)


def test_the_view_to_believe_has_a_leader_and_the_highest_version() -> None:
    old, new = seen(by="b-cm", version=3), seen(by="c-cm", version=5)
    headless = seen(by="a-cm", version=9, leader=None)
    assert newest([old, new, headless]) is new
    assert newest([headless]) is None and newest([]) is None


def test_elected_is_the_word_of_most(monkeypatch: pytest.MonkeyPatch) -> None:
    def say(*words: str | None) -> str | None:
        lab = FakeLab()
        managers = [node.name for node in lab.topology.nodes if node.is_cluster_manager]
        said = dict(zip(managers, words, strict=True))
        monkeypatch.setattr(views, "_leader_seen_by", lambda _, name: said[name])
        return elected(lab)  # type: ignore[arg-type]

    assert say("a-cm", "b-cm", "b-cm") == "b-cm"
    assert say(NOBODY, NOBODY, "a-cm") is None
    assert say(None, None, "a-cm") == "a-cm"  # those that do not answer have no vote
    assert say(None, None, None) is None


@pytest.mark.parametrize(
    ("believed", "words"),
    [
        (seen(copy("STARTED")), "it has just become so"),
        (seen(leader=None), "no node that answers sees a cluster manager"),
        (seen(nodes=NODES - {"b-cm", "c-data"}), "not in the cluster: b-cm and c-data"),
        (
            seen(copy("RELOCATING"), copy("INITIALIZING", False)),
            "1 copy of 2 does not stand: chaos[0] INITIALIZING on a-data",
        ),
        (
            seen(*(copy("UNASSIGNED", False, None) for _ in range(5)), nodes=NODES - {"c-data"}),
            "not in the cluster: c-data; 5 copies of 5 do not stand: chaos[0] UNASSIGNED on no node, "
            "chaos[0] UNASSIGNED on no node, chaos[0] UNASSIGNED on no node and 2 more",
        ),
    ],
    ids=["green", "no leader", "nodes", "one copy", "many"],
)
def test_why_it_is_not_green_in_words(monkeypatch: pytest.MonkeyPatch, believed: View, words: str) -> None:
    monkeypatch.setattr(views, "views", lambda _: [believed])
    assert views.lacking(FakeLab()) == words  # type: ignore[arg-type]


# ---- waiting -----------------------------------------------------------------------------------------------


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[bool, float]]:
    """``await_green`` with ``at(seconds)`` telling the view of each moment, on a clock that only sleeping moves."""

    def run(at: Callable[[float], View | None], seconds: float, **options: Any) -> tuple[bool, float]:
        clock = [1000.0]

        class Time:
            monotonic = staticmethod(lambda: clock[0])

            @staticmethod
            def sleep(seconds: float) -> None:
                clock[0] += seconds

        def one(lab: Any, node: str, timeout: float = 2.0) -> View | None:
            view = at(clock[0] - 1000.0)
            return view if view is not None and node == view.seen_by else None

        monkeypatch.setattr(views, "time", Time)
        monkeypatch.setattr(views, "view", one)
        return await_green(FakeLab(), seconds, **options)  # type: ignore[arg-type]

    return run


GREEN, YELLOW, RED = seen(copy("STARTED")), seen(copy("STARTED"), copy("UNASSIGNED", False)), seen(copy("UNASSIGNED"))


def test_green_at_once(wait: Callable[..., tuple[bool, float]]) -> None:
    assert wait(lambda t: GREEN, 10) == (True, 0.0)


def test_the_seconds_are_those_until_green_began_not_until_it_was_stable(
    wait: Callable[..., tuple[bool, float]],
) -> None:
    assert wait(lambda t: GREEN if t >= 5 else YELLOW, 60, stable=20) == (True, 5.0)


def test_a_lapse_starts_the_stable_time_anew(wait: Callable[..., tuple[bool, float]]) -> None:
    assert wait(lambda t: YELLOW if 3 <= t < 4 else GREEN, 60, stable=5) == (True, 4.0)


@pytest.mark.parametrize(
    "never",
    [YELLOW, None, seen(copy("STARTED"), leader=None), seen(copy("STARTED"), nodes=NODES - {"c-data"})],
    ids=["yellow", "no view", "no leader", "a node is missing"],
)
def test_what_is_not_green_with_all_nodes_is_not_green(
    wait: Callable[..., tuple[bool, float]], never: View | None
) -> None:
    green, seconds = wait(lambda t: never, 10)
    assert green is False and 10 < seconds <= 10.25


def test_green_too_late_to_be_stable_is_not_reached(wait: Callable[..., tuple[bool, float]]) -> None:
    assert wait(lambda t: GREEN if t >= 8 else YELLOW, 10, stable=5)[0] is False


def test_green_that_does_not_count_yet_is_waited_out(wait: Callable[..., tuple[bool, float]]) -> None:
    """What is stable by then need not be so once more."""
    looks = iter(range(1000))
    assert wait(lambda t: GREEN, 60, stable=5, counts=lambda seen: next(looks) >= 40) == (True, 0.0)
    assert next(looks) == 41
    assert wait(lambda t: GREEN, 10, counts=lambda seen: False)[0] is False


def test_a_view_that_is_older_than_one_before_does_not_count(wait: Callable[..., tuple[bool, float]]) -> None:
    """The leader applies a state last: it showed the nodes that had left for up to 30 s."""
    new = replace(seen(copy("STARTED"), copy("UNASSIGNED", False)), version=GREEN.version + 1)
    assert wait(lambda t: new if t < 1 else GREEN, 10, stable=0.5)[0] is False
    back = replace(GREEN, version=GREEN.version + 2)
    assert wait(lambda t: new if t < 1 else GREEN if t < 3 else back, 10, stable=0.5) == (True, 3.0)


def test_a_leader_that_changes_is_followed(wait: Callable[..., tuple[bool, float]]) -> None:
    after = seen(copy("STARTED"), by="b-cm", leader="b-cm")
    assert wait(lambda t: YELLOW if t < 3 else after, 60, stable=2) == (True, 3.0)


def test_red_with_nothing_under_way_is_hopeless(wait: Callable[..., tuple[bool, float]]) -> None:
    assert wait(lambda t: RED, 240, hopeless=20) == (False, 20.0)


def test_red_is_not_hopeless_while_a_copy_is_built_or_a_node_is_missing(
    wait: Callable[..., tuple[bool, float]],
) -> None:
    building = seen(copy("INITIALIZING"))
    missing = seen(copy("UNASSIGNED"), nodes=NODES - {"c-data"})
    for hopeful in (building, missing):
        assert wait(lambda t, hopeful=hopeful: GREEN if t >= 100 else hopeful, 240, hopeless=20) == (True, 100.0)


def test_asked_to_stop(wait: Callable[..., tuple[bool, float]]) -> None:
    assert wait(lambda t: YELLOW, 240, stopped=lambda: True) == (False, 0.0)


# ---- administration ----------------------------------------------------------------------------------------


class Nodes(FakeLab):
    """Each node takes a request, or raises."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__()
        self.answers, self.asked = answers, []

    def client(self, node: str, *, timeout: float = 5.0) -> Any:
        lab = self

        class Client:
            def request(self, method: str, path: str, *, body: Any = None) -> Any:
                lab.asked.append(node)
                answer = lab.answers.get(node, urllib3.exceptions.NewConnectionError(None, "refused"))  # type: ignore[arg-type]
                if isinstance(answer, Exception):
                    raise answer
                return answer

            def close(self) -> None:
                pass

        return Client()


def test_a_request_goes_to_the_leader_else_to_whoever_takes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "elected", lambda lab: "b-cm")
    lab = Nodes({"b-cm": (200, "led"), "a-cm": (200, "other")})
    assert administer(lab, "GET", "/") == (200, "led") and lab.asked == ["b-cm"]  # type: ignore[arg-type]
    lab = Nodes({"a-cm": (200, "other")})
    assert administer(lab, "GET", "/") == (200, "other") and lab.asked == ["b-cm", "a-cm"]  # type: ignore[arg-type]


def test_a_request_that_may_have_been_carried_out_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "elected", lambda lab: None)
    lab = Nodes({"a-cm": urllib3.exceptions.ReadTimeoutError(None, "/", "late"), "b-cm": (200, "")})  # type: ignore[arg-type]
    with pytest.raises(LabError, match="on a-cm"):
        administer(lab, "PUT", "/")  # type: ignore[arg-type]
    assert lab.asked == ["a-cm"]


def test_no_node_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "elected", lambda lab: None)
    with pytest.raises(LabError, match="refused"):
        administer(Nodes({}), "GET", "/")  # type: ignore[arg-type]


def test_an_administrative_request_that_is_rejected_is_asked_again(monkeypatch) -> None:
    """Seen: the index of a heap fault could not be deleted while the heap that it had filled was not collected yet."""
    from types import SimpleNamespace

    answers = [(429, "too large"), (429, "too large"), (200, "done"), (429, "never used")]
    client = SimpleNamespace(request=lambda *_, **__: answers.pop(0), close=lambda: None)
    lab = SimpleNamespace(topology=SimpleNamespace(nodes=()), client=lambda name, timeout: client)
    assert views.administer(lab, "DELETE", "/x", through="a") == (200, "done")
    monkeypatch.setattr(views, "REJECTED_SECONDS", 0.0)
    assert views.administer(lab, "DELETE", "/x", through="a") == (429, "never used")


class Changing(FakeCluster):
    """Gives each state a name, as OpenSearch does, and only what was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.version, self.uuid_of_state, self.blocked = 7, "first", False
        self.indices = {"chaos": {}}

    def answer(self, node: str, method: str, path: str, given: Any) -> tuple[int, Any]:
        status, state = super().answer(node, method, path, given)
        if not path.startswith("/_cluster/state/cluster_manager_node"):
            return status, state
        state = state | {"version": self.version, "state_uuid": self.uuid_of_state, "cluster_uuid": self.uuid}
        if self.blocked:
            block = {"2": {"description": "no cluster-manager", "levels": ["write"]}}
            state |= {"blocks": {"global": block}, "cluster_manager_node": None}
        if ",routing_table," not in path:
            del state["routing_table"]
        return status, state

    def asked(self) -> list[str]:
        """What was asked for since the last time."""
        found = ["all" if path == views.STATE else "without" for _, _, path in self.requests]
        self.requests.clear()
        return found


def test_shards_are_asked_for_only_where_the_state_is_another_one() -> None:
    lab = Changing()
    first = view(lab, "a-cm")  # type: ignore[arg-type]
    assert first is not None and first.copies and lab.asked() == ["all"]
    again = view(lab, "a-cm", last=first)  # type: ignore[arg-type]
    assert again == first and lab.asked() == ["without"]
    assert first.cluster == lab.uuid and all("cluster_uuid" in path for path in (views.STATE, views.WITHOUT_SHARDS))
    lab.version, lab.uuid_of_state, lab.indices = 8, "second", {"chaos": {}, "other": {}}
    newer = view(lab, "a-cm", last=again)  # type: ignore[arg-type]
    assert newer is not None and lab.asked() == ["without", "all"]
    assert {copy.index for copy in newer.copies} == {"chaos", "other"} and newer.version == 8


def test_a_state_of_the_same_version_and_another_name_is_another_one() -> None:
    """Two leaders may each have made one."""
    lab = Changing()
    first = view(lab, "a-cm")  # type: ignore[arg-type]
    lab.uuid_of_state = "of another leader"
    lab.asked()
    view(lab, "a-cm", last=first)  # type: ignore[arg-type]
    assert lab.asked() == ["without", "all"]


def test_who_is_elected_and_what_is_blocked_is_asked_also_where_the_state_is_the_same() -> None:
    lab = Changing()
    first = view(lab, "a-cm")  # type: ignore[arg-type]
    lab.blocked = True
    seen = view(lab, "a-cm", last=first)  # type: ignore[arg-type]
    assert first is not None and seen is not None
    assert seen.leader is None and [block.says for block in seen.blocks] == ["no cluster-manager"]
    assert seen.copies == first.copies and lab.asked() == ["all", "without"]


@pytest.mark.parametrize("name", ["_na_", "", None, 7])
def test_a_state_without_a_name_is_asked_for_in_full(name: Any) -> None:
    lab = Changing()
    lab.uuid_of_state = name
    first = view(lab, "a-cm")  # type: ignore[arg-type]
    view(lab, "a-cm", last=first)  # type: ignore[arg-type]
    assert lab.asked() == ["all", "all"]
