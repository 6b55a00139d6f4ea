"""Lag: how far replicas that copy segments are behind their primaries, and the writes that were rejected for it.

Once a second some node is asked for the replicas of those indices of the load that are of segment replication
(``_cat/segment_replication``), over the direct path, which no fault touches. Each time the worst is kept: since when
a replica has lacked the oldest checkpoint that it has not got, and the bytes that it has still to copy. The primary
says so, and the replica's node must say that it has ever copied: a replica on a node that does not answer within a
second, or that is away, has no row, and might be worse. Where no index is of segment replication nothing is begun.

Where backpressure is on (``segrep.pressure.enabled``) a primary rejects writes (429) while too many of its replicas are
too far behind. Each node counts what it rejected (``_nodes/stats/segment_replication_backpressure``), for as long as
its process lives, and is asked for that right after.

A line of ``history/replication.jsonl``, ``t`` in CLOCK_MONOTONIC ns when the answer was there, kind ``behind``:
``replicas`` (of how many there was a row), ``seconds``, ``checkpoints`` and ``bytes`` (each the largest of all
replicas), and ``index``, ``shard`` and ``node`` of the one whose ``seconds`` are the largest; null without a row.
And kind ``rejected``: by the name of each node that answered its count (``nodes``), and for how many ms its process
had been running (``up``; not in records of before, in which only a count that fell shows another process).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import urllib3

from chaos.base import text
from chaos.checks import evidence
from chaos.checks.check import Check
from chaos.checks.instrument import Begins, Context, Ends, Event, Instrument, Observer, Trial
from chaos.checks.measure import Bound, Measure
from chaos.checks.record import SECOND, SEGMENT, Record, Span
from chaos.checks.section import Curve, Row, Section
from chaos.checks.spent import SAME_SECONDS
from chaos.checks.words import Words
from chaos.definitions import Experiment
from chaos.history.writer import Broken, EventWriter
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.replication import REJECTIONS, Lag, parse, path, rejections
from chaos.opensearch.rest import UNREADABLE
from chaos.opensearch.reused import Reused

T = TypeVar("T")
L = TypeVar("L", "Look", "Counted")
FILE = "replication.jsonl"
BEHIND, REJECTED = "behind", "rejected"
PERIOD_SECONDS, TIMEOUT_SECONDS = 1.0, 2.5
NODE_SECONDS = 1
"""How long the node that is asked waits for each of the others."""
BYTES, NODE_BYTES = 320, 40
"""Of a look, and for each node beside that."""
REACH = 3 * PERIOD_SECONDS
"""For so long a look speaks: two may be missed."""
AROUND_SECONDS = 2 * PERIOD_SECONDS
"""A node that was silent for longer around a phase's edge may have rejected before it or after it."""
COVERED = 0.8
"""The share of a phase that must be known."""


# -- observing ---------------------------------------------------------------------------------------


def worst(seen: Sequence[Lag]) -> dict[str, Any]:
    """A line, from the rows of one answer."""
    first = max(seen, key=lambda lag: lag.seconds, default=None)
    return {
        "replicas": len(seen),
        "seconds": max((lag.seconds for lag in seen), default=0.0),
        "checkpoints": max((lag.checkpoints for lag in seen), default=0),
        "bytes": max((lag.bytes for lag in seen), default=0),
        "index": first.index if first is not None else None,
        "shard": first.shard if first is not None else None,
        "node": first.node if first is not None else None,
    }


