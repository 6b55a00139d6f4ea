"""Node faults: kill, graceful stop, pause, and loss (killed, data folder emptied, an empty replacement joins)."""

from __future__ import annotations

from chaos.definitions.faults import NodeFault, NodeKill, NodeLoss, NodePause, NodeStop
from chaos.faults.evidence import Evidence, ProcessEvidence
from chaos.faults.fault import Fault
from chaos.faults.moves import Reversible, on_node


def build(id: str, params: NodeFault, nodes: tuple[str, ...]) -> Fault:
    """The fault ``params`` on ``nodes``, which the selector of ``params`` resolved to."""
    moves: list[Reversible] = []
    paused = emptied = False
    for node in nodes:
        if isinstance(params, NodePause):
            moves.append(on_node("node.pause", "node.resume", node))
            paused = True
        elif isinstance(params, NodeStop):
            moves.append(on_node("node.stop", "node.start", node))
        else:
            moves.append(on_node("node.kill", "node.start", node))
        if isinstance(params, NodeLoss):
            moves.append(on_node("node.wipe", None, node))
            emptied = True

    def evidence() -> Evidence:
        return ProcessEvidence(list(nodes), paused=paused, emptied=emptied)

    return Fault(
        id=id,
        kind=params.kind,
        says=f"{params.describe()} ({', '.join(nodes)})",
        mechanism=_MECHANISM[params.kind],
        targets=nodes,
        links=(),
        moves=tuple(moves),
        evidence=evidence,
        needs=("process", "data") if emptied else ("process",),
        colour="#b7791f" if paused else "#9b2c2c",
    )


_MECHANISM = {
    NodeKill.kind: "SIGKILL; undo starts the node again on its data",
    NodeStop.kind: "SIGTERM; undo starts the node again on its data",
    NodePause.kind: "SIGSTOP; the kernel still acknowledges; undo SIGCONT",
    NodeLoss.kind: "SIGKILL and the data folder emptied; undo starts an empty replacement",
}
