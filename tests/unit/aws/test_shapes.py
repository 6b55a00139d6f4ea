"""Requests and answers against botocore's models: what botocore checks, what it does not, and that shapes are ours."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from chaos.aws import shapes
from chaos.aws.shapes import RELIED_ON, Model, compiled
from chaos.base.errors import InvalidInput, MissingPrerequisite

FIS, SSM, EC2 = Model("fis"), Model("ssm"), Model("ec2")
ARN = "arn:aws:ec2:eu-central-1:123456789012:instance/i-0123456789abcdef{}"
REQUEST: dict[str, Any] = {
    "clientToken": "token",
    "description": "stop one node",
    "stopConditions": [{"source": "none"}],
    "roleArn": "arn:aws:iam::123456789012:role/experiments",
    "targets": {
        "Nodes": {"resourceType": "aws:ec2:instance", "selectionMode": "ALL", "resourceArns": [ARN.format(1)]},
    },
    "actions": {
        "stop": {
            "actionId": "aws:ec2:stop-instances",
            "parameters": {"startInstancesAfterDuration": "PT2M"},
            "targets": {"Instances": "Nodes"},
        },
    },
    "tags": {"run": "r1"},
    "experimentOptions": {"emptyTargetResolutionMode": "fail"},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The request with something else at a path of names and numbers."""
    request: dict[str, Any] = json.loads(json.dumps(REQUEST))
    at: Any = request
    *above, last = path.split("/")
    for name in above:
        at = at[int(name)] if isinstance(at, list) else at[name]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return request


def test_a_right_request_has_no_problems() -> None:
    assert FIS.problems_of_input("CreateExperimentTemplate", REQUEST) == []


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("clientToken", None, "the request: lacks clientToken"),
        ("clientToken", "x" * 1025, "the request.clientToken: has 1025 characters, at most 1024"),
        ("roleArn", "arn:short", "the request.roleArn: has 9 characters, at least 20"),
        ("other", 1, 'the request: has "other", which is not known there'),
        ("targets/Nodes/selectionMode", None, 'the request.targets["Nodes"]: lacks selectionMode'),
        ("targets/Nodes/resourceArns", [], None),
        (
            "targets/Nodes/resourceArns",
            [ARN.format(n) for n in range(9)],
            'the request.targets["Nodes"].resourceArns: has 9 items, at most 5',
        ),
        ("targets/Nodes/resourceArns", ["short"], "resourceArns[0]: has 5 characters, at least 20"),
        ("targets/Nodes/resourceArns", ARN, "resourceArns: is text, not a list"),
        (
            "targets/a b",
            REQUEST["targets"]["Nodes"],
            'targets, key "a b": is "a b", which is not of the pattern [\\S]+',
        ),
        ("tags", {f"k{n}": "v" for n in range(99)}, "the request.tags: has 99 entries, at most 50"),
        (
            "experimentOptions/emptyTargetResolutionMode",
            "nope",
            'emptyTargetResolutionMode: is "nope", none of fail, skip',
        ),
        ("actions/stop/parameters/startInstancesAfterDuration", 2, "is a whole number, not text"),
        ("actions/stop/parameters/startInstancesAfterDuration", "  ", "is not of the pattern [\\S]+"),
        ("actions/stop/startAfter", [1], "startAfter[0]: is a whole number, not text"),
        ("actions", [], "the request.actions: is a list, not an object"),
        ("description", True, "the request.description: is true or false, not text"),
    ],
)
def test_what_is_wrong_is_said_with_its_path(path: str, value: Any, said: str | None) -> None:
    found = FIS.problems_of_input("CreateExperimentTemplate", changed(path, value))
    assert found == [] if said is None else len(found) == 1 and said in found[0], found


def test_botocore_lets_through_what_is_refused_here() -> None:
    """The reason for this module: where botocore learns it, that is worth to know."""
    from botocore.validate import ParamValidator

    operation = shapes._service("fis").operation_model("CreateExperimentTemplate")
    wrong = changed("targets/Nodes/resourceArns", [ARN.format(n) for n in range(9)])
    wrong["experimentOptions"] = {"emptyTargetResolutionMode": "nope"}
    assert not ParamValidator().validate(wrong, operation.input_shape).has_errors()
    assert len(FIS.problems_of_input("CreateExperimentTemplate", wrong)) == 2


def test_everything_that_is_wrong_is_said_at_once() -> None:
    wrong = changed("clientToken", None) | {"other": 1, "description": 5}
    assert len(FIS.problems_of_input("CreateExperimentTemplate", wrong)) == 3


