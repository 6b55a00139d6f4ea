"""Faults on the processes of nodes: signals, starts, an emptied data folder, another version."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep

import urllib3

from chaos.base.errors import ChaosError, FaultError, LabError
from chaos.definitions.topology import Topology
from chaos.faults.fault import Grade
from chaos.faults.flapping import Flapping, prepared
from chaos.faults.kinds.cluster_manager import LeaderFlap, QuorumLoss, around
from chaos.faults.kinds.node import NodeKill, NodeLoss, NodePause, NodeRestart, NodeStop, NodeUpgrade
from chaos.faults.kinds.zone import ZonePowerLoss
from chaos.faults.moves import Move, Reversible, on_node, operation, said
from chaos.faults.offers import Aim, Means, Provider
from chaos.providers.neighbour import blocked
from chaos.targets.protocol import Lab, Processes

PROVIDER = Provider("process", "signals to the processes of nodes, and their start", grade=Grade.PATH)
NEEDS = ("process",)
BACK = "/_cluster/health?local=true&filter_path=status,number_of_nodes,discovered_cluster_manager"


@operation("node.kill")
def _kill(lab: Processes, node: str) -> None:
    lab.kill_node(node)


@operation("node.stop")
def _stop(lab: Processes, node: str) -> None:
    lab.stop_node(node)


@operation("node.start")
def _start(lab: Processes, node: str) -> None:
    lab.start_node(node)


@operation("node.pause")
def _pause(lab: Processes, node: str) -> None:
    lab.pause_node(node)


@operation("node.resume")
def _resume(lab: Processes, node: str) -> None:
    lab.resume_node(node)


@operation("node.wipe")
def _wipe(lab: Processes, node: str) -> None:
    lab.wipe_node(node)


@operation("node.version")
def _version(lab: Processes, node: str, version: str) -> None:
    lab.set_version(node, version)


@operation("node.await")
def _await_back(lab: Lab, node: str, nodes: int, seconds: float) -> None:
    """Until the node itself sees a cluster of so many nodes that is green. Raises LabError after ``seconds``.

    Its own view, because a process that has just started knows nothing from before: others may not have noticed yet
    that the one before it is gone, and to them the cluster still looks green.
    """
    deadline = monotonic() + seconds
    client = lab.client(node, timeout=2.0)
    seen = "no answer"
    while monotonic() < deadline:
        try:
            status, health = client.request("GET", BACK)
            seen = f"{status} {health}"
            if (
                status == 200
                and health["discovered_cluster_manager"]
                and health["number_of_nodes"] >= nodes
                and health["status"] == "green"
            ):
                client.close()
                return
        except (urllib3.exceptions.HTTPError, LookupError, TypeError):
            seen = "no answer that can be read"
        sleep(0.1)
    client.close()
    raise LabError(f"{node} is not back in a green cluster of {nodes} nodes after {seconds:g} s: {seen}")


@operation("node.ready")
def _await_ready(lab: Lab, node: str, seconds: float) -> None:
    """Until the node answers, and knows an elected cluster manager, as a readiness probe asks it. Raises LabError."""
    deadline = monotonic() + seconds
    client = lab.client(node, timeout=2.0)
    seen = "no answer"
    try:
        while monotonic() < deadline:
            try:
                status, health = client.request("GET", BACK)
                seen = f"{status} {health}"
                if status == 200 and health["discovered_cluster_manager"]:
                    return
            except (urllib3.exceptions.HTTPError, LookupError, TypeError):
                seen = "no answer that can be read"
            sleep(0.1)
    finally:
        client.close()
    raise LabError(f"{node} is not ready after {seconds:g} s: {seen}")


@operation("nodes.end")
def _end_all(lab: Processes, nodes: Sequence[str], how: str) -> None:
    """End them all at once. Raises the first one's error once all were tried."""
    end = lab.stop_node if how == "orderly" else lab.kill_node
    with ThreadPoolExecutor(len(nodes)) as pool:
        for each in [pool.submit(end, node) for node in nodes]:
            each.result()


@operation("zone.return")
def _return(lab: Lab, groups: Sequence[Sequence[str]], gap: float) -> None:
    """Start these nodes, group after group with ``gap`` seconds in between; those that run are let alone.

    Every node is tried. Raises FaultError naming those that could not be started.
    """
    failed = []
    for number, nodes in enumerate(groups):
        if number and gap:
            sleep(gap)  # part of the fault: power comes back rack by rack
        for node in nodes:
            try:
                if lab.topology.disks is not None:
                    lab.disks.restore(node)
                lab.start_node(node)
            except ChaosError as error:
                failed.append(f"{node}: {said(error)}")
    if failed:
        raise FaultError(f"not every node came back: {'; '.join(failed)}")


def on_each(nodes: Iterable[str], *moves: tuple[str, str | None]) -> Means:
    """These (operation, inverse) on each of the nodes, node by node."""
    return Means(tuple(on_node(move, inverse, node) for node in nodes for move, inverse in moves))


@PROVIDER.carries_out(
    NodeKill,
    mechanism="SIGKILL; undo starts the node again on its data",
    undoing="the node starts again on its data",
    needs=NEEDS,
)
def kill(fault: NodeKill, aim: Aim) -> Means:
    return on_each(aim.nodes, ("node.kill", "node.start"))


@PROVIDER.carries_out(
    NodeStop,
    mechanism="SIGTERM; undo starts the node again on its data",
    undoing="the node starts again on its data",
    needs=NEEDS,
)
def stop(fault: NodeStop, aim: Aim) -> Means:
    return on_each(aim.nodes, ("node.stop", "node.start"))


