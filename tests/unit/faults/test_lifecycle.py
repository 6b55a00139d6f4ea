"""The lifecycle: undo takes back exactly what inject made, last in first out, whatever fails on the way."""

from __future__ import annotations

import errno
import math
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeEvidence, FakeLab, Log, a_fault
from hypothesis import given, settings
from hypothesis import strategies as st
from making import block, refuse, toxic

from chaos.base.errors import FaultError, LabError
from chaos.faults.evidence import Look
from chaos.faults.fault import Pulse
from chaos.faults.ledger import Ledger, standing
from chaos.faults.lifecycle import Lifecycle, undo_entries
from chaos.faults.moves import Reversible, on_node
from chaos.faults.pulsing import Pulsing
from chaos.targets.labs.processes import wait_until


@pytest.fixture
def lab() -> FakeLab:
    return FakeLab()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.jsonl")


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def lifecycle(lab: FakeLab, ledger: Ledger, log: Log) -> Lifecycle:
    return Lifecycle(lab, ledger, log)


def test_inject_then_undo_writes_the_whole_story_and_leaves_nothing(
    lab: FakeLab, ledger: Ledger, log: Log, lifecycle: Lifecycle
) -> None:
    fault = a_fault("f1", [block("a-data", "c-data"), refuse("client-a", "to-c-data-http")])
    assert lifecycle.inject(fault) is True
    assert lab.effects == {("blocked", "a-data", "c-data"), ("disabled", "client-a", "to-c-data-http")}
    assert len(standing(ledger.path)) == 2
    assert lifecycle.active == [fault]
    assert lifecycle.undo("f1") is True
    assert lab.effects == set() and standing(ledger.path) == [] and lifecycle.active == []
    assert log.kinds == [
        "fault.evidence",
        "fault.command",
        "fault.applied",
        "fault.evidence",
        "fault.in_effect",
        "fault.evidence",
        "fault.undo",
        "fault.undone",
        "fault.evidence",
        "fault.gone",
    ]
    assert [(e["stage"], e["proven"]) for e in log.of("fault.evidence")] == [
        ("before", True),
        ("effect", True),
        ("held", True),
        ("gone", True),
    ]


def test_the_ledger_knows_before_anything_happens(lab: FakeLab, ledger: Ledger, lifecycle: Lifecycle) -> None:
    seen: list[int] = []
    lab.fails = lambda call, arguments: seen.append(len(standing(ledger.path)))
    lifecycle.inject(a_fault("f1", [block("a-data", "c-data"), block("a-data", "b-data")]))
    assert seen == [2, 2]


one_host = st.lists(
    st.sampled_from(
        [
            toxic("a-data", "p", "t1", "latency", "upstream", {}),
            toxic("a-data", "p", "t2", "latency", "upstream", {}),
            refuse("a-data", "p"),
            on_node("node.kill", "node.start", "a-data"),
        ]
    ),
    min_size=1,
    max_size=4,
    unique_by=str,
)


@given(st.lists(one_host, min_size=1, max_size=4))
@settings(max_examples=25, deadline=None)
def test_undo_is_the_mirror_image_of_inject(tmp_path_factory: Any, faults: list[list[Reversible]]) -> None:
    lab = FakeLab()
    ledger = Ledger(tmp_path_factory.mktemp("ledger") / "ledger.jsonl")
    lifecycle = Lifecycle(lab, ledger, Log())
    for number, moves in enumerate(faults):
        assert lifecycle.inject(a_fault(f"f{number}", moves))
    forth = list(lab.calls)
    assert lifecycle.undo_all()
    back = lab.calls[len(forth) :]
    mirror = {"add_toxic": "remove_toxic", "disable": "enable", "kill": "start"}
    assert back == [(mirror[call], *arguments) for call, *arguments in reversed(forth)]
    assert lab.effects == set() and standing(ledger.path) == []
    ledger.close()


