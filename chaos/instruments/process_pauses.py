"""Names processes of the cluster that an external actor pauses: by SIGSTOP, a debugger or the container's engine.

A node that stalls for want of a processor, or to collect garbage, is in another state, and that is the cluster's own
doing. A *paused* process waits for a signal. If no fault of the run paused it, latencies and errors from then on do not
show what the experiment says. Lost data stay lost: a paused node is no reason to lose what was acknowledged.

The run goes on, because a debugger may pause a process for a moment only. Load driver, Toxiproxies, runner and failover
controllers have pulses (:mod:`chaos.checks.standing`), which detect shorter stops. The events:
:mod:`chaos.history.pauses`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from chaos.base import text
from chaos.base.paths import ProcessIdentity
from chaos.base.permitted import Permitted
from chaos.checks import during
from chaos.checks.evidence import Gap, unwatched
from chaos.checks.instrument import Begins, Context, Ends, Instrument, Observer, Permission
from chaos.checks.reasons import Cause
from chaos.checks.record import SECOND, Record
from chaos.history import pauses
from chaos.history.during import ALLOWS
from chaos.history.events import PausesUnwatched, PausesWatched, ProcessPaused, ProcessResumed
from chaos.history.writer import Events

LOOK_SECONDS = 0.25
"""Between two looks, at least. A shorter pause may be missed."""
SHARE = 0.05
"""Share of the time that looks may take. An engine answers slowly, so there looks are further apart."""
REFRESH_SECONDS = 1.0
"""Between two questions which processes the hosts run: a restarted node is another process."""
WATCHED = ("node", "service", "http")
"""Kinds of processes that are watched. Toxiproxies have pulses."""


class Resident(Protocol):
    """The process of a host."""

    @property
    def what(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def identity(self) -> ProcessIdentity: ...


class Hosts(Protocol):
    """A target whose processes can be watched."""

    @property
    def wiring(self) -> Any: ...
    def residents(self) -> Sequence[Any]: ...
    def paused(self, resident: Any) -> str | None: ...
    def was_to_pause(self, resident: Any, since: float) -> bool: ...


class Pauses(Observer):
    """The watch, in a thread of its own."""

    def __init__(self, lab: Hosts, events: Events) -> None:
        self._lab, self._events = lab, events
        self._there: list[Resident] = []
        self._asked: float | None = None
        self._paused: dict[tuple[str, str], Resident] = {}
        """Processes that were paused at the last look."""
        self._running: dict[ProcessIdentity, int] = {}
        """When the last look that did not find them paused began (ns)."""
        self._permitted = Permitted()
        self._why: str | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pauses", daemon=True)

    def start(self) -> None:
        """Begin to watch. Idempotent."""
        if self._thread.ident is None:
            self._refresh()
            PausesWatched(processes=[f"{each.what} {each.name}" for each in self._there]).write(self._events)
            self._thread.start()

    def stop(self, *, patient: bool = True) -> None:
        """End the watch; idempotent."""
        if self._over.is_set() or self._thread.ident is None:
            return
        self._over.set()
        self._thread.join()
        with suppress(OSError):
            PausesUnwatched(because=self._why).write(self._events)

    def permit(self, permission: Permission) -> None:
        self._permitted.allow(permission.phase, permission.nodes)

    def permit_no_more(self, *, patient: bool = True) -> None:
        self._permitted.allow_no_more()

    def _run(self) -> None:
        pause = 0.0
        try:
            while not self._over.wait(pause):
                began = time.monotonic()
                self._look()
                pause = max(LOOK_SECONDS, (time.monotonic() - began) / SHARE)
        except Exception as error:  # the record says that the watch broke
            self._why = f"{type(error).__name__}: {error}"

    def _refresh(self) -> None:
        now = time.monotonic()
        if self._asked is None or now - self._asked >= REFRESH_SECONDS:
            self._there = [each for each in self._lab.residents() if each.what in WATCHED]
            self._asked = now

    def _look(self) -> None:
        self._refresh()
        seen = set()
        for each in self._there:
            key = each.what, each.name
            began = time.monotonic_ns()
            state = self._lab.paused(each)
            if state is None:
                self._running[each.identity] = began
            before = self._paused.get(key)
            if before is not None and (state is None or before.identity != each.identity):
                self._write_resumption(before, gone=before.identity != each.identity)
                before = None
            if state is not None and before is None:
                self._write_pause(each, state, began)
            seen.add(key)
        for key in self._paused.keys() - seen:  # the lab has no process of that name any more
            self._write_resumption(self._paused[key], gone=True)

    def _write_pause(self, each: Resident, state: str, began: int) -> None:
        at = time.monotonic_ns()
        self._paused[each.what, each.name] = each
        commanded = self._lab.was_to_pause(each, began / SECOND)
        more: dict[str, Any] = {}
        phase = self._permitted.phase(each.name, at) if each.what == "node" and not commanded else None
        if phase is not None:
            more[ALLOWS] = phase
        ProcessPaused(
            what=each.what,
            name=each.name,
            node=each.name if each.what == "node" else None,
            zone=self._lab.wiring[each.name].zone,
            pid=each.identity.pid,
            state=state,
            since=self._running.get(each.identity),
            commanded=commanded,
            **more,
        ).write(self._events, t=at)

    def _write_resumption(self, each: Resident, *, gone: bool) -> None:
        del self._paused[each.what, each.name]
        ProcessResumed(what=each.what, name=each.name, pid=each.identity.pid, gone=gone).write(self._events)


# -- judging -------------------------------------------------------------------------------------

DUE = "pauses_watched"
SUBJECT = {"node": "Node", "service": "The service", "http": "The HTTP layer of"}
BY = {"t": "by a debugger"}
"""The actor, by the kernel's letter, as far as that tells."""


