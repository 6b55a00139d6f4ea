"""The published table of monitoring calls as a picture, and beside it what was measured here.

Two panels, each with its own axis: the published figures are highest values of all eight processors of a manager, ours
are means of one processor, so shapes may be compared and heights may not. Written by ``manager_sizes.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 430.0, 300.0, 52.0, 12.0, 62.0, 58.0
COLOURS = ("#8a8f98", "#1f6feb")
STEPS = 4
"""Lines across a panel, above its zero."""


@dataclass(frozen=True)
class Panel:
    """Bars in groups. ``bars``: name → one value of each group, in %; ``reach``: how far the interval of each goes to
    both sides, by the same names; left out where there is none."""

    title: str
    below: str
    groups: Sequence[str]
    bars: Mapping[str, Sequence[float]]
    reach: Mapping[str, Sequence[float]]

    def reach_of(self, name: str, place: int) -> float:
        return self.reach[name][place] if name in self.reach else 0.0


def top_of(panel: Panel) -> float:
    """The upper end of its axis: the next round number above all that is drawn."""
    most = max(
        value + panel.reach_of(name, place) for name, values in panel.bars.items() for place, value in enumerate(values)
    )
    size = 0.1
    while True:
        for step in (1.0, 2.0, 2.5, 5.0):
            if most <= size * step * STEPS:
                return size * step * STEPS
        size *= 10


def drawn(panel: Panel, left: float) -> str:
    """A panel as SVG, ``left`` px from the picture's edge."""
    top, high, wide = top_of(panel), HEIGHT - TOP - BOTTOM, WIDTH - LEFT - RIGHT
    at = lambda value: round(TOP + high * (1 - value / top), 1)  # noqa: E731
    parts = [f'<text x="{LEFT}" y="16" class="title">{escape(panel.title)}</text>']
    for step in range(STEPS + 1):
        y = at(top * step / STEPS)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" class="{"grid" if step else "zero"}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" class="end">{top * step / STEPS:g} %</text>')
    group = wide / len(panel.groups)
    bar = min(46.0, group * 0.8 / len(panel.bars))
    for number, (name, values) in enumerate(panel.bars.items()):
        colour = COLOURS[number]
        legend = LEFT + 190 * number
        parts.append(f'<rect x="{legend}" y="26" width="11" height="11" fill="{colour}"/>')
        parts.append(f'<text x="{legend + 16}" y="36">{escape(name)}</text>')
        for place, value in enumerate(values):
            x = round(LEFT + group * (place + 0.5) + bar * (number - len(panel.bars) / 2), 1)
            y = at(value)
            parts.append(
                f'<rect x="{x}" y="{y}" width="{bar - 3:.1f}" height="{TOP + high - y:.1f}" fill="{colour}">'
                f"<title>{escape(name)}, {escape(panel.groups[place])}: {value:.2f} %</title></rect>"
            )
            reach, middle = panel.reach_of(name, place), round(x + (bar - 3) / 2, 1)
            above, below = at(value + reach), at(max(0.0, value - reach))
            if name in panel.reach:
                parts.append(f'<line x1="{middle}" x2="{middle}" y1="{above}" y2="{below}" class="reach"/>')
            words = f"{value:.1f}" if name in panel.reach else f"{value:g}"
            parts.append(f'<text x="{middle}" y="{above - 4:.1f}" class="middle">{words}</text>')
    for place, words in enumerate(panel.groups):
        x = LEFT + group * (place + 0.5)
        parts.append(f'<text x="{x:.1f}" y="{TOP + high + 18:.1f}" class="middle">{escape(words)}</text>')
    parts.append(f'<text x="{LEFT + wide / 2:.1f}" y="{HEIGHT - 10}" class="middle">{escape(panel.below)}</text>')
    return f'<g transform="translate({left:g} 0)">' + "\n".join(parts) + "</g>"


def picture(panels: Sequence[Panel]) -> str:
    """All panels side by side as an SVG file, which needs nothing beside it."""
    whole = WIDTH * len(panels)
    words = ". ".join(f"{panel.title}: {_spoken(panel)}" for panel in panels)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole:g} {HEIGHT:g}" width="{whole:g}" role="img">
<title>{escape(words)}</title>
<style>
text {{ font: 12px system-ui, sans-serif; fill: #24292f; }} .title {{ font-weight: 600; font-size: 13px; }}
.end {{ text-anchor: end; }} .middle {{ text-anchor: middle; }}
.grid {{ stroke: #d8dee4; }} .zero, .reach {{ stroke: #24292f; }}
</style>
<rect width="{whole:g}" height="{HEIGHT:g}" fill="#fff"/>
{chr(10).join(drawn(panel, WIDTH * place) for place, panel in enumerate(panels))}
</svg>
"""


def _spoken(panel: Panel) -> str:
    return "; ".join(f"{name} {', '.join(f'{value:.3g} %' for value in values)}" for name, values in panel.bars.items())
