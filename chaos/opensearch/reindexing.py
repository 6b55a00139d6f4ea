"""A copy of an index, made by OpenSearch's ``_reindex`` while the index is written: what people do to change a setting
that an index has from its beginning, such as its kind of replication.

Facts are those of OpenSearch 3.8.0. ``_reindex`` reads what the source showed to a search when it began, so what is
written meanwhile is in the source alone. Its task lives on when the client that asked has gone, and what it writes
makes an index that was deleted anew: so it is cancelled, and its end awaited, before the copy is deleted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from chaos.base import text
from chaos.base.errors import FaultError, LabError
from chaos.opensearch.administration import (
    ASK_SECONDS,
    asked,
    certain,
    create_index,
    delete_index,
    known_by,
    reading,
)
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.requests import reindex_tasks
from chaos.opensearch.snapshots import count, refresh
from chaos.opensearch.views import administer

TASKS = "/_tasks?actions=indices:data/write/reindex*&detailed=true"
OF_THE_INDEX = ("creation_date", "uuid", "provided_name", "version", "resize", "routing")
"""Settings that OpenSearch gives each index itself."""
CANCELLED_SECONDS = 30.0


def convert(
    cluster: Cluster, source: str, index: str, settings: Mapping[str, Any], owner: str, within_seconds: float
) -> None:
    """Make ``index`` like ``source`` with other ``settings`` (short names), and copy all that ``source`` shows.

    Raises FaultError where the copy lacks something that was there when it began, or the cluster did not take a
    setting; LabError, or Unanswered, where it did not come to its end within the time.
    """
    mapping, theirs = _made_of(cluster, source)
    create_index(cluster, index, {**theirs, **settings}, mapping, owner=owner)
    before = count(cluster, source)
    refresh(cluster, source)  # a primary shows more than its replicas for a moment, and any copy may be read
    body = {"source": {"index": source}, "dest": {"index": index}}
    status, answer = administer(cluster, "POST", "/_reindex", body, timeout=within_seconds)
    if status != 200 or not isinstance(answer, dict):
        raise LabError(f"copying {source} to {index} answered {status}: {str(answer)[:300]}")
    with reading(f"the answer about copying {source}"):
        failures, total, made = answer["failures"], int(answer["total"]), int(answer["created"])
    if failures or made < total or total < before:
        raise FaultError(
            f"of {text.plural(before, 'document')} of {source} {text.count(made)} were copied to {index}"
            f"{f', the first failure is {str(failures[0])[:200]}' if failures else ''}"
        )


def counted(cluster: Cluster, source: str, index: str) -> str:
    """What both have now, in words. Raises LabError."""
    theirs, ours = count(cluster, source), count(cluster, index)
    behind = f"{text.count(theirs - ours)} that were written meanwhile are in {source} alone"
    return f"{index} has {text.plural(ours, 'document')}; {behind if theirs > ours else 'none was written meanwhile'}"


def forget(cluster: Cluster, index: str, owner: str) -> bool:
    """End what still copies into an index of ours, and delete it; whether it was there.

    Raises LabError, or NotOurs where it is somebody else's: that is left as it is, and so is what copies into it.
    """
    there = certain(cluster, lambda: known_by(cluster, index))
    if there is not None and there.owner == owner:
        _cancel(cluster, index)
    return delete_index(cluster, index, owner)


def _cancel(cluster: Cluster, index: str) -> None:
    deadline = time.monotonic() + CANCELLED_SECONDS
    while tasks := reindex_tasks(asked(cluster, TASKS, "asking what is copied", None, ASK_SECONDS), index):
        if time.monotonic() > deadline:
            raise LabError(f"what copies into {index} goes on after it was cancelled: task {', '.join(tasks)}")
        for task in tasks:
            administer(cluster, "POST", f"/_tasks/{task}/_cancel", timeout=ASK_SECONDS)
        time.sleep(0.2)


def _made_of(cluster: Cluster, source: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """An index's mapping, and its settings by their short names without those that OpenSearch gives it."""
    answer = asked(cluster, f"/{source}?flat_settings=true", f"asking what {source} is made of", None, ASK_SECONDS)
    with reading(f"the answer about {source}"):
        (said,) = answer.values()
        named = {name.removeprefix("index."): value for name, value in said["settings"].items()}
        mapping = dict(said["mappings"])
    return mapping, {name: value for name, value in named.items() if name.partition(".")[0] not in OF_THE_INDEX}
