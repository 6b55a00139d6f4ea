"""What all stages of one run share: its lab, its record, how it ends, and what is said of it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from chaos.base.console import Reporter
from chaos.base.errors import Aborted, ChaosError, InvalidInput
from chaos.base.logs import LOG
from chaos.base.paths import ProcessIdentity
from chaos.checks.instrument import ClusterSight, ProcessWatch, Steering
from chaos.definitions import Experiment
from chaos.faults.fault import Fault
from chaos.faults.ledger import Ledger, Registration
from chaos.faults.lifecycle import Active, Lifecycle
from chaos.history import EventWriter
from chaos.history.events import Abort, Error, Event, GuardTripped, Note, StageBegun
from chaos.load.driver import Driver
from chaos.load.drivers import Drivers
from chaos.observe import disks, proof
from chaos.observe.identity import Identity
from chaos.opensearch.views import Counts, everything
from chaos.run import plan, space
from chaos.run.beside import Programs
from chaos.run.indices import Indices
from chaos.run.instruments import Instruments, RunContext
from chaos.run.noted import NotedLedger
from chaos.run.on_target import OnTarget, index_of
from chaos.run.options import RunOptions, new_lab_id
from chaos.run.recording import Recording
from chaos.run.stopping import Stop, Unproven
from chaos.targets.existing.target import ExistingTarget
from chaos.targets.labs import kinds
from chaos.targets.labs.processes import wait_until
from chaos.targets.parts import Parts

DRIVER = "driver"
"""Under which the ledger has the end of the load driver."""
TARGET_GUARD = "target"
"""Named as the guard where a cluster that is not ours may not be touched any more."""
PERMITS_GUARD = "permits"
"""Where whoever had the run made takes that back."""
WORD_SECONDS = 5.0
"""How long the watch over processes may take to say how one ended."""


class RunState:
    """Of one run. Each stage is a class of its own on top of it; :class:`.execution.Execution` is their order."""

    there: OnTarget | None = None
    """Beside a run on a cluster that is not ours; None on a lab."""
    counted: Counts = staticmethod(everything)
    """What of a view says how the cluster is: where others have indices too, not all."""
    identity: Identity | None = None
    """The watch over who answers at the addresses of a cluster that is not ours; None on a lab."""
    refused: InvalidInput | None = None
    """Why it may not begin, once its folder was there; None: it may."""
    programs: Programs | None = None
    """Those of the experiment that run beside the load; None: none do now."""
    prepared: tuple[list[Fault], list[Active]] | None = None
    """Faults that are written down, and of which nothing was sent yet."""
    ceased_at: int | None = None
    """When the load was told to begin nothing more, before anything was undone (monotonic ns); None: it was not."""

    def __init__(
        self,
        experiment: Experiment,
        options: RunOptions,
        parts: Parts,
        folder: Path,
        reporter: Reporter,
        stop: Stop,
    ) -> None:
        self.experiment, self.options, self.parts = experiment, options, parts
        self.folder, self.reporter, self.stop = folder, reporter, stop
        self.seed = options.seed if options.seed is not None else experiment.seed
        self.for_undo = space.Reserve(folder, "undo", space.FOR_UNDO)
        self.for_report = space.Reserve(folder, "report", space.FOR_REPORT)
        self.events = EventWriter(folder / "history" / "events.jsonl", self.broken)
        there = options.lab if isinstance(options.lab, ExistingTarget) else None
        book = folder / "ledger.jsonl"
        noted = None if there is None else NotedLedger(book, self.broken, folder.name)
        self.ledger = noted or Ledger(book, self.broken)
        self.recording = Recording(folder, self.events, self.ledger, self.broken)
        short = folder.name.rsplit("-", 1)[1]
        self.own_lab = options.lab is None
        self.index = "chaos" if self.own_lab else f"chaos-{short}"
        if there is not None:
            self.index = index_of(folder.name, there.target.written.prefix)
        self.lab = options.lab or kinds.of_kind(options.kind).create(
            plan.lab_topology(experiment), parts, id=new_lab_id()
        )
        target = kinds.named(self.lab.kind)
        self.offers = options.providers.on(self.lab.lacks, target.order, target.refused)
        self.registration = Registration(folder.name, self.ledger.path.absolute(), self.lab.id, ProcessIdentity.me())
        self.lifecycle = Lifecycle(self.lab, self.ledger, self.events, stopped=stop.is_over)
        if there is not None and noted is not None:
            there.run = folder.name
            asked = lambda says: stop.ask(says, TARGET_GUARD)  # noqa: E731
            made = lambda: self.lifecycle.made  # noqa: E731
            self.there = OnTarget(there, experiment, self.seed, self.offers, noted, asked, made)
            self.identity = Identity(
                there.identities,
                there.target.access,
                asked,
                status=lambda: self.driver.status if self.driver is not None else {},
                index=self.index,
            )
            stop.at_once = self.cease
        self.planned = plan.by_phase(experiment)
        self.labels: dict[str, list[str]] = {}
        self.driver: Driver | Drivers | None = None
        self.instruments = Instruments()
        self.instruments.make(RunContext(self))
        steering = self.instruments.provided(Steering)
        if self.there is not None and steering is not None:
            self.there.taken_out = steering.taken_out
        self.workload = self.indices.first.workload
        self.action_count = 0
        self.outcome = "finished"
        self.early = False
        """It ended before its last phase without being stopped: a fault was not proven, or a process ended."""
        self.dirt: list[str] = []
        self.phases_began: float | None = None

    @cached_property
    def indices(self) -> Indices:
        """Those of the load, by their names in the cluster."""
        return Indices(self.index, self.experiment)

    @property
    def sight(self) -> ClusterSight | None:
        """How the cluster was last seen; None where no instrument looks."""
        return self.instruments.provided(ClusterSight)

    def cease(self) -> None:
        """Begin no request of the load any more, and wait for nothing. Idempotent; never raises."""
        with suppress(Exception):
            if self.driver is not None and self.ceased_at is None:
                self.driver.cease()
                self.ceased_at = time.monotonic_ns()

    def aborted(self, error: Aborted) -> None:
        self.outcome = "aborted"
        if self.stop.guard:
            self.note(GuardTripped(guard=self.stop.guard, says=str(error)))
        self.note(Abort(says=str(error)))
        self.reporter.line(f"aborted: {error}")

    def ended_early(self, error: ChaosError) -> None:
        self.early = True
        self.note(Note(says=str(error)))
        self.reporter.line(f"ended early: {error}")

    def cut(self, says: str, *, failed: bool = False) -> None:
        """Something has happened that no move had asked for: in the thread of whoever watches it."""
        self.reporter.line(f"{says}: undoing, reading back what is there, and ending")
        self.stop.cut(says, failed=failed)

    def failed(self, says: str) -> None:
        self.outcome = "error"
        scarce, ended = None, []
        with suppress(Exception):  # what failed must be said whatever the disk is like
            scarce = disks.scarce(disks.places(self.folder, self.lab))
        with suppress(Exception):  # and whatever the lab is like
            ended = [each for each in proof.services_ended(self.lab) if f"service {each}" not in says]
        says = f"service {' and '.join(ended)} had ended: {says}" if ended else says
        says = f"{says} ({scarce})" if scarce else says
        self.note(Error(says=says))
        self.reporter.line(f"error: {says}")

    def refuse(self, error: InvalidInput) -> None:
        """It may not begin, and has changed nothing: another run was quicker. As an error it goes through the tail."""
        self.outcome, self.refused = "error", error
        self.note(Error(says=str(error)))

    def stage(self, name: str) -> None:
        """Say in the record how far the run is, outside its phases."""
        self.note(StageBegun(name=name))

    def note(self, event: Event, *, t: int | None = None) -> None:
        """Write an event on the way out. A disk that is full must not stop the undo that comes after."""
        LOG.info("%s %s", event.kind, event.keys())
        with suppress(OSError):
            event.write(self.events, t=t)

    def keep_traceback(self, what: str) -> None:
        LOG.exception("%s", what)
        with suppress(OSError):
            (self.folder / "logs" / f"{what}-traceback.txt").write_text(traceback.format_exc())

    def broken(self, says: str) -> None:
        """Some part of the record cannot be written: nothing that is not written down may be judged."""
        self.for_undo.release()
        self.stop.fail(says)

    def driver_failed(self, says: str) -> None:
        """The load is over, from the moment in which that is known. While a run is ending anyway it means nothing.

        Of a driver that is dead the watch over processes knows more, a moment later: whether somebody has killed it.
        """
        if self.driver is not None and not self.driver.alive:
            self.wait_for_word()
        if not self.stop.is_over():
            self.broken(says)

    def tick(self, text: str) -> bool:
        """Show where we are; raise Aborted when asked to stop, ChaosError when the driver is dead, Unproven when a
        program of the experiment's is."""
        self.stop.check()
        assert self.driver is not None
        if not self.driver.alive:
            self.await_word()
            raise ChaosError(f"the load driver died: {self.driver.error}")
        try:
            self.instruments.check()
        except ChaosError:
            self.await_word()
            raise
        self.refuse_vanished()
        if self.programs is not None:
            self.programs.check()
        status = self.driver.status
        rates = "  ".join(
            f"{name} {o['ok']}/s good, {o['bad']}/s not, p99 {o['p99_ms'] or 0:.0f} ms"
            for name, o in status.get("operations", {}).items()
        )
        self.reporter.status(f"{text}   {rates}   {self.instruments.word()}")
        return False

    def await_word(self) -> None:
        """A process of ours is dead: how it ended is raised."""
        self.wait_for_word()
        self.stop.check()

    def wait_for_word(self) -> None:
        """Who watches a process of ours that is dead says in a moment how it ended, and stops the run."""
        if self.instruments.provided(ProcessWatch) is not None:
            wait_until(self.stop.is_over, WORD_SECONDS)

    def refuse_vanished(self) -> None:
        """Raises Unproven when a fault ended early or spread: nothing that comes after could count."""
        for says in self.lifecycle.vanished.values():
            raise Unproven(f"{says}: not proven to be in effect any more, nothing can be concluded")

    def to_undo(self, names: Sequence[str]) -> list[str]:
        """The active faults that these names stand for."""
        active = [fault.id for fault in self.lifecycle.active]
        wanted = set(active) if "all" in names else {id for name in names for id in self.labels.get(name, [])}
        return [id for id in active if id in wanted]

    @property
    def cas_keys(self) -> int:
        return self.experiment.load.cas.keys if self.experiment.load.cas else 0
