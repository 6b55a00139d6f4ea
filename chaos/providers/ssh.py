"""Faults on the hosts of a cluster that others own: by the program that they installed there, reached over ssh.

Each begins with a deadline, at which the host undoes it by itself; the runner puts the deadline off as long as it
lives. What is asked of a host is in docs/hosts.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from time import sleep
from typing import Any, cast

from chaos.base.errors import ChaosError, FaultError, Lacking
from chaos.faults.evidence import Evidence
from chaos.faults.fault import Grade, Link
from chaos.faults.kinds.cluster_manager import QuorumLoss
from chaos.faults.kinds.disk import DiskFull, DiskSlow, SlowEvidence
from chaos.faults.kinds.network import NetworkDrop, NetworkLatency, NetworkLoss, NetworkRefuse, NetworkReset
from chaos.faults.kinds.node import NodeKill, NodePause, NodeRestart, NodeStop
from chaos.faults.kinds.resources import NodeCpuStarvation
from chaos.faults.kinds.zone import ZonePowerLoss
from chaos.faults.loss import LossEvidence, Packets
from chaos.faults.moves import Move, Reversible, never, operation, said
from chaos.faults.offers import Aim, Means, Provider
from chaos.targets.existing.hosts import Hosts
from chaos.targets.existing.target import ExistingTarget
from chaos.targets.protocol import Lab

PROVIDER = Provider("ssh", "the program for faults on nodes' hosts, reached over ssh", grade=Grade.PATH, of_others=True)
NEEDS = ("hosts",)
NOTHING = Move("nothing", {})
LEAST_PROCESSORS = 0.02
"""Of ``cpu.limit``, as the program on hosts takes it."""
LATER = "(the run's)"
"""What a plan cannot know of a move."""


def _fence(lab: Lab, node: str, token: int, **_: Any) -> None:
    """Its run may be stopped and go on: the host takes nothing more of it, under ids that were not undone either."""
    there(lab).hosts.outrank(node, token)


@operation("host.begin", late=never, fence=_fence)  # the host takes no id once it was undone
def _begin(lab: Lab, node: str, run: str, id: str, token: int, intent: str, asked: Mapping[str, Any]) -> None:
    there(lab).hosts.begin(node, {**asked, "run": run, "id": id, "token": token, "intent": intent, "node": node})


@operation("host.undo", late=never, own=True)
def _undo(lab: Lab, node: str, run: str, id: str) -> None:
    there(lab).hosts.undo(node, run, id)


@operation("host.return", own=True)
def _return(lab: Lab, run: str, groups: Sequence[Sequence[Sequence[str]]], gap: float) -> None:
    """Undo these (node, id), group after group with ``gap`` seconds in between. Every one is tried.

    Raises FaultError naming those that could not be undone.
    """
    failed = []
    for number, each in enumerate(groups):
        if number and gap:
            sleep(gap)  # part of the fault: power comes back rack by rack
        for node, id in each:
            try:
                there(lab).hosts.undo(node, run, id)
            except ChaosError as error:
                failed.append(f"{node}: {said(error)}")
    if failed:
        raise FaultError(f"not every node came back: {'; '.join(failed)}")


def there(lab: Lab) -> ExistingTarget:
    """The target, if it is one with hosts of others."""
    if not isinstance(lab, ExistingTarget):
        raise FaultError("only a cluster that exists has hosts that are reached by ssh")
    return lab


def named(aim: Aim, number: int) -> str:
    """An id as the program takes it, once for each move of a run."""
    return f"{re.sub('[^a-z0-9]+', '-', aim.id.lower()).strip('-')[:32]}-{number}"


def move(aim: Aim, number: int, node: str, intent: str, **asked: Any) -> Reversible:
    """One fault on the host of a node, and its undo. Raises Lacking where the host is not named, or is another
    node's too."""
    if (others := aim.wiring.beside(node)) and intent.startswith("network."):
        raise Lacking(f"{', '.join(others)} is on the host of {node} too, and would be hit")
    what = {"node": node, "run": LATER, "id": named(aim, number)}
    return Reversible(
        Move("host.begin", {**what, "token": 0, "intent": intent, "asked": asked}), Move("host.undo", what)
    )


