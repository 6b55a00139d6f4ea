"""A fault ready to go: what it is, the moves that make it, and how it proves itself. Data, no lab in it yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chaos.faults.evidence import Evidence
from chaos.faults.moves import Reversible

Link = tuple[str, str]


@dataclass(frozen=True)
class Fault:
    """One fault with everything resolved. ``mechanism`` names the technique, for plan and report.

    ``colour`` is how its band is drawn. ``needs`` are the lab capabilities without which it cannot be.
    """

    id: str
    kind: str
    says: str
    mechanism: str
    targets: tuple[str, ...]
    links: tuple[Link, ...]
    moves: tuple[Reversible, ...]
    evidence: Callable[[], Evidence]
    needs: tuple[str, ...]
    colour: str
