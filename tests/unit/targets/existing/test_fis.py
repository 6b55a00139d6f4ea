"""Experiments of AWS FIS from template to restored: once, whatever becomes of a call, and nothing is left.

The endpoint, moto and boto3 are real; the lab behind them only remembers what was done to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import typer
from fakes import ROOT
from fishands import TinyLab, needs_moto
from fisrecord import World
from fisrecord import fault as of_kind
from fistamper import Times, tampering
from shipped import EXPERIMENTS

from chaos.aws import policy as printed
from chaos.aws.policy import ACTIONS
from chaos.base.errors import ChaosError, FaultError, InvalidInput, NotOurs
from chaos.base.units import Duration
from chaos.commands import preparing
from chaos.commands import rehearsing as asked
from chaos.commands.fis import fis_policy, fis_preflight, kinds_of, looks
from chaos.commands.planning_on import Planned
from chaos.definitions.existing import load_existing
from chaos.definitions.fis import FisFile
from chaos.definitions.steps import Scene
from chaos.faults.fault import Fault
from chaos.faults.kind import built
from chaos.faults.moves import Move, Reversible
from chaos.fis_endpoint import mirror, standing
from chaos.fis_endpoint.clients import ACCOUNT, REGION, client
from chaos.fis_endpoint.policy import ALLOW_ALL, Policy, parse, read
from chaos.fis_endpoint.server import Server
from chaos.fis_endpoint.standing import Standing
from chaos.providers.fis import DELAYS, LOSES, Drafted, delays, disrupt, impair, kill_process, reboot, stop_instances
from chaos.registry import PROVIDERS, load_experiment
from chaos.run import plan, recovering_on
from chaos.targets.existing.fis import HUNG_SECONDS, OVER, Fis
from chaos.targets.existing.fis_template import digest, unlike
from chaos.targets.existing.target import ExistingTarget
from chaos.targets.labs.processes import wait_until

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

    def as_at_first(self) -> None:
        """The endpoint allows all again, and no call goes wrong. What is in effect stays."""
        self.times.left = 0
        hold(self, ALLOW_ALL)

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

    @property
    def stands_file(self) -> FisFile:
        """What the target's file says of FIS."""
        return FisFile.model_validate(self.stands.fis | {"longest": "12h"})

    def well(self) -> bool:
        states = {each.state for each in mirror.Mirror(self.lab.id, self.stands.moto).instances().values()}
        whole = not self.lab.dead and not self.lab.blocked and not self.lab.toxic
        return states == {"running"} and whole and self.fis.left() == []

    def on(self, service: str) -> Any:
        """A client of a service by way of the endpoint."""
        return client(service, self.stands.url)


class Shared:
    """One endpoint for the tests of this file, since moto takes seconds to start; another one where a test left marks.

    So a test that fails does not make those after it fail.
    """

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._closing = ExitStack()
        self._made: There | None = None

    def sound(self) -> There:
        if self._made is not None:
            self._made.as_at_first()
            if not self._made.well():
                self.close()
        if self._made is None:
            self._made = self._closing.enter_context(stood(self._folders.mktemp("fis")))
        self._made.anew()
        return self._made

    def close(self) -> None:
        self._made = None
        self._closing.close()


@contextmanager
def stood(folder: Path) -> Iterator[There]:
    lab = TinyLab(f"fis-of-a-test-{next(NUMBERS)}")
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


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    needs_moto()
    made = Shared(tmp_path_factory)
    yield made
    made.close()


@pytest.fixture
def there(shared: Shared) -> There:
    return shared.sound()


@pytest.mark.parametrize(
    "left",
    ["a dead node", pytest.param("an experiment", marks=pytest.mark.full), "a policy", "calls that go wrong"],
)
def test_what_a_failed_test_leaves_does_not_reach_the_next_one(shared: Shared, left: str) -> None:
    there = shared.sound()
    if left == "a dead node":
        there.lab.stop_node(NODE)
    elif left == "an experiment":
        there.begin(disrupt(ZONE_C, "all"))
    elif left == "a policy":
        hold(there, parse({"Statement": {"Effect": "Deny", "Action": "*", "Resource": "*"}}))
    else:
        there.times.what, there.times.operations, there.times.left = "deny", frozenset(CALLS), 1000
    after = shared.sound()
    assert after.well() and after.fis.not_ready(nobody, [NODE]) == []
    assert (after is there) is (left in ("a policy", "calls that go wrong"))


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
    wanted = {(each.host, each.proxy, each.stream) for a, b in links for each in wiring.toxified(a, b)}

    def late() -> set[tuple[str, ...]]:
        """A whole look: the endpoint makes one toxic after the other."""
        toxics = [each for each in there.lab.effects.copy() if each[0] == "toxic"]
        return {(each[1], each[2], each[3].rsplit("-", 1)[1]) for each in toxics}

    assert wait_until(lambda: late() >= wanted, 30)
    assert late() == wanted
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

    monkeypatch.setattr("chaos.targets.existing.fis.COMMAND_SECONDS", 0.0)
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
    assert wait_until(lambda: there.lab.blocked >= links, 30)  # the endpoint blocks one link after the other
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


