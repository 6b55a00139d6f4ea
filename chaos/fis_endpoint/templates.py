"""What must hold of an experiment template beside its shape: actions, targets, order, stop conditions, quotas."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.fis_endpoint.engine import DURATIONS
from chaos.fis_endpoint.targets import mode_problem

ALARM = "aws:cloudwatch:alarm"
NOT_HERE = ("logConfiguration", "experimentReportConfiguration")
"""Members of a template that are refused: nothing here writes logs or reports to AWS."""
_ARN = re.compile(r"arn:aws[a-z-]*:[a-z0-9-]+:[a-z0-9-]*:([0-9]{12})?:\S+")
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::([0-9]{12}):role/\S+")
_ALARM_ARN = re.compile(r"arn:aws[a-z-]*:cloudwatch:[a-z0-9-]+:[0-9]{12}:alarm:\S.*")


@dataclass(frozen=True)
class KnownAction:
    """An action as FIS lists it. ``targets``: target key → resource type. ``parameters``: name → (what it is, whether
    it is required)."""

    id: str
    description: str
    targets: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, tuple[str, bool]] = field(default_factory=dict)


@dataclass(frozen=True)
class KnownType:
    """A target resource type as FIS lists it. ``parameters``: name → (what it is, whether it is required)."""

    id: str
    description: str
    parameters: Mapping[str, tuple[str, bool]] = field(default_factory=dict)


@dataclass(frozen=True)
class Catalogue:
    """What FIS can do. ``problems``: of an action's id, parameters and targets (target key → resource type).
    ``seconds``: of an ISO 8601 duration; raises ValueError for text that is none."""

    actions: Mapping[str, KnownAction]
    types: Mapping[str, KnownType]
    problems: Callable[[str, Mapping[str, str], Mapping[str, str]], Sequence[str]]
    seconds: Callable[[str], float]


@dataclass(frozen=True)
class Quotas:
    """FIS's quotas (Service Quotas, "AWS Fault Injection Service"). ``by_tag`` is the one that AWS raises on request;
    ``seconds``: of a whole experiment, unscaled."""

    templates: int = 500
    experiments: int = 5
    actions: int = 20
    parallel: int = 10
    stop_conditions: int = 5
    by_tag: int = 5
    seconds: float = 12 * 3600


AWS = Quotas()


def problems(template: Mapping[str, Any], catalogue: Catalogue, account: str) -> list[str]:
    """Why FIS refuses a template; empty where it takes it."""
    found = [f"roleArn is no role's ARN: {template['roleArn']}"] if _role(template["roleArn"]) is None else []
    if _role(template["roleArn"]) not in (None, account):
        found.append(f"roleArn is of another account: {template['roleArn']}")
    if template.get("experimentOptions", {}).get("accountTargeting") == "multi-account":
        found.append("accountTargeting multi-account is not supported by the local endpoint")
    for name in NOT_HERE:
        if template.get(name):
            found.append(f"{name} is not supported by the local endpoint: it writes neither logs nor reports to AWS")
    targets, actions = template.get("targets", {}), template["actions"]
    if not actions:
        found.append("a template has one action at least")
    for name, target in targets.items():
        found += [f"target {name}: {each}" for each in _target(target, catalogue)]
    for name, action in actions.items():
        found += [f"action {name}: {each}" for each in _action(name, action, actions, targets, catalogue)]
    if not found and _circle(actions):
        found.append(f"startAfter goes round in a circle: {', '.join(_circle(actions))}")
    return found + _stop_conditions(template["stopConditions"]) + tag_problems(template.get("tags", {}))


def over_quota(template: Mapping[str, Any], quotas: Quotas, seconds: Callable[[str], float]) -> str | None:
    """Which quota a template that has no problems exceeds; None where it exceeds none."""
    after = {name: list(action.get("startAfter", ())) for name, action in template["actions"].items()}
    lasts = {name: _lasts(action.get("parameters", {}), seconds) for name, action in template["actions"].items()}
    counted = (
        (len(after), quotas.actions, "actions in a template"),
        (parallel(after), quotas.parallel, "actions in parallel"),
        (len(template["stopConditions"]), quotas.stop_conditions, "stop conditions in a template"),
        (longest(after, lasts), quotas.seconds, "seconds of an experiment"),
    )
    for number, most, what in counted:
        if number > most:
            return f"{number:g} {what}, and the quota is {most:g}"
    return None


def parallel(after: Mapping[str, Sequence[str]]) -> int:
    """The most actions that may be under way at once: the widest antichain of the order that ``startAfter`` makes.

    By Dilworth's theorem as many as chains are needed to cover it, found as a matching in its transitive closure.
    """
    before = {name: _before(name, after) for name in after}
    follower: dict[str, str] = {}

    def placed(name: str, tried: set[str]) -> bool:
        for each in before[name]:
            if each not in tried:
                tried.add(each)
                if each not in follower or placed(follower[each], tried):
                    follower[each] = name
                    return True
        return False

    return len(after) - sum(placed(name, set()) for name in after)


def longest(after: Mapping[str, Sequence[str]], lasts: Mapping[str, float]) -> float:
    """Seconds from the first action's begin to the last one's end."""
    ends: dict[str, float] = {}

    def end_of(name: str) -> float:
        if name not in ends:
            ends[name] = lasts[name] + max(map(end_of, after[name]), default=0.0)
        return ends[name]

    return max(map(end_of, after), default=0.0)


def tag_problems(tags: Mapping[str, str]) -> list[str]:
    found = [f"tag keys that begin with aws: are AWS's own: {key}" for key in tags if key.lower().startswith("aws:")]
    return found + ([f"{len(tags)} tags, and a resource has 50 at most"] if len(tags) > 50 else [])


def _role(arn: str) -> str | None:
    """The account of a role's ARN."""
    found = _ROLE.fullmatch(arn)
    return None if found is None else found[1]


