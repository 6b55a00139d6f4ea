"""On a cluster that is not ours an abort stops the load first, and says how long all of it took."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import a_fault
from making import block
from unit.run.test_execution import execution

from chaos.base.errors import Aborted
from chaos.load.driver import DriverError


class FakeDriver:
    """Hears in which thread it is told to cease, and what was undone by then."""

    def __init__(self) -> None:
        self.alive, self.heard = True, list[tuple[str, int]]()
        self.made: Any = None

    def cease(self) -> None:
        self.heard.append((threading.current_thread().name, len(self.made.lab.effects)))


def there(tmp_path: Path, driver: Any) -> Any:
    made = execution(tmp_path, there=SimpleNamespace(), driver=driver)
    driver.made = made
    made.stop.at_once = made.cease
    return made


def test_whoever_asks_for_the_stop_stops_the_load_and_all_is_undone_after_it(tmp_path: Path) -> None:
    driver = FakeDriver()
    made = there(tmp_path, driver)
    assert made.lifecycle.inject(a_fault("f1", [block("a-data", "c-data")]))
    made.ledger.intend("a1", [block("a-data", "b-data")])[0].move.apply(made.lab)
    guard = threading.Thread(target=made.stop.ask, args=("others suffer", "foreign"), name="guards")
    guard.start()
    guard.join()
    assert driver.heard == [("guards", 2)], "at once, and before anything is undone"
    made.outcome = "aborted"
    made.undo()
    assert made.lab.effects == set() and len(driver.heard) == 1
    (_,), (undone,) = made.events.of("load.ceased"), made.events.of("abort.undone")
    assert made.stop.at <= made.ceased_at <= made.stop.at + undone["seconds"] * 1e9
    assert undone["faults"] == ["f1"] and undone["actions"] == 1 and undone["complete"]


def test_a_driver_that_cannot_be_told_keeps_nobody_from_undoing(tmp_path: Path) -> None:
    driver = FakeDriver()
    made = there(tmp_path, driver)
    driver.cease = lambda: (_ for _ in ()).throw(DriverError("gone"))  # type: ignore[method-assign]
    made.stop.ask("others suffer", "foreign")
    made.outcome = "aborted"
    made.undo()
    assert made.stop.asked and made.events.of("load.ceased") == []


def test_on_a_lab_the_load_goes_on_to_the_end_of_the_undo(tmp_path: Path) -> None:
    driver = FakeDriver()
    made = execution(tmp_path, driver=driver)
    driver.made, made.outcome = made, "aborted"
    made.stop.ask("the file is there", "stop_file")
    made.undo()
    assert driver.heard == [] and made.events.of("load.ceased") == []


@pytest.mark.parametrize("outcome", ["aborted", "error"])
def test_whatever_ends_a_run_there_without_a_stop_ends_its_load_before_the_undo(tmp_path: Path, outcome: str) -> None:
    driver = FakeDriver()
    made = there(tmp_path, driver)
    made.outcome = outcome
    made.undo()
    assert len(driver.heard) == 1 and len(made.events.of("load.ceased")) == 1


def test_a_driver_that_was_told_to_cease_before_it_began_is_no_error(tmp_path: Path) -> None:
    made = there(tmp_path, FakeDriver())
    made.stop.ask("others suffer", "foreign")
    with pytest.raises(Aborted), made.unless_stopped():
        raise DriverError("the load driver did not get ready")
    calm = there(tmp_path, FakeDriver())
    with pytest.raises(DriverError), calm.unless_stopped():
        raise DriverError("the load driver did not get ready")