def limited(there: There, kind: str, less: str | None = None) -> None:
    """Hold the endpoint to the runner's policy that is printed for a kind, less an action."""
    statements = printed.runner_role(printed.wanted_for(there.file, "staging", [kind]))["Statement"]
    kept = [{**each, "Action": [do for do in each["Action"] if do != less]} for each in statements]
    hold(there, parse({"Statement": [each for each in kept if each["Action"]]}))


def hold(there: There, policy: Policy) -> None:
    there.stands_in.endpoint = replace(there.stands_in.endpoint, policy=policy)


@pytest.fixture
def free(there: There) -> Iterator[There]:
    yield there
    hold(there, ALLOW_ALL)


def on_cluster(there: There, folder: Path) -> ExistingTarget:
    """The target as a process of its own has it."""
    made = ExistingTarget(load_existing(target_file(there, folder)), there.lab.topology)
    made.run = there.run
    return made


def rows_of(there: ExistingTarget, kinds: list[str] | None = None) -> dict[str, tuple[str, bool | None]]:
    """What preflight looks at → what was seen, and whether it is well."""
    assert there.fis is not None
    return {what: (says, well) for what, says, well in looks(there, there.fis, kinds)}


def begun(there: ExistingTarget, fault: Fault) -> tuple[list[Reversible], list[str]]:
    """What was about to be done, and what was said of what failed."""
    found: list[Reversible] = []
    assert fault.read is not None
    try:
        for both in fault.read(there):
            found.append(both)
            both.move.apply(there)
    except FaultError as error:
        return found, [error.message]
    return found, []


def undone(there: ExistingTarget, found: list[Reversible]) -> list[str]:
    """What was said of what failed."""
    said = []
    for both in reversed(found):
        assert both.inverse is not None
        try:
            both.inverse.apply(there)
        except FaultError as error:
            said.append(error.message)
    return said


OFFERED = re.compile(rf"\b({'|'.join(map(re.escape, ACTIONS))})\b")
FILES = [each for each in EXPERIMENTS if OFFERED.search(each.read_text())]
SOON = {"instance-stopped.yaml", "process-killed.yaml", "subnet-disrupted.yaml"}
NOT_SERVED = {
    "active-zone-lost-2data.yaml",
    "active-zone-lost-uncontrolled.yaml",
    "active-zone-lost.yaml",
    "all-at-once.yaml",
    "network-blips.yaml",
    "no-manager-all-block.yaml",
    "no-manager-write-block.yaml",
    "one-way-loss.yaml",
    "rolling-restart-without-green.yaml",
    "rolling-restart.yaml",
    "store-hanging.yaml",
    "store-slow.yaml",
    "zone-black-hole-tuned.yaml",
    "zone-black-hole.yaml",
    "zone-power-loss.yaml",
    "zone-return-late.yaml",
    "zone-return.yaml",
}
"""Those of which FIS takes no fault: links of clients or services, what comes and goes, pauses, an order of return, a
restart by SIGKILL."""


def served(there: ExistingTarget, file: Path) -> dict[str, Fault]:
    """Kind → the first fault of an experiment that FIS takes there: rights depend on the kind alone."""
    offers, found = PROVIDERS.on(order=("fis",)), dict[str, Fault]()
    for each in plan.faults(load_experiment(file)):
        kind = each.params.kind
        if kind not in ACTIONS or kind in found:
            continue
        scene = Scene.of(there.topology, 1, each.id, there.topology.cluster_managers[0].name)
        with suppress(InvalidInput):
            found[kind] = built(each.params, each.id, scene, there.wiring, offers.meant(kind))
    return found


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(each, marks=() if each.name in SOON else pytest.mark.full, id=str(each.relative_to(ROOT)))
        for each in FILES
    ],
)
def test_a_shipped_experiment_has_its_faults_under_exactly_the_policy_that_is_printed_for_it(
    free: There, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = on_cluster(free, tmp_path)
    faults = served(there, file)
    assert bool(faults) is (file.name not in NOT_SERVED)
    if not faults:
        return
    fis_policy(tmp_path / "staging.yaml", [file])
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(json.loads(capsys.readouterr().out)["runner_role"]))
    hold(free, read(policy))
    assert {what: row for what, row in rows_of(there, kinds_of([file])).items() if row[1] is not True} == {}
    for fault in faults.values():
        found, said = begun(there, fault)
        assert [words for words in said if file.name in SOON or "not authorized" in words] == []
        assert undone(there, found) == []
    assert free.well()


