"""What cannot be asked of an index of the load that is a data stream, or an alias that is rolled over.

Such a name has several indices, and none but the newest is written. A document is found in all of them by a search
alone: a get, an update, a delete and a write by id look in one. So what goes by id is refused here, before a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from chaos.definitions.experiment import ExperimentFile, LoadIndex, rolled
from chaos.definitions.grammar import Grammar
from chaos.definitions.source import Problem
from chaos.definitions.topology import Topology

LEAST_SECONDS = 2.0
"""Between two rollovers: each new index is a task of the cluster manager, and shards that stay."""
NUMBERED = re.compile(r"-\d{6,}$")
"""How the names of the indices under an alias end."""


def check(file: ExperimentFile, grammar: Grammar) -> Iterator[Problem]:
    """Every contradiction, with the path to it."""
    load = file.load
    several = False
    for index in (None, *load.indices):
        given, at = load.of_place(index), (("load",) if index is None else ("load", "indices", index))
        kind = "data_stream" if given.data_stream else "alias" if given.alias else None
        several |= kind is not None
        if given.data_stream and given.alias:
            yield Problem((*at, "alias"), "a data stream is no alias: expected either data_stream or alias")
        if kind is None:
            if given.rollover is not None:
                says = "only a data stream or an alias is rolled over: expected data_stream: true or alias: true beside"
                yield Problem((*at, "rollover"), says)
            continue
        if given.rollover is not None and given.rollover.every is not None and given.rollover.every < LEAST_SECONDS:
            says = f"a new index every {given.rollover.every.text} is more than a cluster bears: expected 2s or more"
            yield Problem((*at, "rollover", "every"), says)
        yield from _operations(file, grammar, index, "a data stream" if kind == "data_stream" else "an alias")
    if several:
        for index in load.indices:
            if NUMBERED.search(index):
                says = f"indices under an alias or a data stream end so: expected another name than {index}"
                yield Problem(("load", "indices", index), says, at_key=True)
    yield from _stable(file)
    if rolled(load)["data_stream"] or load.alias:
        yield from _checks_on_data(file)
        yield from _settings(file)


def copying(file: ExperimentFile, topology: Topology, indices: Sequence[LoadIndex]) -> Iterator[Problem]:
    """Such names whose replicas copy segments: the lag of an index that is made meanwhile is not looked at yet."""
    own = [(each.name, each.settings) for each in indices]
    for index, given in [(None, topology.settings.index), *own]:
        asked = file.load.of_place(index)
        if (asked.data_stream or asked.alias) and topology.segments(given):
            at = ("load",) if index is None else ("load", "indices", index)
            says = "rolled over with segment replication is not there yet: expected replication.type: DOCUMENT for it"
            yield Problem((*at, "data_stream" if asked.data_stream else "alias"), says, at_key=True)


def _operations(file: ExperimentFile, grammar: Grammar, index: str | None, what: str) -> Iterator[Problem]:
    declared = grammar.declared(file.load.workload)
    for name, given in file.load.every.items():
        if file.load.index_of(name) != index or name not in declared:
            continue
        kind = declared[name]
        request = given.operation or kind.usual
        answer = kind.requests.get(request)
        at = file.load.place(name)
        if answer == "get":
            says = f"{what} has several indices, and a get looks in one: expected operation: search"
            yield Problem(at if given.operation is None else (*at, "operation"), says, at_key=given.operation is None)
        if answer == "index" and what == "a data stream":
            says = "documents of a data stream are created, and not written by id: expected operation: bulk and items"
            yield Problem(at if given.operation is None else (*at, "operation"), says, at_key=given.operation is None)
        if given.actions is not None:
            says = f"items that update or delete name documents that may be in an older index of {what}: "
            yield Problem((*at, "actions"), f"{says}expected no actions")
        if given.ids == "automatic":
            says = f"documents of {what} without ids of ours are not there yet: expected no ids"
            yield Problem((*at, "ids"), says)
        if given.client is not None:
            says = f"{given.client.kind} on {what} is not there yet: expected no client here"
            yield Problem((*at, "client"), says, at_key=True)


def _stable(file: ExperimentFile) -> Iterator[Problem]:
    """Phases that wait for a cluster to be green for longer than it ever is: each new index is yellow for a moment."""
    given = [file.load.of_place(index).rollover for index in (None, *file.load.indices)]
    often = min((each.every for each in given if each is not None and each.every is not None), default=None)
    for name, phase in file.phases.items() if often is not None else ():
        if phase.until is not None and often is not None and phase.until.stable >= often:
            says = (
                f"an index that is made every {often.text} is yellow for a moment, so no cluster is green for longer: "
            )
            yield Problem(("phases", name, "until", "stable"), f"{says}expected less")


def _checks_on_data(file: ExperimentFile) -> Iterator[Problem]:
    for name, says in (
        ("cas", "compare-and-set reads and writes documents by id"),
        ("visibility", "probes of visibility are documents that are got by id"),
    ):
        if getattr(file.load, name) is not None:
            remedy = "expected it left out, or the data stream or alias under load.indices"
            yield Problem(("load", name), f"{says}, in one index: {remedy}", at_key=True)


def _settings(file: ExperimentFile) -> Iterator[Problem]:
    """Faults that change settings of the load's index, which is several here, the newest not known beforehand."""
    for phase, written in file.phases.items():
        for kind, number, fault in written.inject.in_order() if written.inject is not None else ():
            if getattr(fault, "reach", None) == "index":
                says = "the load's index is several, and new ones are made meanwhile: expected no such fault, or the "
                yield Problem(("phases", phase, "inject", kind, number), f"{says}data stream or alias in load.indices")
