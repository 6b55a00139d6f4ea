"""What answers are held against: the index as it was set up, less what the experiment changes itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos.definitions import Experiment
from chaos.definitions.during import During
from chaos.load.known import LATE_S
from chaos.registry import load_experiment
from chaos.run.shape import Shape, most_copies, of_index

MADE = {"index.number_of_shards": "3", "index.number_of_replicas": "2"}


def experiment(folder: Path, settings: str = "cluster.routing.allocation.enable: all") -> Experiment:
    scope = "cluster" if settings.startswith("cluster") else "index"
    file = folder / "experiment.yaml"
    file.write_text(
        "apiVersion: opensearch-chaos/v1\nname: shaped\ntopology: 3az\n"
        "load:\n  read: {rate: 10/s, good: ok within 1s}\n"
        "phases:\n  healthy: {for: 10s}\n  changed:\n    for: 10s\n    inject:\n"
        f"      settings.change: {{scope: {scope}, settings: {{{settings}}}}}\n"
        'expect:\n  - {phase: healthy, read.good: ">= 99%"}\n'
    )
    return load_experiment(file)


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({}, Shape(3, 3, 1 + LATE_S)),
        ({"index.refresh_interval": "500ms"}, Shape(3, 3, 0.5 + LATE_S)),
        ({"index.refresh_interval": "-1"}, Shape(3, 3, None)),  # never refreshed: nothing need be found
        ({"index.refresh_interval": "1000micros"}, Shape(3, 3, None)),
        ({"index.replication.type": "SEGMENT"}, Shape(3, 3, None)),  # copies that lag behind
        ({"index.auto_expand_replicas": "0-1"}, Shape(3, None, 1 + LATE_S)),
        ({"index.number_of_search_replicas": "1"}, Shape(3, None, 1 + LATE_S)),
        ({"index.remote_store.enabled": "true", "index.replication.type": "SEGMENT"}, Shape(3, None, None)),
        ({"index.number_of_shards": None}, Shape(None, 3, 1 + LATE_S)),
    ],
)
def test_shards_and_copies_are_those_of_the_index_itself(
    tmp_path: Path, settings: dict[str, Any], shape: Shape
) -> None:
    kind = settings.get("index.replication.type", "DOCUMENT")
    assert of_index(MADE | settings, experiment(tmp_path), kind) == replace(shape, replication=kind)


@pytest.mark.parametrize(
    ("change", "shape"),
    [
        ("number_of_replicas: 0", Shape(3, None, 1 + LATE_S)),
        ("index.number_of_replicas: 1", Shape(3, None, 1 + LATE_S)),
        ("auto_expand_replicas: 0-all", Shape(3, None, 1 + LATE_S)),
        ("number_of_search_replicas: 1", Shape(3, None, 1 + LATE_S)),
        ("refresh_interval: 30s", Shape(3, 3, None)),
        ("translog.durability: async", Shape(3, 3, 1 + LATE_S)),
    ],
)
def test_what_the_experiment_changes_itself_is_not_held_against_answers(
    tmp_path: Path, change: str, shape: Shape
) -> None:
    assert of_index(MADE, experiment(tmp_path, change)) == replace(shape, replication="DOCUMENT")


OF_CLUSTER = "cluster.default.index.refresh_interval"


def test_an_index_without_an_interval_of_its_own_has_the_clusters(tmp_path: Path) -> None:
    plain, own = experiment(tmp_path), {"index.refresh_interval": "5s"}
    assert of_index(MADE, plain, cluster_refresh="60s").visible_after_s == 60 + LATE_S
    assert of_index(MADE, plain, cluster_refresh="-1").visible_after_s is None
    assert of_index(MADE | own, plain, cluster_refresh="60s").visible_after_s == 5 + LATE_S


def test_where_the_clusters_interval_may_change_only_an_interval_of_its_own_counts(tmp_path: Path) -> None:
    own = {"index.refresh_interval": "5s"}
    fault = experiment(tmp_path, f"{OF_CLUSTER}: 60s")
    assert of_index(MADE, fault).visible_after_s is None
    assert of_index(MADE | own, fault).visible_after_s == 5 + LATE_S
    plain = experiment(tmp_path)
    waits = During(command=("true",), changes=(OF_CLUSTER,))
    by_a_command = plain.model_copy(
        update={"phases": (*plain.phases[:1], plain.phases[1].model_copy(update={"during": waits}))}
    )
    assert of_index(MADE, by_a_command).visible_after_s is None
    assert of_index(MADE | own, by_a_command).visible_after_s == 5 + LATE_S


@pytest.mark.parametrize(
    ("change", "copies"),
    [
        ("refresh_interval: 30s", 3 * 3),
        ("number_of_replicas: 0", 3 * 3),  # before it, and after it
        ("number_of_replicas: 20", 3 * 21),
        ("index.number_of_replicas: '4'", 3 * 5),
        ("auto_expand_replicas: 0-5", 3 * 6),
        ("auto_expand_replicas: 0-all", 3 * 3),  # of three data nodes
        ("auto_expand_replicas: false", 3 * 3),
        ("number_of_search_replicas: 2", 3 * 5),
        ("{number_of_replicas: 3, number_of_search_replicas: 2}", 3 * 6),
        ("cluster.routing.allocation.enable: none", 3 * 3),
    ],
)
def test_copies_that_a_fault_makes_of_an_index_count(tmp_path: Path, change: str, copies: int) -> None:
    assert most_copies(experiment(tmp_path, change.strip("{}"))) == copies


def test_a_test_in_python_may_change_anything_later(tmp_path: Path) -> None:
    unplanned = experiment(tmp_path).model_copy(update={"phases": ()})
    assert of_index(MADE, unplanned) == Shape(3, None, None, "DOCUMENT")
