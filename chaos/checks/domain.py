"""What AWS said of the domain, for the report: beside the findings, and none is judged by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.checks.record import Record
from chaos.history import domain


def table(record: Record) -> dict[str, Any] | None:
    """``zones``: their names. ``rows``: every answer that was another one than before, ``at`` seconds since the load
    began: ``cluster``, ``copies`` that are unassigned, and of each zone its words; or ``why`` nobody answered. None: it
    is no domain."""
    events = record.of_kind(domain.HEALTH)
    zones = sorted({name for event in events for name in _zones(event)})
    rows = [{"at": record.since_start(int(event["t"])), **_row(event, zones)} for event in events]
    return {"zones": zones, "rows": rows} if rows else None


def _row(event: Mapping[str, Any], zones: list[str]) -> dict[str, Any]:
    said = event.get("said")
    if not isinstance(said, Mapping):
        return {"why": str(event.get("why"))}
    states = (said.get("DomainState"), "" if said.get("MasterNode") == "Available" else "no master node")
    words = [str(said.get("ClusterHealth")), *(str(state) for state in states if state not in ("Active", ""))]
    told = _zones(event)
    return {
        "cluster": ", ".join(words),
        "copies": str(said.get("TotalUnAssignedShards")),
        "zones": [_zone(told[name]) if name in told else "-" for name in zones],
    }


def _zones(event: Mapping[str, Any]) -> Mapping[str, Any]:
    said = event.get("said")
    found = said.get("zones") if isinstance(said, Mapping) else None
    items = found.items() if isinstance(found, Mapping) else ()
    return {str(name): each for name, each in items if isinstance(each, Mapping)}


def _zone(said: Mapping[str, Any]) -> str:
    return f"{said.get('ZoneStatus')}, {said.get('AvailableDataNodeCount')} of {said.get('ConfiguredDataNodeCount')}"
