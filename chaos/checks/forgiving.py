"""Verdicts that hang on what is not the cluster's: the machine's processors, and instruments that stood still.

One rule for all of it. A *cause* is a clock of the time that was not the cluster's: seconds in which certainly no
processor was free (:mod:`.starved`), or in which an instrument on the path stood still (:mod:`.standing`). That time is
taken out of the life of each arrival that the cause touches, from its intended start to its answer; what the load
driver sent late is the driver's as well, arrival by arrival. Where several causes fall into one moment it counts once.

* An answer that was complete, but late, is *forgivable* when it had been in time without that time.
* What failed (refused, reset, timed out, rejected, an error, a partial answer) while an instrument stood still, and had
  been within its objective without that time, is forgivable too. A driver that is stopped hears no answers and lets its
  own timers run out; it sends what it held up in one burst, to nodes whose health it has not looked at meanwhile; a
  node that is cut off by its own Toxiproxy makes others answer in part. Who had waited for longer than its objective
  without any of this was not good by itself, and stays so. A machine that is busy only makes late: it forgives no
  failure. One exception: where the run was held to some of the processors, or to a quota (:mod:`.usable`), a client's
  own timeout is forgivable when without that time it had waited for no longer than the objective: when the answer would
  have come is not known.

* What the runner saw, and what a failover controller did, after they had stood still may have been as much earlier.

Forgivable is not good, and nothing here ever makes a pass. A finding whose verdict would be another one if the
forgivable arrivals had been good hangs on the cause, and is inconclusive: it says on which, the first that alone
decides it, else those without which it would not. It is symmetrical: a fault that bites only because an instrument
stood still shows nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from chaos.checks import standing, starved, usable
from chaos.checks.arrivals import Arrivals, Bools, Floats
from chaos.checks.clocks import Clock
from chaos.checks.data import visibility
from chaos.checks.measure import Measure
from chaos.checks.record import OUTCOMES, SECOND, Record, Span
from chaos.checks.standing import DRIVER, Stoppage

MACHINE = starved.NONE_FREE
TIMEOUT = OUTCOMES["timeout"]
NEVER = [OUTCOMES[name] for name in ("ok", "unknown", "wrong")]
"""Outcomes that are no failure, that were not recorded, or that no pause explains."""
NOBODY = Clock.of(())


@dataclass(frozen=True)
class Cause:
    """Something that is not the cluster's. ``who``: a word for it; ``stoppages``: none for the machine."""

    who: str
    machine: Clock = NOBODY
    stoppages: tuple[Stoppage, ...] = ()

    @property
    def sends_late(self) -> bool:
        """Whether the lateness of each arrival's sending belongs to it."""
        return self.who == DRIVER

    def words(self, record: Record, span: Span) -> str:
        """When it made arrivals of the phase that is judged late, in words that go on from "were late"."""
        if self.who == MACHINE:
            return f"while {starved.none_free(record)}"
        near = [each for each in self.stoppages if each.start < span.end and each.over > span.start]
        if near or self.stoppages:
            return f"while {standing.words(record, near or self.stoppages)}"
        return f"because {self.who} sent them late"


def causes(record: Record) -> tuple[Cause, ...]:
    """All of them: the machine first, then instruments in the order in which they first stood still."""
    found = [Cause(MACHINE, starved.Clock(record))] if starved.applies(record) else []
    by_who: dict[str, list[Stoppage]] = {DRIVER: []}
    for stoppage in standing.stoppages(record):
        by_who.setdefault(stoppage.who, []).append(stoppage)
    for stoppage in (*standing.runner(record), *standing.controllers(record)):
        by_who.setdefault(stoppage.who, []).append(stoppage)
    return (*found, *(Cause(who, stoppages=tuple(some)) for who, some in by_who.items()))


def without(record: Record, some: tuple[Cause, ...]) -> Record | None:
    """The record with what these causes together made late or fail as good; None when they changed nothing."""
    clocks, stopped = _clocks(record, some)
    driver = any(cause.sends_late for cause in some)
    limited = any(cause.who == MACHINE for cause in some) and usable.limited(record)
    other = copy.copy(record)
    other.arrivals = dict(record.arrivals)
    changed = False
    # under rules 1 a request that is refused as wrong is this suite's own mistake, and no failure
    never = NEVER if record.rules >= 2 else [*NEVER, OUTCOMES["client_error"]]
    for op in record.operations:

        def forgivable(part: Arrivals, within: float = op.good_within) -> Bools:
            nonlocal changed
            mask: Bools = ~part.good & ((part.outcome == OUTCOMES["ok"]) | ~np.isin(part.outcome, never))
            if mask.any():
                mask[mask] = _forgivable(part.where(mask), within, clocks, stopped, driver, limited)
                changed |= bool(mask.any())
            return mask

        other.arrivals[op.name] = record.arrivals[op.name].forgiving(forgivable, op.good_within)
    by_who = {cause.who: cause.stoppages for cause in some}
    if looked := by_who.get(standing.RUNNER):
        changed |= _moved(other, standing.seen_earlier(other, looked))
    if led := [each for stoppages in by_who.values() for each in stoppages if each.taken is not None]:
        changed |= _moved(other, standing.decided_earlier(other, led))
    everybody = _everybody(clocks)
    if record.probes and len(everybody.start):
        other.probes = visibility.forgiven(record, everybody)
        changed |= other.probes != record.probes
    return other if changed else None


