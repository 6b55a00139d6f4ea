"""The shares within several limits: what is counted, on which side of a limit, and how the page marks the objective."""

from __future__ import annotations

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.checks import evaluate, within
from chaos.checks.arrivals import Arrivals
from chaos.checks.record import OUTCOMES, Record
from chaos.report import within as shown

MS = 1_000_000


def arrivals(rows: list[tuple[str, int]], good_within: float = 0.1) -> Arrivals:
    """(outcome, ns until the answer), in two parts as a history gives them."""

    def some(these: list[tuple[str, int]], first: int) -> Arrivals:
        intended = np.array([(first + i) * MS + 1 for i in range(len(these))], np.int64)
        none = np.zeros(len(these), np.int64)
        return Arrivals.of(
            intended=intended,
            start=intended + 1,
            end=intended + np.array([took for _, took in these], np.int64),
            outcome=np.array([OUTCOMES[name] for name, _ in these], np.uint8),
            phase=none,
            k=np.arange(first, first + len(these)),
            client=none,
            node=none,
            good_within=good_within,
        )

    half = len(rows) // 2
    return Arrivals.joined([some(rows[:half], 0), some(rows[half:], half)])


def test_a_limit_is_within_itself_and_only_whole_answers_count() -> None:
    rows = [("ok", 50 * MS), ("ok", 50 * MS + 1), ("ok", 100 * MS), ("ok", 1000 * MS), ("ok", 1000 * MS + 1)]
    rows += [("partial", MS), ("rejected", MS), ("timeout", MS), ("dropped", MS), ("unknown", MS)]
    assert list(within.within(arrivals(rows), list(within.LIMITS))) == [1, 3, 3, 3, 4]


def test_nothing_scheduled_is_nothing() -> None:
    assert list(within.within(Arrivals(), [0.1, 1.0])) == [0, 0]


@given(
    rows=st.lists(st.tuples(st.sampled_from(list(OUTCOMES)), st.integers(1, 2000 * MS)), max_size=60),
    objective=st.integers(1, 1500 * MS).map(lambda ns: ns / 1e9),
)
@settings(deadline=None)
def test_it_agrees_with_what_is_good_and_with_a_count_by_hand(rows: list[tuple[str, int]], objective: float) -> None:
    made = arrivals(rows, objective)
    limits = sorted({*within.LIMITS, objective})
    found = within.within(made, limits)
    assert list(found) == [sum(name == "ok" and took / 1e9 <= limit for name, took in rows) for limit in limits]
    assert found[limits.index(objective)] == made.counts[:, 1].sum()


@pytest.mark.parametrize("story", synthetic.STORIES)
def test_the_column_of_the_objective_is_the_share_that_is_judged(story: str) -> None:
    tables = evaluate(synthetic.STORIES[story]().history()).tables
    for op, table in tables["within"]["operations"].items():
        at = tables["within"]["limits"].index(table["objective"])
        assert list(table["phases"]) == list(tables["good"][op])
        for phase, row in table["phases"].items():
            judged = tables["good"][op][phase]
            assert (row["scheduled"], row["counts"][at]) == (judged["scheduled"], judged["good"])
            assert row["shares"][at] == judged["share"]
            assert row["counts"] == sorted(row["counts"])


def test_an_objective_that_is_none_of_the_limits_has_a_column_of_its_own() -> None:
    history = synthetic.slow_zone().history()
    history.plan["experiment"]["load"]["read"]["good_within"] = 0.2
    table = within.table(Record(history))
    assert table["limits"] == [0.05, 0.1, 0.2, 0.25, 0.5, 1.0]
    assert table["operations"]["read"]["objective"] == 0.2 and table["operations"]["write"]["objective"] == 0.1


def test_the_objective_is_marked_in_each_row_and_a_long_table_stays_out_of_the_summary() -> None:
    tables = evaluate(synthetic.slow_zone().history()).tables
    found = shown.section(tables)
    assert found is not None and found["limits"][0] == "50 ms" and found["limits"][-1] == "1\u00a0000 ms"
    assert [[cell["is_objective"] for cell in row["cells"]] for row in found["rows"]] == [
        [False, True, False, False, False]
    ] * len(found["rows"])
    head, *rows = shown.markdown(tables)
    assert head[0] == "answered fully within" and rows[0][0] == "reads, healthy"
    assert all(row[2].endswith(shown.MARK) and sum(shown.MARK in cell for cell in row) == 1 for row in rows)
    phases = tables["within"]["operations"]["read"]["phases"]
    phases.update({f"more-{n}": phases["healthy"] for n in range(shown.SHORT)})
    assert list(shown.markdown(tables)) == [] and shown.section(tables) is not None


def test_tables_from_before_are_no_table() -> None:
    assert shown.section({}) is None and list(shown.markdown({})) == []


def test_a_phase_without_arrivals_has_no_share() -> None:
    table = {"limits": [1.0], "operations": {"read": {"objective": 1.0, "phases": {"x": None}}}}
    table["operations"]["read"]["phases"]["x"] = {"scheduled": 0, "counts": [0], "shares": [None]}  # type: ignore[index]
    found = shown.section({"within": table})
    assert found is not None and found["rows"][0]["cells"][0]["text"] == "no data"
