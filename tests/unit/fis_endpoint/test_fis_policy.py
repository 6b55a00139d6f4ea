"""Policies as IAM has them: what allows, what denies, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fiskit import PLACE, template

from chaos.base.errors import InvalidInput
from chaos.fis_endpoint.iam import decided
from chaos.fis_endpoint.policy import ALLOW_ALL, On, parse, read, resources_of

EVERYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}
TEMPLATE = PLACE.arn("experiment-template", "EXT1")


def policy(*statements: dict[str, Any]) -> Any:
    return parse({"Version": "2012-10-17", "Statement": list(statements)})


def test_without_a_policy_everything_is_allowed() -> None:
    assert ALLOW_ALL.denies("fis:StartExperiment", [TEMPLATE]) is None


def test_what_no_statement_allows_is_denied() -> None:
    only = policy({"Effect": "Allow", "Action": "fis:Get*", "Resource": "*"})
    assert only.denies("fis:GetExperiment", ["*"]) is None
    assert "because no statement allows it" in only.denies("fis:StartExperiment", [TEMPLATE])


def test_an_explicit_deny_wins() -> None:
    both = policy(EVERYTHING, {"Effect": "Deny", "Action": "fis:StartExperiment", "Resource": "*"})
    assert "with an explicit deny" in both.denies("fis:StartExperiment", [TEMPLATE])
    assert both.denies("fis:StopExperiment", [TEMPLATE]) is None


@pytest.mark.parametrize(
    ("pattern", "action", "meets"),
    [
        ("fis:StartExperiment", "fis:startexperiment", True),
        ("fis:*Experiment", "fis:StopExperiment", True),
        ("fis:?topExperiment", "fis:StopExperiment", True),
        ("fis:?topExperiment", "fis:topExperiment", False),
        ("fis:Start", "fis:StartExperiment", False),
        ("ec2:*", "fis:StartExperiment", False),
    ],
)
def test_wildcards_of_actions(pattern: str, action: str, meets: bool) -> None:
    assert (policy({**EVERYTHING, "Action": pattern}).denies(action, ["*"]) is None) is meets


def test_all_resources_of_an_operation_must_be_allowed() -> None:
    arn = "arn:aws:fis:*:*:experiment-template/*"
    one = policy({"Effect": "Allow", "Action": "fis:*", "Resource": arn})
    needed = resources_of("StartExperiment", {"experimentTemplateId": "EXT1"}, PLACE.arn)
    assert needed == [TEMPLATE, PLACE.arn("experiment", "*")]
    assert "experiment/*" in str(one.denies("fis:StartExperiment", needed))


def test_creation_is_authorised_by_each_action() -> None:
    needed = resources_of("CreateExperimentTemplate", template(), PLACE.arn)
    assert needed == [PLACE.arn("experiment-template", "*"), PLACE.arn("action", "aws:ec2:stop-instances")]
    allowed = policy(EVERYTHING, {"Effect": "Deny", "Action": "fis:*", "Resource": "*:action/aws:ec2:*"})
    assert allowed.denies("fis:CreateExperimentTemplate", needed) is not None


def test_nonsense_that_nobody_has_validated_yet_names_no_resource() -> None:
    assert resources_of("CreateExperimentTemplate", {"actions": [1]}, PLACE.arn) == [
        PLACE.arn("experiment-template", "*")
    ]


def test_an_unknown_resource_meets_every_deny_and_allows_of_all_only() -> None:
    narrow = {"Effect": "Allow", "Action": "ec2:*", "Resource": "arn:aws:ec2:*:*:instance/*"}
    assert policy(narrow).denies("ec2:StartInstances", [None]) is not None
    assert policy(EVERYTHING).denies("ec2:StartInstances", [None]) is None
    assert policy(EVERYTHING, {**narrow, "Effect": "Deny"}).denies("ec2:StartInstances", [None]) is not None


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ({**EVERYTHING, "Condition": {"Bool": {"aws:SecureTransport": "true"}}}, "Condition"),
        ({**EVERYTHING, "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}}, "Condition IpAddress"),
        ({**EVERYTHING, "Condition": {"StringEquals": {"aws:ResourceTag/x": "${aws:username}"}}}, "variable"),
        ({"Effect": "Allow", "NotAction": "fis:*", "Resource": "*"}, "NotAction"),
        ({**EVERYTHING, "Principal": "*"}, "Principal"),
        ({**EVERYTHING, "Effect": "allow"}, "Effect"),
        ({**EVERYTHING, "Action": []}, "Action"),
        ({**EVERYTHING, "Action": "StartExperiment"}, "StartExperiment"),
        ({**EVERYTHING, "Resource": None}, "Resource"),
        ({**EVERYTHING, "Resource": "arn:aws:s3:::${aws:username}"}, "variable"),
        ("Allow", "statement 1"),
    ],
)
def test_what_is_not_understood_is_refused(statement: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        policy(statement)


def test_conditions_that_are_none_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    file.write_text(json.dumps({"Statement": {**EVERYTHING, "Condition": {}}}))
    assert read(file).denies("fis:StartExperiment", ["*"]) is None


def test_a_condition_holds_of_the_tags_of_what_a_request_is_on() -> None:
    only = policy({**EVERYTHING, "Condition": {"StringEquals": {"aws:ResourceTag/chaos": "allowed"}}})
    tagged, other = (On("arn:x", {"aws:resourcetag/chaos": value}) for value in ("allowed", "denied"))
    assert only.denies("ec2:StartInstances", [tagged]) is None
    assert only.denies("ec2:StartInstances", [other]) is not None
    assert only.denies("ec2:StartInstances", [tagged, other]) is not None
    assert only.denies("ec2:StartInstances", [None]) is not None


@pytest.mark.parametrize(
    ("policies", "is_decided"),
    [
        ([EVERYTHING], "allowed"),
        ([{"Effect": "Allow", "Action": "ec2:*", "Resource": "*"}], "implicitDeny"),
        ([EVERYTHING, {"Effect": "Allow", "Action": "ec2:*", "Resource": "*"}], "implicitDeny"),
        ([EVERYTHING, {"Effect": "Deny", "Action": "fis:Stop*", "Resource": "*"}], "explicitDeny"),
    ],
    ids=["all", "other action", "boundary allows less", "boundary denies"],
)
def test_a_simulation_decides_by_a_role_s_policies_and_its_boundary(policies: Any, is_decided: str) -> None:
    made = [policy(each) for each in policies]
    assert decided(made, "fis:StopExperiment", PLACE.arn("experiment", "EXP1"), {}) == is_decided


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"Statement": []}', '{"Version": "1", "Statement": {}}'])
def test_a_file_that_is_no_policy_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "policy.json"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=r"policy\.json"):
        read(file)
    with pytest.raises(InvalidInput, match="cannot read"):
        read(tmp_path / "none.json")
