"""The wiring of a local lab as plain data: hosts, addresses, proxies and directed links. No side effects.

Each node, and each zone's clients, live in a network namespace of their own ("host"). Inside a namespace all of
127.0.0.0/8 is local, so one address means different things in different hosts: in its own host, node number *r*
is 127.0.*r*.2; in every other host the same address is that host's Toxiproxy, which forwards to *r*'s host. Nodes
publish their loopback address (so OpenSearch's bootstrap checks stay off) and every *directed pair* of hosts has
a proxy of its own.

``egress`` of host h towards node r:  127.0.r.2:9300 → <bridge address of r>:19300
``ingress`` of node r's host:         <bridge address of r>:19300 → 127.0.r.2:9300   (9200/19200 for HTTP)

Where requests to a host pass a layer for HTTP (``layered``), it takes the place of that host's ingress:
``layer`` of r's host: <bridge address of r>:20000 + h → 127.0.r.2:9200, a port for each host h that opens connections,
by which the layer knows whose a request is. What Toxiproxies do to a link they do before it.

A service of the lab that is reached over the network, such as an object store, has a host like a node's and is in no
zone: 127.0.s.2:9000 in each node's host leads to it. Nodes speak to services; clients do not, and no service opens
connections.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chaos.base.netsock import Namespace
from chaos.base.paths import PREFIX
from chaos.definitions import NodeSpec, Topology

HTTP, TRANSPORT, SERVICE = 9200, 9300, 9000
OFFSET = 10_000
"""A host listens for another host's bytes on port + OFFSET of its bridge address."""
LAYER = 20_000
"""A layer for HTTP listens for host number *n*'s requests on LAYER + n of its own host's bridge address."""
NETNS_FOLDER = Path("/run/netns")
TOXIPROXY = ("127.0.0.1", 8474)
"""The same in every host: only processes of that host reach it."""
BLACK_HOLE = "02:de:ad:00:00:00"
"""A hardware address that nobody has: packets for a neighbour with it vanish at once."""

Stream = Literal["upstream", "downstream"]


@dataclass(frozen=True)
class Proxy:
    """One Toxiproxy proxy. ``listen`` and ``upstream`` are ``address:port``."""

    name: str
    listen: str
    upstream: str


@dataclass(frozen=True)
class Host:
    """A network namespace with its Toxiproxy: one node's, the clients' of one zone, or a service's."""

    name: str
    zone: str
    """Empty of a service, which is in none."""
    index: int
    kind: Literal["node", "client", "service"]
    lab: str
    network: str = "198.18.0"
    """The first three numbers of the addresses between hosts, in what is set aside for testing between devices
    (198.18.0.0/15, RFC 2544): nobody routes it."""

    @property
    def ports(self) -> dict[str, int]:
        """Where the process of this host listens, by protocol."""
        if self.kind == "service":
            return {"service": SERVICE}
        return {"transport": TRANSPORT, "http": HTTP} if self.kind == "node" else {}

    @property
    def namespace_name(self) -> str:
        return f"{PREFIX}{self.lab}-{self.name}"

    @property
    def namespace(self) -> Namespace:
        return Namespace(NETNS_FOLDER / self.namespace_name)

    @property
    def loopback(self) -> str:
        """The address that the node binds and publishes."""
        return f"127.0.{self.index}.2"

    @property
    def bridge_address(self) -> str:
        return f"{self.network}.{self.index}"

    @property
    def mac(self) -> str:
        return f"02:6f:73:63:00:{self.index:02x}"


@dataclass(frozen=True)
class Toxified:
    """Where the bytes of one directed link flow through Toxiproxy."""

    host: str
    proxy: str
    stream: Stream


