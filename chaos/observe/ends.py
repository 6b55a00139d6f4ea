"""Watches the processes of a run, and says at once when one ends.

A node that dies under a fault is the best find that there is, or a third hand that spoils the run; either way nobody
may wait for it to come back. The kernel tells of each end by a descriptor (pidfd), so watching costs nothing. How it
ended comes from whoever was its parent (:mod:`chaos.target.labs.processes`), from the kernel's count of kills for want
of memory, from its log and from the JVM's own report. What is written: :mod:`chaos.history.ends`.
"""

from __future__ import annotations

import os
import select
import shutil
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chaos.base.errors import ChaosError
from chaos.faults.moves import Events
from chaos.history import during, ends
from chaos.target.labs.base import BaseLab, Resident
from chaos.target.labs.processes import wait_until

ASK_AGAIN_SECONDS = 0.2
"""How often a host without a process is looked at for a new one."""
ASK_AN_ENGINE_SECONDS = 3.0
"""How often a process is asked for whose end the kernel does not tell us: an engine takes some ms for each."""
TOLD_SECONDS = 10.0
"""How long the parent of a process that has ended may take to say how: it needs a processor, like everybody."""

Fact = dict[str, Any]


@dataclass
class Ours:
    """A process that is a child of this one. ``commanded``: whether its end has been asked for."""

    what: str
    name: str
    zone: str | None
    pid: int
    code: Callable[[], int | None]
    commanded: Callable[[], bool]
    log: Path


@dataclass
class _Watched:
    """One process, its descriptor (None: it is asked for), and where things stood when the watch began."""

    of: Resident | Ours
    descriptor: int | None
    log_from: int
    kills: int | None
    report: tuple[int, int] | None
    asked: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class _Allowed:
    """Nodes whose processes others may end, and when (monotonic ns; ``until`` None: still)."""

    phase: str
    nodes: frozenset[str]
    since: int
    until: int | None = None


