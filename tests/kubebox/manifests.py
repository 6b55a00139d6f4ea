"""What runs in a box, as Kubernetes objects: OpenSearch as its Helm chart writes it, an application, and neighbours.

Labels, probes, budgets, policies and names are those of opensearch-project's chart ``opensearch``, installed twice:
once for the dedicated cluster managers, once for the data nodes. docs/kubernetes.md says what differs, and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kubebox import images
from kubebox.plan import DOMAIN, ZONE_LABEL, ZONES

Object = dict[str, Any]
SEARCH, SHOP, OTHERS = "search", "shop", "others"
"""Namespaces: OpenSearch, the application whose data it has, and those who have nothing to do with it."""
CLUSTER = "opensearch-cluster"
MANAGERS_SERVICE = f"{CLUSTER}-master"
CHART = "opensearch-3.0.0"
HTTP, TRANSPORT, METRICS, PODS_PORT = 9200, 9300, 9600, 8080
HOME = "/usr/share/opensearch"
UID = 1000
ORDERS = "orders"
LOCAL, SIZE = "local", "1Gi"
"""The class of volumes, each of which is a folder of one machine with a file system of its own, and its size."""


@dataclass(frozen=True)
class Group:
    """One release of the chart. ``heap`` in MiB."""

    release: str
    name: str
    roles: tuple[str, ...]
    heap: int
    replicas: int = 3
    zonal: bool = False
    """Whether each zone has a StatefulSet of its own."""

    @property
    def full_name(self) -> str:
        return f"{CLUSTER}-{self.name}"

    @property
    def selector(self) -> dict[str, str]:
        return {"app.kubernetes.io/name": "opensearch", "app.kubernetes.io/instance": self.release}

    def labels(self, version: str) -> dict[str, str]:
        return {
            "helm.sh/chart": CHART,
            **self.selector,
            "app.kubernetes.io/version": version,
            "app.kubernetes.io/managed-by": "Helm",
            "app.kubernetes.io/component": self.full_name,
        }


MANAGERS = Group("managers", "master", ("cluster_manager",), 256)
DATA = Group("data", "data", ("data", "ingest"), 512)
GROUPS = (MANAGERS, DATA)
PARALLEL, ORDERED = "Parallel", "OrderedReady"
"""Policies by which a StatefulSet makes its pods: all at once, or each once the one before is ready."""


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


@dataclass(frozen=True)
class Options:
    """What a box has otherwise than the chart, where it is asked for.

    ``liveness``: a path of OpenSearch that the kubelet asks, and where it gets no good answer it ends the container;
    None: nothing, as the chart has it. ``startup``: a path that it asks until the first good answer: before that the
    pod is not ready, and a rollout waits; None: whether the port is open, as the chart has it. ``management``: the
    policy by which pods of data nodes are made; those of cluster managers are made all at once, because the first one
    alone forms no cluster. ``zonal``: each zone has a StatefulSet of two data nodes of its own.
    """

    liveness: str | None = None
    startup: str | None = None
    management: str = PARALLEL
    zonal: bool = False

    @property
    def groups(self) -> tuple[Group, ...]:
        return (MANAGERS, replace(DATA, replicas=2 * len(ZONES), zonal=True)) if self.zonal else GROUPS


@dataclass(frozen=True)
class Started:
    """How a node's container is started. ``command``: in the ``image``; ``preload``: a library before all others."""

    command: Sequence[str]
    image: str
    preload: str | None
    options: Options = Options()


def opensearch(version: str, started: Started) -> list[Object]:
    """All objects of the cluster."""
    found: list[Object] = []
    for group in started.options.groups:
        found += [*services(group, version), budget(group, version)]
        zones = ZONES if group.zonal else (None,)
        found += [stateful_set(group, version, started, zone) for zone in zones]
    return found


def volumes(folders: Mapping[str, tuple[str, str]]) -> list[Object]:
    """Volumes on machines, one for each pod, and their class. ``folders``: a volume's name → machine and folder."""
    kind = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    found: list[Object] = [
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": LOCAL}, **kind}
    ]
    for name, (machine, folder) in folders.items():
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [machine]}
        spec = {
            "capacity": {"storage": SIZE},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": LOCAL,
            "local": {"path": folder},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        }
        found.append({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})
    return found


def services(group: Group, version: str) -> list[Object]:
    """The chart's two: one address for clients, and a name for each pod."""
    ports = [{"name": "http", "protocol": "TCP", "port": HTTP}, {"name": "transport", "port": TRANSPORT}]
    meta = {"namespace": SEARCH, "labels": group.labels(version)}
    one = {"type": "ClusterIP", "selector": group.selector, "ports": ports}
    each = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": group.selector,
        "ports": [*ports, {"name": "metrics", "port": METRICS}],
    }
    named = ((group.full_name, one), (f"{group.full_name}-headless", each))
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, **meta}, "spec": spec}
        for name, spec in named
    ]


