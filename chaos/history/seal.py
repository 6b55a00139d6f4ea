"""``seal.json``: what a run wrote, as SHA-256 and size of each file, so that a file that changed later is noticed.

It is written last, when nothing of the run writes any more. It detects accidents and careless edits: a lost file, half
a copy, a number corrected by hand. It is no signature: who edits a file on purpose can write a seal that matches.

The file is a list of entries, and an entry is never rewritten. The first is the run's own and names every file. Two
others may add an entry, each with its reason, and only for files that were as sealed before: who makes Parquet of the
rows of arrivals that a full disk had left as they were (:func:`chaos.history.reader.compact`), and ``recover``, which
goes on with the ledger. A ledger may also grow without an entry, because a keeper that undoes on a full disk must not
need one: then what was sealed is the file's beginning.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chaos.base.errors import HistoryError
from chaos.base.paths import locked, write_json

SEAL = "seal.json"
FORMAT = 1
LEDGER = "ledger.jsonl"
BESIDE = ("plan.json", LEDGER, "clean.json", "audit.json")
"""Sealed beside every file of ``history/``. Not sealed: logs, ``last.json`` (words about earlier runs), and what is
made from the record, which is findings, pages and ``redacted/``."""
BLOCK = 1 << 20


def files(folder: Path) -> list[str]:
    """The files of a run that are sealed, as they are now, relative to its folder. Temporary ones begin with a dot."""
    inside = (file for file in (folder / "history").rglob("*") if file.is_file())
    named = sorted(str(file.relative_to(folder)) for file in inside if not file.name.startswith("."))
    return [name for name in BESIDE if (folder / name).is_file()] + named


def write(folder: Path, by: str, why: str) -> None:
    """Seal a run that has just ended: every file of it. Raises OSError."""
    entry = _entry(by, why, {name: _hashed(folder / name) for name in files(folder)})
    write_json(folder / SEAL, {"format": FORMAT, "entries": [entry]})


def add(folder: Path, names: Iterable[str], by: str, why: str) -> None:
    """Seal some files again, with the reason; one that is gone is sealed as gone. Nothing where there is no seal.

    The caller has changed these files itself, and has looked before that they were as sealed (:func:`look`).
    Raises OSError, and HistoryError when the seal cannot be read.
    """
    if not (folder / SEAL).is_file():
        return
    with locked(folder / "logs" / ".seal.lock"):
        data = _read(folder)
        now = {name: _hashed(folder / name) if (folder / name).is_file() else None for name in names}
        write_json(folder / SEAL, {**data, "entries": [*data["entries"], _entry(by, why, now)]})


def _entry(by: str, why: str, named: dict[str, dict[str, Any] | None]) -> dict[str, Any]:
    made = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {"by": by, "why": why, "made": made, "files": named}


def _hashed(file: Path, most: int | None = None) -> dict[str, Any]:
    """SHA-256 and size of a file, or of its first ``most`` bytes, read a block at a time."""
    digest, size = hashlib.sha256(), 0
    with open(file, "rb", buffering=0) as read:
        while block := read.read(BLOCK if most is None else min(BLOCK, most - size)):
            digest.update(block)
            size += len(block)
    return {"sha256": digest.hexdigest(), "bytes": size}


def _read(folder: Path) -> dict[str, Any]:
    """The seal. Raises HistoryError when it is none that this version reads."""
    try:
        data = json.loads((folder / SEAL).read_bytes())
        if data["format"] != FORMAT or not data["entries"]:
            raise ValueError(f"format {data['format']!r}")
        for entry in data["entries"]:
            for sealed in entry["files"].values():
                _ = sealed is None or (str(sealed["sha256"]), int(sealed["bytes"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise HistoryError(f"{SEAL} cannot be read: {type(error).__name__}: {error}") from None
    return dict(data)


def expected(folder: Path) -> dict[str, dict[str, Any] | None]:
    """File → what it was sealed as, last; None: as gone. Raises HistoryError."""
    found: dict[str, dict[str, Any] | None] = {}
    for entry in _read(folder)["entries"]:
        found |= entry["files"]
    return found


@dataclass(frozen=True)
class Look:
    """A run's folder held against its seal. ``sealed``: whether there is one. ``missing``: of the record itself."""

    sealed: bool
    broken: tuple[str, ...] = ()
    """A sentence for each file that is not what the run wrote, without a full stop."""
    missing: tuple[str, ...] = ()
    """Files without which there is no record, whether or not they were sealed."""
    digest: str | None = None
    """SHA-256 over the names and the content of everything that a seal covers, as it is now."""


def look(folder: Path) -> Look:
    """Read every file of the record once. Never raises: what cannot be read is not what the run wrote."""
    now, broken = _now(folder)
    missing = tuple(name for name in ("history", "history/events.jsonl") if not (folder / name).exists())[:1]
    if not (folder / SEAL).is_file():
        return Look(False, tuple(broken), missing, _digest(folder, now))
    try:
        wanted = expected(folder)
    except HistoryError as error:
        return Look(True, (*broken, str(error)), missing, _digest(folder, now))
    unreadable = {each.partition(" ")[0] for each in broken}
    for name in sorted({*wanted, *now} - unreadable):
        if (says := _compared(folder, name, wanted.get(name), now.get(name))) is not None:
            broken.append(says)
    return Look(True, tuple(broken), missing, _digest(folder, now))


def _now(folder: Path) -> tuple[dict[str, dict[str, Any]], list[str]]:
    now: dict[str, dict[str, Any]] = {}
    broken: list[str] = []
    for name in files(folder):
        try:
            now[name] = _hashed(folder / name)
        except OSError as error:
            broken.append(f"{name} cannot be read ({error.strerror})")
    return now, broken


def _digest(folder: Path, now: dict[str, dict[str, Any]]) -> str:
    """With the seal itself: the same files under a seal that says something else are not the same record."""
    own = {SEAL: _hashed(folder / SEAL)} if (folder / SEAL).is_file() else {}
    return hashlib.sha256(json.dumps({**now, **own}, sort_keys=True).encode()).hexdigest()


def _compared(folder: Path, name: str, wanted: dict[str, Any] | None, now: dict[str, Any] | None) -> str | None:
    if now == wanted:
        return None
    if wanted is None:
        return f"{name} is not the run's: it was not there when the run ended"
    if now is None:
        return f"{name} is missing, and was there when the run ended"
    if name == LEDGER and now["bytes"] > wanted["bytes"] and _hashed(folder / name, wanted["bytes"]) == wanted:
        return None  # an undo that came later wrote it down
    if now["bytes"] != wanted["bytes"]:
        return f"{name} is not what the run wrote ({now['bytes']:,} bytes instead of {wanted['bytes']:,})"
    return f"{name} is not what the run wrote (SHA-256 differs)"


def refuse_broken(folder: Path, names: Sequence[str]) -> None:
    """Before sealed files are changed: raises HistoryError when one of these is not as sealed."""
    if not (folder / SEAL).is_file():
        return
    wanted = expected(folder)
    for name in names:
        now = _hashed(folder / name) if (folder / name).is_file() else None
        if (says := _compared(folder, name, wanted.get(name), now)) is not None:
            raise HistoryError(f"{folder}: {says}")


@contextmanager
def going_on(folder: Path, name: str, by: str, why: str) -> Iterator[None]:
    """Seal a file again that the block goes on with. One that was not as sealed before stays so, and is found so."""
    try:
        refuse_broken(folder, [name])
    except (HistoryError, OSError):
        yield
        return
    yield
    with suppress(HistoryError, OSError):  # a ledger that grew is as good without an entry
        add(folder, [name], by, why)
