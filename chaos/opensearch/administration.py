"""An operator's moves on a cluster through its REST API: weights, decommission, votes, the load's index.

All idempotent, so that they can stand in the ledger: asking for what already holds is fine. Facts of the API are
those of OpenSearch 3.8.0: weight values are strings, ``_version`` is a number that must be current, a decommission
answers before it is done.

``through``, of what only asks: the node to ask, where the elected manager is known; ``timeout`` in seconds.

A manager that was started anew and is elected hides what it knows until it has read its state: for a moment indices,
settings, weights and decommissions look as if they were not there, and nobody says so. So what is not there is believed
only of a :func:`certain` answer.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from chaos.base.errors import FaultError, LabError, NotOurs
from chaos.base.text import printable
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.requests import (
    DECOMMISSION,
    EXCLUDED,
    EXCLUSIONS,
    GIVE_BACK,
    VOTES,
    belongs,
    decommission_path,
    decommission_status_path,
    decommissions_of,
    known_path,
    marked,
    owner_of,
    still_voting,
    weights_body,
    weights_of,
    weights_path,
    without_vote,
)
from chaos.opensearch.rest import UNREADABLE
from chaos.opensearch.views import TERM, administer, elected

ASK_SECONDS = 60.0
UNPLACED = "/_cat/shards?format=json&h=index,shard,prirep,state,unassigned.reason,unassigned.details"
FAILED = "ALLOCATION_FAILED"
LAST_FAILED = "its last attempt to start failed"
GRAVEYARD = "/_cluster/state/metadata?filter_path=metadata.index-graveyard"
WHICH = "/_cluster/state/metadata?filter_path=metadata.cluster_uuid"
KNOWN_TERM = f"/_cluster/state/metadata,blocks?filter_path={TERM},blocks.global"
NOT_RECOVERED = "1"
"""Id of the block that a cluster has until its manager has read the state (``GatewayService``, OpenSearch 3.8.0)."""
SETTINGS = "the answer with the settings"
SETTINGS_VERSION = "settings_version"
ROUNDS = 5
IN_FLIGHT_SECONDS = 0.5
LAST_SECONDS = 10.0
DECOMMISSION_SECONDS = 260.0
"""The state machine gives itself 120 s for the exclusion and 120 s for the removal."""
VOTES_SECONDS = 30.0
"""Until votes are gone; the default ``timeout`` of the request too."""


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Read an answer in the block: one of another shape than expected raises LabError. ``what`` says whose it is."""
    try:
        yield
    except UNREADABLE as error:
        raise LabError(f"{what} cannot be read: {type(error).__name__} {error}") from error


def asked(cluster: Cluster, path: str, doing: str, through: str | None, timeout: float, *, absent: bool = False) -> Any:
    """The answer to a question. ``doing``: what it is, for an error; ``absent``: None where that is not there.

    Raises LabError.
    """
    status, answer = administer(cluster, "GET", path, timeout=timeout, through=through)
    if absent and status == 404:
        return None
    if status != 200:
        raise LabError(f"{doing} answered {status}: {str(answer)[:300]}")
    return answer


def unplaced(cluster: Cluster) -> list[str]:
    """Copies without a node, first those whose last attempt to start failed, each with why. Raises LabError."""
    every = asked(cluster, UNPLACED, "the list of copies", None, 20.0)
    with reading("the list of copies"):
        lost = [each for each in every if each["state"] == "UNASSIGNED"]
        lost.sort(key=lambda each: (each["unassigned.reason"] != FAILED, each["index"], int(each["shard"])))
        return [_unplaced(each) for each in lost]


def _unplaced(copy: Mapping[str, Any]) -> str:
    what = f"{'primary' if copy['prirep'] == 'p' else 'replica'} of {copy['index']} {copy['shard']}"
    if copy["unassigned.reason"] != FAILED:
        return f"{what}: {copy['unassigned.reason']}"
    # of nested exceptions the innermost stands last, and says what it was
    why = " ".join(str(copy["unassigned.details"]).split()).rpartition("nested: ")[2].rstrip("; ")
    return f"{what}: {LAST_FAILED} ({printable(why)[:300]})"


