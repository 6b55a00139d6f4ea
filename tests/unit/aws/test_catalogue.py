"""FIS's actions and documents as data: durations, parameters, targets, and each way in which they are wrong."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from apart import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.aws import catalogue
from chaos.aws.catalogue import (
    ACTIONS,
    DOCUMENTS,
    LONGEST,
    document_parameters,
    document_problems,
    iso,
    problems,
    seconds,
)
from chaos.aws.shapes import Model
from chaos.base.errors import InvalidInput

REGION = "eu-central-1"
KILL = DOCUMENTS["AWSFIS-Run-Kill-Process"].arn(REGION)
LATENCY = DOCUMENTS["AWSFIS-Run-Network-Latency-Sources"].arn(REGION)
CPU = DOCUMENTS["AWSFIS-Run-CPU-Stress"].arn(REGION)
ALARM = f"arn:aws:cloudwatch:{REGION}:123456789012:alarm:"

RIGHT: dict[str, tuple[dict[str, str], str | None]] = {
    "aws:ec2:stop-instances": (
        {"startInstancesAfterDuration": "PT2M", "completeIfInstancesTerminated": "true"},
        "Instances",
    ),
    "aws:ec2:reboot-instances": ({}, "Instances"),
    "aws:ec2:terminate-instances": ({}, "Instances"),
    "aws:ebs:pause-volume-io": ({"duration": "PT5S"}, "Volumes"),
    "aws:ebs:volume-io-latency": (
        {"duration": "PT1S", "readIOPercentage": "0.1", "writeIOLatencyMilliseconds": "60000"},
        "Volumes",
    ),
    "aws:network:disrupt-connectivity": ({"duration": "PT1M", "scope": "availability-zone"}, "Subnets"),
    "aws:ssm:send-command": (
        {
            "duration": "PT3M",
            "documentArn": CPU,
            "documentParameters": '{"DurationSeconds":"60"}',
            "documentVersion": "1",
        },
        "Instances",
    ),
    "aws:fis:wait": ({"duration": "PT12H"}, None),
    "aws:eks:pod-delete": ({"kubernetesServiceAccount": "fis", "gracePeriodSeconds": "0"}, "Pods"),
    "aws:arc:start-zonal-autoshift": (
        {"duration": "PT5M", "availabilityZoneIdentifier": "euc1-az1", "managedResourceTypes": "ASG,NLB"},
        "ManagedResources",
    ),
    "aws:cloudwatch:assert-alarm-state": ({"alarmArns": f"{ALARM}a,{ALARM}b", "alarmStates": "OK,ALARM"}, None),
}


def said(action: str, targets: Any = None, without: str = "", **changes: str) -> list[str]:
    """The problems of a right action with changes, without the action's name before each."""
    parameters, key = RIGHT[action]
    parameters = {name: value for name, value in (parameters | changes).items() if name != without}
    found = problems(action, parameters, ({} if key is None else {key: "T"}) if targets is None else targets)
    assert all(line.startswith(f"{action}: ") for line in found)
    return [line.removeprefix(f"{action}: ") for line in found]


# ---- durations ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [("PT1M", 60), ("PT12H", 43200), ("PT90S", 90), ("PT1H30M5S", 5405), ("P1D", 86400), ("P0DT5S", 5), ("PT0S", 0)],
)
def test_durations_are_read(text: str, value: int) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "P1DT",
        "1M",
        "PT1",
        "pt1m",
        "PT1m",
        "PT-1M",
        "PT0.5M",
        "P1W",
        "P1M",
        "P1Y",
        "PT1M1H",
        "PT1M ",
        "PT1M\n",
        "PT\u0661M",
        "PT1234567S",
        None,
        60,
    ],
)
def test_what_is_no_duration_is_refused(text: Any) -> None:
    with pytest.raises(InvalidInput, match="no ISO 8601 duration; write for example PT5M"):
        seconds(text)


@settings(max_examples=examples(200))
@given(st.integers(1, 10**6))
def test_a_duration_comes_back_as_it_was(whole: int) -> None:
    assert seconds(iso(whole)) == whole


@pytest.mark.parametrize(
    ("whole", "text"), [(60, "PT1M"), (90, "PT1M30S"), (3600, "PT1H"), (43200, "PT12H"), (3601, "PT1H1S")]
)
def test_durations_are_written_as_aws_writes_them(whole: int, text: str) -> None:
    assert iso(whole) == text


@pytest.mark.parametrize("whole", [0, -1, 1.5, True, "60"])
def test_what_lasts_no_whole_seconds_is_refused(whole: Any) -> None:
    with pytest.raises(InvalidInput):
        iso(whole)


