"""The suite page: many runs as experiments, versions and topologies, with a link to each report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chaos.base import text
from chaos.checks import shown
from chaos.report import overview
from chaos.report.overview import LEFT, RIGHT, ROW, WIDTH, Line, Mark, Scale
from chaos.statistics.facts import Facts


def suite_page(runs: Sequence[Facts], file: Path) -> Path:
    """Draw the page of these runs into ``file``. Raises OSError when it cannot be written."""
    groups: dict[tuple[str, str, str], list[Facts]] = {}
    for run in sorted(runs, key=lambda run: (overview.experiment(run), overview.started(run))):
        key = (overview.experiment(run), overview.topology(run), overview.version(run))
        groups.setdefault(key, []).append(run)
    again = _repeated(runs)
    rows = [_row(key, members, file, again) for key, members in groups.items()]
    tally = shown.counted(shown.of({**run.findings, "outcome": run.outcome}) for run in runs)
    dirty = [run.name for run in runs if run.clean is False]
    second = sum(_is_second(run) for run in runs)
    return overview.write(
        "suite.html.j2",
        file,
        outcome=_worst(runs, again),
        heading=f"{text.plural(len(runs), 'run')} of {text.plural(len({key[0] for key in groups}), 'experiment')}: "
        + tally
        + (f"; {text.plural(second, 'of them repeats', 'of them repeat')} one that was inconclusive" if second else ""),
        dirty=dirty,
        rows=rows,
        matrix=_matrix(groups, again),
        figure=_figure(groups),
    )


def _rank(outcome: str) -> int:
    return overview.WORST.index(outcome) if outcome in overview.WORST else 0


def _is_second(run: Facts) -> bool:
    return isinstance(run.plan.get("second_of"), dict)


def _repeated(runs: Sequence[Facts]) -> set[str]:
    """The names of the inconclusive runs that another of these repeats: the second of two is the one that counts."""
    return {str(run.plan["second_of"].get("run")) for run in runs if _is_second(run)}


def _worst(runs: Sequence[Facts], again: set[str]) -> str:
    return min((overview.called(run) for run in runs if run.name not in again), key=_rank, default="inconclusive")


def _row(key: tuple[str, str, str], runs: list[Facts], file: Path, again: set[str]) -> dict[str, Any]:
    served = [pair for run in runs if (pair := overview.served(run)) is not None]
    least = min(served, key=lambda pair: pair[0] / pair[1], default=None)
    outages = {
        op: overview.series_text([value for run in runs if (value := overview.outage(run).get(op)) is not None])
        for op in overview.operations(runs)
    }
    return {
        "experiment": key[0],
        "topology": key[1],
        "version": key[2],
        "outcome": _worst(runs, again),
        "dirty": any(run.clean is False for run in runs),
        "share": text.percent(least[0] / least[1]) if least else text.NO_VALUE,
        "nines": overview.nines(*least) if least else "-",
        "outages": outages,
        "recovery": overview.series_text([value for run in runs if (value := overview.recovery(run)) is not None]),
        "runs": [
            {
                "name": run.name,
                "when": overview.moment(run),
                "outcome": overview.called(run),
                "link": overview.link(run, file),
                "summary": str(run.findings.get("summary") or ""),
                "part": "second of two" if _is_second(run) else "first of two, repeated" if run.name in again else "",
            }
            for run in runs
        ],
    }


def _matrix(groups: dict[tuple[str, str, str], list[Facts]], again: set[str]) -> dict[str, Any]:
    """A row per experiment, a column per topology and version, the worst outcome and the number of runs in each."""
    columns = sorted({key[1:] for key in groups})
    rows = []
    for name in sorted({key[0] for key in groups}):
        cells = []
        for column in columns:
            runs = groups.get((name, *column))
            cells.append({"outcome": _worst(runs, again), "runs": len(runs)} if runs else None)
        rows.append({"experiment": name, "cells": cells})
    return {"columns": columns, "rows": rows}


def _figure(groups: dict[tuple[str, str, str], list[Facts]]) -> dict[str, Any]:
    """Outage-equivalent seconds, a row per group and operation, a mark per run."""
    values = [v for runs in groups.values() for run in runs for v in overview.outage(run).values()]
    scale = Scale(max((overview.seconds_of(v) or 0.0 for v in values), default=1.0), LEFT, WIDTH - RIGHT - 12)
    lines: list[Line] = []
    for key, runs in groups.items():
        for op in overview.operations(runs):
            marked = [(run, value) for run in runs if (value := overview.outage(run).get(op)) is not None]
            y = 14 + ROW * len(lines)
            marks = tuple(
                Mark(
                    scale.at(overview.seconds_of(value) or 0.0),
                    y,
                    overview.called(run),
                    f"{run.name}: {value.text}, {overview.WORDS[overview.called(run)][1]}",
                )
                for run, value in marked
            )
            lines.append(Line(y, f"{text.clip(key[0], 34)}, {op}s", text.clip(f"{key[1]} {key[2]}", 48), marks))
    return {"lines": lines, "ticks": scale.ticks(), "height": 14 + ROW * len(lines)}
