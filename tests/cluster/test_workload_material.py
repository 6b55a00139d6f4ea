"""What teams bring: an index template with a codec, a default field and no replicas; documents with arrays, nulls,
nested objects, objects of keys that nobody maps, and dates in three formats. On real nodes, read back whole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusterkit import cli, run_folder

from chaos.base.ids import cas_id, preload_id
from chaos.definitions.loading import load_workload
from chaos.history.format import Outcome
from chaos.load.dataset import Dataset
from chaos.load.known import Known
from chaos.load.right import Judge
from chaos.observe.readback import read_back
from chaos.opensearch.administration import create_index, explicit_settings, new_owner
from chaos.opensearch.requests import write_alias
from chaos.opensearch.rest import opensearch
from chaos.opensearch.views import administer, await_green
from chaos.targets.labs.local import LocalLab

pytestmark = pytest.mark.full

DOCUMENTS, KEYS, INDEX = 400, 3, "theirs"
IDS = {preload_id(n) for n in range(DOCUMENTS)} | {cas_id(n) for n in range(KEYS)}
CHANGED = preload_id(17)
TEMPLATE: dict[str, Any] = {
    "index_patterns": ["orders-*"],
    "priority": 200,
    "template": {
        "settings": {
            "index": {"codec": "best_compression", "query": {"default_field": ["note"]}},
            "number_of_replicas": "0",
        },
        "mappings": {
            "dynamic": True,
            "properties": {
                "at": {"type": "date", "format": "strict_date_optional_time||epoch_millis||yyyy-MM-dd HH:mm:ss"},
                "customer": {"type": "keyword"},
                "note": {"type": "text", "analyzer": "english"},
                "lines": {"type": "nested", "properties": {"sku": {"type": "keyword"}, "count": {"type": "short"}}},
                "labels": {"type": "flat_object"},
                "where": {"type": "geo_point"},
                "stops": {"type": "geo_point"},
            },
        },
    },
}
WORKLOAD = """\
apiVersion: opensearch-chaos/v1
kind: workload
name: orders
template: team.json
fields:
  at: {type: date, step: 250ms, format: [strict_date_optional_time, epoch_millis, "yyyy-MM-dd HH:mm:ss"]}
  customer: {type: keyword, pool: 20, nulls: 10%}
  price: {type: double, range: [0.5, 900], decimals: 2, nulls: 10%}
  note: {type: text, words: [3, 30], vocabulary: 200}
  tags: {type: keyword, pool: 20, array: [0, 4]}
  from: {type: ip, net: "2001:db8::/64"}
  paid: {type: boolean}
  where: {type: geo_point, area: [52, 4.5, 53, 6.25], nulls: 10%}
  stops: {type: geo_point, area: [-1, -1, 1, 1], array: [0, 2]}
  lines: {type: nested, array: [0, 3], fields: {sku: {type: keyword, pool: 9}, count: {type: integer, range: [1, 9]}}}
  labels: {type: flat_object, fields: {http: {type: object, fields: {code: {type: integer, values: [200, 404]}}}}}
queries:
  mine: {find: customer, body: {size: 50, query: {term: {customer: "{{customer}}"}}}}
  by-default-field: {body: {query: {query_string: {query: "{{word of note}}"}}}}
  between: {body: {query: {range: {at: {gte: "{{at - 1m}}", lt: "{{at}}"}}}, sort: [{at: desc}]}}
  inside: {body: {query: {nested: {path: lines, query: {term: {lines.sku: "{{lines.sku}}"}}}}}}
  near: {body: {query: {geo_distance: {distance: 20km, where: "{{where}}"}}}}
  within: {body: {query: {geo_bounding_box: {stops: {top_left: [-1, 1], bottom_right: [1, -1]}}}}}
  flat: {body: {query: {term: {labels.http.code: "{{labels.http.code}}"}}}}
  facets:
    body:
      size: 0
      query: {match_all: {}}
      aggs: {per: {terms: {field: customer}, aggs: {price: {avg: {field: price}}}}}
"""


EXPERIMENT = """\
apiVersion: opensearch-chaos/v1
name: theirs
topology: TOPOLOGY
load:
  workload: orders.yaml
  documents: 300
  read: {rate: 20/s, good: ok within 2s}
  write: {rate: 20/s, good: ok within 2s}
  cas: {rate: 4/s, keys: 3}
  visibility: {rate: 1/s}
