"""A topology: zones, nodes with roles, weights, settings by level; which zone is the standby.

:class:`TopologyFile` is the shape that people write, :class:`Topology` what everything else uses:
groups expanded to nodes, the standby turned into weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    StrictInt,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import core_schema

from chaos.base.units import Malformed, Size
from chaos.definitions.base import API_VERSION, Strict
from chaos.definitions.selectors import NAME, client_host
from chaos.definitions.source import Loc, Problem, did_you_mean

Scalar = str | int | float | bool
Role = Literal["cluster_manager", "data", "ingest", "remote_cluster_client", "search", "warm"]
VERSION = r"^[0-9]+\.[0-9]+\.[0-9]+$"
Profile = Literal["fast", "faithful"]
Name = Annotated[str, Field(pattern=f"^{NAME}$")]

ZONE_ATTRIBUTE = "zone"
"""The node attribute that holds the zone; the lab sets it on every node."""
AWARENESS = "cluster.routing.allocation.awareness.attributes"
FORCED = "cluster.routing.allocation.awareness.force.zone.values"

LAB_OWNED = frozenset(
    {
        "cluster.name",
        "cluster.initial_cluster_manager_nodes",
        "cluster.initial_master_nodes",
        "discovery.seed_hosts",
        "discovery.seed_providers",
        "discovery.type",
        "http.bind_host",
        "http.host",
        "http.port",
        "http.publish_host",
        "network.bind_host",
        "network.host",
        "network.publish_host",
        "node.data",
        "node.ingest",
        "node.master",
        f"node.attr.{ZONE_ATTRIBUTE}",
        "node.name",
        "node.roles",
        "path.data",
        "path.logs",
        "transport.bind_host",
        "transport.host",
        "transport.port",
        "transport.publish_host",
    }
)
"""Node settings that the lab decides; a definition that sets them would break its wiring."""

STATIC = frozenset(
    {
        "cluster.fault_detection.follower_check.retry_count",
        "cluster.fault_detection.leader_check.interval",
        "cluster.fault_detection.leader_check.retry_count",
        "cluster.election.initial_timeout",
        "cluster.election.back_off_time",
        "cluster.election.max_timeout",
        "cluster.election.duration",
        "cluster.indices.replication.strategy",
        "cluster.nodes.reconnect_interval",
        "discovery.find_peers_interval",
        "discovery.find_peers_interval_during_decommission",
        "discovery.request_peers_timeout",
        "discovery.probe.connect_timeout",
        "discovery.probe.handshake_timeout",
        "transport.connect_timeout",
        "transport.ping_schedule",
    }
)
"""Static in OpenSearch 3.8.0: the cluster settings API refuses them, opensearch.yml takes them."""


STRATEGY, TYPE, SEGMENT = "cluster.indices.replication.strategy", "replication.type", "SEGMENT"
"""The replication type of indices that name none, and of one index (its short name); and the one that copies segments.
"""


def setting(value: Any) -> Any:
    """A setting's value as people may write it. Raises :class:`Malformed`."""
    if isinstance(value, Mapping):
        raise Malformed("expected text, a number or a list: a setting's name is written with dots")
    if isinstance(value, list | tuple):
        if not all(isinstance(item, Scalar) for item in value):
            raise Malformed("expected a list of texts or numbers")
        return list(value)
    if not isinstance(value, Scalar):
        raise Malformed(f"cannot read {value!r}: expected text, a number, true, false or a list")
    return value


Setting = Annotated[
    Any,
    BeforeValidator(setting),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": ["string", "number", "boolean"]},
                {"type": "array", "items": {"type": ["string", "number", "boolean"]}},
            ]
        }
    ),
]


def _heap(size: Size) -> Size:
    if size < 64 * 2**20:
        raise Malformed(f"a heap of {size.text} is too small to start a node: expected 64MiB or more")
    return size


Heap = Annotated[Size, AfterValidator(_heap)]


