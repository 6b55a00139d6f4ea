"""A snapshot of an index in a repository of its own, and the index taken back from it under another name.

The snapshot carries in its metadata how many documents the index showed when it began: a restore holds what
came back against that. A shallow one copies no segments of remote-backed storage, it refers to them
(``remote_store_index_shallow_copy``). Facts are those of OpenSearch 3.8.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.base import text
from chaos.base.errors import FaultError, LabError
from chaos.opensearch.administration import ASK_SECONDS, asked, certain, delete_index, known_by, reading
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.views import administer

DOCUMENTS = "oschaos_documents"
"""In a snapshot's metadata: how many documents its index showed when it began."""


class Incomplete(FaultError):
    """Less came back from a snapshot than was in it, though the cluster had called it a success."""


def take(
    cluster: Cluster,
    repository: str,
    made_of: Mapping[str, Any],
    snapshot: str,
    index: str,
    within_seconds: float,
) -> None:
    """Make a repository of ``made_of`` (``type`` and ``settings``) and a snapshot of ``index`` in it.

    Raises FaultError where a shard of it was not taken; LabError, or Unanswered, where it did not come to its end.
    """
    status, answer = administer(cluster, "PUT", f"/_snapshot/{repository}", dict(made_of), timeout=within_seconds)
    if status != 200:
        raise LabError(f"making the repository {repository} answered {status}: {str(answer)[:300]}")
    body = {
        "indices": index,
        "include_global_state": False,
        "partial": False,
        "metadata": {DOCUMENTS: count(cluster, index)},
    }
    path = f"/_snapshot/{repository}/{snapshot}?wait_for_completion=true"
    status, answer = administer(cluster, "PUT", path, body, timeout=within_seconds)
    if status != 200:
        raise LabError(f"taking the snapshot {snapshot} answered {status}: {str(answer)[:300]}")
    with reading(f"the answer about the snapshot {snapshot}"):
        made = answer["snapshot"]
        state, failed = str(made["state"]), int(made["shards"]["failed"])
        failures = list(made.get("failures") or ())
    if state != "SUCCESS" or failed:
        first = f", the first failure is {str(failures[0])[:200]}" if failures else ""
        raise FaultError(f"the snapshot {snapshot} of {index} is {state}, {failed} shards failed{first}")


def forget(cluster: Cluster, repository: str, snapshot: str) -> bool:
    """Delete a snapshot and the repository that was made for it; whether there was one. One that is still being taken
    is ended by that. Raises LabError."""
    status, answer = administer(cluster, "DELETE", f"/_snapshot/{repository}/{snapshot}")
    if status not in (200, 404):
        raise LabError(f"deleting the snapshot {snapshot} answered {status}: {str(answer)[:300]}")
    gone, answer = administer(cluster, "DELETE", f"/_snapshot/{repository}")
    if gone not in (200, 404):
        raise LabError(f"deleting the repository {repository} answered {gone}: {str(answer)[:300]}")
    return status == 200 or gone == 200


def restore(cluster: Cluster, repository: str, snapshot: str, index: str, copy: str, within_seconds: float) -> None:
    """Take ``index`` back from a snapshot as ``copy``, and await that.

    Raises Incomplete where a shard of it was not restored, or it has less than the index showed when the snapshot
    began; FaultError where there is a ``copy``; LabError, or Unanswered, where it did not come to its end.
    """
    if certain(cluster, lambda: known_by(cluster, copy)) is not None:
        raise FaultError(f"there is an index {copy} already: it is left as it is")
    body = {
        "indices": index,
        "rename_pattern": f"^{index}$",
        "rename_replacement": copy,
        "include_global_state": False,
        "include_aliases": False,
    }
    path = f"/_snapshot/{repository}/{snapshot}/_restore?wait_for_completion=true"
    status, answer = administer(cluster, "POST", path, body, timeout=within_seconds)
    if status != 200:
        raise LabError(f"restoring {snapshot} as {copy} answered {status}: {str(answer)[:300]}")
    with reading(f"the answer about restoring {snapshot}"):
        failed, total = (int(answer["snapshot"]["shards"][name]) for name in ("failed", "total"))
    if failed:
        raise Incomplete(f"{failed} of {text.plural(total, 'shard')} of {snapshot} were not restored")
    had, has = documents(cluster, repository, snapshot), count(cluster, copy)
    if has < had:
        raise Incomplete(f"{copy} has {text.count(has)} of the {text.plural(had, 'document')} that {index} showed")


def drop(cluster: Cluster, copy: str, owner: str | None) -> bool:
    """Delete an index that was taken back; it has its origin's mark of who owns it. Raises LabError, or NotOurs."""
    return delete_index(cluster, copy, owner)


def documents(cluster: Cluster, repository: str, snapshot: str) -> int:
    """How many documents the index of a snapshot showed when it began. Raises LabError."""
    answer = asked(cluster, f"/_snapshot/{repository}/{snapshot}", f"asking for {snapshot}", None, ASK_SECONDS)
    with reading(f"the answer about the snapshot {snapshot}"):
        return int(answer["snapshots"][0]["metadata"][DOCUMENTS])


def refresh(cluster: Cluster, index: str) -> None:
    """Have all copies of an index show what is in it. Raises LabError."""
    status, answer = administer(cluster, "POST", f"/{index}/_refresh", timeout=ASK_SECONDS)
    if status != 200 or int(answer.get("_shards", {}).get("failed", 0)):
        raise LabError(f"refreshing {index} answered {status}: {str(answer)[:300]}")


def count(cluster: Cluster, index: str) -> int:
    """How many documents an index has, once it was refreshed, on primaries: replicas may be behind. Raises LabError."""
    refresh(cluster, index)
    answer = asked(cluster, f"/{index}/_count?preference=_primary", f"counting {index}", None, ASK_SECONDS)
    with reading(f"the count of {index}"):
        return int(answer["count"])
