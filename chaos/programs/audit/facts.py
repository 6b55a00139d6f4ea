"""The facts of a cluster that the rules look at. None is a fact that is missing; :attr:`Sheet.unread` says why."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from chaos.definitions.topology import AWARENESS, STRATEGY, ZONE_ATTRIBUTE

GIB = 2**30
FOLLOWER = "cluster.fault_detection.follower_check"
LEADER = "cluster.fault_detection.leader_check"
BALANCE = "cluster.routing.allocation.awareness.balance"
ALLOCATION = "cluster.routing.allocation.enable"
REBALANCE = "cluster.routing.rebalance.enable"
THRESHOLD = "cluster.routing.allocation.disk.threshold_enabled"
WATERMARK = "cluster.routing.allocation.disk.watermark"
PER_NODE = "cluster.routing.allocation.total_shards_per_node"
DEFAULT_REPLICAS = "cluster.default_number_of_replicas"
RESTRICTED = "cluster.index.restrict.replication.type"
SEGMENT_PRESSURE = "segrep.pressure.enabled"
CANCEL_AFTER = "search.cancel_after_time_interval"
PACE = "indices.recovery.max_bytes_per_sec"
CAT_LIMITS = (
    "cat.indices.response.limit.number_of_indices",
    "cat.segments.response.limit.number_of_indices",
    "cat.shards.response.limit.number_of_shards",
)
STOCK: Mapping[str, str] = {
    AWARENESS: "",
    BALANCE: "false",
    f"{FOLLOWER}.interval": "1s",
    f"{FOLLOWER}.timeout": "10s",
    f"{FOLLOWER}.retry_count": "3",
    f"{LEADER}.interval": "1s",
    f"{LEADER}.timeout": "10s",
    f"{LEADER}.retry_count": "3",
    "cluster.publish.timeout": "30s",
    "cluster.follower_lag.timeout": "90s",
    "cluster.max_shards_per_node": "1000",
    "search_backpressure.mode": "monitor_only",
    "admission_control.transport.mode": "disabled",
    "shard_indexing_pressure.enabled": "false",
    "shard_indexing_pressure.enforced": "false",
    ALLOCATION: "all",
    REBALANCE: "all",
    THRESHOLD: "true",
    PER_NODE: "-1",
    DEFAULT_REPLICAS: "1",
    STRATEGY: "DOCUMENT",
    RESTRICTED: "false",
    SEGMENT_PRESSURE: "false",
    CANCEL_AFTER: "-1",
    **dict.fromkeys(CAT_LIMITS, "-1"),
    "cluster.routing.allocation.node_concurrent_recoveries": "2",
    "cluster.routing.allocation.node_concurrent_incoming_recoveries": "2",
    "cluster.routing.allocation.node_concurrent_outgoing_recoveries": "2",
    "cluster.routing.allocation.node_initial_primaries_recoveries": "4",
    "cluster.routing.allocation.cluster_concurrent_rebalance": "2",
    PACE: "41943040b",
}
"""The settings that rules ask for, with the defaults of OpenSearch 3.8.0."""
ALSO_STOCK = {PACE: "40mb"}
"""The same default as other versions write it."""


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of a shard. ``node`` is None while unassigned; ``size`` in bytes, None where it was not told."""

    index: str
    shard: int
    primary: bool
    started: bool
    node: str | None
    size: int | None


NOTHING: Mapping[str, str] = MappingProxyType({})


class Index(NamedTuple):
    """``shards`` primaries, each with ``replicas``. ``settings``: what is set for it, without ``index.`` before."""

    name: str
    shards: int
    replicas: int
    settings: Mapping[str, str] = NOTHING

    @property
    def is_system(self) -> bool:
        """Of a plugin, by its name."""
        return self.name.startswith(".") and not self.name.startswith(".ds-")


@dataclass(frozen=True, slots=True)
class Unassigned:
    """A copy without a node. ``failures``: how often in a row its start failed; ``details`` are OpenSearch's words.

    ``source``: where it is to come from, as OpenSearch calls it (SNAPSHOT, PEER and others); empty where none is said.
    """

    index: str
    shard: int
    reason: str
    failures: int = 0
    details: str = ""
    source: str = ""


class Running(NamedTuple):
    """A snapshot that is being made. ``began`` in seconds since the epoch, None where it was not said."""

    repository: str
    name: str
    state: str
    began: float | None


class Decommissioned(NamedTuple):
    """The value of an attribute whose nodes are kept out; ``status`` in lower case, ``successful`` once they are."""

    attribute: str
    value: str
    status: str


