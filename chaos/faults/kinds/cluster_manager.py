"""Cluster manager faults: quorum lost, leadership that flaps, storms of tasks and of administrative requests.

To kill, pause or isolate the elected one alone there are the node and network faults: ``elected cluster manager`` as
their target is whoever is elected at the moment of injecting.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from typing import Literal, get_args

import urllib3
from pydantic import Field, StrictInt

from chaos.base.errors import ChaosError
from chaos.base.units import PositiveDuration, PositiveRate
from chaos.definitions.base import OneOrMore
from chaos.definitions.selectors import NodeSelector
from chaos.definitions.steps import Reach, Scene
from chaos.definitions.topology import Topology
from chaos.faults.evidence import Evidence, Look, Probe, ProcessEvidence, Simple
from chaos.faults.flapping import Flapping
from chaos.faults.kind import Kind, link_claims, process_claims
from chaos.faults.kinds.node import OnProcess
from chaos.faults.offers import Aim, Means
from chaos.faults.probes import Line, Pair, Reply, together
from chaos.faults.storm import ENOUGH, Storm, Tally
from chaos.opensearch.administration import certain, indices_named
from chaos.opensearch.rest import UNREADABLE
from chaos.opensearch.views import NOBODY, administer, await_elected, leaders, newest, views
from chaos.targets.protocol import Lab
from chaos.targets.wiring import Wiring

AMBER = "#b7791f"


def quorum(topology: Topology) -> int:
    """How many cluster managers of the voting configuration must live. It has an odd size: of four, three vote."""
    count = len(topology.cluster_managers)
    voting = count if count % 2 else count - 1
    return voting // 2 + 1


class _ClusterManagerFault(Kind):
    """A fault on who leads the cluster, or on the work that the leader has."""

    family = "cluster manager"


# ---- quorum ---------------------------------------------------------------------------------------------


class QuorumLoss(_ClusterManagerFault):
    """A majority of the cluster managers goes at once, while every data node stays connected to every other."""

    kind = "cluster_manager.quorum_loss"
    examples = ({"how": "kill"}, {"how": "pause"})
    example_topology = "3az-tuned"
    proof = "their processes are gone or stopped, no data node knows a leader, and data nodes still reach each other"
    holding = OnProcess.holding
    how: Literal["kill", "pause"] = Field(default="kill", description="kill, or pause (SIGSTOP, found out later)")
    keep: StrictInt = Field(default=1, ge=0, description="how many cluster managers live on, fewer than a quorum")

    def describe(self) -> str:
        return f"{self.how} all cluster managers" + (f" but {self.keep}" if self.keep else "")

    def check(self, topology: Topology) -> list[str]:
        found = []
        managers, needed = topology.cluster_managers, quorum(topology)
        if self.keep >= needed:
            found.append(
                f"with {self.keep} of {len(managers)} cluster managers left there still is a quorum: "
                f"expected keep to be at most {needed - 1}"
            )
        if both := [node.name for node in managers if node.is_data]:
            found.append(
                f"{', '.join(both)} also hold{'s' if len(both) == 1 else ''} data, and a loss of quorum leaves the "
                "data nodes alone: expected a topology with dedicated cluster managers"
            )
        return found

    def victims(self, scene: Scene) -> tuple[str, ...]:
        """Drawn with the scene's seed, in the topology's order."""
        names = [node.name for node in scene.topology.cluster_managers]
        drawn = set(scene.rng.sample(names, max(len(names) - self.keep, 0)))
        return tuple(name for name in names if name in drawn)

    def claims(self, scene: Scene) -> frozenset[str]:
        """All cluster managers: one more fault on those that are kept would be another fault than this one."""
        return process_claims(tuple(node.name for node in scene.topology.cluster_managers))

    def aim(self, id: str, scene: Scene, wiring: Wiring) -> Aim:
        return Aim(id, scene, wiring, self.victims(scene))

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return QuorumEvidence(list(aim.nodes), paused=self.how == "pause")


class QuorumEvidence(ProcessEvidence):
    """The processes, and what every node that lives believes about who leads."""

    def __init__(self, nodes: list[str], *, paused: bool) -> None:
        super().__init__(nodes, paused=paused)
        # frozen ones are found out by three checks of 10 s and a publication that waits 30 s for them
        self.effect_deadline = 120.0 if paused else 30.0
        self._held: frozenset[str] = frozenset()
        self._links: frozenset[Pair] = frozenset()

    def beside(self, links: frozenset[Pair], nodes: frozenset[str]) -> None:
        super().beside(links, nodes)
        self._held, self._links = nodes, links | {(b, a) for a, b in links}

    def before(self, lab: Lab) -> Look:
        return self._led(lab, super().before(lab))

    def in_effect(self, lab: Lab) -> Look:
        look = super().in_effect(lab)
        if not look.proven:
            return look
        data = [node.name for node in lab.topology.data_nodes if node.name not in self._held]
        seen = leaders(lab)
        probes = [
            Probe(f"who leads, as {node} sees it", "nobody", _leader(seen[node]), seen[node] == NOBODY) for node in data
        ]
        lines = [Line(lab, (a, b)) for a in data for b in data if a != b and (a, b) not in self._links]
        for (a, b), echo in together(lines, 2.0).items():
            probes.append(Probe(f"ping {a} → {b}", "answered", str(echo), echo.reply is Reply.ANSWERED))
        for line in lines:
            line.close()
        shown = sum(probe.ok for probe in probes)
        says = f"{look.says}; {shown} of {len(probes)} signs that connected data nodes have no leader"
        return Look(bool(data) and shown == len(probes), says, [*look.probes, *probes])

    def gone(self, lab: Lab) -> Look:
        return self._led(lab, super().gone(lab))

    def _led(self, lab: Lab, look: Look) -> Look:
        if not look.proven:
            return look
        led, probes = _one_leader(lab, self._held)
        return Look(led is not None, f"{look.says}; {_leader(led)} leads all", [*look.probes, *probes])


def _leader(seen: str | None) -> str:
    return "no answer" if seen is None else "nobody" if seen == NOBODY else seen


def _one_leader(lab: Lab, held: frozenset[str] = frozenset()) -> tuple[str | None, list[Probe]]:
    """Whom all nodes take for the leader, None when they differ or some know none."""
    seen = {node: leader for node, leader in leaders(lab).items() if node not in held}
    led = next(iter(set(seen.values()))) if len(set(seen.values())) == 1 else None
    led = None if led == NOBODY else led
    return led, [
        Probe(f"who leads, as {node} sees it", "the same leader as the others", _leader(leader), led is not None)
        for node, leader in seen.items()
    ]


# ---- leadership that flaps ------------------------------------------------------------------------------


class LeaderFlap(_ClusterManagerFault):
    """Whoever is elected at the moment is paused or isolated, again and again; ``down`` has to outlast detection.

    The others give a silent leader up after ``leader_check.timeout`` times its retries, and the first publication of
    the next one waits for it up to ``cluster.publish.timeout``: 9 s in all on 3az-tuned, 60 s and more with stock
    settings.
    """

    kind = "cluster_manager.leader_flap"
    examples = ({"down": "12s", "up": "6s", "how": "pause"}, {"down": "12s", "up": "6s", "how": "isolate"})
    example_topology = "3az-tuned"
    proof = "each time another one is elected, and the term of the elections grows by as much at least"
    holding = "it comes and goes: each time has to show another one elected while the one before is away"
    colour = AMBER
    down: PositiveDuration = Field(description="how long each one is away, for example 12s")
    up: PositiveDuration = Field(description="how long all are left alone in between, for example 6s")
    how: Literal["pause", "isolate"] = Field(default="isolate", description="pause (SIGSTOP) or isolate (drop)")
    times: StrictInt | None = Field(default=None, ge=1, description="how often; default until it is undone")

    def describe(self) -> str:
        times = f", {self.times} times" if self.times is not None else ""
        return f"{self.how} whoever is elected cluster manager ({self.down.text} on, {self.up.text} off{times})"

    def check(self, topology: Topology) -> list[str]:
        if len(topology.cluster_managers) < 3:
            return ["another can only be elected where there are three cluster managers: expected such a topology"]
        return []

    def claims(self, scene: Scene) -> frozenset[str]:
        names = tuple(node.name for node in scene.topology.cluster_managers)
        if self.how == "pause":
            return process_claims(names)
        return link_claims(frozenset(link for name in names for link in around(scene.topology, name)))

    def says(self, aim: Aim) -> str:
        return self.describe()

    def aim(self, id: str, scene: Scene, wiring: Wiring) -> Aim:
        managers = tuple(node.name for node in scene.topology.cluster_managers)
        links = frozenset(link for name in managers for link in around(scene.topology, name))
        return Aim(id, scene, wiring, managers, links if self.how == "isolate" else frozenset())

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        assert isinstance(means.worker, Flapping)
        return FlapEvidence(means.worker, float(self.down))


def around(topology: Topology, name: str) -> frozenset[tuple[str, str]]:
    """The links between a node and every other node, both ways."""
    others = [node.name for node in topology.nodes if node.name != name]
    return frozenset((name, other) for other in others) | frozenset((other, name) for other in others)


class FlapEvidence(Simple):
    """Another is elected, and the term has grown; in the end one leader whom all nodes know, for some seconds."""

    gone_deadline = 150.0
    holds = False  # it comes and goes; the worker says of each time how it went
    STABLE_SECONDS = 3.0

    def __init__(self, flapping: Flapping, down: float) -> None:
        self._flapping = flapping
        self.effect_deadline = down + 15.0
        self._since: tuple[str, float] | None = None

    def before(self, lab: Lab) -> Look:
        led, probes = _one_leader(lab)
        return Look(led is not None, f"{_leader(led)} leads all" if led else "the nodes know no common leader", probes)

    def in_effect(self, lab: Lab) -> Look:
        probes = self._flapping.probes()
        return Look(all(probe.ok for probe in probes), f"changes of the leader: {probes[0].measured}", probes)

    def gone(self, lab: Lab) -> Look:
        led, probes = _one_leader(lab)
        now = time.monotonic()
        if led is None:
            self._since = None
            return Look(False, "the nodes know no common leader", probes)
        if self._since is None or self._since[0] != led:
            self._since = (led, now)
        stable = now - self._since[1]
        return Look(stable >= self.STABLE_SECONDS, f"{led} has led all nodes for {stable:.1f} s", probes)


# ---- storms ---------------------------------------------------------------------------------------------

STORM = "oschaos-storm-"
"""How the names of its indices begin."""


def storm_prefix(id: str) -> str:
    """Of the indices that a storm makes, by the fault's id."""
    return f"{STORM}{id}-"


