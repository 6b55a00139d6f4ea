"""The phases of a run, each *undo, inject, do, hold*."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from chaos.base.errors import Aborted, ChaosError
from chaos.definitions import Phase
from chaos.definitions.detection import Detection
from chaos.faults import actions
from chaos.faults.fault import Fault
from chaos.faults.patience import patiently
from chaos.faults.select import ready
from chaos.history.events import Clock, PhaseEnd, PhaseStart, RatesBegin
from chaos.load.driver import AHEAD_S, DriverError
from chaos.opensearch.administration import unplaced
from chaos.opensearch.views import View, await_green, elected
from chaos.run import noticing
from chaos.run.during import Waiting
from chaos.run.loading import TICK_SECONDS
from chaos.run.noticing import Wait
from chaos.run.options import Stage
from chaos.run.state import PERMITS_GUARD, TARGET_GUARD
from chaos.run.stopping import Unasked, Unproven


class Phases(Waiting):
    """What an experiment asks for."""

    detection: Detection | None = None
    """How the cluster finds out that a node is gone, by its own settings; read before the first fault."""
    made: tuple[Wait, ...] = ()
    """What the cluster must notice of every fault that was made …"""
    waits: tuple[Wait, ...] = ()
    """… and of those that matter for the phase of this moment."""

    def phase(self, number: int, phase: Phase) -> None:
        self.stop.check()
        if number == 0 and not phase.undo:
            self.ask_allowed(number)
            self.prepare_step(number)
        if number == 0:
            self.begin_rates()
        Clock().write(self.events)
        PhaseStart(phase=phase.name, index=number, scripted_wait=phase.scripted_wait).write(self.events)
        self.instruments.edge()
        began = time.monotonic()
        self.reporter.line(f"phase {phase.name}")
        try:
            if phase.undo:
                self.undo_step(phase.undo)
                self.ask_allowed(number)
            if phase.inject:
                self.inject_step(phase)
            for action in phase.do:
                self.ask_permission(phase, "now")
                self.stop.check()
                self.action_count += 1
                self.reporter.status(f"{phase.name}: {action.describe()}")
                done = actions.perform(f"a{self.action_count}", action, self.lab, self.ledger, self.events, self.index)
                self.reporter.line(f"  {action.describe()}: {'done' if done else 'FAILED'}")
            if phase.inject or phase.do:
                self.ask_permission(phase, "made")
                self.stop.check()
            self.waits = self.to_notice()
            reason = self.hold(phase, began)
            looked = self.look_step(number)
        except BaseException as error:  # whatever ended it, the record says when
            early = isinstance(error, Aborted | Unproven | Unasked)
            self.note(PhaseEnd(phase=phase.name, reason="aborted" if early else "error"))
            raise
        seen = {} if phase.until is None else self.noticed
        if reason == "deadline":
            with suppress(ChaosError):  # that it is not green is known; why is not
                seen["unplaced"] = unplaced(self.lab)
        PhaseEnd(phase=phase.name, reason=reason, looked=round(looked, 3), **seen).write(self.events)
        self.instruments.edge()
        self.refuse_vanished()

    def begin_rates(self) -> None:
        """Let rates of the load that change begin to, and wait until they do. Raises as :meth:`tick` does."""
        if self.driver is None or not any(each.varies for each in self.experiment.load.operations):
            return
        self.stop.check()
        at = time.monotonic_ns() + round(AHEAD_S * 1e9)
        try:
            self.driver.begin(at)
        except DriverError:
            self.stop.check()  # it may be gone because of that
            raise
        while (left := (at - time.monotonic_ns()) / 1e9) > 0:
            self.tick("waiting for the moment from which rates change")
            time.sleep(min(left, TICK_SECONDS))
        RatesBegin().write(self.events, t=at)

    def look_step(self, number: int) -> float:
        """Prove once more what is to be undone next, while its phase lasts: the next one's clocks begin with the undo.

        So is asked, where the next one begins with a change, whether that is allowed. The seconds that both took, by
        which the phase is longer than it was asked to be.
        """
        later = self.experiment.phases[number + 1 : number + 2]
        names = later[0].undo if later else ["all"]
        took = self.lifecycle.look_again(self.to_undo(names))
        self.stop.check()
        if later and not later[0].undo:
            took += self.ask_allowed(number + 1)
            took += self.prepare_step(number + 1)
        return took

    def prepare_step(self, number: int) -> float:
        """On a cluster that is not ours: look at how it is before the faults of a phase, and write them down, before
        its clocks begin. That takes seconds there, in which the phase would be judged without its faults. The seconds
        that it took.

        Whom the moment decides is not known before it.
        """
        if self.there is None:
            return 0.0
        phase, began = self.experiment.phases[number], time.monotonic()
        if not phase.inject or any(each.params.momentary for each in self.planned[phase.name]):
            return 0.0
        self.reporter.status(f"{phase.name}: looking at how it is before")
        faults = self.faults_of(phase)
        self.prepared = faults, self.lifecycle.prepare(*faults)
        self.stop.check()
        return time.monotonic() - began

    def ask_allowed(self, number: int) -> float:
        """On a cluster that is not ours: whether a phase may change now what it is to. The seconds that it took.

        Raises Aborted where it may not. After an undo it is asked once that is done, else before the phase begins.
        """
        if self.there is None:
            return 0.0
        phase, began = self.experiment.phases[number], time.monotonic()
        if not (phase.inject or phase.do or phase.during):
            return 0.0
        self.reporter.status(f"{phase.name}: asking whether this is allowed now")
        if why := self.there.forbids(number):
            self.stop.ask(f"“{phase.name}” is not allowed there now: {why}", TARGET_GUARD)
        self.ask_permission(phase, "before")
        self.stop.check()
        return time.monotonic() - began

    def ask_permission(self, phase: Phase, stage: Stage) -> None:
        """Whoever has the run made may end it. Between the looks before a phase and its change lie those at how it is
        before, which take seconds on hosts: so it is asked once more."""
        permits = self.options.permits if self.there is not None else None
        if permits is not None and (why := permits(phase.name, stage)) is not None:
            self.stop.ask(f"“{phase.name}” is not permitted: {why}", PERMITS_GUARD)

    def inject_step(self, phase: Phase) -> None:
        """All faults of a phase at once."""
        planned = self.planned[phase.name]
        self.reporter.status(
            f"{phase.name}: injecting {', '.join(each.params.spoken(each.params.describe()) for each in planned)}"
        )
        faults = self.faults_of(phase) if self.prepared is None else self.prepared[0]
        for each, fault in zip(planned, faults, strict=True):
            self.labels.setdefault(each.params.label, []).append(fault.id)
        actives = self.lifecycle.prepare(*faults) if self.prepared is None else self.prepared[1]
        self.prepared = faults, actives
        self.ask_permission(phase, "now")
        detection = self.detection = self.detection or noticing.detection(self.lab)
        since = time.monotonic_ns()
        self.prepared = None  # from here on something is sent
        proven = self.lifecycle.make(actives)  # nothing after a stop
        made, topology = time.monotonic_ns(), self.lab.topology
        self.made += tuple(
            Wait.of(each.params, fault, since, made, detection, topology)
            for each, fault in zip(planned, faults, strict=True)
        )
        self.stop.check()
        for fault in faults:
            self.reporter.line(f"  {fault.says}: {'in effect, proven' if proven else 'NOT PROVEN'}")
        if not proven:
            raise Unproven(
                f"{' and '.join(fault.kind for fault in faults)}: not proven to be in effect, nothing can be concluded"
            )

    def faults_of(self, phase: Phase) -> list[Fault]:
        """As they are to be made now."""
        planned = self.planned[phase.name]
        now = elected(self.lab) if any(each.params.momentary for each in planned) else None
        return [
            ready(each.id, each.params, self.lab, self.offers, seed=self.seed, elected=now, index=self.index)
            for each in planned
        ]

    def undo_step(self, names: Sequence[str]) -> None:
        """The moves of all of them are taken back first, as at the end of a run."""
        ids = self.to_undo(names)
        if ids:
            self.reporter.status(f"undoing {', '.join(ids)}")
        for id, gone in self.lifecycle.undo_each(ids).items():
            self.reporter.line(f"  undo of {id}: {'gone, proven' if gone else 'its end is NOT PROVEN'}")
        self.stop.check()

    def to_notice(self) -> tuple[Wait, ...]:
        """The faults that the cluster must have noticed before green counts now."""
        active = {fault.id for fault in self.lifecycle.active}
        return tuple(wait for wait in self.made if wait.lingers or wait.fault in active)

    def has_noticed(self, seen: View) -> bool:
        """Whether green counts: of a state that is no older than what was last seen, once all was noticed."""
        now, sight = time.monotonic_ns(), self.sight
        if sight is not None and seen.version < sight.version:
            return False
        return all(wait.over(now, sight.worse if sight else None) for wait in self.waits)

    @property
    def noticed(self) -> dict[str, Any]:
        """For the end of a phase that waited for green: what had to be noticed, and whom our own faults kept out."""
        active = {fault.id for fault in self.lifecycle.active}
        away = {wait.fault: sorted(wait.away) for wait in self.waits if wait.away and wait.fault in active}
        return {"notices": [wait.to_json() for wait in self.waits], "away": away}

    def hold(self, phase: Phase, began: float) -> str:
        if phase.duration is not None:
            end = began + float(phase.duration)
            while time.monotonic() < end:
                self.tick(f"{phase.name}: {end - time.monotonic():.0f} s left")
                time.sleep(min(TICK_SECONDS, max(0.0, end - time.monotonic())))
            return "elapsed"
        if phase.during is not None:
            return self.wait_for_others(phase)
        assert phase.until is not None
        until = phase.until
        found = patiently(
            lambda: await_green(
                self.lab,
                float(until.within) - (time.monotonic() - began),
                stable=float(until.stable),
                stopped=lambda: self.tick(f"{phase.name}: waiting for green"),
                counted=self.counted,
                counts=self.has_noticed,
            ),
            self.stop.is_over,
            0.0,
        )
        self.stop.check()
        return "condition met" if found is not None and found[0] else "deadline"
