"""Protections: what each node refused or cancelled to save itself, by its own counters, phase by phase.

Every five seconds, and when a phase begins or ends, each node is asked for the counters of its protections
(``_nodes/_local/stats/…``) over the direct path, which no fault touches: cancellations of search backpressure,
rejections of admission control, of indexing pressure (of the node and of shards) and of segment replication, tasks
that the cluster manager throttled, rejections of thread pools, breakers that tripped. A node that does not answer is
given up after 1.5 s; its next answer reaches back over the gap. A process begins at 0. A node whose version does not
know one of them refuses the question, and nothing is known of it. In ``monitor_only`` search backpressure counts
nothing (it writes its log), and admission control counts as it does when it refuses.

A line of ``history/protections.jsonl``, ``t`` in CLOCK_MONOTONIC ns when the answer was there, kind ``counted``:
``node``; ``seconds`` since its answer before, or since its process began; ``grew``: by how much each counter grew in
them, where it did; ``now``: what it holds at this moment and lets go again, where it is not 0
(``indexing_pressure.bytes``, ``search_backpressure.running``: tasks that still run 10 s after they were cancelled). The
first answer of a process that was there before us has ``seconds`` 0. On a cluster that is not ours nothing is asked:
its owners have allowed no such questions (``target rights``).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from chaos.base import text
from chaos.checks import cancelled, evidence
from chaos.checks.check import Check
from chaos.checks.instrument import Begins, Context, Ends, Event, Instrument, Observer, Trial
from chaos.checks.measure import Measure
from chaos.checks.record import SECOND, Record, Span
from chaos.checks.section import Row, Section
from chaos.checks.words import Words
from chaos.definitions import Experiment
from chaos.history.format import ItemOutcome, Outcome
from chaos.history.writer import Broken, EventWriter
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.polling import Polling
from chaos.opensearch.protections import OF_METRIC, Error

FILE = cancelled.COUNTERS
COUNTED = "counted"
METRICS = (
    "jvm,search_backpressure,task_cancellation,admission_control,indexing_pressure,shard_indexing_pressure,"
    "cluster_manager_throttling,segment_replication_backpressure,thread_pool,breaker"
)
FIELDS = (
    "jvm.timestamp",
    "jvm.uptime_in_millis",
    "search_backpressure.*.cancellation_stats",
    "task_cancellation.*.current_count_post_cancel",
    "admission_control",
    "indexing_pressure.memory.current.all_in_bytes",
    "indexing_pressure.memory.total.*_rejections",
    "shard_indexing_pressure.total_rejections_breakup*",
    "cluster_manager_throttling.stats.throttled_tasks_per_task_type",
    "segment_replication_backpressure.total_rejected_requests",
    "thread_pool.*.rejected",
    "breakers.*.tripped",
)
PATH = f"/_nodes/_local/stats/{METRICS}?filter_path={','.join(f'nodes.*.{each}' for each in FIELDS)}"
PERIOD_SECONDS, TIMEOUT_SECONDS = 5.0, 1.5
BYTES = 110
"""A node's line; where something grew it is longer."""
COVERED = 0.95
"""The share of a phase that must be known of a node; below it, it may have refused more."""
SAME_MS = 1000
"""Uptime and timestamp are taken one after the other; by more than this it is another process."""
SHARDS = "shard_indexing_pressure."
SHADOW = f"{SHARDS}shadow."
"""Of what shard indexing pressure would refuse: it is enabled and not enforced. A node has one set of counters, whose
name follows what is in force at the moment."""
SEGMENTS = "segment_replication_backpressure."
LIMITED = "search_backpressure.limit_reached"
"""How often it wanted to cancel more than it may."""


# -- observing ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """Of one node. ``at`` and ``up``: ms, by its own clock; ``counters``: since its process began; ``held``: now."""

    at: int
    up: int
    counters: Mapping[str, int]
    held: Mapping[str, int]

    @property
    def began(self) -> int:
        return self.at - self.up


def counted(body: Any) -> Answer:
    """What a node answered. A counter that it has not begun yet is not in it. Raises one of UNREADABLE."""
    (own,) = body["nodes"].values()
    found = dict(_counters(own))
    held = {"indexing_pressure.bytes": int(own["indexing_pressure"]["memory"]["current"]["all_in_bytes"])}
    cancelled = own.get("task_cancellation") or {}
    held["search_backpressure.running"] = sum(int(each["current_count_post_cancel"]) for each in cancelled.values())
    if min((*found.values(), *held.values())) < 0:
        raise ValueError(f"no counters: {found}, {held}")
    return Answer(int(own["jvm"]["timestamp"]), int(own["jvm"]["uptime_in_millis"]), found, held)


