"""Rates that change: how many arrivals were due follows from when they began to, and is held against what was due."""

from __future__ import annotations

from typing import Any

import pytest
import synthetic
from mutations import Stored
from synthetic import T0, Chapter, S, Story

from chaos.base.rates import ramp, steps
from chaos.checks import coverage, enough, validity
from chaos.checks.record import Record
from chaos.history.format import Outcome
from chaos.report import timeline

SURGE = ((0.0, 40.0, 40.0), (30.0, 40.0, 120.0), (60.0, 120.0, 120.0))


def surging(**more: Any) -> Story:
    return Story(
        chapters=[
            Chapter("healthy", 30),
            Chapter("dead", 60).fault(says="kill b-data"),
            Chapter("returned", 30).lift(),
        ],
        **{"changes": {"read": SURGE, "write": ramp(20, 60, 120)}, **more},
    )


def figures(record: Record) -> tuple[timeline.Figure, ...]:
    drawn = timeline.build(record, [])
    assert drawn is not None
    return drawn.figures


def condition(record: Record, name: str) -> Any:
    return next(each for each in validity.conditions(record) if each.id == name)


def test_the_record_has_the_lowest_rate_and_what_each_phase_demands() -> None:
    record = Record(surging().history())
    read, write = record.operations
    assert (read.rate, read.rate_text) == (40, "40/s, evenly to 120/s from 30s to 1m")
    assert [round(record.due(read, span.start, span.end)) for span in record.spans] == [1200, 2400 + 3600, 3600]
    assert [round(record.due(write, span.start, span.end)) for span in record.spans] == [750, 2400, 1650]
    assert record.window("read") == 3  # of a hundred arrivals at the lowest rate
    assert record.due(read, T0 - 10 * S, T0) == 400  # before it began to change


def test_a_rate_that_never_changes_demands_what_it_did() -> None:
    record = Record(surging(changes={}).history())
    (op, _), span = record.operations, record.spans[1]
    assert record.due(op, span.start, span.end) == op.rate * span.seconds
    assert not [each for each in validity.conditions(record) if each.id.startswith("offered.")]


def test_who_was_asked_and_what_was_written_are_held_against_what_was_due() -> None:
    run = Stored.of(surging().history())
    record = Record(run.history())
    due = coverage.Counts(record).total["read"]
    assert [due[place] for place in range(3)] == pytest.approx([1200, 6000, 3600], abs=0.1)
    assert enough.gaps(record) == ()
    rows = run.rows("write", "dead", share=0.2)
    run.answer(rows, Outcome.DROPPED)
    run.arrivals.loc[rows, ["start", "end"]] = 0
    (gap,) = enough.gaps(Record(run.history()))
    assert "of 2\u00a0400 writes" in gap.says or "of 2\u00a0399 writes" in gap.says


def test_a_driver_that_sends_as_planned_is_valid() -> None:
    record = Record(surging().history())
    for op in ("read", "write"):
        assert condition(record, f"offered.{op}").ok, condition(record, f"offered.{op}").measured
        assert condition(record, f"schedule.{op}").ok


def test_a_driver_that_never_changes_its_rate_is_not() -> None:
    """The least rate all the time leaves no window empty, and is not what was asked for."""
    story = surging()
    sent = Record(story.history())
    slow = surging(changes={"read": steps((0, 40), (1000, 41))}).history()
    slow.__dict__["plan"] = story.plan()
    record = Record(slow)
    assert len(record.arrivals["read"]) < len(sent.arrivals["read"])
    assert condition(record, "schedule.read").ok
    found = condition(record, "offered.read")
    assert not found.ok and "at worst 240 where 720.0 were demanded" in found.measured
    assert found.gap.says.startswith("reads were not asked for as their rate was to change")


def test_nor_one_that_was_never_told_when_to() -> None:
    def untold(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [each for each in events if each["kind"] != "rates.begin"]

    found = condition(Record(surging(mutate=untold).history()), "offered.read")
    assert not found.ok and found.measured == "the driver was never told when to begin to change"


def test_the_report_says_and_draws_the_rate_that_was_due() -> None:
    record = Record(surging().history())
    drawn = {each.op: each for each in figures(record)}
    corners = drawn["read"].offered.removeprefix("M").split("L")
    xs, ys = zip(*(map(float, each.split()) for each in corners), strict=True)
    assert len(corners) == 4 and list(xs) == sorted(xs)
    assert ys[0] == ys[1] > ys[2] == ys[3]
    bottom = timeline.BAR_TOP + timeline.BAR_HEIGHT
    assert (bottom - ys[2]) == pytest.approx(3 * (bottom - ys[0]), abs=0.3)
    fine = drawn["read"].fine
    assert fine["offered"][0] == 40 and max(fine["offered"]) == 120
    constant = next(iter(figures(Record(surging(changes={}).history()))))
    assert constant.offered == "" and "offered" not in constant.fine


def test_random_arrivals_are_as_many_but_for_chance() -> None:
    history = synthetic.Story(chapters=[Chapter("healthy", 60)], changes={"read": SURGE}).history()
    history.plan["experiment"]["load"]["arrivals"] = "poisson"  # type: ignore[typeddict-item]
    assert condition(Record(history), "offered.read").ok


BURSTS = tuple(second + part / 60 for second in range(120) for part in range(120 if second % 10 == 5 else 10))
"""Ten arrivals in each second but in each tenth, which has 120 within two seconds."""


def replayed(**more: Any) -> Story:
    return surging(changes={}, times={"read": tuple(sorted(BURSTS))}, **more)


def test_a_list_demands_its_arrivals_in_each_window() -> None:
    record = Record(replayed().history())
    read = record.operations[0]
    assert read.rate == pytest.approx(len(BURSTS) / 120)
    assert [round(record.due(read, span.start, span.end)) for span in record.spans] == [630, 1260, 630]
    assert record.due(read, T0 + 5 * S, T0 + 6 * S) == 60 and record.due(read, T0 - 10 * S, T0) == 10
    assert condition(record, "offered.read").ok, condition(record, "offered.read").measured
    drawn = next(each for each in figures(record) if each.offered)
    assert drawn.fine["offered"]


def test_a_driver_that_sends_the_mean_of_a_list_is_not_valid() -> None:
    """As many in all, and none of the bursts."""
    story = replayed()
    run = Stored.of(story.history())
    even = Stored.of(surging(changes={"read": ((0.0, len(BURSTS) / 120, len(BURSTS) / 120),)}).history())
    run.arrivals = even.arrivals
    offered = condition(Record(run.history()), "offered.read")
    assert not offered.ok and "were demanded" in offered.measured
