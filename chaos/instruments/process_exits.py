"""Watches the processes of a run, and says at once when one ends.

A node that dies under a fault is the best find that there is, or a third hand that spoils the run; either way nobody
may wait for it to come back. The kernel tells of each end by a descriptor (pidfd), so watching costs nothing. How it
ended comes from whoever was its parent (:mod:`chaos.targets.labs.processes`), from the kernel's count of kills for want
of memory, from its log and from the JVM's own report. What is written: :mod:`chaos.history.ends`.

A node that ended by itself (an exit code, an error that nothing catches, a report of its JVM) is a weakness, whatever
else was proven: the cluster lost a node that no fault had taken. Whatever was ended from outside, or nobody knows how,
spoils what was measured from then on; so does every instrument that is gone. A load driver or a controller that failed
by itself is our own error, which the run says too.

A pressure on a node's heap that ends the node has done more than it was to do: that is no find but a fault that was not
what was planned.
"""

from __future__ import annotations

import os
import select
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from chaos.base import text
from chaos.base.errors import ChaosError
from chaos.base.paths import ProcessIdentity
from chaos.base.permitted import Permitted
from chaos.base.waiting import wait_until
from chaos.checks import during as allowed
from chaos.checks.defaults import PROCESS, RULES
from chaos.checks.disks import short_since
from chaos.checks.evidence import Gap, faults, unwatched
from chaos.checks.instrument import (
    Begins,
    Child,
    Context,
    Ends,
    Instrument,
    Observer,
    Permission,
    ProcessWatch,
    Promise,
)
from chaos.checks.measure import Measure, Verdict
from chaos.checks.reasons import Cause
from chaos.checks.record import SECOND, Record
from chaos.history import during, ends
from chaos.history.events import ProcessEnded, ProcessesUnwatched, ProcessesWatched
from chaos.history.writer import Events

ASK_AGAIN_SECONDS = 0.2
"""How often a host without a process is looked at for a new one."""
ASK_AN_ENGINE_SECONDS = 3.0
"""How often a process is asked for whose end the kernel does not tell us: an engine takes some ms for each."""
TOLD_SECONDS = 10.0
"""How long the parent of a process that has ended may take to say how: it needs a processor, like everybody."""

Fact = dict[str, Any]