T = TypeVar("T")


def certain(cluster: Cluster, ask: Callable[[], T], *, through: str | None = None, timeout: float = ASK_SECONDS) -> T:
    """What ``ask`` gives while one manager is elected that has its state; asked again until that is so.

    Two looks at the term enclose it: an election would have raised it, and who is elected does not forget
    (``Coordinator.handleApplyCommit``, ``ClusterStateUpdaters.hideStateIfNotRecovered``). Raises LabError after
    ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    before = _term(cluster, through, timeout)
    while True:
        given = ask()
        after = _term(cluster, through, timeout)
        if before is not None and before == after:
            return given
        if time.monotonic() > deadline:
            raise LabError(f"no cluster manager was elected and had its state within {timeout:g} s")
        time.sleep(0.1)
        before = after


def _term(cluster: Cluster, through: str | None, timeout: float) -> int | None:
    """The term of the elected manager; None while it has not read its state. Raises LabError."""
    answer = asked(cluster, KNOWN_TERM, "reading the term", through, timeout)
    with reading("the answer with the term"):
        known = NOT_RECOVERED not in answer.get("blocks", {}).get("global", {})
        return int(answer["metadata"]["cluster_coordination"]["term"]) if known else None


def weights(
    cluster: Cluster, through: str | None = None, timeout: float = ASK_SECONDS
) -> tuple[dict[str, int] | None, int]:
    """The zones' weights (None when unset) and the version that the next change must name."""
    answer = asked(cluster, weights_path(cluster.zoning.attribute), "reading the weights", through, timeout)
    with reading("the answer with the weights"):
        values, version = weights_of(answer)
        return {cluster.zoning.zone(value): weight for value, weight in values.items()} or None, version


def set_weights(cluster: Cluster, zones: Mapping[str, int] | None) -> None:
    """Set the zones' weights, or delete them (None)."""
    have, version = certain(cluster, lambda: weights(cluster))
    if have == (dict(zones) if zones else None):
        return
    zoning = cluster.zoning
    named = {zoning.value(zone): weight for zone, weight in (zones or {}).items()}
    body = weights_body(named, version) if zones else {"_version": version}
    status, answer = administer(cluster, "PUT" if zones else "DELETE", weights_path(zoning.attribute), body)
    if status != 200:
        raise LabError(f"setting the weights answered {status}: {str(answer)[:300]}")


def restore_weights(cluster: Cluster, made: Mapping[str, int] | None, before: Mapping[str, int] | None) -> bool:
    """Put weights back that are still as we made them; whether they were. Raises LabError where somebody else has set
    others since."""
    now, _ = certain(cluster, lambda: weights(cluster))
    was, ours = dict(before) if before else None, dict(made) if made else None
    if now == was:
        return False
    if now != ours:
        raise LabError(_theirs(now, was))
    set_weights(cluster, was)
    return True


def decommission_status(cluster: Cluster, through: str | None = None, timeout: float = ASK_SECONDS) -> dict[str, str]:
    """Zone → INIT, DRAINING, IN_PROGRESS, SUCCESSFUL or FAILED; empty when nothing is decommissioned."""
    path = decommission_status_path(cluster.zoning.attribute)
    answer = asked(cluster, path, "the decommission's status", through, timeout)
    return {cluster.zoning.zone(value): state for value, state in decommissions_of(answer).items()}


