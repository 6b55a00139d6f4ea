"""Faults of want and restarts on one small real cluster: the measured effect, and every value as it was before."""

from __future__ import annotations

import signal

import pytest
from clusterkit import DATA, Cli, await_event, cli, failed, lifecycle, nothing_left, run_folder

from chaos.faults.fault import Fault
from chaos.faults.kinds.resources import ask_in_parallel
from chaos.faults.ledger import standing
from chaos.faults.unread import Heap
from chaos.observe.proof import problems
from chaos.opensearch.views import administer, await_green, elected
from chaos.registry import FAULTS, ready
from chaos.targets.labs.local import LocalLab

NODES = ("a-all", "b-all", "c-all")


def limits(lab: LocalLab) -> dict[tuple[str, str], dict[str, str]]:
    return {(node, resource): lab.limits(node, resource) for node in NODES for resource in ("cpu", "memory")}


def made(lab: LocalLab, kind: str, **parameters: object) -> Fault:
    return ready("f1", FAULTS[kind].model_validate(parameters), lab, seed=1, elected=elected(lab))


def indices(lab: LocalLab) -> list[str]:
    _, rows = administer(lab, "GET", "/_cat/indices?format=json&h=index")
    return [row["index"] for row in rows]


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("node.cpu_starvation", {"target": "node c-all", "quota": "10%"}),
        ("node.cpu_starvation", {"target": "2 of role data", "quota": "30%"}),
        ("node.page_cache_squeeze", {"target": "node c-all", "headroom": "32MiB"}),
        ("node.heap_pressure", {"target": "node b-all", "above": "75%"}),
        ("node.out_of_memory", {"target": "node c-all"}),
        ("node.restart", {"target": "node c-all", "how": "kill"}),
        ("node.restart", {"target": "role data"}),
    ],
    ids=lambda value: str(value)[:60],
)
@pytest.mark.full  # the conformance suite has one of each family
def test_a_fault_of_want_is_proven_and_then_everything_is_as_it_was(tiny, tmp_path, kind, parameters):
    before = limits(tiny)
    cycle = lifecycle(tiny, tmp_path)
    assert cycle.inject(made(tiny, kind, **parameters)), failed(tmp_path, "effect")
    assert cycle.undo("f1"), failed(tmp_path, "gone")
    assert standing(tmp_path / "ledger.jsonl") == []
    assert limits(tiny) == before
    assert await_green(tiny, 120)[0]
    assert problems(tiny) == [] and indices(tiny) == []


def test_a_quota_is_what_was_asked_and_on_that_node_only(tiny, tmp_path):
    """Measured apart from the fault's own evidence: twice the quota is twice the time."""
    shares = {}
    for quota in (0.1, 0.2):
        cycle = lifecycle(tiny, tmp_path / str(quota))
        assert cycle.inject(made(tiny, "node.cpu_starvation", target="node c-all", quota=f"{quota:.0%}"))
        shares[quota] = used(tiny, "c-all")
        other = tiny.processor_use("a-all").throttled
        ask_in_parallel(tiny, "a-all", 1.0)
        assert tiny.processor_use("a-all").throttled == other
        assert cycle.undo("f1")
    for quota, share in shares.items():
        assert 0.7 * quota <= share <= 1.15 * quota + 0.01, shares


def used(lab: LocalLab, node: str) -> float:
    import time

    began, first = time.monotonic(), lab.processor_use(node).seconds
    ask_in_parallel(lab, node, 3.0)
    return (lab.processor_use(node).seconds - first) / (time.monotonic() - began)


def test_a_value_of_somebody_else_comes_back(tiny, tmp_path):
    tiny.limit_processors("c-all", 1.5)
    mine = tiny.limits("c-all", "cpu")
    try:
        cycle = lifecycle(tiny, tmp_path)
        assert cycle.inject(made(tiny, "node.cpu_starvation", target="node c-all", quota="20%"))
        assert tiny.limits("c-all", "cpu") != mine
        cycle.undo("f1")
        assert tiny.limits("c-all", "cpu") == mine
    finally:
        tiny.restore_limits("c-all", "cpu", {})


