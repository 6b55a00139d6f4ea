"""What machines know of each other by documents: one day at a time, whoever dies, sleeps or comes twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import urllib3
from documents import INDEX, WithDocuments

from chaos.base.errors import InvalidInput, LabError
from chaos.gamedays import board
from chaos.gamedays.board import ABORT_SECONDS, CONSENT, LOCK, TTL_SECONDS, Board, Busy, Held, Lock
from chaos.opensearch import views
from chaos.run.noted import Notes

NOW = datetime(2026, 11, 26, 10, 0, tzinfo=UTC)


class Clock:
    """Seconds that pass when somebody waits. ``while_waiting``: what the others do meanwhile."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.while_waiting: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.while_waiting()


@pytest.fixture
def cluster() -> WithDocuments:
    return WithDocuments()


def lock(cluster: Any, clock: Clock, **more: Any) -> Lock:
    return Lock(Board(cluster, INDEX), "staging", clock=clock, **more)


def test_one_has_it_and_gives_it_back(cluster: WithDocuments) -> None:
    clock = Clock()
    one = lock(cluster, clock)
    one.take(wait=clock.wait)
    assert one.held() is None and one.tripped(clock()) is None and one.token > 0
    one.release()
    assert LOCK not in cluster.documents
    again = lock(cluster, clock)
    again.take(wait=clock.wait)
    assert again.token > one.token


def test_who_is_alive_keeps_it(cluster: WithDocuments) -> None:
    clock = Clock()
    one, two = lock(cluster, clock), lock(cluster, clock)
    one.take(wait=clock.wait)
    clock.while_waiting = one.renew
    said: list[str] = []
    with pytest.raises(Held, match=r"game day staging of .* is under way"):
        two.take(said.append, clock.wait)
    assert "watching for 180 s" in said[0] and one.held() is None


def test_another_game_day_s_is_told_apart(cluster: WithDocuments) -> None:
    clock = Clock()
    other, mine = Lock(Board(cluster, INDEX), "zones", clock=clock), lock(cluster, clock)  # type: ignore[arg-type]
    other.take(wait=clock.wait)
    clock.while_waiting = other.renew
    with pytest.raises(Busy, match=r"game day zones of .* is under way"):
        mine.take(wait=clock.wait)


@pytest.mark.parametrize(
    ("gameday", "error", "says"),
    [
        ("staging", Held, "game day staging of vm has just taken"),
        ("zones", Busy, "game day zones of vm has just taken"),
        (None, Busy, "another machine has just taken"),
    ],
)
@pytest.mark.parametrize("dead", [False, True], ids=["a free one", "a dead one's"])
def test_who_was_faster_is_looked_at(
    cluster: WithDocuments, dead: bool, gameday: str | None, error: type[InvalidInput], says: str
) -> None:
    """``gameday`` None: it has given the lock back already."""
    clock, tries = Clock(), list[str]()
    if dead:
        lock(cluster, clock).take(wait=clock.wait)

    def faster(method: str, path: str) -> Any:
        if method != "PUT" or LOCK not in path:
            return None
        tries.append(path)
        if len(tries) == 2:  # the first one says that another has it, or had it then
            cluster.documents.pop(LOCK, None)
            if gameday is not None:
                cluster._keep(LOCK, {"who": "x", "gameday": gameday, "host": "vm"})
        return 409, {}

    cluster.lies = faster
    with pytest.raises(error, match=says):
        lock(cluster, clock).take(wait=clock.wait)
    assert len(tries) == 2


def test_a_dead_one_s_lock_is_taken_after_its_whole_time(cluster: WithDocuments) -> None:
    clock = Clock()
    one, two = lock(cluster, clock), lock(cluster, clock)
    one.take(wait=clock.wait)
    began = clock()
    two.take(wait=clock.wait)
    assert clock() - began >= TTL_SECONDS and two.held() is None and two.token > one.token


def test_who_wakes_up_after_its_time_sees_that_it_is_lost(cluster: WithDocuments) -> None:
    clock, lost = Clock(), list[str]()
    one, two = lock(cluster, clock, lost=lost.append), lock(cluster, clock)
    one.take(wait=clock.wait)
    two.take(wait=clock.wait)
    assert "could not be renewed" in str(one.tripped(clock())) and len(lost) == 1
    one.release()
    assert cluster.documents[LOCK]["who"] == two.who, "what is another's is not given back"


def test_a_look_finds_out_before_the_time_is_over(cluster: WithDocuments) -> None:
    """A frozen one's watch may stand still too, as it does while a virtual machine is moved."""
    one, two = lock(cluster, Clock()), lock(cluster, clock := Clock())
    one.take(wait=lambda seconds: None)
    two.take(wait=clock.wait)
    assert one.tripped(0.0) is None and "somebody else" in str(one.held())