def again_stopped(there: There, snapshot: dict[str, Any]) -> None:
    """As AWS leaves an instance whose start it could not bring about."""
    there.ec2.stop_instances(InstanceIds=list(snapshot["instances"]))


def again_cloned(there: There, snapshot: dict[str, Any]) -> None:
    """As AWS leaves subnets whose network ACL it could not put back."""
    World(there.lab, there.stands.moto).clone_again(snapshot)


def again_sent(there: There, snapshot: dict[str, Any]) -> None:
    """As a document that outlives its experiment."""
    (ours, *_) = snapshot["commands"]
    given = {name: [value] for name, value in ours["parameters"].items()}
    there.on("ssm").send_command(DocumentName=ours["document"], InstanceIds=ours["instances"][:1], Parameters=given)


LEFT: dict[str, Any] = {
    "node.stop": again_stopped,
    "node.kill": again_stopped,
    "node.restart": again_stopped,
    "zone.isolation": again_cloned,
    "network.latency": again_sent,
}
"""Kind → how AWS leaves it, so that all that puts it back is asked for."""
OF_AWS = {"iam:CreateServiceLinkedRole"}
"""What no request of ours needs: FIS has it asked for in our name, once in the life of an account."""


def rights(kind: str) -> set[str]:
    wanted = printed.Wanted("aws", REGION, ACCOUNT, "staging", standing.ROLE, *ACTIONS[kind])
    return {do for each in printed.runner_role(wanted)["Statement"] for do in each["Action"]} - OF_AWS


AT_ONCE = {
    "fis:StartExperiment",
    "fis:StopExperiment",
    "fis:GetExperimentTemplate",
    "ec2:StartInstances",
    "ec2:ReplaceNetworkAclAssociation",
    "ssm:CancelCommand",
    "iam:PassRole",
    "iam:SimulatePrincipalPolicy",
}
"""Those that each `make test` tries."""
LESS = [
    pytest.param(kind, do, marks=() if do in AT_ONCE else pytest.mark.full)
    for kind in LEFT
    for do in sorted(rights(kind) - (set() if kind == "node.stop" else rights("node.stop")))
]


@pytest.mark.parametrize(("kind", "less"), LESS)
def test_less_each_action_of_the_printed_policy_something_is_denied(
    free: There, kind: str, less: str, tmp_path: Path
) -> None:
    """From the look before to the undo by another machine, where AWS leaves something too."""
    there = on_cluster(free, tmp_path)
    limited(free, kind, less)
    said = [says for says, well in rows_of(there, [kind]).values() if well is not True]
    fault = of_kind(kind, there)
    found, failed = begun(there, fault)
    said += failed + undone(on_cluster(free, tmp_path), found)
    if len(found) == 2 and not said:
        hold(free, ALLOW_ALL)
        assert found[1].inverse is not None
        LEFT[kind](free, found[1].inverse.arguments["snapshot"])
        limited(free, kind, less)
        said += undone(on_cluster(free, tmp_path), found)
    hold(free, ALLOW_ALL)
    left = undone(on_cluster(free, tmp_path), found)
    if less == "ec2:DeleteNetworkAcl":
        assert left and all("whether it is of this fault is unknown: left so" in words for words in left), left
    else:
        assert left == [] and free.well()
    assert [words for words in said if "not authorized" in words], said


ROLE = standing.ROLE.rpartition("/")[2]
TRUST = "FIS's role"
RIGHTS = "what FIS's role may do"


@pytest.fixture
def iam(there: There) -> Iterator[Any]:
    """moto's, where the role is as it was afterwards."""
    client_ = client("iam", there.stands.moto)
    trust = client_.get_role(RoleName=ROLE)["Role"]["AssumeRolePolicyDocument"]
    given = client_.get_role_policy(RoleName=ROLE, PolicyName="opensearch-chaos")["PolicyDocument"]
    yield client_
    client_.update_assume_role_policy(RoleName=ROLE, PolicyDocument=json.dumps(trust))
    client_.put_role_policy(RoleName=ROLE, PolicyName="opensearch-chaos", PolicyDocument=json.dumps(given))


