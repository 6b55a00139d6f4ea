"""What the final read-back costs: time and memory of the reader, by what is compared of documents.

Two measurements, each with figures of its own:

* **A stub** (a process of its own, on loopback) serves one shard of three copies with any number of small documents,
  in the shape of OpenSearch's answers (some 155 bytes a document). Its answers are made before the clock starts. So
  what is measured is ours: reading, decoding, judging and comparing ids and doc values, the routing of all ids, and the
  peak of the reader's memory. The two share the processors. Copies that hold the same give the same answers, which are
  decoded once; then all is done again with answers of which no two are the same. Goal: 10,000,000 documents on three
  copies in 3 minutes and 600 MB on two cores. Up to a million documents whole sources are read and compared too.
* **A lab** (``--lab``) of real nodes: ids and doc values alone, and whole documents (source, words, ids, numbers, a
  sample of phrases), with their sources asked for after doc values and together with them. Prints the best of some
  rounds for each. Needs root.

    python benchmarks/readback.py [--documents 10000000]
    python benchmarks/readback.py --lab [--topology FILE] [--workload documents] [--codec default]
        [--documents 10000] [--shards 3] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from chaos.base.ids import preload_id, write_id
from chaos.base.netsock import Endpoint
from chaos.definitions import load_topology
from chaos.load import workloads
from chaos.load.workload import Workload
from chaos.load.workloads.documents import WORKLOAD, source
from chaos.observe import contents, readback
from chaos.observe.contents import SOURCES, WHOLE, Wanted, chosen
from chaos.observe.idsets import Ids
from chaos.observe.readback import PAGE, Asked, Comparison, CopyRead
from chaos.opensearch.rest import NodeClient, opensearch
from chaos.opensearch.routing import default_routing_shards, shard_of
from chaos.opensearch.views import ShardCopy, administer, await_green, newest, views
from chaos.run.options import new_lab_id
from chaos.targets.labs import provisioning
from chaos.targets.labs.local import LocalLab

INDEX = "chaos"
COPIES = 3
APART = "x-apart"
"""A header that says how many spaces end an answer."""
TINY = Path(__file__).parents[1] / "tests" / "cluster" / "data" / "tiny.yaml"


# ---- the stub --------------------------------------------------------------------------------------------------


class Pages:
    """Answers to all pages of an enumeration, one after the other in a file, with or without sources."""

    def __init__(self, documents: int, size: int, *, sources: bool) -> None:
        self.size = size
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 - it is open as long as the process lives
        self.places = [0]
        make = _with_source if sources else _with_numbers
        for first in range(0, documents + 1, size):  # the last may be empty, and ends it
            hits = b",".join(map(make, range(first, min(first + size, documents))))
            total = b'"total":{"value":%d,"relation":"eq"},' % documents if first == 0 else b""
            self.file.write(
                b'{"timed_out":false,"_shards":{"total":1,"successful":1,"skipped":0,"failed":0},"hits":{%s"hits":[%s]}}'
                % (total, hits)
            )
            self.places.append(self.file.tell())
        self.file.flush()

    def send(self, body: dict[str, Any], to: BaseHTTPRequestHandler) -> None:
        after = body.get("search_after")
        number = 0 if after is None else (after[0] + 1) // self.size
        start, end = self.places[number : number + 2]
        more = b" " * int(to.headers.get(APART, 0))
        to.send_response(200)
        to.send_header("content-type", "application/json; charset=UTF-8")
        to.send_header("content-length", str(end - start + len(more)))
        to.end_headers()
        to.wfile.flush()
        while start < end:
            start += os.sendfile(to.connection.fileno(), self.file.fileno(), start, end - start)
        to.wfile.write(more)


def _with_numbers(n: int) -> bytes:
    numbers = WORKLOAD.numbers(write_id(n))
    seq, group, check = (numbers[name] for name in WORKLOAD.fields)
    return (
        b'{"_id":"w-%d","_seq_no":%d,"_primary_term":1,"fields":{"check":[%d],"group":[%d],"seq":[%d]},'
        b'"sort":[%d,%d,%d]}' % (n, n, check, group, seq, seq, check, n)
    )


def _with_source(n: int) -> bytes:
    body = json.dumps(source(write_id(n)), separators=(",", ":")).encode()
    return b'{"_source":%b,%b' % (body, _with_numbers(n)[1:])


def serve(documents: int, whole: bool, ready: Connection) -> None:
    """Serve pages until the parent ends the process."""
    numbers = Pages(documents, PAGE, sources=False)
    sources = Pages(documents, contents.PAGE, sources=True) if whole else numbers

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            pages = sources if body.get("_source") else numbers
            assert re.match(rf"/{INDEX}/_search\?preference=_shards:0%7C_only_local&", self.path), self.path
            assert body["size"] == pages.size and body.get("query", {"match_all": {}}) == {"match_all": {}}, body
            pages.send(body, self)

        def log_message(self, *_: Any) -> None:
            return

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        ready.send((server.server_address[1], numbers.places[-1] / documents))
        with suppress(KeyboardInterrupt):
            server.serve_forever()


@dataclass
class StubLab:
    """A lab whose nodes are all the stub."""

    port: int
    apart: bool = False

    def client(self, node: str, *, timeout: float) -> NodeClient:
        headers = {APART: str(ord(node[0]) - ord("a"))} if self.apart else {}
        return NodeClient(Endpoint("127.0.0.1", self.port), timeout=timeout, headers=headers)


@contextmanager
def stub(documents: int, *, whole: bool) -> Iterator[tuple[StubLab, float]]:
    """The lab, and how many bytes a document has in an answer."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=serve, args=(documents, whole, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        port, size = mine.recv()
        yield StubLab(port), size
    finally:
        process.terminate()
        process.join(10)


