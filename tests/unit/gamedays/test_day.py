"""The order of a game day: each gate before anything is changed, what can have changed asked again, a stop at any time.

Faults and runs are a stand-in here (:class:`Hands`), and so are signatures and those who are told; lock and record are
real.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from apiserver import Server, serving
from daykit import TARGET, a_day
from documents import INDEX, WithDocuments
from gatetable import WELL, lab

from chaos.base.errors import Exit, LabError
from chaos.base.waiting import wait_until
from chaos.definitions.existing import Existing, load_existing
from chaos.definitions.gameday import GameDay
from chaos.gamedays import board, drill, gates, preflight, summary, switches
from chaos.gamedays import day as days
from chaos.gamedays.alerts import Moment
from chaos.gamedays.announce import Told
from chaos.gamedays.approval import Approved
from chaos.gamedays.board import CONSENT, LOCK, STOP, Board, day_id, hold_id
from chaos.gamedays.day import OUTCOMES, Day, Ran
from chaos.gamedays.gates import LabRun
from chaos.gamedays.outside import Watched
from chaos.gamedays.record import FILE, Record, read, verify
from chaos.run.guards import Guard
from chaos.run.options import Permits, Stage

NOW = datetime(2026, 11, 26, 10, 0, tzinfo=UTC)
"""A Thursday; 11:00 in Berlin."""
OPEN = {"zone": "Europe/Berlin", "days": ["thu"], "from": "10:00", "to": "16:00"}
IDS = {"n1": {"name": "es-a", "zone": "za"}}


class Hands:
    """Runs that do nothing; ``while_running`` is done in each, and may trip what it likes."""

    def __init__(self, day: GameDay, cluster: WithDocuments) -> None:
        self.day, self.there = day, cluster
        self.ends = [Ran(Exit.PASS, True, "runs/r", "every promise was kept")] * 9
        self.while_running: Callable[[int, Permits], None] = lambda number, permits: None
        self.ran: list[str] = []
        self.refused: list[dict[str, str]] = []
        self.ids = dict(IDS)
        self.digest = "d" * 64
        self.ended: Callable[[], None] = lambda: None
        self.guarded: list[str] = []
        self.asking: Callable[[Stage], None] = lambda stage: None
        self.drilled = Ran(Exit.ABORTED, True, "runs/d", "stopped", guard="stop_file", undone=1.5)

    def target(self) -> Existing:
        return load_existing(self.day.target)

    def cluster(self) -> Any:
        return self.there

    def plans(self) -> list[dict[str, Any]]:
        return [
            {
                "experiment": Path(step.experiment).stem,
                "rung": step.rung,
                "reach": [],
                "refused": self.refused,
                "steps": [],
                "digest": self.digest,
                "longest": 60.0,
            }
            for step in self.day.written.experiments
        ]

    def node_ids(self) -> dict[str, dict[str, str]]:
        return self.ids

    def lab_runs(self, folder: Path) -> list[LabRun] | str:
        return [lab()]

    def run(self, number: int, guards: Sequence[Guard], permits: Permits) -> Ran:
        return self._run(f"{number}", self.ends[number], guards, lambda: self.while_running(number, permits), permits)

    def drill(self, guards: Sequence[Guard], permits: Permits) -> Ran:
        return self._run("drill", self.drilled, guards, lambda: None, permits)

    def _run(
        self,
        name: str,
        end: Ran,
        guards: Sequence[Guard],
        work: Callable[[], None],
        permits: Permits,
    ) -> Ran:
        self.ran.append(name)
        self.guarded = [guard.name for guard in guards]
        asked: list[tuple[str, Stage]] = [("dead", "before"), ("dead", "now"), ("dead", "made")]
        for phase, stage in asked if name == "drill" else [*asked, ("later", "before")]:
            self.asking(stage)
            if (why := permits(phase, stage)) is not None:
                return Ran(Exit.ABORTED, True, "runs/r", why, guard="permits", says=why, undone=0.5)
            if stage == "now":
                work()
            if stage == "made":
                self.ended()
        for guard in guards:
            if (why := guard.tripped(0.0)) is not None and name != "drill":
                return Ran(Exit.ABORTED, True, "runs/r", why, guard=guard.name, says=why, undone=0.5)
        return end


class Teller:
    """Hears what is announced. ``ok``: what comes of it."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.ok = True

    def tell(self, event: str, **facts: Any) -> list[Told]:
        self.told.append((event, str(facts["says"])))
        return [Told("webhook", "127.0.0.1", self.ok, None if self.ok else "it answered 500", 1.0)]

    tell_later = tell

    def settle(self, within: float) -> list[Told]:
        return []


class Firing:
    """One game day, ready to be fired. What it is made of may be changed before."""

    def __init__(self, folder: Path, there: WithDocuments, **changes: Any) -> None:
        self.folder, self.cluster = folder, there
        self.day = a_day(folder / "files", window=OPEN, **changes)
        self.hands, self.teller = Hands(self.day, there), Teller()
        self.said: list[str] = []
        self.now = NOW
        self.count = 0

    def fire(self, change: str | None = None) -> Exit:
        self.count += 1
        self.file = self.folder / f"day-{self.count}" / FILE
        with Record(self.file) as record:
            made = Day(self.day, self.hands, record, self.teller, self.said.append, change, lambda: self.now)  # type: ignore[arg-type]
            made.patience = 0.0
            self.made = made
            code = made.go("opensearch-chaos gameday run x")
        assert verify(self.file) == []
        return code

    def lines(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in read(self.file) if line["kind"] == kind]

    @property
    def refused(self) -> list[str]:
        return [f"{line['before']}, {line['name']}: {line['says']}" for line in self.lines("gate") if not line["ok"]]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> WithDocuments:
    made = WithDocuments()
    Board(made, INDEX).make()  # type: ignore[arg-type]
    made.documents[CONSENT] = {"gamedays": ["staging"], "until": "2027-01-01", "by": "team-platform"}
    made.sequence[CONSENT] = 0
    monkeypatch.setattr(preflight, "looked", lambda target, wanted: WELL)
    # whose a consent is, has tests of its own (test_consent.py)
    monkeypatch.setattr(
        days.consent, "gate", lambda doc, day, target, now, today, board: gates.consent(doc, day, today, board.index)
    )
    return made


