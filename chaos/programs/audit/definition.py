"""The facts that a topology says of itself. What only a living cluster has is missing, with that reason."""

from __future__ import annotations

from chaos.definitions.topology import ZONE_ATTRIBUTE, Topology
from chaos.programs.audit.facts import STOCK, Index, Node, Settings, Sheet, plain, wanted

LIVE = "a topology is a definition: only a living cluster has it"
INDEX = "the load's index"


def sheet(topology: Topology, zone_attribute: str = ZONE_ATTRIBUTE) -> Sheet:
    """The facts of a topology, whose lab is to run with the defaults of OpenSearch 3.8.0 where it says nothing."""
    nodes = []
    for spec in topology.nodes:
        own = {**topology.settings.node, **spec.settings}
        other = own.get(f"node.attr.{zone_attribute}")
        zone = spec.zone if zone_attribute == ZONE_ATTRIBUTE else None if other is None else str(other)
        nodes.append(
            Node(spec.name, frozenset(spec.roles), zone, heap=int(spec.heap), settings=wanted(own, zone_attribute))
        )
    return Sheet(
        origin=f"topology {topology.name}",
        zone_attribute=zone_attribute,
        version=topology.version,
        nodes=tuple(nodes),
        settings=Settings(
            wanted(topology.settings.cluster, zone_attribute),
            STOCK,
            explicit={name: plain(value) for name, value in topology.settings.cluster.items()},
        ),
        indices=(Index(INDEX, topology.shards, topology.replicas),),
        unread=dict.fromkeys(("copies", "memory", "cpu", "heap_used", "disk", "disk_free"), LIVE),
    )
