"""A cluster with a standby zone and questions to it: for the tests of weights, decommission and absent managers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chaos.opensearch import administration
from chaos.opensearch.requests import weights_path
from chaos.opensearch.views import administer, await_elected, await_green
from chaos.targets.labs.local import LocalLab

INDEX = "standby-test"
DOCUMENTS = 30
WEIGHED_IN = "/_cluster/health?local=true&ensure_node_weighed_in=true"
COORDINATION = "/_cluster/state/metadata?filter_path=metadata.cluster_coordination"


@contextmanager
def stocked(lab: LocalLab) -> Iterator[None]:
    """With an index of which every shard has its three copies; whatever is done to zones and managers is taken back."""
    assert await_green(lab, 60)[0]
    try:
        settings = {"number_of_shards": 3, "number_of_replicas": 2}
        assert administer(lab, "PUT", f"/{INDEX}", {"settings": settings})[0] == 200
        for number in range(DOCUMENTS):
            assert administer(lab, "PUT", f"/{INDEX}/_doc/{number}", {"n": number})[0] == 201
        assert administer(lab, "POST", f"/{INDEX}/_refresh")[0] == 200
        assert await_green(lab, 60)[0]
        yield
    finally:
        _put_back(lab)


def _put_back(lab: LocalLab) -> None:
    """Every node, every setting, the zones and their weights as the topology says, and the index gone."""
    for node in lab.topology.nodes:
        lab.start_node(node.name)
    await_elected(lab, 120)
    administration.recommission(lab, "whichever is out")
    wanted = lab.topology.settings.cluster
    if extra := dict.fromkeys(key for key in administration.explicit_settings(lab, None) or {} if key not in wanted):
        assert administer(lab, "PUT", "/_cluster/settings", {"persistent": extra})[0] == 200
    administration.set_weights(lab, lab.topology.weights)
    assert administer(lab, "DELETE", f"/{INDEX}*")[0] == 200
    assert await_green(lab, 120)[0]


def put_weights(lab: LocalLab, version: int, **weights: int) -> int:
    body = {"_version": version, "weights": {zone: str(weight) for zone, weight in weights.items()}}
    return administer(lab, "PUT", weights_path(), body)[0]


def set_cluster(lab: LocalLab, settings: dict[str, Any]) -> None:
    status, answer = administer(lab, "PUT", "/_cluster/settings", {"persistent": settings})
    assert status == 200, answer


def queries(lab: LocalLab) -> dict[str, int]:
    """Zone → shard queries that its nodes have executed."""
    _, stats = administer(lab, "GET", "/_nodes/stats/indices/search?filter_path=nodes.*.name,nodes.*.indices.search")
    zones = {node.name: node.zone for node in lab.topology.nodes}
    found = dict.fromkeys(lab.topology.zones, 0)
    for node in stats["nodes"].values():
        found[zones[node["name"]]] += node["indices"]["search"]["query_total"]
    return found


def search(lab: LocalLab, times: int = 40) -> dict[str, int]:
    """Zone → shard queries of so many searches, all of which must be answered in full."""
    before = queries(lab)
    for _ in range(times):
        status, answer = administer(lab, "POST", f"/{INDEX}/_search", {"size": 0})
        assert status == 200 and answer["_shards"]["failed"] == 0
    after = queries(lab)
    return {zone: after[zone] - before[zone] for zone in after}


def held(lab: LocalLab) -> int:
    """How many documents a search finds."""
    assert administer(lab, "POST", f"/{INDEX}/_refresh")[0] == 200
    status, answer = administer(lab, "POST", f"/{INDEX}/_search", {"size": 0, "track_total_hits": True})
    assert status == 200 and answer["_shards"]["failed"] == 0, answer
    return answer["hits"]["total"]["value"]


def votes(lab: LocalLab) -> int:
    """How many cluster managers have one."""
    _, answer = administer(lab, "GET", COORDINATION)
    return len(answer["metadata"]["cluster_coordination"]["last_committed_config"])


def led(lab: LocalLab, node: str) -> bool:
    """Whether a node knows an elected cluster manager."""
    return lab.client(node).request("GET", "/_cluster/health?local=true")[1]["discovered_cluster_manager"]


def members(lab: LocalLab) -> int:
    return administer(lab, "GET", "/_cluster/health")[1]["number_of_nodes"]


def placed(lab: LocalLab) -> set[tuple[str, ...]]:
    """Where every copy is, which one is the primary, and in what state."""
    rows = administer(lab, "GET", "/_cat/shards?format=json&h=index,shard,prirep,state,node")[1]
    return {tuple(row.values()) for row in rows}
