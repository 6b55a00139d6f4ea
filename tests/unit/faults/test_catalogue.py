"""The catalogue: every kind says what it is, its examples are faults, and its documentation is current."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import ROOT
from making import OFFERED, OFFERS, built, needs

from chaos.base.errors import Lacking
from chaos.definitions import Topology, load_topology
from chaos.definitions.steps import FaultParams, Scene
from chaos.faults import documentation
from chaos.faults.fault import Fault
from chaos.faults.moves import Move
from chaos.registry import FAULTS, PROVIDERS, load_experiment
from chaos.run.plan import lacking, refuse_lacking
from chaos.targets.labs.local import LocalLab
from chaos.targets.protocol import CAPABILITIES
from chaos.targets.wiring import Wiring

EXAMPLES = [
    pytest.param(kind, example, id=f"{kind}-{number}")
    for kind, fault in FAULTS.items()
    for number, example in enumerate(fault.examples)
]
MADE = [each for each in EXAMPLES if each.values[0] in OFFERED]


def topology_of(kind: str) -> Topology:
    return load_topology(FAULTS[kind].example_topology, near=ROOT / "experiments" / "x.yaml")


def scene(params: FaultParams, topology: Topology) -> Scene:
    return Scene.of(topology, 1, "f1", topology.cluster_managers[0].name)


def of_the_kind(fault: Fault) -> frozenset[str]:
    """What it holds by its kind, whoever carries it out: FIS holds the instances of its documents too."""
    return frozenset(each for each in fault.claims if not each.startswith("the network document of "))


@pytest.mark.parametrize("kind", FAULTS)
def test_every_kind_says_what_it_is(kind: str) -> None:
    fault = FAULTS[kind]
    assert fault.__doc__ and fault.__doc__ not in {base.__doc__ for base in fault.__mro__[1:]}
    ways = documentation.described(fault, PROVIDERS).ways
    told = [said for way in ways for said in (way.provider, way.mechanism, way.undoing)]
    for said in (fault.family, fault.proof, fault.example_topology, *told):
        assert said.strip() == said != ""
    assert fault.examples and ways
    assert {need for way in ways for need in way.needs} <= set(CAPABILITIES)
    assert all(parameter.says for parameter in documentation.described(fault, PROVIDERS).parameters)


@pytest.mark.parametrize(("kind", "example"), MADE)
def test_every_example_is_a_fault_that_fits_a_ledger(kind: str, example: dict[str, Any]) -> None:
    topology = topology_of(kind)
    params = FAULTS[kind](**example)
    assert params.check(topology) == []
    fault = built(params, scene(params, topology), Wiring.of_topology("plan", topology))
    assert fault.kind == kind and fault.says
    # requests of the runner's own hold nothing, so two may overlap; some leave nothing that an undo would have to take
    assert (fault.moves and fault.claims) or fault.worker is not None
    assert of_the_kind(fault) == params.claims(scene(params, topology))
    for both in fault.moves:
        for move in (both.move, both.inverse):
            if move is not None:  # making a move of an unknown operation raises
                assert Move.from_json(json.loads(json.dumps(move.to_json()))) == move


ON_NODES = [
    kind
    for kind, fault in FAULTS.items()
    if "target" in fault.model_fields and fault.family not in ("cluster manager", "query")
]
ON_LINKS = [kind for kind, fault in OFFERED.items() if "links" in fault.model_fields]


@pytest.mark.parametrize("kind", ON_NODES)
def test_a_fault_that_is_drawn_claims_the_node_that_it_hits(kind: str) -> None:
    """Two faults on one node are refused by what they claim."""
    topology = topology_of(kind)
    wiring = Wiring.of_topology("plan", topology)
    example = FAULTS[kind].examples[0]
    drawn = FAULTS[kind](**{**example, "target": "one of role data"})
    hit = set()
    for seed in range(20):
        fault = built(drawn, Scene.of(topology, seed, "f1"), wiring)
        (node,) = fault.targets
        named = FAULTS[kind](**{**example, "target": f"node {node}"})
        assert fault.claims == named.claims(Scene.of(topology, seed, "f1")) != frozenset()
        hit.add(node)
    assert len(hit) > 1


@pytest.mark.parametrize("kind", ON_LINKS)
def test_a_fault_on_drawn_links_claims_those_that_it_hits(kind: str) -> None:
    topology = topology_of(kind)
    wiring = Wiring.of_topology("plan", topology)
    asked = "from clients to one of role data" if FAULTS[kind].family == "http" else "to one of role data"
    drawn = FAULTS[kind](**{**FAULTS[kind].examples[0], "links": asked})
    for seed in range(20):
        fault = built(drawn, Scene.of(topology, seed, "f1"), wiring)
        assert of_the_kind(fault) == {f"the link {a} → {b}" for a, b in fault.links} != set()


@pytest.mark.parametrize(("kind", "example"), EXAMPLES)
def test_every_example_can_be_in_a_definition(kind: str, example: dict[str, Any], tmp_path: Path) -> None:
    loaded = load_experiment(definition(tmp_path, kind, example))
    assert loaded.phases[0].inject == (FAULTS[kind](**example),)


def definition(folder: Path, kind: str, example: dict[str, Any]) -> Path:
    file = folder / "x.yaml"
    file.write_text(
        "apiVersion: opensearch-chaos/v1\nname: x\n"
        f"topology: {ROOT / 'topologies' / FAULTS[kind].example_topology}.yaml\n"
        "load:\n  write: {rate: 100/s, good: ok within 100ms}\n"
        f"phases:\n  one: {{for: 5s, inject: {json.dumps({kind: example})}}}\n"
        "expect:\n  - {acknowledged.lost: 0}\n"
    )
    return file


def test_the_documentation_is_current() -> None:
    assert documentation.FILE.read_text() == documentation.markdown(PROVIDERS), (
        f"run: {documentation.COMMAND} > docs/faults.md"
    )


def test_the_documentation_names_every_kind_every_parameter_and_what_is_left_out() -> None:
    page = documentation.markdown(PROVIDERS)
    for kind, fault in FAULTS.items():
        section = page.partition(f"\n### {kind}\n")[2].partition("\n### ")[0]
        assert all(f"| `{name}` |" in section for name in fault.model_fields if name not in documentation.EVERY)
        for way in documentation.described(fault, PROVIDERS).ways:
            assert way.mechanism in section and way.undoing in section
        assert fault.proof in section
    assert documentation.CLOCKS in page and "Skew of clocks is left out" in page


@pytest.mark.parametrize("name", sorted({fault.example_topology for fault in FAULTS.values()}))
def test_a_local_lab_says_of_every_capability_whether_it_offers_it(name: str) -> None:
    offers = LocalLab.offers(load_topology(name, near=ROOT / "experiments" / "x.yaml"))
    assert set(offers) == set(CAPABILITIES)
    assert all(reason is None or reason.strip() for reason in offers.values())


def test_what_a_lab_lacks_is_refused_with_every_reason_once(tmp_path: Path) -> None:
    kind, example = next((kind, fault.examples[0]) for kind, fault in FAULTS.items() if needs(kind))
    loaded = load_experiment(definition(tmp_path, kind, example))
    lacks: Callable[[str], str | None] = lambda need: f"no {need} on this machine"  # noqa: E731
    assert lacking(loaded, OFFERS) == []
    refuse_lacking(loaded, OFFERS)
    assert lacking(loaded, PROVIDERS.on(lacks)) == [
        f"{kind} in phase one: no {need} on this machine" for need in needs(kind)
    ]
    with pytest.raises(Lacking, match=r"x cannot run here: .* on this machine"):
        refuse_lacking(loaded, PROVIDERS.on(lacks))
