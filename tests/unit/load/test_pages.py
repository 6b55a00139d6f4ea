"""Reads through all pages, against an index in memory that tells the truth, or one lie."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from opensearchpy.exceptions import TransportError
from unit.load.test_right import COPIES, INDEX, SHARDS

from chaos.base.ids import preload_id, write_id
from chaos.history.format import Outcome
from chaos.load.known import Known
from chaos.load.outcomes import of_error
from chaos.load.pages import KEEP, How, Pages, Read
from chaos.load.right import Judge
from chaos.load.said import Said
from chaos.load.schedule import SECOND
from chaos.load.workload import Request
from chaos.load.workloads.documents import WORKLOAD, source

DOCUMENTS, GROUP, K = 2000, None, 5
LATER = 100 * SECOND
Lie = Callable[[int, dict[str, Any]], Any]
"""Changes page number n (from 0)."""


class Index:
    """The documents of one group, in pages; contexts are counted."""

    def __init__(self, ids: list[str], lie: Lie = lambda number, answer: None) -> None:
        self.ids, self._lie = ids, lie
        self.pages, self.open, self.asked = 0, 0, list[Request]()

    def answer(self, request: Request) -> tuple[int, str]:
        self.asked.append(request)
        body = json.loads(request.body or "{}")
        if request.method == "DELETE":
            self.open -= 1
            return 200, "{}"
        if "/_search/point_in_time" in request.path:
            self.open += 1
            return 200, json.dumps({"pit_id": "P0", "_shards": {"total": SHARDS, "successful": SHARDS, "failed": 0}})
        if "?scroll=" in request.path:
            self.open += 1
        if "pit" in body:
            assert body["pit"] == {"id": f"P{self.pages}", "keep_alive": KEEP}
            first = self.ids.index(body["search_after"][0]) + 1 if "search_after" in body else 0
        else:
            assert self.pages == 0 or body == {"scroll": KEEP, "scroll_id": f"S{self.pages}"}
            first = self.pages * self.size
        self.size = body.get("size") or self.size
        some = self.ids[first : first + self.size]
        hits = [{"_index": INDEX, "_id": id, "_source": source(id), "sort": [id]} for id in some]
        found = {"total": {"value": len(self.ids), "relation": "eq"}, **({"hits": hits} if hits else {})}
        self.pages += 1
        shards = {"total": SHARDS, "successful": SHARDS, "skipped": 0, "failed": 0}
        answer = {"timed_out": False, "_shards": shards, "hits": found}
        answer |= {"pit_id": f"P{self.pages}"} if "pit" in body else {"_scroll_id": f"S{self.pages}"}
        self._lie(self.pages - 1, answer)
        return 200, json.dumps(answer)

    size = 0


def there() -> tuple[Judge, Known, int]:
    known = Known(WORKLOAD.found_by, DOCUMENTS, visible_after_s=11.0)
    asks = WORKLOAD.requests(INDEX, DOCUMENTS).of("search", K).asks
    assert isinstance(asks, int)
    return Judge(WORKLOAD, known, INDEX, shards=SHARDS, copies=COPIES), known, asks


def preloaded(group: int) -> list[str]:
    return [preload_id(n) for n in range(group, DOCUMENTS, 100)]


def go(index: Index, judge: Judge, how: How, pages: int = 10, size: int = 6, t: int = 0) -> Read:
    """A whole read; what it holds is freed."""
    read = Pages(WORKLOAD.requests(INDEX, DOCUMENTS), WORKLOAD, judge, INDEX, how, pages, size).read(K, t)
    while (request := read.next()) is not None:
        read.take(*index.answer(request))
    if (request := read.release()) is not None:
        index.answer(request)
    assert index.open == 0
    return read


HOW: tuple[How, ...] = ("scroll", "pit")


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("size", [6, 7, 10, 20, 21])
def test_all_pages_of_what_is_there_are_right(how: How, size: int) -> None:
    judge, _, group = there()
    index = Index(preloaded(group))
    read = go(index, judge, how, size=size)
    assert (read.outcome, read.says, read.stale) == (Outcome.OK, "", False)
    assert index.pages == -(-20 // size)


@pytest.mark.parametrize("how", HOW)
def test_a_read_of_a_few_pages_ends_after_them(how: How) -> None:
    judge, _, group = there()
    index = Index(preloaded(group))
    assert go(index, judge, how, pages=2).outcome is Outcome.OK and index.pages == 2


@pytest.mark.parametrize("how", HOW)
def test_what_was_visible_before_it_began_must_be_among_them(how: How) -> None:
    judge, known, group = there()
    new = write_id(DOCUMENTS + group)
    known.sent(new)
    assert go(Index(preloaded(group)), judge, how, t=LATER).outcome is Outcome.OK  # nobody said that it is there
    known.acknowledged(new, 0)
    assert go(Index([*preloaded(group), new]), judge, how, t=LATER).outcome is Outcome.OK
    for ids in (preloaded(group), [*preloaded(group)[1:], new]):
        read = go(Index(ids), judge, how, t=LATER)
        assert read.outcome is Outcome.PARTIAL and read.stale


@pytest.mark.parametrize("how", HOW)
def test_a_document_from_before_that_is_missing_is_not_made_up_for_by_a_new_one(how: How) -> None:
    judge, known, group = there()
    new = write_id(DOCUMENTS + group)
    known.sent(new)  # visible already, though it need not be
    read = go(Index([*preloaded(group)[1:], new]), judge, how)
    assert read.outcome is Outcome.PARTIAL and read.stale


def _twice(number: int, answer: dict[str, Any]) -> None:
    if number == 1:
        hits = answer["hits"]["hits"]
        id = preload_id(int(hits[0]["_id"][2:]) - 100)  # the last of the page before
        hits[0] |= {"_id": id, "_source": source(id)}


def _short(number: int, answer: dict[str, Any]) -> None:
    if number == 1:
        answer["hits"]["hits"].pop()


def _empty(number: int, answer: dict[str, Any]) -> None:
    if number == 1:
        del answer["hits"]["hits"]


def _another_total(number: int, answer: dict[str, Any]) -> None:
    if number == 1:
        answer["hits"]["total"]["value"] += 1


def _too_many(number: int, answer: dict[str, Any]) -> None:
    answer["hits"]["total"]["value"] = 21


def _stranger(number: int, answer: dict[str, Any]) -> None:
    if number == 2:
        answer["hits"]["hits"][0] |= {"_id": "w-7"}


def _other_content(number: int, answer: dict[str, Any]) -> None:
    if number == 2:
        answer["hits"]["hits"][0]["_source"]["check"] ^= 1


def _elsewhere(number: int, answer: dict[str, Any]) -> None:
    answer["hits"]["hits"][0]["_index"] = "other"


def _fewer_shards(number: int, answer: dict[str, Any]) -> None:
    answer["_shards"] |= {"total": 1, "successful": 1}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    ("lie", "says"),
    [
        (_twice, "on two pages"),
        (_short, "answered with 5 hits on page 2"),
        (_empty, "answered with 0 hits on page 2"),
        (_another_total, "counts 21 on page 2, and 20 on the first"),
        (_too_many, "found 21, and 20 were ever sent"),
        (_stranger, "w-7"),
        (_other_content, "other content"),
        (_elsewhere, "of the index"),
        (_fewer_shards, "1 shards"),
    ],
)
def test_every_contradiction_is_wrong_and_named(how: How, lie: Lie, says: str) -> None:
    judge, _, group = there()
    read = go(Index(preloaded(group), lie), judge, how)
    assert read.outcome is Outcome.WRONG and says in read.says and f"search for {group} in pages" in read.says


def _failed_shard(number: int, answer: dict[str, Any]) -> None:
    if number == 1:
        answer["_shards"] |= {"successful": SHARDS - 1, "failed": 1}


def _no_page(number: int, answer: dict[str, Any]) -> None:
    if number == 1:
        for key in ("hits", "timed_out", "_shards"):
            del answer[key]


@pytest.mark.parametrize("how", HOW)
def test_a_page_that_lacks_a_shard_is_partial_and_one_that_is_none_is_garbled(how: How) -> None:
    judge, _, group = there()
    assert go(Index(preloaded(group), _failed_shard), judge, how).outcome is Outcome.PARTIAL
    assert go(Index(preloaded(group), _no_page), judge, how).outcome is Outcome.GARBLED


@pytest.mark.parametrize("how", HOW)
def test_what_never_began_holds_nothing_and_what_failed_later_is_freed(how: How) -> None:
    judge, _, group = there()
    pages = Pages(WORKLOAD.requests(INDEX, DOCUMENTS), WORKLOAD, judge, INDEX, how, 10, 6)
    read = pages.read(K, 0)
    assert read.next() is not None
    read.take(503, "no")
    assert read.outcome is Outcome.SERVER_ERROR and read.next() is None and read.release() is None
    read, index = pages.read(K, 0), Index(preloaded(group))
    request = read.next()
    assert request is not None
    read.take(*index.answer(request))
    assert read.began
    read.take(429, "no")
    freed = read.release()
    assert read.outcome is Outcome.REJECTED and freed is not None and freed.method == "DELETE"
    assert json.loads(freed.body or "") in ({"scroll_id": ["S1"]}, {"pit_id": ["P0"]})


def _error(status: int, type_: str, reason: str) -> TransportError:
    cause = {"type": type_, "reason": reason}
    return TransportError(status, type_, {"error": {"root_cause": [cause], **cause}, "status": status})


LEFT = "scroll_id references node [x] which was not found in the cluster"


@pytest.mark.parametrize(
    ("error", "alone", "once_begun"),
    [
        (_error(400, "illegal_argument_exception", LEFT), Outcome.CLIENT_ERROR, Outcome.SERVER_ERROR),
        (_error(404, "search_context_missing_exception", "No context"), Outcome.CLIENT_ERROR, Outcome.SERVER_ERROR),
        (_error(400, "parsing_exception", "Unknown key"), Outcome.CLIENT_ERROR, Outcome.CLIENT_ERROR),
        (_error(429, "rejected_execution_exception", "full"), Outcome.REJECTED, Outcome.REJECTED),
    ],
    ids=["node left", "no context", "malformed", "rejected"],
)
def test_a_context_that_is_gone_is_the_clusters_loss_once_it_was_there(
    error: TransportError, alone: Outcome, once_begun: Outcome
) -> None:
    judge, _, group = there()
    read = Pages(WORKLOAD.requests(INDEX, DOCUMENTS), WORKLOAD, judge, INDEX, "scroll", 10, 6).read(K, 0)
    failure = Said(lambda *_, **__: None).raised("read", error, "a-data")
    assert read.failed(*of_error(error), failure) is alone
    request = read.next()
    assert request is not None
    read.take(*Index(preloaded(group)).answer(request))
    assert read.began and read.failed(*of_error(error), failure) is once_begun


class Ordered:
    """Documents in the order that is asked for, of a point in time: a page begins behind all that are equal to where
    the page before ended."""

    def __init__(self, documents: list[tuple[str, dict[str, Any]]]) -> None:
        self._rows = [(id, {**content, "_seq_no": n}, content) for n, (id, content) in enumerate(documents)]

    def answer(self, request: Request) -> tuple[int, str]:
        body = json.loads(request.body or "{}")
        if "/_search/point_in_time" in request.path:
            return 200, json.dumps({"pit_id": "P"})
        order = [field for each in body["sort"] for field in each]
        rows = sorted(([held[field] for field in order], id, content) for id, held, content in self._rows)
        rest = [row for row in rows if "search_after" not in body or row[0] > body["search_after"]]
        hits = [
            {"_index": INDEX, "_id": id, "_source": content, "sort": place}
            for place, id, content in rest[: body["size"]]
        ]
        shards = {"total": SHARDS, "successful": SHARDS, "skipped": 0, "failed": 0}
        total = {"value": len(rows), "relation": "eq"}
        return 200, json.dumps(
            {"pit_id": "P", "timed_out": False, "_shards": shards, "hits": {"total": total, "hits": hits}}
        )


@pytest.mark.parametrize("size", [3, 6, 7, 9, 10])
def test_documents_that_are_stored_twice_are_both_on_the_pages_of_a_point_in_time(size: int) -> None:
    known = Known(WORKLOAD.found_by, DOCUMENTS, visible_after_s=11.0)
    judge = Judge(WORKLOAD, known, INDEX, shards=SHARDS, copies=COPIES, automatic=True)
    group = WORKLOAD.requests(INDEX, DOCUMENTS).of("search", K).asks
    assert isinstance(group, int)
    documents = [(id, source(id)) for id in preloaded(group)]
    for n in range(30):
        id = write_id(DOCUMENTS + group + 100 * n)
        known.sent(id)
        known.acknowledged(id, 0)
        documents += [(f"given-{n}-{again}", source(id)) for again in range(2)]
    index = Ordered(documents)
    read = Pages(WORKLOAD.requests(INDEX, DOCUMENTS), WORKLOAD, judge, INDEX, "pit", 100, size).read(K, LATER)
    while (request := read.next()) is not None:
        read.take(*index.answer(request))
    assert (read.outcome, read.says, read.stale) == (Outcome.OK, "", False)
