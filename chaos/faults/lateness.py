"""How many round trips a loss of packets makes late, and after how many of them that is told.

TCP sends again what was lost, on Linux after 200 ms at the least: ``TCP_RTO_MIN`` in include/net/tcp.h, which the probe
of a lost tail adds where one packet is out (``tcp_schedule_loss_probe`` in net/ipv4/tcp_output.c). A ping and its
answer are one packet each, and a lost acknowledgement is made up for by the next ping's. So a ping is late with the
probability that one of these two is lost, whatever became of those before it, as long as it waited for their answers.

Each ping is one draw, and they are counted until it is clear (:class:`Count`). That is the sequential test of A. Wald
(Sequential Tests of Statistical Hypotheses, Annals of Mathematical Statistics 16, 1945, 117-186): how probable it is
what was seen with one share, divided by how probable it is with another, ever exceeds 1/e with a probability of e at
the most where the other one is true. So it may be asked as long, and ended as soon, as one likes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

ERROR = 1e-4
"""How often, at the most, what is as it was taken for what was asked, and the other way round; see ``Count``."""
ODDS, ODDS_OF_MANY = 4.0, 16.0
"""By what factor the odds of being late must differ from what was asked, to be told from it: 20 % from 5.9 and 50 %.
Where more than half are late a ping costs a connection, so less is told: 80 % from 20 and 98.5 %."""
SURE = math.log(2 / ERROR)
"""Two sides may err, each by half of it."""
PAUSES = 0.01
"""How often a machine pauses, of the pings before which it did not: then all are late until it goes on."""


def late_share(there: float, back: float) -> float:
    """How many round trips of a packet each way are late where these shares of packets are lost."""
    return 1 - (1 - there) * (1 - back)


def odds(share: float) -> float:
    """By what factor its odds must differ from those of another share, to be told from it."""
    return ODDS if share <= 0.5 else ODDS_OF_MANY


def at_odds(share: float, factor: float) -> float:
    """The share whose odds are so many times those of another."""
    return factor * share / (1 - share + factor * share)


def information(true: float, other: float) -> float:
    """What one draw tells on average of a true share against another (Kullback and Leibler), in natural units."""
    return true * math.log(true / other) + (1 - true) * math.log((1 - true) / (1 - other))


class Told(StrEnum):
    OPEN = "not told yet"
    ASKED = "as asked"
    LESS = "fewer late than asked"
    MORE = "more late than asked"


@dataclass(frozen=True)
class Lateness:
    """Between which shares of the round trips a loss makes late, each between 0 and 1 without both."""

    least: float
    most: float

    @cached_property
    def less(self) -> float:
        """The largest share that is told from it."""
        return at_odds(self.least, 1 / odds(self.least))

    @cached_property
    def more(self) -> float:
        """The smallest larger share that is told from it."""
        return at_odds(self.most, odds(self.most))

    @cached_property
    def _few(self) -> tuple[float, float]:
        return math.log((1 - self.less) / (1 - self.least)), math.log(odds(self.least))

    @cached_property
    def _many(self) -> tuple[float, float]:
        return math.log((1 - self.most) / (1 - self.more)), math.log(odds(self.most))

    @cached_property
    def _pauses(self) -> float:
        return min(PAUSES, self.less)

    def bounds(self, asked: int) -> tuple[int, int]:
        """How many late ones of so many are as asked, from and to.

        With s = ``least``, w = ``less`` and k late of n, the test wants
        k ln(s/w) + (n-k) ln((1-s)/(1-w)) >= SURE. What is ``odds`` between s and w is ln(s/w) - ln((1-s)/(1-w)), so
        that is k ln(odds) >= SURE + n ln((1-w)/(1-s)). Likewise for ``most`` and ``more``.
        """
        each, step = self._few
        least = math.ceil((SURE + asked * each) / step)
        each, step = self._many
        return least, math.floor((asked * each - SURE) / step)

    def calm(self, asked: int) -> int:
        """How many late ones of so many are too few for it, at the most; below 0 where none is."""
        each, step = self._few
        return math.floor((asked * each - SURE) / step)

    def beyond(self, asked: int) -> float:
        """From how many late ones of so many on it is more than that."""
        each, step = self._many
        return (asked * each + SURE) / step

    def no_pauses(self, ready: int, moments: int) -> bool:
        """Whether pauses of a machine would not explain it. ``moments``: runs of late pings, of so many that followed
        one that was in time: only those tell of it, since a pause makes all of a run late."""
        each, other = math.log(self.least / self._pauses), math.log((1 - self.least) / (1 - self._pauses))
        return moments * each + (ready - moments) * other >= SURE

    @property
    def expected(self) -> float:
        """How many pings it takes on average until it is told where it is so (Wald's approximation)."""
        return max(
            SURE / information(self.least, self.less),
            SURE / information(self.most, self.more),
            SURE / information(self.least, self._pauses) / (1 - self.least),
        )

    @property
    def expected_calm(self) -> int:
        """How many pings it takes until it is told that it is not so, where all are in time."""
        return math.ceil(SURE / self._few[0])


class Count:
    """Pings in the order in which they were asked, until it is told whether they are late as asked.

    Of pairs on which ``less`` or fewer are late one in 2/ERROR at the most is told to be as asked; likewise with
    ``more`` or more, and with pauses alone. Of pairs that are as asked one in 1/ERROR at the most is told to be
    otherwise.
    """

    def __init__(self, lateness: Lateness) -> None:
        self.lateness = lateness
        self.told = Told.OPEN
        self.asked = self.late = self.moments = self._ready = 0
        self._in_time = True

    def add(self, late: bool) -> Told:
        """One ping more; nothing once it is told."""
        if self.told is not Told.OPEN:
            return self.told
        self.asked += 1
        self.late += late
        self._ready += self._in_time
        self.moments += self._in_time and late
        self._in_time = not late
        least, most = self.lateness.bounds(self.asked)
        if self.late <= self.lateness.calm(self.asked):
            self.told = Told.LESS
        elif self.late >= self.lateness.beyond(self.asked):
            self.told = Told.MORE
        elif least <= self.late <= most and self.lateness.no_pauses(self._ready, self.moments):
            self.told = Told.ASKED
        return self.told
