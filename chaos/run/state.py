"""What all stages of one run share: its lab, its record, how it ends, and what is said of it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaos.base.console import Reporter
from chaos.base.errors import Aborted, ChaosError, InvalidInput
from chaos.base.logs import LOG
from chaos.base.paths import ProcessIdentity
from chaos.definitions import Experiment
from chaos.faults.ledger import Ledger, Registration
from chaos.faults.lifecycle import Lifecycle
from chaos.history import EventWriter, ends
from chaos.history.writer import FOREIGN
from chaos.load import workloads
from chaos.load.driver import Driver
from chaos.observe import disks, echo
from chaos.observe import processors as usable
from chaos.observe.configuration import Configuration
from chaos.observe.counted import Counts, everything
from chaos.observe.domain import DomainHealth
from chaos.observe.ends import Ends, Fact
from chaos.observe.identity import Identity
from chaos.observe.passages import Passages
from chaos.observe.processors import Processors
from chaos.observe.sampler import Sampler
from chaos.observe.slis import Slis
from chaos.run import controllers, plan, space
from chaos.run.noted import NotedLedger
from chaos.run.on_target import OnTarget, index_of
from chaos.run.options import RunOptions, new_lab_id
from chaos.run.recording import Recording
from chaos.run.shape import Shape
from chaos.run.stopping import Stop, Unproven
from chaos.run.suffering import Others
from chaos.target.existing.target import ExistingTarget
from chaos.target.labs import kinds
from chaos.target.labs.processes import wait_until
from chaos.target.parts import Parts

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
    others: Others | None = None
    """What others do there; None on a lab."""
    identity: Identity | None = None
    """The watch over who answers at the addresses of a cluster that is not ours; None on a lab."""
    passages: Passages | None = None
    """The watch over what Toxiproxies let pass; None where none of ours are on the links."""
    domain: DomainHealth | None = None
    """What AWS says of the domain; None where it is none."""
    shape: Shape = Shape()
    """What the load's index is like; nothing is known before it has been made."""
    refused: InvalidInput | None = None
    """Why it may not begin, once its folder was there; None: it may."""
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
            self.there = OnTarget(there, experiment, self.seed, self.offers, noted, asked)
            self.others = Others(there.target, folder / "history" / FOREIGN, self.broken, stop.ask)
            if (domain := there.domain) is not None:
                self.domain = DomainHealth(domain.health, self.events, domain.health_every)
            self.identity = Identity(
                there.identities,
                there.target.access,
                asked,
                status=lambda: self.driver.status if self.driver is not None else {},
                index=self.index,
            )
            stop.at_once = self.cease
        self.ends = Ends(self.lab, self.events, folder / "logs", self.unasked)
        self.planned = plan.by_phase(experiment)
        self.labels: dict[str, list[str]] = {}
        self.configuration = Configuration(self.lab, self.events, self.index, self.ledger.path, self.cut)
        # only where Toxiproxies of ours are on the links; those of a cluster's owners are looked at before and after
        if there is None and self.lab.lacks("links") is None:
            self.passages = Passages(self.lab, self.events, self.ledger.path, self.cut)
        self.controllers = self._controllers()
        self.driver: Driver | None = None
        self.sampler: Sampler | None = None
        self.echo = echo.Echo(self.lab, folder)
        self.slis = Slis(experiment, folder / "history", self.broken)
        self.processors = Processors(self.events, self.local_processes)
        self.disks = disks.Disks(
            self.events,
            lambda: disks.places(folder, self.lab),
            lambda: disks.blocked(self.lab, self.index),
            self.cut,
        )
        self.workload = workloads.named(experiment.load.workload)
        self.action_count = 0
        self.outcome = "finished"
        self.early = False
        """It ended before its last phase without being stopped: a fault was not proven, or a process ended."""
        self.dirt: list[str] = []
        self.phases_began: float | None = None

    def local_processes(self) -> dict[str, int]:
        """What runs on this machine for the run beside the runner, in words, with its pids."""
        found = usable.of_lab(self.lab) if kinds.named(self.lab.kind).shares_processors else {}
        if self.driver is not None and self.driver.pid is not None and self.driver.alive:
            found[usable.DRIVER] = self.driver.pid
        return found

    def _controllers(self) -> controllers.Controllers:
        if self.there is None:
            return controllers.Controllers(self.experiment, self.lab, self.folder)
        made = controllers.Controllers(
            self.experiment, self.lab, self.folder, holds=self.there.holds, lost=self.there.stop
        )
        self.there.taken_out = made.taken_out
        return made

    def cease(self) -> None:
        """Begin no request of the load any more, and wait for nothing. Idempotent; never raises."""
        with suppress(Exception):
            if self.driver is not None and self.ceased_at is None:
                self.driver.cease()
                self.ceased_at = time.monotonic_ns()

    def aborted(self, error: Aborted) -> None:
        self.outcome = "aborted"
        if self.stop.guard:
            self.note("guard.tripped", guard=self.stop.guard, says=str(error))
        self.note("abort", says=str(error))
        self.reporter.line(f"aborted: {error}")

    def ended_early(self, error: ChaosError) -> None:
        self.early = True
        self.note("note", says=str(error))
        self.reporter.line(f"ended early: {error}")

    def unasked(self, fact: Fact) -> None:
        """A process has ended that no move had asked to: in the watch's thread, at once."""
        failed = fact["what"] in ("driver", "controller") and fact["how"] == ends.ITSELF
        self.cut(ends.sentence(fact), failed=failed)

    def cut(self, says: str, *, failed: bool = False) -> None:
        """Something has happened that no move had asked for: in the thread of whoever watches it."""
        self.reporter.line(f"{says}: undoing, reading back what is there, and ending")
        self.stop.cut(says, failed=failed)

    def failed(self, says: str) -> None:
        self.outcome = "error"
        scarce = None
        with suppress(Exception):  # what failed must be said whatever the disk is like
            scarce = disks.scarce(disks.places(self.folder, self.lab))
        says = f"{says} ({scarce})" if scarce else says
        self.note("error", says=says)
        self.reporter.line(f"error: {says}")

    def refuse(self, error: InvalidInput) -> None:
        """It may not begin, and has changed nothing: another run was quicker. As an error it goes through the tail."""
        self.outcome, self.refused = "error", error
        self.note("error", says=str(error))

    def stage(self, name: str) -> None:
        """Say in the record how far the run is, outside its phases."""
        self.note("stage", name=name)

    def note(self, kind: str, **fields: Any) -> None:
        """Write an event on the way out. A disk that is full must not stop the undo that comes after."""
        LOG.info("%s %s", kind, fields)
        with suppress(OSError):
            self.events.write(kind, **fields)

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
        """Show where we are; raise Aborted when asked to stop or when the driver is dead."""
        self.stop.check()
        assert self.driver is not None
        if not self.driver.alive:
            self.await_word()
            raise ChaosError(f"the load driver died: {self.driver.error}")
        try:
            self.controllers.check()
            self.echo.check()
        except ChaosError:
            self.await_word()
            raise
        self.refuse_vanished()
        status = self.driver.status
        rates = "  ".join(
            f"{name} {o['ok']}/s good, {o['bad']}/s not, p99 {o['p99_ms'] or 0:.0f} ms"
            for name, o in status.get("operations", {}).items()
        )
        colour = self.sampler.status if self.sampler else ""
        self.reporter.status(f"{text}   {rates}   cluster {colour}")
        return False

    def await_word(self) -> None:
        """A process of ours is dead: how it ended is raised."""
        self.wait_for_word()
        self.stop.check()

    def wait_for_word(self) -> None:
        """Who watches a process of ours that is dead says in a moment how it ended, and stops the run."""
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
