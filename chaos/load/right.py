"""Is an answer what was asked for? A good answer is right, and not only whole by its own count.

What an answer must be follows from the request and from what this load has sent: the shards that the index has, the id
and the index of a document, its content (which follows from its id), the hits of a search. Every function here says in
words what is *wrong*, or nothing. Wrong is a contradiction that no delay explains; what an answer only lacks (fewer
documents than must be visible by now, :mod:`chaos.load.known`) is *stale*: counted apart, and not whole.

Facts of OpenSearch 3.8.0: a write's ``_shards`` counts every copy of its shard, also those without a node
(``ReplicationOperation``, ``ReplicationGroup.getSkippedShards``), and a copy that moves twice. ``successful`` counts
the primary, so it is at least 1 of a write that was done (documentation of the index API). A search counts one copy of
each shard, and also those that it skipped. ``filter_path`` leaves out lists that are empty.

A write that speaks of fewer copies than there are was acknowledged, and is not whole (partial); one that no copy took,
or that speaks of another document, was not acknowledged.

Which copy answers is not ours to choose, and an ``updated`` may be the second try of our own write (the coordinating
node repeats it after a failover), so both results are right; the status must agree with them.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from opensearchpy.exceptions import TransportError

from chaos.base.ids import is_key, write_id
from chaos.base.operations import ADMIN
from chaos.history.format import ACKNOWLEDGED_ITEMS, Action, Outcome
from chaos.load import admin, bulks
from chaos.load.changes import Planned, Updates
from chaos.load.known import Known, numbered
from chaos.load.outcomes import answered, of_failed, of_parts, of_status, whole
from chaos.load.workload import Asked, Request, Workload
from chaos.opensearch.requests import RolledKind, belongs
from chaos.opensearch.rest import UNREADABLE

EVERY = frozenset(("_index", "_id", "_source"))
"""What an answer has of a document unless its path says which fields it wants."""
CONTENT = frozenset(("_source",))
DEFAULT_SIZE = 10
"""Hits of a search that names no size."""
COUNTED = 10_000
"""How far a search counts unless ``track_total_hits`` says otherwise: a total above is said to be ``gte``."""
KEPT = 1 << 14
"""Documents whose content is kept, because hits come again and again."""
_NUMBERS = {int, float}
_CUT = ("from", "collapse", "search_after", "terminate_after", "min_score", "slice", "aggs", "rescore")
"""Keys of a search's body with which the number of its hits, or their order, follows from more than ``size``."""

_UNSOURCED = ("_source", "stored_fields", "script_fields")
"""Keys with which hits need not have their content (``FetchPhase``: fields by scripts come without it)."""


class Sent(NamedTuple):
    """A request that is under way. ``id``: of the document that it is about; ``least``: what a search must find;
    ``numbers``: of the items of a bulk; ``plan``: what they do, where some change documents. ``left``: how many of the
    documents that it asks for had been changed by then (:meth:`chaos.load.known.Known.left`). ``parts``: the searches
    in one request."""

    kind: str
    path: str
    body: str | None
    id: str
    asks: Asked | None = None
    least: int = 0
    numbers: Sequence[int] = ()
    plan: Planned | None = None
    left: int = 0
    parts: tuple[Sent, ...] = ()


class Judged(NamedTuple):
    """What became of a request. ``says``: what is wrong with its answer, or empty. ``stale``: it lacks documents.
    ``items``: the outcome of each document of a bulk that was answered for each
    (:class:`~chaos.history.format.ItemOutcome`), or of each of several searches
    (:class:`~chaos.history.format.Outcome`)."""

    outcome: Outcome
    says: str = ""
    stale: bool = False
    items: bytes | None = None


class Document(NamedTuple):
    """What follows from an id. ``content``: None of a key, which changes."""

    kind: str
    number: int
    content: dict[str, Any] | None
    found_by: Collection[Asked]