def decommission(cluster: Cluster, zone: str, no_delay: bool = False, delay_seconds: float | None = None) -> None:
    """Decommission a zone and wait until it is SUCCESSFUL. Raises LabError when it fails or takes too long."""
    if decommission_status(cluster).get(zone) != "SUCCESSFUL":
        query = "?no_delay=true" if no_delay else f"?delay_timeout={delay_seconds:g}s" if delay_seconds else ""
        path = decommission_path(cluster.zoning.value(zone), cluster.zoning.attribute)
        status, answer = administer(cluster, "PUT", path + query, timeout=DECOMMISSION_SECONDS)
        if status != 200:
            raise LabError(f"decommission of zone {zone} answered {status}: {str(answer)[:300]}")
    deadline = time.monotonic() + DECOMMISSION_SECONDS
    leader = elected(cluster)  # outside the zone by now; asking for it again and again would load the nodes
    while (state := decommission_status(cluster, leader).get(zone)) != "SUCCESSFUL":
        if state == "FAILED" or time.monotonic() > deadline:
            raise LabError(f"decommission of zone {zone} ended as {state}")
        time.sleep(0.2)


def recommission(cluster: Cluster, zone: str) -> bool:
    """Take the decommission back; whether there was one. ``zone``: one of the topology, or in words; OpenSearch knows
    one decommission only.

    Raises LabError where another zone of the topology than the one that is named is out: that is somebody else's doing.
    """
    out = certain(cluster, lambda: decommission_status(cluster))
    if not out:
        return False
    if zone in cluster.topology.zones and zone not in out:
        raise LabError(f"zone {', '.join(out)} is decommissioned, and not {zone}: that is left to whoever did it")
    status, answer = administer(cluster, "DELETE", DECOMMISSION)
    if status != 200:
        raise LabError(f"recommission of zone {zone} answered {status}: {str(answer)[:300]}")
    return True


def excluded(cluster: Cluster, through: str | None = None, timeout: float = ASK_SECONDS) -> list[str]:
    """The names of the nodes whose votes are excluded."""
    answer = asked(cluster, EXCLUDED, "reading the exclusions of votes", through, timeout)
    with reading("the answer with the exclusions of votes"):
        return without_vote(answer)


def exclude_votes(cluster: Cluster, nodes: Sequence[str]) -> None:
    """Take the votes of these cluster managers away, and wait until the state of the cluster shows it.

    Raises LabError where others are excluded, and where it is not shown within :data:`VOTES_SECONDS`.
    """
    refuse_excluded(cluster, nodes)
    deadline = time.monotonic() + VOTES_SECONDS
    if _still_voting(cluster, nodes):
        path = f"{EXCLUSIONS}?timeout={VOTES_SECONDS:g}s&node_names={quote(','.join(nodes))}"
        status, answer = administer(cluster, "POST", path)
        if status != 200:
            raise LabError(f"taking the votes of {', '.join(nodes)} away answered {status}: {str(answer)[:300]}")
    while left := _still_voting(cluster, nodes):
        if time.monotonic() > deadline:
            raise LabError(f"{', '.join(left)} still votes, or is away, {VOTES_SECONDS:g} s after its vote was taken")
        time.sleep(0.2)


def refuse_excluded(cluster: Cluster, nodes: Sequence[str] = ()) -> None:
    """Raises LabError where any but these nodes are without a vote: votes are given back all at once, or not at all."""
    if strange := sorted(set(certain(cluster, lambda: excluded(cluster))) - set(nodes)):
        raise LabError(
            f"{', '.join(strange)} has no vote already, and OpenSearch gives votes back all at once: no other is taken",
            remedy="wait until they are given back: DELETE _cluster/voting_config_exclusions",
        )


def _still_voting(cluster: Cluster, nodes: Sequence[str]) -> list[str]:
    answer = asked(cluster, VOTES, "reading who votes", None, ASK_SECONDS)
    with reading("the answer with who votes"):
        return still_voting(answer, nodes)


def include_votes(cluster: Cluster, nodes: Sequence[str]) -> bool:
    """Give the votes of these nodes back; whether any was away. Raises LabError where somebody else has taken other
    votes since.

    OpenSearch ends all exclusions at once, so what is not ours would end too. Nothing is left to do where none of these
    nodes is excluded any more.
    """
    now = set(certain(cluster, lambda: excluded(cluster)))
    if not now & set(nodes):
        return False
    if strange := sorted(now - set(nodes)):
        raise LabError(
            f"the votes of {', '.join(sorted(now & set(nodes)))} were not given back, because somebody else has taken "
            f"those of {', '.join(strange)} away since, and OpenSearch gives votes back all at once",
            remedy="when theirs may be given back too: DELETE _cluster/voting_config_exclusions?wait_for_removal=false",
        )
    status, answer = administer(cluster, "DELETE", GIVE_BACK)
    if status != 200:
        raise LabError(f"giving votes back answered {status}: {str(answer)[:300]}")
    return True


