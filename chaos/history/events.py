"""The catalogue of events: a class for each kind that a run's ``events.jsonl`` may hold, for writer and reader alike.

A writer makes one and writes it (``ClusterLeader(leader=name).write(events)``); its fields are the keys of the line in
their order, after ``t``, ``wall`` and ``kind``. A reader asks for a class (``record.seen(ClusterLeader)``). Of a line
that lacks a key (an earlier version's, or one of a dead run) that field is None, whatever its type says.

Events of an instrument that writes a file of its own are described where that file is written; its classes may stand
there, as subclasses of :class:`Event`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, Self

from chaos.history.writer import Events

LEFT_OUT: Final[Any] = type("LeftOut", (), {"__repr__": lambda self: "LEFT_OUT", "__bool__": lambda self: False})()
"""Of a field whose key is not written at all."""
KINDS: dict[str, type[Event]] = {}
"""Kind → its class."""
_NAMES: dict[str, tuple[str, ...]] = {}
"""Kind → the keys of its line: asked once, because a long run has many events of a kind."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """One event. ``t``: CLOCK_MONOTONIC ns, ``wall``: seconds since 1970; both are known of one that was read."""

    kind: ClassVar[str]
    t: int = field(default=0, compare=False)
    wall: float = field(default=0.0, compare=False)

    def __init_subclass__(cls, kind: str, **more: Any) -> None:
        super().__init_subclass__(**more)
        assert kind not in KINDS, kind
        cls.kind = kind
        KINDS[kind] = cls

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The keys of its line, in their order."""
        if cls.kind not in _NAMES:
            _NAMES[cls.kind] = tuple(each.name for each in fields(cls) if each.name not in ("t", "wall"))
        return _NAMES[cls.kind]

    @classmethod
    def read(cls, line: Mapping[str, Any]) -> Self:
        """As it was written. Keys that are not known here are passed over, those that are not there are None."""
        said = {name: line.get(name) for name in cls.names()}
        return cls(t=int(line.get("t") or 0), wall=line.get("wall") or 0.0, **said)

    def keys(self) -> dict[str, Any]:
        """What its line says beside time and kind."""
        said = {name: getattr(self, name) for name in self.names()}
        return {name: value for name, value in said.items() if value is not LEFT_OUT}

    def write(self, events: Events, *, t: int | None = None) -> int:
        """Write it down and return its time. ``t``: of one that happened before (monotonic ns). Raises OSError."""
        return events.write(self.kind, t=t, **self.keys())


# -- the run -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RunStart(Event, kind="run.start"):
    run: str


@dataclass(frozen=True, kw_only=True)
class RunEnd(Event, kind="run.end"):
    reason: str
    """``finished``, ``aborted`` or ``error``."""


@dataclass(frozen=True, kw_only=True)
class Clock(Event, kind="clock"):
    """A pair of times of both clocks."""


@dataclass(frozen=True, kw_only=True)
class StageBegun(Event, kind="stage"):
    """How far the run is, outside its phases."""

    name: str


@dataclass(frozen=True, kw_only=True)
class Note(Event, kind="note"):
    says: str


@dataclass(frozen=True, kw_only=True)
class Error(Event, kind="error"):
    says: str


@dataclass(frozen=True, kw_only=True)
class Abort(Event, kind="abort"):
    says: str


@dataclass(frozen=True, kw_only=True)
class GuardTripped(Event, kind="guard.tripped"):
    guard: str
    says: str


@dataclass(frozen=True, kw_only=True)
class AbortUndone(Event, kind="abort.undone"):
    """From the stop being ``asked`` for (ns) until all had been taken back, and was proven to be gone."""

    asked: int
    faults: list[str]
    seconds: float
    complete: bool
    proven: bool
    proven_seconds: float | None
    actions: int = LEFT_OUT
    """How many there were to take back beside the faults."""


@dataclass(frozen=True, kw_only=True)
class LoadStart(Event, kind="load.start"):
    pass


@dataclass(frozen=True, kw_only=True)
class LoadCeased(Event, kind="load.ceased"):
    """It was told to begin nothing more, before anything was undone."""


