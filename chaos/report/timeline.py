"""Geometry of the timelines: what happened to every operation, on one time axis with faults and events.

Only numbers and words are computed here; the templates draw them as SVG. All figures share the width, the
margins and the scale of the time axis, so they line up under each other.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from chaos.base import text
from chaos.checks import during as waited
from chaos.checks import latency as latency_check
from chaos.checks.arrivals import Ints, binned
from chaos.checks.models import FaultItem
from chaos.checks.record import OUTCOMES, SECOND, Arrivals, Floats, LoadOperation, Record
from chaos.history import configuration, during, ends, passages
from chaos.history.format import Outcome

WIDTH, LEFT, RIGHT = 1120.0, 84.0, 14.0
BAR_TOP, BAR_HEIGHT = 40.0, 110.0
LATENCY_TOP, LATENCY_HEIGHT = 176.0, 120.0
MOST_BINS = 200
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)
LOWEST, HIGHEST = 1e-3, 10.0
"""Seconds at the ends of the logarithmic latency axis."""
PALETTE = ("#b45309", "#6d28d9", "#0f766e", "#be185d", "#1d4ed8", "#4d7c0f")
KINDS = ("good", "late", "failed", "unknown")
"""The parts of a bar from the bottom up. late: ok, but after the objective; unknown: also dropped."""
NOT_SENT = (Outcome.UNKNOWN, Outcome.DROPPED)
HEAT_ROWS = 28
"""Rows of the heat map of latencies, equal on the logarithmic axis: seven a decade."""
HEAT_LEVELS = 5
"""Shades of the heat map; a shade is a count on a logarithmic scale up to the fullest cell."""
AT_ONCE = 0.05
"""Seconds within which changes that the sampler wrote are of one sample."""
MOST_LANES = 18
"""Nodes that get a lane each; of more, every zone gets one lane with their number."""
FINE_STEPS = (0.1, 0.2, 0.5, *STEPS)
MOST_FINE_BINS = 1500
"""Bins that zoom and hover show; each holds five arrivals on average, or more."""
CHARACTER = 6.1
"""Width of an average character at the label's size; labels are placed with it, never measured."""

T = TypeVar("T")


@dataclass(frozen=True)
class Axis:
    """The time axis. ``seconds`` is its length from second 0."""

    seconds: float

    def x(self, second: float) -> float:
        inside = min(max(second, 0.0), self.seconds)
        return round(LEFT + (WIDTH - LEFT - RIGHT) * inside / self.seconds, 1)

    def ticks(self) -> list[tuple[float, str]]:
        step = next((s for s in STEPS if self.seconds / s <= 12), STEPS[-1])
        minutes = step >= 60
        return [
            (self.x(at), f"{at // 60:g} min" if minutes else f"{at:g} s")
            for at in np.arange(0, self.seconds + step / 1000, step)
        ]


@dataclass(frozen=True)
class Column:
    """A phase as a column of every figure."""

    name: str
    label: str
    x: float
    width: float
    seconds: str
    scripted_wait: bool


@dataclass(frozen=True)
class Band:
    """A fault: from command to gone, solid while it was in effect."""

    id: str
    label: str
    title: str
    colour: str
    x: float
    width: float
    effect_x: float
    effect_width: float
    row: int
    text_x: float
    anchor: str


@dataclass(frozen=True)
class Tick:
    """Something that happened at one moment, with the row in which its label has room."""

    label: str
    title: str
    mark: str
    x: float
    row: int
    text_x: float
    anchor: str


@dataclass(frozen=True)
class Status:
    """A stretch of one cluster status."""

    status: str
    x: float
    width: float
    label: str
    title: str


@dataclass(frozen=True)
class Stretch:
    """A stretch of a lane. ``state``: ``in``, ``out``, ``leader`` or ``some`` (a number of several)."""

    state: str
    x: float
    width: float
    label: str
    title: str
    share: float = 1.0


@dataclass(frozen=True)
class Lane:
    """One node, or the copies of shards in one zone, over time. ``zone`` is set on a zone's first lane only."""

    zone: str
    label: str
    name: str
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True)
class Bar:
    """One bin of an operation. ``parts`` are (kind, y, height); the counts are for the table."""

    x: float
    width: float
    parts: tuple[tuple[str, float, float], ...]
    title: str
    start: str
    counts: dict[str, int]
    p50: str
    p99: str


