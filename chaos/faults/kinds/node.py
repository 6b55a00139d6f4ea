"""Node faults: kill, stop, drain, isolation, late or no DNS, restart and upgrade (rolling), pause, loss (so empty)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import urllib3
from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    StrictBool,
    model_serializer,
    model_validator,
)

from chaos.base.paths import ProcessIdentity
from chaos.base.units import Duration, Malformed, PositiveDuration, at_least
from chaos.definitions.steps import Flap, Scene
from chaos.definitions.topology import Topology
from chaos.faults.effects import CutOff
from chaos.faults.evidence import Evidence, Look, Probe, ProcessEvidence, Simple
from chaos.faults.kind import NodeFault
from chaos.faults.offers import Aim, Means
from chaos.targets.protocol import Lab
from chaos.targets.wiring import Wiring


class OnProcess(NodeFault):
    """A fault that ends or stops the process of whole nodes."""

    paused: ClassVar[bool] = False
    emptied: ClassVar[bool] = False
    holding = (
        "every two seconds the kernel's word on its processes and on those of all other nodes; before the undo all of "
        "its proof too"
    )

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return ProcessEvidence(list(aim.nodes), paused=self.paused, emptied=self.emptied)


class NodeKill(OnProcess):
    """SIGKILL; the node is started again, with its data, at undo."""

    kind = "node.kill"
    noticing = "at once"
    examples = ({"target": "elected cluster manager"}, {"target": "node c-data", "flap": {"down": "3s", "up": "20s"}})
    proof = "the process is gone and its port refuses; later it answers and is in the cluster"
    holding = (
        f"{OnProcess.holding}. With `flap` each time is proven when it begins, and one of 10 s or more before it ends"
    )
    flap: Flap | None = Field(
        default=None, description="kill and start again and again, for example {down: 5s, up: 30s}"
    )

    def describe(self) -> str:
        return f"kill {self.target.text}"


class NodeStop(OnProcess):
    """SIGTERM, an orderly stop; the node is started again, with its data, at undo."""

    kind = "node.stop"
    noticing = "at once"
    examples = ({"target": "one of group cm and zone c"},)
    proof = NodeKill.proof

    def describe(self) -> str:
        return f"stop {self.target.text} in good order"


class NodePause(OnProcess):
    """SIGSTOP: the process freezes while its kernel still acknowledges; SIGCONT at undo."""

    kind = "node.pause"
    examples = ({"target": "node c-data"},)
    proof = "the kernel says stopped, and a ping inside the node's host stays without an answer"
    holding = NodeKill.holding
    colour = "#b7791f"
    paused = True
    flap: Flap | None = Field(
        default=None, description="freeze and thaw again and again, for example {down: 1s, up: 5s}"
    )

    def describe(self) -> str:
        return f"pause {self.target.text}"


class NodeLoss(OnProcess):
    """Killed and its data folder emptied; an empty replacement joins at undo."""

    kind = "node.loss"
    noticing = "at once"
    examples = ({"target": "node c-data"},)
    proof = "the process is gone and the data folder is empty"
    emptied = True
    lasting = True

    def describe(self) -> str:
        return f"lose {self.target.text} with all its data"


class NodeDrain(OnProcess):
    """Its machine is drained, as before maintenance: it takes no new pods, and the node is asked to leave it."""

    kind = "node.drain"
    noticing = "at once"
    examples = ({"target": "node c-data"},)
    proof = "the process that was there is gone, and its machine takes nothing new; later the node is in the cluster"
    holding = (
        "every two seconds one of the others, in turn, is asked whom it has for a member; before the undo all of its "
    )
    holding += "proof too"
    colour = "#b7791f"
    others: tuple[str, ...] = Field(
        default=(),
        description="namespaces with pods on these machines that are hit too, for example [shop]: none of them gets "
        "another pod there meanwhile",
    )

    def describe(self) -> str:
        return f"drain the machine of {self.target.text}"


class NodeIsolation(NodeFault):
    """Its machine is cut off from all others, with everything on it, as where it has lost power or its network card."""

    kind = "node.isolation"
    examples = ({"target": "node c-data"},)
    proof = "the others have it for a member no more and get no answer; if it answers us, it gets none from them"
    holding = NodeDrain.holding
    colour = "#b7791f"
    others: tuple[str, ...] = Field(
        default=(),
        description="namespaces with pods on these machines that are cut off too, for example [shop, kube-system]",
    )

    def describe(self) -> str:
        return f"cut off the machine of {self.target.text}"

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return CutOff(aim.nodes)


PROMPT_SECONDS = 1.0
"""Within which a DNS server of the cluster's own answers one question."""
QUESTIONS = 3
"""Of which one is answered where DNS is well: a packet may be lost."""


