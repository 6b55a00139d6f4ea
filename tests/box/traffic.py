"""The foreign traffic of one zone: a shop that searches and writes its orders through its zone's load balancer.

An open loop: what is sent, and when, does not depend on answers. Each request leaves a line with its intended time, so
that these logs are witnesses of what a run did to others. An order is written again and again, each time with a larger
``n``, so the index does not grow for ever and a lost write is still seen.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import urllib3
from opensearchpy import OpenSearch
from opensearchpy.exceptions import OpenSearchException, TransportError

from box.plan import BALANCED, ORDERS
from chaos.base.access import Access
from chaos.base.netsock import Endpoint
from chaos.opensearch.rest import opensearch

ITEMS = ("lamp", "chair", "table", "shelf", "clock")
RING = 2000
"""How many orders a zone has."""
SECONDS = 10.0
WAITING = 200
"""So many requests may be under way; what comes on top is not sent, and logged so."""
LARGEST = 32 << 20
"""Bytes of a log; then a new one begins, and the one before is kept."""


class Log:
    """Lines of JSON, flushed one by one; two files at most."""

    def __init__(self, file: Path) -> None:
        self._file, self._lock = file, threading.Lock()
        self._open: TextIO = open(file, "a")  # noqa: SIM115

    def write(self, **said: Any) -> None:
        with self._lock:
            if self._open.tell() > LARGEST:
                self._open.close()
                os.replace(self._file, self._file.with_suffix(".1.jsonl"))
                self._open = open(self._file, "a")  # noqa: SIM115
            self._open.write(json.dumps(said) + "\n")
            self._open.flush()


def _sent(client: OpenSearch, op: str, zone: str, number: int, n: int) -> dict[str, Any]:
    item = ITEMS[number % len(ITEMS)]
    if op == "search":
        answer = client.search(index=ORDERS, body={"query": {"term": {"item": item}}, "size": 5})
        shards = answer["_shards"]
        return {"whole": shards["failed"] == 0 and not answer["timed_out"]}
    id = f"{zone}-{number % RING}"
    client.index(index=ORDERS, id=id, body={"n": n, "item": item, "zone": zone})
    return {"id": id, "n": n}


def _one(client: OpenSearch, log: Log, op: str, zone: str, number: int, at: float) -> None:
    n = int(at * 1000)
    said: dict[str, Any] = {"at": round(at, 3), "op": op}
    try:
        said |= {"ok": True, **_sent(client, op, zone, number, n)}
    except TransportError as error:
        said |= {"ok": False, "why": f"{error.status_code} {str(error.error)[:80]}"}
    except (OpenSearchException, urllib3.exceptions.HTTPError, LookupError, TypeError) as error:
        said |= {"ok": False, "why": type(error).__name__}
    log.write(**said, ms=round((time.time() - at) * 1000, 1))


def traffic(zone: str, searches: float, writes: float, access: Access, file: Path) -> None:
    """Send for ever; rates are per second."""
    client = opensearch(Endpoint(*BALANCED), access=access, timeout=SECONDS)
    log = Log(file)
    waiting = threading.BoundedSemaphore(WAITING)
    print("ready", flush=True)
    sys.stdout.close()
    with ThreadPoolExecutor(32) as pool:
        for op, number, at in arrivals(time.time(), {"search": searches, "write": writes}):
            time.sleep(max(0.0, at - time.time()))
            if not waiting.acquire(blocking=False):
                log.write(at=round(at, 3), op=op, ok=False, why="not sent: too many are under way")
                continue
            pool.submit(_one, client, log, op, zone, number, at).add_done_callback(lambda _: waiting.release())


def arrivals(start: float, rates: dict[str, float]) -> Iterator[tuple[str, int, float]]:
    """Operation, its number and its time, in order and for ever; none of an operation whose rate is 0."""
    number = {op: 0 for op, rate in rates.items() if rate > 0}
    while number:
        due = {op: start + count / rates[op] for op, count in number.items()}
        op = min(due, key=lambda each: due[each])
        yield op, number[op], due[op]
        number[op] += 1


def lines(folder: Path, since: float = 0.0) -> list[dict[str, Any]]:
    """What the traffic of all zones has logged, in order of its time; ``since``: seconds of the epoch."""
    found = []
    for file in folder.glob("*.jsonl"):
        for line in file.read_text().splitlines():
            with suppress(ValueError):  # the last one may be half there
                found.append(json.loads(line))
    return sorted((each for each in found if each["at"] >= since), key=lambda each: each["at"])


def acknowledged(said: list[dict[str, Any]]) -> dict[str, int]:
    """Order → the largest ``n`` that the cluster has acknowledged."""
    found: dict[str, int] = {}
    for each in said:
        if each["op"] == "write" and each["ok"]:
            found[each["id"]] = max(each["n"], found.get(each["id"], 0))
    return found
