"""The check of SLIs: what is judged, what is missing. Missing data never passes, and worse is never better."""

from __future__ import annotations

from typing import Any

import pytest
import synthetic
from hypothesis import given
from hypothesis import strategies as st

from chaos.checks import catalogue, plainly
from chaos.checks.check import Check
from chaos.checks.measure import Measure, Verdict, judge
from chaos.checks.record import Record
from chaos.checks.verdict import Findings, evaluate
from chaos.history import History
from chaos.statistics import facts

T0, S = synthetic.T0, synthetic.S
EVERY = 5.0
NAME = "checkout_errors"
SLOW = (30.0, 70.0)
"""When the phase slow lasts, in seconds after the load's start."""
TARGETS = {"max": "<", "min": ">", "mean": "<", "last": "<="}


def wanted(quantity: str, comparison: str, value: float, shown: str | None = None) -> dict[str, Any]:
    text = f"sli.{NAME}.{quantity} {comparison} {shown or f'{value:g}'}"
    return {"metric": text.partition(" ")[0], "op": None, "quantity": text.partition(" ")[0], "unit": "number"} | {
        "phases": ["slow"], "comparison": comparison, "value": value, "text": text, "known_weakness": None
    }  # fmt: skip


def line(at: float, value: float | None, **more: Any) -> dict[str, Any]:
    missing = {"why": "no series", "said": None} if value is None else {}
    return {"t": T0 + round(at * S), "kind": "sli", "name": NAME, "value": value, "at": 1e9 + at, **missing, **more}


def run(values: list[float | None], expected: list[dict[str, Any]], first: float = 31.0) -> History:
    """The made-up run that passes, with these answers in the phase slow, every 5 s."""
    story = synthetic.slow_zone()
    story.expect = expected
    history = story.history()
    history.plan["experiment"]["slis"] = {NAME: {"prometheus": "http://p:9090", "query": "q", "every": EVERY}}
    before = [line(1.0 + EVERY * k, 9.9) for k in range(5)]  # of another phase, and very bad
    history.give("slis.jsonl", before + [line(first + EVERY * k, value) for k, value in enumerate(values)])
    return history


RECORD = Record(run([], []))


def measured(values: list[float | None], expected: dict[str, Any], first: float = 31.0) -> tuple[Measure, Verdict]:
    """The check alone, with what was said in the phase."""
    seen = [line(first + EVERY * k, value) for k, value in enumerate(values)]
    RECORD._lines = lambda name: seen
    check = catalogue.of(expected["metric"])
    assert isinstance(check, Check)
    from chaos.checks.record import _expectations

    (one,) = _expectations({"expect": [expected]})
    measure = check.measure(RECORD, one, RECORD.span("slow"))  # type: ignore[arg-type]
    return measure, judge(measure, one.comparison, one.value)


def finding(found: Findings) -> Any:
    return next(each for each in found.findings if each.metric.startswith("sli."))


@pytest.mark.parametrize(
    ("quantity", "value", "shown"),
    [("max", 0.04, "0.04"), ("min", 0.001, "0.001"), ("mean", 0.01, "0.01"), ("last", 0.002, "0.002")],
)
def test_each_quantity_is_of_the_phase_alone(quantity: str, value: float, shown: str) -> None:
    values: list[float | None] = [0.001, 0.04, 0.004, 0.004, 0.005, 0.014, 0.01, 0.002]
    measure, _ = measured(values, wanted(quantity, "<", 1))
    assert measure.value == pytest.approx(value) and measure.text == shown
    assert "of 8 values" in measure.says and measure.evidence["due"] == 8


def test_a_run_whose_sli_is_met_passes_and_one_whose_sli_is_not_is_a_weakness() -> None:
    good = evaluate(run([0.001] * 8, [wanted("max", "<", 0.01, "1%")]))
    assert (good.outcome, finding(good).measure.text) == ("pass", "0.1 %")
    bad = evaluate(run([0.001] * 7 + [0.02], [wanted("max", "<", 0.01, "1%")]))
    assert (bad.outcome, finding(bad).counts_as, finding(bad).measure.text) == ("weakness", "weakness", "2 %")
    assert bad.headline.startswith("The largest value of checkout_errors was 2 % in “slow”; wanted was less than 1 %")


def test_no_data_is_inconclusive_and_says_why() -> None:
    none = evaluate(run([None] * 8, [wanted("max", "<", 0.01)]))
    assert none.outcome == "inconclusive"
    assert finding(none).says == "no data from 30 s to 70 s, one answer every 5 s was due: no series (8 of 8)"
    nobody = evaluate(run([], [wanted("max", "<", 0.01)]))
    assert nobody.outcome == "inconclusive" and finding(nobody).says.endswith("was due, and nobody was asked")
    other = run([0.0] * 8, [wanted("max", "<", 0.01)])
    del other.plan["experiment"]["slis"]
    assert evaluate(other).outcome == "inconclusive"


