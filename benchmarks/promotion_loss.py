"""Looks for acknowledged writes that a promoted replica lacks: OpenSearch #20118, segment replication.

As the thread has it, a commit counts operations that are still on their way. A replica that copies it believes that it
has them, and skips them when it is promoted and replays its translog. The fix is in 3.8.0 and not in 2.19.6.

Cycle after cycle, on one lab: an index of one shard and one replica that copies segments and never refreshes by itself;
several clients write; meanwhile the index is flushed, and the replica copies the commit. Then the clients end, the
primary's place is taken away (``cancel`` with ``allow_primary``), the replica is promoted, and every id that was
acknowledged by both copies is looked for. Busy processes make threads wait in the moment that matters.

Prints a line for each loss, and one at the end. ``--record`` keeps that in ``reports/results/promotion-loss.json``, and
``--page`` makes the table of docs/replication.md of all that are kept. Needs root.

    python benchmarks/promotion_loss.py --opensearch 2.19.6 --minutes 60 [--record]
    python benchmarks/promotion_loss.py --page
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import urllib3
from admin_cost import RESULTS, lab_of, machine

from chaos.base.errors import ChaosError, LabError
from chaos.base.waiting import wait_until
from chaos.opensearch.views import administer
from chaos.targets.labs.local import LocalLab

FILE = RESULTS / "promotion-loss.json"
PAGE = RESULTS.parents[1] / "docs" / "replication.md"
BEGIN, END = "<!-- promotions: made by benchmarks/promotion_loss.py --page -->", "<!-- promotions end -->"
TOPOLOGY = """\
apiVersion: opensearch-chaos/v1
kind: topology
name: promotion-loss
opensearch: {version}
profile: fast
zones: [a]
nodes:
  cm:   {{roles: [cluster_manager], per_zone: 1, heap: 256MiB}}
  data: {{roles: [data, ingest],    per_zone: 2, heap: 512MiB}}
settings:
  index: {{number_of_shards: 1, number_of_replicas: 1}}