@PROVIDER.carries_out(
    NodePause,
    mechanism="SIGSTOP; the kernel still acknowledges; undo SIGCONT",
    undoing="SIGCONT",
    needs=NEEDS,
)
def pause(fault: NodePause, aim: Aim) -> Means:
    return on_each(aim.nodes, ("node.pause", "node.resume"))


@PROVIDER.carries_out(
    NodeLoss,
    mechanism="SIGKILL and the data folder emptied; undo starts an empty replacement",
    undoing="an empty node starts in its place; the data is gone for good",
    needs=("process", "data"),
)
def lose(fault: NodeLoss, aim: Aim) -> Means:
    return on_each(aim.nodes, ("node.kill", "node.start"), ("node.wipe", None))


def restarting(fault: NodeRestart, node: str, topology: Topology, *between: Reversible) -> list[Reversible]:
    """The end of a node, what is done ``between``, its start, and the wait until it is back."""
    end = "node.stop" if fault.how == "orderly" else "node.kill"
    return [on_node(end, "node.start", node), *between, *returning(fault, node, topology)]


def returning(fault: NodeRestart, node: str, topology: Topology) -> list[Reversible]:
    """The start of a node, and the wait until it is back as the fault has it."""
    nothing, seconds = Move("nothing", {"node": node}), float(fault.within)
    green = Move("node.await", {"node": node, "nodes": len(topology.nodes), "seconds": seconds})
    ready = Move("node.ready", {"node": node, "seconds": seconds})
    back = ready if fault.wait == "ready" else green
    return [Reversible(Move("node.start", {"node": node}), nothing), Reversible(back, nothing)]


def in_order(fault: NodeRestart, nodes: Sequence[str], topology: Topology) -> list[Reversible]:
    """The end of all at once, and their start one after the other. One inverse starts those that do not run."""
    ended = Move("nodes.end", {"nodes": list(nodes), "how": fault.how})
    back = Move("zone.return", {"groups": [[node] for node in nodes], "gap": 0.0})
    return [Reversible(ended, back), *(each for node in nodes for each in returning(fault, node, topology))]


@PROVIDER.carries_out(
    NodeRestart,
    mechanism="SIGTERM or SIGKILL, then started again; rolling: the next one when this one is back and the cluster "
    "green, or with wait: ready when it answers and knows a cluster manager",
    undoing="nodes that do not run are started",
    needs=NEEDS,
)
def restart(fault: NodeRestart, aim: Aim) -> Means:
    topology = aim.scene.topology
    if fault.start == "in_order":
        return Means(tuple(in_order(fault, aim.nodes, topology)), in_order=True)
    moves = tuple(move for node in aim.nodes for move in restarting(fault, node, topology))
    return Means(moves, in_order=fault.rolling)


@PROVIDER.carries_out(
    NodeUpgrade,
    mechanism="SIGTERM, then started again on its data with the later version; the next one when this one is back and "
    "the cluster green",
    undoing="nodes that do not run are started; there is no way back to the earlier version",
    needs=NEEDS,
)
def upgrade(fault: NodeUpgrade, aim: Aim) -> Means:
    topology = aim.scene.topology
    moves: list[Reversible] = []
    for node in aim.nodes:
        other = Reversible(Move("node.version", {"node": node, "version": topology.upgrade}), None)
        moves += restarting(fault, node, topology, other)
    return Means(tuple(moves), in_order=fault.rolling)


@PROVIDER.carries_out(
    QuorumLoss,
    mechanism="SIGKILL or SIGSTOP of cluster managers drawn with the seed",
    undoing="the cluster managers start again on their data, or go on",
    needs=NEEDS,
)
def quorum_loss(fault: QuorumLoss, aim: Aim) -> Means:
    return on_each(aim.nodes, ("node.kill", "node.start") if fault.how == "kill" else ("node.pause", "node.resume"))


def taken(fault: LeaderFlap, name: str, topology: Topology) -> list[Reversible]:
    """The moves that take this cluster manager away."""
    if fault.how == "pause":
        return [on_node("node.pause", "node.resume", name)]
    return blocked(around(topology, name))


@PROVIDER.carries_out(
    LeaderFlap,
    mechanism="SIGSTOP, or packets to and from every other node vanish, of whoever is elected each time",
    undoing="every cluster manager goes on, and every neighbour entry around them comes back",
    needs=("process", "drop"),
)
def leader_flap(fault: LeaderFlap, aim: Aim) -> Means:
    takes = {name: taken(fault, name, aim.scene.topology) for name in aim.nodes}
    worker = Flapping(float(fault.down), float(fault.up), fault.times, takes)
    return Means(tuple(prepared(both for name in aim.nodes for both in takes[name])), worker=worker)


@PROVIDER.carries_out(
    ZonePowerLoss,
    mechanism="SIGKILL of all nodes at once; disks lose what was not fsynced, where the topology has disks",
    undoing="the nodes start again, group after group in the order given",
    needs=NEEDS,
)
def zone_power_loss(fault: ZonePowerLoss, aim: Aim) -> Means:
    topology = aim.scene.topology
    disks = topology.disks is not None
    # one inverse returns them all: inverses of different hosts are applied at once, and order is of the essence
    back = Move("zone.return", {"groups": fault.returning(topology), "gap": float(fault.return_gap)})
    off = "disk.power_loss" if disks else "node.kill"
    return Means(
        (Reversible(Move("nothing", {}), back), *(on_node(off, "nothing", node) for node in aim.nodes)),
        needs=("disks",) if disks else (),
    )
