"""The ceiling of lab and driver together: how many reads and writes a second hold on this machine.

Starts one lab and raises the rate of reads and of writes step by step. A step holds while 99.9 % of each are good
(ok within 100 ms of their intended start) and the driver is valid (lag p99 at most 50 ms, no drops, CPU below 85 %).
Prints one line a step and the ceiling. Needs root.

    python benchmarks/lab_ceiling.py [--topology 3az-standby] [--seconds 10] [--from 100]
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from chaos.base.console import Reporter
from chaos.definitions import load_topology
from chaos.history import History
from chaos.pytest_plugin import LoadRun
from chaos.run.in_python import python_execution
from chaos.run.options import new_lab_id
from chaos.targets.labs import provisioning
from chaos.targets.labs.local import LocalLab

GOOD = 0.999


def step(lab: LocalLab, rate: int, seconds: float, out: Path) -> bool:
    """Drive one rate and print its line; True when it held."""
    execution = python_execution(
        name=f"ceiling-{rate}",
        lab=lab,
        out=out,
        rates={"read": f"{rate}/s", "write": f"{rate}/s"},
        good="100ms",
        client={},
        seed=1,
        file=Path(__file__),
        reporter=Reporter(quiet=True),
    )
    running = LoadRun(execution)
    with execution.in_python(), running.phase("steady"):
        running.hold(seconds)
    execution.report()
    running._finish()
    steady = running.phases["steady"]
    itself = [e for e in History.open(execution.folder).driver if e["kind"] == "self"]
    cpu = sorted(e["cpu"] for e in itself)[len(itself) * 95 // 100]
    lag = max(e["lag_p99_ms"] for e in itself[-int(seconds) :])
    dropped = sum(e["dropped"] for e in itself)
    held = min(steady.read.good or 0, steady.write.good or 0) >= GOOD and lag <= 50 and dropped == 0 and cpu < 0.85
    print(
        f"{rate:5d} reads/s + {rate:5d} writes/s: good {steady.read.good:8.3%} {steady.write.good:8.3%}  "
        f"p50 {steady.read.latency(0.5) * 1000:6.1f} {steady.write.latency(0.5) * 1000:6.1f} ms  "
        f"p99 {steady.read.latency(0.99) * 1000:6.1f} {steady.write.latency(0.99) * 1000:6.1f} ms  "
        f"driver: lag p99 {lag:5.1f} ms, cpu {cpu:4.0%}, dropped {dropped}  {'holds' if held else 'does not hold'}",
        flush=True,
    )
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", default="3az-standby")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--from", dest="start", type=int, default=100)
    options = parser.parse_args()
    topology = load_topology(options.topology, near=Path(__file__).parents[1] / "experiments" / "x.yaml")
    lab = LocalLab.create(topology, provisioning.parts(topology, print), id=new_lab_id())
    print(f"{len(topology.nodes)} nodes, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    ceiling, rate, failures = 0, options.start, 0
    try:
        lab.up()
        with tempfile.TemporaryDirectory() as out:
            while failures < 2:  # one bad step may be the machine's
                if step(lab, rate, options.seconds, Path(out)):
                    ceiling, failures = rate, 0
                    rate = int(rate * 1.5)
                else:
                    failures += 1
    finally:
        lab.down()
    print(f"ceiling: {ceiling} reads/s and {ceiling} writes/s")


if __name__ == "__main__":
    main()
