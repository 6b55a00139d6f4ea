"""Shard copies that the cluster began to build on a node that held none of that shard before.

Counted from the sampler's events in the phase. Seeing no move means something only while the sampler saw
the cluster: without one answered sample, or with a stretch of more than 10 s without one, the count is a
lower bound.
"""

from __future__ import annotations

import itertools

from chaos.checks.check import Check, Rests
from chaos.checks.measure import Bound, Measure
from chaos.checks.record import SECOND, Record, Span
from chaos.checks.trial import Altered, Trial
from chaos.checks.words import Words, filled, many
from chaos.history.events import ShardMoved

BLIND = 10.0
"""Seconds without an answered sample after which moves may have been missed."""


def longest_blind(record: Record, span: Span) -> float | None:
    """The longest stretch of the phase (s) without an answered sample; None when there was none at all."""
    seen = [int(event["t"]) for event in record.within(span, "sample") if int(event.get("ok") or 0) > 0]
    if not seen:
        return None
    edges = [span.start, *seen, span.end]
    return max(b - a for a, b in itertools.pairwise(edges)) / SECOND


def measure(record: Record, span: Span) -> Measure:
    """Shard copies that began to move in one phase."""
    blind = longest_blind(record, span)
    if blind is None:
        return Measure.missing("count", "the cluster answered no sample in this phase")
    moves = record.seen(ShardMoved, span=span)
    evidence = {
        "moves": [
            {"index": event.index, "shard": event.shard, "node": event.node, "at": record.since_start(event.t)}
            for event in moves[:100]
        ],
        "longest_blind_seconds": blind,
    }
    if blind > BLIND:
        says = f"no answer from the cluster for {blind:.0f} s of the phase; moves may have been missed"
        if not moves:
            return Measure.missing("count", says, **evidence)
        return Measure(float(len(moves)), "count", says, Bound.AT_LEAST, evidence)
    return Measure(float(len(moves)), "count", "copies that began to be built elsewhere", evidence=evidence)


def a_shard_moved(run: Altered) -> None:
    run.add("dead", 12.0, "cluster.shard_moved", index="chaos", shard=1, node="a-data")


CHECKS = (
    Check(
        "shards.moved",
        "count",
        lambda record, _, span: measure(record, span),
        Words(
            lambda item, _: (
                many(item, "shard copy", "shard copies") + filled(" moved{inside}; wanted was {want}", item)
            ),
            lambda item: filled("shard copies moved{inside}", item),
            lambda item: filled("Shard copies that move{inside}: {want}", item),
            "shard copies moved",
        ),
        group="movement",
        rests=Rests.COPIES,
        meaning=(
            "Shard copies that began to be built on a node that had none of them. During an outage this costs disk, "
            "network and processors when they are scarcest, and it takes as long as the shards are large."
        ),
        helps=("forced-awareness", "delayed-allocation", "retention-leases"),
        tables={"moved": lambda record: {span.name: measure(record, span).to_json() for span in record.spans}},
        order=60,
        trial=Trial("0", "dead", (a_shard_moved,)),
    ),
)
