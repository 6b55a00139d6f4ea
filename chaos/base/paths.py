"""Where things live on this machine: the cache, the labs, the registry; and who is alive.

As root the cache is ``/var/cache/opensearch-chaos`` and the state ``/var/lib/opensearch-chaos``;
otherwise the user's own folders (XDG, through platformdirs). ``$OPENSEARCH_CHAOS_CACHE`` and
``$OPENSEARCH_CHAOS_STATE`` move them, which is what tests do.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import platformdirs
import psutil

APP = "opensearch-chaos"
CACHE_VARIABLE = "OPENSEARCH_CHAOS_CACHE"
STATE_VARIABLE = "OPENSEARCH_CHAOS_STATE"
OURS_ALONE = 0o755
"""The mode of a folder of ours: others may read it where the umask lets them, and nobody else may write."""
PREFIX = "oschaos-"
"""Every namespace, mount and cgroup of ours begins with this and the lab's id."""


def cache() -> Path:
    """The folder of downloaded and assembled parts."""
    if given := os.environ.get(CACHE_VARIABLE):
        return Path(given)
    return Path("/var/cache") / APP if os.geteuid() == 0 else Path(platformdirs.user_cache_dir(APP))


def state() -> Path:
    """The folder of labs and of the registry."""
    if given := os.environ.get(STATE_VARIABLE):
        return Path(given)
    return Path("/var/lib") / APP if os.geteuid() == 0 else Path(platformdirs.user_state_dir(APP))


def labs() -> Path:
    """One folder per lab, named by its id."""
    return state() / "labs"


def registry() -> Path:
    """One file per run that may have something to undo; each points to that run's ledger."""
    return state() / "registry"


def lab_markers() -> Path:
    """One file per lab of this machine, whoever's it is, that names the state folder it belongs to."""
    return Path("/run") / APP


def lives_elsewhere(folder: str | Path, lab: str) -> bool:
    """Whether that state folder is not ours and still has a lab of this id.

    A folder that this user may not look into is another user's, and counts as one that has it.
    """
    if not Path(folder).is_absolute() or Path(folder) == state().absolute():
        return False
    try:
        there = os.stat(Path(folder) / "labs" / lab)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True
    try:
        return not os.path.samestat(there, os.stat(labs() / lab))  # ours by another name
    except OSError:
        return True


MACHINE_ID = Path("/etc/machine-id")


def machine() -> str:
    """Two hashes that tell this machine from others: of its machine-id(5), or of its host name where it has none, and
    of its boot."""
    own = socket.gethostname()
    with suppress(OSError, ValueError):
        if re.fullmatch("[0-9a-f]{32}", text := MACHINE_ID.read_text().strip()):
            own = text
    return ",".join(hashlib.sha256(f"{APP} {each}".encode()).hexdigest()[:32] for each in (own, _boot_id()))


def is_this_machine(said: str) -> bool:
    """Whether :func:`machine` said so on this machine. Either hash is enough: a container has the boot of its host and
    seldom a machine-id, and a host has another boot after each start. ``said`` is empty in labels of versions before:
    these count as this machine's."""
    return not said or bool({*said.split(",")} & {*machine().split(",")})


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass(frozen=True)
class ProcessIdentity:
    """A process for good: a pid alone is reused, pid + start time + boot id is not.

    ``start_ticks`` is field 22 of ``/proc/<pid>/stat`` (clock ticks since boot).
    """

    pid: int
    start_ticks: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> Self:
        """The identity of a running process. Raises ``ProcessLookupError`` when there is none."""
        stat = _stat(pid)
        if stat is None:
            raise ProcessLookupError(pid)
        return cls(pid, stat[1], _boot_id())

    @classmethod
    def me(cls) -> Self:
        return cls.of(os.getpid())

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return cls(int(data["pid"]), int(data["start_ticks"]), str(data["boot_id"]))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def alive(self) -> bool:
        """True while that very process runs. A zombie is dead."""
        stat = _stat(self.pid)
        return (
            stat is not None
            and stat[1] == self.start_ticks
            and stat[0] not in ("Z", "X")
            and self.boot_id == _boot_id()
        )

    def state(self) -> str | None:
        """The kernel's one-letter state (``R``, ``S``, ``D``, ``T`` …), None when it is gone."""
        stat = _stat(self.pid)
        return stat[0] if stat is not None and stat[1] == self.start_ticks else None


