"""How long a lab takes: wall time of a topology's nodes to green, against the floor that processors set.

Prints, for each of several starts: wall seconds from nothing to a complete green cluster, processor seconds that all
processes of the lab used until then, the floor (processor seconds / processors), the ratio wall / floor, and memory.
Goals on 2 cores with everything cached: 15 s, ratio at most 1.2, at most 3 GB. Needs root.

    python benchmarks/lab_start.py [--topology 3az] [--runs 3]
    python benchmarks/lab_start.py --against 3az-remote-store    # in turn, and by how much longer that takes

``--against``: both are started in each round, the first one of a round in turn, so that a busy moment of the machine
meets both. The goal with a store is 1.3 times the time without.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from chaos.definitions import Topology, load_topology
from chaos.run.options import new_lab_id
from chaos.targets.labs import network, provisioning
from chaos.targets.labs.local import LocalLab
from chaos.targets.parts import Parts

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


@dataclass(frozen=True)
class Start:
    """One start. Seconds, but for ``memory`` (bytes). ``machine``: processor seconds of everybody."""

    wall: float
    lab: float
    machine: float
    memory: float

    @property
    def floor(self) -> float:
        return self.lab / (os.cpu_count() or 1)

    @property
    def ratio(self) -> float:
        return self.wall / self.floor

    def __str__(self) -> str:
        return (
            f"wall {self.wall:5.1f} s  cpu of the lab {self.lab:5.1f} s (machine {self.machine:5.1f} s)  "
            f"floor {self.floor:5.1f} s  ratio {self.ratio:4.2f}  memory {self.memory / 1e9:4.2f} GB"
        )


def start(topology: Topology, parts: Parts) -> Start:
    """Starts a lab of the topology, measures it, and takes it away."""
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
    return Start(wall, seconds, (after.user + after.system) - (busy.user + busy.system), memory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", default="3az")
    parser.add_argument("--against", metavar="TOPOLOGY", help="another one, started in turn with it")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    names = [options.topology, *([options.against] if options.against else [])]
    near = Path(__file__).parents[1] / "experiments" / "x.yaml"
    topologies = {name: load_topology(name, near=near) for name in names}
    parts = {name: provisioning.parts(topology, print) for name, topology in topologies.items()}
    sizes = ", ".join(f"{name}: {len(topology.nodes)} nodes" for name, topology in topologies.items())
    print(f"{sizes}; {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; {GOALS}")
    starts: dict[str, list[Start]] = {name: [] for name in names}
    for number in range(options.runs):
        for name in names if number % 2 == 0 else reversed(names):
            starts[name].append(start(topologies[name], parts[name]))
            print(f"{name} {number + 1}: {starts[name][-1]}", flush=True)
    for name, found in starts.items():
        wall, ratio = (statistics.median(getattr(one, of) for one in found) for of in ("wall", "ratio"))
        print(f"{name}: median of {len(found)}: wall {wall:.1f} s, ratio to the floor {ratio:.2f}")
    if options.against:
        pairs = [b.wall / a.wall for a, b in zip(*(starts[name] for name in names), strict=True)]
        each = ", ".join(f"{pair:.2f}" for pair in pairs)
        print(f"{names[1]} / {names[0]} in each round: {each}; median {statistics.median(pairs):.2f}")


if __name__ == "__main__":
    main()
