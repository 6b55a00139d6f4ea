"""The statistics of late pings: how often they err, exactly and by simulation, and what they do not take for a loss."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.faults.lateness import ERROR, PAUSES, Count, Lateness, Told, at_odds, information, late_share, odds

SHARES = [0.02, 0.05, 0.1, 0.2, 0.36, 0.5, 0.51, 0.7, 0.9]
shares = st.floats(0.02, 0.9)


def ends(lateness: Lateness, true: float) -> dict[Told, float]:
    """How probably it ends how where so many pings are late, exactly: what is open is carried on ping by ping."""
    open_ = np.array([1.0])  # by how many were late
    found = dict.fromkeys(Told, 0.0)
    for asked in range(1, 40_000):
        more = np.zeros(asked + 1)
        more[:-1] += open_ * (1 - true)
        more[1:] += open_ * true
        late = np.arange(asked + 1)
        least, most = lateness.bounds(asked)
        less, beyond = late <= lateness.calm(asked), late >= lateness.beyond(asked)
        good = (late >= least) & (late <= most)
        for told, here in ((Told.LESS, less), (Told.MORE, beyond & ~less), (Told.ASKED, good)):
            found[told] += float(more[here].sum())
        more[less | beyond | good] = 0.0
        open_ = more
        if open_.sum() < 1e-9:
            break
    found[Told.OPEN] = float(open_.sum())
    return found


@pytest.mark.parametrize("share", SHARES)
def test_the_errors_are_no_larger_than_they_may_be(share: float) -> None:
    lateness = Lateness(share, share)
    right = ends(lateness, share)
    assert right[Told.LESS] + right[Told.MORE] <= ERROR and right[Told.OPEN] < 1e-6
    for wrong in (lateness.less, lateness.less / 2, 1e-9, lateness.more, (1 + lateness.more) / 2, 1 - 1e-9):
        assert ends(lateness, wrong)[Told.ASKED] <= ERROR / 2


@pytest.mark.parametrize(("least", "most"), [(0.2, 0.5), (0.05, 0.9), (0.3, 0.3)])
def test_a_share_between_two_is_told_to_be_otherwise_as_seldom(least: float, most: float) -> None:
    lateness = Lateness(least, most)
    for true in (least, (least + most) / 2, most):
        found = ends(lateness, true)
        assert found[Told.LESS] + found[Told.MORE] <= ERROR
    assert ends(lateness, lateness.less)[Told.ASKED] <= ERROR / 2
    assert ends(lateness, lateness.more)[Told.ASKED] <= ERROR / 2


def counted(lateness: Lateness, draw: random.Random, true: float, most: int = 20_000) -> Count:
    count = Count(lateness)
    for _ in range(most):
        if count.add(draw.random() < true) is not Told.OPEN:
            break
    return count


@given(shares, st.integers(0, 2**32))
@settings(max_examples=20)
def test_by_simulation_a_loss_is_told_and_no_loss_is_not(share: float, seed: int) -> None:
    """With runs of late pings counted too. Of 40 draws one that errs by 1 in 10,000 is wrong twice in 10^-5 cases."""
    lateness, draw = Lateness(share, share), random.Random(seed)
    lost = [counted(lateness, draw, share).told for _ in range(40)]
    assert sum(told is not Told.ASKED for told in lost) <= 1
    for true in (0.0, 1.0, lateness.less, lateness.more):
        others = [counted(lateness, draw, true).told for _ in range(40)]
        assert sum(told is Told.ASKED for told in others) <= 1
        assert set(others) <= {Told.LESS, Told.ASKED} or true > share


@given(shares, st.floats(0.0, 1.0), st.integers(0, 2**32))
@settings(max_examples=30)
def test_a_machine_that_pauses_is_no_loss(share: float, goes_on: float, seed: int) -> None:
    """It pauses once in so many pings, and then each is late until it goes on, however long that is."""
    lateness, draw = Lateness(share, share), random.Random(seed)
    pauses, told = min(PAUSES, lateness.less), []
    for _ in range(40):
        count, late = Count(lateness), False
        for _ in range(3000):
            late = draw.random() < (1 - goes_on if late else pauses)
            if count.add(late) is not Told.OPEN:
                break
        told.append(count.told)
    assert told.count(Told.ASKED) <= 1


def test_one_long_pause_is_one_moment() -> None:
    count = Count(Lateness(0.3, 0.3))
    for late in [False] * 10 + [True] * 8 + [False] * 5:
        count.add(late)
    assert (count.asked, count.late, count.moments, count.told) == (23, 8, 1, Told.OPEN)
    spread = Count(Lateness(0.3, 0.3))
    while spread.told is Told.OPEN:
        spread.add(spread.asked % 3 == 2)
    assert spread.told is Told.ASKED and spread.moments == spread.late


def test_what_was_told_stays_told() -> None:
    count = Count(Lateness(0.2, 0.2))
    while count.told is Told.OPEN:
        count.add(False)
    assert count.told is Told.LESS and count.asked == count.lateness.expected_calm
    for _ in range(100):
        assert count.add(True) is Told.LESS
    assert count.late == 0


@given(shares, st.floats(0, 1), st.integers(1, 3000))
def test_no_number_of_late_pings_is_two_things_at_once(share: float, wider: float, asked: int) -> None:
    lateness = Lateness(share, share + (0.9 - share) * wider)
    least, most = lateness.bounds(asked)
    assert lateness.calm(asked) < least and most < lateness.beyond(asked)
    assert lateness.less < lateness.least <= lateness.most < lateness.more


def test_what_is_expected_of_so_many_pings() -> None:
    """(9.9 + 100 ln(0.941 / 0.8)) / ln 4 = 18.9, and (100 ln(0.8 / 0.5) - 9.9) / ln 4 = 26.8."""
    assert Lateness(0.2, 0.2).bounds(100) == (19, 26)
    assert Lateness(0.2, 0.2).calm(100) == 4


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_round_trip_is_late_when_one_of_its_packets_is_lost(there: float, back: float) -> None:
    found = late_share(there, back)
    assert 0 <= found <= 1 and found >= max(there, back) - 1e-12
    assert found == pytest.approx(late_share(back, there))
    assert late_share(there, 0.0) == pytest.approx(there)
    assert found <= there + back + 1e-12  # no more than the sum of both


def test_odds_and_information() -> None:
    assert at_odds(0.2, 4) == pytest.approx(0.5) and at_odds(at_odds(0.3, 4), 1 / 4) == pytest.approx(0.3)
    assert at_odds(0.8, odds(0.8)) == pytest.approx(64 / 65) and odds(0.5) == 4
    assert information(0.3, 0.3) == 0 and information(0.5, 0.2) == pytest.approx(0.2231435)


@pytest.mark.parametrize("share", SHARES)
def test_it_takes_about_as_many_pings_as_wald_says(share: float) -> None:
    lateness, draw = Lateness(share, share), random.Random(7)
    asked = [counted(lateness, draw, share).asked for _ in range(200)]
    assert 0.7 * lateness.expected <= sum(asked) / len(asked) <= 2 * lateness.expected + 10
