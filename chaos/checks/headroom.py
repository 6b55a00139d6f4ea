"""How much of their processors the data nodes of each zone used, and whether that leaves room for the loss of a zone.

From each data node's own account of the processor time of its process (``process.cpu.total_in_millis`` of
``_nodes/stats/process``), sampled every two seconds (event ``nodes.cpu``): what it grew by between the first and the
last sample in a phase, by the time between them and by the processors that the node may use (``allocated_processors``;
a quota that a fault sets is not known here). A mean, so a sample that is missing in between changes nothing; a phase
whose samples cover less than half of it, or begin or end far inside it, has no figure: who is too busy to tell how busy
it is must not look idle.

Survivors are the data nodes that were in the cluster from the phase's start to its end: what a lost zone carried falls
on them. In a lab the nodes share one machine's processors, and the machine may be full while each node uses little;
:func:`table` says so, with what was idle of the machine.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from chaos.base import text
from chaos.checks import starved, usable
from chaos.checks.check import Check
from chaos.checks.measure import Measure
from chaos.checks.movement import BLIND, longest_blind
from chaos.checks.record import SECOND, Record, Span
from chaos.checks.trial import Altered, Trial
from chaos.checks.words import Words
from chaos.history.events import NodeJoined, NodeLeft, NodesProcessors

EDGE = 5.0
"""Seconds at most from a phase's start to a node's first sample, and from its last to the end: one may be missing."""
COVERED = 0.5
"""The share of a phase that must lie between a node's first and last sample in it."""

Use = tuple[float, float]
"""Processors that were busy on average, and processors that there are."""


def data_nodes(record: Record) -> list[str]:
    nodes = (record.plan.get("topology") or {}).get("nodes") or ()
    return [str(node["name"]) for node in nodes if "data" in (node.get("roles") or ())]


def survivors(record: Record, span: Span) -> list[str]:
    """The data nodes that were in the cluster all through a phase."""
    out = _out(record, span.start) | {event.node for event in _moves(record, span)}
    return [node for node in data_nodes(record) if node not in out]


def lost(record: Record, span: Span) -> list[str]:
    """The zones without a data node in the cluster when a phase ended."""
    left = {record.zone_of[node] for node in set(data_nodes(record)) - _out(record, span.end)}
    return [zone for zone in _zones(record) if zone not in left]


def _out(record: Record, at: int) -> set[str]:
    """The nodes that had left before a moment (ns) and were not back."""
    left = {str(event.node): isinstance(event, NodeLeft) for event in _moves(record) if event.t < at}
    return {node for node, out in left.items() if out}


def _moves(record: Record, span: Span | None = None) -> list[NodeLeft | NodeJoined]:
    return record.seen(NodeLeft, NodeJoined, span=span)


def _zones(record: Record) -> list[str]:
    return list(dict.fromkeys(record.zone_of[node] for node in data_nodes(record)))


def processors(record: Record) -> dict[str, int]:
    """How many processors each node may use; empty where nobody said so."""
    said = next(iter(record.seen(NodesProcessors)), None)
    return dict((said.nodes if said is not None else None) or {})


def use(record: Record, span: Span, node: str) -> Use | None:
    """What one node used in a phase; None when its samples do not say."""
    there = processors(record).get(node)
    events = [(int(event["t"]), (event.get("nodes") or {}).get(node)) for event in record.within(span, "nodes.cpu")]
    found = [(t, int(each["at"]), int(each["ms"])) for t, each in events if each]
    if not there or not found:
        return None
    (start, first, before), (end, last, after) = found[0], found[-1]
    far = max(start - span.start, span.end - end) > EDGE * SECOND or end - start < COVERED * (span.end - span.start)
    anew = any(b[2] < a[2] for a, b in itertools.pairwise(found))  # another process
    return None if far or anew or last <= first else ((after - before) / (last - first), float(there))


def by_zone(record: Record, span: Span) -> dict[str, Use | None]:
    """Zone → what its survivors used together in a phase; None when not all of them are known."""
    zones: dict[str, list[Use | None]] = {}
    for node in survivors(record, span):
        zones.setdefault(record.zone_of[node], []).append(use(record, span, node))
    return {
        zone: None if None in each else (sum(u[0] for u in each if u), sum(u[1] for u in each if u))
        for zone, each in zones.items()
    }


def _shares(zones: dict[str, Use | None]) -> dict[str, float | None]:
    return {zone: found and found[0] / found[1] for zone, found in zones.items()}


def measure(record: Record, span: Span) -> Measure:
    """The share of its processors that the busiest zone's survivors used in one phase."""
    return _measured(record, span, by_zone(record, span))


