"""What is seen of pods, by the official client against an API server on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from apiserver import SELECTOR, SETS, ZONE_LABEL, Server, serving, uid

from chaos.base.errors import InvalidInput, LabError, Unanswered
from chaos.kubernetes import rights, seen
from chaos.kubernetes.client import Client, Refused


@pytest.fixture
def there() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def client(there: Server, tmp_path: Path) -> Client:
    return Client(None, there.kubeconfig(tmp_path))


def look(client: Client) -> seen.Seen:
    return seen.look(client, "search", SELECTOR, ZONE_LABEL)


def test_pods_are_seen_with_their_owner_their_zone_and_what_keeps_their_data(client: Client) -> None:
    found = look(client)
    assert (found.cluster, found.namespace) == (uid("kube-system"), uid("search"))
    assert {name: each.uid for name, each in found.sets.items()} == {name: uid(name) for name in SETS}
    data, manager = found.pods["opensearch-cluster-data-1"], found.pods["opensearch-cluster-master-2"]
    assert (data.zone, data.machine, data.ip, data.keeps) == ("b", "node-b", "10.0.1.2", True)
    assert (manager.zone, manager.keeps) == ("c", False)
    assert data.owner == (SETS[1], uid(SETS[1])) and data.ready and data.runs and not data.ending
    assert found.budgets is not None and [each.name for each in found.budgets] == [f"{name}-pdb" for name in SETS]
    assert [(len(each.pods), each.allowed, each.wanted) for each in found.budgets] == [(3, 1, 2), (3, 1, 2)]
    assert found.unread == {}


def test_what_may_not_be_read_is_missing_with_its_reason(there: Server, client: Client) -> None:
    there.denied |= {("get", "nodes"), ("list", "budgets"), ("get", "namespaces")}
    found = look(client)
    assert found.budgets is None and found.cluster is None
    assert all(pod.zone is None for pod in found.pods.values())
    assert set(found.unread) == {"machines", "budgets", "cluster", "namespace"}
    assert all("forbidden" in why for why in found.unread.values())


def test_a_machine_that_was_deleted_hides_nothing_of_the_others(there: Server, client: Client) -> None:
    """Its pods stay until somebody notices, and have no zone."""
    del there.machines["node-b"]
    found = look(client)
    assert {pod.machine: pod.zone for pod in found.pods.values()} == {"node-a": "a", "node-b": None, "node-c": "c"}
    assert found.unread == {}


@pytest.mark.parametrize(
    ("strategy", "old", "rolling"),
    [("OnDelete", 0, False), ("OnDelete", 1, True), ("RollingUpdate", 0, True)],
)
def test_where_pods_are_deleted_by_hand_a_rollout_is_over_once_all_are_new(
    there: Server, client: Client, strategy: str, old: int, rolling: bool
) -> None:
    """The operator's StatefulSets keep their current revision for ever."""
    there.sets[SETS[1]]["spec"]["updateStrategy"] = {"type": strategy}
    there.sets[SETS[1]]["status"]["updateRevision"] = "r2"
    for at in range(3):
        there.pods[f"{SETS[1]}-{at}"]["metadata"]["labels"]["controller-revision-hash"] = "r1" if at < old else "r2"
    assert look(client).sets[SETS[1]].rolling is rolling


def test_without_pods_nothing_is_known(there: Server, client: Client) -> None:
    there.denied.add(("list", "pods"))
    with pytest.raises(Refused, match="403: pods is forbidden"):
        look(client)


def test_the_one_opensearch_is_found_by_the_charts_labels(client: Client) -> None:
    assert seen.discover(client, None, None) == ("search", SELECTOR)


def test_the_operators_pods_are_found_by_the_clusters_name(there: Server, client: Client) -> None:
    for pod in there.pods.values():
        pod["metadata"]["labels"] = {"opster.io/opensearch-cluster": "orders"}
    assert seen.discover(client, "search", None) == ("search", "opster.io/opensearch-cluster=orders")


def test_two_clusters_are_told_apart_by_who_asks(there: Server, client: Client) -> None:
    for number, pod in enumerate(there.pods.values()):
        pod["metadata"]["labels"] = {"opster.io/opensearch-cluster": "orders" if number % 2 else "logs"}
    with pytest.raises(InvalidInput, match="more than one OpenSearch") as error:
        seen.discover(client, None, None)
    assert "--selector opster.io/opensearch-cluster=logs (3 pods)" in str(error.value.remedy)


def test_no_pods_is_an_error_that_names_what_was_looked_for(there: Server, client: Client) -> None:
    there.pods.clear()
    with pytest.raises(InvalidInput, match=r"no pods with app\.kubernetes\.io/name=opensearch or opster"):
        seen.discover(client, None, None)


