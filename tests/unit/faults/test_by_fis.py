"""Faults by AWS FIS as data: which kinds, what each template holds, and what is asked of AWS's own models."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import fakes
import pytest
from fakes import Shown
from hypothesis import given
from hypothesis import strategies as st
from shipped import ROOT

from chaos.aws import catalogue, policy
from chaos.aws.policy import ACTIONS
from chaos.aws.shapes import Model
from chaos.base.errors import FaultError, Lacking
from chaos.base.units import Duration
from chaos.commands.fis import BEGIN, END, table
from chaos.definitions.fis import FisFile
from chaos.definitions.steps import Scene
from chaos.faults.evidence import LinkEvidence
from chaos.faults.fault import Fault
from chaos.faults.kind import built
from chaos.providers import fis as provider
from chaos.providers.fis import (
    DELAYS,
    INTENTS,
    LOSES,
    PROVIDER,
    chunks,
    delays,
    disrupt,
    ends,
    impair,
    kill_process,
    reboot,
    stop_instances,
)
from chaos.registry import PROVIDERS
from chaos.targets.existing.fis import Fis, Instance, Word
from chaos.targets.existing.passages import TheirWiring
from chaos.targets.existing.target import ExistingTarget

KINDS = PROVIDERS.kinds
NODES = tuple(f"n-{number}" for number in range(7))
FILE = FisFile.model_validate(
    {
        "region": "eu-west-1",
        "account": "123456789012",
        "role": "arn:aws:iam::123456789012:role/chaos",
        "longest": "10m",
        "alarms": ["arn:aws:cloudwatch:eu-west-1:123456789012:alarm:shop"],
    }
)


class Known(Fis):
    """EC2 and the cluster say what a test wants."""

    state = "running"

    def instances(self, ask: Any, nodes: Any) -> dict[str, Instance]:
        return {
            node: Instance(node, f"i-{i:017x}", f"arn:aws:ec2:eu-west-1:123456789012:instance/i-{i:017x}",
                           self.state, f"subnet-{i // 3:017x}", "eu-west-1a", (f"10.0.0.{i}",))
            for i, node in enumerate(sorted(nodes))
        }  # fmt: skip

    def acls(self, subnets: Any) -> dict[str, str]:
        return {subnet: "acl-00000000000000001" for subnet in subnets}

    def before(self, subnets: Any) -> dict[str, Any]:
        return {"acls": self.acls(subnets), "others": []}

    def agents(self, ids: Any) -> set[str]:
        return set(ids)

    def begun(self, ids: Any, documents: Any) -> list[str]:
        return []


class Lab:
    topology = type("T", (), {"nodes": [type("N", (), {"name": name}) for name in NODES]})


def made(draft: Any) -> dict[str, Any]:
    fis = Known(FILE, "staging")
    drafted = draft(FILE, fis, Lab())
    return fis.whole("run-1", "f1", drafted.template)


def test_every_kind_is_exact_approximate_or_not_to_be_had_and_why() -> None:
    by_rest = {kind for kind in KINDS if any(o.provider == "rest" for o in PROVIDERS.of(kind))}
    assert set(INTENTS) == set(KINDS) - by_rest | (set(INTENTS) & by_rest)
    for kind, intent in INTENTS.items():
        offered = kind in PROVIDER.offers
        assert offered == (intent.verdict in ("exact", "approximate")), kind
        assert intent.how
    assert set(ACTIONS) == set(PROVIDER.offers)


def test_the_documented_table_is_the_providers() -> None:
    text = (ROOT / "docs" / "fis.md").read_text()
    assert text[text.index(BEGIN) : text.index(END) + len(END)] == table()


AROUND = frozenset(link for b in NODES[2:] for a in NODES[:2] for link in ((a, b), (b, a)))
LATE = delays(Duration(0.2), Duration(0.02))
DRAFTS = {
    "node.stop": stop_instances(NODES),
    "zone.power_loss": stop_instances(NODES),
    "node.kill": kill_process(NODES, "SIGKILL"),
    "cluster_manager.quorum_loss": kill_process(NODES, "SIGKILL"),
    "node.restart": reboot(NODES),
    "zone.isolation": disrupt(NODES, "all"),
    "zone.partition": disrupt(NODES, "availability-zone"),
    "network.latency": impair(AROUND, DELAYS, **LATE),
    "zone.slowness": impair(AROUND, DELAYS, **LATE),
    "network.drop": impair(AROUND, LOSES, LossPercent="100"),
    "network.loss": impair(AROUND, LOSES, LossPercent="15"),
}


@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)
def test_each_template_is_one_that_fis_takes(draft: Any) -> None:
    request = made(draft)
    assert Model("fis").problems_of_input("CreateExperimentTemplate", request) == []
    for name, action in request["actions"].items():
        targets = action.get("targets", {})
        assert catalogue.problems(action["actionId"], action.get("parameters", {}), targets) == [], name
        assert set(targets.values()) <= set(request["targets"])
    assert all(len(target["resourceArns"]) <= 5 for target in request["targets"].values())
    assert request["stopConditions"] == [{"source": "aws:cloudwatch:alarm", "value": FILE.alarms[0]}]
    assert request["experimentOptions"]["emptyTargetResolutionMode"] == "fail"


@pytest.mark.parametrize("kind", sorted(ACTIONS))
def test_policies_are_of_the_actions_and_documents_that_each_kind_is_made_of(kind: str) -> None:
    made_of = made(DRAFTS[kind])["actions"].values()
    arns = [each["parameters"]["documentArn"] for each in made_of if "documentArn" in each["parameters"]]
    actions, documents = ACTIONS[kind]
    assert set(actions) == {each["actionId"] for each in made_of}
    assert set(documents) == {arn.rpartition("/")[2] for arn in arns}


def test_resources_beyond_five_are_several_targets_and_each_is_named_once() -> None:
    every = [f"arn:{number:03}" for number in range(12)]
    found = chunks("nodes", "aws:ec2:instance", reversed(every))
    assert [len(each["resourceArns"]) for each in found.values()] == [5, 5, 2]
    assert [arn for each in found.values() for arn in each["resourceArns"]] == every


def test_a_killed_process_is_started_by_fis_itself_after_the_longest_time() -> None:
    actions = made(kill_process(NODES[:1], "SIGKILL"))["actions"]
    assert actions["wait"]["startAfter"] == ["kill-nodes-0"] and actions["wait"]["parameters"] == {"duration": "PT10M"}
    start = actions["start-nodes-0"]
    assert start["startAfter"] == ["wait"]
    assert start["parameters"]["documentParameters"] == '{"commands":["systemctl\\u0020start\\u0020opensearch"]}'


def test_a_reboot_is_of_one_node_or_of_all_at_once_and_in_order() -> None:
    possible: tuple[dict[str, Any], ...] = ({"target": "node c-data"}, {"target": "zone c", "rolling": False})
    for asked in possible:
        fault = offered("node.restart", **asked)
        assert fault.mechanism.startswith("approximate: ") and fault.evidence().effect_deadline == 180.0
    for remedy, more in (
        ("how: orderly", {"target": "node c-data", "how": "kill"}),
        ("rolling: false", {"target": "zone c"}),
        ("leave start out", {"target": "zone c", "rolling": False, "start": "in_order"}),
    ):
        with pytest.raises(Lacking, match=remedy):
            offered("node.restart", **more)


def policies(*kinds: str) -> dict[str, set[str]]:
    """Whose role → all that it may do for these kinds."""
    both = [ACTIONS[kind] for kind in kinds]
    actions, documents = {a for each, _ in both for a in each}, {d for _, each in both for d in each}
    wanted = policy.Wanted("aws", "eu-west-1", "123456789012", "staging", FILE.role, actions, documents)
    made = {"experiment": policy.experiment_role(wanted), "runner": policy.runner_role(wanted)}
    return {name: {do for each in one["Statement"] for do in each["Action"]} for name, one in made.items()}


def test_roles_may_do_what_their_kinds_need_and_no_more() -> None:
    late, reboots, stops = policies("network.latency"), policies("node.restart"), policies("node.stop")
    sending = {"ssm:SendCommand", "ssm:ListCommands", "ssm:CancelCommand"}
    assert sending | {"ec2:DescribeSubnets"} <= late["experiment"] and "ec2:StartInstances" not in late["runner"]
    assert late["runner"] & {"ssm:SendCommand", "ssm:CancelCommand"} == {"ssm:CancelCommand"}
    assert "ec2:RebootInstances" in reboots["experiment"] and not reboots["experiment"] & sending
    assert {"ssm:SendCommand", "ec2:StartInstances", "ssm:ListCommandInvocations"} <= reboots["runner"]
    asks = {action for role in stops.values() for action in role if action.startswith("ssm:")}
    assert asks == {"ssm:DescribeInstanceInformation"}  # preflight asks for it whatever the kinds are


# ---- links ------------------------------------------------------------------------------------------------


@given(links=st.frozensets(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef")), min_size=1))
def test_each_link_is_hit_at_one_end_once_and_no_instance_has_two_documents(
    links: frozenset[tuple[str, str]],
) -> None:
    traffic, groups = ends(links)
    nodes = [node for group in groups.values() for node in group]
    assert len(nodes) == len(set(nodes)) == min(len({a for a, _ in links}), len({b for _, b in links}))
    hit = [(node, peer) for peers, group in groups.items() for node in group for peer in peers]
    assert sorted(links) == sorted(hit if traffic == "egress" else [(b, a) for a, b in hit])


def test_a_document_is_of_the_peers_addresses_and_ends_before_its_action() -> None:
    request = made(impair(AROUND, DELAYS, **LATE))
    both = [
        ({"10.0.0.0", "10.0.0.1"}, [f"i-{number:017x}" for number in range(2, 7)]),
        ({f"10.0.0.{number}" for number in range(2, 7)}, ["i-00000000000000000", "i-00000000000000001"]),
    ]
    found = []
    for action in request["actions"].values():
        given = json.loads(action["parameters"]["documentParameters"])
        arns = request["targets"][action["targets"]["Instances"]]["resourceArns"]
        found.append((set(given.pop("Sources").split(",")), [arn.rpartition("/")[2] for arn in arns]))
        assert given == {
            "DurationSeconds": "600",
            "TrafficType": "egress",
            "FlowsPercent": "100",
            "DelayMilliseconds": "200",
            "JitterMilliseconds": "20",
        }
        assert action["parameters"]["duration"] == "PT12M"
    assert sorted(found, key=lambda each: len(each[0])) == both


def test_more_actions_at_once_than_fis_runs_are_refused() -> None:
    every = frozenset((a, b) for a in map(str, range(12)) for b in map(str, range(12)) if a != b)
    with pytest.raises(FaultError, match="12 actions at once, and FIS runs 10"):
        made(impair(every, DELAYS, **LATE))


def test_a_peer_without_an_address_is_refused() -> None:
    class Nowhere(Known):
        def instances(self, ask: Any, nodes: Any) -> dict[str, Instance]:
            return {name: replace(each, addresses=()) for name, each in super().instances(ask, nodes).items()}

    with pytest.raises(FaultError, match="does not say which private addresses n-2, n-3, n-4, n-5 and n-6"):
        impair(AROUND, DELAYS, **LATE)(FILE, Nowhere(FILE, "staging"), Lab())  # type: ignore[arg-type]


class Target(ExistingTarget):
    """One whose FIS is the test's."""

    def __init__(self, fis: Fis) -> None:
        self.fis, self.run, self.topology = fis, "run-1", fakes.topology()


