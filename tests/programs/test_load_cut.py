"""A load that is on, against a stub, in a run without a cluster: what ends the load ends the phase."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from fakes import a_fault
from load_stub import serving
from making import block
from programs.test_driver import config as driven
from unit.run.test_execution import execution

from chaos.base.errors import Aborted, ChaosError
from chaos.base.units import Duration
from chaos.definitions.experiment import Phase
from chaos.faults.ledger import Ledger, standing
from chaos.faults.lifecycle import Lifecycle
from chaos.history import EventWriter
from chaos.load import driver as driving
from chaos.load.driver import Driver
from chaos.run import space


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if ctypes.CDLL(None).mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, b"size=16m"):
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("how", ["the disk fills up", "the driver stands still", "the driver is killed"])
def test_a_load_without_a_record_ends_the_phase_and_everything_is_undone(
    small: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(driving, "SILENT_SECONDS", 2.0)
    made = execution(small, folder=small)
    made.for_undo = space.Reserve(small, "undo", space.FOR_UNDO)
    made.events = EventWriter(small / "events.jsonl", made.broken)
    made.ledger = Ledger(small / "ledger.jsonl", made.broken)
    made.lifecycle = Lifecycle(made.lab, made.ledger, made.events, stopped=made.stop.was_asked)
    with serving() as server:
        made.driver = Driver(driven(small, server), small / "driver.log", made.driver_failed)
        try:
            made.driver.start()
            made.driver.go()
            assert made.lifecycle.inject(a_fault("f1", [block("a-data", "c-data")]))
            if how == "the disk fills up":
                with suppress(OSError), open(small / "filler", "wb", buffering=0) as filler:
                    while True:
                        filler.write(bytes(4096))
            else:
                os.kill(made.driver.pid, signal.SIGSTOP if "still" in how else signal.SIGKILL)
            with pytest.raises(ChaosError) as raised:
                made.hold(Phase(name="slow", duration=Duration(240)), time.monotonic())
            made.failed(str(raised.value))
            made.undo()
            assert made.driver.stop() is False and not made.driver.alive
        finally:
            made.driver.kill()
    says = {
        "the disk fills up": "the record cannot be written: ",
        "the driver stands still": "the load driver has given no sign of life for 2 s (its process is stopped)",
        "the driver is killed": "the load driver died: exit code -9",
    }[how]
    assert says in str(raised.value) and not isinstance(raised.value, Aborted)
    assert made.lab.effects == set() and standing(small / "ledger.jsonl") == []
    told = [json.loads(line) for line in (small / "events.jsonl").read_text().splitlines()]
    (undone,) = [event for event in told if event["kind"] == "abort.undone"]
    assert undone["faults"] == ["f1"] and undone["proven"] is True
    assert [event["says"] for event in told if event["kind"] == "error"] == [str(raised.value)]
