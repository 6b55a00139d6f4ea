"""What the users' requests came to, in words: one outcome for every scheduled arrival, none left out.

From the recorded outcome of each arrival, with the answers that were complete split by the objective:

=============  ===================================================================================================
full           answered completely and within the objective: the only one that is good
late           answered completely, but after the objective
partial        status 2xx with something missing: shards failed, it timed out inside, too few hits, a replica failed
rejected       429
server_error   5xx
wrong          status 2xx, whole by its own word, and not what was asked for: another document, hits that do not match
garbled        an answer that cannot be read: no HTTP, cut short, no JSON, or JSON of another shape
refused        the connection was refused, or the client did not trust the server's certificate
reset          the connection was closed before an answer began, or reset under way
timed_out      no answer within the client's timeout
dropped        the load driver could not send it
unknown        no outcome was recorded
client_error   another 4xx: whose mistake it is depends on what came before (:mod:`.refused`)
=============  ===================================================================================================

**Served by fail-open** cuts across these: an answer that the zones without weight gave is full for its user. What the
record can prove of it is in :func:`fail_open`; which single request it was, it cannot say, because OpenSearch does
not name the copies that answered. *Stale* is in the checks of the data.
"""

from __future__ import annotations

import math
from typing import Any

from chaos.checks import availability
from chaos.checks.record import OUTCOMES, Ints, Record, Span
from chaos.history.events import NodesServed

NAMES = (
    "full",
    "late",
    "partial",
    "rejected",
    "server_error",
    "wrong",
    "garbled",
    "refused",
    "reset",
    "timed_out",
    "dropped",
    "unknown",
    "client_error",
)
_RENAMED = {"timeout": "timed_out"}


def _words(counts: Ints) -> dict[str, int]:
    """From counts by outcome and goodness to those of :data:`NAMES` that occur, in their order."""
    found = {"full": int(counts[:, 1].sum())}
    for name, code in OUTCOMES.items():
        found["late" if name == "ok" else _RENAMED.get(name, name)] = int(counts[code, 0])
    return {name: found[name] for name in NAMES if found[name]}


def by_phase(record: Record, counts: Ints) -> dict[str, dict[str, int]]:
    """phase → outcome → count; every scheduled arrival of the phase is in exactly one.

    ``counts``: the operation's :func:`chaos.checks.availability.tally`.
    """
    phases = counts.sum(axis=0)
    return {span.name: _words(phases[span.index]) for span in record.spans}


def by_zone(record: Record, counts: Ints) -> dict[str, dict[str, dict[str, int]]]:
    """zone that coordinated it → phase → outcome → count; what has no arrival is left out."""
    table: dict[str, dict[str, dict[str, int]]] = {}
    for zone, rows in zip(availability.zones(record), counts, strict=True):
        for span in record.spans:
            if words := _words(rows[span.index]):
                table.setdefault(zone, {})[span.name] = words
    return table


# -- fail-open -----------------------------------------------------------------------------------


def fail_open(record: Record, span: Span) -> dict[str, Any] | None:
    """What zones of weight 0 served in one phase; None where no zone had weight 0 or nothing was sampled.

    Two proofs, both from counters of the nodes themselves, sampled every few seconds (event ``nodes.served``):

    * ``shard_queries``: shard-level queries and gets that nodes of a zone of weight 0 executed. They hold copies like
      the others, so this is proof of who served; a node that restarted counts from 0 again.
    * ``counter``: growth of ``weighted_routing.fail_open_count`` on all nodes. Above 0 it proves fail-open; 0 proves
      nothing, because a search that goes straight to a standby copy, all others being unassigned, does not move it
      (OpenSearch issue 7599).

    A search makes one query of each shard, so q shard queries come from at least ceil(q / shards) and at most q
    requests. Only differences between two samples in the phase count: both numbers are lower bounds.
    """
    away = {zone for zone, weight in weights(record, span).items() if weight == 0}
    served = record.seen(NodesServed, span=span)
    if not away or len(served) < 2:
        return None
    queries = counter = 0
    last: dict[str, dict[str, int]] = {}
    for event in served:
        for node, now in (event.nodes or {}).items():
            before = last.get(node)
            if before is not None:
                if record.zone_of.get(node) in away:
                    queries += _grown(before, now, "query") + _grown(before, now, "get")
                counter += _grown(before, now, "fail_open")
            last[node] = now
    shards = number_of_shards(record)
    proven = queries > 0 or counter > 0
    return {
        "zones": sorted(away),
        "shard_queries": queries,
        "counter": counter,
        "requests_at_least": math.ceil(queries / shards),
        "requests_at_most": queries,
        "proven": proven,
        "says": (
            f"nodes of weight 0 executed {queries} shard queries; fail_open_count grew by {counter}"
            if proven
            else "no node of weight 0 was seen to execute a query"
        )
        + "; which requests they belong to cannot be told",
    }


def _grown(before: dict[str, int], now: dict[str, int], name: str) -> int:
    """How much a counter grew; one that began anew (the node restarted) has grown by what it shows."""
    old, new = int(before.get(name) or 0), int(now.get(name) or 0)
    return new - old if new >= old else new


def weights(record: Record, span: Span) -> dict[str, int]:
    """The zones' weights while the phase lasted; a zone that changed its weight in it has none, for nothing holds."""
    planned = (record.plan.get("topology") or {}).get("weights")
    now: dict[str, int] = {str(zone): int(weight) for zone, weight in (planned or {}).items()}
    for phase in record.planned_phases:
        before = dict(now)
        for action in phase.get("do") or ():
            if action.get("kind") == "weights":
                now = {str(zone): int(weight) for zone, weight in (action.get("weights") or {}).items()}
        if phase.get("name") == span.name:
            return {zone: weight for zone, weight in now.items() if before.get(zone) == weight}
    return now


def number_of_shards(record: Record) -> int:
    """Primary shards of the load's index; 1 where the plan does not say."""
    settings = ((record.plan.get("topology") or {}).get("settings") or {}).get("index") or {}
    return max(1, int(settings.get("number_of_shards") or settings.get("index.number_of_shards") or 1))
