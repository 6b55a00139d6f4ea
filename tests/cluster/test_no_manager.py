"""Managers gone, all data nodes there: what becomes of weights, what each ``no_cluster_manager_block`` lets through.

Facts of OpenSearch 3.8.0 with real processes, asked of a data node.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from standbykit import DOCUMENTS, INDEX, WEIGHED_IN, held, led, put_weights, search, set_cluster, stocked

from chaos.opensearch import administration
from chaos.opensearch.requests import weights_path
from chaos.opensearch.views import administer, await_elected, await_green, elected
from chaos.programs.failover.cluster import WEIGHTS_SECONDS
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

pytestmark = pytest.mark.full
DATA_NODES = ("a-data", "b-data", "c-data")


@pytest.fixture
def lab(playground: LocalLab) -> Iterator[LocalLab]:
    with stocked(playground):
        yield playground


def lose_managers(lab: LocalLab) -> list[str]:
    """Kill the elected one and one more, until every data node knows it; which."""
    leader = elected(lab)
    assert leader is not None
    others = [node.name for node in lab.topology.cluster_managers if node.name != leader]
    killed = [leader, others[0]]
    for name in killed:
        lab.kill_node(name)
    assert wait_until(lambda: not any(led(lab, node) for node in DATA_NODES), 30)
    return killed


def test_weights_outlive_a_restart_of_everything(lab: LocalLab) -> None:
    _, version = administration.weights(lab)
    assert put_weights(lab, version, a=1, b=0, c=1) == 200
    before = administration.weights(lab)
    assert before == ({"a": 1, "b": 0, "c": 1}, version + 1)
    names = [node.name for node in lab.topology.nodes]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lab.stop_node, names))
    assert [lab.process_state(name) for name in names] == [None] * len(names)
    for name in names:
        lab.start_node(name)
    await_elected(lab, 120)
    assert await_green(lab, 120)[0]
    assert administration.weights(lab) == before
    assert held(lab) == DOCUMENTS
    served = search(lab)
    assert served["b"] == 0 and served["a"] > 0 and served["c"] > 0


def test_weights_are_read_without_a_manager_and_not_changed(lab: LocalLab) -> None:
    weights, version = administration.weights(lab)
    assert weights == {"a": 1, "b": 1, "c": 0}
    killed = lose_managers(lab)
    for node in DATA_NODES:
        status, answer = lab.client(node).request("GET", f"{weights_path()}?local=true")
        assert status == 200 and answer["_version"] == version, answer
        assert answer["weights"] == {"a": "1.0", "b": "1.0", "c": "0.0"}
        assert answer["discovered_cluster_manager"] is False
        assert lab.client(node).request("GET", WEIGHED_IN)[0] == 503
    body = {"_version": version, "weights": {"a": "1", "b": "0", "c": "1"}}
    began = time.monotonic()
    status, answer = lab.client("a-data", timeout=60.0).request("PUT", weights_path(), body=body)
    assert status == 503 and "cluster_manager_not_discovered_exception" in str(answer), answer
    assert time.monotonic() - began < WEIGHTS_SECONDS
    for name in killed:
        lab.start_node(name)
    await_elected(lab, 60)
    assert await_green(lab, 120)[0]
    assert administration.weights(lab) == (weights, version)


ASKED = {
    "search": ("POST", f"/{INDEX}/_search", {"size": 0}),
    "get": ("GET", f"/{INDEX}/_doc/1", None),
    "index": ("PUT", f"/{INDEX}/_doc/during?timeout=2s", {"n": 1}),
    "index, new field": ("PUT", f"/{INDEX}/_doc/mapped?timeout=2s", {"unheard": 1}),
    "create index": ("PUT", f"/{INDEX}-more?cluster_manager_timeout=2s", None),
}
BLOCKED = "[SERVICE_UNAVAILABLE/2/no cluster-manager]"
NOBODY = "cluster_manager_not_discovered_exception"
LETS = {
    "metadata_write": {"search": (200, ""), "get": (200, ""), "index": (201, "")},
    "write": {"search": (200, ""), "get": (200, ""), "index": (503, BLOCKED)},
    "all": {"search": (503, BLOCKED), "get": (503, BLOCKED), "index": (503, BLOCKED)},
}


def documents(lab: LocalLab, node: str) -> int:
    """How many documents the copies hold that a node has open."""
    path = "/_nodes/_local/stats/indices/docs?filter_path=nodes.*.indices.docs.count"
    (stats,) = lab.client(node).request("GET", path)[1]["nodes"].values()
    return stats["indices"]["docs"]["count"]


@pytest.mark.parametrize("block", LETS)
def test_what_a_block_lets_through(lab: LocalLab, block: str) -> None:
    set_cluster(lab, {"cluster.no_cluster_manager_block": block, "indices.mapping.dynamic_timeout": "2s"})
    assert [documents(lab, node) for node in DATA_NODES] == [DOCUMENTS] * 3
    killed = lose_managers(lab)
    client = lab.client("b-data", timeout=60.0)
    answers = {what: client.request(method, path, body=body) for what, (method, path, body) in ASKED.items()}
    for what, (status, says) in LETS[block].items():
        assert answers[what][0] == status and says in str(answers[what][1]), (what, answers[what])
    assert answers["create index"][0] == 503 and NOBODY in str(answers["create index"][1]), answers["create index"]
    assert answers["index, new field"][0] == 503, answers["index, new field"]
    if block != "all":
        assert answers["search"][1]["_shards"]["failed"] == 0
        assert min(documents(lab, node) for node in DATA_NODES) >= DOCUMENTS
    else:  # every copy is closed, to be recovered from its disk when there is a manager again
        assert wait_until(lambda: [documents(lab, node) for node in DATA_NODES] == [0] * 3, 30)
    for name in killed:
        lab.start_node(name)
    await_elected(lab, 60)
    assert await_green(lab, 120)[0]
    assert held(lab) == DOCUMENTS + (block == "metadata_write")


def recoveries(lab: LocalLab) -> set[tuple[int, str, int]]:
    """Of every copy: its shard, its node, and when it was last recovered."""
    shards = administer(lab, "GET", f"/{INDEX}/_recovery")[1][INDEX]["shards"]
    return {(each["id"], each["target"]["name"], each["start_time_in_millis"]) for each in shards}


@pytest.mark.parametrize("block", ["metadata_write", "all"])
def test_an_election_closes_every_copy_where_the_block_is_all(lab: LocalLab, block: str) -> None:
    set_cluster(lab, {"cluster.no_cluster_manager_block": block})
    before, leader = recoveries(lab), elected(lab)
    assert leader is not None and len(before) == 9
    lab.kill_node(leader)
    assert wait_until(lambda: elected(lab) not in (None, leader), 60, every=0.1)
    lab.start_node(leader)
    assert await_green(lab, 120)[0]
    assert held(lab) == DOCUMENTS
    assert recoveries(lab) & before == (before if block == "metadata_write" else set())
