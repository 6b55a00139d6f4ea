"""Reads that go through all pages of what a search finds: by scroll, or by search after within a point in time.

Such a read is one arrival of several requests, judged as one from its intended start. It sees the index as it was when
it began, so every page must count the same total, no document may come twice, and where all pages were had there are as
many as it counts. What was there before the load must all be among them, and of what the load wrote as many as were
visible for sure when it began (:mod:`chaos.load.known`). Each hit is judged as a search's is (:mod:`chaos.load.right`).

What a read holds open on the nodes is freed at its end, whatever came of it. Where that fails, or the driver is killed,
OpenSearch frees it :data:`KEEP` after the last page was asked for (``scroll``, ``keep_alive``).
"""

from __future__ import annotations

import json
import sys
from typing import Any, Literal

from chaos.history.failures import Failure
from chaos.history.format import Outcome
from chaos.load.known import numbered
from chaos.load.outcomes import of_status, whole
from chaos.load.right import EVERY, Judge, Searched, Sent, shards_wrong
from chaos.load.workload import Request, Requests, Workload
from chaos.opensearch.rest import UNREADABLE

KEEP = "30s"
"""How long a context is kept after each page: a client's timeout and some, and short on somebody's cluster."""
FIELDS = "timed_out,_shards,hits.total," + ",".join(
    f"hits.hits.{each}" for each in ("_index", "_id", "_source", "sort")
)
How = Literal["scroll", "pit"]


class Pages:
    """Makes the reads of one operation: at most ``pages`` pages of ``size`` documents each."""

    def __init__(
        self, requests: Requests, workload: Workload, judge: Judge, index: str, how: How, pages: int, size: int
    ) -> None:
        self._requests, self._workload, self._judge = requests, workload, judge
        self._index, self._how, self._pages, self._size = index, how, pages, size

    def read(self, k: int, t: int) -> Read:
        """The read of arrival ``k``, which begins at ``t`` (CLOCK_MONOTONIC ns)."""
        search = self._requests.of("search", k)
        query = json.loads(search.body or "{}").get("query", {"match_all": {}})
        sent = self._judge.sent("search", k, search._replace(answer=None), search.path, t)
        # what a client sent twice under ids of OpenSearch's is there twice, alike but for the place in its shard; and a
        # page begins behind all that are equal to the last of the page before
        order = [{field: "asc"} for field in (self._workload.value, self._workload.unique, "_seq_no")]
        kind = _Scroll if self._how == "scroll" else _PointInTime
        return kind(self._judge, sent, self._index, query, order, self._pages, self._size)


