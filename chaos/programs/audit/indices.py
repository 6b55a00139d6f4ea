"""What indices, templates and tiers are left with: blocks, durability, filters, limits, copies, replication."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from chaos.base import text
from chaos.definitions.topology import SEGMENT, STRATEGY, TYPE
from chaos.opensearch.checklist import Source, Status
from chaos.programs.audit.catalogue import SHOWN, Found, Workload, curl, gib, rule, some, told
from chaos.programs.audit.facts import (
    DEFAULT_REPLICAS,
    PER_NODE,
    RESTRICTED,
    SEGMENT_PRESSURE,
    Index,
    Node,
    Sheet,
    Template,
    listed,
    seconds,
)
from chaos.programs.audit.leftovers import allowed, cleared, filters, names_a_node

_DOCUMENTATION = "https://docs.opensearch.org/latest"
_SOURCE = "https://github.com/opensearch-project/OpenSearch/blob/main/server/src/main/java/org/opensearch"
INDEX_SETTINGS = Source(
    "OpenSearch documentation: Index settings",
    f"{_DOCUMENTATION}/install-and-configure/configuring-opensearch/index-settings/",
)
BLOCKING = Source(
    "OpenSearch documentation: Cluster settings, disk watermarks",
    f"{_DOCUMENTATION}/install-and-configure/configuring-opensearch/cluster-settings/",
)
DELAYING = Source(
    "OpenSearch source: UnassignedInfo, INDEX_DELAYED_NODE_LEFT_TIMEOUT_SETTING",
    f"{_SOURCE}/cluster/routing/UnassignedInfo.java",
)
LIMITING = Source(
    "OpenSearch source: ShardsLimitAllocationDecider",
    f"{_SOURCE}/cluster/routing/allocation/decider/ShardsLimitAllocationDecider.java",
)
FILTERING = Source(
    "OpenSearch source: FilterAllocationDecider",
    f"{_SOURCE}/cluster/routing/allocation/decider/FilterAllocationDecider.java",
)
CLOSING = Source("OpenSearch documentation: Close index", f"{_DOCUMENTATION}/api-reference/index-apis/close-index/")
TEMPLATES = Source("OpenSearch documentation: Index templates", f"{_DOCUMENTATION}/im-plugin/index-templates/")
REPLICATING = Source(
    "OpenSearch documentation: Segment replication backpressure",
    f"{_DOCUMENTATION}/tuning-your-cluster/availability-and-recovery/segment-replication/backpressure/",
)
LIMITS = Source(
    "OpenSearch documentation: Circuit breaker settings",
    f"{_DOCUMENTATION}/install-and-configure/configuring-opensearch/circuit-breaker/",
)


def _reset(names: Sequence[str], *settings: str) -> tuple[str, ...]:
    """The command that takes settings back from indices: all that are named, in one request."""
    return (curl("PUT", f"/{','.join(names)}/_settings", dict.fromkeys(settings)),) if names else ()


def _where(sheet: Sheet, name: str, *values: str) -> list[str]:
    """Indices with one of these values of a setting, sorted."""
    return sorted(index.name for index in sheet.indices or () if index.settings.get(name) in values)


# ---- writes --------------------------------------------------------------------------------------------

FLOODED, READ_ONLY, NO_WRITES = "blocks.read_only_allow_delete", "blocks.read_only", "blocks.write"
BLOCKS = (FLOODED, READ_ONLY, "blocks.read", NO_WRITES, "blocks.metadata")
SEARCHABLE = "remote_snapshot"
"""``index.store.type`` of an index that lies in a snapshot: it takes no writes by its nature."""


@rule(
    "blocks.index",
    "No index is blocked",
    says="No index has index.blocks.read_only_allow_delete (a disk flood), read_only or read: it refuses its users "
    "while health is green. A block of writes or metadata alone is a warning: shrink, clone and policies set it.",
    source=BLOCKING,
    remedy="Make room where a disk was full, then set the block to null.",
    needs=("indices",),
)
def index_blocks(sheet: Sheet, workload: Workload) -> Found:
    blocked: dict[str, list[str]] = {}
    for index in sheet.indices or ():
        if index.settings.get("store.type") != SEARCHABLE:
            on = [name for name in BLOCKS if index.settings.get(name) == "true"]
            blocked |= {index.name: on} if on else {}
    if not blocked:
        return Found(Status.OK, "no block")
    hard = sorted(name for name, on in blocked.items() if set(on) - {NO_WRITES, "blocks.metadata"})
    names = hard + sorted(set(blocked) - set(hard))
    kinds = sorted({name for on in blocked.values() for name in on})
    value = f"{len(blocked)} of {len(sheet.indices or ())}: {some(names)} ({', '.join(kinds)})"
    mends = _reset(names[:SHOWN], *(f"index.{name}" for name in kinds))
    return Found(Status.FAIL if hard else Status.WARN, value, indices=tuple(names[:SHOWN]), commands=mends)


@rule(
    "durability",
    "Acknowledged writes are on disk",
    says="No index has index.translog.durability async: what was acknowledged in the last sync_interval (5 s) is lost "
    "where the nodes of all its copies end at once, and on one node where it is the only copy.",
    source=INDEX_SETTINGS,
    remedy="Set it to null after the import that it was set for.",
    needs=("indices",),
)
def durability(sheet: Sheet, workload: Workload) -> Found:
    names = _where(sheet, "translog.durability", "async", "ASYNC")
    if not names:
        return Found(Status.OK, "request, for every index")
    mends = _reset(names[:SHOWN], "index.translog.durability")
    return Found(Status.WARN, f"async: {some(names)}", indices=tuple(names[:SHOWN]), commands=mends)


DELAY = "unassigned.node_left.delayed_timeout"


@rule(
    "delayed",
    "A node may come back before its copies are built again",
    says="No index has index.unassigned.node_left.delayed_timeout 0: with it each restart of a node, however short, "
    "starts copying its shards over the network, which slows users and the restart.",
    source=DELAYING,
    remedy="Set it to null (one minute), or to what a restart of a node takes.",
    needs=("indices",),
)
def delayed(sheet: Sheet, workload: Workload) -> Found:
    held = {index.name: index.settings.get(DELAY) for index in sheet.indices or ()}
    names = sorted(
        name for name, value in held.items() if value is not None and (value == "0" or seconds(value) in (None, 0))
    )
    if not names:
        return Found(Status.OK, "no index has 0")
    mends = _reset(names[:SHOWN], f"index.{DELAY}")
    return Found(Status.WARN, f"0: {some(names)}", indices=tuple(names[:SHOWN]), commands=mends)


# ---- where copies may go -------------------------------------------------------------------------------


Filters = frozenset[tuple[tuple[str, str], str]]
"""((exclude, include or require; what of a node), values)."""


def _limit(value: str | None) -> int | None:
    """A number of shards above zero; None where there is no limit."""
    return int(value) if value is not None and value.lstrip("-").isdigit() and int(value) > 0 else None


def _fitting(sheet: Sheet, index: Index) -> list[Node]:
    """Data nodes that may hold copies of this index by its filters."""
    rules = filters(index.settings)
    return [node for node in sheet.data if allowed(node, rules)]


def placed(shards: int, copies: int, nodes: int, limit: int | None) -> int:
    """How many copies find a place: no two of a shard on one node, and ``limit`` of the index on each node."""
    most = shards * min(copies, nodes)
    return most if limit is None else min(most, limit * nodes)


@rule(
    "shards.limit",
    "Limits on nodes leave room after a loss",
    says="index.routing.allocation.total_shards_per_node (and the cluster's) leaves a place for every copy that the "
    "nodes left after the loss of one could hold. Less is a warning; one that leaves copies out now fails.",
    source=LIMITING,
    remedy="Raise the limit to what one node fewer needs, or set it to null.",
    needs=("nodes", "settings", "indices"),
)
def shards_limit(sheet: Sheet, workload: Workload) -> Found:
    now, later = [], []
    fitting = _places(sheet)
    for index in sheet.indices or ():
        limit = _limit(index.settings.get("routing.allocation.total_shards_per_node"))
        nodes, copies = len(fitting[index.name]), index.replicas + 1
        if limit is None or not nodes:
            continue
        if placed(index.shards, copies, nodes, limit) < placed(index.shards, copies, nodes, None):
            now.append(index.name)
        elif placed(index.shards, copies, nodes - 1, limit) < placed(index.shards, copies, nodes - 1, None):
            later.append(index.name)
    short, tight = _overall(sheet, fitting)
    names = sorted(now) + sorted(later)
    value = "; ".join(
        part
        for part in (
            f"no place now for copies of {some(sorted(now))}" if now else "",
            f"none after the loss of a node for copies of {some(sorted(later))}" if later else "",
            tight,
        )
        if part
    )
    mends = _reset(names[:SHOWN], "index.routing.allocation.total_shards_per_node")
    mends += cleared(sheet, [PER_NODE]) if tight else ()
    if now or short:
        return Found(Status.FAIL, value, indices=tuple(names[:SHOWN]), commands=mends)
    if names or tight:
        return Found(Status.WARN, value, indices=tuple(names[:SHOWN]), commands=mends)
    return Found(Status.OK, "no limit, or room enough")


def _places(sheet: Sheet) -> dict[str, set[str]]:
    """Index → names of the data nodes that may hold its copies by its filters; one set where filters are alike."""
    by_filters: dict[Filters, set[str]] = {}
    found = {}
    for index in sheet.indices or ():
        filtered = frozenset(filters(index.settings).items())
        if filtered not in by_filters:
            by_filters[filtered] = {node.name for node in _fitting(sheet, index)}
        found[index.name] = by_filters[filtered]
    return found


def _overall(sheet: Sheet, fitting: Mapping[str, set[str]]) -> tuple[bool, str]:
    """Whether the cluster's limit leaves copies out now, and in words what it leaves out now or after a loss.

    ``fitting``: see :func:`_places`.
    """
    limits = [limit for value in sheet.held(PER_NODE) if (limit := _limit(value)) is not None]
    if not limits:
        return False, ""

    def held(lost: str | None) -> int:
        """How many copies find a place without that node and without a limit."""
        named = ((index, fitting[index.name]) for index in sheet.indices or ())
        return sum(placed(each.shards, each.replicas + 1, len(on) - (lost in on), None) for each, on in named)

    def said(copies: int, nodes: int) -> str:
        return f"{PER_NODE}: {limit} for {text.plural(copies, 'copy', 'copies')} on {text.plural(nodes, 'node')}"

    nodes, limit, now = len(sheet.data), min(limits), held(None)
    if now > limit * nodes:
        return True, said(now, nodes)
    later = max((held(node.name) for node in sheet.data), default=0)
    return False, f"{said(later, nodes - 1)} after the loss of one" if later > limit * (nodes - 1) else ""


def _bound(index: Index) -> list[str]:
    """Names of its filters by one node's name, id or address."""
    return [f"index.routing.allocation.{kind}.{key}" for kind, key in filters(index.settings) if names_a_node(key)]


