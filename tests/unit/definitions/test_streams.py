"""Streams: operations under names that an experiment makes up, each of one kind of request of its workload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from chaos.base.errors import InvalidInput
from chaos.definitions import objectives, writing
from chaos.definitions.experiment import Experiment
from chaos.definitions.schema import schema_of
from chaos.history import models
from chaos.registry import GRAMMAR, load_experiment
from chaos.run import on_target
from chaos.run.indices import Indices

FILE = """\
apiVersion: opensearch-chaos/v1
name: streams
topology: 3az
load:
  workload: search
  read: {rate: 40/s, good: ok within 1s, queries: [by-key, in-category]}
  streams:
    dashboard: {operation: search, rate: 5/s, good: ok within 2s, queries: [facets]}
    bulk-feed: {operation: bulk, items: 20, rate: 2/s, good: ok within 2s}
    change: {operation: index, rate: 10/s, good: ok within 1s}
    loader: {operation: bulk, items: 50, clients: 2}
phases:
  healthy: {for: 60s}
expect:
  - {dashboard.good: ">= 99%"}
  - {bulk-feed.p99: "<= 2s"}
  - {documents.acknowledged: ">= 99%"}
guards: {dashboard.good: {below: 10%, for: 20s}}
"""


def loaded(folder: Path, text: str = FILE, **how: Any) -> Experiment:
    path = folder / "streams.yaml"
    path.write_text(text)
    return load_experiment(path, **how)


def test_streams_are_operations_with_names_of_their_own(tmp_path: Path) -> None:
    load = loaded(tmp_path).load
    assert [(each.name, each.operation, each.writes, each.items, each.stream) for each in load.every] == [
        ("read", "search", False, 1, False),
        ("dashboard", "search", False, 1, True),
        ("bulk-feed", "bulk", True, 20, True),
        ("change", "index", True, 1, True),
        ("loader", "bulk", True, 50, True),
    ]
    assert [each.name for each in load.writers] == ["bulk-feed", "change", "loader"] and load.stride == 50
    assert load.every[0].queries == ("by-key", "in-category") and load.every[1].queries == ("facets",)


def test_they_go_there_and_back_by_normal_form_and_by_yaml(tmp_path: Path) -> None:
    experiment = loaded(tmp_path)
    normal = json.loads(json.dumps(experiment.to_json()))
    assert GRAMMAR.experiment(normal) == experiment
    assert list(models.operations(normal["load"])) == ["read", "dashboard", "bulk-feed", "change"]
    assert [models.writes(*each) for each in models.operations(normal["load"]).items()] == [False, False, True, True]
    again = loaded(tmp_path, writing.experiment(experiment, "3az"))
    assert again.to_json() | {"file": ""} == experiment.to_json() | {"file": ""}


def test_metrics_guards_and_objectives_know_them(tmp_path: Path) -> None:
    experiment = loaded(tmp_path, good=objectives.parse(["dashboard=5s"], GRAMMAR.operations, streams=True))
    assert [(each.op, each.quantity) for each in experiment.expect][:2] == [("dashboard", "good"), ("bulk-feed", "p99")]
    assert list(experiment.guards.floors) == ["dashboard"]
    dashboard = experiment.load.operation("dashboard")
    assert dashboard is not None and dashboard.good_within == 5.0
    assert objectives.options(experiment) == ["dashboard=5s"]


def test_a_cap_counts_every_stream_a_bulk_as_its_documents(tmp_path: Path) -> None:
    assert on_target.most_requests(loaded(tmp_path)) == 40 + 5 + 2 * 20 + 10


def test_the_published_schema_takes_them(tmp_path: Path) -> None:
    data = YAML(typ="safe").load(FILE)
    schema = schema_of("experiment", GRAMMAR)
    jsonschema.validate(data, schema)
    for wrong in ({"dashboard.god": ">= 99%"}, {"dashboard.p99": ">= 99%"}, {"cluster.good": ">= 99%"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**data, "expect": [wrong]}, schema)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("dashboard: {op", "read: {op", "8:5: read: this name means something else"),
        ("dashboard: {op", "cluster: {op", "8:5: cluster: this name means something else"),
        ("dashboard: {op", "client: {op", "8:5: client: this name means something else"),
        ("dashboard: {op", "Dash: {op", "8:5: Dash: expected small letters, digits and dashes, a letter first"),
        ("{operation: search, ", "{", '8:16: "operation" is missing'),
        ("operation: search", "operation: serch", "8:28: operation: expected search"),
        ("[facets]", "[facet]", '8:77: there is no query "facet": did you mean "facets"?'),
        ("[facets]", "[facets, facets]", "8:85: the query facets is named twice"),
        ("items: 20, rate", "items: 20, queries: [facets], rate", "queries are of searches, and bulk-feed sends none"),
        ("items: 20, ", "", "9:5: a bulk has several documents: expected items"),
        ("operation: index", "operation: index, items: 5", "requests of the kind index write one document each"),
        ("items: 20", "items: 20, ids: automatic", "bulk-feed leaves ids to OpenSearch and change names its documents"),
        ("workload: search", "workload: documents", "the searches of the workload documents have no names"),
        ('{dashboard.good: ">', '{dashbord.good: ">', 'unknown key "dashbord.good": did you mean "dashboard.good"?'),
        ("{bulk-feed.p99", "{loader.p99", "loader.p99 is of an open loop, and load.streams.loader is a closed one"),
        ("guards: {dashboard", "guards: {dashbord", 'unknown key "dashbord.good"'),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert FILE.count(old) >= 1
    with pytest.raises(InvalidInput) as caught:
        loaded(tmp_path, FILE.replace(old, new, 1))
    assert says in str(caught.value), str(caught.value)


def test_an_objective_for_what_is_no_stream_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no operation 'dash'"):
        loaded(tmp_path, good=objectives.parse(["dash=5s"], GRAMMAR.operations, streams=True))


def test_first_writes_need_a_stream_of_single_documents(tmp_path: Path) -> None:
    text = FILE.replace("healthy: {for: 60s}", "healthy: {for: 60s, inject: {node.kill: {target: node b-data}}}")
    text = text.replace("expect:\n", 'expect:\n  - {recovery.first_writes: "<= 30s"}\n')
    loaded(tmp_path, text)
    with pytest.raises(InvalidInput, match="is of requests that write one document each"):
        loaded(tmp_path, text.replace("    change: {operation: index, rate: 10/s, good: ok within 1s}\n", ""))


VARIED = (
    FILE
    + """\
