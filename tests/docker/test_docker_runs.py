"""Whole runs on containers: the same experiment files, the same verdicts, and nothing left behind whatever dies."""

from __future__ import annotations

import signal

import pytest
from clusterkit import DATA, KEPT, Cli, assert_proven, await_event, cli, findings, in_effect, nothing_left, run_folder

from chaos.faults.ledger import standing
from chaos.observe.proof import problems
from chaos.opensearch.views import await_green
from chaos.targets.labs.docker.engine import Engine, Owned

SLOW, LOSS = DATA / "slow.yaml", DATA / "loss.yaml"


def left(engine: Engine) -> list[Owned]:
    """What the engine still has of runs; the lab that tests share is none of theirs."""
    return [each for each in engine.owned() if not KEPT.fullmatch(each.lab)]


def test_the_same_experiment_runs_there_unchanged(engine, tmp_path):
    out = tmp_path / "reports"
    code, output = cli("run", SLOW, "--lab", "docker", "--out", out)
    assert code in (0, 1, 3), output  # a busy machine may spoil the load
    found = findings(out)
    assert found["clean"] is True
    assert_proven(found)
    (lost,) = [each for each in found["findings"] if each["metric"] == "acknowledged.lost"]
    assert lost["measured"] == 0
    assert left(engine) == []


@pytest.mark.full
def test_a_planted_weakness_is_a_weakness_there_too(engine, tmp_path):
    out = tmp_path / "reports"
    code, output = cli("run", LOSS, "--lab", "docker", "--out", out)
    assert code == 1, output
    found = findings(out)
    (lost,) = [each for each in found["findings"] if each["metric"] == "acknowledged.lost"]
    assert found["clean"] is True and lost["counts_as"] == "weakness" and lost["measured"] > 0
    assert left(engine) == []


def test_kill_9_in_mid_fault_and_recover_leave_nothing(engine, tmp_path):
    out = tmp_path / "reports"
    running = Cli("run", SLOW, "--lab", "docker", "--out", out)
    await_event(running, out, in_effect)
    running.signal(signal.SIGKILL)
    running.end()
    assert standing(run_folder(out) / "ledger.jsonl") and nothing_left() != []
    code, output = cli("run", SLOW, "--lab", "docker", "--out", tmp_path / "more")
    assert code == 2 and "container oschaos-" in output and "opensearch-chaos recover" in output
    code, output = cli("recover")
    assert code == 0, output
    assert nothing_left() == [] and left(engine) == []


def test_a_node_whose_replacement_was_cut_short_is_made_by_its_next_start(docked):
    """Who died between taking a container away and making the next one leaves none; recovery starts the node."""
    node = "c-data"
    docked.kill_node(node)
    docked.engine.discard(docked.node_name(node), f"{docked.node_name(node)}-data")
    assert docked.process_state(node) is None and docked.data_is_empty(node)
    docked.start_node(node)
    assert await_green(docked, 120)[0] and problems(docked) == []


@pytest.mark.full
def test_a_lab_to_play_with(engine, tmp_path):
    code, output = cli("lab", "up", DATA / "tiny.yaml", "--lab", "docker", "--name", "docked-tiny")
    assert code == 0, output
    try:
        code, output = cli("lab", "status", "docked-tiny")
        assert code == 0 and "green" in output and output.count("runs (") == 3
        code, output = cli("run", SLOW, "--on", "docked-tiny", "--out", tmp_path / "reports")
        assert code in (0, 1, 3) and findings(tmp_path / "reports")["clean"] is True, output
    finally:
        code, output = cli("lab", "down", "docked-tiny")
    assert code == 0 and left(engine) == [], output
