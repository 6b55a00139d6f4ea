"""What decides by rules 2 without a line, promises that a file relaxes, and known weaknesses with a bound.

Each mutation of :mod:`.test_mutated` that breaks a promise about data is made to a run whose file asks about nothing of
the kind: by rules 2 it is a weakness, by rules 1 what it was.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import Mutation, Stored, counts
from negative.test_mutated import (
    BLINDS,
    BREAKS,
    ELSEWHERE,
    _sound,
    the_driver_sent_late,
    the_driver_was_busy,
    the_runner_was_starved,
    wanted,
)
from unit.checks.test_ends import ITSELF, fact
from unit.report.test_first_screen import named

from chaos.base.errors import Exit
from chaos.checks import Findings, catalogue, defaults, gravity
from chaos.checks import Outcome as Run
from chaos.checks.data.staleness import a_whole_answer_lacked_documents
from chaos.checks.measure import Bound, Measure, Verdict, judge
from chaos.checks.reasons import Cause
from chaos.checks.record import Record
from chaos.checks.trial import read_back
from chaos.checks.verdict import Counts
from chaos.checks.writes import an_acknowledged_id_is_on_no_copy
from chaos.history import ends
from chaos.history.format import Outcome
from chaos.instruments.process_exits import promised
from chaos.report.junit import junit_xml

PROMISES = sorted(metric for metric, check in catalogue.CHECKS.items() if check.promise and metric not in ELSEWHERE)
READS = wanted("read.good", ">= 50%", "dead")
"""What the made-up files ask for: nothing about data."""


def by_rules(number: int, *mutations: Mutation) -> Stored:
    run = _sound().changed(*mutations)
    run.plan["rules"] = number
    return run


def ids(findings: Findings) -> dict[str, str]:
    return {id: how for id, how in counts(findings).items() if "until" not in id and "good" not in id}


def test_a_sound_run_keeps_every_promise_and_is_told_so() -> None:
    findings = by_rules(2).judged(READS)
    assert ids(findings) == dict.fromkeys([*PROMISES, defaults.PROCESS], "pass")
    assert findings.outcome is Run.PASS and findings.reasons == ()
    marked = {each["id"] for each in findings.to_json()["findings"] if each.get("default")}
    assert marked == {*PROMISES, defaults.PROCESS}


def broken() -> list[Any]:
    return [
        pytest.param(metric, mutation, id=f"{metric}-{name}")
        for metric in PROMISES
        for name, mutation in BREAKS[metric].items()
    ]


@pytest.mark.parametrize(("metric", "mutation"), broken())
def test_a_broken_promise_decides_without_a_line(metric: str, mutation: Mutation) -> None:
    findings = by_rules(2, mutation).judged(READS)
    assert counts(findings)[metric] == "weakness"
    assert findings.outcome is Run.WEAKNESS and findings.exit_code is Exit.WEAKNESS
    assert (Cause.DATA, metric) in {(each.cause, each.finding) for each in findings.reasons}
    assert Cause.DOCUMENTS not in {each.cause for each in findings.reasons}  # once, as a finding
    cases = {each.get("name"): each for each in ElementTree.fromstring(junit_xml(findings.to_json())).iter("testcase")}
    assert cases[f"{metric} = 0"].find("failure") is not None


@pytest.mark.parametrize("metric", [metric for metric in ELSEWHERE if catalogue.CHECKS[metric].promise])
def test_a_promise_of_only_some_runs_decides_there_without_a_line(metric: str) -> None:
    trial = ELSEWHERE[metric]
    assert metric not in counts(by_rules(2).judged(READS))
    assert counts(by_rules(2, *trial.given).judged(READS))[metric] == "pass"
    findings = by_rules(2, *trial.given, *trial.broken_by).judged(READS)
    assert counts(findings)[metric] == "weakness" and findings.outcome is Run.WEAKNESS
    assert (Cause.DATA, metric) in {(each.cause, each.finding) for each in findings.reasons}


@pytest.mark.parametrize("metric", PROMISES)
def test_a_broken_promise_is_named_on_every_first_screen(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one change breaks several, the gravest decides (:mod:`chaos.checks.gravity`)."""
    run = by_rules(2, next(iter(BREAKS[metric].values())))
    run.plan["experiment"]["expect"] = [READS]
    broken = [id for id, how in counts(run.copy().judged(READS)).items() if how == "weakness"]
    decides, todo = named(run.history(), monkeypatch)
    assert metric in broken and decides["finding"] == min(broken, key=gravity.rank) and "Nothing" not in todo


