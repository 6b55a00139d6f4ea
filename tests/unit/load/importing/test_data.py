"""Documents, indices, searches and slow logs that a team has: a workload whose documents and searches are like them."""

from __future__ import annotations

import gzip
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from chaos.base.errors import InvalidInput
from chaos.definitions.loading import load_workload
from chaos.definitions.workload import WorkloadDefinition
from chaos.load.dataset import Dataset
from chaos.load.importing import bodies, making, reading, sources

TEMPLATE = {
    "index_patterns": ["orders-*"],
    "template": {
        "settings": {
            "index": {"codec": "best_compression", "query": {"default_field": ["note"]}, "uuid": "x"},
            "number_of_shards": "3",
            "number_of_replicas": "0",
            "final_pipeline": "enrich",
        },
        "mappings": {
            "dynamic": "strict",
            "properties": {
                "at": {"type": "date", "format": "strict_date_optional_time||epoch_millis||yyyy-MM-dd HH:mm:ss"},
                "customer": {"type": "keyword"},
                "buyer": {"type": "alias", "path": "customer"},
                "status": {"type": "keyword"},
                "total": {"type": "scaled_float", "scaling_factor": 100},
                "tiny": {"type": "byte"},
                "note": {"type": "text", "fields": {"raw": {"type": "keyword", "ignore_above": 256}}},
                "where": {"type": "geo_point"},
                "odd": {"type": "date", "format": "dd/MM/yyyy"},
                "a.dotted": {"type": "keyword"},
                "lines": {"type": "nested", "properties": {"sku": {"type": "keyword"}, "count": {"type": "short"}}},
            },
        },
    },
}
START = datetime(2026, 11, 27, 9, tzinfo=UTC)


def documents(number: int = 300) -> list[dict[str, Any]]:
    chance, made = random.Random(1), []
    for n in range(number):
        at = START + timedelta(seconds=7 * n)
        whole = round(at.timestamp() * 1000)
        made.append(
            {
                "at": (at.strftime("%Y-%m-%dT%H:%M:%SZ"), whole, at.strftime("%Y-%m-%d %H:%M:%S"))[n % 3],
                "born": f"19{50 + chance.randrange(50)}-0{1 + chance.randrange(9)}-11",
                "customer": f"c-{chance.randrange(40)}",
                "status": chance.choice(["open", "paid", "paid", "sent"]),
                "total": round(chance.uniform(1, 900), 2),
                "count": chance.randrange(10_000),
                "big": 2**40 + n,
                "note": " ".join(chance.choice(["late", "parcel", "gift", "red"]) for _ in range(3 + n % 9)),
                "paid": n % 4 > 0,
                "tags": [chance.choice("abc") for _ in range(n % 4)],
                "matrix": [[1, 2], [3]],
                "coupon": "XMAS" if n % 2 else None,
                "from": f"10.1.{chance.randrange(200)}.{chance.randrange(255)}",
                "lines": [{"sku": f"s{n % 90}", "count": 1 + n % 5}] * (1 + n % 3),
                "labels": {"team": "x", "http.code": 200},
                "id": f"{chance.getrandbits(64):016x}",
                "mixed": 5 if n % 2 else "five",
                "never": None,
                "odd name": 1,
            }
        )
    return made


def ndjson(path: Path, given: list[dict[str, Any]]) -> Path:
    text = "".join(json.dumps(each) + "\n" for each in given)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    elif path.suffix == ".zst":
        path.write_bytes(reading.zstd().compress(text.encode()))
    else:
        path.write_text(text)
    return path


def template(tmp_path: Path) -> Path:
    path = tmp_path / "orders-template.json"
    path.write_text(json.dumps(TEMPLATE, indent=2))
    return path


def imported(tmp_path: Path, *paths: Path, values: bool = True) -> tuple[making.Made, WorkloadDefinition]:
    made = making.make(sources.bring(paths, parameters={}, procedure=None, also=[]), name="orders", values=values)
    file = tmp_path / "made.yaml"
    file.write_text(made.text)
    definition = load_workload(file)
    workload = Dataset(definition)
    workload.refuse_unfit()
    for n in range(50):
        assert workload.content(f"w-{n}")["seq"] == n
    for query, _ in workload.requests("INDEX", 1).mix:
        assert "{{" not in query.example(7)
    return made, definition


