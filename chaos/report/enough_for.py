"""What an expectation needs so that it can be decided, where arithmetic says that another run like this one cannot.

Too few arrivals stay too few, and a time that the phase did not last for is not seen in the next run either: such a run
is not to be made again, its file is to be changed, and by how much is known.
"""

from __future__ import annotations

import math
import re

from chaos.base import text
from chaos.checks.good import needed as needed_for_share
from chaos.checks.latency import QUANTILES
from chaos.checks.latency import needed as needed_for_quantile
from chaos.checks.models import FindingItem, FindingsFile, ReasonItem
from chaos.checks.regained import STABLE
from chaos.checks.words import wanted


def enough_for(findings: FindingsFile, decides: ReasonItem) -> str | None:
    """What to change so that the finding that decides can be decided; None where another run may do."""
    item = next((each for each in findings["findings"] if each["id"] == decides["finding"]), None)
    if item is None or item["counts_as"] != "inconclusive" or not item.get("phase"):
        return None
    return _arrivals(findings, item) or _time(findings, item)


def _arrivals(findings: FindingsFile, item: FindingItem) -> str | None:
    """Too few arrivals for a share or a quantile."""
    op, phase = str(item.get("op")), str(item["phase"])
    row = ((findings["tables"].get("good") or {}).get(op) or {}).get(phase) or {}
    scheduled = int(row.get("scheduled") or 0)
    quantity = item["metric"].partition(".")[2]
    if quantity in QUANTILES:
        needed = needed_for_quantile(QUANTILES[quantity])
    elif quantity == "good" and item.get("target_value") is not None:
        needed = needed_for_share(str(item.get("comparison")), float(item["target_value"] or 0.0))
    else:
        return None
    seconds = _lasted(findings, phase)
    if scheduled >= needed or not scheduled or not seconds:
        return None
    longer = math.ceil(needed * seconds / scheduled)
    return (
        f"Give “{text.clip(phase, 40)}” {text.count(needed)} {op}s, it had {text.count(scheduled)}: "
        f"{text.seconds(longer)} at this rate, or {math.ceil(needed / seconds)}/s for as long; run again as it is, it "
        "stays open"
    )


def _time(findings: FindingsFile, item: FindingItem) -> str | None:
    """A time of which the phase ended before it could be shown to be over."""
    limit, seen, phase = item.get("target_value"), item.get("measured"), str(item["phase"])
    if item.get("unit") != "seconds" or item["bound"] == "exact" or limit is None or seen is None or seen > limit:
        return None
    if item.get("because") and item["because"] != item["says"]:
        return None  # something else took its worth
    most = re.sub(" or less$", "", wanted(str(item["target"])))
    least = text.seconds(math.ceil(float(limit) + STABLE))
    where = text.clip(phase, 40)
    return f"Let “{where}” last {least} or longer: it ended before {most} could be shown to be kept or broken"


def _lasted(findings: FindingsFile, phase: str) -> float:
    for each in findings["tables"].get("phases") or ():
        if each["name"] == phase and each["end"] is not None and each["start"] is not None:
            return float(each["end"]) - float(each["start"])
    return 0.0