@dataclass(frozen=True)
class Figure:
    """One operation: bars of arrivals per second above, latency below."""

    op: str
    title: str
    says: str
    bin_text: str
    bars: tuple[Bar, ...]
    top: str
    p50: str
    p99: str
    heat: tuple[str, ...]
    """One SVG path for every shade of the heat map, the lightest first."""
    heat_says: str
    unanswered: tuple[float, ...]
    objective_y: float
    objective: str
    grid: tuple[tuple[float, str], ...]
    fine: dict[str, Any]
    """Columns of finer bins for zoom and hover: seconds, arrivals per second by kind, latencies in milliseconds."""
    offered: str = ""
    """The rate with which requests were due, as a path, where it changes."""


@dataclass(frozen=True)
class Timeline:
    """All figures of a run; ``figures`` is empty when nothing was recorded."""

    axis: Axis
    ticks: tuple[tuple[float, str], ...]
    columns: tuple[Column, ...]
    bands: tuple[Band, ...]
    actions: tuple[Tick, ...]
    events: tuple[Tick, ...]
    statuses: tuple[Status, ...]
    lanes: tuple[Lane, ...]
    figures: tuple[Figure, ...]
    rows: dict[str, int] = field(default_factory=dict)
    listed: tuple[tuple[str, str], ...] = ()
    """(time, words) of everything in the first figure, for its table."""


def build(record: Record, faults: Sequence[FaultItem]) -> Timeline | None:
    """The geometry of a run's timelines, or None when there is nothing to draw."""
    ends = [span.end for span in record.spans] or [record.last_seen]
    length = (max(ends) - record.origin) / SECOND
    if length <= 0:
        return None
    axis = Axis(length)
    columns = (*_warm_up(axis, record), *(_column(axis, record, span) for span in record.spans))
    bands = _bands(axis, faults)
    actions = _place(axis, _actions(record))
    events = _place(axis, _events(record))
    listed = [(item["command"] or 0.0, f"fault commanded: {item['says']}") for item in faults] + [
        (item["gone"], f"fault gone: {item['says']}") for item in faults if item["gone"] is not None
    ]
    listed += [
        (gone[1], f"{_vanished(item)}: {item['says']}") for item in faults if (gone := item.get("vanished")) is not None
    ]
    listed += [(at, full) for at, _, full, _ in (*_actions(record), *_events(record))]
    listed += [(at, f"cluster status {status}") for at, status in _status_changes(record) if at >= 0]
    listed += [
        ((record.since_start(span.start) or 0.0), f"phase {text.clip(span.name)} begins") for span in record.spans
    ]
    return Timeline(
        axis=axis,
        ticks=tuple(axis.ticks()),
        columns=columns,
        bands=bands,
        actions=actions,
        events=events,
        statuses=_statuses(axis, record),
        lanes=_lanes(axis, record),
        figures=tuple(_figure(axis, record, op) for op in record.operations if len(record.arrivals[op.name])),
        rows={
            "bands": 1 + max((band.row for band in bands), default=-1),
            "actions": 1 + max((tick.row for tick in actions), default=-1),
            "events": 1 + max((tick.row for tick in events), default=-1),
        },
        listed=tuple((f"{at:.1f} s", text.clip(words, 300)) for at, words in sorted(listed)),
    )


def safe_colour(colour: object, index: int) -> str:
    """The colour that a fault asks for when it is a plain hex one, else one of ours."""
    if isinstance(colour, str) and re.fullmatch(r"#[0-9a-fA-F]{6}", colour):
        return colour
    return PALETTE[index % len(PALETTE)]


def _column(axis: Axis, record: Record, span: Any) -> Column:
    start, end = record.since_start(span.start) or 0.0, record.since_start(span.end) or 0.0
    x = axis.x(start)
    width = round(axis.x(end) - x, 1)
    room = max(1, int((width - 10) / 7.2))
    return Column(
        name=text.clip(span.name),
        label=text.clip(span.name, room) if room > 2 else "",
        x=x,
        width=width,
        seconds=text.seconds(round(span.seconds, 1)) if width > 44 else "",
        scripted_wait=span.scripted_wait,
    )


