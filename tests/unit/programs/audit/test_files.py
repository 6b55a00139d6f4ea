"""Files that are none of ours: an opensearch.yml and a resource of the Kubernetes operator, read as a topology."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from chaos.base.errors import InvalidInput
from chaos.definitions import load_topology
from chaos.programs.audit import Status, audit, kubernetes, written
from chaos.programs.audit.facts import Sheet

NESTED = """\
cluster:
  name: shop
  initial_master_nodes: [m1, m2, m3]
  routing.allocation:
    awareness.attributes: zone
    awareness:
      force.zone.values: [a, b, c]
    enable: primaries
node.name: d1
node.roles: [master, data]
node.attr: {zone: a, temp: hot}
http.host: 0.0.0.0
discovery.seed_hosts:
"""
RESOURCE = """\
apiVersion: opensearch.org/v1
kind: OpenSearchCluster
metadata: {name: shop}
spec:
  general:
    version: 2.14.0
    additionalConfig:
      cluster.routing.allocation.awareness.attributes: zone
      cluster.routing.allocation.awareness.force.zone.values: a,b,c
  nodePools:
"""
ZONED = RESOURCE + "".join(
    f"""\
    - component: {kind}-{zone}
      replicas: 1
      diskSize: "30Gi"
      nodeSelector:
      {jvm}resources: {{requests: {{memory: "16Gi"}}, limits: {{memory: "16Gi"}}}}
      roles: [{role}]
      additionalConfig: {{node.attr.zone: {zone}}}
