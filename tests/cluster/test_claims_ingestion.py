"""What the sources claim of bulks, refresh, flush, merges, replicas and mappings, asked of one real cluster.

Each test is named after the claim in ``docs/claims.yaml`` whose answer it shows, and asserts what OpenSearch does, also
where that contradicts the claim. What needs load and comparison is an experiment with sides, not here.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from claimskit import (
    GREEN_SECONDS,
    INDEX,
    ask,
    bulk,
    cluster_setting,
    copies,
    create,
    drop,
    hits,
    lab_of,
    node_ids,
    settings_of,
)

from chaos.base.waiting import wait_until
from chaos.opensearch.views import administer, await_green
from chaos.targets.labs.local import LocalLab

pytestmark = pytest.mark.full
NODES = ("a-data", "b-data", "c-data")


@pytest.fixture(scope="module")
def lab() -> Iterator[LocalLab]:
    """Three zones, a cluster manager and a data node each."""
    with lab_of("3az") as made:
        yield made


@pytest.fixture(autouse=True)
def _no_index_is_left(lab: LocalLab) -> Iterator[None]:
    yield
    drop(lab)


def refresh(lab: LocalLab, name: str = INDEX) -> None:
    assert administer(lab, "POST", f"/{name}/_refresh")[0] == 200


def stats(lab: LocalLab, metric: str, name: str = INDEX) -> dict[str, Any]:
    """Statistics of all primaries of an index."""
    status, answer = administer(lab, "GET", f"/{name}/_stats?filter_path=_all.primaries.{metric}")
    assert status == 200
    return dict(answer["_all"]["primaries"][metric])


def read_bytes(lab: LocalLab, node: str) -> int:
    """Bytes that a node's process has read by system calls, from files and sockets (``rchar`` of proc(5)). Lucene maps
    segments into memory, which is not counted; the translog is read by calls."""
    identity = lab.identity(node)
    assert identity is not None
    lines = dict(line.split(": ") for line in Path(f"/proc/{identity.pid}/io").read_text().splitlines())
    return int(lines["rchar"])


def write(lab: LocalLab, id: str) -> dict[str, Any]:
    """The answer to one new document, through the node of the primary."""
    (node,) = copies(lab, "p")
    status, answer = ask(lab, node, "PUT", f"/{INDEX}/_doc/{id}", {"written": time.time()}, timeout=90)
    assert status == 201, answer
    return dict(answer)


def test_in_4_a_bulk_answers_200_with_failures_inside(lab: LocalLab) -> None:
    create(lab, {"number_of_shards": 1}, {"n": {"type": "integer"}})
    answer = bulk(lab, [("1", {"n": 1}), ("2", {"n": "no number"}), ("3", {"n": 3})])
    assert answer["errors"] is True
    assert [item["index"]["status"] for item in answer["items"]] == [201, 400, 201]
    refresh(lab)
    assert hits(lab) == 2


def test_in_4_a_bulk_that_is_sent_again_is_stored_once_with_ids_of_its_own_and_twice_without(lab: LocalLab) -> None:
    create(lab, {"number_of_shards": 1}, {"n": {"type": "integer"}})
    for _ in range(2):
        assert bulk(lab, [("1", {"n": 1}), ("2", {"n": 2})])["errors"] is False
    refresh(lab)
    assert hits(lab) == 2
    for _ in range(2):
        assert bulk(lab, [(None, {"n": 3}), (None, {"n": 4})])["errors"] is False
    refresh(lab)
    assert hits(lab) == 6


def test_in_14_all_primaries_may_gather_on_one_node_and_stay_there_by_default(lab: LocalLab) -> None:
    """Here of an index that was made while the other nodes were drained."""
    with cluster_setting(lab, "cluster.routing.allocation.exclude._name", ",".join(NODES[1:])):
        create(lab, {"number_of_shards": 3, "number_of_replicas": 2}, active=1)
    assert await_green(lab, GREEN_SECONDS, stable=5)[0]
    assert copies(lab, "p") == [NODES[0]] * 3  # each node has three copies, so nothing seems to be out of balance


def test_in_16_the_refresh_interval_is_set_for_an_index_or_for_the_cluster(lab: LocalLab) -> None:
    own, default = f"{INDEX}-own", f"{INDEX}-default"
    with cluster_setting(lab, "cluster.default.index.refresh_interval", "60s"):
        create(lab, {"number_of_shards": 1, "refresh_interval": "100ms"}, name=own)
        create(lab, {"number_of_shards": 1}, name=default)
        for name in (default, own):
            assert bulk(lab, [("1", {"n": 1})], name=name)["errors"] is False
        assert wait_until(lambda: hits(lab, own) == 1, 10)
        assert hits(lab, default) == 0  # though it was written before
        refresh(lab, default)
        assert hits(lab, default) == 1


@pytest.mark.parametrize(("replication", "at_once"), [("DOCUMENT", True), ("SEGMENT", False)])
def test_in_16_replicas_have_a_document_before_it_is_acknowledged_unless_they_copy_segments(
    lab: LocalLab, replication: str, at_once: bool
) -> None:
    """Asked of the replica's node by a realtime GET, while no refresh is due."""
    create(lab, {"number_of_shards": 1, "refresh_interval": "-1", "replication.type": replication})
    assert await_green(lab, GREEN_SECONDS)[0]
    assert bulk(lab, [("1", {"n": 1})])["errors"] is False
    (replica,) = copies(lab, "r")
    there = f"/{INDEX}/_doc/1?preference=_only_nodes:{node_ids(lab)[replica]}"
    assert (administer(lab, "GET", there)[0] == 200) is at_once
    refresh(lab)
    assert wait_until(lambda: administer(lab, "GET", there)[0] == 200, 20)


