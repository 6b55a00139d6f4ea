"""What arithmetic says of a plan before anything runs: what will be inconclusive, or holds whatever happens.

Notes for ``validate`` and ``plan``, kept in plan.json; they refuse nothing. The numbers that are needed are those of
the checks themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from chaos.base import text
from chaos.base.units import Rate
from chaos.checks import catalogue, enough, regained
from chaos.checks.check import Rests
from chaos.checks.good import FEWEST
from chaos.checks.prospect import Length, Prospect
from chaos.definitions.experiment import Experiment, Operation, Phase

NONE = Length(0.0, 0.0)
LOOK = 1.0
"""Seconds between two looks at the cluster (:mod:`chaos.instruments.sampler`)."""


def notes(experiment: Experiment) -> list[str]:
    """Each once, in the order of the file; empty where arithmetic has nothing to say."""
    found = [*_phases(experiment), *_healthy(experiment), *_changes(experiment)]
    for expectation in experiment.expect:
        check = catalogue.of(expectation.metric)
        if check is None or check.foresee is None:
            continue
        for phase in expectation.phases:
            found += check.foresee(_prospect(experiment, expectation, phase))
    if any(catalogue.rests_on(each.metric, Rests.DATA) for each in experiment.expect):
        found += _writes(experiment)
    return list(dict.fromkeys(found))


def length(phase: Phase) -> Length:
    """How long a phase may last."""
    if phase.duration is not None:
        return Length(float(phase.duration), float(phase.duration))
    return Length(float(phase.until.stable) if phase.until is not None else 0.0, float(phase.longest))


def commands(phase: Phase) -> bool:
    """Whether a phase changes anything, or lets others do so."""
    return bool(phase.undo or phase.inject or phase.do or phase.during)


def watched(experiment: Experiment, name: str) -> Length:
    """How long a phase is watched: itself, and the phases after it until something is commanded."""
    found = NONE
    for phase in experiment.phases:
        if phase.name == name:
            found = length(phase)
        elif found is not NONE:
            if commands(phase):
                break
            found += length(phase)
    return found


def healthy(experiment: Experiment) -> float:
    """Seconds of the phases before the first that commands anything."""
    seconds = 0.0
    for phase in experiment.phases:
        if commands(phase):
            break
        seconds += length(phase).most
    return seconds


def begins(experiment: Experiment, name: str) -> Length:
    """When a phase begins, counted from the first one."""
    found = NONE
    for phase in experiment.phases:
        if phase.name == name:
            break
        found += length(phase)
    return found


def rate_in(experiment: Experiment, operation: Operation, phase: Phase) -> float:
    """Arrivals per second of an operation in a phase: the mean, or the most where it is not known when the phase is."""
    if not operation.varies:
        return float(operation.rate)
    start, most = begins(experiment, phase.name), length(phase).most
    if start.least == start.most and most > 0:
        return operation.profile.expected(start.most, start.most + most) / most
    return operation.profile.most(start.least, start.most + most)


def before_commands(experiment: Experiment, operation: Operation) -> float:
    """Arrivals of an operation before the first command of the run."""
    seconds = healthy(experiment)
    return operation.profile.expected(0.0, seconds) if operation.varies else float(operation.rate) * seconds


def _prospect(experiment: Experiment, expectation: Any, phase: str) -> Prospect:
    load = experiment.load
    operation = load.operation(str(expectation.op))
    rates = {each.name: rate_in(experiment, each, experiment.phase(phase)) for each in load.operations}
    return Prospect(
        text=expectation.text,
        quantity=expectation.quantity,
        comparison=expectation.comparison,
        value=float(expectation.value),
        phase=phase,
        length=length(experiment.phase(phase)),
        watch=watched(experiment, phase),
        op=expectation.op,
        rate=rates[operation.name] if operation is not None else 0.0,
        rates=rates,
        writes=sum(rates[each.name] for each in load.operations if each.writes),
        lowest=float(operation.rate) if operation is not None else None,
        before={each.name: before_commands(experiment, each) for each in load.operations},
        timeout=float(load.client.timeout) if load.client.attempts == 1 else None,
        healthy=healthy(experiment),
        looks=_looks(experiment, str(expectation.quantity)),
    )


def _looks(experiment: Experiment, quantity: str) -> float:
    """Looks at documents in a second: on every data node; where replicas copy segments those of primaries apart."""
    topology, probes = experiment.topology, experiment.load.visibility
    nodes = len(topology.data_nodes)
    if topology.segments(topology.settings.index):
        nodes = nodes - 1 if quantity.startswith("replicas.") else 1
    return float(probes.rate) * nodes if probes is not None else 0.0


def _phases(experiment: Experiment) -> Iterator[str]:
    """Phases that are over before anything in them could be seen."""
    for phase in experiment.phases:
        most = length(phase).most
        rates = {each.name: rate_in(experiment, each, phase) for each in experiment.load.operations}
        empty = {name: rate for name, rate in rates.items() if rate * most < 1}
        if empty:
            every = {name: f" (one every {text.seconds(1 / rate)})" if rate > 0 else "" for name, rate in empty.items()}
            needed = (
                f"{text.seconds(max(1 / rate for rate in empty.values()))} are needed at least"
                if all(empty.values())
                else "list arrivals in it, or make it a part of another phase"
            )
            yield (
                f"phase {phase.name} lasts {text.seconds(most)}, and no "
                f"{text.listed([name + how for name, how in every.items()])} falls in it: the run will be "
                f"inconclusive; {needed}"
            )
        elif most < LOOK:
            yield (
                f"phase {phase.name} lasts {text.seconds(most)}, and the cluster is looked at every {LOOK:g} s: what "
                f"happens to it in this phase will not be known; {LOOK:g} s are needed at least"
            )


def _healthy(experiment: Experiment) -> Iterator[str]:
    """Nothing to compare with: no phase, or too short a one, before the first command."""
    if not any(commands(phase) for phase in experiment.phases):
        return
    seconds = healthy(experiment)
    needed = max(_seconds_for(FEWEST, each) for each in experiment.load.operations)
    if seconds >= needed:
        return
    says = "no phase comes before the first fault: whether users were served well before it is not measured, and "
    says += f"outages are judged against {text.percent(regained.FLOOR)} of failures"
    if seconds:
        says = f"only {text.seconds(seconds)} come before the first fault: whether users were served well before it "
        says += "rests on few arrivals"
    if math.isinf(needed):
        yield f"{says}; a list of times has fewer than {FEWEST} arrivals"
    else:
        yield f"{says}; {text.seconds(needed)} are needed for {FEWEST} arrivals of each operation"


def _seconds_for(number: int, operation: Operation) -> float:
    """How long (s) from the first phase on so many arrivals take."""
    if not operation.varies:
        return number / float(operation.rate)
    if operation.times:
        return operation.times[number - 1] if number <= len(operation.times) else math.inf
    low, high = 0.0, number / float(operation.rate)
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if operation.profile.number(middle) < number else (low, middle)
    return high


def _changes(experiment: Experiment) -> Iterator[str]:
    """A rate that would change after the last phase."""
    seconds = sum(length(phase).most for phase in experiment.phases)
    for operation in experiment.load.operations:
        late = sum(at >= seconds for at in operation.times)
        if experiment.phases and late:
            yield (
                f"{late} of the {len(operation.times)} listed arrivals of {operation.name} come after the phases, "
                f"which last {text.seconds(seconds)} at most: they are never sent"
            )
        last = operation.changes[-1][0] if operation.changes else 0.0
        if experiment.phases and last > seconds:
            yield (
                f"the rate of {operation.name} changes until {text.seconds(last)} after the begin of the first phase, "
                f"and the phases last {text.seconds(seconds)} at most: it never comes to "
                + Rate(operation.changes[-1][1]).text
            )


def _writes(experiment: Experiment) -> Iterator[str]:
    opened = [each for each in experiment.load.operations if each.writes]
    if not opened or len(opened) < len(experiment.load.writers):
        return
    seconds = sum(length(phase).most for phase in experiment.phases)
    if seconds <= 0:
        return
    rates = [
        each.profile.expected(0.0, seconds) / seconds * each.items if each.varies else each.documents for each in opened
    ]
    if note := enough.foreseen(sum(rates), seconds):
        yield note