@rule(
    "index.filters",
    "No index is bound to nodes by their names",
    says="No index may lie on certain nodes alone by their name, id or address, as shrink and moves by hand leave "
    "it: its copies have no other place when such a node is lost. Filters that fewer nodes than copies fit fail.",
    source=FILTERING,
    remedy="Set the filter to null once the move is over.",
    needs=("nodes", "indices"),
)
def index_filters(sheet: Sheet, workload: Workload) -> Found:
    bound = {index.name: kinds for index in sheet.indices or () if (kinds := _bound(index))}
    tight = sorted(
        index.name
        for index in sheet.indices or ()
        if filters(index.settings) and len(_fitting(sheet, index)) < min(index.replicas + 1, len(sheet.data))
    )
    names = tight + sorted(set(bound) - set(tight))
    if not names:
        return Found(Status.OK, "none")
    kinds = sorted({kind for name in names for kind in bound.get(name, ())})
    parts = [f"fewer nodes than copies: {some(tight)}"] if tight else []
    parts += [f"bound: {some(sorted(bound))} ({', '.join(kinds[:SHOWN])})"] if bound else []
    mends = _reset([name for name in names if name in bound][:SHOWN], *kinds)
    status = Status.FAIL if tight else Status.WARN
    shown = tuple(dict.fromkeys((*tight[:SHOWN], *sorted(bound)[:SHOWN])))
    return Found(status, "; ".join(parts), indices=shown, commands=mends)


