"""Faults on pods of Kubernetes, by its API server (docs/kubernetes.md).

A controller makes the pod anew that was deleted, within a second. So what holds a node down is its pod's image: one of
a name that cannot be pulled keeps the container from starting, in the pod that is there or in the one that has come. It
is taken back by the image that was there. A pod that somebody else replaces meanwhile comes without ours.

Proof is by effect (:mod:`chaos.faults.effects`), and beside it what the API server says of the very pod by its uid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaos.base.errors import FaultError, Lacking
from chaos.faults.corroboration import Corroborated
from chaos.faults.effects import Left, NodeEffects, Restarted
from chaos.faults.evidence import Evidence
from chaos.faults.fault import Grade
from chaos.faults.kinds.node import NodeDrain, NodeKill, NodeLoss, NodeRestart, NodeStop
from chaos.faults.kinds.zone import ZonePowerLoss
from chaos.faults.moves import Move, Reversible, never, operation
from chaos.faults.offers import Aim, Means, Provider
from chaos.kubernetes.client import ANSWER_SECONDS, CONNECT_SECONDS
from chaos.kubernetes.seen import Pod
from chaos.targets.existing.pods import ANOTHER_SECONDS, FRESH_SECONDS, KEEPS, Changed, Pods, mark, said, unfit
from chaos.targets.existing.target import ExistingTarget
from chaos.targets.protocol import Lab

PROVIDER = Provider("kubernetes", "pods of Kubernetes, by its API server", grade=Grade.EFFECT, of_others=True)
NEEDS = ("pods",)
HOLD, KILL, RELEASE, END, READY = "pod.hold", "pod.kill", "pod.release", "pod.end", "pod.ready"
CORDON, UNCORDON = "machine.cordon", "machine.uncordon"
BACK_SECONDS = 240.0
"""Within which a container whose image is there again, or a pod that was made anew, is ready: probes take time."""
REQUEST_SECONDS = 60.0
"""After which an API server gives a request up (kube-apiserver, --request-timeout)."""
ASKED_SECONDS = CONNECT_SECONDS + ANSWER_SECONDS
"""For one request, as long as we wait for it."""
LATER = "(the run's)"
"""What a plan cannot know of a move."""
NOTHING = "nothing"


def there(lab: Lab) -> Pods:
    """The pods of the target, if it is one with pods."""
    if not isinstance(lab, ExistingTarget) or lab.pods is None:
        raise FaultError("only a cluster that exists, and whose file says so, has pods")
    return lab.pods


# ---- moves --------------------------------------------------------------------------------------------------


def _late(lab: Lab, **arguments: object) -> float:
    """Of what looks, and then sends one request."""
    return ASKED_SECONDS + REQUEST_SECONDS


def _late_anew(lab: Lab, **arguments: object) -> float:
    """Of what looks, deletes, awaits the next pod, looks again, and then sends its last request."""
    return 3 * ASKED_SECONDS + ANOTHER_SECONDS + REQUEST_SECONDS


@operation(HOLD, late=_late)
def _hold(lab: Lab, node: str, uid: str, image: str, mark: str) -> None:
    there(lab).hold(node, uid, image, mark)


@operation(KILL, late=_late_anew)
def _kill(lab: Lab, node: str, uid: str, image: str, mark: str) -> None:
    there(lab).kill(node, uid, image, mark)


@operation(RELEASE, own=True)
def _release(lab: Lab, node: str, mark: str, image: str) -> bool:
    return there(lab).release(node, mark, image)


@operation(END, late=never)  # one that comes late leaves nothing to undo: its controller makes the pod anew
def _end(lab: Lab, node: str, uid: str, how: str) -> None:
    """``how``: orderly, by an eviction, which budgets may refuse; or kill, a deletion without grace.

    Raises Changed where the pod is another one already: that is the doing of others, and no restart of ours.
    """
    pods = there(lab)
    found = pods.pod(node)
    if found is None or found.uid != uid:
        raise Changed(f"the pod of {node} was {uid} when the fault began: {said(found)}")
    if how == "orderly":
        pods.evict(node, uid)
    else:
        pods.delete(node, uid, 0)


@operation(READY)
def _ready(lab: Lab, node: str, seconds: float, uid: str | None = None) -> None:
    """Until the node's pod is ready, and is another one than that of this uid. Raises LabError."""
    there(lab).await_ready(node, seconds, but=uid)