class Ends:
    """The watch, in a thread of its own. ``unasked`` is called with the facts of each end that no move asked for."""

    def __init__(self, lab: BaseLab, events: Events, logs: Path, unasked: Callable[[Fact], None]) -> None:
        self._lab, self._events, self._logs, self._unasked = lab, events, logs, unasked
        self._poll = select.poll()
        self._watched: dict[tuple[str, str], _Watched] = {}
        self._absent: dict[tuple[str, str], tuple[Resident, int]] = {}
        """Who was there last, and where its log ended: what comes after is its successor's."""
        self._told = False
        """Whether the kernel tells of ends here; else an engine is asked, which takes longer."""
        self._looked = 0.0
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._allowed: list[_Allowed] = []
        self._why: str | None = None
        self._thread = threading.Thread(target=self._run, name="ends", daemon=True)

    def start(self) -> None:
        """Watch every process of the lab that runs now, and whatever takes its place."""
        for resident in self._lab.residents():
            try:
                self._watch(resident)
            except ProcessLookupError:  # before the run began: nobody can say when
                self._absent[resident.what, resident.name] = (resident, self._lab.log_end(resident.log))
        names = [f"{what} {name}" for what, name in self._watched]
        self._events.write(ends.WATCHED, processes=names)
        self._thread.start()

    def add(self, ours: Ours) -> None:
        """Watch a child of this process too."""
        with suppress(ProcessLookupError):  # whoever started it looks at that itself
            self._watch(ours)

    def allow(self, phase: str, nodes: Collection[str]) -> None:
        """From now on others may end these nodes' processes, from outside: the phase waits for that."""
        self._allowed = [*self._allowed, _Allowed(phase, frozenset(nodes), time.monotonic_ns())]

    def allow_no_more(self) -> None:
        """What ends from now on is unasked again; idempotent."""
        now = time.monotonic_ns()
        self._allowed = [each if each.until is not None else replace(each, until=now) for each in self._allowed]

    def stop(self) -> None:
        """End the watch; idempotent. Ends that have come by now are still written down."""
        if self._over.is_set():
            return
        self._over.set()
        if self._thread.ident is None:
            return
        self._thread.join()
        with self._lock:
            for each in self._watched.values():
                if each.descriptor is not None:
                    os.close(each.descriptor)
            self._watched.clear()
        with suppress(OSError):
            self._events.write(ends.UNWATCHED, because=self._why)

    # ---- watching -------------------------------------------------------------------------------

    def _watch(self, of: Resident | Ours, log_from: int | None = None) -> None:
        """Raises ProcessLookupError when it is dead."""
        if isinstance(of, Resident):
            descriptor = self._lab.pidfd(of)
            start = self._lab.log_end(of.log) if log_from is None else log_from
            each = _Watched(of, descriptor, start, self._lab.oom_kills(of), _stamp(self._lab.crash_report(of)))
        else:
            descriptor = _own_pidfd(of.pid)
            each = _Watched(of, descriptor, _size(of.log), None, None)
        with self._lock:
            self._watched[of.what, of.name] = each
        if descriptor is not None:
            self._told = True
            self._poll.register(descriptor, select.POLLIN)

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self._turn(ASK_AGAIN_SECONDS)
            self._turn(0.0)
        except Exception as error:  # then nobody watches, and the record says so
            self._why = f"{type(error).__name__}: {error}"

    def _turn(self, seconds: float) -> None:
        ready = {descriptor for descriptor, _ in self._poll.poll(seconds * 1000)}
        gone = time.monotonic_ns()
        with self._lock:
            watched = list(self._watched.items())
        now = time.monotonic()
        for key, each in watched:
            if each.descriptor is not None:
                dead = each.descriptor in ready
            elif dead := now - each.asked >= ASK_AN_ENGINE_SECONDS:
                each.asked = now
                dead = not self._lives(each.of)
            if dead:
                self._ended(key, each, gone)
        if self._absent and now - self._looked >= (ASK_AGAIN_SECONDS if self._told else ASK_AN_ENGINE_SECONDS):
            self._looked = now
            self._look_for_others()

    def _lives(self, of: Resident | Ours) -> bool:
        try:
            return self._lab.lives(of) if isinstance(of, Resident) else of.code() is None
        except ChaosError:  # an engine that does not answer has said nothing
            return True

    def _look_for_others(self) -> None:
        """A host whose process is gone may have another one by now, or have had one."""
        try:
            there = {(each.what, each.name): each for each in self._lab.residents()}
        except ChaosError:
            return
        for key, (last, log_from) in list(self._absent.items()):
            found = there.get(key)
            if found is None or found.identity == last.identity:
                continue
            try:
                self._watch(found, log_from)
            except ProcessLookupError:  # it came and went between two looks
                self._absent[key] = (found, self._lab.log_end(found.log))
                self._say(_Watched(found, None, log_from, None, None), time.monotonic_ns())
            else:
                del self._absent[key]

    # ---- telling --------------------------------------------------------------------------------

    def _ended(self, key: tuple[str, str], each: _Watched, at: int) -> None:
        with self._lock:
            del self._watched[key]
        if each.descriptor is not None:
            self._poll.unregister(each.descriptor)
            os.close(each.descriptor)
        if isinstance(each.of, Resident):
            self._absent[key] = (each.of, self._lab.log_end(each.of.log))
        self._say(each, at)

    def _say(self, each: _Watched, at: int) -> None:
        fact = self._resident(each, each.of) if isinstance(each.of, Resident) else self._child(each, each.of)
        fact["how"] = ends.how(fact)
        if not fact["commanded"] and (phase := self._allowing(fact, at)) is not None:
            fact[during.ALLOWS] = phase
        with suppress(OSError):  # a full disk: the run must end all the same
            self._events.write(ends.KIND, t=at, **fact)
        if not fact["commanded"] and during.ALLOWS not in fact:
            self._unasked(fact | {"t": at})

    def _allowing(self, fact: Fact, at: int) -> str | None:
        """The phase that lets others end this node's process. One that ended by itself, or that the kernel ended for
        want of memory, was not restarted."""
        if fact["what"] != "node" or fact["how"] == ends.ITSELF or fact["oom_kill"]:
            return None
        for each in self._allowed:
            if fact["name"] in each.nodes and each.since <= at <= (each.until or at):
                return each.phase
        return None

    def _resident(self, each: _Watched, of: Resident) -> Fact:
        lab = self._lab
        node = of.name if of.what == "node" else None
        with suppress(ChaosError):
            wait_until(lambda: lab.exit_code(of) is not None or lab.is_silent(of), TOLD_SECONDS)
        code, number = ends.parted(_or_none(lambda: lab.exit_code(of)))
        kills = _or_none(lambda: lab.oom_kills(of))
        lines = _or_none(lambda: lab.log_lines(of.log, each.log_from)) or []
        said, sent, report = None, False, None
        file = lab.crash_report(of)
        if file is not None and _stamp(file) != each.report:
            said, sent, report = self._kept(file, of.name)
        return {
            "what": of.what,
            "name": of.name,
            "node": node,
            "zone": lab.wiring[of.name].zone,
            "pid": of.identity.pid,
            "exit_code": code,
            "signal": number,
            "oom_kill": None if kills is None or each.kills is None else kills > each.kills,
            "fatal": said or ends.first_fatal(lines),
            "sent": sent,
            "report": report,
            "log_tail": ends.tail(lines),
            "commanded": lab.was_commanded(of),
        }

    def _kept(self, file: Path, name: str) -> tuple[str | None, bool, str | None]:
        """A copy of the JVM's report goes with the run: the next start of that node takes it away."""
        try:
            said, sent = ends.reported(file.read_text(errors="replace"))
            kept = self._logs / f"hs_err-{name}.log"
            shutil.copyfile(file, kept)
        except OSError as error:
            return f"the JVM's report cannot be read: {error.strerror}", False, None
        return said or "a report without a reason", sent, kept.name

    def _child(self, each: _Watched, of: Ours) -> Fact:
        wait_until(lambda: of.code() is not None, TOLD_SECONDS)
        code, number = ends.parted(of.code())
        try:
            with open(of.log, "rb") as file:
                file.seek(each.log_from)
                lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        except OSError:
            lines = []
        return {
            "what": of.what,
            "name": of.name,
            "node": None,
            "zone": of.zone,
            "pid": of.pid,
            "exit_code": code,
            "signal": number,
            "oom_kill": None,
            "fatal": None,
            "sent": False,
            "report": None,
            "log_tail": ends.tail(lines),
            "commanded": of.commanded(),
        }


def _own_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return None


def _or_none(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except ChaosError:
        return None


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _stamp(file: Path | None) -> tuple[int, int] | None:
    """Which writing of a file this is; None: there is none."""
    if file is None:
        return None
    with suppress(OSError):
        found = file.stat()
        return found.st_mtime_ns, found.st_size
    return None