def _moved(record: Record, events: list[dict[str, Any]]) -> bool:
    """Give a record other events; whether they are others."""
    changed = events != record.events
    record.events = events
    for derived in ("_by_kind", "origin", "healthy", "load_end"):
        record.__dict__.pop(derived, None)
    return changed


def _forgivable(
    bad: Arrivals, within: float, clocks: dict[int, Clock], stopped: dict[int, Clock], driver: bool, limited: bool
) -> Bools:
    """Which of some arrivals that were not good had been, without the time that was not the cluster's.

    ``limited``: the machine is one of the causes, and the run could not use all of it.
    """
    intended, client = bad.intended, bad.client
    sent = np.where(bad.start > 0, bad.start, intended)
    end = np.where(bad.end > 0, bad.end, intended + 1)  # one that was dropped lives for a moment
    begin = np.maximum(sent, intended) if driver else intended
    ours: Floats = (begin - intended) / SECOND
    stood = np.zeros(len(bad))
    for number in np.unique(client):
        mine = client == number
        ours[mine] += clocks.get(int(number), clocks[-1]).between(begin[mine], end[mine])
        stood[mine] = stopped.get(int(number), stopped[-1]).between(intended[mine], end[mine])
    in_time: Bools = (end - intended) / SECOND - ours <= within
    waited = (bad.outcome == TIMEOUT) & limited
    either: Bools = in_time & ((bad.outcome == OUTCOMES["ok"]) | (stood > 0) | waited)
    return either


def _clocks(record: Record, some: tuple[Cause, ...]) -> tuple[dict[int, Clock], dict[int, Clock]]:
    """All of it, and the stoppages alone, by the number of the client; -1 for any other client, and for none."""
    machine = NOBODY
    for cause in some:
        machine = machine.joined(cause.machine) if len(machine.start) else cause.machine
    stoppages = [each for cause in some if cause.who != standing.RUNNER for each in cause.stoppages]
    clients = {-1, *(standing.number_of(record, each) for each in stoppages if each.client is not None)}
    stopped = {
        number: Clock.of(
            each.out for each in stoppages if each.client is None or standing.number_of(record, each) == number
        )
        for number in clients
    }
    return {number: machine.joined(each) if len(each.start) else machine for number, each in stopped.items()}, stopped


def _everybody(clocks: dict[int, Clock]) -> Clock:
    """Whoever is touched: looks for documents do not say through which client's Toxiproxy they went."""
    whole = clocks[-1]
    for number, clock in clocks.items():
        whole = whole.joined(clock) if number >= 0 else whole
    return whole


class Doubt:
    """On which cause a verdict hangs. The records that it takes are made when they are first needed."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._alone: dict[str, Record | None] = {}

    @cached_property
    def _causes(self) -> tuple[Cause, ...]:
        return causes(self._record)

    @cached_property
    def _all(self) -> Record | None:
        return without(self._record, self._causes)

    @property
    def forgiven(self) -> Record | None:
        """The record with all forgivable arrivals as good; None when there is none."""
        return self._all

    def decides(
        self, measure: Callable[[Record], Measure], same: Callable[[Measure], bool], span: Span
    ) -> tuple[Measure, str] | None:
        """What would be measured without the causes that decide, and what they did; None: the verdict stands."""
        if self._all is None or same(found := measure(self._all)):
            return None
        for cause in self._causes:
            if cause.who not in self._alone:
                self._alone[cause.who] = without(self._record, (cause,))
            alone = self._alone[cause.who]
            if alone is not None and not same(measured := measure(alone)):
                return measured, self._says((cause,), span)
        needed = []
        for cause in self._causes:
            rest = without(self._record, tuple(other for other in self._causes if other is not cause))
            if rest is None or same(measure(rest)):
                needed.append(cause)
        return found, self._says(tuple(needed) or self._causes, span)

    def _says(self, some: tuple[Cause, ...], span: Span) -> str:
        """Goes on from "it would be 99.98 %"."""
        path = [cause for cause in some if cause.who != standing.RUNNER]
        late = "were late or failed" if any(cause.stoppages for cause in path) else "were late"
        said = (
            [f"without the answers that {late} {' or '.join(c.words(self._record, span) for c in path)}"]
            if path
            else []
        )
        said += [f"had nothing been seen late {c.words(self._record, span)}" for c in some if c not in path]
        return " and ".join(said)
