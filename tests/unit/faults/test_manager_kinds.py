"""Cluster manager faults: who is drawn, whom it hits at the moment, what undo needs, and what proves nothing."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from fake_cluster import FakeClient, FakeCluster
from fakes import FakeLab, topology
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.base.errors import FaultError
from chaos.definitions.steps import FaultParams
from chaos.faults import flapping as flaps
from chaos.faults.evidence import Look, ProcessEvidence
from chaos.faults.flapping import Flapping
from chaos.faults.kinds import cluster_manager as module
from chaos.faults.kinds.cluster_manager import (
    STORM,
    FlapEvidence,
    QuorumEvidence,
    StormEvidence,
    quorum,
)
from chaos.faults.moves import Move, on_node
from chaos.faults.storm import Ask, Storm, Tally
from chaos.opensearch.views import NOBODY
from chaos.providers import process, rest
from chaos.providers.rest import ADMIN, delete_indices
from chaos.registry import FAULTS, ready
from chaos.targets.labs.processes import wait_until

KINDS = [kind for kind in FAULTS if kind.startswith("cluster_manager.")]


def params(kind: str, **fields: Any) -> FaultParams:
    return FAULTS[f"cluster_manager.{kind}"].model_validate(fields)


@pytest.mark.parametrize("kind", KINDS)
def test_every_example_is_fine_on_its_topology(kind: str) -> None:
    lab = FakeLab(FAULTS[kind].example_topology)
    for example in FAULTS[kind].examples:
        made = FAULTS[kind].model_validate(example)
        assert made.check(lab.topology) == []
        fault = ready("f1", made, lab, seed=1, elected="b-cm")
        assert all(both.inverse is not None for both in fault.moves)
        assert Move.from_json(fault.moves[0].inverse.to_json()) if fault.moves else True


# ---- whom it hits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("elected", ["a-cm", "b-cm", "c-cm"])
def test_the_elected_one_is_whoever_is_elected_when_it_is_injected(elected: str) -> None:
    """To kill or to isolate the elected cluster manager needs no kind of its own."""
    lab = FakeLab()
    kill = FAULTS["node.kill"].model_validate({"target": "elected cluster manager"})
    assert kill.momentary
    assert ready("f1", kill, lab, seed=1, elected=elected).targets == (elected,)
    isolate = FAULTS["network.drop"].model_validate({"links": "around elected cluster manager"})
    assert isolate.momentary
    links = ready("f1", isolate, lab, seed=1, elected=elected).links
    others = {node.name for node in lab.topology.nodes} - {elected}
    assert set(links) == {(elected, other) for other in others} | {(other, elected) for other in others}
    with pytest.raises(FaultError, match="no elected cluster manager"):
        ready("f1", kill, lab, seed=1, elected=None)


@given(st.integers(0, 1000), st.integers(0, 1), st.sampled_from(["3az", "2az", "3az-standby-2data"]))
@settings(max_examples=40, deadline=None)
def test_a_loss_of_quorum_takes_a_majority_and_no_data_node_the_same_for_a_seed(
    seed: int, keep: int, name: str
) -> None:
    lab = FakeLab(name)
    lost = params("quorum_loss", keep=keep)
    first, again = (ready("f1", lost, lab, seed=seed, elected=None).targets for _ in range(2))
    assert first == again
    managers = {node.name for node in lab.topology.cluster_managers}
    assert set(first) <= managers and len(managers - set(first)) == keep < quorum(lab.topology)
    assert not {node.name for node in lab.topology.data_nodes} & set(first)


def test_every_pair_of_cluster_managers_can_be_drawn() -> None:
    drawn = {ready("f1", params("quorum_loss"), FakeLab(), seed=seed, elected=None).targets for seed in range(40)}
    assert len(drawn) == 3


def test_what_leaves_a_quorum_or_takes_data_away_is_refused() -> None:
    (problem,) = params("quorum_loss", keep=2).check(topology("3az"))
    assert "still is a quorum" in problem and "at most 1" in problem
    nodes = [node.model_copy(update={"roles": ("cluster_manager", "data")}) for node in topology("3az").data_nodes]
    mixed = topology("3az").model_copy(update={"nodes": tuple(nodes)})
    (problem,) = params("quorum_loss").check(mixed)
    assert "dedicated cluster managers" in problem


@pytest.mark.parametrize(("managers", "needed"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)])
def test_the_voting_configuration_has_an_odd_size(managers: int, needed: int) -> None:
    three = topology("3az")
    nodes = [three.cluster_managers[0].model_copy(update={"name": f"cm-{n}"}) for n in range(managers)]
    assert quorum(three.model_copy(update={"nodes": tuple(nodes)})) == needed


# ---- evidence of a lost quorum --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "proven"), [(NOBODY, True), ("a-cm", False), (None, False)], ids=["nobody", "a leader", "no answer"]
)
def test_a_lost_quorum_is_proven_by_data_nodes_without_a_leader_only(
    monkeypatch: pytest.MonkeyPatch, seen: str | None, proven: bool
) -> None:
    lab = FakeLab()
    monkeypatch.setattr(ProcessEvidence, "in_effect", lambda *_: Look(True, "they are gone"))
    monkeypatch.setattr(module, "together", lambda lines, timeout: {})
    views = {node.name: NOBODY for node in lab.topology.nodes} | {"c-data": seen}
    monkeypatch.setattr(module, "leaders", lambda lab: views)
    assert QuorumEvidence(["a-cm", "b-cm"], paused=False).in_effect(lab).proven is proven


@pytest.mark.parametrize(("odd", "proven"), [("a-cm", True), ("b-cm", False), (NOBODY, False), (None, False)])
def test_it_is_gone_when_every_node_knows_the_same_leader(
    monkeypatch: pytest.MonkeyPatch, odd: str | None, proven: bool
) -> None:
    lab = FakeLab()
    monkeypatch.setattr(ProcessEvidence, "gone", lambda *_: Look(True, "they run"))
    views = {node.name: "a-cm" for node in lab.topology.nodes} | {"c-data": odd}
    monkeypatch.setattr(module, "leaders", lambda lab: views)
    assert QuorumEvidence(["a-cm", "b-cm"], paused=False).gone(lab).proven is proven


# ---- flapping -------------------------------------------------------------------------------------------


class Electing(FakeLab):
    """Whoever is not paused may lead; a leader stays while it is there. ``stubborn``: nobody else is ever elected."""

    def __init__(self, stubborn: bool = False) -> None:
        super().__init__("3az-tuned")
        self.leader, self.terms, self.stubborn = "a-cm", 1, stubborn

    def elected(self) -> str:
        paused = {effect[1] for effect in self.effects if effect[0] == "paused"}
        if self.leader in paused and not self.stubborn:
            self.leader = next(n.name for n in self.topology.cluster_managers if n.name not in paused)
            self.terms += 1
        return self.leader


@pytest.fixture
def electing(monkeypatch: pytest.MonkeyPatch) -> type[Electing]:
    monkeypatch.setattr(flaps, "elected", lambda lab: lab.elected())
    monkeypatch.setattr(flaps, "term", lambda lab: lab.terms)
    return Electing


def flapping(lab: FakeLab, down: float, times: int | None = None) -> Flapping:
    names = [node.name for node in lab.topology.cluster_managers]
    return Flapping(down, 0.01, times, {name: [on_node("node.pause", "node.resume", name)] for name in names})


def test_each_time_whoever_is_elected_then_is_taken_away_and_let_back(electing: type[Electing]) -> None:
    lab = electing()
    worker = flapping(lab, 0.3, times=3)
    worker.start(lab)
    assert wait_until(lambda: len(worker.changes) == 3, 30)
    assert FlapEvidence(worker, 0.3).in_effect(lab).proven
    look = worker.stop()
    assert look.proven, look
    assert [taken for taken, _ in worker.changes] == ["a-cm", "b-cm", "a-cm"]
    assert lab.effects == set() and lab.terms == 4


def test_a_leader_that_nobody_replaces_proves_nothing(electing: type[Electing]) -> None:
    lab = electing(stubborn=True)
    worker = flapping(lab, 0.05, times=1)
    worker.start(lab)
    assert wait_until(lambda: worker.missed == ["a-cm"], 30)
    assert not FlapEvidence(worker, 0.05).in_effect(lab).proven
    assert not worker.stop().proven
    assert lab.effects == set()


def test_stopping_in_the_middle_lets_the_one_that_is_away_back(electing: type[Electing]) -> None:
    lab = electing()
    worker = flapping(lab, 3600)
    worker.start(lab)
    assert wait_until(lambda: bool(worker.changes), 30)
    assert ("paused", "a-cm") in lab.effects
    assert worker.stop().proven and lab.effects == set()


@pytest.mark.parametrize("how", ["pause", "isolate"])
def test_the_inverses_for_every_candidate_are_there_before_anything_is_done(how: str) -> None:
    lab = FakeLab("3az-tuned")
    flap = params("leader_flap", down="8s", up="8s", how=how)
    assert isinstance(flap, module.LeaderFlap)
    fault = ready("f1", flap, lab, seed=1, elected=None)
    for both in fault.moves:
        both.move.apply(lab)
    assert lab.effects == set()  # the worker does it, and may die in between
    for manager in lab.topology.cluster_managers:
        for both in process.taken(flap, manager.name, lab.topology):
            both.move.apply(lab)
    assert lab.effects
    for both in reversed(fault.moves):
        assert both.inverse is not None
        both.inverse.apply(lab)
    assert lab.effects == set()


def test_one_leader_is_to_be_seen_for_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    lab, clock, led = FakeLab(), [100.0], {"leader": "a-cm"}
    monkeypatch.setattr(module, "leaders", lambda lab: {n.name: led["leader"] for n in lab.topology.nodes})
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    evidence = FlapEvidence(flapping(lab, 1), 1)
    assert not evidence.gone(lab).proven
    clock[0] += 2
    led["leader"] = "b-cm"  # another one: the wait begins again
    assert not evidence.gone(lab).proven
    clock[0] += 2
    assert not evidence.gone(lab).proven
    clock[0] += 2
    assert evidence.gone(lab).proven


# ---- storms ---------------------------------------------------------------------------------------------


class Slow(FakeCluster):
    """Answers nothing until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()

    def client(self, node: str, *, timeout: float = 5.0) -> FakeClient:
        lab = self

        class Waiting(FakeClient):
            def request(self, *arguments: Any, **more: Any) -> tuple[int, Any]:
                lab.release.wait(30)
                return 200, {}

        return Waiting(self, node)


