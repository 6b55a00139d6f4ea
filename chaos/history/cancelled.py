"""Who cancelled a task of OpenSearch's, by the reason that it gives: for the load driver and the checks alike.

The reasons are OpenSearch's own (3.8.0). ``_tasks/_cancel`` gives ``by user request`` and takes no other reason
(``CancelTasksRequest.DEFAULT_REASON``). The cluster itself cancels for want of resources (search backpressure and
workload groups: ``ElapsedTimeTracker``, ``CpuUsageTracker``, ``HeapUsageTracker``, ``NativeMemoryUsageTracker``), after
``search.cancel_after_time_interval`` (``TimeoutTaskCancellationUtility``), and where a client or a node went away
(``RestCancellableNodeClient``: ``channel closed``). A client that went away reads no answer, so what the load reads of
that is about others. A search whose shards' answers are put together says ``request has been terminated``
(``QueryPhaseResultConsumer``) whatever cancelled it: then it cannot be told.
"""

from __future__ import annotations

from enum import StrEnum

TYPE = "task_cancelled_exception"
BY_REQUEST = "by user request"
BY_ITSELF = (
    "usage exceeded",
    "elapsed time exceeded",
    "Cancellation timeout of",
    "channel closed",
    "channel was closed",
)


class By(StrEnum):
    """Who cancelled."""

    REQUEST = "request"
    """Somebody, through ``_tasks/_cancel``."""
    CLUSTER = "cluster"
    UNKNOWN = "unknown"
    """The reason is none that is known here."""


def by(reason: str | None) -> By:
    """Who gave this reason; None: it was not recorded."""
    if reason is None:
        return By.UNKNOWN
    if BY_REQUEST in reason:
        return By.REQUEST
    return By.CLUSTER if any(words in reason for words in BY_ITSELF) else By.UNKNOWN