def less_of_the_role(iam: Any, *less: str) -> None:
    given = iam.get_role_policy(RoleName=ROLE, PolicyName="opensearch-chaos")["PolicyDocument"]
    for each in given["Statement"]:
        each["Action"] = [do for do in each["Action"] if do not in less] or ["s3:GetObject"]
    iam.put_role_policy(RoleName=ROLE, PolicyName="opensearch-chaos", PolicyDocument=json.dumps(given))


@pytest.mark.parametrize("less", ["ec2:StopInstances", "ec2:StartInstances", "tag:GetResources"])
def test_preflight_names_what_fis_s_role_lacks_for_what_is_to_be_made(
    there: There, iam: Any, tmp_path: Path, less: str
) -> None:
    made = on_cluster(there, tmp_path)
    less_of_the_role(iam, less)
    says, well = rows_of(made, ["node.stop"])[RIGHTS]
    assert well is False and f"lacks {less}" in says and "implicitDeny" in says
    says, well = rows_of(made)[RIGHTS]
    assert well is None and "for every fault that FIS offers it lacks" in says and less in says


def test_what_a_role_lacks_for_other_faults_is_no_matter(there: There, iam: Any, tmp_path: Path) -> None:
    less_of_the_role(iam, "ec2:StopInstances", "ec2:StartInstances")
    assert rows_of(on_cluster(there, tmp_path), ["zone.isolation"])[RIGHTS][1] is True


def test_the_tags_of_instances_are_what_the_role_s_conditions_are_judged_by(
    there: There, iam: Any, tmp_path: Path
) -> None:
    given = iam.get_role_policy(RoleName=ROLE, PolicyName="opensearch-chaos")["PolicyDocument"]
    text = json.dumps(given).replace('"allowed"', '"never"')
    iam.put_role_policy(RoleName=ROLE, PolicyName="opensearch-chaos", PolicyDocument=text)
    says, well = rows_of(on_cluster(there, tmp_path), ["node.stop"])[RIGHTS]
    assert well is False and "ec2:StopInstances on instance/i-" in says


def test_an_explicit_deny_and_a_role_that_is_not_there_are_told(there: There, iam: Any, tmp_path: Path) -> None:
    deny = {"Version": "2012-10-17", "Statement": {"Effect": "Deny", "Action": "ec2:Stop*", "Resource": "*"}}
    iam.put_role_policy(RoleName=ROLE, PolicyName="deny", PolicyDocument=json.dumps(deny))
    says, well = rows_of(on_cluster(there, tmp_path), ["node.stop"])[RIGHTS]
    iam.delete_role_policy(RoleName=ROLE, PolicyName="deny")
    assert well is False and "ec2:StopInstances" in says and "(explicitDeny)" in says
    missing = on_cluster(there, tmp_path)
    assert missing.fis is not None
    missing.fis.file = missing.fis.file.model_copy(update={"role": f"{standing.ROLE}-of-nobody"})
    rows = rows_of(missing, ["node.stop"])
    for what in (TRUST, RIGHTS):
        assert rows[what][1] is False and "NoSuchEntity" in rows[what][0]


@pytest.mark.parametrize(
    ("change", "well", "words"),
    [
        (("fis.amazonaws.com", "ec2.amazonaws.com"), False, "does not let fis.amazonaws.com take it"),
        (("sts:AssumeRole", "sts:TagSession"), False, "does not let fis.amazonaws.com take it"),
        (('"Allow"', '"Deny"'), False, "denies it"),
        ((f'"aws:SourceAccount": "{ACCOUNT}"', '"aws:SourceAccount": "210987654321"'), False, "for experiments of"),
        ((f"fis:{REGION}", "fis:us-east-1"), False, "for experiments of"),
        (("aws:SourceAccount", "aws:PrincipalOrgID"), None, "on a condition that is not judged here"),
    ],
)
def test_whether_fis_may_take_the_role_is_looked_at(
    there: There, iam: Any, tmp_path: Path, change: tuple[str, str], well: bool | None, words: str
) -> None:
    text = json.dumps(iam.get_role(RoleName=ROLE)["Role"]["AssumeRolePolicyDocument"])
    assert change[0] in text
    iam.update_assume_role_policy(RoleName=ROLE, PolicyDocument=text.replace(*change))
    seen = rows_of(on_cluster(there, tmp_path))[TRUST]
    assert seen[1] is well and words in seen[0]