@pytest.mark.parametrize("params", [None, [], "x", 1])
def test_a_request_is_an_object(params: Any) -> None:
    (line,) = FIS.problems_of_input("StartExperiment", params)
    assert line.startswith("the request: is ") and line.endswith("not an object")


def test_an_empty_id_would_be_another_address() -> None:
    assert "the request.id: is empty, and stands in the address of the request" in FIS.problems_of_input(
        "GetExperiment", {"id": ""}
    )


@pytest.mark.parametrize(
    ("value", "fits"),
    [(1, True), (0, False), (100, True), (101, False), (2**31, False), (True, False), (1.0, False), ("1", False)],
)
def test_numbers_have_limits(value: Any, fits: bool) -> None:
    assert (FIS.problems_of_input("ListExperiments", {"maxResults": value}) == []) is fits


def test_a_long_is_longer_than_an_integer() -> None:
    answer = {"experiment": {"targetAccountConfigurationsCount": 2**40}}
    assert FIS.problems_of_output("GetExperiment", answer) == []
    answer["experiment"]["targetAccountConfigurationsCount"] = 2**63
    assert len(FIS.problems_of_output("GetExperiment", answer)) == 1


@pytest.mark.parametrize(
    ("value", "fits"),
    [(1.5, True), (2, True), (Decimal("1.5"), True), (float("nan"), False), ("1", False), (False, False)],
)
def test_fractions(value: Any, fits: bool) -> None:
    answer = {"MetricAlarms": [{"Threshold": value}]}
    assert (Model("cloudwatch").problems_of_output("DescribeAlarms", answer) == []) is fits


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        (datetime.now(UTC), True),
        (1_700_000_000, True),
        (1.7e9, True),
        (float("inf"), False),
        (True, False),
        ("2026-01-01T00:00:00Z", False),
        (None, False),
    ],
)
def test_times_in_an_answer_are_numbers_in_json(value: Any, fits: bool) -> None:
    found = FIS.problems_of_output("StartExperiment", {"experiment": {"creationTime": value}})
    assert (found == []) is fits


def test_times_in_an_answer_are_text_in_xml() -> None:
    answer = {"Volumes": [{"CreateTime": "2026-01-01T00:00:00.000Z"}]}
    assert EC2.problems_of_output("DescribeVolumes", answer) == []
    assert EC2.problems_of_output("DescribeVolumes", {"Volumes": [{"CreateTime": "today"}]}) != []


def test_times_in_a_request_may_be_text() -> None:
    model = Model("cloudwatch")
    request: dict[str, Any] = {"AlarmName": "a", "StartDate": "2026-01-01T00:00:00Z"}
    assert model.problems_of_input("DescribeAlarmHistory", request) == []
    assert model.problems_of_input("DescribeAlarmHistory", request | {"StartDate": "soon"}) != []


def test_answers_are_held_against_their_shapes_too() -> None:
    answer = {
        "experiment": {
            "id": "EXP1",
            "state": {"status": "nonsense"},
            "actions": {"stop": {"state": {"status": "running"}, "unheard": 1}},
        },
        "ResponseMetadata": {"HTTPStatusCode": 200},
    }
    state, unheard = FIS.problems_of_output("GetExperiment", answer)
    assert state.startswith('the answer.experiment.state.status: is "nonsense", none of pending, ')
    assert unheard == 'the answer.experiment.actions["stop"]: has "unheard", which is not known there'


def test_an_operation_without_an_answer() -> None:
    assert EC2.problems_of_output("DeleteNetworkAcl", {}) == []
    assert EC2.problems_of_output("DeleteNetworkAcl", {"x": 1}) == ["the answer: takes nothing, and has an object"]
    assert EC2.problems_of_output("DeleteNetworkAcl", None) == ["the answer: takes nothing, and has null"]


def test_what_is_sensitive_is_not_repeated() -> None:
    secret = "hunter2 " * 200
    request = {"Name": "x", "Value": secret, "Type": "nonsense"}
    found = SSM.problems_of_input("PutParameter", request)
    assert found and not any("hunter2" in line for line in found)
    found = Model("iam").problems_of_input("ChangePassword", {"OldPassword": "hunter2\u20ac", "NewPassword": "x"})
    assert any("which is not of the pattern" in line for line in found)
    assert not any("hunter2" in line for line in found)


