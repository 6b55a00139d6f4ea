"""What to do about what is seen: a pure function from signs and the cluster's state to at most one step.

Caution first. A step needs evidence of two kinds that lasted, while all other zones were calm: more than one bad zone
is more likely our own network, or a cluster with too much to do, than theirs. A controller that is itself held up
trusts nothing that it has seen. Nothing is done during the cool-down after a step; a zone is taken out only when what
stays has a quorum of cluster managers and a copy of every shard. What is not done is said too, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from chaos.programs.failover.signs import Evidence, Signs

HOUR = 3600.0
RETRY_AFTER = 30.0
"""Seconds without being green, with all nodes in and well, until allocations that were given up are tried again.

A node that comes back may have to wait for minutes for the lock of a copy that it is still closing; OpenSearch gives up
after five tries of 5 s (``index.allocation.max_retries``).
"""
HELD_UP = 0.1
"""A controller that was late for itself by more (s) cannot tell whose fault a late answer is."""


@dataclass(frozen=True)
class Policy:
    """Seconds, but for ``kinds``: how many kinds of evidence a step needs."""

    read_sustained: float = 2.0
    """until reads are led away from a zone"""
    write_sustained: float = 4.0
    """until a zone is decommissioned"""
    kinds: int = 2
    cool_down: float = 60.0
    """after a swap of the zones' roles until the next one, and after a zone's return until one is decommissioned"""
    gone_after: float = 30.0
    """until it counts against a zone that the cluster has given its nodes up: nothing waits for them, and a restart is
    over sooner; what is gained is the standby's capacity"""
    healthy_before_return: float = 30.0
    """how long a zone that is out must have answered well; twice as long for each return in the hour before"""
    rotate_every: float | None = None
    standby: str | None = None
    """the zone that becomes the standby where no weights are set yet"""
    lead_from_standby: bool = False
    """whether the elected cluster manager is to be in the standby zone: an active zone that is lost then costs no
    election, and nothing can be led away from it before there is one"""


@dataclass(frozen=True)
class Cluster:
    """What the cluster says of itself, from the answer of a node that has a cluster manager; None: unknown.

    ``weights``: zone → weight, empty when none are set. ``decommissioned``: zone → OpenSearch's word for its state.
    ``managers``: zone → how many nodes that could be elected are in the cluster. ``eligible``: the same of all that
    there should be. ``alone``: zones that hold the only active copy of some shard.
    """

    zones: tuple[str, ...]
    weights: Mapping[str, int]
    weights_version: int
    decommissioned: Mapping[str, str]
    managers: Mapping[str, int]
    eligible: Mapping[str, int]
    alone: frozenset[str]
    green: bool
    leader: str | None = None
    """the zone of the elected cluster manager"""


@dataclass(frozen=True)
class Memory:
    """What outlives a decision: kept in the log of events, so that a restart does not forget a cool-down."""

    swapped_at: float | None = None
    returns: tuple[float, ...] = ()
    rotation_asked: bool = False
    incomplete_since: float | None = None
    """since when the cluster has had all its nodes and has not been green"""
    retried_at: float | None = None
    led_at: float | None = None
    """when it was last tried to move the elected cluster manager"""


@dataclass(frozen=True)
class Step:
    """One step, or none. ``do``: weights, decommission, recommission, retry (allocations), lead, wait, nothing."""

    do: str
    because: str
    zone: str | None = None
    weights: Mapping[str, int] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()


def nothing(because: str) -> Step:
    return Step("nothing", because)


