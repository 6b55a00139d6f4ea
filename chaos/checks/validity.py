"""Were the instruments good enough? What the load driver must have kept for its numbers to count.

Limits from design.md, "Driver validity": p99 of schedule lag (sent - intended) at most 50 ms, drops at most
0.1 % of the scheduled arrivals, the process below 85 % of one core (p95 of its own samples), an outcome for
more than 99.9 % of the arrivals. Fewer than 100 arrivals/s only widen the windows. A steady state before
the first fault belongs to the instruments too: without one there is nothing to compare with. Anything that
was not measured is not valid. Most conditions concern time alone and spoil nothing else; those without which nobody
knows what was asked of the cluster, or which fault it met, spoil all.

Two more concern the runner's own side, both from the sampler's record (histories whose samples are from before it was
recorded have neither condition; a history without samples has not measured them):

* *The path that it looks on is not affected by the fault.* While faults of the network are in effect, every node that
  was answering must answer the sampler as before: a fault that had leaked onto the direct path would show there by the
  latency that it adds, or by silence. Nodes that a fault of another kind hits (killed, paused, starved) are left out,
  for their silence is the fault itself; the others must answer then too.
* *The runner was not starved.* The sampler's thread wakes by the runner's clock, so how late it woke is how late
  commands, ends of phases and samples were.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from chaos.base import text
from chaos.checks import clocks, evidence, failovers, latency, refused, standing, starved, usable
from chaos.checks.arrivals import Arrivals, Floats, ranked
from chaos.checks.evidence import Gap, Spoils
from chaos.checks.record import OUTCOMES, SECOND, LoadOperation, Record, per_window, windows

LAG_P99 = 0.050
DROPPED = 0.001
UNKNOWN = 0.001
CPU_P95 = 0.85
OFFERED = 0.01
"""Share of a window's arrivals by which a rate that changes may be missed, beside one arrival at its edges."""
FAR = 5.0
"""Standard deviations that random arrivals may be away from what their rate demands: chance exceeds that in one of 1.7
million windows."""
MEASURED = 0.9
"""Share of the phases' time for which a local lab's processors, and the pulses of instruments, must be known."""
PATH_GROWTH = 0.1
"""Seconds by which a node's median answer to the sampler may grow under a fault: three nodes starting on two
processors cost less, the smallest latency that an experiment injects costs more."""
PATH_ANSWERED = 0.5
"""Share of the sampler's questions to a node that must be answered: a leak takes all of them, a busy moment a few."""
PATH_FEWEST = 3
"""Answers of a node under a fault below which nothing is said of it."""
PATH_LONG = 20.0
"""Seconds of a network fault in which every node has been asked often enough."""
NETWORK = ("network.", "zone.isolation", "zone.partition", "zone.slowness")
"""Kinds of fault that touch links only: the nodes themselves go on, and must answer."""
OWN_TIME_RULES = 2
"""The first rules under which answers are taken as they were without the runner's own waits, also on clusters whose
nodes have machines of their own."""
LATE_P99 = 0.25
"""Seconds by which the runner's looks may be late in a history without its pulse. With it each late look is a stoppage
(:func:`.standing.runner`), and a verdict that hangs on one says so."""
LATEST = 2.0
"""Seconds after which a look that is late is none."""
BALANCED = "load-balancer"
"""The kind of client that a controller can steer."""
SILENT = 10.0
"""Seconds of the phases without a line of an instrument that writes one a second: after that it has not measured."""
UNMEASURED = 2
"""The rules from which on a condition that could not be measured is shown (:data:`chaos.history.format.RULES`)."""
STEADY = 0.99
"""Good share without which a healthy phase is not healthy: below it p0 would hide an outage (regained.py)."""


PLAINLY = {
    "lag": "the load was sent late",
    "cpu": "the load driver was too busy, or nobody measured how busy it was",
    "machine": "nobody measured whether this machine had a processor free",
    "pulse": "nobody measured whether the instruments stood still",
    "runner": "the runner looked at the cluster too late, or not at all",
    "path": "the runner's own way to the nodes suffered under the fault",
    "dropped": "the load driver could not send all of the load",
    "unknown": "of some requests nobody knows what became of them",
    "schedule": "{op}s were not asked for all the time",
    "offered": "{op}s were not asked for as their rate was to change",
    "steady": "{op}s were not good even before anything was done to the cluster",
    "steered": "load balancers did not hear from the failover controller of their zone",
}
"""What it means that a condition does not hold, for people, by the first part of its id."""


