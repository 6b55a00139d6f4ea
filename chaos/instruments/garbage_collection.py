"""Pauses for garbage collection: how much of the time each node's JVM stood still to collect.

A node that collects answers nothing. So what looks like a slow network or a slow disk may be a heap that is too small,
and it is asked of the node itself: every two seconds for the counters of its collectors (``_nodes/_local/stats/jvm``),
over the direct path, which no fault touches. A paused node answers late, and its counters then say for how long it had
collected. Collections that run beside the node's other threads (``G1 Concurrent GC``) count with the pauses that they
make, as the JVM counts them.

A line of ``history/gc.jsonl``, ``t`` in CLOCK_MONOTONIC ns when the answer was there, kind ``collected``: ``node``,
``seconds`` since the answer before (by the node's own clock), and of each collector ``count`` (collections) and ``ms``
(their time) in them. A JVM that is another one than before begins anew. On a cluster that is not ours nothing is asked:
its owners have allowed no such questions (``target rights``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.base import text
from chaos.checks.check import Check
from chaos.checks.instrument import (
    Begins,
    Context,
    Ends,
    Event,
    Instrument,
    Observer,
    Trial,
)
from chaos.checks.measure import Bound, Measure
from chaos.checks.record import SECOND, Record, Span
from chaos.checks.section import Curve, Row, Section
from chaos.checks.words import Words
from chaos.definitions import Experiment
from chaos.history.writer import Broken, EventWriter
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.polling import Polling

FILE = "gc.jsonl"
COLLECTED = "collected"
PATH = (
    "/_nodes/_local/stats/jvm?filter_path=nodes.*.jvm.timestamp,nodes.*.jvm.uptime_in_millis,"
    "nodes.*.jvm.gc.collectors.*.collection_count,nodes.*.jvm.gc.collectors.*.collection_time_in_millis"
)
PERIOD_SECONDS, TIMEOUT_SECONDS = 2.0, 1.5
BYTES = 180
"""A node's line."""
COVERED = 0.8
"""The share of a phase that must be known of a node."""


# -- observing ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counters:
    """Of one JVM since it began. ``at`` and ``up``: ms, by its own clock; ``collectors``: name → (count, ms)."""

    at: int
    up: int
    collectors: Mapping[str, tuple[int, int]]

    @property
    def began(self) -> int:
        return self.at - self.up


def counted(body: Any) -> Counters:
    """What a node answered. Raises one of UNREADABLE."""
    (own,) = body["nodes"].values()
    jvm = own["jvm"]
    found = {
        str(name): (int(each["collection_count"]), int(each["collection_time_in_millis"]))
        for name, each in jvm["gc"]["collectors"].items()
    }
    return Counters(int(jvm["timestamp"]), int(jvm["uptime_in_millis"]), found)


SAME_MS = 1000
"""Uptime and timestamp are taken one after the other; by more than this it is another JVM."""


def grown(before: Counters, now: Counters) -> dict[str, Any] | None:
    """What was collected between two answers of one JVM; None where it is another one, or the same answer."""
    seconds = (now.at - before.at) / 1000
    if seconds <= 0 or abs(now.began - before.began) > SAME_MS:
        return None
    done = {
        name: {"count": count - before.collectors[name][0], "ms": ms - before.collectors[name][1]}
        for name, (count, ms) in now.collectors.items()
        if name in before.collectors
    }
    return None if any(each["count"] < 0 or each["ms"] < 0 for each in done.values()) else {"seconds": seconds, **done}


