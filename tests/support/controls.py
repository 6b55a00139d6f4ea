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


def mutations() -> list[str]:
    """The rows of docs/controls.md of all metrics, from what each check's file says breaks it."""
    from chaos.base.operations import names
    from chaos.checks import catalogue
    from chaos.registry import WORKLOADS

    rows: dict[str, list[str]] = {}
    for metric, _, check in catalogue.metrics(names(WORKLOADS)):
        if check.trial is not None:
            said = "; ".join(each.__name__.replace("_", " ") for each in check.trial.broken_by)
            rows.setdefault(said, []).append(f"`{metric}`")
    return [f"| {', '.join(metrics)} | {said} |" for said, metrics in rows.items()]


HEAD = "| metric | mutations, each of which must be a weakness |"
REST = "| `until` (a phase's own condition)"


def markdown(text: str) -> str:
    """docs/controls.md with the rows of metrics as they are now."""
    before, head, after = text.partition(f"{HEAD}\n|---|---|\n")
    _, rest, end = after.partition(REST)
    return before + head + "\n".join(mutations()) + "\n" + rest + end


if __name__ == "__main__":
    DOC.write_text(markdown(DOC.read_text()))
    print(DOC)
