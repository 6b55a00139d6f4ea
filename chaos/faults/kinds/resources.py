"""Node faults of want: too little processor time, no room for file pages, no memory, a heap full of answers.

The first three are limits of the node's control group. A limit's inverse holds the values that were there when the
fault was made (:meth:`Limited.on`), so whatever a lab had before comes back. Heap pressure is made by real searches
whose answers nobody reads: a node keeps an answer on its heap until its client has taken the last byte.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, ClassVar

import urllib3
from pydantic import Field, field_validator

from chaos.base.errors import LabError
from chaos.base.units import Malformed, Percent, PositivePercent, PositiveSize, Size, at_least
from chaos.definitions.steps import Scene
from chaos.definitions.topology import Topology
from chaos.faults.echoes import Http
from chaos.faults.evidence import Evidence, Look, Others, Probe, ProcessEvidence, Simple
from chaos.faults.fault import Fault
from chaos.faults.kind import NodeFault
from chaos.faults.kinds.node import OnProcess
from chaos.faults.moves import Move, Reversible, on_node, operation
from chaos.faults.probes import Pair
from chaos.opensearch.rest import UNREADABLE
from chaos.opensearch.views import administer
from chaos.target.protocol import Lab
from chaos.target.wiring import Wiring

MEBI = 1 << 20
AMBER = "#b7791f"


@operation("limits.restore")
def _restore_limits(lab: Lab, node: str, resource: str, values: dict[str, str]) -> None:
    lab.restore_limits(node, resource, values)


@operation("processors.limit")
def _limit_processors(lab: Lab, node: str, processors: float) -> None:
    lab.limit_processors(node, processors)


@operation("memory.squeeze")
def _squeeze_memory(lab: Lab, node: str, headroom: int) -> None:
    lab.squeeze_memory(node, headroom)


@operation("memory.exhaust")
def _exhaust_memory(lab: Lab, node: str) -> None:
    lab.exhaust_memory(node)


class Limited(NodeFault):
    """A fault that changes the limits of whole nodes' control groups."""

    resource: ClassVar[str]
    holding = (
        "every two seconds the limits of its nodes and of all others, as the kernel has them; before the undo all "
        "of its proof too"
    )

    def limit(self, node: str) -> Move:
        raise NotImplementedError

    def evidence(self, nodes: tuple[str, ...], topology: Topology) -> Evidence:
        raise NotImplementedError

    def moves(self, node: str) -> list[Reversible]:
        return [Reversible(self.limit(node), restore(node, self.resource, {}))]

    def build(self, id: str, scene: Scene, wiring: Wiring) -> Fault:
        nodes = scene.nodes(self.target)
        moves = tuple(move for node in nodes for move in self.moves(node))
        return self.made(
            id,
            scene,
            moves,
            lambda: self.evidence(nodes, scene.topology),
            nodes=nodes,
            read=lambda lab: tuple(_with_values(each, lab) for each in moves),  # undo restores what limits it then
        )


def restore(node: str, resource: str, values: dict[str, str]) -> Move:
    return Move("limits.restore", {"node": node, "resource": resource, "values": values})


def _with_values(both: Reversible, lab: Lab) -> Reversible:
    if both.inverse is None or both.inverse.operation != "limits.restore":
        return both
    node, resource = both.inverse.arguments["node"], both.inverse.arguments["resource"]
    return Reversible(both.move, restore(node, resource, lab.limits(node, resource)))


# ------------------------------------------------------------------------------------------ processor time

WATCHED_SECONDS = 2.0
"""How long the use of processor time is measured: twenty periods of a quota."""
QUOTA_TOLERANCE = 0.15
SLICE_SECONDS = 0.010
"""A kernel hands a quota out in slices of 5 ms a processor; what it handed out before counts when it is used."""
ASKERS = 4


