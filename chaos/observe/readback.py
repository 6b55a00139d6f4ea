"""The final read-back: every document that is there, with its content, from every live copy of its shard.

Each copy is read on the node that holds it, over the direct path, after a refresh (:mod:`chaos.observe.copies`). A
document that no live copy has is *lost*; one that only some have is *diverged*; one whose shard has no live copy is
*unavailable*: its fate is open. Unless every node of the topology is in the cluster and none has any data of that shard
on its disk (``_shard_stores``): then the shard is *destroyed*, and what had been acknowledged in it is lost. The disks
say nothing of an index that is in a remote store, from where such a shard can be restored.

All documents of a copy are enumerated, not only those that are looked for. So a document is *recovered* when its
write had no clear answer, which is allowed. It is *resurrected* when its write had been refused for sure, *unexpected*
when nobody ever sent it. It is *duplicated* when a copy holds an id more than once or counts more documents than ids.

A document of ours that is there must be right, whether it was acknowledged or not: in its source, in what was indexed
from it, and in its doc values, on every copy (:mod:`chaos.observe.contents`). Doc values are compared for all
documents, sources for all up to :data:`~chaos.observe.contents.SOURCES`, the index for all of a shard up to
:data:`~chaos.observe.contents.WHOLE`, beyond that for a sample that is drawn with the run's seed, the same on every
copy. What is wrong is told with the copies on which it is, and those on which it is right.

Ids are numbers in arrays (:mod:`chaos.observe.idsets`), and a page of documents is judged as arrays, once for all
copies that give the same: ten million documents of three copies are read, judged and compared in minutes.

Copies are only compared when they had time to become equal: a write that was still under way may arrive late. What
differs or is wrong is read again after pauses, and only what still is has *diverged* or is wrong.

With segment replication a refresh acts on primaries alone, and replicas copy its segments afterwards. They are awaited
for :data:`CATCH_UP_SECONDS`. A replica that has not caught up by then is *stale*: it is named, and its documents are
held against nothing, since they are those of an earlier moment. A document that the primary lacks is lost there, even
where a replica has it: the replica's next round takes it away.

A document that the load has updated must have the content of its last acknowledged update; one that has an earlier
one is *outdated* besides being wrong: that update was lost. One whose delete was acknowledged must be gone from every
copy, and has *returned* where it is on one (:mod:`chaos.observe.changed`).

Which shard an id belongs to follows OpenSearch's routing (:mod:`chaos.opensearch.routing`).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby, islice, product
from typing import Any, NamedTuple

import numpy as np

from chaos.base.errors import ChaosError, LabError
from chaos.base.ids import is_key, is_ours, write_id
from chaos.history.format import CallerTold
from chaos.load import workloads
from chaos.load.workload import Workload
from chaos.observe.changed import Changed, apart, of_held
from chaos.observe.contents import (
    SOURCES,
    WAYS,
    WHOLE,
    Contents,
    Sourced,
    Wanted,
    chosen,
    look_inside,
    odd,
    reads_all,
    sources_page,
)
from chaos.observe.copies import CopySearch, NotRead, Page, Shared, odd_answer, page
from chaos.observe.idsets import Collected, Ids, parsed, parts
from chaos.observe.several import merged
from chaos.observe.told import everything, held_against
from chaos.observe.written import Written
from chaos.opensearch import rollover
from chaos.opensearch.replication import Lag, Place, not_caught_up, replicas_of
from chaos.opensearch.rest import UNREADABLE
from chaos.opensearch.routing import shard_of
from chaos.opensearch.views import STANDING, ShardCopy, View, administer, newest, views
from chaos.targets.protocol import Lab

PAGE = 10_000
"""Documents in one answer: as many as an index gives without being told to give more."""
PAGE_VALUES = 160_000
"""Values in one answer, so that documents of many fields stay far below what an answer may have."""
PER_HIT = 5
"""Values that come with each document beside its fields."""
AT_ONCE = 3
"""Copies that are read at once, at least: while one is waited for another is judged. Those of a shard go together, so
that their answers are decoded once."""
KEPT = 16
"""Pages that are kept as they were judged, for copies that are behind."""
SEQUENCE = "_seq_no"
"""What tells documents apart whose value and unique number are the same, as those of others may be: no two documents of
a copy have the same, and on each copy of its shard a document has the same."""
NAMED = 1000
"""How many ids of each kind are written out; the counts are always exact."""
CATCH_UP_SECONDS = 60.0
"""How long a replica may take to copy what its primary had when the load was off, and was refreshed."""
AGAIN_S = (2.0, 5.0, 10.0)
"""Pauses before copies that differ, or could not be read, are read again: a node joins before it answers HTTP."""


@dataclass(eq=False)
class CopyRead:
    """One copy of one shard as it was read.

    ``twice``: ids that came more than once. ``total``: how many documents the copy counts. ``keys``: value, seq_no
    and primary term of each key of compare-and-set. ``inside``: whether its documents are right.
    """

    copy: ShardCopy
    ids: Ids = field(default_factory=Ids)
    error: str | None = None
    twice: Ids = field(default_factory=Ids)
    total: int | None = None
    keys: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    inside: Contents = field(default_factory=Contents)

    @property
    def surplus(self) -> int:
        """Documents more than ids."""
        return max(len(self.twice), (self.total or 0) - len(self.ids))

    @property
    def more(self) -> int:
        """The same, of a copy that was not read to the end those that were seen."""
        return self.surplus if self.error is None else len(self.twice)

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
            "indexed": len(self.inside.indexed),
            "phrases": self.inside.phrases,
            "content_error": self.inside.error,
        }


class Index(NamedTuple):
    """What the read-back must know of an index. ``window``: how many documents an answer may have. ``remote``: whether
    its data are in a remote store."""

    shards: int
    routing_shards: int
    window: int = PAGE
    remote: bool = False


class Listed:
    """A page of the documents of a copy with their doc values, as it was judged: what every copy with the same page has
    in common.

    ``odd``: documents whose doc values are not what they must be, or which must be looked at one by one, with their
    values. ``keys``: value, seq_no and primary term of keys of compare-and-set.
    """

    def __init__(self, workload: Workload, found: Page) -> None:
        """Raises :class:`NotRead` where documents have another shape than expected."""
        self.total, self.size, self.after = found.total, found.size, found.after
        try:
            ids = [str(hit["_id"]) for hit in found.hits]
            kinds, numbers = parsed(ids)
            self.numbers, self.others = parts(ids, kinds, numbers)
            alone = [(ids[row], found.hits[row]) for row in np.flatnonzero(odd(workload, found.hits, kinds, numbers))]
            self.odd = [(id, hit.get("fields", {})) for id, hit in alone]
            self.keys: dict[str, tuple[int, int, int]] = {}
            for id, hit in alone:
                if is_key(id):
                    self.keys[id] = (int(hit["sort"][0]), int(hit["_seq_no"]), int(hit["_primary_term"]))
        except UNREADABLE as error:
            raise odd_answer(error) from error


class Whole:
    """A page of documents with their doc values and their sources, as both were judged."""

    def __init__(self, workload: Workload, answer: bytes) -> None:
        """Raises :class:`NotRead` where the answer cannot be read."""
        found = page(answer)
        self.listed, self.sourced = Listed(workload, found), Sourced(workload, found)
        self.size, self.after = found.size, found.after


class Asked:
    """What is asked of each copy.

    ``wanted``: by shard, the documents that are looked into. ``at_once``: their sources are asked for together with doc
    values, because half of the documents' or more are wanted: OpenSearch then takes each from the disk, and
    decompresses it, once.
    ``window``: how many documents an answer may have. ``acknowledged``: of a shard, the documents that must be there.
    """

    def __init__(
        self,
        workload: Workload,
        wanted: Mapping[int, Wanted] | None = None,
        seed: int = 0,
        window: int = PAGE,
        *,
        automatic: bool = False,
        at_once: bool = False,
        acknowledged: Callable[[int], Ids] = lambda shard: Ids(),
    ) -> None:
        self.automatic, self.at_once, self.acknowledged = automatic, at_once, acknowledged
        self.workload, self.wanted, self.seed, self.window = workload, wanted or {}, seed, window
        self.page = max(1, min(PAGE, PAGE_VALUES // (PER_HIT + len(workload.fields))))
        self.listed = Shared(lambda answer: Listed(workload, page(answer)), KEPT)
        self.sourced = Shared(lambda answer: Sourced(workload, page(answer)), KEPT)
        self.whole = Shared(partial(Whole, workload), KEPT)


def _read_copy(lab: Lab, copy: ShardCopy, asked: Asked) -> CopyRead:
    """All ids of one copy with their doc values, and the content of those documents that are wanted.

    Where a node refuses sources together with doc values, doc values are read anew without them: ids are never unknown
    for want of a source.
    """
    order = (asked.workload.value, asked.workload.unique, SEQUENCE)
    searched = CopySearch(lab, copy, order, asked.window, routed=asked.automatic)
    try:
        if asked.at_once and asked.wanted.get(copy.shard, Wanted()).sources:
            result = _read_searched(searched, copy, asked, at_once=True)
            if result.error is None or searched.unreachable:
                return result
        return _read_searched(searched, copy, asked, at_once=False)
    finally:
        searched.close()


def _read_searched(searched: CopySearch, copy: ShardCopy, asked: Asked, *, at_once: bool) -> CopyRead:
    """The same, in one of the two ways."""
    result = CopyRead(copy, inside=Contents(apart(asked.workload)))
    wanted = asked.wanted.get(copy.shard, Wanted())
    collected, compared = Collected(), Collected()

    def take(to: Collected, query: dict[str, Any] | None = None) -> None:
        for listed, sourced in _listed(searched, wanted, asked, result.inside, query, at_once=at_once):
            if result.total is None:
                if listed.total is None:
                    raise NotRead("the copy does not say how many documents it has")
                result.total = listed.total
            to.add_parts(listed.numbers, listed.others)
            result.keys |= listed.keys
            for id, fields in listed.odd:
                result.inside.numbers(id, fields)
            if sourced is not None:
                compared.add_parts(*sourced.judge(wanted.sources, result.inside))

    try:
        try:
            take(collected)
        finally:
            result.ids, result.twice = collected.ids_and_twice()
        if result.surplus:  # what was not listed is asked for by its id before it can be lost
            skipped, each = Collected(), iter(asked.acknowledged(copy.shard) - result.ids)
            while named := list(islice(each, asked.page)):
                take(skipped, searched.named(named))
            result.ids |= skipped.ids()
        judged = compared.ids() if at_once else None
        seed, repeats = asked.seed, collected.repeats
        look_inside(searched, result.ids, wanted, result.inside, seed, asked.sourced, judged, repeats)
    except NotRead as error:
        result.error = str(error)
    except UNREADABLE as error:
        result.error = str(odd_answer(error))
    return result


def _listed(
    searched: CopySearch, wanted: Wanted, asked: Asked, inside: Contents, query: dict[str, Any] | None, *, at_once: bool
) -> Iterator[tuple[Listed, Sourced | None]]:
    """All documents of a copy, or those of a query, page by page; ``at_once``: with their sources."""
    body: dict[str, Any] = {"query": query} if query is not None else {}
    body |= {"_source": at_once, "docvalue_fields": list(asked.workload.fields), "seq_no_primary_term": True}
    if not at_once:
        for part in searched.pages(body, asked.page, asked.listed):
            yield part, None
        return
    for whole in searched.pages(body, min(asked.page, sources_page(wanted.sources, inside)), asked.whole):
        yield whole.listed, whole.sourced


def read_back(
    lab: Lab,
    index: str,
    written: Written | Collection[str],
    says: Callable[[str], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
    *,
    seed: int = 0,
    workload: Workload | None = None,
    automatic: bool = False,
    told: Mapping[CallerTold, Ids] | None = None,
    rolled: bool = False,
    segments: bool = False,
    stopped: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Read every copy and compare; the answer is the content of ``history/readback.json``.

    ``written``: what the load has tried to write, or only the ids that were acknowledged: nothing can be said about
    other documents then. ``seed``: of the run; it draws the sample where there are too many documents. ``workload``:
    what the documents must be; None: those of experiments that name no other. ``automatic``: written documents have
    ids that OpenSearch gave them, and are known by the value that they were routed by; one that is there twice is
    *stored twice*, and none too many. ``told``: what helpers told their callers of documents, to be held against what
    is there; nothing where there was none. ``rolled``: ``index`` is a name with several
    (:mod:`chaos.opensearch.rollover`), which are all read. ``segments``: replicas copy segments, and are awaited until
    they have, or until ``stopped``.

    Never raises for the cluster's failures: what could not be read makes ``complete`` false, with the reason.
    """
    began = time.monotonic()
    workload = workload or workloads.named(workloads.DEFAULT)
    fates = written if isinstance(written, Written) else None
    acknowledged = written.acknowledged if isinstance(written, Written) else Ids.of(written)
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
        names = rollover.indices(lab, index) if rolled else [index]
        if not names:
            return {**empty, "reason": f"there is no index under {index}"}
        readings = [
            Reading(lab, name, seen, acknowledged, fates, workload, seed=seed, automatic=automatic) for name in names
        ]
        for each in readings:
            if segments:
                each.await_replicas(says, stopped)
        _refuse_unlike(readings)
    except (ChaosError, *UNREADABLE) as error:
        return {**empty, "reason": f"{type(error).__name__}: {error}"}
    copies = sum(len(each.live) for each in readings)
    says(f"reading {len(acknowledged)} acknowledged documents back from {copies} copies")
    for each in readings:
        each.read(says)
    found = _compared(readings, acknowledged, rolled=rolled)
    for pause in AGAIN_S:
        if not (number := sum(len(one.doubtful) for one in found)):
            break
        says(f"{number} shards have copies that differ, are wrong or unread: reading them again in {pause:g} s")
        sleep(pause)
        for each, one in zip(readings, found, strict=True):
            if one.doubtful:
                each.read_again(one.doubtful, says, pause)
        found = _compared(readings, acknowledged, rolled=rolled)
    result = _of_name(readings, found, acknowledged) if rolled else found[0].to_json()
    if automatic:
        result |= stored_twice(readings[0].reads)
    if told:
        result["told"] = _told_of(told, found[0])
    return {**empty, **result, "seconds": round(time.monotonic() - began, 3)}


