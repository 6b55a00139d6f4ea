"""What the cluster says of itself, and the requests that change it. Facts of the API are those of OpenSearch 3.8.0.

Everything but the state of a decommission is asked of one node's own copy of the cluster state (``local=true``), so
that an answer never waits for a zone that is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from chaos.opensearch.canaries import pairs as pairs
from chaos.opensearch.cluster import Zoning
from chaos.opensearch.foreign import CANARY as CANARY
from chaos.opensearch.requests import (
    DECOMMISSION,
    EXCLUDED,
    EXCLUSIONS,
    GIVE_BACK,
    decommission_path,
    decommission_status_path,
    decommissions_of,
    marked,
    weights_body,
    weights_of,
    weights_path,
    without_vote,
    write_alias,
)
from chaos.programs.failover.decide import Cluster, Step
from chaos.programs.failover.rest import Answer, Api, Node

READ_SECONDS = 1.0
WEIGHTS_SECONDS = 35.0
"""The cluster manager gives up after 30 s; the answer waits for every node that is still counted, up to
``cluster.publish.timeout``."""
DECOMMISSION_SECONDS = 130.0
"""120 s for the cluster managers of the zone to be excluded."""
LEAD_SECONDS = 2
"""For the others to lose their votes; their exclusion is taken back after it, come what may."""


@dataclass(frozen=True)
class Reading:
    """``members``: the names of the nodes that the cluster counts. ``holders``: canary index → node names."""

    cluster: Cluster
    members: frozenset[str]
    holders: Mapping[str, frozenset[str]]
    version: int


def canary_settings(index: str, attribute: str, pair: tuple[str, str], owner: str | None = None) -> dict[str, Any]:
    """Two copies, one in each zone, which are not built anew elsewhere while a zone is away. ``pair``: the attribute's
    values; ``owner``: whose it is."""
    settings = {
        "number_of_shards": 1,
        "number_of_replicas": 1,
        "hidden": True,
        f"routing.allocation.include.{attribute}": ",".join(pair),
        "unassigned.node_left.delayed_timeout": "5m",
    }
    aliases = {write_alias(index): {"is_hidden": True}}
    return {"settings": {"index": settings}, "mappings": marked({"dynamic": False}, owner), "aliases": aliases}


def read(
    api: Api, informant: Node, nodes: Sequence[Node], zoning: Zoning, *, shards: bool
) -> tuple[Reading | None, str]:
    """What one node knows, and what of it could not be had. ``shards``: also who holds the only copy of one.

    Without an elected cluster manager there is no reading.
    """
    metrics = "version,cluster_manager_node,nodes,routing_table"
    copies = "routing_table.indices.*.shards.*.state,routing_table.indices.*.shards.*.node"
    which = f"{metrics}{'' if shards else f'/{CANARY}-*'}?local=true&expand_wildcards=all"
    which += f"&filter_path=version,cluster_manager_node,nodes.*.name,{copies}"
    state = api.ask(informant, "GET", f"/_cluster/state/{which}", timeout=READ_SECONDS)
    if not state.ok or not isinstance(state.body, dict):
        return None, f"{informant.name}: {state.says}"
    if not state.body.get("cluster_manager_node"):
        return None, f"{informant.name} has no cluster manager"
    weighed = api.ask(informant, "GET", f"{weights_path(zoning.attribute)}?local=true", timeout=READ_SECONDS)
    out = api.ask(informant, "GET", decommission_status_path(zoning.attribute), timeout=READ_SECONDS)
    health = api.ask(informant, "GET", "/_cluster/health?local=true&filter_path=status", timeout=READ_SECONDS)
    for answer in (weighed, out, health):
        if not answer.ok or not isinstance(answer.body, dict):
            return None, f"{informant.name}: {answer.says}"
    names = {id: each["name"] for id, each in state.body.get("nodes", {}).items()}
    leader = names.get(state.body["cluster_manager_node"], "")
    zone_of = {node.name: node.zone for node in nodes}
    members = frozenset(names.values())
    zones = sorted({node.zone for node in nodes if node.is_data})
    tables = state.body.get("routing_table", {}).get("indices", {})
    weights, version = weights_of(weighed.body)
    cluster = Cluster(
        zones=tuple(zones),
        weights={zoning.zone(value): weight for value, weight in weights.items()},
        weights_version=version,
        decommissioned={zoning.zone(value): state for value, state in decommissions_of(out.body).items()},
        managers={
            zone: sum(node.eligible and node.zone == zone and node.name in members for node in nodes) for zone in zones
        },
        eligible={zone: sum(node.eligible and node.zone == zone for node in nodes) for zone in zones},
        alone=frozenset(_alone(tables, names, zone_of)) if shards else frozenset(zones),
        green=health.body.get("status") == "green",
        leader=zone_of.get(leader),
    )
    holders = {
        index: frozenset(
            names[copy["node"]]
            for copies in table.get("shards", {}).values()
            for copy in copies
            if copy.get("state") == "STARTED" and copy.get("node") in names
        )
        for index, table in tables.items()
        if index.startswith(f"{CANARY}-")
    }
    return Reading(cluster, members, holders, int(state.body.get("version", 0))), ""


def _alone(
    tables: Mapping[str, Mapping[str, Any]], names: Mapping[str, str], zone_of: Mapping[str, str]
) -> Iterable[str]:
    """Zones that hold the only active copies of some shard; canaries, which have two copies only, do not count."""
    for index, table in tables.items():
        if index.startswith(f"{CANARY}-"):
            continue
        for copies in table.get("shards", {}).values():
            active = [copy for copy in copies if copy.get("state") in ("STARTED", "RELOCATING")]
            zones = {zone_of.get(names.get(str(copy.get("node")), "")) for copy in active}
            if len(zones) == 1 and (only := zones.pop()) is not None:
                yield only


def carry_out(
    api: Api, informants: Sequence[Node], step: Step, cluster: Cluster, zoning: Zoning, nodes: Sequence[Node]
) -> Answer:
    """Ask for a step. The answer may come long after the step took effect, or never.

    ``informants``: who may be asked, best first; ``nodes``: all.
    """
    informant = informants[0]
    if step.do == "lead":
        return _lead(api, informants, [node.name for node in nodes if node.eligible and node.zone != step.zone])
    if step.do == "weights":
        named = {zoning.value(zone): weight for zone, weight in step.weights.items()}
        body = weights_body(named, cluster.weights_version)
        return api.ask(informant, "PUT", weights_path(zoning.attribute), body, timeout=WEIGHTS_SECONDS)
    if step.do == "decommission":
        path = f"{decommission_path(zoning.value(str(step.zone)), zoning.attribute)}?no_delay=true"
        return api.ask(informant, "PUT", path, timeout=DECOMMISSION_SECONDS)
    if step.do == "retry":
        path = "/_cluster/reroute?retry_failed=true&metric=none"
        return api.ask(informant, "POST", path, timeout=WEIGHTS_SECONDS)
    return api.ask(informant, "DELETE", DECOMMISSION, timeout=WEIGHTS_SECONDS)


def _lead(api: Api, informants: Sequence[Node], others: Sequence[str]) -> Answer:
    """Take the vote from all cluster managers but those of one zone, so that it elects; then give them back.

    Not while anybody else has excluded some: neither theirs nor ours could be told apart and taken back alone.
    """
    there, names = _excluded(api, informants[0])
    if not there.ok or names:
        return there if not there.ok else replace(there, status=409, says="votes are excluded already")
    path = f"{EXCLUSIONS}?timeout={LEAD_SECONDS}s&node_names={quote(','.join(others))}"
    answer = api.ask(informants[0], "POST", path, timeout=LEAD_SECONDS + 5.0)
    if trouble := give_back_votes(api, informants, others):
        return replace(answer, status=0, says=trouble)
    return answer


def give_back_votes(api: Api, informants: Sequence[Node], others: Sequence[str]) -> str:
    """End the exclusion of ``others``, and what is wrong if it stands; one that names more is not ours alone.

    Informants are asked in turn, twice, for a cluster manager may just be elected.
    """
    trouble = "nobody could be asked"
    for informant in [*informants, *informants]:
        there, names = _excluded(api, informant)
        if there.ok and set(names) != set(others):
            return ""
        ended = api.ask(informant, "DELETE", GIVE_BACK, timeout=10.0) if there.ok else there
        if ended.ok:
            return ""
        trouble = f"{', '.join(others)} may still have no votes: {informant.name}: {ended.says}"
    return trouble


def _excluded(api: Api, informant: Node) -> tuple[Answer, list[str]]:
    """The names of nodes without a vote, by exclusion."""
    answer = api.ask(informant, "GET", EXCLUDED, timeout=5.0)
    return answer, without_vote(answer.body) if answer.ok else []


def took_effect(step: Step, cluster: Cluster) -> bool | None:
    """Whether a step that was asked for holds now; None when it has failed for good. Of a retry nothing is seen."""
    if step.do == "retry":
        return False
    if step.do == "weights":
        return dict(cluster.weights) == dict(step.weights)
    if step.do == "lead":
        return cluster.leader == step.zone
    state = cluster.decommissioned.get(str(step.zone))
    if step.do == "decommission":
        return None if state == "FAILED" else state == "SUCCESSFUL"
    return state is None