def _stat(pid: int) -> tuple[str, int] | None:
    """State letter and start time in ticks; None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()  # the command name may hold spaces and brackets
    return fields[0], int(fields[19])


def make_folder(folder: Path, *parts: str) -> None:
    """Make a folder that must not be there yet, with these folders in it; only its owner may write in it, whatever
    the umask says. Folders above it are made where they are missing.

    Raises OSError: FileExistsError where anything has its name, a link too, and PermissionError where a folder above it
    was planted (:func:`planted`).
    """
    if (found := planted(folder.parent)) is not None:
        raise PermissionError(errno.EPERM, f"{found} is another user's, in a folder where anybody may put one", found)
    for above in reversed([each for each in folder.parents if not each.exists()]):
        above.mkdir(OURS_ALONE, exist_ok=True)
    os.mkdir(folder, OURS_ALONE)  # exclusively: what is there, is somebody else's
    for part in parts:
        os.mkdir(folder / part, OURS_ALONE)


def planted(path: Path) -> Path | None:
    """The first part of a path that another user may have put there for us: a link or a folder of neither ours, root's
    nor the user's who called sudo, in a sticky folder in which anybody may make one (/tmp). None: there is none.

    So the kernel guards links and files there (``fs.protected_symlinks``, ``fs.protected_regular``), but no folders.
    """
    trusted = {os.geteuid(), 0, *([int(os.environ["SUDO_UID"])] if _sudo() else [])}
    path = Path(os.path.abspath(path))
    for part in (*reversed(path.parents), path):
        try:
            above, here = os.stat(part.parent), os.lstat(part)
        except OSError:
            return None  # it is not there, or not for us: making it says so
        shared = above.st_mode & stat.S_ISVTX and above.st_mode & stat.S_IWOTH
        if shared and here.st_uid not in trusted | {above.st_uid}:
            return part
    return None


def _sudo() -> bool:
    """Whether sudo says for whom we are root."""
    return os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdecimal()


def write_atomically(path: Path, data: str | bytes) -> None:
    """Replace ``path`` so that a reader, and a crash, see the old or the new content, never half.

    What is written before it gets its name is a new file: no link that somebody put there is followed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    raw = data.encode() if isinstance(data, str) else data
    try:
        temporary.unlink(missing_ok=True)
        with open(temporary, "xb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    fsync_folder(path.parent)


def ends_in_half_a_line(path: Path) -> bool:
    """True when the last line lacks its line feed: its writer was killed, and the next one must not join it."""
    with open(path, "rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def fsync_folder(folder: Path) -> None:
    """Make a rename or a new name in ``folder`` survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, data: Any) -> None:
    write_atomically(path, json.dumps(data, indent=1, sort_keys=False) + "\n")


@contextmanager
def locked(path: Path, *, blocking: bool = True, stays: bool = True) -> Iterator[bool]:
    """Hold an exclusive flock on ``path``; yields False when not blocking and another holds it.

    The kernel drops the lock with the process, so a killed owner never leaves one behind. ``stays``: whether the file
    does; whoever locks it must say the same.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with open(path, "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            if not stays and not _is_at(path, file.fileno()):
                continue  # the owner before has removed it
            try:
                yield True
            finally:
                if not stays:
                    path.unlink(missing_ok=True)
            return


def _is_at(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False


def memory_available_bytes() -> int:
    return int(psutil.virtual_memory().available)
