"""Node faults: kill, graceful stop, pause, and loss (killed, data folder emptied, an empty replacement joins)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from chaos.definitions.steps import Flap, NodeFault, Scene
from chaos.faults.evidence import ProcessEvidence
from chaos.faults.fault import Fault, Pulse
from chaos.faults.moves import Reversible, on_node
from chaos.lab.wiring import Wiring


class OnProcess(NodeFault):
    """A fault that ends or stops the process of whole nodes."""

    needs: ClassVar[tuple[str, ...]] = ("process",)
    paused: ClassVar[bool] = False
    emptied: ClassVar[bool] = False

    def moves(self, node: str) -> list[Reversible]:
        raise NotImplementedError

    def build(self, id: str, scene: Scene, wiring: Wiring) -> Fault:
        nodes = scene.nodes(self.target)
        flap: Flap | None = getattr(self, "flap", None)
        flapping = f" ({flap.describe()})" if flap else ""
        return Fault(
            id=id,
            kind=self.kind,
            says=f"{self.describe()} ({', '.join(nodes)}){flapping}",
            mechanism=self.mechanism,
            targets=nodes,
            links=(),
            moves=tuple(move for node in nodes for move in self.moves(node)),
            evidence=lambda: ProcessEvidence(list(nodes), paused=self.paused, emptied=self.emptied),
            needs=self.needs,
            colour=self.colour,
            claims=self.claims(scene),
            pulse=Pulse(float(flap.down), float(flap.up), flap.times) if flap else None,
        )


class NodeKill(OnProcess):
    """SIGKILL; the node is started again, with its data, at undo."""

    kind = "node.kill"
    examples = ({"target": "elected cluster manager"}, {"target": "node c-data", "flap": {"down": "3s", "up": "20s"}})
    mechanism = "SIGKILL; undo starts the node again on its data"
    undoing = "the node starts again on its data"
    proof = "the process is gone and its port refuses; later it answers and is in the cluster"
    flap: Flap | None = Field(
        default=None, description="kill and start again and again, for example {down: 5s, up: 30s}"
    )

    def describe(self) -> str:
        return f"kill {self.target.text}"

    def moves(self, node: str) -> list[Reversible]:
        return [on_node("node.kill", "node.start", node)]


class NodeStop(OnProcess):
    """SIGTERM, an orderly stop; the node is started again, with its data, at undo."""

    kind = "node.stop"
    examples = ({"target": "one of group cm and zone c"},)
    mechanism = "SIGTERM; undo starts the node again on its data"
    undoing = "the node starts again on its data"
    proof = NodeKill.proof

    def describe(self) -> str:
        return f"stop {self.target.text} in good order"

    def moves(self, node: str) -> list[Reversible]:
        return [on_node("node.stop", "node.start", node)]


class NodePause(OnProcess):
    """SIGSTOP: the process freezes while its kernel still acknowledges; SIGCONT at undo."""

    kind = "node.pause"
    examples = ({"target": "node c-data"},)
    mechanism = "SIGSTOP; the kernel still acknowledges; undo SIGCONT"
    undoing = "SIGCONT"
    proof = "the kernel says stopped, and a ping inside the node's host stays without an answer"
    colour = "#b7791f"
    paused = True
    flap: Flap | None = Field(
        default=None, description="freeze and thaw again and again, for example {down: 1s, up: 5s}"
    )

    def describe(self) -> str:
        return f"pause {self.target.text}"

    def moves(self, node: str) -> list[Reversible]:
        return [on_node("node.pause", "node.resume", node)]


class NodeLoss(OnProcess):
    """Killed and its data folder emptied; an empty replacement joins at undo."""

    kind = "node.loss"
    examples = ({"target": "node c-data"},)
    mechanism = "SIGKILL and the data folder emptied; undo starts an empty replacement"
    undoing = "an empty node starts in its place; the data is gone for good"
    proof = "the process is gone and the data folder is empty"
    needs = ("process", "data")
    emptied = True
    lasting = True

    def describe(self) -> str:
        return f"lose {self.target.text} with all its data"

    def moves(self, node: str) -> list[Reversible]:
        return [on_node("node.kill", "node.start", node), on_node("node.wipe", None, node)]
