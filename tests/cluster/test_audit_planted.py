"""What the audit says of snapshots, restores, unlike nodes, certificates and upgrades, planted on labs of their own.

``tests/support/leftovers.py`` has what can be planted on any cluster at once. Policies of index management and of
snapshot management are planted nowhere: that plugin is not on Maven Central, where labs take theirs from.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from claimskit import lab_of
from clusterkit import lifecycle

from chaos.opensearch.rest import NodeClient
from chaos.opensearch.views import administer, await_green
from chaos.programs.audit import Row, Status, audit, cluster
from chaos.registry import FAULTS, ready
from chaos.targets import certificates, security
from chaos.targets.labs import traces
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

pytestmark = pytest.mark.full
SHARED = """\
apiVersion: opensearch-chaos/v1
kind: topology
name: shared
opensearch: 3.8.0
profile: fast
zones: [a, b]
nodes:
  cm:    {roles: [cluster_manager], zones: [a], heap: 256MiB}
  small: {roles: [data, ingest], zones: [a], heap: 256MiB}
  large: {roles: [data, ingest], zones: [b], heap: 384MiB}
services: {store: fs}
"""
SECURED = """\
apiVersion: opensearch-chaos/v1
kind: topology
name: secured
opensearch: 3.4.0
profile: fast
zones: [a]
nodes:
  all: {roles: [cluster_manager, data, ingest], heap: 384MiB}
security: true
settings:
  index: {number_of_replicas: 0}
"""
OLD = """\
apiVersion: opensearch-chaos/v1
kind: topology
name: old
opensearch: 2.19.6
upgrade: 3.8.0
profile: fast
zones: [a]
nodes:
  all: {roles: [cluster_manager, data, ingest], heap: 384MiB}
settings:
  index: {number_of_replicas: 0}
