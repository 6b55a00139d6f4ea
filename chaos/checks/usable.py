"""What a run may use of its machine's processors, and when it had none of it.

A machine of two processors is one of one processor for what is held to processor 0. The rule of :mod:`.starved` is
therefore asked of each set of processors that runner, load driver, a node or a Toxiproxy is held to
(:mod:`chaos.history.processors`), and at each moment the set that was worst off counts: an arrival waits for all of
them in turn. While a group waits for its quota it has no processor either, however idle the machine is.

Waiting for a quota that a fault of the experiment set (``node.cpu_starvation``) is that fault. Time in which it
is not known what may be used, or how busy a set was, is time that was not measured, and does not count as free.

All of it holds under rules 2, for runs whose plan says that it is recorded; others are judged as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from chaos.base import text
from chaos.checks import clocks, evidence
from chaos.checks.clocks import Clock
from chaos.checks.record import SECOND, Floats, Ints, Record
from chaos.history.events import MachineThrottled, MachineUnwatched, MachineUsable
from chaos.history.reader import Slices

MOSTLY = 0.5
"""Share of a slice without a free processor from which on it excuses anything."""
STARVES = "node.cpu_starvation"
"""The kind of fault that limits a node's processors."""
NAMED = 4
"""How many of those that are limited are named."""
Set = tuple[int, ...]


def due(record: Record) -> bool:
    """Whether it was to be recorded what may be used, and counts."""
    return record.rules >= 2 and (record.plan.get("machine") or {}).get("usable") is not None


def _said(record: Record) -> Iterator[tuple[int, int, MachineUsable]]:
    """(from, until, what could be used), in order."""
    events = record.seen(MachineUsable)
    ends = [*(event.t for event in events[1:]), max(record.last_seen, record.load_end) + SECOND]
    for event, end in zip(events, ends, strict=False):  # without events there is one end too many
        yield event.t, end, event


def _sets(event: MachineUsable) -> set[Set]:
    return {tuple(sorted(int(number) for number in each)) for each in event.sets or ()}


def limited(record: Record) -> bool:
    """Whether a process was held to less than the whole machine, or waited for a quota that no fault had set."""
    return due(record) and (any(event.sets for _, _, event in _said(record)) or bool(waits(record)))


def number(record: Record) -> int | None:
    """Of how many processors the machine consists for this run: the smallest set that anybody was held to."""
    machine = record.plan.get("machine") or {}
    if not due(record):
        return machine.get("processors")
    sizes = [len(each) for _, _, event in _said(record) for each in _sets(event)]
    return min([*sizes, *([int(machine["processors"])] if machine.get("processors") else [])], default=None)


def slices(record: Record) -> list[tuple[Set, Ints, Ints, Floats]]:
    """Of each set that was measured apart: itself, and start, end (ns) and busy share of its slices, in order."""
    tables: dict[Set, list[Any]] = {}
    for event in record.driver if due(record) else ():
        for each in event.get("usable") or ():
            tables.setdefault(tuple(sorted(each["of"])), []).append(table(each["slices"]))
    found = []
    for of, parts in sorted(tables.items()):
        found.append((of, *in_order(parts)))
    return found


def table(some: Any) -> Any:
    """Slices as columns, whether they were read from a file or made up in memory."""
    return (some if isinstance(some, Slices) else Slices(some)).table


def in_order(tables: list[Any]) -> tuple[Ints, Ints, Floats]:
    """Start, end (ns) and busy share of the slices that were measured, of all these tables."""
    rows = np.concatenate([*tables, np.zeros(0, Slices.TABLE)])
    rows = rows[~np.isnan(rows["busy"]) & (rows["end"] > rows["start"])]
    rows = rows[np.lexsort((rows["busy"], rows["end"], rows["start"]))]
    return rows["start"], rows["end"], rows["busy"]


def waits(record: Record) -> list[tuple[int, int, float]]:
    """(Start, end, share) of each stretch (ns) in which a quota that no fault had set made somebody wait."""
    longest: dict[tuple[int, int], float] = {}
    for since, until, _, seconds in _throttled(record):
        longest[since, until] = max(seconds, longest.get((since, until), 0.0))
    return [(a, b, min(1.0, seconds * SECOND / (b - a))) for (a, b), seconds in sorted(longest.items()) if b > a]


def _throttled(record: Record) -> Iterator[tuple[int, int, list[str], float]]:
    """(since, until, who is in it, seconds) of each group that waited for a quota that no fault of ours had set."""
    events = record.seen(MachineThrottled) if due(record) else []
    ours = [fault for fault in evidence.faults(record) if fault.kind == STARVES] if events else []
    for event in events:
        since, until = int(event.since), int(event.until)
        meant = {
            node
            for fault in ours
            if fault.command <= until and since <= (fault.gone or record.last_seen)
            for node in fault.targets
        }
        for each in (event.groups or {}).values():
            if set(each["who"]) - meant:
                yield since, until, list(map(str, each["who"])), float(each["seconds"])


