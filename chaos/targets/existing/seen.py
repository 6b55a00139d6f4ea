"""What a cluster says of itself: who it is, its nodes and zones, and what is going on. GETs alone.

What it does not answer, or refuses, is missing with the reason (:attr:`Seen.unread`); nothing is guessed. Only where
nobody answers, or something that is no OpenSearch, there is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import urllib3

from chaos.base.access import Access, distrust, mend
from chaos.base.addresses import Address
from chaos.base.errors import FaultError, InvalidInput, said_by_opensearch
from chaos.base.netsock import Endpoint
from chaos.base.sigv4 import refusal
from chaos.base.text import printable
from chaos.definitions import existing as definitions
from chaos.definitions.existing import Existing, TheirToxiproxy
from chaos.definitions.topology import AWARENESS, FORCED
from chaos.kubernetes import seen as kubernetes
from chaos.opensearch.requests import (
    EXCLUDED,
    decommission_status_path,
    decommissions_of,
    weights_of,
    weights_path,
    without_vote,
)
from chaos.opensearch.rest import UNREADABLE, NodeClient, short
from chaos.opensearch.views import ShardCopy, parse
from chaos.targets.existing import pods
from chaos.targets.labs.toxiproxy import ToxiproxyServer

CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
NODES = (
    "/_nodes?filter_path=_nodes,nodes.*.name,nodes.*.roles,nodes.*.attributes,nodes.*.version,nodes.*.host,nodes.*.ip,"
    "nodes.*.jvm.mem.heap_max_in_bytes"
)
LED = "/_cluster/health?local=true&filter_path=discovered_cluster_manager"
UNREACHED, ANOTHER = "cannot be reached", "is another cluster"
LOCAL = "/_nodes/_local?filter_path=nodes.*.name"
SHARDS = (
    "/_cluster/state/cluster_manager_node,nodes,routing_table,metadata,version?filter_path=version,cluster_manager_node,"
    "nodes.*.name,routing_table.indices.*.shards,metadata.cluster_coordination.last_committed_config"
)
HEALTH = "/_cluster/health?filter_path=status,number_of_nodes,relocating_shards,initializing_shards,unassigned_shards"
SETTINGS = "/_cluster/settings?include_defaults=true&flat_settings=true"
Get = Callable[[str], tuple[int, Any]]
"""Path → status and decoded body. Raises ``urllib3.exceptions.HTTPError``."""


@dataclass(frozen=True)
class Identity:
    """What an endpoint says at ``GET /``."""

    cluster_uuid: str
    cluster_name: str
    version: str

    @property
    def who(self) -> tuple[str, str]:
        """What tells it from other clusters: a copied machine keeps its UUID, and names are chosen twice."""
        return self.cluster_uuid, self.cluster_name


@dataclass(frozen=True)
class SeenNode:
    """One node as the cluster lists it. ``zone``: the value of the zone attribute, None without it; ``heap``: bytes."""

    name: str
    roles: tuple[str, ...]
    zone: str | None
    version: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    heap: int | None = None
    ip: str | None = None
    """As other nodes reach it."""


@dataclass(frozen=True)
class SeenProxy:
    """A proxy as its Toxiproxy tells it. ``toxics``: their names."""

    enabled: bool
    toxics: tuple[str, ...]


@dataclass(frozen=True)
class Seen:
    """A cluster at one moment. None is a fact that is missing; ``unread`` says why, by the fact's name.

    ``weights`` by zone, empty where there are none; ``decommissioned`` zone → its state; ``excluded``: nodes without a
    vote; ``settings``: those of the cluster that hold, defaults too. Only where shards were asked for (:func:`look`):
    ``copies`` of every shard of every index, hidden ones too, and ``voting``, the nodes of the voting configuration.
    """

    identities: Mapping[str, Identity]
    """By endpoint; only those that answered."""
    silent: Mapping[str, str]
    """Endpoint → why it did not answer."""
    attribute: str
    nodes: tuple[SeenNode, ...] | None = None
    awareness: tuple[str, ...] | None = None
    forced: tuple[str, ...] | None = None
    status: str | None = None
    relocating: int | None = None
    unassigned: int | None = None
    weights: Mapping[str, int] | None = None
    decommissioned: Mapping[str, str] | None = None
    excluded: tuple[str, ...] | None = None
    settings: Mapping[str, str] | None = None
    astray: Mapping[str, str] = field(default_factory=dict)
    """Node → why its own address does not lead to it."""
    copies: tuple[ShardCopy, ...] | None = None
    voting: tuple[str, ...] | None = None
    proxies: Mapping[str, Mapping[str, SeenProxy] | str] = field(default_factory=dict)
    """Toxiproxy of the file's, by its label → its proxies that the file names; or why it does not say."""
    pods: kubernetes.Seen | str | None = None
    """What Kubernetes says of them, or why it says nothing; None: the file names no pods."""
    unread: Mapping[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> Identity:
        """Of the first endpoint that answered."""
        return next(iter(self.identities.values()))


def identity_of(get: Get, where: str) -> Identity:
    """Who answers. Raises InvalidInput where nobody does, or something that is no OpenSearch."""
    try:
        status, answer = get("/")
    except urllib3.exceptions.HTTPError as error:
        if why := distrust(error):
            raise InvalidInput(f"{where}: its certificate is not trusted: {why}", remedy=mend(why)) from None
        raise InvalidInput(f"{where} cannot be reached: {short(error)}", remedy="check address and network") from None
    if aws := refusal(answer) if status in (401, 403) else None:
        raise InvalidInput(f"{where}: {aws[0]} ({status})", remedy=aws[1])
    if status in (401, 403):
        raise InvalidInput(
            f"{where} refuses this user ({status})", remedy="check user and password, and what they may do"
        )
    with suppress(*UNREADABLE):
        version = answer["version"]
        if status == 200 and (version.get("distribution") == "opensearch" or "OpenSearch" in str(answer["tagline"])):
            return Identity(printable(answer["cluster_uuid"]), printable(answer["cluster_name"]), version["number"])
    raise InvalidInput(f"{where} is no OpenSearch ({status})", remedy="give the address of a cluster's REST API")


def first_true(target: Existing) -> Address:
    """The first address behind which the target's own cluster answers. Raises InvalidInput when there is none."""
    pods.open_ways(target)
    wrong = []
    for address in target.written.addresses:
        client = _client(address, target.access)
        try:
            found = identity_of(only_get(client), str(address))
        except InvalidInput as error:
            wrong.append(str(error))
            continue
        finally:
            client.close()
        wanted = target.written.identity
        if found.who == (wanted.cluster_uuid, wanted.cluster_name):
            return address
        wrong.append(f"{address} is cluster {found.cluster_name}, {found.cluster_uuid}")
    raise InvalidInput(
        f"{target.file} is not true: {'; '.join(wrong)}", remedy=f"see: opensearch-chaos target check {target.file}"
    )


def look(
    addresses: tuple[Address, ...],
    access: Access,
    attribute: str | None = None,
    *,
    shards: bool = False,
    nodes: Mapping[str, Address] = MappingProxyType({}),
    wanted: definitions.Identity | None = None,
) -> Seen:
    """What can be seen of the cluster behind these addresses. ``attribute`` None: the one of its awareness.

    ``shards``: where they are and who votes too, for which the cluster manager gives its routing table. ``nodes``: who
    is to answer at which address. ``wanted``: the cluster that is meant; None: the first that answers.
    Where it answers somewhere, it is looked at there, whoever else answers at other addresses.
    Raises InvalidInput when none of them answers as an OpenSearch.
    """
    identities: dict[str, Identity] = {}
    silent: dict[str, str] = {}
    ways = dict.fromkeys((*addresses, *nodes.values()))
    clients = {each: _client(each, access) for each in ways}
    answering = []
    try:
        for address in addresses:
            try:
                identities[str(address)] = identity_of(only_get(clients[address]), str(address))
            except InvalidInput as error:
                silent[str(address)] = str(error)
            else:
                answering.append(address)
        if not answering:
            raise InvalidInput("; ".join(silent.values()))
        first = next(iter(identities.values()))
        who = (first.cluster_uuid, first.cluster_name)
        who = who if wanted is None else (wanted.cluster_uuid, wanted.cluster_name)
        astray = _astray(nodes, access, who)
        answering = [each for each in answering if identities[str(each)].who == who] or answering
        answering += [address for name, address in nodes.items() if name not in astray and address not in answering]
        led = next((each for each in answering if _is_led(only_get(clients[each]))), answering[0])
        seen = read(only_get(clients[led]), identities, silent, attribute, shards=shards)
        return replace(seen, astray=astray)
    finally:
        for client in clients.values():
            client.close()


def _is_led(get: Get) -> bool:
    """Whether who answers is in the cluster: a node whose zone is decommissioned still says who it was."""
    try:
        status, answer = get(LED)
        return status == 200 and answer["discovered_cluster_manager"] is True
    except (urllib3.exceptions.HTTPError, *UNREADABLE):
        return False


def seen_of(target: Existing, *, shards: bool = False) -> Seen:
    """:func:`look` at the cluster of a file, each of its addresses asked, its Toxiproxies and its Kubernetes. Raises
    InvalidInput, and LabError where the ways into pods cannot be opened."""
    file = target.written
    pods.open_ways(target)
    addresses = (*file.addresses, *file.of_balancers.values())
    who = file.identity
    seen = look(addresses, target.access, file.zones.attribute, shards=shards, nodes=file.of_nodes, wanted=who)
    on_kubernetes = None if file.kubernetes is None else pods.look(target)
    return replace(seen, proxies={each.label: _proxies(each) for each in file.toxiproxies}, pods=on_kubernetes)


def _proxies(server: TheirToxiproxy) -> dict[str, SeenProxy] | str:
    at = server.address
    try:
        said = ToxiproxyServer(server.label, Endpoint(at.host, at.port)).proxies()
        return {
            name: SeenProxy(proxy["enabled"] is True, tuple(printable(toxic["name"]) for toxic in proxy["toxics"]))
            for name, proxy in said.items()
            if name in server.proxies
        }
    except FaultError as error:
        return str(error)
    except UNREADABLE:
        return f"what answers at {server.api} is no Toxiproxy"


def elsewhere(why: str) -> bool:
    """Whether a node is astray (:attr:`Seen.astray`) because somebody else answers, and not because nobody does."""
    return UNREACHED not in why


def refuse_another(target: Existing) -> None:
    """Raises InvalidInput where another cluster than the file's answers at any address of it, or another Kubernetes.
    Silence is no reason: who cannot be reached cannot be harmed."""
    pods.refuse_another(target)
    pods.open_ways(target)
    wanted = target.written.identity
    file = target.written
    for address in (*file.addresses, *file.of_balancers.values(), *file.of_nodes.values()):
        client = _client(address, target.access)
        try:
            status, _ = client.request("GET", "/")
            found = identity_of(only_get(client), str(address)) if status == 200 else None
        except urllib3.exceptions.HTTPError:
            continue
        finally:
            client.close()
        if found is not None and found.who != (wanted.cluster_uuid, wanted.cluster_name):
            raise InvalidInput(
                f"at {address} is another cluster: {found.cluster_name}, {found.cluster_uuid}",
                remedy=f"nothing is done to it; see: opensearch-chaos target check {target.file}",
            )


def _astray(nodes: Mapping[str, Address], access: Access, wanted: tuple[str, str]) -> dict[str, str]:
    """Of nodes those that do not answer at their own addresses, with the reason."""

    def wrong(item: tuple[str, Address]) -> str | None:
        name, address = item
        client = _client(address, access)
        try:
            status, said = client.request("GET", LOCAL)
            if status != 200:
                return f"{address} {UNREACHED}: it answered {status}"
            there = identity_of(only_get(client), str(address))
            if there.who != wanted:
                return f"at {address} {ANOTHER}: {there.cluster_name}, {there.cluster_uuid}"
            found = [printable(node["name"]) for node in said["nodes"].values()]
            return None if found == [name] else f"at {address} answers {', '.join(found)}"
        except urllib3.exceptions.HTTPError as error:
            return f"{address} {UNREACHED}: {short(error)}"
        except (InvalidInput, *UNREADABLE) as error:
            return f"{address}: {error}"
        finally:
            client.close()

    if not nodes:
        return {}
    with ThreadPoolExecutor(min(len(nodes), 16)) as pool:
        said = dict(zip(nodes, pool.map(wrong, nodes.items()), strict=True))
    return {name: why for name, why in said.items() if why is not None}


def _client(address: Address, access: Access) -> NodeClient:
    where = Endpoint(address.host, address.port)
    return NodeClient(where, access=access, timeout=READ_SECONDS, connect=CONNECT_SECONDS)


def only_get(client: NodeClient) -> Get:
    """A reader is given GETs and nothing else."""
    return lambda path: client.request("GET", path)


def read(
    get: Get,
    identities: Mapping[str, Identity],
    silent: Mapping[str, str],
    attribute: str | None,
    *,
    shards: bool = False,
) -> Seen:
    """The facts, by one endpoint."""
    unread: dict[str, str] = {}

    def part(name: str, path: str, parse: Callable[[Any], Any]) -> Any:
        shown = path.partition("?")[0]
        try:
            status, answer = get(path)
            if status == 200:
                return parse(answer)
            unread[name] = f"GET {shown} answered {status}: {said_by_opensearch(answer) or 'no reason'}"
        except urllib3.exceptions.HTTPError as error:
            unread[name] = f"GET {shown} was not answered: {short(error)}"
        except UNREADABLE:
            unread[name] = f"GET {shown} answered something that cannot be read"
        return None

    said: dict[str, Any] | None = part("awareness", SETTINGS, _settings)
    awareness, forced = (None, None) if said is None else _awareness(said)
    copies, voting = (part("shards", SHARDS, _shards) if shards else None) or (None, None)
    attribute = attribute or (awareness[0] if awareness else "zone")
    health = part("health", HEALTH, lambda answer: {**answer, "status": str(answer["status"])}) or {}
    aware = awareness is not None and attribute in awareness  # else OpenSearch answers 400 to both of these
    return Seen(
        identities=identities,
        silent=silent,
        attribute=attribute,
        nodes=part("nodes", NODES, lambda answer: _nodes(answer, attribute)),
        awareness=awareness,
        forced=(forced or {}).get(attribute, ()) if forced is not None else None,
        status=health.get("status"),
        relocating=health.get("relocating_shards", 0) if health else None,
        unassigned=health.get("unassigned_shards", 0) if health else None,
        weights=part("weights", weights_path(attribute), lambda answer: weights_of(answer)[0]) if aware else {},
        decommissioned=part("decommission", decommission_status_path(attribute), decommissions_of) if aware else {},
        excluded=part("votes", EXCLUDED, lambda answer: tuple(without_vote(answer))),
        settings=None if said is None else {key: _text(value) for key, value in said.items()},
        copies=copies,
        voting=voting,
        unread=unread,
    )


def _settings(answer: Any) -> dict[str, Any]:
    """Every setting of the cluster by its full name, as it holds: a transient one outweighs all others."""
    said: dict[str, Any] = {}
    for level in ("defaults", "persistent", "transient"):
        said.update((answer or {}).get(level) or {})
    return said


def _text(value: Any) -> str:
    return ",".join(map(printable, value)) if isinstance(value, list) else printable(value)


def _shards(answer: Any) -> tuple[tuple[ShardCopy, ...], tuple[str, ...]]:
    """Every copy of every shard, and the nodes that vote: by id those that are not there."""
    names = {id: printable(node["name"]) for id, node in answer["nodes"].items()}
    voting = answer["metadata"]["cluster_coordination"]["last_committed_config"]
    copies = parse("", answer).copies
    named = (replace(each, node=None if each.node is None else printable(each.node)) for each in copies)
    return tuple(named), tuple(names.get(id, printable(id)) for id in voting)


def _awareness(said: Mapping[str, Any]) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """The attributes of awareness, and attribute → its forced values."""
    begin, end = FORCED.split("zone")
    forced = {
        key[len(begin) : -len(end)]: _words(value)
        for key, value in said.items()
        if key.startswith(begin) and key.endswith(end)
    }
    return _words(said.get(AWARENESS, "")), forced


def _words(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list) else str(value).split(",")
    return tuple(printable(item).strip() for item in items if str(item).strip())


def _nodes(answer: Any, attribute: str) -> tuple[SeenNode, ...]:
    if silent := answer.get("_nodes", {}).get("failed"):
        raise ValueError(f"{silent} nodes did not answer")
    found = []
    for node in answer["nodes"].values():
        attributes = {printable(key): printable(value) for key, value in node.get("attributes", {}).items()}
        roles = tuple(sorted(map(printable, node.get("roles", ()))))
        heap = (node.get("jvm") or {}).get("mem", {}).get("heap_max_in_bytes")
        zone, version = attributes.get(attribute), str(node["version"])
        found.append(SeenNode(printable(node["name"]), roles, zone, version, attributes, heap, node.get("ip")))
    if not found:
        raise ValueError("it names no node")
    return tuple(sorted(found, key=lambda node: node.name))
