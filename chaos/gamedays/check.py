"""All gates of a game day at once, as they are now: nothing is held, recorded or announced, and nothing is changed.

`gameday run` ends at the first gates that refuse it, so a file with six things to mend needs six firings, each recorded
and announced. Here every gate is asked, also after one that refuses; what cannot be asked because of another is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from chaos.base.errors import ChaosError, Exit
from chaos.definitions.gameday import GameDay
from chaos.gamedays import gates, preflight, windows
from chaos.gamedays.announce import wrong_templates
from chaos.gamedays.board import LOCK, Board, Held
from chaos.gamedays.day import Day, Hands, Refused
from chaos.gamedays.gate import Gate
from chaos.gamedays.record import FILE
from chaos.gamedays.switches import MapSwitch


@dataclass
class _Heard:
    """In the place of a record: what would be written down, kept here alone."""

    path: Path
    head: str = ""
    lines: list[Mapping[str, Any]] = field(default_factory=list)

    def add(self, kind: str, **fields: Any) -> None:
        self.lines.append({"kind": kind, **fields})


class _Silent:
    """In the place of an announcer: nobody is told."""

    def tell(self, event: str, **facts: Any) -> list[Any]:
        raise AssertionError("a check announces nothing")

    tell_later = tell


class Check(Day):
    """One look at every gate. Its ``record`` and ``announcer`` are stand-ins that keep and tell nothing."""

    def every(self) -> tuple[list[Gate], str | None]:
        """Each gate once, in the order in which a firing asks them; and that this day was held already, in words."""
        self._found: list[Gate] = []
        self._already: str | None = None
        for part in (self._file, self._window, self._of_target, self._of_cluster):
            self._tried(part, part.__name__.strip("_"))
        return self._found, self._already

    def _pass(self, found: Any, before: str = "the day") -> None:
        """Keep all, and raise nothing: the next ones are asked all the same."""
        self._found += list(found)

    def _tried(self, part: Callable[[], None], name: str) -> None:
        try:
            part()
        except Held as error:
            if not any(not gate.ok and gate.name in gates.HOLDING for gate in self._found):
                self._already = error.message
        except Refused as error:
            self._found += error.gates
        except ChaosError as error:
            self._found.append(Gate(name.replace("of_", ""), False, error.message, error.remedy or ""))

    def _file(self) -> None:
        wrong = wrong_templates(self.day)
        self._pass([Gate("templates", not wrong, "; ".join(wrong) or "they can be filled in", "mend announce")])
        told = bool(self.day.written.announce)
        says = "not tried by a check" if told else "nobody would be told that it begins"
        self._pass([Gate("announcement", told, says, "write announce")])

    def _window(self) -> None:
        """Where it is shut now, later gates are asked as of its next opening."""
        self._pass([self._stop_file.gate(unlocked=True), *self._time()])
        if self._held is not None and self._held.closes is not None:
            return
        written = self.day.written
        upcoming = (each for each in windows.firings(written.window, self.now(), 10) if each.at is not None)
        opening = next((each.at for each in upcoming if each.at is not None), None)
        if opening is not None:
            self._held = windows.held(written.window, written.bounds, opening)
            self._pass(self._frozen() if self._held.closes is not None else [])

    def _of_target(self) -> None:
        target = self.hands.target()
        found = [gates.production(target), gates.allowed(target, self.day.written.experiments, self._today())]
        self._map = MapSwitch.of(self.day, target)
        if self._map is not None:
            found.append(self._map.gate(unlocked=True))
            self._map.stop()
        self._pass(found)

    def _of_cluster(self) -> None:
        target = self.hands.target()
        notes = target.written.notes
        if notes is None:
            self._pass([Gate("notes", False, f"{target.file} names no index for notes", "write notes there")])
            return
        if self._held is None or self._held.closes is None:
            self._pass([Gate("window", False, "it never opens, so plan, approval and preflight were not asked")])
            return
        self._board = board = Board(self.hands.cluster(), notes)
        for part, name in (
            (lambda: self._known(board, notes, locked=True), "what the cluster knows"),
            (lambda: self._locked(board), "lock"),
            (self._plans_and_approval, "plan"),
            (self._once_preflight, "preflight"),
            (self._asked_outside, "guards"),
        ):
            self._tried(part, name)

    def _locked(self, board: Board) -> None:
        doc = board.get(LOCK) if board.exists() else None
        whose = "" if doc is None else f"game day {doc.source.get('gameday', '?')} of {doc.source.get('host', '?')}"
        says = f"{whose} holds this cluster, or died holding it" if whose else "it is free"
        self._pass([Gate("lock", doc is None, says, "wait for its end; a firing watches whether it lives")])

    def _plans_and_approval(self) -> None:
        self._approval(self._content(self._planned()))

    def _once_preflight(self) -> None:
        wanted = self.day.written.preflight
        self._pass(preflight.gates(preflight.looked(self.hands.cluster(), wanted), wanted, self.now()))

    def _asked_outside(self) -> None:
        try:
            self._pass(
                [
                    Gate(f"guard {name}", each.state == "good", each.why or each.state, "mend it, or take it out")
                    for name, each in self._outside.ready()
                ]
            )
            if self._alerts is not None:
                why = self._alerts.ready()
                self._pass([Gate("alerts", why is None, why or "the alerts can be asked", "mend its address")])
        finally:
            self._outside.stop()
            if self._alerts is not None:
                self._alerts.stop()


def check(day: GameDay, hands: Hands, now: Callable[[], datetime], change: str | None) -> tuple[list[Gate], str | None]:
    """Every gate of a firing now, and what is said where this day was held already. Raises nothing that a cluster or a
    server may cause. GETs, searches of the notes and what guards ask; no gate changes anything."""
    record: Any = _Heard(Path(day.written.record) / day.name / "check" / FILE)
    announcer: Any = _Silent()
    found, already = Check(day, hands, record, announcer, lambda text: None, change, now).every()
    kept: dict[tuple[str, str], Gate] = {}
    for gate in found:
        kept.setdefault((gate.name, gate.says), gate)
    return list(kept.values()), already


def code_of(found: list[Gate], already: str | None) -> Exit:
    """What a firing would end with before its first change; PASS where nothing would refuse it."""
    if any(not gate.ok and gate.name in gates.HOLDING for gate in found):
        return Exit.HELD
    if already is not None:
        return Exit.PASS
    return Exit.USAGE if any(not gate.ok for gate in found) else Exit.PASS
