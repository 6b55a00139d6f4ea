"""What a setting of OpenSearch can affect: what its change by an external actor takes the worth from.

A small table, of settings whose effect is plain from OpenSearch's own documentation or code (3.8.0); it is looked up by
the beginning of a name. Whatever is not in it may have caused anything (:data:`ANYTHING`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from chaos.history.configuration import UUID


class Affects(StrEnum):
    """What a change can have caused; each holds those below it."""

    DATA = "data"
    """What is stored: documents may be lost, changed, or confirmed too early. Unknown settings count as such."""
    PLACEMENT = "placement"
    """Where copies are and how many: with fewer of them the next fault loses documents, so it spoils as much."""
    AVAILABILITY = "availability"
    """Which requests are taken, by whom, how fast, and what a search shows. No document is other than it was."""
    NOTHING = "nothing"
    """Logs, names, statistics and how often they are made: nothing that a finding rests on."""


ANYTHING = Affects.DATA


class Row(NamedTuple):
    """``begins``: of the setting's name. ``source``: a class of OpenSearch, or a page of its documentation."""

    begins: str
    affects: Affects
    source: str


TABLE: tuple[Row, ...] = (
    Row("logger.", Affects.NOTHING, "docs: install-and-configure/configuring-opensearch/logs"),
    Row("cluster.metadata.", Affects.NOTHING, "Metadata: text of operators, which nothing reads"),
    Row("cluster.info.update.", Affects.NOTHING, "InternalClusterInfoService: how often disks are looked at"),
    Row("cluster.search.request.slowlog.", Affects.NOTHING, "docs: monitoring-your-cluster/logs, request slow logs"),
    Row("index.search.slowlog.", Affects.NOTHING, "docs: monitoring-your-cluster/logs, shard slow logs"),
    Row("index.indexing.slowlog.", Affects.NOTHING, "docs: monitoring-your-cluster/logs, shard slow logs"),
    Row("cluster.service.slow_", Affects.NOTHING, "ClusterApplierService, MasterService: thresholds of warnings"),
    Row("gateway.slow_write_logging_threshold", Affects.NOTHING, "PersistedClusterStateService: warnings"),
    Row("monitor.fs.health.slow_path_logging_threshold", Affects.NOTHING, "FsHealthService: a threshold of warnings"),
    Row("transport.slow_operation_logging_threshold", Affects.NOTHING, "TransportService: a threshold of warnings"),
    Row("transport.tracer.", Affects.NOTHING, "TransportService: which requests are logged"),
    Row("http.tracer.", Affects.NOTHING, "HttpTracer: which requests are logged"),
    Row("task_resource_consumers.", Affects.NOTHING, "TopNSearchTasksLogger: what is logged"),
    Row("cluster.task.consumers.", Affects.NOTHING, "TopNSearchTasksLogger: what is logged"),
    Row("search.request_stats_enabled", Affects.NOTHING, "SearchRequestStats: counters"),
    Row("search.phase_took_enabled", Affects.NOTHING, "TransportSearchAction: a field of answers"),
    Row("snapshot.", Affects.NOTHING, "SnapshotsService: how snapshots are made, of which runs make none"),
    Row("search.", Affects.AVAILABILITY, "SearchService and TransportSearchAction: limits and ways of searches"),
    Row("search_backpressure.", Affects.AVAILABILITY, "docs: tuning-your-cluster/availability-and-recovery"),
    Row("admission_control.", Affects.AVAILABILITY, "AdmissionControlService: which requests are refused when busy"),
    Row("wlm.", Affects.AVAILABILITY, "docs: tuning-your-cluster/workload-management"),
    Row("indices.breaker.", Affects.AVAILABILITY, "docs: circuit breaker settings"),
    Row("network.breaker.", Affects.AVAILABILITY, "docs: circuit breaker settings"),
    Row("indices.requests.cache.", Affects.AVAILABILITY, "IndicesRequestCache: answers of searches"),
    Row("indices.queries.cache.", Affects.AVAILABILITY, "IndicesQueryCache: answers of searches"),
    Row("index.max_", Affects.AVAILABILITY, "docs: index settings, limits of single requests"),
    Row("index.refresh_interval", Affects.AVAILABILITY, "docs: index settings, when searches show what was written"),
    Row("index.search.", Affects.AVAILABILITY, "docs: index settings, when an idle shard refreshes"),
    Row("cluster.routing.use_adaptive_replica_selection", Affects.AVAILABILITY, "OperationRouting: who is searched"),
    Row("cluster.routing.weighted.", Affects.AVAILABILITY, "OperationRouting: who is searched"),
    Row("cluster.routing.ignore_weighted_routing", Affects.AVAILABILITY, "OperationRouting: who is searched"),
    Row("cluster.search.ignore_awareness_attributes", Affects.AVAILABILITY, "OperationRouting: who is searched"),
    Row("indices.replication.", Affects.AVAILABILITY, "RecoverySettings: how fast replicas copy segments"),
    Row("segrep.pressure.", Affects.AVAILABILITY, "SegmentReplicationPressureService: which writes are refused"),
    Row("segrep.replication.", Affects.PLACEMENT, "SegmentReplicationPressureService: when replicas are failed"),
    Row("cluster.routing.", Affects.PLACEMENT, "docs: cluster routing and awareness settings"),
    Row("index.routing.", Affects.PLACEMENT, "docs: index settings, allocation of shards"),
    Row("index.number_of_replicas", Affects.PLACEMENT, "docs: index settings"),
    Row("index.auto_expand_", Affects.PLACEMENT, "docs: index settings"),
    Row("index.unassigned.", Affects.PLACEMENT, "docs: index settings, when copies of a node that left are made anew"),
    Row("indices.recovery.", Affects.PLACEMENT, "docs: how fast copies are made"),
)
"""The longest beginning that fits decides."""


def of(fact: Mapping[str, Any]) -> Affects:
    """What the change that an event ``configuration.changed`` tells of can have caused."""
    scope, name = str(fact.get("scope")), str(fact.get("name"))
    if scope == "zones":  # weights say where searches go; decommission and votes take nodes out
        return Affects.AVAILABILITY if name == "weights" else Affects.PLACEMENT
    if scope not in ("cluster", "index") or name == UUID:
        return ANYTHING
    fits = [row for row in TABLE if name.startswith(row.begins)]
    return max(fits, key=lambda row: len(row.begins)).affects if fits else ANYTHING