def of_run(moves: Sequence[Reversible], lab: Lab) -> tuple[Reversible, ...]:
    """The same moves, of the run that has the hosts now; each host has proven that the node is on it, and that it can
    have what is asked. Raises FaultError where one does not, LabError where one cannot be asked."""
    target = there(lab)
    hosts = target.hosts
    begun = [each.move for each in moves if each.move.operation == "host.begin"]
    told = target.on_hosts({each.arguments["node"] for each in begun})
    for each in begun:
        node, intent = each.arguments["node"], each.arguments["intent"]
        if why := told[node]["intents"].get(intent, "its program knows no such intent"):
            raise FaultError(f"{hosts.of_nodes[node]}: {intent} of {node} cannot be had: {why}")

    def with_run(each: Move | None) -> Move | None:
        if each is None or "run" not in each.arguments:
            return each
        more: dict[str, Any] = {"token": hosts.token} if "token" in each.arguments else {}
        asked = each.arguments.get("asked", {})
        if "peers" in asked:
            more["asked"] = {**asked, "peers": [target.address_of(peer) for peer in asked["peers"]]}
        return replace(each, arguments={**each.arguments, "run": hosts.run, **more})

    return tuple(Reversible(cast(Move, with_run(each.move)), with_run(each.inverse)) for each in moves)


def means(
    moves: Sequence[Reversible], *, in_order: bool = False, evidence: Callable[[Evidence], Evidence] = lambda own: own
) -> Means:
    made = tuple(moves)
    return Means(made, in_order=in_order, read=lambda lab: of_run(made, lab), evidence=evidence)


def on_each(aim: Aim, intent: str, **asked: Any) -> list[Reversible]:
    return [move(aim, number, node, intent, **asked) for number, node in enumerate(aim.nodes)]


@PROVIDER.carries_out(
    NodeKill,
    mechanism="SIGKILL by the program on the node's host; systemd is kept from starting it again",
    undoing="the node is started as its owners do",
    needs=NEEDS,
)
def kill(fault: NodeKill, aim: Aim) -> Means:
    return means(on_each(aim, "node.kill"))


@PROVIDER.carries_out(
    NodeStop,
    mechanism="systemctl stop, or SIGTERM, by the program on the node's host",
    undoing="the node is started as its owners do",
    needs=NEEDS,
)
def stop(fault: NodeStop, aim: Aim) -> Means:
    return means(on_each(aim, "node.stop"))


@PROVIDER.carries_out(
    NodePause,
    mechanism="SIGSTOP by the program on the node's host; its kernel still acknowledges",
    undoing="SIGCONT to the same process",
    needs=NEEDS,
)
def pause(fault: NodePause, aim: Aim) -> Means:
    return means(on_each(aim, "node.pause"))


@PROVIDER.carries_out(
    QuorumLoss,
    mechanism="SIGKILL or SIGSTOP, by the programs on their hosts, of cluster managers drawn with the seed",
    undoing="the cluster managers are started as their owners do, or go on",
    needs=NEEDS,
)
def quorum_loss(fault: QuorumLoss, aim: Aim) -> Means:
    return means(on_each(aim, "node.kill" if fault.how == "kill" else "node.pause"))


@PROVIDER.carries_out(
    NodeRestart,
    mechanism="ended and started by the program on the node's host; rolling: the next one when this one is back and "
    "the cluster green",
    undoing="nodes that do not run are started as their owners do",
    needs=NEEDS,
)
def restart(fault: NodeRestart, aim: Aim) -> Means:
    if fault.start == "in_order":
        raise Lacking("each host starts its node as soon as it has ended", remedy="leave start out")
    moves: list[Reversible] = []
    nodes = len(aim.scene.topology.nodes)
    for number, node in enumerate(aim.nodes):
        end = move(aim, number, node, "node.stop" if fault.how == "orderly" else "node.kill")
        back = {"node": node, "nodes": nodes, "seconds": float(fault.within)}
        assert end.inverse is not None
        moves += [
            end,
            Reversible(end.inverse, Move("nothing", {"node": node})),
            Reversible(Move("node.await", back), Move("nothing", {"node": node})),
        ]
    return means(moves, in_order=fault.rolling)