def _measured(record: Record, span: Span, zones: dict[str, Use | None]) -> Measure:
    if not record.of_kind("nodes.cpu"):
        return Measure.missing("share", "how busy the data nodes were was not recorded")
    blind = longest_blind(record, span)
    if blind is None or blind > BLIND:
        return Measure.missing("share", "the cluster was not seen for too long to know who was in it")
    shares = _shares(zones)
    known = {zone: share for zone, share in shares.items() if share is not None}
    if not shares:
        return Measure.missing("share", "no data node was in the cluster all through the phase")
    if lacking := sorted(set(shares) - set(known)):
        says = f"too few samples of how busy the data nodes of zone {text.listed(lacking)} were"
        return Measure.missing("share", says, zones=shares)
    busiest = max(known, key=lambda zone: known[zone])
    says = f"of their processors were used by the data nodes of zone {busiest}, the busiest of {len(known)}"
    return Measure(known[busiest], "share", says, evidence={"zones": shares})


def loss(record: Record, span: Span) -> dict[str, Any] | None:
    """What the busiest zone uses after the loss of another one; None where it is not known. May be above 1.

    ``measured`` where a zone was out when the phase ended; the seconds until the cluster had given it up, in which much
    waits, are in the mean. Before the experiment changed anything it is reckoned: what the
    busiest zone uses now, and its part of what the largest zone carried, which makes N / (N - 1) of it for N zones of
    the same size.
    """
    return _loss(record, span, by_zone(record, span))


def _loss(record: Record, span: Span, zones: dict[str, Use | None]) -> dict[str, Any] | None:
    highest = _measured(record, span, zones).value
    if highest is None:
        return None
    if lost(record, span):
        return {"share": highest, "measured": True}
    there = [each[1] for each in zones.values() if each]
    if span not in record.healthy or len(there) < 2:
        return None
    return {"share": highest * sum(there) / (sum(there) - max(there)), "measured": False}


def table(record: Record) -> dict[str, Any] | None:
    """Every phase's figures, all shares 0..1; None for a run that has no samples of it.

    ``zones``: zone → phase → share, without a phase in which the zone had no survivor. ``lost``: phase → the zones that
    were out at its end. ``idle``: of all processors of the machine, where the driver was on it. ``shared``: the
    nodes may use more processors in all than there are.
    """
    if not record.of_kind("nodes.cpu"):
        return None
    machine = usable.number(record)
    zones: dict[str, dict[str, float | None]] = {zone: {} for zone in _zones(record)}
    used = {span.name: by_zone(record, span) for span in record.spans}
    for phase, found in used.items():
        for zone, share in _shares(found).items():
            zones[zone][phase] = share
    return {
        "machine": machine,
        "shared": machine is None or sum(processors(record).values()) > machine,
        "zones": zones,
        "lost": {span.name: lost(record, span) for span in record.spans},
        "loss": {span.name: _loss(record, span, used[span.name]) for span in record.spans},
        "idle": _idle(record) if starved.applies(record) else {},
    }


def _idle(record: Record) -> dict[str, float]:
    """phase → the share of all processors' time in which they were idle; of a set that a process is held to, where
    less of its time was free."""
    apart = [(start, end, busy) for _, start, end, busy in usable.slices(record)]
    found: dict[str, float] = {}
    for start, end, busy in (starved.slices(record), *apart):
        for span in record.spans:
            inside = (start >= span.start) & (start < span.end)
            if inside.any():
                idle = 1 - float(np.average(busy[inside], weights=(end - start)[inside]))
                found[span.name] = min(idle, found.get(span.name, 1.0))
    return found


def a_survivor_had_too_much_to_do(run: Altered) -> None:
    for event in run.of_kind("nodes.cpu"):
        event["nodes"]["a-data"]["ms"] *= 2


def a_survivor_may_use_one_processor_only(run: Altered) -> None:
    run.of_kind("nodes.processors")[0]["nodes"]["b-data"] = 1


CHECKS = (
    Check(
        "cpu.survivors",
        "percent",
        lambda record, _, span: measure(record, span),
        Words.of(
            missed="The busiest zone used {measured} of its processors{inside}; wanted was {want}",
            question="the other zones had room{inside}",
            promise="The other zones have room{inside}: {want}",
            short="processors used by the busiest zone",
        ),
        group="recovery",
        less_is_better=True,
        meaning=(
            "The mean share of its processors that the busiest zone used, of the data nodes that were in the "
            "cluster all through the phase. What a lost zone carried falls on the others. So that they stay below "
            "80 to 90 %, each may use 53 to 60 % before where there are three zones, 40 to 45 % with two. In a lab "
            "whose nodes share a machine, room of a node is no room of the machine."
        ),
        helps=("headroom",),
        tables={"cpu": table},
        order=80,
        trial=Trial("<= 60%", "dead", (a_survivor_had_too_much_to_do, a_survivor_may_use_one_processor_only)),
    ),
)
