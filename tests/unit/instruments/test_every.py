"""All instruments: each says what it is, is found by its folder, and what is published of them is current."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import ROOT

from chaos.base.errors import InvalidInput
from chaos.checks import instruments
from chaos.checks.instrument import Begins, Child, ClusterSight, Ends, Instrument, Observer
from chaos.run.instruments import Instruments


def test_each_file_of_the_folder_is_one() -> None:
    files = {file.stem for file in (ROOT / "chaos" / "instruments").glob("*.py")} - {"__init__"}
    found = [each.observe.__module__.rpartition(".")[2] for each in instruments.every()]
    assert sorted(found) == sorted(files) and len({each.name for each in instruments.every()}) == len(files)
    assert all(each.says for each in instruments.every())


def test_the_page_is_current() -> None:
    assert instruments.FILE.read_text() == instruments.markdown(), f"run {instruments.COMMAND}"


def test_no_two_write_the_same_file_or_begin_at_the_same_place() -> None:
    orders = [each.order for each in instruments.every()]
    assert len(set(orders)) == len(orders), "those of other packages come after ours"


class Told(Observer):
    """Writes down what it is told. ``fails``: what raises."""

    def __init__(self, name: str, order: list[str], fails: str = "") -> None:
        self.name, self.order, self.fails = name, order, fails

    def _tell(self, what: str) -> None:
        self.order.append(f"{self.name} {what}")
        if what == self.fails:
            raise OSError(self.name)

    def start(self) -> None:
        self._tell("starts")

    def stop(self, *, patient: bool = True) -> None:
        self._tell("stops")

    def add(self, child: Child) -> None:
        self._tell(f"watches {child.name}")


class Seeing(Told, ClusterSight):
    def children(self) -> list[Child]:
        return [Child("echo", "own", None, 1, lambda: None, lambda: False, Path("log"))]


def of(begins: Begins, ends: Ends) -> Instrument:
    return Instrument("told", "what it is told", lambda context: None, begins, ends)


def test_they_begin_and_end_at_their_moments_and_processes_of_each_are_watched_by_all() -> None:
    order: list[str] = []
    made: Any = [
        (of(Begins.FIRST, Ends.LAST), Told("a", order)),
        (of(Begins.INDEX, Ends.UNDO), Seeing("b", order)),
        (of(Begins.INDEX, Ends.LOAD), Told("c", order)),
    ]
    all_ = Instruments(made)
    all_.start(Begins.FIRST)
    assert order == ["a starts"]
    all_.start(Begins.INDEX)
    assert order[1:] == ["b starts", "a watches own", "b watches own", "c watches own", "c starts"]
    order.clear()
    for moment in (Ends.UNDO, Ends.LOAD, Ends.LAST):
        all_.stop(moment)
    assert order == ["b stops", "c stops", "a stops"]
    assert all_.provided(ClusterSight) is made[1][1] and Instruments().provided(ClusterSight) is None


def test_one_that_does_not_end_keeps_no_other_from_ending_and_is_told() -> None:
    order: list[str] = []
    made: Any = [(of(Begins.INDEX, Ends.LOAD), Told(name, order, fails="stops")) for name in "ab"]
    with pytest.raises(OSError, match=r"^a$"):
        Instruments(made).stop(Ends.LOAD)
    assert order == ["a stops", "b stops"]


def test_what_another_package_brings_and_is_none_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.base.plugins.brought", lambda group: [("thing", 7)])
    with pytest.raises(InvalidInput, match="'thing' brings 7, which is no instrument"):
        instruments.every.__wrapped__()