class Searched(NamedTuple):
    """What the body of a search asks for. ``size``: hits; None where that does not follow. ``best_first``: by score.

    ``sourced``: with the whole content of each. ``counted``: how far it counts them.
    """

    size: int | None = None
    best_first: bool = False
    sourced: bool = False
    counted: int = COUNTED


class Judge:
    """Judges the answers of one load.

    ``index``: its concrete name, also where writes go by an alias. ``shards``: its primary shards; ``copies``: of each
    shard, primaries too; None where that is not known, and then they are not held against answers. ``pause``: lets
    other requests on, between the documents of a large bulk. ``automatic``: written documents have ids of
    OpenSearch's; by which of ours one is known stands in its source, and it may be there more than once. ``updates``:
    those that the load has sent; None: written documents never change. ``rolled``: the index is a name with several, in
    each of which an id may be once.
    """

    def __init__(
        self,
        workload: Workload,
        known: Known,
        index: str,
        *,
        shards: int | None = None,
        copies: int | None = None,
        pause: bulks.Pause = bulks.no_pause,
        automatic: bool = False,
        updates: Updates | None = None,
        rolled: RolledKind | None = None,
    ) -> None:
        self._automatic, self._updates, self._rolled = automatic, updates, rolled
        self._known, self._index, self._pause = known, index, pause
        self.shards, self._copies = shards, copies
        self._workload = workload
        self._document = functools.lru_cache(KEPT)(self._follows)

    # -- of the load's arrivals ------------------------------------------------------------------------------------

    def sent(self, kind: str, k: int, request: Request, path: str, t: int) -> Sent:
        """The request of arrival ``k`` is about to be sent at ``t`` (CLOCK_MONOTONIC ns); of a write of one
        document that of number ``k``.

        ``kind``: how its answer is judged (:data:`chaos.base.operations.Answer`), unless the request itself says how.
        ``path``: the request's, with what was added to it.
        """
        kind = request.answer or kind
        if kind == "search":
            least = max(request.least_hits, self._known.least(request.asks, t))
            return Sent(kind, path, request.body, "", request.asks, least, left=self._known.left(request.asks))
        if kind == "index":
            doc_id = write_id(k)
            self._known.sent(doc_id)
        else:
            _, by_id, doc_id = path.partition("?")[0].rpartition("/_doc/")
            doc_id = doc_id if by_id else ""  # a package's own way to get one: which it must be is not known
        return Sent(kind, path, request.body, doc_id)

    def sent_bulk(self, path: str, numbers: Sequence[int], *, again: bool = False, plan: Planned | None = None) -> Sent:
        """A bulk of these items is about to be sent. ``again``: it was before. ``plan``: what they do; None: each
        writes a new document."""
        for piece in () if again else bulks.in_pieces(numbers, self._pause):
            for n in piece:
                action, _, held = plan.of(n) if plan is not None else (Action.CREATE, n, n)
                if action == Action.CREATE:
                    self._known.sent(write_id(n))
                elif action == Action.UPDATE:
                    self._known.updating(write_id(n), write_id(held))
                else:
                    self._known.leaving(write_id(held))
        return Sent("bulk", path, None, "", numbers=numbers, plan=plan)

    def sent_searches(self, k: int, path: str, parts: Sequence[Request], t: int) -> Sent:
        """Several searches are about to be sent in one request at ``t`` (CLOCK_MONOTONIC ns)."""
        return Sent(
            "msearch", path, None, "", parts=tuple(self.sent("search", k, each, each.path, t) for each in parts)
        )

    def _of_searches(self, sent: Sent, status: int, text: str | bytes) -> Judged:
        if (outcome := of_status(status)) is not Outcome.OK:
            return Judged(outcome)
        try:
            responses = json.loads(text)["responses"]
            if type(responses) is not list:
                raise TypeError("responses that are no list")
        except UNREADABLE:
            return Judged(Outcome.GARBLED)
        if len(responses) != len(sent.parts):
            says = f"{len(sent.parts)} searches in one request answered for {len(responses)}"
            return Judged(Outcome.WRONG, says)
        judged = []
        for part, answer in zip(sent.parts, responses, strict=True):
            judged.append(self._of_part(part, answer))
            self._pause()
        outcomes = bytes(each.outcome for each in judged)
        says = next((each.says for each in judged if each.says), "")
        return Judged(of_parts(outcomes), says, any(each.stale for each in judged), outcomes)

    def _of_part(self, part: Sent, answer: Any) -> Judged:
        """What one of several searches comes to: what it would alone."""
        try:
            if answer["status"] != 200 or "error" in answer:
                outcome = of_failed(answer)
                says = f"search answered with status 200 and an error: {_short(answer['error'])}"
                return Judged(outcome, says if outcome is Outcome.WRONG else "")
            outcome = whole(part.kind, answer)
            if part.kind == "query":
                return Judged(outcome)
            says, stale = self.search(answer, part, whole=outcome is Outcome.OK)
        except UNREADABLE:
            return Judged(Outcome.GARBLED)
        if says:
            return Judged(Outcome.WRONG, says)
        return Judged(Outcome.PARTIAL if stale else outcome, stale=stale)

    def _of_bulk(self, sent: Sent, status: int, text: str | bytes, t: int) -> Judged:
        outcome = of_status(status)
        if outcome is not Outcome.OK:
            return Judged(outcome)
        try:
            outcome, says, items = bulks.judge(
                json.loads(text),
                sent.numbers,
                self._index,
                self._copies,
                self._pause,
                automatic=self._automatic,
                plan=sent.plan,
                rolled=self._rolled,
            )
        except UNREADABLE:
            return Judged(Outcome.GARBLED)
        for n, item in zip(sent.numbers, items, strict=True):
            if item in ACKNOWLEDGED_ITEMS and (sent.plan is None or sent.plan.of(n)[0] != Action.DELETE):
                self._known.acknowledged(write_id(n), t)
        return Judged(outcome, says, items=items)

    def of(self, sent: Sent, status: int, text: str | bytes, t: int) -> Judged:
        """What an answer comes to that was there at ``t`` (CLOCK_MONOTONIC ns)."""
        if sent.kind == "bulk":
            return self._of_bulk(sent, status, text, t)
        if sent.kind == ADMIN:
            outcome = of_status(status)
            return Judged(admin.judge(sent.path, text) if outcome is Outcome.OK else outcome)
        if sent.kind == "msearch":
            return self._of_searches(sent, status, text)
        outcome, answer = answered(sent.kind, status, text)
        if answer is None or sent.kind == "query":
            return Judged(outcome)
        try:
            stale = False
            if sent.kind == "search":
                says, stale = self.search(answer, sent, whole=outcome is Outcome.OK)
            elif sent.kind == "get":
                says = self.document(answer, sent.id, fields_of(sent.path)) if sent.id else ""
            else:
                says = self.write(status, answer, sent.id, fields_of(sent.path))
        except UNREADABLE:
            return Judged(Outcome.GARBLED)
        if says:
            return Judged(Outcome.WRONG, says)
        if sent.kind == "index":
            self._known.acknowledged(sent.id, t)
            if says := self.uncounted(answer["_shards"]):
                return Judged(Outcome.PARTIAL, f"write of {sent.id} answered {answer['result']} and {says}")
        return Judged(Outcome.PARTIAL if stale else outcome, stale=stale)

    def missing(self, sent: Sent | None, error: BaseException) -> str:
        """What is wrong with a 404 that says that a document is not there; nothing where it speaks of the one that was
        asked for. ``error``: as opensearch-py raises it."""
        answer = error.info if isinstance(error, TransportError) else None
        if sent is None or sent.kind != "get" or not sent.id or not isinstance(answer, dict):
            return ""
        named = {"_index": self._index, "_id": sent.id}
        for key, value in named.items():
            if answer.get(key, value) != value:
                return f"get of {sent.id} answered that {_short(answer[key])} is not there"
        return ""

    # -- of single answers -----------------------------------------------------------------------------------------
    #
    # Each raises one of UNREADABLE for what is no such answer.

    def document(self, answer: Mapping[str, Any], doc_id: str, fields: frozenset[str], content: Any = None) -> str:
        """What is wrong with a get of a document that is there. ``content``: of a key, that of the value it says."""
        if says := self.named("get of", doc_id, answer, fields):
            return says
        it = self._document(doc_id)
        right = it.content if content is None and it is not None else content
        if "_source" in fields and _object(answer["_source"]) != right:
            return f"get of {doc_id} answered with other content: {_short(answer['_source'])}"
        return ""

    def write(
        self, status: int, answer: Mapping[str, Any], doc_id: str, fields: frozenset[str], *, over: int | None = None
    ) -> str:
        """What is wrong with a yes to a write. ``over``: the seq_no over which alone it was to be done, so that there
        is a document already; None: it may be the first."""
        what = "write of"
        if says := self.named(what, doc_id, answer, fields):
            return says
        result, right = answer["result"], {"created": 201, "updated": 200}
        if right[result] != status or (over is not None and result != "updated"):
            return f"{what} {doc_id} answered {status} and {result}"
        if "_seq_no" in fields:
            number, term = _number(answer["_seq_no"]), _number(answer["_primary_term"])
            if number < 0 or term < 1 or (over is not None and number <= over):
                return f"{what} {doc_id} answered with seq_no {number} and primary term {term}"
        if says := _taken(answer["_shards"]):
            return f"{what} {doc_id} answered {result} and {says}"
        return ""

    def search(self, answer: Mapping[str, Any], sent: Sent, *, whole: bool) -> tuple[str, bool]:
        """What is wrong with a search's answer, and whether it lacks what must be visible by now.

        ``whole``: it says that all shards answered; otherwise its numbers are those of the shards that did.
        """
        what = "search" if sent.asks is None else f"search for {sent.asks}"
        planned = self.shards if asks_every_shard(sent.path) else None
        if says := shards_wrong(answer["_shards"], planned):
            return f"{what} answered with {says}", False
        total, exact = _total(answer["hits"]["total"])
        wanted, asked = fields_of(sent.path), searched(sent.body)
        if (most := self.most(sent.asks)) < total:
            return f"{what} found {total}, and {most} were ever sent", False
        if wanted:
            hits = answer["hits"].get("hits", [])
            if type(hits) is not list:
                raise TypeError("hits that are no list")
            if says := self.hits(hits, sent.asks, wanted, asked):
                return f"{what} {says}", False
            if whole and asked.size is not None and len(hits) != min(asked.size, total):
                return f"{what} answered with {len(hits)} hits of {total} that it counts", False
        least = self.least_now(sent)
        least = least if exact else min(least, asked.counted)
        return "", whole and total < least

    def least_now(self, sent: Sent) -> int:
        """How many documents a search must find that is answered now: those that changed meanwhile it need not."""
        return sent.least - (self._known.left(sent.asks) - sent.left)

    def most(self, asks: Asked | None) -> int:
        """How many documents a search can find that is answered now."""
        return sys.maxsize if self._automatic or self._rolled is not None else self._known.most(asks)

    def there_before(self, asks: Asked | None) -> int:
        """How many documents from before the load a search must find."""
        return self._known.before(asks)

    def by_ids(self, answer: Mapping[str, Any], ids: Sequence[str]) -> str:
        """What is wrong with a search for these ids; for a single one it asks one shard. It may not find them yet, and
        each more than once: that is the finding of the check on visibility."""
        what = "search for the id" if len(ids) == 1 else f"search for {len(ids)} ids, with"
        if says := shards_wrong(answer["_shards"], 1 if len(ids) == 1 else self.shards):
            return f"{what} {ids[0]} answered with {says}"
        hits, total = answer["hits"].get("hits", []), _total(answer["hits"]["total"])[0]
        asked = set(ids)
        for hit in hits:
            id = hit["_id"] if hit.get("_id") in asked else ids[0]
            if says := self.named(what, id, hit, EVERY):
                return says
        partial = answer["timed_out"] or answer["_shards"]["failed"]
        if not partial and len(hits) != min(total, 2 * len(ids)):
            return f"{what} {ids[0]} answered with {len(hits)} hits of {total} that it counts"
        return ""

    def _follows(self, doc_id: str) -> Document | None:
        """What follows from an id; None where it is none of ours."""
        found = numbered(doc_id)
        if found is None:
            return None
        # as JSON brings it: content may be written in types that come back as others
        content = None if is_key(doc_id) else json.loads(self._workload.body(doc_id))
        return Document(*found, content, self._workload.found_by(doc_id))

    def hits(self, hits: list[Any], asks: Asked | None, wanted: frozenset[str], asked: Searched) -> str:
        """What is wrong with the hits of an answer. ``wanted``: the fields that each must have."""
        last, seen = self._known.last, set[tuple[str, str]]()
        named, identified = "_index" in wanted, "_id" in wanted
        sourced = "_source" in wanted and asked.sourced

        def place(hit: Mapping[str, Any]) -> str:
            """Within which an id is once."""
            return str(hit["_index"]) if named and self._rolled is not None else ""

        for hit in hits:
            if named and not self._ours(hit["_index"]):
                return f"answered with a hit of the index {_short(hit['_index'])}"
            if not identified:
                continue
            doc_id = hit["_id"]
            if type(doc_id) is not str:
                raise TypeError("an id that is no text")
            if self._automatic and numbered(doc_id) is None:
                if not sourced:
                    continue
                doc_id = write_id(hit["_source"][self._workload.value])
            elif (place(hit), doc_id) in seen and (named or self._rolled is None):
                return f"answered with the hit {_short(doc_id)} twice"
            seen.add((place(hit), doc_id))
            it = self._document(doc_id)
            if it is None or it.number > last[it.kind]:
                return f"answered with the hit {_short(doc_id)}, which this load never sent"
            if self._updates is not None and it.kind == "w":
                if not sourced:
                    continue  # by what it is to be found depends on its content
                it = self._as_changed(it, hit["_source"])
            if asks is not None and asks not in it.found_by:
                return f"answered with the hit {doc_id}, which does not match"
            if sourced and it.content is not None and hit["_source"] != it.content:
                return f"answered with other content of {doc_id}: {_short(_object(hit['_source']))}"
        if "_score" in wanted and asked.best_first:
            scores = [hit["_score"] for hit in hits]
            if not {type(score) for score in scores} <= _NUMBERS:
                raise TypeError("a score that is no number")
            if scores != sorted(scores, reverse=True):
                return "answered with hits out of order"
        return ""

    def _ours(self, index: Any) -> bool:
        """Whether this is the load's index, or one of those under its name."""
        if self._rolled is None:
            return bool(index == self._index)
        return type(index) is str and _belongs(index, self._index)

    def _as_changed(self, it: Document, source: Any) -> Document:
        """What a written document must be, given the number that its content says: its own, or that of an update of it.
        Which of them it has may be any: a search sees what was there at the last refresh."""
        number = _object(source).get(self._workload.value)
        if type(number) is not int or number == it.number or self._updates is None:
            return it
        return (self._updates.may_hold(it.number, number) and self._document(write_id(number))) or it

    def named(self, what: str, doc_id: str, answer: Mapping[str, Any], fields: frozenset[str]) -> str:
        """Whether it speaks of this document and our index, and of a get whether it has found it."""
        if answer.get("found", True) is not True:
            return f"{what} {doc_id} answered with status 200 and found: {_short(answer['found'])}"
        for key, value in (("_index", self._index), ("_id", doc_id)):
            if key in fields:
                if type(answer[key]) is not str:
                    raise TypeError(f"{key} that is no text")
                if answer[key] != value and not (key == "_index" and self._ours(answer[key])):
                    return f"{what} {doc_id} answered with the {key} {_short(answer[key])}"
        return ""

    def uncounted(self, shards: Mapping[str, Any]) -> str:
        """Why a write that was acknowledged does not speak of all copies, or of more than there are.

        One that moves counts twice. It is acknowledged all the same: the primary took it.
        """
        total = _number(shards["total"])
        if self._copies is not None and not self._copies <= total <= 2 * self._copies:
            return f"{total} copies, and each shard has {self._copies}"
        return ""