def test_a_read_back_of_before_that_did_not_look_for_more_documents_promises_none() -> None:
    def as_it_was(run: Stored) -> None:
        assert run.readback is not None
        del run.readback["unexpected_count"]

    findings = by_rules(2, as_it_was).judged(READS)
    assert "documents.unexpected" not in counts(findings) and findings.outcome is Run.PASS


@pytest.mark.parametrize("metric", PROMISES)
def test_by_rules_1_nothing_decides_that_did_not(metric: str) -> None:
    findings = by_rules(1, next(iter(BREAKS[metric].values()))).judged(READS)
    assert ids(findings) == {} and not any(each.default for each in findings.findings)
    asked_anyway = metric == "documents.unexpected"
    assert findings.outcome is (Run.WEAKNESS if asked_anyway else Run.PASS)
    without_a_number = _sound().changed(next(iter(BREAKS[metric].values())))
    assert "rules" not in without_a_number.plan
    assert without_a_number.judged(READS).to_json() == findings.to_json()


@pytest.mark.parametrize("metric", PROMISES)
def test_a_line_about_the_same_takes_the_promise_s_place(metric: str) -> None:
    findings = by_rules(2).judged(READS, wanted(metric, "0"))
    (only,) = [each for each in findings.findings if each.metric == metric]
    assert not only.default and only.counts_as is Counts.PASS


SAMPLE = {"a_fifth_of_the_writes_of_a_phase_were_not_sent", "hardly_a_write_was_acknowledged"}
"""Losses after which only a line is open: it asks for a sample, a promise says what was seen."""


@pytest.mark.parametrize("name", sorted({name for metric in PROMISES for name in BLINDS[metric]} - SAMPLE))
def test_what_could_not_be_read_keeps_no_promise(name: str) -> None:
    concerned = [metric for metric in PROMISES if name in BLINDS[metric]]
    findings = by_rules(2, BLINDS[concerned[0]][name]).judged(READS)
    left = {metric: counts(findings).get(metric) for metric in concerned}
    assert "pass" not in left.values()
    assert findings.outcome is not Run.PASS, left


# -- what the load measures ------------------------------------------------------------------------


def few_writes(run: Stored) -> None:
    """A load of which so few writes are acknowledged that a line about lost ones could not be decided."""
    rows = [*run.rows("write", "healthy"), *run.rows("write", "dead"), *run.rows("write", "returned")]
    run.answer(rows[250:], Outcome.TIMEOUT, 5.0)
    read_back(run, acknowledged=250)


def test_a_load_that_writes_little_keeps_its_promises_or_breaks_them_and_lines_ask_for_more() -> None:
    assert counts(by_rules(2, few_writes).judged(READS))["acknowledged.lost"] == "pass"
    lost = by_rules(2, few_writes, an_acknowledged_id_is_on_no_copy).judged(READS)
    assert counts(lost)["acknowledged.lost"] == "weakness"
    asked = by_rules(2, few_writes).judged(READS, wanted("acknowledged.lost", "0"))
    assert counts(asked)["acknowledged.lost"] == "inconclusive"


def without_operations_for_data(run: Stored) -> None:
    del run.plan["experiment"]["load"]["cas"], run.plan["experiment"]["load"]["visibility"]
    run.cas, run.probes = [], []


def test_promises_are_asked_of_what_the_load_has() -> None:
    findings = by_rules(2, without_operations_for_data).judged(READS)
    assert set(ids(findings)) == {"acknowledged.lost", "documents.unexpected", "wrong.answers", defaults.PROCESS}
    stale = by_rules(2, without_operations_for_data, a_whole_answer_lacked_documents).judged(READS)
    assert counts(stale)["stale.reads"] == "weakness" and stale.outcome is Run.WEAKNESS


def test_a_run_without_a_read_back_is_inconclusive_for_that_and_nothing_is_said_of_its_data() -> None:
    def unread(run: Stored) -> None:
        run.readback = None

    findings = by_rules(2, without_operations_for_data, unread).judged(READS)
    assert set(ids(findings)) == {"wrong.answers", defaults.PROCESS}  # neither needs one
    assert [each.cause for each in findings.reasons] == [Cause.NO_READBACK]


def without_until(run: Stored) -> None:
    for phase in run.plan["experiment"]["phases"]:
        phase["until"] = None


