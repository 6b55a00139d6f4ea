"""Which remedies this run had already: done by it, set by its topology, or found by the checklist of its cluster.

What is in force helped as far as it helps, so it is not proposed again. Settings come from the plan's topology, at all
levels, less what a fault of the run changed; where a cluster exists and the plan knows no settings of it, the rows of
the checklist tell. What cannot be known from here (clients, kernels, processes) is never taken for granted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.checks.record import Record
from chaos.history.models import Plan

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
DONE_BY = {
    "decommission": ("zone-failover",),
    "weights": ("weights-away", "zone-failover"),
    "exclude_votes": (),
    "reindex": (),
    "remote_restore": (),
    "snapshot": (),
    "restore": (),
}
"""Kinds of action → the remedies that they are."""
ROWS = {
    "three-managers": ("managers.dedicated", "managers.zones"),
    "forced-awareness": ("awareness.forced",),
    "replicas": ("replicas", "copies"),
    "search-backpressure": ("protection.search",),
    "admission-control": ("protection.admission",),
    "indexing-pressure": ("protection.indexing",),
    "failure-detection": ("detection",),
    "file-health": ("detection.stalled",),
}
"""Remedies → the rows of the checklist that are well where a remedy is in force."""


def settings_of(plan: Plan) -> dict[str, str]:
    """What the run's topology sets, by full name (an index's with and without ``index.``)."""
    levels = ((plan.get("topology") or {}).get("settings")) or {}
    found = {}
    for level, settings in levels.items() if isinstance(levels, dict) else ():
        for name, value in (settings or {}).items() if isinstance(settings, dict) else ():
            shown = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            found[str(name)] = shown
            if level == "index":
                found[f"index.{name}"] = shown
    return found


@dataclass(frozen=True)
class Here:
    """The cluster of a run, as far as its plan knows it."""

    settings: Mapping[str, str]
    topology: Mapping[str, Any]

    @classmethod
    def of(cls, plan: Plan) -> Here:
        settings = settings_of(plan)
        for changed in _changed(plan):
            settings.pop(changed, None)
            settings.pop(f"index.{changed}", None)
        return cls(settings, plan.get("topology") or {})

    def at_most(self, name: str, limit: float) -> bool:
        """A duration is set, and to no more than ``limit`` seconds."""
        found = _seconds(self.settings.get(name))
        return found is not None and found <= limit

    def longer(self, name: str, limit: float) -> bool:
        """A duration is set, and to more than ``limit`` seconds."""
        found = _seconds(self.settings.get(name))
        return found is not None and found > limit

    def is_(self, name: str, *values: str) -> bool:
        return self.settings.get(name, "").lower() in values

    def not_(self, name: str, *values: str) -> bool:
        """A setting whose default is the remedy was not set to one of these."""
        return self.settings.get(name, "").lower() not in values

    @property
    def zones(self) -> int:
        return len(self.topology.get("zones") or ())

    def managers_everywhere(self) -> bool:
        nodes = [node for node in self.topology.get("nodes") or () if node.get("roles") == ["cluster_manager"]]
        return len(nodes) >= 3 and len({node.get("zone") for node in nodes}) >= 3

    def copy_in_every_zone(self) -> bool:
        given = self.settings.get("number_of_replicas", "")
        return self.zones > 1 and given.isdigit() and int(given) >= self.zones - 1


FORCE = "cluster.routing.allocation.awareness.force.zone.values"
FOLLOWER = "cluster.fault_detection.follower_check.timeout"
LEADER = "cluster.fault_detection.leader_check.timeout"
HEALTH = "monitor.fs.health.healthy_timeout_threshold"
IN_FORCE: Mapping[str, Callable[[Here], bool]] = {
    "failure-detection": lambda here: here.at_most(FOLLOWER, 5) and here.at_most(LEADER, 5),
    "adaptive-replicas": lambda here: (
        not here.topology.get("weights") and here.not_("cluster.routing.use_adaptive_replica_selection", "false")
    ),
    "partial-results": lambda here: here.is_("search.default_allow_partial_results", "false"),
    "search-backpressure": lambda here: here.is_("search_backpressure.mode", "enforced"),
    "admission-control": lambda here: here.is_("admission_control.transport.mode", "enforced"),
    "indexing-pressure": lambda here: here.is_("shard_indexing_pressure.enforced", "true"),
    "replicas": Here.copy_in_every_zone,
    "forced-awareness": lambda here: bool(here.settings.get(FORCE)),
    "delayed-allocation": lambda here: here.longer("index.unassigned.node_left.delayed_timeout", 60),
    "retention-leases": lambda here: here.longer("index.soft_deletes.retention_lease.period", 12 * 3600),
    "rejoin-sooner": lambda here: here.at_most("discovery.find_peers_interval_during_decommission", 5),
    "search-contexts": lambda here: here.at_most("search.default_keep_alive", 60),
    "three-managers": Here.managers_everywhere,
    "durability": lambda here: here.not_("index.translog.durability", "async"),
    "active-shards": lambda here: here.not_("index.write.wait_for_active_shards", "", "0", "1"),
    "segment-pressure": lambda here: here.is_("segrep.pressure.enabled", "true"),
    "replication-type": lambda here: here.not_("index.replication.type", "segment"),
    "tcp-retries": lambda here: False,
    "file-health": lambda here: here.at_most(HEALTH, 15),
    "breakers": lambda here: here.not_("indices.breaker.total.use_real_memory", "false"),
}
"""Remedies that are settings or a shape of the cluster → whether it has them."""
UNKNOWN = (
    "zone-failover",
    "weights-away",
    "client-retries",
    "balancer-probe",
    "manager-block",
    "manager-throttling",
    "recovery-speed",
    "explicit-ids",
    "watermarks",
    "store-room",
    "store-latency",
    "headroom",
    "investigate",
    "look-at-the-log",
    "read-your-check",
    "explain-allocation",
    "take-the-block-away",
)
"""Remedies of which settings do not tell: what is done at the moment, what clients do, and what has no right value."""


def in_force(record: Record) -> frozenset[str]:
    """The ids of the remedies that this run had already."""
    found = planned(record.plan, [str(event.get("action_kind")) for event in record.of_kind("action.command")])
    if record.of_kind("failover.done", "failover.steer"):
        found.update(("zone-failover", "weights-away"))
    ok = {str(row.get("id")) for row in (record.audit or {}).get("rows") or () if row.get("status") == "ok"}
    changed = _changed(record.plan)
    found.update(id for id, rows in ROWS.items() if not changed and ok.issuperset(rows))
    return frozenset(found | _of_clients(record.plan.get("client") or {}))


def planned(plan: Plan, actions: Iterable[str]) -> set[str]:
    """The ids of the remedies that a plan's topology has, and that these kinds of action are."""
    here = Here.of(plan)
    found = {id for id, holds in IN_FORCE.items() if holds(here)} if here.settings else set()
    found.update(id for action in actions for id in DONE_BY.get(action, ()))
    return found