@dataclass(frozen=True)
class Condition:
    """One condition on the instruments. ``ok`` False takes the worth from what it ``spoils``. ``due`` False: the plan
    leaves nothing to measure it by, which is shown, and takes nothing away."""

    id: str
    what: str
    measured: str
    limit: str
    ok: bool
    spoils: Spoils = Spoils.TIME
    due: bool = True

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "due" or not value}

    @property
    def gap(self) -> Gap:
        """What it takes away: in plain words first, and the figures in brackets, which a headline leaves out."""
        name, _, op = self.id.partition(".")
        plain = PLAINLY[name].format(op=op)
        return Gap(f"{plain} ({self.what}: {self.measured}, and the limit is {self.limit})", None, self.spoils)


def gaps(conditions: Iterable[Condition]) -> list[Gap]:
    """What the conditions that do not hold take away."""
    return [condition.gap for condition in conditions if not condition.ok]


def conditions(record: Record) -> tuple[Condition, ...]:
    """All conditions, in the order in which they are shown."""
    parts = [record.arrivals[op.name] for op in record.operations]
    outcomes = sum((part.counts.sum(axis=1) for part in parts), np.zeros(len(OUTCOMES), np.int64))
    scheduled = int(outcomes.sum())
    lag = _lag(parts, record.processes)
    busy, gap = _of_each_process(record)

    def share(*names: str) -> float | None:
        codes = [OUTCOMES[name] for name in names]
        return float(outcomes[codes].sum() / scheduled) if scheduled else None

    dropped, unknown = share("dropped"), share("unknown")
    found = [
        Condition(
            "lag",
            "99th percentile of the schedule lag in the phases",
            _shown(lag, text.seconds),
            f"at most {text.seconds(LAG_P99)}",
            lag is not None and lag <= LAG_P99,
        ),
        Condition(
            "cpu",
            "driver's use of one core (95th percentile)",
            _shown(busy, lambda value: f"{value:.0%}".replace("%", " %"))
            + (f"; not measured for {text.seconds(gap)}" if busy is not None and gap > SILENT else ""),
            f"below {CPU_P95:.0%}".replace("%", " %"),
            busy is not None and busy < CPU_P95 and gap <= SILENT,
        ),
        *_machine(record),
        *_pulse(record),
        *_runner(record),
        Condition(
            "dropped",
            "arrivals that the driver could not send",
            _shown(dropped, text.percent),
            f"at most {text.percent(DROPPED)}",
            dropped is not None and dropped <= DROPPED,
        ),
        Condition(
            "unknown",
            "arrivals without a recorded outcome",
            _shown(unknown, text.percent),
            f"below {text.percent(UNKNOWN)}",
            unknown is not None and unknown < UNKNOWN,
            Spoils.ALL,
        ),
    ]
    for op in record.operations:
        found.append(_schedule(record, op))
        if op.profile is not None:
            found.append(_offered(record, op))
        if record.healthy:
            found.append(_steady(record, op.name))
        elif record.rules >= UNMEASURED and record.spans:
            found.append(_unsteady(op.name))
    return (*found, *_steered(record))


def client_errors(record: Record) -> int:
    """Requests that were refused as wrong by our own mistake, or the user's: see :mod:`.refused`."""
    return refused.mistakes(record)


def hopeful(record: Record) -> Record | None:
    """The record with every arrival as good that the driver dropped or recorded no outcome of; None: there is none.

    As a rule such an arrival counts as not good. Where an expectation wants a fault to bite, that would be evidence
    made of nothing: a pass must hold either way.
    """
    lost = [OUTCOMES["dropped"], OUTCOMES["unknown"]]
    if not any(part.counts[lost].any() for part in record.arrivals.values()):
        return None
    other = copy.copy(record)
    other.arrivals = record.arrivals | {
        op.name: record.arrivals[op.name].forgiving(lambda part: np.isin(part.outcome, lost), op.good_within)
        for op in record.operations
    }
    return other


