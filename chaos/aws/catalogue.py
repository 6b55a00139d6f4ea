"""The actions of AWS FIS that matter here, and AWS's own SSM documents, as data: what they take, and what they leave.

From the FIS User Guide: "AWS FIS Actions reference" and "Use Systems Manager SSM documents with AWS FIS"
(docs.aws.amazon.com/fis/latest/userguide/fis-actions-reference.html and actions-ssm-agent.html, stored copies read on
2026-11-26). GetAction of AWS would say the same, and needs an account; nothing here was tried on one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from chaos.base.errors import InvalidInput

MINUTE, HOUR = 60, 3600
LONGEST = 12 * HOUR
"""Seconds that an action may last."""
MARGIN = 120
"""Seconds that an action must last longer than its document's fault. An action that ends first is ``completed``, and
the fault goes on: packages may be installed first (some 40 s), and the agent answers late."""

_ISO = re.compile(r"P(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,6})S)?)?", re.ASCII)
_WORTH = (24 * HOUR, HOUR, MINUTE, 1)


def seconds(text: str) -> int:
    """How long an ISO 8601 duration is: ``PT1M30S`` is 90. Whole days, hours, minutes and seconds only.

    Raises InvalidInput.
    """
    found = _ISO.fullmatch(text) if isinstance(text, str) else None
    if found is None or not any(found.groups()) or text.endswith("T"):
        raise InvalidInput(f"{text!r} is no ISO 8601 duration", remedy="write for example PT5M or PT1M30S")
    return sum(int(number) * worth for number, worth in zip(found.groups(), _WORTH, strict=True) if number)


def iso(whole: int) -> str:
    """An ISO 8601 duration of whole seconds: 90 is ``PT1M30S``. Raises InvalidInput for less than one."""
    if isinstance(whole, bool) or not isinstance(whole, int) or whole < 1:
        raise InvalidInput(f"{whole} is no duration", remedy="give one whole second or more")
    hours, rest = divmod(whole, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    return "PT" + "".join(f"{number}{unit}" for number, unit in ((hours, "H"), (minutes, "M"), (rest, "S")) if number)


# ---- what a parameter takes -----------------------------------------------------------------------------


class Takes(Protocol):
    """What a parameter's text may be."""

    def problem(self, text: str) -> str | None:
        """What is wrong with it, to follow its name; None where nothing is."""

    @property
    def words(self) -> str:
        """What it takes."""


@dataclass(frozen=True)
class IsoDuration:
    """Limits in seconds, both allowed."""

    lowest: int = MINUTE
    highest: int = LONGEST

    @property
    def words(self) -> str:
        return f"a duration from {iso(self.lowest)} to {iso(self.highest)}"

    def problem(self, text: str) -> str | None:
        try:
            within = self.lowest <= seconds(text) <= self.highest
        except InvalidInput as error:
            return f"is malformed: {error.message}"
        return None if within else f"is {text}, not {self.words}"


@dataclass(frozen=True)
class Whole:
    """A whole number in decimal digits. ``highest`` None: no limit is known."""

    lowest: int
    highest: int | None = None

    @property
    def words(self) -> str:
        upper = "" if self.highest is None else f" to {self.highest}"
        return f"a whole number from {self.lowest}{upper}"

    def problem(self, text: str) -> str | None:
        if not re.fullmatch(r"\d{1,12}", text, re.ASCII):
            return f"is {text!r}, not {self.words}"
        within = self.lowest <= int(text) and (self.highest is None or int(text) <= self.highest)
        return None if within else f"is {text}, not {self.words}"


@dataclass(frozen=True)
class Share:
    """A percentage with decimals, both limits allowed."""

    lowest: float
    highest: float = 100.0

    @property
    def words(self) -> str:
        return f"a percentage from {self.lowest:g} to {self.highest:g}"

    def problem(self, text: str) -> str | None:
        if not re.fullmatch(r"\d{1,3}(\.\d{1,6})?", text, re.ASCII) or not self.lowest <= float(text) <= self.highest:
            return f"is {text!r}, not {self.words}"
        return None


