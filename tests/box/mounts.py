"""Mounts of a process's own: what it finds in a folder is another thing than what others find there.

They end with the last process that has them, so nothing of them is ever left.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.base.errors import LabError

CLONE_NEWNS, CLONE_NEWUTS = 0x00020000, 0x04000000
MS_BIND, MS_REC, MS_SLAVE = 0x1000, 0x4000, 0x80000
MNT_DETACH = 2
libc = ctypes.CDLL(None, use_errno=True)


def apart(more: int = 0) -> None:
    """Give this process a mount namespace of its own; ``more``: flags of unshare(2) for further ones.

    What others take away is taken away here too; what is mounted here is seen by nobody else. Raises LabError.
    """
    if libc.unshare(CLONE_NEWNS | more) != 0:
        raise failed("unshare")
    mount("none", Path("/"), None, MS_REC | MS_SLAVE)


def mount(source: str, target: Path, kind: str | None, flags: int, options: str | None = None) -> None:
    """mount(2). Raises LabError."""
    given = [None if text is None else text.encode() for text in (source, str(target), kind, options)]
    if libc.mount(given[0], given[1], given[2], flags, given[3]) != 0:
        raise failed(f"mount {target}")


def detach(target: Path) -> None:
    """Take away what is mounted there and below; fine where nothing is."""
    while libc.umount2(str(target).encode(), MNT_DETACH) == 0:  # several may lie on each other
        pass
    if ctypes.get_errno() not in (errno.EINVAL, errno.ENOENT):
        raise failed(f"umount {target}")


def failed(what: str) -> LabError:
    return LabError(f"{what}: {os.strerror(ctypes.get_errno())}")


def empty(folder: Path, mode: str = "0755") -> None:
    """An empty folder in place of this one."""
    mount("tmpfs", folder, "tmpfs", 0, f"mode={mode}")


def see_only(needed: Sequence[Path], covered: Sequence[Path]) -> None:
    """Empty folders in place of ``covered``, and ``needed`` where they were."""
    held = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in needed}
    for folder in sorted(set(covered), key=lambda path: len(path.parts)):
        if folder.is_dir():
            empty(folder, "1777" if folder == Path("/tmp") else "0755")
    for path in sorted(held, key=lambda path: len(path.parts)):
        if not path.exists() or not os.path.samestat(path.stat(), os.fstat(held[path])):
            path.mkdir(parents=True, exist_ok=True)
            mount(f"/proc/self/fd/{held[path]}", path, None, MS_BIND)


def replace(file: Path, text: str) -> None:
    """Another file in place of this one, readable by all. Needs a ``/tmp`` of this process's own."""
    own = Path("/tmp") / file.name
    own.write_text(text)
    own.chmod(0o644)
    mount(str(own), file, None, MS_BIND)
    own.unlink()


def mixed(folder: Path, aside: Path, files: Mapping[str, tuple[int, str]], same: Sequence[Path] = ()) -> None:
    """In place of ``folder`` one of our own: links to all that is in it, and files of ours.

    ``files``: path below the folder → mode and content; the first part of a path stands for nothing of the old folder.
    ``same``: folders in it that must be no links. ``aside``: where the old folder is found from now on.
    """
    folder = folder.resolve()
    aside.mkdir(parents=True)
    mount(str(folder), aside, None, MS_BIND | MS_REC)
    empty(folder)
    ours = {Path(name).parts[0] for name in files}
    for entry in os.scandir(aside):
        there = folder / entry.name
        if entry.name in ours:
            continue
        if there in same:
            there.mkdir()
            mount(entry.path, there, None, MS_BIND | MS_REC)
        else:  # a link is copied, for it may be relative
            there.symlink_to(os.readlink(entry.path) if entry.is_symlink() else entry.path)
    for name, (mode, text) in files.items():
        file = folder / name
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        file.touch(mode=0o600)
        file.write_text(text)
        file.chmod(mode)
