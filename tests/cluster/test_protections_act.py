"""Protections that no experiment has sides for, each provoked on one small lab: what it counts, what clients get, and
that it lets go. Whether they help other traffic is not asked here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from clusterkit import DATA

from chaos.base.waiting import wait_until
from chaos.definitions import load_topology
from chaos.faults import runaway
from chaos.instruments.protections import PATH, counted
from chaos.load.said import told
from chaos.opensearch import protections as catalogue
from chaos.opensearch.protections import Error
from chaos.opensearch.views import administer, await_green
from chaos.run.options import new_lab_id
from chaos.targets.labs import provisioning
from chaos.targets.labs.local import LocalLab

pytestmark = pytest.mark.full
NODE, INDEX, DOCUMENTS = "a-node", "guarded", 5000
SLOW = runaway.query(100_000)
"""Some seconds for all documents."""
ANEW = f"/{INDEX}/_search?request_cache=false"
WORDS = {"size": 0, "aggs": {"words": {"terms": {"field": "word", "size": 1000}}}}
BY_NAME = {each.name: each for each in catalogue.EVERY}
RELEASED_SECONDS = 60.0


@pytest.fixture(scope="module")
def lab() -> Iterator[LocalLab]:
    topology = load_topology(DATA / "protected.yaml")
    made = LocalLab.create(topology, provisioning.parts(topology), id=new_lab_id())
    try:
        made.up()
        mappings = {"properties": {"word": {"type": "keyword"}}}
        settings = {"number_of_shards": 1, "number_of_replicas": 0}
        assert administer(made, "PUT", f"/{INDEX}", {"settings": settings, "mappings": mappings})[0] == 200
        assert await_green(made, 60)[0]
        lines = [f'{{"index": {{"_id": "{n}"}}}}\n{{"word": "w{n}"}}\n' for n in range(DOCUMENTS)]
        assert ask(made, "POST", f"/{INDEX}/_bulk?refresh=true", "".join(lines))[1]["errors"] is False
        yield made
    finally:
        assert made.down() == []


def ask(lab: LocalLab, method: str, path: str, body: Any = None, timeout: float = 60.0) -> tuple[int, Any]:
    client = lab.client(NODE, timeout=timeout)
    try:
        return client.request(method, path, body=body)
    finally:
        client.close()


def count(lab: LocalLab, counter: str) -> int:
    return counted(ask(lab, "GET", PATH)[1]).counters[counter]


def is_told(error: Error | None, answer: tuple[int, Any]) -> bool:
    """Whether an answer is this protection's own, as a run recognises it."""
    assert error is not None
    status = "5xx" if answer[0] >= 500 else str(answer[0])
    return any(error.told(status, type_, reason) for type_, reason in told(answer[1]))


@contextmanager
def setting(lab: LocalLab, **values: Any) -> Iterator[None]:
    """Cluster settings, taken back after it."""
    names = {name.replace("__", "."): value for name, value in values.items()}
    assert administer(lab, "PUT", "/_cluster/settings", {"persistent": names})[0] == 200
    try:
        yield
    finally:
        undo = {"persistent": dict.fromkeys(names)}
        assert administer(lab, "PUT", "/_cluster/settings", undo)[0] == 200


