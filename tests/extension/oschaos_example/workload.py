"""A workload: notes of two numbers and a line of letters' names."""

from __future__ import annotations

import hashlib
import json
from typing import Any, ClassVar

from chaos.api.workloads import OperationKind, Request, Requests, Workload, is_key, number_of, preload_id, write_id

WORDS = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel")


class Notes(Workload):
    """``rank`` is a document's number, or the value of a key; ``stamp`` is its own, ``line`` its text."""

    name = "notes"
    says = "notes: two numbers, and a line of five words"
    operations = (
        OperationKind("find", "notes by a word, or one by its number", {"by-word": "search", "by-number": "get"}),
        OperationKind("note", "one more note", {"put": "index"}),
    )
    mapping: ClassVar[dict[str, Any]] = {
        "dynamic": "strict",
        "properties": {"rank": {"type": "long"}, "stamp": {"type": "long"}, "line": {"type": "text"}},
    }
    fields = ("rank", "stamp")
    value = "rank"
    unique = "stamp"
    text = "line"
    words = WORDS

    def requests(self, index: str, documents: int) -> Requests:
        return NoteRequests(self, index, documents)

    def numbers(self, doc_id: str, value: int = 0) -> dict[str, int]:
        rank = value if is_key(doc_id) else number_of(doc_id)
        said = f"{doc_id}:{rank}".encode()
        return {"rank": rank, "stamp": int.from_bytes(hashlib.blake2b(said, digest_size=8).digest(), "big") >> 1}

    def content(self, doc_id: str, value: int = 0) -> dict[str, Any]:
        numbers = self.numbers(doc_id, value)
        line = "" if is_key(doc_id) else " ".join(WORDS[(numbers["stamp"] >> (3 * n)) % len(WORDS)] for n in range(5))
        return {**numbers, "line": line}

    def found_by(self, doc_id: str) -> frozenset[str]:
        """The words of its line."""
        return frozenset(self.content(doc_id)["line"].split())


class NoteRequests:
    """Searches for a word; gets and writes by id."""

    def __init__(self, workload: Notes, index: str, documents: int) -> None:
        self._workload, self._index, self._documents = workload, index, documents

    def of(self, kind: str, k: int) -> Request:
        """The request of arrival ``k``."""
        if kind == "put":
            path = f"/{self._index}/_doc/{write_id(k)}?filter_path=_index,_id,result,_shards"
            return Request("PUT", path, self._workload.body(write_id(k)))
        if kind == "by-number":
            return Request("GET", f"/{self._index}/_doc/{preload_id(k % self._documents)}", None)
        word = WORDS[k % len(WORDS)]
        body = {"size": 5, "query": {"match": {"line": word}}}
        path = f"/{self._index}/_search?filter_path=timed_out,_shards,hits.total,hits.hits._index,hits.hits._id"
        return Request("POST", path, json.dumps(body), asks=word)


WORKLOAD = Notes()
