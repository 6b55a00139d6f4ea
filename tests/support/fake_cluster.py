"""The few answers of OpenSearch that settings and cluster manager faults ask for, from memory."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs

import urllib3
from fakes import FakeLab

from chaos.opensearch.administration import GRAVEYARD, NOT_RECOVERED
from chaos.opensearch.requests import ABSENT, DECOMMISSION, EXCLUSIONS, weights_path

NO_INDEX = {"error": {"type": "index_not_found_exception", "reason": "no such index"}}


class FakeCluster(FakeLab):
    """A FakeLab whose nodes answer HTTP. ``stale``: nodes that do not take new settings. ``dead``: no answer."""

    def __init__(self, name: str = "3az-standby", id: str = "fake") -> None:
        super().__init__(name, id)
        self.leader: str | None = "a-cm"
        self.persistent: dict[str, Any] = {}
        self.transient: dict[str, Any] = {}
        self.indices: dict[str, dict[str, Any]] = {"chaos": {"index.number_of_replicas": "2"}}
        self.closed: set[str] = set()
        self.versions: dict[str, int] = {}
        """Index → how often its settings were changed by request; no entry: once, when it was made."""
        self.marks: dict[str, dict[str, Any]] = {}
        """Index → its UUID, and the ``_meta`` of its mapping."""
        self.uuid = "cluster"
        self.tombstones: list[str] = []
        """UUIDs of indices that somebody deleted."""
        self.weights: dict[str, str] = {}
        self.decommissioned: dict[str, str] = {}
        self.votes: list[str] = []
        """Of nodes that have none."""
        self.keeps: set[str] = set()
        """Nodes that stay in the voting configuration all the same."""
        self.away: set[str] = set()
        """Nodes that have no id in an exclusion."""
        self.pending: list[str] = []
        self.refused: set[str] = set()
        self.stale: dict[str, dict[str, Any]] = {}
        self.dead: set[str] = set()
        self.requests: list[tuple[str, str, str]] = []
        self.believes: dict[str, str] = {}
        """Nodes that take another node than :attr:`leader` for the leader, from an older state."""
        self.term = 7
        self.forgetful: range = range(0)
        """Of what is asked from now on: which answers come from a new leader that has not read its state yet."""

    def cut_off(self, old: str, new: str) -> None:
        """``old`` goes on to believe in itself; the others have elected ``new``."""
        self.leader, self.believes = new, {old: old}

    def client(self, node: str, *, timeout: float = 5.0) -> FakeClient:
        return FakeClient(self, node)

    def answer(self, node: str, method: str, path: str, body: Any) -> tuple[int, Any]:
        self.requests.append((node, method, path))
        if node in self.dead:
            raise urllib3.exceptions.ReadTimeoutError(None, path, "no answer")  # type: ignore[arg-type]
        name, _, query = path.partition("?")
        if name == "/_cat/cluster_manager":
            return 200, [{"node": self.believes.get(node, self.leader) or "-"}]
        waits = (method, name) == ("PUT", "/_cluster/settings")
        if self._forgets() and not waits:
            return self._forgotten(method, path, name)
        if name == "/_cluster/settings" or name.endswith("/_settings"):
            return self._settings(node, method, name, query, body)
        if name == weights_path():
            return 200, {"weights": self.weights, "_version": 0} if self.weights else {}
        if name == f"{DECOMMISSION}/zone/_status":
            return 200, self.decommissioned
        if name == "/_cluster/pending_tasks":
            return 200, {"tasks": [{"source": source, "time_in_queue_millis": 7} for source in self.pending]}
        if found := re.fullmatch(r"/_cluster/state/metadata/(.*)\*", name):
            mine = {
                index: {"state": "open", "mappings": self._known(index)["mappings"]}
                for index in self.indices
                if index.startswith(found[1])
            }
            return 200, {"metadata": {"indices": mine}} if mine else {}
        if path == GRAVEYARD:
            buried = [{"index": {"index_name": "chaos", "index_uuid": uuid}} for uuid in self.tombstones]
            return 200, {"metadata": {"index-graveyard": {"tombstones": buried}}} if buried else {}
        if found := re.fullmatch(r"/_cluster/state/metadata/([^*]+)", name):
            mine = {found[1]: self._known(found[1])} if found[1] in self.indices else {}
            return 200, {"metadata": {"indices": mine}} if mine else {}
        if name.startswith("/_cluster/state"):
            state = self._state()
            if node in self.believes:
                return 200, state | {"version": 0, "cluster_manager_node": self.believes[node]}
            return 200, state
        if name == EXCLUSIONS:
            named = parse_qs(query).get("node_names", [""])[0].split(",")
            self.votes = [] if method == "DELETE" else sorted({*self.votes, *named})
            return 200, {}
        if method == "POST" and (found := re.fullmatch(r"/([^/]+)/_(open|close)", name)):
            self.closed = self.closed - {found[1]} if found[2] == "open" else self.closed | {found[1]}
            self._changed(found[1])
            return 200, {"acknowledged": True}
        if method == "PUT" and re.fullmatch(r"/[^/]+", name) and "settings" in (body or {}):
            return self.put_index(name[1:], body)
        if method == "DELETE" and name == DECOMMISSION:
            self.decommissioned = {}
        elif method == "DELETE":
            gone = [self.indices.pop(index, None) for index in name[1:].split(",")]
            for index in name[1:].split(","):
                self.marks.pop(index, None)
            return (404, NO_INDEX) if None in gone else (200, {"acknowledged": True})
        return 200, {}

    def put_index(self, index: str, body: Any) -> tuple[int, Any]:
        """As OpenSearch does it: one that is there is left as it is."""
        if index in self.indices:
            kind = "resource_already_exists_exception"
            return 400, {"error": {"type": kind, "reason": f"index [{index}] already exists"}, "status": 400}
        self.indices[index] = {f"index.{key}": value for key, value in body["settings"].get("index", {}).items()}
        meta = body.get("mappings", {}).get("_meta", {})
        self.marks[index] = {"uuid": f"uuid of {index}, {len(self.requests)}", "meta": meta}
        return 200, {"acknowledged": True, "index": index}

    def _known(self, index: str) -> dict[str, Any]:
        mark = self.marks.get(index, {"uuid": f"uuid of {index}", "meta": {}})
        mappings = {"_doc": {"_meta": mark["meta"]}} if mark["meta"] else {}
        said = {"settings": {"index": {"uuid": mark["uuid"]}}, "mappings": mappings}
        return said | {"settings_version": self.versions.get(index, 1)}

    def _changed(self, index: str) -> None:
        self.versions[index] = self.versions.get(index, 1) + 1

    def _forgets(self) -> bool:
        window = self.forgetful
        now = window.start <= 0 < window.stop
        self.term += bool(window) and window.start == 0
        self.forgetful = range(window.start - 1, window.stop - 1)
        return now

    def _forgotten(self, method: str, path: str, name: str) -> tuple[int, Any]:
        """Seen of OpenSearch 3.8.0 between the first state that a new leader publishes and the recovery of its own."""
        if name == "/_cluster/settings":
            return 200, {"persistent": {}, "transient": {}}
        if path.startswith("/_cluster/state"):
            return 200, {
                "metadata": {"cluster_uuid": self.uuid, "cluster_coordination": {"term": self.term}},
                "blocks": {"global": {NOT_RECOVERED: {"description": "state not recovered / initialized"}}},
            }
        of_cluster = name == weights_path() or name.startswith(DECOMMISSION)
        return (200, {}) if of_cluster and method == "GET" else (404, NO_INDEX)

    def _state(self) -> dict[str, Any]:
        nodes = {node.name: {"name": node.name} for node in self.topology.nodes}
        managers = {node.name for node in self.topology.nodes if node.is_cluster_manager}
        tables = {}
        for index, settings in self.indices.items():
            copies = int(settings.get("index.number_of_replicas", 1)) + 1
            group = [{"primary": n == 0, "state": "STARTED", "node": "a-data"} for n in range(copies)]
            tables[index] = {"shards": {"0": group}}
        return {
            "version": 1,
            "cluster_manager_node": self.leader,
            "nodes": nodes,
            "routing_table": {"indices": tables},
            "metadata": {
                "cluster_uuid": self.uuid,
                "indices": {index: {"settings": dict(settings)} for index, settings in self.indices.items()},
                "cluster_coordination": {
                    "term": self.term,
                    "last_committed_config": sorted(managers - set(self.votes) | self.keeps),
                    "voting_config_exclusions": [
                        {"node_name": name, "node_id": ABSENT if name in self.away else name} for name in self.votes
                    ],
                },
            },
        }

    def _settings(self, node: str, method: str, name: str, query: str, body: Any) -> tuple[int, Any]:
        index = None if name == "/_cluster/settings" else name.split("/")[1]
        if index is not None and index not in self.indices:
            return 404, {"error": {"reason": f"no such index [{index}]"}}
        held = self.persistent if index is None else self.indices[index]
        if method == "PUT":
            asked = body["persistent"] if index is None else body
            if bad := sorted(set(asked) & self.refused):
                return 400, {"error": {"reason": f"setting [{bad[0]}], not dynamically updateable"}}
            for key, value in asked.items():
                held.pop(key, None)
                if value is not None:
                    held[key] = value
            if index is not None:
                self._changed(index)
            return 200, {"acknowledged": True}
        if "local=true" in query and node in self.stale:
            held = self.stale[node]
        if index is None:
            return 200, {"persistent": dict(held), "transient": dict(self.transient), "defaults": {"one": "default"}}
        return 200, {index: {"settings": dict(held), "defaults": {}}}


class FakeClient:
    def __init__(self, lab: FakeCluster, node: str) -> None:
        self._lab, self._node = lab, node

    def request(self, method: str, path: str, *, body: Any = None, timeout: float | None = None) -> tuple[int, Any]:
        return self._lab.answer(self._node, method, path, body)

    def close(self) -> None:
        return
