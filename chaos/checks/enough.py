"""Did the load write enough for a word about its writes? Without this "nothing was lost" could be said of nothing.

Two conditions, both on what the load did and not on what the cluster made of it (a cluster that refuses writes in a
phase cannot lose them there):

* in each phase at least :data:`SENT` of the writes that its rate and length demand were sent;
* over the run at least :data:`ACKNOWLEDGED` writes were acknowledged: had one in a hundred been lost, one at least
  would have been among them with a probability of 95 % (1 - 0.99^299).

They spoil findings about data only. A loss that was seen stands, whatever was written.
"""

from __future__ import annotations

import itertools

from chaos.base import text
from chaos.checks.evidence import Gap, Spoils
from chaos.checks.record import Record

SENT = 0.9
"""Share of a phase's scheduled writes that must have been sent."""
ACKNOWLEDGED = 299


def foreseen(rate: float, seconds: float) -> str | None:
    """The note where ``rate`` writes per second for ``seconds`` are too few for a word about data; None: enough."""
    if rate * seconds >= ACKNOWLEDGED:
        return None
    return (
        f"what is expected of data may be inconclusive: {text.count(rate * seconds)} writes at {rate:g}/s in "
        f"{text.seconds(seconds)} of phases, and {ACKNOWLEDGED} that are acknowledged are needed to find a loss of one "
        f"in a hundred: {text.seconds(ACKNOWLEDGED / rate)} of phases, or {ACKNOWLEDGED / seconds:.3g}/s"
    )


def gaps(record: Record) -> tuple[Gap, ...]:
    """What was written too little, in words."""
    if not record.writers:
        return (Gap("the load wrote nothing, so nothing that it wrote could be lost", None, Spoils.DATA),)
    found = []
    several = len(record.writers) > 1
    for span, load in itertools.product(record.spans, [op for op in record.writers if not op.closed]):
        due = int(record.due(load, span.start, span.end))
        # by when they were due: what a fault hits while it is under way counts for that fault's phase
        due_here = record.arrivals[load.name].between(span.start, span.end)
        sent = sum(int((piece.start > 0).sum()) for piece in due_here.pieces())
        if sent < SENT * due:
            of = f" of {load.name}" if several else ""
            says = f"in {span.name} only {text.count(sent)} of {text.count(due)} writes{of} that were due were sent"
            found.append(Gap(says, None, Spoils.DATA))
    acknowledged = record.acknowledged_writes
    if acknowledged < ACKNOWLEDGED:
        says = (
            f"only {text.plural(acknowledged, 'write')} of the load were acknowledged, "
            f"and {ACKNOWLEDGED} are needed to find a loss of one in a hundred"
        )
        found.append(Gap(says, None, Spoils.DATA))
    return tuple(found)
