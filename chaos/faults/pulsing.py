"""A fault that comes and goes: a thread that takes it back and makes it again, and looks each time.

The ledger needs nothing of this: the intents were written before the first time, inverses are idempotent, and what a
dead runner left is either in effect or away.

A look that breaks proves nothing, and is taken again for as long as the time lasts; what breaks the thread itself makes
the whole not proven. Either way no time goes by that counts and was not looked at.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from chaos.faults.evidence import Evidence, Look, Probe
from chaos.faults.fault import Fault, Pulse
from chaos.faults.holding import Holding
from chaos.faults.ledger import Entry
from chaos.faults.moves import Move, apply_moves, said
from chaos.faults.patience import patiently
from chaos.history.events import FaultPulse
from chaos.history.writer import Events
from chaos.targets.protocol import Lab

LONG_SECONDS = 10.0
"""A time that lasts so long is proven once more before it ends: a proof holds for its moment …"""
LAST_SECONDS = 3.0
"""… so long before its end."""


class Pulsing:
    """Begins in effect, just proven. :meth:`stop` ends it wherever it is and says how it went."""

    def __init__(
        self,
        lab: Lab,
        fault: Fault,
        pulse: Pulse,
        entries: list[Entry],
        evidence: Evidence,
        events: Events,
        beside: Callable[[], None],
    ) -> None:
        """``beside``: tells the evidence what other faults hold by now; called before each look, from a thread of its
        own."""
        self._lab, self._fault, self._pulse, self._entries = lab, fault, pulse, entries
        self._evidence, self._events, self._beside = evidence, events, beside
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"pulse {fault.id}", daemon=True)
        self._times: list[bool] = []
        self._lost: list[str] = []
        """Of times that did not last as long as they were to: what was seen instead."""
        self._unseen: list[str] = []
        """Of times that were not proven because their last look broke: how."""
        self.unanswered: list[Move] = []
        """Those of which nobody said what became of them."""
        self._problems: list[str] = []

    def start(self, since: float) -> None:
        """``since``: when the first time began (``time.monotonic``); the look that proved it took its part of it."""
        self._began = since
        self._thread.start()

    def stop(self) -> Look:
        """Raises nothing; afterwards the fault may be in effect or away, and undo follows."""
        self._over.set()
        self._thread.join()
        shown = sum(self._times)
        probes = [Probe("moves of the pulses", "no failure", problem, False) for problem in self._problems[:5]]
        probes += [Probe("a look at a time", "taken", unseen, False) for unseen in self._unseen[:5]]
        probes += [Probe("a time until its end", "in effect", lost, False) for lost in self._lost[:5]]
        lost = f", and {len(self._lost)} gone before its end" if self._lost else ""
        return Look(
            shown == len(self._times) and not self._problems and not self._lost,
            f"{shown} of {len(self._times)} further times proven to be in effect{lost}",
            probes,
        )

    def _run(self) -> None:
        try:
            self._come_and_go()
        except Exception as error:  # times that end without a word would be taken for proven ones
            self._problems.append(f"it came and went no more: {said(error)}")

    def _come_and_go(self) -> None:
        moves = [entry.move for entry in self._entries]
        back = [entry.inverse for entry in reversed(self._entries) if entry.inverse is not None]
        number = 1
        began = self._began
        while self._lasts(began + self._pulse.down):
            self._problems += apply_moves(self._lab, back, in_order=self._fault.in_order)
            self._note("up", number)
            if self._pulse.times is not None and number >= self._pulse.times:
                return
            if self._over.wait(self._pulse.up):
                return
            number += 1
            began = time.monotonic()
            self._problems += apply_moves(
                self._lab, moves, in_order=self._fault.in_order, unanswered=self.unanswered.append
            )
            proven = self._look_until(began + self._pulse.down)
            if proven is not None:
                self._times.append(proven)
            self._note("down", number, proven=proven)

    def _lasts(self, end: float) -> bool:
        """Until the end of this time, which a long one is looked at before; False when all is over."""
        if self._pulse.down >= LONG_SECONDS and self._evidence.holds:
            if self._over.wait(max(0.0, end - LAST_SECONDS - time.monotonic())):
                return False
            self._beside()
            seen = Holding(self._evidence, time.monotonic_ns()).settle(self._lab, self._over.is_set)
            if seen is not None and not seen.holds:
                self._lost.append(seen.look.says)
        return not self._over.wait(max(0.0, end - time.monotonic()))

    def _look_until(self, end: float) -> bool | None:
        """True once a look proves it; None when the end of all came before the time was over."""
        while True:
            look, broke = None, None
            try:
                self._beside()
                look = patiently(lambda: self._evidence.in_effect(self._lab), self._over.is_set, 0.0)
            except Exception as error:  # what cannot be looked at is not proven
                broke = said(error)
            if look is not None and look.proven:
                return True
            if self._over.wait(0.02):
                return None
            if time.monotonic() >= end:
                if broke is not None:
                    self._unseen.append(broke)
                return False

    def _note(self, state: str, number: int, **fields: Any) -> None:
        with suppress(OSError):
            FaultPulse(fault=self._fault.id, state=state, number=number, **fields).write(self._events)
