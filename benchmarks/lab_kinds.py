"""What a Docker lab costs against a local one: time, processor, memory, and what a request takes through its links.

Starts the same topology in each kind of lab in turn, several times, so that a busy moment of the machine meets both.
Prints for each: wall seconds to a complete green cluster, processor seconds of the whole machine until then, memory
that is no longer available, seconds to take it away, and the round trip of a client's request to a node of its own
zone. And the ratios, which is what can be compared between machines. Needs root and a Docker engine with its images.

    python tests/docker/engine.py python benchmarks/lab_kinds.py [--topology 3az] [--runs 3]
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass, fields
from pathlib import Path

import psutil

from chaos.definitions import Topology, load_topology
from chaos.faults.probes import Line
from chaos.run.options import new_lab_id
from chaos.targets.labs import kinds
from chaos.targets.labs.base import BaseLab

PINGS = 300
KINDS = ("local", "docker")


@dataclass(frozen=True)
class Cost:
    """Of one start. Seconds, but for ``memory`` (GB) and ``request`` (ms, the median of many)."""

    start: float
    processor: float
    memory: float
    away: float
    request: float


def request_ms(lab: BaseLab) -> float:
    zone = lab.topology.zones[0]
    node = next(node.name for node in lab.topology.data_nodes if node.zone == zone)
    line = Line(lab, (f"client-{zone}", node))
    try:
        taken = [line.ping(5.0).seconds for _ in range(PINGS)]
    finally:
        line.close()
    return statistics.median(seconds for seconds in taken[PINGS // 3 :] if seconds is not None) * 1000


def cost(kind: str, topology: Topology) -> Cost:
    lab = kinds.of_kind(kind).create(topology, kinds.parts(kind, topology), id=new_lab_id())
    busy, room = psutil.cpu_times(), psutil.virtual_memory().available
    began = time.monotonic()
    try:
        lab.up()
        start = time.monotonic() - began
        after = psutil.cpu_times()
        memory = room - psutil.virtual_memory().available
        request = request_ms(lab)
    finally:
        began = time.monotonic()
        lab.down()
    processor = sum(getattr(after, part) - getattr(busy, part) for part in ("user", "system", "softirq", "nice"))
    return Cost(start, processor, memory / 1e9, time.monotonic() - began, request)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", default="3az")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    topology = load_topology(options.topology, near=Path(__file__).parents[1] / "experiments" / "x.yaml")
    found: dict[str, list[Cost]] = {kind: [] for kind in KINDS}
    for number in range(options.runs):
        for kind in KINDS:
            each = cost(kind, topology)
            found[kind].append(each)
            print(
                f"{number + 1} {kind:6}  start {each.start:5.1f} s  processor {each.processor:5.1f} s  "
                f"memory {each.memory:4.2f} GB  away {each.away:4.1f} s  request {each.request:5.2f} ms",
                flush=True,
            )
    for field in fields(Cost):
        local, docker = (statistics.median(getattr(each, field.name) for each in found[kind]) for kind in KINDS)
        print(f"{field.name:9}  docker / local = {docker:.2f} / {local:.2f} = {docker / local:.2f}")


if __name__ == "__main__":
    main()