def _warm_up(axis: Axis, record: Record) -> tuple[Column, ...]:
    """The load before the first phase: it is drawn, and judged by nobody."""
    first = record.since_start(record.spans[0].start) if record.spans else None
    if not first or first <= 0:
        return ()
    x = axis.x(0.0)
    width = round(axis.x(first) - x, 1)
    room = int((width - 10) / 7.2)
    label = next((words for words in ("warm-up, not judged", "warm-up") if len(words) <= room), "")
    says = "warm-up: the load before the first phase, which is not judged"
    shown = text.seconds(round(first, 1)) if width > 44 else ""
    return (Column(says, label, x, width, shown, scripted_wait=False),)


def _label_at(x: float, label: str) -> tuple[float, str, float, float]:
    """(text x, anchor, left edge, right edge) of a label beside x, on the side where it fits."""
    wide = len(label) * CHARACTER + 12
    if x + wide <= WIDTH:
        return x + 7, "start", x - 5, x + wide
    return x - 7, "end", x - wide, x + 5


def _spread(fault: FaultItem) -> bool:
    return any("spread beyond" in gap for gap in fault["gaps"])


def _vanished(fault: FaultItem) -> str:
    """Of a fault that did not hold until its undo: what happened, and the window in which."""
    first, last = fault["vanished"] or (0.0, 0.0)
    return f"{'spread' if _spread(fault) else 'gone before its time'} between {first:.1f} s and {last:.1f} s"


def _bands(axis: Axis, faults: Sequence[FaultItem]) -> tuple[Band, ...]:
    bands: list[Band] = []
    free: list[float] = []
    for index, fault in enumerate(faults):
        start = float(fault["command"] or 0.0)
        end = fault["gone"] if fault["gone"] is not None else axis.seconds
        effect = fault["in_effect"]
        until = fault["undo"] if fault["undo"] is not None else end
        vanished = fault.get("vanished")
        if vanished and not _spread(fault):  # whatever the plan says, it was not there any more
            until = min(until, vanished[1])
        x, right = axis.x(start), axis.x(end)
        label = text.clip(f"{fault['kind']}: {fault['says']}", 90)
        text_x, anchor, low, high = _label_at(x, label)
        row = next((i for i, taken in enumerate(free) if taken <= min(x, low)), len(free))
        free[row : row + 1] = [max(right, high)]
        proof = "proven" if fault["proven"] else "NOT PROVEN"
        bands.append(
            Band(
                id=f"f{index}",
                label=label if fault["proven"] else f"? {label}",
                title=text.clip(
                    f"{fault['says']}: commanded at {start:.1f} s, gone at "
                    + (f"{fault['gone']:.1f} s" if fault["gone"] is not None else "no known time")
                    + (f", {_vanished(fault)}" if vanished else "")
                    + f", {proof}",
                    400,
                ),
                colour=safe_colour(fault["colour"], index),
                x=x,
                width=round(max(2.0, right - x), 1),
                effect_x=axis.x(effect) if effect is not None else x,
                effect_width=round(max(0.0, axis.x(until) - axis.x(effect)), 1) if effect is not None else 0.0,
                row=row,
                text_x=round(text_x, 1),
                anchor=anchor,
            )
        )
    return tuple(bands)


GROUPED = {
    "cluster.node_left": ("left", "nodes"),
    "cluster.node_joined": ("joined", "nodes"),
    "cluster.shard_moved": ("began to be built", "copies"),
    "cluster.primary_promoted": ("promoted", "primaries"),
    "cluster.shard_unassigned": ("unassigned", "shards"),
    "cluster.shard_started": ("active", "copies"),
}
"""Events of which several within a second share one tick: what happened, and to how many of what."""
UNASKED: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "guard.tripped": lambda event: f"guard {event.get('guard')}: {event.get('says')}",
    configuration.CHANGED: configuration.sentence,
    passages.CHANGED: passages.sentence,
    ends.KIND: ends.sentence,
}
"""Events that nobody had planned, in words."""

Moment = tuple[float, str, str, str]
"""(second, label, full words, mark)."""


def _more(command: str, end: str) -> str:
    """What the end of an action says beside that it was done, or why it failed."""
    said = end.removeprefix(f"{command}: ")
    return f": {text.clip(said, 300)}" if said and said != "done" else ""


