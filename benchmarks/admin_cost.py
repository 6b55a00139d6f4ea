"""What monitoring calls cost: the elected cluster manager, the others, whoever is asked, and the answer's bytes.

On one real lab, with more and more routing entries. They are made cheaply: an index with one primary and 999 replicas
has 1,000 of them, of which only a copy a zone is ever made; the rest stays unassigned, so the cluster is yellow. For
each number of entries, each call is made by one client, one after the other for a moment, at a node that is not the
elected manager; all calls take turns, in rounds, and the first round counts for nothing (cold code). Processor time is
read from outside, by each process's own clock (``clock_getcpuclockid``, ns), less what the process uses while nobody
asks, which is measured in each round.

``--record`` writes what was measured to ``reports/results/admin-cost-*.json``, and nothing else;
``python benchmarks/manager_sizes.py`` makes docs/cluster-managers.md of it. One series takes about
``entries x (rounds + 1) x (calls + 1) x seconds`` and a minute for the lab: with the defaults 6 minutes. Needs root.

    python benchmarks/admin_cost.py [--topology managers] [--entries 0,2000,5000] [--rounds 3] [--record]
    python benchmarks/admin_cost.py rates [--entries 2000] [--calls state,index-settings] [--record]
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from chaos.base.errors import ChaosError, LabError
from chaos.definitions import load_topology
from chaos.opensearch.administration import create_index
from chaos.opensearch.rest import NodeClient
from chaos.opensearch.views import administer, await_green, elected
from chaos.run.options import new_lab_id
from chaos.targets.labs import provisioning
from chaos.targets.labs.local import LocalLab

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "reports" / "results"
REPLICAS = 999
PAD = 8192
"""Characters by which mapping and settings of an index are made the same size, so that two calls differ in one thing:
whether the node that is asked may answer by itself."""
NOBODY = "routing.allocation.exclude._name"

CALLS: Mapping[str, str] = {
    "state": "/_cluster/state",
    "mapping": "/_mapping",
    "index-settings": "/_settings",
    "health": "/_cluster/health",
    "health-shards": "/_cluster/health?level=shards",
    "pending": "/_cluster/pending_tasks",
    "cat-indices": "/_cat/indices?format=json",
    "list-indices": "/_list/indices?format=json&size=100",
    "cat-shards": "/_cat/shards?format=json",
    "list-shards": "/_list/shards?format=json&size=2000",
    "cat-allocation": "/_cat/allocation?format=json",
    "cluster-stats": "/_cluster/stats",
    "cluster-stats-filtered": "/_cluster/stats/os,jvm,process/nodes/_all",
    "nodes-stats": "/_nodes/stats",
    "nodes-stats-filtered": "/_nodes/stats/os,jvm,process",
    "index-stats": "/_stats",
    "shard-stats": "/_stats?level=shards",
}
CHECKED = ("state", "mapping")
"""Calls that the node that is asked answers itself where its state is the newest: it asks the manager for its term."""


@dataclass(frozen=True)
class Measured:
    """One call in one round. Times in ms, for one call: ``manager`` of the elected one, ``asked`` of the node that was
    asked, ``data`` and ``managers`` of all others of their kind together."""

    call: str
    round: int
    entries: int
    shards: int
    made: int
    failed: int
    manager: float
    managers: float
    asked: float
    data: float
    wall: float
    bytes: int


def clock(pid: int) -> float:
    """Processor seconds that a process has used, all threads, also ended ones (``clock_getcpuclockid(3)``)."""
    return time.clock_gettime(~pid << 3 | 2)


class Nodes:
    """The processes of a lab's nodes, and who of them is elected."""

    def __init__(self, lab: LocalLab) -> None:
        self.lab = lab
        self.pids = {node.name: _pid(lab, node.name) for node in lab.topology.nodes}
        leader = elected(lab)
        if leader is None:
            raise LabError("the lab has no elected cluster manager")
        self.leader = leader

    def used(self) -> dict[str, float]:
        return {name: clock(pid) for name, pid in self.pids.items()}

    def kept(self) -> bool:
        """Whether the manager is the one that it was."""
        return elected(self.lab) == self.leader

    def shared(self, seconds: Mapping[str, float], asked: str) -> dict[str, float]:
        """Seconds by what a node is to the call."""
        found = dict.fromkeys(("manager", "managers", "asked", "data"), 0.0)
        roles = {node.name: node for node in self.lab.topology.nodes}
        for name, value in seconds.items():
            own = "manager" if name == self.leader else "asked" if name == asked else None
            found[own or ("managers" if roles[name].is_cluster_manager else "data")] += value
        return found


