"""What a gap in the evidence takes the worth from: which findings, of which time."""

from __future__ import annotations

from typing import Any

import pytest
import synthetic
from synthetic import Story, expect

from chaos.checks import evaluate
from chaos.checks.verdict import UNTIL_RESTS_ON_TIME


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
