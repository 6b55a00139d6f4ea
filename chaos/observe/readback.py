"""The final read-back: every document that is there, with its content, from every live copy of its shard.

Each copy is read on the node that holds it (``preference=_shards:n|_only_local``: zone weights forbid naming nodes,
but not this), over the direct path, after a refresh, with search_after over (seq, check). A document that no live
copy has is *lost*; one that only some have is *diverged*; one whose shard has no live copy is *unavailable*: nobody
knows yet. Unless every node of the topology is in the cluster and none has any data of that shard on its disk
(``_shard_stores``): then the shard is *destroyed*, and what had been acknowledged in it is lost.

All documents of a copy are enumerated, not only those that are looked for. So a document is *recovered* when its
write had no clear answer (that is allowed), *resurrected* when its write had been refused for sure, *unexpected* when
nobody ever sent it, *duplicated* when a copy holds an id more than once or counts more documents than it has ids.

Copies are only compared when they had time to become equal: with segment replication a replica takes the primary's
segments after the refresh, and a write that was still under way may arrive late. What differs is read again after
pauses, and only what still differs has *diverged*.

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
from chaos.load.workload import check_of
from chaos.netsock import UNREADABLE
from chaos.observe.cluster import ShardCopy, administer, newest, views
from chaos.observe.written import Written
from chaos.routing import shard_of

PAGE = 5000
NAMED = 1000
"""How many ids of each kind are written out; the counts are always exact."""
AGAIN_S = (2.0, 5.0, 10.0)
"""Pauses before copies that differ are read again."""


@dataclass
class CopyRead:
    """One copy of one shard as it was read.

    ``twice``: ids that came more than once. ``total``: how many documents the copy counts. ``keys``: value, seq_no
    and primary term of each key of compare-and-set.
    """

    copy: ShardCopy
    ids: set[str] = field(default_factory=set)
    wrong: set[str] = field(default_factory=set)
    error: str | None = None
    twice: set[str] = field(default_factory=set)
    total: int | None = None
    keys: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    @property
    def surplus(self) -> int:
        """Documents more than ids."""
        return max(len(self.twice), (self.total or 0) - len(self.ids))

    def to_json(self) -> dict[str, Any]:
        return {
            "shard": self.copy.shard,
            "node": self.copy.node,
            "primary": self.copy.primary,
            "state": self.copy.state,
            "docs": len(self.ids),
            "counted": self.total,
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
        "&filter_path=_shards,timed_out,hits.total,hits.hits._id,hits.hits.fields,hits.hits.sort,"
        "hits.hits._seq_no,hits.hits._primary_term"
    )
    try:
        while True:
            body: dict[str, Any] = {
                "size": PAGE,
                "sort": ["seq", "check"],
                "_source": False,
                "track_total_hits": after is None,
                "docvalue_fields": ["check"],
                "seq_no_primary_term": True,
            }
            if after is not None:
                body["search_after"] = after
            status, answer = client.request("POST", path, body=body)
            if status != 200 or answer.get("timed_out") or answer["_shards"]["successful"] != 1:
                result.error = f"status {status}: {str(answer)[:200]}"
                return result
            hits = answer.get("hits", {}).get("hits", [])
            if after is None:
                result.total = int(answer["hits"]["total"]["value"])
            for hit in hits:
                id = hit["_id"]
                if id in result.ids:
                    result.twice.add(id)
                result.ids.add(id)
                seq = hit["sort"][0]
                if hit.get("fields", {}).get("check") != [check_of(id, seq)]:
                    result.wrong.add(id)
                if id.startswith("c-"):
                    result.keys[id] = (int(seq), int(hit["_seq_no"]), int(hit["_primary_term"]))
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
    lab: Lab,
    index: str,
    written: Written | Collection[str],
    says: Callable[[str], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Read every copy and compare; the answer is the content of ``history/readback.json``.

    ``written``: what the load has tried to write, or only the ids that were acknowledged: nothing can be said about
    other documents then.

    Never raises for the cluster's failures: what could not be read makes ``complete`` false, with the reason.
    """
    began = time.monotonic()
    fates = written if isinstance(written, Written) else None
    acknowledged: Collection[str] = written.acknowledged if isinstance(written, Written) else written
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
    reads = _read(lab, live)
    missing = set(range(shards)) - {copy.shard for copy in live}
    destroyed: set[int] = set()
    if missing and seen.nodes >= {node.name for node in lab.topology.nodes}:
        try:
            destroyed = missing - _stored(lab, index)
        except (ChaosError, *UNREADABLE) as error:
            says(f"where the shards' data is on disk cannot be told: {error}")
    result = compare(reads, acknowledged, shards, routing_shards, destroyed, fates=fates)
    for pause in AGAIN_S:
        differing = {shard_of(item["id"], shards, routing_shards) for item in result["diverged"]}
        if not differing:
            break
        says(f"copies of {len(differing)} shards differ: reading them again in {pause:g} s")
        sleep(pause)
        try:
            _refresh(lab, index, patient=False)
        except (ChaosError, *UNREADABLE) as error:
            says(f"no refresh before reading again: {error}")
        again = _read(lab, [copy for copy in live if copy.shard in differing])
        reads = [read for read in reads if read.copy.shard not in differing] + again
        result = compare(reads, acknowledged, shards, routing_shards, destroyed, fates=fates)
    return {**empty, **result, "seconds": round(time.monotonic() - began, 3)}


