"""Faults that are requests to the cluster itself: settings, storms of requests, answers that nobody reads."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from typing import Any

import urllib3

from chaos.base.errors import FaultError, LabError, NotOurs, said_by_opensearch
from chaos.faults import runaway
from chaos.faults.fault import Grade
from chaos.faults.kinds.cluster_manager import AdminStorm, TaskStorm, storm_prefix
from chaos.faults.kinds.query import RUNAWAY, QueryRunaway
from chaos.faults.kinds.resources import NodeHeapPressure
from chaos.faults.kinds.settings import SettingsChange, said_of
from chaos.faults.moves import Move, Reversible, on_node, operation
from chaos.faults.offers import Aim, Means, Provider
from chaos.faults.storm import Ask, Storm
from chaos.faults.unread import DOCUMENT_BYTES, DOCUMENTS, UnreadAnswers
from chaos.opensearch.administration import (
    Text,
    certain,
    create_index,
    explicit_settings,
    new_owner,
    owners_of,
    reading,
    settings_path,
)
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.requests import marked
from chaos.opensearch.rest import UNREADABLE
from chaos.opensearch.views import administer, await_elected
from chaos.targets.protocol import Lab

PROVIDER = Provider("rest", "requests over the direct path to the nodes", grade=Grade.PATH)
LATER = "(drawn when it is made)"
"""What a plan cannot know of a move."""

# ---- settings -------------------------------------------------------------------------------------------


def to_restore(now: Mapping[str, Text], changed: Mapping[str, Text], before: Mapping[str, Text]) -> dict[str, Text]:
    """What has to be put back: those that are what the fault made of them, and were something else before."""
    return {
        key: before.get(key)
        for key, made in changed.items()
        if now.get(key) == made and now.get(key) != before.get(key)
    }


def taken_over(now: Mapping[str, Text], changed: Mapping[str, Text], before: Mapping[str, Text]) -> dict[str, Text]:
    """What somebody else has changed since: neither as before nor as the fault made it."""
    return {key: now.get(key) for key, made in changed.items() if now.get(key) not in (made, before.get(key))}


def _put(lab: Cluster, index: str | None, settings: Mapping[str, Text]) -> None:
    body = {"persistent": dict(settings)} if index is None else dict(settings)
    status, answer = administer(lab, "PUT", settings_path(index), body, through=await_elected(lab))
    if status != 200:
        why = said_by_opensearch(answer) or str(answer)
        raise FaultError(f"OpenSearch does not take {said_of(settings)}: {status}, {why[:300]}")


def _scoped(index: str | None, values: Mapping[str, Text]) -> dict[tuple[str, str], Text]:
    return {("cluster" if index is None else "index", key): value for key, value in values.items()}


@operation("settings.change", sets=lambda index, settings: _scoped(index, settings))
def change(lab: Cluster, index: str | None, settings: dict[str, Text]) -> None:
    """Set them, on the cluster where ``index`` is None; a value None puts the default back.

    Raises FaultError with OpenSearch's own reason.
    """
    _put(lab, index, settings)


@operation("settings.restore", sets=lambda index, changed, before: _scoped(index, before))
def restore(lab: Cluster, index: str | None, changed: dict[str, Text], before: dict[str, Text]) -> bool:
    """Put back what is unchanged since; whether anything was. Nothing to do for an index that is gone.

    OpenSearch has no compare-and-set for settings: a change within the moment between reading and writing is lost.
    Raises FaultError, after the others have been restored, when somebody else changed one meanwhile.
    """
    await_elected(lab)
    now = certain(lab, lambda: explicit_settings(lab, index))
    if now is None:
        return False
    if mine := to_restore(now, changed, before):
        _put(lab, index, mine)
    if theirs := taken_over(now, changed, before):
        raise FaultError(
            f"not restored, because somebody else has changed it since: {said_of(theirs)} "
            f"(the fault had made it {said_of({key: changed[key] for key in theirs})})",
            remedy=f"set what it was before ({said_of({key: before.get(key) for key in theirs})}) by hand",
        )
    return bool(mine)


@PROVIDER.carries_out(
    SettingsChange,
    mechanism="the settings API; cluster settings as persistent ones",
    undoing="the values that were read before, where they are unchanged since; else undo fails and says so",
)
def settings_change(fault: SettingsChange, aim: Aim) -> Means:
    index, settings = fault.where(aim.scene), fault.full

    def both(before: Any) -> tuple[Reversible, ...]:
        return (
            Reversible(
                Move("settings.change", {"index": index, "settings": settings}),
                Move("settings.restore", {"index": index, "changed": settings, "before": before}),
            ),
        )

    def read(lab: Lab) -> tuple[Reversible, ...]:
        now = certain(lab, lambda: explicit_settings(lab, index))
        if now is None:
            raise FaultError(f"settings.change: there is no index {index}")
        return both({key: now.get(key) for key in settings})

    return Means(both("what is read when it is injected"), read=read)


# ---- storms ---------------------------------------------------------------------------------------------

KEPT = 5
"""How many indices of a storm of them live at once: the older ones are deleted again, which are tasks too."""
PATIENCE = "cluster_manager_timeout=2s&timeout=2s"
"""Of one request of a storm. A task that the cluster manager throttles is sent again by the node that was asked,
after 2.5 to 5 s, also where this time is over by then; and while it is not, again and ever later
(``ClusterManagerTaskThrottler``, ``RetryableAction``, 3.8.0). With less than 2.5 s there is one such retry, and it is
made 7 s after the request at the latest."""
ANSWER_SECONDS = 10.0
"""In which such a request is answered: that retry, and the time in the queue after it."""
MOST_TASKS = 256
"""How many requests of a storm of tasks are under way at once, at most: those that are throttled take up to 7 s."""
QUIET_SECONDS = 8.0
"""More than that retry may be late: requests of a runner that was killed may wait that long in a data node, and be
carried out after everything seemed to be gone (seen with a leader that was paused)."""
ADMIN = {
    "state": "/_cluster/state",
    "health": "/_cluster/health",
    "stats": "/_cluster/stats",
    "nodes": "/_nodes/stats",
    "indices": "/_stats",
    "cat": "/_cat/shards?format=json",
    "mappings": "/_mapping",
    "settings": "/_cluster/settings?include_defaults=true",
    "tasks": "/_tasks",
    "pending": "/_cluster/pending_tasks",
}


def _queued(lab: Cluster, prefix: str, leader: str) -> bool:
    status, answer = administer(lab, "GET", "/_cluster/pending_tasks?local=true", through=leader)
    with reading("the cluster manager's queue"):
        return status == 200 and any(prefix in str(task.get("source")) for task in (answer or {}).get("tasks", ()))


@operation("indices.delete")
def delete_indices(lab: Cluster, prefix: str, owner: str | None = None) -> bool:
    """Delete every index whose name begins so and that was made with this owner (None: every one), those included that
    still wait in the cluster manager's queue; whether there were any.

    By their names: a cluster may refuse wildcards. Raises LabError, and NotOurs, once ours are gone, for others.
    """
    deadline = time.monotonic() + 60.0
    quiet_since: float | None = None
    any_there = False
    while True:
        leader = await_elected(lab)
        owners = owners_of(lab, prefix, leader)
        found = sorted(name for name, whose in owners.items() if owner in (None, whose))
        any_there = any_there or bool(found)
        for first in range(0, len(found), 50):
            names = ",".join(found[first : first + 50])
            status, answer = administer(lab, "DELETE", f"/{names}?ignore_unavailable=true", through=leader)
            if status not in (200, 404):
                raise LabError(f"deleting {names} answered {status}: {str(answer)[:300]}")
        now = time.monotonic()
        if found or _queued(lab, prefix, leader):
            quiet_since = None
        else:
            quiet_since = quiet_since or now
            if now - quiet_since >= QUIET_SECONDS:
                if strange := sorted(set(owners) - set(found)):
                    raise NotOurs(f"{', '.join(strange)} was not made by this run: it is left as it is")
                return any_there
        if now > deadline:
            raise LabError(f"indices {prefix}* still come up 60 s after the storm: {', '.join(found[:5])}")
        time.sleep(0.1)


def canary(lab: Cluster, node: str) -> dict[str, float]:
    """How long one administrative request takes on ``node`` and, through it, on the elected cluster manager."""
    client = lab.client(node, timeout=4.0)
    try:
        began = time.monotonic()
        client.request("GET", "/_cluster/health?cluster_manager_timeout=4s&timeout=4s&filter_path=status")
        took = time.monotonic() - began
        _, answer = client.request("GET", "/_cluster/pending_tasks?cluster_manager_timeout=4s")
        tasks = answer.get("tasks", ()) if isinstance(answer, dict) else ()
        waits = [float(task["time_in_queue_millis"]) for task in tasks]
    except (urllib3.exceptions.HTTPError, *UNREADABLE):
        return {}
    finally:
        client.close()
    return {
        "canary GET /_cluster/health, ms": took * 1000,
        "pending tasks": float(len(waits)),
        "longest wait of a pending task, ms": max(waits, default=0.0),
    }


@PROVIDER.carries_out(
    TaskStorm,
    mechanism="requests to the data nodes over the direct path: updates of a mapping's _meta, or new empty indices",
    undoing="the requests end, and every index of the storm is deleted",
)
def task_storm(fault: TaskStorm, aim: Aim) -> Means:
    prefix, topology = storm_prefix(aim.id), aim.scene.topology
    # as many copies as the load's index has: the storm unbalances nothing, and awareness takes it
    settings = {"number_of_shards": 1, "number_of_replicas": topology.replicas}
    drawn = [LATER]

    def both(owner: str) -> tuple[Reversible, ...]:
        drawn[:] = [owner]
        away = Move("indices.delete", {"prefix": prefix, "owner": owner})
        first = Move("index.create", {"index": f"{prefix}0", "settings": settings, "owner": owner})
        return (Reversible(first if fault.what == "mappings" else Move("nothing"), away),)

    def requests(k: int) -> list[Ask]:
        if fault.what == "mappings":
            return [Ask("PUT", f"/{prefix}0/_mapping?{PATIENCE}", marked({"_meta": {"update": k}}, drawn[0]))]
        body = {"settings": {"index": settings}, "mappings": marked(None, drawn[0])}
        asks = [Ask("PUT", f"/{prefix}{k}?{PATIENCE}&wait_for_active_shards=0", body)]
        if k >= KEPT:
            asks.append(Ask("DELETE", f"/{prefix}{k - KEPT}?{PATIENCE}&ignore_unavailable=true"))
        return asks

    nodes = [node.name for node in topology.data_nodes]
    storm = Storm(
        float(fault.rate),
        nodes,
        requests,
        lambda lab: canary(lab, nodes[0]),
        timeout=ANSWER_SECONDS,
        senders=min(MOST_TASKS, math.ceil(float(fault.rate) * ANSWER_SECONDS)),
    )
    return Means(both(LATER), worker=storm, read=lambda lab: both(new_owner()))


@PROVIDER.carries_out(
    AdminStorm,
    mechanism="GET requests over the direct path, the chosen nodes in turn",
    undoing="the requests end",
)
def admin_storm(fault: AdminStorm, aim: Aim) -> Means:
    nodes = aim.scene.nodes(fault.target)
    # the canary asks another node, where there is one: its own requests must not be counted as the storm's
    beside = next((node.name for node in aim.scene.topology.nodes if node.name not in nodes), nodes[0])
    storm = Storm(
        float(fault.rate),
        nodes,
        # each node gets each kind of request, whatever their numbers have in common
        lambda k: [Ask("GET", ADMIN[fault.requests[(k // len(nodes)) % len(fault.requests)]])],
        lambda lab: canary(lab, beside),
    )
    ends = Move("nothing", {"requests": "end with the runner"})
    return Means((Reversible(ends, ends),), worker=storm)


# ---- a heap full of answers -----------------------------------------------------------------------------

BATCH = 8
"""Documents in a request that fills the index."""


@operation("pressure.index")
def _pressure_index(lab: Cluster, index: str, on: list[str], owner: str | None = None) -> None:
    """An index of large documents, its one shard on one of the nodes ``on`` (anywhere when empty)."""
    settings: dict[str, Any] = {"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "-1"}
    if on:
        settings["routing.allocation.include._name"] = ",".join(on)
    create_index(lab, index, settings, {"enabled": False}, owner=owner)
    document = json.dumps({"text": "x" * DOCUMENT_BYTES})
    for first in range(0, DOCUMENTS, BATCH):
        rows = [f'{{"index": {{"_id": "{n}"}}}}\n{document}\n' for n in range(first, first + BATCH)]
        status, answer = administer(lab, "POST", f"/{index}/_bulk", "".join(rows))
        if status != 200 or answer.get("errors"):
            raise LabError(f"filling the index {index} answered {status}: {str(answer)[:300]}")
    status, answer = administer(lab, "POST", f"/{index}/_refresh")
    if status != 200:
        raise LabError(f"refreshing the index {index} answered {status}: {str(answer)[:300]}")


@PROVIDER.carries_out(
    NodeHeapPressure,
    mechanism="searches on an index of its own, sent to the node itself, whose answers of up to 8 MiB the client does "
    "not read: they stay on the heap",
    undoing="the connections close, the index is deleted, and a node that died of it starts again",
)
def heap_pressure(fault: NodeHeapPressure, aim: Aim) -> Means:
    data = {node.name for node in aim.scene.topology.data_nodes}
    index = f"oschaos-pressure-{aim.id}".lower()
    # a node without data answers all the same: it gathers the answer from the node that has the shard
    on = [node for node in aim.nodes if node in data]

    def filled(owner: str) -> Reversible:
        made = {"index": index, "owner": owner}
        return Reversible(Move("pressure.index", {**made, "on": on}), Move("index.delete", made))

    started = tuple(on_node("nothing", "node.start", node) for node in aim.nodes)
    return Means(
        (*started, filled(LATER)),
        worker=UnreadAnswers(aim.nodes, index, float(fault.above)),
        read=lambda lab: (*(() if lab.lacks("process") else started), filled(new_owner())),
    )


# ---- queries that run away ------------------------------------------------------------------------------

AT_ONCE = 1_000
"""Documents in a request that fills the index, and in a segment. A search asks whether it was cancelled before each
segment, then after 2,048 documents of it, 4,096 more, and so on (3.8.0, ``CancellableBulkScorer``): in an index of one
segment it may go on for most of its time."""
UNMERGED = {"merge.policy.segments_per_tier": 100}


@operation("runaway.index")
def _runaway_index(lab: Cluster, index: str, replicas: int, owner: str | None = None) -> None:
    """An index of many small documents in one shard."""
    settings = {"number_of_shards": 1, "number_of_replicas": replicas, **UNMERGED}
    create_index(lab, index, settings, {"enabled": False}, owner=owner)
    for first in range(0, runaway.DOCUMENTS, AT_ONCE):
        rows = "".join(f'{{"index": {{"_id": "{n}"}}}}\n{{}}\n' for n in range(first, first + AT_ONCE))
        status, answer = administer(lab, "POST", f"/{index}/_bulk?refresh=true", rows)
        if status != 200 or answer.get("errors"):
            raise LabError(f"filling the index {index} answered {status}: {str(answer)[:300]}")


CANCEL_SECONDS = 60.0


@operation("searches.cancel")
def cancel_searches(lab: Cluster, index: str) -> bool:
    """Cancel every search of an index, by its task; whether there were any. A node that does not tell may be dead, and
    its searches with it. Raises LabError where they go on for a minute."""
    deadline, any_there = time.monotonic() + CANCEL_SECONDS, False
    while left := runaway.cancel(lab, index):
        any_there = True
        if time.monotonic() > deadline:
            raise LabError(f"{left} searches of {index} go on {CANCEL_SECONDS:g} s after they were cancelled")
        time.sleep(0.2)
    return any_there


@PROVIDER.carries_out(
    QueryRunaway,
    mechanism="searches over the direct path, with a script that loops for each document of an index of its own",
    undoing="no more are sent, those that run are cancelled by their tasks, and the index is deleted",
)
def query_runaway(fault: QueryRunaway, aim: Aim) -> Means:
    index, replicas = f"{RUNAWAY}{aim.id}".lower(), aim.scene.topology.replicas

    def both(owner: str) -> tuple[Reversible, ...]:
        made = {"index": index, "owner": owner}
        filled = Reversible(Move("runaway.index", {**made, "replicas": replicas}), Move("index.delete", made))
        sent = {"index": index}
        return (filled, Reversible(Move("nothing", sent), Move("searches.cancel", sent)))

    worker = runaway.Runaway(aim.scene.nodes(fault.target), index, fault.queries, fault.rounds, fault.every)
    return Means(both(LATER), in_order=True, worker=worker, read=lambda lab: both(new_owner()))
