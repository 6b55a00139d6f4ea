"""The watch over this machine's disks, on a small file system of its own that a foreign file fills."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeLab

from chaos.base.errors import LabError
from chaos.history import disks as kinds
from chaos.instruments.disks import Disks, blocked
from chaos.observe import disks
from chaos.observe.disks import Place, scarce

MIB = 2**20


class Events:
    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []

    def write(self, kind: str, t: int | None = None, **fields: Any) -> None:
        self.written.append({"kind": kind, **fields})

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.written if event["kind"] == kind]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB, mounted for the test alone."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a file system")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_a_foreign_file_fills_is_named_once(small: Path) -> None:
    events, told = Events(), []
    watch = Disks(events, lambda: [Place("the record", small, 4 * MIB, "make room")], lambda: False, told.append)
    watch.start()
    assert not told
    (small / "foreign").write_bytes(bytes(6 * MIB))
    watch.look()
    watch.look()
    watch.stop()
    assert told == [f"the disk of {small} (the record) has 2 MiB free, and 4 MiB are needed: make room"]
    (place,) = events.of(kinds.WATCHED)[0]["places"]
    assert (place["path"], place["need"], place["size"]) == (str(small), 4 * MIB, 8 * MIB)
    free = [event["free"][str(small)] // MIB for event in events.of(kinds.FREE)]
    assert free == [8, 2, 2]
    assert events.of(kinds.UNWATCHED)[0]["because"] is None


def test_an_error_on_such_a_disk_names_it(small: Path) -> None:
    place = Place("data of the lab's nodes", small, 4 * MIB, "make room there")
    assert scarce([place]) is None
    (small / "foreign").write_bytes(bytes(6 * MIB))
    assert str(scarce([place])).startswith(f"the disk of {small} (data of the lab's nodes) has 2 MiB free")
    assert scarce([Place("gone", small / "no" / "such", 1)]) is None


def test_a_disk_is_watched_once_for_what_needs_most_of_it(small: Path, tmp_path: Path) -> None:
    some = [Place("a", small, 1), Place("b", small, 5), Place("c", small, 3), Place("d", tmp_path, 2)]
    assert [(place.what, place.need) for place in disks._once(some)] == [("b", 5), ("d", 2)]


def test_a_block_of_the_index_and_its_end_are_written_down() -> None:
    answers: list[Any] = [False, True, LabError("no answer"), True, False]

    def asks() -> bool:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    events = Events()
    watch = Disks(events, list, asks, lambda _: None)
    for _ in range(5):
        watch._ask()
    assert [event["blocked"] for event in events.of(kinds.BLOCKED)] == [True, False]
    first, last = (event["since"] for event in events.of(kinds.BLOCKED))
    assert first < last


def test_a_watch_that_breaks_says_so(tmp_path: Path) -> None:
    events = Events()
    watch = Disks(events, lambda: [Place("a", tmp_path / "x", 1)], lambda: False, lambda _: None)
    with pytest.raises(OSError, match="No such file"):
        watch.start()
    (tmp_path / "x").mkdir()
    watch.start()
    (tmp_path / "x").rmdir()
    watch.stop()
    assert "FileNotFoundError" in str(events.of(kinds.UNWATCHED)[0]["because"])


def test_the_setting_is_asked_of_the_load_s_index(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {kinds.BLOCK: "true"}
    older: dict[str, Any] = {}
    monkeypatch.setattr(
        "chaos.opensearch.administration.settings_of_each",
        lambda lab, name, timeout: {f"{name}-000001": older, f"{name}-000002": given},
    )
    lab: Any = FakeLab
    assert blocked(lab, "chaos")
    given[kinds.BLOCK] = "false"
    assert not blocked(lab, "chaos")
    given.clear()
    assert not blocked(lab, "chaos")
    older[kinds.BLOCK] = "true"
    assert blocked(lab, "chaos")


def test_an_error_of_a_lab_names_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    lab: Any = FakeLab
    monkeypatch.setattr(disks, "of_lab", lambda lab: [])
    with pytest.raises(LabError, match=r"^no complete green cluster$"), disks.named(lab):
        raise LabError("no complete green cluster")
    monkeypatch.setattr(disks, "scarce", lambda some: "the disk of /x (data) has 2 MiB free, and 4 MiB are needed")
    with pytest.raises(LabError) as raised, disks.named(lab):
        raise LabError("no complete green cluster", remedy="look at the log")
    assert str(raised.value) == (
        "no complete green cluster (the disk of /x (data) has 2 MiB free, and 4 MiB are needed); look at the log"
    )
