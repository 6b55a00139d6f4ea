"""How long admission control does nothing on a node that just came back.

On one real lab with stock windows: admission control is enforced and its limit of processor use for searches is 0,
which refuses each one (as the sources have it) as soon as there is a figure. A data node is killed and started again.
From then on it alone is searched, twice a second, until it refuses one; then one that was there all along is. Times are
those of the node's own process (``jvm.uptime``).

Prints, and with ``--record`` writes ``reports/results/admission-window.json``; ``python benchmarks/asked.py`` makes the
table of docs/protections.md of it. Some three minutes. Needs root.

    python benchmarks/admission_window.py [--record]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import suppress
from typing import Any

import urllib3
from admin_cost import RESULTS, lab_of, machine

from chaos.base.errors import ChaosError, LabError
from chaos.base.waiting import wait_until
from chaos.load.said import told
from chaos.opensearch.administration import create_index
from chaos.opensearch.protections import OF_METRIC
from chaos.opensearch.rest import UNREADABLE
from chaos.opensearch.views import administer, await_green
from chaos.targets.labs.local import LocalLab

FILE = RESULTS / "admission-window.json"
TOPOLOGY, INDEX = "1cm-3data", "canary"
ENFORCED = {"admission_control.transport.mode": "enforced", "admission_control.search.cpu_usage.limit": 0}
EVERY_SECONDS, GIVEN_UP_SECONDS = 0.5, 200.0
COUNTS = "/_nodes/_local/stats/jvm,admission_control"


def searched(lab: LocalLab, through: str, node: str) -> tuple[int, Any]:
    """An answer of one node alone, asked through another."""
    client = lab.client(through, timeout=10.0)
    try:
        return client.request("GET", f"/{INDEX}/_search?preference=_only_nodes:{node}&size=0")
    finally:
        client.close()


def refuses(answer: tuple[int, Any]) -> bool:
    error = OF_METRIC["admission_control.rejected"].error
    assert error is not None
    return any(error.told(str(answer[0]), type_, reason) for type_, reason in told(answer[1]))


def uptime(lab: LocalLab, node: str) -> tuple[float, int]:
    """Seconds since its process began, and how many searches it has refused since."""
    client = lab.client(node, timeout=10.0)
    try:
        (own,) = client.request("GET", COUNTS)[1]["nodes"].values()
    finally:
        client.close()
    every = (own.get("admission_control") or {}).values()
    counts = [each["transport"]["rejection_count"].get("search", 0) for each in every]
    return own["jvm"]["uptime_in_millis"] / 1000, sum(counts)


def is_back(lab: LocalLab, through: str, node: str) -> bool:
    """Whether it answers, and a search of it alone is answered or refused: its copy is there."""
    with suppress(urllib3.exceptions.HTTPError, *UNREADABLE):
        return uptime(lab, node)[0] > 0 and searched(lab, through, node)[0] in (200, 429)
    return False


def until_refused(lab: LocalLab, through: str, node: str) -> dict[str, Any]:
    """Searches of one node until it refuses one. Raises LabError where it never does."""
    well, first = 0, None
    until = time.monotonic() + GIVEN_UP_SECONDS
    while time.monotonic() < until:
        answer = searched(lab, through, node)
        seconds, count = uptime(lab, node)
        first = seconds if first is None else first
        if refuses(answer):
            return {
                "first_search_s": round(first, 1),
                "searches": well,
                "refused_s": round(seconds, 1),
                "counted": count,
            }
        if answer[0] != 200:
            raise LabError(f"a search of {node} answered {answer[0]}: {str(answer[1])[:300]}")
        well += 1
        time.sleep(EVERY_SECONDS)
    raise LabError(f"{node} refused no search in {GIVEN_UP_SECONDS:g} s")


def measured(lab: LocalLab) -> dict[str, Any]:
    nodes = [node.name for node in lab.topology.data_nodes]
    through, beside, node = nodes
    create_index(lab, INDEX, {"number_of_shards": 1, "number_of_replicas": 2})
    if not await_green(lab, 60)[0]:
        raise LabError("the index has no copy on each node")
    status, answer = administer(lab, "PUT", "/_cluster/settings", {"persistent": ENFORCED})
    if status != 200:
        raise LabError(f"admission control was not set: {status} {str(answer)[:300]}")
    lab.kill_node(node)
    lab.start_node(node)
    if not wait_until(lambda: is_back(lab, through, node), 90):
        raise LabError(f"{node} did not come back")
    return {"came_back": until_refused(lab, through, node), "beside": until_refused(lab, through, beside)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    with lab_of(TOPOLOGY) as lab:
        found = measured(lab)
        print(json.dumps(found), flush=True)
        if options.record:
            head = {"topology": TOPOLOGY, "opensearch": ", ".join(lab.topology.versions), **machine()}
            FILE.write_text(json.dumps({**head, **found}, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except ChaosError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
