"""Data streams, aliases and index templates of a cluster, from memory, as OpenSearch 3.8.0 answers about them."""

from __future__ import annotations

import re
from typing import Any

from fake_cluster import NO_INDEX, FakeCluster

from chaos.base.errors import Unanswered


class RolledCluster(FakeCluster):
    """``refuse``: how many rollovers from now on are answered with 503. ``lose``: how many are done without an answer
    that arrives. ``meanwhile``: rollovers that come right after a deletion of a first index was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.indices = {}
        self.templates: dict[str, dict[str, Any]] = {}
        self.streams: dict[str, list[str]] = {}
        self.aliases: dict[str, list[str]] = {}
        self.counts: dict[str, int] = {}
        self.refuse = self.lose = 0
        self.bodies: list[tuple[str, str, Any]] = []

    def answer(self, node: str, method: str, path: str, body: Any) -> tuple[int, Any]:
        if method != "GET":
            self.bodies.append((method, path, body))
        name = path.partition("?")[0]
        if found := re.fullmatch(r"/_index_template/([^/]+)", name):
            return self._template(method, found[1], body)
        if found := re.fullmatch(r"/_data_stream/([^/]+)", name):
            return self._stream(method, found[1])
        if found := re.fullmatch(r"/([^/]+)/_rollover", name):
            return self._rollover(found[1], body)
        if name.startswith("/_cluster/state/metadata/") and "," in name:
            asked = name.removeprefix("/_cluster/state/metadata/").split(",")
            mine = {index: self._known(index) for each in asked for index in self._meant(each)}
            return 200, {"metadata": {"indices": mine}} if mine else {}
        if method == "PUT" and "aliases" in (body or {}):
            index = name[1:]
            made = self.put_index(index, {"settings": {}, "mappings": self._of_template(index)})
            if made[0] == 200:
                self.aliases.setdefault(next(iter(body["aliases"])), []).append(index)
            return made
        if method == "DELETE":
            for indices in self.aliases.values():
                if name[1:] in indices:
                    indices.remove(name[1:])
        return super().answer(node, method, path, body)

    def _meant(self, asked: str) -> list[str]:
        if asked.endswith("*"):
            return [each for each in self.indices if each.startswith(asked[:-1])]
        return self.streams.get(asked) or self.aliases.get(asked) or ([asked] if asked in self.indices else [])

    def _of_template(self, index: str) -> dict[str, Any]:
        return next(
            (
                dict(each["template"]["mappings"])
                for each in self.templates.values()
                if any(re.fullmatch(p.replace("*", ".*"), index) for p in each["index_patterns"])
            ),
            {},
        )

    def _template(self, method: str, name: str, body: Any) -> tuple[int, Any]:
        if method == "PUT":
            self.templates[name] = body
        elif name not in self.templates:
            return 404, {"error": {"type": "resource_not_found_exception"}}
        elif method == "DELETE":
            if self.streams.get(name):
                return 400, {"error": {"reason": "in use by a data streams"}}
            del self.templates[name]
        else:
            return 200, {"index_templates": [{"name": name, "index_template": self.templates[name]}]}
        return 200, {"acknowledged": True}

    def _stream(self, method: str, name: str) -> tuple[int, Any]:
        if method == "PUT":
            if name in self.streams:
                return 400, {"error": {"type": "resource_already_exists_exception"}}
            self.streams[name] = []
            self._next(name)
        else:
            for index in self.streams.pop(name, []):
                del self.indices[index]
        return 200, {"acknowledged": True}

    def _next(self, name: str) -> str:
        held = self.streams.get(name)
        held = self.aliases[name] if held is None else held
        index = f"{'.ds-' if name in self.streams else ''}{name}-{len(held) + 1:06}"
        mapping = self._of_template(name if name in self.streams else index)
        assert self.put_index(index, {"settings": {}, "mappings": mapping})[0] == 200
        held.append(index)
        return index

    def _rollover(self, name: str, body: Any) -> tuple[int, Any]:
        held = self.streams.get(name) or self.aliases.get(name)
        if not held:
            return 404, NO_INDEX
        if self.refuse > 0:
            self.refuse -= 1
            return 503, {"error": {"type": "process_cluster_event_timeout_exception"}}
        old = held[-1]
        least = (body or {}).get("conditions", {}).get("max_docs", 0)
        if self.counts.get(old, 0) < least:
            return 200, {"rolled_over": False, "old_index": old, "new_index": "none"}
        new = self._next(name)
        if self.lose > 0:
            self.lose -= 1
            raise Unanswered(f"POST /{name}/_rollover: read timed out")
        return 200, {"rolled_over": True, "old_index": old, "new_index": new}
