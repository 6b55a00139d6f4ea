"""The rest-json protocol of AWS, by botocore's own service model: requests become operations, answers become bytes.

Nothing here knows what an operation does. Every request is validated by its input shape, and every answer by its output
shape before it is sent: a wrong answer of ours is an InternalServerException that says so.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import parse_qs, unquote

from chaos.base.errors import MissingPrerequisite
from chaos.base.extras import AWS

JSON = "application/json"
UNMODELLED = {
    "AccessDeniedException": 403,
    "InternalServerException": 500,
    "InvalidSignatureException": 403,
    "MissingAuthenticationTokenException": 403,
    "SerializationException": 400,
    "ServiceUnavailableException": 503,
    "ThrottlingException": 429,
    "UnknownOperationException": 404,
}
"""Errors that any AWS service may answer and that FIS's model does not have → HTTP status."""
MODELLED = {
    "ValidationException": 400,
    "ResourceNotFoundException": 404,
    "ConflictException": 409,
    "ServiceQuotaExceededException": 402,
}
"""FIS's own errors → HTTP status. A test compares this with botocore's model."""
OF_DOMAINS = {"DisabledOperationException": 409, "ResourceNotFoundException": 409, "ValidationException": 400}
"""Errors of Amazon OpenSearch Service's own → HTTP status; the same test."""
_LABEL = re.compile(r"\{(\w+)\}")


class Refused(Exception):
    """An operation that is answered with an error of AWS's. ``code``: a key of ``modelled`` or UNMODELLED."""

    def __init__(self, code: str, message: str, modelled: Mapping[str, int] = MODELLED) -> None:
        super().__init__(message)
        self.code, self.message = code, message
        self.status = {**UNMODELLED, **modelled}[code]


@dataclass(frozen=True)
class Reply:
    """An HTTP answer. ``headers`` has no Content-Length: who sends it counts."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Asked(Protocol):
    """An HTTP request. ``path``: with its query."""

    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def body(self) -> bytes: ...


class Shapes(Protocol):
    """botocore's shapes with all their limits (chaos.aws.shapes.Model)."""

    def problems_of_input(self, operation: str, params: dict[str, Any]) -> list[str]: ...

    def problems_of_output(self, operation: str, answer: dict[str, Any]) -> list[str]: ...


@dataclass(frozen=True)
class _Route:
    operation: str
    method: str
    path: re.Pattern[str]
    labels: tuple[str, ...]
    input: Any


class Routes:
    """The operations of a service, FIS where none is named. Raises MissingPrerequisite where there is no botocore."""

    def __init__(self, shapes: Shapes, service: str = "fis", version: str = "2020-12-01") -> None:
        try:
            from botocore.loaders import create_loader
            from botocore.model import ServiceModel
        except ImportError:
            raise MissingPrerequisite("the FIS endpoint needs the Python package boto3", remedy=AWS.install) from None
        model = ServiceModel(create_loader().load_service_model(service, "service-2", version), service)
        self._shapes, self._service = shapes, "FIS" if service == "fis" else model.metadata["serviceId"]
        self._outputs = {name: model.operation_model(name).output_shape for name in model.operation_names}
        self._routes = [_route(model.operation_model(name)) for name in model.operation_names]

    @property
    def operations(self) -> tuple[str, ...]:
        return tuple(sorted(self._outputs))

    def parse(self, method: str, target: str, body: bytes) -> tuple[str, dict[str, Any]]:
        """The operation and its parameters as a client of boto3 gave them; not validated. ``target``: path and query.

        Raises Refused: UnknownOperationException, SerializationException, or ValidationException for a number in the
        query that is none.
        """
        path, _, query = target.partition("?")
        for route in self._routes:
            found = route.path.fullmatch(path) if route.method == method else None
            if found is not None:
                params: dict[str, Any] = _of_body(route.input, body)
                params.update(_of_query(route.input, query))
                params.update(zip(route.labels, map(unquote, found.groups()), strict=True))
                return route.operation, params
        raise Refused("UnknownOperationException", f"{self._service} has no {method} {path}")

    def named(self, request: Asked) -> str:
        """The operation's name; empty where the service has none such."""
        try:
            return self.parse(request.method, request.path, request.body)[0]
        except Refused:
            return ""

    def check(self, operation: str, params: dict[str, Any]) -> None:
        """Raises Refused with ValidationException where the parameters do not fit the input shape."""
        problems = self._shapes.problems_of_input(operation, params)
        if problems:
            found = f"{len(problems)} validation error{'s' if len(problems) > 1 else ''} detected"
            raise Refused("ValidationException", f"{found}: {'; '.join(problems)}")

    def answer(self, operation: str, output: dict[str, Any]) -> Reply:
        """What is sent. Moments in ``output`` are datetimes. Raises Refused with InternalServerException where it does
        not fit the output shape."""
        problems = self._shapes.problems_of_output(operation, output)
        if problems:
            says = f"the local endpoint made an answer to {operation} that is none of {self._service}'s"
            raise Refused("InternalServerException", f"{says}: {'; '.join(problems)}")
        sent = _sent(self._outputs[operation], output)
        return Reply(200, _headers(), json.dumps(sent, allow_nan=False).encode())


