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
from chaos.history.events import DuringBegun, DuringOver, DuringProof, DuringSetting, NodeJoined, NodeLeft

AFTER = 30.0
"""Seconds after it is over for which nodes that leave are still its own doing."""


@dataclass(frozen=True)
class Waited:
    """One phase's. ``over`` and ``proof`` None: never came. ``nodes``: whose processes it may end."""

    phase: str
    begun: DuringBegun
    over: DuringOver | None
    proof: DuringProof | None
    end: int

    @property
    def says(self) -> str:
        return str(self.begun.says)

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(str(node) for node in self.begun.nodes or ())

    def holds(self, t: int) -> bool:
        return self.begun.t <= t <= self.end


def every(record: Record) -> list[Waited]:
    """Every phase that began to wait for others, in order."""
    found = []
    for begun in record.seen(DuringBegun):
        span = next((each for each in record.spans if each.holds(begun.t)), None)
        if span is None:
            continue
        over = next(iter(record.seen(DuringOver, span=span)), None)
        proof = next(iter(record.seen(DuringProof, span=span)), None)
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
        since, proof = waited.begun.t, waited.proof
        if waited.over is None or waited.over.ok is not True:
            why = _why(waited.over)
            found.append(Gap(f"{waited.says}, in {span.name}: {why}", since))
        elif wanted.get("restarts") or waited.nodes:
            proven = proof is not None and proof.proven is True
            named = (proof.nodes if proof is not None else None) or {}
            if not proven or not waited.nodes or any(node not in named for node in waited.nodes):
                why = "there is no evidence" if proof is None else str(proof.says)
                found.append(Gap(f"{waited.says}, in {span.name}: not proven ({why})", since))
        elif proof is not None and proof.proven is not True:
            found.append(Gap(f"{waited.says}, in {span.name}: {proof.says}", since))
    return tuple(found)


def _why(over: DuringOver | None) -> str:
    if over is None:
        return "it has no end"
    last = over.last or []
    return str(over.says or "it failed") + (f": {text.clip(str(last[-1]), 200)}" if last else "")


def allows(record: Record, event: Mapping[str, Any]) -> bool:
    """Whether an end of a process, or its pause, is what a phase lets others do: of a node that it names, from outside,
    in it."""
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
    return any(node in each.nodes and each.begun.t <= at <= each.end + int(AFTER * SECOND) for each in every(record))


def table(record: Record) -> list[dict[str, Any]]:
    """What was waited for, with all that was seen of it; figures and words for the report."""
    found = []
    for waited in every(record):
        span = record.span(waited.phase)
        assert span is not None
        happened: list[NodeLeft | NodeJoined | DuringSetting] = record.seen(
            NodeLeft, NodeJoined, DuringSetting, span=span
        )
        seen = [{"at": record.since_start(event.t), "says": _seen(event)} for event in happened]
        over, proof = waited.over, waited.proof
        for node, looks in ((proof.nodes if proof is not None else None) or {}).items():
            was, now = (str((looks.get(key) or {}).get("version") or "") for key in ("before", "after"))
            if was and now and was != now:
                assert proof is not None
                seen.append({"at": record.since_start(proof.t), "says": f"{node}: version {was}, then {now}"})
        found.append(
            {
                "phase": waited.phase,
                "says": waited.says,
                "grade": str(waited.begun.grade),
                "proven": (proof is not None and proof.proven is True) if waited.nodes else None,
                "proof": str(proof.says) if proof is not None else None,
                "ok": over is not None and over.ok is True,
                "ended": str(over.says) if over is not None else None,
                "seconds": over.seconds if over is not None else None,
                "log": over.log if over is not None else None,
                "last": [str(line) for line in (over.last if over is not None else None) or []],
                "seen": seen,
            }
        )
    return found


def _seen(event: NodeLeft | NodeJoined | DuringSetting) -> str:
    if isinstance(event, DuringSetting):
        was, now = ("unset" if value is None else str(value) for value in (event.before, event.now))
        return f"{event.name}: {was}, then {now}"
    return f"{event.node} {'left' if isinstance(event, NodeLeft) else 'joined'}"
