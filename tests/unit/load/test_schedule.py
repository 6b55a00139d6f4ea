from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
