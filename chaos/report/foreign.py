"""The section on what others did on a cluster that is not ours, beside what the run sent."""

from __future__ import annotations

from typing import Any

from chaos.base import text
from chaos.checks import foreign
from chaos.checks.record import SECOND, Record
from chaos.report.observation import figure, marks, ticks

FIGURES = (
    ("searches", "Searches of shards per second, of others", ""),
    ("search_ms", "Mean time of a search of a shard, of others", "ms"),
    ("documents", "Documents indexed per second, by others", ""),
    ("index_ms", "Mean time to index one on a copy, by others", "ms"),
)


def section(record: Record, tables: dict[str, Any]) -> dict[str, Any] | None:
    """What the page shows; None for a run on a lab."""
    found = tables.get("foreign")
    if found is None:
        return None
    samples = list(foreign.samples(record))
    begin = samples[0].start if samples else 0
    lasted = (samples[-1].end - begin) / SECOND if samples else 0.0
    rates = [_rates(sample, begin) for sample in samples]
    edges = [(span.name, (span.start - begin) / SECOND) for span in record.spans]
    return {
        "limits": f"The run was to end when it got worse: {found['limits']}." if found["limits"] else None,
        "undecided": found["undecided"],
        "gaps": _gaps(found),
        "rows": [_row(record, tables, name, row) for name, row in found["rows"].items()],
        "figures": [made for key, title, unit in FIGURES if (made := figure(rates, key, title, unit, lasted))],
        "ticks": ticks(lasted),
        "edges": marks(edges, lasted),
    }


def _rates(sample: foreign.Sample, begin: int) -> dict[str, float | None]:
    done, seconds = sample.done, (sample.end - sample.start) / SECOND
    return {
        "from": (sample.start - begin) / SECOND,
        "to": (sample.end - begin) / SECOND,
        "searches": done["searches"] / seconds,
        "search_ms": done["search_ms"] / done["searches"] if done["searches"] else None,
        "documents": done["documents"] / seconds,
        "index_ms": done["index_ms"] / done["indexed"] if done["indexed"] else None,
    }


def _row(record: Record, tables: dict[str, Any], name: str, row: dict[str, Any]) -> dict[str, Any]:
    span = record.span(name)
    ours = "-"
    if span is not None and span.seconds:
        counted = {op: phases.get(name) for op, phases in (tables.get("good") or {}).items()}
        ours = ", ".join(f"{op}s {each['scheduled'] / span.seconds:.3g}/s" for op, each in counted.items() if each)
    return {
        "name": name,
        "cells": [
            _shown(row["searches"], "/s"),
            _shown(row["search_ms"], " ms"),
            _shown(row["documents"], "/s"),
            _shown(row["index_ms"], " ms"),
            _shown(row["failed"], ""),
            ours or "-",
            text.percent(row["known"]),
        ],
    }


def _shown(value: float | None, unit: str) -> str:
    return text.NO_VALUE if value is None else f"{value:.3g}{unit}" if value < 1000 else f"{text.count(value)}{unit}"


def _gaps(found: dict[str, Any]) -> str | None:
    """What is not known, in words."""
    gaps = [
        f"{text.plural(found['missing'], 'question was', 'questions were')} not answered" if found["missing"] else "",
        f"in {text.plural(found['unheard'], 'answer')} nodes were missing" if found["unheard"] else "",
        "nothing was answered twice" if not found["samples"] else "",
    ]
    said = [each for each in gaps if each]
    return f"{text.listed(said)}." if said else None
