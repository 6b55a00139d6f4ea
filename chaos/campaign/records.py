"""What a campaign writes into its store: attempts, and of each cell one commit.

::

    attempts/KEY/ATTEMPT/begun.json    before a run: who makes it, where and by which code
    attempts/KEY/ATTEMPT/run/…         its folder, uploaded before the commit
    attempts/KEY/ATTEMPT/ended.json    of an attempt that was not committed: why
    cells/KEY.json                     the commit, created once: attempt, manifest, outcome

Every engine that spreads work makes some of it twice. So nothing is believed but a commit: the first attempt to create
it wins, and whatever else there is of that cell is surplus, which nothing here reads.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from chaos.base.paths import ProcessIdentity
from chaos.campaign import lasting
from chaos.campaign.matrix import Cell
from chaos.campaign.stores import Absent, Store, StoreError, safe

FORMAT = 1
CELLS, ATTEMPTS = "cells", "attempts"
BLOCK = 1 << 20


class Ended(StrEnum):
    """How an attempt ended that was not committed."""

    SURPLUS = "surplus"
    """Another attempt at the same cell was committed first."""
    LOST = "lost"
    """Its child process died without a result."""
    ERROR = "error"
    """The suite itself failed."""
    STOPPED = "stopped"
    """A signal ended it: its worker was asked to stop."""
    REFUSED = "refused"
    """This machine lacks something that the run needs; nothing was started."""
    TOO_LARGE = "too large"
    """Its run said something of the cluster, and its record is more than a cell may keep."""


@dataclass(frozen=True)
class Commit:
    """The one result of a cell. ``manifest``: file → SHA-256 and size; ``left_out``: logs beyond the budget; ``code``:
    that made it (:mod:`.code`), empty in commits of before that was recorded."""

    key: str
    attempt: str
    cell: Mapping[str, Any]
    manifest: Mapping[str, Mapping[str, Any]]
    left_out: tuple[str, ...]
    run: str
    outcome: str
    clean: bool
    seconds: float
    machine: Mapping[str, Any]
    committed: str
    code: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **{**vars(self), "left_out": list(self.left_out)}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError and ValueError for what is none of this format."""
        if data["format"] != FORMAT:
            raise ValueError(f"format {data['format']!r}, and this version reads {FORMAT}")
        manifest = {
            safe(name): {"sha256": str(each["sha256"]), "bytes": int(each["bytes"])}
            for name, each in data["manifest"].items()
        }
        return cls(
            str(data["key"]),
            safe(str(data["attempt"])),
            dict(data["cell"]),
            manifest,
            tuple(data["left_out"]),
            folder_name(str(data["run"])),
            str(data["outcome"]),
            bool(data["clean"]),
            float(data["seconds"]),
            dict(data["machine"]),
            str(data["committed"]),
            str(data.get("code", "")),
        )


@dataclass(frozen=True)
class Attempt:
    """One try at a cell, as the store tells of it. ``ended`` None: it was committed, is under way, or was lost."""

    id: str
    began: datetime
    owner: ProcessIdentity
    longest_seconds: float
    ended: Ended | None = None
    why: str = ""
    session: str | None = None
    """The `campaign run` whose scheduler gave it out; None: no scheduler did."""
    ended_at: datetime | None = None
    machine: Mapping[str, Any] = field(default_factory=dict)
    """:attr:`.machine.Machine.about` and, of attempts since that is written down, :attr:`.machine.Machine.now`."""
    checkout: Mapping[str, Any] | None = None
    """:func:`.code.checkout`; None also of attempts of before that was written down."""
    bytes: int = 0
    """Of one that was too large: what a cell would have to keep of it."""

    def is_lost(self, now: datetime | None = None) -> bool:
        """Whether it was lost without a word: its process is gone, where that can be seen, or it is long over due."""
        if self.ended is not None:
            return self.ended is Ended.LOST
        if self.owner.boot_id == ProcessIdentity.me().boot_id:
            return not self.owner.alive()
        return ((now or datetime.now(UTC)) - self.began).total_seconds() > lasting.bound(self.longest_seconds)


