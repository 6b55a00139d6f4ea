"""What it costs to know how every process of a lab ended: a shell for each, and the watch over all of them.

Starts as many processes as a lab of six nodes has (nodes and Toxiproxies), directly and as a lab does, in turn, and
prints the milliseconds that each start took, the memory that the shells take together, and the share of a processor
that the watch takes while nothing ends. Needs root, and no lab.

    python benchmarks/shells.py [--processes 15] [--runs 5]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil

from chaos.base.paths import ProcessIdentity
from chaos.history import EventWriter
from chaos.instruments.process_exits import Exits
from chaos.provision.unprivileged import NODE_UID
from chaos.targets.labs import processes
from chaos.targets.labs.base import Resident
from chaos.targets.labs.local import LocalLab

COMMAND = ["/bin/sleep", "3600"]
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
WATCHED_SECONDS = 10.0


class OnlyProcesses:
    """A lab without anything but these processes; what it says of one is the local lab's."""

    exit_code, pidfd, lives, log_end = LocalLab.exit_code, LocalLab.pidfd, LocalLab.lives, LocalLab.log_end
    is_silent, _noted = LocalLab.is_silent, LocalLab._noted

    def __init__(self, folder: Path, residents: list[Resident]) -> None:
        self.folder, self._residents = folder, residents

    def residents(self) -> list[Resident]:
        return self._residents

    def oom_kills(self, resident: Resident) -> None:
        return None

    def crash_report(self, resident: Resident) -> None:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=15)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    host: Any = SimpleNamespace(name="host", namespace=SimpleNamespace(entered=nullcontext))
    direct, shelled = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in (folder, folder / "run"):
            part.mkdir(exist_ok=True)
            part.chmod(0o777)
        for run in range(options.runs):
            began = time.monotonic()
            plain = [_plain(folder) for _ in range(options.processes)]
            direct.append((time.monotonic() - began) / options.processes)
            for each in plain:
                each.kill()
                each.wait()
            began = time.monotonic()
            started = [_started(host, folder, number) for number in range(options.processes)]
            shelled.append((time.monotonic() - began) / options.processes)
            memory = sum(psutil.Process(each.shell.pid).memory_full_info().pss for each in started)
            if run == options.runs - 1:
                share = _watch(folder, options.processes)
            processes.end(each.pid for each in started)
            for each in started:
                each.shell.wait()
    print(f"{options.processes} processes, {options.runs} runs, load {psutil.getloadavg()[0]:.1f}")
    print(f"start of one, directly:      {statistics.median(direct) * 1000:.1f} ms")
    print(f"start of one, with a shell:  {statistics.median(shelled) * 1000:.1f} ms")
    print(f"memory of all shells (pss):  {memory / 2**20:.1f} MiB")
    print(f"the watch while nothing ends: {share:.2%} of a processor")


def _plain(folder: Path) -> subprocess.Popen[bytes]:
    with open(folder / "plain.log", "ab") as log:
        who: dict[str, Any] = {"user": NODE_UID, "group": NODE_UID, "extra_groups": [], "start_new_session": True}
        process = subprocess.Popen(COMMAND, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=ENVIRONMENT, **who)
    processes.note(process.pid, folder / "plain.json")
    return process


def _started(host: Any, folder: Path, number: int) -> processes.Started:
    identity = folder / "run" / f"node-{number}.json"
    return processes.spawn(host, COMMAND, log=folder / f"{number}.log", identity=identity, cwd=folder, env=ENVIRONMENT)


def _watch(folder: Path, number: int) -> float:
    """Processor seconds of this process a second, while all it does is watch."""
    files = [folder / "run" / f"node-{n}.json" for n in range(number)]
    found = [
        Resident("node", str(n), ProcessIdentity.from_json(json.loads(f.read_text()))) for n, f in enumerate(files)
    ]
    lab: Any = OnlyProcesses(folder, found)
    with EventWriter(folder / "events.jsonl") as events:
        watch = Exits(lab, events, folder, lambda fact: None)
        watch.start()
        before = time.process_time()
        time.sleep(WATCHED_SECONDS)
        spent = time.process_time() - before
        watch.stop()
    return spent / WATCHED_SECONDS


if __name__ == "__main__":
    main()
