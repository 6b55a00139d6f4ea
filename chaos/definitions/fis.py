"""AWS FIS as a target's file has it: ``fis``. In which account and region, as which role, which instance a node is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from chaos.base.addresses import Address
from chaos.base.errors import InvalidInput
from chaos.base.units import Duration, Factor, Malformed, at_least
from chaos.definitions.base import Strict
from chaos.definitions.source import Problem

SHORTEST, LONGEST = Duration(60), Duration(12 * 3600)
"""Of an action of FIS: PT1M to PT12H (FIS User Guide, Actions reference)."""
MOST_ALARMS = 5
"""Stop conditions of a template (Quotas for AWS FIS)."""

NEVER = "AWS FIS by way of its documentation and its API's models: never run on AWS (docs/fis.md)"
STAND_IN = (
    "a stand-in for AWS FIS on this machine: it shows that targets, direction and duration survive translation, and "
    "nothing about AWS"
)

MANAGED_BY_AWS = re.compile(r"(\.es\.amazonaws\.com(\.cn)?|\.aos\.[a-z0-9-]+\.on\.(aws|amazonwebservices\.com\.cn))$")
"""How the names of Amazon OpenSearch Service's domains end; the second is the dual-stack one. An address of your own
(custom endpoint) tells nothing."""
IN_KUBERNETES = re.compile(r"(\.(svc|pod)|\.cluster\.local)$")
"""How names end that only pods of a cluster of Kubernetes can look up."""
PODS = "nodes that are pods on EKS are not hit by AWS FIS here: which pod it hit could not be shown"
INSTEAD_OF_PODS = "leave fis out, and name hooks of yours for faults on pods (docs/fis.md, Not there)"
INSTEAD_OF_DOMAINS = "name the domain instead: domain (docs/domain.md)"
_OF_PODS = ("eks", "kubernetes", "pod", "namespace", "selector", "label", "deployment", "statefulset")
"""How keys begin by which somebody would find nodes in Kubernetes."""


def _no_pods(given: Any) -> Any:
    """Raises Malformed where a file would find nodes in Kubernetes."""
    found = given if isinstance(given, dict) else {}
    for word in (*found, found.get("by")):
        if isinstance(word, str) and word.lower().startswith(_OF_PODS):
            raise Malformed(f"{word}: {PODS}: expected instances of EC2; {INSTEAD_OF_PODS}")
    return given


def _in_a_day(value: Duration) -> Duration:
    if value > LONGEST:
        raise Malformed(f"{value.text} is longer than FIS lets an action last: expected {LONGEST.text} or less")
    return value


def _loopback(text: Any) -> Any:
    try:
        address = Address.parse(str(text))
    except InvalidInput as error:
        raise Malformed(error.message, remedy=error.remedy) from None
    if address.host not in ("127.0.0.1", "::1") or address.tls:
        raise Malformed(
            f"{text} is not on this machine: an endpoint is for rehearsals with `opensearch-chaos fis-endpoint`, "
            "expected such as http://127.0.0.1:4566, and none at all for AWS"
        )
    return text


Loopback = Annotated[str, BeforeValidator(_loopback)]
Account = Annotated[str, Field(pattern=r"^[0-9]{12}$")]
Region = Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$")]
Role = Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/\S+$")]
Alarm = Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:cloudwatch:[a-z0-9-]+:[0-9]{12}:alarm:\S+$")]
Unit = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@-]*$")]


class Instances(Strict):
    """Which instance of EC2 a node is: one of these."""

    _no_pods = model_validator(mode="before")(_no_pods)

    by: Literal["private-ip"] | None = Field(
        default=None, description="private-ip: the instance with the address that the cluster says of the node"
    )
    tag: str | None = Field(
        default=None, min_length=1, max_length=128, description="the tag whose value is the node's name, such as Name"
    )
    attribute: str | None = Field(
        default=None, min_length=1, description="the node attribute whose value is the id of the instance"
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(each is not None for each in (self.by, self.tag, self.attribute)) != 1:
            raise Malformed("a node's instance is found in one way: expected by, tag or attribute")
        return self

    @property
    def says(self) -> str:
        """In words."""
        if self.by is not None:
            return "the private address that the cluster says"
        return f"the tag {self.tag}" if self.tag is not None else f"the node attribute {self.attribute}"


class FisFile(Strict):
    """What a run needs to have faults made by AWS FIS. Credentials are those that boto3 finds; none stand here."""

    _no_pods = model_validator(mode="before")(_no_pods)

    region: Region = Field(description="of the instances, for example eu-west-1")
    account: Account = Field(description="the account that must be the one that answers, 12 digits in quotes")
    role: Role = Field(description="as which FIS acts: `opensearch-chaos fis policy` prints what it needs")
    instances: Instances = Field(
        default_factory=lambda: Instances(by="private-ip"), description="how the instance of a node is found"
    )
    longest: Annotated[
        Duration, AfterValidator(_in_a_day), at_least(SHORTEST, "is less than FIS lets an action last")
    ] = Field(description="after which FIS ends a fault by itself, whoever is dead by then: 1m to 12h, for example 10m")
    alarms: tuple[Alarm, ...] = Field(
        default=(), max_length=MOST_ALARMS, description="alarms of CloudWatch that end a fault: FIS's stop conditions"
    )
    unit: Unit = Field(default="opensearch", description="the systemd unit of OpenSearch on the instances")
    profile: str | None = Field(
        default=None, min_length=1, description="whose credentials are used; default as boto3 finds them"
    )
    endpoint: Loopback | None = Field(
        default=None, description="of `opensearch-chaos fis-endpoint` on this machine; without it AWS itself is meant"
    )
    time_scale: Annotated[Factor, at_least(Factor(1), "would make time longer")] = Field(
        default=Factor(1), description="by which that endpoint divides durations, for example 10x; never of AWS"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.endpoint is None and float(self.time_scale) != 1:
            raise Malformed("AWS divides no durations: expected time_scale with an endpoint only")
        return self

    @property
    def local(self) -> bool:
        """Whether a stand-in on this machine is meant, and never AWS."""
        return self.endpoint is not None

    @property
    def says(self) -> str:
        """What a reader must know of any result by it."""
        if not self.local:
            return NEVER
        scale = f", with durations divided by {float(self.time_scale):g}" if float(self.time_scale) > 1 else ""
        return f"{STAND_IN}{scale}"

    @property
    def partition(self) -> str:
        """aws, aws-cn, aws-us-gov …"""
        return self.role.split(":")[1]

    @property
    def lasting(self) -> float:
        """Seconds by the wall's clock after which a fault has ended by itself."""
        return float(self.longest) / float(self.time_scale)


