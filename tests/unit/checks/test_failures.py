"""Why requests failed, by phase: counted, shown, and in the evidence of a target that was missed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import synthetic

from chaos.checks import evaluate, failures
from chaos.checks.measure import Measure, Verdict
from chaos.checks.record import Record
from chaos.history.failures import Failure
from chaos.history.format import Outcome
from chaos.report.page import render_html

WHY = {Outcome.TIMEOUT: Failure.NO_SHARD, Outcome.REJECTED: Failure.INDEXING_PRESSURE}


def story(**more: Any) -> synthetic.Story:
    made = synthetic.slow_zone()
    made.failures = {**WHY, **more.pop("failures", {})}
    for name, value in more.items():
        setattr(made, name, value)
    return made


def test_the_table_adds_up_to_what_was_not_good_in_each_phase() -> None:
    record = Record(story().history())
    table = failures.table(record)
    assert table is not None
    for op, phases in table.items():
        for span in record.spans:
            counts = record.in_phase(op, span).counts
            assert sum(phases[span.name].values()) == int(counts[:, 0].sum())
    assert any("no_shard" in each for phases in table.values() for each in phases.values())


def test_a_record_of_before_has_no_table_and_says_nothing_more() -> None:
    made = synthetic.slow_zone()
    record = Record(made.history())
    assert not failures.recorded(record) and failures.table(record) is None
    found = evaluate(made.history())
    assert "failures" not in found.tables or not found.tables["failures"]
    assert all("failures" not in each.measure.evidence for each in found.findings)
    assert all("not good were" not in each.says for each in found.findings)


def test_a_missed_target_says_why_and_one_that_was_met_does_not() -> None:
    wanted = {
        "metric": "write.good",
        "op": "write",
        "quantity": "good",
        "unit": "percent",
        "text": "write.good >= 99.9%",
    }
    more = {"phases": ["healthy", "slow"], "comparison": ">=", "value": 0.999, "known_weakness": None}
    found = evaluate(story(expect=[wanted | more]).history())
    missed = [each for each in found.findings if each.verdict.value == "fail" and each.metric.endswith(".good")]
    assert missed
    for each in missed:
        assert "not good were:" in each.says
        assert sum(each.measure.evidence["failures"].values()) == (
            each.measure.evidence["scheduled"] - each.measure.evidence["good"]
        )
    for each in found.findings:
        assert each.verdict.value == "fail" or "failures" not in each.measure.evidence


def test_words_change_no_verdict() -> None:
    plain, told = (evaluate(each.history()) for each in (synthetic.slow_zone(), story()))
    assert [(a.id, a.verdict, a.counts_as, a.measure.value) for a in plain.findings] == [
        (b.id, b.verdict, b.counts_as, b.measure.value) for b in told.findings
    ]
    assert plain.outcome is told.outcome


def test_the_page_has_the_table_once_where_words_were_written() -> None:
    for made, there in ((story(), True), (synthetic.slow_zone(), False)):
        page = render_html(made.history(), evaluate(made.history()).to_json())
        assert page.count('id="failures"') == int(there)
        assert ("no shard available" in page) is there


def test_what_stands_without_a_word_is_named_by_its_outcome() -> None:
    assert failures.label(Outcome.TIMEOUT, 0) == "timeout"
    assert failures.label(Outcome.UNKNOWN, 0) == failures.NO_OUTCOME
    assert failures.label(Outcome.UNKNOWN, Failure.CONFLICT) == "conflict"
    assert failures.label(Outcome.SERVER_ERROR, 0) == "none"
    assert failures.label(Outcome.SERVER_ERROR, 255) == "other"  # of a later version


def test_a_sentence_names_the_most_frequent_and_sums_up_the_others() -> None:
    made = story()
    record = Record(made.history())
    span = record.spans[1]
    record.failures = Counter(
        {
            ("read", span.index, int(Outcome.SERVER_ERROR), int(each)): 10 - n
            for n, each in enumerate(list(Failure)[2:9])
        }
    )
    found = failures.of_phase(record, "read", span)
    assert list(found)[:2] == ["connection_refused", "unreachable"]
    says = failures.explained(record, Measure(0.5, "share", "half"), Verdict.FAIL, "read", span).says
    assert says.startswith("half; not good were: 10 connection refused") and says.endswith("others")
