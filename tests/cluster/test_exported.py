"""Exported documents in a real OpenSearch: template and lines are taken, and aggregations give the run's sums."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import corpuskit
import pytest
import synthetic
from opensearchpy import OpenSearch
from typer.testing import CliRunner

from chaos.cli import app
from chaos.history.failures import Failure
from chaos.history.format import Outcome
from chaos.opensearch.rest import opensearch
from chaos.opensearch.views import administer
from chaos.report.exported.catalogue import INDEX
from chaos.report.exported.source import Run
from chaos.targets.labs.local import LocalLab

STORED = "rules-2-a-node-killed"


@pytest.fixture
def client(tiny: LocalLab) -> Iterator[OpenSearch]:
    node = tiny.topology.data_nodes[0].name
    made = opensearch(tiny.administration(node), access=tiny.access_to(node))
    try:
        yield made
    finally:
        made.close()
        administer(tiny, "DELETE", f"/{INDEX}?ignore_unavailable=true")
        administer(tiny, "DELETE", "/_index_template/opensearch-chaos")


def sums(client: OpenSearch, kind: str, by: str, of: str) -> dict[tuple[str, str], float]:
    """(run, value of a field) → the sum of another one."""
    answer = client.search(
        index=INDEX,
        body={
            "size": 0,
            "query": {"term": {"kind": kind}},
            "aggs": {
                "run": {
                    "terms": {"field": "run"},
                    "aggs": {"by": {"terms": {"field": by, "size": 50}, "aggs": {"sum": {"sum": {"field": of}}}}},
                }
            },
        },
    )
    return {
        (run["key"], each["key"]): each["sum"]["value"]
        for run in answer["aggregations"]["run"]["buckets"]
        for each in run["by"]["buckets"]
    }


def test_documents_are_taken_by_the_template_and_aggregations_give_the_sums_of_each_run(
    client: OpenSearch, tmp_path: Path
) -> None:
    story = synthetic.slow_zone()
    story.failures = {Outcome.TIMEOUT: Failure.NO_SHARD}
    made = story.write(tmp_path / "made")
    with corpuskit.unpacked(STORED) as stored:
        file, template = tmp_path / "runs.ndjson", tmp_path / "template.json"
        command = ["export", str(made), str(stored), "--to", "ndjson", "-o", str(file), "--template", str(template)]
        assert CliRunner().invoke(app, command).exit_code == 0
        runs = [Run(made), Run(stored)]
    assert client.indices.put_index_template(name="opensearch-chaos", body=json.loads(template.read_text()))
    lines = file.read_text()
    for _ in range(2):  # loaded twice, each document is there once
        answer: dict[str, Any] = client.bulk(body=lines, params={"refresh": "true"})
        assert answer["errors"] is False, [item for item in answer["items"] if item["index"]["status"] >= 300][:3]
    assert client.count(index=INDEX)["count"] == len(lines.splitlines()) // 2

    for field, mine in (("scheduled", len), ("good", lambda arrivals: int(arrivals.good.sum()))):
        assert sums(client, "second", "operation", field) == {
            (run.name, op): mine(arrivals) for run in runs for op, arrivals in run.record.arrivals.items()
        }
    failed: Counter[tuple[str, str]] = Counter()
    for run in runs:
        for each in run.failed:
            failed[run.name, each.reason] += each.count
    assert failed and sums(client, "failure", "reason", "count") == failed

    worst = client.search(
        index=INDEX,
        body={
            "size": 1,
            "query": {"term": {"kind": "second"}},
            "sort": [{"availability": "asc"}, {"@timestamp": "asc"}],
        },
    )["hits"]["hits"][0]["_source"]
    assert worst["availability"] == min(each.availability for run in runs for each in run.seconds)
    phases = client.search(
        index=INDEX,
        body={
            "size": 0,
            "query": {"bool": {"filter": [{"term": {"kind": "verdict"}}, {"term": {"verdict": "fail"}}]}},
            "aggs": {"finding": {"terms": {"field": "finding", "size": 100}}},
        },
    )["aggregations"]["finding"]["buckets"]
    expected = Counter(each.id for run in runs for each in run.findings.findings if each.verdict.value == "fail")
    assert {each["key"]: each["doc_count"] for each in phases} == expected
