"""The disks of this machine that matter for a lab and a run on it, and how much room each needs.

Disks that a topology gives to its nodes are not among them: only faults of ours, and the nodes themselves, write there.
While a run lasts :mod:`chaos.instruments.disks` looks at them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.base import paths
from chaos.base.errors import LabError
from chaos.history import disks
from chaos.targets.labs import kinds, watermarks
from chaos.targets.labs.base import BaseLab

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
