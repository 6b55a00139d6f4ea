"""Documents that are there more than once, because a client sent them again and OpenSearch had given them ids.

A client that gets no answer cannot know whether its bulk was taken. Where it names its documents, sending them again
is safe: each is there once. Where OpenSearch gives the ids, each copy that was sent is a document of its own. Such
documents are known by what they were routed by (:mod:`chaos.load.bulks`), and the read-back counts them apart from
those that nothing explains (``documents.unexpected``). It decides only where a line asks: automatic ids are a choice.
Where nothing was sent again, that none is there twice shows nothing.
"""

from __future__ import annotations

from chaos.base import text
from chaos.checks import coverage
from chaos.checks.check import Check, Rests, Scope
from chaos.checks.measure import Measure
from chaos.checks.record import Record
from chaos.checks.trial import Altered, Trial, read_back
from chaos.checks.words import Words

SHOWN = 100


def measure(record: Record) -> Measure:
    """How many documents too many the read-back found; of a load with ids of its own those under one id."""
    readback = record.readback
    if readback is None:
        return Measure.missing("count", "there is no read-back, so copies were not counted")
    automatic = "stored_twice_count" in readback
    count = int(readback.get("stored_twice_count" if automatic else "duplicated_count") or 0)
    named = list(readback.get("stored_twice" if automatic else "duplicated") or [])[:SHOWN]
    gaps = [] if readback.get("complete") is True else ["the read-back is not complete"]
    gaps += coverage.unread_copies(record)
    if not readback.get("documents"):
        gaps.append("not one document was read back")
    says = f"{text.plural(count, 'document')} too many" if count else "each document is there once"
    evidence = {"stored_twice": named, "documents": readback.get("documents"), "automatic_ids": automatic}
    if automatic:
        evidence["sent_again"] = again = sent_again(record)
        says += f"; {text.plural(again, 'request')} had been sent again"
        if not again:
            gaps.append("no request was sent again, so nothing could be stored twice by it")
    return Measure.seen(count, says, gaps, evidence)


def sent_again(record: Record) -> int:
    """How often a request that writes was sent once more, by its client or by the retries of bulks."""
    again = 0
    for op in record.writers:
        tries = sum(number for (name, _), number in record.tries.items() if name == op.name)
        sent = sum(int((piece.start > 0).sum()) for piece in record.arrivals[op.name].pieces())
        again += max(0, tries - sent * op.bulks)
    return again


def sent_again_under_another_id(run: Altered) -> None:
    read_back(run, stored_twice=["w-5"], stored_twice_count=1)


CHECKS = (
    Check(
        "documents.stored_twice",
        "count",
        lambda record, _, span: measure(record),
        Words.of(
            missed="{measured} documents are there more than once; wanted was {want}",
            question="documents are there once",
            promise="Documents that are there more than once: {want}",
            short="documents stored twice",
        ),
        group="data",
        scope=Scope.RUN,
        rests=Rests.DATA,
        meaning=(
            "How many documents are there more often than they were to be, because a client sent them again without "
            "knowing that they had been taken. With ids of its own (ids: explicit) a client overwrites them; with ids "
            "that OpenSearch gives (ids: automatic) each is a document more."
        ),
        helps=("explicit-ids",),
        order=205,
        trial=Trial("0", None, (sent_again_under_another_id,)),
    ),
)
