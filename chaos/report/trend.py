"""The trend page: runs of one experiment on one topology in the order in which they were made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from chaos.base import text
from chaos.report import overview
from chaos.report.overview import WIDTH, Mark, Scale
from chaos.statistics.facts import Facts, Known

LEFT, RIGHT = 66.0, 20.0
TOP, HEIGHT = 34.0, 120.0


def trend_page(runs: Sequence[Facts], file: Path) -> Path:
    """Draw the page of these runs into ``file``. Raises OSError when it cannot be written."""
    groups: dict[tuple[str, str], list[Facts]] = {}
    for run in sorted(runs, key=overview.started):
        groups.setdefault((overview.experiment(run), overview.topology(run)), []).append(run)
    sections = [_section(number, key, members, file) for number, (key, members) in enumerate(sorted(groups.items()))]
    times = sorted(overview.moment(run) for run in runs)
    heading = f"{text.plural(len(runs), 'run')} of {text.plural(len(sections), 'experiment')} over time"
    return overview.write(
        "trend.html.j2", file, heading=heading, span=f"{times[0]} to {times[-1]}" if times else "", sections=sections
    )


def _section(number: int, key: tuple[str, str], runs: list[Facts], file: Path) -> dict[str, Any]:
    step = (WIDTH - LEFT - RIGHT) / max(1, len(runs))
    xs = [round(LEFT + step * (i + 0.5), 1) for i in range(len(runs))]
    figures: list[tuple[str, Callable[[Facts], Known | None]]] = [
        (f"Outage-equivalent time, {op}s", _outage_of(op)) for op in overview.operations(runs)
    ]
    figures.append(("Longest time to regain the objective", overview.recovery))
    changes = [
        {"x": round((xs[i] + xs[i - 1]) / 2, 1), "version": overview.version(runs[i])}
        for i in range(1, len(runs))
        if overview.version(runs[i]) != overview.version(runs[i - 1])
    ]
    every = max(1, len(runs) // 8)
    return {
        "id": f"t{number}",
        "experiment": key[0],
        "topology": key[1],
        "changes": changes,
        "first_version": overview.version(runs[0]),
        "dates": [
            (x, overview.moment(run)[:10]) for i, (x, run) in enumerate(zip(xs, runs, strict=True)) if i % every == 0
        ],
        "figures": [_figure(title, value, runs, xs) for title, value in figures],
        "rows": [_row(run, file) for run in runs],
        "plans": len({run.plan.get("hash") for run in runs}),
    }


def _outage_of(op: str) -> Callable[[Facts], Known | None]:
    return lambda run: overview.outage(run).get(op)


def _figure(title: str, of: Callable[[Facts], Known | None], runs: list[Facts], xs: list[float]) -> dict[str, Any]:
    values = [of(run) for run in runs]
    drawn = [overview.seconds_of(value) for value in values]
    scale = Scale(max((v for v in drawn if v is not None), default=1.0), TOP + HEIGHT, TOP)
    marks, path = [], []
    for run, x, value, at in zip(runs, xs, values, drawn, strict=True):
        if value is None or at is None:
            continue
        y = scale.at(at)
        beyond = not value.range.is_exact and not value.doubtful
        called = overview.called(run)
        says = f"{overview.moment(run)}: {value.text}, {overview.WORDS[called][1]}"
        marks.append(Mark(x, y, called, says, open=beyond))
        if run.excluded is None:
            path.append(f"{x},{y}")
    return {"title": title, "marks": marks, "path": " ".join(path), "ticks": scale.ticks()}


def _row(run: Facts, file: Path) -> dict[str, Any]:
    served = overview.served(run)
    longest = overview.recovery(run)
    return {
        "name": run.name,
        "when": overview.moment(run),
        "version": overview.version(run),
        "outcome": overview.called(run),
        "share": text.percent(served[0] / served[1]) if served else text.NO_VALUE,
        "nines": overview.nines(*served) if served else "-",
        "outages": {op: value.text for op, value in overview.outage(run).items()},
        "recovery": longest.text if longest else text.NO_VALUE,
        "link": overview.link(run, file),
        "why_not": run.excluded,
    }
