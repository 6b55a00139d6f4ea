"""What a node's control group lets it have, and what the kernel counts of it.

Values are kept as the kernel's own words, file by file, so that what was there comes back exactly. Version 1 has one
file for each thing and no word for "none" but the largest number; version 2 says ``max``. A *squeeze* limits memory
and never ends in a kill: version 2 has ``memory.high`` for that, in version 1 the group's killer is switched off, and a
process that needs more waits until there is more.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psutil

from chaos.base.errors import LabError

PERIOD_MICROSECONDS = 100_000
"""Of a quota; the kernel's own default."""
NO_LIMIT = {
    ("cpu", 1): {"cpu.cfs_period_us": str(PERIOD_MICROSECONDS), "cpu.cfs_quota_us": "-1"},
    ("cpu", 2): {"cpu.max": f"max {PERIOD_MICROSECONDS}"},
    ("memory", 1): {
        "memory.memsw.limit_in_bytes": "-1",
        "memory.limit_in_bytes": "-1",
        "memory.oom_control": "0",
        "memory.swappiness": "60",
    },
    ("memory", 2): {"memory.high": "max", "memory.max": "max", "memory.swap.max": "max"},
}
"""The files that limit, by controller and version, with what a new group has in them."""
UNLIMITED_BYTES = 1 << 62
"""Version 1 shows no limit as the largest number of whole pages."""
LARGE_MAPPING = 8 << 20
"""Bytes from which on a private mapping is a heap's and not a thread's stack, which is never touched whole."""
COUNTERS = {
    ("cpu", 1): ("cpu.stat",),
    ("cpu", 2): ("cpu.stat",),
    ("cpuacct", 1): ("cpuacct.usage",),
    ("memory", 1): ("memory.stat", "memory.usage_in_bytes", "memory.failcnt", "memory.oom_control"),
    ("memory", 2): ("memory.stat", "memory.current", "memory.events"),
}
"""The files that count, by controller and version."""
RECLAIM_SECONDS = 10.0
"""How long a limit below the present use is tried: version 1 refuses it until enough has been taken back."""


@dataclass(frozen=True)
class ProcessorUse:
    """Since the group was made: processor seconds, and the periods of a quota in which it was used up."""

    seconds: float
    throttled: int
    at: float = field(default_factory=time.monotonic, compare=False)
    """When that was so (s), on a clock of the node's own host or of ours."""


@dataclass(frozen=True)
class MemoryUse:
    """``held``: bytes that no dropping of file pages frees. The rest are counts since the group was made."""

    held: int
    failures: int
    oom_kills: int
    major_faults: int


class Where(Protocol):
    """Where the groups of a lab are: :class:`chaos.targets.labs.cgroups.Groups`, or an engine's."""

    def built(self, controller: str) -> bool: ...

    def version(self, controller: str) -> int: ...

    def folder(self, controller: str, *path: str) -> Path: ...


class Limits:
    """Limits and counters of the groups of one lab. Every method raises LabError where there is no such group."""

    def __init__(self, groups: Where) -> None:
        self._groups = groups

    def lack(self, controller: str) -> str | None:
        """Why groups of this lab can not be limited and counted; None when they can."""
        counted = self._groups.built(controller)
        if counted and controller == "cpu" and self._groups.version("cpu") == 1:
            counted = self._groups.built("cpuacct")
        return None if counted else f"this lab has no control groups for '{controller}'"

    def values(self, controller: str, *path: str) -> dict[str, str]:
        """Everything that limits a group now, by file, in the order in which :meth:`restore` writes it."""
        folder, version = self._groups.folder(controller, *path), self._groups.version(controller)
        there = [file for file in NO_LIMIT[controller, version] if (folder / file).exists()]
        return limiting(controller, version, {file: _read(folder / file) for file in there})

    def restore(self, controller: str, values: Mapping[str, str], *path: str) -> None:
        """Write what :meth:`values` found; nothing found means no limit. Idempotent."""
        folder, version = self._groups.folder(controller, *path), self._groups.version(controller)
        wanted = dict(values) or {f: v for f, v in NO_LIMIT[controller, version].items() if (folder / f).exists()}
        for file, text in wanted.items():
            try:
                _write(folder / file, text)
            except LabError:
                if file != "memory.memsw.limit_in_bytes":
                    raise
                # never below the limit without swap, which comes next: then again
        if "memory.memsw.limit_in_bytes" in wanted:
            _write(folder / "memory.memsw.limit_in_bytes", wanted["memory.memsw.limit_in_bytes"])

    def set_by_somebody(self, controller: str, *path: str) -> dict[str, str]:
        """Of :meth:`values` those that a new group does not have."""
        fresh = NO_LIMIT[controller, self._groups.version(controller)]
        found = {}
        for file, text in self.values(controller, *path).items():
            unlimited = fresh[file] == "-1" and int(text) >= UNLIMITED_BYTES
            if text != fresh[file] and not unlimited and file != "memory.swappiness":  # a system has its own
                found[file] = text
        return found

    def quota(self, processors: float, *path: str) -> None:
        """At most so many processors' time, in every period of 100 ms."""
        folder = self._groups.folder("cpu", *path)
        quota = round(processors * PERIOD_MICROSECONDS)
        if self._groups.version("cpu") == 1:
            _write(folder / "cpu.cfs_period_us", str(PERIOD_MICROSECONDS))
            _write(folder / "cpu.cfs_quota_us", str(quota))
        else:
            _write(folder / "cpu.max", f"{quota} {PERIOD_MICROSECONDS}")

    def squeeze(self, size: int, *path: str) -> None:
        """At most ``size`` bytes, what is more being taken back from file pages; nothing is killed or swapped out."""
        folder = self._groups.folder("memory", *path)
        if self._groups.version("memory") == 1:
            _write(folder / "memory.swappiness", "0")
            _write(folder / "memory.oom_control", "1")
            _write_limit(folder / "memory.limit_in_bytes", size)
        else:
            _write(folder / "memory.swap.max", "0", missing=True)
            _write(folder / "memory.high", str(size))

    def strangle(self, size: int, *path: str) -> None:
        """At most ``size`` bytes, swap included; whoever needs more makes the kernel kill in this group."""
        folder = self._groups.folder("memory", *path)
        if self._groups.version("memory") == 1:
            _write(folder / "memory.oom_control", "0")
            _write_limit(folder / "memory.limit_in_bytes", size)
            _write(folder / "memory.memsw.limit_in_bytes", str(size), missing=True)
        else:
            _write(folder / "memory.swap.max", "0", missing=True)
            _write(folder / "memory.max", str(size))

    def processor_use(self, *path: str) -> ProcessorUse:
        counted = self._counted("cpu", *path)
        if self._groups.version("cpu") == 1:
            counted |= self._counted("cpuacct", *path)
        return processor_use(counted)

    def memory_use(self, *path: str) -> MemoryUse:
        return memory_use(self._counted("memory", *path))

    def _counted(self, controller: str, *path: str) -> dict[str, str]:
        folder = self._groups.folder(controller, *path)
        return {file: _read(folder / file) for file in COUNTERS[controller, self._groups.version(controller)]}


