"""The shares of answers within several limits side by side (:mod:`chaos.checks.within`), for page and summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chaos.base import text
from chaos.checks.models import FindingsFile
from chaos.checks.validity import STEADY

MARK = "◆"
"""Beside the share within the objective, the one that is judged."""
SHORT = 12
"""Rows that a summary has room for."""


def section(tables: dict[str, Any]) -> dict[str, Any] | None:
    """Columns and rows of the table; None where nothing was counted."""
    found = tables.get("within") or {}
    limits = [float(limit) for limit in found.get("limits") or []]
    rows = [
        {
            "op": f"{op}s",
            "phase": phase,
            "scheduled": row["scheduled"],
            "objective": text.seconds(given["objective"]),
            "cells": [
                {
                    "text": text.percent(share) if share is not None else text.NO_VALUE,
                    "is_objective": limit == given["objective"],
                    "bad": limit == given["objective"] and share is not None and share < STEADY,
                }
                for limit, share in zip(limits, row["shares"], strict=True)
            ],
        }
        for op, given in (found.get("operations") or {}).items()
        for phase, row in given["phases"].items()
    ]
    return {"limits": [_limit(limit) for limit in limits], "rows": rows, "mark": MARK} if rows else None


def _limit(seconds: float) -> str:
    """In milliseconds up to a second, so that the columns read as one scale."""
    return f"{seconds * 1000:,.6g} ms".replace(",", "\u00a0") if seconds <= 1 else text.seconds(seconds)


def markdown(tables: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The table's rows, head first, when it is short enough for a summary."""
    shown = section(tables)
    if shown is None or len(shown["rows"]) > SHORT:
        return
    yield ("answered fully within", *shown["limits"])
    for row in shown["rows"]:
        cells = (f"{each['text']} {MARK}" if each["is_objective"] else each["text"] for each in row["cells"])
        yield (f"{row['op']}, {row['phase']}", *cells)


def objectives(findings: FindingsFile) -> dict[str, str]:
    """Operation to its objective in words: ``100 ms``, and where the command line gave it, what the file says."""
    found = {}
    for op, given in ((findings.get("run") or {}).get("objectives") or {}).items():
        whose = given.get("in_file")
        says = f", given on the command line; the file says {text.seconds(whose)}" if whose is not None else ""
        found[str(op)] = f"{text.seconds(given['within'])}{says}"
    return found


def given(findings: FindingsFile) -> list[str]:
    """A sentence for each objective that is not the file's."""
    known = (findings.get("run") or {}).get("objectives") or {}
    return [
        f"{op}s: objective {words}" for op, words in objectives(findings).items() if known[op]["in_file"] is not None
    ]


def second_of(findings: FindingsFile) -> str | None:
    """What is said of a run that repeats an inconclusive one; None of any other."""
    first = (findings.get("run") or {}).get("second_of")
    if not isinstance(first, dict):
        return None
    return (
        f"Second of two runs ({first.get('option')}): the first, {first.get('run')}, was {first.get('outcome')}: "
        f"{first.get('says')}"
    )
