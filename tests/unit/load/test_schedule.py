from __future__ import annotations

import math

import numpy as np
import pytest
from fakes import Log
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.base.rates import Profile, ramp, steps
from chaos.load.config import OperationConfig
from chaos.load.rates import ListedTimes, VaryingRate, rate_of
from chaos.load.schedule import SECOND, Schedule, Share

rates = st.lists(st.floats(0.2, 2000, allow_nan=False), min_size=1, max_size=3)
whole_rates = st.lists(st.integers(1, 2000), min_size=1, max_size=3)
laws = st.sampled_from(["uniform", "poisson"])
seeds = st.integers(0, 2**32)


@given(rates, laws, seeds)
@settings(max_examples=40, deadline=None)
def test_same_seed_same_plan(rates, law, seed):
    assert np.array_equal(Schedule(rates, law, seed).until(2 * SECOND), Schedule(rates, law, seed).until(2 * SECOND))


@given(rates, laws, seeds, st.lists(st.integers(1, 3 * SECOND), max_size=6))
@settings(max_examples=60, deadline=None)
def test_the_plan_does_not_depend_on_how_it_is_cut(rates, law, seed, cuts):
    whole = Schedule(rates, law, seed).until(3 * SECOND)
    piecewise = Schedule(rates, law, seed)
    parts = [piecewise.until(cut) for cut in [*sorted(cuts), 3 * SECOND]]
    assert np.array_equal(whole, np.concatenate(parts))


@given(rates, laws, seeds)
@settings(max_examples=40, deadline=None)
def test_arrivals_are_numbered_in_the_order_of_time(rates, law, seed):
    plan = Schedule(rates, law, seed).until(2 * SECOND)
    assert np.array_equal(plan["k"], np.arange(len(plan)))
    assert (np.diff(plan["intended"]) >= 0).all()
    assert len(plan) == 0 or (plan["intended"][0] >= 0 and plan["intended"][-1] < 2 * SECOND)


@given(whole_rates, seeds, st.integers(0, 100_000))
@settings(max_examples=60, deadline=None)
def test_uniform_has_its_rate_in_every_second(rates, seed, second):
    schedule = Schedule(rates, "uniform", seed)
    for op, rate in enumerate(rates):
        times = schedule.times(op, second * SECOND, (second + 1) * SECOND)
        assert len(times) == rate
        assert np.abs(np.diff(times) - SECOND / rate).max(initial=0) <= 2


@given(st.floats(0.2, 50), seeds)
@settings(max_examples=40, deadline=None)
def test_uniform_with_a_broken_rate_is_off_by_less_than_one_arrival(rate, seed):
    times = Schedule([rate], "uniform", seed).times(0, 0, 20 * SECOND)
    assert abs(len(times) - 20 * rate) < 1


def test_uniform_operations_are_shifted_against_each_other():
    schedule = Schedule([100, 100], "uniform", 7)
    first, second = (schedule.times(op, 0, SECOND) for op in (0, 1))
    assert not np.array_equal(first, second)


