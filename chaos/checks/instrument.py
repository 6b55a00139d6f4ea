"""An instrument: everything about one thing that is observed while a run lasts, in the file that observes it.

It has two halves. The *observing* half (:class:`Observer`) begins and ends with a run, writes a file of its own in
``history/`` or events, and may bring guards. The *judging* half reads the record alone: gaps in the evidence, checks,
tables, a section of the report, what must not leave the house. :data:`INSTRUMENT <Instrument>` of each file in
``chaos/instruments/`` has both; :mod:`chaos.checks.instruments` finds them.

This module stands among the checks because the judging half is made of their words. The observing half names no lab
and no fault: a run hands in a :class:`Context`, and what an instrument needs of its target it says in a Protocol of
its own. So the same file can be loaded where a saved run is judged.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, TypeVar

from chaos.base.console import Reporter
from chaos.base.guarding import Guard
from chaos.checks.check import Check
from chaos.checks.evidence import Gap
from chaos.checks.measure import Measure, Verdict
from chaos.checks.reasons import Cause
from chaos.checks.record import Record
from chaos.checks.section import Section
from chaos.definitions import Experiment
from chaos.definitions.existing import Existing
from chaos.definitions.experiment import Guards
from chaos.history.writer import Events
from chaos.opensearch.views import View

# -- the observing half --------------------------------------------------------------------------


class Begins(StrEnum):
    """When an instrument begins."""

    FIRST = "before anything is done"
    INDEX = "the load's index is there, and green"
    LOAD = "the load driver is up, and waits to be told to begin"


class Ends(StrEnum):
    """When an instrument ends."""

    UNDO = "before faults are undone for good"
    LOAD = "once the load is off"
    LAST = "before the lab goes away"


@dataclass
class Child:
    """A process that is a child of the runner. ``commanded``: whether its end has been asked for."""

    what: str
    name: str
    zone: str | None
    pid: int
    code: Callable[[], int | None]
    commanded: Callable[[], bool]
    log: Path


@dataclass(frozen=True)
class Permission:
    """What others may do while a phase lasts: end the processes of these nodes, change these settings."""

    phase: str
    nodes: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


class Made(Protocol):
    """A move or an inverse that stands in the run's ledger: :class:`chaos.faults.moves.Move`."""

    @property
    def operation(self) -> str: ...
    @property
    def arguments(self) -> dict[str, Any]: ...
    @property
    def sets(self) -> Mapping[tuple[str, str], Any]: ...


class Begun(Protocol):
    """A process that stands in the ledger with what ends it."""

    @property
    def process(self) -> subprocess.Popen[bytes]: ...

    def ended(self) -> None:
        """It has ended, and was to: the ledger says so from now on."""


