"""Who carries a kind of fault out: what providers offer, and which offer a target takes.

A kind of fault is an *intent*: what shall happen, to whom, and what must then be seen. A *provider* carries intents out
by one means: it makes the moves. What it offers, and what that needs of a target, is an :class:`Offer`.
:class:`Providers` are asked by everybody who wants to know whether a kind can be had: plan, skips, the random mode,
``faults``, pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from chaos.base.errors import Lacking
from chaos.definitions.steps import FaultParams, Scene
from chaos.faults.moves import Reversible
from chaos.target.wiring import Wiring

Moves = Callable[[Any, str, Scene, Wiring], Iterable[Reversible]]
"""(parameters, id, scene, wiring) → moves with their inverses, from data alone."""
Lacks = Callable[[str], str | None]
"""Capability → None, or why a target has it not, in words."""


class Grade(StrEnum):
    """How sure a proof is."""

    PATH = "path"
    """Bytes through the very link, the process's own state, a blocked fsync."""
    EFFECT = "effect"
    """What neighbours, clients or the cluster see, and did not see before."""
    REPORTED = "reported"
    """The provider says so, which counts for nothing alone."""


@dataclass(frozen=True)
class Offer:
    """One kind by one provider. ``needs``: capabilities of the target, those of the kind's own proof included.

    ``mechanism``: the technique, and ``undoing``: what its undo does; for plan, report and catalogue.
    """

    kind: str
    provider: str
    moves: Moves
    mechanism: str
    undoing: str
    needs: tuple[str, ...] = ()
    grade: Grade = Grade.PATH

    def reasons(self, lacks: Lacks) -> list[str]:
        """Why it cannot be had on a target; empty: it can."""
        return list(dict.fromkeys(reason for need in self.needs if (reason := lacks(need))))


class Provider:
    """One means. ``says``: what it is, in a line."""

    def __init__(self, name: str, says: str) -> None:
        self.name, self.says = name, says
        self.offers: dict[str, Offer] = {}

    def carries_out(
        self,
        *kinds: type[FaultParams],
        mechanism: str,
        undoing: str,
        needs: tuple[str, ...] = (),
        grade: Grade = Grade.PATH,
    ) -> Callable[[Moves], Moves]:
        """Decorates the function that makes the moves of these kinds."""

        def register(moves: Moves) -> Moves:
            for kind in kinds:
                every = (*needs, *kind.sees)
                self.offers[kind.kind] = Offer(kind.kind, self.name, moves, mechanism, undoing, every, grade)
            return moves

        return register


class Providers:
    """All that there are, those first that are preferred where two offer the same."""

    def __init__(self, providers: Iterable[Provider]) -> None:
        self.all = tuple(providers)

    def offers(self, kind: str, order: Sequence[str] = ()) -> list[Offer]:
        """Those of a kind. ``order``: of a target, names of providers that it wants first."""
        ranked = sorted(self.all, key=lambda each: order.index(each.name) if each.name in order else len(order))
        return [each.offers[kind] for each in ranked if kind in each.offers]

    def reasons(self, kind: str, lacks: Lacks, order: Sequence[str] = ()) -> list[str]:
        """Why nobody can carry a kind out on a target that ``lacks``; empty: somebody can."""
        found: list[str] = []
        for offer in self.offers(kind, order):
            if not (why := offer.reasons(lacks)):
                return []
            found += why
        return list(dict.fromkeys(found)) or [f"no provider offers {kind}"]

    def chosen(self, kind: str, lacks: Lacks = lambda _: None, order: Sequence[str] = ()) -> Offer:
        """The offer that is taken. Raises Lacking with every reason when there is none."""
        for offer in self.offers(kind, order):
            if not offer.reasons(lacks):
                return offer
        raise Lacking(f"{kind}: {'; '.join(self.reasons(kind, lacks, order))}", remedy="see: opensearch-chaos faults")
