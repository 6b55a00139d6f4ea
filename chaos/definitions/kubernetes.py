"""Where a cluster's nodes are pods: ``kubernetes`` of a target's file, and the pod of each node (docs/kubernetes.md).

Names alone say nothing of which cluster of Kubernetes answers: a context leads elsewhere once somebody edits the
kubeconfig, and a namespace that was deleted is made again under its name. Uids are never used twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Annotated, Any

from pydantic import Field, StrictInt

from chaos.base.addresses import Address
from chaos.definitions.base import Strict
from chaos.definitions.source import Problem

Uid = Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
Label = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
"""The name of a namespace (RFC 1123)."""
ObjectName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")]
"""The name of a pod or a StatefulSet (RFC 1123, subdomain)."""


class KubernetesIdentity(Strict):
    """Which Kubernetes it is, by uids: what has another uid is another thing of the same name."""

    cluster: Uid = Field(description="uid of the namespace kube-system, which is as old as the cluster")
    namespace: Uid = Field(description="uid of the namespace")
    stateful_sets: dict[ObjectName, Uid] = Field(
        min_length=1, description="StatefulSets that the pods are of, each with its uid"
    )


class KubernetesFile(Strict):
    """How the API server is reached, and whose pods the nodes are. Credentials are those of the kubeconfig."""

    namespace: Label = Field(description="of the pods, for example search")
    selector: str = Field(
        min_length=1, description="labels of the pods of this cluster, for example app.kubernetes.io/name=opensearch"
    )
    identity: KubernetesIdentity
    context: str | None = Field(
        default=None, min_length=1, description="of the kubeconfig; default its current one, or the pod's own account"
    )
    kubeconfig: str | None = Field(
        default=None, min_length=1, description="file beside this one; default $KUBECONFIG, then ~/.kube/config"
    )
    zone_label: str = Field(
        default="topology.kubernetes.io/zone", min_length=1, description="the label of machines that holds the zone"
    )
    forward: Annotated[StrictInt, Field(ge=1, le=65535)] | None = Field(
        default=None,
        description="port of the REST API in each pod, such as 9200: each node's url, which must be on loopback, is "
        "forwarded to it by the API server; default none, urls are reached as they stand",
    )
    helper: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}$")] | None = Field(
        default=None,
        description="image of the helper pods by which the network, the processor and the process of a pod are broken: "
        "Python 3.9 or newer, nft, tc, ip, unshare and grep; default none, such faults cannot be had",
    )


def on_loopback(url: str) -> bool:
    """Whether an address is this machine's own, as a number."""
    try:
        return ip_address(Address.parse(url).host).is_loopback
    except ValueError:
        return False


def check(file: KubernetesFile | None, nodes: Mapping[str, Any]) -> Iterator[Problem]:
    """What the section and the nodes say of each other. ``nodes``: by name, each with ``pod``, ``url``, ``ssh``."""
    pods = {name: node.pod for name, node in nodes.items() if node.pod is not None}
    if file is None:
        for name in pods:
            says = "pod is of Kubernetes, and the file does not say which: expected kubernetes"
            yield Problem(("nodes", name, "pod"), says, at_key=True)
        return
    if without := [name for name in nodes if name not in pods]:
        says = f"{without[0]} has no pod: expected the pod of each node, as init --from-kubernetes writes it"
        yield Problem(("nodes", without[0]), says, at_key=True)
    yield from _once("pod", pods)
    for name, node in nodes.items():
        if file.helper is not None and node.ssh is not None:
            says = f"{name} is reached by ssh, and the file has an image for helper pods: expected one of them"
            yield Problem(("nodes", name, "ssh"), says, at_key=True)
    if file.forward is None:
        return
    urls = {name: node.url for name, node in nodes.items() if node.url is not None}
    yield from _once("url", urls)
    for name, url in urls.items():
        if not on_loopback(url):
            says = f"{url} is not on loopback, and forward leads from there to the pod: expected such as 127.98.0.1"
            yield Problem(("nodes", name, "url"), says)
    if not urls:
        yield Problem(("kubernetes", "forward"), "no node has a url that could be forwarded", at_key=True)


def _once(what: str, said: Mapping[str, str]) -> Iterator[Problem]:
    known: dict[str, str] = {}
    for name, value in said.items():
        if value in known:
            yield Problem(("nodes", name, what), f"{value} is that of {known[value]} already: expected each once")
        known.setdefault(value, name)
