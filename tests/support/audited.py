"""A cluster that satisfies every rule, and the ways in which it can be made worse: for the tests of the audit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from chaos.definitions.topology import AWARENESS, FORCED
from chaos.programs.audit.facts import (
    FOLLOWER,
    GIB,
    LEADER,
    STOCK,
    Certificate,
    Copy,
    Decommissioned,
    Index,
    Node,
    Policy,
    Repository,
    Running,
    Settings,
    Sheet,
    Snapshot,
    State,
    Template,
    Unassigned,
    Usage,
)

ZONES = ("a", "b", "c")
GOOD = {
    AWARENESS: "zone",
    FORCED: "a,b,c",
    f"{FOLLOWER}.timeout": "3s",
    f"{LEADER}.timeout": "3s",
    "cluster.publish.timeout": "8s",
    "cluster.follower_lag.timeout": "30s",
    "search_backpressure.mode": "enforced",
    "admission_control.transport.mode": "enforced",
    "shard_indexing_pressure.enabled": "true",
    "shard_indexing_pressure.enforced": "true",
    "search.cancel_after_time_interval": "60s",
}
Change = Callable[[Sheet], Sheet]


def healthy(indices: int = 2, shards: int = 2, size: int = 20 * GIB) -> Sheet:
    """Three zones with a dedicated manager and a data node each."""
    nodes = [
        Node(f"{z}-cm", frozenset({"cluster_manager"}), z, 2, 4 * GIB, 8 * GIB, 10.0, 30.0, 50 * GIB, 40 * GIB)
        for z in ZONES
    ] + [
        Node(f"{z}-data", frozenset({"data", "ingest"}), z, 8, 16 * GIB, 32 * GIB, 40.0, 40.0, 500 * GIB, 300 * GIB)
        for z in ZONES
    ]
    held = tuple(Index(f"i{n}", shards, 2) for n in range(indices))
    copies = tuple(
        Copy(index.name, shard, zone == "a", True, f"{zone}-data", size)
        for index in held
        for shard in range(index.shards)
        for zone in ZONES
    )
    told = tuple(
        replace(n, id=f"id-{n.name}", attributes={"zone": n.zone}, limit=(n.heap or 0) * 7 // 10) for n in nodes
    )
    return Sheet(
        "made up",
        "zone",
        "3.8.0",
        told,
        Settings(GOOD, STOCK),
        held,
        copies,
        state=State(voters=tuple(f"id-{z}-cm" for z in ZONES)),
        explained="",
        index_templates=(GOOD_TEMPLATE,),
        component_templates=(PART,),
        legacy_templates=(Template("old", {"number_of_replicas": "1"}, ("old-*",)),),
        streams={"logs": ("logs-app",)},
        repositories=(Repository("backup", "s3", (snapshot("daily-1", -1), snapshot("daily-2", -0.5))),),
        shallow=(),
        policies=(Policy("daily", True),),
        managed=(Policy("i0", True),),
        certificates=tuple(
            Certificate(n.name, layer, NOW + 200 * DAY) for n in told for layer in ("http", "transport")
        ),
        usage=Usage(ASKED, 10 * DAY),
        asked_at=NOW,
    )


ASKED = {"cluster_health_action": 2.0, "cat_indices_action": 0.1, "nodes_stats_action": 0.5, "search_action": 900.0}
NOW, DAY = 1_800_000_000.0, 86_400.0
PART = Template("part", {"number_of_replicas": "0"})
GOOD_TEMPLATE = Template("logs", {"number_of_replicas": "2"}, ("logs-*",), ("part",), True)


def snapshot(name: str, days: float, state: str = "SUCCESS") -> Snapshot:
    """One that began so many days from NOW, and took a minute."""
    return Snapshot(name, state, NOW + days * DAY, NOW + days * DAY + 60)


def with_state(**changes: Any) -> Change:
    return lambda sheet: sheet if sheet.state is None else replace(sheet, state=replace(sheet.state, **changes))


def having(**parts: Any) -> Change:
    """Parts of the sheet, where they were read."""
    return lambda sheet: replace(sheet, **{name: v for name, v in parts.items() if getattr(sheet, name) is not None})


def often(rate: float) -> Usage:
    """Statistics of all nodes, so many times a second."""
    return Usage({**ASKED, "nodes_stats_action": rate}, 10 * DAY)


def left_set(transient: bool = False, **given: str) -> Change:
    """Set for the cluster by its API; ``__`` stands for a dot."""
    named = {name.replace("__", "."): value for name, value in given.items()}

    def change(sheet: Sheet) -> Sheet:
        if sheet.settings is None:
            return sheet
        held = sheet.settings
        return replace(
            sheet,
            settings=replace(
                held,
                cluster={**held.cluster, **{name: v for name, v in named.items() if name in STOCK}},
                explicit={**held.explicit, **named},
                transient={**held.transient, **(named if transient else {})},
            ),
        )

    return change


def of_index(**given: str) -> Change:
    """Set for the last index; ``__`` stands for a dot."""
    named = {name.replace("__", "."): value for name, value in given.items()}

    def change(sheet: Sheet) -> Sheet:
        if not sheet.indices:
            return sheet
        *first, last = sheet.indices
        return replace(sheet, indices=(*first, last._replace(settings={**last.settings, **named})))

    return change


def _tiered(sheet: Sheet) -> Sheet:
    """Two tiers by an attribute; the last index lies in the warm one."""
    warm = of_nodes(lambda n: replace(n, attributes={**n.attributes, "temp": "warm"}), _is("c-data"))
    hot = of_nodes(
        lambda n: replace(n, attributes={**n.attributes, "temp": "hot"}), lambda n: n.name in ("a-data", "b-data")
    )
    return of_index(routing__allocation__require__temp="warm")(warm(hot(sheet)))


def _stream(sheet: Sheet) -> Sheet:
    """A data stream whose newest index is replicated in another way."""
    kinds = {".ds-logs-app-000001": {}, ".ds-logs-app-000002": {"replication.type": "SEGMENT"}}
    more = tuple(Index(name, 1, 2, settings) for name, settings in kinds.items())
    return sheet if sheet.indices is None else replace(sheet, indices=(*sheet.indices, *more))


def of_nodes(change: Callable[[Node], Node], where: Callable[[Node], bool] = lambda node: True) -> Change:
    return lambda sheet: replace(sheet, nodes=tuple(change(n) if where(n) else n for n in sheet.nodes or ()))


def without_nodes(where: Callable[[Node], bool]) -> Change:
    return lambda sheet: replace(sheet, nodes=tuple(n for n in sheet.nodes or () if not where(n)))


def with_settings(**given: str | None) -> Change:
    """Set for the cluster; ``__`` stands for a dot; None takes it away."""
    named = {name.replace("__", "."): value for name, value in given.items()}

    def change(sheet: Sheet) -> Sheet:
        if sheet.settings is None:
            return sheet
        cluster = {k: v for k, v in {**sheet.settings.cluster, **named}.items() if v is not None}
        return replace(sheet, settings=replace(sheet.settings, cluster=cluster))

    return change


def _of_settings(**changes: Any) -> Change:
    """Of what was read of the settings."""
    return lambda sheet: (
        sheet if sheet.settings is None else replace(sheet, settings=replace(sheet.settings, **changes))
    )


def of_copies(change: Callable[[Copy], Copy], where: Callable[[Copy], bool] = lambda copy: True) -> Change:
    def changed(sheet: Sheet) -> Sheet:
        if sheet.copies is None:
            return sheet
        return replace(sheet, copies=tuple(change(c) if where(c) else c for c in sheet.copies))

    return changed


def more_copies(number: int) -> Change:
    """On a-data, of an index of its own."""
    more = tuple(Copy("many", n, True, True, "a-data", 20 * GIB) for n in range(number))
    return lambda sheet: replace(sheet, copies=(sheet.copies or ()) + more)


def with_replicas(number: int) -> Change:
    """Of the last index."""
    return lambda sheet: replace(
        sheet, indices=(*(sheet.indices or ())[:-1], (sheet.indices or ())[-1]._replace(replicas=number))
    )


def _data(node: Node) -> bool:
    return node.is_data


def _is(name: str) -> Callable[[Node], bool]:
    return lambda node: node.name == name


def _many(sheet: Sheet, copies: int) -> Sheet:
    """One more index, with so many copies."""
    return sheet if not sheet.indices else replace(sheet, indices=(*sheet.indices, Index("many", 1, copies - 1)))


NOT_FORCED = with_settings(**{FORCED.replace(".", "__"): None})
LOWER = with_settings(cluster__max_shards_per_node="3")
PROBLEMS: dict[str, tuple[str, str, Change]] = {
    # what is wrong: (the rule that must find it, how it must grade it, the change)
    "two zones": ("zones", "warn", without_nodes(lambda n: n.zone == "c")),
    "one zone": ("zones", "fail", without_nodes(lambda n: n.zone in ("b", "c"))),
    "a data node without a zone": ("zones", "fail", of_nodes(lambda n: replace(n, zone=None), _is("a-data"))),
    "unequal zones": (
        "zones.equal",
        "warn",
        lambda s: replace(s, nodes=(*(s.nodes or ()), replace(s.data[0], name="more"))),
    ),
    "two managers": ("managers.dedicated", "fail", without_nodes(_is("c-cm"))),
    "an electable data node": (
        "managers.dedicated",
        "warn",
        of_nodes(lambda n: replace(n, roles=n.roles | {"cluster_manager"}), _is("a-data")),
    ),
    "no dedicated manager": (
        "managers.dedicated",
        "fail",
        of_nodes(lambda n: replace(n, roles=n.roles | {"ingest"}), lambda n: n.is_manager),
    ),
    "two managers in one zone": ("managers.zones", "fail", of_nodes(lambda n: replace(n, zone="a"), _is("b-cm"))),
    "a manager without a zone": ("managers.zones", "fail", of_nodes(lambda n: replace(n, zone=None), _is("a-cm"))),
    "a manager with a small heap": ("managers.size", "fail", of_nodes(lambda n: replace(n, heap=GIB), _is("a-cm"))),
    "a manager with little memory": (
        "managers.size",
        "fail",
        of_nodes(lambda n: replace(n, memory=4 * GIB), _is("a-cm")),
    ),
    "shards for larger managers": ("managers.size", "fail", more_copies(10_001)),
    "awareness off": ("awareness", "fail", with_settings(**{AWARENESS.replace(".", "__"): None})),
    "awareness of something else": ("awareness", "fail", with_settings(**{AWARENESS.replace(".", "__"): "rack"})),
    "awareness not forced": ("awareness.forced", "fail", NOT_FORCED),
    "a zone that is not forced": ("awareness.forced", "fail", with_settings(**{FORCED.replace(".", "__"): "c,d"})),
    "an index without replicas": ("replicas", "fail", with_replicas(0)),
    "two copies in three zones": ("copies", "warn", with_replicas(1)),
    "all copies in one zone": ("copies.placed", "fail", of_copies(lambda c: replace(c, node="a-data"))),
    "a zone without copies": (
        "copies.placed",
        "warn",
        of_copies(lambda c: replace(c, node="b-data"), lambda c: c.node == "a-data"),
    ),
    "a replica that is not there": (
        "copies.started",
        "warn",
        of_copies(lambda c: replace(c, started=False, node=None), lambda c: not c.primary),
    ),
    "a primary that is not there": (
        "copies.started",
        "fail",
        of_copies(lambda c: replace(c, started=False, node=None), lambda c: c.primary),
    ),
    "too many shards for the heap": ("shards.heap", "fail", more_copies(41 * 25)),
    "nearly too many shards": ("shards.node", "warn", more_copies(950)),
    "too many shards": ("shards.node", "fail", more_copies(1001)),
    "a lower limit of shards": ("shards.node", "fail", lambda s: more_copies(4)(LOWER(s))),
    "large shards": ("shards.size", "fail", of_copies(lambda c: replace(c, size=60 * GIB))),
    "small shards": ("shards.size", "warn", of_copies(lambda c: replace(c, size=GIB))),
    "no room for a zone's work": ("cpu", "fail", of_nodes(lambda n: replace(n, cpu=65.0), _data)),
    "little room for a zone's work": ("cpu", "warn", of_nodes(lambda n: replace(n, cpu=57.0), _data)),
    "a hot node": ("cpu", "fail", of_nodes(lambda n: replace(n, cpu=95.0), _is("a-data"))),
    "little heap left": ("heap", "warn", of_nodes(lambda n: replace(n, heap_used=90.0), _is("a-data"))),
    "no heap left": ("heap", "fail", of_nodes(lambda n: replace(n, heap_used=97.0), _is("a-cm"))),
    "a heap over half of the memory": (
        "heap.size",
        "warn",
        of_nodes(lambda n: replace(n, heap=20 * GIB, memory=32 * GIB), _data),
    ),
    "a heap over 32 GiB": (
        "heap.size",
        "warn",
        of_nodes(lambda n: replace(n, heap=40 * GIB, memory=128 * GIB), _is("a-data")),
    ),
    "little storage": ("storage", "warn", of_nodes(lambda n: replace(n, disk_free=100 * GIB), _is("a-data"))),
    "no storage": ("storage", "fail", of_nodes(lambda n: replace(n, disk_free=10 * GIB), _is("a-data"))),
    "storage that a zone does not fit in": (
        "storage.zone",
        "fail",
        lambda s: of_nodes(lambda n: replace(n, disk_free=200 * GIB), _data)(NOT_FORCED(s)),
    ),
    "no search backpressure": ("protection.search", "warn", with_settings(search_backpressure__mode="monitor_only")),
    "no admission control": (
        "protection.admission",
        "warn",
        with_settings(admission_control__transport__mode="disabled"),
    ),
    "no indexing pressure": ("protection.indexing", "warn", with_settings(shard_indexing_pressure__enforced="false")),
    "a kind of task that is not throttled": (
        "protection.tasks",
        "warn",
        left_set(**{"cluster_manager__throttling__thresholds__put-mapping__value": "-1"}),
    ),
    "no throttling of tasks": ("protection.tasks", "warn", lambda s: replace(s, version="2.19.6")),
    "searches without an end": (
        "protection.cancellation",
        "warn",
        with_settings(search__cancel_after_time_interval="-1"),
    ),
    "long tables without a limit": ("limits.tables", "warn", lambda s: _many(s, 10_001)),
    "a dashboard that asks all the time": ("managers.asked", "warn", having(usage=often(300.0))),
    "dashboards that take the manager": ("managers.asked", "fail", having(usage=often(600.0))),
    "monitoring of many shards": ("managers.calls", "warn", lambda s: _many(s, 63_000)),
    "monitoring of more shards than managers can list": ("managers.calls", "fail", lambda s: _many(s, 126_000)),
    "monitoring without the check of the term": (
        "managers.calls",
        "warn",
        lambda s: _many(replace(s, version="2.12.0"), 23_000),
    ),
    "a retry delay of nothing": (
        "settings.deadly",
        "fail",
        _of_settings(explicit={"cluster_manager.throttling.retry.base.delay": "0ms"}),
    ),
    "allocation of primaries alone": (
        "left.allocation",
        "fail",
        left_set(transient=True, cluster__routing__allocation__enable="primaries"),
    ),
    "no rebalancing": ("left.rebalance", "warn", left_set(cluster__routing__rebalance__enable="none")),
    "a drained node": (
        "left.excludes",
        "fail",
        left_set(transient=True, cluster__routing__allocation__exclude___name="c-data,x"),
    ),
    "a drained zone": ("left.excludes", "fail", left_set(cluster__routing__allocation__exclude__zone="c")),
    "an exclude by address": (
        "left.excludes",
        "fail",
        lambda s: of_nodes(lambda n: replace(n, ip="10.0.0.9"), _is("a-data"))(
            left_set(cluster__routing__allocation__exclude___ip="10.0.0.*")(s)
        ),
    ),
    "an exclude of a node that is gone": (
        "left.excludes",
        "warn",
        left_set(cluster__routing__allocation__exclude___ip="10.0.0.9"),
    ),
    "disks that are not watched": (
        "left.disk-threshold",
        "fail",
        left_set(cluster__routing__allocation__disk__threshold_enabled="false"),
    ),
    "raised watermarks": (
        "left.watermarks",
        "warn",
        left_set(cluster__routing__allocation__disk__watermark__flood_stage="0.99"),
    ),
    "a voting exclusion": ("managers.votes", "fail", with_state(voters=("id-a-cm",), excluded=("b-cm",))),
    "one voter": ("managers.zones", "fail", with_state(voters=("id-a-cm",), excluded=("b-cm",))),
    "a voter that is gone": ("managers.zones", "fail", with_state(voters=("id-a-cm", "id-b-cm", "id-gone"))),
    "a voter that is not here": ("managers.votes", "warn", with_state(voters=("id-a-cm", "id-b-cm", "id-gone"))),
    "a manager without a vote": ("managers.votes", "warn", with_state(voters=("id-a-cm", "id-b-cm"))),
    "a block of the cluster": ("blocks.cluster", "fail", with_state(blocks=("cluster read-only (api)",))),
    "a cluster that takes no index": ("blocks.cluster", "fail", left_set(cluster__blocks__create_index="true")),
    "a decommissioned zone with weight": (
        "routing",
        "fail",
        with_state(
            decommissioned=Decommissioned("zone", "d", "successful"), weights={"zone": dict.fromkeys("abcd", 1.0)}
        ),
    ),
    "a decommission that failed": (
        "routing",
        "fail",
        with_state(decommissioned=Decommissioned("zone", "c", "failed")),
    ),
    "a decommission by another attribute": (
        "routing",
        "fail",
        with_state(decommissioned=Decommissioned("rack", "r1", "successful")),
    ),
    "a zone that was left decommissioned": (
        "routing",
        "warn",
        with_state(decommissioned=Decommissioned("zone", "d", "successful")),
    ),
    "a zone without a weight": ("routing", "fail", with_state(weights={"zone": {"a": 1.0, "b": 1.0}})),
    "most zones weighed out": ("routing", "fail", with_state(weights={"zone": {"a": 0.0, "b": 0.0, "c": 1.0}})),
    "a zone weighed out": ("routing", "info", with_state(weights={"zone": {"a": 1.0, "b": 1.0, "c": 0.0}})),
    "a transient setting": ("left.transient", "warn", left_set(transient=True, search__default_keep_alive="1m")),
    "an archived setting": ("left.archived", "warn", left_set(archived__xpack__ml__enabled="true")),
    "an archived setting of an index": ("left.archived", "warn", of_index(archived__index__frozen="true")),
    "no recovery at all": (
        "left.recovery",
        "fail",
        left_set(cluster__routing__allocation__node_concurrent_recoveries="0"),
    ),
    "slow recoveries": ("left.recovery", "info", left_set(indices__recovery__max_bytes_per_sec="1mb")),
    "a flooded index": ("blocks.index", "fail", of_index(blocks__read_only_allow_delete="true")),
    "an index without writes": ("blocks.index", "warn", of_index(blocks__write="true")),
    "writes that are not on disk": ("durability", "warn", of_index(translog__durability="async")),
    "no time for a restart": ("delayed", "warn", of_index(unassigned__node_left__delayed_timeout="0")),
    "no time for a restart, with a unit": ("delayed", "warn", of_index(unassigned__node_left__delayed_timeout="0ms")),
    "a limit that leaves copies out": (
        "shards.limit",
        "fail",
        of_index(routing__allocation__total_shards_per_node="1"),
    ),
    "a limit without room after a loss": (
        "shards.limit",
        "warn",
        lambda s: of_index(routing__allocation__total_shards_per_node="2")(
            s if not s.indices else replace(s, indices=(*s.indices[:-1], Index("cramped", 3, 1)))
        ),
    ),
    "a limit of the whole cluster": (
        "shards.limit",
        "warn",
        lambda s: left_set(cluster__routing__allocation__total_shards_per_node="4")(
            s if not s.indices else replace(s, indices=(*s.indices[:-1], Index("cramped", 3, 1)))
        ),
    ),
    "an index that a shrink left bound": (
        "index.filters",
        "fail",
        of_index(routing__allocation__require___name="a-data"),
    ),
    "an index off one address": ("index.filters", "warn", of_index(routing__allocation__exclude___ip="10.0.0.1")),
    "an index that fits no node": ("index.filters", "fail", of_index(routing__allocation__require__temp="cold")),
    "a tier of one node": ("tiers.copies", "fail", _tiered),
    "one warm node": (
        "tiers.copies",
        "fail",
        of_nodes(lambda n: replace(n, roles=n.roles | {"warm"}), _is("c-data")),
    ),
    "unlike heaps": ("tiers.heap", "warn", of_nodes(lambda n: replace(n, heap=8 * GIB, limit=5 * GIB), _is("c-data"))),
    "unlike limits": ("tiers.heap", "warn", of_nodes(lambda n: replace(n, limit=4 * GIB), _is("c-data"))),
    "a tier that is full after a loss": ("tiers.heap", "warn", LOWER),
    "a closed index": ("indices.closed", "warn", with_state(closed=frozenset({"shut"}))),
    "a frozen index": ("indices.closed", "warn", of_index(frozen="true")),
    "a template without replicas": (
        "templates",
        "fail",
        having(index_templates=(Template("bare", {"number_of_replicas": "0"}, ("bare-*",)),)),
    ),
    "a component without replicas": (
        "templates",
        "fail",
        having(index_templates=(GOOD_TEMPLATE._replace(settings={}),), component_templates=(PART,)),
    ),
    "a legacy template without replicas": (
        "templates",
        "fail",
        having(legacy_templates=(Template("old", {"number_of_replicas": "0"}, ("old-*",)),)),
    ),
    "a component without replicas that is not used": (
        "templates",
        "warn",
        having(component_templates=(PART, PART._replace(name="idle"))),
    ),
    "no replica by default": ("templates", "fail", left_set(cluster__default_number_of_replicas="0")),
    "two replications in a data stream": ("replication", "warn", _stream),
    "segments without pressure": ("replication", "info", of_index(replication__type="SEGMENT")),
    "a copy without a place": ("unassigned", "warn", with_state(unassigned=(Unassigned("i1", 0, "NODE_LEFT"),))),
    "a copy that was given up": (
        "unassigned.given-up",
        "fail",
        with_state(unassigned=(Unassigned("i1", 0, "ALLOCATION_FAILED", 5, "corrupt"),)),
    ),
    "a restore under way": ("restores", "warn", with_state(restores=("backup/daily-1 started",))),
    "a restore that ended": (
        "restores",
        "fail",
        with_state(unassigned=(Unassigned("i1", 0, "NEW_INDEX_RESTORED"),)),
    ),
    "a restore that failed": (
        "restores",
        "fail",
        with_state(unassigned=(Unassigned("i1", 0, "ALLOCATION_FAILED", 1, "no segment", "SNAPSHOT"),)),
    ),
    "no repository": ("snapshots", "info", having(repositories=())),
    "an empty repository": ("snapshots", "warn", having(repositories=(Repository("backup", "s3", ()),))),
    "snapshots that stopped": (
        "snapshots",
        "warn",
        having(repositories=(Repository("backup", "s3", (snapshot("daily-1", -9),)),)),
    ),
    "a snapshot that is partial": (
        "snapshots",
        "warn",
        having(repositories=(Repository("b", "s3", (snapshot("d-1", -1), snapshot("d-2", 0, "PARTIAL"))),)),
    ),
    "no snapshot that is whole": (
        "snapshots",
        "fail",
        having(repositories=(Repository("b", "s3", (snapshot("d-2", 0, "FAILED"),)),)),
    ),
    "a snapshot that does not end": (
        "snapshots",
        "fail",
        with_state(running=(Running("backup", "daily-3", "started", NOW - 2 * DAY),)),
    ),
    "shallow snapshots, and an index in a remote store": (
        "snapshots.shallow",
        "warn",
        lambda s: of_index(remote_store__enabled="true")(having(shallow=("backup",))(s)),
    ),
    "shallow snapshots, and no index in a remote store": ("snapshots.shallow", "info", having(shallow=("backup",))),
    "a policy of snapshots that failed": (
        "snapshots.policies",
        "fail",
        having(policies=(Policy("daily", True, "creation failed no such repository"),)),
    ),
    "a policy that is switched off": ("snapshots.policies", "warn", having(policies=(Policy("daily", False),))),
    "no snapshot management": ("snapshots.policies", "info", having(absent={"snapshot-policies": "no plugin"})),
    "an index that its policy left": ("indices.managed", "fail", having(managed=(Policy("i0", True, "no alias"),))),
    "no index management": ("indices.managed", "info", having(absent={"managed-indices": "no plugin"})),
    "a certificate that ends next month": (
        "certificates",
        "warn",
        having(certificates=(Certificate("a-data", "http", NOW + 20 * DAY),)),
    ),
    "a certificate that ends in days": (
        "certificates",
        "fail",
        having(certificates=(Certificate("a-data", "transport", NOW + 3 * DAY),)),
    ),
    "an expired certificate": (
        "certificates",
        "fail",
        having(certificates=(Certificate("a-data", "transport", NOW - DAY),)),
    ),
    "no security plugin": ("certificates", "info", having(absent={"certificates": "no plugin"})),
    "a hidden persistent setting": ("settings.hidden", "warn", _of_settings(hidden=("search.default_keep_alive",))),
    "slow detection": ("detection", "warn", with_settings(cluster__publish__timeout="40s")),
    "stock detection": (
        "detection",
        "fail",
        with_settings(
            **{f"{kind.replace('.', '__')}__timeout": None for kind in (FOLLOWER, LEADER)},
            cluster__publish__timeout=None,
        ),
    ),
    "stock lag detection": ("detection.stalled", "warn", with_settings(cluster__follower_lag__timeout=None)),
}


def _forget(part: str) -> Change:
    return lambda sheet: replace(sheet, **{part: None}, unread={**sheet.unread, part: "GET x answered 403: no"})


def _forget_of(fact: str, where: Callable[[Node], bool]) -> Change:
    return of_nodes(lambda node: replace(node, **{fact: None}), where)


def _forget_setting(name: str) -> Change:
    def change(sheet: Sheet) -> Sheet:
        if sheet.settings is None:
            return sheet
        cluster = {k: v for k, v in sheet.settings.cluster.items() if k != name}
        defaults = {k: v for k, v in sheet.settings.defaults.items() if k != name}
        return replace(sheet, settings=Settings(cluster, defaults))

    return change


MISSING: dict[str, tuple[tuple[str, ...], Change]] = {
    # what is missing: (the rules that cannot pass without it, the change)
    "nodes": (
        (
            *("zones", "zones.equal", "managers.dedicated", "managers.zones", "managers.size", "awareness"),
            *("awareness.forced", "copies", "copies.placed", "shards.heap", "shards.node", "cpu", "heap", "heap.size"),
            *("storage", "storage.zone", "detection", "detection.stalled"),
            *("protection.search", "protection.admission", "protection.indexing", "protection.cancellation"),
            *("limits.tables", "managers.calls", "managers.asked"),
            *("left.allocation", "left.rebalance", "left.excludes", "left.disk-threshold", "managers.votes", "routing"),
            *("shards.limit", "index.filters", "tiers.copies", "tiers.heap", "templates", "replication", "snapshots"),
            *("left.watermarks", "left.recovery", "protection.tasks", "settings.deadly"),
            "certificates",
        ),
        _forget("nodes"),
    ),
    "settings": (
        (
            *("awareness", "awareness.forced", "shards.node", "storage.zone", "detection", "detection.stalled"),
            *("protection.search", "protection.admission", "protection.indexing", "settings.deadly", "settings.hidden"),
            *("left.allocation", "left.rebalance", "left.excludes", "left.disk-threshold", "left.watermarks"),
            *("left.transient", "left.archived", "left.recovery", "blocks.cluster", "routing", "shards.limit"),
            *("tiers.heap", "templates", "replication", "protection.tasks", "protection.cancellation", "limits.tables"),
        ),
        _forget("settings"),
    ),
    "indices": (
        (
            *("replicas", "copies", "left.archived", "blocks.index", "durability", "delayed", "shards.limit"),
            *("index.filters", "tiers.copies", "tiers.heap", "indices.closed", "replication", "unassigned.given-up"),
            *("limits.tables", "managers.calls", "managers.asked", "snapshots.shallow"),
        ),
        _forget("indices"),
    ),
    "copies": (
        (
            *("managers.size", "copies.placed", "copies.started", "shards.heap", "shards.node", "shards.size"),
            "tiers.heap",
        ),
        _forget("copies"),
    ),
    "state": (
        (
            *("managers.zones", "managers.votes", "blocks.cluster", "routing", "indices.closed", "unassigned"),
            *("unassigned.given-up", "restores", "snapshots"),
        ),
        _forget("state"),
    ),
    "version": (("protection.tasks", "managers.calls"), _forget("version")),
    "usage": (("managers.asked",), _forget("usage")),
    "usage of a node that just started": (("managers.asked",), having(usage=Usage(ASKED, 60.0, young=1))),
    "processors of a manager": (("managers.calls", "managers.asked"), _forget_of("processors", _is("b-cm"))),
    "explained": (("unassigned",), _forget("explained")),
    "limit": (("tiers.heap",), _forget_of("limit", lambda n: True)),
    **{
        part: (("templates",), _forget(part))
        for part in ("index_templates", "component_templates", "legacy_templates", "streams")
    },
    "repositories": (("snapshots",), _forget("repositories")),
    "snapshots of one": (
        ("snapshots",),
        having(repositories=(Repository("backup", "s3", None, "GET x answered 403: no"),)),
    ),
    "shallow": (("snapshots.shallow",), _forget("shallow")),
    "policies": (("snapshots.policies",), _forget("policies")),
    "managed": (("indices.managed",), _forget("managed")),
    "certificates": (("certificates",), _forget("certificates")),
    "the time": (("snapshots", "certificates"), lambda s: replace(s, asked_at=None)),
    "certificates of an older version": (
        ("certificates",),
        lambda s: of_nodes(lambda n: replace(n, secured=True))(
            replace(s, certificates=(), absent={"certificates": "no plugin"})
        ),
    ),
    "heap": (("managers.size", "shards.heap", "heap.size", "tiers.heap"), _forget_of("heap", lambda n: True)),
    "heap of one manager": (("managers.size", "heap.size"), _forget_of("heap", _is("b-cm"))),
    "heap of one data node": (("shards.heap", "heap.size"), _forget_of("heap", _is("b-data"))),
    "memory": (("managers.size", "heap.size"), _forget_of("memory", lambda n: True)),
    "memory of one": (("managers.size", "heap.size"), _forget_of("memory", _is("b-cm"))),
    "cpu": (("cpu",), _forget_of("cpu", lambda n: True)),
    "cpu of one": (("cpu",), _forget_of("cpu", _is("b-data"))),
    "heap in use": (("heap",), _forget_of("heap_used", lambda n: True)),
    "heap in use of one": (("heap",), _forget_of("heap_used", _is("b-data"))),
    "storage": (("storage",), _forget_of("disk", lambda n: True)),
    "free storage of one": (("storage",), _forget_of("disk_free", _is("c-data"))),
    "free storage of one, not forced": (
        ("storage", "storage.zone"),
        lambda s: _forget_of("disk_free", _is("c-data"))(NOT_FORCED(s)),
    ),
    "sizes": (("shards.size",), of_copies(lambda c: replace(c, size=None))),
    "size of one": (("shards.size",), of_copies(lambda c: replace(c, size=None), lambda c: c.index == "i1")),
    "every index": (("replicas", "copies"), lambda s: replace(s, indices=())),
    "every copy": (
        ("copies.placed", "copies.started", "shards.size"),
        lambda s: replace(s, copies=()),
    ),
    **{
        name: ((rule,), _forget_setting(name))
        for name, rule in {
            "search_backpressure.mode": "protection.search",
            "admission_control.transport.mode": "protection.admission",
            "shard_indexing_pressure.enabled": "protection.indexing",
            "shard_indexing_pressure.enforced": "protection.indexing",
            f"{FOLLOWER}.timeout": "detection",
            f"{FOLLOWER}.interval": "detection",
            f"{LEADER}.retry_count": "detection",
            "cluster.publish.timeout": "detection",
            "cluster.follower_lag.timeout": "detection.stalled",
            "cluster.max_shards_per_node": "shards.node",
            "search.cancel_after_time_interval": "protection.cancellation",
            "cat.shards.response.limit.number_of_shards": "limits.tables",
            AWARENESS: "awareness",
        }.items()
    },
}


def large(nodes: int = 200, shards: int = 20_000) -> Sheet:
    """As many as a large cluster has, for its time."""
    some = healthy().data[0]
    names = [f"n{number}" for number in range(nodes)]
    zoned = tuple(replace(some, name=name, zone=ZONES[number % 3]) for number, name in enumerate(names))
    copies = tuple(
        Copy(f"i{shard // 5}", shard % 5, copy == 0, True, names[(shard + copy) % nodes], 20 * GIB)
        for shard in range(math.ceil(shards / 3))
        for copy in range(3)
    )
    sheet = healthy()
    return replace(sheet, nodes=(*sheet.managers, *zoned), copies=copies)
