"""Evidence by effect that the provider's own word has to corroborate: a fault is proven when both show it.

The word alone proves nothing, since a provider that is asked to break something may say that it did. An effect without
it proves nothing either: what is seen while the provider does nothing is no fault of ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from chaos.base.errors import ChaosError
from chaos.faults.evidence import Evidence, Look, Probe
from chaos.faults.moves import said
from chaos.faults.probes import Pair
from chaos.targets.protocol import Lab


class Corroborated:
    """The evidence ``own``, which a word corroborates. ``patience``: seconds of each deadline at the least.

    ``what``: whose word it is, and about what; ``expected``: what it must be while the fault is in effect.
    """

    what: str
    expected: str

    def __init__(self, own: Evidence, *, patience: float = 0.0) -> None:
        self._own = own
        self.effect_deadline = max(own.effect_deadline, patience)
        self.gone_deadline = max(own.gone_deadline, patience)
        self.held_deadline, self.holds = own.held_deadline, own.holds

    def word(self, lab: Lab, *, over: bool) -> tuple[str, bool]:
        """What is said, and whether it fits: a fault in effect, or one that is ``over``. May raise ChaosError."""
        raise NotImplementedError

    def beside(self, links: frozenset[Pair], nodes: frozenset[str]) -> None:
        self._own.beside(links, nodes)

    def before(self, lab: Lab) -> Look:
        return self._own.before(lab)

    def in_effect(self, lab: Lab) -> Look:
        return self._with(lab, self._own.in_effect(lab), over=False)

    def held(self, lab: Lab) -> Look:
        return self._with(lab, self._own.held(lab), over=False)

    def still(self, lab: Lab) -> Look | None:
        look = self._own.still(lab)
        return None if look is None else self._with(lab, look, over=False)

    def suspect(self, pairs: Sequence[Pair]) -> None:
        self._own.suspect(pairs)

    def gone(self, lab: Lab) -> Look:
        return self._with(lab, self._own.gone(lab), over=True)

    def close(self) -> None:
        self._own.close()

    def _with(self, lab: Lab, look: Look, *, over: bool) -> Look:
        try:
            says, well = self.word(lab, over=over)
        except ChaosError as error:
            says, well = f"no answer: {said(error)}", False
        return with_probe(look, Probe(self.what, "over" if over else self.expected, says, well))


def with_probe(look: Look, probe: Probe) -> Look:
    """The look with one more probe, without which nothing is proven."""
    says = look.says if probe.ok else f"{look.says}; {probe.what}: {probe.measured}"
    return Look(look.proven and probe.ok, says, [*look.probes, probe])