def _actions(record: Record) -> list[Moment]:
    found = []
    for event in record.of_kind("action.command"):
        at = record.since_start(int(event["t"])) or 0.0
        done = [item for item in record.of_kind("action.done") if item.get("action") == event.get("action")]
        says = str(event.get("says") or event.get("action_kind"))
        how = "has no end"
        if done:
            how = f"done at {record.since_start(int(done[-1]['t'])):.1f} s" if done[-1].get("ok") else "failed"
            how += _more(says, str(done[-1].get("says") or ""))
        found.append((at, text.clip(says, 60), f"action: {text.clip(says)}, {how}", "action"))
    for each in waited.every(record):
        at = record.since_start(each.begun.t) or 0.0
        how = str((each.over.says if each.over is not None else None) or "has no end")
        found.append((at, text.clip(each.says, 60), text.clip(f"by others: {each.says}, {how}", 400), "action"))
    return found + _controllers(record)


def _controllers(record: Record) -> list[Moment]:
    """What failover controllers decided; of several that decide at once each has its tick."""
    found = []
    for event in record.of_kind("failover.step", "failover.recommends"):
        at = record.since_start(int(event["t"])) or 0.0
        if at < 0:
            continue
        would = "would " if event["kind"] == "failover.recommends" else ""
        what = f"{event.get('controller')}: {would}{event.get('step')} zone {event.get('zone')}"
        kinds = [str(each.get("kind")) for each in event.get("evidence") or ()]
        because = f"{event.get('because')}{f' (by {text.listed(kinds)})' if kinds else ''}"
        found.append((at, text.clip(what, 60), text.clip(f"{what}: {because}", 400), "action"))
    return found


def _events(record: Record) -> list[Moment]:
    """What the cluster did, from second 0; nodes that leave or join within a second share one tick."""
    found: list[Moment] = []
    groups: list[tuple[str, float, list[str], str]] = []
    kinds = (
        "cluster.leader",
        "cluster.node_left",
        "cluster.node_joined",
        "cluster.shard_moved",
        "cluster.primary_promoted",
        "cluster.shard_unassigned",
        "cluster.shard_started",
        *UNASKED,
    )
    for event in record.of_kind(*kinds):
        at = record.since_start(int(event["t"])) or 0.0
        kind = event["kind"]
        if at < 0:
            continue
        if kind == "cluster.leader":
            leader = event.get("leader")
            words = f"cluster manager: {leader}" if leader else "no cluster manager"
            found.append((at, text.clip(words, 44), text.clip(words), "leader" if leader else "no-leader"))
        elif kind == ends.KIND and (event.get("commanded") is True or event.get(during.ALLOWS)):
            continue
        elif kind in UNASKED:
            words = UNASKED[kind](event)
            found.append((at, text.clip(words, 44), text.clip(words), "guard"))
        else:
            what, many = GROUPED[kind]
            name = str(event.get("node"))
            if "shard" in event:
                place = f" on {name}" if event.get("node") else ""
                name = f"{event.get('index')}/{event.get('shard')}{place}"
            last = next((group for group in reversed(groups) if group[0] == what), None)
            if last and at - last[1] <= 1.0:
                last[2].append(name)
            else:
                groups.append((what, at, [name], many))
    for what, at, names, many in groups:
        said = f"{text.listed(sorted(names))} {what}"
        short = said if len(said) <= 44 else f"{len(names)} {many} {what}"
        found.append((at, text.clip(short, 44), text.clip(said, 400), what))
    return sorted(found)


def _place(axis: Axis, moments: list[Moment], most: int = 6) -> tuple[Tick, ...]:
    """Rows for labels so that none lies on another; beyond ``most`` rows a tick keeps its mark only."""
    free: list[float] = []
    ticks = []
    for at, label, full, mark in moments:
        x = axis.x(at)
        text_x, anchor, low, high = _label_at(x, label)
        row = next((i for i, taken in enumerate(free) if taken <= low), len(free))
        if row >= most:
            row, label = most - 1, ""
        else:
            free[row : row + 1] = [high]
        ticks.append(Tick(label, f"{at:.1f} s: {full}", mark, x, row, round(text_x, 1), anchor))
    return tuple(ticks)


def _status_changes(record: Record) -> list[tuple[float, str]]:
    return [
        (record.since_start(int(event["t"])) or 0.0, str(event.get("status")))
        for event in record.of_kind("cluster.status")
    ]


