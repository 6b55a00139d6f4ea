"""IAM's simulation of what a principal may do, which moto lacks; roles and their policies are moto's.

Judged are a role's own policies, inline and attached, and its boundary, each action on each resource, as IAM does
(IAM API reference, SimulatePrincipalPolicy). A policy that this endpoint does not understand is an error, no answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

from chaos.base.errors import InvalidInput
from chaos.fis_endpoint.clients import client, error_code
from chaos.fis_endpoint.policy import Policy, parse
from chaos.fis_endpoint.routing import Refused, Reply
from chaos.fis_endpoint.server import Request, refused_otherwise

SIMULATES = "SimulatePrincipalPolicy"
NAMESPACE = "https://iam.amazonaws.com/doc/2010-05-08/"


class Iam:
    """The handler of IAM. ``moto``: the URL of its server."""

    def __init__(self, moto: str) -> None:
        self._moto = moto

    def __call__(self, request: Request) -> Reply | None:
        if request.operation != SIMULATES:
            return None
        given = parse_qs(request.body.decode())
        source = given.get("PolicySourceArn", [""])[0]
        if ":role/" not in source:
            says = f"{source} is no role, and the local endpoint simulates nobody else"
            return refused_otherwise(request, Refused("ValidationException", says))
        try:
            policies = list(self._policies(source))
        except InvalidInput as error:
            return refused_otherwise(request, Refused("ValidationException", error.message))
        except Exception as error:
            if error_code(error) != "NoSuchEntity":
                raise
            return _no_such(source)
        return Reply(200, {"Content-Type": "text/xml"}, _answer(given, policies).encode())

    def _policies(self, arn: str) -> Iterator[Policy]:
        """One of all its own policies together, and one of its boundary where it has one: each must allow."""
        iam, name = client("iam", self._moto), arn.rpartition("/")[2]
        role = iam.get_role(RoleName=name)["Role"]
        statements: list[Any] = []
        for each in iam.list_role_policies(RoleName=name)["PolicyNames"]:
            statements += _statements(iam.get_role_policy(RoleName=name, PolicyName=each)["PolicyDocument"])
        for each in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
            statements += _statements(self._managed(each["PolicyArn"]))
        yield parse({"Statement": statements}, f"what {name} may do") if statements else Policy(())
        if boundary := (role.get("PermissionsBoundary") or {}).get("PermissionsBoundaryArn"):
            yield parse({"Statement": _statements(self._managed(boundary))}, f"the boundary of {name}")

    def _managed(self, arn: str) -> Any:
        iam = client("iam", self._moto)
        version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        return iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"]


def decided(policies: list[Policy], action: str, resource: str, context: dict[str, str]) -> str:
    """What IAM calls it: allowed, explicitDeny, implicitDeny."""
    met = [
        {each.effect for each in policy.statements or () if each.meets(action, resource, context)}
        for policy in policies
    ]
    if any("Deny" in effects for effects in met):
        return "explicitDeny"
    return "allowed" if all("Allow" in effects for effects in met) else "implicitDeny"


def _statements(document: Any) -> list[Any]:
    given = json.loads(document) if isinstance(document, str) else document
    found = given["Statement"]
    return found if isinstance(found, list) else [found]


def _answer(given: dict[str, list[str]], policies: list[Policy]) -> str:
    context = {
        given[f"ContextEntries.member.{n}.ContextKeyName"][0].lower(): given[
            f"ContextEntries.member.{n}.ContextKeyValues.member.1"
        ][0]
        for n in range(1, len(given))
        if f"ContextEntries.member.{n}.ContextKeyName" in given
    }
    results = "".join(
        f"<member><EvalActionName>{escape(action)}</EvalActionName><EvalResourceName>{escape(resource)}"
        f"</EvalResourceName><EvalDecision>{decided(policies, action, resource, context)}</EvalDecision>"
        "<MatchedStatements/><MissingContextValues/></member>"
        for action in _members(given, "ActionNames")
        for resource in _members(given, "ResourceArns") or ["*"]
    )
    result = f"<{SIMULATES}Result><IsTruncated>false</IsTruncated><EvaluationResults>{results}</EvaluationResults>"
    result += f"</{SIMULATES}Result><ResponseMetadata><RequestId>local</RequestId></ResponseMetadata>"
    return f'<{SIMULATES}Response xmlns="{NAMESPACE}">{result}</{SIMULATES}Response>'


def _members(given: dict[str, list[str]], name: str) -> list[str]:
    found: list[str] = []
    while (key := f"{name}.member.{len(found) + 1}") in given:
        found.append(given[key][0])
    return found


def _no_such(arn: str) -> Reply:
    says = f"The role with name {escape(arn.rpartition('/')[2])} cannot be found."
    error = f"<Type>Sender</Type><Code>NoSuchEntity</Code><Message>{says}</Message>"
    text = f"<ErrorResponse><Error>{error}</Error><RequestId>local</RequestId></ErrorResponse>"
    return Reply(404, {"Content-Type": "text/xml"}, text.encode())
