"""What the load cost the cluster: processor time, bytes between nodes and bytes on disk, held against what was written.

Every five seconds, and when a phase begins or ends, each node is asked for the counters of its own process
(``_nodes/_local/stats/process,jvm,transport``) over the direct path, which no fault touches. Once, before the lab goes
away and after the read-back has refreshed the index, the cluster is asked for its size (``_stats/store,docs``). Costs
are ratios, so that runs of other lengths and loads can be compared (:mod:`chaos.statistics.compare`, sides). Where the
load makes monitoring calls, what the elected cluster manager and the other nodes used is held against those calls too,
manager after manager where there were elections (:mod:`chaos.checks.spent`).

Lines of ``history/costs.jsonl``, ``t`` in CLOCK_MONOTONIC ns when the answer was there. Kind ``used``: ``node``,
``cpu`` (ms of its process) and ``sent`` (bytes to other nodes, as its transport counts them) since that process began,
``up`` (ms since then), ``old`` (ms: how old ``cpu`` was, for a node asks its process once a second). Kind ``stored``:
``bytes`` (files of all copies of all shards) and ``documents`` (of the primaries). Kind ``store``, where a service of
the lab has a process, when a phase begins or ends: ``cpu`` (ms) that it has used since it began, by the kernel. It is
counted apart: no node did that work, so it is no cost of nodes. On a cluster that is
not ours nothing is asked: its owners have allowed no such questions.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import urllib3

from chaos.base import text
from chaos.base.errors import ChaosError
from chaos.base.operations import ADMIN
from chaos.checks import documents
from chaos.checks.check import Check, Scope
from chaos.checks.instrument import Begins, Context, Ends, Event, Instrument, Observer, Trial
from chaos.checks.measure import Bound, Measure
from chaos.checks.record import SECOND, Record, Span
from chaos.checks.section import Row, Section
from chaos.checks.spent import COVERED, FILE, KINDS, USED, by_kind, led, used
from chaos.checks.words import Words
from chaos.definitions import Experiment
from chaos.history.writer import Broken, EventWriter
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.polling import Polling
from chaos.opensearch.rest import UNREADABLE
from chaos.opensearch.views import administer

STORED, STORE = "stored", "store"
NEAR_SECONDS = 3.0
"""So near a phase's edge a reading of the store's processor time must be."""
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
BYTES = 140
"""A node's line."""
SHORTEST_SECONDS = 10.0
"""Two readings of a counter, which are five seconds apart, must fit into a phase."""
LEAST = 0.5
"""The share of all nodes' time of which something must be known."""


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

    def __init__(
        self,
        lab: Cluster,
        index: str,
        file: Path,
        broken: Broken,
        of_store: Callable[[], int | None] = lambda: None,
    ) -> None:
        """``of_store``: ms of processor time that the store's process has used; None where there is none."""
        self._lab, self._index, self._file, self._broken = lab, index, file, broken
        self._of_store = of_store
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

    def edge(self) -> None:
        self._polling.soon()  # a node that is killed next has not been silent for long
        if (used := self._of_store()) is not None:
            self._write(STORE, cpu=used)

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


def of_store(record: Record) -> Measure:
    """Seconds of processors that the store's process used for 1,000 acknowledged documents."""
    if not record.spans:
        return Measure.missing("number", "there were no phases")
    readings = [(int(line["t"]), line.get("cpu")) for line in record.lines(FILE) if line.get("kind") == STORE]
    near = round(NEAR_SECONDS * SECOND)
    begin, end = record.spans[0].start, record.spans[-1].end
    first = next((cpu for t, cpu in readings if abs(t - begin) <= near), None)
    last = next((cpu for t, cpu in reversed(readings) if abs(t - end) <= near), None)
    if not isinstance(first, int) or not isinstance(last, int) or last < first:
        return Measure.missing("number", "no store of the lab with a process of its own was seen from first to last")
    acknowledged, _, _ = written(record)
    if not acknowledged:
        return Measure.missing("number", "no document was acknowledged")
    says = f"{(last - first) / 1000:.1f} s of processor time of the store, {text.count(acknowledged)} acknowledged"
    return Measure((last - first) / acknowledged, "number", says)


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


