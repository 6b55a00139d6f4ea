"""Real namespaces and Toxiproxies, with echoes in the place of nodes: what needs no cluster, in seconds."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from chaos.definitions import load_topology
from chaos.faults.kinds import network as catalogue
from chaos.faults.ledger import Ledger, standing
from chaos.faults.lifecycle import Lifecycle, undo_entries
from chaos.history import EventWriter
from chaos.observe.proof import marks
from chaos.registry import FAULTS, ready
from chaos.run.options import new_lab_id
from chaos.targets.labs import network, provisioning, traces
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import command_line, wait_until
from chaos.targets.wiring import TRANSPORT, Host

ROOT = Path(__file__).parents[2]


def echo(host: Host) -> socket.socket:
    """What a node does with a transport ping: the same bytes come back."""
    listener = host.namespace.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host.loopback, TRANSPORT))
    listener.listen(64)

    def pump(client: socket.socket) -> None:
        with suppress(OSError), client:
            while data := client.recv(65536):
                client.sendall(data)

    def serve() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=pump, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return listener


@pytest.fixture(scope="module")
def hollow() -> Iterator[LocalLab]:
    topology = load_topology("3az-standby", near=ROOT / "experiments" / "x.yaml")
    lab = LocalLab.create(topology, provisioning.parts(topology), id=new_lab_id())
    listeners = []
    try:
        network.build(lab.wiring)
        for host in lab.wiring.hosts:
            lab._start_toxiproxy(host.name)
        listeners = [echo(host) for host in lab.wiring.nodes]
        yield lab
    finally:
        for listener in listeners:
            listener.close()
        assert lab.down() == []
        assert traces.of(lab.id) == []


@pytest.fixture(autouse=True)
def _nodes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Echoes speak no HTTP: clients prove nothing here."""
    real = catalogue.untouched
    monkeypatch.setattr(
        catalogue, "untouched", lambda wiring, touched: [p for p in real(wiring, touched) if "client" not in p[0]]
    )


def fault(lab: LocalLab, id: str, kind: str, links: str, **parameters: str):
    return ready(id, FAULTS[kind](links=links, **parameters), lab, seed=1, elected=None)


def events(folder: Path, kind: str) -> list[dict]:
    found = []
    for line in (folder / "events.jsonl").read_text().splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return [event for event in found if event["kind"] == kind]


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [("latency", {"delay": "300ms"}), ("drop", {}), ("hang", {}), ("refuse", {}), ("reset", {})],
)
def test_a_stop_in_mid_evidence_undoes_everything(hollow, tmp_path, kind, parameters):
    stop = threading.Event()
    ledger = Ledger(tmp_path / "ledger.jsonl")
    cycle = Lifecycle(hollow, ledger, EventWriter(tmp_path / "events.jsonl"), stopped=stop.is_set)
    made = fault(hollow, "f1", f"network.{kind}", "from node a-data to node c-data", **parameters)
    assert cycle.inject(made) and marks(hollow) != []
    assert cycle.undo("f1") and marks(hollow) == []
    again = fault(hollow, "f2", f"network.{kind}", "from node a-data to node c-data", **parameters)
    injecting = threading.Thread(target=cycle.inject, args=(again,))
    injecting.start()
    assert wait_until(lambda: any(e["fault"] == "f2" for e in events(tmp_path, "fault.applied")), 60, every=0.001)
    stop.set()
    injecting.join()
    cycle.undo_all()
    assert marks(hollow) == [] and standing(ledger.path) == [] and cycle.active == []


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGKILL, id="killed"),
        pytest.param(signal.SIGSTOP, id="hung", marks=pytest.mark.full),
    ],
)
def test_an_undo_says_that_a_toxiproxy_died_or_hangs_and_recovery_mends_it(hollow, tmp_path, monkeypatch, number):
    monkeypatch.setattr("chaos.faults.evidence.LinkEvidence.gone_deadline", 1.0)
    ledger = Ledger(tmp_path / "ledger.jsonl")
    cycle = Lifecycle(hollow, ledger, EventWriter(tmp_path / "events.jsonl"))
    slow = fault(hollow, "f1", "network.latency", "between node a-data and node c-data", delay="200ms")
    dark = fault(hollow, "f2", "network.drop", "between node b-data and node c-cm")
    assert cycle.inject(slow, dark)
    identity = json.loads((hollow.folder / "run" / "toxiproxy-a-data.json").read_text())
    os.kill(identity["pid"], number)
    assert cycle.undo_each(["f1", "f2"])["f1"] is False
    (failed,) = events(tmp_path, "fault.failed")
    assert failed["fault"] == "f1" and "Toxiproxy of a-data" in failed["says"]
    assert ("connection refused" if number is signal.SIGKILL else "it hangs") in failed["says"]
    assert {event["fault"] for event in events(tmp_path, "fault.undone")} == {"f1", "f2"}
    assert {entry.move.where for entry in standing(ledger.path)} == {"a-data"}  # the rest was taken back
    assert marks(hollow) != []

    assert hollow.mend() == ["Toxiproxy of a-data"]
    assert undo_entries(hollow, ledger, standing(ledger.path)) == []
    assert marks(hollow) == [] and hollow.mend() == []


def test_a_node_whose_starter_died_before_it_was_noted_is_found_and_not_started_twice(hollow):
    """SIGKILL between the start of a process and the note of who it is: seen in the crash test."""
    hollow._prepare(hollow.node("c-cm"))
    hollow.start_node("c-cm")
    first = hollow.identity("c-cm")
    hollow._identity_file("c-cm").unlink()
    assert wait_until(lambda: command_line(first.pid)[:1] == [hollow.manifest.parts.java], 10)
    found = LocalLab.attach(hollow.id)
    try:
        assert found.identity("c-cm") == first
        found.start_node("c-cm")
        assert found.identity("c-cm") == first
    finally:
        found.kill_node("c-cm")
    assert not first.alive()
