"""Instruments that stood still: when, which arrivals that touched, and what else hangs on it.

What is ours on the path of a request, and can be stopped, swapped out or hung: the load driver (its load balancers are
part of it), the Toxiproxy of each client zone, the Toxiproxy of each node. The driver takes all of their pulses
(:mod:`chaos.load.pulse`). Beside the path: the runner, which dates what the cluster does, and the failover controllers.
A node of OpenSearch that stalls is the cluster's own, and nothing here looks at it; a node that an
external actor pauses is named by ``instruments/process_pauses.py``.

A *stoppage* is from an instrument's last sign of life before it to its first one after it: it may have stopped right
after the one and gone on right before the other. While the driver itself stood still it saw nobody's sign of life, so
that time is the driver's alone. What had been held up comes all at once then, sent or let through in one burst that
nobody asked for: the time until the last of it was answered counts as well, but for no longer than the stoppage itself
(a cluster that is half used or less has caught up by then).

The *runner* dates what it sees of the cluster, and when a fault is proven. What it saw first after it had stood still
may have happened as much earlier (:func:`seen_earlier`). Its commands come late, which makes phases longer and nothing
else: every time is counted from the command as it was given.

A *failover controller* that stood still for T takes its next steps up to T later than it would have. What was not good
in the T before each of those steps hangs on it, and so do the moments of the steps (:func:`controllers`).

Whom a stoppage touches: the driver's every arrival, that of a client zone's Toxiproxy the arrivals of that zone's
clients alone. That of a node's Toxiproxy touches every arrival too: the node that was sent a request asks others for
their shards, a write goes on to every copy, and all of that passes the Toxiproxies of both nodes.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chaos.base import text
from chaos.checks import clocks
from chaos.checks.clocks import Clock, Stretch
from chaos.checks.record import SECOND, Record

DRIVER, RUNNER = "the load driver", "the runner"
LATE_LOOK_MS = 100.0
"""As of the runner's own beat (:mod:`chaos.base.ticks`): threads of one interpreter take turns."""
LATE_NS = 50_000_000
"""How late a beat or a sign of life may be (ns): as late as the driver may be with an arrival."""


@dataclass(frozen=True)
class Stoppage:
    """``who``, in words; ``client``: whose arrivals alone it touches, None: all of them; ``node``: whose Toxiproxy.

    From ``start`` to ``end`` (ns) it stood still; until ``over`` what it had held up was not answered yet. ``taken``:
    the time that is taken out of lives, where that is another one.
    """

    who: str
    start: int
    end: int
    over: int
    client: str | None = None
    node: str | None = None
    taken: Stretch | None = None

    @property
    def out(self) -> Stretch:
        """The time that is taken out of the lives of arrivals."""
        return self.taken or (self.start, self.over)

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / SECOND


def expected(record: Record) -> dict[str, str | None] | None:
    """The Toxiproxies whose pulse the plan promises: host → its client zone, or None; None: an older plan."""
    found = (record.plan.get("lab") or {}).get("pulsed")
    return dict(found) if isinstance(found, Mapping) else None


def pulses(record: Record) -> Iterator[dict[str, Any]]:
    """What the driver wrote of pulses, one for each second. One that is not understood was not taken."""
    for event in record.driver:
        found = event.get("pulse")
        if isinstance(found, Mapping):
            try:
                yield {
                    "process": int(event.get("process", 0)),
                    "since": int(found["since"]),
                    "until": int(found["until"]),
                    "of": int(found["of"]),
                    "own": [(int(start), int(end)) for start, end in found.get("own") or ()],
                    "late": [(str(name), *map(int, times)) for name, *times in found.get("late") or ()],
                }
            except (TypeError, ValueError, KeyError):
                continue


def measured(record: Record) -> float:
    """The share of the phases' time in which the pulses of all that were promised were taken, and the runner's."""
    wanted = len(expected(record) or {})
    first = Clock.of((e["since"], e["until"]) for e in pulses(record) if not e["process"] and e["of"] >= wanted)
    others = [
        Clock.of((each["since"], each["until"]) for each in pulses(record) if each["process"] == process)
        for process in range(1, record.processes)
    ]
    runner = Clock.of((each["since"], each["until"]) for each in _ticks(record))
    return min(_covered(record, clock) for clock in (first, *others, runner))


