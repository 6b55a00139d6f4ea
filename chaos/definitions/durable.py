"""The tag ``durable``: an experiment whose acknowledged writes must all be had from the remote store alone.

A run of it reads everything back twice: from the live copies, and from a cluster whose nodes have lost their data and
were restored from the store. So it needs remote-backed storage. Where the cluster's state is not in the store, the
cluster managers keep their folders, because they alone know the indices, and so none of them may hold data.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from chaos.definitions.source import Problem
from chaos.definitions.topology import Topology

TAG = "durable"
METRIC = "durable.lost"


def planned(tags: Collection[str], remote_store: object) -> bool:
    """Whether a run of an experiment with these tags is restored from the store. ``remote_store``: of its topology."""
    return TAG in tags and remote_store is not None


def check(tags: tuple[str, ...], topology: Topology) -> Iterator[Problem]:
    """What keeps a tagged experiment from being restored from a store alone."""
    if TAG not in tags:
        return
    loc = ("tags", tags.index(TAG))
    if topology.remote_store is None:
        yield Problem(
            loc,
            f"{TAG} means that acknowledged writes are read back from a remote store alone, and topology "
            f"{topology.name} has none: expected remote_store there, for example topology: 3az-remote-store, or "
            "another tag",
        )
        return
    both = [node.name for node in topology.data_nodes if node.is_cluster_manager]
    if both and not topology.remote_store.state:
        yield Problem(
            loc,
            f"{', '.join(both)} of topology {topology.name} holds data and the only state of the cluster, so its "
            f"folder cannot be emptied: expected remote_store: {{service: {topology.remote_store.service}, state: "
            "true} there, or cluster managers of their own",
        )


def lacking(tags: Collection[str], topology: Topology) -> str | None:
    """Why nothing of an experiment is restored from a store, in words; None: it is."""
    if planned(tags, topology.remote_store):
        return None
    return f"is of what a store alone gives back, and that is looked at on experiments tagged {TAG}: expected that tag"
