"""The published checklist for availability: each rule a pure function from the facts to a finding."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from chaos.base import text
from chaos.definitions.topology import AWARENESS
from chaos.opensearch.checklist import AVAILABILITY, CPU_MOST, CPU_OK, Source, Status, grade
from chaos.programs.audit.accepted import InFile, deadly
from chaos.programs.audit.catalogue import SHOWN, Found, Workload, gib, joined, rule, some, told
from chaos.programs.audit.facts import BALANCE, CANCEL_AFTER, FOLLOWER, GIB, LEADER, Node, Sheet, listed, seconds

STANDBY = Source(
    "AWS Big Data Blog: 99.99% availability using Multi-AZ with Standby",
    "https://aws.amazon.com/blogs/big-data/"
    "amazon-opensearch-service-now-supports-99-99-availability-using-multi-az-with-standby/",
)
_GUIDE = "https://docs.aws.amazon.com/opensearch-service/latest/developerguide"
MANAGERS = Source(
    "Amazon OpenSearch Service Developer Guide: Dedicated master nodes",
    f"{_GUIDE}/managedomains-dedicatedmasternodes.html",
)
SHARDS = Source(
    "Amazon OpenSearch Service Developer Guide: Choosing the number of shards", f"{_GUIDE}/bp-sharding.html"
)
PRACTICES = Source("Amazon OpenSearch Service Developer Guide: Operational best practices", f"{_GUIDE}/bp.html")
ALARMS = Source(
    "Amazon OpenSearch Service Developer Guide: Recommended CloudWatch alarms", f"{_GUIDE}/cloudwatch-alarms.html"
)
RATIO = Source(
    "AWS Well-Architected, Amazon OpenSearch Service Lens: shards and heap",
    "https://docs.aws.amazon.com/wellarchitected/latest/amazon-opensearch-service-lens/aosperf01-bp01.html",
)
_DOCUMENTATION = "https://docs.opensearch.org/latest"
CREATING = Source("OpenSearch documentation: Creating a cluster", f"{_DOCUMENTATION}/tuning-your-cluster/")
DISCOVERY = Source(
    "OpenSearch documentation: Discovery and cluster formation settings",
    f"{_DOCUMENTATION}/tuning-your-cluster/discovery-cluster-formation/settings",
)
SETTINGS = Source(
    "OpenSearch documentation: Cluster settings", f"{_DOCUMENTATION}/api-reference/cluster-api/cluster-settings/"
)
PROTECTION = Source(
    "OpenSearch documentation: Load protection", f"{_DOCUMENTATION}/tuning-your-cluster/load-protection/index/"
)
ADMISSION = Source(
    "OpenSearch documentation: Admission control settings",
    f"{_DOCUMENTATION}/install-and-configure/configuring-opensearch/admission-control-settings/",
)
TASKS = Source(
    "OpenSearch documentation: Cluster manager task throttling",
    f"{_DOCUMENTATION}/tuning-your-cluster/cluster-manager-task-throttling/",
)
SEARCHING = Source(
    "OpenSearch documentation: Search settings",
    f"{_DOCUMENTATION}/install-and-configure/configuring-opensearch/search-settings/",
)


# ---- zones and nodes -----------------------------------------------------------------------------------


@rule(
    "zones",
    "Data nodes in three zones",
    says="Data nodes lie in three zones or more, and every one of them says in which. Two zones are a warning.",
    source=STANDBY,
    remedy="Spread the data nodes over three zones and give every node node.attr.zone (or another: --zone-attribute).",
    needs=("nodes",),
)
def zones(sheet: Sheet, workload: Workload) -> Found:
    homeless = [node.name for node in sheet.data if node.zone is None]
    count = len(sheet.zones)
    value = f"{text.plural(count, 'zone')} ({', '.join(sheet.zones[:9]) or 'none'}) by node.attr.{sheet.zone_attribute}"
    if homeless:
        return Found(Status.FAIL, f"{value}; without a zone: {some(homeless)}", tuple(homeless[:SHOWN]))
    return Found(Status.OK if count >= 3 else Status.WARN if count == 2 else Status.FAIL, value)


@rule(
    "zones.equal",
    "As many data nodes in every zone",
    says="The number of data nodes is a multiple of the zones (three at least), and every zone has as many.",
    source=STANDBY,
    remedy="Add data nodes where there are fewer: the loss of a large zone leaves too little.",
    needs=("nodes",),
)
def equal_zones(sheet: Sheet, workload: Workload) -> Found:
    counts = Counter(node.zone for node in sheet.data)
    value = ", ".join(f"{zone if zone is not None else 'no zone'} {counts[zone]}" for zone in sorted(counts, key=str))
    even = len(counts) > 1 and len(set(counts.values())) == 1 and None not in counts
    even = even and len(sheet.data) % max(3, len(counts)) == 0
    return Found(Status.OK if even else Status.WARN, value or "no data node")


@rule(
    "managers.dedicated",
    "Three dedicated cluster managers",
    says="An odd number of dedicated cluster managers, three at least; no other node may be elected.",
    source=MANAGERS,
    remedy="Run three nodes with the role cluster_manager alone, and take that role from all others.",
    needs=("nodes",),
)
def dedicated_managers(sheet: Sheet, workload: Workload) -> Found:
    dedicated = [node for node in sheet.managers if node.is_dedicated]
    others = [node.name for node in sheet.managers if not node.is_dedicated]
    value = f"{len(dedicated)} dedicated"
    if others:
        value += f"; may be elected too: {some(others)}"
    good = len(dedicated) % 2 == 1 and not others
    status = Status.FAIL if len(dedicated) < 3 else Status.OK if good else Status.WARN
    return Found(status, value, tuple(others[:SHOWN]))


@rule(
    "managers.zones",
    "A majority of managers survives any zone",
    says="Managers are counted by the committed voting configuration. Every node that may be elected says its zone, "
    "and without any one zone more than half of the voters are here: a voter that is gone counts as lost.",
    source=CREATING,
    remedy="One manager in each of three zones, with the zone attribute: without it a decommission leaves it behind. "
    "Delete voting exclusions that are left.",
    needs=("nodes",),
)
def manager_zones(sheet: Sheet, workload: Workload) -> Found:
    homeless = [node.name for node in sheet.managers if node.zone is None]
    voting, number = _voting(sheet)
    counts = Counter(node.zone for node in voting if node.zone is not None)
    value = ", ".join(f"{zone} {each}" for zone, each in sorted(counts.items())) or "none says its zone"
    value += f", gone {number - len(voting)}" if number > len(voting) else ""
    silent = sorted(node.name for node in sheet.managers if node not in voting)
    value += f"; without a vote: {some(silent)}" if silent else ""
    if homeless:
        return Found(Status.FAIL, f"{value}; without a zone: {some(homeless)}", tuple(homeless[:SHOWN]))
    survives = bool(counts) and 2 * (len(voting) - max(counts.values())) > number
    gap = None if sheet.state is not None or sheet.is_definition else f"who votes: {sheet.why('state')}"
    return Found(Status.OK if survives else Status.FAIL, value, tuple(silent[:SHOWN]), gap=gap)


def _voting(sheet: Sheet) -> tuple[list[Node], int]:
    """The managers that vote and are here, and how many votes there are. Of a definition every manager votes."""
    if sheet.state is None:
        return list(sheet.managers), len(sheet.managers)
    return [node for node in sheet.managers if node.id in sheet.state.voters], len(sheet.state.voters)


MANAGER_SIZES = ((10, 10_000, 8), (30, 30_000, 16), (75, 40_000, 32), (125, 75_000, 64), (200, 75_000, 128))
"""Up to so many nodes and shard copies a dedicated manager needs so many GiB of memory."""
HEAP_SHARE, LARGEST_HEAP = 0.5, 32 * GIB
"""A managed node's heap is half of its memory, up to 32 GiB (:data:`PRACTICES`)."""
TOLERANCE = 0.9
"""Systems and collectors keep a part to themselves: a machine of 8 GiB says 7.6."""