def test_a_file_that_expects_nothing_proves_nothing_whatever_every_run_promises() -> None:
    run = by_rules(2, without_until)
    run.plan["experiment"]["expect"] = []
    judged = run.judged()
    assert judged.outcome is Run.INCONCLUSIVE
    assert [each.cause for each in judged.reasons] == [Cause.NOTHING_EXPECTED]


def a_node_ended(how: dict[str, Any]) -> Mutation:
    def mutate(run: Stored) -> None:
        run.add("dead", 20.0, ends.KIND, **fact(**how))

    return mutate


@pytest.mark.parametrize(
    ("how", "becomes", "outcome"),
    [(ITSELF, "weakness", Run.WEAKNESS), ({}, "inconclusive", Run.INCONCLUSIVE)],
    ids=["by itself", "from outside"],
)
def test_a_process_that_ended_is_a_finding_and_one_reason(how: dict[str, Any], becomes: str, outcome: Run) -> None:
    findings = by_rules(2, a_node_ended(how)).judged(READS)
    assert counts(findings)[defaults.PROCESS] == becomes and findings.outcome is outcome
    assert [each.cause for each in findings.reasons if "a-data" in each.says].count(Cause.PROCESS) == 1
    before = by_rules(1, a_node_ended(how)).judged(READS)
    assert before.outcome is outcome and defaults.PROCESS not in counts(before)


@pytest.mark.parametrize("spoil", [the_driver_was_busy, the_driver_sent_late, the_runner_was_starved])
def test_an_instrument_that_spoils_time_alone_spoils_no_promise(spoil: Mutation) -> None:
    line = wanted("acknowledged.lost", "0")
    judged = [by_rules(rules, without_until, spoil).judged(line) for rules in (1, 2)]
    assert [each.outcome for each in judged] == [Run.PASS, Run.PASS]
    assert judged[1].validity["valid"] is False and counts(judged[1])[defaults.PROCESS] == "pass"


# -- relaxed ---------------------------------------------------------------------------------------


def lose(number: int) -> Mutation:
    def mutate(run: Stored) -> None:
        read_back(run, lost=[f"w-{n}" for n in range(number)], lost_count=number)

    return mutate


def relaxed(target: str = "<= 5") -> dict[str, Any]:
    return {**wanted("acknowledged.lost", target), "because": "replication is asynchronous"}


@pytest.mark.parametrize(
    ("lost", "becomes", "outcome"),
    [(0, Counts.PASS, Run.PASS), (3, Counts.RELAXED, Run.PASS), (6, Counts.WEAKNESS, Run.WEAKNESS)],
)
def test_what_a_line_allows_beyond_the_promise_is_relaxed_and_never_held(
    lost: int, becomes: Counts, outcome: Run
) -> None:
    findings = by_rules(2, lose(lost)).judged(READS, relaxed())
    (finding,) = [each for each in findings.findings if each.metric == "acknowledged.lost"]
    assert finding.counts_as is becomes and findings.outcome is outcome
    if becomes is Counts.RELAXED:
        item = finding.to_json()
        assert item["relaxed"] == "replication is asynchronous" and "allowed, because" in item["says"]
        case = next(
            each
            for each in ElementTree.fromstring(junit_xml(findings.to_json())).iter("testcase")
            if each.get("name") == "acknowledged.lost <= 5"
        )
        assert "relaxed, because replication" in str(case.find("skipped").get("message"))  # type: ignore[union-attr]


def test_a_line_without_its_reason_relaxes_nothing_by_rules_2() -> None:
    """No file loads like this; a plan that was edited does not pass by it either."""
    line = wanted("acknowledged.lost", "<= 5")
    assert by_rules(2, lose(3)).judged(READS, line).outcome is Run.WEAKNESS
    assert by_rules(1, lose(3)).judged(READS, line).outcome is Run.PASS


def test_a_relaxed_loss_that_was_not_counted_to_its_end_is_open() -> None:
    def incomplete(run: Stored) -> None:
        read_back(run, complete=False, reason="c-data did not answer")

    findings = by_rules(2, lose(3), incomplete).judged(READS, relaxed())
    assert counts(findings)["acknowledged.lost"] == "inconclusive" and findings.outcome is Run.INCONCLUSIVE


# -- bounds ----------------------------------------------------------------------------------------


def known(metric: str, target: str, bound: str, phase: str = "dead") -> dict[str, Any]:
    sign, _, value = bound.partition(" ")
    seconds = float(value.rstrip("s%"))
    limit = {"comparison": sign, "value": seconds / 100 if value.endswith("%") else seconds, "text": bound}
    return {**wanted(metric, target, phase), "known_weakness": "12 s were seen", "known_bound": limit}


