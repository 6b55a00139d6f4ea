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
