"""Evidence of a loss of packets: over each pair so many pings are late as the asked share makes late.

How many are late, and how many pings tell it, is :mod:`chaos.faults.lateness`. A late ping keeps its connection busy
until it is answered. So a pair is asked over several at a time, and what each ping came to counts in the order in which
the pings were begun: those that are answered first are in time, and would be counted too often.

A link that lets nothing through has no ping in time, which is more late than any share that can be asked.

Only connections that last are asked over. A Toxiproxy makes them one after the other, and while it waits for a lost
packet of one handshake all others wait behind it: with 20 % lost every new connection was late. So where no process of
ours is beside a node it is asked about the other one, over the connections that it has (:class:`Asked`), even where a
proxy on the way could be reached.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from chaos.base.errors import ChaosError
from chaos.faults.evidence import GLANCES, LinkEvidence, Look, Probe
from chaos.faults.lateness import Count, Lateness, Told, late_share
from chaos.faults.probes import ENDED, Asked, Echo, Line, Pair, Reply, together
from chaos.targets.protocol import Lab

LATE_SECONDS = 0.150
"""A ping that takes so much longer than before is late: less than TCP waits before it sends again, and more than a
busy machine mostly takes."""
ANSWERED_SECONDS = 1.0
"""For how long a late ping is waited for; a connection that it still keeps busy then is not asked any more."""
LOOK_SECONDS = 3.5
"""After so long no ping is begun any more."""
GLANCE_SECONDS = 1.0
LEAST_FLAP_SECONDS = 15.0
"""A shorter time may be over before a look at it is, where nodes are asked in turns."""
MOST_LATE = 0.9
"""Where more than this share of the pings is late, too few are in time to be told from a link that carries nothing."""
LANES = 8
"""Over how many connections a pair is asked at a time."""
MOST_LANES = 192
"""Of all pairs together."""
ASKED_LANES = 3
"""How many at a time a node is asked about another, which has six connections to it for all of them."""
MOST_ASKED_LANES = 3
"""Of all pairs together: each is work for two nodes, and on two cores 3 or 4 % of the pings were late by themselves
with six at a time, and 1 % with three. So pairs are asked in turns."""
ASKED_LOOK_SECONDS = 5.0
"""For LOOK_SECONDS, in each turn."""
SOON = 1 / 3
"""Where fewer packets are lost, a late ping is answered within 0.2 s / (1 - 2/3) on average: each time that TCP sends
again it waits twice as long."""
ROUNDS_BEFORE = 3
"""How often it is looked at whether pings are late by themselves: a busy machine may be unlucky once."""
PAUSES_SPARED = 2
"""In how many moments pings may be late where nothing is lost: a machine pauses once in a while, and of eleven pairs
that are asked 70 times each one or two meet it twice."""


def lanes(late: Lateness) -> int:
    """How many connections there must be before the fault: a few where they are soon free again, else one for each ping
    that will be late, and a third more."""
    return LANES if late.least < SOON else max(LANES, math.ceil(late.least * late.expected * 4 / 3))


@dataclass
class Row:
    """Pings over one pair, by several threads at a time. ``limit``: seconds from which on one is late; ``seconds``:
    for how long after the first one another is begun. ``asked``: a node is asked (:class:`Asked`). ``some``: it is
    enough that some are late, and some in time."""

    pair: Pair
    count: Count
    limit: float
    seconds: float
    asked: bool = False
    some: bool = False
    odd: Counter[Reply] = field(default_factory=Counter)
    """Answers that are no sign of loss: refused, reset …"""
    _begun: list[float] = field(default_factory=list)
    _late: dict[int, bool | None] = field(default_factory=dict)
    _counted: int = 0
    _of: Counter[bool] = field(default_factory=Counter)
    """How many were late, and how many in time."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> int | None:
        """The next ping's number; None when no more are needed."""
        with self._lock:
            now = time.monotonic()
            over = bool(self._begun) and now >= self._begun[0] + self.seconds
            if over or self._told(now):
                return None
            self._begun.append(now)
            return len(self._begun) - 1

    def end(self, number: int, echo: Echo) -> None:
        """What became of a ping."""
        with self._lock:
            now = time.monotonic()
            if echo.reply in ENDED or echo.reply is Reply.UNREACHABLE:
                self.odd[echo.reply] += 1
                self._late[number] = None
            else:
                self._late[number] = echo.reply is not Reply.ANSWERED or now - self._begun[number] > self.limit
            self._told(now)

    def _told(self, now: float) -> bool:
        """Count what is known, in order; a ping that is not answered yet is known to be late after a while. Whether
        that is enough."""
        while self._counted < len(self._begun):
            known = self._counted in self._late
            if not known and now - self._begun[self._counted] <= self.limit + LATE_SECONDS:
                break
            late = self._late.get(self._counted, True)
            self._counted += 1
            if late is not None:
                self.count.add(late)
                self._of[late] += 1
        if self.some:
            return self._both and self._of.total() >= self.count.lateness.expected  # each is a packet that is counted
        return self.count.told is not Told.OPEN

    @property
    def _both(self) -> bool:
        return self._of[True] > 0 and self._of[False] > 0

    @property
    def shows(self) -> bool:
        if self.some:
            return self._both and not self.odd
        return self.count.told is Told.ASKED and not self.odd

    @property
    def calm(self) -> bool:
        return self.count.told is Told.LESS and self.count.moments <= PAUSES_SPARED and not self.odd

    @property
    def expected(self) -> str:
        if self.some:
            return "some late, some in time"
        asked = self.count.asked
        least, most = self.count.lateness.bounds(asked)
        if least <= most:
            return f"{least} to {most} of {asked} late"
        return f"{self.count.lateness.least:.0%} late, of more pings"  # so few tell nothing

    @property
    def expected_calm(self) -> str:
        return f"at most {max(0, self.count.lateness.calm(self.count.asked))} of {self.count.asked} late"

    @property
    def measured(self) -> str:
        said = [f"{self.count.late} of {self.count.asked} late"]
        if self.some:  # it goes on where the count is told already
            said = [f"{self._of[True]} of {self._of.total()} late"]
        elif self.count.moments < self.count.late:
            said.append(f"in {self.count.moments} runs")
        return ", ".join(said + [f"{number} {reply}" for reply, number in self.odd.items()])


