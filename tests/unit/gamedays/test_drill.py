"""The drill's own stop file, told apart from a person's in each way in which a person may make one."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from chaos.gamedays import drill
from chaos.gamedays.drill import Drill, dead_taken_away, drill_of, left, made, taken_away

NOW = datetime(2026, 11, 26, 10, 0, tzinfo=UTC)
LOCK = "abcdefghijklmnopqrstuv/.opensearch-chaos"


@pytest.fixture
def stop(tmp_path: Path) -> Path:
    return tmp_path / "staging.stop"


@pytest.fixture
def ours() -> Drill:
    return drill_of("staging", LOCK, NOW)


def test_it_is_made_known_and_taken_away(stop: Path, ours: Drill) -> None:
    made(stop, ours)
    assert left(stop) == ours and "game day staging" in str(ours) and "2026-11-26T10:00:00Z" in str(ours)
    assert stat.S_IMODE(stop.stat().st_mode) == 0o666, "anybody may make it theirs by a touch"
    assert taken_away(stop, ours) and list(stop.parent.iterdir()) == []
    assert not taken_away(stop, ours) and left(stop) is None


BY_PERSONS: list[tuple[str, Callable[[Path], object]]] = [
    ("touched", lambda stop: subprocess.run(["touch", stop], check=True)),
    ("written anew", lambda stop: stop.write_text("an incident\n")),
    ("emptied", lambda stop: stop.write_text("")),
    ("removed and touched", lambda stop: (stop.unlink(), stop.touch())),
    ("a folder", lambda stop: (stop.unlink(), stop.mkdir())),
    ("a link to one of a drill", lambda stop: (stop.rename(f"{stop}.moved"), stop.symlink_to(f"{stop}.moved"))),
    ("a link to nothing", lambda stop: (stop.unlink(), stop.symlink_to("nowhere"))),
    ("a pipe", lambda stop: (stop.unlink(), os.mkfifo(stop))),
    ("a copy", lambda stop: (shutil.copy(stop, f"{stop}.copy"), os.replace(f"{stop}.copy", stop))),
    ("something else of that time", lambda stop: (stop.write_text("{}"), os.utime(stop, (0, drill.WRITTEN)))),
    ("no JSON of that time", lambda stop: (stop.write_text("[" * 9999), os.utime(stop, (0, drill.WRITTEN)))),
    ("numbers of that time", lambda stop: numbers(stop)),
]


def numbers(stop: Path) -> None:
    stop.write_text(stop.read_text().replace('"staging"', "7"))
    os.utime(stop, (0, drill.WRITTEN))


@pytest.mark.parametrize(("what", "by_person"), BY_PERSONS, ids=[each[0] for each in BY_PERSONS])
def test_one_of_a_person_stays(stop: Path, ours: Drill, what: str, by_person: Callable[[Path], object]) -> None:
    made(stop, ours)
    by_person(stop)
    assert left(stop) is None
    assert not taken_away(stop, ours) and dead_taken_away(stop, LOCK) is None
    assert os.path.lexists(stop)


def test_where_a_person_was_first_none_is_made(stop: Path, ours: Drill) -> None:
    stop.touch()
    with pytest.raises(FileExistsError):
        made(stop, ours)
    assert stop.read_text() == "" and list(stop.parent.iterdir()) == [stop]


def test_one_that_is_touched_while_it_is_taken_away_is_put_back(
    stop: Path, ours: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(stop, ours)
    rename = Path.rename

    def touched(path: Path, to: Path) -> Path:
        path.touch()
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", touched)
    assert not taken_away(stop, ours)
    assert stop.is_file() and left(stop) is None and list(stop.parent.iterdir()) == [stop]


def test_one_that_a_person_makes_while_it_is_taken_away_stays(
    stop: Path, ours: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(stop, ours)
    rename = Path.rename

    def made_anew(path: Path, to: Path) -> Path:
        moved = rename(path, to)
        path.touch()
        return moved

    monkeypatch.setattr(Path, "rename", made_anew)
    assert taken_away(stop, ours)
    assert stop.read_text() == "" and list(stop.parent.iterdir()) == [stop]


def test_one_of_another_drill_stays(stop: Path, ours: Drill) -> None:
    """A runner that was frozen in its drill takes nothing of the day that came after it."""
    later = drill_of("staging", LOCK, NOW)
    made(stop, later)
    assert not taken_away(stop, ours) and left(stop) == later


def test_only_under_the_lock_of_its_day_it_is_a_dead_one_s(stop: Path, ours: Drill) -> None:
    for other in ("another-cluster/.opensearch-chaos", "abcdefghijklmnopqrstuv/.other-notes", ""):
        made(stop, ours)
        assert dead_taken_away(stop, other) is None and left(stop) == ours
        stop.unlink()
    made(stop, replace(ours, gameday="another-file-for-the-same-cluster"))
    assert str(dead_taken_away(stop, LOCK)).startswith("the drill of game day another-file")
    assert not stop.exists() and dead_taken_away(stop, LOCK) is None


def test_where_it_cannot_be_taken_away_it_stays_a_drill_s(
    stop: Path, ours: Drill, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(stop, ours)

    def refuses(path: Path, to: Path) -> Path:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "rename", refuses)
    assert dead_taken_away(stop, LOCK) is None and left(stop) == ours