@dataclass(frozen=True)
class OneOf:
    values: tuple[str, ...]

    @property
    def words(self) -> str:
        return f"one of {', '.join(self.values)}"

    def problem(self, text: str) -> str | None:
        return None if text in self.values else f"is {text!r}, not {self.words}"


@dataclass(frozen=True)
class Some:
    """Values with commas between them and no spaces, each once. ``values`` None: ``pattern`` says what each is."""

    values: tuple[str, ...] | None = None
    pattern: str = r"\S+"
    what: str = "names"
    most: int | None = None

    @property
    def words(self) -> str:
        listed = self.what if self.values is None else f"some of {', '.join(self.values)}"
        return f"{listed}, separated by commas" + ("" if self.most is None else f", {self.most} at most")

    def problem(self, text: str) -> str | None:
        each = text.split(",")
        known = all(
            value in self.values if self.values is not None else re.fullmatch(self.pattern, value, re.ASCII)
            for value in each
        )
        fits = known and len(set(each)) == len(each) and (self.most is None or len(each) <= self.most)
        return None if fits else f"is {text!r}, not {self.words}"


@dataclass(frozen=True)
class Free:
    """Text that is not empty, of a pattern as a whole."""

    pattern: str = r"\S+"
    words: str = "text without spaces"

    def problem(self, text: str) -> str | None:
        return None if re.fullmatch(self.pattern, text, re.ASCII) else f"is {text!r}, not {self.words}"


@dataclass(frozen=True)
class Parameter:
    """``default``: what AWS takes where it is left out, None where there is none."""

    name: str
    takes: Takes
    required: bool = False
    default: str | None = None


# ---- actions --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Action:
    """``target``: the action's key and the type of resources that it takes, None where it has no targets. ``ends``:
    what happens at its end or when it is stopped.

    ``iam``: what the experiment's role must be allowed to do; ``reads``: what it must be allowed to look at.
    """

    id: str
    target: tuple[str, str] | None
    parameters: tuple[Parameter, ...]
    ends: str
    iam: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()

    def parameter(self, name: str) -> Parameter | None:
        return next((each for each in self.parameters if each.name == name), None)


_INSTANCES = ("Instances", "aws:ec2:instance")
_VOLUMES = ("Volumes", "aws:ec2:ebs-volume")
_DURATION = Parameter("duration", IsoDuration(), required=True)
_SHORT = Parameter("duration", IsoDuration(lowest=1), required=True)
_LATENCY = Whole(1, 60_000)
_FALSE = OneOf(("true", "false"))
_DOCUMENT_ARN = Free(
    r"arn:aws[a-z-]*:ssm:[a-z0-9-]+:(\d{12})?:document/[A-Za-z0-9_.\-:/]{3,128}", "the ARN of an SSM document"
)
_ALARM_ARN = r"arn:aws[a-z-]*:cloudwatch:[a-z0-9-]+:\d{12}:alarm:[^,\s]+"