@operation(CORDON, late=_late)
def _cordon(lab: Lab, machine: str, mark: str) -> None:
    there(lab).cordon(machine, mark)


@operation(UNCORDON, own=True)
def _uncordon(lab: Lab, machine: str, mark: str) -> bool:
    return there(lab).uncordon(machine, mark)


# ---- whom it hits -------------------------------------------------------------------------------------------


def meant(pods: Pods, nodes: Sequence[str], kind: str) -> dict[str, Pod]:
    """The pod of each of these nodes now. Raises FaultError where one is not ready, or does not suit the kind."""
    found = {}
    for node in nodes:
        pod = pods.pod(node)
        if pod is None or not pod.ready or pod.ending:
            raise FaultError(f"pod {pods.of_nodes.get(node)} of {node} is not well: {said(pod)}")
        if pod.owner is None:
            raise FaultError(f"pod {pod.name} is of no StatefulSet, so nothing would make it anew")
        if (why := unfit(pod, kind)) is not None:
            raise FaultError(why)
        found[node] = pod
    return found


def held(aim: Aim, how: str, kind: str) -> Means:
    """One move for each node, and its release. ``how``: the operation."""
    begun: dict[str, str] = {}

    def moves(pod_of: dict[str, tuple[str, str]], marks: dict[str, str]) -> tuple[Reversible, ...]:
        made = []
        for node in aim.nodes:
            uid, image = pod_of.get(node, (LATER, LATER))
            back = {"node": node, "mark": marks[node], "image": image}
            made.append(Reversible(Move(how, {**back, "uid": uid}), Move(RELEASE, back)))
        return tuple(made)

    def read(lab: Lab) -> tuple[Reversible, ...]:
        assert isinstance(lab, ExistingTarget)
        found = meant(there(lab), aim.nodes, kind)
        begun.update({node: pod.uid for node, pod in found.items()})
        marks = {node: mark(lab.run, f"{aim.id}-{node}") for node in aim.nodes}
        return moves({node: (pod.uid, pod.image) for node, pod in found.items()}, marks)

    def evidence(own: Evidence) -> Evidence:
        return Held(NodeEffects(aim.nodes), begun, anew=how == KILL, bare=KEEPS[kind] is False)

    return Means(moves({}, dict.fromkeys(aim.nodes, LATER)), read=read, evidence=evidence)


def drained(aim: Aim, fault: NodeDrain) -> Means:
    """Each machine is cordoned, then each pod is evicted. Undone by uncordoning the machines: pods come by themselves,
    by their controllers."""
    begun: dict[str, Pod] = {}

    def moves(marks: Mapping[str, str], uids: Mapping[str, str]) -> tuple[Reversible, ...]:
        cordoned = [{"machine": machine, "mark": mark} for machine, mark in marks.items()]
        ended = [{"node": node, "uid": uids.get(node, LATER), "how": "orderly"} for node in aim.nodes]
        return (
            *(Reversible(Move(CORDON, each), Move(UNCORDON, each)) for each in cordoned),
            *(Reversible(Move(END, each), Move(NOTHING, {"node": each["node"]})) for each in ended),
        )

    def read(lab: Lab) -> tuple[Reversible, ...]:
        assert isinstance(lab, ExistingTarget)
        pods = there(lab)
        found = meant(pods, aim.nodes, fault.kind)
        if wrong := pods.beside(found, fault.others):
            raise FaultError("; ".join(wrong))
        begun.update(found)
        machines = sorted({pod.machine for pod in found.values() if pod.machine})
        marks = {machine: mark(lab.run, f"{aim.id}-{machine}") for machine in machines}
        return moves(marks, {node: pod.uid for node, pod in found.items()})

    def evidence(own: Evidence) -> Evidence:
        return Drained(Left(aim.nodes), begun)

    return Means(moves({LATER: LATER}, {}), in_order=True, read=read, evidence=evidence)


# ---- what is said -------------------------------------------------------------------------------------------


def is_back(pod: Pod | None) -> bool:
    """Whether a pod is there as before any fault."""
    return pod is not None and pod.runs and pod.ready and not pod.ending


