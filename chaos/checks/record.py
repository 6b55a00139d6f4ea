"""What a check sees of a run: the history, read once into plain arrays and spans.

All times are nanoseconds of CLOCK_MONOTONIC, as in the history; :meth:`Record.since_start` turns one into
seconds on the run's own axis. Nothing here knows a lab, a fault or a definition: operations, objectives and
expectations come from ``plan.json``.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from chaos.base import text
from chaos.base.operations import ADMIN
from chaos.base.rates import Piece, Profile, Trace
from chaos.checks.arrivals import SECOND, UNANSWERED, Arrivals, Bools, Compact, Floats, Ints, per_window
from chaos.history import during, models
from chaos.history.changes import Changes
from chaos.history.events import Event, RatesBegin
from chaos.history.format import ACKNOWLEDGED_ITEMS, Action
from chaos.history.items import NAMES as ITEM_NAMES
from chaos.history.items import Items
from chaos.history.models import Plan
from chaos.history.reader import OUTCOMES as NAMES
from chaos.history.reader import PhaseSpan
from chaos.history.seal import Look

if TYPE_CHECKING:  # see chaos.history.reader
    import pandas as pd

__all__ = [
    "OUTCOMES",
    "SECOND",
    "TRIGGERS",
    "UNANSWERED",
    "Arrivals",
    "Bools",
    "Expected",
    "Floats",
    "HistoryLike",
    "Ints",
    "LoadOperation",
    "Record",
    "Span",
    "per_window",
    "window_width",
    "windows",
]

E = TypeVar("E", bound=Event)
OUTCOMES = {name: code for code, name in enumerate(NAMES)}
SEGMENT = "SEGMENT"
"""The replication type by which replicas copy segments."""
TRIGGERS = ("fault.command", "action.command", "fault.undo", during.BEGUN)
"""Events by which the experiment itself changes something, or lets others do so."""
STEADY_BASELINE = "steady_baseline"
"""The key of plan.json by which phases after a change of a rate are no baseline. Runs without it are judged as they
were."""


class HistoryLike(Protocol):
    """The part of :class:`chaos.history.reader.History` that the checks use."""

    @property
    def plan(self) -> Plan: ...
    @property
    def events(self) -> list[dict[str, Any]]: ...
    @property
    def driver(self) -> list[dict[str, Any]]: ...
    @property
    def readback(self) -> dict[str, Any] | None: ...
    @property
    def clean(self) -> dict[str, Any] | None: ...
    @property
    def phases(self) -> list[PhaseSpan]: ...
    def batches(self, columns: tuple[str, ...]) -> Iterator[pd.DataFrame]: ...
    def span_of(self, arrivals: pd.DataFrame) -> npt.NDArray[np.int16]: ...


@dataclass(frozen=True)
class LoadOperation:
    """One kind of request. ``rate`` per second, ``good_within`` in seconds from the intended start.

    ``changes``: how the rate changes, and ``rate`` is then the lowest; or ``times``: its arrivals as they were listed,
    at the rate ``before`` until then, and ``rate`` is then the mean. Neither: it never changes.

    ``writes``: whether each arrival writes documents of its own, and ``items`` how many; ``index``: of the load's
    indices, None: its first. ``admin``: monitoring calls. ``closed``: it is a closed loop, which has no rate, and whose
    answers are good whenever they come. ``bulks``: HTTP requests that each takes where nothing is sent again: a helper
    of a client library cuts it.
    """

    name: str
    rate: float
    good_within: float
    writes: bool = False
    items: int = 1
    closed: bool = False
    bulks: int = 1
    index: str | None = None
    admin: bool = False
    changes: tuple[Piece, ...] = ()
    times: tuple[float, ...] = ()
    before: float = 0.0

    @cached_property
    def profile(self) -> Profile | Trace | None:
        """The rate that changes; None: it never does."""
        if self.times:
            return Trace(self.times, self.before)
        return Profile(self.changes) if self.changes else None

    @property
    def rate_text(self) -> str:
        """The rate in words."""
        return f"{self.rate:g}/s" if self.profile is None else self.profile.text


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
        return self.reason in ("elapsed", "condition met", "deadline", "done")

    def holds(self, t: int) -> bool:
        return self.start <= t < self.end


@dataclass(frozen=True)
class Expected:
    """One expectation of the definition, still over all its phases. ``op`` None for the cluster's metrics.

    ``known_bound``: (comparison, value, text) of how bad a known weakness may be. ``because``: why it allows more than
    every run promises. ``default``: no line of the definition says it (:mod:`.defaults`).
    """

    metric: str
    op: str | None
    quantity: str
    phases: tuple[str, ...]
    comparison: str
    value: float
    text: str
    known_weakness: str | None
    known_bound: tuple[str, float, str] | None = None
    because: str | None = None
    default: bool = False


COLUMNS = ("op", "k", "intended", "start", "end", "outcome", "client", "node", "failure")
"""The columns of the history's arrivals that a record is made of."""