def _pid(lab: LocalLab, node: str) -> int:
    identity = lab.identity(node)
    if identity is None:
        raise LabError(f"{node} has no process")
    return identity.pid


class Asking:
    """A connection to a node that reads answers of any size and parses none of them."""

    def __init__(self, lab: LocalLab, node: str, timeout: float = 60.0) -> None:
        self._endpoint, self._timeout = lab.administration(node), timeout
        self._open: http.client.HTTPConnection | None = None

    def get(self, path: str) -> tuple[int, bytes]:
        if self._open is None:
            self._open = http.client.HTTPConnection(*self._endpoint.address, timeout=self._timeout)
            self._open.sock = self._endpoint.connect(self._timeout)
        self._open.request("GET", path)
        answer = self._open.getresponse()
        return answer.status, answer.read()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open = None


def idle(nodes: Nodes, seconds: float) -> dict[str, float]:
    """Processors that each node uses while nobody asks."""
    began, first = time.monotonic(), nodes.used()
    time.sleep(seconds)
    wall, last = time.monotonic() - began, nodes.used()
    return {name: (last[name] - first[name]) / wall for name in first}


def once(
    nodes: Nodes,
    asking: Asking,
    asked: str,
    call: str,
    seconds: float,
    before: Mapping[str, float],
    place: tuple[int, int, int],
) -> Measured:
    """One call, made for ``seconds``, twice at least. ``before``: what nodes use when idle; ``place``: the round, the
    routing entries, and how many of them are copies that exist."""
    walls: list[float] = []
    failed = size = 0
    began, first = time.monotonic(), nodes.used()
    while len(walls) < 2 or time.monotonic() - began < seconds:
        at = time.monotonic()
        status, answer = asking.get(CALLS[call])
        walls.append((time.monotonic() - at) * 1000)
        failed, size = failed + (status != 200), len(answer)
    wall, last = time.monotonic() - began, nodes.used()
    spent = {name: (last[name] - first[name] - before[name] * wall) * 1000 / len(walls) for name in first}
    spread = nodes.shared(spent, asked)
    return Measured(
        call=call,
        round=place[0],
        entries=place[1],
        shards=place[2],
        made=len(walls),
        failed=failed,
        wall=round(statistics.median(walls), 3),
        bytes=size,
        **{name: round(value, 4) for name, value in spread.items()},
    )


def fill(lab: LocalLab, first: int, last: int) -> None:
    """Indices with 1,000 routing entries each, ``first`` to ``last`` - 1."""
    settings = {"number_of_shards": 1, "number_of_replicas": REPLICAS, NOBODY: "x" * PAD}
    for n in range(first, last):
        create_index(lab, f"entries-{n}", settings, {"_meta": {"pad": "x" * PAD}})


def allow(lab: LocalLab) -> None:
    must(lab, "PUT", "/_cluster/settings", {"persistent": {"cluster.max_shards_per_node": 100_000}})


def must(lab: LocalLab, method: str, path: str, body: Any = None) -> Any:
    """The answer to a request, of which it is an error to be refused. Raises LabError."""
    status, answer = administer(lab, method, path, body, timeout=30)
    if status not in (200, 201):
        raise LabError(f"{method} {path} answered {status}: {str(answer)[:300]}")
    return answer


