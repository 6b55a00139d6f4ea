"""Experiments of AWS FIS from template to restored: once, whatever becomes of a call, and nothing is left.

The endpoint, moto and boto3 are real; the lab behind them only remembers what was done to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest
from fishands import TinyLab, needs_moto
from fistamper import Times, tampering

from chaos.aws import policy as printed
from chaos.base.errors import ChaosError, FaultError
from chaos.base.units import Duration
from chaos.commands.fis import ACTIONS
from chaos.definitions.fis import FisFile
from chaos.fis_endpoint import mirror, standing
from chaos.fis_endpoint.clients import ACCOUNT, REGION, client
from chaos.fis_endpoint.policy import ALLOW_ALL, parse
from chaos.fis_endpoint.server import Server
from chaos.fis_endpoint.standing import Standing
from chaos.providers.fis import DELAYS, LOSES, Drafted, delays, disrupt, impair, kill_process, reboot, stop_instances
from chaos.target.existing.fis import OVER, Fis
from chaos.target.labs.processes import wait_until

FAULT, NODE = "f1", "c-data"
NUMBERS = count(1)


def nobody(path: str) -> tuple[int, Any]:
    raise AssertionError("by tags the cluster is not asked")


@dataclass
class There:
    """``times``: what goes wrong at the endpoint; nothing unless a test says so."""

    lab: TinyLab
    stands: Standing
    file: FisFile
    times: Times
    stands_in: Server

    def __post_init__(self) -> None:
        self.anew()

    def anew(self) -> None:
        """A run of its own, and nothing goes wrong yet."""
        self.fis, self.run = Fis(self.file, "staging"), f"run-{next(NUMBERS)}"
        self.times.left = 0

    def drafted(self, draft: Any) -> Drafted:
        found: Drafted = draft(self.fis.file, self.fis, self.lab)
        return found

    def begin(self, draft: Any) -> Drafted:
        drafted = self.drafted(draft)
        self.fis.make_template(self.run, FAULT, drafted.template)
        self.fis.start(self.run, FAULT, drafted.expected)
        return drafted

    def end(self, drafted: Drafted) -> None:
        self.fis.end(self.run, FAULT, drafted.snapshot)
        self.fis.drop_template(self.run, FAULT)

    @property
    def ec2(self) -> Any:
        return client("ec2", self.stands.moto)

    def well(self) -> bool:
        states = {each.state for each in mirror.Mirror(self.lab.id, self.stands.moto).instances().values()}
        whole = not self.lab.dead and not self.lab.blocked and not self.lab.toxic
        return states == {"running"} and whole and self.fis.left() == []

    def on(self, service: str) -> Any:
        """A client of a service by way of the endpoint."""
        return client(service, self.stands.url)


@pytest.fixture(scope="module")
def stood(tmp_path_factory: pytest.TempPathFactory) -> Iterator[There]:
    needs_moto()
    folder = tmp_path_factory.mktemp("fis")
    lab = TinyLab("fis-of-a-test")
    times = Times("deny", frozenset(), left=0)
    servers: list[Server] = []

    def serve(endpoint: Any, host: str, port: int) -> Server:
        servers.append(tampering(times)(endpoint, host, port))
        return servers[-1]

    with standing.standing(
        lab, time_scale=600.0, folder=folder, changed=lambda setup: replace(setup, serve=serve)
    ) as stands:
        file = FisFile.model_validate(stands.fis | {"longest": "12h"})
        yield There(lab, stands, file, times, servers[0])


@pytest.fixture
def there(stood: There) -> There:
    stood.anew()
    return stood


ZONE_C = ["c-cm", "c-data"]
OTHERS = ["a-cm", "a-data", "b-cm", "b-data"]
TO_C = frozenset((other, node) for other in OTHERS for node in ZONE_C)
AROUND_C = TO_C | {(b, a) for a, b in TO_C}
LATE = delays(Duration(0.3), Duration(0))


@pytest.mark.parametrize(
    ("draft", "dead", "blocked"),
    [
        (stop_instances([NODE]), {NODE}, False),
        (kill_process([NODE], "SIGKILL"), {NODE}, False),
        (disrupt(ZONE_C, "all"), set(), True),
        (disrupt(ZONE_C, "availability-zone"), set(), True),
    ],
    ids=["stop", "kill", "all", "zone"],
)
def test_it_is_made_and_all_is_as_before(there: There, draft: Any, dead: set[str], blocked: bool) -> None:
    assert there.well() and there.fis.not_ready(nobody, [NODE]) == []
    drafted = there.begin(draft)
    assert wait_until(lambda: there.lab.dead == dead and bool(there.lab.blocked) is blocked, 30)
    assert there.fis.word(there.run, FAULT).running and there.fis.ended_early() is None
    assert [each for each in there.fis.left() if "running" in each]
    there.end(drafted)
    assert there.well() and there.fis.word(there.run, FAULT).over and there.fis.ended_early() is None
    there.end(drafted)  # once more does no harm
    assert there.well()


def test_a_reboot_is_over_at_once_and_its_experiment_goes_on(there: There) -> None:
    there.lab.calls.clear()
    drafted = there.begin(reboot([NODE, "c-cm"]))
    assert sorted(there.lab.calls) == [("start", "c-cm"), ("start", NODE), ("stop", "c-cm"), ("stop", NODE)]
    assert there.fis.word(there.run, FAULT).running and there.fis.ended_early() is None and not there.lab.dead
    there.lab.stop_node(NODE)  # its unit does not start it at a boot
    there.end(drafted)
    assert there.well()


@pytest.mark.parametrize("links", [TO_C, AROUND_C, frozenset({(NODE, "a-cm")})], ids=["to", "around", "one"])
def test_exactly_the_links_that_are_asked_for_are_late(there: There, links: frozenset[tuple[str, str]]) -> None:
    drafted = there.begin(impair(links, DELAYS, **LATE))
    wiring = there.lab.wiring
    assert wait_until(there.lab.toxic.__len__, 30)
    assert there.lab.toxic == {(each.host, each.proxy) for a, b in links for each in wiring.toxified(a, b)}
    streams = {(e[1], e[2], e[3].rsplit("-", 1)[1]) for e in there.lab.effects if e[0] == "toxic"}
    assert streams == {(each.host, each.proxy, each.stream) for a, b in links for each in wiring.toxified(a, b)}
    assert there.fis.word(there.run, FAULT).running and not there.lab.blocked
    there.end(drafted)
    assert there.well()


def test_a_document_that_outlives_its_experiment_is_cancelled_and_others_are_left(there: There) -> None:
    drafted = there.drafted(impair(TO_C, DELAYS, **LATE))
    (ours,) = drafted.snapshot["commands"]
    parameters = {name: [value] for name, value in ours["parameters"].items()}
    sent = [
        there.on("ssm").send_command(DocumentName=DELAYS, InstanceIds=[id], Parameters=given)["Command"]["CommandId"]
        for id, given in zip(ours["instances"], (parameters, {**parameters, "DelayMilliseconds": ["50"]}), strict=True)
    ]
    assert wait_until(lambda: len(there.lab.toxic) == 16, 30)
    there.end(drafted)
    told = {each["CommandId"]: each["Status"] for each in there.fis._all("ssm", "list_commands", "Commands")}
    assert [told[id] for id in sent] == ["Cancelled", "InProgress"]
    assert {toxic for _, toxic in there.lab.toxic} and not there.well()
    there.fis.call("ssm", "cancel_command", CommandId=sent[1])
    assert there.well()


@pytest.mark.parametrize("what", ["deny", "error", "drop", "cut"])
@pytest.mark.parametrize("operation", ["ListCommands", "CancelCommand"])
def test_a_command_is_cancelled_whatever_becomes_of_a_call(there: There, operation: str, what: Any) -> None:
    drafted = there.drafted(impair(TO_C, DELAYS, **LATE))
    (ours,) = drafted.snapshot["commands"]
    given = {name: [value] for name, value in ours["parameters"].items()}
    there.on("ssm").send_command(DocumentName=DELAYS, InstanceIds=ours["instances"], Parameters=given)
    times = there.times
    times.what, times.operations, times.left = what, frozenset({operation}), 100 if what == "deny" else 1
    try:
        there.end(drafted)
    except FaultError:
        assert what in ("deny", "cut")
    else:
        assert what != "deny" and there.well()
    assert times.left < (100 if what == "deny" else 1)
    times.left = 0
    there.end(drafted)
    assert there.well()


def test_a_command_that_does_not_end_is_told(there: There, monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf(Fis):
        def call(self, service: str, operation: str, **given: Any) -> dict[str, Any]:
            return {} if operation == "cancel_command" else super().call(service, operation, **given)

    monkeypatch.setattr("chaos.target.existing.fis.COMMAND_SECONDS", 0.0)
    drafted = there.drafted(impair(TO_C, DELAYS, **LATE))
    (ours,) = drafted.snapshot["commands"]
    given = {name: [value] for name, value in ours["parameters"].items()}
    sent = there.on("ssm").send_command(DocumentName=DELAYS, InstanceIds=ours["instances"], Parameters=given)
    with pytest.raises(FaultError, match=f"not over after 0 s: {DELAYS}"):
        Deaf(there.file, "staging").end(there.run, FAULT, drafted.snapshot)
    there.fis.call("ssm", "cancel_command", CommandId=sent["Command"]["CommandId"])
    assert there.well()


def test_a_second_network_document_on_an_instance_is_refused(there: There) -> None:
    drafted = there.begin(impair(TO_C, DELAYS, **LATE))
    with pytest.raises(FaultError, match=f"no two network documents .*: {DELAYS} on i-"):
        there.drafted(impair({("a-cm", NODE), ("b-cm", NODE)}, DELAYS, **LATE))
    there.end(drafted)
    assert there.well()


def test_an_agent_that_is_not_online_is_told_before_anything_is_made(there: There) -> None:
    cut = there.begin(disrupt(ZONE_C, "all"))
    with pytest.raises(FaultError, match="the agent of Systems Manager is not online on i-"):
        there.drafted(impair(TO_C, DELAYS, **LATE))
    there.end(cut)
    assert there.well()


@pytest.mark.parametrize("links", [TO_C, AROUND_C], ids=["to", "around"])
def test_of_exactly_the_links_that_are_asked_for_all_packets_vanish(
    there: There, links: frozenset[tuple[str, str]]
) -> None:
    drafted = there.begin(impair(links, LOSES, LossPercent="100"))
    assert there.lab.blocked == links and not there.lab.toxic and there.fis.word(there.run, FAULT).running
    there.end(drafted)
    assert there.well()


@pytest.mark.parametrize(
    ("draft", "why"),
    [
        (impair(TO_C, DELAYS, **delays(Duration(0.3), Duration(0.02))), "JitterMilliseconds 0"),
        (impair(TO_C, LOSES, LossPercent="15"), "not 15 %"),
    ],
    ids=["jitter", "loss"],
)
def test_what_has_no_counterpart_in_a_lab_is_never_begun(there: There, draft: Any, why: str) -> None:
    drafted = there.drafted(draft)
    there.fis.make_template(there.run, FAULT, drafted.template)
    with pytest.raises(FaultError, match=f"did not come to run: failed .*{why}"):
        there.fis.start(there.run, FAULT, drafted.expected)
    assert not there.lab.toxic and not there.lab.blocked
    there.end(drafted)
    assert there.well()


CALLS = (
    "CreateExperimentTemplate",
    "StartExperiment",
    "GetExperiment",
    "ListExperiments",
    "ListExperimentTemplates",
    "ListExperimentResolvedTargets",
    "StopExperiment",
    "DeleteExperimentTemplate",
    "DescribeInstances",
)


SOME = {
    ("StartExperiment", "drop"),
    ("StartExperiment", "cut"),
    ("StopExperiment", "error"),
    ("ListExperiments", "cut"),
}


@pytest.mark.parametrize(
    ("operation", "what"),
    [
        pytest.param(call, what, marks=() if (call, what) in SOME else pytest.mark.full)
        for call in CALLS
        for what in ("deny", "throttle", "error", "drop", "cut")
    ],
)
def test_a_call_that_goes_wrong_makes_no_second_experiment_and_leaves_nothing(
    there: There, operation: str, what: Any
) -> None:
    times, drafted = there.times, there.drafted(stop_instances([NODE]))
    times.what, times.operations, times.left = what, frozenset({operation}), 100 if what == "deny" else 1
    with suppress(ChaosError):
        there.fis.make_template(there.run, FAULT, drafted.template)
        there.fis.start(there.run, FAULT, drafted.expected)
    with suppress(ChaosError):
        there.end(drafted)
    assert times.left < 100
    times.left = 0
    there.end(drafted)
    assert there.well(), there.fis.left()
    assert len(there.fis.experiments(there.run)) <= 1


@pytest.mark.parametrize(
    "denied",
    [{"GetExperiment"}, {"GetExperiment", "ListExperiments", "DescribeInstances"}],
    ids=["state", "every question"],
)
def test_a_stop_is_sent_before_anything_is_asked(there: There, denied: set[str]) -> None:
    drafted = there.begin(stop_instances([NODE]))
    (made,) = there.fis.experiments(there.run)
    there.times.seen.clear()
    there.times.what, there.times.operations, there.times.left = "deny", frozenset(denied), 1000
    with pytest.raises(FaultError, match="tampered with"):
        there.fis.end(there.run, FAULT, drafted.snapshot)
    assert there.times.seen[0] == "StopExperiment" and "StartInstances" in there.times.seen
    there.times.left = 0
    there.fis._await(made["id"], 30, lambda word: word.over, "to end")
    assert not there.lab.dead
    there.end(drafted)
    assert there.well()


LIVES: dict[str, Any] = {
    "node.stop": stop_instances([NODE]),
    "node.kill": kill_process([NODE], "SIGKILL"),
    "zone.isolation": disrupt(ZONE_C, "all"),
}


def limited(there: There, kind: str, less: str | None = None) -> set[str]:
    """Hold the endpoint to the runner's policy that is printed for a kind, less an action; all that it allows."""
    actions, documents = ACTIONS[kind]
    file = there.file
    role = printed.Wanted("aws", REGION, ACCOUNT, "staging", file.role, actions, documents)
    statements = printed.runner_role(role)["Statement"]
    kept = [{**each, "Action": [do for do in each["Action"] if do != less]} for each in statements]
    made = parse({"Statement": [each for each in kept if each["Action"]]})
    there.stands_in.endpoint = replace(there.stands_in.endpoint, policy=made)
    return {do for each in statements for do in each["Action"]}


