"""The share of documents that were acknowledged, each document of a bulk counted alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import Chapter, Story, constant, mixed

from chaos.checks import documents, enough, stored_twice, writes
from chaos.checks.measure import Bound, Measure, Verdict, judge
from chaos.checks.record import Expected, Record
from chaos.history import Outcome
from chaos.history.format import ItemOutcome
from chaos.history.items import Items, entry

ITEMS = 10
WANTED = Expected("documents.acknowledged", None, "documents.acknowledged", ("dead",), ">=", 0.9, "x", None)


def record(
    tmp_path: Path, outcomes: Any, answered: float = 1.0, items: int = ITEMS, behave: Any = None, tries: Any = None
) -> Record:
    """Of a run whose writes are bulks. ``outcomes``: of a bulk's documents; ``answered``: the share that has them."""
    story = Story(chapters=[Chapter("healthy", 20), Chapter("dead", 20, **({} if behave is None else behave))])
    history: Any = story.history()
    history.plan["experiment"]["load"]["write"]["items"] = items
    writes_ = history.arrivals[history.arrivals["op"] == "write"]
    k = writes_["k"].to_numpy()[: int(answered * len(writes_))]
    file = tmp_path / "items.bin"
    file.write_bytes(b"".join(entry(int(each), [int(o) for o in outcomes]) for each in k))
    history.__dict__["items"] = Items.read(file)
    if tries:
        history.arrivals.loc[history.arrivals["op"] == "write", "attempts"] = tries
    return Record(history)


def measured(it: Record, phase: str = "dead") -> Measure:
    span = it.span(phase)
    assert span is not None
    return documents.measure(it, WANTED, span)


def test_all_documents_of_all_bulks(tmp_path: Path) -> None:
    it = record(tmp_path, [ItemOutcome.CREATED] * ITEMS)
    found = measured(it)
    requests = len(it.in_phase("write", it.spans[1]))
    assert found.value == 1.0 and found.evidence["offered"] == found.evidence["acknowledged"] == requests * ITEMS
    assert found.evidence["goodput"] == pytest.approx(requests * ITEMS / 20, rel=0.01)
    assert found.evidence["tries"] == 1.0
    assert it.acknowledged(it.operations[1]) == ITEMS * len(it.items) == ITEMS * len(it.arrivals["write"])


def test_what_a_200_hides_counts_as_not_acknowledged(tmp_path: Path) -> None:
    spoilt = [ItemOutcome.REJECTED, ItemOutcome.BLOCKED, ItemOutcome.WRONG, ItemOutcome.DEGRADED]
    found = measured(record(tmp_path, [*spoilt, *[ItemOutcome.UPDATED] * 6]))
    assert found.value == pytest.approx(0.7)
    assert {name: number / found.evidence["offered"] for name, number in found.evidence["outcomes"].items()} == {
        "rejected": pytest.approx(0.1),
        "blocked": pytest.approx(0.1),
        "wrong": pytest.approx(0.1),
        "degraded": pytest.approx(0.1),
        "updated": pytest.approx(0.6),
    }
    assert "rejected" in found.says and "degraded" not in found.says


def test_documents_of_bulks_without_an_answer_are_not_acknowledged(tmp_path: Path) -> None:
    out = mixed((10, 20, 1.0, Outcome.TIMEOUT, 5.0), base=constant())
    it = record(tmp_path, [ItemOutcome.CREATED] * ITEMS, answered=0.75, behave={"write": out})
    found = measured(it)
    assert found.value == pytest.approx(0.5, abs=0.01) and found.bound is Bound.EXACT
    assert set(found.evidence["outcomes"]) == {"created", "request timeout"} and found.evidence["unrecorded"] == 0


def test_what_is_not_on_record_is_not_held_against_the_cluster(tmp_path: Path) -> None:
    """Bulks that were answered, whose documents' outcomes are gone: a part of the file, or all of it."""
    it = record(tmp_path, [ItemOutcome.CREATED] * ITEMS, answered=0.75)  # half of those of the second phase
    found = measured(it)
    assert found.value == pytest.approx(0.5, abs=0.01) and found.bound is Bound.AT_LEAST
    assert set(found.evidence["outcomes"]) == {"created", "request ok"} and "not on record" in found.says
    it = record(tmp_path, [ItemOutcome.CREATED] * ITEMS, answered=0.0)
    assert judge(measured(it), ">=", 0.999) is Verdict.INCONCLUSIVE


