"""What the sources claim of segment replication, asked of one real cluster.

As in ``test_claims_ingestion.py``, a test is named after the claim whose answer it shows, and asserts what is seen.
"""

from __future__ import annotations

import secrets
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
    put,
    settings_of,
)
from clusterkit import lifecycle

from chaos.base.waiting import wait_until
from chaos.opensearch.views import administer, await_green
from chaos.registry import FAULTS, ready
from chaos.targets.labs.local import LocalLab

pytestmark = pytest.mark.full
TASKS = ".tasks"
"""The system index that OpenSearch makes for results of tasks."""
THROTTLE = "indices.replication.max_bytes_per_sec"
ONE_REPLICA = {"number_of_shards": 1, "number_of_replicas": 1, "refresh_interval": "1s"}
CAUGHT_UP_SECONDS = 60.0


@pytest.fixture(scope="module")
def lab() -> Iterator[LocalLab]:
    """Three zones, whose indices are of segment replication unless they say otherwise."""
    with lab_of("3az-segrep") as made:
        yield made


@pytest.fixture(autouse=True)
def _no_index_is_left(lab: LocalLab) -> Iterator[None]:
    yield
    drop(lab)


def documents(name: str, number: int = 40) -> list[tuple[str | None, dict[str, Any]]]:
    """Some 10 KB each, which no codec makes smaller than half."""
    return [(f"{name}-{n}", {"text": secrets.token_hex(5000)}) for n in range(number)]


def lag(lab: LocalLab) -> tuple[int, int]:
    """How many checkpoints and bytes the replica is behind, by the CAT API."""
    status, answer = administer(lab, "GET", f"/_cat/segment_replication/{INDEX}?format=json&bytes=b")
    assert status == 200 and len(answer) == 1, answer
    return int(answer[0]["checkpoints_behind"]), int(answer[0]["bytes_behind"])


def indexed(lab: LocalLab, name: str = INDEX) -> dict[str, int]:
    """How many documents each node has indexed for an index of one shard, by node."""
    names = {id: name for name, id in node_ids(lab).items()}
    status, answer = administer(lab, "GET", f"/{name}/_stats/indexing?level=shards")
    assert status == 200
    (copies_of,) = answer["indices"][name]["shards"].values()
    return {names[copy["routing"]["node"]]: int(copy["indexing"]["index_total"]) for copy in copies_of}


def status_of_write(lab: LocalLab) -> int:
    """Of a bulk of one document, once; what backpressure refuses has 429 inside."""
    (item,) = bulk(lab, [(None, {"text": secrets.token_hex(5000)})], "?refresh=true")["items"]
    return int(item["index"]["status"])


def test_se_1_only_the_primary_indexes(lab: LocalLab) -> None:
    for replication, on_replica in (("SEGMENT", 0), ("DOCUMENT", 40)):
        create(lab, {**ONE_REPLICA, "replication.type": replication})
        assert await_green(lab, GREEN_SECONDS)[0]
        assert bulk(lab, documents("one"), "?refresh=true")["errors"] is False
        (primary,), (replica,) = copies(lab, "p"), copies(lab, "r")
        assert wait_until(lambda replica=replica: hits(lab, node=replica) == 40, CAUGHT_UP_SECONDS)  # type: ignore[misc]
        assert indexed(lab) == {primary: 40, replica: on_replica}
        drop(lab)


def test_se_14_backpressure_is_off_by_default_and_refuses_writes_when_replicas_stay_behind(lab: LocalLab) -> None:
    status, answer = administer(lab, "GET", "/_cluster/settings?include_defaults&flat_settings")
    assert status == 200 and answer["defaults"]["segrep.pressure.enabled"] == "false"
    create(lab, ONE_REPLICA)
    assert await_green(lab, GREEN_SECONDS)[0]
    with (
        cluster_setting(lab, "segrep.pressure.checkpoint.limit", 1),
        cluster_setting(lab, "segrep.pressure.time.limit", "1s"),
        cluster_setting(lab, THROTTLE, "2kb"),
    ):
        assert [status_of_write(lab) for _ in range(5)] == [201] * 5
        assert wait_until(lambda: lag(lab)[0] >= 2, 20)
        assert status_of_write(lab) == 201  # off: however far the replica is behind
        put(lab, {"segrep.pressure.enabled": True})
        try:
            assert wait_until(lambda: status_of_write(lab) == 429, 20)
            put(lab, {THROTTLE: None})
            assert wait_until(lambda: status_of_write(lab) == 201, CAUGHT_UP_SECONDS)
        finally:
            put(lab, {"segrep.pressure.enabled": None})


