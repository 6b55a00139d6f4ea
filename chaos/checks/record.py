"""What a check sees of a run: the history, read once into plain arrays and spans.

All times are nanoseconds of CLOCK_MONOTONIC, as in the history; :meth:`Record.since_start` turns one into
seconds on the run's own axis. Nothing here knows a lab, a fault or a definition: operations, objectives and
expectations come from ``plan.json``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from chaos.history.format import Outcome
from chaos.history.reader import OUTCOMES as NAMES
from chaos.history.reader import PhaseSpan

SECOND = 1_000_000_000
OUTCOMES = {name: code for code, name in enumerate(NAMES)}
UNANSWERED = (Outcome.REFUSED, Outcome.RESET, Outcome.TIMEOUT, Outcome.DROPPED, Outcome.UNKNOWN)
"""Outcomes without an HTTP answer: their latency is not a number, it is "longer than anyone waited"."""
TRIGGERS = ("fault.command", "action.command", "fault.undo")
"""Events by which the experiment itself changes something."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class HistoryLike(Protocol):
    """The part of :class:`chaos.history.reader.History` that the checks use."""

    @property
    def plan(self) -> dict[str, Any]: ...
    @property
    def events(self) -> list[dict[str, Any]]: ...
    @property
    def driver(self) -> list[dict[str, Any]]: ...
    @property
    def readback(self) -> dict[str, Any] | None: ...
    @property
    def clean(self) -> dict[str, Any] | None: ...
    @property
    def arrivals(self) -> pd.DataFrame: ...
    @property
    def phases(self) -> list[PhaseSpan]: ...
    def phase_of_arrivals(self) -> pd.Series: ...


@dataclass(frozen=True)
class Operation:
    """One kind of request. ``rate`` per second, ``good_within`` in seconds from the intended start."""

    name: str
    rate: float
    good_within: float


@dataclass(frozen=True)
class Span:
    """A phase as it ran. ``reason`` is None when it never ended (the runner died in it)."""

    name: str
    index: int
    start: int
    end: int
    scripted_wait: bool
    reason: str | None

    @property
    def seconds(self) -> float:
        return max(0, self.end - self.start) / SECOND

    @property
    def complete(self) -> bool:
        """It ran to the end that the definition gave it."""
        return self.reason in ("elapsed", "condition met", "deadline")

    def holds(self, t: int) -> bool:
        return self.start <= t < self.end


@dataclass(frozen=True)
class Expectation:
    """One expectation of the definition, still over all its phases. ``op`` None for the cluster's metrics."""

    metric: str
    op: str | None
    quantity: str
    phases: tuple[str, ...]
    comparison: str
    value: float
    text: str
    known_weakness: str | None


@dataclass(frozen=True)
class Arrivals:
    """The arrivals of one operation as parallel arrays, in the order of their intended time.

    ``end`` and ``start`` are 0 where there was none. ``latency`` is in seconds from the intended start, inf
    where unanswered. ``phase`` is the index of the phase that the arrival counts for, -1 for none. ``k`` is
    the arrival's number, ``client`` and ``node`` point into :attr:`Record.clients` and :attr:`Record.nodes`
    (the client host that sent it, the node that it was sent to), -1 for none.
    """

    intended: Ints
    start: Ints
    end: Ints
    latency: Floats
    outcome: Ints
    good: Bools
    phase: Ints
    k: Ints
    client: Ints
    node: Ints

    def __len__(self) -> int:
        return len(self.intended)

    def where(self, mask: Bools) -> Arrivals:
        return Arrivals(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))