def _taken(shards: Mapping[str, Any]) -> str:
    """What is wrong with the copies that are said to have taken a write: one at least, the primary."""
    total, successful, failed = (_number(shards[key]) for key in ("total", "successful", "failed"))
    if successful < 1 or failed < 0 or successful + failed > total:
        return f"{successful} of {total} copies that took it, {failed} failed"
    return ""


def shards_wrong(shards: Mapping[str, Any], planned: int | None) -> str:
    """What is wrong with the shards that a search speaks of. ``planned``: how many it must ask; None: not known."""
    total, successful = _number(shards["total"]), _number(shards["successful"])
    if total < 1 or successful > total:
        return f"{successful} of {total} shards"
    if planned is not None and total != planned:
        return f"{total} shards, and {planned} were to be asked"
    return ""


@functools.lru_cache(1 << 10)
def _belongs(index: str, name: str) -> bool:
    return belongs(index, name)


@functools.lru_cache(1 << 12)
def _named_by(query: str) -> frozenset[str]:
    named = parse_qs(query)
    paths = ",".join(named.get("filter_path", ["hits.hits"])).split(",")
    if not set(paths).isdisjoint(("hits", "hits.hits", "hits.hits.*", "hits.*", "*", "**")):
        found = EVERY
    else:
        leaves = [each.removeprefix("hits.hits.") for each in paths]
        found = frozenset(each for each in leaves if each.startswith("_") and each != "_shards" and "." not in each)
    return found - {"_source"} if any(key.startswith("_source") for key in named) else found