@PROVIDER.carries_out(
    ZonePowerLoss,
    mechanism="SIGKILL of all nodes by the programs on their hosts, at once; what is in the hosts' memory stays",
    differs="what was not fsynced is in the hosts' memory, and is not lost",
    undoing="the nodes are started as their owners do, group after group in the order given",
    needs=NEEDS,
)
def zone_power_loss(fault: ZonePowerLoss, aim: Aim) -> Means:
    begun = on_each(aim, "node.kill")
    id_of = {each.move.arguments["node"]: each.move.arguments["id"] for each in begun}
    groups = [[[node, id_of[node]] for node in group] for group in fault.returning(aim.scene.topology)]
    # one inverse returns them all: inverses of different hosts are applied at once, and order is of the essence
    back = Move("host.return", {"run": LATER, "groups": groups, "gap": float(fault.return_gap)})
    return means([Reversible(NOTHING, back), *(Reversible(each.move, NOTHING) for each in begun)])


@PROVIDER.carries_out(
    NodeCpuStarvation,
    mechanism="quota of the node's control group (version 1 cpu.cfs_quota_us, version 2 cpu.max), by the program on "
    "its host",
    undoing="the quota that was there, if it is still ours",
    needs=NEEDS,
)
def starve(fault: NodeCpuStarvation, aim: Aim) -> Means:
    if float(fault.quota) < LEAST_PROCESSORS:
        raise Lacking(
            f"the program on hosts takes no quota below {LEAST_PROCESSORS:.0%} of a processor",
            remedy=f"quota: {LEAST_PROCESSORS:.0%}",
        )
    return means(on_each(aim, "cpu.limit", processors=float(fault.quota)))


@PROVIDER.carries_out(
    DiskFull,
    mechanism="a file of the program on the node's host fills the file system of its data folder (fallocate)",
    undoing="the file is removed; OpenSearch lifts what it blocked by itself",
    needs=NEEDS,
)
def full(fault: DiskFull, aim: Aim) -> Means:
    asked = {"leave_bytes": 0} if fault.share is None else {"share": fault.share}
    return means(on_each(aim, "disk.full", **asked))


OWN_WRITES = "what the kernel writes back later by itself is not limited by control groups of version 1"
OWN_BURSTS = "fsync'd bursts of a process in the node's own control group take as long as the rate says"


@PROVIDER.carries_out(
    DiskSlow,
    mechanism="limit of what the node's control group writes to its disk (version 1 blkio.throttle.write_bps_device, "
    "version 2 io.max), by the program on its host",
    undoing="the limit that was there, if it is still ours",
    needs=NEEDS,
    proof=OWN_BURSTS,
    differs=OWN_WRITES,
)
def slow(fault: DiskSlow, aim: Aim) -> Means:
    def by_the_node(own: Evidence) -> Evidence:
        assert isinstance(own, SlowEvidence)
        own.by_others = False
        return own

    return means(on_each(aim, "disk.slow", rate=int(fault.write), reads=False), evidence=by_the_node)


# ---- links ------------------------------------------------------------------------------------------------

Cut = tuple[str, str, tuple[str, ...]]
"""(node on whose host it is, direction of the packets there, the hosts at the other ends)."""


def cuts(links: Iterable[Link], machines: Iterable[str], *, leaving: bool = False) -> list[Cut]:
    """Each directed link once, at an end that is a node whose host may be touched; few hosts do most of them.

    ``leaving``: only at the host that packets leave, as for what is queued. Raises Lacking for a link without one.
    """
    left, able, found = set(links), set(machines), list[Cut]()
    while left:
        ends = {node for link in left for node in (link[:1] if leaving else link)} & able
        if not ends:
            a, b = min(left)
            where = f"{a}, which its packets leave," if leaving else f"neither {a} nor {b}"
            says = f"{where} is {'no ' if leaving else 'a '}node whose host may be touched"
            raise Lacking(f"the link {a} → {b} is reached by no host: {says}", remedy="write ssh under nodes")
        here = max(sorted(ends), key=lambda node: len(_at(node, left, leaving)))
        done = _at(here, left, leaving)
        outs, ins = {b for a, b in done if a == here}, {a for a, b in done if b == here}
        for direction, peers in (("both", outs & ins), ("out", outs - ins), ("in", ins - outs)):
            if peers:
                found.append((here, direction, tuple(sorted(peers))))
        left -= done
    return found