@dataclass(frozen=True, kw_only=True)
class LoadStop(Event, kind="load.stop"):
    pass


@dataclass(frozen=True, kw_only=True)
class Warm(Event, kind="warm"):
    seconds: float
    steady: bool


@dataclass(frozen=True, kw_only=True)
class MachineDecides(Event, kind="machine.decides"):
    """Whether this machine can decide the objectives, by the last seconds before the first phase."""

    decides: dict[str, Any]
    asked: int
    says: str


@dataclass(frozen=True, kw_only=True)
class RatesBegin(Event, kind="rates.begin"):
    """Rates of the load that change began to, at this time, of which the driver had been told before."""


@dataclass(frozen=True, kw_only=True)
class PhaseStart(Event, kind="phase.start"):
    phase: str
    index: int
    scripted_wait: bool


@dataclass(frozen=True, kw_only=True)
class PhaseEnd(Event, kind="phase.end"):
    phase: str
    reason: str
    looked: float = LEFT_OUT
    """Seconds at its end in which faults were looked at once more."""
    notices: list[dict[str, Any]] = LEFT_OUT
    away: dict[str, list[str]] = LEFT_OUT
    unplaced: list[str] = LEFT_OUT
    """Of one that waited in vain for green: copies without a node, with what the cluster says of each."""


@dataclass(frozen=True, kw_only=True)
class ClusterSettled(Event, kind="cluster.settled"):
    green: bool
    seconds: float


# -- phases that wait for others ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DuringBegun(Event, kind="during.begun"):
    phase: str
    says: str
    how: str
    nodes: list[str]
    settings: list[str]
    grade: str


@dataclass(frozen=True, kw_only=True)
class DuringOver(Event, kind="during.over"):
    phase: str
    ok: bool
    seconds: float
    log: str = LEFT_OUT
    last: list[str] = LEFT_OUT
    exit_code: int | None = LEFT_OUT
    says: str


@dataclass(frozen=True, kw_only=True)
class DuringSetting(Event, kind="during.setting"):
    phase: str
    since: int | None
    scope: str
    name: str
    before: str | None
    now: str | None


@dataclass(frozen=True, kw_only=True)
class DuringProof(Event, kind="during.proof"):
    phase: str
    proven: bool
    says: str
    nodes: dict[str, Any]


# -- commands that an expectation names ----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CommandAsked(Event, kind="expect.command"):
    """How a command of ``expect`` ended, once the load had settled. ``text``: that of its expectation. ``exit_code``:
    as a shell says it; None where it was ended, or never began. ``log``: what it printed, in ``logs/``."""

    text: str
    exit_code: int | None
    seconds: float
    says: str
    log: str
    last: list[str]


# -- programs that run beside the load ------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ProgramBegun(Event, kind="program.begun"):
    """A program of the experiment's began, before the first phase."""

    name: str
    says: str


@dataclass(frozen=True, kw_only=True)
class ProgramOver(Event, kind="program.over"):
    """How it ended. ``ok``: in time, with exit code 0 or by the SIGTERM that told it to end. ``exit_code``: as a shell
    says it; None where it was ended. ``log``: what it printed, in ``logs/``."""

    name: str
    ok: bool
    exit_code: int | None
    seconds: float
    says: str
    log: str
    last: list[str]


# -- faults and actions ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FaultCommand(Event, kind="fault.command"):
    fault: str
    fault_kind: str
    says: str
    mechanism: str
    provider: str
    grade: str
    colour: str | None
    targets: list[str]
    links: list[list[str]]
    pulses: bool
    held: bool
    """It is to be looked at again right before its undo, so that a look that is missing is noticed."""
    silences: list[str] = LEFT_OUT


@dataclass(frozen=True, kw_only=True)
class FaultApplied(Event, kind="fault.applied"):
    fault: str


@dataclass(frozen=True, kw_only=True)
class FaultEvidence(Event, kind="fault.evidence"):
    fault: str
    stage: str
    proven: bool
    says: str
    probes: list[dict[str, Any]]
    since: int | None = LEFT_OUT
    first: int | None = LEFT_OUT
    spread: bool = LEFT_OUT


