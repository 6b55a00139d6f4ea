"""The instruments of one run: made before it begins, begun and ended by its stages, and asked by what they provide.

Nothing in this room names an instrument. What a run needs of one (how the cluster was last seen, where controllers
listen, a guard) it asks for by the capability, and goes on without where nobody provides it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from chaos.base.console import Reporter
from chaos.base.errors import ChaosError, InvalidInput
from chaos.base.guarding import Guard
from chaos.base.paths import ProcessIdentity
from chaos.checks import catalogue, instruments
from chaos.checks.instrument import Begins, Child, Ends, Instrument, Observer, Permission
from chaos.definitions import Experiment
from chaos.definitions.existing import Existing
from chaos.definitions.experiment import Guards
from chaos.faults.ledger import Entry, Ledger, moves
from chaos.faults.moves import Move, Reversible
from chaos.history import EventWriter, controllers
from chaos.history.events import Event, Note
from chaos.history.writer import Events
from chaos.load.driver import Driver
from chaos.load.drivers import Drivers
from chaos.observe import disks
from chaos.opensearch.views import Counts, View
from chaos.run import commanding
from chaos.run.guards import asked_of_instruments
from chaos.run.indices import Indices
from chaos.run.on_target import OnTarget
from chaos.run.stopping import Stop
from chaos.targets.labs import kinds, usable
from chaos.targets.labs.base import BaseLab

DRIVER = "load driver"
T = TypeVar("T")


def refuse_unready(experiment: Experiment, reporter: Reporter | None = None) -> None:
    """Raises InvalidInput for what an experiment asks and an instrument could not observe, or none of them measures."""
    unknown = sorted({each.metric for each in experiment.expect if catalogue.of(each.metric) is None})
    if unknown:
        raise InvalidInput(
            f"{experiment.name} expects {', '.join(unknown)}, which nothing here measures",
            remedy="install the package that brings it, or take the line out",
        )
    if experiment.controller is not None and not _answered("controller"):
        raise InvalidInput(
            f"{experiment.name} has failover controllers, and no instrument here begins any",
            remedy="install this suite anew, whole; or run it with --no-controller",
        )
    if any(each.rollover is not None for each in experiment.load.places.values()) and not _answered("rollover"):
        raise InvalidInput(
            f"{experiment.name} rolls indices over, and no instrument here does so",
            remedy="install this suite anew, whole; or take rollover out",
        )
    for each in instruments.every():
        if each.refuse is not None:
            each.refuse(experiment, reporter)


def _answered(name: str) -> bool:
    return any(name.startswith(answer) for each in instruments.every() for answer in each.answers)


def unanswered(wanted: Guards) -> list[str]:
    """Guards that an experiment asks for and no instrument here answers."""
    return [name for name in asked_of_instruments(wanted) if not _answered(name)]


@dataclass
class Begun:
    """A process that stands in the ledger with what ends it."""

    process: subprocess.Popen[bytes]
    _ledger: Ledger
    _entry: Entry

    def ended(self) -> None:
        self._ledger.note(self._entry, "undone")


@dataclass(frozen=True)
class Changes:
    """What instruments change, by a run's ledger."""

    ledger: Ledger

    def take_back(self, name: str, moves: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        backs = [Move(operation, dict(arguments)) for operation, arguments in moves]
        self.ledger.intend(name, [Reversible(Move(controllers.NOTHING), back) for back in backs])

    def begin(
        self, name: str, words: Sequence[str], log: Path, about: Sequence[str], *, cwd: Path, namespace: Any = None
    ) -> Begun:
        token = commanding.new_token()
        with ExitStack() as stack:
            file: IO[bytes] = stack.enter_context(open(log, "ab"))
            if namespace is not None:
                stack.enter_context(namespace.entered())
            process = subprocess.Popen(
                commanding.gate(words, heard=True),
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                cwd=cwd,
                start_new_session=True,
                env={**os.environ, commanding.TOKEN: token},
            )
        assert process.stdin is not None
        try:  # written down, it may begin
            session = commanding.Session(ProcessIdentity.of(process.pid), token)
            (entry,) = self.ledger.intend(name, [commanding.ending(session, about)])
            os.write(process.stdin.fileno(), commanding.GO)
        except (OSError, ChaosError) as error:
            process.kill()
            process.wait()
            raise ChaosError(str(error)) from error
        return Begun(process, self.ledger, entry)


class Run(Protocol):
    """What of a run is handed to instruments: :class:`chaos.run.state.RunState`."""

    experiment: Experiment
    folder: Path
    lab: BaseLab
    index: str
    events: EventWriter
    ledger: Ledger
    reporter: Reporter
    stop: Stop
    there: OnTarget | None
    counted: Counts
    driver: Driver | Drivers | None
    instruments: Instruments

    @property
    def indices(self) -> Indices: ...

    def note(self, event: Event, *, t: int | None = None) -> None: ...
    def stage(self, name: str) -> None: ...
    def broken(self, says: str) -> None: ...
    def cut(self, says: str, *, failed: bool = False) -> None: ...


class RunContext:
    """A run as its instruments see it (:class:`chaos.checks.instrument.Context`)."""

    machine: Any = usable

    def __init__(self, run: Run) -> None:
        self._run = run
        self.experiment, self.folder = run.experiment, run.folder
        self.lab: Any = run.lab
        self.index, self.indices = run.index, run.indices.names
        self.events: Events = run.events
        self.broken, self.cut, self.ask, self.check = run.broken, run.cut, run.stop.ask, run.stop.check
        self.stage, self.status = run.stage, run.reporter.status

    @property
    def existing(self) -> Existing | None:
        return None if self._run.there is None else self._run.there.lab.target

    @property
    def copying(self) -> tuple[str, ...]:
        return tuple(each.index for each in self._run.indices if each.shape.segments)

    def counted(self, seen: View) -> View:
        return self._run.counted(seen)

    def moves(self) -> Iterable[Move]:
        return moves(self._run.ledger.path)

    def changes(self) -> Changes:
        return Changes(self._run.ledger)

    def processes(self) -> dict[str, int]:
        run = self._run
        found = of_lab(run.lab) if kinds.named(run.lab.kind).shares_processors else {}
        for each in run.driver.processes if run.driver is not None else ():
            if each.pid is not None and each.alive:
                found[DRIVER if each.name == "driver" else each.name] = each.pid
        return found

    def places(self) -> list[Any]:
        return list(disks.places(self._run.folder, self._run.lab))

    def holds(self) -> Callable[[], bool] | None:
        return None if self._run.there is None else self._run.there.holds

    def stop(self, says: str) -> None:
        if self._run.there is not None:
            self._run.there.stop(says)

    def provided(self, capability: type[T]) -> T | None:
        return self._run.instruments.provided(capability)

    def note(self, says: str) -> None:
        self._run.note(Note(says=says))
        self._run.reporter.line(says)


def of_lab(lab: BaseLab) -> dict[str, int]:
    """The processes of a lab's hosts as they run now, by words for them, with their pids."""
    found = {}
    for resident in lab.residents():
        what = {"node": "", "service": "service "}.get(resident.what, "Toxiproxy of ")
        if lab.lives(resident):
            found[f"{what}{resident.name}"] = resident.identity.pid
    return found


class Instruments:
    """All that observe one run, in the order in which they begin."""

    def __init__(self, made: Sequence[tuple[Instrument, Observer]] = ()) -> None:
        self._made = list(made)
        self._children: list[Child] = []

    def make(self, context: RunContext) -> None:
        """Make those that have something to observe on this target. Asks nobody."""
        for each in instruments.every():
            if (observer := each.observe(context)) is not None:
                self._made.append((each, observer))

    @property
    def all(self) -> list[Observer]:
        return [observer for _, observer in self._made]

    def due(self) -> dict[str, bool]:
        """For plan.json: which records are due."""
        here = {each.name for each, _ in self._made}
        return {each.due: each.name in here for each in instruments.every() if each.due is not None}

    def start(self, begins: Begins) -> None:
        """Begin those of one moment. Raises what the first raises that cannot."""
        for each, observer in self._made:
            if each.begins is begins:
                observer.start()
                for child in observer.children():
                    self.add(child)

    def stop(self, *ends: Ends, patient: bool = True) -> None:
        """End those of some moments; idempotent. Every one is tried; raises what the first raised that failed."""
        failed: Exception | None = None
        for each, observer in self._made:
            if each.ends in ends:
                try:
                    observer.stop(patient=patient)
                except Exception as error:
                    failed = failed or error
        if failed is not None:
            raise failed

    def add(self, child: Child) -> None:
        """A process of the run has begun: those that watch processes watch it too."""
        for observer in self.all:
            observer.add(child)

    def check(self) -> None:
        """Raises ChaosError when one has failed."""
        for observer in self.all:
            observer.check()

    def settled(self) -> bool:
        """The cluster is as it was: look once more. False where one got no answer."""
        return all([observer.settled() for observer in self.all])

    def edge(self) -> None:
        """A phase begins or ends."""
        for observer in self.all:
            observer.edge()

    def word(self) -> str:
        return "   ".join(word for observer in self.all if (word := observer.word()))

    def guards(self, wanted: Guards) -> list[Guard]:
        return [guard for observer in self.all for guard in observer.guards(wanted)]

    def permit(self, permission: Permission) -> None:
        """The last to begin first: one that looks before it lets pass what follows takes seconds (settings)."""
        for observer in reversed(self.all):
            observer.permit(permission)

    def permit_no_more(self, *, patient: bool = True) -> None:
        for observer in self.all:
            observer.permit_no_more(patient=patient)

    def provided(self, capability: type[T]) -> T | None:
        """Whoever provides a capability: the first of them."""
        return next((observer for observer in self.all if isinstance(observer, capability)), None)
