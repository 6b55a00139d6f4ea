"""Indices of a load that are data streams, or aliases that are rolled over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from chaos.base.errors import InvalidInput
from chaos.definitions import writing
from chaos.definitions.experiment import Experiment
from chaos.definitions.schema import schema_of
from chaos.registry import GRAMMAR, load_experiment
from chaos.run.indices import Indices

FILE = """\
apiVersion: opensearch-chaos/v1
name: rolled
topology: 3az
load:
  workload: logs
  documents: 100
  data_stream: true
  rollover: {every: 20s}
  read: {rate: 10/s, good: ok within 1s}
  write: {operation: bulk, items: 10, rate: 2/s, good: ok within 2s}
  indices:
    notes: {workload: search, alias: true, rollover: {documents: 1000}}
    plain: {workload: search, documents: 10}
    times: {workload: timed.yaml, data_stream: {timestamp_field: when}}
  streams:
    author: {operation: index, rate: 5/s, good: ok within 1s, index: notes}
    other: {operation: get, rate: 5/s, good: ok within 1s, index: plain}
    clock: {operation: bulk, items: 2, rate: 1/s, good: ok within 1s, index: times}
phases:
  healthy: {for: 60s}
expect:
  - {rollovers.done: ">= 2"}
"""
TIMED = """\
apiVersion: opensearch-chaos/v1
kind: workload
name: timed
fields:
  when: {type: date, step: 1s}
  maybe: {type: date, nulls: 10%}
  word: {type: keyword, values: [a, b]}
