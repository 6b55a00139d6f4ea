"""What is on a cluster and is not a run's: a picture of it, and what differs between two.

From the cluster's own state, all of its metadata but what every cluster changes by itself, so that what nobody thought
of is compared as well.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

from chaos.base.errors import LabError
from chaos.definitions.existing import PREFIX
from chaos.opensearch.views import administer
from chaos.run.noted import GAMEDAY, HOLDERS
from chaos.targets.labs.base import BaseLab

STATE = "/_cluster/state/metadata,nodes?expand_wildcards=all&flat_settings=true"
OF_ITSELF = frozenset({"cluster_uuid_committed", "version", "index-graveyard"})
"""Metadata that changes without anybody's doing, or by the deletion of an index."""
OF_INDEX = ("settings", "mappings", "aliases", "state", "routing_num_shards", "rollover_info")
OF_NODE = ("name", "attributes")


def is_ours(index: str, notes: str | None) -> bool:
    """Whether an index is of the suite's, by its name."""
    return index.startswith(PREFIX) or index == notes


def picture(lab: BaseLab, notes: str | None = None) -> dict[str, Any]:
    """Everything that a run must leave as it was; indices of the suite's, which it must take away, by name only.

    The index of notes stays, so of that it is what runs wrote there: nothing may be left but the count of holders. What
    game days wrote is theirs to keep.

    Raises LabError where any of it cannot be read.
    """
    state = _asked(lab, STATE)
    metadata = state["metadata"]
    indices = {
        name: {key: index.get(key) for key in OF_INDEX}
        for name, index in metadata.pop("indices").items()
        if not is_ours(name, notes)
    }
    coordination = metadata.pop("cluster_coordination")
    weights = metadata.pop("weighted_shard_routing", None) or {}
    return {
        "settings": _asked(lab, "/_cluster/settings?flat_settings=true"),
        "indices": indices,
        "of the suite": sorted([*(n for n in _names(lab) if is_ours(n, notes) and n != notes), *_noted(lab, notes)]),
        "nodes": sorted(([node[key] for key in OF_NODE] for node in state["nodes"].values()), key=str),
        "votes": coordination["voting_config_exclusions"],
        "weights": weights.get("awareness") or None,  # once some were set, none is {}
        "other metadata": {key: value for key, value in metadata.items() if key not in OF_ITSELF},
        "proxies": {host.name: lab.proxies(host.name) for host in lab.wiring.hosts},
    }


def _noted(lab: BaseLab, notes: str | None) -> list[str]:
    """Documents of runs in the index of notes; that it cannot be read is said in their place."""
    if notes is None or notes not in _names(lab):
        return []
    for method, path in (("POST", "_refresh"), ("GET", "_search?size=10000&_source=false")):
        status, said = administer(lab, method, f"/{notes}/{path}")
        if status != 200:
            return [f"{notes} cannot be read: {status}"]
    ids = [hit["_id"] for hit in said["hits"]["hits"]]
    return [f"{notes}/{id}" for id in ids if id != HOLDERS and not id.startswith(GAMEDAY)]


def _names(lab: BaseLab) -> list[str]:
    return list(_asked(lab, "/_all/_settings?expand_wildcards=all&filter_path=*.settings.index.uuid"))


def _asked(lab: BaseLab, path: str) -> Any:
    status, answer = administer(lab, "GET", path, timeout=20.0)
    if status != 200:
        raise LabError(f"GET {path} answered {status}: {str(answer)[:300]}")
    return answer


def differences(before: Any, after: Any, where: tuple[str, ...] = ()) -> list[str]:
    """What is not alike, each with its place; empty: nothing."""
    return list(_differences(before, after, where))


def _differences(before: Any, after: Any, where: tuple[str, ...]) -> Iterator[str]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before | after:
            if key not in before or key not in after:
                verb = "is new" if key not in before else "is gone"
                yield f"{' / '.join((*where, key))} {verb}: {_short(after.get(key, before.get(key)))}"
            else:
                yield from _differences(before[key], after[key], (*where, str(key)))
        return
    yield f"{' / '.join(where)} was {_short(before)} and is {_short(after)}"


def _short(value: Any) -> str:
    return json.dumps(value)[:300]


def lost(lab: BaseLab, index: str, acknowledged: dict[str, int]) -> Collection[str]:
    """Which of these documents are not there, or older than what was acknowledged; asked of each by its id."""
    ids = sorted(acknowledged)
    missing = []
    for at in range(0, len(ids), 500):
        page = ids[at : at + 500]
        status, answer = administer(lab, "POST", f"/{index}/_mget?_source=n", {"ids": page}, timeout=20.0)
        if status != 200:
            raise LabError(f"reading {index} answered {status}: {str(answer)[:300]}")
        found = {doc["_id"]: doc["_source"]["n"] for doc in answer["docs"] if doc.get("found")}
        missing += [id for id in page if found.get(id, -1) < acknowledged[id]]
    return missing