class Records:
    """Attempts and commits in a store. All methods raise StoreError."""

    def __init__(self, store: Store) -> None:
        self.store = store

    # -- writing

    def begin(
        self,
        cell: Cell,
        machine: Mapping[str, Any],
        longest_seconds: float,
        session: str | None = None,
        code: str = "",
        checkout: Mapping[str, Any] | None = None,
    ) -> str:
        """Write down that this process makes a run of a cell; the attempt's id."""
        id = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(6)}"
        begun = {
            "format": FORMAT,
            "cell": cell.to_json(),
            "began": _now(),
            "owner": ProcessIdentity.me().to_json(),
            "longest_seconds": longest_seconds,
            "machine": dict(machine),
            "code": code,
            **({} if checkout is None else {"checkout": dict(checkout)}),
            **({} if session is None else {"session": session}),
        }
        self._create(f"{_attempt(cell.key, id)}/begun.json", begun)
        return id

    def end(self, key: str, attempt: str, how: Ended, why: str, bytes: int | None = None) -> None:
        """Write down why an attempt was not committed. ``bytes``: of one that was too large."""
        size = {} if bytes is None else {"bytes": bytes}
        ended = {"format": FORMAT, "ended": how, "why": why, "at": _now(), **size}
        self._create(f"{_attempt(key, attempt)}/ended.json", ended)

    def lose(self, key: str, session: str, why: str) -> int:
        """Write down that a session's attempts at a cell that have not ended are lost; how many there were.

        Only who knows that their scheduler has given the cell out anew may say so. One that goes on all the same loses
        nothing: if it is first, its commit counts.
        """
        open_ = [each for each in self.attempts(key) if each.session == session and each.ended is None]
        commit = self.of_cell(key)
        lost = [each for each in open_ if commit is None or each.id != commit.attempt]
        for each in lost:
            self.end(key, each.id, Ended.LOST, why)
        return len(lost)

    def upload(self, key: str, attempt: str, folder: Path, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Upload these files of a run's folder; their manifest."""
        manifest = {}
        for name in names:
            manifest[name] = hashed(folder / name)
            self.store.put(f"{_attempt(key, attempt)}/run/{name}", folder / name)
        return manifest

    def commit(self, commit: Commit) -> bool:
        """Create the commit of a cell, after its folder was uploaded. False: another attempt was first."""
        if self._create(f"{CELLS}/{commit.key}.json", commit.to_json()):
            return True
        first = self.of_cell(commit.key)  # an answer may be lost, and its repeat refused
        return first is not None and first.attempt == commit.attempt

    def _create(self, name: str, data: Mapping[str, Any]) -> bool:
        return self.store.create(name, (json.dumps(data, indent=1) + "\n").encode())

    # -- reading

    def of_cell(self, key: str) -> Commit | None:
        """The commit of a cell; None where there is none. Raises StoreError for one that cannot be read."""
        name = f"{CELLS}/{key}.json"
        try:
            raw = self.store.read(name)
        except Absent:
            return None
        try:
            commit = Commit.from_json(json.loads(raw))
            if commit.key != key:
                raise ValueError(f"it is of {commit.key}")
        except (KeyError, TypeError, ValueError) as error:
            said = f"{type(error).__name__}: {error}"
            raise StoreError(f"store {self.store.address}: {name} is no commit that can be read ({said})") from error
        return commit

    def committed(self) -> set[str]:
        """The keys of all commits."""
        return {Path(name).stem for name in self.store.names(f"{CELLS}/") if name.endswith(".json")}

    def attempts(self, key: str) -> list[Attempt]:
        """Every attempt at a cell, the committed one too, in their order."""
        found: dict[str, dict[str, Any]] = {}
        for name in self.store.names(f"{ATTEMPTS}/{key}/"):
            parts = name.split("/")  # of a run's files, and of what people put there, it may be any number
            if len(parts) == 4 and parts[3] in ("begun.json", "ended.json"):
                found.setdefault(parts[2], {})[parts[3]] = self._read(name)
        try:
            return [_attempt_of(id, files) for id, files in sorted(found.items()) if "begun.json" in files]
        except (KeyError, TypeError, ValueError) as error:
            said = f"{type(error).__name__}: {error}"
            raise StoreError(f"store {self.store.address}: an attempt at {key} cannot be read ({said})") from error

    def _read(self, name: str) -> dict[str, Any]:
        try:
            data = json.loads(self.store.read(name))
            if not isinstance(data, dict) or data["format"] != FORMAT:
                raise ValueError("another format")
            return data
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"store {self.store.address}: {name} cannot be read ({error})") from error

    # -- a committed run's folder

    def folder(self, commit: Commit, cache: Path) -> Path:
        """The folder of a committed run on this machine, each file as its manifest says. Raises StoreError else.

        ``cache``: where it is downloaded to, where the store is not on this machine.
        """
        base = f"{_attempt(commit.key, commit.attempt)}/run"
        here = self.store.local(base)
        if here is None:
            here = cache / commit.attempt / commit.run
            self._fetch(commit, base, here)
        if wrong := differing(here, commit.manifest):
            raise StoreError(f"store {self.store.address}: {commit.key}: {'; '.join(wrong[:3])}")
        return here

    def verify(self, commit: Commit, cache: Path) -> list[str]:
        """What of a committed run is not as its manifest says, in words; asks the store anew for every file."""
        base = f"{_attempt(commit.key, commit.attempt)}/run"
        there = {name.removeprefix(f"{base}/") for name in self.store.names(f"{base}/")}
        wrong = [f"{name} is not in the manifest" for name in sorted(there - {*commit.manifest})]
        for name, wanted in commit.manifest.items():
            try:
                with self._at_hand(f"{base}/{name}", cache) as file:
                    wrong += [f"{name}: {says}" for says in _differs(file, wanted)]
            except Absent:
                wrong.append(f"{name} is missing")
        return wrong

    @contextmanager
    def _at_hand(self, name: str, cache: Path) -> Iterator[Path]:
        """A file of the store, fetched anew into a folder of its own where the store is not on this machine."""
        if (here := self.store.local(name)) is not None:
            yield here
            return
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            self.store.fetch(name, file := Path(folder) / "fetched")
            yield file

    def _fetch(self, commit: Commit, base: str, folder: Path) -> None:
        for name, wanted in commit.manifest.items():
            file = folder / name
            if file.is_file() and hashed(file) == wanted:
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            self.store.fetch(f"{base}/{name}", file)