# ---- actions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_an_action_as_it_should_be_has_no_problems(action: str) -> None:
    assert set(RIGHT) == set(ACTIONS)
    assert said(action) == []


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_each_required_parameter_is_missed(action: str) -> None:
    for parameter in ACTIONS[action].parameters:
        if parameter.required:
            assert f"lacks the parameter {parameter.name}, {parameter.takes.words}" in said(
                action, without=parameter.name
            )


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_each_parameter_can_be_wrong(action: str) -> None:
    for parameter in ACTIONS[action].parameters:
        for wrong in ("", "a b"):
            assert any(parameter.name in line for line in said(action, **{parameter.name: wrong}))
    assert said(action, unheard="x") == ["takes no parameter unheard"]


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_targets_are_by_their_key(action: str) -> None:
    target = ACTIONS[action].target
    if target is None:
        assert said(action, {"Instances": "T"}) == ["takes no targets, not Instances"]
        return
    assert said(action, {}) == [f"lacks the target {target[0]}"]
    assert said(action, {"Wrong": "T"}) == [f"lacks the target {target[0]}", f"takes the target {target[0]}, not Wrong"]


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_defaults_are_what_the_parameter_takes(action: str) -> None:
    for parameter in ACTIONS[action].parameters:
        assert not (parameter.required and parameter.default is not None)
        assert parameter.default is None or parameter.takes.problem(parameter.default) is None


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_what_it_leaves_and_needs_is_said(action: str) -> None:
    each = ACTIONS[action]
    assert each.ends
    assert all(re.fullmatch(r"[a-z0-9-]+:[A-Za-z]+", name) for name in (*each.iam, *each.reads))
    assert not any(re.search(r":(Describe|Get|List)", name) for name in each.iam if name != "ssm:ListCommands")


def test_what_is_not_known_is_said() -> None:
    assert problems("no:such:action", {}, {}) == ["no:such:action: no such action is known here"]


@pytest.mark.parametrize(
    ("action", "name", "right", "wrong"),
    [
        ("aws:fis:wait", "duration", ("PT1M", "PT60S", "PT12H"), ("PT59S", "PT12H1S", "P1D", "PT0S", "5m", "60")),
        ("aws:ec2:stop-instances", "startInstancesAfterDuration", ("PT1M",), ("PT30S", "PT13H")),
        ("aws:ec2:stop-instances", "completeIfInstancesTerminated", ("false",), ("True", "yes")),
        ("aws:ebs:pause-volume-io", "duration", ("PT1S", "PT12H"), ("PT0S",)),
        (
            "aws:ebs:volume-io-latency",
            "readIOPercentage",
            ("0.1", "50", "100", "100.0"),
            ("0", "0.05", "100.1", "-1", "50%"),
        ),
        ("aws:ebs:volume-io-latency", "readIOLatencyMilliseconds", ("1", "60000"), ("0", "60001", "1.5", "-1", "1e3")),
        ("aws:network:disrupt-connectivity", "scope", ("all", "vpc", "s3", "s3express", "dynamodb"), ("zone", "ALL")),
        ("aws:eks:pod-delete", "maxErrorsPercent", ("0", "100"), ("101",)),
        (
            "aws:arc:start-zonal-autoshift",
            "managedResourceTypes",
            ("EKS", "ALB,NLB"),
            ("RDS", "ALB,,NLB", "ALB, NLB", "ALB,ALB"),
        ),
        ("aws:arc:start-zonal-autoshift", "zonalAutoshiftStatus", ("ANY", "DISABLED"), ("any",)),
        ("aws:cloudwatch:assert-alarm-state", "alarmStates", ("OK", "INSUFFICIENT_DATA"), ("OK,FINE", "")),
        (
            "aws:cloudwatch:assert-alarm-state",
            "alarmArns",
            (",".join(f"{ALARM}{n}" for n in range(5)),),
            (",".join(f"{ALARM}{n}" for n in range(6)), "an-alarm", "arn:aws:sns:eu-central-1:123456789012:x"),
        ),
        ("aws:ssm:send-command", "documentVersion", ("$LATEST", "12"), ("0", "latest")),
        (
            "aws:ssm:send-command",
            "documentArn",
            (
                f"arn:aws:ssm:{REGION}:123456789012:document/our-own",
                f"arn:aws-us-gov:ssm:{REGION}::document/AWS-RunShellScript",
            ),
            ("AWSFIS-Run-CPU-Stress", f"arn:aws:s3:{REGION}::document/x", f"arn:aws:ssm:{REGION}:12:document/xyz"),
        ),
    ],
)
def test_limits(action: str, name: str, right: tuple[str, ...], wrong: tuple[str, ...]) -> None:
    for value in right:
        assert said(action, **{name: value}) == [], value
    for value in wrong:
        found = said(action, **{name: value})
        assert found and found[0].startswith(f"{name} is "), value


