"""Geometry of the smaller figures: the recovery ladder and the curve of the worst windows.

As in :mod:`.timeline`, only numbers and words are made here; the templates draw them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaos.base import text

WIDTH, LABELS, RIGHT, ROW = 1120.0, 250.0, 120.0, 26.0
TITLES = {
    "in_effect": "fault in effect",
    "impact": "first user impact",
    "node_left": "node left the cluster",
    "leader_elected": "cluster manager elected",
    "primaries_promoted": "primaries promoted",
    "first_writes": "first good write on every shard",
    "regained": "objective regained",
    "green": "green",
    "latency": "latency back to baseline",
}


@dataclass(frozen=True)
class Rung:
    """One step of the ladder. ``kind``: reached, open (censored: not seen by then), unneeded or none (not known)."""

    title: str
    kind: str
    y: float
    x: float
    text: str
    says: str


@dataclass(frozen=True)
class Ladder:
    """How one phase recovered, from its trigger on."""

    phase: str
    trigger: str
    rungs: tuple[Rung, ...]
    ticks: tuple[tuple[float, str], ...]
    height: float
    id: str


def ladders(tables: Mapping[str, Any]) -> tuple[Ladder, ...]:
    """``tables.ladder`` as figures; phases in which no step has a time are left out."""
    found = []
    for number, (phase, item) in enumerate((tables.get("ladder") or {}).items()):
        steps = [step for step in item.get("steps") or [] if isinstance(step, dict)]
        known = [float(step["after"]) for step in steps if step.get("after") is not None and step.get("needed", True)]
        if not known:
            continue
        most = max(max(known), 1e-3)
        span = WIDTH - LABELS - RIGHT
        rungs = []
        for row, step in enumerate(steps):
            after = step.get("after")
            name = str(step.get("name"))
            title = TITLES.get(name) or str(step.get("title") or name).replace("_", " ")
            y = 8 + row * ROW
            if step.get("needed") is False:
                rungs.append(Rung(title, "unneeded", y, LABELS, "not needed", str(step.get("says") or "")))
                continue
            if after is None:
                rungs.append(Rung(title, "none", y, LABELS, "-", str(step.get("says") or "")))
                continue
            reached = bool(step.get("reached"))
            sign = "" if step.get("bound") in (None, "exact") else "> " if step["bound"] == "more_than" else "≥ "
            x = round(LABELS + span * max(0.0, float(after)) / most, 1)
            value = f"{sign}{text.seconds(round(float(after), 3))}"
            rungs.append(Rung(title, "reached" if reached else "open", y, x, value, str(step.get("says") or "")))
        step_size = _step(most)
        ticks = tuple(
            (round(LABELS + span * at * step_size / most, 1), text.seconds(round(at * step_size, 3)))
            for at in range(int(most / step_size + 1e-9) + 1)
        )
        found.append(
            Ladder(
                str(phase),
                str(item.get("trigger") or ""),
                tuple(rungs),
                ticks,
                12 + len(rungs) * ROW,
                f"ladder{number}",
            )
        )
    return tuple(found)


def _step(most: float) -> float:
    """A round step that leaves at most eight ticks."""
    power = 10.0 ** math.floor(math.log10(most))
    return next(power * m for m in (0.1, 0.2, 0.5, 1, 2) if most / (power * m) <= 8)


@dataclass(frozen=True)
class Curve:
    """The lowest availability of any window of a size, for one operation."""

    op: str
    path: str
    dashed: bool
    label_y: float
    label_x: float
    points: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Curves:
    curves: tuple[Curve, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    height: float = 190.0
    left: float = 62.0
    right: float = WIDTH - 60.0
    top: float = 12.0
    bottom: float = 160.0


def curves(tables: Mapping[str, Any]) -> Curves | None:
    """``tables.availability[op].minimum`` as one figure; None when there is none. The sizes lie on a log axis."""
    given = {
        op: [
            (float(point["window"]), float(point["availability"]))
            for point in (row.get("minimum") or [])
            if point.get("availability") is not None and float(point.get("window") or 0) > 0
        ]
        for op, row in (tables.get("availability") or {}).items()
        if isinstance(row, dict)
    }
    given = {op: sorted(points) for op, points in given.items() if len(points) > 1}
    if not given:
        return None
    frame = Curves((), (), ())
    sizes = [size for points in given.values() for size, _ in points]
    low, high = math.log10(min(sizes)), math.log10(max(sizes))

    def x(size: float) -> float:
        return round(frame.left + (frame.right - frame.left) * (math.log10(size) - low) / max(high - low, 1e-9), 1)

    def y(share: float) -> float:
        return round(frame.top + (frame.bottom - frame.top) * (1 - share), 1)

    drawn = []
    for number, (op, points) in enumerate(given.items()):
        path = "".join(f"{'M' if i == 0 else 'L'}{x(size):g} {y(share):g}" for i, (size, share) in enumerate(points))
        drawn.append(
            Curve(
                op,
                path,
                number % 2 == 1,
                round(y(points[-1][1]) + (4 if number % 2 == 0 else 18), 1),
                x(points[-1][0]) + 6,
                tuple((text.seconds(size), text.percent(share)) for size, share in points),
            )
        )
    ticks = [
        size for size in (1, 2, 5, 10, 20, 60, 120, 300, 600, 1800, 3600, 21600) if min(sizes) <= size <= max(sizes)
    ]
    return Curves(
        tuple(drawn),
        tuple((x(size), text.seconds(float(size))) for size in ticks),
        tuple((y(share), f"{share * 100:.0f} %") for share in (0.0, 0.5, 1.0)),
    )