class Held(Corroborated):
    """Nodes that are dead as others see it, and whose very pods do not run as the API server says.

    ``begun``: node → the uid of its pod when the fault began, known once its moves are written down. ``anew``: each pod
    is another one now; ``bare``: and its data were in no volume that outlives it, so they went with the pod before.
    """

    what, expected = "the API server says", "none of their containers runs"

    def __init__(self, own: Evidence, begun: Mapping[str, str], *, anew: bool, bare: bool) -> None:
        super().__init__(own, patience=BACK_SECONDS)
        self._begun, self._anew, self._bare = begun, anew, bare

    def word(self, lab: Lab, *, over: bool) -> tuple[str, bool]:
        pods = there(lab)
        seen = pods.look(fresh=FRESH_SECONDS).pods
        found = {node: seen.get(pods.of_nodes[node]) for node in self._begun}
        well = all(is_back(pod) if over else self._down(node, pod) for node, pod in found.items()) and bool(found)
        return "; ".join(f"{node}: {said(pod)}" for node, pod in found.items()), well

    def _down(self, node: str, pod: Pod | None) -> bool:
        if pod is None or pod.runs or pod.ready:
            return False
        if not self._anew:
            return pod.uid == self._begun[node]
        return pod.uid != self._begun[node] and not (self._bare and pod.keeps)


class Drained(Corroborated):
    """Nodes that have left as others see it, while no pod of theirs is on the machine of before, which takes none."""

    what, expected = "the API server says", "their machines take no new pods, and none of theirs is there"

    def __init__(self, own: Evidence, begun: Mapping[str, Pod]) -> None:
        super().__init__(own, patience=BACK_SECONDS)
        self._begun = begun

    def word(self, lab: Lab, *, over: bool) -> tuple[str, bool]:
        pods = there(lab)
        seen = pods.look(fresh=FRESH_SECONDS)
        machines = sorted({pod.machine for pod in self._begun.values() if pod.machine})
        cordoned = {name: pods.cordoned(name) for name in machines}
        found = {node: seen.pods.get(pods.of_nodes[node]) for node in self._begun}
        if over:
            well = not any(cordoned.values()) and all(is_back(pod) for pod in found.values())
        else:
            well = all(cordoned.values()) and all(self._left(node, pod) for node, pod in found.items())
        told = [f"{name} {'takes no new pods' if shut else 'takes new pods'}" for name, shut in cordoned.items()]
        told += [f"{node}: {said(pod)}" for node, pod in found.items()]
        return "; ".join(told), well and bool(found)

    def _left(self, node: str, pod: Pod | None) -> bool:
        before = self._begun[node]
        return pod is None or (pod.uid != before.uid and pod.machine != before.machine)


class Anew(Corroborated):
    """Nodes that others know under another process, and whose pods have another uid than before."""

    what, expected = "the API server says", "each has another pod, which is ready"

    def __init__(self, own: Evidence, begun: Mapping[str, str]) -> None:
        super().__init__(own)
        self._begun = begun

    def word(self, lab: Lab, *, over: bool) -> tuple[str, bool]:
        pods = there(lab)
        seen = pods.look(fresh=FRESH_SECONDS).pods
        found = {node: seen.get(pods.of_nodes[node]) for node in self._begun}
        well = bool(found) and all(
            pod is not None and pod.ready and not pod.ending and pod.uid != self._begun[node]
            for node, pod in found.items()
        )
        return "; ".join(f"{node}: {said(pod)}" for node, pod in found.items()), well


# ---- what is offered ----------------------------------------------------------------------------------------

DEAD = "none of them answers, and the others have none as a member, while the API server says that the container of "
DEAD += "{0} does not run; later it runs and is ready, and they answer and are members"
RELEASED = "the pod's image is put back, if it still is ours; the kubelet starts the container"


@PROVIDER.carries_out(
    NodeStop,
    mechanism="the pod gets an image that cannot be pulled: its container is ended in order (SIGTERM, then after the "
    "pod's grace SIGKILL) and does not start; the pod, its address and its volumes stay",
    undoing=RELEASED,
    needs=NEEDS,
    proof=DEAD.format("the same pod"),
)
def stop(fault: NodeStop, aim: Aim) -> Means:
    return held(aim, HOLD, fault.kind)


