"""What protects a cluster from monitoring calls: pages, cancellation, and a node that only coordinates.

On one real lab of the topology ``managers``, one after the other:

    pages        all pages of _list/indices and _list/shards are asked, again and again, while indices come and go: is
                 each index that was there all along on exactly one page?
    leaving      a data node is paused; a client that asks for _cat/shards leaves: how long until its task is gone?
    timeout      the elected manager is paused; _cat/shards with cancel_after_time_interval=2s: when does it answer, and
                 what? Beside it the same call without, given up after 15 s
    breaker      many clients at once ask one node for state, tables and statistics, and searches beside them: a node
                 that only coordinates, then a data node. Nodes refuse (429) from 60 % of their heap on, for a lab's
                 answers are small against the usual 95 %. Which nodes' breakers tripped, and how were searches and
                 health answered by this node and by another one meanwhile?

Prints, and with ``--record`` writes ``reports/results/admin-cost-protections.json``. Some four minutes. Needs root.

    python benchmarks/admin_protections.py [--entries 10000] [--clients 40] [--record]
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote

from admin_cost import REPLICAS, Asking, Nodes, calm, fill, lab_of, must, record

from chaos.base.errors import ChaosError, LabError
from chaos.opensearch.administration import create_index
from chaos.opensearch.views import administer, await_green
from chaos.targets.labs.local import LocalLab

COORDINATOR, DATA = "a-coord", "b-data"
WALKS, PAGE = 8, {"indices": 5, "shards": 2000}
"""Walks over all pages, and rows of a page; of shards no page may have fewer (3.8.0)."""
SMALL = {"number_of_shards": 1, "number_of_replicas": 1}
TOTAL, LIMIT = "indices.breaker.total.limit", "60%"
GONE_SECONDS, GIVEN_UP_SECONDS, FILL_SECONDS = 40.0, 15.0, 12.0
ANSWERS = (OSError, ValueError, LookupError, http.client.HTTPException)


@contextmanager
def paused(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


# -- pages -------------------------------------------------------------------------------------------


def walked(asking: Asking, table: str) -> list[str]:
    """The index of each row of all pages, in their order."""
    path, found = f"/_list/{table}?format=json&size={PAGE[table]}", []
    token: str | None = None
    while True:
        status, body = asking.get(path + (f"&next_token={quote(token, safe='')}" if token else ""))
        if status != 200:
            raise LabError(f"{path} answered {status}: {body[:200]!r}")
        answer = json.loads(body)
        found += [str(row["index"]) for row in answer[table]]
        token = answer["next_token"]
        if token is None or token == "null":
            return found


def churn(lab: LocalLab, over: threading.Event, made: Counter[str]) -> None:
    """Indices that come and go."""
    number = 0
    while not over.is_set():
        create_index(lab, f"passing-{number}", SMALL)
        made["created"] += 1
        if number >= 3:
            administer(lab, "DELETE", f"/passing-{number - 3}")
            made["deleted"] += 1
        number += 1


def pages(lab: LocalLab, lasting: Mapping[str, int]) -> dict[str, Any]:
    """``lasting``: the rows in ``shards`` of each index that stays."""
    over, made = threading.Event(), Counter[str]()
    asking, wrong = Asking(lab, COORDINATOR), Counter[str]()
    thread = threading.Thread(target=churn, args=(lab, over, made), daemon=True)
    thread.start()
    try:
        for _ in range(WALKS):
            for table in PAGE:
                seen = Counter(walked(asking, table))
                wanted = lasting if table == "shards" else dict.fromkeys(lasting, 1)
                wrong[table] += sum(seen[name] != rows for name, rows in wanted.items())
    finally:
        over.set()
        thread.join(60)
        asking.close()
    return {
        "walks": WALKS,
        "lasting": len(lasting),
        **made,
        "wrong_indices": wrong["indices"],
        "wrong_shards": wrong["shards"],
    }


# -- cancellation ------------------------------------------------------------------------------------


def running(lab: LocalLab) -> int:
    """Tasks of _cat/shards and of what it asks for, on the node that was asked."""
    asking = Asking(lab, COORDINATOR, 5)
    try:
        path = f"/_tasks?nodes={COORDINATOR}&actions=*:monitor/shards*,indices:monitor/stats*"
        body = json.loads(asking.get(path)[1])
        return sum(len(node["tasks"]) for node in body["nodes"].values())
    finally:
        asking.close()


def until(reached: Callable[[], bool], seconds: float) -> float | None:
    """Seconds until it was so; None: not in time."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if reached():
            return round(time.monotonic() - began, 2)
        time.sleep(0.1)
    return None


def leaving(lab: LocalLab, nodes: Nodes) -> dict[str, Any]:
    """A client that leaves: its request waits for a node that is paused."""
    with paused(nodes.pids[DATA]):
        asking = Asking(lab, COORDINATOR, 2.0)
        with suppress(OSError):
            asking.get("/_cat/shards")
        before = running(lab)
        asking.close()
        gone = until(lambda: running(lab) == 0, GONE_SECONDS)
    return {"tasks_while_it_waited": before, "seconds_until_gone": gone, "looked_for": GONE_SECONDS}


