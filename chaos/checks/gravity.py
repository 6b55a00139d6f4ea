"""What findings about data mean for users, the gravest first, and each in a few words.

Lost acknowledged writes come first (with those that differ between copies or have other content), then those that a
remote store alone does not give back, restores from snapshots that are not whole, documents that should not be there,
wrong answers, dirty reads, stale reads and stale replicas. Violations of compare-and-set come last: what breaks the
others shows there too, as a witness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.base import text
from chaos.checks import writes
from chaos.checks.words import Item, Tables

ORDER = (
    "acknowledged.lost",
    "durable.lost",
    "restores.incomplete",
    "documents.unexpected",
    "wrong.answers",
    "dirty.reads",
    "stale.reads",
    "replicas.stale",
)
WITNESS = "cas.violations"
BRIEF = {
    "durable.lost": ("acknowledged write not in the store", "acknowledged writes not in the store"),
    "restores.incomplete": ("restore that was not whole", "restores that were not whole"),
    "documents.unexpected": ("document that should not be there", "documents that should not be there"),
    "wrong.answers": ("wrong answer", "wrong answers"),
    "dirty.reads": ("dirty read", "dirty reads"),
    "stale.reads": ("stale read", "stale reads"),
    "replicas.stale": ("replica that did not catch up", "replicas that did not catch up"),
    WITNESS: ("violation of compare-and-set", "violations of compare-and-set"),
}
GARBLED = 0.01
"""Share of a phase's arrivals from which garbled answers are told first; a process that dies tears a few."""


def rank(metric: str) -> int:
    """The place of a metric among findings about data; those of other packages come before the witness."""
    return len(ORDER) + 1 if metric == WITNESS else ORDER.index(metric) if metric in ORDER else len(ORDER)


def metric_of(finding_id: str) -> str:
    """The metric of a finding by its id, ``METRIC@PHASE#NUMBER``."""
    return finding_id.partition("#")[0].partition("@")[0]


def brief(metric: str, count: float, tables: Tables) -> str:
    """A broken promise about data in a few words, with its number: ``38 violations of compare-and-set``."""
    if metric == "acknowledged.lost" and (lost := writes.broken(tables)):
        return lost
    one, more = BRIEF.get(metric, (f"of {metric}", f"of {metric}"))
    return text.plural(int(count), one, more)


def unasked(findings: Sequence[Item], tables: Tables) -> list[str]:
    """Broken promises about data that no finding of the run is about, the gravest first."""
    asked = {str(item["metric"]) for item in findings}
    seen = tables.get("data") or {}
    stale = seen.get("staleness") or {}
    counts: dict[str, Any] = {
        "acknowledged.lost": (tables.get("writes") or {}).get("value"),
        "dirty.reads": (stale.get("dirty") or {}).get("value"),
        "stale.reads": (stale.get("stale") or {}).get("value"),
        WITNESS: (seen.get("compare_and_set") or {}).get("value"),
    }
    return [brief(metric, count, tables) for metric, count in counts.items() if count and metric not in asked]


def garbled(tables: Tables) -> str | None:
    """Answers that could not be read, where a phase had many of them; None where not."""
    found: dict[str, int] = {}
    many = False
    for op, phases in (tables.get("good") or {}).items():
        for row in phases.values():
            number = int((row.get("outcomes") or {}).get("garbled") or 0)
            found[op] = found.get(op, 0) + number
            many |= number > GARBLED * int(row.get("scheduled") or 0)
    if not many:
        return None
    shown = text.listed([f"{text.count(number)} {op}s" for op, number in found.items() if number])
    return f"{shown} were answered with something that cannot be read (garbled)"


def of_relaxed(item: Mapping[str, Any], tables: Tables) -> str | None:
    """What a relaxed promise let pass; None where nothing was broken."""
    if item["counts_as"] != "relaxed" or not item.get("measured"):
        return None
    return f"{brief(str(item['metric']), float(item['measured']), tables)}, which the file allows (relaxed)"