class StormEvidence(Simple):
    """The rate that is really sent, and what the cluster itself counts of it, over some seconds.

    ``counted``: a number that the cluster keeps and that grows by one at least with each request that it carries out.
    """

    effect_deadline = 20.0
    gone_deadline = 30.0
    held_deadline = 8.0
    SECONDS = 3.0

    def __init__(self, storm: Storm, what: str) -> None:
        self._storm, self._what = storm, what
        self._first: tuple[float, int, int] | None = None
        self._background = 0.0
        """How much is counted per second without the storm."""
        self._samples: deque[tuple[Tally, int]] = deque(maxlen=8)
        """What was sent, and what the cluster had counted then, at the last looks."""

    def counted(self, lab: Lab) -> int | None:
        raise NotImplementedError

    def left(self, lab: Lab) -> list[Probe]:
        """What the storm could leave behind."""
        return []

    def is_counted_no_more(self, lab: Lab) -> bool:
        """Whether that of which the cluster counts something went with the storm, so that nothing is to be told."""
        return False

    def arrives(self, well: int, grown: float) -> bool:
        """Whether it is seen to arrive, of so many requests that were answered well."""
        return well > 0

    def _per_second(self, lab: Lab) -> float | None:
        began, first = time.monotonic(), self.counted(lab)
        time.sleep(1.0)
        last = self.counted(lab)
        return None if first is None or last is None else (last - first) / (time.monotonic() - began)

    def before(self, lab: Lab) -> Look:
        self._background = self._per_second(lab) or 0.0
        probes = [
            Probe(name, "answered", f"{value:.4g}", True) for name, value in self._storm.measure(lab).items()
        ] or [Probe("the watch", "answered", "no answer", False)]
        probes += self.left(lab)
        return Look(all(probe.ok for probe in probes), f"{self._background:.1f} {self._what} per second before", probes)

    def in_effect(self, lab: Lab) -> Look:
        tally = self._storm.tally()
        if self._first is not None and tally.seconds - self._first[0] < self.SECONDS:
            return Look(False, f"measured for less than {self.SECONDS:g} s")
        counted = self.counted(lab)
        if counted is None:
            return Look(False, f"the cluster does not tell its {self._what}", [self._storm.probe()])
        if self._first is None:
            self._first = (tally.seconds, tally.well, counted)
            return Look(False, "the measurement begins", [self._storm.probe()])
        seconds, well = tally.seconds - self._first[0], tally.well - self._first[1]
        grown = counted - self._first[2] - self._background * seconds
        probes = [
            self._storm.probe(),
            Probe(
                f"{self._what}, as the cluster counts them",
                f"at least {ENOUGH:.0%} of the {well} that were answered well in {seconds:.1f} s",
                f"{grown:.0f}, which is {grown / seconds:.1f}/s",
                self.arrives(well, grown) and grown >= ENOUGH * well,
            ),
        ]
        says = f"{tally.rate:.1f} of {self._storm.rate:g}/s are sent, {grown / seconds:.1f}/s counted by the cluster"
        return Look(all(probe.ok for probe in probes), says, [*probes, *self._storm.watched()])

    def still(self, lab: Lab) -> Look | None:
        """One more sample, and whether it grew as it must since the one before."""
        return self._lately(lab, 1.0)

    def held(self, lab: Lab) -> Look:
        """Over the last seconds and not over the whole time: a storm that ended would count for long."""
        look = self._lately(lab, self.SECONDS)
        return look if look is not None else Look(False, f"measured for less than {self.SECONDS:g} s")

    def _lately(self, lab: Lab, least: float) -> Look | None:
        """Since the sample before that is ``least`` seconds old; None when there is none yet."""
        if self._storm.over:
            return Look(False, "the storm has ended", [self._storm.probe()])
        counted, now = self.counted(lab), self._storm.tally()
        if counted is None:
            return Look(False, f"the cluster does not tell its {self._what}")
        before = next((each for each in reversed(self._samples) if now.seconds - each[0].seconds >= least), None)
        if not self._samples or now.seconds - self._samples[-1][0].seconds >= 0.5:
            self._samples.append((now, counted))
        if before is None:
            return None
        seconds = now.seconds - before[0].seconds
        sent, well = now.sent - before[0].sent, now.well - before[0].well
        grown = counted - before[1] - self._background * seconds
        probes = [
            Probe(
                "requests of the storm",
                f"at least {ENOUGH:.0%} of {self._storm.rate:g}/s sent",
                f"{sent} sent and {well} answered well in the last {seconds:.1f} s",
                sent + 1 >= ENOUGH * self._storm.rate * seconds and sent > 0,
            ),
            Probe(
                f"{self._what}, as the cluster counts them",
                f"at least {ENOUGH:.0%} of the {well} that were answered well in the last {seconds:.1f} s",
                f"{grown:.0f}, which is {grown / seconds:.1f}/s",
                self.arrives(well, grown) and grown + 1 >= ENOUGH * well,
            ),
        ]
        says = (
            f"{sent / seconds:.1f} of {self._storm.rate:g}/s are sent, {grown / seconds:.1f}/s counted by the cluster"
        )
        return Look(all(probe.ok for probe in probes), says, probes)

    def gone(self, lab: Lab) -> Look:
        limit = self._background + 0.5 * self._storm.rate + 2
        now = self._per_second(lab)
        if now is None and self.is_counted_no_more(lab):
            now = 0.0
        told = "no answer" if now is None else f"{now:.1f}"
        ok = now is not None and now <= limit
        probes = [Probe(f"{self._what} per second", f"at most {limit:.1f}", told, ok)]
        probes += [Probe(name, "answered", f"{value:.4g}", True) for name, value in self._storm.measure(lab).items()]
        probes += self.left(lab)
        well = sum(probe.ok for probe in probes)
        return Look(well == len(probes), f"{self._what} per second: {told}, {well} of {len(probes)} signs", probes)


