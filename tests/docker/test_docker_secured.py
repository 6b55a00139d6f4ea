"""The security plugin on in containers: the image with it, files put into them, TLS through published ports."""

from __future__ import annotations

import pytest
from clusterkit import DATA, assert_proven, cli, findings, kept_lab_id, run_folder
from dockerkit import build_missing

from chaos.base.access import Access, secret
from chaos.base.errors import InvalidInput
from chaos.definitions import load_topology
from chaos.opensearch.rest import NodeClient
from chaos.targets import security
from chaos.targets.labs import kinds
from chaos.targets.labs.docker import images

TINY = DATA / "tiny-secure.yaml"


def test_an_image_without_the_plugin_is_refused(engine, monkeypatch):
    topology = load_topology(TINY)
    monkeypatch.setenv(images.OPENSEARCH_VARIABLE, images.opensearch("3.8.0").built)
    with pytest.raises(InvalidInput, match=r"tiny-secure\.yaml:\d+:\d+: image .* has no plugin opensearch-security"):
        images.parts(topology)
    assert not images.parts(topology.model_copy(update={"security": False})).security


@pytest.mark.full
def test_a_secured_lab_and_a_run_on_it(engine, tmp_path):
    build_missing(engine, ["3.4.0"])
    name, out = kept_lab_id(), tmp_path / "reports"
    code, output = cli("lab", "up", TINY, "--lab", "docker", "--name", name)
    assert code == 0 and "https://127.0.0.1:" in output, output
    try:
        lab = kinds.attach(name)
        server, password = lab.administration("a-all"), secret(lab.access.password)
        assert NodeClient(server, access=lab.access).request("GET", "/")[0] == 200
        assert NodeClient(server, access=Access(tls=True, ca=lab.access.ca)).request("GET", "/")[0] == 401
        code, output = cli("run", DATA / "slow-secure.yaml", "--on", name, "--out", out)
        assert code in (0, 1, 3), output  # a busy machine may spoil the load
        found = findings(out)
        assert found["clean"] is True
        assert_proven(found)
        for path in (each for each in run_folder(out).rglob("*") if each.is_file()):
            assert password.encode() not in path.read_bytes() and b"PRIVATE KEY" not in path.read_bytes(), path
    finally:
        code, output = cli("lab", "down", name)
        assert code == 0, output
    assert engine.owned(name) == [] and not (lab.folder / security.FOLDER).exists()


@pytest.mark.full
def test_an_image_with_the_plugin_runs_without_it_too(engine, tmp_path):
    build_missing(engine, ["3.4.0"])
    plain = tmp_path / "plain.yaml"
    plain.write_text(TINY.read_text().replace("security: true\n", "").replace("tiny-secure", "plain"))
    name = kept_lab_id()
    code, output = cli("lab", "up", plain, "--lab", "docker", "--name", name)
    try:
        assert code == 0 and "http://127.0.0.1:" in output, output
    finally:
        code, output = cli("lab", "down", name)
        assert code == 0, output
