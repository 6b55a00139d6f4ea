"""What the load cost the cluster: processor time, bytes between nodes and bytes on disk, held against what was written.

Every five seconds each node is asked for the counters of its own process
(``_nodes/_local/stats/process,jvm,transport``) over the direct path, which no fault touches. Once, before the lab goes
away and after the read-back has refreshed the index, the cluster is asked for its size (``_stats/store,docs``). Costs
are ratios, so that runs of other lengths and loads can be compared (:mod:`chaos.statistics.compare`, sides).

Lines of ``history/costs.jsonl``, ``t`` in CLOCK_MONOTONIC ns when the answer was there. Kind ``used``: ``node``,
``cpu`` (ms of its process) and ``sent`` (bytes to other nodes, as its transport counts them) since that process began,
``up`` (ms since then), ``old`` (ms: how old ``cpu`` was, for a node asks its process once a second). Kind ``stored``:
``bytes`` (files of all copies of all shards) and ``documents`` (of the primaries). On a cluster that is not ours
nothing is asked: its owners have allowed no such questions.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from chaos.base import text
from chaos.base.errors import ChaosError
from chaos.checks import documents
from chaos.checks.check import Check, Scope
from chaos.checks.instrument import Begins, Context, Ends, Event, Instrument, Observer, Trial
from chaos.checks.measure import Bound, Measure
from chaos.checks.record import SECOND, Record
from chaos.checks.section import Row, Section
from chaos.checks.words import Words
from chaos.definitions import Experiment
from chaos.history.writer import Broken, EventWriter
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.polling import Polling
from chaos.opensearch.rest import UNREADABLE
from chaos.opensearch.views import administer

FILE = "costs.jsonl"
USED, STORED = "used", "stored"
PATH = (
    "/_nodes/_local/stats/process,jvm,transport?filter_path=nodes.*.process.timestamp,"
    "nodes.*.process.cpu.total_in_millis,nodes.*.jvm.uptime_in_millis,nodes.*.transport.tx_size_in_bytes"
)
OF_INDEX = (
    "/{}/_stats/store,docs?filter_path=_shards,_all.total.store.size_in_bytes,_all.primaries.docs.count&"
    "expand_wildcards=all"
)
PERIOD_SECONDS, TIMEOUT_SECONDS, LAST_SECONDS = 5.0, 1.5, 5.0
OLDEST_MS = 3000
SAME_SECONDS = 5
"""Uptimes are up to a second old too, and answers late; a process that begins anew is younger by more than this."""
BYTES = 140
"""A node's line."""
COVERED = 0.95
"""The share of the phases that must be known of a node; below it, it may have used more."""
LEAST = 0.5
"""The share of all nodes' time of which something must be known."""
"""Of a write: it is stored, if not on every copy."""


# -- observing ---------------------------------------------------------------------------------------


def counted(body: Any, now: float) -> dict[str, int]:
    """What a node answered. ``now``: seconds since 1970, by the clock of this machine, which is the node's.

    Raises one of UNREADABLE.
    """
    (own,) = body["nodes"].values()
    old = round(now * 1000) - int(own["process"]["timestamp"])
    found = {
        "cpu": int(own["process"]["cpu"]["total_in_millis"]),
        "sent": int(own["transport"]["tx_size_in_bytes"]),
        "up": int(own["jvm"]["uptime_in_millis"]),
        "old": max(0, min(old, OLDEST_MS)),
    }
    if min(found.values()) < 0:  # -1: its system does not tell
        raise ValueError(f"no counters: {found}")
    return found


def stored(body: Any) -> dict[str, int] | None:
    """What is said of the index; None where not every copy answered. Raises one of UNREADABLE."""
    shards = body["_shards"]
    if int(shards["failed"]) or int(shards["successful"]) != int(shards["total"]):
        return None
    whole = body["_all"]
    return {
        "bytes": int(whole["total"]["store"]["size_in_bytes"]),
        "documents": int(whole["primaries"]["docs"]["count"]),
    }


class Costs(Observer):
    """Asks every node in a thread of its own, from :meth:`start` to :meth:`stop`."""

    def __init__(self, lab: Cluster, index: str, file: Path, broken: Broken) -> None:
        self._lab, self._index, self._file, self._broken = lab, index, file, broken
        self._polling = Polling(lab, PATH, self._answered, name="costs", period=PERIOD_SECONDS, timeout=TIMEOUT_SECONDS)
        self._events: EventWriter | None = None

    def start(self) -> None:
        self._events = EventWriter(self._file, self._broken)
        self._polling.start()

    def stop(self, *, patient: bool = True) -> None:
        if not self._polling.stop(once_more=True):
            return
        if patient:
            self._size()
        if self._events is not None:
            self._events.close()

    def _answered(self, node: str, body: Any) -> None:
        self._write(USED, node=node, **counted(body, time.time()))

    def _size(self) -> None:
        """Ask for the size of the load's index. Without an answer there is no such figure."""
        with suppress(ChaosError, urllib3.exceptions.HTTPError, *UNREADABLE):
            status, body = administer(self._lab, "GET", OF_INDEX.format(self._index), timeout=LAST_SECONDS)
            found = stored(body) if status == 200 else None
            if found is not None:
                self._write(STORED, **found)

    def _write(self, kind: str, **fields: Any) -> None:
        if self._events is not None:
            with suppress(OSError):  # the run has been told (``broken``), and ends
                self._events.write(kind, **fields)


