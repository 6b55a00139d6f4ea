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

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS = 0x00020000, 0x02000000, 0x04000000
CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x08000000, 0x20000000, 0x40000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE = 0x1, 0x20, 0x1000, 0x4000, 0x80000
MNT_DETACH = 2
SMALL = "64m"
"""Size of what holds only a host's own few files, so that tests can fill it."""
libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """unshare(2). Raises LabError."""
    if libc.unshare(flags) != 0:
        raise failed("unshare")


def apart() -> None:
    """Give this process a mount namespace of its own. Raises LabError.

    What is mounted here is seen by nobody else.
    """
    unshare(CLONE_NEWNS)
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


def leave_disks(but: Path | None = None) -> None:
    """Take away the disks of labs, but for those below a folder.

    Where what others take away is not taken away here too (a container's root is often private), a copy of a mount
    would keep its device busy for ever.
    """
    for line in Path("/proc/self/mounts").read_text().splitlines():
        source, point = line.split()[:2]
        below = but is not None and Path(point).is_relative_to(but)
        if source.startswith("/dev/loop") and "/labs/" in point and not below:
            detach(Path(point))


def failed(what: str) -> LabError:
    return LabError(f"{what}: {os.strerror(ctypes.get_errno())}")


def empty(folder: Path, mode: str = "0755", size: str | None = None) -> None:
    """An empty folder in place of this one. ``size``: all that goes into it, such as 64m; it is held in memory."""
    mount("tmpfs", folder, "tmpfs", 0, f"mode={mode}" + (f",size={size}" if size else ""))


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
    empty(folder, size=SMALL)
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
