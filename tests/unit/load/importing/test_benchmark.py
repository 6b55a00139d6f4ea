"""Workloads in the grammar of OpenSearch Benchmark: what of them a load can have, and why not the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from unit.load.importing.test_data import log_lines

from chaos.base.errors import InvalidInput
from chaos.definitions.loading import load_workload
from chaos.load.dataset import Dataset
from chaos.load.importing import making, sources
from chaos.load.importing.rows import Row
from chaos.registry import load_experiment

WORKLOAD = """\
{% import "benchmark.helpers" as benchmark with context %}
{
  "version": 2,
  "description": "Parcels of a depot",
  "indices": [
    {"name": "parcels-1", "body": "{{ body_file | default('index.json') }}"},
    {"name": "parcels-2", "body": "index.json"},
    {"name": "vans", "body": "vans.json"}
  ],
  "corpora": [
    {"name": "parcels", "documents": [
      {"source-file": "parcels.json.gz", "document-count": 40, "target-index": "parcels-1"},
      {"source-file": "more.json.bz2", "document-count": 40}
    ]}
  ],
  "operations": [ {{ benchmark.collect(parts="operations/*.json") }} ],
  "test_procedures": [ {{ benchmark.collect(parts="procedures/*.json") }} ]
}
"""
INDEX = """\
{
  "settings": {"index.number_of_shards": {{ number_of_shards | default(4) }}, "index.number_of_replicas": 0,
               "index.requests.cache.enable": {{ cache | default(false) | tojson }}},
  "mappings": {
    "dynamic": "strict", "_source": {"enabled": {{ source | default(true) | tojson }} },
    "properties": {
      "sent": {"type": "date", "format": "strict_date_optional_time||epoch_second"},
      "depot": {"type": "keyword"},
      "weight": {"type": "half_float"},
      "label": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
      "at": {"type": "geo_point"},
      "shape": {"type": "knn_vector", "dimension": 3}
    }
  }
}
"""
OPERATIONS = """\
{"name": "index-append", "operation-type": "bulk", "bulk-size": {{ bulk_size | default(500) }},
 "ingest-percentage": 50},
{"name": "update", "operation-type": "bulk", "bulk-size": 500, "conflicts": "random", "on-conflict": "update"},
{"name": "through-a-pipeline", "operation-type": "bulk", "bulk-size": 500, "pipeline": "p"},
{"name": "all", "operation-type": "search", "index": "parcels-*", "body": {"query": {"match_all": {}}}},
{"name": "of-depot", "operation-type": "search", "index": "parcels-1",
 "body": {"query": {"term": {"depot": {"value": "north"}}}}},
{"name": "lately", "operation-type": "search",
 "body": {"query": {"range": {"sent": {"gte": "now-{{ '15-05-1998' | days_ago(now) }}d/d", "lt": "now/d"}}}}},
{"name": "a-day", "operation-type": "search",
 "body": {"query": {"range": {"sent": {"gte": "1998-05-01T00:00:00Z", "lt": "1998-05-02T00:00:00Z"}}}}},
{"name": "near", "operation-type": "search",
 "body": {"query": {"geo_distance": {"distance": "1km", "at": [1, 2]}}}},
{"name": "nowhere", "operation-type": "search", "body": {"sort": [{"colour": "asc"}]}},
{"name": "of-vans", "operation-type": "search", "index": "other-*", "body": {"query": {"match_all": {}}}},
{"name": "scroll", "operation-type": "search", "pages": 25, "results-per-page": 100,
 "body": {"query": {"match_all": {}}}},
{"name": "by-program", "operation-type": "search", "param-source": "my-source"},
{"name": "raw", "operation-type": "raw-request", "path": "/_cat"},
{"name": "grpc", "operation-type": "proto-bulk", "bulk-size": 5},
{"name": "nearest", "operation-type": "vector-search"},
{"name": "odd", "operation-type": "my-runner"}
"""
PROCEDURES = """\
{"name": "usual", "default": true, "schedule": [
  {"operation": {"operation-type": "create-index"}},
  {"operation": "index-append", "clients": {{ clients | default(8) }}, "warmup-time-period": 120},
  {"name": "later", "operation": "index-append", "clients": 2},
  {"operation": "update"}, {"operation": "through-a-pipeline"}, {"operation": "grpc"},
  {"operation": "refresh"}, {"operation": {"operation-type": "force-merge"}},
  {"operation": "all", "target-throughput": 30, "warmup-iterations": 50, "iterations": 100},
  {"parallel": {"clients": 3, "tasks": [
    {"operation": "of-depot", "target-throughput": "60 ops/s"},
    {"operation": "lately", "target-interval": 0.1}
  ]}},
  {"operation": "a-day"},
  {"operation": "near"}, {"operation": "nowhere"}, {"operation": "of-vans"}, {"operation": "scroll"},
  {"operation": "by-program"}, {"operation": "raw"}, {"operation": "nearest"}, {"operation": "odd"},
  {"name": "all-again", "operation": "all", "target-throughput": 30}
]},
{"name": "as-fast-as-it-goes", "schedule": [
  {"operation": "index-append", "clients": 4},
  {"operation": "all", "clients": 5}, {"operation": "of-depot", "clients": 2}
]},
{"name": "at-a-rate", "schedule": [
  {"operation": {"operation-type": "create-index", "settings": {"index.codec": "best_compression"}}},
  {"operation": "index-append", "target-throughput": "1000 docs/s"}
]}
"""


def folder(path: Path, **files: str) -> Path:
    """A workload of ours, in their grammar."""
    given = {
        "workload.json": WORKLOAD,
        "index.json": INDEX,
        "vans.json": '{"mappings": {"properties": {"plate": {"type": "keyword"}}}}',
        "operations/all.json": OPERATIONS,
        "procedures/all.json": PROCEDURES,
        **files,
    }
    for name, text in given.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return path


def imported(path: Path, **given: Any) -> making.Made:
    procedure, parameters = given.get("procedure"), given.get("parameters", "")
    brought = sources.bring(
        given.get("paths", [path]),
        parameters=sources.parameters(parameters),
        procedure=procedure,
        also=given.get("also", []),
    )
    return making.make(brought, name="parcels")


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> making.Made:
    return imported(folder(tmp_path_factory.mktemp("usual") / "parcels"))


def loaded(made: making.Made, tmp_path: Path) -> Any:
    file = tmp_path / "made.yaml"
    file.write_text(made.text)
    definition = load_workload(file)
    workload = Dataset(definition)
    workload.refuse_unfit()
    assert workload.content("w-7")["seq"] == 7
    for query, _ in workload.requests("INDEX", 1).mix:
        assert isinstance(json.loads(query.example(3)), dict)
    return definition


def row(made: making.Made, name: str) -> Row:
    found = [each for each in made.rows if each.name == name]
    assert len(found) == 1, (name, made.rows)
    return found[0]


def test_what_can_be_had_is_taken(usual: making.Made, tmp_path: Path) -> None:
    made, definition = usual, loaded(usual, tmp_path)
    assert list(definition.fields) == ["sent", "depot", "weight", "label", "at"]
    assert definition.settings == {"number_of_shards": 4, "requests.cache.enable": False}
    assert list(definition.queries) == ["all", "of-depot", "lately", "a-day", "near", "scroll"]
    assert definition.queries["of-depot"].find == "depot"
    assert definition.queries["of-depot"].body == {"query": {"term": {"depot": "{{depot}}"}}}
    assert definition.queries["a-day"].body["query"]["range"]["sent"] == {"gte": "{{sent - 24h}}", "lt": "{{sent}}"}
    days = definition.queries["lately"].body["query"]["range"]["sent"]["gte"]
    assert int(days.removeprefix("{{sent - ").removesuffix("h}}")) > 25 * 365 * 24  # 1998 is long ago
    near = {"geo_distance": {"distance": "1km", "at": "{{at}}"}}
    assert definition.queries["near"].body == {"query": near}
    # 30 + 60 + 10 a second, and two without a target as the rarest of these; the scroll is of a stream of its own
    shares = {"all": 248, "of-depot": 496, "lately": 83, "a-day": 83, "near": 83, "scroll": 8}
    assert dict(definition.mix) == shares
    assert made.load("./parcels.yaml") == [
        "load:",
        "  workload: ./parcels.yaml",
        "  documents: 2000",
        "  write: {clients: 8, operation: bulk, items: 500}  # a closed loop, as the source: task index-append",
        "  read: {rate: 120/s, good: ok within CONFIRM, queries: [all, of-depot, lately, a-day, near]}  # the "
        "target-throughput of all its tasks together; in the source one runs after another",
        "  streams:",
        "    reads-2: {clients: 1, operation: scroll, pages: 25, size: 100, queries: [scroll]}  # a closed loop, "
        "as the source: tasks without a target",
    ]


@pytest.mark.parametrize(
    ("name", "outcome", "why"),
    [
        ("update", "refused", "it changes documents that are there, and a load creates each of its own"),
        ("through-a-pipeline", "refused", "an ingest pipeline changes documents, and they are compared"),
        ("later", "refused", "a load has one operation that writes"),
        ("grpc", "refused", "it speaks gRPC, and the load speaks REST"),
        ("nearest", "refused", "vectors need a plugin"),
        ("raw", "refused", "what a raw request does is not known, so neither is what is right"),
        ("odd", "refused", "an operation of type my-runner, which a load does not have"),
        ("by-program", "refused", "its requests are made by a program (param-source my-source)"),
        (
            "scroll",
            "changed",
            "all its pages are read by its query alone: no sort, and no aggregations",
        ),
        (
            "near",
            "changed",
            "it has no target-throughput, and one stream reads: it is drawn as the rarest of the others; points of at "
            "became points that documents have",
        ),
        ("nowhere", "refused", "there is no field colour"),
        ("of-vans", "refused", "it searches in other-*, which is none of the workload's indices"),
        ("vans", "refused", "a load has one index, and this differs from parcels-1"),
        ("create-index", "left out", "a run makes its index and takes it away"),
        ("refresh", "left out", "the index is refreshed at its interval"),
        ("all-again", "left out", "a task before has the same search"),
        ("shape", "left out", "its type knn_vector needs a plugin"),
        ("parcels-1", "changed", "one index for 2 that are defined alike: parcels-1, parcels-2"),
        ("all", "taken", ""),
        ("of-depot", "changed", "values of depot became values that documents have"),
    ],
)
def test_what_cannot_be_had_is_told_by_name_with_the_reason(
    usual: making.Made, name: str, outcome: str, why: str
) -> None:
    made = usual
    rows = [each for each in made.rows if each.name == name and each.what != "tasks"]
    assert [(each.outcome, each.why) for each in rows] == [(outcome, why)]
    assert outcome == "taken" or f"# {rows[0].said()}" in made.text.splitlines()


def test_what_every_task_has_and_a_load_has_not_is_told_once(usual: making.Made) -> None:
    (whole,) = (each for each in usual.rows if each.what == "tasks")
    assert whole.why.startswith("without warm-up, ingest-percentage, iterations:")


def test_the_users_documents_say_what_made_ones_are_like(tmp_path: Path) -> None:
    import gzip

    path = folder(tmp_path / "parcels")
    documents = [
        {"sent": 894_000_000 + 60 * n, "depot": f"d{n % 4}", "weight": n / 8, "label": f"parcel number {n} of many"}
        for n in range(40)
    ]
    with gzip.open(path / "parcels.json.gz", "wt") as file:
        file.write("".join(json.dumps(each) + "\n" for each in documents))
    made = imported(path)
    definition = loaded(made, tmp_path)
    assert definition.fields["depot"].values == ("d0", "d1", "d2", "d3")
    assert definition.fields["sent"].format == ("epoch_second",) and definition.fields["sent"].step == 60
    assert definition.fields["weight"].range == (0, 4.875) and definition.fields["weight"].decimals == 3
    assert row(made, "parcels.json.gz").outcome == "changed"
    assert (
        row(made, "more.json.bz2").why
        == "the file is not there, and nothing is downloaded: bring it beside workload.json"
    )
    assert "# Values of documents stand in this file: depot." in made.text


def test_parameters_and_the_test_procedure_are_the_users(tmp_path: Path) -> None:
    path = folder(tmp_path / "parcels")
    made = imported(path, parameters="number_of_shards:2,cache:true,bulk_size:20000,clients:200")
    definition = loaded(made, tmp_path)
    assert definition.settings == {"number_of_shards": 2, "requests.cache.enable": True}
    assert "20000 documents a bulk became 10000; 200 clients became 64" in row(made, "index-append").why
    made = imported(path, procedure="as-fast-as-it-goes")
    assert made.load("x.yaml")[3:] == [
        "  write: {clients: 4, operation: bulk, items: 500}  # a closed loop, as the source: task index-append",
        "  read: {rate: CONFIRM/s, good: ok within CONFIRM}  # 5 clients in a closed loop in the source; one operation "
        "must have a rate",
    ]
    made = imported(path, procedure="at-a-rate")
    assert made.load("x.yaml")[3:] == [
        "  write: {rate: 2/s, good: ok within CONFIRM, operation: bulk, items: 500}  # task index-append",
        "  read: {rate: CONFIRM/s, good: ok within CONFIRM, operation: get}",
    ]
    assert row(made, "create-index").why == "a run makes its index; the settings are taken"
    assert loaded(made, tmp_path).settings["codec"] == "best_compression"
    with pytest.raises(InvalidInput, match="there is no test procedure 'usul'; did you mean \"usual\""):
        imported(path, procedure="usul")
    with pytest.raises(InvalidInput, match=r"cannot read 'a=b'; write name:value,name:value"):
        sources.parameters("a=b")


SCROLLED = """\
{"name": "usual", "schedule": [
  {"operation": "index-append", "target-throughput": "1000 docs/s"},
  {"operation": "scroll", "target-throughput": 2}, {"operation": "all", "target-throughput": 5}
]},
{"name": "closed", "schedule": [{"operation": "index-append", "target-throughput": 500}, {"operation": "all-pages"}]},
{"name": "after", "schedule": [{"operation": "index-append"}, {"operation": "in-time"}, {"operation": "scroll"}]},
{"name": "elsewhere", "schedule": [{"operation": "of-other"}, {"operation": "all", "target-throughput": 5}]}
"""
PAGED = """\
{"name": "all-pages", "operation-type": "scroll-search", "results-per-page": 2000, "body": {}},
{"name": "of-other", "operation-type": "scroll-search", "index": "other", "body": {"query": {"match_all": {}}}},
{"name": "in-time", "operation-type": "paginated-search", "pages": 4, "body": {"size": 50, "sort": [{"sent": "asc"}]}},
"""


@pytest.mark.parametrize(
    ("procedure", "reads", "rows"),
    [
        (
            "usual",
            [
                "  read: {rate: 2/s, good: ok within CONFIRM, operation: scroll, pages: 25, size: 100, queries: "
                "[scroll]}",
                "  streams:",
                "    reads-2: {rate: 5/s, good: ok within CONFIRM, operation: search, queries: [all]}  # the target",
            ],
            {
                "scroll": ("changed", "all its pages are read by its query alone: no sort, and no aggregations"),
                "all": ("taken", ""),
            },
        ),
        (
            "closed",
            ["  read: {clients: 1, operation: scroll, pages: 25, size: 2000}  # a closed loop, as the source: tasks"],
            {"all-pages": ("changed", "all its pages are read by its query alone: no sort, and no aggregations; all")},
        ),
        (
            "after",
            [
                "  read: {rate: CONFIRM/s, good: ok within CONFIRM, operation: point-in-time, pages: 4, size: 50, "
                "queries: [in-time]}  # 1 clients in a closed loop in the source; one operation must have a rate",
                "  streams:",
                "    reads-2: {clients: 1, operation: scroll, pages: 25, size: 100, queries: [scroll]}  # a closed",
            ],
            {
                "in-time": (
                    "changed",
                    "all its pages are read by its query alone: no sort, and no aggregations; its pages are of one",
                ),
                "scroll": ("changed", "all its pages are read"),
            },
        ),
        (
            "elsewhere",
            ["  read: {rate: 5/s, good: ok within CONFIRM}  # the target-throughput"],
            {"of-other": ("refused", "it searches in other, which is none of"), "all": ("taken", "")},
        ),
    ],
)
def test_searches_that_go_through_pages_are_reads_through_pages(
    tmp_path: Path, procedure: str, reads: list[str], rows: dict[str, tuple[str, str]]
) -> None:
    files = {"procedures/all.json": SCROLLED, "operations/all.json": PAGED + OPERATIONS}
    made = imported(folder(tmp_path / "parcels", **files), procedure=procedure)
    loaded(made, tmp_path)
    lines = made.load("./parcels.yaml")
    assert [line[: len(wanted)] for line, wanted in zip(lines[-len(reads) :], reads, strict=True)] == reads
    for name, (outcome, why) in rows.items():
        found = [each for each in made.rows if each.name == name and each.what != "tasks"]
        assert [(each.outcome, each.why[: len(why)]) for each in found] == [(outcome, why)]
    (tmp_path / "parcels.yaml").write_text(made.text)
    phases = "phases: {healthy: {for: 30s}}\nexpect: [{acknowledged.lost: 0}]"
    text = "\n".join(["apiVersion: opensearch-chaos/v1", "name: x", "topology: 3az", *lines, phases])
    (tmp_path / "x.yaml").write_text(text.replace("CONFIRM", "1").replace("within 1", "within 1s"))
    load = load_experiment(tmp_path / "x.yaml").load
    paged = [each for each in load.every if each.pages]
    assert bool(paged) == (procedure != "elsewhere") and len(load.every) == 1 + sum("{" in each for each in reads)


def test_a_slow_log_beside_it_says_how_often_and_leaves_its_pages(tmp_path: Path) -> None:
    path, log = folder(tmp_path / "parcels", **{"procedures/all.json": SCROLLED}), tmp_path / "slow.log"
    log.write_text(log_lines(100, 1)[0])
    for paths in ([path, log], [log, path]):
        lines = imported(tmp_path, paths=paths).load("x.yaml")
        scrolls = [line for line in lines if "operation: scroll, pages: 25, size: 100, queries: [scroll]" in line]
        assert len(scrolls) == 1 and "rate: 2/s" in scrolls[0] and lines.count("  streams:") == 1
        says = "100 searches in 50 s" if paths[-1] == log else "the target-throughput of all its tasks together"
        (others,) = (line for line in lines if "queries: [" in line and line not in scrolls)
        assert says in others and "term-customer" not in others  # there is no such field


def test_a_source_that_is_not_kept_is_kept(tmp_path: Path) -> None:
    made = imported(folder(tmp_path / "parcels"), parameters="source:false")
    assert row(made, "_source").why == "it is kept whole, for the read-back compares it"
    assert "_source" not in loaded(made, tmp_path).mapping


def test_files_of_another_folder_are_read_where_the_user_says_so(tmp_path: Path) -> None:
    path = folder(
        tmp_path / "parcels", **{"procedures/all.json": '{{ benchmark.collect(parts="../../common/*.json") }}'}
    )
    (tmp_path / "common").mkdir()
    (tmp_path / "common/usual.json").write_text(PROCEDURES)
    with pytest.raises(InvalidInput, match=r"it reads \.\./common, which is outside its folder; name that folder"):
        imported(path)
    assert "all" in loaded(imported(path, also=[tmp_path / "common"]), tmp_path).queries


def test_files_are_put_together_as_text_first(tmp_path: Path) -> None:
    """A variable that is set around a part is there in it, as OpenSearch Benchmark's own workloads need it."""
    parts = '{% with rate=7 %}{{ benchmark.collect(parts="part.txt") }}{% endwith %}'
    part = '{"name": "usual", "schedule": [{"operation": "all", "target-throughput": {{ rate }}}]}'
    path = folder(tmp_path / "parcels", **{"procedures/all.json": parts, "procedures/part.txt": part})
    assert "rate: 7/s" in imported(path).load("x")[-1]
    helped = WORKLOAD.replace("operations/*.json", "operations/*.json").replace(
        'benchmark.collect(parts="operations/*.json")', "benchmark.collect(parts=where)"
    )
    path = folder(tmp_path / "helped", **{"workload.json": '{% set where = "operations/*.json" %}' + helped})
    assert "all" in loaded(imported(path), tmp_path).queries


def test_the_made_file_is_plain_yaml_whose_comments_hold_the_table(tmp_path: Path) -> None:
    made = imported(folder(tmp_path / "parcels", **{"vans.json": '{"mappings": {}, "x": "\\u0085\\n# not a comment"}'}))
    assert isinstance(YAML(typ="safe").load(made.text), dict)
    assert made.text.splitlines()[0].startswith("# Made by: opensearch-chaos workload import")