@pytest.mark.parametrize(("less", "what"), [("iam:GetRole", TRUST), ("iam:SimulatePrincipalPolicy", RIGHTS)])
def test_a_role_that_may_not_be_looked_at_is_a_warning_and_no_ok(
    free: There,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    less: str,
    what: str,
) -> None:
    monkeypatch.setattr("chaos.commands.fis.mapped_on", lambda paths, there: [])  # it asks the cluster
    file = target_file(free, tmp_path)
    limited(free, "node.stop", less)
    with pytest.raises(typer.Exit) as ended:
        fis_preflight(file)
    output = capsys.readouterr().out
    (line,) = [each for each in output.splitlines() if what + ":" in each]
    assert line.split()[0] == "WARNING" and "not looked at, so it is not known" in line and "not authorized" in line
    assert ended.value.exit_code == 0 and output.splitlines()[-1] == "preflight: nothing refuses it, and 1 warning"
    limited(free, "node.stop")
    with pytest.raises(typer.Exit):
        fis_preflight(file)
    assert capsys.readouterr().out.splitlines()[-1] == "preflight: OK"


def test_an_instance_without_the_tag_that_the_printed_roles_need_is_refused_by_name(
    there: There, tmp_path: Path
) -> None:
    made, what = on_cluster(there, tmp_path), "tags of instances"
    (id,) = [each.id for each in there.fis.instances(nobody, [NODE]).values()]
    assert rows_of(made)[what] == ("all have the tag chaos = allowed that the printed roles need", True)
    there.ec2.delete_tags(Resources=[id], Tags=[{"Key": "chaos"}])
    assert rows_of(made)[what] == (f"{id} of {NODE} has not the tag chaos = allowed that the printed roles need", False)
    there.ec2.create_tags(Resources=[id], Tags=[{"Key": "chaos", "Value": "denied"}])
    assert rows_of(made)[what][1] is False
    there.ec2.create_tags(Resources=[id], Tags=[{"Key": "chaos", "Value": "allowed"}])
    assert rows_of(made)[what][1] is True


@pytest.mark.parametrize(("hangs", "before"), [("GetCallerIdentity", 0), ("GetSafetyLever", 1), ("DescribeAlarms", 2)])
def test_an_endpoint_that_hangs_costs_one_timeout_whatever_else_is_to_be_looked_at(
    there: There, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: str, before: int
) -> None:
    monkeypatch.setattr("chaos.aws.clients.READ_TIMEOUT", 0.3)
    made = on_cluster(there, tmp_path)
    assert made.fis is not None
    made.fis = Fis(made.fis.file, "staging", attempts=1)
    there.times.seen.clear()
    there.times.what, there.times.operations, there.times.left = "hang", frozenset({hangs}), 1000
    rows = list(rows_of(made).values())
    assert [well for _, well in rows] == [True] * before + [False] * (len(rows) - before)
    assert all(says.startswith("not asked: ") for says, _ in rows[before + 1 :])
    assert there.times.seen.count(hangs) == 1 and there.times.seen[-1] == hangs, "nothing more is asked"


def test_what_is_made_from_an_export_is_named_with_the_way_out(there: There) -> None:
    drafted = there.drafted(stop_instances([NODE]))
    there.fis.make_template("export-0badcafe", FAULT, drafted.template)
    (says,) = there.fis.left()
    assert "made by hand from `fis export`" in says and "aws fis delete-experiment-template --id EXT" in says
    there.fis.drop_template("export-0badcafe", FAULT)
    assert there.well()


def target_file(there: There, folder: Path) -> Path:
    """The target's file, of a cluster that nobody can ask."""
    nodes = {
        node.name: {"zone": node.zone, "roles": list(node.roles), "url": f"http://127.0.0.1:{port}"}
        for port, node in enumerate(there.lab.topology.nodes, 10)
    }
    written = {
        "apiVersion": "opensearch-chaos/v1",
        "kind": "existing",
        "name": "staging",
        "endpoints": ["http://127.0.0.1:9"],
        "identity": {"cluster_uuid": "c" * 22, "cluster_name": "shop"},
        "opensearch": there.lab.topology.version,
        "zones": {"names": {zone: zone for zone in there.lab.topology.zones}},
        "nodes": nodes,
        "fis": there.stands.fis | {"longest": "12h"},
    }
    file = folder / "staging.yaml"
    file.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in written.items()))
    return file


@pytest.fixture
def by_hand(there: There) -> Iterator[str]:
    """The id of a template that a person made from an export."""
    drafted, run = there.drafted(stop_instances([NODE])), f"export-{next(NUMBERS):08x}"
    there.fis.make_template(run, FAULT, drafted.template)
    (made,) = there.fis.templates(run)
    yield str(made["id"])
    there.fis.drop_template(run, FAULT)
    assert there.well()


