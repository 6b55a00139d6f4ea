"""Documents that the cluster took: of those that were due to be written in a phase, the share that was acknowledged.

A request may write one document or, as a bulk, many; each is accounted for alone. A bulk that was answered says of each
document what became of it (:mod:`chaos.history.items`); of one that was not, all documents share its fate. Late is
acknowledged all the same, so this says how much data a shipper got rid of, and ``good`` how well it was served.
*Goodput* counts what was acknowledged in good requests only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from chaos.base import text
from chaos.checks.check import Check
from chaos.checks.good import needed
from chaos.checks.measure import Bound, Measure
from chaos.checks.prospect import Prospect
from chaos.checks.record import OUTCOMES, SECOND, Expected, LoadOperation, Record, Span
from chaos.checks.section import Curve, Row, Section
from chaos.checks.trial import Trial, five_seconds_without_an_answer, rejected_for_ten_seconds
from chaos.checks.words import Words
from chaos.history.format import ACKNOWLEDGED_ITEMS
from chaos.history.items import NAMES as ITEM_NAMES

TAKEN = frozenset(ITEM_NAMES[outcome] for outcome in ACKNOWLEDGED_ITEMS)
ACKNOWLEDGED = frozenset(("ok", "partial"))
"""Outcomes of requests of one document under which the cluster said that it has it."""
PLAIN = frozenset(("created", "ok"))
"""Outcomes that a table need not tell beside how many were acknowledged."""


def outcomes(record: Record, op: LoadOperation, span: Span) -> dict[str, int]:
    """What became of the documents of an operation that were due in a phase, and of how many: names of
    :class:`~chaos.history.format.ItemOutcome` where their bulk was answered for each, of the request's outcome
    otherwise."""
    arrivals = record.in_phase(op.name, span)
    if op.items == 1:
        return {name: number for name, code in OUTCOMES.items() if (number := int(arrivals.counts[code].sum()))}
    k, outcome = arrivals.k, arrivals.outcome
    alone = np.bincount(outcome[~np.isin(k, record.items.k)], minlength=len(OUTCOMES))
    found = Counter({f"request {name}": int(number) * op.items for name, number in zip(OUTCOMES, alone, strict=True)})
    found.update(record.items.counts(k))
    return {name: number for name, number in found.items() if number}


def figures(record: Record, op: LoadOperation, span: Span) -> dict[str, Any]:
    """Documents of an operation in a phase: offered (due), acknowledged, by outcome; and each second's. ``tries``: HTTP
    requests for each request that was acknowledged, in part at least. ``unrecorded``: documents of bulks that were
    answered, and of which the record has no outcome each; no answer of the cluster's leaves that out."""
    found = outcomes(record, op, span)
    arrivals = record.in_phase(op.name, span)
    taken = TAKEN if op.items > 1 else ACKNOWLEDGED
    acknowledged = sum(number for name, number in found.items() if name in taken)
    acknowledged += _forgiven(record, op, span) * op.items
    good = int(arrivals.counts[:, 1].sum()) * op.items
    per_second = {
        name: round(number / span.seconds, 3) if span.seconds else None
        for name, number in (
            ("offered_per_second", len(arrivals) * op.items),
            ("acknowledged_per_second", acknowledged),
            ("goodput", good),
        )
    }
    answered = int(arrivals.counts[[OUTCOMES[name] for name in ACKNOWLEDGED]].sum())
    tries = record.tries[(op.name, span.index)]
    return {
        "offered": len(arrivals) * op.items,
        "acknowledged": acknowledged,
        **per_second,
        "tries": round(tries / (answered * op.bulks), 3) if tries and answered else None,
        "unrecorded": _unrecorded(found),
        "outcomes": found,
    }


def _unrecorded(found: Mapping[str, int]) -> int:
    return sum(found.get(f"request {name}", 0) for name in ACKNOWLEDGED)