def undo_failover(
    cluster: Cluster, weights: Mapping[str, int] | None, canaries: Sequence[str], *, votes: bool = False
) -> None:
    """Take back whatever failover controllers did to a cluster: zones, weights, their canary indices.

    ``votes``: exclusions of votes too; there were none before.
    """
    if votes and excluded(cluster):
        status, answer = administer(cluster, "DELETE", GIVE_BACK)
        if status != 200:
            raise LabError(f"giving votes back answered {status}: {str(answer)[:300]}")
    recommission(cluster, "that a controller took out")
    set_weights(cluster, weights)
    for index in canaries:
        delete_index(cluster, index)


def restore_failover(
    cluster: Cluster,
    before: Mapping[str, int] | None,
    made: Sequence[Mapping[str, int]],
    canaries: Sequence[str],
    votes: Sequence[Sequence[str]],
    owner: str | None = None,
) -> None:
    """Take back what failover controllers did to a cluster that is not ours, as far as it is still so.

    ``made``: all weights that they may have set, ``votes``: all sets of nodes of which they may have taken the votes
    (empty: none). Raises LabError with everything that somebody else has changed meanwhile: that is left as it is.

    What was asked for right before they ended may still come into effect. So it is looked at again, behind all that
    waits for the cluster manager, until nothing had to be put back.
    """
    problems: list[str] = []
    strange: list[str] = []
    for _ in range(ROUNDS):
        _await_tasks(cluster)
        problems = []
        taken = sorted(excluded(cluster)) if votes else []
        changed = taken in [sorted(names) for names in votes] and bool(taken)
        if changed:
            status, answer = administer(cluster, "DELETE", GIVE_BACK)
            if status != 200:
                raise LabError(f"giving votes back answered {status}: {str(answer)[:300]}")
        for zone in certain(cluster, lambda: decommission_status(cluster)):
            recommission(cluster, zone)
            changed = True
        now, _ = certain(cluster, lambda: weights(cluster))
        if now != (dict(before) if before else None):
            if now is None or now not in [dict(each) for each in made]:
                problems.append(_theirs(now, before))
            else:
                set_weights(cluster, before)
                changed = True
        if not changed:
            break
    else:
        problems.append("zones, weights or votes go on being changed: somebody else does what was taken back")
    if votes and (taken := excluded(cluster)):
        problems.append(f"not given back, because somebody else took them: votes of {', '.join(sorted(taken))}")
    for index in canaries:
        try:
            delete_index(cluster, index, owner)
        except NotOurs as error:
            strange.append(error.message)
    if strange and not problems:
        raise NotOurs("; ".join(strange))
    problems += strange
    if problems:
        raise LabError("; ".join(problems))


def _await_tasks(cluster: Cluster) -> None:
    """Until the elected manager has done all that it was asked for by now, for LAST_SECONDS at most. What a process
    that has just ended had sent is given IN_FLIGHT_SECONDS to get there."""
    time.sleep(IN_FLIGHT_SECONDS)
    with suppress(LabError):
        path = f"/_cluster/health?wait_for_events=languid&timeout={LAST_SECONDS:g}s&filter_path=timed_out"
        administer(cluster, "GET", path, timeout=2 * LAST_SECONDS)


def _theirs(now: Mapping[str, int] | None, was: Mapping[str, int] | None) -> str:
    return f"not restored, because somebody else has changed the weights since: they are {now}, were {was}"


