"""On what a request is authorised, with the tags that conditions of a policy are judged by.

Resources are those of the Service Authorization Reference, for the operations that a runner has: FIS's, and of EC2 and
Systems Manager what puts back what FIS leaves, of IAM what looks at FIS's role. Of any other operation the resource is
unknown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from chaos.fis_endpoint.policy import On, resources_of
from chaos.fis_endpoint.service import Place

Tags = Callable[[str], Mapping[str, str]]
"""The tags of an ARN, or of an id of EC2; none where it is not there."""
Needed = tuple[str, Sequence[On | None]]
"""An action, and on what it is authorised."""


def of_fis(operation: str, params: Mapping[str, Any], place: Place, tags: Tags) -> list[Needed]:
    """All that must be allowed for an operation of FIS: itself, and where it makes something, tagging it and passing
    the role."""
    given = params.get("tags")
    asked = _context("aws:requesttag", given if isinstance(given, dict) else {})
    on = [
        On(arn, {**asked, **_context("aws:resourcetag", tags(arn))})
        for arn in resources_of(operation, params, place.arn)
    ]
    needed: list[Needed] = [(f"fis:{operation}", on)]
    if asked and operation in ("CreateExperimentTemplate", "StartExperiment"):
        kind = "experiment-template" if operation == "CreateExperimentTemplate" else "experiment"
        needed.append(("fis:TagResource", [On(place.arn(kind, "*"), asked)]))
    if operation == "CreateExperimentTemplate" and isinstance(params.get("roleArn"), str):
        passed = {"iam:passedtoservice": "fis.amazonaws.com"}
        needed.append(("iam:PassRole", [On(params["roleArn"], passed)]))
    return needed


def of_others(action: str, body: bytes, place: Place, tags: Tags) -> Needed:
    """The same of another service's operation, ``ec2:StartInstances``."""
    resources = {
        "ec2:StartInstances": _instances,
        "ec2:DeleteNetworkAcl": _acls,
        "ec2:ReplaceNetworkAclAssociation": _acls,
        "ssm:SendCommand": _documents,
        "iam:GetRole": _role,
        "iam:SimulatePrincipalPolicy": _role,
    }.get(action)
    try:
        found = None if resources is None else resources(body, place, tags)
    except ValueError:
        found = None
    return action, found or [None]


def _ec2(id: str, kind: str, place: Place, tags: Tags) -> On:
    return On(
        f"arn:aws:ec2:{place.region}:{place.account}:{kind}/{id}",
        {
            key: value
            for prefix in ("aws", "ec2", "ssm")
            for key, value in _context(f"{prefix}:resourcetag", tags(id)).items()
        },
    )


def _instances(body: bytes, place: Place, tags: Tags) -> list[On | None]:
    given = parse_qs(body.decode())
    return [_ec2(each[0], "instance", place, tags) for key, each in given.items() if key.startswith("InstanceId")]


def _acls(body: bytes, place: Place, tags: Tags) -> list[On | None]:
    """The network ACL; the subnet of an association is looked up by the association's id."""
    given = parse_qs(body.decode())
    found: list[On | None] = [_ec2(given["NetworkAclId"][0], "network-acl", place, tags)]
    if "AssociationId" in given:
        found.append(_ec2(given["AssociationId"][0], "subnet", place, tags))
    return found


def _documents(body: bytes, place: Place, tags: Tags) -> list[On | None]:
    given = json.loads(body)
    document = On(f"arn:aws:ssm:{place.region}::document/{given['DocumentName']}")
    return [document, *(_ec2(each, "instance", place, tags) for each in given.get("InstanceIds", []))]


def _role(body: bytes, place: Place, tags: Tags) -> list[On | None]:
    """By its ARN, or by its name: of roles here no path is known."""
    given = parse_qs(body.decode())
    if "PolicySourceArn" in given:
        return [On(given["PolicySourceArn"][0])]
    return [On(f"arn:aws:iam::{place.account}:role/{given['RoleName'][0]}")] if "RoleName" in given else [None]


def _context(prefix: str, tags: Mapping[str, Any]) -> dict[str, str]:
    return {f"{prefix}/{key}".lower(): str(value) for key, value in tags.items()}