class Replication(Observer):
    """Asks one node in a thread of its own, from :meth:`start` to :meth:`stop`; another one once it does not answer."""

    def __init__(self, lab: Cluster, copying: Callable[[], Sequence[str]], file: Path, broken: Broken) -> None:
        """``copying``: the indices that copy segments, when it starts."""
        self._lab = Reused(lab)
        self._copying, self._file, self._broken = copying, file, broken
        self._nodes = [node.name for node in lab.topology.data_nodes]
        self._events: EventWriter | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Nothing is begun where no index is of segment replication."""
        if copying := self._copying():
            self._events = EventWriter(self._file, self._broken)
            question = f"{path(copying)}&timeout={NODE_SECONDS}s"
            self._thread = threading.Thread(target=self._run, args=(question,), name="replication", daemon=True)
            self._thread.start()

    def stop(self, *, patient: bool = True) -> None:
        if self._over.is_set():
            return
        self._over.set()
        if self._thread is not None and self._events is not None:
            self._thread.join()
            self._lab.end()
            self._events.close()

    def _run(self, question: str) -> None:
        turn = 0
        while not self._over.is_set():
            began = time.monotonic()
            node = self._nodes[turn % len(self._nodes)]
            if (seen := self._ask(node, question, parse)) is None:
                turn += 1
            else:
                self._write(BEHIND, **worst(seen))
                if (counted := self._ask(node, f"{REJECTIONS}&timeout={NODE_SECONDS}s", rejections)) is not None:
                    self._write(REJECTED, nodes=counted.nodes, up=counted.up)
            self._over.wait(max(0.1, PERIOD_SECONDS - (time.monotonic() - began)))

    def _write(self, kind: str, **fields: Any) -> None:
        assert self._events is not None
        with suppress(OSError):  # the run has been told (``broken``), and ends
            self._events.write(kind, **fields)

    def _ask(self, node: str, question: str, read: Callable[[Any], T]) -> T | None:
        """What an answer says; None without one that can be read."""
        client = self._lab.client(node, timeout=TIMEOUT_SECONDS)
        try:
            status, answer = client.request("GET", question)
            return read(answer) if status == 200 else None
        except (urllib3.exceptions.HTTPError, *UNREADABLE):
            return None
        finally:
            client.close()


# -- judging -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """One answer. ``t`` in ns; ``replicas``: of how many there was a row."""

    t: int
    replicas: int
    seconds: float
    bytes: int
    checkpoints: int
    where: str


def looks(record: Record) -> list[Look]:
    """Those that are whole: a record may have been cut anywhere."""
    found = []
    for line in record.lines(FILE):
        given = [line.get(name) for name in ("replicas", "seconds", "bytes", "checkpoints")]
        numbers = [each for each in given if isinstance(each, int | float)]
        if line.get("kind") == BEHIND and len(numbers) == len(given):
            where = f"shard {line.get('shard')} of {line.get('index')} on {line.get('node')}"
            replicas, seconds, size, checkpoints = numbers
            found.append(Look(int(line["t"]), int(replicas), float(seconds), int(size), int(checkpoints), where))
    return sorted(found, key=lambda look: look.t)


def due(record: Record, seen: Sequence[Look]) -> int:
    """Of how many replicas there should be a row: by the indices as they were set up, or as many as there ever were."""
    shapes = [event for event in record.of_kind("index.shape") if event.get("replication") == SEGMENT]
    planned = sum(int(each.get("shards") or 0) * (int(each.get("copies") or 1) - 1) for each in shapes)
    return max([planned, *(look.replicas for look in seen)])


def _known(seen: Sequence[Look] | Sequence[Counted], span: Span) -> float:
    """The share of a phase of which some look speaks."""
    until, covered = span.start, 0.0
    for look in seen:
        start, end = max(until, look.t - int(REACH * SECOND)), min(span.end, look.t)
        if end > start:
            covered += (end - start) / SECOND
            until = end
    return covered / span.seconds if span.seconds else 0.0


UNITS = {"seconds": "seconds", "bytes": "number", "checkpoints": "count"}


def _measure(record: Record, span: Span, what: str) -> Measure:
    """The largest lag (``seconds``, ``bytes`` or ``checkpoints``) of a phase. Replicas of which nothing was heard could
    be worse."""
    unit = UNITS[what]
    every = looks(record)
    if not every:
        return Measure.missing(unit, "no index of the load was seen to be of segment replication")
    inside = [look for look in every if span.holds(look.t)]
    known = _known(every, span)
    if not inside or known < COVERED:
        return Measure.missing(unit, f"only {text.percent(min(1.0, known))} of this phase are known")
    wanted = due(record, every)
    whole = sum(look.replicas >= wanted for look in inside) / len(inside)
    if not any(look.replicas for look in inside):
        return Measure.missing(unit, "no replica had copied anything in this phase")
    largest = max(inside, key=lambda look: float(getattr(look, what)))
    value = float(getattr(largest, what))
    says = (
        f"{largest.where}, in {text.plural(len(inside), 'look')}"
        if what == "seconds"
        else (f"the replica that had most to copy, in {text.plural(len(inside), 'look')}")
    )
    evidence = {"looks": len(inside), "replicas": wanted}
    if whole < COVERED:
        says += f"; of all {text.plural(wanted, 'replica')} {text.percent(whole)} of the looks speak"
        return Measure(value, unit, says, Bound.AT_LEAST, evidence)
    return Measure(value, unit, says, evidence=evidence)


@dataclass(frozen=True)
class Counted:
    """One answer about rejected writes. ``t`` in ns; ``more``: how many were rejected since the answer before;
    ``nodes``: how many spoke; ``grew``: for each node that rejected some, since when (ns) and how many; ``unheard``:
    nodes that are another process than before, each with the time (ns) in which the one before may have rejected more:
    from its last answer until its end, or until the next one began where its end is not known."""

    t: int
    more: int
    nodes: int
    grew: tuple[tuple[int, int], ...] = ()
    unheard: tuple[tuple[str, int, int], ...] = ()

    def unsure_of(self, edge: int) -> int:
        """How many of them may have been rejected before a moment, because a node had been silent for long then."""
        return sum(more for since, more in self.grew if since < edge - int(AROUND_SECONDS * SECOND) and edge <= self.t)


def counts(record: Record) -> list[Counted]:
    """How many more writes were rejected from one answer to the next. A node that began after its last answer, or whose
    count is smaller than then, is another process, and counts anew; what was rejected before the first answer is no
    run's of ours."""
    found = []
    before: dict[str, tuple[int, int, int | None]] = {}
    ended = evidence.ended(record)
    lines = [
        line for line in record.lines(FILE) if line.get("kind") == REJECTED and isinstance(line.get("nodes"), dict)
    ]
    for line in sorted(lines, key=lambda line: int(line["t"])):
        now = {str(node): int(count) for node, count in line["nodes"].items() if isinstance(count, int)}
        t, up = int(line["t"]), line.get("up") or {}
        grew: list[tuple[int, int]] = []
        unheard: list[tuple[str, int, int]] = []
        for node, count in now.items():
            began = t - up[node] * 1_000_000 if isinstance(up.get(node), int) else None
            if node in before:
                since, was, first = before[node]
                late = began is not None and first is not None and began - first >= SAME_SECONDS * SECOND
                if late or count < was:
                    start = since if began is None else max(since, began)
                    gone = evidence.ended_between(ended, node, since, start)
                    unheard.append((node, since, start if gone is None else gone))
                    since, was = start, 0
                grew.append((since, count - was))
            before[node] = t, count, began
        more = sum(each for _, each in grew)
        found.append(Counted(t, more, len(now), tuple(each for each in grew if each[1]), tuple(unheard)))
    return found


