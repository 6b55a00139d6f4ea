"""The final read-back: every acknowledged document, with its content, from every live copy of its shard.

Each copy is read on the node that holds it (``preference=_shards:n|_only_local``: zone weights forbid naming nodes,
but not this), over the direct path, after a refresh, with search_after over (seq, check). A document that no live
copy has is *lost*; one that only some have is *diverged*; one whose shard has no live copy is *unavailable*: nobody
knows yet. Unless every node of the topology is in the cluster and none has any data of that shard on its disk
(``_shard_stores``): then the shard is *destroyed*, and what had been acknowledged in it is lost.

Which shard an id belongs to follows OpenSearch's routing (:mod:`chaos.routing`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import urllib3

from chaos.errors import ChaosError, LabError
from chaos.lab.protocol import Lab
from chaos.load.workload import check_value
from chaos.observe.cluster import ShardCopy, administer, newest, views
from chaos.routing import shard_of

PAGE = 5000
NAMED = 1000
"""How many ids of each kind are written out; the counts are always exact."""
UNREADABLE = (LookupError, TypeError, ValueError, AttributeError)
"""What an answer of another shape than expected ends in."""


@dataclass
class CopyRead:
    """One copy of one shard as it was read."""

    copy: ShardCopy
    ids: set[str] = field(default_factory=set)
    wrong: set[str] = field(default_factory=set)
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "shard": self.copy.shard,
            "node": self.copy.node,
            "primary": self.copy.primary,
            "state": self.copy.state,
            "docs": len(self.ids),
            "read": self.error is None,
            "error": self.error,
        }


def _read_copy(lab: Lab, copy: ShardCopy) -> CopyRead:
    """All ids of one copy, content checked."""
    assert copy.node is not None
    result = CopyRead(copy)
    client = lab.client(copy.node, timeout=30.0)
    after: list[Any] | None = None
    path = (
        f"/{copy.index}/_search?preference=_shards:{copy.shard}%7C_only_local&allow_partial_search_results=false"
        "&filter_path=_shards,timed_out,hits.hits._id,hits.hits.fields,hits.hits.sort"
    )
    try:
        while True:
            body: dict[str, Any] = {
                "size": PAGE,
                "sort": ["seq", "check"],
                "_source": False,
                "track_total_hits": False,
                "docvalue_fields": ["check"],
            }
            if after is not None:
                body["search_after"] = after
            status, answer = client.request("POST", path, body=body)
            if status != 200 or answer.get("timed_out") or answer["_shards"]["successful"] != 1:
                result.error = f"status {status}: {str(answer)[:200]}"
                return result
            hits = answer.get("hits", {}).get("hits", [])
            for hit in hits:
                id = hit["_id"]
                result.ids.add(id)
                if hit["fields"]["check"][0] != check_value(id):
                    result.wrong.add(id)
            if len(hits) < PAGE:
                return result
            after = hits[-1]["sort"]
    except urllib3.exceptions.HTTPError as error:
        result.error = str(error)
        return result
    except UNREADABLE as error:
        result.error = f"an answer that cannot be read: {type(error).__name__} {error}"
        return result
    finally:
        client.close()


def read_back(
    lab: Lab, index: str, acknowledged: Collection[str], says: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Read every copy and compare; the answer is the content of ``history/readback.json``.

    Never raises for the cluster's failures: what could not be read makes ``complete`` false, with the reason.
    """
    began = time.monotonic()
    empty: dict[str, Any] = {
        "format": 1,
        "complete": False,
        "reason": None,
        "index": index,
        "acknowledged": len(acknowledged),
    }
    try:
        seen = newest(views(lab))
        if seen is None:
            return {**empty, "reason": "no node sees an elected cluster manager"}
        _refresh(lab, index, patient=seen.status != "red")
        shards, routing_shards = _routing(lab, index)
        _check_routing(lab, index, shards, routing_shards, sorted(acknowledged)[:30])
    except (ChaosError, *UNREADABLE) as error:
        return {**empty, "reason": f"{type(error).__name__}: {error}"}
    live = [c for c in seen.copies if c.index == index and c.state in ("STARTED", "RELOCATING") and c.node]
    says(f"reading {len(acknowledged)} acknowledged documents back from {len(live)} copies")
    with ThreadPoolExecutor(2) as pool:
        reads = list(pool.map(lambda copy: _read_copy(lab, copy), live))
    missing = set(range(shards)) - {copy.shard for copy in live}
    destroyed: set[int] = set()
    if missing and seen.nodes >= {node.name for node in lab.topology.nodes}:
        try:
            destroyed = missing - _stored(lab, index)
        except (ChaosError, *UNREADABLE) as error:
            says(f"where the shards' data is on disk cannot be told: {error}")
    result = compare(reads, acknowledged, shards, routing_shards, destroyed)
    return {**empty, **result, "seconds": round(time.monotonic() - began, 3)}


