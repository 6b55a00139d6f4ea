"""Limits of a node's own control group: processor time and memory.

A limit's inverse holds the values that were there when the fault was made, so whatever a lab had before comes back.
"""

from __future__ import annotations

from chaos.faults.fault import Grade
from chaos.faults.kinds.resources import Limited, NodeCpuStarvation, NodeOutOfMemory, NodePageCacheSqueeze
from chaos.faults.moves import Move, Reversible, on_node, operation
from chaos.faults.offers import Aim, Means, Provider
from chaos.targets.protocol import Groups, Lab

PROVIDER = Provider("cgroup", "limits of the control groups in which nodes run", grade=Grade.PATH)


@operation("limits.restore")
def _restore_limits(lab: Groups, node: str, resource: str, values: dict[str, str]) -> None:
    lab.restore_limits(node, resource, values)


@operation("processors.limit")
def _limit_processors(lab: Groups, node: str, processors: float) -> None:
    lab.limit_processors(node, processors)


@operation("memory.squeeze")
def _squeeze_memory(lab: Groups, node: str, headroom: int) -> None:
    lab.squeeze_memory(node, headroom)


@operation("memory.exhaust")
def _exhaust_memory(lab: Groups, node: str) -> None:
    lab.exhaust_memory(node)


def restore(node: str, resource: str, values: dict[str, str]) -> Move:
    return Move("limits.restore", {"node": node, "resource": resource, "values": values})


def limiting(fault: Limited, limit: Move) -> Reversible:
    return Reversible(limit, restore(limit.arguments["node"], fault.resource, {}))


def reading_first(moves: tuple[Reversible, ...]) -> Means:
    """These moves, whose undo puts back what limits a node when they are made."""

    def with_values(both: Reversible, lab: Lab) -> Reversible:
        if both.inverse is None or both.inverse.operation != "limits.restore":
            return both
        node, resource = both.inverse.arguments["node"], both.inverse.arguments["resource"]
        return Reversible(both.move, restore(node, resource, lab.limits(node, resource)))

    return Means(moves, read=lambda lab: tuple(with_values(each, lab) for each in moves))


@PROVIDER.carries_out(
    NodeCpuStarvation,
    mechanism="quota of the node's control group (version 1 cpu.cfs_quota_us, version 2 cpu.max), per 100 ms",
    undoing="the quota that was there, or none",
    needs=("cpu",),
)
def starve(fault: NodeCpuStarvation, aim: Aim) -> Means:
    quota = float(fault.quota)
    limits = (Move("processors.limit", {"node": node, "processors": quota}) for node in aim.nodes)
    return reading_first(tuple(limiting(fault, limit) for limit in limits))


@PROVIDER.carries_out(
    NodePageCacheSqueeze,
    mechanism="limit of the node's control group (version 1 memory.limit_in_bytes with its killer off, "
    "version 2 memory.high): what it holds that is no file page, its untouched heap, and the headroom",
    undoing="the limit that was there, or none",
    needs=("memory",),
)
def squeeze(fault: NodePageCacheSqueeze, aim: Aim) -> Means:
    headroom = int(fault.headroom)
    limits = (Move("memory.squeeze", {"node": node, "headroom": headroom}) for node in aim.nodes)
    return reading_first(tuple(limiting(fault, limit) for limit in limits))


@PROVIDER.carries_out(
    NodeOutOfMemory,
    mechanism="limit of the node's control group just above what it holds, and in the group a small process that takes "
    "the rest: the kernel kills the larger of the two, which is the node's",
    undoing="the limit that was there comes back and the node starts again on its data",
    needs=("memory", "process"),
)
def exhaust(fault: NodeOutOfMemory, aim: Aim) -> Means:
    moves: list[Reversible] = []
    for node in aim.nodes:
        # undone last first: the limit is back before the node starts
        moves += [on_node("nothing", "node.start", node), limiting(fault, Move("memory.exhaust", {"node": node}))]
    return reading_first(tuple(moves))
