"""One run from plan to report: the order.

refuse over leftovers → provision → run folder and plan → lab up and green → index and documents → load on → warm-up
and audit → programs on → phases (undo, inject, do, hold) → programs off → undo what is left → settle → load off → read
everything back → ask commands of expectations → (where it is tagged durable: empty the cluster, restore it from its
store, read back again) → lab down → judge → report.
Whatever ends a run early (a guard, Ctrl-C, a failure) goes through the same undo, and a report is made all the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime

from chaos.base.console import Reporter
from chaos.base.errors import Aborted, ChaosError, InvalidInput
from chaos.base.logs import kept
from chaos.base.paths import write_json
from chaos.definitions import Experiment
from chaos.definitions import objectives as overriding
from chaos.faults.offers import Offers, Providers
from chaos.history.events import Note, RunStart
from chaos.history.format import RULES
from chaos.history.models import Plan
from chaos.history.writer import AUDIT
from chaos.load import drivers
from chaos.programs.audit import Sheet, Workload, audit, documentation
from chaos.programs.audit import cluster as of_cluster
from chaos.run import auditing, guards, plan, space
from chaos.run import notes as said_before
from chaos.run.beside import Programs
from chaos.run.closing import Closing
from chaos.run.instruments import unanswered
from chaos.run.leftovers import refuse_leftovers, sole_run
from chaos.run.loading import Loading
from chaos.run.options import RunOptions, RunResult, new_folder
from chaos.run.phases import Phases
from chaos.run.ready import refuse_unready
from chaos.run.restoring import refuse_others
from chaos.run.stopping import Stop, Unasked, Unproven, signals
from chaos.run.surroundings import environment
from chaos.targets.labs import kinds
from chaos.targets.labs.base import BaseLab

RUNNER_LOG = "runner.log"
"""In the run's ``logs``: what the runner did, for a bug report."""


def offers_for(
    experiment: Experiment, providers: Providers, lab: BaseLab | None = None, kind: str = kinds.DEFAULT
) -> Offers:
    """What this lab, or one of this kind that is still to be made, can have done to it; starts nothing."""
    target = kinds.named(kind if lab is None else lab.kind)
    lacks = kinds.lacks(kind, experiment.topology) if lab is None else lab.lacks
    return providers.on(lacks, target.order, target.refused)


def refuse_lacking(
    experiment: Experiment, providers: Providers, lab: BaseLab | None = None, kind: str = kinds.DEFAULT
) -> None:
    """Raises Lacking when this lab, or one of this kind that is still to be made, cannot do what the faults need."""
    drivers.need_package(experiment.load)
    plan.refuse_lacking(experiment, offers_for(experiment, providers, lab, kind))


def run(experiment: Experiment, options: RunOptions, reporter: Reporter) -> RunResult:
    """Carry out one experiment. Raises ChaosError before anything has been started, or when no report can be made.

    On a cluster that exists InvalidInput too where another run was quicker: then nothing is left of this one, nor a
    folder.
    """
    if options.lab is None:
        kinds.require(options.kind)
    refuse_others(experiment, options.lab)
    refuse_unready(experiment, reporter)
    refuse_lacking(experiment, options.providers, options.lab, options.kind)
    refuse_leftovers()
    wanted = space.wanted([experiment], options.out, kind=options.kind, own_lab=options.lab is None)
    space.refuse_scarce([*wanted, space.temporary()])
    with sole_run(options.lab):
        return _run(experiment, options, reporter)


def _run(experiment: Experiment, options: RunOptions, reporter: Reporter) -> RunResult:
    parts = options.parts or (options.lab.manifest.parts if options.lab else None)
    # before the signals are ours: a Ctrl-C may end a long download at once
    parts = parts or kinds.parts(
        options.kind, experiment.topology, reporter.line, opensearch_home=options.opensearch_home
    )
    import pandas  # noqa: F401 - it takes 0.4 s of a processor, which the run shall not miss while its load is on

    stop = Stop()
    with signals(stop, reporter):
        folder = new_folder(options.out, experiment.name)
        try:
            execution = Execution(experiment, options, parts, folder, reporter, stop)
        except OSError as error:
            space.release(folder)
            raise ChaosError(f"cannot begin the run in {folder}: {error.strerror}") from error
        return execution.execute()


