"""What every run promises without a line of ``expect``: that its data is right, and that no process of it dies.

By rules 2 each check with :attr:`.Check.promise` is an expectation of 0 wherever the run measures it. A line of
``expect`` about the same metric takes its place; where that line allows more, it says ``because``, and what it allows
beyond the promise counts as relaxed: never as held.

A promise says what was seen. How large a sample must be for a word about a rate is asked by lines alone
(:mod:`.enough`), so a short load keeps its promises or breaks them. What could not be read keeps nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.checks import catalogue, durable
from chaos.checks.check import Check, Scope
from chaos.checks.data.operations import planned
from chaos.checks.measure import Measure, Verdict, judge
from chaos.checks.record import Expected, Record
from chaos.checks.words import Words
from chaos.definitions.topology import has_replicas
from chaos.history import models

RULES = 2
"""The rules by which promises decide without a line."""
PROCESS = "process.ended"
"""The finding about processes that ended unasked. No line can name it: who wants a node to die injects that."""
PROMISED = "=="
WORDS = Words.of(
    missed="A process of the cluster ended by itself",
    question="every process lived that was to live",
    promise="Nothing ends that was not asked to end",
    short="processes that ended unasked",
)
"""How the finding about processes reads."""
LOOKED = {"documents.unexpected": "unexpected_count", "replicas.stale": "stale_count"}
"""Metrics that not every read-back looks for, and what it says where it did."""
WRITTEN = ("acknowledged.lost",)
"""Metrics of which there is nothing to measure where nothing was acknowledged."""


def expectations(record: Record) -> tuple[Expected, ...]:
    """The promises about data that this run measures and no line of it is about."""
    if record.rules < RULES:
        return ()
    named = {expectation.metric for expectation in record.expectations}
    return tuple(
        _expected(metric)
        for metric, check in catalogue.checks().items()
        if check.promise and metric not in named and _measured(record, metric, check)
    )


def _expected(metric: str) -> Expected:
    return Expected(
        metric=metric,
        op=None,
        quantity=metric,
        phases=(),
        comparison=PROMISED,
        value=0.0,
        text=f"{metric} = 0",
        known_weakness=None,
        default=True,
    )


def foreseen(experiment: Mapping[str, Any], *, segments: bool = False) -> tuple[str, ...]:
    """The metrics that an experiment (in normal form) promises without a line, as far as its load tells. ``segments``:
    replicas of an index of its load copy segments."""
    load = experiment.get("load") or {}
    named = {line["metric"] for line in experiment.get("expect") or ()}
    every = {**models.operations(load), **models.closed(load)}
    writes = any(models.writes(name, given) for name, given in every.items())
    return tuple(
        metric
        for metric, check in catalogue.checks().items()
        if check.promise
        and metric not in named
        and (segments or not check.of_replicas)
        and (not check.actions or _acts(experiment, check.actions))
        and (not check.of_store or durable.planned({"experiment": experiment, "topology": experiment.get("topology")}))
        and (any(load.get(name) for name in check.needs) if check.needs else writes or metric not in WRITTEN)
    )


def _acts(experiment: Mapping[str, Any], actions: tuple[str, ...]) -> bool:
    """Whether a phase of an experiment (in normal form) does one of these actions."""
    steps = [step for phase in experiment.get("phases") or () for step in phase.get("do") or ()]
    return any(step.get("kind") in actions for step in steps)


def _measured(record: Record, metric: str, check: Check) -> bool:
    """Whether the run's load measures a promise; without a read-back only what needs none.

    Of reads that were stale the load tells without operations of their own for that: by those that were.
    """
    if check.scope is not Scope.RUN:
        return False
    if check.needs:
        return any(planned(record, name) is not None for name in check.needs) or (
            metric == "stale.reads" and bool(record.stale)
        )
    if check.looked is not None:
        return check.looked(record)
    if check.of_replicas and _without_replicas(record):
        return False
    if check.of_store:  # what was to be restored and was not keeps no promise
        return record.readback is not None and durable.planned(record.plan)
    if record.readback is None or (metric in LOOKED and LOOKED[metric] not in record.readback):
        return False
    return metric not in WRITTEN or _acknowledged(record) > 0


def _without_replicas(record: Record) -> bool:
    """Whether no index of the load was to have any replica, by the files, and none was read back."""
    index = ((record.plan.get("topology") or {}).get("settings") or {}).get("index") or {}
    more = ((record.plan.get("experiment") or {}).get("load") or {}).get("indices") or ()
    every = [index, *({**index, **(each.get("settings") or {})} for each in more)]
    return not any(has_replicas(each) for each in every) and not (record.readback or {}).get("replicas_count")


def _acknowledged(record: Record) -> int:
    """Writes of the run that the history or its read-back knows to be acknowledged."""
    return max(record.acknowledged_writes, int((record.readback or {}).get("acknowledged") or 0))


def misses(record: Record, metric: str, measure: Measure) -> bool:
    """Whether a value breaks what every run promises of this metric, whatever a line allows."""
    check = catalogue.checks().get(metric)
    if record.rules < RULES or check is None or not check.promise or measure.value is None:
        return False
    return judge(measure, PROMISED, 0.0) is not Verdict.PASS
