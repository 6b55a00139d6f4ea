"""What an elected manager hides that has not read its state yet is not taken for what is not there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster
from fakes import Log

from chaos.base.errors import LabError
from chaos.faults.ledger import Ledger
from chaos.observe.configuration import Configuration
from chaos.opensearch import administration
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
    made.weights, made.decommissioned = {"a": "1.0"}, {"c": "SUCCESSFUL"}
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
}


@pytest.mark.parametrize("what", UNDONE)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_an_undo_is_done_whenever_a_new_manager_is_elected(cluster: FakeCluster, what: str, window: range) -> None:
    undo, done = UNDONE[what]
    cluster.forgetful = window
    try:
        undo(cluster)
    except LabError:  # a change itself came to such a manager: said, and never taken for done
        assert what in ("decommission", "weights")
        undo(cluster)
    assert done(cluster)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_nobody_is_named_for_what_a_new_manager_hides(cluster: FakeCluster, tmp_path: Path, window: range) -> None:
    told: list[str] = []
    lab: Any = cluster
    watch = Configuration(lab, Log(), "chaos", Ledger(tmp_path / "ledger.jsonl").path, told.append)  # type: ignore[arg-type]
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
    watch = Configuration(lab, Log(), "chaos", Ledger(tmp_path / "ledger.jsonl").path, told.append)  # type: ignore[arg-type]
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
