"""What a run makes is known as its own by what it was given when it was made; what has its name alone is left alone."""

from __future__ import annotations

from typing import Any

import pytest
from fake_cluster import FakeCluster

from chaos.base.errors import FaultError, NotOurs
from chaos.faults.ledger import Ledger
from chaos.faults.lifecycle import undo_entries
from chaos.faults.moves import Move, Reversible
from chaos.opensearch.administration import create_index, delete_index, known_by, new_owner, restore_failover
from chaos.programs.failover.cluster import canary_settings
from chaos.providers.rest import delete_indices

NAME = "oschaos-c0de-load"
THEIRS: dict[str, Any] = {"settings": {"index": {"number_of_shards": 1}}}


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def made(owner: str) -> Reversible:
    return Reversible(
        Move("index.create", {"index": NAME, "settings": {}, "owner": owner}),
        Move("index.delete", {"index": NAME, "owner": owner}),
    )


def test_an_index_of_theirs_with_our_name_stops_the_run_and_stays(cluster: FakeCluster, tmp_path: Any) -> None:
    """As found: "already exists" counted as created, and the inverse deleted their five documents, "clean"."""
    cluster.put_index(NAME, THEIRS)
    before = known_by(cluster, NAME)  # type: ignore[arg-type]
    ledger = Ledger(tmp_path / "ledger.jsonl")
    (entry,) = ledger.intend("index", [made(new_owner())])
    with pytest.raises(FaultError, match=rf"there is an index {NAME} already \(uuid .*this run did not make it"):
        entry.move.apply(cluster)  # type: ignore[arg-type]
    (failure,) = undo_entries(cluster, ledger, [entry])  # type: ignore[arg-type]
    assert f"the index {NAME} (uuid " in failure and "it is left as it is" in failure
    assert known_by(cluster, NAME) == before  # type: ignore[arg-type]
    assert ledger.standing() == []  # named once, and nothing of ours that a later recover could undo


def test_what_was_asked_twice_is_made_once(cluster: FakeCluster) -> None:
    mine = made(new_owner())
    mine.move.apply(cluster)  # type: ignore[arg-type]
    mine.move.apply(cluster)  # type: ignore[arg-type]
    assert mine.inverse is not None
    assert mine.inverse.apply(cluster) is True and NAME not in cluster.indices  # type: ignore[arg-type]
    assert mine.inverse.apply(cluster) is False  # type: ignore[arg-type]


def test_an_index_that_took_the_name_of_ours_meanwhile_stays(cluster: FakeCluster) -> None:
    """An attack of ours: an operator deletes the run's index in mid-run, and another program makes one of that name."""
    mine = made(new_owner())
    mine.move.apply(cluster)  # type: ignore[arg-type]
    cluster.answer("a-cm", "DELETE", f"/{NAME}", None)
    cluster.put_index(NAME, THEIRS)
    assert mine.inverse is not None
    with pytest.raises(NotOurs, match="not the one that this run made"):
        mine.inverse.apply(cluster)  # type: ignore[arg-type]
    assert NAME in cluster.indices


def test_the_index_of_another_run_is_not_ours(cluster: FakeCluster) -> None:
    create_index(cluster, NAME, {}, owner=new_owner())  # type: ignore[arg-type]
    with pytest.raises(NotOurs):
        delete_index(cluster, NAME, new_owner())  # type: ignore[arg-type]
    assert NAME in cluster.indices


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ({}, f"/{NAME}"),
        ({"write.wait_for_active_shards": "2"}, f"/{NAME}"),
        ({"write.wait_for_active_shards": "0"}, f"/{NAME}?wait_for_active_shards=0"),
        ({"index.write.wait_for_active_shards": 0}, f"/{NAME}?wait_for_active_shards=0"),
    ],
)
def test_an_index_whose_writes_wait_for_no_copy_is_not_awaited(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], asked: str
) -> None:
    paths: list[str] = []
    plain = cluster.answer

    def answer(node: str, method: str, path: str, body: Any) -> tuple[int, Any]:
        if method == "PUT":
            paths.append(path)
        return plain(node, method, path, body)

    monkeypatch.setattr(cluster, "answer", answer)
    create_index(cluster, NAME, settings, owner=new_owner())  # type: ignore[arg-type]
    assert paths == [asked] and NAME in cluster.indices


def test_an_alias_of_theirs_is_not_joined(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attack of ours: the name by which the load writes leads to an index of theirs already."""
    cluster.put_index("orders", THEIRS)
    plain = cluster.answer

    def answer(node: str, method: str, path: str, body: Any) -> tuple[int, Any]:
        return plain(node, method, path.replace(f"metadata/{NAME}-writes", "metadata/orders"), body)

    monkeypatch.setattr(cluster, "answer", answer)
    with pytest.raises(FaultError, match=f"{NAME}-writes is the name of orders already"):
        create_index(cluster, NAME, {}, alias=f"{NAME}-writes", owner=new_owner())  # type: ignore[arg-type]
    assert NAME not in cluster.indices and "orders" in cluster.indices


def test_a_ledger_of_before_names_no_owner_and_undoes_by_name(cluster: FakeCluster) -> None:
    create_index(cluster, NAME, {})  # type: ignore[arg-type]
    assert Move("index.delete", {"index": NAME}).apply(cluster) is True  # type: ignore[arg-type]
    assert NAME not in cluster.indices


def test_a_storm_takes_its_own_indices_away(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.providers.rest.QUIET_SECONDS", 0.0)
    owner = new_owner()
    create_index(cluster, "oschaos-storm-f1-0", {}, owner=owner)  # type: ignore[arg-type]
    cluster.put_index("oschaos-storm-f1-archive", THEIRS)
    with pytest.raises(NotOurs, match="oschaos-storm-f1-archive was not made by this run"):
        delete_indices(cluster, "oschaos-storm-f1-", owner)  # type: ignore[arg-type]
    assert {name for name in cluster.indices if "storm" in name} == {"oschaos-storm-f1-archive"}


def test_canaries_of_controllers_of_theirs_stay(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.opensearch.administration.IN_FLIGHT_SECONDS", 0.0)
    owner = new_owner()
    cluster.put_index(".failover-canary-0", canary_settings(".failover-canary-0", "zone", ("a", "b"), owner))
    cluster.put_index(".failover-canary-1", canary_settings(".failover-canary-1", "zone", ("b", "c")))
    names = [".failover-canary-0", ".failover-canary-1"]
    with pytest.raises(NotOurs, match=r"\.failover-canary-1"):
        restore_failover(cluster, None, [], names, [], owner)  # type: ignore[arg-type]
    assert ".failover-canary-0" not in cluster.indices and ".failover-canary-1" in cluster.indices
