"""experiments/ingestion: each side differs from the first in what its description names, and in nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from shipped import INGESTION, ROOT

from chaos.base.ids import write_id
from chaos.definitions import varied
from chaos.definitions.varied import Varied
from chaos.load.dataset import Dataset
from chaos.registry import load_experiment

INDEX, WRITE = "topology.settings.index", "load.closed.write"
SMALL_LIMIT = {"indexing_pressure.memory.limit": "256kb"}
EXPONENTIAL = "times 8, wait 250ms, most 8s, backoff exponential, jitter True"
FIXED = "times 8, wait 500ms, most 1m, backoff fixed, jitter False"


def bulks(items: int) -> list[str]:
    return [f"{WRITE}.operation: index → bulk", f"{WRITE}.items: 1 → {items}"]


def heaps(gib: int) -> list[str]:
    return [f"topology.nodes.a-data-{node}.heap: 512MiB → {gib}GiB" for node in (1, 2, 3)]


REFRESH = {"advice": [f"{INDEX}.refresh_interval: 1s → 30s"]}
DURABILITY = {"advice": [f"{INDEX}.translog.durability: request → async"]}
IDS = {"advice": [f"{WRITE}.automatic: True → False"]}
FLUSH = {"quarter_of_heap": [f"{INDEX}.translog.flush_threshold_size: 2mb → 256mb"]}
DIFFERS: dict[str, tuple[dict[str, list[str]], tuple[str, ...]]] = {
    "bulk-size": (
        {"ten": bulks(10), "hundred": bulks(100), "thousand": bulks(1000)},
        ("one document a request", "10, 100 and 1,000"),
    ),
    "parallel-clients": (
        {name: [f"{WRITE}.clients: 1 → {n}"] for name, n in (("two", 2), ("four", 4), ("eight", 8))},
        ("one client", "2, 4 and 8"),
    ),
    "refresh": (REFRESH, ("every 30 s", "default is 1 s")),
    "flush-threshold": (FLUSH, ("2 MB", "256 MB", "translog")),
    "prefer-primary": (
        {
            "advice": [
                "topology.settings.cluster.cluster.routing.allocation.balance.prefer_primary: not set → True",
            ]
        },
        ("cluster.routing.allocation.balance.prefer_primary", "default is off"),
    ),
    "durability": (DURABILITY, ("durability async", "default is request")),
    "index-sort": (
        {"sorted": [f"{INDEX}.sort.field: not set → seq", f"{INDEX}.sort.order: not set → desc"]},
        ("sort an index by a field", "newest first"),
    ),
    "best-compression": (
        {"advice": [f"{INDEX}.codec: default → best_compression"]},
        ("best_compression", "against the default (LZ4)"),
    ),
    "retries": (
        {"fixed": [f"{WRITE}.retry: not set → {FIXED}"], "exponential": [f"{WRITE}.retry: not set → {EXPONENTIAL}"]},
        ("exponential back-off", "a fixed time", "indexing_pressure.memory.limit"),
    ),
    "ids": (IDS, ("leaves ids to OpenSearch (automatic)", "names each document (explicit)")),
    "flat-object": (
        {
            "flat": [
                "load.workload: attributes-dynamic → attributes-flat",
                "load.dataset.fields.attributes.type: object → flat_object",
                "load.dataset.mapping.dynamic: True → strict",
                "load.dataset.mapping.properties.attributes: not set → type flat_object",
            ]
        },
        ("flat_object", "dynamic mapping", "40 attributes"),
    ),
    "heap": ({"default": heaps(1), "large": heaps(2)}, ("512 MiB, 1 and 2 GiB",)),
    "shards": (
        {"three": [f"{INDEX}.number_of_shards: 1 → 3"], "twelve": [f"{INDEX}.number_of_shards: 1 → 12"]},
        ("3 shards", "default of 1", "against 12"),
    ),
    "recipe": (
        {
            "recipe": [
                "topology.settings.cluster.cluster.routing.allocation.balance.prefer_primary: not set → True",
                "topology.settings.cluster.segrep.pressure.enabled: not set → True",
                f"{INDEX}.refresh_interval: 1s → 30s",
                f"{INDEX}.number_of_shards: 1 → 3",
                f"{INDEX}.replication.type: DOCUMENT → SEGMENT",
                f"{INDEX}.codec: not set → best_compression",
                f"{INDEX}.translog.flush_threshold_size: not set → 256mb",
            ]
        },
        ("3 shards", "every 30 s", "segrep.pressure.enabled", "prefer_primary", "quarter of the heap", "zstd_no_dict"),
    ),
    "durability-power-loss": (DURABILITY, ("durability async", "request, the default", "lose power")),
    "retries-node-kill": (
        {"exponential": [f"{WRITE}.retry: not set → {EXPONENTIAL}"]},
        ("back-off", "killed", "indexing_pressure.memory.limit"),
    ),
    "ids-node-kill": (IDS, ("ids that OpenSearch gives (automatic)", "explicit ones", "killed")),
    "flush-threshold-node-kill": (FLUSH, ("2 MB", "256 MB", "killed")),
    "refresh-node-kill": (REFRESH, ("refresh interval", "30 s", "killed")),
}
"""Name → in what each side differs from the first, of the experiments as they come out merged; and words that the
description has of it."""


def load(path: Path) -> Varied:
    found = load_experiment(path, sides=True)
    assert isinstance(found, Varied)
    return found


@pytest.mark.parametrize("path", INGESTION, ids=lambda path: path.stem)
def test_a_side_differs_in_what_its_description_names_and_in_nothing_else(path: Path) -> None:
    experiment = load(path)
    differs, words = DIFFERS[path.stem]
    first = experiment.sides[0]
    found = {side.name: varied.difference(first, side) for side in experiment.rivals}
    called = tuple(f"load.dataset.{each}:" for each in ("name", "description", "file"))
    assert {name: [each for each in lines if not each.startswith(called)] for name, lines in found.items()} == differs
    assert [word for word in words if word not in experiment.description] == []
    assert "Expected: " in experiment.description and "Decided by " in experiment.description


def test_every_file_is_asked_about() -> None:
    assert {path.stem for path in INGESTION} == set(DIFFERS)


@pytest.mark.parametrize("path", INGESTION, ids=lambda path: path.stem)
def test_a_claim_that_a_description_names_is_one(path: Path) -> None:
    """Or it says that the advice has no source of ours."""
    description = load(path).description
    named = set(re.findall(r"\b[a-z]{2}-\d+\b", description))
    known = set(re.findall(r"\{id: ([a-z]+-\d+),", (ROOT / "docs" / "claims.yaml").read_text()))
    assert named <= known
    assert named or "ingestion table" in description


@pytest.mark.parametrize("path", INGESTION, ids=lambda path: path.stem)
def test_an_open_loop_looks_on_while_the_writer_writes(path: Path) -> None:
    """Without a fault the writer is a closed loop, which gives throughput and costs, and no latency that decides."""
    experiment = load(path)
    for side in experiment.sides:
        load_ = side.experiment.load
        assert next(each.name for each in load_.operations) == "read"
        if path.parent.name == "ingestion":
            assert [each.name for each in load_.closed] == ["write"]
            assert [float(phase.duration or 0) for phase in experiment.phases] == [60.0]
    assert experiment.times == 5 and experiment.decide[-1] == "acknowledged.lost"
    closed = bool(experiment.load.closed)
    assert not [metric for metric in experiment.decide if metric.startswith("write.") and closed]
    assert ("visible.p99" in experiment.decide) <= (experiment.load.visibility is not None)


@pytest.mark.parametrize("name", ["retries", "retries-node-kill"])
def test_clients_meet_the_small_limit_on_every_side(name: str) -> None:
    (path,) = [path for path in INGESTION if path.stem == name]
    assert all(side.experiment.topology.settings.node == SMALL_LIMIT for side in load(path).sides)


def test_a_fault_that_a_setting_meets_is_injected_on_every_side() -> None:
    kinds = {
        path.stem: [step.kind for phase in load(path).phases for step in phase.inject]
        for path in INGESTION
        if path.parent.name == "faults"
    }
    assert kinds == {
        "durability-power-loss": ["disk.power_loss"],
        "retries-node-kill": ["node.kill"],
        "ids-node-kill": ["node.kill"],
        "flush-threshold-node-kill": ["node.kill"],
        "refresh-node-kill": ["node.kill"],
    }


def test_the_flat_side_has_the_same_documents_in_one_field() -> None:
    """So the mapping is what is compared, and no other content."""
    (path,) = [path for path in INGESTION if path.stem == "flat-object"]
    definitions = [side.experiment.load.dataset for side in load(path).sides]
    dynamic, flat = (Dataset(definition) for definition in definitions if definition is not None)
    for n in (0, 7, 4711):
        assert dynamic.content(write_id(n)) == flat.content(write_id(n))
    assert flat.mapping["properties"]["attributes"] == {"type": "flat_object"}
    assert dynamic.mapping["dynamic"] is True and "attributes" not in dynamic.mapping["properties"]
