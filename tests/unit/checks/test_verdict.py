"""From histories to outcomes: every expectation can fail, missing data never passes, and the worst wins."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import synthetic
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Story, constant, expect, healthy, mixed

from chaos.base.errors import Exit, HistoryError
from chaos.checks import Findings, Outcome, evaluate, exit_code, judge
from chaos.checks.record import Record
from chaos.checks.verdict import worst
from chaos.history.format import Outcome as Arrival
from chaos.history.reader import compact

DEAD = mixed((0.2, 1e9, 1.0, Arrival.TIMEOUT, 5.0), base=constant())


def judged(story: Story) -> Findings:
    return evaluate(story.history())


def counted(findings: Findings) -> dict[str, str]:
    return {finding.id: finding.counts_as.value for finding in findings.findings}


def only(story: Story, *expectations: dict[str, Any]) -> Story:
    story.expect = list(expectations)
    return story


# -- the stories ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("story", "outcome", "code"),
    [
        ("slow_zone", Outcome.PASS, Exit.PASS),
        ("black_hole", Outcome.WEAKNESS, Exit.WEAKNESS),
        ("lost_writes", Outcome.WEAKNESS, Exit.DIRTY),
        ("killed", Outcome.ERROR, Exit.ERROR),
        ("unproven", Outcome.INCONCLUSIVE, Exit.INCONCLUSIVE),
        ("vanished", Outcome.INCONCLUSIVE, Exit.INCONCLUSIVE),
        ("aborted", Outcome.ABORTED, Exit.ABORTED),
    ],
)
def test_the_outcome_of_each_story(story: str, outcome: Outcome, code: Exit) -> None:
    findings = judged(synthetic.STORIES[story]())
    assert (findings.outcome, findings.exit_code) == (outcome, code)


def test_the_sentence_tells_the_story() -> None:
    assert judged(synthetic.slow_zone()).summary == (
        "Reads held. Writes failed or came late for 42 s during “+300ms on links to zone c”, and came back 3 s after "
        "“decommission zone c without delay”. No acknowledged write was lost."
    )
    assert "133 acknowledged writes are not as they were acknowledged" in judged(synthetic.lost_writes()).summary
    assert judged(synthetic.killed()).summary.startswith("No verdict: the runner died in the phase slow")
    assert judged(synthetic.unproven()).summary.startswith("Nothing proven")
    assert judged(synthetic.aborted()).summary.startswith("Stopped early: the guard cluster.red")


def test_how_long_an_abort_took_is_a_finding_of_its_own() -> None:
    abort = judged(synthetic.aborted()).abort
    assert abort is not None
    assert (abort["guard"], abort["faults"], abort["seconds"]) == ("cluster.red", ["f1"], 0.31)
    assert abort["within"] is True and abort["proven"] is True
    late = synthetic.aborted()
    late.chapters[1].event(44.9, "abort.undone", asked=0, faults=["f1"], seconds=7.5, proven=False)
    abort = judged(late).abort
    assert abort is not None and abort["within"] is False and abort["proven"] is False
    late.chapters[1].event(44.95, "abort.undone", asked=0, faults=["f1"], seconds=0.3, proven=False, complete=False)
    assert judged(late).abort["within"] is False, "what is still there was not undone in time"
    assert judged(synthetic.slow_zone()).abort is None


# -- every kind of expectation: mutated it fails, without data it is inconclusive -------------------


def _late_writes(story: Story) -> None:
    for chapter in story.chapters[1:]:
        chapter.write = constant(latency=0.3)


def _dead_writes(story: Story) -> None:
    for chapter in story.chapters[1:]:
        chapter.write = DEAD


def _good_writes(story: Story) -> None:
    for chapter in story.chapters:
        chapter.write = healthy()


def _move(story: Story) -> None:
    story.chapters[1].event(5.0, "cluster.shard_moved", index="chaos", shard=0, node="b-data")


def _never_green(story: Story) -> None:
    last = story.chapters[-1]
    last.events = [event for event in last.events if event[1] != "cluster.status"]


def _loss(story: Story) -> None:
    assert story.readback is not None
    story.readback |= {"lost": ["w-5"], "lost_count": 1}


def _short(story: Story) -> None:
    """Too few arrivals in every phase after the first."""
    for chapter in story.chapters[1:]:
        chapter.seconds = 0.9
        chapter.events = [(min(at, 0.5), kind, fields) for at, kind, fields in chapter.events]


def _blind(story: Story) -> None:
    story.samples = False


def _no_readback(story: Story) -> None:
    story.readback = None


KINDS: list[tuple[dict[str, Any], Callable[[Story], None], Callable[[Story], None]]] = [
    (expect("write.good", ">=", 0.9, ("failover",)), _dead_writes, _short),
    (expect("write.good", "<", 0.1, ("slow",)), _good_writes, _short),
    (expect("write.regained", "<=", 10, ("failover",)), _dead_writes, _short),
    (expect("write.outage", "<=", 10, ("failover",)), _dead_writes, _short),
    *[
        (expect(f"write.{name}", "<=", 0.25, ("returned",)), _late_writes, _short)
        for name in ("p50", "p90", "p99", "p99.9")
    ],
    (expect("shards.moved", "==", 0, ("slow",)), _move, _blind),
    (expect("cluster.recovered", "<=", 60, ("returned",)), _never_green, _blind),
    (expect("acknowledged.lost", "==", 0), _loss, _no_readback),
]


def _verdicts(expectation: dict[str, Any], change: Callable[[Story], None] | None) -> str:
    story = only(synthetic.slow_zone(), expectation)
    if "cluster.recovered" in expectation["text"] and change is _never_green:
        story.expect[0] = {**expectation, "value": 30.0}  # the phase shows 42 s without green
    if change:
        change(story)
    return judged(story).findings[0].verdict.value


@pytest.mark.parametrize(
    ("expectation", "breaks", "blinds"), KINDS, ids=lambda v: v["text"] if isinstance(v, dict) else ""
)
def test_an_expectation_passes_fails_and_stays_open(
    expectation: dict[str, Any], breaks: Callable[[Story], None], blinds: Callable[[Story], None]
) -> None:
    assert _verdicts(expectation, None) == "pass"
    assert _verdicts(expectation, breaks) == "fail"
    assert _verdicts(expectation, blinds) == "inconclusive"


def test_an_unknown_metric_or_operation_is_never_a_pass() -> None:
    odd = {**expect("read.good", ">=", 0.9, ("slow",)), "metric": "disk.used", "op": None, "quantity": "disk.used"}
    story = only(synthetic.slow_zone(), odd)
    assert judged(story).outcome is Outcome.INCONCLUSIVE
    story = only(synthetic.slow_zone(), expect("write.good", ">=", 0.9, ("slow",)))
    story.ops = ("read",)
    assert judged(story).findings[0].verdict.value == "inconclusive"


# -- what forbids a verdict ------------------------------------------------------------------------


def _without(*kinds: str) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    return lambda events: [event for event in events if event["kind"] not in kinds]


def test_a_run_without_an_end_is_an_error_even_when_all_else_is_there() -> None:
    story = synthetic.slow_zone()
    story.mutate = _without("run.end")
    assert judged(story).outcome is Outcome.ERROR


@pytest.mark.parametrize("kind", ["phase.end", "phase.start", "fault.command", "action.command", "fault.undo"])
def test_a_step_or_phase_that_left_no_trace_is_no_pass(kind: str) -> None:
    story = synthetic.slow_zone()
    story.mutate = _without(kind)
    assert judged(story).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("stage", ["effect", "gone"])
def test_without_proof_of_the_fault_nothing_is_proven(stage: str) -> None:
    story = synthetic.slow_zone()
    story.mutate = lambda events: [event for event in events if event.get("stage") != stage]
    findings = judged(story)
    assert findings.outcome is Outcome.INCONCLUSIVE
    assert any(reason.says.endswith("(there is no evidence)") for reason in findings.reasons)


def test_proof_that_is_later_withdrawn_is_no_proof() -> None:
    story = synthetic.slow_zone()
    story.chapters[1].event(30.0, "fault.evidence", fault="f1", stage="effect", proven=False, says="gone by itself")
    assert judged(story).outcome is Outcome.INCONCLUSIVE


def test_a_failure_under_an_unproven_fault_is_inconclusive_and_one_before_it_stands() -> None:
    story = only(
        synthetic.unproven(),
        expect("write.good", ">=", 0.999, ("failover",)),
        expect("write.p50", "<=", 0.001, ("healthy",)),
    )
    story.chapters[2].write = DEAD
    counts = counted(judged(story))
    assert counts["write.good@failover"] == "inconclusive"
    assert counts["write.p50@healthy"] == "weakness"


def test_a_lost_acknowledged_write_stands_whatever_was_proven() -> None:
    story = synthetic.unproven()
    _loss(story)
    findings = judged(story)
    assert findings.outcome is Outcome.WEAKNESS
    assert counted(findings)["acknowledged.lost"] == "weakness"
    assert counted(findings)["read.good@slow"] == "inconclusive"


@pytest.mark.parametrize(
    "spoil",
    [
        {"cpu": 0.9},
        {"measured": False},
        {"lag": 0.08},
        {"self_samples": False},
    ],
)
def test_a_driver_that_was_not_valid_makes_the_run_inconclusive(spoil: dict[str, Any]) -> None:
    story = synthetic.black_hole()
    for name, value in spoil.items():
        setattr(story, name, value)
    findings = judged(story)
    assert findings.validity["valid"] is False
    # where copies are is no matter of time: what moved has moved
    assert {id for id, counts in counted(findings).items() if counts == "weakness"} == {"shards.moved@dark"}
    story.expect = [each for each in story.expect if each["metric"] != "shards.moved"]
    assert judged(story).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("outcome", [Arrival.DROPPED, Arrival.UNKNOWN])
def test_drops_and_unknowns_above_a_thousandth_make_it_inconclusive(outcome: Arrival) -> None:
    story = synthetic.slow_zone()
    story.chapters[3].read = mixed((0, 2, 0.5, outcome, 0.01))
    assert judged(story).outcome is Outcome.INCONCLUSIVE


def test_requests_that_were_wrong_are_our_error() -> None:
    story = synthetic.slow_zone()
    story.chapters[0].read = mixed((3, 3.1, 1.0, Arrival.CLIENT_ERROR, 0.01))
    findings = judged(story)
    assert findings.outcome is Outcome.ERROR and "4xx" in findings.summary


def test_no_steady_state_no_verdict() -> None:
    story = synthetic.slow_zone()
    story.chapters[0].write = healthy(late=0.05)
    assert judged(story).outcome is Outcome.INCONCLUSIVE


def test_an_operation_that_never_worked_shows_nothing() -> None:
    story = only(synthetic.slow_zone(), expect("write.good", "<", 0.1, ("slow",)))
    for chapter in story.chapters:
        chapter.write = constant(Arrival.SERVER_ERROR)
    assert judged(story).outcome is Outcome.INCONCLUSIVE


def test_an_action_that_failed_is_no_pass() -> None:
    story = synthetic.slow_zone()
    story.chapters[2].events = [
        (at, kind, fields | {"ok": False} if kind == "action.done" else fields)
        for at, kind, fields in story.chapters[2].events
    ]
    assert judged(story).outcome is Outcome.INCONCLUSIVE


def test_an_error_event_is_an_error() -> None:
    story = synthetic.slow_zone()
    story.chapters[1].event(1.0, "error", says="the lab went away")
    findings = judged(story)
    assert findings.outcome is Outcome.ERROR and "the lab went away" in findings.summary


def test_a_condition_that_was_not_met_in_time_is_a_weakness_of_its_own() -> None:
    story = synthetic.slow_zone()
    story.chapters[3].reason = "deadline"
    assert counted(judged(story))["until@returned"] == "weakness"


def test_an_experiment_without_expectations_proves_nothing() -> None:
    story = only(synthetic.slow_zone())
    story.chapters[3].until = None
    assert judged(story).outcome is Outcome.INCONCLUSIVE


def test_an_empty_folder_but_for_the_plan_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(synthetic.slow_zone().plan()))
    assert judge(tmp_path)["outcome"] == "error"
    with pytest.raises(HistoryError):
        judge(tmp_path / "nowhere")


def test_a_check_that_breaks_is_our_error_and_loses_no_other_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    from chaos.checks import catalogue, verdict

    def broken(*_: object) -> None:
        raise ZeroDivisionError("oops")

    check = replace(catalogue.CHECKS["acknowledged.lost"], measure=broken)
    monkeypatch.setitem(catalogue.CHECKS, "acknowledged.lost", check)  # type: ignore[arg-type]
    monkeypatch.setattr(verdict, "_tables", lambda record: {"outage": {}, "writes": {}})
    findings = judged(synthetic.slow_zone())
    assert findings.outcome is Outcome.ERROR
    assert counted(findings)["read.good@slow"] == "pass"


# -- known weaknesses ------------------------------------------------------------------------------


def _known(story: Story, phases: tuple[str, ...]) -> Findings:
    return judged(only(story, expect("write.good", ">=", 0.999, phases, known="issue 17")))


def test_a_known_weakness_that_is_there_does_not_fail_the_run() -> None:
    findings = _known(synthetic.slow_zone(), ("slow",))
    assert findings.outcome is Outcome.PASS
    assert counted(findings)["write.good@slow"] == "known_weakness"


def test_a_known_weakness_that_is_gone_fails_the_run() -> None:
    findings = _known(synthetic.slow_zone(), ("healthy",))
    assert findings.outcome is Outcome.WEAKNESS
    assert counted(findings)["write.good@healthy"] == "unexpected_pass"
    assert "clear its note" in findings.summary


def test_a_known_weakness_of_several_phases_is_there_when_one_of_them_fails() -> None:
    counts = counted(_known(synthetic.slow_zone(), ("healthy", "slow")))
    assert (counts["write.good@healthy"], counts["write.good@slow"]) == ("pass", "known_weakness")


def test_a_known_weakness_without_data_stays_inconclusive() -> None:
    findings = _known(synthetic.unproven(), ("slow",))
    assert counted(findings)["write.good@slow"] == "inconclusive"


# -- outcomes and exit codes -----------------------------------------------------------------------


@given(st.lists(st.sampled_from(list(Outcome))), st.sampled_from(list(Outcome)))
def test_another_reason_never_makes_the_outcome_better(outcomes: list[Outcome], more: Outcome) -> None:
    order = list(Outcome)
    assert order.index(worst([*outcomes, more])) <= order.index(worst(outcomes))


def test_the_exit_code_is_the_worst_of_outcome_and_clean_up() -> None:
    for outcome in Outcome:
        assert exit_code(outcome, False) is Exit.DIRTY
        assert (
            exit_code(outcome, True)
            is {
                "pass": Exit.PASS,
                "weakness": Exit.WEAKNESS,
                "inconclusive": Exit.INCONCLUSIVE,
                "aborted": Exit.ABORTED,
                "error": Exit.ERROR,
            }[outcome.value]
        )
    assert exit_code("pass", None) is Exit.INCONCLUSIVE
    assert exit_code("weakness", None) is Exit.WEAKNESS


def test_no_subset_of_the_events_of_a_failing_run_passes() -> None:
    """Losing records may make a verdict worse or open, never green."""
    kinds = ["run.end", "phase.end", "fault.evidence", "fault.undo", "sample", "cluster.status", "phase.start"]
    for lost in itertools.chain.from_iterable(itertools.combinations(kinds, n) for n in (1, 2)):
        story = synthetic.black_hole()
        story.mutate = _without(*lost)
        assert judged(story).outcome is not Outcome.PASS


# -- on disk ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("story", ["slow_zone", "killed", "lost_writes"])
def test_disk_memory_and_parquet_give_the_same_findings(story: str, tmp_path: Path) -> None:
    made = synthetic.STORIES[story]()
    folder = made.write(tmp_path / "run")
    from_disk = judge(folder)
    assert json.loads((folder / "findings.json").read_text()) == from_disk
    said = {name: value for name, value in from_disk.items() if name != "made_by"}
    assert said == json.loads(json.dumps(evaluate(made.history()).to_json()))
    compact(folder)
    assert {name: value for name, value in judge(folder).items() if name != "made_by"} == said


def test_the_plan_of_a_real_definition_is_understood() -> None:
    from chaos.registry import load_experiment

    root = Path(__file__).parents[3]
    for file in sorted((root / "experiments").glob("*.yaml")):
        experiment = load_experiment(file)
        story = synthetic.slow_zone()
        history = story.history()
        history.plan["experiment"] = json.loads(json.dumps(experiment.to_json()))
        record = Record(history)
        assert [op.name for op in record.operations] == [op.name for op in experiment.load.operations]
        assert [(e.text, e.value, e.phases) for e in record.expectations] == [
            (e.text, e.value, e.phases) for e in experiment.expect
        ]
        assert [op.good_within for op in record.operations] == [op.good_within for op in experiment.load.operations]


def test_all_of_it_is_json() -> None:
    for make in synthetic.STORIES.values():
        json.dumps(judged(make()).to_json(), allow_nan=False)
