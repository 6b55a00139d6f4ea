"""What sets faults apart on one real cluster, and undo when things go wrong; each fault alone: test_conformance."""

from __future__ import annotations

from clusterkit import lifecycle

from chaos.base.errors import FaultError
from chaos.faults.ledger import Ledger, standing
from chaos.faults.probes import Line, Reply
from chaos.observe.proof import problems
from chaos.opensearch.views import await_green, newest, views
from chaos.registry import FAULTS, ready
from chaos.targets.labs.processes import wait_until


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
