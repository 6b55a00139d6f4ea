"""What others did on a cluster that is not ours, phase by phase: figures beside the findings, which judge none of it.

Lines are those of :mod:`chaos.observe.foreign`. A sample that lies in two phases counts for each by its share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chaos.checks.record import SECOND, Record

FIGURES = ("searches", "search_ms", "documents", "indexed", "index_ms", "failed")
BEFORE, WARM_UP, AFTER = "before the load", "warm-up", "after the phases"


@dataclass(frozen=True)
class Sample:
    """From when to when (monotonic ns), and what was done in it."""

    start: int
    end: int
    done: dict[str, float]
    unheard: bool

    def within(self, start: int, end: int) -> float:
        """Which share of it lies between."""
        return max(0, min(self.end, end) - max(self.start, start)) / (self.end - self.start)


def samples(record: Record) -> Iterator[Sample]:
    """Those that are whole: a record may have been cut anywhere."""
    for line in record.foreign:
        known = {name: line.get(name) for name in (*FIGURES, "seconds")}
        if line["kind"] != "grown" or not all(isinstance(value, int | float) for value in known.values()):
            continue
        done = {name: float(value) for name, value in known.items()}  # type: ignore[arg-type]
        if (seconds := done.pop("seconds")) > 0:
            yield Sample(int(line["t"] - seconds * SECOND), int(line["t"]), done, bool(line.get("unheard")))


def table(record: Record) -> dict[str, Any] | None:
    """Rates per second and mean times in milliseconds; ``known``: the share of the time that was sampled.

    None where nobody listened, on a lab.
    """
    if not record.foreign:
        return None
    found = list(samples(record))
    baseline = next((line for line in record.foreign if line["kind"] == "baseline"), None)
    return {
        "rows": {name: row for name, start, end in _spans(record, found, baseline) if (row := _row(found, start, end))},
        "limits": None if baseline is None else str(baseline.get("limits")),
        "undecided": [] if baseline is None else [str(says) for says in baseline.get("undecided") or []],
        "missing": sum(line["kind"] == "missing" for line in record.foreign),
        "unheard": sum(sample.unheard for sample in found),
        "samples": len(found),
    }


def _spans(record: Record, found: list[Sample], baseline: dict[str, Any] | None) -> Iterator[tuple[str, int, int]]:
    if not found:
        return
    first, last = found[0].start, found[-1].end
    load = record.first("load.start")
    start = last if load is None else int(load["t"])
    yield BEFORE, first, int(baseline["t"]) if baseline is not None else start
    if record.spans:
        yield WARM_UP, start, record.spans[0].start
        yield from ((span.name, span.start, span.end) for span in record.spans)
        yield AFTER, record.spans[-1].end, last
    elif load is not None:
        yield WARM_UP, start, last


def _row(found: list[Sample], start: int, end: int) -> dict[str, Any] | None:
    if end <= start:
        return None
    sums, seconds = dict.fromkeys(FIGURES, 0.0), 0.0
    for sample in found:
        if share := sample.within(start, end):
            seconds += share * (sample.end - sample.start) / SECOND
            for name, value in sample.done.items():
                sums[name] += share * value
    if not seconds:
        return dict.fromkeys(("searches", "search_ms", "documents", "index_ms", "failed")) | {"known": 0.0}
    return {
        "searches": round(sums["searches"] / seconds, 2),
        "search_ms": round(sums["search_ms"] / sums["searches"], 2) if sums["searches"] else None,
        "documents": round(sums["documents"] / seconds, 2),
        "index_ms": round(sums["index_ms"] / sums["indexed"], 2) if sums["indexed"] else None,
        "failed": round(sums["failed"]),
        "known": round(min(1.0, seconds * SECOND / (end - start)), 3),
    }