def _version(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise Malformed(f"{value} is a number: expected a full version such as 3.8.0")
    return value


Version = Annotated[str, BeforeValidator(_version), Field(pattern=VERSION)]


def ordered(version: str) -> tuple[int, ...]:
    """A version as something that can be compared: later is larger."""
    return tuple(int(part) for part in version.split("."))


SPAN = " to "


def spanned(versions: Iterable[str]) -> str:
    """Versions as one label, the oldest first: ``2.19.6 to 3.8.0``; one version is its own."""
    return SPAN.join(sorted(versions, key=ordered))


def latest(label: str) -> str:
    """The newest version of a label that :func:`spanned` made."""
    return label.rpartition(SPAN)[2]


class Group(Strict):
    """Nodes of one kind, the same number in each of its zones."""

    roles: tuple[Role, ...] = Field(description="OpenSearch roles, for example [data, ingest]")
    per_zone: StrictInt = Field(default=1, ge=1, description="how many nodes in each zone")
    heap: Heap = Field(description="for example 384MiB")
    zones: tuple[Name, ...] | None = Field(default=None, min_length=1, description="only in these; default all")
    opensearch: Version | None = Field(
        default=None, description="another version than the topology's, for example 2.19.6"
    )
    settings: dict[str, Setting] = Field(default_factory=dict, description="opensearch.yml, this group only")


def _disk(size: Size) -> Size:
    if size < 128 * 2**20:
        raise Malformed(f"a disk of {size.text} leaves no room to start: expected 128MiB or more")
    return size


class Disks(Strict):
    """A disk of its own for each node, so that it can fail alone."""

    size: Annotated[Size, AfterValidator(_disk)] = Field(description="of each node's disk, for example 256MiB")


ServiceKind = Literal["s3", "fs", "reloadable-fs"]
SERVICES = get_args(ServiceKind)


class Service(Strict):
    """Something that a lab has beside its nodes, in no zone."""

    kind: ServiceKind = Field(
        description="s3 (an object store with an address of its own), fs (a folder that all nodes share) or "
        "reloadable-fs (the same, whose settings can change while nodes run)"
    )
    disk: Annotated[Size, AfterValidator(_disk)] | None = Field(
        default=None,
        exclude_if=lambda size: size is None,
        description="the folder is a disk of its own of this size, for example 256MiB; disk faults need it",
    )

    @property
    def has_host(self) -> bool:
        """Whether it is reached over the network, so that it can be slow or cut off there."""
        return self.kind == "s3"


def _service(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


class RemoteStore(Strict):
    """Remote-backed storage: segments and translogs of all indices are in a store."""

    service: Name = Field(description="the service that is the store, for example store")
    state: bool = Field(
        default=False, description="whether the cluster's state is there too (cluster.remote_store.state.enabled)"
    )
    publication: bool = Field(
        default=False,
        exclude_if=lambda published: not published,
        description="whether nodes fetch each new state from there, instead of being sent it by the cluster manager "
        "(cluster.remote_store.publication.enabled); needs state: true",
    )


def _remote_store(value: Any) -> Any:
    return {"service": value} if isinstance(value, str) else value


class _OrText:
    """Publishes "one of these texts, or a T" instead of pydantic's "a T" or "a T or null"."""

    def __init__(self, **text: Any) -> None:
        self._text = {"type": "string", **text}

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        made = handler(schema)
        return {"anyOf": [self._text, *(each for each in made.get("anyOf", [made]) if each.get("type") != "null")]}


class Security(Strict):
    """The security plugin, with what is planted in it."""

    expired: tuple[str, ...] = Field(
        min_length=1,
        description="nodes whose certificate for clients has expired when the lab is up, for example [c-data]",
    )


def _security(value: Any) -> Any:
    if isinstance(value, bool):
        return Security.model_construct(expired=()) if value else None
    if not isinstance(value, dict | Security):
        raise Malformed(f"cannot read {value!r}: expected true, false or a mapping such as {{expired: [c-data]}}")
    return value


class _SwitchSchema:
    """Publishes "true, false or a T" instead of pydantic's "a T or null"."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "boolean"}, *handler(schema)["anyOf"]]}


class Settings(Strict):
    """Settings by the level at which OpenSearch takes them."""

    node: dict[str, Setting] = Field(default_factory=dict, description="opensearch.yml of every node")
    cluster: dict[str, Setting] = Field(
        default_factory=dict, description="persistent cluster settings, put after start"
    )
    index: dict[str, Setting] = Field(default_factory=dict, description="settings of the load's index")


class TopologyFile(Strict):
    """A topology as written."""

    api_version: Literal["opensearch-chaos/v1"] = Field(alias="apiVersion", description=API_VERSION)
    kind: Literal["topology"] = Field(description="topology")
    name: Name = Field(description="the file's name without suffix, for example 3az-standby")
    description: str = Field(default="", description="one line for people")
    opensearch: Version = Field(description="a full version such as 3.8.0")
    upgrade: Version | None = Field(
        default=None, description="a later version that its nodes can be upgraded to (node.upgrade), for example 3.8.0"
    )
    profile: Profile = Field(
        default="fast",
        description="fast (quick start) or faithful (full JIT, agent, default garbage collector)",
    )
    zones: tuple[Name, ...] = Field(min_length=1, description="zone names, for example [a, b, c]")
    standby: Name | None = Field(default=None, description="a zone with weight 0; all others get 1")
    weights: dict[Name, StrictInt] | None = Field(default=None, description="zone to weight, instead of standby")
    nodes: dict[Name, Group] = Field(min_length=1, description="groups of nodes")
    disks: Disks | None = Field(
        default=None, description="a disk of its own for each node, for example {size: 256MiB}; disk faults need it"
    )
    security: Annotated[Security | None, BeforeValidator(_security), _SwitchSchema] = Field(
        default=None,
        description="true: the security plugin is on, with TLS everywhere, certificates and one user made for each "
        "lab; so it is with {expired: [c-data]}, and clients cannot trust those nodes",
    )
    services: dict[Name, Annotated[Service, BeforeValidator(_service), _OrText(enum=list(SERVICES))]] = Field(
        default_factory=dict,
        description="what the lab has beside its nodes, by name, for example {store: s3}: s3 or fs",
    )
    remote_store: Annotated[RemoteStore | None, BeforeValidator(_remote_store), _OrText(pattern=f"^{NAME}$")] = Field(
        default=None,
        description="the service that holds segments and translogs of all indices, for example store; with the "
        "cluster's state it is {service: store, state: true}",
    )
    http_layer: tuple[Name, ...] = Field(
        default=(),
        description="before whom HTTP requests pass a proxy that can delay, refuse, hang and cut some of them, and "
        "writes each down: groups of nodes and services, for example [store]; HTTP faults need it",
    )
    settings: Settings = Field(default_factory=Settings, description="by level: node, cluster, index")

    @model_validator(mode="after")
    def _standby_or_weights(self) -> TopologyFile:
        if self.standby is not None and self.weights is not None:
            raise ValueError("standby and weights say the same thing twice: expected one of them")
        return self


class NodeSpec(Strict):
    """One node of a topology. ``heap`` is in bytes; ``settings`` are those of its group."""

    name: str
    zone: str
    group: str
    roles: tuple[str, ...]
    heap: Size
    version: str | None = None
    """None: the topology's"""
    settings: dict[str, Any] = Field(default_factory=dict)
    also: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """What an experiment calls it, where the node is one of a cluster that exists and has a name of its own."""

    @property
    def is_data(self) -> bool:
        return "data" in self.roles

    @property
    def is_cluster_manager(self) -> bool:
        return "cluster_manager" in self.roles


class Topology(Strict):
    """A topology, resolved."""

    name: str
    description: str = ""
    version: str
    upgrade: str | None = None
    profile: Profile = "fast"
    zones: tuple[str, ...]
    standby: str | None = None
    weights: dict[str, int] | None = None
    nodes: tuple[NodeSpec, ...]
    disks: Disks | None = None
    security: bool = False
    expired: tuple[str, ...] = ()
    """Nodes whose certificate for clients has expired when the lab is up."""
    services: dict[str, Service] = Field(default_factory=dict, exclude_if=lambda services: not services)
    remote_store: RemoteStore | None = Field(default=None, exclude_if=lambda store: store is None)
    http_layer: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    settings: Settings = Field(default_factory=Settings)
    file: str | None = Field(default=None, description="where it was read from, for people")

    @property
    def replicas(self) -> int:
        """Replicas of each shard of the load's index; OpenSearch's default is 1."""
        return int(self.settings.index.get("number_of_replicas", 1))

    @property
    def shards(self) -> int:
        """Primary shards of the load's index; OpenSearch's default is 1."""
        return int(self.settings.index.get("number_of_shards", 1))

    @property
    def versions(self) -> tuple[str, ...]:
        """Every version that a lab of this topology may run, the topology's own first."""
        nodes = [node.version for node in self.nodes]
        return tuple(dict.fromkeys(each for each in (self.version, *nodes, self.upgrade) if each is not None))

    @property
    def data_nodes(self) -> tuple[NodeSpec, ...]:
        return tuple(node for node in self.nodes if node.is_data)

    @property
    def cluster_managers(self) -> tuple[NodeSpec, ...]:
        return tuple(node for node in self.nodes if node.is_cluster_manager)

    @property
    def client_hosts(self) -> tuple[str, ...]:
        """One host per zone from which that zone's clients send."""
        return tuple(client_host(zone) for zone in self.zones)

    @property
    def service_hosts(self) -> tuple[str, ...]:
        """The services that have a host: links of nodes lead to them."""
        return tuple(name for name, service in self.services.items() if service.has_host)

    @property
    def service_disks(self) -> dict[str, Size]:
        """Services whose folder is a disk of their own, each with its size in bytes."""
        return {name: service.disk for name, service in self.services.items() if service.disk is not None}

    @property
    def http_hosts(self) -> tuple[str, ...]:
        """The hosts whose HTTP requests pass a proxy first, in the order of hosts."""
        nodes = tuple(node.name for node in self.nodes if node.group in self.http_layer)
        return nodes + tuple(name for name in self.service_hosts if name in self.http_layer)

    @property
    def active_zones(self) -> tuple[str, ...]:
        """The zones with a weight above 0, which is all of them where no weights are set."""
        return tuple(zone for zone in self.zones if self.weights is None or self.weights.get(zone, 1) > 0)

    def segments(self, index: Mapping[str, Any]) -> bool:
        """Whether replicas of an index with these settings (short names) copy segments, as far as files tell.

        Remote-backed storage knows no other way.
        """
        if self.remote_store is not None:
            return True
        default = self.settings.cluster.get(STRATEGY, self.settings.node.get(STRATEGY, ""))
        return str(index.get(TYPE, default)).upper() == SEGMENT

    def node(self, name: str) -> NodeSpec:
        """The node of that name. Raises ``KeyError``."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    @property
    def zone_aware(self) -> bool:
        """Whether the cluster knows the zones. Else it has no weights: OpenSearch answers 400 to whoever asks."""
        settings = {**self.settings.node, **self.settings.cluster}
        return ZONE_ATTRIBUTE in _words(settings.get(AWARENESS, ""))

    def awareness(self) -> frozenset[str]:
        """The values of forced awareness of the zone attribute; empty where there is none."""
        settings = {**self.settings.node, **self.settings.cluster}
        return frozenset(_words(settings.get(FORCED, ""))) if self.zone_aware else frozenset()

    def to_json(self) -> dict[str, Any]:
        """JSON-able; durations in seconds, sizes in bytes. :meth:`from_json` reads it back."""
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Topology:
        """From :meth:`to_json`, as it stands in a run's ``plan.json``."""
        return cls.model_validate(data, context={"normal_form": True})


def _words(value: Any) -> list[str]:
    items = value if isinstance(value, list) else str(value).split(",")
    return [str(item).strip() for item in items if str(item).strip()]


def expand(file: TopologyFile) -> tuple[NodeSpec, ...]:
    """The nodes of all groups: those with the role cluster_manager first, then by zone."""
    nodes = [
        NodeSpec(
            name=f"{zone}-{group}" if spec.per_zone == 1 else f"{zone}-{group}-{index}",
            zone=zone,
            group=group,
            roles=spec.roles,
            heap=spec.heap,
            version=spec.opensearch,
            settings=spec.settings,
        )
        for group, spec in file.nodes.items()
        for zone in dict.fromkeys(file.zones)
        if spec.zones is None or zone in spec.zones
        for index in range(1, spec.per_zone + 1)
    ]
    return tuple(sorted(nodes, key=lambda node: not node.is_cluster_manager))


def resolve(file: TopologyFile, shown_as: str | None = None) -> Topology:
    """The topology that a valid file means."""
    weights = file.weights
    if file.standby is not None:
        weights = {zone: 0 if zone == file.standby else 1 for zone in file.zones}
    index = short_names(file.settings.index)
    return Topology(
        name=file.name,
        description=file.description,
        version=file.opensearch,
        upgrade=file.upgrade,
        profile=file.profile,
        zones=file.zones,
        standby=file.standby,
        weights=weights,
        nodes=expand(file),
        disks=file.disks,
        security=file.security is not None,
        expired=file.security.expired if file.security is not None else (),
        services=file.services,
        remote_store=file.remote_store,
        http_layer=file.http_layer,
        settings=file.settings.model_copy(update={"index": index}),
        file=shown_as,
    )


def has_replicas(settings: Mapping[str, Any]) -> bool:
    """Whether an index with these settings has replicas; one is usual."""
    return str(settings.get("number_of_replicas", 1)) != "0" or "auto_expand_replicas" in settings


def with_defaults(topology: Topology, index: Mapping[str, Any]) -> Topology:
    """The same with these settings of the load's index (their short names) where it says nothing else."""
    if not index:
        return topology
    settings = topology.settings.model_copy(update={"index": {**index, **topology.settings.index}})
    return topology.model_copy(update={"settings": settings})


def with_settings(topology: Topology, index: Mapping[str, Any]) -> Topology:
    """The same with these settings of an index, whatever it says of them."""
    settings = topology.settings.model_copy(update={"index": {**topology.settings.index, **index}})
    return topology.model_copy(update={"settings": settings})


def unknown_zone(zone: str, topology: Topology | TopologyFile) -> str:
    """The message for a zone that the topology does not have."""
    return f"zone {zone} is not in topology {topology.name}: {did_you_mean(zone, topology.zones)}"


def check(file: TopologyFile) -> Iterator[Problem]:
    """What pydantic cannot see: contradictions between parts of the file, and what OpenSearch refuses."""
    seen: set[str] = set()
    for index, zone in enumerate(file.zones):
        if zone in seen:
            yield Problem(("zones", index), f"zone {zone} is named twice: expected each once")
        seen.add(zone)
    if file.standby is not None and file.standby not in file.zones:
        yield Problem(("standby",), unknown_zone(file.standby, file))
    for group, spec in file.nodes.items():
        for index, zone in enumerate(spec.zones or ()):
            if zone not in file.zones:
                yield Problem(("nodes", group, "zones", index), unknown_zone(zone, file))
    names = {client_host(zone): "the client host of a zone" for zone in file.zones}
    nodes = expand(file)
    for node in nodes:
        if node.name in names:
            yield Problem(
                ("nodes", node.group),
                f"the name {node.name} would mean this and {names[node.name]}: expected another group name",
                at_key=True,
            )
        names[node.name] = f"a node of group {node.group}"
    expired = file.security.expired if file.security is not None else ()
    for index, name in enumerate(expired):
        if name not in (known := [node.name for node in nodes]):
            wrong = f"node {name} is not in topology {file.name}: {did_you_mean(name, known)}"
            yield Problem(("security", "expired", index), wrong)
        elif name in expired[:index]:
            yield Problem(("security", "expired", index), f"node {name} is named twice: expected each once")
    yield from _check_services(file, names)
    yield from _check_http_layer(file)
    for role in ("cluster_manager", "data"):
        if not any(role in node.roles for node in nodes):
            yield Problem(("nodes",), f"no node has the role {role}: expected at least one", at_key=True)
    yield from _check_versions(file)
    yield from _check_settings(file)
    topology = resolve(file)
    yield from check_copies(topology)
    loc: tuple[str, ...] = ("weights",) if file.weights is not None else ("standby",)
    if topology.weights is not None and all(zone in file.zones for zone in (file.standby,) if zone):
        yield from check_weights(topology.weights, topology, loc)


def _check_services(file: TopologyFile, hosts: Mapping[str, str]) -> Iterator[Problem]:
    """``hosts``: what the names of all other hosts mean."""
    of_s3 = [name for name, service in file.services.items() if service.has_host]
    for name in file.services:
        if name in hosts:
            wrong = f"the name {name} would mean this and {hosts[name]}: expected another name"
            yield Problem(("services", name), wrong, at_key=True)
    for name in of_s3:
        if file.services[name].disk is not None:
            wrong = "a service of kind s3 keeps everything in memory: expected no disk, or the kind fs"
            yield Problem(("services", name, "disk"), wrong, at_key=True)
    for name in of_s3[1:]:
        wrong = f"{name} is a second service of kind s3 beside {of_s3[0]}, and nodes have one client: expected one"
        yield Problem(("services", name), wrong, at_key=True)
    if file.remote_store is None:
        return
    if file.remote_store.service not in file.services:
        name = file.remote_store.service
        known = did_you_mean(name, file.services) if file.services else f"expected services: {{{name}: s3}}"
        yield Problem(("remote_store",), f"there is no service {name}: {known}")
    if file.remote_store.publication and not file.remote_store.state:
        wrong = "nodes fetch a state that is not in the store: expected state: true beside it"
        yield Problem(("remote_store", "publication"), wrong, at_key=True)
    for key in (TYPE, f"index.{TYPE}"):
        if str(file.settings.index.get(key, SEGMENT)).upper() != SEGMENT:
            yield Problem(
                ("settings", "index", key),
                f"{file.settings.index[key]}: on remote-backed storage OpenSearch refuses such an index: "
                f"expected {SEGMENT}, or this left out",
            )


def _check_http_layer(file: TopologyFile) -> Iterator[Problem]:
    reached = {name: service.has_host for name, service in file.services.items()} | dict.fromkeys(file.nodes, True)
    for index, name in enumerate(file.http_layer):
        if name not in reached:
            known = did_you_mean(name, reached)
            yield Problem(("http_layer", index), f"{name} is neither a group of nodes nor a service: {known}")
        elif not reached[name]:
            wrong = f"{name} is a folder, to which no request goes: expected a service of kind s3, or a group of nodes"
            yield Problem(("http_layer", index), wrong)
        elif name in file.http_layer[:index]:
            yield Problem(("http_layer", index), f"{name} is named twice: expected each once")


def _check_versions(file: TopologyFile) -> Iterator[Problem]:
    """A node's data can be read by its own version and later ones, so there is no way back."""
    if file.upgrade is None:
        return
    versions: dict[tuple[str, ...], str] = {("opensearch",): file.opensearch}
    versions |= {("nodes", name, "opensearch"): g.opensearch for name, g in file.nodes.items() if g.opensearch}
    for loc, version in versions.items():
        if ordered(version) >= ordered(file.upgrade):
            yield Problem(loc, f"{version} cannot be upgraded to {file.upgrade}: expected an earlier version")


def _check_settings(file: TopologyFile) -> Iterator[Problem]:
    levels = {("settings", "node"): file.settings.node}
    levels |= {("nodes", group, "settings"): spec.settings for group, spec in file.nodes.items()}  # type: ignore[misc]
    for loc, settings in levels.items():
        for key in settings:
            if key in LAB_OWNED:
                yield Problem((*loc, key), f"{key} is set by the lab: expected it in no definition", at_key=True)
    for key in file.settings.cluster:
        if key in STATIC:
            yield Problem(
                ("settings", "cluster", key),
                f"{key} is a static setting, which OpenSearch takes from opensearch.yml only: "
                "expected it under settings.node",
                at_key=True,
            )
    yield from check_index(file.settings.index, ("settings", "index"))


def check_index(settings: Mapping[str, Any], loc: Loc) -> Iterator[Problem]:
    """What OpenSearch refuses of an index with these settings. ``loc``: where they stand."""
    yield from named_twice(settings, loc)
    for key, value in settings.items():
        least = {"number_of_shards": 1, "number_of_replicas": 0}.get(key.removeprefix("index."))
        if least is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            yield Problem((*loc, key), f"{key}: expected a whole number from {least}, got {value!r}")


def short_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of an index by their names without ``index.``, which mean the same."""
    return {name.removeprefix("index."): value for name, value in settings.items()}


def named_twice(settings: Mapping[str, Any], loc: Loc) -> Iterator[Problem]:
    """Settings of an index under both of their names, of which one would be ignored."""
    for key in settings:
        if key != (short := key.removeprefix("index.")) and short in settings:
            yield Problem((*loc, key), f"{short} and {key} are one setting: expected it once", at_key=True)


def check_copies(topology: Topology) -> Iterator[Problem]:
    """Copies that can never all be placed: the cluster would never be green.

    With forced awareness a zone takes at most ceil(copies / values) copies of a shard, the values
    being those forced and those alive (``AwarenessAllocationDecider`` of 3.8.0).
    """
    replicas = topology.settings.index.get("number_of_replicas", 1)
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        return
    loc = ("settings", "index", "number_of_replicas")
    if "number_of_replicas" not in topology.settings.index:
        loc = ("settings", "index", "index.number_of_replicas")
    copies, data = replicas + 1, topology.data_nodes
    if not data:
        return
    if copies > len(data):
        yield Problem(
            loc,
            f"number_of_replicas {replicas} makes {copies} copies of a shard, and there "
            f"{'is 1 data node' if len(data) == 1 else f'are {len(data)} data nodes'}: "
            f"expected at most {len(data) - 1}",
        )
        return
    if forced := topology.awareness():
        per_zone = -(-copies // len(forced | {node.zone for node in data}))
        room = sum(min(per_zone, sum(node.zone == zone for node in data)) for zone in {node.zone for node in data})
        if room < copies:
            yield Problem(
                loc,
                f"number_of_replicas {replicas} makes {copies} copies of a shard, of which forced awareness "
                f"allows {per_zone} per zone, so only {room} find a place: expected at most {room - 1}",
            )


def check_weights(weights: Mapping[str, int], topology: Topology, loc: tuple[str | int, ...]) -> Iterator[Problem]:
    """What OpenSearch's weighted routing refuses (``WeightedRoutingService`` of 3.8.0)."""
    for zone, weight in weights.items():
        if zone not in topology.zones:
            yield Problem((*loc, zone), unknown_zone(zone, topology), at_key=True)
        elif weight < 0:
            yield Problem((*loc, zone), f"weight {weight} of zone {zone}: expected 0 or more")
    needed = [zone for zone in topology.zones if any(node.zone == zone for node in topology.data_nodes)]
    missing = [zone for zone in [*needed, *sorted(topology.awareness() - set(needed))] if zone not in weights]
    if missing:
        yield Problem(
            loc,
            f"no weight for zone {', '.join(missing)}: expected one for every zone that has data nodes or is "
            "a value of forced awareness, as OpenSearch wants it",
        )
    zeros = [zone for zone, weight in weights.items() if weight == 0]
    allowed = len(weights) // 2
    if len(zeros) > allowed:
        yield Problem(
            loc,
            f"{len(zeros)} of {len(weights)} zones have weight 0 ({', '.join(zeros)}): "
            f"OpenSearch allows at most {allowed}",
        )
    if not topology.zone_aware:
        yield Problem(
            loc,
            f"weights need allocation awareness of the zone: expected {AWARENESS}: {ZONE_ATTRIBUTE} "
            f"in the settings of topology {topology.name}",
        )