def _counters(own: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for task, each in (own.get("search_backpressure") or {}).items():
        stats = each["cancellation_stats"]
        yield f"search_backpressure.{task}", int(stats["cancellation_count"])
        yield f"{LIMITED}.{task}", int(stats["cancellation_limit_reached_count"])
    for resource, each in (own.get("admission_control") or {}).items():
        counts = (each.get("transport") or {}).get("rejection_count") or {}
        for action, count in counts.items():
            yield f"admission_control.{resource.removeprefix('global_').removesuffix('_usage')}.{action}", int(count)
    for role, count in own["indexing_pressure"]["memory"]["total"].items():
        yield f"indexing_pressure.{role.removesuffix('_rejections')}", int(count)
    for name, limits in own["shard_indexing_pressure"].items():
        prefix = SHADOW if name.endswith("_shadow_mode") else SHARDS
        for limit, count in limits.items():
            yield f"{prefix}{limit}", int(count)
    throttled = (own.get("cluster_manager_throttling") or {}).get("stats") or {}
    for task, count in (throttled.get("throttled_tasks_per_task_type") or {}).items():
        yield f"manager_throttling.{task}", int(count)
    behind = own.get("segment_replication_backpressure") or {}
    yield f"{SEGMENTS}rejected", int(behind.get("total_rejected_requests", 0))
    for pool, each in own["thread_pool"].items():
        if "rejected" in each:
            yield f"thread_pools.{pool}", int(each["rejected"])
    for breaker, each in own["breakers"].items():
        yield f"circuit_breakers.{breaker}", int(each["tripped"])


def same(before: Answer, now: Answer) -> bool:
    """Whether two answers are of one process."""
    return abs(now.began - before.began) <= SAME_MS


def was_there(now: Answer, seconds: float) -> bool:
    """Whether a process that answers ran so long ago already, whatever its machine's clock was set to since."""
    return now.up > 1000 * seconds + SAME_MS


def grown(before: Answer, now: Answer) -> dict[str, int] | None:
    """By how much counters grew between two answers of one process; None where one fell, which no counter does."""
    done = {name: count - _held(before.counters, name) for name, count in now.counters.items()}
    return None if any(count < 0 for count in done.values()) else {name: n for name, n in done.items() if n}


def _held(counters: Mapping[str, int], name: str) -> int:
    """What a counter came to; one of shard indexing pressure under either of its names."""
    if name in counters or not name.startswith(SHARDS):
        return counters.get(name, 0)
    limit = name.removeprefix(SHADOW).removeprefix(SHARDS)
    return max(counters.get(f"{prefix}{limit}", 0) for prefix in (SHARDS, SHADOW))


class Protections(Observer):
    """Asks every node in a thread of its own, from :meth:`start` to :meth:`stop`."""

    def __init__(self, lab: Cluster, file: Path, broken: Broken) -> None:
        self._file, self._broken = file, broken
        self._polling = Polling(
            lab, PATH, self._answered, name="protections", period=PERIOD_SECONDS, timeout=TIMEOUT_SECONDS
        )
        self._before: dict[str, tuple[float, Answer]] = {}
        self._lock = threading.Lock()
        self._began = 0.0
        self._events: EventWriter | None = None

    def start(self) -> None:
        self._events = EventWriter(self._file, self._broken)
        self._began = time.monotonic()
        self._polling.start()

    def edge(self) -> None:
        self._polling.soon()

    def stop(self, *, patient: bool = True) -> None:
        if self._polling.stop(once_more=patient) and self._events is not None:
            self._events.close()

    def _answered(self, node: str, body: Any) -> None:
        now, moment = counted(body), time.monotonic()
        with self._lock:
            before, self._before[node] = self._before.get(node), (moment, now)
        seconds, grew = self._since(before, now, moment)
        if self._events is not None:
            held = {name: count for name, count in now.held.items() if count}
            more: dict[str, Any] = {key: value for key, value in (("grew", grew), ("now", held)) if value}
            with suppress(OSError):  # the run has been told (``broken``), and ends
                self._events.write(COUNTED, node=node, seconds=round(seconds, 3), **more)

    def _since(self, before: tuple[float, Answer] | None, now: Answer, moment: float) -> tuple[float, dict[str, int]]:
        """Of how many seconds an answer speaks, and what grew in them."""
        if before is not None and (same(before[1], now) or was_there(now, moment - before[0])):
            grew = grown(before[1], now)
            return (0.0, {}) if grew is None else (moment - before[0], grew)
        gap = moment - (self._began if before is None else before[0])
        if before is None and now.up / 1000 >= gap:  # it was there before us
            return 0.0, {}
        return min(now.up / 1000, gap), {name: count for name, count in now.counters.items() if count}


# -- judging -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stretch:
    """Of one node: from when to when (monotonic ns), what grew in between, and what it held at the end."""

    node: str
    start: int
    end: int
    grew: Mapping[str, int]
    held: Mapping[str, int]

    def seconds_in(self, span: Span) -> float:
        return max(0, min(self.end, span.end) - max(self.start, span.start)) / SECOND

    def within(self, span: Span) -> bool:
        return span.start <= self.start and self.end <= span.end


def stretches(record: Record) -> list[Stretch]:
    """Those that are whole, by time: a record may have been cut anywhere. A node that is proven to have no process
    counts nothing until its next one begins."""
    found: list[Stretch] = []
    heard: dict[str, int] = {}
    ended = evidence.ended(record)
    for line in record.lines(FILE):
        seconds = line.get("seconds")
        if line.get("kind") == COUNTED and isinstance(seconds, int | float) and line.get("node") in record.zone_of:
            start = int(line["t"]) - round(seconds * SECOND)
            grew, held = (_numbers(line.get(name)) for name in ("grew", "now"))
            node, end = str(line["node"]), int(line["t"])
            last = heard.get(node, end)
            if (gone := evidence.ended_between(ended, node, last, start)) is not None:
                found.append(Stretch(node, gone, start, {}, {}))
            found.append(Stretch(node, start, end, grew, held))
            heard[node] = end
    return sorted(found, key=lambda each: each.end)


def _numbers(given: Any) -> dict[str, int]:
    if not isinstance(given, Mapping):
        return {}
    return {str(name): n for name, n in given.items() if isinstance(n, int) and not isinstance(n, bool)}


@dataclass
class Counts:
    """Of one phase. ``known``: node → the share of it; ``counts``: counter → node → by how much it grew in it for sure;
    ``around``: the same, of what grew while the phase began or ended, and may not be of it."""

    known: dict[str, float] = field(default_factory=dict)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    around: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def unknown(self) -> list[str]:
        return sorted(node for node, share in self.known.items() if share < COVERED)


def known(span: Span, mine: Sequence[Stretch]) -> float:
    """The share of a phase that is known of one node. An answer is written a moment after it came, so two stretches in
    a row may overlap by some milliseconds: such a moment counts once."""
    covered, until = 0, span.start
    for each in sorted(mine, key=lambda each: each.start):
        end = min(each.end, span.end)
        covered += max(0, end - max(each.start, until))
        until = max(until, end)
    return covered / (span.end - span.start) if span.end > span.start else 0.0


def of_phase(record: Record, every: Sequence[Stretch], span: Span) -> Counts:
    """What a phase's counters came to."""
    found = Counts({node: 0.0 for node in record.zone_of})
    for node in found.known:
        found.known[node] = known(span, [each for each in every if each.node == node])
    for each in every:
        if not each.seconds_in(span):
            continue
        rows = found.counts if each.within(span) else found.around
        for name, n in each.grew.items():
            row = rows.setdefault(name, {})
            row[each.node] = row.get(each.node, 0) + n
    return found


@dataclass(frozen=True)
class Protection:
    """One of them. ``prefix``: how its counters begin, but for those that begin as ``but``."""

    metric: str
    prefix: str
    did: str
    short: str
    meaning: str
    helps: tuple[str, ...]
    but: str | None = None

    def owns(self, counter: str) -> bool:
        return counter.startswith(self.prefix) and not (self.but is not None and counter.startswith(self.but))


EVERY = (
    Protection(
        "search_backpressure.cancelled",
        "search_backpressure.",
        "Search backpressure cancelled {measured} tasks",
        "tasks that search backpressure cancelled",
        "Searches that nodes in duress cancelled, of coordinating nodes and of shards; in monitor_only it counts none.",
        ("headroom", "investigate"),
        LIMITED,
    ),
    Protection(
        "admission_control.rejected",
        "admission_control.",
        "Admission control counted {measured} requests over its limits",
        "requests over the limits of admission control",
        "Requests that nodes over their limit of processor or disk use refused; in monitor_only those that they would.",
        ("headroom", "investigate"),
    ),
    Protection(
        "indexing_pressure.rejected",
        "indexing_pressure.",
        "Indexing pressure refused {measured} operations",
        "operations that indexing pressure refused",
        "Operations of bulks that nodes refused because too many bytes were under way: as coordinating node, primary "
        "or replica. Of a refused replica the copy fails.",
        ("headroom", "client-retries"),
    ),
    Protection(
        "shard_indexing_pressure.rejected",
        "shard_indexing_pressure.",
        "Shard indexing pressure refused {measured} operations",
        "operations that shard indexing pressure refused",
        "Operations that a node refused of one shard that is slow or stuck, where that is enforced.",
        ("headroom", "client-retries"),
        SHADOW,
    ),
    Protection(
        "shard_indexing_pressure.would_reject",
        SHADOW,
        "Shard indexing pressure would have refused {measured} operations",
        "operations that shard indexing pressure would have refused",
        "Operations that it would have refused, where it is enabled and not enforced.",
        ("headroom", "client-retries"),
    ),
    Protection(
        "manager_throttling.throttled",
        "manager_throttling.",
        "The cluster manager throttled {measured} tasks",
        "tasks that the cluster manager throttled",
        "Tasks that the elected cluster manager refused because too many of their kind were queued. The node that was "
        "asked sends each again after 2.5 to 5 s, so clients see a delay or a timeout, and never a refusal.",
        ("headroom", "investigate"),
    ),
    Protection(
        f"{SEGMENTS}rejected",
        SEGMENTS,
        "Backpressure of segment replication refused {measured} requests",
        "requests that backpressure of segment replication refused",
        "Writes that primaries refused because too many of their replicas were too far behind, counted by the node of "
        "the primary; replication.rejected is the same count, beside the lag of indices that copy segments.",
        ("segment-pressure", "client-retries"),
    ),
    Protection(
        "thread_pools.rejected",
        "thread_pools.",
        "Thread pools refused {measured} tasks",
        "tasks that thread pools refused",
        "Tasks that a thread pool refused because its queue was full, of any pool.",
        ("headroom", "client-retries"),
    ),
    Protection(
        "circuit_breakers.tripped",
        "circuit_breakers.",
        "Circuit breakers tripped {measured} times",
        "requests that circuit breakers refused",
        "How often a circuit breaker, of any kind, refused what would have taken too much heap.",
        ("breakers", "headroom"),
    ),
)


def measure(record: Record, span: Span, protection: Protection) -> Measure:
    """By how much its counters grew in a phase, on all nodes. A node that was not heard may have refused more."""
    every = stretches(record)
    return _measure(of_phase(record, every, span) if every else None, protection)


def _measure(found: Counts | None, protection: Protection) -> Measure:
    if found is None:
        return Measure.missing("count", "nodes were not asked for their counters")
    if len(found.unknown) == len(found.known):
        return Measure.missing("count", "of no node enough is known of this phase")
    mine, around = (_sums(rows, protection) for rows in (found.counts, found.around))
    shares = [f"{text.count(n)} by {name}" for name, n in sorted(mine.items())]
    says = [text.listed(shares) if shares else "no counter grew"]
    if around:
        says.append(f"{text.count(sum(around.values()))} more while the phase began or ended")
    if unknown := found.unknown:
        which = text.listed(unknown) if len(unknown) < 4 else f"{len(unknown)} nodes"
        says.append(f"of {which} too little is known")
    return Measure.seen(sum(mine.values()), says[0], says[1:], {"counters": mine})


def _sums(rows: Mapping[str, Mapping[str, int]], protection: Protection) -> dict[str, int]:
    return {
        name.removeprefix(protection.prefix): sum(of.values()) for name, of in rows.items() if protection.owns(name)
    }


# -- answers in the same seconds ---------------------------------------------------------------------

REFUSALS: Mapping[str, tuple[Outcome, ItemOutcome | None]] = {
    "429": (Outcome.REJECTED, ItemOutcome.REJECTED),
    "5xx": (Outcome.SERVER_ERROR, None),
}
ANSWERED_LATER = 2 * SECOND
"""An answer to what a node refused comes within so long after it (ns): a bulk is answered when its last shard has."""


def answered(record: Record, windows: Sequence[tuple[int, int]], status: str) -> dict[str, int]:
    """Operation → how many of its arrivals were answered so within some windows (ns), a document of a bulk included."""
    outcome, item = REFUSALS[status]
    bulks = np.empty(0, np.int64)
    if item is not None and len(record.items):
        refused = np.flatnonzero(record.items.outcome == int(item))
        bulks = record.items.k[np.searchsorted(record.items.first, refused, "right") - 1]
    found: dict[str, int] = {}
    for op, arrivals in record.arrivals.items():
        number = 0
        for piece in arrivals.pieces():
            mine = piece.outcome == int(outcome)
            if len(bulks):
                mine = mine | ((piece.outcome == int(Outcome.PARTIAL)) & np.isin(piece.k, bulks))
            ends = piece.end[mine]
            inside = np.zeros(len(ends), bool)
            for start, end in windows:
                inside |= (ends >= start) & (ends <= end + ANSWERED_LATER)
            number += int(inside.sum())
        if number:
            found[op] = number
    return found


COUNTED_EVERY = SECOND
"""How far back the counts of a driver's ``self`` event reach (ns)."""


@dataclass(frozen=True)
class Told:
    """``number`` errors of one kind that clients of an operation were told. ``reason``: of the first of the run, None
    where it was told at another time."""

    op: str
    status: str
    type: str
    reason: str | None
    number: int


def errors(record: Record, windows: Sequence[tuple[int, int]]) -> list[Told]:
    """The errors that clients were told within some windows (ns), as the driver counted them each second; each with its
    reason, where the first of its kind was told within them."""
    number: Counter[tuple[str, int, str]] = Counter()
    reasons: dict[tuple[str, int, str], str] = {}
    for event in record.driver:
        at = int(event.get("t") or 0)
        if not any(start <= at <= end + ANSWERED_LATER + COUNTED_EVERY for start, end in windows):
            continue
        if event.get("kind") == "answer.error":
            reasons.setdefault((event["op"], event["status"], event["type"]), str(event.get("reason") or ""))
        for op, status, type_, _, count in event.get("errors") or ():
            number[op, status, type_] += int(count)
    return [
        Told(op, "5xx" if 500 <= status < 600 else str(status), type_, reasons.get((op, status, type_)), count)
        for (op, status, type_), count in sorted(number.items())
    ]


def tried(told: Sequence[Told]) -> dict[str, dict[str, int]]:
    """Status → operation → errors of that status, whatever their type. An arrival that was refused and sent again until
    it was taken is none of those in :func:`answered`; each of its refusals is here."""
    found: dict[str, dict[str, int]] = {}
    for each in told:
        if each.status in REFUSALS:
            row = found.setdefault(each.status, {})
            row[each.op] = row.get(each.op, 0) + each.number
    return found


def named(told: Sequence[Told], error: Error) -> dict[str, dict[str, int]]:
    """Status → operation → errors that are those of one protection, by their type and their text."""
    found: dict[str, dict[str, int]] = {}
    for each in told:
        if error.told(each.status, each.type, each.reason):
            row = found.setdefault(each.status, {})
            row[each.op] = row.get(each.op, 0) + each.number
    return found


def table(record: Record) -> dict[str, Any]:
    """``phases``: phase → ``known``, ``counts``, ``around`` (see :class:`Counts`) and ``metrics``: metric → its figure.
    Where its counters grew the figure has ``answers``, status → operation → arrivals that were answered so meanwhile;
    and where errors were told in these seconds, ``tries``, the same of every try, ``errors``, each kind of them
    (:class:`Told`), and ``named``, status → operation → those with the type and the text of this protection. ``end``:
    what each node held at its last answer, and the ``unheard``, of which none came after the last phase. Empty where
    nothing was asked."""
    every = stretches(record)
    if not every or not record.spans:
        return {}
    phases = {}
    for span in record.spans:
        found = of_phase(record, every, span)
        phases[span.name] = {
            "known": {node: round(share, 3) for node, share in found.known.items()},
            "counts": found.counts,
            "around": found.around,
            "metrics": {each.metric: _row(record, every, found, span, each) for each in EVERY},
        }
    last = {each.node: each for each in every if each.end >= record.spans[-1].end}
    held = {node: dict(each.held) for node, each in last.items() if each.held}
    return {"phases": phases, "end": {"held": held, "unheard": sorted(set(record.zone_of) - set(last))}}


def _row(record: Record, every: Sequence[Stretch], found: Counts, span: Span, protection: Protection) -> dict[str, Any]:
    row = _measure(found, protection).to_json()
    windows = [
        (each.start, each.end)
        for each in every
        if each.within(span) and any(protection.owns(name) for name in each.grew)
    ]
    if windows:
        row["answers"] = {status: ops for status in REFUSALS if (ops := answered(record, windows, status))}
        known_error = OF_METRIC.get(protection.metric)
        if told := errors(record, windows):
            row["tries"] = tried(told)
        if told and known_error is not None and known_error.error is not None:
            row["errors"] = [vars(each) for each in told]
            row["named"] = named(told, known_error.error)
    return row


def section(record: Record, tables: Mapping[str, Any]) -> Section | None:
    found = (tables.get("protections") or {}).get("phases") or {}
    rows = sorted(
        {
            (counter, node)
            for row in found.values()
            for part in ("counts", "around")
            for counter, nodes in row[part].items()
            for node in nodes
        }
    )
    if not rows:
        return None
    return Section(
        id="protections",
        title="What protections refused or cancelled",
        short="Protections",
        says="By how much the counters of each node's protections grew in each phase, where any did. After a plus "
        "stands what grew while a phase began or ended: it may be of the one beside it.",
        head=("Counter", "Node", *(f"{text.clip(phase, 24)}#" for phase in found)),
        rows=tuple(
            Row(counter, (node, *(_cell(row, counter, node) for row in found.values()))) for counter, node in rows
        ),
        small="By the nodes themselves, asked every five seconds and when phases begin and end, over the direct path. "
        "A node that was not heard for 5 % of a phase (?) may have counted more. A process begins at 0.",
    )


def _cell(row: Mapping[str, Any], counter: str, node: str) -> str:
    sure, around = (row[part].get(counter, {}).get(node, 0) for part in ("counts", "around"))
    doubt = "?" if row["known"].get(node, 0.0) < COVERED else ""
    return f"{text.count(sure)}{f' + {text.count(around)}' if around else ''}{doubt}"


def _check(place: int, protection: Protection) -> Check:
    return Check(
        protection.metric,
        "count",
        lambda record, _, span: measure(record, span, protection),
        Words.of(
            missed=f"{protection.did}{{inside}}; wanted was {{want}}",
            question=f"{protection.short} were as many as wanted{{inside}}",
            promise=f"{protection.short[0].upper()}{protection.short[1:]}{{inside}}: {{want}}",
            short=protection.short,
        ),
        group="recovery",
        meaning=protection.meaning + " Counted by each node since its process began; of a node that was not heard for "
        "5 % of a phase it is a lower bound.",
        helps=protection.helps,
        order=840 + place,
    )


CHECKS = tuple(_check(place, each) for place, each in enumerate(EVERY))


# -- what the checks are tried by ----------------------------------------------------------------------

NODES = ("a-cm", "a-data", "b-cm", "b-data", "c-cm", "c-data")


def _lines(counter: str, n: int) -> Callable[[int, int], list[Event]]:
    """A counter of c-data that grows by ``n`` with each answer."""

    def lines(start: int, end: int) -> list[Event]:
        step = int(PERIOD_SECONDS * SECOND)
        moments = [*range(start + step, end, step), end]
        return [
            {"t": t, "kind": COUNTED, "node": node, "seconds": (t - before) / SECOND}
            | ({"grew": {counter: n}} if n and node == NODES[-1] else {})
            for before, t in zip([start, *moments], moments, strict=False)
            for node in NODES
        ]

    return lines


def _trial(protection: Protection) -> Trial:
    counter = f"{protection.prefix}x"
    return Trial(protection.metric, "<= 1", _lines(counter, 0), _lines(counter, 3))


def _observe(context: Context) -> Protections | None:
    if context.existing is not None:
        return None
    return Protections(context.lab, context.folder / "history" / FILE, context.broken)


def _room(experiment: Experiment) -> float:
    return BYTES * len(experiment.topology.nodes) / PERIOD_SECONDS


INSTRUMENT = Instrument(
    name="protections",
    says="what each node refused or cancelled to save itself, by its own counters",
    observe=_observe,
    begins=Begins.INDEX,
    ends=Ends.LOAD,
    order=89,
    room=_room,
    file=FILE,
    checks=CHECKS,
    trials=tuple(map(_trial, EVERY)),
    tables={"protections": table},
    section=section,
)
