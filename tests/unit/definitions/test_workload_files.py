"""A workload's file: what it may say, and what each mistake is told with its line."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fakes import ROOT

from chaos.base.errors import InvalidInput
from chaos.definitions import schema, writing
from chaos.definitions.loading import load_workload
from chaos.definitions.workload import Placeholder, WorkloadDefinition, placeholder
from chaos.registry import GRAMMAR, load_experiment
from chaos.run import plan

WORKLOAD = """\
apiVersion: opensearch-chaos/v1
kind: workload
name: orders
description: a shop's orders
fields:
  at: {type: date, step: 250ms, format: [strict_date_optional_time, epoch_millis, "yyyy-MM-dd HH:mm:ss"]}
  customer: {type: keyword, pool: 50, prefix: c-}
  status: {type: integer, values: [200, 404], weights: [9, 1]}
  price: {type: double, range: [0.5, 900], decimals: 2, nulls: 10%}
  note: {type: text, words: [3, 30]}
  tags: {type: keyword, pool: 20, array: [0, 4]}
  lines: {type: nested, array: 2, fields: {sku: {type: keyword, pool: 9}}}
settings: {index.codec: best_compression}
queries:
  mine: {find: customer, body: {query: {term: {customer: "{{customer}}"}}}}
  late: {body: {query: {range: {at: {gte: "{{at - 15m}}"}}}}}
mix: {mine: 3, late: 1}
"""
EXPERIMENT = """\
apiVersion: opensearch-chaos/v1
name: theirs
topology: 3az
load:
  workload: workloads/orders.yaml
  read: {rate: 40/s, good: ok within 1s}
  write: {rate: 20/s, good: ok within 1s}
