"""The role of a target's file, as which FIS acts: whether FIS may take it, and what it may do; asked of IAM by reading.

IAM's simulation (SimulatePrincipalPolicy) judges the role's own policies and its boundary. It knows no policy of a
resource, such as a key's, and the tags of an instance only as they are given to it. Never run on AWS.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from chaos.aws.policy import Wanted, experiment_role
from chaos.targets.existing.fis import Fis, Instance

SERVICE = "fis.amazonaws.com"
TAKES = ("sts:assumerole", "sts:*", "*")
OF_NOBODY = {"network-acl/*": "network-acl/acl-of-nobody", "vpc/*": "vpc/vpc-of-nobody"}
"""What a resource of any name is called in a simulation: a pattern would be taken for a name."""
TYPES = {"Bool": "boolean"}
"""Operator of a condition → the type of its key, where it is not a string."""


def trust(fis: Fis) -> tuple[str, bool | None]:
    """What IAM says of who may take the role, and whether FIS may. None: it has a condition that is not judged here.

    Raises FaultError where IAM does not say, or has no such role.
    """
    file = fis.file
    found = fis.role()
    if found.get("Arn") != file.role:
        return f"IAM has {found.get('Arn')} under that name, and the file says {file.role}", False
    document = found.get("AssumeRolePolicyDocument") or {}
    given = json.loads(unquote(document)) if isinstance(document, str) else document
    mine = [each for each in _listed(given.get("Statement")) if _is_for_fis(each)]
    if any(each.get("Effect") == "Deny" for each in mine):
        return f"its trust policy denies it to {SERVICE}", False
    judged = [_conditions_hold(each.get("Condition") or {}, fis) for each in mine]
    if True in judged:
        return f"{file.role} may be taken by {SERVICE}", True
    if None in judged:
        return f"its trust policy lets {SERVICE} take it on a condition that is not judged here", None
    whose = f" for experiments of {file.account} in {file.region}" if judged else ""
    return f"its trust policy does not let {SERVICE} take it{whose} (see: fis policy)", False


def lacking(fis: Fis, wanted: Wanted, instances: Iterable[Instance]) -> list[str]:
    """What of :func:`chaos.aws.policy.experiment_role` the role may not do to these instances and their subnets, by
    IAM's simulation; empty: nothing. Raises FaultError where IAM does not say."""
    arns = sorted(each.arn for each in instances)
    subnets = sorted({wanted.arn("ec2", f"subnet/{each.subnet}") for each in instances if each.subnet})
    found: dict[str, None] = {}
    for statement in experiment_role(wanted)["Statement"]:
        asked = {
            "PolicySourceArn": wanted.role,
            "ActionNames": list(statement["Action"]),
            "ResourceArns": [arn for each in statement["Resource"] for arn in _named(each, arns, subnets)],
            "ContextEntries": list(_context(statement.get("Condition") or {})),
        }
        for result in fis.simulated(**asked):
            for action, resource, decision in _decisions(result):
                if decision != "allowed":
                    of = "" if resource in ("", "*") else f" on {resource.rpartition(':')[2]}"
                    found[f"{action}{of} ({decision})"] = None
    return list(found)


def _decisions(result: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Of one result of the simulation, and of its parts by resource where it has some: action, resource, decision."""
    action = str(result.get("EvalActionName"))
    parts = result.get("ResourceSpecificResults") or []
    for each in parts:
        yield action, str(each.get("EvalResourceName", "")), str(each.get("EvalResourceDecision"))
    if not parts:
        yield action, str(result.get("EvalResourceName", "")), str(result.get("EvalDecision"))


def _named(resource: str, instances: Sequence[str], subnets: Sequence[str]) -> list[str]:
    if resource.endswith(":instance/*"):
        return list(instances)
    if resource.endswith(":subnet/*"):
        return list(subnets)
    for pattern, name in OF_NOBODY.items():
        if resource.endswith(f":{pattern}"):
            return [resource.removesuffix(pattern) + name]
    return [resource]


def _context(condition: Mapping[str, Mapping[str, str]]) -> Iterator[dict[str, Any]]:
    for operator, keys in condition.items():
        for key, value in keys.items():
            yield {
                "ContextKeyName": key,
                "ContextKeyValues": [value],
                "ContextKeyType": TYPES.get(operator, "string"),
            }


def _is_for_fis(statement: Mapping[str, Any]) -> bool:
    principal = statement.get("Principal")
    services = _listed(principal.get("Service")) if isinstance(principal, dict) else [principal]
    actions = {str(each).lower() for each in _listed(statement.get("Action"))}
    return (SERVICE in services or "*" in services) and bool(actions & set(TAKES))


def _conditions_hold(condition: Mapping[str, Any], fis: Fis) -> bool | None:
    """Of an experiment of this account and region; None where a condition is none that is judged here."""
    file = fis.file
    experiment = f"arn:{file.partition}:fis:{file.region}:{file.account}:experiment/EXP"
    given = {"aws:sourceaccount": file.account, "aws:sourcearn": experiment}
    found: list[bool | None] = []
    for operator, keys in condition.items():
        for key, values in keys.items():
            value = given.get(key.lower())
            if value is None or operator not in ("StringEquals", "StringLike", "ArnEquals", "ArnLike"):
                found.append(None)
            elif operator == "StringEquals":
                found.append(value in _listed(values))
            else:
                found.append(any(_like(str(each), value) for each in _listed(values)))
    return False if False in found else None if None in found else True


def _like(pattern: str, value: str) -> bool:
    globs = "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in pattern)
    return re.fullmatch(globs, value) is not None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