class Collections(Observer):
    """Asks every node in a thread of its own, from :meth:`start` to :meth:`stop`."""

    def __init__(self, lab: Cluster, file: Path, broken: Broken) -> None:
        self._file, self._broken = file, broken
        self._polling = Polling(
            lab, PATH, self._answered, name="garbage collection", period=PERIOD_SECONDS, timeout=TIMEOUT_SECONDS
        )
        self._before: dict[str, Counters] = {}
        self._events: EventWriter | None = None

    def start(self) -> None:
        self._events = EventWriter(self._file, self._broken)
        self._polling.start()

    def stop(self, *, patient: bool = True) -> None:
        if self._polling.stop() and self._events is not None:
            self._events.close()

    def _answered(self, node: str, body: Any) -> None:
        now = counted(body)
        before, self._before[node] = self._before.get(node), now
        done = None if before is None else grown(before, now)
        if done is not None and self._events is not None:
            with suppress(OSError):  # the run has been told (``broken``), and ends
                self._events.write(COLLECTED, node=node, **done)


# -- judging -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stretch:
    """Of one node: from when to when (monotonic ns), and what it collected in between."""

    node: str
    start: int
    end: int
    count: int
    ms: int

    @property
    def share(self) -> float:
        return self.ms * 1e6 / (self.end - self.start)

    def within(self, span: Span) -> float:
        """Which share of it lies in a phase."""
        return max(0, min(self.end, span.end) - max(self.start, span.start)) / (self.end - self.start)


def stretches(record: Record) -> Iterator[Stretch]:
    """Those that are whole: a record may have been cut anywhere."""
    for line in record.lines(FILE):
        seconds = line.get("seconds")
        if line.get("kind") != COLLECTED or not isinstance(seconds, int | float) or seconds <= 0:
            continue
        done = [each for each in line.values() if isinstance(each, Mapping) and {"count", "ms"} <= set(each)]
        start = int(line["t"]) - int(seconds * SECOND)
        count, ms = (sum(int(each[key]) for each in done) for key in ("count", "ms"))
        yield Stretch(str(line.get("node")), start, int(line["t"]), count, ms)


def by_node(record: Record, span: Span) -> dict[str, dict[str, float]]:
    """Of each node of the topology that was heard in a phase: ``known`` (share of the phase), ``share`` of that time in
    which it collected, ``count`` of collections, and ``worst``: most ms within one stretch."""
    found: dict[str, dict[str, float]] = {}
    for each in stretches(record):
        inside = each.within(span)
        if not inside or each.node not in record.zone_of:
            continue
        row = found.setdefault(each.node, {"seconds": 0.0, "ms": 0.0, "count": 0.0, "worst": 0.0})
        row["seconds"] += inside * (each.end - each.start) / SECOND
        row["ms"] += inside * each.ms
        row["count"] += inside * each.count
        row["worst"] = max(row["worst"], float(each.ms))
    return {
        node: {
            "known": min(1.0, row["seconds"] / span.seconds) if span.seconds else 0.0,
            "share": row["ms"] / 1000 / row["seconds"],
            "count": round(row["count"]),
            "worst": row["worst"],
        }
        for node, row in sorted(found.items())
    }


def measure(record: Record, span: Span) -> Measure:
    """The share of a phase in which the node that collected most did so. One that was not heard could be worse."""
    seen = by_node(record, span)
    found = {node: row for node, row in seen.items() if row["known"] >= COVERED}
    unknown = sorted(set(record.zone_of) - set(found))
    which = text.listed(unknown) if len(unknown) < 4 else f"{len(unknown)} nodes"
    if not found:
        return Measure.missing("share", f"of {which} too little is known of this phase")
    node = max(found, key=lambda each: found[each]["share"])
    row = found[node]
    says = f"{node}, in {text.plural(int(row['count']), 'collection')}; at most {row['worst']:.0f} ms in one look"
    says += f"; of {which} too little is known" if unknown else ""
    shares = {each: round(item["share"], 5) for each, item in found.items()}
    return Measure(row["share"], "share", says, Bound.AT_LEAST if unknown else Bound.EXACT, shares)


def table(record: Record) -> dict[str, Any]:
    """Phase → node → figures; empty where nobody asked."""
    rows = {span.name: by_node(record, span) for span in record.spans}
    return {phase: found for phase, found in rows.items() if found}


