"""How long a lab takes: wall time of a topology's nodes to green, against the floor that processors set.

Prints, for each of several starts: wall seconds from nothing to a complete green cluster, processor seconds that all
processes of the lab used until then, the floor (processor seconds / processors), the ratio wall / floor, and memory.
Goals on 2 cores with everything cached: 15 s, ratio at most 1.2, at most 3 GB. Needs root.

    python benchmarks/lab_start.py [--topology 3az] [--runs 3] [--profile]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path

import psutil

from chaos.definitions import load_topology
from chaos.run.options import new_lab_id
from chaos.targets.labs import network, provisioning
from chaos.targets.labs.local import LocalLab

GOALS = "goals on 2 cores: 15 s, ratio 1.2, 3 GB"


def usage(lab: LocalLab) -> tuple[float, float]:
    """Processor seconds and proportional memory (bytes) of every process of the lab."""
    seconds = memory = 0.0
    for pid in network.processes_in(network.namespaces(f"oschaos-{lab.id}-")):
        try:
            process = psutil.Process(pid)
            times = process.cpu_times()
            seconds += times.user + times.system
            memory += process.memory_full_info().pss
        except psutil.Error:
            continue
    return seconds, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", default="3az")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    topology = load_topology(options.topology, near=Path(__file__).parents[1] / "experiments" / "x.yaml")
    parts = provisioning.parts(topology, print)
    print(f"{len(topology.nodes)} nodes, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; {GOALS}")
    walls, ratios = [], []
    for number in range(options.runs):
        lab = LocalLab.create(topology, parts, id=new_lab_id())
        busy = psutil.cpu_times()
        began = time.monotonic()
        try:
            lab.up()
            wall = time.monotonic() - began
            after = psutil.cpu_times()
            seconds, memory = usage(lab)
        finally:
            lab.down()
        everyone = (after.user + after.system) - (busy.user + busy.system)
        floor = seconds / (os.cpu_count() or 1)
        walls.append(wall)
        ratios.append(wall / floor)
        print(
            f"start {number + 1}: wall {wall:5.1f} s  cpu of the lab {seconds:5.1f} s (machine {everyone:5.1f} s)  "
            f"floor {floor:5.1f} s  ratio {wall / floor:4.2f}  memory {memory / 1e9:4.2f} GB",
            flush=True,
        )
    print(f"median: wall {statistics.median(walls):.1f} s, ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