@rule(
    "managers.size",
    "Managers large enough for nodes and shards",
    says="Memory by nodes (and shard copies): 1 to 10 (10,000) 8 GiB, 11 to 30 (30,000) 16, 31 to 75 (40,000) 32, "
    "76 to 125 (75,000) 64, 126 to 200 (75,000) 128; half of it is heap, up to 32 GiB. A tenth less is let pass.",
    source=MANAGERS,
    remedy="Larger machines and heaps for the dedicated managers, or fewer shards.",
    needs=("nodes",),
)
def manager_size(sheet: Sheet, workload: Workload) -> Found:
    count = sum(not node.is_dedicated for node in sheet.nodes or ())
    shards = None if sheet.copies is None else len(sheet.copies)
    held = "?" if shards is None else text.plural(shards, "shard copy", "shard copies")
    of = f"{text.plural(count, 'node')} and {held}"
    need = next((size for n, s, size in MANAGER_SIZES if count <= n and (shards or 0) <= s), None)
    if need is None:
        return Found(Status.FAIL, f"{of}: more than the published table goes to")
    have_heap, no_heap = told(sheet, sheet.managers, "heap")
    have_memory, no_memory = told(sheet, sheet.managers, "memory")
    heap = min(need * GIB * HEAP_SHARE, LARGEST_HEAP)
    small = {node.name for node in have_heap if (node.heap or 0) < heap * TOLERANCE}
    small |= {node.name for node in have_memory if (node.memory or 0) < need * GIB * TOLERANCE}
    least = f"heap {gib(min(node.heap or 0 for node in have_heap))}" if have_heap else "heap ?"
    least += f", memory {gib(min(node.memory or 0 for node in have_memory))}" if have_memory else ""
    value = f"{of}: {need} GiB with {gib(heap)} of heap are wanted, the smallest manager has {least}"
    gap = joined(no_heap, no_memory, f"shard copies: {sheet.why('copies')}" if shards is None else None)
    return Found(Status.FAIL if small else Status.OK, value, gap=gap)


