"""What an elected manager hides that has not read its state yet is not taken for what is not there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster
from fakes import Log

from chaos.base.errors import LabError
from chaos.faults.ledger import Ledger, moves
from chaos.instruments import controllers
from chaos.instruments.settings import Configuration
from chaos.opensearch import administration
from chaos.opensearch.cluster import Zoning
from chaos.opensearch.foreign import CANARY
from chaos.opensearch.requests import weights_path
from chaos.providers.rest import restore

WINDOWS = [range(begin, begin + length) for begin in range(7) for length in (1, 2, 5)]
"""Which of the next answers come from a manager that hides its state: before, amid and after what is asked."""
ENABLE = "cluster.routing.allocation.enable"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(administration.time, "sleep", lambda _: None)


@pytest.fixture
def cluster() -> FakeCluster:
    made: Any = FakeCluster("3az-standby")
    made.persistent = {ENABLE: "none"}
    made.weights, made.decommissioned, made.votes = {"a": "1.0"}, {"c": "SUCCESSFUL"}, ["a-cm"]
    return made


UNDONE: dict[str, tuple[Callable[[Any], Any], Callable[[FakeCluster], bool]]] = {
    "index": (lambda lab: administration.delete_index(lab, "chaos"), lambda lab: lab.indices == {}),
    "decommission": (lambda lab: administration.recommission(lab, "c"), lambda lab: lab.decommissioned == {}),
    "settings": (
        lambda lab: restore(lab, None, {ENABLE: "none"}, {ENABLE: None}),
        lambda lab: lab.persistent == {},
    ),
    "weights": (
        lambda lab: administration.set_weights(lab, None),
        lambda lab: any(method == "DELETE" and path == weights_path() for _, method, path in lab.requests),
    ),
    "votes": (lambda lab: administration.include_votes(lab, ["a-cm"]), lambda lab: lab.votes == []),
}


@pytest.mark.parametrize("what", UNDONE)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_an_undo_is_done_whenever_a_new_manager_is_elected(cluster: FakeCluster, what: str, window: range) -> None:
    undo, done = UNDONE[what]
    cluster.forgetful = window
    try:
        undo(cluster)
    except LabError:  # a change itself came to such a manager: said, and never taken for done
        assert what in ("decommission", "weights", "votes")
        undo(cluster)
    assert done(cluster)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_nobody_is_named_for_what_a_new_manager_hides(cluster: FakeCluster, tmp_path: Path, window: range) -> None:
    told: list[str] = []
    lab: Any = cluster
    watch = Configuration(lab, Log(), "chaos", partial(moves, Ledger(tmp_path / "ledger.jsonl").path), told.append)  # type: ignore[arg-type]
    assert watch.look()
    cluster.forgetful = window
    for _ in range(4):
        watch.look()
    assert told == []
    cluster.persistent = {ENABLE: "primaries"}
    assert watch.look() and told == [f"somebody else changed the cluster's setting {ENABLE} from none to primaries"]


def test_a_watch_that_begins_under_a_new_manager_learns_how_things_are(cluster: FakeCluster, tmp_path: Path) -> None:
    told: list[str] = []
    lab: Any = cluster
    watch = Configuration(lab, Log(), "chaos", partial(moves, Ledger(tmp_path / "ledger.jsonl").path), told.append)  # type: ignore[arg-type]
    cluster.forgetful = range(0, 3)
    assert watch.look() and watch.look() and told == []


def test_what_is_not_there_is_found_to_be_so(cluster: FakeCluster) -> None:
    lab: Any = cluster
    cluster.indices, cluster.decommissioned = {}, {}
    administration.delete_index(lab, "chaos")
    administration.recommission(lab, "c")
    assert [path for _, method, path in cluster.requests if method == "DELETE"] == ["/chaos", "/chaos"]


def test_a_manager_that_never_reads_its_state_is_an_error(cluster: FakeCluster) -> None:
    lab: Any = cluster
    cluster.forgetful = range(0, 10**6)
    with pytest.raises(LabError, match=r"had its state within 0\.05 s"):
        administration.certain(lab, lambda: administration.weights(lab), timeout=0.05)


@pytest.mark.parametrize(
    ("now", "put"),
    [
        ({"a": "1.0", "b": "1.0"}, None),  # as they were
        ({"a": "0.0", "b": "1.0"}, {"a": "1", "b": "1"}),  # as we made them
    ],
)
def test_weights_are_put_back_where_they_are_still_ours(now: dict[str, str], put: dict[str, str] | None) -> None:
    lab: Any = FakeCluster()
    lab.weights = now
    sent: list[Any] = []
    answer = lab.answer
    lab.answer = lambda node, method, path, body: (
        (sent.append(body) if method == "PUT" else None) or answer(node, method, path, body)
    )
    administration.restore_weights(lab, {"a": 0, "b": 1}, {"a": 1, "b": 1})
    assert [each["weights"] for each in sent] == ([] if put is None else [put])


def test_what_somebody_else_has_done_to_zones_since_is_left() -> None:
    lab: Any = FakeCluster()
    lab.weights = {"a": "5.0", "b": "1.0"}
    with pytest.raises(LabError, match="somebody else has changed the weights since"):
        administration.restore_weights(lab, {"a": 0, "b": 1}, {"a": 1, "b": 1})
    lab.decommissioned = {"b": "SUCCESSFUL"}
    with pytest.raises(LabError, match="zone b is decommissioned, and not c"):
        administration.recommission(lab, "c")
    assert lab.decommissioned == {"b": "SUCCESSFUL"}
    administration.recommission(lab, "that a controller took out")
    assert lab.decommissioned == {}


CANARIES = [f"{CANARY}-{number}" for number in range(3)]
MADE = controllers.rotations("abc")
TAKEN = [["a-cm", "b-cm"], ["a-cm", "c-cm"], ["b-cm", "c-cm"]]
BEFORE = {"a": 1, "b": 1, "c": 0}


class Steered(FakeCluster):
    """A cluster whose zones failover controllers steer. ``late``: weights that they asked for before they ended, which
    come into effect once the manager has done all that waits for it."""

    def __init__(self, weights: dict[str, int]) -> None:
        super().__init__("3az-standby")
        self.weights, self.late = {zone: f"{n}.0" for zone, n in weights.items()}, dict[str, int]()
        self.indices |= {name: {} for name in CANARIES}

    def answer(self, node: str, method: str, path: str, body: Any) -> tuple[int, Any]:
        if path.startswith("/_cluster/health?wait_for_events=languid"):
            self.weights, self.late = {zone: f"{n}.0" for zone, n in self.late.items()} or self.weights, {}
            return 200, {"timed_out": False}
        if method == "PUT" and path == weights_path():
            self.requests.append((node, method, path))
            self.weights = {zone: f"{float(n):.1f}" for zone, n in body["weights"].items()}
            return 200, {}
        if method == "DELETE" and path.startswith("/_cluster/voting_config_exclusions"):
            self.requests.append((node, method, path))
            self.votes = []
            return 200, {}
        return super().answer(node, method, path, body)


def restored(lab: Steered, votes: Any = ()) -> dict[str, int] | None:
    try:
        administration.restore_failover(lab, BEFORE, MADE, CANARIES, votes)  # type: ignore[arg-type]
    finally:
        assert not set(CANARIES) & set(lab.indices)
    return administration.weights(lab)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("now", [BEFORE, *MADE])
@pytest.mark.parametrize("late", [{}, MADE[0]])
@pytest.mark.parametrize("out", [{}, {"b": "SUCCESSFUL"}, {"a": "IN_PROGRESS"}])
def test_what_controllers_did_is_put_back_and_what_they_asked_for_at_last(
    now: dict[str, int], late: dict[str, int], out: dict[str, str]
) -> None:
    lab = Steered(now)
    lab.late, lab.decommissioned = late, dict(out)
    assert restored(lab) == BEFORE and lab.decommissioned == {}
    changes = [path for _, method, path in lab.requests if method == "PUT"]
    assert len(changes) == ((late or now) != BEFORE)


def test_weights_that_controllers_never_set_are_left_and_named() -> None:
    lab = Steered({"a": 3, "b": 2, "c": 0})
    with pytest.raises(LabError, match=r"somebody else has changed the weights since: they are \{'a': 3"):
        restored(lab)
    assert administration.weights(lab)[0] == {"a": 3, "b": 2, "c": 0}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("excluded", "votes", "left"),
    [
        (["c-cm", "a-cm"], TAKEN, []),
        (["a-cm"], TAKEN, ["a-cm"]),
        (["a-cm", "b-cm"], [], ["a-cm", "b-cm"]),
    ],
)
def test_votes_are_given_back_where_controllers_may_have_taken_them(
    excluded: list[str], votes: list[list[str]], left: list[str]
) -> None:
    lab = Steered(BEFORE)
    lab.votes = list(excluded)
    if left and votes:
        with pytest.raises(LabError, match="somebody else took them: votes of a-cm"):
            restored(lab, votes)
    else:
        restored(lab, votes)
    assert lab.votes == left


def test_who_goes_on_changing_weights_is_an_error_and_not_waited_for() -> None:
    class Restless(Steered):
        def answer(self, node: str, method: str, path: str, body: Any) -> tuple[int, Any]:
            if path.startswith("/_cluster/health?wait_for_events"):
                self.late = MADE[1]
            return super().answer(node, method, path, body)

    with pytest.raises(LabError, match="go on being changed"):
        restored(Restless(BEFORE))


def test_zones_are_called_there_as_the_cluster_calls_them() -> None:
    lab: Any = FakeCluster()
    lab.zoning = Zoning("rack", {"a": "r1", "b": "r2", "c": "r3"})
    asked: list[tuple[str, str, Any]] = []

    def answer(node: str, method: str, path: str, body: Any) -> tuple[int, Any]:
        asked.append((method, path.partition("?")[0], body))
        if path == "/_cluster/routing/awareness/rack/weights":
            return 200, {"weights": {"r1": "1.0", "r2": "1.0", "r3": "0.0"}, "_version": 3}
        if path == "/_cluster/decommission/awareness/rack/_status":
            return 200, {"r3": "SUCCESSFUL"} if any(method == "PUT" for method, _, _ in asked) else {}
        return FakeCluster.answer(lab, node, method, path, body)

    lab.answer = answer
    assert administration.weights(lab) == ({"a": 1, "b": 1, "c": 0}, 3)
    administration.decommission(lab, "c", no_delay=True)
    assert administration.decommission_status(lab) == {"c": "SUCCESSFUL"}
    administration.set_weights(lab, {"a": 1, "b": 0, "c": 1})
    changed = [(path, body) for method, path, body in asked if method == "PUT"]
    assert changed == [
        ("/_cluster/decommission/awareness/rack/r3", None),
        ("/_cluster/routing/awareness/rack/weights", {"weights": {"r1": "1", "r2": "0", "r3": "1"}, "_version": 3}),
    ]


DETAILS = (
    "failed shard on node [n1]: failed to create shard, failure IOException[failed to obtain in-memory shard lock]; "
    "nested: ShardLockObtainFailedException[[chaos][0]: obtaining shard lock for [starting shard] timed out after "
    "[5000ms], lock already held for [closing shard]]; "
)


def _copy(shard: str, reason: str | None, **more: Any) -> dict[str, Any]:
    state = "STARTED" if reason is None else "UNASSIGNED"
    told = {"index": "chaos", "shard": shard, "prirep": "r", "state": state, "unassigned.reason": reason}
    return {**told, "unassigned.details": None, **more}


def test_copies_without_a_node_are_told_with_why_those_that_failed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words are those of a node of 3.8.0 that had been paused (experiments/replication/segrep-primary-paused)."""
    failed = {"unassigned.details": DETAILS}
    every = [
        _copy("2", None),
        _copy("1", "NODE_LEFT"),
        _copy("10", "ALLOCATION_FAILED", **failed),
        _copy("9", "ALLOCATION_FAILED", prirep="p", **failed),
    ]
    monkeypatch.setattr(administration, "administer", lambda *_, **__: (200, every))
    first, second, third = administration.unplaced(FakeCluster("3az"))  # type: ignore[arg-type]
    assert first.startswith("primary of chaos 9: its last attempt to start failed (ShardLockObtainFailedException[")
    assert first.endswith("lock already held for [closing shard]])") and second.startswith("replica of chaos 10: ")
    assert third == "replica of chaos 1: NODE_LEFT"
    for wrong in ({"error": "no"}, [{"index": "x"}]):
        monkeypatch.setattr(administration, "administer", lambda *_, wrong=wrong, **__: (200, wrong))
        with pytest.raises(LabError):
            administration.unplaced(FakeCluster("3az"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("transient", "persistent", "default", "holds"),
    [("3s", "2s", "1s", "3s"), (None, "2s", "1s", "2s"), (None, None, "1s", "1s"), (None, None, None, None)],
)
def test_a_transient_setting_outweighs_a_persistent_one_and_that_the_default(
    monkeypatch: pytest.MonkeyPatch,
    transient: str | None,
    persistent: str | None,
    default: str | None,
    holds: str | None,
) -> None:
    layers = {"transient": transient, "persistent": persistent, "defaults": default}
    answer = {layer: {} if value is None else {"a.b": value} for layer, value in layers.items()}
    asked: list[tuple[str, str, str]] = []

    def administer(_: Any, method: str, path: str, *, timeout: float, through: str) -> tuple[int, Any]:
        asked.append((method, path, through))
        return 200, answer

    monkeypatch.setattr(administration, "administer", administer)
    of: Any = None
    assert administration.setting_in_force(of, "a.b", through="a-data") == holds
    assert asked == [("GET", "/_cluster/settings?flat_settings=true&include_defaults=true", "a-data")]


def test_settings_of_the_cluster_that_cannot_be_read_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    of: Any = None
    for answer in ((503, "no manager"), (200, {"persistent": {}})):
        monkeypatch.setattr(administration, "administer", lambda *_, answer=answer, **__: answer)
        with pytest.raises(LabError):
            administration.setting_in_force(of, "a.b")