def gaps(record: Record) -> tuple[Gap, ...]:
    """Pauses after which nothing measured counts; without a watch that is the whole run."""
    paused = [Gap(row["says"], record.origin + round(row["since"] * SECOND)) for row in table(record)]
    return (*paused, *unwatched(record, DUE, pauses.WATCHED, pauses.UNWATCHED, "whether a process was paused"))


def table(record: Record) -> list[dict[str, Any]]:
    """Every pause that no fault of the run caused, in order. ``at``: s of the run; ``since``: it may have begun
    as early; ``seconds``: how long, None where the record has no end of it."""
    rows = []
    for event in record.of_kind(pauses.PAUSED):
        if event.get("commanded") is True or during.allows(record, event):
            continue
        at = int(event["t"])
        over = next(
            (each for each in record.of_kind(pauses.RESUMED) if int(each["t"]) >= at and _of_one(each, event)), None
        )
        seconds = None if over is None else (int(over["t"]) - at) / SECOND
        rows.append(
            {
                "at": (at - record.origin) / SECOND,
                "since": (int(event.get("since") or at) - record.origin) / SECOND,
                "says": _summary(record, event, seconds, gone=over is not None and bool(over.get("gone"))),
                "what": str(event.get("what")),
                "name": str(event.get("name")),
                "seconds": seconds,
            }
        )
    return rows


def _of_one(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one.get(key) == other.get(key) for key in ("what", "name", "pid"))


def _summary(record: Record, event: dict[str, Any], seconds: float | None, *, gone: bool) -> str:
    """``Node a-data was paused from outside for 8 s, 4.2 s into “healthy”; no fault of this run did that``."""
    t = int(event["t"])
    what = str(event.get("what"))
    words = f"{SUBJECT.get(what, what)} {text.clip(str(event.get('name')), 60)} was paused from outside"
    words += f" {BY[event['state']]}" if event.get("state") in BY else ""
    if seconds is not None:
        words += f" for {text.seconds(seconds)}" + (", until it ended" if gone else "")
    words += f", {when}" if (when := record.moment(t)) else ""
    if seconds is None:
        words += ", and was not seen to go on"
    return f"{words}; no fault of this run did that"


def harm(record: Record) -> Iterable[tuple[int, str]]:
    return (
        (record.origin + round(each["at"] * SECOND), f"{each['what']} {each['name']} was paused from outside")
        for each in table(record)
    )


def _observe(context: Context) -> Pauses | None:
    if context.existing is not None:
        return None
    return Pauses(context.lab, context.events)


INSTRUMENT = Instrument(
    name="process pauses",
    says="processes of the cluster that an external actor pauses",
    observe=_observe,
    begins=Begins.LOAD,
    ends=Ends.LAST,
    order=105,
    due=DUE,
    gaps={Cause.PROCESS: gaps},
    tables={"pauses": table},
    harm=harm,
)
