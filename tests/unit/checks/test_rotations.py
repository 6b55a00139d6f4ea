"""How often failover controllers rotate the zones' roles."""

from __future__ import annotations

import pytest
from synthetic import Chapter, Story, expect

from chaos.checks import evaluate

SWAP = {"step": "weights", "says": "weights: done"}


LATE = "zone a is suspect (a-data: HTTP 200 after 300 ms, late): no rotation"
TIMEOUT = "zone b is suspect (b-data: b-data through a-data: ReadTimeout after 502 ms): no rotation"
EXPIRED = "zone c is suspect (c-data: not to be trusted, certificate has expired): no rotation"
WELL = "all zones are well"


def judged(
    target: str, *, starved: tuple[tuple[float, float], ...] = (), said: tuple[tuple[float, str], ...] = ()
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
    for at, says in said:
        calm.event(at, "failover.decision", controller="controller-a", says=says)
    comparison, number = target.split()
    made = Story(
        chapters=[calm], expect=[expect("rotations", comparison, int(number), ("calm",))], controllers=("a", "b")
    )
    made.starved = starved
    (finding,) = [each for each in evaluate(made.history()).findings if each.metric == "rotations"]
    return finding.verdict.value, finding.says


def test_the_same_swap_by_two_controllers_is_one_and_neither_a_failover_nor_a_return_is_any() -> None:
    assert judged("== 2")[0] == "pass"
    verdict, says = judged(">= 3")
    assert (verdict, says) == ("fail", "weights: done; weights: done")


BUSY = ((70.0, 99.0),)
HELD = ((75.0, LATE), (80.0, TIMEOUT), (90.0, WELL))


@pytest.mark.parametrize(
    ("target", "starved", "said", "verdict"),
    [
        (">= 3", BUSY, HELD, "inconclusive"),
        ("<= 2", BUSY, HELD, "inconclusive"),
        (">= 4", BUSY, HELD, "fail"),  # reasons in a row are one rotation
        (">= 2", BUSY, HELD, "pass"),
        ("<= 1", BUSY, HELD, "fail"),
        (">= 3", (), HELD, "fail"),  # late by themselves
        (">= 3", BUSY, (), "fail"),  # and nothing was late
        ("<= 2", BUSY, ((72.0, EXPIRED), *HELD), "pass"),  # it had not rotated anyway
        ("<= 2", BUSY, ((75.0, LATE), (80.0, EXPIRED)), "pass"),
    ],
)
def test_rotations_that_late_answers_hold_up_may_be_the_machines_doing(
    target: str, starved: tuple[tuple[float, float], ...], said: tuple[tuple[float, str], ...], verdict: str
) -> None:
    assert judged(target, starved=starved, said=said)[0] == verdict
