"""The order of one game day. Whoever fires it, and however often: every gate is held here.

what needs no cluster (stop file, window, freezes) → what the cluster knows of days (hold, held already, consent) → lock
→ plans, ladder, approval, preflight, guards, alerts → the window once more → announced → the day is noted as held, its
approval as used → drill → each experiment, before which all that can have changed is asked again → alerts awaited,
guards asked a last time, alerts judged → announced → lock given back. A refusal before the first change is 2, a stop
after it 4. Undo never needs the lock.
"""

from __future__ import annotations

import getpass
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Protocol

import chaos
from chaos.base.errors import SEVERITY, ChaosError, Exit, LabError
from chaos.base.text import listed, one_line, plural
from chaos.checks.shown import CLEAR
from chaos.definitions.existing import Existing
from chaos.definitions.gameday import GameDay, Step
from chaos.gamedays import approval, consent, drill, freezes, gates, preflight, tickets, windows
from chaos.gamedays.alerts import AlertWatch, Moment, judged, watched_until
from chaos.gamedays.announce import Announcer, wrong_templates
from chaos.gamedays.board import (
    CONSENT,
    DAYS,
    STOP,
    Board,
    Busy,
    Held,
    Lock,
    day_id,
    days_of,
    hold_id,
    used_id,
)
from chaos.gamedays.gate import Gate
from chaos.gamedays.gates import OVER, UNDER_WAY
from chaos.gamedays.outside import Outside
from chaos.gamedays.record import FILE, Record, read
from chaos.gamedays.stopping import Bound, Signalled, WindowEnd, Wish
from chaos.gamedays.summary import ALREADY
from chaos.gamedays.switches import FileSwitch, MapSwitch, Switch
from chaos.run.guards import Guard
from chaos.run.options import Permits, Stage
from chaos.targets.existing.target import ExistingTarget

USED = "approval.used"
"""Kind of the line that says that an approval is used up."""
OUTCOMES = {
    Exit.PASS: "pass",
    Exit.WEAKNESS: "weakness",
    Exit.INCONCLUSIVE: "inconclusive",
    Exit.ABORTED: "aborted",
    Exit.ERROR: "error",
    Exit.DIRTY: "dirty",
    Exit.USAGE: "refused",
    Exit.HELD: "held",
}
HOLDS = (Exit.ABORTED, Exit.ERROR, Exit.DIRTY)
"""After these nothing begins until a person has said why it may."""
ENDED_BY_ITSELF = (Exit.PASS, Exit.WEAKNESS, Exit.INCONCLUSIVE)
"""A run that ends as one of these was over, and undone, when a signal came."""
BACK_SECONDS = 60.0
"""A node that was killed may need most of a minute until it is a member again."""
STAGES: dict[Stage, str] = {"before": "", "now": ", right before a change", "made": ", made"}
AFTERWARDS = (WindowEnd.name, Bound.name)
"""Guards that end nothing any more once the last experiment is over."""
TICK_SECONDS = 0.5
LOOK_SECONDS = 2.0
"""Between two looks at a cluster that has to be still: each reads its health, settings and the audit's facts."""


@dataclass(frozen=True)
class Ran:
    """One run of an experiment on the target. ``guard``: which ended it; ``undone``: seconds from the stop until all
    moves were taken back and its load had ended, None where it was not stopped; ``undone_all``: whether all could be;
    ``proven_gone``: whether each fault's end was seen by then; ``moments``: when faults were in effect, by phase."""

    exit_code: Exit
    clean: bool
    folder: str
    headline: str
    guard: str | None = None
    says: str = ""
    undone: float | None = None
    undone_all: bool = True
    proven_gone: bool = True
    by_signal: bool = False
    improved: bool = False
    """It is a weakness by nothing but a known one that is gone."""
    moments: tuple[Moment, ...] = ()


class Hands(Protocol):
    """What a day needs done: plans and runs, by whoever knows faults and providers."""

    def target(self) -> Existing:
        """As its file is now. Raises InvalidInput."""

    def cluster(self) -> ExistingTarget: ...

    def plans(self) -> list[dict[str, Any]]:
        """Of each experiment as JSON, with its ``digest`` and ``longest`` (seconds). Raises InvalidInput."""

    def node_ids(self) -> dict[str, dict[str, str]]:
        """Persistent id of each node → name and zone. Raises ChaosError."""

    def lab_runs(self, folder: Path) -> list[gates.LabRun] | str: ...

    def run(self, number: int, guards: Sequence[Guard], permits: Permits) -> Ran: ...

    def drill(self, guards: Sequence[Guard], permits: Permits) -> Ran:
        """A harmless fault on an index of our own, which only a guard ends."""


