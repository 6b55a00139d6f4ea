"""``init --from-kubernetes``: the file of a cluster whose nodes are pods, drafted from what both say of it.

GETs alone, and streams into pods by the API server, through which the cluster is asked.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.base.errors import InvalidInput

if TYPE_CHECKING:
    from chaos.base.access import Access
    from chaos.base.addresses import Address
    from chaos.kubernetes.client import Client
    from chaos.kubernetes.seen import Pod
    from chaos.kubernetes.seen import Seen as SeenPods
    from chaos.targets.existing.seen import Seen

REST_PORT = 9200
LOOPBACK = "127.98"
"""Where ways into pods begin: 127.98.X.N, X by the namespace's uid, N by the pod."""
HANDSHAKE_SECONDS = 10.0


@dataclass(frozen=True)
class Where:
    """How Kubernetes is reached, and whose pods are meant; None: as kubectl does, and what is found."""

    context: str | None = None
    kubeconfig: Path | None = None
    namespace: str | None = None
    selector: str | None = None
    url: str | None = None
    """Of the cluster's REST API, where no way into pods is wanted."""
    port: int = REST_PORT


def drafted(where: Where, folder: Path, name: str | None, zone_attribute: str | None, given: dict[str, Any]) -> Path:
    """Write the draft of a target's file; returns it. Raises InvalidInput, LabError where Kubernetes does not answer.

    ``given``: how the cluster's REST API is spoken to.
    """
    from chaos.commands.targets import beside, refuse_name, written_access
    from chaos.definitions.existing import FOLDER
    from chaos.kubernetes import seen as kubernetes
    from chaos.kubernetes.client import Client
    from chaos.targets.existing import draft

    refuse_name(name)
    with closing(Client(where.context, where.kubeconfig)) as client:
        space, selector = kubernetes.discover(client, where.namespace, where.selector)
        there = kubernetes.look(client, space, selector, _zone_label())
        _refuse_unknown(there, space)
        with _asked(client, where, there, space, zone_attribute, given) as (seen, access, address_of):
            pods = _pods(seen, there)
            _refuse_without_zones(seen, there, pods)
            draft.zones(seen)
    named = name or draft.file_name(seen.identity.cluster_name)
    path = folder / FOLDER / f"{named}.yaml"
    more: dict[str, Any] = {"context": client.named} if client.named else {}
    if where.kubeconfig is not None:
        more["kubeconfig"] = beside(where.kubeconfig, folder, path.parent)
    section = {
        "namespace": space,
        "selector": selector,
        **more,
        **({"forward": where.port} if _forwards(client, where) else {}),
        "identity": {
            "cluster": there.cluster,
            "namespace": there.namespace,
            "stateful_sets": {each.name: each.uid for each in there.sets.values()},
        },
    }
    urls = {node: str(address_of[pod.name]) for node, pod in pods.items() if pod.name in address_of}
    of_nodes = {node: {"pod": pod.name, **({"url": urls[node]} if node in urls else {})} for node, pod in pods.items()}
    endpoints = [where.url] if where.url is not None else _first_of_zones(seen, urls)
    keys = written_access(access, given, folder, path.parent)
    draft.write(draft.draft(seen, endpoints, keys, named, of_nodes=of_nodes, kubernetes=section), path)
    return path


def _zone_label() -> str:
    from chaos.definitions.kubernetes import KubernetesFile

    return str(KubernetesFile.model_fields["zone_label"].default)


def _forwards(client: Client, where: Where) -> bool:
    return where.url is None and not client.in_pod


def _refuse_unknown(there: SeenPods, space: str) -> None:
    """Raises InvalidInput where it could not be told from another one."""
    for what, uid, key in (("kube-system", there.cluster, "cluster"), (space, there.namespace, "namespace")):
        if uid is None:
            raise InvalidInput(
                f"the uid of namespace {what} may not be read, so nothing would tell this Kubernetes from another: "
                f"{there.unread.get(key, 'no reason')}",
                remedy=f"allow this user to get the namespace {what}",
            )
    if not there.sets:
        raise InvalidInput(
            f"the pods in {space} are of no StatefulSet", remedy="name the labels of OpenSearch's pods with --selector"
        )


