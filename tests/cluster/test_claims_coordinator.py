"""What the sources claim of a node that gathers statistics of all others, asked of one that only coordinates.

As in ``test_claims_managers.py``, a test is named after the claim whose answer it shows, and asserts what is seen.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import urllib3
from claimskit import GREEN_SECONDS, INDEX, ask, create, drop, lab_of, paused
from clusterkit import ROOT

from chaos.base.waiting import wait_until
from chaos.opensearch.views import await_green
from chaos.targets.labs.local import LocalLab

pytestmark = pytest.mark.full
COORDINATOR, LATE = "a-coord", "c-data"
ELSEWHERE = "b-data"
SHIPPED_HEAP, SMALL_HEAP = "heap: 384MiB, zones: [a]", "heap: 144MiB, zones: [a]"
AT_ONCE = 64
SECONDS = 15.0
"""Less than the cluster takes to give up a node that does not answer."""
GATHERED = "/_stats?level=shards&filter_path=_shards"
OF_USERS = f"/{INDEX}-of-users/_search?size=0"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalLab]:
    """Three zones with a cluster manager and a data node each, and one node that only coordinates, with less heap than
    the shipped topology gives it: so some hundred copies are to it what hundreds of thousands are to a large one."""
    file = tmp_path_factory.mktemp("topology") / "managers.yaml"
    shipped = (ROOT / "topologies" / "managers.yaml").read_text()
    assert SHIPPED_HEAP in shipped
    file.write_text(shipped.replace(SHIPPED_HEAP, SMALL_HEAP))
    with lab_of(str(file)) as made:
        create(made, {"number_of_shards": 200, "number_of_replicas": 2}, active=1)
        elsewhere = {"number_of_shards": 1, "number_of_replicas": 1, "routing.allocation.exclude._name": LATE}
        create(made, elsewhere, name=f"{INDEX}-of-users")
        assert await_green(made, 3 * GREEN_SECONDS)[0]
        yield made
        drop(made)


def tripped(lab: LocalLab, node: str) -> int:
    """How often a node's parent breaker has tripped, by what another node tells of it. One whose breaker trips refuses
    that question too, so it is asked until it answers."""
    found: list[int] = []

    def told() -> bool:
        status, answer = ask(lab, ELSEWHERE, "GET", f"/_nodes/{node}/stats/breaker")
        assert status == 200
        found.extend(int(each["breakers"]["parent"]["tripped"]) for each in answer["nodes"].values())
        return bool(found)

    assert wait_until(told, 120, every=1), f"{node} does not answer any more"
    return found[0]


def answers(lab: LocalLab, node: str, path: str, until: float) -> Counter[str]:
    """How a node answered one question after the other: status, and for an error its type; "none" without one."""
    found: Counter[str] = Counter()
    client = lab.client(node, timeout=30)
    try:
        while time.monotonic() < until:
            try:
                status, body = client.fetch("GET", path)
            except urllib3.exceptions.HTTPError:
                found["none"] += 1
                continue
            broken = b"circuit_breaking_exception" in body
            found[f"{status} circuit_breaking_exception" if broken else str(status)] += 1
    finally:
        client.close()
    return found


def test_ad_9_a_coordinator_that_gathers_statistics_trips_its_breaker_and_refuses_users_and_other_nodes_do_not(
    lab: LocalLab, tmp_path: Path
) -> None:
    """64 calls at a time for the statistics of 600 copies, by a node with 144 MiB of heap, while one of the three nodes
    that are asked does not answer: it holds what the other two said."""
    before = {node: tripped(lab, node) for node in (COORDINATOR, ELSEWHERE)}
    with ThreadPoolExecutor(AT_ONCE + 2) as pool:
        with paused(lab, tmp_path, LATE):
            until = time.monotonic() + SECONDS
            asked = [pool.submit(answers, lab, COORDINATOR, GATHERED, until) for _ in range(AT_ONCE)]
            here, there = (pool.submit(answers, lab, node, OF_USERS, until) for node in (COORDINATOR, ELSEWHERE))
            time.sleep(SECONDS)  # for which the load is to last
        gathered: Counter[str] = sum((each.result() for each in asked), Counter())
        users, elsewhere = here.result(), there.result()
    assert wait_until(lambda: answers(lab, COORDINATOR, OF_USERS, time.monotonic() + 1).keys() == {"200"}, 120, every=1)
    grown = {node: tripped(lab, node) - count for node, count in before.items()}
    print(f"statistics: {dict(gathered)}; searches there {dict(users)}, elsewhere {dict(elsewhere)}; tripped {grown}")
    refused = "429 circuit_breaking_exception"
    assert gathered[refused] and users[refused] and grown[COORDINATOR] > 0
    assert elsewhere.keys() == {"200"} and grown[ELSEWHERE] == 0