def test_requests_of_one_document_count_by_their_outcome() -> None:
    behaviour = mixed((0, 10, 0.2, Outcome.REJECTED, 0.01), (10, 20, 0.1, Outcome.PARTIAL, 0.01), base=constant())
    history: Any = Story(chapters=[Chapter("healthy", 20), Chapter("dead", 20, write=behaviour)]).history()
    it = Record(history)
    found = measured(it)
    assert found.value == pytest.approx(0.9, abs=0.03)
    assert set(found.evidence["outcomes"]) == {"ok", "partial", "rejected"}
    assert documents.table(it) is None  # the tables of such runs stay as they are


def test_with_few_requests_there_is_no_value(tmp_path: Path) -> None:
    it = record(tmp_path, [ItemOutcome.CREATED] * ITEMS)
    it.spans = (it.spans[0], replace(it.spans[1], index=5))
    assert measured(it).value is None


def test_the_table_has_each_phase(tmp_path: Path) -> None:
    table = documents.table(record(tmp_path, [ItemOutcome.CREATED] * ITEMS))
    assert table is not None and set(table["write"]) == {"healthy", "dead"}


def test_enough_was_written_when_documents_were_and_not_requests(tmp_path: Path) -> None:
    it = record(tmp_path, [ItemOutcome.CREATED] * ITEMS, answered=0.005)
    assert len(it.items) < 299 and it.acknowledged(it.operations[1]) == 10 * len(it.items)
    assert any("were acknowledged" in gap.says for gap in enough.gaps(it))
    it = record(tmp_path, [ItemOutcome.CREATED] * 100, answered=0.005, items=100)
    assert not any("were acknowledged" in gap.says for gap in enough.gaps(it))


def test_a_read_back_that_looked_for_bulks_and_not_for_their_documents_is_a_gap(tmp_path: Path) -> None:
    it = record(tmp_path, [ItemOutcome.CREATED] * ITEMS)
    assert it.readback is not None
    it.readback["acknowledged"] = len(it.items)
    assert "acknowledged writes" in writes.measure(it).says and writes.measure(it).value is None


def test_the_number_of_a_document_leads_to_its_bulk(tmp_path: Path) -> None:
    from chaos.checks import dated

    it = record(tmp_path, [ItemOutcome.CREATED] * ITEMS)
    k = int(it.arrivals["write"].k[7])
    ends = it.arrivals["write"].end
    when = dated.acknowledged(it, [f"w-{k * ITEMS + 3}"])
    assert when is not None and when[0] == pytest.approx((int(ends[7]) - it.origin) / 1e9)
    assert np.isclose(when[0], when[1])


def test_the_section_has_each_phase_and_what_became_of_its_documents(tmp_path: Path) -> None:
    it = record(tmp_path, [ItemOutcome.REJECTED, *[ItemOutcome.CREATED] * 9], answered=0.75)
    drawn = documents.section(it, {"documents": documents.table(it)})
    assert drawn is not None and [row.head for row in drawn.rows] == ["healthy", "dead"]
    assert drawn.head[:3] == ("Phase", "Offered#", "Acknowledged#")
    healthy = documents.figures(it, it.operations[1], it.spans[0])
    tenth = healthy["offered"] // 10
    assert drawn.head[-1] == "What else became of them"
    assert drawn.rows[0].cells[-1] == f"{tenth:,} rejected".replace(",", "\u00a0")
    offered, acknowledged = drawn.curves
    full = [value for _, _, value in acknowledged.pieces]
    assert full[0] == pytest.approx(0.9 * offered.pieces[0][2]) and full[-1] == 0  # the last bulks got no answer
    assert sum((b - a) * value for a, b, value in acknowledged.pieces) == pytest.approx(
        it.acknowledged(it.operations[1])
    )
    rates = [value for _, _, value in offered.pieces]
    assert min(rates) > 0.95 * max(rates), "a last piece that is shorter than the others is no drop"


def test_without_bulks_there_is_no_section() -> None:
    it = Record(Story(chapters=[Chapter("healthy", 20)]).history())
    assert documents.section(it, {}) is None


