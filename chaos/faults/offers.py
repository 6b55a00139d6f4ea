"""Who carries a kind of fault out: what providers offer, and which offer a target takes.

A kind of fault is an *intent*: what shall happen, to whom, and what must then be seen. A *provider* carries intents out
by one means: it makes the moves. What it offers, and what that needs of a target, is an :class:`Offer`. Everybody who
wants to know whether a kind can be had asks the same :class:`Offers`: plan, skips, the random mode, ``faults``, pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chaos.base.errors import Lacking
from chaos.definitions.steps import FaultParams, Scene
from chaos.faults.evidence import Evidence
from chaos.faults.fault import Grade, Link, Worker
from chaos.faults.moves import Reversible
from chaos.targets.protocol import Lab
from chaos.targets.wiring import Wiring

Lacks = Callable[[str], str | None]
"""Capability → None, or why a target has it not, in words."""


@dataclass(frozen=True)
class Aim:
    """What a kind asks of a provider: a fault's id, and whom it is to hit, resolved. Data, no target in it."""

    id: str
    scene: Scene
    wiring: Wiring
    nodes: tuple[str, ...] = ()
    links: frozenset[Link] = frozenset()


@dataclass(frozen=True)
class Means:
    """How a provider carries out what was asked: moves with their inverses, from data alone.

    ``needs``: capabilities beyond those of the offer. ``in_order``: moves on different hosts are not made at once.
    ``worker`` starts after the moves and ends before their undo. ``read``: see :class:`chaos.faults.fault.Fault`.
    ``evidence``: what must be seen where the kind's own, which it is given, cannot be looked at or is not enough.
    ``silences``: nodes that nobody outside reaches meanwhile, we neither, though the kind hits links alone.
    ``links``: those that are hit, where the provider cannot hit all that the kind means; None: all. ``claims``: what it
    holds beside what the kind does.
    """

    moves: tuple[Reversible, ...]
    needs: tuple[str, ...] = ()
    in_order: bool = False
    worker: Worker | None = None
    read: Callable[[Lab], tuple[Reversible, ...]] | None = None
    evidence: Callable[[Evidence], Evidence] = lambda own: own
    silences: tuple[str, ...] = ()
    links: frozenset[Link] | None = None
    claims: frozenset[str] = frozenset()


Make = Callable[[Any, Aim], Means]
"""(a kind's parameters, whom they hit) → how it is done."""


@dataclass(frozen=True)
class Offer:
    """One kind by one provider. ``needs``: capabilities of the target.

    ``mechanism``: the technique, and ``undoing``: what its undo does; for plan, report and catalogue. ``grade``: of the
    proof that the kind can have with this provider. ``proof``: what shows it, where that is not what the kind says.
    ``differs``: how what it does differs from what the kind says, where it does: then it is approximate, else exact.
    """

    kind: str
    provider: str
    make: Make
    mechanism: str
    undoing: str
    needs: tuple[str, ...]
    grade: Grade
    proof: str = ""
    differs: str = ""

    def reasons(self, lacks: Lacks) -> list[str]:
        """Why it cannot be had on a target; empty: it can."""
        return list(dict.fromkeys(reason for need in self.needs if (reason := lacks(need))))


class Provider:
    """One means to carry kinds of fault out. ``says``: what it is, in a line.

    ``grade``: of the proofs that kinds have with it, where an offer says no other. ``of_others``: only for what others
    own, so it comes after all that a lab can have.
    """

    def __init__(self, name: str, says: str, *, grade: Grade, of_others: bool = False) -> None:
        self.name, self.says, self.grade, self.of_others = name, says, grade, of_others
        self.offers: dict[str, Offer] = {}

    def carries_out(
        self,
        *kinds: type[FaultParams],
        mechanism: str,
        undoing: str,
        needs: tuple[str, ...] = (),
        grade: Grade | None = None,
        proof: str = "",
        differs: str = "",
    ) -> Callable[[Make], Make]:
        """Decorates the function that carries out these kinds."""

        def register(make: Make) -> Make:
            for kind in kinds:
                self.offers[kind.kind] = Offer(
                    kind.kind, self.name, make, mechanism, undoing, needs, grade or self.grade, proof, differs
                )
            return make

        return register


class Providers:
    """All that there are. Where two offer the same, a target's order decides, and then this one."""

    def __init__(self, providers: Iterable[Provider], kinds: Mapping[str, type[FaultParams]]) -> None:
        self.all, self.kinds = tuple(sorted(providers, key=lambda each: each.of_others)), dict(kinds)

    def of(self, kind: str, order: Sequence[str] = ()) -> list[Offer]:
        """The offers of a kind; those of the kind that it is made of too, where it is made of one, by providers that
        have no offer of their own for it.

        ``order``: of a target, names of providers that it wants first.
        """
        known = self.kinds[kind]
        found = [each.offers[kind] for each in self.all if kind in each.offers]
        if known.made_of is not None:
            own = {offer.provider for offer in found}
            found += [_through(offer, kind) for offer in self.of(known.made_of) if offer.provider not in own]
        last = len(order)
        found.sort(
            key=lambda offer: (
                order.index(offer.provider) if offer.provider in order else last,
                self.of_others(offer.provider),
            )
        )
        return [replace(offer, needs=(*offer.needs, *known.sees)) for offer in found]

    def of_others(self, provider: str) -> bool:
        """Whether this one is only for what others own."""
        return any(each.of_others for each in self.all if each.name == provider)

    def on(
        self, lacks: Lacks = lambda _: None, order: Sequence[str] = (), refused: Mapping[str, str] | None = None
    ) -> Offers:
        """What can be had on one target. Without a word about it: of a target that has everything."""
        return Offers(self, lacks, tuple(order), refused or {})


def _through(offer: Offer, kind: str) -> Offer:
    """An offer of the kind that another one is made of, for that other one."""
    return replace(offer, kind=kind, make=lambda params, aim: offer.make(params.part, aim))


@dataclass(frozen=True)
class Offers:
    """What one target can have of all kinds. ``order``: of providers, as the target wants it.

    ``refused``: kinds that it takes from nobody, with the reason.
    """

    providers: Providers
    lacks: Lacks
    order: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def kinds(self) -> Mapping[str, type[FaultParams]]:
        return self.providers.kinds

    def reasons(self, kind: str) -> list[str]:
        """Why nobody can carry a kind out here; empty: somebody can."""
        if kind in self.refused:
            return [self.refused[kind]]
        every = self.providers.of(kind, self.order)
        if any(not offer.reasons(self.lacks) for offer in every):
            return []
        # what is missed is what would be taken first; and only others' clusters can have what is of others
        named = [offer for offer in every if offer.provider in self.order]
        missed = named or [offer for offer in every if not self.providers.of_others(offer.provider)]
        found = [reason for offer in missed for reason in offer.reasons(self.lacks)]
        return list(dict.fromkeys(found)) or [f"no provider offers {kind}"]

    def chosen(self, kind: str) -> Offer:
        """The offer that is taken. Raises Lacking with every reason when there is none."""
        if reasons := self.reasons(kind):
            raise Lacking(f"{kind}: {'; '.join(reasons)}", remedy="see: opensearch-chaos faults")
        return self.meant(kind)

    def meant(self, kind: str) -> Offer:
        """The offer that is taken; where none can be had here the first, to be shown in a plan that is then refused."""
        every = self.providers.of(kind, self.order)
        if not every:
            raise Lacking(f"no provider offers {kind}", remedy="see: opensearch-chaos faults")
        return next((offer for offer in every if not offer.reasons(self.lacks)), every[0])