def _statuses(axis: Axis, record: Record) -> tuple[Status, ...]:
    changes = _status_changes(record)
    if not changes:
        return ()
    merged: list[tuple[float, str]] = []
    for at, status in changes:
        if merged and (merged[-1][1] == status):
            continue
        merged.append((at, status))
    if merged[0][0] > 0:
        merged.insert(0, (0.0, "unknown"))
    stretches = []
    for index, (at, status) in enumerate(merged):
        until = merged[index + 1][0] if index + 1 < len(merged) else axis.seconds
        if until <= 0 or at >= axis.seconds:
            continue
        status = status if status in ("green", "yellow", "red") else "unknown"
        x = axis.x(at)
        width = round(axis.x(until) - x, 1)
        fits = width > len(status) * CHARACTER + 8
        title = f"{status} from {max(0.0, at):.1f} s to {until:.1f} s"
        stretches.append(Status(status, x, width, status if fits else "", title))
    return tuple(stretches)


def _classes(counts: Ints) -> Ints:
    """How many there are of each of :data:`KINDS` in each bin (shape: bins, kinds), from the counts of bins."""
    unsent = counts[:, list(NOT_SENT)]
    unknown = unsent.sum(axis=(1, 2))
    good = counts[:, :, 1].sum(axis=1) - unsent[:, :, 1].sum(axis=1)
    late = counts[:, OUTCOMES["ok"], 0]
    return np.stack([good, late, counts.sum(axis=(1, 2)) - good - late - unknown, unknown], axis=1)


def _bins(arrivals: Arrivals, origin: int, size: float, number: int) -> tuple[Ints, Iterator[Floats]]:
    """Of ``number`` bins of ``size`` seconds from ``origin`` (ns) on: how many of each kind, and the latencies (s)."""
    counts, latencies = binned(arrivals, origin + np.arange(number + 1) * int(size * SECOND))
    return _classes(counts), latencies


def _y_latency(seconds: float) -> float:
    inside = min(max(seconds, LOWEST), HIGHEST)
    share = math.log10(inside / LOWEST) / math.log10(HIGHEST / LOWEST)
    return round(LATENCY_TOP + LATENCY_HEIGHT * (1 - share), 1)


def _figure(axis: Axis, record: Record, op: LoadOperation) -> Figure:
    arrivals = record.arrivals[op.name]
    size = next((step for step in STEPS if axis.seconds / step <= MOST_BINS), STEPS[-1])
    number = max(1, math.ceil(axis.seconds / size - 1e-9))
    counts, latencies = _bins(arrivals, record.origin, size, number)
    lengths = np.minimum(size, axis.seconds - np.arange(number) * size)
    rates = counts / np.maximum(lengths, 1e-9)[:, None]
    whole = rates[lengths >= size / 2] if (lengths >= size / 2).any() else rates
    offered = record.corners(op, record.origin, _due_until(axis, record))
    top = float(max([whole.sum(axis=1).max(initial=0), 1e-9, *(rate for _, rate in offered)])) * 1.02
    bars = []
    p50: list[tuple[float, float | None]] = []
    p99: list[tuple[float, float | None]] = []
    unanswered = []
    rows = []
    for i, values in enumerate(latencies):
        low, high = axis.x(i * size), axis.x(min((i + 1) * size, axis.seconds))
        middle = round((low + high) / 2, 1)
        y = BAR_TOP + BAR_HEIGHT
        parts = []
        for kind, rate in zip(KINDS, rates[i], strict=True):
            height = round(min(float(rate) / top, 1.0) * BAR_HEIGHT, 1)
            height = min(height, round(y - BAR_TOP, 1))
            if height > 0:
                y = round(y - height, 1)
                parts.append((kind, y, height))
        rows.append(_heat_row(values))
        q50 = latency_check.quantile(values, 0.5) if len(values) else None
        q99 = latency_check.quantile(values, 0.99) if len(values) else None
        p50.append((middle, q50))
        p99.append((middle, q99))
        if q99 is not None and math.isinf(q99):
            unanswered.append(middle)
        names = dict(zip(KINDS, map(int, counts[i]), strict=True))
        start = f"{i * size:g}"
        shown = ", ".join(f"{count} {_words(kind)}" for kind, count in names.items() if count) or "nothing"
        title = f"from {start} s: {shown}; p50 {_latency(q50)}, p99 {_latency(q99)}"
        gap = 0.8 if high - low > 7 else 0.0
        bars.append(
            Bar(
                x=round(low + gap / 2, 2),
                width=round(max(0.2, high - low - gap), 2),
                parts=tuple(parts),
                title=title,
                start=start,
                counts=names,
                p50=_latency(q50),
                p99=_latency(q99),
            )
        )
    good = int(arrivals.counts[:, 1].sum())
    heat, heat_says = _heat(np.array(rows), axis, size)
    return Figure(
        op=op.name,
        title=f"{op.name.capitalize()}s: arrivals per second and latency",
        says=(
            f"{text.count(good)} of {text.count(len(arrivals))} {op.name} arrivals were good, that is ok "
            f"within {text.seconds(op.good_within)} of their intended start. "
            "Phases are columns; faults are hatched bands."
        ),
        bin_text=text.seconds(float(size)),
        bars=tuple(bars),
        top=f"{top / 1.02:.0f}/s",
        p50=_path(p50),
        p99=_path(p99),
        heat=heat,
        heat_says=heat_says,
        unanswered=tuple(unanswered),
        objective_y=_y_latency(op.good_within),
        objective=f"objective {text.seconds(op.good_within)}",
        grid=tuple((_y_latency(value), text.seconds(value)) for value in (1e-3, 1e-2, 1e-1, 1.0, 10.0)),
        fine=_fine(axis, record, op, arrivals),
        offered="".join(
            f"{'L' if place else 'M'}{axis.x(at):g} {BAR_TOP + BAR_HEIGHT * (1 - rate / top):.1f}"
            for place, (at, rate) in enumerate(offered)
        ),
    )