class Resident(Protocol):
    """The process of a host: a node, or a Toxiproxy."""

    @property
    def what(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def identity(self) -> ProcessIdentity: ...
    @property
    def log(self) -> Any: ...


class Hosts(Protocol):
    """A target whose processes can be watched."""

    @property
    def wiring(self) -> Any: ...
    def residents(self) -> Sequence[Any]: ...
    def pidfd(self, resident: Any) -> int | None: ...
    def lives(self, resident: Any) -> bool: ...
    def exit_code(self, resident: Any) -> int | None: ...
    def is_silent(self, resident: Any) -> bool: ...
    def was_commanded(self, resident: Any) -> bool: ...
    def oom_kills(self, resident: Any) -> int | None: ...
    def crash_report(self, resident: Any) -> Path | None: ...
    def log_end(self, log: Any) -> int: ...
    def log_lines(self, log: Any, since: int) -> list[str]: ...


@dataclass
class _Watched:
    """One process, its descriptor (None: it is asked for), and where things stood when the watch began."""

    of: Resident | Child
    descriptor: int | None
    log_from: int
    kills: int | None
    report: tuple[int, int] | None
    asked: float = field(default_factory=time.monotonic)


class Exits(Observer, ProcessWatch):
    """The watch, in a thread of its own. ``unasked`` is called with the facts of each end that no move asked for."""

    def __init__(self, lab: Hosts, events: Events, logs: Path, unasked: Callable[[Fact], None]) -> None:
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
        self._permitted = Permitted()
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
        ProcessesWatched(processes=names).write(self._events)
        self._thread.start()

    def add(self, child: Child) -> None:
        """Watch a child of this process too."""
        with suppress(ProcessLookupError):  # whoever started it looks at that itself
            self._watch(child)

    def permit(self, permission: Permission) -> None:
        self.allow(permission.phase, permission.nodes)

    def permit_no_more(self, *, patient: bool = True) -> None:
        self.allow_no_more()

    def allow(self, phase: str, nodes: Collection[str]) -> None:
        """From now on others may end these nodes' processes, from outside: the phase waits for that."""
        self._permitted.allow(phase, nodes)

    def allow_no_more(self) -> None:
        """What ends from now on is unasked again; idempotent."""
        self._permitted.allow_no_more()

    def stop(self, *, patient: bool = True) -> None:
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
            ProcessesUnwatched(because=self._why).write(self._events)

    # ---- watching -------------------------------------------------------------------------------

    def _watch(self, of: Resident | Child, log_from: int | None = None) -> None:
        """Raises ProcessLookupError when it is dead."""
        if not isinstance(of, Child):
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

    def _lives(self, of: Resident | Child) -> bool:
        try:
            return self._lab.lives(of) if not isinstance(of, Child) else of.code() is None
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
        if not isinstance(each.of, Child):
            self._absent[key] = (each.of, self._lab.log_end(each.of.log))
        self._say(each, at)

    def _say(self, each: _Watched, at: int) -> None:
        fact = self._resident(each, each.of) if not isinstance(each.of, Child) else self._child(each, each.of)
        fact["how"] = ends.how(fact)
        if not fact["commanded"] and (phase := self._allowing(fact, at)) is not None:
            fact[during.ALLOWS] = phase
        with suppress(OSError):  # a full disk: the run must end all the same
            ProcessEnded(**fact).write(self._events, t=at)
        if not fact["commanded"] and during.ALLOWS not in fact:
            self._unasked(fact | {"t": at})

    def _allowing(self, fact: Fact, at: int) -> str | None:
        """The phase that lets others end this node's process. One that ended by itself, or that the kernel ended for
        want of memory, was not restarted."""
        if fact["what"] != "node" or fact["how"] == ends.ITSELF or fact["oom_kill"]:
            return None
        return self._permitted.phase(fact["name"], at)

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

    def _child(self, each: _Watched, of: Child) -> Fact:
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


# -- judging ---------------------------------------------------------------------------------------

DUE = "watched"
SERVICE = "service"
"""A process that keeps data beside the cluster's nodes, such as a store of segments and translogs."""
OVERSHOOTING = "node.heap_pressure"
"""A kind of fault that may end the node that it is on, and starts it again."""


def gaps(record: Record) -> tuple[Gap, ...]:
    """Ends after which nothing measured counts; of the whole run where nobody watched.

    With a service goes what it keeps: what is missing then is not the cluster's loss.
    """
    found = [
        Gap(_says(record, event), int(event["t"]), third_hand=event.get("what") == SERVICE)
        for event in _unasked(record)
        if not _is_weakness(record, event) and not _is_error(event)
    ]
    return (*found, *unwatched(record, DUE, ends.WATCHED, ends.UNWATCHED, "whether a process ended"))


def weaknesses(record: Record, missed: Sequence[str | None] = ()) -> tuple[str, ...]:
    """Nodes that ended by themselves, in words, whatever was missed."""
    return tuple(_says(record, event) for event in _unasked(record) if _is_weakness(record, event))


def table(record: Record) -> list[dict[str, Any]]:
    """Every end that nobody had asked for, in order; figures and words for the report. None is no entry."""
    return [
        {
            "at": record.since_start(int(event["t"])),
            "says": _says(record, event),
            "what": str(event.get("what")),
            "name": str(event.get("name")),
            "how": ends.how(event),
            "weakness": _is_weakness(record, event),
            "fatal": event.get("fatal"),
            "report": event.get("report"),
            "log_tail": [str(line) for line in event.get("log_tail") or []],
        }
        for event in _unasked(record)
    ]


def _unasked(record: Record) -> list[dict[str, Any]]:
    every = record.of_kind(ends.KIND)
    return [event for event in every if event.get("commanded") is not True and not allowed.allows(record, event)]


def _is_weakness(record: Record, event: dict[str, Any]) -> bool:
    itself = event.get("what") == "node" and ends.how(event) == ends.ITSELF and not _overshot(record, event)
    return itself and not _starved_of_disk(record, event)


def _starved_of_disk(record: Record, event: dict[str, Any]) -> bool:
    """Whether it ended on a disk of this machine that others had filled."""
    since = short_since(record)
    return since is not None and int(event["t"]) >= since


def _is_error(event: dict[str, Any]) -> bool:
    return event.get("what") in ("driver", "controller") and ends.how(event) == ends.ITSELF


def _active(record: Record, t: int) -> list[Any]:
    """The faults that were commanded and not undone at a time, the latest first."""
    held = [fault for fault in faults(record) if fault.command <= t and (fault.undo is None or t <= fault.undo)]
    return sorted(held, key=lambda fault: -fault.command)


def _overshot(record: Record, event: dict[str, Any]) -> bool:
    return any(
        fault.kind == OVERSHOOTING and event.get("node") in fault.targets for fault in _active(record, int(event["t"]))
    )


def _says(record: Record, event: dict[str, Any]) -> str:
    """``Node a-data was ended from outside (SIGKILL), 4.2 s into “slow”, under “+300ms on links to zone c”``."""
    t = int(event["t"])
    words = ends.sentence(event)
    words += f", {when}" if (when := record.moment(t)) else ""
    held = _active(record, t)
    if held:
        words += f", under “{text.clip(held[0].says, 90)}”"
    if _overshot(record, event):
        words += ", which was to fill its heap and not to end it"
    return words[:1].upper() + words[1:]


def promised(record: Record) -> tuple[Measure, Verdict] | None:
    """How many processes ended unasked; None where they were not watched, or by earlier rules."""
    if record.rules < RULES or not record.plan.get(DUE):
        return None
    ended: list[dict[str, Any]] = table(record)
    by_themselves, missing = weaknesses(record), gaps(record)
    if by_themselves:
        return Measure(float(len(ended)), "count", "; ".join(by_themselves)), Verdict.FAIL
    if missing:
        return Measure.missing("count", "; ".join(gap.says for gap in missing)), Verdict.INCONCLUSIVE
    if ended:
        return Measure.missing("count", "; ".join(end["says"] for end in ended)), Verdict.INCONCLUSIVE
    return Measure(0.0, "count", "no process ended that was not asked to"), Verdict.PASS


def harm(record: Record) -> Iterable[tuple[int, str]]:
    return (
        (record.origin + round(end["at"] * SECOND), f"{end['what']} {end['name']} ended {end['how']}")
        for end in table(record)
    )


class Cut(Protocol):
    """Ends a run, see :meth:`chaos.checks.instrument.Context.cut`."""

    def __call__(self, says: str, *, failed: bool = False) -> None: ...


def telling(cut: Cut) -> Callable[[Fact], None]:
    """Ends a run at once, in the watch's thread. A load driver or a controller that ended by itself has failed."""

    def unasked(fact: Fact) -> None:
        cut(ends.sentence(fact), failed=_is_error(fact))

    return unasked


def _observe(context: Context) -> Exits:
    return Exits(context.lab, context.events, context.folder / "logs", telling(context.cut))


INSTRUMENT = Instrument(
    name="process exits",
    says="processes of the run that end although no move asked for it",
    observe=_observe,
    begins=Begins.FIRST,
    ends=Ends.LAST,
    order=10,
    due=DUE,
    gaps={Cause.PROCESS: gaps},
    weaknesses=weaknesses,
    promise=Promise(PROCESS, promised),
    tables={"ends": table},
    harm=harm,
)
