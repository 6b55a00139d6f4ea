"""What was predicted of remote-backed storage, and what recorded runs say of it.

    python benchmarks/predictions.py     # writes the table of docs/remote-store.md

``docs/remote-store.yaml`` has the predictions, and by which experiments each is tried. What was seen is the newest
recorded run of each (``reports/results``); without one the row says so. That a prediction holds, or does not, may be
said only where a recorded run decided something, and says because of what.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import claims
import results
import yaml

ROOT = results.ROOT
SOURCE = ROOT / "docs" / "remote-store.yaml"
PAGE = ROOT / "docs" / "remote-store.md"
BEGIN, END = "<!-- predictions: made by python benchmarks/predictions.py -->", "<!-- end of predictions -->"
ANSWERS = ("holds", "does not hold", "partly")
FIELDS = {"id", "when", "predicted", "by"}
NONE = "no experiment yet"
NOT_RECORDED = "not recorded yet"


class PredictionError(Exception):
    """The file of predictions is wrong, or an answer has no recorded run."""


def read(file: Path = SOURCE) -> list[dict[str, Any]]:
    """Raises PredictionError for what is not as the file's head says."""
    found: list[dict[str, Any]] = yaml.safe_load(file.read_text())["predictions"]
    seen: set[str] = set()
    for row in found:
        if not set(row) >= FIELDS or set(row) - FIELDS - {"answer", "because"}:
            raise PredictionError(f"{row.get('id')}: a prediction has {', '.join(sorted(FIELDS))}, answer and because")
        if row["id"] in seen:
            raise PredictionError(f"{row['id']}: there are two of this id")
        seen.add(row["id"])
        for what in row["by"]:
            if not (ROOT / what).is_file():
                raise PredictionError(f"{row['id']}: there is no file {what}")
        if ("answer" in row) is not ("because" in row) or row.get("answer", ANSWERS[0]) not in ANSWERS:
            raise PredictionError(f"{row['id']}: an answer is one of {', '.join(ANSWERS)}, and says because of what")
    return found


def newest(what: str) -> dict[str, Any] | None:
    """The newest recorded run of an experiment or a file of tests that came to an end."""
    runs = {run["what"]: run for run in results.rows(claims.series_of(what))}
    run = runs.get(what)
    return run if run is not None and "ended" in run else None


def line(row: dict[str, Any]) -> str:
    """A row of the table. Raises PredictionError where it is answered without a run that decides anything."""
    recorded = {what: newest(what) for what in row["by"]}
    if "answer" in row:
        try:
            for what in row["by"] or [""]:
                claims.evidence(what)
        except claims.ClaimError as error:
            raise PredictionError(f"{row['id']}: {error}") from None
    seen = [f"{results.called(run)}: {run.get('summary', '')}" for run in recorded.values() if run is not None]
    says = [f"**{row['answer']}**: {row['because']}"] if "answer" in row else []
    evidence = [
        f"`{Path(what).stem}`"
        + (f", {run['began'][:10]}, {run['commit']}" if run is not None else f" ({NOT_RECORDED})")
        for what, run in recorded.items()
    ]
    cells = (row["when"], row["predicted"], ". ".join([*says, *seen]) or NOT_RECORDED, "; ".join(evidence) or NONE)
    return f"| {' | '.join(results.cell(cell, 600) for cell in cells)} |"


def table(found: list[dict[str, Any]]) -> str:
    head = ["| what happens | predicted | seen | evidence |", "|---|---|---|---|"]
    return "\n".join([*head, *(line(row) for row in found)])


def page(text: str, made: str) -> str:
    """The page with the table between its marks. Raises PredictionError where they are not there."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise PredictionError(f"{PAGE.name} has no place for the table: {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    try:
        PAGE.write_text(page(PAGE.read_text(), table(read())))
    except PredictionError as error:
        raise SystemExit(f"docs/remote-store.yaml: {error}") from None


if __name__ == "__main__":
    main()