class Read:
    """One read. Ask for :meth:`next` and hand its answer to :meth:`take` until there is none; then send
    :meth:`release`. ``outcome``, ``says`` and ``stale`` are as of other requests."""

    def __init__(
        self, judge: Judge, sent: Sent, index: str, query: Any, order: list[Any], pages: int, size: int
    ) -> None:
        self._judge, self._sent, self._index = judge, sent, index
        self._query, self._order, self._most, self._size = query, order, pages, size
        self._context: str | None = None
        self._pages = self._before = self._least = 0
        self._total: int | None = None
        self._seen: set[tuple[str, str, int]] = set()
        self._done = False
        self.outcome, self.says, self.stale = Outcome.UNKNOWN, "", False

    @property
    def began(self) -> bool:
        """Whether a context is held."""
        return self._context is not None

    def next(self) -> Request | None:
        """The next request; None at the end."""
        return None if self._done else self._request()

    @property
    def _found(self) -> bool:
        """Whether the next answer is a page of documents."""
        return True

    def _request(self) -> Request:
        raise NotImplementedError

    def release(self) -> Request | None:
        """What frees what is held; None where nothing is."""
        raise NotImplementedError

    def _held(self, answer: dict[str, Any]) -> None:
        """Take the context from an answer; the newest counts."""
        raise NotImplementedError

    def take(self, status: int, text: str | bytes) -> None:
        """The answer to the request before."""
        outcome = of_status(status)
        if outcome is not Outcome.OK:
            return self._end(outcome)
        try:
            answer = json.loads(text)
            found = self._found
            self._held(answer)
            if found:
                self._page(answer)
        except UNREADABLE:
            self._end(Outcome.GARBLED)

    def failed(self, outcome: Outcome, status: int, failure: int) -> Outcome:
        """What the read comes to where a request of it was answered by an error. ``outcome``, ``status`` and
        ``failure``: of that answer.

        That there is no such context is the cluster's loss of it once it was there: 404, and 400 of a scroll whose
        node has left (since 3.3.0).
        """
        lost = status == 404 or (status == 400 and failure == Failure.CONTEXT_LOST)
        return Outcome.SERVER_ERROR if lost and self.began else outcome

    def _page(self, answer: dict[str, Any]) -> None:
        outcome = whole("search", answer)
        if says := shards_wrong(answer["_shards"], self._judge.shards):
            return self._wrong(f"answered with {says}")
        hits, total = answer["hits"].get("hits", []), answer["hits"]["total"]["value"]
        if type(hits) is not list or type(total) is not int:
            raise TypeError("no page of a search")
        if says := self._judge.hits(hits, self._sent.asks, EVERY, Searched(self._size, False, True)):
            return self._wrong(says)
        for hit in hits:
            named = numbered(hit["_id"]) or (hit["_id"], 0)  # an id that OpenSearch gave
            if (place := (sys.intern(hit["_index"]), *named)) in self._seen:
                return self._wrong(f"answered with the hit {hit['_id']} on two pages")
            self._seen.add(place)
            self._before += named[0] == "p"
        self._pages += 1
        if outcome is not Outcome.OK:
            return self._end(outcome)
        if self._total is None:
            self._total = total
            self._least = self._judge.least_now(self._sent)
            if (most := self._judge.most(self._sent.asks)) < total:
                return self._wrong(f"found {total}, and {most} were ever sent")
        if total != self._total:
            return self._wrong(f"counts {total} on page {self._pages}, and {self._total} on the first")
        if len(hits) != min(self._size, total - len(self._seen) + len(hits)):
            return self._wrong(
                f"answered with {len(hits)} hits on page {self._pages}, {len(self._seen)} of {total} in all"
            )
        self._after(hits)
        if len(self._seen) == total:
            self.stale = total < self._least or self._before < self._judge.there_before(self._sent.asks)
            self._end(Outcome.PARTIAL if self.stale else Outcome.OK)
        elif self._pages == self._most:
            self.stale = total < self._least
            self._end(Outcome.PARTIAL if self.stale else Outcome.OK)

    def _after(self, hits: list[Any]) -> None:
        """What the next page continues from."""

    def _wrong(self, says: str) -> None:
        self.says = f"{'search' if self._sent.asks is None else f'search for {self._sent.asks}'} in pages {says}"
        self._end(Outcome.WRONG)

    def _end(self, outcome: Outcome) -> None:
        self.outcome, self._done = outcome, True


class _Scroll(Read):
    def _request(self) -> Request:
        if self._context is None:
            body = {"size": self._size, "query": self._query, "sort": ["_doc"], "track_total_hits": True}
            path = f"/{self._index}/_search?scroll={KEEP}&filter_path=_scroll_id,{FIELDS}"
            return Request("POST", path, json.dumps(body))
        body = {"scroll": KEEP, "scroll_id": self._context}
        return Request("POST", f"/_search/scroll?filter_path=_scroll_id,{FIELDS}", json.dumps(body))

    def _held(self, answer: dict[str, Any]) -> None:
        self._context = str(answer["_scroll_id"])

    def release(self) -> Request | None:
        if self._context is None:
            return None
        return Request("DELETE", "/_search/scroll", json.dumps({"scroll_id": [self._context]}))


class _PointInTime(Read):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._from: list[Any] | None = None

    @property
    def _found(self) -> bool:
        return self._context is not None

    def _request(self) -> Request:
        if self._context is None:
            path = f"/{self._index}/_search/point_in_time?keep_alive={KEEP}&allow_partial_pit_creation=false"
            return Request("POST", path, None)
        body = {
            "size": self._size,
            "query": self._query,
            "sort": self._order,
            "track_total_hits": True,
            "pit": {"id": self._context, "keep_alive": KEEP},
        }
        if self._from is not None:
            body["search_after"] = self._from
        return Request("POST", f"/_search?filter_path=pit_id,{FIELDS}", json.dumps(body))

    def _held(self, answer: dict[str, Any]) -> None:
        if self._context is None or "pit_id" in answer:
            self._context = str(answer["pit_id"])

    def _after(self, hits: list[Any]) -> None:
        if hits:
            self._from = list(hits[-1]["sort"])

    def release(self) -> Request | None:
        if self._context is None:
            return None
        return Request("DELETE", "/_search/point_in_time", json.dumps({"pit_id": [self._context]}))