def calls(record: Record) -> int:
    """Monitoring calls that the load made in the phases."""
    return sum(len(record.in_phase(op.name, span).k) for op in record.operations if op.admin for span in record.spans)


def elected(record: Record, span: Span | None = None) -> Measure:
    """Which share of one processor the elected cluster manager used, in a phase or in all; after an election the new
    one's. Of a phase shorter than SHORTEST_SECONDS nothing is said: a node's counter may be a second old."""
    time = "phases" if span is None else "phase"
    spent = by_kind(record, "cpu", span).get("elected")
    if spent is None or not spent.wanted:
        return Measure.missing("share", f"no elected cluster manager was seen in the {time}")
    if span is not None and span.seconds < SHORTEST_SECONDS:
        return Measure.missing(
            "share", f"the phase is shorter than {SHORTEST_SECONDS:g} s, so counters tell too little"
        )
    share = led(record, span)
    if spent.seconds < LEAST * spent.wanted or share < LEAST:
        return Measure.missing("share", "too little is known of what the elected cluster manager used")
    says = f"{spent.grown / 1000:.1f} s of processor time in {text.seconds(spent.wanted)} as elected cluster manager"
    says += "" if share >= COVERED else f"; for {1 - share:.0%} of the {time} no cluster manager was seen"
    bound = Bound.EXACT if spent.whole and share >= COVERED else Bound.AT_LEAST
    return Measure(spent.grown / 1000 / spent.wanted, "share", says, bound)


def of_calls(record: Record, kind: str) -> Measure:
    """Processor seconds of the nodes of a kind for 1,000 monitoring calls, all else that they did included."""
    made, spent = calls(record), by_kind(record, "cpu").get(kind)
    if not made:
        return Measure.missing("number", "no monitoring call was made in the phases")
    if spent is None or not spent.wanted:
        return Measure.missing("number", "there was no such node in the phases")
    if spent.seconds < LEAST * spent.wanted:
        return Measure.missing("number", "too little is known of what these nodes used")
    whole = spent.whole and (kind not in ("elected", "managers") or led(record) >= COVERED)
    says = f"{spent.grown / 1000:.1f} s of processor time, {text.plural(made, 'monitoring call')}"
    return Measure(spent.grown / made, "number", says, Bound.EXACT if whole else Bound.AT_LEAST)


MEASURES: Mapping[str, tuple[Callable[[Record], Measure], str]] = {
    "processor": (processor, "Processor seconds for 1,000 acknowledged documents"),
    "network": (network, "Bytes between nodes for an acknowledged document"),
    "disk": (disk, "Bytes on disk, all copies, for a document of the index"),
    "goodput": (goodput, "Documents of good requests in a second"),
}
"""Where the load writes."""
OF_MANAGER: Mapping[str, tuple[Callable[[Record], Measure], str]] = {
    "elected": (elected, "Share of a processor that the elected cluster manager used"),
}
OF_CALLS: Mapping[str, tuple[Callable[[Record], Measure], str]] = {
    f"calls_{kind}": (
        functools.partial(of_calls, kind=kind),
        f"Processor seconds of {words} for 1,000 monitoring calls",
    )
    for kind, words in zip(
        KINDS,
        ("the elected cluster manager", "the other cluster managers", "data nodes", "nodes that only coordinate"),
        strict=True,
    )
}
"""Where the load makes monitoring calls."""
OF_STORE: Mapping[str, tuple[Callable[[Record], Measure], str]] = {
    "store": (of_store, "Processor seconds of the store for 1,000 acknowledged documents"),
}
"""Where a service of the lab has a process, beside what nodes used."""
EVERY = {**MEASURES, **OF_STORE, **OF_MANAGER, **OF_CALLS}


def table(record: Record) -> dict[str, Any] | None:
    """Name → figure; None of a run that did not record it. Nodes of a kind that a topology has not are left out."""
    if not record.lines(FILE) or not record.spans:
        return None
    apart = OF_STORE if any(line.get("kind") == STORE for line in record.lines(FILE)) else {}
    asked = {**({**MEASURES, **apart} if record.writers else {}), **OF_MANAGER}
    made = any(op.admin for op in record.operations)
    present = {name for name, spent in by_kind(record, "cpu").items() if spent.wanted}
    asked |= {name: each for name, each in OF_CALLS.items() if made and name.removeprefix("calls_") in present}
    return {name: _row(measure(record)) for name, (measure, _) in asked.items()}


