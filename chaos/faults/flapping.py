"""Leadership that flaps: whoever is elected is taken away and let back, again and again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping

from chaos.faults.evidence import Look, Probe
from chaos.faults.moves import Move, Reversible, apply_moves, said
from chaos.opensearch.views import elected, term
from chaos.targets.protocol import Lab


def prepared(moves: Iterable[Reversible]) -> list[Reversible]:
    """Each inverse once, before anything is done: a worker makes the moves themselves, and may die in between."""
    found: dict[str, Reversible] = {}
    for both in moves:
        assert both.inverse is not None
        found.setdefault(str(both.inverse), Reversible(Move("nothing", both.inverse.arguments), both.inverse))
    return list(found.values())


class Flapping:
    """A worker: takes away whoever is elected, waits for another, lets it back, waits, again. ``takes``: by name."""

    def __init__(self, down: float, up: float, times: int | None, takes: Mapping[str, list[Reversible]]) -> None:
        self._down, self._up, self._times, self._takes = down, up, times, takes
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._lab: Lab | None = None
        self._term: int | None = None
        self.changes: list[tuple[str, str]] = []
        """(who was taken away, who was elected instead)"""
        self.missed: list[str] = []
        """Who was away for the whole time, and nobody was elected instead."""
        self.problems: list[str] = []

    def start(self, lab: Lab) -> None:
        self._lab, self._term = lab, term(lab)
        self._thread = threading.Thread(target=self._run, args=(lab,), name="leader flap", daemon=True)
        self._thread.start()

    def stop(self) -> Look:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        probes = self.probes()
        probes += [Probe("another is elected", f"while {name} is away", "nobody else", False) for name in self.missed]
        probes += [Probe("moves of the flapping", "no failure", problem, False) for problem in self.problems[:5]]
        times = len(self.changes) + len(self.missed)
        return Look(
            all(probe.ok for probe in probes), f"{len(self.changes)} of {times} times another took over", probes
        )

    def probes(self) -> list[Probe]:
        """What has come of it until now."""
        changes = list(self.changes)
        now = term(self._lab) if self._lab is not None else None
        grown = now - self._term if now is not None and self._term is not None else 0
        moved = ", ".join(f"{taken} → {new}" for taken, new in changes) or "none"
        return [
            Probe("changes of the leader", "at least one", f"{len(changes)}: {moved}", bool(changes)),
            Probe("growth of the term", f"at least {len(changes)}", f"{self._term} → {now}", grown >= len(changes)),
        ]

    def _run(self, lab: Lab) -> None:
        times = 0
        while not self._over.is_set() and times != self._times:
            try:
                leader = elected(lab)
                if leader is None:
                    self._over.wait(0.2)
                    continue
                times += 1
                self._once(lab, leader)
            except Exception as error:  # a worker that dies in silence would look like calm
                self.problems.append(said(error))
            self._over.wait(self._up)

    def _once(self, lab: Lab, leader: str) -> None:
        moves = self._takes[leader]
        end = time.monotonic() + self._down
        new: str | None = None
        try:
            self.problems += apply_moves(lab, [both.move for both in moves])
            while time.monotonic() < end and not self._over.wait(0.2 if new is None else end - time.monotonic()):
                now = elected(lab) if new is None else new
                if new is None and now not in (None, leader):
                    assert now is not None
                    new = now
                    self.changes.append((leader, new))
        finally:
            self.problems += apply_moves(lab, [both.inverse for both in reversed(moves) if both.inverse is not None])
        if new is None and not self._over.is_set():
            self.missed.append(leader)
