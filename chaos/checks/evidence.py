"""Did the experiment really happen? Proof of every fault, every step and every phase of the plan.

A fault counts as proven when the last evidence of both stages, ``effect`` and ``gone``, is a proof on the
data path; a fault that was never proven says nothing about the cluster, so nothing that was measured under
it may stand. Each proof holds for its moment: so there is a third stage,
``held``, right before the undo, and what was measured after the last moment at which everything was still shown
does not count where it is not proven (gone before its time, or elsewhere too). Records from before that stage
do not say that it is due. How sure a proof is, its grade says: below ``path`` (bytes through the very link, the
process's own state, a blocked fsync) nothing counts, but ``effect`` (what neighbours, clients or the cluster see) where
the target's own file accepts it. Records from before grades are of ``path``. A plan of which a step never ran is
vacuous: its run is not a pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from chaos.checks.record import SECOND, Record
from chaos.history.events import Abort, ActionCommand, ActionDone, Error, FaultCommand, FaultUndo, GuardTripped, RunEnd

REQUIRED = ("effect", "gone")
PATH = "path"
NEVER_ACCEPTED = "reported"
"""The provider's own word."""
LAST_LOOK_SECONDS = 10.0
"""From the last look at a fault that holds until its undo at most; it is a moment where nothing went wrong."""


class Spoils(StrEnum):
    """What a gap in the evidence takes the worth from."""

    ALL = "all"
    """What was planned is not known to have happened: nothing that was measured counts."""
    TIME = "time"
    """An instrument or the machine was not good enough: what depends on time does not count (good shares, recovery,
    latency). What is in the documents is there however busy the processors were."""
    DATA = "data"
    """Too little was asked of the data: what is said about documents does not count, the rest does."""


@dataclass(frozen=True)
class Gap:
    """Something that should have happened or been proven, and was not.

    From ``since`` on (ns; None: over the whole run) what was measured, of the kind that it ``spoils``, cannot be laid
    at the cluster's door.
    """

    says: str
    since: int | None
    spoils: Spoils = Spoils.ALL
    third_hand: bool = False
    """Whether an external actor did it who may have broken a promise about data himself: then not even that stands."""
    may_break: tuple[str, ...] | None = None
    """The metrics of data that he can have broken; None: all. Where some are named, of data no others are spoiled."""
    excused: tuple[str, ...] = ()
    """Metrics of data of which a failure may be his doing all the same, whatever else is spoiled."""

    def excuses(self, metric: str) -> bool:
        """Whether a failure of a metric of data may be the doing of an external actor."""
        broken = self.third_hand and (self.may_break is None or metric in self.may_break)
        return broken or metric in self.excused


