"""The cluster sampler: every second it asks the leader, every fifth all nodes, for their view; writes down changes.

Its path is the direct one (a socket in the node's own namespace), which no fault touches. What it writes are events;
they explain a run and date its ladder of recovery, to the second of its period.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any

from chaos.faults.moves import Events
from chaos.lab.protocol import Lab
from chaos.observe.cluster import View, newest, view

PERIOD_SECONDS = 1.0
TIMEOUT_SECONDS = 1.5
ALL_NODES_EVERY = 5
"""In between the known leader alone is asked: views cost processor time, which a lab's nodes share with the load."""


class Sampler:
    """Runs in a thread of its own from :meth:`start` to :meth:`stop`."""

    def __init__(self, lab: Lab, events: Events, index: str) -> None:
        self._lab, self._events, self._index = lab, events, index
        self._zones = {node.name: node.zone for node in lab.topology.nodes}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._nodes: frozenset[str] | None = None
        self._leader: str | None = None
        self._status: str | None = None
        self._copies: dict[tuple[str, int, str], tuple[str, bool]] = {}
        self._unassigned: dict[tuple[str, int], int] = {}
        self._homes: set[tuple[str, int, str]] | None = None
        self.red_since: float | None = None
        """``time.monotonic()`` since when the cluster has been red, for the guard; None when it is not."""
        self.status = "unknown"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        names = list(self._zones)
        with ThreadPoolExecutor(len(names)) as pool:
            for turn in count():
                if self._stop.is_set():
                    return
                began = time.monotonic()
                try:
                    whom = [self._leader] if self._leader and turn % ALL_NODES_EVERY else names
                    seen = self._ask(pool, whom)
                    if whom is not names and not (seen and seen[0].leader == self._leader):
                        seen = self._ask(pool, names)
                    self._take(seen)
                except Exception as error:  # a sampler that dies in silence would look like calm
                    with suppress(OSError):  # a full disk must not end the watch
                        self._events.write("note", says=f"sampler: {type(error).__name__}: {error}")
                self._stop.wait(max(0.05, PERIOD_SECONDS - (time.monotonic() - began)))

    def _ask(self, pool: ThreadPoolExecutor, names: Iterable[str]) -> list[View]:
        answers = pool.map(lambda name: view(self._lab, name, TIMEOUT_SECONDS), names)
        return [each for each in answers if each is not None]

    def _take(self, seen: list[View]) -> None:
        best = newest(seen)
        status = best.status if best else "unknown"
        self._events.write(
            "sample",
            ok=len(seen),
            led=sum(each.leader is not None for each in seen),
            status=status,
            nodes=len(best.nodes) if best else 0,
        )
        if status == "red":
            self.red_since = self.red_since or time.monotonic()
        elif status != "unknown":  # nobody led is no better than red
            self.red_since = None
        self.status = status
        if status != self._status:
            self._events.write("cluster.status", status=status)
            self._status = status
        leader = best.leader if best else None
        if leader != self._leader:
            self._events.write("cluster.leader", leader=leader)
            self._leader = leader
        if best is None:
            return
        if self._nodes is not None:
            for name in sorted(self._nodes - best.nodes):
                self._events.write("cluster.node_left", node=name, zone=self._zones.get(name))
            for name in sorted(best.nodes - self._nodes):
                self._events.write("cluster.node_joined", node=name, zone=self._zones.get(name))
        self._nodes = best.nodes
        self._shards(best)

    def _shards(self, best: View) -> None:
        held: dict[tuple[str, int, str], tuple[str, bool]] = {}
        unassigned: dict[tuple[str, int], int] = {}
        for copy in best.copies:
            if copy.index != self._index:
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
        else:
            for index, shard, node in sorted(set(held) - set(self._copies)):
                if (index, shard, node) not in self._homes:
                    self._events.write("cluster.shard_moved", index=index, shard=shard, node=node)
        for (index, shard, node), (state, primary) in sorted(held.items()):
            before: tuple[str, bool] | None = self._copies.get((index, shard, node))
            if state == "STARTED" and self._copies and (before is None or before[0] != "STARTED"):
                self._events.write("cluster.shard_started", index=index, shard=shard, node=node, primary=primary)
            if before is not None and primary and not before[1]:
                self._events.write("cluster.primary_promoted", index=index, shard=shard, node=node)
        for (index, shard), missing in sorted(unassigned.items()):
            if missing > self._unassigned.get((index, shard), 0):
                lost_primary = not any(p for (i, s, _), (_, p) in held.items() if (i, s) == (index, shard))
                self._events.write(
                    "cluster.shard_unassigned", index=index, shard=shard, primary=lost_primary, copies=missing
                )
        self._copies, self._unassigned = held, unassigned

    def homes(self) -> list[dict[str, Any]]:
        """Which nodes held a copy of which shard when the load began."""
        return [{"index": i, "shard": s, "node": n} for i, s, n in sorted(self._homes or ())]
