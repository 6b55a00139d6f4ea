"""Intervals: exact where a distribution is known, free of one where it is not, and none where none exists.

* Clopper-Pearson for a binomial share (Clopper and Pearson, Biometrika 26, 1934), for steady phases only: under a
  fault failures cluster, and an interval over requests then covers the truth 3 % of the time
  (docs/statistics.md).
* Student's t over per-run values.
* Order statistics for quantiles: P(max of R >= q-quantile) = 1 - q^R, and its like for any rank.
* Hodges-Lehmann with the exact null distribution of Mann and Whitney's U (Hollander, Wolfe and Chicken,
  Nonparametric Statistical Methods, 3rd edition, sections 4.2 and 4.3).

A value may be censored: known to be at least so much. It is the range (low, inf), and every rank statistic is
taken of the low ends and of the high ends, so that a censored value keeps its rank and is never averaged.
Plain functions of floats; SciPy would serve for two quantile functions only, and weighs more than the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

LEVEL = 0.95
FEWEST = 5
"""Runs below which nothing is concluded of runs: the fewest that bound a median with 95 %, 1 - 0.5^5 = 96.9 %."""


@dataclass(frozen=True)
class Range:
    """A number that is known to lie in [low, high]; exact when both are the same, censored when high is inf."""

    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Range:
        return cls(value, value)

    @property
    def is_exact(self) -> bool:
        return self.low == self.high


# -- the incomplete beta function ------------------------------------------------------------------


def beta_share(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), 0 <= x <= 1, a and b above 0.

    Its continued fraction by Lentz's method (DLMF 8.17.22; Press et al., Numerical Recipes, section 6.4).
    """
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):  # where the fraction converges fast
        return 1.0 - beta_share(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    return min(1.0, front * _fraction(x, a, b) / a)


def _fraction(x: float, a: float, b: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    found = d
    for m in range(1, 100_000):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + factor * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + factor / c
            c = c if abs(c) > tiny else tiny
            step = c * d
            found *= step
        if abs(step - 1.0) < 1e-15:
            return found
    raise ArithmeticError(f"the incomplete beta function did not converge at x={x}, a={a}, b={b}")


def _solve(rising: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Where a rising function takes a value, by bisection to the last bit."""
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if rising(middle) < wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2


@lru_cache(maxsize=4096)
def beta_quantile(p: float, a: float, b: float) -> float:
    """x with I_x(a, b) = p."""
    return _solve(lambda x: beta_share(x, a, b), p, 0.0, 1.0)


def clopper_pearson(good: int, total: int, level: float = LEVEL) -> tuple[float, float]:
    """The exact interval of a binomial share; covers with at least ``level``. (0, 1) of nothing.

    Raises ValueError when ``good`` is not in 0..total.
    """
    if not 0 <= good <= total:
        raise ValueError(f"{good} of {total}")
    tail = (1 - level) / 2
    low = beta_quantile(tail, good, total - good + 1) if good else 0.0
    high = beta_quantile(1 - tail, good + 1, total - good) if good < total else 1.0
    return low, high


# -- Student's t -------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def t_quantile(p: float, freedom: int) -> float:
    """The p-quantile of Student's t, 0.5 <= p < 1, through I_x(freedom/2, 1/2) (Abramowitz and Stegun 26.5.27)."""
    if not 0.5 <= p < 1 or freedom < 1:
        raise ValueError(f"p={p}, freedom={freedom}")
    x = beta_quantile(2 * (1 - p), freedom / 2, 0.5)
    return math.sqrt(freedom * (1 - x) / x)


@dataclass(frozen=True)
class Interval:
    """[low, high] with the probability, at least, with which such intervals cover. A bound that is open is inf."""

    low: float
    high: float
    level: float


def t_interval(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """The two-sided interval of the mean over runs; its ends are one-sided bounds with (1 + level) / 2 each.

    None below :data:`FEWEST` values, and when all are the same: no spread was seen, which is no spread of 0, and
    ranks say what can be said.
    """
    n = len(values)
    if n < FEWEST or min(values) == max(values):
        return None
    mean = math.fsum(values) / n
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    reach = t_quantile((1 + level) / 2, n - 1) * spread / math.sqrt(n)
    return Interval(mean - reach, mean + reach, level)


# -- ranks and quantiles -----------------------------------------------------------------------------


def ranked(values: Sequence[Range], rank: int) -> Range:
    """The rank-th smallest (1 is the smallest) of values that may be censored."""
    return Range(sorted(v.low for v in values)[rank - 1], sorted(v.high for v in values)[rank - 1])


def median(values: Sequence[Range]) -> Range:
    """The median; between the two middle ones of an even number."""
    n = len(values)
    below, above = ranked(values, (n + 1) // 2), ranked(values, n // 2 + 1)
    return Range((below.low + above.low) / 2, (below.high + above.high) / 2)


def bounded_quantile(runs: int, level: float = LEVEL) -> float:
    """The largest q whose quantile the largest of ``runs`` values bounds from above with ``level``: (1 - level)^(1/R).

    From P(max of R >= q-quantile) = 1 - q^R. 5 runs bound the median, 29 the 90th percentile, 59 the 95th.
    """
    return float((1 - level) ** (1 / runs))


def runs_needed(quantile: float, level: float = LEVEL) -> int:
    """The fewest runs whose largest value bounds that quantile."""
    return math.ceil(math.log(1 - level) / math.log(quantile) - 1e-12)


def lower_rank(runs: int, quantile: float, level: float = LEVEL) -> int:
    """The largest rank j with P(j-th smallest <= q-quantile) >= level, 0 when there is none.

    The j-th smallest is at most the quantile when at least j of the runs are: a binomial tail.
    """
    found, tail = 0, 1.0
    for j in range(1, runs + 1):
        tail -= math.comb(runs, j - 1) * quantile ** (j - 1) * (1 - quantile) ** (runs - j + 1)
        if tail < level:
            break
        found = j
    return found


# -- a shift between two groups of runs -----------------------------------------------------------------


@lru_cache(maxsize=256)
def u_counts(m: int, n: int) -> tuple[int, ...]:
    """In how many of the C(m+n, m) orders Mann and Whitney's U is 0, 1, ... m*n: the Gaussian binomial's coefficients.

    It is the product over i = 1..m of (1 - x^(n+i)) / (1 - x^i), in whole numbers.
    """
    size = m * n + 1
    counts = [1] + [0] * (size - 1)
    for i in range(1, m + 1):
        for k in range(size - 1, n + i - 1, -1):
            counts[k] -= counts[k - n - i]
        for k in range(i, size):
            counts[k] += counts[k - i]
    return tuple(counts)


def cut(m: int, n: int, level: float = LEVEL) -> tuple[int, float]:
    """(k, level reached): the k-th smallest and k-th largest difference bound the shift, two-sided.

    k = 0 when no interval reaches ``level``: all differences together, k = 1, reach 90 % with 3 and 3 runs and
    97.1 % with 4 and 4.
    """
    total, below, k, reached = math.comb(m + n, m), 0, 0, 0.0
    for count in u_counts(m, n):
        below += count
        if 1 - 2 * below / total < level:
            break
        k, reached = k + 1, 1 - 2 * below / total
    return k, reached


@dataclass(frozen=True)
class Shift:
    """By how much B is above A. ``estimate``: Hodges and Lehmann's, the median of all differences B - A.

    ``interval`` None: so few runs that none exists at the level asked for; ``widest`` is that of all differences,
    with the level which it does reach.
    """

    estimate: Range
    interval: Interval | None
    widest: Interval


def shift(a: Sequence[Range], b: Sequence[Range], level: float = LEVEL) -> Shift:
    """The shift from A to B with its exact interval; ties make it wider than needed, never narrower.

    Raises ValueError when a side has no value.
    """
    if not a or not b:
        raise ValueError("a side without a value")
    # no low end is inf, so neither is there an inf less an inf
    differences = [Range(y.low - x.high, y.high - x.low) for x in a for y in b]
    k, reached = cut(len(a), len(b), level)
    lows, highs = sorted(d.low for d in differences), sorted(d.high for d in differences)
    return Shift(
        estimate=median(differences),
        interval=Interval(lows[k - 1], highs[-k], reached) if k else None,
        widest=Interval(lows[0], highs[-1], 1 - 2 / math.comb(len(a) + len(b), len(a))),
    )