def section(record: Record, tables: Mapping[str, Any]) -> Section | None:
    found = tables.get("gc")
    if found is None or not record.spans:
        return None
    begin, end = record.spans[0].start, record.spans[-1].end
    heads = tuple(f"{text.clip(phase, 24)}#" for phase in found)
    nodes = sorted({node for rows in found.values() for node in rows})
    return Section(
        id="collections",
        title="Pauses for garbage collection",
        short="Garbage collection",
        says="Of each phase, the share of its time in which a node stood still to collect, and most within one look of "
        f"{PERIOD_SECONDS:g} s. A node that collects answers nothing.",
        head=("Node", *heads),
        rows=tuple(Row(node, tuple(_cell(rows.get(node)) for rows in found.values())) for node in nodes),
        curves=(Curve("Share of the time in pauses, of the node that collected most", "%", _worst(record, begin)),),
        lasted=(end - begin) / SECOND,
        edges=tuple((span.name, (span.start - begin) / SECOND) for span in record.spans),
        small="By the nodes' own counters, asked every two seconds over the direct path.",
    )


def _cell(row: Mapping[str, float] | None) -> str:
    return text.NO_VALUE if row is None else f"{text.percent(row['share'])}, {row['worst']:.0f} ms"


def _worst(record: Record, begin: int) -> tuple[tuple[float, float, float], ...]:
    """Second by second of looks: what the worst node's share was."""
    worst: dict[int, float] = {}
    step = int(PERIOD_SECONDS * SECOND)
    for each in stretches(record):
        if each.node in record.zone_of and each.end >= begin:
            for at in range(max(0, each.start - begin) // step, (each.end - begin) // step + 1):
                worst[at] = max(worst.get(at, 0.0), each.share)
    return tuple((at * PERIOD_SECONDS, (at + 1) * PERIOD_SECONDS, 100 * share) for at, share in sorted(worst.items()))


CHECK = Check(
    "gc.share",
    "percent",
    lambda record, _, span: measure(record, span),
    Words.of(
        missed="A node stood still to collect garbage for {measured} of the time{inside}; wanted was {want}",
        question="no node collected garbage for too long{inside}",
        promise="No node stands still to collect garbage for longer{inside}: {want}",
        short="time in garbage collection, of the node that collected most",
    ),
    group="recovery",
    less_is_better=True,
    meaning="How much of a phase the node that collected most stood still to collect garbage. It answers nothing then: "
    "what looks like a slow network may be a heap that is too small. A node that was not heard for a fifth of the "
    "phase (a fault ended it) may have been worse: then no upper limit is met.",
    helps=("headroom", "breakers", "investigate"),
)


# -- what the check is tried by ----------------------------------------------------------------------


def _lines(ms: int, nodes: Sequence[str] = ("a-cm", "a-data", "b-cm", "b-data", "c-cm", "c-data")) -> Any:
    def lines(start: int, end: int) -> list[Event]:
        step = int(PERIOD_SECONDS * SECOND)
        return [
            {"t": at, "kind": COLLECTED, "node": node, "seconds": PERIOD_SECONDS, "young": {"count": 1, "ms": spent}}
            for at in range(start + step, end + 1, step)
            for node in nodes
            for spent in [ms if node == nodes[-1] else 4]
        ]

    return lines


def _observe(context: Context) -> Collections | None:
    if context.existing is not None:
        return None
    return Collections(context.lab, context.folder / "history" / FILE, context.broken)


def _room(experiment: Experiment) -> float:
    return BYTES * len(experiment.topology.nodes) / PERIOD_SECONDS


INSTRUMENT = Instrument(
    name="garbage collection",
    says="how much of the time each node's JVM stands still to collect garbage",
    observe=_observe,
    begins=Begins.INDEX,
    ends=Ends.LOAD,
    order=75,
    room=_room,
    file=FILE,
    checks=(CHECK,),
    trials=(Trial("gc.share", "<= 5%", _lines(10), _lines(400)),),
    tables={"gc": table},
    section=section,
)
