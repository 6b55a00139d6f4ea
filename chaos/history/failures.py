"""Why a request failed: a small fixed vocabulary, of which the load driver writes one word beside each arrival.

An :class:`~chaos.history.format.Outcome` says what came back, and often not why: 429 is a protection of several, 503 is
a shard without a copy, a cluster without a manager or a node whose security is not there yet. The numbers are on disk
(``failure`` of :data:`~chaos.history.format.ARRIVAL`, 0 in records of earlier versions) and never change; words may.

Types and texts are OpenSearch's own, of 2.19.6 and 3.8.0: ``ClusterBlock`` (number and description of a block),
``NoShardAvailableActionException``, ``UnavailableShardsException``, ``BackendRegistry`` and ``SecurityFilter`` of the
security plugin; those of protections stand in :mod:`chaos.opensearch.protections`. An error of several is what comes
first of its causes and is known here. Of a bulk it is that of its first failed document.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum

from chaos.history import cancelled
from chaos.opensearch import protections


class Failure(IntEnum):
    """Why a request was not answered in full. The numbers are written to disk."""

    NONE = 0
    """It did not fail, or its reason was not recorded."""
    OTHER = 1
    """None of the following."""

    # no answer, or none that can be read
    CONNECTION_REFUSED = 10
    UNREACHABLE = 11
    NOT_TRUSTED = 12
    CONNECTION_RESET = 13
    CONNECT_TIMEOUT = 14
    TIMEOUT = 15
    GARBLED = 16
    WRONG = 17
    DRIVER = 18

    # no node or shard could take it
    NO_SHARD = 30
    PRIMARY_NOT_ACTIVE = 31
    SHARD_NOT_READY = 32
    NO_CLUSTER_MANAGER = 33
    STATE_NOT_RECOVERED = 34
    NODE_CONNECTION_LOST = 35
    CLUSTER_MANAGER_BUSY = 36
    SECURITY_NOT_INITIALISED = 37
    GATEWAY = 38
    DISK_FULL = 39

    # a protection refused or cancelled it
    ADMISSION_CONTROL = 50
    INDEXING_PRESSURE = 51
    SHARD_INDEXING_PRESSURE = 52
    SEGMENT_REPLICATION_BACKPRESSURE = 53
    REMOTE_STORE_PRESSURE = 54
    THREAD_POOL_QUEUE = 55
    CIRCUIT_BREAKER = 56
    SEARCH_BACKPRESSURE = 57
    WORKLOAD_MANAGEMENT = 58
    CANCELLED_AFTER_TIME = 59
    CANCELLED_BY_REQUEST = 60
    CANCELLED = 61
    OTHER_REJECTION = 62
    SEARCH_LIMIT = 63

    # the cluster, its index or its rights forbid it
    BLOCKED_BY_DISK = 70
    BLOCKED = 71
    INDEX_CLOSED = 72
    NOT_AUTHENTICATED = 73
    NOT_PERMITTED = 74

    # it was answered, and not in full
    SEARCH_TIMED_OUT = 80
    DOCUMENT_MISSING = 81
    CONTEXT_LOST = 82
    COPY_FAILED = 83

    # of the request itself
    CONFLICT = 90
    INDEX_MISSING = 91
    INVALID_REQUEST = 92

    @property
    def label(self) -> str:
        """Its name on disk for other programs: findings.json, exported metrics and documents."""
        return self.name.lower()


WORDS: dict[Failure, str] = {
    Failure.NONE: "not recorded",
    Failure.OTHER: "another reason",
    Failure.CONNECTION_REFUSED: "connection refused",
    Failure.UNREACHABLE: "host or network unreachable",
    Failure.NOT_TRUSTED: "certificate not trusted",
    Failure.CONNECTION_RESET: "connection closed or reset before an answer",
    Failure.CONNECT_TIMEOUT: "no connection in time",
    Failure.TIMEOUT: "no answer in time",
    Failure.GARBLED: "unreadable answer",
    Failure.WRONG: "wrong answer",
    Failure.DRIVER: "not sent: the load driver had no capacity",
    Failure.NO_SHARD: "no shard available",
    Failure.PRIMARY_NOT_ACTIVE: "primary shard not active in time",
    Failure.SHARD_NOT_READY: "shard not started, or closed",
    Failure.NO_CLUSTER_MANAGER: "no cluster manager",
    Failure.STATE_NOT_RECOVERED: "cluster state not recovered",
    Failure.NODE_CONNECTION_LOST: "node gone, or connection between nodes lost",
    Failure.CLUSTER_MANAGER_BUSY: "cluster manager too busy",
    Failure.SECURITY_NOT_INITIALISED: "security not initialised",
    Failure.GATEWAY: "5xx that is no answer of OpenSearch",
    Failure.DISK_FULL: "no space left on a node's disk",
    Failure.ADMISSION_CONTROL: "refused by admission control",
    Failure.INDEXING_PRESSURE: "refused by indexing pressure",
    Failure.SHARD_INDEXING_PRESSURE: "refused by shard indexing pressure",
    Failure.SEGMENT_REPLICATION_BACKPRESSURE: "refused by backpressure of segment replication",
    Failure.REMOTE_STORE_PRESSURE: "refused by remote store pressure",
    Failure.THREAD_POOL_QUEUE: "refused by a full thread pool queue",
    Failure.CIRCUIT_BREAKER: "refused by a circuit breaker",
    Failure.SEARCH_BACKPRESSURE: "cancelled by search backpressure",
    Failure.WORKLOAD_MANAGEMENT: "refused by workload management",
    Failure.CANCELLED_AFTER_TIME: "cancelled after its time",
    Failure.CANCELLED_BY_REQUEST: "cancelled by request",
    Failure.CANCELLED: "cancelled, not told by whom",
    Failure.OTHER_REJECTION: "refused as too much, by what is not told",
    Failure.SEARCH_LIMIT: "a limit of searches was reached: scrolls, contexts or buckets",
    Failure.BLOCKED_BY_DISK: "index blocked by the flood stage of a disk",
    Failure.BLOCKED: "blocked by a setting of the index or cluster",
    Failure.INDEX_CLOSED: "index closed",
    Failure.NOT_AUTHENTICATED: "not authenticated",
    Failure.NOT_PERMITTED: "not permitted",
    Failure.SEARCH_TIMED_OUT: "search timed out inside the cluster",
    Failure.DOCUMENT_MISSING: "answer lacks documents that must be there",
    Failure.CONTEXT_LOST: "search context lost",
    Failure.COPY_FAILED: "a copy did not take the write",
    Failure.CONFLICT: "version conflict",
    Failure.INDEX_MISSING: "index missing",
    Failure.INVALID_REQUEST: "request refused as invalid",
}
"""Each for people, as it stands in a report."""

OF_PROTECTION: dict[str, Failure] = {
    "search backpressure": Failure.SEARCH_BACKPRESSURE,
    "admission control": Failure.ADMISSION_CONTROL,
    "indexing pressure": Failure.INDEXING_PRESSURE,
    "shard indexing pressure": Failure.SHARD_INDEXING_PRESSURE,
    "task throttling of the cluster manager": Failure.CLUSTER_MANAGER_BUSY,
    "backpressure of segment replication": Failure.SEGMENT_REPLICATION_BACKPRESSURE,
    "queues of thread pools": Failure.THREAD_POOL_QUEUE,
    "circuit breakers": Failure.CIRCUIT_BREAKER,
    "remote store pressure": Failure.REMOTE_STORE_PRESSURE,
    "cancellation after a time": Failure.CANCELLED_AFTER_TIME,
    "disk watermarks": Failure.BLOCKED_BY_DISK,
}
"""The protections whose errors are told apart, by their names in the catalogue."""

_BLOCK = re.compile(r"\[[A-Z_]+/(\d+)/")
_OF_BLOCK = {
    1: Failure.STATE_NOT_RECOVERED,
    2: Failure.NO_CLUSTER_MANAGER,
    4: Failure.INDEX_CLOSED,
    12: Failure.BLOCKED_BY_DISK,
    13: Failure.BLOCKED_BY_DISK,
}
"""Blocks by their number (``ClusterBlock.id``). 12 and 13 are what the flood stage of a disk sets, with status 429 and
its name in the text; set by hand they are the same."""

_OF_TYPE = {
    "no_shard_available_action_exception": Failure.NO_SHARD,
    "unavailable_shards_exception": Failure.PRIMARY_NOT_ACTIVE,
    "no_node_available_exception": Failure.NODE_CONNECTION_LOST,
    "illegal_index_shard_state_exception": Failure.SHARD_NOT_READY,
    "index_shard_not_started_exception": Failure.SHARD_NOT_READY,
    "index_shard_recovering_exception": Failure.SHARD_NOT_READY,
    "index_shard_closed_exception": Failure.SHARD_NOT_READY,
    "shard_not_found_exception": Failure.SHARD_NOT_READY,
    "shard_not_in_primary_mode_exception": Failure.SHARD_NOT_READY,
    "already_closed_exception": Failure.SHARD_NOT_READY,
    "alreadyclosed_exception": Failure.SHARD_NOT_READY,
    "cluster_manager_not_discovered_exception": Failure.NO_CLUSTER_MANAGER,
    "master_not_discovered_exception": Failure.NO_CLUSTER_MANAGER,
    "not_cluster_manager_exception": Failure.NO_CLUSTER_MANAGER,
    "not_master_exception": Failure.NO_CLUSTER_MANAGER,
    "failed_to_commit_cluster_state_exception": Failure.NO_CLUSTER_MANAGER,
    "process_cluster_event_timeout_exception": Failure.CLUSTER_MANAGER_BUSY,
    "cluster_manager_throttling_exception": Failure.CLUSTER_MANAGER_BUSY,
    "node_disconnected_exception": Failure.NODE_CONNECTION_LOST,
    "node_not_connected_exception": Failure.NODE_CONNECTION_LOST,
    "node_closed_exception": Failure.NODE_CONNECTION_LOST,
    "connect_transport_exception": Failure.NODE_CONNECTION_LOST,
    "send_request_transport_exception": Failure.NODE_CONNECTION_LOST,
    "receive_timeout_transport_exception": Failure.NODE_CONNECTION_LOST,
    "transport_exception": Failure.NODE_CONNECTION_LOST,
    "circuit_breaking_exception": Failure.CIRCUIT_BREAKER,
    "index_closed_exception": Failure.INDEX_CLOSED,
    "search_context_missing_exception": Failure.CONTEXT_LOST,
    "too_many_buckets_exception": Failure.SEARCH_LIMIT,
    "version_conflict_engine_exception": Failure.CONFLICT,
    "index_not_found_exception": Failure.INDEX_MISSING,
}
_FLOOD = "flood-stage watermark"
_SECURITY = "security not initialized"
_NO_SPACE = "No space left on device"
_TOO_MANY_CONTEXTS = ("too many scroll contexts", "too many Point In Time contexts")
_CONTEXT_GONE = re.compile(r"^(scroll_id references node \[|node \[[^\]]*\] is not available$)")
"""Of a scroll whose node has left: 400 in 3.x, 500 in 2.19."""
_CONTENDED = "is already contended"
"""Of workload management: ``WorkloadGroupService`` (3.x), ``QueryGroupService`` (2.19)."""
_WHOLE_SEARCH = ("search_phase_execution_exception", "all shards failed")


def of_answer(status: int, told: Sequence[tuple[str, str]]) -> Failure:
    """Why an answer failed. ``status``: HTTP; ``told``: (type, reason) of its errors, those that cause others first."""
    for type_, reason in told:
        if (known := _of_error(status, type_, reason)) is not None:
            return known
    return _of_status(status, told)


def _of_error(status: int, type_: str, reason: str) -> Failure | None:
    """What one error says; None for one that is not known here."""
    if _SECURITY in reason.lower():
        return Failure.SECURITY_NOT_INITIALISED
    if type_ == "cluster_block_exception":
        return _of_block(reason)
    if type_ == cancelled.TYPE:
        return _of_cancellation(reason)
    if type_ == "security_exception":
        return Failure.NOT_AUTHENTICATED if status == 401 else Failure.NOT_PERMITTED
    if type_ == protections.REJECTED:
        return _of_rejection(reason)
    if _CONTEXT_GONE.match(reason):
        return Failure.CONTEXT_LOST
    return Failure.DISK_FULL if _NO_SPACE in reason else _OF_TYPE.get(type_)


def _of_block(reason: str) -> Failure:
    if _FLOOD in reason:
        return Failure.BLOCKED_BY_DISK
    numbers = [int(number) for number in _BLOCK.findall(reason)]
    return next((_OF_BLOCK[number] for number in numbers if number in _OF_BLOCK), Failure.BLOCKED)


def _of_cancellation(reason: str) -> Failure:
    if "Cancellation timeout of" in reason:
        return Failure.CANCELLED_AFTER_TIME
    who = cancelled.by(reason)
    if who is cancelled.By.REQUEST:
        return Failure.CANCELLED_BY_REQUEST
    exceeded = "usage exceeded" in reason or "elapsed time exceeded" in reason
    return Failure.SEARCH_BACKPRESSURE if exceeded else Failure.CANCELLED


def _of_rejection(reason: str) -> Failure:
    if _CONTENDED in reason:
        return Failure.WORKLOAD_MANAGEMENT
    if any(words in reason for words in _TOO_MANY_CONTEXTS):
        return Failure.SEARCH_LIMIT
    for each in protections.EVERY:
        if each.error is not None and each.error.type == protections.REJECTED and each.error.text in reason:
            return OF_PROTECTION[each.name]
    return Failure.OTHER_REJECTION


def _of_status(status: int, told: Sequence[tuple[str, str]]) -> Failure:
    """By the status, where no error is known."""
    if status == 503 and _WHOLE_SEARCH in told:  # OpenSearch leaves out the failures of shards without a copy
        return Failure.NO_SHARD
    if status >= 500:
        return Failure.GATEWAY if not any(type_ for type_, _ in told) else Failure.OTHER
    return {401: Failure.NOT_AUTHENTICATED, 403: Failure.NOT_PERMITTED, 409: Failure.CONFLICT}.get(
        status,
        Failure.OTHER_REJECTION if status == 429 else Failure.INVALID_REQUEST if status >= 400 else Failure.OTHER,
    )