def entries_of(client: NodeClient) -> tuple[int, int]:
    """Routing entries that the cluster says it has, and how many of them are copies that exist."""
    health = client.request("GET", "/_cluster/health")[1]
    return sum(int(health[key]) for key in ("active_shards", "unassigned_shards")), int(health["active_shards"])


def calm(lab: LocalLab, seconds: float = 60.0) -> None:
    """Until the manager has no task left and no shard is being made, twice in a row. Raises LabError after
    ``seconds``."""
    client, until, calm_looks = lab.client(lab.topology.data_nodes[0].name), time.monotonic() + seconds, 0
    while calm_looks < 2:
        if time.monotonic() > until:
            raise LabError("the cluster does not come to rest")
        health = client.request("GET", "/_cluster/health")[1]
        busy = health["number_of_pending_tasks"] or health["initializing_shards"] or health["relocating_shards"]
        calm_looks = 0 if busy else calm_looks + 1
        time.sleep(0.5)
    client.close()


@contextmanager
def lab_of(name: str) -> Iterator[LocalLab]:
    topology = load_topology(name, near=ROOT / "experiments" / "x.yaml")
    lab = LocalLab.create(topology, provisioning.parts(topology, print), id=new_lab_id())
    try:
        lab.up()
        await_green(lab, 120, stable=2)
        allow(lab)
        yield lab
    finally:
        for problem in lab.down():
            print(f"could not: {problem}")


def asked_of(lab: LocalLab, leader: str) -> str:
    """Who is asked: the node that only coordinates, where there is one, else a data node."""
    plain = [node.name for node in lab.topology.nodes if not node.roles]
    return plain[0] if plain else next(node.name for node in lab.topology.data_nodes if node.name != leader)


