"""One phase's recovery as a timeline: from its first command on, what was seen and when, and where nobody looked.

Steps of it are measured in :mod:`chaos.checks.ladder` and, for failover controllers, in :mod:`chaos.checks.failovers`.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from chaos.checks import during
from chaos.checks.measure import Bound, Measure
from chaos.checks.movement import BLIND
from chaos.checks.record import SECOND, Record, Span
from chaos.checks.regained import Watch
from chaos.history.events import Event, FaultCommand

E = TypeVar("E", bound=Event)
OWN_SAMPLE = SECOND // 20
"""An event's own sample is written at most so long before it (ns)."""


def sampled(record: Record) -> tuple[int, ...]:
    """When a node answered the sampler (ns)."""
    return tuple(int(event["t"]) for event in record.of_kind("sample") if int(event.get("ok") or 0) > 0)


def answered(sampled: Sequence[int], start: int, end: int) -> bool:
    """Whether a node answered from the event at ``start``, its own sample included, to before that at ``end``. Records
    of before have an event without a leader where no node had answered, which says nothing of the cluster."""
    place = bisect.bisect_left(sampled, start - OWN_SAMPLE)
    return place < len(sampled) and sampled[place] < end - OWN_SAMPLE


@dataclass(frozen=True)
class Ladder:
    """One phase's watch, ready to be asked for its steps."""

    record: Record
    span: Span
    watch: Watch
    sampled: tuple[int, ...]
    """When somebody answered the sampler (ns)."""
    concerned: frozenset[str]
    """The nodes that the phase's faults hit."""

    @classmethod
    def of(cls, record: Record, span: Span) -> Ladder:
        watch = Watch.of(record, span)
        return cls(record, span, watch, sampled(record), concerned(record, span))

    # -- what a step comes to -------------------------------------------------------------------

    def reached(self, at: int, says: str, **more: Any) -> Measure:
        value = max(0, at - self.watch.trigger) / SECOND
        return Measure(value, "seconds", says, evidence={"at": self.record.since_start(at), **self._from(), **more})

    def not_needed(self, says: str) -> Measure:
        return self.reached(self.watch.trigger, says, needed=False)

    def not_reached(self, says: str, **more: Any) -> Measure:
        value = max(0, self.watch.horizon - self.watch.trigger) / SECOND
        return Measure(value, "seconds", says, Bound.MORE_THAN, {"at": None, **self._from(), **more})

    def not_seen(self, says: str, **more: Any) -> Measure:
        """A step that no sample saw: not reached, unless nobody answered for too long to know."""
        blind = self.blind()
        return self.unseen(blind) if blind > BLIND else self.not_reached(says, **more)

    def _from(self) -> dict[str, Any]:
        return {"trigger": self.watch.what, "trigger_at": self.record.since_start(self.watch.trigger)}

    # -- events of the cluster ------------------------------------------------------------------

    def during(self, *kinds: str) -> list[dict[str, Any]]:
        return [e for e in self.record.of_kind(*kinds) if self.watch.trigger < int(e["t"]) < self.watch.horizon]

    def before(self, *kinds: str) -> list[dict[str, Any]]:
        return [e for e in self.record.of_kind(*kinds) if int(e["t"]) <= self.watch.trigger]

    def seen_during(self, kind: type[E]) -> list[E]:
        return [event for event in self.record.seen(kind) if self.watch.trigger < event.t < self.watch.horizon]

    def seen_before(self, kind: type[E]) -> list[E]:
        return [event for event in self.record.seen(kind) if event.t <= self.watch.trigger]

    def resolution(self, at: int) -> float:
        """Seconds from the answered sample before an event to the event: so late it may be dated."""
        place = bisect.bisect_left(self.sampled, at - OWN_SAMPLE)
        last = self.sampled[place - 1] if place else self.watch.trigger
        return (at - max(last, self.watch.trigger)) / SECOND

    def answered(self, start: int, end: int) -> bool:
        """As the function of this name."""
        return answered(self.sampled, start, end)

    def blind(self) -> float:
        """The longest stretch of the watch (s) without an answered sample."""
        inside = [t for t in self.sampled if self.watch.trigger <= t < self.watch.horizon]
        edges = np.array([self.watch.trigger, *inside, self.watch.horizon])
        return float(np.diff(edges).max()) / SECOND

    def dated(self, at: int, says: str, **more: Any) -> Measure:
        """A step that a sample saw; without a value when nobody had been seen for too long before."""
        late = self.resolution(at)
        if late > BLIND:
            return self.unseen(late)
        return self.reached(at, says, resolution=late, **more)

    def unseen(self, seconds: float) -> Measure:
        return Measure.missing("seconds", f"the cluster gave no answer for {seconds:.0f} s, so when is not known")


def concerned(record: Record, span: Span) -> frozenset[str]:
    """The nodes that the phase's faults hit: their targets, or who is cut from most others by their links; and those
    that others restart in it."""
    found: set[str] = set()
    nodes = set(record.zone_of)
    for command in record.seen(FaultCommand, span=span):
        targets = {str(target) for target in command.targets or ()} & nodes
        found |= targets
        if targets:
            continue
        peers: dict[str, set[str]] = {}
        for source, target in command.links or ():
            peers.setdefault(str(source), set()).add(str(target))
            peers.setdefault(str(target), set()).add(str(source))
        found |= {node for node in nodes if len(peers.get(node, set()) & nodes) > len(nodes) / 2}
    if (waited := during.of_phase(record, span)) is not None:
        found |= nodes.intersection(waited.nodes)
    return frozenset(found)