Lane = Callable[[], None]


def over(row: Row, line: Line) -> Lane:
    """Pings over one connection, the one after the other; it is made, by a first ping, where it is not there."""

    def lane() -> None:
        if line.lasts and (not line.connected or line.owes) and line.ping(ANSWERED_SECONDS).seconds is None:
            return
        while not row.odd and (number := row.begin()) is not None:
            echo = line.ping(row.limit + ANSWERED_SECONDS)
            row.end(number, echo)
            if line.lasts and echo.seconds is None:
                return

    return lane


Work = tuple[Row, list[Lane]]
"""A row, and what asks over it."""


def go(rows: Sequence[Work]) -> None:
    """All rows by their lanes; last those where nodes are asked, in turns."""
    at_once([found for row, found in rows if not row.asked])
    for turn in turns([found for row, found in rows if row.asked]):
        at_once(turn)


def turns(rows: Sequence[Sequence[Lane]]) -> list[list[Sequence[Lane]]]:
    """Rows in groups of MOST_ASKED_LANES at the most, in their order; a row is not divided."""
    found: list[list[Sequence[Lane]]] = []
    lanes = MOST_ASKED_LANES
    for row in rows:
        if lanes + len(row) > MOST_ASKED_LANES:
            found.append([])
            lanes = 0
        found[-1].append(row)
        lanes += len(row)
    return found