Answers = Mapping[str, float | None]
"""DNS server → seconds until it answered, whatever it said; None: it did not."""


class NamesEvidence(Simple):
    """Questions for a name, asked as each node would ask: answered at once before and after the fault; meanwhile not at
    all, or ``delay`` seconds late.

    ``ask``: node, seconds for each answer and how often at most → what came. It is the provider's, who has a way into
    the node's network.
    """

    effect_deadline = 20.0

    def __init__(self, nodes: Sequence[str], delay: float | None = None) -> None:
        self._nodes, self._delay = nodes, delay
        self._within = PROMPT_SECONDS + (delay or 0.0)
        self.ask: Callable[[Lab, str, float, int], Answers] | None = None

    def _look(self, lab: Lab, *, hit: bool, times: int = QUESTIONS) -> Look:
        wanted = self._wanted if hit else "an answer" if self._delay is None else f"an answer before {self._delay:g} s"
        probes = []
        for node in self._nodes:
            told = {} if self.ask is None else self.ask(lab, node, self._within, times)
            seconds = {server: each for server, each in told.items() if each is not None}
            said = "; ".join(f"{server} answers within {each:g} s" for server, each in seconds.items()) or "no answer"
            ok = self.ask is not None and (self._is_hit if hit else self._is_well)(seconds.values())
            probes.append(Probe(f"DNS as {node} asks", wanted, said, ok, about=node))
        shown = sum(probe.ok for probe in probes)
        return Look(bool(probes) and shown == len(probes), f"{shown} of {len(probes)} nodes get {wanted}", probes)

    @property
    def _wanted(self) -> str:
        return "no answer" if self._delay is None else f"each answer after {self._delay:g} s"

    def _is_well(self, seconds: Collection[float]) -> bool:
        return any(self._delay is None or each < self._delay for each in seconds)

    def _is_hit(self, seconds: Collection[float]) -> bool:
        """A server that does not answer at all is no slow one."""
        if self._delay is None:
            return not seconds
        return bool(seconds) and all(each >= self._delay for each in seconds)

    def before(self, lab: Lab) -> Look:
        return self._look(lab, hit=False)

    def in_effect(self, lab: Lab) -> Look:
        return self._look(lab, hit=True)

    def still(self, lab: Lab) -> Look:
        return self._look(lab, hit=True, times=1)

    def gone(self, lab: Lab) -> Look:
        return self._look(lab, hit=False)


class OnNames(NodeFault):
    """A fault that hits what a node is told by DNS servers."""

    noticing = "hardly"
    holding = "every two seconds its proof"
    colour = "#2b6cb0"

    def claims(self, scene: Scene) -> frozenset[str]:
        """Its names alone: its process can be hit meanwhile."""
        return frozenset(f"the names of {node}" for node in scene.nodes(self.target))


class NodeDnsOutage(OnNames):
    """Names are not resolved for it: its questions to DNS servers get no answer, or are refused."""

    kind = "node.dns_outage"
    examples = ({"target": "node c-data"}, {"target": "zone c", "how": "refuse"})
    proof = "DNS servers that answered before, asked as the node would ask, do not answer; later they do"
    how: Literal["drop", "refuse"] = Field(
        default="drop",
        description="drop: questions vanish, and who asks waits for a time limit; refuse: each is refused at once",
    )

    def describe(self) -> str:
        return f"no DNS for {self.target.text}" + ("" if self.how == "drop" else " (refused)")

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return NamesEvidence(aim.nodes)