def plan_on(there: There, folder: Path, experiment: str) -> Planned:
    """A plan that neither the cluster nor its file refuses."""
    target = load_existing(target_file(there, folder))
    made = load_experiment(ROOT / "experiments" / experiment)
    nothing: Any = None
    return Planned(made, target, nothing, [], [], [], "node", [], (), 1, date(2026, 1, 1))


@pytest.mark.parametrize("fis", [False, True], ids=["plan --on", "plan --fis"])
def test_a_plan_is_refused_by_a_template_made_from_an_export_with_the_way_out(
    there: There, by_hand: str, tmp_path: Path, fis: bool
) -> None:
    (made,) = asked.looked([plan_on(there, tmp_path, "fis/instance-stopped.yaml")])
    if fis:
        made = asked.rehearsed(made)
    ((where, row),) = made.refused
    assert (where, row.sign.value) == ("AWS FIS", "blocks") and made.rehearsed == ()
    assert f"aws fis delete-experiment-template --id {by_hand}" in row.says and "`fis export`" in row.says


def test_a_plan_says_what_a_dead_run_left_and_is_not_kept_by_it_where_no_fault_is_by_fis(
    there: There, tmp_path: Path
) -> None:
    drafted = there.drafted(stop_instances([NODE]))
    there.fis.make_template(there.run, FAULT, drafted.template)
    mine, other = (plan_on(there, tmp_path, name) for name in ("fis/instance-stopped.yaml", "standby/paused-node.yaml"))
    made, free = asked.looked([mine, other])
    assert [row.what for _, row in made.refused] == ["left of earlier runs"]
    assert "recover --on" in made.refused[0][1].remedy
    assert free.refused == []
    there.end(drafted)
    (now,) = asked.looked([mine])
    assert now.refused == [] and now.notes == (asked.hung(there.stands_file),) == made.notes and free.notes == ()


def test_a_plan_says_that_aws_does_not_say_and_asks_each_question_once(there: There, tmp_path: Path) -> None:
    there.times.seen.clear()
    there.times.what, there.times.operations, there.times.left = "throttle", frozenset({"ListExperiments"}), 1000
    (made,) = asked.looked([plan_on(there, tmp_path, "fis/instance-stopped.yaml")])
    assert made.refused == [] and "does not say what of ours is left" in made.notes[-1]
    assert there.times.seen.count("ListExperiments") == 1


def test_recover_names_a_template_made_from_an_export_and_never_says_that_nothing_is_left(
    there: There, by_hand: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recovering_on, "recover_on", lambda file, says: (0, []))  # the notes are undone
    file = target_file(there, tmp_path)
    assert recovered(file, capsys) == (
        0,
        "not ours to delete, and no run begins while it is there: "
        f"the template {by_hand} of FIS was made by hand from `fis export` and is no run's: delete it, "
        f"aws fis delete-experiment-template --id {by_hand} 0 moves undone",
    )
    assert [each["id"] for each in there.fis.templates()] == [by_hand]


def test_recover_is_dirty_where_a_run_s_template_is_left_or_aws_does_not_say(
    there: There, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recovering_on, "recover_on", lambda file, says: (0, []))
    file, drafted = target_file(there, tmp_path), there.drafted(stop_instances([NODE]))
    there.fis.make_template(there.run, FAULT, drafted.template)
    code, output = recovered(file, capsys)
    assert code == 6 and "could not: the template EXT" in output and "nothing is left behind" not in output
    monkeypatch.setattr(recovering_on, "_holder", lambda cluster, index: there.run)  # a run that has begun since
    assert recovered(file, capsys) == (0, "nothing is left behind")
    there.end(drafted)
    there.times.what, there.times.operations, there.times.left = "deny", frozenset({"ListExperiments"}), 1000
    code, output = recovered(file, capsys)
    assert code == 6 and "AWS does not say whether anything of ours is left" in output
    there.times.left = 0
    assert recovered(file, capsys) == (0, "nothing is left behind")


def test_how_long_a_fault_may_last_while_aws_answers_nothing_is_said_in_plans_and_docs(there: There) -> None:
    seconds = 2 * (5 * (5 + 30) + 1 + 2 + 4 + 8)
    assert seconds == HUNG_SECONDS == 380
    lasting = there.stands_file.lasting
    says = asked.hung(there.stands_file)
    assert f"may last {seconds} s past its phase" in says and f"ends it {lasting:.0f} s after its start" in says
    assert f"{seconds} s past its phase" in (ROOT / "docs" / "fis.md").read_text()