class Reading:
    """One index: its live copies, and what was read of them. ``destroyed``: shards of which nothing is left."""

    def __init__(
        self,
        lab: Lab,
        index: str,
        seen: View,
        acknowledged: Ids,
        fates: Written | None,
        workload: Workload,
        *,
        seed: int,
        automatic: bool,
    ) -> None:
        """Refreshes it and asks how it is routed. Raises ChaosError, or one of UNREADABLE."""
        self._lab, self._seen, self._fates, self._seed = lab, seen, fates, seed
        self.index = index
        _refresh(lab, index, patient=seen.status != "red")
        self.shards, self.routing_shards, window, self._remote = _routing(lab, index)
        _check_routing(lab, index, self.shards, self.routing_shards, acknowledged.first(30))
        self.live = _live(seen, index)
        ours = _ours(acknowledged, fates)
        wanted = chosen(ours, self.shards, self.routing_shards, seed)
        workload = of_held(workload, fates.held if fates is not None else None)
        at_once = reads_all(sum(len(each.sources) for each in wanted.values()), len(ours))
        self._asked = Asked(
            workload,
            wanted,
            seed,
            window,
            automatic=automatic,
            at_once=at_once,
            acknowledged=lambda shard: acknowledged.by_shard(self.shards, self.routing_shards)[shard],
        )
        self.reads: list[CopyRead] = []
        self.destroyed: set[int] = set()
        self._behind: dict[Place, Lag | None] | None = None
        self._stopped: Callable[[], bool] = lambda: False

    def await_replicas(self, says: Callable[[str], None], stopped: Callable[[], bool]) -> None:
        """Of an index whose replicas copy segments: wait until they have, or ``stopped``."""
        says(f"waiting until replicas have copied what was written, at most {CATCH_UP_SECONDS:g} s")
        self._stopped = stopped
        self._behind = not_caught_up(self._lab, self.index, replicas_of(self.live), CATCH_UP_SECONDS, stopped=stopped)

    def read(self, says: Callable[[str], None]) -> None:
        """Read every copy."""
        self.reads = _read(self._lab, self.live, self._asked)
        missing = set(range(self.shards)) - {copy.shard for copy in self.live}
        if not missing or self._remote:
            return
        if self._seen.nodes >= {node.name for node in self._lab.topology.nodes}:
            try:
                self.destroyed = missing - _stored(self._lab, self.index)
            except (ChaosError, *UNREADABLE) as error:
                says(f"where the shards' data is on disk cannot be told: {error}")

    def read_again(self, shards: Collection[int], says: Callable[[str], None], pause: float) -> None:
        """Read the copies of these shards once more, on the nodes that have them now. Replicas that are behind still
        get ``pause`` seconds."""
        try:
            _refresh(self._lab, self.index, patient=False)
        except (ChaosError, *UNREADABLE) as error:
            says(f"no refresh before reading again: {error}")
        if (seen := newest(views(self._lab))) is not None:
            self.live = [copy for copy in self.live if copy.shard not in shards]
            self.live += [copy for copy in _live(seen, self.index) if copy.shard in shards]
        self._await_again(shards, pause)
        self.reads = [read for read in self.reads if read.copy.shard not in shards]
        self.reads += _read(self._lab, [copy for copy in self.live if copy.shard in shards], self._asked)

    def _await_again(self, shards: Collection[int], pause: float) -> None:
        if self._behind is None:
            return
        others = {place: lag for place, lag in self._behind.items() if place[0] not in shards}
        again = replicas_of([copy for copy in self.live if copy.shard in shards])
        late = [place for place in again if self._behind.get(place) is not None]  # they have had their time
        on_time = [place for place in again if place not in late]
        others |= not_caught_up(self._lab, self.index, on_time, CATCH_UP_SECONDS, stopped=self._stopped)
        self._behind = others | not_caught_up(self._lab, self.index, late, pause, stopped=self._stopped)

    def held(self) -> Ids:
        """What is on any of its copies."""
        found = Ids()
        for read in self.reads:
            read.ids = Ids.of(read.ids)
            found |= read.ids
        return found

    def settled(self, shard: int) -> bool:
        """Whether all that a shard has is known: each of its live copies was read to the end, or nothing is left."""
        here = [read for read in self.reads if read.copy.shard == shard]
        return shard in self.destroyed or bool(here and all(read.error is None for read in here))

    def compared(self, acknowledged: Ids) -> Comparison:
        return Comparison(
            self.reads,
            acknowledged,
            self.shards,
            self.routing_shards,
            self.destroyed,
            fates=self._fates,
            seed=self._seed,
            behind=self._behind,
        )


