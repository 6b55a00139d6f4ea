"""A cluster with the security plugin on: who gets in, runs on it, and that its secrets stay in its folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3
from clusterkit import DATA, ROOT, assert_proven, cli, findings, kept_lab_id, run_folder
from conformance import INDEX, conforms, footprint

from chaos.base.access import PLAIN, Access, secret
from chaos.definitions import load_topology
from chaos.faults.moves import Move
from chaos.opensearch.rest import NodeClient
from chaos.opensearch.views import await_green
from chaos.registry import FAULTS
from chaos.run.options import new_lab_id
from chaos.targets import security
from chaos.targets.labs import provisioning, traces
from chaos.targets.labs.local import LocalLab

SLOW = DATA / "slow-secure.yaml"


@pytest.fixture(scope="module")
def secured() -> Iterator[tuple[LocalLab, str]]:
    """A lab of ``lab up``, and what that said."""
    name = kept_lab_id()
    code, said = cli("lab", "up", DATA / "tiny-secure.yaml", "--name", name)
    assert code == 0, said
    lab = LocalLab.attach(name)
    yield lab, said
    code, output = cli("lab", "down", name)
    assert code == 0, output
    assert traces.of(name) == [] and not (lab.folder / security.FOLDER).exists()


def test_only_who_has_the_password_or_the_certificate_gets_in_and_knows_where(secured):
    lab, said = secured
    assert re.search(r"https://127\.0\.0\.1:\d+", said) and f"password {lab.access.password}" in said
    password = secret(lab.access.password)
    assert password not in said
    server = lab.administration("a-all")

    def asked(access: Access) -> int:
        return NodeClient(server, access=access).request("GET", "/_cluster/health")[0]

    assert asked(lab.access) == 200 and asked(security.transport(lab.folder, security.USER)) == 200
    assert asked(Access(tls=True, ca=lab.access.ca)) == 401
    for stranger in (Access(tls=True), PLAIN):
        with pytest.raises(urllib3.exceptions.HTTPError):
            asked(stranger)
    for path in (lab.folder / "config").rglob("*"):  # the nodes' own copies
        if path.is_file() and (b"PRIVATE KEY" in path.read_bytes() or b"hash" in path.read_bytes()):
            assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.full
def test_a_run_proves_its_fault_over_tls_and_leaves_no_secret_in_its_folder(secured, out):
    lab, _ = secured
    code, output = cli("run", SLOW, "--on", lab.id, "--out", out)
    assert code in (0, 1, 3), output  # a busy machine may spoil the load
    found = findings(out)
    assert found["clean"] is True
    assert_proven(found)
    (lost,) = [each for each in found["findings"] if each["metric"] == "acknowledged.lost"]
    assert lost["measured"] == 0
    folder = run_folder(out)
    assert "no security plugin" not in (folder / "plan.json").read_text()
    hidden = (secret(lab.access.password).encode(), b"PRIVATE KEY", lab.access.headers()["authorization"].encode())
    for path in (each for each in folder.rglob("*") if each.is_file()):
        assert not [each for each in hidden if each in path.read_bytes()], path


@pytest.mark.full
def test_a_node_that_clients_cannot_trust_is_named_and_no_zone_is_rotated_or_taken_out_for_it(out, spotless):
    code, output = cli("run", DATA / "stale-secure.yaml", "--out", out)
    assert code in (0, 3) and "the certificate of c-all has expired" in output, output
    found, folder = findings(out), run_folder(out)
    measured = {each["metric"]: each["measured"] for each in found["findings"]}
    assert found["clean"] is True and measured == {"failovers": 0, "shards.moved": 0, "acknowledged.lost": 0}
    copies = json.loads((folder / "history" / "readback.json").read_text())["copies"]
    assert {copy["node"] for copy in copies if copy["read"]} == {"a-all", "b-all", "c-all"}  # it is a full member
    for zone in "ab":
        lines = (folder / "history" / f"failover-{zone}.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        assert not [event for event in events if event["kind"] in ("failover.step", "failover.failed")]
        accused = [each for event in events if event["kind"] == "failover.evidence" for each in event["evidence"]]
        assert {each["kind"] for each in accused} >= {"probe", "read"}
        assert "c-all: not to be trusted, certificate has expired" in {each["says"] for each in accused}
        said = [event["says"] for event in events if event["kind"] == "failover.decision"]
        assert any("writes do not wait for it" in each for each in said), said


@pytest.mark.parametrize(("wrong", "says"), [("nonsense", "not let admin in: HTTP 401"), (None, "cannot read the")])
def test_wrong_credentials_are_an_error_in_words(secured, out, wrong, says):
    lab, _ = secured
    file = lab.folder / security.FOLDER / "password"
    right = file.read_text()
    file.unlink()
    try:
        if wrong is not None:
            file.write_text(wrong)
        code, output = cli("run", SLOW, "--on", lab.id, "--out", out)
    finally:
        file.touch(mode=0o600)
        file.write_text(right)
    assert code == 2 and says in output and "Traceback" not in output and run_folder(out) is None, output


def test_the_audit_reads_a_secured_cluster_as_its_user_and_no_other(secured, tmp_path):
    lab, _ = secured
    url, known, ca = json.loads((lab.folder / "gateway.json").read_text())["url"], lab.access, lab.access.ca
    code, output = cli("audit", url, "--user", known.user, "--password", known.password, "--ca", ca, "--json")
    found = json.loads(output)
    rows = {row["id"]: row["status"] for row in found["rows"]}
    assert code == 1 and found["of"] == f"{url}, OpenSearch 3.4.0", output
    assert rows["managers.dedicated"] == "fail"  # its three nodes are everything
    assert rows["zones"] == rows["awareness.forced"] == rows["copies.started"] == "ok"  # all was read
    assert secret(known.password) not in output
    wrong = tmp_path / "wrong"
    wrong.write_text("nonsense")
    for arguments, says in (
        (["--user", known.user, "--password", f"file:{wrong}", "--ca", ca], "refuses this user or password (401)"),
        (["--ca", ca], "refuses this user or password (401)"),
        (["--user", known.user, "--password", known.password], "TLS failed"),
    ):
        code, output = cli("audit", url, *arguments)
        assert code == 2 and says in output and len(output.splitlines()) == 1, output


def test_a_version_without_the_plugin_is_refused_before_anything_is_started(tmp_path, spotless):
    topology = tmp_path / "newer.yaml"
    topology.write_text((DATA / "tiny-secure.yaml").read_text().replace("3.4.0", "3.8.0").replace("tiny-", "newer-"))
    code, output = cli("lab", "up", topology)
    assert code == 2 and re.search(r"newer\.yaml:\d+:\d+: .*no plugin opensearch-security", output), output


FAST = ("network.bandwidth", 1)
"""1 MiB/s is more than half of what clients' questions carry over TLS, and so cannot be proven."""
KINDS = [
    pytest.param(kind, example | ({"rate": "256KiB/s"} if (kind, number) == FAST else {}), id=f"{kind}-{number}")
    for kind, fault in FAULTS.items()
    if fault.family in ("network", "zone", "node", "cluster_manager") and fault.example_topology == "3az-standby"
    for number, example in enumerate(fault.examples)
]


@pytest.fixture(scope="module")
def standby() -> Iterator[LocalLab]:
    topology = load_topology("3az-secure", near=ROOT / "experiments" / "x.yaml")
    lab = LocalLab.create(topology, provisioning.parts(topology), id=new_lab_id())
    try:
        lab.up()
        Move("index.create", {"index": INDEX, "settings": dict(topology.settings.index)}).apply(lab)
        assert await_green(lab, 60)[0]
        yield lab
    finally:
        assert lab.down() == []


@pytest.mark.full
@pytest.mark.parametrize(("kind", "example"), KINDS)
def test_a_fault_has_its_effect_and_no_other_over_tls(standby: LocalLab, tmp_path: Path, kind, example):
    conforms(standby, tmp_path, kind, example, footprint)