@dataclass(frozen=True)
class State:
    """What one cluster state says. ``voters``: ids of nodes in the committed voting configuration.

    ``excluded``: names of managers whose vote is taken. ``blocks``: of the whole cluster, in OpenSearch's words.
    ``restores``: index and state of each restore that is not done.
    """

    voters: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    closed: frozenset[str] = frozenset()
    blocks: tuple[str, ...] = ()
    weights: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    decommissioned: Decommissioned | None = None
    restores: tuple[str, ...] = ()
    running: tuple[Running, ...] = ()
    unassigned: tuple[Unassigned, ...] = ()


class Template(NamedTuple):
    """An index template, a component of one, or one of the old kind. ``settings`` without ``index.`` before."""

    name: str
    settings: Mapping[str, str]
    patterns: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    of_streams: bool = False


class Snapshot(NamedTuple):
    """``began``, ``ended``: seconds since the epoch."""

    name: str
    state: str
    began: float
    ended: float | None


class Repository(NamedTuple):
    """``snapshots`` is None where they could not be listed; ``why`` says so."""

    name: str
    kind: str
    snapshots: tuple[Snapshot, ...] | None
    why: str = ""


class Policy(NamedTuple):
    """A policy of snapshot management, or an index under one of index state management.

    ``problem`` is empty where its last execution went well.
    """

    name: str
    enabled: bool
    problem: str = ""


class Certificate(NamedTuple):
    """``layer``: http or transport. ``ends``: seconds since the epoch."""

    node: str
    layer: str
    ends: float


class Usage(NamedTuple):
    """How often clients ask. ``rates``: kind of request → requests a second, of all nodes together.

    ``since``: seconds that the youngest of them has counted. ``young``: how many nodes have counted for too short.
    """

    rates: Mapping[str, float]
    since: float
    young: int = 0


@dataclass(frozen=True)
class Node:
    """``zone`` None: it has no such attribute. Bytes, and percent of the whole; None where it did not say.

    ``heap_used`` is that of the old generation where the node tells it: it is what collections do not free.
    """

    name: str
    roles: frozenset[str]
    zone: str | None
    processors: int | None = None
    heap: int | None = None
    memory: int | None = None
    cpu: float | None = None
    heap_used: float | None = None
    disk: int | None = None
    disk_free: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    """What stands in its opensearch.yml."""
    id: str | None = None
    ip: str | None = None
    host: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None
    """Bytes up to which its parent circuit breaker lets requests take heap."""
    secured: bool = False
    """Its REST API or transport is wrapped by the security plugin."""

    @property
    def is_data(self) -> bool:
        return "data" in self.roles

    @property
    def is_manager(self) -> bool:
        """May be elected; ``master`` is the role's old name."""
        return bool(self.roles & {"cluster_manager", "master"})

    @property
    def is_dedicated(self) -> bool:
        return self.is_manager and not self.roles - {"cluster_manager", "master", "remote_cluster_client"}


@dataclass(frozen=True)
class Settings:
    """``cluster``: set for all nodes. ``defaults``: what one node says of the rest, from its own opensearch.yml too."""

    cluster: Mapping[str, str]
    defaults: Mapping[str, str]
    explicit: Mapping[str, str] = field(default_factory=dict)
    """All that is set for the cluster."""
    transient: Mapping[str, str] = field(default_factory=dict)
    """Of ``explicit`` those that the next restart of the whole cluster forgets."""
    hidden: tuple[str, ...] = ()
    """Persistent settings behind a transient one of another value: that value holds until the next restart."""