def create_index(
    cluster: Cluster,
    index: str,
    settings: Mapping[str, Any],
    mapping: Mapping[str, Any] | None = None,
    alias: str | None = None,
    owner: str | None = None,
) -> None:
    """Create an index. ``mapping``: of its documents, as OpenSearch takes it; ``alias``: another name of it; ``owner``:
    by which it is known as ours, drawn anew for each (:func:`new_owner`).

    Fine where the one that is there has the same owner: then this was asked before. Raises FaultError where it has
    another, or none, or where the alias is somebody else's: that is left as it is.
    """
    if alias is not None and (theirs := sorted(set(_known_by(cluster, alias)) - {index})):
        raise FaultError(f"{alias} is the name of {', '.join(theirs)} already, which this run did not make")
    body = {
        "settings": {"index": dict(settings)},
        **({"mappings": marked(mapping, owner)} if mapping is not None or owner is not None else {}),
        **({"aliases": {alias: {}}} if alias is not None else {}),
    }
    status, answer = administer(cluster, "PUT", f"/{index}{NO_WAIT if _is_not_awaited(settings) else ''}", body)
    if status == 200:
        return
    if "resource_already_exists" not in str(answer):
        raise LabError(f"creating the index {index} answered {status}: {str(answer)[:300]}")
    there = certain(cluster, lambda: known_by(cluster, index))
    if there is not None and owner is not None and there.owner == owner:
        return
    raise FaultError(
        f"there is an index {index} already{f' ({there})' if there is not None else ''}, and this run did not make it: "
        "it is left as it is",
        remedy="rename it, or let the names of runs begin otherwise",
    )


NO_WAIT = "?wait_for_active_shards=0"


def _is_not_awaited(settings: Mapping[str, Any]) -> bool:
    """Whether writes to an index wait for no copy. OpenSearch (2.19.6, 3.8.0) awaits its primaries for 30 s all the
    same when it is made, unless the request says so too (``ActiveShardCount.enoughShardsActive``)."""
    return any(str(settings.get(f"{prefix}write.wait_for_active_shards")) == "0" for prefix in ("", "index."))


def new_owner() -> str:
    """128 bits of chance."""
    return secrets.token_hex(16)


@dataclass(frozen=True)
class Known:
    """An index that there is. ``owner``: as it was given one when it was made; None: it has none."""

    uuid: str
    owner: str | None

    def __str__(self) -> str:
        return f"uuid {self.uuid}"


def _known_by(cluster: Cluster, name: str) -> dict[str, Known]:
    """The indices of this name or pattern, or that have it as an alias. Raises LabError."""
    answer = asked(cluster, known_path(name), f"asking whose {name} is", None, ASK_SECONDS)
    with reading(f"the answer about {name}"):
        return {
            index: Known(str(said["settings"]["index"]["uuid"]), owner_of(said))
            for index, said in answer.get("metadata", {}).get("indices", {}).items()
        }


def known_by(cluster: Cluster, index: str) -> Known | None:
    """The index of exactly this name; None: there is none. Raises LabError."""
    return _known_by(cluster, index).get(index)


def delete_index(cluster: Cluster, index: str, owner: str | None = None) -> bool:
    """Delete an index that was made with this owner; whether it was there.

    Raises NotOurs where the one of this name was made by somebody else: it is left as it is. OpenSearch deletes by name
    alone, so one that takes the name between the question and the request would go. Without ``owner``, as ledgers of
    before have it, what has the name is deleted.
    """

    def was_there() -> bool:
        if owner is not None:
            if (there := certain(cluster, lambda: known_by(cluster, index))) is None:
                return False
            if there.owner != owner:
                raise NotOurs(
                    f"the index {index} ({there}) is not the one that this run made: it is left as it is",
                    remedy="its owners know what it is for",
                )
        status, answer = administer(cluster, "DELETE", f"/{index}")
        if status not in (200, 404):
            raise LabError(f"deleting the index {index} answered {status}: {str(answer)[:300]}")
        return status == 200

    return was_there() or certain(cluster, was_there)


def close_index(cluster: Cluster, index: str, owner: str) -> None:
    """Close an index that was made with this owner. Raises NotOurs for another's, FaultError where it is gone."""
    _switch(cluster, index, owner, "close")


