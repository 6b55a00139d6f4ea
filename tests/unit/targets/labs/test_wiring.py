"""Wiring: every host has addresses of its own, and every pair that speaks has its places in Toxiproxy."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.definitions import NodeSpec, Size
from chaos.targets.wiring import HTTP, OFFSET, SERVICE, TRANSPORT, Wiring


@st.composite
def wirings(draw: st.DrawFn) -> Wiring:
    zones = tuple("abcd"[: draw(st.integers(1, 4))])
    groups = {"cm": ("cluster_manager",), "data": ("data",), "x": ("cluster_manager", "data")}
    chosen = draw(st.lists(st.sampled_from(sorted(groups)), min_size=1, max_size=3, unique=True))
    nodes = tuple(
        NodeSpec(name=f"{zone}-{group}", zone=zone, group=group, roles=groups[group], heap=Size(2**28))
        for group in chosen
        for zone in zones
    )
    return Wiring.of("lab", nodes, zones, draw(st.sampled_from([(), ("store",), ("store", "queue")])))


@given(wirings())
@settings(max_examples=40, deadline=None)
def test_addresses_and_names_are_unique(wiring: Wiring) -> None:
    for of in ("name", "loopback", "bridge_address", "mac", "namespace_name"):
        values = [getattr(host, of) for host in wiring.hosts]
        assert len(set(values)) == len(values), of
    assert wiring.bridge_namespace not in {host.namespace_name for host in wiring.hosts}
    for host in wiring.hosts:
        proxies = wiring.proxies(host)
        assert max(Counter(p.name for p in proxies).values(), default=1) == 1
        assert max(Counter(p.listen for p in proxies).values(), default=1) == 1


@given(wirings())
@settings(max_examples=40, deadline=None)
def test_every_directed_pair_that_speaks_has_its_places_and_only_nodes_speak_to_services(wiring: Wiring) -> None:
    known = {(host.name, proxy.name) for host in wiring.hosts for proxy in wiring.proxies(host)}
    for a in wiring.hosts:
        for b in wiring.hosts:
            if a == b:
                continue
            places = wiring.toxified(a.name, b.name)
            assert {(place.host, place.proxy) for place in places} <= known
            streams = [place.stream for place in places]
            match (a.kind, b.kind):
                case ("client" | "service", "client" | "service"):
                    assert streams == []
                case ("client", "node") | ("node", "service"):
                    assert streams == ["upstream"]
                case ("node", "client") | ("service", "node"):
                    assert streams == ["downstream"]
                case _:
                    assert streams == ["upstream", "downstream"]


@given(wirings())
@settings(max_examples=40, deadline=None)
def test_what_goes_up_one_way_comes_down_the_other_on_the_same_proxy(wiring: Wiring) -> None:
    """The two directions of a connection are the two streams of one proxy, the one of the host that opened it."""
    for a in wiring.hosts:
        for b in wiring.hosts:
            if a == b:
                continue
            there, back = wiring.toxified(a.name, b.name), wiring.toxified(b.name, a.name)
            up = {(p.host, p.proxy) for p in there if p.stream == "upstream"}
            down = {(p.host, p.proxy) for p in back if p.stream == "downstream"}
            assert up == down
            assert all(host == a.name for host, _ in up)


@given(wirings())
@settings(max_examples=40, deadline=None)
def test_bytes_sent_to_a_nodes_address_arrive_at_that_node(wiring: Wiring) -> None:
    """Follow each egress proxy to the ingress proxy that listens where it leads, and on to the node itself."""
    for host in wiring.hosts:
        egress = [proxy for proxy in wiring.proxies(host) if proxy.name.startswith("to-")]
        reached = {"node": len(wiring.nodes) - 1 + len(wiring.services), "client": len(wiring.nodes), "service": 0}
        assert len(egress) == reached[host.kind]
        for proxy in egress:
            peers = [peer for peer in wiring.hosts if wiring.opens(host.name, peer.name)]
            (peer,) = [n for n in peers if proxy.listen == f"{n.loopback}:{wiring.port(host.name, n.name)}"]
            (ingress,) = [p for p in wiring.proxies(peer) if p.listen == proxy.upstream]
            assert ingress.upstream == proxy.listen  # the node's own address, in its own host


def test_ports_of_the_protocols_do_not_meet() -> None:
    ports = {HTTP, TRANSPORT, SERVICE}
    assert len(ports | {port + OFFSET for port in ports}) == 6