def refusal(refused: Refused) -> Reply:
    """An error as such services answer it: its code in ``x-amzn-errortype``."""
    return Reply(
        refused.status,
        {**_headers(), "x-amzn-errortype": refused.code},
        json.dumps({"message": refused.message}).encode(),
    )


def _headers() -> dict[str, str]:
    return {"Content-Type": JSON, "x-amzn-RequestId": str(uuid.uuid4())}


def _route(operation: Any) -> _Route:
    uri = str(operation.http["requestUri"])
    names = {
        shape.serialization["name"]: member
        for member, shape in operation.input_shape.members.items()
        if shape.serialization.get("location") == "uri"
    }
    pattern = "".join("([^/]+)" if n % 2 else re.escape(part) for n, part in enumerate(_LABEL.split(uri)))
    labels = tuple(names[label] for label in _LABEL.findall(uri))
    return _Route(operation.name, operation.http["method"], re.compile(pattern), labels, operation.input_shape)


def _of_body(shape: Any, body: bytes) -> dict[str, Any]:
    """The members of a JSON body. Those that the shape does not have are kept: validation names them."""
    if not body:
        return {}
    try:
        given = json.loads(body)
    except ValueError as error:
        raise Refused("SerializationException", f"the body is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise Refused("SerializationException", "the body is no JSON object")
    by_wire: dict[str, str] = {
        str(member.serialization.get("name", name)): name
        for name, member in _members(shape)
        if "location" not in member.serialization
    }
    elsewhere = {name for name in given if name in shape.members and name not in by_wire}
    if elsewhere:
        raise Refused("SerializationException", f"not of the body: {', '.join(sorted(elsewhere))}")
    return {by_wire.get(str(name), str(name)): value for name, value in given.items() if value is not None}


def _members(shape: Any) -> list[tuple[str, Any]]:
    return list(shape.members.items())


def _of_query(shape: Any, query: str) -> dict[str, Any]:
    """The members of a query string, each by the type of its shape."""
    given = parse_qs(query, keep_blank_values=True)
    params: dict[str, Any] = {}
    for member, one in _members(shape):
        if one.serialization.get("location") != "querystring":
            continue
        values = given.get(one.serialization.get("name", member))
        if values is None:
            continue
        if one.type_name == "list":
            params[member] = values
        elif len(values) > 1:
            raise Refused("ValidationException", f"{member} is given {len(values)} times")
        elif one.type_name in ("integer", "long"):
            if not re.fullmatch(r"-?[0-9]{1,18}", values[0]):
                raise Refused("ValidationException", f"{member} is no number: {values[0]}")
            params[member] = int(values[0])
        else:
            params[member] = values[0]
    return params


def _sent(shape: Any, value: Any) -> Any:
    """A value as rest-json writes it: moments as seconds since 1970, members under their names on the wire."""
    into: dict[str, Callable[[], Any]] = {
        "structure": lambda: {
            shape.members[name].serialization.get("name", name): _sent(shape.members[name], each)
            for name, each in value.items()
        },
        "map": lambda: {name: _sent(shape.value, each) for name, each in value.items()},
        "list": lambda: [_sent(shape.member, each) for each in value],
        "timestamp": lambda: value.timestamp() if isinstance(value, datetime) else value,
    }
    made = into.get(shape.type_name)
    return value if made is None else made()
