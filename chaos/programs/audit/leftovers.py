"""What operators, drains, upgrades and failovers leave set for the whole cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from chaos.definitions.topology import AWARENESS
from chaos.opensearch.checklist import Source, Status
from chaos.programs.audit.catalogue import SHOWN, Found, Workload, curl, rule, some
from chaos.programs.audit.facts import ALLOCATION, PACE, REBALANCE, THRESHOLD, WATERMARK, Node, Sheet, State, listed

_DOCUMENTATION = "https://docs.opensearch.org/latest"
ALLOCATING = Source(
    "OpenSearch documentation: Cluster settings, routing and allocation",
    f"{_DOCUMENTATION}/install-and-configure/configuring-opensearch/cluster-settings/",
)
VOTING = Source(
    "OpenSearch documentation: Voting configuration exclusions",
    f"{_DOCUMENTATION}/api-reference/cluster-api/cluster-voting-configuration-exclusions",
)
SETTING = Source(
    "OpenSearch documentation: Cluster settings API", f"{_DOCUMENTATION}/api-reference/cluster-api/cluster-settings/"
)
ROUTING = Source(
    "OpenSearch documentation: Weighted shard routing and decommission",
    f"{_DOCUMENTATION}/api-reference/cluster-api/cluster-decommission/",
)
ARCHIVED = Source(
    "OpenSearch source: AbstractScopedSettings.archiveUnknownOrInvalidSettings",
    "https://github.com/opensearch-project/OpenSearch/blob/main/server/src/main/java/org/opensearch/common/settings/"
    "AbstractScopedSettings.java",
)


def where_set(sheet: Sheet, name: str) -> str:
    """At which level a setting is written, for people."""
    assert sheet.settings is not None
    if sheet.is_definition:
        return "as written"
    if name in sheet.settings.transient:
        return "transient"
    if name in sheet.settings.explicit:
        return "persistent"
    return "in opensearch.yml"


def cleared(sheet: Sheet, names: Iterable[str]) -> tuple[str, ...]:
    """The command that takes these settings back, from both levels where they are; nothing for opensearch.yml."""
    assert sheet.settings is not None
    if sheet.is_definition:
        return ()
    body: dict[str, dict[str, Any]] = {}
    for name in names:
        if name in sheet.settings.transient:
            body.setdefault("transient", {})[name] = None
        if name in sheet.settings.explicit and (name not in sheet.settings.transient or name in sheet.settings.hidden):
            body.setdefault("persistent", {})[name] = None
    return (curl("PUT", "/_cluster/settings", body),) if body else ()


def _pairs(given: Iterable[Mapping[str, str]]) -> list[tuple[str, str]]:
    """(name, value) of what :meth:`Sheet.given` says, sorted; more than one where nodes differ."""
    return sorted({pair for each in given for pair in each.items()})


def _told(sheet: Sheet, pairs: Sequence[tuple[str, str]]) -> str:
    """Settings with their values and the levels at which they are written, for people."""
    return "; ".join(f"{name}: {value} ({where_set(sheet, name)})" for name, value in pairs)


def _at_default(sheet: Sheet, name: str, good: str, otherwise: Status) -> Found:
    values = sheet.held(name)
    if not values:
        return Found(Status.UNKNOWN, "", gap=f"{name}: this cluster does not say it")
    wrong = sorted(values - {good})
    if not wrong:
        return Found(Status.OK, f"{name}: {good}")
    value = f"{name}: {', '.join(wrong)} ({where_set(sheet, name)})"
    return Found(otherwise, value, commands=cleared(sheet, [name]))


@rule(
    "left.allocation",
    "Copies may be allocated",
    says="cluster.routing.allocation.enable is all. With primaries, new_primaries or none no replica that is lost is "
    "built again, and no new index gets one: the next loss is the last copy's.",
    source=ALLOCATING,
    remedy="Set it to null after a drain, a restart or an upgrade.",
    needs=("nodes", "settings"),
)
def allocation(sheet: Sheet, workload: Workload) -> Found:
    return _at_default(sheet, ALLOCATION, "all", Status.FAIL)


@rule(
    "left.rebalance",
    "Copies may be balanced",
    says="cluster.routing.rebalance.enable is all. Without, nodes that return or are added stay empty, and the others "
    "carry their load.",
    source=ALLOCATING,
    remedy="Set it to null once the maintenance is over.",
    needs=("nodes", "settings"),
)
def rebalance(sheet: Sheet, workload: Workload) -> Found:
    return _at_default(sheet, REBALANCE, "all", Status.WARN)


FILTER = re.compile(r"(?:cluster\.)?routing\.allocation\.(exclude|include|require)\.(?!_tier)(.+)")
"""OpenSearch heeds no filter whose key begins with _tier (DiscoveryNodeFilters.trimTier)."""
NAMES = ("_name", "name")
ADDRESSES = ("_ip", "_host_ip", "_publish_ip")


def fits(node: Node, key: str, values: str, *, every: bool = False) -> bool | None:
    """Whether a node has one of the values of a filter, ``*`` included. None: that is not known from here.

    ``every``: it has to have each of them, as ``require`` asks of all but addresses. ``_host`` is a node's host name or
    its address (DiscoveryNodeFilters.match).
    """
    own: dict[str, tuple[str | None, ...]] = {
        **{name: (value,) for name, value in node.attributes.items()},
        **dict.fromkeys(NAMES, (node.name,)),
        **dict.fromkeys(ADDRESSES, (node.ip,)),
        "_id": (node.id,),
        "_host": (node.host, node.ip),
    }
    held = own.get(key, ())
    known = [each for each in held if each is not None]
    enough = all if every and key not in ADDRESSES else any
    if enough(any(fnmatchcase(each, value) for each in known) for value in listed(values)):
        return True
    return None if None in held else False


def names_a_node(key: str) -> bool:
    """Whether a filter with this key is by a node's name, id or address, and not by an attribute."""
    return key in NAMES or key.startswith("_")