def test_a_value_is_text() -> None:
    parameters: dict[str, Any] = {"duration": 60}
    assert problems("aws:fis:wait", parameters, {}) == ["aws:fis:wait: duration is int, not text"]


def test_parameters_that_need_each_other() -> None:
    assert said("aws:ec2:stop-instances", without="startInstancesAfterDuration") == [
        "completeIfInstancesTerminated needs startInstancesAfterDuration"
    ]
    cut = "aws:network:disrupt-connectivity"
    assert said(cut, scope="prefix-list") == ["the scope prefix-list needs prefixListIdentifier"]
    assert said(cut, scope="prefix-list", prefixListIdentifier="pl-1") == []
    assert said(cut, prefixListIdentifier="pl-1") == ["prefixListIdentifier is for the scope prefix-list only"]


def test_a_right_action_is_a_right_request() -> None:
    """What is right here fits the model of the service too."""
    for action, (parameters, key) in RIGHT.items():
        request = {
            "clientToken": "t",
            "description": "d",
            "stopConditions": [{"source": "none"}],
            "roleArn": "arn:aws:iam::123456789012:role/x",
            "actions": {
                "a": {"actionId": action, "parameters": parameters, "targets": {} if key is None else {key: "T"}}
            },
        }
        assert Model("fis").problems_of_input("CreateExperimentTemplate", request) == []


# ---- documents ------------------------------------------------------------------------------------------

GIVEN: dict[str, dict[str, str]] = {
    "AWSFIS-Run-CPU-Stress": {"LoadPercent": "0"},
    "AWSFIS-Run-Disk-Fill": {},
    "AWSFIS-Run-IO-Stress": {},
    "AWSFIS-Run-Kill-Process": {"ProcessName": "java", "Signal": "SIGKILL"},
    "AWSFIS-Run-Memory-Stress": {"Percent": "80"},
    "AWSFIS-Run-Network-Blackhole-Port": {"Protocol": "tcp", "Port": "9300"},
    "AWSFIS-Run-Network-Latency": {"Interface": "ens5"},
    "AWSFIS-Run-Network-Latency-Sources": {"Sources": "10.0.1.5,10.0.2.0/24,euc1-az1,es.example.com,ALL"},
    "AWSFIS-Run-Network-Packet-Loss": {"LossPercent": "100"},
    "AWSFIS-Run-Network-Packet-Loss-Sources": {"Sources": "10.0.1.5", "Interface": "DEFAULT", "TrafficType": "egress"},
}


def of(name: str, without: str = "", duration: str | None = "PT3M", **changes: str) -> list[str]:
    document = DOCUMENTS[name]
    parameters = GIVEN[name] | ({"DurationSeconds": "60"} if document.lasts else {}) | changes
    written = document_parameters({key: value for key, value in parameters.items() if key != without})
    return [line.removeprefix(f"{name}: ") for line in document_problems(document.arn(REGION), written, duration)]


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_a_document_as_it_should_be_has_no_problems(name: str) -> None:
    assert set(GIVEN) == set(DOCUMENTS)
    assert of(name) == []


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_what_a_document_requires_is_missed(name: str) -> None:
    for parameter in DOCUMENTS[name].parameters:
        assert bool(of(name, without=parameter.name)) is parameter.required
        assert parameter.default is None or parameter.takes.problem(parameter.default) is None
    assert of(name, Unheard="x") == ["takes no parameter Unheard"]


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_all_but_one_need_a_duration(name: str) -> None:
    missed = of(name, without="DurationSeconds")
    assert bool(missed) is (name != "AWSFIS-Run-Kill-Process")
    assert all(line.startswith("lacks the parameter DurationSeconds") for line in missed)


@pytest.mark.parametrize("name", sorted(set(DOCUMENTS) - {"AWSFIS-Run-Kill-Process"}))
def test_an_action_outlasts_its_document(name: str) -> None:
    assert of(name, duration="PT2M59S") == [
        "the action lasts 179 s, and must last 180 s or more: DurationSeconds and 120 s"
    ]
    assert of(name, duration="PT3M") == []
    assert of(name, duration=None) == []


def test_the_actions_own_duration_is_held_against_it() -> None:
    assert said("aws:ssm:send-command", duration="PT1M") == [
        "AWSFIS-Run-CPU-Stress: the action lasts 60 s, and must last 180 s or more: DurationSeconds and 120 s"
    ]
    assert said("aws:ssm:send-command", without="documentParameters") == [
        f"AWSFIS-Run-CPU-Stress: lacks the parameter DurationSeconds, a whole number from 1 to {LONGEST}"
    ]
    assert said("aws:ssm:send-command", duration="soon")[0].startswith("duration is malformed")
    assert (
        said("aws:ssm:send-command", documentArn=KILL, documentParameters='{"ProcessName":"java"}', duration="PT1M")
        == []
    )


