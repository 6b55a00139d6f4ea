"""A document is rolled back after it was applied, or it is never applied: whichever thread comes first."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.faults.moves import Move
from chaos.fis_endpoint import commands as module
from chaos.fis_endpoint.commands import Commands, Invocation

PAUSE, RESUME = (Move(f"node.{verb}", {"node": "a-data"}).to_json() for verb in ("pause", "resume"))


class Slow:
    """Commands whose document pauses a node, which takes until ``gate`` opens; ``now`` is the clock."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.paused, self.begun, self.gate = 0.0, False, threading.Event(), threading.Event()
        lab: Any = SimpleNamespace()
        self.commands = Commands(lab, lab, folder, clock=lambda: self.now)
        nothing = SimpleNamespace(hold=lambda links: None, release=lambda links, without: None)
        self.commands.connectivity = nothing  # type: ignore[assignment]
        monkeypatch.setattr(module, "apply_moves", self.apply)
        monkeypatch.setattr(self.commands, "_invocation", self.invocation)

    def invocation(self, command: Any, instance: Any, flat: Any, now: float) -> Invocation:
        return Invocation(instance.id, "a-data", moves=[PAUSE], inverses=[RESUME], ends=now + 1.0, stands=True)

    def apply(self, lab: Any, moves: list[Move]) -> list[str]:
        for move in moves:
            if move.operation == "node.pause":
                self.begun.set()
                self.gate.wait(10)
            self.paused = move.operation == "node.pause"
        return []

    def send(self) -> module.Command:
        instance: Any = SimpleNamespace(id="i-1")
        return self.commands.send("AWSFIS-Run-CPU-Stress", {}, [instance])


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slow:
    return Slow(tmp_path, monkeypatch)


ROLLS_BACK = [lambda commands: commands.tick(), lambda commands: commands.cleared("i-1")]


@pytest.mark.parametrize("roll_back", ROLLS_BACK, ids=["when it is due", "when its instance stops"])
def test_what_is_due_while_it_is_being_applied_is_rolled_back_after_that(slow: Slow, roll_back: Any) -> None:
    command = slow.send()
    assert slow.begun.wait(10)
    slow.now = 2.0
    ending = threading.Thread(target=roll_back, args=(slow.commands,))
    ending.start()
    ending.join(0.2)
    slow.gate.set()
    ending.join(10)
    slow.commands.settled(command)
    assert not slow.paused and not command.invocations[0].stands
    assert command.status != "InProgress"
    slow.commands.close()


@pytest.mark.parametrize("roll_back", ROLLS_BACK, ids=["when it is due", "when its instance stops"])
def test_what_was_rolled_back_before_its_turn_is_not_applied(
    slow: Slow, roll_back: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[Any] = []
    monkeypatch.setattr(slow.commands._pool, "submit", lambda *what: waiting.append(what))
    slow.send()
    slow.now = 2.0
    roll_back(slow.commands)
    slow.gate.set()
    for work, *given in waiting:
        work(*given)
    assert not slow.paused
    slow.commands.close()
