"""Which process each node is, by the cluster's word, before and after somebody else's doing: are they others?

A node draws a new ephemeral id whenever its process starts, and keeps it while it leaves and joins; its JVM says when
it began. Both must be others. Facts of the API: OpenSearch 3.8.0 and 2.19.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.base import text
from chaos.base.errors import LabError
from chaos.opensearch.administration import asked, reading
from chaos.opensearch.cluster import Cluster

SECONDS = 5.0
IDS = (
    "/_cluster/state/cluster_manager_node,nodes?local=true&filter_path="
    "cluster_manager_node,nodes.*.name,nodes.*.ephemeral_id"
)
JVMS = "/_nodes/jvm?filter_path=nodes.*.name,nodes.*.version,nodes.*.jvm.start_time_in_millis"


@dataclass(frozen=True)
class Process:
    """One node's. ``id``: ephemeral; ``started``: ms since 1970, by the node's own clock."""

    id: str
    version: str
    started: int

    def to_json(self) -> dict[str, Any]:
        return {"process": self.id, "version": self.version, "started": self.started}


Processes = Mapping[str, Process]
"""By name of a node; one of which not all is known is not in it."""


def read(cluster: Cluster) -> Processes:
    """Who is there now. Raises LabError where nobody says, or only one who knows no elected manager."""
    ids = asked(cluster, IDS, "who the nodes are", None, SECONDS)
    with reading("who the nodes' processes are"):
        if not ids.get("cluster_manager_node"):
            raise LabError("no cluster manager is elected")
        known = {str(node["name"]): str(node["ephemeral_id"]) for node in (ids.get("nodes") or {}).values()}
    jvms = asked(cluster, JVMS, "since when the nodes run", None, SECONDS)
    found: dict[str, Process] = {}
    with reading("since when the nodes' processes run"):
        for node in (jvms.get("nodes") or {}).values():
            name, jvm = str(node["name"]), node.get("jvm") or {}
            if name in known and "start_time_in_millis" in jvm:
                found[name] = Process(known[name], str(node["version"]), int(jvm["start_time_in_millis"]))
    return found


@dataclass(frozen=True)
class Shown:
    """What two looks come to. ``missing``: node → why it is not shown to be another process. ``others``: nodes that
    nobody had named and that are other processes, or gone, in words."""

    named: tuple[str, ...]
    missing: Mapping[str, str]
    others: tuple[str, ...]
    waits: bool
    """Whether what is wrong may pass: a node that is not there now may come back."""

    @property
    def proven(self) -> bool:
        return not self.missing and not self.others

    def says(self) -> str:
        if self.proven:
            return (
                f"{text.listed(list(self.named))}: seen to be {'another process' if len(self.named) == 1 else 'others'}"
            )
        return "; ".join([*(f"{node} {why}" for node, why in self.missing.items()), *self.others])


def shown(before: Processes, after: Processes, named: Collection[str], spared: Collection[str] = ()) -> Shown:
    """Whether each of the named nodes is another process, and no other node is but those that are spared."""
    missing: dict[str, str] = {}
    for node in named:
        was, now = before.get(node), after.get(node)
        if now is None:
            missing[node] = "is not there"
        elif was is None:
            missing[node] = "was not there before, so nobody can tell whether it was restarted"
        elif now.id == was.id or now.started == was.started:
            missing[node] = "is the process that it was"
    others = []
    for node, was in sorted(before.items()):
        if node in named or node in spared:
            continue
        if (now := after.get(node)) is None:
            others.append(f"{node}, which was not named, is not there any more")
        elif now.id != was.id:
            others.append(f"{node}, which was not named, is another process")
    waits = any(node not in after for node in before if node in named or node not in spared)
    return Shown(tuple(named), missing, tuple(others), waits)
