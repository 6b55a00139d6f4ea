"""A cluster emptied and restored from its store: what is emptied, what is said of shards that do not come back."""

from __future__ import annotations

from typing import Any

import pytest
from fake_cluster import FakeCluster

from chaos.base.errors import LabError
from chaos.observe import restored
from chaos.opensearch import remote_store
from chaos.opensearch.remote_store import given_up, known

GREEN = {"state": "STARTED", "node": "n-a-data", "primary": True, "relocating_node": None}
FAILED = {
    **GREEN,
    "state": "UNASSIGNED",
    "node": None,
    "unassigned_info": {"reason": "ALLOCATION_FAILED", "failed_attempts": 5, "details": "NoSuchFileException: x"},
}
WAITING = {**FAILED, "unassigned_info": {"reason": "EXISTING_INDEX_RESTORED"}}


class Emptied(FakeCluster):
    """A cluster with a store, whose nodes come back red until its index is restored.

    ``primary``: of its one shard, once that was asked for; ``replica``: of it, if there is one. ``forgets``: the index
    is not known any more; ``lives``: whether the store's process does; ``dies``: a node that ends when it is started;
    ``hidden``: how often it says that its state is not recovered, and shows no index until then.
    """

    def __init__(self, topology: str = "3az-remote-state") -> None:
        super().__init__(topology)
        self.primary: dict[str, Any] = GREEN
        self.replica: dict[str, Any] | None = None
        self.forgets = self.refuses = False
        self.lives_on = True
        self.dies: str | None = None
        self.hidden = 0
        self.restoring: list[Any] = []

    def answer(self, node: str, method: str, path: str, body: Any) -> tuple[int, Any]:
        if path.startswith("/_remotestore/_restore"):
            self.restoring.append(body)
            return (500, {"error": "no"}) if self.refuses else (200, {"remote_store": {}})
        if path.startswith("/_cluster/state/blocks"):
            self.hidden -= 1
            return 200, {"blocks": {"global": {"1": {"retryable": True}}}} if self.hidden >= 0 else {}
        if path.startswith("/_cluster/state"):
            names = {f"n-{each.name}": {"name": each.name} for each in self.topology.nodes}
            shards = {"0": [self.primary if self.restoring else WAITING, *([self.replica] if self.replica else [])]}
            table = {} if self.forgets else {"chaos": {"shards": shards}}
            of = {"version": 9, "nodes": names, "cluster_manager_node": "n-a-cm"}
            return 200, {**of, "routing_table": {"indices": table}}
        if "/_settings" in path:
            return (404, {}) if self.forgets or self.hidden > 0 else (200, {"chaos": {}})
        return super().answer(node, method, path, body)

    def process_state(self, node: str) -> str | None:
        return None if node == self.dies or ("dead", node) in self.effects else "S"

    def last_error(self, node: str) -> str:
        return "no space left"

    def residents(self) -> list[Any]:
        return [type("Store", (), {"what": "service", "name": "store"})] if self.lives_on else []

    def lives(self, resident: Any) -> bool:
        return True


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restored, "GREEN_SECONDS", 0.1)
    monkeypatch.setattr(restored, "BACK_SECONDS", 0.3)
    monkeypatch.setattr(restored, "LOOK_SECONDS", 0.01)


def emptied(lab: FakeCluster) -> set[str]:
    return {name for call, name in (each[:2] for each in lab.calls if len(each) > 1) if call == "wipe"}


def test_every_node_is_killed_and_emptied_before_any_is_started() -> None:
    lab = Emptied()
    found = restored.restore(lab, ["chaos"])  # type: ignore[arg-type]
    assert found.reason is None and found.kept == [] and found.given_up == {}
    names = {node.name for node in lab.topology.nodes}
    assert set(found.emptied) == emptied(lab) == names
    calls = [call for call, *_ in lab.calls]
    assert calls == ["kill"] * 6 + ["wipe"] * 6 + ["start"] * 6
    assert lab.restoring == [{"indices": ["chaos"]}]
    assert None not in (found.empty_after_s, found.back_after_s, found.green_after_s)