def by_phase(record: Record) -> dict[str, Any] | None:
    """Phase → which share of a processor the elected cluster manager used in it; None of a run that did not record it,
    or in which it is not known of any phase."""
    if not record.lines(FILE):
        return None
    found = {span.name: elected(record, span) for span in record.spans}
    return {name: _row(measure) for name, measure in found.items() if measure.value is not None} or None


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
        rows=tuple(
            Row(words, (found[name]["text"], found[name]["says"]))
            for name, (_, words) in EVERY.items()
            if name in found
        ),
        small="By the nodes' own counters: processes, without Toxiproxies and the load; bytes as the transport layer "
        "counts them. A node that was not heard for long may have used more. For comparing runs of one machine.",
    )


def _check(name: str, short: str, meaning: str, order: int, unit: str = "number") -> Check:
    measure, words = EVERY[name]
    return Check(
        f"costs.{name}",
        unit,
        lambda record, _, span: measure(record),
        Words.of(
            missed=f"{words}: {{measured}}; wanted was {{want}}",
            question=f"{short} could be counted",
            promise=f"{words}: {{want}}",
            short=short,
        ),
        group="recovery",
        scope=Scope.RUN,
        of_service=name in OF_STORE,
        meaning=meaning,
        less_is_better=unit == "percent",
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
    _check(
        "elected",
        "processor time of the elected cluster manager",
        "Which share of one processor the elected cluster manager used in all phases, whatever for. Where another was "
        "elected, that of each while it was elected. More than one processor is more than 100 %.",
        823,
        "percent",
    ),
    _check(
        "store",
        "processor time of the store for 1,000 documents",
        "Processor seconds that the store's own process used for 1,000 acknowledged documents, beside what nodes used. "
        "A store that a provider runs is no cost of the cluster's; one on the same machine competes with the nodes.",
        824,
    ),
    Check(
        "manager.processor",
        "percent",
        lambda record, _, span: elected(record, span),
        Words.of(
            missed="The elected cluster manager used {measured} of a processor{inside}; wanted was {want}",
            question="what the elected cluster manager used{inside} could be counted",
            promise="Processor time of the elected cluster manager{inside}: {want}",
            short="processor time of the elected cluster manager",
        ),
        group="recovery",
        meaning=(
            "Which share of one processor the elected cluster manager used in the phase, whatever for. Where another "
            "was elected, that of each while it was elected. More than one processor is more than 100 %."
        ),
        less_is_better=True,
        helps=("headroom", "investigate"),
        order=825,
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
        of_store = [{"t": t, "kind": STORE, "cpu": cpu * t // SECOND} for t in (start, end)]
        return [*used, *of_store, {"t": end + step, "kind": STORED, "bytes": size, "documents": 10_000}]

    return lines


def _has_costs(experiment: Experiment) -> bool:
    """Whether the load has what costs are held against."""
    load = experiment.load
    return bool(load.writers) or any(each.operation == ADMIN for each in load.operations)


def _observe(context: Context) -> Costs | None:
    if context.existing is not None or not _has_costs(context.experiment):
        return None
    stores = context.experiment.topology.service_hosts
    of_store = (lambda: _used_by(context.lab, stores[0])) if stores else (lambda: None)
    return Costs(context.lab, ",".join(context.indices), context.folder / "history" / FILE, context.broken, of_store)


def _used_by(lab: Any, service: str) -> int | None:
    """ms of processor time that the process of a lab's service has used; None: it cannot be read."""
    used: int | None = lab.service_time(service)
    return used


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
        Trial("costs.elected", "<= 20%", SOUND, _lines(500, 20_000, 6_000_000)),
        Trial("costs.store", "<= 10", SOUND, _lines(5_000, 20_000, 6_000_000)),
        Trial("manager.processor", "<= 20%", SOUND, _lines(500, 20_000, 6_000_000)),
    ),
    tables={"costs": table, "manager_processor": by_phase},
    section=section,
)