"""
    for zone in "abc"
    for kind, role, jvm in (("cm", "master", ""), ("data", "data", "jvm: -Xmx7G -Xms7G\n      "))
)


@pytest.fixture
def file(tmp_path: Path):
    def write(text: str, name: str = "opensearch.yml") -> Path:
        path = tmp_path / name
        path.write_text(dedent(text))
        return path

    return write


def graded(sheet: Sheet) -> dict[str, tuple[Status, str]]:
    return {row.rule.id: (row.status, row.value) for row in audit(sheet)}


def test_nested_settings_and_old_names_are_read(file) -> None:
    sheet = written.read(file(NESTED))
    (node,) = sheet.nodes or ()
    assert (node.name, node.zone, node.roles) == ("d1", "a", {"cluster_manager", "data"})
    assert node.attributes["temp"] == "hot"
    said = " ".join(sheet.notes)
    for part in ("cluster.initial_master_nodes is read as cluster.initial_cluster", "role master is read", "http.host"):
        assert part in said
    rows = graded(sheet)
    assert rows["left.allocation"] == (Status.FAIL, "cluster.routing.allocation.enable: primaries (as written)")
    assert rows["awareness"][0] is Status.OK and rows["detection"][0] is Status.FAIL


def test_what_one_file_cannot_tell_is_unknown_with_its_reason(file) -> None:
    rows = graded(written.read(file(NESTED.replace("    enable: primaries\n", ""))))
    for rule in ("zones", "zones.equal", "managers.dedicated", "managers.zones", "managers.size", "tiers.copies"):
        assert rows[rule] == (Status.UNKNOWN, written.ONE), rule
    for rule in ("left.allocation", "left.excludes", "left.transient", "settings.deadly"):  # never ok by a file
        assert rows[rule][0] is Status.UNKNOWN and written.API in rows[rule][1], rule
    assert (
        rows["awareness.forced"][0] is Status.UNKNOWN and "whether these are all zones" in rows["awareness.forced"][1]
    )
    for rule in ("copies.started", "unassigned", "snapshots", "certificates", "templates", "durability"):
        assert rows[rule] == (Status.UNKNOWN, written.LIVE), rule


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("node.master: true\nnode.data: false\n", {"cluster_manager", "ingest", "remote_cluster_client"}),
        ("node: {master: false, ingest: false}\n", {"data", "remote_cluster_client"}),
        ("node.name: x\n", {"cluster_manager", "data", "ingest", "remote_cluster_client"}),
        ("node.roles: []\n", set()),
        ("node.roles: data\n", {"data"}),
    ],
)
def test_roles_as_they_were_said_before(text: str, roles: set[str], file) -> None:
    (node,) = written.read(file(text)).nodes or ()
    assert node.roles == roles


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cluster.name: a\ncluster: {name: b}\n", ":2:1: cluster.name stands there twice"),
        ("node.name: a\nnode.roles: [data]\nnode.master: true\n", ":3:1: node.master beside node.roles"),
        ("node.name: a\nservice: web\n", ":2:1: service is no setting of OpenSearch"),
        ("a: [\n", "not YAML"),
        ("- a\n", "a mapping of keys was expected"),
    ],
)
def test_a_wrong_file_is_told_by_line(text: str, says: str, file) -> None:
    with pytest.raises(InvalidInput) as error:
        written.read(file(text))
    assert says in str(error.value)


def test_the_settings_of_a_lab_are_refused_in_its_topology(file) -> None:
    topology = """\
        apiVersion: opensearch-chaos/v1
        kind: topology
        name: mine
        opensearch: 3.8.0
        zones: [a, b, c]
        nodes: {n: {roles: [cluster_manager, data], heap: 256MiB}}
        settings: {node: {cluster.initial_master_nodes: [a], http.host: 0.0.0.0}}
        """
    with pytest.raises(InvalidInput) as error:
        load_topology(file(topology, "mine.yaml"))
    assert "cluster.initial_master_nodes is set by the lab" in str(error.value)
    assert "http.host is set by the lab" in str(error.value)


def test_the_pools_of_a_resource_are_its_nodes(file) -> None:
    sheet = kubernetes.read(file(ZONED, "shop.yaml"))
    assert sheet.version == "2.14.0" and sheet.zones == ("a", "b", "c") and len(sheet.nodes or ()) == 6
    manager, data = sheet.managers[0], sheet.data[0]
    assert (manager.roles, manager.heap, manager.memory) == ({"cluster_manager"}, 8 * 2**30, 16 * 2**30)  # half of it
    assert (data.heap, data.disk) == (7 * 2**30, 30 * 2**30)
    rows = graded(sheet)
    for rule in ("zones", "zones.equal", "managers.dedicated", "managers.zones", "awareness.forced"):
        assert rows[rule][0] is Status.OK, (rule, rows[rule])
    assert rows["left.excludes"] == (Status.UNKNOWN, f"no filter is set; {written.API}")
    assert rows["copies.started"] == (Status.UNKNOWN, written.LIVE)
    assert any("role master is read as cluster_manager" in note for note in sheet.notes)


def test_a_pool_s_own_settings_come_before_the_general_ones(file) -> None:
    name = "cluster.routing.allocation.disk.watermark.flood_stage"
    general = "force.zone.values: a,b,c\n"
    text = ZONED.replace(general, f'{general}      {name}: "90%"\n')
    assert graded(kubernetes.read(file(text, "shop.yaml")))["left.watermarks"][0] is Status.UNKNOWN  # as the API says
    more = f'{{node.attr.zone: a, {name}: "99%", cluster.publish.timeout: 1ms}}'
    rows = graded(kubernetes.read(file(text.replace("{node.attr.zone: a}", more), "shop.yaml")))
    assert rows["left.watermarks"] == (Status.WARN, f"{name}: 99% (as written)")
    assert rows["settings.deadly"][0] is Status.FAIL  # nothing runs that has shown to live with it


def test_a_zone_from_a_label_is_not_known(file) -> None:
    labelled = RESOURCE.replace(
        "    version", "    nodeAttributes: [{name: zone, nodeLabel: topology.kubernetes.io/zone}]\n    version"
    )
    rows = graded(
        kubernetes.read(file(labelled + "    - {component: all, replicas: 3, roles: [cluster_manager, data]}\n"))
    )
    for rule in kubernetes.OF_ZONES:
        assert rows[rule] == (Status.UNKNOWN, kubernetes.LABEL), rule
    assert rows["managers.dedicated"][0] is Status.FAIL  # no label changes that
    plain = graded(kubernetes.read(file(RESOURCE + "    - {component: all, replicas: 3, roles: [data]}\n")))
    assert plain["zones"][0] is Status.FAIL  # no label, and no attribute


@pytest.mark.parametrize(
    ("pool", "says"),
    [
        ("    - {component: a, replicas: many, roles: [data]}\n", ":11:32: replicas: expected a whole number"),
        ("    - {replicas: 3, roles: [data]}\n", "component: expected the pool's name"),
        ("    - {component: a, replicas: 1, diskSize: big}\n", "expected a quantity such as 4Gi"),
        ("    - data\n", "expected a pool"),
        ("    []\n", "expected a list of pools"),
    ],
)
def test_a_wrong_resource_is_told_by_line(pool: str, says: str, file) -> None:
    with pytest.raises(InvalidInput) as error:
        kubernetes.read(file(RESOURCE + pool, "shop.yaml"))
    assert says in str(error.value) and "shop.yaml:" in str(error.value)


def test_a_resource_without_a_spec(file) -> None:
    with pytest.raises(InvalidInput, match="spec: expected a mapping"):
        kubernetes.read(file("kind: OpenSearchCluster\n", "shop.yaml"))