@pytest.mark.parametrize("error", [FaultError("Toxiproxy says no"), OSError(5, "I/O"), KeyError("toxics")])
def test_an_undo_that_fails_never_stops_the_others(
    lab: FakeLab, ledger: Ledger, log: Log, lifecycle: Lifecycle, error: Exception
) -> None:
    lifecycle.inject(a_fault("f1", [block("a-data", "b-data"), block("a-data", "c-data"), block("b-data", "c-data")]))
    lifecycle.inject(a_fault("f2", [block("a-cm", "c-cm")]))

    def fails(call: str, arguments: tuple[str, ...]) -> None:
        if (call, *arguments) in (("restore", "a-data", "c-data"), ("restore", "a-cm", "c-cm")):
            raise error

    lab.fails = fails
    assert lifecycle.undo_all() is False
    assert lab.effects == {("blocked", "a-data", "c-data"), ("blocked", "a-cm", "c-cm")}
    assert {e.move.arguments["peer"] for e in standing(ledger.path)} == {"c-data", "c-cm"}
    failed = log.of("fault.failed")
    assert {e["fault"] for e in failed} == {"f1", "f2"} and all(e["stage"] == "undo" for e in failed)
    assert log.of("fault.gone") == []

    lab.fails = lambda call, arguments: None  # what failed is still in the ledger, and can be tried again
    assert undo_entries(lab, ledger, standing(ledger.path)) == []
    assert lab.effects == set() and standing(ledger.path) == []


def test_an_inject_that_fails_half_way_is_undone(lab: FakeLab, ledger: Ledger, log: Log, lifecycle: Lifecycle) -> None:
    def fails(call: str, arguments: tuple[str, ...]) -> None:
        if (call, *arguments) == ("block", "b-data", "c-data"):
            raise LabError("no such neighbour")

    lab.fails = fails
    evidence = FakeEvidence()
    fault = a_fault("f1", [block("a-data", "c-data"), block("b-data", "c-data")], evidence)
    with pytest.raises(FaultError, match="no such neighbour"):
        lifecycle.inject(fault)
    assert lab.effects == set() and standing(ledger.path) == [] and lifecycle.active == []
    assert evidence.closed
    assert log.of("fault.failed")[0]["stage"] == "inject"
    assert log.of("fault.in_effect") == []


def test_of_faults_that_begin_together_one_that_is_refused_leaves_nothing_written_down(
    ledger: Ledger, lifecycle: Lifecycle
) -> None:
    def refused(lab: Any) -> Any:
        raise FaultError("a budget allows no eviction")

    first = a_fault("f1", [block("a-data", "c-data")])
    second = replace(a_fault("f2", [block("b-data", "c-data")]), read=refused)
    with pytest.raises(FaultError, match="no eviction"):
        lifecycle.inject(first, second)
    assert standing(ledger.path) == [] and lifecycle.active == []


