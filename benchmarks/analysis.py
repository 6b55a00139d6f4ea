"""What judging and drawing a run costs, by its number of arrivals: wall time, processor time and peak memory.

Makes up a run folder (two operations, healthy and faulty phases, timeouts, starved slices; 500 arrivals a second, so
that 10 million are 5.6 hours), and then, each in a process of its own, does what `opensearch-chaos report` does to it:
judges it and draws the page. Once from the driver's rows as a killed run leaves them, then they are made Parquet,
then from Parquet, as every other run has it. The columns on the right are ratios: cost per arrival, and growth
against the row of the same form with fewer arrivals (10 times the arrivals should cost at most 10 times).

    python benchmarks/analysis.py [--arrivals 100000,1000000,10000000] [--form rows,parquet] [--profile]

100000000 works too: 8.5 GB of disk while it is made, several minutes.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import beside  # noqa: F401
import numpy as np
import synthetic
from rich.console import Console
from rich.table import Table
from synthetic import CLIENTS, NODES, T0, Outcome, S, Story, healthy, mixed

from chaos.history.format import ARRIVAL, NO_INDEX, SCHEDULED

GOALS = "goals on 2 cores for 10^7 from Parquet: 30 s and 1500 MB; for 10^8: 3000 MB"
BLOCK_SECONDS = 500.0
"""Arrivals are made up for so many seconds at a time, so that 10^8 need no more memory than 10^6."""


def story(arrivals: int) -> Story:
    """A run of about so many arrivals: healthy, slow, failover with five-second timeouts, returned."""
    made = synthetic.slow_zone()
    made.rate = 250.0
    seconds = arrivals / (2 * made.rate)
    for chapter, share in zip(made.chapters, (0.4, 0.2, 0.2, 0.2), strict=True):
        chapter.seconds = max(20.0, round(share * seconds))
    made.chapters[0].read = healthy(late=0.0005)
    outage = 0.1 * made.chapters[2].seconds
    made.chapters[2].write = mixed(
        (0, outage, 0.4, Outcome.TIMEOUT, 5.0),
        (outage, 2 * outage, 0.05, Outcome.REJECTED, 0.003),
        base=healthy(13, late=0.001),
    )
    made.chapters[3].read = mixed((0, 5, 0.02, Outcome.PARTIAL, 0.05), (5, 6, 0.3, Outcome.RESET, 0.01))
    return made


def write(made: Story, folder: Path) -> None:
    """Leave the run's folder on disk, rows in the order in which a driver writes them: by their end."""
    history = folder / "history"
    history.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(made.plan()))
    (folder / "clean.json").write_text(json.dumps(made.clean))
    (history / "readback.json").write_text(json.dumps(made.readback))
    tables = {"format": 1, "operations": list(made.ops), "clients": list(CLIENTS), "nodes": list(NODES)}
    (history / "arrivals.json").write_text(json.dumps(tables))
    with open(history / "events.jsonl", "w") as file:
        file.writelines(json.dumps(event) + "\n" for event in made.events())
    with open(history / "driver.jsonl", "w") as file:
        file.writelines(json.dumps(event) + "\n" for event in driver(made))
    with open(history / "scheduled.bin", "wb") as scheduled, open(history / "arrivals.bin", "wb") as finished:
        late = np.zeros(0, ARRIVAL)
        for rows, until in blocks(made):
            plan = np.zeros(len(rows), SCHEDULED)
            for name in ("k", "op", "intended"):
                plan[name] = rows[name]
            scheduled.write(plan.tobytes())
            rows = np.concatenate([late, rows[rows["outcome"] != Outcome.UNKNOWN]])
            rows = rows[np.argsort(np.maximum(rows["end"], rows["intended"]), kind="stable")]
            due = rows["end"] <= until
            rows[due].tofile(finished)
            late = rows[~due]
        late.tofile(finished)


