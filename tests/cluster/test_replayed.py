"""Somebody on the way to one data node who answers gets with what was true five seconds ago.

Found wherever that node serves, on every topology that ships and on each of its data nodes in turn: a check that asks
half of the nodes passes this on the other half. Secured topologies are left out: who speaks TLS cannot be overheard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from clusterkit import DATA, ROOT, Cli, await_event, events, findings, impostors, in_effect
from conformance import labs_of
from conformance import topology as named

from chaos.definitions import Topology
from chaos.observe.proof import problems
from chaos.run.options import new_lab_id
from chaos.targets.labs import provisioning
from chaos.targets.labs.local import LocalLab

REPLAYED = DATA / "replayed.yaml"


def _topologies() -> dict[str, Topology]:
    found = {}
    for file in sorted((ROOT / "topologies").glob("*.yaml")):
        topology = named(file.stem)
        if not topology.security:
            found[file.stem] = topology
    return found


TOPOLOGIES = _topologies()
CASES = [
    pytest.param(name, node.name, id=f"{name}-{node.name}", marks=pytest.mark.full)
    for name, topology in TOPOLOGIES.items()
    for node in topology.data_nodes
]


@pytest.fixture(scope="module")
def lab_of(playground: LocalLab) -> Iterator[Callable[[str], LocalLab]]:
    with labs_of(lambda: playground, lambda t: LocalLab.create(t, provisioning.parts(t), id=new_lab_id())) as get:
        yield get


@pytest.mark.parametrize(("topology", "node"), CASES)
def test_old_answers_of_one_node_are_found_where_it_serves(lab_of, out: Path, topology: str, node: str) -> None:
    lab = lab_of(topology)
    with impostors(lab, lab.wiring.clients, "replay", about=node) as switch:
        running = Cli("run", REPLAYED, "--topology", topology, "--out", out, "--on", lab.id)
        await_event(running, out, in_effect)
        switch.touch()
        code, output = running.end()
    assert problems(lab) == []
    found = {finding["metric"]: finding for finding in findings(out)["findings"]}
    stale = found["stale.reads"]
    serves = TOPOLOGIES[topology].node(node).zone in TOPOLOGIES[topology].active_zones
    if serves:
        assert code == 1, output
        assert stale["counts_as"] == "weakness" and set(stale["evidence"]["nodes"]) == {node}
        assert {found["cas.violations"]["counts_as"], found["acknowledged.lost"]["counts_as"]} <= {
            "pass",
            "inconclusive",
        }
    else:
        assert stale["counts_as"] != "weakness", output  # by design nobody's read goes there
    assert any(event["kind"] == "run.end" for event in events(out))
