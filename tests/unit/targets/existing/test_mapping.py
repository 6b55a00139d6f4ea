"""An experiment's topology held against a cluster that exists, and translated to its names."""

from __future__ import annotations

from typing import Any

import pytest
from staging import NEEDED, PLACES, file, seen

from chaos.definitions import Topology
from chaos.definitions.selectors import NodeSelector, candidates, resolve_nodes
from chaos.definitions.topology import RemoteStore, Service
from chaos.targets.existing.compare import Sign
from chaos.targets.existing.mapping import mapped


def test_whoever_is_like_a_node_of_the_experiment_in_its_zone_stands_for_it() -> None:
    written = file()
    found = mapped(NEEDED, written, seen(written))
    assert found.unmet == () and found.known
    assert found.nodes == {
        **{f"{zone}-cm": f"es-m-{zone}" for zone in PLACES},
        **{f"{zone}-data": f"es-d-{zone}1" for zone in PLACES},
    }
    there = found.topology
    assert {node.name for node in there.nodes} == set(written.nodes) and there.version == "2.19.0"
    assert there.cluster_managers == there.nodes[:3] and there.node("es-d-a2").group == "data"
    assert {node.heap for node in there.nodes} == {1 << 30}
    assert found.notes == ()  # 1000ms are 1s


@pytest.mark.parametrize(
    ("text", "whom"),
    [
        ("node c-data", ("es-d-c1",)),
        ("node es-d-c2", ("es-d-c2",)),
        ("zone c", ("es-m-c", "es-d-c1", "es-d-c2")),
        ("role data and zone a", ("es-d-a1", "es-d-a2")),
        ("group data and zone b", ("es-d-b1", "es-d-b2")),
    ],
)
def test_a_selector_means_the_clusters_own_nodes_and_a_zone_all_of_them(text: str, whom: tuple[str, ...]) -> None:
    written = file()
    there = mapped(NEEDED, written, seen(written)).topology
    assert resolve_nodes(NodeSelector.parse(text), there.nodes) == whom


def test_a_node_that_is_called_so_stands_for_itself() -> None:
    written = file(c_data={"zone": "c", "roles": ["data"]})
    found = mapped(NEEDED, written, seen(written))
    assert found.nodes["c-data"] == "c-data" and found.topology.node("c-data").also == ()


def test_a_name_that_two_nodes_could_have_means_the_one_that_stands_for_the_experiment_s() -> None:
    written = file(a_data={"zone": "c", "roles": ["data"]})
    found = mapped(NEEDED, written, seen(written))
    assert found.nodes["a-data"] == "es-d-a1" and found.topology.node("a-data").zone == "c"
    for text, whom in (("node a-data", ("es-d-a1",)), ("node a-data and zone c", ()), ("node es-d-a1", ("es-d-a1",))):
        assert candidates(NodeSelector.parse(text), found.topology.nodes) == whom


@pytest.mark.parametrize(
    ("members", "changes", "row", "sign", "says"),
    [
        ({"es_m_c": {}}, {}, "nodes", "differs", "1 more with the roles cluster_manager and no data in zone c"),
        (
            {"es_m_c": {"zone": "c", "roles": ["cluster_manager", "data"]}},
            {},
            "nodes",
            "differs",
            "cluster_manager and no data in zone c",
        ),
        ({}, {"awareness": ()}, "awareness", "differs", "there is none"),
        ({}, {"awareness": None, "unread": {"awareness": "403"}}, "awareness", "unknown", "403"),
        ({}, {"forced": ()}, "forced awareness", "differs", "it is not forced"),
        ({}, {"forced": ("eu-west-1a", "eu-west-1b")}, "forced awareness", "differs", "it is a, b"),
        ({}, {"forced": None}, "forced awareness", "unknown", "not read"),
        ({}, {"weights": {}}, "weights", "differs", "there are none"),
        ({}, {"weights": {"eu-west-1a": 1, "eu-west-1b": 0, "eu-west-1c": 1}}, "weights", "differs", "a 1, b 0, c 1"),
        ({}, {"weights": None, "unread": {"weights": "403"}}, "weights", "unknown", "403"),
    ],
)
def test_what_is_lacking_has_its_row(
    members: dict[str, Any], changes: dict[str, Any], row: str, sign: str, says: str
) -> None:
    written = file(**members)
    found = mapped(NEEDED, written, seen(written, **changes))
    (wrong,) = found.unmet
    assert (wrong.what, wrong.sign) == (row, Sign(sign)) and says in wrong.says and wrong.remedy
    assert found.known is (row != "nodes")


def test_other_zones_or_too_few_data_nodes_are_no_place_for_it() -> None:
    written = file()
    two = NEEDED.model_copy(update={"zones": ("a", "b")})
    assert [row.what for row in mapped(two, written, seen(written)).unmet] == ["zones"]
    copies = NEEDED.settings.model_copy(update={"index": {"number_of_shards": 1, "number_of_replicas": 9}})
    many = mapped(NEEDED.model_copy(update={"settings": copies}), written, seen(written))
    assert [row.what for row in many.unmet] == ["copies"] and "there are 6 data nodes" in many.unmet[0].says


def test_a_standby_of_which_the_experiment_knows_nothing_is_not_as_it_needs() -> None:
    plain = NEEDED.model_copy(update={"weights": None, "standby": None})
    written = file()
    (wrong,) = mapped(plain, written, seen(written)).unmet
    assert wrong.what == "weights" and "knows no standby" in wrong.says
    for even in ({}, dict.fromkeys(PLACES.values(), 1)):
        assert mapped(plain, written, seen(written, weights=even)).unmet == ()


def test_an_experiment_that_upgrades_nodes_is_for_labs() -> None:
    written = file()
    found = mapped(NEEDED.model_copy(update={"version": "2.19.6", "upgrade": "3.8.0"}), written, seen(written))
    assert [row.what for row in found.unmet] == ["versions"]


def test_an_experiment_that_needs_a_service_is_for_labs() -> None:
    store = {"services": {"store": Service(kind="s3")}, "remote_store": RemoteStore(service="store")}
    written = file()
    found = mapped(NEEDED.model_copy(update=store), written, seen(written))
    (row,) = found.unmet
    assert row.what == "services" and row.says.startswith("the experiment needs store beside its nodes")
    assert found.topology.services == {} and found.topology.remote_store is None


def test_settings_that_differ_are_told_and_forbid_nothing() -> None:
    written = file()
    found = mapped(NEEDED, written, seen(written, settings={}))
    assert found.unmet == () and "what the cluster has is not known" in found.notes[0]
    slow = {"discovery.find_peers_interval_during_decommission": "120s"}
    found = mapped(NEEDED, written, seen(written, settings=slow))
    assert found.notes == (
        "3az-standby sets discovery.find_peers_interval_during_decommission to 1s, and the cluster has 120s",
    )


def test_another_name_of_a_node_is_no_part_of_a_topology_without_any() -> None:
    """Digests of experiments stay what they were."""
    assert all("also" not in node for node in NEEDED.to_json()["nodes"])
    written = file()
    there = mapped(NEEDED, written, seen(written)).topology
    assert Topology.from_json(there.to_json()) == there
