"""Faults of want and restarts: their moves, and evidence that must not believe what did not happen."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from fakes import UNLIMITED, FakeLab
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from chaos.base.errors import FaultError, LabError, Lacking
from chaos.base.paths import ProcessIdentity
from chaos.faults import unread
from chaos.faults.fault import Fault
from chaos.faults.kinds import node as nodes_of
from chaos.faults.kinds import resources
from chaos.faults.kinds.resources import HeapEvidence, SqueezeEvidence, StarvationEvidence
from chaos.faults.moves import Move, Reversible
from chaos.faults.unread import Heap, UnreadAnswers, fitting
from chaos.providers import process
from chaos.registry import FAULTS, ready
from chaos.targets.labs.processes import wait_until
from chaos.targets.limits import MemoryUse, ProcessorUse

NODES = ("a-data",)


@pytest.fixture
def lab() -> FakeLab:
    return FakeLab()


def built(lab: FakeLab, kind: str, **parameters: Any) -> Fault:
    return ready("f1", FAULTS[kind].model_validate(parameters), lab, seed=1, elected="a-cm")


# ------------------------------------------------------------------------------------------------ moves


@pytest.mark.parametrize(
    ("kind", "resource", "parameters"),
    [
        ("node.cpu_starvation", "cpu", {"quota": "10%"}),
        ("node.page_cache_squeeze", "memory", {"headroom": "16MiB"}),
        ("node.out_of_memory", "memory", {}),
    ],
)
def test_the_undo_brings_back_the_value_that_was_there(
    lab: FakeLab, kind: str, resource: str, parameters: dict[str, Any]
) -> None:
    lab.limited["c-data", resource] = {"limit": "of somebody else"}
    fault = built(lab, kind, target="zone c", **parameters)
    assert fault.targets == ("c-cm", "c-data") and fault.claims == {"the process of c-cm", "the process of c-data"}
    assert fault.read is not None
    moves = fault.read(lab)  # as the lifecycle does it, before the ledger is written
    for both in moves:
        both.move.apply(lab)
    assert {effect[1] for effect in lab.effects if effect[0] == "limited"} == {"c-cm", "c-data"}
    for both in reversed(moves):
        assert both.inverse is not None
        both.inverse.apply(lab)
    assert lab.effects == set()
    assert lab.limits("c-data", resource) == {"limit": "of somebody else"}
    assert lab.limits("c-cm", resource) == UNLIMITED


def test_a_node_that_was_killed_for_memory_starts_after_its_limit_is_back(lab: FakeLab) -> None:
    fault = built(lab, "node.out_of_memory", target="node c-data")
    undone = [both.inverse.operation for both in reversed(fault.moves) if both.inverse]
    assert undone == ["limits.restore", "node.start"]


def test_a_lab_without_groups_refuses_with_its_reason(lab: FakeLab) -> None:
    lab.missing |= {"cpu": "no control groups", "hosts": "they are ours", "helpers": "they are no pods"}
    lab.limits = lambda *_: pytest.fail("it has none")  # type: ignore[method-assign]
    with pytest.raises(Lacking, match=r"node\.cpu_starvation: no control groups"):
        built(lab, "node.cpu_starvation", target="node c-data", quota="10%")


@pytest.mark.parametrize(
    ("kind", "parameters", "says"),
    [
        ("node.cpu_starvation", {"quota": "0.5%"}, "1% or more"),
        ("node.cpu_starvation", {"quota": "0%"}, "more than zero"),
        ("node.page_cache_squeeze", {"headroom": "1MiB"}, "8MiB or more"),
        ("node.heap_pressure", {"above": "99%"}, "40% to 90%"),
        ("network.slicer", {"links": "to zone c", "size": "4B", "delay": "10ms"}, "16B or more"),
        ("network.slow_close", {"links": "to zone c", "delay": "90ms"}, "100ms or more"),
        ("network.latency", {"links": "to zone c", "delay": "19ms"}, "20.0 ms or more"),
        ("network.latency", {"links": "to zone c", "delay": "300ms", "jitter": "290ms"}, "20.0 ms or more"),
        ("zone.slowness", {"zone": "c", "delay": "9ms"}, "20.0 ms or more"),
        ("network.slicer", {"links": "to zone c", "size": "64B", "delay": "4ms"}, "5ms or more"),
        ("network.loss", {"links": "to zone c", "share": "0%"}, "more than zero"),
        ("network.loss", {"links": "to zone c", "share": "1.9%"}, "2% or more"),
        ("network.loss", {"links": "to zone c", "share": "91%"}, "90% at most, or network.drop"),
        ("network.loss", {"links": "to zone c", "share": "9%", "flap": {"down": "14s", "up": "4s"}}, "15s or more"),
    ],
)
def test_what_cannot_work_is_refused_in_words(kind: str, parameters: dict[str, Any], says: str) -> None:
    given = parameters if kind.startswith(("network", "zone")) else {"target": "node c-data", **parameters}
    with pytest.raises(ValueError, match=says):
        FAULTS[kind].model_validate(given)


def test_the_index_of_heap_pressure_is_on_the_target_where_that_holds_data(lab: FakeLab) -> None:
    for target, on in (("node a-data", ["a-data"]), ("node a-cm", []), ("zone a", ["a-data"])):
        *_, both = built(lab, "node.heap_pressure", target=target).moves
        assert {**both.move.arguments, "owner": ""} == {"index": "oschaos-pressure-f1", "on": on, "owner": ""}
        assert both.inverse is not None and both.inverse.operation == "index.delete"
        assert both.inverse.arguments == {"index": "oschaos-pressure-f1", "owner": both.move.arguments["owner"]}


def test_a_node_that_dies_of_heap_pressure_is_started_again_where_the_lab_can(
    lab: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = built(lab, "node.heap_pressure", target="zone a")
    assert fault.read is not None

    def inverses(moves: Iterable[Reversible]) -> list[tuple[str, str | None]]:
        return [(m.inverse.operation, m.inverse.arguments.get("node")) for m in moves if m.inverse]

    starts = [("node.start", "a-cm"), ("node.start", "a-data")]
    assert sorted(inverses(fault.read(lab))[:-1]) == starts and inverses(fault.read(lab))[-1][0] == "index.delete"
    assert {both.move.operation for both in fault.moves[:-1]} == {"nothing"}
    monkeypatch.setattr(lab, "lacks", lambda need: "no processes here" if need == "process" else None)
    assert inverses(fault.read(lab)) == [("index.delete", None)]


# -------------------------------------------------------------------------------------- processor time


class Busy(FakeLab):
    """Uses so much of a processor; ``throttled`` periods a second."""

    def __init__(self, share: float, throttled: float) -> None:
        super().__init__()
        self._share, self._throttled = share, throttled

    def processor_use(self, node: str) -> ProcessorUse:
        now = time.monotonic()
        return ProcessorUse(self._share * now, int(self._throttled * now * 1000))


def test_the_time_that_an_answer_needs_to_get_here_is_none_in_which_processors_were_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host says when it looked: a tenth of a processor stays one, however late the second answer comes."""
    monkeypatch.setattr(resources, "ask_in_parallel", lambda *_: 1)
    answers = iter([ProcessorUse(5.0, 0, at=1000.0), ProcessorUse(5.2, 9, at=1002.0)] * 2)

    class Far(FakeLab):
        def processor_use(self, node: str) -> ProcessorUse:
            return next(answers)

    assert StarvationEvidence(NODES, 0.1).in_effect(Far()).proven
    assert not StarvationEvidence(NODES, 0.08).in_effect(Far()).proven