def _live(seen: View, index: str) -> list[ShardCopy]:
    """The copies of an index that can be read."""
    return [copy for copy in seen.copies if copy.index == index and copy.state in STANDING and copy.node]


def _refuse_unlike(readings: list[Reading]) -> None:
    """Raises LabError where the indices of a name are not routed alike, which one template makes them."""
    if len({(each.shards, each.routing_shards) for each in readings}) > 1:
        raise LabError(f"{readings[0].index} and {readings[-1].index} have other numbers of shards")


def _compared(readings: list[Reading], acknowledged: Ids, *, rolled: bool) -> list[Comparison]:
    """Each index against what had been acknowledged: of several, each against what is on a copy of it. A document is in
    the index that was the newest when it was written, which nothing but the copies tells."""
    if not rolled:
        return [readings[0].compared(acknowledged)]
    return [each.compared(acknowledged & each.held()) for each in readings]


def _of_name(readings: list[Reading], found: list[Comparison], acknowledged: Ids) -> dict[str, Any]:
    """What several indices of one name come to: lost is what is in none of them, once each shard of it was read.

    An id is once in each index. What a client sent again after a rollover may be in two: it is *stored twice*.
    """
    result = merged({each.index: one.to_json() for each, one in zip(readings, found, strict=True)})
    anywhere, twice = Ids(), Ids()
    for each in readings:
        held = each.held()
        twice |= held & anywhere
        anywhere |= held
    lost, unavailable = Ids(), 0
    shards, routing = readings[0].shards, readings[0].routing_shards
    for shard, mine in enumerate((acknowledged - anywhere).by_shard(shards, routing)):
        if all(each.settled(shard) for each in readings):
            lost |= mine
        else:
            unavailable += len(mine)
    result |= {
        "lost": lost.first(NAMED),
        "lost_count": len(lost),
        "unavailable_count": result["unavailable_count"] + unavailable,
    }
    if twice:
        result |= {"stored_twice": twice.first(NAMED), "stored_twice_count": len(twice)}
    return result