def said(made: making.Made, name: str) -> list[tuple[str, str]]:
    return [(row.outcome, row.why) for row in made.rows if row.name == name]


# ------------------------------------------------------------------------------------------ documents


@pytest.mark.parametrize("suffix", [".ndjson", ".ndjson.gz", ".ndjson.zst"])
def test_types_and_parameters_follow_from_all_values(tmp_path: Path, suffix: str) -> None:
    made, definition = imported(tmp_path, ndjson(tmp_path / f"orders{suffix}", documents()))
    written = {name: field.model_dump(exclude_none=True) for name, field in definition.fields.items()}
    assert {name: field["type"] for name, field in written.items()} == {
        "at": "date",
        "born": "date",
        "customer": "keyword",
        "status": "keyword",
        "total": "double",
        "count": "integer",
        "big": "long",
        "note": "text",
        "paid": "boolean",
        "tags": "keyword",
        "matrix": "integer",
        "coupon": "keyword",
        "from": "ip",
        "lines": "object",
        "labels": "object",
        "id": "keyword",
        "mixed": "keyword",
    }
    at = definition.fields["at"]
    assert at.format == ("strict_date_optional_time", "epoch_millis", "yyyy-MM-dd HH:mm:ss")
    assert at.step == 7 and at.start == (START + timedelta(seconds=2100)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    born = definition.fields["born"]
    assert born.format == ("yyyy-MM-dd",) and born.pool is not None and born.step is not None and born.step >= 86_400
    assert definition.fields["customer"].pool == 40
    assert set(definition.fields["status"].values or ()) == {"paid", "open", "sent"}
    assert definition.fields["status"].weights is not None and definition.fields["status"].values[0] == "paid"  # type: ignore[index]
    total = definition.fields["total"]
    assert total.decimals == 2 and total.range is not None and 1 <= total.range[0] < 30 and 870 < total.range[1] <= 900
    assert definition.fields["note"].words == (3, 11) and definition.fields["note"].vocabulary == 4
    assert definition.fields["tags"].array == (0, 3) and definition.fields["matrix"].array == (3, 3)
    assert definition.fields["coupon"].nulls == 0.5 and definition.fields["coupon"].values == ("XMAS",)
    assert definition.fields["from"].net == "10.1.0.0/16"
    assert definition.fields["lines"].array == (1, 3) and set(definition.fields["lines"].fields or {}) == {
        "sku",
        "count",
    }
    assert set((definition.fields["labels"].fields or {})["http"].fields or {}) == {"code"}
    assert definition.fields["id"].hex == 16 and definition.fields["id"].pool is None
    assert said(made, "never") == [("left out", "no document of the sample has a value in it")]
    assert said(made, "odd name")[0][0] == "left out"
    assert "# Pools, ranges, lengths and shares of nulls are those of 300 documents." in made.text


def test_no_value_of_a_document_stands_in_the_file_where_none_may(tmp_path: Path) -> None:
    secret = [{"who": f"person-{n % 3}", "code": 4711 + n % 2, "ok": True} for n in range(100)]
    path = ndjson(tmp_path / "orders.ndjson", secret)
    made, definition = imported(tmp_path, path)
    assert "person-0" in made.text and "# Values of documents stand in this file: who, code." in made.text
    made, definition = imported(tmp_path, path, values=False)
    assert "person" not in made.text and "# Values of documents stand in this file: none." in made.text
    assert definition.fields["who"].pool == 3 and definition.fields["code"].pool == 2


def test_names_of_others_begin_no_line_of_the_file(tmp_path: Path) -> None:
    evil = {"a": 1, "b\nname: theirs\n#": 1, "c\u2028name: theirs": 1, "d\u0085name: theirs": 1}
    body = {"query": {"term": {"e\nname: theirs": 1}}}
    made, definition = imported(
        tmp_path,
        ndjson(tmp_path / "orders.ndjson", [evil, evil]),
        ndjson(tmp_path / "q.msearch", [{"index": "o"}, body]),
    )
    assert definition.name == "orders" and list(definition.fields) == ["a"]
    assert not [line for line in made.text.splitlines() if line.startswith("name: theirs")]


def test_bulk_files_and_hits_are_documents_too(tmp_path: Path) -> None:
    path = tmp_path / "orders.ndjson"
    lines: list[dict[str, Any]] = []
    for n in range(30):
        lines += [{"index": {"_index": "orders", "_id": str(n)}}, {"a": n}]
    _, definition = imported(tmp_path, ndjson(path, lines))
    assert list(definition.fields) == ["a"] and definition.fields["a"].range == (0, 29)
    hits = [{"_index": "o", "_id": "1", "_source": {"b": n}} for n in range(3)]
    _, definition = imported(tmp_path, ndjson(path, hits))
    assert list(definition.fields) == ["b"]


def test_the_mapping_of_a_template_decides(tmp_path: Path) -> None:
    made, definition = imported(tmp_path, template(tmp_path), ndjson(tmp_path / "orders.ndjson", documents()))
    assert list(definition.fields) == ["at", "customer", "status", "total", "note", "lines"]
    assert definition.fields["lines"].type == "nested"
    assert definition.settings == {
        "codec": "best_compression",
        "query.default_field": ["note"],
        "number_of_shards": 3,
        "number_of_replicas": 0,
    }
    assert definition.mapping["properties"]["a"] == {"properties": {"dotted": {"type": "keyword"}}}
    assert said(made, "final_pipeline")[0][0] == said(made, "uuid")[0][0] == "left out"
    strict = "the mapping is strict and does not have it, so OpenSearch would refuse such documents"
    assert said(made, "tags") == [("left out", strict)]


def test_a_template_alone_gives_guesses_that_its_types_can_hold(tmp_path: Path) -> None:
    made, definition = imported(tmp_path, template(tmp_path))
    assert list(definition.fields) == ["at", "customer", "status", "total", "tiny", "note", "where", "a", "lines"]
    assert definition.fields["tiny"].range == (0, 127)
    assert definition.fields["where"].area is None and said(made, "where") == []
    assert "its format dd/MM/yyyy is none of those" in said(made, "odd")[0][1]
    assert "# No documents were brought" in made.text
    (tmp_path / "index.json").write_text(json.dumps({"orders-1": TEMPLATE["template"]}))  # as GET orders-1 prints it
    _, same = imported(tmp_path, tmp_path / "index.json")
    assert same.fields == definition.fields and same.settings == definition.settings


def test_a_field_of_the_source_that_has_our_name(tmp_path: Path) -> None:
    path = ndjson(tmp_path / "orders.ndjson", [{"seq": n, "check": "x"} for n in range(3)])
    made = making.make(sources.bring([path], parameters={}, procedure=None, also=[]))
    file = tmp_path / "x.yaml"
    file.write_text(made.text)
    definition = load_workload(file)
    assert (definition.number, definition.check) == ("seq_2", "check_2") and set(definition.fields) == {"seq", "check"}


# ------------------------------------------------------------------------------------------- searches


def test_searches_as_msearch_takes_them(tmp_path: Path) -> None:
    lines = [
        *[each for n in range(3) for each in ({"index": "orders"}, {"query": {"term": {"status": f"s{n}"}}})],
        {"index": "orders", "routing": "7"},
        {"size": 0, "aggs": {"d": {"date_histogram": {"field": "at", "fixed_interval": "1h"}}}},
        {"index": "orders"},
        {"query": {"term": {"nowhere": 1}}, "sort": [{"at": "desc"}]},
    ]
    path = ndjson(tmp_path / "q.msearch", lines)
    made, definition = imported(tmp_path, path)
    assert dict(definition.mix) == {"term-status": 600, "all-aggs": 200, "term-nowhere": 200}
    assert definition.queries["term-status"].find == "status"
    assert said(made, "routing, preference")[0][0] == "left out"
    made, definition = imported(tmp_path, ndjson(tmp_path / "orders.ndjson", documents()), path)
    assert set(definition.queries) == {"term-status", "all-aggs"}
    assert said(made, "term-nowhere") == [("refused", "there is no field nowhere")]


def test_a_search_that_a_load_does_not_send_is_refused_by_name(tmp_path: Path) -> None:
    bodies_ = [
        {"query": {"term": {"a": 1}}},
        {"query": {"match_all": {}}, "slice": {"id": 0, "max": 2}},
        {"query": {"terms": {"b": {"index": "other", "id": "1", "path": "x"}}}},
        {"query": {"term": {"a": None}}},
        {"query": {"term": {"c": "{{not ours"}}, "sort": ["a"]},
        {"query": {"bool": {"must": [{"knn": {"v": {"vector": [1], "k": 2}}}, {"term": {"d": 1}}]}}},
        {"query": {"match": {"e": "x"}}, "search_pipeline": "mine"},
    ]
    path = ndjson(tmp_path / "q.msearch", [each for body in bodies_ for each in ({"index": "o"}, body)])
    made, definition = imported(tmp_path, path)
    outcomes = {row.name: (row.outcome, row.why) for row in made.rows if row.what == "search"}
    assert outcomes["all"] == ("refused", "a search of the load has no slice")
    assert outcomes["term-d"] == ("refused", "its query knn needs a plugin")
    assert outcomes["match-e"] == ("refused", "a search of the load has no search_pipeline")
    assert outcomes["terms-b"][0] == "refused" and "reads its own index alone" in outcomes["terms-b"][1]
    assert set(definition.queries) == {name for name, (outcome, _) in outcomes.items() if outcome != "refused"}


def log_lines(number: int = 200, shards: int = 3) -> tuple[str, str]:
    """A slow log as OpenSearch writes it, each search on each shard: plain, and as JSON."""
    chance, plain, as_json = random.Random(2), [], []
    for n in range(number):
        at = START + timedelta(milliseconds=500 * n)
        ms = round(at.timestamp() * 1000)
        kind = n % 10
        body: dict[str, Any]
        if kind < 6:
            term = {"customer": {"value": f"c-{chance.randrange(400)}", "boost": 1.0}}
            body = {
                "size": 20,
                "query": {"bool": {"filter": [{"term": term}], "adjust_pure_negative": True, "boost": 1.0}},
                "sort": [{"at": {"order": "desc"}}],
            }
        elif kind < 9:
            match = {
                "query": chance.choice(["late parcel", "gift"]),
                "operator": "OR",
                "prefix_length": 0,
                "boost": 1.0,
            }
            body = {"query": {"match": {"note": match}}}
        else:
            bounds = {"from": ms - 900_000, "to": ms, "include_lower": True, "include_upper": False, "boost": 1.0}
            order = [{"_count": "desc"}, {"_key": "asc"}]
            terms = {"field": "status", "size": 10, "min_doc_count": 1, "shard_min_doc_count": 0, "order": order}
            inner = {"sum": {"sum": {"field": "total"}}}
            body = {
                "size": 0,
                "query": {"range": {"at": bounds}},
                "aggregations": {"per": {"terms": terms, "aggregations": inner}},
            }
        stamp = at.strftime("%Y-%m-%dT%H:%M:%S,%f")[:-3]
        for shard in range(shards):
            text = json.dumps(body, separators=(",", ":"))
            plain.append(
                f"[{stamp}][WARN ][i.s.s.query              ] [node-{shard}] [orders-7][{shard}] took[12ms], "
                f"took_millis[12], total_hits[10 hits], stats[], search_type[QUERY_THEN_FETCH], "
                f"total_shards[{shards}], source[{text}], id[null], "
            )
            as_json.append(
                json.dumps(
                    {
                        "type": "index_search_slowlog",
                        "timestamp": stamp,
                        "level": "WARN",
                        "message": f"[orders-7][{shard}]",
                        "took_millis": "12",
                        "total_shards": str(shards),
                        "source": text,
                    }
                )
            )
    return "\n".join(plain), "\n".join(as_json)


@pytest.mark.parametrize("form", [0, 1])
def test_a_slow_log_becomes_a_weighted_mix(tmp_path: Path, form: int) -> None:
    path = tmp_path / "slow.log"
    path.write_text(log_lines()[form] + "\nnot of a search\n")
    made, definition = imported(tmp_path, template(tmp_path), path)
    assert dict(definition.mix) == {"term-customer": 600, "match-note": 300, "range-at-aggs": 100}
    assert definition.queries["term-customer"].find == "customer"
    assert definition.queries["term-customer"].body == {
        "size": 20,
        "query": {"bool": {"filter": [{"term": {"customer": "{{customer}}"}}]}},
        "sort": [{"at": {"order": "desc"}}],
    }
    assert definition.queries["match-note"].body == {"query": {"match": {"note": "{{word of note}}"}}}
    assert definition.queries["range-at-aggs"].body == {
        "size": 0,
        "query": {"range": {"at": {"gte": "{{at - 15m}}", "lt": "{{at}}"}}},
        "aggs": {
            "per": {
                "terms": {"field": "status", "size": 10, "min_doc_count": 1},
                "aggs": {"sum": {"sum": {"field": "total"}}},
            }
        },
    }
    # 200 searches in 99.5 s, although each stands there three times
    assert made.load("x.yaml")[-1].startswith(
        "  read: {rate: 2.01/s, good: ok within CONFIRM}  # 200 searches in 100 s"
    )
    assert said(made, "1 of slow.log" if len(str(path)) < 9 else f"1 of {path}") == [
        ("left out", "they are of no search")
    ]


def test_a_slow_log_alone_tells_fields_by_their_use(tmp_path: Path) -> None:
    path = tmp_path / "slow.log"
    path.write_text(log_lines()[0])
    made, definition = imported(tmp_path, path)
    assert {name: field.type for name, field in definition.fields.items()} == {
        "at": "date",
        "customer": "keyword",
        "note": "text",
        "status": "keyword",
        "total": "long",
    }
    assert said(made, "all")[0][1] == "there is neither a mapping nor documents: types follow from how searches ask"


def test_a_log_of_whole_requests(tmp_path: Path) -> None:
    path = tmp_path / "requests.log"
    path.write_text(
        "[2026-11-27T10:00:00,000][WARN ][c.s.r.slowlog            ] [n] took[5ms], took_millis[5], "
        "phase_took_millis[{query=3}], total_hits[4 hits], search_type[QUERY_THEN_FETCH], "
        "shards[{total:10, successful:10}], "
        'source[{"query":{"term":{"sku.keyword":{"value":"a]b","boost":1.0}}}}], id[]\n'
    )
    _, definition = imported(tmp_path, path)
    assert definition.queries["term-sku-keyword"].body == {"query": {"term": {"sku.keyword": "{{sku}}"}}}
    assert definition.mapping["properties"]["sku"]["fields"] == {"keyword": {"type": "keyword"}}


def test_searches_without_a_body(tmp_path: Path) -> None:
    """As ``SearchSlowLogMessage`` writes them: nothing in plain text, an empty object in JSON."""
    line = log_lines(1, 1)[0]
    path = tmp_path / "slow.log"
    as_json = {
        "type": "index_search_slowlog",
        "timestamp": "2026-11-27T10:00:00,000",
        "source": "{}",
        "total_shards": 2,
    }
    path.write_text(line[: line.index("source[")] + "source[], id[], \n" + json.dumps(as_json) + "\n")
    made, definition = imported(tmp_path, template(tmp_path), path)
    assert definition.queries["all"].body == {} and said(made, "all") == [("taken", "")]


def test_a_log_with_other_lines_and_the_fetch_phase(tmp_path: Path) -> None:
    """As a container prints all its logs; a search whose fetch was slow too is one search."""
    plain = log_lines(100, 1)[0].splitlines()
    other = ["[2026-11-27T08:00:00,000][INFO ][o.o.n.Node               ] [n] started"] * 50
    fetch = [line.replace("[i.s.s.query", "[i.s.s.fetch") for line in plain]
    path = tmp_path / "node.log"
    path.write_text("\n".join([*other, *plain, *fetch]))
    made, definition = imported(tmp_path, template(tmp_path), path)
    assert "100 searches in 50 s" in made.load("x.yaml")[-1] and len(definition.queries) == 3


PLACES = [
    ({"lat": 52.3761, "lon": 4.8971}, {"lat": 52.1, "lon": 5.9}),
    ("52.3761,4.8971", "52.1, 5.9"),
    ([4.8971, 52.3761], [5.9, 52.1]),
    ([{"lat": 52.3761, "lon": 4.8971}, {"lat": 52.2, "lon": 5.0}], [{"lat": "52.1", "lon": "5.9"}]),
    (["52.3761,4.8971", "52.2,5"], ["52.1,5.9", "52.1,5.9", "52.1,5.9"]),
]
NEAR = [{"query": {"bool": {"filter": [{"geo_distance": {"distance": "10km", "where": [n, 52]}}]}}} for n in (10, 20)]
WITHIN = {"top_left": {"lat": 53, "lon": 4.5}, "bottom_right": "52,6.25"}


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("places", PLACES)
def test_points_lie_where_those_of_the_sample_do(tmp_path: Path, places: tuple[Any, Any], mapped: bool) -> None:
    """However they are written; without a mapping searches say that they are points."""
    lines = [each for body in NEAR for each in ({"index": "orders"}, body)]
    sample = ndjson(tmp_path / "x.ndjson", [{"customer": f"c-{n}", "where": places[n % 2]} for n in range(40)])
    paths = [*([template(tmp_path)] if mapped else []), sample, ndjson(tmp_path / "q.msearch", lines)]
    made, definition = imported(tmp_path, *paths)
    where = definition.fields["where"]
    assert (where.type, where.area) == ("geo_point", (52.1, 4.89, 52.38, 5.9))
    several = isinstance(places[0], list) and not isinstance(places[0][0], float)
    assert (where.array is not None) == several
    assert definition.mapping["properties"]["where"] == {"type": "geo_point"}
    (name,) = definition.queries
    assert name == "geo-where" and said(made, name) == [
        ("changed", "points of where became points that documents have")
    ]
    assert definition.queries[name].body == {
        "query": {"bool": {"filter": [{"geo_distance": {"distance": "10km", "where": "{{where}}"}}]}}
    }
    (query, _), *_ = Dataset(definition).requests("INDEX", 1).mix
    near = json.loads(query.example(7))["query"]["bool"]["filter"][0]["geo_distance"]["where"]
    assert 52.1 <= near["lat"] <= 52.38 and 4.89 <= near["lon"] <= 5.9


@pytest.mark.parametrize("odd", ["u173zq", "POINT (4.9 52.4)", {"type": "Point", "coordinates": [4.9, 52.4]}, "91,4"])
def test_points_that_cannot_be_read_lie_anywhere(tmp_path: Path, odd: Any) -> None:
    sample = ndjson(tmp_path / "x.ndjson", [{"customer": f"c-{n}", "where": odd} for n in range(9)])
    _, definition = imported(tmp_path, template(tmp_path), sample)
    assert (definition.fields["where"].type, definition.fields["where"].area) == ("geo_point", None)


@pytest.mark.parametrize(
    ("kind", "asked", "area"),
    [
        ("geo_bounding_box", WITHIN, (52, 4.5, 53, 6.25)),
        ("geo_bounding_box", {"top": 53, "left": 4.5, "bottom": 52, "right": 6.25}, (52, 4.5, 53, 6.25)),
        ("geo_bounding_box", {"bottom_left": [4.5, 52], "top_right": [6.25, 53]}, (52, 4.5, 53, 6.25)),
        ("geo_polygon", {"points": ["52,5", {"lat": 53, "lon": 4.5}, [6.25, 52.5]]}, (52, 4.5, 53, 6.25)),
        ("geo_bounding_box", {"top_left": [170, 5], "bottom_right": [-170, 0]}, None),  # across the date line
        ("geo_bounding_box", {"wkt": "BBOX (4.5, 6.25, 53, 52)"}, None),
    ],
)
@pytest.mark.parametrize("mapped", [True, False])
def test_without_documents_points_lie_in_the_boxes_that_are_asked_for(
    tmp_path: Path, kind: str, asked: dict[str, Any], area: Any, mapped: bool
) -> None:
    body = {"query": {kind: {"where": asked, "validation_method": "STRICT"}}}
    queries = ndjson(tmp_path / "q.msearch", [{"index": "orders"}, body])
    made, definition = imported(tmp_path, *([template(tmp_path)] if mapped else []), queries)
    (query,) = definition.queries.values()
    assert query.body == body and definition.fields["where"].area == area
    says = [("changed", "its points lie where searches look for them: no documents say where")]
    assert said(made, "where") == (says if area else [])


def test_places_in_a_slow_log_are_one_search(tmp_path: Path) -> None:
    """As OpenSearch writes them: a point is a list, and every default stands there."""
    line = log_lines(1, 1)[0].splitlines()[0]
    head, _, rest = line.partition("source[")
    tail = rest[rest.rindex("], id[") :]
    lines = []
    for n in range(3):
        place = {"where": [4.5 + n, 52.0], "distance": 1000.0, "distance_type": "arc", "validation_method": "STRICT"}
        body = {"query": {"geo_distance": {**place, "ignore_unmapped": False, "boost": 1.0}}}
        lines.append(head + "source[" + json.dumps(body) + tail)
    path = tmp_path / "slow.log"
    path.write_text("\n".join(lines))
    _, definition = imported(tmp_path, path)
    (query,) = definition.queries.values()
    assert (
        query.body["query"]["geo_distance"]["where"] == "{{where}}" and definition.fields["where"].type == "geo_point"
    )


def test_shapes_are_no_points(tmp_path: Path) -> None:
    body = {"query": {"geo_shape": {"zone": {"shape": {"type": "envelope", "coordinates": [[0, 1], [1, 0]]}}}}}
    lines = [each for one in (body, *NEAR) for each in ({"index": "orders"}, one)]
    made, definition = imported(tmp_path, ndjson(tmp_path / "q.msearch", lines))
    assert list(definition.fields) == ["where"] and said(made, "zone") == [("left out", "no generator makes shapes")]
    outcomes = {row.name: row.outcome for row in made.rows if row.what == "search"}
    assert outcomes == {"geo-where": "changed", "all": "refused"}


def test_aggregations_by_place_name_their_field_alone() -> None:
    ranges = {"field": "where", "origin": "52.3,4.9", "ranges": [{"to": 1000}]}
    body = {"aggs": {"near": {"geo_distance": ranges}, "grid": {"geohash_grid": {"field": "where", "precision": 3}}}}
    assert {(use.path, use.how) for use in bodies.used(body)} == {("where", "geo")}


def test_what_searches_ask_of_documents_without_a_mapping_is_mapped(tmp_path: Path) -> None:
    lines = [
        {"index": "o"},
        {"query": {"nested": {"path": "lines", "query": {"term": {"lines.sku": "s1"}}}}},
        {"index": "o"},
        {"aggs": {"c": {"terms": {"field": "customer.keyword"}}}},
        {"index": "o"},
        {"query": {"range": {"born": {"gte": "1960-01-01", "lte": "1970-01-01"}}}},
    ]
    _, definition = imported(
        tmp_path, ndjson(tmp_path / "orders.ndjson", documents()), ndjson(tmp_path / "q.msearch", lines)
    )
    assert definition.fields["lines"].type == "nested"
    assert definition.mapping["properties"]["customer"]["fields"] == {"keyword": {"type": "keyword"}}
    bounds = definition.queries["range-born"].body["query"]["range"]["born"]
    assert "1950" < bounds["gte"] < bounds["lte"] < "2000" and len(definition.queries) == 3


def test_bodies_lose_what_opensearch_adds_and_nothing_else() -> None:
    body = {
        "query": {"match": {"a": {"query": "x", "operator": "AND", "boost": 2.0, "lenient": False}}},
        "aggregations": {"t": {"terms": {"field": "b", "order": [{"_key": "asc"}]}}},
    }
    assert bodies.tidied(body) == {
        "query": {"match": {"a": {"query": "x", "operator": "AND", "boost": 2.0}}},
        "aggs": {"t": {"terms": {"field": "b", "order": [{"_key": "asc"}]}}},
    }
    assert bodies.tidied({"query": {"range": {"a": {"from": 1, "to": None, "include_lower": False}}}}) == {
        "query": {"range": {"a": {"gt": 1}}}
    }


@pytest.mark.parametrize(
    ("asked", "becomes"),
    [
        ({"gte": "now-15m", "lt": "now"}, {"gte": "{{at - 15m}}", "lt": "{{at}}"}),
        ({"gte": "now-2h/h", "lte": "now-1h"}, {"gte": "{{at - 2h}}", "lte": "{{at - 1h}}"}),
        ({"gte": "2015-01-01", "lt": "2015-01-08"}, {"gte": "{{at - 168h}}", "lt": "{{at}}"}),
        ({"gte": "01/01/2015", "lte": "21/01/2015", "format": "dd/MM/yyyy"}, {"gte": "{{at - 480h}}", "lte": "{{at}}"}),
        ({"gte": "nobody knows"}, {"gte": "{{at - 24h}}"}),
        ({"lt": "2015-01-08"}, {"lt": "{{at}}"}),
    ],
)
def test_windows_of_time_keep_their_length(tmp_path: Path, asked: dict[str, str], becomes: dict[str, str]) -> None:
    path = ndjson(tmp_path / "q.msearch", [{"index": "o"}, {"query": {"range": {"at": asked}}}])
    _, definition = imported(tmp_path, template(tmp_path), path)
    (query,) = definition.queries.values()
    assert query.body == {"query": {"range": {"at": becomes}}}


def test_which_fields_a_search_names() -> None:
    body = {
        "query": {
            "function_score": {
                "query": {"multi_match": {"query": "x", "fields": ["a^2", "b*", "c"]}},
                "functions": [{"filter": {"term": {"d": 1}}}, {"gauss": {"e": {"origin": "1,2", "scale": "1km"}}}],
            }
        },
        "post_filter": {"exists": {"field": "f"}},
        "sort": ["_score", {"g": "desc"}, {"_geo_distance": {"h": [1, 2]}}],
        "aggs": {"x": {"filter": {"term": {"i": 1}}, "aggs": {"y": {"avg": {"field": "j"}}}}},
        "script_fields": {"s": {"script": {"source": "doc['k'].value"}}},
        "docvalue_fields": ["l", {"field": "m"}],
    }
    assert {use.path for use in bodies.used(body)} == set("acdefgijklm")


# --------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"a": 1,\n "b": 2}', "neither an index, documents, searches nor a slow log"),
        ("hello", "not JSON"),
        ('{"a": 1}\nhello\n', ":2: not JSON"),
        ('{"a": 1}\n[1]\n', ":2: this is no JSON object"),
        ('{"index_templates": [{}, {}]}', "2 index templates; bring one"),
        ('{"mappings": {"properties": {"a": {"type": "geo_shape"}}}}', "no field can be made of it"),
        ('{"mappings": 5}', "settings and mappings are no objects"),
    ],
)
def test_what_is_nothing_of_all_that_is_refused(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(InvalidInput) as caught:
        making.make(sources.bring([path], parameters={}, procedure=None, also=[]))
    assert says in str(caught.value)


def test_two_of_what_there_can_be_one_of(tmp_path: Path) -> None:
    other = tmp_path / "b.json"
    other.write_text(json.dumps(TEMPLATE))
    with pytest.raises(InvalidInput, match="both are an index or an index template; bring one"):
        sources.bring([template(tmp_path), other], parameters={}, procedure=None, also=[])
    with pytest.raises(InvalidInput, match="a test procedure is of a workload of OpenSearch Benchmark"):
        sources.bring([other], parameters={}, procedure="x", also=[])
