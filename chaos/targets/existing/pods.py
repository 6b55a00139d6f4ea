"""The pods that a cluster's nodes are: ways to them, who they are now, and what is done to one of them by its uid.

A pod is found anew each time it matters, and what is asked of one goes to the uid that was meant: its controller makes
another of the same name at any time. What holds a node down is the name of an image in its pod that cannot be pulled,
and that is drawn for each fault: it tells ours from others', and its controller makes the next pod without it.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from chaos.base import paths
from chaos.base.errors import ChaosError, FaultError, InvalidInput, LabError
from chaos.base.waiting import wait_until
from chaos.definitions.existing import Existing
from chaos.definitions.kubernetes import KubernetesFile, on_loopback
from chaos.kubernetes import forwarding, seen
from chaos.kubernetes.client import CONFLICT, NOT_FOUND, REFUSED, Client, Refused
from chaos.kubernetes.forwarding import Ways
from chaos.kubernetes.seen import Pod, Seen

AGAIN = 5
"""Times that a change is tried whose object was changed by others, or replaced, while it was looked at."""
NOWHERE = "oschaos.invalid"
"""The registry of images that hold a node down: a name that never exists (RFC 2606, .invalid)."""
ANOTHER_SECONDS = 60.0
"""Within which a controller has made the next pod."""
BUDGET = "disruption budget"
"""In the API server's words where a budget refuses an eviction (its eviction subresource)."""
MARKED = f"/metadata/annotations/{seen.DRAINED.replace('/', '~1')}"
"""Where a machine has our mark, as a JSON pointer (RFC 6901)."""
FRESH_SECONDS = 1.0
"""So old may be what was seen of all pods, where several questions follow each other."""
SHOWN = 3
STAYING = frozenset({"DaemonSet", "Node"})
"""Owners whose pods stay on a machine that takes no new ones: of DaemonSets, and of kubelets (static pods). To those of
all other controllers, of custom resources too, such a machine is a loss."""
CONTROL = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/etcd")
"""Labels of machines that Kubernetes itself runs on (well-known labels; the second is k3s's and RKE2's)."""
HELPS = "opensearch-chaos/run"
"""A label of helper pods, with their run."""
KEEPS: Mapping[str, bool | None] = {
    "node.stop": None,
    "node.kill": True,
    "node.loss": False,
    "node.drain": True,
    "node.isolation": None,
    "node.restart": True,
    "node.out_of_memory": None,
    "zone.power_loss": True,
}
"""Kind of fault → whether the data of a pod must outlive it; None: the pod stays, so either is well."""


def client_of(target: Existing) -> Client:
    """Of the file's Kubernetes. Nothing is sent yet."""
    pods = target.written.kubernetes
    assert pods is not None
    return Client(pods.context, target.kubeconfig)


def ways_of(target: Existing) -> Ways | None:
    """The ways into pods that a file needs; None: it needs none."""
    file, pods = target.written, target.written.kubernetes
    if pods is None or pods.forward is None:
        return None
    led = {
        str(address).partition("://")[2]: file.nodes[name].pod or name
        for name, address in file.of_nodes.items()
        if on_loopback(str(address))
    }
    kubeconfig = target.kubeconfig
    return Ways(pods.context, None if kubeconfig is None else str(kubeconfig), pods.namespace, pods.forward, led)


def open_ways(target: Existing) -> None:
    """See to it that the nodes' addresses lead to their pods while this process lives. Raises LabError."""
    if (ways := ways_of(target)) is not None:
        forwarding.hold(ways, paths.state() / "targets" / target.written.name)


def look(target: Existing) -> Seen | str:
    """What the API server says of a file's pods; or why it says nothing, in words."""
    pods = target.written.kubernetes
    assert pods is not None
    client = client_of(target)
    try:
        return seen.look(client, pods.namespace, pods.selector, pods.zone_label, pods.identity.stateful_sets)
    except ChaosError as error:
        return error.message if not error.remedy else f"{error.message} ({error.remedy})"
    finally:
        client.close()