def test_of_faults_that_begin_together_what_was_written_down_is_known_not_to_be_sent(
    ledger: Ledger, lifecycle: Lifecycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    intend = ledger.intend

    def full(fault: str, moves: Any) -> Any:
        if fault == "f2":
            raise FaultError("no space: nothing is injected")
        return intend(fault, moves)

    monkeypatch.setattr(ledger, "intend", full)
    with pytest.raises(FaultError, match="no space"):
        lifecycle.inject(*(a_fault(id, [block("a-data", peer)]) for id, peer in (("f1", "b-data"), ("f2", "c-data"))))
    assert [(each.fault, each.answered) for each in standing(ledger.path)] == [("f1", True)]


@pytest.mark.parametrize("evidence", [FakeEvidence(effect=False), FakeEvidence(before=False)])
def test_what_is_not_proven_is_not_claimed(
    lab: FakeLab, log: Log, lifecycle: Lifecycle, evidence: FakeEvidence
) -> None:
    """Without a good baseline, an effect that is seen proves nothing either."""
    assert lifecycle.inject(a_fault("f1", [block("a-data", "c-data")], evidence)) is False
    assert log.of("fault.in_effect") == []
    assert [e["proven"] for e in log.of("fault.evidence") if e["stage"] == "effect"] == [False]
    assert lab.effects and [f.id for f in lifecycle.active] == ["f1"]  # still to be undone
    assert lifecycle.undo("f1") is True
    assert lab.effects == set()


def test_what_was_so_before_is_named_where_it_keeps_an_effect_from_being_proven(
    lab: FakeLab, log: Log, lifecycle: Lifecycle
) -> None:
    evidence = FakeEvidence(before=False)
    assert lifecycle.inject(a_fault("f1", [block("a-data", "c-data")], evidence)) is False
    (effect,) = [each for each in log.of("fault.evidence") if each["stage"] == "effect"]
    assert effect["says"] == "effect; before it was made: before"


def test_an_end_that_is_not_proven_is_not_claimed(lab: FakeLab, log: Log, lifecycle: Lifecycle) -> None:
    lifecycle.inject(a_fault("f1", [block("a-data", "c-data")], FakeEvidence(gone=False)))
    assert lifecycle.undo("f1") is False
    assert lab.effects == set() and log.of("fault.gone") == []


def test_an_end_that_can_no_longer_count_is_looked_for_but_not_waited_for(
    lab: FakeLab, log: Log, lifecycle: Lifecycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.faults.lifecycle.FAILED_SECONDS", 0.0)
    evidence = FakeEvidence(gone=False)
    evidence.gone_deadline = math.inf  # waited for to its end, this test would never end
    lifecycle.inject(a_fault("f1", [block("a-data", "c-data")], evidence))

    def fails(call: str, arguments: tuple[str, ...]) -> None:
        raise FaultError("Toxiproxy says no")

    lab.fails = fails
    assert lifecycle.undo("f1") is False
    assert [e["proven"] for e in log.of("fault.evidence") if e["stage"] == "gone"] == [False]


def test_evidence_that_breaks_does_not_keep_the_next_fault_in_effect(
    lab: FakeLab, log: Log, lifecycle: Lifecycle
) -> None:
    class Breaks(FakeEvidence):
        def gone(self, lab: Any) -> Any:
            raise KeyError("discovered_cluster_manager")

    broken = Breaks()
    lifecycle.inject(a_fault("f1", [block("a-data", "c-data")]))
    lifecycle.inject(a_fault("f2", [block("b-data", "c-data")], broken))
    assert lifecycle.undo_all() is False
    assert lab.effects == set() and lifecycle.active == [] and broken.closed
    assert [e["fault"] for e in log.of("fault.gone")] == ["f1"]


def test_a_full_disk_stops_an_inject_but_never_an_undo(
    lab: FakeLab, ledger: Ledger, log: Log, lifecycle: Lifecycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    lifecycle.inject(a_fault("f1", [block("a-data", "c-data")]))

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(log, "write", full)
    monkeypatch.setattr(ledger, "_append", full)
    evidence = FakeEvidence()
    with pytest.raises((OSError, FaultError)):
        lifecycle.inject(a_fault("f2", [block("b-data", "c-data")], evidence))
    assert lab.effects == {("blocked", "a-data", "c-data")} and evidence.closed
    assert lifecycle.undo_all() is True
    assert lab.effects == set()


def test_a_capability_that_the_lab_lacks_is_said_before_anything_happens(
    lab: FakeLab, ledger: Ledger, log: Log, lifecycle: Lifecycle
) -> None:
    lab.missing = {"drop": "this lab has no layer 3"}
    with pytest.raises(FaultError, match="this lab has no layer 3"):
        lifecycle.inject(a_fault("f1", [block("a-data", "c-data")], needs=("drop",)))
    assert lab.calls == [] and standing(ledger.path) == [] and log.events == []


def test_undoing_what_is_not_active_is_fine(lab: FakeLab, log: Log, lifecycle: Lifecycle) -> None:
    assert lifecycle.undo("f9") is True
    assert lifecycle.undo_all() is True
    assert lab.calls == [] and log.events == []


def test_after_a_stop_nothing_is_made_any_more(lab: FakeLab, ledger: Ledger, log: Log) -> None:
    evidence = FakeEvidence()
    cycle = Lifecycle(lab, ledger, log, stopped=lambda: True)
    assert cycle.inject(a_fault("f1", [block("a-data", "c-data")], evidence)) is False
    assert lab.calls == [] and standing(ledger.path) == [] and cycle.active == [] and evidence.closed


class Hangs(FakeEvidence):
    """Evidence one of whose looks never ends by itself, and says when it was begun."""

    effect_deadline = gone_deadline = 1e9

    def __init__(self, stage: str) -> None:
        super().__init__()
        self.stage, self.asked, self.never = stage, threading.Event(), threading.Event()

    def _maybe(self, stage: str) -> None:
        if stage == self.stage:
            self.asked.set()
            self.never.wait()

    def before(self, lab: Any) -> Any:
        self._maybe("before")
        return super().before(lab)

    def in_effect(self, lab: Any) -> Any:
        self._maybe("effect")
        return super().in_effect(lab)

    def gone(self, lab: Any) -> Any:
        self._maybe("gone")
        return super().gone(lab)


@pytest.mark.parametrize("stage", ["before", "effect"])
def test_a_stop_does_not_wait_for_a_look_that_is_under_way(lab: FakeLab, ledger: Ledger, log: Log, stage: str) -> None:
    evidence = Hangs(stage)
    cycle = Lifecycle(lab, ledger, log, stopped=evidence.asked.is_set)
    assert cycle.inject(a_fault("f1", [block("a-data", "c-data")], evidence)) is False
    assert len(lab.effects) == (stage == "effect")
    cycle.undo_all()
    evidence.never.set()
    assert lab.effects == set() and standing(ledger.path) == []


def test_a_stop_shortens_the_wait_for_the_end_but_not_the_undo(
    lab: FakeLab, ledger: Ledger, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.faults.lifecycle.STOPPED_SECONDS", 0.05)
    evidence = Hangs("gone")
    cycle = Lifecycle(lab, ledger, log, stopped=evidence.asked.is_set)
    assert cycle.inject(a_fault("f1", [block("a-data", "c-data")], evidence))
    assert cycle.undo_all() is False
    evidence.never.set()
    assert lab.effects == set() and standing(ledger.path) == [] and log.of("fault.gone") == []


def test_everything_is_taken_back_before_any_end_is_proven(lab: FakeLab, ledger: Ledger, log: Log) -> None:
    """A restarted node takes long to prove its return: no other fault may stay in effect for that."""
    seen: list[set[tuple[str, ...]]] = []

    class Slow(FakeEvidence):
        def gone(self, lab: Any) -> Any:
            seen.append(set(lab.effects))
            return super().gone(lab)

    cycle = Lifecycle(lab, ledger, log)
    assert cycle.inject(a_fault("f1", [block("a-data", "c-data")], Slow()))
    assert cycle.inject(a_fault("f2", [on_node("node.kill", "node.start", "b-data")], Slow()))
    assert cycle.undo_all() and seen == [set(), set()]
    assert cycle.taken_back is not None
    kinds = [kind for kind in log.kinds if kind in ("fault.undo", "fault.undone", "fault.gone")]
    assert kinds == ["fault.undo"] * 2 + ["fault.undone"] * 2 + ["fault.gone"] * 2


def test_undo_of_several_is_last_in_first_out_whatever_order_is_asked(lab: FakeLab, lifecycle: Lifecycle) -> None:
    for number, peer in enumerate(("b-data", "c-data", "a-cm"), 1):
        assert lifecycle.inject(a_fault(f"f{number}", [block("a-data", peer)]))
    assert lifecycle.undo_each(["f1", "f3", "f9"]) == {"f1": True, "f3": True, "f9": True}
    assert lab.calls[3:] == [("restore", "a-data", "a-cm"), ("restore", "a-data", "b-data")]
    assert [fault.id for fault in lifecycle.active] == ["f2"]


def test_an_undo_that_hangs_on_one_host_keeps_no_other_host(lab: FakeLab, ledger: Ledger, log: Log) -> None:
    held, release = threading.Event(), threading.Event()

    def fails(call: str, arguments: tuple[str, ...]) -> None:
        if call == "enable":
            held.set()
            release.wait()
            raise FaultError("Toxiproxy hangs")

    cycle = Lifecycle(lab, ledger, log)
    assert cycle.inject(a_fault("f1", [block("a-data", "c-data")]))
    assert cycle.inject(a_fault("f2", [refuse("b-data", "p")]))
    lab.fails = fails
    results: list[bool] = []
    undoing = threading.Thread(target=lambda: results.append(cycle.undo_all()))
    undoing.start()
    assert held.wait(60)
    assert wait_until(lambda: [e["fault"] for e in log.of("fault.undone")] == ["f1"], 60)
    release.set()
    undoing.join()
    assert results == [False] and "hangs" in log.of("fault.failed")[0]["says"]
    assert [e["fault"] for e in log.of("fault.gone")] == ["f1"]


# -- several at once, and faults that come and go ------------------------------------------------


def test_faults_of_one_phase_are_written_down_before_any_is_made_and_undone_together_when_one_fails(
    lab: FakeLab, ledger: Ledger, log: Log, lifecycle: Lifecycle
) -> None:
    one = a_fault("f1", [block("a-data", "c-data")])
    two = a_fault("f2", [on_node("node.kill", "node.start", "b-data")])

    def fails(call: str, arguments: tuple[str, ...]) -> None:
        if call == "kill":
            assert len(standing(ledger.path)) == 2
            raise LabError("told to fail")

    lab.fails = fails
    with pytest.raises(FaultError, match="told to fail"):
        lifecycle.inject(one, two)
    assert lab.effects == set() and lifecycle.active == [] and standing(ledger.path) == []
    lab.fails = lambda call, arguments: None
    assert lifecycle.inject(one, two)
    assert [e["kind"] for e in log.events[-6:]].count("fault.in_effect") == 2


def test_two_faults_never_hold_the_same(lab: FakeLab, lifecycle: Lifecycle) -> None:
    one = replace(a_fault("f1", [block("a-data", "c-data")]), claims=frozenset({"the disk of a-data"}))
    two = replace(a_fault("f2", [block("a-data", "b-data")]), claims=frozenset({"the disk of a-data"}))
    with pytest.raises(FaultError, match="still active on the disk of a-data"):
        lifecycle.inject(one, two)
    assert lifecycle.inject(one)
    with pytest.raises(FaultError, match="still active on the disk of a-data"):
        lifecycle.inject(two)
    assert lifecycle.undo("f1") and lifecycle.inject(two)


def test_a_fault_that_comes_and_goes_is_looked_at_each_time_and_ends_away(
    lab: FakeLab, ledger: Ledger, log: Log, lifecycle: Lifecycle
) -> None:
    fault = replace(a_fault("f1", [block("a-data", "c-data")]), pulse=Pulse(0.02, 0.02, 3))
    assert lifecycle.inject(fault)
    assert wait_until(lambda: len(log.of("fault.pulse")) == 5, 10)  # up, down, up, down, up: and it stays away
    assert lab.effects == set() and len(standing(ledger.path)) == 1
    assert lifecycle.undo("f1") and standing(ledger.path) == []
    assert [c[0] for c in lab.calls].count("block") == 3
    assert next(e for e in log.of("fault.evidence") if e["stage"] == "pulses")["proven"]


def test_the_look_that_proves_the_first_time_takes_its_part_of_it(lab: FakeLab, ledger: Ledger, log: Log) -> None:
    """A blip of a second is one of a second, however long it took to look at it."""
    fault = replace(a_fault("f1", [block("a-data", "c-data")]), pulse=Pulse(1000.0, 1000.0))
    entries = ledger.intend("f1", fault.moves)
    assert fault.pulse is not None
    pulsing = Pulsing(lab, fault, fault.pulse, entries, FakeEvidence(), log, lambda: None)
    pulsing.start(time.monotonic() - 1000.0)
    assert wait_until(lambda: [event["state"] for event in log.of("fault.pulse")] == ["up"], 20)
    assert pulsing.stop().proven


def test_a_time_that_is_not_proven_makes_the_whole_not_proven(lab: FakeLab, log: Log, lifecycle: Lifecycle) -> None:
    evidence = FakeEvidence()
    fault = replace(a_fault("f1", [block("a-data", "c-data")], evidence), pulse=Pulse(0.02, 0.02))
    assert lifecycle.inject(fault)
    evidence._effect = False
    assert wait_until(lambda: any(e.get("proven") is False for e in log.of("fault.pulse")), 10)
    assert not lifecycle.undo("f1")
    assert lab.effects == set()


def test_a_look_that_breaks_ends_no_coming_and_going_and_a_time_with_nothing_else_is_not_proven(
    lab: FakeLab, log: Log, lifecycle: Lifecycle
) -> None:
    class Breaks(FakeEvidence):
        broken = False

        def in_effect(self, lab: Any) -> Look:
            if self.broken:
                raise LabError("docker does not answer")
            return super().in_effect(lab)

    evidence = Breaks()
    fault = replace(a_fault("f1", [block("a-data", "c-data")], evidence), pulse=Pulse(0.02, 0.02))

    def proven() -> list[bool]:
        return [event["proven"] for event in log.of("fault.pulse") if event["state"] == "down"]

    assert lifecycle.inject(fault)
    evidence.broken = True
    assert wait_until(lambda: False in proven(), 20)
    evidence.broken = False
    assert wait_until(lambda: proven()[-1] is True, 20), "it comes and goes on"
    assert not lifecycle.undo("f1") and lab.effects == set()
    (pulses,) = (event for event in log.of("fault.evidence") if event["stage"] == "pulses")
    assert pulses["proven"] is False
    assert {"docker does not answer"} == {probe["measured"] for probe in pulses["probes"]}


def test_a_look_that_breaks_is_taken_again_for_as_long_as_its_time_lasts(
    lab: FakeLab, log: Log, lifecycle: Lifecycle
) -> None:
    class BreaksOnce(FakeEvidence):
        left = 0

        def in_effect(self, lab: Any) -> Look:
            if self.left:
                self.left -= 1
                raise LabError("docker does not answer")
            return super().in_effect(lab)

    evidence = BreaksOnce()
    fault = replace(a_fault("f1", [block("a-data", "c-data")], evidence), pulse=Pulse(1.0, 0.01, 2))
    assert lifecycle.inject(fault)
    evidence.left = 1
    assert wait_until(lambda: [event["state"] for event in log.of("fault.pulse")] == ["up", "down", "up"], 20)
    assert evidence.left == 0 and lifecycle.undo("f1")


def test_what_ends_the_coming_and_going_early_is_not_proven(
    lab: FakeLab, log: Log, lifecycle: Lifecycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> list[str]:
        raise RuntimeError("can't start new thread")

    fault = replace(a_fault("f1", [block("a-data", "c-data")]), pulse=Pulse(0.02, 0.02))
    assert lifecycle.inject(fault)
    monkeypatch.setattr("chaos.faults.pulsing.apply_moves", full)
    active = lifecycle._active[0]
    assert active.pulsing is not None and wait_until(lambda: not active.pulsing._thread.is_alive(), 20)  # type: ignore[union-attr]
    assert not lifecycle.undo("f1") and lab.effects == set()
    (pulses,) = (event for event in log.of("fault.evidence") if event["stage"] == "pulses")
    assert pulses["proven"] is False and "can't start new thread" in pulses["probes"][0]["measured"]


def test_a_worker_starts_after_the_moves_and_is_over_before_their_undo(lab: FakeLab, lifecycle: Lifecycle) -> None:
    seen: list[str] = []

    class Working:
        def start(self, lab: Any) -> None:
            seen.append(f"start with {len(lab.effects)}")

        def stop(self) -> None:
            seen.append(f"stop with {len(lab.effects)}")

    fault = replace(a_fault("f1", [block("a-data", "c-data")]), worker=Working())
    assert lifecycle.inject(fault) and lifecycle.undo("f1")
    assert seen == ["start with 1", "stop with 1"]


class Work:
    """A worker that says at its end how it went."""

    def __init__(self, proven: bool | None) -> None:
        self.proven, self.calls = proven, []  # type: ignore[var-annotated]

    def start(self, lab: Any) -> None:
        self.calls.append("start")

    def stop(self) -> Look | None:
        self.calls.append("stop")
        return None if self.proven is None else Look(self.proven, "as told")


@pytest.mark.parametrize(("proven", "undone"), [(True, True), (False, False), (None, True)])
def test_what_a_worker_says_of_its_whole_time_is_evidence(
    lifecycle: Lifecycle, log: Log, proven: bool | None, undone: bool
) -> None:
    work = Work(proven)
    assert lifecycle.inject(replace(a_fault("f1", []), worker=work)) is True
    assert lifecycle.undo("f1") is undone and work.calls == ["start", "stop"]
    told = [event["proven"] for event in log.of("fault.evidence") if event["stage"] == "pulses"]
    assert told == ([] if proven is None else [proven])
    assert log.of("fault.gone")


def test_moves_with_values_of_the_moment_are_read_after_the_first_look_and_before_the_ledger(
    lab: FakeLab, ledger: Ledger, log: Log, lifecycle: Lifecycle
) -> None:
    seen: list[Any] = []

    def read(given: Any) -> tuple[Reversible, ...]:
        seen.append((given is lab, log.kinds, standing(ledger.path)))
        return (block("a-data", "c-data"),)

    planned = a_fault("f1", [block("a-data", "b-data")])
    assert lifecycle.inject(replace(planned, read=read)) is True
    assert seen == [(True, ["fault.evidence"], [])]
    assert lab.effects == {("blocked", "a-data", "c-data")}
    assert lifecycle.undo("f1") is True and lab.effects == set()


def test_what_is_prepared_is_written_down_and_nothing_is_done_yet(
    lab: FakeLab, ledger: Ledger, log: Log, lifecycle: Lifecycle
) -> None:
    """So that a phase's clock begins with the fault, and not with the looks before it."""
    prepared = lifecycle.prepare(a_fault("f1", [block("a-data", "c-data")]))
    assert lab.effects == set() and lifecycle.active == [] and log.kinds == ["fault.evidence"]
    assert len(standing(ledger.path)) == 1 and lifecycle.made == {}
    assert lifecycle.make(prepared) is True
    assert lab.effects == {("blocked", "a-data", "c-data")} and [each.id for each in lifecycle.active] == ["f1"]
    assert lifecycle.undo("f1") is True and lab.effects == set() and standing(ledger.path) == []
    assert set(lifecycle.made) == {"f1"} and lifecycle.active == []


def test_what_is_prepared_is_not_made_after_a_stop(lab: FakeLab, ledger: Ledger, log: Log) -> None:
    stopped = threading.Event()
    cycle = Lifecycle(lab, ledger, log, stopped=stopped.is_set)
    prepared = cycle.prepare(a_fault("f1", [block("a-data", "c-data")]))
    stopped.set()
    assert cycle.make(prepared) is False and lab.effects == set() and cycle.active == []
    assert undo_entries(lab, ledger, standing(ledger.path)) == [] and standing(ledger.path) == []