@dataclass(frozen=True)
class Sheet:
    """``origin``: what was looked at, for people. ``unread``: part → why it is None; ``node`` facts by their name."""

    origin: str
    zone_attribute: str = ZONE_ATTRIBUTE
    version: str | None = None
    nodes: tuple[Node, ...] | None = None
    settings: Settings | None = None
    indices: tuple[Index, ...] | None = None
    copies: tuple[Copy, ...] | None = None
    unread: Mapping[str, str] = field(default_factory=dict)
    state: State | None = None
    index_templates: tuple[Template, ...] | None = None
    component_templates: tuple[Template, ...] | None = None
    legacy_templates: tuple[Template, ...] | None = None
    streams: Mapping[str, tuple[str, ...]] | None = None
    """Index template → data streams that were made by it."""
    repositories: tuple[Repository, ...] | None = None
    shallow: tuple[str, ...] | None = None
    """Names of the repositories whose snapshots of remote-backed indices are shallow."""
    policies: tuple[Policy, ...] | None = None
    managed: tuple[Policy, ...] | None = None
    certificates: tuple[Certificate, ...] | None = None
    usage: Usage | None = None
    explained: str | None = None
    """Why the first unassigned copy stays so, in OpenSearch's words; empty where none is unassigned."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Part → why this cluster has nothing of that kind: its plugin is not installed."""
    asked_at: float | None = None
    """Seconds since the epoch, by the clock of the cluster's nodes when they answered."""
    is_definition: bool = False
    """Nothing runs: what is not written is OpenSearch's default."""
    unasked: Mapping[str, str] = field(default_factory=dict)
    """Rule → why this origin cannot tell it at all."""
    gaps: Mapping[str, str] = field(default_factory=dict)
    """Rule → what this origin does not tell of it: it can be broken, and is unknown where nothing is found."""
    notes: tuple[str, ...] = ()
    """How what was written was read, in sentences."""

    def why(self, part: str) -> str:
        return self.unread.get(part, "it was not said")

    @property
    def data(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes or () if node.is_data)

    @property
    def managers(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes or () if node.is_manager)

    @property
    def zones(self) -> tuple[str, ...]:
        """Those that hold data, sorted."""
        return tuple(sorted({node.zone for node in self.data if node.zone is not None}))

    @property
    def forced(self) -> str:
        """The setting with the values of forced awareness."""
        return f"cluster.routing.allocation.awareness.force.{self.zone_attribute}.values"

    def setting(self, name: str, node: Node) -> str | None:
        """What holds on ``node``: the cluster's, else its own, else the default. None: this version does not know it.

        The defaults that a cluster tells hold what stands in the opensearch.yml of the node that was asked. So where
        any node has a value of its own, a node without one is believed to have OpenSearch's.
        """
        assert self.settings is not None
        own = self.settings.cluster.get(name, node.settings.get(name))
        if own is not None:
            return own
        if any(name in each.settings for each in self.nodes or ()):
            return STOCK.get(name, "")
        return self.settings.defaults.get(name)

    @property
    def deciding(self) -> tuple[Node, ...]:
        """Nodes that may be elected: they decide where copies go. All nodes, where none may be."""
        return self.managers or self.nodes or ()

    def held(self, name: str) -> frozenset[str]:
        """The values of a setting that hold on nodes which may be elected."""
        return frozenset(value for node in self.deciding if (value := self.setting(name, node)) is not None)

    def given(self, name: re.Pattern[str], nodes: Sequence[Node] | None = None) -> list[dict[str, str]]:
        """What is set of the settings with such a name, as each of ``nodes`` has it, alike ones once.

        ``nodes``: by default those that may be elected. The cluster's settings come before a node's own. Where no
        node tells its own, the defaults that the cluster tells stand for them, without those that are OpenSearch's.
        """
        assert self.settings is not None
        told = any(node.settings for node in self.nodes or ())
        own = [node.settings for node in (self.deciding if nodes is None else nodes)] if told else [self._changed()]
        found: list[dict[str, str]] = []
        for settings in own:
            each = {key: v for key, v in {**settings, **self.settings.explicit}.items() if name.fullmatch(key)}
            if each not in found:
                found.append(each)
        return found

    def _changed(self) -> dict[str, str]:
        """The defaults that are not OpenSearch's: of the node that was asked, from its opensearch.yml."""
        assert self.settings is not None
        return {
            name: value
            for name, value in self.settings.defaults.items()
            if value not in (STOCK.get(name), ALSO_STOCK.get(name))
        }

    @property
    def untold(self) -> str | None:
        """What is missing of :meth:`given` where the nodes could not be read."""
        return None if self.nodes is not None else f"what stands in opensearch.yml: {self.why('nodes')}"


def flat(settings: Any, before: str = "") -> dict[str, str]:
    """Nested settings by their full name, as text."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = plain(value)
    return found


def of_index(settings: Any) -> dict[str, str]:
    """Settings of an index or a template, however they are nested, without ``index.`` before their names."""
    return {name.removeprefix("index."): value for name, value in flat(settings or {}).items()}


def plain(value: Any) -> str:
    """A setting's value as text: lists with commas, truth in lower case."""
    if isinstance(value, list | tuple):
        return ",".join(plain(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def listed(value: str) -> frozenset[str]:
    return frozenset(item.strip() for item in value.split(",") if item.strip())


def by_name(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings by full name, as text."""
    return {str(name): plain(value) for name, value in settings.items()}


_UNITS = {"nanos": 1e-9, "micros": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(value: str) -> float | None:
    """OpenSearch's way to write a time, ``10s`` or ``30000ms``, in seconds; None where it is none, or switched off."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(nanos|micros|ms|s|m|h|d)", value.strip().lower())
    return float(found[1]) * _UNITS[found[2]] if found else None
