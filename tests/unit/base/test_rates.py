"""A rate that changes: what follows from its pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.base.rates import Profile, Trace, ramp, steps

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


listed = st.lists(st.floats(0, 40), min_size=1, max_size=60).map(sorted)


@given(listed, seconds, seconds)
@settings(max_examples=60, deadline=None)
def test_a_span_of_a_list_has_the_arrivals_that_lie_in_it(times, one, other):
    begin, end = sorted((max(0.0, one), max(0.0, other)))
    trace = Trace(times, before=5)
    assert trace.expected(begin, end) == sum(begin <= at < end for at in times)
    assert trace.expected(-3, 0) == pytest.approx(15)
    assert trace.expected(0, 41) == len(times) == pytest.approx(trace.mean * (int(max(times)) + 1))


def test_the_line_of_a_list_is_its_arrivals_in_whole_seconds():
    trace = Trace([0.1, 0.2, 2.5, 2.5, 2.9], before=4)
    assert list(trace.corners(-1, 4)) == [
        (-1, 4),
        (0, 4),
        (0, 2),
        (1, 2),
        (1, 0),
        (2, 0),
        (2, 3),
        (3, 3),
        (3, 0),
        (4, 0),
    ]
    assert (trace.highest, trace.most(0, 2), trace.most(1.5, 2.5), trace.first, trace.last) == (4, 2, 3, 4, 2.9)
    assert trace.text == "5 arrivals listed over 3s, 4/s before"


@pytest.mark.parametrize(
    ("times", "before", "says"),
    [([], 1, "one at least"), ([1], 0, "above 0"), ([2, 1], 1, "ascending"), ([float("nan")], 1, "finite")],
)
def test_times_that_make_no_list_are_refused(times, before, says):
    with pytest.raises(ValueError, match=says):
        Trace(times, before)