def budget(group: Group, version: str) -> Object:
    """It lets the pods of one zone go."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"{group.full_name}-pdb", "namespace": SEARCH, "labels": group.labels(version)},
        "spec": {"maxUnavailable": group.replicas // len(ZONES), "selector": {"matchLabels": group.selector}},
    }


def stateful_set(group: Group, version: str, started: Started, zone: str | None) -> Object:
    """``zone``: whose nodes alone it has; None: those of all."""
    own = {} if zone is None else {"zone": zone}
    labels = {**group.labels(version), **own}
    pod = {
        **({"nodeSelector": {ZONE_LABEL: zone}} if zone is not None else {}),
        "automountServiceAccountToken": False,
        "enableServiceLinks": True,
        "securityContext": {"fsGroup": UID, "runAsUser": UID},
        "terminationGracePeriodSeconds": 120,
        "affinity": {"podAntiAffinity": _soft_anti_affinity(group)},
        "topologySpreadConstraints": [_a_zone_each(group)],
        "containers": [_container(group, started)],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": group.full_name if zone is None else f"{group.full_name}-{zone}",
            "namespace": SEARCH,
            "labels": labels,
            "annotations": {"majorVersion": version.partition(".")[0]},
        },
        "spec": {
            "serviceName": f"{group.full_name}-headless",
            "replicas": group.replicas if zone is None else group.replicas // len(ZONES),
            "podManagementPolicy": PARALLEL if group is MANAGERS else started.options.management,
            "updateStrategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": {**group.selector, **own}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            "volumeClaimTemplates": [_claim(group)],
        },
    }


def _claim(group: Group) -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": LOCAL, "resources": {"requests": {"storage": SIZE}}}
    return {"metadata": {"name": group.full_name}, "spec": spec}


def _soft_anti_affinity(group: Group) -> Object:
    terms = [{"key": key, "operator": "In", "values": [value]} for key, value in group.selector.items()]
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchExpressions": terms}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}


def _a_zone_each(group: Group) -> Object:
    return {
        "maxSkew": 1,
        "topologyKey": ZONE_LABEL,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": group.selector},
    }


def _container(group: Group, started: Started) -> Object:
    environment = [
        {"name": "node.name", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "node.attr.zone", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{ZONE_LABEL}']"}}},
        *({"name": key, "value": value} for key, value in settings(group).items()),
    ]
    loaded = [{"name": "LD_PRELOAD", "value": started.preload}] if started.preload else []
    probe = {"tcpSocket": {"port": HTTP}, "timeoutSeconds": 3}
    options = started.options
    asked = {**_get(options.liveness), "periodSeconds": 10}
    first = _get(options.startup) if options.startup else probe
    java, *rest = started.command
    return {
        "name": "opensearch",
        "image": started.image,
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True, "runAsUser": UID},
        "command": [java, *heap(group), *rest],
        # the official image's first program does this with its environment
        "args": [f"-E{each['name']}=$({each['name']})" for each in environment],
        "env": environment + loaded,
        "ports": [{"name": "http", "containerPort": HTTP}, {"name": "transport", "containerPort": TRANSPORT}],
        "resources": {"requests": {"cpu": "200m", "memory": "100Mi"}},
        "startupProbe": {**first, "initialDelaySeconds": 5, "periodSeconds": 10, "failureThreshold": 30},
        "readinessProbe": {**probe, "periodSeconds": 5, "failureThreshold": 3},
        **({"livenessProbe": asked} if options.liveness else {}),
        "volumeMounts": [{"name": group.full_name, "mountPath": f"{HOME}/data"}],
    }


def _get(path: str | None) -> Object:
    """A probe that asks for a path of OpenSearch."""
    return {"httpGet": {"path": path, "port": HTTP}, "timeoutSeconds": 3}


def heap(group: Group) -> list[str]:
    """And a compiler that costs little to start. The serial collector would be refused by a bootstrap check."""
    return [f"-Xms{group.heap}m", f"-Xmx{group.heap}m", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=1"]


def settings(group: Group) -> dict[str, str]:
    """Settings of a node that are the same for all of its group."""
    managers = ",".join(f"{MANAGERS.full_name}-{number}" for number in range(MANAGERS.replicas))
    first = {"cluster.initial_cluster_manager_nodes": managers} if group is MANAGERS else {}
    return {
        **first,
        "discovery.seed_hosts": f"{MANAGERS_SERVICE}-headless",
        "cluster.name": CLUSTER,
        "network.host": "0.0.0.0",
        "node.roles": ",".join(group.roles),
        "cluster.routing.allocation.awareness.attributes": "zone",
        "cluster.routing.allocation.awareness.force.zone.values": ",".join(ZONES),
        "node.store.allow_mmap": "false",
    }


# ---- who else is there ---------------------------------------------------------------------------------------------


def shop(searches: float, writes: float) -> list[Object]:
    """The application: it reaches OpenSearch by the name of its data nodes. Rates are per second."""
    server = f"http://{DATA.full_name}-headless.{SEARCH}.svc.{DOMAIN}:{HTTP}"
    arguments = ["shop", f"-opensearch={server}", f"-index={ORDERS}", f"-searches={searches}", f"-writes={writes}"]
    spec = {"replicas": 1, **_labelled("shop", arguments)}
    return [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _meta("shop", SHOP), "spec": spec}]


def neighbours() -> list[Object]:
    """A service on every machine that never speaks to OpenSearch: its pods ask each other, and count."""
    name = "neighbour"
    arguments = [name, f"-peers={name}.{OTHERS}.svc.{DOMAIN}", f"-port={PODS_PORT}"]
    service = {"clusterIP": "None", "selector": {"app": name}, "ports": [{"name": "http", "port": PODS_PORT}]}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": _meta(name, OTHERS), "spec": service},
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": _meta(name, OTHERS),
            "spec": _labelled(name, arguments),
        },
    ]


def _meta(name: str, space: str) -> Object:
    return {"name": name, "namespace": space, "labels": {"app": name}}


def _labelled(name: str, arguments: Sequence[str]) -> Object:
    container = {
        "name": name,
        "image": images.PODS,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/pods", *arguments],
        "ports": [{"name": "http", "containerPort": PODS_PORT}],
        "readinessProbe": {"httpGet": {"path": "/counts", "port": PODS_PORT}, "periodSeconds": 2},
        "resources": {"requests": {"cpu": "50m", "memory": "16Mi"}},
    }
    pod = {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 2, "containers": [container]}
    return {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
    }
