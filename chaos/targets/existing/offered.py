"""What a cluster that exists has for faults: its REST API, and what its file names beside it.

These are Toxiproxies, hosts, pods of Kubernetes and helper pods, programs, AWS FIS and Amazon OpenSearch Service. What
else faults need is lacking, in words.
"""

from __future__ import annotations

from collections.abc import Callable

from chaos.definitions.existing import ExistingFile
from chaos.targets.protocol import CAPABILITIES, HOOK

ORDER = ("rest", "toxiproxy", "ssh", "helper", "kubernetes", "hooks", "fis", "domain")
"""Of providers, the first one first: those whose proof is the surer one come before the owners' own programs."""
LINKS, HOSTS, FIS, DOMAIN, PODS, HELPERS = "links", "hosts", "fis", "domain", "pods", "helpers"
UNNAMED = {
    LINKS: "the file names no Toxiproxies of yours",
    HOSTS: "the file names no hosts",
    FIS: "the file says nothing of AWS FIS",
    DOMAIN: "the file names no domain",
    PODS: "the file names no pods of Kubernetes",
    HELPERS: "the file names no image for helper pods (kubernetes, helper)",
}
"""Why what a file may give is not there."""
ASKED_ALONE = ("node.pause", "network.drop", "network.hang", "network.refuse")
"""Kinds of which nothing is seen where no node is reached by itself."""


NOT_YET = {
    "node.heap_pressure": "a node that dies of it would be started again by nobody",
    "query.runaway": "what it takes from searches of others is not watched, and is not bounded",
    "cluster_manager.task_storm": "what it takes from requests of others is not watched",
    "cluster_manager.admin_storm": "what it takes from requests of others is not watched",
}
"""Kinds that REST could carry out there, and why they are not."""
NEVER = frozenset(
    each
    for each in CAPABILITIES
    if each not in (LINKS, HOSTS, FIS, DOMAIN, PODS, HELPERS) and not each.startswith(HOOK)
)
"""Capabilities that no file gives, whatever it names."""


def by(file: ExistingFile) -> Callable[[str], str | None]:
    """Capability of :data:`chaos.targets.protocol.CAPABILITIES` → None, or why it cannot be had."""

    def lacks(capability: str) -> str | None:
        if capability.startswith(HOOK):
            return _no_hook(file, capability.removeprefix(HOOK))
        if capability == LINKS and file.by_doors:
            return "no node is reached by itself, so nobody could be asked what came through: a url for each node"
        if capability in (HOSTS, HELPERS) and file.by_doors:
            return "no node is reached by itself, so nobody could be asked how it is: a url for each node"
        if capability == FIS and file.by_doors:
            return "no node is reached by itself, so nothing would show what FIS made of it: a url for each node"
        has = {LINKS: bool(file.toxiproxies), HOSTS: file.hosts is not None}
        has |= {FIS: file.fis is not None, DOMAIN: file.domain is not None, PODS: file.kubernetes is not None}
        has |= {HELPERS: file.kubernetes is not None and file.kubernetes.helper is not None}
        if has.get(capability):
            return None
        what = CAPABILITIES.get(capability, capability)
        return (
            f"{UNNAMED.get(capability, 'a cluster that exists is reached by REST alone, and this needs more')} ({what})"
        )

    return lacks


def _no_hook(file: ExistingFile, kind: str) -> str | None:
    """Why a kind of fault cannot be had by a program of the owners."""
    if kind not in file.hooks:
        return f"the file names no hook for {kind}"
    if file.by_doors and kind in ASKED_ALONE:
        return f"no node is reached by itself, so nothing would show {kind}: a url for each node"
    return None
