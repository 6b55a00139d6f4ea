"""Reads of more than one search on a real cluster, beside bulks that create, update and delete documents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from programs.test_driver import config, wait_for
from relays import doors

from chaos.history import History
from chaos.history.format import Outcome
from chaos.history.reader import OUTCOMES
from chaos.load.config import ClientConfig, OperationConfig, Target
from chaos.load.driver import Driver
from chaos.load.workloads.documents import MAPPING, WORKLOAD
from chaos.opensearch.requests import write_alias
from chaos.opensearch.rest import opensearch
from chaos.opensearch.views import administer, await_green
from chaos.targets.labs.local import LocalLab

INDEX, DOCUMENTS, FEWEST = "reads", 2000, 40
BULKS: dict[str, Any] = {"name": "write", "kind": "bulk", "rate": 4, "items": 10, "actions": (6, 2, 2)}


@pytest.fixture
def cluster(tiny: LocalLab) -> Iterator[LocalLab]:
    """With an index of documents, and its alias."""
    settings = {"number_of_shards": 2, "number_of_replicas": 1}
    body = {"mappings": MAPPING, "settings": settings, "aliases": {write_alias(INDEX): {}}}
    node = tiny.topology.data_nodes[0].name
    try:
        assert administer(tiny, "PUT", f"/{INDEX}", body=body)[0] == 200
        assert await_green(tiny, 60)[0]
        client = opensearch(tiny.administration(node), access=tiny.access_to(node))
        WORKLOAD.preload(client, DOCUMENTS, INDEX, alias=write_alias(INDEX))
        client.close()
        yield tiny
    finally:
        administer(tiny, "DELETE", f"/{INDEX}?ignore_unavailable=true")


def loaded(lab: LocalLab, folder: Path, **read: Any) -> History:
    """The history of a load of these reads, beside bulks."""
    (folder / "plan.json").write_text("{}")
    node = lab.topology.data_nodes[0]
    operations = (OperationConfig(name="read", rate=20, **read), OperationConfig(**BULKS))
    with doors(lab) as behind:
        host, port = behind.door(lab.administration(node.name)).removeprefix("http://").split(":")
        made = config(
            folder,
            operations=operations,
            index=INDEX,
            alias=write_alias(INDEX),
            documents=DOCUMENTS,
            shards=2,
            copies=2,
            visible_after_s=11.0,
            targets=(Target(node=node.name, zone=node.zone, host=host, port=int(port)),),
            client=ClientConfig(kind="pinned", timeout_s=10.0, node=node.name),
        )
        driver = Driver(made, folder / "driver.log")
        try:
            driver.start()
            driver.go()
            wait_for(lambda: driver.status.get("sent_total", 0) > FEWEST * 5, 90)
            assert driver.stop()
        finally:
            driver.kill()
    return History.open(folder)


def outcomes(history: History) -> dict[str, set[str]]:
    return {str(op): set(rows.outcome) for op, rows in history.arrivals.groupby("op", observed=True)}


@pytest.mark.full
def test_each_search_of_a_request_is_right_and_counted(cluster: LocalLab, tmp_path: Path) -> None:
    history = loaded(cluster, tmp_path, kind="msearch", searches=5)
    assert outcomes(history) == {"read": {"ok"}, "write": {"ok"}}, history.wrong
    reads = int((history.arrivals["op"] == "read").sum())
    assert history.parts.counts(names=OUTCOMES) == {"ok": 5 * reads} and history.parts.sizes.tolist() == [5] * reads
    assert set(history.parts.outcome.tolist()) == {int(Outcome.OK)}


@pytest.mark.full
@pytest.mark.parametrize("kind", ["scroll", "point-in-time"])
def test_all_pages_are_right_while_documents_change_and_nothing_is_left_open(
    cluster: LocalLab, tmp_path: Path, kind: str
) -> None:
    answer = "scroll" if kind == "scroll" else "pit"
    history = loaded(cluster, tmp_path, kind=kind, answer=answer, pages=20, size=7)
    assert outcomes(history) == {"read": {"ok"}, "write": {"ok"}}, history.wrong
    status, answered = administer(cluster, "GET", "/_nodes/stats/indices/search")
    assert status == 200
    held = [node["indices"]["search"] for node in answered["nodes"].values()]
    assert sum(each["scroll_total"] + each["point_in_time_total"] for each in held) > FEWEST
    assert sum(each["scroll_current"] + each["point_in_time_current"] for each in held) == 0