def offered(kind: str, **given: Any) -> Fault:
    params = KINDS[kind].model_validate(given)
    topology = fakes.topology()
    wiring = TheirWiring.of("there", topology.nodes, topology.zones)
    return built(params, "f1", Scene.of(topology, 1, "f1"), wiring, PROVIDER.offers[kind])


def test_a_slow_zone_is_slow_between_nodes_and_its_clients_are_not_looked_at() -> None:
    fault = offered("zone.slowness", zone="c", delay="200ms")
    assert len(fault.links) == 16 and not any("client" in end for link in fault.links for end in link)
    evidence = fault.evidence()
    assert isinstance(evidence, provider.Running) and isinstance(evidence._own, LinkEvidence)
    assert set(evidence._own.touched) == set(fault.links)
    assert evidence.effect_deadline == evidence.gone_deadline == 120.0
    assert (fault.provider, fault.grade) == ("fis", "effect") and fault.mechanism.startswith("approximate: ")


def test_two_faults_of_a_run_never_have_a_network_document_on_one_instance() -> None:
    late = offered("network.latency", links="from node a-data to node c-data", delay="1s")
    lossy = offered("network.drop", links="from node a-data to node b-data")
    elsewhere = offered("network.drop", links="from node b-data to node c-data")
    assert late.claims & lossy.claims == {"the network document of a-data"} and not late.claims & elsewhere.claims