def ask_in_parallel(lab: Lab, node: str, seconds: float, askers: int = ASKERS) -> int:
    """Requests that cost a node some processor time, for so long, over the direct path; how many were answered."""
    end = time.monotonic() + seconds

    def ask(_: int) -> int:
        answered = 0
        client = lab.client(node, timeout=1.0)
        while time.monotonic() < end:
            try:
                answered += client.request("GET", "/_nodes/_local/stats")[0] == 200
            except urllib3.exceptions.HTTPError:
                continue
        client.close()
        return answered

    with ThreadPoolExecutor(askers) as pool:
        return sum(pool.map(ask, range(askers)))


class StarvationEvidence(Simple):
    """The group's own use of processor time under a demand that the probe makes; what the kernel throttled."""

    effect_deadline = 20.0
    gone_deadline = 60.0

    def __init__(self, nodes: tuple[str, ...], processors: float) -> None:
        self._nodes, self._processors = nodes, processors
        self._values: dict[str, dict[str, str]] = {}
        self._made: dict[str, dict[str, str]] = {}
        self.others = Others(nodes, limits="cpu")

    def before(self, lab: Lab) -> Look:
        self.others.remember(lab)
        self._values = {node: lab.limits(node, "cpu") for node in self._nodes}
        return ProcessEvidence(list(self._nodes)).before(lab)

    def _measure(self, lab: Lab, node: str) -> tuple[float, int, int]:
        """Processors used, periods throttled, requests answered, over :data:`WATCHED_SECONDS` or a bit more."""
        began, first = time.monotonic(), lab.processor_use(node)
        answered = ask_in_parallel(lab, node, WATCHED_SECONDS)
        wall, last = time.monotonic() - began, lab.processor_use(node)
        return (last.seconds - first.seconds) / wall, last.throttled - first.throttled, answered

    def in_effect(self, lab: Lab) -> Look:
        probes = []
        most = self._processors * (1 + QUOTA_TOLERANCE) + SLICE_SECONDS / WATCHED_SECONDS
        for node in self._nodes:
            used, throttled, _ = self._measure(lab, node)
            what = f"processor time of {node} under {ASKERS} requests at a time"
            limit = f"at most {most:.1%} of a processor"
            probes.append(Probe(what, limit, f"{used:.1%}", used <= most, about=node))
            grew = throttled > 0
            probes.append(Probe(f"throttled periods of {node}", "they grow", f"+{throttled}", grew, about=node))
        self._made = self._made or _made(lab, "cpu", self._values)
        return _look(probes, "signs of a quota")

    def still(self, lab: Lab) -> Look | None:
        return _look(_limits_as_made(lab, "cpu", self._made) + self.others.cheap(lab, self._beside_nodes), "limits")

    def gone(self, lab: Lab) -> Look:
        probes = _limits_as_before(lab, "cpu", self._values)
        for node in self._nodes:
            _, throttled, answered = self._measure(lab, node)
            probes.append(Probe(f"throttled periods of {node}", "none more", f"+{throttled}", throttled == 0))
            probes.append(Probe(f"requests to {node}", "answered", f"{answered} answered", answered > 0))
        return _look(probes, "signs of no quota")


class NodeCpuStarvation(Limited):
    """The node gets a small part of one processor's time, and no more whatever is free."""

    kind = "node.cpu_starvation"
    resource = "cpu"
    examples = ({"target": "node c-data", "quota": "20%"},)
    mechanism = "quota of the node's control group (version 1 cpu.cfs_quota_us, version 2 cpu.max), per 100 ms"
    undoing = "the quota that was there, or none"
    proof = (
        "under requests in parallel the group uses no more than its quota, and periods are throttled; later none are"
    )
    needs = ("cpu",)
    colour = AMBER
    quota: Annotated[PositivePercent, at_least(Percent(0.01), "is less than the kernel's least quota")] = Field(
        description="of one processor, for example 10%"
    )

    def describe(self) -> str:
        return f"at most {self.quota.text} of one processor for {self.target.text}"

    def limit(self, node: str) -> Move:
        return Move("processors.limit", {"node": node, "processors": float(self.quota)})

    def evidence(self, nodes: tuple[str, ...], topology: Topology) -> Evidence:
        return StarvationEvidence(nodes, float(self.quota))


# ----------------------------------------------------------------------------------------------- memory


