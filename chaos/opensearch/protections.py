"""The catalogue of OpenSearch's protections: how each is set, counted and told to clients, and what it needs.

Names, defaults, counters and texts are those of the sources and the documentation of 3.8.0, and of 2.19.6 where nothing
else is said. They are what a run is held against, not what one has shown: that stands beside each in
docs/protections.md, which ``python benchmarks/asked.py`` makes of this file and of the recorded runs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Error:
    """What clients are told. ``status``: of the answer, ``429`` or ``5xx``, as it is counted; ``type``: of the error;
    ``text``: a part of its reason that no other protection's has."""

    status: str
    type: str
    text: str

    def told(self, status: str, type_: str, reason: str | None) -> bool:
        """Whether an error is this one. A reason that is not known is not held against it."""
        return (status, type_) == (self.status, self.type) and (reason is None or self.text in reason)


@dataclass(frozen=True)
class Protection:
    """One of them. ``metric``: by which a run counts it, None where none does; ``counter``: where nodes count, below
    ``GET _nodes/stats`` ``nodes.<id>`` or as it says; ``error``: None where clients see nothing of it, or nothing that
    is told apart; ``modes``: what it can be set to, the default first; ``needs``: without which it does nothing;
    ``test``: which of tests/cluster/test_protections_act.py provokes it alone, empty where none does; ``open``: why
    nothing here shows whether it protects, empty where an experiment asks for its metric."""

    name: str
    setting: str
    modes: str
    counter: str
    needs: str
    metric: str | None = None
    error: Error | None = None
    test: str = ""
    open: str = ""


REJECTED = "rejected_execution_exception"

EVERY = (
    Protection(
        "search backpressure",
        "search_backpressure.mode",
        "monitor_only, enforced, disabled",
        "search_backpressure.{search_task,search_shard_task}.cancellation_stats.cancellation_count",
        "nodes in duress (processors 90 % or heap 70 % for 3 s), and searches that hold 5 % of the heap",
        "search_backpressure.cancelled",
        Error("5xx", "task_cancelled_exception", " exceeded ["),
    ),
    Protection(
        "admission control",
        "admission_control.transport.mode",
        "disabled, monitor_only, enforced",
        "admission_control.{global_cpu_usage,global_io_usage}.transport.rejection_count.<action>",
        "averages that are full: 30 s of processor and 120 s of disk use, so none in a node's first 120 s",
        "admission_control.rejected",
        Error("429", REJECTED, "admission controller rejected the request"),
    ),
    Protection(
        "indexing pressure",
        "indexing_pressure.memory.limit",
        "always on: 10 % of the heap, 15 % for replicas",
        "indexing_pressure.memory.total.{coordinating,primary,replica}_rejections",
        "nothing; the setting is read when a node starts",
        "indexing_pressure.rejected",
        Error("429", REJECTED, "operation [coordinating_and_primary_bytes="),
    ),
    Protection(
        "shard indexing pressure",
        "shard_indexing_pressure.enabled, .enforced",
        "off, shadow (enabled and not enforced), on",
        "shard_indexing_pressure.total_rejections_breakup.<limit>; in shadow total_rejections_breakup_shadow_mode",
        "bulks of one shard, or with ids: of a refused one other shards may have written their part (#20724)",
        "shard_indexing_pressure.rejected",
        Error("429", REJECTED, "operation [shard_detail="),
    ),
    Protection(
        "task throttling of the cluster manager",
        "cluster_manager.throttling.thresholds.<kind>.value",
        "3.x: on, 50 queued tasks of most kinds, put-mapping 10000; 2.19: off unless set",
        "cluster_manager_throttling.stats.throttled_tasks_per_task_type.<kind>, of the elected one",
        "tasks that wait; the node that was asked tries again after 2.5 to 5 s, so clients see a delay or a timeout",
        "manager_throttling.throttled",
        Error("5xx", "process_cluster_event_timeout_exception", "failed to process cluster event"),
    ),
    Protection(
        "backpressure of segment replication",
        "segrep.pressure.enabled",
        "off, on",
        "segment_replication_backpressure.total_rejected_requests",
        "indices of segment replication, and half of a shard's replicas behind",
        "segment_replication_backpressure.rejected",
        Error("429", REJECTED, "Stale Replicas: "),
    ),
    Protection(
        "queues of thread pools",
        "thread_pool.<name>.queue_size",
        "always on: search 1000, get 1000, write 10000",
        "thread_pool.<name>.rejected",
        "nothing; the setting is read when a node starts",
        "thread_pools.rejected",
        Error("429", REJECTED, "queue capacity"),
        "test_a_full_queue_of_a_thread_pool_refuses_and_is_empty_again",
        "no experiment has sides for it",
    ),
    Protection(
        "circuit breakers",
        "indices.breaker.{total,request,fielddata}.limit",
        "always on: 95 %, 60 %, 40 % of the heap",
        "breakers.{parent,request,fielddata}.tripped",
        "nothing",
        "circuit_breakers.tripped",
        Error("429", "circuit_breaking_exception", "Data too large"),
        "test_a_breaker_refuses_what_is_over_its_limit_and_holds_nothing_after",
        "no experiment has sides for it",
    ),
    Protection(
        "cancellation after a time",
        "search.cancel_after_time_interval",
        "off, a time; also of one request",
        "none",
        "searches that ask whether they were cancelled: an aggregation under way may run on (#19434)",
        error=Error("5xx", "task_cancelled_exception", "Cancellation timeout of "),
        test="test_a_search_is_cancelled_after_its_time_and_the_next_is_not",
        open="nodes count it nowhere, so no experiment can ask for it",
    ),
    Protection(
        "disk watermarks",
        "cluster.routing.allocation.disk.watermark.{low,high,flood_stage}",
        "on: 85 %, 90 %, 95 %",
        "none; blocks in the cluster state, index.blocks.read_only_allow_delete",
        "an answer of every node with a copy: the block of the flood stage goes once all are under *high*",
        error=Error("429", "cluster_block_exception", "disk usage exceeded flood-stage watermark"),
        test="test_the_flood_stage_blocks_writes_until_the_disk_is_under_its_high_watermark",
        open="experiments/disk-flood-stage.yaml has a disk that is filled, without sides",
    ),
    Protection(
        "remote store pressure",
        "remote_store.segment.pressure.enabled",
        "on, off",
        "GET _remotestore/stats: segment.upload.backpressure_rejection_count of a primary",
        "remote-backed storage that falls behind",
        error=Error("429", REJECTED, "due to remote segments lagging behind"),
        test="test_a_store_that_takes_no_segments_refuses_writes_until_it_takes_them",
        open="counted by store.rejected; no experiment with sides",
    ),
    Protection(
        "workload management",
        "wlm.workload_group.mode",
        "monitor_only, enabled, disabled",
        "GET _wlm/stats: workload_groups.<id>.{total_rejections,total_cancellations}",
        "groups, which the plugin workload-management makes; its parts are not published by themselves, so only a full "
        "distribution has them",
        open="not run here: labs have no such plugin",
    ),
)
"""Every protection, in the order of the page."""

OF_METRIC = {each.metric: each for each in EVERY if each.metric is not None}
