"""Samples of a living cluster, by GETs alone, each written down as a line of JSON.

Every second one endpoint, in turn, is asked for its own view: who leads, who is there, the health. Every ten seconds
for the totals that each node keeps: searches, documents indexed, rejections, heap, processors. Views are asked for with
``local=true``: without it a cluster that has no leader would answer nothing for 30 s. An answer that names another
cluster ends the observation.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from chaos.base.text import printable
from chaos.opensearch.rest import UNREADABLE, short

PERIOD_SECONDS = 1.0
TOTALS_EVERY = 10
"""Periods between two questions for totals."""
FINISHED, STOPPED, ANOTHER = "finished", "stopped", "another cluster"
"""How an observation ends."""
STATE = (
    "/_cluster/state/cluster_manager_node,nodes?local=true"
    "&filter_path=cluster_uuid,cluster_name,cluster_manager_node,master_node,nodes.*.name"
)
HEALTH = (
    "/_cluster/health?local=true&filter_path="
    "status,relocating_shards,initializing_shards,unassigned_shards,number_of_pending_tasks"
)
TOTALS = (
    "/_nodes/stats/indices,thread_pool,os,jvm?timeout=5s&filter_path=nodes.*.name,"
    "nodes.*.indices.search.query_total,nodes.*.indices.search.query_time_in_millis,"
    "nodes.*.indices.indexing.index_total,nodes.*.indices.indexing.index_time_in_millis,"
    "nodes.*.thread_pool.search.rejected,nodes.*.thread_pool.write.rejected,"
    "nodes.*.os.cpu.percent,nodes.*.jvm.mem.heap_used_percent"
)
Get = Callable[[str], tuple[int, Any]]
"""Path → status and decoded body. Raises ``urllib3.exceptions.HTTPError``."""


@dataclass(frozen=True)
class Way:
    """One endpoint: its address, for people, and how it is asked."""

    address: str
    get: Get


class Watch:
    """Asks the endpoints of one cluster and appends what they say to a file.

    ``cluster_uuid``, ``cluster_name``: whose answers count; without a name any cluster's with the UUID. ``about`` is
    written down for those who read the file. ``stopped`` ends it early. Raises OSError when a line cannot be
    written: what is not written down was not seen.
    """

    def __init__(
        self,
        ways: Sequence[Way],
        cluster_uuid: str,
        file: Path,
        *,
        about: Mapping[str, Any],
        stopped: Callable[[], bool] = lambda: False,
        cluster_name: str | None = None,
    ) -> None:
        self._name = cluster_name
        self._ways, self._uuid, self._file, self._stopped = tuple(ways), cluster_uuid, file, stopped
        self._about = dict(about)
        self._members: list[str] | None = None
        self._began = 0.0

    def run(self, seconds: float, says: Callable[[float, Mapping[str, Any]], None] = lambda t, sample: None) -> str:
        """Watch for so long. ``says`` hears each sample. Returns how it ended."""
        self._began = time.monotonic()
        with open(self._file, "a", encoding="utf-8") as self._out:
            self._write(
                {
                    "kind": "begin",
                    "wall": time.time(),
                    "seconds": seconds,
                    "period": PERIOD_SECONDS,
                    "about": self._about,
                }
            )
            turn = 0
            while (now := time.monotonic() - self._began) < seconds:
                if self._stopped():
                    return self._end(STOPPED)
                sample = self._sample(self._ways[turn % len(self._ways)], now)
                if sample.get("another"):
                    return self._end(ANOTHER, str(sample["another"]))
                says(now, sample)
                if turn % TOTALS_EVERY == 0:
                    self._totals(self._ways[turn // TOTALS_EVERY % len(self._ways)])
                turn += 1
                self._rest(min(turn * PERIOD_SECONDS, seconds))
                turn = max(turn, int((time.monotonic() - self._began) / PERIOD_SECONDS))  # what was missed is missed
            return self._end(FINISHED)

    def _rest(self, until: float) -> None:
        while (left := until - (time.monotonic() - self._began)) > 0 and not self._stopped():
            time.sleep(min(left, 0.1))

    def _end(self, how: str, says: str = "") -> str:
        self._write({"kind": "end", "reason": how, **({"says": says} if says else {})})
        return how

    def _write(self, line: Mapping[str, Any]) -> None:
        stamped = {"t": round(time.monotonic() - self._began, 3), **line}
        self._out.write(json.dumps(stamped, ensure_ascii=False, separators=(",", ":")) + "\n")
        self._out.flush()

    def _sample(self, way: Way, now: float) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": "sample", "way": way.address, "ok": False}
        began = time.monotonic()
        try:
            status, state = way.get(STATE)
            code, health = way.get(HEALTH)
            if status != 200 or code != 200:
                found["says"] = f"answered {status if status != 200 else code}"
            elif state["cluster_uuid"] != self._uuid:
                found["another"] = f"cluster_uuid {printable(state['cluster_uuid'])} answers at {way.address}"
            elif self._name is not None and state["cluster_name"] != self._name:
                found["another"] = f"cluster_name {printable(state['cluster_name'])} answers at {way.address}"
            else:
                names = {id: printable(node["name"]) for id, node in state["nodes"].items()}
                leader = state.get("cluster_manager_node") or state.get("master_node")
                found |= {
                    "ok": True,
                    "leader": names.get(leader) if leader else None,
                    "nodes": len(names),
                    "status": str(health["status"]),
                    "relocating": int(health["relocating_shards"]),
                    "initializing": int(health["initializing_shards"]),
                    "unassigned": int(health["unassigned_shards"]),
                    "pending": int(health["number_of_pending_tasks"]),
                }
                if (members := sorted(names.values())) != self._members:
                    self._members = found["members"] = members
        except urllib3.exceptions.HTTPError as error:
            found["says"] = short(error)
        except UNREADABLE:
            found["says"] = "answered something that cannot be read"
        found["ms"] = round((time.monotonic() - began) * 1000, 1)
        found["asked"] = round(now, 3)
        self._write(found)
        return found

    def _totals(self, way: Way) -> None:
        """What each node has done since it started; a node that does not say has no line."""
        try:
            status, answer = way.get(TOTALS)
            nodes = (
                {printable(node["name"]): _numbers(node) for node in answer["nodes"].values()} if status == 200 else {}
            )
        except (urllib3.exceptions.HTTPError, *UNREADABLE):
            nodes = {}
        self._write({"kind": "totals", "nodes": nodes})


def _numbers(node: Mapping[str, Any]) -> dict[str, int]:
    """Totals since the node's start, but for ``cpu`` and ``heap``, which are percent now. What it lacks is left out."""
    indices, pools = node.get("indices", {}), node.get("thread_pool", {})
    said = {
        "searches": indices.get("search", {}).get("query_total"),
        "search_ms": indices.get("search", {}).get("query_time_in_millis"),
        "indexed": indices.get("indexing", {}).get("index_total"),
        "index_ms": indices.get("indexing", {}).get("index_time_in_millis"),
        "search_rejected": pools.get("search", {}).get("rejected"),
        "write_rejected": pools.get("write", {}).get("rejected"),
        "cpu": node.get("os", {}).get("cpu", {}).get("percent"),
        "heap": node.get("jvm", {}).get("mem", {}).get("heap_used_percent"),
    }
    return {key: value for key, value in said.items() if isinstance(value, int) and value >= 0}
