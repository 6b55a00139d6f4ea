"""A check: everything about one metric, in the file that judges it.

Its name and unit make the grammar of expectations, its measure judges a phase, what it rests on says which gaps in the
evidence take its worth, its words tell people of it. :mod:`chaos.checks.catalogue` has them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from chaos.checks.measure import Measure
from chaos.checks.prospect import Prospect
from chaos.checks.record import Expected, Record, Span
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
    that made answers late are held against its verdict. ``doubt``: (record, span, same) → the value without what this
    machine made late, and why, where the verdict hangs on that. ``of_controllers``: it has a value only where failover
    controllers are part of the run. ``foresee``: what the plan does not give it, in words and with the number that is
    needed. ``meaning``: what it stands for, in a sentence or two; ``helps``: names of remedies of ``meanings.yaml``,
    first things first. ``promise``: a count that every run which measures it wants to be 0, whether a line of
    ``expect`` says so or not (:mod:`.defaults`).
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
    doubt: Callable[[Record, Span, Same], tuple[Measure, str] | None] | None = None
    of_controllers: bool = False
    foresee: Callable[[Prospect], Iterable[str]] | None = None
    meaning: str = ""
    helps: tuple[str, ...] = ()
    promise: bool = False
