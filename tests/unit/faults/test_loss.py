"""Evidence of lost packets over connections in memory: what each kind of line shows of a loss, and of what is none."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest
from fakes import FakeLab
from hypothesis import given
from hypothesis import strategies as st

from chaos.base.access import Access
from chaos.base.errors import FaultError, InvalidInput
from chaos.definitions.steps import Scene
from chaos.faults import evidence as looks
from chaos.faults import loss
from chaos.faults.kinds.network import LEAST_LOSS, NetworkLoss
from chaos.faults.lateness import Count, Lateness, Told
from chaos.faults.loss import LANES, LossEvidence, Packets, Row, at_once, go, lanes, since
from chaos.faults.offers import Means
from chaos.faults.probes import Asked, Echo, Line, Pair, Reply
from chaos.registry import FAULTS

TO, BACK, BESIDE = ("a-data", "c-data"), ("c-data", "a-data"), ("a-data", "b-data")
LATE, SOONEST = 0.05, 0.08
"""Seconds: late here, and when what was lost is there at the earliest."""


class Link:
    """Of each pair how probably a packet there and one back are lost; ``None``: every one, for good."""

    def __init__(self) -> None:
        self.lost: dict[Pair, float | None] = {}
        self.draw = random.Random(1)
        self.reply = Reply.ANSWERED
        self._never = threading.Event()

    def passes(self, pair: Pair, timeout: float) -> Echo:
        share = self.lost.get(pair, 0.0)
        took, wait = 0.0, SOONEST
        while share is None or self.draw.random() < share:
            took, wait = took + wait, 2 * wait
            if took >= timeout:
                self._never.wait(timeout)
                return Echo(Reply.SILENT)
        self._never.wait(took)
        return Echo(self.reply, took + 0.0001) if self.reply is Reply.ANSWERED else Echo(self.reply)


class Drawn(Line):
    """A connection that lasts, over a link of its own."""

    link: Link
    _made = False

    @property
    def connected(self) -> bool:
        return self._made

    def ping(self, timeout: float) -> Echo:
        if not self._made:
            self._made = True
            opened = self.link.passes(self.pair, timeout)
            if opened.seconds is None:
                return opened
        return self.link.passes(self.pair, timeout)

    def close(self) -> None:
        self._made = False


class DrawnAsked(Asked):
    link: Link

    def ping(self, timeout: float) -> Echo:
        return self.link.passes(self.pair, timeout)

    def close(self) -> None:
        return


@pytest.fixture(params=[Drawn, DrawnAsked])
def link(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Link]:
    made = Link()

    def between(lab: FakeLab, pair: Pair) -> Line:
        line: Line = request.param(lab, pair)
        line.link = made  # type: ignore[attr-defined]
        return line

    monkeypatch.setattr(looks, "between", between)
    monkeypatch.setattr(loss, "LATE_SECONDS", LATE)
    monkeypatch.setattr(loss, "ANSWERED_SECONDS", 0.4)
    for seconds in ("LOOK_SECONDS", "ASKED_LOOK_SECONDS"):
        monkeypatch.setattr(loss, seconds, 2.0)
    yield made


def said(look: looks.Look) -> str:
    return "; ".join(f"{each.what}: {each.measured}, expected {each.expected}" for each in look.probes)


def fault(share: float = 0.3) -> LossEvidence:
    return LossEvidence([TO], [BESIDE], {TO: share})


def test_a_loss_is_shown_and_silence_calm_and_a_spread_are_not(link: Link) -> None:
    lab, evidence = FakeLab(), fault()
    assert evidence.before(lab).proven
    assert not evidence.in_effect(lab).proven
    link.lost[TO] = 0.3
    look = evidence.in_effect(lab)
    assert look.proven, said(look)
    assert all("late" in probe.expected and "late" in probe.measured for probe in look.probes)
    assert not evidence.gone(lab).proven
    link.lost[BESIDE] = 0.3
    spread = evidence.in_effect(lab)
    assert not spread.proven and [probe.ok for probe in spread.probes if probe.control] == [False]
    link.lost = {TO: None}
    silent = evidence.in_effect(lab)
    assert not silent.proven and not any(probe.ok for probe in silent.probes if not probe.control), said(silent)
    link.lost = {}
    assert evidence.gone(lab).proven
    evidence.close()


@pytest.mark.parametrize("reply", [Reply.REFUSED, Reply.RESET, Reply.CLOSED, Reply.UNREACHABLE])
def test_connections_that_end_are_no_loss(link: Link, reply: Reply) -> None:
    lab, evidence = FakeLab(), fault()
    assert evidence.before(lab).proven
    link.reply, link.lost = reply, {TO: 0.3}
    look = evidence.in_effect(lab)
    assert not look.proven and not any(probe.ok for probe in look.probes)
    assert any(str(reply) in probe.measured for probe in look.probes)
    evidence.close()


def test_cheap_looks_ask_until_one_is_late(link: Link) -> None:
    lab, evidence = FakeLab(), fault()
    assert evidence.before(lab).proven
    (calm,) = evidence.glance(lab, [TO])
    assert not calm.ok and calm.measured.startswith("0 of")
    link.lost[TO] = 0.3
    shown = [probe for _ in range(5) for probe in evidence.glance(lab, [TO])]
    assert sum(probe.ok for probe in shown) >= 4, shown  # one may be unlucky, and is no accusation
    evidence.close()


def test_a_link_that_is_late_by_itself_is_said_before(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds in ("LOOK_SECONDS", "ASKED_LOOK_SECONDS"):
        monkeypatch.setattr(loss, seconds, 0.4)
    link.lost[TO] = 0.3
    assert not fault().before(FakeLab()).proven


@pytest.mark.parametrize("link", [Drawn], indirect=True)
def test_existing_connections_that_ended_are_made_again(link: Link) -> None:
    lab, evidence = FakeLab(), fault()
    assert evidence.before(lab).proven
    link.lost[TO] = 0.3
    for line in (*evidence._existing, *evidence._more):
        line.close()
    look = evidence.in_effect(lab)
    assert look.proven, said(look)
    assert [each.what for each in look.probes if not each.control] == ["existing connections a-data → c-data"]
    evidence.close()


def test_where_no_process_of_ours_is_beside_a_node_it_is_asked_whatever_proxy_there_is() -> None:
    """A Toxiproxy makes one connection after the other: while one waits for a lost packet, all are late."""
    lab, evidence = FakeLab(), fault()
    lab.asks, lab.access = True, Access(tls=True)
    assert lab.wiring.reached(*TO) and isinstance(evidence._between(lab, TO), Asked)
    assert type(evidence._between(lab, ("client-a", "c-data"))) is Line


# ---- packets that hosts counted --------------------------------------------------------------------------------


def counted(met: int, lost: int, share: float = 0.3) -> list[Packets]:
    return [Packets("of a-data", share, met, lost)]


@pytest.mark.parametrize(
    ("met", "lost", "ok"),
    [
        (1000, 300, True),
        (1000, 100, False),
        (1000, 700, False),
        (1000, 0, False),
        (1000, 1000, False),
        (10, 3, False),
        (0, 0, False),
    ],
)
def test_a_share_is_told_by_packets_as_it_is_by_pings(met: int, lost: int, ok: bool) -> None:
    """Only what came after the first reading counts."""
    (probe,) = since(counted(50_000, 50_000), counted(50_000 + met, 50_000 + lost))
    assert probe.ok is ok and probe.measured == f"{lost} of {met} lost", probe


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_packets_as_asked_are_as_many_as_pings_may_be_late(met: int, lost: int) -> None:
    least, most = Lateness(0.3, 0.3).bounds(met)
    (probe,) = since(counted(0, 0), counted(met, min(lost, met)))
    assert probe.ok is (least <= min(lost, met) <= most)


@pytest.mark.parametrize("link", [DrawnAsked], indirect=True)
def test_where_packets_are_counted_pings_of_nodes_only_show_that_some_are_late(link: Link) -> None:
    """Under load TCP sends most lost packets again at once."""
    lab, evidence = FakeLab(), fault()
    assert evidence.before(lab).proven
    link.lost[TO] = 0.08
    assert not evidence.in_effect(lab).proven
    readings = iter([counted(0, 0), counted(1000, 290), counted(1000, 290), counted(2000, 290)])
    evidence.counting = lambda _: next(readings)
    look = evidence.in_effect(lab)
    assert look.proven and [each.what for each in look.probes][1] == "packets of a-data", said(look)
    assert not evidence.in_effect(lab).proven  # no more were lost meanwhile
    readings = iter([counted(0, 0), counted(1000, 290)])
    link.lost = {TO: None}
    assert not evidence.in_effect(lab).proven  # all are late
    evidence.close()


def test_where_some_late_ones_are_enough_it_is_asked_until_there_are_some() -> None:
    """With few late of many the count tells soon that fewer are late than asked."""
    asked = row(Lateness(0.3, 0.3))
    asked.some = True
    for number in range(200):
        assert asked.begin() == number and not asked.shows
        asked.end(number, Echo(Reply.ANSWERED, 0.001))
    assert asked.count.told is Told.LESS and asked.measured == "0 of 200 late"
    number = asked.begin()
    assert number is not None
    asked.end(number, Echo(Reply.SILENT))
    assert asked.begin() is None and asked.shows and asked.measured == "1 of 201 late"
    asked.odd[Reply.RESET] += 1
    assert not asked.shows


@pytest.mark.parametrize("link", [DrawnAsked], indirect=True)
def test_a_host_that_cannot_be_asked_shows_nothing(link: Link) -> None:
    lab, evidence = FakeLab(), fault()
    assert evidence.before(lab).proven
    link.lost[TO] = 0.3

    def counting(_: object) -> list[Packets]:
        raise FaultError("host-a counts no packets of f1-0")

    evidence.counting = counting
    look = evidence.in_effect(lab)
    assert not look.proven and [each.measured for each in look.probes if "host" in each.what] == [
        "host-a counts no packets of f1-0"
    ]
    evidence.close()


# ---- rows ----------------------------------------------------------------------------------------------------


def row(lateness: Lateness, limit: float = 60.0) -> Row:
    return Row(TO, Count(lateness), limit, float("inf"))


@given(st.lists(st.booleans(), min_size=1, max_size=200), st.randoms())
def test_pings_count_in_the_order_in_which_they_were_begun(late: list[bool], draw: random.Random) -> None:
    """Whatever the order in which they are answered, several at a time."""
    expected, asked = Count(Lateness(0.3, 0.3)), row(Lateness(0.3, 0.3))
    for each in late:
        expected.add(each)
    out: list[int] = []
    left = list(late)
    while left or out:
        if left and (len(out) < LANES) and (not out or draw.random() < 0.5):
            number = asked.begin()
            if number is None:
                break
            out.append(number)
            left.pop(0)
        else:
            number = out.pop(draw.randrange(len(out)))
            asked.end(number, Echo(Reply.SILENT if late[number] else Reply.ANSWERED, None if late[number] else 0.1))
    for number in out:
        asked.end(number, Echo(Reply.SILENT) if late[number] else Echo(Reply.ANSWERED, 0.1))
    told = (asked.count.told, asked.count.asked, asked.count.late, asked.count.moments)
    assert told == (expected.told, expected.asked, expected.late, expected.moments)


def test_what_waits_behind_a_ping_that_is_not_answered_is_not_counted_before_it() -> None:
    """Else those in time would be counted first, and tell that nothing is late."""
    asked = row(Lateness(0.3, 0.3))
    first = asked.begin()
    for _ in range(100):
        number = asked.begin()
        assert number is not None
        asked.end(number, Echo(Reply.ANSWERED, 0.001))
    assert asked.count.asked == 0 and asked.count.told is Told.OPEN
    assert first is not None
    asked.end(first, Echo(Reply.ANSWERED, 0.001))
    assert asked.count.told is Told.LESS and asked.begin() is None


def test_after_a_while_no_answer_is_known_to_be_late() -> None:
    asked = row(Lateness(0.3, 0.3), limit=-loss.LATE_SECONDS)
    asked.begin()
    asked.begin()
    assert asked.count.asked >= 1 and asked.count.late == asked.count.asked


def test_every_row_has_some_lanes_however_many_rows_there_are() -> None:
    ran: list[int] = []
    at_once([[partial(ran.append, k)] * LANES for k in range(200)])
    assert {ran.count(k) for k in range(200)} == {2}
    at_once([])


@given(st.lists(st.tuples(st.booleans(), st.integers(1, loss.ASKED_LANES)), max_size=12))
def test_nodes_are_asked_a_few_times_at_once_and_last(rows: list[tuple[bool, int]]) -> None:
    seen: list[tuple[bool, int]] = []
    lock, going = threading.Lock(), [0]

    def lane(asked: bool) -> None:
        with lock:
            going[0] += 1
            seen.append((asked, going[0]))
        time.sleep(0.001)
        with lock:
            going[0] -= 1

    go([(Row(TO, Count(Lateness(0.3, 0.3)), 1.0, 1.0, asked), [partial(lane, asked)] * most) for asked, most in rows])
    assert len(seen) == sum(most for _, most in rows)
    assert [asked for asked, _ in seen] == sorted(asked for asked, _ in seen)
    assert all(together <= loss.MOST_ASKED_LANES for asked, together in seen if asked)


def test_a_row_lasts_from_its_first_ping_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are asked in turns: one that waited for its turn has no less time."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    made = Row(TO, Count(Lateness(0.3, 0.3)), 60.0, 5.0)
    now[0] += 50
    assert made.begin() == 0
    now[0] += 4.9
    assert made.begin() == 1
    now[0] += 0.2
    assert made.begin() is None


def test_lanes_are_as_many_as_late_pings_keep_busy() -> None:
    assert [lanes(Lateness(share, share)) for share in (0.02, 0.3)] == [LANES, LANES]
    assert LANES < lanes(Lateness(0.5, 0.5)) < lanes(Lateness(0.9, 0.9)) < loss.MOST_LANES // 2


# ---- the kind ------------------------------------------------------------------------------------------------


def made(links: str, share: str) -> LossEvidence:
    params = FAULTS["network.loss"].model_validate({"links": links, "share": share})
    assert isinstance(params, NetworkLoss)
    lab = FakeLab()
    found = params.evidence(params.aim("f1", Scene.of(lab.topology, 1, "f1"), lab.wiring), Means(()))
    assert isinstance(found, LossEvidence)
    return found


def test_a_pair_is_late_by_what_is_lost_both_ways() -> None:
    one, both = made("from node a-data to node c-data", "20%"), made("between node a-data and node c-data", "20%")
    assert one.late(TO) == one.late(BACK) == pytest.approx(0.2)
    assert both.late(TO) == both.late(BACK) == pytest.approx(0.36)
    assert one.late(BESIDE) == pytest.approx(0.2)  # what an untouched pair must not show
    assert set(one.touched) == {TO, BACK} and BESIDE not in one.touched


def test_both_ways_too_little_comes_through_where_one_way_some_does() -> None:
    made("to node c-data", "90%")
    made("between node a-data and node c-data", "68%")
    with pytest.raises(InvalidInput, match="leave 9% of the round trips"):
        made("between node a-data and node c-data", "70%")


def test_the_least_loss_is_what_a_thousand_pings_tell() -> None:
    assert Lateness(LEAST_LOSS, LEAST_LOSS).expected < 1000 < Lateness(0.015, 0.015).expected