# ---- copies --------------------------------------------------------------------------------------------


@rule(
    "awareness",
    "Allocation knows the zones",
    says="Every node that may be elected has the zone attribute in cluster.routing.allocation.awareness.attributes.",
    source=CREATING,
    remedy="Set cluster.routing.allocation.awareness.attributes for the cluster: without it all copies of a "
    "shard may lie in one zone.",
    needs=("nodes", "settings"),
)
def awareness(sheet: Sheet, workload: Workload) -> Found:
    values = {node.name: sheet.setting(AWARENESS, node) or "" for node in sheet.managers}
    without = [name for name, value in values.items() if sheet.zone_attribute not in listed(value)]
    if not values:
        return Found(Status.UNKNOWN, "", gap="no node may be elected")
    if without:
        return Found(Status.FAIL, f"not on {some(without)}", tuple(without[:SHOWN]))
    return Found(Status.OK, ", ".join(sorted(set(values.values()))))


def _unforced(sheet: Sheet) -> list[str]:
    """Managers that would rebuild a lost zone's copies elsewhere."""
    return [
        node.name
        for node in sheet.managers
        if sheet.zone_attribute not in listed(sheet.setting(AWARENESS, node) or "")
        or len(forced := listed(sheet.setting(sheet.forced, node) or "")) < 2
        or not sheet.zones
        or not forced >= set(sheet.zones)
    ]


@rule(
    "awareness.forced",
    "The copies of a lost zone wait for it",
    says="Awareness is forced: cluster.routing.allocation.awareness.force.zone.values names every zone.",
    source=CREATING,
    remedy="Set the forced values to all zones: without them the survivors rebuild the lost zone's copies, under load.",
    needs=("nodes", "settings"),
)
def forced_awareness(sheet: Sheet, workload: Workload) -> Found:
    if not sheet.managers:
        return Found(Status.UNKNOWN, "", gap="no node may be elected")
    without = _unforced(sheet)
    said = sorted({sheet.setting(sheet.forced, node) or "not set" for node in sheet.managers})
    value = "; ".join(said)
    if without:
        return Found(Status.FAIL, f"{value}; zones {', '.join(sheet.zones) or 'none'}")
    return Found(Status.OK, value)


def _without_index(sheet: Sheet) -> Found | None:
    return None if sheet.indices else Found(Status.UNKNOWN, "", gap="there is no index")


@rule(
    "replicas",
    "Every index has replicas",
    says="One replica at least for every index.",
    source=AVAILABILITY,
    remedy="Raise index.number_of_replicas, in templates too: without a replica the loss of one node loses data.",
    needs=("indices",),
)
def replicas(sheet: Sheet, workload: Workload) -> Found:
    if nothing := _without_index(sheet):
        return nothing
    bare = sorted(index.name for index in sheet.indices or () if index.replicas < 1)
    total = len(sheet.indices or ())
    if bare:
        value = f"{len(bare)} of {text.plural(total, 'index', 'indices')} without: {some(bare)}"
        return Found(Status.FAIL, value, indices=tuple(bare[:SHOWN]))
    least = min(index.replicas for index in sheet.indices or ())
    return Found(Status.OK, f"{text.plural(total, 'index', 'indices')}, {text.plural(least, 'replica')} or more")


@rule(
    "copies",
    "As many copies in every zone",
    says="Copies of each shard (the primary and its replicas) are a multiple of the zones, three at least.",
    source=STANDBY,
    remedy="Two replicas over three zones; cluster.routing.allocation.awareness.balance refuses other numbers.",
    needs=("nodes", "indices"),
)
def copies(sheet: Sheet, workload: Workload) -> Found:
    if nothing := _without_index(sheet):
        return nothing
    wanted = max(3, len(sheet.zones))
    odd = sorted(index.name for index in sheet.indices or () if (index.replicas + 1) % wanted)
    total = text.plural(len(sheet.indices or ()), "index", "indices")
    if odd:
        value = f"{len(odd)} of {total} have no multiple of {wanted}: {some(odd)}"
        return Found(Status.WARN, value, indices=tuple(odd[:SHOWN]))
    # the elected manager refuses them, and any of them may be elected
    strict = sheet.settings is not None and {sheet.setting(BALANCE, node) for node in sheet.managers} == {"true"}
    value = f"{total}, copies a multiple of {wanted}"
    return Found(Status.OK, f"{value}; any other number is refused" if strict else value)


