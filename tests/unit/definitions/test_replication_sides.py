"""experiments/replication/ab-*: document and segment replication are the only difference, and what is asked of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from shipped import REPLICATION, ROOT

from chaos.definitions import varied
from chaos.definitions.varied import Varied
from chaos.registry import load_experiment

AB = [path for path in REPLICATION if path.stem.startswith("ab-")]
CELLS = {
    "ab-1-replica-3-shards": (1, 3, 5),
    "ab-1-replica-12-shards": (1, 12, 5),
    "ab-2-replicas-3-shards": (2, 3, 5),
    "ab-5-replicas-capped": (5, 6, 5),
    "ab-0-replicas-3-shards": (0, 3, 1),
    "ab-0-replicas-12-shards": (0, 12, 1),
    "ab-2-replicas-12-shards": (2, 12, 1),
}
"""Name → replicas, shards, and runs of each side."""
COSTS = ("costs.processor", "costs.network", "costs.disk", "costs.goodput", "read.p99", "visible.p99")


def load(path: Path) -> Varied:
    found = load_experiment(path, sides=True)
    assert isinstance(found, Varied)
    return found


@pytest.mark.parametrize("path", AB, ids=lambda path: path.stem)
def test_sides_differ_in_the_kind_of_replication_and_in_nothing_else(path: Path) -> None:
    experiment = load(path)
    assert experiment.names == ("document", "segment")
    first, second = experiment.sides
    assert varied.difference(first, second) == ["topology.settings.index.replication.type: DOCUMENT → SEGMENT"]
    assert (first.experiment.segments, second.experiment.segments) == (False, True)
    assert all("refresh_interval" in each.changes["topology"]["settings"]["index"] for each in experiment.sides)
    assert "Expected: " in experiment.description and "Decided by " in experiment.description
    named = set(re.findall(r"\b[a-z]{2}-\d+\b", experiment.description))
    assert named <= set(re.findall(r"\{id: ([a-z]+-\d+),", (ROOT / "docs" / "claims.yaml").read_text()))


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_is_what_its_name_says(name: str) -> None:
    (path,) = [path for path in AB if path.stem == name]
    experiment = load(path)
    for side in experiment.sides:
        topology = side.experiment.topology
        assert (topology.replicas, topology.shards, experiment.times) == CELLS[name]
        assert topology.settings.index["refresh_interval"] == "20s"
        (writer,) = side.experiment.load.closed
        assert (writer.operation, writer.items, writer.clients) == ("bulk", 500, 1 if name.endswith("capped") else 2)
    assert experiment.decide == (*COSTS, "acknowledged.lost")
    assert [float(phase.duration or 0) for phase in experiment.phases] == [60.0]


def test_every_file_is_a_cell_or_asks_something_else() -> None:
    assert {path.stem for path in AB} == {*CELLS, "ab-primary-kill", "ab-large-corpus"}


def test_a_larger_corpus_is_the_cell_with_more_documents() -> None:
    small, large = (load(path) for path in AB if path.stem in ("ab-1-replica-3-shards", "ab-large-corpus"))
    for one, other in zip(small.sides, large.sides, strict=True):
        assert one.experiment.topology == other.experiment.topology
        assert (one.experiment.load.documents, other.experiment.load.documents) == (2000, 100_000)


def test_six_nodes_have_six_copies_and_all_links_from_one_primary_are_capped() -> None:
    (path,) = [path for path in AB if path.stem == "ab-5-replicas-capped"]
    experiment = load(path)
    assert len(experiment.topology.data_nodes) == 6
    (step,) = experiment.phases[0].inject
    assert (step.kind, str(step.links.text)) == ("network.bandwidth", "from node a-data-1 to role data")


def test_of_a_lost_primary_gets_and_writes_are_compared_in_an_open_loop() -> None:
    (path,) = [path for path in AB if path.stem == "ab-primary-kill"]
    experiment = load(path)
    assert not experiment.load.closed and {"get.good@dead", "write.good@dead"} <= set(experiment.decide)
    assert [step.kind for step in experiment.phases[1].inject] == ["node.kill"]
    pinned = experiment.load.client
    assert (pinned.kind, pinned.node) == ("pinned", "a-data"), "who asks through a load balancer measures its probes"
