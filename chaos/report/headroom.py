"""The section on processors: what each zone's data nodes used, held against the rule for the loss of a zone."""

from __future__ import annotations

from typing import Any

from chaos.base import text
from chaos.checks.record import Record
from chaos.opensearch.checklist import AVAILABILITY, CPU_MOST, CPU_OK, grade
from chaos.report.audit import MARKS


def section(record: Record, tables: dict[str, Any]) -> dict[str, Any] | None:
    """What the page shows; None for a run without samples of it."""
    found = tables.get("cpu")
    if not found:
        return None
    phases = [item["name"] for item in tables["phases"]]
    out = found.get("lost") or {}
    zones, idle = found.get("zones") or {}, found.get("idle") or {}
    loss = {phase: _loss(item) for phase, item in (found.get("loss") or {}).items() if item}
    return {
        "rule": rule(len(zones)),
        "source": AVAILABILITY,
        "before": _before(record, found, loss),
        "shared": _shared(found),
        "phases": phases,
        "zones": [
            (
                zone,
                [_cell(shares, phase, "out" if zone in out.get(phase, ()) else "not all the time") for phase in phases],
            )
            for zone, shares in zones.items()
        ],
        "loss": [loss.get(phase) for phase in phases],
        "idle": [_cell(idle, phase, text.NO_VALUE) for phase in phases] if idle else [],
    }


def rule(zones: int) -> str:
    """The rule for a number of zones that have data nodes, in words."""
    says = (
        "When one of N zones that serve is lost, the work of the others grows by N / (N - 1). "
        f"They should then use up to {CPU_OK:.0f} % of their processors; up to {CPU_MOST:.0f} % is a warning."
    )
    if zones < 2:
        return f"{says} Here nothing would be left."
    low, high = (limit * (zones - 1) / zones for limit in (CPU_OK, CPU_MOST))
    return f"{says} With {zones} zones alike that is up to {low:.0f} %, {high:.0f} % at most, while all of them serve."


def _cell(shares: dict[str, Any], phase: str, absent: str) -> str:
    if phase not in shares:
        return absent
    return text.NO_VALUE if shares[phase] is None else text.percent(shares[phase])


def _loss(item: dict[str, Any]) -> dict[str, Any]:
    kind, mark, word = MARKS[grade(100 * item["share"], CPU_OK, CPU_MOST)]
    how = "measured" if item["measured"] else "reckoned"
    shown = text.percent(item["share"]) if item["share"] <= 1 else "> 100 %"
    return {"text": shown, "how": how, "kind": kind, "mark": mark, "word": word}


def _before(record: Record, found: dict[str, Any], loss: dict[str, Any]) -> dict[str, Any] | None:
    """The last phase before the first fault of which everything is known."""
    for span in reversed(record.healthy):
        if now := loss.get(span.name):
            shares = [share[span.name] for share in found["zones"].values() if share.get(span.name) is not None]
            says = (
                f"Before the first fault, in {text.clip(span.name, 60)}, the busiest zone used "
                f"{text.percent(max(shares))} of its processors; without one zone that would be {now['text']}: "
                f"{now['word']}"
            )
            return {**now, "says": says}
    return None


def _shared(found: dict[str, Any]) -> str | None:
    if not found.get("shared"):
        return None
    number = text.plural(found["machine"], "processor") if found.get("machine") else "processors"
    return f"The nodes of this lab share the {number} of one machine."
