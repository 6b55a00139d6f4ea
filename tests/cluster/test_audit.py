"""The audit of real clusters: a healthy lab with the weaknesses that every lab has, and planted ones."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import leftovers
import pytest
from clusterkit import DATA, cli, run_folder

from chaos.base.waiting import wait_until
from chaos.opensearch.administration import create_index, delete_index
from chaos.opensearch.views import administer, await_green
from chaos.programs.audit import Status, audit, cluster, saved, script
from chaos.programs.audit.facts import Sheet
from chaos.report import render
from chaos.targets.labs.base import BaseLab


def graded(lab: BaseLab) -> dict[str, Status]:
    return {row.rule.id: row.status for row in audit(cluster.of_lab(lab))}


@pytest.fixture
def index(playground):
    create_index(playground, "audited", {"number_of_shards": 3, "number_of_replicas": 2})
    assert await_green(playground, 60)[0]
    yield "audited"
    delete_index(playground, "audited")


@pytest.mark.full  # each run of make test stores its audit; tests/unit/programs has the rules
def test_a_healthy_lab_has_the_weaknesses_of_a_lab(playground, index):
    sheet = cluster.of_lab(playground)
    assert sheet.unread == {} and len(sheet.nodes) == 6 and sheet.version == "3.8.0"
    assert all(
        None not in (n.processors, n.heap, n.memory, n.cpu, n.heap_used, n.disk, n.disk_free) for n in sheet.nodes
    )
    rows = {row.rule.id: row for row in audit(sheet)}
    for good in (
        *("zones", "zones.equal", "managers.dedicated", "managers.zones", "awareness", "awareness.forced", "replicas"),
        *("copies", "copies.placed", "copies.started", "shards.heap", "shards.node", "heap.size", "storage.zone"),
    ):
        assert rows[good].status is Status.OK, (good, rows[good].value)
    # what a lab is not: 256 MiB of heap, stock settings, an empty index
    assert rows["managers.size"].status is rows["detection"].status is Status.FAIL
    assert "62 s with the elected manager elsewhere" in rows["detection"].value
    for stock in ("protection.search", "protection.admission", "protection.indexing", "detection.stalled"):
        assert rows[stock].status is Status.WARN
    assert rows["shards.size"].status in (Status.WARN, Status.UNKNOWN)  # a copy without a size yet is not known


def test_planted_weaknesses_are_found_and_gone_with_their_cause(playground, index):
    before = graded(playground)
    settings = {
        "cluster.routing.allocation.awareness.attributes": "rack",
        "search_backpressure.mode": "enforced",
        "cluster.fault_detection.follower_check.timeout": "2s",
        "cluster.fault_detection.leader_check.timeout": "2s",
        "cluster.publish.timeout": "5s",
        "cluster.blocks.create_index": True,
    }
    create_index(playground, "bare", {"number_of_shards": 1, "number_of_replicas": 0})
    try:
        status, answer = administer(playground, "PUT", "/_cluster/settings", {"persistent": settings})
        assert status == 200, answer
        rows = graded(playground)
        assert rows["awareness"] is rows["awareness.forced"] is rows["replicas"] is rows["copies.placed"] is Status.FAIL
        assert rows["protection.search"] is rows["detection"] is Status.OK  # and what is mended is seen
        assert rows["blocks.cluster"] is Status.FAIL
        assert rows["routing"] is Status.FAIL  # weights go by the zone, and allocation by the rack now
    finally:
        delete_index(playground, "bare")
        administer(playground, "PUT", "/_cluster/settings", {"persistent": dict.fromkeys(settings)})
    assert await_green(playground, 60)[0]
    after = graded(playground)
    back = ("awareness", "awareness.forced", "replicas", "copies.placed", "protection.search", "detection")
    assert after["blocks.cluster"] is Status.OK and after["routing"] is Status.INFO  # zone c has weight 0
    for rule in back:
        assert after[rule] is before[rule], rule


MEASURED = {"cpu", "heap", "storage", "copies.started", "unassigned", "copies.placed", "shards.size"}
"""Rows whose values change from one second to the next on a lab that is busy with what was planted."""


def graded_sheet(sheet: Sheet) -> dict[str, tuple[Status, str]]:
    return {row.rule.id: (row.status, row.value) for row in audit(sheet)}


@pytest.mark.full  # tests/unit/programs/audit has saved answers of such a lab
def test_all_that_is_left_behind_is_found_at_once_and_saved_answers_say_the_same(playground, tmp_path: Path) -> None:
    def do(method: str, path: str, body: Any = None) -> Any:
        status, answer = administer(playground, method, path, body)
        assert status in (200, 201), (method, path, answer)
        return answer

    before = graded(playground)
    leftovers.plant(do, playground.folder / "data")
    try:
        assert wait_until(lambda: graded(playground)["unassigned.given-up"] is Status.FAIL, 30, every=0.5)
        live = graded_sheet(cluster.of_lab(playground))
        for rule, (status, says) in leftovers.ROWS.items():
            assert live[rule][0] == status and says in live[rule][1], (rule, live[rule])
        found = _saved(playground, tmp_path)
        assert {id: row for id, row in found.items() if id not in MEASURED} == {
            id: row for id, row in live.items() if id not in MEASURED
        }
    finally:
        leftovers.uproot(do)
    assert await_green(playground, 60)[0]
    after = graded(playground)
    assert {rule for rule in leftovers.ROWS if after[rule] is not before[rule]} == set()
    assert {rule for rule in leftovers.ROWS if after[rule] not in (Status.OK, Status.INFO, Status.UNKNOWN)} == set()


def _saved(lab: BaseLab, folder: Path) -> dict[str, tuple[Status, str]]:
    """The rows of what the script collects with curl, in the network of one of the lab's nodes."""
    file = folder / "collect.sh"
    file.write_text(script.text())
    at = lab.administration(lab.topology.data_nodes[0].name)
    assert at.namespace is not None
    inside = ["nsenter", f"--net={at.namespace.path}", "--"]
    subprocess.run([*inside, "sh", file, f"http://{at.host}:{at.port}", folder / "saved"], check=True, timeout=120)
    return graded_sheet(saved.read(folder / "saved"))


def test_the_command_on_a_lab_and_through_its_port(tiny):
    code, output = cli("audit", "--lab", tiny.id, "--json")
    assert code == 1, output
    rows = {row["id"]: row for row in json.loads(output)["rows"]}
    assert rows["managers.dedicated"]["status"] == "fail"  # its three nodes are everything
    url = json.loads((tiny.folder / "gateway.json").read_text())["url"]
    code, output = cli("audit", url)
    assert code == 1 and "FAIL     Three dedicated cluster managers: 0 dedicated" in output


@pytest.mark.full
def test_a_run_keeps_its_audit(tiny, out):
    code, output = cli("run", DATA / "slow.yaml", "--out", out, "--on", tiny.id)
    assert code in (0, 1, 3), output
    folder = run_folder(out)
    found = json.loads((folder / "audit.json").read_text())
    rows = {row["id"]: row["status"] for row in found["rows"]}
    assert rows["zones"] == rows["copies.started"] == "ok" and "unknown" not in (rows["cpu"], rows["detection"])
    assert not (folder / "logs" / "audit-traceback.txt").exists()
    assert "availability checklist" in (folder / "report.html").read_text()
    assert "availability checklist" in render(folder, redact=True).read_text()