def at_once(number: int, one: Callable[[], tuple[int, Any]]) -> list[tuple[int, Any]]:
    answers: list[tuple[int, Any]] = []
    threads = [threading.Thread(target=lambda: answers.append(one()), daemon=True) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(answers) == number
    return answers


def test_a_full_queue_of_a_thread_pool_refuses_and_is_empty_again(lab: LocalLab) -> None:
    before, error = count(lab, "thread_pools.search"), BY_NAME["queues of thread pools"].error
    answers = at_once(8, lambda: ask(lab, "GET", ANEW, SLOW))
    refused = [answer for answer in answers if answer[0] == 429]
    assert refused and all(is_told(error, answer) for answer in refused), answers
    assert count(lab, "thread_pools.search") - before >= len(refused)
    assert [answer[0] for answer in answers if answer[0] != 429] == [200] * (8 - len(refused))
    assert ask(lab, "GET", f"/{INDEX}/_search")[0] == 200, "it lets go"


def test_a_breaker_refuses_what_is_over_its_limit_and_holds_nothing_after(lab: LocalLab) -> None:
    before, error = count(lab, "circuit_breakers.request"), BY_NAME["circuit breakers"].error
    assert ask(lab, "GET", f"/{INDEX}/_search", WORDS)[0] == 200
    with setting(lab, indices__breaker__request__limit="1kb"):
        answer = ask(lab, "GET", f"/{INDEX}/_search", WORDS)
        assert answer[0] == 429 and is_told(error, answer), answer
        assert count(lab, "circuit_breakers.request") > before
    assert ask(lab, "GET", f"/{INDEX}/_search", WORDS)[0] == 200
    (own,) = ask(lab, "GET", "/_nodes/_local/stats/breaker")[1]["nodes"].values()
    assert own["breakers"]["request"]["estimated_size_in_bytes"] == 0


def test_a_search_is_cancelled_after_its_time_and_the_next_is_not(lab: LocalLab) -> None:
    whole = ask(lab, "GET", ANEW, SLOW)
    cut = ask(lab, "GET", f"{ANEW}&cancel_after_time_interval=300ms", SLOW)
    assert whole[0] == 200 and whole[1]["took"] > 600, "else it would end before it is cancelled"
    assert is_told(BY_NAME["cancellation after a time"].error, cut), cut
    assert not is_told(BY_NAME["search backpressure"].error, cut), "it was no node in duress"
    with setting(lab, search__cancel_after_time_interval="300ms"):
        cut = ask(lab, "GET", ANEW, SLOW)
        assert is_told(BY_NAME["cancellation after a time"].error, cut), cut
        assert ask(lab, "GET", f"/{INDEX}/_search")[0] == 200
    assert ask(lab, "GET", ANEW, SLOW)[0] == 200


def test_the_flood_stage_blocks_writes_until_the_disk_is_under_its_high_watermark(lab: LocalLab) -> None:
    """Watermarks above the free space trip all at once, and nothing is filled."""
    error = BY_NAME["disk watermarks"].error
    one = lambda: ask(lab, "PUT", f"/{INDEX}/_doc/x", {"word": "x"})  # noqa: E731
    assert one()[0] in (200, 201)
    levels = {"low": "3pb", "high": "2pb", "flood_stage": "1pb"}
    marks = {f"cluster__routing__allocation__disk__watermark__{name}": size for name, size in levels.items()}
    with setting(lab, **marks):
        assert wait_until(lambda: one()[0] == 429, RELEASED_SECONDS), one()
        answer = one()
        assert is_told(error, answer), answer
        assert ask(lab, "GET", f"/{INDEX}/_doc/0")[0] == 200, "reads are let through"
        held = ask(lab, "GET", f"/{INDEX}/_settings/index.blocks.*")[1]
        assert held[INDEX]["settings"]["index"]["blocks"]["read_only_allow_delete"] == "true"
    assert wait_until(lambda: one()[0] in (200, 201), RELEASED_SECONDS), one()
    assert ask(lab, "GET", f"/{INDEX}/_settings/index.blocks.*")[1] == {}


def test_a_store_that_takes_no_segments_refuses_writes_until_it_takes_them(lab: LocalLab) -> None:
    error = BY_NAME["remote store pressure"].error
    write = lambda: ask(lab, "PUT", f"/{INDEX}/_doc/y?refresh=true", {"word": "y"})  # noqa: E731
    assert write()[0] in (200, 201)
    before = rejections(lab)
    uuid = ask(lab, "GET", f"/{INDEX}/_settings")[1][INDEX]["settings"]["index"]["uuid"]
    (data,) = [each for each in lab.folder.rglob("segments/data") if uuid in each.parts]
    away = data.with_name("data.away")
    data.rename(away)
    data.touch()  # a file where there must be a folder: nothing can be stored in it
    try:
        assert wait_until(lambda: write()[0] == 429, RELEASED_SECONDS), write()
        answer = write()
        assert is_told(error, answer), answer
        assert rejections(lab) > before
    finally:
        data.unlink()
        away.rename(data)
    assert wait_until(lambda: write()[0] in (200, 201), RELEASED_SECONDS), write()


def rejections(lab: LocalLab) -> int:
    (own,) = ask(lab, "GET", f"/_remotestore/stats/{INDEX}")[1]["indices"][INDEX]["shards"].values()
    return sum(int(copy["segment"]["upload"]["backpressure_rejection_count"]) for copy in own)
