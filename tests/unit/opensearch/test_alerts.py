"""Alerts of rules, as a ruler keeps them: pending, firing, held; holes; what counts as data. Servers on loopback."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from promlike import Params, Promlike, error, promlike

from chaos.definitions.rules import AlertRule
from chaos.definitions.slis import ResolvedSli
from chaos.opensearch.alerts import NO_DATA, AlertAsker, State
from chaos.opensearch.prometheus import Answer

ONE, TWO = frozenset({("node", "1")}), frozenset({("node", "2")})
RED = AlertRule(alert="Red", expr="status == 2", for_=10.0)


def heard(rule: AlertRule, *turns: tuple[float, set[Any]]) -> list[int]:
    state = State(rule)
    fired = []
    for now, found in turns:
        state.hear(now, dict.fromkeys(found, now))
        fired.append(state.firing)
    return fired


def test_an_alert_is_pending_for_its_time_and_each_series_counts_for_itself() -> None:
    assert heard(RED, (0, {ONE}), (5, {ONE, TWO}), (10, {ONE, TWO}), (15, {ONE, TWO}), (16, {TWO})) == [0, 0, 1, 2, 1]


def test_one_answer_without_it_begins_the_count_anew() -> None:
    assert heard(RED, (0, {ONE}), (5, set()), (10, {ONE}), (19, {ONE}), (20, {ONE})) == [0, 0, 0, 0, 1]


def test_without_for_it_fires_at_once_and_keep_firing_for_holds_it() -> None:
    rule = AlertRule(alert="Red", expr="up == 0", keep_firing_for=10.0)
    assert heard(rule, (0, {ONE}), (5, set()), (9, set()), (10, set())) == [1, 1, 1, 0]
    pending = RED.model_copy(update={"keep_firing_for": 10.0})
    assert heard(pending, (0, {ONE}), (5, set()), (10, {ONE})) == [0, 0, 0]  # what never fired is not held


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(0, 8))
def test_it_fires_exactly_where_it_held_in_every_answer_for_that_long(holds: list[bool], lasts: int) -> None:
    rule = AlertRule(alert="Red", expr="status == 2", for_=float(lasts))
    fired = heard(rule, *((float(n), {ONE} if held else set()) for n, held in enumerate(holds)))
    for n, count in enumerate(fired):
        assert count == int(n >= lasts and all(holds[n - lasts : n + 1]))


# ------------------------------------------------------------------------------------------ asking


class Story:
    """What a server knows: ``status`` None where there is no such metric, ``age`` of its newest sample."""

    def __init__(self) -> None:
        self.status: float | None = 0.0
        self.age, self.before, self.fails = 0.0, [0.0], False
        self.asked: list[Params] = []

    def __call__(self, server: Promlike, params: Params) -> tuple[int, Any]:
        now, query = time.time(), params["query"]
        self.asked.append(params)
        if query == "time()":
            return 200, {"status": "success", "data": {"resultType": "scalar", "result": [now, str(now)]}}
        if self.fails:
            return error(503, "busy")
        if "start" in params:
            values = [[now - age, "2"] for age in self.before]
            series = [{"metric": {"__name__": "status", "node": "1"}, "values": values}] if values else []
            return 200, {"status": "success", "data": {"resultType": "matrix", "result": series}}
        value = {"status == 2": 2.0 if self.status == 2 else None}.get(query, self.status)
        if query.startswith("max(timestamp("):
            value = None if self.status is None else now - self.age
        element = {"metric": {"__name__": "status", "node": "1"}, "value": [now, repr(value)]}
        result = [] if value is None else [element]
        return 200, {"status": "success", "data": {"resultType": "vector", "result": result}}


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def asker(story: Story, clock: Clock) -> Any:
    with promlike(story) as server:
        given_ = {"prometheus": server.url, "rules": "x.yml", "every": "1s", "oldest": "30s", "alerts": [RED]}
        made = AlertAsker(ResolvedSli.model_validate(given_), Path(), monotonic=clock)
        yield made
        made.close()


def then(asker: AlertAsker, clock: Clock, seconds: float) -> Answer:
    clock.now += seconds
    return asker.ask()


def test_empty_means_well_only_where_the_metric_is_there_and_young(asker: AlertAsker, story: Story) -> None:
    assert asker.ask().value == 0.0
    story.status = None
    none = asker.ask()
    assert (none.value, none.why, none.said, none.reached) == (None, NO_DATA, "Red: nothing there is status", True)
    story.status, story.age = 0.0, 31.0
    assert asker.ask().said == "Red: status is older than 30s: 31 s"
    story.age = -61.0
    assert "of the future" in str(asker.ask().said)
    story.age = 30.0
    assert asker.ask().value == 0.0


def test_what_fires_by_old_data_is_no_data(asker: AlertAsker, story: Story, clock: Clock) -> None:
    story.status, story.before = 2.0, [11.0 - n for n in range(12)]
    assert asker.ask().value == 1.0
    story.age = 40.0
    assert then(asker, clock, 1).value is None


def test_at_first_and_after_a_hole_the_time_before_is_asked_for(asker: AlertAsker, story: Story, clock: Clock) -> None:
    story.status, story.before = 2.0, [3.0, 2.0, 1.0, 0.0]
    assert asker.ask().value == 0.0  # for 3 s
    assert [then(asker, clock, 2.0).value for _ in range(4)] == [0.0, 0.0, 0.0, 1.0]
    story.before = [30.0, 29.0, 2.0, 1.0, 0.0]  # it was well in between, while it was not asked
    assert then(asker, clock, 10.0).value == 0.0
    starts = [each for each in story.asked if "start" in each]
    assert len(starts) == 2 and float(starts[0]["end"]) - float(starts[0]["start"]) == pytest.approx(11.0)


def test_a_server_that_fails_is_no_data_and_what_fired_does_not_count(
    asker: AlertAsker, story: Story, clock: Clock
) -> None:
    story.status, story.before = 2.0, [11.0 - n for n in range(12)]
    assert (asker.ask().value, asker.ask().alerts) == (1.0, ("Red",))
    story.fails = True
    failed = then(asker, clock, 1.0)
    assert failed.value is None and failed.said == "Red: it answers 503: busy" and not failed.reached
    story.fails = False
    assert then(asker, clock, 1.0).value == 1.0


def test_an_expression_that_the_server_refuses_is_wrong() -> None:
    def refuses(server: Promlike, params: Params) -> tuple[int, Any]:
        now = time.time()
        if params["query"] == "time()":
            return 200, {"status": "success", "data": {"resultType": "scalar", "result": [now, "1"]}}
        return error(400, "unknown function")

    with promlike(refuses) as server:
        given_ = {"prometheus": server.url, "rules": "x.yml", "alerts": [RED]}
        asker = AlertAsker(ResolvedSli.model_validate(given_), Path())
        found = asker.ask()
        asker.close()
    assert found.wrong and found.said == "Red: the query is refused: unknown function"


def test_a_server_of_another_time_is_no_data() -> None:
    with promlike(Story()) as server:
        given_ = {"prometheus": server.url, "rules": "x.yml", "alerts": [RED]}
        asker = AlertAsker(ResolvedSli.model_validate(given_), Path(), clock=lambda: time.time() + 3600)
        found = asker.ask()
        asker.close()
    assert found.value is None and "it was evaluated 3600 s ago" in str(found.why)


@pytest.mark.parametrize(
    "data",
    [
        {"resultType": "vector", "result": [{"metric": {}, "value": [1.0, "much"]}]},
        {"resultType": "vector", "result": [{"metric": {}}]},
        {"resultType": "scalar", "result": [1.0]},
        {"resultType": "vector", "result": 3},
        {},
    ],
)
def test_an_answer_that_cannot_be_read_is_told_and_raises_nothing(data: dict[str, Any]) -> None:
    with promlike(lambda it, params: (200, {"status": "success", "data": data})) as server:
        given_ = {"prometheus": server.url, "rules": "x.yml", "every": "1s", "alerts": [RED]}
        made = AlertAsker(ResolvedSli.model_validate(given_), Path())
        try:
            answer = made.ask()
        finally:
            made.close()
    assert (answer.value, answer.why) == (None, "its answer cannot be read")
