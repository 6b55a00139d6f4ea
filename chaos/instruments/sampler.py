"""The cluster sampler: every second it asks the leader, every fifth all nodes, for their view; writes down changes.

Where nodes are not reached by themselves, each address of the cluster is asked every second instead.

Its path is the direct one (a socket in the node's own namespace), which no fault touches. What it writes are events;
they explain a run and date its ladder of recovery, to the second of its period. How long each node took to answer and
how late the sampler itself woke are written down too: by these the checks judge path and runner. So is when the whole
runner stood still (``pulse``, see :mod:`chaos.base.ticks`).

Beside the leader the other cluster managers are asked whom they take for the leader, which costs next to nothing: a
leader that was cut off believes in itself for long, and its successor would be seen by the fifth second only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any

from chaos.base.guarding import Guard, Lasting
from chaos.base.ticks import Ticks
from chaos.checks.instrument import Begins, ClusterSight, ClusterViews, Context, Ends, Instrument, Observer
from chaos.definitions.experiment import Guards
from chaos.history.events import (
    ClusterLeader,
    ClusterStatus,
    IndexRouting,
    NodeJoined,
    NodeLeft,
    NodesCpu,
    NodesProcessors,
    NodesServed,
    Note,
    Primary,
    PrimaryPromoted,
    Recovery,
    Sample,
    ShardMoved,
    ShardStarted,
    ShardUnassigned,
)
from chaos.history.writer import Events
from chaos.opensearch import counters
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.requests import belongs
from chaos.opensearch.reused import Reused
from chaos.opensearch.views import Counts, View, another_leader, everything, newest, view

PERIOD_SECONDS = 1.0
TIMEOUT_SECONDS = 1.5
ALL_NODES_EVERY = 5
"""In between the known leader alone is asked: views cost processor time, which a lab's nodes share with the load. So do
shards in them, which are asked for where the state has changed."""
OLD_SECONDS = 90.0
"""For so long a state that is older than one that was seen is passed over: without a majority who led then gives up
sooner (three checks of 10 s and a publication of 30 s, with stock settings)."""
RECOVERIES_SECONDS = 5.0
WORK_EVERY = 2
"""Turns between two questions to the data nodes how much processor time they have used: 4 ms of it each (measured)."""

Answers = dict[str, float | None]
"""Node → milliseconds until its view was there; None: not in time."""


class ClusterRed(Lasting):
    """``cluster.red``: red, or led by nobody after red, for longer."""

    name = "cluster.red"
    says = "the cluster was red for longer than {}"


class Sampler(Observer, ClusterSight, ClusterViews):
    """Runs in a thread of its own from :meth:`start` to :meth:`stop`."""

    def __init__(
        self, lab: Cluster, events: Events, index: str, counted: Counts = everything, others: Iterable[str] = ()
    ) -> None:
        """``index``: the load's first; ``others``: its others, whose copies are watched too. Under each name there may
        be several, made while the load lasts (:mod:`chaos.opensearch.rollover`)."""
        self._events, self._index, self._counted = events, index, counted
        self._names = frozenset((index, *others))
        self._ours: dict[str, bool] = {}
        self._lab = Reused(lab)
        self._zones = {node.name: node.zone for node in lab.topology.nodes}
        self._viewers = lab.viewers
        managers = [node.name for node in lab.topology.nodes if node.is_cluster_manager]
        self._managers = [name for name in managers if name in self._viewers]
        self._data = [node.name for node in lab.topology.nodes if node.is_data]
        self._weighted = lab.topology.weights is not None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._ticks = Ticks()
        self._nodes: frozenset[str] | None = None
        self.heard = time.monotonic()
        self._views: dict[str, View] = {}
        """Node → what it believed when it last answered."""
        self._leader: str | None = None
        self._status: str | None = None
        self._copies: dict[tuple[str, int, str], tuple[str, bool]] = {}
        self._unassigned: dict[tuple[str, int], int] = {}
        self._homes: set[tuple[str, int, str]] | None = None
        self._settled: dict[str, float] = {}
        """The indices whose homes are known, and since when (seconds since 1970)."""
        self._primaries: dict[tuple[str, int], str | None] = {}
        self._rivals: dict[str, Future[bool]] = {}
        self._since = time.time()
        self._known: set[tuple[str, int, str, int]] = set()
        self._writing = threading.Lock()
        self._green_again = False
        self._told: list[Callable[[View], None]] = []
        self.red_since: float | None = None
        self.status = "unknown"
        self.worse: int | None = None
        self.version = 0
        """Of the newest state that was seen: the leader itself applies one last, and shows the one before so long."""
        self._cluster: str | None = None
        """The UUID of the cluster whose state that is."""

    def tell(self, told: Callable[[View], None]) -> None:
        self._told.append(told)

    def word(self) -> str:
        return f"cluster {self.status}"

    def guards(self, wanted: Guards) -> Sequence[Guard]:
        if wanted.cluster_red is None:
            return ()
        return [ClusterRed(float(wanted.cluster_red), wanted.cluster_red.text, lambda: self.red_since)]

    def start(self) -> None:
        self._since, self.heard = time.time(), time.monotonic()
        self._ticks = Ticks()  # what it says begins with it
        self._ticks.start()
        self._thread.start()

    def stop(self, *, patient: bool = True) -> None:
        self._stop.set()
        if self._thread.ident is None:
            return
        self._thread.join(10)
        self._ticks.stop()
        self._lab.end()

    def settled(self) -> bool:
        return self.returned()

    def _run(self) -> None:
        names = self._viewers
        work: Future[None] | None = None
        due = time.monotonic()
        # room for those that hang: whoever is asked beside the views must not keep a view waiting
        with ThreadPoolExecutor(3 * len(self._zones)) as pool:
            pool.submit(self._routing)
            pool.submit(self._processors)
            for turn in count():
                if self._stop.is_set():
                    return
                began = time.monotonic()
                late = began - due
                if turn % WORK_EVERY == 0 and (work is None or work.done()):
                    work = pool.submit(self._work)  # nobody waits for it: a paused node answers nothing
                try:
                    known = self._leader if self._leader in names else None
                    led = known is not None and self.status != "unknown"
                    alone = led and turn % ALL_NODES_EVERY != 0 and not self._contested(pool)
                    whom = [known] if alone and known else names
                    counting = [] if alone else self._count(pool)
                    answers: Answers = {}
                    seen = self._ask(pool, whom, answers)
                    if alone and not (seen and seen[0].leader == self._leader and seen[0].version >= self.version):
                        seen = self._ask(pool, names, answers)
                    self._take(seen, answers, late)
                    self._served(counting)
                    if self._green_again:
                        self._green_again = False
                        pool.submit(self.returned)
                except Exception as error:  # a sampler that dies in silence would look like calm
                    with suppress(OSError):  # a full disk must not end the watch
                        Note(says=f"sampler: {type(error).__name__}: {error}").write(self._events)
                pause = max(0.05, PERIOD_SECONDS - (time.monotonic() - began))
                due = time.monotonic() + pause
                self._stop.wait(pause)

    def _ask(self, pool: ThreadPoolExecutor, names: Iterable[str], took: Answers) -> list[View]:
        def ask(name: str) -> tuple[str, View | None, float]:
            began = time.monotonic()
            found = view(self._lab, name, TIMEOUT_SECONDS, self._views.get(name))
            if found is not None:
                self._views[name] = found
            return name, found, (time.monotonic() - began) * 1000

        seen = []
        for name, found, milliseconds in pool.map(ask, names):
            took[name] = None if found is None else round(milliseconds, 1)
            if found is not None:
                seen.append(found)
        return seen

    def _contested(self, pool: ThreadPoolExecutor) -> bool:
        """Whether a cluster manager took another node for the leader when it was last asked; asks anew."""
        leader, contested = self._leader, False
        for name in self._managers:
            last = self._rivals.get(name)
            if last is not None and last.done():
                contested |= last.exception() is None and last.result()
            if leader is not None and name != leader and (last is None or last.done()):
                self._rivals[name] = pool.submit(another_leader, self._lab, name, leader)
            elif last is not None and last.done():
                del self._rivals[name]
        return contested

    def _routing(self) -> None:
        """Write down how the load's index is routed, by the first node that says so."""
        for name in self._zones:
            if found := counters.routing(self._lab, name, self._index, TIMEOUT_SECONDS):
                with suppress(OSError):
                    IndexRouting(index=self._index, **found).write(self._events)
                return

    def _processors(self) -> None:
        """Write down how many processors each node may use, by the first node that says so."""
        for name in self._zones:
            if found := counters.processors(self._lab, name, TIMEOUT_SECONDS):
                with suppress(OSError):
                    NodesProcessors(nodes=found).write(self._events)
                return

    def _work(self) -> None:
        """Write down how much processor time the data nodes that answer have used."""
        asked = {name: counters.process_time(self._lab, name, TIMEOUT_SECONDS) for name in self._data}
        if found := {name: spent for name, spent in asked.items() if spent is not None}:
            with suppress(OSError):
                NodesCpu(nodes=found).write(self._events)

    def _count(self, pool: ThreadPoolExecutor) -> list[tuple[str, Future[dict[str, int] | None]]]:
        """Ask the data nodes what they served, where zones have weights: only then it tells anything."""
        if not self._weighted:
            return []
        return [(name, pool.submit(counters.served, self._lab, name, TIMEOUT_SECONDS)) for name in self._data]

    def _served(self, counting: list[tuple[str, Future[dict[str, int] | None]]]) -> None:
        found = {name: counted for name, future in counting if (counted := future.result()) is not None}
        if found:
            NodesServed(nodes=found).write(self._events)

    def returned(self) -> bool:
        """Write down how copies that came back were recovered. Called whenever the cluster is green again.

        False when no node answered: what is not known stays unknown, and is asked for the next time.
        """
        asked = [self._leader] if self._leader in self._viewers else []
        for name in [*asked, *(name for name in self._managers or self._viewers if name not in asked)]:
            if self._stop.is_set():
                return False
            found = counters.recoveries(self._lab, name, self._index, self._since, RECOVERIES_SECONDS)
            if found is None:
                continue
            with self._writing:
                for each in found:
                    new = self._since if self._homes is None else float("inf")
                    if each["started_ms"] / 1000 < self._settled.get(each["index"], new):
                        continue  # so an index that was made meanwhile got its first copies
                    key = (each["index"], each["shard"], each["node"], each["started_ms"])
                    if key not in self._known and each["stage"] == "DONE":
                        self._known.add(key)
                        with suppress(OSError):
                            Recovery(**each).write(self._events)
            return True
        return False

    def _take(self, seen: list[View], answers: Answers | None = None, late: float = 0.0) -> None:
        best = newest(seen)
        old = best is not None and self._is_old(best)
        status = self.status if old else self._counted(best).status if best else "unknown"
        members = self._nodes if old else best.nodes if best else None
        Sample(
            ok=len(seen),
            led=sum(each.leader is not None for each in seen),
            status=status,
            nodes=len(members or ()),
            answers=answers or {},
            late_ms=round(late * 1000, 1),
            pulse=self._ticks.taken(),
        ).write(self._events)
        if old:
            return
        if status == "red":
            self.red_since = self.red_since or time.monotonic()
        elif status != "unknown":  # nobody led is no better than red
            self.red_since = None
        self.status = status
        if status != self._status:
            self._green_again = status == "green" and self._status is not None
            if status in ("yellow", "red"):
                self.worse = time.monotonic_ns()
            ClusterStatus(status=status).write(self._events)
            self._status = status
        leader = best.leader if best else None
        if seen and leader != self._leader:  # a look that no node answers says nothing of it
            ClusterLeader(leader=leader).write(self._events)
            self._leader = leader
        if best is None:
            return
        self.heard = time.monotonic()
        self.version = best.version
        for told in self._told:
            told(best)
        if self._nodes is not None:
            for name in sorted(self._nodes - best.nodes):
                self.worse = time.monotonic_ns()
                NodeLeft(node=name, zone=self._zones.get(name)).write(self._events)
            for name in sorted(best.nodes - self._nodes):
                NodeJoined(node=name, zone=self._zones.get(name)).write(self._events)
        self._nodes = best.nodes
        self._shards(best)

    def _is_old(self, best: View) -> bool:
        """Whether a newer state of the same cluster was seen, and not long ago: what was seen then still stands.

        A cluster that is formed anew, with another UUID, counts its states anew."""
        if best.cluster not in (None, self._cluster):
            self._cluster, self.version = best.cluster, 0
        return best.version < self.version and time.monotonic() - self.heard < OLD_SECONDS

    def _is_ours(self, index: str) -> bool:
        known = self._ours.get(index)
        if known is None:
            known = self._ours[index] = any(belongs(index, name) for name in self._names)
        return known

    def _shards(self, best: View) -> None:
        held: dict[tuple[str, int, str], tuple[str, bool]] = {}
        unassigned: dict[tuple[str, int], int] = {}
        for copy in best.copies:
            if not self._is_ours(copy.index):
                continue
            if copy.node is None:
                unassigned[(copy.index, copy.shard)] = unassigned.get((copy.index, copy.shard), 0) + 1
            else:
                held[(copy.index, copy.shard, copy.node)] = (copy.state, copy.primary)
                if copy.relocating_to:
                    held.setdefault((copy.index, copy.shard, copy.relocating_to), ("INITIALIZING", False))
        if self._homes is None:
            if held and not unassigned:
                self._homes = set(held)
                self._settled = dict.fromkeys((index for index, _, _ in held), self._since)
        else:
            # where an index that is made meanwhile first has all its copies, there they are at home
            for index in {index for index, _, _ in held} - set(self._settled) - {index for index, _ in unassigned}:
                self._homes |= {place for place in held if place[0] == index}
                self._settled[index] = time.time()
            for index, shard, node in sorted(set(held) - set(self._copies)):
                if (index, shard, node) not in self._homes and index in self._settled:
                    ShardMoved(index=index, shard=shard, node=node).write(self._events)
        for (index, shard, node), (state, primary) in sorted(held.items()):
            before: tuple[str, bool] | None = self._copies.get((index, shard, node))
            if state == "STARTED" and self._copies and (before is None or before[0] != "STARTED"):
                ShardStarted(index=index, shard=shard, node=node, primary=primary).write(self._events)
            if before is not None and primary and not before[1]:
                PrimaryPromoted(index=index, shard=shard, node=node).write(self._events)
        for key in sorted({(index, shard) for index, shard, _ in held} | set(unassigned) | set(self._primaries)):
            active = [n for (i, s, n), (state, p) in held.items() if (i, s) == key and p and state != "INITIALIZING"]
            where = active[0] if active else None
            if key not in self._primaries or self._primaries[key] != where:
                self._primaries[key] = where
                Primary(index=key[0], shard=key[1], node=where).write(self._events)
        for (index, shard), missing in sorted(unassigned.items()):
            if missing > self._unassigned.get((index, shard), 0):
                lost_primary = not any(p for (i, s, _), (_, p) in held.items() if (i, s) == (index, shard))
                lost = ShardUnassigned(index=index, shard=shard, primary=lost_primary, copies=missing)
                lost.write(self._events)
        self._copies, self._unassigned = held, unassigned

    @property
    def nodes(self) -> frozenset[str] | None:
        """Who was in the cluster when it last answered; None: it has not yet."""
        return self._nodes

    def homes(self) -> list[dict[str, Any]]:
        """Which nodes held a copy of which shard when the load began, or its index did."""
        return [{"index": i, "shard": s, "node": n} for i, s, n in sorted(self._homes or ())]


def _observe(context: Context) -> Sampler:
    return Sampler(context.lab, context.events, context.index, context.counted, context.indices)


INSTRUMENT = Instrument(
    name="sampler",
    says="how the cluster is: its state, leader, nodes and copies, once a second",
    observe=_observe,
    begins=Begins.INDEX,
    ends=Ends.LOAD,
    order=70,
    answers=("cluster.red",),
)