@pytest.mark.parametrize(
    ("share", "throttled", "proven"), [(0.1, 1, True), (0.114, 1, True), (0.14, 1, False), (0.1, 0, False)]
)
def test_a_quota_is_believed_when_no_more_is_used_and_some_was_refused(
    monkeypatch: pytest.MonkeyPatch, share: float, throttled: float, proven: bool
) -> None:
    monkeypatch.setattr(resources, "ask_in_parallel", lambda *_: time.sleep(0.05) or 1)
    evidence = StarvationEvidence(NODES, 0.1)
    assert evidence.in_effect(Busy(share, throttled)).proven is proven


@pytest.mark.parametrize(
    ("limit", "throttled", "answered", "proven"),
    [(UNLIMITED, 0, 1, True), ({"limit": "0.1"}, 0, 1, False), (UNLIMITED, 1, 1, False), (UNLIMITED, 0, 0, False)],
)
def test_a_quota_is_gone_when_the_old_value_is_there_and_nothing_is_throttled(
    monkeypatch: pytest.MonkeyPatch, limit: dict[str, str], throttled: int, answered: int, proven: bool
) -> None:
    monkeypatch.setattr(resources, "ask_in_parallel", lambda *_: time.sleep(0.05) or answered)
    evidence, lab = StarvationEvidence(NODES, 0.1), Busy(0.9, throttled)
    evidence._values = {"a-data": UNLIMITED}
    lab.limited["a-data", "cpu"] = limit
    assert evidence.gone(lab).proven is proven


