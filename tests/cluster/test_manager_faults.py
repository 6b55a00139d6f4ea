"""Cluster manager and settings faults on one real cluster: their measured effect, their reversal, and recovery."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from clusterkit import ROOT, cli, lifecycle, look, told

from chaos.definitions import load_topology
from chaos.faults.ledger import registrations, standing
from chaos.load.workloads.documents import WORKLOAD
from chaos.observe.proof import problems
from chaos.opensearch.administration import create_index, delete_index, explicit_settings
from chaos.opensearch.views import administer, await_green, elected, leaders, newest, term, views
from chaos.registry import FAULTS, ready
from chaos.run.options import new_lab_id
from chaos.targets.labs import provisioning
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

INDEX = "chaos"
CASES = [
    (kind, example)
    for kind, model in FAULTS.items()
    if model.family in ("cluster manager", "query", "settings")
    for example in model.examples
]


@pytest.fixture(scope="module")
def lab() -> Iterator[LocalLab]:
    """A cluster that finds a silent leader out within seconds, with an index as the load has it."""
    topology = load_topology("3az-tuned", near=ROOT / "experiments" / "x.yaml")
    made = LocalLab.create(topology, provisioning.parts(topology), id=new_lab_id())
    try:
        made.up()
        create_index(made, INDEX, topology.settings.index, WORKLOAD.mapping)
        assert await_green(made, 60)[0]
        yield made
        delete_index(made, INDEX)
        assert problems(made) == []
    finally:
        assert made.down() == []


def storm_indices(lab: LocalLab) -> list[str]:
    _, rows = administer(lab, "GET", "/_cat/indices?format=json&h=index")
    return [row["index"] for row in rows if row["index"].startswith("oschaos-")]


def settled(lab: LocalLab) -> bool:
    return await_green(lab, 120)[0] and problems(lab) == [] and storm_indices(lab) == []


@pytest.mark.parametrize(("kind", "parameters"), CASES, ids=lambda value: str(value)[:70])
@pytest.mark.full  # the conformance suite has one of each family
def test_a_fault_is_proven_and_then_proven_gone(lab, tmp_path, kind, parameters):
    before = (explicit_settings(lab, None), explicit_settings(lab, INDEX))
    cycle = lifecycle(lab, tmp_path)
    fault = ready("f1", FAULTS[kind].model_validate(parameters), lab, seed=1, elected=elected(lab), index=INDEX)

    proven = cycle.inject(fault)
    assert proven, look(tmp_path, "effect")
    assert len(standing(tmp_path / "ledger.jsonl")) == len(fault.moves)

    gone = cycle.undo("f1")
    assert gone, [each for each in told(tmp_path, "fault.evidence") if not each["proven"]]
    assert standing(tmp_path / "ledger.jsonl") == []
    assert settled(lab), (problems(lab), storm_indices(lab))
    assert (explicit_settings(lab, None), explicit_settings(lab, INDEX)) == before


@pytest.mark.parametrize("how", ["kill", "pause"])
@pytest.mark.full
def test_a_lost_quorum_stops_metadata_and_lets_documents_through(lab, tmp_path, how):
    """What OpenSearch promises without a cluster manager: its default block is metadata_write, and not write."""
    cycle = lifecycle(lab, tmp_path)
    fault = ready("f1", FAULTS["cluster_manager.quorum_loss"](how=how), lab, seed=2, elected=None)
    assert cycle.inject(fault), look(tmp_path, "effect")
    client = lab.client("a-data", timeout=20.0)
    status, answer = client.request("PUT", f"/{INDEX}/_doc/x", body={"seq": 1})
    assert status in (200, 201) and answer["_shards"]["failed"] == 0, answer
    status, answer = client.request("GET", f"/{INDEX}/_search")
    assert status == 200 and answer["_shards"]["failed"] == 0, answer
    status, answer = client.request("PUT", "/not-now?cluster_manager_timeout=1s")
    assert status == 503, answer
    assert newest(views(lab)) is None
    client.close()
    assert cycle.undo("f1"), look(tmp_path, "gone")
    assert settled(lab), (problems(lab), storm_indices(lab))


@pytest.mark.full
def test_leadership_flaps_again_and_again(lab, tmp_path):
    first, cycle = term(lab), lifecycle(lab, tmp_path)
    params = FAULTS["cluster_manager.leader_flap"].model_validate({"down": "12s", "up": "3s", "how": "isolate"})
    fault = ready("f1", params, lab, seed=1, elected=None)
    assert cycle.inject(fault), look(tmp_path, "effect")
    assert wait_until(lambda: len(fault.worker.changes) >= 3, 90), fault.worker.changes
    assert cycle.undo("f1"), told(tmp_path, "fault.evidence")
    assert term(lab) - first >= 3
    assert len(set(leaders(lab).values())) == 1
    assert settled(lab), (problems(lab), storm_indices(lab))


@pytest.mark.full
def test_a_storm_beyond_what_the_cluster_takes_is_not_proven(lab, tmp_path, monkeypatch):
    monkeypatch.setattr("chaos.faults.kinds.cluster_manager.StormEvidence.effect_deadline", 5.0)
    cycle = lifecycle(lab, tmp_path)
    params = FAULTS["cluster_manager.task_storm"].model_validate({"rate": "5000/s"})
    assert cycle.inject(ready("f1", params, lab, seed=1, elected=None)) is False
    assert "5000/s" in look(tmp_path, "effect")["probes"][0]["expected"]
    cycle.undo("f1")
    assert settled(lab), (problems(lab), storm_indices(lab))


@pytest.mark.full
def test_a_static_setting_that_nobody_listed_is_refused_in_opensearchs_words(lab, tmp_path):
    from chaos.base.errors import FaultError

    params = FAULTS["settings.change"].model_validate(
        {"scope": "cluster", "settings": {"http.max_content_length": "1mb"}}
    )
    with pytest.raises(FaultError, match=r"http\.max_content_length.*not.*updat"):
        lifecycle(lab, tmp_path).inject(ready("f1", params, lab, seed=1, elected=None))
    assert standing(tmp_path / "ledger.jsonl") == [] and settled(lab)


@pytest.mark.full
def test_what_an_operator_changed_meanwhile_is_not_overwritten(lab, tmp_path):
    cycle = lifecycle(lab, tmp_path)
    key = "cluster.routing.weighted.fail_open"
    params = FAULTS["settings.change"].model_validate({"scope": "cluster", "settings": {key: False}})
    assert cycle.inject(ready("f1", params, lab, seed=1, elected=None))
    administer(lab, "PUT", "/_cluster/settings", {"persistent": {key: "true"}})
    try:
        assert cycle.undo("f1") is False
        assert explicit_settings(lab, None)[key] == "true"
        assert len(standing(tmp_path / "ledger.jsonl")) == 1
    finally:
        administer(lab, "PUT", "/_cluster/settings", {"persistent": {key: None}})
    assert settled(lab), (problems(lab), storm_indices(lab))


DYING = """
import sys, time
from pathlib import Path
from chaos.registry import FAULTS
from chaos.faults.ledger import Ledger, Registration
from chaos.faults.lifecycle import Lifecycle
from chaos.registry import ready
from chaos.history import EventWriter
from chaos.targets.labs.local import LocalLab
from chaos.base.paths import ProcessIdentity