def _replaced(every: Sequence[Counted], span: Span) -> list[str]:
    """The nodes of which a process ended in a phase, or may have, and was not heard for long before."""
    around = int(AROUND_SECONDS * SECOND)
    unheard = [stretch for each in every for stretch in each.unheard]
    return sorted({node for node, a, b in unheard if a < span.end and span.start < b and b - a > around})


def rejected(record: Record, span: Span) -> Measure:
    """How many requests were rejected in a phase, because replicas were too far behind. A node of which nothing was
    heard may have rejected more."""
    every = counts(record)
    if not every:
        return Measure.missing("count", "no node said how many writes it had rejected because of replicas")
    inside = [each for each in every if span.holds(each.t)]
    early = sum(each.unsure_of(span.start) for each in inside)
    late = sum(each.unsure_of(span.end) for each in every if each.t >= span.end)
    number, nodes = sum(each.more for each in inside) - early, max(each.nodes for each in every)
    known = _known(every, span)
    whole = sum(each.nodes >= nodes for each in inside) / len(inside) if inside else 0.0
    gaps = [] if known >= COVERED else [f"only {text.percent(min(1.0, known))} of this phase are known"]
    gaps += [] if whole >= COVERED or not inside else [f"of all {nodes} nodes {text.percent(whole)} of the looks speak"]
    if replaced := _replaced(every, span):
        gaps.append(f"what {text.listed(replaced)} rejected last, before another process took over, is not known")
    gaps += [f"{early} more may be of this phase or of the one before"] if early else []
    gaps += [f"{late} more may be of this phase or of a later one"] if late else []
    says = f"by the nodes' own counts, in {text.plural(len(inside), 'look')}"
    return Measure.seen(number, says, gaps, {"looks": len(inside), "nodes": nodes})


