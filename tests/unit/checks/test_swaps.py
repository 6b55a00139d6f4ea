"""Changes of the zones' weights and the requests around them."""

from __future__ import annotations

import synthetic
from synthetic import Chapter, Story

from chaos.checks import swaps
from chaos.checks.record import Record
from chaos.history.format import Outcome

COLD = synthetic.mixed((30, 33, 0.5, Outcome.OK, 0.4), base=synthetic.healthy())
"""Half of the reads are late for 3 s from second 30 of the phase on."""
CHANGE = {"weights": {"b": 1, "a": 0, "c": 1}, "version": 7}


def told(*events: tuple[float, str, dict]) -> list[dict]:
    chapter = Chapter("rotating", 60, read=COLD)
    chapter.events += events
    return swaps.table(Record(Story(chapters=[chapter]).history()))


def test_a_change_that_two_controllers_saw_is_one_and_cold_reads_are_counted_after_it() -> None:
    (change,) = told((30.2, "failover.weights", CHANGE), (30.0, "failover.weights", CHANGE))
    assert (change["at"], change["says"]) == (30.0, "weights a 0, b 1, c 1")
    reads = change["requests"]["read"]
    assert reads["before"]["not_good"] == 0 and reads["before"]["scheduled"] == reads["after"]["scheduled"] > 0
    assert 0.1 * reads["after"]["scheduled"] < reads["after"]["not_good"] < 0.2 * reads["after"]["scheduled"]
    assert reads["before"]["p99"] < 0.1 < 0.4 <= reads["after"]["p99"]
    assert change["requests"]["write"]["after"]["not_good"] == 0


def test_an_experiment_s_own_change_counts_when_it_was_done() -> None:
    command = (29.0, "action.command", {"action": "a1", "action_kind": "weights", "says": "weights a 0"})
    assert told(command, (30.0, "action.done", {"action": "a1", "ok": False})) == []
    (change,) = told(command, (30.0, "action.done", {"action": "a1", "ok": True}))
    assert change["at"] == 30.0 and change["requests"]["read"]["after"]["not_good"] > 0
    other = (29.0, "action.command", {"action": "a1", "action_kind": "decommission", "says": "x"})
    assert told(other, (30.0, "action.done", {"action": "a1", "ok": True})) == []


def test_what_is_not_answered_has_no_quantile() -> None:
    chapter = Chapter("dark", 60, write=synthetic.constant(Outcome.TIMEOUT, 5.0))
    chapter.event(30.0, "failover.weights", **CHANGE)
    (change,) = swaps.table(Record(Story(chapters=[chapter]).history()))
    assert change["requests"]["write"]["after"]["p50"] is None


def test_no_load_no_change() -> None:
    chapter = Chapter("healthy", 5)
    chapter.event(-1.0, "failover.weights", **CHANGE)
    assert swaps.table(Record(Story(chapters=[chapter]).history())) == []
