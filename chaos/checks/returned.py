"""How shard copies came back: by their own disk, by operations alone, with files reused, or by a full copy.

From the recoveries that OpenSearch itself reports (``_recovery``), recorded whenever the cluster was green again; the
size of the copy stands beside, because a recovery time without it says nothing about a production cluster. What to
read from which figures:

============  ==================================================================================
none          nothing was sent: the copy was whole on its own disk
operations    no file was needed, only the operations that it had missed
files reused  some files were copied, others on its disk were still good
full copy     every byte was copied
============  ==================================================================================

``_recovery`` keeps the latest recovery of a copy only: one that came back twice before the cluster was green shows
once. What segment replication and remote stores transfer after it is not in these figures. That no copy was *moved*
is another check (checks/movement.py).
"""

from __future__ import annotations

from typing import Any

from chaos.checks.record import Record
from chaos.history.events import Recovery

KINDS = ("none", "operations", "files reused", "full copy")


def kind(of: str, bytes_total: int, bytes_reused: int, bytes_copied: int, operations: int) -> str:
    """Pure: one of :data:`KINDS`. ``of``: OpenSearch's type, where EXISTING_STORE is the copy's own disk."""
    if of in ("EXISTING_STORE", "LOCAL_SHARDS"):
        return "operations" if operations else "none"
    if bytes_copied > 0:
        return "files reused" if bytes_reused > 0 else "full copy"
    if bytes_total > bytes_reused:  # neither copied nor there: not over, or not told
        return "full copy"
    return "operations" if operations else "none"


def table(record: Record) -> list[dict[str, Any]]:
    """Every recovery that was recorded, by shard, node and time; sizes in bytes."""
    rows = []
    for event in record.seen(Recovery):
        total, reused, copied = (int(size or 0) for size in (event.bytes_total, event.bytes_reused, event.bytes_copied))
        operations = int(event.operations or 0)
        node = str(event.node)
        rows.append(
            {
                "index": str(event.index),
                "shard": int(event.shard or 0),
                "node": node,
                "zone": record.zone_of.get(node),
                "kind": kind(str(event.type), total, reused, copied, operations),
                "type": str(event.type),
                "source": event.source,
                "bytes_total": total,
                "bytes_reused": reused,
                "bytes_copied": copied,
                "operations": operations,
                "seconds": float(event.seconds or 0.0),
                "shard_bytes": event.shard_bytes,
                "at": record.since_start(event.t),
            }
        )
    rows.sort(key=lambda row: (str(row["index"]), row["shard"], str(row["node"]), row["at"]))
    return rows
