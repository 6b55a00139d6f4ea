"""The links of a cluster that exists: which of its owners' proxies the bytes of each pass.

A file names proxies of Toxiproxies, and who opens connections through each (``toxiproxies``). A fault on links takes
exactly the proxies that its links pass. Where one is not in the file, or carries more than was asked for, the fault
cannot be had.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from chaos.base.addresses import Address
from chaos.base.errors import Lacking
from chaos.definitions import NodeSpec
from chaos.definitions.existing import ClientHost, ExistingFile
from chaos.targets.wiring import Host, Toxified, Wiring

Pair = tuple[str, str]
"""(host that opens the connection, node that it speaks to), as in :mod:`chaos.faults.probes`."""
Place = tuple[str, str]
"""(label of a Toxiproxy, name of one of its proxies)."""


BESIDE = "pod/"
"""Before the name of a pod, beside which a helper pod does what is done on a host elsewhere."""


def client_host(zone: str) -> str:
    """How wiring names the clients of a zone."""
    return f"client-{zone}"


def places(file: ExistingFile) -> dict[Pair, Place]:
    """Each connection that passes a proxy of the file's, with the proxy."""
    return {
        (opener, passage.to): (server.label, name)
        for server in file.toxiproxies
        for name, passage in server.proxies.items()
        for opener in (*passage.nodes, *map(client_host, passage.clients))
    }


def openings(file: ExistingFile) -> dict[Pair, Address]:
    """The connections whose proxy is reached from here, and where."""
    return {
        (opener, passage.to): Address.parse(passage.url)
        for server in file.toxiproxies
        for passage in server.proxies.values()
        if passage.url is not None
        for opener in (*passage.nodes, *map(client_host, passage.clients))
    }


def beside_pods(file: ExistingFile) -> dict[str, str]:
    """Node → its pod behind :data:`BESIDE`, where a file has an image for helper pods."""
    if file.kubernetes is None or file.kubernetes.helper is None:
        return {}
    return {name: f"{BESIDE}{node.pod}" for name, node in file.nodes.items()}


def clients_of(file: ExistingFile) -> Mapping[str, ClientHost]:
    """Zone → where its clients are, of those of which the file says it."""
    return {} if file.hosts is None else file.hosts.clients


@dataclass(frozen=True)
class TheirWiring(Wiring):
    """``through``: the proxy of each connection. ``open``: the connections whose proxy is reached from here.

    Of nodes' connections all can be looked at: nodes are asked what they get from each other. ``machines``: node →
    its host, as ssh takes it, or its pod behind :data:`BESIDE`. ``seen_as``: node, or clients' host, → the addresses
    that its packets have; of a pod its name, because its address is another one after each restart.
    """

    through: Mapping[Pair, Place] = field(default_factory=dict)
    open: frozenset[Pair] = frozenset()
    machines: Mapping[str, str] = field(default_factory=dict)
    seen_as: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def there(cls, lab: str, nodes: tuple[NodeSpec, ...], zones: tuple[str, ...], file: ExistingFile) -> Self:
        """Of an experiment's nodes, which have the cluster's own names."""
        plain = Wiring.of(lab, nodes, zones)
        looked_from = {client_host(zone) for zone, each in clients_of(file).items() if each.ssh is not None}
        reached = {(client, node.name) for client in looked_from for node in nodes}
        addresses = {name: node.addresses for name, node in file.nodes.items() if node.addresses}
        addresses |= {client_host(zone): each.addresses for zone, each in clients_of(file).items()}
        machines = {name: node.ssh for name, node in file.nodes.items() if node.ssh is not None}
        beside = beside_pods(file)
        machines |= beside
        addresses = {name: (place,) for name, place in beside.items()} | addresses
        reachable = frozenset(openings(file)) | reached
        return cls(plain.lab, plain.hosts, frozenset(), places(file), reachable, machines, addresses)

    def toxified(self, source: str, target: str) -> list[Toxified]:
        """As of a lab. Raises Lacking where no proxy of the file's is on the way, or nothing could be seen of it."""
        a, b = self[source], self[target]
        found = []
        if b.kind == "node":
            found.append(Toxified(*self._place(a, b), "upstream"))
        if a.kind == "node":
            found.append(Toxified(*self._place(b, a), "downstream"))
        return found

    def address(self, host: str) -> tuple[str, ...]:
        """The addresses that the packets of a host have, on the wire. Raises Lacking where the file does not say, or
        where they are another's too."""
        found = self.seen_as.get(host, ())
        where = f"nodes, {host}" if self[host].kind == "node" else f"hosts, clients, {self[host].zone}"
        if not found:
            says = f"the file does not say which addresses {_who(self[host])} have as others see them"
            raise Lacking(says, remedy=f"write addresses under {where}")
        for other, addresses in self.seen_as.items():
            if other != host and set(addresses) & set(found):
                says = f"{_who(self[host])} and {_who(self[other])} have an address in common, so both would be hit"
                raise Lacking(says, remedy="choose a fault on what they have in common, or on their processes")
        return found

    def machine(self, node: str) -> str:
        """The host of a node, as ssh takes it. Raises Lacking where the file names none."""
        if node not in self.machines:
            raise Lacking(f"the file names no host of {node}", remedy=f"write ssh under nodes, {node}")
        return self.machines[node]

    def beside(self, node: str) -> tuple[str, ...]:
        its = self.machine(node)
        return tuple(other for other, machine in self.machines.items() if machine == its and other != node)

    def _place(self, opener: Host, node: Host) -> Place:
        place = self.through.get((opener.name, node.name))
        if place is None:
            raise Lacking(
                f"connections of {_who(opener)} to {node.name} pass no Toxiproxy that the file names",
                remedy="name it under toxiproxies, or choose links that pass one",
            )
        if not self.answers(opener.name, node.name):
            raise Lacking(
                f"nothing would show what {_who(opener)} get from {node.name}",
                remedy=f"say where the proxy {place[1]} of {place[0]} is reached: its url",
            )
        return place

    @property
    def toxiproxies(self) -> tuple[str, ...]:
        return tuple(sorted({label for label, _ in self.through.values()}))

    def carried(self, toxiproxy: str, proxy: str) -> list[Pair]:
        return [pair for pair, place in self.through.items() if place == (toxiproxy, proxy)]

    def refuse_others(self, links: Collection[tuple[str, str]], places: Iterable[Toxified]) -> None:
        for each in places:
            for opener, node in self.carried(each.host, each.proxy):
                link = (opener, node) if each.stream == "upstream" else (node, opener)
                if link not in links:
                    raise Lacking(
                        f"the proxy {each.proxy} of {each.host} carries {link[0]} → {link[1]} too, "
                        "which the fault does not name",
                        remedy="choose links by what passes one proxy, or have a proxy for each",
                    )

    def answers(self, source: str, node: str) -> bool:
        return self[source].kind == "node" or self.reached(source, node)

    def reached(self, source: str, node: str) -> bool:
        return (source, node) in self.open


def _who(host: Host) -> str:
    return host.name if host.kind == "node" else f"clients of zone {host.zone}"
