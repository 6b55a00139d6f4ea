"""What a campaign takes on top of its runs: the same stand-in runs in a plain loop, by the worker, and on Dask.

A stand-in is a real child process that waits for so many seconds (tests/support/standin_run.py), so what differs is the
campaign's own: proofs of the store, attempts, uploads of a few small files, commits, and Dask. In turn, after one round
that does not count; a round in which this process itself stood still for a second is made again.

    python benchmarks/campaign_overhead.py [--cells 6] [--seconds 3] [--rounds 3] [--run-takes 100]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import beside  # noqa: F401
import campaignkit as kit
import daskkit
from rich.console import Console
from rich.table import Table

from chaos.campaign import child, dask_cluster
from chaos.campaign.machine import LOCK


def plain_loop(file: Path, folder: Path) -> None:
    """One process after the other, started as a worker starts it, and nothing else."""
    machine = folder / "machine"
    lock, (standing, kept) = os.open(machine / LOCK, os.O_RDWR | os.O_CREAT), os.pipe()
    for number, cell in enumerate(kit.matrix_of(file).cells):
        run = folder / "loop" / str(number)
        run.mkdir(parents=True)
        child.write_request(run, cell.spec(str(file)).to_json())
        command = [sys.executable, *kit.STAND_IN, str(machine), str(run), str(lock)]
        with open(run / child.LOG, "wb") as log:  # a run ends with its standard input
            subprocess.run(command, stdin=standing, stdout=log, stderr=log, pass_fds=(lock,), check=True)
    for descriptor in (lock, standing, kept):
        os.close(descriptor)


def by_the_worker(file: Path, folder: Path) -> None:
    done = kit.worker(file, folder / "store", folder / "machine").work()
    assert done.exit_code == 0, done


def on_dask(file: Path, folder: Path) -> None:
    with dask_cluster.local("overhead") as reached:
        done = daskkit.executor(file, folder / "store", reached.client, alone=True).start().ended(3600)
    assert done.exit_code == 0, done


WAYS: dict[str, Callable[[Path, Path], None]] = {
    "a plain loop": plain_loop,
    "campaign run --scheduler none": by_the_worker,
    "campaign run, on Dask": on_dask,
}


class StoodStill:
    """How long this process did not run although it wanted to, in seconds: its machine was stopped or too busy."""

    def __init__(self) -> None:
        self.seconds = 0.0
        threading.Thread(target=self._beat, daemon=True).start()

    def _beat(self) -> None:
        last = time.monotonic()
        while True:
            time.sleep(0.05)
            now = time.monotonic()
            self.seconds += now - last if now - last > 1 else 0
            last = now


def undisturbed(still: StoodStill, way: Callable[[Path, Path], None], cells: int, seconds: float) -> float:
    """Seconds that all cells took, with this process at work all the time."""
    while True:
        still.seconds = 0.0
        took = measured(way, cells, seconds)
        if not still.seconds:
            return took
        print(f"made again: this process stood still for {still.seconds:.0f} s", file=sys.stderr)


def measured(way: Callable[[Path, Path], None], cells: int, seconds: float) -> float:
    """Seconds that all cells took."""
    folder = Path(tempfile.mkdtemp(prefix="campaign-overhead-"))
    try:
        file = kit.write_campaign(folder, folder / "store", cells // 2)
        kit.behave(folder / "machine", seconds=seconds)
        os.environ[daskkit.MACHINE] = str(folder / "machine")
        began = time.monotonic()
        way(file, folder)
        took = time.monotonic() - began
        begun = [line for line in (folder / "machine" / "runs.jsonl").read_text().splitlines() if "begun" in line]
        assert len(begun) == cells, f"{len(begun)} runs of {cells}"
        return took
    finally:
        shutil.rmtree(folder)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--cells", type=int, default=6, help="even: each experiment is made in two versions")
    asked.add_argument("--seconds", type=float, default=3, help="that a stand-in waits")
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--run-takes", type=float, default=100, help="seconds of a real run, of which shares are said")
    given = asked.parse_args()
    took: dict[str, list[float]] = {name: [] for name in WAYS}
    still = StoodStill()
    for number in range(given.rounds + 1):
        for name, way in WAYS.items():
            seconds = undisturbed(still, way, given.cells, given.seconds)
            if number:
                took[name].append(seconds / given.cells)
    table = Table(
        "way", "s a cell, median", "least to most", "on top of the loop, s", f"of a run of {given.run_takes:g} s"
    )
    loop = statistics.median(took["a plain loop"])
    for name, values in took.items():
        middle = statistics.median(values)
        shares = f"{(middle - loop) / given.run_takes:.2%}"
        table.add_row(name, f"{middle:.2f}", f"{min(values):.2f} to {max(values):.2f}", f"{middle - loop:.2f}", shares)
    Console().print(table)


if __name__ == "__main__":
    main()
