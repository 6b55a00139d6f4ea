"""Bulks on a real cluster through a proxy that lies about them: what is lost, hidden or swapped is found by its id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lyingproxy import LIES, Proxy, lying
from programs.test_driver import config, wait_for
from relays import doors

from chaos.history import History
from chaos.load import drivers
from chaos.load.config import ClientConfig, HelperConfig, IndexConfig, OperationConfig, Target
from chaos.load.workloads.documents import MAPPING
from chaos.observe.readback import read_back
from chaos.observe.several import merged
from chaos.observe.told import heard
from chaos.observe.written import Written
from chaos.opensearch.requests import write_alias
from chaos.opensearch.views import administer, await_green
from chaos.targets.labs.local import LocalLab

INDEX, ITEMS, FEWEST = "bulks", 10, 12


@pytest.fixture
def cluster(tiny: LocalLab) -> Iterator[LocalLab]:
    """With an index for bulks, and its alias."""
    settings = {"number_of_shards": 1, "number_of_replicas": 1}
    body = {"mappings": MAPPING, "settings": settings, "aliases": {write_alias(INDEX): {}}}
    try:
        assert administer(tiny, "PUT", f"/{INDEX}", body=body)[0] == 200
        assert await_green(tiny, 60)[0]
        yield tiny
    finally:
        administer(tiny, "DELETE", f"/{INDEX}?ignore_unavailable=true")


def loaded(
    lab: LocalLab,
    folder: Path,
    lie: str,
    *,
    automatic: bool = False,
    helper: str | None = None,
    operations: Any = None,
    indices: Any = (),
    actions: tuple[int, int, int] | None = None,
    bulks: int = FEWEST,
    processes: int = 1,
) -> tuple[History, Proxy]:
    """The history of a load of bulks through the proxy; no bulk was left without an answer."""
    (folder / "plan.json").write_text("{}")
    node = lab.topology.data_nodes[0]
    by = None if helper is None else HelperConfig(kind=helper)
    usual = OperationConfig(
        name="write", kind="bulk", rate=10, items=ITEMS, automatic=automatic, helper=by, actions=actions
    )
    operations = operations or (usual,)
    client = {"kind": "pinned", "node": node.name} if by is None else {"kind": "opensearch-py"}
    with doors(lab) as behind, lying(behind.door(lab.administration(node.name)), LIES[lie]) as proxy:
        made = config(
            folder,
            operations=operations,
            indices=indices,
            processes=processes,
            index=INDEX,
            alias=write_alias(INDEX),
            copies=2,
            targets=(Target(node=node.name, zone=node.zone, host=proxy.host, port=proxy.port),),
            client=ClientConfig(timeout_s=10.0, **client),
        )
        driver = drivers.of(made, folder / "driver.log")
        try:
            driver.start()
            driver.go()
            rate = sum(each.rate for each in operations)
            share = sum(each.rate for each in operations if each.kind == "bulk") / rate
            wait_for(lambda: driver.status.get("sent_total", 0) * share > bulks + 2, 60)
            assert driver.stop()
        finally:
            driver.kill()
    history = History.open(folder)
    written = history.arrivals.op.isin([each.name for each in operations if each.kind == "bulk"])
    assert len(history.items) == written.sum() > bulks
    assert actions is not None or len(proxy.spoilt) == len(history.items)
    return history, proxy


def told(history: History) -> set[str]:
    return set(history.arrivals.outcome)


def test_a_document_that_was_acknowledged_and_thrown_away_is_lost_by_its_id(cluster: LocalLab, tmp_path: Path) -> None:
    history, proxy = loaded(cluster, tmp_path, "drops one document")
    assert told(history) == {"ok"}  # by all that a client can see
    found = read_back(cluster, INDEX, Written.of(history, documents=0, writers={"write": ITEMS}, stride=ITEMS))
    assert sorted(found["lost"]) == sorted(proxy.spoilt) and found["complete"], found["reason"]
    assert found["acknowledged"] == ITEMS * len(history.items)
    assert found["documents"] == (ITEMS - 1) * len(history.items) and not found["wrong_content_count"]


@pytest.mark.full
def test_a_failure_under_errors_false_is_wrong_and_no_document_of_it_is_lost(cluster: LocalLab, tmp_path: Path) -> None:
    history, proxy = loaded(cluster, tmp_path, "hides what failed")
    assert told(history) == {"wrong"}
    assert all("errors: false, and 1 of them failed" in each["says"] for each in history.wrong)
    assert history.items.counts() == {"created": 9 * len(history.items), "invalid": len(history.items)}
    written = Written.of(history, documents=0, writers={"write": ITEMS}, stride=ITEMS)
    assert not set(proxy.spoilt) & set(written.acknowledged) and set(proxy.spoilt) == set(written.open)
    found = read_back(cluster, INDEX, written)
    assert found["lost_count"] == found["unexpected_count"] == 0 and found["complete"]


@pytest.mark.full
def test_two_answers_that_were_swapped_are_wrong_by_their_ids(cluster: LocalLab, tmp_path: Path) -> None:
    history, proxy = loaded(cluster, tmp_path, "swaps two answers")
    assert told(history) == {"wrong"}
    assert {id for each in history.wrong for id in proxy.spoilt if id in each["says"]} == set(proxy.spoilt)
    assert history.items.counts() == {"created": 8 * len(history.items), "wrong": 2 * len(history.items)}
    found = read_back(cluster, INDEX, Written.of(history, documents=0, writers={"write": ITEMS}, stride=ITEMS))
    assert found["lost_count"] == 0 and found["recovered_count"] == 2 * len(history.items)


@pytest.mark.full
def test_what_was_sent_twice_under_ids_of_its_own_is_there_once(cluster: LocalLab, tmp_path: Path) -> None:
    history, _ = loaded(cluster, tmp_path, "sends everything twice")
    assert told(history) == {"ok"} and history.items.counts() == {"updated": ITEMS * len(history.items)}
    found = read_back(cluster, INDEX, Written.of(history, documents=0, writers={"write": ITEMS}, stride=ITEMS))
    assert found["duplicated_count"] == found["lost_count"] == 0
    assert found["documents"] == ITEMS * len(history.items)


@pytest.mark.full
@pytest.mark.parametrize(("lie", "copies"), [("sends everything twice", 2), ("drops one document", 1)])
def test_with_ids_of_opensearch_s_what_was_sent_twice_is_there_twice_and_what_was_dropped_is_lost(
    cluster: LocalLab, tmp_path: Path, lie: str, copies: int
) -> None:
    history, proxy = loaded(cluster, tmp_path, lie, automatic=True)
    assert told(history) == {"ok"}
    found = read_back(
        cluster, INDEX, Written.of(history, documents=0, writers={"write": ITEMS}, stride=ITEMS), automatic=True
    )
    assert found["complete"] and not found["wrong_content_count"] and found["content"]["reason"] is None, found
    assert found["stored_twice_count"] == (ITEMS * len(history.items) if copies == 2 else 0)
    assert found["duplicated_count"] == found["unexpected_count"] == 0
    assert sorted(found["lost"]) == (sorted(proxy.spoilt) if copies == 1 else [])


@pytest.mark.full
@pytest.mark.parametrize("kind", ["helpers.bulk", "helpers.streaming_bulk", "helpers.async_bulk"])
def test_of_a_document_that_was_thrown_away_no_caller_of_a_helper_is_told(
    cluster: LocalLab, tmp_path: Path, kind: str
) -> None:
    history, proxy = loaded(cluster, tmp_path, "drops one document", helper=kind)
    told = heard(history, ITEMS)
    found = read_back(cluster, INDEX, Written.of(history, documents=0, stride=ITEMS), told=told)
    assert sorted(found["told"]["lost_untold"]) == sorted(proxy.spoilt) == sorted(found["lost"])
    fates, bulks = found["told"]["fates"], len(history.items)
    assert fates["stored"] == {
        "documents": ITEMS * bulks,
        "there": (ITEMS - 1) * bulks,
        "twice": 0,
        "absent": bulks,
        "unknown": 0,
    }


@pytest.mark.full
def test_documents_that_a_caller_was_told_of_once_may_be_there_twice(cluster: LocalLab, tmp_path: Path) -> None:
    history, _ = loaded(cluster, tmp_path, "sends everything twice", automatic=True, helper="helpers.bulk")
    written, told = Written.of(history, documents=0, stride=ITEMS), heard(history, ITEMS)
    found = read_back(cluster, INDEX, written, automatic=True, told=told)
    stored = found["told"]["fates"]["stored"]
    assert stored["documents"] == stored["there"] == stored["twice"] == ITEMS * len(history.items)


OTHER = "bulks-other"


@pytest.mark.full
def test_of_two_writers_and_two_indices_each_document_is_found_where_it_belongs(
    cluster: LocalLab, tmp_path: Path
) -> None:
    """What was thrown away is lost by its id, in the index that it was written into, and nothing else is missing."""
    settings = {"number_of_shards": 2, "number_of_replicas": 1}
    body = {"mappings": MAPPING, "settings": settings, "aliases": {write_alias(OTHER): {}}}
    try:
        assert administer(cluster, "PUT", f"/{OTHER}", body=body)[0] == 200
        assert await_green(cluster, 60)[0]
        operations = (
            OperationConfig(name="feed", kind="bulk", rate=10, items=ITEMS),
            OperationConfig(name="ship", kind="bulk", rate=10, items=4, place="other"),
        )
        other = IndexConfig(place="other", index=OTHER, alias=write_alias(OTHER), workload="documents", copies=2)
        history, proxy = loaded(cluster, tmp_path, "drops one document", operations=operations, indices=(other,))
        assert set(history.arrivals.op) == {"feed", "ship"} and told(history) == {"ok"}
        found = {
            index: read_back(cluster, index, Written.of(history, documents=0, writers=own, stride=ITEMS, alone=False))
            for index, own in ((INDEX, {"feed": ITEMS}), (OTHER, {"ship": 4}))
        }
        whole = merged(found)
        assert whole["complete"], whole["reason"]
        assert sorted(whole["lost"]) == sorted(proxy.spoilt) and whole["unexpected_count"] == 0
        assert all(each["lost_count"] for each in found.values())
        assert whole["acknowledged"] == sum(history.items.sizes)
    finally:
        administer(cluster, "DELETE", f"/{OTHER}?ignore_unavailable=true")


# ---- updates and deletes ----------------------------------------------------------------------------------------

CHANGING = (6, 2, 2)
FAULTS = ("lost", "diverged", "wrong_content", "returned", "outdated", "unexpected", "resurrected", "recovered")


def faults(found: dict[str, Any]) -> dict[str, int]:
    assert found["complete"] and found["content"]["reason"] is None, found
    return {name: found[f"{name}_count"] for name in FAULTS if found[f"{name}_count"]}


def test_documents_that_were_updated_and_deleted_are_what_their_last_change_left(
    cluster: LocalLab, tmp_path: Path
) -> None:
    history, _ = loaded(cluster, tmp_path, "tells the truth", actions=CHANGING, bulks=25)
    assert told(history) == {"ok"}
    counts = history.items.counts()
    assert counts.keys() == {"created", "changed", "deleted"} and min(counts.values()) > 10, counts
    written = Written.of(history, documents=0, stride=ITEMS)
    found = read_back(cluster, INDEX, written)
    assert faults(found) == {} and found["changes"]["deleted"] == counts["deleted"] and found["changes"]["updated"] > 0
    assert found["documents"] == found["acknowledged"] == counts["created"] - counts["deleted"]


@pytest.mark.full
def test_a_delete_that_was_acknowledged_and_not_done_is_found_by_its_id(cluster: LocalLab, tmp_path: Path) -> None:
    history, proxy = loaded(cluster, tmp_path, "keeps what was to be deleted", actions=CHANGING, bulks=25)
    assert told(history) == {"ok"} and len(proxy.spoilt) > 10
    found = read_back(cluster, INDEX, Written.of(history, documents=0, stride=ITEMS))
    assert faults(found) == {"returned": len(proxy.spoilt)} and sorted(found["returned"]) == sorted(proxy.spoilt)


@pytest.mark.full
def test_an_update_that_was_acknowledged_and_not_done_is_found_by_its_id(cluster: LocalLab, tmp_path: Path) -> None:
    history, proxy = loaded(cluster, tmp_path, "drops updates", actions=CHANGING, bulks=25)
    assert told(history) == {"ok"} and len(proxy.spoilt) > 10
    written = Written.of(history, documents=0, stride=ITEMS)
    there = set(proxy.spoilt) - set(written.deleted)  # some were deleted later
    found = read_back(cluster, INDEX, written)
    assert faults(found) == {"wrong_content": len(there), "outdated": len(there)}
    assert set(found["outdated"]) == {each["id"] for each in found["wrong_source"]} == there


@pytest.mark.full
@pytest.mark.parametrize("processes", [1, 2])
def test_of_two_indices_each_holds_what_the_last_changes_of_its_own_documents_left(
    cluster: LocalLab, tmp_path: Path, processes: int
) -> None:
    """Both are searched meanwhile, and every answer is right: also where another process has changed a document."""
    body = {
        "mappings": MAPPING,
        "settings": {"number_of_shards": 2, "number_of_replicas": 1},
        "aliases": {write_alias(OTHER): {}},
    }
    try:
        assert administer(cluster, "PUT", f"/{OTHER}", body=body)[0] == 200
        assert await_green(cluster, 60)[0]
        operations = (
            OperationConfig(name="feed", kind="bulk", rate=10, items=ITEMS, actions=CHANGING),
            OperationConfig(name="ship", kind="bulk", rate=10, items=4, actions=CHANGING, place="other"),
            OperationConfig(name="read", kind="search", rate=20),
            OperationConfig(name="look", kind="search", rate=20, place="other"),
        )
        other = IndexConfig(place="other", index=OTHER, alias=write_alias(OTHER), workload="documents", copies=2)
        history, _ = loaded(
            cluster,
            tmp_path,
            "tells the truth",
            operations=operations,
            indices=(other,),
            actions=CHANGING,
            bulks=60,
            processes=processes,
        )
        assert history.processes == processes and told(history) == {"ok"}, history.wrong
        assert len({k % processes for k in history.changes.item // ITEMS}) == processes
        found = {
            index: read_back(cluster, index, Written.of(history, documents=0, writers=own, stride=ITEMS, alone=False))
            for index, own in ((INDEX, {"feed": ITEMS}), (OTHER, {"ship": 4}))
        }
        for each in found.values():
            assert faults(each) == {} and min(each["changes"][name] for name in ("updated", "deleted")) > 0
        whole, counts = merged(found), history.items.counts()
        assert whole["changes"]["deleted"] == counts["deleted"] and whole["changes"]["changes"] == len(history.changes)
        assert whole["documents"] == whole["acknowledged"] == counts["created"] - counts["deleted"]
    finally:
        administer(cluster, "DELETE", f"/{OTHER}?ignore_unavailable=true")
