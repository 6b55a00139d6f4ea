"""What the API server says of a cluster's pods at one moment: whose they are, where they are, who guards them. By GETs.

What may not be read is missing with its reason (:attr:`Seen.unread`). Labels of machines and budgets are of use alone;
without pods and the StatefulSets that own them nothing is known, and that is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.base.errors import InvalidInput, LabError
from chaos.base.text import printable
from chaos.kubernetes.client import Client, Refused

CHART = "app.kubernetes.io/name=opensearch"
OPERATOR = ("opster.io/opensearch-cluster", "opensearch.org/opensearch-cluster")
"""Labels of opensearch-k8s-operator's pods, whose value is the cluster's name (its builders; the second since its API
group has that name)."""
SELECTORS = (CHART, *OPERATOR)
DRAINED = "opensearch-chaos/drained"
"""The annotation of a machine that a fault of ours has closed to new pods."""
ENFORCED = "pod-security.kubernetes.io/enforce"
REVISION = "controller-revision-hash"
"""A label of pods of StatefulSets: of which revision each is."""
SYNC_FAILED = "SyncFailed"
"""The reason of a budget's condition DisruptionAllowed where Kubernetes cannot compute how many pods may go."""
OPENSEARCH = "opensearch"
"""The container of a node, as chart and operator name it."""


@dataclass(frozen=True)
class Pod:
    """``machine``: the node of Kubernetes; ``zone``: the label of that machine, None where it has none or may not be
    read. ``owner``: its StatefulSet's name and uid. ``data``: where its container has volumes by claims. ``ending``: it
    is being deleted; ``disrupted``: by whom, in Kubernetes's words."""

    name: str
    uid: str
    ip: str | None
    machine: str | None
    zone: str | None
    ready: bool
    ending: bool
    owner: tuple[str, str] | None
    container: str
    number: int
    """Of that container in the pod."""
    image: str
    runs: bool
    data: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    disrupted: str | None = None
    waits: str = ""
    """Why its container does not run, in Kubernetes's word, such as ErrImagePull."""
    ended: tuple[str, str] | None = None
    """How its container ended last, in Kubernetes's word, such as OOMKilled, and when; None: it never has."""
    of_machine: bool = False
    """Whether it is in the network of its machine (``hostNetwork``)."""

    @property
    def keeps(self) -> bool:
        """Whether its data are in a volume that outlives the pod: the next one of the same name has it."""
        return bool(self.data)


@dataclass(frozen=True)
class StatefulSet:
    """``rolling``: its pods are being replaced by those of another revision. ``wanted`` and ``ready``: pods."""

    name: str
    uid: str
    wanted: int
    ready: int
    rolling: bool
    revision: str


@dataclass(frozen=True)
class Budget:
    """A PodDisruptionBudget: how many of its ``pods`` may be away now, besides those that are."""

    name: str
    pods: tuple[str, ...]
    allowed: int
    healthy: int
    wanted: int | None
    """How many must be healthy. None: not known, and then neither is ``allowed``: the status is not of the budget's
    present spec, or Kubernetes could not compute it."""


