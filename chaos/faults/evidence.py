"""Evidence that a fault is in effect, and later that it is gone: measured, never assumed.

An evidence object looks before (a baseline), then as often as it takes until the effect, and later its absence, is
proven or a deadline passes. Every look returns what was expected beside what was measured, for the report.

Tolerances: latency grows by what was asked, give or take the larger of 15 % and 30 ms; links that nobody touched may
grow by 10 ms at most. No tolerance is so wide that a link on which nothing was done would show the effect: what grows
must grow by more than an untouched link may, and what is asked must be more than that (LEAST_DELAY_SECONDS …), or it
is refused.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import urllib3

from chaos.faults.probes import Echo, Line, Pair, Reply, direct, together
from chaos.lab.protocol import Lab

SILENCE_SECONDS = 1.0
"""No answer for this long, where the baseline was milliseconds, counts as silence."""
CONTROL_GROWTH_SECONDS = 0.010
LEAST_DELAY_SECONDS = 2 * CONTROL_GROWTH_SECONDS
"""A shorter delay cannot be told from a link that nobody touched."""
CLOSE_SECONDS = 0.050
"""A close that nothing delays is back within this."""
LEAST_CLOSE_SECONDS = 2 * CLOSE_SECONDS
"""A shorter delay of a close cannot be told from none."""
LEAST_PAUSE_SECONDS = 0.005
"""A shorter pause between slices cannot be told from round trips on a busy machine."""
LARGEST_BURST = 8 << 20
"""Bytes; a burst lasts about a second, and less where a link is asked to carry more than this in one."""
CONTROLS = 4
"""How many untouched pairs are measured beside the touched ones."""


@dataclass(frozen=True)
class Probe:
    """One measurement beside its expectation, as text for people."""

    what: str
    expected: str
    measured: str
    ok: bool

    def to_json(self) -> dict[str, Any]:
        return {"what": self.what, "expected": self.expected, "measured": self.measured, "ok": self.ok}


@dataclass(frozen=True)
class Look:
    """One look at the data path."""

    proven: bool
    says: str
    probes: list[Probe] = field(default_factory=list)


class Evidence(Protocol):
    """How one fault proves itself. Deadlines are in seconds."""

    effect_deadline: float
    gone_deadline: float

    def beside(self, links: frozenset[Pair], nodes: frozenset[str]) -> None:
        """Other faults hold these links and nodes now: they prove nothing about this one. Called before each look."""

    def before(self, lab: Lab) -> Look: ...

    def in_effect(self, lab: Lab) -> Look: ...

    def gone(self, lab: Lab) -> Look: ...

    def close(self) -> None: ...


class Simple:
    """Evidence that needs nothing closed and that other faults do not disturb."""

    effect_deadline = 15.0
    gone_deadline = 30.0

    def beside(self, links: frozenset[Pair], nodes: frozenset[str]) -> None:
        return

    def close(self) -> None:
        return


def tolerance(asked: float) -> float:
    """Seconds by which a measured latency may differ from what was asked."""
    return max(0.15 * asked, 0.030)


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def spread(pairs: list[Pair], count: int) -> list[Pair]:
    """``count`` of them, evenly over the list: the same ones each time."""
    if len(pairs) <= count:
        return pairs
    return [pairs[i * len(pairs) // count] for i in range(count)]


class LinkEvidence:
    """Common to all network faults: lines over the touched pairs, lines over untouched ones as control.

    ``judge_line`` decides whether one touched pair shows the effect: (pair, baseline, existing or new, echo).
    """

    effect_deadline = 10.0
    gone_deadline = 20.0

    def __init__(
        self,
        touched: list[Pair],
        untouched: list[Pair],
        expected: Callable[[Pair, Echo | None], str],
        shows: Callable[[Pair, Echo | None, Echo], bool],
        *,
        expected_existing: Callable[[Pair, Echo | None], str] | None = None,
        shows_existing: Callable[[Pair, Echo | None, Echo], bool] | None = None,
        silence: float = SILENCE_SECONDS,
    ) -> None:
        self.touched = touched
        self.control_pairs = spread(untouched, CONTROLS)
        self._expected, self._shows = expected, shows
        self._expected_existing = expected_existing or expected
        self._shows_existing = shows_existing or shows
        self._silence = silence
        self._baseline: dict[Pair, Echo] = {}
        self._existing: list[Line] = []
        self._candidates = untouched
        self._links: frozenset[Pair] = frozenset()
        self._nodes: frozenset[str] = frozenset()

    def beside(self, links: frozenset[Pair], nodes: frozenset[str]) -> None:
        self._links = links | {(b, a) for a, b in links}
        self._nodes = nodes

    def _free(self, pairs: list[Pair]) -> list[Pair]:
        """Those on which no other fault has its hand."""
        return [pair for pair in pairs if pair not in self._links and not self._nodes & set(pair)]

    def before(self, lab: Lab) -> Look:
        self.touched = self._free(self.touched)
        self.control_pairs = spread(self._free(self._candidates), CONTROLS)
        if not self.touched:
            return Look(False, "other faults hold every node behind these links: there is nothing to prove it on")
        self._existing = [Line(lab, pair) for pair in self.touched]
        controls = [Line(lab, pair) for pair in self.control_pairs]
        self._baseline = together([*self._existing, *controls], 5.0, pings=3)
        for line in controls:
            line.close()
        probes = [
            Probe(f"round trip {a} → {b}", "answered by the node", str(echo), echo.reply is Reply.ANSWERED)
            for (a, b), echo in self._baseline.items()
        ]
        answered = sum(p.ok for p in probes)
        return Look(answered == len(probes), f"{answered} of {len(probes)} probed pairs answer", probes)

    def _controls(self, lab: Lab) -> list[Probe]:
        lines = [Line(lab, pair) for pair in self._free(self.control_pairs)]
        probes = []
        for (a, b), echo in together(lines, 2.0, pings=5).items():
            base = self._baseline[(a, b)].seconds
            if base is None:
                continue
            ok = echo.seconds is not None and echo.seconds - base <= CONTROL_GROWTH_SECONDS
            probes.append(
                Probe(
                    f"untouched: round trip {a} → {b}",
                    f"at most {milliseconds(base + CONTROL_GROWTH_SECONDS)}",
                    str(echo),
                    ok,
                )
            )
        for line in lines:
            line.close()
        return probes

    def in_effect(self, lab: Lab) -> Look:
        fresh = [Line(lab, pair) for pair in self.touched]
        with ThreadPoolExecutor(1) as pool:  # at once: a look must fit into a fault that is short
            waiting = pool.submit(together, self._existing, self._silence, pings=3)
            new = together(fresh, self._silence, pings=3)
            existing = waiting.result()
        for line in fresh:
            line.close()
        probes = []
        for pair in self.touched:
            base = self._baseline.get(pair)
            a, b = pair
            probes.append(
                Probe(
                    f"new connection {a} → {b}",
                    self._expected(pair, base),
                    str(new[pair]),
                    self._shows(pair, base, new[pair]),
                )
            )
            probes.append(
                Probe(
                    f"existing connection {a} → {b}",
                    self._expected_existing(pair, base),
                    str(existing[pair]),
                    self._shows_existing(pair, base, existing[pair]),
                )
            )
        controls = self._controls(lab)
        shown = sum(p.ok for p in probes)
        calm = sum(p.ok for p in controls)
        return Look(
            shown == len(probes) and calm == len(controls),
            f"{shown} of {len(probes)} connections over {len(self.touched)} touched pairs show it; "
            f"{calm} of {len(controls)} untouched pairs are as before",
            probes + controls,
        )

    def gone(self, lab: Lab) -> Look:
        lines = [Line(lab, pair) for pair in self._free([*self.touched, *self.control_pairs])]
        probes = []
        for (a, b), echo in together(lines, 2.0, pings=5).items():
            base = self._baseline.get((a, b))
            limit = CONTROL_GROWTH_SECONDS + (base.seconds if base and base.seconds else 0.0)
            probes.append(
                Probe(
                    f"round trip {a} → {b}",
                    f"at most {milliseconds(limit)}",
                    str(echo),
                    echo.seconds is not None and echo.seconds <= limit,
                )
            )
        for line in lines:
            line.close()
        well = sum(p.ok for p in probes)
        return Look(well == len(probes), f"{well} of {len(probes)} probed pairs are as before", probes)

    def close(self) -> None:
        for line in self._existing:
            line.close()
        self._existing = []


class BandwidthEvidence(LinkEvidence):
    """A burst takes as long as the asked rate says, which is at least twice as long as before; both ways of a
    pair share what is capped."""

    def __init__(self, touched: list[Pair], untouched: list[Pair], rate: float) -> None:
        super().__init__(touched, untouched, lambda *_: "", lambda *_: True)
        self._rate = rate
        self._size = int(min(max(rate * 1.0, 600), LARGEST_BURST))
        self._before: dict[Pair, float] = {}

    @property
    def _expected_seconds(self) -> float:
        return self._size / self._rate

    def _flood(self, lab: Lab, pair: Pair) -> tuple[float | None, str]:
        seconds = Line(lab, pair).flood(self._size, self._expected_seconds * 3 + 2)
        return seconds, f"{self._size / seconds / 1000:.1f} kB/s" if seconds else "nothing came back"

    def before(self, lab: Lab) -> Look:
        look = super().before(lab)
        probes = list(look.probes)
        for pair in self.touched:
            seconds, measured = self._flood(lab, pair)
            ok = seconds is not None and 2 * seconds <= self._expected_seconds
            expected = f"more than {2 * self._rate / 1000:.1f} kB/s"
            probes.append(Probe(f"{self._size} bytes {pair[0]} → {pair[1]}", expected, measured, ok))
            if seconds is not None:
                self._before[pair] = seconds
        well = sum(p.ok for p in probes)
        return Look(
            look.proven and well == len(probes), f"{well} of {len(probes)} measurements are as expected", probes
        )

    def in_effect(self, lab: Lab) -> Look:
        expected = self._expected_seconds
        probes = []
        for pair in self.touched:  # one at a time: together they would compete for the processor
            seconds, measured = self._flood(lab, pair)
            least = max(0.85 * expected, 1.5 * self._before.get(pair, math.inf))
            ok = seconds is not None and least <= seconds <= 1.3 * expected + 0.3
            probes.append(
                Probe(f"{self._size} bytes {pair[0]} → {pair[1]}", f"{self._rate / 1000:.1f} kB/s", measured, ok)
            )
        controls = self._controls(lab)
        shown, calm = sum(p.ok for p in probes), sum(p.ok for p in controls)
        return Look(
            shown == len(probes) and calm == len(controls),
            f"{shown} of {len(probes)} touched pairs carry what was asked; "
            f"{calm} of {len(controls)} untouched are as before",
            probes + controls,
        )


class SlicerEvidence(LinkEvidence):
    """Two signs. Pings in a row on one connection, new or existing, are ``delay`` apart whatever the direction that is
    sliced, and were not before: one ping is one slice, and the next waits for the pause after it. And a burst takes as
    long as its slices do, which are between half of ``size`` and ``size`` each; told on the pairs ``opened`` whose
    requests are sliced, because how the echo is cut before it comes back is up to the kernel.
    """

    ROW = 10

    def __init__(self, touched: list[Pair], untouched: list[Pair], size: int, delay: float, opened: list[Pair]) -> None:
        super().__init__(touched, untouched, lambda *_: "", lambda *_: True)
        self._size, self._delay = size, delay
        slices = max(round(1.0 / delay), 8)
        self._burst = min(slices * size, LARGEST_BURST)
        self._opened = opened
        self._before: dict[Pair, float] = {}

    def before(self, lab: Lab) -> Look:
        look = super().before(lab)
        for pair, line in zip(self.touched, self._existing, strict=True):
            seconds, echo = self._pings(line)
            if echo.reply is Reply.ANSWERED:
                self._before[pair] = seconds
        return look

    def in_effect(self, lab: Lab) -> Look:
        probes = []
        for pair, line in zip(self.touched, self._existing, strict=True):
            fresh = Line(lab, pair)
            probes += [self._row(pair, "new", fresh), self._row(pair, "existing", line)]
            fresh.close()
        at_least, at_most = (self._burst / self._size * part * self._delay for part in (1, 2))
        for pair in (pair for pair in self._opened if pair in self.touched):
            seconds = Line(lab, pair).flood(self._burst, 3 * at_most + 5)
            probes.append(
                Probe(
                    f"{self._burst} bytes {pair[0]} → {pair[1]}",
                    f"{milliseconds(at_least)} to {milliseconds(at_most)}",
                    milliseconds(seconds) if seconds else "nothing came back",
                    seconds is not None and 0.85 * at_least <= seconds <= 1.3 * at_most + 0.3,
                )
            )
        controls = self._controls(lab)
        shown, calm = sum(p.ok for p in probes), sum(p.ok for p in controls)
        return Look(
            shown == len(probes) and calm == len(controls),
            f"{shown} of {len(probes)} measurements show the slices; {calm} of {len(controls)} untouched are as before",
            probes + controls,
        )

    def _row(self, pair: Pair, which: str, line: Line) -> Probe:
        pauses = (self.ROW - 1) * self._delay
        limit = pauses + tolerance(pauses) + self.ROW * CONTROL_GROWTH_SECONDS
        seconds, echo = self._pings(line)
        answered = echo.reply is Reply.ANSWERED
        grown = answered and pair in self._before and seconds - self._before[pair] >= 0.5 * pauses
        return Probe(
            f"{self.ROW - 1} pings after one, {which} connection {pair[0]} → {pair[1]}",
            f"{milliseconds(pauses)} to {milliseconds(limit)}",
            milliseconds(seconds) if answered else str(echo),
            grown and 0.85 * pauses <= seconds <= limit,
        )

    def _pings(self, line: Line) -> tuple[float, Echo]:
        """Seconds for a row of pings after a first one, and how the last one ended."""
        echo = line.ping(2.0 + self._delay)
        began = time.monotonic()
        for _ in range(self.ROW - 1):
            if echo.reply is Reply.ANSWERED:
                echo = line.ping(2.0 + self._delay)
        return time.monotonic() - began, echo


class SlowCloseEvidence(LinkEvidence):
    """From the end of our half of a connection to the end of the other: Toxiproxy closes one after the other, so each
    direction that is slow adds its delay. ``delays``: seconds by pair."""

    def __init__(self, touched: list[Pair], untouched: list[Pair], delays: dict[Pair, float]) -> None:
        super().__init__(touched, untouched, lambda *_: "", lambda *_: True)
        self._delays = delays

    def _closes(self, lab: Lab, pairs: list[Pair], timeout: float) -> dict[Pair, float | None]:
        with ThreadPoolExecutor(max(min(len(pairs), 32), 1)) as pool:
            return dict(zip(pairs, pool.map(lambda pair: Line(lab, pair).ended(timeout), pairs), strict=True))

    def in_effect(self, lab: Lab) -> Look:
        pairs = self.touched + self._free(self.control_pairs)
        measured = self._closes(lab, pairs, 2 * max(self._delays.values()) + 2.0)
        probes = []
        for pair, seconds in measured.items():
            delay = self._delays.get(pair, 0.0) if pair in self.touched else 0.0
            slack = tolerance(delay)
            low = max(delay - slack, CLOSE_SECONDS) if delay else 0.0
            high = delay + slack + CLOSE_SECONDS
            probes.append(
                Probe(
                    f"close {pair[0]} → {pair[1]} and back",
                    f"{milliseconds(low)} to {milliseconds(high)}",
                    milliseconds(seconds) if seconds is not None else "it did not come",
                    seconds is not None and low <= seconds <= high,
                )
            )
        shown = sum(p.ok for p in probes)
        return Look(shown == len(probes), f"{shown} of {len(probes)} closes take as long as asked", probes)

    def gone(self, lab: Lab) -> Look:
        alive = super().gone(lab)
        probes = list(alive.probes)
        for pair, seconds in self._closes(lab, self._free(self.touched), 2.0).items():
            probes.append(
                Probe(
                    f"close {pair[0]} → {pair[1]} and back",
                    f"at most {milliseconds(CLOSE_SECONDS)}",
                    milliseconds(seconds) if seconds is not None else "it did not come",
                    seconds is not None and seconds <= CLOSE_SECONDS,
                )
            )
        well = sum(p.ok for p in probes)
        return Look(well == len(probes), f"{well} of {len(probes)} pings and closes are as before", probes)


class ProcessEvidence(Simple):
    """A node's process is gone, or stopped; later it runs, answers on its own host and is in a cluster."""

    effect_deadline = 15.0
    gone_deadline = 150.0

    def __init__(self, nodes: list[str], *, paused: bool = False, emptied: bool = False) -> None:
        self._nodes, self._paused, self._emptied = nodes, paused, emptied

    def before(self, lab: Lab) -> Look:
        return self._running(lab)

    def in_effect(self, lab: Lab) -> Look:
        probes = []
        for node in self._nodes:
            state = lab.process_state(node)
            echo = direct(lab, node, 0.7)
            if self._paused:
                probes.append(Probe(f"process of {node}", "state T (stopped)", f"state {state}", state in ("T", "t")))
                probes.append(Probe(f"ping inside {node}", "silent", str(echo), echo.reply is Reply.SILENT))
            else:
                probes.append(Probe(f"process of {node}", "gone", f"state {state}" if state else "gone", state is None))
                probes.append(Probe(f"ping inside {node}", "refused", str(echo), echo.is_(Reply.REFUSED)))
            if self._emptied:
                empty = lab.data_is_empty(node)
                probes.append(Probe(f"data folder of {node}", "empty", "empty" if empty else "has files", empty))
        shown = sum(p.ok for p in probes)
        return Look(shown == len(probes), f"{shown} of {len(probes)} signs on {', '.join(self._nodes)}", probes)

    def gone(self, lab: Lab) -> Look:
        return self._running(lab)

    def _running(self, lab: Lab) -> Look:
        probes = []
        for node in self._nodes:
            state = lab.process_state(node)
            probes.append(
                Probe(f"process of {node}", "runs", f"state {state}", state is not None and state not in ("T", "t"))
            )
            echo = direct(lab, node, 2.0)
            probes.append(Probe(f"ping inside {node}", "answered", str(echo), echo.reply is Reply.ANSWERED))
            member = "no answer"
            try:
                status, health = lab.client(node, timeout=2.0).request(
                    "GET", "/_cluster/health?local=true&filter_path=discovered_cluster_manager,number_of_nodes"
                )
                member = json.dumps(health) if status == 200 else f"status {status}"
                joined = status == 200 and health["discovered_cluster_manager"] is True
            except (urllib3.exceptions.HTTPError, LookupError):
                joined = False
            probes.append(Probe(f"{node} is in a cluster", "with a cluster manager", member, joined))
        well = sum(p.ok for p in probes)
        return Look(well == len(probes), f"{well} of {len(probes)} signs of life on {', '.join(self._nodes)}", probes)
