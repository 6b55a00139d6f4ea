# ruff: noqa: E501  (exact messages are easier to compare in one line)
"""Loading topologies: groups become nodes, and what the lab or OpenSearch would refuse is refused here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.base.errors import InvalidInput
from chaos.definitions import Topology, load_topology

EXAMPLE = """\
apiVersion: opensearch-chaos/v1
kind: topology
name: t
opensearch: 3.8.0
zones: [a, b, c]
standby: c
nodes:
  data: {roles: [data, ingest],    per_zone: 2, heap: 384MiB}
  cm:   {roles: [cluster_manager], heap: 256MiB, settings: {node.attr.rack: r1}}
settings:
  node:
    cluster.routing.allocation.awareness.attributes: zone
    cluster.routing.allocation.awareness.force.zone.values: [a, b, c]
  cluster: {cluster.publish.timeout: 3s}
  index: {index.number_of_shards: 3, number_of_replicas: 2}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(*changes: tuple[str, str]) -> Topology:
    text = EXAMPLE
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    Path("t.yaml").write_text(text)
    return load_topology("t.yaml")


def test_what_a_file_means() -> None:
    topology = load()
    assert (topology.name, topology.version, topology.profile) == ("t", "3.8.0", "fast")
    assert [node.name for node in topology.nodes] == [
        *("a-cm", "b-cm", "c-cm"),
        *("a-data-1", "a-data-2", "b-data-1", "b-data-2", "c-data-1", "c-data-2"),
    ]
    manager, data = topology.node("b-cm"), topology.node("c-data-2")
    assert (manager.zone, manager.group, manager.roles, manager.heap) == (
        "b",
        "cm",
        ("cluster_manager",),
        2**28,
    )
    assert manager.settings == {"node.attr.rack": "r1"}
    assert manager.is_cluster_manager and not manager.is_data
    assert data.is_data and not data.is_cluster_manager
    assert (topology.standby, topology.weights) == ("c", {"a": 1, "b": 1, "c": 0})
    assert topology.active_zones == ("a", "b")
    assert topology.client_hosts == ("client-a", "client-b", "client-c")
    assert (topology.shards, topology.replicas) == (3, 2)
    assert topology.settings.index == {"number_of_shards": 3, "number_of_replicas": 2}
    assert topology.settings.cluster == {"cluster.publish.timeout": "3s"}
    assert topology.awareness() == {"a", "b", "c"}
    with pytest.raises(KeyError):
        topology.node("d-data")


def test_the_normal_form_is_json_and_reads_back() -> None:
    topology = load()
    assert Topology.from_json(json.loads(json.dumps(topology.to_json()))) == topology


def test_forced_values_may_be_written_with_commas() -> None:
    assert load(("[a, b, c]\n  cluster", '"a, b,c"\n  cluster')).awareness() == {"a", "b", "c"}


def test_without_weights_all_zones_are_active() -> None:
    topology = load(("standby: c\n", ""))
    assert topology.weights is None
    assert topology.active_zones == ("a", "b", "c")


def test_a_group_in_some_zones_only() -> None:
    topology = load(("heap: 256MiB,", "heap: 256MiB, zones: [b],"))
    assert [node.name for node in topology.cluster_managers] == ["b-cm"]


def test_a_group_may_have_a_version_of_its_own_and_all_may_be_upgraded() -> None:
    topology = load(
        ("opensearch: 3.8.0\n", "opensearch: 3.8.0\nupgrade: 3.10.1\n"),
        ("heap: 384MiB", "heap: 384MiB, opensearch: 3.9.0"),
    )
    assert topology.versions == ("3.8.0", "3.9.0", "3.10.1")
    assert topology.node("a-cm").version is None and topology.node("a-data-1").version == "3.9.0"
    assert Topology.from_json(topology.to_json()) == topology
    assert load().versions == ("3.8.0",)


def test_security_is_on_off_or_on_with_something_planted() -> None:
    for says, security, expired in (
        ("true", True, ()),
        ("false", False, ()),
        ("{expired: [c-data-2, a-cm]}", True, ("c-data-2", "a-cm")),
    ):
        topology = load(("standby: c\n", f"standby: c\nsecurity: {says}\n"))
        assert (topology.security, topology.expired) == (security, expired)
        assert Topology.from_json(json.loads(json.dumps(topology.to_json()))) == topology


