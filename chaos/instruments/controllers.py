"""The failover controllers of a run: one process in each zone's client host, ended with the run whatever ends it.

They are the program that users run, started as users start it, and reach nodes by the same links as the zone's clients.
A controller ends when the pipe on its standard input does, so none outlives its runner; what it did to the cluster is
taken back from the ledger. It stands there itself before it begins, so that whoever undoes a dead or silent run on this
machine ends it first.

On a cluster that is not ours others may undo too, from other machines. So there a controller ends as well when its
runner says nothing for SILENT_SECONDS; and the runner goes silent when it has not been able to say on the cluster that
it lives (``holds``), before anybody there may believe that it is dead.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from chaos.base.access import Access
from chaos.base.errors import ChaosError
from chaos.base.netsock import Endpoint
from chaos.checks.instrument import Begins, Begun, Changes, Child, Context, Ends, Instrument, Observer, Steering
from chaos.definitions.experiment import Controller, Experiment
from chaos.history.controllers import LEDGER, SILENT_SECONDS
from chaos.opensearch import administration
from chaos.opensearch.canaries import canaries
from chaos.opensearch.cluster import Cluster, Zoning

HTTP = 9200
"""The port of a node's REST interface on its own loopback address."""
PORT = 9280
"""Of a controller that has a loopback of its own."""
READY_SECONDS = 90.0
STOP_SECONDS = 10.0
BEAT_SECONDS = 0.5
GO = b"."
"""Said again and again where they end once nothing is said."""
BYTES = 2000
"""A second of a controller's events and log."""


def rotations(zones: Sequence[str]) -> list[dict[str, int]]:
    """All weights that a controller may set: one zone stands by, the others serve."""
    return [{zone: int(zone != standby) for zone in zones} for standby in zones]


def options(access: Access, zoning: Zoning) -> list[str]:
    """How ``opensearch-chaos failover`` is told to get in, and what zones are called; secrets stay references."""
    given = {"user": access.user, "password": access.password, "certificate": access.certificate, "key": access.key}
    given |= {"ca": access.ca if access.verify else None, "tls-name": access.tls_name}
    found = [word for name, value in given.items() if value is not None for word in (f"--{name}", value)]
    found += [] if access.verify else ["--insecure"]
    if access.whose is not None:
        found += ["--cluster-uuid", access.whose.uuid, "--cluster-name", access.whose.name]
    found += [] if zoning == Zoning() else ["--zone-attribute", zoning.attribute]
    return found + [word for zone, value in zoning.values.items() for word in ("--zone-name", f"{zone}={value}")]