SENT_AND_COUNTED = "every two seconds, and before its undo: what was sent and what was counted in the last seconds"


class TaskStorm(_ClusterManagerFault):
    """Tasks for the elected cluster manager at a rate: mapping updates, or index creations, on throw-away indices."""

    kind = "cluster_manager.task_storm"
    noticing = "hardly"
    examples = ({"rate": "10/s", "what": "mappings"}, {"rate": "1/s", "what": "indices"})
    proof = (
        "the rate that was really sent, and the mapping's (or the cluster state's) version, which grows with it; tasks "
        "that the cluster manager refused for want of room in its queue count as well"
    )
    holding = SENT_AND_COUNTED
    colour = AMBER
    rate: PositiveRate = Field(description="tasks per second, for example 10/s")
    what: Literal["mappings", "indices"] = Field(default="mappings", description="mappings or indices")

    @property
    def reach(self) -> Reach:
        return "cluster"

    def describe(self) -> str:
        what = "mapping updates" if self.what == "mappings" else "index creations"
        return f"{self.rate.text} {what}"

    def claims(self, scene: Scene) -> frozenset[str]:
        return frozenset({"the task queue of the cluster manager"})

    def aim(self, id: str, scene: Scene, wiring: Wiring) -> Aim:
        return Aim(id, scene, wiring)

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        assert isinstance(means.worker, Storm)
        return TaskEvidence(means.worker, storm_prefix(aim.id), self.what)


