"""Node faults of want: too little processor time, no room for file pages, no memory, a heap full of answers.

The first three are limits of the node's control group. Heap pressure is made by real searches whose answers nobody
reads.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, ClassVar

import urllib3
from pydantic import Field, field_validator

from chaos.base.units import Malformed, Percent, PositivePercent, PositiveSize, Size, at_least
from chaos.faults.evidence import Evidence, Look, Others, Probe, ProcessEvidence, Simple
from chaos.faults.kind import NodeFault
from chaos.faults.kinds.node import OnProcess
from chaos.faults.offers import Aim, Means
from chaos.faults.probes import Pair
from chaos.faults.unread import Heap, UnreadAnswers
from chaos.targets.protocol import Lab

MEBI = 1 << 20
AMBER = "#b7791f"


class Limited(NodeFault):
    """A fault that changes the limits of whole nodes' control groups."""

    resource: ClassVar[str]
    holding = (
        "every two seconds the limits of its nodes and of all others, as the kernel has them; before the undo all "
        "of its proof too"
    )


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
        self.others.remember(lab, self._beside_nodes)
        self._values = {node: lab.limits(node, "cpu") for node in self._nodes}
        return ProcessEvidence(list(self._nodes)).before(lab)

    def _measure(self, lab: Lab, node: str) -> tuple[float, int, int]:
        """Processors used, periods throttled, requests answered, over :data:`WATCHED_SECONDS` or a bit more."""
        first = lab.processor_use(node)
        answered = ask_in_parallel(lab, node, WATCHED_SECONDS)
        last = lab.processor_use(node)
        return (last.seconds - first.seconds) / (last.at - first.at), last.throttled - first.throttled, answered

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
    noticing = "hardly"
    resource = "cpu"
    examples = ({"target": "node c-data", "quota": "20%"},)
    proof = (
        "under requests in parallel the group uses no more than its quota, and periods are throttled; later none are"
    )
    colour = AMBER
    quota: Annotated[PositivePercent, at_least(Percent(0.01), "is less than the kernel's least quota")] = Field(
        description="of one processor, for example 10%"
    )

    def describe(self) -> str:
        return f"at most {self.quota.text} of one processor for {self.target.text}"

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return StarvationEvidence(aim.nodes, float(self.quota))


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
        self.others.remember(lab, self._beside_nodes)
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
    noticing = "hardly"
    resource = "memory"
    examples = ({"target": "node c-data", "headroom": "32MiB"},)
    proof = "failures at the limit grow, and files that are read twice cost major faults the second time too; later not"
    colour = AMBER
    headroom: Annotated[PositiveSize, at_least(Size(8 * MEBI), "is too little to run in")] = Field(
        default=Size(32 * MEBI), description="room for file pages, for example 32MiB"
    )

    def describe(self) -> str:
        return f"{self.headroom.text} for the file pages of {self.target.text}"

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        heaps = {node.name: int(node.heap) for node in aim.scene.topology.nodes}
        sizes = {node: heaps[node] + 2 * int(self.headroom) + 64 * MEBI for node in aim.nodes}
        return SqueezeEvidence(aim.nodes, sizes)


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
    noticing = "at once"
    resource = "memory"
    examples = ({"target": "node c-data"},)
    proof = "the kernel's counter of kills in that group grows and the process is gone; later it is in the cluster"
    holding = OnProcess.holding

    def describe(self) -> str:
        return f"the kernel kills {self.target.text} for want of memory"

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return KilledForMemoryEvidence(aim.nodes)


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
        self.others.remember(lab, self._beside_nodes)
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
    noticing = "hardly"
    examples = ({"target": "node a-data", "above": "75%"},)
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

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        assert isinstance(means.worker, UnreadAnswers)
        return HeapEvidence(means.worker, aim.nodes, float(self.above))