@dataclass(frozen=True)
class Seen:
    """``cluster`` None: the uid of kube-system may not be read. ``budgets`` None: they may not be."""

    cluster: str | None
    namespace: str | None
    pods: Mapping[str, Pod]
    sets: Mapping[str, StatefulSet]
    budgets: tuple[Budget, ...] | None
    drained: Mapping[str, str] = field(default_factory=dict)
    """Machine → the mark of the fault of ours by which it takes no new pods."""
    unread: Mapping[str, str] = field(default_factory=dict)
    selectors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Budget → the label selector of it, of all that the namespace has, whatever pods they take."""
    enforced: str | None = None
    """The level of Pod Security that the namespace enforces; None: none that is known."""


def look(client: Client, namespace: str, selector: str, zone_label: str, known: Collection[str] = frozenset()) -> Seen:
    """``known``: names of StatefulSets that are seen even while they have no pod, as where its only pod was deleted.

    Raises LabError where the API server gives no answer, or does not let pods and StatefulSets be read.
    """
    unread: dict[str, str] = {}

    def part(what: str, group: str, method: str, *arguments: Any, **named: Any) -> Any:
        try:
            return client.call(group, method, *arguments, **named)
        except Refused as error:
            unread[what] = error.detail
            return None

    listed = client.core("list_namespaced_pod", namespace, label_selector=selector)["items"]
    sets = client.call("AppsV1Api", "list_namespaced_stateful_set", namespace)["items"]
    system = part("cluster", "CoreV1Api", "read_namespace", "kube-system")
    space = part("namespace", "CoreV1Api", "read_namespace", namespace)
    budgets = part("budgets", "PolicyV1Api", "list_namespaced_pod_disruption_budget", namespace)
    machines = _machines(client, {str(each["spec"].get("nodeName", "")) for each in listed} - {""}, unread)
    zones = {name: printable(each[0][zone_label]) for name, each in machines.items() if zone_label in each[0]}
    try:
        pods = {each.name: each for each in (_pod(item, zones) for item in listed)}
        owners = {*known, *(each.owner[0] for each in pods.values() if each.owner is not None)}
        every = (_set(item, pods.values()) for item in sets)
        mine = {each.name: each for each in every if each.name in owners}
        return Seen(
            cluster=None if system is None else str(system["metadata"]["uid"]),
            namespace=None if space is None else str(space["metadata"]["uid"]),
            pods=pods,
            sets=mine,
            budgets=None if budgets is None else tuple(_budgets(budgets["items"], pods.values())),
            selectors={} if budgets is None else _selectors(budgets["items"]),
            drained={name: each[1][DRAINED] for name, each in machines.items() if DRAINED in each[1]},
            unread=unread,
            enforced=None if space is None else (space["metadata"].get("labels") or {}).get(ENFORCED),
        )
    except (LookupError, TypeError, AttributeError) as error:
        raise LabError(f"what the API server says of namespace {namespace} cannot be read ({error})") from None


def one(client: Client, namespace: str, name: str) -> Pod | None:
    """A pod by its name; None where there is none now. Raises LabError."""
    item = client.found("read_namespaced_pod", name, namespace)
    try:
        return None if item is None else _pod(item, {})
    except (LookupError, TypeError, AttributeError) as error:
        raise LabError(f"what the API server says of pod {name} cannot be read ({error})") from None


def discover(client: Client, namespace: str | None, selector: str | None) -> tuple[str, str]:
    """The namespace and the selector of the one OpenSearch that there is. Raises InvalidInput where there is none, or
    more than one, in words that say which."""
    wanted = (selector,) if selector else SELECTORS
    found: dict[tuple[str, str], int] = {}
    for each in wanted:
        for item in _anywhere(client, namespace, each):
            label = item["metadata"].get("labels", {}).get(each) if each in OPERATOR else None
            # the operator names the cluster of each pod, the chart its release alone: one cluster may be of several
            where = (item["metadata"]["namespace"], f"{each}={label}" if label else each)
            found[where] = found.get(where, 0) + 1
        if found:
            break
    places = f"in namespace {namespace}" if namespace else "in any namespace that may be read"
    if not found:
        raise InvalidInput(
            f"there are no pods with {' or '.join(wanted)} {places}",
            remedy="name their labels with --selector, or another --namespace or --context",
        )
    if len(found) > 1:
        said = ", ".join(f"--namespace {space} --selector {labels} ({n} pods)" for (space, labels), n in found.items())
        raise InvalidInput(f"there is more than one OpenSearch {places}", remedy=f"name one: {said}")
    return next(iter(found))


def _anywhere(client: Client, namespace: str | None, selector: str) -> list[dict[str, Any]]:
    """Pods with these labels in a namespace; None: in all, or where that may not be read in the context's own."""
    if namespace is None:
        try:
            return list(client.core("list_pod_for_all_namespaces", label_selector=selector)["items"])
        except Refused:
            if client.default_namespace is None:
                raise InvalidInput(
                    "this user may not list the pods of all namespaces", remedy="name one with --namespace"
                ) from None
            namespace = client.default_namespace
    return list(client.core("list_namespaced_pod", namespace, label_selector=selector)["items"])


def _machines(
    client: Client, machines: Iterable[str], unread: dict[str, str]
) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """Machine → its labels and its annotations, of those that are there; nothing where they may not be read. Pods stay
    for a while once their machine was deleted."""
    found = {}
    for name in sorted(machines):
        try:
            machine = client.found("read_node", name)
        except Refused as error:
            unread["machines"] = error.detail
            return {}
        if machine is None:
            continue
        meta = machine["metadata"]
        found[name] = (meta.get("labels") or {}, meta.get("annotations") or {})
    return found