# ----------------------------------------------------------------------------------------------- memory


class Reader(FakeLab):
    """Each reading costs so many failures at the limit, kills, and major faults of the second time."""

    def __init__(self, failures: int, again: int, kills: int = 0) -> None:
        super().__init__()
        self.use = MemoryUse(100, 0, 0, 0)
        self._failures, self._again, self._kills = failures, again, kills

    def memory_use(self, node: str) -> MemoryUse:
        return self.use

    def read_files(self, node: str, size: int) -> int:
        use = self.use
        self.use = replace(use, failures=use.failures + self._failures, oom_kills=use.oom_kills + self._kills)
        return self._again


@pytest.mark.parametrize(
    ("failures", "again", "kills", "roomy", "squeezed"),
    [
        (0, 0, 0, True, False),
        (5, 90, 0, False, True),
        (5, 0, 0, False, False),
        (0, 90, 0, False, False),
        (5, 90, 1, False, False),
    ],
)
def test_a_squeeze_is_failures_and_faults_and_nobody_killed(
    failures: int, again: int, kills: int, roomy: bool, squeezed: bool
) -> None:
    evidence = SqueezeEvidence(NODES, {"a-data": 1 << 20})
    calm = Reader(0, 0)
    assert evidence.before(calm).proven
    lab = Reader(failures, again, kills)
    assert evidence.in_effect(lab).proven is squeezed
    assert evidence.before(lab).proven is roomy
    assert evidence.gone(lab).proven is roomy


def test_a_dead_node_is_no_squeezed_one() -> None:
    evidence = SqueezeEvidence(NODES, {"a-data": 1 << 20})
    assert evidence.before(Reader(0, 0)).proven
    lab = Reader(5, 90)
    lab.states["a-data"] = None
    assert not evidence.in_effect(lab).proven


@pytest.mark.parametrize(("kills", "state", "proven"), [(1, None, True), (0, None, False), (1, "S", False)])
def test_a_kill_for_want_of_memory_is_the_kernels_word_and_a_process_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, kills: int, state: str | None, proven: bool
) -> None:
    """A node that died of something else is none."""
    from chaos.faults.probes import Echo, Reply

    gone = Echo(Reply.REFUSED if state is None else Reply.ANSWERED, 0.001)
    monkeypatch.setattr("chaos.faults.evidence.direct", lambda *_: gone)
    evidence, lab = resources.KilledForMemoryEvidence(NODES), Reader(0, 0)
    evidence._kills = {"a-data": 0}
    lab.use = replace(lab.use, oom_kills=kills)
    lab.states["a-data"] = state
    assert evidence.in_effect(lab).proven is proven


# ------------------------------------------------------------------------------------------------- heap


MOMENTS = count()


