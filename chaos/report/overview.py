"""What the pages over several runs share: the look of a run's report, scales, markers, links.

As in a run's own page everything that comes from a run is text, which the templates escape; figures are SVG that
prints and needs no script, and a table under each says the same in words.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import ChainableUndefined, Environment, PackageLoader

from chaos.base import text
from chaos.base.paths import write_atomically
from chaos.checks import shown
from chaos.checks.shown import Shown
from chaos.report.clean import keep_clean
from chaos.statistics.facts import Facts, Known

WIDTH, LEFT, RIGHT = 1120.0, 330.0, 24.0
ROW = 30.0
TICKS = (0.0, 0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0)
WORDS = {
    "pass": ("✓", "pass"),
    "weakness": ("✗", "weakness"),
    "fail": ("✗", "fail"),
    "relaxed": ("~", "relaxed"),
    "known_weakness": ("✗", "known weakness"),
    "unexpected_pass": ("↑", "improved: held, though called a known weakness"),
    "known_pass": ("✓", "pass with known weaknesses"),
    "improved": ("↑", "improved"),
    "inconclusive": ("?", "inconclusive"),
    "aborted": ("■", "aborted"),
    "error": ("!", "error"),
}
"""A mark and a word for each outcome: no meaning hangs on colour."""
WORST = tuple(each.value for each in Shown)


@dataclass(frozen=True)
class Mark:
    """A value in a figure. ``shape``: that of an outcome (overview.macros.j2). ``open``: with an arrow, it goes on."""

    x: float
    y: float
    shape: str
    title: str
    open: bool = False


@dataclass(frozen=True)
class Line:
    """One row of a figure of rows. x positions; ``interval`` ends at an edge of the figure where it is open."""

    y: float
    label: str
    note: str
    marks: tuple[Mark, ...]
    interval: tuple[float, float] | None = None
    band: tuple[float, float] | None = None
    target: float | None = None
    kind: str = "none"


@dataclass(frozen=True)
class Scale:
    """Seconds to x or y between two ends: linear below 0.1 s, logarithmic above, so that 0 s has a place."""

    most: float
    start: float
    end: float

    def at(self, seconds: float) -> float:
        top = math.asinh(max(self.most, 1.0) / 0.1)
        share = min(1.0, math.asinh(max(0.0, seconds) / 0.1) / top)
        return round(self.start + (self.end - self.start) * share, 1)

    def ticks(self) -> list[tuple[float, str]]:
        return [(self.at(t), text.seconds(t)) for t in TICKS if t <= max(self.most, 1.0)]


@functools.cache
def environment() -> Environment:
    env = Environment(
        loader=PackageLoader("chaos.report"),
        autoescape=True,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters["clip"] = lambda value, limit=160: text.clip(str(value), limit)
    env.globals["words"] = WORDS
    env.globals["size"] = {"width": WIDTH, "left": LEFT, "right": WIDTH - RIGHT}
    return keep_clean(env)


def write(template: str, file: Path, **context: Any) -> Path:
    """Draw a page into a file; returns it."""
    write_atomically(file, environment().get_template(template).render(**context))
    return file


def link(run: Facts, page: Path) -> str | None:
    """Where a run's report is, seen from the page; None when it has none. Quoted, so never another scheme."""
    if run.folder is None or not (run.folder / "report.html").is_file():
        return None
    return quote(os.path.relpath(run.folder / "report.html", page.parent))


def series_text(values: Sequence[Known]) -> str:
    """``median (least to most)``."""
    from chaos.statistics.compare import summary_of

    return summary_of(values)


def seconds_of(value: Known | None) -> float | None:
    """Where to draw a value: where it was measured."""
    return None if value is None else value.measured


def called(run: Facts) -> str:
    """What a run's verdict is called: its outcome, or a pass with known weaknesses, or improved."""
    return str(shown.of({**run.findings, "outcome": run.outcome}).value)


def started(run: Facts) -> str:
    """When a run began, as its plan says: sorts as text, and is cut to the minute for people."""
    return str(run.plan.get("started") or "")


def moment(run: Facts) -> str:
    return text.clip(started(run)[:16].replace("T", " ") or "unknown", 20)


def version(run: Facts) -> str:
    versions, topology = run.plan.get("versions") or {}, run.plan.get("topology") or {}
    return str(versions.get("opensearch") or topology.get("version") or "unknown")


def topology(run: Facts) -> str:
    return str((run.plan.get("topology") or {}).get("name") or "unknown")


def experiment(run: Facts) -> str:
    return str(run.experiment.get("name") or run.plan.get("run") or "unknown")


def served(run: Facts) -> tuple[int, int] | None:
    """(good, scheduled) of the operation that fared worst, in all phases that do not wait on purpose."""
    tables = run.findings.get("tables") or {}
    waits = {phase.get("name") for phase in tables.get("phases") or [] if phase.get("scripted_wait")}
    sums = []
    for phases in (tables.get("good") or {}).values():
        rows = [row for name, row in phases.items() if name not in waits]
        sums.append((sum(int(row["good"]) for row in rows), sum(int(row["scheduled"]) for row in rows)))
    counted = [pair for pair in sums if pair[1]]
    return min(counted, key=lambda pair: pair[0] / pair[1], default=None)


def nines(good: int, scheduled: int) -> str:
    """-log10 of the share not good, cut to one digit; n arrivals without a miss show no more than log10(n)."""
    missed = scheduled - good
    value = math.log10(scheduled / missed) if missed else math.log10(scheduled)
    return f"{'' if missed else '> '}{math.floor(value * 10 + 1e-9) / 10:.1f}"


def outage(run: Facts) -> dict[str, Known]:
    """The cluster's own outage-equivalent seconds by operation."""
    suffix = ".outage"
    named = {name.removesuffix(suffix): value for name, value in run.metrics.items() if name.endswith(suffix)}
    return {op: value for op, value in sorted(named.items()) if value is not None}


def operations(runs: Iterable[Facts]) -> list[str]:
    """The operations whose outage some of these runs know."""
    return sorted({op for run in runs for op in outage(run)})


def recovery(run: Facts) -> Known | None:
    """The longest time to regain the objective in any phase that does not wait on purpose; censored ones first."""
    tables = run.findings.get("tables") or {}
    waits = {phase.get("name") for phase in tables.get("phases") or [] if phase.get("scripted_wait")}
    found = [
        value
        for name, value in run.metrics.items()
        if (parts := name.partition("@"))[0].endswith(".regained")
        and not parts[0].startswith("recovery.")
        and parts[2] not in waits
    ]
    return max(found, key=lambda value: (seconds_of(value) or 0.0, not value.range.is_exact), default=None)