def test_se_15_and_25_wait_for_waits_for_the_primary_alone_and_cat_shows_the_lag(lab: LocalLab) -> None:
    create(lab, ONE_REPLICA)
    assert await_green(lab, GREEN_SECONDS)[0]
    (primary,), (replica,) = copies(lab, "p"), copies(lab, "r")
    with cluster_setting(lab, THROTTLE, "10kb"):  # some 15 s for these documents
        assert bulk(lab, documents("waited", 12), "?refresh=wait_for")["errors"] is False
        assert hits(lab, node=primary) == 12 and hits(lab, node=replica) == 0
        checkpoints, size = lag(lab)
        assert checkpoints >= 1 and size > 10_000
        status, answer = administer(lab, "GET", f"/{INDEX}/_stats/translog?level=shards")
        assert status == 200
        (held,) = answer["indices"][INDEX]["shards"].values()
        assert [copy["translog"]["operations"] for copy in held] == [12, 12]  # what a replica has is its translog
    assert wait_until(lambda: hits(lab, node=replica) == 12 and lag(lab) == (0, 0), CAUGHT_UP_SECONDS)


def test_se_16_a_system_index_is_of_segment_replication_where_the_cluster_is(lab: LocalLab) -> None:
    """By the setting cluster.indices.replication.strategy; on 3.8.0, though the documentation excepts them."""
    create(lab, ONE_REPLICA)
    assert bulk(lab, documents("source", 5), "?refresh=true")["errors"] is False
    body = {"source": {"index": INDEX}, "dest": {"index": f"{INDEX}-copy"}}
    status, answer = administer(lab, "POST", "/_reindex?wait_for_completion=false", body)
    assert status == 200, answer
    task = answer["task"]
    assert wait_until(lambda: administer(lab, "GET", f"/_tasks/{task}")[1].get("completed") is True, 30)
    assert wait_until(lambda: administer(lab, "GET", f"/{TASKS}/_count")[0] == 200, 30)  # made for the task's result
    try:
        status, answer = administer(
            lab, "GET", f"/_cluster/state/metadata/{TASKS}?filter_path=metadata.indices.*.system"
        )
        assert status == 200 and answer["metadata"]["indices"][TASKS]["system"] is True
        assert settings_of(lab, TASKS)["index.replication.type"] == "SEGMENT"
        status, answer = administer(lab, "PUT", f"/{TASKS}/_settings", {"index.auto_expand_replicas": "1-1"})
        assert status == 200 and await_green(lab, GREEN_SECONDS)[0]
        (primary,), (replica,) = copies(lab, "p", TASKS), copies(lab, "r", TASKS)
        for _ in range(2):  # results that come when the replica is there
            assert administer(lab, "POST", "/_reindex?wait_for_completion=false", body)[0] == 200
        assert wait_until(lambda: indexed(lab, TASKS)[primary] >= 2, 30)
        assert indexed(lab, TASKS)[replica] == 0
    finally:
        assert administer(lab, "DELETE", f"/{TASKS}")[0] == 200


def test_se_17_an_existing_index_needs_a_reindex(lab: LocalLab) -> None:
    create(lab, {**ONE_REPLICA, "replication.type": "DOCUMENT"})
    assert bulk(lab, documents("old", 5), "?refresh=true")["errors"] is False
    node = lab.topology.data_nodes[0].name
    change = {"index.replication.type": "SEGMENT"}
    assert ask(lab, node, "PUT", f"/{INDEX}/_settings", change)[0] == 400
    assert administer(lab, "POST", f"/{INDEX}/_close")[0] == 200
    assert ask(lab, node, "PUT", f"/{INDEX}/_settings", change)[0] == 400
    assert administer(lab, "POST", f"/{INDEX}/_open")[0] == 200
    assert settings_of(lab)["index.replication.type"] == "DOCUMENT"

    create(lab, {**ONE_REPLICA, "replication.type": "SEGMENT"}, name=f"{INDEX}-new")
    body = {"source": {"index": INDEX}, "dest": {"index": f"{INDEX}-new"}}
    status, answer = administer(lab, "POST", "/_reindex?refresh=true", body)
    assert status == 200 and answer["created"] == 5, answer
    assert hits(lab, f"{INDEX}-new") == 5


def test_se_18_from_2_19_to_3_8_a_rolling_upgrade_keeps_an_index_of_segment_replication(tmp_path: Path) -> None:
    """The claim is of 2.7, which had to be stopped as a whole. Data nodes first, cluster managers last."""
    with lab_of("3az-upgrade") as old:
        create(old, {**ONE_REPLICA, "replication.type": "SEGMENT"})
        bulk(old, documents("before"), more="?refresh=true")
        cycle = lifecycle(old, tmp_path)
        for number, group in enumerate(("data", "cm")):
            params = FAULTS["node.upgrade"].model_validate({"target": f"group {group}"})
            assert cycle.inject(ready(f"f{number}", params, old, seed=1, elected=None)), group
            assert await_green(old, GREEN_SECONDS)[0]
            bulk(old, documents(group), more="?refresh=true")
        for number in range(2):
            assert cycle.undo(f"f{number}")
        status, answer = administer(old, "GET", "/_nodes/_all/info?filter_path=nodes.*.version")
        assert status == 200 and {node["version"] for node in answer["nodes"].values()} == {"3.8.0"}
        assert settings_of(old)["index.replication.type"] == "SEGMENT"
        both = [*copies(old, "p"), *copies(old, "r")]
        assert len(both) == 2
        assert wait_until(lambda: [hits(old, node=node) for node in both] == [120, 120], CAUGHT_UP_SECONDS)
