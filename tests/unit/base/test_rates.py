"""A rate that changes: what follows from its pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.base.rates import Profile, ramp, steps

SURGE = Profile(((0, 40, 40), (30, 40, 120), (60, 120, 120), (90, 120, 40), (100, 40, 40)))
seconds = st.floats(-20, 130)


@pytest.mark.parametrize(
    ("at", "number"),
    [(-10, -400), (0, 0), (30, 1200), (45, 1200 + 15 * 60), (60, 3600), (90, 7200), (100, 8000), (110, 8400)],
)
def test_the_expected_number_is_the_area_under_the_line(at, number):
    assert SURGE.number(at) == pytest.approx(number)


@given(seconds, seconds)
@settings(max_examples=50, deadline=None)
def test_a_span_has_what_the_rates_in_it_allow(one, other):
    begin, end = sorted((one, other))
    corners = list(SURGE.corners(begin, end))
    assert [at for at, _ in corners] == sorted(at for at, _ in corners)
    lengths = pairwise(corners)
    area = sum((after - at) * (rate + later) / 2 for (at, rate), (after, later) in lengths)
    assert SURGE.expected(begin, end) == pytest.approx(area, abs=1e-6)
    assert SURGE.expected(begin, end) <= SURGE.most(begin, end) * (end - begin) + 1e-6
    assert SURGE.expected(begin, end) >= SURGE.lowest * (end - begin) - 1e-6


def test_a_jump_has_both_rates():
    jump = Profile(steps((0, 20), (60, 80)))
    assert list(jump.corners(50, 70)) == [(50, 20), (60, 20), (60, 80), (70, 80)]
    assert (jump.most(0, 60), jump.most(0, 61), jump.lowest, jump.highest) == (20, 80, 20, 80)
    assert jump.expected(50, 70) == 10 * 20 + 10 * 80
    assert list(Profile(ramp(20, 100, 10)).corners(-5, 10)) == [(-5, 20), (0, 20), (10, 100)]


@pytest.mark.parametrize(
    ("pieces", "says"),
    [
        (steps((0, 20), (60, 80)), "20/s, 80/s from 1m"),
        (ramp(1 / 60, 20, 120), "1/min, evenly to 20/s from 0s to 2m"),
        (SURGE.pieces, "40/s, evenly to 120/s from 30s to 1m, evenly to 40/s from 90s to 100s"),
        (steps((0, 20), (5, 20)), "20/s"),
    ],
)
def test_it_is_told_in_words(pieces, says):
    assert Profile(pieces).text == says