LONGEST_DNS_DELAY = Duration(8)
"""As the program on hosts takes it. A resolver that asks again after 5 s has given up before that."""


def _no_longer(delay: Duration) -> Duration:
    if delay > LONGEST_DNS_DELAY:
        raise Malformed(f"{delay.text} is as good as no answer: expected {LONGEST_DNS_DELAY.text} or less")
    return delay


class NodeDnsSlowness(OnNames):
    """Names are resolved late for it: each of its questions reaches the DNS server only after a while."""

    kind = "node.dns_slowness"
    examples = ({"target": "zone c", "delay": "2s"},)
    proof = "DNS servers that answered sooner, asked as the node would ask, answer after the delay; later sooner again"
    delay: Annotated[
        PositiveDuration, at_least(Duration(0.1), "cannot be told from a busy server"), AfterValidator(_no_longer)
    ] = Field(description="of each answer, for example 2s; 8s at most")

    def describe(self) -> str:
        return f"DNS is {self.delay.text} late for {self.target.text}"

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return NamesEvidence(aim.nodes, float(self.delay))


class RestartEvidence(ProcessEvidence):
    """Each node's process is another one than before, and it is in the cluster."""

    effect_deadline = 60.0
    holds = False  # it is over when it is proven

    def __init__(self, nodes: list[str]) -> None:
        super().__init__(nodes)
        self._processes: dict[str, ProcessIdentity | None] = {}

    def before(self, lab: Lab) -> Look:
        self._processes = {node: lab.identity(node) for node in self._nodes}
        return super().before(lab)

    def in_effect(self, lab: Lab) -> Look:
        alive = self._running(lab)
        probes = []
        for node in self._nodes:
            before, now = self._processes[node], lab.identity(node)
            probes.append(
                Probe(
                    f"process of {node}",
                    f"another one than {before.pid if before else 'none'}",
                    f"process {now.pid}" if now else "none",
                    now is not None and now != before,
                )
            )
        probes += alive.probes
        shown = sum(probe.ok for probe in probes)
        return Look(shown == len(probes), f"{shown} of {len(probes)} signs of a restart", probes)