class SqueezeEvidence(Simple):
    """Files read beside the node, in its limits: the second time costs major faults only where they did not fit."""

    effect_deadline = 30.0
    gone_deadline = 60.0

    def __init__(self, nodes: tuple[str, ...], sizes: dict[str, int]) -> None:
        self._nodes, self._sizes = nodes, sizes
        self._values: dict[str, dict[str, str]] = {}
        self._made: dict[str, dict[str, str]] = {}
        self.others = Others(nodes, limits="memory")
        self._kills: dict[str, int] = {}

    def _measure(self, lab: Lab, node: str) -> tuple[int, int, int]:
        """Failures at the limit, major faults of the second reading, kills since before."""
        first = lab.memory_use(node)
        again = lab.read_files(node, self._sizes[node])
        last = lab.memory_use(node)
        return last.failures - first.failures, again, last.oom_kills - self._kills.get(node, last.oom_kills)

    def before(self, lab: Lab) -> Look:
        self.others.remember(lab)
        self._values = {node: lab.limits(node, "memory") for node in self._nodes}
        self._kills = {node: lab.memory_use(node).oom_kills for node in self._nodes}
        return _look([probe for node in self._nodes for probe in self._roomy(lab, node)], "signs of enough room")

    def _roomy(self, lab: Lab, node: str) -> Iterator[Probe]:
        failures, again, kills = self._measure(lab, node)
        yield Probe(f"failures of {node} at the limit", "none more", f"+{failures}", failures == 0)
        size = self._sizes[node] // MEBI
        yield Probe(f"second reading of {size} MiB beside {node}", "no major fault", f"{again}", again == 0)
        yield Probe(f"kills in the group of {node}", "none", f"{kills}", kills == 0)

    def in_effect(self, lab: Lab) -> Look:
        probes = []
        for node in self._nodes:
            failures, again, kills = self._measure(lab, node)
            grew = failures > 0
            probes.append(Probe(f"failures of {node} at the limit", "they grow", f"+{failures}", grew, about=node))
            what = f"second reading of {self._sizes[node] // MEBI} MiB beside {node}"
            probes.append(Probe(what, "major faults", f"{again} major faults", again > 0, about=node))
            probes.append(self._alive(lab, node, kills))
        self._made = self._made or _made(lab, "memory", self._values)
        return _look(probes, "signs of a squeezed page cache")

    @staticmethod
    def _alive(lab: Lab, node: str, kills: int) -> Probe:
        state = lab.process_state(node)
        alive = state is not None and kills == 0
        return Probe(
            f"process of {node}", "runs, none killed", f"state {state}, {kills} killed", alive, about=f"life of {node}"
        )

    def still(self, lab: Lab) -> Look | None:
        probes = _limits_as_made(lab, "memory", self._made) + self.others.cheap(lab, self._beside_nodes)
        return _look(probes, "limits")

    def gone(self, lab: Lab) -> Look:
        probes = _limits_as_before(lab, "memory", self._values)
        probes += [probe for node in self._nodes for probe in self._roomy(lab, node)]
        return _look(probes, "signs of enough room")


class NodePageCacheSqueeze(Limited):
    """File pages of the node find little room: what is read again has to be read from disk again."""

    kind = "node.page_cache_squeeze"
    resource = "memory"
    examples = ({"target": "node c-data", "headroom": "32MiB"},)
    mechanism = (
        "limit of the node's control group (version 1 memory.limit_in_bytes with its killer off, "
        "version 2 memory.high): what it holds that is no file page, its untouched heap, and the headroom"
    )
    undoing = "the limit that was there, or none"
    proof = "failures at the limit grow, and files that are read twice cost major faults the second time too; later not"
    needs = ("memory",)
    colour = AMBER
    headroom: Annotated[PositiveSize, at_least(Size(8 * MEBI), "is too little to run in")] = Field(
        default=Size(32 * MEBI), description="room for file pages, for example 32MiB"
    )

    def describe(self) -> str:
        return f"{self.headroom.text} for the file pages of {self.target.text}"

    def limit(self, node: str) -> Move:
        return Move("memory.squeeze", {"node": node, "headroom": int(self.headroom)})

    def evidence(self, nodes: tuple[str, ...], topology: Topology) -> Evidence:
        heaps = {node.name: int(node.heap) for node in topology.nodes}
        return SqueezeEvidence(nodes, {node: heaps[node] + 2 * int(self.headroom) + 64 * MEBI for node in nodes})


