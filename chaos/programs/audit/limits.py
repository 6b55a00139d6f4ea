"""What monitoring may cost: limits of tables that are unset, and what the elected manager needs for the calls."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.base import text
from chaos.opensearch.checklist import Source, Status, grade
from chaos.programs.audit.catalogue import Found, Workload, joined, rule, told
from chaos.programs.audit.facts import CAT_LIMITS, Sheet

_CODE = "https://github.com/opensearch-project/OpenSearch/blob/main/server/src/main/java/org/opensearch"
RESPONSES = Source("OpenSearch source: ResponseLimitSettings", f"{_CODE}/common/breaker/ResponseLimitSettings.java")
FORWARDING = Source(
    "OpenSearch source: TransportClusterManagerNodeAction",
    f"{_CODE}/action/support/clustermanager/TransportClusterManagerNodeAction.java",
)
COUNTING = Source("OpenSearch source: UsageService", f"{_CODE}/usage/UsageService.java")
TABLE_ENTRIES = 10_000
"""Routing entries of which a whole table was measured (docs/cluster-managers.md); one of more is beyond that."""


def entries(sheet: Sheet) -> int:
    """Copies of shards that there are to be, with a node or without."""
    return sum(index.shards * (1 + index.replicas) for index in sheet.indices or ())


def _held(count: int) -> str:
    return text.plural(count, "shard copy", "shard copies")


@rule(
    "limits.tables",
    "Tables of monitoring have a limit, where they would be long",
    says=f"cat.shards, cat.indices and cat.segments have a response limit each, or there are at most {TABLE_ENTRIES:,} "
    "shard copies. Stock there is none: one _cat/shards of as many took the node that was asked a tenth of a second of "
    "a processor.",
    source=RESPONSES,
    remedy="Set cat.shards.response.limit.number_of_shards and its like, and let monitoring read _list/shards page by "
    "page. A call over the limit is refused, and asks the data nodes all the same (docs/upstream.md).",
    needs=("nodes", "settings", "indices"),
)
def tables(sheet: Sheet, workload: Workload) -> Found:
    count = entries(sheet)
    gaps, unset = [], []
    for name in CAT_LIMITS:
        values = {sheet.setting(name, node) for node in sheet.nodes or ()}
        if None in values or not values:
            gaps.append(f"{name}: this cluster does not say it")
        elif any(value is not None and int(value) < 0 for value in values):
            unset.append(name)
    said = f"; without a limit: {', '.join(unset)}" if unset else "" if gaps else "; each has a limit"
    long = bool(unset) and count > TABLE_ENTRIES
    return Found(Status.WARN if long else Status.OK, f"{_held(count)}{said}", gap=joined(*gaps))


CALLS_PER_SECOND = 10
"""3,000 calls in five minutes, the least of the published table."""
MEASURED_MS, MEASURED_MS_PER_1000 = 0.23, 0.10
"""Processor time of the elected manager for one call of the published mix (state, _cat/indices, _cat/shards,
_cat/allocation), and for each 1,000 routing entries: the lines of docs/cluster-managers.md, of one lab."""
PUBLISHED_MS_PER_1000, UNCHECKED_MS_PER_1000 = 0.8, 2.24
"""The published table: 20 ms with the check of the term and 56 without, at 25,000 shards."""
CHECKED_SINCE = (2, 13)
MOST_OK, MOST = 25.0, 50.0
"""Percent of a manager's processors; what it publishes and elects by takes the rest."""


@rule(
    "managers.calls",
    "Managers can answer monitoring",
    says=f"At {CALLS_PER_SECOND} calls a second for state and tables, the smallest manager needs at most {MOST_OK:.0f} "
    f"% of its processors, by the published cost of a call ({PUBLISHED_MS_PER_1000} ms for 1,000 shard copies, "
    f"before 2.13 {UNCHECKED_MS_PER_1000}); to {MOST:.0f} % a warning. One lab measured an eighth of that.",
    source=FORWARDING,
    remedy="Ask less often, with filters, _list pages and _cluster/health without levels; give managers more "
    "processors, or the cluster fewer shards.",
    needs=("nodes", "indices"),
)
def manager_calls(sheet: Sheet, workload: Workload) -> Found:
    version = _version(sheet.version)
    have, gap = told(sheet, sheet.managers, "processors")
    if not have or version is None:
        return Found(Status.UNKNOWN, "", gap=joined(gap, None if version else "its version is not known"))
    thousands = entries(sheet) / 1000
    per_1000 = PUBLISHED_MS_PER_1000 if version >= CHECKED_SINCE else UNCHECKED_MS_PER_1000
    smallest = min(node.processors or 1 for node in have)
    most = _share(per_1000 * thousands, smallest)
    least = _share(MEASURED_MS + MEASURED_MS_PER_1000 * thousands, smallest)
    value = f"{_held(entries(sheet))}: {most:.2g} % of {text.plural(smallest, 'processor')} by the published cost of a "
    value += f"call, {least:.2g} % by what a lab measured"
    return Found(grade(most, MOST_OK, MOST), value, gap=gap)