def test_of_two_takers_one_gets_it(cluster: WithDocuments) -> None:
    dead = lock(cluster, Clock())
    dead.take(wait=lambda seconds: None)
    takers = [lock(cluster, Clock()) for _ in range(6)]
    got: list[Lock] = []
    ready = threading.Barrier(len(takers))

    def take(one: Lock) -> None:
        clock = one.clock
        assert isinstance(clock, Clock)
        ready.wait()
        try:
            one.take(wait=clock.wait)
        except Held:
            return
        got.append(one)

    threads = [threading.Thread(target=take, args=(one,)) for one in takers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1 and got[0].held() is None


def test_an_answer_that_was_lost_loses_no_lock(cluster: WithDocuments) -> None:
    clock = Clock()
    one = lock(cluster, clock)
    one.take(wait=clock.wait)

    def lost(method: str, path: str) -> Any:
        if method == "PUT" and "if_seq_no" in path:
            cluster.lies = lambda method, path: None
            cluster._keep(LOCK, {**cluster.documents[LOCK], "n": "written"})
            raise urllib3.exceptions.ReadTimeoutError(None, path, "no answer")  # type: ignore[arg-type]
        return None

    cluster.lies = lost
    clock.now += 15
    one.renew()  # it was written, and nobody said so
    one.renew()
    assert one.held() is None


def test_who_cannot_renew_it_ends_before_anybody_can_take_it(
    cluster: WithDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "REJECTED_SECONDS", 0.0)  # what a full cluster rejects is asked again for so long
    clock = Clock()
    one = lock(cluster, clock)
    one.take(wait=clock.wait)
    cluster.full = True
    clock.now += ABORT_SECONDS - 1
    one.renew()
    assert one.tripped(clock()) is None
    clock.now += 2
    assert f"could not be renewed for {ABORT_SECONDS:g} s" in str(one.tripped(clock()))
    cluster.full = False
    one.renew()
    assert one.tripped(clock()) is not None, "what was lost stays lost"
    assert ABORT_SECONDS < TTL_SECONDS


@pytest.mark.parametrize("answer", [(503, {}), (200, {"_source": {}}), (200, [])])
def test_what_cannot_be_read_is_nobody_s(cluster: WithDocuments, answer: Any) -> None:
    clock = Clock()
    one = lock(cluster, clock)
    one.take(wait=clock.wait)
    cluster.lies = lambda method, path: answer if method == "GET" else None
    assert "cannot be read" in str(one.held())
    other = lock(cluster, clock)
    with pytest.raises(LabError):
        other.take(wait=clock.wait)


def test_documents_of_days_are_no_notes_of_runs(cluster: WithDocuments) -> None:
    made: Any = cluster
    there = Board(made, INDEX)
    there.make()
    there.put(CONSENT, {"gamedays": ["x"]})
    assert there.create(board.day_id("x", "2026-11-26"), {"state": "under way"}) is not None
    assert there.create(board.day_id("x", "2026-11-26"), {"state": "under way"}) is None
    assert Notes(made, INDEX).standing() == {}
    assert list(there.every("gameday-day-")) == ["gameday-day-x-2026-11-26"]
    assert there.forget(NOW) == (1, 0) and list(cluster.documents) == [CONSENT], "the consent is its operators'"
    cluster.documents.clear()
    there.put(board.hold_id("x"), {"why": "dirty"})
    assert there.forget(NOW) == (1, 0) and INDEX in cluster.indices, "the index stays: others may have written to it"


def test_days_of_a_game_day_are_not_those_of_one_whose_name_begins_alike(cluster: WithDocuments) -> None:
    there = Board(cluster, INDEX)  # type: ignore[arg-type]
    there.make()
    for gameday in ("staging", "staging-zone", "staging-2026-11-19"):
        there.put(board.day_id(gameday, "2026-11-26"), {"state": "under way"})
    assert list(board.days_of(there, "staging")) == ["gameday-day-staging-2026-11-26"]
    assert list(board.days_of(there, "staging-zone")) == ["gameday-day-staging-zone-2026-11-26"]


def test_a_used_approval_is_forgotten_once_its_signatures_have_expired(cluster: WithDocuments) -> None:
    made: Any = cluster
    there = Board(made, INDEX)
    there.make()
    for nonce, used in (("a", NOW - timedelta(seconds=1)), ("b", NOW + timedelta(seconds=1)), ("c", None)):
        there.put(board.used_id(nonce), {"day": "x"} | ({} if used is None else {"until": used.isoformat()}))
    assert there.forget(NOW) == (1, 2)
    assert set(cluster.documents) == {board.used_id("b"), board.used_id("c")}
    assert there.forget(NOW + timedelta(seconds=1)) == (1, 1)
