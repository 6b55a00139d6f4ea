"""Remote-backed storage: restoring indices from the store, which shards that failed for, and what nodes say of it.

``POST _remotestore/_restore`` restores primaries that are unassigned, of indices whose metadata the cluster has
(``RemoteStoreRestoreService`` of 3.8.0); replicas follow as ever. It answers once that has begun.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.base.errors import LabError
from chaos.opensearch.administration import ASK_SECONDS, asked, reading
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.views import administer

FAILED = "ALLOCATION_FAILED"
NOT_RECOVERED = "1"
"""The block of a cluster whose elected manager has not taken its state back yet (``GatewayService``)."""
ATTEMPTS = 5
"""After so many the cluster tries no more by itself (``index.allocation.max_retries``)."""


def restore(cluster: Cluster, indices: Collection[str]) -> None:
    """Begin to restore them from the store. Raises LabError where the cluster does not take that."""
    path = "/_remotestore/_restore?wait_for_completion=false"
    status, answer = administer(cluster, "POST", path, {"indices": sorted(indices)})
    if status not in (200, 202):
        raise LabError(f"restoring {', '.join(sorted(indices))} from the store answered {status}: {str(answer)[:300]}")


def recovered(cluster: Cluster) -> bool:
    """Whether the elected cluster manager has taken its state back; until then it shows no index. Raises LabError."""
    path = "/_cluster/state/blocks?filter_path=blocks.global"
    answer = asked(cluster, path, "asking whether the state was recovered", None, ASK_SECONDS)
    with reading("the answer about blocks"):
        return NOT_RECOVERED not in ((answer.get("blocks") or {}).get("global") or {})


def known(cluster: Cluster, index: str) -> bool:
    """Whether the cluster has metadata of an index. Raises LabError."""
    path = f"/{index}/_settings?filter_path=*.settings.index.uuid"
    return asked(cluster, path, f"asking for {index}", None, ASK_SECONDS, absent=True) is not None


def given_up(cluster: Cluster, indices: Collection[str]) -> dict[str, dict[int, str]]:
    """By index the shards whose primary the cluster tried to start in vain and tries no more, each with why.

    Raises LabError.
    """
    names = ",".join(sorted(indices))
    path = f"/_cluster/state/routing_table/{names}?filter_path=routing_table.indices"
    answer = asked(cluster, path, "asking which shards were given up", None, ASK_SECONDS)
    found: dict[str, dict[int, str]] = {}
    with reading("the answer about shards that were given up"):
        for index, table in answer.get("routing_table", {}).get("indices", {}).items():
            for shard, group in table["shards"].items():
                for copy in group:
                    why = copy.get("unassigned_info") or {}
                    if copy["primary"] and _tried_in_vain(copy["state"], why):
                        found.setdefault(index, {})[int(shard)] = str(why.get("details") or "no reason given")[:300]
    return found


def _tried_in_vain(state: str, why: dict[str, Any]) -> bool:
    return state == "UNASSIGNED" and why.get("reason") == FAILED and int(why.get("failed_attempts") or 0) >= ATTEMPTS


# -- what nodes say of their uploads, and of their requests ---------------------------------------------


def uploads_path(indices: Collection[str]) -> str:
    """Where a node tells of the uploads of the primaries that it holds."""
    return f"/_remotestore/stats/{','.join(indices)}?local=true"


REQUESTS = "/_nodes/_local/stats/repositories?filter_path=nodes.*.repositories"
"""Where a node counts what it asked of its repositories since it started. Only clients of object stores count."""
COUNTED = {
    "sent": "request_success_total",
    "failed": "request_failures_total",
    "retried": "request_retry_count_total",
    "ms": "request_time_in_millis",
}
"""What of it, by operation (``BlobStore.Metric`` of 3.8.0): requests answered well, failed, tried again, their time."""


@dataclass(frozen=True)
class Upload:
    """What one primary says. ``seconds``: for how long what it refreshed has not been wholly in the store;
    ``refreshes`` and ``bytes``: how many and how large; ``pending``: uploads under way, of segments and translogs;
    ``counts``: since the node has had it, uploads of ``segments`` and ``translog`` that failed, and writes
    ``rejected`` because of them."""

    index: str
    shard: int
    seconds: float
    refreshes: int
    bytes: int
    pending: int
    counts: Mapping[str, int]


def uploads(answer: Mapping[str, Any], now: float) -> list[Upload]:
    """Of each primary that a node holds; of one that has not uploaded anything yet all is 0. ``now``: seconds since
    1970 by the node's clock.

    Raises one of :data:`chaos.opensearch.rest.UNREADABLE`.
    """
    found = []
    if "_shards" not in answer:
        raise ValueError("no answer about uploads")
    if answer["_shards"].get("failed"):
        raise ValueError("some shards said nothing of their uploads")
    for index, of_index in (answer.get("indices") or {}).items():
        for shard, copies in of_index["shards"].items():
            for copy in copies:
                if copy["routing"]["primary"]:
                    found.append(_upload(str(index), int(shard), copy, now))
    return found


def _upload(index: str, shard: int, copy: Mapping[str, Any], now: float) -> Upload:
    segments = (copy.get("segment") or {}).get("upload") or {}
    translog = (copy.get("translog") or {}).get("upload") or {}
    totals = [part.get("total_uploads") or {} for part in (segments, translog)]
    return Upload(
        index,
        shard,
        _behind(segments, now) if segments else 0.0,
        int(segments["refresh_lag"]) if segments else 0,
        int(segments.get("bytes_lag", 0)),
        sum(_under_way(total) for total in totals),
        {
            "segments": int(totals[0].get("failed", 0)),
            "translog": int(totals[1].get("failed", 0)),
            "rejected": int(segments.get("backpressure_rejection_count", 0)),
        },
    )


def _behind(segments: Mapping[str, Any], now: float) -> float:
    """Seconds. A node says 0 as soon as all files of its segments are there (``getTimeMsLag`` of
    RemoteSegmentTransferTracker), even while the metadata are not that make a refresh of them: then its last refresh
    says how far it is behind."""
    told = int(segments["refresh_time_lag_in_millis"]) / 1000
    if not int(segments["refresh_lag"]):
        return told
    return max(told, now - int(segments["local_refresh_timestamp_in_millis"]) / 1000)


def _under_way(total: Mapping[str, Any]) -> int:
    """Counters are read one after the other, so that one may have ended in between."""
    started, succeeded, failed = (int(total.get(name, 0)) for name in ("started", "succeeded", "failed"))
    return max(0, started - succeeded - failed)


UPTIME = "/_nodes/_local/stats/jvm?filter_path=nodes.*.jvm.uptime_in_millis"
"""Where a node says for how long its process has been running."""


def uptime(answer: Mapping[str, Any]) -> float:
    """In seconds. Raises one of :data:`chaos.opensearch.rest.UNREADABLE`."""
    (own,) = answer["nodes"].values()
    return int(own["jvm"]["uptime_in_millis"]) / 1000


def requests(answer: Mapping[str, Any]) -> dict[str, int]:
    """What a node has counted, of all its repositories and operations together (:data:`COUNTED`).

    Raises one of :data:`chaos.opensearch.rest.UNREADABLE`.
    """
    (own,) = answer["nodes"].values()
    found = dict.fromkeys(COUNTED, 0)
    for repository in own["repositories"]:
        for name, field in COUNTED.items():
            found[name] += sum(int(count) for count in (repository.get(field) or {}).values())
    return found