@contextmanager
def _asked(
    client: Client, where: Where, there: SeenPods, space: str, attribute: str | None, given: dict[str, Any]
) -> Iterator[tuple[Seen, Access, Mapping[str, Address]]]:
    """The cluster as it was seen, how it was spoken to, and the address of each pod that has one of its own."""
    from chaos.base.addresses import Address
    from chaos.commands.access import reached
    from chaos.kubernetes.forwarding import Listeners, Ways
    from chaos.targets.existing.seen import look

    if where.url is not None:
        host, port, access = reached(where.url, **given)
        yield look((Address(access.tls, host, port),), access, attribute), access, {}
        return
    ready = [pod for pod in sorted(there.pods.values(), key=lambda pod: pod.name) if pod.ready]
    if not ready:
        raise InvalidInput("no pod of it is ready", remedy="see: kubectl get pods")
    if client.in_pod:
        places = {pod.name: (f"{pod.name}.{_service(client, space, pod)}.{space}.svc", where.port) for pod in ready}
        listeners = None
    else:
        places = dict(zip((pod.name for pod in ready), _loopback(there.namespace or "", where.port), strict=False))
        pods = {f"{host}:{port}": pod for pod, (host, port) in places.items()}
        kubeconfig = None if where.kubeconfig is None else str(where.kubeconfig)
        listeners = Listeners(Ways(where.context, kubeconfig, space, where.port, pods))
    try:
        scheme = "https" if _speaks_tls(*places[ready[0].name]) else "http"
        found = {pod: Address.parse(f"{scheme}://{host}:{port}") for pod, (host, port) in places.items()}
        _, _, access = reached(str(found[ready[0].name]), **given)
        yield look(tuple(found.values())[:1], access, attribute), access, found
    finally:
        if listeners is not None:
            listeners.close()


def _service(client: Client, space: str, pod: Pod) -> str:
    """The headless service by which a pod of a StatefulSet has a name. Raises InvalidInput where it has none."""
    assert pod.owner is not None
    item = client.call("AppsV1Api", "read_namespaced_stateful_set", pod.owner[0], space)
    if not (name := item["spec"].get("serviceName")):  # optional since Kubernetes 1.33
        says = f"StatefulSet {pod.owner[0]} names no headless service, so its pods have no names of their own"
        raise InvalidInput(says, remedy="give the cluster's address with --url")
    return str(name)


def _loopback(uid: str, port: int) -> Iterator[tuple[str, int]]:
    third = hashlib.sha256(uid.encode()).digest()[0]
    return ((f"{LOOPBACK}.{third}.{number}", port) for number in range(1, 255))


def _speaks_tls(host: str, port: int) -> bool:
    """Whether a TLS handshake comes through; whose certificate it is does not matter here."""
    from chaos.base.netsock import Endpoint

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with Endpoint(host, port).connect(HANDSHAKE_SECONDS) as plain:
            plain.settimeout(HANDSHAKE_SECONDS)
            context.wrap_socket(plain).close()
    except OSError:
        return False
    return True


def _pods(seen: Seen, there: SeenPods) -> dict[str, Pod]:
    """Node → its pod: the one with the address by which the cluster knows the node. Raises InvalidInput where they do
    not match one to one."""
    by_ip = {pod.ip: pod for pod in there.pods.values() if pod.ip is not None}
    found = {node.name: by_ip[node.ip] for node in seen.nodes or () if node.ip in by_ip}
    strange = [node.name for node in seen.nodes or () if node.name not in found]
    others = [name for name in there.pods if name not in {pod.name for pod in found.values()}]
    if strange or others:
        said = [f"node {each} is none of these pods" for each in strange]
        said += [f"pod {each} is no node of this cluster" for each in others]
        waits = "wait until it has joined, where it is starting, or " if others and not strange else ""
        raise InvalidInput(
            "; ".join(said[:5]), remedy=f"{waits}name the labels of exactly the pods of one cluster with --selector"
        )
    return found


def _refuse_without_zones(seen: Seen, there: SeenPods, pods: Mapping[str, Pod]) -> None:
    """Raises InvalidInput where machines have zones and OpenSearch knows none."""
    without = [node.name for node in seen.nodes or () if node.zone is None]
    known = sorted({pod.zone for pod in pods.values() if pod.zone is not None})
    if without and known:
        raise InvalidInput(
            f"the machines are in the zones {', '.join(known)}, and {without[0]} has no node attribute "
            f"'{seen.attribute}': OpenSearch places copies without regard to zones",
            remedy=f"set node.attr.{seen.attribute} to the zone of each pod's machine, and "
            f"cluster.routing.allocation.awareness.attributes to {seen.attribute}",
        )


def _first_of_zones(seen: Seen, urls: Mapping[str, str]) -> list[str]:
    """A url in each zone: of a node with data, where there is one."""
    found: dict[str | None, str] = {}
    for node in sorted(seen.nodes or (), key=lambda node: "data" not in node.roles):
        if node.name in urls:
            found.setdefault(node.zone, urls[node.name])
    return list(found.values())
