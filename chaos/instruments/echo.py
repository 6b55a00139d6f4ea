"""Can this machine decide an objective? Asked of an instrument in the nodes' place among the processors.

The nodes of a local lab share processors with each other, the load and whatever else runs. An answer that is late may
be so because no processor was free. So beside the nodes of each data zone stands a process that answers small questions
(:mod:`chaos.programs.echoing`), with a data node's share of the zone's processor time: what it takes is what a cluster
that needed no time of its own would take here. Before the first phase it is said whether the objectives can be decided
by this machine (:mod:`chaos.checks.deciding`); what the echo took over the whole run stays in the record.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Protocol

from chaos.base.errors import ChaosError
from chaos.checks.instrument import Begins, Child, Context, Ends, Instrument, Observer
from chaos.definitions.topology import Topology
from chaos.history.writer import ECHO

RATE = 20
"""Questions a second, over all zones."""
WORK_US = 1000
"""Processor time (µs) of each of a question's two visits: 40 ms a second in all, 4 % of one processor."""
READY_SECONDS = 10.0
STOP_SECONDS = 5.0


PROGRAM = Path(__file__).parents[1] / "programs" / "echoing.py"


class Places(Protocol):
    """A target that has places beside its nodes among the processors."""

    @property
    def topology(self) -> Topology: ...
    def has_places(self, zones: Sequence[str]) -> bool: ...
    def beside(self, node: str) -> AbstractContextManager[object]: ...
    def place(self, pid: int, zone: str) -> object: ...
    def instrument(self, pid: int) -> object: ...


class Echo(Observer):
    """The processes of one run. They end with :meth:`stop`, or when the runner does."""

    def __init__(self, lab: Places, folder: Path) -> None:
        self._lab = lab
        self._file = folder / "history" / ECHO
        self._log = folder / "logs" / "echo.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> bool:
        """Begin to ask. False where a lab gives no place beside its nodes: then nothing is measured.

        Raises ChaosError when the processes do not come up.
        """
        zones = list(dict.fromkeys(node.zone for node in self._lab.topology.data_nodes))
        if not self._lab.has_places(zones):
            return False
        command = [sys.executable, "-I", "-S", str(PROGRAM), str(self._file), str(len(zones)), str(RATE), str(WORK_US)]
        with open(self._log, "ab") as log, self._lab.beside(self._lab.topology.data_nodes[0].name):
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        self._lab.instrument(self._process.pid)
        for zone, pid in zip(zones, self._pids(), strict=True):
            self._lab.place(pid, zone)
        return True

    def _pids(self) -> Sequence[int]:
        assert self._process is not None and self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], READY_SECONDS)
        said = self._process.stdout.readline() if ready else b""
        if not said:
            self.stop()
            raise ChaosError(f"the echo beside the nodes did not start (log: {self._log})")
        return [int(pid) for pid in json.loads(said)]

    def children(self) -> list[Child]:
        """For the watch over processes; whoever stops it takes it away first."""
        process = self._process
        if process is None:
            return []
        return [Child("echo", "echo", None, process.pid, process.poll, lambda: self._process is not process, self._log)]

    def check(self) -> None:
        """Raises ChaosError when it has ended by itself, over a full disk for example: its part of the record ends."""
        if self._process is None or self._process.poll() is None:
            return
        try:
            said = self._log.read_text(errors="replace").strip().splitlines()
        except OSError:
            said = []
        raise ChaosError(f"the echo beside the nodes ended: {said[-1] if said else 'it said nothing'}")

    def stop(self, *, patient: bool = True) -> None:
        """End it and wait until it has; idempotent."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _observe(context: Context) -> Echo:
    return Echo(context.lab, context.folder)


INSTRUMENT = Instrument(
    name="echo",
    says="how long a small question takes beside the nodes: can this machine decide the objectives?",
    observe=_observe,
    begins=Begins.LOAD,
    ends=Ends.LAST,
    order=110,
    file=ECHO,
)
