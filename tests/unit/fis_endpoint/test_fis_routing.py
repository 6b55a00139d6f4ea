"""rest-json by botocore's model: what its serializer writes is read, what is written its parser reads."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from apart import examples
from fiskit import HAS_SHAPES, Shapes, shapes, template
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.fis_endpoint.routing import MODELLED, OF_DOMAINS, Refused, Routes, refusal

botocore = pytest.importorskip("botocore", reason="boto3 is the extra [aws]")
needs_limits = pytest.mark.skipif(not HAS_SHAPES, reason="chaos.aws.shapes is not there")


def model() -> Any:
    from botocore.loaders import create_loader
    from botocore.model import ServiceModel

    return ServiceModel(create_loader().load_service_model("fis", "service-2", "2020-12-01"), "fis")


MODEL = model()
ROUTES = Routes(Shapes())
OPERATIONS = sorted(MODEL.operation_names)
WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


def values(shape: Any) -> st.SearchStrategy[Any]:
    """Of a shape's type; its limits are another matter."""
    kind = shape.type_name
    if kind == "structure":
        must = {name: values(each) for name, each in shape.members.items() if name in shape.required_members}
        may = {name: values(each) for name, each in shape.members.items() if name not in must}
        return st.fixed_dictionaries(must, optional=may)
    if kind == "list":
        return st.lists(values(shape.member), min_size=1, max_size=2)
    if kind == "map":
        return st.dictionaries(values(shape.key), values(shape.value), max_size=2)
    by_type: dict[str, st.SearchStrategy[Any]] = {
        "integer": st.integers(0, 100),
        "long": st.integers(0, 10**9),
        "boolean": st.booleans(),
        "timestamp": MOMENTS,
    }
    return by_type.get(kind, WORDS)


def sent(operation: str, params: dict[str, Any]) -> tuple[str, str, bytes]:
    """Method, path with query, and body, as botocore sends it."""
    from botocore.serialize import create_serializer

    serializer = create_serializer("rest-json", include_validation=False)
    request = serializer.serialize_to_request(params, MODEL.operation_model(operation))
    query = urlencode(request["query_string"], doseq=True) if request["query_string"] else ""
    body = request["body"]
    return request["method"], request["url_path"] + (f"?{query}" if query else ""), body if body else b""


def test_all_operations_are_there() -> None:
    assert list(ROUTES.operations) == OPERATIONS and len(OPERATIONS) == 26


@pytest.mark.parametrize("operation", OPERATIONS)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_what_botocore_sends_is_what_was_asked(operation: str, data: st.DataObject) -> None:
    params = data.draw(values(MODEL.operation_model(operation).input_shape))
    method, path, body = sent(operation, params)
    assert ROUTES.parse(method, path, body) == (operation, params)


@pytest.mark.parametrize("operation", OPERATIONS)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_what_is_answered_is_what_botocore_reads(operation: str, data: st.DataObject) -> None:
    from botocore.parsers import create_parser

    shape = MODEL.operation_model(operation).output_shape
    output = data.draw(values(shape))
    reply = Routes(_Anything()).answer(operation, output)
    read = create_parser("rest-json").parse(
        {"status_code": reply.status, "headers": dict(reply.headers), "body": reply.body, "context": {}}, shape
    )
    read.pop("ResponseMetadata")
    assert near(read) == near(output)


class _Anything:
    def problems_of_input(self, operation: str, params: dict[str, Any]) -> list[str]:
        return []

    def problems_of_output(self, operation: str, answer: dict[str, Any]) -> list[str]:
        return []


def near(value: Any) -> Any:
    """Moments to the millisecond: they are floating-point numbers on the wire."""
    if isinstance(value, dict):
        return {name: near(each) for name, each in value.items()}
    if isinstance(value, list):
        return [near(each) for each in value]
    return round(value.timestamp(), 3) if isinstance(value, datetime) else value


def test_moments_are_numbers_on_the_wire() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    reply = ROUTES.answer("GetExperiment", {"experiment": {"creationTime": at}})
    assert json.loads(reply.body) == {"experiment": {"creationTime": 1767225600.0}}


