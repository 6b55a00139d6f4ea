"""What the sources claim of remote-backed storage, asked of one real cluster with an object store.

As in ``test_claims_ingestion.py``, a test is named after the claim whose answer it shows, and asserts what is seen. The
store is moto, which speaks S3, and its layer knows which node asked what.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from claimskit import INDEX, ask, bulk, copies, create, drop, hits, lab_of
from clusterkit import lifecycle

from chaos.base.waiting import wait_until
from chaos.faults.lifecycle import Lifecycle
from chaos.opensearch.views import administer, await_green
from chaos.registry import FAULTS, ready
from chaos.targets.labs.local import LocalLab

pytestmark = pytest.mark.full
WRITES, DOCUMENTS = 10, 40
UNREFRESHED = {"number_of_shards": 1, "number_of_replicas": 1, "refresh_interval": "-1"}
BY_ITSELF_SECONDS = 45.0
"""So long a red index is left alone, longer than three retries of its allocation."""
RESTORE_SECONDS = 90.0


@pytest.fixture(scope="module")
def lab() -> Iterator[LocalLab]:
    """Three zones, a cluster manager and a data node each; segments and translogs are in the store."""
    with lab_of("3az-remote-store-http") as made:
        yield made


@pytest.fixture(autouse=True)
def _no_index_is_left(lab: LocalLab) -> Iterator[None]:
    yield
    drop(lab)


@pytest.fixture
def cycle(lab: LocalLab, tmp_path: Path) -> Lifecycle:
    return lifecycle(lab, tmp_path)


def texts(number: int = DOCUMENTS) -> list[tuple[str | None, dict[str, str]]]:
    """Some 10 KB each, which no codec makes smaller than half."""
    return [(f"n{n}", {"text": secrets.token_hex(5000)}) for n in range(number)]


def translogs(lab: LocalLab) -> set[str]:
    return {key for key in lab.keys("store", 10) if "/translog/data/" in key}


def lost(lab: LocalLab, cycle: Lifecycle, node: str) -> None:
    """The node is killed and its folder emptied."""
    params = FAULTS["node.loss"].model_validate({"target": f"node {node}"})
    assert cycle.inject(ready("f1", params, lab, seed=1, elected=None))


def test_or_1_an_answered_write_is_in_the_store_already(lab: LocalLab) -> None:
    """Nothing is refreshed, so only its translog can hold it there."""
    create(lab, UNREFRESHED)
    before = translogs(lab)
    for number in range(WRITES):
        bulk(lab, [(f"n{number}", {"number": number})])
        now = translogs(lab)
        assert now - before, f"write {number} was answered, and the store has no file of it"
        before = now


def test_or_2_and_or_20_without_a_replica_nothing_is_lost_and_no_search_is_answered_meanwhile(
    lab: LocalLab, cycle: Lifecycle
) -> None:
    """An index that is not written any more loses its replica, and then the node with its one copy."""
    create(lab, UNREFRESHED)
    bulk(lab, texts(), more="?refresh=true")
    assert administer(lab, "PUT", f"/{INDEX}/_settings", {"number_of_replicas": 0})[0] == 200
    assert wait_until(lambda: len(copies(lab, "r")) == 0, 30, every=0.2)
    (node,) = copies(lab, "p")
    asked = next(each.name for each in lab.topology.data_nodes if each.name != node)
    lost(lab, cycle, node)
    assert wait_until(lambda: ask(lab, asked, "GET", f"/{INDEX}/_search")[0] == 503, 60, every=0.2)
    status, answer = administer(lab, "POST", "/_remotestore/_restore?wait_for_completion=false", {"indices": [INDEX]})
    assert status in (200, 202), answer
    assert await_green(lab, RESTORE_SECONDS)[0] and hits(lab) == DOCUMENTS
    assert cycle.undo("f1")


def test_or_3_a_lost_node_s_only_copy_comes_back_when_somebody_asks_for_it_and_not_by_itself(
    lab: LocalLab, cycle: Lifecycle
) -> None:
    create(lab, {**UNREFRESHED, "number_of_replicas": 0})
    bulk(lab, texts())
    (node,) = copies(lab, "p")
    lost(lab, cycle, node)
    began = time.monotonic()
    assert wait_until(lambda: copies_without_a_place(lab) == 1, 60, every=0.2)
    came = wait_until(lambda: copies_without_a_place(lab) == 0, BY_ITSELF_SECONDS, every=1.0)
    assert not came, f"it came back by itself after {time.monotonic() - began:.0f} s"
    administer(lab, "POST", "/_remotestore/_restore?wait_for_completion=false", {"indices": [INDEX]})
    assert await_green(lab, RESTORE_SECONDS)[0]
    administer(lab, "POST", f"/{INDEX}/_refresh")
    assert hits(lab) == DOCUMENTS
    assert cycle.undo("f1")


def copies_without_a_place(lab: LocalLab) -> int:
    status, answer = administer(lab, "GET", f"/_cat/shards/{INDEX}?format=json")
    return sum(copy["state"] != "STARTED" for copy in answer) if status == 200 else 0


def test_or_3_with_a_replica_a_lost_copy_is_made_again_from_the_store_by_itself(
    lab: LocalLab, cycle: Lifecycle
) -> None:
    """One zone has no copy, and its node takes the lost one's place: the store's layer saw it ask for segments."""
    create(lab, {**UNREFRESHED, "refresh_interval": "1s"})
    bulk(lab, texts(), more="?refresh=true")
    (primary,), (replica,) = copies(lab, "p"), copies(lab, "r")
    (third,) = {each.name for each in lab.topology.data_nodes} - {primary, replica}
    record = lab.requests("store")
    record.more()
    lost(lab, cycle, primary)
    assert wait_until(lambda: sorted([*copies(lab, "p"), *copies(lab, "r")]) == sorted([replica, third]), 90, every=1.0)
    assert wait_until(lambda: copies_without_a_place(lab) == 0, 90, every=0.5)
    assert hits(lab) == DOCUMENTS == hits(lab, node=third)
    assert fetched(record.more())[third] > 0
    assert cycle.undo("f1")


def fetched(rows: list[dict]) -> Counter[str]:
    """How many files of segments each node has read from the store."""
    return Counter(row["peer"] for row in rows if row["verb"] == "GET" and "/segments/data/" in row["path"])


def test_se_19_replicas_fetch_segments_from_the_store_each_for_itself_and_the_primary_sends_none(lab: LocalLab) -> None:
    create(lab, {**UNREFRESHED, "number_of_replicas": 2, "refresh_interval": "1s"})
    (primary,) = copies(lab, "p")
    record = lab.requests("store")
    record.more()
    sent = sent_by(lab, primary)
    bulk(lab, texts(), more="?refresh=true")
    replicas = copies(lab, "r")
    assert wait_until(lambda: all(hits(lab, node=node) == DOCUMENTS for node in replicas), 60, every=0.5)
    found, more = fetched(record.more()), sent_by(lab, primary) - sent
    size = DOCUMENTS * 10_000
    print(f"files that each fetched: {dict(found)}; {more / size:.2f} bytes sent by the primary for each of the source")
    assert set(found) >= set(replicas) and primary not in found
    assert more < size / 2, "its segments would have gone to two replicas"


def sent_by(lab: LocalLab, node: str) -> int:
    """Bytes that a node has sent to others over the transport protocol."""
    status, answer = ask(lab, node, "GET", "/_nodes/_local/stats/transport")
    assert status == 200
    (only,) = answer["nodes"].values()
    return int(only["transport"]["tx_size_in_bytes"])
