"""What the final read-back found: acknowledged writes that are not as they were acknowledged, and documents too many.

``acknowledged.lost``: value = lost (on no live copy) + diverged (on some live copies only, or other versions of a
compare-and-set key on them) + wrong content (:mod:`chaos.checks.contents`). A copy that could not be read can hide a
loss. So can a read-back that looked for fewer writes than the history knows to be acknowledged, or that could not
compare contents. The value then is only known from below: losses seen stand, no losses seen prove nothing. A shard
without a live copy is unavailable, which is not lost, and not a pass. Where replicas copy segments the primary decides
what is lost, and replicas that have not caught up are ``replicas.stale`` (:mod:`.stale_replicas`).

``documents.unexpected``: value = resurrected (a write that had been refused for sure is there) + unexpected (nobody
ever sent it) + duplicated (more documents than ids on a copy, or a search for one id that found several) + returned
(its delete was acknowledged). A write
without a clear answer is in neither value: it may be there or not (*recovered* when it is). Nothing read is no proof
of anything.
"""

from __future__ import annotations

from typing import Any

from chaos.base import text
from chaos.base.ids import probe_id
from chaos.checks import contents, coverage, dated, strangers
from chaos.checks.check import Check, Rests, Scope
from chaos.checks.measure import Measure
from chaos.checks.record import Record
from chaos.checks.trial import Altered, Trial, first, read_back
from chaos.checks.words import Item, Tables, Words

SHOWN = 100
"""Ids named in the evidence; the counts are always whole."""


def measure(record: Record) -> Measure:
    """Lost acknowledged writes of the whole run."""
    readback = record.readback
    if readback is None:
        return Measure.missing("count", "there is no read-back of the acknowledged writes")
    counts = {name: int(readback.get(f"{name}_count") or 0) for name in ("lost", "diverged", "unavailable")}
    counts["wrong_content"] = contents.wrong_count(readback)
    acknowledged = int(readback.get("acknowledged") or 0)
    complete = readback.get("complete") is True
    evidence: dict[str, Any] = {
        "acknowledged": acknowledged,
        "complete": complete,
        **{f"{name}_count": number for name, number in counts.items()},
        **{name: list(readback.get(name) or [])[:SHOWN] for name in ("lost", "diverged", "wrong_content")},
        "unavailable_shards": readback.get("unavailable_shards") or [],
        "unacknowledged_present": readback.get("unacknowledged_present"),
        **contents.evidence(readback, SHOWN),
    }
    lost = counts["lost"] + counts["diverged"] + counts["wrong_content"]
    said = {name: text.count(number) for name, number in counts.items()}
    if lost:
        found = (
            f"{said['lost']} on no copy, {said['diverged']} missing on some copies, "
            f"{contents.wrong(readback)}; {text.count(acknowledged)} acknowledged"
        )
    elif acknowledged == 0:
        found = "no write was acknowledged"
    elif _read(readback) == 0:
        found = f"nothing is known of the {text.count(acknowledged)} acknowledged writes"
    else:
        found = f"all {text.count(acknowledged)} acknowledged writes are on every live copy that was read"
    if _read(readback):
        found += f"; {contents.compared(readback)}"
    if stale := int(readback.get("stale_count") or 0):
        found += f"; {text.plural(stale, 'replica')} had not caught up, and nothing is held against them here"
    if outdated := int(readback.get("outdated_count") or 0):
        evidence |= {"outdated_count": outdated, "outdated": list(readback.get("outdated") or [])[:SHOWN]}
        found += f"; {text.count(outdated)} of them as before an update that was acknowledged"
    if changes := readback.get("changes"):
        evidence["changes"] = changes
        found += f"; {_changes(changes)}"
    if record.rules >= 2 and lost:
        named = [*evidence["lost"], *_ids(evidence["diverged"]), *_ids(evidence["wrong_content"])]
        evidence["acknowledged_at"] = dated.acknowledged(record, named)
        if said_when := dated.says(record, named):
            found += f"; {said_when}"
    gaps = []
    if not complete:
        gaps.append(f"the read-back is not complete ({readback.get('reason') or 'no reason given'})")
    if counts["unavailable"]:
        gaps.append(f"{text.plural(counts['unavailable'], 'write')} on shards without a live copy")
    if acknowledged < (known := _recorded(record)):
        gaps.append(f"it looked for {text.count(acknowledged)} of {text.count(known)} acknowledged writes")
    if acknowledged == 0:
        gaps.append("no write was acknowledged, so none could be lost")
    if lost == 0 and _read(readback) == 0:
        gaps.append("not one document was read back")
    gaps += contents.gaps(readback) + coverage.of_data(record, *_writers(record)) + coverage.unread_copies(record)
    return Measure.seen(lost, found, gaps, evidence)