@rule(
    "copies.placed",
    "Copies lie in different zones",
    says="Started copies of every shard lie in every zone, three at least. All of a shard's in one zone fails.",
    source=AVAILABILITY,
    remedy="Awareness and enough replicas; then see _cluster/allocation/explain for what keeps copies where they are.",
    needs=("nodes", "copies"),
)
def placed_copies(sheet: Sheet, workload: Workload) -> Found:
    if not sheet.copies:
        return Found(Status.UNKNOWN, "", gap="there is no shard")
    zone_of = {node.name: node.zone for node in sheet.nodes or ()}
    spread: dict[tuple[str, int], set[str]] = defaultdict(set)
    for copy in sheet.copies:
        zone = zone_of.get(copy.node) if copy.started and copy.node is not None else None
        spread[copy.index, copy.shard] |= {zone} if zone is not None else set()
    alone = sorted({index for (index, _), where in spread.items() if len(where) < 2})
    short = sorted({index for (index, _), where in spread.items() if len(where) < max(3, len(sheet.zones))})
    total = text.plural(len(spread), "shard")
    if alone:
        value = f"{total}; in one zone or none: shards of {some(alone)}"
        return Found(Status.FAIL, value, indices=tuple(alone[:SHOWN]))
    if short:
        return Found(
            Status.WARN,
            f"{total}; not in every zone, or fewer than three: shards of {some(short)}",
            indices=tuple(short[:SHOWN]),
        )
    return Found(Status.OK, f"{total}, each in {text.plural(len(sheet.zones), 'zone')}")


@rule(
    "copies.started",
    "Every copy has started",
    says="The cluster is green. A replica that is not there is a warning, a primary that is not there fails.",
    source=ALARMS,
    remedy="See _cluster/allocation/explain; a cluster that already lacks copies has no room for a zone's loss.",
    needs=("copies",),
)
def started_copies(sheet: Sheet, workload: Workload) -> Found:
    if not sheet.copies:
        return Found(Status.UNKNOWN, "", gap="there is no shard")
    out = [copy for copy in sheet.copies if not copy.started]
    names = sorted({copy.index for copy in out})
    value = f"{len(sheet.copies) - len(out)} of {text.plural(len(sheet.copies), 'copy', 'copies')} started"
    if not out:
        return Found(Status.OK, value)
    status = Status.FAIL if any(copy.primary for copy in out) else Status.WARN
    return Found(status, f"{value}; not all of {some(names)}", indices=tuple(names[:SHOWN]))


# ---- shards --------------------------------------------------------------------------------------------

PER_HEAP, PER_NODE, NEAR = 25, 1000, 0.9


def _on_nodes(sheet: Sheet) -> Counter[str]:
    return Counter(copy.node for copy in sheet.copies or () if copy.node is not None)


@rule(
    "shards.heap",
    "Shards for the heap",
    says="At most 25 shard copies on a data node for each GiB of its heap.",
    source=RATIO,
    remedy="Fewer and larger shards (roll over by size, shrink, delete), or more heap.",
    needs=("nodes", "copies"),
)
def shards_for_heap(sheet: Sheet, workload: Workload) -> Found:
    nodes, gap = told(sheet, sheet.data, "heap")
    counts = _on_nodes(sheet)
    most = max(nodes, key=lambda node: counts[node.name] / (node.heap or 1), default=None)
    if most is None or most.heap is None:
        return Found(Status.UNKNOWN, "", gap=gap)
    share = counts[most.name] / (most.heap / GIB)
    value = f"{share:.3g} a GiB on {most.name}: {text.plural(counts[most.name], 'copy', 'copies')}, {gib(most.heap)}"
    return Found(grade(share, PER_HEAP, PER_HEAP), value, (most.name,), gap=gap)


@rule(
    "shards.node",
    "Shards on a node",
    says="At most 1,000 shard copies on a data node, or cluster.max_shards_per_node where that is less; from 90 % on a "
    "warning.",
    source=SHARDS,
    remedy="Fewer shards or more data nodes: at the limit OpenSearch refuses new indices.",
    needs=("nodes", "copies", "settings"),
)
def shards_on_node(sheet: Sheet, workload: Workload) -> Found:
    counts = _on_nodes(sheet)
    if not sheet.data:
        return Found(Status.UNKNOWN, "", gap="there is no data node")
    limits = {node.name: sheet.setting("cluster.max_shards_per_node", node) for node in sheet.data}
    most = max(sheet.data, key=lambda node: counts[node.name])
    said = [int(value) for value in limits.values() if value is not None and value.isdigit()]
    limit = min([PER_NODE, *said])
    value = f"{counts[most.name]} on {most.name}, the limit is {limit}"
    gap = None if len(said) == len(limits) else "cluster.max_shards_per_node is not known"
    return Found(grade(counts[most.name], limit * NEAR, limit), value, (most.name,), gap=gap)


