"""What a cluster that exists has for faults: its REST API. What else faults need is lacking, in words."""

from __future__ import annotations

from chaos.target.protocol import CAPABILITIES

ORDER = ("rest",)
"""Of providers, the first one first."""


def lacks(capability: str) -> str | None:
    """Why a capability of :data:`chaos.target.protocol.CAPABILITIES` cannot be had."""
    what = CAPABILITIES.get(capability, capability)
    return f"a cluster that exists is reached by REST alone, and this needs more ({what})"
