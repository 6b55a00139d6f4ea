"""The other side of AWS Signature Version 4: verifies requests as they came in, from Amazon's description alone.

Nothing of boto, botocore or opensearch-py is used. Source:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html (canonical request, string to
sign, signature) and AWS's test suite, against which ``tests/unit/base/test_sigv4.py`` checks it. A plus in a query is
a plus here, as RFC 3986 has it; what AWS takes it for is not written.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, unquote_to_bytes

ALGORITHM = "AWS4-HMAC-SHA256"
TOLERATED = timedelta(minutes=15)
_AUTHORIZATION = re.compile(
    rf"{ALGORITHM} Credential=([^/,\s]+)/(\d{{8}})/([^/,\s]+)/([^/,\s]+)/aws4_request, ?"
    r"SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})"
)


class Refused(Exception):
    """Why a request is not let through, in words as AWS has them."""


@dataclass(frozen=True)
class Request:
    """A request as its bytes came in. ``target``: path and query."""

    method: str
    target: bytes
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""

    def header(self, name: str) -> str | None:
        """The values of a header: each trimmed, blanks in it made one, joined with commas."""
        values = [" ".join(value.split()) for each, value in self.headers if each.lower() == name]
        return ",".join(values) if values else None


@dataclass(frozen=True)
class Key:
    id: str
    secret: str
    token: str | None = None


@dataclass
class Verifier:
    """``now``: the clock of the other side; None: this machine's."""

    keys: tuple[Key, ...]
    region: str
    service: str = "es"
    now: datetime | None = None

    def verify(self, request: Request) -> None:
        """Raises Refused."""
        given = request.header("authorization")
        if given is None:
            raise Refused("User: anonymous is not authorized to perform: es:ESHttpGet")
        if (parsed := _AUTHORIZATION.fullmatch(given)) is None:
            raise Refused("IncompleteSignature: the authorization header cannot be read")
        id, date, region, service, signed, signature = parsed.groups()
        key = next((key for key in self.keys if key.id == id), None)
        if key is None or request.header("x-amz-security-token") != key.token:
            raise Refused("The security token included in the request is invalid.")
        if region != self.region:
            raise Refused("Credential should be scoped to a valid region.")
        if service != self.service:
            raise Refused(f"Credential should be scoped to correct service: '{self.service}'.")
        names = signed.split(";")
        must = {name.lower() for name, _ in request.headers if name.lower().startswith("x-amz-")} | {"host"}
        if names != sorted(set(names)) or not must <= set(names):
            raise Refused(f"IncompleteSignature: signed are {signed}, must be {sorted(must)}")
        self._in_time(at := request.header("x-amz-date") or "", date)
        if (said := request.header("x-amz-content-sha256")) not in (None, hashlib.sha256(request.body).hexdigest()):
            raise Refused(f"The body is not the one that was signed: {said}")
        scope = f"{date}/{region}/{service}/aws4_request"
        text = "\n".join((ALGORITHM, at, scope, hashlib.sha256(canonical(request, names).encode()).hexdigest()))
        secret = f"AWS4{key.secret}".encode()
        for part in (date, region, service, "aws4_request", text):
            secret = hmac.digest(secret, part.encode(), "sha256")
        if not hmac.compare_digest(secret.hex(), signature):
            raise Refused(
                "The request signature we calculated does not match the signature you provided. The canonical request "
                f"should have been '{canonical(request, names)}'"
            )

    def _in_time(self, at: str, date: str) -> None:
        now = self.now or datetime.now(UTC)
        try:
            when = datetime.strptime(at, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        except ValueError:
            raise Refused("IncompleteSignature: no x-amz-date") from None
        if at[:8] != date:
            raise Refused("Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP")
        if when < now - TOLERATED:
            edge = f"{now - TOLERATED:%Y%m%dT%H%M%SZ}"
            raise Refused(f"Signature expired: {at} is now earlier than {edge} ({now:%Y%m%dT%H%M%SZ} - 15 min.)")
        if when > now + TOLERATED:
            edge = f"{now + TOLERATED:%Y%m%dT%H%M%SZ}"
            raise Refused(
                f"Signature not yet current: {at} is still later than {edge} ({now:%Y%m%dT%H%M%SZ} + 15 min.)"
            )


def canonical(request: Request, names: Iterable[str]) -> str:
    """The canonical request. A header that is signed and not there is empty."""
    path, _, query = request.target.partition(b"?")
    segments: list[bytes] = []
    for segment in path.split(b"/"):
        if segment == b"..":
            segments = segments[:-1]
        elif segment not in (b"", b"."):
            segments.append(segment)
    slash = b"/" if segments and path.endswith(b"/") else b""
    pairs = []
    for pair in query.split(b"&") if query else []:
        name, _, value = pair.partition(b"=")
        pairs.append((_encoded(unquote_to_bytes(name)), _encoded(unquote_to_bytes(value))))
    return "\n".join(
        (
            request.method,
            "/" + "/".join(map(_encoded, segments)) + slash.decode(),
            "&".join(f"{name}={value}" for name, value in sorted(pairs)),
            *(f"{name}:{request.header(name) or ''}" for name in names),
            "",
            ";".join(names),
            hashlib.sha256(request.body).hexdigest(),
        )
    )


def _encoded(data: bytes) -> str:
    return quote(data, safe="-_.~")


@dataclass
class Domain:
    """A server on the loopback that lets through what is signed, and answers somewhat like OpenSearch.

    ``said``: path → what it answers; by default an empty list for ``_cat`` and a small object for others. ``gone``:
    paths that are answered with a redirect to ``elsewhere``.
    """

    verifier: Verifier
    port: int = 0
    said: dict[str, Any] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    elsewhere: str = "/elsewhere"
    taken: list[Request] = field(default_factory=list, repr=False)
    refused: list[tuple[Request, str]] = field(default_factory=list, repr=False)

    def answer(self, request: Request) -> tuple[int, Any]:
        path = request.target.partition(b"?")[0].decode("latin-1")
        try:
            self.verifier.verify(request)
        except Refused as error:
            self.refused.append((request, str(error)))
            return 403, {"message": str(error)}
        self.taken.append(request)
        return (302 if path in self.gone else 200), self.said.get(path, [] if path.startswith("/_cat/") else {"n": 1})


@contextmanager
def serving(verifier: Verifier) -> Iterator[Domain]:
    domain = Domain(verifier)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def __getattr__(self, name: str) -> Any:
            if name.startswith("do_"):  # whatever method there is
                return self.take
            raise AttributeError(name)

        def take(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            # self.path is another one where a path begins with two slashes
            target = self.raw_requestline.split(b" ")[1]
            status, said = domain.answer(Request(self.command, target, tuple(self.headers.items()), body))
            raw = json.dumps(said).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("location", domain.elsewhere)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    domain.port = server.server_port
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield domain
    finally:
        server.shutdown()
        server.server_close()