class KilledForMemoryEvidence(Simple):
    """The kernel's counter of kills in the node's own group grew, and the process is gone; later it runs."""

    gone_deadline = ProcessEvidence.gone_deadline

    def __init__(self, nodes: tuple[str, ...]) -> None:
        self._nodes = nodes
        self._process = ProcessEvidence(list(nodes))
        self._values: dict[str, dict[str, str]] = {}
        self._kills: dict[str, int] = {}

    def beside(self, links: frozenset[Pair], nodes: frozenset[str]) -> None:
        self._process.beside(links, nodes)

    def held(self, lab: Lab) -> Look:
        return self._process.with_others(lab, self.in_effect(lab))

    def still(self, lab: Lab) -> Look | None:
        return self._process.still(lab)

    def before(self, lab: Lab) -> Look:
        self._values = {node: lab.limits(node, "memory") for node in self._nodes}
        self._kills = {node: lab.memory_use(node).oom_kills for node in self._nodes}
        return self._process.before(lab)

    def in_effect(self, lab: Lab) -> Look:
        probes = []
        for node in self._nodes:
            kills = lab.memory_use(node).oom_kills - self._kills[node]
            what = f"kills for want of memory in the group of {node}"
            probes.append(Probe(what, "it grew", f"+{kills}", kills > 0, about=node))
        probes += self._process.in_effect(lab).probes
        return _look(probes, "signs of a kill for want of memory")

    def gone(self, lab: Lab) -> Look:
        probes = _limits_as_before(lab, "memory", self._values)
        return _look(probes + self._process.gone(lab).probes, "signs of life")


class NodeOutOfMemory(Limited):
    """The kernel kills the node's process for want of memory, in the node's own control group."""

    kind = "node.out_of_memory"
    resource = "memory"
    examples = ({"target": "node c-data"},)
    mechanism = (
        "limit of the node's control group just above what it holds, and in the group a small process that takes "
        "the rest: the kernel kills the larger of the two, which is the node's"
    )
    undoing = "the limit that was there comes back and the node starts again on its data"
    proof = "the kernel's counter of kills in that group grows and the process is gone; later it is in the cluster"
    holding = OnProcess.holding
    needs = ("memory", "process")

    def describe(self) -> str:
        return f"the kernel kills {self.target.text} for want of memory"

    def limit(self, node: str) -> Move:
        return Move("memory.exhaust", {"node": node})

    def moves(self, node: str) -> list[Reversible]:
        start = on_node("node.start", "node.start", node)
        # undone last first: the limit is back before the node starts
        return [Reversible(Move("nothing", {"node": node}), start.inverse), *super().moves(node)]

    def evidence(self, nodes: tuple[str, ...], topology: Topology) -> Evidence:
        return KilledForMemoryEvidence(nodes)


def _limits_as_before(lab: Lab, resource: str, before: dict[str, dict[str, str]]) -> list[Probe]:
    probes = []
    for node, values in before.items():
        now = lab.limits(node, resource)
        probes.append(Probe(f"{resource} limits of {node}", _words(values), _words(now), now == values))
    return probes