def bad_for(seconds: float) -> Mutation:
    return lambda run: run.hit("write", "dead", 2, 2 + seconds)


@pytest.mark.parametrize(
    ("seconds", "becomes", "outcome"),
    [
        (8, Counts.KNOWN_WEAKNESS, Run.PASS),
        (18, Counts.WEAKNESS, Run.WEAKNESS),
        (60, Counts.WEAKNESS, Run.WEAKNESS),
    ],
    ids=["within", "worse", "never regained"],
)
def test_a_weakness_is_known_up_to_its_bound(seconds: float, becomes: Counts, outcome: Run) -> None:
    line = known("write.regained", "<= 5s", "<= 15s")
    findings = by_rules(2, bad_for(seconds)).judged(line)
    finding = findings.findings[0]
    assert finding.counts_as is becomes and findings.outcome is outcome, finding.says
    assert (finding.measure.bound is Bound.MORE_THAN) is (seconds == 60)
    assert finding.to_json()["known_bound"] == "<= 15s"
    if becomes is Counts.WEAKNESS:
        assert "worse than what is known (<= 15s: 12 s were seen)" in finding.says
        case = next(iter(ElementTree.fromstring(junit_xml(findings.to_json())).iter("testcase")))
        assert case.find("failure") is not None


def test_whether_a_censored_value_is_within_a_longer_bound_is_open() -> None:
    findings = by_rules(2, bad_for(60)).judged(known("write.regained", "<= 5s", "<= 90s"))
    assert findings.findings[0].counts_as is Counts.INCONCLUSIVE
    assert "whether it is within what is known is open (<= 90s)" in findings.findings[0].says
    assert findings.outcome is Run.INCONCLUSIVE


def test_a_share_has_a_bound_downwards_and_a_note_that_is_gone_is_told() -> None:
    line = known("write.good", ">= 99.9%", ">= 80%")
    assert by_rules(2, bad_for(4)).judged(line).findings[0].counts_as is Counts.KNOWN_WEAKNESS
    assert by_rules(2, bad_for(20)).judged(line).findings[0].counts_as is Counts.WEAKNESS
    gone = by_rules(2).judged(known("write.good", ">= 50%", ">= 40%"))
    assert gone.findings[0].counts_as is Counts.UNEXPECTED_PASS


def test_a_value_beyond_the_bound_only_for_want_of_a_processor_is_open() -> None:
    """The machine is held against the bound as it is held against the target."""
    findings = by_rules(2, late_by_the_machine).judged(known("write.good", ">= 99.9%", ">= 95%"))
    assert findings.findings[0].counts_as is Counts.INCONCLUSIVE, findings.findings[0].says
    assert "processors was free" in findings.findings[0].says


def late_by_the_machine(run: Stored) -> None:
    """2 % of writes fail by themselves, and half of those of six seconds are late while no processor was free."""
    run.hit("write", "dead", 2, 28, share=0.02)
    run.hit("write", "dead", 14, 20, share=0.5, outcome=Outcome.OK, seconds=0.19)
    begin, end = run.moment("dead", 13.5), run.moment("dead", 20.5)
    for event in run.driver:
        if event.get("processors"):
            event["processors"] = [[a, b, 1.0 if begin <= a < end else c] for a, b, c in event["processors"]]


@given(st.floats(0, 100), st.sampled_from(list(Bound)), st.floats(0, 50), st.floats(0, 50))
def test_what_holds_the_target_holds_the_bound(value: float, how: Bound, target: float, more: float) -> None:
    """So a finding that passes is never worse than what is known."""
    measure = Measure(value, "seconds", "", how)
    if judge(measure, "<=", target) is Verdict.PASS:
        assert judge(measure, "<=", target + more) is Verdict.PASS


def test_rules_of_before_know_no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    record = Record(by_rules(2).history())
    assert {each.metric for each in defaults.expectations(record)} >= {"acknowledged.lost"}
    record.rules = 1
    assert defaults.expectations(record) == () and promised(record) is None
    check = replace(catalogue.CHECKS["acknowledged.lost"], promise=False)
    monkeypatch.setitem(catalogue.CHECKS, "acknowledged.lost", check)  # type: ignore[arg-type]
    record.rules = 2
    assert "acknowledged.lost" not in {each.metric for each in defaults.expectations(record)}