def _told_of(told: Mapping[CallerTold, Ids], found: Comparison) -> dict[str, Any]:
    """What callers were told, held against every copy that was read."""
    there, twice, unknown = Ids(), Ids(), Ids()
    for read in found.reads:
        there |= read.ids.only("w")
        twice |= read.twice
    for shard, mine in enumerate(everything(told).by_shard(found.shards, found.routing_shards)):
        here = found.by_shard.get(shard, [])
        if shard not in found.destroyed and not (here and all(read.error is None for read in here)):
            unknown |= mine
    return held_against(told, there, twice, unknown)


def stored_twice(reads: list[CopyRead]) -> dict[str, Any]:
    """Written documents that are there more than once, under ids that OpenSearch gave them: how often too many on the
    copy that has most of them, and which. Of these none counts as duplicated; those whose ids are explicit do."""
    surplus: dict[int, int] = {}
    twice, others = Ids(), list[CopyRead]()
    for read in reads:
        mine = read.twice.only("w")
        rest = read.twice - mine
        more = read.more - len(rest) if mine else 0
        surplus[read.copy.shard] = max(surplus.get(read.copy.shard, 0), more)
        twice |= mine
        others.append(replace(read, twice=rest, total=len(read.ids) + read.more - more))
    return {
        "stored_twice": twice.first(NAMED),
        "stored_twice_count": sum(surplus.values()),
        **_duplicates(others),
    }


