"""Whether what a run writes is still in the folder that it began, while it goes on.

A file that somebody removes, moves or replaces is written to all the same by whoever has it open, and nothing fails:
the run would go on blind. So each file of the record is opened once more, as soon as it is there, and held: what its
name stands for must be that very file (device and inode), and never shorter than it was. What was removed is still
read through the file that is held, so it can be put back.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from io import FileIO
from pathlib import Path

from chaos.history.format import DRIVERS

DELETED = " (deleted)"
"""How the kernel ends the name of an open file that has none any more (proc(5), ``/proc/PID/fd``)."""


class Kept:
    """The record of one run. One thread at a time. ``alone``: files in the run's folder itself that are part of it."""

    def __init__(self, folder: Path, alone: tuple[str, ...]) -> None:
        self._folder, self._alone = folder, alone
        self._held: dict[str, FileIO] = {}
        self._sizes: dict[str, int] = {}

    def look(self) -> str | None:
        """What has become of the record, in one sentence without its full stop; None while it is as it was."""
        for name in self._held:
            if (says := self._changed(name)) is not None:
                return says
        history = self._folder / "history"
        if not history.is_dir():
            return f"{history} was removed while the run went on"
        for folder in (self._folder, history):
            if not os.access(folder, os.W_OK | os.X_OK):
                return f"{folder} cannot be written any more"
        self._hold()
        return None

    def _hold(self) -> None:
        """Open what is new."""
        history = self._folder / "history"
        found = (each for pattern in ("*", f"{DRIVERS}/*") for each in history.glob(pattern) if each.is_file())
        names = [str(each.relative_to(self._folder)) for each in found]
        for name in (*self._alone, *names):
            if name not in self._held and not name.rpartition("/")[2].startswith("."):
                with suppress(FileNotFoundError):  # it is not there yet, or was only for a moment
                    self._held[name] = open(self._folder / name, "rb", buffering=0)  # noqa: SIM115 - see close()
                    self._sizes[name] = 0

    def _changed(self, name: str) -> str | None:
        path, held = self._folder / name, os.fstat(self._held[name].fileno())
        if not same(path, self._held[name]):
            return f"{path} {self._fate(name)} while the run went on"
        if held.st_size < self._sizes[name]:
            return f"{path} was cut from {self._sizes[name]:,} to {held.st_size:,} bytes while the run went on"
        self._sizes[name] = held.st_size
        return None

    def _fate(self, name: str) -> str:
        path = self._folder / name
        now = os.readlink(f"/proc/self/fd/{self._held[name].fileno()}")
        if not now.endswith(DELETED) and now != str(path.resolve()):
            return f"was moved to {now}"
        return "was replaced by another file" if path.exists() else "was removed"

    def leave(self, name: str) -> None:
        """Look after a file no more: whoever writes it has put it back by itself."""
        if (held := self._held.pop(name, None)) is not None:
            held.close()

    def put_back(self) -> None:
        """Write every file that is gone under its name again, as it was held. Raises OSError."""
        for name, held in self._held.items():
            if not same(self._folder / name, held):
                put_back(self._folder / name, held)

    def close(self) -> None:
        """Let go of everything. Idempotent."""
        for held in self._held.values():
            held.close()
        self._held.clear()


def same(path: Path, file: FileIO) -> bool:
    """Whether a name still stands for an open file."""
    try:
        now, held = os.stat(path), os.fstat(file.fileno())
    except (FileNotFoundError, NotADirectoryError):
        return False
    return (now.st_dev, now.st_ino) == (held.st_dev, held.st_ino)


def put_back(path: Path, file: FileIO) -> None:
    """Write the content of an open file, which was opened for reading too, under a name that is gone, or is another's.

    What somebody put there is kept beside it, as ``NAME.found``. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        os.replace(path, path.with_name(f"{path.name}.found"))
    new = path.with_name(f".{path.name}.back")
    try:
        with open(f"/proc/self/fd/{file.fileno()}", "rb") as old, open(new, "wb") as copy:
            shutil.copyfileobj(old, copy)
            copy.flush()
            os.fsync(copy.fileno())
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)
