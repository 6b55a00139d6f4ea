"""Rolls data streams and aliases of the load over, at the times that the experiment names, and says what came of it.

Index management does so on most clusters, and is a plugin that labs do not have. So a thread of the runner asks for it
(``POST NAME/_rollover``) from the load's begin until the faults are undone. What is not answered may have been done, so
the indices of the name are looked at before it is asked for again; what failed is tried again a second later, until it
is done or the next one is due with it. A rollover that fails under a fault is no finding of its own: documents go on
into the index before.

A line of ``history/rollovers.jsonl``, ``t`` in CLOCK_MONOTONIC ns, kind ``index.rolled_over``: ``name``, the index
``old`` and the new ``index``, ``asked`` (ns: when it was first asked for), ``tries``, ``because`` (why the try before
the last failed; null: none did). Kind ``index.not_rolled_over``: the same without ``index``, where it was given up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaos.base import text
from chaos.base.errors import ChaosError
from chaos.checks.check import Check, Scope
from chaos.checks.instrument import Begins, Context, Ends, Event, Instrument, Observer, Trial
from chaos.checks.measure import Measure
from chaos.checks.record import SECOND, Record
from chaos.checks.section import Row, Section
from chaos.checks.words import Words
from chaos.definitions.experiment import Rollover
from chaos.history.writer import Broken, EventWriter
from chaos.opensearch import rollover
from chaos.opensearch.cluster import Cluster

FILE = "rollovers.jsonl"
DONE, GIVEN_UP = "index.rolled_over", "index.not_rolled_over"
LOOK_SECONDS = 2.0
"""How often a name whose documents decide is asked to roll over."""
AGAIN_SECONDS = 1.0
TIMEOUT_SECONDS = 15.0
LENGTH = 300
"""Of a reason, in letters."""


class Rolling(Observer):
    """A thread for each name, from :meth:`start` to :meth:`stop`."""

    def __init__(self, lab: Cluster, names: Mapping[str, Rollover], file: Path, broken: Broken) -> None:
        self._lab, self._names, self._file, self._broken = lab, names, file, broken
        self._over = threading.Event()
        self._events: EventWriter | None = None
        self._writing = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(name, when), name=f"rollover {name}", daemon=True)
            for name, when in names.items()
        ]

    def start(self) -> None:
        self._events = EventWriter(self._file, self._broken)
        for each in self._threads:
            each.start()

    def stop(self, *, patient: bool = True) -> None:
        """``patient``: what was asked for is waited for. What comes later is not written down: the record is closed."""
        self._over.set()
        for each in self._threads:
            if patient and each.ident is not None:
                each.join(2 * TIMEOUT_SECONDS)
        with self._writing:
            if self._events is not None:
                self._events.close()
            self._events = None

    def _run(self, name: str, when: Rollover) -> None:
        every = float(when.every) if when.every is not None else LOOK_SECONDS
        due = time.monotonic() + every
        while not self._over.wait(max(0.0, due - time.monotonic())):
            self.roll(name, when.documents)
            while due <= time.monotonic():  # those that became due meanwhile are done with it
                due += every

    def roll(self, name: str, documents: int | None = None) -> None:
        """Roll over once, trying again until it is done, or the watch is over."""
        asked, tries, old, because = time.monotonic_ns(), 0, "", None
        while not self._over.is_set():
            tries += 1
            try:
                old = old or rollover.indices(self._lab, name, timeout=TIMEOUT_SECONDS)[-1]
                if tries > 1 and (now := rollover.indices(self._lab, name, timeout=TIMEOUT_SECONDS)[-1]) != old:
                    new: str | None = now  # the try before was done, and its answer lost
                else:
                    new = rollover.roll(self._lab, name, documents, timeout=TIMEOUT_SECONDS)
            except (ChaosError, LookupError) as error:
                because = text.clip(f"{type(error).__name__}: {error}", LENGTH)
                self._over.wait(AGAIN_SECONDS)
                continue
            if new is not None:
                self._write(DONE, name=name, old=old, index=new, asked=asked, tries=tries, because=because)
            return
        if tries:
            self._write(GIVEN_UP, name=name, old=old, asked=asked, tries=tries, because=because)

    def _write(self, kind: str, **fields: Any) -> None:
        with self._writing, suppress(OSError):  # the run has been told (``broken``), and ends
            if self._events is not None:
                self._events.write(kind, **fields)


# -- judging ---------------------------------------------------------------------------------------


def measure(record: Record) -> Measure:
    """How often an index was rolled over, from the load's begin to the undo."""
    lines = record.lines(FILE)
    done = [line for line in lines if line.get("kind") == DONE]
    if not lines:
        return Measure.missing("count", "no index of the load was rolled over, or that was not recorded")
    failed = len(lines) - len(done)
    says = text.listed(sorted({str(line.get("name")) for line in done})) if done else "none was done"
    says += f"; {text.plural(failed, 'one', 'of them')} given up" if failed else ""
    return Measure(float(len(done)), "count", says)