def _forgiven(record: Record, op: LoadOperation, span: Span) -> int:
    """Requests that count as good though they were not acknowledged: without this machine's own delay they had been
    (:mod:`.forgiving`)."""
    counts = record.in_phase(op.name, span).counts
    return int(counts[:, 1].sum() - counts[[OUTCOMES[name] for name in ACKNOWLEDGED], 1].sum())


def measure(record: Record, wanted: Expected, span: Span) -> Measure:
    """The share of documents that were acknowledged; no value with too few requests (:func:`.good.needed`)."""
    writers = record.writers
    if not writers:
        return Measure.missing("share", "the load writes nothing")
    requests = sum(len(record.in_phase(op.name, span)) for op in writers)
    least = needed(wanted.comparison, wanted.value)
    due = "that were sent" if all(op.closed for op in writers) else "that were due"
    counts = _of_all(record, writers, span)
    offered, acknowledged = int(counts["offered"]), int(counts["acknowledged"])
    if requests < least:
        what = f"only {text.count(requests)} requests that write in the phase, {text.count(least)} needed"
        return Measure.missing("share", what, **counts)
    known = TAKEN | ACKNOWLEDGED | {f"request {name}" for name in ACKNOWLEDGED}
    refused = {name: number for name, number in counts["outcomes"].items() if name not in known}
    says = f"{text.count(acknowledged)} acknowledged of {text.count(offered)} documents {due}"
    if refused:
        says = f"{says}; {text.listed(_told(refused))}"
    if counts["unrecorded"]:
        lacking = f"what became of {text.count(counts['unrecorded'])} of them was answered, and is not on record"
        return Measure(acknowledged / offered, "share", f"{says}; {lacking}", Bound.AT_LEAST, counts)
    return Measure(acknowledged / offered, "share", says, evidence=counts)


def _of_all(record: Record, writers: Sequence[LoadOperation], span: Span) -> dict[str, Any]:
    """The figures of all operations that write, together; of several with those of each (``operations``)."""
    each = {op.name: figures(record, op, span) for op in writers}
    if len(each) == 1:
        return next(iter(each.values()))
    found: Counter[str] = Counter()
    for of_one in each.values():
        found.update(of_one["outcomes"])
    summed = {name: sum(of_one[name] for of_one in each.values()) for name in ("offered", "acknowledged", "unrecorded")}
    return {**summed, "outcomes": dict(found), "operations": each}


def table(record: Record) -> dict[str, Any] | None:
    """The figures of each operation that writes, by phase; None where one alone does, whose requests write one document
    each at a rate."""
    writers = record.writers
    if not writers or (len(writers) == 1 and writers[0].items == 1 and not writers[0].closed):
        return None
    return {op.name: {span.name: figures(record, op, span) for span in record.spans} for op in writers}


SLICE = 5.0
"""Seconds of one point of the curves."""


def section(record: Record, tables: Mapping[str, Any]) -> Section | None:
    """What became of the documents of bulks, of a closed loop, or of several operations, by phase and over time; None
    where there are none."""
    found = tables.get("documents") or {}
    writers = [op for op in record.writers if found.get(op.name)]
    if not writers:
        return None
    several = len(writers) > 1
    rows = [
        (f"{op.name}, {phase}" if several else phase, row) for op in writers for phase, row in found[op.name].items()
    ]
    sent = [f"{op.name} ({f'{op.items} documents' if op.items > 1 else 'one document'} a request)" for op in writers]
    return Section(
        id="documents",
        title="Documents",
        short="Documents",
        says=f"What became of each document of the {'operations' if several else 'operation'} {text.listed(sent)}.",
        head=(
            "Operation, phase" if several else "Phase",
            "Offered#",
            "Acknowledged#",
            "Acknowledged/s#",
            "Goodput/s#",
            "Tries#",
            "What else became of them",
        ),
        rows=tuple(
            Row(
                phase,
                (
                    text.count(row["offered"]),
                    text.count(row["acknowledged"]),
                    *(text.NO_VALUE if each is None else f"{each:,.0f}".replace(",", " ") for each in _rates(row)),
                    text.NO_VALUE if row["tries"] is None else f"{row['tries']:.2f}",
                    text.listed(_told({name: n for name, n in row["outcomes"].items() if name not in PLAIN})),
                ),
            )
            for phase, row in rows
        ),
        curves=tuple(curve for op in writers for curve in _curves(record, op, f", {op.name}" if several else "")),
        lasted=(record.load_end - record.origin) / SECOND,
        edges=tuple((span.name, (span.start - record.origin) / SECOND) for span in record.spans),
        small=(
            "Goodput counts documents of good requests alone: whole, right and within their objective. Degraded ones "
            "are acknowledged, and a copy did not take them. Requests that were not answered for each document stand "
            "with their own outcome. Tries are HTTP requests for each request that was acknowledged"
            + (", by the number of bulks that its helper makes of it." if any(op.bulks > 1 for op in writers) else ".")
        ),
    )


