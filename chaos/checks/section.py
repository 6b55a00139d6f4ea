"""A section of the report as data: a check or an instrument brings one, and the page draws it.

It is made from the record and the tables of findings.json alone, so a redacted record gives a redacted section.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Curve:
    """One line over time. ``pieces``: (from, to, value), in seconds since the section's beginning."""

    title: str
    unit: str
    pieces: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True)
class Row:
    """``head`` and ``cells`` of a table; ``says`` instead of cells: one sentence over all of them."""

    head: str
    cells: tuple[str, ...] = ()
    says: str | None = None


@dataclass(frozen=True)
class Section:
    """A part of the report as data: the page draws it, and escapes all of it.

    ``id``: its anchor on the page, which no other section and no part of the page itself may have. ``short``: its name
    in the list of contents. ``gaps``: what is not known, set off. ``open``: what could not be judged, a line each.
    ``head``: of the table's columns, the first of them that of the rows' heads; a name with a trailing ``#`` is of
    numbers. ``edges``: named moments that curves are crossed by. ``small``: the small print.
    """

    id: str
    title: str
    short: str
    says: str
    gaps: str = ""
    open: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    curves: tuple[Curve, ...] = ()
    lasted: float = 0.0
    edges: tuple[tuple[str, float], ...] = ()
    small: str = ""
