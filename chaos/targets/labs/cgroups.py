"""Control groups of a local lab: who gets the processors when there are not enough, and handles for faults.

``oschaos-<lab>`` in every hierarchy that the kernel has, below it one group per zone, below that one per node, and one
for the instruments, which are the Toxiproxies, the load driver and failover controllers::

    oschaos-ab12
      instruments        first in line: a link's delay and a request's start must not depend on what a node burns
      zone-a             zones share alike, as zones do that share no machine:
        a-cm             a node that starts or recovers in one zone takes nothing from another
        a-data           and those who serve come before dedicated managers
        echo             what tells whether this machine can decide an objective, with a data node's share

Works with version 1 (one hierarchy per controller) and version 2 (one for all). A lab comes up without them too,
for example in a container that may not write there: then it lacks the faults that need them, and says so.
Names are enough to find and remove them; see :mod:`chaos.targets.labs.sweep`.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chaos.base.errors import LabError
from chaos.base.paths import PREFIX

CONTROLLERS = ("cpu", "memory", "io")
V1_NAMES = {"cpu": "cpu", "cpuacct": "cpuacct", "memory": "memory", "io": "blkio"}
"""Version 1 counts processor time (``cpuacct``) apart from limiting it, often but not always in one hierarchy."""
INSTRUMENTS = "instruments"
ECHO = "echo"
SHARE = 1024
"""Weight of one group in version 1's scale, whose default it is; version 2's is 100."""
INSTRUMENT_SHARES = 8
LAB_SHARES = 2
"""Of a whole lab against any other process group: the load driver, which is one, must never wait long."""
DATA_SHARES = 8
"""Of a node that holds data, against 1 of a dedicated cluster manager in the same zone: in production a manager has a
machine of its own, the smaller one, and what it burns at an election takes nothing from those who serve."""
PROCESSES = "cgroup.procs"


@dataclass(frozen=True)
class Hierarchy:
    """Where one controller's groups are. ``version`` 1 or 2."""

    root: Path
    version: int


def hierarchies(mounts: str | None = None) -> dict[str, Hierarchy]:
    """The hierarchy of each controller that this kernel offers, by controller (``cpu``, ``memory``, ``io``)."""
    found: dict[str, Hierarchy] = {}
    for line in (mounts if mounts is not None else Path("/proc/mounts").read_text()).splitlines():
        _, where, kind, options, *_ = line.split()
        if kind == "cgroup":
            for controller, name in V1_NAMES.items():
                if name in options.split(","):
                    found.setdefault(controller, Hierarchy(Path(where), 1))
        elif kind == "cgroup2":
            with suppress(OSError):
                offered = Path(where, "cgroup.controllers").read_text().split()
                for controller in set(offered) & set(CONTROLLERS):
                    found.setdefault(controller, Hierarchy(Path(where), 2))
    return found


def usable(controller: str) -> bool:
    """Whether groups of this controller could be made on this machine, asked without making any."""
    hierarchy = hierarchies().get(controller)
    return hierarchy is not None and os.access(hierarchy.root, os.W_OK)


def enter(group: Path, pid: int) -> None:
    """Put a process, all its threads included, into a group; fine when it is gone."""
    try:
        (group / PROCESSES).write_text(str(pid))
    except ProcessLookupError:
        return
    except OSError as error:
        raise LabError(f"cannot put process {pid} into {group}: {error.strerror}") from error


