"""Runaway queries: what proves them, that undo ends them by their tasks and no others, and where they are refused."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import urllib3
from fake_cluster import FakeCluster

from chaos.base.errors import LabError
from chaos.base.waiting import wait_until
from chaos.faults import runaway
from chaos.faults.kinds.query import RunawayEvidence
from chaos.faults.moves import Move
from chaos.faults.runaway import Runaway, cancel, query, running
from chaos.providers import rest
from chaos.registry import FAULTS, ready
from chaos.targets.existing.offered import NOT_YET

KIND = FAULTS["query.runaway"]
INDEX = "oschaos-runaway-f1"


class Searched(FakeCluster):
    """Nodes that search until they are told to stop. ``tasks``: id → (node, index)."""

    def __init__(self) -> None:
        super().__init__("3az")
        self.tasks: dict[str, tuple[str, str]] = {}
        self.cancelled: list[str] = []
        self.deaf: set[str] = set()
        """Nodes that do not cancel."""
        self.lock = threading.Lock()
        self.next = 0
        self.ended = threading.Condition()

    def begin(self, node: str, index: str) -> str:
        with self.lock:
            self.next += 1
            task = f"{node}:{self.next}"
            self.tasks[task] = node, index
        return task

    def answer(self, node: str, method: str, path: str, given: Any) -> tuple[int, Any]:
        if path.startswith("/_tasks?"):
            if node in self.dead:
                raise urllib3.exceptions.ReadTimeoutError(None, path, "no answer")  # type: ignore[arg-type]
            with self.lock:
                mine = {t: {"description": f"indices[{i}], x"} for t, (n, i) in self.tasks.items() if n == node}
            return 200, {"nodes": {"x": {"tasks": mine}} if mine else {}}
        if path.endswith("/_cancel"):
            task = path.split("/")[2]
            self.cancelled.append(task)
            with self.ended:
                if node not in self.deaf:
                    self.tasks.pop(task, None)
                self.ended.notify_all()
            return 200, {}
        if path.split("?")[0].endswith("/_search"):
            task = self.begin(node, path.split("/")[1])
            with self.ended:
                self.ended.wait_for(lambda: task not in self.tasks, 20)
            return 500, {}
        return super().answer(node, method, path, given)


@pytest.mark.parametrize("example", KIND.examples)
def test_every_example_is_fine_and_can_be_undone(example: dict[str, Any]) -> None:
    lab = Searched()
    made = KIND.model_validate(example)
    assert made.check(lab.topology) == []
    fault = ready("f1", made, lab, seed=1, elected=None)
    assert [Move.from_json(both.inverse.to_json()).operation for both in fault.moves] == [
        "index.delete",
        "searches.cancel",
    ]
    assert fault.in_order, "last in first out: searches are cancelled before their index goes"
    assert isinstance(fault.worker, Runaway) and fault.worker.index == INDEX
    assert fault.worker.every == made.every  # type: ignore[attr-defined]


def test_a_query_is_bounded_within_what_painless_lets_run() -> None:
    script = query(900_000)["query"]["bool"]["filter"]["script"]["script"]  # type: ignore[index]
    assert script["params"]["rounds"] == 900_000 < 1_000_000
    with pytest.raises(ValueError, match="900000"):
        KIND.model_validate({"rounds": 1_000_000})


def test_so_many_run_at_a_time_are_proven_by_their_tasks_and_end_with_the_fault() -> None:
    lab = Searched()
    strange = lab.begin("a-data", "chaos")
    worker = Runaway(("a-data", "b-data"), INDEX, 4, 1000)
    evidence = RunawayEvidence(worker)
    assert evidence.before(lab).proven and not evidence.in_effect(lab).proven  # type: ignore[arg-type]
    worker.start(lab)  # type: ignore[arg-type]
    try:
        assert wait_until(lambda: len(lab.tasks) == 5, 10)
        assert evidence.in_effect(lab).proven and not evidence.before(lab).proven  # type: ignore[arg-type]
        assert not evidence.gone(lab).proven  # type: ignore[arg-type]
    finally:
        look = worker.stop()
    assert look is not None and look.probes[0].measured == "4 with 500"
    assert set(lab.tasks) == {strange} and strange not in lab.cancelled, "a search of others is let be"
    assert evidence.gone(lab).proven  # type: ignore[arg-type]
    lab.indices[INDEX] = {}
    assert not evidence.gone(lab).proven, "its index is left"  # type: ignore[arg-type]


def test_an_answered_search_is_sent_again() -> None:
    lab = Searched()
    worker = Runaway(("a-data",), INDEX, 1, 1000)
    worker.start(lab)  # type: ignore[arg-type]
    try:
        assert wait_until(lambda: len(lab.tasks) == 1, 10)
        cancel(lab, INDEX)  # somebody ends it
        assert wait_until(lambda: lab.next >= 2, 10)
    finally:
        worker.stop()


def test_with_an_interval_one_is_sent_after_the_other_until_so_many_run() -> None:
    lab = Searched()
    worker = Runaway(("a-data", "b-data"), INDEX, 3, 1000, every=0.2)
    worker.start(lab)  # type: ignore[arg-type]
    try:
        assert wait_until(lambda: len(lab.tasks) == 1, 10)
        assert RunawayEvidence(worker).in_effect(lab).proven, "one is enough"  # type: ignore[arg-type]
        assert wait_until(lambda: len(lab.tasks) == 3, 10)
    finally:
        look = worker.stop()
    assert lab.next == 3, "no more than that, though none was answered"
    assert look is not None and look.probes[0].measured == "3 with 500"


def test_turns_are_an_interval_apart_and_none_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Runaway(("a-data",), INDEX, 2, 1000, every=2.0)
    now = [100.0]
    monkeypatch.setattr(runaway.time, "monotonic", lambda: now[0])
    assert [worker._turn() for _ in range(3)] == [0.0, 2.0, 4.0]
    now[0] = 200.0
    assert [worker._turn() for _ in range(2)] == [0.0, 2.0], "what was not sent while all ran is not sent later"
    assert Runaway(("a-data",), INDEX, 2, 1000)._turn() == 0.0


def test_a_node_that_does_not_tell_proves_no_end() -> None:
    lab = Searched()
    lab.dead.add("b-data")
    evidence = RunawayEvidence(Runaway(("a-data", "b-data"), INDEX, 2, 1000))
    assert running(lab, "b-data", INDEX) is None
    found = evidence.gone(lab)  # type: ignore[arg-type]
    assert not found.proven and "1 of 2 nodes do not tell" in found.says


def test_what_a_runner_left_is_cancelled_by_its_index_and_what_goes_on_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = Searched()
    mine, strange = lab.begin("a-data", INDEX), lab.begin("a-data", "oschaos-runaway-f10")
    assert rest.cancel_searches(lab, INDEX) and not rest.cancel_searches(lab, INDEX)
    assert lab.cancelled == [mine] and set(lab.tasks) == {strange}
    lab.deaf.add("a-data")
    lab.begin("a-data", INDEX)
    monkeypatch.setattr(rest, "CANCEL_SECONDS", 0.1)
    with pytest.raises(LabError, match="1 searches of oschaos-runaway-f1 go on"):
        rest.cancel_searches(lab, INDEX)


def test_its_index_is_filled_in_bulks() -> None:
    lab = Searched()
    asked: list[str] = []

    class Filled(Searched):
        def answer(self, node: str, method: str, path: str, given: Any) -> tuple[int, Any]:
            asked.append(f"{method} {path}")
            return (200, {"errors": False}) if "_bulk" in path else super().answer(node, method, path, given)

    lab = Filled()
    rest._runaway_index(lab, INDEX, 2, owner="me")  # type: ignore[arg-type]
    assert asked.count(f"POST /{INDEX}/_bulk?refresh=true") == runaway.DOCUMENTS // rest.AT_ONCE
    assert lab.indices[INDEX]["index.number_of_replicas"] == 2


def test_it_is_refused_on_clusters_of_others() -> None:
    assert "not bounded" in NOT_YET["query.runaway"]