def refuse_another(target: Existing) -> None:
    """Raises InvalidInput where a file's pods are in Kubernetes and another one than the file's answers: there nothing
    of ours would be found, and all of it would be taken for undone. Silence is no reason."""
    file = target.written.kubernetes
    if file is None:
        return
    client = client_of(target)
    try:
        system = client.found("read_namespace", "kube-system")
    except ChaosError:
        return
    finally:
        client.close()
    found = ((system or {}).get("metadata") or {}).get("uid")
    if found != file.identity.cluster:
        raise InvalidInput(
            f"{client.says} leads to another Kubernetes: the uid of kube-system is {found}, and the file says "
            f"{file.identity.cluster}",
            remedy=f"nothing is done to it; see: opensearch-chaos target check {target.file}",
        )


def mark(run: str, id: str) -> str:
    """The name of an image for one fault on one node: unlike any other."""
    plain = re.sub(r"[^a-z0-9]+", "-", f"{run}-{id}".lower()).strip("-")[:80].rstrip("-")
    return f"{NOWHERE}/{plain}:{secrets.token_hex(8)}"


def mark_in(image: str) -> str | None:
    """The mark of a fault of ours in the name of an image; None: there is none. A webhook that gives all images another
    registry may have put that before it."""
    at = image.find(f"{NOWHERE}/")
    return None if at < 0 else image[at:]


def held(pod: Pod) -> bool:
    """Whether a fault of ours holds a pod down."""
    return mark_in(pod.image) is not None


class Changed(FaultError):
    """A pod is not the one that was meant any more, or has another image."""


