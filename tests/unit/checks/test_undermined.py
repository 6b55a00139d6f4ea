"""What a gap in the evidence takes the worth from: which findings, of which time."""

from __future__ import annotations

from typing import Any

import pytest
import synthetic
from synthetic import Chapter, Outcome, Probed, Story, expect, healthy, mixed

from chaos.checks import evaluate
from chaos.checks.verdict import UNTIL_RESTS_ON_TIME
from chaos.history import pauses
from chaos.instruments import process_pauses


def counted(told: Story) -> dict[str, str]:
    return {finding.id: finding.counts_as.value for finding in evaluate(told.history()).findings}


# -- what a phase waited for ---------------------------------------------------------------------------


class Planned(Story):
    """A run of a plan that says so."""

    def plan(self) -> dict[str, Any]:
        return super().plan() | {UNTIL_RESTS_ON_TIME: True}


def reads(of: type[Story] = Planned, reason: str | None = None, cpu: float = 0.22) -> str:
    """What the wait for green of a run that writes nothing counts as."""
    told = of(**vars(synthetic.slow_zone()))
    told.ops, told.cpu = ("read",), cpu
    told.chapters[3].reason = reason
    told.expect = [expect("read.good", ">=", 0.999, ("healthy",))]
    return counted(told)["until@returned"]


@pytest.mark.parametrize(("reason", "counts"), [(None, "pass"), ("deadline", "weakness")])
def test_green_is_known_where_too_little_was_written(reason: str | None, counts: str) -> None:
    assert reads(reason=reason) == counts


def test_an_instrument_that_was_not_good_enough_still_spoils_it() -> None:
    assert reads(cpu=0.9) == "inconclusive"


def test_a_wait_of_a_run_of_before_is_judged_as_it_was() -> None:
    assert reads(of=Story) == "inconclusive"


# -- what is of the whole run --------------------------------------------------------------------------


def asked(told: Story, exit_code: int) -> Story:
    """The run with a command that said so once the load had settled."""
    told.expect = [expect("command", "==", 0)]
    said = {"text": told.expect[0]["text"], "exit_code": exit_code, "says": f"exit code {exit_code}"}
    told.chapters[3].event(41.0, "expect.command", **said, seconds=0.2, log="expect-1.log", last=[])
    return told


def test_what_a_command_says_of_a_fault_that_was_not_proven_is_open() -> None:
    assert counted(asked(synthetic.slow_zone(), 0))["command"] == "pass"
    assert counted(asked(synthetic.slow_zone(), 1))["command"] == "weakness"
    for code in (0, 1):
        assert counted(asked(synthetic.unproven(), code))["command"] == "inconclusive"


def test_data_that_lack_what_was_wanted_of_a_fault_are_open_where_it_was_not_proven() -> None:
    """Nothing is lost by a fault that never was; what is lost stands."""
    for comparison, value in ((">=", 1), (">", 0), ("==", 1)):
        wanted = [expect("acknowledged.lost", comparison, value)]
        for told, counts in ((synthetic.slow_zone(), "weakness"), (synthetic.unproven(), "inconclusive")):
            told.expect = wanted
            assert counted(told)["acknowledged.lost"] == counts
    lost = synthetic.unproven()
    lost.readback = {**synthetic.READBACK, "lost": ["w-7", "w-14"], "lost_count": 2}
    for comparison in ("==", "<=", "<"):
        lost.expect = [expect("acknowledged.lost", comparison, 1)]
        assert counted(lost)["acknowledged.lost"] == "weakness"


# -- what is looked at beyond its phase ----------------------------------------------------------------

LATER = ("write.regained@dead", "recovery.green@dead", "visible.p99@dead")
A_DATA = {"what": "node", "name": "a-data", "node": "a-data", "zone": "a", "pid": 4711, "state": "T"}


class Watched(Story):
    """A run whose plan says that pauses are watched."""

    def plan(self) -> dict[str, Any]:
        return super().plan() | {process_pauses.DUE: True}


def paused(at: float | None, bad: tuple[float, float] = (63.0, 93.0), good_within: float = 0.1) -> Story:
    """A node is dead from 30 s to 60 s, and writes fail until 55 s. They do again, the cluster is yellow and no search
    finds anything new while it is ``bad`` (s of the run); ``at``: when a node is paused for 30 s in the 50 s after."""
    begin, end = bad
    hit = mixed((begin - 60.0, end - 60.0, 0.5, Outcome.TIMEOUT, 5.0), base=healthy(13))
    failing = [(0.5, 25.0, 1.0, Outcome.TIMEOUT, 5.0), (begin - 30.0, end - 30.0, 0.5, Outcome.TIMEOUT, 5.0)]
    at_once = mixed(*failing, base=healthy(13))
    dead = Chapter("dead", 30, write=at_once).fault(kind="node.kill", says="kill c-data", targets=("c-data",))
    after, returned = Chapter("after", 50, write=hit), Chapter("returned", 40).lift()
    yellow, green = (dead, begin - 30.0) if begin < 60 else (after, begin - 60.0), (after, end - 60.0)
    for (chapter, moment), status in ((yellow, "yellow"), (green, "green")):
        chapter.event(moment, "cluster.status", status=status)
    if at is not None:
        after.event(at - 60.0, pauses.PAUSED, **A_DATA, commanded=False)
        after.event(at - 30.0, pauses.RESUMED, what="node", name="a-data", pid=4711, gone=False)
    first = Chapter("healthy", 30).event(0.0, pauses.WATCHED, processes=["node a-data"])
    returned.event(39.9, pauses.UNWATCHED, because=None)

    def found(seconds: float, node: str) -> float:
        sees = seconds + 1.2
        return end - seconds + 1.2 if begin <= sees < end else 1.2

    return Watched(
        rules=2,
        good_within=good_within,
        visibility=Probed(after=found),
        chapters=[first, dead, after, returned],
        expect=[
            expect("write.regained", "<=", 29, ("dead",)),
            expect("recovery.green", "<=", 20, ("dead",)),
            expect("visible.p99", "<=", 20, ("dead",)),
        ],
    )


def later(told: Story) -> list[str]:
    found = counted(told)
    return [found[name] for name in LATER]


def test_what_a_pause_did_after_the_phase_is_no_weakness_of_it() -> None:
    assert later(paused(None)) == ["weakness", "weakness", "pass"]
    assert later(paused(63.0)) == ["inconclusive", "inconclusive", "pass"]
    assert later(paused(None, bad=(60.5, 93.0))) == ["weakness"] * 3
    assert later(paused(60.5, bad=(60.5, 93.0))) == ["inconclusive"] * 3


def test_what_was_missed_before_the_pause_stands() -> None:
    for at in (None, 75.0):  # bad still
        assert later(paused(at, bad=(35.0, 100.0))) == ["weakness"] * 3
    for at in (None, 90.0):  # good again
        assert later(paused(at, bad=(35.0, 70.0))) == ["weakness"] * 3


def test_what_was_good_for_long_enough_before_the_pause_passes() -> None:
    assert later(paused(85.0, bad=(35.0, 40.0))) == ["pass"] * 3


def test_what_was_in_flight_when_it_was_paused_was_not_bad_before() -> None:
    told = paused(63.0, good_within=1.0)
    told.chapters[2].write = mixed((2.1, 33.0, 1.0, Outcome.TIMEOUT, 5.0), base=healthy(13))
    assert later(told)[0] == "inconclusive"