def unexpected(record: Record) -> Measure:
    """Documents that should not be there."""
    readback = record.readback
    if readback is None:
        return Measure.missing(
            "count", "there is no read-back, so nobody looked for documents that should not be there"
        )
    if "unexpected_count" not in readback:
        return Measure.missing("count", "the read-back did not look for documents that should not be there")
    names = ("resurrected", "unexpected", "duplicated", *(("returned",) if "returned_count" in readback else ()))
    counts = {name: int(readback.get(f"{name}_count") or 0) for name in names}
    not_ours = strangers.says(record)
    counts["unexpected"] = max(0, counts["unexpected"] - strangers.count(record))
    evidence: dict[str, Any] = {
        **{f"{name}_count": number for name, number in counts.items()},
        **{name: list(readback.get(name) or [])[:SHOWN] for name in names},
        "recovered_count": int(readback.get("recovered_count") or 0),
        "documents": readback.get("documents"),
    }
    if not_ours:
        evidence |= {"strangers_count": strangers.count(record), "strangers": strangers.ids(record)[:SHOWN]}
    twice = {probe_id(event["n"]) for event in record.probes if event["kind"] == "seen" and event["hits"] > 1}
    if twice:
        evidence["searched_twice"] = sorted(twice)[:SHOWN]
    total = sum(counts.values()) + len(twice)
    found = "no document was read, so none that should not be there could be seen"
    if total or _read(readback):
        found = _beyond(counts, len(twice), int(evidence["recovered_count"]))
    gaps = [f"an external actor wrote {not_ours}"] if not_ours else []
    if readback.get("complete") is not True:
        gaps.append(f"the read-back is not complete ({readback.get('reason') or 'no reason given'})")
    if shards := readback.get("unavailable_shards"):
        gaps.append(f"{text.plural(len(shards), 'shard')} without a live copy")
    if total == 0 and _read(readback) == 0:
        gaps.append("not one document was read back")
    return Measure.seen(total, found, gaps + coverage.unread_copies(record), evidence)


def _ids(items: list[Any]) -> list[Any]:
    """The ids of documents that are named with or without more about them."""
    return [each.get("id") if isinstance(each, dict) else each for each in items]


def _beyond(counts: dict[str, int], twice: int, recovered: int) -> str:
    """How many documents should not be there, by why. ``twice``: ids that a search found several documents of."""
    deleted = f"{text.count(counts['returned'])} that had been deleted, " if "returned" in counts else ""
    return (
        f"{deleted}{text.count(counts['resurrected'])} resurrected, "
        f"{text.count(counts['unexpected'])} that nobody wrote, "
        f"{text.count(counts['duplicated'] + twice)} found more than once; "
        f"{text.count(recovered)} without a clear answer are there, as they may be"
    )


def _changes(changes: dict[str, int]) -> str:
    """What of the documents that the load has changed is known."""
    said = {name: text.count(number) for name, number in changes.items()}
    return (
        f"{said['updated']} hold an update, {said['deleted']} were deleted, of {said['undecided']} an update and of "
        f"{said['doubtful']} a delete has no clear answer"
    )


def _recorded(record: Record) -> int:
    """Documents of the load that the history knows to be acknowledged."""
    return record.acknowledged_writes


def _writers(record: Record) -> tuple[str, ...]:
    """A closed loop has no rate, so no number of writes was due, and none can be too few."""
    return tuple(op.name for op in record.writers if not op.closed)


def _read(readback: dict[str, Any]) -> int:
    return sum(int(copy.get("docs") or 0) for copy in readback.get("copies") or () if copy.get("read"))


def broken(tables: Tables) -> str | None:
    """How many acknowledged writes are not as they were acknowledged; None when none is known to be."""
    writes = tables.get("writes") or {}
    count = int(writes.get("value") or 0)
    if not count:
        return None
    wrong = int(writes.get("wrong") or 0)
    diverged = int(writes.get("differing") or 0) - wrong
    kinds = {
        _lost: count - diverged - wrong,
        _diverged: diverged,
        _wrong: wrong,
    }
    found = [(says, number) for says, number in kinds.items() if number > 0]
    if len(found) == 1:
        says, number = found[0]
        return f"{text.plural(number, 'acknowledged write')} {says(number)}"
    parts = text.listed([f"{text.count(number)} {says(number)}" for says, number in found])
    return f"{text.plural(count, 'acknowledged write')} are not as they were acknowledged: {parts}"


def _lost(number: int) -> str:
    return "was lost" if number == 1 else "were lost"


def _diverged(number: int) -> str:
    return f"{'is' if number == 1 else 'are'} not the same on every copy"


def _wrong(number: int) -> str:
    return f"{'has' if number == 1 else 'have'} other content than was sent"


def beyond_count(tables: Tables) -> int:
    """How many documents should not be there, whether an expectation asks about them or not."""
    return int((((tables.get("data") or {}).get("copies") or {}).get("beyond") or {}).get("value") or 0)


def table(record: Record) -> dict[str, Any]:
    """What became of acknowledged writes."""
    lost = measure(record)
    return lost.to_json() | {
        "differing": sum(int(lost.evidence.get(f"{name}_count") or 0) for name in ("diverged", "wrong_content")),
        "wrong": lost.evidence.get("wrong_content_count"),
        "acknowledged": lost.evidence.get("acknowledged"),
    }


