"""A check: everything about one metric, in the file that judges it.

Its name and unit make the grammar of expectations, its measure judges a phase, what it rests on says which gaps in the
evidence take its worth, its words tell people of it, its section is drawn in the report, its trial says which changes
of a record it must notice. A file of this room whose ``CHECKS`` it is in, is found (:mod:`chaos.checks.catalogue`);
nothing lists it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from chaos.checks.measure import Measure
from chaos.checks.prospect import Prospect
from chaos.checks.record import Expected, Record, Span
from chaos.checks.section import Section
from chaos.checks.trial import Trial
from chaos.checks.words import Words


class Scope(StrEnum):
    """Of what there is one value."""

    OPERATION = "operation"
    """Of each operation of the load (``read.good``, ``write.good``), in each phase."""
    PHASE = "phase"
    RUN = "run"


class Rests(StrEnum):
    """What a value rests on, and so what spoils it."""

    TIME = "time"
    """On when something was seen: a busy machine, or an instrument that was not good enough, spoils it."""
    DATA = "data"
    """On documents and answers: they are there whatever the processors did."""
    COPIES = "copies"
    """On where copies are: spoiled by a machine that made nodes leave, and by no other business of it."""


Same = Callable[[Measure], bool]
"""Whether another value would give the same verdict."""


@dataclass(frozen=True)
class Check:
    """One metric. ``unit`` is ``percent``, ``duration`` or ``count``; ``group`` is what a remedy may be for.

    ``measure``: (record, expectation, span) → value; span is None where the scope is the run. ``needs``: operations of
    their own in the load, one of which must be there. ``late``: late answers may decide it, so instruments and machine
    that made answers late are held against its verdict. ``known_by``: of a value that hangs on what comes after its
    phase, (record, span, ns) → the record as it was known at that moment after the phase; None where nothing that it
    hangs on came later. ``doubt``: (record, span, same) → the value without what this machine made late, and why, where
    the verdict hangs on that. ``of_controllers``: it has a value only where failover
    controllers are part of the run, ``of_acting``: and act; ``of_replicas``: only where an index of the load is of
    segment replication; ``of_store``: only where what was written is read back from a remote store alone;
    ``of_uploads``: only with a remote store, ``of_service``: only with a service that has a host, an object store;
    ``of_rollover``: only where the load rolls an index over. ``command``: a line of it names a
    program, whose exit code is its value. ``foresee``: what the plan does not give it, in words and with the number
    that is needed. ``meaning``: what it stands for, in a sentence or two; ``helps``: remedies of
    ``report/meanings.yaml``, in the order in which to try them. ``promise``: a count that every run which measures it
    wants to be 0, whether a line of ``expect`` says so or not (:mod:`.defaults`). ``actions``: actions of phases that
    it is about, one of which must be there. ``looked``: whether a run measured a promise; None where its scope, its
    load and its read-back tell. ``less_is_better``: of a share that is of what went badly; other
    shares are of what went well, and of counts and durations less is better anyway. ``tables``: its figures in
    findings.json by name, whether somebody expects something of it or not; None is left out. ``section``: its part of
    the page, made from the record and the tables; None where it has nothing to show. ``order``: its place among all;
    equals stand as their files do.
    """

    metric: str
    unit: str
    measure: Callable[[Record, Expected, Span], Measure] | Callable[[Record, Expected, None], Measure]
    words: Words
    group: str
    scope: Scope = Scope.PHASE
    rests: Rests = Rests.TIME
    needs: tuple[str, ...] = ()
    late: bool = False
    known_by: Callable[[Record, Span, int], Record | None] | None = None
    doubt: Callable[[Record, Span, Same], tuple[Measure, str] | None] | None = None
    of_controllers: bool = False
    of_replicas: bool = False
    of_store: bool = False
    of_acting: bool = False
    of_uploads: bool = False
    of_service: bool = False
    of_rollover: bool = False
    foresee: Callable[[Prospect], Iterable[str]] | None = None
    meaning: str = ""
    promise: bool = False
    actions: tuple[str, ...] = ()
    looked: Callable[[Record], bool] | None = None
    command: bool = False
    less_is_better: bool = False
    helps: tuple[str, ...] = ()
    tables: Mapping[str, Callable[[Record], Any]] = field(default_factory=dict)
    section: Callable[[Record, Mapping[str, Any]], Section | None] | None = None
    trial: Trial | None = None
    order: int = 1000


def rows(row: Callable[[Record, str, Span], Any]) -> Callable[[Record], dict[str, dict[str, Any]]]:
    """A table of operations and phases from what one of them comes to."""
    return lambda record: {
        op.name: {span.name: row(record, op.name, span) for span in record.spans} for op in record.operations
    }
