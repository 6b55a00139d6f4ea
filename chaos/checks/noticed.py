"""Green counts only of a cluster that has noticed what was done to it, or must have (rules 2).

A node that answers nobody is a member until checks have given it up: until then the cluster is green, and a phase that
waits for green would be over before anything has happened. The runner waits for both (:mod:`chaos.run.noticing`) and
writes into ``phase.end`` which faults had to be noticed, and how long that may take by the cluster's own settings. Here
that is held against the events: a node left, or the health was no longer green, after the fault's command; or the phase
ended when that time was over. A condition that was not met is no weakness where the time was too short to tell, or
where a fault of ours kept nodes out of the cluster: then green could not come.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaos.base import text
from chaos.checks.record import SECOND, Record, Span
from chaos.history.events import ClusterStatus, FaultCommand, FaultUndo, NodeLeft, PhaseEnd

WORSE = ("yellow", "red")
SINCE = 2
"""The rules that ask for it first (:data:`chaos.history.format.RULES`)."""


@dataclass(frozen=True)
class Notice:
    """What had to be noticed of one fault: from ``since`` on (ns), or ``seconds`` after it was ``made`` (ns)."""

    fault: str
    since: int
    made: int
    seconds: float


def applies(record: Record) -> bool:
    """Whether the run is judged by the rules that ask for it."""
    return record.rules >= SINCE


def became_worse(record: Record, since: int, end: int) -> bool:
    """Whether a node left, or the health turned yellow or red, in [since, end] (ns)."""
    return any(
        since <= event.t <= end
        for event in record.seen(NodeLeft, ClusterStatus)
        if not isinstance(event, ClusterStatus) or event.status in WORSE
    )


def _end(record: Record, span: Span) -> PhaseEnd | None:
    return next((event for event in reversed(record.seen(PhaseEnd)) if event.phase == span.name), None)


def _due(record: Record, span: Span) -> list[Notice]:
    """Every fault of which the record says that it had to be noticed, and each that began in the phase.

    Of one that began in it and is not in the record nobody knows how long that takes: it must have been seen.
    """
    end = _end(record, span)
    given = (end.notices if end is not None else None) or ()
    found = {
        str(each["fault"]): Notice(str(each["fault"]), int(each["since"]), int(each["made"]), float(each["seconds"]))
        for each in given
    }
    for command in record.seen(FaultCommand, span=span):
        name, t = str(command.fault), command.t
        known = found.get(name)
        seconds = known.seconds if known is not None and known.seconds > 0 else float("inf")
        found[name] = Notice(name, t, max(t, known.made) if known is not None else t, seconds)
    return list(found.values())


def unnoticed(record: Record, span: Span) -> str | None:
    """Why green at the end of a phase says nothing yet, in words; None: all was noticed, or must have been."""
    for each in _due(record, span):
        if became_worse(record, each.since, span.end) or span.end - each.made >= each.seconds * SECOND:
            continue
        says = f"no node was seen to leave and no copy to be missing after {_words(record, each.fault)}"
        if each.seconds == float("inf"):
            return f"{says}, and how long this cluster may take to notice is not recorded"
        passed = text.seconds(max(0, span.end - each.made) / SECOND)
        return f"{says}: this cluster may take {text.seconds(each.seconds)} to notice, and {passed} had passed"
    if (why := _kept_out(record, span)) is not None:
        return f"{why}, so what was green was not this cluster as it was"
    return None


def could_not_come(record: Record, span: Span) -> str | None:
    """Why a condition that was not met says nothing of the cluster, in words; None: it says that it was not green."""
    if (why := _kept_out(record, span)) is not None:
        return f"{why} all the time"
    green = [event for event in record.seen(ClusterStatus) if event.t <= span.end]
    if green and green[-1].status == "green" and (why := unnoticed(record, span)):
        return f"the cluster was green at the end, and {why}"
    return None


def _kept_out(record: Record, span: Span) -> str | None:
    """Which fault of ours kept which nodes out of the cluster until the phase ended, in words."""
    end = _end(record, span)
    for fault, nodes in ((end.away if end is not None else None) or {}).items():
        if nodes and not _undone(record, str(fault), span.end):
            who = text.listed([str(node) for node in nodes])
            return f"{_words(record, str(fault))} kept {who} out of the cluster"
    return None


def _undone(record: Record, fault: str, end: int) -> bool:
    return any(event.fault == fault and event.t <= end for event in record.seen(FaultUndo))


def _words(record: Record, fault: str) -> str:
    command = next((each for each in record.of_kind("fault.command") if each.get("fault") == fault), None)
    return f"“{record.words(command)}”" if command is not None else fault
