"""Shares of runs: whether two differ, and how large a difference must be for so many runs to show it.

Fisher's exact test, one-sided: R. A. Fisher, Statistical Methods for Research Workers, section 21.02.
"""

from __future__ import annotations

from math import comb

from chaos.base.intervals import LEVEL, beta_quantile

POWER = 0.8
"""How often a difference that can be detected is."""


def chance_of_more(bad_before: int, before: int, bad_after: int, after: int) -> float:
    """How likely at least so many bad runs are after, given all bad runs, if both sides break as often. 1 without runs.

    Raises ValueError where more runs are bad than there are.
    """
    if not (0 <= bad_before <= before and 0 <= bad_after <= after):
        raise ValueError(f"{bad_before} of {before}, {bad_after} of {after}")
    bad, total = bad_before + bad_after, before + after
    ways = sum(comb(after, k) * comb(before, bad - k) for k in range(bad_after, min(bad, after) + 1))
    return ways / comb(total, bad)


def fewest_shown(before: int, after: int, level: float = LEVEL) -> int | None:
    """The fewest bad runs after, none being bad before, that show a difference; None: not even if all are."""
    shown = (bad for bad in range(1, after + 1) if chance_of_more(0, before, bad, after) <= 1 - level + 1e-12)
    return next(shown, None)


def detectable(before: int, after: int, level: float = LEVEL, power: float = POWER) -> float | None:
    """The smallest share of bad runs after, none being bad before, that so many runs show with this power.

    None: no share, not even 1.
    """
    fewest = fewest_shown(before, after, level)
    if fewest is None:
        return None
    return beta_quantile(power, fewest, after - fewest + 1)  # P(at least so many of n) = I_p(fewest, n - fewest + 1)