phases: {healthy: {for: 30s}}
expect: [{acknowledged.lost: 0}]
"""


def written(folder: Path, text: str = WORKLOAD) -> Path:
    (folder / "workloads").mkdir(exist_ok=True)
    path = folder / "workloads" / "orders.yaml"
    path.write_text(text)
    return path


def experiment(folder: Path, text: str = EXPERIMENT) -> Path:
    path = folder / "theirs.yaml"
    path.write_text(text)
    return path


def template(folder: Path, content: Any) -> Path:
    path = written(folder, WORKLOAD.replace("settings: {index.codec: best_compression}", "template: team.json"))
    (path.parent / "team.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_file_is_read_and_its_normal_form_means_the_same(tmp_path: Path) -> None:
    path = written(tmp_path)
    found = load_workload(path)
    assert found.settings == {"codec": "best_compression"} and found.mix == {"mine": 3, "late": 1}
    properties = found.mapping["properties"]
    assert properties["seq"] == properties["check"] == {"type": "long"} and found.mapping["dynamic"] == "strict"
    assert properties["at"] == {
        "type": "date",
        "format": "strict_date_optional_time||epoch_millis||yyyy-MM-dd HH:mm:ss",
    }
    assert properties["lines"] == {"type": "nested", "properties": {"sku": {"type": "keyword"}}}
    again = json.loads(json.dumps(found.to_json(), sort_keys=True))
    assert WorkloadDefinition.from_json(again) == found
    assert list(WorkloadDefinition.from_json(again).fields) == list(found.fields)  # their order decides what is drawn


def test_it_is_as_the_published_schema_says(tmp_path: Path) -> None:
    from ruamel.yaml import YAML

    validator = jsonschema.Draft202012Validator(schema.schema_of("workload", GRAMMAR))
    data = YAML(typ="safe").load(written(tmp_path).read_text())
    validator.validate(data)
    data["fields"]["customer"]["pol"] = 3
    assert list(validator.iter_errors(data))


@pytest.mark.parametrize(
    ("wrong", "line", "says"),
    [
        (("kind: workload", "kind: topology"), 2, "of kind topology, and of kind workload was expected"),
        (("pool: 50, prefix", "pol: 50, prefix"), 7, 'unknown key "pol"'),
        (("type: keyword, pool: 50, prefix: c-", "type: keyword"), 7, "expected values, pool or hex"),
        (("type: keyword, pool: 50", "type: keywort, pool: 50"), 7, "expected keyword, text, integer"),
        (("words: [3, 30]", "words: [30, 3]"), 10, "words 30 to 3: expected least and most"),
        (("words: [3, 30]", "range: [3, 30]"), 10, "a field of type text has no range: expected values, weights, pool"),
        (("values: [200, 404]", "values: [200, x]"), 8, "'x' in a field of type integer: expected whole numbers"),
        (("values: [200, 404]", "values: [200, 3000000000]"), 8, "3000000000 does not fit into integer"),
        (("weights: [9, 1]", "weights: [9]"), 8, "1 weights for 2 values"),
        (("weights: [9, 1]", "range: [1, 3]"), 8, "values and range both say what is drawn"),
        (("keyword, pool: 20, array", "geo_point, area: [5, 0, 1, 9], array"), 11, "area 5 to 1 north and 0 to 9 east"),
        (("keyword, pool: 20, array", "geo_point, area: [0, 0, 91, 9], array"), 11, "within [-90, -180, 90, 180]"),
        (("keyword, pool: 20, array", "geo_point, area: [0, 0, 9], array"), 11, '"3" is missing'),
        (
            ("keyword, pool: 20, array", "geo_point, range: [0, 9], array"),
            11,
            "geo_point has no range: expected area, p",
        ),
        (("keyword, pool: 50, prefix: c-", "geo_point, pool: 50"), 15, "not found by exactly the values of customer"),
        (("nulls: 10%", "nulls: 100%"), 9, "nulls in every document"),
        (("array: 2, fields: {sku: {", "array: 80, fields: {sku: {array: 80, "), 12, "lines has up to 6400 values"),
        (("array: [0, 4]", "array: 0"), 11, "array 0: expected 1 or more at most"),
        (("  at: {", "  _id: {"), 6, "_id"),
        (
            ("tags: {type: keyword, pool: 20, array", "tags: {type: flat_object, fields: {a: {type: long}}, array"),
            11,
            "one object",
        ),
        (("range: {at: {gte", "terms: {customer: {index: secret, id: 1, path: x, y"), 16, "reads its own index alone"),
        (('gte: "{{at - 15m}}"', "gte: .inf"), 16, "infinity and not-a-number are no JSON"),
        (("array: [0, 4]", "array: [0, 400]"), 11, "array 0 to 400: expected least and most, 0 to 100"),
        (("fields: {sku: {type: keyword, pool: 9}}", "fields: {}"), 12, "fields: expected at least 1, got nothing"),
        (("array: 2, fields: {sku: {type: keyword, pool: 9}}", "array: 2"), 12, "has fields in it: expected fields"),
        (("  at: {", "  seq: {"), 6, "the field seq is where each document has its number"),
        (("  at: {", "  a.t: {"), 6, "a.t"),
        (("index.codec: best_compression", "final_pipeline: p"), 13, "an ingest pipeline changes documents"),
        (("index.codec: best_compression", "number_of_replicas: many"), 13, "expected a whole number from 0"),
        (("index.codec: best_compression", "index.uuid: x"), 13, "belongs to an index that exists"),
        (('customer: "{{customer}}"', 'customer: "{{costumer}}"'), 15, "there is no field costumer: did you mean"),
        (('customer: "{{customer}}"', 'customer: "c-{{customer}}"'), 15, "cannot read 'c-{{customer}}'"),
        (('customer: "{{customer}}"', 'customer: "{{word of customer}}"'), 15, "expected a text, to take a word of"),
        (('customer: "{{customer}}"', 'customer: "{{lines}}"'), 15, "expected one that holds values"),
        (('"{{at - 15m}}"', '"{{at - 15}}"'), 16, "15 has no unit"),
        (('"{{at - 15m}}"', '"{{price - 15m}}"'), 16, "expected a date, to be moved"),
        (("find: customer", "find: note"), 15, "documents are not found by exactly the values of note"),
        (("find: customer", "find: nothing"), 15, "there is no field nothing"),
        (("find: customer", "find: tags"), 15, "what it finds must follow from tags alone"),
        (("find: customer, body: {", "find: customer, body: {min_score: 1, "), 15, "min_score change what is found"),
        (("find: customer, body: {", "find: customer, body: {track_total_hits: false, "), 15, "track_total_hits"),
        (("pool: 50, prefix: c-", "hex: 8"), 15, "customer has any number of values"),
        (("late: 1", "lat: 1"), 17, "there is no query lat"),
        (("mine: 3, late: 1", "mine: 3"), 17, "late would never be sent"),
    ],
)
def test_a_mistake_has_its_place(tmp_path: Path, wrong: tuple[str, str], line: int, says: str) -> None:
    assert wrong[0] in WORKLOAD
    path = written(tmp_path, WORKLOAD.replace(*wrong))
    with pytest.raises(InvalidInput) as caught:
        load_workload(path)
    found = [each for each in caught.value.message.splitlines() if says in each]
    assert found and f"orders.yaml:{line}:" in found[0], caught.value.message


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("plain", None),
        ("{{a}}", Placeholder(("a",))),
        ("{{ a.b }}", Placeholder(("a", "b"))),
        ("{{word of a}}", Placeholder(("a",), True)),
        ("{{@timestamp - 15m}}", Placeholder(("@timestamp",), False, -900.0)),
        ("{{at + 2h}}", Placeholder(("at",), False, 7200.0)),
    ],
)
def test_what_stands_for_a_value(text: str, means: Placeholder | None) -> None:
    assert placeholder(text) == means


@pytest.mark.parametrize(
    "text", ["{{}}", "{{a", "a}}", "{{a}} b", "{{a()}}", "{{a.__class__}}x", "{{a}}{{b}}", "{{7*7}}"]
)
def test_anything_else_in_double_braces_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="cannot read"):
        placeholder(text)


# ------------------------------------------------------------------------------- a template of one's own

TEAM = {
    "index_patterns": ["orders-*"],
    "priority": 200,
    "template": {
        "settings": {
            "index": {"codec": "best_compression", "query": {"default_field": ["note", "customer"]}},
            "number_of_replicas": "0",
        },
        "mappings": {
            "dynamic": False,
            "properties": {
                "at": {"type": "date", "format": "strict_date_optional_time||epoch_millis||yyyy-MM-dd HH:mm:ss"},
                "customer": {"type": "keyword"},
                "note": {"type": "text", "analyzer": "english"},
                "lines": {"type": "nested", "properties": {"sku": {"type": "keyword"}}},
            },
        },
    },
}


def test_an_index_template_gives_settings_and_mapping(tmp_path: Path) -> None:
    found = load_workload(template(tmp_path, TEAM))
    assert found.settings == {
        "codec": "best_compression",
        "query.default_field": ["note", "customer"],
        "number_of_replicas": 0,
    }
    assert found.mapping["dynamic"] is False and found.mapping["properties"]["note"]["analyzer"] == "english"
    assert found.mapping["properties"]["seq"] == {"type": "long"}
    assert [each.split()[0] for each in found.notes] == ["index_patterns", "priority"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"composed_of": ["base"]}, "component templates are not read"),
        (
            {"data_stream": {}, "template": {"mappings": {}, "data_stream": {"x": 1}}},
            "unknown key template.data_stream",
        ),
        ({"data_stream": {"timestamp_field": {"name": "at"}}}, "data_stream left out"),
        ({"template": {"aliases": {"orders": {}}}}, "aliases left out"),
        ({"tempalte": {}}, 'unknown key tempalte: did you mean "template"?'),
        ({"template": {"settings": {"index": {"default_pipeline": "p"}}}}, "an ingest pipeline changes documents"),
        ({"template": {"mappings": {"_source": {"enabled": False}}}}, "the read-back compares them"),
        ({"template": {"mappings": {"properties": ["at"]}}}, "it is no mapping as OpenSearch takes it"),
        ({"template": {"settings": {"index": {"x": [{"a": 1}]}}}}, "expected a list of texts or numbers"),
        ({"template": {"settings": [1]}}, "settings and mappings: expected a mapping each"),
        ({"template": {"mappings": {"_routing": {"required": True}}}}, "requires a routing"),
        ({"template": {"mappings": {"dynamic": "strict", "properties": {}}}}, "has no field at"),
        ({"template": {"mappings": {"properties": {"at": {"type": "boolean"}}}}}, "its field at is of type boolean"),
        ({"template": {"mappings": {"properties": {"seq": {"type": "keyword"}}}}}, "expected {type: long}"),
        ({"template": {"mappings": {"properties": {"customer": {"type": "text"}}}}}, "not found by exactly the values"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused_by_name(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=r"orders.yaml:\d+:\d+: ") as caught:
        load_workload(template(tmp_path, {**TEAM, **change}))
    assert says in caught.value.message


def test_a_template_that_is_no_json_says_where(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"team\.json: line 2, column 1: not JSON"):
        load_workload(template(tmp_path, '{"settings": {}\n"x": 1}'))
    path = template(tmp_path, "{}")
    (path.parent / "team.json").unlink()
    with pytest.raises(InvalidInput, match=r"orders\.yaml:13:11: team\.json: cannot be read: No such file"):
        load_workload(path)


# ------------------------------------------------------------------------------------- in an experiment


def test_an_experiment_names_a_file_beside_it_and_holds_all_of_it(tmp_path: Path) -> None:
    written(tmp_path)
    found = load_experiment(experiment(tmp_path))
    assert found.load.workload == "orders" and found.load.dataset is not None
    assert found.topology.settings.index["codec"] == "best_compression"
    again = GRAMMAR.experiment(json.loads(json.dumps(found.to_json(), sort_keys=True)))
    assert again == found and plan.digest(again) == plan.digest(found)


def test_what_the_topology_says_of_the_index_comes_first(tmp_path: Path) -> None:
    written(tmp_path, WORKLOAD.replace("index.codec: best", "number_of_replicas: 0, codec: best"))
    found = load_experiment(experiment(tmp_path))
    assert found.topology.settings.index == {
        "codec": "best_compression",
        "number_of_replicas": 2,
        "number_of_shards": 3,
    }
    none = "\n".join(
        line for line in (ROOT / "topologies" / "3az.yaml").read_text().splitlines() if "number_of_replicas" not in line
    )
    (tmp_path / "bare.yaml").write_text(none.replace("name: 3az", "name: bare"))
    found = load_experiment(experiment(tmp_path, EXPERIMENT.replace("topology: 3az", "topology: bare")))
    assert found.topology.settings.index["number_of_replicas"] == 0


def test_the_plan_s_hash_is_that_of_the_content_and_not_of_its_place(tmp_path: Path) -> None:
    path = written(tmp_path)
    first = plan.digest(load_experiment(experiment(tmp_path)))
    (tmp_path / "elsewhere.yaml").write_text(WORKLOAD)
    moved = EXPERIMENT.replace("workloads/orders.yaml", "elsewhere.yaml")
    assert plan.digest(load_experiment(experiment(tmp_path, moved))) == first
    path.write_text(WORKLOAD.replace("pool: 50", "pool: 51"))
    assert plan.digest(load_experiment(experiment(tmp_path))) != first


def test_nor_of_the_place_of_another_index_s_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are shown relative to where a command starts."""
    written(tmp_path)
    more = (
        "  indices: {events: {workload: workloads/orders.yaml}}\n"
        "  streams: {tail: {operation: search, rate: 4/s, good: ok within 2s, index: events}}\n"
    )
    path = experiment(tmp_path, EXPERIMENT.replace("  workload: workloads/orders.yaml\n", more))
    first = load_experiment(path)
    monkeypatch.chdir(tmp_path)
    again = load_experiment(path)
    assert first.load.indices[0].dataset != again.load.indices[0].dataset
    assert plan.digest(again) == plan.digest(first)


