"""One run from plan to report. The only place that knows the whole order, and it reads top to bottom.

refuse over leftovers → provision → run folder and plan → lab up and green → index and documents → load on → phases
(undo, inject, do, hold) → undo what is left → settle → load off → read everything back → lab down → judge → report.
Whatever ends a run early (a guard, Ctrl-C, a failure) goes through the same undo, and a report is made all the same.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from chaos.base import paths
from chaos.base.console import Reporter
from chaos.base.errors import SEVERITY, Aborted, ChaosError, Exit, InvalidInput, LabError, Leftovers
from chaos.base.paths import ProcessIdentity, write_json
from chaos.checks import deciding
from chaos.definitions import Client, Duration, Experiment, Load, Operation, Phase, Rate
from chaos.definitions import objectives as overriding
from chaos.faults import actions
from chaos.faults.ledger import Ledger, Registration, registrations, standing
from chaos.faults.lifecycle import Lifecycle, undo_entries
from chaos.faults.moves import Move, Reversible
from chaos.faults.patience import patiently
from chaos.faults.select import ready
from chaos.history import EventWriter, History, compact, ends
from chaos.history.writer import AUDIT
from chaos.load.config import (
    CasConfig,
    ClientConfig,
    ClientHost,
    DriverConfig,
    Instrument,
    OperationConfig,
    ProbeConfig,
    Target,
    VisibilityConfig,
)
from chaos.load.driver import Driver
from chaos.load.workload import MAPPING, preload
from chaos.observe import echo, proof
from chaos.observe.configuration import Configuration
from chaos.observe.ends import Ends, Fact, Ours
from chaos.observe.readback import read_back
from chaos.observe.sampler import Sampler
from chaos.observe.written import Written
from chaos.opensearch.rest import opensearch
from chaos.opensearch.views import administer, await_green, elected, newest, views
from chaos.programs.audit import Workload, audit, documentation
from chaos.programs.audit import cluster as audited
from chaos.run import controllers, guards, plan, recovery, space
from chaos.target.labs import kinds, sweep, traces
from chaos.target.labs.base import BaseLab
from chaos.target.labs.processes import wait_until
from chaos.target.parts import Parts
from chaos.target.wiring import HTTP

GREEN_SECONDS = 60.0
"""How long the cluster may take to be green with the load's index in it."""
ALLOCATE_SECONDS = 5.0
"""How long OpenSearch may take to place that index by itself, before it is asked to try again."""
SETTLE_SECONDS = 240.0
"""How long a cluster may take to be green again after everything has been undone."""
KNOWN_SECONDS = 20.0
"""How long it may take a cluster to be led again and to know which of its nodes are dead, before it is read back."""
HOPELESS_SECONDS = 20.0
"""A cluster with all its nodes, red and with nothing under way for this long, will not get better by itself."""
WARM_SECONDS = 5
"""The load runs unjudged until this many seconds in a row were good, so that cold code is not measured …"""
WARM_UP_LIMIT_SECONDS = 60.0
"""… and for this long at most: then the first phase begins as things are, and is judged so."""
DECIDED_BY_SECONDS = 10
"""How much of the warm-up's end says whether this machine can decide the objectives."""
TICK_SECONDS = 0.1
WORD_SECONDS = 5.0
"""How long the watch over processes may take to say how one ended."""
STEERED_SECONDS = 0.5
"""How often clients ask their zone's failover controller which nodes to use."""
SCANNED_AFTER = (
    "processes, network namespaces, mounts, loop devices, control groups and folder of the lab; "
    "the run's registry entry"
)
SCANNED_ON_A_LIVING_LAB = (
    "the ledger; every proxy, toxic and neighbour entry; stopped processes; the run's index; the run's registry entry"
)
"""What was looked at before a run was called clean."""


@dataclass
class RunOptions:
    """``out``: the folder that run folders go to. ``lab``: a lab to run on; None builds one and takes it away.

    ``kind`` and ``opensearch_home``: of a lab of its own, what it is made of.
    """

    out: Path
    command: str
    seed: int | None = None
    lab: BaseLab | None = None
    parts: Parts | None = None
    opensearch_home: Path | None = None
    kind: str = kinds.DEFAULT
    second_of: dict[str, Any] | None = None
    """The run that this one repeats, and why (:mod:`.retrying`); it goes into the plan, and so into the report."""


@dataclass
class RunResult:
    """Where the run's record is, and how it ended. ``findings`` is the content of findings.json."""

    folder: Path
    findings: dict[str, Any]
    clean: bool
    stopped: bool = False
    """True when a signal ended it: whoever runs several must not go on to the next."""

    @property
    def exit_code(self) -> Exit:
        return Exit(self.findings["exit_code"])


