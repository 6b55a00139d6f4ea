"""Every kind of the catalogue: whether it is to hold, and that its cheap and full looks see a third hand."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from fakes import FakeLab
from making import OFFERED, built

from chaos.definitions.steps import Scene
from chaos.faults.evidence import Look
from chaos.faults.kinds import disk, resources, settings
from chaos.faults.kinds.cluster_manager import StormEvidence
from chaos.faults.kinds.disk import FullEvidence, RefusedEvidence, SlowEvidence, StallEvidence
from chaos.faults.kinds.resources import HeapEvidence, SqueezeEvidence, StarvationEvidence
from chaos.faults.kinds.settings import SettingsEvidence
from chaos.faults.storm import Storm, Tally
from chaos.faults.unread import Heap, UnreadAnswers
from chaos.registry import FAULTS
from chaos.targets.limits import MemoryUse, ProcessorUse
from chaos.targets.protocol import DiskAnswer

OVER_WHEN_PROVEN = {"node.restart", "node.upgrade"}
OF_ITS_OWN = {"cluster_manager.leader_flap"}


@pytest.mark.parametrize("kind", OFFERED)
def test_every_kind_says_whether_it_is_to_hold_and_how_that_is_known(kind: str) -> None:
    params = FAULTS[kind](**FAULTS[kind].examples[0])
    lab = FakeLab(params.example_topology)
    fault = built(params, Scene.of(lab.topology, 1, "f1", elected=lab.topology.cluster_managers[0].name), lab.wiring)
    evidence = fault.evidence()
    assert evidence.holds is (kind not in OVER_WHEN_PROVEN | OF_ITS_OWN)
    assert 2.0 <= evidence.held_deadline <= 15.0 and FAULTS[kind].holding


# ---- resources -------------------------------------------------------------------------------------------


class Limits(FakeLab):
    """What a limit does, as long as it is there."""

    def memory_use(self, node: str) -> MemoryUse:
        self.failures = getattr(self, "failures", 0) + ((node, "memory") in self.limited)
        return MemoryUse(0, self.failures, 0, 0)

    def read_files(self, node: str, size: int) -> int:
        return 100 if (node, "memory") in self.limited else 0

    def processor_use(self, node: str) -> ProcessorUse:
        return ProcessorUse(0.0, 0)


def seen(evidence: Any, lab: FakeLab) -> tuple[bool, bool]:
    """(full, cheap)"""
    held, still = evidence.held(lab), evidence.still(lab)
    return held.proven, still.proven


def test_a_quota_that_somebody_lifts(monkeypatch: pytest.MonkeyPatch) -> None:
    lab, look = Limits(), StarvationEvidence(("c-data",), 0.2)
    monkeypatch.setattr(
        StarvationEvidence, "_measure", lambda self, lab, node: (0.2, 5, 9) if lab.limited else (1.5, 0, 9)
    )
    monkeypatch.setattr(resources.ProcessEvidence, "_running", lambda self, lab: Look(True, "runs"))
    assert look.before(lab).proven
    lab.limit_processors("c-data", 0.2)
    assert look.in_effect(lab).proven and seen(look, lab) == (True, True)
    lab.limit_processors("a-data", 0.2)  # a limit on a node that is not named
    assert seen(look, lab) == (False, False)
    lab.limited.pop(("a-data", "cpu"))
    lab.limited.pop(("c-data", "cpu"))
    assert seen(look, lab) == (False, False)


def test_a_squeeze_that_somebody_lifts() -> None:
    lab, look = Limits(), SqueezeEvidence(("c-data",), {"c-data": 1 << 20})
    assert look.before(lab).proven
    lab.squeeze_memory("c-data", 1000)
    assert look.in_effect(lab).proven and seen(look, lab) == (True, True)
    lab.limited["c-data", "memory"] = {"limit": "2000"}  # another one than it was given
    assert look.still(lab) is not None and not look.still(lab).proven  # type: ignore[union-attr]
    lab.limited.pop(("c-data", "memory"))
    assert seen(look, lab) == (False, False)


def heap(used: float, tripped: int = 0) -> Heap:
    stats = {
        "jvm": {
            "timestamp": 1,
            "mem": {"heap_max_in_bytes": 1000, "heap_used_in_bytes": int(used * 1000)},
            "gc": {"collectors": {"old": {"collection_count": 0}}},
        },
        "breakers": {"parent": {"tripped": tripped}},
    }
    return Heap({"nodes": {"n": stats}})


def test_a_heap_that_is_empty_again_and_breakers_that_tripped_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    lab, worker = FakeLab(), UnreadAnswers(("a-data",), "i", 0.75)
    look = HeapEvidence(worker, ("a-data",), 0.75)
    now = heap(0.3)
    monkeypatch.setattr(Heap, "of", classmethod(lambda cls, *_: now))
    assert look.before(lab).proven
    now, worker.unread["a-data"] = heap(0.8, tripped=3), 4
    assert look.in_effect(lab).proven and seen(look, lab) == (True, True)
    now = heap(0.5, tripped=3)
    assert not look.held(lab).proven
    now = heap(0.5, tripped=4)
    assert look.held(lab).proven
    monkeypatch.setattr(resources.time, "monotonic", lambda: 1e9)
    now = heap(0.5, tripped=5)
    assert not look.held(lab).proven  # since when nobody knows
    worker.unread["a-data"] = 0
    assert not look.still(lab).proven  # type: ignore[union-attr]


# ---- disks -----------------------------------------------------------------------------------------------


def disks(name: str = "3az-disks") -> FakeLab:
    lab = FakeLab(name)
    return lab


def test_a_stall_that_somebody_ends() -> None:
    lab, look = disks(), StallEvidence(["c-data"])
    assert look.before(lab).proven
    lab.disks.freeze("c-data")
    lab.disks.answers["c-data", "write"] = DiskAnswer(blocked=True)
    assert look.in_effect(lab).proven and seen(look, lab) == (True, True)
    lab.disks.thaw("c-data")
    lab.disks.answers.clear()
    assert seen(look, lab) == (False, False)


def test_a_stall_on_a_disk_that_is_not_named() -> None:
    lab, look = disks(), StallEvidence(["c-data"])
    look.before(lab)
    lab.disks.freeze("c-data")
    lab.disks.answers |= {(node, "write"): DiskAnswer(blocked=True) for node in ("c-data", "a-data")}
    held = look.held(lab)
    odd = [probe for probe in held.probes if not probe.ok]
    assert not held.proven and all(probe.control and "a-data" in probe.what for probe in odd) and odd


@pytest.mark.parametrize(("number", "reads"), [(errno.EROFS, True), (errno.EIO, False)])
def test_a_disk_that_somebody_mends(number: int, reads: bool) -> None:
    lab, look = disks(), RefusedEvidence(["c-data"], number, reads=reads)
    assert look.before(lab).proven
    lab.disks.fail("c-data")
    refused = DiskAnswer(errno=number)
    lab.disks.answers |= {("c-data", do): refused for do in (("write",) if reads else ("write", "read"))}
    assert look.in_effect(lab).proven and seen(look, lab) == (True, True)
    lab.disks.restore("c-data")
    lab.disks.answers.clear()
    assert seen(look, lab) == (False, False)


def test_a_disk_that_somebody_empties_and_one_of_which_the_node_gives_back_a_little() -> None:
    lab, look = disks(), FullEvidence(["c-data"], 0.90, None)
    assert look.before(lab).proven
    lab.disks.fill("c-data", 0.92)
    lab.disks.used["c-data"] = 0.92
    assert look.in_effect(lab).proven and seen(look, lab) == (True, True)
    lab.disks.used["c-data"] = 0.85  # copies have moved away: below the watermark, and the filler is there
    assert seen(look, lab) == (True, True)
    lab.disks.used["c-data"] = 0.70
    assert seen(look, lab) == (False, False)
    lab.disks.used["c-data"] = 0.92
    lab.disks.empty("c-data")
    assert seen(look, lab) == (False, False)


def test_a_limit_of_writes_that_somebody_lifts(monkeypatch: pytest.MonkeyPatch) -> None:
    lab, look = disks(), SlowEvidence(["c-data"], 65536)
    monkeypatch.setattr(SlowEvidence, "_as_asked", lambda self, answer: bool(lab.disks.limits))
    for whose in ("node", "others"):
        lab.disks.throttle("c-data", whose, 65536)
    look._limited_others = {"c-data": True}
    look.others.remember(lab, frozenset())
    assert seen(look, lab) == (True, True)
    lab.disks.unthrottle("c-data", "others")
    assert seen(look, lab) == (False, False)
    lab.disks.unthrottle("c-data", "node")
    assert seen(look, lab) == (False, False)


def test_power_that_came_back_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    lab, look = disks(), disk.PowerLossEvidence(["c-data"])
    lab.states = {"c-data": None}
    assert look.still(lab).proven  # type: ignore[union-attr]
    lab.states = {}
    assert not look.still(lab).proven  # type: ignore[union-attr]


# ---- what the cluster is asked ---------------------------------------------------------------------------


def test_a_setting_that_somebody_puts_back_is_seen_on_whichever_node(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = FakeLab()
    nodes = [node.name for node in lab.topology.nodes]
    held: dict[str, Any] = {node: {"k": ("v", False)} for node in nodes}
    monkeypatch.setattr(settings, "effective", lambda lab, node, index: held[node])
    look = SettingsEvidence(None, {"k": "w"})
    assert look.before(lab).proven
    held |= {node: {"k": ("w", True)} for node in nodes}
    assert look.in_effect(lab).proven and look.held(lab).proven
    assert all(look.still(lab).proven for _ in nodes)  # type: ignore[union-attr]
    held["b-cm"] = None  # it does not answer: that says nothing of the setting
    assert look.held(lab).proven and [look.still(lab) for _ in nodes].count(None) == 1
    held["a-cm"] = {"k": ("v", False)}
    assert not look.held(lab).proven
    assert sorted(each.proven for _ in nodes if (each := look.still(lab))) == [False] + [True] * (len(nodes) - 2)
    held |= dict.fromkeys(nodes)
    assert not look.held(lab).proven


class Counted(StormEvidence):
    def __init__(self, storm: Storm) -> None:
        super().__init__(storm, "requests")
        self.number = 0

    def counted(self, lab: Any) -> int | None:
        return self.number


def test_a_storm_that_ended_does_not_live_on_what_it_did_before(monkeypatch: pytest.MonkeyPatch) -> None:
    lab, storm = FakeLab(), Storm(10.0, ["a-data"], lambda k: [])
    look = Counted(storm)
    tally = Tally()
    monkeypatch.setattr(storm, "tally", lambda: tally)

    def after(seconds: float, sent: int, well: int, counted: int) -> Look | None:
        nonlocal tally
        tally, look.number = Tally(seconds, sent, well), counted
        return look.still(lab)

    assert after(100, 1000, 1000, 1000) is None  # where the measurement begins
    assert after(102, 1020, 1020, 1020).proven  # type: ignore[union-attr]
    assert not after(104, 1021, 1021, 1021).proven  # type: ignore[union-attr]
    after(106, 1041, 1041, 1041)
    after(108, 1061, 1061, 1061)
    after(110, 1081, 1081, 1081)
    tally, look.number = Tally(111, 1091, 1091), 1091
    assert look.held(lab).proven
    with monkeypatch.context() as patch:
        patch.setattr(Storm, "over", True)  # its tally stands still, and would look as well for ever
        assert seen(look, lab) == (False, False)
    tally, look.number = Tally(114, 1121, 1091), 1091  # they are sent, and nobody answers them well any more
    assert not look.held(lab).proven
    tally, look.number = Tally(118, 1161, 1131), 1091  # answered well, and the cluster counts none of them
    assert not look.held(lab).proven