def _made(lab: Lab, resource: str, before: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """What limits the nodes now that a fault is on them, of those where that is something else than before."""
    now = {node: lab.limits(node, resource) for node in before}
    return {node: values for node, values in now.items() if values != before[node]}


def _limits_as_made(lab: Lab, resource: str, made: dict[str, dict[str, str]]) -> list[Probe]:
    probes = []
    for node, values in made.items():
        now = lab.limits(node, resource)
        probes.append(Probe(f"{resource} limits of {node}", _words(values), _words(now), now == values, about=node))
    return probes


def _words(values: dict[str, str]) -> str:
    return ", ".join(f"{file} {value}" for file, value in values.items())


def _look(probes: list[Probe], signs: str) -> Look:
    shown = sum(probe.ok for probe in probes)
    return Look(shown == len(probes), f"{shown} of {len(probes)} {signs}", probes)


# ------------------------------------------------------------------------------------------------- heap

DOCUMENT_BYTES = 128 * 1024
DOCUMENTS = 64
"""Of the pressure's own index: 8 MiB in one answer, and next to nothing on disk, because it compresses well."""
ANSWERS_A_HEAP = 64
"""An answer is no more than this part of a heap: what it costs while it is made must find room beside the others."""
COPIES = 3
"""A node that makes an answer holds what it found and what it writes, and lets go of the first at some later time."""
BATCH = 8
ASK_AGAIN_SECONDS = 0.3
UNREAD_BYTES = 64 * 1024
"""Buffer of a connection on which nothing is read, so that the answer waits on the node's heap and not here."""
PARTS = ("jvm.timestamp", "jvm.mem", "jvm.gc", "breakers")
STATS = f"/_nodes/_local/stats/jvm,breaker?filter_path={','.join(f'nodes.*.{part}' for part in PARTS)}"


@operation("pressure.index")
def _pressure_index(lab: Lab, index: str, on: list[str]) -> None:
    """An index of large documents, its one shard on one of the nodes ``on`` (anywhere when empty)."""
    settings: dict[str, Any] = {"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "-1"}
    if on:
        settings["routing.allocation.include._name"] = ",".join(on)
    body = {"settings": {"index": settings}, "mappings": {"enabled": False}}
    status, answer = administer(lab, "PUT", f"/{index}", body)
    if status != 200 and "resource_already_exists" not in str(answer):
        raise LabError(f"creating the index {index} answered {status}: {str(answer)[:300]}")
    document = json.dumps({"text": "x" * DOCUMENT_BYTES})
    for first in range(0, DOCUMENTS, BATCH):
        rows = [f'{{"index": {{"_id": "{n}"}}}}\n{document}\n' for n in range(first, first + BATCH)]
        status, answer = administer(lab, "POST", f"/{index}/_bulk", "".join(rows))
        if status != 200 or answer.get("errors"):
            raise LabError(f"filling the index {index} answered {status}: {str(answer)[:300]}")
    status, answer = administer(lab, "POST", f"/{index}/_refresh")
    if status != 200:
        raise LabError(f"refreshing the index {index} answered {status}: {str(answer)[:300]}")


class Heap:
    """What a node says of its heap. ``used`` is a fraction of ``most``, bytes that it may have.

    ``measured`` is when, in milliseconds of the node's own clock: a node measures once a second and repeats itself.
    """

    def __init__(self, stats: dict[str, Any]) -> None:
        (node,) = stats["nodes"].values()
        memory = node["jvm"]["mem"]
        self.measured = int(node["jvm"]["timestamp"])
        self.most = int(memory["heap_max_in_bytes"])
        self.used = memory["heap_used_in_bytes"] / self.most
        self.tripped = sum(int(breaker["tripped"]) for breaker in node["breakers"].values())
        self.full_collections = int(node["jvm"]["gc"]["collectors"]["old"]["collection_count"])

    @classmethod
    def of(cls, lab: Lab, node: str, timeout: float = 5.0) -> Heap | None:
        """None when the node does not answer in time, which a full heap may cause."""
        client = lab.client(node, timeout=timeout)
        try:
            status, stats = client.request("GET", STATS)
            return cls(stats) if status == 200 else None
        except (urllib3.exceptions.HTTPError, *UNREADABLE):
            return None
        finally:
            client.close()


def fitting(heap: Heap, above: float) -> tuple[int, int]:
    """Documents in an answer, and how many answers may be made before the heap is measured again; at least one."""
    documents = max(1, min(DOCUMENTS, heap.most // ANSWERS_A_HEAP // DOCUMENT_BYTES))
    room = (above - heap.used) * heap.most
    return documents, max(1, int(room // (COPIES * documents * DOCUMENT_BYTES)))


class UnreadAnswers:
    """A worker: searches to each node whose answers it never reads, as many as it takes to hold the heap so full.

    No search is sent on a figure from before the last answer, and never more than fit between it and the aim: a heap
    that is filled faster than it is measured ends the node.
    """

    def __init__(self, nodes: tuple[str, ...], index: str, above: float) -> None:
        self._nodes, self._index, self._above = nodes, index, above
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self.unread: dict[str, int] = dict.fromkeys(nodes, 0)
        self.refused: dict[str, int] = dict.fromkeys(nodes, 0)

    def start(self, lab: Lab) -> None:
        self._threads = [
            threading.Thread(target=self._fill, args=(lab, node), name=f"heap of {node}", daemon=True)
            for node in self._nodes
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _fill(self, lab: Lab, node: str) -> None:
        held: list[socket.socket] = []
        old: int | None = None  # when the figure was measured that may be from before the last answer
        try:
            while not self._over.is_set():
                heap = Heap.of(lab, node, 2.0)
                if heap is not None and old is None:
                    old = heap.measured
                if heap is None or heap.measured == old or heap.used >= self._above:
                    self._over.wait(ASK_AGAIN_SECONDS)
                    continue
                documents, answers = fitting(heap, self._above)
                for _ in range(answers):
                    if self._over.is_set():
                        break
                    sock = self._search(lab, node, documents)
                    if sock is None:
                        self.refused[node] += 1
                        break
                    held.append(sock)
                    self.unread[node] = len(held)
                old = None
        finally:
            for sock in held:
                sock.close()
            self.unread[node] = 0

    def _search(self, lab: Lab, node: str, documents: int) -> socket.socket | None:
        """A connection on which an answer waits; None when the node refused or broke it off."""
        try:
            sock = lab.connect(node, (lab.wiring[node].loopback, 9200), 5.0)
        except OSError:
            return None
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, UNREAD_BYTES)
            sock.sendall(Http(lab.access.headers()).request(f"/{self._index}/_search?size={documents}"))
            if sock.recv(12) == b"HTTP/1.1 200":  # a server sends the first line whole
                return sock
        except OSError:
            pass
        sock.close()
        return None


class HeapEvidence(Simple):
    """The node's own figures: its heap stays as full as asked, or its breakers trip; later neither."""

    effect_deadline = 60.0
    gone_deadline = 120.0
    held_deadline = 12.0  # what was garbage is gone after a collection, and is filled again by figures a second old

    def __init__(self, worker: UnreadAnswers, nodes: tuple[str, ...], above: float) -> None:
        self._worker, self._nodes, self._above = worker, nodes, above
        self._before: dict[str, Heap] = {}
        self._lately: dict[str, tuple[float, Heap]] = {}
        """At the last look at whether it holds, and when (``time.monotonic``)."""
        self.others = Others(nodes)

    def before(self, lab: Lab) -> Look:
        self.others.remember(lab)
        probes = []
        for node in self._nodes:
            heap = Heap.of(lab, node)
            if heap is not None:
                self._before[node] = heap
            probes.append(Probe(f"heap of {node}", "told", _said(heap), heap is not None))
        return _look(probes, "nodes tell of their heap")

    def in_effect(self, lab: Lab) -> Look:
        return _look(self._full(lab, self._before), "signs of a full heap")

    def _full(self, lab: Lab, since: Mapping[str, Heap]) -> list[Probe]:
        probes = []
        for node in self._nodes:
            heap, before = Heap.of(lab, node), since.get(node)
            if heap is not None:
                self._lately[node] = time.monotonic(), heap
            tripped = heap is not None and before is not None and heap.tripped > before.tripped
            full = heap is not None and heap.used >= self._above
            expected = f"{self._above:.0%} used or more, or a breaker that tripped"
            probes.append(Probe(f"heap of {node}", expected, _said(heap, before), full or tripped, about=node))
            probes += self._at_work(lab, node)
        return probes

    def _at_work(self, lab: Lab, node: str) -> list[Probe]:
        runs, unread = lab.process_state(node) is not None, self._worker.unread[node]
        return [
            Probe(f"process of {node}", "runs", "runs" if runs else "gone", runs, about=node),
            Probe(f"answers that wait on {node}", "at least one", f"{unread}", unread > 0, about=node),
        ]

    def held(self, lab: Lab) -> Look:
        """Breakers that tripped long before tell nothing of now: those count that tripped a moment ago."""
        now = time.monotonic()
        since = {node: heap for node, (t, heap) in self._lately.items() if now - t <= self.held_deadline}
        return self.with_others(lab, _look(self._full(lab, since), "signs of a full heap"))

    def still(self, lab: Lab) -> Look | None:
        probes = [probe for node in self._nodes for probe in self._at_work(lab, node)]
        return _look(probes + self.others.cheap(lab, self._beside_nodes), "signs of work")

    def gone(self, lab: Lab) -> Look:
        probes = []
        for node in self._nodes:
            first = Heap.of(lab, node)
            # what is garbage counts as used until it is collected: ask until the node has to collect it
            answered = ask_in_parallel(lab, node, 1.0)
            heap = Heap.of(lab, node)
            used = heap is not None and heap.used < self._above
            probes.append(Probe(f"heap of {node}", f"less than {self._above:.0%} used", _said(heap), used))
            calm = first is not None and heap is not None and heap.tripped == first.tripped
            probes.append(Probe(f"breakers of {node}", "none tripped", _said(heap, first), calm))
            probes.append(Probe(f"requests to {node}", "answered", f"{answered} answered", answered > 0))
        return _look(probes, "signs of a heap with room")


def _said(heap: Heap | None, before: Heap | None = None) -> str:
    if heap is None:
        return "no answer"
    tripped = f", breakers tripped +{heap.tripped - before.tripped}" if before else ""
    return f"{heap.used:.0%} used{tripped}"


class NodeHeapPressure(NodeFault):
    """Searches with large answers that nobody reads fill the node's heap and keep it full."""

    kind = "node.heap_pressure"
    examples = ({"target": "node a-data", "above": "75%"},)
    mechanism = (
        "searches on an index of its own, sent to the node itself, whose answers of up to 8 MiB the client does not "
        "read: they stay on the heap"
    )
    undoing = "the connections close, the index is deleted, and a node that died of it starts again"
    proof = (
        "the node runs and its own statistics say: heap used as asked, or breakers that tripped; "
        "later less, and requests answered"
    )
    holding = (
        "every two seconds that the node runs and answers wait; before the undo its heap as it is then, or "
        "breakers that tripped a moment ago"
    )
    colour = AMBER
    above: Percent = Field(default=Percent(0.75), description="how much of the heap is to be used, for example 75%")

    @field_validator("above")
    @classmethod
    def _short_of_the_end(cls, value: Percent) -> Percent:
        if not 0.4 <= value <= 0.9:
            raise Malformed(f"{value.text} is no pressure or the end of the node: expected 40% to 90%")
        return value

    def describe(self) -> str:
        return f"heap of {self.target.text} {self.above.text} full of unread answers"

    def build(self, id: str, scene: Scene, wiring: Wiring) -> Fault:
        nodes = scene.nodes(self.target)
        data = {node.name for node in scene.topology.data_nodes}
        index = f"oschaos-pressure-{id}".lower()
        worker = UnreadAnswers(nodes, index, float(self.above))
        # a node without data answers all the same: it gathers the answer from the node that has the shard
        on = [node for node in nodes if node in data]
        fill = Reversible(Move("pressure.index", {"index": index, "on": on}), Move("index.delete", {"index": index}))
        started = [on_node("nothing", "node.start", node) for node in nodes]
        return self.made(
            id,
            scene,
            (*started, fill),
            lambda: HeapEvidence(worker, nodes, float(self.above)),
            nodes=nodes,
            worker=worker,
            read=lambda lab: (fill,) if lab.lacks("process") else (*started, fill),
        )
