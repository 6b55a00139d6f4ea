"""What the sampler asks beside the cluster's state: who served, how busy data nodes are, how copies came back, routing.

All over the direct path, each with a deadline of its own. ``_recovery`` and ``_cat/shards`` ask every node and would
hang while one is cut off, so they are asked when the cluster is green again, off the sampler's own beat.
"""

from __future__ import annotations

from typing import Any

import urllib3

from chaos.opensearch.cluster import Cluster
from chaos.opensearch.requests import belongs
from chaos.opensearch.rest import UNREADABLE

SERVED = (
    "/_nodes/_local/stats/indices,weighted_routing/search,get?filter_path="
    "nodes.*.indices.search.query_total,nodes.*.indices.get.total,nodes.*.weighted_routing.stats.fail_open_count"
)
PROCESS = "/_nodes/_local/stats/process?filter_path=nodes.*.process.timestamp,nodes.*.process.cpu.total_in_millis"
PROCESSORS = "/_nodes/os?filter_path=nodes.*.name,nodes.*.os.allocated_processors"
ROUTING = "metadata.indices.*.settings.index.number_of_shards,metadata.indices.*.routing_num_shards"


def _get(lab: Cluster, node: str, path: str, timeout: float) -> Any:
    """The answer's body; None when there is none in time, or it is no 200."""
    client = lab.client(node, timeout=timeout)
    try:
        status, answer = client.request("GET", path)
    except urllib3.exceptions.HTTPError:
        return None
    finally:
        client.close()
    return answer if status == 200 else None


def served(lab: Cluster, node: str, timeout: float) -> dict[str, int] | None:
    """Shard-level queries and gets that a node has executed, and its count of fail-opens, since it started."""
    answer = _get(lab, node, SERVED, timeout)
    try:
        (own,) = answer["nodes"].values()
        indices = own.get("indices", {})
        return {
            "query": int(indices.get("search", {}).get("query_total", 0)),
            "get": int(indices.get("get", {}).get("total", 0)),
            "fail_open": int(own.get("weighted_routing", {}).get("stats", {}).get("fail_open_count", 0)),
        }
    except UNREADABLE:
        return None


def process_time(lab: Cluster, node: str, timeout: float) -> dict[str, int] | None:
    """``ms``: processor time of a node's process since it started; ``at``: when that was so, by its own clock (ms).

    Both are up to a second old (OpenSearch asks its process once a second), hence the node's own time. A sum of time is
    asked for and not a percentage, because what was not sampled is in the next sum.
    """
    answer = _get(lab, node, PROCESS, timeout)
    try:
        (own,) = answer["nodes"].values()
        found = {"ms": int(own["process"]["cpu"]["total_in_millis"]), "at": int(own["process"]["timestamp"])}
    except UNREADABLE:
        return None
    return found if found["ms"] >= 0 else None  # -1: its system does not tell


def processors(lab: Cluster, node: str, timeout: float) -> dict[str, int] | None:
    """How many processors each node may use (``allocated_processors``), by name, as far as ``node`` can ask them."""
    answer = _get(lab, node, PROCESSORS, timeout)
    try:
        return {str(own["name"]): int(own["os"]["allocated_processors"]) for own in answer["nodes"].values()}
    except UNREADABLE:
        return None


def routing(lab: Cluster, node: str, index: str, timeout: float) -> dict[str, int] | None:
    """The index's number of shards and of routing shards; of a name with several indices those of the oldest."""
    answer = _get(lab, node, f"/_cluster/state/metadata/{index}?local=true&filter_path={ROUTING}", timeout)
    try:
        every = answer["metadata"]["indices"]
        metadata = every[min(every)]
        return {
            "shards": int(metadata["settings"]["index"]["number_of_shards"]),
            "routing_shards": int(metadata["routing_num_shards"]),
        }
    except UNREADABLE:
        return None


def recoveries(lab: Cluster, node: str, index: str, since: float, timeout: float) -> list[dict[str, Any]] | None:
    """The latest recovery of each copy of an index, or of all under its name, that began at ``since`` (seconds since
    1970) or later.

    Sizes in bytes; ``shard_bytes`` is the size of the copy now, None when it is not known. What segment replication
    or a remote store transfer afterwards is not in ``_recovery``. None when there is no answer that can be read.
    """
    answer = _get(lab, node, f"/{index}/_recovery", timeout)
    if answer is None:
        return None
    rows = _get(lab, node, f"/_cat/shards/{index}?format=json&bytes=b&h=index,shard,node,store", timeout)
    try:
        sizes = {
            (str(row.get("index", index)), int(row["shard"]), str(row["node"])): int(row["store"])
            for row in rows or ()
            if row.get("store")
        }
        return [
            _recovery(name, each, sizes)
            for name, of_one in answer.items()
            if belongs(name, index)
            for each in of_one.get("shards", ())
            if int(each["start_time_in_millis"]) / 1000 >= since
        ]
    except UNREADABLE:
        return None


def _recovery(index: str, given: dict[str, Any], sizes: dict[tuple[str, int, str], int]) -> dict[str, Any]:
    size, files = given["index"]["size"], given["index"]["files"]
    node = str(given["target"]["name"])
    return {
        "index": index,
        "shard": int(given["id"]),
        "node": node,
        "primary": bool(given["primary"]),
        "type": str(given["type"]),
        "stage": str(given["stage"]),
        "source": (given.get("source") or {}).get("name"),
        "started_ms": int(given["start_time_in_millis"]),
        "seconds": int(given["total_time_in_millis"]) / 1000,
        "bytes_total": int(size["total_in_bytes"]),
        "bytes_reused": int(size["reused_in_bytes"]),
        "bytes_copied": int(size["recovered_in_bytes"]),
        "files_total": int(files["total"]),
        "files_reused": int(files["reused"]),
        "operations": max(0, int(given["translog"]["recovered"])),
        "shard_bytes": sizes.get((index, int(given["id"]), node)),
    }