# -- judging -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stretch:
    """By how much a counter of one node grew between two moments (monotonic ns)."""

    start: int
    end: int
    grown: int

    def within(self, start: int, end: int) -> float:
        """Which share of it lies between two moments."""
        return max(0, min(self.end, end) - max(self.start, start)) / (self.end - self.start)


def stretches(record: Record, counter: str) -> dict[str, list[Stretch]]:
    """Node → what is known of a counter. A process that is another one than before began at 0."""
    found: dict[str, list[Stretch]] = {}
    before: dict[str, tuple[int, int, int]] = {}
    for line in sorted(record.lines(FILE), key=lambda each: int(each["t"])):
        node = str(line.get("node"))
        if line.get("kind") != USED or node not in record.zone_of or not isinstance(line.get(counter), int):
            continue
        age = int(line.get("old") or 0) * 1_000_000 if counter == "cpu" else 0
        t, value = int(line["t"]) - age, int(line[counter])
        began = t - int(line["up"]) * 1_000_000
        if node in before:
            last, was, first = before[node]
            same = began - first < SAME_SECONDS * SECOND and value >= was
            since, grown = (last, value - was) if same else (max(last, began), value)
            if t > since:
                found.setdefault(node, []).append(Stretch(since, t, grown))
        before[node] = t, value, began
    return found


def used(record: Record, counter: str) -> tuple[float, list[str], float] | None:
    """What all nodes used of a counter from the first phase's start to the last one's end, the nodes of which too
    little is known, and the share of all their time that is known. None where no node was heard."""
    start, end = record.spans[0].start, record.spans[-1].end
    total, known, unknown = 0.0, 0.0, []
    every = stretches(record, counter)
    for node in record.zone_of:
        inside = [(each, each.within(start, end)) for each in every.get(node, ())]
        share = sum(part * (each.end - each.start) for each, part in inside) / (end - start)
        grown = sum(part * each.grown for each, part in inside)
        known += share / len(record.zone_of)
        if share < COVERED:
            unknown.append(node)
            total += grown
        else:
            total += grown / share
    return (total, sorted(unknown), known) if known else None


def written(record: Record) -> tuple[int, int, float]:
    """Documents acknowledged in the phases, those of good requests, and the phases' seconds."""
    acknowledged, good = 0, 0
    for writer, span in itertools.product(record.writers, record.spans):
        acknowledged += int(documents.figures(record, writer, span)["acknowledged"])
        good += int(record.in_phase(writer.name, span).counts[:, 1].sum()) * writer.items
    return acknowledged, good, sum(span.seconds for span in record.spans)


def _ratio(record: Record, counter: str, what: str) -> Measure:
    """A counter of all nodes for each acknowledged document."""
    if not record.spans or record.spans[-1].end <= record.spans[0].start:
        return Measure.missing("number", "there were no phases")
    found, (acknowledged, _, _) = used(record, counter), written(record)
    if found is None or found[2] < LEAST:
        return Measure.missing("number", "too little is known of what the nodes used")
    if not acknowledged:
        return Measure.missing("number", "no document was acknowledged")
    total, unknown, _ = found
    says = f"{what} by {text.plural(len(record.zone_of), 'node')}, {text.count(acknowledged)} acknowledged"
    says += f"; of {text.listed(unknown[:3])} too little is known" if unknown else ""
    return Measure(total / acknowledged, "number", says, Bound.AT_LEAST if unknown else Bound.EXACT)


def processor(record: Record) -> Measure:
    """Seconds of processors for 1,000 acknowledged documents."""
    return _ratio(record, "cpu", "time used")  # ms for one are seconds for 1,000


def network(record: Record) -> Measure:
    """Bytes that nodes sent each other for an acknowledged document."""
    return _ratio(record, "sent", "bytes sent")


def disk(record: Record) -> Measure:
    """Bytes of the index's files, all copies, for each of its documents."""
    lines = [line for line in record.lines(FILE) if line.get("kind") == STORED]
    if not lines:
        return Measure.missing("number", "the size of the load's index was not asked, or not every copy answered")
    size, documents = int(lines[-1]["bytes"]), int(lines[-1]["documents"])
    if not documents:
        return Measure.missing("number", "the load's index had no documents")
    return Measure(size / documents, "number", f"{text.count(size)} bytes of {text.plural(documents, 'document')}")