def _read(lab: Lab, copies: list[ShardCopy], asked: Asked) -> list[CopyRead]:
    """All copies of a shard at once, and of several shards where they have few."""
    reads: list[CopyRead] = []
    with _kept_out_of_collections():
        for group in _groups(copies):
            with ThreadPoolExecutor(len(group)) as pool:
                reads += pool.map(lambda copy: _read_copy(lab, copy, asked), group)
    return reads


def _groups(copies: list[ShardCopy]) -> Iterator[list[ShardCopy]]:
    """Copies that are read together: whole shards, until there are :data:`AT_ONCE`."""
    group: list[ShardCopy] = []
    for _, shard in groupby(sorted(copies, key=lambda copy: copy.shard), key=lambda copy: copy.shard):
        group += shard
        if len(group) >= AT_ONCE:
            yield group
            group = []
    if group:
        yield group


@contextmanager
def _kept_out_of_collections() -> Iterator[None]:
    """The garbage collector looks at what is made from here on, and not again and again at all that was there before.

    Each page of documents is some 70,000 objects, after which the collector goes through all of them: with what a run
    has in memory that took three quarters of the time of a read-back.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _ours(acknowledged: Ids, fates: Written | None) -> Ids:
    """Every document of which it is known what it must be, where it is there."""
    return acknowledged | fates.open | fates.refused | fates.doubtful if fates is not None else acknowledged


def compare(
    reads: list[CopyRead],
    acknowledged: Iterable[str],
    shards: int,
    routing_shards: int,
    destroyed: Collection[int] = (),
    *,
    fates: Written | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Pure: what was read against what had been acknowledged; the content of ``history/readback.json``."""
    return Comparison(reads, Ids.of(acknowledged), shards, routing_shards, destroyed, fates=fates, seed=seed).to_json()


