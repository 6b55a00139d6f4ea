"""Faults by programs of a cluster's owners: how long an experiment would hold each, against its ttl. Pure.

After its ttl such a program undoes the fault by itself, and nobody makes that later. So the phases that hold the fault
must be over before.
"""

from __future__ import annotations

from chaos.definitions import Experiment, Phase
from chaos.definitions.existing import Existing
from chaos.definitions.hooks import Hook
from chaos.definitions.steps import FaultParams
from chaos.faults.evidence import HELD_SECONDS
from chaos.faults.offers import Offers
from chaos.run import plan
from chaos.targets.existing.compare import Row, Sign
from chaos.targets.protocol import HOOK


def refused_ttls(experiment: Experiment, target: Existing, offers: Offers) -> list[Row]:
    """A row for each fault that would still be held when its program undoes it."""
    planned = plan.by_phase(experiment)
    found = []
    for number, phase in enumerate(experiment.phases):
        for each in planned[phase.name]:
            hook = hook_of(each.params, target, offers)
            if hook is None:
                continue
            seconds = held(each.params, experiment.phases[number:]) + HELD_SECONDS + float(hook.within)
            if seconds > hook.ttl:
                says = f"{phase.name} holds it for up to {seconds:.0f} s, its hook undoes it after {hook.ttl.text}"
                remedy = "make the phases until its undo shorter, or agree with the cluster's owners on a longer ttl"
                found.append(Row(each.params.kind, Sign.BLOCKS, says, remedy))
    return found


def hook_of(params: FaultParams, target: Existing, offers: Offers) -> Hook | None:
    """The owners' program that would carry it out; None: somebody else does, or nobody can."""
    if offers.reasons(params.kind):
        return None
    needs = offers.chosen(params.kind).needs
    return next((target.hook(need.removeprefix(HOOK)) for need in needs if need.startswith(HOOK)), None)


def held(params: FaultParams, phases: tuple[Phase, ...]) -> float:
    """Seconds from the beginning of the first of these phases, which injects it, until it is undone, at most."""
    seconds = float(phases[0].longest)
    for phase in phases[1:]:
        if "all" in phase.undo or params.label in phase.undo:
            break
        seconds += float(phase.longest)
    return seconds