def at_once(rows: Sequence[Sequence[Lane]]) -> None:
    """All lanes, or as many as may be: of each row one, then of each a second."""
    share = max(2, MOST_LANES // max(1, len(rows)))
    every = [row[k] for k in range(share) for row in rows if k < len(row)]
    if every:
        with ThreadPoolExecutor(min(len(every), MOST_LANES)) as pool:
            for done in [pool.submit(lane) for lane in every]:
                done.result()


@dataclass(frozen=True)
class Packets:
    """Those that met a loss on one host, and how many of them it lost. ``where``: for the report."""

    where: str
    share: float
    met: int
    lost: int

    def since(self, before: Packets) -> Probe:
        """What was lost from then on, told as that of pings is."""
        met, lost = self.met - before.met, self.lost - before.lost
        least, most = Lateness(self.share, self.share).bounds(met)
        expected = f"{least} to {most} of {met} lost" if least <= most else f"{self.share:.0%} lost, of more packets"
        return Probe(f"packets {self.where}", expected, f"{lost} of {met} lost", least <= lost <= most)


def since(before: list[Packets] | Probe, now: list[Packets] | Probe) -> list[Probe]:
    """What was lost in between, on each host; where it could not be counted, that."""
    if isinstance(before, Probe):
        return [before]
    if isinstance(now, Probe):
        return [now]
    return [later.since(then) for then, later in zip(before, now, strict=True)]


Counting = Callable[[Lab], list[Packets]]


class LossEvidence(LinkEvidence):
    """``shares``: what is lost of the packets, by directed link.

    ``counting``: where hosts tell how many packets met the loss and how many it lost, that shows the share. Pings of
    nodes that are asked need not show it then, only that some are late: what else goes over a node's connections lets
    TCP know at once that a packet before it was lost, so under load few wait until it sends again by itself.
    """

    effect_deadline = 40.0
    gone_deadline = 40.0
    held_deadline = 15.0  # nodes that are asked take turns, and a busy machine may be unlucky once

    def __init__(self, touched: list[Pair], untouched: list[Pair], shares: Mapping[Pair, float]) -> None:
        super().__init__(touched, untouched, lambda *_: "", lambda *_: True, adds=LATE_SECONDS)
        self._shares = shares
        self._least = min(shares.values())
        self._more: list[Line] = []
        """Connections that exist since before, beside the first of each pair."""
        self.counting: Counting | None = None

    def _between(self, lab: Lab, pair: Pair) -> Line:
        if lab.asks and lab.wiring[pair[0]].kind == "node":
            return Asked(lab, pair)
        return super()._between(lab, pair)

    # ---- what is expected -----------------------------------------------------------------------

    def late(self, pair: Pair) -> float:
        """What share of round trips is late there; of a pair that is not touched, as if it were the least so."""
        there, back = self._shares.get(pair, 0.0), self._shares.get(pair[::-1], 0.0)
        return late_share(there or (0.0 if back else self._least), back)

    def lateness(self, line: Line) -> Lateness:
        least = self.late(line.pair)
        if isinstance(line, Asked):  # other requests may have waited for a lost packet, and it behind them
            return Lateness(least, max(least, MOST_LATE))
        return Lateness(least, least)

    # ---- rows -----------------------------------------------------------------------------------

    def _row(self, line: Line, lines: Sequence[Line]) -> Work:
        """Over these connections at once; ``line``: one of its pair, which says of what kind they are."""
        seconds = LOOK_SECONDS if line.lasts else ASKED_LOOK_SECONDS
        limit = (self._base(line.pair) or 0.0) + LATE_SECONDS
        row = Row(line.pair, Count(self.lateness(line)), limit, seconds, asked=not line.lasts)
        return row, [over(row, each) for each in lines]

    def _calm(self, lab: Lab, pairs: Sequence[Pair], what: str) -> list[Probe]:
        """Pairs over which nothing should be lost: one connection at a time is enough."""
        lines = [self._between(lab, pair) for pair in pairs]
        rows = [self._row(line, [line]) for line in lines]
        go(rows)
        for line in lines:
            line.close()
        return [self._calm_probe(row, what, False) for row, _ in rows]

    @staticmethod
    def _calm_probe(row: Row, what: str, control: bool) -> Probe:
        a, b = row.pair
        return Probe(f"{what} {a} → {b}", row.expected_calm, row.measured, row.calm, control=control)

    # ---- looks ----------------------------------------------------------------------------------

    def before(self, lab: Lab) -> Look:
        """What a round trip takes, that none is late by itself, and the connections that are asked later."""
        look = super().before(lab)
        if not look.proven:
            return look
        self._more = [
            self._between(lab, line.pair)
            for line in self._existing
            for _ in range((lanes(self.lateness(line)) if line.lasts else ASKED_LANES) - 1)
        ]
        together([line for line in self._more if line.lasts], 5.0)
        pairs = [*self.touched, *self.control_pairs]
        rows = self._calm(lab, pairs, "pings in a row")
        for _ in range(ROUNDS_BEFORE - 1):
            if all(probe.ok for probe in rows):
                break
            rows = self._calm(lab, pairs, "pings in a row")
        calm = sum(probe.ok for probe in rows)
        return Look(
            calm == len(rows), f"{look.says}; {calm} of {len(rows)} pairs are hardly ever late", look.probes + rows
        )

    def in_effect(self, lab: Lab) -> Look:
        touched: list[tuple[str, Work]] = []
        for pair in self._free(self.touched):
            there = [each for each in (*self._existing, *self._more) if each.pair == pair]
            what = f"existing connections {pair[0]} → {pair[1]}" if there[0].lasts else there[0].what
            row, found = self._row(there[0], there)
            row.some = row.asked and self.counting is not None
            touched.append((what, (row, found)))
        before = self._counted(lab)
        others = self._free(list(dict.fromkeys([*self.control_pairs, *self._suspects])))
        beside = [self._between(lab, pair) for pair in others]
        calmly = [self._row(line, [line]) for line in beside]
        go([work for _, work in touched] + calmly)
        for line in beside:
            line.close()
        probes = [self._probe(what, row) for what, (row, _) in touched]
        probes += since(before, self._counted(lab))
        controls = [self._calm_probe(row, "untouched: pings in a row", True) for row, _ in calmly]
        shown, calm = sum(p.ok for p in probes), sum(p.ok for p in controls)
        what = "of pings are late" if self.counting is None else "of pings and of packets are late or lost"
        return Look(
            bool(probes) and shown == len(probes) and calm == len(controls),
            f"{shown} of {len(probes)} rows {what} as asked; "
            f"{calm} of {len(controls)} untouched pairs are hardly ever late",
            probes + controls,
        )

    def _counted(self, lab: Lab) -> list[Packets] | Probe:
        """By the hosts; a probe that shows nothing where one cannot be asked."""
        try:
            return [] if self.counting is None else self.counting(lab)
        except ChaosError as error:
            return Probe("packets on hosts", "counted", error.message, False)

    @staticmethod
    def _probe(what: str, row: Row) -> Probe:
        return Probe(what, row.expected, row.measured, row.shows, about=f"{row.pair[0]} → {row.pair[1]}")

    def glance(self, lab: Lab, pairs: list[Pair]) -> list[Probe]:
        """Pings one after the other until one is late, and no more than it takes to tell that none is."""
        with ThreadPoolExecutor(GLANCES) as pool:
            found = list(pool.map(lambda pair: self._glanced(lab, pair), pairs))
        return [probe for probe in found if probe is not None]

    def _glanced(self, lab: Lab, pair: Pair) -> Probe | None:
        line = self._between(lab, pair)
        row, _ = self._row(line, [])
        most, late, asked = row.count.lateness.expected_calm, 0, 0
        end = time.monotonic() + GLANCE_SECONDS
        fair = not line.lasts
        while asked < most and not 0 < late < asked and time.monotonic() < end:
            began = time.monotonic()
            answered = line.ping(row.limit).seconds is not None
            if fair:
                asked += 1
                late += not answered or time.monotonic() - began > row.limit
            fair = answered or not line.lasts
            if not answered:
                line.close()
        line.close()
        if not late and asked < most:
            return None  # there was no time to tell
        a, b = pair
        ok = 0 < late < max(asked, row.count.lateness.beyond(asked))
        return Probe(line.what, f"a late ping of {most}", f"{late} of {asked} late", ok, about=f"{a} → {b}")

    def gone(self, lab: Lab) -> Look:
        alive = super().gone(lab)
        if not alive.probes:
            return alive
        probes = alive.probes + self._calm(lab, self._free(self.touched), "pings in a row")
        well = sum(p.ok for p in probes)
        return Look(well == len(probes), f"{well} of {len(probes)} measurements are as before", probes)

    def close(self) -> None:
        super().close()
        for line in self._more:
            line.close()
        self._more = []