def beyond(item: Item) -> str:
    """How documents that should not be there read."""
    shown = "1 document is" if item.get("measured") == 1 else f"{item['measured_text']} documents are"
    return f"{shown} there that should not be there"


def _in_one_place(run: Altered, way: str, *on: str) -> None:
    """One document is wrong in one place, on some of its copies."""
    right = [node for node in ("a-data", "b-data", "c-data") if node not in on]
    item = {"id": "w-9", "on": list(on), "right_on": right, "says": "text: expected 1, found 2"}
    read_back(run, wrong_content=["w-9"], wrong_content_count=1)
    read_back(run, **{f"wrong_{way}": [item], f"wrong_{way}_count": 1})


def the_sources_could_not_be_compared(run: Altered) -> None:
    assert run.readback is not None
    run.readback["content"]["reason"] = "1 of 9 copies, the first shard 1 on c-data: status 503"


def an_acknowledged_id_is_on_no_copy(run: Altered) -> None:
    read_back(run, lost=["w-5"], lost_count=1)


def one_copy_lacks_an_id(run: Altered) -> None:
    read_back(run, diverged=[{"id": "w-9", "missing_on": ["c-data"]}], diverged_count=1)


def a_copy_has_other_content(run: Altered) -> None:
    read_back(run, wrong_content=["w-9"], wrong_content_count=1)


def a_source_is_another(run: Altered) -> None:
    _in_one_place(run, "source", "a-data", "b-data", "c-data")


def its_own_words_do_not_find_a_document_on_one_copy(run: Altered) -> None:
    _in_one_place(run, "index", "c-data")


def a_doc_value_is_another_on_one_copy(run: Altered) -> None:
    _in_one_place(run, "doc_values", "b-data")


def a_source_is_another_and_not_all_could_be_compared(run: Altered) -> None:
    _in_one_place(run, "source", "c-data")
    the_sources_could_not_be_compared(run)


def lost_and_the_read_back_is_incomplete(run: Altered) -> None:
    read_back(run, lost=["w-5"], lost_count=1, complete=False, reason="c-data did not answer")


def a_refused_write_is_there(run: Altered) -> None:
    read_back(run, resurrected=["w-5"], resurrected_count=1)


def a_document_that_nobody_sent(run: Altered) -> None:
    read_back(run, unexpected=["w-999999"], unexpected_count=1)


def a_document_whose_delete_was_acknowledged(run: Altered) -> None:
    read_back(run, returned=["w-5"], returned_count=1)


def two_documents_of_one_id(run: Altered) -> None:
    read_back(run, duplicated=["w-5"], duplicated_count=1)


def a_search_found_one_id_twice(run: Altered) -> None:
    first(run.probes, kind="seen")["hits"] = 2


CHECKS = (
    Check(
        "acknowledged.lost",
        "count",
        lambda record, *_: measure(record),
        Words(
            lambda item, tables: broken(tables) or f"{item['measured_text']} acknowledged writes were lost",
            lambda _: "every acknowledged write is there",
            lambda _: "Every acknowledged write is there",
            "acknowledged writes lost",
        ),
        group="data",
        scope=Scope.RUN,
        rests=Rests.DATA,
        promise=True,
        meaning=(
            "Writes that OpenSearch said yes to and that are gone, differ between copies or have other content (in "
            "their source, in what was indexed from it, or in their doc values), looked up on every copy after "
            "recovery. Clients will never repeat them."
        ),
        helps=("investigate", "durability", "replicas", "active-shards"),
        tables={"writes": table},
        order=90,
        trial=Trial(
            "0",
            None,
            (
                an_acknowledged_id_is_on_no_copy,
                one_copy_lacks_an_id,
                a_copy_has_other_content,
                a_source_is_another,
                its_own_words_do_not_find_a_document_on_one_copy,
                a_doc_value_is_another_on_one_copy,
                a_source_is_another_and_not_all_could_be_compared,
                lost_and_the_read_back_is_incomplete,
            ),
        ),
    ),
    Check(
        "documents.unexpected",
        "count",
        lambda record, *_: unexpected(record),
        Words(
            lambda item, _: beyond(item),
            lambda _: "only documents are there that this test wrote",
            lambda _: "Only documents are there that this test wrote",
            "documents.unexpected",
        ),
        group="data",
        scope=Scope.RUN,
        rests=Rests.DATA,
        promise=True,
        meaning=(
            "Documents that must not be there: written by nobody, twice, or back after they were deleted. One is "
            "enough to trust no count."
        ),
        helps=("investigate", "explicit-ids", "durability"),
        order=90,
        trial=Trial(
            "0",
            None,
            (
                a_refused_write_is_there,
                a_document_that_nobody_sent,
                two_documents_of_one_id,
                a_document_whose_delete_was_acknowledged,
                a_search_found_one_id_twice,
            ),
        ),
    ),
)
