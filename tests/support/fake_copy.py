"""One copy of a shard in memory, with the few searches that the read-back asks: each document's source, words, doc
values, points and id can be changed apart from the others."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from chaos.load.workloads.documents import content
from chaos.opensearch.views import ShardCopy

NUMBERS = ("seq", "group", "check")


@dataclass
class Document:
    """What a copy holds of one document, each part on its own. ``listed``: it comes among all documents."""

    id: str
    source: dict[str, Any]
    words: list[str]
    values: dict[str, Any]
    points: dict[str, Any]
    by_id: bool = True
    listed: bool = True

    @classmethod
    def of_others(cls, id: str, text: str = "whatever") -> Document:
        """Of an external actor: it has none of our numbers."""
        return cls(id, {"text": text}, text.split(), {}, {})

    @classmethod
    def of(cls, id: str, value: int = 0) -> Document:
        source = content(id, value)
        numbers = {name: source[name] for name in NUMBERS}
        return cls(id, source, source["text"].split(), dict(numbers), dict(numbers))


@dataclass
class FakeCopy:
    """A lab with one copy, its documents by their sequence number. ``fails``: the search of this number and all later
    ones are answered with 503."""

    documents: list[Document]
    node: str = "a-data"
    asked: list[dict[str, Any]] = field(default_factory=list)
    fails: int | None = None

    @classmethod
    def of(cls, ids: Iterable[str], **more: Any) -> FakeCopy:
        return cls([Document.of(id) for id in ids], **more)

    def __getitem__(self, id: str) -> Document:
        return next(document for document in self.documents if document.id == id)

    @property
    def copy(self) -> ShardCopy:
        return ShardCopy("chaos", 0, True, "STARTED", self.node)

    def client(self, node: str, *, timeout: float) -> FakeCopy:
        assert node == self.node
        return self

    def close(self) -> None:
        return

    def fetch(self, method: str, path: str, *, body: Any) -> tuple[int, bytes]:
        status, answer = self.request(method, path, body=body)
        return status, json.dumps(answer).encode()

    def request(self, method: str, path: str, *, body: Any) -> tuple[int, Any]:
        assert method == "POST" and "_shards:0%7C_only_local" in path
        self.asked.append(body)
        if self.fails is not None and len(self.asked) >= self.fails:
            return 503, {"error": "no"}
        query, order = body.get("query"), body.get("sort", [])
        found = [each for each in enumerate(self.documents) if _matches(query or {"match_all": {}}, each[1])]
        total = {"total": {"value": len(found)}} if body["track_total_hits"] else {}
        found.sort(key=lambda each: _place(each, order))  # where they are equal, as they are in the copy
        if after := body.get("search_after"):
            found = [each for each in found if _place(each, order) > tuple(after)]
        shown = [each for each in found if query is not None or each[1].listed]
        hits = [self._hit(each, body) for each in shown[: body["size"]]]
        return 200, {"timed_out": False, "_shards": {"successful": 1}, "hits": {**total, "hits": hits}}

    def _hit(self, numbered: tuple[int, Document], body: dict[str, Any]) -> dict[str, Any]:
        number, document = numbered
        hit: dict[str, Any] = {"_id": document.id, "sort": list(_place(numbered, body.get("sort", [])))}
        if body.get("docvalue_fields"):
            hit["fields"] = {name: [value] for name, value in document.values.items()}
        if body.get("_source"):
            hit["_source"] = document.source
        if body.get("seq_no_primary_term"):
            hit |= {"_seq_no": number, "_primary_term": 1}
        should = body.get("query", {}).get("bool", {}).get("should", [])
        names = [_name(query) for query in should if _name(query) and _matches(query, document)]
        return {**hit, "matched_queries": names} if names else hit


def _place(numbered: tuple[int, Document], order: list[dict[str, Any]]) -> tuple[int, ...]:
    number, document = numbered
    assert all(list(field.values()) == [{"missing": "_last"}] for field in order)
    names = [name for field in order for name in field]
    return tuple(number if name == "_seq_no" else document.values.get(name, 2**63 - 1) for name in names)


def _name(query: dict[str, Any]) -> str | None:
    ((kind, body),) = query.items()
    return body.get("_name") if kind == "bool" else body["text"].get("_name") if kind == "term" else None


def _matches(query: dict[str, Any], document: Document) -> bool:
    ((kind, body),) = query.items()
    if kind == "match_all":
        return True
    if kind == "ids":
        return document.by_id and document.id in body["values"]
    if kind == "term":
        return body["text"]["value"] in document.words
    if kind == "terms":
        ((name, values),) = body.items()
        return document.points.get(name) in values
    if kind == "range":
        low, high = body["text"].get("gt", ""), body["text"].get("lt")
        return any(low < word and (high is None or word < high) for word in document.words)
    if kind == "match_phrase":
        phrase = body["text"].split()
        spots = range(len(document.words) - len(phrase) + 1)
        return any(document.words[at : at + len(phrase)] == phrase for at in spots)
    assert kind == "bool", kind
    if "filter" in body:
        return all(_matches(part, document) for part in body["filter"])
    return any(_matches(part, document) for part in body["should"])
