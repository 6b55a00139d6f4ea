"""Zone faults: what happens to everything in one zone at once, in the words that people have for it.

Isolation, partition and slowness are network faults on the zone's links, made by the network family's own functions.
Power loss takes every host of the zone at the same moment, its disks included where the topology has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import sleep
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from chaos.base.errors import ChaosError, FaultError
from chaos.base.units import Duration, PositiveDuration
from chaos.definitions.selectors import NAME, LinkSelector
from chaos.definitions.source import did_you_mean
from chaos.definitions.steps import Flap, Scene
from chaos.definitions.topology import Topology, unknown_zone
from chaos.faults.evidence import Evidence, ProcessEvidence
from chaos.faults.fault import Fault
from chaos.faults.kind import Kind, process_claims
from chaos.faults.kinds.disk import PowerLossEvidence, disk_claims
from chaos.faults.kinds.network import AMBER, NetworkDrop, NetworkLatency, OnLinks
from chaos.faults.kinds.node import OnProcess
from chaos.faults.moves import Move, Reversible, on_node, operation, said
from chaos.target.protocol import Lab
from chaos.target.wiring import Wiring

ZoneName = Annotated[str, Field(pattern=f"^{NAME}$", description="the zone, for example c")]


@operation("zone.return")
def _return(lab: Lab, groups: Sequence[Sequence[str]], gap: float) -> None:
    """Start these nodes, group after group with ``gap`` seconds in between; those that run are let alone.

    Every node is tried. Raises FaultError naming those that could not be started.
    """
    failed = []
    for number, nodes in enumerate(groups):
        if number and gap:
            sleep(gap)  # part of the fault: power comes back rack by rack
        for node in nodes:
            try:
                if lab.topology.disks is not None:
                    lab.disks.restore(node)
                lab.start_node(node)
            except ChaosError as error:
                failed.append(f"{node}: {said(error)}")
    if failed:
        raise FaultError(f"not every node came back: {'; '.join(failed)}")


class OnZone(Kind):
    """A fault on everything in one zone."""

    family = "zone"
    zone: ZoneName

    def check(self, topology: Topology) -> list[str]:
        return [] if self.zone in topology.zones else [unknown_zone(self.zone, topology)]


class OnZoneLinks(OnZone):
    """A fault on the links of a zone: one of the network family under a name of its own."""

    needs: ClassVar[tuple[str, ...]] = ("links",)
    around: ClassVar[str] = "everything in zone"
    holding = OnLinks.holding
    flap: Flap | None = Field(default=None, description="come and go, for example {down: 2s, up: 3s}")

    @property
    def links(self) -> LinkSelector:
        return LinkSelector.parse(f"around {self.around} {self.zone}")

    def on_links(self) -> OnLinks:
        raise NotImplementedError

    def claims(self, scene: Scene) -> frozenset[str]:
        return self.on_links().claims(scene)

    def build(self, id: str, scene: Scene, wiring: Wiring) -> Fault:
        says = f"{self.describe()} ({self.flap.describe()})" if self.flap else self.describe()
        return replace(self.on_links().build(id, scene, wiring), kind=self.kind, says=says, colour=self.colour)

    def _given(self) -> dict[str, Any]:
        return {"links": self.links, "flap": self.flap}


class ZoneIsolation(OnZoneLinks):
    """No packet enters or leaves the zone, those of its clients included."""

    kind = "zone.isolation"
    examples = ({"zone": "c"},)
    mechanism = NetworkDrop.mechanism
    undoing = NetworkDrop.undoing
    proof = NetworkDrop.proof
    needs = NetworkDrop.needs

    def describe(self) -> str:
        return f"zone {self.zone} is cut off from everything, its clients included"

    def on_links(self) -> OnLinks:
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
    examples = ({"zone": "c", "delay": "200ms"}, {"zone": "c", "delay": "100ms", "jitter": "20ms"})
    mechanism = NetworkLatency.mechanism
    undoing = NetworkLatency.undoing
    proof = NetworkLatency.proof
    needs = NetworkLatency.needs
    colour = AMBER
    delay: PositiveDuration = Field(description="added one way, for example 200ms")
    jitter: Duration = Field(default=Duration(0), description="the delay varies by plus or minus this much")

    @model_validator(mode="after")
    def _as_a_delay(self) -> ZoneSlowness:
        self.on_links()  # what the network family refuses is refused here
        return self

    @property
    def lateness(self) -> Duration:
        return self.delay

    def describe(self) -> str:
        jitter = f" ± {self.jitter.text}" if self.jitter else ""
        return f"+{self.delay.text}{jitter} on everything in and out of zone {self.zone}"

    def on_links(self) -> OnLinks:
        return NetworkLatency(**self._given(), delay=self.delay, jitter=self.jitter)


class ZonePowerLoss(OnZone):
    """Every node of the zone dies at once, with what its disk had not fsynced, and returns in the order given."""

    kind = "zone.power_loss"
    examples = (
        {"zone": "c"},
        {"zone": "c", "return_order": ["data", "cm"], "return_gap": "5s"},
    )
    example_topology = "3az-disks"
    mechanism = "SIGKILL of all nodes at once; disks lose what was not fsynced, where the topology has disks"
    undoing = "the nodes start again, group after group in the order given"
    proof = "the processes are gone; with disks, of a file only the part that was fsynced is there"
    holding = OnProcess.holding
    needs = ("process",)
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

    def build(self, id: str, scene: Scene, wiring: Wiring) -> Fault:
        topology = scene.topology
        nodes, disks = self.nodes(topology), topology.disks is not None
        evidence: type[PowerLossEvidence] | type[ProcessEvidence] = PowerLossEvidence if disks else ProcessEvidence
        # one inverse returns them all: inverses of different hosts are applied at once, and order is of the essence
        back = Move("zone.return", {"groups": self.returning(topology), "gap": float(self.return_gap)})

        def made() -> Evidence:
            return evidence(list(nodes))

        return self.made(
            id,
            scene,
            (
                Reversible(Move("nothing", {}), back),
                *(on_node("disk.power_loss" if disks else "node.kill", "nothing", node) for node in nodes),
            ),
            made,
            nodes=nodes,
            needs=(*self.needs, "disks") if disks else self.needs,
        )