def _due_until(axis: Axis, record: Record) -> int:
    """Until when (ns) of what is drawn the load went on."""
    return min(record.origin + int(axis.seconds * SECOND), record.load_end)


def _heat_row(latency: Floats) -> Ints:
    """How many answered arrivals of a bin fall into each row of the heat map."""
    answered = np.clip(latency[np.isfinite(latency)], LOWEST, HIGHEST)
    share = np.log10(answered / LOWEST) / math.log10(HIGHEST / LOWEST)
    return np.bincount(np.minimum((share * HEAT_ROWS).astype(np.int64), HEAT_ROWS - 1), minlength=HEAT_ROWS)


def _heat(counts: Ints, axis: Axis, size: float) -> tuple[tuple[str, ...], str]:
    """The answered arrivals (shape: bins, rows) as paths of cells, one a shade, and what the fullest cell holds."""
    if not counts.any():
        return (), ""
    most = int(counts.max())
    shade = np.zeros_like(counts)
    held = counts > 0
    shade[held] = 1 + np.minimum(np.log(counts[held]) / math.log(most + 1) * HEAT_LEVELS, HEAT_LEVELS - 1).astype(int)
    height = LATENCY_HEIGHT / HEAT_ROWS
    paths = []
    for level in range(1, HEAT_LEVELS + 1):
        cells = []
        for row_number in range(HEAT_ROWS):
            # neighbours of one shade are one rectangle, so that the page stays small
            edges = np.flatnonzero(np.diff(np.concatenate(([0], shade[:, row_number] == level, [0]))))
            y = round(LATENCY_TOP + LATENCY_HEIGHT - (row_number + 1) * height, 1)
            for first, beyond in zip(edges[::2], edges[1::2], strict=True):
                x = axis.x(first * size)
                wide = round(axis.x(min(beyond * size, axis.seconds)) - x, 1)
                cells.append(f"M{x:g} {y:g}h{wide:g}v{height:.1f}h{-wide:g}z")
        paths.append("".join(cells))
    return tuple(paths), f"darkest: {text.plural(most, 'arrival')} in {text.seconds(float(size))}"


def _fine(axis: Axis, record: Record, op: LoadOperation, arrivals: Arrivals) -> dict[str, Any]:
    """Finer bins for zoom and hover. A quantile is None where nothing was answered or it never came back."""
    least = max(axis.seconds / MOST_FINE_BINS, 5 / op.rate if op.rate > 0 else 1.0)
    size = next((step for step in FINE_STEPS if step >= least), FINE_STEPS[-1])
    number = max(1, math.ceil(axis.seconds / size - 1e-9))
    counts, latencies = _bins(arrivals, record.origin, size, number)
    columns: dict[str, Any] = {
        kind: [_short(count / size) for count in column] for kind, column in zip(KINDS, counts.T.tolist(), strict=True)
    }
    found: dict[str, list[float | None]] = {"p50": [], "p99": []}
    for latency in latencies:
        values = np.sort(latency)
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            value = float(values[math.ceil(share * len(values)) - 1]) if len(values) else math.inf
            found[name].append(None if math.isinf(value) else _short(value * 1000))
    if op.profile is not None and record.rates_began is not None:
        last = _due_until(axis, record)
        edges = [min(record.origin + int(place * size * SECOND), last) for place in range(number + 1)]
        columns["offered"] = [_short(record.due(op, *each) / size) for each in itertools.pairwise(edges)]
    return {"step": size, "seconds": round(axis.seconds, 3), "objective": op.good_within * 1000, **columns, **found}


