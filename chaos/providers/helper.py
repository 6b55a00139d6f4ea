"""Faults beside pods of Kubernetes: by the program for faults on hosts, in a helper pod on each pod's machine.

What is done, and how it is undone, is :mod:`chaos.providers.ssh`'s; here is what of it can be had beside a pod, and how
helpers come and go (docs/kubernetes.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaos.base.errors import FaultError, Lacking
from chaos.faults.corroboration import Corroborated
from chaos.faults.effects import NodeEffects
from chaos.faults.evidence import Evidence
from chaos.faults.fault import Grade
from chaos.faults.kinds.cluster_manager import QuorumLoss
from chaos.faults.kinds.disk import DiskFull, DiskSlow
from chaos.faults.kinds.network import NetworkDrop, NetworkLatency, NetworkLoss, NetworkRefuse, NetworkReset
from chaos.faults.kinds.node import (
    Answers,
    NamesEvidence,
    NodeDnsOutage,
    NodeDnsSlowness,
    NodeIsolation,
    NodePause,
)
from chaos.faults.kinds.resources import NodeCpuStarvation, NodeOutOfMemory
from chaos.faults.moves import Reversible, operation
from chaos.faults.offers import Aim, Means, Provider
from chaos.kubernetes.seen import Pod
from chaos.providers import ssh
from chaos.providers.kubernetes import BACK_SECONDS, REQUEST_SECONDS, is_back, meant
from chaos.providers.kubernetes import there as on_pods
from chaos.targets.existing.helpers import READY_SECONDS, Helpers
from chaos.targets.existing.pods import FRESH_SECONDS, said
from chaos.targets.existing.target import ExistingTarget
from chaos.targets.protocol import Lab

PROVIDER = Provider("helper", "a helper pod beside each pod, with the program for hosts", grade=Grade.PATH,
                    of_others=True)  # fmt: skip
NEEDS = ("helpers",)
KUBELET_PORT = 10250
"""Of a kubelet, unless it was told another (kubelet, --port). A run reads it from each machine."""
UNREADY_SECONDS = 150.0
"""After 50 s without a word of its kubelet a machine is not ready (kube-controller-manager,
--node-monitor-grace-period), which is looked at every 5 s; many clusters wait longer."""
KILLED = "OOMKilled"
"""What a kubelet calls the end of a container whose process the kernel ended for want of memory."""
BACKOFF_SECONDS = 300.0
"""The longest that a kubelet waits before it starts a container again that has failed (CrashLoopBackOff)."""
GONE = "the tables are deleted, or go with the pod"


def there(lab: Lab) -> Helpers:
    """The helper pods of the target, if it is one that can have them."""
    if not isinstance(lab, ExistingTarget) or lab.helpers is None:
        raise FaultError("only a cluster that exists, and whose file names an image for them, has helper pods")
    return lab.helpers


def _late(lab: Lab, **arguments: object) -> float:
    """A Job is made anew as long as its pod is not ready."""
    return READY_SECONDS + REQUEST_SECONDS


@operation("helpers.make", late=_late)
def _make(lab: Lab, run: str, nodes: Sequence[str]) -> None:
    there(lab).make(run, nodes)


@operation("helpers.end", last=True, own=True)
def _end(lab: Lab, run: str) -> None:
    there(lab).end(run)


PROVIDER.carries_out(
    NodePause,
    mechanism="SIGSTOP by a helper pod on the pod's machine; the machine's kernel still acknowledges, and probes that "
    "fail make the kubelet end the container",
    undoing="SIGCONT to the same process",
    needs=NEEDS,
)(ssh.pause)
PROVIDER.carries_out(
    NodeCpuStarvation,
    mechanism="quota of the container's control group (version 1 cpu.cfs_quota_us, version 2 cpu.max), by a helper pod "
    "on its machine",
    undoing="the quota that was there, if it is still ours",
    needs=NEEDS,
)(ssh.starve)
PROVIDER.carries_out(
    NetworkDrop,
    mechanism="a table of nftables in the pod's network namespace, by a helper pod on its machine: packets between the "
    "node's ports and these peers vanish",
    undoing=GONE,
    needs=NEEDS,
)(ssh.drop)
PROVIDER.carries_out(
    NetworkLoss,
    mechanism="a table of nftables in the pod's network namespace, by a helper pod on its machine: this share of the "
    "packets between the node's ports and these peers vanishes, drawn for each",
    undoing=GONE,
    needs=NEEDS,
)(ssh.loss)
PROVIDER.carries_out(
    NetworkReset,
    mechanism="a table of nftables in the pod's network namespace, by a helper pod on its machine: connections are "
    "made, and reset at their next packet",
    undoing=GONE,
    needs=NEEDS,
)(ssh.reset)
PROVIDER.carries_out(
    NetworkRefuse,
    mechanism="tables of nftables in the pod's network namespace, by a helper pod on its machine: new connections are "
    "refused, existing ones reset",
    undoing=GONE,
    needs=NEEDS,
)(ssh.refuse)
PROVIDER.carries_out(
    NetworkLatency,
    mechanism="netem under a class of htb on the pod's own devices, by a helper pod on its machine: what leaves it for "
    "these peers waits",
    undoing="the queueing is deleted; connections stay",
    needs=NEEDS,
)(ssh.latency)


PROVIDER.carries_out(
    DiskFull,
    mechanism="a file on the volume of the node's pod fills it (fallocate), by a helper pod on its machine; the volume "
    "has a file system of its own, and no other pod has it",
    undoing="the file is removed; OpenSearch lifts what it blocked by itself",
    needs=NEEDS,
)(ssh.full)


PROVIDER.carries_out(
    DiskSlow,
    mechanism="limit of what the container's control group writes to the volume of the node's pod (version 1 "
    "blkio.throttle.write_bps_device, version 2 io.max), by a helper pod on its machine",
    undoing="the limit that was there, if it is still ours; or it goes with the container",
    needs=NEEDS,
    proof=ssh.OWN_BURSTS,
    differs=f"{ssh.OWN_WRITES}; a container that is started again has no limit",
)(ssh.slow)


@PROVIDER.carries_out(
    NodeOutOfMemory,
    mechanism="limit of the pod's control group, by a helper pod on its machine, so low that the kernel ends the "
    "node's process (version 1: a small process in its group takes the rest first), and that of each container which "
    "the kubelet starts meanwhile",
    undoing="the limit that was there, if it is still ours; the kubelet starts the container again, after the wait "
    "that it has come to (CrashLoopBackOff: 5 minutes at most)",
    needs=NEEDS,
    grade=Grade.EFFECT,
    proof="none of them answers, and the others have none as a member, while the API server says that the container of "
    "the same pod has ended since, OOMKilled; later it runs and is ready, and they answer and are members",
    differs="the limit is the pod's, so its other containers lack memory too",
)
def out_of_memory(fault: NodeOutOfMemory, aim: Aim) -> Means:
    begun: dict[str, Pod] = {}

    def read(lab: Lab) -> tuple[Reversible, ...]:
        begun.update(meant(on_pods(lab), aim.nodes, fault.kind))
        return ssh.of_run(moves, lab)

    moves = tuple(ssh.on_each(aim, fault.kind))
    return Means(moves, read=read, evidence=lambda own: OutOfMemory(NodeEffects(aim.nodes), begun))


class OutOfMemory(Corroborated):
    """Nodes that are dead as others see it, and whose pods' containers the kernel has ended for want of memory.

    ``begun``: node → its pod when the fault began.
    """

    what, expected = "the API server says", f"each container has ended, {KILLED}, in the same pod"

    def __init__(self, own: Evidence, begun: Mapping[str, Pod]) -> None:
        super().__init__(own)
        self.gone_deadline = BACKOFF_SECONDS + BACK_SECONDS
        self._begun = begun

    def word(self, lab: Lab, *, over: bool) -> tuple[str, bool]:
        pods = on_pods(lab)
        seen = pods.look(fresh=FRESH_SECONDS).pods
        found = {node: seen.get(pods.of_nodes[node]) for node in self._begun}
        well = bool(found) and all(self._fits(node, pod, over) for node, pod in found.items())
        return "; ".join(f"{node}: {_ended(pod)}" for node, pod in found.items()), well

    def _fits(self, node: str, pod: Pod | None, over: bool) -> bool:
        """A container that is being started for a moment has not come back: it is not ready."""
        if over or pod is None:
            return is_back(pod)
        before = self._begun[node]
        ended = pod.ended is not None and pod.ended != before.ended and pod.ended[0] == KILLED
        return pod.uid == before.uid and ended and not pod.ready


def _ended(pod: Pod | None) -> str:
    last = None if pod is None or pod.ended is None else f", ended last {pod.ended[1]} ({pod.ended[0] or 'no reason'})"
    return f"{said(pod)}{last or ''}"


@PROVIDER.carries_out(
    NodeIsolation,
    mechanism="a table of nftables in the network of the pod's machine, by a helper pod on it: what it and its pods "
    "send to other machines and get from them vanishes, the kubelet's words too. By its port the API server still asks "
    "the kubelet: so the fault can be undone",
    undoing="the table is deleted; the kubelet speaks again, and nodes join again",
    needs=NEEDS,
    proof="the others have it for a member no more, get no answer from it, and it none from them, while the API server "
    "says that its machine is not ready; later it is ready, and the node a member",
    differs="its processes go on, and ways into its pods through the API server stay open",
)
def isolation(fault: NodeIsolation, aim: Aim) -> Means:
    """One helper of each machine makes it, whichever of the named pods there are on it."""
    machines: dict[str, str] = {}

    def moves(ports: Mapping[str, int]) -> tuple[Reversible, ...]:
        return tuple(
            ssh.move(aim, number, node, fault.kind, spare=[port]) for number, (node, port) in enumerate(ports.items())
        )

    def read(lab: Lab) -> tuple[Reversible, ...]:
        pods = on_pods(lab)
        found = meant(pods, aim.nodes, fault.kind)
        if wrong := pods.beside(found, fault.others, cut=True):
            raise FaultError("; ".join(wrong))
        machines.clear()
        for node, pod in found.items():
            assert pod.machine is not None  # it is ready
            machines.setdefault(pod.machine, node)
        return ssh.of_run(moves({node: pods.kubelet_port(machine) for machine, node in machines.items()}), lab)

    unknown = dict.fromkeys(aim.nodes, KUBELET_PORT)  # which of them are on one machine is not in the plan
    return Means(moves(unknown), read=read, evidence=lambda own: Unready(own, machines))


@PROVIDER.carries_out(
    NodeDnsOutage,
    mechanism="a table of nftables in the pod's network namespace, by a helper pod on its machine: what leaves the pod "
    "for port 53 vanishes, or is refused",
    undoing=GONE,
    needs=NEEDS,
    proof="each DNS server of the pod's resolv.conf, asked from within the pod's network, answers before and after, "
    "and none does meanwhile",
    differs="what the node has looked up before it still knows for a while (OpenSearch's packages say 60 s, "
    "opensearch.networkaddress.cache.ttl), and a pod that is replaced has a network without the table",
)
def dns_outage(fault: NodeDnsOutage, aim: Aim) -> Means:
    return ssh.means(ssh.on_each(aim, fault.kind, how=fault.how), evidence=asking)


@PROVIDER.carries_out(
    NodeDnsSlowness,
    mechanism="a table of nftables in the pod's network namespace, by a helper pod on its machine: what leaves the pod "
    "for port 53 by UDP goes to a process of the program, which passes it on after the delay",
    undoing=GONE,
    needs=NEEDS,
    proof="DNS servers of the pod's resolv.conf, asked from within the pod's network, answer sooner than the delay "
    "before and after, and none does meanwhile, while one answers",
    differs="questions by TCP are not late; and what the node has looked up before it still knows for a while",
)
def dns_slowness(fault: NodeDnsSlowness, aim: Aim) -> Means:
    return ssh.means(ssh.on_each(aim, fault.kind, delay_ms=round(fault.delay * 1000)), evidence=asking)


def asking(own: Evidence) -> Evidence:
    """Its questions are asked from within each node's own network."""
    assert isinstance(own, NamesEvidence)
    own.ask = names_for
    return own