def check(fis: FisFile) -> Iterator[Problem]:
    """What belongs to another account or region."""
    if fis.role.split(":")[4] != fis.account:
        yield Problem(("fis", "role"), f"it is of account {fis.role.split(':')[4]}: expected one of {fis.account}")
    for number, alarm in enumerate(fis.alarms):
        region, account = re.split(":", alarm)[3:5]
        if (region, account) != (fis.region, fis.account):
            says = f"it is of {account} in {region}: expected an alarm of {fis.account} in {fis.region}"
            yield Problem(("fis", "alarms", number), says)


def check_hosts(hosts: Iterable[str], *, signed: bool) -> Iterator[Problem]:
    """What can be told of a cluster that is reached at ``hosts``, where FIS has no instances of its nodes to hit.

    ``signed``: whether requests to it are signed for AWS, as only Amazon OpenSearch Service takes them.
    """
    for host in sorted(set(hosts)):
        name = host.lower().rstrip(".")
        if MANAGED_BY_AWS.search(name):
            yield Problem(("fis",), f"{host} is {_DOMAIN}: expected no fis; {INSTEAD_OF_DOMAINS}", at_key=True)
            return
        if IN_KUBERNETES.search(name):
            yield Problem(("fis",), f"{host} is a name of Kubernetes's, and {PODS}; {INSTEAD_OF_PODS}", at_key=True)
            return
    if signed:
        says = f"requests that are signed for AWS (access.sigv4) go to {_DOMAIN}: expected no fis; {INSTEAD_OF_DOMAINS}"
        yield Problem(("fis",), says, at_key=True)


_DOMAIN = "a domain of Amazon OpenSearch Service, whose nodes are AWS's own and for which FIS has no action"