TOLD_SECONDS = 5.0
"""For the cluster to say whether an index is there."""
THROTTLED = "/_nodes/_local/stats/cluster_manager_throttling"


class TaskEvidence(StormEvidence):
    """A mapping's version grows by one with each update, whatever was batched; the state's with each new index. Tasks
    that the cluster manager refused for want of room in its queue arrived as well, and it counts them by their kind."""

    def __init__(self, storm: Storm, prefix: str, what: str) -> None:
        super().__init__(storm, "mapping updates" if what == "mappings" else "versions of the cluster state")
        self._prefix, self._mappings = prefix, what == "mappings"
        self._throttled: dict[str, int] = {}
        """By leader, since its process began; what one counted before another was elected stands."""

    def counted(self, lab: Lab) -> int | None:
        with suppress(ChaosError, *UNREADABLE):
            leader = await_elected(lab, 2.0)
            made = self._made(lab, leader)
            return None if made is None else made + self._refused(lab, leader)
        return None

    def arrives(self, well: int, grown: float) -> bool:
        """Throttled ones are answered seconds later. The state's version grows without them, the mapping's does not."""
        return well > 0 or (self._mappings and grown > 0)

    def is_counted_no_more(self, lab: Lab) -> bool:
        """Its one index, whose mapping it updates, is gone by the word of a manager that knows."""
        if not self._mappings:
            return False
        index = f"{self._prefix}0"
        with suppress(ChaosError):
            return index not in certain(
                lab, lambda: indices_named(lab, index, await_elected(lab, TOLD_SECONDS)), timeout=TOLD_SECONDS
            )
        return False

    def _made(self, lab: Lab, leader: str) -> int | None:
        if not self._mappings:
            seen = newest(views(lab))
            return seen.version if seen else None
        path = f"/_cluster/state/metadata/{self._prefix}0?local=true&filter_path=metadata.indices.*.mapping_version"
        status, answer = administer(lab, "GET", path, through=leader)
        return int(answer["metadata"]["indices"][f"{self._prefix}0"]["mapping_version"]) if status == 200 else None

    def _refused(self, lab: Lab, leader: str) -> int:
        with suppress(*UNREADABLE):
            _, answer = administer(lab, "GET", THROTTLED, through=leader)
            (own,) = answer["nodes"].values()
            tasks = own["cluster_manager_throttling"]["stats"].get("throttled_tasks_per_task_type") or {}
            now = int(tasks.get("put-mapping" if self._mappings else "create-index", 0))
            self._throttled[leader] = max(now, self._throttled.get(leader, 0))
        return sum(self._throttled.values())

    def left(self, lab: Lab) -> list[Probe]:
        found = indices_named(lab, self._prefix, await_elected(lab))
        return [Probe(f"indices {self._prefix}*", "none", ", ".join(found) or "none", not found)]