def test_a_union_has_one_member() -> None:
    """No operation that we rely on has one yet."""
    service = shapes._service("ssm")
    union = next(shape for shape in map(service.shape_for, service.shape_names) if shape.metadata.get("union"))
    found = list(shapes._Walk(answer=False, times=False).problems(union, {}, "it"))
    assert found == [f"it: has 0 members, not exactly one of {', '.join(union.members)}"]


@pytest.mark.parametrize(("service", "operation"), [("fis", "NoSuch"), ("nosuch", "Get")])
def test_what_botocore_does_not_know_is_refused(service: str, operation: str) -> None:
    with pytest.raises(InvalidInput, match="install a newer boto3"):
        Model(service).problems_of_input(operation, {})


def test_without_boto3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes._service.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "botocore"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "botocore", None)
    with pytest.raises(MissingPrerequisite, match=r"opensearch-chaos\[aws\]"):
        Model("fis").problems_of_input("GetExperiment", {})


def test_the_users_configuration_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes._service.cache_clear()
    monkeypatch.setenv("AWS_PROFILE", "is-not-there")
    assert FIS.problems_of_input("GetExperiment", {"id": "EXP1"}) == []


# ---- patterns -------------------------------------------------------------------------------------------


def patterns() -> set[str]:
    """Every pattern of fis and ssm, and of what the operations of ec2 and the others that we rely on consist of."""
    found = set()
    for service, operations in RELIED_ON.items():
        model = shapes._service(service)
        if service in ("fis", "ssm"):
            each = [model.shape_for(name) for name in model.shape_names]
        else:
            each = [shape for name in operations for shape in reached(model.operation_model(name))]
        found |= {shape.metadata["pattern"] for shape in each if "pattern" in shape.metadata}
    return found


def reached(operation: Any) -> list[Any]:
    seen: dict[str, Any] = {}
    left = [shape for shape in (operation.input_shape, operation.output_shape) if shape is not None]
    while left:
        shape = left.pop()
        if shape.name in seen:
            continue
        seen[shape.name] = shape
        if shape.type_name == "structure":
            left += shape.members.values()
        elif shape.type_name == "map":
            left += [shape.key, shape.value]
        elif shape.type_name == "list":
            left.append(shape.member)
    return list(seen.values())


def test_every_pattern_can_be_read() -> None:
    every = patterns()
    assert len(every) > 60
    assert [pattern for pattern in sorted(every) if compiled(pattern) is None] == []


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"[\S]+", "abc", "a c"),
        (r"[0-9]{12}", "123456789012", "1234567890123"),
        (r"^[\p{L}\p{Z}\p{N}_.:/=+\-@]+$", "Größe 7/x@y-z", "a#b"),
        (r"^([\p{L}\p{Z}\p{N}\p{P}\p{M}]*)$", "a-b (c)!", "a+b"),
        (r"\P{L}", "7", "a"),
        (r"\pL+", "äb", "1"),
        (r"\p{XDigit}{2}", "aF", "g0"),
        (r"\p{Lu}b", "Ab", "ab"),
        (r"^arn:role\/[\w-\/.@+=,]{1,17}$", "arn:role/a-b/c", "arn:role/a b"),
        (r"[\w-]+", "a-b", "a.b"),
        (r"[.-\w]+", "a-.b", "a/b"),
        (r"^\w+$", "abc", "äbc"),
        (r"^\d+$", "12", "\u0661"),
        (r"^a$", "a", "a\n"),
        (r"^(range|count|sum)", "count of x", "x count"),
        (r"(?i)all|[0-9]{12}", "ALL", "ball"),
        (r"[^\]]+", "a[b", "a]b"),
        (r"\[a]", "[a]", "a"),
    ],
)
def test_patterns_are_read_as_aws_means_them(pattern: str, good: str, bad: str) -> None:
    assert shapes._matches(pattern, good) is True
    assert shapes._matches(pattern, bad) is False


@pytest.mark.parametrize(
    "pattern", ["(", r"\p{Greek}", r"[\P{L}]", "[a[b]]", "[a-z&&[^b]]", r"\Qx\E", r"a{1,99999999999}"]
)
def test_a_pattern_that_cannot_be_read_lets_nothing_through(pattern: str) -> None:
    assert compiled(pattern) is None
    from botocore.model import ServiceModel

    description = {
        "metadata": {"protocol": "json"},
        "operations": {},
        "shapes": {"S": {"type": "string", "pattern": pattern}},
    }
    shape = ServiceModel(description).shape_for("S")
    (line,) = shapes._Walk(answer=False, times=False).problems(shape, "x", "it")
    assert line == f"it: cannot be checked, Python cannot read its pattern {pattern}"


