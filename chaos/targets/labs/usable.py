"""Which of this machine's processors a process may use: its affinity, its cpuset, and the quotas of its control groups.

A machine of two processors is one of one processor for what was started under ``taskset -c 0``, and a group with a
quota of half a processor waits for half of the time, however idle the machine is.

* *Affinity* is the kernel's word for each thread (``sched_getaffinity(2)``); it has the cpuset in it. Threads of one
  process may differ, so a process may have several sets.
* *Cpusets* are read beside it, to say which of the two it was: ``cpuset.cpus.effective`` (version 2),
  ``cpuset.effective_cpus`` or ``cpuset.cpus`` (version 1).
* *Quotas* count in every group from the process's own to the root: ``cpu.cfs_quota_us`` and ``cpu.cfs_period_us``
  (version 1), ``cpu.max`` (version 2). Whether one made anything wait says ``cpu.stat``: ``throttled_time`` in ns
  (version 1), ``throttled_usec`` in µs (version 2). See the kernel's admin-guide/cgroup-v1/cpusets.rst,
  admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from chaos.targets.labs.cgroups import Hierarchy

Numbers = frozenset[int]
"""Numbers of processors, as the kernel counts them."""

PROC = Path("/proc")
ONLINE = Path("/sys/devices/system/cpu/online")
CPUSETS = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")


@dataclass(frozen=True)
class Usable:
    """What one process may use.

    ``sets``: one for each different affinity of its threads. ``cpuset``: what its control group allows, None where
    that cannot be read. ``groups``: its group of the controller ``cpu`` and all above it, innermost first. ``quota``:
    processors' worth of time, None where no group limits it.
    """

    sets: tuple[Numbers, ...]
    cpuset: Numbers | None = None
    groups: tuple[Path, ...] = ()
    quota: float | None = None

    @property
    def number(self) -> int:
        """How many processors its narrowest thread may use at once, one at least."""
        fewest = min(map(len, self.sets), default=1)
        return max(1, fewest if self.quota is None else min(fewest, int(self.quota)))


def numbers(listed: str) -> Numbers:
    """``0-2,5`` → {0, 1, 2, 5}. Raises ValueError."""
    found: set[int] = set()
    for part in filter(None, listed.strip().split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)


@cache
def online() -> Numbers:
    """All processors that work on this machine."""
    with suppress(OSError, ValueError):
        return numbers(ONLINE.read_text())
    return frozenset(range(os.cpu_count() or 1))


def here() -> int:
    """How many processors this process may use, one at least."""
    try:
        return of(os.getpid()).number
    except OSError:
        return os.cpu_count() or 1


def of(pid: int, *, proc: Path = PROC, found: Iterable[tuple[str, Hierarchy]] | None = None) -> Usable:
    """What a process may use now. Raises OSError where that cannot be read, for example because it is gone.

    ``proc`` and ``found`` (controller → hierarchy) are this machine's unless they are given.
    """
    where = dict(_hierarchies() if found is None else found)
    cpuset = _cpuset(pid, proc, where)
    sets = _affinities(pid, proc)
    if cpuset:  # the kernel has it in the affinity already; folders that are made up have not
        sets = {each & cpuset or cpuset for each in sets}
    groups = tuple(_groups(pid, "cpu", proc, where))
    quotas = [each for group in groups if (each := quota(group)) is not None]
    return Usable(tuple(sorted(sets, key=sorted)), cpuset, groups, min(quotas, default=None))


def _affinities(pid: int, proc: Path) -> set[Numbers]:
    found: set[Numbers] = set()
    for thread in os.listdir(proc / str(pid) / "task"):
        with suppress(OSError):  # a thread that has ended since
            found.add(frozenset(os.sched_getaffinity(int(thread))) & online() or online())
    return found or {frozenset(os.sched_getaffinity(pid))}


def _hierarchies() -> list[tuple[str, Hierarchy]]:
    """Where this kernel has the controllers ``cpu`` and ``cpuset``."""
    found: dict[str, Hierarchy] = {}
    for line in (PROC / "mounts").read_text().splitlines():
        _, where, kind, options, *_ = line.split()
        if kind == "cgroup":
            for name in {"cpu", "cpuset"} & set(options.split(",")):
                found.setdefault(name, Hierarchy(Path(where), 1))
        elif kind == "cgroup2":
            with suppress(OSError):
                for name in {"cpu", "cpuset"} & set(Path(where, "cgroup.controllers").read_text().split()):
                    found.setdefault(name, Hierarchy(Path(where), 2))
    return list(found.items())


def _groups(pid: int, controller: str, proc: Path, found: dict[str, Hierarchy]) -> list[Path]:
    """The group of a process and all above it; what a container does not see of them is left out."""
    hierarchy = found.get(controller)
    if hierarchy is None:
        return []
    for line in (proc / str(pid) / "cgroup").read_text().splitlines():
        number, names, place = line.split(":", 2)
        if number == "0" if hierarchy.version == 2 else controller in names.split(","):
            own = hierarchy.root / place.lstrip("/")
            if not own.is_dir():  # a container's mount begins at its own group
                return [hierarchy.root]
            above = [each for each in own.parents if each.is_relative_to(hierarchy.root)]
            return [own, *above]
    return []


def _cpuset(pid: int, proc: Path, found: dict[str, Hierarchy]) -> Numbers | None:
    for group in _groups(pid, "cpuset", proc, found):
        for name in CPUSETS:
            with suppress(OSError, ValueError):
                if allowed := numbers((group / name).read_text()):
                    return allowed
    return None


def quota(group: Path) -> float | None:
    """How many processors' worth of time a group may use; None where it is not limited, or that cannot be read."""
    with suppress(OSError, ValueError):
        most, period = (group / "cpu.max").read_text().split()
        return None if most == "max" else int(most) / int(period)
    with suppress(OSError, ValueError):
        given = int((group / "cpu.cfs_quota_us").read_text())
        return given / int((group / "cpu.cfs_period_us").read_text()) if given > 0 else None
    return None


def throttled(group: Path) -> float | None:
    """Seconds in all for which a group has waited for its quota; None where that is not counted."""
    try:
        rows = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
        if "throttled_usec" in rows:
            return int(rows["throttled_usec"]) / 1e6
        return int(rows["throttled_time"]) / 1e9
    except (OSError, ValueError, KeyError):
        return None
