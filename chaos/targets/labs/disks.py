"""A disk of its own for each node: a small ext4 in an image file, on a loop device, mounted as the node's data folder.
A service may have one too, mounted as its folder, to which all nodes write.

So a disk can be full, slow, stalled, read-only, broken or cut off from power for one node alone, with what any Linux
kernel has: no device mapper, no FUSE. The image is preallocated: a full disk of the machine must not look like a
broken one of a node. Logs lie outside.

All of it is found by name: a mount by the path that it is mounted on, a loop device by its backing file, and both lie
in the lab's folder. So the second half of this module takes away what is there without knowing who made it, whatever
that one died of: image made but not attached, attached but not mounted, frozen, throttled.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import shutil
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from chaos.base import paths
from chaos.base.errors import LabError
from chaos.base.paths import PREFIX, write_json
from chaos.definitions import Topology
from chaos.provision import loops
from chaos.targets.labs import cgroups, diskfreeze, diskprobe, throttle
from chaos.targets.labs.processes import wait_until
from chaos.targets.protocol import DiskAnswer

if TYPE_CHECKING:
    from chaos.targets.labs.base import BaseLab

"""Programs that disks need, and the package that brings each."""
OURS = ".oschaos"
"""A folder on each disk for fillers and probe files."""
NOT_DATA = (OURS, "lost+found")
FORMAT = ("-q", "-F", "-b", "4096", "-m", "0", "-e", "remount-ro", "-E", "lazy_itable_init=0,lazy_journal_init=0")
"""mkfs.ext4: nothing kept back for root, so that full is full for everyone; nothing that is still initialised later."""
OPTIONS = "noatime,nodev,nosuid,errors=remount-ro"
SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN (fs/ext4/ext4.h); XFS has the same."""
FLUSHED, NO_LOG_FLUSH = 0, 2
"""Its flags: write everything back first; or drop all that is not on disk, the journal's tail included."""
READ_ONLY = frozenset({"ro", "emergency_ro"})
"""Mount options of a file system that takes no writes."""
START_SECONDS = 10.0
UNMOUNT_SECONDS = 10.0
BLOCK = 4096
_HEALTH_SECONDS = 5.0


@dataclass(frozen=True)
class Loop:
    """A loop device (``loop3``) and the file behind it."""

    name: str
    backing: Path

    @property
    def number(self) -> str:
        """``major:minor``, as control groups name it."""
        return (Path("/sys/block") / self.name / "dev").read_text().strip()


def offered(topology: Topology, capability: str) -> str | None:
    """Why a lab of this topology would have no ``disks``, or no ``throttle`` on them; None when it would."""
    if topology.disks is None and not topology.service_disks:
        return (
            f"topology {topology.name} gives its nodes no disks of their own: use one with `disks`, "
            "for example 3az-disks"
        )
    if reason := loops.lacking():
        return reason
    if capability == "throttle" and not cgroups.usable("io"):
        return "control groups for block devices cannot be made here"
    return None


class Groups(Protocol):
    """The control groups that writes of this lab's nodes count in."""

    def built(self, controller: str) -> bool: ...

    def version(self, controller: str) -> int: ...

    def root(self, controller: str) -> Path:
        """The group of everybody."""

    def of(self, node: str) -> Path | None:
        """The group of block devices of a node; None when there is none at present, so that nothing limits it."""