def _at(node: str, links: set[Link], leaving: bool) -> set[Link]:
    return {(a, b) for a, b in links if a == node or (b == node and not leaving)}


def machines(aim: Aim) -> list[str]:
    """The nodes whose hosts may be touched."""
    found = []
    for host in aim.wiring.nodes:
        with suppress(Lacking):
            aim.wiring.machine(host.name)
            found.append(host.name)
    return found


def on_links(aim: Aim, *intents: str, **asked: Any) -> list[Reversible]:
    """Rules on the hosts of nodes that let the packets of exactly these links meet it."""
    moves: list[Reversible] = []
    for node, direction, peers in cuts(aim.links, machines(aim)):
        addresses = [address for peer in peers for address in aim.wiring.address(peer)]
        for intent in intents:
            moves.append(move(aim, len(moves), node, intent, peers=addresses, direction=direction, **asked))
    return moves


@PROVIDER.carries_out(
    NetworkDrop,
    mechanism="a table of nftables of its own on nodes' hosts: packets between the node's ports and these peers vanish",
    undoing="the tables are deleted; connections go on",
    needs=NEEDS,
)
def drop(fault: NetworkDrop, aim: Aim) -> Means:
    return means(on_links(aim, "network.drop"))


@PROVIDER.carries_out(
    NetworkLoss,
    mechanism="a table of nftables of its own on nodes' hosts: this share of the packets between the node's ports and "
    "these peers vanishes, drawn for each",
    undoing="the tables are deleted; connections go on",
    needs=NEEDS,
)
def loss(fault: NetworkLoss, aim: Aim) -> Means:
    moves = on_links(aim, "network.loss", share=float(fault.share))

    def counting(own: Evidence) -> Evidence:
        assert isinstance(own, LossEvidence)
        own.counting = lambda lab: [counted(there(lab).hosts, each.move, float(fault.share)) for each in moves]
        return own

    return means(moves, evidence=counting)


def counted(hosts: Hosts, begun: Move, share: float) -> Packets:
    """What a host says of the packets that met its loss. Raises LabError where it cannot be asked, FaultError where it
    says nothing of them."""
    node = begun.arguments["node"]
    id = hosts.begun_as(node, begun.arguments["id"])
    told = hosts.call(node, "state", {"run": hosts.run, "id": id})
    steps = [step for each in told["active"] for step in each["steps"] if step.get("there") and "met" in step]
    if not steps:
        raise FaultError(f"{hosts.of_nodes[node]} counts no packets of {id}")
    return Packets(f"of {node}", share, *(sum(int(step[key]) for step in steps) for key in ("met", "hit")))


@PROVIDER.carries_out(
    NetworkReset,
    mechanism="a table of nftables of its own on nodes' hosts: connections are made, and reset at their next packet",
    undoing="the tables are deleted",
    needs=NEEDS,
)
def reset(fault: NetworkReset, aim: Aim) -> Means:
    return means(on_links(aim, "network.reset"))


@PROVIDER.carries_out(
    NetworkRefuse,
    mechanism="tables of nftables of their own on nodes' hosts: new connections are refused, existing ones reset",
    undoing="the tables are deleted",
    needs=NEEDS,
)
def refuse(fault: NetworkRefuse, aim: Aim) -> Means:
    return means(on_links(aim, "network.refuse", "network.reset"))


@PROVIDER.carries_out(
    NetworkLatency,
    mechanism="netem under a class of htb on nodes' hosts: what leaves them for these peers waits",
    undoing="the queueing is deleted; connections stay",
    needs=NEEDS,
)
def latency(fault: NetworkLatency, aim: Aim) -> Means:
    moves: list[Reversible] = []
    for node, _, peers in cuts(aim.links, machines(aim), leaving=True):
        addresses = [address for peer in peers for address in aim.wiring.address(peer)]
        asked = {"delay_ms": round(fault.delay * 1000), "jitter_ms": round(fault.jitter * 1000)}
        moves.append(move(aim, len(moves), node, "network.latency", peers=addresses, **asked))
    return means(moves)