def _of_clients(client: Mapping[str, Any]) -> set[str]:
    """What the load's clients do already."""
    how, hosts = client.get("client") or {}, client.get("clients") or ()
    ours = how.get("kind") == "load-balancer" and not any(host.get("through") for host in hosts)
    weighed = "ensure_node_weighed_in=true" in str((how.get("probe") or {}).get("path"))
    return {"balancer-probe"} if ours and weighed else set()


FEWEST = 10
"""Arrivals of a phase that a node must have been sent to be compared with others."""
ALIKE = 0.5
"""Where the best node's share of bad answers is more than this part of the worst one's, no node was the better one."""


def elsewhere_is_no_better(record: Record, op: str | None, phase: str | None) -> bool:
    """Whether the bad arrivals of a phase were spread over all nodes that were asked, so that asking another of them
    had helped nothing: neither a load balancer nor a client that tries again."""
    span = record.span(phase) if phase else None
    if op is None or span is None or op not in record.arrivals:
        return False
    arrivals = record.in_phase(op, span)
    sent = np.bincount(arrivals.node[arrivals.node >= 0], minlength=len(record.nodes))
    bad = arrivals.node[(arrivals.node >= 0) & ~arrivals.good]
    shares = [b / s for b, s in zip(np.bincount(bad, minlength=len(record.nodes)), sent, strict=True) if s >= FEWEST]
    return len(shares) > 1 and max(shares) > 0 and min(shares) >= ALIKE * max(shares)


ELSEWHERE = ("balancer-probe", "client-retries")
"""Remedies that send requests to another node."""
OF_NODES = ("failure-detection", "zone-failover", "weights-away", "file-health", "tcp-retries")
"""Remedies that find nodes which are dead or slow, or do without them."""


def useless(record: Record, op: str | None, phase: str | None) -> frozenset[str]:
    """The ids of the remedies that are no answer to a finding: in force already, or beside the point."""
    return in_force(record) | (frozenset(ELSEWHERE) if elsewhere_is_no_better(record, op, phase) else frozenset())


def _changed(plan: Plan) -> set[str]:
    """Settings that a fault of the plan changes: what the topology says of them did not hold."""
    phases = (plan.get("experiment") or {}).get("phases") or ()
    steps = [step for phase in phases for step in phase.get("inject") or () if isinstance(step.get("settings"), dict)]
    return {str(name) for step in steps for name in step["settings"]}


def _seconds(given: str | None) -> float | None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", (given or "").strip())
    return float(match[1]) * UNITS[match[2]] if match else None