# ---- what we rely on ------------------------------------------------------------------------------------


def test_the_operations_that_we_rely_on_have_the_shapes_that_we_know() -> None:
    assert shapes.changed() == []


def test_fis_has_no_operation_that_we_do_not_know() -> None:
    assert set(FIS.operations) == set(RELIED_ON["fis"]) and len(RELIED_ON["fis"]) == 26


def test_what_differs_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    recorded = json.loads(shapes.FILE.read_text())
    recorded["digests"]["fis"]["StartExperiment"] = "another"
    del recorded["digests"]["ssm"]["SendCommand"]
    recorded["digests"]["sts"]["GetFederationToken"] = "gone"
    file = tmp_path / "shapes.json"
    file.write_text(json.dumps(recorded))
    monkeypatch.setattr(shapes, "FILE", file)
    then = "read what changed, then run python -m chaos.aws.shapes --record"
    assert shapes.changed() == [
        f"fis StartExperiment has another shape: {then}",
        f"ssm SendCommand is not recorded: {then}",
        f"sts GetFederationToken is recorded, and not relied on: {then}",
    ]
    monkeypatch.setattr(sys, "argv", ["shapes"])
    assert shapes.main() == 1
    monkeypatch.setattr(sys, "argv", ["shapes", "--record"])
    assert shapes.main() == 0
    assert shapes.changed() == []
    assert file.read_text() == shapes.FILE.read_text()


BASE: dict[str, Any] = {
    "metadata": {"protocol": "rest-json", "serviceId": "Test", "endpointPrefix": "test"},
    "operations": {
        "Get": {
            "name": "Get",
            "http": {"method": "GET", "requestUri": "/a"},
            "input": {"shape": "In"},
            "output": {"shape": "Out"},
        },
    },
    "shapes": {
        "In": {"type": "structure", "required": ["a"], "members": {"a": {"shape": "S"}, "deep": {"shape": "L"}}},
        "L": {"type": "list", "member": {"shape": "M"}, "max": 3},
        "M": {"type": "map", "key": {"shape": "S"}, "value": {"shape": "Self"}},
        "Self": {"type": "structure", "members": {"again": {"shape": "Self"}, "e": {"shape": "E"}}},
        "S": {"type": "string", "min": 1, "max": 9, "pattern": "[a-z]+"},
        "E": {"type": "string", "enum": ["x", "y"]},
        "Out": {"type": "structure", "members": {"b": {"shape": "S"}}},
    },
}


def digest(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> str:
    """Of the operation with changes at paths, ``shapes__S__max``; None takes out."""
    from botocore.model import ServiceModel

    model: dict[str, Any] = json.loads(json.dumps(BASE))
    for path, value in changes.items():
        *above, last = path.split("__")
        at = model
        for name in above:
            at = at[name]
        if value is None:
            del at[last]
        else:
            at[last] = value
    monkeypatch.setattr(shapes, "_service", lambda name: ServiceModel(model, "test"))
    return Model("test").digest("Get")


@pytest.mark.parametrize(
    "change",
    [
        {"shapes__S__max": 10},
        {"shapes__S__min": None},
        {"shapes__S__pattern": "[a-z]*"},
        {"shapes__E__enum": ["x", "y", "z"]},
        {"shapes__L__max": 4},
        {"shapes__In__required": []},
        {"shapes__In__members__new": {"shape": "S"}},
        {"shapes__Self__members__e": None},
        {"shapes__Self__members__e": {"shape": "E", "locationName": "E"}},
        {"shapes__Out__members__b": {"shape": "E"}},
        {"shapes__In__members__a": {"shape": "S", "location": "querystring"}},
        {"operations__Get__http__requestUri": "/b"},
        {"operations__Get__http__method": "POST"},
        {"operations__Get__output": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_change_of_a_shape_changes_its_digest(change: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert digest(monkeypatch, **change) != digest(monkeypatch)


def test_words_and_orders_change_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = digest(monkeypatch)
    assert digest(monkeypatch, shapes__S__documentation="other words") == plain
    assert digest(monkeypatch, shapes__E__enum=["y", "x"]) == plain
    turned = dict(reversed(BASE["shapes"]["In"]["members"].items()))
    assert digest(monkeypatch, shapes__In__members=turned) == plain


def test_parameters_of_a_document_may_have_spaces_as_in_the_guide_of_aws() -> None:
    said = FIS.problems_of_input("CreateExperimentTemplate", changed("actions/stop/parameters/x", '{"a": "b"}'))
    assert said == []
