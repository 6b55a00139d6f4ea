"""Remote-backed storage: restoring indices from the store, and which of their shards that failed for.

``POST _remotestore/_restore`` restores primaries that are unassigned, of indices whose metadata the cluster has
(``RemoteStoreRestoreService`` of 3.8.0); replicas follow as ever. It answers once that has begun.
"""

from __future__ import annotations

from collections.abc import Collection
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
