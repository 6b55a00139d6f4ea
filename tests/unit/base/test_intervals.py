"""Intervals against tables, against exact sums, and against the truth in simulations with a known one."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.base.intervals import (
    Range,
    beta_share,
    bounded_quantile,
    clopper_pearson,
    cut,
    lower_rank,
    median,
    ranked,
    runs_needed,
    shift,
    t_interval,
    t_quantile,
    u_counts,
)

exact = Range.exact


def at_least(value: float) -> Range:
    return Range(value, math.inf)


def tail(k: int, n: int, p: Fraction) -> Fraction:
    """P(X >= k), X binomial, exactly."""
    return sum((math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1)), Fraction(0))


@given(st.integers(1, 40), st.data(), st.integers(1, 99))
def test_the_incomplete_beta_function_is_the_binomial_tail(n: int, data: st.DataObject, percent: int) -> None:
    k = data.draw(st.integers(1, n))
    p = Fraction(percent, 100)
    assert beta_share(float(p), k, n - k + 1) == pytest.approx(float(tail(k, n, p)), abs=1e-12)


@pytest.mark.parametrize(
    ("p", "freedom", "table"),
    [(0.95, 4, 2.1318), (0.975, 4, 2.7764), (0.975, 9, 2.2622), (0.995, 1, 63.657), (0.95, 120, 1.6577), (0.5, 3, 0.0)],
)
def test_students_t_is_as_in_the_tables(p: float, freedom: int, table: float) -> None:
    assert t_quantile(p, freedom) == pytest.approx(table, abs=6e-4 if table > 10 else 6e-5)


@pytest.mark.parametrize(
    ("good", "total", "low", "high"),
    [
        (60_000, 60_000, 0.999939, 1.0),
        (59_994, 60_000, 0.999782, 0.999963),
        (0, 10, 0.0, 0.3085),
        (5, 10, 0.1871, 0.8129),
        (0, 0, 0.0, 1.0),
        (9_999_990, 10_000_000, 0.99999816, 0.99999952),
    ],
)
def test_clopper_pearson_is_as_published(good: int, total: int, low: float, high: float) -> None:
    found = clopper_pearson(good, total)
    assert found == pytest.approx((low, high), abs=1e-4 if total <= 10 else 1e-6)


@given(st.integers(1, 60), st.data())
def test_clopper_pearson_covers_and_is_symmetrical(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    low, high = clopper_pearson(k, n)
    assert low <= k / n <= high
    assert clopper_pearson(n - k, n) == pytest.approx((1 - high, 1 - low), abs=1e-9)
    if k:
        assert float(tail(k, n, Fraction(low))) == pytest.approx(0.025, abs=1e-9)


def test_clopper_pearson_refuses_what_is_no_share() -> None:
    with pytest.raises(ValueError, match="3 of 2"):
        clopper_pearson(3, 2)


# ---- quantiles ---------------------------------------------------------------------------------------------


def test_how_many_runs_bound_which_quantile() -> None:
    assert runs_needed(0.5) == 5
    assert (runs_needed(0.9), runs_needed(0.95)) == (29, 59)
    assert bounded_quantile(29) >= 0.9 > bounded_quantile(28)
    assert bounded_quantile(5) >= 0.5 > bounded_quantile(4)


@given(st.integers(1, 60), st.integers(1, 99))
def test_the_lower_rank_is_the_largest_that_keeps_its_level(runs: int, percent: int) -> None:
    q = Fraction(percent, 100)
    j = lower_rank(runs, float(q))
    assert j == 0 or float(tail(j, runs, q)) >= 0.95 - 1e-9
    assert j == runs or float(tail(j + 1, runs, q)) < 0.95 + 1e-9


@given(st.lists(st.integers(0, 30), min_size=1, max_size=9), st.data())
def test_a_censored_value_keeps_its_rank(values: list[int], data: st.DataObject) -> None:
    """Whatever the truth of the censored ones is, every rank statistic holds it."""
    hidden = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    truth = [v + data.draw(st.integers(0, 100)) if h else v for v, h in zip(values, hidden, strict=True)]
    known = [at_least(v) if h else exact(v) for v, h in zip(values, hidden, strict=True)]
    for rank in range(1, len(values) + 1):
        found = ranked(known, rank)
        assert found.low <= sorted(truth)[rank - 1] <= found.high
    assert median(known).low <= float(np.median(truth)) <= median(known).high


def test_a_median_below_the_censored_ones_is_exact() -> None:
    assert median([exact(3), exact(5), at_least(60)]) == exact(5)
    assert median([exact(3), at_least(60), at_least(40)]) == at_least(40)


# ---- a shift -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (3, 3), (4, 4), (5, 3)])
def test_the_distribution_of_u_is_that_of_all_orders(m: int, n: int) -> None:
    counted = [0] * (m * n + 1)
    for places in itertools.combinations(range(m + n), m):
        others = [i for i in range(m + n) if i not in places]
        counted[sum(b > a for a in places for b in others)] += 1
    assert list(u_counts(m, n)) == counted


def test_three_runs_have_no_interval_and_say_what_they_have() -> None:
    found = shift([exact(v) for v in (1, 2, 3)], [exact(v) for v in (11, 12, 13)])
    assert found.interval is None and found.estimate == exact(10)
    assert (found.widest.low, found.widest.high) == (8, 12) and found.widest.level == pytest.approx(0.9)
    assert cut(4, 4)[0] == 1 and cut(4, 4)[1] == pytest.approx(1 - 2 / 70)  # the smallest p is .029
    assert cut(5, 5)[0] == 3 and cut(3, 5)[0] == 1  # as in the tables of U


def test_a_shift_of_censored_values_is_open_where_they_are() -> None:
    a, b = [exact(v) for v in (4, 5, 6, 7)], [exact(9), exact(10), at_least(30), at_least(30)]
    found = shift(a, b)
    assert found.interval is not None
    assert found.interval.low == 2 and math.isinf(found.interval.high)
    back = shift(b, a)
    assert back.interval is not None and back.interval.high == -2 and math.isinf(back.interval.low)


def test_a_side_without_a_value_is_refused() -> None:
    with pytest.raises(ValueError, match="a side without"):
        shift([], [exact(1)])


# ---- do they cover? ----------------------------------------------------------------------------------------
# Seeded, so that the numbers are the same every time; the limits leave four standard errors.

TRIALS = 2000


def within(covered: int, level: float, trials: int = TRIALS) -> bool:
    return covered / trials >= level - 4 * math.sqrt(level * (1 - level) / trials)


@pytest.mark.parametrize("runs", [5, 10, 20])
def test_the_t_interval_covers_the_mean_over_runs(runs: int) -> None:
    rng = np.random.default_rng(runs)
    sample = rng.normal(20, 4, (TRIALS, runs))
    intervals = [t_interval(list(row)) for row in sample]
    covered = sum(each is not None and each.low <= 20 <= each.high for each in intervals)
    assert within(covered, 0.95) and covered / TRIALS < 0.97


def test_the_t_interval_of_clustered_failures_is_near_its_level_where_requests_are_not() -> None:
    """Runs of 10 min at 100/s with 0, 1, 2 ... outages: the simulation behind docs/statistics.md."""
    rng = np.random.default_rng(1)
    trials, runs, requests = 200, 10, 60_000
    per_run = 100 * rng.poisson(3, (trials, runs)) * rng.uniform(4, 8, (trials, runs)) / requests
    truth = 100 * 3 * 6 / requests
    over_runs, over_requests = 0, 0
    for row in per_run:
        found = t_interval(list(row))
        assert found is not None
        over_runs += found.low <= truth <= found.high
        low, high = clopper_pearson(round(float(row.sum()) * requests), runs * requests)
        over_requests += low <= truth <= high
    assert over_runs / trials >= 0.90
    assert over_requests / trials <= 0.5


def test_t_needs_five_runs_and_a_spread() -> None:
    assert t_interval([1.0, 2.0, 3.0, 4.0]) is None
    assert t_interval([0.25] * 5) is None  # no spread seen is no spread of 0


@pytest.mark.parametrize(("m", "n"), [(4, 4), (5, 5), (8, 6)])
@pytest.mark.parametrize("shape", ["normal", "skewed", "ties"])
def test_the_shift_interval_covers_whatever_the_shape(m: int, n: int, shape: str) -> None:
    rng = np.random.default_rng(m * 100 + n)
    moved = 2.0

    def draw(size: int) -> np.ndarray:
        return {
            "normal": lambda: rng.normal(0, 1, size),
            "skewed": lambda: rng.exponential(1, size),
            "ties": lambda: rng.integers(0, 4, size).astype(float),
        }[shape]()

    covered = 0
    trials = 1000
    for _ in range(trials):
        found = shift([exact(float(v)) for v in draw(m)], [exact(float(v) + moved) for v in draw(n)])
        assert found.interval is not None
        covered += found.interval.low <= moved <= found.interval.high
    assert within(covered, 0.95, trials)
    if shape != "ties":  # exact: no wider than its own level says
        reached = cut(m, n)[1]
        assert covered / trials <= reached + 4 * math.sqrt(reached * (1 - reached) / trials)


@pytest.mark.parametrize("runs", [5, 29])
def test_the_largest_bounds_its_quantile(runs: int) -> None:
    rng = np.random.default_rng(runs)
    q = bounded_quantile(runs)
    truth = -math.log(1 - q)
    held = int((rng.exponential(1, (TRIALS, runs)).max(axis=1) >= truth).sum())
    assert abs(held / TRIALS - 0.95) < 4 * math.sqrt(0.95 * 0.05 / TRIALS)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 20), min_size=4, max_size=6), st.lists(st.integers(0, 20), min_size=4, max_size=6))
def test_the_shift_turns_with_its_sides(a: list[int], b: list[int]) -> None:
    there, back = (
        shift([exact(v) for v in a], [exact(v) for v in b]),
        shift([exact(v) for v in b], [exact(v) for v in a]),
    )
    assert there.interval is not None and back.interval is not None
    assert (there.interval.low, there.interval.high) == (-back.interval.high, -back.interval.low)
    assert there.estimate.low == -back.estimate.low
