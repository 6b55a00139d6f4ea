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
from typing import Any

from chaos.faults.moves import Events
from chaos.history import processors
from chaos.target.labs import usable
from chaos.target.labs.base import BaseLab
from chaos.target.labs.usable import Usable

LOOK_SECONDS = 5.0
"""Between two looks at affinities and cpusets."""
THROTTLE_SECONDS = 0.5
"""Between two looks at the counters of groups that have a quota; without such groups nothing is read."""
RUNNER, DRIVER = "runner", "load driver"


def of_lab(lab: BaseLab) -> dict[str, int]:
    """The processes of a lab's hosts as they run now, by words for them, with their pids."""
    found = {}
    for resident in lab.residents():
        what = "" if resident.what == "node" else "Toxiproxy of "
        if lab.lives(resident):
            found[f"{what}{resident.name}"] = resident.identity.pid
    return found


def planned() -> dict[str, Any]:
    """For the plan: what this process may use, and so what it starts."""
    try:
        mine = usable.of(os.getpid())
    except OSError:
        return {"processors": None, "of": len(usable.online()), "quota": None}
    return {"processors": sorted(sorted(mine.sets, key=len)[0]), "of": len(usable.online()), "quota": mine.quota}


def restricted(some: Mapping[str, Usable]) -> list[list[int]]:
    """Each different set of processors that is not all of them, in order."""
    found = {each for one in some.values() for each in one.sets if not each >= usable.online()}
    return sorted(map(sorted, found))


def look(pids: Mapping[str, int]) -> tuple[dict[str, Usable], list[str]]:
    """What each process may use, and of which that cannot be read. One that is gone is neither."""
    found, unknown = {}, []
    for who, pid in pids.items():
        try:
            found[who] = usable.of(pid)
        except (OSError, ValueError):
            if not pid or Path(f"/proc/{pid}").exists():
                unknown.append(who)
    return found, sorted(unknown)


class Processors:
    """The watch, in a thread of its own. ``others``: the processes beside this one, which may change."""

    def __init__(self, events: Events, others: Callable[[], dict[str, int]]) -> None:
        self._events, self._others = events, others
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
        return restricted(look(self._pids())[0])

    def start(self) -> None:
        """From now on what may be used is written down. Idempotent."""
        if self._thread.ident is None:
            self.look()
            self._thread.start()

    def stop(self) -> None:
        """Look once more and end; idempotent."""
        if self._over.is_set() or self._thread.ident is None:
            return
        self._over.set()
        self._thread.join()
        self.look()
        with suppress(OSError):
            self._events.write(processors.UNWATCHED, last=self._last, because=self._why)

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
        found, unknown = look(self._pids())
        who: dict[str, Any] = {}
        groups: dict[Path, list[str]] = {}
        for name, one in found.items():
            sets = restricted({name: one})
            if sets or one.quota is not None:
                by = (
                    "cpuset" if one.cpuset is not None and all(set(each) == one.cpuset for each in sets) else "affinity"
                )
                who[name] = {"sets": sets, "by": by, "quota": one.quota}
            for group in one.groups if one.quota is not None else ():
                if usable.quota(group) is not None:
                    groups.setdefault(group, []).append(name)
        says: dict[str, Any] = {"of": len(usable.online()), "sets": restricted(found), "who": who, "unknown": unknown}
        if says != self._said:
            self._events.write(processors.USABLE, **says)
            self._said = says
        self._groups, self._last = groups, began

    def _waits(self) -> None:
        """What the quotas made wait since the last look."""
        now: dict[Path, tuple[int, float]] = {}
        for group in self._groups:
            at, seconds = time.monotonic_ns(), usable.throttled(group)
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
            self._events.write(processors.THROTTLED, since=since, until=until, groups=grown)
        self._counted = now
