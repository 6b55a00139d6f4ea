"""The record of a game day: JSON lines, each of which holds the SHA-256 of the one before.

A line is canonical JSON (sorted keys, no spaces, UTF-8): ``n`` (from 1), ``t`` (UTC), ``kind``, the fields of its kind,
and ``prev``, the hash of the line before without its line feed; :data:`START` in the first. So whatever is changed
before the last line shows. What becomes of the end shows only to somebody who kept the hash of the last line, the
*head*, somewhere else: without it the last lines can be dropped, changed or added, and the whole record written anew.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import math
import os
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from chaos.base.errors import InvalidInput
from chaos.base.paths import fsync_folder
from chaos.base.text import plural
from chaos.history.writer import Broken, unwritable

START = "0" * 64
"""What the first line follows."""
LOST = "record.lost"
"""Kind of the line that says how many lines before it could not be written (``lines``)."""
RESERVED = frozenset({"n", "t", "kind", "prev"})
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def canonical(data: Any) -> bytes:
    """The one way in which JSON is written where it is hashed. Raises ValueError for what JSON does not have."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def plain(value: Any) -> Any:
    """The same as JSON has it, so that it reads back alike; what JSON does not have becomes text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value).encode("utf-8", "replace").decode()
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return plain(str(value))


def utc_now() -> datetime:
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    """``2026-11-26T09:00:00.123Z``."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


FILE = "record.jsonl"
"""Its name in a day's folder."""


