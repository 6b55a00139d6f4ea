"""Blips, flapping, slices, late closes and partial partitions on a real cluster."""

from __future__ import annotations

import pytest
from clusterkit import lifecycle, told

from chaos.faults.ledger import standing
from chaos.faults.probes import Line, Reply
from chaos.observe.proof import problems
from chaos.opensearch.views import await_green, newest, views
from chaos.registry import FAULTS, ready
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until


def ephemeral(lab: LocalLab) -> dict[str, str]:
    """Each node's life in the cluster: a node that left and came back without a restart keeps this id."""
    _, state = lab.client("a-cm").request("GET", "/_cluster/state/nodes?local=true")
    return {node["name"]: node["ephemeral_id"] for node in state["nodes"].values()}


def left(lab: LocalLab) -> int:
    """How often any node was removed from the cluster, by the cluster managers' own logs."""
    logs = (lab.log(node.name).read_text(errors="replace") for node in lab.topology.nodes if node.is_cluster_manager)
    return sum(text.count("node-left[") for text in logs)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("network.slicer", {"links": "from node a-data to node c-data", "size": "512B", "delay": "10ms"}),
        ("network.slicer", {"links": "between node a-data and node c-data", "size": "4KiB", "delay": "20ms"}),
        ("network.slicer", {"links": "from clients of zone a to node b-data", "size": "64B", "delay": "20ms"}),
        ("network.slow_close", {"links": "from node a-data to node c-data", "delay": "1s"}),
        ("network.slow_close", {"links": "around everything in zone c", "delay": "500ms"}),
        ("network.drop", {"links": "between node a-data and zone a"}),
        ("network.drop", {"links": "between clients of zone a and zone a"}),
        ("network.latency", {"links": "between zone a and zone c", "delay": "100ms"}),
    ],
    ids=lambda value: str(value)[:80],
)
def test_a_form_is_proven_and_then_proven_gone(playground, tmp_path, kind, parameters):
    cycle = lifecycle(playground, tmp_path)
    fault = ready("f1", FAULTS[kind].model_validate(parameters), playground, seed=1, elected=None)
    proven, gone = cycle.inject(fault), cycle.undo("f1")
    looks = {event["stage"]: event for event in told(tmp_path, "fault.evidence")}
    assert proven, [probe for probe in looks["effect"]["probes"] if not probe["ok"]]
    assert gone, [probe for probe in looks["gone"]["probes"] if not probe["ok"]]
    assert standing(tmp_path / "ledger.jsonl") == []
    assert await_green(playground, 120)[0]
    assert problems(playground) == []


@pytest.mark.parametrize("kind", ["network.slicer", "network.slow_close"])
def test_toxics_that_never_came_are_not_proven(playground, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(playground, "add_toxic", lambda *_, **__: None)
    monkeypatch.setattr("chaos.faults.evidence.LinkEvidence.effect_deadline", 2.0)
    more = {"size": "512B", "delay": "20ms"} if kind == "network.slicer" else {"delay": "500ms"}
    params = FAULTS[kind].model_validate({"links": "from node a-data to node c-data", **more})
    cycle = lifecycle(playground, tmp_path)
    assert not cycle.inject(ready("f1", params, playground, seed=1, elected=None))
    assert cycle.undo("f1")


def test_a_blip_of_a_second_heals_without_a_disconnect(playground, tmp_path):
    """Every link of zone c for one second: the same connection goes on, and nobody is removed from the cluster."""
    before, lost = ephemeral(playground), left(playground)
    version = newest(views(playground)).version
    line = Line(playground, ("a-data", "c-data"))
    assert line.ping(2).reply is Reply.ANSWERED
    params = FAULTS["network.drop"].model_validate(
        {"links": "around everything in zone c", "flap": {"down": "1s", "up": "4s", "times": 1}}
    )
    cycle = lifecycle(playground, tmp_path)
    assert cycle.inject(ready("f1", params, playground, seed=1, elected=None)), told(tmp_path, "fault.evidence")
    assert wait_until(lambda: len(told(tmp_path, "fault.pulse")) == 1, 30)
    assert line.ping(20).reply is Reply.ANSWERED  # what was lost is sent again, on the very connection
    assert cycle.undo("f1")
    (applied,), (up,) = told(tmp_path, "fault.applied"), told(tmp_path, "fault.pulse")
    seconds = (up["t"] - applied["t"]) / 1e9
    print(f"the blip took {seconds:.3f} s")
    assert seconds >= 1.0
    assert await_green(playground, 60)[0]
    assert ephemeral(playground) == before and left(playground) == lost
    assert newest(views(playground)).version == version  # not one change of the cluster's state
    assert line.ping(2).reply is Reply.ANSWERED
    line.close()


def test_flapping_is_proven_each_time(playground, tmp_path):
    params = FAULTS["network.drop"].model_validate(
        {"links": "from node a-data to node c-data", "flap": {"down": "1s", "up": "1500ms", "times": 4}}
    )
    cycle = lifecycle(playground, tmp_path)
    assert cycle.inject(ready("f1", params, playground, seed=1, elected=None))
    assert wait_until(lambda: len(told(tmp_path, "fault.pulse")) == 7, 60)
    assert cycle.undo("f1"), told(tmp_path, "fault.pulse")
    downs = [event for event in told(tmp_path, "fault.pulse") if event["state"] == "down"]
    assert [event["proven"] for event in downs] == [True] * 3  # the first is the fault's own evidence
    assert await_green(playground, 60)[0]


def test_a_bridge_reaches_both_halves_that_do_not_reach_each_other(playground, tmp_path):
    """Zones a and c are apart; b is the bridge: nodes that the cluster manager sees do not see each other."""
    params = FAULTS["network.drop"].model_validate({"links": "between role data and zone a and role data and zone c"})
    cycle = lifecycle(playground, tmp_path)
    assert cycle.inject(ready("f1", params, playground, seed=1, elected=None))
    pairs = {
        ("a-data", "c-data"): Reply.SILENT,
        ("c-data", "a-data"): Reply.SILENT,
        ("a-data", "b-data"): Reply.ANSWERED,
        ("b-data", "c-data"): Reply.ANSWERED,
        ("a-cm", "c-data"): Reply.ANSWERED,
    }
    for pair, reply in pairs.items():
        line = Line(playground, pair)
        assert line.ping(1.0).reply is reply, pair
        line.close()
    assert cycle.undo("f1")
    assert await_green(playground, 120)[0]
    assert problems(playground) == []
