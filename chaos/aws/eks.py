"""Which instances of EC2 are nodes of EKS, by their tags.

kubernetes.io/cluster/NAME is the tag of every node, and of other Kubernetes than EKS too; managed node groups and Auto
Mode give tags of their own besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

NAMED = ("eks:cluster-name", "aws:eks:cluster-name", "eks:eks-cluster-name")
"""Tags whose value is the cluster's name."""
OWNED = "kubernetes.io/cluster/"
"""How a tag begins whose key ends in the cluster's name; its value is owned or shared."""


def cluster_of(tags: Iterable[Mapping[str, str]]) -> str | None:
    """The cluster of Kubernetes that an instance with these tags (Key, Value) is a node of; None: of none."""
    for tag in tags:
        if tag["Key"] in NAMED:
            return tag["Value"]
        if tag["Key"].startswith(OWNED):
            return tag["Key"].removeprefix(OWNED)
    return None
