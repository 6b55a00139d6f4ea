"""The watch over pauses, with real processes: what is written, and which pauses are ours."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import Log

from chaos.base.paths import ProcessIdentity
from chaos.checks.instrument import Permission
from chaos.history import pauses
from chaos.instruments.process_pauses import Pauses
from chaos.targets.labs.base import BaseLab, Resident
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until


class Few:
    """What the watch asks of a lab, of processes of this machine; the lab's own methods where there is one."""

    was_to_pause = BaseLab.was_to_pause
    _pausing, _resumed = BaseLab._pausing, BaseLab._resumed
    paused = LocalLab.paused

    def __init__(self) -> None:
        self.wiring = {name: SimpleNamespace(zone=name[0]) for name in ("a-data", "b-data")}
        self.there: dict[str, subprocess.Popen[bytes]] = {}
        self.what = "node"
        self.broken = False
        self._to_pause: dict[ProcessIdentity, float | None] = {}

    def start(self, name: str) -> int:
        self.there[name] = subprocess.Popen(["/bin/sleep", "600"])
        return self.there[name].pid

    def identity(self, node: str) -> ProcessIdentity:
        return ProcessIdentity.of(self.there[node].pid)

    def residents(self) -> list[Resident]:
        if self.broken:
            raise OSError("no /proc")
        return [Resident(self.what, name, self.identity(name)) for name in self.there]


class Recorder(Log):
    """With the moments of events."""

    def write(self, kind: str, *, t: int | None = None, **fields: Any) -> int:
        self.events.append({"kind": kind, "t": t, **fields})
        return t or 0


@pytest.fixture
def lab() -> Iterator[Few]:
    few = Few()
    few.start("a-data")
    few.start("b-data")
    yield few
    for process in few.there.values():
        process.kill()
        process.wait()


@pytest.fixture
def events() -> Recorder:
    return Recorder()


@pytest.fixture
def watch(lab: Few, events: Recorder) -> Iterator[Pauses]:
    made = Pauses(lab, events)  # type: ignore[arg-type]
    made.start()
    assert wait_until(lambda: len(made._running) == len(lab.there), 30), "a pause is since the last look without it"
    yield made
    made.stop()


def paused(events: Recorder, number: int = 1) -> dict[str, Any]:
    assert wait_until(lambda: len(events.of(pauses.PAUSED)) >= number, 30)
    return events.of(pauses.PAUSED)[number - 1]


def test_a_paused_process_is_named_and_its_resumption_written(lab: Few, events: Recorder, watch: Pauses) -> None:
    pid = lab.there["a-data"].pid
    os.kill(pid, signal.SIGSTOP)
    found = paused(events)
    assert (found["what"], found["name"], found["zone"], found["pid"]) == ("node", "a-data", "a", pid)
    assert found["state"] == "T" and found["commanded"] is False and "during" not in found
    assert found["since"] < found["t"], "the last look that did not find it"
    os.kill(pid, signal.SIGCONT)
    assert wait_until(lambda: bool(events.of(pauses.RESUMED)), 30)
    assert events.of(pauses.RESUMED)[0] | {"t": 0} == {
        "kind": pauses.RESUMED,
        "t": 0,
        "what": "node",
        "name": "a-data",
        "pid": pid,
        "gone": False,
    }
    watch.stop()
    assert len(events.of(pauses.PAUSED)) == 1, "it is told once, and the other one was not paused"
    assert events.of(pauses.UNWATCHED) == [{"kind": pauses.UNWATCHED, "t": None, "because": None}]
    assert events.of(pauses.WATCHED)[0]["processes"] == ["node a-data", "node b-data"]


def test_a_pause_of_ours_is_commanded_from_its_signal_to_its_undo(lab: Few, events: Recorder, watch: Pauses) -> None:
    pid = lab.there["a-data"].pid
    for number in range(1, 4):
        lab._pausing("a-data")
        os.kill(pid, signal.SIGSTOP)
        assert paused(events, number)["commanded"] is True
        os.kill(pid, signal.SIGCONT)
        lab._resumed("a-data")
        assert wait_until(lambda n=number: len(events.of(pauses.RESUMED)) == n, 30)  # type: ignore[misc]
    os.kill(pid, signal.SIGSTOP)
    assert paused(events, 4)["commanded"] is False, "after its undo it is an external actor's"


def test_a_look_that_began_before_the_undo_takes_the_pause_for_ours(lab: Few) -> None:
    lab._pausing("a-data")
    (resident, _) = lab.residents()
    before = time.monotonic()
    lab._resumed("a-data")
    assert lab.was_to_pause(resident, before)
    assert not lab.was_to_pause(resident, time.monotonic() + 1)


def test_a_process_that_ends_while_paused_has_not_resumed(lab: Few, events: Recorder, watch: Pauses) -> None:
    process = lab.there["a-data"]
    os.kill(process.pid, signal.SIGSTOP)
    paused(events)
    process.kill()
    process.wait()
    lab.start("a-data")
    assert wait_until(lambda: bool(events.of(pauses.RESUMED)), 30)
    gone = events.of(pauses.RESUMED)[0]
    assert gone["pid"] == process.pid


def test_a_permitted_pause_names_the_phase(lab: Few, events: Recorder, watch: Pauses) -> None:
    watch.permit(Permission("by hand", ("a-data",)))
    os.kill(lab.there["a-data"].pid, signal.SIGSTOP)
    assert paused(events)["during"] == "by hand"
    os.kill(lab.there["b-data"].pid, signal.SIGSTOP)
    assert "during" not in paused(events, 2), "of another node"


def test_toxiproxies_are_not_watched(lab: Few, events: Recorder) -> None:
    lab.what = "toxiproxy"
    watch = Pauses(lab, events)  # type: ignore[arg-type]
    os.kill(lab.there["a-data"].pid, signal.SIGSTOP)
    watch._look()
    assert events.events == []


def test_a_watch_that_breaks_says_so(lab: Few, events: Recorder, watch: Pauses) -> None:
    lab.broken = True
    assert wait_until(lambda: not watch._thread.is_alive(), 30)
    watch.stop()
    assert events.of(pauses.UNWATCHED)[0]["because"] == "OSError: no /proc"
