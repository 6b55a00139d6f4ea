"""The least that a user needs of Kubernetes, as Role and ClusterRole with their bindings; and what of it is missing.

Machines and the namespace kube-system are in no namespace's reach, so reading them takes a ClusterRole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from chaos.kubernetes.client import Client

NAME = "opensearch-chaos"
RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Right:
    """One thing that must be allowed. ``resource``: with its subresource, as RBAC writes it; ``everywhere``: it is of
    no namespace; ``names``: only objects of these names."""

    verb: str
    resource: str
    why: str
    group: str = ""
    everywhere: bool = False
    names: tuple[str, ...] = ()

    @property
    def says(self) -> str:
        named = f" {', '.join(self.names)}" if self.names else ""
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}{named}"


LOOKING = (
    Right("list", "pods", "who is there"),
    Right("list", "statefulsets", "whose pods they are, and whether they are rolled out", "apps"),
    Right("list", "poddisruptionbudgets", "how many may be away", "policy"),
)
FORWARD = (
    Right("get", "pods/portforward", "ways into pods"),
    Right("create", "pods/portforward", "the same, since Kubernetes 1.35"),
)
FIND = Right("get", "pods", "one pod by its name, before anything is done to it")
HOLD = Right("patch", "pods", "the image that holds a node down, and its undo")
DELETE = Right("delete", "pods", "the end of a pod without grace")
EVICT = Right("create", "pods/eviction", "the end of a pod as budgets allow it")
WHO_ELSE = Right("list", "pods", "who else is on a machine that is drained or cut off", everywhere=True)
JOBS = "jobs"
HELPER = "helper"
BESIDE = (
    FIND,
    Right("create", JOBS, "a helper pod beside the pod of each node, for as long as the run lasts", "batch"),
    Right("get", JOBS, "whether it is there", "batch"),
    Right("list", JOBS, "those that a run has left", "batch"),
    Right("delete", JOBS, "its end", "batch"),
    Right("get", "pods/exec", "the program for faults in a helper pod"),
    Right("create", "pods/exec", "the same, since Kubernetes 1.35"),
)
OF_KINDS = {
    HELPER: BESIDE,
    "node.stop": (FIND, HOLD),
    "node.kill": (FIND, DELETE, HOLD),
    "node.loss": (FIND, DELETE, HOLD),
    "zone.power_loss": (FIND, DELETE, HOLD),
    "node.restart kill": (FIND, DELETE),
    "node.restart orderly": (FIND, EVICT),
    "node.isolation": (WHO_ELSE,),
    "node.out_of_memory": (FIND,),
    "node.drain": (
        FIND,
        EVICT,
        WHO_ELSE,
        Right("patch", "nodes", "a machine that takes no new pods, and its undo", everywhere=True),
    ),
}
"""Kind of fault → what it and its undo need; of one that has it with ``how``. :data:`HELPER`: of all that go by helper
pods."""


def needed(namespace: str, kinds: Collection[str], *, forward: bool) -> list[Right]:
    """All rights for a target and these of :data:`OF_KINDS`, each once."""
    found = [
        *LOOKING,
        *(FORWARD if forward else ()),
        Right("get", "namespaces", "uids that say which it is", everywhere=True, names=("kube-system", namespace)),
        Right("get", "nodes", "the zone of each pod's machine", everywhere=True),
    ]
    for each in sorted(kinds):
        found += OF_KINDS[each]
    return list(dict.fromkeys(found))


def missing(client: Client, namespace: str, rights: Iterable[Right]) -> list[Right]:
    """Those that this user has not, as the API server says. Raises LabError where it does not answer."""

    def has(right: Right) -> bool:
        where = "" if right.everywhere else namespace
        asked = [{"name": name} for name in right.names] or [{}]
        return all(client.may(right.verb, right.resource, group=right.group, namespace=where, **each) for each in asked)

    return [right for right in rights if not has(right)]


def manifests(
    namespace: str, rights: Iterable[Right], subject: str, *, named: str = NAME, home: str | None = None
) -> list[dict[str, Any]]:
    """Role, ClusterRole and their bindings. ``subject``: the name of a service account, or ``user:NAME``. ``home``: the
    account's namespace, where it is another. ``named``: the objects; those of no namespace with it behind."""
    every = list(rights)
    user = subject.removeprefix("user:") if subject.startswith("user:") else None
    who = (
        {"kind": "ServiceAccount", "name": subject, "namespace": home or namespace}
        if user is None
        else {"kind": "User", "name": user, "apiGroup": RBAC}
    )
    inside = [each for each in every if not each.everywhere]
    outside = [each for each in every if each.everywhere]
    meta = {"name": named, "namespace": namespace}
    wide = {"name": f"{named}-{namespace}"}
    return [
        {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": meta, "rules": _rules(inside)},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": named},
            "subjects": [who],
        },
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": wide, "rules": _rules(outside)},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": wide,
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": wide["name"]},
            "subjects": [who],
        },
    ]


def _rules(rights: Iterable[Right]) -> list[dict[str, Any]]:
    """A rule for each resource, with its verbs."""
    found: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for each in rights:
        found.setdefault((each.group, each.resource, each.names), []).append(each.verb)
    return [
        {
            "apiGroups": [group],
            "resources": [resource],
            **({"resourceNames": list(names)} if names else {}),
            "verbs": sorted(set(verbs)),
        }
        for (group, resource, names), verbs in found.items()
    ]
