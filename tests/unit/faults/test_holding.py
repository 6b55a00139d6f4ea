"""Whether a fault still holds: proven again before its undo, looked at in between, and the window when it does not."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeEvidence, FakeLab, Log, a_fault
from making import block, refuse, toxic

from chaos.faults import holding, lifecycle
from chaos.faults.evidence import Look, Probe
from chaos.faults.fault import Pulse
from chaos.faults.holding import Holding, facts, told
from chaos.faults.ledger import Ledger
from chaos.faults.lifecycle import Lifecycle
from chaos.faults.moves import Move
from chaos.targets.labs.processes import wait_until

SLOW = toxic("a-data", "to-c-data-transport", "oschaos-f1-upstream", "latency", "upstream", {"latency": 300})


@pytest.fixture
def lab() -> FakeLab:
    return FakeLab()


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def cycle(lab: FakeLab, log: Log, tmp_path: Path) -> Lifecycle:
    return Lifecycle(lab, Ledger(tmp_path / "ledger.jsonl"), log)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(lifecycle, "RECORDED_SECONDS", 0.0)
    monkeypatch.setattr(holding, "AGAIN_SECONDS", 0.0)


def held(log: Log) -> list[dict[str, Any]]:
    return [event for event in log.of("fault.evidence") if event["stage"] == "held"]


# ---- before the undo -------------------------------------------------------------------------------------


def test_what_still_holds_is_proven_again_before_the_first_move_of_its_undo(
    lab: FakeLab, log: Log, cycle: Lifecycle
) -> None:
    seen: list[int] = []

    class Sees(FakeEvidence):
        def held(self, lab: Any) -> Look:
            seen.append(len(lab.effects))
            return super().held(lab)

    assert cycle.inject(a_fault("f1", [block("a-data", "c-data")], Sees()))
    assert log.of("fault.command")[0]["held"] is True
    assert cycle.undo("f1") and seen == [1] and cycle.vanished == {}
    assert [e["proven"] for e in held(log)] == [True]
    assert log.kinds.index("fault.undo") == 1 + log.events.index(held(log)[0])


def test_a_fault_that_is_gone_before_its_time_is_taken_back_all_the_same_and_said(log: Log, cycle: Lifecycle) -> None:
    cycle.inject(a_fault("f1", [block("a-data", "c-data")], FakeEvidence(held=False)))
    cycle.inject(a_fault("f2", [block("b-data", "c-data")]))
    assert cycle.undo_all() is True  # its end is proven: that is another question
    assert {e["fault"]: e["proven"] for e in held(log)} == {"f1": False, "f2": True}
    assert set(cycle.vanished) == {"f1"} and cycle.vanished["f1"].startswith("fault f1: ")


def test_faults_that_are_undone_together_are_looked_at_at_the_same_time(cycle: Lifecycle) -> None:
    together = threading.Barrier(2, timeout=60)

    class Meets(FakeEvidence):
        def held(self, lab: Any) -> Look:
            together.wait()
            return super().held(lab)

    cycle.inject(a_fault("f1", [block("a-data", "c-data")], Meets()))
    cycle.inject(a_fault("f2", [block("b-data", "c-data")], Meets()))
    assert cycle.undo_all() and cycle.vanished == {}


def test_a_look_that_was_just_taken_is_not_taken_again_by_the_undo(log: Log, cycle: Lifecycle) -> None:
    cycle.inject(a_fault("f1", [block("a-data", "c-data")]))
    assert cycle.look_again(["f1"]) >= 0.0
    assert cycle.undo("f1") and len(held(log)) == 1


def test_an_old_look_is(log: Log, cycle: Lifecycle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "FRESH_SECONDS", -1.0)
    cycle.inject(a_fault("f1", [block("a-data", "c-data")]))
    cycle.look_again(["f1"])
    assert cycle.undo("f1") and len(held(log)) == 2


@pytest.mark.parametrize("stage", ["before the look", "in it"])
def test_after_a_stop_nothing_is_looked_at_and_undo_does_not_wait(
    lab: FakeLab, log: Log, tmp_path: Path, stage: str
) -> None:
    asked, never = threading.Event(), threading.Event()

    class Hangs(FakeEvidence):
        held_deadline = 1e9

        def held(self, lab: Any) -> Look:
            asked.set()
            never.wait()
            return super().held(lab)

    cycle = Lifecycle(lab, Ledger(tmp_path / "ledger.jsonl"), log, stopped=asked.is_set)
    cycle.inject(a_fault("f1", [block("a-data", "c-data")], Hangs()))
    if stage == "before the look":
        asked.set()
    cycle.undo_all()
    never.set()
    assert lab.effects == set() and held(log) == [] and cycle.vanished == {}


def test_a_look_that_breaks_keeps_nothing_in_effect_and_proves_nothing(
    lab: FakeLab, log: Log, cycle: Lifecycle
) -> None:
    class Breaks(FakeEvidence):
        def held(self, lab: Any) -> Look:
            raise KeyError("discovered_cluster_manager")

    cycle.inject(a_fault("f1", [block("a-data", "c-data")], Breaks()))
    assert cycle.undo_all() and lab.effects == set()
    assert held(log)[0]["proven"] is False and "cannot be looked at" in held(log)[0]["says"]


@pytest.mark.parametrize("change", [{"pulse": Pulse(1000.0, 1000.0)}, {"evidence": "over"}])
def test_what_is_not_to_hold_is_not_looked_at_again(log: Log, cycle: Lifecycle, change: dict[str, Any]) -> None:
    evidence = FakeEvidence(held=False)
    evidence.holds = "evidence" not in change
    fault = a_fault("f1", [block("a-data", "c-data")], evidence)
    cycle.inject(fault if "evidence" in change else replace(fault, **change))
    assert log.of("fault.command")[0]["held"] is False
    cycle.undo_all()
    assert held(log) == [] and cycle.vanished == {}


def test_what_was_never_proven_is_not_looked_at_again(log: Log, cycle: Lifecycle) -> None:
    assert not cycle.inject(a_fault("f1", [block("a-data", "c-data")], FakeEvidence(effect=False)))
    cycle.undo_all()
    assert held(log) == []


@pytest.mark.parametrize(("holds", "proven"), [(True, True), (False, False)])
def test_a_long_time_of_a_fault_that_comes_and_goes_is_proven_before_its_end_too(
    log: Log, cycle: Lifecycle, monkeypatch: pytest.MonkeyPatch, holds: bool, proven: bool
) -> None:
    monkeypatch.setattr("chaos.faults.pulsing.LONG_SECONDS", 0.02)
    monkeypatch.setattr("chaos.faults.pulsing.LAST_SECONDS", 0.01)
    fault = replace(a_fault("f1", [block("a-data", "c-data")], FakeEvidence(held=holds)), pulse=Pulse(0.02, 0.02, 1))
    assert cycle.inject(fault)
    assert wait_until(lambda: [event["state"] for event in log.of("fault.pulse")] == ["up"], 20)
    assert cycle.undo("f1") is proven
    (pulses,) = (event for event in log.of("fault.evidence") if event["stage"] == "pulses")
    assert pulses["proven"] is proven and ("gone before its end" in pulses["says"]) is not proven


# ---- full looks, repeated --------------------------------------------------------------------------------


def signs(**ok: bool) -> Look:
    probes = [
        Probe(name, "so", "so" if well else "not so", well, control=name.startswith("c")) for name, well in ok.items()
    ]
    return Look(all(ok.values()), "as told", probes)


class Says(FakeEvidence):
    """Full looks one after the other; the last one again and again."""

    held_deadline = 0.0

    def __init__(self, *looks: Look) -> None:
        super().__init__()
        self.looks = list(looks)

    def held(self, lab: Any) -> Look:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]


def settled(evidence: FakeEvidence, shown: dict[str, int], seconds: float = 0.0) -> holding.Verdict:
    evidence.held_deadline = seconds
    found = Holding(evidence, proven=100, shown=shown).settle(FakeLab(), lambda: False)
    assert found is not None
    return found


def test_a_look_that_is_unlucky_with_another_sign_each_time_is_a_proof_in_turn(soon: None) -> None:
    one, other = signs(a=True, b=False), signs(a=False, b=True)
    assert settled(Says(one, other), {}, seconds=60).holds
    assert not settled(Says(one, one), {}, seconds=0.05).holds


def test_a_sign_that_is_not_asked_for_any_more_was_not_seen(soon: None) -> None:
    """A look that ends at its first sign must not pass by leaving out the one that failed before."""
    assert not settled(Says(signs(a=True, b=False), signs(a=False)), {}, seconds=0.05).holds


def test_where_anything_else_than_its_signs_decides_they_do_not_prove_it_in_turn(soon: None) -> None:
    assert not settled(Says(Look(False, "measured for too short", [])), {}, seconds=0.05).holds
    well = signs(a=True).probes
    assert not settled(Says(Look(False, "no node could be asked", well)), {}, seconds=0.05).holds


def test_the_window_begins_when_what_is_missing_was_last_seen(soon: None) -> None:
    before = time.monotonic_ns()
    found = settled(Says(signs(a=False, b=True, d=False)), {"a": 300, "b": 900, "d": 200})
    assert not found.holds and found.since == 200 and before <= found.first <= time.monotonic_ns()
    assert not found.spread and "a: not so" in found.look.says and "b:" not in found.look.says
    assert settled(Says(signs(a=False)), {}).since == 100  # never looked at since it was proven


def test_it_has_spread_when_all_of_it_is_there_and_something_else_too(soon: None) -> None:
    assert settled(Says(signs(a=True, c=False)), {}).spread
    assert not settled(Says(signs(a=False, c=False)), {}).spread


# ---- in between ------------------------------------------------------------------------------------------


def test_looks_in_between_are_recorded_sparsely_and_only_when_they_prove_it(
    soon: None, log: Log, cycle: Lifecycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "RECORDED_SECONDS", 3600.0)
    asked: list[int] = []

    class Counts(FakeEvidence):
        def still(self, lab: Any) -> Look | None:
            asked.append(1)
            return signs(a=True)

    cycle.inject(a_fault("f1", [block("a-data", "c-data")], Counts()))
    assert wait_until(lambda: len(asked) >= 5, 60)
    assert log.of("fault.look") == []
    monkeypatch.setattr(lifecycle, "RECORDED_SECONDS", 0.0)
    assert wait_until(lambda: len(log.of("fault.look")) >= 2, 60)
    cycle.undo_all()
    assert all(event["proven"] is True for event in log.of("fault.look"))


def test_an_odd_look_is_no_accusation_while_a_full_look_proves_it(soon: None, log: Log, cycle: Lifecycle) -> None:
    evidence = FakeEvidence()
    evidence.still_says = signs(a=False)
    cycle.inject(a_fault("f1", [block("a-data", "c-data")], evidence))
    assert wait_until(lambda: len(log.of("fault.look")) >= 2, 60)
    assert cycle.vanished == {} and held(log) == []
    cycle.undo_all()
    assert [event["proven"] for event in held(log)] == [True]


def test_a_fault_that_vanishes_in_mid_phase_is_seen_once_and_not_looked_at_any_more(
    soon: None, log: Log, cycle: Lifecycle
) -> None:
    evidence = Says(signs(a=True))
    evidence.still_says = signs(a=True)
    cycle.inject(a_fault("f1", [block("a-data", "c-data")], evidence))
    assert wait_until(lambda: len(log.of("fault.look")) >= 1, 60)
    last = time.monotonic_ns()
    evidence.looks, evidence.still_says = [signs(a=False)], signs(a=False)
    assert wait_until(lambda: "f1" in cycle.vanished, 60)
    (event,) = held(log)
    assert event["proven"] is False and event["spread"] is False
    assert event["first"] >= last > 0 and event["since"] <= event["first"]
    evidence.looks, evidence.still_says = [signs(a=True)], signs(a=True)  # back again: it was away all the same
    cycle.undo_all()
    assert len(held(log)) == 1


def test_a_hint_alone_is_no_proof_and_leads_to_a_full_look(
    soon: None, lab: FakeLab, log: Log, cycle: Lifecycle
) -> None:
    looks: list[int] = []

    class Counts(FakeEvidence):
        def held(self, lab: Any) -> Look:
            looks.append(1)
            return signs(a=True)

    evidence = Counts()
    fault = replace(a_fault("f1", [SLOW], evidence), links=(("a-data", "c-data"),))
    cycle.inject(fault)
    time.sleep(0.1)
    assert looks == []  # its proxy says that it is there
    SLOW.inverse.apply(lab)  # type: ignore[union-attr]
    assert wait_until(lambda: len(looks) >= 1, 60)
    assert cycle.vanished == {}  # the data path shows it: whatever the proxy says
    cycle.undo_all()


def test_what_nobody_of_us_put_there_is_where_the_next_full_look_goes(lab: FakeLab, cycle: Lifecycle) -> None:
    evidence = FakeEvidence()
    cycle.inject(replace(a_fault("f1", [SLOW], evidence), links=(("a-data", "c-data"),)))
    toxic("client-a", "to-b-data-http", "theirs", "latency", "upstream", {}).move.apply(lab)
    refuse("b-cm", "in-transport").move.apply(lab)
    cycle.undo_all()
    assert ("client-a", "b-data") in evidence.suspected and ("a-data", "b-cm") in evidence.suspected
    assert ("a-data", "c-data") not in evidence.suspected


def test_what_a_proxy_does_not_show_any_more_is_where_the_next_full_look_goes(lab: FakeLab, cycle: Lifecycle) -> None:
    evidence = FakeEvidence()
    cycle.inject(replace(a_fault("f1", [SLOW], evidence), links=(("a-data", "c-data"),)))
    assert SLOW.inverse is not None
    SLOW.inverse.apply(lab)
    cycle.undo_all()
    assert evidence.suspected == [("a-data", "c-data")]


def test_what_proxies_must_say_of_moves() -> None:
    lab = FakeLab()
    moves = [SLOW.move, refuse("client-a", "to-c-data-http").move, block("a-data", "b-data").move, Move("nothing")]
    assert told(lab, "a-data") == told(lab, "client-a") == frozenset()
    for move in moves:
        move.apply(lab)
    found = facts(moves)
    assert told(lab, "a-data") | told(lab, "client-a") == found and len(found) == 2  # type: ignore[operator]
    assert sorted(pair for fact in found for pair in lab.wiring.carried(*fact[:2])) == [
        ("a-data", "c-data"),
        ("client-a", "c-data"),
    ]


def test_while_another_fault_is_being_undone_what_it_held_is_left_out(lab: FakeLab, log: Log, tmp_path: Path) -> None:
    """A node that is still starting must not be taken for the end of a fault on its links."""
    seen: list[frozenset[str]] = []
    going, enough = threading.Event(), threading.Event()

    class Starts(FakeEvidence):
        def gone(self, lab: Any) -> Look:
            going.set()
            enough.wait(60)
            return super().gone(lab)

    class Sees(FakeEvidence):
        def beside(self, links: Any, nodes: Any) -> None:
            seen.append(nodes)

    cycle = Lifecycle(lab, Ledger(tmp_path / "ledger.jsonl"), log)
    cycle.inject(a_fault("f1", [block("a-data", "c-data")], Sees()))
    cycle.inject(replace(a_fault("f2", [], Starts()), targets=("c-data",)))
    undoing = threading.Thread(target=lambda: cycle.undo("f2"))
    undoing.start()
    assert going.wait(60)
    cycle.look_again(["f1"])
    assert seen[-1] == {"c-data"}
    enough.set()
    undoing.join()
    cycle.look_again(["f1"])
    assert seen[-1] == frozenset()
    cycle.undo_all()


@pytest.mark.parametrize("long", [False, True])
def test_each_look_at_what_comes_and_goes_knows_what_other_faults_hold_by_then(
    lab: FakeLab, log: Log, cycle: Lifecycle, monkeypatch: pytest.MonkeyPatch, long: bool
) -> None:
    """A node that another one pauses meanwhile is silent whether or not anything is dropped on the way to it."""
    monkeypatch.setattr("chaos.faults.pulsing.LONG_SECONDS", 0.0 if long else 60.0)
    monkeypatch.setattr("chaos.faults.pulsing.LAST_SECONDS", 0.01)
    looked: list[frozenset[str]] = []
    going, enough = threading.Event(), threading.Event()

    class Starts(FakeEvidence):
        def gone(self, lab: Any) -> Look:
            going.set()
            enough.wait(60)
            return super().gone(lab)

    class Sees(FakeEvidence):
        nodes: frozenset[str] = frozenset()

        def beside(self, links: Any, nodes: Any) -> None:
            self.nodes = nodes

        def in_effect(self, lab: Any) -> Look:
            self._saw(not long)
            return super().in_effect(lab)

        def held(self, lab: Any) -> Look:
            self._saw(long)
            return super().held(lab)

        def _saw(self, counts: bool) -> None:
            if counts:
                looked.append(self.nodes)
            self.nodes = frozenset({"what was told before an earlier look"})

    assert cycle.inject(replace(a_fault("f1", [block("a-data", "c-data")], Sees()), pulse=Pulse(0.02, 0.01)))
    assert cycle.inject(replace(a_fault("f2", [], Starts()), targets=("c-data",)))
    assert wait_until(lambda: looked[-1:] == [frozenset({"c-data"})], 20)
    undoing = threading.Thread(target=lambda: cycle.undo("f2"))
    undoing.start()
    assert going.wait(20)
    since = len(looked)
    assert wait_until(lambda: len(looked) >= since + 2, 20) and looked[-1] == {"c-data"}
    enough.set()
    undoing.join()
    assert wait_until(lambda: looked[-1] == frozenset(), 20)
    assert cycle.undo("f1")
