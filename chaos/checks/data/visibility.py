"""How long after its acknowledgement is a document found by a search, on each node? From the probes of visibility.

One value for each document and node that answered: from the acknowledgement to the first answer that had it (the
truth is at most one pause between searches earlier). A node that never gave a whole answer about a document says
nothing about it, nor does one that gave no more of them until the document was given up on: it went away. One that gave
none for a time and then one with the document was away: its clock runs from the last search that it did not answer.
One that answered without the document to the end is censored: visible later than the last such search was sent. A
quantile over censored values is exact only where it would be the same however late they came; else it is known from
below. A document counts for the phase in which it was acknowledged. A verdict that would be another one without the
time that was not the cluster's does not count (:mod:`chaos.checks.forgiving`).

As with arrivals, a look that was still open, and within the bound that it is held against, when the next phase's fault
was commanded counts for that phase: it met the fault. So it is of runs whose plan says :data:`BY_PHASE`; in the tables,
which know no bound, documents count by their acknowledgement alone.

Where replicas copy segments (read from the index, event ``index.shape``) they show a document later than its primary by
design. So ``visible.*`` counts looks at nodes that held the primary of the document's shard all the time, and
``replicas.visible.*`` all others: of replicas, of a copy that was promoted meanwhile, and of a node without a copy,
which asks any. Where the primaries were is known to a second (``cluster.primary``).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.base import text
from chaos.base.ids import probe_id
from chaos.checks.check import Check
from chaos.checks.clocks import Clock
from chaos.checks.data.operations import planned
from chaos.checks.latency import QUANTILES, needed, quantile
from chaos.checks.measure import Bound, Measure
from chaos.checks.prospect import Prospect
from chaos.checks.record import SECOND, SEGMENT, Expected, Record, Span
from chaos.checks.trial import Altered, Event, Mutation, Trial
from chaos.checks.words import Words
from chaos.history.events import FaultCommand
from chaos.opensearch.routing import shard_of

NAMES = ("p50", "p90", "p99")
BY_PHASE = "looks_by_phase"
"""The key of plan.json by which looks that a fault met count for its phase. Runs without it are judged as they were."""


def forgiven(record: Record, clock: Clock) -> list[dict[str, Any]]:
    """The probes with each document found earlier by the time that ``clock`` says was not the cluster's."""
    acknowledged = {event["n"]: int(event["t"]) for event in record.probes if event["kind"] == "written"}
    found = [event for event in record.probes if event["kind"] == "seen" and event["n"] in acknowledged]
    begin = np.array([acknowledged[event["n"]] for event in found], np.int64)
    end = np.array([int(event["t"]) for event in found], np.int64)
    waited = (clock.between(begin, end) * SECOND).astype(np.int64)
    earlier = {id(event): int(t - wait) for event, t, wait in zip(found, end, waited, strict=True)}
    return [{**event, "t": earlier[id(event)]} if id(event) in earlier else event for event in record.probes]


def known_by(record: Record, span: Span, at: int) -> Record | None:
    """The record with each look as it was at ``at`` (ns, after the phase); None where all of this phase were over."""
    acknowledged = {event["n"]: int(event["t"]) for event in record.probes if event["kind"] == "written"}
    later = [each for each in record.probes if each["kind"] in ("seen", "unseen") and int(each["t"]) > at]
    if not any(acknowledged.get(each["n"], at) < span.end for each in later):
        return None
    other = copy.copy(record)
    cut = {id(each): _unseen_by(each, at) for each in later}
    other.probes = [cut.get(id(each), each) for each in record.probes]
    return other


def _unseen_by(look: Event, at: int) -> Event:
    """A look as it was at a moment before its end. One at a node that had given no answer says nothing then."""
    answered = look["kind"] == "seen" and look.get("silent") is None
    missed = at if answered else look.get("missed")
    return {**look, "kind": "unseen", "missed": None if missed is None else min(at, int(missed))}


@dataclass(frozen=True)
class Sighting:
    """One document on one node. ``seconds``: until it was visible, or, if not ``seen``, certainly longer than that."""

    n: int
    node: str
    zone: str
    acknowledged: int
    seconds: float
    seen: bool
    hits: int
    over: int
    """When it was seen or given up on (ns)."""
    primary: bool | None = None
    """Whether the node held the primary of the document's shard all the time; None: replicas need no telling apart."""


def looks(record: Record) -> list[Sighting]:
    """Every document on every node that gave an answer about it."""
    acknowledged = {
        event["n"]: int(event["t"]) for event in record.probes if event["kind"] == "written" and event["acknowledged"]
    }
    found = []
    primaries = Primaries(record) if record.segments else None
    for event in record.probes:
        began = acknowledged.get(event["n"])
        if began is None or event["kind"] not in ("seen", "unseen"):
            continue
        seen = event["kind"] == "seen"
        until = event["t"] if seen else event["missed"]
        if until is not None and not event.get("away"):
            since = max(began, int(event.get("silent") or 0)) if seen else began
            # one that answered without it, and then no more, was as late as that at least
            missed = int(event["missed"]) - began if seen and event.get("missed") is not None else 0
            seconds = max(0.0, (int(until) - since) / SECOND, missed / SECOND)
            hits = int(event.get("hits") or 0)
            n, node = int(event["n"]), str(event["node"])
            primary = None if primaries is None else primaries.on(n, began, int(event["t"])) == {node}
            found.append(Sighting(n, node, event["zone"], began, seconds, seen, hits, int(event["t"]), primary))
    return found


