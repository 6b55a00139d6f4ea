"""The one lifecycle that every fault goes through: ledger, inject, evidence, hold, undo, evidence of the end.

Several faults that are to begin together are looked at, written down, made and proven together.

Undo runs last in, first out, takes exactly what inject put there, and one undo that fails never stops the others.
Of several faults all moves are taken back first, hosts at the same time, and only then is the end of each proven: a
node that takes a minute to come back must not keep another fault in effect.

What was proven is proven again right before its undo, all that are undone together at the same time, and looked at
cheaply in between (:mod:`chaos.faults.holding`). Undo begins, and its clocks count, after that look.
"In effect" and "gone" are separate, observe-only steps with deadlines. A stop (a guard, a signal) ends the first at
once and shortens the second; it never shortens the taking back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from chaos.base.errors import FaultError, NotOurs
from chaos.faults.evidence import Evidence, Look
from chaos.faults.fault import Fault
from chaos.faults.holding import (
    HINTED_HOSTS,
    LOOK_SECONDS,
    RECORDED_SECONDS,
    Fact,
    Holding,
    Verdict,
    facts,
    told,
)
from chaos.faults.ledger import Entry, Ledger
from chaos.faults.moves import CLUSTER, Move, Reversible, apply_moves, said
from chaos.faults.patience import patiently
from chaos.faults.pulsing import Pulsing
from chaos.history.events import (
    LEFT_OUT,
    Event,
    FaultApplied,
    FaultCommand,
    FaultEvidence,
    FaultFailed,
    FaultGone,
    FaultInEffect,
    FaultLook,
    FaultUndo,
    FaultUndone,
    Note,
)
from chaos.history.writer import Events
from chaos.targets.protocol import Lab

STOPPED_SECONDS = 5.0
"""How long proof of the end is still awaited after a stop was asked for."""
FAILED_SECONDS = 5.0
"""How long the end is looked for when taking back failed: it is recorded, and can no longer count as proven."""
FRESH_SECONDS = 1.0
"""A full look that is no older than this is right before the undo."""
NOT_AWAITED = Look(False, "not looked at to the end: the run was stopped")

T = TypeVar("T")
R = TypeVar("R")


@dataclass(eq=False)
class Active:
    """A fault between inject and undo."""

    fault: Fault
    evidence: Evidence
    entries: list[Entry]
    before: Look
    problems: list[str] = field(default_factory=list)
    unanswered: list[Move] = field(default_factory=list)
    """Those of its moves of which nobody said what became of them."""
    pulsing: Pulsing | None = None
    working: bool = False
    holding: Holding | None = None
    """From its proof on, where it is to hold until its undo."""
    held: float | None = None
    """When the full look before its undo proved that it still holds (``time.monotonic``)."""
    undoing: bool = False

    @property
    def pulses(self) -> bool:
        return self.fault.pulse is not None

    @property
    def facts(self) -> frozenset[Fact]:
        return facts(entry.move for entry in self.entries)


class Lifecycle:
    """Injects and undoes faults on one lab, with one ledger and one event log.

    ``stopped`` ends waiting for evidence early (a guard or a signal); undo is never cut short by it.
    ``taken_back`` is when the last undo had tried every move (monotonic ns), None before the first. ``vanished`` has
    for each fault that ended early, or spread, what was seen; it does not get shorter. ``made`` has every fault that
    was made, by its id, whether or not it was undone since.
    """

    def __init__(
        self, lab: Lab, ledger: Ledger, events: Events, *, stopped: Callable[[], bool] = lambda: False
    ) -> None:
        self._lab, self._ledger, self._events, self._stopped = lab, ledger, events, stopped
        self._active: list[Active] = []
        self._ending: list[Active] = []
        """Taken back, and not yet proven to be gone: what they held proves nothing about others."""
        self._lock = threading.RLock()
        self._watch: threading.Thread | None = None
        self.taken_back: int | None = None
        self.vanished: dict[str, str] = {}
        self.made: dict[str, Fault] = {}

    @property
    def active(self) -> list[Fault]:
        with self._lock:
            return [each.fault for each in self._active]

    def inject(self, *faults: Fault) -> bool:
        """Make these faults at the same time; True when the effect of each is proven within its deadline.

        After a stop nothing new is made, and the effect of what is made is not awaited: False.
        Raises FaultError when a move failed, or when two would hold the same thing; what was done is undone first.
        """
        return self.make(self.prepare(*faults)) if faults else True

    def prepare(self, *faults: Fault) -> list[Active]:
        """All but making them: how it is before is looked at, and everything is written down. Nothing after a stop.

        Raises FaultError as :meth:`inject`.
        """
        self._refuse(faults)
        return self._prepare(faults)

    def make(self, actives: list[Active]) -> bool:
        """The rest of :meth:`inject`."""
        if not actives or self._stopped():
            self.drop(actives)
            return False
        with self._lock:
            self._active += actives
            self.made |= {active.fault.id: active.fault for active in actives}
        for active in actives:
            self._command(active)
        failures = _each(lambda active: self._make(active), actives)
        for active, failed in zip(actives, failures, strict=True):
            FaultApplied(fault=active.fault.id).write(self._events)
            if failed:
                FaultFailed(fault=active.fault.id, stage="inject", says="; ".join(failed)).write(self._events)
        for active, failed in zip(actives, failures, strict=True):
            if failed:
                self.undo(*(each.fault.id for each in actives))
                raise FaultError(f"{active.fault.kind} could not be injected: {failed[0]}")
        return all(_each(self._prove, actives))

    def drop(self, actives: Sequence[Active]) -> None:
        """Make nothing of what :meth:`prepare` has written down: then none of it was sent."""
        for active in actives:
            self._ledger.answered(active.entries)
        for active in actives:
            active.evidence.close()

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
        """Look at each before, and write everything down. On any failure, or a stop, nothing stays open."""
        evidences = [fault.evidence() for fault in faults]
        actives: list[Active] = []
        for fault, evidence in zip(faults, evidences, strict=True):
            self._beside(evidence, fault, faults)
        try:
            looks = _each(lambda evidence: self._ask(lambda: evidence.before(self._lab), 0.0), evidences)
            for fault, look in zip(faults, looks, strict=True):
                self._look(fault, "before", look)
            if self._stopped():
                for evidence in evidences:
                    evidence.close()
                return []
            moves = [self._moves(fault) for fault in faults]  # one that is refused leaves nothing of the others
            for fault, evidence, mine, look in zip(faults, evidences, moves, looks, strict=True):
                actives.append(Active(fault, evidence, self._ledger.intend(fault.id, mine), look))
            return actives
        except BaseException:
            for active in actives:
                self._ledger.answered(active.entries)  # nothing was sent
            for evidence in evidences:
                evidence.close()
            raise

    def _moves(self, fault: Fault) -> Sequence[Reversible]:
        return fault.moves if fault.read is None else fault.read(self._lab)

    def _beside(self, evidence: Evidence, fault: Fault, more: Sequence[Fault] = ()) -> None:
        others = [each for each in (*self.active, *more) if each.id != fault.id]
        evidence.beside(
            frozenset(link for each in others for link in each.links),
            frozenset(node for each in others for node in each.targets),
        )

    def _beside_now(self, active: Active) -> None:
        """Tell its evidence what other faults hold by now, those included whose end is not proven yet."""
        with self._lock:
            self._beside(active.evidence, active.fault, [each.fault for each in self._ending])

    def _command(self, active: Active) -> None:
        """``held``: it is to be looked at again right before its undo, so that a look that is missing is noticed."""
        fault = active.fault
        FaultCommand(
            fault=fault.id,
            fault_kind=fault.kind,
            says=fault.says,
            mechanism=fault.mechanism,
            provider=fault.provider,
            grade=fault.grade.value,
            colour=fault.colour,
            targets=list(fault.targets),
            links=[list(link) for link in fault.links],
            pulses=active.pulses,
            held=active.evidence.holds and not active.pulses,
            silences=list(fault.silences) if fault.silences else LEFT_OUT,
        ).write(self._events)

    def _make(self, active: Active) -> list[str]:
        moves = [entry.move for entry in active.entries]
        failed = apply_moves(
            self._lab, moves, in_order=active.fault.in_order, stopped=self._stopped, unanswered=active.unanswered.append
        )
        if active.fault.pulse is None:  # else they are made again and again
            self._all_but_unanswered(active)
        if not failed and active.fault.worker is not None and not self._stopped():
            try:
                active.working = True
                active.fault.worker.start(self._lab)
            except Exception as error:
                failed = [said(error)]
        return failed

    def _all_but_unanswered(self, active: Active) -> None:
        """It is known what became of what was asked by now; of the rest it is not."""
        self._ledger.answered([entry for entry in active.entries if entry.move not in active.unanswered])

    def _prove(self, active: Active) -> bool:
        fault, evidence, pulse = active.fault, active.evidence, active.fault.pulse
        began = time.monotonic()
        deadline = evidence.effect_deadline if pulse is None else min(evidence.effect_deadline, pulse.down)
        look, since = self._until(evidence.in_effect, deadline, 0.0)
        proven = look.proven and active.before.proven
        if look.proven and not proven:  # what is so now may have been so all along
            look = replace(look, says=f"{look.says}; before it was made: {active.before.says}")
        self._look(fault, "effect", look, proven)
        if proven:
            FaultInEffect(fault=fault.id).write(self._events, t=since)
        if proven and evidence.holds and pulse is None:
            active.holding = Holding(evidence, since, recorded=since)
            active.holding.saw(look, since)
            self._keep_watching()
        if pulse is not None:
            active.pulsing = Pulsing(
                self._lab, fault, pulse, active.entries, evidence, self._events, lambda: self._beside_now(active)
            )
            active.pulsing.start(began)
        return proven

    def undo(self, *ids: str) -> bool:
        """Undo these faults; True when every move was taken back and the end of each is proven."""
        return all(self.undo_each(ids).values())

    def undo_all(self, *, look: bool = True) -> bool:
        """Undo everything that is active; every one is tried. ``look``: see :meth:`undo_each`."""
        return all(self.undo_each([fault.id for fault in self.active], look=look).values())

    def undo_each(self, ids: Iterable[str], *, look: bool = True) -> dict[str, bool]:
        """Undo these faults, whatever the order of ``ids`` last in first out; for each whether its end is proven.

        Before, those that are to hold are proven once more; not without ``look``, where nothing counts any more.

        Events that the disk does not take are left out, and no failure of one keeps another: undoing comes first.
        """
        wanted = set(ids)
        with suppress(Exception):  # whatever it is, undoing comes first; a look that is missing is noticed
            self.look_again(wanted if look else (), fresh=FRESH_SECONDS)
        with self._lock:
            actives = [each for each in reversed(self._active) if each.fault.id in wanted]
            for active in actives:
                active.undoing = True
        for active in actives:
            self._note(FaultUndo(fault=active.fault.id))
        calm = _each(lambda active: self._tried(active, self._still), actives)
        self._take_back(actives)
        with self._lock:
            self._active = [each for each in self._active if each.fault.id not in wanted]
            self._ending += actives
        if actives:
            self.taken_back = time.monotonic_ns()
        gone = _each(lambda active: self._tried(active, self._prove_gone), actives)
        with self._lock:
            self._ending = [each for each in self._ending if each not in actives]
        results = {active.fault.id: quiet and over for active, quiet, over in zip(actives, calm, gone, strict=True)}
        return {id: results.get(id, True) for id in wanted}

    # ---- whether they still hold ----------------------------------------------------------------

    def look_again(self, ids: Iterable[str], *, fresh: float = 0.0) -> float:
        """Full looks at those of these faults that are to hold, all at once; seconds that it took.

        What was proven within the last ``fresh`` s, or is known not to hold, is not looked at again. After a stop
        nothing is looked at: an abort must be fast.
        """
        began = time.monotonic()
        wanted = set(ids)
        with self._lock:
            due = [
                each
                for each in self._active
                if each.fault.id in wanted
                and each.holding is not None
                and not each.undoing
                and (each.held is None or began - each.held > fresh)
                and each.fault.id not in self.vanished
            ]
        if not due or self._stopped():
            return 0.0
        hosts = self._lab.wiring.toxiproxies
        with suppress(Exception):  # a hint that is missing is no loss: the look comes all the same
            patiently(lambda: self._hint(due, hosts), self._stopped, 0.0)
        _each(lambda active: self._look_held(active, last=True), due)
        return time.monotonic() - began

    def glance(self, id: str) -> Look | None:
        """A cheap look at one active fault, as they are taken in between; None when its kind has none."""
        with self._lock:
            active = next(each for each in self._active if each.fault.id == id)
        return active.holding.glance(self._lab) if active.holding is not None else None

    def _look_held(self, active: Active, *, last: bool) -> None:
        """Full looks at one fault. ``last``: those before its undo, which are its stage ``held`` in the record; of
        others that is only a look that finds it gone, with which nothing more is to come."""
        assert active.holding is not None
        with self._lock:
            if active.undoing:
                return
            self._beside_now(active)
        began = time.monotonic_ns()
        verdict = active.holding.settle(self._lab, self._stopped)
        if verdict is None:
            return
        with self._lock:
            if active.undoing or active.fault.id in self.vanished:
                return
            if not verdict.holds:
                self.vanished[active.fault.id] = f"{active.fault.says}: {verdict.look.says}"
            elif last:
                active.held = time.monotonic()
        if verdict.holds and not last:
            self._proved(active, began, verdict.look)
            return
        with suppress(OSError):
            self._look(active.fault, "held", verdict.look, verdict.holds, **_window(verdict))

    def _proved(self, active: Active, t: int, look: Look) -> None:
        """``fault.look``: a look in between that proved it; ``t`` is when it began."""
        assert active.holding is not None
        active.holding.recorded = t
        self._note(FaultLook(fault=active.fault.id, proven=True, says=look.says), t=t)

    def _hint(self, actives: Sequence[Active], hosts: Sequence[str]) -> set[str]:
        """What the proxies of these hosts say: the ids of faults that they do not show. The faults on links are told
        of what is missing and of what nobody put there, so that their next full look goes there."""
        on_links = [each for each in actives if each.fault.links]
        odd: set[str] = set()
        answers = _each(lambda host: told(self._lab, host), hosts) if on_links else []
        for host, says in zip(hosts, answers, strict=False):
            with self._lock:
                known = {each.fault.id: each.facts for each in (*self._active, *self._ending)}
            extra = says - frozenset().union(*known.values()) if says is not None else frozenset()
            for each in on_links:
                mine = {fact for fact in known.get(each.fault.id, ()) if fact[0] == host}
                wrong = extra | (mine - says if says is not None else mine)
                each.evidence.suspect([pair for fact in sorted(wrong) for pair in self._lab.wiring.carried(*fact[:2])])
                if wrong or says is None:
                    odd.add(each.fault.id)
        return odd

    def _keep_watching(self) -> None:
        with self._lock:
            if self._watch is None:
                self._watch = threading.Thread(target=self._watched, name="holding", daemon=True)
                self._watch.start()

    def _watched(self) -> None:
        """The thread that looks in between, until nothing is left that is to hold."""
        hosts = self._lab.wiring.toxiproxies
        turn, failed = 0, False
        while True:
            time.sleep(LOOK_SECONDS)
            with self._lock:
                due = [
                    each
                    for each in self._active
                    if each.holding is not None and not each.undoing and each.fault.id not in self.vanished
                ]
                if not any(each.holding is not None for each in self._active):
                    self._watch = None
                    return
            if self._stopped():
                continue
            asked = [hosts[(turn + n) % len(hosts)] for n in range(min(HINTED_HOSTS, len(hosts)))]
            turn += HINTED_HOSTS
            try:
                odd = self._hint(due, asked)
                for active in due:
                    self._glance(active, active.fault.id in odd)
            except Exception as error:  # looks that end without a word would be taken for calm
                if not failed:
                    self._note(Note(says=f"the looks at faults that hold failed: {said(error)}"))
                failed = True

    def _glance(self, active: Active, odd: bool) -> None:
        """A cheap look at one fault; whatever is odd leads to full looks at once."""
        holding = active.holding
        assert holding is not None
        with self._lock:
            if active.undoing or active not in self._active:
                return
            self._beside_now(active)
        began = time.monotonic_ns()
        look = holding.glance(self._lab)
        if active.undoing or self._stopped():
            return
        if odd or (look is not None and not look.proven):
            self._look_held(active, last=False)
        elif look is not None and began - holding.recorded >= RECORDED_SECONDS * 1e9:
            self._proved(active, began, look)

    # ---- taking back ----------------------------------------------------------------------------

    def _tried(self, active: Active, step: Callable[[Active], bool]) -> bool:
        try:
            return step(active)
        except Exception as error:  # whatever it is, the others must be tried
            self._note(FaultFailed(fault=active.fault.id, stage="undo", says=f"{type(error).__name__}: {error}"))
            return False

    def _still(self, active: Active) -> bool:
        """End what goes on while the fault holds; True when all of it went as planned."""
        looks = []
        if active.fault.worker is not None and active.working:
            looks.append(active.fault.worker.stop())
        if active.pulsing is not None:
            looks.append(active.pulsing.stop())
            active.unanswered += active.pulsing.unanswered
        self._all_but_unanswered(active)
        taken = [look for look in looks if look is not None]
        for look in taken:
            with suppress(OSError):
                self._look(active.fault, "pulses", look)
        return all(look.proven for look in taken)

    def _take_back(self, actives: Sequence[Active]) -> None:
        """The inverses of all, last first; hosts at the same time."""
        open_moves = {active.fault.id: len(active.entries) for active in actives}
        lock = threading.Lock()

        def done(entry: Entry, failure: str | None) -> None:
            with lock:
                open_moves[entry.fault] -= 1
                last = open_moves[entry.fault] == 0
                if failure is not None:
                    next(each for each in actives if each.fault.id == entry.fault).problems.append(failure)
            if last:
                self._note(FaultUndone(fault=entry.fault))

        undo_entries(self._lab, self._ledger, [e for each in actives for e in reversed(each.entries)], done)
        for active in actives:
            if active.problems:
                self._note(FaultFailed(fault=active.fault.id, stage="undo", says="; ".join(active.problems)))

    def _prove_gone(self, active: Active) -> bool:
        try:
            self._beside(active.evidence, active.fault)
            deadline = active.evidence.gone_deadline
            if active.problems:
                deadline = min(deadline, FAILED_SECONDS)
            look, since = self._until(active.evidence.gone, deadline, STOPPED_SECONDS)
        finally:
            active.evidence.close()
        with suppress(OSError):
            self._look(active.fault, "gone", look)
        gone = look.proven and not active.problems
        if gone:
            self._note(FaultGone(fault=active.fault.id), t=since)
        return gone

    def _note(self, event: Event, *, t: int | None = None) -> None:
        with suppress(OSError):
            event.write(self._events, t=t)

    def _until(self, look: Callable[[Lab], Look], deadline: float, after_stop: float) -> tuple[Look, int]:
        """The proving look, or the last one, and when it began (monotonic ns): the effect was there by then.

        Once a stop is asked for, ``after_stop`` s more at most.
        """
        stopped = self._stopped()
        end = time.monotonic() + (min(deadline, after_stop) if stopped else deadline)
        while True:
            began = time.monotonic_ns()
            left = max(0.0, end - time.monotonic()) if stopped else after_stop
            seen = self._ask(lambda: look(self._lab), left)
            if not stopped and self._stopped():
                stopped = True
                end = min(end, time.monotonic() + after_stop)
            if seen.proven or time.monotonic() >= end:
                return seen, began
            time.sleep(0.05)

    def _ask(self, question: Callable[[], Look], after_stop: float) -> Look:
        return patiently(question, self._stopped, after_stop) or NOT_AWAITED

    def _look(self, fault: Fault, stage: str, look: Look, proven: bool | None = None, **more: Any) -> None:
        FaultEvidence(
            fault=fault.id,
            stage=stage,
            proven=look.proven if proven is None else proven,
            says=look.says,
            probes=[probe.to_json() for probe in look.probes],
            **more,
        ).write(self._events)


def _window(verdict: Verdict) -> dict[str, Any]:
    """The edges (ns) of the window in which went what is not shown any more; whether it is elsewhere instead."""
    if verdict.holds:
        return {}
    return {"since": verdict.since, "first": verdict.first, "spread": verdict.spread}


def _each(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """At once, in the order of the items; the first exception is raised when all are done."""
    if len(items) == 1:
        return [work(items[0])]
    if not items:
        return []
    with ThreadPoolExecutor(min(len(items), 16)) as pool:
        return list(pool.map(work, items))


MAY_ARRIVE = "no answer to it was seen, and nothing of it is there"
"""What is said of a move that is open."""


def on_its_way(lab: Lab, entry: Entry, seen: bool | None) -> str | None:
    """Why a move whose inverse was applied is not over all the same, in words; None: it is.

    ``seen``: what the inverse says of what it found. A request is carried out once: an effect that was seen and undone
    does not come again. One that nobody has answered may be held anywhere between us and who takes it.
    """
    if entry.answered or entry.inverse is None or entry.inverse.operation == "nothing" or seen:
        return None
    late = entry.move.late(lab)
    if late is None:
        return f"{entry.move}: {MAY_ARRIVE}: it may still arrive, for how long is not known, so it is looked for again"
    left = entry.at + late - time.time()
    if left <= 0 or late == 0:
        return None
    return f"{entry.move}: {MAY_ARRIVE}: it may still arrive for {left:.0f} s, so it is looked for again"


def undo_entries(
    lab: Lab,
    ledger: Ledger,
    entries: Iterable[Entry],
    done: Callable[[Entry, str | None], None] = lambda entry, failure: None,
    by_others: Callable[[str], None] | None = None,
    *,
    fencing: bool = False,
) -> list[str]:
    """Apply each inverse in the order given, host by host at once; every one is tried. Returns what failed.

    What is asked of the cluster as a whole comes after the hosts: it needs their links and processes to be well, and a
    leader that is let go may still carry out what it was asked while it stood.
    A move whose answer was never seen stays open where its inverse found nothing of it and it may still arrive
    (:func:`on_its_way`). While anything is left, what is written down on the cluster is not forgotten, nor goes what
    undoing goes by (:attr:`Move.last`).
    What another process has undone since (:meth:`Ledger.undone_by_others`) is left alone, and named: to ``by_others``
    where that is given, else among what failed. A run that took itself for the holder of the cluster has failed then;
    a recovery, which only wants that nothing is left, has not. Such a run may have made something late, so its own
    inverses are applied all the same where they can take away nothing else (:attr:`Move.own`).
    ``fencing``: another process has made the moves, and may not be dead (:meth:`Move.fence`).
    ``done`` is told of each, with what failed, from the thread that did it; it must not raise.
    """
    every = list(entries)
    hosts: dict[str, list[Entry]] = {}
    for entry in every:
        hosts.setdefault(entry.move.where, []).append(entry)
    left: list[Entry] = []
    others = ledger.undone_by_others(lab, every)

    def work(mine: list[Entry]) -> list[str]:
        failed = []
        for entry in mine:
            failure, now = None, replace(entry, answered=not ledger.is_open(entry))
            try:
                if entry.inverse is not None and entry.inverse.last and left:
                    continue  # what is left to undo must stay written down
                if entry.number in others and by_others is not None:
                    by_others(f"{entry.inverse}: {others[entry.number]}")
                    ledger.note(entry, "undone", others[entry.number])
                    done(entry, None)
                    continue
                if entry.number in others:
                    if entry.inverse is not None and entry.inverse.own:
                        entry.inverse.apply(lab)
                    raise NotOurs(others[entry.number])
                if fencing:
                    entry.move.fence(lab)
                seen = None if entry.inverse is None else entry.inverse.apply(lab)
                coming = on_its_way(lab, now, seen)
            except NotOurs as error:  # nothing of ours is there, and what is there is not touched
                failure = f"{entry.inverse}: {said(error)}"
                if (coming := on_its_way(lab, now, None)) is not None:  # ours may still come once theirs is gone
                    left.append(entry)
                    failure += f"; {coming}"
                ledger.note(entry, "undone" if coming is None else "undo_failed", failure)
            except Exception as error:  # whatever it is, the others must be tried
                failure = f"{entry.inverse}: {said(error)}"
                left.append(entry)
                ledger.note(entry, "undo_failed", said(error))
            else:
                if coming is not None:
                    left.append(entry)
                    failure = coming
                    ledger.note(entry, "undo_failed", coming)
                else:
                    ledger.note(entry, "undone")
            if failure is not None:
                failed.append(failure)
            done(entry, failure)
        return failed

    last = hosts.pop(CLUSTER, [])
    failures: list[str] = []
    if hosts:
        with ThreadPoolExecutor(min(len(hosts), 32)) as pool:
            failures = [failure for failed in pool.map(work, hosts.values()) for failure in failed]
    return failures + work(last)
