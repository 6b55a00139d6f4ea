"""The checks of alert rules: when one fires, and how many do. Missing data never passes, and what fired before proves
nothing of a phase."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.checks.test_slis import EVERY, NAME, line, run

from chaos.checks import catalogue
from chaos.checks.check import Check
from chaos.checks.measure import Bound, Measure, Verdict, judge
from chaos.checks.record import Record, _expectations

RECORD = Record(run([], []))


def measured(
    quantity: str, values: list[float | None], comparison: str, value: float, first: float = 31.0
) -> tuple[Measure, Verdict]:
    """The check, with these answers from ``first`` on; those before 30 s are of the phase before slow, of 40 s."""
    seen = [
        line(first + EVERY * n, each, **({"alerts": ["IsRed"]} if each else {}), took_ms=10.0)
        for n, each in enumerate(values)
    ]
    RECORD._lines = lambda name: seen
    metric = f"sli.{NAME}.{quantity}"
    expected: dict[str, Any] = {"metric": metric, "op": None, "quantity": metric, "phases": ["slow"]} | {
        "unit": "duration" if quantity == "fires" else "count", "comparison": comparison, "value": value,
        "text": f"{metric} {comparison} {value:g}", "known_weakness": None,
    }  # fmt: skip
    check = catalogue.of(metric)
    assert isinstance(check, Check)
    (one,) = _expectations({"expect": [expected]})
    found = check.measure(RECORD, one, RECORD.span("slow"))  # type: ignore[arg-type]
    return found, judge(found, one.comparison, one.value)


def test_it_is_counted_from_the_phase_s_begin_to_the_answer_in_which_it_fires() -> None:
    found, verdict = measured("fires", [0, 0, 0, 1, 1, 1, 1, 1], "<=", 20)
    assert found.value == pytest.approx(16.01) and found.unit == "seconds" and verdict is Verdict.PASS
    assert "IsRed" in found.says
    assert measured("fires", [0, 0, 0, 1, 1, 1, 1, 1], "<=", 10)[1] is Verdict.FAIL


def test_one_that_never_fires_fails_what_the_phase_was_long_enough_for() -> None:
    found, verdict = measured("fires", [0] * 8, "<=", 30)
    assert (found.value, found.bound, verdict) == (36.0, Bound.MORE_THAN, Verdict.FAIL)
    assert measured("fires", [0] * 8, "<=", 60)[1] is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("values", "first", "says"),
    [
        ([1, 1, 1, 1, 1, 1, 1, 1, 1], 26.0, "an alert fired already when the phase began"),
        ([None, 1, 1, 1, 1, 1, 1, 1, 1], 26.0, "and nothing is known of the time before: no series"),
        ([1] * 8, 31.0, "nothing is known of the time before"),
        ([0, None, None, None, 0, 0, 0, 0], 31.0, "no data from"),
        ([], 31.0, "no data from"),
        ([0, 0, 0, 0, None, None, None, 1], 31.0, "an alert fires after a time of which nothing is known: no series"),
    ],
)
def test_what_is_not_known_is_inconclusive(values: list[float | None], first: float, says: str) -> None:
    found, verdict = measured("fires", values, "<=", 30, first)
    assert verdict is Verdict.INCONCLUSIVE and says in found.says, found.says


def test_none_may_fire_and_one_answer_is_enough_to_miss_that() -> None:
    found, verdict = measured("firing", [0] * 8, "==", 0)
    assert (found.value, found.unit, verdict) == (0.0, "count", Verdict.PASS) and "no alert fired" in found.says
    assert measured("firing", [0, 0, 2, 0, 0, 0, 0, 0], "==", 0)[1] is Verdict.FAIL
    holes = [0, 0, 2, None, None, None, None, 0]
    assert measured("firing", holes, "==", 0)[1] is Verdict.FAIL
    assert measured("firing", holes, "<=", 1)[1] is Verdict.FAIL
    assert measured("firing", holes, "==", 2)[1] is Verdict.INCONCLUSIVE


@given(st.lists(st.sampled_from([0, None]), min_size=8, max_size=8))
def test_without_an_answer_that_fires_it_never_passes_and_holes_pass_nothing(values: list[float | None]) -> None:
    assert measured("fires", values, "<=", 1000)[1] is not Verdict.PASS
    if sum(value is None for value in values) > 4:
        assert measured("firing", values, "==", 0)[1] is Verdict.INCONCLUSIVE
