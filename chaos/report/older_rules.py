"""A run that was recorded under older rules: its verdict stays, and the page lists what the newest would add."""

from __future__ import annotations

from typing import Any

from chaos.checks.models import FindingsFile

SHOWN = 12
"""Reasons that the page shows; the rest is in findings.json."""


def section(findings: FindingsFile) -> dict[str, Any] | None:
    """``says`` and ``lines`` for the page; None for a run that was judged by the newest rules."""
    rules = findings.get("rules") or {}
    if "would_add" not in rules:
        return None
    added = rules["would_add"]
    lines = [f"{reason['outcome']}: {reason['says']}" for reason in added[:SHOWN]]
    if len(added) > SHOWN:
        lines.append(f"and {len(added) - SHOWN} more, in findings.json")
    would_be = rules["would_be"]
    outcome = f"would also be {would_be}" if would_be == findings["outcome"] else f"would be {would_be}"
    more = "They would add:" if lines else "They would add nothing."
    return {
        "says": f"This run was recorded before rules {rules['newest']} and is judged by rules {rules['judged_by']}.",
        "more": f"Under rules {rules['newest']} it {outcome}. {more}",
        "lines": lines,
    }