class Pods:
    """The pods of one target, for faults. ``of_nodes``: node → pod by name."""

    def __init__(self, target: Existing) -> None:
        assert target.written.kubernetes is not None
        self.file: KubernetesFile = target.written.kubernetes
        self.of_nodes: Mapping[str, str] = {
            name: node.pod for name, node in target.written.nodes.items() if node.pod is not None
        }
        self.client = client_of(target)
        self.may_begin: Callable[[], None] = lambda: None
        """Raises ChaosError where the run must begin nothing more. It is asked right before each change but undos."""
        self._last: tuple[float, Seen] | None = None
        self._cordoned: set[str] = set()
        """Machines that were cordoned or uncordoned by this object."""

    def look(self, *, fresh: float = 0.0) -> Seen:
        """All of them, as they were ``fresh`` seconds ago at most. Raises LabError."""
        if self._last is None or time.monotonic() - self._last[0] > fresh:
            file = self.file
            began = time.monotonic()
            known = file.identity.stateful_sets
            self._last = began, seen.look(self.client, file.namespace, file.selector, file.zone_label, known)
        return self._last[1]

    def pod(self, node: str) -> Pod | None:
        """The pod of a node now; None where there is none. Raises LabError, FaultError where the file names none."""
        return seen.one(self.client, self.file.namespace, self._name(node))

    def _name(self, node: str) -> str:
        if node not in self.of_nodes:
            raise FaultError(f"the target's file names no pod of {node}")
        return self.of_nodes[node]

    # ---- what is done to one -------------------------------------------------------------------------------

    def hold(self, node: str, uid: str, image: str, mark: str) -> None:
        """Give the pod of this uid an image that cannot be pulled: its container is ended in order, and does not start.

        The pod stays, with its volumes and its address. Idempotent. Raises FaultError where it is another pod by now,
        or has another image than ``image``.
        """
        self.may_begin()
        self._set_image(node, uid, image, mark)

    def kill(self, node: str, uid: str, image: str, mark: str) -> None:
        """Delete the pod of this uid without grace, and hold the one that its controller makes in its place.

        Idempotent. Raises FaultError where its controller makes none, or none that has ``image``.
        """
        found = self.pod(node)
        if found is not None and mark_in(found.image) == mark:
            return
        if found is not None and found.uid == uid:
            self.delete(node, uid, 0)
        self.hold(node, self._next(node, uid).uid, image, mark)

    def _next(self, node: str, uid: str) -> Pod:
        """The pod that has come in the place of that of this uid. Raises LabError where none comes."""
        found: Pod | None = None

        def came() -> bool:
            nonlocal found
            found = self.pod(node)
            return found is not None and found.uid != uid

        if not wait_until(came, ANOTHER_SECONDS, every=0.1):
            raise LabError(f"no other pod comes in the place of {self._name(node)} within {ANOTHER_SECONDS:.0f} s")
        assert found is not None
        return found

    def delete(self, node: str, uid: str, grace: int | None) -> None:
        """Delete the pod of this uid; nothing to do where it is gone. ``grace``: seconds; None: its own."""
        options: dict[str, Any] = {"preconditions": {"uid": uid}}
        options |= {} if grace is None else {"gracePeriodSeconds": grace}
        self._asked(node, "delete_namespaced_pod", body={"apiVersion": "v1", "kind": "DeleteOptions", **options})

    def evict(self, node: str, uid: str) -> None:
        """Ask for the pod's eviction, which budgets may refuse. Raises FaultError where one does, in its words."""
        name = self._name(node)
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": self.file.namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        try:
            self._asked(node, "create_namespaced_pod_eviction", body)
        except Refused as error:
            if error.status == REFUSED and BUDGET in error.detail:  # else it has too many requests
                raise FaultError(f"a budget refuses the eviction of {name}: {error.detail}") from None
            raise

    def _asked(self, node: str, method: str, *arguments: Any, **named: Any) -> None:
        """A request that ends the pod of a uid; it is well where that pod is gone already."""
        self.may_begin()
        try:
            self.client.core(method, self._name(node), self.file.namespace, *arguments, changes=True, **named)
        except Refused as error:
            if error.status not in (NOT_FOUND, CONFLICT):
                raise

    def release(self, node: str, mark: str, image: str) -> bool:
        """Give the pod its image again, if it still has our mark; whether it had. Raises LabError.

        Another pod of its name, or another image, is not ours to touch: its controller has made it without the mark.
        """

        def release() -> bool:
            found = self.pod(node)
            if found is None or mark_in(found.image) != mark:
                return False
            self._set_image(node, found.uid, found.image, image)
            return True

        return _repeated(release)

    # ---- what is done to a machine -------------------------------------------------------------------------

    def cordon(self, machine: str, mark: str) -> None:
        """Let no new pod come to a machine, as ``kubectl cordon`` does, with our mark on it. Idempotent.

        Raises FaultError where somebody else has done so already, be it since we looked, or there is no such machine.
        """
        self._cordoned.add(machine)

        def cordon() -> bool:
            there = self._machine(machine)
            if there is None:
                raise FaultError(f"there is no machine {machine}")
            meta, spec = there["metadata"], there.get("spec") or {}
            if _mark_of(there) == mark and spec.get("unschedulable"):
                return False
            if spec.get("unschedulable"):
                raise FaultError(f"machine {machine} takes no new pods already, by somebody else's doing")
            # a version, because an operation that tests has no way to say that a field is not there
            seen_at = {"op": "test", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]}
            patch = [{"op": "test", "path": "/metadata/uid", "value": meta["uid"]}, seen_at]
            patch += [] if meta.get("annotations") else [{"op": "add", "path": "/metadata/annotations", "value": {}}]
            patch += [
                {"op": "add", "path": MARKED, "value": mark},
                {"op": "add", "path": "/spec/unschedulable", "value": True},
            ]
            self.may_begin()
            self.client.core("patch_node", machine, patch, changes=True)
            return True

        _repeated(cordon)

    def uncordon(self, machine: str, mark: str) -> bool:
        """Let new pods come to a machine again, if it still has our mark; whether it had. Raises LabError."""
        self._cordoned.add(machine)

        def uncordon() -> bool:
            there = self._machine(machine)
            if there is None or _mark_of(there) != mark:
                return False
            patch = [{"op": "test", "path": MARKED, "value": mark}, {"op": "remove", "path": MARKED}]
            if (there.get("spec") or {}).get("unschedulable"):
                patch.append({"op": "remove", "path": "/spec/unschedulable"})
            self.client.core("patch_node", machine, patch, changes=True)
            return True

        return _repeated(uncordon)

    def cordoned(self, machine: str) -> bool:
        """Whether a machine takes no new pods, by whose doing ever. Raises LabError."""
        there = self._machine(machine)
        return there is not None and bool((there.get("spec") or {}).get("unschedulable"))

    def machine_is_ready(self, machine: str) -> bool:
        """Whether Kubernetes takes a machine for alive: its kubelet said so of late. Raises LabError."""
        there = self._machine(machine)
        conditions = ((there or {}).get("status") or {}).get("conditions") or ()
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def kubelet_port(self, machine: str) -> int:
        """The port at which the API server reaches a machine's kubelet. Raises LabError, FaultError where it does not
        say."""
        there = self._machine(machine) or {}
        try:
            return int(there["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"])
        except (LookupError, TypeError, ValueError):
            raise FaultError(f"Kubernetes does not say at which port the kubelet of {machine} listens") from None

    def _machine(self, name: str) -> Any:
        return self.client.found("read_node", name)

    def neighbours(self, machine: str, *, all_of_them: bool = False) -> dict[str, tuple[str, ...]]:
        """Namespace → pods on a machine that a drain would hit and that are none of this cluster's. Those of
        DaemonSets stay (they tolerate it), as do those that no controller made and those that have ended.

        ``all_of_them``: of what hits the machine itself, that is all pods there, but helpers of ours.
        """
        mine = set(self.of_nodes.values())
        found: dict[str, list[str]] = {}
        listed = self.client.core("list_pod_for_all_namespaces", field_selector=f"spec.nodeName={machine}")["items"]
        for item in listed:
            meta = item["metadata"]
            space, name = str(meta["namespace"]), str(meta["name"])
            kinds = {each["kind"] for each in meta.get("ownerReferences") or () if each.get("controller", True)}
            over = (item.get("status") or {}).get("phase") in ("Succeeded", "Failed")
            hit = HELPS not in (meta.get("labels") or {}) and (all_of_them or bool(kinds - STAYING))
            if hit and not over and not (space == self.file.namespace and name in mine):
                found.setdefault(space, []).append(name)
        return {space: tuple(sorted(names)) for space, names in sorted(found.items())}

    def beside(self, hit: Mapping[str, Pod], accepted: Collection[str], *, cut: bool = False) -> list[str]:
        """Whom a drain of the machines of these nodes' pods would hit beside them, in words: nodes of this cluster that
        it does not name, and pods of namespaces that are not ``accepted``. ``cut``: or their isolation. Raises
        LabError."""
        also_hit = "be cut off with" if cut else "be drained from"
        lost = "be cut off with" if cut else "get no other pod on"
        wrong = []
        known = {pod: node for node, pod in self.of_nodes.items()}
        everyone = self.look(fresh=FRESH_SECONDS).pods
        for machine in sorted({pod.machine for pod in hit.values() if pod.machine}):
            mine = {known[name] for name, pod in everyone.items() if pod.machine == machine and name in known}
            if also := sorted(mine - set(hit)):
                wrong.append(f"{', '.join(also)} would {also_hit} {machine} too: name it as well")
            labels = ((self._machine(machine) or {}).get("metadata") or {}).get("labels") or {} if cut else {}
            if control := [label for label in CONTROL if label in labels]:
                wrong.append(f"Kubernetes itself would be cut off with {machine} ({control[0]}), and us from it")
            for space, names in self.neighbours(machine, all_of_them=cut).items():
                if space not in accepted:
                    some = ", ".join(names[:SHOWN]) + (" and more" if len(names) > SHOWN else "")
                    wrong.append(f"{some} of namespace {space} would {lost} {machine}: others: [{space}]")
        return wrong

    def _set_image(self, node: str, uid: str, image: str, other: str) -> None:
        """``image`` → ``other`` in the node's container of the pod of this uid: the API server compares, and changes
        nothing where either is another."""
        found = self.pod(node)
        name = self._name(node)
        if found is not None and found.uid == uid and other in (found.image, mark_in(found.image)):
            return
        if found is None or found.uid != uid or found.image != image:
            what = "there is none" if found is None else f"it is {found.uid} with image {found.image}"
            raise Changed(f"{name}: expected pod {uid} with image {image}, and {what}")
        at = f"/spec/containers/{found.number}"
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "test", "path": f"{at}/name", "value": found.container},
            {"op": "test", "path": f"{at}/image", "value": image},
            {"op": "replace", "path": f"{at}/image", "value": other},
        ]
        self.client.core("patch_namespaced_pod", name, self.file.namespace, patch, changes=True)

    # ---- what is awaited -----------------------------------------------------------------------------------

    def await_ready(self, node: str, seconds: float, *, but: str | None = None) -> None:
        """Until the pod of a node is ready, and is not that of the uid ``but``. Raises LabError with what it is."""
        last = "there is none"

        def ready() -> bool:
            nonlocal last
            found = self.pod(node)
            last = said(found)
            return found is not None and found.ready and not found.ending and found.uid != but

        if not wait_until(ready, seconds, every=0.5):
            raise LabError(f"pod {self._name(node)} is not ready after {seconds:.0f} s: {last}")

    def left(self, made: Callable[[str], bool]) -> list[str]:
        """Pods that still have an image of ours, and machines that still take no new pods, in words; empty: none.
        ``made``: whether a mark is meant."""
        seen_now = self.look()
        found = [
            f"pod {pod.name} still has the image {pod.image}"
            for pod in seen_now.pods.values()
            if (its := mark_in(pod.image)) is not None and made(its)
        ]
        marks = dict(seen_now.drained)
        for machine in sorted(self._cordoned - marks.keys()):
            there = self._machine(machine)
            marks |= {machine: each} if there and (each := _mark_of(there)) else {}
        return found + [f"machine {name} still takes no new pods" for name, mark in marks.items() if made(mark)]


