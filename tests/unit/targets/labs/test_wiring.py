"""Wiring: every host has addresses of its own, and every pair that speaks has its places in Toxiproxy."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.definitions import NodeSpec, Size
from chaos.targets.wiring import HTTP, OFFSET, TRANSPORT, Wiring


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
    return Wiring.of("lab", nodes, zones)


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
def test_every_directed_pair_that_speaks_has_its_places_and_clients_never_speak_to_each_other(wiring: Wiring) -> None:
    known = {(host.name, proxy.name) for host in wiring.hosts for proxy in wiring.proxies(host)}
    for a in wiring.hosts:
        for b in wiring.hosts:
            if a == b:
                continue
            places = wiring.toxified(a.name, b.name)
            assert {(place.host, place.proxy) for place in places} <= known
            streams = [place.stream for place in places]
            match (a.kind, b.kind):
                case ("client", "client"):
                    assert streams == []
                case ("client", "node"):
                    assert streams == ["upstream"]
                case ("node", "client"):
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
        assert len(egress) == len(wiring.nodes) - (host.kind == "node")
        for proxy in egress:
            (node,) = [n for n in wiring.nodes if proxy.listen == f"{n.loopback}:{wiring.port(host.name)}"]
            (ingress,) = [p for p in wiring.proxies(node) if p.listen == proxy.upstream]
            assert ingress.upstream == proxy.listen  # the node's own address, in its own host


def test_ports_of_the_two_protocols_do_not_meet() -> None:
    assert len({HTTP, TRANSPORT, HTTP + OFFSET, TRANSPORT + OFFSET}) == 4