def test_a_storm_sends_each_number_once_to_the_nodes_in_turn() -> None:
    lab = FakeCluster()
    storm = Storm(200.0, ["a-cm", "b-cm"], lambda k: [Ask("GET", f"/{k}")])
    storm.start(lab)
    assert wait_until(lambda: storm.tally().well >= 20, 30)
    storm.stop()
    sent = [(int(path[1:]), node) for node, _, path in lab.requests]
    numbers = [number for number, _ in sent]
    assert len(numbers) == len(set(numbers)) == storm.tally().sent
    assert all(node == ["a-cm", "b-cm"][number % 2] for number, node in sent)


def test_a_storm_that_the_cluster_does_not_take_is_none() -> None:
    lab = Slow()
    storm = Storm(50.0, ["a-cm"], lambda k: [Ask("GET", "/")])
    storm.start(lab)
    assert wait_until(lambda: storm.tally().seconds > 1 and not storm.probe().ok, 60)
    lab.release.set()
    assert not storm.stop().proven


def test_answers_that_are_none_are_told() -> None:
    lab = FakeCluster()
    lab.dead = {"a-cm"}
    storm = Storm(50.0, ["a-cm"], lambda k: [Ask("GET", "/")])
    storm.start(lab)
    assert wait_until(lambda: storm.tally().sent > 3, 30)
    storm.stop()
    tally = storm.tally()
    assert tally.well == 0 and "ReadTimeoutError" in str(tally.refusal)