def _covered(record: Record, taken: Clock) -> float:
    """The share of the phases' time that a clock knows."""
    total = sum(span.seconds for span in record.spans)
    if not total:
        return 0.0
    edges = np.array([(span.start, span.end) for span in record.spans], np.int64)
    return min(1.0, float(taken.between(edges[:, 0], edges[:, 1]).sum()) / total)


def stoppages(record: Record) -> tuple[Stoppage, ...]:
    """Every stoppage of what is on the path of requests, in order; none in a history of before pulses were taken."""
    own: list[Stretch] = []
    late: dict[str, list[tuple[int, int, int]]] = {}
    for each in pulses(record):
        own += each["own"]
        for name, *times in each["late"]:
            if len(times) == 3:
                late.setdefault(name, []).append((times[0], times[1], times[2]))
    driver = clocks.united(own)
    found = [Stoppage(DRIVER, start, end, end) for start, end in driver]
    zones = expected(record) or {}
    for name, times_of in late.items():
        client = zones.get(name)
        who = f"the Toxiproxy of client zone {client}" if client is not None else f"the Toxiproxy of node {name}"
        kept = []
        for since, asked, until in times_of:
            # the question was open for longer than this process itself could not have heard the answer
            if clocks.length(clocks.without((asked, until), driver)) * SECOND > LATE_NS:
                kept += clocks.without((since, until), driver)
        node = None if client is not None else name
        found += [Stoppage(who, start, end, end, client, node) for start, end in clocks.united(kept)]
    found.sort(key=lambda each: (each.start, each.who))
    return tuple(replace(each, over=_over(record, each)) for each in found)


def _over(record: Record, stoppage: Stoppage) -> int:
    """When the last arrival that had been held up was answered, but no longer after the end than it had lasted."""
    last = stoppage.end
    for part in record.arrivals.values():
        held = part.between(stoppage.start, stoppage.end)
        for piece in held.pieces():
            ends = piece.end if stoppage.client is None else piece.end[piece.client == number_of(record, stoppage)]
            last = max(last, int(ends.max(initial=0)))
    return min(last, 2 * stoppage.end - stoppage.start)


def number_of(record: Record, stoppage: Stoppage) -> int:
    """The number under which arrivals have the client zone that a stoppage touches; one that none has where unknown."""
    return record.clients.index(str(stoppage.client)) if stoppage.client in record.clients else -2


def words(record: Record, some: Iterable[Stoppage]) -> str:
    """``the load driver stood still (0.8 s at 12 s of the run)``."""
    several = list(some)
    first = several[0]
    at = text.seconds(record.since_start(first.start) or 0.0)
    if len(several) == 1:
        return f"{first.who} stood still ({text.seconds(first.seconds)} at {at} of the run)"
    total = sum(each.seconds for each in several)
    return f"{first.who} stood still ({len(several)} times, {text.seconds(total)} in all, first at {at} of the run)"


# -- beside the path -------------------------------------------------------------------------------------

SEEN = ("cluster.", "fault.in_effect", "fault.gone", "action.done")
"""Beginnings of the kinds of events that are dated by the runner's looking."""
OWN_SAMPLE = SECOND // 20
"""An event of the sampler is written at most so long after its own sample (ns)."""
STEPS = ("failover.done", "failover.steer")
"""What a controller did for traffic, when it was done."""
DELAYED_NS = 30 * SECOND
"""So long after a controller goes on its steps may still be late by the whole stoppage, because it counts how long
signs last; a step that comes later waited for something else."""
TAKES_NS = SECOND
"""So long after a step is done it may take until clients notice: they ask every half second."""


def _ticks(record: Record) -> Iterator[dict[str, Any]]:
    """What the runner wrote of its own pulse, with each sample. One that is not understood was not taken."""
    for event in record.of_kind("sample"):
        found = event.get("pulse")
        if isinstance(found, Mapping):
            try:
                own = [(int(start), int(end)) for start, end in found.get("own") or ()]
                yield {"since": int(found["since"]), "until": int(found["until"]), "own": own}
            except (TypeError, ValueError, KeyError):
                continue