SIZES = {Workload.SEARCH: (10, 30), Workload.LOGS: (30, 50)}
"""GiB of a shard, at least and at most."""


@rule(
    "shards.size",
    "Size of shards",
    says="For search 10 to 30 GiB. For logs 45 to 50 GiB is aimed at and 30 to 50 accepted. Larger fails: it recovers "
    "slowly. An index of several shards that are smaller on average is a warning: fewer would do.",
    source=SHARDS,
    remedy="Choose the number of primaries for the size that the index grows to; roll log indices over by size.",
    needs=("copies",),
)
def shard_size(sheet: Sheet, workload: Workload) -> Found:
    sizes: dict[str, list[int]] = defaultdict(list)
    unsaid = set()
    for copy in sheet.copies or ():
        if copy.primary and copy.size is not None:
            sizes[copy.index].append(copy.size)
        elif copy.primary:
            unsaid.add(copy.index)
    missing = tuple(sorted(unsaid)[:SHOWN])
    gap = f"size of primaries of {some(sorted(unsaid))}: not said" if unsaid else None
    if not sizes:
        return Found(Status.UNKNOWN, "", indices=missing, gap=gap or "there is no shard")
    low, high = (limit * GIB for limit in SIZES[workload])
    large = sorted(name for name, each in sizes.items() if max(each) > high)
    small = sorted(name for name, each in sizes.items() if len(each) > 1 and sum(each) / len(each) < low)
    biggest = gib(max(max(each) for each in sizes.values()))
    if large:
        return Found(
            Status.FAIL, f"up to {biggest}; too large: {some(large)}", indices=(*large[:SHOWN], *missing), gap=gap
        )
    if small:
        value = f"up to {biggest}; small for {workload.value}: {some(small)}"
        return Found(Status.WARN, value, indices=(*small[:SHOWN], *missing), gap=gap)
    return Found(Status.OK, f"up to {biggest}", indices=missing, gap=gap)


# ---- headroom ------------------------------------------------------------------------------------------


@rule(
    "cpu",
    "Processors for the loss of a zone",
    says="The work of all data nodes on the nodes that survive any one zone: up to 80 % ok, up to 90 % a warning. "
    "With n equal zones (n - 1) / n of that is the most now: 53 and 60 % with three.",
    source=AVAILABILITY,
    remedy="More or larger data nodes, or less work, until the load of a zone finds room in the others.",
    needs=("nodes",),
)
def cpu(sheet: Sheet, workload: Workload) -> Found:
    nodes, gap = told(sheet, sheet.data, "cpu")
    if not nodes:
        return Found(Status.UNKNOWN, "", gap=gap)
    counted = all(node.processors for node in sheet.data)
    weight = {node.name: (node.processors or 1) if counted else 1 for node in sheet.data}
    work = sum((node.cpu or 0) * weight[node.name] for node in nodes)
    hottest = max(nodes, key=lambda node: node.cpu or 0)
    value = f"{work / sum(weight[node.name] for node in nodes):.0f} % now, {hottest.cpu:.0f} % on {hottest.name}"
    if len(sheet.zones) < 2:
        return Found(Status.FAIL, f"{value}; nothing survives the loss of its zone", (hottest.name,))
    # a node without a zone may be lost with any; one that did not tell its work is there, and adds work if anything
    left = {
        zone: sum(weight[node.name] for node in sheet.data if node.zone not in (zone, None)) for zone in sheet.zones
    }
    zone = min(left, key=lambda each: left[each])
    after = work / left[zone]
    # a node that is hotter than the rest stays so: no zone's loss makes it cooler
    status = grade(max(after, hottest.cpu or 0), CPU_OK, CPU_MOST)
    share = f"{'at least ' if gap else ''}{after:.0f} %"
    return Found(status, f"{value}; {share} on the others without zone {zone}", (hottest.name,), gap=gap)


@rule(
    "heap",
    "Heap in use",
    says="Of the old generation (of the heap, where a node does not tell it): up to 80 % ok, to 95 % a warning.",
    source=ALARMS,
    remedy="More heap or nodes, fewer shards, smaller requests; a node near its limit collects instead of answering.",
    needs=("nodes",),
)
def heap(sheet: Sheet, workload: Workload) -> Found:
    nodes, gap = told(sheet, sheet.nodes or (), "heap_used")
    most = max(nodes, key=lambda node: node.heap_used or 0, default=None)
    if most is None:
        return Found(Status.UNKNOWN, "", gap=gap)
    return Found(grade(most.heap_used or 0, 80, 95), f"{most.heap_used:.0f} % on {most.name}", (most.name,), gap=gap)


