"""Where replicas copy segments, what primaries show and what replicas show is judged apart."""

from __future__ import annotations

from typing import Any

import pytest
import synthetic
from fakes import ROOT
from synthetic import Probed

from chaos.checks import foreseen
from chaos.checks.data import visibility
from chaos.checks.measure import Measure
from chaos.checks.record import SECOND, Record
from chaos.opensearch.routing import shard_of
from chaos.registry import load_experiment

LATE = 3.0
"""Seconds after which replicas show a document; the primary does after 0.5."""


def story(kind: str | None) -> dict[str, Any]:
    """The record of a run of 100 s whose replicas are late; ``kind``: what was read from the index."""
    made = synthetic.slow_zone()
    made.visibility = Probed(rate=5.0)
    history = made.history()
    first = next(event for event in history.events if event["kind"] == "index.routing")
    homes = {event["shard"]: event["node"] for event in history.events[:40] if event["kind"] == "cluster.primary"}
    for event in history.probes:
        if event["kind"] == "seen":
            shard = shard_of(f"v-{event['n']}", first["shards"], first["routing_shards"])
            written = next(e for e in history.probes if e["kind"] == "written" and e["n"] == event["n"])
            event["t"] = written["t"] + int((0.5 if event["node"] == homes[shard] else LATE) * SECOND)
    history.events.append({"t": first["t"], "kind": "index.shape", "index": first["index"], "replication": kind})
    return {"record": Record(history), "span": Record(history).spans[0]}


@pytest.fixture(scope="module")
def segments() -> dict[str, Any]:
    return story("SEGMENT")


def test_primaries_and_replicas_are_judged_apart(segments: dict[str, Any]) -> None:
    record, span = segments["record"], segments["span"]
    primary, replicas = visibility.measure(record, span, "p50"), visibility.measure_replicas(record, span, "p50")
    assert primary.value == pytest.approx(0.5) and replicas.value == pytest.approx(LATE)
    assert replicas.evidence["looks"] == 2 * primary.evidence["looks"] > 0


def test_with_document_replication_all_nodes_are_judged_alike() -> None:
    known = story("DOCUMENT")
    found: Measure = visibility.measure(known["record"], known["span"], "p50")
    assert found.value == pytest.approx(LATE)
    assert visibility.measure_replicas(known["record"], known["span"], "p50").value is None


def test_a_copy_that_was_promoted_meanwhile_does_not_count_as_a_primary(segments: dict[str, Any]) -> None:
    record: Record = segments["record"]
    primaries = visibility.Primaries(record)
    moved = [event for event in record.of_kind("cluster.primary") if event["t"] > record.spans[0].end]
    assert moved, "the story must promote a copy"
    event = moved[0]
    n = next(n for n in range(100) if shard_of(f"v-{n}", 3, 768) == event["shard"])
    assert len(primaries.on(n, event["t"] - SECOND, event["t"] + SECOND)) == 2
    assert primaries.on(n, event["t"] + 1, event["t"] + SECOND) == {event["node"]}


def test_a_plan_knows_that_only_one_node_has_the_primary_of_a_document() -> None:
    every = load_experiment(ROOT / "experiments" / "data-promises.yaml")
    assert foreseen._looks(every, "visible.p99") == 3.0  # one a second, on three data nodes
    index = {**every.topology.settings.index, "replication.type": "SEGMENT"}
    settings = every.topology.settings.model_copy(update={"index": index})
    apart = every.model_copy(update={"topology": every.topology.model_copy(update={"settings": settings})})
    assert foreseen._looks(apart, "visible.p99") == 1.0 and foreseen._looks(apart, "replicas.visible.p99") == 2.0