def test_where_the_state_is_not_in_the_store_the_managers_keep_theirs() -> None:
    lab = Emptied("3az-remote-store")
    found = restored.restore(lab, ["chaos"])  # type: ignore[arg-type]
    assert found.reason is None
    assert set(found.emptied) == emptied(lab) == {"a-data", "b-data", "c-data"}
    assert set(found.kept) == {"a-cm", "b-cm", "c-cm"}
    assert len([call for call, *_ in lab.calls if call == "kill"]) == 6  # they die all the same


def test_a_shard_that_was_tried_in_vain_is_given_up_and_what_it_held_is_lost() -> None:
    lab = Emptied()
    lab.primary = FAILED
    found = restored.restore(lab, ["chaos"])  # type: ignore[arg-type]
    assert found.given_up == {"chaos": {0: "NoSuchFileException: x"}} and found.reason is None
    assert found.green_after_s is None
    read = {"unavailable_shards": [0], "unavailable_count": 40}
    assert restored.held_against(read, found, "chaos")["not_restored_count"] == 40
    assert restored.held_against({**read, "unavailable_shards": [0, 1]}, found, "chaos")["not_restored_count"] == 0
    assert restored.held_against(read, restored.Restored(), "chaos")["not_restored_count"] == 0


def test_a_cluster_whose_replicas_stay_away_is_not_called_green() -> None:
    """All documents are there to be read, so something can be said; but nothing was green."""
    lab = Emptied()
    lab.replica = {**WAITING, "primary": False}
    found = restored.restore(lab, ["chaos"])  # type: ignore[arg-type]
    assert found.reason is None and found.given_up == {} and found.missing == []
    assert found.back_after_s is not None and found.green_after_s is None


def test_a_shard_that_is_still_being_restored_is_not_known() -> None:
    lab = Emptied()
    lab.primary = {**GREEN, "state": "INITIALIZING"}
    found = restored.restore(lab, ["chaos"])  # type: ignore[arg-type]
    assert found.reason is not None and found.reason.startswith("shard chaos 0 and 0 more were not restored after")
    assert restored.not_read("chaos", found.reason, found)["complete"] is False


def test_a_cluster_that_has_not_taken_its_state_back_is_waited_for() -> None:
    """It shows no index yet, which is no loss."""
    lab = Emptied()
    lab.hidden = 2
    found = restored.restore(lab, ["chaos"])  # type: ignore[arg-type]
    assert found.missing == [] and found.reason is None and lab.restoring == [{"indices": ["chaos"]}]
    lab.hidden = 1000
    found = restored.restore(lab, ["chaos"])  # type: ignore[arg-type]
    assert found.reason is not None and "not one cluster with its state" in found.reason


def test_an_index_that_an_empty_cluster_does_not_know_is_lost() -> None:
    lab = Emptied()
    lab.forgets = True
    found = restored.restore(lab, ["chaos"])  # type: ignore[arg-type]
    assert found.missing == ["chaos"] and found.reason is None and lab.restoring == []
    assert restored.without({"acknowledged": 40, "complete": False}, found)["lost_count"] == 40


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"refuses": True}, "restoring chaos from the store answered 500"),
        ({"lives_on": False}, "service store is gone"),
        ({"dies": "b-data"}, "node b-data died when it was started empty: no space left"),
    ],
)
def test_what_keeps_a_cluster_from_coming_back_is_said_and_is_no_loss(change: dict[str, Any], reason: str) -> None:
    lab = Emptied()
    for name, value in change.items():
        setattr(lab, name, value)
    found = restored.restore(lab, ["chaos"])  # type: ignore[arg-type]
    assert found.reason is not None and reason in found.reason
    assert restored.not_read("chaos", found.reason, found)["complete"] is False


def test_a_shard_that_was_tried_less_often_is_not_given_up() -> None:
    lab = Emptied()
    lab.restoring = [{}]
    lab.primary = {**FAILED, "unassigned_info": {"reason": "ALLOCATION_FAILED", "failed_attempts": 4}}
    assert given_up(lab, ["chaos"]) == {} and known(lab, "chaos")  # type: ignore[arg-type]
    lab.refuses = True
    with pytest.raises(LabError, match="answered 500"):
        remote_store.restore(lab, ["chaos"])  # type: ignore[arg-type]