def _lasts(parameters: Mapping[str, str], seconds: Callable[[str], float]) -> float:
    return next((seconds(parameters[name]) for name in DURATIONS if name in parameters), 0.0)


def _target(target: Mapping[str, Any], catalogue: Catalogue) -> list[str]:
    kind = target["resourceType"]
    known = catalogue.types.get(kind)
    found = [] if known is not None else [f"nobody knows the resource type {kind}"]
    problem = mode_problem(target["selectionMode"])
    found += [] if problem is None else [problem]
    arns = target.get("resourceArns", ())
    others = [name for name in ("resourceTags", "filters") if target.get(name)]
    if arns and others:
        found.append(f"resourceArns exclude {' and '.join(others)}")
    if not arns and not others and not target.get("parameters"):
        found.append("it names no resources: resourceArns, resourceTags, filters or parameters are needed")
    found += [f"it is no ARN: {arn}" for arn in arns if not _ARN.fullmatch(arn)]
    if known is not None:
        given = target.get("parameters", {})
        found += [f"{kind} has no parameter {name}" for name in given if name not in known.parameters]
        found += [
            f"the parameter {name} is required"
            for name, (_, required) in known.parameters.items()
            if required and name not in given
        ]
    return found


def _action(
    name: str, action: Mapping[str, Any], actions: Mapping[str, Any], targets: Mapping[str, Any], catalogue: Catalogue
) -> list[str]:
    if "actionId" not in action:
        return ["actionId is missing"]
    named = action.get("targets", {})
    found = [
        f"{key} names the target {target}, which is not there" for key, target in named.items() if target not in targets
    ]
    types = {key: str(targets[target]["resourceType"]) for key, target in named.items() if target in targets}
    found += catalogue.problems(action["actionId"], action.get("parameters", {}), types)
    known = catalogue.actions.get(action["actionId"])
    for key, kind in types.items():
        wanted = None if known is None else known.targets.get(key)
        if wanted is not None and wanted != kind:
            found.append(f"{key} takes {wanted}, not {kind}")
    after = action.get("startAfter", ())
    found += [f"startAfter names {each}, which is not there" for each in after if each not in actions]
    return found + (["startAfter names itself"] if name in after else [])


def _before(name: str, after: Mapping[str, Sequence[str]]) -> set[str]:
    """All that come before an action, however far."""
    found: set[str] = set()
    left = list(after[name])
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            left += after[each]
    return found


def _circle(actions: Mapping[str, Any]) -> list[str]:
    after = {name: list(action.get("startAfter", ())) for name, action in actions.items()}
    return sorted(name for name in after if name in _before(name, after))


def _stop_conditions(given: Sequence[Mapping[str, str]]) -> list[str]:
    if not given:
        return ["a template has stop conditions, or one whose source is none"]
    found = []
    for each in given:
        if each["source"] == "none":
            if "value" in each or len(given) > 1:
                found.append("the stop condition none stands alone and has no value")
        elif each["source"] != ALARM:
            found.append(f"nobody knows the source {each['source']} of a stop condition")
        elif not _ALARM_ARN.fullmatch(each.get("value", "")):
            found.append(f"the value of a stop condition is an alarm's ARN, not {each.get('value', 'nothing')}")
    return found
