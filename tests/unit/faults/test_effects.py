"""What others see of a fault: each sign must be there, nobody else may be hit, and nothing is believed of a silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from seen import Seen

from chaos.faults import effects
from chaos.faults.effects import CutOff, Left, NodeEffects, Restarted, not_back
from chaos.faults.evidence import Look

KILLED, OTHERS = "c-data", ("a-cm", "b-cm", "c-cm", "a-data", "b-data")


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(effects, "out_of_it", lambda lab: frozenset())
    return Seen()


def looked(lab: Any, change: Callable[[Any], object], *, paused: bool = False) -> Look:
    """What is seen after a change of a cluster that was well before."""
    evidence = NodeEffects([KILLED], paused=paused)
    assert evidence.before(lab).proven
    change(lab)
    return evidence.in_effect(lab)


def odd(look: Look) -> list[str]:
    return [probe.what for probe in look.probes if not probe.ok]


def test_a_node_that_is_dead_for_us_and_for_all_others_is_proven_to_be(lab: Any) -> None:
    look = looked(lab, lambda lab: lab.kill(KILLED))
    assert look.proven and odd(look) == []
    assert [probe.what for probe in look.probes if not probe.control] == [
        "c-data at its own address",
        "c-data as others have it",
    ]
    assert sorted(probe.what for probe in look.probes if probe.control) == sorted(f"untouched: {n}" for n in OTHERS)


@pytest.mark.parametrize(
    ("change", "signs"),
    [
        (lambda lab: None, {"c-data at its own address", "c-data as others have it"}),
        (lambda lab: lab.shut.add(KILLED), {"c-data as others have it"}),  # only we do not reach it
        (lambda lab: lab.lost.add(KILLED), {"c-data at its own address"}),  # it is out, and serves
        (
            lambda lab: lab.kill("b-data"),
            {"c-data at its own address", "c-data as others have it", "untouched: b-data"},
        ),
        (lambda lab: lab.kill(KILLED, "b-data"), {"untouched: b-data"}),  # more than was asked for
        (lambda lab: lab.kill(*lab.names), {f"untouched: {name}" for name in OTHERS} | {"c-data as others have it"}),
    ],
    ids=["nothing", "unreached", "out", "another", "one more", "all"],
)
def test_half_an_effect_or_more_than_one_is_not_proven(
    lab: Any, change: Callable[[Any], object], signs: set[str]
) -> None:
    look = looked(lab, change)
    assert not look.proven and set(odd(look)) == signs


def test_where_nobody_says_who_is_a_member_nothing_is_proven(lab: Any) -> None:
    def mute(lab: Any) -> None:
        lab.kill(KILLED)
        lab.slow = set(OTHERS)

    assert "c-data as others have it" in odd(looked(lab, mute))
    evidence = NodeEffects([KILLED])
    lab.kill()
    assert not evidence.before(lab).proven  # and so is nothing before


def test_one_that_stands_still_takes_connections_and_answers_nobody(lab: Any) -> None:
    def pause(lab: Any) -> None:
        lab.deaf.add(KILLED)

    look = looked(lab, pause, paused=True)
    assert look.proven and len([probe for probe in look.probes if not probe.control]) == 2 + effects.NEIGHBOURS


@pytest.mark.parametrize(
    ("change", "signs"),
    [
        (lambda lab: None, {"c-data at its own address", *(f"{n} asks c-data" for n in ("a-cm", "b-cm", "a-data"))}),
        (lambda lab: lab.kill(KILLED), {"c-data at its own address", "a connection to c-data"}),
        (
            lambda lab: lab.cut.update((name, KILLED) for name in OTHERS),
            {"c-data at its own address"},
        ),
    ],
    ids=["nothing", "dead", "cut off"],
)
def test_what_is_dead_or_cut_off_does_not_stand_still(
    lab: Any, change: Callable[[Any], object], signs: set[str]
) -> None:
    look = looked(lab, change, paused=True)
    assert not look.proven and set(odd(look)) == signs


def test_it_is_gone_when_the_node_answers_and_all_have_it_as_a_member(lab: Any) -> None:
    evidence = NodeEffects([KILLED])
    assert evidence.before(lab).proven
    lab.kill(KILLED)
    assert not evidence.gone(lab).proven
    lab.kill()
    lab.lost = {KILLED}
    assert odd(evidence.gone(lab)) == ["c-data as others have it"]
    lab.kill()
    assert evidence.gone(lab).proven


def test_what_another_fault_holds_is_left_out_and_proves_nothing(lab: Any) -> None:
    evidence = NodeEffects([KILLED])
    assert evidence.before(lab).proven
    lab.kill(KILLED, "b-data")
    evidence.beside(frozenset(), frozenset({"b-data"}))
    assert evidence.in_effect(lab).proven
    evidence.beside(frozenset((KILLED, name) for name in OTHERS), frozenset(OTHERS))
    assert not evidence.in_effect(lab).proven and evidence.still(lab) is None


def test_a_zone_that_is_decommissioned_meanwhile_is_nobody_s(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def out(lab: Any) -> None:
        lab.kill(KILLED)
        lab.lost |= {"b-cm", "b-data"}

    assert not looked(lab, out).proven
    lab.kill()
    monkeypatch.setattr(effects, "out_of_it", lambda lab: frozenset({"b-cm", "b-data"} if lab.lost else ()))
    assert looked(lab, out).proven


def test_cheap_looks_go_from_node_to_node_and_see_what_full_ones_see(lab: Any) -> None:
    evidence = NodeEffects(["c-cm", KILLED])
    assert evidence.before(lab).proven
    lab.kill("c-cm", KILLED)
    full = {probe.what for probe in evidence.held(lab).probes}
    looks = [evidence.still(lab) for _ in range(2)]
    assert all(look is not None and look.proven for look in looks)
    seen = {probe.what for look in looks if look for probe in look.probes}
    assert seen < full and {f"{node} at its own address" for node in ("c-cm", KILLED)} <= seen
    lab.kill("c-cm")
    assert not all(look.proven for look in (evidence.still(lab), evidence.still(lab)) if look)


def test_what_is_not_back_is_told_and_waited_for_no_longer_than_asked(lab: Any) -> None:
    assert not_back(lab, {KILLED}, {("a-data", "b-data")}, 0.0) == []
    lab.kill(KILLED)
    lab.cut = {("a-data", "b-data")}
    node, link = not_back(lab, {KILLED}, {("a-data", "b-data")}, 0.0)
    assert node.startswith("c-data is not back") and link.startswith("a-data gets no answer from b-data")
    asked: list[str] = []
    well, client = lab.client, lab.client

    def later(node: str, **more: Any) -> Any:
        asked.append(node)
        if len(asked) > 20:
            lab.kill()
            lab.cut = set()
        return well(node, **more)

    lab.client = later
    assert not_back(lab, {KILLED}, {("a-data", "b-data")}, 30.0) == []
    lab.client = client


# ---- cut off ------------------------------------------------------------------------------------------------

INSIDE = ("c-cm", "c-data")
OUTSIDE = ("a-cm", "b-cm", "a-data", "b-data")


def cut_off(lab: Any, change: Callable[[Any], object]) -> Look:
    evidence = CutOff(INSIDE)
    assert evidence.before(lab).proven
    change(lab)
    return evidence.in_effect(lab)


def parted(lab: Any) -> None:
    """No packet between the inside and the outside, and the outside has given it up."""
    lab.cut |= {(a, b) for a in INSIDE for b in OUTSIDE} | {(b, a) for a in INSIDE for b in OUTSIDE}
    lab.lost |= set(INSIDE)


def test_a_zone_that_is_cut_off_is_silent_and_nobody_outside_has_it(lab: Any) -> None:
    def and_from_us(lab: Any) -> None:
        parted(lab)
        lab.deaf |= set(INSIDE)

    assert cut_off(lab, and_from_us).proven


def test_it_may_answer_us_as_long_as_it_reaches_nobody_outside(lab: Any) -> None:
    look = cut_off(lab, parted)
    assert look.proven, odd(look)
    assert any(probe.what == "c-data asks a-cm" for probe in look.probes)


@pytest.mark.parametrize(
    "change",
    [
        lambda lab: None,
        lambda lab: lab.kill(*INSIDE),  # dead ones refuse
        lambda lab: lab.deaf.update(INSIDE),  # only we get no answer, and nobody has given them up
        lambda lab: (parted(lab), lab.cut.difference_update({(a, b) for a in INSIDE for b in OUTSIDE})),  # one way
        lambda lab: (parted(lab), lab.kill("b-data")),  # and somebody else
    ],
    ids=["nothing", "dead", "deaf", "one way", "one more"],
)
def test_what_is_dead_or_half_cut_or_more_than_that_is_not_cut_off(lab: Any, change: Callable[[Any], object]) -> None:
    assert not cut_off(lab, change).proven


# ---- a restart --------------------------------------------------------------------------------------------


def restarted(lab: Any, change: Callable[[Any], object]) -> Look:
    evidence = Restarted([KILLED], within=7.0)
    assert evidence.before(lab).proven and evidence.effect_deadline == 7.0 and not evidence.holds
    change(lab)
    return evidence.in_effect(lab)


def test_another_process_that_is_back_is_a_restart(lab: Any) -> None:
    look = restarted(lab, lambda lab: lab.again(KILLED))
    assert look.proven and odd(look) == []
    assert len([probe for probe in look.probes if probe.control]) == 2 * len(OTHERS)


@pytest.mark.parametrize(
    ("change", "signs"),
    [
        (lambda lab: None, {"process of c-data", "ephemeral id of c-data"}),
        (
            lambda lab: (lab.again(KILLED), lab.kill(KILLED)),
            {
                "c-data at its own address",
                "c-data as others have it",
                "process of c-data",
                "ephemeral id of c-data",
                "c-data in its own view",
            },
        ),
        # it is back, and somebody takes it for the process before
        (lambda lab: (lab.again(KILLED), lab.known.update({("a-cm", KILLED): 0})), {"ephemeral id of c-data"}),
        (lambda lab: (lab.again(KILLED), lab.__dict__.update(status="yellow")), {"c-data in its own view"}),
        (lambda lab: (lab.again(KILLED), lab.lost.add("b-cm")), {"c-data in its own view", "untouched: b-cm",
                                                                 "untouched: ephemeral id of b-cm"}),
        (lambda lab: lab.again(KILLED, "b-data"), {"untouched: ephemeral id of b-data"}),
        (lambda lab: lab.again("b-data"), {"process of c-data", "ephemeral id of c-data",
                                            "untouched: ephemeral id of b-data"}),
        (
            lambda lab: (lab.again(KILLED), lab.slow.update(OTHERS)),
            {"c-data as others have it", "ephemeral id of c-data"}
            | {f"untouched: {what}{name}" for name in OTHERS for what in ("", "ephemeral id of ")},
        ),
    ],
    ids=["nothing", "dead", "an old view", "not green", "another is lost", "one more", "another", "nobody says"],
)  # fmt: skip
def test_less_or_more_than_a_restart_is_not_proven(lab: Any, change: Callable[[Any], object], signs: set[str]) -> None:
    look = restarted(lab, change)
    assert not look.proven and set(odd(look)) == signs


def test_a_process_of_which_nobody_knows_which_it_was_proves_nothing(lab: Any) -> None:
    lab.known = {("a-cm", KILLED): 5}
    evidence = Restarted([KILLED], within=7.0)
    assert not evidence.before(lab).proven
    lab.again(KILLED)
    lab.known = {}
    assert not evidence.in_effect(lab).proven


def test_a_restart_is_gone_when_the_node_lives(lab: Any) -> None:
    evidence = Restarted([KILLED], within=7.0)
    assert evidence.before(lab).proven and evidence.still(lab) is None
    lab.kill(KILLED)
    assert not evidence.gone(lab).proven
    lab.kill()
    assert evidence.gone(lab).proven


@pytest.mark.parametrize(
    ("change", "proven"),
    [
        (lambda lab: None, False),
        (lambda lab: lab.kill(KILLED), True),
        (lambda lab: lab.again(KILLED), True),  # another process runs in its place, on another machine
        (lambda lab: (lab.again(KILLED), lab.known.update({("a-cm", KILLED): 0})), False),  # one has the old one
        (lambda lab: lab.shut.add(KILLED), False),  # only we do not reach it
        (lambda lab: (lab.kill(KILLED), lab.slow.update(OTHERS)), False),  # nobody says
        (lambda lab: (lab.kill(KILLED), lab.lost.add("b-cm")), False),  # another is lost
    ],
    ids=["nothing", "dead", "elsewhere", "an old view", "out of reach", "nobody says", "another is lost"],
)
def test_a_node_that_left_is_one_whose_process_is_no_member_for_any_other(lab: Any, change: Any, proven: bool) -> None:
    evidence = Left([KILLED])
    assert evidence.before(lab).proven and evidence.holds
    change(lab)
    assert evidence.in_effect(lab).proven is evidence.held(lab).proven is proven
    if proven:
        turn = evidence.still(lab)
        assert turn is not None and turn.proven
    lab.slow.clear()
    lab.lost.clear()
    lab.shut.clear()
    lab.kill()
    assert evidence.gone(lab).proven


def test_a_process_whose_id_was_not_known_before_has_not_left(lab: Any) -> None:
    lab.known = {("a-cm", KILLED): 5}
    evidence = Left([KILLED])
    assert not evidence.before(lab).proven
    lab.kill(KILLED)
    assert not evidence.in_effect(lab).proven