def timeout(lab: LocalLab, nodes: Nodes) -> dict[str, Any]:
    """The answers to a call whose user's time is over, and to one without, while the elected manager is paused."""
    found: dict[str, Any] = {}
    with paused(nodes.pids[nodes.leader]):
        for name, path in (("with", "/_cat/shards?cancel_after_time_interval=2s"), ("without", "/_cat/shards")):
            asking, began = Asking(lab, COORDINATOR, GIVEN_UP_SECONDS), time.monotonic()
            answer: str
            try:
                status, body = asking.get(path)
                answer = f"{status} {body[:160].decode(errors='replace')}"
            except OSError as error:
                answer = f"none: {type(error).__name__}"
            asking.close()
            found[name] = {"seconds": round(time.monotonic() - began, 2), "answer": answer}
    return found


# -- breakers ----------------------------------------------------------------------------------------


def tripped(lab: LocalLab) -> dict[str, int]:
    """How often each node's breakers refused."""
    found = {}
    for node in lab.topology.nodes:
        asking = Asking(lab, node.name, 10)
        with suppress(*ANSWERS):
            body = json.loads(asking.get("/_nodes/_local/stats/breaker")[1])
            (own,) = body["nodes"].values()
            found[node.name] = sum(int(each["tripped"]) for each in own["breakers"].values())
        asking.close()
    return found


def storm(lab: LocalLab, node: str, path: str, over: threading.Event, counted: Counter[str]) -> None:
    asking = Asking(lab, node, 30)
    while not over.is_set():
        try:
            counted[str(asking.get(path)[0])] += 1
        except ANSWERS:
            counted["none"] += 1
            asking.close()
    asking.close()


def limit(lab: LocalLab, value: str | None) -> None:
    """From which share of a node's heap on, garbage included, it refuses; None: as it is by default."""
    must(lab, "PUT", "/_cluster/settings", {"persistent": {TOTAL: value}})


def full(lab: LocalLab, node: str, canary: str, clients: int) -> dict[str, Any]:
    """Many clients at one node, and health and a search beside them; ``canary``: another one, asked for the same."""
    limit(lab, LIMIT)
    try:
        return _full(lab, node, canary, clients)
    finally:
        limit(lab, None)


def _full(lab: LocalLab, node: str, canary: str, clients: int) -> dict[str, Any]:
    over, before = threading.Event(), tripped(lab)
    counted = {name: Counter[str]() for name in ("calls", "own_health", "own_search", "health", "search")}
    paths = ("/_cluster/state", "/_cat/shards?format=json", "/_stats?level=shards", "/_nodes/stats?level=shards")
    who = [(node, paths[number % len(paths)], counted["calls"]) for number in range(clients)]
    for asked, own in ((node, "own_"), (canary, "")):
        who += [(asked, "/_cluster/health", counted[f"{own}health"]), (asked, "/kept/_search", counted[f"{own}search"])]
    threads = [threading.Thread(target=storm, args=(lab, *each[:2], over, each[2]), daemon=True) for each in who]
    for thread in threads:
        thread.start()
    time.sleep(FILL_SECONDS)
    over.set()
    for thread in threads:
        thread.join(40)
    calm(lab, 90)
    after = tripped(lab)
    grew = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
    return {"asked": node, "limit": LIMIT, "tripped": grew, **{name: dict(each) for name, each in counted.items()}}


def filled(lab: LocalLab, entries: int) -> None:
    fill(lab, 0, entries // 1000)
    calm(lab)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=40)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    found: dict[str, Any] = {"entries": options.entries, "clients": options.clients}
    with lab_of("managers") as lab:
        nodes = Nodes(lab)
        for n in range(12):
            create_index(lab, f"lasting-{n}", SMALL)
        create_index(lab, "kept", SMALL)
        await_green(lab, 60)
        lasting = {f"lasting-{n}": 2 for n in range(12)}
        lasting |= {f"entries-{n}": REPLICAS + 1 for n in range(options.entries // 1000)}
        parts: dict[str, Callable[[], object]] = {
            "leaving": lambda: leaving(lab, nodes),
            "rest": lambda: await_green(lab, 90, stable=3),
            "timeout": lambda: timeout(lab, nodes),
            "again": lambda: await_green(lab, 120, stable=3),
            "entries": lambda: filled(lab, options.entries),
            "pages": lambda: pages(lab, lasting),
            "coordinating": lambda: full(lab, COORDINATOR, "c-data", options.clients),
            "data": lambda: full(lab, DATA, "c-data", options.clients),
        }
        for name, part in parts.items():
            result = part()
            if isinstance(result, dict):
                found[name] = result
                print(f"{name}: {json.dumps(result)}", flush=True)
        if options.record:
            record("protections", lab, found)


if __name__ == "__main__":
    try:
        main()
    except ChaosError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