@rule(
    "heap.size",
    "Heap and memory",
    says="A heap takes at most half of its machine's memory (a tenth more is let pass), and is at most 32 GiB.",
    source=PRACTICES,
    remedy="Set -Xms and -Xmx to half of the memory, below 32 GiB: the rest serves files, and pointers stay short.",
    needs=("nodes",),
)
def heap_size(sheet: Sheet, workload: Workload) -> Found:
    with_heap, no_heap = told(sheet, sheet.nodes or (), "heap")
    if not with_heap:
        return Found(Status.UNKNOWN, "", gap=no_heap)
    nodes, no_memory = told(sheet, with_heap, "memory")
    large = [node.name for node in with_heap if (node.heap or 0) > LARGEST_HEAP]
    large += [node.name for node in nodes if (node.heap or 0) > (node.memory or 0) * HEAP_SHARE / TOLERANCE]
    names = list(dict.fromkeys(large))
    value = f"{gib(min(n.heap or 0 for n in with_heap))} to {gib(max(n.heap or 0 for n in with_heap))}"
    if names:
        value += f"; too large on {some(names)}"
    return Found(Status.WARN if names else Status.OK, value, tuple(names[:SHOWN]), gap=joined(no_heap, no_memory))


FREE_OK, FREE_LEAST = 25.0, 15.0


@rule(
    "storage",
    "Free storage",
    says="Of each data node's storage 25 % or more are free; below 15 % (the stock low watermark) it fails.",
    source=ALARMS,
    remedy="More storage or less data: at the watermarks OpenSearch places no copies, moves some, then refuses writes.",
    needs=("nodes",),
)
def storage(sheet: Sheet, workload: Workload) -> Found:
    nodes, gap = told(sheet, sheet.data, "disk", "disk_free")
    if not nodes:
        return Found(Status.UNKNOWN, "", gap=gap)
    free = {node.name: 100 * (node.disk_free or 0) / (node.disk or 1) for node in nodes}
    least = min(free, key=lambda name: free[name])
    status = grade(-free[least], -FREE_OK, -FREE_LEAST)
    return Found(status, f"{free[least]:.0f} % free on {least}", (least,), gap=gap)


FULLEST = 85.0


@rule(
    "storage.zone",
    "Storage for the loss of a zone",
    says="With forced awareness nothing is rebuilt. Without, what all data nodes hold must fit on those that survive "
    "any one zone, up to 85 % of them (the stock low watermark).",
    source=AVAILABILITY,
    remedy="Force awareness, or keep a zone's worth of storage free.",
    needs=("nodes", "settings"),
)
def storage_of_zone(sheet: Sheet, workload: Workload) -> Found:
    if sheet.managers and len(sheet.zones) > 1 and not _unforced(sheet):
        return Found(Status.OK, "awareness is forced: the copies of a lost zone wait for it")
    nodes, gap = told(sheet, sheet.data, "disk", "disk_free")
    if not nodes:
        return Found(Status.UNKNOWN, "", gap=gap)
    if len(sheet.zones) < 2:
        return Found(Status.FAIL, "nothing survives the loss of its zone")
    if any(node.disk is None for node in sheet.data):  # they may have room, so nothing is proven
        return Found(Status.UNKNOWN, "", gap=gap)
    held = sum((node.disk or 0) - (node.disk_free or 0) for node in nodes)
    left = {zone: sum(node.disk or 0 for node in sheet.data if node.zone not in (zone, None)) for zone in sheet.zones}
    zone = min(left, key=lambda each: left[each])
    share = 100 * held / left[zone]
    value = f"{'at least ' if gap else ''}{share:.0f} % on the others without zone {zone}"
    return Found(grade(share, FULLEST, FULLEST), value, gap=gap)


# ---- protections ---------------------------------------------------------------------------------------


def _said(sheet: Sheet, nodes: Sequence[Node], name: str) -> tuple[set[str], str | None]:
    """The values that hold of a setting, and what is missing."""
    values = [sheet.setting(name, node) for node in nodes]
    gap = "there is no such node" if not values else f"{name}: this cluster does not say it" if None in values else None
    return {value for value in values if value is not None}, gap


def _protection(sheet: Sheet, wanted: dict[str, str]) -> Found:
    """All of these settings must hold on every data node."""
    gaps, parts, good = [], [], True
    for name, value in wanted.items():
        values, gap = _said(sheet, sheet.data, name)
        gaps.append(gap)
        parts += [f"{name}: {', '.join(sorted(values))}"] if values else []
        good &= values == {value}
    return Found(Status.OK if good else Status.WARN, "; ".join(parts), gap=joined(*gaps))


@rule(
    "protection.search",
    "Search backpressure",
    says="search_backpressure.mode is enforced; stock it is monitor_only and cancels nothing.",
    source=PROTECTION,
    remedy="Set search_backpressure.mode to enforced, after a time of watching what it would have cancelled. What it "
    "did in runs of ours: docs/protections.md.",
    needs=("nodes", "settings"),
)
def search_backpressure(sheet: Sheet, workload: Workload) -> Found:
    return _protection(sheet, {"search_backpressure.mode": "enforced"})