def filters(settings: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """(exclude, include or require; what of a node) → values, of those that are not empty."""
    found = ((FILTER.fullmatch(name), value) for name, value in settings.items())
    return {(match[1], match[2]): value for match, value in found if match and value.strip()}


def allowed(node: Node, rules: Mapping[tuple[str, str], str]) -> bool:
    """Whether a node may hold copies under these filters, as far as its name and attributes tell."""
    included = [fits(node, key, values) for (kind, key), values in rules.items() if kind == "include"]
    required = [fits(node, key, values, every=True) for (kind, key), values in rules.items() if kind == "require"]
    excluded = [fits(node, key, values) for (kind, key), values in rules.items() if kind == "exclude"]
    return True not in excluded and False not in required and (not included or True in included or None in included)


@rule(
    "left.excludes",
    "No data node is kept empty",
    says="No filter of the cluster (cluster.routing.allocation.exclude, include, require; in opensearch.yml too) keeps "
    "copies off a node: one that a drain left behind takes a node's room away. A filter that names no node is a "
    "warning: the next node with that name stays empty.",
    source=ALLOCATING,
    remedy="Set the filter to null, or take it out of opensearch.yml, when the node is drained and gone, or is to hold "
    "copies again.",
    needs=("nodes", "settings"),
)
def excludes(sheet: Sheet, workload: Workload) -> Found:
    given = sheet.given(FILTER)
    pairs = [(name, value) for name, value in _pairs(given) if value.strip()]
    if not pairs:
        return Found(Status.OK, "no filter is set")
    value = _told(sheet, pairs[:SHOWN])
    rules = [filters(each) for each in given]
    kept = [node.name for node in sheet.data if not all(allowed(node, each) for each in rules)]
    named = tuple(item for _, text in pairs for item in listed(text))[:SHOWN]
    mends = cleared(sheet, dict.fromkeys(name for name, _ in pairs))
    if kept:
        nodes = tuple(dict.fromkeys((*kept[:SHOWN], *named)))
        return Found(Status.FAIL, f"{value}; keeps copies off {some(kept)}", nodes, commands=mends)
    keys = {key for each in rules for _, key in each}
    unknown = any(fits(node, key, "") is None for key in keys for node in sheet.data)
    whom = "which nodes that are is not known" if unknown else "keeps copies off no node that is here"
    return Found(Status.WARN, f"{value}; {whom}", named, commands=mends)


@rule(
    "left.disk-threshold",
    "Full disks are watched",
    says="cluster.routing.allocation.disk.threshold_enabled is true. Without, copies are placed on full disks, and "
    "nothing stops writes before a disk is full and its node fails.",
    source=ALLOCATING,
    remedy="Set it to null; make room first, since the watermarks act at once.",
    needs=("nodes", "settings"),
)
def disk_threshold(sheet: Sheet, workload: Workload) -> Found:
    return _at_default(sheet, THRESHOLD, "true", Status.FAIL)


STOCK_MARKS = {"low": 85.0, "high": 90.0, "flood_stage": 95.0}
"""Percent of a disk in use."""
MARKS = re.compile(rf"{re.escape(WATERMARK)}\.({'|'.join(STOCK_MARKS)})")


def _percent(value: str) -> float | None:
    """A watermark as percent in use: ``97%`` or ``0.97``. None for one in bytes, which is what must stay free."""
    try:
        return float(value[:-1]) if value.endswith("%") else 100 * float(value)
    except ValueError:
        return None


@rule(
    "left.watermarks",
    "Watermarks were not raised",
    says="No watermark, of the cluster's settings or in opensearch.yml, is above OpenSearch's (85, 90 and 95 % in "
    "use): one that was raised in a disk flood leaves no time when the next one comes. Those in bytes are not judged.",
    source=ALLOCATING,
    remedy="Make room, then set the watermarks to null, or take them out of opensearch.yml.",
    needs=("settings",),
)
def watermarks(sheet: Sheet, workload: Workload) -> Found:
    high = [
        (name, value)
        for name, value in _pairs(sheet.given(MARKS))
        if (share := _percent(value)) is not None and share > STOCK_MARKS[name.rpartition(".")[2]]
    ]
    if not high:
        return Found(Status.OK, "none is above OpenSearch's", gap=sheet.untold)
    mends = cleared(sheet, dict.fromkeys(name for name, _ in high))
    return Found(Status.WARN, _told(sheet, high), gap=sheet.untold, commands=mends)


@rule(
    "managers.votes",
    "Every manager has its vote",
    says="No voting exclusion is left, and the committed voting configuration names the managers that are here. An "
    "excluded manager runs and does not count: the loss of another one may stop the cluster.",
    source=VOTING,
    remedy="Delete the exclusions. A voter that is gone for good leaves by itself while others are an odd majority.",
    needs=("nodes", "state"),
)
def votes(sheet: Sheet, workload: Workload) -> Found:
    assert sheet.state is not None
    of_id = {node.id: node.name for node in sheet.nodes or ()}
    voting = [of_id[id] for id in sheet.state.voters if id in of_id]
    gone = len(sheet.state.voters) - len(voting)
    value = f"voters: {some(sorted(voting)) or 'none'}" + (f", and {gone} that are not here" if gone else "")
    out = sheet.state.excluded
    if out:
        mend = curl("DELETE", "/_cluster/voting_config_exclusions?wait_for_removal=false")
        return Found(Status.FAIL, f"{value}; excluded: {some(out)}", out[:SHOWN], commands=(mend,))
    without = sorted(node.name for node in sheet.managers if node.name not in voting)
    # of an even number OpenSearch leaves one out, so that a half does not stop the cluster
    if gone or (without and len(sheet.managers) % 2):
        return Found(Status.WARN, value + (f"; without a vote: {some(without)}" if without else ""), tuple(without[:3]))
    return Found(Status.OK, value)


@rule(
    "blocks.cluster",
    "The cluster is not blocked",
    says="No block holds for the whole cluster: read-only, no new index, or state not recovered. Health may be green.",
    source=ALLOCATING,
    remedy="Set cluster.blocks.read_only, read_only_allow_delete or create_index to null; see the log for others.",
    needs=("settings", "state"),
)
def cluster_blocks(sheet: Sheet, workload: Workload) -> Found:
    assert sheet.state is not None and sheet.settings is not None
    names = sorted(
        name
        for name, value in sheet.settings.explicit.items()
        if name.startswith("cluster.blocks.") and value == "true" and not name.endswith("auto_release")
    )
    said = list(dict.fromkeys((*sheet.state.blocks, *(f"{name}: true" for name in names))))
    if said:
        return Found(Status.FAIL, some(said), commands=cleared(sheet, names))
    return Found(Status.OK, "no block")


def _out(state: State, sheet: Sheet) -> tuple[list[str], list[str]]:
    """What contradicts itself about a decommission, and what is only worth knowing."""
    gone = state.decommissioned
    if gone is None:
        return [], []
    bad = []
    weight = state.weights.get(gone.attribute, {}).get(gone.value)
    if weight:
        bad.append(f"{gone.attribute} {gone.value} is decommissioned and has weight {weight:g}")
    if gone.status == "failed":
        bad.append(f"the decommission of {gone.attribute} {gone.value} failed")
    if gone.attribute not in _aware(sheet):
        bad.append(f"{gone.attribute} is decommissioned by, and allocation is not aware of it")
    inside = [node.name for node in sheet.nodes or () if node.attributes.get(gone.attribute) == gone.value]
    if gone.status == "successful" and inside:
        bad.append(f"{gone.attribute} {gone.value} is decommissioned and {some(inside)} is in the cluster")
    return bad, [] if bad else [f"{gone.attribute} {gone.value} is decommissioned ({gone.status})"]


def _aware(sheet: Sheet) -> frozenset[str]:
    return frozenset(name for value in sheet.held(AWARENESS) for name in listed(value))


def _weighted(state: State, sheet: Sheet) -> tuple[list[str], list[str]]:
    """The same about weights. A zone that stands by has weight 0 on purpose."""
    bad, known = [], []
    for attribute, weights in state.weights.items():
        there = {node.attributes.get(attribute) for node in sheet.data} - {None}
        if attribute not in _aware(sheet):
            bad.append(f"weights by {attribute}, and allocation is not aware of it")
        unnamed = sorted(str(value) for value in there - set(weights))
        if unnamed:
            bad.append(f"{attribute} {some(unnamed)} has no weight beside others that have")
        away = sorted(value for value, weight in weights.items() if weight == 0)
        if len(away) * 2 > len(weights):
            bad.append(f"more than half of {attribute} have weight 0: {some(away)}")
        elif away:
            known.append(f"weight 0: {attribute} {some(away)}")
    return bad, known


@rule(
    "routing",
    "Weights, decommissions and awareness agree",
    says="No attribute value is decommissioned and weighed in, none that has no weight beside others, no decommission "
    "that failed, and both go by an attribute that allocation is aware of. A decommission that holds is a warning: "
    "no other zone can be lost. Weight 0 by itself is worth knowing.",
    source=ROUTING,
    remedy="Recommission, then weigh in: DELETE /_cluster/decommission/awareness, then PUT or DELETE the weights.",
    needs=("nodes", "settings", "state"),
)
def routing(sheet: Sheet, workload: Workload) -> Found:
    assert sheet.state is not None
    bad_out, out = _out(sheet.state, sheet)
    bad_weights, known = _weighted(sheet.state, sheet)
    bad = bad_out + bad_weights
    mends = []
    if sheet.state.decommissioned is not None:
        mends.append(curl("DELETE", "/_cluster/decommission/awareness"))
    if bad_weights:
        mends += [curl("DELETE", f"/_cluster/routing/awareness/{name}/weights") for name in sheet.state.weights]
    if bad:
        return Found(Status.FAIL, "; ".join(bad), commands=tuple(mends))
    if out:
        return Found(Status.WARN, "; ".join(out + known), commands=tuple(mends))
    if known:
        return Found(Status.INFO, "; ".join(known))
    return Found(Status.OK, "nothing is decommissioned or weighed out")


@rule(
    "left.transient",
    "No transient setting is left",
    says="Nothing is set transiently: it was meant for a moment, hides what is persistent, and is gone after the next "
    "restart of the whole cluster.",
    source=SETTING,
    remedy="Set it to null, or persistently where it is to stay.",
    needs=("settings",),
)
def transient(sheet: Sheet, workload: Workload) -> Found:
    assert sheet.settings is not None
    left = sorted(sheet.settings.transient)
    if not left:
        return Found(Status.OK, "none is set")
    mend = curl("PUT", "/_cluster/settings", {"transient": dict.fromkeys(left)})
    return Found(Status.WARN, f"{len(left)}: {some(left)}", commands=(mend,))


@rule(
    "left.archived",
    "No setting is archived",
    says="No setting of the cluster or of an index is archived: an upgrade puts aside what it does not know any more, "
    "and what it did is no longer done (a frozen index of another system among them).",
    source=ARCHIVED,
    remedy='See what replaces it, then set "archived.*" to null, for the cluster and for the index.',
    needs=("settings", "indices"),
)
def archived(sheet: Sheet, workload: Workload) -> Found:
    assert sheet.settings is not None
    of_cluster = sorted(name for name in sheet.settings.explicit if name.startswith("archived."))
    of_indices = sorted(
        index.name for index in sheet.indices or () if any(name.startswith("archived.") for name in index.settings)
    )
    if not of_cluster and not of_indices:
        return Found(Status.OK, "none")
    parts = [f"of the cluster: {some(of_cluster)}"] if of_cluster else []
    parts += [f"of indices: {some(of_indices)}"] if of_indices else []
    mends = [curl("PUT", "/_cluster/settings", {"persistent": {"archived.*": None}})] if of_cluster else []
    mends += [curl("PUT", f"/{name}/_settings", {"archived.*": None}) for name in of_indices[:SHOWN]]
    return Found(Status.WARN, "; ".join(parts), indices=tuple(of_indices[:SHOWN]), commands=tuple(mends))


CONCURRENT = re.compile(
    r"cluster\.routing\.allocation\."
    r"(node_concurrent_(incoming_|outgoing_)?recoveries|node_initial_primaries_recoveries|cluster_concurrent_rebalance)"
)


@rule(
    "left.recovery",
    "Recoveries run at their usual pace",
    says="No limit of recoveries, of the cluster's settings or in opensearch.yml, is 0, with which nothing recovers. "
    "Others are worth knowing: a pace for a drain or a restore competes with users, or makes every recovery slow.",
    source=ALLOCATING,
    remedy="Set them to null, or take them out of opensearch.yml, once the drain or the restore is over.",
    needs=("settings",),
)
def recovery(sheet: Sheet, workload: Workload) -> Found:
    pairs = _pairs([*sheet.given(CONCURRENT), *sheet.given(re.compile(re.escape(PACE)), sheet.nodes)])
    stopped = [(name, value) for name, value in pairs if CONCURRENT.fullmatch(name) and value == "0"]
    value = _told(sheet, sorted(pairs, key=lambda pair: pair not in stopped)[:SHOWN])
    mends = cleared(sheet, dict.fromkeys(name for name, _ in pairs))
    if stopped:
        return Found(Status.FAIL, value, commands=mends)
    if pairs:
        return Found(Status.INFO, value, gap=sheet.untold, commands=mends)
    return Found(Status.OK, "none is set", gap=sheet.untold)