@dataclass(frozen=True, kw_only=True)
class FaultInEffect(Event, kind="fault.in_effect"):
    fault: str


@dataclass(frozen=True, kw_only=True)
class FaultLook(Event, kind="fault.look"):
    fault: str
    proven: bool
    says: str


@dataclass(frozen=True, kw_only=True)
class FaultPulse(Event, kind="fault.pulse"):
    fault: str
    state: str
    number: int
    proven: bool | None = LEFT_OUT


@dataclass(frozen=True, kw_only=True)
class FaultFailed(Event, kind="fault.failed"):
    fault: str
    stage: str
    says: str


@dataclass(frozen=True, kw_only=True)
class FaultUndo(Event, kind="fault.undo"):
    fault: str


@dataclass(frozen=True, kw_only=True)
class FaultUndone(Event, kind="fault.undone"):
    fault: str


@dataclass(frozen=True, kw_only=True)
class FaultGone(Event, kind="fault.gone"):
    fault: str


@dataclass(frozen=True, kw_only=True)
class ActionCommand(Event, kind="action.command"):
    action: str
    action_kind: str
    says: str


@dataclass(frozen=True, kw_only=True)
class ActionDone(Event, kind="action.done"):
    """``incomplete``: it came to its end, and by the cluster's own account something is missing from what it made."""

    action: str
    ok: bool
    says: str
    incomplete: bool = LEFT_OUT


# -- the cluster -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class IndexShape(Event, kind="index.shape"):
    """``replication``: DOCUMENT or SEGMENT, as it was read from the index; runs of before do not have it."""

    index: str
    shards: int | None
    copies: int | None
    visible_after_s: float | None
    replication: str | None = LEFT_OUT


@dataclass(frozen=True, kw_only=True)
class IndexRouting(Event, kind="index.routing"):
    index: str
    shards: int
    routing_shards: int


@dataclass(frozen=True, kw_only=True)
class Sample(Event, kind="sample"):
    """One turn of the sampler. ``answers``: node → ms until its view was there; ``pulse``: when the runner stood still
    (:mod:`chaos.base.ticks`)."""

    ok: int
    led: int
    status: str
    nodes: int
    answers: dict[str, float | None]
    late_ms: float
    pulse: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ClusterStatus(Event, kind="cluster.status"):
    status: str


@dataclass(frozen=True, kw_only=True)
class ClusterLeader(Event, kind="cluster.leader"):
    leader: str | None


@dataclass(frozen=True, kw_only=True)
class NodeLeft(Event, kind="cluster.node_left"):
    node: str
    zone: str | None


@dataclass(frozen=True, kw_only=True)
class NodeJoined(Event, kind="cluster.node_joined"):
    node: str
    zone: str | None


@dataclass(frozen=True, kw_only=True)
class ShardMoved(Event, kind="cluster.shard_moved"):
    index: str
    shard: int
    node: str


@dataclass(frozen=True, kw_only=True)
class ShardStarted(Event, kind="cluster.shard_started"):
    index: str
    shard: int
    node: str
    primary: bool


@dataclass(frozen=True, kw_only=True)
class PrimaryPromoted(Event, kind="cluster.primary_promoted"):
    index: str
    shard: int
    node: str


@dataclass(frozen=True, kw_only=True)
class Primary(Event, kind="cluster.primary"):
    index: str
    shard: int
    node: str | None


@dataclass(frozen=True, kw_only=True)
class ShardUnassigned(Event, kind="cluster.shard_unassigned"):
    index: str
    shard: int
    primary: bool
    copies: int


@dataclass(frozen=True, kw_only=True)
class Recovery(Event, kind="cluster.recovery"):
    """How a copy came back; sizes in bytes."""

    index: str
    shard: int
    node: str
    primary: bool
    type: str
    stage: str
    source: str | None
    started_ms: int
    seconds: float
    bytes_total: int
    bytes_reused: int
    bytes_copied: int
    files_total: int
    files_reused: int
    operations: int
    shard_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class NodesProcessors(Event, kind="nodes.processors"):
    nodes: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class NodesCpu(Event, kind="nodes.cpu"):
    nodes: dict[str, dict[str, int]]