lab, folder = LocalLab.attach(sys.argv[1]), Path(sys.argv[2])
ledger = Ledger(folder / "ledger.jsonl")
Registration("run-that-dies", ledger.path, lab.id, ProcessIdentity.me()).write()
cycle = Lifecycle(lab, ledger, EventWriter(folder / "events.jsonl"))
faults = [
    ("settings.change", {"scope": "index", "settings": {"number_of_replicas": 0}}),
    ("settings.change", {"scope": "cluster", "settings": {"cluster.routing.weighted.fail_open": False,
                                                          "cluster.publish.timeout": None}}),
    ("cluster_manager.task_storm", {"rate": "2/s", "what": "indices"}),
    ("cluster_manager.leader_flap", {"down": "60s", "up": "1s", "how": "pause"}),
]
proven = [cycle.inject(ready(f"f{n}", FAULTS[kind].model_validate(given), lab, seed=1, elected=None, index="chaos"))
          for n, (kind, given) in enumerate(faults, 1)]
print(proven, flush=True)
time.sleep(600)
"""


@pytest.mark.full
def test_recover_after_a_sigkill_restores_settings_and_deletes_the_storms_indices(lab, tmp_path):
    """The lab lives on: its owner is this process. The runner is another one, and dies in mid-storm."""
    before = (explicit_settings(lab, None), explicit_settings(lab, INDEX))
    runner = subprocess.Popen(
        [sys.executable, "-c", DYING, lab.id, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert json.loads(runner.stdout.readline().lower()) == [True] * 4, told(tmp_path, "fault.evidence")
        assert "T" in {lab.process_state(node.name) for node in lab.topology.cluster_managers}
    finally:
        os.kill(runner.pid, signal.SIGKILL)
        runner.wait()
    assert explicit_settings(lab, INDEX)["index.number_of_replicas"] == "0"
    code, output = cli("recover")
    assert code == 0, output
    assert (explicit_settings(lab, None), explicit_settings(lab, INDEX)) == before
    assert standing(tmp_path / "ledger.jsonl") == [] and "run-that-dies" not in {r.run for r in registrations()}
    assert settled(lab), (problems(lab), storm_indices(lab))