@rule(
    "protection.admission",
    "Admission control",
    says="admission_control.transport.mode is enforced; stock it is disabled.",
    source=ADMISSION,
    remedy="Set admission_control.transport.mode to monitor_only, look at what it counts, then to enforced. What it "
    "did in runs of ours, and that a node which just came back does without it: docs/protections.md.",
    needs=("nodes", "settings"),
)
def admission_control(sheet: Sheet, workload: Workload) -> Found:
    return _protection(sheet, {"admission_control.transport.mode": "enforced"})


@rule(
    "protection.indexing",
    "Shard indexing pressure",
    says="shard_indexing_pressure.enabled and .enforced are true; stock both are false.",
    source=PROTECTION,
    remedy="Enable shard_indexing_pressure, look at what it would have refused, then enforce it: writes to copies "
    "that do not answer pile up in memory otherwise. Send bulks of one shard, or with ids: one that is refused may "
    "have written a part of its documents (OpenSearch #20724). What it did in runs of ours: docs/protections.md.",
    needs=("nodes", "settings"),
)
def indexing_pressure(sheet: Sheet, workload: Workload) -> Found:
    return _protection(sheet, {"shard_indexing_pressure.enabled": "true", "shard_indexing_pressure.enforced": "true"})


THROTTLED = re.compile(r"cluster_manager\.throttling\.thresholds\.(.+)\.value")
ON_SINCE = 3
"""The major version since which tasks of the cluster manager are throttled without a setting."""


@rule(
    "protection.tasks",
    "Throttling of tasks of the cluster manager",
    says="No threshold of a kind of task is -1, which is off, by the cluster's settings or in opensearch.yml; before "
    "3.0 all are off, so one is set at least.",
    source=TASKS,
    remedy="Set cluster_manager.throttling.thresholds.KIND.value for kinds that users or programs may send many of: "
    "put-mapping, create-index, update-settings, put-pipeline. From 3.0 on null is the default, which is on.",
    needs=("settings", "version"),
)
def task_throttling(sheet: Sheet, workload: Workload) -> Found:
    assert sheet.version is not None
    pairs = {pair for each in sheet.given(THROTTLED) for pair in each.items()}
    given = sorted((found[1], value) for name, value in pairs if (found := THROTTLED.fullmatch(name)))
    off = sorted({kind for kind, value in given if value.strip() == "-1"})
    limits = ", ".join(f"{kind} {value}" for kind, value in given if kind not in off)
    stock = sheet.version.partition(".")[0]
    by_default = stock.isdigit() and int(stock) >= ON_SINCE
    if off:
        value = f"off: {some(off)}" + (f"; set: {limits}" if limits else "")
        return Found(Status.WARN, value, gap=sheet.untold, others=tuple(off[:SHOWN]))
    if not limits and not by_default:
        value = f"none is set, and {sheet.version} throttles nothing by itself"
        return Found(Status.WARN, value, gap=sheet.untold)
    value = f"set: {limits}" if limits else "as OpenSearch has them: 50 queued tasks of most kinds"
    return Found(Status.OK, value, gap=sheet.untold)


@rule(
    "protection.cancellation",
    "Searches end after a time",
    says="search.cancel_after_time_interval is set; stock a search runs as long as it takes.",
    source=SEARCHING,
    remedy="Set search.cancel_after_time_interval to what the slowest search that is wanted takes. Aggregations that "
    "are under way may run on (OpenSearch #19434).",
    needs=("nodes", "settings"),
)
def cancellation(sheet: Sheet, workload: Workload) -> Found:
    values, gap = _said(sheet, sheet.data, CANCEL_AFTER)
    unset = any(seconds(value) is None for value in values)
    value = "; ".join(f"{CANCEL_AFTER}: {value}" for value in sorted(values))
    return Found(Status.WARN if unset else Status.OK, value, gap=gap)


# ---- detection -----------------------------------------------------------------------------------------

DETECTED_OK, DETECTED_MOST = 30.0, 60.0
"""Seconds until writes go on. The service promises a failover in less than a minute (:data:`STANDBY`)."""


def checked(count: float, timeout: float, interval: float) -> float:
    """Seconds until checks that are never answered give a node up: ``count`` time-outs with pauses between them.

    :data:`DISCOVERY` says what each setting does. Stock: 3 x 10 + 2 x 1 = 32 s.
    """
    return count * timeout + (count - 1) * interval


def regained(follower: float, leader: float, publish: float) -> tuple[float, float]:
    """Seconds until writes go on after a zone is black-holed: with the elected manager elsewhere, and with it inside.

    Elsewhere: the followers' checks find its nodes one after the other, and the publication that takes the first out
    waits ``publish`` for another that does not answer either. Stock 32 + 30 = 62 s (measured 62 to 66 s in labs), with
    1 s, 1 s and 3 s 5 + 3 = 8 s (measured 7 to 9 s). Inside: the others give up the leader, elect one in about a
    second, and that one has to find the nodes. Stock 32 + 32 = 64 s, which is a sum and not yet measured.
    """
    return follower + publish, leader + follower