def _repeated(change: Callable[[], bool]) -> bool:
    """What a change comes to. It is tried again where somebody else changed the object between look and patch."""
    for _ in range(AGAIN - 1):
        try:
            return change()
        except (Changed, Refused):
            time.sleep(0.2)
    return change()


def _mark_of(machine: Mapping[str, Any]) -> str | None:
    found = (machine["metadata"].get("annotations") or {}).get(seen.DRAINED)
    return None if found is None else str(found)


def unfit(pod: Pod, kind: str) -> str | None:
    """Why a pod's volumes do not suit a kind that ends it; None: they do."""
    keeps = KEEPS[kind]
    if keeps is True and not pod.keeps:
        return f"pod {pod.name} has no volume by a claim: deleted, it comes back without its data, which is node.loss"
    if keeps is False and pod.keeps:
        return f"pod {pod.name} has a volume by a claim, which outlives it: its data would not be lost"
    return None


def said(pod: Pod | None) -> str:
    """A pod in a few words."""
    if pod is None:
        return "there is no such pod"
    state = "runs" if pod.runs else f"does not run ({pod.waits or 'no reason yet'})"
    more = ", is being deleted" if pod.ending else ""
    return f"{pod.uid} {state}, {'ready' if pod.ready else 'not ready'}{more}"