class _RollingSchema:
    """Publishes true, false, and the mapping that says what is waited for."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        wait = {"type": "object", "properties": {"wait": {"enum": ["green", "ready"]}}, "required": ["wait"]}
        return {"anyOf": [{"type": "boolean"}, {**wait, "additionalProperties": False}]}


class NodeRestart(OnProcess):
    """Stopped and started again on its data; rolling over the nodes, or all at once.

    A rollout that goes by readiness alone, as those of Kubernetes do, ends the next node while the copies of the last
    one are still missing: ``rolling: {wait: ready}``.
    """

    kind = "node.restart"
    noticing = "at once"
    examples: ClassVar[tuple[dict[str, Any], ...]] = (
        {"target": "zone c", "how": "orderly", "rolling": True},
        {"target": "node c-data", "how": "kill"},
        {"target": "node c-data", "how": "orderly"},
    )
    proof = "each node's process is another one than before, and it is in the cluster"
    holding = "it is over when it is proven: nothing is to hold"
    colour = "#b7791f"
    passing = True
    verb: ClassVar[str] = "restart"
    how: Literal["orderly", "kill"] = Field(default="orderly", description="orderly (SIGTERM) or kill (SIGKILL)")
    rolling: Annotated[StrictBool, _RollingSchema] = Field(
        default=True,
        description="one node after the other, or all at once; {wait: ready}: one after the other, without waiting for "
        "green",
    )
    wait: Literal["green", "ready"] = Field(
        default="green",
        description="when a node counts as back: the cluster is green; or ready, which is that it answers and knows an "
        "elected cluster manager, as a readiness probe has it",
    )
    start: Literal["together", "in_order"] = Field(
        default="together",
        description="with rolling: false, how they come back: together, or in_order, the next one when this one is "
        "back",
    )
    within: PositiveDuration = Field(
        default=Duration(180),
        description="how long each node may take until it is back and the cluster green, or ready",
    )

    @model_validator(mode="before")
    @classmethod
    def _rolling_says_what_it_waits_for(cls, given: Any) -> Any:
        rolling = given.get("rolling") if isinstance(given, Mapping) else None
        if not isinstance(rolling, Mapping):
            return given
        if set(rolling) != {"wait"} or "wait" in given:
            raise ValueError("rolling: expected true, false or {wait: ready}, and no other wait beside it")
        return {**given, "rolling": True, "wait": rolling["wait"]}

    @model_validator(mode="after")
    def _starts(self) -> Self:
        if self.rolling and self.start != "together":
            raise ValueError(f"start: {self.start} is of nodes that end at once: expected rolling: false beside it")
        return self

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What was always so is not in the normal form: hashes stay."""
        data = {"kind": self.kind, **handler(self)}
        usual = {"wait": "green", "start": "together"}
        given = data.pop("as_", None) or data.pop("as", None)
        kept = {name: value for name, value in data.items() if usual.get(name, ...) != value}
        return kept | ({"as": given} if given else {})

    def describe(self) -> str:
        rolling = "one after the other" if self.rolling else "at once"
        rolling += "" if self.start == "together" else ", and start them one after the other"
        rolling += "" if self.wait == "green" else ", without waiting for green"
        return f"{self.verb} {self.target.text} {rolling}{' (kill)' if self.how == 'kill' else ''}"

    @property
    def uncomputable(self) -> str | None:
        if self.wait == "green":
            return None
        return "without waiting for green, the last copy of a shard may be on the next node"

    def aim(self, id: str, scene: Scene, wiring: Wiring) -> Aim:
        managers = {node.name for node in scene.topology.cluster_managers}
        # managers last, as operators do it: a restart of the elected one costs an election
        nodes = tuple(sorted(scene.nodes(self.target), key=lambda node: node in managers))
        return Aim(id, scene, wiring, nodes)

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return RestartEvidence(list(aim.nodes))


class UpgradeEvidence(RestartEvidence):
    """As after a restart, and every node says that it is of the new version, which it was not before."""

    def __init__(self, nodes: list[str], version: str) -> None:
        super().__init__(nodes)
        self._version = version

    def before(self, lab: Lab) -> Look:
        return self._with(super().before(lab), [self._asked(lab, node, new=False) for node in self._nodes])

    def in_effect(self, lab: Lab) -> Look:
        return self._with(super().in_effect(lab), [self._asked(lab, node, new=True) for node in self._nodes])

    def _asked(self, lab: Lab, node: str, *, new: bool) -> Probe:
        client = lab.client(node, timeout=2.0)
        try:
            _, answer = client.request("GET", "/?filter_path=version.number")
            runs = str(answer["version"]["number"])
        except (urllib3.exceptions.HTTPError, KeyError, TypeError):
            runs = "no answer"
        finally:
            client.close()
        ok = runs == self._version if new else runs not in (self._version, "no answer")
        return Probe(f"version of {node}", self._version if new else f"another than {self._version}", runs, ok)

    @staticmethod
    def _with(look: Look, more: list[Probe]) -> Look:
        shown = sum(probe.ok for probe in more)
        return Look(
            look.proven and shown == len(more), f"{look.says}; {shown} of {len(more)} versions", [*look.probes, *more]
        )


class NodeUpgrade(NodeRestart):
    """Stopped, and started again as the later version that the topology names; rolling over the nodes."""

    kind = "node.upgrade"
    examples = ({"target": "node c-data"},)
    example_topology = "3az-upgrade"
    proof = "each node's process is another one than before, says the later version, and is in the cluster"
    lasting = True
    verb = "upgrade"

    def check(self, topology: Topology) -> list[str]:
        if self.start != "together":
            return [f"start: {self.start} is of node.restart: expected it left out"]
        if topology.upgrade is None:
            return [
                f"topology {topology.name} names no version to upgrade to: expected upgrade: in it, for example 3.8.0"
            ]
        return []

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return UpgradeEvidence(list(aim.nodes), str(aim.scene.topology.upgrade))