def _at(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Reached(Cluster, Protocol):
    """A target whose nodes clients reach from their zones, and where processes of ours can run."""

    @property
    def access(self) -> Access: ...
    @property
    def wiring(self) -> Any: ...
    def endpoint(self, source: str, address: tuple[str, int]) -> Endpoint: ...
    def instrument(self, pid: int) -> object: ...


class Controllers(Steering):
    """All of them. ``start`` before the load, ``check`` while it runs, ``stop`` before faults are undone for good.

    ``holds``: on a cluster that is not ours, whether this run may still be taken for alive there. Once it is not,
    ``lost`` is told why, in words, and they are left to end.
    """

    def __init__(
        self,
        experiment: Experiment,
        lab: Reached,
        folder: Path,
        *,
        holds: Callable[[], bool] | None = None,
        lost: Callable[[str], None] = lambda says: None,
    ) -> None:
        self._wanted: Controller | None = experiment.controller
        self._zones, self._topology = experiment.controller_zones, experiment.topology
        self._lab, self._folder = lab, folder
        self._holds, self._lost = holds, lost
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._begun: dict[str, Begun] = {}
        self._owner = administration.new_owner()
        self._over = threading.Event()
        self._beating: threading.Thread | None = None
        self.ports: dict[str, int] = {}

    def start(self, changes: Changes, check: Callable[[], None]) -> None:
        """Start them and wait until each sees the whole cluster. Raises ChaosError."""
        if self._wanted is None:
            return
        changes.take_back(LEDGER, self._back(self._wanted))
        starts = {zone: self._kinds(zone).count("failover.start") for zone in self._zones}  # of earlier ones
        for zone in self._zones:
            self._running[zone] = self._spawn(zone, self._wanted, changes)
        if self._holds is not None:
            self._beating = threading.Thread(target=self._beat, args=(self._holds,), name="controllers", daemon=True)
            self._beating.start()
        deadline = time.monotonic() + READY_SECONDS
        while waited := [zone for zone in self._zones if not self._ready(zone, starts[zone])]:
            check()
            self.check()
            if time.monotonic() > deadline:
                raise ChaosError(f"the controller of zone {waited[0]} sees no whole cluster: {self._last(waited[0])}")
            time.sleep(0.1)

    def _back(self, wanted: Controller) -> list[tuple[str, Mapping[str, Any]]]:
        """What takes back whatever they may do. Others' clusters are put back only where they are as we left them, and
        by whoever has no record of what was done there: so all that controllers may do is named."""
        names, votes, owner = canaries(self._topology), self._votes_are_ours(), self._owner
        if self._holds is None:
            before, _ = administration.certain(self._lab, lambda: administration.weights(self._lab))
            return [("failover.away", {"weights": before, "canaries": names, "votes": votes})]
        if not wanted.act:
            return [("index.delete", {"index": name, "owner": owner}) for name in names]
        before, _ = administration.certain(self._lab, lambda: administration.weights(self._lab))
        zones = sorted({node.zone for node in self._topology.data_nodes})
        electable = [node for node in self._topology.nodes if {"cluster_manager", "master"} & set(node.roles)]
        taken = [sorted(node.name for node in electable if node.zone != zone) for zone in zones]
        given = {"before": before, "made": rotations(zones), "canaries": names, "votes": taken if votes else []}
        return [("failover.restore", {**given, "owner": owner})]

    def _beat(self, holds: Callable[[], bool]) -> None:
        while not self._over.wait(BEAT_SECONDS):
            if not holds():
                self._lost("it could not be said on the cluster for too long that this run lives: controllers end")
                return
            for process in list(self._running.values()):
                if process.stdin is not None:
                    with suppress(OSError, ValueError):
                        os.write(process.stdin.fileno(), GO)

    def taken_out(self) -> frozenset[str]:
        """The zones that they have asked to be decommissioned."""
        steps = [event for zone in self._zones for event in self._told(zone) if event["kind"] == "failover.step"]
        return frozenset(str(event["zone"]) for event in steps if event["step"] == "decommission")

    def _votes_are_ours(self) -> bool:
        """Whether any exclusion of votes that is found later is one of ours."""
        return self._wanted is not None and self._wanted.lead_from_standby and not administration.excluded(self._lab)

    def _spawn(self, zone: str, wanted: Controller, changes: Changes) -> subprocess.Popen[bytes]:
        host = f"client-{zone}"
        names = [node.name for node in self._topology.nodes]
        ways = {name: self._lab.endpoint(host, (self._lab.wiring[name].loopback, HTTP)) for name in names}
        space = next(iter(ways.values())).namespace
        self.ports[zone] = PORT if space is not None else _free_port()
        access = self._lab.access
        at = {name: _at(way.host, way.port) for name, way in ways.items()}
        urls = [f"{access.scheme}://{at[node.name]}" for node in self._topology.data_nodes]
        arguments = [sys.executable, "-m", "chaos", "failover", *urls, "--name", f"controller-{zone}"]
        arguments += ["--until-eof"] if self._holds is None else ["--until-silent", f"{SILENT_SECONDS:g}s"]
        arguments += ["--events", str(self._events(zone)), "--listen", f"127.0.0.1:{self.ports[zone]}"]
        arguments += ["--act" if wanted.act else "--canaries"]
        arguments += ["--owner", self._owner] if self._holds is not None else []
        arguments += ["--lead-from-standby"] if wanted.lead_from_standby else []
        for option in ("read_after", "write_after", "cool_down", "return_after", "rotate_every"):
            seconds = getattr(wanted, option)
            arguments += [f"--{option.replace('_', '-')}", f"{float(seconds):g}s"] if seconds is not None else []
        arguments += options(access, self._lab.zoning)
        for name, address in at.items():
            arguments += ["--at", f"{name}={address}"]
        about = ["opensearch-chaos", "failover", "--name", f"controller-{zone}"]
        try:
            begun = changes.begin(
                f"controller {zone}", arguments, self._log(zone), about, cwd=self._folder, namespace=space
            )
        except ChaosError as error:
            raise ChaosError(f"the failover controller of zone {zone} could not begin: {error}") from error
        self._begun[zone] = begun
        self._lab.instrument(begun.process.pid)  # elsewhere it has a machine of its own
        return begun.process

    def _events(self, zone: str) -> Path:
        return (self._folder / "history" / f"failover-{zone}.jsonl").absolute()

    def _log(self, zone: str) -> Path:
        return self._folder / "logs" / f"failover-{zone}.log"

    def _told(self, zone: str) -> list[dict[str, Any]]:
        """A controller's events so far."""
        try:
            lines = self._events(zone).read_text().splitlines()
        except OSError:
            return []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def _kinds(self, zone: str) -> list[str]:
        return [str(event["kind"]) for event in self._told(zone)]

    def _ready(self, zone: str, starts: int) -> bool:
        told = [kind for kind in self._kinds(zone) if kind in ("failover.start", "failover.ready")]
        return told.count("failover.start") > starts and told[-1] == "failover.ready"

    def _last(self, zone: str) -> str:
        lines = self._log(zone).read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    def check(self) -> None:
        """Raises ChaosError when one has died: what follows would be judged without it."""
        for zone, process in self._running.items():
            if process.poll() is not None:
                raise ChaosError(f"the failover controller of zone {zone} ended: {self._last(zone)}")

    def watched(self) -> list[Child]:
        """Each for the watch over processes; the end of one that :meth:`stop` took over was asked for."""
        return [
            Child(
                "controller", zone, zone, process.pid, process.poll, self._ended_by_us(zone, process), self._log(zone)
            )
            for zone, process in self._running.items()
        ]

    def _ended_by_us(self, zone: str, process: subprocess.Popen[bytes]) -> Callable[[], bool]:
        return lambda: self._running.get(zone) is not process

    def stop(self) -> None:
        """End them and wait until they have; idempotent."""
        self._over.set()
        if self._beating is not None:
            self._beating.join()
        running = dict(self._running)
        for zone, process in running.items():
            if process.poll() is None:  # one that is dead was not asked to end
                del self._running[zone]
        for process in running.values():
            if process.stdin is not None:
                process.stdin.close()
        for process in running.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(STOP_SECONDS)
        for zone in running:
            if (begun := self._begun.pop(zone, None)) is not None:
                begun.ended()


class Steered(Observer, Steering):
    """The controllers of a run, as it begins and ends them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._made = Controllers(
            context.experiment, context.lab, context.folder, holds=context.holds(), lost=context.stop
        )
        self.ports = self._made.ports

    def start(self) -> None:
        self._context.status("starting failover controllers")
        self._made.start(self._context.changes(), self._context.check)

    def stop(self, *, patient: bool = True) -> None:
        self._made.stop()

    def check(self) -> None:
        self._made.check()

    def children(self) -> list[Child]:
        return self._made.watched()

    def taken_out(self) -> frozenset[str]:
        return self._made.taken_out()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _observe(context: Context) -> Steered | None:
    return None if context.experiment.controller is None else Steered(context)


def _room(experiment: Experiment) -> float:
    return float(BYTES * len(experiment.controller_zones) * (experiment.controller is not None))


INSTRUMENT = Instrument(
    name="controllers",
    says="failover controllers of the run, one in each zone's client host, and what they tell",
    observe=_observe,
    begins=Begins.INDEX,
    ends=Ends.UNDO,
    order=90,
    answers=("controller",),
    room=_room,
)
