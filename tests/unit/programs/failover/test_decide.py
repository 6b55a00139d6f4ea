"""When the controller acts and when it does not: pure, on made-up signs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.programs.failover.decide import Cluster, Memory, Policy, decide
from chaos.programs.failover.signs import FEWEST, KINDS, Record, Sign, Signs

POLICY = Policy()
CLUSTER = Cluster(
    zones=("a", "b", "c"),
    weights={"a": 1, "b": 1, "c": 0},
    weights_version=0,
    decommissioned={},
    managers={"a": 1, "b": 1, "c": 1},
    eligible={"a": 1, "b": 1, "c": 1},
    alone=frozenset(),
    green=True,
)
EVERY = 0.5
"""Seconds between signs of one path."""


def signs(bad: dict[str, tuple[str, ...]] | None = None, *, until: float = 20.0, bad_for: float = 10.0) -> Signs:
    """All zones well up to ``until``, but those in ``bad`` by those kinds for the last ``bad_for`` seconds."""
    made = Signs()
    for zone in "abc":
        for kind in KINDS:
            for number in range(int(until / EVERY) + 1):
                at = number * EVERY
                ok = not (kind in (bad or {}).get(zone, ()) and at > until - bad_for)
                made.add([Sign(zone, kind, f"{zone}-data", at, ok, "well" if ok else "timeout")])  # type: ignore[arg-type]
    return made


def test_all_well_nothing_to_do() -> None:
    assert decide(signs(), CLUSTER, Memory(), POLICY, 20.0).do == "nothing"


def test_an_active_zone_that_is_bad_by_two_kinds_becomes_the_standby() -> None:
    step = decide(signs({"b": ("probe", "read")}), CLUSTER, Memory(), POLICY, 20.0)
    assert (step.do, step.zone, dict(step.weights)) == ("weights", "b", {"a": 1, "b": 0, "c": 1})
    assert {each.kind for each in step.evidence} == {"probe", "read"}


@pytest.mark.parametrize("kind", KINDS)
def test_one_kind_of_evidence_is_never_enough(kind: str) -> None:
    assert decide(signs({"b": (kind,)}), CLUSTER, Memory(), POLICY, 20.0).do == "nothing"


@given(st.floats(0, 1.4))
def test_a_blip_of_a_second_moves_nothing(seconds: float) -> None:
    every = {zone: KINDS for zone in "b"}
    assert decide(signs(every, bad_for=seconds), CLUSTER, Memory(), POLICY, 20.0).do == "nothing"


def test_two_bad_zones_are_more_likely_our_own_network() -> None:
    both = {"a": ("probe", "read", "write"), "b": ("probe", "read", "write")}
    assert decide(signs(both), CLUSTER, Memory(), POLICY, 20.0).do == "wait"


@pytest.mark.parametrize("other", ["a", "c"])
@pytest.mark.parametrize("kind", ["probe", "read", "write", "threads"])
def test_while_another_zone_is_not_calm_nothing_moves(other: str, kind: str) -> None:
    bad = signs({"b": ("probe", "read"), other: (kind,)})
    step = decide(bad, CLUSTER, Memory(), POLICY, 20.0)
    assert step.do == "wait" and f"zone {other} is not well" in step.because


def test_a_storm_that_has_just_ended_elsewhere_is_no_calm() -> None:
    both = signs({"b": ("probe", "read")})
    both.add(Sign("a", "read", "a-data", 17.0 + 0.1 * number, False, "late") for number in range(5))
    both.add([Sign("a", "read", "a-data", 20.0, True, "well")])
    assert decide(both, CLUSTER, Memory(), POLICY, 20.0).do == "wait"


def test_a_controller_that_is_held_up_itself_accuses_nobody() -> None:
    step = decide(signs({"b": ("probe", "read")}), CLUSTER, Memory(), POLICY, 20.0, held_up=0.3)
    assert step.do == "wait" and "itself" in step.because


def test_nothing_during_the_cool_down() -> None:
    bad = signs({"b": ("probe", "read")})
    assert decide(bad, CLUSTER, Memory(swapped_at=0.0), POLICY, 20.0).do == "wait"
    assert decide(bad, CLUSTER, Memory(swapped_at=-41.0), POLICY, 20.0).do == "weights"


def test_without_a_cluster_manager_nothing_can_be_done() -> None:
    assert decide(signs({"b": ("probe", "read")}), None, Memory(), POLICY, 20.0).do == "wait"


OUT = {"c": ("probe", "write")}


def test_a_standby_zone_that_writes_wait_for_is_decommissioned() -> None:
    step = decide(signs(OUT), CLUSTER, Memory(), POLICY, 20.0)
    assert (step.do, step.zone) == ("decommission", "c")
    assert decide(signs({"c": ("probe", "read")}), CLUSTER, Memory(), POLICY, 20.0).do == "nothing"
    assert decide(signs(OUT, bad_for=3.0), CLUSTER, Memory(), POLICY, 20.0).do == "wait"


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (replace(CLUSTER, managers={"a": 1, "b": 0, "c": 1}), "no majority"),
        (replace(CLUSTER, managers={"c": 3}, eligible={"c": 3}), "no majority"),
        (replace(CLUSTER, alone=frozenset("c")), "only active copy"),
        (replace(CLUSTER, decommissioned={"b": "SUCCESSFUL"}), "two never go"),
        (replace(CLUSTER, decommissioned={"b": "DRAINING"}), "two never go"),
    ],
)
def test_what_stays_must_have_a_quorum_and_a_copy_of_everything(cluster: Cluster, why: str) -> None:
    step = decide(signs(OUT), cluster, Memory(), POLICY, 20.0)
    assert step.do == "wait" and why in step.because


@given(
    st.dictionaries(st.sampled_from("abc"), st.lists(st.sampled_from(KINDS), unique=True)),
    st.permutations([1, 1, 0]),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 1), min_size=3),
    st.sets(st.sampled_from("abc")),
    st.dictionaries(
        st.sampled_from("abc"), st.sampled_from(["INIT", "IN_PROGRESS", "SUCCESSFUL", "FAILED"]), max_size=1
    ),
)
def test_whatever_is_seen_no_step_takes_a_quorum_a_last_copy_or_a_second_zone(
    bad: dict[str, list[str]], weights: list[int], managers: dict[str, int], alone: set[str], gone: dict[str, str]
) -> None:
    cluster = replace(
        CLUSTER,
        weights=dict(zip("abc", weights, strict=True)),
        managers=managers,
        alone=frozenset(alone),
        decommissioned=gone,
    )
    step = decide(signs({zone: tuple(kinds) for zone, kinds in bad.items()}), cluster, Memory(), POLICY, 20.0)
    if step.do == "decommission":
        assert step.zone is not None and not [state for state in gone.values() if state != "FAILED"]
        assert sum(count for zone, count in managers.items() if zone != step.zone) >= 2
        assert step.zone not in alone and cluster.weights[step.zone] == 0
        assert len([zone for zone, kinds in bad.items() if len(kinds) >= POLICY.kinds]) == 1
    if step.do == "weights":
        assert sorted(step.weights.values()) == [0, 1, 1] and not [s for s in gone.values() if s != "FAILED"]


def test_a_zone_returns_when_it_has_answered_well_for_long_enough() -> None:
    out = replace(CLUSTER, decommissioned={"c": "SUCCESSFUL"})
    assert decide(signs(until=20.0), out, Memory(), POLICY, 20.0).do == "nothing"
    assert decide(signs(until=40.0), out, Memory(), POLICY, 40.0).do == "recommission"


def test_a_zone_that_is_out_is_judged_by_its_own_answers_alone() -> None:
    """Of course the cluster does not count it, and nobody in it reads or writes what is new."""
    out = replace(CLUSTER, decommissioned={"c": "SUCCESSFUL"})
    seen = signs({"c": ("member", "read", "write")}, until=40.0, bad_for=40.0)
    assert decide(seen, out, Memory(), POLICY, 40.0).do == "recommission"
    for kind in ("probe", "peer"):
        seen = signs({"c": (kind,)}, until=40.0, bad_for=11.0)
        seen.add([Sign("c", kind, "c-data", 39.9, True, "well again")])
        assert decide(seen, out, Memory(), POLICY, 40.0).do == "nothing"


def test_a_zone_that_has_just_come_back_is_given_time_to_join() -> None:
    assert decide(signs(OUT), CLUSTER, Memory(returns=(-30.0,)), POLICY, 20.0).do == "wait"
    assert decide(signs(OUT), CLUSTER, Memory(returns=(-41.0,)), POLICY, 20.0).do == "decommission"


def test_a_zone_that_went_out_again_has_to_prove_itself_for_longer() -> None:
    out = replace(CLUSTER, decommissioned={"c": "SUCCESSFUL"})
    assert decide(signs(until=50.0), out, Memory(returns=(5.0,)), POLICY, 50.0).do == "nothing"
    assert decide(signs(until=70.0), out, Memory(returns=(5.0,)), POLICY, 70.0).do == "recommission"
    assert decide(signs(until=40.0), out, Memory(returns=(40.0 - 3601,)), POLICY, 40.0).do == "recommission"


def test_a_zone_that_the_cluster_has_given_up_is_led_away_from_when_it_stays_away() -> None:
    """A restart is over sooner, and until then nothing waits for it."""
    gone = {"b": ("probe", "member")}
    assert decide(signs(gone, until=60.0, bad_for=20.0), CLUSTER, Memory(), POLICY, 60.0).do == "nothing"
    assert decide(signs(gone, until=60.0, bad_for=35.0), CLUSTER, Memory(), POLICY, 60.0).do == "weights"


def test_without_weights_a_standby_is_named_before_anything_else() -> None:
    bare, wants = replace(CLUSTER, weights={}), replace(POLICY, standby="b")
    step = decide(signs(), bare, Memory(), wants, 20.0)
    assert (step.do, dict(step.weights)) == ("weights", {"a": 1, "b": 0, "c": 1})
    assert decide(signs(), bare, Memory(), POLICY, 20.0).do == "nothing"
    assert decide(signs({"a": ("probe",)}), bare, Memory(), wants, 20.0).do == "nothing"
    assert decide(signs({"a": ("probe", "read")}), bare, Memory(), wants, 20.0).do == "wait"


def test_allocations_that_were_given_up_are_tried_again_when_all_is_well() -> None:
    yellow = replace(CLUSTER, green=False)
    late = Memory(incomplete_since=-11.0)
    assert decide(signs(), yellow, late, POLICY, 20.0).do == "retry"
    assert decide(signs(), CLUSTER, late, POLICY, 20.0).do == "nothing"
    assert decide(signs(), yellow, Memory(incomplete_since=0.0), POLICY, 20.0).do == "nothing"
    assert decide(signs(), yellow, replace(late, retried_at=0.0), POLICY, 20.0).do == "nothing"
    assert decide(signs({"a": ("probe",)}), yellow, late, POLICY, 20.0).do == "nothing"


def test_a_rotation_that_was_asked_for() -> None:
    assert decide(signs(), CLUSTER, Memory(swapped_at=19.0, rotation_asked=True), POLICY, 20.0).do == "weights"


STALE = "c-data: not to be trusted, certificate has expired"
EVERYTHING = ("cm", "data")


def stale(per_zone: tuple[str, ...], until: float = 20.0) -> Signs:
    """What a watch sees when clients cannot trust c-data: none of its own answers, and nothing of what is to be asked
    through it, as :mod:`chaos.programs.failover.watch` takes nodes in turn. The cluster itself misses nothing."""
    made = Signs()
    pairs = {"canary-0": ("a", "b"), "canary-1": ("b", "c"), "canary-2": ("a", "c")}
    for number in range(int(until / EVERY) + 1):
        at = number * EVERY
        for zone in "abc":
            for group in per_zone:
                name = f"{zone}-{group}"
                ok = name != "c-data"
                made.add([Sign(zone, "probe", name, at, ok, "well" if ok else STALE)])
                made.add([Sign(zone, "member", name, at, True, "in the cluster")])
                if group == "cm":
                    continue
                made.add([Sign(zone, "read", name, at, ok, "well" if ok else STALE)])
                through = [other for other in "abc" if other != zone][number % 2]
                if through != "c":
                    made.add([Sign(zone, "peer", name, at, True, "through another")])
        for index, pair in pairs.items():
            if pair[number % 2] != "c":
                made.add(Sign(zone, "write", index, at, True, "through one of the pair") for zone in pair)
    return made


ROTATE = Memory(rotation_asked=True)


@pytest.mark.parametrize("per_zone", [("data",), EVERYTHING, ("cm", "data", "data-2", "data-3")])
def test_a_node_that_clients_cannot_trust_is_found_before_its_zone_takes_up_a_role(per_zone: tuple[str, ...]) -> None:
    seen = stale(per_zone)
    step = decide(seen, CLUSTER, ROTATE, POLICY, 20.0)
    assert step.do == "nothing"
    if len(per_zone) > 1:  # else all that the zone has is bad, which is said before anything of rotations
        assert step.because == f"zone c is suspect ({STALE}): no rotation"
        assert decide(seen, CLUSTER, Memory(), POLICY, 20.0).because == f"zone c is suspect ({STALE})"


@pytest.mark.parametrize("per_zone", [("data",), EVERYTHING])
def test_a_zone_that_clients_cannot_trust_and_writes_do_not_wait_for_is_not_decommissioned(
    per_zone: tuple[str, ...],
) -> None:
    seen = stale(per_zone)
    assert "write" not in {each.kind for each in seen.against("c", 20.0, 1.0)}
    assert not seen.against("a", 20.0, 1.0, one=True) and not seen.against("b", 20.0, 1.0, one=True)
    assert decide(seen, CLUSTER, Memory(), POLICY, 20.0).do == "nothing"


def test_reads_are_led_away_from_an_active_zone_that_clients_cannot_trust_and_that_is_all() -> None:
    active, standby = (
        replace(CLUSTER, weights=dict(zip("abc", weights, strict=True))) for weights in [(1, 0, 1), (1, 1, 0)]
    )
    step = decide(stale(("data",)), active, Memory(), POLICY, 20.0)
    assert (step.do, dict(step.weights)) == ("weights", {"a": 1, "b": 1, "c": 0})
    assert "writes do not wait" in decide(stale(("data",)), standby, Memory(), POLICY, 20.0).because


def test_a_rotation_waits_until_every_node_has_been_seen_to_be_well() -> None:
    assert decide(Signs(), CLUSTER, ROTATE, POLICY, 20.0).because == (
        "zone a has not answered every probe well of late: no rotation"
    )
    one_late = signs()
    one_late.add([Sign("b", "probe", "b-data", 20.1, False, "late")])
    assert decide(one_late, CLUSTER, ROTATE, POLICY, 20.2).do == "nothing"
    assert decide(signs(), CLUSTER, ROTATE, POLICY, 20.2).do == "weights"


def test_roles_rotate_on_a_schedule_while_all_is_well() -> None:
    policy = replace(POLICY, rotate_every=60.0)
    step = decide(signs(), CLUSTER, Memory(swapped_at=-60.0), policy, 20.0)
    assert (step.do, dict(step.weights)) == ("weights", {"a": 0, "b": 1, "c": 1})
    assert decide(signs(), CLUSTER, Memory(swapped_at=0.0), policy, 20.0).do == "nothing"
    assert decide(signs(), replace(CLUSTER, green=False), Memory(), policy, 20.0).do == "nothing"
    assert decide(signs({"a": ("read",)}), CLUSTER, Memory(), policy, 20.0).do == "nothing"


LEADING = replace(POLICY, lead_from_standby=True)
LED_BY_B = replace(CLUSTER, leader="b")


def test_the_cluster_manager_is_elected_in_the_standby_zone_while_all_is_well() -> None:
    step = decide(signs(), LED_BY_B, Memory(), LEADING, 20.0)
    assert (step.do, step.zone, step.evidence) == ("lead", "c", ())
    rotated = replace(LED_BY_B, weights={"a": 1, "b": 0, "c": 1}, leader="c")
    assert decide(signs(), rotated, Memory(), LEADING, 20.0).zone == "b"
    assert decide(signs(), LED_BY_B, Memory(led_at=-41.0, returns=(-41.0,)), LEADING, 20.0).do == "lead"


@pytest.mark.parametrize(
    ("cluster", "memory", "policy"),
    [
        (LED_BY_B, Memory(), POLICY),
        (replace(CLUSTER, leader="c"), Memory(), LEADING),
        (CLUSTER, Memory(), LEADING),
        (replace(LED_BY_B, green=False), Memory(), LEADING),
        (replace(LED_BY_B, weights={}), Memory(), LEADING),
        (replace(LED_BY_B, managers={"a": 0, "b": 1, "c": 1}), Memory(), LEADING),
        (replace(LED_BY_B, managers={"a": 1, "b": 1, "c": 0}, eligible={"a": 1, "b": 1, "c": 0}), Memory(), LEADING),
        (replace(LED_BY_B, decommissioned={"c": "DRAINING"}), Memory(), LEADING),
        (LED_BY_B, Memory(led_at=0.0), LEADING),
        (LED_BY_B, Memory(returns=(0.0,)), LEADING),
        (LED_BY_B, Memory(swapped_at=0.0), LEADING),
    ],
)
def test_when_nobody_else_is_elected(cluster: Cluster, memory: Memory, policy: Policy) -> None:
    assert decide(signs(), cluster, memory, policy, 20.0).do in ("nothing", "wait")


@pytest.mark.parametrize("zone", ["a", "b", "c"])
@pytest.mark.parametrize(("kind", "seconds"), [("read", 10.0), ("probe", 0.6), ("peer", 0.6)])
def test_no_vote_moves_while_a_zone_is_suspect(zone: str, kind: str, seconds: float) -> None:
    found = signs({zone: (kind,)}, bad_for=seconds)
    assert decide(found, LED_BY_B, Memory(), LEADING, 20.0).do == "nothing"


@given(st.lists(st.booleans(), max_size=60))
def test_bad_and_good_times_exclude_each_other_and_end_with_the_last_answer(answers: list[bool]) -> None:
    record = Record()
    for number, ok in enumerate(answers):
        record.add(Sign("a", "probe", "x", number * EVERY, ok, ""))
    now = len(answers) * EVERY
    bad, good = record.bad_for(now), record.good_for(now)
    assert min(bad, good) == 0.0 and max(bad, good) <= now
    if answers and answers[-1]:
        assert bad == 0.0
    if len(answers) >= FEWEST and not any(answers[-FEWEST:]):
        assert bad >= FEWEST * EVERY
