"""Every fault alone on one real cluster: its measured effect, on those links and no other, and its full reversal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.definitions import FAULTS
from chaos.errors import FaultError
from chaos.faults.ledger import Ledger, standing
from chaos.faults.lifecycle import Lifecycle
from chaos.faults.probes import Line, Reply
from chaos.faults.select import ready
from chaos.history import EventWriter
from chaos.lab.local import LocalLab
from chaos.lab.processes import wait_until
from chaos.observe.cluster import await_green, elected, newest, views
from chaos.observe.proof import problems

CASES = [
    ("network.latency", {"links": "to zone c", "delay": "300ms"}),
    ("network.latency", {"links": "around everything in zone c", "delay": "200ms", "jitter": "20ms"}),
    ("network.bandwidth", {"links": "from node a-data to node c-data", "rate": "256KiB/s"}),
    ("network.drop", {"links": "to zone c"}),
    ("network.drop", {"links": "between node a-data and node b-data"}),
    ("network.hang", {"links": "from node a-data to node c-data"}),
    ("network.refuse", {"links": "from node a-data to node c-data"}),
    ("network.refuse", {"links": "from clients of zone a to node b-data"}),
    ("network.reset", {"links": "from node a-data to node c-data"}),
    ("network.reset", {"links": "from clients of zone a to node b-data"}),
    ("node.pause", {"target": "node c-data"}),
    ("node.stop", {"target": "one of group cm and zone c"}),
    ("node.kill", {"target": "elected cluster manager"}),
]


def lifecycle(lab: LocalLab, folder: Path) -> Lifecycle:
    return Lifecycle(lab, Ledger(folder / "ledger.jsonl"), EventWriter(folder / "events.jsonl"))


def events(folder: Path, kind: str) -> list[dict]:
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["kind"] == kind]


@pytest.mark.parametrize(("kind", "parameters"), CASES, ids=lambda value: str(value)[:60])
def test_a_fault_is_proven_and_then_proven_gone(playground, tmp_path, kind, parameters):
    cycle = lifecycle(playground, tmp_path)
    fault = ready("f1", FAULTS[kind](**parameters), playground, seed=1, elected=elected(playground))

    proven = cycle.inject(fault)
    looks = {event["stage"]: event for event in events(tmp_path, "fault.evidence")}
    assert proven, [probe for probe in looks["effect"]["probes"] if not probe["ok"]]
    assert len(standing(tmp_path / "ledger.jsonl")) == len(fault.moves)

    gone = cycle.undo("f1")
    looks = {event["stage"]: event for event in events(tmp_path, "fault.evidence")}
    assert gone, [probe for probe in looks["gone"]["probes"] if not probe["ok"]]
    assert standing(tmp_path / "ledger.jsonl") == []
    assert await_green(playground, 120)[0]
    assert problems(playground) == []


def test_a_dropped_connection_goes_on_after_healing(playground, tmp_path):
    """What sets drop apart from hang: TCP retransmits, and what was sent meanwhile arrives on the same connection."""
    cycle = lifecycle(playground, tmp_path)
    line = Line(playground, ("a-data", "b-data"))
    assert line.ping(2).reply is Reply.ANSWERED
    params = FAULTS["network.drop"](links="from node a-data to node b-data")
    assert cycle.inject(ready("f1", params, playground, seed=1, elected=None))
    assert line.ping(0.5).reply is Reply.SILENT
    assert cycle.undo("f1")
    assert line.ping(10).reply is Reply.ANSWERED
    line.close()


def test_a_hung_connection_is_closed_by_healing(playground, tmp_path):
    cycle = lifecycle(playground, tmp_path)
    line = Line(playground, ("a-data", "b-data"))
    assert line.ping(2).reply is Reply.ANSWERED
    params = FAULTS["network.hang"](links="from node a-data to node b-data")
    assert cycle.inject(ready("f1", params, playground, seed=1, elected=None))
    assert line.ping(0.5).reply is Reply.SILENT
    assert cycle.undo("f1")
    assert line.ping(10).reply in (Reply.CLOSED, Reply.RESET)
    line.close()


def test_an_undo_that_raises_does_not_stop_the_others(playground, tmp_path, monkeypatch):
    """Two faults of one kind, each with entries of its own; the first undo fails on one host."""
    cycle = lifecycle(playground, tmp_path)
    for number, links in enumerate(("from node a-data to node c-data", "from node a-data to node b-data"), 1):
        params = FAULTS["network.refuse"](links=links, name=f"n{number}")
        assert cycle.inject(ready(f"f{number}", params, playground, seed=1, elected=None))
    real = playground.set_proxy

    def failing(host: str, proxy: str, enabled: bool) -> None:
        if proxy == "to-c-data-transport":
            raise FaultError("told to fail")
        real(host, proxy, enabled)

    monkeypatch.setattr(playground, "set_proxy", failing)
    monkeypatch.setattr("chaos.faults.evidence.LinkEvidence.gone_deadline", 0.5)
    assert not cycle.undo_all()
    (left,) = standing(tmp_path / "ledger.jsonl")
    assert left.move.arguments["proxy"] == "to-c-data-transport"
    monkeypatch.undo()
    assert left.inverse is not None
    left.inverse.apply(playground)
    assert await_green(playground, 120)[0]
    assert problems(playground) == []


def test_a_target_that_dies_while_held_leaves_nothing_to_undo(playground, tmp_path):
    cycle = lifecycle(playground, tmp_path)
    pause = ready("f1", FAULTS["node.pause"](target="node c-data"), playground, seed=1, elected=None)
    assert cycle.inject(pause)
    playground.kill_node("c-data")
    from chaos.faults.lifecycle import undo_entries

    ledger = Ledger(tmp_path / "ledger.jsonl")
    assert undo_entries(playground, ledger, standing(ledger.path)) == []
    # a cluster that has not noticed yet still looks green
    assert wait_until(lambda: "c-data" not in newest(views(playground)).nodes, 60)
    playground.start_node("c-data")
    assert await_green(playground, 120)[0]
