"""Links of a cluster that exists: by which of its owners' proxies a fault is carried out, or why by none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from staging import PLACES, file

from chaos.base.errors import Lacking
from chaos.definitions import NodeSpec, Scene, Size, Topology
from chaos.definitions.existing import ExistingFile
from chaos.faults.kind import built
from chaos.registry import FAULTS, PROVIDERS
from chaos.run.reaching import offers_on
from chaos.targets.existing.passages import TheirWiring, places

ROLES = ("data", "ingest")
NAMES = [f"es-d-{zone}1" for zone in PLACES]
API = "http://10.0.0.9:8474"


def nodes() -> tuple[NodeSpec, ...]:
    return tuple(NodeSpec(name=name, zone=name[-2], group="", roles=ROLES, heap=Size(1 << 30)) for name in NAMES)


def written(proxies: dict[str, Any]) -> ExistingFile:
    plain = file().model_dump(mode="json", by_alias=True)
    members = {name: {"zone": name[-2], "roles": list(ROLES), "url": f"http://{name}:9200"} for name in NAMES}
    servers = [{"api": API, "proxies": proxies}] if proxies else []
    return ExistingFile.model_validate({**plain, "nodes": members, "toxiproxies": servers})


def every(url: str | None = "http://10.0.0.9:9300") -> dict[str, Any]:
    """A proxy for each connection that there can be."""
    made: dict[str, Any] = {f"{a}-{b}": {"from": [a], "to": b} for a in NAMES for b in NAMES if a != b}
    for zone in PLACES:
        made |= {f"{zone}-{b}": {"from": [f"clients of zone {zone}"], "to": b, "url": url} for b in NAMES}
    return made


def wiring(of: ExistingFile) -> TheirWiring:
    return TheirWiring.there("plan", nodes(), tuple(PLACES), of)


def fault(of: ExistingFile, kind: str, **given: Any) -> Any:
    topology = Topology(name="x", version="2.19.0", zones=tuple(PLACES), nodes=nodes())
    params = FAULTS[kind].model_validate(given)
    return built(params, "f1", Scene.of(topology, 1, "f1"), wiring(of), offers_on(PROVIDERS, of).meant(kind))


def test_a_fault_takes_the_proxies_that_its_links_pass_and_no_others() -> None:
    made = fault(written(every()), "network.latency", links="from node es-d-a1 to node es-d-c1", delay="1s")
    assert [(m.move.operation, m.move.arguments["proxy"], m.move.arguments["stream"]) for m in made.moves] == [
        ("toxic.add", "es-d-a1-es-d-c1", "upstream"),
        ("toxic.add", "es-d-c1-es-d-a1", "downstream"),
    ]
    assert {m.move.arguments["host"] for m in made.moves} == {"10.0.0.9:8474"}
    assert [m.inverse.operation for m in made.moves] == ["toxic.remove", "toxic.remove"]


def test_what_clients_send_passes_the_proxy_behind_their_load_balancer() -> None:
    made = fault(written(every()), "network.latency", links="from clients of zone a to node es-d-c1", delay="1s")
    assert [m.move.arguments["proxy"] for m in made.moves] == ["a-es-d-c1"]


def test_a_proxy_for_several_is_one_toxic() -> None:
    shared = {k: v for k, v in every().items() if not k.endswith("es-d-c1")}
    shared["all-to-c"] = {"from": ["es-d-a1", "es-d-b1"], "to": "es-d-c1"}
    both = fault(written(shared), "network.latency", links="from role data to node es-d-c1", delay="1s")
    assert sorted(m.move.arguments["proxy"] for m in both.moves) == ["all-to-c", "es-d-c1-es-d-a1", "es-d-c1-es-d-b1"]
    with pytest.raises(Lacking, match=r"all-to-c of 10.0.0.9:8474 carries es-d-b1 → es-d-c1 too"):
        fault(written(shared), "network.latency", links="from node es-d-a1 to node es-d-c1", delay="1s")


@pytest.mark.parametrize(
    ("proxies", "says"),
    [
        ({"x": {"from": ["es-d-a1"], "to": "es-d-b1"}}, "connections of es-d-a1 to es-d-c1 pass no Toxiproxy"),
        ({"es-d-a1-es-d-c1": {"from": ["es-d-a1"], "to": "es-d-c1"}}, "connections of es-d-c1 to es-d-a1 pass no"),
    ],
)
def test_a_link_past_every_proxy_is_lacking(proxies: dict[str, Any], says: str) -> None:
    with pytest.raises(Lacking, match=says):
        fault(written(proxies), "network.hang", links="from node es-d-a1 to node es-d-c1")


def test_what_nobody_could_see_is_lacking() -> None:
    with pytest.raises(Lacking, match="nothing would show what clients of zone a get from es-d-c1"):
        fault(written(every(url=None)), "network.latency", links="from clients of zone a to node es-d-c1", delay="1s")


def test_what_bytes_at_will_would_show_is_not_offered() -> None:
    offers = offers_on(PROVIDERS, written(every()))
    lacking = {kind for kind in offers.kinds if kind.startswith("network.") and offers.reasons(kind)}
    assert lacking == {"network.bandwidth", "network.slicer", "network.slow_close", "network.drop", "network.loss"}
    without = offers_on(PROVIDERS, written({}))
    assert "the file names no Toxiproxies" in without.reasons("network.latency")[0]


@given(st.sets(st.sampled_from(sorted(every())), min_size=1), st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_whatever_the_file_names_a_fault_never_reaches_a_link_that_it_does_not_name(
    named: set[str], a: str, b: str
) -> None:
    if a == b:
        return
    of = written({name: each for name, each in every().items() if name in named})
    try:
        made = fault(of, "network.latency", links=f"from node {a} to node {b}", delay="1s")
    except Lacking:
        return
    for move in (each.move.arguments for each in made.moves):
        for opener, node in wiring(of).carried(move["host"], move["proxy"]):
            assert ((opener, node) if move["stream"] == "upstream" else (node, opener)) == (a, b)


def test_untouched_pairs_are_those_that_can_be_seen() -> None:
    of = written(every(url=None))
    assert len(places(of)) == 15
    assert not wiring(of).answers("client-a", "es-d-c1") and wiring(of).answers("es-d-a1", "es-d-c1")
    assert wiring(of).toxiproxies == ("10.0.0.9:8474",)