def table(record: Record) -> list[dict[str, Any]] | None:
    """Each rollover that was asked for; None where none was."""
    rows = [
        {
            "name": str(line.get("name")),
            "index": line.get("index"),
            "at": record.since_start(int(line["asked"])),
            "seconds": round((int(line["t"]) - int(line["asked"])) / SECOND, 3),
            "tries": int(line.get("tries") or 0),
            "because": line.get("because"),
        }
        for line in record.lines(FILE)
        if line.get("kind") in (DONE, GIVEN_UP) and isinstance(line.get("asked"), int)
    ]
    return rows or None


def section(record: Record, tables: Mapping[str, Any]) -> Section | None:
    rows = tables.get("rollovers")
    if not rows:
        return None
    return Section(
        id="rollovers",
        title="When indices were rolled over",
        short="Rollovers",
        says="By the runner; documents that are written afterwards go to the new index.",
        head=("Name", "New index", "Asked at#", "Took#", "Tries#", "Why a try failed"),
        rows=tuple(
            Row(
                row["name"],
                (
                    row["index"] or "none: given up",
                    text.seconds(row["at"]) if row["at"] is not None else "-",
                    text.seconds(row["seconds"]),
                    str(row["tries"]),
                    row["because"] or "",
                ),
            )
            for row in rows
        ),
    )


CHECK = Check(
    "rollovers.done",
    "count",
    lambda record, _, span: measure(record),
    Words.of(
        missed="The load's indices were rolled over {measured} times; wanted was {want}",
        question="indices were rolled over as often as they were to be",
        promise="Indices of the load are rolled over: {want}",
        short="rollovers",
    ),
    group="movement",
    scope=Scope.RUN,
    of_rollover=True,
    meaning="How often the suite rolled a data stream or an alias of the load over to a new index. An experiment that "
    "is about rollovers says by it that there were some.",
    helps=("look-at-the-log",),
    order=830,
)


def _lines(done: int) -> Any:
    def lines(start: int, end: int) -> list[Event]:
        step = (end - start) // 10
        asked = [start + (n + 1) * step for n in range(3)]
        made = [
            {"t": at + SECOND, "kind": DONE, "name": "chaos", "old": "a", "index": "b", "asked": at, "tries": 1}
            for at in asked[:done]
        ]
        return [*made, {"t": end, "kind": GIVEN_UP, "name": "chaos", "old": "b", "asked": asked[-1], "tries": 9}]

    return lines


def _observe(context: Context) -> Rolling | None:
    places = context.experiment.load.places.values()
    names = {name: each.rollover for name, each in zip(context.indices, places, strict=True) if each.rollover}
    if context.existing is not None or not names:
        return None
    return Rolling(context.lab, names, context.folder / "history" / FILE, context.broken)


INSTRUMENT = Instrument(
    name="rollover",
    says="rolls data streams and aliases of the load over when the experiment says so",
    observe=_observe,
    begins=Begins.LOAD,
    ends=Ends.UNDO,
    order=88,
    answers=("rollover",),
    file=FILE,
    checks=(CHECK,),
    trials=(Trial("rollovers.done", ">= 2", _lines(1), _lines(0)),),
    tables={"rollovers": table},
    section=section,
    redact=lambda line: {key: value for key, value in line.items() if key != "because"},
)
