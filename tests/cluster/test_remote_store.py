"""Remote-backed storage on real clusters: what is acknowledged is in the store, and goes with the lab."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from clusterkit import lifecycle, told

from chaos.base.ids import write_id
from chaos.definitions import Topology, load_topology
from chaos.faults.ledger import standing
from chaos.load.workloads.documents import MAPPING, content
from chaos.observe import restored
from chaos.observe.proof import problems
from chaos.observe.readback import read_back
from chaos.opensearch.replication import SEGMENT, replication_type
from chaos.opensearch.rest import opensearch
from chaos.opensearch.views import administer, await_green
from chaos.programs.audit import Row, Status, audit, cluster
from chaos.registry import FAULTS, ready
from chaos.run.options import new_lab_id
from chaos.targets import services
from chaos.targets.labs import provisioning, traces
from chaos.targets.labs.local import LocalLab
from chaos.targets.wiring import SERVICE

pytestmark = pytest.mark.full
INDEX, WRITES = "remote", 30
IDS = {write_id(n) for n in range(WRITES)}


def small(name: str, *, state: bool = False) -> Topology:
    """One cluster manager and two data nodes of a shipped topology, to start sooner. ``state``: in the store too."""
    whole = load_topology(name)
    assert whole.remote_store is not None
    return whole.model_copy(
        update={
            "nodes": tuple(node for node in whole.nodes if node.name in ("a-cm", "a-data", "b-data")),
            "remote_store": whole.remote_store.model_copy(update={"state": state}),
        }
    )


def made(what: str | Topology, *, state: bool = False) -> Iterator[LocalLab]:
    topology = small(what, state=state) if isinstance(what, str) else what
    lab = LocalLab.create(topology, provisioning.parts(topology), id=new_lab_id())
    try:
        lab.up()
        yield lab
    finally:
        left = lab.down()
    assert left == [] and traces.of(lab.id) == []


@pytest.fixture(scope="module")
def stored() -> Iterator[LocalLab]:
    yield from made("3az-remote-store")


def written(lab: LocalLab) -> None:
    """An index with documents, each acknowledged; no refresh, so that only a translog can hold them in the store."""
    settings = {"number_of_shards": 1, "number_of_replicas": 1, "refresh_interval": "-1"}
    assert administer(lab, "PUT", f"/{INDEX}", body={"mappings": MAPPING, "settings": settings})[0] == 200
    assert await_green(lab, 60)[0]
    lines = [line for n in range(WRITES) for line in ({"index": {"_id": write_id(n)}}, content(write_id(n)))]
    client = opensearch(lab.administration("a-data"), access=lab.access_to("a-data"))
    assert client.bulk(body=lines, index=INDEX)["errors"] is False
    client.close()


def objects(lab: LocalLab) -> list[str]:
    """The keys in the store, as S3 lists them, asked from inside its own host."""
    host, store = lab.wiring["store"], lab.service("store")
    query = urllib.parse.urlencode({"list-type": 2, "max-keys": 1000})
    with host.namespace.connect((host.loopback, SERVICE), 5.0) as sock:
        sock.settimeout(10.0)
        sock.sendall(f"GET /{store.name}?{query} HTTP/1.0\r\nHost: s3\r\n\r\n".encode())
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    page = ElementTree.fromstring(answer.partition(b"\r\n\r\n")[2])
    return [str(each.text) for each in page.iter() if each.tag.endswith("}Key")]


def test_what_is_acknowledged_is_in_the_object_store_and_is_read_back(stored: LocalLab) -> None:
    try:
        written(stored)
        keys = objects(stored)
        assert any("/translog/data/" in key for key in keys), keys
        assert replication_type(stored, INDEX) == SEGMENT
        found = read_back(stored, INDEX, IDS, segments=True)
        assert found["complete"] and found["lost_count"] == found["diverged_count"] == found["stale_count"] == 0, found
        assert any("/segments/data/" in key for key in objects(stored))
        assert problems(stored) == []
        (service,) = [each for each in stored.residents() if each.what == "service"]
        held = traces.held(stored.id, traces.namespaces(stored.id))  # from names alone, as after a runner's SIGKILL
        assert any(each.startswith(f"process {service.identity.pid} in ") for each in held), held
        asked, expected = stored.requests("store"), stored.expected("store")
        expected.add(asked.more())
        wanted, there = set(expected.keys), stored.keys("store", 30)
        expected.mark()
        expected.add(asked.more())  # what nodes took away meanwhile
        assert wanted and wanted - there <= expected.taken
        assert stored.answers("store", 5) is not None
        said = (stored.folder / "logs" / "service-store.log").read_text()
        assert " PUT 200 " in said
        for word in (*stored._secrets.values(), "Credential", "Authorization"):
            assert not [file.name for file in (stored.folder / "logs").glob("*.log") if word in file.read_text()]
    finally:
        administer(stored, "DELETE", f"/{INDEX}?ignore_unavailable=true")


def test_the_audit_finds_repositories_of_shallow_snapshots(stored: LocalLab) -> None:
    repository = "shallow"
    kind = services.kind(stored.topology.services["store"])
    body = services.repository(stored.service("store"), kind, repository)
    body["settings"]["remote_store_index_shallow_copy"] = True
    try:
        assert _shallow(stored).status is Status.OK
        assert administer(stored, "PUT", f"/_snapshot/{repository}", body)[0] == 200
        assert _shallow(stored).status is Status.INFO
        written(stored)
        row = _shallow(stored)
        assert row.status is Status.WARN and row.others == (repository,) and row.indices == (INDEX,), row
    finally:
        administer(stored, "DELETE", f"/{INDEX}?ignore_unavailable=true")
        administer(stored, "DELETE", f"/_snapshot/{repository}")


def _shallow(lab: LocalLab) -> Row:
    return next(row for row in audit(cluster.of_lab(lab)) if row.rule.id == "snapshots.shallow")


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("network.latency", {"delay": "300ms"}),
        ("network.drop", {}),
        ("network.hang", {}),
        ("network.refuse", {}),
        ("network.reset", {}),
        ("network.slow_close", {"delay": "1s"}),
    ],
)
def test_faults_of_links_to_the_store_are_proven_and_proven_gone(
    stored: LocalLab, tmp_path: Path, kind: str, more: dict[str, str]
) -> None:
    params = FAULTS[kind].model_validate({"links": "from node a-data to service store", **more})
    cycle = lifecycle(stored, tmp_path)
    proven, gone = cycle.inject(ready("f1", params, stored, seed=1, elected=None)), cycle.undo("f1")
    looks = {event["stage"]: event for event in told(tmp_path, "fault.evidence")}
    assert proven, [probe for probe in looks["effect"]["probes"] if not probe["ok"]]
    assert gone, [probe for probe in looks["gone"]["probes"] if not probe["ok"]]
    assert any("a-data → store" in probe["what"] for probe in looks["effect"]["probes"])
    assert standing(tmp_path / "ledger.jsonl") == []
    assert await_green(stored, 60)[0]


def test_a_folder_that_nodes_share_is_a_store_too() -> None:
    for lab in made("3az-remote-fs"):
        written(lab)
        folder = lab.service("store").folder
        assert [file for file in folder.rglob("*") if file.is_file() and "/translog/data/" in str(file)]
        found = read_back(lab, INDEX, IDS, segments=True)
        assert found["complete"] and found["lost_count"] == found["stale_count"] == 0, found


@pytest.fixture(scope="module")
def on_disk() -> Iterator[LocalLab]:
    """A folder of kind reloadable-fs, on a disk of its own."""
    whole = small("3az-remote-disk")
    services = {"store": whole.services["store"].model_copy(update={"kind": "reloadable-fs"})}
    yield from made(whole.model_copy(update={"services": services}))


@pytest.mark.parametrize(
    ("kind", "more"),
    [("disk.full", {"to": "enospc"}), ("disk.stall", {}), ("disk.read_only", {}), ("disk.errors", {})],
)
def test_a_stores_own_disk_breaks_is_mended_and_has_kept_what_was_acknowledged(
    on_disk: LocalLab, tmp_path: Path, kind: str, more: dict[str, str]
) -> None:
    try:
        written(on_disk)
        params = FAULTS[kind].model_validate({"service": "store", **more})
        cycle = lifecycle(on_disk, tmp_path)
        proven = cycle.inject(ready("f1", params, on_disk, seed=1, elected=None))
        alive = {node.name: on_disk.process_state(node.name) for node in on_disk.topology.nodes}
        gone = cycle.undo("f1")
        looks = {event["stage"]: event for event in told(tmp_path, "fault.evidence")}
        assert proven, [probe for probe in looks["effect"]["probes"] if not probe["ok"]]
        assert gone, [probe for probe in looks["gone"]["probes"] if not probe["ok"]]
        assert None not in alive.values()
        assert standing(tmp_path / "ledger.jsonl") == [] and await_green(on_disk, 120)[0]
        found = read_back(on_disk, INDEX, IDS, segments=True)
        assert found["complete"] and found["lost_count"] == found["diverged_count"] == 0, found
        assert on_disk.disks.problems() == []
    finally:
        administer(on_disk, "DELETE", f"/{INDEX}?ignore_unavailable=true")


def test_an_emptied_cluster_has_all_of_it_back_from_the_object_store_alone(stored: LocalLab) -> None:
    """Without the state in the store: the cluster manager keeps its folder."""
    try:
        written(stored)
        found = restored.restore(stored, [INDEX])
        assert found.reason is None and found.given_up == {} and found.missing == [], found
        assert set(found.emptied) == {"a-data", "b-data"} and found.kept == ["a-cm"]
        back = read_back(stored, INDEX, IDS, segments=True)
        assert back["complete"] and back["lost_count"] == back["diverged_count"] == back["stale_count"] == 0, back
        assert problems(stored) == []
    finally:
        administer(stored, "DELETE", f"/{INDEX}?ignore_unavailable=true")


def test_nodes_fetch_each_new_state_from_the_store_where_it_is_published_there() -> None:
    """By what nodes count themselves: the manager uploads, and each other node downloads what differs."""
    for lab in made("3az-remote-publication", state=True):
        written(lab)
        status, answer = administer(lab, "GET", "/_nodes/stats/discovery")
        assert status == 200
        counted = {
            node["name"]: {
                kind: each["success_count"] for kind, each in node["discovery"]["cluster_state_stats"].items()
            }
            for node in answer["nodes"].values()
        }
        manager = counted.pop("a-cm")
        assert manager["remote_upload"] > 0, manager
        assert counted and all(each["remote_diff_download"] > 0 for each in counted.values()), counted
        found = read_back(lab, INDEX, IDS, segments=True)
        assert found["complete"] and found["lost_count"] == 0, found


def test_an_empty_cluster_has_metadata_and_data_back_and_a_store_that_lost_a_file_is_found() -> None:
    for lab in made("3az-remote-fs", state=True):
        written(lab)
        found = restored.restore(lab, [INDEX])
        assert found.reason is None and len(found.emptied) == 3 and found.kept == [], found
        back = read_back(lab, INDEX, IDS, segments=True)
        assert back["complete"] and back["lost_count"] == 0, back
        gone = [file for file in lab.service("store").folder.rglob("*") if "/segments/data/" in str(file)]
        assert gone
        for file in gone:
            file.unlink(missing_ok=True)
        found = restored.restore(lab, [INDEX])
        assert list(found.given_up) == [INDEX] and found.reason is None, found
        back = restored.held_against(read_back(lab, INDEX, IDS, segments=True), found, INDEX)
        assert back["not_restored_count"] + back["lost_count"] == WRITES, back