@pytest.mark.parametrize(
    ("file", "wrong", "says"),
    [
        (0, ("workloads/orders.yaml", "workloads/ordres.yaml"), "ordres.yaml: there is no such file; did you mean"),
        (0, ("workloads/orders.yaml", "orders"), "theirs.yaml:5:13: workload: expected documents"),
        (1, ("pool: 50", "pol: 50"), 'orders.yaml:7:29: unknown key "pol"'),
        (1, ("name: orders", "name: documents"), "theirs.yaml:5:13: documents is the name of a workload that comes"),
        (1, (WORKLOAD[WORKLOAD.index("queries:") :], ""), "theirs.yaml:6:3: the workload orders has no queries"),
        (1, ("index.codec: best_compression", "number_of_replicas: 7"), "number_of_replicas"),
    ],
)
def test_what_is_wrong_with_it_stops_the_experiment(
    tmp_path: Path, file: int, wrong: tuple[str, str], says: str
) -> None:
    texts = [EXPERIMENT.replace("topology: 3az", "topology: bare"), WORKLOAD]
    assert wrong[0] in texts[file]
    texts[file] = texts[file].replace(*wrong)
    bare = (
        Path("topologies/3az.yaml")
        .read_text()
        .replace("number_of_shards: 3, number_of_replicas: 2", "number_of_shards: 3")
    )
    (tmp_path / "bare.yaml").write_text(bare.replace("name: 3az", "name: bare"))
    written(tmp_path, texts[1])
    with pytest.raises(InvalidInput) as caught:
        load_experiment(experiment(tmp_path, texts[0]))
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("read", "says"),
    [
        ("read: {clients: 2}", "theirs.yaml:6:3: the workload orders has no queries: expected some there"),
        (
            "streams: {deep: {operation: scroll, pages: 2, size: 10, rate: 4/s, good: ok within 1s}}",
            "theirs.yaml:6:13: the workload orders has no queries: expected some there",
        ),
        (
            "streams: {many: {operation: msearch, searches: 2, rate: 4/s, good: ok within 1s}}",
            "theirs.yaml:6:13: the workload orders has no queries: expected some there",
        ),
        (
            "read: {operation: get, queries: [nonsense], rate: 4/s, good: ok within 1s}",
            "theirs.yaml:6:35: queries are of searches, and read sends none",
        ),
    ],
)
def test_without_queries_nothing_that_searches_is_asked_of_it(tmp_path: Path, read: str, says: str) -> None:
    """A closed loop of such searches divided by 0 in the driver."""
    written(tmp_path, WORKLOAD[: WORKLOAD.index("queries:")])
    text = EXPERIMENT.replace("read: {rate: 40/s, good: ok within 1s}", read)
    with pytest.raises(InvalidInput) as caught:
        load_experiment(experiment(tmp_path, text))
    assert says in caught.value.message