def _short(value: float) -> float:
    """Three significant digits, whole where it is."""
    if value in (0.0, 1.0):  # most of them
        return int(value)
    rounded = float(f"{value:.3g}")
    return int(rounded) if rounded.is_integer() else rounded


# -- nodes and copies by zone --------------------------------------------------------------------


def _lanes(axis: Axis, record: Record) -> tuple[Lane, ...]:
    """Every zone's nodes and copies of shards, from the sampler's events; dated to the second of its period."""
    nodes = (record.plan.get("lab") or {}).get("nodes") or (record.plan.get("topology") or {}).get("nodes") or []
    zone_of = {str(item.get("name")): str(item.get("zone")) for item in nodes if isinstance(item, dict)}
    if not zone_of or not record.of_kind("cluster.leader", "cluster.status", "sample"):
        return ()
    zones: dict[str, list[str]] = {}
    for name, zone in zone_of.items():
        zones.setdefault(zone, []).append(name)
    held = _copies_held(record)
    lanes = []
    for zone, names in sorted(zones.items()):
        first = True
        if len(zone_of) <= MOST_LANES:
            for name in sorted(names):
                lanes.append(Lane(zone if first else "", text.clip(name, 9), name, _node_stretches(axis, record, name)))
                first = False
        else:
            inside = [(at, {name for name in names if name not in gone}) for at, gone in _gone(record)]
            counted = [(at, len(members)) for at, members in inside]
            lanes.append(Lane(zone, "nodes", f"nodes of zone {zone}", _counted(axis, counted, len(names), "node")))
            first = False
        if held is not None:
            changes = [(at, sum(len(copies.get(name, ())) for name in names)) for at, copies in held]
            at_end = sum(str(copy.get("node")) in names for copy in _started(record))
            most = max([at_end, *(count for _, count in changes)])
            if most:
                stretches = _counted(axis, changes, most, "shard copy", "shard copies")
                if stretches and changes[-1][1] != at_end:  # the sampler did not see all: what it last saw is no fact
                    last = stretches[-1]
                    unsure = f"{last.title}; not sure, because the read-back found {at_end}"
                    stretches = (*stretches[:-1], replace(last, label=f"{last.label}?", title=unsure))
                lanes.append(Lane(zone if first else "", "copies", f"shard copies of zone {zone}", stretches))
    return tuple(lanes)


def _gone(record: Record) -> list[tuple[float, frozenset[str]]]:
    """From when on which nodes were not in the cluster."""
    gone: frozenset[str] = frozenset()
    found = [(0.0, gone)]
    for event in record.of_kind("cluster.node_left", "cluster.node_joined"):
        name = str(event.get("node"))
        gone = gone | {name} if event["kind"] == "cluster.node_left" else gone - {name}
        found.append((max(0.0, record.since_start(int(event["t"])) or 0.0), gone))
    return found


def _node_stretches(axis: Axis, record: Record, name: str) -> tuple[Stretch, ...]:
    state, leads = "in", False
    changes = [(0.0, state)]
    for event in record.of_kind("cluster.node_left", "cluster.node_joined", "cluster.leader"):
        if event["kind"] == "cluster.leader":
            leads = str(event.get("leader")) == name
        elif str(event.get("node")) == name:
            state = "out" if event["kind"] == "cluster.node_left" else "in"
        now = state if state == "out" or not leads else "leader"
        changes.append((max(0.0, record.since_start(int(event["t"])) or 0.0), now))
    words = {"in": "in the cluster", "out": "not in the cluster", "leader": "elected cluster manager"}
    labels = {"in": "", "out": "out", "leader": "cluster manager"}
    return tuple(
        Stretch(
            state=now,
            x=axis.x(start),
            width=round(axis.x(end) - axis.x(start), 1),
            label=labels[now] if axis.x(end) - axis.x(start) > len(labels[now]) * CHARACTER + 10 else "",
            title=text.clip(f"{name}: {words[now]} from {start:.1f} s to {end:.1f} s", 300),
        )
        for start, end, now in _spells(changes, axis.seconds)
    )


