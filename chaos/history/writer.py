"""Writing a run's history: events as JSON lines, arrivals as packed rows.

Everything is handed to the kernel when it is written (events) or at every flush (rows), so that what a
killed process had recorded is still there. Nothing here waits for the disk: the records must survive the
death of a process, not of the machine.

A record with a hole in it is worth nothing, so whoever writes one is told of the first write that failed by a call
(``broken``), and not only by an exception: exceptions are lost in threads and greenlets, and callers that must go on
(an undo) suppress them.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from chaos.base.paths import ends_in_half_a_line, write_json
from chaos.history import kept
from chaos.history.format import HISTORY_VERSION

ARRIVALS = "arrivals.bin"
SCHEDULED = "scheduled.bin"
TABLES = "arrivals.json"
ITEMS = "items.bin"
"""What became of each document of bulks, as :mod:`chaos.history.items` has it."""
TOLD = "told.bin"
"""What helpers of client libraries told their callers of each document (:class:`~chaos.history.format.CallerTold`)."""
CHANGES = "changes.bin"
"""Which items of bulks update or delete which documents, as :mod:`chaos.history.changes` has it."""
PARTS = "parts.bin"
"""What became of each search of requests that have several: as ``items.bin``, with the outcomes of requests."""
PARQUET = "arrivals.parquet"
EVENTS = "events.jsonl"
DRIVER_EVENTS = "driver.jsonl"
CONTROLLER_EVENTS = "failover-*.jsonl"
"""Of the failover controllers, a file each; their kinds begin with ``failover.``."""
CAS = "cas.jsonl"
"""Compare-and-set, written by :mod:`chaos.load.cas`, where its lines are described."""
PROBES = "probes.jsonl"
"""Probes of visibility, written by :mod:`chaos.load.visibility`, where its lines are described."""
STALE = "stale.jsonl"
"""Reads of the load that were answered in full and still lacked documents that must be there."""
WRONG = "wrong.jsonl"
"""The first answers of each kind of request that were wrong, written by :mod:`chaos.load.examples`."""
ECHO = "echo.jsonl"
"""What the echo beside the nodes took, written by :mod:`chaos.programs.echoing`, where its lines are described."""
RESTORED = "restored.json"
"""In ``history``: the read-back of a cluster that was emptied and restored from its store alone."""
AUDIT = "audit.json"
"""In the run's folder itself: the availability audit, as :mod:`chaos.programs.audit.documentation` makes it."""


Broken = Callable[[str], None]
"""Told, in one line for the user, that a part of the record could not be written. Must not raise."""


class Events(Protocol):
    """Where what happens is written: :class:`EventWriter`."""

    def write(self, kind: str, *, t: int | None = None, **fields: Any) -> int: ...


def unwritable(path: Path, error: OSError) -> str:
    """What a :data:`Broken` is told."""
    return f"the record cannot be written: {path.name}: {error.strerror or error}"


class EventWriter:
    """Appends events to a JSON-lines file. Any thread may write; a line is never torn by another thread.

    A half line that a killed writer left at the end of the file is closed with a line feed first.
    ``broken`` is called whenever a line could not be written, before the OSError is raised.
    """

    def __init__(self, path: Path, broken: Broken | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._broken = path, broken
        self._lock = threading.Lock()
        self._file = open(path, "a+b", buffering=0)  # noqa: SIM115 - closed by close()
        if ends_in_half_a_line(path):
            self._file.write(b"\n")

    def put_back(self) -> None:
        """Write the file under its name again where somebody removed or replaced it, and go on there.

        Raises OSError.
        """
        with self._lock:
            if not kept.same(self._path, self._file):
                kept.put_back(self._path, self._file)
                old, self._file = self._file, open(self._path, "a+b", buffering=0)  # noqa: SIM115 - closed by close()
                old.close()

    def write(self, kind: str, *, t: int | None = None, **fields: Any) -> int:
        """Record one event and return its time (CLOCK_MONOTONIC ns).

        ``t`` is for an event that happened before it is written; its wall-clock time is moved alike.
        Values that JSON does not know are written as their ``str``. Raises OSError when the disk does not take it.
        """
        now = time.monotonic_ns()
        wall = time.time()
        at = now if t is None else t
        event = {"t": at, "wall": round(wall - (now - at) / 1e9, 6), "kind": kind, **fields}
        line = json.dumps(event, default=str, separators=(",", ":")).encode() + b"\n"
        try:
            with self._lock:
                _append(self._file, line)
        except OSError as error:
            if self._broken is not None:
                self._broken(unwritable(self._path, error))
            raise
        return at

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _append(file: FileIO, data: bytes | bytearray) -> None:
    """Hand all of it to the kernel, or nothing: a disk that fills up takes the first half of a line.

    For files that have one writer, opened for appending.
    """
    done = 0
    try:
        while done < len(data):
            done += file.write(memoryview(data)[done:] if done else data)
    except OSError:
        with suppress(OSError):  # half a line would swallow the next one, half a row shift all that follow
            os.ftruncate(file.fileno(), os.fstat(file.fileno()).st_size - done)
        raise


class RowWriter:
    """Appends packed rows to a file; what was added reaches the kernel at :meth:`flush`. One thread only.

    ``broken`` is called whenever rows could not be written, before the OSError is raised; these rows are lost.
    """

    def __init__(self, path: Path, broken: Broken | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._broken = path, broken
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by close()
        self._pending = bytearray()

    def add(self, row: bytes) -> None:
        """``row``: the bytes of one row, or of several."""
        self._pending += row

    def flush(self) -> None:
        if self._pending:
            pending, self._pending = self._pending, bytearray()
            try:
                _append(self._file, pending)
            except OSError as error:
                if self._broken is not None:
                    self._broken(unwritable(self._path, error))
                raise

    def close(self) -> None:
        if not self._file.closed:
            self.flush()
            self._file.close()


def write_tables(history: Path, *, operations: Sequence[str], clients: Sequence[str], nodes: Sequence[str]) -> None:
    """Write ``arrivals.json``: the names behind the one-byte columns, in the order of their numbers."""
    write_json(
        history / TABLES,
        {
            "format": HISTORY_VERSION,
            "operations": list(operations),
            "clients": list(clients),
            "nodes": list(nodes),
        },
    )