def _of_each_process(record: Record) -> tuple[float | None, float]:
    """The 95th percentile of a driver process's use of one core, and the longest time (s) in which it said nothing: of
    the worst of them. A process that never spoke has said nothing for all the phases."""
    samples: list[list[dict[str, Any]]] = [[] for _ in range(record.processes)]
    for event in record.driver:
        if event.get("kind") == "self":
            samples[int(event.get("process", 0)) % len(samples)].append(event)
    cpus = [np.array([float(e["cpu"]) for e in some if e.get("cpu") is not None]) for some in samples]
    busy = [latency.quantile(cpu, 0.95) for cpu in cpus if len(cpu)]
    gap = max(record.longest_gap(some) for some in samples)
    return (max(busy) if len(busy) == len(samples) else None), gap


def _lag(parts: list[Arrivals], processes: int) -> float | None:
    """The 99th percentile of the schedule lag (s) of what was sent in the phases (the warm-up is not judged) by the
    worst of the driver's processes; None where nothing was sent."""

    def lags(process: int) -> Iterator[Floats]:
        for piece in (piece for part in parts for piece in part.pieces()):
            start = piece.start
            own = (start > 0) & (piece.phase >= 0)
            if processes > 1:
                own &= piece.k % processes == process
            yield ((start - piece.intended) / SECOND)[own]

    found = []
    for process in range(processes):
        sent = sum(map(len, lags(process)))
        if sent:
            found.append(ranked(lambda process=process: lags(process), [latency.rank(sent, 0.99)])[0])  # type: ignore[misc]
    return max(found, default=None)


def widths(record: Record) -> dict[str, float]:
    """The window (s) that each operation's rate allows."""
    return {op.name: record.window(op.name) for op in record.operations}


def _schedule(record: Record, operation: LoadOperation) -> Condition:
    """The load was there all the time: no window of any phase without a scheduled arrival."""
    op = operation.name
    width = record.window(op)
    empty = 0
    for span in record.spans:
        frames = windows(span.start, span.end, width)
        if frames:  # by when they were due, not by the phase that they count for
            scheduled, _ = per_window(record.arrivals[op].between(span.start, span.end), frames, clip=True)
            empty += int(((scheduled == 0) & ~record.quiet(op, frames)).sum())
        elif span.end > span.start:
            empty += 1
    number = len(record.arrivals[op])
    return Condition(
        f"schedule.{op}",
        f"{op}s scheduled at {operation.rate_text}, in windows of {text.seconds(width)}",
        f"{text.count(number)}, {text.plural(empty, 'window')} without any",
        "no window without any",
        empty == 0 and number > 0,
        Spoils.ALL,
    )


def _offered(record: Record, op: LoadOperation) -> Condition:
    """A rate that changes did so as planned: in each window of each phase as many arrivals were due as it demands."""
    load = (record.plan.get("experiment") or {}).get("load") or {}
    random = load.get("arrivals") == "poisson" and not op.times
    worst, shown, number = 0.0, "no phase has begun", 0
    for span in record.spans:
        frames = windows(span.start, span.end, record.window(op.name))
        due_here = record.arrivals[op.name].between(span.start, span.end)
        counted = per_window(due_here, frames, clip=True)[0] if frames else np.zeros(0)
        for (start, end), count in zip(frames, counted.tolist(), strict=True):
            due = record.due(op, start, end)
            allowed = 1 + OFFERED * due + (FAR * math.sqrt(due) if random else 0.0)
            number += 1
            if (off := abs(count - due) / allowed) >= worst:
                worst = off
                at = text.seconds(record.since_start(start) or 0.0)
                shown = f"at worst {text.count(count)} where {due:.1f} were demanded, {at} after the load's begin"
    if record.rates_began is None:
        worst, shown = math.inf, "the driver was never told when to begin to change"
    return Condition(
        f"offered.{op.name}",
        f"{op.name}s due as their rate changes, in windows of {text.seconds(record.window(op.name))}",
        shown,
        "as many as the rate demands" + (", but for chance" if random else ""),
        worst <= 1 and number > 0,
        Spoils.ALL,
    )


