"""A cluster as this room needs it: whose nodes have names, and can each be asked."""

from __future__ import annotations

from typing import Protocol

from chaos.definitions.topology import Topology
from chaos.opensearch.rest import NodeClient


class Cluster(Protocol):
    """A lab, or whatever else has nodes that answer."""

    @property
    def topology(self) -> Topology: ...

    def client(self, node: str, *, timeout: float = 5.0) -> NodeClient:
        """HTTP to one node. ``timeout`` in seconds, for each request."""