def pulsed(record: Record) -> bool:
    """Whether the runner's own pulse was taken."""
    return next(_ticks(record), None) is not None


def runner(record: Record) -> tuple[Stoppage, ...]:
    """Every stop of the runner; none in a history that has no pulse of it. A look that began late is one too."""
    ticks = list(_ticks(record))
    own = [stretch for each in ticks for stretch in each["own"]] + (_late_looks(record) if ticks else [])
    return tuple(Stoppage(RUNNER, start, end, end) for start, end in clocks.united(own))


def _late_looks(record: Record) -> list[tuple[int, int]]:
    """From when a look was due until it began, where that is more than a turn of another thread.

    A processor that is wanted by many wakes one thread of the runner and not the other. A sample is written when its
    answers are there, so the look began as long before as the slowest of them took.
    """
    found = []
    for event in record.of_kind("sample"):
        late = float(event.get("late_ms") or 0)
        if late > LATE_LOOK_MS:
            asking = max(
                (float(took) for took in (event.get("answers") or {}).values() if took is not None), default=0.0
            )
            began = int(event["t"]) - round(asking * 1e6)
            found.append((began - round(late * 1e6), began))
    return found


def seen_earlier(record: Record, some: Iterable[Stoppage]) -> list[dict[str, Any]]:
    """The events, with what the runner saw as much earlier as it had stood still since it had looked before."""
    still = clocks.united((each.start, each.end) for each in some)
    looks = [int(event["t"]) for event in record.of_kind("sample")]
    begun = {e[key]: int(e["t"]) for kind, key in _BEGINS for e in record.of_kind(kind) if key in e}

    def moved(event: dict[str, Any]) -> dict[str, Any]:
        t, kind = int(event.get("t", 0)), str(event.get("kind"))
        if not kind.startswith(SEEN):
            return event
        if kind.startswith("cluster."):
            place = bisect.bisect_left(looks, t - OWN_SAMPLE)
            before = looks[place - 1] if place else t
        else:
            before = begun.get(event.get("action") if kind == "action.done" else event.get("fault"), t)
        late = clocks.length((max(start, before), min(end, t)) for start, end in still if start < t and end > before)
        return {**event, "t": t - round(late * SECOND)} if late > 0 else event

    return sorted(map(moved, record.events), key=lambda event: int(event.get("t", 0)))


_BEGINS = (("fault.command", "fault"), ("action.command", "action"))


def controllers(record: Record) -> tuple[Stoppage, ...]:
    """Every stop of a failover controller, once for each step that it may have delayed."""
    found = []
    for event in record.of_kind("failover.still"):
        try:
            name, start, end = str(event["controller"]), int(event["start"]), int(event["end"])
        except (TypeError, ValueError, KeyError):
            continue
        who = f"the failover {name.replace('-', ' of zone ', 1)}"
        for step in record.of_kind(*STEPS):
            at = int(step["t"])
            if step.get("controller") == name and end <= at <= end + DELAYED_NS:
                lasted = end - start
                found.append(Stoppage(who, start, end, end, taken=(at - lasted, at + min(lasted, TAKES_NS))))
    return tuple(sorted(found, key=lambda each: (each.start, each.who)))


def decided_earlier(record: Record, some: Iterable[Stoppage]) -> list[dict[str, Any]]:
    """The events, with what those controllers noticed, decided and did after they stood still as much earlier."""
    stops = {(each.who, each.start, each.end) for each in some}

    def moved(event: dict[str, Any]) -> dict[str, Any]:
        if not str(event.get("kind")).startswith("failover."):
            return event
        t, who = int(event.get("t", 0)), f"the failover {str(event.get('controller')).replace('-', ' of zone ', 1)}"
        late = sum(end - start for name, start, end in stops if name == who and end <= t <= end + DELAYED_NS)
        return {**event, "t": t - late} if late else event

    return sorted(map(moved, record.events), key=lambda event: int(event.get("t", 0)))
