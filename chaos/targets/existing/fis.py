"""AWS FIS for a cluster that exists: whom an experiment would hit, its life, and what FIS does not put back.

A node is one instance, found anew each time it matters. What is made carries the run's name in its tags, so that
another machine finds it. Nothing is believed that FIS says of its success: it is waited for, and others look at the
effect. What stops an experiment puts back more than FIS does: instances that it leaves stopped, associations of network
ACLs, the service on an instance whose process was killed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from chaos.aws.clients import ANSWER_SECONDS, ATTEMPTS, Clients, in_words, paged
from chaos.aws.eks import cluster_of
from chaos.base.errors import ChaosError, FaultError, InvalidInput, LabError, NotOurs
from chaos.base.text import listed, one_line
from chaos.definitions.fis import INSTEAD_OF_PODS, PODS, FisFile
from chaos.targets.existing.fis_template import digest, unlike

RUN, FAULT, TARGET, SCALE = (f"opensearch-chaos:{name}" for name in ("run", "fault", "target", "time-scale"))
"""Tags of what we make."""
EXPORT = "export"
"""What the name of a run begins with in the tags of what `fis export` prints."""
MANAGED = ("managedByFIS", "managedbyFIS")
"""Tags of a network ACL that FIS made: its documentation has both."""
OVER = ("completed", "stopped", "failed", "cancelled")
"""States in which an experiment stays (FIS API, ExperimentState)."""
ASKED_AGAIN = 3
"""Times that a call is made whose answer was cut short."""
POLL_SECONDS, SCALED_POLL_SECONDS = 3.0, 0.25
FRESH_SECONDS = 2.0
"""A state that is no older than this is not asked for again."""
BEGIN_SECONDS = 180.0
"""From the start until an experiment runs: FIS resolves its targets and assumes its role meanwhile."""
END_SECONDS = 420.0
"""From a stop to its end: FIS waits until instances run again."""
BACK_SECONDS = 420.0
"""Until an instance that was stopped runs again."""
LOCAL_SECONDS = 120.0
"""Each of these two of a stand-in, whose instances are processes."""
QUESTIONS_BEFORE_STOP = 2
"""Of an experiment's state, whose answers an undo may have to wait for before it sends the stop: a look that is under
way when its phase ends, and the one right before the undo."""
HUNG_SECONDS = QUESTIONS_BEFORE_STOP * ANSWER_SECONDS
"""How long a fault may last past its phase while AWS answers nothing; no longer than ``longest`` in all."""
COMMAND_SECONDS = 120.0
SHELL = "AWS-RunShellScript"
COMMAND_OVER = ("Success", "Cancelled", "Failed", "TimedOut")
"""States in which a command stays (Systems Manager API, CommandStatus)."""
COMMAND_BEGUN = ("Pending", "InProgress")
WHERE_NODES_ARE = "/_nodes?filter_path=nodes.*.name,nodes.*.ip,nodes.*.attributes"

Ask = Callable[[str], tuple[int, Any]]
"""A GET of the cluster: status and decoded answer. Raises ChaosError where nobody answers."""


@dataclass(frozen=True)
class Instance:
    """The instance of a node, as EC2 has it now."""

    node: str
    id: str
    arn: str
    state: str
    subnet: str
    zone: str
    """The name of its availability zone."""
    addresses: tuple[str, ...] = ()
    """Private IPv4 addresses of all its network interfaces."""
    tags: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class Word:
    """What FIS says of an experiment of ours. ``status`` None: there is none."""

    status: str | None
    says: str

    @property
    def running(self) -> bool:
        return self.status == "running"

    @property
    def over(self) -> bool:
        """Nothing of it is under way, as far as FIS says."""
        return self.status is None or self.status in OVER


class Stops:
    """Stops of experiments, each sent once and before the experiment's state is asked for."""

    def __init__(self, fis: Fis) -> None:
        self._fis = fis
        self._refused: dict[str, FaultError | None] = {}

    def ask(self, id: str) -> None:
        """Send StopExperiment. A refusal is kept: the experiment may be over."""
        if id in self._refused:
            return
        self._refused[id] = None
        try:
            self._fis.call("fis", "stop_experiment", id=id)
        except FaultError as error:
            self._refused[id] = error

    def await_end(self, id: str, within: float) -> None:
        """Wait for its end, ``within`` seconds. Raises FaultError where that is not seen, and where its stop was
        refused and it goes on."""
        refused = self._refused.get(id)
        if refused is not None and not self._fis.is_over(id):
            raise refused
        self._fis.await_over(id, within)


