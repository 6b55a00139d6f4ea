"""The failover controllers of a run: one process in each zone's client host, ended with the run whatever ends it.

They are the program that users run, started as users start it, and reach nodes by the same links as the zone's clients.
A controller ends when the pipe on its standard input does, so none outlives its runner; what it did to the cluster is
taken back from the ledger.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from chaos.base.errors import ChaosError
from chaos.definitions.experiment import Controller, Experiment
from chaos.faults.ledger import Ledger
from chaos.faults.moves import Move, Reversible
from chaos.observe.ends import Ours
from chaos.opensearch import administration
from chaos.programs.failover.cluster import pairs
from chaos.target.labs.base import BaseLab
from chaos.target.wiring import HTTP

PORT = 9280
"""Of a controller that has a loopback of its own."""
READY_SECONDS = 90.0
STOP_SECONDS = 10.0


class Controllers:
    """All of them. ``start`` before the load, ``check`` while it runs, ``stop`` before faults are undone for good."""

    def __init__(self, experiment: Experiment, lab: BaseLab, folder: Path) -> None:
        self._wanted: Controller | None = experiment.controller
        self._zones, self._topology = experiment.controller_zones, experiment.topology
        self._lab, self._folder = lab, folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.ports: dict[str, int] = {}
        """Zone → where its controller listens, on the loopback of the zone's clients."""

    def start(self, ledger: Ledger, check: Callable[[], None]) -> None:
        """Start them and wait until each sees the whole cluster. Raises ChaosError."""
        if self._wanted is None:
            return
        before, _ = administration.weights(self._lab)
        canaries = sorted(pairs(sorted({node.zone for node in self._topology.data_nodes})))
        back = Move("failover.away", {"weights": before, "canaries": canaries, "votes": self._votes_are_ours()})
        ledger.intend("failover", [Reversible(Move("nothing"), back)])
        starts = {zone: self._told(zone).count("failover.start") for zone in self._zones}  # of earlier ones
        for zone in self._zones:
            self._running[zone] = self._spawn(zone, self._wanted)
        deadline = time.monotonic() + READY_SECONDS
        while waited := [zone for zone in self._zones if not self._ready(zone, starts[zone])]:
            check()
            self.check()
            if time.monotonic() > deadline:
                raise ChaosError(f"the controller of zone {waited[0]} sees no whole cluster: {self._last(waited[0])}")
            time.sleep(0.1)

    def _votes_are_ours(self) -> bool:
        """Whether any exclusion of votes that is found later is one of ours."""
        return self._wanted is not None and self._wanted.lead_from_standby and not administration.excluded(self._lab)

    def _spawn(self, zone: str, wanted: Controller) -> subprocess.Popen[bytes]:
        host = f"client-{zone}"
        names = [node.name for node in self._topology.nodes]
        ways = {name: self._lab.endpoint(host, (self._lab.wiring[name].loopback, HTTP)) for name in names}
        space = next(iter(ways.values())).namespace
        self.ports[zone] = PORT if space is not None else _free_port()
        access = self._lab.access
        urls = [f"{access.scheme}://{ways[n.name].host}:{ways[n.name].port}" for n in self._topology.data_nodes]
        arguments = [sys.executable, "-m", "chaos", "failover", *urls, "--until-eof", "--name", f"controller-{zone}"]
        arguments += ["--events", str(self._events(zone)), "--listen", f"127.0.0.1:{self.ports[zone]}"]
        arguments += ["--act" if wanted.act else "--canaries"]
        arguments += ["--lead-from-standby"] if wanted.lead_from_standby else []
        for option in ("read_after", "write_after", "cool_down", "return_after", "rotate_every"):
            seconds = getattr(wanted, option)
            arguments += [f"--{option.replace('_', '-')}", f"{float(seconds):g}s"] if seconds is not None else []
        for option in ("user", "password", "ca"):  # the password is a reference
            value = getattr(access, option)
            arguments += [f"--{option}", value] if value is not None else []
        for name, way in ways.items():
            arguments += ["--at", f"{name}={way.host}:{way.port}"]
        with ExitStack() as stack:
            log: IO[bytes] = stack.enter_context(open(self._log(zone), "ab"))
            if space is not None:
                stack.enter_context(space.entered())
            process = subprocess.Popen(
                arguments, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self._folder, start_new_session=True
            )
        self._lab.instrument(process.pid)  # elsewhere it has a machine of its own
        return process

    def _events(self, zone: str) -> Path:
        return (self._folder / "history" / f"failover-{zone}.jsonl").absolute()

    def _log(self, zone: str) -> Path:
        return self._folder / "logs" / f"failover-{zone}.log"

    def _told(self, zone: str) -> list[str]:
        """The kinds of a controller's events so far."""
        try:
            lines = self._events(zone).read_text().splitlines()
        except OSError:
            return []
        return [json.loads(line)["kind"] for line in lines if line.endswith("}")]

    def _ready(self, zone: str, starts: int) -> bool:
        told = [kind for kind in self._told(zone) if kind in ("failover.start", "failover.ready")]
        return told.count("failover.start") > starts and told[-1] == "failover.ready"

    def _last(self, zone: str) -> str:
        lines = self._log(zone).read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    def check(self) -> None:
        """Raises ChaosError when one has died: what follows would be judged without it."""
        for zone, process in self._running.items():
            if process.poll() is not None:
                raise ChaosError(f"the failover controller of zone {zone} ended: {self._last(zone)}")

    def watched(self) -> list[Ours]:
        """Each for the watch over processes; the end of one that :meth:`stop` took over was asked for."""
        return [
            Ours("controller", zone, zone, process.pid, process.poll, self._ended_by_us(zone, process), self._log(zone))
            for zone, process in self._running.items()
        ]

    def _ended_by_us(self, zone: str, process: subprocess.Popen[bytes]) -> Callable[[], bool]:
        return lambda: self._running.get(zone) is not process

    def stop(self) -> None:
        """End them and wait until they have; idempotent."""
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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