@dataclass
class Stop:
    """Why a run is to end early; the first reason stays. A failure of ours is one too, and the worse of two."""

    reason: str | None = None
    guard: str | None = None
    failure: str | None = None
    """What broke of ours (the record, the load driver), from whatever thread noticed it."""
    at: int | None = None
    """When it was asked for, in monotonic ns: abort latency counts from here."""
    ended: str | None = None
    """What happened that nobody had asked for (a process ended, settings changed): nothing more is begun, and what is
    in effect is undone."""
    failed: bool = False
    """It was one of ours that failed by itself."""
    # one thread may come twice: a second signal's handler interrupts the first one's
    _lock: Any = field(default_factory=threading.RLock)

    def ask(self, reason: str, guard: str | None = None) -> None:
        with self._lock:
            if self.reason is None:
                self.at = time.monotonic_ns()
                self.reason, self.guard = reason, guard

    def cut(self, ended: str, *, failed: bool = False) -> None:
        """Something has happened that nobody had asked for. The first one stays."""
        with self._lock:
            if self.ended is None:
                self.ended, self.failed = ended, failed

    def fail(self, says: str) -> None:
        """End the run as an error. One that is ending already goes on to its end, and then counts as one."""
        with self._lock:
            if self.failure is None:
                self.failure = says
            self.ask(says)

    @property
    def asked(self) -> bool:
        return self.reason is not None

    @property
    def by_signal(self) -> bool:
        """Whether it was the user who asked first, and no guard or failure."""
        return self.asked and self.guard is None and self.reason != self.failure

    def was_asked(self) -> bool:
        return self.asked

    def is_over(self) -> bool:
        """Whether nothing more is to be begun, or waited for longer than it takes to see that it is gone."""
        return self.asked or self.ended is not None

    def check(self) -> None:
        """Raises ChaosError when something of ours broke, Aborted after a stop, Unasked when a process ended."""
        if self.failure is not None:
            raise ChaosError(self.failure)
        if self.reason is not None:
            raise Aborted(self.reason)
        if self.ended is not None:
            raise ChaosError(self.ended) if self.failed else Unasked(self.ended)


@contextmanager
def signals(stop: Stop, reporter: Reporter) -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP ask for an orderly end; asking again changes nothing, because undo must finish."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if stop.asked:
            reporter.line(f"{name}: already undoing; this must finish (after a kill -9: `opensearch-chaos recover`)")
        else:
            reporter.line(f"{name}: undoing, reporting, then exiting")
        stop.ask(f"stopped by {name}")

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def refuse_leftovers() -> None:
    """Raises Leftovers naming what dead runs left, and the command that takes it away."""
    found = recovery.leftovers()
    if found:
        named = "; ".join(leftover.what for leftover in found)
        remedies = list(dict.fromkeys(leftover.remedy for leftover in found))
        raise Leftovers(f"{len(found)} leftovers of a dead run are here: {named}", remedy="; ".join(remedies))


def refuse_lacking(experiment: Experiment, lab: BaseLab | None = None, kind: str = kinds.DEFAULT) -> None:
    """Raises Lacking when this lab, or one of this kind that is still to be made, cannot do what the faults need."""
    plan.refuse_lacking(
        experiment, lab.lacks if lab is not None else kinds.of_kind(kind).offers(experiment.topology).get
    )


def new_lab_id() -> str:
    """A name for a lab that belongs to a run."""
    return f"r{secrets.token_hex(2)}"


def new_folder(out: Path, name: str) -> Path:
    """``<UTC>-<experiment>-<shortid>`` in ``out``; a folder that cannot be made is the user's to mend."""
    folder = out / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{name}-{secrets.token_hex(2)}"
    try:
        (folder / "history").mkdir(parents=True)
        (folder / "logs").mkdir()
    except OSError as error:
        raise InvalidInput(
            f"cannot make the run folder {folder}: {error.strerror}", remedy="choose a folder with --out"
        ) from error
    return folder


def refuse_second_run(lab: BaseLab) -> None:
    """Raises InvalidInput when another living process has a run on this lab: neither could trust what it measures."""
    me = ProcessIdentity.me()
    for other in registrations():
        if other.lab == lab.id and other.owner != me and other.owner.alive():
            raise InvalidInput(
                f"run {other.run} is under way on lab '{lab.id}'", remedy="wait for its end, or use another lab"
            )


@contextmanager
def sole_run(lab: BaseLab | None) -> Iterator[None]:
    """Hold a lab for the block, so that of two runs that begin at once one is refused with InvalidInput."""
    if lab is None or not lab.folder.is_dir():
        yield
        return
    with paths.locked(lab.folder / "run.lock", blocking=False) as mine:
        refuse_second_run(lab)
        if not mine:
            raise InvalidInput(
                f"another run is under way on lab '{lab.id}'", remedy="wait for its end, or use another lab"
            )
        yield


