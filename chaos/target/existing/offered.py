"""What a cluster that exists has for faults: its REST API. What else faults need is lacking, in words."""

from __future__ import annotations

from chaos.target.protocol import CAPABILITIES

ORDER = ("rest",)
"""Of providers, the first one first."""


NOT_YET = {
    "node.heap_pressure": "a node that dies of it would be started again by nobody",
    "cluster_manager.task_storm": "what it takes from requests of others is not watched",
    "cluster_manager.admin_storm": "what it takes from requests of others is not watched",
}
"""Kinds that REST could carry out there, and why they are not."""


def lacks(capability: str) -> str | None:
    """Why a capability of :data:`chaos.target.protocol.CAPABILITIES` cannot be had."""
    what = CAPABILITIES.get(capability, capability)
    return f"a cluster that exists is reached by REST alone, and this needs more ({what})"
