"""Node faults: kill, stop, drain, isolation, no DNS, restart and upgrade (rolling), pause, loss (then empty)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import urllib3
from pydantic import Field, SerializerFunctionWrapHandler, StrictBool, model_serializer, model_validator

from chaos.base.paths import ProcessIdentity
from chaos.base.units import Duration, PositiveDuration
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


QUESTIONS = 3
"""Of which one is answered where DNS is well: a packet may be lost."""


class NamesEvidence(Simple):
    """Questions for a name, asked as each node would ask: answered before and after the fault, and not meanwhile.

    ``ask``: node and how often at most → what was answered, in words; None: nothing. It is the provider's, who has a
    way into its network.
    """

    effect_deadline = 20.0

    def __init__(self, nodes: Sequence[str]) -> None:
        self._nodes = nodes
        self.ask: Callable[[Lab, str, int], str | None] | None = None

    def _look(self, lab: Lab, *, answered: bool, times: int = QUESTIONS) -> Look:
        probes = []
        for node in self._nodes:
            told = None if self.ask is None else self.ask(lab, node, times)
            wanted = "an answer" if answered else "no answer"
            ok = self.ask is not None and (told is not None) is answered
            probes.append(Probe(f"DNS as {node} asks", wanted, told or "no answer", ok, about=node))
        shown = sum(probe.ok for probe in probes)
        return Look(bool(probes) and shown == len(probes), f"{shown} of {len(probes)} nodes get {wanted}", probes)

    def before(self, lab: Lab) -> Look:
        return self._look(lab, answered=True)

    def in_effect(self, lab: Lab) -> Look:
        return self._look(lab, answered=False)

    def still(self, lab: Lab) -> Look:
        return self._look(lab, answered=False, times=1)

    def gone(self, lab: Lab) -> Look:
        return self._look(lab, answered=True)


class NodeDnsOutage(NodeFault):
    """Names are not resolved for it: its questions to DNS servers get no answer, or are refused."""

    kind = "node.dns_outage"
    noticing = "hardly"
    examples = ({"target": "node c-data"}, {"target": "zone c", "how": "refuse"})
    proof = "DNS servers that answered before, asked as the node would ask, do not answer; later they do"
    holding = "every two seconds its proof"
    colour = "#2b6cb0"
    how: Literal["drop", "refuse"] = Field(
        default="drop",
        description="drop: questions vanish, and who asks waits for a time limit; refuse: each is refused at once",
    )

    def claims(self, scene: Scene) -> frozenset[str]:
        """Its names alone: its process can be hit meanwhile."""
        return frozenset(f"the names of {node}" for node in scene.nodes(self.target))

    def describe(self) -> str:
        return f"no DNS for {self.target.text}" + ("" if self.how == "drop" else " (refused)")

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return NamesEvidence(aim.nodes)


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