def run(experiment: Experiment, options: RunOptions, reporter: Reporter) -> RunResult:
    """Carry out one experiment. Raises ChaosError before anything has been started, or when no report can be made."""
    if options.lab is None:
        kinds.require(options.kind)
    guards.refuse_unready(experiment.guards)
    refuse_lacking(experiment, options.lab, options.kind)
    refuse_leftovers()
    space.refuse_scarce(space.wanted([experiment], options.out, kind=options.kind, own_lab=options.lab is None))
    with sole_run(options.lab):
        return _run(experiment, options, reporter)


def _run(experiment: Experiment, options: RunOptions, reporter: Reporter) -> RunResult:
    parts = options.parts or (options.lab.manifest.parts if options.lab else None)
    # before the signals are ours: a Ctrl-C may end a long download at once
    parts = parts or kinds.parts(
        options.kind, experiment.topology, reporter.line, opensearch_home=options.opensearch_home
    )
    stop = Stop()
    with signals(stop, reporter):
        folder = new_folder(options.out, experiment.name)
        try:
            execution = Execution(experiment, options, parts, folder, reporter, stop)
        except OSError as error:
            space.release(folder)
            raise ChaosError(f"cannot begin the run in {folder}: {error.strerror}") from error
        return execution.execute()


class Execution:
    """The state of one run; :meth:`execute` is the order."""

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
        self.ledger = Ledger(folder / "ledger.jsonl", self.broken)
        short = folder.name.rsplit("-", 1)[1]
        self.own_lab = options.lab is None
        self.index = "chaos" if self.own_lab else f"chaos-{short}"
        self.lab = options.lab or kinds.of_kind(options.kind).create(experiment.topology, parts, id=new_lab_id())
        self.registration = Registration(folder.name, self.ledger.path.absolute(), self.lab.id, ProcessIdentity.me())
        self.lifecycle = Lifecycle(self.lab, self.ledger, self.events, stopped=stop.is_over)
        self.ends = Ends(self.lab, self.events, folder / "logs", self.unasked)
        self.planned = {(p.phase, id(p.params)): p for p in plan.faults(experiment)}
        self.labels: dict[str, list[str]] = {}
        self.configuration = Configuration(self.lab, self.events, self.index, self.ledger.path, self.cut)
        self.controllers = controllers.Controllers(experiment, self.lab, folder)
        self.driver: Driver | None = None
        self.sampler: Sampler | None = None
        self.echo = echo.Echo(self.lab, folder)
        self.action_count = 0
        self.outcome = "finished"
        self.early = False
        """It ended before its last phase without being stopped: a fault was not proven, or a process ended."""
        self.dirt: list[str] = []
        self.phases_began: float | None = None

    # ---- the order ------------------------------------------------------------------------------

    def execute(self) -> RunResult:
        try:
            self.registration.write()
            self.write_plan()
            self.events.write("run.start", run=self.folder.name)
            self.lab_up()
            self.load_on()
            with self.guarded():
                self.warm_up()
                self.audit()
                self.phases_began = time.monotonic()
                for number, phase in enumerate(self.experiment.phases):
                    self.phase(number, phase)
        except Aborted as error:
            self.aborted(error)
        except (Unproven, Unasked) as error:
            self.ended_early(error)
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
        return self.report()

    def close_down(self) -> None:
        """Undo, settle, take the lab away. Every step is tried; only what stays behind in the end is dirt."""
        self.for_undo.release()
        for closing in (self.undo, self.settle_and_read_back, self.lab_away):
            try:
                closing()
            except Aborted as error:  # a signal while closing down: what is left of the order is the tail alone
                self.aborted(error)
            except Exception as error:  # one clean-up that fails must not stop the next
                self.keep_traceback(closing.__name__)
                if closing == self.lab_away:
                    self.dirt.append(f"{closing.__name__}: {type(error).__name__}: {error}")
                self.failed(f"{closing.__name__}: {type(error).__name__}: {error}")
        if self.stop.failure is not None and self.outcome != "error":  # it broke while something else ended the run
            self.failed(self.stop.failure)

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
        self.note("error", says=says)
        self.reporter.line(f"error: {says}")

    def stage(self, name: str) -> None:
        """Say in the record how far the run is, outside its phases."""
        self.note("stage", name=name)

    def note(self, kind: str, **fields: Any) -> None:
        """Write an event on the way out. A disk that is full must not stop the undo that comes after."""
        with suppress(OSError):
            self.events.write(kind, **fields)

    def keep_traceback(self, what: str) -> None:
        with suppress(OSError):
            (self.folder / "logs" / f"{what}-traceback.txt").write_text(traceback.format_exc())

    @contextmanager
    def in_python(self) -> Iterator[None]:
        """The same order with the phases left to the caller, for experiments written in Python.

        Undoes, settles, reads back and leaves the lab clean whatever the block raises; :meth:`report` comes after.
        """
        # the closing as well: a second Ctrl-C must not interrupt an undo
        with sole_run(self.options.lab), signals(self.stop, self.reporter):
            try:
                self.registration.write()
                self.write_plan()
                self.events.write("run.start", run=self.folder.name)
                self.load_on()
                with self.guarded():
                    self.warm_up()
                    self.audit()
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

    # ---- before the load ------------------------------------------------------------------------

    def write_plan(self) -> None:
        notes = plan.blunt(self.experiment)
        for said in (*overriding.sentences(self.experiment), *notes):
            self.reporter.line(f"  {said}")
        nodes = [{"name": n.name, "zone": n.zone, "roles": list(n.roles)} for n in self.experiment.topology.nodes]
        write_json(
            self.folder / "plan.json",
            {
                "format": 1,
                "run": self.folder.name,
                "command": self.options.command,
                "seed": self.seed,
                "hash": plan.digest(self.experiment),
                "started": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
                "experiment": self.experiment.to_json(),
                "topology": self.experiment.topology.to_json(),
                "lab": {
                    "kind": self.lab.kind,
                    "id": self.lab.id,
                    "nodes": nodes,
                    "client_hosts": [host.name for host in self.lab.wiring.clients],
                    "pulsed": self.pulsed,
                },
                "versions": {
                    **plan.versions(),
                    "opensearch": self.parts.opensearch_version,
                    "java": self.parts.java_version,
                    "toxiproxy": self.parts.toxiproxy_version,
                },
                "machine": plan.machine(),
                "watched": True,  # an end of a process is an event; without events of the watch nothing passes
                "configuration_watched": True,  # and so is a change of settings that is not ours
                "differences": plan.differences(self.experiment, self.parts.notes),
                "client": self.driver_config(planned=True).model_dump(
                    mode="json", exclude={"out", "access", "instruments"}
                ),
                "steps": list(plan.steps(self.experiment, self.seed)),
                "notes": notes,
                **({"second_of": self.options.second_of} if self.options.second_of else {}),
                # an experiment in Python has no expectations that a report could judge
                **({} if self.experiment.phases else {"judged_by": "its Python test says whether it passed"}),
            },
        )

    def lab_up(self) -> None:
        if not self.own_lab:
            return
        self.stage("lab start")
        self.reporter.status("starting the lab")
        self.lab.up(self.reporter.line, self.stop.check)

    def driver_config(self, *, planned: bool = False) -> DriverConfig:
        """``planned``: before there is a lab, so that nobody knows where clients will reach nodes."""
        topology, load = self.experiment.topology, self.experiment.load
        probe = plan.WEIGHED_PROBE_PATH if topology.weights else plan.PROBE_PATH
        return DriverConfig(
            seed=self.seed,
            out=(self.folder / "history").absolute(),
            index=self.index,
            operations=tuple(
                OperationConfig(name=o.name, kind=o.operation, rate=float(o.rate), good_within_s=float(o.good_within))
                for o in load.operations
            ),
            arrivals=load.arrivals,
            documents=load.documents,
            cas=CasConfig(rate=float(load.cas.rate), keys=load.cas.keys) if load.cas else None,
            visibility=VisibilityConfig(rate=float(load.visibility.rate), within_s=float(load.visibility.within))
            if load.visibility
            else None,
            client=ClientConfig(
                kind=load.client.kind,
                timeout_s=float(load.client.timeout),
                node=load.client.node,
                probe=ProbeConfig(path=probe, verify=load.client.verify_health_checks),
                steered_s=STEERED_SECONDS if self.experiment.controller is not None else None,
            ),
            clients=tuple(
                ClientHost(zone=zone) if planned else self.client_host(zone) for zone in self.experiment.client_zones
            ),
            targets=tuple(
                Target(node=n.name, zone=n.zone, host=self.lab.wiring[n.name].loopback, port=HTTP)
                for n in topology.data_nodes
            ),
            instruments=() if planned else tuple(map(self.instrument, self.pulsed)),
            access=self.lab.access,
        )

    @property
    def pulsed(self) -> dict[str, str | None]:
        """The hosts whose Toxiproxies the load passes, and for those of clients the zone (None: a node's)."""
        wiring, zones = self.lab.wiring, self.experiment.client_zones
        return {host.name: None for host in wiring.nodes} | {h.name: h.zone for h in wiring.clients if h.zone in zones}

    def instrument(self, host: str) -> Instrument:
        """Where the Toxiproxy of a host is asked for signs of life."""
        server = self.lab.toxiproxy(host).endpoint
        netns = str(server.namespace.path) if server.namespace is not None else None
        return Instrument(name=host, client=self.pulsed[host], host=server.host, port=server.port, netns=netns)

    def client_host(self, zone: str) -> ClientHost:
        """Where a zone's clients are, and by which addresses they reach nodes where those differ."""
        nodes = {node.name: self.lab.wiring[node.name].loopback for node in self.experiment.topology.data_nodes}
        ways = {node: self.lab.endpoint(f"client-{zone}", (address, HTTP)) for node, address in nodes.items()}
        space = next(iter(ways.values())).namespace
        steered = self.experiment.controller is not None and self.experiment.controller.steer
        return ClientHost(
            zone=zone,
            netns=str(space.path) if space is not None else None,
            addresses={node: way.address for node, way in ways.items() if way.address != (nodes[node], HTTP)},
            controller=self.controllers.ports.get(zone) if steered else None,
        )

    def load_on(self) -> None:
        self.ends.start()
        self.stage("preload")
        self.reporter.status("writing the documents that are there before the load")
        index = Reversible(
            Move(
                "index.create",
                {
                    "index": self.index,
                    "settings": dict(self.experiment.topology.settings.index),
                    "mapping": MAPPING,
                },
            ),
            Move("index.delete", {"index": self.index}),
        )
        if not self.own_lab:
            self.ledger.intend("index", [index])
        index.move.apply(self.lab)
        through = self.experiment.topology.data_nodes[0].name
        client = opensearch(self.lab.administration(through), access=self.lab.access_to(through))
        try:
            preload(client, self.experiment.load.documents, self.index, keys=self.cas_keys)
        finally:
            client.close()
        began = time.monotonic()
        while not await_green(self.lab, ALLOCATE_SECONDS, stopped=self.stop.is_over)[0]:
            self.stop.check()
            if time.monotonic() - began > GREEN_SECONDS:
                raise LabError("the cluster is not green before the load begins")
            # where a fault before was, allocation may have given up, or shun a disk that was full for a minute more
            with suppress(LabError):
                administer(self.lab, "POST", "/_cluster/reroute?retry_failed=true&metric=none")
        self.stop.check()
        self.configuration.start()
        self.sampler = Sampler(self.lab, self.events, self.index)
        self.sampler.start()
        if self.experiment.controller is not None:
            self.reporter.status("starting failover controllers")
            self.controllers.start(self.ledger, self.stop.check)
            for child in self.controllers.watched():
                self.ends.add(child)
        self.driver = Driver(self.driver_config(), self.folder / "logs" / "driver.log", self.driver_failed)
        self.driver.start()
        if self.driver.pid is not None:
            self.lab.instrument(self.driver.pid)
            self.ends.add(Ours("driver", "driver", None, self.driver.pid, *self.driver.ending, self.driver.log))
        self.echo.start()
        for child in self.echo.watched():
            self.ends.add(child)
        self.driver.go()
        self.events.write("load.start")
        self.reporter.line(
            "load on: "
            + ", ".join(f"{o.name} {o.rate.text}" for o in self.experiment.load.operations)
            + f" from zones {', '.join(self.experiment.client_zones)}"
        )

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

    def warm_up(self) -> None:
        """Let the load run until it is steady. These arrivals belong to no phase."""
        assert self.driver is not None
        self.stage("warm-up")
        objectives = {o.name: float(o.good_within) * 1000 for o in self.experiment.load.operations}
        began = time.monotonic()
        in_a_row, seen = 0, 0
        while in_a_row < WARM_SECONDS and time.monotonic() - began < WARM_UP_LIMIT_SECONDS:
            self.tick("warming up")
            status = self.driver.status
            if status.get("t", 0) > seen:
                seen = status["t"]
                now = status["operations"]
                good = all(
                    now.get(name, {}).get("ok", 0) > 0
                    and now[name]["bad"] == 0
                    and (now[name]["p99_ms"] or 0) <= objective
                    for name, objective in objectives.items()
                )
                in_a_row = in_a_row + 1 if good else 0
            time.sleep(TICK_SECONDS)
        seconds = time.monotonic() - began
        self.events.write("warm", seconds=round(seconds, 3), steady=in_a_row >= WARM_SECONDS)
        self.reporter.line(
            f"warm after {seconds:.0f} s" if in_a_row >= WARM_SECONDS else f"not steady after {seconds:.0f} s"
        )
        self.say_what_can_be_decided()

    def say_what_can_be_decided(self) -> None:
        """By the echo's last seconds, with the load on and nothing done to the cluster yet."""
        objectives: dict[str, float] = {o.name: float(o.good_within) for o in self.experiment.load.operations}
        now = time.monotonic_ns()
        heard = deciding.Echoes.of(History.open(self.folder).echo, now - DECIDED_BY_SECONDS * 1_000_000_000, now)
        says = deciding.says(heard, objectives)
        answers = {op: deciding.decides(heard, objective) for op, objective in objectives.items()}
        self.events.write("machine.decides", decides=answers, asked=heard.asked, says=says)
        self.reporter.line(says)

    def audit(self) -> None:
        """What the availability checklist says of the cluster before anything is done to it. Never ends a run."""
        try:
            sheet = audited.of_lab(self.lab)
            write_json(self.folder / AUDIT, documentation.to_json(sheet, Workload.SEARCH, audit(sheet)))
        except Exception:  # the report then has no such section
            self.keep_traceback("audit")

    # ---- phases ---------------------------------------------------------------------------------

    def phase(self, number: int, phase: Phase) -> None:
        self.stop.check()
        self.events.write("clock")
        self.events.write("phase.start", phase=phase.name, index=number, scripted_wait=phase.scripted_wait)
        began = time.monotonic()
        self.reporter.line(f"phase {phase.name}")
        try:
            if phase.undo:
                self.undo_step(phase.undo)
            if phase.inject:
                self.inject_step(phase)
            for action in phase.do:
                self.stop.check()
                self.action_count += 1
                self.reporter.status(f"{phase.name}: {action.describe()}")
                done = actions.perform(f"a{self.action_count}", action, self.lab, self.ledger, self.events)
                self.reporter.line(f"  {action.describe()}: {'done' if done else 'FAILED'}")
            reason = self.hold(phase, began)
            looked = self.look_step(number)
        except BaseException as error:  # whatever ended it, the record says when
            early = isinstance(error, Aborted | Unproven | Unasked)
            self.note("phase.end", phase=phase.name, reason="aborted" if early else "error")
            raise
        self.events.write("phase.end", phase=phase.name, reason=reason, looked=round(looked, 3))
        self.refuse_vanished()

    def look_step(self, number: int) -> float:
        """Prove once more what is to be undone next, while its phase lasts: the next one's clocks begin with the undo.

        The seconds that it took, by which the phase is longer than it was asked to be.
        """
        later = self.experiment.phases[number + 1 : number + 2]
        names = later[0].undo if later else ["all"]
        took = self.lifecycle.look_again(self.to_undo(names))
        self.stop.check()
        return took

    def refuse_vanished(self) -> None:
        """Raises Unproven when a fault ended early or spread: nothing that comes after could count."""
        for says in self.lifecycle.vanished.values():
            raise Unproven(f"{says}: not proven to be in effect any more, nothing can be concluded")

    def inject_step(self, phase: Phase) -> None:
        """All faults of a phase at once."""
        planned = [self.planned[(phase.name, id(params))] for params in phase.inject]
        self.reporter.status(f"{phase.name}: injecting {', '.join(each.params.describe() for each in planned)}")
        now = elected(self.lab) if any(each.params.momentary for each in planned) else None
        faults = [
            ready(each.id, each.params, self.lab, seed=self.seed, elected=now, index=self.index) for each in planned
        ]
        for each, fault in zip(planned, faults, strict=True):
            self.labels.setdefault(each.params.label, []).append(fault.id)
        proven = self.lifecycle.inject(*faults)
        self.stop.check()
        for fault in faults:
            self.reporter.line(f"  {fault.says}: {'in effect, proven' if proven else 'NOT PROVEN'}")
        if not proven:
            raise Unproven(
                f"{' and '.join(fault.kind for fault in faults)}: not proven to be in effect, nothing can be concluded"
            )

    def undo_step(self, names: Sequence[str]) -> None:
        """The moves of all of them are taken back first, as at the end of a run."""
        ids = self.to_undo(names)
        if ids:
            self.reporter.status(f"undoing {', '.join(ids)}")
        for id, gone in self.lifecycle.undo_each(ids).items():
            self.reporter.line(f"  undo of {id}: {'gone, proven' if gone else 'its end is NOT PROVEN'}")
        self.stop.check()

    def to_undo(self, names: Sequence[str]) -> list[str]:
        """The active faults that these names stand for."""
        active = [fault.id for fault in self.lifecycle.active]
        wanted = set(active) if "all" in names else {id for name in names for id in self.labels.get(name, [])}
        return [id for id in active if id in wanted]

    def hold(self, phase: Phase, began: float) -> str:
        if phase.duration is not None:
            end = began + float(phase.duration)
            while time.monotonic() < end:
                self.tick(f"{phase.name}: {end - time.monotonic():.0f} s left")
                time.sleep(min(TICK_SECONDS, max(0.0, end - time.monotonic())))
            return "elapsed"
        assert phase.until is not None
        until = phase.until
        found = patiently(
            lambda: await_green(
                self.lab,
                float(until.within) - (time.monotonic() - began),
                stable=float(until.stable),
                stopped=lambda: self.tick(f"{phase.name}: waiting for green"),
            ),
            self.stop.is_over,
            0.0,
        )
        self.stop.check()
        return "condition met" if found is not None and found[0] else "deadline"

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

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Hold the guards over the block: warm-up and phases."""
        made = guards.guards_of(
            self.experiment.guards,
            phases_began=lambda: self.phases_began,
            red_since=lambda: self.sampler.red_since if self.sampler else None,
            status=lambda: self.driver.status if self.driver else {},
        )
        with guards.Watch(made, self.stop.ask):
            yield

    # ---- after the phases -----------------------------------------------------------------------

    def undo(self) -> None:
        self.stage("undo")
        held = [fault.id for fault in self.lifecycle.active]
        self.controllers.stop()  # else they would do again what is taken back
        if held:
            self.reporter.line("undoing what is still in effect")
        gone = self.lifecycle.undo_all(look=self.outcome == "finished")
        if not gone:
            self.reporter.line("not every fault is proven to be gone")
        self.say_latency(held, gone)
        remaining = [e for e in standing(self.ledger.path) if e.inverse is not None and e.fault != "index"]
        undo_entries(self.lab, self.ledger, remaining)  # what fails is tried once more when the lab is left
        self.check_late_stop()

    def say_latency(self, held: list[str], gone: bool) -> None:
        """How long it took from the stop being asked for until nothing was in effect any more, and proven so."""
        asked, back = self.stop.at, self.lifecycle.taken_back
        if asked is None:
            return
        now = time.monotonic_ns()
        seconds = max(0, back - asked) / 1e9 if back is not None else 0.0
        self.note(
            "abort.undone",
            asked=asked,
            faults=held,
            seconds=round(seconds, 6),
            proven=gone,
            proven_seconds=round((now - asked) / 1e9, 6) if held else None,
        )
        if held:
            self.reporter.line(f"everything was undone {seconds:.1f} s after the stop was asked for")

    def check_late_stop(self) -> None:
        """A stop that comes after the phases ends the run as aborted too. Raises Aborted.

        A process that ends unasked after them is said, and ends nothing but the waiting; one of ours that failed is an
        error as ever.
        """
        if self.outcome != "finished":
            return
        if self.stop.asked or self.stop.failed:
            self.stop.check()
        elif self.stop.ended is not None and not self.early:
            self.ended_early(Unasked(self.stop.ended))

    def settle_and_read_back(self) -> None:
        """Green again under load, then load off, then every acknowledged document from every copy.

        Where a process ended unasked nothing is waited for: it will not come back, and what is there is read.
        """
        if self.driver is None or self.sampler is None:
            return
        if self.outcome == "finished" and self.stop.ended is None:
            self.stage("settle")
            over, sampler = self.stop.is_over, self.sampler
            until = time.monotonic() + SETTLE_SECONDS

            def waiting() -> bool:
                left = max(0.0, until - time.monotonic())
                self.reporter.status(f"settling: waiting for green, at most {left:.0f} s   cluster {sampler.status}")
                return over()

            settled = patiently(
                lambda: await_green(self.lab, SETTLE_SECONDS, stopped=waiting, hopeless=HOPELESS_SECONDS), over, 0.0
            )
            if settled is not None and not over():
                self.events.write("cluster.settled", green=settled[0], seconds=round(settled[1], 3))
            patiently(self.sampler.returned, over, 0.0)
        self.note("load.stop")
        self.reporter.status("load off")
        if not self.driver.stop():
            self.note("note", says=f"the load driver did not end in order: {self.driver.error}")
        self.sampler.stop()
        self.configuration.stop()
        self.check_late_stop()
        if self.outcome == "finished":
            written = Written.of(
                History.open(self.folder), documents=self.experiment.load.documents, keys=self.cas_keys
            )
            self.stage("read-back")
            if self.stop.ended is not None:
                patiently(self.await_known_dead, self.stop.was_asked, 0.0)
            says = self.reporter.status
            result = patiently(
                lambda: read_back(self.lab, self.index, written, says, seed=self.seed), self.stop.was_asked, 0.0
            )
            self.check_late_stop()
            write_json(self.folder / "history" / "readback.json", result)

    def await_known_dead(self) -> None:
        """Until the cluster is led and knows which nodes are gone: what they held cannot be read."""
        dead = {node.name for node in self.lab.topology.nodes if self.lab.process_state(node.name) is None}

        def known() -> bool:
            seen = newest(views(self.lab))
            return seen is not None and not seen.nodes & dead

        wait_until(known, KNOWN_SECONDS, every=0.25)

    @property
    def cas_keys(self) -> int:
        return self.experiment.load.cas.keys if self.experiment.load.cas else 0

    def lab_away(self) -> None:
        self.stage("lab away")
        self.ends.stop()
        self.echo.stop()
        if self.driver is not None:
            self.driver.kill()
            self.dirt += [f"the load driver (process {self.driver.pid}) does not die"] if self.driver.alive else []
        if self.sampler is not None:
            self.sampler.stop()
        self.configuration.stop(patient=self.outcome == "finished")
        self.lab.write_logs()
        self.keep_logs()
        if self.own_lab:
            self.reporter.status("taking the lab away")
            self.dirt += self.lab.down()
            shutil.rmtree(sweep.logs() / self.lab.id, ignore_errors=True)  # the run folder has them
            self.dirt += [f"{trace} is still here" for trace in traces.of(self.lab.id)]
        else:
            self.dirt += undo_entries(self.lab, self.ledger, standing(self.ledger.path))
            self.dirt += proof.marks(self.lab)
            self.dirt += proof.index_there(self.lab, self.index)
        if not self.dirt:
            self.registration.remove()
            left = [each for each in registrations() if each.run == self.registration.run]
            self.dirt += [f"registry entry {each.file} is still here" for each in left]

    def keep_logs(self) -> None:
        """The nodes' logs go with the run; a reused lab's are cut where the run began."""
        for file in sorted((self.lab.folder / "logs").glob("*.log")):
            with suppress(OSError):
                shutil.copy(file, self.folder / "logs" / file.name)
                os.chown(self.folder / "logs" / file.name, os.geteuid(), os.getegid())

    def report(self) -> RunResult:
        from chaos.report import promises, render

        clean = not self.dirt
        self.for_report.release()
        try:
            scanned = SCANNED_AFTER if self.own_lab else SCANNED_ON_A_LIVING_LAB
            write_json(self.folder / "clean.json", {"clean": clean, "detail": self.dirt, "scanned": scanned})
            self.note("run.end", reason=self.outcome)
            self.reporter.status("judging")
            with suppress(ChaosError, OSError):  # rows can be judged as they are
                compact(self.folder)
            with suppress(OSError):  # then the report says that there was no run before
                promises.remember(self.folder, self.experiment.name)
            page = render(self.folder)
            findings = json.loads((page.parent / "findings.json").read_text())
        except (ChaosError, OSError) as error:
            raise Unreported(self.folder, error, self.dirt, self.stop.failure) from error
        finally:
            self.events.close()
            self.ledger.close()
            self.reporter.close()
        return RunResult(self.folder, findings, clean, self.stop.by_signal)


def python_execution(
    *,
    name: str,
    lab: BaseLab,
    out: Path,
    rates: Mapping[str, str | None],
    good: str,
    client: Mapping[str, Any],
    seed: int,
    file: Path,
    reporter: Reporter,
    objectives: tuple[Mapping[str, Duration], str] = ({}, overriding.OPTION),
) -> Execution:
    """A run on ``lab`` whose phases a Python test makes. ``rates``: operation → ``100/s`` or None for none.

    ``objectives``: those that replace ``good``, and the option that gave them.
    Raises InvalidInput for a wrong rate, duration or client, or an objective for what there is none of.
    """
    try:
        operations = {
            operation: Operation(
                name=operation,  # type: ignore[arg-type]
                rate=Rate.parse(rate),
                good_within=Duration.parse(good),
                operation="search" if operation == "read" else "index",
            )
            for operation, rate in rates.items()
            if rate is not None
        }
        load = Load(**operations, client=Client.model_validate(dict(client)))  # type: ignore[arg-type]
    except ValueError as error:
        raise InvalidInput(f"load: {error}") from None
    experiment = Experiment(
        name=re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-"),
        seed=seed,
        file=file,
        topology=lab.topology,
        load=load,
        phases=(),
        expect=(),
    )
    given, option = objectives
    experiment = overriding.override(experiment, given, option)
    command = [f"pytest -m chaos {file.name}::{name}", *(f"{option}={each}" for each in overriding.options(experiment))]
    experiment = experiment.model_copy(update={"good_in_file": {}})  # the test states none that would be replaced
    space.refuse_scarce(space.wanted([experiment], out, own_lab=False))
    options = RunOptions(out=out, command=" ".join(command), seed=seed, lab=lab)
    folder = new_folder(out, experiment.name)
    return Execution(experiment, options, lab.manifest.parts, folder, reporter, Stop())


class Unreported(ChaosError):
    """The run is over and undone, but its report cannot be made (a full disk, say)."""

    def __init__(self, folder: Path, why: Exception, dirt: list[str], failure: str | None = None) -> None:
        ended = f"; the run had ended early: {failure}" if failure else ""
        left = f"; left behind: {'; '.join(dirt)} (run: opensearch-chaos recover)" if dirt else ""
        super().__init__(f"no report of {folder} can be made: {why}{ended}{left}")
        found = why.exit_code if isinstance(why, ChaosError) else Exit.ERROR
        self.exit_code = min([found, Exit.DIRTY] if dirt else [found], key=SEVERITY.index)


class Unasked(ChaosError):
    """Something happened that nobody had asked for, a process ended or settings changed.

    The run ends early, and its checks say what that means.
    """


class Unproven(ChaosError):
    """A fault whose effect could not be proven: the run ends early and is inconclusive."""
