"""Snapshots and restoring as steps of an experiment: what is asked of a cluster, what must hold, what is undone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster
from fakes import Log

from chaos.base.errors import InvalidInput
from chaos.definitions.actions import RemoteRestore, Restore, Snapshot
from chaos.faults import actions
from chaos.faults.actions import perform
from chaos.faults.ledger import Ledger, standing
from chaos.faults.moves import Move
from chaos.opensearch.requests import OWNER
from chaos.registry import load_experiment
from chaos.run import plan
from chaos.targets.services import Place

HEAD = """apiVersion: opensearch-chaos/v1
name: kept
topology: {topology}
load: {{documents: 10, read: {{rate: 20/s, good: ok within 1s}}}}
expect: [{{phase: all, read.good: ">= 99%"}}]
phases:
"""


class Keeping(FakeCluster):
    """Has documents, keeps snapshots. ``state``: of one that is taken; ``short``: documents that come back less;
    ``failed``: shards that a restore does not bring back."""

    def __init__(self) -> None:
        super().__init__("3az-remote-fs")
        self.documents = {"chaos": 500}
        self.state, self.short, self.failed = "SUCCESS", 0, 0
        self.bodies: dict[str, Any] = {}
        self.kept: dict[str, Any] = {}
        self.marks["chaos"] = {"uuid": "u", "meta": {OWNER: "run"}}

    def service(self, name: str) -> Place:
        return Place(name, "", Path("/lab/services") / name)

    def answer(self, node: str, method: str, path: str, body: Any) -> tuple[int, Any]:
        name = path.partition("?")[0]
        if name.endswith("/_refresh"):
            return 200, {"_shards": {"failed": 0}}
        if name.endswith("/_count"):
            return 200, {"count": self.documents[name.split("/")[1]]}
        if name == "/_remotestore/_restore":
            self.bodies[name] = body
            return 200, {}
        if not name.startswith("/_snapshot/"):
            return super().answer(node, method, path, body)
        self.bodies[f"{method} {name}"] = body
        parts = name.split("/")[2:]
        if method == "DELETE":
            return (200, {}) if self.kept.pop("/".join(parts), None) is not None else (404, {})
        if method == "GET":
            return 200, {"snapshots": [{"metadata": self.kept["/".join(parts)]}]}
        if parts[-1] == "_restore":
            copy = body["rename_replacement"]
            self.indices[copy], self.marks[copy] = {}, self.marks["chaos"]
            self.documents[copy] = self.kept["/".join(parts[:-1])]["oschaos_documents"] - self.short
            return 200, {"snapshot": {"shards": {"total": 3, "failed": self.failed}}}
        self.kept["/".join(parts)] = body.get("metadata") or body
        shards = {"failed": 0 if self.state == "SUCCESS" else 1}
        return 200, {"snapshot": {"state": self.state, "shards": shards, "failures": []}}


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Keeping:
    monkeypatch.setattr(actions, "BaseLab", Keeping)
    return Keeping()


def told(lab: Any, ledger: Ledger, action: Any) -> dict[str, Any]:
    log = Log()
    well = perform("a1", action, lab, ledger, log, "chaos")  # type: ignore[arg-type]
    (said,) = log.of("action.done")
    assert said["ok"] is well
    return said


def done(lab: Any, ledger: Ledger, action: Any) -> tuple[bool, str]:
    said = told(lab, ledger, action)
    return said["ok"], said["says"]


def undone(lab: Any, ledger: Ledger) -> None:
    for entry in reversed(ledger.standing()):
        assert entry.inverse is not None
        entry.inverse.apply(lab)


WHOLE = Snapshot.model_validate({"name": "before"})


def test_a_snapshot_is_taken_restored_beside_its_index_and_taken_away(lab: Keeping, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    well, says = done(lab, ledger, WHOLE)
    assert well and says.endswith("chaos showed 500 documents when it began")
    assert lab.bodies["PUT /_snapshot/chaos-before"] == {
        "type": "fs",
        "settings": {"location": "/lab/services/store/snapshots/chaos-before"},
    }
    taken = lab.bodies["PUT /_snapshot/chaos-before/before"]
    assert taken["indices"] == "chaos" and taken["partial"] is False and taken["include_global_state"] is False
    lab.documents["chaos"] = 700  # what was written later is not in it
    well, says = done(lab, ledger, Restore.model_validate({"name": "before"}))
    assert well and says.endswith("chaos-restored-before has 500 documents")
    body = lab.bodies["POST /_snapshot/chaos-before/before/_restore"]
    assert body["rename_pattern"] == "^chaos$" and body["include_aliases"] is False
    assert len(standing(tmp_path / "ledger.jsonl")) == 2
    undone(lab, ledger)
    assert lab.kept == {} and set(lab.indices) == {"chaos"}


def test_a_shallow_one_refers_to_the_segments_in_the_store(lab: Keeping, tmp_path: Path) -> None:
    action = Snapshot.model_validate({"name": "before", "shallow": True, "service": "store"})
    assert done(lab, Ledger(tmp_path / "ledger.jsonl"), action)[0]
    made = lab.bodies["PUT /_snapshot/chaos-before"]["settings"]
    assert made["remote_store_index_shallow_copy"] is True


def test_a_snapshot_that_lacks_a_shard_has_failed(lab: Keeping, tmp_path: Path) -> None:
    lab.state = "PARTIAL"
    said = told(lab, Ledger(tmp_path / "ledger.jsonl"), WHOLE)
    assert not said["ok"] and said["says"] == "the snapshot before of chaos is PARTIAL, 1 shards failed"
    assert not said.get("incomplete"), "it says itself that it is none to rely on"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"short": 3}, "chaos-restored-before has 497 of the 500 documents that chaos showed"),
        ({"failed": 1}, "1 of 3 shards of before were not restored"),
    ],
)
def test_what_comes_back_short_has_failed(lab: Keeping, tmp_path: Path, change: dict[str, int], says: str) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    done(lab, ledger, WHOLE)
    for name, value in change.items():
        setattr(lab, name, value)
    said = told(lab, ledger, Restore.model_validate({"name": "before"}))
    assert (said["ok"], said["says"], said["incomplete"]) == (False, says, True)
    undone(lab, ledger)
    assert set(lab.indices) == {"chaos"}


def test_an_index_of_that_name_is_left_as_it_is(lab: Keeping, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    done(lab, ledger, WHOLE)
    lab.indices["chaos-restored-before"] = {}
    lab.marks["chaos-restored-before"] = {"uuid": "v", "meta": {}}
    well, says = done(lab, ledger, Restore.model_validate({"name": "before"}))
    assert not well and "there is an index chaos-restored-before already" in says
    assert not any(path.endswith("_restore") for path in lab.bodies)


def test_a_cluster_without_a_service_of_ours_keeps_no_snapshot(tmp_path: Path) -> None:
    well, says = done(FakeCluster("3az"), Ledger(tmp_path / "ledger.jsonl"), WHOLE)
    assert not well and "no service of a lab" in says


def test_restoring_from_the_store_names_the_load_s_index_and_leaves_nothing_open(lab: Keeping, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    assert done(lab, ledger, RemoteRestore())[0]
    assert lab.bodies["/_remotestore/_restore"] == {"indices": ["chaos"]} and ledger.standing() == []


def test_what_is_not_there_any_more_is_taken_away_as_well(lab: Keeping) -> None:
    assert Move("snapshot.forget", {"repository": "chaos-before", "snapshot": "before"}).apply(lab) is False  # type: ignore[arg-type]
    assert Move("snapshot.drop", {"copy": "chaos-restored-before", "owner": "run"}).apply(lab) is False  # type: ignore[arg-type]


TAKE = "  a: {for: 5s, do: {snapshot: {name: before}}}\n"
BACK = "  b: {for: 5s, do: {restore: {name: before}}}\n"


@pytest.mark.parametrize(
    ("topology", "phases", "says"),
    [
        ("3az", TAKE, "topology 3az has no service that could keep a snapshot: expected services"),
        ("3az-remote-fs", TAKE + TAKE.replace("a:", "b:"), "a snapshot before was taken before: expected another name"),
        ("3az-remote-fs", BACK, "no snapshot before was taken here: expected snapshot before"),
        ("3az-remote-fs", TAKE + BACK + BACK.replace("b:", "c:"), "was restored before: expected it once"),
        ("3az-remote-fs", TAKE.replace("before}", "before, service: other}"), "has no service other"),
        (
            "3az",
            "  a: {for: 5s, do: {remote_restore: {}}}\n",
            "topology 3az has no remote store: expected",
        ),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, topology: str, phases: str, says: str) -> None:
    (tmp_path / "x.yaml").write_text(HEAD.format(topology=topology) + phases)
    with pytest.raises(InvalidInput, match=says):
        load_experiment(tmp_path / "x.yaml")


def test_a_plan_says_what_takes_each_back(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(HEAD.format(topology="3az-remote-fs") + TAKE + BACK)
    experiment = load_experiment(tmp_path / "x.yaml")
    said = [plan._inverse(action) for phase in experiment.phases for action in phase.do]
    assert said == [
        "the snapshot is deleted, and the repository that was made for it",
        "the index that was taken back is deleted",
    ]
    assert plan._inverse(RemoteRestore()) is None