def _most(sheet: Sheet, name: str) -> tuple[float | None, str | None]:
    """The largest value of a setting of managers, a time in seconds or a number, and what is missing."""
    values, gap = _said(sheet, sheet.managers, name)
    read = [
        float(value) if value.isdigit() and not name.endswith(("timeout", "interval")) else seconds(value)
        for value in values
    ]
    numbers = [value for value in read if value is not None]
    if gap is None and len(numbers) < len(read):
        gap = f"{name}: {', '.join(sorted(values))} cannot be read"
    return max(numbers, default=None), gap


@rule(
    "detection",
    "Detection of a black-holed zone",
    says="From follower and leader checks (time-outs x retries and the intervals between) and the publish timeout: "
    "writes go on within 30 s; to 60 s a warning. Stock settings say 62 to 64 s.",
    source=DISCOVERY,
    remedy="Shorten cluster.fault_detection.follower_check.timeout, leader_check.timeout and cluster.publish.timeout; "
    "the price is that nodes which only pause are removed too.",
    needs=("nodes", "settings"),
)
def detection(sheet: Sheet, workload: Workload) -> Found:
    read = {}
    gaps = []
    for kind in (FOLLOWER, LEADER):
        for what in ("retry_count", "timeout", "interval"):
            read[kind, what], gap = _most(sheet, f"{kind}.{what}")
            gaps.append(gap)
    publish, gap = _most(sheet, "cluster.publish.timeout")
    found = [value for value in (*read.values(), publish) if value is not None]
    if len(found) < len(read) + 1:
        return Found(Status.UNKNOWN, "", gap=joined(*gaps, gap))
    follower, leader = checked(*found[0:3]), checked(*found[3:6])
    elsewhere, inside = regained(follower, leader, found[6])
    value = f"about {elsewhere:.0f} s with the elected manager elsewhere, {inside:.0f} s with it in the zone"
    return Found(grade(max(elsewhere, inside), DETECTED_OK, DETECTED_MOST), value, gap=joined(*gaps, gap))


@rule(
    "detection.stalled",
    "Detection of a node that stalls",
    says="A node that takes cluster states and does not apply them is removed after cluster.publish.timeout and "
    "cluster.follower_lag.timeout: up to 60 s ok. Stock settings say 120 s.",
    source=DISCOVERY,
    remedy="Shorten cluster.follower_lag.timeout; the price is that a node which is only slow to apply is removed.",
    needs=("nodes", "settings"),
)
def stalled(sheet: Sheet, workload: Workload) -> Found:
    publish, no_publish = _most(sheet, "cluster.publish.timeout")
    lag, no_lag = _most(sheet, "cluster.follower_lag.timeout")
    if publish is None or lag is None:
        return Found(Status.UNKNOWN, "", gap=joined(no_publish, no_lag))
    total = publish + lag
    return Found(Status.OK if total <= 60 else Status.WARN, f"about {total:.0f} s", gap=joined(no_publish, no_lag))


# ---- what is accepted and deadly -----------------------------------------------------------------------

ANY = re.compile(".*")


@rule(
    "settings.deadly",
    "Settings that are accepted and deadly",
    says="No setting of the cluster is one that OpenSearch accepts and cannot live with: it answers until the next "
    "restart, or can never be changed again. In opensearch.yml those count with which a node starts.",
    source=SETTINGS,
    remedy="Set it to null while the cluster takes that. Else stop the cluster managers and run "
    "opensearch-node remove-settings. The cases are in docs/upstream.md.",
    needs=("settings",),
)
def accepted_and_deadly(sheet: Sheet, workload: Workload) -> Found:
    assert sheet.settings is not None
    found = deadly(sheet.settings.explicit)
    # a node that runs has started with what stands in its file
    kinds = {InFile.SAME, InFile.NO_START} if sheet.is_definition else {InFile.SAME}
    for each in sheet.given(ANY, sheet.nodes):
        found += deadly(each, kinds)
    value = "; ".join(dict.fromkeys(found)) or "none is set"
    return Found(Status.FAIL if found else Status.OK, value, gap=sheet.untold)


@rule(
    "settings.hidden",
    "Persistent settings behind transient ones",
    says="No transient setting hides another persistent value, which OpenSearch has not checked and which holds after "
    "the next restart.",
    source=SETTINGS,
    remedy="Set the transient one to null: transient settings are deprecated.",
    needs=("settings",),
)
def hidden(sheet: Sheet, workload: Workload) -> Found:
    assert sheet.settings is not None
    names = sheet.settings.hidden
    return Found(Status.WARN if names else Status.OK, f"hidden: {', '.join(names)}" if names else "none is hidden")
