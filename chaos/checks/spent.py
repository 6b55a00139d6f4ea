"""What nodes spent, by their counters: of which node, in which time, and while which cluster manager was elected.

Counters are read from lines that an instrument wrote (:mod:`chaos.instruments.costs`), the elected manager from the
sampler's events. A counter is known where it was read alone, some five seconds apart: what grew between two readings is
taken to have grown evenly, so of a moment at which a manager was elected at most one such stretch is split wrongly.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.checks import evidence
from chaos.checks.arrivals import SECOND
from chaos.checks.record import Record, Span
from chaos.history.events import ClusterLeader, Sample

FILE, USED = "costs.jsonl", "used"
SAME_SECONDS = 5
"""Uptimes are up to a second old too, and answers late; a process that begins anew is younger by more than this."""
COVERED = 0.95
"""The share of the phases that must be known of a node; below it, it may have used more."""
LONGEST_SECONDS = 15.0
"""Three readings of a counter: one that was missed, or came late, is no gap."""
KINDS = ("elected", "managers", "data", "coordinating")
"""What a node is to monitoring calls: the elected cluster manager, while it is that; another cluster manager; a node
with data; a node with neither."""


@dataclass(frozen=True)
class Stretch:
    """By how much a counter of one node grew between two moments (monotonic ns)."""

    start: int
    end: int
    grown: int

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / SECOND

    def within(self, start: int, end: int) -> float:
        """Which share of it lies between two moments."""
        return max(0, min(self.end, end) - max(self.start, start)) / (self.end - self.start)


@dataclass(frozen=True)
class Spent:
    """What some nodes used in a time. ``grown``: of the counter, stretched over what is not known of a node where that
    is little; ``seconds``: of the time, of how many it is known; ``wanted``: of how many it should be."""

    grown: float
    seconds: float
    wanted: float

    @property
    def whole(self) -> bool:
        return self.seconds >= COVERED * self.wanted


def stretches(record: Record, counter: str) -> dict[str, list[Stretch]]:
    """Node → what is known of a counter. A process that is another one than before began at 0. A node that is proven
    to have none uses nothing."""
    found: dict[str, list[Stretch]] = {}
    before: dict[str, tuple[int, int, int]] = {}
    ended = evidence.ended(record)
    for line in sorted(record.lines(FILE), key=lambda each: int(each["t"])):
        node = str(line.get("node"))
        if line.get("kind") != USED or node not in record.zone_of or not isinstance(line.get(counter), int):
            continue
        age = int(line.get("old") or 0) * 1_000_000 if counter == "cpu" else 0
        t, value = int(line["t"]) - age, int(line[counter])
        began = t - int(line["up"]) * 1_000_000
        if node in before:
            last, was, first = before[node]
            same = began - first < SAME_SECONDS * SECOND and value >= was
            since, grown = (last, value - was) if same else (max(last, began), value)
            gone = None if same else evidence.ended_between(ended, node, last, since)
            if gone is not None:
                found.setdefault(node, []).append(Stretch(gone, since, 0))
            if t > since:
                found.setdefault(node, []).append(Stretch(since, t, grown))
        before[node] = t, value, began
    return found


def used(record: Record, counter: str) -> tuple[float, list[str], float] | None:
    """What all nodes used of a counter from the first phase's start to the last one's end, the nodes of which too
    little is known, and the share of all their time that is known. None where no node was heard."""
    start, end = record.spans[0].start, record.spans[-1].end
    total, known, unknown = 0.0, 0.0, []
    every = stretches(record, counter)
    for node in record.zone_of:
        grown, seconds = _inside(every.get(node, ()), start, end)
        share = seconds * SECOND / (end - start)
        known += share / len(record.zone_of)
        if share < COVERED:
            unknown.append(node)
            total += grown
        else:
            total += grown / share
    return (total, sorted(unknown), known) if known else None


def terms(record: Record, start: int, end: int) -> list[tuple[str, int, int]]:
    """Who was elected from when to when (ns), between two moments, as the sampler saw it; times without a cluster
    manager, or in which no node answered, are left out."""
    leader: str | None = None
    answered = True
    seen: list[tuple[int, str | None]] = []
    events: list[ClusterLeader | Sample] = record.seen(ClusterLeader, Sample)
    for event in events:
        if event.t >= end:
            continue
        if isinstance(event, ClusterLeader):
            leader = event.leader
        else:
            answered = bool(event.ok)
        now = leader if answered else None
        if not seen or seen[-1][1] != now:
            seen.append((event.t, now))
    edges = [*(max(start, t) for t, _ in seen), end]
    return [
        (name, since, until)
        for (_, name), (since, until) in zip(seen, itertools.pairwise(edges), strict=True)
        if name is not None and until > since
    ]


def by_kind(record: Record, counter: str, span: Span | None = None) -> dict[str, Spent]:
    """What nodes of each kind used in a phase, or in all of them: a manager that is elected in the midst is of two
    kinds, one after the other. Of a phase a stretch longer than LONGEST_SECONDS is not known: what grew in it may have
    grown before or after the phase. Empty where there were no phases."""
    start, end = _edges(record, span)
    if end <= start:
        return {}
    kinds, every, known_terms = _kinds(record), stretches(record, counter), terms(record, start, end)
    if span is not None:
        every = {node: [each for each in own if each.seconds <= LONGEST_SECONDS] for node, own in every.items()}
    found = {kind: Spent(0.0, 0.0, 0.0) for kind in KINDS}
    for node, kind in kinds.items():
        own = every.get(node, ())
        led = [(since, until) for leader, since, until in known_terms if leader == node]
        elected = _sum(_spent(own, since, until) for since, until in led)
        found["elected"] = _sum((found["elected"], elected))
        rest = _sum(_spent(own, since, until) for since, until in _gaps(led, start, end))
        found[kind] = _sum((found[kind], rest))
    return found


def led(record: Record, span: Span | None = None) -> float:
    """The share of a phase, or of all, in which a cluster manager was seen as elected; 0 where there were none."""
    start, end = _edges(record, span)
    if end <= start:
        return 0.0
    return sum(until - since for _, since, until in terms(record, start, end)) / (end - start)


def _edges(record: Record, span: Span | None) -> tuple[int, int]:
    """From when to when (ns) a phase was, or all of them; the same moment twice where there were none."""
    if span is not None:
        return span.start, span.end
    return (record.spans[0].start, record.spans[-1].end) if record.spans else (0, 0)


def _kinds(record: Record) -> dict[str, str]:
    """Node → what it is while it is not elected."""
    nodes: list[Mapping[str, Any]] = list((record.plan.get("topology") or {}).get("nodes") or ())
    return {str(node["name"]): _kind(tuple(node.get("roles") or ())) for node in nodes}


def _kind(roles: tuple[str, ...]) -> str:
    if "data" in roles:
        return "data"
    return "managers" if "cluster_manager" in roles else "coordinating"


def _inside(some: Iterable[Stretch], start: int, end: int) -> tuple[float, float]:
    """What grew between two moments, and of how many of its seconds that is known."""
    parts = [(each, each.within(start, end)) for each in some]
    grown = sum(part * each.grown for each, part in parts)
    return grown, sum(part * (each.end - each.start) for each, part in parts) / SECOND


def _spent(some: Iterable[Stretch], start: int, end: int) -> Spent:
    grown, seconds = _inside(some, start, end)
    wanted = (end - start) / SECOND
    return Spent(grown * wanted / seconds if seconds >= COVERED * wanted else grown, seconds, wanted)


def _sum(some: Iterable[Spent]) -> Spent:
    every = list(some)
    return Spent(
        sum(each.grown for each in every), sum(each.seconds for each in every), sum(each.wanted for each in every)
    )


def _gaps(taken: Iterable[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """What is left of a time."""
    edges = [start, *(moment for each in sorted(taken) for moment in each), end]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return [(since, until) for since, until in pairs if until > since]
