"""Health of all indices: what a state of the cluster says of them, and what a phase comes to, known or not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import synthetic
from fakes import FakeLab, Log
from hypothesis import given
from hypothesis import strategies as st
from pages import Page

from chaos.checks import evaluate
from chaos.checks.instrument import ClusterViews
from chaos.checks.measure import Bound, Verdict, judge
from chaos.checks.record import SECOND, Expected, Record
from chaos.history import History
from chaos.instruments import index_health as module
from chaos.instruments.index_health import BLOCKED, FILE, RED, YELLOW, IndexHealth, line, measure
from chaos.instruments.sampler import Sampler
from chaos.opensearch.views import Block, ShardCopy, View, parse
from chaos.report.page import render_html

STATE = {
    "version": 7,
    "cluster_manager_node": "n1",
    "nodes": {"n1": {"name": "a-cm"}, "n2": {"name": "a-data"}},
    "routing_table": {
        "indices": {
            "chaos": {
                "shards": {
                    "0": [
                        {"primary": True, "state": "STARTED", "node": "n2"},
                        {"primary": False, "state": "UNASSIGNED", "node": None},
                    ]
                }
            },
            "other": {
                "shards": {
                    "0": [
                        {
                            "primary": True,
                            "state": "UNASSIGNED",
                            "node": None,
                            "unassigned_info": {"allocation_status": "deciders_no"},
                            "recovery_source": {"type": "EMPTY_STORE"},
                        }
                    ]
                }
            },
        }
    },
    "blocks": {
        "indices": {
            "chaos": {"8": {"description": "index write (api)", "retryable": False, "levels": ["write"]}},
            "other": {"9": {"description": "index metadata (api)", "retryable": False, "levels": ["metadata_write"]}},
        }
    },
}
"""As OpenSearch 3.8.0 answers, cut to what is asked for."""


def test_a_state_says_which_indices_are_red_lack_a_copy_and_are_blocked() -> None:
    assert line(parse("a-cm", STATE), {}) == {
        RED: {"other": 1},
        YELLOW: {"chaos": 1},
        BLOCKED: {"chaos": ["index write (api)"]},
    }


def test_a_new_index_is_not_red_before_it_could_be_and_a_block_of_what_does_not_count_is_left_out() -> None:
    fresh = ShardCopy("new", 0, True, "INITIALIZING", "a-data", None, True)
    seen = View(
        "a-cm", 1, "a-cm", frozenset(), (fresh,), (Block("theirs", "index write (api)"), Block(None, "read-only"))
    )
    assert line(seen, {}) == {RED: {}, YELLOW: {"new": 1}, BLOCKED: {"*": ["read-only"]}}


def test_a_line_has_so_many_names_and_says_how_many_more_there_were() -> None:
    copies = tuple(ShardCopy(f"i{n:03}", 0, True, "UNASSIGNED", None) for n in range(module.MOST + 5))
    found = line(View("a-cm", 1, "a-cm", frozenset(), copies), {})
    assert len(found[RED]) == module.MOST and found["more"] == 5


SAYS = ["index write (api)"]


def blocks(*names: str) -> View:
    copies = tuple(ShardCopy(name, 0, True, "STARTED", "a-data") for name in names)
    return View("a-cm", 1, "a-cm", frozenset(), copies, tuple(Block(name, *SAYS) for name in names))


def test_a_new_block_is_named_before_the_old_ones() -> None:
    old = [f"a{number:02}" for number in range(module.MOST + 5)]
    first = module.blocked(blocks(*old))
    found = line(blocks(*old, "chaos"), first)
    assert found[BLOCKED]["chaos"] == SAYS and len(found[BLOCKED]) == module.MOST
    assert (found["old"], found["more"]) == (len(old), 6)


def test_of_old_blocks_the_same_ones_are_named_when_one_is_gone() -> None:
    old = [f"a{number:02}" for number in range(module.MOST + 5)]
    first = module.blocked(blocks(*old))
    assert set(line(blocks(*old[1:]), first)[BLOCKED]) == set(old[1 : module.MOST])


def test_a_line_of_before_that_leaves_out_blocks_decides_nothing() -> None:
    names = {f"a{number:02}": SAYS for number in range(module.MOST)}

    def lines(start: int, end: int) -> list[dict[str, Any]]:
        whole = [
            {"t": t, "kind": "seen", RED: {}, YELLOW: {}, BLOCKED: names, "more": 1} for t in range(start, end, SECOND)
        ]
        return [{**whole[0], "t": start - SECOND}, *whole]

    _, record = run(lines, lines)
    assert found(record, BLOCKED).value is None
    assert found(record, RED).value == 0

    def told(start: int, end: int) -> list[dict[str, Any]]:
        return [each | {"old": 21} for each in lines(start, end)]

    _, record = run(told, told)
    assert found(record, BLOCKED).value == 0, "of which all were there before"


def test_it_is_told_of_each_state_that_the_sampler_believes_and_asks_nobody(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    sampler = Sampler(FakeLab(), Log(), "chaos")  # type: ignore[arg-type]
    provided = {ClusterViews: sampler}
    context: Any = SimpleNamespace(
        folder=tmp_path, broken=lambda says: None, counted=lambda seen: seen, provided=provided.get
    )
    observer = IndexHealth(context)
    observer.start()
    sampler._take([parse("a-cm", STATE)])
    sampler._take([View("a-cm", 8, None, frozenset(), ())])  # nobody leads: it is believed by nobody
    observer.stop()
    sampler._take([parse("a-cm", STATE)])
    assert len((tmp_path / "history" / FILE).read_text().splitlines()) == 1


Lines = Callable[[int, int], list[dict[str, Any]]]


def run(inside: Lines, elsewhere: Lines | None = None) -> tuple[History, Record]:
    """A made-up run with these lines in its second phase."""
    history: History = synthetic.slow_zone().history()
    sound = elsewhere or module._lines()
    made = [inside if number == 1 else sound for number in range(len(history.phases))]
    pairs = zip(made, history.phases, strict=True)
    history.give(FILE, [each for lines, span in pairs for each in lines(span.start_ns, span.end_ns)])
    return history, Record(history)


def wanted(value: float, comparison: str = "<=") -> Expected:
    return Expected("cluster.red", None, "cluster.red", ("slow",), comparison, value, "", None)


def found(record: Record, kind: str, value: float = 2, comparison: str = "<=") -> Any:
    return measure(record, wanted(value, comparison), record.spans[1], kind)


def test_seconds_of_a_phase_and_which_index_for_how_long() -> None:
    _, record = run(module._lines(red={"other": 1}, blocked={"chaos": ["index write (api)"]}))
    red, yellow, stopped = (found(record, kind) for kind in (RED, YELLOW, BLOCKED))
    assert (red.value, red.bound, red.says) == (10, Bound.EXACT, "other 10 s")
    assert yellow.value == 10, "what lacks a primary lacks a copy"
    assert stopped.says == "chaos 10 s (index write (api))"
    assert measure(record, wanted(2), record.spans[0], RED).says == "no index was seen red"


def test_a_block_from_before_the_first_phase_does_not_count_and_another_one_does() -> None:
    old = {"old": ["index write (api)"]}

    def before(start: int, end: int) -> list[dict[str, Any]]:
        whole = [{"t": at, "kind": "seen", RED: {}, YELLOW: {}, BLOCKED: old} for at in range(start, end, SECOND)]
        return [{**whole[0], "t": start - SECOND}, *whole]

    _, record = run(before, before)
    assert found(record, BLOCKED).value == 0
    assert "old had been blocked before the first phase" in found(record, BLOCKED).says

    def more(start: int, end: int) -> list[dict[str, Any]]:
        return [{**each, BLOCKED: {"old": ["index write (api)", "index read-only"]}} for each in before(start, end)]

    assert found(run(more, before)[1], BLOCKED).value == pytest.approx(40, abs=1.1)


def holes(seconds: int, **lines: Any) -> Lines:
    """Nobody leads for so long in the middle of the phase."""

    def without(start: int, end: int) -> list[dict[str, Any]]:
        inside = (start + 20 * SECOND, start + (20 + seconds) * SECOND)
        return [each for each in module._lines(**lines)(start, end) if not inside[0] < each["t"] < inside[1]]

    return without


def test_what_nobody_knows_may_have_been_either() -> None:
    _, record = run(holes(10))
    red = found(record, RED, 2)
    assert red.value == 0 and judge(red, "<=", 2) is Verdict.INCONCLUSIVE
    assert judge(found(record, RED, 9), "<=", 9) is Verdict.PASS, "7.5 s unknown: it is met whatever they were"
    assert "of 7.5 s no node with a cluster manager said how they are" in red.says
    _, record = run(holes(10, red={"other": 1}))
    assert judge(found(record, RED, 2), "<=", 2) is Verdict.FAIL, "what was seen stands"
    assert judge(found(record, RED, 12), "<=", 12) is Verdict.INCONCLUSIVE


@given(st.integers(2, 18), st.floats(0, 45))
def test_no_hole_makes_a_pass_that_some_truth_would_miss(seconds: int, bound: float) -> None:
    _, record = run(holes(seconds, red={"other": 1}))
    totals = module.totals(record, record.spans[1])
    assert totals is not None
    verdict = judge(found(record, RED, bound), "<=", bound)
    if verdict is Verdict.PASS:
        assert totals.red + totals.unknown <= bound + 1e-6
    if verdict is Verdict.FAIL:
        assert totals.red > bound


def test_without_lines_nothing_is_said() -> None:
    _, record = run(lambda start, end: [])
    assert found(record, RED, 100).value is None
    assert measure(record, wanted(2), record.spans[3], RED).value == 0
    assert found(Record(synthetic.slow_zone().history()), RED).value is None


@pytest.mark.parametrize("cut", [{"kind": "seen"}, {"kind": "seen", RED: 3, YELLOW: {}, BLOCKED: {}}, {"kind": "else"}])
def test_a_line_that_was_cut_or_is_unknown_spoils_no_page(cut: dict[str, Any]) -> None:
    history, _ = run(lambda start, end: [*module._lines()(start, end), {"t": start + SECOND, **cut}])
    assert "Indices that were red" in Page(render_html(history, evaluate(history).to_json())).words


def test_the_report_draws_it_and_a_run_without_it_has_no_such_section() -> None:
    history, _ = run(module._lines(red={"other": 1}))
    words = Page(render_html(history, evaluate(history).to_json())).words
    assert "red: other 10\u00a0s" in words and "Indices that are red" in words
    bare = synthetic.slow_zone().history()
    assert "index_health" not in evaluate(bare).tables
    assert "Indices that were red" not in Page(render_html(bare, evaluate(bare).to_json())).words


def test_a_redacted_line_names_no_index() -> None:
    (first, *_) = module._lines()(0, 2 * SECOND)
    said = module.redacted({**first, RED: {"salaries": 1}, BLOCKED: {"secret": ["index write (api)"]}})
    assert "salaries" not in str(said) and "secret" not in str(said)
    assert said[RED] == {"index 1": 1} and said["t"] == 0
