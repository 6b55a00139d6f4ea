"""What only a node's own host can tell: its control groups, and its disk.

The files of control groups are for everybody to read, so they are asked for by ssh alone. A disk is looked at and
measured on by the program for hosts. Nothing here changes anything.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

from chaos.base.errors import FaultError, LabError, Lacking
from chaos.targets.existing.hosts import LOOK_SECONDS, Hosts
from chaos.targets.limits import (
    COUNTERS,
    NO_LIMIT,
    MemoryUse,
    ProcessorUse,
    limiting,
    memory_use,
    processor_use,
)
from chaos.targets.protocol import DiskAnswer

UPTIME = "/proc/uptime"
"""Its first word: seconds since the host was booted."""


class TheirGroups:
    """Control groups of nodes. Every method raises Lacking where a node has no host in the file, or no group of its
    own there; LabError where the host gives no answer."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts

    def limits(self, node: str, controller: str) -> dict[str, str]:
        version, folder, _ = self._group(node, controller)
        found = self._read(node, {file: f"{folder}/{file}" for file in NO_LIMIT[controller, version]})
        if not found:
            self._unread(node, folder)
        return limiting(controller, version, found)

    def processor_use(self, node: str) -> ProcessorUse:
        """With the host's own clock: how long the way there takes does not matter."""
        version, folder, accounting = self._group(node, "cpu")
        files = {file: f"{folder}/{file}" for file in COUNTERS["cpu", version]}
        if version == 1:
            files |= {file: f"{accounting}/{file}" for file in COUNTERS["cpuacct", version]}
        found = self._read_all(node, files | {UPTIME: UPTIME})
        return replace(processor_use(found), at=float(found[UPTIME].split()[0]))

    def memory_use(self, node: str) -> MemoryUse:
        version, folder, _ = self._group(node, "memory")
        return memory_use(self._read_all(node, {file: f"{folder}/{file}" for file in COUNTERS["memory", version]}))

    def _group(self, node: str, controller: str) -> tuple[int, str, str]:
        """Its version and folder, and where processor time is counted in version 1."""
        require_host(self._hosts, node)
        found = self._hosts.group(node, controller)
        if found is None:
            raise Lacking(
                f"{self._hosts.of_nodes[node]}: {node} has no control group of its own for {controller}",
                remedy="run it in a unit of its own; see there: sudo oschaos-host facts",
            )
        return int(found["version"]), str(found["folder"]), str(found.get("accounting", ""))

    def _read(self, node: str, files: dict[str, str]) -> dict[str, str]:
        """``files``: name → path. By name what is in those that are there."""
        found = self._hosts.of(node).read(files.values())
        return {name: found[path] for name, path in files.items() if path in found}

    def _read_all(self, node: str, files: dict[str, str]) -> dict[str, str]:
        found = self._read(node, files)
        for name, path in files.items():
            if name not in found:
                self._unread(node, path)
        return found

    def _unread(self, node: str, path: str) -> NoReturn:
        self._hosts.forget(node)  # it may have another group by now
        raise LabError(f"{self._hosts.of_nodes[node]}: {path} of {node} cannot be read")


class TheirDisks:
    """Disks of nodes, as far as they can be looked at. A write that is measured goes into a file that ends with it, so
    each is one that grows, and nothing is left to be tidied."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts

    def usage(self, node: str) -> tuple[int, int]:
        found = self._look(node)
        return int(found["bytes"]), int(found["free"])

    def filled(self, node: str) -> int:
        return int(self._look(node)["filled"])

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
        """``whose``: None, or node: then with the limits that the node has."""
        if do not in ("write", "grow") or not sync or whose not in (None, "node") or token:
            self._none()
        limited: dict[str, Any] = {} if whose is None else {"as_node": True}
        found = self._ask(node, timeout, do="write", size=size, count=count, **limited)
        known = ("seconds", "errno", "blocked", "device_bytes")
        return DiskAnswer(**{key: found[key] for key in known if key in found})

    def throttled(self, node: str, whose: str) -> int | None:
        """Bytes per second that the node may write; of all others nothing is limited, and nothing is known."""
        limit = self._look(node)["write_limit"] if whose == "node" else None
        return None if limit is None else int(limit)

    def tidy(self, node: str) -> None:
        return

    def _look(self, node: str) -> dict[str, Any]:
        found = self._ask(node, LOOK_SECONDS, do="look")
        if "bytes" not in found:
            raise LabError(f"{self._hosts.of_nodes[node]}: the disk of {node} gives no answer")
        return found

    def _ask(self, node: str, timeout: float, **asked: Any) -> dict[str, Any]:
        require_host(self._hosts, node)
        try:
            return self._hosts.call(
                node, "probe", {"node": node, "within": timeout, **asked}, within=timeout + LOOK_SECONDS
            )
        except FaultError as error:
            raise Lacking(error.message, remedy=error.remedy) from error

    def _none(self, *_: Any, **__: Any) -> NoReturn:
        raise LabError("the disks of this cluster are not ours: they are looked at, and filled by its hosts' program")

    freeze = thaw = throttle = unthrottle = fill = empty = _none
    is_read_only = still_waits = _none
    make_read_only = fail = cut_power = restore = problems = _none


def require_host(hosts: Hosts, node: str) -> None:
    if node not in hosts.of_nodes:
        raise Lacking(f"the file names no host of {node}", remedy=f"write ssh under nodes, {node}")
    if not hosts.ready(node):
        raise Lacking(f"nothing is on the host of {node} that could be asked before a run has begun")