def table(record: Record) -> dict[str, Any]:
    """Phase → ``lag``, ``bytes_behind`` and, where nodes were asked for it, ``rejected``; empty where it was not looked
    at."""
    if not record.lines(FILE):
        return {}
    rows = {"lag": "seconds", "bytes_behind": "bytes"}
    asked = bool(counts(record))
    return {
        span.name: {name: _measure(record, span, what).to_json() for name, what in rows.items()}
        | ({"rejected": rejected(record, span).to_json()} if asked else {})
        for span in record.spans
    }


def section(record: Record, tables: Mapping[str, Any]) -> Section | None:
    found = tables.get("replication")
    if not found or not record.spans:
        return None
    begin, end = record.spans[0].start, record.spans[-1].end
    seen = [look for look in looks(record) if begin <= look.t < end]
    counted = [each for each in counts(record) if begin <= each.t < end]
    asked = any("rejected" in row for row in found.values())
    rows = tuple(
        Row(
            phase,
            (
                row["lag"]["text"],
                _count(row["bytes_behind"]["value"]),
                *((row["rejected"]["text"] if "rejected" in row else text.NO_VALUE,) if asked else ()),
                row["lag"]["says"],
            ),
        )
        for phase, row in found.items()
    )
    curves: tuple[Curve, ...] = (
        Curve("Lag of the replica that is furthest behind", "s", _curve(seen, begin, lambda look, _: look.seconds)),
        Curve("Bytes that a replica has to copy, at most", "B", _curve(seen, begin, lambda look, _: float(look.bytes))),
    )
    if asked:
        rejections = _curve(counted, begin, lambda each, seconds: each.more / seconds)
        curves = (
            *curves,
            Curve("Writes that primaries rejected because replicas were too far behind", "/s", rejections),
        )
    return Section(
        id="replication",
        title="How far replicas were behind",
        short="Replication",
        says="Of each phase the replica that was furthest behind its primary: since when it lacked the oldest "
        "checkpoint that it had not copied, and the most bytes that one had still to copy."
        + (" And how many requests primaries rejected because of that." if asked else ""),
        head=("Phase", "Lag#", "Bytes to copy#", *(("Rejected#",) if asked else ()), "Which"),
        rows=rows,
        curves=curves,
        lasted=(end - begin) / SECOND,
        edges=tuple((span.name, (span.start - begin) / SECOND) for span in record.spans),
        small="By the primaries (_cat/segment_replication), asked every second over the direct path. A replica on a "
        "node that does not answer, or is away, has no row.",
    )


def _count(value: float | None) -> str:
    return text.NO_VALUE if value is None else text.count(int(value))


def _curve(seen: Sequence[L], begin: int, value: Callable[[L, float], float]) -> tuple[tuple[float, float, float], ...]:
    """Each look speaks of the time since the one before, and of :data:`REACH` seconds at most. ``value``: of a look and
    these seconds."""
    pieces = []
    before = None
    for look in seen:
        at = (look.t - begin) / SECOND
        since = max(0.0, at - REACH if before is None else max(before, at - REACH))
        if at > since:
            pieces.append((since, at, value(look, at - since)))
        before = at
    return tuple(pieces)


MEANING = (
    "{} A search of a replica shows what it has copied, and a copy that is promoted must replay the rest. Where a node "
    "is paused, cut off or away, nothing is heard of its replicas: then no upper limit is met."
)