def of_phase(record: Record, found: list[Sighting], span: Span, bound: float) -> list[Sighting]:
    """The looks that count for a phase when they are held against a bound (s; 0: by their acknowledgement alone)."""
    before = record.spans[span.index - 1] if span.index else None
    own, following = _command(record, span.index), _command(record, span.index + 1)

    def met(each: Sighting, command: int | None) -> bool:
        return command is not None and command - round(bound * SECOND) < each.acknowledged and command < each.over

    return [
        each
        for each in found
        if (span.holds(each.acknowledged) and not met(each, following))
        or (before is not None and before.holds(each.acknowledged) and met(each, own))
    ]


def _command(record: Record, index: int) -> int | None:
    """When the first fault of a phase was commanded that may have met looks of the phase before (ns)."""
    if not record.plan.get(BY_PHASE) or index >= len(record.spans):
        return None
    return next((event.t for event in record.seen(FaultCommand, span=record.spans[index])), None)


class Primaries:
    """Where the primary of each shard of the load's first index was, and when; from the events of the cluster."""

    def __init__(self, record: Record) -> None:
        shape = record.first("index.shape") or {}
        routing = next((e for e in record.of_kind("index.routing") if e["index"] == shape.get("index")), None)
        self._shards, self._routing_shards = (
            (int(routing["shards"]), int(routing["routing_shards"])) if routing is not None else (0, 0)
        )
        self._moves: dict[int, list[tuple[int, str | None]]] = {}
        for event in record.of_kind("cluster.primary"):
            if event["index"] == shape.get("index"):
                self._moves.setdefault(int(event["shard"]), []).append((int(event["t"]), event["node"]))

    def on(self, n: int, start: int, end: int) -> set[str | None]:
        """All nodes (None: no node) that held the primary of a probe's shard between two moments; empty: not known."""
        moves = self._moves.get(shard_of(probe_id(n), self._shards, self._routing_shards), []) if self._shards else []
        before = [node for t, node in moves if t <= start]
        return {*before[-1:], *(node for t, node in moves if start < t <= end)}


def of_primaries(record: Record) -> list[Sighting]:
    """The looks that ``visible.*`` is of: all, but where replicas copy segments those at primaries alone."""
    return [each for each in looks(record) if each.primary is not False]


def of_replicas(record: Record) -> list[Sighting]:
    """The looks at others than primaries, where replicas copy segments."""
    return [each for each in looks(record) if each.primary is False]


def of(found: list[Sighting], name: str) -> Measure:
    """A quantile of some looks."""
    q, n = QUANTILES[name], len(found)
    seen = sum(each.seen for each in found)
    evidence = {"looks": n, "seen": seen, "documents": len({each.n for each in found})}
    if n < needed(q):
        return Measure.missing("seconds", f"only {n} looks at documents, {needed(q)} are needed for {name}", **evidence)
    says = (
        f"{text.count(seen)} of {text.count(n)} looks (document and node) found it; "
        f"{text.plural(evidence['documents'], 'document')}"
    )
    low = quantile(np.array([each.seconds for each in found]), q)
    high = quantile(np.array([each.seconds if each.seen else np.inf for each in found]), q)
    if high == low:
        return Measure(low, "seconds", says, evidence=evidence)
    return Measure(low, "seconds", f"{says}, the others were given up on", Bound.MORE_THAN, evidence)


def measure(record: Record, span: Span, name: str, bound: float = 0.0) -> Measure:
    """``visible.<name>`` of the looks that count for one phase, held against a bound (s)."""
    if planned(record, "visibility") is None:
        return Measure.missing("seconds", "the load has no probes of visibility")
    return of(of_phase(record, of_primaries(record), span, bound), name)


def measure_replicas(record: Record, span: Span, name: str, bound: float = 0.0) -> Measure:
    """``replicas.visible.<name>`` of the looks that count for one phase, held against a bound (s)."""
    if planned(record, "visibility") is None:
        return Measure.missing("seconds", "the load has no probes of visibility")
    if not record.segments:
        return Measure.missing("seconds", "the load's index is not of segment replication: see visible")
    return of(of_phase(record, of_replicas(record), span, bound), name)


def replication(record: Record) -> str:
    """DOCUMENT or SEGMENT, as it was read from the index; of runs of before from the topology's index settings."""
    if known := (record.first("index.shape") or {}).get("replication"):
        return str(known)
    settings = ((record.plan.get("topology") or {}).get("settings") or {}).get("index") or {}
    given = settings.get("index.replication.type") or settings.get("replication.type")
    return str(given).upper() if given else "DOCUMENT"


