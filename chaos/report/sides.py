"""The page of an experiment with sides: one table of all metrics over all sides, and each side's shift as a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from chaos.base import text
from chaos.definitions.writing import flow
from chaos.report import overview
from chaos.report.compare import figure_of
from chaos.report.overview import ROW
from chaos.statistics import protections
from chaos.statistics.compare import summary_of
from chaos.statistics.sides import BURN_IN, Sides, moved, word

OF_PROTECTION = {
    protections.PROTECTS: "pass",
    protections.WITHOUT: "inconclusive",
    protections.HURTS: "fail",
    protections.INERT: "inconclusive",
    protections.OPEN: "inconclusive",
}
MARKS = {"worse": "fail", "open": "inconclusive", "better": "pass", "no worse": "pass"}


def sides_page(found: Sides, file: Path) -> Path:
    """Draw a comparison of sides into ``file``. Raises OSError when it cannot be written."""
    figures = []
    for comparison in found.comparisons:
        lines = figure_of(comparison)
        figures.append({"side": comparison.b.label, "lines": lines, "height": 14 + ROW * len(lines)})
    return overview.write(
        "sides.html.j2",
        file,
        outcome=found.outcome.value,
        heading=found.sentence,
        experiment=found.experiment,
        baseline=found.baseline,
        level=f"{100 * found.level:.3g} %",
        sides=[
            {
                "name": group.label,
                "about": group.about,
                "runs": [{**run, "link": _link(file, group.label, str(run["run"]))} for run in group.runs],
                "counted": group.counted,
                "changes": flow(found.changes[group.label])
                if found.changes.get(group.label)
                else "the experiment as it is",
                "differences": list(found.differences.get(group.label, ())),
            }
            for group in found.groups
        ],
        rivals=[each.b.label for each in found.comparisons],
        figures=figures,
        zero=edges()[0],
        edges=edges()[1:],
        rows=[_row(found, metric) for metric in found.metrics],
        protection=_protection(found),
        notes=_notes(found),
        cut_off=found.cut_off,
        burn_in=[{"run": run, "link": _link(file, BURN_IN, run)} for run in found.burn_in],
    )


def _protection(found: Sides) -> dict[str, Any] | None:
    judged = found.protection
    if judged is None:
        return None
    return {
        "says": judged.sentence,
        "mark": OF_PROTECTION[judged.word],
        "word": judged.word,
        "monitors": judged.monitors,
        "head": protections.HEAD,
        "rows": judged.table(),
    }


def _link(page: Path, side: str, run: str) -> str | None:
    """Where a run's report is, seen from the page; None when it has none. Quoted, so never another scheme."""
    return quote(f"{side}/{run}/report.html") if (page.parent / side / run / "report.html").is_file() else None


def edges() -> tuple[float, float, float]:
    """Where no shift and both ends of the tolerance are drawn."""
    from chaos.report.compare import place

    return place(0), place(-1), place(1)


def _notes(found: Sides) -> list[str]:
    """In what the sides differ although no side says so: runs without numbers, another machine, other versions."""
    hidden = [f"{group.label}: {says}" for group in found.groups for says in group.hidden]
    unasked = ("machine", "versions, opensearch-chaos", "versions, java", "versions, kernel", "versions, toxiproxy")
    other = [line for each in found.comparisons for line in each.differences if line.startswith(unasked)]
    return list(dict.fromkeys(hidden + [line for line in other if line not in hidden]))


def _row(found: Sides, metric: str) -> dict[str, Any]:
    rows = [found.row(metric, each) for each in found.comparisons]
    first = next(row for row in rows if row is not None)
    return {
        "metric": metric,
        "decides": found.decides(metric),
        "tolerance": first.tolerance_text,
        "baseline": summary_of(first.a),
        "values": f"{found.baseline}: {', '.join(v.text for v in first.a)}",
        "cells": [
            {
                "value": text.NO_VALUE if row is None else summary_of(row.b),
                "values": "" if row is None else ", ".join(v.text for v in row.b),
                "shift": moved(row),
                "word": word(row),
                "mark": MARKS[word(row)],
                "says": "" if row is None else row.says,
            }
            for row in rows
        ],
    }
