"""Writing a run's history: events as JSON lines, arrivals as packed rows.

Everything is handed to the kernel when it is written (events) or at every flush (rows), so that what a
killed process had recorded is still there. Nothing here waits for the disk: the records must survive the
death of a process, not of the machine.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from chaos.history.format import HISTORY_VERSION
from chaos.places import ends_in_half_a_line, write_json

ARRIVALS = "arrivals.bin"
SCHEDULED = "scheduled.bin"
TABLES = "arrivals.json"
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
ECHO = "echo.jsonl"
"""What the echo beside the nodes took, written by :mod:`chaos.observe.echoing`, where its lines are described."""
AUDIT = "audit.json"
"""In the run's folder itself: the availability audit, as :mod:`chaos.audit.documentation` makes it."""


class EventWriter:
    """Appends events to a JSON-lines file. Any thread may write; a line is never torn by another thread.

    A half line that a killed writer left at the end of the file is closed with a line feed first.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by close()
        if ends_in_half_a_line(path):
            self._file.write(b"\n")

    def write(self, kind: str, *, t: int | None = None, **fields: Any) -> int:
        """Record one event and return its time (CLOCK_MONOTONIC ns).

        ``t`` is for an event that happened before it is written; its wall-clock time is moved alike.
        Values that JSON does not know are written as their ``str``.
        """
        now = time.monotonic_ns()
        wall = time.time()
        at = now if t is None else t
        event = {"t": at, "wall": round(wall - (now - at) / 1e9, 6), "kind": kind, **fields}
        line = json.dumps(event, default=str, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            self._file.write(line)
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


class RowWriter:
    """Appends packed rows to a file; what was added reaches the kernel at :meth:`flush`. One thread only."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - closed by close()
        self._pending = bytearray()

    def add(self, row: bytes) -> None:
        """``row``: the bytes of one row, or of several."""
        self._pending += row

    def flush(self) -> None:
        if self._pending:
            pending, self._pending = self._pending, bytearray()
            view = memoryview(pending)
            while view:  # a short write must not lose the place inside a row
                view = view[self._file.write(view) :]

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
