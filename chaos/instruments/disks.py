"""Watches how full this machine's disks are, and whether OpenSearch blocks the load's index for a full disk.

A lab's nodes write to this machine's disk, and so do the record and the nodes' temporary files. When another program
fills it, nodes place no copies and refuse writes, and nothing of that is the cluster's. So free bytes are sampled, and
a run on a disk with too few ends (:mod:`chaos.checks.disks` says what that means: it is asked by other checks too).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from chaos.base.errors import LabError
from chaos.checks.disks import DUE, gaps, weaknesses
from chaos.checks.instrument import Begins, Context, Ends, Instrument, Observer
from chaos.checks.reasons import Cause
from chaos.history import disks
from chaos.history.events import DisksBlocked, DisksFree, DisksUnwatched, DisksWatched
from chaos.history.writer import Events
from chaos.opensearch import administration
from chaos.opensearch.cluster import Cluster

LOOK_SECONDS = 5.0
BEAT_SECONDS = 1.0
"""Free bytes are looked at so often, and written down every LOOK_SECONDS, or when there are too few."""
ASK_SECONDS = 2.0


class Place(Protocol):
    """A folder on a disk that matters, see :class:`chaos.observe.disks.Place`."""

    @property
    def path(self) -> Path: ...
    @property
    def need(self) -> int: ...
    @property
    def free(self) -> int: ...
    def to_json(self) -> dict[str, Any]: ...


def blocked(lab: Cluster, index: str) -> bool:
    """Whether writes to an index, or to one of several under its name, are blocked as beyond the flood stage. Raises
    LabError when no node says it."""
    found = administration.settings_of_each(lab, index, timeout=ASK_SECONDS)
    return any(str(each.get(disks.BLOCK)).lower() == "true" for each in found.values())


class Disks(Observer):
    """The watch, in a thread of its own. ``short`` is told in words, once, when there is too little room."""

    def __init__(
        self,
        events: Events,
        some: Callable[[], Sequence[Place]],
        asks: Callable[[], bool],
        short: Callable[[str], None],
    ) -> None:
        self._events, self._some, self._asks, self._short = events, some, asks, short
        self._places: Sequence[Place] = []
        self._blocked, self._seen = False, time.monotonic_ns()
        self._written = float("-inf")
        self._last: int | None = None
        self._why: str | None = None
        self._told = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="disks", daemon=True)

    def start(self) -> None:
        """From now on. Idempotent. Raises OSError when a disk cannot be looked at at all."""
        if self._thread.ident is not None:
            return
        self._places = self._some()
        DisksWatched(places=[place.to_json() for place in self._places]).write(self._events)
        self._seen = time.monotonic_ns()
        self.look()
        self._thread.start()

    def stop(self, *, patient: bool = True) -> None:
        """Look once more and end; idempotent."""
        if self._over.is_set() or self._thread.ident is None:
            return
        self._over.set()
        self._thread.join()
        self._written = float("-inf")
        self.look()
        self._ask()
        with suppress(OSError):
            DisksUnwatched(last=self._last, because=self._why).write(self._events)

    def _run(self) -> None:
        due = time.monotonic() + LOOK_SECONDS
        while not self._over.wait(BEAT_SECONDS):
            self.look()
            if time.monotonic() >= due:
                due = time.monotonic() + LOOK_SECONDS
                self._ask()

    def look(self) -> None:
        """Sample free bytes once. Never raises."""
        try:
            found = {str(place.path): place.free for place in self._places}
            lacking = [place for place in self._places if found[str(place.path)] < place.need]
            now = time.monotonic()
            if now - self._written >= LOOK_SECONDS or (lacking and not self._told):
                self._written = now
                DisksFree(free=found, since=self._last).write(self._events)
            self._last = time.monotonic_ns()
            if lacking and not self._told:
                self._told = True
                self._short(disks.sentence(lacking[0].to_json(), found[str(lacking[0].path)]))
        except Exception as error:  # then it is not known, and the record says so
            self._why = self._why or f"{type(error).__name__}: {error}"

    def _ask(self) -> None:
        """Whether the index is blocked; a cluster that does not answer says nothing."""
        began = time.monotonic_ns()
        try:
            now = self._asks()
        except (LabError, KeyError):
            return
        except Exception as error:
            self._why = self._why or f"{type(error).__name__}: {error}"
            return
        if now != self._blocked:
            self._blocked = now
            with suppress(OSError):
                DisksBlocked(blocked=now, since=self._seen).write(self._events)
        self._seen = began


def _observe(context: Context) -> Disks:
    return Disks(
        context.events, context.places, lambda: any(blocked(context.lab, each) for each in context.indices), context.cut
    )


INSTRUMENT = Instrument(
    name="disks",
    says="how full this machine's disks are, and whether OpenSearch blocks the load's index for it",
    observe=_observe,
    begins=Begins.INDEX,
    ends=Ends.LOAD,
    order=50,
    due=DUE,
    gaps={Cause.DISK: gaps},
    weaknesses=weaknesses,
    weakness=Cause.DISK,
)
