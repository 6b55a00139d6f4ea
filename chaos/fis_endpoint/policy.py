"""Who may do what: an IAM policy file by which the endpoint refuses operations, as IAM would.

Without a file everything is allowed. With one it is as in IAM: what no statement allows is denied, and an explicit Deny
wins. Conditions are judged for :data:`OPERATORS` and keys of tags; everything else that IAM knows and this does not
(NotAction, principals …) is refused when the file is read: a policy that is half understood would allow what its
writer denied.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from chaos.base.errors import InvalidInput

PREFIXES = {"monitoring": "cloudwatch", "tagging": "tag"}
"""Names by which requests are signed → names of the same services in IAM, where they differ."""
OPERATORS = ("StringEquals", "StringLike", "ArnLike", "Bool")
_KEY = re.compile(
    r"(aws|ec2|ssm):resourcetag/.+|aws:requesttag/.+|iam:passedtoservice|iam:awsservicename|kms:grantisforawsresource"
    r"|ec2:createaction",
    re.IGNORECASE,
)
_REMEDY = "write statements with Effect, Action and Resource"
_ACTION = re.compile(r"\*|[A-Za-z0-9*?-]+:[A-Za-z0-9*?]+")


@dataclass(frozen=True)
class Condition:
    """``key`` in lower case: keys of conditions have no case in IAM."""

    operator: str
    key: str
    values: tuple[str, ...]

    def holds(self, context: Mapping[str, str]) -> bool:
        """A key that a request has not meets no condition, as in IAM for these operators."""
        given = context.get(self.key)
        if given is None:
            return False
        if self.operator == "StringEquals":
            return given in self.values
        if self.operator == "Bool":
            return given.lower() in {each.lower() for each in self.values}
        return _pattern(self.values).fullmatch(given) is not None  # StringLike, ArnLike


@dataclass(frozen=True)
class On:
    """What a request is on. ``arn`` None: unknown. ``context``: keys of conditions in lower case, with their values."""

    arn: str | None
    context: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Statement:
    effect: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()

    @cached_property
    def _action(self) -> re.Pattern[str]:
        return _pattern(self.actions, re.IGNORECASE)

    @cached_property
    def _resource(self) -> re.Pattern[str]:
        return _pattern(self.resources)

    def meets(self, action: str, resource: str | None, context: Mapping[str, str] | None = None) -> bool:
        """``resource`` None: unknown; then a Deny of any resource meets it, and an Allow of all."""
        if not self._action.fullmatch(action):
            return False
        if not all(each.holds(context or {}) for each in self.conditions):
            return False
        if resource is None:
            return self.effect == "Deny" or "*" in self.resources
        return bool(self._resource.fullmatch(resource))


@dataclass(frozen=True)
class Policy:
    """``statements`` None: everything is allowed."""

    statements: tuple[Statement, ...] | None = None

    def denies(self, action: str, resources: Sequence[str | On | None]) -> str | None:
        """Why a caller may not do this, as AWS says it; None where it may. ``action``: ``fis:StartExperiment``."""
        if self.statements is None:
            return None
        for each_on in resources:
            on_what = each_on if isinstance(each_on, On) else On(each_on)
            resource = on_what.arn
            meeting = {each.effect for each in self.statements if each.meets(action, resource, on_what.context)}
            if meeting != {"Allow"}:
                on = "" if resource is None else f" on resource: {resource}"
                explicit = "with an explicit deny in" if "Deny" in meeting else "because no statement allows it in"
                return f"The caller is not authorized to perform: {action}{on} {explicit} the endpoint's policy"
        return None


ALLOW_ALL = Policy()


def read(file: Path) -> Policy:
    """Raises InvalidInput for a file that is no policy, or more than this understands."""
    try:
        given = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot read the policy {file}: {error}", remedy="name a file with JSON") from None
    return parse(given, str(file))


def parse(given: Any, name: str = "the policy") -> Policy:
    """A policy document. Raises InvalidInput."""
    if not isinstance(given, dict):
        raise InvalidInput(f"{name} is no JSON object", remedy=_REMEDY)
    _only(given, ("Version", "Id", "Statement"), name)
    if given.get("Version", "2012-10-17") not in ("2012-10-17", "2008-10-17"):
        raise InvalidInput(f"{name} has the Version {given['Version']}", remedy="write 2012-10-17")
    statements = given.get("Statement")
    every = [statements] if isinstance(statements, dict) else statements
    if not isinstance(every, list) or not every:
        raise InvalidInput(f"{name} has no Statement", remedy=_REMEDY)
    return Policy(tuple(_statement(each, f"{name}, statement {n}") for n, each in enumerate(every, 1)))


def resources_of(operation: str, params: Mapping[str, Any], arn: Callable[[str, str], str]) -> list[str]:
    """On what FIS authorises one of its operations (Service Authorization Reference). ``arn``: of a kind and an id.

    All of them must be allowed. ``*`` for operations that are on no resource.
    """
    template, experiment = "experiment-template", "experiment"
    if operation in ("CreateExperimentTemplate", "UpdateExperimentTemplate"):
        actions = [str(each["actionId"]) for each in _maps(params.get("actions")) if "actionId" in each]
        return [arn(template, str(params.get("id", "*"))), *(arn("action", each) for each in dict.fromkeys(actions))]
    if operation == "StartExperiment":
        return [arn(template, str(params.get("experimentTemplateId", "*"))), arn(experiment, "*")]
    if operation in ("TagResource", "UntagResource", "ListTagsForResource"):
        return [str(params["resourceArn"])]
    kinds = {
        "GetExperimentTemplate": (template, "id"),
        "DeleteExperimentTemplate": (template, "id"),
        "GetExperiment": (experiment, "id"),
        "StopExperiment": (experiment, "id"),
        "ListExperimentResolvedTargets": (experiment, "experimentId"),
        "GetAction": ("action", "id"),
        "GetSafetyLever": ("safety-lever", "id"),
        "UpdateSafetyLeverState": ("safety-lever", "id"),
    }
    if operation in kinds:
        kind, member = kinds[operation]
        return [arn(kind, str(params[member]))]
    return ["*"]


def _maps(given: Any) -> list[Mapping[str, Any]]:
    """The values of a map that nobody has validated yet."""
    return [each for each in given.values() if isinstance(each, dict)] if isinstance(given, dict) else []


def _statement(given: Any, where: str) -> Statement:
    if not isinstance(given, dict):
        raise InvalidInput(f"{where} is no JSON object", remedy=_REMEDY)
    _only(given, ("Sid", "Effect", "Action", "Resource", "Condition"), where)
    if given.get("Effect") not in ("Allow", "Deny"):
        raise InvalidInput(f"{where} has no Effect", remedy="write Allow or Deny")
    actions, resources = _texts(given, "Action", where), _texts(given, "Resource", where)
    for each in actions:
        if not _ACTION.fullmatch(each):
            raise InvalidInput(f"{where} has the Action {each}", remedy="write service:Operation, such as fis:Get*")
    for each in resources:
        if "${" in each:
            raise InvalidInput(
                f"{where} has a variable in its Resource, which the endpoint cannot judge", remedy="write *"
            )
    return Statement(str(given["Effect"]), actions, resources, _conditions(given.get("Condition"), where))


def _conditions(given: Any, where: str) -> tuple[Condition, ...]:
    """Raises InvalidInput for an operator or a key that the endpoint cannot judge."""
    found = []
    for operator, keys in (given or {}).items() if isinstance(given or {}, dict) else [(given, None)]:
        if operator not in OPERATORS or not isinstance(keys, dict):
            raise InvalidInput(
                f"{where} has the Condition {operator}, which the endpoint cannot judge",
                remedy=f"write one of {', '.join(OPERATORS)}, or leave it out",
            )
        for key in keys:
            if not _KEY.fullmatch(key):
                raise InvalidInput(
                    f"{where} has a Condition on {key}, which the endpoint cannot judge", remedy="leave it out"
                )
            values = _texts(keys, key, f"{where}, Condition")
            if any("${" in each for each in values):
                raise InvalidInput(
                    f"{where} has a variable in its Condition, which the endpoint cannot judge",
                    remedy="write the value",
                )
            found.append(Condition(operator, key.lower(), values))
    return tuple(found)


def _texts(given: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    value = given.get(name)
    every = [value] if isinstance(value, str) else value
    if not isinstance(every, list) or not every or not all(isinstance(each, str) and each for each in every):
        raise InvalidInput(f"{where} has no {name}", remedy=_REMEDY)
    return tuple(every)


def _only(given: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for name in given:
        if name not in known:
            raise InvalidInput(f"{where} has {name}, which the endpoint cannot judge", remedy=_REMEDY)


def _pattern(globs: Sequence[str], flags: int = 0) -> re.Pattern[str]:
    """IAM's wildcards: ``*`` any number of characters, ``?`` one."""
    each = ("".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in glob) for glob in globs)
    return re.compile("|".join(each), flags | re.DOTALL)