ACTIONS: Mapping[str, Action] = {
    each.id: each
    for each in (
        Action(
            "aws:ec2:stop-instances",
            _INSTANCES,
            (
                Parameter("startInstancesAfterDuration", IsoDuration()),
                Parameter("completeIfInstancesTerminated", _FALSE, default="false"),
            ),
            "the instances are started after startInstancesAfterDuration or at a stop; without it they never are",
            iam=("ec2:StopInstances", "ec2:StartInstances", "kms:CreateGrant"),
            reads=("ec2:DescribeInstances",),
        ),
        Action(
            "aws:ec2:reboot-instances",
            _INSTANCES,
            (),
            "nothing: a reboot cannot be taken back",
            iam=("ec2:RebootInstances",),
            reads=("ec2:DescribeInstances",),
        ),
        Action(
            "aws:ec2:terminate-instances",
            _INSTANCES,
            (),
            "nothing: the instances are gone, and only their Auto Scaling group makes others",
            iam=("ec2:TerminateInstances",),
            reads=("ec2:DescribeInstances",),
        ),
        Action(
            "aws:ebs:pause-volume-io",
            _VOLUMES,
            (_SHORT,),
            "reads and writes of the volumes go on",
            iam=("ec2:PauseVolumeIO",),
            reads=("ec2:DescribeVolumes", "tag:GetResources"),
        ),
        Action(
            "aws:ebs:volume-io-latency",
            _VOLUMES,
            (
                _SHORT,
                Parameter("readIOPercentage", Share(0.1), default="100"),
                Parameter("readIOLatencyMilliseconds", _LATENCY, default="100"),
                Parameter("writeIOPercentage", Share(0.1), default="100"),
                Parameter("writeIOLatencyMilliseconds", _LATENCY, default="100"),
            ),
            "reads and writes of the volumes are as fast as before",
            iam=("ec2:InjectVolumeIOLatency",),
            reads=("ec2:DescribeVolumes", "tag:GetResources"),
        ),
        Action(
            "aws:network:disrupt-connectivity",
            ("Subnets", "aws:ec2:subnet"),
            (
                _DURATION,
                Parameter(
                    "scope",
                    OneOf(("all", "availability-zone", "dynamodb", "prefix-list", "s3", "s3express", "vpc")),
                    required=True,
                ),
                Parameter("prefixListIdentifier", Free()),
            ),
            "the subnets have their own network ACLs again, and the clones with the denials are deleted",
            iam=(
                "ec2:CreateNetworkAcl",
                "ec2:CreateNetworkAclEntry",
                "ec2:CreateTags",
                "ec2:DeleteNetworkAcl",
                "ec2:ReplaceNetworkAclAssociation",
            ),
            reads=(
                "ec2:DescribeManagedPrefixLists",
                "ec2:DescribeNetworkAcls",
                "ec2:DescribeSubnets",
                "ec2:DescribeVpcs",
                "ec2:GetManagedPrefixListEntries",
            ),
        ),
        Action(
            "aws:ssm:send-command",
            _INSTANCES,
            (
                _DURATION,
                Parameter("documentArn", _DOCUMENT_ARN, required=True),
                Parameter("documentVersion", Free(r"\$DEFAULT|\$LATEST|[1-9]\d*", "a number, $DEFAULT or $LATEST")),
                Parameter("documentParameters", Free(words="JSON without spaces")),
            ),
            "a command that still runs is cancelled when the action is stopped, and its document rolls back; one that "
            "runs longer than the action goes on, and the action is completed",
            iam=("ssm:SendCommand", "ssm:ListCommands", "ssm:CancelCommand"),
        ),
        Action(
            "aws:fis:wait",
            None,
            (_DURATION,),
            "nothing",
        ),
        Action(
            "aws:eks:pod-delete",
            ("Pods", "aws:eks:pod"),
            (
                Parameter("kubernetesServiceAccount", Free(), required=True),
                Parameter("gracePeriodSeconds", Whole(0)),
                Parameter("maxErrorsPercent", Whole(0, 100), default="0"),
                Parameter("fisPodContainerImage", Free()),
                Parameter("fisPodLabels", Free()),
                Parameter("fisPodAnnotations", Free()),
                Parameter("fisPodSecurityPolicy", OneOf(("privileged", "baseline", "restricted"))),
            ),
            "nothing: Kubernetes makes another pod where a controller wants one",
            reads=("eks:DescribeCluster", "ec2:DescribeSubnets", "tag:GetResources"),
        ),
        Action(
            "aws:arc:start-zonal-autoshift",
            ("ManagedResources", "aws:arc:zonal-shift-managed-resource"),
            (
                _DURATION,
                Parameter("availabilityZoneIdentifier", Free(r"[a-z0-9-]+", "a zone's name or id"), required=True),
                Parameter("managedResourceTypes", Some(("ASG", "ALB", "NLB", "EKS")), required=True),
                Parameter("zonalAutoshiftStatus", OneOf(("ENABLED", "DISABLED", "ANY")), default="ENABLED"),
            ),
            "traffic comes back to the zone: FIS renews shifts that last one minute, and lets the last one expire",
            iam=(
                "arc-zonal-shift:StartZonalShift",
                "arc-zonal-shift:UpdateZonalShift",
                "arc-zonal-shift:CancelZonalShift",
            ),
            reads=(
                "arc-zonal-shift:GetManagedResource",
                "arc-zonal-shift:ListManagedResources",
                "autoscaling:DescribeTags",
                "tag:GetResources",
            ),
        ),
        Action(
            "aws:cloudwatch:assert-alarm-state",
            None,
            (
                Parameter("alarmArns", Some(pattern=_ALARM_ARN, what="ARNs of alarms", most=5), required=True),
                Parameter("alarmStates", Some(("OK", "ALARM", "INSUFFICIENT_DATA")), required=True),
            ),
            "nothing",
            reads=("cloudwatch:DescribeAlarms",),
        ),
    )
}
"""By id. ``aws:eks:pod-delete`` is here so that it can be refused by name. Latency below 10 ms is for io2 volumes only,
which an action does not say of its volumes."""


