"""The guard over an SLI: dead, slow, stale, empty, mistyped are answers without a value; silence ends the run too."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.definitions.experiment import Guards
from chaos.definitions.slis import Sli
from chaos.instruments.slis import Limit, Said, Slis
from chaos.run import guards

SLI = Sli.model_validate({"prometheus": "http://p:9090", "query": "q", "every": "5s"})


class Answers:
    """What was heard last."""

    def __init__(self) -> None:
        self.said: Said | None = None

    def hear(self, at: float, value: float | None, why: str | None = None) -> None:
        number = 1 if self.said is None else self.said.number + 1
        self.said = Said(number, at, value, why if value is None else None)


def limit(answers: Answers, **given: Any) -> guards.Guard:
    wanted = Guards.model_validate({"sli": {"errors": {"for": "10s", **given}}})
    asked = Slis(SimpleNamespace(slis={"errors": SLI}, file=Path("x.yaml")), Path("history"), print)  # type: ignore[arg-type]
    asked.said = lambda name: answers.said if name == "errors" else None  # type: ignore[method-assign]
    (found,) = asked.guards(wanted)
    assert found.name == "sli.errors"
    return found


def heard(values: list[float | None], **given: Any) -> list[str | None]:
    answers = Answers()
    guard = limit(answers, **given)
    said = []
    for k, value in enumerate(values):
        answers.hear(5.0 * k, value, "no series")
        said.append(guards.reason(guard, 5.0 * k + 0.1))
        assert guards.reason(guard, 5.0 * k + 0.2) is None or said[-1] is not None  # the same answer counts once
    return said


def test_it_trips_after_its_time_on_the_wrong_side_and_not_before() -> None:
    said = heard([0.01, 0.06, 0.07, 0.08], above="5%")
    assert said == [None, None, None, "errors was above 0.05 for 10s (at last 0.08)"]
    assert heard([0.99, 0.8, 0.8, 0.8], below=0.9)[-1] == "errors was below 0.9 for 10s (at last 0.8)"


def test_one_good_answer_begins_the_count_anew_and_the_limit_itself_is_good() -> None:
    assert heard([0.06, 0.06, 0.05, 0.06, 0.06], above="5%") == [None] * 5


@pytest.mark.parametrize("why", ["no series", "it cannot be reached", "no answer in time"])
def test_three_answers_without_a_value_end_the_run_and_two_do_not(why: str) -> None:
    assert heard([0.0, None, None, 0.0, None, None], above=1) == [None] * 6
    assert heard([0.0, None, None, None], above=1)[-1] == (
        "it cannot be evaluated: errors had no value 3 times in a row (no series)"
    )


def test_an_answer_without_a_value_forgives_nothing() -> None:
    assert heard([2, None, None, 2], above=1)[-1] == "errors was above 1 for 10s (at last 2)"


def test_silence_ends_the_run_from_the_beginning_and_later() -> None:
    answers = Answers()
    guard = limit(answers, above=1)
    assert guard.tripped(100.0) is None and guard.tripped(120.0) is None
    assert guard.tripped(120.1) == "it cannot be evaluated: nothing was heard of errors for 20 s"
    answers.hear(200.0, 0.5)
    guard = limit(answers, above=1)
    assert guard.tripped(201.0) is None and guard.tripped(219.0) is None
    assert guard.tripped(220.1) is not None


def test_a_guard_that_breaks_ends_the_run() -> None:
    made = Limit("errors", Guards.model_validate({"sli": {"errors": {"above": 1, "for": "1s"}}}).sli["errors"],
                        SLI, lambda: 1 / 0)  # type: ignore[arg-type,return-value]  # fmt: skip
    assert "it cannot be evaluated: ZeroDivisionError" in str(guards.reason(made, 1.0))


def test_an_alert_that_fires_ends_the_run_at_once() -> None:
    rules = Sli.model_validate({"prometheus": "http://p:9090", "rules": "alerts.yml", "every": "5s"})
    answers = Answers()
    wanted = Guards.model_validate({"sli": {"red": {"firing": True}}}).sli["red"]
    guard = Limit("red", wanted, rules, lambda: answers.said)
    answers.hear(0.0, 0.0)
    assert guard.tripped(0.1) is None
    answers.hear(5.0, 2.0)
    assert guard.tripped(5.1) == "red fires (2 alerts)"


def test_an_alert_without_data_ends_the_run_as_a_query_does() -> None:
    assert heard([0.0, None, None, None], firing=True, **{"for": None})[-1] == (
        "it cannot be evaluated: errors had no value 3 times in a row (no series)"
    )