def test_one_that_is_written_anew_names_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a failure that was shrunk."""
    written(tmp_path)
    monkeypatch.chdir(tmp_path)
    found = load_experiment(experiment(tmp_path), topology=ROOT / "topologies" / "3az.yaml")
    again = tmp_path / "again.yaml"
    again.write_text(writing.experiment(found, str(ROOT / "topologies" / "3az.yaml")))
    assert "workload: workloads/orders.yaml" in again.read_text()
    assert plan.digest(load_experiment(again)) == plan.digest(found)


SIDES = "vary: {sides: {one: {}, other: {load: {workload: workloads/other.yaml}}}, times: 4, decide: [write.p99]}\n"


def test_sides_may_have_workloads_of_their_own(tmp_path: Path) -> None:
    """As of a mapping against another."""
    path = written(tmp_path)
    other = path.with_name("other.yaml")
    other.write_text(WORKLOAD.replace("name: orders", "name: other").replace("best_compression", "zlib"))
    found = load_experiment(experiment(tmp_path, EXPERIMENT + SIDES), sides=True)
    assert [each.experiment.load.workload for each in found.sides] == ["orders", "other"]
    assert [each.experiment.topology.settings.index["codec"] for each in found.sides] == ["best_compression", "zlib"]
    other.write_text(WORKLOAD.replace("pool: 50", "pol: 50"))
    with pytest.raises(InvalidInput, match=r"other\.yaml:7:29: unknown key"):
        load_experiment(experiment(tmp_path, EXPERIMENT + SIDES), sides=True)
    other.unlink()
    with pytest.raises(InvalidInput, match=r"other\.yaml: there is no such file"):
        load_experiment(experiment(tmp_path, EXPERIMENT + SIDES), sides=True)


def test_one_without_queries_can_be_read_by_id(tmp_path: Path) -> None:
    written(tmp_path, WORKLOAD[: WORKLOAD.index("queries:")])
    text = EXPERIMENT.replace("read: {", "read: {operation: get, ")
    assert load_experiment(experiment(tmp_path, text)).load.dataset is not None


def test_an_anchor_of_yaml_is_no_other_field(tmp_path: Path) -> None:
    text = textwrap.dedent("""\
        apiVersion: opensearch-chaos/v1
        kind: workload
        name: same
        fields:
          a: &one {type: text, words: 3}
          b: *one
        """)
    assert list(load_workload(written(tmp_path, text)).fields) == ["a", "b"]
