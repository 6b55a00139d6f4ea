"""What is made of a game day when it is over: its page, what stays to do, and node_exporter's file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from chaos.base.errors import ChaosError, Exit
from chaos.commands.common import say
from chaos.definitions.gameday import GameDay
from chaos.gamedays import page, record, summary, textfile
from chaos.gamedays.day import OUTCOMES
from chaos.statistics.judged import judged
from chaos.statistics.store import is_run

CHANGING = ("drill", "experiment.begin", "hold")
"""Kinds of lines of a day that has begun to change its cluster."""
LOCKED = "lock.taken"
"""Kind of the line of a day that has taken the lock of its cluster: it alone may be under way."""
EARLIER = 12
"""Days before it that the page looks back on."""


def begun(day: GameDay, at: float) -> None:
    """A day is held from ``at`` on, in seconds since the epoch; node_exporter is told. Never fails it."""
    if day.written.textfile is not None:
        facts = textfile.Facts(day.name, day.written.target, running=True, started=at)
        if (why := textfile.write(Path(day.written.textfile), facts)) is not None:
            say(f"  {why}")


def resumed(day: GameDay) -> None:
    """A hold was cleared; node_exporter is told where its file is on this machine, and the day is not under
    way here: it tells how it ends itself. Never fails."""
    if _is_under_way(Path(day.written.record) / day.name):
        return
    if day.written.textfile is not None and (file := Path(day.written.textfile)).is_file():
        facts = textfile.Facts(day.name, day.written.target, running=False, held=False)
        if (why := textfile.write(file, facts)) is not None:
            say(f"  {why}")


def finish(day: GameDay, folder: Path, code: Exit, on_hold: bool | None = None) -> None:
    """Never fails a day: what cannot be made is said. ``on_hold``: whether a person must clear something before a day
    may begin again; None: that is not known. While another firing is under way on this
    machine, node_exporter is told by that one."""
    lines = record.read(folder / record.FILE)
    runs = [_run(line, folder) for line in lines if line["kind"] in ("experiment.end", "drill") and line.get("folder")]
    earlier = list(islice(_earlier(folder), EARLIER))
    shown = [_beside(line, folder) for line in lines]
    try:
        made = page.page(shown, runs, earlier, head=record.head_of(folder / record.FILE))
        (folder / "gameday.html").write_text(made, encoding="utf-8")
        (folder / "todo.md").write_text(page.markdown(shown, runs), encoding="utf-8")
    except (OSError, ValueError, KeyError, TypeError) as error:
        say(f"  the page could not be made: {type(error).__name__}: {error}")
    theirs = summary.already(lines) or (not summary.of(lines, LOCKED) and _is_under_way(folder.parent))
    if day.written.textfile is not None and not theirs:
        begun = any(line["kind"] in CHANGING for line in lines)
        outcome = OUTCOMES[code] if code is not Exit.USAGE and begun else None
        facts = textfile.Facts(
            day.name,
            day.written.target,
            running=False,
            started=_epoch(lines[0]) if begun else None,
            ended=_epoch(lines[-1]) if begun else None,
            outcome=outcome,
            held=on_hold,
        )
        if (why := textfile.write(Path(day.written.textfile), facts)) is not None:
            say(f"  {why}")


def _is_under_way(folder: Path) -> bool:
    """Whether a process of this machine holds the day whose records are below ``folder``: it has the lock, and writes
    into its record still."""
    for file in folder.glob(f"*/{record.FILE}"):
        if record.is_open(file):
            with suppress(ChaosError):
                if summary.of(record.read(file), LOCKED):
                    return True
    return False


def _earlier(folder: Path) -> Iterator[list[dict[str, Any]]]:
    """Records of days beside this one, the newest first."""
    for file in sorted(folder.parent.glob(f"*/{record.FILE}"), reverse=True):
        if file.parent == folder:
            continue
        try:
            lines = record.read(file)
        except ChaosError as error:
            say(f"  not looked back on: {error.message}")
            continue
        if summary.is_day(lines):
            yield lines


def _epoch(line: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(str(line["t"])).timestamp()


def _beside(line: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A run's folder as the page, which lies beside it, can link to it."""
    given = line.get("folder")
    return {**line, "folder": os.path.relpath(str(given), folder)} if given else dict(line)


def _run(line: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    where = Path(str(line["folder"]))
    try:
        found: Any = judged(where) if is_run(where) else None
    except (ChaosError, OSError, ValueError, KeyError, TypeError, AttributeError):
        found = None
    return {"folder": os.path.relpath(where, folder), "findings": found}