def series(lab: LocalLab, sizes: Sequence[int], rounds: int, seconds: float, calls: Sequence[str]) -> list[Measured]:
    """Every call at every number of entries; the first round of each size is not in it."""
    nodes, found, there = Nodes(lab), [], 0
    asked = asked_of(lab, nodes.leader)
    asking, client = Asking(lab, asked), lab.client(asked)
    for size in sizes:
        began = time.monotonic()
        fill(lab, there, size // 1000)
        there = size // 1000
        calm(lab)
        entries, shards = entries_of(client)
        print(f"{entries} entries, {shards} copies, after {time.monotonic() - began:.1f} s", flush=True)
        for number in range(rounds + 1):
            before = idle(nodes, max(1.0, seconds))
            length = seconds if number else seconds / 2
            taken = [once(nodes, asking, asked, call, length, before, (number, entries, shards)) for call in calls]
            found += taken if number else []
        if not nodes.kept():
            raise LabError("another cluster manager was elected: nothing can be said of one manager")
        table(found, entries)
    asking.close()
    client.close()
    return found


def table(found: Sequence[Measured], entries: int) -> None:
    """Medians over the rounds at one number of entries."""
    columns = ("wall", "manager", "managers", "asked", "data")
    print(f"{'ms of':24}{'bytes':>10}" + "".join(f"{name:>10}" for name in columns) + f"{'failed':>8}")
    for call in dict.fromkeys(each.call for each in found):
        own = [each for each in found if each.call == call and each.entries == entries]
        values = [statistics.median(getattr(each, name) for each in own) for name in columns]
        failed = sum(each.failed for each in own)
        print(
            f"{call:24}{own[-1].bytes:10}" + "".join(f"{value:10.2f}" for value in values) + f"{failed:8}", flush=True
        )


def paced(nodes: Nodes, asking: Asking, call: str, rate: float, seconds: float) -> tuple[dict[str, float], int, int]:
    """Processor seconds of each node in a second, calls made and how many were late by a second or failed."""
    bad = made = 0
    began, first = time.monotonic(), nodes.used()
    while (due := made / rate if rate else seconds) < seconds:
        time.sleep(max(0.0, began + due - time.monotonic()))
        status, _ = asking.get(CALLS[call])
        made += 1
        bad += status != 200 or time.monotonic() - began - due > 1.0
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    wall, last = time.monotonic() - began, nodes.used()
    return {name: (last[name] - first[name]) / wall for name in first}, made, bad


def at_rates(
    lab: LocalLab, calls: Sequence[str], rates: Sequence[float], rounds: int, seconds: float
) -> list[dict[str, Any]]:
    """Which share of a processor nodes use at each rate of each call, in rounds of all; the first one is cold."""
    nodes, found = Nodes(lab), []
    asked = asked_of(lab, nodes.leader)
    asking = Asking(lab, asked)
    for number in range(rounds + 1):
        for rate in rates:
            for call in calls:
                spent, made, bad = paced(nodes, asking, call, rate, seconds if number else 3.0)
                if number:
                    share = nodes.shared(spent, asked)
                    found.append(
                        {"call": call, "rate": rate, "round": number, "made": made, "bad": bad}
                        | {k: round(v, 5) for k, v in share.items()}
                    )
                    print(
                        f"{call:16}{rate:6.0f}/s{made:6}{bad:5}" + "".join(f"{k} {v:7.2%}  " for k, v in share.items()),
                        flush=True,
                    )
    if not nodes.kept():
        raise LabError("another cluster manager was elected: nothing can be said of one manager")
    asking.close()
    return found


def machine() -> dict[str, Any]:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {
        "processors": os.cpu_count(),
        "load": os.getloadavg()[0],
        "commit": commit.stdout.strip(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def record(name: str, lab: LocalLab, what: Mapping[str, Any]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    head = {
        "topology": lab.topology.name,
        "nodes": len(lab.topology.nodes),
        "data_nodes": len(lab.topology.data_nodes),
        "opensearch": ", ".join(lab.topology.versions),
        "profile": lab.topology.profile,
        **machine(),
    }
    file = RESULTS / f"admin-cost-{name}.json"
    file.write_text(json.dumps({**head, **what}, indent=1) + "\n")
    print(f"recorded in {file.relative_to(ROOT)}")


def numbers(value: str) -> list[int]:
    return [int(each) for each in value.split(",")]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("calls", "rates"), default="calls")
    parser.add_argument("--topology", default="managers")
    parser.add_argument("--entries", type=numbers, default=[0, 2000, 5000], help="thousands, rising, comma-separated")
    parser.add_argument("--calls", type=lambda value: value.split(","), default=list(CALLS))
    parser.add_argument("--rates", type=numbers, default=[0, 10, 20, 30], help="calls per second")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5, help="of one call in one round")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if unknown := sorted(set(options.calls) - set(CALLS)):
        parser.error(f"--calls: there is no call {', '.join(unknown)}: expected some of {', '.join(CALLS)}")
    if any(size % 1000 for size in options.entries) or options.entries != sorted(options.entries):
        parser.error("--entries: expected rising multiples of 1000, for example 0,2000,5000")
    return options


def main() -> None:
    options = parsed()
    with lab_of(options.topology) as lab:
        print(f"{len(lab.topology.nodes)} nodes, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
        if options.what == "rates":
            fill(lab, 0, options.entries[-1] // 1000)
            calm(lab)
            taken = at_rates(lab, options.calls, options.rates, options.rounds, options.seconds)
            found: dict[str, Any] = {"entries": options.entries[-1], "rates": taken}
        else:
            found = {
                "calls": [
                    asdict(each)
                    for each in series(lab, options.entries, options.rounds, options.seconds, options.calls)
                ]
            }
        if options.record:
            record(f"{lab.topology.name}-{options.what}", lab, found)


if __name__ == "__main__":
    try:
        main()
    except ChaosError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
