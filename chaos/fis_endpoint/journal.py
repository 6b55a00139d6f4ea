"""The endpoint's own ledger: JSON lines, each fsynced before what it tells of is done or shown.

An action is in it before its ``begin`` and after its ``end``, so whatever dies, whenever, the file names all that is in
effect. A template or an experiment is one line together with its client token, so a repeated request after a crash
finds what the first one made. A last line without its line feed was being written when its writer died: nothing that
it tells of was done, and it is cut off. Anything else that cannot be read is refused, because what it hides might be
a fault that goes on.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from chaos.base import paths
from chaos.base.errors import ChaosError, InvalidInput
from chaos.fis_endpoint.doing import Doing

FORMAT = 1
Document = dict[str, Any]


class JournalBroken(ChaosError):
    """A line could not be written: what it tells of must not be done."""


@dataclass(frozen=True)
class Token:
    """A client token: the operation and content that it came with, and the id of what was made."""

    operation: str
    content: str
    made: str


@dataclass
class Past:
    """What the file tells. ``unended``: id → what began and has not ended, in the order in which it began."""

    templates: dict[str, Document] = field(default_factory=dict)
    experiments: dict[str, Document] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    lever: Document | None = None
    unended: dict[str, Doing] = field(default_factory=dict)


class Journal:
    """Thread-safe; one process at a time. Raises InvalidInput where the file is held, foreign or damaged."""

    def __init__(self, file: Path, *, account: str, region: str) -> None:
        self.file = file
        self._lock = threading.Lock()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(file, "a+b", buffering=0)  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise InvalidInput(
                f"cannot use {file} as a journal: {error.strerror}", remedy="name another file"
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise InvalidInput(
                f"another endpoint works with the journal {file}", remedy="stop it, or name another file"
            ) from None
        try:
            self.past = self._read({"kind": "journal", "format": FORMAT, "account": account, "region": region})
        except BaseException:
            self._file.close()
            raise

    def _read(self, header: Document) -> Past:
        self._file.seek(0)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        if whole != len(data):
            os.ftruncate(self._file.fileno(), whole)
            os.fsync(self._file.fileno())
        past = Past()
        lines = data[:whole].split(b"\n")[:-1]
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
                if number == 1:
                    differs = [name for name in header if row.get(name) != header[name]]
                    if differs:
                        name = differs[0]
                        raise ValueError(f"{name} is {row.get(name)}, and {header[name]} here")
                else:
                    apply(past, row)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                said = f"has no {error}" if isinstance(error, KeyError) else str(error)
                raise InvalidInput(
                    f"{self.file}:{number} is no line of a journal: {said}",
                    remedy="undo by hand what it began, then move the file away",
                ) from None
        if not lines:
            self._append(header)
            paths.fsync_folder(self.file.parent)
        return past

    def write(self, row: Mapping[str, Any]) -> None:
        """Add a line. It is on disk when this returns. Raises JournalBroken where the disk does not take it."""
        with self._lock:
            told = dict(row)
            wrong = contradiction(self.past, told)
            if wrong is not None:
                raise JournalBroken(f"the journal {self.file} takes no such line: {wrong}")
            try:
                self._append({**told, "wall": time.time()})
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                raise JournalBroken(f"the journal {self.file} cannot be written: {reason}") from error
            apply(self.past, told)

    def begins(self, doing: Doing) -> None:
        self.write({"kind": "begin", "doing": _document(doing)})

    def ended(self, doing: Doing) -> None:
        if self.has_begun(doing):
            self.write({"kind": "end", "id": doing.id})

    def has_begun(self, doing: Doing) -> bool:
        """Whether it began and has not ended."""
        with self._lock:
            return doing.id in self.past.unended

    def unended(self) -> list[Doing]:
        """What began and has not ended, last first."""
        with self._lock:
            return list(reversed(self.past.unended.values()))

    def close(self) -> None:
        self._file.close()

    def _append(self, row: Document) -> None:
        data = json.dumps(row, allow_nan=False).encode() + b"\n"
        size = os.fstat(self._file.fileno()).st_size
        try:
            if self._file.write(data) != len(data):
                raise OSError(28, "No space left on device")
            os.fsync(self._file.fileno())
        except OSError:
            os.ftruncate(self._file.fileno(), size)
            raise


def contradiction(past: Past, row: Document) -> str | None:
    """Why a line cannot follow what is known; None where it can."""
    kind = row["kind"]
    if row.get("token") in past.tokens:
        return "it uses a client token for the second time"
    if kind == "begin" and row["doing"]["id"] in past.unended:
        return f"{row['doing']['id']} begins, and has begun already"
    if kind == "end" and row["id"] not in past.unended:
        return f"{row['id']} ends, and has not begun"
    if kind == "template deleted" and row["id"] not in past.templates:
        return f"the template {row['id']} is deleted, and is not there"
    return None


def apply(past: Past, row: Document) -> None:
    """Take one line into what is known. Raises ValueError, KeyError or TypeError for one that means nothing."""
    wrong = contradiction(past, row)
    if wrong is not None:
        raise ValueError(wrong)
    kind = row["kind"]
    if kind in ("template", "experiment"):
        document = row[kind]
        made = str(document["id"])
        {"template": past.templates, "experiment": past.experiments}[kind][made] = document
        if "token" in row:
            past.tokens[row["token"]] = Token(str(row["operation"]), str(row["content"]), made)
    elif kind == "template deleted":
        del past.templates[row["id"]]
    elif kind == "lever":
        past.lever = {"status": str(row["status"]), "reason": str(row["reason"])}
    elif kind == "begin":
        doing = _doing(row["doing"])
        past.unended[doing.id] = doing
    elif kind == "end":
        del past.unended[row["id"]]
    elif kind not in ("opened", "not ended"):
        raise ValueError(f"nobody knows what {kind!r} is")


def _document(doing: Doing) -> Document:
    return asdict(doing)


def _doing(data: Document) -> Doing:
    seconds = data["seconds"]
    return Doing(
        id=str(data["id"]),
        experiment=str(data["experiment"]),
        action=str(data["action"]),
        parameters={str(name): str(value) for name, value in data["parameters"].items()},
        targets={str(key): [str(arn) for arn in arns] for key, arns in data["targets"].items()},
        seconds=None if seconds is None else float(seconds),
    )