# ---- tiers ---------------------------------------------------------------------------------------------


class Tier(NamedTuple):
    """Nodes that hold copies of the same indices. ``indices``: those that ask for its attributes."""

    name: str
    nodes: Sequence[Node]
    indices: Sequence[Index] = ()
    has_role: bool = False
    """Of the role search or warm."""


def tiers(sheet: Sheet) -> list[Tier]:
    """Data nodes by what indices ask of attributes, and the others by their values of these; nodes by role.

    Where no index asks for any, all data nodes are one tier.
    """
    asking: dict[Filters, list[Index]] = defaultdict(list)
    for index in sheet.indices or ():
        if asked := _of_tier(index):
            asking[asked].append(index)
    found = [
        Tier(_asked(rules), [node for node in sheet.data if allowed(node, dict(rules))], indices)
        for rules, indices in asking.items()
    ]
    taken = {node.name for tier in found for node in tier.nodes}
    others: dict[str, list[Node]] = defaultdict(list)
    for key in sorted({key for rules in asking for (kind, key), _ in rules if _binds(kind, key)}):
        for node in sheet.data:
            if key in node.attributes and node.name not in taken:
                others[f"{key} {node.attributes[key]}"].append(node)
    found += [Tier(name, nodes) for name, nodes in others.items()]
    found = sorted(found, key=lambda tier: tier.name) or [Tier("role data", sheet.data)]
    for role in ("search", "warm"):
        if nodes := [node for node in sheet.nodes or () if role in node.roles]:
            found.append(Tier(f"role {role}", nodes, has_role=True))
    return found


