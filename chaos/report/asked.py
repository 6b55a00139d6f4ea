"""Who was asked how often, as rows: each kind of request, phase and data node; see :mod:`chaos.checks.coverage`."""

from __future__ import annotations

from typing import Any

from chaos.base import text


def section(tables: dict[str, Any]) -> dict[str, Any] | None:
    """What the page shows of ``tables.coverage``; None: the history does not say who the targets were."""
    given = tables.get("coverage")
    if not isinstance(given, dict):
        return None
    nodes = [str(node) for node in given.get("nodes") or ()]
    rows: list[dict[str, Any]] = [
        {"kind": str(kind), "phase": str(phase), "cells": [_cell(by_node.get(node) or {}) for node in nodes]}
        for kind, phases in (given.get("operations") or {}).items()
        for phase, by_node in phases.items()
    ]
    few = sum(cell["few"] for row in rows for cell in row["cells"])
    return {
        "nodes": nodes,
        "rows": rows,
        "says": str(given.get("says") or ""),
        "enough": given.get("enough"),
        "few": f"{text.plural(few, 'cell')} with too few" if few else "none with too few",
    }


def _cell(row: dict[str, Any]) -> dict[str, Any]:
    asked, answered, due = (int(row.get(name) or 0) for name in ("asked", "answered", "due"))
    shown = text.count(asked) if asked == answered else f"{text.count(asked)}, {text.count(answered)} answered"
    few = row.get("enough") is False
    if few:
        shown = f"{'never' if not asked else shown}; {text.count(due)} are needed"
    return {"text": shown if asked or few else "-", "few": few}
