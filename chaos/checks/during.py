"""Did what a phase waited for happen, that was not ours? And what may it do to the cluster while it lasts?

A command that failed or was not over in time, a person who never said that it is done, and a node that is not shown to
have another process afterwards are no test of anything. Nothing proves what was done where no node was named: it is
told so (grade ``reported``), and what was measured stands for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaos.base import text
from chaos.checks.evidence import Gap
from chaos.checks.record import SECOND, Record, Span
from chaos.history import during, ends

AFTER = 30.0
"""Seconds after it is over for which nodes that leave are still its own doing."""


@dataclass(frozen=True)
class Waited:
    """One phase's. ``over`` and ``proof`` None: never came. ``nodes``: whose processes it may end."""

    phase: str
    begun: Mapping[str, Any]
    over: Mapping[str, Any] | None
    proof: Mapping[str, Any] | None
    end: int

    @property
    def says(self) -> str:
        return str(self.begun.get("says"))

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(str(node) for node in self.begun.get("nodes") or ())

    def holds(self, t: int) -> bool:
        return int(self.begun["t"]) <= t <= self.end


def every(record: Record) -> list[Waited]:
    """Every phase that began to wait for others, in order."""
    found = []
    for begun in record.of_kind(during.BEGUN):
        span = next((each for each in record.spans if each.holds(int(begun["t"]))), None)
        if span is None:
            continue
        over, proof = (next(iter(record.within(span, kind)), None) for kind in (during.OVER, during.PROOF))
        found.append(Waited(span.name, begun, over, proof, span.end))
    return found


def of_phase(record: Record, span: Span) -> Waited | None:
    return next((each for each in every(record) if each.phase == span.name), None)


def gaps(record: Record) -> tuple[Gap, ...]:
    """What was to be waited for, and did not come to its end or is not shown to have happened."""
    found = []
    began = {each.phase: each for each in every(record)}
    for planned in record.planned_phases:
        wanted, span = planned.get("during"), record.span(str(planned["name"]))
        if not wanted or span is None:  # that it never ran is told elsewhere
            continue
        waited = began.get(span.name)
        if waited is None:
            found.append(Gap(f"in {span.name} nobody was waited for", span.start))
            continue
        since = int(waited.begun["t"])
        if waited.over is None or waited.over.get("ok") is not True:
            why = _why(waited.over)
            found.append(Gap(f"{waited.says}, in {span.name}: {why}", since))
        elif wanted.get("restarts") or waited.nodes:
            proven = waited.proof is not None and waited.proof.get("proven") is True
            named = (waited.proof or {}).get("nodes") or {}
            if not proven or not waited.nodes or any(node not in named for node in waited.nodes):
                why = "there is no evidence" if waited.proof is None else str(waited.proof.get("says"))
                found.append(Gap(f"{waited.says}, in {span.name}: not proven ({why})", since))
        elif waited.proof is not None and waited.proof.get("proven") is not True:
            found.append(Gap(f"{waited.says}, in {span.name}: {waited.proof.get('says')}", since))
    return tuple(found)


def _why(over: Mapping[str, Any] | None) -> str:
    if over is None:
        return "it has no end"
    last = over.get("last") or []
    return str(over.get("says") or "it failed") + (f": {text.clip(str(last[-1]), 200)}" if last else "")


def allows(record: Record, event: Mapping[str, Any]) -> bool:
    """Whether an end of a process is what a phase lets others do: of a node that it names, from outside, in it."""
    if event.get("what") != "node" or not event.get(during.ALLOWS):
        return False
    if ends.how(event) == ends.ITSELF or event.get("oom_kill"):
        return False
    return any(
        each.phase == event[during.ALLOWS] and event.get("name") in each.nodes and each.holds(int(event["t"]))
        for each in every(record)
    )


def explains(record: Record, node: str, at: int) -> bool:
    """Whether a node was out of the cluster at that moment because others restarted it."""
    return any(
        node in each.nodes and int(each.begun["t"]) <= at <= each.end + int(AFTER * SECOND) for each in every(record)
    )


def table(record: Record) -> list[dict[str, Any]]:
    """What was waited for, with all that was seen of it; figures and words for the report."""
    found = []
    for waited in every(record):
        span = record.span(waited.phase)
        assert span is not None
        seen = [
            {"at": record.since_start(int(event["t"])), "says": _seen(event)}
            for event in record.within(span, "cluster.node_left", "cluster.node_joined", during.SETTING)
        ]
        proof = waited.proof or {}
        for node, looks in (proof.get("nodes") or {}).items():
            was, now = (str((looks.get(key) or {}).get("version") or "") for key in ("before", "after"))
            if was and now and was != now:
                seen.append({"at": record.since_start(int(proof["t"])), "says": f"{node}: version {was}, then {now}"})
        over = waited.over or {}
        found.append(
            {
                "phase": waited.phase,
                "says": waited.says,
                "grade": str(waited.begun.get("grade")),
                "proven": proof.get("proven") is True if waited.nodes else None,
                "proof": str(proof["says"]) if proof else None,
                "ok": over.get("ok") is True,
                "ended": str(over["says"]) if over else None,
                "seconds": over.get("seconds"),
                "log": over.get("log"),
                "last": [str(line) for line in over.get("last") or []],
                "seen": seen,
            }
        )
    return found


def _seen(event: Mapping[str, Any]) -> str:
    if event["kind"] == during.SETTING:
        was, now = ("unset" if event.get(key) is None else str(event[key]) for key in ("before", "now"))
        return f"{event.get('name')}: {was}, then {now}"
    return f"{event.get('node')} {'left' if event['kind'] == 'cluster.node_left' else 'joined'}"