def _binds(kind: str, key: str) -> bool:
    """Whether such a filter asks for an attribute, and not for a node by its name, id or address."""
    return kind != "exclude" and not names_a_node(key)


def _of_tier(index: Index) -> Filters:
    """The filters by which an index lies in a tier, empty where it asks for no attribute.

    Its ``include`` takes a node that has any of what it names, so these stay together.
    """
    rules = {
        (kind, key): ",".join(sorted(listed(values)))
        for (kind, key), values in filters(index.settings).items()
        if kind == "include" or not names_a_node(key)
    }
    return frozenset(rules.items()) if any(_binds(*each) for each in rules) else frozenset()


def _asked(rules: Filters) -> str:
    """What filters ask of attributes, for people: ``temp hot, not box old``."""
    words = sorted((kind == "exclude", key, text) for (kind, key), text in rules)
    return ", ".join(dict.fromkeys(f"{'not ' if out else ''}{key} {text}" for out, key, text in words))


@rule(
    "tiers.copies",
    "Every tier holds more than one copy",
    says="The nodes that a tier's indices may lie on are two at least, in two zones at least, and its indices have "
    "replicas; nodes of the roles search and warm are two at least each. A tier of one node or of one zone is lost "
    "with it, whatever the rest of the cluster holds.",
    source=FILTERING,
    remedy="Give the tier nodes in another zone and its indices a replica (in its policy and template too).",
    needs=("nodes", "indices"),
)
def tier_copies(sheet: Sheet, workload: Workload) -> Found:
    found = [tier for tier in tiers(sheet) if tier.indices or tier.has_role]
    alone = [
        tier for tier in found if len(tier.nodes) < 2 or (tier.indices and len({node.zone for node in tier.nodes}) < 2)
    ]
    bare = sorted({index.name for tier in found for index in tier.indices if index.replicas < 1})
    said = [f"{tier.name} ({some([node.name for node in tier.nodes]) or 'no node'})" for tier in alone]
    parts = [f"one node or one zone: {some(said)}"] if said else []
    parts += [f"no replica in a tier: {some(bare)}"] if bare else []
    if not parts:
        return Found(Status.OK, "none holds one copy")
    named = tuple(dict.fromkeys(node.name for tier in alone[:SHOWN] for node in tier.nodes[:SHOWN]))
    mends = (curl("PUT", f"/{','.join(bare[:SHOWN])}/_settings", {"index.number_of_replicas": 1}),) if bare else ()
    return Found(Status.FAIL, "; ".join(parts), named, tuple(bare[:SHOWN]), commands=mends)


UNLIKE = 1.25
"""The largest heap of a tier is at most so many times its smallest."""


