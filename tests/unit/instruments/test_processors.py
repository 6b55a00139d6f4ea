"""The watch over what runner, driver and nodes may use of the machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from chaos.history import processors as kinds
from chaos.instruments.processors import Processors, look, restricted
from chaos.run import plan
from chaos.targets.labs import usable
from chaos.targets.labs.usable import Usable

BOTH = frozenset({0, 1})


class Events:
    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []

    def write(self, kind: str, t: int | None = None, **fields: Any) -> None:
        self.written.append({"kind": kind, **fields})

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.written if event["kind"] == kind]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[int, Usable]:
    """Pid → what it may use, on a machine of two processors."""
    found: dict[int, Usable] = {}

    def of(pid: int) -> Usable:
        if pid not in found:
            raise PermissionError(pid)
        return found[pid]

    monkeypatch.setattr(usable, "online", lambda: BOTH)
    monkeypatch.setattr(usable, "of", of)
    return found


def test_sets_are_those_that_are_not_all(machine: dict[int, Usable]) -> None:
    some = {"a": Usable((BOTH,)), "b": Usable((frozenset({1}), BOTH)), "c": Usable((frozenset({0}),))}
    assert restricted(some, usable) == [[0], [1]]


def test_what_changes_is_written_down_once(machine: dict[int, Usable]) -> None:
    events, node = Events(), 1
    machine[os.getpid()] = machine[node] = Usable((BOTH,), BOTH)
    watch = Processors(events, lambda: {"a-data": node}, usable)
    watch.look()
    watch.look()
    machine[node] = Usable((frozenset({0}),), BOTH)
    watch.look()
    machine[node] = Usable((frozenset({0}),), frozenset({0}))
    watch.look()
    said = [(event["sets"], event["who"], event["unknown"]) for event in events.of(kinds.USABLE)]
    limits = {"sets": [[0]], "quota": None}
    assert said == [
        ([], {}, []),
        ([[0]], {"a-data": {**limits, "by": "affinity"}}, []),
        ([[0]], {"a-data": {**limits, "by": "cpuset"}}, []),
    ]
    assert watch.sets() == [[0]]


def test_who_cannot_be_looked_at_is_unknown_and_who_is_gone_is_not(machine: dict[int, Usable]) -> None:
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    found, unknown = look({"node": os.getpid(), "gone": gone.pid, "elsewhere": 0}, usable)
    assert (found, unknown) == ({}, ["elsewhere", "node"])


def test_a_quota_that_makes_somebody_wait_is_written_down(machine: dict[int, Usable], tmp_path: Path) -> None:
    events = Events()
    (tmp_path / "cpu.max").write_text("50000 100000")
    stat = tmp_path / "cpu.stat"
    stat.write_text("throttled_usec 100")
    machine[os.getpid()] = Usable((BOTH,), BOTH, (tmp_path,), 0.5)
    watch = Processors(events, dict, usable)
    watch.look()
    watch.look()
    assert not events.of(kinds.THROTTLED)
    stat.write_text("throttled_usec 400100")
    watch.look()
    (event,) = events.of(kinds.THROTTLED)
    assert event["groups"] == {str(tmp_path): {"seconds": 0.4, "who": ["runner"]}}
    assert event["since"] < event["until"]


def test_a_watch_that_breaks_says_so(machine: dict[int, Usable]) -> None:
    def broken() -> dict[str, int]:
        raise RuntimeError("no engine")

    events = Events()
    watch = Processors(events, broken, usable)
    watch.start()
    watch.stop()
    assert events.of(kinds.UNWATCHED)[0]["because"] == "RuntimeError: no engine"


def test_the_plan_names_what_the_runner_may_use(machine: dict[int, Usable]) -> None:
    machine[os.getpid()] = Usable((frozenset({1}),), BOTH, (), 0.5)
    assert plan._usable() == {"processors": [1], "of": 2, "quota": 0.5}
