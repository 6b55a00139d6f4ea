"""The tables of docs/controls.md, for the tests that hold them against what is there."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
DOC = ROOT / "docs" / "controls.md"


def tables(text: str) -> list[list[list[str]]]:
    """The rows of each table of a Markdown text, cell by cell, without head and rule."""
    found: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        if not inside:
            found.append([])
        inside = True
        found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
    return [rows[2:] for rows in found]


PLANTED = {control.strip("`"): finding.strip("`") for _, _, finding, control in tables(DOC.read_text())[0]}
"""Each control in experiments/controls and the id of the finding that must be a weakness."""