class Record:
    """A run, ready to be checked. Building one reads everything; the checks only look."""

    def __init__(self, history: HistoryLike) -> None:
        self.plan: Plan = history.plan
        self.rules = int(self.plan.get("rules", 1))
        """The rules by which the run is judged (:data:`chaos.history.format.RULES`)."""
        self.events: list[dict[str, Any]] = sorted(history.events, key=lambda event: int(event.get("t", 0)))
        self.driver: list[dict[str, Any]] = history.driver
        self.readback: dict[str, Any] | None = history.readback
        self.clean: dict[str, Any] | None = history.clean
        self.audit: dict[str, Any] | None = getattr(history, "audit", None)
        self.cas: list[dict[str, Any]] = list(getattr(history, "cas", ()))
        self.probes: list[dict[str, Any]] = list(getattr(history, "probes", ()))
        self.stale: list[dict[str, Any]] = list(getattr(history, "stale", ()))
        self.wrong: list[dict[str, Any]] = list(getattr(history, "wrong", ()))
        self._lines: Callable[[str], list[dict[str, Any]]] = getattr(history, "lines", lambda name: [])
        self.processes = int(getattr(history, "processes", 1))
        """How many driver processes shared the load; arrival ``k`` is of process ``k`` modulo their number."""
        self.items: Items = getattr(history, "items", None) or Items.none()
        """What became of each document of bulks."""
        self.parts: Items = getattr(history, "parts", None) or Items.none()
        """What became of each search of requests that have several, as the outcome of a request."""
        self.changes: Changes = getattr(history, "changes", None) or Changes.of()
        """Which of these update or delete an earlier document."""
        self.recorded_rules = int(getattr(history, "recorded_rules", self.rules))
        """Those under which it was recorded: what a run leaves follows from them, whatever it is judged by."""
        self.seal: Look | None = getattr(history, "seal", None)
        """The run's folder held against its seal; None for a history that is in no folder."""
        experiment: dict[str, Any] = self.plan.get("experiment") or {}
        self.planned_phases: list[dict[str, Any]] = list(experiment.get("phases") or [])
        self.operations = _operations(experiment)
        """Open loops: availability and latency are judged on these alone."""
        self.closed = _closed(experiment)
        """Closed loops, of which throughput and cost are known, and what became of their documents."""
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
        self.last_seen = max([int(event["t"]) for event in self.events if "t" in event], default=0)
        self.clients: tuple[str, ...] = ()
        self.nodes: tuple[str, ...] = ()
        self.failures: Counter[tuple[str, int, int, int]] = Counter()
        """Arrivals that were not ok by operation (name), phase (index; -1: in none), outcome and
        :class:`~chaos.history.failures.Failure`."""
        self.arrivals = self._read(history)

    def _read(self, history: HistoryLike) -> dict[str, Arrivals]:
        """The arrivals of each operation, read a batch at a time; moves ``last_seen`` on to the last of them."""
        place = {span.name: span.index for span in self.spans}
        index = np.array([place[span.name] for span in self.spans] + [-1], np.int16)  # -1 picks the last: no phase
        self.tries: Counter[tuple[str, int]] = Counter()
        """HTTP requests made for the arrivals of an operation (name) in a phase (index; -1: in none)."""
        parts: dict[str, list[Arrivals]] = {op.name: [] for op in (*self.operations, *self.closed)}
        names: dict[str, list[str]] = {"client": [], "node": []}
        several = len(self.writers) > 1
        counted = {
            op.name for op in (*self.operations, *self.closed) if op.items > 1 or op.closed or (several and op.writes)
        }
        for frame in history.batches((*COLUMNS, "attempts") if counted else COLUMNS):
            last = [int(frame[name].max()) for name in ("intended", "end") if len(frame)]
            self.last_seen = max([self.last_seen, *last])
            columns: dict[str, Compact] = {
                **{name: frame[name].to_numpy() for name in ("k", "intended", "start", "end")},
                "outcome": frame["outcome"].cat.codes.to_numpy(),
                "phase": index[history.span_of(frame)],
                **{name: _codes(frame[name], known) for name, known in names.items()},
            }
            for op in (*self.operations, *self.closed):
                mask = (frame["op"] == op.name).to_numpy()
                own = {name: column[mask] for name, column in columns.items()}
                self._count_failures(op.name, own, frame["failure"].to_numpy()[mask])
                if op.name in counted:
                    made = np.bincount(own["phase"] + 1, frame["attempts"].to_numpy()[mask], len(self.spans) + 1)
                    self.tries.update({(op.name, place - 1): int(each) for place, each in enumerate(made)})
                parts[op.name].append(Arrivals.of(**own, good_within=op.good_within))
        self.clients, self.nodes = tuple(names["client"]), tuple(names["node"])
        return {name: Arrivals.joined(some) for name, some in parts.items()}

    def _count_failures(self, op: str, own: Mapping[str, Compact], failure: Compact) -> None:
        failed = own["outcome"] != OUTCOMES["ok"]
        if failed.any():
            kinds = np.stack([own["phase"][failed], own["outcome"][failed], failure[failed]]).astype(np.int64)
            found, numbers = np.unique(kinds, axis=1, return_counts=True)
            for (phase, outcome, why), number in zip(found.T.tolist(), numbers.tolist(), strict=True):
                self.failures[op, phase, outcome, why] += number

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The events of a file of its own in ``history/``, by time; empty where there is none."""
        return self._lines(name)

    # -- events ---------------------------------------------------------------------------------

    @cached_property
    def _by_kind(self) -> dict[Any, list[tuple[int, dict[str, Any]]]]:
        """The events of each kind with their places among all: of a long run nine in ten are samples."""
        found: dict[Any, list[tuple[int, dict[str, Any]]]] = {}
        for place, event in enumerate(self.events):
            found.setdefault(event.get("kind"), []).append((place, event))
        return found

    def of_kind(self, *kinds: str) -> list[dict[str, Any]]:
        """The events of these kinds in their order."""
        several = [self._by_kind.get(kind, []) for kind in dict.fromkeys(kinds)]
        return [event for _, event in heapq.merge(*several, key=lambda item: item[0])]

    def seen(self, *kinds: type[E], span: Span | None = None) -> list[E]:
        """The events of classes of the catalogue in their order (:mod:`chaos.history.events`). ``span``: within it."""
        by_kind = {kind.kind: kind for kind in kinds}
        lines = self.of_kind(*by_kind) if span is None else self.within(span, *by_kind)
        return [by_kind[line["kind"]].read(line) for line in lines]

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
        return max((part.last for part in self.arrivals.values() if part.last is not None), default=self.last_seen)

    # -- rates ----------------------------------------------------------------------------------

    @cached_property
    def rates_began(self) -> int | None:
        """When rates that change began to (ns), as the driver was told; None: they never did."""
        seen = self.seen(RatesBegin)
        return seen[0].t if seen else None

    def due(self, op: LoadOperation, start: int, end: int) -> float:
        """How many arrivals of an operation its rate demands from ``start`` to ``end`` (ns)."""
        seconds = max(0, end - start) / SECOND
        if op.profile is None or self.rates_began is None:
            return (op.rate if op.profile is None else op.profile.first) * seconds
        begin = (start - self.rates_began) / SECOND
        return op.profile.expected(begin, begin + seconds)

    def quiet(self, op: str, frames: Sequence[tuple[int, int]]) -> Bools:
        """In which of some windows (ns) listed arrivals ask for nothing. Other rates always ask."""
        of = next((each for each in self.operations if each.name == op), None)
        if of is None or not of.times:
            return np.zeros(len(frames), np.bool_)
        return np.array([self.due(of, start, end) < 1 for start, end in frames], np.bool_)

    def corners(self, op: LoadOperation, start: int, end: int) -> list[tuple[float, float]]:
        """(Seconds from ``start``, the rate then) where the line of a rate that changes bends or jumps."""
        if op.profile is None or self.rates_began is None or end <= start:
            return []
        begin = (start - self.rates_began) / SECOND
        return [(at - begin, rate) for at, rate in op.profile.corners(begin, begin + (end - start) / SECOND)]

    # -- the load's index -----------------------------------------------------------------------

    @cached_property
    def segments(self) -> bool:
        """Whether replicas of the load's first index copy segments, as it was read from the index before the load."""
        shape = self.first("index.shape")
        return shape is not None and shape.get("replication") == SEGMENT

    # -- phases ---------------------------------------------------------------------------------

    def span(self, phase: str) -> Span | None:
        return next((span for span in self.spans if span.name == phase), None)

    def place(self, t: int) -> int | None:
        """The place of the phase that holds a moment; None for a moment outside the phases."""
        at = bisect.bisect_right(self._starts, t) - 1
        return self.spans[at].index if at >= 0 and self.spans[at].holds(t) else None

    @cached_property
    def _starts(self) -> list[int]:
        return [span.start for span in self.spans]

    def longest_gap(self, events: Iterable[Mapping[str, Any]]) -> float:
        """The longest stretch of the phases (s) without one of these events; 0 when no phase has begun."""
        if not self.spans:
            return 0.0
        start, end = self.spans[0].start, self.spans[-1].end
        inside = sorted(int(event["t"]) for event in events if start <= int(event["t"]) < end)
        return max(b - a for a, b in itertools.pairwise([start, *inside, end])) / SECOND

    def moment(self, t: int) -> str:
        """When that was, in words: ``4 s into “slow”``; empty where no load has begun."""
        if (span := next((span for span in self.spans if span.holds(t)), None)) is not None:
            return f"{text.seconds((t - span.start) / SECOND)} into “{text.clip(span.name, 60)}”"
        if (at := self.since_start(t)) is None:
            return ""
        return f"{text.seconds(abs(at))} {'after' if at >= 0 else 'before'} the start of the load, in no phase"

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
        """The phases that were over before the experiment changed anything: the run's own baseline. Where some were
        over before a rate changed, these."""
        first = min((int(event["t"]) for event in self.of_kind(*TRIGGERS)), default=None)
        before = tuple(span for span in self.spans if first is None or span.end <= first)
        if self.plan.get(STEADY_BASELINE) and (changed := self._rate_changed) is not None:
            return tuple(span for span in before if span.end <= changed) or before
        return before

    @cached_property
    def _rate_changed(self) -> int | None:
        """When the first of the rates that follow a line had another value than at first (ns)."""
        began = self.rates_began
        if began is None:
            return None
        moments = []
        for op in self.operations:
            if op.profile is None or op.times:
                continue
            line = self.corners(op, began, max(self.load_end, began))
            last = next((at for (at, _), (_, rate) in itertools.pairwise(line) if rate != op.profile.first), None)
            if last is not None:
                moments.append(began + round(last * SECOND))
        return min(moments, default=None)

    def baseline(self, op: str) -> tuple[int, int]:
        """(not good, scheduled) of an operation in the healthy phases."""
        counts = [self.in_phase(op, span).counts for span in self.healthy]
        return sum(int(count[:, 0].sum()) for count in counts), sum(int(count.sum()) for count in counts)

    def baseline_rate(self, op: str) -> float:
        bad, scheduled = self.baseline(op)
        return bad / scheduled if scheduled else 0.0

    @property
    def writers(self) -> tuple[LoadOperation, ...]:
        """The operations that write documents; none when the load writes nothing."""
        return tuple(op for op in (*self.operations, *self.closed) if op.writes)

    @property
    def stride(self) -> int:
        """How written documents are numbered (:mod:`chaos.base.ids`)."""
        return max((op.items for op in (*self.operations, *self.closed)), default=1)

    @property
    def acknowledged_writes(self) -> int:
        """How many documents of the load were acknowledged."""
        return sum(self.acknowledged(op) for op in self.writers)

    def acknowledged(self, op: LoadOperation) -> int:
        """How many documents of an operation were acknowledged: of a request that wrote one, where its outcome is ok or
        partial (chaos/observe/written.py); of a bulk, by its documents. Those that were deleted, or may have been, are
        taken off."""
        if op.items > 1 and len(self.changes):
            own = self.arrivals[op.name].k
            made = ~np.isin(self.items.numbers(self.stride), self.changes.item)
            made &= np.isin(np.repeat(self.items.k, self.items.sizes), own)
            last = self.changes.last
            deleted = self.changes.document[last][self.changes.action[last] == Action.DELETE]
            return int((self.items.acknowledged & made).sum()) - int(np.isin(deleted // self.stride, own).sum())
        if op.items > 1:
            if len(self.writers) == 1:
                return int(self.items.acknowledged.sum())
            found = self.items.counts(self.arrivals[op.name].k)
            return sum(found.get(ITEM_NAMES[outcome], 0) for outcome in ACKNOWLEDGED_ITEMS)
        return int(self.arrivals[op.name].counts[[OUTCOMES["ok"], OUTCOMES["partial"]]].sum())

    @property
    def readers(self) -> tuple[str, ...]:
        """The operations that read documents, by name."""
        return tuple(op.name for op in self.operations if not op.writes and not op.admin)

    def in_phase(self, op: str, span: Span) -> Arrivals:
        return self.arrivals[op].in_phase(span.index)

    def window(self, op: str) -> float:
        """Seconds of one window: 1, or wider so that it holds 100 arrivals (docs/statistics.md), at the lowest rate."""
        rate = next(item.rate for item in self.operations if item.name == op)
        return window_width(rate)


def _codes(column: pd.Series, names: list[str]) -> Compact:
    """Positions among ``names``, which grow by those that are new; -1 for none."""
    import pandas as pd

    if not isinstance(column.dtype, pd.CategoricalDtype):
        return np.full(len(column), -1, np.int8)
    categories = [str(name) for name in column.cat.categories]
    names += [name for name in categories if name not in names]
    table = np.array([names.index(name) for name in categories] + [-1], np.int16)  # -1 picks the last
    found: Compact = table[column.cat.codes.to_numpy()]
    return found


def window_width(rate: float) -> float:
    """Seconds of one window at ``rate`` arrivals per second."""
    return float(max(1, math.ceil(100 / rate))) if rate > 0 else 1.0


def windows(span_start: int, span_end: int, width: float) -> list[tuple[int, int]]:
    """Consecutive windows of ``width`` seconds; a rest shorter than one joins the last, so none is tiny."""
    step = int(width * SECOND)
    number = max(1, (span_end - span_start) // step)
    edges = [span_start + step * index for index in range(number)] + [span_end]
    return list(itertools.pairwise(edges)) if span_end > span_start else []


def _operations(experiment: Mapping[str, Any]) -> tuple[LoadOperation, ...]:
    return tuple(
        LoadOperation(
            name,
            float(given.get("rate") or 0),
            float(given["good_within"]),
            models.writes(name, given),
            int(given.get("items") or 1),
            bulks=_bulks(given),
            index=given.get("index"),
            admin=given.get("operation") == ADMIN,
            changes=tuple((float(at), float(first), float(last)) for at, first, last in given.get("changes") or ()),
            times=tuple(float(at) for at in given.get("times") or ()),
            before=float(given.get("before") or 0.0),
        )
        for name, given in models.operations(experiment.get("load")).items()
    )


def _closed(experiment: Mapping[str, Any]) -> tuple[LoadOperation, ...]:
    return tuple(
        LoadOperation(
            name,
            0.0,
            math.inf,
            bool(given.get("writes")),
            int(given.get("items") or 1),
            closed=True,
            bulks=_bulks(given),
        )
        for name, given in models.closed(experiment.get("load")).items()
    )


def _bulks(given: Mapping[str, Any]) -> int:
    size = (given.get("client") or {}).get("chunk_size")
    return math.ceil(int(given.get("items") or 1) / int(size)) if size else 1


def _request_timeout(plan: Plan) -> float:
    client = ((plan.get("experiment") or {}).get("load") or {}).get("client") or {}
    return float(client.get("timeout") or (plan.get("client") or {}).get("timeout_s") or 5.0)


def _expectations(experiment: Mapping[str, Any]) -> tuple[Expected, ...]:
    return tuple(
        Expected(
            metric=item["metric"],
            op=item.get("op"),
            quantity=item.get("quantity") or item["metric"].partition(".")[2],
            phases=tuple(item.get("phases") or ()),
            comparison=item["comparison"],
            value=float(item["value"]),
            text=item.get("text") or f"{item['metric']} {item['comparison']} {item['value']}",
            known_weakness=item.get("known_weakness"),
            known_bound=_known_bound(item),
            because=item.get("because"),
        )
        for item in experiment.get("expect") or ()
    )


def _known_bound(item: Mapping[str, Any]) -> tuple[str, float, str] | None:
    bound = item.get("known_bound")
    return None if bound is None else (str(bound["comparison"]), float(bound["value"]), str(bound["text"]))
