"""What a drill of the kill switch writes, as the stop file or elsewhere, told apart from a person's.

It is in JSON whose drill it is, and it was last written at a moment that no ``touch`` leaves behind. Whoever touches it
or writes into it has made it a person's. One whose runner was killed stays; who holds the lock that its day held knows
that this day is dead, and takes it away.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from chaos.base.text import printable
from chaos.definitions.existing import Existing

FORMAT = "the drill of a game day's kill switch made this file"
WRITTEN = 946_684_800
"""Seconds since the epoch: 2000-01-01, when each was last written by its own account."""
MOST_BYTES = 4096


@dataclass(frozen=True)
class Drill:
    """Whose drill. ``lock``: which lock its day holds (:func:`lock_of`). ``at``: since when, UTC. ``nonce``: no two
    drills are the same."""

    gameday: str
    lock: str
    host: str
    at: str
    nonce: str

    def __str__(self) -> str:
        gameday, host, at = map(printable, (self.gameday, self.host, self.at))
        return f"the drill of game day {gameday} on {host} at {at}"


def drill_of(gameday: str, lock: str, now: datetime) -> Drill:
    """One that begins now, here."""
    return Drill(gameday, lock, socket.gethostname(), f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}", secrets.token_hex(8))


def lock_of(target: Existing) -> str:
    """Which lock the days of a target take: that of its cluster in this index."""
    return f"{target.written.identity.cluster_uuid}/{target.written.notes}"


def text(drill: Drill) -> str:
    """What it writes."""
    return json.dumps({"format": FORMAT, **asdict(drill)}, indent=1)


def read(text: str | bytes) -> Drill | None:
    """Whose drill has written this. None: none has."""
    try:
        said = json.loads(text)
        fields = {name: said[name] for name in Drill.__dataclass_fields__}
        if said["format"] != FORMAT or not all(isinstance(each, str) for each in fields.values()):
            return None
        return Drill(**fields)
    except (ValueError, RecursionError, LookupError, TypeError):
        return None


def made(path: Path, drill: Drill) -> None:
    """Make the stop file as a drill's, at once and as a whole. Anybody may touch it, and so make it a person's.

    Raises FileExistsError where one is there already, OSError where none can be made.
    """
    aside = _aside(path)
    try:
        with aside.open("x", encoding="utf-8") as file:
            file.write(text(drill))
        aside.chmod(0o666)
        os.utime(aside, (WRITTEN, WRITTEN))
        os.link(aside, path, follow_symlinks=False)
    finally:
        with suppress(FileNotFoundError):
            aside.unlink()


def left(path: Path) -> Drill | None:
    """Whose drill made the file that is there, if nobody touched it since. None: a person's, or none is there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            known = os.fstat(file.fileno())
            if not stat.S_ISREG(known.st_mode) or known.st_mtime_ns != WRITTEN * 10**9:
                return None
            return read(file.read(MOST_BYTES))
    except OSError:
        return None


def taken_away(path: Path, drill: Drill) -> bool:
    """Whether this drill's file was there and is gone. All else stays, or is put back. Raises OSError.

    It is renamed first, so that what is looked at is what is deleted.
    """
    if left(path) != drill:
        return False
    aside = _aside(path)
    try:
        path.rename(aside)
    except FileNotFoundError:
        return False
    ours = left(aside) == drill
    if not ours:
        with suppress(FileExistsError):
            os.link(aside, path, follow_symlinks=False)
    aside.unlink()
    return ours


def dead_taken_away(path: Path, lock: str) -> Drill | None:
    """Whose drill's file was taken away, under that lock: the day that held it before is dead. None: none was.

    One of a day that holds another lock stays, because nobody knows here whether it is dead.
    """
    drill = left(path)
    if drill is None or drill.lock != lock:
        return None
    try:
        return drill if taken_away(path, drill) else None
    except OSError:
        return None


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")