WRONG = {
    "unknown key": ([("standby:", "stanby:")], ['6:1: unknown key "stanby": did you mean "standby"?']),
    "heap without unit": (
        [("heap: 384MiB", "heap: 384")],
        ["8:55: heap: 384 has no unit: a size is a number and B, KiB, MiB or GiB, for example 256MiB or 1GiB"],
    ),
    "tiny heap": (
        [("heap: 384MiB", "heap: 384KiB")],
        ["8:55: heap: a heap of 384KiB is too small to start a node: expected 64MiB or more"],
    ),
    "role": (
        [("[data, ingest]", "[data, master]")],
        ["8:24: roles: expected cluster_manager, data, ingest, remote_cluster_client, search or warm, got 'master'"],
    ),
    "profile": (
        [("zones: [a, b, c]\n", "zones: [a, b, c]\nprofile: quick\n")],
        ["6:10: profile: expected fast or faithful, got 'quick'"],
    ),
    "version that is a number": (
        [("3.8.0", "3.8")],
        ["4:13: opensearch: 3.8 is a number: expected a full version such as 3.8.0"],
    ),
    "upgrade to what it is": (
        [("opensearch: 3.8.0\n", "opensearch: 3.8.0\nupgrade: 3.8.0\n")],
        ["4:13: 3.8.0 cannot be upgraded to 3.8.0: expected an earlier version"],
    ),
    "version": ([("3.8.0", "latest")], ["4:13: opensearch: expected a full version such as 3.8.0, got 'latest'"]),
    "no nodes of that many": (
        [("per_zone: 2", "per_zone: 0")],
        ["8:46: per_zone: expected 1 or more, got 0"],
    ),
    "nested settings": (
        [("{cluster.publish.timeout: 3s}", "{cluster: {publish.timeout: 3s}}")],
        ["14:22: cluster: expected text, a number or a list: a setting's name is written with dots"],
    ),
    "list in a list": (
        [("{cluster.publish.timeout: 3s}", "{x.y: [[1]]}")],
        ["14:18: x.y: expected a list of texts or numbers"],
    ),
    "standby and weights": (
        [("standby: c", "standby: c\nweights: {a: 1, b: 1, c: 0}")],
        ["1:1: standby and weights say the same thing twice: expected one of them"],
    ),
    "zone twice": ([("zones: [a, b, c]", "zones: [a, b, c, a]")], ["5:18: zone a is named twice: expected each once"]),
    "unknown standby": ([("standby: c", "standby: d")], ["6:10: zone d is not in topology t: expected one of a, b, c"]),
    "unknown zone of a group": (
        [("heap: 256MiB,", "heap: 256MiB, zones: [a, d],")],
        ["9:61: zone d is not in topology t: expected one of a, b, c"],
    ),
    "unknown zone of weights": (
        [("standby: c", "weights: {a: 1, b: 1, c: 1, d: 0}")],
        ["6:29: zone d is not in topology t: expected one of a, b, c"],
    ),
    "negative weight": (
        [("standby: c", "weights: {a: 1, b: 1, c: -1}")],
        ["6:26: weight -1 of zone c: expected 0 or more"],
    ),
    "zeros": (
        [("standby: c", "weights: {a: 1, b: 0, c: 0}")],
        ["6:10: 2 of 3 zones have weight 0 (b, c): OpenSearch allows at most 1"],
    ),
    "weight missing": (
        [("standby: c", "weights: {a: 1, b: 0}")],
        [
            "6:10: no weight for zone c: expected one for every zone that has data nodes or is a value of forced awareness, as OpenSearch wants it"
        ],
    ),
    "weights without awareness": (
        [("awareness.attributes: zone", "awareness.attributes: rack")],
        [
            "6:10: weights need allocation awareness of the zone: expected cluster.routing.allocation.awareness.attributes: zone in the settings of topology t"
        ],
    ),
    "security that is neither on nor off": (
        [("standby: c\n", "standby: c\nsecurity: maybe\n")],
        ["7:11: security: cannot read 'maybe': expected true, false or a mapping such as {expired: [c-data]}"],
    ),
    "nothing that expires": (
        [("standby: c\n", "standby: c\nsecurity: {expired: []}\n")],
        ["7:21: expired: expected at least 1, got nothing"],
    ),
    "security with nothing planted": (
        [("standby: c\n", "standby: c\nsecurity: {}\n")],
        ['7:11: "expired" is missing: expected nodes whose certificate for clients has expired when the lab is up, for example [c-data]'],
    ),
    "something else that expires": (
        [("standby: c\n", "standby: c\nsecurity: {expird: [c-data-1]}\n")],
        ['7:11: "expired" is missing: expected nodes whose certificate for clients has expired when the lab is up, for example [c-data]', '7:12: unknown key "expird": did you mean "expired"?'],
    ),
    "an unknown node that expires, and one twice": (
        [("standby: c\n", "standby: c\nsecurity: {expired: [c-data, a-cm, a-cm]}\n")],
        ['7:22: node c-data is not in topology t: did you mean "c-data-2"?', "7:36: node a-cm is named twice: expected each once"],
    ),
    "no cluster manager": (
        [("[cluster_manager]", "[ingest]")],
        ["7:1: no node has the role cluster_manager: expected at least one"],
    ),
    "no data": (
        [("[data, ingest]", "[ingest]")],
        ["7:1: no node has the role data: expected at least one"],
    ),
    "more copies than data nodes": (
        [("number_of_replicas: 2", "number_of_replicas: 6")],
        ["15:58: number_of_replicas 6 makes 7 copies of a shard, and there are 6 data nodes: expected at most 5"],
    ),
    "more copies than forced awareness lets in": (
        [("values: [a, b, c]", "values: [a, b, c, d, e]"), ("standby: c\n", ""), ("number_of_replicas: 2", "number_of_replicas: 3")],
        [
            "14:58: number_of_replicas 3 makes 4 copies of a shard, of which forced awareness allows 1 per zone, so only 3 find a place: expected at most 2"
        ],
    ),
    "replicas that are no number": (
        [("number_of_replicas: 2", "number_of_replicas: all")],
        ["15:58: number_of_replicas: expected a whole number from 0, got 'all'"],
    ),
    "shards": (
        [("index.number_of_shards: 3", "index.number_of_shards: 0")],
        ["15:35: index.number_of_shards: expected a whole number from 1, got 0"],
    ),
    "a setting under both of its names": (
        [("number_of_replicas: 2", "number_of_replicas: 2, refresh_interval: 1s, index.refresh_interval: 30s")],
        ["15:83: refresh_interval and index.refresh_interval are one setting: expected it once"],
    ),
    "what the lab sets": (
        [("{node.attr.rack: r1}", "{node.attr.zone: a}")],
        ["9:61: node.attr.zone is set by the lab: expected it in no definition"],
    ),
    "a static setting put dynamically": (
        [("cluster.publish.timeout: 3s", "discovery.find_peers_interval: 3s")],
        [
            "14:13: discovery.find_peers_interval is a static setting, which OpenSearch takes from opensearch.yml only: expected it under settings.node"
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong(case: str) -> None:
    changes, expected = WRONG[case]
    with pytest.raises(InvalidInput) as caught:
        load(*changes)
    assert str(caught.value).splitlines() == [f"t.yaml:{line}" for line in expected]


def test_two_nodes_cannot_share_a_name() -> None:
    with pytest.raises(InvalidInput) as caught:
        load(("  cm:   {", "  data-1: {"))
    assert str(caught.value).splitlines() == [
        "t.yaml:8:3: the name a-data-1 would mean this and a node of group data-1: expected another group name",
        "t.yaml:8:3: the name b-data-1 would mean this and a node of group data-1: expected another group name",
        "t.yaml:8:3: the name c-data-1 would mean this and a node of group data-1: expected another group name",
    ]


def test_an_experiment_is_no_topology() -> None:
    Path("x.yaml").write_text("name: x\n")
    with pytest.raises(InvalidInput) as caught:
        load_topology("x.yaml")
    assert str(caught.value) == "x.yaml:1:1: this file is of kind experiment, and of kind topology was expected"