@dataclass(frozen=True)
class FaultRecord:
    """One fault as it went. Times in ns, None where it never got there; ``stages``: the last evidence."""

    fault: str
    kind: str
    says: str
    colour: str | None
    targets: tuple[str, ...]
    links: tuple[str, ...]
    phase: str | None
    command: int
    in_effect: int | None
    undo: int | None
    gone: int | None
    stages: Mapping[str, Mapping[str, Any]]
    failures: tuple[str, ...]
    pulses: bool = False
    """It came and went, so each time must be proven."""
    held_due: bool = False
    """It had to be looked at again right before its undo; the record says so since there are such looks."""
    origin: int = 0
    """Second 0 of the run's axis."""
    provider: str | None = None
    """Who carried it out; older records do not say."""
    silences: tuple[str, ...] = ()
    """Nodes that nobody outside reaches while it holds, the runner neither, though it is a fault on links."""
    grade: str = PATH
    accepted: bool = True
    """Whether proofs of that grade count here."""

    @property
    def proven(self) -> bool:
        return not self.gaps

    @property
    def gaps(self) -> tuple[Gap, ...]:
        found = []
        due = {"effect": self.command, "gone": self.undo or self.gone or self.command, "pulses": self.command}
        for stage in (*REQUIRED, *(("pulses",) if self.pulses or "pulses" in self.stages else ())):
            evidence = self.stages.get(stage)
            if evidence is not None and evidence.get("proven") is True:
                continue
            why = str(evidence.get("says") or "the probes did not agree") if evidence else "there is no evidence"
            shown = {"effect": "in effect", "gone": "gone", "pulses": "in effect each time"}[stage]
            found.append(Gap(f"{self.says}: not proven to be {shown} ({why})", due[stage]))
        if (gap := self._not_held()) is not None:
            found.insert(0, gap)
        if not self.accepted:
            found.insert(0, Gap(f"{self.says}: {self._unaccepted}", self.command))
        return tuple(found)

    @property
    def _unaccepted(self) -> str:
        if self.grade == NEVER_ACCEPTED:
            return f"only {self.provider} itself says that it happened, which counts for nothing alone"
        return f"proven by what others see of it only (grade {self.grade}), and its target's file does not accept that"

    @property
    def window(self) -> tuple[int, int] | None:
        """(until when all of it was shown, when it first was not) in ns, of a fault that ended early or spread."""
        held = self.stages.get("held") or {}
        if held.get("proven") is not False:
            return None
        first = int(held.get("first") or held["t"])
        since = int(held.get("since") or self.in_effect or self.command)
        return min(since, first), first

    def _not_held(self) -> Gap | None:
        """What was proven to be in effect, and not to be so until its undo."""
        held = self.stages.get("held")
        if (window := self.window) is not None:
            assert held is not None
            how = "spread beyond what it names" if held.get("spread") is True else "gone before its time"
            a, b = ((t - self.origin) / SECOND for t in window)
            why = str(held.get("says") or "the probes did not agree")
            return Gap(f"{self.says}: {how}, between {a:.1f} s and {b:.1f} s of the run ({why})", window[0])
        proven = self.stages.get("effect", {}).get("proven") is True
        if not self.held_due or not proven or self.undo is None:
            return None  # not due, or there is a gap already
        last = int(held["t"]) if held is not None and held.get("proven") is True else None
        if last is not None and self.undo - last <= LAST_LOOK_SECONDS * SECOND:
            return None
        known = last or self.in_effect or self.command
        when = f"last seen at {(known - self.origin) / SECOND:.1f} s of the run" if last else "there is no evidence"
        return Gap(f"{self.says}: not proven to be in effect until its undo ({when})", known)


def faults(record: Record) -> tuple[FaultRecord, ...]:
    """Every fault that was commanded, in order."""
    found = []
    accepts = (record.plan.get("lab") or {}).get("accepts") or ()
    for command in record.of_kind("fault.command"):
        name = command["fault"]
        own = [event for event in record.events if event.get("fault") == name]

        def when(kind: str, events: list[dict[str, Any]] = own) -> int | None:
            return next((int(event["t"]) for event in events if event["kind"] == kind), None)

        stages = {
            str(event.get("stage")): event for event in own if event["kind"] == "fault.evidence"
        }  # later evidence of a stage replaces earlier: probes are repeated until they agree …
        for event in own:  # … but what ended early has ended, whatever is seen afterwards
            if event["kind"] == "fault.evidence" and event.get("stage") == "held" and event.get("proven") is False:
                stages["held"] = event
                break
        phase = next((span.name for span in record.spans if span.holds(int(command["t"]))), None)
        found.append(
            FaultRecord(
                fault=str(name),
                kind=str(command.get("fault_kind") or "fault"),
                says=str(command.get("says") or command.get("fault_kind") or name),
                colour=command.get("colour"),
                targets=tuple(str(target) for target in command.get("targets") or ()),
                links=tuple(" → ".join(map(str, link)) for link in command.get("links") or ()),
                phase=phase,
                command=int(command["t"]),
                in_effect=when("fault.in_effect"),
                undo=when("fault.undo"),
                gone=when("fault.gone"),
                stages=stages,
                pulses=command.get("pulses") is True,
                held_due=command.get("held") is True and _in_order(record),
                origin=record.origin,
                provider=command.get("provider"),
                silences=tuple(str(node) for node in command.get("silences") or ()),
                grade=(grade := str(command.get("grade") or PATH)),
                accepted=grade == PATH or (grade != NEVER_ACCEPTED and grade in accepts),
                failures=tuple(
                    f"{event.get('stage')}: {event.get('says')}" for event in own if event["kind"] == "fault.failed"
                ),
            )
        )
    return tuple(found)