vary:
  sides:
    one: {}
    more:
      load: {streams: {dashboard: {rate: 20/s}, export: {operation: search, rate: 1/s, good: ok within 5s}}}
"""
)


def test_a_side_changes_a_stream_and_adds_one(tmp_path: Path) -> None:
    varied: Any = loaded(tmp_path, VARIED, sides=True)
    one, more = (side.experiment.load for side in varied.sides)
    assert one.operation("dashboard").rate == 5 and one.operation("export") is None
    assert more.operation("dashboard").rate == 20 and more.operation("export").good_within == 5


# --------------------------------------------------------------------------------------------- several indices

INDICES = """\
apiVersion: opensearch-chaos/v1
name: streams
topology: 3az
load:
  workload: search
  read: {rate: 40/s, good: ok within 1s}
  indices:
    events: {workload: logs, documents: 30, settings: {number_of_shards: 2, index.codec: best_compression}}
  streams:
    shipper: {operation: bulk, items: 20, rate: 2/s, good: ok within 2s, index: events}
    tail: {operation: get, rate: 1/s, good: ok within 2s, index: events}
    change: {operation: index, rate: 10/s, good: ok within 1s}
phases:
  healthy: {for: 60s}
expect:
  - {tail.good: ">= 90%"}
"""


def test_an_index_has_a_workload_documents_and_settings_of_its_own(tmp_path: Path) -> None:
    experiment = loaded(tmp_path, INDICES)
    load, topology = experiment.load, experiment.topology
    (events,) = load.indices
    assert (events.name, events.workload, events.documents) == ("events", "logs", 30)
    assert {each.name: each.index for each in load.every} == {
        "read": None,
        "shipper": "events",
        "tail": "events",
        "change": None,
    }
    # its own before the topology's, and those before its workload's; nothing of the first index's workload
    assert events.settings["number_of_shards"] == 2 and events.settings["codec"] == "best_compression"
    assert events.settings["number_of_replicas"] == topology.replicas
    assert events.settings["refresh_interval"] == topology.settings.index.get("refresh_interval", "20s")
    assert GRAMMAR.experiment(json.loads(json.dumps(experiment.to_json()))) == experiment
    again = loaded(tmp_path, writing.experiment(experiment, "3az"))
    assert again.to_json() | {"file": ""} == experiment.to_json() | {"file": ""}


def test_indices_in_the_cluster_have_names_that_begin_with_the_first_one_s(tmp_path: Path) -> None:
    made = Indices("chaos-17", loaded(tmp_path, INDICES))
    assert made.names == ("chaos-17", "chaos-17-events")
    assert [each.workload.name for each in made] == ["search", "logs"]
    assert len({each.alias for each in made}) == 2


def test_documents_of_any_index_may_change_and_processes_may_share_them(tmp_path: Path) -> None:
    changing = "items: 20, actions: {create: 3, update: 2, delete: 1}"
    load = loaded(
        tmp_path, INDICES.replace("items: 20", changing).replace("  indices:", "  processes: 2\n  indices:")
    ).load
    (shipper,) = (each for each in load.every if each.actions is not None)
    assert (shipper.name, shipper.index, load.processes) == ("shipper", "events", 2)
    with pytest.raises(InvalidInput, match=r"10:\d+: actions with the helper helpers.bulk are not there yet"):
        loaded(tmp_path, INDICES.replace("items: 20", f"{changing}, client: {{kind: helpers.bulk}}"))


def test_ids_may_differ_between_indices(tmp_path: Path) -> None:
    experiment = loaded(tmp_path, INDICES.replace("items: 20", "items: 20, ids: automatic"))
    assert experiment.load.automatic("events") and not experiment.load.automatic()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("index: events}\n    tail", "index: event}\n    tail", 'there is no index "event": did you mean "events"?'),
        ("documents: 30", "documents: 0", "8:41: a tail gets documents that are there before, and there are none"),
        ("  streams:", "    more: {workload: logs}\n  streams:", "9:5: no stream reads or writes the index more"),
        ("workload: logs", "workload: log", "8:24: workload: expected "),
        ("number_of_shards: 2", "number_of_replicas: 7", "number_of_replicas 7 makes 8 copies of a shard"),
        ("number_of_shards: 2", "number_of_shards: 0", "8:74: number_of_shards: expected a whole number from 1, got 0"),
        (
            "number_of_shards: 2",
            "number_of_replicas: '7'",
            "number_of_replicas: expected a whole number from 0, got '7'",
        ),
        ("number_of_shards: 2", "index.number_of_replicas: -1", "expected a whole number from 0, got -1"),
        ("number_of_shards: 2", "codec: default", "8:72: codec and index.codec are one setting: expected it once"),
        ("operation: get", "operation: search, queries: [facets]", 'there is no query "facets"'),
        ("{operation: index, ", "{operation: index, index: nowhere, ", 'there is no index "nowhere"'),
    ],
)
def test_what_is_wrong_with_indices_is_said_where_it_stands(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert INDICES.count(old) == 1
    with pytest.raises(InvalidInput) as caught:
        loaded(tmp_path, INDICES.replace(old, new, 1))
    assert says in str(caught.value), str(caught.value)


# --------------------------------------------------------------------------------------------------- monitoring

ADMIN = FILE.replace(
    "  streams:\n",
    "  streams:\n    monitor: {operation: admin, rate: 2/s, good: ok within 2s, calls: [health, cat]}\n",
)


def test_monitoring_is_a_stream_that_neither_reads_nor_writes_documents(tmp_path: Path) -> None:
    experiment = loaded(tmp_path, ADMIN)
    monitor = experiment.load.operation("monitor")
    assert monitor is not None and (monitor.operation, monitor.writes) == ("admin", False)
    assert monitor.calls == ("health", "cat")
    assert on_target.most_requests(experiment) == 2 + on_target.most_requests(loaded(tmp_path))
    experiment = loaded(tmp_path, ADMIN)
    assert GRAMMAR.experiment(json.loads(json.dumps(experiment.to_json()))) == experiment
    again = loaded(tmp_path, writing.experiment(experiment, "3az"))
    assert again.to_json() | {"file": ""} == experiment.to_json() | {"file": ""}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[health, cat]", "[health, dog]", "calls: expected state, health, stats"),
        ("operation: admin, ", "operation: get, ", "calls are of monitoring, and monitor is no admin"),
        ("calls: [health, cat]", "index: other", "monitoring calls are of the cluster and no index"),
        ("calls: [health, cat]", "items: 5", "expected no items"),
    ],
)
def test_what_is_wrong_with_monitoring_is_said(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert ADMIN.count(old) == 1
    with pytest.raises(InvalidInput) as caught:
        loaded(tmp_path, ADMIN.replace(old, new, 1))
    assert says in str(caught.value), str(caught.value)