class Record:
    """Writes the record of one day. Any thread may; each line is on the disk when :meth:`add` returns.

    ``broken`` is called once, when a line could not be written, before the OSError is raised. Later lines are tried all
    the same, and the first that succeeds stands after one of kind :data:`LOST`. Not for signal handlers: it locks.
    """

    def __init__(self, path: Path, clock: Callable[[], datetime] = utc_now, broken: Broken | None = None) -> None:
        """``clock``: aware. Raises InvalidInput when there is such a file already, or it cannot be made."""
        self._path, self._clock, self._broken = path, clock, broken
        self._lock = threading.Lock()
        self._count, self._head, self._size = 0, START, 0
        self._lost, self._told, self._torn = 0, False, False
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(os.open(path, flags, 0o600), "ab", buffering=0)  # noqa: SIM115 - closed by close()
            with suppress(OSError):  # a file system without locks: it is not known to be open then
                fcntl.flock(self._file, fcntl.LOCK_EX)
            fsync_folder(path.parent)
        except FileExistsError:
            raise InvalidInput(
                f"there is a record already: {path}", remedy="none is overwritten: begin the day in another folder"
            ) from None
        except OSError as error:
            raise InvalidInput(
                f"the record {path} cannot be made: {error.strerror or error}",
                remedy="make room for it, or name another folder",
            ) from error

    @property
    def path(self) -> Path:
        return self._path

    @property
    def head(self) -> str:
        """The hash of the last line."""
        return self._head

    def add(self, kind: str, /, **fields: Any) -> dict[str, Any]:
        """Write one line, and return it as it is read back.

        Raises ValueError for a field whose name is one of :data:`RESERVED`, OSError when the disk does not take it.
        """
        if taken := RESERVED.intersection(fields):
            raise ValueError(f"a record has fields of its own by the name {', '.join(sorted(taken))}")
        try:
            with self._lock:
                try:
                    if self._lost:
                        self._write(LOST, {"lines": self._lost})
                        self._lost = 0
                    return self._write(kind, fields)
                except OSError:
                    self._lost += 1
                    first, self._told = not self._told, True
                    raise
        except OSError as error:
            if first and self._broken is not None:
                self._broken(unwritable(self._path, error))
            raise

    def _write(self, kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        own = {"n": self._count + 1, "t": stamp(self._clock()), "kind": plain(kind), "prev": self._head}
        made: dict[str, Any] = {**plain(fields), **own}
        line = canonical(made)
        self._put(line + b"\n")
        self._count, self._head = self._count + 1, hashlib.sha256(line).hexdigest()
        return made

    def _put(self, data: bytes) -> None:
        """All of it, on the disk, or nothing: half a line would swallow the next one."""
        if self._torn:
            raise OSError(errno.EIO, "half a line is at its end, and cannot be taken away")
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError:
            try:
                os.ftruncate(self._file.fileno(), self._size)
            except OSError:
                self._torn = True
            raise
        self._size += len(data)

    def close(self) -> None:
        """Idempotent."""
        with self._lock:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read(path: Path) -> list[dict[str, Any]]:
    """Its lines, without half a line that a killed writer left at the end. Whether they are true says :func:`verify`.

    Raises InvalidInput when it cannot be read, or another line is none.
    """
    try:
        *lines, _ = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InvalidInput(
            f"the record {path} cannot be read: {error.strerror or error}", remedy="name the record of a day"
        ) from error
    found = []
    for at, line in enumerate(lines, 1):
        data = _parsed(line)
        if isinstance(data, str):
            raise InvalidInput(f"line {at} of {path} {data}", remedy="it was changed after it was written: find a copy")
        found.append(data)
    return found


def is_open(path: Path) -> bool:
    """Whether a process of this machine has it open to write, by the kernel's word. False where it cannot say."""
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def head_of(path: Path) -> str:
    """The hash of a record's last whole line. Raises InvalidInput."""
    try:
        *lines, _ = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InvalidInput(f"the record {path} cannot be read: {error.strerror or error}") from error
    return hashlib.sha256(lines[-1]).hexdigest() if lines else START


def verify(path: Path, head: str | None = None) -> list[str]:
    """What is wrong with a record, in words; nothing: it is as it was written.

    ``head``: the hash of one of its lines, as it was kept elsewhere; without it a missing end is not seen. What came
    after that line is covered by the chain alone (:func:`after`): the announcement of a head is recorded after it.
    """
    try:
        return problems(path.read_bytes(), head)
    except OSError as error:
        return [f"the record cannot be read: {error.strerror or error}"]


def problems(raw: bytes, head: str | None = None) -> list[str]:
    """:func:`verify` of what a file holds. Pure."""
    *lines, rest = raw.split(b"\n")
    found: list[str] = []
    number, before, hashes = 0, START, [START]
    for at, line in enumerate(lines, 1):
        data = _parsed(line)
        if isinstance(data, str):
            found.append(f"line {at} {data}")
            number += 1
        else:
            if why := _follows(data, at, number, before):
                found.append(why)
            number = data["n"]
        before = hashlib.sha256(line).hexdigest()
        hashes.append(before)
    if rest:
        found.append(f"line {len(lines) + 1} is torn: its writer was killed while it wrote, or the record was cut")
    if not raw:
        found.append("the record is empty")
    if head is not None and head not in hashes[1:]:
        found.append(
            "no line has the hash that was kept: lines at the end were dropped or changed, or the whole record was "
            "written anew"
        )
    return found


def after(path: Path, head: str) -> list[str] | None:
    """The kinds of the lines that came after the one with this hash, in order; None: no line has it. Of a record that
    is sound. Raises InvalidInput where it cannot be read."""
    lines = read(path)
    hashes = [hashlib.sha256(canonical(line)).hexdigest() for line in lines]
    return [str(line["kind"]) for line in lines[hashes.index(head) + 1 :]] if head in hashes else None


def _parsed(line: bytes) -> dict[str, Any] | str:
    """The line, or what is wrong with it by itself."""
    try:
        data = json.loads(line.decode())
        same = canonical(data) == line
    except (ValueError, RecursionError):
        return "is no JSON of a record"
    if not isinstance(data, dict) or not isinstance(data.get("kind"), str) or not isinstance(data.get("prev"), str):
        return "is no line of a record"
    if type(data.get("n")) is not int or not isinstance(data.get("t"), str) or not _TIME.fullmatch(data["t"]):
        return "is no line of a record"
    return data if same else "is not as a record writes it: it was changed"


def _follows(data: Mapping[str, Any], at: int, number: int, before: str) -> str | None:
    """Why a line does not follow the one before, whose number and hash these are."""
    missing = data["n"] - number - 1
    if missing > 0:
        gap = "is missing" if missing == 1 else "are missing"
        return f"line {at} is number {data['n']}: {plural(missing, 'line')} before it {gap}"
    if missing < 0:
        return f"line {at} is number {data['n']} and comes after number {number}: it was repeated or moved"
    if data["prev"] == before:
        return None
    if at == 1:
        return "line 1 is not the beginning of a record: it was changed, or is of another one"
    return f"line {at} does not follow from line {at - 1}: one of them was changed, or is of another record"
