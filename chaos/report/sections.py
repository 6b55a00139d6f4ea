"""Sections that checks and instruments bring, as data (:class:`chaos.checks.section.Section`), drawn for the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from chaos.base.errors import InvalidInput
from chaos.checks import catalogue, instruments
from chaos.checks.record import Record
from chaos.checks.section import Curve, Section
from chaos.report.observation import figure, marks, ticks

NUMBER = "#"
"""Trailing in the head of a column of numbers."""


def drawn(record: Record, tables: Mapping[str, Any], taken: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Every section that has something to show: those of checks in their order, then those of instruments in theirs.

    ``taken``: ids that the page itself has. Raises InvalidInput for an id that is there twice.
    """
    owners = dict.fromkeys(taken, "the page itself")
    found = []
    for owner, section in _brought(record, tables):
        if (other := owners.get(section.id)) is not None:
            raise InvalidInput(
                f"{owner} brings a section of the report with the id '{section.id}', which {other} has already",
                remedy="give it another id, or uninstall the package that brings it, and draw the report again",
            )
        owners[section.id] = owner
        found.append(_drawn(section))
    return found


def _brought(record: Record, tables: Mapping[str, Any]) -> Iterator[tuple[str, Section]]:
    """Each with what brings it, in words."""
    made = [(f"the check '{each.metric}'", each.section) for each in catalogue.checks().values()]
    made += [(f"the instrument '{each.name}'", each.section) for each in instruments.every()]
    for owner, section in made:
        if section is not None and (found := section(record, tables)) is not None:
            yield owner, found


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
