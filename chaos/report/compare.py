"""The comparison as a page, and the page of a series."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from chaos.base import text
from chaos.report import overview
from chaos.report.overview import LEFT, RIGHT, ROW, WIDTH, Line, Mark
from chaos.statistics.compare import Comparison, Row, signed, summary_of
from chaos.statistics.facts import higher_is_better
from chaos.statistics.series import Series, SeriesFinding, percent, shown

REACH = 4.0
"""The figure of a comparison shows so many tolerances to either side; what lies beyond is drawn at the edge."""


def compare_page(found: Comparison, file: Path) -> Path:
    """Draw a comparison into ``file``. Raises OSError when it cannot be written."""
    lines = figure_of(found)
    return overview.write(
        "compare.html.j2",
        file,
        outcome=found.outcome.value,
        heading=found.sentence,
        sides=[
            {
                "name": name,
                "label": group.label,
                "about": group.about,
                "runs": group.runs,
                "counted": group.counted,
                "left_out": group.left_out,
            }
            for name, group in (("A", found.a), ("B", found.b))
        ],
        differences=found.differences,
        figure={
            "lines": lines,
            "height": 14 + ROW * len(lines),
            "zero": place(0),
            "edges": (place(-1), place(1)),
        },
        rows=[_row(row) for row in found.rows],
    )


def figure_of(found: Comparison) -> list[Line]:
    """The rows of the figure of shifts: the metrics that decide."""
    decisive = [row for row in found.rows if row.decides and row.shift is not None]
    return [_line(number, row) for number, row in enumerate(decisive)]


def place(tolerances: float) -> float:
    """Where so many tolerances are drawn; worse is to the right."""
    middle, half = (LEFT + WIDTH - RIGHT) / 2, (WIDTH - RIGHT - LEFT) / 2
    return round(middle + half * max(-1.0, min(1.0, tolerances / REACH)), 1)


def _line(number: int, row: Row) -> Line:
    """A row of the figure: worse is to the right, and the unit is the tolerance (1 where none is allowed)."""
    assert row.shift is not None
    unit = row.tolerance or 1.0
    turn = -1.0 if higher_is_better(row.unit, row.metric) else 1.0
    y = 14 + ROW * number

    def at(value: float) -> float:
        return place(turn * value / unit if math.isfinite(value) else turn * value)

    interval = row.interval or row.shift.widest
    ends = sorted((at(interval.low), at(interval.high)))
    middle = (row.shift.estimate.low + row.shift.estimate.high) / 2
    title = f"{row.metric}: shift {signed(row.shift.estimate, row.unit)}, {row.says}"
    marks = (Mark(at(middle), y, row.verdict.value, title),) if math.isfinite(middle) else ()
    label = f"{overview.WORDS[row.verdict.value][0]} {text.clip(row.metric, 46)}"
    return Line(y, label, "", marks, (ends[0], ends[1]), kind="wide" if row.interval is None else "none")


def _row(row: Row) -> dict[str, Any]:
    interval = row.interval
    return {
        "metric": row.metric,
        "verdict": row.verdict.value,
        "decides": row.decides,
        "a": summary_of(row.a),
        "b": summary_of(row.b),
        "shift": signed(row.shift.estimate, row.unit) if row.shift else "-",
        "interval": f"{signed(interval, row.unit)} ({interval.level * 100:.1f} %)" if interval else "none",
        "tolerance": row.tolerance_text,
        "says": row.says,
        "values": f"A: {', '.join(v.text for v in row.a)}; B: {', '.join(v.text for v in row.b)}",
    }


# -- a series ---------------------------------------------------------------------------------------------


def series_page(series: Series, file: Path) -> Path:
    """Draw a series into ``file``. Raises OSError when it cannot be written."""
    drawn = [finding for finding in series.findings if finding.figures is not None]
    lines = [_finding_line(number, finding) for number, finding in enumerate(drawn)]
    first = series.runs[0] if series.runs else None
    return overview.write(
        "series.html.j2",
        file,
        outcome=series.called.value,
        heading=series.sentence,
        experiment=overview.experiment(first) if first else "unknown",
        where=f"{overview.topology(first)}, OpenSearch {overview.version(first)}" if first else "",
        reasons=series.reasons[:12],
        clean=series.clean,
        figure={"lines": lines, "height": 14 + ROW * len(lines)},
        findings=[_finding_row(finding) for finding in series.findings],
        runs=[
            {
                "name": run.name,
                "seed": run.plan.get("seed"),
                "outcome": run.outcome,
                "why_not": run.excluded,
                "link": overview.link(run, file),
            }
            for run in series.runs
        ],
        metrics=[
            {
                "name": name,
                "runs": len(each.values),
                "median": shown(each.median, each.unit),
                "least": shown(each.least, each.unit),
                "most": shown(each.most, each.unit),
                "interval": _interval(each),
                "quantile": percent(each.quantile) if each.quantile else "-",
            }
            for name, each in series.metrics.items()
        ],
    )


def _interval(figures: Any) -> str:
    if figures.interval is None:
        return "-"
    low, high = (shown_value(value, figures.unit) for value in (figures.interval.low, figures.interval.high))
    return f"{low} to {high}"


def shown_value(value: float, unit: str) -> str:
    from chaos.base.intervals import Range

    return shown(Range.exact(value), unit)


def _finding_line(number: int, finding: SeriesFinding) -> Line:
    """One finding on a scale of its own, from its least to its largest value, target included."""
    figures = finding.figures
    assert figures is not None
    y = 14 + ROW * number
    at = [overview.seconds_of(value) or 0.0 for value in figures.values]
    if figures.unit == "share":
        at = [value.measured for value in figures.values]
    reach = [*at, finding.target.value]
    if figures.interval is not None:
        reach += [figures.interval.low, figures.interval.high]
    low, high = min(reach), max(reach)
    width = (high - low) or 1.0

    def x(value: float) -> float:
        return round(LEFT + 12 + (WIDTH - RIGHT - LEFT - 24) * (value - low) / width, 1)

    marks = tuple(
        Mark(
            x(where), y, "measured" if value.range.is_exact else "inconclusive", value.text, open=value.high == math.inf
        )
        for where, value in zip(at, figures.values, strict=True)
    )
    interval = (x(figures.interval.low), x(figures.interval.high)) if figures.interval else None
    mark = overview.WORDS[finding.counts_as.value][0]
    return Line(
        y,
        f"{mark} {text.clip(finding.title, 46)}",
        "",
        marks,
        interval,
        target=x(finding.target.value),
    )


def _finding_row(finding: SeriesFinding) -> dict[str, Any]:
    figures = finding.figures
    return {
        "title": finding.title,
        "counts_as": finding.counts_as.value,
        "verdict": finding.verdict.value,
        "says": finding.says,
        "known": finding.target.known_weakness,
        "median": shown(figures.median, figures.unit) if figures else text.NO_VALUE,
        "least": shown(figures.least, figures.unit) if figures else "-",
        "most": shown(figures.most, figures.unit) if figures else "-",
        "interval": _interval(figures) if figures else "-",
        "missed": len(finding.missed),
        "doubtful": len(finding.doubtful),
    }
