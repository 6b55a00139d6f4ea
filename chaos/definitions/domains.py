"""The values that a metric can have, and what comparisons say about them.

Every metric has values of one unit, and each unit has a domain: a share lies between 0 and 1, a time and a count are 0
or more, a count is whole; a number of a team's own SLI may be anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from chaos.definitions.expectations import Comparison, Unit

OPPOSITES = {">=": ("<",), ">": ("<=",), "<=": (">",), "<": (">=",), "==": ("<", ">")}
"""What a value does that fails a comparison: one of these holds."""


@dataclass(frozen=True)
class Interval:
    """Numbers from ``low`` to ``high``; ``low_in`` and ``high_in``: whether the ends belong to it."""

    low: float = -math.inf
    high: float = math.inf
    low_in: bool = True
    high_in: bool = True

    @classmethod
    def of(cls, comparison: str, value: float) -> Interval:
        """The numbers that fulfil a comparison with ``value``."""
        if comparison == "==":
            return cls(value, value)
        if comparison.startswith(">"):
            return cls(low=value, low_in=comparison == ">=")
        return cls(high=value, high_in=comparison == "<=")

    def __and__(self, other: Interval) -> Interval:
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(
            low,
            high,
            all(each.low_in for each in (self, other) if each.low == low),
            all(each.high_in for each in (self, other) if each.high == high),
        )

    def empty(self, *, whole: bool = False) -> bool:
        """Whether no number, or (``whole``) no whole number, is in it."""
        if self.low > self.high or (self.low == self.high and not (self.low_in and self.high_in)):
            return True
        if not whole or math.inf in (-self.low, self.high):
            return False
        first = math.ceil(self.low) + (self.low.is_integer() and not self.low_in)
        last = math.floor(self.high) - (self.high.is_integer() and not self.high_in)
        return first > last


@dataclass(frozen=True)
class Domain:
    """The values that a metric can have. ``says``: what they are, in words; ``example``: a line that can be missed."""

    values: Interval
    whole: bool
    says: str
    example: str

    def never_holds(self, *wanted: Interval) -> bool:
        """Whether no value is in all of these."""
        common = self.values
        for each in wanted:
            common &= each
        return common.empty(whole=self.whole)

    def never_fails(self, comparison: str, value: float) -> bool:
        """Whether every value fulfils the comparison."""
        return all(self.never_holds(Interval.of(other, value)) for other in OPPOSITES[comparison])


DOMAINS: Mapping[Unit, Domain] = {
    "percent": Domain(Interval(0.0, 1.0), False, "a share lies between 0% and 100%", '">= 99.9%"'),
    "duration": Domain(Interval(low=0.0), False, "a time is 0s or more", '"<= 10s"'),
    "count": Domain(Interval(low=0.0), True, "a count is 0 or more", "0"),
    "number": Domain(Interval(), False, "a number may be anything", '"< 0.01"'),
}
"""By the units of metrics, so that those which other packages bring have one too."""


def why_not(wanted: Comparison) -> str | None:
    """Why a comparison decides nothing, in words with what was expected; None: it can hold, and can fail."""
    domain = DOMAINS[wanted.unit]
    if domain.never_holds(Interval.of(wanted.comparison, wanted.value)):
        return f"can never hold, because {domain.says}: expected a bound that can be met, for example {domain.example}"
    if domain.never_fails(wanted.comparison, wanted.value):
        return (
            f"can never fail, because {domain.says}: expected a bound that can be missed, for example {domain.example}"
        )
    return None


def contradict(one: Comparison, other: Comparison) -> bool:
    """Whether no value fulfils both. Of more than two lines it is enough to look at each pair: they are intervals."""
    wanted = (Interval.of(each.comparison, each.value) for each in (one, other))
    return DOMAINS[one.unit].never_holds(*wanted)