@pytest.fixture
def free(there: There) -> Iterator[There]:
    yield there
    there.stands_in.endpoint = replace(there.stands_in.endpoint, policy=ALLOW_ALL)


@pytest.mark.parametrize("kind", LIVES)
def test_the_printed_policy_is_enough_for_a_life_from_the_look_before_to_its_undo(free: There, kind: str) -> None:
    limited(free, kind)
    assert free.fis.not_ready(nobody, [NODE]) == []
    assert free.fis.agents([each.id for each in free.fis.instances(nobody, [NODE]).values()])
    drafted = free.begin(LIVES[kind])
    free.end(drafted)
    assert free.well()


@pytest.mark.parametrize(
    "less",
    [
        "fis:CreateExperimentTemplate",
        "fis:TagResource",
        "fis:StartExperiment",
        "fis:StopExperiment",
        "fis:DeleteExperimentTemplate",
        "fis:GetExperiment",
        "fis:ListExperimentResolvedTargets",
        "iam:PassRole",
        "ec2:DescribeInstances",
        "ssm:DescribeInstanceInformation",
    ],
)
def test_less_one_action_of_the_printed_policy_something_is_denied(free: There, less: str) -> None:
    assert less in limited(free, "node.stop", less)
    drafted: Drafted | None = None
    with pytest.raises(FaultError, match="not authorized"):
        free.fis.agents([each.id for each in free.fis.instances(nobody, [NODE]).values()])
        drafted = free.drafted(LIVES["node.stop"])
        free.fis.make_template(free.run, FAULT, drafted.template)
        free.fis.start(free.run, FAULT, drafted.expected)
        free.end(drafted)
    free.stands_in.endpoint = replace(free.stands_in.endpoint, policy=ALLOW_ALL)
    free.end(drafted or free.drafted(LIVES["node.stop"]))
    assert free.well()


