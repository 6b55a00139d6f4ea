"""A phase that waits for others, on a real cluster: what they restart is proven, and nothing else may happen."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from clusterkit import DATA, Cli, await_event, cli, events, findings, nothing_left, run_folder

from chaos.history import during
from chaos.observe import restarted
from chaos.observe.proof import problems
from chaos.opensearch.views import await_green
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

ENABLE = "cluster.routing.allocation.enable"
FILE = """apiVersion: opensearch-chaos/v1
name: rolls
topology: {topology}
load:
  read:  {{rate: 20/s, good: ok within 4s}}
  write: {{rate: 20/s, good: ok within 4s}}
  documents: 100
phases:
  healthy: {{for: 8s}}
  roll: {phase}
  over: {{for: 2s}}
expect:
  - {{phase: healthy, read.good: ">= 50%"}}
  - {{acknowledged.lost: 0}}
guards: {{max: 15m}}
"""


def file(folder: Path, phase: dict[str, Any]) -> Path:
    made = folder / "rolls.yaml"
    made.write_text(FILE.format(topology=DATA / "tiny.yaml", phase=json.dumps(phase)))
    return made


def roll(lab: LocalLab, *words: str) -> list[str]:
    return [sys.executable, str(DATA / "roll.py"), lab.id, *words]


def of(out: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in events(out) if event["kind"] == kind]


def as_before(lab: LocalLab) -> bool:
    return await_green(lab, 120)[0] and problems(lab) == [] and nothing_left() == []


@pytest.mark.full
def test_a_rolling_restart_by_a_command_is_proven_and_judged(tiny: LocalLab, tmp_path: Path, out: Path) -> None:
    before = restarted.read(tiny)
    waits = {"command": roll(tiny, *before), "within": "6m", "restarts": "role data", "changes": [ENABLE]}
    code, output = cli("run", file(tmp_path, {"during": waits}), "--on", tiny.id, "--out", out, timeout=600)
    found = findings(out)
    # a busy machine may take the worth from what depends on time, and nothing else may
    assert {reason["cause"] for reason in found["reasons"]} <= {"instrument", "pushed"}, found["reasons"]
    assert code == (3 if found["reasons"] else 0), output
    (proof,) = of(out, during.PROOF)
    assert proof["proven"] is True and set(proof["nodes"]) == set(before), proof
    after = restarted.read(tiny)
    assert all(after[name].id != before[name].id for name in before)
    ended = of(out, "process.ended")
    assert {(event["name"], event["during"]) for event in ended if event["what"] == "node"} == {
        (name, "roll") for name in before
    }
    assert {event["name"] for event in of(out, during.SETTING)} <= {ENABLE} and of(out, "configuration.changed") == []
    lost = next(each for each in found["findings"] if each["metric"] == "acknowledged.lost")
    assert lost["verdict"] == "pass", lost
    (shown,) = found["tables"]["during"]
    assert shown["proven"] is True and [line for line in shown["last"] if "was restarted" in line], shown
    assert as_before(tiny)


@pytest.mark.full
def test_a_command_that_restarts_nothing_proves_nothing(tiny: LocalLab, tmp_path: Path, out: Path) -> None:
    waits = {"command": ["true"], "within": "1m", "restarts": "role data"}
    code, output = cli("run", file(tmp_path, {"during": waits}), "--on", tiny.id, "--out", out)
    found = findings(out)
    assert code == 3 and found["outcome"] == "inconclusive", output
    assert "a-all is the process that it was" in found["summary"], found["summary"]
    assert found["clean"] is True and as_before(tiny)


@pytest.mark.full
def test_a_command_that_restarts_another_node_than_it_says_does_not_pass(
    tiny: LocalLab, tmp_path: Path, out: Path
) -> None:
    waits = {"command": roll(tiny, "--plainly", "b-all"), "within": "5m", "restarts": "node a-all"}
    code, output = cli("run", file(tmp_path, {"during": waits}), "--on", tiny.id, "--out", out, timeout=600)
    found = findings(out)
    assert code == 3 and found["outcome"] == "inconclusive", output
    assert "ode b-all was ended from outside (SIGTERM)" in found["summary"], found["summary"]
    tiny.start_node("b-all")  # the command was ended with the run, whatever it was about
    assert as_before(tiny)


@pytest.mark.full
def test_a_stop_ends_the_command_before_faults_are_undone(tiny: LocalLab, tmp_path: Path, out: Path) -> None:
    slow = {"network.latency": {"links": "to zone c", "delay": "200ms"}}
    waits = {"command": ["sh", "-c", "sleep 600 & sleep 600"], "within": "5m"}
    phase = file(tmp_path, {"inject": slow, "during": waits})
    phase.write_text(phase.read_text().replace("over: {for: 2s}", "over: {undo: all, for: 2s}"))
    running = Cli("run", phase, "--on", tiny.id, "--out", out)
    await_event(running, out, lambda event: event["kind"] == during.BEGUN)
    assert wait_until(lambda: len(sleepers()) == 2, 30)
    running.signal(signal.SIGINT)
    code, output = running.end()
    assert code == 4, output
    (over,), (undo,) = of(out, during.OVER), of(out, "fault.undo")
    assert over["ok"] is False and over["exit_code"] is None and over["t"] < undo["t"]
    assert "sh: ended before its time, 3 processes of its session" in output, output
    assert sleepers() == [] and findings(out)["clean"] is True and as_before(tiny)


@pytest.mark.full
def test_a_command_whose_runner_is_killed_ends_with_recover(tiny: LocalLab, tmp_path: Path, out: Path) -> None:
    waits = {"command": ["sh", "-c", "trap '' TERM; sleep 600 & sleep 600"], "within": "5m"}
    running = Cli("run", file(tmp_path, {"during": waits}), "--on", tiny.id, "--out", out)
    await_event(running, out, lambda event: event["kind"] == during.BEGUN)
    assert wait_until(lambda: len(sleepers()) == 2, 30)
    running.process.kill()
    running.process.wait()
    assert len(sleepers()) == 2
    code, output = cli("run", file(tmp_path, {"during": waits}), "--on", tiny.id, "--out", out)
    assert code == 2 and "during.command" in output, output
    code, output = cli("recover")
    assert code == 0 and "3 processes ended" in output, output
    assert sleepers() == [] and as_before(tiny)


@pytest.mark.full
def test_a_person_is_waited_for(tiny: LocalLab, tmp_path: Path, out: Path) -> None:
    phase = {"during": {"manual": "water the plants", "within": "5m"}}
    running = Cli("run", file(tmp_path, phase), "--on", tiny.id, "--out", out)
    await_event(running, out, lambda event: event["kind"] == during.BEGUN)
    folder = run_folder(out)
    assert folder is not None and wait_until((folder / "waiting.json").exists, 30)
    code, output = cli("done", folder, "--says", "they were dry")
    assert code == 0, output
    code, output = running.end()
    assert code in (0, 3) and "roll waits for you, at most 5m: water the plants" in output, output
    found = findings(out)
    assert {reason["cause"] for reason in found["reasons"]} <= {"instrument", "pushed"}, found["reasons"]
    assert of(out, during.OVER)[0]["says"] == "they were dry" and of(out, during.PROOF) == []
    assert found["tables"]["during"][0]["grade"] == "reported"
    code, output = cli("done", folder)
    assert code == 2 and "waits for nobody" in output, output
    assert as_before(tiny)


def sleepers() -> list[int]:
    """Processes of the commands above."""
    return [each.pid for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"] == ["sleep", "600"]]