def _steady(record: Record, op: str) -> Condition:
    bad, scheduled = record.baseline(op)
    good = 1 - bad / scheduled if scheduled else None
    return Condition(
        f"steady.{op}",
        f"good {op}s before the first fault",
        _shown(good, text.percent),
        f"at least {text.percent(STEADY)}",
        good is not None and good >= STEADY,
    )


def _unsteady(op: str) -> Condition:
    """There was no phase before the first fault, as planned."""
    return Condition(
        f"steady.{op}",
        f"good {op}s before the first fault",
        "not measured: no phase before the first fault",
        f"at least {text.percent(STEADY)}",
        ok=True,
        due=False,
    )


def _steered(record: Record) -> list[Condition]:
    """Clients that were to take their nodes from a controller did: or what it advised was never tried."""
    experiment = record.plan.get("experiment") or {}
    zones = failovers.planned(record)
    if not zones or not experiment["controller"].get("steer", True):
        return []
    client = experiment["load"].get("client") or {}
    told = set(client.get("zones") or record.plan["topology"]["zones"]) & set(zones)
    if not told or client.get("kind", BALANCED) != BALANCED:
        return []
    end = record.spans[0].end if record.spans else 0
    heard = {
        str(e.get("client_zone"))
        for e in record.driver
        if e.get("kind") == "steered" and e.get("nodes") and int(e["t"]) < end
    }
    deaf = sorted(told - heard)
    return [
        Condition(
            "steered",
            "load balancers that took their nodes from the controller of their zone, by the end of the first phase",
            f"not those of zone {text.listed(deaf)}" if deaf else f"those of zone {text.listed(sorted(told))}",
            "all",
            not deaf,
            Spoils.ALL,
        )
    ]


def _machine(record: Record) -> list[Condition]:
    """A lab on this machine only: is it known when no processor was free? What it made late: :mod:`.starved`."""
    if not starved.applies(record):
        return []
    share, measured = starved.share(record)
    unknown = usable.unknown(record)
    return [
        Condition(
            "machine",
            f"time in which {starved.none_free(record)}",
            _shown(share, text.percent) + (f"; {unknown}" if unknown else ""),
            f"measured for at least {text.percent(MEASURED)} of the phases; a verdict that hangs on it does not count",
            measured >= MEASURED,
        )
    ]


STOOD_LONGEST = 3
"""How many of those that stood still are named: who did so for the longest time first."""


def _pulse(record: Record) -> list[Condition]:
    """Is it known when an instrument stood still? What that made late or fail: :mod:`.forgiving`."""
    if standing.expected(record) is None:
        return []  # planned before pulses were taken
    measured = standing.measured(record)
    stoppages = [*standing.stoppages(record), *standing.runner(record)]
    stood = [each for each in stoppages if any(s.start < each.end and each.start < s.end for s in record.spans)]
    by_who = {each.who: [other for other in stood if other.who == each.who] for each in stood}
    longest = sorted(by_who.values(), key=lambda some: -sum(each.seconds for each in some))
    found = "; ".join(standing.words(record, some) for some in longest[:STOOD_LONGEST])
    if len(longest) > STOOD_LONGEST:
        found += f"; and {len(longest) - STOOD_LONGEST} more, for less"
    return [
        Condition(
            "pulse",
            "load driver, Toxiproxies and runner that stood still",
            f"measured for {text.percent(measured)} of the phases: {text.clip(found, 400) or 'none'}",
            f"measured for at least {text.percent(MEASURED)} of the phases; a verdict that hangs on it does not count",
            measured >= MEASURED,
        )
    ]


def _runner(record: Record) -> list[Condition]:
    """The runner's own looks, and the path on which it looks. Empty for a history that did not record them."""
    samples = record.of_kind("sample")
    if samples and not any("answers" in sample or "late_ms" in sample for sample in samples):
        return []
    late = np.array([float(sample["late_ms"]) / 1000 for sample in samples if sample.get("late_ms") is not None])
    p99 = latency.quantile(late, 0.99) if len(late) else None
    most = float(late.max()) if len(late) else None
    gap = record.longest_gap(samples)
    measured = "not measured" if p99 is None or most is None else f"{text.seconds(p99)}, {text.seconds(most)}"
    pulsed = standing.pulsed(record)
    wanted = f"none above {text.seconds(LATEST)}"
    woke = Condition(
        "runner",
        "lateness of the runner's own looks (99th percentile, and the latest)",
        measured if gap <= SILENT else f"{measured}; no look for {text.seconds(gap)}",
        wanted if pulsed else f"at most {text.seconds(LATE_P99)}, and {wanted}",
        p99 is not None and most is not None and (pulsed or p99 <= LATE_P99) and most <= LATEST and gap <= SILENT,
    )
    return [woke, *_path(record, samples)]


