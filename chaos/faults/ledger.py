"""The ledger: on disk, before it happens, everything that will have to be undone.

One JSON object a line. An *intent* (move and inverse) is written and fsynced before the move is tried, so whatever
dies, whenever, the file names a superset of what is in effect; inverses are idempotent, so undoing what never came
through does no harm. The registry holds one small file per run that points here; ``recover`` needs nothing else.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chaos.base import paths
from chaos.base.errors import FaultError
from chaos.base.paths import ProcessIdentity
from chaos.faults.moves import Move, Reversible, known
from chaos.history import kept
from chaos.targets.protocol import Lab


@dataclass(frozen=True)
class Entry:
    """An intent that has not been undone.

    ``answered``: it is known what became of its move, so nothing of it is on its way any more. Ledgers and notes of
    versions that did not write that down count as answered. ``at``: when it was written down (wall clock, s).
    """

    number: int
    fault: str
    move: Move
    inverse: Move | None
    answered: bool = field(default=True, compare=False)
    at: float = field(default=0.0, compare=False)


class Ledger:
    """The ledger of one run; thread-safe. Open it again (same path) to go on with it in another process.

    ``broken`` is told when the disk takes no row, whether or not that raises; it must not raise.
    """

    def __init__(self, path: Path, broken: Callable[[str], None] = lambda says: None) -> None:
        self.path, self._broken = path, broken
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._next = max((row["entry"] for row in _rows(path)), default=-1) + 1
        self._open_moves = {each.number for each in standing(path) if not each.answered}
        self._file = open(path, "a+b", buffering=0)  # noqa: SIM115 - closed by close()
        if paths.ends_in_half_a_line(path):
            self._file.write(b"\n")  # what a dead writer left must not swallow the next row
        paths.fsync_folder(path.parent)

    def intend(self, fault: str, moves: Sequence[Reversible]) -> list[Entry]:
        """Write down all these moves, in the order in which they will be made, with one fsync.

        Raises FaultError when the disk does not take it, or when nobody could carry out a move or its inverse: then
        nothing may be injected.
        """
        for each in moves:
            known(each.move.operation)
            if each.inverse is not None:
                known(each.inverse.operation)
        with self._lock:
            now = time.time()
            entries = [
                Entry(self._next + i, fault, each.move, each.inverse, answered=False, at=now)
                for i, each in enumerate(moves)
            ]
            self._next += len(entries)
            try:
                self._append(
                    [
                        {
                            "entry": entry.number,
                            "state": "intent",
                            "fault": fault,
                            "move": entry.move.to_json(),
                            "inverse": entry.inverse.to_json() if entry.inverse else None,
                            "answered": False,
                        }
                        for entry in entries
                    ]
                )
                self._open_moves |= {entry.number for entry in entries}
            except OSError as error:
                says = f"the ledger {self.path} cannot be written ({error.strerror}): nothing is injected"
                self._broken(says)
                raise FaultError(says) from error
        return entries

    def answered(self, entries: Sequence[Entry]) -> None:
        """It is known what became of these moves, or they were never sent: nothing of them is on its way.

        It is not fsynced, and may be missing: then they count as open, and are looked for once more than needed.
        """
        with self._lock:
            mine = [each.number for each in entries if each.number in self._open_moves]
            self._open_moves -= set(mine)
            try:
                if mine:
                    self._append([{"entry": number, "state": "answered"} for number in mine], sync=False)
            except OSError as error:
                self._broken(f"the ledger {self.path} cannot be written ({error.strerror})")

    def is_open(self, entry: Entry) -> bool:
        """Whether the answer to its move was never seen."""
        with self._lock:
            return entry.number in self._open_moves

    def undone_by_others(self, lab: Lab, entries: Sequence[Entry]) -> Mapping[int, str]:
        """Entries (by number) that another process has undone since, with who holds the cluster now, in words.

        What is found under their names is not theirs any more. In a lab there are none: one run at a time holds it.
        """
        return {}

    def note(self, entry: Entry, state: str, says: str | None = None) -> None:
        """Record ``undone`` or ``undo_failed``. A disk that is full now must not stop an undo; it is told."""
        row: dict[str, Any] = {"entry": entry.number, "state": state}
        if says:
            row["says"] = says
        with self._lock:
            try:
                self._append([row])
            except OSError as error:
                self._broken(f"the ledger {self.path} cannot be written ({error.strerror})")

    def _append(self, rows: list[dict[str, Any]], *, sync: bool = True) -> None:
        now = {"t": time.monotonic_ns(), "wall": time.time()}
        data = b"".join(json.dumps({**row, **now}).encode() + b"\n" for row in rows)
        size = os.fstat(self._file.fileno()).st_size
        try:
            written = self._file.write(data)
            if written != len(data):
                raise OSError(28, "No space left on device")
            if sync:
                os.fsync(self._file.fileno())
        except OSError:
            os.ftruncate(self._file.fileno(), size)  # half a row would swallow the next one
            raise

    def standing(self) -> list[Entry]:
        """What has not been undone, last first. It is read through the open file: its name may have been removed."""
        return standing(self._open)

    def moves(self) -> list[Move]:
        """As :func:`moves`, read in the same way."""
        return moves(self._open)

    def intended(self) -> list[tuple[Entry, bool]]:
        """As :func:`intended`, read in the same way."""
        return intended(self._open)

    @property
    def _open(self) -> Path:
        return Path(f"/proc/self/fd/{self._file.fileno()}")

    def put_back(self) -> None:
        """Write the file under its name again where somebody removed or replaced it, and go on there: whoever undoes
        when this process is dead looks for that name. Raises OSError."""
        with self._lock:
            if not kept.same(self.path, self._file):
                kept.put_back(self.path, self._file)
                old, self._file = self._file, open(self.path, "a+b", buffering=0)  # noqa: SIM115 - closed by close()
                old.close()

    def close(self) -> None:
        self._file.close()


def _rows(path: Path) -> list[dict[str, Any]]:
    """Whole rows only: a crash may have cut the last one."""
    rows = []
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    for line in lines:
        try:
            row = json.loads(line)
            int(row["entry"])
        except (ValueError, KeyError, TypeError):
            continue
        rows.append(row)
    return rows


def standing(path: Path) -> list[Entry]:
    """What has not been undone, last first."""
    return [entry for entry, stands in reversed(intended(path)) if stands]


def intended(path: Path) -> list[tuple[Entry, bool]]:
    """Every entry that was ever intended, in order, and whether it stands: it has not been undone."""
    found: dict[int, Entry] = {}
    undone: set[int] = set()
    for row in _rows(path):
        if row["state"] == "intent":
            inverse = Move.from_json(row["inverse"]) if row["inverse"] else None
            answered, at = row.get("answered", True), float(row.get("wall", 0.0))
            undone.discard(row["entry"])
            found[row["entry"]] = Entry(row["entry"], row["fault"], Move.from_json(row["move"]), inverse, answered, at)
        elif row["state"] == "answered" and row["entry"] in found:
            found[row["entry"]] = replace(found[row["entry"]], answered=True)
        elif row["state"] == "undone":
            undone.add(row["entry"])
    return [(found[number], number not in undone) for number in sorted(found)]


def moves(path: Path) -> list[Move]:
    """Every move that was ever intended, undone or not, and every inverse."""
    found = [row[key] for row in _rows(path) if row["state"] == "intent" for key in ("move", "inverse")]
    return [Move.from_json(each) for each in found if each]


@dataclass(frozen=True)
class Registration:
    """A run that may have something to undo."""

    run: str
    ledger: Path
    lab: str
    owner: ProcessIdentity

    @property
    def file(self) -> Path:
        return paths.registry() / f"{self.run}.json"

    def write(self) -> None:
        paths.write_json(
            self.file,
            {
                "format": 1,
                "run": self.run,
                "ledger": str(self.ledger),
                "lab": self.lab,
                "owner": self.owner.to_json(),
            },
        )

    def remove(self) -> None:
        self.file.unlink(missing_ok=True)


def registrations() -> list[Registration]:
    """Every registered run, dead or alive. A half-written file (there is none: writes are atomic) is skipped."""
    found = []
    for file in sorted(paths.registry().glob("*.json")):
        try:
            data = json.loads(file.read_text())
            found.append(
                Registration(data["run"], Path(data["ledger"]), data["lab"], ProcessIdentity.from_json(data["owner"]))
            )
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found
