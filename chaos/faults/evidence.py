"""Evidence that a fault is in effect, and later that it is gone: measured, never assumed.

An evidence object looks before (a baseline), then as often as it takes until the effect, and later its absence, is
proven or a deadline passes. Every look returns what was expected beside what was measured, for the report.

Tolerances: latency grows by what was asked, give or take the larger of 15 % and 30 ms; links that nobody touched may
grow by 10 ms at most. No tolerance is so wide that a link on which nothing was done would show the effect: what grows
must grow by more than an untouched link may, and what is asked must be more than that (LEAST_DELAY_SECONDS …), or it
is refused.

A proof holds for its moment. So a fault that is to hold is looked at again: ``held`` right before its undo, in full,
and ``still`` in between, by cheap looks that disturb nothing and take turns. What another fault holds by then, or a
node that does not run, proves nothing about this one and is left out.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import urllib3

from chaos.base.errors import ChaosError, Lacking
from chaos.faults.probes import ENDED, Asked, Echo, Line, Pair, Reply, at_rest, between, direct, together
from chaos.opensearch.administration import decommission_status
from chaos.targets.protocol import Lab

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
HELD_SECONDS = 5.0
"""For so long a full look at a fault that was proven is repeated, until each of its signs has been seen once: a single
look can be unlucky on a busy machine. What fails all that time is not so any more."""
DEAF_SECONDS = 1.0
"""A node that has not answered a ping from inside its host by then is silent itself."""
OUT_SECONDS = 5.0
"""For the cluster to say which zones are decommissioned."""
DEAF_LINES = 8
"""How many connections a node is asked over: no fewer than the workers of a small node."""
UNANSWERABLE = "no node behind these links answers without another fault: nothing can be looked at"
OTHER_DISK_SECONDS = 2.0
"""A disk that nothing is wrong with writes and fsyncs a block within this, on a busy machine too."""
GLANCES = 2
"""How many touched pairs a cheap look asks, the next ones each time; and one untouched pair."""
GLANCED_PART = 0.25
"""What part of a burst a cheap look sends …"""
GLANCED_RATE = 131072.0
"""… and up to which rate (bytes per second): pings carry some 300 kB/s without any cap."""
GLANCE_GROWTH_SECONDS = 0.050
"""What a single ping over an untouched pair may take longer than before without being conspicuous."""
HELD_BURSTS = 3
"""Over how many touched pairs a full look sends bursts, one after the other, when the fault was proven before: those
that something speaks against first, then others in turn. A phase must not wait for a second over each of thirty."""
SUSPECTS = 8
"""How many conspicuous pairs a full look measures beside its controls."""
GLANCED_AT_MOST = 64
"""How many untouched pairs a full look glances at at most, each with one ping; those that differ are measured."""


@dataclass(frozen=True)
class Probe:
    """One measurement beside its expectation, as text for people."""

    what: str
    expected: str
    measured: str
    ok: bool
    control: bool = False
    """Of something that the fault does not name: not ok means that the fault is where it should not be."""
    about: str = ""
    """What it is a sign of, where several probes are of one thing; default ``what``."""

    @property
    def key(self) -> str:
        return self.about or self.what

    def to_json(self) -> dict[str, Any]:
        control = {"control": True} if self.control else {}
        return {"what": self.what, "expected": self.expected, "measured": self.measured, "ok": self.ok, **control}


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
    held_deadline: float
    """How long a full look may be repeated until it proves that the fault still holds."""
    holds: bool
    """Whether it is to stay in effect until its undo. Not so what is over when it is proven (a restart), and what goes
    and comes by itself: there its worker says of each time how it went."""

    def beside(self, links: frozenset[Pair], nodes: frozenset[str]) -> None:
        """Other faults hold these links and nodes now: they prove nothing about this one. Called before each look."""

    def before(self, lab: Lab) -> Look: ...

    def in_effect(self, lab: Lab) -> Look: ...

    def held(self, lab: Lab) -> Look:
        """A full look at a fault that was proven: whether it still is in effect, and nowhere else."""

    def still(self, lab: Lab) -> Look | None:
        """A look that costs next to nothing and disturbs nothing, at a part of it, the parts in turn.

        None: there is none. Its probes are named as those of :meth:`held`. From a thread of its own.
        """

    def suspect(self, pairs: Sequence[Pair]) -> None:
        """Something says that these connections are not as they were: the next full look has to look at them."""

    def gone(self, lab: Lab) -> Look: ...

    def close(self) -> None: ...


def running(state: str | None) -> bool:
    """Whether a process in this state (the kernel's letter) can answer; not known is no yes."""
    return state is not None and state not in ("T", "t", "!")


T = TypeVar("T")


def _of_each(work: Callable[[str], T], names: Sequence[str]) -> dict[str, T]:
    """What comes of it for each of these nodes, at once; without those of which it cannot be had (Lacking)."""

    def tried(name: str) -> list[T]:
        try:
            return [work(name)]
        except Lacking:
            return []

    if not names:
        return {}
    with ThreadPoolExecutor(min(len(names), 16)) as pool:
        return {name: found[0] for name, found in zip(names, pool.map(tried, names), strict=True) if found}


class Others:
    """The nodes that a fault does not name: what they were before it they must be while it holds.

    Their processes run, their control groups have the limits that they had (``limits``: cpu, memory), and their disks
    take writes (``disks``). One that did not run before says nothing, nor does one that another fault holds; and of
    limits and disks none of which nobody can be asked that, as of a host of others that the file does not name.
    """

    def __init__(self, named: Iterable[str], *, limits: str | None = None, disks: bool = False) -> None:
        self._named, self._limits, self._disks = frozenset(named), limits, disks
        self._ran: list[str] = []
        self._before: dict[str, dict[str, str]] = {}

    def remember(self, lab: Lab, held: frozenset[str]) -> None:
        """How they are now, before the fault. ``held``: by other faults, which may end before this one does."""
        names = [node.name for node in lab.topology.nodes if node.name not in self._named | held]
        self._ran = [name for name, state in _of_each(lab.process_state, names).items() if running(state)]
        if (resource := self._limits) is not None:
            self._before = _of_each(lambda name: lab.limits(name, resource), self._ran)

    def cheap(self, lab: Lab, held: frozenset[str]) -> list[Probe]:
        """Processes and limits: what the kernel tells for the asking."""
        names, resource, probes = [name for name in self._ran if name not in held], self._limits, []
        for name, state in _of_each(lab.process_state, names).items():
            said = f"state {state}" if state else "gone"
            probes.append(Probe(f"untouched: process of {name}", "runs", said, running(state), control=True))
        if resource is not None:
            asked = [name for name in names if name in self._before]
            limits = _of_each(lambda name: lab.limits(name, resource), asked)
            for name in asked:
                before, now = self._before[name], limits.get(name)
                said = "nobody can tell" if now is None else _words(now)
                what = f"untouched: {resource} limits of {name}"
                probes.append(Probe(what, _words(before), said, now == before, control=True))
        return probes

    def probes(self, lab: Lab, held: frozenset[str]) -> list[Probe]:
        """All of it."""
        names = [name for name in self._ran if name not in held] if self._disks else []
        answers = _of_each(lambda name: lab.disks.probe(name, "write", timeout=OTHER_DISK_SECONDS), names)
        return self.cheap(lab, held) + [
            Probe(
                f"untouched: fsync'd write on the disk of {name}", "done", str(a), a.seconds is not None, control=True
            )
            for name, a in answers.items()
        ]


def _words(values: dict[str, str]) -> str:
    return ", ".join(f"{file} {value}" for file, value in values.items())


class Simple:
    """Evidence that needs nothing closed and whose effect other faults do not disturb."""

    effect_deadline = 15.0
    gone_deadline = 30.0
    held_deadline = HELD_SECONDS
    holds = True
    others = Others(())
    """Set by kinds that name nodes; nobody's by default."""
    _beside_nodes: frozenset[str] = frozenset()

    def beside(self, links: frozenset[Pair], nodes: frozenset[str]) -> None:
        self._beside_nodes = nodes

    def in_effect(self, lab: Lab) -> Look:
        raise NotImplementedError

    def held(self, lab: Lab) -> Look:
        return self.with_others(lab, self.in_effect(lab))

    def with_others(self, lab: Lab, look: Look) -> Look:
        """The same look, and the nodes that the fault does not name."""
        more = self.others.probes(lab, self._beside_nodes)
        return alongside(look, more)

    def still(self, lab: Lab) -> Look | None:
        return None

    def suspect(self, pairs: Sequence[Pair]) -> None:
        return

    def close(self) -> None:
        return


def alongside(look: Look, controls: list[Probe]) -> Look:
    """A look and its controls: proven when both are."""
    if not controls:
        return look
    calm = sum(probe.ok for probe in controls)
    says = f"{look.says}; {calm} of {len(controls)} signs of what it does not name are as before"
    return Look(look.proven and calm == len(controls), says, [*look.probes, *controls])


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
    held_deadline = HELD_SECONDS
    holds = True

    def __init__(
        self,
        touched: list[Pair],
        untouched: list[Pair],
        expected: Callable[[Pair, Echo | None], str],
        shows: Callable[[Pair, Echo | None, Echo], bool],
        *,
        expected_existing: Callable[[Pair, Echo | None], str] | None = None,
        shows_existing: Callable[[Pair, Echo | None, Echo], bool] | None = None,
        holds: tuple[Callable[[Pair, Echo | None], str], Callable[[Pair, Echo | None, Echo], bool]] | None = None,
        silence: float = SILENCE_SECONDS,
        adds: float = 0.0,
    ) -> None:
        """``holds``: what is expected of a pair, and shows it, once the fault is proven and only has to be still there;
        None: the same as for the proof. ``adds``: seconds that a round trip takes longer, at the least, wherever this
        fault is."""
        self.touched = touched
        self._growth = max(CONTROL_GROWTH_SECONDS, adds / 2)
        """By how much an untouched link may be slower: a leak shows more, and a busy machine mostly less."""
        self._glance_growth = max(GLANCE_GROWTH_SECONDS, self._growth)
        self.control_pairs = spread(untouched, CONTROLS)
        self._expected, self._shows = expected, shows
        self._expected_existing = expected_existing or expected
        self._shows_existing = shows_existing or shows
        self._still = holds
        self._silence = silence
        self._baseline: dict[Pair, Echo] = {}
        self._existing: list[Line] = []
        self._candidates = untouched
        self._links: frozenset[Pair] = frozenset()
        self._nodes: frozenset[str] = frozenset()
        self._services: frozenset[str] = frozenset()
        """Of these each answers itself, and what asks it runs beside a node, whatever became of that node's process."""
        self._apart: frozenset[Pair] = frozenset()
        """Pairs of which nobody can be asked now (:func:`apart`)."""
        self._silent_nodes: frozenset[str] = frozenset()
        """Nodes that do not run, or do not answer themselves, in looks at whether the fault still holds."""
        self._holding = False
        self._suspects: list[Pair] = []
        self._doubts: list[Pair] = []
        self._few_now: list[Pair] = []
        self._turns = itertools.count()

    def _between(self, lab: Lab, pair: Pair) -> Line:
        """What is asked over a pair."""
        return between(lab, pair)

    def beside(self, links: frozenset[Pair], nodes: frozenset[str]) -> None:
        self._links = links | {(b, a) for a, b in links}
        self._nodes = nodes

    def _free(self, pairs: list[Pair]) -> list[Pair]:
        """Those on which no other fault has its hand, and whose node can answer."""
        held = self._links | self._apart
        return [
            pair for pair in pairs if pair not in held and not self._hit(pair) and pair[1] not in self._silent_nodes
        ]

    def _hit(self, pair: Pair) -> frozenset[str]:
        """The ends of a pair that another fault has its hand on, and that a ping over it needs."""
        return self._nodes & ({pair[1]} if pair[1] in self._services else set(pair))

    def _look_who_is_apart(self, lab: Lab) -> None:
        self._services = frozenset(lab.topology.service_hosts)
        self._apart = apart(lab, [*self.touched, *self._candidates], self._between)

    def _lines(self, touched: list[Pair]) -> list[Line]:
        """The connections that exist since before, of these pairs."""
        return [line for line in self._existing if line.pair in touched]

    def _base(self, pair: Pair) -> float | None:
        """Seconds of a round trip before; of a pair that was not measured, the longest of its like."""
        if pair in self._baseline:
            return self._baseline[pair].seconds
        nodes = {b for _, b in (*self._baseline, *self._candidates)}  # clients are no pair's second
        known = [(a, echo.seconds) for (a, _), echo in self._baseline.items() if echo.seconds is not None]
        alike = [seconds for a, seconds in known if (a in nodes) == (pair[0] in nodes)]
        return max(alike or [seconds for _, seconds in known], default=0.0)

    def before(self, lab: Lab) -> Look:
        self._look_who_is_apart(lab)
        self.touched = self._free(self.touched)
        self.control_pairs = spread(self._free(self._candidates), CONTROLS)
        if not self.touched:
            return Look(False, "other faults hold every node behind these links: there is nothing to prove it on")
        self._existing = [self._between(lab, pair) for pair in self.touched]
        controls = [self._between(lab, pair) for pair in self.control_pairs]
        self._baseline = at_rest([*self._existing, *controls], 5.0)
        for line in controls:
            line.close()
        probes = [
            Probe(f"round trip {a} → {b}", "answered by the node", str(echo), echo.reply is Reply.ANSWERED)
            for (a, b), echo in self._baseline.items()
        ]
        answered = sum(p.ok for p in probes)
        return Look(answered == len(probes), f"{answered} of {len(probes)} probed pairs answer", probes)

    def _controls(self, lab: Lab) -> list[Probe]:
        pairs = self._free(list(dict.fromkeys([*self.control_pairs, *self._suspects])))
        lines = [self._between(lab, pair) for pair in pairs]
        probes = []
        for pair, echo in together(lines, 2.0, pings=5).items():
            base = self._base(pair)
            if base is not None:
                probes.append(self._untouched(pair, base, echo, self._growth))
        for line in lines:
            line.close()
        return probes

    @staticmethod
    def _untouched(pair: Pair, base: float, echo: Echo, growth: float) -> Probe:
        a, b = pair
        ok = echo.seconds is not None and echo.seconds - base <= growth
        limit = f"at most {milliseconds(base + growth)}"
        return Probe(f"untouched: round trip {a} → {b}", limit, str(echo), ok, control=True)

    def in_effect(self, lab: Lab) -> Look:
        touched = self._free(self.touched)
        there = self._lines(touched)
        lines = {pair: self._between(lab, pair) for pair in touched}
        fresh = [line for line in lines.values() if line.lasts]
        with ThreadPoolExecutor(1) as pool:  # at once: a look must fit into a fault that is short
            waiting = pool.submit(together, there, self._silence, pings=3)
            new = together(fresh, self._silence, pings=3)
            existing = waiting.result()
        for line in fresh:
            line.close()
        probes = []
        for pair in touched:
            base = self._baseline.get(pair)
            a, b = pair
            if pair not in new:  # there is no connection of ours that lasts
                probes.append(self._new(pair, existing[pair], lines[pair].what, held=self._holding))
                continue
            probes.append(self._new(pair, new[pair], lines[pair].what, held=self._holding))
            still = self._still if self._holding else None
            expected, judge = still or (self._expected_existing, self._shows_existing)
            shows = judge(pair, base, existing[pair])
            if self._holding and not shows and existing[pair].reply in (*ENDED, Reply.UNREACHABLE):
                continue  # it ended at some time, as connections do: the new one tells what holds now
            probes.append(
                Probe(
                    f"existing connection {a} → {b}",
                    expected(pair, base),
                    str(existing[pair]),
                    shows,
                    about=f"{a} → {b}",
                )
            )
        controls = self._controls(lab)
        shown = sum(p.ok for p in probes)
        calm = sum(p.ok for p in controls)
        return Look(
            bool(probes) and shown == len(probes) and calm == len(controls),
            f"{shown} of {len(probes)} connections over {len(touched)} touched pairs show it; "
            f"{calm} of {len(controls)} untouched pairs are as before",
            probes + controls,
        )

    def _new(self, pair: Pair, echo: Echo, what: str, *, held: bool) -> Probe:
        (a, b), base = pair, self._baseline.get(pair)
        expected, shows = (self._still if held else None) or (self._expected, self._shows)
        return Probe(what, expected(pair, base), str(echo), shows(pair, base, echo), about=f"{a} → {b}")

    def held(self, lab: Lab) -> Look:
        self._holding = True
        try:
            return self._still_there(lab)
        finally:  # what comes and goes is proven again from its next time on
            self._holding = False

    def _still_there(self, lab: Lab) -> Look:
        self._silent_nodes = silent_nodes(lab)
        self._look_who_is_apart(lab)
        if not self._free(self.touched):
            return Look(False, UNANSWERABLE)
        self._glance_around(lab)
        look = self.in_effect(lab)
        if look.proven:
            return look
        deaf = deaf_nodes(lab, {b for _, b in self._free([*self.touched, *self._candidates])})
        if not deaf:
            return look
        self._silent_nodes |= deaf
        return self.in_effect(lab) if self._free(self.touched) else Look(False, UNANSWERABLE)

    def _glance_around(self, lab: Lab) -> None:
        """One ping over every other pair; those that it makes conspicuous are measured with the controls."""
        others = [pair for pair in self._free(self._candidates) if pair not in self.control_pairs]
        echoes = glances(lab, spread(others, GLANCED_AT_MOST), self._between)
        odd = [pair for pair, echo in echoes.items() if not self._inconspicuous(pair, echo)]
        self._suspects = list(dict.fromkeys([*self._suspects, *odd]))[-SUSPECTS:]

    def _inconspicuous(self, pair: Pair, echo: Echo) -> bool:
        return echo.seconds is not None and echo.seconds - (self._base(pair) or 0.0) <= self._glance_growth

    def suspect(self, pairs: Sequence[Pair]) -> None:
        named = [pair for pair in pairs if pair in self._candidates]
        self._suspects = list(dict.fromkeys([*self._suspects, *named]))[-SUSPECTS:]
        doubts = [pair for each in pairs for pair in (each, each[::-1]) if pair in self.touched]
        self._doubts = list(dict.fromkeys([*doubts, *self._doubts]))[:HELD_BURSTS]

    def _few(self, touched: list[Pair]) -> list[Pair]:
        """All of them until it is proven; then some, the same ones until they have shown it."""
        if not self._holding:
            return touched
        first = next(self._turns) * HELD_BURSTS
        turn = [touched[(first + n) % len(touched)] for n in range(len(touched))]
        chosen = [pair for pair in self._few_now or [*self._doubts, *turn] if pair in touched]
        self._few_now = list(dict.fromkeys(chosen))[:HELD_BURSTS]
        return self._few_now

    def _few_shown(self, proven: bool) -> None:
        if proven:
            self._few_now, self._doubts = [], []

    def still(self, lab: Lab) -> Look | None:
        self._look_who_is_apart(lab)
        silent = silent_nodes(lab)
        touched = [pair for pair in self._free(self.touched) if pair[1] not in silent]
        around = [pair for pair in self._free(self._candidates) if pair[1] not in silent]
        if not touched:
            return None
        turn = next(self._turns)
        mine = [touched[(turn * GLANCES + n) % len(touched)] for n in range(min(GLANCES, len(touched)))]
        probes = self.glance(lab, mine)
        if around:
            pair = around[turn % len(around)]
            echo = glances(lab, [pair], self._between)[pair]
            if not self._inconspicuous(pair, echo):
                self.suspect([pair])
            probes.append(self._untouched(pair, self._base(pair) or 0.0, echo, self._glance_growth))
        well = sum(probe.ok for probe in probes)
        return Look(well == len(probes), f"{well} of {len(probes)} pairs in their turn are as they must be", probes)

    def glance(self, lab: Lab, pairs: list[Pair]) -> list[Probe]:
        """A cheap look at some of the touched pairs."""
        lines = [self._between(lab, pair) for pair in pairs]
        echoes = together(lines, self._silence)
        for line in lines:
            line.close()
        return [self._new(line.pair, echoes[line.pair], line.what, held=True) for line in lines]

    def gone(self, lab: Lab) -> Look:
        self._silent_nodes, self._holding = frozenset(), False
        self._look_who_is_apart(lab)
        if not self._free(self.touched):
            return Look(False, UNANSWERABLE)
        lines = [self._between(lab, pair) for pair in self._free([*self.touched, *self.control_pairs])]
        probes = []
        for (a, b), echo in together(lines, 2.0, pings=5).items():
            base = self._baseline.get((a, b))
            limit = self._growth + (base.seconds if base and base.seconds else 0.0)
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


def _also(alive: Look, more: list[Probe], what: str) -> Look:
    """Pings that are as before, and what else must be so where a fault is gone that pings alone do not show."""
    well = sum(probe.ok for probe in more)
    says = f"{alive.says}; {well} of {len(more)} {what} too"
    return Look(alive.proven and bool(more) and well == len(more), says, [*alive.probes, *more])


def apart(lab: Lab, pairs: Iterable[Pair], made: Callable[[Lab, Pair], Line]) -> frozenset[Pair]:
    """Where nodes are asked what they get from each other: the pairs of which one is in a decommissioned zone.

    It is in nobody's cluster then, whatever its links do. What clients get from it can still be seen. Where the cluster
    does not say which zones are out, none is left out.
    """
    asked = [pair for pair in pairs if isinstance(made(lab, pair), Asked)] if lab.asks else []
    gone = out_of_it(lab) if asked else frozenset()
    return frozenset(pair for pair in asked if gone & set(pair))


def out_of_it(lab: Lab) -> frozenset[str]:
    """The nodes of zones that are decommissioned; none where the cluster does not say."""
    try:
        out = decommission_status(lab, timeout=OUT_SECONDS)
    except ChaosError:
        return frozenset()
    return frozenset(node.name for node in lab.topology.nodes if node.zone in out)


def silent_nodes(lab: Lab) -> frozenset[str]:
    """Nodes whose process is gone or stopped: what is not answered by them says nothing of a link."""
    return frozenset(node.name for node in lab.topology.nodes if not running(lab.process_state(node.name)))


def deaf_nodes(lab: Lab, nodes: Iterable[str]) -> frozenset[str]:
    """Nodes that do not answer from inside their own host either, where no proxy is in between.

    A heap that overflows keeps a process silent for a minute before it ends. That is the node's, not the link's: to
    call it a fault that has spread would end the run before the node does, which is what is to be found. Connections
    are shared out among a node's workers in turn, and one worker may be silent while another answers: so several are
    made, and one that is silent is enough.
    """
    asked = [node for node in sorted(nodes) for _ in range(DEAF_LINES)]
    if not asked:
        return frozenset()
    with ThreadPoolExecutor(min(len(asked), 64)) as pool:
        echoes = list(pool.map(lambda node: direct(lab, node, DEAF_SECONDS), asked))
    return frozenset(node for node, echo in zip(asked, echoes, strict=True) if echo.reply is Reply.SILENT)


def glances(lab: Lab, pairs: list[Pair], made: Callable[[Lab, Pair], Line]) -> dict[Pair, Echo]:
    """One ping over each, a few at a time: all at once they would keep each other waiting."""

    echoes: dict[Pair, Echo] = {}
    for first in range(0, len(pairs), CONTROLS):
        lines = [made(lab, pair) for pair in pairs[first : first + CONTROLS]]
        echoes |= together(lines, 2.0)
        for line in lines:
            line.close()
    return echoes


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

    def _flood(self, lab: Lab, pair: Pair, part: float = 1.0) -> tuple[float | None, str]:
        size = round(self._size * part)
        seconds = between(lab, pair).flood(size, self._expected_seconds * part * 3 + 2)
        return seconds, f"{size / seconds / 1000:.1f} kB/s" if seconds else "nothing came back"

    def before(self, lab: Lab) -> Look:
        look = super().before(lab)
        probes = list(look.probes)
        for pair in self.touched:
            seconds, probe = self._uncapped(lab, pair)
            probes.append(probe)
            if seconds is not None:
                self._before[pair] = seconds
        well = sum(p.ok for p in probes)
        return Look(
            look.proven and well == len(probes), f"{well} of {len(probes)} measurements are as expected", probes
        )

    def _uncapped(self, lab: Lab, pair: Pair) -> tuple[float | None, Probe]:
        """Seconds of a burst, which no cap must slow: what is capped takes twice as long at least."""
        seconds, measured = self._flood(lab, pair)
        ok = seconds is not None and 2 * seconds <= self._expected_seconds
        expected = f"more than {2 * self._rate / 1000:.1f} kB/s"
        return seconds, Probe(f"{self._size} bytes {pair[0]} → {pair[1]}", expected, measured, ok)

    def in_effect(self, lab: Lab) -> Look:
        expected = self._expected_seconds
        probes = []
        for pair in self._few(self._free(self.touched)):  # one at a time: together they would compete for the processor
            seconds, measured = self._flood(lab, pair)
            least = max(0.85 * expected, 1.5 * self._before.get(pair, math.inf))
            ok = seconds is not None and least <= seconds <= 1.3 * expected + 0.3
            probes.append(self._burst(pair, measured, ok))
        controls = self._controls(lab)
        shown, calm = sum(p.ok for p in probes), sum(p.ok for p in controls)
        self._few_shown(shown == len(probes))
        return Look(
            bool(probes) and shown == len(probes) and calm == len(controls),
            f"{shown} of {len(probes)} touched pairs carry what was asked; "
            f"{calm} of {len(controls)} untouched are as before",
            probes + controls,
        )

    def _burst(self, pair: Pair, measured: str, ok: bool) -> Probe:
        a, b = pair
        return Probe(f"{self._size} bytes {a} → {b}", f"{self._rate / 1000:.1f} kB/s", measured, ok, about=f"{a} → {b}")

    def glance(self, lab: Lab, pairs: list[Pair]) -> list[Probe]:
        """A short burst over one pair, which pings can fill; of higher rates only full looks can tell."""
        if self._rate > GLANCED_RATE:
            return []
        seconds, measured = self._flood(lab, pairs[0], GLANCED_PART)
        least = 0.7 * self._expected_seconds * GLANCED_PART
        return [self._burst(pairs[0], f"{measured}, a part of it", seconds is not None and seconds >= least)]

    def gone(self, lab: Lab) -> Look:
        """And a burst over each touched pair: a ping is too small for a cap to show. A pair that does not carry it ends
        the look, because those that are still capped take seconds each."""
        alive = super().gone(lab)
        if not alive.proven:
            return alive
        bursts: list[Probe] = []
        for pair in self._free(self.touched):
            bursts.append(self._uncapped(lab, pair)[1])
            if not bursts[-1].ok:
                break
        return _also(alive, bursts, "bursts")


class SlicerEvidence(LinkEvidence):
    """Two signs. Pings in a row on one connection, new or existing, are ``delay`` apart whatever the direction that is
    sliced, and were not before: one ping is one slice, and the next waits for the pause after it. And a burst takes as
    long as its slices do, which are between half of ``size`` and ``size`` each; told on the pairs ``opened`` whose
    requests are sliced, because how the echo is cut before it comes back is up to the kernel.
    """

    ROW = 10
    ROWS = 3
    """How many rows tell what is so without slices: noise only ever adds, so the fastest counts."""

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
            rows = [self._pings(line) for _ in range(self.ROWS)]
            answered = [seconds for seconds, echo in rows if echo.reply is Reply.ANSWERED]
            if answered:
                self._before[pair] = min(answered)  # noise only ever adds, and what it adds would hide the pauses
        return look

    def in_effect(self, lab: Lab) -> Look:
        probes = []
        touched = self._few(self._free(self.touched))
        for line in self._lines(touched):
            probes += self.glance(lab, [line.pair])
            row, ended = self._row(line.pair, "existing", line)
            if not (self._holding and ended):
                probes.append(row)
        at_least, at_most = (self._burst / self._size * part * self._delay for part in (1, 2))
        for pair in (pair for pair in self._opened if pair in touched):
            seconds = between(lab, pair).flood(self._burst, 3 * at_most + 5)
            probes.append(
                Probe(
                    f"{self._burst} bytes {pair[0]} → {pair[1]}",
                    f"{milliseconds(at_least)} to {milliseconds(at_most)}",
                    milliseconds(seconds) if seconds else "nothing came back",
                    seconds is not None and 0.85 * at_least <= seconds <= 1.3 * at_most + 0.3,
                    about=f"{pair[0]} → {pair[1]}",
                )
            )
        controls = self._controls(lab)
        shown, calm = sum(p.ok for p in probes), sum(p.ok for p in controls)
        self._few_shown(shown == len(probes))
        return Look(
            bool(probes) and shown == len(probes) and calm == len(controls),
            f"{shown} of {len(probes)} measurements show the slices; {calm} of {len(controls)} untouched are as before",
            probes + controls,
        )

    def glance(self, lab: Lab, pairs: list[Pair]) -> list[Probe]:
        probes = []
        for pair in pairs:
            fresh = between(lab, pair)
            probes.append(self._row(pair, "new", fresh)[0])
            fresh.close()
        return probes

    def _row(self, pair: Pair, which: str, line: Line) -> tuple[Probe, bool]:
        """A row of pings, and whether the connection had ended."""
        pauses = self._pauses
        limit = pauses + tolerance(pauses) + self.ROW * CONTROL_GROWTH_SECONDS
        seconds, echo = self._pings(line)
        answered = echo.reply is Reply.ANSWERED
        grown = answered and pair in self._before and seconds - self._before[pair] >= 0.5 * pauses
        probe = Probe(
            f"{self.ROW - 1} pings after one, {which} connection {pair[0]} → {pair[1]}",
            f"{milliseconds(pauses)} to {milliseconds(limit)}",
            milliseconds(seconds) if answered else str(echo),
            grown and 0.85 * pauses <= seconds <= limit,
            about=f"{pair[0]} → {pair[1]}",
        )
        return probe, echo.reply in (*ENDED, Reply.UNREACHABLE)

    @property
    def _pauses(self) -> float:
        """Seconds that the slices add to a row of pings."""
        return (self.ROW - 1) * self._delay

    def _pings(self, line: Line, most: float = math.inf) -> tuple[float, Echo]:
        """Seconds for a row of pings after a first one, and how the last one ended. After ``most`` s no more are
        sent."""
        echo = line.ping(2.0 + self._delay)
        began = time.monotonic()
        for _ in range(self.ROW - 1):
            if echo.reply is Reply.ANSWERED and time.monotonic() - began < most:
                echo = line.ping(2.0 + self._delay)
        return time.monotonic() - began, echo

    def gone(self, lab: Lab) -> Look:
        """And a row of pings over each touched pair: the fastest of single pings is one that waited for no pause. A
        pair whose row is still held up ends the look."""
        alive = super().gone(lab)
        if not alive.proven:
            return alive
        rows: list[Probe] = []
        for pair in self._free(self.touched):
            rows.append(self._unsliced(lab, pair))
            if not rows[-1].ok:
                break
        return _also(alive, rows, "rows of pings")

    def _unsliced(self, lab: Lab, pair: Pair) -> Probe:
        limit = self._before.get(pair, 0.0) + 0.5 * self._pauses
        line = between(lab, pair)
        for _ in range(self.ROWS):
            seconds, echo = self._pings(line, limit)
            answered = echo.reply is Reply.ANSWERED
            if answered and seconds < limit:
                break
        line.close()
        return Probe(
            f"{self.ROW - 1} pings after one {pair[0]} → {pair[1]}",
            f"less than {milliseconds(limit)}",
            milliseconds(seconds) if answered else str(echo),
            answered and seconds < limit,
        )


class SlowCloseEvidence(LinkEvidence):
    """From the end of our half of a connection to the end of the other: Toxiproxy closes one after the other, so each
    direction that is slow adds its delay. ``delays``: seconds by pair."""

    def __init__(self, touched: list[Pair], untouched: list[Pair], delays: dict[Pair, float]) -> None:
        super().__init__(touched, untouched, lambda *_: "", lambda *_: True)
        self._delays = delays

    def _closes(self, lab: Lab, pairs: list[Pair], timeout: float) -> dict[Pair, float | None]:
        with ThreadPoolExecutor(max(min(len(pairs), 32), 1)) as pool:
            return dict(zip(pairs, pool.map(lambda pair: between(lab, pair).ended(timeout), pairs), strict=True))

    def in_effect(self, lab: Lab) -> Look:
        touched = self._free(self.touched)
        probes = self.glance(lab, touched + self._free(list(dict.fromkeys([*self.control_pairs, *self._suspects]))))
        shown = sum(p.ok for p in probes)
        proven = bool(touched) and shown == len(probes)
        return Look(proven, f"{shown} of {len(probes)} closes take as long as asked", probes)

    def glance(self, lab: Lab, pairs: list[Pair]) -> list[Probe]:
        probes = []
        for pair, seconds in self._closes(lab, pairs, 2 * max(self._delays.values()) + 2.0).items():
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
                    control=not delay,
                )
            )
        return probes

    def gone(self, lab: Lab) -> Look:
        alive = super().gone(lab)
        if not alive.probes:
            return alive
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
        self.others = Others(nodes)

    def before(self, lab: Lab) -> Look:
        self.others.remember(lab, self._beside_nodes)
        return self._running(lab)

    def still(self, lab: Lab) -> Look | None:
        probes = [self._state(lab, node) for node in self._nodes] + self.others.cheap(lab, self._beside_nodes)
        shown = sum(probe.ok for probe in probes)
        return Look(shown == len(probes), f"{shown} of {len(probes)} processes are as they must be", probes)

    def _state(self, lab: Lab, node: str) -> Probe:
        """As the kernel tells it: gone, or stopped."""
        state = lab.process_state(node)
        what, said = f"process of {node}", f"state {state}" if state else "gone"
        if self._paused:
            return Probe(what, "state T (stopped)", f"state {state}", state in ("T", "t"), about=node)
        return Probe(what, "gone", said, state is None, about=node)

    def in_effect(self, lab: Lab) -> Look:
        probes = []
        for node in self._nodes:
            echo = direct(lab, node, 0.7)
            probes.append(self._state(lab, node))
            if self._paused:
                probes.append(Probe(f"ping inside {node}", "silent", str(echo), echo.reply is Reply.SILENT))
            else:
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
            probes.append(Probe(f"process of {node}", "runs", f"state {state}", running(state)))
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
