"""The read-backs of several indices as one: what checks ask is of all of them together; each stands beside it too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.base import text

Result = Mapping[str, Any]
FIRST = ("cas", "watched")
"""Of the load's first index alone: keys of compare-and-set, and documents of the probes of visibility, are there."""


def merged(results: Mapping[str, Result]) -> dict[str, Any]:
    """``results``: the content of ``readback.json`` for each index by its name, the load's first one first.

    Counts are added, what is named is named one after the other, each copy and each wrong document with its index.
    What one index lacks is lacking: it is complete where all are. ``indices`` has each by its name.
    """
    first, *_ = results.values()
    found: dict[str, Any] = {}
    for name in dict.fromkeys(key for each in results.values() for key in each):
        having = {index: each[name] for index, each in results.items() if name in each}
        if name in FIRST or not having:
            found[name] = first.get(name)
        elif isinstance(first.get(name), bool):
            found[name] = all(having.values())
        elif name == "content":
            found[name] = _content(having)
        elif name == "changes":
            found[name] = {key: sum(each[key] for each in having.values()) for key in next(iter(having.values()))}
        elif name.endswith(("_count", "_present")) or name in ("acknowledged", "documents"):
            found[name] = sum(int(value or 0) for value in having.values())
        elif name == "stale_after_s":  # the same of each index that is of segment replication
            found[name] = max(having.values())
        elif name == "seconds":
            found[name] = round(sum(having.values()), 3)
        elif name == "reason":
            found[name] = _listed(having)
        elif isinstance(first.get(name, []), list):
            found[name] = [_with(index, each) for index, value in having.items() for each in value or ()]
        else:
            found[name] = next(iter(having.values()))
    lacking = [index for index, each in results.items() if "lost_count" not in each]
    if lacking:  # nothing was read of it, so nothing is known of all
        found["complete"] = False
    return {**found, "indices": {index: dict(each) for index, each in results.items()}}


def _with(index: str, item: Any) -> Any:
    return {"index": index, **item} if isinstance(item, Mapping) else item


def _listed(reasons: Mapping[str, str | None]) -> str | None:
    said = [f"{index}: {reason}" for index, reason in reasons.items() if reason]
    return text.listed(said) if said else None


def _content(of: Mapping[str, Result]) -> dict[str, Any]:
    """Of how many documents what was compared, in all indices."""
    summed = ("documents", "indexed", "of", "copies", "phrases")
    first = next(iter(of.values()))
    return {
        **first,
        **{name: sum(int(each[name]) for each in of.values()) for name in summed},
        "text": all(each["text"] for each in of.values()),
        "reason": _listed({index: each["reason"] for index, each in of.items()}),
    }
