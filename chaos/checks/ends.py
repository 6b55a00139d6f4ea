"""Did a process of the run end that nobody had asked to? A node that dies under a fault, or by somebody's hand.

A node that ended by itself (an exit code, an error that nothing catches, a report of its JVM) is a weakness, whatever
else was proven: the cluster lost a node that no fault had taken. Whatever was ended from outside, or nobody knows how,
spoils what was measured from then on; so does every instrument that is gone. A load driver or a controller that failed
by itself is our own error, which the run says too.

A pressure on a node's heap that ends the node has done more than it was to do: that is no find but a fault that was not
what was planned.
"""

from __future__ import annotations

from typing import Any

from chaos.base import text
from chaos.checks import disks
from chaos.checks import during as allowed
from chaos.checks.evidence import Gap, faults, unwatched
from chaos.checks.record import Record
from chaos.history import ends

OVERSHOOTING = "node.heap_pressure"
"""A kind of fault that may end the node that it is on, and starts it again."""


def gaps(record: Record) -> tuple[Gap, ...]:
    """Ends after which nothing measured counts; of the whole run where nobody watched."""
    found = [
        Gap(_says(record, event), int(event["t"]))
        for event in _unasked(record)
        if not _is_weakness(record, event) and not _is_error(event)
    ]
    return (*found, *unwatched(record, "watched", ends.WATCHED, ends.UNWATCHED, "whether a process ended"))


def weaknesses(record: Record) -> tuple[str, ...]:
    """Nodes that ended by themselves, in words."""
    return tuple(_says(record, event) for event in _unasked(record) if _is_weakness(record, event))


def table(record: Record) -> list[dict[str, Any]]:
    """Every end that nobody had asked for, in order; figures and words for the report. None is no entry."""
    return [
        {
            "at": record.since_start(int(event["t"])),
            "says": _says(record, event),
            "what": str(event.get("what")),
            "name": str(event.get("name")),
            "how": ends.how(event),
            "weakness": _is_weakness(record, event),
            "fatal": event.get("fatal"),
            "report": event.get("report"),
            "log_tail": [str(line) for line in event.get("log_tail") or []],
        }
        for event in _unasked(record)
    ]


def _unasked(record: Record) -> list[dict[str, Any]]:
    every = record.of_kind(ends.KIND)
    return [event for event in every if event.get("commanded") is not True and not allowed.allows(record, event)]


def _is_weakness(record: Record, event: dict[str, Any]) -> bool:
    itself = event.get("what") == "node" and ends.how(event) == ends.ITSELF and not _overshot(record, event)
    return itself and not _starved_of_disk(record, event)


def _starved_of_disk(record: Record, event: dict[str, Any]) -> bool:
    """Whether it ended on a disk of this machine that others had filled."""
    since = disks.short_since(record)
    return since is not None and int(event["t"]) >= since


def _is_error(event: dict[str, Any]) -> bool:
    return event.get("what") in ("driver", "controller") and ends.how(event) == ends.ITSELF


def _active(record: Record, t: int) -> list[Any]:
    """The faults that were commanded and not undone at a time, the latest first."""
    held = [fault for fault in faults(record) if fault.command <= t and (fault.undo is None or t <= fault.undo)]
    return sorted(held, key=lambda fault: -fault.command)


def _overshot(record: Record, event: dict[str, Any]) -> bool:
    return any(
        fault.kind == OVERSHOOTING and event.get("node") in fault.targets for fault in _active(record, int(event["t"]))
    )


def _says(record: Record, event: dict[str, Any]) -> str:
    """``Node a-data was ended from outside (SIGKILL), 4.2 s into “slow”, under “+300ms on links to zone c”``."""
    t = int(event["t"])
    words = ends.sentence(event)
    span = next((span for span in record.spans if span.holds(t)), None)
    if span is not None:
        words += f", {text.seconds((t - span.start) / 1e9)} into “{text.clip(span.name, 60)}”"
    elif (at := record.since_start(t)) is not None:
        words += f", {text.seconds(abs(at))} {'after' if at >= 0 else 'before'} the start of the load, in no phase"
    held = _active(record, t)
    if held:
        words += f", under “{text.clip(held[0].says, 90)}”"
    if _overshot(record, event):
        words += ", which was to fill its heap and not to end it"
    return words[:1].upper() + words[1:]
