"""Paths of OpenSearch's REST API that more than one of us asks, and what their answers mean. Pure.

Facts are those of OpenSearch 3.8.0: weights are strings in an answer, numbers with a point in others; ``_version`` is a
number that the next change must name; a decommission answers before it is done.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Literal

DECOMMISSION = "/_cluster/decommission/awareness"
EXCLUSIONS = "/_cluster/voting_config_exclusions"
GIVE_BACK = f"{EXCLUSIONS}?wait_for_removal=false"
EXCLUDED = "/_cluster/state/metadata?filter_path=metadata.cluster_coordination.voting_config_exclusions"
VOTES = f"{EXCLUDED},metadata.cluster_coordination.last_committed_config"
ABSENT = "_absent_"
"""The id in an exclusion of a node that is not there (``VotingConfigExclusion.MISSING_VALUE_MARKER``)."""
NO_VERSION = -1
"""What a first change of weights must name."""


WRITE_FIELDS = "filter_path=_index,_id,result,_shards,_seq_no,_primary_term"
"""Of the answer to a write of one document what says whether it is that write's (:mod:`chaos.load.right`)."""

_OF_ITEMS = ("_index", "_id", "status", "result", "_shards", "error")
BULK_FIELDS = f"filter_path=errors,{','.join(f'items.*.{field}' for field in _OF_ITEMS)}"
"""The same of the answer to a bulk, for each of its documents."""


def write_alias(index: str) -> str:
    """The alias by which our documents are written to an index of ours; it goes with the index.

    A write may arrive long after who sent it has gone: a Toxiproxy or a load balancer sends what a node was cut off
    from again and again, for minutes. One that comes after the index was deleted would make it anew, with defaults.
    A write that requires an alias (:func:`requiring_alias`) makes nothing.
    """
    return f"{index}-writes"


def requiring_alias(path: str) -> str:
    """The path of a write to an alias, so that it never makes an index (``require_alias``)."""
    return f"{path}{'&' if '?' in path else '?'}require_alias=true"


def document_path(index: str, id: str, query: str, alias: str | None) -> str:
    """Where a document is written; ``alias``: see :func:`write_alias`, None where the index is not ours alone."""
    return f"/{index}/_doc/{id}?{query}" if alias is None else requiring_alias(f"/{alias}/_doc/{id}?{query}")


def weights_path(attribute: str = "zone") -> str:
    """Where the weights of an awareness attribute's values are read, set and deleted."""
    return f"/_cluster/routing/awareness/{attribute}/weights"


def weights_body(zones: Mapping[str, int], version: int) -> dict[str, Any]:
    """What sets the weights; ``version`` is the one that was read."""
    return {"weights": {zone: str(weight) for zone, weight in zones.items()}, "_version": version}


def weights_of(answer: Any) -> tuple[dict[str, int], int]:
    """The weights, empty when unset, and their version. Raises what reading something of another shape raises."""
    said = (answer or {}).get("weights", {})
    return {zone: int(float(weight)) for zone, weight in said.items()}, int((answer or {}).get("_version", NO_VERSION))


def decommission_path(zone: str, attribute: str = "zone") -> str:
    """Where a zone is decommissioned; it is taken back at :data:`DECOMMISSION`."""
    return f"{DECOMMISSION}/{attribute}/{zone}"


def decommission_status_path(attribute: str = "zone") -> str:
    return f"{DECOMMISSION}/{attribute}/_status"


def decommissions_of(answer: Any) -> dict[str, str]:
    """Zone → INIT, DRAINING, IN_PROGRESS, SUCCESSFUL or FAILED; empty when nothing is decommissioned."""
    return {str(zone): str(state) for zone, state in (answer or {}).items()}


def without_vote(state: Any) -> list[str]:
    """The names of the nodes without a vote, from an answer to :data:`EXCLUDED`."""
    coordination = ((state or {}).get("metadata") or {}).get("cluster_coordination") or {}
    return [str(each.get("node_name")) for each in coordination.get("voting_config_exclusions") or ()]


def still_voting(state: Any, nodes: Collection[str]) -> list[str]:
    """Of these nodes those that an answer to :data:`VOTES` does not show to be without a vote, in order.

    Shown is a node whose exclusion stands by its id, and whose id is out of the last committed voting configuration. A
    node that is away when it is excluded has no id there (``_absent_``), so of it nothing is shown. Raises what reading
    something of another shape raises.
    """
    coordination = state["metadata"]["cluster_coordination"]
    voting = set(coordination["last_committed_config"])
    ids = {each["node_name"]: each["node_id"] for each in coordination.get("voting_config_exclusions") or ()}
    return sorted(name for name in nodes if ids.get(name, ABSENT) in {ABSENT, *voting})


OWNER = "opensearch-chaos"
"""Under ``_meta`` of an index's mapping: by what it is known as the one that a run made."""


def marked(mapping: Mapping[str, Any] | None, owner: str | None) -> dict[str, Any]:
    """A mapping that says whose the index is."""
    meta = dict((mapping or {}).get("_meta", {}))
    return {**(mapping or {}), **({"_meta": {**meta, OWNER: owner}} if owner is not None else {})}


def known_path(name: str) -> str:
    """For the UUID and the owner of the indices of this name or pattern, or that have it as an alias."""
    parts = "metadata.indices.*.settings.index.uuid,metadata.indices.*.mappings.*._meta"
    return f"/_cluster/state/metadata/{name}?expand_wildcards=all&filter_path={parts}"


def owner_of(said: Mapping[str, Any]) -> str | None:
    """Of an index, as the state of the cluster has it; None where it was given none."""
    every = (each.get("_meta", {}).get(OWNER) for each in said.get("mappings", {}).values())
    return next((str(owner) for owner in every if owner), None)


def reindex_tasks(answer: Mapping[str, Any], index: str) -> list[str]:
    """The tasks that copy into an index, of an answer about tasks with their descriptions. The description ends with
    the index's name in brackets (``ReindexRequest.toString``)."""
    return sorted(
        name
        for node in answer.get("nodes", {}).values()
        for name, task in node.get("tasks", {}).items()
        if f"to [{index}]" in str(task.get("description", "")) and "parent_task_id" not in task
    )


RolledKind = Literal["data_stream", "alias"]
"""What a name with several indices is (:mod:`chaos.opensearch.rollover`)."""


def rolled_pattern(name: str, kind: RolledKind) -> str:
    """What the index template of such a name matches: a data stream by its name, an alias's indices by theirs."""
    return name if kind == "data_stream" else f"{name}-0*"


def first_index(name: str, kind: RolledKind) -> str:
    """The index that is there from the beginning."""
    return f"{'.ds-' if kind == 'data_stream' else ''}{name}-000001"


def belongs(index: str, name: str) -> bool:
    """Whether an index is the one of this name, or one of those under it."""
    if index == name:
        return True
    return name in index and re.fullmatch(rf"(?:\.ds-)?{re.escape(name)}-\d{{6,}}", index) is not None
