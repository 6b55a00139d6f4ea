"""Acknowledged writes that the final read-back did not find as they were acknowledged.

value = lost (on no live copy) + diverged (on some live copies only) + wrong content. A copy that could not
be read can hide a loss, so without a complete read-back the value is only known from below: losses seen
stand, no losses seen prove nothing. A shard without a live copy is unavailable, which is not lost, and not
a pass.
"""

from __future__ import annotations

from typing import Any

from chaos.checks import text
from chaos.checks.measure import Bound, Measure
from chaos.checks.record import Record

SHOWN = 100
"""Ids named in the evidence; the counts are always whole."""


def measure(record: Record) -> Measure:
    """Lost acknowledged writes of the whole run."""
    readback = record.readback
    if readback is None:
        return Measure.missing("count", "there is no read-back of the acknowledged writes")
    counts = {
        name: int(readback.get(f"{name}_count") or 0) for name in ("lost", "diverged", "wrong_content", "unavailable")
    }
    acknowledged = int(readback.get("acknowledged") or 0)
    complete = readback.get("complete") is True
    evidence: dict[str, Any] = {
        "acknowledged": acknowledged,
        "complete": complete,
        **{f"{name}_count": number for name, number in counts.items()},
        **{name: list(readback.get(name) or [])[:SHOWN] for name in ("lost", "diverged", "wrong_content")},
        "unavailable_shards": readback.get("unavailable_shards") or [],
        "unacknowledged_present": readback.get("unacknowledged_present"),
    }
    lost = counts["lost"] + counts["diverged"] + counts["wrong_content"]
    said = {name: text.count(number) for name, number in counts.items()}
    if lost:
        found = (
            f"{said['lost']} on no copy, {said['diverged']} missing on some copies, "
            f"{said['wrong_content']} with other content; {text.count(acknowledged)} acknowledged"
        )
    else:
        found = f"all {text.count(acknowledged)} acknowledged writes are on every live copy that was read"
    gaps = []
    if not complete:
        gaps.append(f"the read-back is not complete ({readback.get('reason') or 'no reason given'})")
    if counts["unavailable"]:
        gaps.append(f"{text.plural(counts['unavailable'], 'write')} on shards without a live copy")
    if acknowledged == 0:
        gaps.append("no write was acknowledged, so none could be lost")
    if not gaps:
        return Measure(float(lost), "count", found, evidence=evidence)
    says = f"{found}; {'; '.join(gaps)}"
    if lost == 0:
        return Measure.missing("count", says, **evidence)
    return Measure(float(lost), "count", says, Bound.AT_LEAST, evidence)
