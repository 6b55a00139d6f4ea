"""What every kind of fault builds on: from its parameters to whom it hits, and to what must then be seen.

The kinds themselves are in :mod:`chaos.faults.kinds`, one file a family. A kind is an intent: it knows no mechanism.
How it is carried out is a provider's affair (:mod:`chaos.faults.offers`).
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from chaos.definitions.selectors import LinkSelector, NodeSelector
from chaos.definitions.steps import FaultParams, Flap, Scene
from chaos.faults.evidence import Evidence
from chaos.faults.fault import Fault, Pulse
from chaos.faults.offers import Aim, Means, Offer
from chaos.targets.wiring import Wiring


class Kind(FaultParams):
    """A kind of fault that can be made."""

    @property
    def part(self) -> Kind:
        """Of a kind that is made of another: the fault of that kind which it comes to."""
        raise NotImplementedError

    def aim(self, id: str, scene: Scene, wiring: Wiring) -> Aim:
        """Whom it hits. Raises InvalidInput when a selector matches nothing."""
        raise NotImplementedError

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        """What must be seen of it."""
        raise NotImplementedError

    def says(self, aim: Aim) -> str:
        """One line for plan, events and report, with whom it hits."""
        nodes = f" ({', '.join(aim.nodes)})" if aim.nodes else ""
        flap = f" ({self.flapping.describe()})" if self.flapping else ""
        return f"{self.describe()}{nodes}{flap}"

    @property
    def flapping(self) -> Flap | None:
        """How it comes and goes, for kinds that may."""
        return getattr(self, "flap", None)

    def build(self, id: str, scene: Scene, wiring: Wiring, offer: Offer) -> Fault:
        """The fault, ready to go, carried out as offered: moves and evidence, from data alone."""
        aim = self.aim(id, scene, wiring)
        means = offer.make(self, aim)
        hit = aim if means.links is None else replace(aim, links=means.links)
        return Fault(
            id=id,
            kind=self.kind,
            says=self.spoken(self.says(aim)),
            mechanism=offer.mechanism,
            targets=aim.nodes,
            links=tuple(sorted(hit.links)),
            moves=means.moves,
            evidence=lambda: means.evidence(self.evidence(hit, means)),
            needs=(*offer.needs, *means.needs),
            colour=self.colour,
            claims=self.claims(scene) | means.claims,
            in_order=means.in_order,
            pulse=Pulse.of(self.flapping),
            worker=means.worker,
            read=means.read,
            provider=offer.provider,
            grade=offer.grade,
            silences=means.silences,
        )


def link_claims(links: frozenset[tuple[str, str]]) -> frozenset[str]:
    """A directed link has one owner at a time."""
    return frozenset(f"the link {a} → {b}" for a, b in links)


def process_claims(nodes: tuple[str, ...]) -> frozenset[str]:
    return frozenset(f"the process of {node}" for node in nodes)


class NetworkFault(Kind):
    """A fault on directed links."""

    family = "network"
    links: LinkSelector = Field(description="which directed links, for example 'to zone c'")
    flap: Flap | None = Field(default=None, description="come and go, for example {down: 2s, up: 3s}")

    def claims(self, scene: Scene) -> frozenset[str]:
        return link_claims(scene.links(self.links))


class NodeFault(Kind):
    """A fault on whole nodes."""

    family = "node"
    target: NodeSelector = Field(description="which nodes, for example 'node c-data'")

    def aim(self, id: str, scene: Scene, wiring: Wiring) -> Aim:
        return Aim(id, scene, wiring, scene.nodes(self.target))

    def claims(self, scene: Scene) -> frozenset[str]:
        return process_claims(scene.nodes(self.target))


def built(params: FaultParams, id: str, scene: Scene, wiring: Wiring, offer: Offer) -> Fault:
    """The fault that parameters of a file ask for, as offered. Raises InvalidInput when a selector matches nothing."""
    assert isinstance(params, Kind)  # every kind in a registry is one
    return params.build(id, scene, wiring, offer)