class Fis:
    """FIS, EC2 and Systems Manager of one target. Every call raises FaultError or LabError in words."""

    def __init__(self, file: FisFile, target: str, *, attempts: int = ATTEMPTS) -> None:
        """``attempts``: of each request."""
        self.file, self.target, self._attempts = file, target, attempts
        self._words: dict[tuple[str, str], tuple[float, Word]] = {}
        self._ids: dict[tuple[str, str], str] = {}
        self._stopped: set[tuple[str, str]] = set()
        self._foreign: dict[tuple[str, str], list[str]] = {}
        self._cloned: dict[tuple[str, str], dict[str, str]] = {}
        """Of a fault: subnet → the network ACL of FIS's that it was seen with."""
        self._made: dict[tuple[str, str], str] = {}
        """The templates that were made here, by FIS's own answers."""

    @cached_property
    def clients(self) -> Clients:
        """Raises InvalidInput where it cannot be told that these speak to whom the file means."""
        file = self.file
        return Clients(
            file.region, profile=file.profile, endpoint=file.endpoint, account=file.account, attempts=self._attempts
        )

    @property
    def every(self) -> float:
        """Seconds between two looks at what is under way."""
        return SCALED_POLL_SECONDS if self.file.local else POLL_SECONDS

    def _patience(self, seconds: float) -> float:
        return min(seconds, LOCAL_SECONDS) if self.file.local else seconds

    def call(self, service: str, operation: str, **given: Any) -> dict[str, Any]:
        """One call. Raises FaultError with what AWS says."""
        with in_words(service, operation):
            answer: dict[str, Any] = getattr(self.clients.client(service), operation)(**given)
            return answer

    def _told(self, service: str, operation: str, key: str, **given: Any) -> dict[str, Any]:
        """What stands under ``key`` of an answer. botocore takes an answer that was cut short for one without members
        and raises nothing, so such a one is asked for again: with the same token, where there is one."""
        for _ in range(ASKED_AGAIN):
            if found := self.call(service, operation, **given).get(key):
                return dict(found)
        raise FaultError(f"{service} {operation}: an answer without {key}, {ASKED_AGAIN} times")

    def _all(self, service: str, operation: str, key: str, **given: Any) -> list[dict[str, Any]]:
        """Of all pages what stands under ``key``. A page without it, of services that always send it, is no page."""
        with in_words(service, operation):
            pages = paged(self.clients.client(service), operation, **given)
        if service in ("fis", "ssm") and any(key not in page for page in pages):
            raise FaultError(f"{service} {operation}: an answer without {key}")
        return [each for page in pages for each in page.get(key, [])]

    # ---- whom it is -----------------------------------------------------------------------------------------

    def instances(self, ask: Ask, nodes: Iterable[str]) -> dict[str, Instance]:
        """The instance of each of these nodes, as the cluster and EC2 say now.

        Raises FaultError for a node that has none, or more than one, and for an instance that is two nodes' own, and
        InvalidInput for one that is a node of EKS.
        """
        wanted = sorted(nodes)
        places = self._places(ask, wanted)
        found = self._described(places)
        made: dict[str, Instance] = {}
        for node in wanted:
            mine = [each for each in found if self._is_of(each, node, places[node])]
            if len(mine) != 1:
                ids = f": {', '.join(each['InstanceId'] for each in mine)}" if mine else ""
                raise FaultError(
                    f"{len(mine) or 'no'} instances of EC2 are {node} by {self.file.instances.says}{ids}",
                    remedy="correct fis.instances in the target's file, or the tags of the instances; a pod has none",
                )
            if cluster := cluster_of(mine[0].get("Tags", [])):
                its = f"{mine[0]['InstanceId']} of {node} is a node of the cluster {cluster} of Kubernetes"
                raise InvalidInput(f"{its}, and {PODS}", remedy=INSTEAD_OF_PODS)
            made[node] = self._instance(node, mine[0])
        owners: dict[str, str] = {}
        for each in made.values():
            if each.id in owners:
                raise FaultError(f"{each.id} would be {owners[each.id]} and {each.node}: expected an instance for each")
            owners[each.id] = each.node
        return made

    def _places(self, ask: Ask, nodes: Sequence[str]) -> dict[str, str]:
        """Node → by what its instance is found."""
        by = self.file.instances
        if by.tag is not None:
            return {node: node for node in nodes}
        try:
            status, answer = ask(WHERE_NODES_ARE)
            if status != 200:
                raise LabError(f"asking where the nodes are answered {status}")
            told = {each["name"]: each for each in answer["nodes"].values()}
        except (LookupError, TypeError, AttributeError) as error:
            raise LabError(f"the cluster does not say where its nodes are ({type(error).__name__})") from error
        found = {}
        for node in nodes:
            each = told.get(node) or {}
            place = each.get("ip") if by.attribute is None else (each.get("attributes") or {}).get(by.attribute)
            if not isinstance(place, str) or not place:
                raise FaultError(f"the cluster does not say {by.says} of {node}")
            found[node] = place
        return found

    def _described(self, places: Mapping[str, str]) -> list[dict[str, Any]]:
        by = self.file.instances
        values = sorted(set(places.values()))
        name = "private-ip-address" if by.by else f"tag:{by.tag}" if by.tag is not None else "instance-id"
        alive = {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}
        found: list[dict[str, Any]] = []
        for at in range(0, len(values), 100):
            filters = [{"Name": name, "Values": values[at : at + 100]}, alive]
            for reservation in self._all("ec2", "describe_instances", "Reservations", Filters=filters):
                found += reservation["Instances"]
        return found

    def _is_of(self, described: Mapping[str, Any], node: str, place: str) -> bool:
        by = self.file.instances
        if by.by:
            return bool(described.get("PrivateIpAddress") == place)
        if by.attribute is not None:
            return bool(described["InstanceId"] == place)
        return any(tag["Key"] == by.tag and tag["Value"] == node for tag in described.get("Tags", []))

    def _instance(self, node: str, described: Mapping[str, Any]) -> Instance:
        id = described["InstanceId"]
        file = self.file
        arn = f"arn:{file.partition}:ec2:{file.region}:{file.account}:instance/{id}"
        zone = (described.get("Placement") or {}).get("AvailabilityZone", "")
        cards = [card.get("PrivateIpAddresses") or [] for card in described.get("NetworkInterfaces") or []]
        addresses = {each["PrivateIpAddress"] for card in cards for each in card}
        addresses |= {described["PrivateIpAddress"]} if described.get("PrivateIpAddress") else set()
        state, subnet = described["State"]["Name"], described.get("SubnetId", "")
        tags = frozenset((tag["Key"], tag["Value"]) for tag in described.get("Tags", []))
        return Instance(node, id, arn, state, subnet, zone, tuple(sorted(addresses)), tags)

    def subnets(self, ask: Ask, inside: Sequence[str], every: Sequence[str]) -> dict[str, str]:
        """Subnet → its ARN, of those in which the nodes ``inside`` are. Raises FaultError where another node of the
        cluster (``every``) is in one of them too: it would be hit."""
        known = self.instances(ask, every)
        subnets = {known[node].subnet for node in inside}
        for node in sorted(set(every) - set(inside)):
            if known[node].subnet in subnets:
                raise FaultError(f"{node} is in {known[node].subnet} too, and would be cut off with {inside[0]}")
        if "" in subnets:
            raise FaultError(f"EC2 does not say in which subnet {listed(list(inside))} are")
        file = self.file
        return {s: f"arn:{file.partition}:ec2:{file.region}:{file.account}:subnet/{s}" for s in sorted(subnets)}

    def acls(self, subnets: Iterable[str]) -> dict[str, str]:
        """Subnet → the network ACL that it is associated with now."""
        wanted = sorted(subnets)
        if not wanted:
            return {}
        filters = [{"Name": "association.subnet-id", "Values": wanted}]
        found = {}
        for acl in self._all("ec2", "describe_network_acls", "NetworkAcls", Filters=filters):
            for each in acl["Associations"]:
                if each["SubnetId"] in wanted:
                    found[each["SubnetId"]] = acl["NetworkAclId"]
        if without := [each for each in wanted if each not in found]:
            raise FaultError(f"EC2 does not say which network ACL {', '.join(without)} has")
        return found

    def not_ready(self, ask: Ask, nodes: Iterable[str]) -> list[str]:
        """Why a run that begins now could make no fault here, in words; asked by reading alone. Raises ChaosError."""
        found = []
        answered = self.call("sts", "get_caller_identity")["Account"]
        if answered != self.file.account:
            return [f"account {answered} answers, and the file says {self.file.account}"]
        lever = self.lever()
        if lever["status"] != "disengaged":
            found.append(f"the safety lever is {lever['status']}: FIS would end every experiment{_why(lever)}")
        for each in self.alarms():
            if each["StateValue"] != "OK":
                found.append(f"the alarm {each['AlarmName']} is {each['StateValue']}: FIS starts nothing meanwhile")
        idle = [each for each in self.instances(ask, nodes).values() if each.state != "running"]
        found += [f"{each.id} of {each.node} is {each.state}" for each in idle]
        return found + self.left()

    def lever(self) -> dict[str, Any]:
        """The state of the safety lever of this account and region: ``status``, ``reason``."""
        state: dict[str, Any] = self._told("fis", "get_safety_lever", "safetyLever", id="default")["state"]
        return state

    def alarms(self) -> list[dict[str, Any]]:
        """The stop conditions' alarms as CloudWatch has them. Raises FaultError where one is not there."""
        names = [arn.split(":alarm:", 1)[1] for arn in self.file.alarms]
        if not names:
            return []
        found: list[dict[str, Any]] = []
        for key, kind in (("MetricAlarms", "MetricAlarm"), ("CompositeAlarms", "CompositeAlarm")):
            # of composite ones CloudWatch tells only who asks for them (DescribeAlarms, AlarmTypes)
            found += self._all("cloudwatch", "describe_alarms", key, AlarmNames=names, AlarmTypes=[kind])
        if without := sorted(set(names) - {each["AlarmName"] for each in found}):
            raise FaultError(f"CloudWatch has no alarm {', '.join(without)}")
        return found

    def role(self) -> dict[str, Any]:
        """As which FIS acts, as IAM has it. Raises FaultError where there is none."""
        return self._told("iam", "get_role", "Role", RoleName=self.file.role.rpartition("/")[2])

    def simulated(self, **given: Any) -> list[dict[str, Any]]:
        """IAM's simulation of what a principal may do: a result for each action, or for each action and resource."""
        return self._all("iam", "simulate_principal_policy", "EvaluationResults", **given)

    # ---- the life of an experiment --------------------------------------------------------------------------

    def tags(self, run: str, fault: str) -> dict[str, str]:
        return {RUN: run, FAULT: fault, TARGET: self.target, SCALE: self.file.time_scale.text}

    def stop_conditions(self) -> list[dict[str, str]]:
        alarms = [{"source": "aws:cloudwatch:alarm", "value": alarm} for alarm in self.file.alarms]
        return alarms or [{"source": "none"}]

    def whole(self, run: str, fault: str, template: Mapping[str, Any]) -> dict[str, Any]:
        """The request that makes a template. Its token is the fault's own, so that asking twice makes one."""
        return {
            "clientToken": token(run, fault, "template"),
            "description": f"opensearch-chaos {self.target}: {fault} of {run}"[:512],
            "stopConditions": self.stop_conditions(),
            "roleArn": self.file.role,
            "experimentOptions": {"accountTargeting": "single-account", "emptyTargetResolutionMode": "fail"},
            "tags": self.tags(run, fault),
            **template,
        }

    def make_template(self, run: str, fault: str, template: Mapping[str, Any]) -> None:
        """Raises FaultError where FIS answers with another one than was asked for: a token that was used before, or a
        template that somebody has changed since. It is left as it is."""
        asked = self.whole(run, fault, template)
        made = self._told("fis", "create_experiment_template", "experimentTemplate", **asked)
        if wrong := unlike(asked, made):
            raise FaultError(
                f"FIS answered with the template {made['id']}, which is not what was asked for: {', '.join(wrong)}"
            )
        self._made[run, fault] = made["id"]

    def templates(self, run: str | None = None, fault: str | None = None) -> list[dict[str, Any]]:
        """Of this target; of a run and a fault, where they are given."""
        every = self._all("fis", "list_experiment_templates", "experimentTemplates")
        return [each for each in every if self._ours(each, run, fault)]

    def drop_template(self, run: str, fault: str, made: str | None = None) -> None:
        """Delete the one that was made; nothing where there is none. Raises NotOurs where others have its tags, and
        FaultError where several could be it: these are left and named.

        It is known by the id that FIS answered here. Elsewhere by its tags and its content, whose :func:`digest` is
        ``made``; without that, as ledgers of before are, by its tags alone.
        """
        known = self._made.get((run, fault))
        found = [str(each["id"]) for each in self.templates(run, fault)]
        if known is not None:
            ours = [known] if known in found or self._template(known) is not None else []
        elif made is not None:
            ours = [id for id in found if (has := self._template(id)) is not None and digest(has) == made]
        else:
            ours = found
        if made is not None and len(ours) > 1:
            raise FaultError(
                f"{', '.join(ours)} are alike, and nothing tells which of them run {run} made for {fault}: delete the "
                f"others, aws fis delete-experiment-template --id ID"
            )
        others = [id for id in found if id not in ours]
        for id in ours:
            try:
                self.call("fis", "delete_experiment_template", id=id)
            except FaultError as error:
                if "ResourceNotFound" not in str(error):
                    raise
        self._made.pop((run, fault), None)
        if others:
            raise NotOurs(
                f"the tags of the template that run {run} made for {fault} are on what is not known to be it, and is "
                f"left as it is: {', '.join(others)} (aws fis delete-experiment-template --id {others[0]})"
            )

    def _template(self, id: str) -> dict[str, Any] | None:
        """None: there is none such."""
        try:
            return self._told("fis", "get_experiment_template", "experimentTemplate", id=id)
        except FaultError as error:
            if "ResourceNotFound" not in str(error):
                raise
            return None

    def experiments(self, run: str | None = None, fault: str | None = None) -> list[dict[str, Any]]:
        """As :meth:`templates`."""
        return [each for each in self._all("fis", "list_experiments", "experiments") if self._ours(each, run, fault)]

    def _ours(self, each: Mapping[str, Any], run: str | None, fault: str | None) -> bool:
        tags = each.get("tags") or {}
        wanted = {TARGET: self.target, **({RUN: run} if run else {}), **({FAULT: fault} if fault else {})}
        return RUN in tags and all(tags.get(key) == value for key, value in wanted.items())

    def start(self, run: str, fault: str, expected: Mapping[str, Sequence[str]]) -> None:
        """Start the experiment of a template of ours, and wait until it runs on exactly ``expected`` (target → ARNs).

        Raises FaultError where it does not come to run, or where FIS resolved its targets to others.
        """
        id = self._ids[run, fault] = self._started(run, fault, token(run, fault, "start"))
        self._await(id, BEGIN_SECONDS, lambda word: word.running or word.over, "to run")
        word = self.word(run, fault, fresh=0.0)
        if not word.running:
            raise FaultError(f"the experiment did not come to run: {word.says}")
        try:
            self._refuse_others(id, expected)
        except FaultError:
            asked = {arn for arns in expected.values() for arn in arns}
            self._foreign[run, fault] = sorted(set().union(*self._resolved(id).values()) - asked)
            raise
        every = [arn for arns in expected.values() for arn in arns]
        self._remember(run, fault, [arn.rpartition("/")[2] for arn in every if ":subnet/" in arn])

    def rehearse(self, run: str, fault: str, expected: Mapping[str, Sequence[str]]) -> str:
        """Start the experiment of a template of ours with every action skipped, and wait for its end: nothing is done
        to anybody. What FIS says of it.

        FIS resolves its targets and asks for no permission of its role then. Raises FaultError where it may not be
        started, does not complete, or chose others than ``expected`` (target → ARNs).
        """
        id = self._started(run, fault, token(run, fault, "rehearsal"), {"actionsMode": "skip-all"})
        self._await(id, BEGIN_SECONDS, lambda word: word.over, "to end")
        word = self._word(id)
        if word.status != "completed":
            raise FaultError(f"the experiment with its actions skipped did not complete: {word.says}")
        self._refuse_others(id, expected)
        return word.says

    def _started(self, run: str, fault: str, token: str, options: Mapping[str, str] | None = None) -> str:
        """The id of the experiment that this token stands for, of the one template of a fault."""
        made = self.templates(run, fault)
        if len(made) != 1:
            raise FaultError(f"FIS has {len(made)} templates of {fault}: expected one")
        given: dict[str, Any] = {"clientToken": token, "experimentTemplateId": made[0]["id"]}
        if options is not None:
            given["experimentOptions"] = dict(options)
        started = self._told("fis", "start_experiment", "experiment", **given, tags=self.tags(run, fault))
        return str(started["id"])

    def _refuse_others(self, id: str, expected: Mapping[str, Sequence[str]]) -> None:
        """Raises FaultError where FIS resolved the targets of an experiment to others than these."""
        resolved = self._resolved(id)
        wanted = {name: set(arns) for name, arns in expected.items()}
        if resolved != wanted:
            raise FaultError(f"FIS chose other targets than were asked for: {_difference(wanted, resolved)}")

    def _resolved(self, id: str) -> dict[str, set[str]]:
        """Target → ARNs. Which key of the answer's ``targetInformation`` holds them is in no documentation: every
        value of it that is an ARN counts."""
        found: dict[str, set[str]] = {}
        for each in self._all("fis", "list_experiment_resolved_targets", "resolvedTargets", experimentId=id):
            arns = {value for value in each["targetInformation"].values() if value.startswith("arn:")}
            if len(arns) != 1:
                raise FaultError(f"FIS does not say which resource target {each['targetName']} came to be")
            found.setdefault(each["targetName"], set()).update(arns)
        return found

    def word(self, run: str, fault: str, *, fresh: float = FRESH_SECONDS) -> Word:
        """What FIS says of the experiment of a fault, no older than ``fresh`` seconds."""
        at, last = self._words.get((run, fault), (float("-inf"), None))
        if last is not None and time.monotonic() - at <= fresh:
            return last
        began = time.monotonic()
        id = self._ids.get((run, fault))
        word = self._word(id) if id is not None else Word(None, "no experiment of it was started")
        self._words[run, fault] = began, word
        return word

    def _word(self, id: str) -> Word:
        found = self._told("fis", "get_experiment", "experiment", id=id)
        status = found["state"]["status"]
        actions = found.get("actions") or {}
        broken = [
            f"{name} {state['status']}{_why(state)}"
            for name, each in sorted(actions.items())
            if (state := each.get("state") or {}).get("status") in ("failed", "skipped", "cancelled")
        ]
        says = f"{status}{_why(found['state'])}"
        begun = {(each.get("state") or {}).get("status") for each in actions.values()} & {"running", "completed"}
        if status == "running" and not begun:  # it may be running before any of its actions is
            return Word("initiating", f"{says}, and none of its actions has begun")
        if status == "running" and broken:  # an action that did nothing proves nothing
            return Word("failed", f"{says}, and {'; '.join(broken)}")
        return Word(status, f"{says}{': ' + '; '.join(broken) if broken else ''}")

    def ended_early(self) -> str | None:
        """Why an experiment that was started here, and not stopped here, is over; None: none is, as far as is known.

        What cannot be asked now is asked again: the fault's own evidence notices that nobody says.
        """
        for run, fault in [each for each in self._ids if each not in self._stopped]:
            try:
                word = self.word(run, fault)
            except ChaosError:
                continue
            if word.over and (run, fault) not in self._stopped:
                return f"the experiment of AWS FIS for {fault} is over, and we did not stop it: {word.says}"
        return None

    def end(self, run: str, fault: str, snapshot: Mapping[str, Any], *, within: float = END_SECONDS) -> None:
        """Stop whatever of this fault is under way, wait for its end, and put back what FIS leaves. Idempotent; never
        starts anything of FIS's. ``within``: seconds that it is waited for.

        The stop of an experiment that was started here is sent before anything is asked. Elsewhere its id is found by
        its tags first (ListExperiments), and its stop is sent before its state is asked for.
        """
        failed: list[str] = []
        self._stopped.add((run, fault))
        stops = Stops(self)
        if known := self._ids.get((run, fault)):
            stops.ask(known)  # before any question: an answer that hangs must not keep a fault there
        found: list[str] = []
        every: list[str] = []
        try:
            for each in self.experiments(run, fault):
                every.append(each["id"])
                if (each.get("state") or {}).get("status") not in OVER:
                    stops.ask(each["id"])
                    found.append(each["id"])
        except ChaosError as error:
            failed.append(error.message)
        self._remember(run, fault, snapshot.get("acls") or ())  # the stop was just sent: FIS may not be done yet
        for id in dict.fromkeys([*([known] if known else []), *found]):
            self._ids[run, fault] = id
            try:
                stops.await_end(id, within)
            except ChaosError as error:
                failed.append(error.message)
        self._words.pop((run, fault), None)
        associate = partial(self._associate, seen=self._cloned.setdefault((run, fault), {}))
        for restore in (self._start_instances, associate, self._end_commands, self._start_service):
            try:
                restore(snapshot)
            except ChaosError as error:
                failed.append(error.message)
        try:
            hitting = dict.fromkeys([*every, *([known] if known else [])])
            failed += self._foreign_left(run, fault, snapshot, list(hitting))
        except ChaosError as error:
            failed.append(f"whom FIS hit beside our targets is not known: {error.message}")
        if failed:
            raise FaultError("; ".join(failed))

    def _foreign_left(self, run: str, fault: str, snapshot: Mapping[str, Any], experiments: Sequence[str]) -> list[str]:
        """What FIS hit that was not asked for, and is not seen as it should be: it is named, and left alone.

        FIS says whom an experiment hit, to any process; whom it should have hit is in the snapshot (``asked``), which
        those of ledgers of before have not. An instance that runs is seen as it should be where stopping it was all
        that was done. Raises FaultError where FIS or EC2 does not say.
        """
        hit = set(self._foreign.get((run, fault), []))
        if (asked := snapshot.get("asked")) is not None:
            hit |= {arn for id in experiments for arns in self._resolved(id).values() for arn in arns} - set(asked)
        foreign = sorted(hit)
        ids = [arn.rpartition("/")[2] for arn in foreign if ":instance/" in arn]
        states = self._states(ids) if ids else {}
        more = any(snapshot.get(part) for part in ("services", "commands", "acls"))
        left = [f"{id} was hit too, and is {states.get(id, 'unknown')}" for id in ids if states.get(id) != "running"]
        left += [
            f"{id} was hit too, and runs; what else became of it is unknown"
            for id in ids
            if more and states.get(id) == "running"
        ]
        others = [arn for arn in foreign if ":instance/" not in arn]
        return left + [f"{arn} was hit too, and what became of it is unknown" for arn in others]

    def is_over(self, id: str) -> bool:
        """Whether FIS says that this experiment is over. Raises FaultError."""
        return self._word(id).over

    def await_over(self, id: str, within: float) -> None:
        """Wait until FIS says that it is over, ``within`` seconds. Raises FaultError."""
        self._await(id, self._patience(within), lambda word: word.over, "to end")

    def _await(self, id: str, seconds: float, wanted: Callable[[Word], bool], what: str) -> None:
        end = time.monotonic() + seconds
        while True:
            word = self._word(id)
            if wanted(word):
                return
            if time.monotonic() >= end:
                raise FaultError(f"{id} takes more than {seconds:g} s {what}: {word.says}")
            time.sleep(self.every)

    # ---- what FIS does not put back -------------------------------------------------------------------------

    def _start_instances(self, snapshot: Mapping[str, Any]) -> None:
        """Those that ran before run again. One that is terminated is told, and is nobody's to bring back."""
        wanted = [id for id, state in (snapshot.get("instances") or {}).items() if state == "running"]
        seconds = self._patience(BACK_SECONDS)
        end = time.monotonic() + seconds
        for id in wanted:
            with suppress(FaultError):  # before any question; nothing for one that runs; one that stops is asked below
                self.call("ec2", "start_instances", InstanceIds=[id])
        asked: set[str] = set()
        while wanted:
            states = self._states(wanted)
            if gone := [id for id in wanted if states.get(id, "terminated") in ("terminated", "shutting-down")]:
                raise FaultError(f"{', '.join(gone)} is terminated: nobody can start it again")
            if all(state == "running" for state in states.values()):
                return
            stopped = [id for id, state in states.items() if state == "stopped" and id not in asked]
            if stopped:
                self.call("ec2", "start_instances", InstanceIds=stopped)
                asked |= set(stopped)
            if time.monotonic() >= end:
                late = ", ".join(f"{id} ({state})" for id, state in sorted(states.items()) if state != "running")
                raise FaultError(f"not running after {seconds:g} s: {late}")
            time.sleep(self.every)

    def _states(self, ids: Sequence[str]) -> dict[str, str]:
        filters = [{"Name": "instance-id", "Values": list(ids)}]
        return {
            each["InstanceId"]: each["State"]["Name"]
            for reservation in self._all("ec2", "describe_instances", "Reservations", Filters=filters)
            for each in reservation["Instances"]
        }

    def _remember(self, run: str, fault: str, subnets: Iterable[str]) -> None:
        """Which clones of FIS's these subnets have now. What is not answered is not known."""
        if not (wanted := sorted(subnets)):
            return
        filters = [{"Name": "association.subnet-id", "Values": wanted}]
        with suppress(ChaosError):
            found = self._all("ec2", "describe_network_acls", "NetworkAcls", Filters=filters)
            theirs = [(each["SubnetId"], acl) for acl in found if _by_fis(acl) for each in acl["Associations"]]
            has = {subnet: str(acl["NetworkAclId"]) for subnet, acl in theirs if subnet in wanted}
            self._cloned.setdefault((run, fault), {}).update(has)

    def _associate(self, snapshot: Mapping[str, Any], seen: dict[str, str] | None = None) -> None:
        """Subnets have the network ACL that they had, unless an external actor gave them another one meanwhile, and the
        clones that FIS gave them are deleted. Raises FaultError for what is left.

        ``seen``: which each was seen with before; what is seen now is added, so that the next undo of this process
        deletes what this one cannot. Another clone that no subnet has is of another experiment of FIS, and stays. Where
        of one subnet none was seen it could be this fault's: it is named.
        """
        before: Mapping[str, str] = snapshot.get("acls") or {}
        had = {} if seen is None else seen
        wrong = []
        for subnet, acl in self.acls(before).items():
            if acl == before[subnet]:
                continue
            described = self.call("ec2", "describe_network_acls", NetworkAclIds=[acl])["NetworkAcls"][0]
            if not _by_fis(described):
                wrong.append(f"{subnet} has {acl}, which is neither what it had ({before[subnet]}) nor FIS's: left so")
                continue
            had[subnet] = acl
            (mine,) = (a for a in described["Associations"] if a["SubnetId"] == subnet)
            self.call(
                "ec2",
                "replace_network_acl_association",
                AssociationId=mine["NetworkAclAssociationId"],
                NetworkAclId=before[subnet],
            )
        # others may have experiments of FIS in the same VPC
        others, unseen = snapshot.get("others") or (), set(before) - set(had)
        for clone in self._clones(before.values(), idle=True):
            if clone in others:
                continue
            if clone in had.values():
                wrong += self._undeleted(clone)
            elif unseen:
                wrong.append(
                    f"{clone} is FIS's and no subnet has it, and whether it is of this fault is unknown: left so; "
                    f"once nothing else needs it: {_deletion(clone)}"
                )
        if wrong:
            raise FaultError("; ".join(wrong))

    def _undeleted(self, clone: str) -> list[str]:
        """Delete a clone that a subnet of ours had; in words why it is still there, nothing where it is gone."""
        try:
            self.call("ec2", "delete_network_acl", NetworkAclId=clone)
        except FaultError as error:
            if "InvalidNetworkAclID.NotFound" not in error.message:
                return [f"{clone}, which FIS made of this fault, is still there: {error.message}; {_deletion(clone)}"]
        return []

    def before(self, subnets: Iterable[str]) -> dict[str, Any]:
        """For the snapshot of a fault: which network ACLs these subnets have (``acls``), and which FIS has made for
        others in the same VPCs (``others``; ledgers of before have none), which are not for us to delete."""
        acls = self.acls(subnets)
        return {"acls": acls, "others": self._clones(acls.values())}

    def _clones(self, acls: Iterable[str], *, idle: bool = False) -> list[str]:
        """Network ACLs of FIS's in the VPCs of these; ``idle``: that no subnet has."""
        wanted = sorted(set(acls))
        if not wanted:
            return []
        own = self._all("ec2", "describe_network_acls", "NetworkAcls", NetworkAclIds=wanted)
        filters = [{"Name": "vpc-id", "Values": sorted({each["VpcId"] for each in own})}]
        every = self._all("ec2", "describe_network_acls", "NetworkAcls", Filters=filters)
        return [each["NetworkAclId"] for each in every if _by_fis(each) and not (idle and each["Associations"])]

    def _start_service(self, snapshot: Mapping[str, Any]) -> None:
        """OpenSearch runs again on instances where its process was ended; starting what runs changes nothing. An
        instance that boots is waited for."""
        ids = list(snapshot.get("services") or ())
        if not ids:
            return
        command = f"systemctl start {self.file.unit}"
        try:
            self.run_on(ids, command)  # before any question
            return
        except FaultError:
            pass
        end = time.monotonic() + self._patience(BACK_SECONDS)
        while not self.agents(ids) >= set(ids) and time.monotonic() < end:
            time.sleep(self.every)
        self.run_on(ids, command)

    def run_on(self, ids: Sequence[str], command: str) -> None:
        """One line of shell on these instances by Systems Manager. Raises FaultError where it does not succeed."""
        given = {"InstanceIds": list(ids), "DocumentName": SHELL, "Parameters": {"commands": [command]}}
        sent = self._told("ssm", "send_command", "Command", **given, TimeoutSeconds=60)["CommandId"]
        end = time.monotonic() + COMMAND_SECONDS
        while True:
            told = self._all("ssm", "list_command_invocations", "CommandInvocations", CommandId=sent)
            states = {each["InstanceId"]: each["Status"] for each in told}
            if all(states.get(id) == "Success" for id in ids):
                return
            bad = [
                f"{id} {state}" for id, state in sorted(states.items()) if state in ("Failed", "TimedOut", "Cancelled")
            ]
            if bad or time.monotonic() >= end:
                waiting = ", ".join(f"{id} {states.get(id, 'silent')}" for id in ids)
                raise FaultError(f"`{command}` did not come through: {', '.join(bad) or waiting}")
            time.sleep(self.every)

    def _end_commands(self, snapshot: Mapping[str, Any]) -> None:
        """No command of the snapshot's (document, parameters, instances) goes on: a document may outlive the action
        that sent it. Each that does is cancelled, and waited for. Raises FaultError for one that does not end."""
        asked: set[str] = set()
        end = time.monotonic() + COMMAND_SECONDS
        while going := self._going(snapshot):
            for id in sorted(set(going) - asked):
                self.call("ssm", "cancel_command", CommandId=id)
            asked |= set(going)
            if time.monotonic() >= end:
                late = ", ".join(f"{document} ({id})" for id, document in sorted(going.items()))
                raise FaultError(f"cancelled, and not over after {COMMAND_SECONDS:g} s: {late}")
            time.sleep(self.every)

    def _going(self, snapshot: Mapping[str, Any]) -> dict[str, str]:
        """Command → its document, of those of the snapshot's that are not over."""
        found = {}
        for wanted in snapshot.get("commands") or ():
            for instance in wanted["instances"]:
                filters = [{"key": "DocumentName", "value": wanted["document"]}]
                for each in self._all("ssm", "list_commands", "Commands", InstanceId=instance, Filters=filters):
                    given = each.get("Parameters") or {}
                    if each["Status"] not in COMMAND_OVER and all(
                        given.get(name) == [value] for name, value in wanted["parameters"].items()
                    ):
                        found[each["CommandId"]] = wanted["document"]
        return found

    def begun(self, ids: Sequence[str], documents: Iterable[str]) -> list[str]:
        """Which of these documents runs on which of these instances now, in words."""
        known = set(documents)
        return [
            f"{each['DocumentName']} on {id}"
            for id in ids
            for status in COMMAND_BEGUN
            for each in self._all(
                "ssm", "list_commands", "Commands", InstanceId=id, Filters=[{"key": "Status", "value": status}]
            )
            if each["DocumentName"].rpartition("document/")[2] in known
        ]

    def agents(self, ids: Sequence[str]) -> set[str]:
        """Of these instances those whose agent of Systems Manager is online."""
        if not ids:
            return set()
        filters = [{"Key": "InstanceIds", "Values": list(ids)}]
        told = self._all("ssm", "describe_instance_information", "InstanceInformationList", Filters=filters)
        return {each["InstanceId"] for each in told if each.get("PingStatus") == "Online"}

    # ---- what is left ---------------------------------------------------------------------------------------

    def left(self, run: str | None = None) -> list[str]:
        """What of ours is still there, in words: experiments that are under way, and templates."""
        of_runs, by_hand = self.remaining(run)
        return of_runs + by_hand

    def remaining(self, run: str | None = None, *, but: str | None = None) -> tuple[list[str], list[str]]:
        """The same in two parts: what is a run's, without that of the run ``but``, and what was made by hand from an
        export. Raises ChaosError."""
        of_runs = [
            f"the experiment {each['id']} of FIS is {each['state']['status']}"
            for each in self.experiments(run)
            if each["state"]["status"] not in OVER and each["tags"][RUN] != but
        ]
        by_hand = []
        for each in self.templates(run):
            name = each["tags"][RUN]
            if is_export(name):
                by_hand.append(
                    f"the template {each['id']} of FIS was made by hand from `fis export` and is no run's: delete it, "
                    f"aws fis delete-experiment-template --id {each['id']}"
                )
            elif name != but:
                of_runs.append(f"the template {each['id']} of FIS is still there")
        return of_runs, by_hand


