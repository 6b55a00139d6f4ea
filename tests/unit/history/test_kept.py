"""Whether the files that a run writes are still in its folder: each way in which they can be gone, and back again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from making import block

from chaos.faults.ledger import Ledger, standing
from chaos.history import EventWriter
from chaos.history.kept import Kept


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "reports" / "run"
    (folder / "history").mkdir(parents=True)
    for name in ("plan.json", "history/events.jsonl", "history/arrivals.bin"):
        (folder / name).write_text(f"{name}\n")
    return folder


@pytest.fixture
def kept(run: Path) -> Iterator[Kept]:
    made = Kept(run, ("plan.json", "ledger.jsonl"))
    assert made.look() is None
    yield made
    made.close()


def test_what_grows_and_what_is_new_is_fine(run: Path, kept: Kept) -> None:
    for _ in range(3):
        with open(run / "history" / "events.jsonl", "a") as file:
            file.write("more\n")
        assert kept.look() is None
    (run / "history" / ".readback.json.7.tmp").write_text("half")
    assert kept.look() is None
    os.replace(run / "history" / ".readback.json.7.tmp", run / "history" / "readback.json")
    (run / "ledger.jsonl").write_text("{}\n")
    assert kept.look() is None
    (run / "history" / "readback.json").unlink()
    assert kept.look() == f"{run}/history/readback.json was removed while the run went on"


def removed(run: Path) -> None:
    shutil.rmtree(run / "history")


def moved(run: Path) -> None:
    run.rename(run.with_name("kept-for-later"))


def one_moved(run: Path) -> None:
    (run / "history" / "arrivals.bin").rename(run / "arrivals.bin")


def copied(run: Path) -> None:
    """As an editor, sed -i or a restored copy does: the same content in another file."""
    shutil.copy(run / "history" / "events.jsonl", run / "x")
    os.replace(run / "x", run / "history" / "events.jsonl")


def cut(run: Path) -> None:
    os.truncate(run / "history" / "events.jsonl", 3)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (removed, "{run}/history/events.jsonl was removed while"),
        (moved, "{run}/plan.json was moved to {up}/kept-for-later/plan.json while"),
        (one_moved, "{run}/history/arrivals.bin was moved to {run}/arrivals.bin while"),
        (copied, "{run}/history/events.jsonl was replaced by another file while"),
        (cut, "{run}/history/events.jsonl was cut from 21 to 3 bytes while"),
    ],
)
def test_every_way_in_which_a_record_is_lost_is_said(
    run: Path, kept: Kept, change: Callable[[Path], None], says: str
) -> None:
    assert kept.look() is None
    change(run)
    assert str(kept.look()).startswith(says.format(run=run, up=run.parent))


def test_a_folder_that_cannot_be_written_any_more_is_said(
    run: Path, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write into every folder but one of a file system that is read only, so the answer is made up."""
    monkeypatch.setattr(os, "access", lambda path, mode: path != run / "history")
    assert kept.look() == f"{run}/history cannot be written any more"


@pytest.mark.parametrize("change", [removed, moved, one_moved])
def test_what_was_lost_is_put_back_with_what_was_written_since(
    run: Path, kept: Kept, change: Callable[[Path], None]
) -> None:
    with open(run / "history" / "arrivals.bin", "a") as driver:
        change(run)
        assert kept.look() is not None
        driver.write("written by a process that does not know\n")
        driver.flush()
        kept.put_back()
    text = (run / "history" / "arrivals.bin").read_text()
    assert text == "history/arrivals.bin\nwritten by a process that does not know\n"
    assert (run / "plan.json").read_text() == "plan.json\n"


def test_what_somebody_put_in_its_place_is_kept_beside_it(run: Path, kept: Kept) -> None:
    (run / "history" / "events.jsonl").unlink()
    (run / "history" / "events.jsonl").write_text("another's\n")
    assert kept.look() is not None
    kept.put_back()
    assert (run / "history" / "events.jsonl").read_text() == "history/events.jsonl\n"
    assert (run / "history" / "events.jsonl.found").read_text() == "another's\n"


def test_a_writer_goes_on_where_its_file_is_put_back(tmp_path: Path) -> None:
    path = tmp_path / "run" / "history" / "events.jsonl"
    events = EventWriter(path)
    events.write("one")
    shutil.rmtree(tmp_path / "run")
    events.write("two")
    events.put_back()
    events.write("three")
    events.put_back()
    assert [line.partition('"kind":"')[2][:3] for line in path.read_text().splitlines()] == ["one", "two", "thr"]
    assert [file.name for file in path.parent.iterdir()] == ["events.jsonl"]
    events.close()


def test_a_ledger_without_its_file_still_knows_what_stands_and_is_found_by_others_when_it_is_back(
    tmp_path: Path,
) -> None:
    ledger = Ledger(tmp_path / "run" / "ledger.jsonl")
    first, second = (ledger.intend(name, [block("a-data", "c-data")])[0] for name in ("f1", "f2"))
    shutil.rmtree(tmp_path / "run")
    assert [each.fault for each in ledger.standing()] == ["f2", "f1"] and standing(ledger.path) == []
    ledger.note(second, "undone")
    assert [each.fault for each in ledger.standing()] == ["f1"]
    ledger.put_back()
    assert [each.fault for each in standing(ledger.path)] == ["f1"]
    ledger.note(first, "undone")
    assert standing(ledger.path) == ledger.standing() == []
    ledger.close()
