"""The facts that a topology says of itself. What only a living cluster has is missing, with that reason."""

from __future__ import annotations

from chaos.definitions.topology import ZONE_ATTRIBUTE, Topology
from chaos.programs.audit.facts import STOCK, Index, Node, Settings, Sheet, by_name, of_index, plain

ATTRIBUTE = "node.attr."
LIVE = "a topology is a definition: only a living cluster has it"
INDEX = "the load's index"
UNREAD = (
    *("copies", "memory", "cpu", "heap_used", "disk", "disk_free", "limit", "state", "explained", "streams"),
    *("index_templates", "component_templates", "legacy_templates", "repositories", "shallow", "policies"),
    *("managed", "certificates", "usage"),
)
"""Parts of a sheet that only a living cluster has."""


def sheet(topology: Topology, zone_attribute: str = ZONE_ATTRIBUTE) -> Sheet:
    """The facts of a topology, whose lab is to run with the defaults of OpenSearch 3.8.0 where it says nothing."""
    nodes = []
    for spec in topology.nodes:
        own = {**topology.settings.node, **spec.settings}
        other = own.get(f"node.attr.{zone_attribute}")
        zone = spec.zone if zone_attribute == ZONE_ATTRIBUTE else None if other is None else str(other)
        nodes.append(
            Node(
                spec.name,
                frozenset(spec.roles),
                zone,
                heap=int(spec.heap),
                settings=by_name(own),
                attributes={ZONE_ATTRIBUTE: spec.zone}
                | {name.removeprefix(ATTRIBUTE): plain(own[name]) for name in own if name.startswith(ATTRIBUTE)},
            )
        )
    given = by_name(topology.settings.cluster)
    return Sheet(
        origin=f"topology {topology.name}",
        zone_attribute=zone_attribute,
        version=topology.version,
        nodes=tuple(nodes),
        settings=Settings(given, STOCK, explicit=given),
        indices=(Index(INDEX, topology.shards, topology.replicas, of_index(topology.settings.index)),),
        unread=dict.fromkeys(UNREAD, LIVE),
        is_definition=True,
        unasked={"managers.calls": LIVE},
    )