def heap(used: float, tripped: int = 0, *, most: int = 1000, measured: int | None = None) -> Heap:
    node = {
        "jvm": {
            "timestamp": next(MOMENTS) if measured is None else measured,
            "mem": {"heap_used_in_bytes": used * most, "heap_max_in_bytes": most},
            "gc": {"collectors": {"old": {"collection_count": 0}}},
        },
        "breakers": {"parent": {"tripped": tripped}, "request": {"tripped": 0}},
    }
    return Heap({"nodes": {"id": node}})


@pytest.mark.parametrize(
    ("now", "unread", "proven"),
    [
        (heap(0.8), 3, True),
        (heap(0.5, tripped=2), 3, True),
        (heap(0.5), 3, False),
        (heap(0.8), 0, False),  # full of something else
        (None, 3, False),  # silence proves nothing
    ],
)
def test_heap_pressure_is_a_full_heap_that_our_answers_fill(
    lab: FakeLab, monkeypatch: pytest.MonkeyPatch, now: Heap | None, unread: int, proven: bool
) -> None:
    worker = UnreadAnswers(NODES, "i", 0.75)
    evidence = HeapEvidence(worker, NODES, 0.75)
    monkeypatch.setattr(Heap, "of", lambda *_: heap(0.3, tripped=1) if now is None or now.tripped == 0 else heap(0.3))
    assert evidence.before(lab).proven
    evidence._before["a-data"] = heap(0.3)
    worker.unread["a-data"] = unread
    monkeypatch.setattr(Heap, "of", lambda *_: now)
    assert evidence.in_effect(lab).proven is proven
    lab.states["a-data"] = None
    look = evidence.in_effect(lab)
    assert not look.proven and "gone" in {probe.measured for probe in look.probes}  # its end is no pressure


@pytest.mark.parametrize(("used", "answered", "proven"), [(0.4, 5, True), (0.8, 5, False), (0.4, 0, False)])
def test_heap_pressure_is_gone_when_there_is_room_and_requests_are_answered(
    lab: FakeLab, monkeypatch: pytest.MonkeyPatch, used: float, answered: int, proven: bool
) -> None:
    monkeypatch.setattr(Heap, "of", lambda *_: heap(used))
    monkeypatch.setattr(resources, "ask_in_parallel", lambda *_: answered)
    assert HeapEvidence(UnreadAnswers(NODES, "i", 0.75), NODES, 0.75).gone(lab).proven is proven


class Answering(FakeLab):
    """A server that begins each answer with these bytes, one connection after the other."""

    def __init__(self, *answers: bytes) -> None:
        super().__init__()
        self.answers = list(answers)
        self.far: list[socket.socket] = []

    def connect(self, host: str, address: tuple[str, int], timeout: float) -> socket.socket:
        near, far = socket.socketpair()
        near.settimeout(timeout)
        far.sendall(self.answers.pop(0))
        self.far.append(far)
        return near


def test_answers_are_left_unread_until_the_heap_is_full_and_let_go_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = Answering(*[b"HTTP/1.1 200 OK\r\n"] * 2, b"HTTP/1.1 429 Too Many", *[b"HTTP/1.1 200 OK\r\n"] * 9)
    worker = UnreadAnswers(NODES, "i", 0.75)
    monkeypatch.setattr(Heap, "of", lambda *_: heap(0.3 + 0.15 * worker.unread["a-data"]))
    worker.start(lab)
    try:
        assert wait_until(lambda: worker.unread["a-data"] == 3, 20)
        assert worker.refused["a-data"] == 1 and len(lab.far) == 4
    finally:
        worker.stop()
    for far in lab.far:
        far.settimeout(5)
        with suppress(ConnectionResetError):  # an end too: what was not read is thrown away
            while far.recv(65536):
                pass
        far.close()