@pytest.mark.parametrize(
    ("kind", "given", "percent"),
    [("network.drop", {}, "100"), ("network.loss", {"share": "7%"}, "7"), ("network.loss", {"share": "58%"}, "58")],
)
def test_what_is_lost_is_what_was_asked(kind: str, given: dict[str, Any], percent: str) -> None:
    fault = offered(kind, links="to zone c", **given)
    assert fault.mechanism.startswith("exact: ") and len(fault.links) == 8
    lab = Target(Known(FILE, "staging"))
    assert fault.read is not None
    template, start = fault.read(lab)
    (action,) = template.move.arguments["template"]["actions"].values()
    asked = json.loads(action["parameters"]["documentParameters"])
    assert (asked["LossPercent"], asked["TrafficType"]) == (percent, "ingress")
    assert start.inverse is not None
    assert start.inverse.arguments["snapshot"]["commands"][0]["parameters"] == asked


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        ("network.latency", {"links": "from clients of zone a to zone c", "delay": "1s"}, "of zone a meet"),
        ("network.latency", {"links": "to zone c", "delay": "1s", "flap": {"down": "2s", "up": "2s"}}, "nothing flaps"),
        ("zone.slowness", {"zone": "c", "delay": "1s", "flap": {"down": "2s", "up": "2s"}}, "nothing flaps"),
        ("network.drop", {"links": "around everything in zone c"}, "of zone a, b and c meet"),
        ("network.loss", {"links": "to zone c", "share": "12.5%"}, "whole percents, and not 12.5%; share: 12%"),
    ],
)
def test_what_nothing_would_show_or_fis_has_not_is_refused(kind: str, given: dict[str, Any], says: str) -> None:
    with pytest.raises(Lacking, match=says):
        offered(kind, **given)