def names_for(lab: Lab, node: str, within: float, times: int) -> Answers:
    """How long each DNS server of a node's pod takes for the first of so many questions that it answers. Raises
    LabError, FaultError."""
    told = ssh.there(lab).hosts.call(node, "lookup", {"node": node, "within": within, "times": times})
    return {str(server): None if each is None else float(each) for server, each in told["answers"].items()}


class Unready(Corroborated):
    """Nodes that are cut off as others see it, while Kubernetes has heard nothing of their ``machines`` for a while."""

    what, expected = "the API server says", "their machines are not ready"

    def __init__(self, own: Evidence, machines: Mapping[str, str]) -> None:
        super().__init__(own, patience=UNREADY_SECONDS)
        self._machines = machines

    def word(self, lab: Lab, *, over: bool) -> tuple[str, bool]:
        ready = {machine: on_pods(lab).machine_is_ready(machine) for machine in self._machines}
        says = "; ".join(f"{machine} is {'ready' if well else 'not ready'}" for machine, well in ready.items())
        return says, bool(ready) and all(well is over for well in ready.values())


@PROVIDER.carries_out(
    QuorumLoss,
    mechanism="SIGSTOP, by helper pods on their machines, of cluster managers drawn with the seed",
    undoing="they go on",
    needs=NEEDS,
)
def quorum_loss(fault: QuorumLoss, aim: Aim) -> Means:
    if fault.how == "kill":
        raise Lacking("a container that is killed is started again by its kubelet", remedy="how: pause")
    return ssh.quorum_loss(fault, aim)