@pytest.mark.parametrize(
    ("kind", "parameters", "sabotaged"),
    [
        ("node.cpu_starvation", {"quota": "10%"}, "limit_processors"),
        ("node.page_cache_squeeze", {}, "squeeze_memory"),
        ("node.out_of_memory", {}, "exhaust_memory"),
    ],
)
def test_a_limit_that_was_not_set_is_not_proven(tiny, tmp_path, monkeypatch, kind, parameters, sabotaged):
    monkeypatch.setattr(tiny, sabotaged, lambda *_, **__: None)
    for evidence in ("StarvationEvidence", "SqueezeEvidence", "KilledForMemoryEvidence"):
        monkeypatch.setattr(f"chaos.faults.kinds.resources.{evidence}.effect_deadline", 3.0)
    cycle = lifecycle(tiny, tmp_path)
    assert not cycle.inject(made(tiny, kind, target="node c-all", **parameters))
    assert cycle.undo("f1")


def test_a_kill_is_no_kill_for_want_of_memory(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(tiny, "exhaust_memory", tiny.kill_node)
    monkeypatch.setattr("chaos.faults.kinds.resources.KilledForMemoryEvidence.effect_deadline", 1.0)
    cycle = lifecycle(tiny, tmp_path)
    assert not cycle.inject(made(tiny, "node.out_of_memory", target="node c-all"))
    (only,) = failed(tmp_path, "effect")
    assert only["what"].startswith("kills for want of memory")
    assert cycle.undo("f1")
    assert await_green(tiny, 120)[0]


@pytest.mark.full
def test_heap_pressure_holds_the_heap_and_lets_it_go(tiny, tmp_path):
    cycle = lifecycle(tiny, tmp_path)
    fault = made(tiny, "node.heap_pressure", target="node b-all", above="75%")
    assert cycle.inject(fault), failed(tmp_path, "effect")
    assert fault.worker.unread["b-all"] > 0
    tiny.kill_node("b-all")  # as a heap that is too full ends it
    assert cycle.undo("f1"), failed(tmp_path, "gone")
    assert tiny.process_state("b-all") and standing(tmp_path / "ledger.jsonl") == []
    after = Heap.of(tiny, "b-all")
    assert after is not None and after.used < 0.75
    assert indices(tiny) == []


@pytest.mark.full  # experiments/rolling-restart.yaml
def test_a_rolling_restart_never_has_two_nodes_away(tiny, tmp_path):
    before = {node: tiny.identity(node) for node in NODES}
    cycle = lifecycle(tiny, tmp_path)
    awaited: list[str] = []
    real = tiny.stop_node

    def stop(node: str) -> None:
        assert all(tiny.process_state(other) for other in NODES), f"{node} is stopped while another is away"
        awaited.append(node)
        real(node)

    tiny.stop_node = stop  # type: ignore[method-assign]
    try:
        assert cycle.inject(made(tiny, "node.restart", target="role data")), failed(tmp_path, "effect")
    finally:
        del tiny.stop_node
    assert awaited == list(NODES)
    assert all(tiny.identity(node) != before[node] for node in NODES)
    assert cycle.undo("f1")


@pytest.mark.full
def test_kill_9_of_the_runner_and_recover_brings_every_value_back(tiny, out):
    before = limits(tiny)
    running = Cli("run", DATA / "starved.yaml", "--out", out, "--on", tiny.id)
    seen: set[str] = set()

    def all_in_effect(event: dict) -> bool:
        if event["kind"] == "fault.in_effect":
            seen.add(event["fault"])
        return len(seen) == 3

    await_event(running, out, all_in_effect)
    assert limits(tiny) != before
    assert any(index.startswith("oschaos-pressure-") for index in indices(tiny))
    running.signal(signal.SIGKILL)
    running.end()
    assert standing(run_folder(out) / "ledger.jsonl")
    assert limits(tiny) != before
    code, output = cli("recover")
    assert code == 0 and "undone" in output, output
    assert limits(tiny) == before and indices(tiny) == []
    assert nothing_left() == []
    assert await_green(tiny, 120)[0]
    assert problems(tiny) == []