class Record:
    """A run, ready to be checked. Building one reads everything; the checks only look."""

    def __init__(self, history: HistoryLike) -> None:
        self.plan: dict[str, Any] = history.plan
        self.events: list[dict[str, Any]] = sorted(history.events, key=lambda event: int(event.get("t", 0)))
        self.driver: list[dict[str, Any]] = history.driver
        self.readback: dict[str, Any] | None = history.readback
        self.clean: dict[str, Any] | None = history.clean
        self.cas: list[dict[str, Any]] = list(getattr(history, "cas", ()))
        self.probes: list[dict[str, Any]] = list(getattr(history, "probes", ()))
        self.stale: list[dict[str, Any]] = list(getattr(history, "stale", ()))
        experiment: dict[str, Any] = self.plan.get("experiment") or {}
        self.planned_phases: list[dict[str, Any]] = list(experiment.get("phases") or [])
        self.operations = _operations(experiment)
        self.expectations = _expectations(experiment)
        self.request_timeout = _request_timeout(self.plan)
        self.spans = tuple(
            Span(phase.name, index, phase.start_ns, phase.end_ns, phase.scripted_wait, phase.reason)
            for index, phase in enumerate(history.phases)
        )
        topology: dict[str, Any] = self.plan.get("topology") or {}
        self.zones: tuple[str, ...] = tuple(str(zone) for zone in topology.get("zones") or ())
        self.zone_of = {str(node["name"]): str(node["zone"]) for node in topology.get("nodes") or ()}
        """The zone of each node of the topology."""
        frame = history.arrivals
        self.clients, self.nodes = (_names(frame[name]) for name in ("client", "node"))
        place = {span.name: span.index for span in self.spans}
        phases = history.phase_of_arrivals().map(place, na_action="ignore").astype(float).fillna(-1)
        self.last_seen = max(
            [int(event["t"]) for event in self.events if "t" in event]
            + [int(frame[name].max()) for name in ("intended", "end") if len(frame)],
            default=0,
        )
        self.arrivals = {
            op.name: _arrivals(frame[mask], phases[mask], op)
            for op in self.operations
            for mask in [(frame["op"] == op.name).to_numpy()]
        }

    # -- events ---------------------------------------------------------------------------------

    def of_kind(self, *kinds: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event.get("kind") in kinds]

    def first(self, *kinds: str) -> dict[str, Any] | None:
        return next(iter(self.of_kind(*kinds)), None)

    def within(self, span: Span, *kinds: str) -> list[dict[str, Any]]:
        return [event for event in self.of_kind(*kinds) if span.holds(int(event["t"]))]

    @cached_property
    def origin(self) -> int:
        """Second 0 of the run's axis: the start of the load, or the first thing known."""
        start = self.first("load.start") or self.first("phase.start")
        known = [start] if start else self.events[:1]
        return int(known[0]["t"]) if known else 0

    def since_start(self, t: int | None) -> float | None:
        return None if t is None else (t - self.origin) / SECOND

    @cached_property
    def load_end(self) -> int:
        """Until when arrivals were scheduled (ns)."""
        for event in reversed(self.driver):
            if event.get("kind") == "driver.stop" and "stopped_ns" in event:
                return int(event["stopped_ns"])
        stop = self.of_kind("load.stop")
        if stop:
            return int(stop[-1]["t"])
        last = [int(part.intended[-1]) for part in self.arrivals.values() if len(part)]
        return max(last, default=self.last_seen)

    # -- phases ---------------------------------------------------------------------------------

    def span(self, phase: str) -> Span | None:
        return next((span for span in self.spans if span.name == phase), None)

    def triggers(self, span: Span) -> list[dict[str, Any]]:
        return self.within(span, *TRIGGERS)

    def words(self, event: Mapping[str, Any]) -> str:
        """What a command is, in words; an undo is named by the fault that it undoes."""
        if event["kind"] != "fault.undo":
            return str(event.get("says") or event.get("fault_kind") or event.get("action_kind") or event["kind"])
        commands = [item for item in self.of_kind("fault.command") if item.get("fault") == event.get("fault")]
        return f"undo of {self.words(commands[0]) if commands else event.get('fault')}"

    @cached_property
    def healthy(self) -> tuple[Span, ...]:
        """The phases that were over before the experiment changed anything: the run's own baseline."""
        changes = [int(event["t"]) for event in self.of_kind(*TRIGGERS)]
        first = min(changes, default=None)
        return tuple(span for span in self.spans if first is None or span.end <= first)

    def baseline(self, op: str) -> tuple[int, int]:
        """(not good, scheduled) of an operation in the healthy phases."""
        part = self.arrivals[op]
        mask = np.isin(part.phase, [span.index for span in self.healthy])
        return int((~part.good[mask]).sum()), int(mask.sum())

    def baseline_rate(self, op: str) -> float:
        bad, scheduled = self.baseline(op)
        return bad / scheduled if scheduled else 0.0

    def in_phase(self, op: str, span: Span) -> Arrivals:
        part = self.arrivals[op]
        return part.where(part.phase == span.index)

    def window(self, op: str) -> float:
        """Seconds of one window: 1, or wider so that it holds 100 arrivals (load-and-measurement, 5)."""
        rate = next(item.rate for item in self.operations if item.name == op)
        return float(max(1, math.ceil(100 / rate))) if rate > 0 else 1.0