def _check(
    metric: str,
    unit: str,
    measure: Callable[[Record, Span], Measure],
    missed: str,
    short: str,
    meaning: str,
    order: int,
) -> Check:
    return Check(
        metric,
        unit,
        lambda record, _, span: measure(record, span),
        Words.within_bounds(missed, short),
        group="data",
        of_replicas=True,
        meaning=meaning,
        helps=("segment-pressure", "replication-type", "headroom"),
        order=order,
    )


CHECKS = (
    _check(
        "replication.lag",
        "duration",
        lambda record, span: _measure(record, span, "seconds"),
        "A replica was {measured} behind its primary",
        "lag of replicas",
        MEANING.format("Since when, at worst, a replica lacked segments of its primary."),
        830,
    ),
    _check(
        "replication.bytes_behind",
        "number",
        lambda record, span: _measure(record, span, "bytes"),
        "A replica had {measured} bytes of its primary still to copy",
        "bytes that replicas have to copy",
        MEANING.format("How many bytes of its primary's segments a replica had still to copy, at worst."),
        831,
    ),
    _check(
        "replication.checkpoints_behind",
        "count",
        lambda record, span: _measure(record, span, "checkpoints"),
        "A replica had {measured} checkpoints of its primary still to copy",
        "checkpoints that replicas have to copy",
        MEANING.format("How many refreshes of its primary a replica had still to copy, at worst."),
        833,
    ),
    _check(
        "replication.rejected",
        "count",
        rejected,
        "{measured} writes were rejected because replicas were too far behind",
        "writes rejected because of replicas",
        "Requests that primaries rejected (429) because too many of their replicas were too far behind, by the nodes' "
        "own count. It says that backpressure acted; to clients these documents are rejected items.",
        832,
    ),
)


# -- what the checks are tried by ----------------------------------------------------------------------


def _lines(seconds: float, size: int, rejected: int = 0, checkpoints: int = 2) -> Any:
    """``rejected``: by each of three nodes in each look."""

    def lines(start: int, end: int) -> list[Event]:
        where = {"index": "chaos", "shard": 1, "node": "c-data"}
        found: list[Event] = []
        for number, t in enumerate(range(start, end + 1, int(PERIOD_SECONDS * SECOND))):
            behind = {"replicas": 6, "seconds": seconds, "checkpoints": checkpoints, "bytes": size}
            nodes = ("a-data", "b-data", "c-data")
            counted: Event = {"nodes": dict.fromkeys(nodes, 7 + number * rejected)}
            counted["up"] = dict.fromkeys(nodes, t // 1_000_000)
            found += [{"t": t, "kind": BEHIND, **behind, **where}, {"t": t, "kind": REJECTED, **counted}]
        return found

    return lines


def _observe(context: Context) -> Replication:
    return Replication(context.lab, lambda: context.copying, context.folder / "history" / FILE, context.broken)


def _room(experiment: Experiment) -> float:
    if not experiment.segments:
        return 0.0
    return (BYTES + NODE_BYTES * len(experiment.topology.nodes)) / PERIOD_SECONDS


INSTRUMENT = Instrument(
    name="replication",
    says="how far replicas that copy segments are behind their primaries, and what is rejected for it",
    observe=_observe,
    begins=Begins.INDEX,
    ends=Ends.LOAD,
    order=87,
    room=_room,
    file=FILE,
    checks=CHECKS,
    trials=(
        Trial("replication.lag", "<= 2s", _lines(0.3, 20_000), _lines(9.0, 20_000)),
        Trial("replication.bytes_behind", "<= 1000000", _lines(0.3, 20_000), _lines(0.3, 20_000_000)),
        Trial("replication.checkpoints_behind", "<= 5", _lines(0.3, 20_000), _lines(0.3, 20_000, checkpoints=40)),
        Trial("replication.rejected", "0", _lines(0.3, 20_000), _lines(0.3, 20_000, rejected=2)),
    ),
    tables={"replication": table},
    section=section,
)
