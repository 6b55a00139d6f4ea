"""A fault that somebody takes back in mid-phase, or that is where it should not be: seen, on a real cluster.

That every kind is seen to be gone when its inverses are applied behind the lifecycle's back is part of conformance.
"""

from __future__ import annotations

import time

import pytest
from clusterkit import DATA, Cli, await_event, events, findings, in_effect, lifecycle, look, told
from making import toxic

from chaos.faults.ledger import standing
from chaos.observe.proof import problems
from chaos.registry import FAULTS, ready
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

SLOW = DATA / "slow.yaml"
SLOWNESS = {"links": "around zone c", "delay": "200ms"}


def reset(lab: LocalLab) -> None:
    """What anybody may do who reaches a Toxiproxy: every toxic of every proxy goes."""
    for host in lab.wiring.hosts:
        lab.toxiproxy(host.name)._call("post", "/reset")


@pytest.mark.full
def test_toxiproxies_that_are_reset_in_mid_phase_make_the_run_inconclusive_and_name_the_window(tiny, out):
    running = Cli("run", SLOW, "--out", out, "--on", tiny.id)
    await_event(running, out, in_effect)
    begun = next(event["t"] for event in events(out) if in_effect(event))
    assert wait_until(lambda: time.monotonic_ns() >= begun + 5 * 10**9, 30)
    before = time.monotonic_ns()
    reset(tiny)
    after = time.monotonic_ns()
    code, output = running.end()
    assert code == 3, output

    found = findings(out)
    assert found["outcome"] == "inconclusive" and found["clean"] is True
    assert not [each for each in found["findings"] if each["counts_as"] in ("weakness", "known_weakness")]
    (fault,) = found["faults"]
    origin = next(event["t"] for event in events(out) if event["kind"] == "load.start")
    first, last = (origin + seconds * 1e9 for seconds in fault["vanished"])
    assert begun - 1e6 <= first <= after and before <= last, (fault["vanished"], (before - origin) / 1e9)
    assert last <= after + 15e9
    assert "gone before its time, between" in found["summary"] and "+200ms" in found["summary"], found["summary"]
    assert problems(tiny) == []


@pytest.mark.full  # conformance takes every kind back behind the lifecycle
def test_one_toxic_that_goes_is_seen_in_between_and_the_run_need_not_wait_for_the_undo(tiny, tmp_path):
    cycle = lifecycle(tiny, tmp_path)
    fault = ready("f1", FAULTS["network.latency"](**SLOWNESS), tiny, seed=1, elected=None)
    try:
        assert cycle.inject(fault)
        entry = standing(tmp_path / "ledger.jsonl")[-1]  # the first: a toxic's name is drawn when it is made
        assert entry.inverse is not None
        entry.inverse.apply(tiny)
        assert wait_until(lambda: "f1" in cycle.vanished, 60), told(tmp_path, "fault.look")
    finally:
        assert cycle.undo_all()
    held = look(tmp_path, "held")
    assert held["proven"] is held["spread"] is False and held["since"] <= held["first"]
    touched = entry.move.arguments["host"]
    odd = [probe["what"] for probe in held["probes"] if not probe["ok"]]
    assert odd and all(touched in what for what in odd), (touched, odd)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["network.latency", "network.drop"])
def test_a_fault_that_is_on_a_link_that_it_does_not_name_has_spread(tiny, tmp_path, kind):
    cycle = lifecycle(tiny, tmp_path)
    given = SLOWNESS if kind == "network.latency" else {"links": SLOWNESS["links"]}
    fault = ready("f1", FAULTS[kind](**given), tiny, seed=1, elected=None)
    a, b = (node.name for node in tiny.topology.nodes if node.zone in ("a", "b"))
    (place, *_) = tiny.wiring.toxified(a, b)
    # as much as the fault does: what is slower by less than half of that is not held against it (docs/statistics.md)
    what, by = ("latency", {"latency": 200, "jitter": 0}) if kind == "network.latency" else ("timeout", {"timeout": 0})
    theirs = toxic(place.host, place.proxy, "theirs", what, "upstream", by)
    try:
        assert cycle.inject(fault)
        cycle.look_again(["f1"])
        assert cycle.vanished == {}
        theirs.move.apply(tiny)
        cycle.look_again(["f1"])
        assert set(cycle.vanished) == {"f1"}
    finally:
        theirs.inverse.apply(tiny)
        assert cycle.undo_all()
    held = look(tmp_path, "held")
    assert held["spread"] is True and f"{a} → {b}" in held["says"], held["says"]
    assert problems(tiny) == []


@pytest.mark.full
def test_what_nobody_touches_holds_through_a_long_phase(tiny, tmp_path):
    """The control of the above: cheap looks for twenty seconds, none of them an accusation."""
    cycle = lifecycle(tiny, tmp_path)
    fault = ready("f1", FAULTS["network.latency"](**SLOWNESS), tiny, seed=1, elected=None)
    try:
        assert cycle.inject(fault)
        assert wait_until(lambda: len(told(tmp_path, "fault.look")) >= 3, 60)
        assert cycle.vanished == {}
    finally:
        assert cycle.undo_all()
    assert look(tmp_path, "held")["proven"] is True