"""
REPOSITORY = "backup"


@contextmanager
def made(text: str, folder: Path) -> Iterator[LocalLab]:
    file = folder / "topology.yaml"
    file.write_text(text)
    with lab_of(str(file)) as lab:
        yield lab
    assert traces.of(lab.id) == []


def rows(lab: LocalLab) -> dict[str, Row]:
    return {row.rule.id: row for row in audit(cluster.of_lab(lab))}


def do(lab: LocalLab, method: str, path: str, body: Any = None) -> Any:
    status, answer = administer(lab, method, path, body)
    assert status in (200, 201), (method, path, answer)
    return answer


def test_unlike_heaps_repositories_without_a_whole_snapshot_and_restores_are_found(tmp_path: Path) -> None:
    with made(SHARED, tmp_path) as lab:
        found = rows(lab)
        assert found["tiers.heap"].status is Status.WARN and "heap 248 MiB to 371 MiB" in found["tiers.heap"].value
        assert found["snapshots"].status is Status.INFO and found["restores"].status is Status.OK
        nodes = do(lab, "GET", "/_nodes/settings?filter_path=nodes.*.settings.path.repo")["nodes"]
        (shared,) = {path for node in nodes.values() for path in node["settings"]["path"]["repo"]}
        repository = {
            "type": "fs",
            "settings": {"location": f"{shared}/{REPOSITORY}", "max_restore_bytes_per_sec": "50kb"},
        }
        do(lab, "PUT", f"/_snapshot/{REPOSITORY}", repository)
        found = rows(lab)
        assert found["snapshots"].status is Status.WARN and "backup holds no snapshot" in found["snapshots"].value

        # an index whose copy can be on no node makes a snapshot partial
        one = {"number_of_shards": 1, "number_of_replicas": 0}
        homeless = {**one, "routing.allocation.require._name": "none"}
        do(lab, "PUT", "/homeless?wait_for_active_shards=0", {"settings": homeless})
        taken = do(lab, "PUT", f"/_snapshot/{REPOSITORY}/half?wait_for_completion=true", {"partial": True})
        assert taken["snapshot"]["state"] == "PARTIAL"
        row = rows(lab)["snapshots"]
        assert row.status is Status.FAIL and "none is whole, the newest (half) is PARTIAL" in row.value
        do(lab, "DELETE", "/homeless")

        # half a megabyte that cannot be compressed, restored at 50 kB/s
        do(lab, "PUT", "/kept", {"settings": one, "mappings": {"enabled": False}})
        for number in range(8):
            do(lab, "PUT", f"/kept/_doc/{number}", {"bytes": noise(number)})
        do(lab, "POST", "/kept/_flush")
        taken = do(lab, "PUT", f"/_snapshot/{REPOSITORY}/whole?wait_for_completion=true", {"indices": "kept"})
        assert taken["snapshot"]["state"] == "SUCCESS"
        row = rows(lab)["snapshots"]
        assert row.status is Status.OK and "(whole) is 0.0 days old" in row.value
        do(lab, "DELETE", "/kept")
        do(lab, "POST", f"/_snapshot/{REPOSITORY}/whole/_restore", {"indices": "kept"})
        row = rows(lab)["restores"]
        assert row.status is Status.WARN and "backup/whole" in row.value, row.value
        do(lab, "DELETE", "/kept")
        assert wait_until(lambda: rows(lab)["restores"].status is Status.OK, 30, every=0.5)

        # a restore that has failed leaves an index that nothing will fill
        do(lab, "DELETE", f"/_snapshot/{REPOSITORY}/half")
        for file in Path(shared, REPOSITORY, "indices").rglob("__*"):
            file.write_bytes(b"no segment")
        do(lab, "POST", f"/_snapshot/{REPOSITORY}/whole/_restore", {"indices": "kept"})
        failed = wait_until(lambda: rows(lab)["restores"].status is Status.FAIL, 60, every=0.5)
        assert failed, administer(lab, "GET", "/_cluster/state/routing_table?filter_path=routing_table.indices.kept")
        row = rows(lab)["restores"]
        assert "waits for no restore: kept" in row.value
        assert any("-X DELETE" in command and "/kept" in command for command in row.commands), row.commands
        do(lab, "DELETE", "/kept")
        assert rows(lab)["restores"].status is Status.OK


def noise(number: int) -> str:
    """64 kB, of which no codec makes less than half."""
    return random.Random(number).randbytes(32 * 1024).hex()


@pytest.mark.parametrize(
    "valid, status",
    [(timedelta(days=5), Status.FAIL), (timedelta(days=20), Status.WARN), (timedelta(days=60), Status.OK)],
)
def test_certificates_that_end_soon_are_found_by_who_may_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, valid: timedelta, status: Status
) -> None:
    monkeypatch.setattr(certificates, "VALID", valid)
    monkeypatch.setattr(certificates.Authority._begun, "__defaults__", (valid,))  # the authority's own is told too
    with made(SECURED, tmp_path) as lab:
        client = NodeClient(lab.administration("a-all"), access=security.transport(lab.folder, security.USER))
        sheet = cluster.read(lambda question: client.request("GET", question.path), "the lab")
        client.close()
        found = {row.rule.id: row for row in audit(sheet)}
        assert found["certificates"].status is status, found["certificates"].value
        assert f"in {valid.days} days" in found["certificates"].value
        assert rows(lab)["certificates"].status is Status.UNKNOWN  # a user, even one who may all, may not ask


def test_what_an_upgrade_puts_aside_is_found(tmp_path: Path) -> None:
    removed = "cluster.service.slow_master_task_logging_threshold"  # 2.19.6 has it, 3.8.0 does not
    with made(OLD, tmp_path) as lab:
        do(lab, "PUT", "/_cluster/settings", {"persistent": {removed: "20s"}})
        of_index = {"number_of_replicas": 0, "store.hybrid.mmap.extensions": ["dvd", "tim"]}
        do(lab, "PUT", "/old", {"settings": of_index})
        assert rows(lab)["left.archived"].status is Status.OK
        params = FAULTS["node.upgrade"].model_validate({"target": "node a-all"})
        cycle = lifecycle(lab, tmp_path)
        assert cycle.inject(ready("f1", params, lab, seed=1, elected=None))
        assert await_green(lab, 60)[0]
        row = rows(lab)["left.archived"]
        assert row.status is Status.WARN
        assert f"of the cluster: archived.{removed}" in row.value and "of indices: old" in row.value
        cycle.undo("f1")
