"""The definitions that come with the project, and the published schema that editors check them with."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from shipped import EXPERIMENTS, ROOT, SIDES, TOPOLOGIES
from unit.definitions.test_experiments import EXAMPLE, SHAPE
from unit.definitions.test_selectors import link_selectors, node_selectors

from chaos.base.intervals import cut
from chaos.checks.good import FEWEST, needed
from chaos.checks.latency import QUANTILES
from chaos.checks.latency import needed as arrivals_for
from chaos.definitions import ACTIONS, LinkSelector, NodeSelector, load_topology
from chaos.definitions.schema import KINDS, path_of, schema_of, text_of
from chaos.definitions.source import Source
from chaos.definitions.varied import Varied
from chaos.registry import FAULTS, GRAMMAR, METRICS, load_experiment
from chaos.statistics.sides import level_of


def validator(kind: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(path_of(kind).read_text()))


def of(definition: str) -> jsonschema.Draft202012Validator:
    """The validator of one named part of the experiment's schema."""
    schema = schema_of("experiment", GRAMMAR)
    return jsonschema.Draft202012Validator({"$defs": schema["$defs"], "$ref": f"#/$defs/{definition}"})


# --------------------------------------------------------------------------------------- what is shipped


@pytest.mark.parametrize("path", TOPOLOGIES, ids=lambda path: path.stem)
def test_a_shipped_topology_loads_by_its_name(path: Path) -> None:
    topology = load_topology(path.stem, near=ROOT / "experiments" / "x.yaml")
    assert topology.name == path.stem
    assert topology.description
    assert "3.8.0" in topology.versions or topology.security  # the plugin of 3.8.0 was never published


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_a_shipped_experiment_loads_and_asks_for_no_loss(path: Path) -> None:
    experiment = load_experiment(path)
    assert experiment.name == path.stem
    assert experiment.description and experiment.tags
    assert experiment.expect[-1].text == "acknowledged.lost = 0"
    assert GRAMMAR.experiment(json.loads(json.dumps(experiment.to_json()))) == experiment


@pytest.mark.parametrize("path", SIDES, ids=lambda path: path.stem)
def test_a_shipped_experiment_with_sides_loads_and_asks_for_no_loss(path: Path) -> None:
    experiment = load_experiment(path, sides=True)
    assert isinstance(experiment, Varied)
    assert experiment.name == path.stem and experiment.description and "ab" in experiment.tags
    assert "acknowledged.lost" in experiment.decide
    for side in experiment.sides:
        assert side.experiment.expect[-1].text == "acknowledged.lost = 0"
        assert GRAMMAR.experiment(json.loads(json.dumps(side.experiment.to_json()))) == side.experiment


@pytest.mark.parametrize("path", SIDES, ids=lambda path: path.stem)
def test_the_runs_of_shipped_sides_can_decide(path: Path) -> None:
    """So many runs of each that an interval reaches the level that so many sides need; or one, which says so."""
    experiment = load_experiment(path, sides=True)
    assert isinstance(experiment, Varied)
    if experiment.times == 1:
        assert "decides nothing" in experiment.description
        return
    assert cut(experiment.times, experiment.times, level_of(len(experiment.sides)))[0]


OF_RUNS = re.compile(
    r"cluster\.recovered|ladder\..*|shards\.moved|acknowledged\.lost|costs\..*|manager\.processor|documents\.tries|"
    r"visible\.p.*|replicas\.visible\.p(50|90|99)|replication\.(lag|bytes_behind)|data\..*"
)
OF_OPERATIONS = re.compile(r"good|outage|regained|p50|p90|p99|p99\.9|slices|user_uptime|minimum\..*")
"""Metrics that each run has; another one it has where it is expected (:func:`chaos.statistics.facts.metrics`)."""


@pytest.mark.parametrize("path", SIDES, ids=lambda path: path.stem)
def test_what_decides_of_shipped_sides_is_measured(path: Path) -> None:
    """A metric that no run has leaves its whole series open."""
    experiment = load_experiment(path, sides=True)
    assert isinstance(experiment, Varied)
    for each in (side.experiment for side in experiment.sides):
        operations = {op.name: float(op.rate) for op in each.load.operations}
        expected = {(line.metric, phase) for line in each.expect for phase in (*line.phases, "")}
        for name in experiment.decide:
            metric, _, phase = name.partition("@")
            operation, _, quantity = metric.partition(".")
            if (metric, phase) in expected or OF_RUNS.fullmatch(metric):
                continue
            assert operation in operations and OF_OPERATIONS.fullmatch(quantity), f"no run has {name}"
            fewest = FEWEST if quantity == "good" else arrivals_for(QUANTILES[quantity]) if quantity in QUANTILES else 0
            for known in each.phases:
                if phase in ("", known.name) and known.duration is not None:
                    assert float(known.duration) * operations[operation] >= fewest, f"{name}: too few arrivals"