def _pod(item: Mapping[str, Any], zones: Mapping[str, str]) -> Pod:
    meta, spec, status = item["metadata"], item["spec"], item.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    owner = next((each for each in meta.get("ownerReferences") or () if each["kind"] == "StatefulSet"), None)
    containers = spec["containers"]
    container = next((each for each in containers if each["name"] == OPENSEARCH), containers[0])
    told = {each["name"]: each for each in status.get("containerStatuses") or ()}.get(container["name"], {})
    state = told.get("state") or {}
    ended = state.get("terminated") or (told.get("lastState") or {}).get("terminated")
    disrupted = conditions.get("DisruptionTarget", {})
    machine = spec.get("nodeName")
    return Pod(
        name=printable(meta["name"]),
        uid=str(meta["uid"]),
        ip=status.get("podIP"),
        machine=machine,
        zone=zones.get(machine or ""),
        ready=conditions.get("Ready", {}).get("status") == "True",
        ending="deletionTimestamp" in meta,
        owner=None if owner is None else (str(owner["name"]), str(owner["uid"])),
        container=str(container["name"]),
        number=containers.index(container),
        image=str(container["image"]),
        runs="running" in state,
        data=_claimed(spec, container),
        labels={str(key): str(value) for key, value in (meta.get("labels") or {}).items()},
        disrupted=printable(disrupted.get("reason", "")) if disrupted.get("status") == "True" else None,
        waits=printable(next(iter(state.values())).get("reason") or "") if state and "running" not in state else "",
        ended=None if ended is None else (printable(ended.get("reason") or ""), str(ended.get("finishedAt"))),
        of_machine=bool(spec.get("hostNetwork")),
    )


def _claimed(spec: Mapping[str, Any], container: Mapping[str, Any]) -> tuple[str, ...]:
    """Where a container has volumes by claims."""
    claimed = {each["name"] for each in spec.get("volumes") or () if "persistentVolumeClaim" in each}
    return tuple(str(each["mountPath"]) for each in container.get("volumeMounts") or () if each["name"] in claimed)


def _set(item: Mapping[str, Any], pods: Iterable[Pod]) -> StatefulSet:
    """With the strategy ``OnDelete``, which the operator uses, ``currentRevision`` stays behind once all pods have
    the next one (kubernetes/kubernetes#73492): there the pods themselves say it."""
    status, uid = item.get("status") or {}, str(item["metadata"]["uid"])
    now, next_one = status.get("currentRevision"), status.get("updateRevision")
    behind = int(status.get("observedGeneration", 0)) < int(item["metadata"].get("generation", 0))
    replacing = next_one is not None and now != next_one
    if (item["spec"].get("updateStrategy") or {}).get("type") == "OnDelete":
        mine = [each for each in pods if each.owner is not None and each.owner[1] == uid]
        replacing = replacing and any(each.labels.get(REVISION) != next_one for each in mine)
    return StatefulSet(
        name=str(item["metadata"]["name"]),
        uid=uid,
        wanted=int(item["spec"].get("replicas", 1)),
        ready=int(status.get("readyReplicas", 0)),
        rolling=behind or replacing,
        revision=str(next_one or now or ""),
    )


def _selectors(items: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Without those of budgets that have none: they take no pod."""
    every = {printable(each["metadata"]["name"]): each["spec"].get("selector") for each in items}
    return {name: selector for name, selector in every.items() if selector is not None}


def _budgets(items: Iterable[Mapping[str, Any]], pods: Iterable[Pod]) -> Iterable[Budget]:
    every = list(pods)
    for item in items:
        selector, status = item["spec"].get("selector"), item.get("status") or {}
        covered = tuple(sorted(pod.name for pod in every if selector is not None and selects(selector, pod.labels)))
        if covered:
            yield Budget(
                name=printable(item["metadata"]["name"]),
                pods=covered,
                allowed=int(status.get("disruptionsAllowed", 0)),
                healthy=int(status.get("currentHealthy", 0)),
                wanted=int(status.get("desiredHealthy", 0)) if _is_current(item["metadata"], status) else None,
            )


def _is_current(meta: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether the status of a budget is of its present spec, and was computed.

    One that was just made has zeros, and one that was changed has the numbers of before. Where Kubernetes fails to
    compute them it sets ``disruptionsAllowed`` to 0 and leaves the others (``failSafe`` of its disruption controller).
    """
    observed = status.get("observedGeneration")
    if observed is None or int(observed) < int(meta.get("generation", 0)):
        return False
    conditions = status.get("conditions") or ()
    return not any(each["type"] == "DisruptionAllowed" and each.get("reason") == SYNC_FAILED for each in conditions)


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector of policy/v1 takes labels; an empty one takes all (LabelSelector, meta/v1)."""
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_expressed(each, labels) for each in selector.get("matchExpressions") or ())


def _expressed(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator, values = term["key"], term["operator"], term.get("values") or ()
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return labels.get(key) not in values
    return (key in labels) is (operator == "Exists")