def driver(made: Story) -> Iterator[dict[str, Any]]:
    """The driver's own samples; every 97 seconds no processor was free for 0.4 s."""
    for second in range(int(made.seconds)):
        t = T0 + second * S
        edges = [t + tenth * S // 10 for tenth in range(11)]
        busy = [1.0 if second % 97 == 7 and tenth < 4 else 0.4 for tenth in range(10)]
        slices = list(zip(edges, edges[1:], busy, strict=False))
        yield {"t": t, "kind": "self", "cpu": made.cpu, "processors": slices, "lag_p99_ms": 1.2, "dropped": 0}


def blocks(made: Story) -> Iterator[tuple[np.ndarray, int]]:
    """Finished rows by intended time, a stretch of the run at a time, and where the stretch ends (ns)."""
    rng = np.random.default_rng(made.seed)
    k, begin = 0, 0.0
    for chapter in made.chapters:
        for first in np.arange(0.0, chapter.seconds, BLOCK_SECONDS):
            last = min(first + BLOCK_SECONDS, chapter.seconds)
            parts = []
            for number, op in enumerate(made.ops):
                t = np.arange(first + number * 0.5 / made.rate, last, 1 / made.rate)
                outcome, latency = getattr(chapter, op)(t, rng)
                rows = np.zeros(len(t), ARRIVAL)
                rows["op"], rows["outcome"] = number, outcome
                rows["intended"] = T0 + np.round((begin + t) * S).astype(np.int64)
                rows["start"] = rows["intended"] + (made.lag * S * rng.lognormal(0, 0.5, len(t))).astype(np.int64)
                rows["end"] = rows["intended"] + np.round(latency * S).astype(np.int64)
                rows["status"] = np.where(outcome == Outcome.OK, 200, 0)
                rows["client"], rows["node"], rows["attempts"] = np.arange(len(t)) % 2, np.arange(len(t)) % 3, 1
                parts.append(rows)
            block = np.concatenate(parts)
            block = block[np.argsort(block["intended"], kind="stable")]
            block["k"] = k + np.arange(len(block))
            dropped = rng.random(len(block)) < 1e-5
            block["outcome"][dropped], block["node"][dropped] = Outcome.DROPPED, NO_INDEX
            block["start"][dropped], block["end"][dropped] = 0, 0
            block["outcome"][rng.random(len(block)) < 1e-5] = Outcome.UNKNOWN
            k += len(block)
            yield block, T0 + round((begin + last) * S)
        begin += chapter.seconds


# -- measured, each in a process of its own --------------------------------------------------------------


def peak_mb() -> float:
    """Peak resident memory of this process in MB (not getrusage: its peak begins with the parent's)."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


def child(what: str, folder: Path, profile: bool) -> None:
    """Do one thing to a run's folder; print wall s, processor s and peak MB of each step as JSON."""
    from chaos.base.paths import write_atomically
    from chaos.checks import judge
    from chaos.history import History, compact
    from chaos.report import junit_xml, render_html

    steps: dict[str, tuple[float, float, float]] = {}
    began = time.perf_counter(), time.process_time()

    def step(name: str) -> None:
        nonlocal began
        now = time.perf_counter(), time.process_time()
        steps[name] = (now[0] - began[0], now[1] - began[1], peak_mb())
        began = time.perf_counter(), time.process_time()

    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    if what == "compact":
        compact(folder)
        step("compact")
    else:
        findings = judge(folder)
        step("judge")
        write_atomically(folder / "junit.xml", junit_xml(findings))
        write_atomically(folder / "report.html", render_html(History.open(folder), findings))
        step("draw")
    if profile:
        profiler.disable()
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("cumulative").print_stats(45)
    print(json.dumps(steps))


def measured(what: str, folder: Path, profile: bool) -> dict[str, tuple[float, float, float]]:
    command = [sys.executable, __file__, "--child", what, str(folder), *(["--profile"] if profile else [])]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    steps: dict[str, tuple[float, float, float]] = json.loads(done.stdout)
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arrivals", default="100000,1000000,10000000", help="comma-separated")
    parser.add_argument("--form", default="rows,parquet", help="which forms of the history are judged")
    parser.add_argument("--profile", action="store_true", help="print where the time goes (and take more of it)")
    parser.add_argument("--keep", type=Path, help="make the run folders here, and leave them there (as Parquet)")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], Path(options.child[1]), options.profile)
        return
    forms = options.form.split(",")
    columns = ("arrivals", "form", "step", "wall s", "CPU s", "peak MB", "us/arrival", "B/arrival", "time x", "peak x")
    table = Table(*columns)
    before: dict[tuple[str, str], tuple[float, float]] = {}
    for number in (int(float(word)) for word in options.arrivals.split(",")):
        with tempfile.TemporaryDirectory(dir=options.keep) as scratch:
            folder = options.keep / f"{number}" if options.keep else Path(scratch)
            write(story(number), folder)
            history = folder / "history"
            rows = os.path.getsize(history / "scheduled.bin") // SCHEDULED.itemsize

            def add(form: str, what: str, folder: Path = folder, rows: int = rows) -> None:
                steps = measured(what, folder, options.profile)
                if len(steps) > 1:
                    each = list(steps.values())
                    steps["both"] = (sum(s[0] for s in each), sum(s[1] for s in each), max(s[2] for s in each))
                for name, (wall, cpu, peak) in steps.items():
                    then = before.get((form, name))
                    before[form, name] = (wall, peak)
                    table.add_row(
                        f"{rows:,}",
                        form,
                        name,
                        f"{wall:.2f}",
                        f"{cpu:.2f}",
                        f"{peak:.0f}",
                        f"{wall / rows * 1e6:.2f}",
                        f"{peak * 1e6 / rows:.0f}",
                        f"{wall / then[0]:.1f}" if then else "",
                        f"{peak / then[1]:.1f}" if then else "",
                    )

            if "rows" in forms:
                add("rows", "analyse")
            add("rows", "compact")
            if "parquet" in forms:
                add("parquet", "analyse")
            print(
                f"{rows:,} arrivals: {os.path.getsize(history / 'arrivals.parquet') / rows:.1f} bytes each", flush=True
            )
    console = Console(width=140)
    console.print(table)
    console.print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; {GOALS}")


if __name__ == "__main__":
    main()
