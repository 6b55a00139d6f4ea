"""The page of a scorecard by target: one file, which needs nothing beside it."""

from __future__ import annotations

from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from chaos.report import overview
from chaos.statistics.by_target import Row, Standing, Targets

MARK = {
    Standing.BROKEN: "weakness",
    Standing.KNOWN: "known_weakness",
    Standing.NEVER: "inconclusive",
    Standing.OPEN: "inconclusive",
    Standing.EXPIRED: "inconclusive",
    Standing.PROVEN: "pass",
}
"""Standing → the outcome whose mark and colour it has."""
NOT_RECORDED = "not on record"


def targets_page(found: Targets, file: Path, command: str) -> Path:
    """Draw it into ``file``. ``command``: what makes the page again. Raises OSError when it cannot be written."""
    clusters = groupby(found.rows, key=lambda row: (row.cluster, row.identity))
    return overview.write(
        "targets.html.j2",
        file,
        outcome=found.outcome.value,
        heading=found.sentence,
        days=found.valid.days,
        now=day(found.now),
        clusters=[
            {"name": name, "identity": identity or NOT_RECORDED, "rows": [_row(row) for row in rows]}
            for (name, identity), rows in clusters
        ],
        left_out=found.left_out,
        command=command,
    )


def day(moment: datetime | None) -> str:
    """``2026-11-28``, in UTC."""
    return "never" if moment is None else f"{moment:%Y-%m-%d}"


def _row(row: Row) -> dict[str, Any]:
    return {
        "experiment": row.experiment,
        "promise": row.promise,
        "mark": MARK[row.standing],
        "standing": str(row.standing),
        "last_proven": day(row.last_proven),
        "expires": day(row.expires),
        "owner": row.owner or NOT_RECORDED,
        "last_run": day(row.last_run),
        "last": row.last,
        "runs": row.runs,
        "of_day": row.day or "",
    }