class Comparison:
    """What was read against what had been acknowledged.

    ``destroyed``: shards of which no copy is left anywhere, live or on disk. ``fates``: what became of every write;
    None: not known, and nothing is said about documents that were not acknowledged. ``behind``: with segment
    replication the replicas that have not caught up with their primaries, see
    :func:`chaos.opensearch.replication.not_caught_up`; None: replicas index documents themselves.

    Almost always nearly all of what was acknowledged is on every copy. So what is kept is what a copy lacks and what it
    has beside, which are few; all documents are gone through once for each copy.
    """

    def __init__(
        self,
        reads: list[CopyRead],
        acknowledged: Ids,
        shards: int,
        routing_shards: int,
        destroyed: Collection[int] = (),
        *,
        fates: Written | None = None,
        seed: int = 0,
        behind: Mapping[Place, Lag | None] | None = None,
    ) -> None:
        self.every, self.fates, self.seed = reads, fates, seed
        self.segments, behind = behind is not None, behind or {}
        self.shards, self.routing_shards, self.destroyed = shards, routing_shards, destroyed
        self.by_shard: dict[int, list[CopyRead]] = {}
        for read in reads:
            read.ids, read.twice = Ids.of(read.ids), Ids.of(read.twice)
        primaries = {read.copy.shard: read for read in reads if read.copy.primary}
        self.stale = [
            (read, behind[place])
            for read in reads
            if (place := (read.copy.shard, str(read.copy.node))) in behind
            and (behind[place] is not None or _differs(read, primaries.get(read.copy.shard)))
        ]
        """Replicas that have not caught up, each with how far it is behind where that is known. They are no part of
        :attr:`reads`."""
        left_out = {id(read) for read, _ in self.stale}
        self.reads = reads = [read for read in reads if id(read) not in left_out]
        for read in reads:
            self.by_shard.setdefault(read.copy.shard, []).append(read)
        self.lost, self.diverged, self.beyond = Ids(), Ids(), Ids()
        self.missing: dict[int, list[tuple[CopyRead, Ids]]] = {}
        """By shard: what each copy that was read lacks of what was acknowledged."""
        self.unavailable = 0
        absent, elsewhere = Ids(), Ids()
        for shard, mine in enumerate(acknowledged.by_shard(shards, routing_shards)):
            absent |= self._shard(shard, mine)
            for read in self.by_shard.get(shard, []):
                more = read.ids - mine
                beside = more - acknowledged
                self.beyond |= beside
                elsewhere |= more - beside  # acknowledged, and on a copy of a shard that it does not belong to
        self.present = len(acknowledged) - len(absent - elsewhere)
        """How many of what was acknowledged are on any copy."""
        self.unsure = _ours(Ids(), fates)
        """Documents of ours that were not acknowledged: they must be right if they are there."""
        self.unsure_of_deletes = fates.deleted | fates.doubtful if fates is not None else Ids()
        self.acknowledged = acknowledged
        self.wrong = self._wrong()
        self.keys = _keys(reads)

    def _shard(self, shard: int, mine: Ids) -> Ids:
        """What of the acknowledged documents of a shard is on no copy, read to the end or not."""
        here = self.by_shard.get(shard, [])
        lacks = [(read, mine - read.ids) for read in here]
        absent = _all_of([lacking for _, lacking in lacks]) if lacks else mine
        if shard in self.destroyed:
            self.lost |= mine
            return absent
        answered = [(read, lacking) for read, lacking in lacks if read.error is None]
        if not answered:
            self.unavailable += len(mine)
            return absent
        if self.segments:
            self._by_the_primary(answered)
            self.missing[shard] = answered
            return absent
        gone = _all_of([lacking for _, lacking in answered])
        if len(answered) < len(here):
            self.unavailable += len(gone)  # a copy that could not be read may still have it
        else:
            self.lost |= gone
        for _, lacking in answered:
            self.diverged |= lacking - gone
        self.missing[shard] = answered
        return absent

    def _by_the_primary(self, answered: list[tuple[CopyRead, Ids]]) -> None:
        """What is lost and what differs where replicas copy segments. Without a primary that could be read the fate of
        what no replica shows is open: it may be in their translogs."""
        primary = next((lacking for read, lacking in answered if read.copy.primary), None)
        if primary is None:
            self.unavailable += len(_all_of([lacking for _, lacking in answered]))
            return
        self.lost |= primary
        for _, lacking in answered:
            self.diverged |= lacking - primary

    def _wrong(self) -> dict[str, dict[int, list[tuple[CopyRead, Ids]]]]:
        """By way and shard the documents that are wrong on each copy on which one is."""
        found: dict[str, dict[int, list[tuple[CopyRead, Ids]]]] = {way: {} for way in WAYS}
        for shard, reads in self.by_shard.items():
            for way, read in product(WAYS, reads):
                all_wrong = read.inside.wrong_in(way)
                if wrong := (all_wrong & self.acknowledged) | (all_wrong & self.unsure):
                    found[way].setdefault(shard, []).append((read, wrong))
        return found

    @property
    def doubtful(self) -> set[int]:
        """The shards that have copies that differ, hold wrong documents or could not be read."""
        found = {shard for shard, lacks in self.missing.items() if any(each & self.diverged for _, each in lacks)}
        if self.segments:  # of what only the primary lacks a replica may tell that it was about to come
            found |= {shard for shard, lacks in self.missing.items() if len({len(each) for _, each in lacks}) > 1}
        found |= {shard for shards in self.wrong.values() for shard in shards}
        found |= {read.copy.shard for read in self.reads if read.error is not None}
        found |= {read.copy.shard for read, lag in self.stale if lag is None}
        torn = [*self._torn_keys(), *self._torn_updates()]
        return found | {shard_of(id, self.shards, self.routing_shards) for id in torn}

    def _torn_updates(self) -> dict[str, list[dict[str, Any]]]:
        """Documents of which an update has no clear answer, and that hold it on one copy and not on another: by id
        what each copy holds."""
        found: dict[str, list[dict[str, Any]]] = {}
        for reads in self.by_shard.values():
            settled = [
                (read, read.inside.workload.settled)
                for read in reads
                if read.error is None and isinstance(read.inside.workload, Changed)
            ]
            for document in sorted(set().union(*(each for _, each in settled))):
                held = {each[document] for _, each in settled if document in each}
                if len(held) > 1:
                    found[write_id(document)] = [
                        {"node": read.copy.node, "primary": read.copy.primary, "holds": write_id(each[document])}
                        for read, each in settled
                        if document in each
                    ]
        return found

    def _changes(self) -> dict[str, Any]:
        """What became of documents that the load has changed; nothing where it changed none."""
        if self.fates is None or self.fates.held is None:
            return {}
        returned, outdated = self.beyond & self.fates.deleted, Ids()
        for read in self.reads:
            outdated |= read.inside.outdated.ids() & (self.acknowledged | self.unsure)
        return {
            "returned": returned.first(NAMED),
            "returned_count": len(returned),
            "outdated": outdated.first(NAMED),
            "outdated_count": len(outdated),
            "changes": self.fates.held.counts(),
        }

    def _torn_keys(self) -> list[str]:
        """Keys of compare-and-set of which two copies hold different versions."""
        return [
            key
            for key, copies in self.keys.items()
            if len({(each["value"], each["seq_no"], each["primary_term"]) for each in copies}) > 1
        ]

    def to_json(self) -> dict[str, Any]:
        """The content of ``history/readback.json``."""
        reads, stale = self.reads, self._stale()
        unread = [read for read in reads if read.error is not None]
        reason = None
        if unread:
            reason = f"{len(unread)} copies could not be read: {unread[0].error}"
        elif not reads:
            reason = "there was no live copy to read"
        torn, versions = self._torn_keys(), self._torn_updates()
        named = [{"id": key, "missing_on": [], "values": self.keys[key]} for key in torn]
        named += [{"id": id, "missing_on": [], "values": values} for id, values in versions.items()]
        wrong = Ids()
        for shards in self.wrong.values():
            for _, each in chain.from_iterable(shards.values()):
                wrong |= each
        return {
            "complete": reason is None,
            "reason": reason,
            **_beyond(self.beyond, self.fates),
            **_duplicates(reads),
            "documents": self.present + len(self.beyond),
            "cas": self.keys,
            "watched": self._watched(),
            "copies": [read.to_json() for read in self.every],
            **stale,
            "lost": self.lost.first(NAMED),
            "lost_count": len(self.lost),
            "diverged": [*self._diverged(), *named][:NAMED],
            "diverged_count": len(self.diverged) + len(named),
            "wrong_content": wrong.first(NAMED),
            "wrong_content_count": len(wrong),
            **self._named_wrong(),
            "content": self._content(),
            "unavailable_count": self.unavailable,
            "unavailable_shards": sorted(set(range(self.shards)) - set(self.by_shard) - set(self.destroyed)),
            "destroyed_shards": sorted(self.destroyed),
            "unacknowledged_present": len(self.beyond - self.unsure_of_deletes),
            **self._changes(),
        }

    def _stale(self) -> dict[str, Any]:
        """Replicas that have not caught up, of how many; nothing where replicas index documents themselves."""
        if not self.segments:
            return {}
        by_shard = self.acknowledged.by_shard(self.shards, self.routing_shards)
        return {
            "replicas_count": sum(not read.copy.primary for read in self.every),
            "stale": [
                {
                    "shard": read.copy.shard,
                    "node": read.copy.node,
                    "lacks": len(by_shard[read.copy.shard] - read.ids) if read.error is None else None,
                    "checkpoints": lag.checkpoints if lag is not None else None,
                    "bytes": lag.bytes if lag is not None else None,
                    "seconds": lag.seconds if lag is not None else None,
                }
                for read, lag in self.stale
            ],
            "stale_count": len(self.stale),
            "stale_after_s": CATCH_UP_SECONDS,
        }

    def _diverged(self) -> list[dict[str, Any]]:
        """Documents that some copies lack and others have, with those that lack them."""
        named = []
        for id in self.diverged.first(NAMED):
            lacks = self.missing[shard_of(id, self.shards, self.routing_shards)]
            named.append({"id": id, "missing_on": [read.copy.node for read, lacking in lacks if id in lacking]})
        return named

    def _named_wrong(self) -> dict[str, Any]:
        """Which documents are wrong in which way, on which copies, on which they are right, and on which that is not
        known."""
        named, counted = {}, {}
        for way, shards in self.wrong.items():
            every = Ids()
            items: dict[str, Any] = {}
            for shard, told in shards.items():
                here = Ids()
                for _, ids in told:
                    here |= ids
                items |= {id: _told(id, way, told, self.by_shard[shard]) for id in here.first(NAMED)}
                every |= here
            named[f"wrong_{way}"] = [items[id] for id in every.first(NAMED)]
            counted[f"wrong_{way}_count"] = len(every)
        return {**named, **counted}

    def _content(self) -> dict[str, Any]:
        """Of how many of our documents that are there source and index were compared, and on how many copies.

        ``sources``: of so many in all the sources are all compared; ``most``: of so many of a shard the index is.
        ``text``: whether there is a text. ``reason``: why there is less than there should be.
        """
        compared, indexed = Ids(), Ids()
        for read in self.reads:
            compared |= read.inside.compared
            indexed |= read.inside.indexed
        failed = [read for read in self.reads if read.inside.error is not None]
        reason = None
        if failed:
            first = failed[0]
            reason = (
                f"{len(failed)} of {len(self.reads)} copies, the first shard {first.copy.shard} on {first.copy.node}: "
                f"{first.inside.error}"
            )
        return {
            "documents": len(compared),
            "indexed": len(indexed),
            "of": self.present + len(self.beyond & self.unsure),
            "copies": sum(bool(read.inside.compared) for read in self.reads),
            "phrases": sum(read.inside.phrases for read in self.reads),
            "sources": SOURCES,
            "most": WHOLE,
            "text": all(bool(read.inside.workload.text) for read in self.reads),
            "seed": self.seed,
            "reason": reason,
        }

    def _watched(self) -> dict[str, Any]:
        """Which documents of the probes of visibility are on no copy (``absent``), or may be on one (``unknown``).

        They are named in full: whether a read was dirty hangs on it.
        """
        absent, unknown = Ids(), Ids()
        probes = self.fates.probes if self.fates is not None else Ids()
        for shard, mine in enumerate(probes.by_shard(self.shards, self.routing_shards)):
            here = self.by_shard.get(shard, [])
            for read in here:
                mine -= read.ids
            if shard in self.destroyed or (here and all(read.error is None for read in here)):
                absent |= mine
            else:
                unknown |= mine
        return {"count": len(probes), "absent": list(absent), "unknown": list(unknown)}


