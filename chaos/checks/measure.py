"""A measured value, exact or censored, and its comparison with a target.

A censored value is only known from below: the observation ended before the thing did. Comparing it with a
target has three answers, because "more than 20 s" fails ``<= 10s``, but decides nothing about ``<= 30s``. A
missing value is never a pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from chaos.base import text

_SHOWN = {
    "share": text.percent,
    "seconds": text.seconds,
    "count": text.count,
    "number": text.number,
    "ratio": text.ratio,
}
TOLERANCE = 1e-9
"""Relative and absolute: 99.9 / 100 is not 0.999 in binary."""


class Verdict(StrEnum):
    """What one check says about one expectation."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


class Bound(StrEnum):
    """How the value is known."""

    EXACT = "exact"
    MORE_THAN = "more_than"
    """The truth is above the value: at the end of the observation it still went on."""
    AT_LEAST = "at_least"
    """The truth is the value or above it: it had stopped, but was not watched for long enough."""


@dataclass(frozen=True)
class Measure:
    """``value`` in the metric's unit (share 0..1, seconds, count; of a team's own SLI number or ratio, of which nobody
    knows whether more is better); None when there is not enough data.

    ``says`` tells in words where the value comes from, or why there is none.
    """

    value: float | None
    unit: str
    says: str
    bound: Bound = Bound.EXACT
    evidence: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def missing(cls, unit: str, why: str, **evidence: Any) -> Measure:
        """No value, and why. Judged against anything this is inconclusive."""
        return cls(None, unit, why, evidence=evidence)

    @classmethod
    def seen(cls, number: int, says: str, gaps: Sequence[str], evidence: dict[str, Any]) -> Measure:
        """A count that gaps can only have hidden more of: what was seen stands, and none seen proves nothing."""
        if not gaps:
            return cls(float(number), "count", says, evidence=evidence)
        says = f"{says}; {'; '.join(gaps)}"
        if not number:
            return cls.missing("count", says, **evidence)
        return cls(float(number), "count", says, Bound.AT_LEAST, evidence)

    @property
    def text(self) -> str:
        """The value for people: ``99.97 %``, ``> 20 s``, ``no data``."""
        if self.value is None:
            return text.NO_VALUE
        shown = _SHOWN[self.unit](self.value)
        return {Bound.EXACT: "", Bound.MORE_THAN: "> ", Bound.AT_LEAST: "≥ "}[self.bound] + shown

    def to_json(self) -> dict[str, Any]:
        """A row of a table of findings.json."""
        return {
            "value": self.value,
            "text": self.text,
            "bound": self.bound.value,
            "says": self.says,
            "trigger": self.evidence.get("trigger") or self.evidence.get("from"),
        }


def judge(measure: Measure, comparison: str, target: float) -> Verdict:
    """Compare. ``comparison`` is one of ``>= > <= < ==``; raises ``ValueError`` for another one.

    An exact value is compared as it is. For a censored value T the truth lies in [T, ∞) or (T, ∞):
    pass or fail only when every possible truth agrees, else inconclusive.
    """
    if comparison not in (">=", ">", "<=", "<", "=="):
        raise ValueError(f"unknown comparison {comparison!r}")
    value = measure.value
    if value is None:
        return Verdict.INCONCLUSIVE
    slack = TOLERANCE * max(1.0, abs(value), abs(target))
    equal, above = abs(value - target) <= slack, value - target > slack
    if measure.bound is Bound.EXACT:
        holds = {
            ">=": above or equal,
            ">": above,
            "<=": not above,
            "<": not above and not equal,
            "==": equal,
        }[comparison]
        return Verdict.PASS if holds else Verdict.FAIL
    surely_above = above or (equal and measure.bound is Bound.MORE_THAN)
    surely_at_least = above or equal
    if comparison in ("<=", "=="):
        return Verdict.FAIL if surely_above else Verdict.INCONCLUSIVE
    if comparison == "<":
        return Verdict.FAIL if surely_at_least else Verdict.INCONCLUSIVE
    sure = surely_at_least if comparison == ">=" else surely_above
    return Verdict.PASS if sure else Verdict.INCONCLUSIVE
