"""What it costs to know that a fault still holds: one cheap look in between, and the full look before the undo.

On one real lab without load. Cheap looks are taken back to back, which the thread that looks does every two seconds:

    wall      how long one takes (silence is proven by waiting, which costs nobody anything)
    runner    processor time of this process, for one
    lab       processor time of all processes of the lab, for one, less what they use in as long without looks
    share     of one processor, at one look in two seconds
    full      how long the look before the undo takes, by which a phase is longer than it was asked to be

Prints and judges nothing. Needs root.

    python benchmarks/holding_cost.py [--topology 3az-standby] [--looks 10]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from chaos.definitions import load_topology
from chaos.faults.holding import LOOK_SECONDS
from chaos.faults.ledger import Ledger
from chaos.faults.lifecycle import Lifecycle
from chaos.history import EventWriter
from chaos.opensearch.views import await_green, elected
from chaos.registry import FAULTS, ready
from chaos.run.options import new_lab_id
from chaos.targets.labs import network, provisioning
from chaos.targets.labs.local import LocalLab

CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("network.latency", {"links": "to zone c", "delay": "300ms"}),
    ("network.drop", {"links": "to zone c"}),
    ("network.bandwidth", {"links": "from node a-data to node c-data", "rate": "64KiB/s"}),
    ("network.refuse", {"links": "from node a-data to node c-data"}),
    ("node.pause", {"target": "node c-data"}),
    ("node.kill", {"target": "node c-data"}),
    ("settings.change", {"scope": "cluster", "settings": {"cluster.routing.weighted.fail_open": False}}),
)
IDLE_SECONDS = 5.0


def used(lab: LocalLab) -> float:
    """Processor seconds of everything in the lab's hosts."""
    total = 0.0
    for pid in network.processes_in([host.namespace_name for host in lab.wiring.hosts]):
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def idle(lab: LocalLab) -> float:
    """Processors that the lab uses while nobody looks."""
    began, first = time.monotonic(), used(lab)
    time.sleep(IDLE_SECONDS)
    return (used(lab) - first) / (time.monotonic() - began)


def measured(lab: LocalLab, folder: Path, kind: str, parameters: dict[str, Any], looks: int) -> str:
    events, ledger = EventWriter(folder / "events.jsonl"), Ledger(folder / "ledger.jsonl")
    over = [False]  # the thread that looks in between stands still: only the looks here are measured
    lifecycle = Lifecycle(lab, ledger, events, stopped=lambda: over[0])
    try:
        fault = ready("f1", FAULTS[kind](**parameters), lab, seed=1, elected=elected(lab))
        if not lifecycle.inject(fault):
            return "not proven"
        over[0] = True
        background = idle(lab)
        began, mine, theirs = time.monotonic(), time.process_time(), used(lab)
        taken = [lifecycle.glance("f1") for _ in range(looks)]
        wall, own = time.monotonic() - began, time.process_time() - mine
        lab_own = max(0.0, used(lab) - theirs - background * wall)
        over[0] = False
        odd = sum(look is None or not look.proven for look in taken)
        full = lifecycle.look_again(["f1"])
        share = (own + lab_own) / looks / LOOK_SECONDS
        figures = f"{wall / looks * 1000:9.1f}{own / looks * 1000:9.2f}{lab_own / looks * 1000:9.2f}{share:9.2%}"
        return f"{figures}{full * 1000:9.0f}   {odd} odd of {looks}{'' if not lifecycle.vanished else ', NOT HELD'}"
    finally:
        over[0] = False
        lifecycle.undo_all()
        events.close()
        ledger.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", default="3az-standby")
    parser.add_argument("--looks", type=int, default=10)
    options = parser.parse_args()
    topology = load_topology(options.topology, near=Path(__file__).parents[1] / "experiments" / "x.yaml")
    lab = LocalLab.create(topology, provisioning.parts(topology, print), id=new_lab_id())
    try:
        lab.up()
        print(f"{len(topology.nodes)} nodes, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
        print(f"{'one cheap look, in ms':44}{'wall':>9}{'runner':>9}{'lab':>9}{'share':>9}{'full':>9}")
        for kind, parameters in CASES:
            with tempfile.TemporaryDirectory() as folder:
                row = measured(lab, Path(folder), kind, parameters, options.looks)
            print(f"{kind + ' ' + str(next(iter(parameters.values()))):44.44}{row}", flush=True)
            await_green(lab, 180, stable=1)
    finally:
        for problem in lab.down():
            print(f"could not: {problem}")


if __name__ == "__main__":
    main()
