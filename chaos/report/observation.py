"""The page of an observation: how the cluster was, what happened, how busy it was, and the audit of its beginning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chaos.base import text
from chaos.report import audit as audited
from chaos.report import overview

WIDTH, LEFT, RIGHT, HEIGHT = 1120.0, 66.0, 20.0, 150.0
COLOURS = {"green": "--green", "yellow": "--yellow", "red": "--red", "no leader": "--failed", "no answer": "--unknown"}
MOST = 200
"""Happenings that the table lists."""
FIGURES = (
    ("searches", "Searches of shards per second", ""),
    ("search_ms", "Mean time of a search of a shard", "ms"),
    ("indexed", "Documents indexed per second, copies counted", ""),
    ("index_ms", "Mean time to index one", "ms"),
    ("cpu", "Busiest node's processors", "%"),
    ("heap", "Fullest node's heap", "%"),
)


def page(found: Mapping[str, Any], about: Mapping[str, str], audit: Mapping[str, Any] | None, file: Path) -> Path:
    """Draw an observation's summary into ``file``. ``about``: target, cluster and version, for people.

    Raises OSError when it cannot be written.
    """
    lasted = max(float(found["lasted"]), 0.1)
    began = datetime.fromtimestamp(float(found["wall"]), UTC)
    happenings = list(found["happenings"])
    return overview.write(
        "observation.html.j2",
        file,
        outcome=None if found["enough"] else "inconclusive",
        heading=str(found["headline"]),
        about=about,
        began=f"{began:%Y-%m-%d %H:%M:%S} UTC",
        lasted=text.seconds(lasted),
        share=text.percent(float(found["share"])),
        found=found,
        bands=_bands(found["spans"], lasted),
        ticks=ticks(lasted),
        figures=[made for key, title, unit in FIGURES if (made := figure(found["rates"], key, title, unit, lasted))],
        happenings=[{**each, "at": text.seconds(float(each["t"]))} for each in happenings[:MOST]],
        more=max(0, len(happenings) - MOST),
        seconds=[(state, text.seconds(float(spent))) for state, spent in found["seconds"].items()],
        rows=audited.rows(audit),
        searches=said_of(found["reads"]) if found.get("reads") else None,
    )


def said_of(reads: Mapping[str, Any]) -> str:
    """What became of the searches, in a line."""
    if reads["doubt"]:
        return f"they do not count: {reads['doubt']}"
    others = ", ".join(f"{count} {name}" for name, count in reads["outcomes"].items() if name != "ok")
    within = text.seconds(float(reads["good_within"]))
    good = f"{text.percent(float(reads['share']))} of {reads['scheduled']} were good (whole, within {within})"
    known = reads["p50_ms"] is not None
    times = f"; half took {reads['p50_ms']:g} ms, 99 % up to {reads['p99_ms']:g} ms" if known else ""
    return f"{good}{times}{'; ' + others if others else ''}"


def _x(t: float, lasted: float) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * min(max(t / lasted, 0.0), 1.0), 1)


def _bands(spans: Sequence[Mapping[str, Any]], lasted: float) -> list[dict[str, Any]]:
    found = []
    for span in spans:
        a, b = _x(float(span["from"]), lasted), _x(float(span["to"]), lasted)
        said = f"{span['state']} from {float(span['from']):.0f} s to {float(span['to']):.0f} s"
        colour = COLOURS.get(str(span["state"]), "--unknown")
        found.append({"x": a, "width": max(round(b - a, 1), 1.0), "colour": colour, "title": said})
    return found


def ticks(lasted: float) -> list[tuple[float, str]]:
    """The axis of so many seconds."""
    lasted = max(lasted, 0.1)
    step = next((each for each in (5, 10, 30, 60, 120, 300, 600, 1800, 3600) if lasted / each <= 10), 7200)
    return [(_x(t, lasted), text.seconds(float(t))) for t in range(0, int(lasted) + 1, step)]


def marks(moments: Sequence[tuple[str, float]], lasted: float) -> list[tuple[float, str]]:
    """Where moments lie on a figure of so many seconds, each with its name."""
    return [(_x(t, max(lasted, 0.1)), name) for name, t in moments]


def figure(rates: Sequence[Mapping[str, Any]], key: str, title: str, unit: str, lasted: float) -> dict[str, Any] | None:
    """One line over time; None where nobody said anything of it."""
    known = [r for r in rates if r.get(key) is not None]
    points = [(float(r[end]), float(r[key])) for r in known for end in ("from", "to")]  # a rate is that of its span
    if not points:
        return None
    highest = max(value for _, value in points)
    top = highest or 1.0
    bottom, height = HEIGHT - 26, HEIGHT - 40

    def y(value: float) -> float:
        return round(bottom - height * value / top, 1)

    values = sorted(value for _, value in points)
    after = f" {unit}" if unit else ""
    said = f"{_number(values[len(values) // 2])}{after} in the middle, {_number(highest)}{after} at most"
    return {
        "title": title,
        "says": said,
        "points": " ".join(f"{_x(t, lasted)},{y(value)}" for t, value in points),
        "grid": [(y(0.0), "0"), (y(top), _number(top))],
    }


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.2g}"