@dataclass(frozen=True, kw_only=True)
class NodesServed(Event, kind="nodes.served"):
    nodes: dict[str, dict[str, int]]


@dataclass(frozen=True, kw_only=True)
class OthersIndex(Event, kind="others.index"):
    index: str
    how: str
    status: str


@dataclass(frozen=True, kw_only=True)
class DomainHealth(Event, kind="domain.health"):
    """What AWS says; ``said`` None where nobody answered, and ``why`` says why."""

    said: dict[str, Any] | None
    why: str = LEFT_OUT


# -- watches over what must stay as it is -------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ProcessesWatched(Event, kind="processes.watched"):
    processes: list[str]


@dataclass(frozen=True, kw_only=True)
class ProcessEnded(Event, kind="process.ended"):
    """What the fields mean: :mod:`chaos.history.ends`."""

    what: str
    name: str
    node: str | None
    zone: str | None
    pid: int
    exit_code: int | None
    signal: str | None
    oom_kill: bool | None
    fatal: str | None
    sent: bool
    report: str | None
    log_tail: list[str]
    commanded: bool
    how: str
    during: str = LEFT_OUT


@dataclass(frozen=True, kw_only=True)
class ProcessesUnwatched(Event, kind="processes.unwatched"):
    because: str | None


@dataclass(frozen=True, kw_only=True)
class PausesWatched(Event, kind="pauses.watched"):
    processes: list[str]


@dataclass(frozen=True, kw_only=True)
class ProcessPaused(Event, kind="process.paused"):
    """What the fields mean: :mod:`chaos.history.pauses`."""

    what: str
    name: str
    node: str | None
    zone: str | None
    pid: int
    state: str
    since: int | None
    commanded: bool
    during: str = LEFT_OUT


@dataclass(frozen=True, kw_only=True)
class ProcessResumed(Event, kind="process.resumed"):
    what: str
    name: str
    pid: int
    gone: bool


@dataclass(frozen=True, kw_only=True)
class PausesUnwatched(Event, kind="pauses.unwatched"):
    because: str | None


@dataclass(frozen=True, kw_only=True)
class ConfigurationWatched(Event, kind="configuration.watched"):
    pass


@dataclass(frozen=True, kw_only=True)
class ConfigurationChanged(Event, kind="configuration.changed"):
    since: int | None
    scope: str
    name: str
    before: str | None
    now: str | None


@dataclass(frozen=True, kw_only=True)
class ConfigurationUnwatched(Event, kind="configuration.unwatched"):
    last: int | None
    because: str | None


@dataclass(frozen=True, kw_only=True)
class PassagesWatched(Event, kind="passages.watched"):
    hosts: list[str]


@dataclass(frozen=True, kw_only=True)
class PassageChanged(Event, kind="passage.changed"):
    since: int
    host: str
    client: str | None
    proxy: str
    what: str
    before: str | None
    now: str | None


@dataclass(frozen=True, kw_only=True)
class PassagesUnwatched(Event, kind="passages.unwatched"):
    host: str
    last: int | None
    because: str | None


@dataclass(frozen=True, kw_only=True)
class DisksWatched(Event, kind="disks.watched"):
    places: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class DisksFree(Event, kind="disks.free"):
    free: dict[str, int]
    since: int | None


@dataclass(frozen=True, kw_only=True)
class DisksBlocked(Event, kind="disks.blocked"):
    blocked: bool
    since: int


@dataclass(frozen=True, kw_only=True)
class DisksUnwatched(Event, kind="disks.unwatched"):
    last: int | None
    because: str | None


@dataclass(frozen=True, kw_only=True)
class MachineUsable(Event, kind="machine.usable"):
    of: int
    sets: list[list[int]]
    who: dict[str, Any]
    unknown: list[str]


@dataclass(frozen=True, kw_only=True)
class MachineThrottled(Event, kind="machine.throttled"):
    since: int
    until: int
    groups: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class MachineUnwatched(Event, kind="machine.unwatched"):
    last: int | None
    because: str | None
