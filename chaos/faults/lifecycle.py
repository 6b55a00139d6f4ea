"""The one lifecycle that every fault goes through: ledger, inject, evidence, hold, undo, evidence of the end.

Several faults that are to begin together are looked at, written down, made and proven together.

Undo runs last in, first out, takes exactly what inject put there, and one undo that fails never stops the others.
"In effect" and "gone" are separate, observe-only steps with deadlines.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from chaos.errors import FaultError
from chaos.faults.evidence import Evidence, Look
from chaos.faults.fault import Fault
from chaos.faults.ledger import Entry, Ledger
from chaos.faults.moves import Events, apply_moves, said
from chaos.faults.pulsing import Pulsing
from chaos.lab.protocol import Lab

STOPPED_SECONDS = 5.0
"""How long evidence is still awaited after a stop was asked for."""


T = TypeVar("T")
R = TypeVar("R")


@dataclass
class Active:
    """A fault between inject and undo."""

    fault: Fault
    evidence: Evidence
    entries: list[Entry]
    before: Look
    problems: list[str] = field(default_factory=list)
    pulsing: Pulsing | None = None
    working: bool = False


class Lifecycle:
    """Injects and undoes faults on one lab, with one ledger and one event log.

    ``stopped`` ends waiting for evidence early (a guard or a signal); undo is never cut short by it.
    """

    def __init__(
        self, lab: Lab, ledger: Ledger, events: Events, *, stopped: Callable[[], bool] = lambda: False
    ) -> None:
        self._lab, self._ledger, self._events, self._stopped = lab, ledger, events, stopped
        self._active: list[Active] = []
        self._lock = threading.RLock()

    @property
    def active(self) -> list[Fault]:
        with self._lock:
            return [each.fault for each in self._active]

    def inject(self, *faults: Fault) -> bool:
        """Make these faults at the same time; True when the effect of each is proven within its deadline.

        Raises FaultError when a move failed, or when two would hold the same thing; what was done is undone first.
        """
        self._refuse(faults)
        actives = self._prepare(faults)
        with self._lock:
            self._active += actives
        for active in actives:
            self._command(active.fault)
        failures = _each(lambda active: self._make(active), actives)
        for active, failed in zip(actives, failures, strict=True):
            self._events.write("fault.applied", fault=active.fault.id)
            if failed:
                self._events.write("fault.failed", fault=active.fault.id, stage="inject", says="; ".join(failed))
        for active, failed in zip(actives, failures, strict=True):
            if failed:
                for each in reversed(actives):
                    self.undo(each.fault.id)
                raise FaultError(f"{active.fault.kind} could not be injected: {failed[0]}")
        return all(_each(self._prove, actives))

    def _refuse(self, faults: Sequence[Fault]) -> None:
        held = {claim: fault for fault in self.active for claim in fault.claims}
        for fault in faults:
            for need in fault.needs:
                if reason := self._lab.lacks(need):
                    raise FaultError(f"{fault.kind}: {reason}")
            for claim in sorted(fault.claims):
                if claim in held:
                    raise FaultError(
                        f"{fault.kind} cannot begin: {held[claim].kind} is still active on {claim}",
                        remedy="undo the one before the other",
                    )
                held[claim] = fault

    def _prepare(self, faults: Sequence[Fault]) -> list[Active]:
        """Look at each before, and write everything down. On any failure nothing stays open."""
        evidences = [fault.evidence() for fault in faults]
        for fault, evidence in zip(faults, evidences, strict=True):
            self._beside(evidence, fault, faults)
        try:
            looks = _each(lambda evidence: evidence.before(self._lab), evidences)
            for fault, look in zip(faults, looks, strict=True):
                self._look(fault, "before", look)
            return [
                Active(fault, evidence, self._ledger.intend(fault.id, fault.moves), look)
                for fault, evidence, look in zip(faults, evidences, looks, strict=True)
            ]
        except BaseException:
            for evidence in evidences:
                evidence.close()
            raise

    def _beside(self, evidence: Evidence, fault: Fault, coming: Sequence[Fault] = ()) -> None:
        others = [each for each in (*self.active, *coming) if each.id != fault.id]
        evidence.beside(
            frozenset(link for each in others for link in each.links),
            frozenset(node for each in others for node in each.targets),
        )

    def _command(self, fault: Fault) -> None:
        self._events.write(
            "fault.command",
            fault=fault.id,
            fault_kind=fault.kind,
            says=fault.says,
            mechanism=fault.mechanism,
            colour=fault.colour,
            targets=list(fault.targets),
            links=[list(link) for link in fault.links],
        )

    def _make(self, active: Active) -> list[str]:
        failed = apply_moves(self._lab, [entry.move for entry in active.entries], in_order=active.fault.in_order)
        if not failed and active.fault.worker is not None:
            try:
                active.working = True
                active.fault.worker.start(self._lab)
            except Exception as error:
                failed = [said(error)]
        return failed

    def _prove(self, active: Active) -> bool:
        fault, evidence, pulse = active.fault, active.evidence, active.fault.pulse
        began = time.monotonic()
        deadline = evidence.effect_deadline if pulse is None else min(evidence.effect_deadline, pulse.down)
        look, since = self._until(evidence.in_effect, deadline)
        proven = look.proven and active.before.proven
        self._look(fault, "effect", look, proven)
        if proven:
            self._events.write("fault.in_effect", t=since, fault=fault.id)
        if pulse is not None:
            active.pulsing = Pulsing(self._lab, fault, pulse, active.entries, evidence, self._events)
            active.pulsing.start(began)
        return proven

    def undo(self, id: str) -> bool:
        """Undo one fault; True when every move was taken back and the end is proven.

        Events that the disk does not take are left out: undoing comes first.
        """
        with self._lock:
            active = next((each for each in self._active if each.fault.id == id), None)
        if active is None:
            return True
        self._note("fault.undo", fault=id)
        calm = self._still(active)
        active.problems = [*undo_entries(self._lab, self._ledger, reversed(active.entries))]
        with self._lock:
            self._active.remove(active)
        if active.problems:
            self._note("fault.failed", fault=id, stage="undo", says="; ".join(active.problems))
        self._beside(active.evidence, active.fault)
        try:
            look, since = self._until(active.evidence.gone, active.evidence.gone_deadline)
        finally:
            active.evidence.close()
        with suppress(OSError):
            self._look(active.fault, "gone", look)
        gone = look.proven and not active.problems
        if gone:
            self._note("fault.gone", t=since, fault=id)
        return gone and calm

    def _still(self, active: Active) -> bool:
        """End what goes on while the fault holds; True when all of it went as planned."""
        if active.fault.worker is not None and active.working:
            active.fault.worker.stop()
        if active.pulsing is None:
            return True
        look = active.pulsing.stop()
        with suppress(OSError):
            self._look(active.fault, "pulses", look)
        return look.proven

    def undo_all(self) -> bool:
        """Undo everything that is active, last in, first out; every one is tried."""
        results = []
        for fault in reversed(self.active):
            try:
                results.append(self.undo(fault.id))
            except Exception as error:  # whatever it is, the others must be tried
                self._note("fault.failed", fault=fault.id, stage="undo", says=f"{type(error).__name__}: {error}")
                results.append(False)
        return all(results)

    def _note(self, kind: str, *, t: int | None = None, **fields: Any) -> None:
        with suppress(OSError):
            self._events.write(kind, t=t, **fields)

    def _until(self, look: Callable[[Lab], Look], deadline: float) -> tuple[Look, int]:
        """The proving look, or the last one, and when it began (monotonic ns): the effect was there by then."""
        end = stopped_end = time.monotonic() + deadline
        while True:
            began = time.monotonic_ns()
            seen = look(self._lab)
            if self._stopped():  # a stop must not cost the proof that everything is gone, nor wait long for it
                end = min(end, stopped_end := min(stopped_end, time.monotonic() + STOPPED_SECONDS))
            if seen.proven or time.monotonic() >= end:
                return seen, began
            time.sleep(0.05)

    def _look(self, fault: Fault, stage: str, look: Look, proven: bool | None = None) -> None:
        self._events.write(
            "fault.evidence",
            fault=fault.id,
            stage=stage,
            proven=look.proven if proven is None else proven,
            says=look.says,
            probes=[probe.to_json() for probe in look.probes],
        )


def _each(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """At once, in the order of the items; the first exception is raised when all are done."""
    if len(items) == 1:
        return [work(items[0])]
    if not items:
        return []
    with ThreadPoolExecutor(min(len(items), 16)) as pool:
        return list(pool.map(work, items))


def undo_entries(lab: Lab, ledger: Ledger, entries: Iterable[Entry]) -> list[str]:
    """Apply each inverse in the order given, host by host at once; every one is tried. Returns what failed."""
    hosts: dict[str, list[Entry]] = {}
    for entry in entries:
        hosts.setdefault(entry.move.where, []).append(entry)

    def work(mine: list[Entry]) -> list[str]:
        failed = []
        for entry in mine:
            try:
                if entry.inverse is not None:
                    entry.inverse.apply(lab)
            except Exception as error:  # whatever it is, the others must be tried
                failed.append(f"{entry.inverse}: {said(error)}")
                ledger.note(entry, "undo_failed", said(error))
            else:
                ledger.note(entry, "undone")
        return failed

    if not hosts:
        return []
    with ThreadPoolExecutor(min(len(hosts), 16)) as pool:
        return [failure for failures in pool.map(work, hosts.values()) for failure in failures]
