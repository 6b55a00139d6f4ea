"""What a plan tells a check of one expectation in one phase, before anything runs; and what follows by arithmetic.

Each check knows what it needs to have a value, so each says itself what a plan does not give it (``foresee`` of
:class:`chaos.checks.check.Check`); :mod:`chaos.checks.foreseen` asks them all. A note refuses nothing: it says what
will be inconclusive, or can never fail, and the number that is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from chaos.base import text


@dataclass(frozen=True)
class Length:
    """Seconds that something lasts: ``least`` where a phase ends by a condition that is met at once, and ``most``."""

    least: float
    most: float

    def __add__(self, other: Length) -> Length:
        return Length(self.least + other.least, self.most + other.most)


@dataclass(frozen=True)
class Prospect:
    """One expectation in one phase. ``quantity``: its metric without the operation, ``op`` and ``rate`` (arrivals per
    second) of it, None for a metric of the cluster; ``rates`` of all operations, ``writes`` of those that write. Where
    rates change these are what the phase has at most; ``lowest``: the operation's lowest rate.

    ``phase`` lasts ``length``; ``watch`` is that and what follows until the next command. ``healthy``: the seconds
    before the first command of the run. ``timeout`` (s): after which a request counts as unanswered; None where clients
    may try again. ``looks``: looks at documents per second (:mod:`.data.visibility`).
    """

    text: str
    quantity: str
    comparison: str
    value: float
    phase: str
    length: Length
    watch: Length
    op: str | None = None
    rate: float = 0.0
    rates: Mapping[str, float] | None = None
    writes: float = 0.0
    lowest: float | None = None
    before: Mapping[str, float] | None = None
    """Arrivals of all operations in the :attr:`healthy` seconds."""
    timeout: float | None = None
    healthy: float = 0.0
    looks: float = 0.0

    @property
    def what(self) -> str:
        return f"{self.text} in {self.phase}"

    @property
    def window_rate(self) -> float:
        """The rate by which windows are made."""
        return self.rate if self.lowest is None else self.lowest

    @property
    def upper(self) -> bool:
        """Whether less is as wanted, so that a large value fails it."""
        return self.comparison in ("<=", "<", "==")

    def needs(self, number: int, rate: float | None = None, of: str = "arrivals") -> Iterator[str]:
        """The note, where a phase has fewer than ``number`` arrivals (at ``rate``, by default the operation's)."""
        rate = self.rate if rate is None else rate
        if rate <= 0:
            return
        most, least = (math.floor(rate * seconds + 1e-6) for seconds in (self.length.most, self.length.least))
        needed = Length(number / rate, number / rate).most
        want = f"{text.count(number)} are needed: a phase of {_up(needed)}"
        if most < number:
            faster = number / self.length.most if self.length.most > 0 else math.inf
            more = f", or {faster:.3g}/s" if math.isfinite(faster) and faster < 10 * rate else ""
            yield f"{self.what} will be inconclusive: {text.count(most)} {of} at {rate:g}/s, and {want}{more}"
        elif least < number and self.length.least > 0:
            yield (
                f"{self.what} may be inconclusive: the phase may end after {_up(self.length.least)} with "
                f"{text.count(least)} {of}, and {want}"
            )

    def decides(self, most: float, because: str) -> Iterator[str]:
        """The note, where no value above ``most`` (s) is ever known as such, so that the bound is out of reach."""
        if self.value <= most:
            return
        if self.upper:
            yield f"{self.what} can never fail: {because}; expected a bound of {text.seconds(most)} or less"
        else:
            yield f"{self.what} can never hold: {because}; expected a bound below {text.seconds(most)}"


def _up(seconds: float) -> str:
    """Seconds, rounded up to what people would write."""
    return text.seconds(math.ceil(seconds) if seconds > 1 else seconds)
