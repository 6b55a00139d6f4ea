"""Asking the cluster's nodes again and again, each path in a thread of its own, and keeping what comes as signs.

A path that hangs delays no other. What is asked is next to nothing for a node: its own view of the cluster's health, a
document of a canary index from its own copy, its counters of write threads; and one small write a pair of zones.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from urllib.parse import quote

from chaos.opensearch.requests import document_path, write_alias
from chaos.programs.failover.rest import Answer, Api, Node
from chaos.programs.failover.signs import KEPT_SECONDS, Kind, Sign, Signs


@dataclass(frozen=True)
class Pace:
    """Seconds. An answer that takes longer than ``late`` is bad, and after ``timeout`` none is waited for.

    ``every`` while all is well, ``suspicious`` for a while after any bad answer: what is asked costs the cluster too.
    """

    every: float = 1.0
    suspicious: float = 0.5
    timeout: float = 0.5
    late: float = 0.25


class Path(threading.Thread):
    """One question, asked every so often until :meth:`stop`."""

    def __init__(self, name: str, watch: Watch, ask: Callable[[], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._watch, self._ask = watch, ask
        self._stopped = threading.Event()

    def run(self) -> None:
        due = time.monotonic()
        while not self._stopped.is_set():
            self._ask()
            due = max(due + self._watch.every, time.monotonic())
            self._stopped.wait(max(0.0, due - time.monotonic()))

    def stop(self) -> None:
        self._stopped.set()


BEAT = 0.05
"""Seconds."""
STILL = 0.1
"""Seconds by which a beat may be late; more, and this process stood still."""
SUSPICIOUS_SECONDS = 5.0
"""For so long after a bad answer all are asked oftener."""
Key = tuple[Kind, str, str]
"""What is asked for, of what, and at which addresses."""


def _addresses(nodes: list[Node]) -> str:
    return ",".join(sorted(node.address for node in nodes))


class Pulse(threading.Thread):
    """How late this process is for itself: who gets no processor takes others for slow."""

    def __init__(self) -> None:
        super().__init__(name="pulse", daemon=True)
        self._beats: deque[tuple[float, float]] = deque(maxlen=round(KEPT_SECONDS / BEAT))
        self._still: list[tuple[float, float]] = []
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.is_set():
            due = time.monotonic() + BEAT
            self._stopped.wait(BEAT)
            now = time.monotonic()
            self._beats.append((now, now - due))
            if now - due > STILL:
                self._still.append((due - BEAT, now))

    def worst(self, since: float) -> float:
        """The longest delay (s) since then, one that has not ended included."""
        beats = list(self._beats)
        last = beats[-1][0] if beats else time.monotonic()
        return max([late for at, late in beats if at >= since] + [time.monotonic() - last - BEAT, 0.0])

    def stood_still(self) -> list[tuple[float, float]]:
        """From when to when (s) this process stood still; each is told once."""
        told, self._still = self._still, []
        return told

    def stop(self) -> None:
        self._stopped.set()


class Watch:
    """Every path of every node that is watched. ``last`` holds each node's last answer to its probe."""

    def __init__(self, api: Api, signs: Signs, pace: Pace, me: str) -> None:
        self._api, self._signs, self._pace, self._me = api, signs, pace, me
        self._bad_at = float("-inf")
        self._pulse = Pulse()
        self._pulse.start()
        self._paths: dict[Key, Path] = {}
        self._asked: set[Key] = set()
        self._busy: dict[str, tuple[int, int]] = {}
        self.last: dict[str, tuple[float, Answer]] = {}
        self.holds: dict[str, str] = {}
        """Node → a canary index of which it holds a copy."""
        self.out: frozenset[str] = frozenset()
        """Zones that are decommissioned."""
        self.absent: frozenset[str] = frozenset()
        """Nodes that the cluster has given up. Nothing waits for them, so what the cluster cannot get of them says
        nothing more."""
        self.there: frozenset[str] = frozenset()
        """The canary indices that the cluster has. A write to another would make it, and not as a canary."""

    def cover(self, nodes: Iterable[Node], canaries: dict[str, tuple[str, str]]) -> None:
        """Watch exactly these nodes and canaries from now on."""
        nodes = list(nodes)
        wanted: dict[Key, Callable[[], None]] = {}
        for node in nodes:
            wanted["probe", node.name, node.address] = self._asking(self._probe, node)
            if not node.is_data:
                continue
            wanted["read", node.name, node.address] = self._asking(self._read, node)
            wanted["threads", node.name, node.address] = self._asking(self._threads, node)
            if others := [other for other in nodes if other.is_data and other.zone != node.zone]:
                wanted["peer", node.name, _addresses(others)] = self._through(node, others)
        for index, pair in canaries.items():
            inside = [node for node in nodes if node.is_data and node.zone in pair]
            wanted["write", index, _addresses(inside)] = self._writing(index, pair, inside)
        for key in [key for key in self._paths if key not in wanted]:
            self._paths.pop(key).stop()
        for kind, path in {key[:2] for key in self._asked} - {key[:2] for key in wanted}:
            self._signs.forget(path, kind)
        self._asked = set(wanted)
        for key, ask in wanted.items():
            if key not in self._paths:
                self._paths[key] = Path(" ".join(key), self, ask)
                self._paths[key].start()

    @property
    def suspicious(self) -> bool:
        """Whether any answer was bad a moment ago."""
        return time.monotonic() - self._bad_at < SUSPICIOUS_SECONDS

    @property
    def every(self) -> float:
        """Seconds between two questions of a path, now."""
        return self._pace.suspicious if self.suspicious else self._pace.every

    def stood_still(self) -> list[tuple[float, float]]:
        """From when to when (s) this process stood still, since this was last asked for."""
        return self._pulse.stood_still()

    def held_up(self, since: float) -> float:
        """The longest (s) that this process was late for itself since then."""
        return self._pulse.worst(since)

    def stop(self) -> None:
        self._pulse.stop()
        for path in self._paths.values():
            path.stop()

    def informants(self, now: float, zones_last: Iterable[str], nodes: Iterable[Node]) -> list[Node]:
        """Nodes that answered just now and had a cluster manager, those of suspect zones last.

        Data nodes first: they apply a new state when it is committed, the elected manager when its publication is over.
        """
        suspect = set(zones_last)
        fresh = 2 * self._pace.every + self._pace.timeout
        good = []
        for node in nodes:
            at, answer = self.last.get(node.name, (0.0, None))
            if answer is None or now - at > fresh or not answer.ok or not isinstance(answer.body, dict):
                continue
            if answer.body.get("discovered_cluster_manager"):
                good.append((node.zone in suspect, answer.seconds > self._pace.late, node.eligible, node.name, node))
        return [each[-1] for each in sorted(good, key=lambda each: each[:-1])]

    def note_member(self, node: Node, counted: bool) -> None:
        """Whether the cluster counted a node when it was read."""
        says = f"{node.name} is {'in' if counted else 'not in'} the cluster"
        self._signs.add([Sign(node.zone, "member", node.name, time.monotonic(), counted, says)])

    # ---- the questions ------------------------------------------------------------------------

    def _asking(self, question: Callable[[Node], None], node: Node) -> Callable[[], None]:
        return lambda: question(node)

    def _judge(self, zone: str, kind: Kind, path: str, at: float, answer: Answer) -> None:
        if not answer.trusted and kind in ("peer", "write"):
            return  # that is known of the node that was to be asked; what lies behind it was not reached
        ok = answer.ok or (kind == "write" and answer.status == 201)
        says = f"{path}: {answer.says}"
        if ok and answer.seconds > self._pace.late:
            ok, says = False, f"{says}, late"
        if not ok and zone not in self.out:
            self._bad_at = time.monotonic()
        self._signs.add([Sign(zone, kind, path, at, ok, says)])

    def _probe(self, node: Node) -> None:
        at = time.monotonic()
        path = "/_cluster/health?local=true&filter_path=status,discovered_cluster_manager"
        answer = self._api.ask(node, "GET", path, timeout=self._pace.timeout)
        self.last[node.name] = (at, answer)
        self._judge(node.zone, "probe", node.name, at, answer)

    def _through(self, node: Node, others: list[Node]) -> Callable[[], None]:
        """Ask for a node through nodes of the other zones, zone after zone: a bad zone spoils its own share only.

        While the zone is out the others know nothing of its nodes, but those still know the others: so they are asked
        for them.
        """
        zones = sorted({other.zone for other in others})
        turn = itertools.count()

        def ask() -> None:
            if node.name in self.absent:
                return
            number = next(turn)
            there = [other for other in others if other.zone == zones[number % len(zones)]]
            other = there[number // len(zones) % len(there)]
            through, asked = (node, other) if node.zone in self.out else (other, node)
            at = time.monotonic()
            path = f"/_nodes/{quote(asked.name, safe='')}/process?filter_path=_nodes.successful"
            answer = self._api.ask(through, "GET", path, timeout=self._pace.timeout)
            if answer.ok and (answer.body or {}).get("_nodes", {}).get("successful") != 1:
                answer = replace(answer, status=0, says=f"{answer.says}, which does not reach it")
            answer = replace(answer, says=f"{asked.name} through {through.name}: {answer.says}")
            self._judge(node.zone, "peer", node.name, at, answer)

        return ask

    def _read(self, node: Node) -> None:
        index = self.holds.get(node.name)
        if index is None or node.name in self.absent:
            return
        at = time.monotonic()
        path = f"/{index}/_doc/read?preference=_only_local&realtime=false"
        self._judge(node.zone, "read", node.name, at, self._api.ask(node, "GET", path, timeout=self._pace.timeout))

    def _threads(self, node: Node) -> None:
        """Threads that were busy a moment ago and are, and none of which has completed anything since.

        Asked for only while something is wrong: counters are no small answer of a node.
        """
        if not self.suspicious:
            return
        at = time.monotonic()
        path = "/_nodes/_local/stats/thread_pool?filter_path=nodes.*.thread_pool.write"
        answer = self._api.ask(node, "GET", path, timeout=self._pace.timeout)
        try:
            (pools,) = answer.body["nodes"].values()
            now = int(pools["thread_pool"]["write"]["active"]), int(pools["thread_pool"]["write"]["completed"])
        except (TypeError, KeyError, ValueError):
            return  # a node that does not answer is told by its probe
        before = self._busy.get(node.name)
        self._busy[node.name] = now
        stuck = before is not None and before[0] > 0 and now[0] > 0 and before[1] == now[1]
        says = f"{node.name}: {now[0]} write threads busy, {'nothing' if stuck else 'something'} completed"
        self._signs.add([Sign(node.zone, "threads", node.name, at, not stuck, says)])

    def _writing(self, index: str, pair: tuple[str, str], inside: list[Node]) -> Callable[[], None]:
        """A write through a node of each of the pair's zones in turn."""
        turns = itertools.count()

        def write() -> None:
            if index not in self.there:
                return
            turn = next(turns)
            through = [node for node in inside if node.zone == pair[turn % 2]]
            node = through[turn // 2 % len(through)]
            at = time.monotonic()
            body = {"by": self._me, "at": round(time.time(), 3)}
            path = document_path(index, self._me, "timeout=5s", write_alias(index))
            answer = self._api.ask(node, "PUT", path, body, timeout=self._pace.timeout)
            for zone in pair:
                self._judge(zone, "write", index, at, answer)

        return write
