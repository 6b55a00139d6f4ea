"""The final read-back: every document that is there, with its content, from every live copy of its shard.

Each copy is read on the node that holds it, over the direct path, after a refresh (:mod:`chaos.observe.copies`). A
document that no live
copy has is *lost*; one that only some have is *diverged*; one whose shard has no live copy is *unavailable*: nobody
knows yet. Unless every node of the topology is in the cluster and none has any data of that shard on its disk
(``_shard_stores``): then the shard is *destroyed*, and what had been acknowledged in it is lost.

All documents of a copy are enumerated, not only those that are looked for. So a document is *recovered* when its
write had no clear answer, which is allowed. It is *resurrected* when its write had been refused for sure, *unexpected*
when nobody ever sent it. It is *duplicated* when a copy holds an id more than once or counts more documents than ids.

A document of ours that is there must be right, whether it was acknowledged or not: in its source, in what was indexed
from it, and in its doc values, on every copy (:mod:`chaos.observe.contents`). Source and index are compared for all
documents of a shard up to :data:`~chaos.observe.contents.WHOLE`, beyond it for a sample that is drawn with the run's
seed, the same on every copy. What is wrong is told with the copies on which it is, and those on which it is right.

Copies are only compared when they had time to become equal: with segment replication a replica takes the primary's
segments after the refresh, and a write that was still under way may arrive late. What differs or is wrong is read
again after pauses, and only what still is has *diverged* or is wrong.

Which shard an id belongs to follows OpenSearch's routing (:mod:`chaos.opensearch.routing`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from chaos.base.errors import ChaosError, LabError
from chaos.base.ids import is_key, is_ours
from chaos.load import workloads
from chaos.load.workload import Workload
from chaos.observe.contents import WAYS, WHOLE, Contents, chosen, look_inside
from chaos.observe.copies import CopySearch, NotRead
from chaos.observe.written import Written
from chaos.opensearch.rest import UNREADABLE
from chaos.opensearch.routing import shard_of
from chaos.opensearch.views import ShardCopy, administer, newest, views
from chaos.targets.protocol import Lab

PAGE = 5000
NAMED = 1000
"""How many ids of each kind are written out; the counts are always exact."""
AGAIN_S = (2.0, 5.0, 10.0)
"""Pauses before copies that differ, or could not be read, are read again: a node joins before it answers HTTP."""


@dataclass(eq=False)
class CopyRead:
    """One copy of one shard as it was read.

    ``twice``: ids that came more than once. ``total``: how many documents the copy counts. ``keys``: value, seq_no
    and primary term of each key of compare-and-set. ``inside``: whether its documents are right.
    """

    copy: ShardCopy
    ids: set[str] = field(default_factory=set)
    error: str | None = None
    twice: set[str] = field(default_factory=set)
    total: int | None = None
    keys: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    inside: Contents = field(default_factory=Contents)

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
            "wanted": self.inside.wanted,
            "compared": len(self.inside.compared),
            "phrases": self.inside.phrases,
            "content_error": self.inside.error,
        }


def _read_copy(lab: Lab, copy: ShardCopy, workload: Workload, wanted: Collection[str] = (), seed: int = 0) -> CopyRead:
    """All ids of one copy with their doc values, and the whole content of the documents ``wanted``."""
    result = CopyRead(copy, inside=Contents(workload))
    searched = CopySearch(lab, copy, (workload.value, workload.unique))
    asked = {"_source": False, "docvalue_fields": list(workload.fields), "seq_no_primary_term": True}
    try:
        for page in searched.pages(asked, PAGE):
            result.total = page.total if page.total is not None else result.total
            for hit in page.hits:
                id = hit["_id"]
                if id in result.ids:
                    result.twice.add(id)
                result.ids.add(id)
                result.inside.numbers(id, hit.get("fields", {}))
                if is_key(id):
                    result.keys[id] = (int(hit["sort"][0]), int(hit["_seq_no"]), int(hit["_primary_term"]))
        look_inside(searched, result.ids, wanted, result.inside, seed)
    except NotRead as error:
        result.error = str(error)
    except UNREADABLE as error:
        result.error = f"an answer that cannot be read: {type(error).__name__} {error}"
    finally:
        searched.close()
    return result


def read_back(
    lab: Lab,
    index: str,
    written: Written | Collection[str],
    says: Callable[[str], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
    *,
    seed: int = 0,
    workload: Workload | None = None,
) -> dict[str, Any]:
    """Read every copy and compare; the answer is the content of ``history/readback.json``.

    ``written``: what the load has tried to write, or only the ids that were acknowledged: nothing can be said about
    other documents then. ``seed``: of the run; it draws the sample where there are too many documents. ``workload``:
    what the documents must be; None: those of experiments that name no other.

    Never raises for the cluster's failures: what could not be read makes ``complete`` false, with the reason.
    """
    began = time.monotonic()
    workload = workload or workloads.named(workloads.DEFAULT)
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
    wanted = chosen(_ours(acknowledged, fates), shards, routing_shards, seed)
    reads = _read(lab, live, workload, wanted, seed)
    missing = set(range(shards)) - {copy.shard for copy in live}
    destroyed: set[int] = set()
    if missing and seen.nodes >= {node.name for node in lab.topology.nodes}:
        try:
            destroyed = missing - _stored(lab, index)
        except (ChaosError, *UNREADABLE) as error:
            says(f"where the shards' data is on disk cannot be told: {error}")
    result = compare(reads, acknowledged, shards, routing_shards, destroyed, fates=fates, seed=seed)
    for pause in AGAIN_S:
        odd = [*(item["id"] for item in result["diverged"]), *result["wrong_content"]]
        differing = {shard_of(id, shards, routing_shards) for id in odd}
        differing |= {read.copy.shard for read in reads if read.error is not None}
        if not differing:
            break
        says(f"{len(differing)} shards have copies that differ, are wrong or unread: reading them again in {pause:g} s")
        sleep(pause)
        try:
            _refresh(lab, index, patient=False)
        except (ChaosError, *UNREADABLE) as error:
            says(f"no refresh before reading again: {error}")
        again = _read(lab, [copy for copy in live if copy.shard in differing], workload, wanted, seed)
        reads = [read for read in reads if read.copy.shard not in differing] + again
        result = compare(reads, acknowledged, shards, routing_shards, destroyed, fates=fates, seed=seed)
    return {**empty, **result, "seconds": round(time.monotonic() - began, 3)}


def _read(
    lab: Lab, copies: list[ShardCopy], workload: Workload, wanted: dict[int, set[str]], seed: int
) -> list[CopyRead]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda copy: _read_copy(lab, copy, workload, wanted.get(copy.shard, ()), seed), copies))


def _ours(acknowledged: Collection[str], fates: Written | None) -> set[str]:
    """Every document of which it is known what it must be, where it is there."""
    return set(acknowledged) | (fates.open | fates.refused if fates is not None else set())


def compare(
    reads: list[CopyRead],
    acknowledged: Collection[str],
    shards: int,
    routing_shards: int,
    destroyed: Collection[int] = (),
    *,
    fates: Written | None = None,
    seed: int = 0,
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
    ours = _ours(acknowledged, fates)
    wrong = sorted({id for read in reads for id in read.inside.wrong} & ours)
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
        **_wrong(by_shard, ours),
        "content": _content(reads, present & ours, seed),
        "unavailable_count": unavailable_count,
        "unavailable_shards": sorted(set(range(shards)) - set(by_shard) - set(destroyed)),
        "destroyed_shards": sorted(destroyed),
        "unacknowledged_present": len(present - known),
    }


def _wrong(by_shard: dict[int, list[CopyRead]], ours: set[str]) -> dict[str, Any]:
    """Which documents are wrong in which way, on which copies, on which they are right, and of which nobody knows."""
    found: dict[str, dict[str, dict[str, Any]]] = {way: {} for way in WAYS}
    for reads in by_shard.values():
        ids = {id for read in reads for id in read.inside.wrong} & ours
        for way, id in product(WAYS, sorted(ids)):
            told = [read for read in reads if way in read.inside.wrong.get(id, {})]
            if told:
                right = [read for read in reads if read not in told and _looked_at(read, id, way)]
                found[way][id] = {
                    "id": id,
                    "on": [read.copy.node for read in told],
                    "right_on": [read.copy.node for read in right],
                    "unknown_on": [read.copy.node for read in reads if read not in told and read not in right],
                    "says": told[0].inside.wrong[id][way],
                }
    named = {f"wrong_{way}": [items[id] for id in sorted(items)[:NAMED]] for way, items in found.items()}
    return {**named, **{f"wrong_{way}_count": len(items) for way, items in found.items()}}


def _looked_at(read: CopyRead, id: str, way: str) -> bool:
    """Whether this part of a document was compared on a copy, to the end."""
    if way == "doc_values":
        return id in read.ids
    return id in read.inside.compared and (way == "source" or read.inside.error is None)


def _content(reads: list[CopyRead], present: set[str], seed: int) -> dict[str, Any]:
    """Of how many of our documents that are there source and index were compared, and on how many copies.

    ``most``: of so many of a shard all are compared. ``reason``: why there is less than there should be.
    """
    compared = set[str]().union(*(read.inside.compared for read in reads))
    failed = [read for read in reads if read.inside.error is not None]
    reason = None
    if failed:
        first = failed[0]
        reason = (
            f"{len(failed)} of {len(reads)} copies, the first shard {first.copy.shard} on {first.copy.node}: "
            f"{first.inside.error}"
        )
    return {
        "documents": len(compared),
        "of": len(present),
        "copies": sum(bool(read.inside.compared) for read in reads),
        "phrases": sum(read.inside.phrases for read in reads),
        "most": WHOLE,
        "seed": seed,
        "reason": reason,
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
    counted = {f"{name}_count": len(ids) for name, ids in found.items()}
    # those that nothing of ours could have named so: an external actor wrote them
    strangers = {id for id in found["unexpected"] if not is_ours(id)}
    named["unexpected"] = [*sorted(found["unexpected"] - strangers), *sorted(strangers)][:NAMED]
    return {**named, **counted, "strangers_count": len(strangers)}


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
