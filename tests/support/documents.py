"""Documents of one index as OpenSearch keeps them, with sequence numbers and conditions, from memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from fake_cluster import FakeCluster

from chaos.run.noted import HOLDERS

INDEX = ".opensearch-chaos"
FULL = {"error": {"reason": "disk usage exceeded flood-stage watermark"}}


class WithDocuments(FakeCluster):
    """``full``: nothing more is taken. ``lies``: asked before each request; what it returns is the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.documents: dict[str, dict[str, Any]] = {}
        self.sequence: dict[str, int] = {}
        self.moved = 0
        self.full = False
        self.lies: Callable[[str, str], tuple[int, Any] | None] = lambda method, path: None
        self._one = threading.Lock()

    @property
    def noted(self) -> set[str]:
        """Ids of all documents but the one that counts holders, which stays."""
        return set(self.documents) - {HOLDERS}

    def answer(self, node: str, method: str, path: str, body: Any) -> tuple[int, Any]:
        if not path.startswith(f"/{INDEX}"):
            return super().answer(node, method, path, body)
        with self._one:
            lie = self.lies(method, path)
            return lie if lie is not None else self._documents(method, path, body)

    def _documents(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        name, _, query = path.partition("?")
        kind, _, id = name.removeprefix(f"/{INDEX}").lstrip("/").partition("/")
        if (method, kind) == ("PUT", ""):
            given = (body or {}).get("settings", {}).get("index", {})
            self.indices.setdefault(INDEX, {f"index.{key}": str(value).lower() for key, value in given.items()})
            return 200, {"acknowledged": True}
        if INDEX not in self.indices:
            return 404, {"error": {"reason": f"no such index [{INDEX}]"}}
        if kind == "_settings":
            return 200, {INDEX: {"settings": self.indices[INDEX]}}
        if kind == "_refresh":
            return 200, {}
        if kind == "_bulk":
            return self._many([json.loads(line) for line in body.splitlines()])
        if kind == "_search":
            return 200, {"hits": {"hits": [{"_id": id, "_source": source} for id, source in self.documents.items()]}}
        if method == "DELETE" and kind == "":
            del self.indices[INDEX]
            self.documents.clear()
            return 200, {}
        if method == "GET":
            if id not in self.documents:
                return 404, {"found": False}
            return 200, {"_source": self.documents[id], "_seq_no": self.sequence[id], "_primary_term": 1}
        wanted = parse_qs(query).get("if_seq_no")
        if wanted is not None and (id not in self.documents or self.sequence[id] != int(wanted[0])):
            return 409, {"error": {"reason": "version conflict"}}
        if method == "DELETE":
            return (200, {}) if self.documents.pop(id, None) else (404, {})
        if self.full:
            return 429, FULL
        if kind == "_create" and id in self.documents:
            return 409, {}
        self._keep(id, body)
        return 201, {"_seq_no": self.sequence[id], "_primary_term": 1}

    def _keep(self, id: str, source: dict[str, Any]) -> None:
        self.moved += 1
        self.documents[id], self.sequence[id] = source, self.moved

    def _many(self, rows: list[dict[str, Any]]) -> tuple[int, Any]:
        items, rest = [], iter(rows)
        for row in rest:
            ((what, of),) = row.items()
            if what == "delete":
                items.append({what: {"status": 200 if self.documents.pop(of["_id"], None) else 404}})
                continue
            source = next(rest)
            if what == "update":
                known = self.documents.get(of["_id"])
                if known is not None:
                    self._keep(of["_id"], {**known, **source["doc"]})
                items.append({what: {"status": 404 if known is None else 200}})
                continue
            status = 429 if self.full else 409 if of["_id"] in self.documents else 201
            if status == 201:
                self._keep(of["_id"], source)
            items.append({what: {"status": status, **(FULL if self.full else {})}})
        return 200, {"items": items}
