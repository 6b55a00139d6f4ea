"""What Multi-AZ with standby is made of, asked of a real cluster: weights, zonal decommission, and their refusals.

Those of OpenSearch's own tests of weighted routing and awareness decommission that concern the failure of a zone, with
real processes and sockets; docs/standby.md says which.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.lab.local import LocalLab
from chaos.lab.processes import wait_until
from chaos.observe import administration
from chaos.observe.administration import DECOMMISSION, WEIGHTS
from chaos.observe.cluster import administer, await_green, elected

pytestmark = pytest.mark.full
INDEX = "standby-test"
WEIGHED_IN = "/_cluster/health?local=true&ensure_node_weighed_in=true"


@pytest.fixture
def lab(playground: LocalLab) -> Iterator[LocalLab]:
    """Every shard has its three copies, and a document in each."""
    assert await_green(playground, 60)[0]
    settings = {"number_of_shards": 3, "number_of_replicas": 2}
    assert administer(playground, "PUT", f"/{INDEX}", {"settings": settings})[0] == 200
    for number in range(30):
        assert administer(playground, "PUT", f"/{INDEX}/_doc/{number}", {"n": number})[0] == 201
    assert administer(playground, "POST", f"/{INDEX}/_refresh")[0] == 200
    assert await_green(playground, 60)[0]
    try:
        yield playground
    finally:
        administration.recommission(playground, "c")
        administration.set_weights(playground, {"a": 1, "b": 1, "c": 0})
        administer(playground, "DELETE", f"/{INDEX}")
        assert await_green(playground, 120)[0]


def put_weights(lab: LocalLab, version: int, **weights: int) -> int:
    body = {"_version": version, "weights": {zone: str(weight) for zone, weight in weights.items()}}
    return administer(lab, "PUT", WEIGHTS, body)[0]


def queries(lab: LocalLab) -> dict[str, int]:
    """Zone → shard queries that its nodes have executed."""
    _, stats = administer(lab, "GET", "/_nodes/stats/indices/search?filter_path=nodes.*.name,nodes.*.indices.search")
    zones = {node.name: node.zone for node in lab.topology.nodes}
    found = dict.fromkeys(lab.topology.zones, 0)
    for node in stats["nodes"].values():
        found[zones[node["name"]]] += node["indices"]["search"]["query_total"]
    return found


def search(lab: LocalLab, times: int = 40) -> dict[str, int]:
    before = queries(lab)
    for _ in range(times):
        status, answer = administer(lab, "POST", f"/{INDEX}/_search", {"size": 0})
        assert status == 200 and answer["_shards"]["failed"] == 0
    after = queries(lab)
    return {zone: after[zone] - before[zone] for zone in after}


def test_the_standby_zone_serves_no_search_until_weights_change_and_versions_are_kept(lab: LocalLab) -> None:
    _, version = administration.weights(lab)
    served = search(lab)
    assert served["c"] == 0 and served["a"] > 0 and served["b"] > 0
    assert put_weights(lab, version, a=1, b=0, c=0) == 400  # only one of three may be 0
    assert put_weights(lab, version - 1, a=1, b=0, c=1) == 409
    assert put_weights(lab, version, a=1, b=0) == 409  # every zone must be named
    assert administration.weights(lab)[1] == version
    assert put_weights(lab, version, a=1, b=0, c=1) == 200
    assert administration.weights(lab) == ({"a": 1, "b": 0, "c": 1}, version + 1)
    served = search(lab)
    assert served["b"] == 0 and served["a"] > 0 and served["c"] > 0
    for node in ("a-data", "b-data", "c-data"):
        assert lab.client(node).request("GET", WEIGHED_IN)[0] == (421 if node == "b-data" else 200)


def test_what_a_decommission_refuses(lab: LocalLab) -> None:
    refused = administer(lab, "PUT", f"{DECOMMISSION}/zone/a?no_delay=true")
    assert refused[0] == 400 and "weight" in str(refused[1])
    assert administer(lab, "PUT", f"{DECOMMISSION}/rack/a?no_delay=true")[0] == 400
    administration.decommission(lab, "c", no_delay=True)
    for zone in ("b", "c"):  # a second one, and the same again
        assert administer(lab, "PUT", f"{DECOMMISSION}/zone/{zone}?no_delay=true")[0] == 400
    _, version = administration.weights(lab)
    assert put_weights(lab, version, a=1, b=0, c=1) == 409  # its weight stays 0


def votes(lab: LocalLab) -> int:
    path = "/_cluster/state/metadata?filter_path=metadata.cluster_coordination.last_committed_config"
    return len(administer(lab, "GET", path)[1]["metadata"]["cluster_coordination"]["last_committed_config"])


def test_the_zone_of_the_elected_manager_goes_and_comes_back(lab: LocalLab) -> None:
    """The manager abdicates; one vote is left; a restarted node is refused; everything is back afterwards."""
    leader = elected(lab)
    assert leader is not None and votes(lab) == 3
    zone = lab.node(leader).zone
    others = [each for each in lab.topology.zones if each != zone]
    _, version = administration.weights(lab)
    assert put_weights(lab, version, **{zone: 0, others[0]: 1, others[1]: 1}) in (200, 409)
    administration.set_weights(lab, {zone: 0, others[0]: 1, others[1]: 1})
    administration.decommission(lab, zone, no_delay=True)
    assert elected(lab) not in (None, leader) and votes(lab) == 1
    data = f"{zone}-data"
    # 421 (its weight is 0) until it has asked to join again and knows that it is decommissioned
    assert wait_until(lambda: lab.client(data).request("GET", WEIGHED_IN)[0] == 424, 60)
    lab.stop_node(data)
    lab.start_node(data)
    assert wait_until(lambda: "decommissioned" in lab.log(data).read_text(errors="replace")[-20000:], 60)
    assert administer(lab, "GET", "/_cluster/health")[1]["number_of_nodes"] == 4
    assert sum(search(lab, 10).values()) == 30
    administration.recommission(lab, zone)
    assert await_green(lab, 120)[0]
    assert administer(lab, "GET", "/_cluster/health")[1]["number_of_nodes"] == 6
    assert wait_until(lambda: votes(lab) == 3, 30)
    assert (
        administer(lab, "POST", f"/{INDEX}/_search", {"size": 0, "track_total_hits": True})[1]["hits"]["total"]["value"]
        == 30
    )