@PROVIDER.carries_out(
    NodeKill,
    mechanism="the pod is deleted without grace; the one that its controller makes is held by an image that cannot be "
    "pulled",
    undoing=RELEASED,
    needs=NEEDS,
    proof=DEAD.format("another pod, by its uid,"),
    differs="the whole pod is ended and comes with another address; its container may run "
    "for a moment before it is held",
)
def kill(fault: NodeKill, aim: Aim) -> Means:
    if fault.flapping is not None:
        raise Lacking("the image of each pod is put back by its own name, so nothing flaps", remedy="leave flap out")
    return held(aim, KILL, fault.kind)


@PROVIDER.carries_out(
    NodeLoss,
    mechanism="the pod is deleted without grace, and its volume, which is of the pod alone, goes with it; the one that "
    "its controller makes is held by an image that cannot be pulled",
    undoing=RELEASED,
    needs=NEEDS,
    proof=DEAD.format("another pod, by its uid and without a volume that outlives it,"),
    differs="the whole pod is ended and comes with another address",
)
def loss(fault: NodeLoss, aim: Aim) -> Means:
    return held(aim, KILL, fault.kind)


@PROVIDER.carries_out(
    ZonePowerLoss,
    mechanism="the pods of all nodes of the zone are deleted without grace, at once; those that their controllers make "
    "are held by images that cannot be pulled",
    undoing=RELEASED,
    needs=NEEDS,
    proof=DEAD.format("another pod of each, by its uid,"),
    differs="what was not fsynced is in the machines' memory, and is not lost; pods come with other addresses",
)
def power_loss(fault: ZonePowerLoss, aim: Aim) -> Means:
    if fault.return_order is not None or fault.return_gap:
        raise Lacking("the images of all pods are put back at once", remedy="leave return_order and return_gap out")
    return held(aim, KILL, fault.kind)


@PROVIDER.carries_out(
    NodeDrain,
    mechanism="the machine takes no new pods (spec.unschedulable, with our mark), then the pod is evicted from it, "
    "which its budgets may refuse; its controller makes another one, which waits or runs on another machine",
    undoing="the machine takes new pods again, if it still has our mark",
    needs=NEEDS,
    proof="the others have no process of before as a member, while the API server says that the machine takes no new "
    "pods and none of these is there; later they answer and are members",
    differs="pods of others stay where they are, and get no other pod there",
)
def drain(fault: NodeDrain, aim: Aim) -> Means:
    return drained(aim, fault)


@PROVIDER.carries_out(
    NodeRestart,
    mechanism="orderly: the pod is evicted, which its budgets may refuse; kill: it is deleted without grace. Its "
    "controller makes another one; rolling: the next when this one is back and the cluster green",
    undoing="nothing is to undo: controllers make pods anew, and that is awaited",
    needs=NEEDS,
    proof="each node says another start of its process, the others have it as a member under another ephemeral id, it "
    "sees a whole and green cluster, and the API server says that its pod is another one, by its uid, and ready",
    differs="the whole pod is ended and comes with another address",
)
def restart(fault: NodeRestart, aim: Aim) -> Means:
    if fault.start == "in_order":
        raise Lacking("its controller decides when each pod starts", remedy="leave start out")
    seconds, nodes = float(fault.within), len(aim.scene.topology.nodes)
    begun: dict[str, str] = {}

    def moves(uids: dict[str, str]) -> tuple[Reversible, ...]:
        made: list[Reversible] = []
        for node in aim.nodes:
            nothing, uid = Move(NOTHING, {"node": node}), uids.get(node, LATER)
            ready = {"node": node, "seconds": max(seconds, BACK_SECONDS)}
            awaited = {**ready, "uid": uid}
            green = Move("node.await", {"node": node, "nodes": nodes, "seconds": seconds})
            back = green if fault.wait == "green" else Move("node.ready", {"node": node, "seconds": seconds})
            ended = Move(END, {"node": node, "uid": uid, "how": fault.how})
            made += [
                Reversible(ended, Move(READY, ready)),  # an eviction that was refused leaves the pod that there was
                Reversible(Move(READY, awaited), nothing),
                Reversible(back, nothing),
            ]
        return tuple(made)

    def read(lab: Lab) -> tuple[Reversible, ...]:
        begun.update({node: pod.uid for node, pod in meant(there(lab), aim.nodes, fault.kind).items()})
        return moves(begun)

    def evidence(own: Evidence) -> Evidence:
        return Anew(Restarted(aim.nodes, within=max(seconds, BACK_SECONDS)), begun)

    return Means(moves({}), in_order=fault.rolling, read=read, evidence=evidence)
