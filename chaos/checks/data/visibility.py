"""How long after its acknowledgement is a document found by a search, on each node? From the probes of visibility.

One value for each document and node that answered: from the acknowledgement to the first answer that had it (the
truth is at most one pause between searches earlier). A node that never gave a whole answer about a document says
nothing about it, nor does one that gave no more of them until the document was given up on: it went away. One that gave
none for a time and then one with the document was away: its clock runs from the last search that it did not answer.
One that answered without the document to the end is censored: visible later than the last such search was sent. A
quantile over censored values is exact only where it would be the same however late they came; else it is known from
below. A document counts for the phase in which it was acknowledged. A verdict that would be another one without the
time that was not the cluster's does not count (:mod:`chaos.checks.forgiving`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.base import text
from chaos.checks.check import Check
from chaos.checks.clocks import Clock
from chaos.checks.data.operations import planned
from chaos.checks.latency import QUANTILES, needed, quantile
from chaos.checks.measure import Bound, Measure
from chaos.checks.prospect import Prospect
from chaos.checks.record import SECOND, Expected, Record, Span
from chaos.checks.trial import Altered, Event, Mutation, Trial
from chaos.checks.words import Words

NAMES = ("p50", "p90", "p99")


def forgiven(record: Record, clock: Clock) -> list[dict[str, Any]]:
    """The probes with each document found earlier by the time that ``clock`` says was not the cluster's."""
    acknowledged = {event["n"]: int(event["t"]) for event in record.probes if event["kind"] == "written"}
    found = [event for event in record.probes if event["kind"] == "seen" and event["n"] in acknowledged]
    begin = np.array([acknowledged[event["n"]] for event in found], np.int64)
    end = np.array([int(event["t"]) for event in found], np.int64)
    waited = (clock.between(begin, end) * SECOND).astype(np.int64)
    earlier = {id(event): int(t - wait) for event, t, wait in zip(found, end, waited, strict=True)}
    return [{**event, "t": earlier[id(event)]} if id(event) in earlier else event for event in record.probes]


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


def looks(record: Record) -> list[Sighting]:
    """Every document on every node that gave an answer about it."""
    acknowledged = {
        event["n"]: int(event["t"]) for event in record.probes if event["kind"] == "written" and event["acknowledged"]
    }
    found = []
    for event in record.probes:
        began = acknowledged.get(event["n"])
        if began is None or event["kind"] not in ("seen", "unseen"):
            continue
        seen = event["kind"] == "seen"
        until = event["t"] if seen else event["missed"]
        if until is not None and not event.get("away"):
            since = max(began, int(event.get("silent") or 0)) if seen else began
            seconds = max(0.0, (int(until) - since) / SECOND)
            hits = int(event.get("hits") or 0)
            found.append(Sighting(int(event["n"]), event["node"], event["zone"], began, seconds, seen, hits))
    return found


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


def measure(record: Record, span: Span, name: str) -> Measure:
    """``visible.<name>`` of the documents acknowledged in one phase."""
    if planned(record, "visibility") is None:
        return Measure.missing("seconds", "the load has no probes of visibility")
    return of([each for each in looks(record) if span.holds(each.acknowledged)], name)


def replication(record: Record) -> str:
    """DOCUMENT or SEGMENT, from the topology's index settings."""
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

    return {
        "replication": replication(record),
        "phases": {span.name: row([o for o in found if span.holds(o.acknowledged)]) for span in record.spans},
        "nodes": {name: row([o for o in found if o.node == name]) for name in sorted({o.node for o in found})},
        "zones": {name: row([o for o in found if o.zone == name]) for name in sorted({o.zone for o in found})},
    }


def _measure(record: Record, wanted: Expected, span: Span) -> Measure:
    return measure(record, span, wanted.metric.partition(".")[2])


def foresee(prospect: Prospect) -> Iterator[str]:
    """Too few looks: each document is looked for on each data node."""
    return prospect.needs(needed(QUANTILES[prospect.quantity.partition(".")[2]]), prospect.looks, "looks at documents")


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


CHECKS = tuple(
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
