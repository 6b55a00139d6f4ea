"""What is said of a plan before anything runs, without refusing it: for ``validate``, ``plan``, plan.json and the page.

Values that the command line gave, delays that may not bite, what arithmetic says of expectations
(:mod:`chaos.checks.foreseen`), green that cannot come or not in time, faults on links that no request takes, what of
documents is not compared, programs that are not on this machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from chaos.base import text
from chaos.base.errors import ChaosError, InvalidInput
from chaos.checks import foreseen
from chaos.definitions import Experiment, client_host, overriding, slis
from chaos.definitions.detection import Detection
from chaos.faults.offers import Offers
from chaos.load import workloads
from chaos.run import commanding, guards, plan
from chaos.targets.wiring import Wiring


def of(
    experiment: Experiment,
    seed: int,
    offers: Offers,
    wiring: Wiring | None = None,
    found: Detection | None = None,
) -> list[str]:
    """Every note, once. ``wiring`` and ``found``: as for :func:`chaos.run.plan.foreseen`."""
    said = [
        *overriding.sentences(experiment.overrides),
        *plan.blunt(experiment),
        *foreseen.notes(experiment),
        *_alerts(experiment),
        *_greens(experiment, seed, offers, wiring, found),
        *_unused(experiment, seed, offers, wiring),
        *_not_compared(experiment),
        *_absent(experiment),
    ]
    return list(dict.fromkeys(said))


def _alerts(experiment: Experiment) -> Iterator[str]:
    """Expectations and guards that alerts cannot answer in time, by their ``for``."""
    for expected in experiment.expect:
        name, quantity = slis.parted(expected.metric) or ("", "")
        rules = experiment.slis[name].alerts if quantity in slis.OF_ALERTS else ()
        if not rules:
            continue
        soonest = min(rules, key=lambda rule: rule.for_)
        named = f"{soonest.alert} has for: {text.seconds(soonest.for_)}"
        for phase in map(experiment.phase, expected.phases):
            lasts = phase.longest
            if quantity == slis.FIRING and soonest.for_ >= lasts:
                yield (
                    f"{expected.text} in {phase.name} can only fail by what began before: the phase lasts "
                    f"{text.seconds(lasts)}, and {named}"
                )
            elif quantity == slis.FIRES and expected.value < soonest.for_:
                yield (
                    f"{expected.text} in {phase.name} can only hold by what began before: {named}; expected a bound "
                    f"of {text.seconds(soonest.for_)} or more"
                )
            elif quantity == slis.FIRES and lasts <= expected.value:
                yield (
                    f"{expected.text} in {phase.name} can never fail: the phase lasts {text.seconds(lasts)}; expected "
                    "a longer phase"
                )


def _greens(
    experiment: Experiment, seed: int, offers: Offers, wiring: Wiring | None, found: Detection | None
) -> Iterator[str]:
    """Phases that wait for green, which cannot come, or may count only after their deadline."""
    for name, green in plan.foreseen(experiment, seed, offers, wiring, found).items():
        until = experiment.phase(name).until
        assert until is not None
        if green.never:
            yield (
                f"phase {name} waits for green, which cannot come while {green.never}: it will end by its deadline, "
                "inconclusive; undo that before"
            )
        elif green.after > until.within:
            yield (
                f"phase {name} may be inconclusive: {green.says}; within is {until.within.text}, and "
                f"{text.seconds(green.after)} are needed"
            )


def _unused(experiment: Experiment, seed: int, offers: Offers, wiring: Wiring | None) -> Iterator[str]:
    """Faults on links of clients alone, in zones from which no request is sent: users cannot notice them."""
    topology = experiment.topology
    plain = wiring or Wiring.of_topology("plan", topology)
    every = {client_host(zone) for zone in experiment.topology.zones}
    sending = {client_host(zone) for zone in experiment.client_zones}
    for each in plan.faults(experiment):
        try:
            fault = plan.preview(each, experiment, seed, plain, offers)
        except ChaosError:  # what cannot be had is told elsewhere
            continue
        touched = [every & set(link) for link in fault.links] if fault is not None else []
        if touched and all(touched) and not (hosts := set().union(*touched)) & sending:
            zones = text.listed(sorted(host.removeprefix("client-") for host in hosts))
            yield (
                f"{each.params.describe()} in phase {each.phase} touches no request of the load: no client sends from "
                f"zone {zones}, they are in {text.listed(list(experiment.client_zones))}; load.client.zones says where"
            )


def _not_compared(experiment: Experiment) -> Iterator[str]:
    """What the read-back cannot say of the documents of these workloads."""
    every = [workloads.of(*each) for each in experiment.load.datasets]
    for workload in {each.name: each for each in every}.values():
        if workload.text is not None:
            continue
        fields = text.listed(list(workload.fields))
        yield (
            f"documents of the workload {workload.name} are read back by id, by their whole source and by the doc "
            f"values of {fields}; by which other values and words they are found is not compared"
        )


def _absent(experiment: Experiment) -> Iterator[str]:
    """Programs that a run needs and this machine does not have: a run here is refused, one elsewhere may not be."""
    for refuse in (partial(guards.refuse_absent, experiment.guards), partial(commanding.refuse_absent, experiment)):
        try:
            refuse()
        except InvalidInput as error:
            yield f"a run on this machine will be refused: {error.message}"