def test_no_search_is_sent_on_a_figure_from_before_the_last_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node measures once a second. Filled faster than that, a real one of 256 MiB died of it."""
    lab = Answering(*[b"HTTP/1.1 200 OK\r\n"] * 9)
    worker = UnreadAnswers(NODES, "i", 0.75)
    moments, searches = iter([1, 1, 2, 2, 2, 3, 3, 4]), []

    def asked(*_: object) -> Heap:
        searches.append(len(lab.far))
        return heap(0.74, measured=next(moments, 4))

    monkeypatch.setattr(Heap, "of", asked)
    monkeypatch.setattr(unread, "ASK_AGAIN_SECONDS", 0.01)
    worker.start(lab)
    try:
        assert wait_until(lambda: len(searches) > 20, 10)
    finally:
        worker.stop()
        for far in lab.far:
            far.close()
    assert searches[:9] == [0, 0, 0, 1, 1, 1, 2, 2, 3] and set(searches[9:]) == {3}


@given(
    used=st.floats(0.05, 0.899),
    above=st.floats(0.4, 0.9),
    most=st.integers(64, 32 * 1024).map(lambda mebi: mebi * resources.MEBI),
)
def test_what_is_asked_for_between_two_measures_fits_below_the_aim(used: float, above: float, most: int) -> None:
    now = heap(used, most=most)
    documents, answers = fitting(now, above)
    made = documents * unread.DOCUMENT_BYTES
    assert 1 <= documents <= unread.DOCUMENTS and answers >= 1
    assert made <= max(unread.DOCUMENT_BYTES, most / 64)
    assert answers == 1 or now.used * most + unread.COPIES * answers * made <= above * most * (1 + 1e-9)


# --------------------------------------------------------------------------------------------- restarts


def test_a_rolling_restart_awaits_each_node_before_the_next_and_managers_come_last(lab: FakeLab) -> None:
    fault = built(lab, "node.restart", target="zone c")
    assert fault.in_order
    assert [(m.move.operation, m.move.arguments["node"]) for m in fault.moves] == [
        (step, node) for node in ("c-data", "c-cm") for step in ("node.stop", "node.start", "node.await")
    ]
    assert {m.move.arguments["nodes"] for m in fault.moves if m.move.operation == "node.await"} == {6}
    # whenever the runner died, a node that does not run is started
    assert [m.inverse.operation for m in fault.moves if m.inverse] == ["node.start", "nothing", "nothing"] * 2


def test_a_restart_of_all_at_once_is_by_host_and_may_be_a_kill(lab: FakeLab) -> None:
    fault = built(lab, "node.restart", target="zone c", rolling=False, how="kill")
    assert not fault.in_order and fault.moves[0].move.operation == "node.kill"


def test_a_rollout_by_readiness_does_not_wait_for_green(lab: FakeLab) -> None:
    fault = built(lab, "node.restart", target="role data", rolling={"wait": "ready"})
    assert fault.in_order and "without waiting for green" in fault.says
    assert [(m.move.operation, m.move.arguments["node"]) for m in fault.moves] == [
        (step, node) for node in ("a-data", "b-data", "c-data") for step in ("node.stop", "node.start", "node.ready")
    ]


def test_nodes_that_end_at_once_come_back_one_after_the_other(lab: FakeLab) -> None:
    fault = built(lab, "node.restart", target="role data", rolling=False, start="in_order", wait="ready", how="kill")
    first, *then = fault.moves
    nodes = ["a-data", "b-data", "c-data"]
    assert fault.in_order and first.move.arguments == {"nodes": nodes, "how": "kill"}
    assert first.inverse is not None and first.inverse.operation == "zone.return"
    assert first.inverse.arguments["groups"] == [[node] for node in nodes]
    assert [(m.move.operation, m.move.arguments["node"]) for m in then] == [
        (step, node) for node in nodes for step in ("node.start", "node.ready")
    ]


def test_all_are_ended_and_an_end_that_fails_is_told(lab: FakeLab) -> None:
    def fails(call: str, arguments: tuple[str, ...]) -> None:
        if arguments == ("a-data",):
            raise FaultError("a-data does not end")

    lab.fails = fails
    with pytest.raises(FaultError, match="a-data does not end"):
        Move("nodes.end", {"nodes": ["a-data", "b-data"], "how": "kill"}).apply(lab)  # type: ignore[arg-type]
    assert any(call[-1] == "b-data" for call in lab.calls), "the others are ended all the same"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rolling": {"wait": "soon"}}, "green"),
        ({"rolling": {"until": "green"}}, "expected true, false or {wait: ready}"),
        ({"rolling": {"wait": "ready"}, "wait": "green"}, "no other wait beside it"),
        ({"start": "in_order"}, "expected rolling: false beside it"),
    ],
)
def test_a_restart_that_cannot_be_meant(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(says)):
        nodes_of.NodeRestart.model_validate({"target": "role data", **given})


def test_a_restart_as_it_always_was_has_no_word_of_this_in_its_normal_form() -> None:
    plainly = nodes_of.NodeRestart.model_validate({"target": "role data", "as": "upgrade"}).model_dump(mode="json")
    assert not {"wait", "start"} & set(plainly) and plainly["as"] == "upgrade" and plainly["rolling"] is True
    blind = nodes_of.NodeRestart.model_validate({"target": "role data", "rolling": {"wait": "ready"}})
    assert (blind.model_dump(mode="json")["rolling"], blind.model_dump(mode="json")["wait"]) == (True, "ready")


@pytest.mark.parametrize("ready", [True, False])
def test_ready_is_to_answer_and_to_know_a_cluster_manager(ready: bool) -> None:
    lab = SimpleNamespace(client=lambda node, timeout: Told({"discovered_cluster_manager": ready}))
    move = Move("node.ready", {"node": "a-data", "seconds": 0.3})
    if ready:
        move.apply(lab)  # type: ignore[arg-type]
    else:
        with pytest.raises(LabError, match="a-data is not ready after"):
            move.apply(lab)  # type: ignore[arg-type]


@pytest.mark.parametrize(("again", "proven"), [(False, False), (True, True)])
def test_a_restart_is_another_process_and_a_member(
    lab: FakeLab, monkeypatch: pytest.MonkeyPatch, again: bool, proven: bool
) -> None:
    from chaos.faults.evidence import Look

    monkeypatch.setattr(nodes_of.RestartEvidence, "_running", lambda *_: Look(True, "they run"))
    evidence = nodes_of.RestartEvidence(["a-data"])
    assert evidence.before(lab).proven
    if again:
        lab.pids["a-data"] += 1
    assert evidence.in_effect(lab).proven is proven
    assert lab.identity("a-data") == ProcessIdentity(1000 + again, 1, "boot")


class Told:
    """A client that gives these answers, the last one for ever."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def request(self, method: str, path: str) -> tuple[int, Any]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return 200, answer

    def close(self) -> None:
        return


