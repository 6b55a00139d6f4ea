"""One port on loopback for all AWS services: FIS is ours, some calls are the lab's, and all else is a moto server's.

Which service is meant stands in each request's credential scope. Signatures are not verified: nobody here has a secret.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import logging
import re
import socket
import socketserver
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Protocol, runtime_checkable
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

from chaos.base.errors import InvalidInput
from chaos.fis_endpoint import authorisation
from chaos.fis_endpoint.clients import client
from chaos.fis_endpoint.policy import ALLOW_ALL, PREFIXES, Policy
from chaos.fis_endpoint.routing import Refused, Reply, Routes, refusal
from chaos.fis_endpoint.service import Place, Service

LOG = logging.getLogger(__name__)
TIME_SCALE = "x-opensearch-chaos-time-scale"
"""The header of each answer of FIS that says by what durations are divided. FIS's shapes have no place for it."""
GLOBAL = frozenset({"iam", "sts"})
WITHOUT_RIGHTS = "sts:GetCallerIdentity"
"""No policy denies it, not even an explicit Deny (AWS STS API reference)."""
"""Services whose requests may be signed for us-east-1 wherever the client is."""
TIMEOUT = 120.0
"""Seconds for a request to come, and for moto to answer."""
LARGEST = 10_000_000
"""Bytes of a request."""
_SCOPE = re.compile(r"AWS4-HMAC-SHA256\s+Credential=([^/,\s]+)/([0-9]{8})/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request[,\s]")
_RPC = re.compile(r"/service/[^/]+/operation/([A-Za-z0-9]+)/?")
_HOPS = frozenset({"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"})


@dataclass(frozen=True)
class Request:
    """``path``: with its query, as it came. ``headers``: names in lower case. ``service``: as in the scope."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    service: str
    region: str

    @property
    def operation(self) -> str:
        """Its name, by X-Amz-Target (JSON 1.1), ``Action`` (query) or the path (RPC); empty for a REST service."""
        target = self.headers.get("x-amz-target")
        if target is not None:
            return target.rpartition(".")[2]
        path, _, query = self.path.partition("?")
        found = _RPC.fullmatch(path)
        if found is not None:
            return found[1]
        form = self.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
        text = self.body.decode("utf-8", "replace") if form else query
        return (parse_qs(text).get("Action") or parse_qs(query).get("Action") or [""])[0]


class Answered(Protocol):
    """An HTTP answer, whoever made it (:class:`Reply` is one). ``headers`` has no Content-Length."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def body(self) -> bytes: ...


Handler = Callable[[Request], Answered | None]
"""Answers a request of its service; None: it is moto's."""


@runtime_checkable
class Rest(Protocol):
    """A handler whose operations stand in method and path."""

    def __call__(self, request: Request) -> Answered | None: ...

    def operation(self, request: Request) -> str: ...


@dataclass(frozen=True)
class Moto:
    """Hands requests to a moto server, and its answers back, as they are. ``url``: ``http://127.0.0.1:5000``."""

    url: str

    def __call__(self, request: Request) -> Reply:
        """Raises OSError or HTTPException where moto does not answer."""
        where = urlsplit(self.url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port or 80, timeout=TIMEOUT)
        try:
            headers = {name: value for name, value in request.headers.items() if name not in _HOPS}
            headers["content-length"] = str(len(request.body))
            connection.request(request.method, request.path, request.body, headers)
            answer = connection.getresponse()
            kept = {
                name: value for name, value in answer.getheaders() if name.lower() not in _HOPS | {"content-length"}
            }
            return Reply(answer.status, kept, answer.read())
        finally:
            connection.close()


@dataclass(frozen=True)
class Endpoint:
    """What answers requests, whoever carries them. ``moto`` None: there are no other services but those in
    ``handlers``."""

    service: Service
    routes: Routes
    place: Place
    handlers: Mapping[str, Handler] = field(default_factory=lambda: MappingProxyType({}))
    moto: Handler | None = None
    policy: Policy = ALLOW_ALL
    time_scale: float = 1.0

    def respond(self, request: Request) -> Answered:
        """Never raises: an error of ours is an answer with status 500."""
        try:
            if request.region != self.place.region and request.service not in GLOBAL:
                says = f"Credential should be scoped to a valid region: this endpoint is in {self.place.region}"
                raise Refused("InvalidSignatureException", says)
            if request.service == "fis":
                return self.fis(request)
            return self.other(request)
        except Refused as error:
            refused = error
        except Exception as error:
            LOG.exception("%s %s", request.method, request.path)
            says = f"the local endpoint failed: {type(error).__name__}: {error}"
            refused = Refused("InternalServerException", says)
        return self._marked(refusal(refused)) if request.service == "fis" else refused_otherwise(request, refused)

    def fis(self, request: Request) -> Reply:
        """Authorised before it is validated, as AWS does. Raises Refused."""
        operation, params = self.routes.parse(request.method, request.path, request.body)
        if self.policy.statements is not None:
            self._authorise(authorisation.of_fis(operation, params, self.place, self._tags))
        self.routes.check(operation, params)
        return self._marked(self.routes.answer(operation, self.service.call(operation, params)))

    def other(self, request: Request) -> Answered:
        """Raises Refused."""
        prefix = PREFIXES.get(request.service, request.service)
        if self.policy.statements is not None:
            action = f"{prefix}:{self.operation(request) or '*'}"
            if action != WITHOUT_RIGHTS:
                self._authorise([authorisation.of_others(action, request.body, self.place, self._tags)])
        for handler in (self.handlers.get(request.service), self.moto):
            try:
                answer = None if handler is None else handler(request)
            except (OSError, http.client.HTTPException) as error:
                says = f"who answers for {request.service} does not: {type(error).__name__}"
                raise Refused("ServiceUnavailableException", says) from error
            if answer is not None:
                return answer
        raise Refused("UnknownOperationException", f"the local endpoint has no service {request.service}")

    def _authorise(self, needed: Sequence[authorisation.Needed]) -> None:
        """Raises Refused."""
        for action, on in needed:
            denied = self.policy.denies(action, on)
            if denied is not None:
                raise Refused("AccessDeniedException", denied)

    def _tags(self, name: str) -> Mapping[str, str]:
        """Of an ARN of FIS, or an id of EC2; of an association of a network ACL those of its subnet."""
        if name.startswith("arn:"):
            try:
                return dict(self.service.call("ListTagsForResource", {"resourceArn": name})["tags"])
            except Refused:
                return {}
        if not isinstance(self.moto, Moto):
            return {}
        ec2 = client("ec2", self.moto.url)
        if name.startswith("aclassoc-"):
            filters = [{"Name": "association.association-id", "Values": [name]}]
            found = ec2.describe_network_acls(Filters=filters)["NetworkAcls"]
            mine = [a["SubnetId"] for acl in found for a in acl["Associations"] if a["NetworkAclAssociationId"] == name]
            return self._tags(mine[0]) if mine else {}
        told = ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": [name]}])["Tags"]
        return {each["Key"]: each["Value"] for each in told}

    def operation(self, request: Request) -> str:
        """Its name; empty where nobody here knows it."""
        if request.service == "fis":
            return self.routes.named(request)
        handler = self.handlers.get(request.service)
        return request.operation or (handler.operation(request) if isinstance(handler, Rest) else "")

    def _marked(self, reply: Reply) -> Reply:
        return Reply(reply.status, {**reply.headers, TIME_SCALE: f"{self.time_scale:g}"}, reply.body)


