"""Did this machine push nodes out of the cluster, so that their copies went elsewhere for a reason that is not its own?

Where copies are is data, and stands whatever the processors did, with one exception: a node of a local lab that gets
no processor answers no health check, and the cluster rightly gives it up. A node that left is the experiment's own
doing when it was a fault's target, or its zone was decommissioned and not taken back since. Any other may have been
pushed that left after the machine had no free processor for as long as the shortest check takes, within the time that
all checks take. The same goes for one whose own Toxiproxy stood still: it was cut off, as by a fault that nobody asked
for. What depends on time from then on is not the cluster's either (:func:`gaps`), and so with a leader that was
replaced, unless the experiment moved votes or took the quorum away: whoever is elected then begins with few nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chaos.base import text
from chaos.checks import during, evidence, standing, starved, timeline
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
VOTES = ("exclude_votes", "include_votes", "lead")
"""The actions, and the step of controllers, by which another node may lead."""
_ZONE = re.compile(r"zone ([^\s,]+)")
"""The zone in an action's words."""


def pushed(record: Record, span: Span) -> str | None:
    """Which nodes left up to the end of a phase that the machine may have pushed out, in words; None: none."""
    found = [says for at, says, _ in _cut_off(record, record.seen(NodeLeft)) if at < span.end]
    return text.listed([*found, *(says for at, says, _ in _starved(record, _left(record)) if at < span.end)]) or None


def gaps(record: Record) -> tuple[evidence.Gap, ...]:
    """Nodes that left, or were replaced as leaders, and no fault hit them: while their own Toxiproxy stood still, or
    (rules 2) after the machine had no free processor. From when that began on no time is the cluster's."""
    moves: list[NodeLeft | ClusterLeader] = record.seen(NodeLeft, ClusterLeader)
    found = [(stoppage.start, says) for _, says, stoppage in _cut_off(record, moves)]
    pushed = _starved(record, [*_left(record), *_replaced(record)]) if record.rules >= 2 else []
    found += [(since, says) for at, says, since in pushed if not _unseated(record, at)]
    return tuple(evidence.Gap(says, since, evidence.Spoils.TIME) for since, says in found)


@dataclass(frozen=True)
class _Move:
    """A node that left at that moment (ns), or was seen not to lead any more."""

    at: int
    node: str
    led: bool = False

    @property
    def did(self) -> str:
        return "lost the leadership" if self.led else "left the cluster"


def _left(record: Record) -> list[_Move]:
    return [_Move(event.t, str(event.node)) for event in record.seen(NodeLeft)]


def _replaced(record: Record) -> list[_Move]:
    """Each leader that another one followed, or none that a node knew. That no node answered is no such look."""
    looks = timeline.sampled(record)
    found: list[_Move] = []
    leader: str | None = None
    none_since: int | None = None
    for event in record.seen(ClusterLeader):
        if event.leader is None:
            none_since = event.t if none_since is None else none_since
            continue
        unled = none_since is not None and timeline.answered(looks, none_since, event.t)
        if leader is not None and (event.leader != leader or unled):
            found.append(_Move(none_since or event.t, leader, led=True))
        leader, none_since = str(event.leader), None
    if leader is not None and none_since is not None and timeline.answered(looks, none_since, record.last_seen):
        found.append(_Move(none_since, leader, led=True))
    return found


def _starved(record: Record, moves: Iterable[_Move]) -> list[tuple[int, str, int]]:
    """The moves that nothing explains but a machine without a free processor: when, in words, and since when (ns)."""
    stretches = starved.full(record) if starved.applies(record) else []
    found = []
    for move in moves:
        first = move.at - int(HEALTH_CHECKS * SECOND)
        near = [(max(start, first), min(end, move.at)) for start, end in stretches]
        failing = [(start, end) for start, end in near if end - start >= CHECK * SECOND]
        if not failing or _asked_for(record, move.node, move.at):
            continue
        longest = max(end - start for start, end in failing) / SECOND
        says = (
            f"{move.node} {move.did} {text.seconds(record.since_start(move.at) or 0.0)} into the run after "
            f"{text.seconds(longest)} in which {starved.none_free(record)}"
        )
        found.append((move.at, says, failing[0][0]))
    return found


def _unseated(record: Record, at: int) -> bool:
    """Whether the experiment explains that whoever led at that moment led no longer, by votes or for want of a quorum,
    and so that the next leader begins without nodes that it has not heard of yet."""
    votes = [event.t for event in record.seen(ActionCommand) if event.action_kind in VOTES]
    votes += [int(event["t"]) for event in record.of_kind("failover.step") if event.get("step") in VOTES]
    if any(t <= at <= t + int(AFTER * SECOND) for t in votes):
        return True
    nodes = (record.plan.get("topology") or {}).get("nodes") or ()
    managers = [str(node["name"]) for node in nodes if "cluster_manager" in (node.get("roles") or ())]
    out = sum(_asked_for(record, manager, at) for manager in managers)
    return bool(managers) and out >= len(managers) - len(managers) // 2


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
    """Whether a zone was out at that moment by an action or a controller's step, or had been taken back just before."""
    moves = [(event.t, event.action_kind, _ZONE.findall(str(event.says))) for event in record.seen(ActionCommand)]
    moves += [
        (int(event["t"]), str(event.get("step")), [str(event.get("zone"))]) for event in record.of_kind("failover.step")
    ]
    own = [(t, kind) for t, kind, zones in moves if kind in (OUT, BACK) and zone in zones and t <= at]
    if not own:
        return False
    last, kind = max(own)
    return kind == OUT or at <= last + int(AFTER * SECOND)