def test_poisson_counts_have_the_mean_and_variance_of_their_rate():
    schedule = Schedule([100], "poisson", 1)
    times = schedule.times(0, 0, 400 * SECOND)
    counts = np.bincount(times // SECOND, minlength=400)
    assert 98 < counts.mean() < 102
    assert 70 < counts.var() < 135
    gaps = np.diff(times) / SECOND
    assert 0.9 < gaps.std() / gaps.mean() < 1.1  # exponential gaps: both equal


def test_an_unknown_law_is_refused():
    with pytest.raises(ValueError, match="arrival law"):
        Schedule([1], "bursty", 1)


@given(whole_rates, laws, seeds, st.integers(1, 5), st.lists(st.integers(1, 3 * SECOND), max_size=3))
@settings(max_examples=60, deadline=None)
def test_processes_that_share_a_load_send_each_arrival_once_under_numbers_of_their_own(rates, law, seed, of, cuts):
    whole = Schedule(rates, law, seed).until(3 * SECOND)
    shares = [Share(first=n, of=of, process=n, processes=of) for n in range(of)]
    plans = []
    for share in shares:
        schedule = Schedule(rates, law, seed, share)
        plans.append(np.concatenate([schedule.until(cut) for cut in [*sorted(cuts), 3 * SECOND]]))
    together = np.concatenate(plans)
    for op in range(len(rates)):
        mine = np.sort(together["intended"][together["op"] == op])
        assert np.array_equal(mine, whole["intended"][whole["op"] == op])
        counts = [int((plan["op"] == op).sum()) for plan in plans]
        assert max(counts) - min(counts) <= 1  # as many of each operation, so none has all of one
    assert len(np.unique(together["k"])) == len(together)
    assert all((plan["k"] % of == n).all() for n, plan in enumerate(plans))


def test_a_process_has_its_own_operations_and_numbers_closed_loops_beside_them():
    own = Schedule([100, 50], "uniform", 7, Share(operations=(1,), process=1, processes=2))
    plan = own.until(SECOND)
    assert set(plan["op"]) == {1} and len(plan) == 50
    assert own.take() == 2 * 50 + 1 and own.until(2 * SECOND)["k"][0] == 2 * 51 + 1
    assert Share(operations=(1,)).has(1) and not Share(operations=(1,)).has(0)


per_second = st.integers(0, 300).map(float)
stepped = st.lists(st.tuples(st.integers(1, 400), per_second), min_size=1, max_size=4, unique_by=lambda step: step[0])
pieces = st.one_of(
    st.builds(ramp, per_second, per_second.map(lambda rate: rate + 1), st.floats(0.1, 5)),
    st.builds(ramp, per_second.map(lambda rate: rate + 1), per_second, st.floats(0.1, 5)),
    stepped.map(lambda given: steps((0.0, 1.0), *((at / 100, rate) for at, rate in sorted(given)))),
)


def begun(pieces, at: float = 0.0) -> VaryingRate:
    """A rate that begins to change so many seconds after the load."""
    made = VaryingRate(pieces)
    made.begin(at)
    return made


profiles = st.builds(begun, pieces, st.floats(0, 4))


@given(profiles, laws, seeds, st.lists(st.integers(1, 6 * SECOND), max_size=6))
@settings(max_examples=60, deadline=None)
def test_the_plan_of_a_changing_rate_does_not_depend_on_how_it_is_cut(profile, law, seed, cuts):
    whole = Schedule([profile, 10], law, seed).until(6 * SECOND)
    piecewise = Schedule([profile, 10], law, seed)
    parts = [piecewise.until(cut) for cut in [*sorted(cuts), 6 * SECOND]]
    assert np.array_equal(whole, np.concatenate(parts))
    assert (np.diff(whole["intended"]) >= 0).all()


@given(profiles, seeds, st.integers(0, 6 * SECOND), st.integers(0, 6 * SECOND))
@settings(max_examples=60, deadline=None)
def test_a_uniform_changing_rate_has_its_integral_in_every_window(profile, seed, one, other):
    begin, end = sorted((one, other))
    times = Schedule([profile], "uniform", seed).times(0, begin, end)
    expected = profile.number(end / SECOND) - profile.number(begin / SECOND)
    assert abs(len(times) - expected) < 1 + 1e-6


@given(profiles, st.lists(st.floats(0.001, 400), min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_the_time_of_a_number_is_when_the_integral_reaches_it(profile, numbers):
    for number, seconds in zip(numbers, profile.when(np.array(numbers)), strict=True):
        if np.isfinite(seconds):
            assert profile.number(float(seconds)) == pytest.approx(number, abs=1e-5)
        else:
            assert profile.number(1e9) <= number


@given(pieces, laws, seeds, st.integers(0, 3), st.integers(0, SECOND), st.lists(st.integers(1, 3 * SECOND), max_size=4))
@settings(max_examples=60, deadline=None)
def test_what_is_planned_before_a_rate_begins_to_change_is_what_is_planned_with_that_known(
    pieces, law, seed, second, later, cuts
):
    zero = second * SECOND + later
    known = Schedule([begun(pieces, zero / SECOND), 10], law, seed)
    told = Schedule([VaryingRate(pieces), 10], law, seed)
    parts = [told.until(cut) for cut in [*sorted(cut for cut in cuts if cut < second * SECOND), second * SECOND]]
    told.begin(zero)
    parts.append(told.until(6 * SECOND))
    assert np.array_equal(known.until(6 * SECOND), np.concatenate(parts))
    early = known.times(0, 0, zero)
    assert law == "poisson" or abs(len(early) - Profile(pieces).first * zero / SECOND) < 1 + 1e-6


def test_a_rate_that_is_told_late_to_change_sends_no_arrival_twice():
    late = Schedule([VaryingRate(ramp(20, 100, 4))], "uniform", 7)
    parts = [late.until(3 * SECOND)]
    assert late.begin(2 * SECOND) == SECOND
    parts.append(late.until(8 * SECOND))
    times = np.concatenate(parts)["intended"]
    assert (np.diff(times) > 0).all()
    whole = Schedule([begun(ramp(20, 100, 4), 2)], "uniform", 7).until(8 * SECOND)
    assert abs(len(times) - len(whole)) <= 11  # what it would have grown by in the second that was planned


def test_a_random_changing_rate_has_the_mean_and_the_spread_of_its_law():
    schedule = Schedule([begun(ramp(100, 300, 100))], "poisson", 3)
    halves = [len(schedule.times(0, begin * SECOND, (begin + 50) * SECOND)) for begin in (0, 50)]
    assert halves[0] == pytest.approx(7500, abs=4 * 7500**0.5)
    assert halves[1] == pytest.approx(12500, abs=4 * 12500**0.5)
    inside = schedule.times(0, 0, 100 * SECOND) % SECOND
    assert np.mean(inside < SECOND // 2) == pytest.approx(0.5, abs=0.02)


def test_nothing_arrives_while_the_rate_is_0():
    profile = begun(steps((0, 10), (1, 0), (3, 20)))
    for law in ("uniform", "poisson"):
        schedule = Schedule([profile], law, 5)
        assert len(schedule.times(0, SECOND, 3 * SECOND)) == 0
        assert len(schedule.times(0, 3 * SECOND, 13 * SECOND)) > 100
    over = Schedule([begun(steps((0, 10), (1, 0)))], "uniform", 5)
    assert len(over.times(0, 0, 3600 * SECOND)) == 10


@given(st.floats(0.001, 1e4), st.floats(0.01, 100))
@settings(max_examples=100, deadline=None)
def test_a_rate_that_falls_to_0_can_be_planned_to_its_end(first, over):
    profile = begun(ramp(first, 0, over))
    schedule = Schedule([profile], "poisson", 2)
    for second in range(int(over), int(over) + 3):
        times = schedule.times(0, second * SECOND, (second + 1) * SECOND)
        assert (times <= math.ceil(over * SECOND)).all()


def test_processes_share_a_changing_rate():
    profile = begun(ramp(20, 200, 4))
    whole = Schedule([profile], "uniform", 9).until(6 * SECOND)
    parts = [Schedule([profile], "uniform", 9, Share(None, i, 2, i, 2)).until(6 * SECOND) for i in range(2)]
    assert np.array_equal(np.sort(np.concatenate([part["intended"] for part in parts])), whole["intended"])
    assert abs(len(parts[0]) - len(parts[1])) <= 1


@pytest.mark.parametrize(
    ("pieces", "says"),
    [
        ((), "begins at 0 s"),
        (steps((1, 10)), "begins at 0 s"),
        (steps((0, 10), (5, 20), (5, 30)), "one after the other"),
        (steps((0, 0), (5, 0)), "no request would ever be sent"),
        (steps((0, -1)), "never below 0"),
        (((0.0, 1.0, 2.0),), "stays as it begins"),
        (steps((0, float("inf"))), "finite"),
    ],
)
def test_pieces_that_make_no_rate_are_refused(pieces, says):
    with pytest.raises(ValueError, match=says):
        Profile(pieces)


def test_constant_rates_have_the_plan_that_they_always_had():
    plans = {law: Schedule([40, 7.3], law, 11).until(5 * SECOND) for law in ("uniform", "poisson")}
    assert {law: (len(plan), int(plan["intended"].sum())) for law, plan in plans.items()} == {
        "uniform": (237, 590408274844),
        "poisson": (242, 629471024887),
    }


def test_a_driver_is_told_the_highest_of_its_rates():
    given = {"name": "read", "kind": "search", "good_within_s": 1.0}
    told = OperationConfig(rate=60, changes=ramp(20, 60, 10), **given)
    assert OperationConfig.model_validate_json(told.model_dump_json()) == told
    assert "changes" not in OperationConfig(rate=60, **given).model_dump()
    with pytest.raises(ValueError, match="reaches 60/s"):
        OperationConfig(rate=40, changes=ramp(20, 60, 10), **given)


@pytest.mark.parametrize(("heard", "late"), [(1, 0), (4, SECOND)])
def test_the_driver_in_asyncio_says_how_much_too_late_it_was_told(heard, late):
    pytest.importorskip("aiohttp")
    from chaos.load.in_asyncio import Engine

    engine, log = object.__new__(Engine), Log()
    engine._begin, engine._events = 7 * SECOND, log
    engine._schedule = Schedule([VaryingRate(ramp(20, 60, 10))], "uniform", 3)
    engine._schedule.until(heard * SECOND)
    engine.begin(10 * SECOND)
    assert log.of("rates.begin") == [{"kind": "rates.begin", "at": 10 * SECOND, "late_ns": late}]
    assert engine._schedule.rates[0].zero == 3


listed = st.lists(st.floats(0, 4), min_size=1, max_size=50).map(sorted)


@given(listed, laws, seeds, st.integers(0, 3 * SECOND), st.lists(st.integers(1, 8 * SECOND), max_size=6))
@settings(max_examples=60, deadline=None)
def test_listed_arrivals_come_when_they_are_listed_however_the_plan_is_cut(times, law, seed, zero, cuts):
    def planned(*ends):
        rate = ListedTimes(times, before=20)
        rate.begin(zero / SECOND)
        schedule = Schedule([rate, 10], law, seed)
        return np.concatenate([schedule.until(end) for end in ends])

    whole = planned(8 * SECOND)
    assert np.array_equal(whole, planned(*sorted(cuts), 8 * SECOND))
    own = whole["intended"][whole["op"] == 0]
    wanted = np.round(np.array(times) * SECOND).astype(np.int64) + zero
    assert np.array_equal(own[own >= zero], wanted)
    before = Schedule([20, 10], law, seed).until(8 * SECOND)
    constant = before["intended"][before["op"] == 0]
    assert np.array_equal(own[own < zero], constant[constant < zero])


def test_a_list_that_was_not_told_to_begin_goes_on_at_the_rate_before_it():
    rate = rate_of(3, (), (0.0, 1.0), 20.0)
    assert isinstance(rate, ListedTimes)
    schedule = Schedule([rate], "uniform", 3)
    early = schedule.until(2 * SECOND)
    assert schedule.begin(3 * SECOND) == 0
    assert len(early) == 40 and schedule.until(9 * SECOND)["intended"].tolist()[-2:] == [3 * SECOND, 4 * SECOND]


def test_processes_share_a_list_and_send_each_of_its_arrivals_once():
    def begun_list():
        rate = ListedTimes([0.0, 0.1, 0.1, 0.5, 2.0], before=10)
        rate.begin(1.0)
        return rate

    shares = [Schedule([begun_list()], "poisson", 5, Share(first=n, of=2, process=n, processes=2)) for n in range(2)]
    sent = sorted(at for one in shares for at in one.until(5 * SECOND)["intended"].tolist())
    assert sent == Schedule([begun_list()], "poisson", 5).until(5 * SECOND)["intended"].tolist()


def test_a_driver_is_told_the_times_of_a_list():
    given = {"name": "read", "kind": "search", "good_within_s": 1.0, "times": (0.0, 0.5, 0.5), "before": 2.0}
    told = OperationConfig(rate=3, **given)
    assert OperationConfig.model_validate_json(told.model_dump_json()) == told
    with pytest.raises(ValueError, match="reaches 3/s"):
        OperationConfig(rate=2, **given)
