"""A cluster as this room needs it: whose nodes have names, and can each be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from chaos.definitions.topology import ZONE_ATTRIBUTE, Topology
from chaos.opensearch.rest import NodeClient


@dataclass(frozen=True)
class Zoning:
    """By which attribute the cluster's nodes have zones, and what it calls each; by default what we call it."""

    attribute: str = ZONE_ATTRIBUTE
    values: Mapping[str, str] = field(default_factory=dict)
    """Zone as experiments call it → the attribute's value."""

    def value(self, zone: str) -> str:
        return self.values.get(zone, zone)

    def zone(self, value: str) -> str:
        return next((zone for zone, each in self.values.items() if each == value), value)


class Cluster(Protocol):
    """A lab, or whatever else has nodes that answer."""

    @property
    def topology(self) -> Topology: ...

    @property
    def zoning(self) -> Zoning: ...

    @property
    def viewers(self) -> tuple[str, ...]:
        """Who can be asked how the cluster is: its nodes, each for itself; or addresses at which any of them answers
        with what the elected manager knows. :meth:`client` takes these names too."""

    def client(self, node: str, *, timeout: float = 5.0) -> NodeClient:
        """HTTP to one node. ``timeout`` in seconds, for each request."""