def test_names_of_shipped_experiments_are_different() -> None:
    """Recorded runs are kept under them."""
    names = [path.stem for path in (*EXPERIMENTS, *SIDES)]
    assert len(set(names)) == len(names)


def test_the_fixed_targets_are_the_same_everywhere() -> None:
    """Targets say what users want: they do not vary with what an experiment measured."""
    wanted = {
        "read.good >= 99.9%",
        "write.regained <= 30s",
        "read.regained <= 30s",  # after a double fault, which promises no more
        "write.regained <= 10s",  # after a decommission, or with failover controllers
        "read.regained <= 10s",  # with failover controllers
        "write.good >= 99.9%",  # of a rotation, which may cost nothing
        "tail.good >= 99%",
        "monitor.good >= 95%",  # statistics lack a node until the cluster has noticed that it is gone
        "dashboard.good >= 99%",  # of a stream of few requests; of others what is wanted of reads and writes
        "shipper.regained <= 30s",
        "change.regained <= 30s",
        "store.missing = 0",
        "failovers = 0",  # of what is no zone's failure
        "rotations >= 3",  # not a target: the experiment is about rotations
        "rotations = 0",  # into a zone that is not well
        "shards.moved = 0",
        "acknowledged.lost = 0",
        "documents.unexpected = 0",
        "durable.lost = 0",
        "documents.stored_twice = 0",
        "cas.violations = 0",
        "stale.reads = 0",
        "dirty.reads = 0",
        "write.outage <= 10s",  # of five blips of one second each
        "write.outage <= 30s",  # in all, where nodes go one after the other
        "visible.p99 <= 2s",  # twice the default refresh interval
        "visible.p99 <= 4s",  # on remote-backed storage, where a refresh waits for its upload
        "replicas.visible.p99 <= 8s",
        "cluster.red <= 10s",  # as soon as users are served after a decommission
        "cluster.recovered <= 30s",  # of a node that waited for its object store, once that is there
        "cluster.recovered <= 3m",  # after a drawn plan, or when a replacement has fetched its copies
        "command python -m chaos.programs.shipping judge",  # every line that was shipped is there, once
        "recovery.leader_elected <= 30s",  # as soon as writes, which may need one
        "documents.acknowledged >= 99.9%",  # as often as a read is to be good
        "replicas.stale = 0",
        "replicas.visible.p99 <= 4s",  # what primaries are allowed, and as long again for the copy
        "replication.lag > 1s",  # not a target: it shows that the throttle bites
        "replication.lag > 5s",  # nor this: more than the default refresh interval explains
        "replication.checkpoints_behind > 10",  # nor is this: what replicas lack without backpressure
        "replication.checkpoints_behind <= 10",  # with a limit of 1, and until writes are rejected
        "replication.rejected = 0",
        "replication.rejected > 0",  # not a target: it shows that backpressure acted
        "documents.acknowledged < 99%",  # and that clients were told so
        "replication.lag <= 5s",  # the default refresh interval, and time to copy what it made
        "rollovers.done >= 2",  # not a target: the experiment is about rollovers
        "write.good < 10%",  # not a target: it shows that the fault bites
        "write.good < 50%",  # nor this: disks are looked at every 30 s, and a phase with a full one takes twice as long
        "write.good < 90%",  # nor this: of a third of the shards no copy is left until they are restored
        "read.good < 10%",
        "monitor.good >= 99%",  # of dashboards, before anything is broken
        "monitor.regained <= 1m",  # once the manager that they wait for is back
        "elections <= 1",  # of a manager that is lost, and no more for the calls
    }
    for path in EXPERIMENTS:
        experiment = load_experiment(path)
        assert {expectation.text for expectation in experiment.expect} <= wanted
        asked = [e for e in experiment.expect if e.metric == "read.good" and e.text != "read.good < 10%"]
        judged = [name for e in asked for name in e.phases]
        assert judged in ([], [phase.name for phase in experiment.phases])  # every phase, once
        for expectation in experiment.expect:
            if expectation.text.endswith("regained <= 10s") and experiment.controller is None:
                assert {step.kind for name in expectation.phases for step in experiment.phase(name).do} == {
                    "decommission"
                }


