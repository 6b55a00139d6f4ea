"""How precise faults are: from the command to the effect, from the undo to its end, and from a stop to all undone.

On one real lab, for network faults, pause and kill, from the events of real lifecycle calls:

    effective   fault.command → the beginning of the look that proved it (a look takes longer than the effect itself)
    applied     fault.command → every move made
    undone      fault.undo → every move taken back
    gone        fault.undo → the beginning of the look that proved the end (a killed node has to start first)
    abort       a stop is asked for in mid-fault → every move taken back

Goals: effective 250 ms, undone 1 s, abort 5 s. Prints and judges nothing. Needs root.

    python benchmarks/injection_precision.py [--topology 3az-standby] [--runs 3]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from chaos.definitions import load_topology
from chaos.faults.ledger import Ledger
from chaos.faults.lifecycle import Lifecycle
from chaos.history import EventWriter
from chaos.opensearch.views import await_green, elected
from chaos.registry import FAULTS, ready
from chaos.run.options import new_lab_id
from chaos.targets.labs import provisioning
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("network.latency", {"links": "to zone c", "delay": "300ms"}),
    ("network.latency", {"links": "around everything in zone c", "delay": "200ms"}),
    ("network.drop", {"links": "to zone c"}),
    ("network.hang", {"links": "from node a-data to node c-data"}),
    ("network.refuse", {"links": "from node a-data to node c-data"}),
    ("network.reset", {"links": "from node a-data to node c-data"}),
    ("node.pause", {"target": "node c-data"}),
    ("node.kill", {"target": "node c-data"}),
)
GOALS = "goals: effective 250 ms, undone 1 s, abort 5 s"
COLUMNS = ("applied", "effective", "undone", "gone", "abort")


def once(lab: LocalLab, folder: Path, kind: str, parameters: dict[str, Any]) -> dict[str, float]:
    """One inject, undo, inject again and abort; seconds by column, without what was not proven."""
    stop = threading.Event()
    events = EventWriter(folder / "events.jsonl")
    ledger = Ledger(folder / "ledger.jsonl")
    lifecycle = Lifecycle(lab, ledger, events, stopped=stop.is_set)
    params = FAULTS[kind](**parameters)
    lifecycle.inject(ready("f1", params, lab, seed=1, elected=elected(lab)))
    lifecycle.undo("f1")
    await_green(lab, 180, stable=1)
    again = ready("f2", params, lab, seed=1, elected=elected(lab))
    injecting = threading.Thread(target=lifecycle.inject, args=(again,))
    injecting.start()
    wait_until(lambda: "f2" in written(folder, "fault.applied"), 60, every=0.001)  # in mid-evidence, mostly
    asked = time.monotonic_ns()
    stop.set()
    injecting.join()
    lifecycle.undo_all()
    events.close()
    ledger.close()

    def between(first: str, last: str) -> float | None:
        a, b = written(folder, first).get("f1"), written(folder, last).get("f1")
        return None if a is None or b is None else (b - a) / 1e9

    found = {
        "applied": between("fault.command", "fault.applied"),
        "effective": between("fault.command", "fault.in_effect"),
        "undone": between("fault.undo", "fault.undone"),
        "gone": between("fault.undo", "fault.gone"),
        "abort": (lifecycle.taken_back - asked) / 1e9 if lifecycle.taken_back else None,
    }
    return {name: seconds for name, seconds in found.items() if seconds is not None}


def written(folder: Path, kind: str) -> dict[str, int]:
    """Fault → when an event of this kind was, in monotonic ns."""
    found = {}
    for line in (folder / "events.jsonl").read_text().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue  # it is being written
        if event["kind"] == kind:
            found[str(event["fault"])] = int(event["t"])
    return found


def shown(values: list[float]) -> str:
    if not values:
        return "not proven"
    return f"{statistics.median(values) * 1000:.0f} / {max(values) * 1000:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", default="3az-standby")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    topology = load_topology(options.topology, near=Path(__file__).parents[1] / "experiments" / "x.yaml")
    lab = LocalLab.create(topology, provisioning.parts(topology, print), id=new_lab_id())
    try:
        lab.up()
        print(f"{len(topology.nodes)} nodes, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; {GOALS}")
        print(f"{'median / worst of ' + str(options.runs) + ', in ms':52}" + "".join(f"{c:>16}" for c in COLUMNS))
        for kind, parameters in CASES:
            runs = []
            for _ in range(options.runs):
                with tempfile.TemporaryDirectory() as folder:
                    runs.append(once(lab, Path(folder), kind, parameters))
                await_green(lab, 180, stable=1)
            what = f"{kind} {next(iter(parameters.values()))}"
            row = "".join(f"{shown([run[c] for run in runs if c in run]):>16}" for c in COLUMNS)
            print(f"{what[:50]:52}{row}", flush=True)
    finally:
        for problem in lab.down():
            print(f"could not: {problem}")


if __name__ == "__main__":
    main()