@rule(
    "tiers.heap",
    "Nodes of a tier have the same heap and limits",
    says="Within a tier the largest heap is at most a quarter above the smallest, the parent circuit breaker takes the "
    "same share of it, and the nodes left after the loss of one may hold the tier's copies "
    "(cluster.max_shards_per_node, which is counted over the whole cluster when an index is made). Copies are spread "
    "by number, so the smallest node of a tier fails first.",
    source=LIMITS,
    remedy="Give the nodes of a tier the same -Xmx and indices.breaker.total.limit, and fewer shards to a tier that is "
    "full.",
    needs=("nodes", "settings", "indices", "copies"),
)
def tier_heap(sheet: Sheet, workload: Workload) -> Found:
    have, gap = told(sheet, sheet.data, "heap", "limit")
    counts = Counter(copy.node for copy in sheet.copies or () if copy.node is not None)
    bad: list[str] = []
    names: list[str] = []
    for name, members, *_ in tiers(sheet):
        before = len(bad)
        nodes = [node for node in members if node in have]
        if not nodes:
            continue
        heaps = [node.heap or 0 for node in nodes]
        shares = {round((node.limit or 0) / (node.heap or 1), 2) for node in nodes}
        if max(heaps) > UNLIKE * min(heaps):
            bad.append(f"{name}: heap {gib(min(heaps))} to {gib(max(heaps))}")
        if len(shares) > 1:
            bad.append(f"{name}: limits of {', '.join(f'{100 * share:.0f} %' for share in sorted(shares))}")
        most = [int(v) for node in members if (v := sheet.setting("cluster.max_shards_per_node", node) or "").isdigit()]
        held = sum(counts[node.name] for node in members)
        if most and len(members) > 1 and held > min(most) * (len(members) - 1):
            bad.append(f"{name}: {held} copies are more than {len(members) - 1} nodes may hold")
        if len(bad) > before:
            names += [node.name for node in members if node.heap == min(heaps)]
    if bad:
        return Found(Status.WARN, "; ".join(bad[:SHOWN]), tuple(dict.fromkeys(names))[:SHOWN], gap=gap)
    return Found(Status.OK, f"alike in {text.plural(len(tiers(sheet)), 'tier')}", gap=gap)


# ---- indices that are out of the way -------------------------------------------------------------------


@rule(
    "indices.closed",
    "No index is closed or frozen",
    says="No index is closed: its documents cannot be searched or written, and health does not say so. Frozen ones "
    "(of another system) are not searched as their users expect.",
    source=CLOSING,
    remedy="Open it, or delete it where a snapshot holds it.",
    needs=("indices", "state"),
)
def closed(sheet: Sheet, workload: Workload) -> Found:
    assert sheet.state is not None
    shut = sorted(sheet.state.closed)
    frozen = sorted({*_where(sheet, "frozen", "true"), *_where(sheet, "archived.index.frozen", "true")})
    if not shut and not frozen:
        return Found(Status.OK, "none")
    parts = [f"closed: {some(shut)}"] if shut else []
    parts += [f"frozen: {some(frozen)}"] if frozen else []
    names = tuple(dict.fromkeys((*shut[:SHOWN], *frozen[:SHOWN])))
    return Found(
        Status.WARN,
        "; ".join(parts),
        indices=names,
        commands=tuple(curl("POST", f"/{name}/_open") for name in shut[:SHOWN]),
    )


# ---- templates -----------------------------------------------------------------------------------------

REPLICAS, EXPANDED = "number_of_replicas", "auto_expand_replicas"


def _bare(settings: Mapping[str, str]) -> bool:
    """Indices that it makes have no replica; one that expands by itself has."""
    expanded = settings.get(EXPANDED, "false")
    return settings.get(REPLICAS) == "0" and expanded in ("false", "")


def effective(template: Template, parts: Mapping[str, Template]) -> dict[str, str]:
    """What an index template sets: its parts in their order, then its own."""
    found: dict[str, str] = {}
    for part in template.parts:
        found |= parts[part].settings if part in parts else {}
    return found | dict(template.settings)


def _to_mend(template: Template, parts: Mapping[str, Template]) -> str:
    """Where the number of an index template is to be changed: in itself, or in the last part that says it."""
    if template.settings.get(REPLICAS) == "0":
        return f"/_index_template/{template.name}"
    part = next(name for name in reversed(template.parts) if name in parts and REPLICAS in parts[name].settings)
    return f"/_component_template/{part}"


def _without(sheet: Sheet) -> Iterator[tuple[str, str, str]]:
    """(name, how it is called, the path that shows it) of each template whose indices will have no replica."""
    parts = {part.name: part for part in sheet.component_templates or ()}
    for template in sheet.index_templates or ():
        if _bare(effective(template, parts)):
            made = (sheet.streams or {}).get(template.name, ())
            of = f" of data stream {some(made)}" if made else " of data streams" if template.of_streams else ""
            yield template.name, f"{template.name}{of}", _to_mend(template, parts)
    for template in sheet.legacy_templates or ():
        if _bare(template.settings):
            yield template.name, f"{template.name} (legacy)", f"/_template/{template.name}"