def goodput(record: Record) -> Measure:
    """Documents of good requests in a second of the phases."""
    _, good, seconds = written(record)
    if not record.writers or seconds <= 0:
        return Measure.missing("number", "nothing was written")
    says = f"{text.plural(good, 'document')} of good requests in {text.seconds(seconds)}"
    return Measure(good / seconds, "number", says)


MEASURES: Mapping[str, tuple[Callable[[Record], Measure], str]] = {
    "processor": (processor, "Processor seconds for 1,000 acknowledged documents"),
    "network": (network, "Bytes between nodes for an acknowledged document"),
    "disk": (disk, "Bytes on disk, all copies, for a document of the index"),
    "goodput": (goodput, "Documents of good requests in a second"),
}


def table(record: Record) -> dict[str, Any] | None:
    """Name → figure; None of a run that did not record it."""
    if not record.lines(FILE) or not record.spans or not record.writers:
        return None
    return {name: {**_row(measure(record))} for name, (measure, _) in MEASURES.items()}


def _row(found: Measure) -> dict[str, Any]:
    return {"unit": found.unit, **found.to_json()}


def section(record: Record, tables: Mapping[str, Any]) -> Section | None:
    found = tables.get("costs")
    if not found:
        return None
    return Section(
        id="costs",
        title="What the load cost the cluster",
        short="Costs",
        says="From the first phase's start to the last one's end; the index's size once it was read back.",
        head=("Cost", "Figure#", "Of what"),
        rows=tuple(Row(words, (found[name]["text"], found[name]["says"])) for name, (_, words) in MEASURES.items()),
        small="By the nodes' own counters: processes, without Toxiproxies and the load; bytes as the transport layer "
        "counts them. A node that was not heard for long may have used more. For comparing runs of one machine.",
    )


def _check(name: str, short: str, meaning: str, order: int) -> Check:
    measure, words = MEASURES[name]
    return Check(
        f"costs.{name}",
        "number",
        lambda record, _, span: measure(record),
        Words.of(
            missed=f"{words}: {{measured}}; wanted was {{want}}",
            question=f"{short} could be counted",
            promise=f"{words}: {{want}}",
            short=short,
        ),
        group="recovery",
        scope=Scope.RUN,
        meaning=meaning,
        helps=("headroom", "investigate"),
        order=order,
    )


CHECKS = (
    _check(
        "processor",
        "processor time for 1,000 documents",
        "Processor seconds that all nodes used together for 1,000 acknowledged documents, reads and all else included. "
        "It says what a setting costs, where runs of one load on one machine are compared.",
        820,
    ),
    _check(
        "network",
        "bytes between nodes for a document",
        "Bytes that nodes sent each other for an acknowledged document, all traffic of the cluster included.",
        821,
    ),
    _check(
        "disk",
        "bytes on disk for a document",
        "Bytes of the files of all copies of the load's index for each of its documents, after the read-back. Merges "
        "that were still to come would make it smaller.",
        822,
    ),
)


# -- what the checks are tried by ----------------------------------------------------------------------


def _lines(cpu: int, sent: int, size: int) -> Any:
    """``cpu`` ms and ``sent`` bytes in a second of each node; ``size``: bytes of the index."""

    def lines(start: int, end: int) -> list[Event]:
        step = int(PERIOD_SECONDS * SECOND)
        used = [
            {
                "t": t,
                "kind": USED,
                "node": node,
                "cpu": cpu * t // SECOND,
                "sent": sent * t // SECOND,
                "up": t // 1_000_000,
            }
            for t in range(start - step, end + step + 1, step)
            for node in ("a-cm", "a-data", "b-cm", "b-data", "c-cm", "c-data")
        ]
        return [*used, {"t": end + step, "kind": STORED, "bytes": size, "documents": 10_000}]

    return lines


def _observe(context: Context) -> Costs | None:
    if context.existing is not None or not context.experiment.load.writers:
        return None
    return Costs(context.lab, ",".join(context.indices), context.folder / "history" / FILE, context.broken)


def _room(experiment: Experiment) -> float:
    return BYTES * len(experiment.topology.nodes) / PERIOD_SECONDS


SOUND = _lines(50, 20_000, 6_000_000)
INSTRUMENT = Instrument(
    name="costs",
    says="what the load cost the cluster: processor time, bytes between nodes, bytes on disk",
    observe=_observe,
    begins=Begins.INDEX,
    ends=Ends.LAST,
    order=85,
    room=_room,
    file=FILE,
    checks=CHECKS,
    trials=(
        Trial("costs.processor", "<= 60", SOUND, _lines(5_000, 20_000, 6_000_000)),
        Trial("costs.network", "<= 50000", SOUND, _lines(50, 2_000_000, 6_000_000)),
        Trial("costs.disk", "<= 1000", SOUND, _lines(50, 20_000, 60_000_000)),
    ),
    tables={"costs": table},
    section=section,
)