AdminRequest = Literal[
    "state", "health", "stats", "nodes", "indices", "cat", "mappings", "settings", "tasks", "pending"
]


class AdminStorm(_ClusterManagerFault):
    """Administrative requests at a rate, one kind after the other, as dashboards and scripts make them."""

    kind = "cluster_manager.admin_storm"
    noticing = "hardly"
    examples = (
        {"rate": "20/s", "requests": ["state", "health", "pending"]},
        {"rate": "5/s", "requests": ["stats", "cat"], "target": "role data"},
    )
    proof = "the rate that was really sent, and the requests that the nodes themselves count; a canary's latency"
    holding = SENT_AND_COUNTED
    colour = AMBER
    rate: PositiveRate = Field(description="requests per second in all, for example 20/s")
    requests: OneOrMore[AdminRequest] = Field(
        default=("state", "stats", "cat"),
        min_length=1,
        description=f"one or more of {', '.join(get_args(AdminRequest))}",
    )
    target: NodeSelector = Field(
        default=NodeSelector(role="cluster_manager"), description="which nodes are asked; default role cluster_manager"
    )

    @property
    def reach(self) -> Reach:
        return "cluster"

    def describe(self) -> str:
        return f"{self.rate.text} administrative requests ({', '.join(self.requests)}) to {self.target.text}"

    def claims(self, scene: Scene) -> frozenset[str]:
        return frozenset({"the admin API of the cluster"})

    def aim(self, id: str, scene: Scene, wiring: Wiring) -> Aim:
        return Aim(id, scene, wiring)

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        assert isinstance(means.worker, Storm)
        return AdminEvidence(means.worker, "administrative requests")


class AdminEvidence(StormEvidence):
    """What the nodes count themselves: ``rest_actions`` of ``_nodes/usage``, without the questions for it."""

    def counted(self, lab: Lab) -> int | None:
        total = 0
        for node in self._storm.nodes:
            client = lab.client(node, timeout=4.0)
            try:
                _, answer = client.request("GET", "/_nodes/_local/usage/rest_actions")
                counts = [each["rest_actions"] for each in answer["nodes"].values()]
                total += sum(n for count in counts for action, n in count.items() if action != "nodes_usage_action")
            except (urllib3.exceptions.HTTPError, *UNREADABLE):
                return None
            finally:
                client.close()
        return total
