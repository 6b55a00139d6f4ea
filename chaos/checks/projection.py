"""What each fault cost, what share of a month's error budget that is, and what a year of them would leave.

A fault's cost D is in outage-equivalent seconds (checks/outage.py) from the phase that injects it up to the next phase
that injects another, so its recovery is in it. Faults of one phase begin together and are one event. Its share of a
month's budget is D / ((1 - SLO) * 30 d) (the budget: Google, The Site Reliability Workbook,
chapter 2).

Projected availability of a year = 1 - sum over f of (rate_f * E[D_f]) / T, T one year. The rates
are the experiment's own statement (``rates``), never measured here; E[D_f] is the mean over the times that this run
injected f. The sum assumes that faults do not overlap, and that one run is typical: over repeated runs the mean of
their projections is the better figure. Faults without a stated rate are not in it, so it is never more than "of these
faults". Seconds in which the definition waits on purpose are in D here: they stand for the time until somebody acts.

A fault that was not proven, or whose phases did not run to their end, has no cost, and no projection stands on it.
One whose objective was not regained in the observation cost at least D: the projection is then "at most".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chaos.base import text
from chaos.checks import evidence, outage, regained
from chaos.checks.measure import Bound
from chaos.checks.record import Record, Span

YEAR = 365.25 * 24 * 3600.0
"""Seconds."""


@dataclass(frozen=True)
class Event:
    """The faults that one phase injects, as one event: their labels, and the phases up to the next event."""

    labels: tuple[str, ...]
    phases: tuple[str, ...]
    spans: tuple[Span, ...]
    gap: str | None
    """Why it has no cost; None when it has one."""


@dataclass(frozen=True)
class Cost:
    """Outage-equivalent seconds of one operation by one event; ``scripted`` is a part of ``lost``."""

    event: Event
    lost: float
    scripted: float
    bound: Bound


def events(record: Record) -> tuple[Event, ...]:
    """Every phase of the plan that injects something, with those that follow it."""
    groups: list[tuple[tuple[str, ...], list[str]]] = []
    for planned in record.planned_phases:
        labels = tuple(
            str(fault.get("name") or fault.get("kind")) for fault in planned.get("inject") or () if fault.get("kind")
        )
        if labels:
            groups.append((labels, []))
        if groups:
            groups[-1][1].append(str(planned["name"]))
    found = []
    proofs = evidence.faults(record)
    for labels, phases in groups:
        spans = [record.span(name) for name in phases]
        gap = next(
            (f"the phase {n} did not run to its end" for n, s in zip(phases, spans, strict=True) if not _ok(s)), None
        )
        here = [fault for fault in proofs if fault.phase == phases[0]]
        if gap is None and (not here or not all(fault.proven for fault in here)):
            gap = "it was not proven"
        found.append(Event(labels, tuple(phases), tuple(span for span in spans if span is not None), gap))
    return tuple(found)


def _ok(span: Span | None) -> bool:
    return span is not None and span.complete


def cost(record: Record, op: str, event: Event) -> Cost:
    """D of one event."""
    lost = {span.name: outage.in_phase(record, op, span) for span in event.spans}
    scripted = sum(lost[span.name] for span in event.spans if span.scripted_wait)
    back = regained.measure(record, op, event.spans[-1]) if event.spans else None
    seen = back is not None and back.value is not None and back.bound is Bound.EXACT
    return Cost(event, sum(lost.values()), scripted, Bound.EXACT if seen else Bound.AT_LEAST)


def table(record: Record, op: str) -> list[dict[str, Any]]:
    """Cost and budget share of every event, for one operation."""
    return [_row(cost(record, op, event)) for event in events(record)]


def _row(found: Cost) -> dict[str, Any]:
    event = found.event
    known = event.gap is None
    return {
        "faults": list(event.labels),
        "phases": list(event.phases),
        "lost_seconds": found.lost if known else None,
        "scripted_seconds": found.scripted if known else None,
        "bound": found.bound.value,
        "budget": outage.budget_shares(found.lost) if known else {},
        "says": event.gap
        or ("regained within the observation" if found.bound is Bound.EXACT else "not seen to be over: at least this"),
    }


def project(costs: dict[str, tuple[float, float]]) -> float:
    """Pure: label → (times per year, outage-equivalent seconds each) to the availability of a year, 0..1."""
    return max(0.0, 1.0 - sum(rate * lost for rate, lost in costs.values()) / YEAR)


def projection(record: Record, op: str) -> dict[str, Any] | None:
    """The projected availability of a year for one operation; None when the experiment states no rates."""
    rates: dict[str, Any] = (record.plan.get("experiment") or {}).get("rates") or {}
    if not rates:
        return None
    rows, used = [], {}
    bound, missing = "exact", []
    for label, per_year in rates.items():
        costs = [cost(record, op, event) for event in events(record) if label in event.labels]
        gaps = [each.event.gap for each in costs if each.event.gap] if costs else ["this run did not inject it"]
        row: dict[str, Any] = {
            "fault": str(label),
            "per_year": float(per_year),
            "lost_seconds": None,
            "occurrences": len(costs),
            "bound": Bound.EXACT.value,
        }
        if gaps:
            missing.append(f"{label}: {gaps[0]}")
        else:
            row["lost_seconds"] = sum(each.lost for each in costs) / len(costs)
            used[str(label)] = (float(per_year), row["lost_seconds"])
            if any(each.bound is not Bound.EXACT for each in costs):
                row["bound"], bound = Bound.AT_LEAST.value, "at_most"
        rows.append(row)
    if missing:
        return {"availability": None, "bound": "exact", "says": "; ".join(missing), "faults": rows}
    value = project(used)
    stated = text.listed([f"{label} {per_year:g} times a year" for label, (per_year, _) in used.items()])
    says = f"if the stated rates are right ({stated}) and nothing else fails"
    if bound == "at_most":
        says += "; at most, because a fault's loss was not seen to end"
    return {"availability": value, "bound": bound, "says": says, "faults": rows}