def of_stub(documents: int) -> None:
    copies = [ShardCopy(INDEX, 0, n == 0, "STARTED", f"{'abc'[n]}-data") for n in range(COPIES)]
    with stub(documents, whole=documents <= SOURCES) as (lab, size):
        load = os.getloadavg()[0]
        print(f"{os.cpu_count()} processors, load average {load:.1f}; {documents:,} documents on {COPIES} copies,")
        print(f"{size:.0f} bytes each in an answer; before it begins the reader has {resident():.0f} MB")
        acknowledged = Ids({"w": np.arange(documents)})
        for lab.apart in (False, True):
            how = "no two answers the same" if lab.apart else "the same answers"
            report(f"ids and doc values, {how}", documents, *judged(lab, copies, Asked(WORKLOAD), acknowledged))
        if documents <= SOURCES:
            lab.apart = False
            asked = Asked(WORKLOAD, {0: Wanted(acknowledged)}, at_once=True)
            report("the same and whole sources", documents, *judged(lab, copies, asked, acknowledged))


def judged(lab: Any, copies: list[ShardCopy], asked: Asked, acknowledged: Ids) -> tuple[float, float, float]:
    """Seconds of reading and of comparing, and processor seconds of both."""
    began, cpu = time.perf_counter(), time.process_time()
    chosen(acknowledged, 1, default_routing_shards(1), seed=1)  # as in a run; the stub has no sources of a sample
    drawn = time.perf_counter() - began
    reads = readback._read(lab, copies, asked)
    read = time.perf_counter() - began - drawn
    found = Comparison(reads, acknowledged, 1, default_routing_shards(1)).to_json()
    acknowledged.by_shard(3, default_routing_shards(3))  # of one shard nothing is routed
    compared, cpu = time.perf_counter() - began - read, time.process_time() - cpu
    assert found["complete"] and found["documents"] == len(acknowledged), found["reason"]
    assert [found[f"{name}_count"] for name in ("lost", "diverged", "wrong_content", "duplicated")] == [0] * 4
    assert found["content"]["documents"] == len(asked.wanted[0].sources if asked.wanted else ()), found["content"]
    return read, compared, cpu


def report(name: str, documents: int, read: float, compared: float, cpu: float) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rate = COPIES * documents / (read + compared)
    print(
        f"{name}: {read + compared:.1f} s ({read:.1f} read and judged, {compared:.1f} compared, routed, sample drawn),"
    )
    print(f"    {rate:,.0f} documents a second, {cpu:.1f} s of the reader's processor, peak {peak:.0f} MB")


def resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


# ---- a lab -----------------------------------------------------------------------------------------------------


def measured(lab: LocalLab, workload: Workload, documents: int, shards: int, rounds: int) -> None:
    seen = newest(views(lab))
    assert seen is not None
    live = sorted((copy for copy in seen.copies if copy.index == INDEX), key=lambda copy: copy.shard)
    ids = Ids({"p": np.arange(documents)})
    routing = default_routing_shards(shards)
    everything = chosen(ids, shards, routing, seed=1)
    nothing: dict[int, Wanted] = {}
    ways = {
        "ids and doc values": Asked(workload, nothing, 1),
        "whole documents, sources afterwards": Asked(workload, everything, 1),
        "whole documents, sources at once": Asked(workload, everything, 1, at_once=True),
    }
    best = dict.fromkeys(ways, inf)
    for _ in range(rounds):  # in turn, so that all have the same machine
        for name, asked in ways.items():
            wanted = dict(asked.wanted)
            began = time.perf_counter()
            reads = readback._read(lab, live, asked)
            best[name] = min(best[name], time.perf_counter() - began)
            check(reads, ids, wanted, shards, routing)
    for name, seconds in best.items():
        rate = documents * len(live) / shards / seconds
        print(f"{name:>36}: {seconds:6.2f} s for {len(live)} copies, {rate:8.0f} documents a second")
    before, apart, now = best.values()
    compared, indexed = (sum(len(each[place]) for each in everything.values()) for place in (0, 1))
    print(f"at once {now / apart:.2f} of afterwards, {now / before:.1f} of doc values alone; of {documents} documents")
    print(f"{compared} sources (at most {SOURCES}) and the index of {indexed} (at most {WHOLE} a shard) were compared")


def check(reads: list[CopyRead], ids: Ids, wanted: dict[int, Wanted], shards: int, routing: int) -> None:
    """Everything was read, and all that was asked for was compared: else the figures are of something else."""
    by_shard = ids.by_shard(shards, routing)
    for read in reads:
        expected = wanted.get(read.copy.shard, Wanted())
        assert read.error is None and read.inside.error is None, (read.error, read.inside.error)
        assert read.inside.wrong == {} and read.inside.compared == expected.sources
        assert read.inside.indexed == expected.indexed and read.ids == by_shard[read.copy.shard]
        assert all(shard_of(id, shards, routing) == read.copy.shard for id in read.ids.first(100))


def of_lab(topology_file: str, workload: Workload, codec: str, documents: int, shards: int, rounds: int) -> None:
    topology = load_topology(topology_file, near=Path(__file__).parents[1] / "experiments" / "x.yaml")
    lab = LocalLab.create(topology, provisioning.parts(topology, print), id=new_lab_id())
    try:
        lab.up()
        settings = {"number_of_shards": shards, "number_of_replicas": 2, "codec": codec}
        body = {"mappings": workload.mapping, "settings": settings}
        assert administer(lab, "PUT", f"/{INDEX}", body=body)[0] == 200
        node = next(node.name for node in topology.nodes if node.is_data)
        workload.preload(opensearch(lab.administration(node), access=lab.access), documents, INDEX)
        assert await_green(lab, 60)[0]
        load = os.getloadavg()[0]
        print(f"{os.cpu_count()} processors, load average {load:.1f}; {documents} {workload.name}, codec {codec}")
        assert preload_id(0) in Ids({"p": np.arange(documents)})
        measured(lab, workload, documents, shards, rounds)
    finally:
        lab.down()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", action="store_true", help="a lab of real nodes instead of the stub")
    parser.add_argument("--topology", default=str(TINY))
    parser.add_argument("--workload", default="documents", help="one of the package's")
    parser.add_argument("--codec", default="default", help="of the index: default or best_compression")
    parser.add_argument("--documents", type=int)
    parser.add_argument("--shards", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.lab:
        workload = workloads.named(options.workload)
        of_lab(options.topology, workload, options.codec, options.documents or 10_000, options.shards, options.rounds)
    else:
        of_stub(options.documents or 10_000_000)


if __name__ == "__main__":
    main()