def fields_of(path: str) -> frozenset[str]:
    """The fields of a document, or of each hit, that an answer to this path must have."""
    return _named_by(path.partition("?")[2])


@functools.lru_cache(1 << 12)
def asks_every_shard(path: str) -> bool:
    """Whether a search asks one copy of each shard of its index."""
    return "routing=" not in path and "preference=_shards" not in path


@functools.lru_cache(1 << 12)
def searched(body: str | None) -> Searched:
    """What the body of a search says of its hits; the usual where it has none, nothing where it cannot be read."""
    try:
        said = json.loads(body) if body else {}
        if any(key in said for key in _CUT):
            return Searched()
        counted = said.get("track_total_hits", COUNTED)
        return Searched(
            int(said.get("size", DEFAULT_SIZE)),
            "sort" not in said,
            not any(key in said for key in _UNSOURCED),
            sys.maxsize if counted is True else int(counted),
        )
    except UNREADABLE:
        return Searched()


def _total(said: Any) -> tuple[int, bool]:
    """How many documents a search counts, and whether that is all of them."""
    if type(said) is not dict:
        return _number(said), True
    return _number(said["value"]), {"eq": True, "gte": False}[said.get("relation", "eq")]


def _number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no whole number")
    return value


def _object(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise TypeError("a document that is no object")
    return value


def _short(value: Any) -> str:
    """What came, quoted."""
    said = json.dumps(value, ensure_ascii=False)
    return said if len(said) <= 100 else f"{said[:100]}…"