def test_an_instance_that_does_not_run_is_refused() -> None:
    class Stopped(Known):
        state = "stopped"

    with pytest.raises(Exception, match="is stopped: expected running"):
        stop_instances(NODES[:1])(FILE, Stopped(FILE, "staging"), Lab())  # type: ignore[arg-type]


# ---- what is believed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize(
    ("status", "holds", "over"),
    [
        ("running", True, False),
        ("pending", False, False),
        ("stopping", False, False),
        ("completed", False, True),
        ("stopped", False, True),
        ("failed", False, True),
        ("cancelled", False, True),
        (None, False, True),
    ],
)
def test_fis_can_take_a_proof_away_and_never_make_one(
    monkeypatch: pytest.MonkeyPatch, seen: bool, status: str | None, holds: bool, over: bool
) -> None:
    class Target:
        run = "run-1"

        class fis:
            @staticmethod
            def word(run: str, fault: str) -> Word:
                return Word(status, str(status))

    monkeypatch.setattr(provider, "ExistingTarget", Target)
    evidence = provider.Running(Shown(seen), "f1")  # type: ignore[arg-type]
    lab: Any = Target()
    assert evidence.in_effect(lab).proven is evidence.held(lab).proven is (seen and holds)
    assert evidence.gone(lab).proven is (seen and over)
    assert evidence.before(lab).proven is seen