def _read(lab: Lab, copies: list[ShardCopy]) -> list[CopyRead]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda copy: _read_copy(lab, copy), copies))


def compare(
    reads: list[CopyRead],
    acknowledged: Collection[str],
    shards: int,
    routing_shards: int,
    destroyed: Collection[int] = (),
    *,
    fates: Written | None = None,
) -> dict[str, Any]:
    """Pure: what was read against what had been acknowledged.

    ``destroyed``: shards of which no copy is left anywhere, live or on disk. ``fates``: what became of every write;
    None: not known, and nothing is said about documents that were not acknowledged.
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
    ours = known | fates.open | fates.refused if fates is not None else known
    wrong = sorted(set().union(*(read.wrong for read in reads)) & ours) if reads else []
    unread = [read for read in reads if read.error is not None]
    keys = _keys(reads)
    diverged += [
        {"id": key, "missing_on": [], "values": copies}
        for key, copies in keys.items()
        if len({(each["value"], each["seq_no"], each["primary_term"]) for each in copies}) > 1
    ]
    reason = None
    if unread:
        reason = f"{len(unread)} copies could not be read: {unread[0].error}"
    elif not reads:
        reason = "there was no live copy to read"
    duplicated = [
        {"id": id, "node": read.copy.node, "shard": read.copy.shard} for read in reads for id in sorted(read.twice)
    ]
    duplicated += [
        {"id": None, "node": read.copy.node, "shard": read.copy.shard, "more": read.surplus - len(read.twice)}
        for read in reads
        if read.error is None and read.surplus > len(read.twice)
    ]
    return {
        "complete": reason is None,
        "reason": reason,
        **_beyond(present, known, fates),
        "duplicated": duplicated[:NAMED],
        "duplicated_count": sum(read.surplus if read.error is None else len(read.twice) for read in reads),
        "documents": len(present),
        "cas": keys,
        "watched": _watched(by_shard, fates, shards, routing_shards, destroyed),
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


def _beyond(present: set[str], known: set[str], fates: Written | None) -> dict[str, Any]:
    """Documents that are there without having been acknowledged, by what is known of their writes."""
    if fates is None:
        return {}
    others = present - known
    found = {
        "recovered": others & fates.open,
        "resurrected": others & fates.refused,
        "unexpected": others - fates.open - fates.refused,
    }
    named = {name: sorted(ids)[:NAMED] for name, ids in found.items()}
    return {**named, **{f"{name}_count": len(ids) for name, ids in found.items()}}


def _keys(reads: list[CopyRead]) -> dict[str, list[dict[str, Any]]]:
    """What every copy that was read holds of each key of compare-and-set, primaries first."""
    keys: dict[str, list[dict[str, Any]]] = {}
    for read in sorted(reads, key=lambda read: not read.copy.primary):
        if read.error is None:
            for key, (value, seq_no, term) in read.keys.items():
                here = {"node": read.copy.node, "primary": read.copy.primary}
                keys.setdefault(key, []).append({**here, "value": value, "seq_no": seq_no, "primary_term": term})
    return dict(sorted(keys.items()))


def _watched(
    by_shard: dict[int, list[CopyRead]],
    fates: Written | None,
    shards: int,
    routing_shards: int,
    destroyed: Collection[int],
) -> dict[str, Any]:
    """Which documents of the probes of visibility are on no copy (``absent``), or nobody can tell (``unknown``).

    They are named in full: whether a read was dirty hangs on it.
    """
    absent: list[str] = []
    unknown: list[str] = []
    ids = sorted(fates.probes) if fates is not None else []
    for id in ids:
        shard = shard_of(id, shards, routing_shards)
        here = by_shard.get(shard, [])
        if any(id in read.ids for read in here):
            continue
        sure = shard in destroyed or (here and all(read.error is None for read in here))
        (absent if sure else unknown).append(id)
    return {"count": len(ids), "absent": absent, "unknown": unknown}


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