class Changes(Protocol):
    """For an instrument that changes something: the ledger is written before the change."""

    def take_back(self, name: str, moves: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """From now on these moves (operation, arguments) are made at the end of the run, or by ``recover``."""

    def begin(
        self, name: str, words: Sequence[str], log: Path, about: Sequence[str], *, cwd: Path, namespace: Any = None
    ) -> Begun:
        """Start a program that ends with this process, once it stands in the ledger. Its standard input is a pipe.

        ``about``: the command in words for people. ``namespace``: where it is to run (``entered()``); None: here.
        Raises ChaosError where it cannot begin; it has ended then.
        """


T = TypeVar("T")


class Context(Protocol):
    """What a run hands to an instrument."""

    experiment: Experiment
    folder: Path
    """The run's."""
    machine: Any
    """What this machine's kernel says of processors (:mod:`chaos.targets.labs.usable`)."""
    lab: Any
    """The target. An instrument says in a Protocol of its own what it needs of it."""
    index: str
    """The load's; of several the first."""
    indices: tuple[str, ...]
    """All of the load's, in their order in the experiment. Under a name there may be several, made meanwhile."""
    events: Events

    @property
    def copying(self) -> tuple[str, ...]:
        """Those of the indices whose replicas copy segments, as was read from them; from :attr:`Begins.INDEX` on."""

    @property
    def existing(self) -> Existing | None:
        """The file of a cluster that is not ours; None on a lab."""

    def counted(self, seen: View) -> View:
        """What of a view says how the cluster is: where others have indices too, not all."""

    def moves(self) -> Iterable[Made]:
        """All that the ledger has so far, inverses too."""

    def changes(self) -> Changes: ...

    def processes(self) -> dict[str, int]:
        """What runs on this machine for the run beside the runner, in words, with its pids."""

    def places(self) -> list[Any]:
        """The folders whose disks matter for the run, each with how much room it needs (:mod:`chaos.observe.disks`)."""

    def holds(self) -> Callable[[], bool] | None:
        """On a cluster that is not ours: whether this run may still be taken for alive there. None on a lab."""

    def provided(self, capability: type[T]) -> T | None:
        """What another instrument of the run provides; None where there is none."""

    # -- what it may say ------------------------------------------------------------------------

    def broken(self, says: str) -> None:
        """A part of the record cannot be written."""

    def cut(self, says: str, *, failed: bool = False) -> None:
        """Something has happened that no move had asked for: the run ends. ``failed``: by our own fault."""

    def ask(self, why: str, guard: str) -> None:
        """A guard has tripped."""

    def stop(self, says: str) -> None:
        """On a cluster that is not ours: nothing may be touched any more."""

    def check(self) -> None:
        """Raises Aborted when the run is asked to stop: for those that wait."""

    def stage(self, name: str) -> None:
        """Say in the record how far the run is."""

    def note(self, says: str) -> None:
        """A sentence for the record and the console."""

    def status(self, text: str) -> None:
        """What is being waited for, on the console alone."""


class Observer:
    """The observing half of one run. All but :meth:`start` and :meth:`stop` may be left as they are.

    It is made before the lab is up, so its constructor asks nobody. To provide a capability it inherits it
    (:class:`ClusterSight`, :class:`Steering` …): the runner asks for what it needs by that, and never by a name.
    """

    def start(self) -> Any:
        """From now on. Raises ChaosError where it cannot be: the run ends."""

    def stop(self, *, patient: bool = True) -> None:
        """End it. Idempotent, also before :meth:`start`. ``patient``: a last look may wait for a cluster's answer."""

    def check(self) -> None:
        """Several times a second in the runner's thread. Raises ChaosError when it has failed."""

    def settled(self) -> bool:
        """The cluster is as it was before the faults, and the load still on: look once more. False: nobody answered."""
        return True

    def edge(self) -> None:
        """A phase begins or ends at this moment. Must not wait: a look of its own comes in its own thread."""

    def word(self) -> str:
        """For the line of the console that says how things are; empty: nothing."""
        return ""

    def guards(self, wanted: Guards) -> Sequence[Guard]:
        """Those of an experiment's guards that this instrument answers."""
        return ()

    def children(self) -> Sequence[Child]:
        """Processes of its own, for whoever watches processes."""
        return ()

    def add(self, child: Child) -> None:
        """A process of the run has begun."""

    def permit(self, permission: Permission) -> None:
        """From now on others may do that; until :meth:`permit_no_more`."""

    def permit_no_more(self, *, patient: bool = True) -> None:
        """Idempotent."""


# -- what an instrument can provide to the runner, or to another one -----------------------------


class ClusterSight:
    """How the cluster was last seen. Times by ``time.monotonic()``, but for ``worse``."""

    red_since: float | None = None
    """Since when it has been red; None when it is not."""
    status: str = "unknown"
    worse: int | None = None
    """When it was last seen to become worse: a node left, or it turned yellow or red (monotonic ns)."""
    version: int = 0
    """Of the newest state that was seen."""
    heard: float = 0.0
    """When somebody last said who is in the cluster."""

    @property
    def nodes(self) -> frozenset[str] | None:
        """The nodes that were in it when that was last said; None: nobody has said it yet."""
        return None


class ClusterViews:
    """Who sees the state of the cluster again and again, and tells others of it: the cluster is asked but once."""

    def tell(self, told: Callable[[View], None]) -> None:
        """From now on ``told`` gets each state that is to be believed, in the thread that asked for it: it must not
        wait."""
        raise NotImplementedError


class Steering:
    """Controllers that tell the load's clients which nodes to use."""

    ports: Mapping[str, int]
    """Zone → where its controller listens, on the loopback of the zone's clients."""

    def taken_out(self) -> frozenset[str]:
        """The zones that they have asked to be decommissioned."""
        return frozenset()


class ProcessorSets:
    """Which processors the processes of the run may use."""

    def sets(self) -> list[list[int]]:
        """Each different set that is not all of them."""
        return []


class ProcessWatch:
    """Whoever notices within moments how a process of the run ended, and ends the run (:meth:`Context.cut`)."""


class Traffic:
    """Samples of what others do on a cluster that is not ours, see :class:`chaos.opensearch.foreign.Grown`."""

    grown: list[tuple[float, Any]]
    """Each with when it ended (``time.monotonic``); it only gets longer."""
    heard: float
    """When it was last answered (``time.monotonic``); before the first answer when it began."""
    why: str | None
    """Why the last question was not answered; None where it was."""

    def alive(self) -> bool:
        raise NotImplementedError

    def note(self, kind: str, **fields: Any) -> None:
        """A line of somebody else in the same file."""
        raise NotImplementedError


# -- the judging half ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Promise:
    """What every run promises of it, without a line of ``expect``: the finding ``metric``, wanted to be 0.

    ``measure``: None where the record does not tell.
    """

    metric: str
    measure: Callable[[Record], tuple[Measure, Verdict] | None]


Event = dict[str, Any]
Lines = Callable[[int, int], list[Event]]
"""From one moment to another (monotonic ns): the lines of its file."""


@dataclass(frozen=True)
class Trial:
    """Made-up lines by which one of its checks is tried (``tests/negative/test_mutated_instruments.py``): ``wanted`` is
    met by those that are ``sound``, missed by those that are ``broken``, and open where there are none."""

    metric: str
    wanted: str
    sound: Lines
    broken: Lines


@dataclass(frozen=True)
class Instrument:
    """One of them. ``name`` is its own; ``says``: what it observes, in a line.

    The observing half:

    ``observe``: makes the observer of a run; None where there is nothing to observe on this target. ``begins`` and
    ``ends``; of those that begin or end together the one with the lower ``order`` comes first. ``due``: the key of
    plan.json that says whether its record is due. ``refuse``: (experiment, reporter) before anything is started; raises
    InvalidInput where it could not observe what the experiment asks for. ``refuse_on``: the same of a cluster that
    exists: of what, why it could not, and a remedy. ``answers``: guards and other parts of an experiment that are
    asked of it (``cluster.red``, ``sli.``, ``controller``). ``room``: bytes that it writes in each second of the load.

    The judging half, each of a :class:`Record`:

    ``file``: its own in ``history/``, read by ``record.lines(file)``. ``checks`` and ``check_of`` (by the name of a
    metric): what expectations may ask; of each of ``checks`` there is one of ``trials``. ``gaps``: what takes the worth
    from what was measured, by cause. ``weaknesses``: the cluster's, found whatever was asked; told which phases missed
    something. ``promise``. ``tables``: figures for findings.json by name; None or empty is left out. ``section``: of
    the report, from the record and all tables. ``values``: numbers of users' own over time, which are exported: (when
    (ns), name, value). ``harm``: moments (ns) at which it broke something for users, in words.
    ``redact``: one line of its file as it may be mailed, names in it replaced afterwards.
    """

    name: str
    says: str
    observe: Callable[[Context], Observer | None]
    begins: Begins = Begins.INDEX
    ends: Ends = Ends.LOAD
    order: int = 1000
    answers: tuple[str, ...] = ()
    due: str | None = None
    refuse: Callable[[Experiment, Reporter | None], None] | None = None
    refuse_on: Callable[[Existing], tuple[str, str, str] | None] | None = None
    room: Callable[[Experiment], float] = lambda experiment: 0.0
    file: str | None = None
    checks: tuple[Check, ...] = ()
    trials: tuple[Trial, ...] = ()
    check_of: Callable[[str], Check | None] | None = None
    gaps: Mapping[Cause, Callable[[Record], Iterable[Gap]]] = field(default_factory=dict)
    weaknesses: Callable[[Record, Sequence[str | None]], Iterable[str]] | None = None
    weakness: Cause = Cause.PROCESS
    """What its weaknesses are about."""
    promise: Promise | None = None
    tables: Mapping[str, Callable[[Record], Any]] = field(default_factory=dict)
    section: Callable[[Record, Mapping[str, Any]], Section | None] | None = None
    harm: Callable[[Record], Iterable[tuple[int, str]]] | None = None
    redact: Callable[[Event], Event] = lambda line: line
    values: Callable[[Record], Iterable[tuple[int, str, float]]] | None = None
