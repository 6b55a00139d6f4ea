"""Dask clusters whose workers make stand-in runs (:mod:`campaignkit`): scheduler and workers are Dask's own programs.

Each worker has a folder that stands for its machine (``STANDIN_MACHINE``), with a lock and dirt of its own.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import campaignkit as kit

MACHINE, SEES = "STANDIN_MACHINE", "STANDIN_SEES"
HERE = Path(__file__).parent


def _machine() -> Path:
    return Path(os.environ[MACHINE])


def _looks() -> list[str]:
    """What is wrong with the machine: lines of a file."""
    file = _machine() / "wrong.txt"
    return file.read_text().splitlines() if file.is_file() else []


def _fit(order: Any) -> None:
    """``unfit.txt`` on a machine: it can make no run, for this reason."""
    from chaos.base.errors import MissingPrerequisite

    if (file := _machine() / "unfit.txt").is_file():
        raise MissingPrerequisite(file.read_text())


def _here(order: Mapping[str, Any]) -> dict[str, Any]:
    """As this machine understands an order: ``STANDIN_SEES`` is the folder that the store's path means here."""
    return {**order, "out": str(_machine() / "out"), "store": os.environ.get(SEES, order["store"])}


def make(order: Mapping[str, Any]) -> dict[str, Any]:
    """In place of :func:`chaos.commands.campaign_dask.make`: all the same but for the child's program."""
    from chaos.campaign import dask_worker
    from chaos.campaign.machine import Machine
    from chaos.registry import GRAMMAR

    program = (*kit.STAND_IN, str(_machine()))
    machine = Machine(_looks, _machine())
    return dask_worker.work(_here(order), GRAMMAR.experiment, _fit, program=program, machine=machine)


def examine(order: Mapping[str, Any]) -> dict[str, Any] | None:
    from chaos.campaign import dask_worker
    from chaos.registry import GRAMMAR

    return dask_worker.examine(_here(order), GRAMMAR.experiment, _fit)


@dataclass
class Cluster:
    """A scheduler and workers, each a process of its own. ``config``: Dask's, as variables of its environment."""

    folder: Path
    config: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    """Of both programs: certificates."""
    protocol: str = "tcp"
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    address: str = ""

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        """On a port that it draws itself."""
        log = self.folder / f"scheduler-{len(self.processes)}.log"
        made = self._start(
            log, "scheduler", "--host", f"{self.protocol}://127.0.0.1", "--port", "0", "--dashboard-address",
            "127.0.0.1:0", *self.options,
        )  # fmt: skip
        found = _awaited(log, rf"Scheduler at: +({self.protocol}://\S+)")
        self.address = found[1]
        return made

    @property
    def dashboard(self) -> str:
        log = max(self.folder.glob("scheduler-*.log"), key=lambda file: file.stat().st_mtime)
        return _awaited(log, r"dashboard at: +(http://\S+)")[1]

    def start_worker(self, machine: Path, *more: str, lab: int | None = 1, **env: str) -> subprocess.Popen[bytes]:
        """With ``lab`` labs; None: it says nothing of labs."""
        machine.mkdir(parents=True, exist_ok=True)
        log = machine / f"worker-{len(self.processes)}.log"
        resources = () if lab is None else ("--resources", f"lab={lab}")
        made = self._start(
            log, "worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1",
            "--name", machine.name, "--local-directory", str(machine), "--memory-limit", "0", "--death-timeout", "30",
            *resources, *self.options, *more, **{MACHINE: str(machine), **env},
        )  # fmt: skip
        _awaited(log, r"Registered to: ")
        return made

    def _start(self, log: Path, program: str, *arguments: str, **env: str) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(HERE), str(kit.ROOT)])
        with open(log, "wb") as out:
            made = subprocess.Popen(
                [sys.executable, "-m", "dask", program, *arguments],
                stdout=out,
                stderr=out,
                env={**os.environ, **self.config, "PYTHONPATH": path, **env},
                cwd=self.folder,
                start_new_session=True,
            )
        self.processes.append(made)
        return made

    def end(self) -> None:
        for each in self.processes:
            if each.poll() is None:
                each.send_signal(signal.SIGCONT)
                each.kill()
            each.wait(10)


def _awaited(log: Path, pattern: str, seconds: float = 90) -> re.Match[str]:
    from chaos.base.waiting import wait_until

    wait_until(lambda: re.search(pattern, log.read_text()) is not None, seconds, every=0.05)
    found = re.search(pattern, log.read_text())
    assert found is not None, f"{pattern} is not in {log}: {log.read_text()}"
    return found


@dataclass
class Running:
    """An executor in a thread of this process. ``done`` or ``error`` once it has ended."""

    executor: Any
    lines: list[str]
    done: Any = None
    error: BaseException | None = None
    thread: threading.Thread | None = None

    def start(self) -> Running:
        def run() -> None:
            try:
                self.done = self.executor.run()
            except BaseException as error:
                self.error = error

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        return self

    def ended(self, seconds: float = 120) -> Any:
        """What it says; raises what it raised."""
        assert self.thread is not None
        self.thread.join(seconds)
        assert not self.thread.is_alive(), f"it goes on and on: {self.lines[-10:]}"
        if self.error is not None:
            raise self.error
        return self.done


def executor(file: Path, store: Path, client: Any, *, stop: Any = None, matrix: Any = None, **more: Any) -> Running:
    """An executor of a campaign's cells by stand-in runs."""
    from chaos.base.console import Reporter
    from chaos.campaign.dask_executor import Executor, Tasks
    from chaos.run.stopping import Stop

    lines: list[str] = []

    class Kept(Reporter):
        def line(self, text: str) -> None:
            lines.append(text)

        demand = line

        def status(self, text: str) -> None:
            lines.append(f"status: {text}")

    made = Executor(
        matrix or kit.matrix_of(file),
        kit.records_at(store),
        client,
        Kept(quiet=True),
        stop or Stop(),
        Tasks(make, examine),
        Path("out"),
        **more,
    )
    return Running(made, lines)


def started(file: Path, machine: Path, *options: str) -> subprocess.Popen[bytes]:
    """``campaign run FILE`` as a process of its own, whose runs are a stand-in; what it prints is in
    ``machine/command.log``."""
    machine.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(HERE), str(kit.ROOT)])
    with open(machine / "command.log", "ab") as log:
        return subprocess.Popen(
            [sys.executable, __file__, "campaign", "run", str(file), *options],
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": path, MACHINE: str(machine)},
            start_new_session=True,
        )


def main() -> None:
    """The command line, but for the child's program and what a machine needs for a lab."""
    import daskkit  # by its name, so that workers elsewhere find its functions

    from chaos import cli
    from chaos.commands import campaign, campaign_dask

    campaign._refuse_unfit = lambda matrix, out: None
    campaign_dask.make, campaign_dask.examine = daskkit.make, daskkit.examine
    cli.main()


if __name__ == "__main__":
    main()
