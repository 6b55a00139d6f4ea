"""Names under which a cluster has several indices, one after the other: data streams, and aliases that are rolled over.

Documents are written by the name into the newest index, and searched by it in all. An index template that bears the
name says what each index is like; by an owner in its ``_meta``, and in the mapping of each index, what a run made is
known as its own. Making and deleting are idempotent, so that they can stand in the ledger.

Facts are those of OpenSearch 3.8.0: the indices of a data stream are hidden, and bear its name and a number
(``DataStream.getDefaultBackingIndexName``); an alias is rolled over to the next number of its index's name
(``MetadataRolloverService``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.base.errors import FaultError, LabError, NotOurs
from chaos.opensearch.administration import ASK_SECONDS, Known, asked, certain, reading
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.requests import (
    OWNER,
    RolledKind,
    belongs,
    first_index,
    known_path,
    marked,
    owner_of,
    rolled_pattern,
)
from chaos.opensearch.views import administer

PRIORITY = 500
"""Of the template: above those that come with plugins."""
ROUNDS = 5


def create(
    cluster: Cluster,
    name: str,
    kind: RolledKind,
    owner: str,
    settings: Mapping[str, Any],
    mapping: Mapping[str, Any],
    timestamp: str | None = None,
) -> None:
    """Make the index template of a name, and its first index. ``timestamp``: of a data stream, the field with the time.

    Succeeds where an existing template or index has the same owner: then this was asked before. Raises FaultError where
    the name, or the template, is somebody else's: that is left as it is.
    """
    if (theirs := _template_owner(cluster, name)) not in (None, owner):
        raise FaultError(f"there is an index template {name} already, which this run did not make")
    if strange := sorted(i for i, each in _known(cluster, name).items() if each.owner != owner):
        raise FaultError(f"{', '.join(strange)} is there already, and this run did not make it: it is left as it is")
    if theirs is None:
        stream = {"data_stream": {"timestamp_field": {"name": timestamp}}} if kind == "data_stream" else {}
        body = {
            "index_patterns": [rolled_pattern(name, kind)],
            "priority": PRIORITY,
            "_meta": {OWNER: owner},
            "template": {"settings": {"index": dict(settings)}, "mappings": marked(mapping, owner)},
            **stream,
        }
        _must(cluster, "PUT", f"/_index_template/{name}", body, f"making the index template {name}")
    first = first_index(name, kind)
    if first in _known(cluster, name):
        return
    if kind == "data_stream":
        _must(cluster, "PUT", f"/_data_stream/{name}", None, f"creating the data stream {name}")
    else:
        aliases = {"aliases": {name: {"is_write_index": True}}}
        _must(cluster, "PUT", f"/{first}", aliases, f"creating the index {first}")


def _must(cluster: Cluster, method: str, path: str, body: Any, doing: str) -> None:
    status, answer = administer(cluster, method, path, body)
    if status != 200 and "resource_already_exists" not in str(answer):
        raise LabError(f"{doing} answered {status}: {str(answer)[:300]}")


def delete(cluster: Cluster, name: str, kind: RolledKind, owner: str) -> bool:
    """Delete what has this owner: a name's indices, and its template. Whether anything was there.

    Raises NotOurs, once the rest is gone, where something of the name was made by somebody else: that is left as it is.
    """
    was, strange = False, set[str]()
    for _ in range(ROUNDS):  # one that was being rolled over may have one index more by now
        there = certain(cluster, lambda: _known(cluster, name))
        strange = {index for index, each in there.items() if each.owner != owner}
        ours = sorted(set(there) - strange)
        if not ours:
            break
        was = True
        for path in [f"/_data_stream/{name}"] if kind == "data_stream" else [f"/{index}" for index in ours]:
            status, answer = administer(cluster, "DELETE", path)
            if status not in (200, 404):
                raise LabError(f"deleting {path} answered {status}: {str(answer)[:300]}")
        if kind == "data_stream" and strange:
            break
    else:
        raise LabError(f"{name} has indices again and again: somebody goes on writing or rolling over")
    theirs = certain(cluster, lambda: _template_owner(cluster, name))
    if theirs == owner:
        was = True
        status, answer = administer(cluster, "DELETE", f"/_index_template/{name}")
        if status not in (200, 404):
            raise LabError(f"deleting the index template {name} answered {status}: {str(answer)[:300]}")
    elif theirs is not None:
        strange.add(f"the index template {name}")
    if strange:
        raise NotOurs(
            f"{', '.join(sorted(strange))} is not what this run made: it is left as it is",
            remedy="its owners know what it is for",
        )
    return was


def indices(cluster: Cluster, name: str, *, timeout: float = ASK_SECONDS) -> list[str]:
    """The indices under a name, the oldest first; a name that is itself an index alone. Raises LabError."""
    return sorted(_known(cluster, name, timeout))


def roll(cluster: Cluster, name: str, documents: int | None = None, *, timeout: float = ASK_SECONDS) -> str | None:
    """Roll a name over; the new index, or None where it was not. ``documents``: only where its newest index has so
    many, as far as they are refreshed. Raises LabError; Unanswered where it may have been done."""
    body = {"conditions": {"max_docs": documents}} if documents is not None else None
    status, answer = administer(cluster, "POST", f"/{name}/_rollover", body, timeout)
    if status != 200:
        raise LabError(f"rolling {name} over answered {status}: {str(answer)[:300]}")
    with reading(f"the answer to the rollover of {name}"):
        return str(answer["new_index"]) if answer["rolled_over"] else None


def left(cluster: Cluster, name: str) -> list[str]:
    """What is there under a name, its template too, in words. Raises LabError."""
    found = [f"index {index} is still there" for index in indices(cluster, name)]
    return found + ([f"index template {name} is still there"] if _template_owner(cluster, name) is not None else [])


def _known(cluster: Cluster, name: str, timeout: float = ASK_SECONDS) -> dict[str, Known]:
    """The indices under a name. Raises LabError."""
    path = known_path(f"{name},{name}-0*,.ds-{name}-*")
    answer = asked(cluster, path, f"asking for the indices of {name}", None, timeout)
    with reading(f"the answer about {name}"):
        return {
            index: Known(str(said["settings"]["index"]["uuid"]), owner_of(said))
            for index, said in answer.get("metadata", {}).get("indices", {}).items()
            if belongs(index, name)
        }


def _template_owner(cluster: Cluster, name: str) -> str | None:
    """Who made the index template of a name; empty: somebody who does not say so; None: there is none."""
    path = f"/_index_template/{name}?filter_path=index_templates.index_template._meta,index_templates.name"
    answer = asked(cluster, path, f"asking for the index template {name}", None, ASK_SECONDS, absent=True)
    if answer is None:
        return None
    with reading(f"the index template {name}"):
        each = next(iter(answer.get("index_templates", [])), None)
        if each is None:
            return None
        return str(((each.get("index_template") or {}).get("_meta") or {}).get(OWNER, ""))
