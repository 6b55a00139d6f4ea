"""Selectors: sentences, the mappings that mean the same, and what they resolve to, as sets."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.base.errors import FaultError, InvalidInput
from chaos.base.units import Malformed
from chaos.definitions import (
    HostSelector,
    LinkSelector,
    NodeSelector,
    NodeSpec,
    Size,
    client_host,
    resolve_links,
    resolve_nodes,
)
from chaos.definitions.selectors import candidates, fixed

ZONES = ("a", "b", "c")
ROLES = {"cm": ("cluster_manager",), "data": ("data", "ingest")}
NODES = tuple(
    NodeSpec(name=f"{zone}-{group}", zone=zone, group=group, roles=roles, heap=Size(2**28))
    for group, roles in ROLES.items()
    for zone in ZONES
)
NAMES = frozenset(node.name for node in NODES)
CLIENTS = frozenset(map(client_host, ZONES))


def links(text: Any, **more: Any) -> frozenset[tuple[str, str]]:
    return resolve_links(LinkSelector.model_validate(text), NODES, ZONES, **more)


def chosen(text: Any, **more: Any) -> tuple[str, ...]:
    return resolve_nodes(NodeSelector.model_validate(text), NODES, **more)


# ------------------------------------------------------------------------------------------- sentences

zone = st.sampled_from(ZONES)
terms = st.fixed_dictionaries(
    {},
    optional={
        "zone": zone,
        "role": st.sampled_from(["data", "ingest", "cluster_manager"]),
        "group": st.sampled_from(["cm", "data"]),
        "node": st.sampled_from(sorted(NAMES)),
        "elected": st.just(True),
        "pick": st.integers(1, 3),
    },
).filter(lambda given: set(given) - {"pick"})
node_selectors = st.builds(NodeSelector.model_validate, terms)
host_selectors = st.one_of(
    st.builds(lambda nodes: HostSelector(kind="nodes", nodes=nodes), node_selectors),
    st.builds(lambda z: HostSelector(kind="clients", zone=z), st.none() | zone),
    st.builds(lambda z: HostSelector(kind="everything", zone=z), zone),
)
link_selectors = st.one_of(
    st.builds(LinkSelector, kind=st.sampled_from(["to", "from", "around"]), a=host_selectors),
    st.builds(LinkSelector, kind=st.sampled_from(["between", "from_to"]), a=host_selectors, b=host_selectors),
)


@given(node_selectors)
def test_a_node_selector_survives_its_text(selector: NodeSelector) -> None:
    assert NodeSelector.parse(selector.text) == selector
    assert NodeSelector.model_validate(selector.model_dump()) == selector


@given(link_selectors)
def test_a_link_selector_survives_its_text(selector: LinkSelector) -> None:
    assert LinkSelector.parse(selector.text) == selector
    assert LinkSelector.model_validate(selector.model_dump()) == selector


@pytest.mark.parametrize(
    ("sentence", "mapping"),
    [
        ("zone c", {"zone": "c"}),
        ("role data and zone b", {"zone": "b", "role": "data"}),
        ("one of role data", {"role": "data", "pick": 1}),
        ("2 of group cm", {"group": "cm", "pick": 2}),
        ("elected cluster manager", {"elected": "cluster manager"}),
    ],
)
def test_a_mapping_of_nodes_means_its_sentence(sentence: str, mapping: dict[str, Any]) -> None:
    assert NodeSelector.model_validate(mapping) == NodeSelector.parse(sentence)


@pytest.mark.parametrize(
    ("sentence", "mapping"),
    [
        ("to zone c", {"to": {"zone": "c"}}),
        ("around everything in zone c", {"around": "everything in zone c"}),
        ("from clients of zone a to role data", {"from": "clients of zone a", "to": "role data"}),
        (
            "between (zone a and role data) and zone b",
            {"between": [{"zone": "a", "role": "data"}, "zone b"]},
        ),
        ("between zone a and zone b", {"between": ["zone a", "zone b"]}),
    ],
)
def test_a_mapping_of_links_means_its_sentence(sentence: str, mapping: dict[str, Any]) -> None:
    assert LinkSelector.model_validate(mapping) == LinkSelector.parse(sentence)


def test_sides_of_between_are_told_apart_where_only_one_reading_makes_sense() -> None:
    both = LinkSelector.parse("between zone a and role data and zone b and role data")
    assert [side.text for side in both.sides] == ["zone a and role data", "zone b and role data"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "the zone c",
            "cannot read 'the zone c' as a choice of nodes: expected for example 'zone c', 'node c-data', "
            "'role data and zone b', 'one of role data' or 'elected cluster manager'",
        ),
        (
            "zone a and zone b",
            "zone is named twice in 'zone a and zone b': terms joined by 'and' must all match",
        ),
        (
            {"pick": 1},
            "chooses no nodes: expected for example 'zone c', 'node c-data', "
            "'role data and zone b', 'one of role data' or 'elected cluster manager'",
        ),
        ({"elected": "data node"}, "elected: expected 'cluster manager', got 'data node'"),
    ],
)
def test_nodes_that_cannot_be_read(text: Any, says: str) -> None:
    with pytest.raises(ValueError) as caught:
        NodeSelector.model_validate(text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "zone c",
            "cannot read 'zone c' as links: expected 'to X', 'from X', 'around X', 'between X and Y' "
            "or 'from X to Y', for example 'to zone c' or 'around everything in zone c'",
        ),
        (
            "between zone a and role data and zone b",
            "'between zone a and role data and zone b' can be read in 2 ways: put each side in brackets, "
            "for example 'between (zone a and role data) and (zone b)'",
        ),
        (
            {"to": "zone a", "around": "zone b"},
            "cannot read a mapping of to, around as links: expected one of to, from, around, "
            "between: [X, Y], or from and to",
        ),
        ({"to": {"zoen": "c"}}, 'unknown key "zoen": did you mean "zone"?'),
    ],
)
def test_links_that_cannot_be_read(text: Any, says: str) -> None:
    with pytest.raises(ValueError) as caught:
        LinkSelector.model_validate(text)
    assert says in str(caught.value)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (NodeSelector.parse, LinkSelector.parse, HostSelector.parse):
        try:
            parse(text)
        except Malformed as error:
            assert "expected" in str(error) or "named twice" in str(error)


# -------------------------------------------------------------------------------------------- resolving


def test_nodes_are_those_that_match_every_term_in_the_topologys_order() -> None:
    assert chosen("zone c") == ("c-cm", "c-data")
    assert chosen("role ingest") == ("a-data", "b-data", "c-data")
    assert chosen("role data and zone b") == ("b-data",)
    assert chosen("group cm") == ("a-cm", "b-cm", "c-cm")
    assert chosen("elected cluster manager", elected="b-cm") == ("b-cm",)


def test_a_draw_is_decided_by_the_seed() -> None:
    draws = {chosen("one of role data", rng=random.Random(seed)) for seed in range(30)}
    assert draws == {("a-data",), ("b-data",), ("c-data",)}
    assert chosen("2 of role data", rng=random.Random(7)) == chosen("2 of role data", rng=random.Random(7))


def test_what_cannot_be_resolved_says_why() -> None:
    with pytest.raises(InvalidInput, match=r"^'zone a and node b-cm' matches no node$"):
        chosen("node b-cm and zone a")
    with pytest.raises(InvalidInput, match=r"^'4 of role data' matches only 3: a-data, b-data, c-data$"):
        chosen("4 of role data", rng=random.Random(0))
    with pytest.raises(FaultError, match="there is no elected cluster manager at this moment"):
        chosen("elected cluster manager")
    with pytest.raises(FaultError, match="the elected cluster manager is a-cm, which does not match"):
        chosen("zone b and elected cluster manager", elected="a-cm")
    with pytest.raises(ValueError, match="draws: rng is needed"):
        chosen("one of role data")
    with pytest.raises(InvalidInput, match="matches no link"):
        links("from node a-cm to node a-cm")


def test_links_to_a_zone_come_from_the_other_zones_nodes() -> None:
    outside = {"a-cm", "a-data", "b-cm", "b-data"}
    assert links("to zone c") == {(source, target) for source in outside for target in ("c-cm", "c-data")}


def test_isolating_everything_in_a_zone_cuts_clients_both_ways() -> None:
    cut = links("around everything in zone c")
    assert ("client-a", "c-data") in cut
    assert ("client-c", "a-data") in cut
    assert ("c-data", "client-a") in cut
    assert ("client-c", "c-data") not in cut  # both inside
    assert ("client-a", "a-data") not in cut  # both outside


def test_one_way_and_both_ways() -> None:
    assert links("from node a-data to node b-data") == {("a-data", "b-data")}
    assert links("between node a-data and node b-data") == {("a-data", "b-data"), ("b-data", "a-data")}
    assert links("from clients of zone a to node b-data") == {("client-a", "b-data")}


def test_every_form_of_a_partition_has_its_sentence() -> None:
    zone_a, zone_b, zone_c = ({f"{z}-cm", f"{z}-data"} for z in ZONES)

    def both(some: set[str], others: set[str]) -> set[tuple[str, str]]:
        return {pair for a in some for b in others for pair in ((a, b), (b, a))}

    # one way
    assert links("from zone a to zone c") == {(a, c) for a in zone_a for c in zone_c}
    # zone from zone, with or without their clients; zone b is the bridge that reaches both
    assert links("between zone a and zone c") == both(zone_a, zone_c)
    assert links("between everything in zone a and everything in zone c") == both(zone_a, zone_c) | both(
        zone_a, {"client-c"}
    ) | both(zone_c, {"client-a"})
    # one node is the bridge: zone a and b-cm do not reach zone c, b-data reaches all; two faults of one phase
    apart = links("between zone a and zone c") | links("between node b-cm and zone c")
    assert apart == both(zone_a | {"b-cm"}, zone_c)
    assert not any("b-data" in pair for pair in apart)
    # a node from its own zone, with or without its clients
    assert links("between node a-data and zone a") == both({"a-data"}, {"a-cm"})
    assert links("between node a-data and everything in zone a") == both({"a-data"}, {"a-cm", "client-a"})
    # clients from a zone: all of them, or those of one zone from their own
    assert links("from clients to zone c") == {(client, node) for client in CLIENTS for node in zone_c}
    assert links("between clients of zone a and zone a") == both({"client-a"}, zone_a)
    # all of a zone: its nodes and its clients, and everybody else's way to it
    inside, outside = zone_c | {"client-c"}, zone_a | zone_b | {"client-a", "client-b"}
    apart = both(inside, outside) - both({"client-c"}, {"client-a", "client-b"})
    assert links("around everything in zone c") == apart


fixed_hosts = host_selectors.filter(
    lambda hosts: (
        hosts.nodes is None or (not hosts.nodes.pick and not hosts.nodes.elected and candidates(hosts.nodes, NODES))
    )
)


def resolved(kind: str, a: HostSelector, b: HostSelector | None = None) -> frozenset[tuple[str, str]]:
    try:
        return resolve_links(LinkSelector(kind=kind, a=a, b=b), NODES, ZONES)  # type: ignore[arg-type]
    except InvalidInput:
        return frozenset()


@given(fixed_hosts)
def test_around_is_to_and_from(hosts: HostSelector) -> None:
    to, from_ = resolved("to", hosts), resolved("from", hosts)
    assert resolved("around", hosts) == to | from_
    assert to == {(target, source) for source, target in from_}
    assert not to & from_


@given(fixed_hosts, fixed_hosts)
def test_between_is_one_way_and_the_other(a: HostSelector, b: HostSelector) -> None:
    assert resolved("between", a, b) == resolved("from_to", a, b) | resolved("from_to", b, a)
    assert resolved("between", a, b) == resolved("between", b, a)


@given(fixed_hosts, fixed_hosts, st.sampled_from(["to", "from", "around", "between", "from_to"]))
def test_links_join_different_known_hosts_of_which_one_is_a_node(a: HostSelector, b: HostSelector, kind: str) -> None:
    for source, target in resolved(kind, a, b if kind in ("between", "from_to") else None):
        assert source != target
        assert {source, target} <= NAMES | CLIENTS
        assert {source, target} & NAMES


@given(zone, st.sampled_from(["to", "from", "around"]))
def test_isolation_contains_partition(z: str, kind: str) -> None:
    nodes_only = resolved(kind, HostSelector.parse(f"zone {z}"))
    assert nodes_only < resolved(kind, HostSelector.parse(f"everything in zone {z}"))
    assert not any(host in CLIENTS for link in nodes_only for host in link)


@given(node_selectors, st.integers())
def test_what_is_resolved_is_among_the_candidates(selector: NodeSelector, seed: int) -> None:
    try:
        found = resolve_nodes(selector, NODES, elected="b-cm", rng=random.Random(seed))
    except (InvalidInput, FaultError):
        return
    assert set(found) <= set(candidates(selector, NODES))
    assert selector.pick in (None, len(found))


def test_fixed_is_what_the_topology_alone_decides() -> None:
    assert fixed(NodeSelector.parse("zone c"))
    assert not fixed(NodeSelector.parse("one of zone c"))
    assert not fixed(LinkSelector.parse("to elected cluster manager"))
    assert fixed(LinkSelector.parse("around everything in zone c"))
