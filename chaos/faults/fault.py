"""A fault ready to go: what it is, the moves that make it, and how it proves itself. Data, no lab in it yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from chaos.definitions.steps import Flap
from chaos.faults.evidence import Evidence, Look
from chaos.faults.moves import Reversible
from chaos.targets.protocol import Lab

Link = tuple[str, str]


class Grade(StrEnum):
    """How sure a proof is."""

    PATH = "path"
    """The thing itself, asked by us: bytes through the very link, the process's own state, a blocked fsync; of a
    setting what each node goes by, of a burden that the runner makes what each node counts of it."""
    EFFECT = "effect"
    """What neighbours, clients or the cluster see, and did not see before."""
    REPORTED = "reported"
    """The provider says so, which counts for nothing alone."""


@dataclass(frozen=True)
class Pulse:
    """A fault that comes and goes: ``down`` s in effect, ``up`` s away; ``times`` None: until it is undone."""

    down: float
    up: float
    times: int | None = None

    @classmethod
    def of(cls, flap: Flap | None) -> Pulse | None:
        """The pulse that a definition asks for."""
        return cls(float(flap.down), float(flap.up), flap.times) if flap else None


class Worker(Protocol):
    """Something that the runner itself does for as long as a fault holds (queries, mapping updates …).

    It dies with the runner; whatever it could leave behind has its inverse among the fault's moves.
    """

    def start(self, lab: Lab) -> None: ...

    def stop(self) -> Look | None:
        """End it and wait for its end; how it went over its whole time, where that was measured. Never raises."""


@dataclass(frozen=True)
class Fault:
    """One fault with everything resolved. ``mechanism`` names the technique, for plan and report.

    ``colour`` is how its band is drawn. ``needs`` are the lab capabilities without which it cannot be. ``claims`` is
    what it holds while active: two faults never hold the same. Moves on different hosts are made at once, unless
    ``in_order``. ``worker`` starts after the moves and ends before their undo. ``read``, where an inverse needs values
    of the moment, makes the moves from the lab right before they are written down; ``moves`` then is what a plan can
    know of them. ``provider`` carries it out, and its proof is of this ``grade``. Nodes that it ``silences`` do not
    answer us either.
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
    claims: frozenset[str] = frozenset()
    in_order: bool = False
    pulse: Pulse | None = None
    worker: Worker | None = None
    read: Callable[[Lab], tuple[Reversible, ...]] | None = None
    provider: str = ""
    grade: Grade = Grade.PATH
    silences: tuple[str, ...] = ()