def open_index(cluster: Cluster, index: str, owner: str) -> None:
    """Open an index that was made with this owner; fine where it is gone. Raises NotOurs for another's."""
    _switch(cluster, index, owner, "open")


def _switch(cluster: Cluster, index: str, owner: str, how: str) -> None:
    there = certain(cluster, lambda: known_by(cluster, index))
    if there is None:
        if how == "open":
            return
        raise FaultError(f"there is no index {index} to close")
    if there.owner != owner:
        raise NotOurs(
            f"the index {index} ({there}) is not the one that this run made: it is left as it is",
            remedy="its owners know what it is for",
        )
    # not waited for: where its shards have no node, an open index is red, and that is what shall be seen
    status, answer = administer(cluster, "POST", f"/{index}/_{how}?wait_for_active_shards=0")
    if status != 200 or not answer.get("acknowledged"):
        raise LabError(f"to {how} the index {index} answered {status}: {str(answer)[:300]}")


def reroute(cluster: Cluster, retry_failed: bool = False) -> None:
    """Let the cluster allocate anew; ``retry_failed``: also what it has given up. Raises LabError."""
    path = f"/_cluster/reroute?metric=none{'&retry_failed=true' if retry_failed else ''}"
    status, answer = administer(cluster, "POST", path)
    if status != 200:
        raise LabError(f"reroute answered {status}: {str(answer)[:300]}")


Text = str | list[str] | None
"""A setting's value as the API says it; None: not set, so the default holds."""