def _arrivals(frame: pd.DataFrame, phases: pd.Series, op: Operation) -> Arrivals:
    order = np.argsort(frame["intended"].to_numpy(), kind="stable")
    intended, start, end = (frame[name].to_numpy(np.int64)[order] for name in ("intended", "start", "end"))
    outcome = frame["outcome"].cat.codes.to_numpy(np.int64)[order]
    answered = ~np.isin(outcome, [int(item) for item in UNANSWERED]) & (end > 0)
    latency = np.where(answered, (end - intended) / SECOND, np.inf)
    good = (outcome == Outcome.OK) & (latency <= op.good_within)
    k = frame["k"].to_numpy(np.int64)[order]
    client, node = (_codes(frame[name])[order] for name in ("client", "node"))
    return Arrivals(intended, start, end, latency, outcome, good, phases.to_numpy(np.int64)[order], k, client, node)


def _names(column: pd.Series) -> tuple[str, ...]:
    return tuple(map(str, column.cat.categories)) if isinstance(column.dtype, pd.CategoricalDtype) else ()


def _codes(column: pd.Series) -> Ints:
    """Positions among the names, -1 for none."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return np.full(len(column), -1, np.int64)
    return column.cat.codes.to_numpy(np.int64)


def windows(span_start: int, span_end: int, width: float) -> list[tuple[int, int]]:
    """Consecutive windows of ``width`` seconds; a rest shorter than one joins the last, so none is tiny."""
    step = int(width * SECOND)
    number = max(1, (span_end - span_start) // step)
    edges = [span_start + step * index for index in range(number)] + [span_end]
    return list(itertools.pairwise(edges)) if span_end > span_start else []


def per_window(arrivals: Arrivals, frames: list[tuple[int, int]], *, clip: bool = False) -> tuple[Ints, Ints]:
    """(scheduled, not good) per window, by intended time. ``clip`` counts early ones in the first window."""
    edges = np.array([start for start, _ in frames] + [frames[-1][1]], np.int64)
    at = np.searchsorted(edges, arrivals.intended, side="right") - 1
    if clip:
        at = np.clip(at, 0, len(frames) - 1)
    inside = (at >= 0) & (at < len(frames))
    scheduled = np.bincount(at[inside], minlength=len(frames)).astype(np.int64)
    bad = np.bincount(at[inside & ~arrivals.good], minlength=len(frames)).astype(np.int64)
    return scheduled, bad


def _operations(experiment: Mapping[str, Any]) -> tuple[Operation, ...]:
    load = experiment.get("load") or {}
    return tuple(
        Operation(
            name,
            float(load[name].get("rate") or 0),
            float(load[name]["good_within"]),
        )
        for name in ("read", "write")
        if load.get(name)
    )


def _request_timeout(plan: Mapping[str, Any]) -> float:
    client = ((plan.get("experiment") or {}).get("load") or {}).get("client") or {}
    return float(client.get("timeout") or (plan.get("client") or {}).get("timeout_s") or 5.0)


def _expectations(experiment: Mapping[str, Any]) -> tuple[Expectation, ...]:
    return tuple(
        Expectation(
            metric=item["metric"],
            op=item.get("op"),
            quantity=item.get("quantity") or item["metric"].partition(".")[2],
            phases=tuple(item.get("phases") or ()),
            comparison=item["comparison"],
            value=float(item["value"]),
            text=item.get("text") or f"{item['metric']} {item['comparison']} {item['value']}",
            known_weakness=item.get("known_weakness"),
        )
        for item in experiment.get("expect") or ()
    )