@pytest.mark.parametrize("what", ["tags", "actions"])
def test_a_template_that_is_not_the_one_that_was_asked_for_is_not_taken(
    there: There, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """As FIS answers for a token that somebody has used for another one."""
    drafted, call = there.drafted(stop_instances([NODE])), there.fis.call

    def another(service: str, operation: str, **given: Any) -> Any:
        answer = call(service, operation, **given)
        if operation == "create_experiment_template":
            made = answer["experimentTemplate"]
            answer["experimentTemplate"] = {**made, what: {**made[what], "other": made[what][next(iter(made[what]))]}}
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(there.fis, "call", another)
        with pytest.raises(FaultError, match="not the one that was asked for"):
            there.fis.make_template(there.run, FAULT, drafted.template)
    there.fis.drop_template(there.run, FAULT)
    assert there.well()


def test_what_is_made_from_an_export_is_named_with_the_way_out(there: There) -> None:
    drafted = there.drafted(stop_instances([NODE]))
    there.fis.make_template("export-0badcafe", FAULT, drafted.template)
    (says,) = there.fis.left()
    assert "made by hand from `fis export`" in says and "aws fis delete-experiment-template --id EXT" in says
    there.fis.drop_template("export-0badcafe", FAULT)
    assert there.well()


def test_another_machine_sends_the_stop_once_it_knows_the_id(there: There) -> None:
    drafted = there.begin(stop_instances([NODE]))
    elsewhere = Fis(there.fis.file, "staging")
    there.times.seen.clear()
    there.times.what, there.times.operations, there.times.left = "deny", frozenset({"GetExperiment"}), 1000
    with pytest.raises(FaultError, match="tampered with"):
        elsewhere.end(there.run, FAULT, drafted.snapshot)
    asked = [each for each in there.times.seen if each != "GetCallerIdentity"]
    assert list(dict.fromkeys(asked))[:2] == ["ListExperiments", "StopExperiment"], "each page of the list counts once"
    there.times.left = 0
    there.end(drafted)
    assert there.well()


def test_another_machine_ends_it_by_its_tags_alone(there: There) -> None:
    drafted = there.begin(stop_instances([NODE]))
    elsewhere = Fis(there.fis.file, "staging")
    elsewhere.end(there.run, FAULT, drafted.snapshot)
    elsewhere.drop_template(there.run, FAULT)
    assert there.well() and len(there.fis.experiments(there.run)) == 1


def test_a_network_acl_of_somebody_else_is_left_and_named(there: There) -> None:
    drafted = there.begin(disrupt(ZONE_C, "all"))
    (subnet,) = drafted.snapshot["acls"]
    described = there.ec2.describe_network_acls(Filters=[{"Name": "association.subnet-id", "Values": [subnet]}])
    (mine,) = [a for a in described["NetworkAcls"][0]["Associations"] if a["SubnetId"] == subnet]
    theirs = there.ec2.create_network_acl(VpcId=described["NetworkAcls"][0]["VpcId"])["NetworkAcl"]["NetworkAclId"]
    there.ec2.replace_network_acl_association(AssociationId=mine["NetworkAclAssociationId"], NetworkAclId=theirs)
    with pytest.raises(FaultError, match=f"{subnet} has {theirs}, which is neither what it had"):
        there.fis.end(there.run, FAULT, drafted.snapshot)
    assert there.fis.acls([subnet]) == {subnet: theirs}
    (now,) = there.ec2.describe_network_acls(NetworkAclIds=[theirs])["NetworkAcls"][0]["Associations"]
    before = drafted.snapshot["acls"][subnet]
    there.ec2.replace_network_acl_association(AssociationId=now["NetworkAclAssociationId"], NetworkAclId=before)
    there.end(drafted)
    assert there.well()


def test_other_targets_than_were_asked_for_are_no_experiment_of_ours(there: There) -> None:
    drafted, other = there.drafted(stop_instances([NODE])), there.drafted(stop_instances(["b-data"]))
    there.fis.make_template(there.run, FAULT, drafted.template)
    with pytest.raises(FaultError, match=r"FIS chose other targets than were asked for: .* too; not "):
        there.fis.start(there.run, FAULT, other.expected)
    there.fis.end(there.run, FAULT, {})  # FIS starts again what it stopped
    there.fis.call("ec2", "stop_instances", InstanceIds=list(drafted.snapshot["instances"]))  # as if it had not
    with pytest.raises(FaultError, match=r"i-\w+ was hit too, and is stop"):
        there.fis.end(there.run, FAULT, {})
    there.end(drafted)
    assert there.well()


@pytest.mark.parametrize(
    ("experiment", "actions", "running"),
    [
        ("running", {"a": "running"}, True),
        ("running", {"a": "completed", "b": "running"}, True),
        ("running", {"a": "pending"}, False),
        ("running", {"a": "running", "b": "skipped"}, False),
        ("running", {"a": "running", "b": "failed"}, False),
        ("running", {"a": "completed", "b": "cancelled"}, False),
        ("completed", {"a": "completed"}, False),
    ],
)
def test_it_runs_when_actions_have_begun_and_none_failed_or_was_skipped(
    there: There, experiment: str, actions: dict[str, str], running: bool
) -> None:
    class Said(Fis):
        def _told(self, service: str, operation: str, key: str, **given: Any) -> dict[str, Any]:
            states = {name: {"state": {"status": status}} for name, status in actions.items()}
            return {"state": {"status": experiment}, "actions": states}

    assert Said(there.file, "staging")._word("EXP1").running is running


class Told(Fis):
    """CloudWatch as its API is documented: composite alarms only for who asks for them. moto makes none."""

    def _all(self, service: str, operation: str, key: str, **given: Any) -> list[dict[str, Any]]:
        asked = given.get("AlarmTypes") or ["MetricAlarm"]
        there = {"MetricAlarms": ("MetricAlarm", standing.ALARM), "CompositeAlarms": ("CompositeAlarm", "of-several")}
        kind, name = there[key]
        return [{"AlarmName": name}] if kind in asked and name in given["AlarmNames"] else []


def test_composite_alarms_are_found_too_and_one_that_is_not_there_is_told(there: There) -> None:
    arn = f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:of-several"
    both = there.file.model_copy(update={"alarms": (*there.file.alarms, arn)})
    assert {each["AlarmName"] for each in Told(both, "staging").alarms()} == {standing.ALARM, "of-several"}
    with pytest.raises(FaultError, match="CloudWatch has no alarm of-several"):
        Fis(both, "staging").alarms()
    assert [each["StateValue"] for each in there.fis.alarms()] == ["OK"]


def test_an_experiment_that_somebody_stops_is_noticed(there: There) -> None:
    drafted = there.begin(stop_instances([NODE]))
    (made,) = there.fis.experiments(there.run)
    there.fis.call("fis", "stop_experiment", id=made["id"])
    there.fis._await(made["id"], 30, lambda word: word.over, "to end")
    there.fis._words.clear()
    assert "is over, and we did not stop it" in str(there.fis.ended_early())
    there.end(drafted)
    assert there.well()


def test_a_lever_that_is_engaged_meanwhile_ends_it_and_is_told_and_nothing_begins_after(there: There) -> None:
    drafted = there.begin(stop_instances([NODE]))
    lever = there.fis.clients.client("fis")
    lever.update_safety_lever_state(id="default", state={"status": "engaged", "reason": "a holiday"})
    try:
        (made,) = there.fis.experiments(there.run)
        there.fis._await(made["id"], 30, lambda word: word.over, "to end")
        there.fis._words.clear()
        word = there.fis.word(there.run, FAULT)
        assert word.over and not word.running and "safety lever was engaged" in word.says
        assert "is over, and we did not stop it" in str(there.fis.ended_early())
        there.end(drafted)
        (says,) = there.fis.not_ready(nobody, [NODE])
        assert "the safety lever is engaged: FIS would end every experiment (a holiday)" in says
        there.anew()
        again = there.drafted(stop_instances([NODE]))
        there.fis.make_template(there.run, FAULT, again.template)
        with pytest.raises(FaultError, match="did not come to run: cancelled"):
            there.fis.start(there.run, FAULT, again.expected)
        there.end(again)
    finally:
        lever.update_safety_lever_state(id="default", state={"status": "disengaged", "reason": "it is over"})
    assert there.well()


NOBODY = {"resourceType": "aws:ec2:instance", "resourceTags": {"chaos": "forbidden"}, "selectionMode": "ALL"}
FEW = {"resourceType": "aws:ec2:instance", "resourceTags": {mirror.NODE: NODE}, "selectionMode": "PERCENT(50)"}
SKIP = {"accountTargeting": "single-account", "emptyTargetResolutionMode": "skip"}


@pytest.mark.parametrize(
    ("target", "more", "says"),
    [
        (FEW, {}, "failed .*PERCENT.50. of 1 resources is none of them"),
        (FEW, {"experimentOptions": SKIP}, "failed .*PERCENT.50. of 1 resources is none of them"),
        (NOBODY, {}, "failed .*resolves to no resource"),
        (NOBODY, {"experimentOptions": SKIP}, "skipped"),
    ],
    ids=["percent of few", "percent, skip", "nobody", "nobody, skip"],
)
def test_an_experiment_that_hits_nobody_never_comes_to_run(
    there: There, target: dict[str, Any], more: dict[str, Any], says: str
) -> None:
    """Templates of ours name resources, all of them, and fail without them; these are as others write them."""
    drafted = there.drafted(stop_instances([NODE]))
    (name,) = drafted.template["targets"]
    there.fis.make_template(there.run, FAULT, {**drafted.template, "targets": {name: target}, **more})
    with pytest.raises(FaultError, match=f"did not come to run: .*{says}"):
        there.fis.start(there.run, FAULT, drafted.expected)
    assert not there.fis.word(there.run, FAULT, fresh=0.0).running and not there.lab.dead
    there.end(drafted)
    assert there.well()


def test_a_node_without_its_own_instance_is_refused(there: There) -> None:
    with pytest.raises(FaultError, match="no instances of EC2 are d-data"):
        there.fis.instances(nobody, ["d-data"])
    (id,) = [each.id for each in there.fis.instances(nobody, [NODE]).values()]
    there.ec2.create_tags(Resources=[id], Tags=[{"Key": mirror.NODE, "Value": "b-data"}])
    with pytest.raises(FaultError, match="2 instances of EC2 are b-data"):
        there.fis.instances(nobody, ["b-data"])
    there.ec2.create_tags(Resources=[id], Tags=[{"Key": mirror.NODE, "Value": NODE}])


def test_a_subnet_with_a_node_that_is_not_meant_is_refused(there: There) -> None:
    every = [node.name for node in there.lab.topology.nodes]
    with pytest.raises(FaultError, match=r"c-cm is in subnet-\w+ too, and would be cut off with c-data"):
        there.fis.subnets(nobody, [NODE], every)


def test_what_is_over_is_what_the_api_says_is_over() -> None:
    from chaos.fis_endpoint.engine import EXPERIMENT_MOVES

    assert {state for then in EXPERIMENT_MOVES.values() for state in then} - set(EXPERIMENT_MOVES) == set(OVER)


def test_a_terminated_instance_is_told_and_never_replaced(there: There) -> None:
    drafted = there.begin(stop_instances([NODE]))
    (id,) = drafted.snapshot["instances"]
    there.ec2.terminate_instances(InstanceIds=[id])
    with pytest.raises(FaultError, match="is terminated: nobody can start it again"):
        there.fis.end(there.run, FAULT, drafted.snapshot)
