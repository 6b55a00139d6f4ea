"""Watches which of this machine's processors runner, load driver, nodes and Toxiproxies may use, and their quotas.

Somebody who starts a run under ``taskset -c 0``, in a cpuset or in a group with a quota gives it a smaller machine than
the one that it sees. What it was limited to is written down at first and whenever it changes (events of
:mod:`chaos.history.processors`); what follows from it is said in :mod:`chaos.checks.usable`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from chaos.checks.instrument import Begins, Context, Ends, Instrument, Observer, ProcessorSets
from chaos.history.events import MachineThrottled, MachineUnwatched, MachineUsable
from chaos.history.writer import Events

LOOK_SECONDS = 5.0
"""Between two looks at affinities and cpusets."""
THROTTLE_SECONDS = 0.5
"""Between two looks at the counters of groups that have a quota; without such groups nothing is read."""
RUNNER = "runner"


class Usable(Protocol):
    """What one process may use, see :class:`chaos.targets.labs.usable.Usable`."""

    @property
    def sets(self) -> tuple[frozenset[int], ...]: ...
    @property
    def cpuset(self) -> frozenset[int] | None: ...
    @property
    def quota(self) -> float | None: ...
    @property
    def groups(self) -> tuple[Path, ...]: ...


class Machine(Protocol):
    """What the kernel says of processors: the module :mod:`chaos.targets.labs.usable`."""

    def online(self) -> frozenset[int]: ...
    def of(self, pid: int) -> Usable: ...
    def quota(self, group: Path) -> float | None: ...
    def throttled(self, group: Path) -> float | None: ...


def restricted(some: Mapping[str, Usable], machine: Machine) -> list[list[int]]:
    """Each different set of processors that is not all of them, in order."""
    found = {each for one in some.values() for each in one.sets if not each >= machine.online()}
    return sorted(map(sorted, found))


def look(pids: Mapping[str, int], machine: Machine) -> tuple[dict[str, Usable], list[str]]:
    """What each process may use, and of which that cannot be read. One that is gone is neither."""
    found: dict[str, Usable] = {}
    unknown = []
    for who, pid in pids.items():
        try:
            found[who] = machine.of(pid)
        except (OSError, ValueError):
            if not pid or Path(f"/proc/{pid}").exists():
                unknown.append(who)
    return found, sorted(unknown)


class Processors(Observer, ProcessorSets):
    """The watch, in a thread of its own. ``others``: the processes beside this one, which may change."""

    def __init__(self, events: Events, others: Callable[[], dict[str, int]], machine: Machine) -> None:
        self._events, self._others, self._machine = events, others, machine
        self._said: dict[str, Any] | None = None
        self._groups: dict[Path, list[str]] = {}
        """Groups with a quota, and who is in them."""
        self._counted: dict[Path, tuple[int, float]] = {}
        """(when, seconds of waiting until then)"""
        self._last: int | None = None
        self._why: str | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="processors", daemon=True)

    def sets(self) -> list[list[int]]:
        """What the processes that run now are held to: what the load driver measures apart."""
        return restricted(look(self._pids(), self._machine)[0], self._machine)

    def start(self) -> None:
        """From now on what may be used is written down. Idempotent."""
        if self._thread.ident is None:
            self.look()
            self._thread.start()

    def stop(self, *, patient: bool = True) -> None:
        """Look once more and end; idempotent."""
        if self._over.is_set() or self._thread.ident is None:
            return
        self._over.set()
        self._thread.join()
        self.look()
        with suppress(OSError):
            MachineUnwatched(last=self._last, because=self._why).write(self._events)

    def look(self) -> None:
        """Write down what has changed. Never raises."""
        try:
            self._limits()
            self._waits()
        except Exception as error:  # then it is not known, and the record says so
            self._why = self._why or f"{type(error).__name__}: {error}"

    def _pids(self) -> dict[str, int]:
        return {RUNNER: os.getpid(), **self._others()}

    def _run(self) -> None:
        due = time.monotonic() + LOOK_SECONDS
        while not self._over.wait(THROTTLE_SECONDS if self._groups else LOOK_SECONDS):
            if time.monotonic() < due:
                with suppress(OSError):
                    self._waits()
                continue
            due = time.monotonic() + LOOK_SECONDS
            self.look()

    def _limits(self) -> None:
        began = time.monotonic_ns()
        found, unknown = look(self._pids(), self._machine)
        who: dict[str, Any] = {}
        groups: dict[Path, list[str]] = {}
        for name, one in found.items():
            sets = restricted({name: one}, self._machine)
            if sets or one.quota is not None:
                by = (
                    "cpuset" if one.cpuset is not None and all(set(each) == one.cpuset for each in sets) else "affinity"
                )
                who[name] = {"sets": sets, "by": by, "quota": one.quota}
            for group in one.groups if one.quota is not None else ():
                if self._machine.quota(group) is not None:
                    groups.setdefault(group, []).append(name)
        says: dict[str, Any] = {
            "of": len(self._machine.online()),
            "sets": restricted(found, self._machine),
            "who": who,
            "unknown": unknown,
        }
        if says != self._said:
            MachineUsable(**says).write(self._events)
            self._said = says
        self._groups, self._last = groups, began

    def _waits(self) -> None:
        """What the quotas made wait since the last look."""
        now: dict[Path, tuple[int, float]] = {}
        for group in self._groups:
            at, seconds = time.monotonic_ns(), self._machine.throttled(group)
            if seconds is not None:
                now[group] = at, seconds
        grown = {}
        for group, (_, seconds) in now.items():
            before = self._counted.get(group)
            if before is not None and seconds > before[1]:
                grown[str(group)] = {"seconds": round(seconds - before[1], 6), "who": sorted(self._groups[group])}
        if grown:
            since = min(self._counted[Path(group)][0] for group in grown)
            until = max(now[Path(group)][0] for group in grown)
            MachineThrottled(since=since, until=until, groups=grown).write(self._events)
        self._counted = now


def _observe(context: Context) -> Processors:
    return Processors(context.events, context.processes, context.machine)


INSTRUMENT = Instrument(
    name="processors",
    says="which of this machine's processors the run may use, and what quotas made wait",
    observe=_observe,
    begins=Begins.LOAD,
    ends=Ends.LOAD,
    order=100,
)