def problems(action_id: str, parameters: Mapping[str, str], targets: Mapping[str, Any]) -> list[str]:
    """What is wrong with an action of a template: its parameters as FIS takes them, its targets by their keys."""
    action = ACTIONS.get(action_id)
    if action is None:
        return [f"{action_id}: no such action is known here"]
    found = [f"{action_id}: {each}" for each in _of_parameters(action.parameters, parameters)]
    keys = set() if action.target is None else {action.target[0]}
    found += [f"{action_id}: lacks the target {key}" for key in sorted(keys - set(targets))]
    found += [
        f"{action_id}: takes {f'the target {action.target[0]}' if action.target else 'no targets'}, not {key}"
        for key in sorted(set(targets) - keys)
    ]
    return found + [f"{action_id}: {each}" for each in _together(action_id, parameters)]


def _of_parameters(known: Sequence[Parameter], given: Mapping[str, Any]) -> Iterator[str]:
    names = {each.name: each for each in known}
    for name, parameter in names.items():
        if parameter.required and name not in given:
            yield f"lacks the parameter {name}, {parameter.takes.words}"
    for name, value in given.items():
        if name not in names:
            yield f"takes no parameter {name}"
        elif not isinstance(value, str):
            yield f"{name} is {type(value).__name__}, not text"
        elif why := names[name].takes.problem(value):
            yield f"{name} {why}"


def _together(action_id: str, given: Mapping[str, Any]) -> Iterator[str]:
    """What parameters say of each other."""
    if "completeIfInstancesTerminated" in given and "startInstancesAfterDuration" not in given:
        yield "completeIfInstancesTerminated needs startInstancesAfterDuration"
    if action_id == "aws:network:disrupt-connectivity":
        if given.get("scope") == "prefix-list" and "prefixListIdentifier" not in given:
            yield "the scope prefix-list needs prefixListIdentifier"
        if given.get("scope") != "prefix-list" and "prefixListIdentifier" in given:
            yield "prefixListIdentifier is for the scope prefix-list only"
    if action_id == "aws:ssm:send-command" and isinstance(given.get("documentArn"), str):
        written = given.get("documentParameters", "{}")
        if isinstance(written, str):
            yield from document_problems(given["documentArn"], written, given.get("duration"))


