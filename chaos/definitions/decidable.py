"""Expectations that no history could fulfil, or that none could miss, by arithmetic alone.

A line of ``expect`` is refused where every value of its metric's domain (:mod:`.domains`) fulfils it (a check that
cannot fail), where none does (one that cannot pass), and where two lines about the same metric in the same phase have
no value in common. What is only unlikely is not refused: the notes of a plan say so (:mod:`chaos.checks.foreseen`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from chaos.base.operations import OperationKind
from chaos.definitions import durable
from chaos.definitions.domains import contradict, why_not
from chaos.definitions.expectations import ExpectationFile, Metric
from chaos.definitions.experiment import ExperimentFile, LoadIndex, judged_in
from chaos.definitions.source import Loc, Problem
from chaos.definitions.topology import STRATEGY, TYPE, Topology, has_replicas


def check(
    file: ExperimentFile,
    declared: Mapping[str, OperationKind],
    topology: Topology,
    indices: Sequence[LoadIndex] = (),
) -> Iterator[Problem]:
    """Every line of ``expect`` that decides nothing, and each that contradicts one before it.

    ``declared``: the operations of the load's workload. ``indices``: of the load, beside its first.
    """
    writes = any(name in file.load.every for name, kind in declared.items() if kind.writes)
    before: dict[tuple[str, str], list[tuple[int, ExpectationFile]]] = {}
    for index, given in enumerate(file.expect):
        loc: Loc = ("expect", index, given.metric)
        if not given.phase:
            says = "phase: no phase is named, so nothing would be judged: expected a phase, a list of phases, or all"
            yield Problem(("expect", index, "phase"), says)
            continue
        if why := why_not(given.wanted):
            yield Problem(loc, f"{given.metric} {given.wanted.text} {why}")
            continue
        if why := lacking(given.grammar, file, topology, indices, writes=writes):
            yield Problem(loc, f"{given.metric} {why}", at_key=True)
        yield from _contradictions(index, given, file, before)


def lacking(
    metric: Metric, file: ExperimentFile, topology: Topology, indices: Sequence[LoadIndex], *, writes: bool
) -> str | None:
    """What a metric is of and the experiment does not have, so that it could never be measured; in words."""
    if metric.of_writes and not writes:
        return "is about documents that the load writes, and it writes none: expected an operation that writes in load"
    if metric.actions and not any(kind in metric.actions for kind in _actions(file)):
        wanted = " or ".join(metric.actions)
        return f"is about the action {wanted}, and no phase has one: expected {wanted} under do of a phase"
    if metric.of_controllers and file.controller is None:
        return "is of failover controllers, and there are none: expected controller, for example controller: {}"
    if metric.of_acting and (file.controller is None or not file.controller.act):
        return "is of what failover controllers do, and none acts: expected controller with act: true"
    if metric.of_uploads and topology.remote_store is None:
        return f"is of a remote store, and topology {topology.name} has none: expected remote_store there"
    if metric.of_service and not topology.service_hosts:
        return f"is of an object store, and topology {topology.name} has none: expected a service of kind s3 there"
    if metric.of_rollover and not any(file.load.of_place(each).rollover for each in (None, *file.load.indices)):
        return "is of rollovers, and no index of the load has any: expected rollover, for example {every: 20s}"
    if metric.of_store and (why := durable.lacking(file.tags, topology)):
        return why
    if metric.of_replicas:
        return _without_segments(topology, indices)
    return None


def _actions(file: ExperimentFile) -> Iterator[str]:
    """The kind of each action of each phase."""
    for phase in file.phases.values():
        if phase.do is not None:
            yield from (kind for kind, *_ in phase.do.in_order())


def _without_segments(topology: Topology, indices: Sequence[LoadIndex]) -> str | None:
    """Why no replica of an index of the load copies segments; in words."""
    every = [topology.settings.index, *(each.settings for each in indices)]
    copying = [each for each in every if topology.segments(each)]
    if not copying:
        return (
            f"is of replicas that copy segments, and no index of the load has any: expected {STRATEGY}: SEGMENT under "
            f"settings.node of the topology, or {TYPE}: SEGMENT for an index"
        )
    if not any(has_replicas(each) for each in copying):
        return (
            "is of replicas that copy segments, and these indices have none: expected number_of_replicas of 1 or more"
        )
    return None


def _contradictions(
    index: int,
    given: ExpectationFile,
    file: ExperimentFile,
    before: dict[tuple[str, str], list[tuple[int, ExpectationFile]]],
) -> Iterator[Problem]:
    """A line that is known to fail contradicts none: it is a pass that another one holds and this one does not."""
    if given.known_weakness is not None:
        return
    for phase in judged_in(given, file) or ("",):
        earlier = before.setdefault((given.metric, phase), [])
        for other, one in earlier:
            if contradict(one.wanted, given.wanted):
                where = f" in phase {phase}" if phase else ""
                says = (
                    f"{given.metric} {given.wanted.text} contradicts {one.wanted.text}{where}, expectation {other + 1}"
                )
                yield Problem(("expect", index, given.metric), f"{says}: no value is both; expected one of them")
                return
        earlier.append((index, given))
