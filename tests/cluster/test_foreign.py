"""What others do on a cluster that exists while a run is there: seen as it is, and a run that hurts them ends.

And how many requests a run really makes, by the cluster's own count.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import urllib3
from cluster.test_on_existing import ALLOCATION, CALLED, FOREVER, HELD, There, taken_for_theirs
from clusterkit import Cli, await_event, events, findings, in_effect

from chaos.history import History
from chaos.opensearch.views import administer
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

SEARCHES, DOCUMENTS = 40.0, 10.0
"""Per second, of somebody else."""
LIMITS = "foreign: {search: {slower: 50x, fewer: 60%%}, for: %s}\n"
DOCUMENT = {"word": "something"}
EXPENSIVE = "search.allow_expensive_queries"
"""Where it is false, wildcards and their like are refused."""
REQUESTS = ("search_action", "document_index_action", "document_get_action")


class Somebody:
    """Searches and indexes ``orders`` at a steady rate, through one node, and remembers when."""

    def __init__(self, lab: LocalLab, node: str, query: dict[str, Any]) -> None:
        self._query = query
        self._client = lab.client(node, timeout=5.0)
        self._over = threading.Event()
        self.searched: list[int] = []
        self.written: list[int] = []
        self._threads = [
            threading.Thread(target=self._go_on, args=each, daemon=True)
            for each in ((SEARCHES, self._search), (DOCUMENTS, self._write))
        ]

    def _go_on(self, rate: float, request: Any) -> None:
        began, number = time.monotonic(), 0
        while not self._over.wait(max(0.0, began + number / rate - time.monotonic())):
            number += 1
            try:
                request()
            except urllib3.exceptions.HTTPError:
                continue

    def _search(self) -> None:
        status, _ = self._client.request("POST", "/orders/_search", body={"size": 1, "query": self._query})
        if status == 200:
            self.searched.append(time.monotonic_ns())

    def _write(self) -> None:
        status, _ = self._client.request("POST", "/orders/_doc", body=DOCUMENT)
        if status == 201:
            self.written.append(time.monotonic_ns())

    def start(self) -> None:
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        self._over.set()
        for each in self._threads:
            each.join()
        self._client.close()


@contextmanager
def somebody(lab: LocalLab, node: str, query: dict[str, Any] | None = None) -> Iterator[Somebody]:
    made = Somebody(lab, node, query or {"match_all": {}})
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def there(tiny: LocalLab, tmp_path: Path) -> Iterator[There]:
    with taken_for_theirs(tiny, tmp_path, CALLED) as made:
        for _ in range(20):
            assert administer(tiny, "POST", "/orders/_doc?refresh=true", DOCUMENT)[0] == 201
        made.before = made.theirs()  # with the mapping that documents made
        yield made


def told(out: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in events(out) if event["kind"] == kind]


@pytest.mark.full
def test_others_are_seen_as_they_are_and_end_no_run_that_does_not_hurt_them(there: There):
    there.write(FOREVER + LIMITS % "10s")
    with somebody(there.lab, "b-all") as theirs:
        code, output = there.run("  healthy: {for: 20s}\n")
    assert code in (0, 3), output
    (span,) = History.open(next(there.out.glob("*/"))).phases
    others = findings(there.out)["tables"]["foreign"]
    row = others["rows"]["healthy"]
    for what, times in (("searches", theirs.searched), ("documents", theirs.written)):
        sent = sum(span.start_ns <= t < span.end_ns for t in times) / span.seconds
        assert sent > 0 and row[what] == pytest.approx(sent, rel=0.2), (what, row, sent)
    assert row["known"] > 0.9 and others["undecided"] == [] and others["limits"] and row["failed"] == 0
    page = next(there.out.glob("*/report.html")).read_text()
    assert "What others did meanwhile" in page and there.as_before()


@pytest.mark.full
def test_a_run_ends_when_others_have_nothing_any_more_and_the_load_first(there: There):
    there.write(FOREVER + LIMITS % "4s")
    with somebody(there.lab, "b-all") as theirs:
        running = there.begin("  healthy: {for: 2s}\n" + HELD % "5m")
        await_event(running, there.out, in_effect)
        assert told(there.out, "guard.tripped") == []
        theirs.stop()
        code, output = running.end(180)
    assert code == 4 and "others had" in output and "and the file allows 60%" in output, output
    found = findings(there.out)
    assert found["clean"] is True and there.as_before()
    assert found["outcome"] == "aborted" and found["abort"]["guard"] == "foreign" and "fewer" in found["headline"]
    (ceased,), (undo,) = told(there.out, "load.ceased"), told(there.out, "fault.undo")
    assert ceased["t"] < undo["t"], "the load is stopped first"
    assert found["abort"]["load_seconds"] < found["abort"]["seconds"] and found["abort"]["complete"]
    stopped = next(
        event["stopped_ns"]
        for event in History.open(next(there.out.glob("*/"))).driver
        if event["kind"] == "driver.stop"
    )
    assert stopped < undo["t"], "and the driver had heard of it"
    assert f"everything was undone {found['abort']['seconds']:.1f} s after" in output
    assert told(there.out, "fault.gone")


@pytest.mark.full
def test_a_run_that_hurts_others_by_what_it_does_gives_it_back(there: There):
    """From the moment in which their searches are refused, and of none of ours is one."""
    there.write(FOREVER + LIMITS % "4s", (f'settings: ["{ALLOCATION}"]', f'settings: ["{EXPENSIVE}"]'))
    with somebody(there.lab, "b-all", {"wildcard": {"word": "some*"}}) as theirs:
        code, output = there.run(
            "  healthy: {for: 2s}\n"
            "  refused: {for: 60s, inject: {settings.change: {scope: cluster, settings: {" + EXPENSIVE + ": false}}}}\n"
            "  over: {undo: all, for: 2s}\n"
        )
        assert code == 4 and "others had 0 searches" in output, output
        found = findings(there.out)
        assert found["clean"] is True and there.as_before() and found["abort"]["guard"] == "foreign"
        served = len(theirs.searched)
        assert wait_until(lambda: len(theirs.searched) > served, 30), "they are served again"


CAPPED = """apiVersion: opensearch-chaos/v1
kind: topology
name: seldom
opensearch: 3.8.0
zones: [a, b, c]
nodes:
  all: {roles: [cluster_manager, data, ingest], per_zone: 1, heap: 256MiB}
