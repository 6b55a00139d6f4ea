"""Zone faults: what happens to everything in one zone at once, in the words that people have for it.

Isolation, partition and slowness are network faults on the zone's links, and whoever can make those can make these.
Power loss takes every host of the zone at the same moment, its disks included where the topology has them.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from chaos.base.units import Duration, PositiveDuration
from chaos.definitions.selectors import NAME, LinkSelector
from chaos.definitions.source import did_you_mean
from chaos.definitions.steps import Flap, Scene
from chaos.definitions.topology import Topology, unknown_zone
from chaos.faults.evidence import Evidence, ProcessEvidence
from chaos.faults.kind import Kind, process_claims
from chaos.faults.kinds.disk import PowerLossEvidence, disk_claims
from chaos.faults.kinds.network import AMBER, NetworkDrop, NetworkLatency, OnLinks
from chaos.faults.kinds.node import OnProcess
from chaos.faults.offers import Aim, Means
from chaos.targets.wiring import Wiring

ZoneName = Annotated[str, Field(pattern=f"^{NAME}$", description="the zone, for example c")]


class OnZone(Kind):
    """A fault on everything in one zone."""

    family = "zone"
    zone: ZoneName

    def check(self, topology: Topology) -> list[str]:
        return [] if self.zone in topology.zones else [unknown_zone(self.zone, topology)]


class OnZoneLinks(OnZone):
    """A fault on the links of a zone: one of the network family under a name of its own."""

    around: ClassVar[str] = "everything in zone"
    holding = OnLinks.holding
    flap: Flap | None = Field(default=None, description="come and go, for example {down: 2s, up: 3s}")

    @property
    def links(self) -> LinkSelector:
        return LinkSelector.parse(f"around {self.around} {self.zone}")

    @property
    def part(self) -> OnLinks:
        """The fault of the network family that it is."""
        raise NotImplementedError

    def claims(self, scene: Scene) -> frozenset[str]:
        return self.part.claims(scene)

    def aim(self, id: str, scene: Scene, wiring: Wiring) -> Aim:
        return self.part.aim(id, scene, wiring)

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return self.part.evidence(aim, means)

    def _given(self) -> dict[str, Any]:
        return {"links": self.links, "flap": self.flap}


class ZoneIsolation(OnZoneLinks):
    """No packet enters or leaves the zone, those of its clients included."""

    kind = "zone.isolation"
    made_of = NetworkDrop.kind
    examples = ({"zone": "c"},)
    proof = NetworkDrop.proof

    def describe(self) -> str:
        return f"zone {self.zone} is cut off from everything, its clients included"

    @property
    def part(self) -> OnLinks:
        return NetworkDrop(**self._given())


class ZonePartition(ZoneIsolation):
    """The zone's nodes reach no node of the other zones; clients reach all of them."""

    kind = "zone.partition"
    examples = ({"zone": "c"},)
    around = "zone"

    def describe(self) -> str:
        return f"the nodes of zone {self.zone} are cut off from those of the other zones"


class ZoneSlowness(OnZoneLinks):
    """Everything that enters or leaves the zone is late, both ways: a round trip grows by twice the delay."""

    kind = "zone.slowness"
    noticing = "hardly"
    made_of = NetworkLatency.kind
    examples = ({"zone": "c", "delay": "200ms"}, {"zone": "c", "delay": "100ms", "jitter": "20ms"})
    proof = NetworkLatency.proof
    colour = AMBER
    delay: PositiveDuration = Field(description="added one way, for example 200ms")
    jitter: Duration = Field(default=Duration(0), description="the delay varies by plus or minus this much")

    @model_validator(mode="after")
    def _as_a_delay(self) -> ZoneSlowness:
        _ = self.part  # what the network family refuses is refused here
        return self

    @property
    def lateness(self) -> Duration:
        return self.delay

    def describe(self) -> str:
        jitter = f" ± {self.jitter.text}" if self.jitter else ""
        return f"+{self.delay.text}{jitter} on everything in and out of zone {self.zone}"

    @property
    def part(self) -> OnLinks:
        return NetworkLatency(**self._given(), delay=self.delay, jitter=self.jitter)


class ZonePowerLoss(OnZone):
    """Every node of the zone dies at once, with what its disk had not fsynced, and returns in the order given."""

    kind = "zone.power_loss"
    noticing = "at once"
    examples = (
        {"zone": "c"},
        {"zone": "c", "return_order": ["data", "cm"], "return_gap": "5s"},
    )
    example_topology = "3az-disks"
    proof = "the processes are gone; with disks, of a file only the part that was fsynced is there"
    holding = OnProcess.holding
    lasting = True
    return_order: tuple[Annotated[str, Field(pattern=f"^{NAME}$")], ...] | None = Field(
        default=None,
        min_length=1,
        description="groups of nodes in the order of their return, for example [data, cm]; default all at once",
    )
    return_gap: Duration = Field(default=Duration(0), description="between one group and the next, for example 10s")

    def check(self, topology: Topology) -> list[str]:
        problems = super().check(topology)
        if problems:
            return problems
        here = {node.group for node in topology.nodes if node.zone == self.zone}
        if not here:
            return [f"zone {self.zone} of topology {topology.name} has no nodes"]
        given = self.return_order or ()
        problems = [
            f"return_order: zone {self.zone} has no nodes of group {group}: {did_you_mean(group, sorted(here))}"
            for group in dict.fromkeys(given)
            if group not in here
        ]
        problems += [f"return_order: group {g} is named twice" for g in dict.fromkeys(given) if given.count(g) > 1]
        if self.return_gap and len(here) > 1 and self.return_order is None:
            problems.append("return_gap needs an order: expected return_order, for example [data, cm]")
        return problems

    def nodes(self, topology: Topology) -> tuple[str, ...]:
        return tuple(node.name for node in topology.nodes if node.zone == self.zone)

    def returning(self, topology: Topology) -> list[list[str]]:
        """Nodes by turn of their return."""
        left = [node for node in topology.nodes if node.zone == self.zone]
        turns = []
        for group in self.return_order or ():
            turns.append([node.name for node in left if node.group == group])
            left = [node for node in left if node.group != group]
        turns.append([node.name for node in left])
        return [turn for turn in turns if turn]

    def claims(self, scene: Scene) -> frozenset[str]:
        nodes = self.nodes(scene.topology)
        return process_claims(nodes) | (disk_claims(nodes) if scene.topology.disks is not None else frozenset())

    def describe(self) -> str:
        order = f", {' before '.join(self.return_order)} on return" if self.return_order else ""
        return f"zone {self.zone} loses power{order}"

    def aim(self, id: str, scene: Scene, wiring: Wiring) -> Aim:
        return Aim(id, scene, wiring, self.nodes(scene.topology))

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        nodes = list(aim.nodes)
        return PowerLossEvidence(nodes) if aim.scene.topology.disks is not None else ProcessEvidence(nodes)