def test_no_input_has_a_moment() -> None:
    """Their parsing is not written. A model that gets one fails here."""

    def kinds(shape: Any) -> set[str]:
        inner = {
            "structure": lambda: list(shape.members.values()),
            "list": lambda: [shape.member],
            "map": lambda: [shape.key, shape.value],
        }.get(shape.type_name, list)()
        return {shape.type_name}.union(*map(kinds, inner))

    seen = set().union(*(kinds(MODEL.operation_model(name).input_shape) for name in OPERATIONS))
    assert seen == {"structure", "list", "map", "string", "integer"}
    locations = {
        member.serialization.get("location")
        for name in OPERATIONS
        for member in MODEL.operation_model(name).input_shape.members.values()
    }
    assert locations == {None, "uri", "querystring"}


def test_modelled_errors_have_the_models_status() -> None:
    shapes_of_errors = {error.name: error for name in OPERATIONS for error in MODEL.operation_model(name).error_shapes}
    assert {name: error.metadata["error"]["httpStatusCode"] for name, error in shapes_of_errors.items()} == MODELLED


def test_so_have_those_of_domains() -> None:
    import botocore.session

    model = botocore.session.Session().get_service_model("opensearch")
    errors = {error.name: error for error in model.operation_model("StartDomainMaintenance").error_shapes}
    assert {name: errors[name].metadata["error"]["httpStatusCode"] for name in OF_DOMAINS} == OF_DOMAINS


def test_an_error_is_read_by_botocore() -> None:
    from botocore.parsers import create_parser

    reply = refusal(Refused("ServiceQuotaExceededException", "too many"))
    shape = MODEL.operation_model("StartExperiment").output_shape
    read = create_parser("rest-json").parse(
        {"status_code": reply.status, "headers": dict(reply.headers), "body": reply.body, "context": {}}, shape
    )
    assert reply.status == 402 and read["Error"] == {"Code": "ServiceQuotaExceededException", "Message": "too many"}


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "/nothing", b"", "UnknownOperationException"),
        ("PUT", "/experiments", b"", "UnknownOperationException"),
        ("GET", "/experiments/a/b", b"", "UnknownOperationException"),
        ("POST", "/experiments", b"{", "SerializationException"),
        ("POST", "/experiments", b"[]", "SerializationException"),
        ("POST", "/experiments", b"\xff", "SerializationException"),
        ("PATCH", "/experimentTemplates/a", b'{"id": "another"}', "SerializationException"),
        ("GET", "/experiments?maxResults=many", b"", "ValidationException"),
        ("GET", "/experiments?maxResults=1&maxResults=2", b"", "ValidationException"),
    ],
)
def test_what_is_no_request_is_refused(method: str, path: str, body: bytes, code: str) -> None:
    with pytest.raises(Refused) as refused:
        ROUTES.parse(method, path, body)
    assert refused.value.code == code


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_member_that_nobody_knows_is_refused(operation: str) -> None:
    with pytest.raises(Refused, match=r"nonsense|Unknown"):
        ROUTES.check(operation, {"nonsense": 1})


def test_a_wrong_answer_of_ours_is_never_sent() -> None:
    with pytest.raises(Refused, match="none of FIS's") as refused:
        ROUTES.answer("GetExperiment", {"experiment": {"state": {"status": 7}}})
    assert (refused.value.code, refused.value.status) == ("InternalServerException", 500)


@needs_limits
@pytest.mark.parametrize(
    "wrong",
    [
        {"tags": {str(n): "" for n in range(51)}},
        {"description": "x" * 513},
        {"targets": {"nodes": {"resourceType": "x", "selectionMode": "ALL", "resourceArns": ["a" * 30] * 6}}},
        {"actions": {"a": {"actionId": "two words"}}},
        {"experimentOptions": {"emptyTargetResolutionMode": "nope"}},
    ],
)
def test_max_pattern_and_enum_are_checked(wrong: dict[str, Any]) -> None:
    Routes(shapes()).check("CreateExperimentTemplate", template())
    with pytest.raises(Refused) as refused:
        Routes(shapes()).check("CreateExperimentTemplate", template(**wrong))
    assert refused.value.code == "ValidationException"


@needs_limits
def test_a_state_that_fis_does_not_have_is_not_answered() -> None:
    with pytest.raises(Refused, match="none of FIS's"):
        Routes(shapes()).answer("GetExperiment", {"experiment": {"state": {"status": "sleeping"}}})
