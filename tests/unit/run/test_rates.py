"""Rates that change begin to right before the first phase, at a moment that drivers were told ahead."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fakes
import pytest
from unit.run.test_execution import execution

from chaos.base.errors import Aborted
from chaos.base.rates import ramp
from chaos.base.units import Duration
from chaos.definitions import Phase
from chaos.load.driver import DriverError
from chaos.run import phases

AHEAD_S = 0.2
GROWS = ramp(20, 60, 30)


class Log(fakes.Log):
    """With the moment of each event."""

    def write(self, kind: str, *, t: int | None = None, **fields: Any) -> int:
        self.events.append({"kind": kind, "t": time.monotonic_ns() if t is None else t, **fields})
        return 0


class FakeDriver:
    alive = True

    def __init__(self) -> None:
        self.status: dict[str, Any] = {}
        self.told: list[tuple[int, int]] = []

    def begin(self, at_ns: int) -> None:
        self.told.append((time.monotonic_ns(), at_ns))


def made(tmp_path: Path, driver: Any, changes: Any = GROWS) -> Any:
    load = SimpleNamespace(operations=(SimpleNamespace(varies=False), SimpleNamespace(varies=bool(changes))))
    found = execution(tmp_path, driver=driver, experiment=SimpleNamespace(load=load, phases=()), there=None)
    found.hold = lambda phase, began: "elapsed"
    found.look_step = lambda number: 0.0
    found.to_notice = lambda: ()
    found.tick = lambda says: found.stop.check()
    found.refuse_vanished = lambda: None
    return found


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "AHEAD_S", AHEAD_S)


def test_the_first_phase_begins_when_the_rates_do_and_no_later_phase_asks_again(tmp_path: Path) -> None:
    run = made(tmp_path, FakeDriver())
    run.events = Log()
    for number, name in enumerate(("healthy", "dead")):
        run.phase(number, Phase(name=name, duration=Duration(3)))
    ((told, at),) = run.driver.told
    assert told < at <= told + AHEAD_S * 1e9
    assert [kind for kind in run.events.kinds if kind in ("rates.begin", "phase.start")] == [
        "rates.begin",
        "phase.start",
        "phase.start",
    ]
    (began,), (first, _) = run.events.of("rates.begin"), run.events.of("phase.start")
    assert began["t"] == at <= first["t"]


def test_constant_rates_wait_for_nothing(tmp_path: Path) -> None:
    run = made(tmp_path, FakeDriver(), changes=())
    run.phase(0, Phase(name="healthy", duration=Duration(3)))
    assert run.driver.told == [] and run.events.of("rates.begin") == []


def test_a_stop_ends_the_wait_and_the_rates_never_began(tmp_path: Path) -> None:
    run = made(tmp_path, FakeDriver())
    run.tick = lambda says: run.stop.ask("the file is there", "stop_file") or run.stop.check()
    with pytest.raises(Aborted):
        run.phase(0, Phase(name="healthy", duration=Duration(3)))
    assert run.events.of("rates.begin") == [] and run.events.of("phase.start") == []


@pytest.mark.parametrize(("stopped", "error"), [(False, DriverError), (True, Aborted)])
def test_a_driver_that_is_gone_is_told_of(tmp_path: Path, stopped: bool, error: type[Exception]) -> None:
    run = made(tmp_path, FakeDriver())

    def begin(at_ns: int) -> None:
        if stopped:
            run.stop.ask("the file is there", "stop_file")
        raise DriverError("the load driver is gone")

    run.driver.begin = begin
    with pytest.raises(error):
        run.phase(0, Phase(name="healthy", duration=Duration(3)))