@pytest.mark.parametrize(
    ("name", "parameter", "wrong"),
    [
        ("AWSFIS-Run-CPU-Stress", "LoadPercent", ("101", "-1")),
        ("AWSFIS-Run-CPU-Stress", "DurationSeconds", ("0", "43201", "PT1M", "60.0")),
        ("AWSFIS-Run-Disk-Fill", "Percent", ("0", "101", "95%")),
        ("AWSFIS-Run-Kill-Process", "Signal", ("KILL", "SIGSTOP", "9")),
        ("AWSFIS-Run-Network-Blackhole-Port", "Protocol", ("TCP", "icmp")),
        ("AWSFIS-Run-Network-Blackhole-Port", "Port", ("0", "65536")),
        ("AWSFIS-Run-Network-Blackhole-Port", "TrafficType", ("both",)),
        ("AWSFIS-Run-Network-Latency-Sources", "Sources", ("::1", "10.0.0.1,,10.0.0.2", "10.0.0.0/33")),
        ("AWSFIS-Run-Network-Packet-Loss", "LossPercent", ("7%",)),
        ("AWSFIS-Run-IO-Stress", "InstallDependencies", ("true", "no")),
    ],
)
def test_limits_of_documents(name: str, parameter: str, wrong: tuple[str, ...]) -> None:
    for value in wrong:
        (line,) = of(name, **{parameter: value})
        assert line.startswith(f"{parameter} is "), value


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ('{"DurationSeconds": "60"}', "has spaces, which FIS does not take: write compact JSON"),
        ("{", "is no JSON"),
        ("", "is no JSON"),
        ("[]", "is not a JSON object"),
        ('"x"', "is not a JSON object"),
        ('{"DurationSeconds":60}', "has DurationSeconds, which is neither text nor a list of texts"),
        ('{"DurationSeconds":[]}', "has DurationSeconds, which is neither text nor a list of texts"),
        ('{"DurationSeconds":"60","DurationSeconds":"600"}', "has DurationSeconds twice"),
        ("[" * 100_000, "is no JSON"),
    ],
)
def test_parameters_that_cannot_be_read(written: str, why: str) -> None:
    assert document_problems(CPU, written, "PT3M") == [f"documentParameters {why}"]


def test_a_list_of_one_is_that_one_and_of_two_is_none() -> None:
    assert document_problems(CPU, '{"DurationSeconds":["60"]}', "PT3M") == []
    (line,) = document_problems(CPU, '{"DurationSeconds":["60","70"]}', "PT3M")
    assert line == "AWSFIS-Run-CPU-Stress: DurationSeconds is list, not text"


def test_other_documents_are_their_owners_matter() -> None:
    own = f"arn:aws:ssm:{REGION}:123456789012:document/AWSFIS-Run-CPU-Stress"
    assert document_problems(own, '{"Anything":"x"}', "PT1M") == []
    assert document_problems(own, '{"Anything":1}', "PT1M") != []
    assert document_problems(f"arn:aws:ssm:{REGION}::document/AWS-RunShellScript", '{"commands":["a","b"]}') == []
    unknown = document_problems(f"arn:aws:ssm:{REGION}::document/AWSFIS-Run-Nothing", "{}")
    assert unknown == ["AWSFIS-Run-Nothing: AWS FIS has no such document that is known here"]


def test_five_documents_are_of_the_network() -> None:
    assert {name for name, each in DOCUMENTS.items() if each.network} == {
        name for name in DOCUMENTS if "Network" in name
    }
    assert len(DOCUMENTS) == 10


def test_parameters_that_fis_would_not_take_are_not_written() -> None:
    with pytest.raises(InvalidInput, match="longer than 1024 characters"):
        document_parameters({"Sources": "1.2.3.4," * 200})


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=4))
def test_what_is_written_has_no_space_and_is_what_was_given(parameters: dict[str, str]) -> None:
    written = document_parameters(parameters)
    assert not re.search(r"\s", written) and json.loads(written) == parameters


@settings(max_examples=examples(100))
@given(
    st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=4), st.text(max_size=30), st.text(max_size=60)
)
def test_nothing_that_is_written_makes_a_traceback(parameters: dict[str, str], arn: str, written: str) -> None:
    for action in ACTIONS:
        problems(action, parameters, parameters)
        known = [each.name for each in ACTIONS[action].parameters]
        problems(action, dict.fromkeys(known, arn), {})
    assert document_problems(CPU, written, arn) != [] or written.startswith("{")
    document_problems(arn, written)
    assert catalogue.MARGIN == 120