def refused_otherwise(request: Request, refused: Refused) -> Reply:
    """An error in the protocol of another service. EC2 and query services have their own names for a denial."""
    denied, headers = refused.code == "AccessDeniedException", {"Content-Type": "text/xml"}
    if request.service == "ec2":
        code = "UnauthorizedOperation" if denied else refused.code
        error = f"<Code>{code}</Code><Message>{escape(refused.message)}</Message>"
        text = f"<Response><Errors><Error>{error}</Error></Errors><RequestID>local</RequestID></Response>"
        return Reply(refused.status, headers, text.encode())
    if "x-amz-target" in request.headers or not request.operation or _RPC.fullmatch(request.path.partition("?")[0]):
        body = json.dumps({"__type": refused.code, "message": refused.message}).encode()
        kind = {"Content-Type": "application/x-amz-json-1.1", "x-amzn-errortype": refused.code}
        return Reply(refused.status, kind, body)
    code = "AccessDenied" if denied else refused.code
    error = f"<Type>Sender</Type><Code>{code}</Code><Message>{escape(refused.message)}</Message>"
    text = f"<ErrorResponse><Error>{error}</Error><RequestId>local</RequestId></ErrorResponse>"
    return Reply(refused.status, headers, text.encode())


class Server(ThreadingHTTPServer):
    """Answers on ``url`` from the moment that it is made; ``serve_forever`` in a thread makes it go on.

    Raises InvalidInput for an address that is not of loopback, or that is taken.
    """

    connection: type[Connection]
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, endpoint: Endpoint, host: str = "127.0.0.1", port: int = 0) -> None:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            raise InvalidInput(f"{host} is no IP address", remedy="listen on 127.0.0.1 or ::1") from None
        if not address.is_loopback:
            says = f"{host} is not a loopback address: who reaches the endpoint can break the lab"
            raise InvalidInput(says, remedy="listen on 127.0.0.1 or ::1")
        self.endpoint = endpoint
        self.address_family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        try:
            super().__init__((host, port), self.connection)
        except OSError as error:
            raise InvalidInput(
                f"cannot listen on {host}:{port}: {error.strerror}", remedy="name another port"
            ) from error

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://[{host!s}]:{port}" if self.address_family == socket.AF_INET6 else f"http://{host!s}:{port}"

    def server_bind(self) -> None:
        """Without the look-up of the host's name that http.server makes."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])


class Connection(BaseHTTPRequestHandler):
    """One connection: reads a request, hands it to the endpoint, sends what comes back."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits up to 40 ms until its head is acknowledged
    timeout = TIMEOUT

    def answer(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        request = self._request()
        if isinstance(request, Reply):
            self.close_connection = True
            self.send(request)
        else:
            self.deliver(server.endpoint, request)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = answer

    def deliver(self, endpoint: Endpoint, request: Request) -> None:
        self.send(endpoint.respond(request))

    def send(self, reply: Answered) -> None:
        try:
            self.send_response_only(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)
        except OSError:
            self.close_connection = True

    def _request(self) -> Request | Reply:
        """What was asked, or the answer to what nobody can be asked."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not length.isdecimal() or int(length) > LARGEST:
            says = f"a request has a Content-Length of at most {LARGEST} bytes"
            return refusal(Refused("SerializationException", says))
        body = self.rfile.read(int(length))
        scope = _SCOPE.match(headers.get("authorization", ""))
        if scope is None:
            says = (
                "Request is missing Authentication Token: the service is found by the scope of an AWS4-HMAC-SHA256 one"
            )
            return refusal(Refused("MissingAuthenticationTokenException", says))
        return Request(self.command, self.path, headers, body, scope[4], scope[3])

    def log_message(self, format: str, *args: object) -> None:
        LOG.debug(format, *args)


Server.connection = Connection