@pytest.mark.parametrize(("tries", "count", "verdict"), [(1, 0, "inconclusive"), (2, 0, "pass"), (1, 3, "fail")])
def test_that_none_is_stored_twice_is_shown_only_where_something_was_sent_again(
    tmp_path: Path, tries: int, count: int, verdict: str
) -> None:
    it = record(tmp_path, [ItemOutcome.CREATED] * ITEMS, tries=tries)
    assert it.readback is not None
    it.readback |= {"stored_twice": ["w-3"] * count, "stored_twice_count": count}
    found = stored_twice.measure(it)
    assert judge(found, "==", 0).value == verdict, found.says
    assert found.evidence["sent_again"] == (tries - 1) * len(it.arrivals["write"])


def test_with_ids_of_its_own_a_load_stores_nothing_twice_whatever_it_sent_again(tmp_path: Path) -> None:
    it = record(tmp_path, [ItemOutcome.CREATED] * ITEMS)
    assert judge(stored_twice.measure(it), "==", 0) is Verdict.PASS


def two_writers(tmp_path: Path) -> Record:
    """``write`` sends bulks, of whose documents one in ten is rejected; ``read`` is made to write one document each."""
    story = Story(
        chapters=[Chapter("healthy", 20), Chapter("dead", 20, read=mixed((0, 20, 0.5, Outcome.TIMEOUT, 5.0)))]
    )
    history: Any = story.history()
    load = history.plan["experiment"]["load"]
    load["write"]["items"] = ITEMS
    load["note"] = load.pop("read") | {"name": "note", "operation": "index", "writes": True, "stream": True}
    history.arrivals["op"] = history.arrivals["op"].cat.rename_categories({"read": "note"})
    k = history.arrivals.loc[history.arrivals["op"] == "write", "k"]
    file = tmp_path / "items.bin"
    outcomes = [ItemOutcome.REJECTED, *[ItemOutcome.CREATED] * (ITEMS - 1)]
    file.write_bytes(b"".join(entry(int(each), [int(o) for o in outcomes]) for each in k))
    history.__dict__["items"] = Items.read(file)
    return Record(history)


def test_of_several_writers_all_documents_count_and_each_has_its_rows(tmp_path: Path) -> None:
    it = two_writers(tmp_path)
    note, write = (next(op for op in it.writers if op.name == name) for name in ("note", "write"))
    found = measured(it)
    requests = {op.name: len(it.in_phase(op.name, it.spans[1])) for op in it.writers}
    assert found.evidence["offered"] == requests["note"] + ITEMS * requests["write"]
    timeouts = found.evidence["operations"]["note"]["outcomes"]["timeout"]
    assert 0.4 < timeouts / requests["note"] < 0.6
    assert found.evidence["acknowledged"] == requests["note"] - timeouts + (ITEMS - 1) * requests["write"]
    assert it.acknowledged(write) == (ITEMS - 1) * len(it.arrivals["write"])
    assert it.acknowledged_writes == it.acknowledged(note) + it.acknowledged(write)
    tables = {"documents": documents.table(it)}
    drawn = documents.section(it, tables)
    assert drawn is not None
    assert [row.head for row in drawn.rows] == ["write, healthy", "write, dead", "note, healthy", "note, dead"]
    assert len(drawn.curves) == 4 and len({curve.title for curve in drawn.curves}) == 4


def test_each_writer_must_have_sent_what_was_due(tmp_path: Path) -> None:
    it = two_writers(tmp_path)
    assert not enough.gaps(it)
    it.arrivals["note"] = it.arrivals["note"].in_phase(0)
    (gap,) = enough.gaps(it)
    assert "in dead only 0 of" in gap.says and "writes of note" in gap.says


def test_documents_of_all_writers_lead_to_their_arrivals(tmp_path: Path) -> None:
    from chaos.checks import dated

    it = two_writers(tmp_path)
    for name, place in (("note", 0), ("write", 3)):
        k = int(it.arrivals[name].k[5])
        when = dated.acknowledged(it, [f"w-{k * ITEMS + place}"])
        assert when is not None and when[0] == pytest.approx((int(it.arrivals[name].end[5]) - it.origin) / 1e9)