def compare(
    reads: list[CopyRead],
    acknowledged: Collection[str],
    shards: int,
    routing_shards: int,
    destroyed: Collection[int] = (),
) -> dict[str, Any]:
    """Pure: what was read against what had been acknowledged.

    ``destroyed``: shards of which no copy is left anywhere, live or on disk.
    """
    by_shard: dict[int, list[CopyRead]] = {}
    for read in reads:
        by_shard.setdefault(read.copy.shard, []).append(read)
    lost: list[str] = []
    diverged: list[dict[str, Any]] = []
    unavailable_count = 0
    for id in sorted(acknowledged):
        shard = shard_of(id, shards, routing_shards)
        if shard in destroyed:
            lost.append(id)
            continue
        here = by_shard.get(shard, [])
        answered = [read for read in here if read.error is None]
        if not answered:
            unavailable_count += 1
            continue
        missing = [read.copy.node for read in answered if id not in read.ids]
        if len(missing) == len(answered):
            if len(answered) < len(here):
                unavailable_count += 1  # a copy that could not be read may still have it
            else:
                lost.append(id)
        elif missing:
            diverged.append({"id": id, "missing_on": missing})
    known = set(acknowledged)
    present = set().union(*(read.ids for read in reads)) if reads else set()
    wrong = sorted(set().union(*(read.wrong for read in reads)) & known) if reads else []
    unread = [read for read in reads if read.error is not None]
    return {
        "complete": not unread,
        "reason": f"{len(unread)} copies could not be read: {unread[0].error}" if unread else None,
        "copies": [read.to_json() for read in reads],
        "lost": lost[:NAMED],
        "lost_count": len(lost),
        "diverged": diverged[:NAMED],
        "diverged_count": len(diverged),
        "wrong_content": wrong[:NAMED],
        "wrong_content_count": len(wrong),
        "unavailable_count": unavailable_count,
        "unavailable_shards": sorted(set(range(shards)) - set(by_shard) - set(destroyed)),
        "destroyed_shards": sorted(destroyed),
        "unacknowledged_present": len(present - known),
    }


def _refresh(lab: Lab, index: str, *, patient: bool) -> None:
    """Make everything visible to searches. Not ``patient``: some shard has no primary.

    A refresh waits a minute for each shard without a primary; the others have refreshed long before, so a red
    cluster gets a few seconds.
    """
    try:
        status, answer = administer(lab, "POST", f"/{index}/_refresh", timeout=60 if patient else 5)
    except LabError:
        if patient:
            raise
        return
    if status != 200 or (patient and answer["_shards"]["failed"]):
        raise LabError(f"refresh answered {status}: {str(answer)[:200]}")


def _routing(lab: Lab, index: str) -> tuple[int, int]:
    """Number of shards and of routing shards, from the index's metadata."""
    status, answer = administer(
        lab,
        "GET",
        f"/_cluster/state/metadata/{index}?filter_path=metadata.indices.*.settings.index.number_of_shards,"
        "metadata.indices.*.routing_num_shards",
    )
    if status != 200:
        raise LabError(f"the index metadata answered {status}")
    metadata = answer["metadata"]["indices"][index]
    return int(metadata["settings"]["index"]["number_of_shards"]), int(metadata["routing_num_shards"])


def _stored(lab: Lab, index: str) -> set[int]:
    """The shards of which some node has data on its disk, usable or not."""
    status, answer = administer(lab, "GET", f"/{index}/_shard_stores?status=all")
    if status != 200:
        raise LabError(f"_shard_stores answered {status}")
    if answer.get("failures"):
        raise LabError(f"some nodes could not be asked for their shard stores: {str(answer['failures'])[:200]}")
    shards = answer["indices"].get(index, {}).get("shards", {})
    return {int(shard) for shard, group in shards.items() if group["stores"]}


def _check_routing(lab: Lab, index: str, shards: int, routing_shards: int, ids: list[str]) -> None:
    """Our idea of the routing against the cluster's own, on the first three ids whose shard is there."""
    agreed = 0
    for id in ids:
        status, answer = administer(lab, "GET", f"/{index}/_search_shards?routing={id}")
        if status != 200:
            raise LabError(f"_search_shards answered {status}")
        copies = [copy for group in answer.get("shards", []) for copy in group]
        if not copies:
            continue  # a shard without a live copy
        theirs, ours = copies[0]["shard"], shard_of(id, shards, routing_shards)
        if theirs != ours:
            raise LabError(f"document {id} is routed to shard {theirs}, not {ours}: the routing formula is wrong")
        agreed += 1
        if agreed == 3:
            return
