"""What every kind of fault builds on: from its parameters to moves and evidence.

The kinds themselves are in :mod:`chaos.faults.kinds`, one file a family, parameters and mechanism together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pydantic import Field

from chaos.definitions.selectors import LinkSelector, NodeSelector
from chaos.definitions.steps import FaultParams, Flap, Scene
from chaos.faults.evidence import Evidence
from chaos.faults.fault import Fault
from chaos.faults.moves import Reversible
from chaos.target.wiring import Wiring


class Kind(FaultParams):
    """A kind of fault that can be made."""

    def build(self, id: str, scene: Scene, wiring: Wiring) -> Fault:
        """The fault, ready to go: moves and evidence, from data alone."""
        raise NotImplementedError

    def made(
        self,
        id: str,
        scene: Scene,
        moves: Iterable[Reversible],
        evidence: Callable[[], Evidence],
        *,
        nodes: tuple[str, ...] = (),
        **more: Any,
    ) -> Fault:
        """The fault of this kind: what the class says of itself, with these moves, this evidence and ``more``."""
        given: dict[str, Any] = {
            "says": f"{self.describe()} ({', '.join(nodes)})" if nodes else self.describe(),
            "mechanism": self.mechanism,
            "links": (),
            "needs": self.needs,
            "colour": self.colour,
            "claims": self.claims(scene),
        }
        return Fault(id=id, kind=self.kind, targets=nodes, moves=tuple(moves), evidence=evidence, **{**given, **more})


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

    def flapping(self, says: str) -> str:
        return f"{says} ({self.flap.describe()})" if self.flap else says


class NodeFault(Kind):
    """A fault on whole nodes."""

    family = "node"
    target: NodeSelector = Field(description="which nodes, for example 'node c-data'")

    def claims(self, scene: Scene) -> frozenset[str]:
        return process_claims(scene.nodes(self.target))


def made_of(params: FaultParams, id: str, scene: Scene, wiring: Wiring) -> Fault:
    """The fault that parameters of a file ask for. Raises InvalidInput when a selector matches nothing."""
    assert isinstance(params, Kind)  # every kind in a registry is one
    return params.build(id, scene, wiring)