def recovered(file: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code and the words of `recover --on`, in one line."""
    with pytest.raises(typer.Exit) as ended:
        preparing.recover(file)
    return ended.value.exit_code, " ".join(capsys.readouterr().out.split())


def changed(there: There, *nodes: str) -> str:
    """Somebody adds the instances of these nodes to the targets of the run's template; its id."""
    (made,) = there.fis.templates(there.run)
    held = there.on("fis").get_experiment_template(id=made["id"])["experimentTemplate"]
    more = [each.arn for each in there.fis.instances(nobody, nodes).values()]
    targets = {name: {**each, "resourceArns": [*each["resourceArns"], *more]} for name, each in held["targets"].items()}
    there.on("fis").update_experiment_template(id=made["id"], targets=targets)
    return str(made["id"])


def written_down(move: Move | None) -> Move:
    """As another process reads it in a ledger or in the notes."""
    assert move is not None
    return Move.from_json(json.loads(json.dumps(move.to_json())))


def of_stop(there: There, folder: Path, kind: str = "node.stop") -> tuple[ExistingTarget, list[Reversible]]:
    made = on_cluster(there, folder)
    fault = of_kind(kind, made)
    assert fault.read is not None
    return made, list(fault.read(made))


@pytest.mark.parametrize("kind", ["node.stop", "node.kill"])
def test_whom_somebody_added_to_the_targets_is_known_to_the_keeper_and_to_recover(
    there: There, tmp_path: Path, kind: str
) -> None:
    made, (template, start) = of_stop(there, tmp_path, kind)
    template.move.apply(made)
    others = sorted({node.name for node in there.lab.topology.nodes} - set(made_nodes(there, start)))
    foreign = there.fis.instances(nobody, others[:1])[others[0]]
    changed(there, others[0])
    with pytest.raises(FaultError, match="FIS chose other targets"):
        start.move.apply(made)
    if kind == "node.stop":  # FIS starts it again; then it is as if FIS had not
        written_down(start.inverse).apply(on_cluster(there, tmp_path))
        there.fis.call("ec2", "stop_instances", InstanceIds=[foreign.id])
        says = f"{foreign.id} was hit too, and is stop"
    else:
        says = f"{foreign.id} was hit too, and runs; what else became of it is unknown"
    for _ in range(2):  # the keeper, and recover after it: neither has seen the run
        with pytest.raises(FaultError, match=says):
            written_down(start.inverse).apply(on_cluster(there, tmp_path))
    there.fis.call("ec2", "start_instances", InstanceIds=[foreign.id])
    there.lab.start_node(others[0])
    there.fis.drop_template(there.run, start.move.arguments["id"])
    assert there.well()


def made_nodes(there: There, start: Reversible) -> list[str]:
    """The nodes whose instances a start is to hit."""
    arns = {arn for each in start.move.arguments["expected"].values() for arn in each}
    every = [node.name for node in there.lab.topology.nodes]
    return [node for node, each in there.fis.instances(nobody, every).items() if each.arn in arns]


def test_where_fis_does_not_say_whom_it_hit_an_undo_is_not_clean(there: There, tmp_path: Path) -> None:
    made, moves = of_stop(there, tmp_path)
    for each in moves:
        each.move.apply(made)
    there.times.what, there.times.operations, there.times.left = (
        "deny",
        frozenset({"ListExperimentResolvedTargets"}),
        1000,
    )
    with pytest.raises(FaultError, match="whom FIS hit beside our targets is not known"):
        written_down(moves[1].inverse).apply(on_cluster(there, tmp_path))
    before = {name: value for name, value in moves[1].inverse.arguments["snapshot"].items() if name != "asked"}  # type: ignore[union-attr]
    on_cluster(there, tmp_path).fis.end(there.run, "f1", before)  # type: ignore[union-attr]
    there.times.left = 0
    assert undone(on_cluster(there, tmp_path), moves) == [] and there.well()


def test_a_template_that_a_token_brings_back_changed_is_refused_left_and_named(there: There, tmp_path: Path) -> None:
    made, (template, _) = of_stop(there, tmp_path)
    template.move.apply(made)
    id = changed(there, "b-data")
    again = on_cluster(there, tmp_path)
    with pytest.raises(FaultError, match=f"answered with the template {id}, which is not what was asked for: targets"):
        template.move.apply(again)
    with pytest.raises(NotOurs, match=f"left as it is: {id} .aws fis delete-experiment-template --id {id}"):
        written_down(template.inverse).apply(again)
    assert [each["id"] for each in there.fis.templates()] == [id]
    assert template.inverse is not None
    template.inverse.apply(made)  # by whom FIS told its id it is known
    assert there.well()


def copied(there: There, **changes: Any) -> str:
    """Somebody makes a template with the tags of the run's; its id."""
    (made,) = there.fis.templates(there.run)
    held = there.on("fis").get_experiment_template(id=made["id"])["experimentTemplate"]
    parts = ("description", "stopConditions", "targets", "actions", "roleArn", "tags")
    given = {part: held[part] for part in parts} | changes
    answer = there.on("fis").create_experiment_template(clientToken=f"copy-{next(NUMBERS)}", **given)
    return str(answer["experimentTemplate"]["id"])


def test_an_undo_deletes_only_the_template_that_the_run_made_and_names_others_with_its_tags(
    there: There, tmp_path: Path
) -> None:
    made, (template, _) = of_stop(there, tmp_path)
    template.move.apply(made)
    theirs = copied(there)
    with pytest.raises(NotOurs, match=theirs):  # here FIS told the id of ours
        written_down(template.inverse).apply(made)
    assert [each["id"] for each in there.fis.templates()] == [theirs]
    there.fis.call("fis", "delete_experiment_template", id=theirs)
    assert there.well()


def test_elsewhere_a_template_is_known_by_its_content_and_a_copy_cannot_be_told_from_it(
    there: There, tmp_path: Path
) -> None:
    there.run = f"{there.run}-elsewhere"
    made, (template, _) = of_stop(there, tmp_path)
    template.move.apply(made)
    (ours,) = [each["id"] for each in there.fis.templates(there.run)]
    other = {"wait": {"actionId": "aws:fis:wait", "parameters": {"duration": "PT2M"}}}
    theirs = copied(there, actions=other, targets={})
    with pytest.raises(NotOurs, match=theirs):
        written_down(template.inverse).apply(on_cluster(there, tmp_path))
    assert [each["id"] for each in there.fis.templates()] == [theirs]
    there.fis.call("fis", "delete_experiment_template", id=theirs)
    there.run = f"{there.run}-again"
    made, (template, _) = of_stop(there, tmp_path)
    template.move.apply(made)
    (ours,) = [each["id"] for each in there.fis.templates(there.run)]
    copy = copied(there)
    with pytest.raises(FaultError, match=f"({ours}, {copy}|{copy}, {ours}) are alike"):
        written_down(template.inverse).apply(on_cluster(there, tmp_path))
    assert {each["id"] for each in there.fis.templates()} == {ours, copy}
    old = written_down(template.inverse)
    del old.arguments["made"]  # of a ledger of before
    old.apply(on_cluster(there, tmp_path))
    assert there.well()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda each: each, []),
        (lambda each: {**each, "actions": {"wait": {"actionId": "aws:fis:wait", "startAfter": []}}}, ["actions.wait"]),
        (lambda each: {**each, "targets": {}}, ["targets.nodes"]),
        (lambda each: {**each, "roleArn": "arn:aws:iam::1:role/other"}, ["roleArn"]),
        (lambda each: {**each, "stopConditions": []}, ["stopConditions"]),
        (lambda each: {**each, "tags": {"run": "r2"}}, ["tags.run"]),
        (lambda each: {**each, "tags": {"run": "r1", "aws:of": "theirs"}}, []),
    ],
)
def test_in_what_a_template_is_not_what_was_asked_for(change: Any, says: list[str]) -> None:
    wait = {"actionId": "aws:fis:wait", "parameters": {"duration": "PT120S"}, "startAfter": ["a", "b"]}
    nodes = {"resourceType": "aws:ec2:instance", "resourceArns": ["arn:1", "arn:2"], "selectionMode": "ALL"}
    asked_for = {
        "targets": {"nodes": nodes},
        "actions": {"wait": {**wait, "targets": {}}},
        "roleArn": "arn:aws:iam::1:role/ours",
        "stopConditions": [{"source": "none"}],
        "tags": {"run": "r1"},
    }
    spelled = {"actionId": "aws:fis:wait", "parameters": {"duration": "PT2M"}, "startAfter": ["b", "a"]}
    got = {
        **asked_for,
        "actions": {"wait": spelled},
        "targets": {"nodes": {**nodes, "resourceArns": ["arn:2", "arn:1"], "filters": []}},
    }
    assert unlike(asked_for, change(got)) == says
    assert (digest(asked_for) == digest(change(got))) is not any(each[:7] in ("actions", "targets") for each in says)


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
