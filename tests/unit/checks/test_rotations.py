"""How often failover controllers rotate the zones' roles."""

from __future__ import annotations

import pytest
from synthetic import Chapter, Story, expect

from chaos.checks import evaluate

SWAP = {"step": "weights", "says": "weights: done"}


def judged(
    target: str, *, starved: tuple[tuple[float, float], ...] = (), every: float | None = 30.0
) -> tuple[str, str]:
    """(Verdict of ``rotations`` against ``target``, what was seen) of 130 s with two rotations by two controllers,
    a failover and a recommission."""
    calm = Chapter("calm", 130)
    for at, zone in ((30.0, "b"), (60.0, "c")):
        for controller, late in (("controller-a", 0.0), ("controller-b", 0.4)):
            calm.event(at + late, "failover.done", controller=controller, zone=zone, against=None, **SWAP)
    calm.event(100.0, "failover.done", controller="controller-a", zone="b", against="b", **SWAP)
    calm.event(
        120.0, "failover.done", controller="controller-a", step="recommission", zone="b", against=None, says="in"
    )
    comparison, number = target.split()
    made = Story(
        chapters=[calm], expect=[expect("rotations", comparison, int(number), ("calm",))], controllers=("a", "b")
    )
    made.starved = starved
    history = made.history()
    history.plan["experiment"]["controller"]["rotate_every"] = every
    (finding,) = [each for each in evaluate(history).findings if each.metric == "rotations"]
    return finding.verdict.value, finding.says


def test_the_same_swap_by_two_controllers_is_one_and_neither_a_failover_nor_a_return_is_any() -> None:
    assert judged("== 2")[0] == "pass"
    verdict, says = judged(">= 3")
    assert (verdict, says) == ("fail", "weights: done; weights: done")


@pytest.mark.parametrize(
    ("target", "verdict"),
    [(">= 3", "inconclusive"), (">= 5", "fail"), ("<= 1", "fail"), (">= 2", "pass")],
)
def test_rotations_that_were_due_while_no_processor_was_free_may_be_the_machines_doing(
    target: str, verdict: str
) -> None:
    assert judged(target, starved=((70.0, 99.0),))[0] == verdict


def test_without_a_schedule_a_busy_machine_excuses_nothing() -> None:
    assert judged(">= 3", starved=((70.0, 99.0),), every=None)[0] == "fail"