# ---- AWS's documents ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Document:
    """An SSM document of AWS's. ``network``: no two of these may run on an instance at once. ``reads``: what the
    experiment's role must be allowed to look at beside what the action needs."""

    name: str
    parameters: tuple[Parameter, ...]
    network: bool = False
    reads: tuple[str, ...] = ()

    @property
    def lasts(self) -> bool:
        """Whether it has a fault with an end."""
        return any(each.name == "DurationSeconds" for each in self.parameters)

    def arn(self, region: str, partition: str = "aws") -> str:
        """Where it is in a region; it is AWS's, and has no account."""
        return f"arn:{partition}:ssm:{region}::document/{self.name}"


_LASTS = Parameter("DurationSeconds", Whole(1, LONGEST), required=True)
_INSTALL = Parameter("InstallDependencies", OneOf(("True", "False")), default="True")
_PERCENT = Whole(1, 100)
_INTERFACE = Parameter("Interface", Free(r"[A-Za-z0-9_.:@-]{1,32}", "the name of a network interface"), default="eth0")
_INTERFACES = Parameter(
    "Interface", Some(pattern=r"[A-Za-z0-9_.:@-]{1,32}", what="network interfaces, ALL or DEFAULT"), default="DEFAULT"
)
_TRAFFIC = Parameter("TrafficType", OneOf(("ingress", "egress")), default="ingress")
_SOURCES = Parameter(
    "Sources",
    Some(
        pattern=r"[A-Za-z0-9._-]+(/(3[0-2]|[12]?\d))?",
        what="IPv4 addresses, blocks of them, domains, zones, ALL, DYNAMODB or S3",
    ),
    required=True,
)
_FLOWS = Parameter("FlowsPercent", _PERCENT, default="100")
_DELAY = Parameter("DelayMilliseconds", Whole(0), default="200")
_LOSS = Parameter("LossPercent", _PERCENT, default="7")
_LOOKS_UP = ("ec2:DescribeInstances", "ec2:DescribeSubnets")
_WORKERS = Parameter("Workers", Whole(1), default="1")

DOCUMENTS: Mapping[str, Document] = {
    each.name: each
    for each in (
        Document(
            "AWSFIS-Run-CPU-Stress",
            (
                _LASTS,
                Parameter("CPU", Whole(0), default="0"),
                Parameter("LoadPercent", Whole(0, 100), default="100"),
                _INSTALL,
            ),
        ),
        Document("AWSFIS-Run-Disk-Fill", (_LASTS, Parameter("Percent", _PERCENT, default="95"), _INSTALL)),
        Document("AWSFIS-Run-IO-Stress", (_LASTS, _WORKERS, Parameter("Percent", _PERCENT, default="80"), _INSTALL)),
        Document(
            "AWSFIS-Run-Kill-Process",
            (
                Parameter("ProcessName", Free(), required=True),
                Parameter("Signal", OneOf(("SIGTERM", "SIGKILL")), default="SIGTERM"),
                _INSTALL,
            ),
        ),
        Document(
            "AWSFIS-Run-Memory-Stress", (_LASTS, _WORKERS, Parameter("Percent", _PERCENT, required=True), _INSTALL)
        ),
        Document(
            "AWSFIS-Run-Network-Blackhole-Port",
            (
                _LASTS,
                Parameter("Protocol", OneOf(("tcp", "udp")), required=True),
                Parameter("Port", Whole(1, 65535), required=True),
                _TRAFFIC,
                _INSTALL,
            ),
            network=True,
        ),
        Document("AWSFIS-Run-Network-Latency", (_LASTS, _INTERFACE, _DELAY, _INSTALL), network=True),
        Document(
            "AWSFIS-Run-Network-Latency-Sources",
            (
                _LASTS,
                _SOURCES,
                _INTERFACES,
                _DELAY,
                Parameter("JitterMilliseconds", Whole(0), default="10"),
                _FLOWS,
                _TRAFFIC,
                _INSTALL,
            ),
            network=True,
            reads=_LOOKS_UP,
        ),
        Document("AWSFIS-Run-Network-Packet-Loss", (_LASTS, _INTERFACE, _LOSS, _INSTALL), network=True),
        Document(
            "AWSFIS-Run-Network-Packet-Loss-Sources",
            (_LASTS, _SOURCES, _INTERFACES, _LOSS, _FLOWS, _TRAFFIC, _INSTALL),
            network=True,
            reads=_LOOKS_UP,
        ),
    )
}
"""By name. The limits of LoadPercent are AWS's; those of other percentages, of Port and of DurationSeconds follow from
what they mean. ``Sources`` are IPv4: IPv6 is not impaired, so that it is refused."""