settings:
  node:
    cluster.routing.allocation.awareness.attributes: zone
    cluster.routing.allocation.awareness.force.zone.values: [a, b, c]
  index: {number_of_shards: 2, number_of_replicas: 2, refresh_interval: 20s}
"""
"""Documents are found late, so that they are looked for without an end."""


def requested(lab: LocalLab) -> int:
    """Requests for documents that its nodes have taken since they started, by their own count."""
    _, answer = administer(lab, "GET", "/_nodes/usage/rest_actions")
    assert len(answer["nodes"]) == len(lab.topology.nodes)
    return sum(node["rest_actions"].get(name, 0) for node in answer["nodes"].values() for name in REQUESTS)


@pytest.mark.full
def test_the_cap_on_requests_holds_by_the_clusters_own_count(there: There):
    cap = 80.0
    there.write(FOREVER, ('"100/s"', f'"{cap:g}/s"'))
    topology = there.folder / "seldom.yaml"
    topology.write_text(CAPPED)
    file = there.folder / "capped.yaml"
    file.write_text(
        f"apiVersion: opensearch-chaos/v1\nname: capped\ntopology: {topology}\nload:\n"
        "  read:  {rate: 10/s, good: ok within 4s}\n  write: {rate: 10/s, good: ok within 4s}\n  documents: 100\n"
        "  cas: {rate: 4/s, keys: 2}\n  visibility: {rate: 2/s}\n"
        "phases:\n  healthy: {for: 40s}\nexpect:\n  - {acknowledged.lost: 0}\n"
    )
    running = Cli("run", file, "--on", there.file, "--out", there.out)
    await_event(running, there.out, lambda event: event["kind"] == "phase.start")
    time.sleep(10)  # until looking for documents takes all that the cap leaves
    began, before = time.monotonic(), requested(there.lab)
    time.sleep(20)
    rate = (requested(there.lab) - before) / (time.monotonic() - began)
    code, output = running.end(180)
    assert 0.95 * cap <= rate <= 1.05 * cap, rate
    assert code in (0, 1, 3) and findings(there.out)["clean"] is True, output
    assert there.as_before()
