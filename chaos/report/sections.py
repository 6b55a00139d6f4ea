"""Sections that instruments bring, as data (:class:`chaos.checks.instrument.Section`), drawn for the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.checks import instruments
from chaos.checks.instrument import Curve, Section
from chaos.checks.record import Record
from chaos.report.observation import figure, marks, ticks

NUMBER = "#"
"""Trailing in the head of a column of numbers."""


def drawn(record: Record, tables: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every section that has something to show, in the order of the instruments."""
    found = (each.section(record, tables) for each in instruments.every() if each.section is not None)
    return [_drawn(section) for section in found if section is not None]


def _drawn(section: Section) -> dict[str, Any]:
    numbers = [name.endswith(NUMBER) for name in section.head]
    return {
        "id": section.id,
        "title": section.title,
        "short": section.short,
        "says": section.says,
        "gaps": section.gaps,
        "open": section.open,
        "head": [(name.removesuffix(NUMBER), number) for name, number in zip(section.head, numbers, strict=True)],
        "rows": [
            {"head": row.head, "says": row.says, "cells": list(zip(row.cells, numbers[1:], strict=False))}
            for row in section.rows
        ],
        "columns": len(section.head) - 1,
        "numbered": numbers[:1] == [True],
        "curves": [made for curve in section.curves if (made := _curve(curve, section.lasted)) is not None],
        "ticks": ticks(section.lasted),
        "edges": marks(section.edges, section.lasted),
        "small": section.small,
    }


def _curve(curve: Curve, lasted: float) -> dict[str, Any] | None:
    rates = [{"from": a, "to": b, "value": value} for a, b, value in curve.pieces]
    return figure(rates, "value", curve.title, curve.unit, lasted)