"""
SETTINGS = {
    "number_of_shards": 1,
    "number_of_replicas": 1,
    "replication.type": "SEGMENT",
    "refresh_interval": "-1",
    "translog.flush_threshold_size": "2gb",
}
CLIENTS, BULK, BUSY = 6, 3, 6
BEFORE_FLUSH, AFTER_FLUSH = (0.2, 1.0), (0.05, 0.4)
"""Seconds, drawn for each cycle."""
READY_SECONDS = 60.0
SHOWN = 5


@dataclass
class Search:
    """``acknowledged``: by both copies. ``lost``: the cycle, and how many of its acknowledged ids were not found."""

    opensearch: str
    cycles: int = 0
    failed: int = 0
    acknowledged: int = 0
    lost: list[tuple[int, int]] = field(default_factory=list)
    seconds: float = 0.0


def write(lab: LocalLab, index: str, stop: threading.Event, client_number: int, found: set[str]) -> None:
    """Bulks until told to stop; ids that both copies have acknowledged."""
    client = lab.client(f"a-data-{1 + client_number % 2}", timeout=20.0)
    draw = random.Random(client_number)
    try:
        for number in itertools.count():
            if stop.is_set():
                return
            ids = [f"{client_number}-{number}-{each}" for each in range(BULK)]
            lines = []
            for id in ids:
                words = " ".join(str(draw.randrange(10**6)) for _ in range(200))
                lines += [json.dumps({"index": {"_id": id}}), json.dumps({"words": words})]
            status, answer = client.request("POST", f"/{index}/_bulk", body="\n".join(lines) + "\n")
            if status == 200:
                items = [each["index"] for each in answer["items"]]
                found.update(each["_id"] for each in items if (each.get("_shards") or {}).get("successful") == 2)
    except urllib3.exceptions.HTTPError:
        return  # what was not answered was not acknowledged
    finally:
        client.close()


def cycle(lab: LocalLab, number: int, draw: random.Random) -> tuple[int, list[str]]:
    """How many ids were acknowledged, and those that the promoted copy lacks. Raises LabError where it did not come to
    that."""
    index = f"acks-{number}"
    put(lab, "PUT", f"/{index}", {"settings": {"index": SETTINGS}})
    if not wait_until(lambda: shards(lab, index).get("r") is not None, READY_SECONDS, every=0.1):
        raise LabError("the replica did not start")
    stop, found = threading.Event(), [set[str]() for _ in range(CLIENTS)]
    writing = [threading.Thread(target=write, args=(lab, index, stop, each, found[each])) for each in range(CLIENTS)]
    for each in writing:
        each.start()
    time.sleep(draw.uniform(*BEFORE_FLUSH))
    put(lab, "POST", f"/{index}/_flush?wait_if_ongoing=true", None)
    time.sleep(draw.uniform(*AFTER_FLUSH))
    stop.set()
    for each in writing:
        each.join()
    acknowledged = set.union(*found)
    time.sleep(draw.uniform(0.2, 1.0))
    before = shards(lab, index)
    taken = {"index": index, "shard": 0, "node": before["p"], "allow_primary": True}
    put(lab, "POST", "/_cluster/reroute", {"commands": [{"cancel": taken}]})
    if not wait_until(lambda: shards(lab, index).get("p") == before["r"], READY_SECONDS, every=0.05):
        raise LabError("the replica was not promoted")
    put(lab, "POST", f"/{index}/_refresh", None)
    lacking = [id for part in parts(sorted(acknowledged)) for id in absent(lab, index, part)]
    put(lab, "DELETE", f"/{index}", None)
    return len(acknowledged), lacking


def parts(ids: list[str], size: int = 1000) -> Iterator[list[str]]:
    for at in range(0, len(ids), size):
        yield ids[at : at + size]


def absent(lab: LocalLab, index: str, ids: list[str]) -> list[str]:
    """Those that a realtime get does not find: it goes to the primary."""
    answer = put(lab, "POST", f"/{index}/_mget?_source=false", {"ids": ids})
    return [str(each["_id"]) for each in answer["docs"] if not each.get("found")]


def shards(lab: LocalLab, index: str) -> dict[str, str]:
    """Started copies: p and r → node."""
    status, rows = administer(lab, "GET", f"/_cat/shards/{index}?format=json&h=prirep,state,node")
    if status != 200:
        return {}
    return {row["prirep"]: row["node"] for row in rows if row["state"] == "STARTED"}


def put(lab: LocalLab, method: str, path: str, body: Any) -> Any:
    status, answer = administer(lab, method, path, body)
    if status != 200:
        raise LabError(f"{method} {path} answered {status}: {str(answer)[:300]}")
    return answer


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that do nothing but compute."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


def searched(version: str, minutes: float, seed: int) -> Search:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "promotion-loss.yaml"
        file.write_text(TOPOLOGY.format(version=version))
        with lab_of(str(file)) as lab, busy(BUSY):
            return cycles(lab, Search(version), minutes, random.Random(seed))


def cycles(lab: LocalLab, found: Search, minutes: float, draw: random.Random) -> Search:
    began = time.monotonic()
    while time.monotonic() < began + 60 * minutes:
        try:
            acknowledged, lacking = cycle(lab, found.cycles + found.failed, draw)
        except LabError as error:
            found.failed += 1
            print(f"cycle without a promotion: {error}", flush=True)
            continue
        found.cycles, found.acknowledged = found.cycles + 1, found.acknowledged + acknowledged
        found.seconds = round(time.monotonic() - began, 1)
        if lacking:
            found.lost.append((found.cycles, len(lacking)))
            print(f"cycle {found.cycles}: {len(lacking)} of {acknowledged} lost: {lacking[:SHOWN]}", flush=True)
        elif found.cycles % 20 == 0:
            count = f"{found.cycles} cycles, {found.acknowledged} acknowledged"
            print(f"{count}, {len(found.lost)} with a loss", flush=True)
    return found


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Pure."""
    lines = ["| OpenSearch | minutes | promotions | acknowledged by both copies | promotions with a loss | commit |"]
    lines.append("|---|---|---|---|---|---|")
    for row in rows:
        lost = f"{len(row['lost'])} ({sum(count for _, count in row['lost'])} writes)" if row["lost"] else "none"
        cells = (row["opensearch"], f"{row['seconds'] / 60:.0f}", row["cycles"], row["acknowledged"], lost)
        lines.append(f"| {' | '.join(map(str, cells))} | {row['commit']} |")
    return "\n".join(lines)


def paged(text: str, rows: Sequence[dict[str, Any]]) -> str:
    """A page with its table made anew. Pure."""
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return f"{text[:begin]}\n{table(rows)}\n{text[end:]}"


def kept() -> list[dict[str, Any]]:
    return list(json.loads(FILE.read_text())) if FILE.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opensearch", default="2.19.6")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if options.page:
        PAGE.write_text(paged(PAGE.read_text(), kept()))
        return
    found = searched(options.opensearch, options.minutes, options.seed)
    row = {**asdict(found), "seed": options.seed, "clients": CLIENTS, "bulk": BULK, "busy": BUSY, **machine()}
    print(json.dumps(row), flush=True)
    if options.record:
        FILE.write_text(json.dumps([*kept(), row], indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except ChaosError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