def limiting(controller: str, version: int, held: Mapping[str, str]) -> dict[str, str]:
    """What limits a group, by file. ``held``: what is in its files; a kernel without accounting of swap lacks some."""
    found = {file: held[file] for file in NO_LIMIT[controller, version] if file in held}
    if "memory.oom_control" in found:
        found["memory.oom_control"] = _table(found["memory.oom_control"])["oom_kill_disable"]
    return found


def processor_use(held: Mapping[str, str]) -> ProcessorUse:
    """``held``: what is in a group's :data:`COUNTERS`, those of ``cpuacct`` with them."""
    counts = _table(held["cpu.stat"])
    usage = held.get("cpuacct.usage")
    spent = int(counts["usage_usec"]) / 1e6 if usage is None else int(usage) / 1e9
    return ProcessorUse(spent, int(counts.get("nr_throttled", 0)))


def memory_use(held: Mapping[str, str]) -> MemoryUse:
    """``held``: what is in a group's :data:`COUNTERS`."""
    counts = {name: int(value) for name, value in _table(held["memory.stat"]).items()}
    if "memory.failcnt" in held:  # version 1
        cache, usage = counts["cache"], int(held["memory.usage_in_bytes"])
        failures = int(held["memory.failcnt"])
        kills = int(_table(held["memory.oom_control"])["oom_kill"])
    else:
        cache, usage = counts["file"], int(held["memory.current"])
        events = {name: int(value) for name, value in _table(held["memory.events"]).items()}
        failures, kills = events["high"] + events["max"], events["oom_kill"]
    kept = max(usage - max(cache - counts.get("shmem", 0), 0), 0)
    return MemoryUse(kept, failures, kills, counts["pgmajfault"])


def untouched(pid: int) -> int:
    """Bytes that a process may write to at any moment and so far has not: the part of a heap that is not there yet.

    A limit that forgot them would be one on the heap. 0 when the process is gone.
    """
    try:
        maps = psutil.Process(pid).memory_maps(grouped=False)
    except psutil.Error:
        return 0
    return sum(
        each.size - each.rss
        for each in maps
        if each.path in ("[anon]", "[heap]") and each.perms.startswith("rw") and each.size >= LARGE_MAPPING
    )


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError as error:
        raise LabError(f"cannot read {file}: {error.strerror}") from error


def _write(file: Path, text: str, *, missing: bool = False) -> None:
    """``missing``: where the kernel has no such file, there is nothing to limit."""
    if missing and not file.exists():
        return
    try:
        file.write_text(text)
    except OSError as error:
        raise LabError(f"cannot write {text} to {file}: {error.strerror}") from error


def _write_limit(file: Path, size: int) -> None:
    deadline = time.monotonic() + RECLAIM_SECONDS
    while True:
        try:
            file.write_text(str(size))
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise LabError(f"cannot limit {file} to {size} bytes: {error.strerror}") from error
            time.sleep(0.05)


def _table(text: str) -> dict[str, str]:
    """Lines of a name and a value."""
    return dict(line.split(None, 1) for line in text.splitlines() if " " in line)
