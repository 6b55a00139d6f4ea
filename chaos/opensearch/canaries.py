"""The indices that failover controllers make and write to, to tell which zones serve: their names and zones."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.definitions.topology import Topology
from chaos.opensearch.foreign import CANARY

COPIES = 2
"""Of each canary index."""


def pairs(zones: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Canary index → its two zones: the neighbours of a ring, so that every zone is in two of them.

    Of two zones there is one pair, of one zone none.
    """
    ordered = sorted(zones)
    ring = [(zone, ordered[(at + 1) % len(ordered)]) for at, zone in enumerate(ordered)]
    if len(ordered) < 3:
        ring = ring[: len(ordered) - 1]
    return {f"{CANARY}-{at}": pair for at, pair in enumerate(ring)}


def canaries(topology: Topology) -> list[str]:
    """The indices that controllers make and write to, on any cluster with these zones."""
    return sorted(pairs(sorted({node.zone for node in topology.data_nodes})))
