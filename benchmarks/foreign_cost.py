"""What it costs a cluster to be asked what others do there: the counters of every copy of every shard.

On one real lab with more and more indices of one shard and one replica. For each number of copies:

    answer    bytes, and bytes for each copy
    wall      how long one question takes, median and longest
    lab       processor time of all nodes for one question, less what they use in as long without any
    share     of one processor, at one question in two seconds
    ours      processor time of this process for one answer

Prints and judges nothing. Needs root.

    python benchmarks/foreign_cost.py [--indices 10,100,400] [--questions 20]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path

from holding_cost import idle, used

from chaos.definitions import load_topology
from chaos.opensearch.administration import create_index
from chaos.opensearch.foreign import COUNTERS, PERIOD_SECONDS, counted, not_of
from chaos.opensearch.views import await_green
from chaos.run.options import new_lab_id
from chaos.targets.labs import provisioning
from chaos.targets.labs.local import LocalLab


def measured(lab: LocalLab, questions: int) -> str:
    client = lab.client(lab.topology.data_nodes[0].name)
    _, answer = client.request("GET", COUNTERS)
    size, copies = len(json.dumps(answer, separators=(",", ":"))), len(counted(answer, not_of(None)).copies)
    background, walls = idle(lab), []
    began, mine, theirs = time.monotonic(), time.process_time(), used(lab)
    for _ in range(questions):
        asked = time.monotonic()
        counted(client.request("GET", COUNTERS)[1], not_of(None))
        walls.append((time.monotonic() - asked) * 1000)
    wall, own = time.monotonic() - began, (time.process_time() - mine) * 1000 / questions
    cost = max(0.0, used(lab) - theirs - background * wall) * 1000 / questions
    client.close()
    share = cost / 1000 / PERIOD_SECONDS
    middle, longest = statistics.median(walls), max(walls)
    return (
        f"{copies:8}{size:10}{size / max(copies, 1):8.0f}{middle:9.1f}{longest:9.1f}{cost:9.1f}{share:9.2%}{own:9.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", default="3az-standby")
    parser.add_argument("--indices", default="10,100,400", help="how many, comma-separated")
    parser.add_argument("--questions", type=int, default=20)
    options = parser.parse_args()
    topology = load_topology(options.topology, near=Path(__file__).parents[1] / "experiments" / "x.yaml")
    lab = LocalLab.create(topology, provisioning.parts(topology, print), id=new_lab_id())
    try:
        lab.up()
        print(f"{len(topology.nodes)} nodes, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
        print(f"{'copies':>8}{'bytes':>10}{'each':>8}{'wall':>9}{'longest':>9}{'lab ms':>9}{'share':>9}{'ours ms':>9}")
        there = 0
        for number in sorted(map(int, options.indices.split(","))):
            for n in range(there, number):
                create_index(lab, f"orders-{n}", {"number_of_shards": 1, "number_of_replicas": 1})
            there = number
            await_green(lab, 300, stable=2)
            print(measured(lab, options.questions), flush=True)
    finally:
        for problem in lab.down():
            print(f"could not: {problem}")


if __name__ == "__main__":
    main()