def table(record: Record) -> dict[str, Any]:
    """Figures by phase, node and zone."""
    found = looks(record)

    def row(some: list[Sighting]) -> dict[str, Any]:
        shown: dict[str, Any] = {"looks": len(some), "seen": sum(each.seen for each in some)}
        for name in NAMES:
            known = of(some, name)
            shown[name] = {"value": known.value, "text": known.text, "bound": known.bound.value}
        return shown

    def phases(some: list[Sighting]) -> dict[str, Any]:
        return {span.name: row([o for o in some if span.holds(o.acknowledged)]) for span in record.spans}

    apart = {"replicas": phases(of_replicas(record))} if record.segments else {}
    return {
        "replication": replication(record),
        "phases": phases(of_primaries(record)),
        **apart,
        "nodes": {name: row([o for o in found if o.node == name]) for name in sorted({o.node for o in found})},
        "zones": {name: row([o for o in found if o.zone == name]) for name in sorted({o.zone for o in found})},
    }


def _measure(record: Record, wanted: Expected, span: Span) -> Measure:
    return measure(record, span, wanted.metric.rpartition(".")[2], _bound(wanted))


def _measure_replicas(record: Record, wanted: Expected, span: Span) -> Measure:
    return measure_replicas(record, span, wanted.metric.rpartition(".")[2], _bound(wanted))


def _bound(wanted: Expected) -> float:
    """Seconds after which a look is late; 0 where none is."""
    return wanted.value if wanted.comparison in ("<=", "<") else 0.0


def foresee(prospect: Prospect) -> Iterator[str]:
    """Too few looks: each document is looked for on each data node."""
    return prospect.needs(needed(QUANTILES[prospect.quantity.rpartition(".")[2]]), prospect.looks, "looks at documents")


def _seen(run: Altered, share: int) -> list[Event]:
    begin, end = run.span("dead")
    return [e for e in run.probes if e["kind"] == "seen" and begin <= e["t"] < end - 3 * SECOND][::share]


def found_three_seconds_later(run: Altered) -> None:
    for event in _seen(run, 1):
        event["t"] += 3 * SECOND


def never_found_on_one_node(run: Altered) -> None:
    for event in _seen(run, 1):
        if event["node"] == "c-data":
            del event["hits"]
            event |= {"kind": "unseen", "missed": event["t"] + 30 * SECOND}


def a_few_found_late(run: Altered) -> None:
    for event in _seen(run, 10):
        event["t"] += 3 * SECOND


BROKEN_BY: dict[str, tuple[Mutation, ...]] = {
    "p50": (found_three_seconds_later,),
    "p90": (found_three_seconds_later, never_found_on_one_node),
    "p99": (found_three_seconds_later, never_found_on_one_node, a_few_found_late),
}


def replicas_copy_segments(run: Altered) -> None:
    """The same run, whose index is of segment replication."""
    run.add("healthy", -1.0, "index.shape", index="chaos", replication=SEGMENT)


def replicas_showed_what_was_written_three_seconds_later(run: Altered) -> None:
    held = {event["node"] for event in run.of_kind("cluster.primary")}
    for event in _seen(run, 1):
        if event["node"] in held:
            event["t"] += 3 * SECOND


OF_PRIMARIES = tuple(
    Check(
        f"visible.{name}",
        "duration",
        _measure,
        Words.of(
            missed="Acknowledged writes took {measured} to be found by a search{inside}; wanted was {want}",
            question="writes could be found in time{inside}",
            promise="Acknowledged writes can be found{inside}: {want}",
            short=f"visible.{name}",
        ),
        group="data",
        needs=("visibility",),
        late=True,
        known_by=known_by,
        foresee=foresee,
        meaning=(
            "How long acknowledged writes took until a search found them. With segment replication replicas show a "
            "write only after a segment was copied."
        ),
        helps=("replication-type", "segment-pressure", "zone-failover", "headroom"),
        order=130,
        trial=Trial("<= 2s", "dead", BROKEN_BY[name]),
    )
    for name in NAMES
)
OF_REPLICAS = tuple(
    Check(
        f"replicas.visible.{name}",
        "duration",
        _measure_replicas,
        Words.of(
            missed="Replicas took {measured} to show acknowledged writes to a search{inside}; wanted was {want}",
            question="replicas showed writes in time{inside}",
            promise="Replicas show acknowledged writes{inside}: {want}",
            short=f"replicas.visible.{name}",
        ),
        group="data",
        needs=("visibility",),
        late=True,
        known_by=known_by,
        foresee=foresee,
        of_replicas=True,
        meaning=(
            "How long acknowledged writes took until a search of a replica found them, where replicas copy segments: "
            "the refresh interval of the primary, and the copying. A search of the load is answered by any copy."
        ),
        helps=("replication-type", "segment-pressure", "zone-failover", "headroom"),
        order=131,
        trial=Trial(
            "<= 2s", "dead", (replicas_showed_what_was_written_three_seconds_later,), given=(replicas_copy_segments,)
        ),
    )
    for name in NAMES
)
CHECKS = (*OF_PRIMARIES, *OF_REPLICAS)