KILLING = ("node.kill", "node.stop", "node.loss", "zone.power_loss")
"""Kinds whose proof of effect is that the processes of their targets are gone."""


def ended(record: Record) -> dict[str, list[int]]:
    """Node → the moments at which its process was proven to be gone, because a fault of the run had ended it. A fault
    that comes and goes proves nothing of the time between."""
    found: dict[str, list[int]] = {}
    for fault in faults(record):
        if fault.kind in KILLING and fault.in_effect is not None and not fault.pulses:
            for node in fault.targets:
                found.setdefault(node, []).append(fault.in_effect)
    return found


def ended_between(ended: Mapping[str, list[int]], node: str, since: int, until: int) -> int | None:
    """When a node's process was last proven to be gone in [since, until) (ns); None: it was not. ``ended``: of
    :func:`ended`."""
    return max((at for at in ended.get(node, ()) if since <= at < until), default=None)


def _in_order(record: Record) -> bool:
    """Whether the run was undone in order: an abort, or an error, undoes at once and looks at nothing before."""
    end = next(iter(record.seen(RunEnd)), None)
    return end is not None and end.reason == "finished" and not record.seen(Abort, GuardTripped, Error)


def step_gaps(record: Record) -> tuple[Gap, ...]:
    """Phases that did not run to their end, and planned steps of phases that ran without a trace of them."""
    gaps = []
    for planned in record.planned_phases:
        name = planned["name"]
        span = record.span(name)
        if span is None:
            gaps.append(Gap(f"the phase {name} never ran", record.last_seen))
            continue
        if not span.complete:
            how = f"ended as {span.reason}" if span.reason else "has no end"
            gaps.append(Gap(f"the phase {name} {how}", span.start))
        undo, commands = planned.get("undo") or [], record.seen(ActionCommand, span=span)
        wanted = {  # one that is recorded twice is one
            "inject": (len(planned.get("inject") or []), {each.fault for each in record.seen(FaultCommand, span=span)}),
            "action": (len(planned.get("do") or []), {each.action for each in commands}),
            "undo": (1 if "all" in undo else len(undo), {each.fault for each in record.seen(FaultUndo, span=span)}),
        }
        for step, (expected, found) in wanted.items():
            if (seen := len(found)) < expected:
                gaps.append(Gap(f"in {name} only {seen} of {expected} planned {step} steps are recorded", span.start))
        for command in commands:
            done = [each for each in record.seen(ActionDone) if each.action == command.action]
            if done and done[-1].incomplete is True:
                continue  # it happened; what is missing from it is for a check (:mod:`.restores`)
            if not done or done[-1].ok is not True:
                why = str(done[-1].says or "") if done else "it has no end"
                says = f"{command.says or command.action}: the action did not succeed ({why})"
                gaps.append(Gap(says, command.t))
    return tuple(gaps)


def unwatched(record: Record, due: str, watched: str, until: str, what: str) -> list[Gap]:
    """Nobody watched ``what``, or not to the end.

    ``watched`` and ``until`` are the kinds of the events that say from when and until when. ``due`` is the plan's word
    that they must be there; a history from before they were recorded says nothing about it.
    """
    if not record.plan.get(due):
        return []
    began, over = record.first(watched), record.first(until)
    if began is None:
        # before the load there was nothing to watch yet
        return [] if record.first("load.start") is None else [Gap(f"Nobody watched {what}", None)]
    if over is not None and over.get("because"):
        return [Gap(f"From some time on nobody watched {what} ({over['because']})", int(began["t"]))]
    if over is None and record.first("run.end") is not None:
        return [Gap(f"Nobody knows until when it was watched {what}", int(began["t"]))]
    return []


def vacuous_operations(record: Record) -> tuple[Gap, ...]:
    """Operations that never once succeeded: whatever holds for them holds for nothing."""
    return tuple(
        Gap(f"no {op.name} was ever good, so nothing was shown about {op.name}s", None)
        for op in record.operations
        if not record.arrivals[op.name].counts[:, 1].any()
    )