def folder_name(name: str) -> str:
    """The name of a folder, and no path. Raises StoreError."""
    if "/" in name:
        raise StoreError(f"{name!r} is no name of a run's folder")
    return safe(name)


def _attempt(key: str, id: str) -> str:
    return f"{ATTEMPTS}/{safe(key)}/{safe(id)}"


def _attempt_of(id: str, files: Mapping[str, Mapping[str, Any]]) -> Attempt:
    begun, ended = files["begun.json"], files.get("ended.json")
    return Attempt(
        id,
        datetime.fromisoformat(begun["began"]),
        ProcessIdentity.from_json(begun["owner"]),
        float(begun["longest_seconds"]),
        None if ended is None else Ended(ended["ended"]),
        "" if ended is None else str(ended["why"]),
        begun.get("session"),
        None if ended is None else datetime.fromisoformat(ended["at"]),
        dict(begun.get("machine") or {}),
        begun.get("checkout"),
        0 if ended is None else int(ended.get("bytes", 0)),
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def hashed(file: Path) -> dict[str, Any]:
    """SHA-256 and size of a file."""
    digest, size = hashlib.sha256(), 0
    with open(file, "rb", buffering=0) as read:
        while block := read.read(BLOCK):
            digest.update(block)
            size += len(block)
    return {"sha256": digest.hexdigest(), "bytes": size}


def differing(folder: Path, manifest: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The files of a folder that are missing or not as a manifest says."""
    return [f"{name}: {says}" for name, wanted in manifest.items() for says in _differs(folder / name, wanted)]


def _differs(file: Path, wanted: Mapping[str, Any]) -> list[str]:
    try:
        now = hashed(file)
    except FileNotFoundError:
        return ["it is missing"]
    except OSError as error:
        return [f"it cannot be read ({error.strerror})"]
    return [] if now == wanted else [f"it is not what was committed ({now['bytes']} bytes, {now['sha256'][:12]}…)"]