def test_a_storm_whose_answers_are_late_has_more_of_them_under_way_and_keeps_its_rate() -> None:
    """As tasks that a cluster manager throttles: a request waits for seconds, and the next ones leave in time."""
    lab = Slow()
    storm = Storm(50.0, ["a-cm"], lambda k: [Ask("GET", "/")], timeout=20.0, senders=40)
    storm.start(lab)
    try:
        assert wait_until(lambda: storm.tally().sent >= 30, 60)
        assert storm.tally().well == 0 and storm._senders > 4
        assert wait_until(lambda: storm.tally().sent == 40, 60), "and never more than that"
    finally:
        lab.release.set()
        storm.stop()
    assert storm._senders == 40


def test_a_storm_that_is_answered_at_once_needs_few_senders() -> None:
    storm = Storm(100.0, ["a-cm"], lambda k: [Ask("GET", "/")], senders=200)
    storm.start(FakeCluster())
    assert wait_until(lambda: storm.tally().well >= 50, 60)
    storm.stop()
    assert storm._senders < 50


def test_a_request_of_a_storm_of_tasks_is_over_before_its_undo_can_be() -> None:
    """The node that was asked sends a throttled task again after 2.5 s at the earliest. A timeout that is over by then
    allows one such retry, within the timeout and 5 s; a longer one allows another, later."""
    seconds = [float(each) for each in re.findall(r"timeout=(\d+)s", rest.PATIENCE)]
    assert len(seconds) == 2 and max(seconds) < 2.5
    assert max(seconds) + 5.0 < rest.QUIET_SECONDS and 2 * max(seconds) + 5.0 <= rest.ANSWER_SECONDS
    fault = ready("f1", params("task_storm", rate="40/s"), FakeCluster(), seed=1, elected=None)
    assert isinstance(fault.worker, Storm)
    assert fault.worker._timeout == rest.ANSWER_SECONDS and fault.worker._most >= 40 * (max(seconds) + 3)