def _differs(replica: CopyRead, primary: CopyRead | None) -> bool:
    """Whether a replica of which it is not known how far it is shows something else than its primary."""
    if replica.error is not None or primary is None or primary.error is not None:
        return False
    return bool(
        replica.ids - primary.ids
        or primary.ids - replica.ids
        or replica.keys != primary.keys
        or replica.inside.values != primary.inside.values
        or any(replica.inside.wrong_in(way) - primary.inside.wrong_in(way) for way in WAYS)
    )


def _all_of(sets: list[Ids]) -> Ids:
    """What is in each."""
    found = sets[0]
    for each in sets[1:]:
        found &= each
    return found


def _told(id: str, way: str, told: list[tuple[CopyRead, Ids]], reads: list[CopyRead]) -> dict[str, Any]:
    """What is wrong with a document in one way, and where."""
    wrong = [read for read, ids in told if id in ids]
    right = [read for read in reads if read not in wrong and _looked_at(read, id, way)]
    said = [read.inside.wrong[id][way] for read in wrong if way in read.inside.wrong.get(id, {})]
    return {
        "id": id,
        "on": [read.copy.node for read in wrong],
        "right_on": [read.copy.node for read in right],
        "unknown_on": [read.copy.node for read in reads if read not in wrong and read not in right],
        "says": said[0] if said else "more are wrong than are told in words",
    }