def _share(ms: float, processors: int) -> float:
    """Percent of processors that calls at that rate take, each so long."""
    return 100 * CALLS_PER_SECOND * ms / 1000 / processors


COSTS: Mapping[str, tuple[float, float]] = {
    # kind of request, as nodes count it: ms of the elected manager for one, and for each 1,000 shard copies
    "cluster_state_action": (0.19, 0.03),
    "get_mapping_action": (0.12, 0.01),
    "get_settings_action": (0.18, 0.03),
    "cluster_health_action": (0.11, 0.09),
    "pending_cluster_tasks_action": (0.14, 0.0),
    "cat_indices_action": (0.51, 0.20),
    "list_indices_action": (0.03, 0.55),
    "cat_shards_action": (0.04, 0.16),
    "list_shards_action": (0.26, 0.02),
    "cat_allocation_action": (0.17, 0.01),
    "cluster_stats_action": (1.80, 0.07),
    "nodes_stats_action": (2.39, 0.0),
    "indices_stats_action": (0.05, 0.0),
}
"""Measured on one lab: the lines of docs/cluster-managers.md, a slope below 0 as 0. Of health that without levels."""
OF_MANAGERS = ("cat_", "cluster_", "list_", "nodes_")
"""How kinds of requests begin that ask the manager or all nodes, where none was measured."""
SHOWN_CALLS, LEAST_RATE = 3, 0.1


@rule(
    "managers.asked",
    "What monitoring asks leaves managers their time",
    says="By what nodes have counted since they started, requests for state, statistics and tables take at most "
    f"{MOST_OK:.0f} % of the smallest manager's processors; to {MOST:.0f} % a warning. A request counts as it was "
    "measured on one lab; what is published comes to eight times as much for a mix of them. The dearest are named.",
    source=COUNTING,
    remedy="Ask less often, above all what is named first: with filters, _list pages, and _cluster/health without "
    "levels.",
    needs=("nodes", "indices", "usage"),
)
def asked_of_managers(sheet: Sheet, workload: Workload) -> Found:
    assert sheet.usage is not None
    have, gap = told(sheet, sheet.managers, "processors")
    if sheet.usage.young:
        young = text.plural(sheet.usage.young, "node")
        gap = joined(gap, f"{young} started a moment ago, and its counts with it")
    if not have or not sheet.usage.since:
        return Found(Status.UNKNOWN, "", gap=gap)
    smallest, thousands = min(node.processors or 1 for node in have), entries(sheet) / 1000
    shares = {
        action: 100 * rate * (COSTS[action][0] + COSTS[action][1] * thousands) / 1000 / smallest
        for action, rate in sheet.usage.rates.items()
        if action in COSTS
    }
    dearest = sorted((each for each in shares if shares[each]), key=shares.__getitem__, reverse=True)[:SHOWN_CALLS]
    value = f"{sum(shares.values()):.2g} % of {text.plural(smallest, 'processor')}, counted over "
    value += f"{sheet.usage.since / 3600:.2g} h"
    value += "".join(f"; {_call(each)} {sheet.usage.rates[each]:.2g}/s {shares[each]:.2g} %" for each in dearest)
    others = [
        action
        for action, rate in sheet.usage.rates.items()
        if action.startswith(OF_MANAGERS) and action not in COSTS and rate >= LEAST_RATE
    ]
    if others:
        often = sorted(others, key=sheet.usage.rates.__getitem__, reverse=True)[:SHOWN_CALLS]
        value += "; not measured: " + ", ".join(f"{_call(each)} {sheet.usage.rates[each]:.2g}/s" for each in often)
    return Found(grade(sum(shares.values()), MOST_OK, MOST), value, gap=gap)


def _call(action: str) -> str:
    return action.removesuffix("_action")


def _version(given: str | None) -> tuple[int, int] | None:
    parts = (given or "").split(".")
    return (int(parts[0]), int(parts[1])) if len(parts) > 1 and parts[0].isdigit() and parts[1].isdigit() else None