"""


def loaded(folder: Path, text: str = FILE) -> Experiment:
    path = folder / "rolled.yaml"
    path.write_text(text)
    (folder / "timed.yaml").write_text(TIMED)
    return load_experiment(path)


def test_they_go_there_and_back_by_normal_form_and_by_yaml(tmp_path: Path) -> None:
    experiment = loaded(tmp_path)
    found = {name: (each.rolled, each.data_stream) for name, each in experiment.load.places.items()}
    assert found == {
        None: ("data_stream", "@timestamp"),
        "notes": ("alias", None),
        "plain": (None, None),
        "times": ("data_stream", "when"),
    }
    normal = json.loads(json.dumps(experiment.to_json()))
    assert normal["load"]["data_stream"] == "@timestamp" and normal["load"]["rollover"] == {"every": 20.0}
    assert "alias" not in normal["load"] and "rollover" not in normal["load"]["indices"][1]
    assert GRAMMAR.experiment(normal) == experiment
    again = loaded(tmp_path, writing.experiment(experiment, "3az"))
    assert again.to_json() | {"file": ""} == experiment.to_json() | {"file": ""}
    jsonschema.validate(YAML(typ="safe").load(FILE), schema_of("experiment", GRAMMAR))


def test_a_load_of_plain_indices_keeps_its_normal_form(tmp_path: Path) -> None:
    plain = FILE.replace("  data_stream: true\n  rollover: {every: 20s}\n", "").replace(
        "alias: true, rollover: {documents: 1000}", "documents: 5"
    )
    plain = plain.replace('rollovers.done: ">= 2"', "acknowledged.lost: 0")
    load = loaded(tmp_path, plain).to_json()["load"]
    assert not {"data_stream", "alias", "rollover"} & {*load, *load["indices"][0], *load["indices"][1]}


def test_each_is_written_by_the_name_that_makes_nothing_anew(tmp_path: Path) -> None:
    indices = Indices("chaos", loaded(tmp_path))
    assert [(each.index, each.alias, each.config.rolled) for each in indices] == [
        ("chaos", None, "data_stream"),  # which has no alias
        ("chaos-notes", "chaos-notes", "alias"),
        ("chaos-plain", "chaos-plain-writes", None),
        ("chaos-times", None, "data_stream"),
    ]


@pytest.mark.parametrize(
    ("was", "now", "at", "says"),
    [
        ("  data_stream: true", "  workload: documents", 7, "only a data stream or an alias is rolled over"),
        ("data_stream: true\n", "data_stream: true\n  alias: true\n", 8, "a data stream is no alias"),
        ("{every: 20s}", "{every: 20s, documents: 5}", 8, "expected either every or documents"),
        ("{every: 20s}", "{every: 500ms}", 8, "a new index every 500ms is more than a cluster bears"),
        ("{every: 20s}", "{}", 8, "expected either every or documents"),
        (
            "workload: logs",
            "workload: search",
            7,
            "the workload search has no field @timestamp, and a data stream needs",
        ),
        ("field: when", "field: word", 14, "the workload timed has word as a keyword"),
        ("field: when", "field: maybe", 14, "documents with none, or several, of maybe"),
        ("operation: index,", "operation: index, ids: automatic,", 16, "only bulks may leave ids"),
        (
            "operation: bulk, items: 10",
            "operation: index",
            10,
            "created, and not written by id: expected operation: bulk",
        ),
        (
            "items: 10,",
            "items: 10, ids: automatic,",
            10,
            "documents of a data stream without ids of ours are not there",
        ),
        ("items: 2,", "items: 2, client: {kind: helpers.bulk},", 18, "helpers.bulk on a data stream is not there yet"),
        (
            "{rate: 10/s,",
            "{operation: get, rate: 10/s,",
            9,
            "a data stream has several indices, and a get looks in one",
        ),
        (
            "author: {operation: index",
            "author: {operation: get",
            16,
            "an alias has several indices, and a get looks in one: expected operation: search",
        ),
        ("  documents: 100\n", "  documents: 100\n  cas: {rate: 5/s}\n", 7, "compare-and-set reads and writes"),
        ("  documents: 100\n", "  documents: 100\n  visibility: {rate: 5/s}\n", 7, "probes of visibility are"),
        ("    plain:", "    old-000001:", 13, "indices under an alias or a data stream end so"),
        (
            "healthy: {for: 60s}",
            "healthy: {until: {green: true, stable: 20s, within: 90s}}",
            20,
            "is yellow for a moment, so no cluster is green for longer",
        ),
        (
            "healthy: {for: 60s}",
            "healthy: {for: 60s, inject: {settings.change: {scope: index, settings: {refresh_interval: 5s}}}}",
            20,
            "expected no such fault, or the data stream or alias in load.indices",
        ),
    ],
)
def test_what_cannot_be_asked_of_them_is_refused(tmp_path: Path, was: str, now: str, at: int, says: str) -> None:
    assert was in FILE
    text = FILE.replace(was, now, 1)
    if "old-000001" in now:
        text = text.replace("index: plain", "index: old-000001")
    if now.endswith("documents"):
        text = text.replace("  workload: logs\n", "").replace("operation: bulk, items: 10, ", "")
    with pytest.raises(InvalidInput) as error:
        loaded(tmp_path, text)
    assert any(f"rolled.yaml:{at}:" in line and says in line for line in error.value.message.splitlines()), error.value


def test_changes_are_refused_on_a_data_stream(tmp_path: Path) -> None:
    one = FILE[: FILE.index("  indices:")] + FILE[FILE.index("phases:") :]
    text = one.replace("items: 10,", "items: 10, actions: {create: 8, update: 1},")
    with pytest.raises(InvalidInput, match="items that update or delete name documents that may be in an older index"):
        loaded(tmp_path, text)


def test_on_a_cluster_of_others_they_are_refused(tmp_path: Path) -> None:
    from types import SimpleNamespace

    from chaos.run import on_target

    one = FILE[: FILE.index("  indices:")] + FILE[FILE.index("phases:") :]
    target: Any = SimpleNamespace(written=SimpleNamespace(caps=SimpleNamespace()))
    (row,) = on_target.refused_caps(loaded(tmp_path, one), target)
    assert "data stream or an alias" in row.says


def test_a_rolled_name_whose_replicas_copy_segments_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        loaded(tmp_path, FILE.replace("topology: 3az", "topology: 3az-segrep"))
    assert str(caught.value).count("rolled over with segment replication is not there yet") == 3
    assert all(f"rolled.yaml:{line}:" in str(caught.value) for line in (7, 12, 14))