phases: {healthy: {for: 15s}}
expect: [{acknowledged.lost: 0}, {cas.violations: 0}, {stale.reads: 0}, {dirty.reads: 0}]
"""


def files(folder: Path) -> Path:
    """Their workload's file, with the template beside it."""
    (folder / "team.json").write_text(json.dumps(TEMPLATE))
    (folder / "orders.yaml").write_text(WORKLOAD)
    return folder / "orders.yaml"


@pytest.fixture
def theirs(tiny: LocalLab, tmp_path: Path) -> Iterator[Dataset]:
    """Their index with their documents in it, made as a run makes it."""
    workload = Dataset(load_workload(files(tmp_path)))
    workload.refuse_unfit()
    alias, node = write_alias(INDEX), tiny.topology.data_nodes[0].name
    try:
        create_index(tiny, INDEX, workload.settings, workload.mapping, alias, new_owner())
        assert await_green(tiny, 60)[0]
        client = opensearch(tiny.administration(node), access=tiny.access)
        workload.preload(client, DOCUMENTS, INDEX, keys=KEYS, alias=alias)
        yield workload
    finally:
        administer(tiny, "DELETE", f"/{INDEX}?ignore_unavailable=true")


def test_their_template_and_their_documents_work(tiny: LocalLab, theirs: Dataset) -> None:
    settings = explicit_settings(tiny, INDEX, through=tiny.topology.data_nodes[0].name)
    assert settings is not None
    wanted = {"index.codec": "best_compression", "index.number_of_replicas": "0"}
    assert {name: settings.get(name) for name in wanted} == wanted
    assert "note" in str([value for name, value in settings.items() if name.startswith("index.query.default_field")])

    known = Known(theirs.found_by, DOCUMENTS, keys=KEYS)
    judge = Judge(theirs, known, INDEX, shards=1, copies=1)
    requests = theirs.requests(INDEX, DOCUMENTS)
    found, hits = Counter[Outcome](), Counter[str]()
    for k in range(120):
        request = requests.of("search", k)
        sent = judge.sent("search", k, request, request.path, 0)
        status, answer = administer(tiny, request.method, request.path, json.loads(str(request.body)))
        judged = judge.of(sent, status, json.dumps(answer), 0)
        assert judged.says == "", (request.body, judged.says)
        found[judged.outcome] += 1
        hits[next(iter(json.loads(str(request.body))["query"]))] += answer["hits"]["total"]["value"]
    assert found == {Outcome.OK: 120}
    assert min(hits.values()) > 0 and len(hits) == 7, hits  # each kind of query finds something

    read = read_back(tiny, INDEX, IDS, workload=theirs, sleep=lambda _: None)
    assert read["complete"] and read["lost_count"] == read["wrong_content_count"] == 0, read
    assert read["content"]["documents"] == DOCUMENTS + KEYS and read["content"]["reason"] is None


def test_a_document_of_theirs_that_somebody_changed_is_found(tiny: LocalLab, theirs: Dataset) -> None:
    changed = {**theirs.content(CHANGED), "lines": [{"sku": "nobody-s", "count": 1}]}
    assert administer(tiny, "PUT", f"/{INDEX}/_doc/{CHANGED}?refresh=true", changed)[0] == 200
    read = read_back(tiny, INDEX, IDS, workload=theirs, sleep=lambda _: None)
    assert read["wrong_content"] == [CHANGED]
    (wrong,) = read["wrong_source"]
    assert wrong["id"] == CHANGED and wrong["says"].startswith("lines: expected [")


def test_a_run_by_their_file_is_judged_and_read_back(tiny: LocalLab, tmp_path: Path, out: Path) -> None:
    files(tmp_path)
    file = tmp_path / "theirs.yaml"
    file.write_text(EXPERIMENT.replace("TOPOLOGY", str(Path(__file__).parent / "data" / "tiny.yaml")))
    code, output = cli("run", file, "--out", out, "--on", tiny.id)
    folder = run_folder(out)
    assert folder is not None, output
    assert code == 0, output
    findings = json.loads((folder / "findings.json").read_text())
    found = {each["metric"]: each["verdict"] for each in findings["findings"]}
    assert found["wrong.answers"] == found["documents.unexpected"] == found["cas.violations"] == "pass", found
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["topology"]["settings"]["index"]["codec"] == "best_compression"
    assert plan["experiment"]["load"]["dataset"]["mapping"]["properties"]["note"]["analyzer"] == "english"
    read = json.loads((folder / "history" / "readback.json").read_text())
    assert read["complete"] and read["content"]["documents"] == read["content"]["of"] == read["documents"] > 600
