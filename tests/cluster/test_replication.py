"""Segment replication on a real cluster: a replica that is held back is stale, nothing is lost, and it catches up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from chaos.base.ids import preload_id, write_id
from chaos.load.workloads.documents import MAPPING, WORKLOAD, content
from chaos.observe import readback
from chaos.observe.readback import read_back
from chaos.opensearch.replication import SEGMENT, replication_type
from chaos.opensearch.rest import opensearch
from chaos.opensearch.views import administer, await_green
from chaos.targets.labs.local import LocalLab

pytestmark = pytest.mark.full
INDEX, BEFORE, AFTER = "copied", 300, 200
IDS = {preload_id(n) for n in range(BEFORE)} | {write_id(n) for n in range(AFTER)}
THROTTLE = "indices.replication.max_bytes_per_sec"


def throttle(lab: LocalLab, rate: str | None) -> None:
    assert administer(lab, "PUT", "/_cluster/settings", body={"transient": {THROTTLE: rate}})[0] == 200


@pytest.fixture
def copying(tiny: LocalLab) -> Iterator[LocalLab]:
    """An index of one shard whose replicas copy segments, with documents that all of them have."""
    settings = {"number_of_shards": 1, "number_of_replicas": 2, "replication.type": SEGMENT, "refresh_interval": "1s"}
    node = tiny.topology.data_nodes[0].name
    try:
        assert administer(tiny, "PUT", f"/{INDEX}", body={"mappings": MAPPING, "settings": settings})[0] == 200
        assert await_green(tiny, 60)[0]
        client = opensearch(tiny.administration(node), access=tiny.access_to(node))
        WORKLOAD.preload(client, BEFORE, INDEX)
        client.close()
        yield tiny
    finally:
        throttle(tiny, None)
        administer(tiny, "DELETE", f"/{INDEX}?ignore_unavailable=true")


def found(lab: LocalLab, *, segments: bool) -> dict[str, Any]:
    return read_back(lab, INDEX, IDS, sleep=lambda _: None, segments=segments)


def test_a_replica_that_is_held_back_is_stale_and_no_write_of_it_is_lost(
    copying: LocalLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert replication_type(copying, INDEX) == SEGMENT
    assert replication_type(copying, "of-nobody") is None
    throttle(copying, "5kb")
    node = copying.topology.data_nodes[0].name
    client = opensearch(copying.administration(node), access=copying.access_to(node))
    lines: list[Any] = []
    for n in range(AFTER):
        lines += [{"index": {"_id": write_id(n)}}, content(write_id(n))]
    assert client.bulk(body=lines, index=INDEX, refresh=True)["errors"] is False
    client.close()

    monkeypatch.setattr(readback, "CATCH_UP_SECONDS", 1.0)
    behind = found(copying, segments=True)
    assert behind["complete"] and behind["lost_count"] == behind["diverged_count"] == 0, behind
    assert behind["replicas_count"] == 2 and behind["stale_count"] >= 1, behind
    assert all(each["checkpoints"] >= 1 and each["lacks"] == AFTER for each in behind["stale"]), behind["stale"]

    throttle(copying, None)
    monkeypatch.undo()
    whole = found(copying, segments=True)
    assert whole["complete"] and whole["stale_count"] == whole["lost_count"] == whole["diverged_count"] == 0, whole
    assert found(copying, segments=False)["diverged_count"] == 0