class Counted(StormEvidence):
    SECONDS = 0.0

    def __init__(self, storm: Storm, grows: bool) -> None:
        super().__init__(storm, "things")
        self._grows = grows

    def counted(self, lab: Any) -> int | None:
        return self._storm.tally().well + 1 if self._grows else 7


@pytest.mark.parametrize("grows", [True, False], ids=["the cluster counts them", "the cluster counts nothing"])
def test_a_storm_is_proven_by_what_the_cluster_counts(grows: bool) -> None:
    lab = FakeCluster()
    storm = Storm(200.0, ["a-cm"], lambda k: [Ask("GET", "/")])
    evidence = Counted(storm, grows)
    storm.start(lab)
    try:
        assert wait_until(lambda: storm.tally().well > 0, 30)
        evidence.in_effect(lab)  # where the measurement begins
        since = storm.tally().well
        assert wait_until(lambda: storm.tally().well > since + 20, 30)
        assert evidence.in_effect(lab).proven is grows
    finally:
        storm.stop()


class Throttling(FakeCluster):
    """``made``: the mapping's version; ``refused``: tasks that each leader threw out, by its process."""

    def __init__(self) -> None:
        super().__init__()
        self.made, self.refused = 1, {"a-cm": 0, "b-cm": 0}

    def answer(self, node: str, method: str, path: str, body: Any) -> tuple[int, Any]:
        if path.startswith("/_cluster/state/metadata/"):
            return 200, {"metadata": {"indices": {f"{STORM}f1-0": {"mapping_version": self.made}}}}
        if path == module.THROTTLED:
            tasks = {"put-mapping": self.refused[node], "create-index": 99} if self.refused[node] else {}
            stats = {"stats": {"throttled_tasks_per_task_type": tasks}}
            return 200, {"nodes": {"x": {"cluster_manager_throttling": stats}}}
        return super().answer(node, method, path, body)


class Quiet(Storm):
    """Says what was sent and answered as it is told, and sends nothing."""

    now = Tally()

    def tally(self) -> Tally:
        return self.now


@pytest.mark.parametrize(
    ("made", "refused", "well", "proven"),
    [
        pytest.param(120, 0, 120, True, id="carried out"),
        pytest.param(2, 118, 2, True, id="mostly refused"),
        pytest.param(0, 120, 0, True, id="all refused, none answered yet"),
        pytest.param(0, 0, 0, False, id="none arrives"),
        pytest.param(0, 0, 120, False, id="answered well by something else"),
    ],
)
def test_tasks_that_the_cluster_manager_refuses_arrived_at_it(made: int, refused: int, well: int, proven: bool) -> None:
    lab = Throttling()
    storm = Quiet(40.0, ["a-data"], lambda k: [])
    evidence = module.TaskEvidence(storm, f"{STORM}f1-", "mappings")
    storm.now = Tally(1.0, 40, 0)
    assert not evidence.in_effect(lab).proven
    lab.made, lab.refused["a-cm"] = 1 + made, refused
    storm.now = Tally(4.0, 160, well)
    assert evidence.in_effect(lab).proven is proven


@pytest.mark.parametrize(("counts", "proven"), [([7, 7], True), ([7, 90], False), ([None, None], False)])
def test_a_storm_whose_end_the_cluster_does_not_tell_is_not_proven_to_be_gone(
    monkeypatch: pytest.MonkeyPatch, counts: list[int | None], proven: bool
) -> None:
    left = iter(counts)

    class Told(StormEvidence):
        def counted(self, lab: Any) -> int | None:
            return next(left)

    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    look = Told(Quiet(20.0, ["a-cm"], lambda k: []), "requests").gone(FakeCluster())
    assert look.proven is proven
    assert ("no answer" in {probe.measured for probe in look.probes}) is (counts[0] is None)