@dataclass(frozen=True)
class Wiring:
    """Every host of a lab, in order; node hosts first, services last."""

    lab: str
    hosts: tuple[Host, ...]
    layered: frozenset[str] = frozenset()
    """The hosts whose HTTP requests pass a layer that can do something to each."""

    @classmethod
    def of(
        cls,
        lab: str,
        nodes: tuple[NodeSpec, ...],
        zones: tuple[str, ...],
        services: Sequence[str] = (),
        *,
        network: str = Host.network,
        layered: Iterable[str] = (),
    ) -> Wiring:
        hosts = [Host(node.name, node.zone, i, "node", lab, network) for i, node in enumerate(nodes, 1)]
        first = len(hosts) + 1
        hosts += [Host(f"client-{zone}", zone, i, "client", lab, network) for i, zone in enumerate(zones, first)]
        first = len(hosts) + 1
        hosts += [Host(name, "", i, "service", lab, network) for i, name in enumerate(services, first)]
        return cls(lab, tuple(hosts), frozenset(layered))

    @classmethod
    def of_topology(cls, lab: str, topology: Topology) -> Wiring:
        """The hosts that a lab of this topology has."""
        return cls.of(lab, topology.nodes, topology.zones, topology.service_hosts, layered=topology.http_hosts)

    def __getitem__(self, name: str) -> Host:
        for host in self.hosts:
            if host.name == name:
                return host
        raise KeyError(name)

    @property
    def nodes(self) -> tuple[Host, ...]:
        return tuple(host for host in self.hosts if host.kind == "node")

    @property
    def clients(self) -> tuple[Host, ...]:
        return tuple(host for host in self.hosts if host.kind == "client")

    @property
    def services(self) -> tuple[Host, ...]:
        return tuple(host for host in self.hosts if host.kind == "service")

    @property
    def bridge_namespace(self) -> str:
        return f"{PREFIX}{self.lab}-net"

    def opens(self, source: str, target: str) -> str | None:
        """The protocol of the connections that ``source`` opens to ``target``; None where it opens none."""
        a, b = self[source], self[target]
        if a == b or a.kind == "service" or b.kind == "client":
            return None
        if b.kind == "service":
            return "service" if a.kind == "node" else None
        return "transport" if a.kind == "node" else "http"

    def proxies(self, host: Host) -> list[Proxy]:
        """Every proxy of one host. Nodes speak transport to each other; clients speak HTTP to nodes."""
        made = [
            Proxy(f"in-{protocol}", f"{host.bridge_address}:{port + OFFSET}", f"{host.loopback}:{port}")
            for protocol, port in host.ports.items()
        ]
        for peer in self.hosts:
            if (protocol := self.opens(host.name, peer.name)) is not None:
                port = peer.ports[protocol]
                entrance = LAYER + host.index if self.asks_http(host.name, peer.name) else port + OFFSET
                listen, upstream = f"{peer.loopback}:{port}", f"{peer.bridge_address}:{entrance}"
                made.append(Proxy(f"to-{peer.name}-{protocol}", listen, upstream))
        return made

    def asks_http(self, source: str, target: str) -> bool:
        """Whether ``source`` sends HTTP requests to ``target``, and they pass a layer there."""
        return target in self.layered and self.opens(source, target) in ("http", "service")

    def entrances(self, host: str) -> dict[int, str]:
        """Where the layer of a host listens: port → host whose requests come there."""
        return {LAYER + each.index: each.name for each in self.hosts if self.asks_http(each.name, host)}

    def toxified(self, source: str, target: str) -> list[Toxified]:
        """Where the bytes source → target pass a Toxiproxy: upstream on connections that the source opened,
        downstream on those that the target opened. Empty between hosts that do not speak: clients, and services."""
        places = []
        if (protocol := self.opens(source, target)) is not None:
            places.append(Toxified(source, f"to-{target}-{protocol}", "upstream"))
        if (protocol := self.opens(target, source)) is not None:
            places.append(Toxified(target, f"to-{source}-{protocol}", "downstream"))
        return places

    @property
    def toxiproxies(self) -> tuple[str, ...]:
        """The names of all Toxiproxies: here each host has one."""
        return tuple(host.name for host in self.hosts)

    def carried(self, toxiproxy: str, proxy: str) -> list[tuple[str, str]]:
        """The connections that pass a proxy: (host that opens it, node or service)."""
        peer = proxy.removeprefix("to-").rpartition("-")[0]
        if proxy.startswith("to-") and peer in {host.name for host in self.hosts if host.kind != "client"}:
            return [(toxiproxy, peer)]
        protocol = proxy.removeprefix("in-") if proxy.startswith("in-") else "transport"  # what comes in from all
        openers = (other.name for other in self.hosts if self.opens(other.name, toxiproxy) == protocol)
        return [(opener, toxiproxy) for opener in openers]

    def refuse_others(self, links: Collection[tuple[str, str]], places: Iterable[Toxified]) -> None:
        """Raises Lacking where one of these places carries more than these links. Here each carries one alone."""

    def answers(self, source: str, node: str) -> bool:
        """Whether what ``source`` gets from a node can be seen."""
        return True

    def reached(self, source: str, node: str) -> bool:
        """Whether a process of ours can open the connection that ``source`` opens to a node."""
        return True

    def address(self, host: str) -> tuple[str, ...]:
        """The addresses that the packets of a host have, on the wire."""
        return (self[host].bridge_address,)

    def machine(self, node: str) -> str:
        """What a node runs on."""
        return node

    def beside(self, node: str) -> tuple[str, ...]:
        """The other nodes on the same machine."""
        return ()

    def port(self, source: str, target: str) -> int:
        """The port on which ``source`` reaches a node or a service; within a node's own host that of transport."""
        return self[target].ports[self.opens(source, target) or next(iter(self[target].ports))]