def health(status: str = "green", nodes: int = 6, led: bool = True) -> dict[str, Any]:
    return {"status": status, "number_of_nodes": nodes, "discovered_cluster_manager": led}


def test_a_node_is_awaited_until_its_own_view_is_whole_and_green(lab: FakeLab) -> None:
    told = Told(urllib3.exceptions.HTTPError("refused"), health(nodes=1), health("yellow"), health(led=False), health())
    lab.client = lambda *_, **__: told  # type: ignore[attr-defined]
    process._await_back(lab, "a-data", 6, 30.0)
    assert told.answers == [health()]


def test_a_node_that_does_not_come_back_fails_the_restart(lab: FakeLab) -> None:
    lab.client = lambda *_, **__: Told(health("yellow"))  # type: ignore[attr-defined]
    with pytest.raises(LabError, match=r"a-data is not back .*'yellow'"):
        process._await_back(lab, "a-data", 6, 0.2)


def test_the_probes_own_demand_is_counted_by_what_was_answered(lab: FakeLab) -> None:
    lock = threading.Lock()
    asked = SimpleNamespace(count=0)

    class Client(Told):
        def request(self, method: str, path: str) -> tuple[int, Any]:
            with lock:
                asked.count += 1
            if asked.count % 2:
                raise urllib3.exceptions.HTTPError("slow")
            return 200, {}

    lab.client = lambda *_, **__: Client(None)  # type: ignore[attr-defined]
    answered = resources.ask_in_parallel(lab, "a-data", 0.05)
    assert 0 < answered < asked.count