@pytest.mark.parametrize(
    ("there", "what", "hides", "proven"),
    [
        pytest.param(False, "mappings", False, True, id="the index whose mapping it updates is gone"),
        pytest.param(True, "mappings", False, False, id="that index is there, and its mapping is not told"),
        pytest.param(False, "mappings", True, False, id="a new manager hides it"),
        pytest.param(False, "indices", False, False, id="the state's version is not told"),
    ],
)
def test_what_a_storm_of_mappings_counts_goes_with_its_index(
    monkeypatch: pytest.MonkeyPatch, there: bool, what: str, hides: bool, proven: bool
) -> None:
    lab = FakeCluster()
    if there:
        lab.indices[f"{STORM}f1-0"] = {}
    if hides:
        lab.forgetful = range(10**6)
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    monkeypatch.setattr(module, "TOLD_SECONDS", 0.05)
    evidence = module.TaskEvidence(Quiet(20.0, ["a-data"], lambda k: []), f"{STORM}f1-", what)
    monkeypatch.setattr(evidence, "_made", lambda lab, leader: None)
    monkeypatch.setattr(evidence, "left", lambda lab: [])
    assert evidence.gone(lab).proven is proven


def test_what_one_leader_refused_stands_when_another_is_elected() -> None:
    lab = Throttling()
    evidence = module.TaskEvidence(Quiet(40.0, ["a-data"], lambda k: []), f"{STORM}f1-", "mappings")
    lab.refused["a-cm"] = 30
    assert evidence.counted(lab) == 31
    lab.leader, lab.refused["b-cm"] = "b-cm", 5
    assert evidence.counted(lab) == 36
    lab.leader, lab.refused["a-cm"] = "a-cm", 0
    assert evidence.counted(lab) == 36, "a process that began anew has counted nothing"


def test_a_task_storm_of_indices_keeps_few_of_them() -> None:
    lab = FakeCluster()
    fault = ready("f1", params("task_storm", rate="100/s", what="indices"), lab, seed=1, elected=None)
    assert isinstance(fault.worker, Storm)
    made: set[str] = set()
    for k in range(30):
        for method, path, _ in fault.worker._requests(k):
            name = path[1:].partition("?")[0]
            assert name.startswith(f"{STORM}f1-")
            if method == "PUT":
                made.add(name)
            else:
                assert method == "DELETE"
                made.remove(name)
        assert len(made) <= rest.KEPT


def test_an_admin_storm_asks_every_node_for_everything() -> None:
    lab = FakeCluster()
    storm = ready(
        "f1", params("admin_storm", rate="10/s", requests=["state", "health", "cat"]), lab, seed=1, elected=None
    )
    assert isinstance(storm.worker, Storm)
    nodes = storm.worker.nodes
    assert nodes == ["a-cm", "b-cm", "c-cm"]
    asked = {(nodes[k % 3], storm.worker._requests(k)[0].path) for k in range(9)}
    assert asked == {(node, ADMIN[name]) for node in nodes for name in ("state", "health", "cat")}


def test_the_nodes_own_counts_leave_out_the_questions_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = FakeCluster()
    counts = {"nodes": {"id": {"rest_actions": {"nodes_usage_action": 40, "cluster_state_action": 5, "cat": 2}}}}
    monkeypatch.setattr(lab, "answer", lambda *_: (200, counts))
    evidence = module.AdminEvidence(Storm(1.0, ["a-cm", "b-cm"], lambda k: []), "requests")
    assert evidence.counted(lab) == 14
    monkeypatch.setattr(lab, "answer", lambda *_: (503, {"error": "no"}))
    assert evidence.counted(lab) is None
    assert not evidence.in_effect(lab).proven


def test_the_indices_of_a_storm_go_even_those_that_still_wait_in_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = FakeCluster()
    lab.indices |= {f"{STORM}f1-{n}": {} for n in range(120)} | {f"{STORM}f10-0": {}}
    lab.pending = [f"create-index [{STORM}f1-120], cause [api]"]
    monkeypatch.setattr(rest, "QUIET_SECONDS", 0.0)
    real = lab.answer

    def answer(node: str, method: str, path: str, body: Any) -> tuple[int, Any]:
        said = real(node, method, path, body)
        if lab.pending and path.startswith("/_cluster/pending_tasks"):  # seen once, then it comes up
            lab.pending = []
            lab.indices[f"{STORM}f1-120"] = {}
        return said

    monkeypatch.setattr(lab, "answer", answer)
    delete_indices(lab, f"{STORM}f1-")
    assert set(lab.indices) == {"chaos", f"{STORM}f10-0"}
    assert not any("*" in path for _, method, path in lab.requests if method == "DELETE")
    delete_indices(lab, f"{STORM}f1-")  # again, and for a storm that never began