def decide(
    signs: Signs, cluster: Cluster | None, memory: Memory, policy: Policy, now: float, held_up: float = 0.0
) -> Step:
    """The next step. ``now`` is by the same clock as the signs.

    ``held_up``: the longest that this process was late for itself (s) while the evidence came.
    """
    if cluster is None:
        return Step("wait", "no node that answers has a cluster manager: nothing could be changed")
    inside = [zone for zone in cluster.zones if cluster.decommissioned.get(zone) in (None, "FAILED")]
    against = {zone: _against(zone, signs, policy, now, policy.read_sustained) for zone in inside}
    bad = {zone: found for zone, found in against.items() if len(found) >= policy.kinds}
    if len(bad) > 1:
        return Step("wait", f"zones {', '.join(sorted(bad))} all look bad: that may be our own view, and two never go")
    if not bad:
        return _return_or_rotate(signs, cluster, memory, policy, now)
    ((zone, evidence),) = bad.items()
    if held_up > HELD_UP:
        return Step("wait", f"zone {zone} looks bad, but this controller itself was held up for {held_up:.1f} s")
    if restless := [other for other in inside if other != zone and not _calm(other, signs, policy, now)]:
        return Step("wait", f"zone {zone} is bad, but zone {restless[0]} is not well either")
    if not cluster.weights:
        return Step("wait", f"zone {zone} is bad, and no zone is the standby: no weights are set")
    if cluster.weights.get(zone, 1) > 0:
        return _swap(zone, evidence, cluster, memory, policy, now)
    return _take_out(zone, signs, cluster, memory, policy, now)


def _against(zone: str, signs: Signs, policy: Policy, now: float, sustained: float) -> list[Evidence]:
    found = signs.against(zone, now, sustained)
    return [each for each in found if each.kind != "member" or each.seconds >= policy.gone_after]


def _calm(zone: str, signs: Signs, policy: Policy, now: float) -> bool:
    return signs.calm(zone, now, policy.write_sustained) and not signs.against(zone, now, policy.read_sustained / 2)


def _swap(
    zone: str,
    evidence: list[Evidence],
    cluster: Cluster,
    memory: Memory,
    policy: Policy,
    now: float,
) -> Step:
    """Read failover: the bad zone becomes the standby, and the standby serves."""
    if set(cluster.decommissioned.values()) - {"FAILED"}:
        return Step("wait", f"zone {zone} is bad, but another one is decommissioned: two never go")
    if memory.swapped_at is not None and (left := memory.swapped_at + policy.cool_down - now) > 0:
        return Step("wait", f"zone {zone} is bad, but roles were swapped recently: {left:.0f} s of cool-down are left")
    return replace(_stand_by(zone, f"zone {zone} is bad", cluster), evidence=tuple(evidence))


def _take_out(zone: str, signs: Signs, cluster: Cluster, memory: Memory, policy: Policy, now: float) -> Step:
    """Write failover: the bad zone, which serves no reads by now, is decommissioned."""
    evidence = _against(zone, signs, policy, now, policy.write_sustained)
    if len(evidence) < policy.kinds:
        return Step("wait", f"zone {zone} is bad, but not for {policy.write_sustained:g} s by {policy.kinds} kinds yet")
    if not {each.kind for each in evidence} & {"write"}:
        return nothing(f"zone {zone} is bad and serves no reads; writes do not wait for it")
    if out := [other for other, state in cluster.decommissioned.items() if state != "FAILED"]:
        return Step("wait", f"zone {zone} is bad, but zone {out[0]} is out already: two never go")
    if cluster.eligible.get(zone) and not cluster.managers.get(zone):
        # OpenSearch 3.8 refuses to decommission a zone whose cluster managers have left: it finds none to exclude
        return nothing(f"zone {zone} is bad, and the cluster has given its nodes up by itself")
    if memory.returns and (left := memory.returns[-1] + policy.cool_down - now) > 0:
        return Step("wait", f"zone {zone} is bad, but a zone was taken in recently: {left:.0f} s of cool-down are left")
    stay = sum(count for other, count in cluster.managers.items() if other != zone)
    eligible = sum(cluster.eligible.values())
    if 2 * stay <= eligible:
        return Step("wait", f"without zone {zone} {stay} of {eligible} cluster managers would stay: no majority")
    if zone in cluster.alone:
        return Step("wait", f"zone {zone} holds the only active copy of a shard")
    return Step("decommission", f"zone {zone} stays bad, and writes wait for it", zone, {}, tuple(evidence))