@pytest.fixture
def approved(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What :func:`approval.standing` says; signatures have tests of their own."""
    nonces = (f"{number:016x}" for number in range(99))
    said: list[Any] = []

    def standing(day: GameDay, content: Any, now: datetime, used: Any) -> Any:
        if said:
            return said[0]
        nonce = next(each for each in nonces if each not in used)
        return Approved(("ann", "bob"), ("k1", "k2"), "d", NOW, NOW + timedelta(days=3), nonce, "x.json")

    monkeypatch.setattr(days.approval, "standing", standing)
    return said


@pytest.fixture
def firing(tmp_path: Path, cluster: WithDocuments, approved: list[Any]) -> Firing:
    return Firing(
        tmp_path,
        cluster,
        experiments=[{"experiment": "one.yaml", "rung": "node"}, {"experiment": "two.yaml", "rung": "node"}],
        preflight={"stable": "1ms", "within": "1ms"},
    )


def test_a_whole_day(firing: Firing) -> None:
    assert firing.fire() is Exit.PASS, firing.refused
    assert firing.hands.ran == ["0", "1"] and firing.refused == []
    assert firing.hands.guarded == ["lock", "stop_file", "stop", "signal", "window", "guard.users", "bounds.day"]
    assert [event for event, _ in firing.teller.told] == ["before", "begin", "end"]
    assert firing.teller.told[-1][1] == "pass: the hypothesis held."
    kinds = [line["kind"] for line in read(firing.file)]
    assert kinds[0] == "day.asked" and kinds[-1] == "day.end"
    assert kinds.index("lock.taken") < kinds.index("approval") < kinds.index("experiment.begin")
    known = firing.cluster.documents
    assert LOCK not in known and known[day_id("staging", "2026-11-26")]["outcome"] == "pass"


def test_fired_twice_it_is_held_once(firing: Firing) -> None:
    assert firing.fire() is Exit.PASS
    firing.now += timedelta(hours=1)
    assert firing.fire() is Exit.PASS and len(firing.hands.ran) == 2
    assert "already held" in firing.lines("day.end")[0]["says"] and len(firing.teller.told) == 3


@pytest.mark.parametrize("end", [Exit.ABORTED, Exit.ERROR, Exit.DIRTY])
def test_a_day_that_did_not_end_by_itself_is_a_failure_each_time_it_is_fired(firing: Firing, end: Exit) -> None:
    """A scheduler must not see success. Once a person lets it go on, the next window is held, and not this one."""
    firing.hands.ends[0] = Ran(end, end is not Exit.DIRTY, "runs/r", "stopped by a person")
    assert firing.fire() is end
    for _ in range(2):
        firing.now += timedelta(minutes=10)
        assert firing.fire() is Exit.HELD and firing.hands.ran == ["0"]
        assert "on hold since the day of 2026-11-26" in firing.lines("day.end")[0]["says"]
    del firing.cluster.documents[hold_id("staging")]  # gameday resume
    firing.now += timedelta(minutes=10)
    assert firing.fire() is Exit.HELD and firing.hands.ran == ["0"]
    (last,) = firing.lines("day.end")
    assert last["outcome"] == "held" and f"this day ended as {OUTCOMES[end]} on" in last["says"], last
    firing.hands.ends = [Ran(Exit.PASS, True, "runs/r", "fine")] * 9
    firing.now = NOW + timedelta(days=7)
    assert firing.fire() is Exit.PASS


def test_fired_by_two_machines_at_once_it_is_held_once(
    tmp_path: Path, firing: Firing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board, "RENEW_SECONDS", 0.05)
    monkeypatch.setattr(board, "LOOK_SECONDS", 0.05)
    other = Firing(tmp_path / "other", firing.cluster, preflight={"stable": "1ms"})
    other.day = other.hands.day = firing.day
    entered, go_on = threading.Event(), threading.Event()

    def wait(number: int, permits: Any) -> None:
        entered.set()
        assert go_on.wait(60)

    firing.hands.while_running = wait
    codes: list[Exit] = []
    thread = threading.Thread(target=lambda: codes.append(firing.fire()))
    thread.start()
    try:
        assert entered.wait(60)
        assert other.fire() is Exit.PASS and other.hands.ran == [] and other.teller.told == []
    finally:
        go_on.set()
        thread.join()
    assert codes == [Exit.PASS] and firing.hands.ran == ["0", "1"]


def test_another_game_day_that_holds_the_cluster_refuses_it_and_people_hear_so(
    firing: Firing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler that takes 0 for a day that was held would lose it."""

    class Renewed(list[str]):
        """The other's lock is renewed while we watch whether it lives."""

        def append(self, said: str) -> None:
            super().append(said)
            firing.cluster._keep(LOCK, dict(firing.cluster.documents[LOCK]))

    firing.cluster._keep(LOCK, {"who": "x", "gameday": "zones", "host": "vm"})
    firing.said = Renewed()
    monkeypatch.setattr(board, "LOOK_SECONDS", 0.01)
    assert firing.fire() is Exit.USAGE and firing.hands.ran == []
    assert firing.refused == ["the day, lock: game day zones of vm is under way on this cluster"]
    assert [event for event, _ in firing.teller.told] == ["refused"]
    assert firing.cluster.documents[LOCK]["gameday"] == "zones"
    del firing.cluster.documents[LOCK]
    firing.said = []
    assert firing.fire() is Exit.PASS and firing.hands.ran == ["0", "1"], "its window is open still"


def test_a_day_whose_runner_died_lets_no_other_begin(firing: Firing, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(number: int, permits: Any) -> None:
        raise Killed

    firing.hands.while_running = dies
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Day, "_close", lambda self: [self._outside.stop(), self._wish.stop(), self._lock._over.set()])
        firing.fire()
    assert LOCK in firing.cluster.documents
    monkeypatch.setattr(board, "TTL_SECONDS", 0.05)
    monkeypatch.setattr(board, "LOOK_SECONDS", 0.05)
    for days_later in (0, 7):
        firing.now = NOW + timedelta(days=days_later)
        assert firing.fire() is Exit.HELD
        assert firing.refused == [f"the day, ended: staging-2026-11-26 on {socket.gethostname()} never ended"]
        assert firing.hands.ran == ["0"]


def test_a_dead_day_of_another_game_day_whose_name_begins_alike_holds_nothing(firing: Firing) -> None:
    firing.cluster._keep(day_id("staging-zone", "2026-11-19"), {"state": "under way", "host": "vm"})
    assert firing.fire() is Exit.PASS, firing.refused


def test_the_next_week_is_another_day(firing: Firing) -> None:
    assert firing.fire() is Exit.PASS
    firing.now += timedelta(days=7)
    assert firing.fire() is Exit.PASS and len(firing.hands.ran) == 4


BY_HAND = {"index.number_of_replicas": "1"}
REFUSED: list[tuple[str, Callable[[Firing], object], str]] = [
    ("outside of its window", lambda f: setattr(f, "now", NOW.replace(hour=3)), "window"),
    ("on another weekday", lambda f: setattr(f, "now", NOW + timedelta(days=1)), "window"),
    ("too late in it", lambda f: setattr(f, "now", NOW.replace(hour=14, minute=45)), "window"),
    ("the stop file is there", lambda f: Path(f.day.written.stop.file).touch(), "stop file"),
    ("somebody asked to stop", lambda f: f.cluster._keep(STOP, {"by": "ann", "why": "an incident"}), "stop"),
    ("a hold", lambda f: f.cluster._keep(hold_id("staging"), {"why": "dirty", "day": "2026-11-19"}), "hold"),
    ("the notes were made by hand", lambda f: f.cluster.indices.update({INDEX: BY_HAND}), "notes"),
    ("no consent", lambda f: f.cluster.documents.pop(CONSENT), "consent"),
    ("the plan is refused", lambda f: f.hands.refused.append({"where": "a", "what": "b", "says": "c"}), "plan of one"),
    ("a guard is bad", lambda f: guarded(f, "false"), "guard users"),
    ("a guard is dead", lambda f: guarded(f, "no-such-program"), "guard users"),
    ("nobody hears of it", lambda f: setattr(f.teller, "ok", False), "announcement by webhook"),
]


def guarded(firing: Firing, program: str) -> None:
    guard = {"counts": "outcome", "program": {"run": [program]}}
    made = a_day(firing.folder / "guarded", window=OPEN, guards={"users": guard}, preflight={"stable": "1ms"})
    firing.day = firing.hands.day = made


@pytest.mark.parametrize(("what", "make", "gate"), REFUSED, ids=[each[0] for each in REFUSED])
def test_a_refusal_changes_nothing(firing: Firing, what: str, make: Callable[[Firing], object], gate: str) -> None:
    make(firing)
    assert firing.fire() is (Exit.HELD if what == "a hold" else Exit.USAGE)
    assert firing.hands.ran == [] and any(f", {gate}: " in each for each in firing.refused), firing.refused
    known = firing.cluster.documents
    assert (
        LOCK not in known
        and day_id("staging", "2026-11-26") not in known
        and (what == "a hold" or hold_id("staging") not in known)
    )
    assert [event for event, _ in firing.teller.told if event != "before"] == ["refused"]


@pytest.mark.parametrize(
    ("late", "says"),
    [
        (timedelta(minutes=20), "a day may begin until last_start, 11:01, only"),
        (timedelta(days=7), "the window of 2026-11-26 is over"),
    ],
    ids=["after last_start", "in the next window"],
)
def test_a_day_whose_gates_took_long_begins_in_its_window_or_not_at_all(
    firing: Firing, monkeypatch: pytest.MonkeyPatch, late: timedelta, says: str
) -> None:
    """The lock was watched for three minutes, plans were made, the cluster had to be still, guards were slow."""
    window = {**OPEN, "last_start": "11:01"}
    firing.day = firing.hands.day = a_day(firing.folder / "late", window=window, preflight={"stable": "1ms"})

    def late_guards(outside: Any) -> list[Any]:
        firing.now += late
        return []

    monkeypatch.setattr(days.Outside, "ready", late_guards)
    assert firing.fire() is Exit.USAGE and firing.hands.ran == []
    assert [each for each in firing.refused if "window" in each] == firing.refused and says in str(firing.refused)
    assert [event for event, _ in firing.teller.told] == ["refused"], "no begin was announced"
    assert day_id("staging", "2026-11-26") not in firing.cluster.documents


def test_a_consent_that_this_user_may_not_read_is_refused_with_what_it_needs(firing: Firing) -> None:
    firing.day = firing.hands.day = a_day(firing.folder / "own", window=OPEN, consent={"index": INDEX})
    asked = f"/{INDEX}/_doc/{CONSENT}"
    firing.cluster.lies = lambda method, path: (403, {"error": "no permissions"}) if path == asked else None
    assert firing.fire() is Exit.USAGE and firing.hands.ran == []
    assert firing.lines("gate")[-1]["remedy"].endswith("indices:data/read/get")


def test_what_was_refused_may_be_held_later_in_its_window(firing: Firing) -> None:
    firing.teller.ok = False
    assert firing.fire() is Exit.USAGE
    firing.teller.ok = True
    assert firing.fire() is Exit.PASS and firing.hands.ran == ["0", "1"]


def test_nobody_approved(firing: Firing, approved: list[Any]) -> None:
    approved.append(["a.json: it expired at 2026-11-20T00:00:00Z"])
    assert firing.fire() is Exit.USAGE and "it expired" in firing.refused[0]


def test_an_approval_is_used_once(firing: Firing, approved: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    approved.append(Approved(("ann",), ("k",), "d", NOW, NOW + timedelta(days=9), "ab" * 8, "x.json"))
    assert firing.fire() is Exit.PASS
    firing.now += timedelta(days=7)
    assert firing.fire() is Exit.USAGE and "used up" in firing.refused[0]
    assert day_id("staging", "2026-12-03") not in firing.cluster.documents


def test_an_approval_is_used_once_though_the_cluster_forgot_it(firing: Firing, approved: list[Any]) -> None:
    """The notes of the cluster are deleted between two firings: the runner's own record knows."""
    assert firing.fire() is Exit.PASS
    (line,) = firing.lines("approval.used")
    consent = firing.cluster.documents[CONSENT]
    firing.cluster.documents.clear()
    firing.cluster._keep(CONSENT, consent)
    assert days.used_in(firing.folder) == {line["nonce"]}
    assert firing.fire() is Exit.PASS, "with another approval: the fixture makes one whose nonce is not used"
    assert firing.lines("approval.used")[0]["nonce"] != line["nonce"]


def test_forget_keeps_what_was_used(firing: Firing, approved: list[Any]) -> None:
    approved.append(Approved(("ann",), ("k",), "d", NOW, NOW + timedelta(days=3), "ab" * 8, "x.json"))
    assert firing.fire() is Exit.PASS
    assert Board(firing.cluster, INDEX).forget(firing.now) == (1, 1)  # type: ignore[arg-type]
    other = Firing(firing.folder / "another-runner", firing.cluster, preflight={"stable": "1ms"})
    assert other.fire() is Exit.USAGE and "used up" in other.refused[0]


def test_what_was_approved_is_exchanged_while_a_run_is_under_way(firing: Firing) -> None:
    """Between the gates before an experiment and a later phase of it."""
    target = Path(firing.day.target)

    def exchanged(number: int, permits: Permits) -> None:
        target.write_text(TARGET.replace("http://127.0.0.1:9}", "http://127.0.0.1:10}"))

    firing.hands.while_running = exchanged
    assert firing.fire() is Exit.ABORTED
    assert firing.hands.ran == ["0"]
    assert firing.refused == [
        "phase later of one, files: the target's nodes.es-a.url is http://127.0.0.1:10 and was http://127.0.0.1:9"
    ]


def midway(firing: Firing, work: Callable[[], object]) -> Exit:
    """Fire it; ``work`` is done in the first experiment, before its fault is in effect."""
    firing.hands.while_running = lambda number, permits: work() if number == 0 else None
    return firing.fire()


IN_MID_DAY: list[tuple[str, Callable[[Firing], object], str]] = [
    ("the stop file", lambda f: Path(f.day.written.stop.file).touch(), "somebody wants no game day"),
    ("a wish to stop", lambda f: f.cluster._keep(STOP, {"by": "ann", "why": "pager"}), "ann asked to stop"),
    ("consent taken back", lambda f: f.cluster.documents.pop(CONSENT), "no consent"),
    ("another node", lambda f: f.hands.ids.update(n9={"name": "es-a", "zone": "za"}), "es-a"),
    ("the lock is another's", lambda f: f.cluster._keep(LOCK, {"who": "somebody"}), "somebody else has taken the lock"),
    ("the cluster stays silent", lambda f: silent(f), "answered 503"),
]


def test_a_cluster_that_is_silent_right_after_it_was_broken_stops_nothing(firing: Firing) -> None:
    """A zone that is cut off holds a copy of the lock; who is led to it waits in vain."""
    permits = 0

    def once(number: int, permitted: Any) -> None:
        nonlocal permits
        permits += 1
        silent(firing)

    firing.hands.while_running = once
    firing.hands.ended = lambda: setattr(firing.cluster, "lies", lambda method, path: None)
    assert firing.fire() is Exit.PASS and permits == 2


def silent(firing: Firing) -> None:
    firing.cluster.lies = lambda method, path: (503, {}) if method == "GET" else None


@pytest.mark.parametrize(("what", "work", "says"), IN_MID_DAY, ids=[each[0] for each in IN_MID_DAY])
def test_what_changes_in_mid_day_stops_it(
    firing: Firing, what: str, work: Callable[[Firing], object], says: str
) -> None:
    assert midway(firing, lambda: work(firing)) is Exit.ABORTED
    assert firing.hands.ran == ["0"], "no other experiment begins"
    (stop,) = firing.lines("stop")
    assert says in stop["why"], stop
    assert firing.lines("undone")[0]["seconds"] == 0.5 and firing.lines("hold")
    assert firing.teller.told[-1][0] == "abort"
    if what != "the cluster stays silent":
        assert hold_id("staging") in firing.cluster.documents, "a person must say why it may go on"


@pytest.mark.parametrize("comes", [True, False], ids=["it comes back", "it does not"])
def test_commanded_is_not_done(
    tmp_path: Path, cluster: WithDocuments, approved: list[Any], monkeypatch: pytest.MonkeyPatch, comes: bool
) -> None:
    """A node was killed and told to start; the day looks until it is a member again, and the last message says so."""
    monkeypatch.setattr(days, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(days, "BACK_SECONDS", 0.3)
    monkeypatch.setattr(Day, "_get", lambda self, path: (200, {"status": "green"}))
    firing = Firing(tmp_path, cluster, preflight={"stable": "1ms"}, bounds={"abort": "500ms", "day": "1h"})
    every = dict(firing.hands.ids)
    gone = next(iter(every))
    asked: list[int] = []

    def ids() -> dict[str, dict[str, str]]:
        if not firing.hands.ran:
            return every
        asked.append(1)
        return every if comes and len(asked) > 3 else {id: node for id, node in every.items() if id != gone}

    monkeypatch.setattr(firing.hands, "node_ids", ids)
    stopped = Ran(Exit.ABORTED, True, "r", "stopped", guard="stop_file", says="users complain", undone=0.3)
    firing.hands.ends[0] = replace(stopped, proven_gone=False)
    assert firing.fire() is Exit.ABORTED
    (back,) = firing.lines("back")
    event, says = firing.teller.told[-1]
    assert event == "abort" and says.startswith("aborted: ended early: users complain; everything was commanded back ")
    name = every[gone]["name"]
    if comes:
        assert back["ok"] is True and back["missing"] == [] and back["seconds"] >= 0.3
        assert re.search(r"0\.3 s after the stop, and seen back [0-9]+ s after it\.$", says), says
    else:
        assert back["ok"] is False and back["missing"] == [f"{name} is not back"]
        assert says.endswith(f"{name} is not back."), says
    assert firing.lines("day.end")[0]["says"] in says


@pytest.mark.parametrize(("stage", "told"), [("now", ", right before a change"), ("made", ", made")])
@pytest.mark.parametrize(("what", "gate"), [("lock", "lock"), ("stop file", "stop file")])
def test_right_before_a_change_and_once_it_is_made_it_is_asked_again(
    firing: Firing, stage: str, told: str, what: str, gate: str
) -> None:
    """Between the look before a phase and its change seconds may lie, in which a runner was frozen."""

    def asking(asked: Stage) -> None:
        if asked == stage and what == "lock":
            firing.cluster._keep(LOCK, {"who": "somebody"})
        elif asked == stage:
            Path(firing.day.written.stop.file).touch()

    firing.hands.asking = asking
    assert firing.fire() is Exit.ABORTED and firing.hands.ran == ["0"]
    assert firing.refused[0].startswith(f"phase dead of one{told}, {gate}: "), firing.refused


def test_between_two_experiments_all_is_asked_again(firing: Firing, monkeypatch: pytest.MonkeyPatch) -> None:
    firing.hands.while_running = lambda number, permits: setattr(firing.hands, "digest", "e" * 64)
    assert firing.fire() is Exit.ABORTED
    assert firing.hands.ran == ["0"] and "was edited" in firing.refused[0]
    assert [line["nothing"] for line in firing.lines("undone")] == [True]


def test_a_cluster_that_does_not_get_green_again_stops_it(firing: Firing, monkeypatch: pytest.MonkeyPatch) -> None:
    yellow = days.preflight.Looked({**(WELL.health or {}), "status": "yellow"}, WELL.settings, (), (), WELL.headroom)
    looked = lambda target, wanted: yellow if firing.hands.ran else WELL  # noqa: E731
    monkeypatch.setattr(preflight, "looked", looked)
    assert firing.fire() is Exit.ABORTED and firing.hands.ran == ["0"]
    assert "experiment two, health: it is yellow" in firing.refused[0]


@pytest.mark.parametrize(
    ("end", "code", "holds"),
    [(Exit.WEAKNESS, 1, False), (Exit.INCONCLUSIVE, 3, False), (Exit.ERROR, 5, True), (Exit.DIRTY, 6, True)],
)
def test_how_an_experiment_ends_is_how_the_day_ends(firing: Firing, end: Exit, code: int, holds: bool) -> None:
    firing.hands.ends[0] = Ran(end, end is not Exit.DIRTY, "runs/r", "so it was")
    assert firing.fire() == code and firing.hands.ran == ["0"]
    assert (hold_id("staging") in firing.cluster.documents) is holds
    firing.now += timedelta(days=7)
    firing.hands.ends[0] = Ran(Exit.PASS, True, "runs/r", "fine")
    assert firing.fire() is (Exit.HELD if holds else Exit.PASS)


@pytest.mark.parametrize("alike", [True, False], ids=["alike", "on another topology"])
def test_one_experiment_may_be_held_twice_in_a_day(
    tmp_path: Path, cluster: WithDocuments, approved: list[Any], alike: bool
) -> None:
    """Each of its plans must have passed in a lab."""
    twice = [{"experiment": "one.yaml", "rung": "node"}] * 2
    firing = Firing(tmp_path, cluster, experiments=twice, ladder={"labs": "labs"}, preflight={"stable": "1ms"})
    plans = firing.hands.plans
    if not alike:
        firing.hands.plans = lambda: [{**plans()[0], "digest": "e" * 64}, plans()[1]]  # type: ignore[method-assign]
    assert firing.fire() is (Exit.PASS if alike else Exit.USAGE), firing.said
    assert firing.hands.ran == (["0", "1"] if alike else [])
    assert firing.refused == (
        [] if alike else ["the day, lab run of one: labs has no lab run of exactly this experiment"]
    )


def test_a_weakness_may_be_gone_on_after(tmp_path: Path, cluster: WithDocuments, approved: list[Any]) -> None:
    steps = [{"experiment": f"{name}.yaml", "rung": "node", "on_weakness": "go on"} for name in ("one", "two")]
    firing = Firing(tmp_path, cluster, experiments=steps, preflight={"stable": "1ms"})
    firing.hands.ends[0] = Ran(Exit.WEAKNESS, True, "runs/r", "too slow")
    assert firing.fire() is Exit.WEAKNESS and firing.hands.ran == ["0", "1"]


GONE = "Improved: a known weakness is gone (reads were good in slow): clear its note before the next release."
IMPROVED = Ran(Exit.WEAKNESS, True, "runs/r", GONE, improved=True)


def test_a_known_weakness_that_is_gone_stops_no_day_and_breaks_no_hypothesis(firing: Firing) -> None:
    firing.hands.ends[0] = IMPROVED
    assert firing.fire() is Exit.WEAKNESS and firing.hands.ran == ["0", "1"]
    says = "the hypothesis held; a known weakness is gone: clear its note before the next release"
    assert firing.teller.told[-1] == ("end", f"weakness: {says}.")
    found = summary.held(read(firing.file))
    assert found.kind == "pass" and found.says == f"one: {GONE} two: every promise was kept."
    assert [each.what for each in summary.to_do(read(firing.file))] == [
        "Clear the notes of one before the next release: a known weakness is gone"
    ]


@pytest.mark.parametrize(
    ("end", "says", "kind"),
    [
        (Exit.WEAKNESS, "the hypothesis did not hold", "weakness"),
        (Exit.INCONCLUSIVE, "not shown whether the hypothesis holds", "inconclusive"),
    ],
)
def test_what_else_ended_badly_decides_beside_a_known_weakness_that_is_gone(
    firing: Firing, end: Exit, says: str, kind: str
) -> None:
    firing.hands.ends[:2] = [IMPROVED, Ran(end, True, "runs/r", "so it was")]
    assert firing.fire() is Exit.WEAKNESS and says in firing.teller.told[-1][1]
    found = summary.held(read(firing.file))
    assert found.kind == kind and found.says == "two: so it was."


def test_a_known_weakness_that_is_gone_lets_a_day_climb(
    tmp_path: Path, cluster: WithDocuments, approved: list[Any]
) -> None:
    steps = [{"experiment": "one.yaml", "rung": "node"}, {"experiment": "two.yaml", "rung": "zone"}]
    firing = Firing(tmp_path, cluster, experiments=steps, ladder={"labs": "labs"}, preflight={"stable": "1ms"})
    firing.hands.ends[0] = IMPROVED
    assert firing.fire() is Exit.WEAKNESS and firing.hands.ran == ["drill", "0", "1"], firing.refused


def test_users_who_suffer_are_a_weakness_and_no_abort(firing: Firing) -> None:
    firing.hands.ends[0] = Ran(
        Exit.ABORTED, True, "runs/r", "stopped", guard="guard.users", says="users was bad 2 times in a row", undone=2.0
    )
    assert firing.fire() is Exit.WEAKNESS and firing.hands.ran == ["0"]
    assert hold_id("staging") not in firing.cluster.documents


def test_a_guard_that_says_nothing_is_no_weakness(firing: Firing) -> None:
    says = "it cannot be evaluated: users said nothing 3 times in a row"
    firing.hands.ends[0] = Ran(Exit.ABORTED, True, "runs/r", "stopped", guard="guard.users", says=says, undone=2.0)
    assert firing.fire() is Exit.ABORTED


def test_a_signal_between_runs_stops_it(firing: Firing) -> None:
    assert midway(firing, lambda: signal.raise_signal(signal.SIGTERM)) is Exit.ABORTED
    assert firing.hands.ran == ["0"] and "a signal asked to stop" in str(firing.lines("stop"))


def after_run(firing: Firing, number: int, work: Callable[[], object]) -> None:
    """``work`` is done once the run of an experiment is over, which itself saw nothing."""
    run = firing.hands.run

    def done(ran: int, guards: Sequence[Guard], permits: Permits) -> Ran:
        end = run(ran, guards, permits)
        if ran == number:
            work()
        return end

    firing.hands.run = done  # type: ignore[method-assign]


BAD, SILENT = "users was bad 2 times in a row", "it cannot be evaluated: users said nothing 3 times in a row"
TRIPS = [("outcome", BAD, Exit.WEAKNESS), ("outcome", SILENT, Exit.ABORTED), ("blocking", BAD, Exit.ABORTED)]


@pytest.mark.parametrize("number", [0, 1], ids=["between two experiments", "after the last one"])
@pytest.mark.parametrize(("counts", "says", "end"), TRIPS, ids=["users suffer", "no data", "others broke"])
def test_a_guard_that_trips_while_no_run_is_under_way_counts_as_in_one(
    tmp_path: Path,
    cluster: WithDocuments,
    approved: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    counts: str,
    says: str,
    end: Exit,
    number: int,
) -> None:
    steps = [{"experiment": f"{name}.yaml", "rung": "node"} for name in ("one", "two")]
    others = {"shop": {"counts": "outcome", "program": {"run": ["true"]}}}
    guards = {"users": {"counts": counts, "program": {"run": ["true"]}}, **others}
    firing = Firing(tmp_path, cluster, experiments=steps, guards=guards, preflight={"stable": "1ms"})

    def trip() -> None:
        trips = lambda guard, now: says if guard.name == "guard.users" else None  # noqa: E731
        monkeypatch.setattr(Watched, "tripped", trips)

    after_run(firing, number, trip)
    assert firing.fire() is end and firing.hands.ran == ["0", "1"][: number + 1]
    assert [(line["by"], line["why"]) for line in firing.lines("stop")] == [("guard.users", says)]
    assert [line["nothing"] for line in firing.lines("undone")] == [True]
    assert (hold_id("staging") in firing.cluster.documents) is (end is Exit.ABORTED)
    assert firing.teller.told[-1] == ("abort", f"{OUTCOMES[end]}: ended early: {says}.")


def test_of_two_guards_that_trip_the_worse_one_counts(firing: Firing, monkeypatch: pytest.MonkeyPatch) -> None:
    def both() -> None:
        monkeypatch.setattr(Watched, "tripped", lambda guard, now: BAD)
        Path(firing.day.written.stop.file).touch()

    after_run(firing, 1, both)
    assert firing.fire() is Exit.ABORTED
    assert [line["by"] for line in firing.lines("stop")] == ["stop_file", "guard.users"]


class Silent:
    """A watch that sees no alert."""

    def __init__(self, *given: Any) -> None: ...

    def ready(self) -> str | None:
        return None

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def seen(self) -> Any:
        return days.AlertWatch


def awaiting_alerts(folder: Path, cluster: WithDocuments, monkeypatch: pytest.MonkeyPatch) -> Firing:
    """A day whose one experiment passes, and which then waits for half a minute whether its alert resolves."""
    monkeypatch.setattr(days, "AlertWatch", Silent)
    monkeypatch.setattr(days, "judged", lambda alerts, seen, moments: [])
    expected = {"name": "Down", "experiment": "one", "phase": "dead", "fires_within": "1ms", "resolves_within": "30s"}
    alerts = {"prometheus": "http://127.0.0.1:9", "expect": [expected]}
    firing = Firing(folder, cluster, alerts=alerts, preflight={"stable": "1ms"})
    now = time.monotonic()
    firing.hands.ends[0] = Ran(Exit.PASS, True, "runs/r", "fine", moments=(Moment("one", "dead", now, now),))
    return firing


def test_a_person_who_stops_while_alerts_are_awaited_is_heard(
    tmp_path: Path, cluster: WithDocuments, approved: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    firing = awaiting_alerts(tmp_path, cluster, monkeypatch)
    after_run(firing, 0, Path(firing.day.written.stop.file).touch)
    assert firing.fire() is Exit.ABORTED and hold_id("staging") in cluster.documents
    assert [line["by"] for line in firing.lines("stop")] == ["stop_file"]


def test_a_window_that_closes_while_alerts_are_awaited_stops_nothing(
    tmp_path: Path, cluster: WithDocuments, approved: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    firing = awaiting_alerts(tmp_path, cluster, monkeypatch)
    after_run(firing, 0, lambda: setattr(firing, "now", NOW + timedelta(hours=6)))
    assert firing.fire() is Exit.PASS and firing.lines("stop") == []


def on_call(number: int, what: Callable[..., Any], then: Callable[[], object]) -> Callable[..., Any]:
    """``what``, and ``then`` in its call ``number``, counted from 1."""
    calls: list[None] = []

    def called(*given: Any) -> Any:
        calls.append(None)
        if len(calls) == number:
            then()
        return what(*given)

    return called


def signalled() -> None:
    signal.raise_signal(signal.SIGTERM)


def test_a_signal_between_the_last_look_and_the_run_changes_nothing(firing: Firing) -> None:
    """While the plans are made once more, before the first experiment."""
    firing.hands.plans = on_call(2, firing.hands.plans, signalled)  # type: ignore[method-assign]
    firing.hands.while_running = lambda number, permits: pytest.fail("it was changed")
    assert firing.fire() is Exit.ABORTED and firing.hands.ran == ["0"]
    assert firing.refused == ["phase dead of one, signal: a signal asked to stop"]
    assert firing.lines("stop")[0]["by"] == "permits"


def test_a_run_watches_whether_a_signal_came_before_it(firing: Firing) -> None:
    """For a run looks at its guards from its warm-up on, and asks for leave right before its phases only."""
    tripped: list[str] = []

    def run(number: int, guards: Sequence[Guard], permits: Permits) -> Ran:
        signalled()  # Day's own handler has it still, as while a run is planned
        tripped.extend(guard.name for guard in guards if guard.tripped(0.0) is not None)
        return Ran(Exit.ABORTED, True, "runs/r", "stopped", guard="signal", says="a signal asked to stop", undone=0.1)

    firing.hands.run = run  # type: ignore[method-assign]
    assert firing.fire() is Exit.ABORTED and tripped == ["signal"]
    assert [line["by"] for line in firing.lines("stop")] == ["signal"]


def test_a_signal_once_a_run_is_over_ends_the_day_as_a_stop(firing: Firing) -> None:
    """While its lab is taken away, or its report made: the run itself passed."""
    firing.hands.ends[0] = Ran(Exit.PASS, True, "runs/r", "every promise was kept", by_signal=True)
    assert firing.fire() is Exit.ABORTED and firing.hands.ran == ["0"]
    says = "a signal asked to stop when one was over"
    assert firing.teller.told[-1] == ("abort", f"aborted: ended early: {says}.")
    assert [(line["by"], line["why"]) for line in firing.lines("stop")] == [("signal", says)]
    assert [line["nothing"] for line in firing.lines("undone")] == [True]
    assert hold_id("staging") in firing.cluster.documents
    firing.now += timedelta(minutes=10)
    assert firing.fire() is Exit.HELD, "fired again it is no success"


def test_a_signal_after_a_guard_whose_users_suffered_is_a_stop_too(firing: Firing) -> None:
    firing.hands.ends[0] = Ran(
        Exit.ABORTED, True, "runs/r", "stopped", guard="guard.users", says=BAD, undone=2.0, by_signal=True
    )
    assert firing.fire() is Exit.ABORTED and firing.hands.ran == ["0"]
    assert [line["by"] for line in firing.lines("stop")] == ["guard.users"]
    assert hold_id("staging") in firing.cluster.documents


def test_a_signal_while_the_drill_is_undone_lets_no_experiment_begin(
    tmp_path: Path, cluster: WithDocuments, approved: list[Any]
) -> None:
    """The run was ended by its guard already, as a drill's is."""
    firing = zone_day(tmp_path, cluster)
    firing.hands.drilled = replace(firing.hands.drilled, by_signal=True)
    assert firing.fire() is Exit.ABORTED and firing.hands.ran == ["drill"]
    assert firing.lines("drill")[0]["ok"] is True
    assert [line["by"] for line in firing.lines("stop")] == ["signal"]
    assert hold_id("staging") in cluster.documents


def test_a_signal_while_people_are_told_lets_no_day_begin(firing: Firing) -> None:
    tell = firing.teller.tell

    def told(event: str, **facts: Any) -> list[Told]:
        signalled()
        return tell(event, **facts)

    firing.teller.tell = told  # type: ignore[method-assign]
    assert firing.fire() is Exit.USAGE and firing.hands.ran == []
    assert "a signal asked to stop" in firing.lines("day.end")[0]["says"]
    assert day_id("staging", "2026-11-26") not in firing.cluster.documents, "it may be held later in its window"


def test_a_signal_right_before_the_drill_lets_it_change_nothing(
    tmp_path: Path, cluster: WithDocuments, approved: list[Any]
) -> None:
    firing = zone_day(tmp_path, cluster)
    stop = Path(firing.day.written.stop.file)
    firing.hands.asking = lambda stage: signalled() if stage == "now" else None
    assert firing.fire() is Exit.ABORTED and firing.hands.ran == ["drill"] and not stop.exists()
    assert firing.refused[0] == "phase dead of the drill, right before a change, signal: a signal asked to stop"


def zone_day(folder: Path, cluster: WithDocuments) -> Firing:
    return Firing(
        folder, cluster, experiments=[{"experiment": "one.yaml", "rung": "zone"}], preflight={"stable": "1ms"}
    )


def test_on_a_zone_day_the_kill_switch_is_drilled(tmp_path: Path, cluster: WithDocuments, approved: list[Any]) -> None:
    firing = zone_day(tmp_path, cluster)
    assert firing.fire() is Exit.PASS and firing.hands.ran == ["drill", "0"]
    assert firing.lines("drill")[0]["ok"] is True and firing.lines("drill")[0]["seconds"] == 1.5
    assert not Path(firing.day.written.stop.file).exists()


def mapped(folder: Path, cluster: WithDocuments, server: Server, monkeypatch: pytest.MonkeyPatch) -> Firing:
    """A day of a zone that runs in Kubernetes, where its ConfigMap is."""
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(folder)))
    monkeypatch.setattr(switches, "LOOK_SECONDS", 0.02)
    server.write_map("gameday-staging", {})
    stop = {"file": "/STOP", "kubernetes": server.namespace}
    experiments = [{"experiment": "one.yaml", "rung": "zone"}]
    firing = Firing(folder, cluster, experiments=experiments, preflight={"stable": "1ms"}, stop=stop)
    firing.hands.drilled = replace(firing.hands.drilled, guard="stop map")
    return firing


def test_in_kubernetes_the_drill_goes_through_the_map_that_people_are_told_of(
    tmp_path: Path, cluster: WithDocuments, approved: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as server:
        firing = mapped(tmp_path, cluster, server, monkeypatch)
        seen: list[Any] = []
        firing.hands.ended = lambda: seen.append(server.maps["gameday-staging"]["data"])
        assert firing.fire() is Exit.PASS and firing.hands.ran == ["drill", "0"]
        assert firing.hands.guarded[1:3] == ["stop_file", "stop map"]
        assert "drill" in seen[0]["stop"] and seen[1] == {} and firing.lines("drill")[0]["ok"] is True
        assert firing.lines("drill")[0]["how"] == "ConfigMap gameday-staging in namespace search"


def test_in_kubernetes_a_word_in_the_map_stops_what_is_under_way_and_lets_nothing_begin(
    tmp_path: Path, cluster: WithDocuments, approved: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as server:
        firing = mapped(tmp_path, cluster, server, monkeypatch)

        def written(number: int, permits: Permits) -> None:
            server.write_map("gameday-staging", {"stop": "the shop is slow"})
            assert wait_until(lambda: permits("dead", "made") is not None, 10)

        firing.hands.while_running = written
        assert firing.fire() is Exit.ABORTED, (firing.said, firing.refused)
        assert "the shop is slow" in firing.lines("stop")[0]["why"], firing.lines("stop")
        firing.now += timedelta(days=7)
        assert firing.fire() is Exit.USAGE and "says stop: the shop is slow" in str(firing.refused)
        del server.maps["gameday-staging"]
        assert firing.fire() is Exit.USAGE and "nobody could stop it" in str(firing.refused)


class Killed(BaseException):
    """As by a SIGKILL: nothing is done after it."""


def killed_in_its_drill(firing: Firing, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its stop file, which is left behind, as lock and day are on the cluster."""

    def dies() -> None:
        raise Killed

    firing.hands.ended = dies
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Day, "_close", lambda self: [self._outside.stop(), self._wish.stop(), self._lock._over.set()])
        patch.setattr(drill, "taken_away", lambda path, ours: False)
        firing.fire()
    firing.hands.ended = lambda: None
    stop = Path(firing.day.written.stop.file)
    assert drill.left(stop) is not None and LOCK in firing.cluster.documents
    monkeypatch.setattr(board, "TTL_SECONDS", 0.05)
    monkeypatch.setattr(board, "LOOK_SECONDS", 0.05)
    return stop


def test_the_stop_file_of_a_drill_whose_runner_was_killed_is_taken_away(
    tmp_path: Path, cluster: WithDocuments, approved: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    firing = zone_day(tmp_path, cluster)
    stop = killed_in_its_drill(firing, monkeypatch)
    assert firing.fire() is Exit.HELD and not stop.exists()
    assert firing.refused == [f"the day, ended: staging-2026-11-26 on {socket.gethostname()} never ended"]
    (said,) = [each for each in firing.said if "it is taken away" in each]
    assert f"{stop} was left by the drill of game day staging on {socket.gethostname()} at 2026-11-26T10:00:00Z" in said
    assert said in [line["says"] for line in firing.lines("gate")]
    cluster.documents[day_id("staging", "2026-11-26")]["state"] = "over"
    firing.now += timedelta(days=7)
    assert firing.fire() is Exit.PASS and firing.hands.ran == ["drill", "drill", "0"] and not stop.exists()


def test_one_that_a_person_touched_since_refuses_as_a_person_s(
    tmp_path: Path, cluster: WithDocuments, approved: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    firing = zone_day(tmp_path, cluster)
    stop = killed_in_its_drill(firing, monkeypatch)
    stop.touch()
    assert firing.fire() is Exit.USAGE and stop.exists()
    assert firing.refused == [f"the day, stop file: {stop} is there: somebody wants no game day"]


def test_one_of_a_drill_of_another_lock_refuses_and_says_whose_it_is(
    tmp_path: Path, cluster: WithDocuments, approved: list[Any]
) -> None:
    """Nobody knows here whether that day is dead."""
    firing = zone_day(tmp_path, cluster)
    stop = Path(firing.day.written.stop.file)
    drill.made(stop, drill.drill_of("other", "another-cluster/.opensearch-chaos", NOW))
    assert firing.fire() is Exit.USAGE and stop.exists() and firing.hands.ran == []
    (refused,) = firing.refused
    assert f"{stop} is there, made by the drill of game day other on " in refused
    (remedy,) = [line["remedy"] for line in firing.lines("gate") if not line["ok"]]
    assert remedy == f"see that this day is not under way, then: rm {stop}" and LOCK not in cluster.documents


def test_one_of_a_drill_that_is_under_way_is_left_to_it(
    tmp_path: Path, cluster: WithDocuments, approved: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    firing, other = zone_day(tmp_path, cluster), zone_day(tmp_path / "other", cluster)
    other.day = other.hands.day = firing.day
    codes: list[Exit] = []

    class Renewed(list[str]):
        """The lock is, while the other watches whether its owner lives."""

        def append(self, said: str) -> None:
            super().append(said)
            cluster._keep(LOCK, dict(cluster.documents[LOCK]))

    def fires_the_other() -> None:
        if not codes:
            codes.append(other.fire())
            assert drill.left(Path(firing.day.written.stop.file)) is not None

    monkeypatch.setattr(board, "LOOK_SECONDS", 0.05)
    other.said, firing.hands.ended = Renewed(), fires_the_other
    assert firing.fire() is Exit.PASS and codes == [Exit.PASS], (firing.refused, other.refused)
    assert other.hands.ran == [] and not Path(firing.day.written.stop.file).exists()


def test_a_person_who_stops_during_the_drill_is_heard(
    tmp_path: Path, cluster: WithDocuments, approved: list[Any]
) -> None:
    """The file is there already, so a touch leaves no more than another time behind."""
    firing = zone_day(tmp_path, cluster)
    stop = Path(firing.day.written.stop.file)
    firing.hands.ended = stop.touch
    assert firing.fire() is Exit.ABORTED and firing.hands.ran == ["drill"] and stop.exists()
    assert firing.lines("drill")[0]["ok"] is True and f"{stop} is there" in firing.lines("stop")[0]["why"]


def test_a_person_who_stops_right_before_the_drill_does_is_heard(
    tmp_path: Path, cluster: WithDocuments, approved: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    firing = zone_day(tmp_path, cluster)
    stop = Path(firing.day.written.stop.file)
    make = drill.made

    def late(path: Path, ours: Any) -> None:
        path.touch()
        make(path, ours)

    monkeypatch.setattr(drill, "made", late)
    assert firing.fire() is Exit.ABORTED and firing.hands.ran == ["drill"]
    assert stop.read_text() == "" and "somebody wants no game day" in str(firing.lines("stop"))


def test_a_stop_file_that_cannot_be_made_ends_the_day(
    tmp_path: Path, cluster: WithDocuments, approved: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    firing = zone_day(tmp_path, cluster)

    def refuses(path: Path, ours: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(drill, "made", refuses)
    assert firing.fire() is Exit.ABORTED and firing.hands.ran == ["drill"]
    assert "the drill cannot make the stop file" in str(firing.lines("drill"))


def test_a_stop_file_outlives_a_runner_that_is_really_killed(
    tmp_path: Path, cluster: WithDocuments, approved: list[Any]
) -> None:
    firing = zone_day(tmp_path, cluster)
    stop = Path(firing.day.written.stop.file)
    child = os.fork()
    if not child:
        try:
            firing.hands.ended = lambda: os.kill(os.getpid(), signal.SIGKILL)
            firing.fire()
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert drill.left(stop) is not None and LOCK not in cluster.documents, "the documents were the child's own"
    firing.folder = tmp_path / "after"
    assert firing.fire() is Exit.PASS and firing.hands.ran == ["drill", "0"] and not stop.exists()
    assert any("it is taken away" in each for each in firing.said)


ALL_UNDONE = "all was undone 61.0 s after the stop file"
DRILLS: dict[str, tuple[Ran, Exit, str]] = {
    "too slow": (Ran(Exit.ABORTED, True, "r", "stopped", guard="stop_file", undone=61.0), Exit.ABORTED, ALL_UNDONE),
    "another guard": (Ran(Exit.ABORTED, True, "r", "x", guard="max", undone=1.0), Exit.ABORTED, "ended by max: x"),
    "not all": (
        Ran(Exit.ABORTED, True, "r", "stopped", guard="stop_file", undone=1.0, undone_all=False),
        Exit.ABORTED,
        "not all of the drill could be taken back at once: stopped",
    ),
    "dirty": (
        Ran(Exit.DIRTY, False, "r", "an index is there", guard="stop_file", undone=1.0, undone_all=False),
        Exit.DIRTY,
        "something of the drill is left: an index is there",
    ),
    "error": (Ran(Exit.ERROR, True, "r", "the runner broke", undone_all=False), Exit.ERROR, "by itself: the runner"),
    "not stopped": (
        Ran(Exit.PASS, True, "r", "no guard stopped it", undone_all=False),
        Exit.ABORTED,
        "by itself: no guard stopped it",
    ),
}


@pytest.mark.parametrize("what", DRILLS)
def test_a_drill_that_fails_ends_the_day(
    tmp_path: Path, cluster: WithDocuments, approved: list[Any], what: str
) -> None:
    firing = zone_day(tmp_path, cluster)
    firing.hands.drilled, code, says = DRILLS[what]
    assert firing.fire() is code and firing.hands.ran == ["drill"]
    (line,) = firing.lines("drill")
    assert line["ok"] is False and says in line["says"] and line["clean"] is (what != "dirty")
    assert hold_id("staging") in cluster.documents and says in firing.teller.told[-1][1]


def test_an_error_of_ours_is_told_and_holds(firing: Firing) -> None:
    def breaks(number: int, permits: Any) -> None:
        raise LabError("the runner broke")

    firing.hands.while_running = breaks
    assert firing.fire() is Exit.ERROR and firing.teller.told[-1][0] == "abort"
    assert hold_id("staging") in firing.cluster.documents and LOCK not in firing.cluster.documents


@pytest.mark.parametrize("when", ["in a run", "at a gate between two"])
def test_a_disk_that_is_full_keeps_nobody_from_hearing_how_the_day_ended(
    firing: Firing, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def refuses(record: Record, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def full() -> None:
        monkeypatch.setattr(Record, "_put", refuses)

    if when == "in a run":
        firing.hands.while_running = lambda number, permits: full()
    else:

        def edited() -> None:
            full()
            raise days.Refused([days.Gate("approval", False, "it was edited")])

        firing.hands.plans = on_call(3, firing.hands.plans, edited)  # type: ignore[method-assign]
    code = firing.fire()
    assert code is (Exit.ERROR if when == "in a run" else Exit.ABORTED) and firing.hands.ran == ["0"]
    event, says = firing.teller.told[-1]
    assert event == "abort" and ("No space left on device" in says) is (when == "in a run")
    known = firing.cluster.documents
    assert hold_id("staging") in known and known[day_id("staging", "2026-11-26")]["state"] == "over"
    assert firing.lines("day.end") == [] and LOCK not in known


@pytest.mark.parametrize("end", [Exit.PASS, Exit.DIRTY])
def test_dirt_of_a_run_stays_the_day_s_where_its_end_cannot_be_recorded(
    firing: Firing, monkeypatch: pytest.MonkeyPatch, end: Exit
) -> None:
    write = Record._write

    def full(record: Record, kind: str, fields: Any) -> dict[str, Any]:
        if kind == "experiment.end":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(record, kind, fields)

    monkeypatch.setattr(Record, "_write", full)
    monkeypatch.setitem(globals(), "verify", lambda file: [])  # it has a hole, and says so
    firing.hands.ends[0] = Ran(end, end is not Exit.DIRTY, "runs/r", "an index is left")
    code = Exit.DIRTY if end is Exit.DIRTY else Exit.ERROR
    assert firing.fire() is code and firing.hands.ran == ["0"]
    assert firing.cluster.documents[day_id("staging", "2026-11-26")]["outcome"] == OUTCOMES[code]
    says = firing.teller.told[-1][1]
    assert says.startswith(OUTCOMES[code]) and ("before that one had ended as dirty" in says) is (end is Exit.DIRTY)


@pytest.mark.parametrize("drilled", [Exit.ABORTED, Exit.DIRTY])
def test_dirt_of_the_drill_stays_the_day_s_where_it_cannot_be_recorded(
    tmp_path: Path,
    cluster: WithDocuments,
    approved: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    drilled: Exit,
) -> None:
    write = Record._write

    def full(record: Record, kind: str, fields: Any) -> dict[str, Any]:
        if kind == "drill":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(record, kind, fields)

    monkeypatch.setattr(Record, "_write", full)
    monkeypatch.setitem(globals(), "verify", lambda file: [])
    firing = zone_day(tmp_path, cluster)
    firing.hands.drilled = Ran(drilled, drilled is not Exit.DIRTY, "r", "x", guard="stop_file", undone=1.0)
    assert firing.fire() is (Exit.DIRTY if drilled is Exit.DIRTY else Exit.ERROR)


def test_a_day_that_nobody_foresaw_is_told_too(firing: Firing) -> None:
    firing.hands.plans = lambda: {}["x"]  # type: ignore[method-assign]
    assert firing.fire() is Exit.ERROR
    assert "KeyError" in firing.lines("day.end")[0]["says"] and LOCK not in firing.cluster.documents


def test_the_file_s_day_is_over(tmp_path: Path, cluster: WithDocuments, approved: list[Any]) -> None:
    firing = Firing(tmp_path, cluster, cluster=TARGET.replace("2099-12-31", "2026-11-25"))
    assert firing.fire() is Exit.USAGE and "allow-list" in firing.refused[0]


def test_an_alert_that_stays_silent_is_a_weakness(
    tmp_path: Path, cluster: WithDocuments, approved: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(days, "AlertWatch", Silent)
    heard: list[Any] = []

    def judge(alerts: Any, seen: Any, moments: Any) -> list[Any]:
        heard.extend(moments)
        return [type("V", (), {"name": "Down", "kind": "fires", "verdict": "weakness", "says": "it was silent"})]

    monkeypatch.setattr(days, "judged", judge)
    alerts = {
        "prometheus": "http://127.0.0.1:9",
        "expect": [
            {"name": "Down", "experiment": "one", "phase": "dead", "fires_within": "1ms", "resolves_within": "1ms"}
        ],
    }
    firing = Firing(tmp_path, cluster, alerts=alerts, preflight={"stable": "1ms"})
    moment = Moment("one", "dead", 1.0, 2.0)
    firing.hands.ends[0] = Ran(Exit.PASS, True, "runs/r", "fine", moments=(moment,))
    assert firing.fire() is Exit.WEAKNESS and heard == [moment]
    assert firing.lines("expectation")[0]["verdict"] == "weakness"