def clock(record: Record) -> Clock | None:
    """Time in which one of the sets certainly had no free processor, or a quota made wait; None where nothing was."""
    made: Clock | None = None
    parts = []
    for of, start, end, busy in slices(record):
        certain = 1 - len(of) * (1 - busy)
        parts.append(Clock(start, end, np.where(certain >= MOSTLY, certain, 0.0)))
    if throttled := waits(record):
        columns = list(zip(*throttled, strict=True))
        starts, ends = np.array(columns[0], np.int64), np.array(columns[1], np.int64)
        parts.append(Clock(starts, np.minimum(ends, np.append(starts[1:], ends[-1])), np.array(columns[2])))
    for part in parts:
        made = part if made is None else made.joined(part)
    return made


def full(record: Record, saturated: float) -> list[tuple[int, int]]:
    """Stretches (ns) in which a set had no free processor at all, or somebody waited for a quota, in order."""
    found = [
        (int(a), int(b))
        for of, start, end, busy in slices(record)
        for a, b, used in zip(start, end, busy, strict=True)
        if used >= saturated
    ]
    found += [(a, b) for a, b, share in waits(record) if share >= MOSTLY]
    return clocks.united(found)


def measured(record: Record) -> float:
    """The share of the phases' time in which it was known what may be used, and how busy that was; 1 where not due."""
    if not due(record):
        return 1.0
    taken = {of: clocks.united(zip(start.tolist(), end.tolist(), strict=True)) for of, start, end, _ in slices(record)}
    unwatched = next(iter(record.seen(MachineUnwatched)), None)
    broken = unwatched is not None and bool(unwatched.because)
    known: list[clocks.Stretch] = []
    for start, end, event in _said(record) if not broken else ():
        if event.unknown:
            continue
        stretches = [(start, end)]
        for of in _sets(event):
            stretches = [
                (max(a, c), min(b, d)) for a, b in stretches for c, d in taken.get(of, ()) if min(b, d) > max(a, c)
            ]
        known += stretches
    total = sum(span.end - span.start for span in record.spans)
    inside = [(max(a, span.start), min(b, span.end)) for a, b in clocks.united(known) for span in record.spans]
    return min(1.0, clocks.length((a, b) for a, b in inside if b > a) * SECOND / total) if total else 0.0


def words(record: Record) -> str | None:
    """``load driver, runner and 13 more may use processor 0 of 2 alone, by their affinity``; None: all was usable."""
    if not limited(record):
        return None
    waited = {name for _, _, who, _ in _throttled(record) for name in who}
    limits: dict[str, tuple[Any, ...]] = {}
    of = 0
    for _, _, event in _said(record):
        of = int(event.of or of)
        for name, each in (event.who or {}).items():
            quota = each.get("quota") if name in waited else None
            if each.get("sets") or quota is not None:
                limits[str(name)] = tuple(map(tuple, each.get("sets") or ())), each.get("by"), quota
    by_limit: dict[tuple[Any, ...], list[str]] = {}
    for name, limit in limits.items():
        by_limit.setdefault(limit, []).append(name)
    parts = [f"{_names(names)} may use {_limit(limit, of)}" for limit, names in by_limit.items()]
    return "; ".join(parts[:2]) or "a quota of processor time made processes of this run wait"


def _names(names: list[str]) -> str:
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED + 1 else []
    return text.listed([*(names[:NAMED] if more else names), *more])


def _limit(limit: tuple[Any, ...], of: int) -> str:
    sets, by, quota = limit
    parts = []
    if sets:
        which = sorted({number for each in sets for number in each})
        listed = text.listed([str(number) for number in which])
        plural = "processor" if len(which) == 1 else "processors"
        parts.append(f"{plural} {listed} of {of} alone, by {'a cpuset' if by == 'cpuset' else 'their affinity'}")
    if quota is not None:
        parts.append(f"{quota:g} processors' worth of time, by a quota")
    return " and ".join(parts)


def unknown(record: Record) -> str | None:
    """Whose limits are not known, in words."""
    if not due(record):
        return None
    names = list(dict.fromkeys(str(name) for _, _, event in _said(record) for name in event.unknown or ()))
    if names:
        return f"which processors {_names(names)} may use is not known"
    return None if record.seen(MachineUsable) else "which processors the run may use was not recorded"