def test_who_may_not_list_all_namespaces_looks_into_the_contexts_own(there: Server, client: Client) -> None:
    there.denied.add(("list", "all pods"))
    with pytest.raises(Refused):  # the context of this kubeconfig names a namespace that is not there
        seen.discover(client, None, None)
    assert any("/namespaces/elsewhere/pods" in each for each in there.asked)


def test_a_kubeconfig_that_is_none_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("nothing: at all")
    with pytest.raises(InvalidInput, match="cannot be used"):
        look(Client(None, tmp_path / "kubeconfig"))
    with pytest.raises(InvalidInput, match="cannot be used"):
        look(Client(None, tmp_path / "absent"))


def test_an_unknown_context_is_refused_with_those_that_there_are(there: Server, tmp_path: Path) -> None:
    client = Client("prod", there.kubeconfig(tmp_path))
    with pytest.raises(InvalidInput, match="no context prod") as error:
        look(client)
    assert "box" in str(error.value.remedy)


@pytest.mark.parametrize("says", [b'{"message": "welcome"}', b"[]", b'{"items": null}', b"<html>"])
def test_what_is_no_api_server_is_one_error(tmp_path: Path, says: bytes) -> None:
    class Other(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(says)))
            self.end_headers()
            self.wfile.write(says)

    with HTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, args=(0.05,), daemon=True).start()
        try:
            client = Client(None, Server(url=f"http://127.0.0.1:{other.server_port}").kubeconfig(tmp_path))
            with pytest.raises(LabError, match="what answered is no API server"):
                look(client)
        finally:
            other.shutdown()


def test_what_is_not_answered_is_open_where_it_changes_something(there: Server, client: Client) -> None:
    there.broken = lambda method, path: True
    with pytest.raises(LabError) as error:
        client.core("read_namespaced_pod", "opensearch-cluster-data-0", "search")
    assert not isinstance(error.value, Unanswered)
    with pytest.raises(Unanswered):
        client.core("delete_namespaced_pod", "opensearch-cluster-data-0", "search", changes=True)
    assert len([each for each in there.asked if each.startswith("DELETE")]) == 1, "it is sent once"


@pytest.mark.parametrize(
    ("selector", "labels", "taken"),
    [
        ({}, {"a": "1"}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "2"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, {"a": "2"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {"a": "1"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": ""}, False),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {}, True),
    ],
)
def test_budgets_take_pods_as_label_selectors_do(selector: dict, labels: dict[str, str], taken: bool) -> None:  # type: ignore[type-arg]
    assert seen.selects(selector, labels) is taken


# ---- rights -----------------------------------------------------------------------------------------------------


def test_a_missing_right_is_named_and_nothing_else(there: Server, client: Client) -> None:
    needed = rights.needed("search", ["node.kill"], forward=True)
    assert rights.missing(client, "search", needed) == []
    for right in needed:
        there.denied = {(right.verb, right.resource)}
        assert right in rights.missing(client, "search", needed), right


def test_the_role_has_a_rule_for_each_right_and_no_other() -> None:
    needed = rights.needed("search", ["node.kill", "node.restart orderly"], forward=False)
    role, binding, wide, wide_binding = rights.manifests("search", needed, "chaos")
    assert (role["kind"], binding["kind"], wide["kind"]) == ("Role", "RoleBinding", "ClusterRole")
    found = {(verb, resource) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert found == {(each.verb, each.resource) for each in needed if not each.everywhere}
    assert "pods/portforward" not in str(role)
    assert all(set(rule["verbs"]) == {"get"} for rule in wide["rules"])
    (spaces,) = [rule for rule in wide["rules"] if rule["resources"] == ["namespaces"]]
    assert spaces["resourceNames"] == ["kube-system", "search"]
    assert (
        binding["subjects"]
        == wide_binding["subjects"]
        == [{"kind": "ServiceAccount", "name": "chaos", "namespace": "search"}]
    )
    user = rights.manifests("search", needed, "user:jane")[1]["subjects"][0]
    assert (user["kind"], user["name"]) == ("User", "jane")


def test_a_stop_needs_no_deletion_and_an_eviction_no_patch() -> None:
    def verbs(kind: str) -> set[tuple[str, str]]:
        return {(each.verb, each.resource) for each in rights.needed("search", [kind], forward=False)}

    assert ("delete", "pods") not in verbs("node.stop") and ("patch", "pods") in verbs("node.stop")
    assert ("patch", "pods") not in verbs("node.restart orderly")
    assert ("create", "pods/eviction") in verbs("node.restart orderly")