@rule(
    "templates",
    "Templates give indices a replica",
    says="No index template, with its components, and no legacy one sets number_of_replicas to 0, nor does "
    "cluster.default_number_of_replicas: the next index or rollover of a data stream is lost with one node. A "
    "component that no template uses is a warning.",
    source=TEMPLATES,
    remedy="Put the template again with a replica, raise the indices that it made already, and roll data streams over.",
    needs=("nodes", "settings", "index_templates", "component_templates", "legacy_templates", "streams"),
)
def templates(sheet: Sheet, workload: Workload) -> Found:
    bare = list(_without(sheet))
    used = {part for template in sheet.index_templates or () for part in template.parts}
    idle = sorted(t.name for t in sheet.component_templates or () if _bare(t.settings) and t.name not in used)
    default = "0" in sheet.held(DEFAULT_REPLICAS)
    parts = [f"no replica by {some([called for _, called, _ in bare])}"] if bare else []
    parts += [f"{DEFAULT_REPLICAS} is 0"] if default else []
    parts += [f"components that none uses: {some(idle)}"] if idle else []
    streams = [name for made in (sheet.streams or {}).values() for name in made]
    others = (*(name for name, _, _ in bare[:SHOWN]), *idle[:SHOWN], *streams)
    mends = [curl("GET", path) for _, _, path in bare[:SHOWN]]
    mends += cleared(sheet, [DEFAULT_REPLICAS]) if default else ()
    if bare or default:
        return Found(Status.FAIL, "; ".join(parts), others=others, commands=tuple(mends))
    if idle:
        return Found(Status.WARN, "; ".join(parts), others=others)
    number = len(sheet.index_templates or ()) + len(sheet.legacy_templates or ())
    return Found(Status.OK, f"{text.plural(number, 'template')}, none sets 0")


# ---- replication ---------------------------------------------------------------------------------------


def _by_type(indices: Iterable[Index], default: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for index in indices:
        if not index.is_system:
            found[index.settings.get(TYPE, default).upper()].append(index.name)
    return found


def _stream(name: str) -> str | None:
    """The data stream of a backing index, by its name: ``.ds-NAME-000001``."""
    return name.removeprefix(".ds-").rpartition("-")[0] if name.startswith(".ds-") else None


@rule(
    "replication",
    "One way of replication, and a limit to how far copies lag",
    says="Indices of one data stream have one replication.type, and what a setting of the cluster restricts is kept. "
    "Segment replication without segrep.pressure.enabled is worth knowing: nothing stops writes when a copy falls "
    "behind, and searches show old documents for as long.",
    source=REPLICATING,
    remedy="Roll the data stream over (replication.type cannot be changed), and set segrep.pressure.enabled to true.",
    needs=("nodes", "settings", "indices"),
)
def replication(sheet: Sheet, workload: Workload) -> Found:
    strategy = min(sheet.held(STRATEGY), default="DOCUMENT").upper()
    types = _by_type(sheet.indices or (), strategy)
    of_streams: dict[str, set[str]] = defaultdict(set)
    for kind, names in types.items():
        for name in names:
            if stream := _stream(name):
                of_streams[stream].add(kind)
    mixed = sorted(stream for stream, kinds in of_streams.items() if len(kinds) > 1)
    restricted = "true" in sheet.held(RESTRICTED)
    others = sorted(name for kind, names in types.items() if kind != strategy for name in names)
    value = ", ".join(f"{len(names)} by {kind.lower()}" for kind, names in sorted(types.items())) or "no index"
    if mixed or (restricted and others):
        said = [f"both in data stream {some(mixed)}"] if mixed else []
        said += [f"not by {strategy.lower()}, to which the cluster restricts: {some(others)}"] if restricted else []
        mends = tuple(curl("POST", f"/{stream}/_rollover") for stream in mixed[:SHOWN])
        named = (*mixed[:SHOWN], *others[:SHOWN])
        return Found(Status.WARN, "; ".join((value, *said)), indices=named, commands=mends)
    if types.get(SEGMENT) and sheet.held(SEGMENT_PRESSURE) != {"true"}:
        mend = curl("PUT", "/_cluster/settings", {"persistent": {SEGMENT_PRESSURE: True}})
        return Found(Status.INFO, f"{value}; {SEGMENT_PRESSURE} is not true", commands=(mend,))
    return Found(Status.OK, value)
