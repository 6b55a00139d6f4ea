"""What the sources claim of remote-backed storage, asked of one real cluster with an object store.

As in ``test_claims_ingestion.py``, a test is named after the claim whose answer it shows, and asserts what is seen. The
store is moto, which speaks S3, and its layer knows which node asked what.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from claimskit import INDEX, ask, bulk, copies, create, drop, hits, lab_of
from clusterkit import failed, lifecycle

from chaos.base.waiting import wait_until
from chaos.opensearch.views import administer
from chaos.registry import FAULTS, ready
from chaos.targets.labs.local import LocalLab

pytestmark = pytest.mark.full
WRITES, DOCUMENTS = 10, 40
UNREFRESHED = {"number_of_shards": 1, "number_of_replicas": 1, "refresh_interval": "-1"}
BY_ITSELF_SECONDS = 45.0
"""So long a red index is left alone, longer than three retries of its allocation."""
RESTORE_SECONDS = 90


@pytest.fixture(scope="module")
def lab() -> Iterator[LocalLab]:
    """Three zones, a cluster manager and a data node each; segments and translogs are in the store."""
    with lab_of("3az-remote-store-http") as made:
        yield made


@pytest.fixture(autouse=True)
def _no_index_is_left(lab: LocalLab) -> Iterator[None]:
    yield
    drop(lab)


def texts(number: int = DOCUMENTS) -> list[tuple[str | None, dict[str, str]]]:
    """Some 10 KB each, which no codec makes smaller than half."""
    return [(f"n{n}", {"text": secrets.token_hex(5000)}) for n in range(number)]


def translogs(lab: LocalLab) -> set[str]:
    return {key for key in lab.keys("store", 10) if "/translog/data/" in key}


@contextmanager
def lost(lab: LocalLab, folder: Path, node: str) -> Iterator[str]:
    """The node is killed and its folder emptied; an empty one starts in its place at the end. Who can be asked."""
    params = FAULTS["node.loss"].model_validate({"target": f"node {node}"})
    cycle = lifecycle(lab, folder)
    try:
        assert cycle.inject(ready("f1", params, lab, seed=1, elected=None)), failed(folder, "effect")
        yield next(each.name for each in lab.topology.data_nodes if each.name != node)
    finally:
        cycle.undo("f1")


def states(lab: LocalLab, asked: str) -> dict[str, str]:
    """The states of an index's copies by who has them; those without a place have none."""
    status, answer = ask(lab, asked, "GET", f"/_cat/shards/{INDEX}?format=json")
    assert status == 200, answer
    return {str(copy["node"] or number): str(copy["state"]) for number, copy in enumerate(answer)}


def restore(lab: LocalLab, asked: str) -> None:
    """By an operator's hand, and until the index is green."""
    body = {"indices": [INDEX]}
    status, answer = ask(lab, asked, "POST", "/_remotestore/_restore?wait_for_completion=false", body)
    assert status in (200, 202), answer
    path = f"/_cluster/health/{INDEX}?wait_for_status=green&timeout={RESTORE_SECONDS}s"
    assert ask(lab, asked, "GET", path, timeout=RESTORE_SECONDS + 10)[1]["status"] == "green"


def count(lab: LocalLab, asked: str) -> int:
    status, answer = ask(lab, asked, "POST", f"/{INDEX}/_search?size=0", {"track_total_hits": True})
    assert status == 200, answer
    return int(answer["hits"]["total"]["value"])


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
    lab: LocalLab, tmp_path: Path
) -> None:
    """An index that is not written any more loses its replica, and then the node with its one copy."""
    create(lab, UNREFRESHED)
    bulk(lab, texts(), more="?refresh=true")
    assert administer(lab, "PUT", f"/{INDEX}/_settings", {"number_of_replicas": 0})[0] == 200
    assert wait_until(lambda: len(copies(lab, "r")) == 0, 30, every=0.2)
    (node,) = copies(lab, "p")
    with lost(lab, tmp_path, node) as asked:
        assert wait_until(lambda: ask(lab, asked, "GET", f"/{INDEX}/_search")[0] == 503, 60, every=0.2)
        restore(lab, asked)
        assert count(lab, asked) == DOCUMENTS


def test_or_3_a_lost_node_s_only_copy_comes_back_when_somebody_asks_for_it_and_not_by_itself(
    lab: LocalLab, tmp_path: Path
) -> None:
    create(lab, {**UNREFRESHED, "number_of_replicas": 0})
    bulk(lab, texts())
    (node,) = copies(lab, "p")
    with lost(lab, tmp_path, node) as asked:
        assert wait_until(lambda: set(states(lab, asked).values()) == {"UNASSIGNED"}, 60, every=0.2)
        began = time.monotonic()
        came = wait_until(lambda: set(states(lab, asked).values()) == {"STARTED"}, BY_ITSELF_SECONDS, every=1.0)
        assert not came, f"it came back by itself after {time.monotonic() - began:.0f} s"
        restore(lab, asked)
        ask(lab, asked, "POST", f"/{INDEX}/_refresh")
        assert count(lab, asked) == DOCUMENTS


def test_or_3_with_a_replica_a_lost_copy_is_made_again_from_the_store_by_itself(lab: LocalLab, tmp_path: Path) -> None:
    """One zone has no copy, and its node takes the lost one's place: the store's layer saw it ask for segments."""
    create(lab, {**UNREFRESHED, "refresh_interval": "1s"})
    bulk(lab, texts(), more="?refresh=true")
    (primary,), (replica,) = copies(lab, "p"), copies(lab, "r")
    (third,) = {each.name for each in lab.topology.data_nodes} - {primary, replica}
    record = lab.requests("store")
    record.more()
    with lost(lab, tmp_path, primary):
        # copies of a node that left wait for a minute before they are made elsewhere (delayed_timeout)
        assert wait_until(lambda: states(lab, third) == {replica: "STARTED", third: "STARTED"}, 150, every=1.0)
        assert count(lab, third) == DOCUMENTS
        assert fetched(record.more())[third] > 0


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
