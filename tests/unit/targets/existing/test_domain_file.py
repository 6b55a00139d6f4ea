"""A domain of Amazon OpenSearch Service in a target's file: what contradicts it, what it offers, what IAM allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fakes
import pytest
from fakes import Shown

from chaos.base.errors import Exit, FaultError, InvalidInput, Lacking
from chaos.definitions.existing import load_existing
from chaos.definitions.steps import Scene
from chaos.faults.fault import Fault
from chaos.faults.kind import built
from chaos.providers import domain as provider
from chaos.registry import PROVIDERS, load_experiment
from chaos.run.on_target import Sign, refused_domain
from chaos.run.plan import there as notes
from chaos.targets.existing import offered, rights
from chaos.targets.existing.domain import Word
from chaos.targets.existing.passages import TheirWiring
from chaos.targets.existing.target import ExistingTarget

TARGET = """\
apiVersion: opensearch-chaos/v1
kind: existing
name: staging
endpoints: [https://search-shop-x1.eu-west-1.es.amazonaws.com]
access: {sigv4: {region: eu-west-1}}
identity: {cluster_uuid: wIIGSa4PQIyKYzcvn_m1Ag, cluster_name: "123456789012:shop"}
opensearch: 3.8.0
zones: {attribute: zone, names: {a: eu-west-1a, b: eu-west-1b, c: eu-west-1c}}
rung: node
until: 2099-12-31
nodes:
  a-data: {zone: a, roles: [cluster_manager, data]}
  b-data: {zone: b, roles: [cluster_manager, data]}
  c-data: {zone: c, roles: [cluster_manager, data]}
domain: {name: shop, region: eu-west-1, account: "123456789012"}
"""
EXPERIMENT = """\
apiVersion: opensearch-chaos/v1
name: maintained
topology: 3az
load:
  read: {rate: 1/s, good: ok within 2s}
phases:
  healthy: {for: 3s}
  hit: {for: 5s, inject: {node.restart: {target: node b-data}}}
expect:
  - {phase: hit, read.good: ">= 90%"}
"""


def written(folder: Path, *changes: tuple[str, str]) -> Path:
    text = TARGET
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = folder / "staging.yaml"
    file.write_text(text)
    return file


def test_a_domain_is_named(tmp_path: Path) -> None:
    made = load_existing(written(tmp_path))
    assert made.written.domain is not None and made.written.domain.action == "RESTART_SEARCH_PROCESS"
    assert any("never run on AWS" in says for says in notes(made))
    assert offered.by(made.written)("domain") is None
    machine = load_existing(written(tmp_path, ("name: shop,", "name: shop, restart: machine,"))).written.domain
    assert machine is not None and machine.action == "REBOOT_NODE"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            (
                "domain: {",
                'fis: {region: eu-west-1, account: "123456789012", longest: 10m, '
                'role: "arn:aws:iam::123456789012:role/chaos"}\ndomain: {',
            ),
            "expected fis or domain",
        ),
        (("a-data: {", "a-data: {url: 'https://10.0.0.1:9200', "), "expected nodes without url"),
        (("name: shop,", "name: other,"), "is not an address of other"),
        (("region: eu-west-1, account", "region: eu-west-2, account"), "is not in eu-west-2"),
        (("name: shop,", "name: shop, endpoint: 'http://127.0.0.1:1',"), "expected no endpoint"),
        (("name: shop,", "name: shop, endpoint: 'http://10.0.0.1:1',"), "is not on this machine"),
        (("name: shop,", "name: shop, restart: kill,"), "restart"),
        (("name: shop,", "name: S,"), "name"),
    ],
)
def test_what_contradicts_it_is_refused_with_its_line(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as refused:
        load_existing(written(tmp_path, change))
    assert refused.value.exit_code == Exit.USAGE and "staging.yaml:" in str(refused.value)


def offered_for(**given: Any) -> Fault:
    params = PROVIDERS.kinds["node.restart"].model_validate(given)
    topology = fakes.topology()
    wiring = TheirWiring.of("there", topology.nodes, topology.zones)
    return built(params, "f1", Scene.of(topology, 1, "f1"), wiring, provider.PROVIDER.offers["node.restart"])


def test_a_restart_is_asked_for_and_then_waited_for() -> None:
    fault = offered_for(target="node b-data", within="9m")
    (both,) = fault.moves
    assert both.inverse is not None and (both.move.operation, both.inverse.operation) == (
        "domain.maintain",
        "domain.settle",
    )
    assert (fault.provider, fault.grade) == ("domain", "effect") and fault.mechanism.startswith("approximate: ")
    assert fault.evidence().effect_deadline == 540.0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"target": "node b-data", "how": "kill"}, "AWS restarts nodes in its own order, and kills none"),
        ({"target": "zone c"}, "AWS restarts one node of a domain at a time"),
    ],
)
def test_what_aws_does_not_do_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(Lacking, match=says):
        offered_for(**given)


class There(ExistingTarget):
    """A target whose domain is the test's."""

    def __init__(self, says: Any) -> None:
        self.domain = says


@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize(
    ("status", "holds", "over"),
    [
        ("PENDING", True, False),
        ("IN_PROGRESS", True, False),
        ("COMPLETED", True, True),
        ("FAILED", False, True),
        ("TIMED_OUT", False, True),
        ("several", False, True),
        (None, False, True),
    ],
)
def test_aws_can_take_a_proof_away_and_never_make_one(
    monkeypatch: pytest.MonkeyPatch, seen: bool, status: str | None, holds: bool, over: bool
) -> None:
    class Says:
        def word(self, id: str, before: Any) -> Word:
            assert (id, before) == ("the-node", ["old"])
            return Word(status, str(status))

    monkeypatch.setattr(provider, "listed_by", lambda lab, node: ("the-node", ["old"]))
    lab = There(Says())
    evidence = provider.Undenied(Shown(seen), "b-data")  # type: ignore[arg-type]
    assert evidence.before(lab).proven is seen
    assert evidence.in_effect(lab).proven is evidence.held(lab).proven is (seen and holds)
    assert evidence.gone(lab).proven is (seen and over)


def test_a_node_that_aws_does_not_list_is_no_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(lab: Any, node: str) -> Any:
        raise FaultError("AWS lists no nodes")

    monkeypatch.setattr(provider, "listed_by", nobody)
    look = provider.Undenied(Shown(True), "b-data").before(There(None))  # type: ignore[arg-type]
    assert not look.proven and "AWS lists no nodes" in look.says


@pytest.mark.parametrize("silent", [True, False])
def test_a_domain_that_is_not_ready_keeps_a_run_away(tmp_path: Path, silent: bool) -> None:
    class Says:
        def not_ready(self) -> list[str]:
            if silent:
                raise FaultError("AccessDenied")
            return ["another is under way", "not green"]

    file = tmp_path / "maintained.yaml"
    file.write_text(EXPERIMENT)
    experiment = load_experiment(file)
    offers = PROVIDERS.on(order=("domain",))
    rows = refused_domain(There(Says()), experiment, offers)
    assert {row.sign for row in rows} == {Sign.BLOCKS} and len(rows) == (1 if silent else 2)
    assert refused_domain(There(None), experiment, offers) == []


def test_what_is_restarted_needs_the_domain(tmp_path: Path) -> None:
    without = load_existing(
        written(tmp_path, ('domain: {name: shop, region: eu-west-1, account: "123456789012"}\n', ""))
    )
    assert "the file names no domain" in str(offered.by(without.written)("domain"))


def test_the_policy_names_exactly_this_domain(tmp_path: Path) -> None:
    arn = "arn:aws:es:eu-west-1:123456789012:domain/shop"
    statements = rights.policy(load_existing(written(tmp_path)).written)["Statement"]
    allowed = {action: each["Resource"] for each in statements for action in each["Action"]}
    assert allowed["es:StartDomainMaintenance"] == allowed["es:DescribeDomainHealth"] == [arn]
    assert all(one.startswith(arn) for each in statements for one in each["Resource"])
    looking = rights.policy(load_existing(written(tmp_path, ("rung: node", "rung: plan"))).written)["Statement"]
    assert not [each for each in looking if "es:StartDomainMaintenance" in each["Action"]]
