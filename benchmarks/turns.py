"""What it costs to choose a node, and to count who was asked: processor time, so that a busy machine changes little.

python benchmarks/turns.py [--arrivals 1000000]
"""

from __future__ import annotations

import argparse
import timeit
from time import process_time

import beside  # noqa: F401
from synthetic import Chapter, Story

from chaos.checks.coverage import Counts
from chaos.checks.record import Record
from chaos.load.balancer import Balancer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arrivals", type=int, default=1_000_000)
    options = parser.parse_args()
    for nodes in (2, 3, 6):
        balancer = Balancer(range(nodes), up=1, down=1, seed=2**63 + 1)
        for node in range(nodes):
            balancer.observe(node, True)
        took = min(timeit.repeat(lambda: balancer.choose(0), number=50_000, repeat=7, timer=process_time))  # noqa: B023
        print(f"one of {nodes} nodes chosen: {took / 50_000 * 1e6:.2f} us")
    story = Story(chapters=[Chapter(name, options.arrivals / 1000) for name in "abcde"])
    record = Record(story.history())
    number = sum(map(len, record.arrivals.values()))
    took = min(timeit.repeat(lambda: Counts(record), number=1, repeat=5, timer=process_time))
    print(f"{number} arrivals counted by phase and node: {took * 1000:.0f} ms")


if __name__ == "__main__":
    main()
