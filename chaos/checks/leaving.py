"""Did this machine push nodes out of the cluster, so that their copies went elsewhere for a reason that is not its own?

Where copies are is data, and stands whatever the processors did, with one exception: a node of a local lab that gets
no processor answers no health check, and the cluster rightly gives it up. A node that left is the experiment's own
doing when it was a fault's target, or its zone was decommissioned and not taken back since. Any other may have been pushed that left after
the machine had no free processor for as long as the shortest check takes, within the time that all checks take. The
same goes for one whose own Toxiproxy stood still: it was cut off, as by a fault that nobody asked for. What depends on
time from then on is not the cluster's either (:func:`gaps`), and so with a leader that was replaced.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from chaos.base import text
from chaos.checks import during, evidence, standing, starved
from chaos.checks.record import SECOND, Record, Span
from chaos.checks.standing import Stoppage
from chaos.history.events import ActionCommand, ClusterLeader, NodeLeft

CHECK = 1.0
"""Seconds without a free processor in a row that can fail a health check: the shortest that topologies here set."""
HEALTH_CHECKS = 35.0
"""Seconds back from a node's leaving in which its checks failed: three of 10 s (OpenSearch's own), and a little."""
SETTLES = 5.0
"""Seconds after a stoppage in which the cluster may still do what it made up its mind to meanwhile: publish, elect."""
AFTER = 30.0
"""Seconds after a fault is gone for which its targets are still its own doing."""
OUT, BACK = "decommission", "recommission"
"""The actions, and steps of controllers, that take a zone out and back."""
_ZONE = re.compile(r"zone ([^\s,]+)")
"""The zone in an action's words."""


def pushed(record: Record, span: Span) -> str | None:
    """Which nodes left up to the end of a phase that the machine may have pushed out, in words; None: none."""
    stretches = starved.full(record) if starved.applies(record) else []
    found = [says for at, says, _ in _cut_off(record, record.seen(NodeLeft)) if at < span.end]
    for event in record.seen(NodeLeft):
        at, node = event.t, str(event.node)
        if at >= span.end or _asked_for(record, node, at):
            continue
        longest = max((min(e, at) - max(s, at - int(HEALTH_CHECKS * SECOND)) for s, e in stretches), default=0) / SECOND
        if longest >= CHECK:
            when = text.seconds(record.since_start(at) or 0.0)
            found.append(
                f"{node} left the cluster {when} into the run after {text.seconds(longest)} in which "
                f"{starved.none_free(record)}"
            )
    return text.listed(found) or None


def gaps(record: Record) -> tuple[evidence.Gap, ...]:
    """Nodes that left, or were replaced as leaders, while their own Toxiproxy stood still and no fault hit them."""
    moves: list[NodeLeft | ClusterLeader] = record.seen(NodeLeft, ClusterLeader)
    return tuple(
        evidence.Gap(says, stoppage.start, evidence.Spoils.TIME) for _, says, stoppage in _cut_off(record, moves)
    )


def _cut_off(record: Record, moves: Sequence[NodeLeft | ClusterLeader]) -> list[tuple[int, str, Stoppage]]:
    """When which node left or was replaced by no doing but that of a Toxiproxy, in words, and the stoppage."""
    still = [stoppage for stoppage in standing.stoppages(record) if stoppage.node is not None]
    found: list[tuple[int, str, Stoppage]] = []
    leader: str | None = None
    for event in moves:
        if isinstance(event, ClusterLeader):
            node, did, leader = str(leader), "lost the leadership", event.leader
        else:
            node, did = str(event.node), "left the cluster"
        at = event.t
        if _asked_for(record, node, at):
            continue
        for stoppage in still:
            long_ago = at > stoppage.end + SETTLES * SECOND
            if stoppage.node == node != str(leader) and stoppage.start <= at and not long_ago:
                found.append((at, f"{node} {did} while {standing.words(record, [stoppage])}", stoppage))
    return found


def _asked_for(record: Record, node: str, at: int) -> bool:
    """Whether a fault or an action explains that this node was out of the cluster at that moment."""
    for fault in evidence.faults(record):
        over = (fault.gone or fault.undo or record.last_seen) + int(AFTER * SECOND)
        ends = {end for link in fault.links for end in link.split(" → ")}
        if fault.command <= at <= over and node in (set(fault.targets) or ends):
            return True
    if during.explains(record, node, at):
        return True
    return _taken_out(record, record.zone_of.get(node), at)


def _taken_out(record: Record, zone: str | None, at: int) -> bool:
    """Whether a zone was out by an action, or a controller's step, at that moment, or had been taken back just before."""
    moves = [(event.t, event.action_kind, _ZONE.findall(str(event.says))) for event in record.seen(ActionCommand)]
    moves += [
        (int(event["t"]), str(event.get("step")), [str(event.get("zone"))]) for event in record.of_kind("failover.step")
    ]
    own = [(t, kind) for t, kind, zones in moves if kind in (OUT, BACK) and zone in zones and t <= at]
    if not own:
        return False
    last, kind = max(own)
    return kind == OUT or (len(own) > 1 and at <= last + int(AFTER * SECOND))