def is_export(run: str) -> bool:
    """Whether the tag of a run is that of `fis export`, of which the first ones had no id."""
    return run == EXPORT or run.startswith(f"{EXPORT}-")


def token(run: str, fault: str, what: str) -> str:
    """The client token of one operation of one fault: printable, without spaces, 1024 characters at most."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{run}.{fault}.{what}")[-512:]


def _deletion(acl: str) -> str:
    """The command that deletes a network ACL."""
    return f"aws ec2 delete-network-acl --network-acl-id {acl}"


def _by_fis(acl: Mapping[str, Any]) -> bool:
    return any(tag["Key"] in MANAGED for tag in acl.get("Tags", []))


def _why(state: Mapping[str, Any]) -> str:
    reason = one_line(str(state.get("reason") or ""))
    code = (state.get("error") or {}).get("code")
    return f" ({', '.join(each for each in (code, reason) if each)})" if code or reason else ""


def _difference(wanted: Mapping[str, set[str]], got: Mapping[str, set[str]]) -> str:
    def words() -> Iterator[str]:
        for name in sorted({*wanted, *got}):
            more, fewer = got.get(name, set()) - wanted.get(name, set()), wanted.get(name, set()) - got.get(name, set())
            if more:
                yield f"{', '.join(sorted(more))} too"
            if fewer:
                yield f"not {', '.join(sorted(fewer))}"

    return "; ".join(words())
