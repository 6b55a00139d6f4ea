"""``init --from-kubernetes`` as it is typed: what is written, and what does not go together."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from apiserver import SELECTOR, ZONE_LABEL, Server
from podcluster import Cluster, answering
from tlskit import authority
from typer.testing import CliRunner

from chaos.base.errors import InvalidInput, MissingPrerequisite
from chaos.cli import app
from chaos.commands.on_kubernetes import Where, _service, drafted
from chaos.definitions.existing import load_existing
from chaos.kubernetes.client import IN_POD, Client
from chaos.kubernetes.seen import Seen, look
from chaos.targets.existing.seen import seen_of


@pytest.fixture
def found(there: Server, tmp_path: Path) -> Seen:
    return look(Client(None, there.kubeconfig(tmp_path)), "search", SELECTOR, ZONE_LABEL)


def test_it_is_typed_with_the_clusters_address_where_there_is_one(cluster: Cluster, where: Where, state: Path) -> None:
    host, port = next(iter(cluster.server.backends.values()))
    words = ["init", str(state), "--from-kubernetes", "--kubeconfig", str(where.kubeconfig), "--namespace", "search"]
    done = CliRunner().invoke(app, [*words, "--url", f"http://{host}:{port}", "--name", "box"])
    assert done.exit_code == 0, done.output
    assert "target check topologies/existing/box.yaml" in done.output
    assert load_existing(state / "topologies" / "existing" / "box.yaml").written.endpoints == (f"http://{host}:{port}",)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--context", "x"], "--context is of --from-kubernetes"),
        (["--selector", "app=x"], "--selector is of --from-kubernetes"),
        (["--from-kubernetes", "--from", "http://127.0.0.1:9200"], "both say where the cluster is"),
        (["--from-kubernetes", "--name", "Über"], "cannot name a target"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_asked(
    tmp_path: Path, words: list[str], says: str
) -> None:
    done = CliRunner().invoke(app, ["init", str(tmp_path), *words])
    assert isinstance(done.exception, InvalidInput) and says in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_over_tls_a_way_into_a_pod_needs_the_name_that_is_in_its_certificate(
    there: Server, where: Where, state: Path
) -> None:
    made = authority(state)
    ca = made.folder / "ca.pem"
    with answering(Cluster(there, served=made.served)):
        for given in ({}, {"tls_name": "b-data"}):
            with pytest.raises(InvalidInput, match=r"not trusted: .*mismatch.*--tls-name"):
                drafted(where, state, "box", None, {"ca": str(ca), **given})
        target = load_existing(drafted(where, state, "box", None, {"ca": str(ca), "tls_name": "c-data"}))
        assert target.written.access.tls_name == "c-data" and target.access.tls_name == "c-data"
        assert all(str(address).startswith("https://127.98.") for address in target.written.addresses)
        assert seen_of(target).nodes is not None


def test_a_file_that_is_there_stays(cluster: Cluster, where: Where, state: Path) -> None:
    drafted(where, state, "box", None, {})
    with pytest.raises(InvalidInput, match="is there already, and nothing was written"):
        drafted(where, state, "box", None, {})


def test_no_pod_that_is_ready_is_said(cluster: Cluster, where: Where, state: Path) -> None:
    for pod in cluster.server.pods.values():
        pod["status"]["conditions"][0]["status"] = "False"
    with pytest.raises(InvalidInput, match="no pod of it is ready"):
        drafted(where, state, None, None, {})


def test_pods_of_no_stateful_set_are_said(there: Server, where: Where, state: Path) -> None:
    for pod in there.pods.values():
        pod["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "x", "uid": "y"}]
    with pytest.raises(InvalidInput, match="are of no StatefulSet"):
        drafted(where, state, None, None, {})


def test_a_context_that_is_not_there_is_said_with_those_that_are(where: Where, state: Path) -> None:
    with pytest.raises(InvalidInput, match="no context elsewhere"):
        drafted(replace(where, context="elsewhere"), state, None, None, {})


def test_in_a_pod_without_a_kubeconfig_its_own_account_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv(IN_POD, raising=False)
    assert not Client().in_pod
    monkeypatch.setenv(IN_POD, "10.0.0.1")
    assert Client().in_pod and not Client("box").in_pod and not Client(None, tmp_path / "x").in_pod
    with pytest.raises(InvalidInput, match="cannot be used"):  # there is no token of an account here
        Client().core("list_pod_for_all_namespaces")


def test_a_stateful_set_without_a_service_gives_its_pods_no_names(found: Seen) -> None:
    api = SimpleNamespace(call=lambda *_: {"spec": {"replicas": 3}})
    with pytest.raises(InvalidInput, match="names no headless service") as error:
        _service(api, "search", next(iter(found.pods.values())))  # type: ignore[arg-type]
    assert "--url" in str(error.value.remedy)


def test_without_the_client_it_is_one_line_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes.client", None)
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(MissingPrerequisite) as error:
        Client().core("list_pod_for_all_namespaces")
    assert error.value.remedy == "pip install 'opensearch-chaos[kubernetes]'"
