"""The audit's rows, as a page of their own and as a section of a run's report, from their JSON alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.report import overview

MARKS = {
    "ok": ("pass", "✓", "ok"),
    "info": ("none", "i", "worth knowing"),
    "warn": ("known_weakness", "!", "warning"),
    "unknown": ("inconclusive", "?", "unknown"),
    "fail": ("weakness", "✗", "fails"),
}
"""Status → how it is drawn (style.css), its mark and its word."""


def rows(audit: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """What the table shows, the worst first; empty where there was no audit."""
    found = []
    for row in (audit or {}).get("rows") or []:
        if not isinstance(row, dict):
            continue
        kind, mark, word = MARKS.get(str(row.get("status")), MARKS["unknown"])
        source = row.get("source") or {}
        url = str(source.get("url") or "")
        found.append(
            {
                **{name: str(row.get(name) or "") for name in ("title", "value", "rule", "remedy")},
                "commands": [str(each) for each in row.get("commands") or []],
                "kind": kind,
                "mark": mark,
                "word": word,
                "source": str(source.get("title") or ""),
                "url": url if url.startswith("https://") else None,  # never another scheme
            }
        )
    found = _folded(found)
    order = ["weakness", "known_weakness", "inconclusive", "none", "pass"]
    return sorted(found, key=lambda row: order.index(row["kind"]))


def _folded(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is unknown is one row: which rows, and why."""
    unknown = [row for row in found if row["kind"] == "inconclusive"]
    if len(unknown) < 2:
        return found
    why = "; ".join(dict.fromkeys(row["value"] for row in unknown))
    one = unknown[0] | {
        "title": f"{len(unknown)} rows are unknown",
        "value": f"{', '.join(row['title'] for row in unknown)}: {why}",
        "rule": "What could not be read never passes.",
        "remedy": "Let the audit read it, or ask a living cluster.",
        "source": "docs/audit.md",
        "url": None,
        "commands": [],
    }
    return [row for row in found if row["kind"] != "inconclusive"] + [one]


def audit_page(audit: Mapping[str, Any], file: Path) -> Path:
    """Draw the page of an audit into ``file``. Raises OSError when it cannot be written."""
    return overview.write(
        "audit.html.j2",
        file,
        outcome=audit["outcome"],
        heading=f"{audit['of']}: {audit['summary']}",
        workload=audit["workload"],
        rows=rows(audit),
    )
