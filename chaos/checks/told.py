"""What clients were told of their documents, and what is so: documents that are lost without a word to their client,
and documents that their client takes for failed and that were stored.

Helpers of client libraries cut documents into bulks, send some again, and tell their caller something at last
(:mod:`chaos.load.calls`). An exception may name a few documents, or none; a count may hide one. So a caller can be
misled though every answer on the wire was right. A load without a helper has no such caller, and no value here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chaos.base import text
from chaos.checks import coverage
from chaos.checks.check import Check, Rests, Scope
from chaos.checks.measure import Measure
from chaos.checks.record import Record
from chaos.checks.section import Row, Section
from chaos.checks.trial import Altered, Trial, read_back
from chaos.checks.words import Words

WORDS = {
    "stored": "Stored",
    "failed": "Failed, by name",
    "raised": "The call failed (an exception that does not name them)",
    "nothing": "Nothing",
    "never_sent": "The call failed, and they were never sent",
    "cut_short": "Not yet: the load was over",
}
"""What a caller was told, in the order of the table."""


def _of(record: Record, name: str, says: Callable[[int], str]) -> Measure:
    """How many documents have one of the two fates."""
    readback = record.readback
    if readback is None:
        return Measure.missing("count", "there is no read-back to hold what clients were told against")
    told = readback.get("told")
    if told is None:
        return Measure.missing("count", "no helper of a client library sent documents, so no caller was told of them")
    count = int(told.get(f"{name}_count") or 0)
    gaps = [] if readback.get("complete") is True else ["the read-back is not complete"]
    gaps += coverage.unread_copies(record)
    unknown = sum(int(each.get("unknown") or 0) for each in told["fates"].values())
    if unknown:
        gaps.append(f"whether {text.plural(unknown, 'document')} are there is not known")
    if not sum(int(each.get("documents") or 0) for each in told["fates"].values()):
        gaps.append("no helper was given a document")
    return Measure.seen(count, says(count), gaps, {name: list(told.get(name) or []), "fates": told["fates"]})


def lost(record: Record) -> Measure:
    return _of(
        record,
        "lost_untold",
        lambda count: (
            f"{text.plural(count, 'document')} are lost and their client was told of no failure"
            if count
            else "of every document that is not there its client was told of a failure"
        ),
    )


def there(record: Record) -> Measure:
    return _of(
        record,
        "told_failed_but_stored",
        lambda count: (
            f"{text.plural(count, 'document')} are there and their client was told of a failure"
            if count
            else "no document is there of which its client was told a failure"
        ),
    )


def table(record: Record) -> dict[str, Any] | None:
    """Documents by what their caller was told and by what is so; None where no helper sent any."""
    told = (record.readback or {}).get("told")
    return dict(told["fates"]) if told else None


def section(record: Record, tables: Mapping[str, Any]) -> Section | None:
    """The same in the report."""
    rows = tables.get("told")
    if not rows:
        return None
    return Section(
        id="told",
        title="What clients were told",
        short="Told",
        says="What the client library's helper told its caller of each document, and whether the document is there.",
        head=("Told", "Documents#", "There#", "Of these twice#", "Not there#", "Not known#"),
        rows=tuple(
            Row(
                words,
                tuple(
                    text.count(int(rows[name].get(key) or 0))
                    for key in ("documents", "there", "twice", "absent", "unknown")
                ),
            )
            for name, words in WORDS.items()
            if name in rows and rows[name].get("documents")
        ),
        small=(
            "Told is what reached the caller: returned, yielded, or in an exception. It is misled by documents that "
            "are lost and told as stored, and by those that are there and told as failed. What an exception that names "
            "no document means for each of them it can only guess."
        ),
    )


def _fates(**told: dict[str, int]) -> dict[str, dict[str, int]]:
    zero = {"documents": 0, "there": 0, "twice": 0, "absent": 0, "unknown": 0}
    return {name: zero | told.get(name, {}) for name in WORDS}


def lost_without_a_word(run: Altered) -> None:
    fates = _fates(stored={"documents": 10, "there": 9, "absent": 1})
    read_back(run, told={"fates": fates, "lost_untold": ["w-5"], "lost_untold_count": 1})


def there_after_an_exception(run: Altered) -> None:
    fates = _fates(raised={"documents": 10, "there": 10})
    named = [f"w-{n}" for n in range(10)]
    read_back(run, told={"fates": fates, "told_failed_but_stored": named, "told_failed_but_stored_count": 10})


CHECKS = (
    Check(
        "documents.lost_untold",
        "count",
        lambda record, _, span: lost(record),
        Words.of(
            missed="{measured} documents are lost and their client was not told; wanted was {want}",
            question="clients were told of every document that is lost",
            promise="Documents that are lost, and of which the client was told no failure: {want}",
            short="documents lost and not told",
        ),
        group="data",
        scope=Scope.RUN,
        rests=Rests.DATA,
        meaning=(
            "How many documents no copy has although the helper of the client library told its caller that they are "
            "stored, or told nothing of them. So no client sends them again. Without a helper (client, in the stream) "
            "there is no such caller."
        ),
        helps=("explicit-ids",),
        tables={"told": table},
        section=section,
        order=206,
        trial=Trial("0", None, (lost_without_a_word,)),
    ),
    Check(
        "documents.told_failed_but_stored",
        "count",
        lambda record, _, span: there(record),
        Words.of(
            missed="{measured} documents are there and their client was told that they failed; wanted was {want}",
            question="no document is there that its client takes for failed",
            promise="Documents that are there, and of which the client was told a failure: {want}",
            short="documents told failed, stored",
        ),
        group="data",
        scope=Scope.RUN,
        rests=Rests.DATA,
        meaning=(
            "How many documents are there although the helper of the client library told its caller that they failed, "
            "by name or by an exception. A caller that sends them again under ids that OpenSearch gives stores them "
            "twice."
        ),
        helps=("explicit-ids",),
        order=207,
        trial=Trial("0", None, (there_after_an_exception,)),
    ),
)
