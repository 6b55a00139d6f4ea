"""Segment replication: which indices have it, and how far replicas are behind their primaries.

A replica of such an index does not index documents. It writes them into its translog before they are acknowledged, and
shows them once it has copied the segments that its primary made of them at a refresh. So ``_refresh`` acts on primaries
alone, and a replica that shows less than its primary is late, not wrong. ``_cat/segment_replication`` has a row for
each replica that has copied at least once; the figures are the primary's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.base.errors import ChaosError
from chaos.base.waiting import wait_until
from chaos.opensearch.administration import ASK_SECONDS, asked, reading
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.rest import UNREADABLE
from chaos.opensearch.views import ShardCopy, administer

TYPE = "index.replication.type"
DOCUMENT, SEGMENT = "DOCUMENT", "SEGMENT"
ROW_SECONDS = 10.0
"""How long rows are awaited of replicas of which none speaks, once all others have caught up."""
LOOK_SECONDS = 0.25
"""Between two looks at replicas that are awaited."""
ANSWER_SECONDS = 5.0
"""For one answer: a node that is paused keeps all rows waiting."""

Place = tuple[int, str]
"""Of a copy: its shard, and its node's name."""


@dataclass(frozen=True)
class Lag:
    """How far one replica is behind. ``seconds``: since when it lacks the oldest checkpoint that it has not got."""

    index: str
    shard: int
    node: str
    checkpoints: int
    bytes: int
    seconds: float

    @property
    def place(self) -> Place:
        return self.shard, self.node


def replicas_of(copies: Iterable[ShardCopy]) -> list[Place]:
    """Which of some copies are replicas on a node."""
    return [(copy.shard, copy.node) for copy in copies if not copy.primary and copy.node is not None]


def path(indices: Collection[str]) -> str:
    """Where rows of indices are asked for: sizes in bytes, times in ms."""
    columns = "shardId,target_node,checkpoints_behind,bytes_behind,current_lag"
    return f"/_cat/segment_replication/{','.join(indices)}?format=json&bytes=b&time=ms&h={columns}"


REJECTIONS = (
    "/_nodes/stats/jvm,segment_replication_backpressure?filter_path=nodes.*.name,nodes.*.jvm.uptime_in_millis,"
    "nodes.*.segment_replication_backpressure"
)
"""Where each node says how many requests it has rejected since its start, because replicas were too far behind."""


@dataclass(frozen=True)
class Rejections:
    """By node how many requests it has rejected since its process began, and for how many ms that has been running."""

    nodes: Mapping[str, int]
    up: Mapping[str, int]


def rejections(answer: Mapping[str, Any]) -> Rejections:
    """What an answer says. Raises one of :data:`chaos.opensearch.rest.UNREADABLE`."""
    nodes, up = {}, {}
    for node in answer["nodes"].values():
        name = str(node["name"])
        nodes[name] = int(node["segment_replication_backpressure"]["total_rejected_requests"])
        up[name] = int(node["jvm"]["uptime_in_millis"])
    return Rejections(nodes, up)


def parse(rows: Iterable[Mapping[str, Any]]) -> list[Lag]:
    """What an answer says. Raises one of :data:`chaos.opensearch.rest.UNREADABLE`."""
    found = []
    for row in rows:
        index, _, shard = str(row["shardId"]).strip("[]").partition("][")
        found.append(
            Lag(
                index,
                int(shard),
                str(row["target_node"]),
                int(row["checkpoints_behind"]),
                int(row["bytes_behind"]),
                int(row["current_lag"]) / 1000,
            )
        )
    return found


def replication_type(
    cluster: Cluster, index: str, *, through: str | None = None, timeout: float = ASK_SECONDS
) -> str | None:
    """DOCUMENT or SEGMENT, as it is in force for an index: by a request, a template, or the cluster's
    default. Of a name with several indices, which one template makes, that of one of them. None: there is no such
    index. Raises LabError."""
    question = f"/{index}/_settings/{TYPE}?flat_settings=true&include_defaults=true"
    answer = asked(cluster, question, "reading the replication type", through, timeout, absent=True)
    if answer is None:
        return None
    with reading("the answer with the replication type"):
        given = answer[index] if index in answer else next(iter(answer.values()))
        return str({**given.get("defaults", {}), **given.get("settings", {})}.get(TYPE, DOCUMENT)).upper()


def not_caught_up(
    cluster: Cluster,
    index: str,
    replicas: Iterable[Place],
    seconds: float,
    *,
    stopped: Callable[[], bool] = lambda: False,
) -> dict[Place, Lag | None]:
    """Await replicas that have all that their primaries had at the last refresh; those that had not within ``seconds``.

    Each with how far it is behind; None where no answer spoke of it, so that nothing is known. A replica that was seen
    with nothing to copy counts from then on: a merge may give it more at any moment.
    """
    behind: dict[Place, Lag | None] = dict.fromkeys(replicas)
    began = time.monotonic()

    def look() -> None:
        try:
            status, rows = administer(cluster, "GET", path([index]), timeout=ANSWER_SECONDS)
            seen = parse(rows) if status == 200 else []
        except (ChaosError, *UNREADABLE):
            return
        for lag in seen:
            if lag.place in behind:
                behind[lag.place] = lag
                if not lag.checkpoints:
                    del behind[lag.place]

    def over() -> bool:
        if behind:
            look()
        unheard = not any(behind.values()) and time.monotonic() - began > ROW_SECONDS
        return not behind or unheard or stopped()

    wait_until(over, seconds, every=LOOK_SECONDS)
    return behind