def content_of(day: GameDay, hands: Hands, plans: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is approved, as it is now. Raises ChaosError."""
    return approval.content(day, plans, hands.node_ids(), hands.target())


def used_in(folder: Path) -> set[str]:
    """Nonces of approvals that days were begun with, by the records below ``folder``. What cannot be read says none."""
    found = set()
    for file in folder.glob(f"*/{FILE}"):
        with suppress(ChaosError, OSError):
            found |= {str(line.get("nonce")) for line in read(file) if line.get("kind") == USED}
    return found


@dataclass(frozen=True)
class Stop:
    """A guard that ends the day, and why."""

    by: str
    why: str


class Refused(Exception):
    """A gate did not let the day pass. ``stops``: the guards that were behind it, where some were."""

    def __init__(self, found: Sequence[Gate], stops: Sequence[Stop] = ()) -> None:
        super().__init__(gates.words(found))
        self.gates, self.stops = list(found), list(stops)


@dataclass
class Done:
    """What became of one step."""

    step: Step
    name: str
    ran: Ran
    ended: datetime
    code: Exit
    """Of the step: a run that an outcome guard ended is the cluster's weakness."""

    @property
    def improved(self) -> bool:
        return self.ran.improved and self.code is Exit.WEAKNESS


@dataclass
class Day:
    """One firing of a game day. ``now``: the wall's clock, with a zone. ``says``: for whoever looks on."""

    day: GameDay
    hands: Hands
    record: Record
    announcer: Announcer
    says: Callable[[str], None]
    change: str | None = None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    begun: Callable[[], None] = lambda: None
    """Told once the day is held, before anything is changed."""
    patience: float = 30.0
    """Seconds in which the cluster must say what is asked of it before a move: a zone may be out by then."""
    done: list[Done] = field(default_factory=list, init=False)
    changed: bool = field(default=False, init=False)
    """Whether anything may have been changed on the cluster, so that an end of the day is a stop and no refusal."""
    stopped: str | None = field(default=None, init=False)
    on_hold: bool | None = field(default=None, init=False)
    """Whether a person must clear something before a day may begin; None: that is not known yet."""

    def __post_init__(self) -> None:
        self._held: windows.Held | None = None
        self._lock: Lock | None = None
        self._board: Board | None = None
        self._wish: Wish | None = None
        self._stop_file: Switch = FileSwitch(self.day)
        self._map: MapSwitch | None = None
        self._outside = Outside(self.day, self._note, get=self._get)
        alerts = self.day.written.alerts
        self._alerts = None if alerts is None else AlertWatch(alerts, self.day.folder, self._note)
        self._approved: Mapping[str, Any] | None = None
        self._undone = ""
        """What became of the undo of a run that was stopped."""
        self._drilled: Exit | None = None
        """How the run of the drill ended."""
        self._but_notes = Exit.PASS
        """How the day ended, notes of known weaknesses that are gone aside."""
        self._signal = threading.Event()
        self._names = [Path(step.experiment).stem for step in self.day.written.experiments]
        self._began = 0.0
        self._lock_of = ""

    # ---- the order -----------------------------------------------------------------------------

    def go(self, command: str) -> Exit:
        """The day's exit code; it never raises what a cluster, a user or a server may cause."""
        written = self.day.written
        self.record.add(
            "day.asked", gameday=self.day.name, file=self.day.file, target=written.target, owner=written.owner,
            hypothesis=written.hypothesis, host=socket.gethostname(), user=getpass.getuser(), command=command,
            version=chaos.__version__, window=_window(self.day), experiments=self._names,
        )  # fmt: skip
        with self._signals():
            try:
                return self._over(self._go())
            except Refused as error:
                return self._refused(error)
            except Held as error:
                self.says(f"already held: {error.message}")
                return self._ended(Exit.PASS, f"already held: {error.message}")
            except ChaosError as error:
                return self._failed(error.exit_code, error.message)
            except Exception as error:  # a day that breaks must still say so, and hold
                return self._failed(Exit.ERROR, f"{type(error).__name__}: {one_line(str(error))}")
            finally:
                self._close()

    def _go(self) -> Exit:
        wrong = wrong_templates(self.day)
        self._pass([Gate("templates", not wrong, "; ".join(wrong) or "they can be filled in", "mend announce")])
        self._pass([self._stop_file.gate(unlocked=True), *self._time()])
        target = self.hands.target()
        self._map = MapSwitch.of(self.day, target)
        self._pass([
            gates.production(target),
            gates.allowed(target, self.day.written.experiments, self._today()),
            *([self._map.gate(unlocked=True)] if self._map is not None else []),
        ])  # fmt: skip
        notes = target.written.notes
        if notes is None:
            raise Refused([Gate("notes", False, f"{target.file} names no index for notes", "write notes there")])
        self._board = board = Board(self.hands.cluster(), notes)
        self._known(board, notes, locked=False)
        self._lock = lock = Lock(board, self.day.name, lambda why: self._note("lock.lost", says=why))
        try:
            lock.take(self.says)
        except Busy as error:
            self._pass([Gate("lock", False, error.message, "wait for its end, then fire it once more")])
        self._note("lock.taken", token=lock.token)
        lock.keep()
        self._wish = Wish(board)
        self._wish.start()
        if self._map is not None:
            self._map.start()
        self._lock_of = drill.lock_of(target)
        self._clear_switches()
        self._known(board, notes, locked=True)  # whoever had the lock before may have held the day
        plans = self._planned()
        content = self._content(plans)
        self._approval(content)
        self._preflight()
        self._pass(
            [
                Gate(f"guard {name}", each.state == "good", each.why or f"{each.state}", "mend it, or take it out")
                for name, each in self._outside.ready()
            ]
        )
        if self._alerts is not None:
            why = self._alerts.ready()
            self._pass([Gate("alerts", why is None, why or "the alerts can be asked", "mend the address under alerts")])
        self._pass(self._still_open())
        self._announced(target)
        self._refuse_stopped("the day")
        self._claim(board)
        return self._held_now(plans)

    # ---- gates ---------------------------------------------------------------------------------

    def _note(self, kind: str, **fields: Any) -> None:
        self.record.add(kind, **fields)

    def _pass(self, found: Sequence[Gate], before: str = "the day") -> None:
        """Write each down. Raises Refused with those that do not let it pass."""
        for gate in found:
            self._note("gate", **gate.to_json(), before=before)
        if any(not gate.ok for gate in found):
            raise Refused([gate for gate in found if not gate.ok])

    def _today(self) -> date:
        return self.now().astimezone(UTC).date()

    def _time(self) -> list[Gate]:
        """The window, and calendars of all that the day may take from now on."""
        written, now = self.day.written, self.now()
        held = windows.held(written.window, written.bounds, now)
        self._held = held if held.ok else self._held
        found = [Gate("window", held.ok, held.why or "it is open", "see: opensearch-chaos gameday validate FILE")]
        if held.ok and held.closes is not None:
            found += self._frozen()
        return found

    def _still_open(self) -> list[Gate]:
        """The same once more, for the lock, plans and a cluster that has to be still may have taken long."""
        assert self._held is not None
        first, found = self._held, self._time()
        if self._held.day != first.day:
            self._held = first
            found.append(Gate("window", False, f"the window of {first.day} is over", "fire it in its next window"))
        return found

    def _frozen(self) -> list[Gate]:
        """Calendars of the rest of the window, or of all of one that is yet to open."""
        assert self._held is not None and self._held.opened is not None and self._held.closes is not None
        now = self.now()
        return gates.frozen(freezes.frozen_by(self.day, max(now, self._held.opened), self._held.closes, now))

    def _known(self, board: Board, notes: str, *, locked: bool) -> None:
        """What the cluster knows of game days. Raises Held where this one was held already and ended by itself, Refused
        where it was stopped or anything is on hold.

        ``locked``: the lock is ours, so a day that is still under way is of somebody who died.
        """
        assert self._held is not None
        there = board.exists()
        get = board.get if there else lambda id: None
        known = get(day_id(self.day.name, str(self._held.day)))
        on_hold = gates.hold(get(hold_id(self.day.name)))
        self.on_hold = not on_hold.ok
        if on_hold.ok and known is not None and known.source.get("state") == OVER:
            if known.source.get("outcome") not in gates.WELL:
                self._pass([gates.stopped(known)])
            raise Held(f"{self.day.name} of {self._held.day} was held on {known.source.get('host', '?')}")
        ended = [gates.unended(days_of(board, self.day.name))] if locked else []
        self.on_hold = not all(gate.ok for gate in (on_hold, *ended))
        self._pass([
            on_hold,
            *ended,
            *([self._notes_fit(board)] if there else []),
            gates.stop_wish(get(STOP)),
            self._consent(consent.board(self.day, self.hands.cluster(), notes), patience=0.0),
        ])  # fmt: skip

    @property
    def _switches(self) -> list[Switch]:
        return [self._stop_file, *([self._map] if self._map is not None else [])]

    def _stops(self) -> list[Gate]:
        came = Signalled(self._signal).tripped(time.monotonic())
        return [*(switch.gate() for switch in self._switches), gates.signal(came)]

    def _clear_switches(self) -> None:
        """Under the lock: a drill of a day that held it before us is over, and what it left stops nobody."""
        for switch in self._switches:
            if (dead := switch.dead_taken_away(self._lock_of)) is not None:
                says = f"{switch.says} was left by {dead}, whose runner died: it is taken away"
                self.says(says)
                self._pass([Gate(switch.gate().name, True, says)])
        self._pass(self._stops())

    def _planned(self) -> list[dict[str, Any]]:
        plans = self.hands.plans()
        self._names = [str(plan["experiment"]) for plan in plans]
        steps, board = self.day.written.experiments, self._board
        assert board is not None
        self._pass([*gates.plans(plans), *gates.rungs(plans, steps)])
        written = self.day.written.ladder
        labs = self.hands.lab_runs(self.day.beside(written.labs)) if written.labs is not None else []
        try:
            earlier: Any = gates.earlier_of(board.every(DAYS))
        except ChaosError as error:
            earlier = f"earlier days could not be read: {error.message}"
        digests = [(str(plan["experiment"]), str(plan["digest"])) for plan in plans]
        self._pass(gates.ladder(self.day, digests, labs, earlier, self.now()))
        assert self._held is not None and self._held.closes is not None
        needed = float(self.day.written.bounds.abort) + sum(float(plan["longest"]) for plan in plans)
        needed = min(needed, float(self.day.written.bounds.day) + float(self.day.written.bounds.abort))
        self._pass([gates.room(self._held.closes, needed, self.now())])
        return plans

    def _content(self, plans: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return content_of(self.day, self.hands, plans)

    def _approval(self, content: Mapping[str, Any]) -> None:
        """Signatures, a ticket, or both, over exactly this."""
        written, board = self.day.written.approval, self._board
        assert board is not None and self._held is not None and self._held.closes is not None
        digest, now = approval.digest_of(content), self.now()
        if written.allowed_signers is not None:
            used = {id.removeprefix(used_id("")) for id in board.every(used_id(""))} | self._used_here()
            found = approval.standing(self.day, content, now, used)
            if isinstance(found, approval.Approved):
                until = found.until.isoformat()
                self._approved = {"nonce": found.nonce, "until": until, "content": content, "digest": digest}
                self._note("approval", people=list(found.people), digest=digest, until=found.until.isoformat())
                self._pass([Gate("approval", True, f"{listed(list(found.people))} approved exactly this")])
            else:
                remedy = f"opensearch-chaos gameday approve {self.day.file} --key KEY"
                self._pass([Gate("approval", False, "; ".join(found[:3]), remedy)])
        self._ticket(digest, "the day")
        self._approved = self._approved or {"nonce": None, "content": content, "digest": digest}

    def _ticket(self, digest: str, before: str) -> None:
        asked = self._asked_ticket(digest)
        if asked is None:
            return
        self._note("ticket", url=asked.url, state=asked.state, ok=asked.ok, says=asked.says)
        self._pass([Gate("ticket", asked.ok, asked.says, "have the change approved for this plan")], before)

    def _preflight(self, before: str = "the day", within: float = 0.0) -> None:
        """Green and still, for long enough. ``within``: seconds in which that may become so."""
        wanted, end, since = self.day.written.preflight, time.monotonic() + within, None
        while True:
            seen = preflight.looked(self.hands.cluster(), wanted)
            found = preflight.gates(seen, wanted, self.now())
            now = time.monotonic()
            since = (since if since is not None else now) if all(gate.ok for gate in found) else None
            if since is not None and now - since >= float(wanted.stable):
                return self._pass(found, before)
            if since is None and now >= end:
                return self._pass(found, before)
            self._refuse_stopped(before)
            self._signal.wait(min(LOOK_SECONDS, float(wanted.stable)))

    def _refuse_stopped(self, before: str) -> None:
        """Between runs nobody else looks at the ways to stop."""
        if stops := self._tripped():
            raise Refused([Gate("stop", False, each.why, f"before {before}") for each in stops], stops)

    def _tripped(self, but: Collection[str] = ()) -> list[Stop]:
        """Guards that end the day now, without those of these names."""
        now, asked = time.monotonic(), [guard for guard in self._guards() if guard.name not in but]
        return [Stop(guard.name, why) for guard in asked if (why := guard.tripped(now)) is not None]

    # ---- telling, claiming ---------------------------------------------------------------------

    def _facts(self, says: str) -> dict[str, Any]:
        return {
            "says": says if says.endswith((".", "!", "?", "…")) else f"{says}.",
            "record": str(self.record.path.parent),
            "target": Path(self.day.written.target).stem,
            "experiments": self._names,
            "head": self.record.head,
            "window": _window(self.day),
        }

    def _announced(self, target: Existing) -> None:
        says = f"{plural(len(self._names), 'experiment')} on {target.written.name}: {listed(self._names)}"
        told = self.announcer.tell("before", **self._facts(says))
        self._pass([
            Gate(f"announcement by {each.way}", each.ok, f"{each.label}: {each.why or 'it was taken'}", "mend announce")
            for each in told
        ] or [Gate("announcement", False, "nobody was told that it begins", "write announce")])  # fmt: skip

    def _claim(self, board: Board) -> None:
        """From here on this day is held. Raises Held where another firing was first, Refused for a used approval."""
        assert self._held is not None and self._approved is not None
        source = {
            "state": UNDER_WAY,
            "host": socket.gethostname(),
            "digest": self._approved["digest"],
            "at": _iso(self.now()),
        }
        if board.create(day_id(self.day.name, str(self._held.day)), source) is None:
            raise Held(f"{self.day.name} of {self._held.day} was begun by another firing")
        nonce = self._approved["nonce"]
        if nonce is None:
            return
        used = {"gameday": self.day.name, "day": str(self._held.day), "until": self._approved["until"]}
        if board.create(used_id(nonce), used) is None:
            board.remove(day_id(self.day.name, str(self._held.day)))
            self._pass([Gate("approval", False, "this approval is used up", "have it approved anew")])
        self._note(USED, nonce=nonce, until=self._approved["until"], says="the approval is used up by this day")

    def _used_here(self) -> set[str]:
        """Nonces that days of this runner have used, by their records: the cluster's own documents may be gone."""
        return used_in(self.record.path.parent.parent)

    # ---- what is done --------------------------------------------------------------------------

    def _guards(self) -> list[Guard]:
        assert self._lock is not None and self._wish is not None and self._held is not None
        written = self.day.written
        found: list[Guard] = [self._lock, *(switch.guard() for switch in self._switches), self._wish]
        found.append(Signalled(self._signal))
        if self._held.closes is not None:
            found.append(WindowEnd(self._held.closes, float(written.bounds.abort), self.now))
        if self._began:
            found += self._outside.trips
            found.append(Bound(float(written.bounds.day), written.bounds.day.text, self._began))
        return found

    def _held_now(self, plans: Sequence[Mapping[str, Any]]) -> Exit:
        self._began = time.monotonic()
        self.begun()
        self._outside.start()
        if self._alerts is not None:
            self._alerts.start()
        self.announcer.tell_later("begin", **self._facts("it has begun"))
        if self.day.written.drilled:
            self._drill()
        for number, step in enumerate(self.day.written.experiments):
            if not self._step(number, step, plans[number]):
                break
        return self._judged()

    def _drill(self) -> None:
        """Trip the kill switch while something harmless is in effect, and see how long it takes."""
        written = self.day.written
        switch, bound = self._switches[-1], float(written.bounds.abort)  # as people are told to stop it
        self.says("drill of the kill switch")
        ours = drill.drill_of(self.day.name, self._lock_of, self.now())
        asked = False

        def permits(phase: str, stage: Stage) -> str | None:
            nonlocal asked
            if (why := self._permits(phase, "the drill", stage)) is not None:
                return why
            if stage == "made" and not asked:
                try:
                    switch.made(ours)
                except FileExistsError:
                    return f"{switch.says} is there: somebody wants no game day"
                except OSError as error:
                    return f"the drill cannot make the {switch.says}: {error.strerror}"
                except ChaosError as error:
                    return f"the drill cannot write into the {switch.says}: {error.message}"
                asked = True
            return None

        self.changed = True
        try:
            ran = self.hands.drill(self._guards(), permits)
        finally:
            if asked:
                switch.taken_away(ours)
        self._drilled = ran.exit_code
        took = ran.undone
        ok = asked and ran.guard == switch.name and ran.undone_all and took is not None and took <= bound and ran.clean
        if not ran.clean:
            says = f"something of the drill is left: {ran.headline}"
        elif took is not None and not ran.undone_all:
            says = f"not all of the drill could be taken back at once: {ran.headline}"
        elif took is not None and ran.guard == switch.name:
            says = f"all was undone {took:.1f} s after the {switch.says} stopped it; {bound:g} s are allowed"
        else:
            says = f"the run ended by {ran.guard or 'itself'}: {ran.says or ran.headline}"
        self._note(
            "drill", seconds=took, bound=bound, ok=ok, clean=ran.clean, how=switch.says, says=says, folder=ran.folder
        )
        self._pass(
            [Gate("drill", ok, says, "find out what takes so long, or agree on a longer bounds.abort")], "the day"
        )
        if ran.by_signal:  # its guard had ended it by then
            why = "a signal asked to stop while the drill was undone"
            raise Refused([Gate("signal", False, why)], [Stop("signal", why)])

    def _step(self, number: int, step: Step, plan: Mapping[str, Any]) -> bool:
        """Whether the day goes on after it."""
        name = self._names[number]
        before = f"experiment {name}"
        self._again(step, plan, before)
        self._note("experiment.begin", number=number + 1, name=name, rung=step.rung, file=step.experiment)
        self.says(f"experiment {name}")
        began, self.changed = time.monotonic(), True
        ran = self.hands.run(number, self._guards(), lambda phase, stage: self._permits(phase, name, stage))
        code = self._code(ran)
        done = Done(step, name, ran, self.now(), code)
        self.done.append(done)
        self._note(
            "experiment.end", number=number + 1, name=name, outcome=OUTCOMES[code], exit_code=int(ran.exit_code),
            clean=ran.clean, folder=ran.folder, seconds=round(time.monotonic() - began, 1), headline=ran.headline,
        )  # fmt: skip
        self.says(f"  {OUTCOMES[code]}: {ran.headline}")
        if ran.by_signal and ran.guard is None and ran.exit_code in ENDED_BY_ITSELF:
            self._stop_between([Stop("signal", f"a signal asked to stop when {name} was over")])
            return False
        if ran.guard is not None or ran.by_signal:
            self.stopped = ran.says or ran.headline
            self._note("stop", by=ran.guard or "signal", why=self.stopped)
            self._note(
                "undone", seconds=ran.undone, bound=float(self.day.written.bounds.abort), all=ran.undone_all,
                proven=ran.proven_gone,
            )  # fmt: skip
            self._undone = self._seen_back(ran)
            return False
        if code is Exit.PASS or done.improved:
            return True
        return code in (Exit.WEAKNESS, Exit.INCONCLUSIVE) and step.on_weakness == "go on"

    def _seen_back(self, ran: Ran) -> str:
        """What is to be said of the undo of a run that was stopped: commanded is not done.

        Where its end was not proven by the run, nodes and health are looked at for as long as an abort may take, and
        at least BACK_SECONDS; what became of that is recorded as ``back``.
        """
        since = "" if ran.undone is None else f" {ran.undone:.1f} s after the stop"
        if not ran.undone_all:
            return "not all was undone"
        if ran.proven_gone:
            return f"everything was undone{since}, and that was seen"
        began = time.monotonic()
        end = began + max(float(self.day.written.bounds.abort), BACK_SECONDS)
        while (missing := self._missing()) and time.monotonic() < end and not self._signal.is_set():
            time.sleep(LOOK_SECONDS)
        took = (ran.undone or 0.0) + time.monotonic() - began
        self._note("back", ok=not missing, seconds=round(took, 1), missing=missing)
        if missing:
            return f"everything was commanded back{since}, and {took:.0f} s after it {listed(missing)}"
        return f"everything was commanded back{since}, and seen back {took:.0f} s after it"

    def _missing(self) -> list[str]:
        """What is not back, in words: nodes that were approved, and green. What cannot be asked is not back."""
        assert self._approved is not None
        try:
            there = {str(node["name"]) for node in self.hands.node_ids().values()}
            status, answer = self._get(preflight.HEALTH)
        except ChaosError as error:
            return [f"the cluster does not say what is back ({error.message})"]
        away = sorted({str(node["name"]) for node in self._approved["content"]["nodes"].values()} - there)
        found = [f"{listed(away)} {'is' if len(away) == 1 else 'are'} not back"] if away else []
        health = answer.get("status") if status == 200 and isinstance(answer, Mapping) else None
        return found if health == "green" else [*found, f"the cluster is {health or 'silent about its health'}"]

    def _code(self, ran: Ran) -> Exit:
        code = ran.exit_code
        if code is Exit.ABORTED and ran.guard is not None:
            code = self._code_of(Stop(ran.guard, ran.says))
        return min(code, Exit.ABORTED, key=SEVERITY.index) if ran.by_signal else code

    def _code_of(self, stop: Stop) -> Exit:
        """An outcome guard says that users suffer by what we did: that is a weakness, and no abort."""
        outcomes = {guard.name for guard in self._outside.trips if guard.counts == "outcome"}
        suffer = stop.by in outcomes and "cannot be evaluated" not in stop.why
        return Exit.WEAKNESS if suffer else Exit.ABORTED

    def _again(self, step: Step, plan: Mapping[str, Any], before: str) -> None:
        """Before each experiment all gates that can have changed."""
        self._refuse_stopped(before)
        assert self._held is not None and self._held.closes is not None and self._lock is not None
        self._pass([
            *self._stops(),
            self._gate_lock(self.patience),
            gates.room(self._held.closes, float(plan["longest"]) + float(self.day.written.bounds.abort), self.now()),
            *self._frozen(),
            gates.climbed(step, self._results(), self._climbed_before()),
        ], before)  # fmt: skip
        self._preflight(before, float(self.day.written.preflight.within))
        now = self._content(self.hands.plans())
        assert self._approved is not None
        said = approval.changed(self._approved["content"], now)
        self._pass(
            [Gate("approval", not said, "; ".join(said) or "it is what was approved", "have it approved anew")], before
        )
        self._ticket(self._approved["digest"], before)

    def _results(self) -> list[tuple[str, str, bool]]:
        """For the ladder: one that improved kept each promise, and permits what a pass permits."""
        return [
            (each.step.rung, OUTCOMES[Exit.PASS if each.improved else each.code], each.ran.clean) for each in self.done
        ]

    def _climbed_before(self) -> bool:
        """Whether the ladder asks for nothing of this day: it is waived, or an earlier day has climbed it."""
        written = self.day.written
        return written.ladder.waived is not None or written.experiments[0].rung == "zone"

    def _permits(self, phase: str, name: str, stage: Stage) -> str | None:
        """Before a phase all that can have changed; right before a change the lock. Once it is made, whether the lock
        was lost or somebody wants a stop: what the cluster does not answer then is no refusal, for we have just broken
        it."""
        assert self._lock is not None and self._wish is not None
        wish = self._wish.says
        stops = [*self._stops(), Gate("stop", wish is None, wish or "nobody asked")]
        if stage == "before":
            found = self._before_phase()
        elif stage == "now":
            found = [*stops, self._gate_lock(self.patience)]  # the lock last: the change comes next
        else:
            found = [self._gate_lock(None), *stops]
        bad = [gate for gate in found if not gate.ok]
        for gate in bad or found:
            self._note("gate", **gate.to_json(), before=f"phase {phase} of {name}{STAGES[stage]}")
        return gates.words(bad) if bad else None

    def _before_phase(self) -> list[Gate]:
        assert self._approved is not None
        try:
            found = [self._gate_lock(self.patience), *self._stops(), *self._consented()]
            if all(gate.ok for gate in found):
                strangers = approval.strangers(self._approved["content"], self.hands.node_ids())
                found.append(Gate("nodes", not strangers, "; ".join(strangers) or "no other node than was approved"))
                edited = approval.edited(self._approved["content"], self.day, self.hands.target())
                found.append(Gate("files", not edited, "; ".join(edited) or "they are as they were approved"))
                asked = self._asked_ticket(self._approved["digest"])
                found += [Gate("ticket", asked.ok, asked.says)] if asked is not None else []
        except ChaosError as error:
            found = [Gate("cluster", False, error.message)]
        return found

    def _gate_lock(self, patience: float | None) -> Gate:
        assert self._lock is not None
        why = self._lock.held(patience)
        return Gate("lock", why is None, why or "it is ours", "somebody else is under way")

    def _consented(self) -> Iterator[Gate]:
        assert self._board is not None
        yield self._consent(consent.board(self.day, self.hands.cluster(), self._board.index), self.patience)
        yield gates.stop_wish(self._board.patiently(STOP, self.patience))
        yield from self._frozen()

    def _consent(self, board: Board, patience: float) -> Gate:
        try:
            doc = board.patiently(CONSENT, patience)
        except LabError as error:
            wanted = self.day.written.consent
            if wanted is None or wanted.index is None:
                raise
            remedy = f"let this user read {board.index}, and not write it: indices:data/read/get"
            return Gate("consent", False, error.message, remedy)
        return consent.gate(doc, self.day, self.hands.target(), self.now(), self._today(), board)

    def _notes_fit(self, board: Board) -> Gate:
        wrong = board.unfit()
        return Gate("notes", wrong is None, wrong or f"{board.index} is hidden, with a copy in each zone")

    def _asked_ticket(self, digest: str) -> tickets.Asked | None:
        """What the change says now; None where the day needs none."""
        ticket = self.day.written.approval.ticket
        if ticket is None:
            return None
        assert self._held is not None and self._held.closes is not None
        return tickets.ask(ticket, self.day, self.change, digest, self.now(), self._held.closes)

    # ---- the end --------------------------------------------------------------------------------

    def _judged(self) -> Exit:
        codes = [each.code for each in self.done if not each.improved]
        improved = [each.code for each in self.done if each.improved]
        self._await_alerts()
        if self.stopped is None and (stops := self._tripped(AFTERWARDS)):
            self._stop_between(stops)
            codes += map(self._code_of, stops)
        if self._alerts is not None:
            assert self.day.written.alerts is not None
            self._alerts.stop()
            moments = [moment for each in self.done for moment in each.ran.moments]
            for verdict in judged(self.day.written.alerts, self._alerts.seen(), moments):
                self._note(
                    "expectation", name=verdict.name, what=verdict.kind, verdict=verdict.verdict, says=verdict.says
                )
                codes.append({"pass": Exit.PASS, "weakness": Exit.WEAKNESS}.get(verdict.verdict, Exit.INCONCLUSIVE))
        self._but_notes = min(codes, key=SEVERITY.index, default=Exit.PASS)
        return min([*codes, *improved], key=SEVERITY.index, default=Exit.INCONCLUSIVE)

    def _await_alerts(self) -> None:
        """Alerts that still may resolve in time are waited for, within the window."""
        if self.stopped is not None or self.day.written.alerts is None:
            return
        until = watched_until(self.day.written.alerts, [each for one in self.done for each in one.ran.moments])
        while until is not None and time.monotonic() < until and not self._tripped():
            self._signal.wait(TICK_SECONDS)

    def _over(self, code: Exit) -> Exit:
        if self.stopped is not None:
            how = f"; {self._undone}" if self._undone else ""
            return self._ended(code, f"ended early: {self.stopped}{how}", event="abort")
        improved = any(each.improved for each in self.done)
        says = {Exit.PASS: "the hypothesis held", Exit.WEAKNESS: "the hypothesis did not hold"}.get(
            self._but_notes if improved else code, "not shown whether the hypothesis holds"
        )
        if improved:
            says += f"; a known weakness is gone: {CLEAR}"
        return self._ended(code, says, event="end")

    def _refused(self, error: Refused) -> Exit:
        for gate in error.gates:
            self.says(f"REFUSED  {gate}")
        if not self.changed:
            on_hold = any(gate.name in gates.HOLDING for gate in error.gates)
            return self._ended(Exit.HELD if on_hold else Exit.USAGE, str(error), event="refused")
        stops = error.stops or [Stop("gate", str(error))]
        self._stop_between(stops)
        codes = [*map(self._code_of, stops), *(each.code for each in self.done), *self._left_by_drill()]
        return self._ended(min(codes, key=SEVERITY.index), f"ended early: {self.stopped}", event="abort")

    def _stop_between(self, stops: Sequence[Stop]) -> None:
        """While no run is under way."""
        self.stopped = "; ".join(each.why for each in stops)
        for stop in stops:
            self._note_last("stop", by=stop.by, why=stop.why)
        self._note_last("undone", nothing=True)

    def _failed(self, code: Exit, says: str) -> Exit:
        self.says(f"{says}")
        if not self.changed and code is Exit.USAGE:
            return self._ended(code, says, event="refused")
        code = code if code is not Exit.USAGE else Exit.ERROR
        worst = min([code, *(each.code for each in self.done), *self._left_by_drill()], key=SEVERITY.index)
        if worst is not code:
            names = [each.name for each in self.done if each.code is worst] or ["the drill"]
            says += f"; before that {listed(names)} had ended as {OUTCOMES[worst]}"
        return self._ended(worst, says, event="abort" if self.changed else "refused")

    def _left_by_drill(self) -> list[Exit]:
        """A drill ends as aborted, always; what is worse counts."""
        return [self._drilled] if self._drilled in (Exit.DIRTY, Exit.ERROR) else []

    def _ended(self, code: Exit, says: str, event: Any = None) -> Exit:
        outcome = ALREADY if event is None else OUTCOMES[code]
        if self.changed and code in HOLDS:
            self._hold(says)
        self._noted_on_cluster(outcome, says)
        self._note_last("day.end", outcome=outcome, exit_code=int(code), says=says)
        if event is not None:
            self.announcer.tell_later(event, **self._facts(f"{outcome}: {says}"))
        return code

    def _note_last(self, kind: str, **fields: Any) -> None:
        """At the end: hold, board and announcement depend on no disk. The record says itself that it has a hole."""
        with suppress(OSError):
            self._note(kind, **fields)

    def _hold(self, why: str) -> None:
        self.on_hold = True
        self._note_last("hold", why=why)
        with suppress(ChaosError):
            assert self._board is not None and self._held is not None
            self._board.put(
                hold_id(self.day.name), {"why": why[:500], "day": str(self._held.day), "at": _iso(self.now())}
            )

    def _noted_on_cluster(self, outcome: str, says: str) -> None:
        """How the day ended, for the next ones; only where it was begun."""
        if not self._began or self._board is None or self._held is None:
            return
        experiments = [
            {
                "name": each.name,
                "rung": each.step.rung,
                "outcome": OUTCOMES[each.code],
                "clean": each.ran.clean,
                "ended": _iso(each.ended),
            }
            for each in self.done
        ]
        source = {
            "state": OVER,
            "outcome": outcome,
            "says": says[:500],
            "host": socket.gethostname(),
            "at": _iso(self.now()),
            "experiments": experiments,
            "head": self.record.head,
        }
        with suppress(ChaosError):
            self._board.put(day_id(self.day.name, str(self._held.day)), source)

    def _close(self) -> None:
        self._outside.stop()
        if self._alerts is not None:
            self._alerts.stop()
        if self._wish is not None:
            self._wish.stop()
        if self._map is not None:
            self._map.stop()
        if self._lock is not None:
            with suppress(ChaosError):
                self._lock.release()
        self.announcer.settle(30.0)

    # ---- small things ----------------------------------------------------------------------------

    def _get(self, path: str) -> tuple[int, Any]:
        from chaos.opensearch.views import administer

        return administer(self.hands.cluster(), "GET", path, timeout=10.0)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """A signal ends the day; while a run is under way it is the run's. One that comes between the last look and the
        run is a guard of that run (:class:`Signalled`)."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, lambda *_: self._signal.set())
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        }
        try:
            yield
        finally:
            for number, old in before.items():
                signal.signal(number, old)


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _window(day: GameDay) -> str:
    window = day.written.window
    return f"{', '.join(window.days)} {window.from_:%H:%M} to {window.to:%H:%M} {window.zone}"
