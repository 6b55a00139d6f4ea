"""Watches how full this machine's disks are, and whether OpenSearch blocks the load's index for a full disk.

A lab's nodes write to this machine's disk, and so do the record and the nodes' temporary files. When another program
fills it, nodes place no copies and refuse writes, and nothing of that is the cluster's. So free bytes are sampled, and
a run on a disk with too few ends (:mod:`chaos.checks.disks` says what that means). Disks that a topology gives to its
nodes are not looked at: only faults of ours, and the nodes themselves, write there.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.base import paths
from chaos.base.errors import LabError
from chaos.faults.moves import Events
from chaos.history import disks
from chaos.opensearch import administration
from chaos.target.labs import kinds, watermarks
from chaos.target.labs.base import BaseLab
from chaos.target.protocol import Lab

LOOK_SECONDS = 5.0
BEAT_SECONDS = 1.0
"""Free bytes are looked at so often, and written down every LOOK_SECONDS, or when there are too few."""
ASK_SECONDS = 2.0
FOR_RECORD = 16 * 2**20
"""Free bytes that a record, nodes' logs and temporary files need at any moment."""


@dataclass(frozen=True)
class Place:
    """A folder on a disk that matters: what lies there, and how many bytes must stay free."""

    what: str
    path: Path
    need: int
    remedy: str = "make room there"

    @property
    def free(self) -> int:
        """Bytes that a user may still write. Raises OSError."""
        return free(self.path)

    def to_json(self) -> dict[str, Any]:
        size = total(self.path)
        return {"what": self.what, "path": str(self.path), "size": size, "need": self.need, "remedy": self.remedy}


def free(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def total(path: Path) -> int:
    """Bytes of its file system."""
    found = os.statvfs(path)
    return found.f_blocks * found.f_frsize


def places(folder: Path, lab: BaseLab) -> list[Place]:
    """What matters for a run in ``folder`` on this lab; of several on one disk the one that needs most."""
    record = Place("the run's record", folder, FOR_RECORD, "make room there, or choose another folder with --out")
    return _once([record, *of_lab(lab)])


def of_lab(lab: BaseLab) -> list[Place]:
    """What matters for a lab, whether there is a run on it or not."""
    found = [Place("temporary files", Path(tempfile.gettempdir()), FOR_RECORD, "make room there, or set $TMPDIR")]
    kind = kinds.named(lab.kind)
    if kind.made:
        state = f"make room there, or name another state folder with ${paths.STATE_VARIABLE}"
        found.append(Place("logs of the lab's nodes", lab.folder, FOR_RECORD, state))
        data = kind.data_folder()
        if data is not None and data.is_dir():
            need = watermarks.needed(lab.topology, total(data))
            remedy = state if kind.keeps_data else "make room there: it is the Docker engine's"
            found.append(Place("data of the lab's nodes", data, max(need, FOR_RECORD), remedy))
    return _once(found)


def _once(some: Iterable[Place]) -> list[Place]:
    by_disk: dict[int, Place] = {}
    for place in some:
        with suppress(OSError):
            disk = place.path.stat().st_dev
            if disk not in by_disk or by_disk[disk].need < place.need:
                by_disk[disk] = place
    return list(by_disk.values())


def scarce(some: Iterable[Place]) -> str | None:
    """Which of these has too little room now, in words; None: none."""
    for place in some:
        with suppress(OSError):
            if (left := place.free) < place.need:
                return disks.sentence(place.to_json(), left)
    return None


@contextmanager
def named(lab: BaseLab) -> Iterator[None]:
    """An error of a lab within names the disk that has too little room, where one has. Raises LabError."""
    try:
        yield
    except LabError as error:
        if says := scarce(of_lab(lab)):
            raise LabError(f"{error.message} ({says})", remedy=error.remedy) from error
        raise


def blocked(lab: Lab, index: str) -> bool:
    """Whether writes to the index are blocked as beyond the flood stage. Raises LabError when no node says it."""
    found = administration.explicit_settings(lab, index, timeout=ASK_SECONDS) or {}
    return str(found.get(disks.BLOCK)).lower() == "true"


class Disks:
    """The watch, in a thread of its own. ``short`` is told in words, once, when there is too little room."""

    def __init__(
        self, events: Events, some: Callable[[], list[Place]], asks: Callable[[], bool], short: Callable[[str], None]
    ) -> None:
        self._events, self._some, self._asks, self._short = events, some, asks, short
        self._places: list[Place] = []
        self._blocked, self._seen = False, time.monotonic_ns()
        self._written = float("-inf")
        self._last: int | None = None
        self._why: str | None = None
        self._told = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="disks", daemon=True)

    def start(self) -> None:
        """From now on. Idempotent. Raises OSError when a disk cannot be looked at at all."""
        if self._thread.ident is not None:
            return
        self._places = self._some()
        self._events.write(disks.WATCHED, places=[place.to_json() for place in self._places])
        self._seen = time.monotonic_ns()
        self.look()
        self._thread.start()

    def stop(self) -> None:
        """Look once more and end; idempotent."""
        if self._over.is_set() or self._thread.ident is None:
            return
        self._over.set()
        self._thread.join()
        self._written = float("-inf")
        self.look()
        self._ask()
        with suppress(OSError):
            self._events.write(disks.UNWATCHED, last=self._last, because=self._why)

    def _run(self) -> None:
        due = time.monotonic() + LOOK_SECONDS
        while not self._over.wait(BEAT_SECONDS):
            self.look()
            if time.monotonic() >= due:
                due = time.monotonic() + LOOK_SECONDS
                self._ask()

    def look(self) -> None:
        """Sample free bytes once. Never raises."""
        try:
            found = {str(place.path): place.free for place in self._places}
            lacking = [place for place in self._places if found[str(place.path)] < place.need]
            now = time.monotonic()
            if now - self._written >= LOOK_SECONDS or (lacking and not self._told):
                self._written = now
                self._events.write(disks.FREE, free=found, since=self._last)
            self._last = time.monotonic_ns()
            if lacking and not self._told:
                self._told = True
                self._short(disks.sentence(lacking[0].to_json(), found[str(lacking[0].path)]))
        except Exception as error:  # then it is not known, and the record says so
            self._why = self._why or f"{type(error).__name__}: {error}"

    def _ask(self) -> None:
        """Whether the index is blocked; a cluster that does not answer says nothing."""
        began = time.monotonic_ns()
        try:
            now = self._asks()
        except (LabError, KeyError):
            return
        except Exception as error:
            self._why = self._why or f"{type(error).__name__}: {error}"
            return
        if now != self._blocked:
            self._blocked = now
            with suppress(OSError):
                self._events.write(disks.BLOCKED, blocked=now, since=self._seen)
        self._seen = began