def _looked_at(read: CopyRead, id: str, way: str) -> bool:
    """Whether this part of a document was compared on a copy, to the end."""
    if way == "doc_values":
        return id in read.ids
    return id in read.inside.compared if way == "source" else id in read.inside.indexed and read.inside.error is None


def _duplicates(reads: list[CopyRead]) -> dict[str, Any]:
    """Ids that a copy holds more than once, and how many documents it counts beyond these and its ids."""
    named: list[dict[str, Any]] = [
        {"id": id, "node": read.copy.node, "shard": read.copy.shard} for read in reads for id in read.twice.first(NAMED)
    ]
    named += [
        {"id": None, "node": read.copy.node, "shard": read.copy.shard, "more": read.surplus - len(read.twice)}
        for read in reads
        if read.error is None and read.surplus > len(read.twice)
    ]
    return {"duplicated": named[:NAMED], "duplicated_count": sum(read.more for read in reads)}


def _beyond(beyond: Ids, fates: Written | None) -> dict[str, Any]:
    """Documents that are there without having been acknowledged, by what is known of their writes."""
    if fates is None:
        return {}
    found = {
        "recovered": beyond & fates.open,
        "resurrected": beyond & fates.refused,
        "unexpected": beyond - fates.open - fates.refused - fates.deleted - fates.doubtful,
    }
    named = {name: ids.first(NAMED) for name, ids in found.items()}
    counted = {f"{name}_count": len(ids) for name, ids in found.items()}
    # those that nothing of ours could have named so: an external actor wrote them
    strangers = sum(not is_ours(id) for id in found["unexpected"].others)
    return {**named, **counted, "strangers_count": strangers}


def _keys(reads: list[CopyRead]) -> dict[str, list[dict[str, Any]]]:
    """What every copy that was read holds of each key of compare-and-set, primaries first."""
    keys: dict[str, list[dict[str, Any]]] = {}
    for read in sorted(reads, key=lambda read: not read.copy.primary):
        if read.error is None:
            for key, (value, seq_no, term) in read.keys.items():
                here = {"node": read.copy.node, "primary": read.copy.primary}
                keys.setdefault(key, []).append({**here, "value": value, "seq_no": seq_no, "primary_term": term})
    return dict(sorted(keys.items()))


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


def _routing(lab: Lab, index: str) -> Index:
    """What must be known of the index, from its metadata."""
    status, answer = administer(
        lab,
        "GET",
        f"/_cluster/state/metadata/{index}?filter_path=metadata.indices.*.settings.index.number_of_shards,"
        "metadata.indices.*.settings.index.max_result_window,metadata.indices.*.settings.index.remote_store.enabled,"
        "metadata.indices.*.routing_num_shards",
    )
    if status != 200:
        raise LabError(f"the index metadata answered {status}")
    metadata = answer["metadata"]["indices"][index]
    settings = metadata["settings"]["index"]
    window = int(settings.get("max_result_window", PAGE))
    remote = str((settings.get("remote_store") or {}).get("enabled")).lower() == "true"
    return Index(int(settings["number_of_shards"]), int(metadata["routing_num_shards"]), window, remote)


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
