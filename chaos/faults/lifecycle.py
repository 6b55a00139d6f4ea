"""The one lifecycle that every fault goes through: ledger, inject, evidence, hold, undo, evidence of the end.

Undo runs last in, first out, takes exactly what inject put there, and one undo that fails never stops the others.
"In effect" and "gone" are separate, observe-only steps with deadlines.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from chaos.errors import ChaosError, FaultError
from chaos.faults.evidence import Evidence, Look
from chaos.faults.fault import Fault
from chaos.faults.ledger import Entry, Ledger
from chaos.lab.protocol import Lab

STOPPED_SECONDS = 5.0
"""How long evidence is still awaited after a stop was asked for."""


class Events(Protocol):
    """Where what happens is written: :class:`chaos.history.EventWriter`."""

    def write(self, kind: str, *, t: int | None = None, **fields: Any) -> int: ...


@dataclass
class Active:
    """A fault between inject and undo."""

    fault: Fault
    evidence: Evidence
    entries: list[Entry]
    problems: list[str] = field(default_factory=list)


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

    def inject(self, fault: Fault) -> bool:
        """Make the fault; True when its effect is proven within the deadline.

        Raises FaultError when a move failed; what was done by then is undone first.
        """
        for need in fault.needs:
            if reason := self._lab.lacks(need):
                raise FaultError(f"{fault.kind}: {reason}")
        evidence = fault.evidence()
        try:
            before = evidence.before(self._lab)
            self._look(fault, "before", before)
            entries = self._ledger.intend(fault.id, fault.moves)
        except BaseException:
            evidence.close()
            raise
        active = Active(fault, evidence, entries)
        with self._lock:
            self._active.append(active)
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
        failed = self._apply(entries)
        self._events.write("fault.applied", fault=fault.id)
        if failed:
            self._events.write("fault.failed", fault=fault.id, stage="inject", says="; ".join(failed))
            self.undo(fault.id)
            raise FaultError(f"{fault.kind} could not be injected: {failed[0]}")
        look, since = self._until(evidence.in_effect, evidence.effect_deadline)
        proven = look.proven and before.proven
        self._look(fault, "effect", look, proven)
        if proven:
            self._events.write("fault.in_effect", t=since, fault=fault.id)
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
        active.problems = [*undo_entries(self._lab, self._ledger, reversed(active.entries))]
        with self._lock:
            self._active.remove(active)
        if active.problems:
            self._note("fault.failed", fault=id, stage="undo", says="; ".join(active.problems))
        try:
            look, since = self._until(active.evidence.gone, active.evidence.gone_deadline)
        finally:
            active.evidence.close()
        with suppress(OSError):
            self._look(active.fault, "gone", look)
        if look.proven and not active.problems:
            self._note("fault.gone", t=since, fault=id)
        return look.proven and not active.problems

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

    def _apply(self, entries: list[Entry]) -> list[str]:
        """Moves on different hosts at once, those on one host in order. Returns what failed."""
        hosts: dict[str, list[Entry]] = {}
        for entry in entries:
            hosts.setdefault(entry.move.where, []).append(entry)

        def work(mine: list[Entry]) -> str | None:
            for entry in mine:
                try:
                    entry.move.apply(self._lab)
                except Exception as error:  # what was made by now has to be undone, whatever it is
                    return f"{entry.move}: {_said(error)}"
            return None

        with ThreadPoolExecutor(min(len(hosts), 16)) as pool:
            return [failure for failure in pool.map(work, hosts.values()) if failure]

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


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, ChaosError) else f"{type(error).__name__}: {error}"


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
                failed.append(f"{entry.inverse}: {_said(error)}")
                ledger.note(entry, "undo_failed", _said(error))
            else:
                ledger.note(entry, "undone")
        return failed

    if not hosts:
        return []
    with ThreadPoolExecutor(min(len(hosts), 16)) as pool:
        return [failure for failures in pool.map(work, hosts.values()) for failure in failures]