def _told(outcomes: Mapping[str, int]) -> list[str]:
    """In words: a column of a table for each would leave the page."""
    return [f"{text.count(number)} {name.replace('_', ' ')}" for name, number in outcomes.items()]


def _rates(row: Mapping[str, Any]) -> tuple[float | None, float | None]:
    return row["acknowledged_per_second"], row["goodput"]


def _curves(record: Record, op: LoadOperation, of: str) -> Iterator[Curve]:
    """Documents offered and acknowledged a second, by when their requests were due. ``of``: goes on from the title."""
    arrivals = record.arrivals[op.name]
    if not len(arrivals):
        return
    at = (arrivals.intended - record.origin) / SECOND
    taken = np.zeros(len(arrivals))
    if op.items == 1:
        taken[np.isin(arrivals.outcome, [OUTCOMES[name] for name in ACKNOWLEDGED])] = 1
    else:
        each = np.zeros(0)
        if len(record.items):
            each = np.add.reduceat(record.items.acknowledged.astype(float), record.items.first[:-1])
        place = np.searchsorted(record.items.k, arrivals.k)
        known = np.isin(arrivals.k, record.items.k)
        taken[known] = each[place[known]]
    last = float(at.max())
    begins = np.arange(0.0, max(last - SLICE / 2, SLICE / 2), SLICE)  # a rest shorter than half a slice joins the last
    edges = np.append(begins, max(last, begins[-1] + SLICE / 2))
    for title, weights in (("Offered", np.full(len(at), float(op.items))), ("Acknowledged", taken)):
        sums = np.histogram(at, edges, weights=weights)[0] / np.diff(edges)
        pieces = zip(edges[:-1].tolist(), edges[1:].tolist(), sums.tolist(), strict=True)
        yield Curve(f"{title} documents a second{of}", "/s", tuple(pieces))


def _foresee(prospect: Prospect) -> Iterator[str]:
    return prospect.needs(needed(prospect.comparison, prospect.value), prospect.writes, "requests that write")


CHECKS = (
    Check(
        "documents.acknowledged",
        "percent",
        measure,
        Words.of(
            missed="Only {measured} of the documents that were due were acknowledged{inside}; wanted was {want}",
            question="enough documents were acknowledged{inside}",
            promise="Documents are acknowledged{inside}: {want}",
            short="documents acknowledged",
        ),
        group="writes",
        late=True,
        foresee=_foresee,
        meaning=(
            "The share of the documents due in the phase that the cluster acknowledged; of a bulk each document is "
            "counted alone. Late ones count: this is how much data a shipper got rid of without trying again. Those "
            "that are missing were refused one by one (429, a blocked index, a conflict, a mapping), or their whole "
            "request was refused or not answered."
        ),
        helps=("client-retries", "headroom", "failure-detection"),
        tables={"documents": table},
        section=section,
        order=12,
        trial=Trial(">= 98%", "dead", (five_seconds_without_an_answer, rejected_for_ten_seconds)),
    ),
)