class Execution(Loading, Phases, Closing):
    """The order of one run; each stage has a file of its own."""

    def execute(self) -> RunResult:
        with self.logged():
            return self._execute()

    def logged(self) -> AbstractContextManager[None]:
        """What the runner does goes into its log, with what a bug report needs on top."""
        versions = ", ".join(f"{name} {version}" for name, version in plan.versions().items())
        lab = f"OpenSearch {self.parts.opensearch_version}, a lab of kind {self.lab.kind}, seed {self.seed}"
        return kept(self.folder / "logs" / RUNNER_LOG, self.options.command, versions, lab)

    def _execute(self) -> RunResult:
        try:
            self.begin()
            self.lab_up()
            self.look_for_leftovers()
            self.load_on()
            with self.guarded():
                with self.audited():
                    self.warm_up()
                with self.programs_on():
                    self.phases_began = time.monotonic()
                    for number, phase in enumerate(self.experiment.phases):
                        self.phase(number, phase)
        except Aborted as error:
            self.aborted(error)
        except (Unproven, Unasked) as error:
            self.ended_early(error)
        except InvalidInput as error:
            if self.there is None or self.there.began:
                self.failed(str(error))
            else:
                self.refuse(error)
        except ChaosError as error:
            self.failed(str(error))
        except Exception as error:
            self.keep_traceback("runner")
            self.failed(f"{type(error).__name__}: {error} (logs/runner-traceback.txt)")
        except BaseException as error:
            self.failed(f"{type(error).__name__}: {error}")
            raise
        finally:  # whatever ends this process, nothing may stay behind
            self.close_down()
        if self.refused is not None and not self.dirt:
            self.withdraw()
            raise self.refused
        return self.report()

    @contextmanager
    def in_python(self) -> Iterator[None]:
        """The same order with the phases left to the caller, for experiments written in Python.

        Undoes, settles, reads back and leaves the lab clean whatever the block raises; :meth:`report` comes after.
        """
        # the closing as well: a second Ctrl-C must not interrupt an undo
        with sole_run(self.options.lab), signals(self.stop, self.reporter), self.logged():
            try:
                self.begin()
                self.look_for_leftovers()
                self.load_on()
                with self.guarded():
                    with self.audited():
                        self.warm_up()
                    self.phases_began = time.monotonic()
                    yield
            except Aborted as error:
                self.aborted(error)
                raise
            except (Unproven, Unasked) as error:
                self.ended_early(error)
                raise
            except BaseException as error:
                self.failed(f"{type(error).__name__}: {error}")
                raise
            finally:
                self.close_down()

    def begin(self) -> None:
        """Write down what is to come; from here on somebody watches that what is written stays."""
        self.registration.write()
        self.recording.start(self.write_plan())
        RunStart(run=self.folder.name).write(self.events)
        for guard in unanswered(self.experiment.guards):
            says = f"the guard {guard} is off: no instrument here answers it"
            if self.there is not None:
                raise InvalidInput(says, remedy="install this suite anew, whole")
            self.note(Note(says=says))
            self.reporter.line(says)

    @property
    def foreseen(self) -> Offers:
        """What this lab can have, as it is known before it is up: so plan.json names the providers that will be."""
        return offers_for(self.experiment, self.options.providers, self.options.lab, self.lab.kind)

    def write_plan(self) -> Plan:
        notes = said_before.of(self.experiment, self.seed, self.foreseen, self.lab.wiring)
        for said in (*overriding.sentences(self.experiment), *notes):
            self.reporter.line(f"  {said}")
        planned = self.planned_run(notes)
        write_json(self.folder / "plan.json", planned)
        return planned

    def planned_run(self, notes: list[str]) -> Plan:
        """plan.json: what nobody shall have to guess who judges the run later."""
        experiment, lab, target = self.experiment, self.lab, kinds.named(self.lab.kind)
        made: Plan = {
            "format": 1,
            "rules": RULES,
            "run": self.folder.name,
            "command": self.options.command,
            "seed": self.seed,
            "hash": plan.digest(experiment),
            "started": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            "experiment": experiment.to_json(),
            "topology": experiment.topology.to_json(),
            "lab": {
                "kind": lab.kind,
                "id": lab.id,
                "shares_processors": target.shares_processors,
                **({"accepts": list(target.accepts)} if target.accepts else {}),
                **({} if self.there is None else {"cluster": plan.cluster_digest(self.there.lab.target)}),
                "nodes": [{"name": n.name, "zone": n.zone, "roles": list(n.roles)} for n in experiment.topology.nodes],
                "client_hosts": [host.name for host in lab.wiring.clients],
                "pulsed": self.pulsed,
            },
            "versions": {
                **plan.versions(),
                "opensearch": self.parts.opensearch_version,
                "java": self.parts.java_version,
                "toxiproxy": self.parts.toxiproxy_version,
            },
            "machine": plan.machine(),
            "differences": plan.differences(experiment, self.parts.notes, shared=target.shares_processors)
            if self.there is None
            else plan.there(self.there.lab.target),
            "client": self.driver_config(planned=True).model_dump(
                mode="json", exclude={"out", "access", "instruments", "queries", "readable", "usable"}
            ),
            "steps": list(plan.steps(experiment, self.seed, self.foreseen, lab.wiring)),
            "notes": notes,
            "windows_by_phase": True,
            "steady_baseline": True,
            "until_rests_on_time": True,
            "looks_by_phase": True,
        }
        made.update(self.instruments.due())  # type: ignore[typeddict-item]  # without events of these nothing passes
        if self.options.second_of:
            made["second_of"] = self.options.second_of
        if self.options.side:
            made["side"] = self.options.side
        if not experiment.phases:  # one in Python has no expectations that a report could judge
            made["judged_by"] = "its Python test says whether it passed"
        return made

    def lab_up(self) -> None:
        if not self.own_lab:
            return
        self.stage("lab start")
        self.reporter.status("starting the lab")
        self.lab.up(self.reporter.line, self.stop.check)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Hold the guards over the block: warm-up and phases."""
        made = guards.guards_of(
            self.experiment.guards,
            phases_began=lambda: self.phases_began,
            status=lambda: self.driver.status if self.driver else {},
        )
        made += self.instruments.guards(self.experiment.guards)
        made += self.options.guards
        with guards.Watch(made, self.stop.ask):
            yield

    @contextmanager
    def programs_on(self) -> Iterator[None]:
        """The experiment's programs run over the block. Raises Unproven where one was not there for all of it."""
        if not self.experiment.programs:
            yield
            return
        programs = self.programs = Programs(self.folder, self.ledger, self.events, self.reporter)
        try:
            with environment(self.lab, self.folder, self.lab.id) as more:
                programs.begin(self.experiment.programs, more)
                yield
                self.stage("programs")
                programs.finish(self.tick)
        finally:
            self.programs = None
            programs.end()

    def look_for_leftovers(self) -> None:
        """What fails of the audit of a cluster that is not ours, before anything is changed there.

        Raises InvalidInput where the target's file refuses that.
        """
        if self.there is None:
            return
        target = self.there.lab.target
        auditing.refuse_unknown_rows(target)
        try:
            rows = audit(self._sheet())
        except Exception as error:  # the audit ends no run, but where the file asks for it
            self.keep_traceback("audit-before")
            auditing.refuse_unread(target, str(error))
            self.note(Note(says=f"no audit before the run: {error}"))
            return
        for says in auditing.critical(rows):
            self.reporter.line(f"  {says}")
            self.note(Note(says=says))
        auditing.refuse(target, rows)

    def _sheet(self) -> Sheet:
        where = None if self.there is None else f"cluster {self.there.lab.target.written.name}"
        return of_cluster.of_lab(self.lab, where=where)

    @contextmanager
    def audited(self) -> Iterator[None]:
        """Read the checklist beside the block: where the load fills all processors its questions take 20 s."""
        thread = threading.Thread(target=self.audit, name="audit", daemon=True)
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def audit(self) -> None:
        """What the availability checklist says of the cluster before anything is done to it. Never ends a run."""
        try:
            sheet = self._sheet()
            write_json(self.folder / AUDIT, documentation.to_json(sheet, Workload.SEARCH, audit(sheet)))
        except Exception:  # the report then has no such section
            self.keep_traceback("audit")