def _path(record: Record, samples: list[dict[str, Any]]) -> list[Condition]:
    """Did every node that no fault silences answer the sampler under a fault as it did before the first?"""
    commands = [fault for fault in evidence.faults(record) if fault.in_effect is not None]
    if not commands:
        return []
    first = min(fault.command for fault in commands)
    clock = _own_time(record)
    before = _answers([sample for sample in samples if int(sample["t"]) < first], clock)
    worst: list[str] = []
    judged, due = 0, False
    for fault in commands:
        start, end = int(fault.in_effect or 0), fault.undo or record.last_seen
        others = [o for o in commands if o.command < end and (o.undo or record.last_seen) > start]
        hit = {node for other in others if not other.kind.startswith(NETWORK) for node in _hit(record, other)}
        hit |= {node for other in others for node in other.silences}
        due |= fault.kind.startswith(NETWORK) and (end - start) / SECOND >= PATH_LONG and hit < set(record.zone_of)
        during = _answers([sample for sample in samples if start <= int(sample["t"]) < end], clock)
        for node, found in during.items():
            known = [value for value in before.get(node, []) if value is not None]
            if node in hit or not known or len(found) < PATH_FEWEST:
                continue
            judged += 1
            there = [value for value in found if value is not None]
            if len(there) < PATH_ANSWERED * len(found):
                worst.append(f"{node} answered {len(there)} of {len(found)} times under “{text.clip(fault.says, 60)}”")
            elif (growth := float(np.median(there) - np.median(known)) / 1000) > PATH_GROWTH:
                worst.append(f"{node} {text.seconds(growth)} slower under “{text.clip(fault.says, 60)}”")
    if not judged and not due:
        return []  # nothing but the fault's own nodes, or too short to ask them
    return [
        Condition(
            "path",
            "the runner's own path to the nodes under a fault",
            "; ".join(worst[:3]) if worst else f"{judged} comparisons, none slower" if judged else "not measured",
            f"at most {text.seconds(PATH_GROWTH)} slower than before, {text.percent(PATH_ANSWERED)} or more answered",
            judged > 0 and not worst,
            Spoils.ALL,
        )
    ]


def _own_time(record: Record) -> clocks.Clock | None:
    """The time that an answer took here, and on no path: this machine had no processor free, or the runner was paused.

    Wherever the cluster is, the runner waits for a processor of its own machine. Rules 1 knew that of labs alone.
    """
    machine = starved.Clock(record)
    if record.rules < OWN_TIME_RULES:
        return machine if starved.applies(record) else None
    return machine.joined(clocks.Clock.of((each.start, each.end) for each in standing.runner(record)))


def _answers(samples: list[dict[str, Any]], clock: clocks.Clock | None) -> dict[str, list[float | None]]:
    """Node → milliseconds of each answer, None where none came in time.

    Less the time that was this machine's (``clock``): a leak shows without it.
    """
    found: dict[str, list[float | None]] = {}
    for sample in samples:
        end = int(sample["t"])
        for node, took in (sample.get("answers") or {}).items():
            waited = 0.0
            if took is not None and clock is not None:
                begin = end - int(float(took) * 1e6)
                waited = float(clock.between(np.array([begin]), np.array([end]))[0]) * 1000
            found.setdefault(str(node), []).append(None if took is None else max(0.0, float(took) - waited))
    return found


def _hit(record: Record, fault: evidence.FaultRecord) -> set[str]:
    """The nodes whose own silence a fault may be: its targets, or all where it names none."""
    return set(fault.targets) & set(record.zone_of) or set(record.zone_of)


def _shown(value: float | None, form: Any) -> str:
    return "not measured" if value is None else str(form(value))
