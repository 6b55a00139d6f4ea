"""What the final read-back costs: documents a second of each copy, by what is compared of them.

Starts a small lab, writes documents, and reads all copies of the index back, two at a time as a run does: first ids
and doc values alone (which is all that was compared before sources were), then whole documents (source, words, ids,
numbers, a sample of phrases). Prints the best of some rounds for each, and the ratio. Goal: 10,000 documents in
seconds. With more documents of a shard than are all compared, whole documents are a sample. Needs root.

    python benchmarks/readback.py [--topology FILE] [--documents 10000] [--shards 3] [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Collection
from math import inf
from pathlib import Path

from chaos.definitions import load_topology
from chaos.load.workload import MAPPING, preload, preload_id
from chaos.observe import readback
from chaos.observe.contents import WHOLE, chosen
from chaos.opensearch.rest import opensearch
from chaos.opensearch.routing import default_routing_shards, shard_of
from chaos.opensearch.views import administer, await_green, newest, views
from chaos.run.options import new_lab_id
from chaos.targets.labs import provisioning
from chaos.targets.labs.local import LocalLab

INDEX = "chaos"
TINY = Path(__file__).parents[1] / "tests" / "cluster" / "data" / "tiny.yaml"


def measured(lab: LocalLab, documents: int, shards: int, rounds: int) -> None:
    seen = newest(views(lab))
    assert seen is not None
    live = [copy for copy in seen.copies if copy.index == INDEX]
    ids = [preload_id(n) for n in range(documents)]
    routing = default_routing_shards(shards)
    everything = chosen(ids, shards, routing, seed=1)
    nothing: dict[int, set[str]] = {}
    best = {"ids and doc values": inf, "whole documents": inf}
    for _ in range(rounds):  # in turn, so that both have the same machine
        for name, wanted in zip(best, (nothing, everything), strict=True):
            began = time.perf_counter()
            reads = readback._read(lab, live, wanted, 1)
            best[name] = min(best[name], time.perf_counter() - began)
            check(reads, ids, wanted, shards, routing)
    for name, seconds in best.items():
        rate = documents * len(live) / shards / seconds
        print(f"{name:>20}: {seconds:6.2f} s for {len(live)} copies, {rate:8.0f} documents a second")
    before, now = best.values()
    compared = sum(map(len, everything.values()))
    print(f"ratio {now / before:.1f}; {compared} of {documents} documents compared (all of {WHOLE} a shard)")


def check(
    reads: list[readback.CopyRead], ids: list[str], wanted: dict[int, set[str]], shards: int, routing: int
) -> None:
    """Everything was read, and all that was asked for was compared: else the figures are of something else."""
    for read in reads:
        expected: Collection[str] = wanted.get(read.copy.shard, set())
        assert read.error is None and read.inside.error is None, (read.error, read.inside.error)
        assert read.inside.wrong == {} and read.inside.compared == expected
        assert len(read.ids) == sum(shard_of(id, shards, routing) == read.copy.shard for id in ids)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", default=str(TINY))
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--shards", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    topology = load_topology(options.topology, near=Path(__file__).parents[1] / "experiments" / "x.yaml")
    lab = LocalLab.create(topology, provisioning.parts(topology, print), id=new_lab_id())
    try:
        lab.up()
        settings = {"number_of_shards": options.shards, "number_of_replicas": 2}
        assert administer(lab, "PUT", f"/{INDEX}", body={"mappings": MAPPING, "settings": settings})[0] == 200
        node = next(node.name for node in topology.nodes if node.is_data)
        preload(opensearch(lab.administration(node), access=lab.access), options.documents, INDEX)
        assert await_green(lab, 60)[0]
        print(f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f}; {options.documents} documents")
        measured(lab, options.documents, options.shards, options.rounds)
    finally:
        lab.down()


if __name__ == "__main__":
    main()