def test_every_phase_lasts_long_enough_for_its_target() -> None:
    """A phase that ends before a share can be told is inconclusive, however well the cluster did."""
    for path in EXPERIMENTS:
        experiment = load_experiment(path)
        for expectation in experiment.expect:
            rate = sum(each.rate for each in experiment.load.operations if not each.writes)
            for phase in map(experiment.phase, expectation.phases if expectation.metric == "read.good" else ()):
                seconds = phase.duration if phase.until is None else phase.until.stable
                assert float(seconds) * float(rate) >= needed(expectation.comparison, expectation.value), phase.name


def test_controls_are_told_apart_by_tag_and_by_folder() -> None:
    for path in EXPERIMENTS:
        assert ("control" in load_experiment(path).tags) == (path.parent.name == "controls")


# -------------------------------------------------------------------------------------------- the schema


@pytest.mark.parametrize("kind", KINDS)
def test_the_committed_schema_is_current(kind: str) -> None:
    assert path_of(kind).read_text() == text_of(kind, GRAMMAR), "run: python -m chaos.registry"
    jsonschema.Draft202012Validator.check_schema(schema_of(kind, GRAMMAR))


@pytest.mark.parametrize("path", (*EXPERIMENTS, *SIDES), ids=lambda path: path.stem)
def test_the_schema_accepts_the_shipped_experiments(path: Path) -> None:
    validator("experiment").validate(Source.read(path).data)


@pytest.mark.parametrize("path", TOPOLOGIES, ids=lambda path: path.stem)
def test_the_schema_accepts_the_shipped_topologies(path: Path) -> None:
    validator("topology").validate(Source.read(path).data)


def read(text: str, folder: Path) -> dict[str, Any]:
    (folder / "x.yaml").write_text(text)
    return Source.read(folder / "x.yaml").data


def test_the_schema_accepts_the_design_example(tmp_path: Path) -> None:
    validator("experiment").validate(read(EXAMPLE, tmp_path))


BEYOND = {"never stable", "a node for all", "pinned to nothing", "jitter", "delay for nothing", "nothing"}
BEYOND |= {"two operations less", "no value", "health checks of what has none", "a helper's waits that shrink"}
"""What a JSON Schema cannot say, or we did not make it say; loading does."""


@pytest.mark.parametrize("case", sorted(set(SHAPE) - BEYOND))
def test_the_schema_refuses_a_wrong_shape(case: str, tmp_path: Path) -> None:
    text = EXAMPLE
    for old, new in SHAPE[case][0]:
        text = text.replace(old, new)
    assert not validator("experiment").is_valid(read(text, tmp_path))


def test_the_schema_knows_every_kind_and_metric_and_no_other() -> None:
    definitions = schema_of("experiment", GRAMMAR)["$defs"]
    for name, kinds in (("InjectFile", FAULTS), ("DoFile", ACTIONS)):
        assert list(definitions[name]["properties"]) == list(kinds)
        assert definitions[name]["additionalProperties"] is False
    assert set(definitions["ExpectationFile"]["properties"]) == {
        *METRICS,
        "phase",
        "known_weakness",
        "because",
        "within",
    }


NODE_SCHEMA, LINK_SCHEMA = of("NodeSelector"), of("LinkSelector")


@given(node_selectors)
def test_the_schema_accepts_every_sentence_for_nodes(selector: NodeSelector) -> None:
    assert NODE_SCHEMA.is_valid(selector.text)


@given(link_selectors)
def test_the_schema_accepts_every_sentence_for_links(selector: LinkSelector) -> None:
    assert LINK_SCHEMA.is_valid(selector.text)


@pytest.mark.parametrize("given", [{"zone": "c", "pick": 1}, {"elected": "cluster manager"}])
def test_the_schema_accepts_a_mapping_of_nodes(given: dict[str, Any]) -> None:
    assert NODE_SCHEMA.is_valid(given)
    assert not NODE_SCHEMA.is_valid({**given, "zoen": "c"})