class LocalDisks:
    """The disks of one lab on this machine; nothing where its topology asks for none."""

    def __init__(self, lab: BaseLab, groups: Groups) -> None:
        self._lab, self._groups = lab, groups
        self._keepers: dict[str, subprocess.Popen[bytes]] = {}
        self._lost: list[tuple[str, subprocess.Popen[bytes]]] = []
        """By node, probes that did not come back in time: the kernel lets them go when the disk moves again."""
        self._lock = threading.Lock()

    def lacks(self, capability: str) -> str | None:
        reason = offered(self._lab.topology, capability)
        if reason is None and capability == "throttle" and not self._groups.built("io"):
            return "there are no control groups for block devices here, or this lab could make none"
        return reason

    # ---- making ---------------------------------------------------------------------------------

    @property
    def sizes(self) -> dict[str, int]:
        """Owner of each disk → its size in bytes: nodes, and services that have one."""
        topology = self._lab.topology
        of_nodes = [node.name for node in topology.nodes] if topology.disks is not None else []
        found = {name: int(topology.disks.size) for name in of_nodes if topology.disks is not None}
        return found | {name: int(size) for name, size in topology.service_disks.items()}

    def build(self) -> None:
        """Make and mount every disk that the topology asks for. Raises LabError."""
        if not self.sizes:
            return
        if reason := loops.lacking():
            raise LabError(f"topology {self._lab.topology.name} asks for disks: {reason}")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda disk: self._make(*disk), self.sizes.items()))

    def _make(self, node: str, size: int) -> None:
        image = self._image(node)
        image.parent.mkdir(exist_ok=True)
        try:
            with open(image, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            raise LabError(f"cannot make the disk of {node}: {error.strerror} ({image})") from error
        self._run(node, "mkfs.ext4", *FORMAT, str(image))
        self._run(node, "losetup", "--find", str(image))
        self._mount(node)

    def _mount(self, node: str) -> None:
        # while a service's disk is not mounted nodes can write nothing in its place: the folder below is root's
        self.path(node).mkdir(parents=True, exist_ok=True)
        self._run(node, "mount", "-t", "ext4", "-o", OPTIONS, f"/dev/{self._loop(node).name}", str(self.path(node)))

    def _beside(self, node: str) -> AbstractContextManager[None]:
        """A program outlives its caller, and cleaning up the lab must find it: in the node's host, and for a
        service's disk in that of the first node."""
        topology = self._lab.topology
        return self._lab.beside(topology.nodes[0].name if node in topology.services else node)

    def _run(self, node: str, *command: str) -> None:
        with self._beside(node):
            done = _call(*command)
        if done.returncode != 0:
            words = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise LabError(f"{command[0]} failed: {' '.join(words)[:300]}")

    def _image(self, node: str) -> Path:
        return self._lab.folder / "disks" / f"{node}.img"

    def path(self, node: str) -> Path:
        """Where it is mounted: the node's data folder, or the service's."""
        if node in self._lab.topology.services:
            return self._lab.service(node).folder
        return self._lab.folder / "data" / node

    def _loop(self, node: str) -> Loop:
        image = self._image(node).resolve()
        for loop in loops_below(image.parent):
            if loop.backing == image:
                return loop
        raise LabError(f"the disk of {node} is not attached")

    def mounted(self, node: str) -> bool:
        return self.path(node).resolve() in mounts_below(self.path(node))

    def require(self, node: str) -> None:
        """Raises LabError when the node should have a disk and has not: it would write beside it."""
        if node in self.sizes and not self.mounted(node):
            raise LabError(f"the disk of {node} is not mounted")

    # ---- stalled --------------------------------------------------------------------------------

    def freeze(self, node: str) -> None:
        """Raises LabError, and freezes nothing, where the disk is not mounted: below it is the machine's own."""
        self.require(node)
        with self._lock:
            keeper = self._keepers.get(node)
            if keeper is not None and keeper.poll() is None:
                return
            keeper = self._spawn(node, diskfreeze.__file__, str(self.path(node)))
            self._keepers[node] = keeper
        assert keeper.stdout is not None
        answer = _line(keeper.stdout.fileno(), time.monotonic() + START_SECONDS)
        if answer != "frozen":
            self.thaw(node)
            raise LabError(f"the disk of {node} cannot be frozen ({answer or 'no answer'})")

    def thaw(self, node: str) -> None:
        """Also after a keeper that was not ours, and after none."""
        with suppress(FileNotFoundError):
            _thaw(self.path(node))
        with self._lock:
            keeper = self._keepers.pop(node, None)
        if keeper is not None:
            for pipe in (keeper.stdin, keeper.stdout):
                if pipe is not None:
                    pipe.close()
            try:
                keeper.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                keeper.kill()
            with suppress(FileNotFoundError):
                _thaw(self.path(node))  # a keeper that was about to freeze just now

    # ---- slow -----------------------------------------------------------------------------------

    def throttle(self, node: str, whose: str, rate: int) -> None:
        group = self._group(node, whose)
        if group is None:
            return
        device, version = self._loop(node).number, self._groups.version("io")
        record = self._limits_before(node, whose)
        if not record.exists():  # not ours twice: the second time the limit is our own
            write_json(record, {"device": device, "rate": throttle.limit(group, version, device)})
        try:
            throttle.set_limit(group, version, device, rate)
        except OSError as error:
            raise LabError(f"cannot limit writes to the disk of {node}: {error.strerror}") from error

    def unthrottle(self, node: str, whose: str) -> None:
        group = self._group(node, whose)
        record = self._limits_before(node, whose)
        if group is None or not record.exists():
            return
        before = json.loads(record.read_text())
        try:
            throttle.set_limit(group, self._groups.version("io"), before["device"], before["rate"])
        except OSError as error:
            raise LabError(f"cannot lift the limit of the disk of {node}: {error.strerror}") from error
        record.unlink(missing_ok=True)

    def throttled(self, node: str, whose: str) -> int | None:
        group = self._group(node, whose)
        if group is None:
            return None
        return throttle.limit(group, self._groups.version("io"), self._loop(node).number)

    def _limits_before(self, node: str, whose: str) -> Path:
        """Where the limit that was there before is written down, before it is changed."""
        return self._lab.folder / "run" / f"limit-{node}-{whose}.json"

    def _group(self, node: str, whose: str) -> Path | None:
        """``node``: the group of the node, while it has one; ``others``: the root group, in version 2 without any."""
        if whose == "node":
            return self._groups.of(node)
        if self._groups.version("io") == 2:
            return None
        return self._groups.root("io")

    # ---- full -----------------------------------------------------------------------------------

    def usage(self, node: str) -> tuple[int, int]:
        """Bytes in all and bytes that can still be written, as the node itself counts them."""
        return _usage(os.statvfs(self.path(node)))

    def fill(self, node: str, share: float | None) -> None:
        """Raises LabError, and writes nothing, where the disk is not mounted: below it is the machine's own."""
        self.require(node)
        descriptor = self._open_filler(node)
        most = 2**63
        try:
            while True:
                total, available = _usage(os.fstatvfs(descriptor))
                kept = 0 if share is None else round((1 - share) * total)
                missing = min(available - kept, most)
                if missing < BLOCK:
                    break
                try:
                    os.posix_fallocate(descriptor, os.fstat(descriptor).st_size, missing)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise LabError(f"cannot fill the disk of {node}: {error.strerror}") from error
                    most = missing // 2  # what describes the blocks needs blocks too
        finally:
            os.close(descriptor)

    def _open_filler(self, node: str) -> int:
        """The filler, made by way of the folder that was looked at: whatever is mounted or unmounted meanwhile."""
        filler, opened = self._filler(node), []
        try:
            opened.append(os.open(self.path(node), os.O_RDONLY | os.O_DIRECTORY))
            if not diskfreeze.is_mounted(opened[0]):
                raise LabError(f"the disk of {node} is not mounted")
            with suppress(FileExistsError):
                os.mkdir(filler.parent.name, 0o700, dir_fd=opened[0])
            opened.append(os.open(filler.parent.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=opened[0]))
            return os.open(filler.name, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600, dir_fd=opened[1])
        finally:
            for each in opened:
                os.close(each)

    def empty(self, node: str) -> None:
        try:
            self._filler(node).unlink(missing_ok=True)
        except OSError as error:
            raise LabError(f"cannot take the filler off the disk of {node}: {error.strerror}") from error

    def filled(self, node: str) -> int:
        try:
            return self._filler(node).stat().st_blocks * 512
        except FileNotFoundError:
            return 0

    def _filler(self, node: str) -> Path:
        return self.path(node) / OURS / "filler"

    def is_read_only(self, node: str) -> bool:
        return takes_no_writes(Path("/proc/self/mounts").read_text(), self.path(node).resolve())

    def still_waits(self, node: str) -> bool:
        return any(each == node and child.poll() is None for each, child in list(self._lost))

    # ---- broken ---------------------------------------------------------------------------------

    def make_read_only(self, node: str) -> None:
        trigger = Path("/sys/fs/ext4") / self._loop(node).name / "trigger_fs_error"
        try:
            trigger.write_text("1")
        except OSError as error:
            raise LabError(f"cannot make the disk of {node} read-only: {error.strerror}") from error

    def fail(self, node: str) -> None:
        self._shut_down(node, FLUSHED)

    def cut_power(self, node: str) -> None:
        """What was not fsynced is lost, the node dies with it, and the disk is there again, without it."""
        self.require(node)
        self._shut_down(node, NO_LOG_FLUSH)
        self._lab.kill_node(node)
        _unmount(self.path(node))
        self._mount(node)

    def _shut_down(self, node: str, flag: int) -> None:
        self.require(node)
        descriptor = os.open(self.path(node), os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", flag))
        except OSError as error:
            if error.errno != errno.EIO:  # it is shut down already
                raise LabError(f"the disk of {node} cannot be shut down: {error.strerror}") from error
        finally:
            os.close(descriptor)

    def restore(self, node: str) -> None:
        """Kill the node, unmount, repair and mount again; nothing to do for a disk that takes writes.

        Of a service's disk no node is killed: nodes keep no file of it open for long, and what they write meanwhile is
        refused.
        """
        if self.mounted(node):
            self.thaw(node)
            answer = self.probe(node, "grow", timeout=_HEALTH_SECONDS)
            if answer.seconds is not None or answer.errno == errno.ENOSPC:
                return
            if node not in self._lab.topology.services:
                self._lab.kill_node(node)
            _unmount(self.path(node))
        device = f"/dev/{self._loop(node).name}"
        with self._beside(node):
            checked = _call("fsck.ext4", "-f", "-y", device)
        if checked.returncode >= 4:  # 1 and 2: it found errors and mended them
            raise LabError(f"the disk of {node} cannot be repaired: {checked.stdout.strip()[-300:]}")
        self._mount(node)

    # ---- measuring ------------------------------------------------------------------------------

    def probe(
        self,
        node: str,
        do: str,
        *,
        timeout: float,
        size: int = 4096,
        count: int = 1,
        sync: bool = True,
        whose: str | None = None,
        token: str = "",
    ) -> DiskAnswer:
        self.require(node)
        loop = self._loop(node)
        group = self._group(node, whose) if whose is not None else None
        asked = {
            "do": do,
            "file": str(self.path(node) / OURS / f"probe-{'growth' if do == 'grow' else 'mark' if token else 'data'}"),
            "size": size,
            "count": count,
            "sync": sync,
            "token": token,
            "procs": str(group / cgroups.PROCESSES) if group is not None else None,
            "stat": f"/sys/block/{loop.name}/stat",
        }
        child = self._spawn(node, diskprobe.__file__, json.dumps(asked))
        assert child.stdout is not None
        if _line(child.stdout.fileno(), time.monotonic() + START_SECONDS) != "started":
            child.kill()
            raise LabError(f"the probe of the disk of {node} did not start")
        text = _line(child.stdout.fileno(), time.monotonic() + timeout)
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
        if text is None:
            child.kill()  # it takes effect when the kernel lets it go
            self._lost.append((node, child))
            return DiskAnswer(blocked=True)
        child.wait(START_SECONDS)
        if not text:
            raise LabError(f"the probe of the disk of {node} ended without an answer")
        return DiskAnswer(**json.loads(text))

    def tidy(self, node: str) -> None:
        """Take probe files away, as far as the disk lets us."""
        self._lost = [(each, child) for each, child in self._lost if child.poll() is None]
        with suppress(LabError):
            self.probe(node, "tidy", timeout=2.0)

    def _spawn(self, node: str, script: str, argument: str) -> subprocess.Popen[bytes]:
        """In the node's host, so that whoever sweeps the lab finds it."""
        try:
            with self._beside(node):
                return subprocess.Popen(
                    [sys.executable, "-I", "-S", script, argument],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    start_new_session=True,
                )
        except OSError as error:
            raise LabError(f"cannot start a process at {node}: {error.strerror}") from error

    def problems(self) -> list[str]:
        """Every disk that is not as it was when the lab had just come up."""
        found = []
        for name in self.sizes:
            if not self.mounted(name):
                found.append(f"the disk of {name} is not mounted")
                continue
            answer = self.probe(name, "grow", timeout=_HEALTH_SECONDS)
            if answer.seconds is None:
                found.append(f"the disk of {name}: {answer}")
            if self._filler(name).exists():
                found.append(f"the disk of {name} holds a filler")
            limits = self._groups.built("io") and name not in self._lab.topology.services
            for whose in ("node", "others") if limits else ():
                group = self._group(name, whose)
                if group is not None and throttle.limit(group, self._groups.version("io"), self._loop(name).number):
                    found.append(f"the disk of {name} is slow for {whose}")
        return found


def _usage(state: os.statvfs_result) -> tuple[int, int]:
    return state.f_blocks * state.f_frsize, state.f_bavail * state.f_frsize


def empty_folder(folder: Path) -> None:
    """Everything in it goes but what a disk has of its own: a mount point cannot be removed."""
    for each in folder.iterdir() if folder.is_dir() else ():
        if each.name in NOT_DATA:
            continue
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)


def holds_data(folder: Path) -> bool:
    return any(each.name not in NOT_DATA for each in folder.iterdir())


# ---- found by name ------------------------------------------------------------------------------


class Mount(NamedTuple):
    """A line of a table of mounts (fstab(5))."""

    source: str
    point: Path
    options: frozenset[str]


def mounted(mounts: str) -> list[Mount]:
    """What is mounted, and where; ``mounts`` as in /proc/self/mounts, which escapes in octal."""
    rows = [line.split(" ") for line in mounts.splitlines()]
    return [
        Mount(_unescaped(fields[0]), Path(_unescaped(fields[1])), frozenset(",".join(fields[3:4]).split(",")))
        for fields in rows
        if len(fields) > 1
    ]


def takes_no_writes(mounts: str, point: Path) -> bool:
    """Whether what is mounted there last is read-only, by ``mounts`` as in /proc/self/mounts.

    After an error, ext4 of older kernels turns ``ro``. That of newer ones (seen: Linux 6.18) stays ``rw`` with
    ``emergency_ro``, of which statvfs(3) says nothing.
    """
    there = [mount for mount in mounted(mounts) if mount.point == point]
    return bool(there) and not READ_ONLY.isdisjoint(there[-1].options)


def mount_points(mounts: str, folder: Path) -> list[Path]:
    """Mount points at or below ``folder``, deepest last."""
    points = [mount.point for mount in mounted(mounts)]
    found = [point for point in points if point == folder or folder in point.parents]
    return sorted(found, key=lambda point: len(point.parts))


def _unescaped(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def mounts_below(folder: Path) -> list[Path]:
    """The kernel knows neither symbolic links nor relative paths."""
    return mount_points(Path("/proc/self/mounts").read_text(), folder.resolve())


def loops_below(folder: Path, blocks: Path = Path("/sys/block")) -> list[Loop]:
    """Attached loop devices whose backing file is below ``folder``, or was: a deleted one is still attached."""
    found, folder = [], folder.resolve()
    for file in blocks.glob("loop*/loop/backing_file"):
        try:
            backing = Path(file.read_text().rstrip("\n").removesuffix(" (deleted)"))
        except OSError:  # detached meanwhile
            continue
        if folder in backing.parents:
            found.append(Loop(file.parent.parent.name, backing))
    return sorted(found, key=lambda loop: loop.name)


def ids() -> set[str]:
    """Labs that have a mount or a loop device, whatever became of their folders."""
    top = paths.labs().resolve()
    held = [*mounts_below(top), *(loop.backing for loop in loops_below(top))]
    return {path.relative_to(top).parts[0] for path in held if path != top}


def describe(lab: str) -> list[str]:
    """Each mount and each loop device of a lab, in words."""
    folder = paths.labs() / lab
    found = [f"mount {point}" for point in mounts_below(folder)]
    return found + [f"loop device /dev/{loop.name} on {loop.backing}" for loop in loops_below(folder)]


def release(lab: str) -> None:
    """Let every write through again, so that processes which wait for one can die: thaw, and lift limits."""
    folder = paths.labs() / lab
    for point in mounts_below(folder):
        with suppress(OSError, LabError):
            _thaw(point)
    found = cgroups.hierarchies().get("io")
    if found is None:
        return
    top = found.root / f"{PREFIX}{lab}"
    for group in [path for path, _, _ in os.walk(top)]:
        for device in throttle.limited(Path(group), found.version):
            with suppress(OSError):
                throttle.set_limit(Path(group), found.version, device, None)
    if found.version == 1:
        _release_root(found.root, folder)


def _release_root(root: Path, folder: Path) -> None:
    """The root group's limits outlive a loop device, and would hit whoever gets that number next."""
    before: dict[str, Any] = {}
    for record in (folder / "run").glob("limit-*-others.json"):
        with suppress(OSError, ValueError, KeyError):
            data = json.loads(record.read_text())
            before[data["device"]] = data["rate"]
    for loop in loops_below(folder):
        with suppress(OSError):
            if throttle.limit(root, 1, loop.number) is not None:
                throttle.set_limit(root, 1, loop.number, before.get(loop.number))


def remove(lab: str) -> list[str]:
    """Unmount and detach everything of a lab whose processes are dead. Returns what would not go."""
    folder = paths.labs() / lab
    release(lab)
    problems = []
    for point in reversed(mounts_below(folder)):
        try:
            _unmount(point)
        except LabError as error:
            problems.append(str(error))
    if problems:
        return problems

    def detached() -> bool:
        for loop in loops_below(folder):
            _call("losetup", "-d", f"/dev/{loop.name}")
        return not loops_below(folder)

    if not wait_until(detached, UNMOUNT_SECONDS, every=0.1):
        problems += [f"loop device /dev/{loop.name} cannot be detached" for loop in loops_below(folder)]
    return problems


def _thaw(point: Path) -> None:
    try:
        diskfreeze.thaw(str(point))
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno not in (errno.EIO, errno.EROFS, errno.EOPNOTSUPP, errno.ENOTTY):
            raise LabError(f"{point} cannot be thawed: {error.strerror}") from error


def _unmount(point: Path) -> None:
    """Tried again while somebody who is just dying still has a file open. Raises LabError."""
    said, point = "", point.resolve()

    def gone() -> bool:
        nonlocal said
        if point not in mounts_below(point):
            return True
        done = _call("umount", str(point))
        said = done.stderr.strip()
        return point not in mounts_below(point)

    if not wait_until(gone, UNMOUNT_SECONDS, every=0.1):
        raise LabError(f"{point} cannot be unmounted: {said}")


def _call(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env={"PATH": loops.PATH, "LANG": "C"},
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{command[0]}: {error}") from error


def _line(descriptor: int, deadline: float) -> str | None:
    """One line of a pipe; None when none came by then, "" when the other end was closed first."""
    data = b""
    while not data.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            return None
        part = os.read(descriptor, 1)  # by the byte: what comes after the line is for the next call
        if not part:
            return ""
        data += part
    return data.decode().strip()