def _return_or_rotate(signs: Signs, cluster: Cluster, memory: Memory, policy: Policy, now: float) -> Step:
    for zone, state in cluster.decommissioned.items():
        if state in ("SUCCESSFUL", "FAILED"):
            return _return(zone, signs, memory, policy, now)
        return Step("wait", f"zone {zone} is being decommissioned ({state})")
    suspect = [zone for zone in cluster.zones if signs.against(zone, now, policy.read_sustained)]
    if not cluster.weights:
        if policy.standby is None or suspect:
            return nothing("no zone is the standby: no weights are set")
        return _stand_by(policy.standby, f"zone {policy.standby} is to be the standby", cluster)
    due = memory.rotation_asked
    if policy.rotate_every is not None:
        due |= memory.swapped_at is None or now - memory.swapped_at >= policy.rotate_every
    waited = now - max(_or(memory.incomplete_since, now), _or(memory.retried_at, float("-inf")))
    if not suspect and not cluster.green and waited >= RETRY_AFTER:
        return Step("retry", f"all nodes are in, and the cluster has not been green for {waited:.0f} s")
    for zone in cluster.zones:  # one node is enough: a zone takes up its role with all of them
        if found := signs.against(zone, now, policy.read_sustained, one=True):
            return nothing(f"zone {zone} is suspect ({found[0].says}){': no rotation' if due else ''}")
    zones = cluster.zones
    standby = next((zone for zone in zones if cluster.weights.get(zone, 1) == 0), zones[-1])
    if not due and policy.lead_from_standby and _may_lead(standby, signs, cluster, memory, policy, now):
        return Step(
            "lead", f"zone {standby} is the standby, and zone {cluster.leader} has the cluster manager", standby
        )
    if not due or not cluster.green:
        return nothing("all zones are well" if not due else "the cluster is not green: no rotation")
    if new := [zone for zone in zones if not signs.healthy_for(zone, now, ("probe",))]:
        return nothing(f"zone {new[0]} has not answered every probe well of late: no rotation")
    return _stand_by(zones[(zones.index(standby) + 1) % len(zones)], "rotation", cluster)


def _may_lead(standby: str, signs: Signs, cluster: Cluster, memory: Memory, policy: Policy, now: float) -> bool:
    """While it moves one cluster manager alone has a vote: only when all are there and well, not again and again.

    Not soon after a swap of the roles, whoever made it: the new standby may be one because it is bad.
    """
    if cluster.leader in (None, standby) or not cluster.managers.get(standby) or not cluster.green:
        return False
    last = [*memory.returns, *(at for at in (memory.led_at, memory.swapped_at) if at is not None)]
    rested = now - max(last, default=float("-inf")) >= policy.cool_down
    well = all(signs.healthy_for(zone, now, ("probe", "peer")) >= policy.read_sustained for zone in cluster.zones)
    return rested and well and cluster.managers == cluster.eligible


def _or(at: float | None, otherwise: float) -> float:
    return otherwise if at is None else at


def _stand_by(zone: str, because: str, cluster: Cluster) -> Step:
    return Step("weights", because, zone, {other: 0 if other == zone else 1 for other in cluster.zones})


def _return(zone: str, signs: Signs, memory: Memory, policy: Policy, now: float) -> Step:
    """A zone that has just been taken in again and is out once more has to prove itself for longer."""
    earlier = sum(1 for at in memory.returns if now - at < HOUR)
    wanted = policy.healthy_before_return * 2**earlier
    healthy = signs.healthy_for(zone, now, ("probe", "peer"))
    if healthy >= wanted:
        return Step("recommission", f"zone {zone} has answered well for {healthy:.0f} s", zone)
    return nothing(f"zone {zone} is out; it must answer well for {wanted:g} s")