class Groups:
    """The control groups of one lab. Nothing exists before :meth:`build`."""

    def __init__(self, lab: str, found: dict[str, Hierarchy] | None = None) -> None:
        self.name = f"{PREFIX}{lab}"
        self._found = hierarchies() if found is None else found

    def build(self, zones: Iterable[str], nodes: Mapping[tuple[str, str], int]) -> None:
        """Make the groups; ``nodes``: (zone, node) → how many shares. Raises LabError (then :meth:`remove`)."""
        try:
            for hierarchy in self._roots():
                top = hierarchy.root / self.name
                if hierarchy.version == 2:
                    self._delegate(hierarchy.root)
                top.mkdir(exist_ok=True)
                groups = [top / INSTRUMENTS, *(top / f"zone-{zone}" for zone in zones)]
                groups += [top / f"zone-{zone}" / node for zone, node in nodes]
                for group in groups:
                    if hierarchy.version == 2:
                        self._delegate(group.parent)
                    group.mkdir(exist_ok=True)
            if "cpu" in self._found:
                self._weigh(self._top("cpu"), LAB_SHARES)
                self._weigh(self._top("cpu") / INSTRUMENTS, INSTRUMENT_SHARES)
                for (zone, node), shares in nodes.items():
                    self._weigh(self._top("cpu") / f"zone-{zone}" / node, shares)
        except OSError as error:
            raise LabError(f"cannot make control groups: {error.strerror} ({error.filename})") from error

    def built(self, controller: str) -> bool:
        return controller in self._found and self._top(controller).is_dir()

    def place(self, pid: int, *path: str) -> None:
        """Put a process, all its threads included, into a group (``"zone-a", "a-data"``), where that exists."""
        for group in self._of(*path):
            enter(group, pid)

    def admit(self, uid: int, *path: str) -> list[Path]:
        """Let processes of this user join a group, from any of the lab's. Returns that group in each hierarchy."""
        found = self._of(*path)
        for group in found:
            os.chown(group / PROCESSES, uid, -1)
        for hierarchy in self._roots():
            if hierarchy.version == 2:  # who moves a process there needs to write to what both groups are below
                top = hierarchy.root / self.name
                if top.is_dir():
                    os.chown(top / PROCESSES, uid, -1)
        return found

    def _of(self, *path: str) -> list[Path]:
        """A group in each hierarchy that has it."""
        groups = [hierarchy.root.joinpath(self.name, *path) for hierarchy in self._roots()]
        return [group for group in groups if group.is_dir()]

    def folder(self, controller: str, *path: str) -> Path:
        """The folder of a group. Raises LabError when the lab has none of this controller."""
        if not self.built(controller):
            raise LabError(f"there are no control groups for '{controller}' here")
        return self._top(controller).joinpath(*path)

    def version(self, controller: str) -> int:
        return self._found[controller].version

    def root(self, controller: str) -> Path:
        """The group of everybody on this machine."""
        return self._found[controller].root

    def remove(self, seconds: float = 5.0) -> list[str]:
        """Take all groups away, once their processes are dead. Returns what would not go."""
        problems = []
        for hierarchy in self._roots():
            top = hierarchy.root / self.name
            deadline = time.monotonic() + seconds
            while top.is_dir():
                try:
                    for folder, _, _ in os.walk(top, topdown=False):
                        os.rmdir(folder)
                except FileNotFoundError:
                    continue  # another process removes them too
                except OSError as error:
                    if error.errno != errno.EBUSY or time.monotonic() > deadline:
                        problems.append(f"control group {top}: {error.strerror}")
                        break
                    time.sleep(0.02)  # a killed process leaves its group a moment after it is dead
        return problems

    def _top(self, controller: str) -> Path:
        return self._found[controller].root / self.name

    def _roots(self) -> list[Hierarchy]:
        return list(dict.fromkeys(self._found.values()))

    def _delegate(self, group: Path) -> None:
        """Version 2: let the groups below have controllers."""
        with suppress(OSError):
            wanted = [name for name, hierarchy in self._found.items() if hierarchy.version == 2]
            (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in wanted))

    def _weigh(self, group: Path, times: int) -> None:
        if self.version("cpu") == 1:
            (group / "cpu.shares").write_text(str(SHARE * times))
        else:
            (group / "cpu.weight").write_text(str(min(10_000, 100 * times)))


def ids() -> set[str]:
    """Labs that have groups on this machine."""
    roots = {hierarchy.root for hierarchy in hierarchies().values()}
    return {path.name.removeprefix(PREFIX) for root in roots for path in root.glob(f"{PREFIX}*") if path.is_dir()}
