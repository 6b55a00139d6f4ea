"""What a run has to say under the names of the catalogue, from its folder alone.

The run is judged again from its history, so that exports of runs of any version agree. Times are those of the wall
clock: the history's monotonic times, moved by the pair of both clocks of its first event. A second is a whole one from
the start of the load on. What is not known is left out, never zero.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from chaos.base.errors import HistoryError
from chaos.checks import Findings, evaluate, failures, instruments
from chaos.checks.arrivals import SECOND, Arrivals
from chaos.checks.record import OUTCOMES, Record, Span
from chaos.history import events
from chaos.history.format import Outcome
from chaos.history.reader import History
from chaos.report.redact import redacted

PERCENTILES = (50, 99)
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Second:
    """An operation in one second. ``at``: its beginning (ms since 1970); ``phase``: None outside all phases."""

    at: int
    operation: str
    phase: str | None
    scheduled: int
    good: int
    late: int
    latency: tuple[float | None, ...]
    """Of each of :data:`PERCENTILES` in seconds; None where so many have no latency."""

    @property
    def availability(self) -> float:
        return self.good / self.scheduled


@dataclass(frozen=True)
class Failed:
    """Requests of an operation that were due in one second and failed for one reason."""

    at: int
    operation: str
    phase: str | None
    reason: str
    count: int


@dataclass(frozen=True)
class Annotation:
    """A change, or an end before its time. ``kind``: phase, fault, undo, action, guard, abort."""

    at: int
    phase: str | None
    kind: str
    text: str


class Run:
    """One run's folder. Raises HistoryError when it is none, or when it has no time by the wall clock."""

    def __init__(self, folder: Path, *, redact: bool = False) -> None:
        history = History.open(folder)
        self._history = redacted(history)[0] if redact else history
        self.record = Record(self._history)
        self.findings: Findings = evaluate(self._history)
        first = next((each for each in self.record.events if each.get("t") and each.get("wall")), None)
        if first is None:
            raise HistoryError(f"{folder} has no event with a time by the wall clock, so nothing of it can be placed")
        self._zero = round(float(first["wall"]) * 1e9) - int(first["t"])
        self.name = str(self.record.plan.get("run") or folder.resolve().name)
        self.experiment = str((self.record.plan.get("experiment") or {}).get("name") or "")

    # -- times ------------------------------------------------------------------------------------

    def at(self, t: int) -> int:
        """A moment (monotonic ns) in ms since 1970."""
        return (self._zero + t) // 1_000_000

    def after(self, seconds: float | None) -> int | None:
        """A moment on the run's own axis in ms since 1970."""
        return None if seconds is None else self.at(self.record.origin + round(seconds * SECOND))

    @cached_property
    def begin(self) -> int:
        """When the first thing is known of it (ms)."""
        return self.at(int(next(each["t"] for each in self.record.events if each.get("t"))))

    @cached_property
    def end(self) -> int:
        """When the last thing is known of it (ms)."""
        return self.at(self.record.last_seen)

    @property
    def _spans(self) -> tuple[Span, ...]:
        return self.record.spans

    def phase_at(self, t: int) -> str | None:
        """The phase that holds a moment (monotonic ns)."""
        place = self.record.place(t)
        return None if place is None else self._spans[place].name

    # -- what it is -------------------------------------------------------------------------------

    @property
    def topology(self) -> str | None:
        name = (self.record.plan.get("topology") or {}).get("name")
        return None if name is None else str(name)

    @property
    def target(self) -> str | None:
        kind = (self.record.plan.get("lab") or {}).get("kind")
        return None if kind is None else str(kind)

    @property
    def opensearch(self) -> str | None:
        version = (self.record.plan.get("versions") or {}).get("opensearch")
        return None if version is None else str(version)

    # -- requests ---------------------------------------------------------------------------------

    @cached_property
    def seconds(self) -> tuple[Second, ...]:
        """Each operation in each second in which requests of it were due, an operation after the other. Open loops
        alone: a closed loop has no availability."""
        every = (self._seconds(op.name, self.record.arrivals[op.name]) for op in self.record.operations)
        return tuple(itertools.chain.from_iterable(every))

    def _seconds(self, op: str, arrivals: Arrivals) -> Iterator[Second]:
        if not len(arrivals):
            return
        number = self._number(arrivals.intended)
        first, last = int(number.min()), int(number.max())
        size = last - first + 1
        scheduled = np.bincount(number - first, minlength=size)
        good = np.bincount((number - first)[arrivals.good], minlength=size)
        late = np.bincount((number - first)[(arrivals.outcome == OUTCOMES["ok"]) & ~arrivals.good], minlength=size)
        latency = arrivals.latency
        latency = latency[np.lexsort((latency, number))]  # by second, the shortest first
        begins = np.concatenate([[0], np.cumsum(scheduled)])
        for place in np.flatnonzero(scheduled).tolist():
            mine = latency[begins[place] : begins[place + 1]]
            t = self.record.origin + (first + place) * SECOND
            yield Second(
                self.at(t),
                op,
                self.phase_at(t),
                int(scheduled[place]),
                int(good[place]),
                int(late[place]),
                tuple(_percentile(mine, percent) for percent in PERCENTILES),
            )

    def _number(self, intended: Ints) -> Ints:
        """The second of each moment, from the start of the load."""
        found: Ints = (intended - self.record.origin) // SECOND
        return found

    @cached_property
    def failed(self) -> tuple[Failed, ...]:
        """Requests that failed, by operation, second and reason; empty of a record that does not know why."""
        if not failures.recorded(self.record):
            return ()
        found: dict[tuple[str, int, str], int] = {}
        for frame in self._history.batches(("op", "intended", "outcome", "failure")):
            outcome = frame["outcome"].cat.codes.to_numpy()
            mine = outcome != Outcome.OK
            rows = zip(
                frame["op"].to_numpy()[mine].tolist(),
                self._number(frame["intended"].to_numpy()[mine]).tolist(),
                outcome[mine].tolist(),
                frame["failure"].to_numpy()[mine].tolist(),
                strict=True,
            )
            for op, second, kind, why in rows:
                key = (str(op), int(second), failures.label(kind, why))
                found[key] = found.get(key, 0) + 1
        known = {op.name for op in self.record.operations}
        return tuple(
            Failed(self.at(t := self.record.origin + second * SECOND), op, self.phase_at(t), reason, count)
            for (op, second, reason), count in sorted(found.items())
            if op in known
        )

    # -- SLIs, annotations, faults ----------------------------------------------------------------

    def slis(self) -> Iterator[tuple[int, str | None, str, float]]:
        """(At, phase, name, value) of each value of an SLI, by name and time."""
        for each in instruments.every():
            if each.values is not None:
                for t, name, value in sorted(each.values(self.record), key=lambda row: (row[1], row[0])):
                    if math.isfinite(value):
                        yield self.at(t), self.phase_at(t), name, value

    def annotations(self) -> list[Annotation]:
        """Phases, changes and ends, by time."""
        record = self.record
        found = [Annotation(self.at(span.start), span.name, "phase", span.name) for span in self._spans]
        for kind, name in (("fault.command", "fault"), ("fault.undo", "undo"), ("action.command", "action")):
            found += [self._annotation(int(e["t"]), name, record.words(e)) for e in record.of_kind(kind)]
        for guard in record.seen(events.GuardTripped):
            found.append(self._annotation(guard.t, "guard", f"{guard.guard}: {guard.says}"))
        for abort in record.seen(events.Abort):
            found.append(self._annotation(abort.t, "abort", str(abort.says or "aborted")))
        return sorted(found, key=lambda each: each.at)

    def _annotation(self, t: int, kind: str, text: str) -> Annotation:
        return Annotation(self.at(t), self.phase_at(t), kind, text)

    def verdict_at(self, phase: str | None) -> int:
        """When a verdict over a phase, or over the whole run, is known."""
        span = None if phase is None else self.record.span(phase)
        return self.end if span is None else self.at(span.end)


def _percentile(ascending: npt.NDArray[np.float64], percent: int) -> float | None:
    value = float(ascending[max(1, math.ceil(percent / 100 * len(ascending))) - 1])
    return value if math.isfinite(value) else None