def test_a_hole_is_inconclusive_wherever_it_is_and_two_missing_answers_are_none() -> None:
    target = wanted("max", "<", 0.01)
    ok: list[float | None] = [0.001] * 8
    for at in range(7):
        assert measured([*ok[:at], None, None, *ok[at + 2 :]], target)[1] is Verdict.PASS
    for at in range(6):
        measure, verdict = measured([*ok[:at], None, None, None, *ok[at + 3 :]], target)
        assert verdict is Verdict.INCONCLUSIVE and "no data from" in measure.says and "no series" in measure.says
    sparse: list[float | None] = [0.001, None, None, 0.001, None, None, 0.001, None]
    measure, verdict = measured(sparse, target)
    assert verdict is Verdict.INCONCLUSIVE and "only 3 of 8 answers have a value" in measure.says


def test_the_last_value_is_that_of_the_last_answer() -> None:
    target = wanted("last", "<", 0.01)
    assert measured([0.5, *[0.001] * 7], target)[1] is Verdict.PASS
    measure, verdict = measured([*[0.001] * 7, None], target)
    assert verdict is Verdict.INCONCLUSIVE and measure.says.startswith("the last answer of the phase has no value: no")


def test_an_answer_that_came_in_the_next_phase_belongs_to_none() -> None:
    target = wanted("max", "<", 0.01)
    record = Record(run([0.001] * 7, [target]))
    record.lines("slis.jsonl").append(line(69.0, 0.5, took_ms=2000.0))
    (one,) = record.expectations
    check = catalogue.of(one.metric)
    assert check is not None
    for name in ("slow", "failover"):
        span = record.span(name)
        assert span is not None and check.measure(record, one, span).value != 0.5  # type: ignore[arg-type]


def test_what_was_seen_to_be_missed_stands_whatever_is_missing() -> None:
    hole: list[float | None] = [0.5, None, None, None, None, None, None, 0.001]
    measure, verdict = measured(hole, wanted("max", "<", 0.01))
    assert (verdict, measure.value) == (Verdict.FAIL, 0.5) and "besides, no data from" in measure.says
    assert measured(hole, wanted("min", ">=", 0.1))[1] is Verdict.FAIL
    # a mean, a last value, and a target that a larger value meets, hang on what is missing
    for open_ in (wanted("mean", "<", 0.01), wanted("last", "<", 0.0001), wanted("max", ">", 0.6)):
        assert measured(hole, open_)[1] is Verdict.INCONCLUSIVE
    assert measured(hole, wanted("max", ">", 0.4))[1] is Verdict.INCONCLUSIVE


def test_what_is_said_instead_of_a_value_is_quoted_in_one_line() -> None:
    history = run([], [wanted("max", "<", 0.01)])
    history.lines("slis.jsonl").extend(
        line(31 + EVERY * k, None, why="the query is refused", said="parse\nerror") for k in range(8)
    )
    assert finding(evaluate(history)).says.endswith("the query is refused (8 of 8), “parse error”")


def test_an_unproven_fault_takes_its_worth_as_from_all_others() -> None:
    history = run([0.001] * 8, [wanted("max", "<", 0.01)])
    events = [each for each in history.events if each["kind"] != "fault.evidence" or each.get("stage") != "effect"]
    vars(history)["events"] = events
    assert finding(evaluate(history)).verdict == "inconclusive"


values = st.lists(st.none() | st.floats(0, 1, allow_nan=False), min_size=0, max_size=9)
targets = st.builds(
    lambda quantity, comparison, value: wanted(quantity, comparison, value),
    st.sampled_from(sorted(TARGETS)),
    st.sampled_from(["<", "<=", ">", ">="]),
    st.floats(0, 1, allow_nan=False),
)
ORDER = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)


@given(values, targets, st.data())
def test_data_that_is_missing_never_passes(given_: list[float | None], target: dict[str, Any], data: Any) -> None:
    """Whatever three answers in a row are taken away, what is left is no pass; without any there is no verdict."""
    full = [*given_, *[0.5] * (8 - len(given_))]
    at = data.draw(st.integers(0, 5))
    holed = [None if at <= k < at + 3 else value for k, value in enumerate(full[:8])]
    assert measured(holed, target)[1] is not Verdict.PASS
    assert measured([None] * 8, target)[1] is Verdict.INCONCLUSIVE


@given(values, targets, st.data())
def test_a_worse_value_never_makes_a_better_verdict(
    given_: list[float | None], target: dict[str, Any], data: Any
) -> None:
    there = [k for k, value in enumerate(given_) if value is not None]
    if not there:
        return
    k = data.draw(st.sampled_from(there))
    by = data.draw(st.floats(0, 10, allow_nan=False))
    worse = list(given_)
    old = given_[k]
    assert old is not None
    worse[k] = old + by if target["comparison"] in ("<", "<=") else old - by
    before, after = measured(given_, target)[1], measured(worse, target)[1]
    assert ORDER.index(after) <= ORDER.index(before)


def test_it_has_words_of_its_own_and_no_direction() -> None:
    item = finding(evaluate(run([0.3] * 8, [wanted("last", "<=", 0.25, "250ms")]))).to_json()
    assert plainly.short(item) == "last value of checkout_errors in slow"
    assert plainly.promise(item) == "The last value of checkout_errors in “slow”: 250 ms or less"
    assert item["measured_text"] == "300 ms"
    assert catalogue.of("sli.x.p99") is None and catalogue.of("sli.max") is None
    assert facts.has_words("number") and facts.has_words("ratio") and not facts.higher_is_better("ratio")