def test_in_17_a_flush_reads_no_translog_and_makes_no_segment_of_it(lab: LocalLab) -> None:
    """Segments are made of what is in memory, by a refresh too; a flush commits them and begins a new translog."""
    only = {"routing.allocation.require._name": NODES[1]}
    create(lab, {"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "-1", **only})
    for part in range(40):
        documents = [(f"{part}-{n}", {"text": secrets.token_hex(1200)}) for n in range(200)]
        assert bulk(lab, documents)["errors"] is False
    refresh(lab)
    translog, segments = stats(lab, "translog")["uncommitted_size_in_bytes"], stats(lab, "segments")["count"]
    assert translog > 16 << 20 and segments >= 1 and hits(lab) == 8000  # found, though nothing is committed

    before = read_bytes(lab, NODES[1])
    assert administer(lab, "POST", f"/{INDEX}/_flush?force=true&wait_if_ongoing=true")[0] == 200
    read = read_bytes(lab, NODES[1]) - before
    assert stats(lab, "translog")["uncommitted_size_in_bytes"] < translog / 100
    assert stats(lab, "segments")["count"] <= segments and hits(lab) == 8000
    assert read < translog / 10, (read, translog)

    # This measurement sees what does read the translog: a realtime GET of a document that is in no segment yet, once
    # the index was asked for such a one before.
    large = {"text": [secrets.token_hex(1000) for _ in range(100)]}
    for _ in range(2):
        assert bulk(lab, [(f"large-{n}", large) for n in range(10)])["errors"] is False
        before = read_bytes(lab, NODES[1])
        for n in range(10):
            assert administer(lab, "GET", f"/{INDEX}/_doc/large-{n}")[0] == 200
    assert read_bytes(lab, NODES[1]) - before > 10 * 100 * 2000


def test_in_18_larger_segments_merge_less_often(lab: LocalLab) -> None:
    merges = {}
    for name, size in (("small", 20), ("large", 1000)):
        index = f"{INDEX}-{name}"
        create(lab, {"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "-1"}, name=index)
        for first in range(0, 4000, size):
            documents = [(str(n), {"text": secrets.token_hex(128)}) for n in range(first, first + size)]
            assert bulk(lab, documents, "?refresh=true", index)["errors"] is False
        assert wait_until(lambda index=index: stats(lab, "merges", index)["current"] == 0, 30)  # type: ignore[misc]
        merges[name] = stats(lab, "merges", index)["total"]
    assert merges["small"] > 3 * merges["large"], merges


def test_or_21_flat_object_avoids_an_explosion_of_field_mappings(lab: LocalLab) -> None:
    """The documents have 1,800 names in all; the limit of a mapping is 1,000 fields by default."""
    dynamic, flat = f"{INDEX}-dynamic", f"{INDEX}-flat"
    documents = [(str(n), {"attributes": {f"k{n}-{m}": f"v{m}" for m in range(60)}}) for n in range(30)]
    create(lab, {"number_of_shards": 1}, name=dynamic)
    answers = [item["index"] for item in bulk(lab, documents, name=dynamic)["items"]]
    refused = [each["error"]["reason"] for each in answers if each["status"] == 400]
    assert refused and all("Limit of total fields [1000]" in reason for reason in refused), refused

    create(lab, {"number_of_shards": 1}, {"attributes": {"type": "flat_object"}}, flat)
    assert bulk(lab, documents, "?refresh=true", flat)["errors"] is False
    status, mapping = administer(lab, "GET", f"/{flat}/_mapping")
    assert status == 200
    assert mapping[flat]["mappings"]["properties"] == {"attributes": {"type": "flat_object"}}
    query = {"query": {"term": {"attributes.k7-3": "v3"}}}
    status, answer = administer(lab, "POST", f"/{flat}/_search", query)
    assert status == 200 and [hit["_id"] for hit in answer["hits"]["hits"]] == ["7"]


def test_se_27_a_write_is_answered_when_all_replicas_have_it_and_says_which_failed(lab: LocalLab) -> None:
    create(lab, {"number_of_shards": 1, "number_of_replicas": 2})
    assert await_green(lab, GREEN_SECONDS)[0]
    assert write(lab, "first")["_shards"] == {"total": 3, "successful": 3, "failed": 0}
    replica = copies(lab, "r")[0]
    answers: list[dict[str, Any]] = []
    under_way = threading.Thread(target=lambda: answers.append(write(lab, "second")))
    lab.pause_node(replica)
    try:
        under_way.start()
        under_way.join(3)
        assert under_way.is_alive() and answers == []  # it waits for that replica alone
    finally:
        lab.kill_node(replica)
        under_way.join(90)
        lab.start_node(replica)
    assert await_green(lab, GREEN_SECONDS)[0]
    shards = answers[0]["_shards"]
    assert (shards["total"], shards["successful"], shards["failed"]) == (3, 2, 1), shards
    assert [failure["_node"] for failure in shards["failures"]] == [node_ids(lab)[replica]], shards


def test_se_28_an_index_has_one_primary_one_replica_and_document_replication_by_default(lab: LocalLab) -> None:
    create(lab, {})
    settings = settings_of(lab)
    names = ("number_of_shards", "number_of_replicas", "replication.type")
    assert [settings[f"index.{name}"] for name in names] == ["1", "1", "DOCUMENT"]
