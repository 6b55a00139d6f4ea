"""What AWS FIS cannot hit here is refused by name, with what can be done instead: pods on EKS, the managed service."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from fakes import ROOT
from fisrecord import Recorder, Teller

from chaos.base.errors import Exit, InvalidInput
from chaos.commands.fis import looks
from chaos.definitions.existing import load_existing
from chaos.run.on_target import Sign, refused_fis
from chaos.targets.existing.fis import Fis

TARGET = """\
apiVersion: opensearch-chaos/v1
kind: existing
name: staging
endpoints: [https://search.staging.example:9200]
identity: {cluster_uuid: wIIGSa4PQIyKYzcvn_m1Ag, cluster_name: search-staging}
opensearch: 3.8.0
zones: {attribute: zone, names: {a: eu-west-1a, b: eu-west-1b}}
nodes:
  es-1: {zone: a, roles: [cluster_manager, data]}
  es-2: {zone: b, roles: [data]}
fis: {region: eu-west-1, account: "123456789012", role: "arn:aws:iam::123456789012:role/chaos", longest: 10m}
"""


def written(folder: Path, *changes: tuple[str, str]) -> Path:
    text = TARGET
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = folder / "staging.yaml"
    file.write_text(text)
    return file


def test_instances_of_ec2_are_no_problem(tmp_path: Path) -> None:
    assert load_existing(written(tmp_path)).written.fis is not None


SERVICE = "11:1: .*domain of Amazon OpenSearch Service, whose.*no action: expected no fis; name the domain instead"
OF_PODS = "pods on EKS are not hit by AWS FIS here.*leave fis out, and name hooks of yours"
HOST, SAYS = "search.staging.example", ", role:"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ((HOST, "search-shop-x1.eu-west-1.es.amazonaws.com"), SERVICE),
        ((HOST, "Search-Shop-X1.eu-west-1.ES.amazonaws.com."), SERVICE),
        ((HOST, "vpc-shop-x1.cn-north-1.es.amazonaws.com.cn"), SERVICE),
        ((HOST, "search-shop-x1.aos.eu-west-1.on.aws"), SERVICE),
        ((HOST, "x1.eu-west-1.aoss.amazonaws.com"), "is OpenSearch Serverless"),
        (("identity:", "access: {sigv4: {region: eu-west-1}}\nidentity:"), "12:1: requests that are signed.*domain of"),
        ((HOST, "shop.search.svc"), f"11:1: shop.search.svc is a name of Kubernetes's, and nodes that are {OF_PODS}"),
        ((HOST, "shop-0.shop.search.svc.cluster.local"), OF_PODS),
        (("es-2: {", "es-2: {url: 'https://es-2.search.pod.cluster.local:9200', "), OF_PODS),
        (
            (SAYS, ", instances: {by: pod-name}, role:"),
            f"by: .*pod-name: nodes that are {OF_PODS}|pod-name: .*{OF_PODS}",
        ),
        ((SAYS, ", instances: {label: app=search}, role:"), f"label: .*{OF_PODS}"),
        ((SAYS, ", instances: {namespace: search, selectorType: labelSelector}, role:"), f"namespace: .*{OF_PODS}"),
        ((SAYS, ", eks: {cluster: shop}, role:"), f"eks: .*{OF_PODS}"),
    ],
)
def test_a_file_of_what_fis_cannot_hit_is_refused_by_name(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as refused:
        load_existing(written(tmp_path, change))
    assert refused.value.exit_code == Exit.USAGE


@pytest.mark.parametrize("host", ["notes.amazonaws.com", "es.amazonaws.com.example", "svc.example", "search.local"])
def test_a_name_that_only_looks_like_it_is_taken(tmp_path: Path, host: str) -> None:
    assert load_existing(written(tmp_path, (HOST, host))).written.fis is not None


class OnEks(Fis):
    """Each node has a running instance with one tag more."""

    more: Mapping[str, str] = MappingProxyType({"Key": "eks:cluster-name", "Value": "shop"})

    def _all(self, service: str, operation: str, key: str, **given: Any) -> list[dict[str, Any]]:
        if operation != "describe_instances":
            return []
        found = [
            {
                "InstanceId": f"i-{number:017x}",
                "State": {"Name": "running"},
                "Tags": [{"Key": "opensearch-chaos:node", "Value": node}, self.more],
            }
            for number, node in enumerate(given["Filters"][0]["Values"])
        ]
        return [{"Instances": found}]

    def call(self, service: str, operation: str, **given: Any) -> dict[str, Any]:
        state = {"safetyLever": {"state": {"status": "disengaged"}}}
        return {"Account": self.file.account, "Arn": "arn:aws:sts::123456789012:user/moto", **state}

    def alarms(self) -> list[dict[str, Any]]:
        return []


def nobody(path: str) -> tuple[int, Any]:
    raise AssertionError("by tags the cluster is not asked")


@pytest.mark.parametrize(
    ("key", "value", "cluster"),
    [
        ("eks:cluster-name", "shop", "shop"),
        ("aws:eks:cluster-name", "shop", "shop"),
        ("eks:eks-cluster-name", "shop", "shop"),
        ("kubernetes.io/cluster/shop-2", "owned", "shop-2"),
    ],
)
def test_an_instance_that_is_a_node_of_eks_is_refused_by_name(key: str, value: str, cluster: str) -> None:
    there = Teller("run-1", "http://127.0.0.1:9", Recorder(), None).there()
    assert there.fis is not None
    there.fis = fis = OnEks(there.fis.file, "staging")
    fis.more = {"Key": key, "Value": value}
    says = f"i-00000000000000000 of c-data is a node of the cluster {cluster} of Kubernetes, and nodes that are pods"
    with pytest.raises(InvalidInput, match=says) as refused:
        fis.instances(nobody, ["c-data"])
    assert refused.value.exit_code == Exit.USAGE and "hooks of yours" in str(refused.value.remedy)
    (row,) = [(words, well) for what, words, well in looks(there, fis) if what == "instances"]
    assert f"the cluster {cluster} of Kubernetes" in row[0] and not row[1]  # of fis preflight, whose exit code is 2
    fis.more = {"Key": "team", "Value": "search"}
    assert set(fis.instances(nobody, ["c-data"])) == {"c-data"}


def test_a_run_on_nodes_of_eks_is_refused_before_it_begins() -> None:
    from chaos.registry import PROVIDERS, load_experiment

    there = Teller("run-1", "http://127.0.0.1:9", Recorder(), None).there()
    assert there.fis is not None
    there.fis = OnEks(there.fis.file, "staging")
    experiment = load_experiment(ROOT / "experiments" / "fis" / "instance-stopped.yaml")
    rows = refused_fis(there, experiment, PROVIDERS.on(order=("fis",)))
    assert [row for row in rows if row.sign is Sign.BLOCKS and "of Kubernetes" in row.says and "hooks" in row.remedy]