def _started(record: Record) -> list[dict[str, Any]]:
    """The active copies that the read-back found at the end, each with its shard and node."""
    copies = (record.readback or {}).get("copies") or []
    return [
        copy
        for copy in copies
        if copy.get("node") and copy.get("shard") is not None and copy.get("state") in (None, "STARTED", "RELOCATING")
    ]


def _made_meanwhile(record: Record) -> set[str]:
    """The indices whose primaries were first seen once the load was on."""
    began = record.of_kind("load.start")
    seen: dict[str, int] = {}
    for event in record.of_kind("cluster.primary") if began else ():
        seen.setdefault(str(event.get("index")), int(event["t"]))
    return {index for index, t in seen.items() if t > int(began[0]["t"])}


def _copies_held(record: Record) -> list[tuple[float, dict[str, set[tuple[str, int]]]]] | None:
    """From when on which node held which active copies; None when nobody recorded where copies were.

    They began where the read-back found them at the end, less those that were built during the run, and those of
    indices that were made in it.
    """
    first = str((record.readback or {}).get("index") or "")
    built = {
        (str(event.get("index")), str(event.get("node")), int(event.get("shard", -1)))
        for event in record.of_kind("cluster.shard_moved")
        if event.get("shard") is not None
    }
    made = _made_meanwhile(record)
    held: dict[str, set[tuple[str, int]]] = {}
    for copy in _started(record):
        index, node, shard = str(copy.get("index") or first), str(copy["node"]), int(copy["shard"])
        if (index, node, shard) not in built and index not in made:
            held.setdefault(node, set()).add((index, shard))
    if not held:
        return None
    found = [(0.0, held)]
    for event in record.of_kind("cluster.node_left", "cluster.shard_started"):
        node = str(event.get("node"))
        held = {name: set(shards) for name, shards in held.items()}
        if event["kind"] == "cluster.node_left":
            held[node] = set()
        elif event.get("shard") is not None:
            held.setdefault(node, set()).add((str(event.get("index")), int(event["shard"])))
        found.append((max(0.0, record.since_start(int(event["t"])) or 0.0), held))
    return found


def _counted(
    axis: Axis, changes: list[tuple[float, int]], most: int, one: str, many: str | None = None
) -> tuple[Stretch, ...]:
    """A lane of numbers: how many of ``most`` from when on."""
    stretches = []
    for start, end, count in _spells(changes, axis.seconds):
        x = axis.x(start)
        wide = round(axis.x(end) - x, 1)
        label = f"{count}/{most}"
        stretches.append(
            Stretch(
                state="out" if count == 0 else "some",
                x=x,
                width=wide,
                label=label if wide > len(label) * CHARACTER + 6 else "",
                title=f"{count} of {text.plural(most, one, many)} from {start:.1f} s to {end:.1f} s",
                share=round(count / most, 2) if most else 0.0,
            )
        )
    return tuple(stretches)


def _spells(changes: list[tuple[float, T]], end: float) -> list[tuple[float, float, T]]:
    """(from, to, what) in seconds; neighbours of one kind joined, and what one sample said at once is one change."""
    spells: list[tuple[float, float, T]] = []
    for number, (start, what) in enumerate(changes):
        start = spells[-1][1] if spells else start
        until = min(changes[number + 1][0] if number + 1 < len(changes) else end, end)
        if until - start < AT_ONCE:
            continue
        if spells and spells[-1][2] == what and spells[-1][1] == start:
            spells[-1] = (spells[-1][0], until, what)
        else:
            spells.append((start, until, what))
    return spells


def _words(kind: str) -> str:
    return {"good": "good", "late": "ok but late", "failed": "failed", "unknown": "without outcome"}[kind]


def _latency(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return "no answer" if math.isinf(seconds) else text.seconds(seconds)


def _path(points: list[tuple[float, float | None]]) -> str:
    """An SVG path that breaks where there is no value or no answer."""
    commands = []
    drawing = False
    for x, value in points:
        if value is None or math.isinf(value):
            drawing = False
            continue
        commands.append(f"{'L' if drawing else 'M'}{x:g} {_y_latency(value):g}")
        if not drawing:
            commands.append("h0.01")  # a lone point is still seen, with round caps
        drawing = True
    return "".join(commands)