def as_text(value: Any) -> Text:
    """A value as we send it and as OpenSearch gives it back: texts only, so that the two can be compared."""
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return [str(as_text(item)) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def settings_path(index: str | None) -> str:
    """Of an index, or of the cluster (None)."""
    return "/_cluster/settings" if index is None else f"/{index}/_settings"


def cluster_settings(
    cluster: Cluster, *, through: str | None = None, timeout: float = ASK_SECONDS
) -> dict[str, dict[str, Text]]:
    """The cluster's settings that are set, by layer (persistent, transient) and full name. Raises LabError.

    A transient one outweighs its persistent twin.
    """
    answer = asked(cluster, _settings_of(None), "reading the settings", through, timeout)
    with reading(SETTINGS):
        return {layer: dict(answer[layer]) for layer in ("persistent", "transient")}


def setting_in_force(cluster: Cluster, name: str, *, through: str | None = None, timeout: float = ASK_SECONDS) -> Text:
    """What one of the cluster's settings is on the node that answers: as it is set, else by that node's own file, else
    by default. ``name``: in full. None: the node knows no such setting, or does not tell. Raises LabError."""
    path = f"{_settings_of(None)}&include_defaults=true"
    answer = asked(cluster, path, "reading the settings", through, timeout)
    with reading(SETTINGS):
        layers: list[dict[str, Text]] = [dict(answer["transient"]), dict(answer["persistent"])]
        layers.append(dict(answer.get("defaults", {})))
    return next((layer[name] for layer in layers if name in layer), None)


def explicit_settings(
    cluster: Cluster, index: str | None, *, through: str | None = None, timeout: float = ASK_SECONDS
) -> dict[str, Text] | None:
    """Every setting that is set, by its full name; of the cluster the persistent ones. None: there is no such index.

    Raises LabError.
    """
    if index is None:
        return cluster_settings(cluster, through=through, timeout=timeout)["persistent"]
    answer = asked(cluster, _settings_of(index), "reading the settings", through, timeout, absent=True)
    if answer is None:
        return None
    with reading(SETTINGS):
        return dict(answer[index]["settings"])


def settings_of_oldest(
    cluster: Cluster, name: str, *, through: str | None = None, timeout: float = ASK_SECONDS
) -> dict[str, Text] | None:
    """Those of an index, or of the oldest under a name that has several (:mod:`chaos.opensearch.rollover`). None: there
    is none. Raises LabError."""
    found = oldest(cluster, name, through=through, timeout=timeout)
    return None if found is None else found[1]


def oldest(
    cluster: Cluster, name: str, *, through: str | None = None, timeout: float = ASK_SECONDS
) -> tuple[str, dict[str, Text]] | None:
    """The index that :func:`settings_of_oldest` means, by its own name, and its settings. Raises LabError."""
    every = settings_of_each(cluster, name, through=through, timeout=timeout)
    if not every:
        return None
    mine = [index for index in every if belongs(index, name)]
    if not mine:
        raise LabError(f"the settings of {name} were asked for, and those of {', '.join(sorted(every)[:3])} answered")
    return min(mine), every[min(mine)]


def settings_version(
    cluster: Cluster, index: str, *, through: str | None = None, timeout: float = ASK_SECONDS
) -> int | None:
    """How often the settings of an index were changed, by its own name. None: there is no such index.

    Closing an index raises it, and so does opening it (``MetadataIndexStateService``); a request that sets what is set
    already does not (``MetadataUpdateSettingsService``). Raises LabError.
    """
    path = f"/_cluster/state/metadata/{index}?expand_wildcards=all&filter_path=metadata.indices.*.{SETTINGS_VERSION}"
    answer = asked(cluster, path, "reading how often settings were changed", through, timeout, absent=True)
    with reading(SETTINGS):
        said = ((answer or {}).get("metadata") or {}).get("indices", {}).get(index)
        return None if said is None else int(said[SETTINGS_VERSION])


def settings_of_each(
    cluster: Cluster, name: str, *, through: str | None = None, timeout: float = ASK_SECONDS
) -> dict[str, dict[str, Text]]:
    """Those of each index that a name means, by index; empty: there is none. Raises LabError."""
    answer = asked(cluster, _settings_of(name), "reading the settings", through, timeout, absent=True)
    with reading(SETTINGS):
        return {index: dict(each["settings"]) for index, each in (answer or {}).items()}


def _settings_of(index: str | None) -> str:
    return f"{settings_path(index)}?flat_settings=true"


def cluster_uuid(cluster: Cluster, *, through: str | None = None, timeout: float = ASK_SECONDS) -> str:
    """Which cluster it is: one that formed anew, without what it knew, has another UUID. Raises LabError."""
    answer = asked(cluster, WHICH, "reading the cluster's UUID", through, timeout)
    with reading("the answer with the cluster's UUID"):
        return str(answer["metadata"]["cluster_uuid"])


def deleted(cluster: Cluster, uuid: str, *, through: str | None = None, timeout: float = ASK_SECONDS) -> bool:
    """Whether an index was deleted by a request: then the cluster state keeps a tombstone of it, by its UUID.

    An index that a cluster lost has none. OpenSearch keeps the last 500 (``cluster.indices.tombstones.size``). Raises
    LabError.
    """
    answer = asked(cluster, GRAVEYARD, "reading the deleted indices", through, timeout)
    with reading("the answer with the deleted indices"):
        buried = answer.get("metadata", {}).get("index-graveyard", {}).get("tombstones", [])
        return any(each["index"]["index_uuid"] == uuid for each in buried)


def indices_named(cluster: Cluster, prefix: str, through: str) -> list[str]:
    """The indices whose names begin so, as the node ``through`` knows them. Raises LabError."""
    return sorted(owners_of(cluster, prefix, through))


def owners_of(cluster: Cluster, prefix: str, through: str) -> dict[str, str | None]:
    """Those of :func:`indices_named`, each with the owner that it was given when it was made, if any. Raises
    LabError."""
    parts = "metadata.indices.*.state,metadata.indices.*.mappings.*._meta"
    path = f"/_cluster/state/metadata/{prefix}*?local=true&filter_path={parts}"
    status, answer = administer(cluster, "GET", path, through=through)
    if status != 200:
        raise LabError(f"listing the indices {prefix}* answered {status}: {str(answer)[:200]}")
    with reading(f"the list of the indices {prefix}*"):
        found = (answer or {}).get("metadata", {}).get("indices", {})
        return {name: owner_of(each) for name, each in found.items()}