_OWNED_BY_AWS = re.compile(r"arn:aws[a-z-]*:ssm:[a-z0-9-]+::document/(.+)", re.ASCII)


def document_parameters(parameters: Mapping[str, str | Sequence[str]]) -> str:
    """As FIS takes them: JSON in which no space stands, for those in values are escaped. Raises InvalidInput where it
    is too long."""
    written = json.dumps(parameters, separators=(",", ":")).replace(" ", "\\u0020")
    if len(written) > 1024:
        raise InvalidInput("the document's parameters are longer than 1024 characters", remedy="shorten them")
    return written


def document_problems(arn: str, parameters_json: str, duration: str | None = None) -> list[str]:
    """What is wrong with an SSM document and its parameters.

    ``duration``: the action's own, ISO 8601; where it is given, it must be :data:`MARGIN` longer than the fault. What a
    document that is not AWS's FIS's takes is its owner's matter: only the form is checked.
    """
    if _DOCUMENT_ARN.problem(arn):
        return [f"documentArn is {arn!r}, not {_DOCUMENT_ARN.words}"]
    found = _OWNED_BY_AWS.fullmatch(arn)
    name = found[1] if found else None
    given, why = _read(parameters_json)
    if why is not None:
        return [f"documentParameters {why}"]
    if name is None or not name.startswith("AWSFIS-"):
        return []
    document = DOCUMENTS.get(name)
    if document is None:
        return [f"{name}: AWS FIS has no such document that is known here"]
    lines = [f"{name}: {each}" for each in _of_parameters(document.parameters, given)]
    return lines + [f"{name}: {each}" for each in _too_short(document, given, duration)]


def _read(written: str) -> tuple[dict[str, Any], str | None]:
    """The parameters, lists of one value as that value; or why they cannot be read."""
    twice: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        twice.extend(sorted({name for name in names if names.count(name) > 1}))
        return dict(pairs)

    if re.search(r"\s", written):
        return {}, "has spaces, which FIS does not take: write compact JSON"
    try:
        given = json.loads(written, object_pairs_hook=once)
    except (ValueError, RecursionError):
        return {}, "is no JSON"
    if not isinstance(given, dict):
        return {}, "is not a JSON object"
    if twice:
        return {}, f"has {', '.join(twice)} twice"
    for name, value in given.items():
        texts = value if isinstance(value, list) else [value]
        if not texts or not all(isinstance(each, str) for each in texts):
            return {}, f"has {name}, which is neither text nor a list of texts"
    return {
        name: value[0] if isinstance(value, list) and len(value) == 1 else value for name, value in given.items()
    }, None


def _too_short(document: Document, given: Mapping[str, Any], duration: str | None) -> Iterator[str]:
    fault = given.get("DurationSeconds")
    if duration is None or not document.lasts or not isinstance(fault, str) or _LASTS.takes.problem(fault):
        return
    try:
        lasts = seconds(duration)
    except InvalidInput:
        return  # told of by the action's own parameter
    if lasts < int(fault) + MARGIN:
        yield (
            f"the action lasts {lasts} s, and must last {int(fault) + MARGIN} s or more: DurationSeconds and {MARGIN} s"
        )
