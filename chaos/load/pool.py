"""The load's connections to one node, kept and used again, without the price of a general HTTP client.

opensearch-py hands each request to an urllib3 pool. :class:`KeptConnections` takes that pool's place: urllib3 still
makes connections (namespaces, TLS, whose cluster answers: :func:`chaos.opensearch.rest.connection_class`), and
opensearch-py still decides what is retried and which node is dead. Between them a request is one ``sendall``, and its
answer is read by llhttp, the parser in C that geventhttpclient (a dependency of Locust) brings. The same exchange by
urllib3 and ``http.client`` cost more than half of the driver's processor time (``benchmarks/driver_cost.py``).

What is an answer and what is none is as in :mod:`chaos.opensearch.rest`; errors are those that urllib3 raises, because
:func:`chaos.load.outcomes.of_error` reads them.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from http.client import HTTPException, RemoteDisconnected
from io import BytesIO
from typing import Any

import urllib3
from geventhttpclient._parser import HTTPParseError, HTTPResponseParser
from urllib3.connection import HTTPConnection
from urllib3.exceptions import DecodeError, HTTPError, ProtocolError, ReadTimeoutError, SSLError
from urllib3.util import parse_url
from urllib3.util.ssl_match_hostname import CertificateError

from chaos.opensearch.rest import LARGEST, Garbled

_PIECE = 1 << 16
"""Bytes that are read at once."""
_HEAD = 1 << 16
"""Bytes that a head may have, at least; http.client takes lines of that length."""
_ON_WIRE = re.compile(r"[\x21-\x7e]+")
"""A target that needs no encoding."""
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
"""Methods whose requests say how long they are, also where they have no body (RFC 9110, section 8.6)."""


class Headers(list[tuple[str, str]]):
    """The fields of a head in their order; names in lower case."""

    def get_all(self, name: str, default: Iterable[str] = ()) -> Iterable[str]:
        """The values of all fields of that name; ``default`` where there is none."""
        return [value for key, value in self if key == name] or default

    def items(self) -> Headers:
        return self


class Message(HTTPResponseParser):
    """One answer, as its bytes come in. Interim answers (1xx) are read and forgotten.

    ``bodiless``: what comes after the head is no body, whatever the head says (HEAD). A callback that raises, or
    returns something true, ends the parsing; of the head's end something true means that there is no body.
    """

    def __init__(self, *, bodiless: bool = False) -> None:
        super().__init__()
        self._bodiless = bodiless
        self.headers = Headers()
        self.body = bytearray()
        self.status = 0
        """Of the final answer; 0 until its head is whole."""
        self.complete = False
        self.reusable = True
        """Whether the connection may carry another request, as far as this answer says."""
        self._name: str = ""
        self._value: str | None = None

    def take(self, data: bytes) -> None:
        """Parse what has come; ``b""`` is the end of the stream. Raises :class:`Garbled`, and what callbacks raise."""
        try:
            self.feed(data)
        except HTTPParseError as error:
            if not self.complete:
                raise Garbled(f"no HTTP: {str(error)[:100]}", self.status_line()) from error
            self.reusable = False  # bytes that were not asked for, after a whole answer
        if self.complete and self.reusable:
            self.reusable = self.should_keep_alive()

    def status_line(self) -> int:
        """The status of the final answer as soon as its first line is read; 0 before that."""
        status = int(self.get_code())
        return status if status >= 200 else 0

    def _on_message_begin(self) -> bool:
        return self.complete

    def _on_status(self, reason: str) -> None:
        pass

    def _on_header_field(self, name: str) -> None:
        if self._value is not None:
            self._keep()
        self._name += name

    def _on_header_value(self, value: str) -> None:
        self._value = value if self._value is None else self._value + value

    def _on_headers_complete(self) -> bool:
        if self._value is not None:
            self._keep()
        status = self.get_code()
        if status < 200:
            self.headers = Headers()
            return False
        self.status = status
        if self._bodiless:
            return True
        for length in self.headers.get_all("content-length"):
            if int(length) > LARGEST:
                raise Garbled(f"{length} bytes are announced, {LARGEST} are the most", status)
        return False

    def _keep(self) -> None:
        self.headers.append((self._name.lower(), (self._value or "").strip()))
        self._name, self._value = "", None

    def _on_body(self, piece: bytearray) -> None:
        self.body += piece
        if len(self.body) > LARGEST:
            raise Garbled(f"more than {LARGEST} bytes", self.status)

    def _on_message_complete(self) -> None:
        self.complete = self.status != 0


class Reply:
    """What opensearch-py reads of an answer. ``data``: the body, decoded."""

    __slots__ = ("data", "headers", "status")

    def __init__(self, status: int, headers: Headers, data: bytes) -> None:
        self.status = status
        self.headers = headers
        self.data = data


class KeptConnections:
    """Sends requests to one node, each on a connection of its own that is kept afterwards.

    Stands where opensearch-py has an urllib3 pool, and makes connections by one (``pool``). ``most``: how many idle
    ones are kept. For greenlets of one thread.
    """

    def __init__(self, pool: urllib3.HTTPConnectionPool, most: int) -> None:
        self._pool: urllib3.HTTPConnectionPool = pool
        self._most = most
        self._idle: list[HTTPConnection] = []
        host = f"[{pool.host}]" if ":" in pool.host else pool.host
        self._host = host if pool.port in (None, _default_port(pool)) else f"{host}:{pool.port}"

    def urlopen(
        self,
        method: str,
        url: str,
        body: bytes | str | None = None,
        *,
        headers: Mapping[str, str],
        timeout: float | None = None,
        **_: Any,
    ) -> Reply:
        """Send one request and read its answer to the end. No redirect is followed, and nothing is repeated.

        ``timeout``, in seconds: for connecting, for the first byte and then for the whole body, each; None: the pool's.
        Raises what urllib3 raises, or :class:`Garbled`; the connection is closed then.
        """
        seconds = self._seconds() if timeout is None else timeout
        data = body.encode() if isinstance(body, str) else body
        request = self._head(method, url, data, headers) + (data or b"")
        connection = self._take(seconds)
        try:
            message = self._exchange(connection, request, Message(bodiless=method == "HEAD"), url, seconds)
            reply = Reply(message.status, message.headers, self._body(connection, message))
        except BaseException as error:
            connection.close()
            raised = _in_terms_of_urllib3(error, self._pool, url)
            if raised is error:
                raise
            raise raised from error
        if message.reusable and len(self._idle) < self._most:
            self._idle.append(connection)
        else:
            connection.close()
        return reply

    def close(self) -> None:
        """Close all connections that are idle."""
        while self._idle:
            self._idle.pop().close()
        self._pool.close()

    def _seconds(self) -> float | None:
        timeout = self._pool.timeout
        seconds = timeout.read_timeout if isinstance(timeout, urllib3.Timeout) else timeout
        return seconds if isinstance(seconds, int | float) else None

    def _take(self, seconds: float | None) -> HTTPConnection:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_connected:
                return connection
            connection.close()
        made: Any = self._pool._new_conn()
        made.timeout = seconds
        return made  # type: ignore[no-any-return]

    def _head(self, method: str, url: str, data: bytes | None, headers: Mapping[str, str]) -> bytes:
        target = url if _ON_WIRE.fullmatch(url) else parse_url(url).request_uri
        lines = [f"{method} {target} HTTP/1.1"]
        names = set()
        for name, value in headers.items():
            lines.append(f"{name}: {value}")
            names.add(name.lower())
        if "host" not in names:
            lines.append(f"host: {self._host}")
        if "accept-encoding" not in names:
            lines.append("accept-encoding: identity")
        if "content-length" not in names and (data is not None or method in _WITH_BODY):
            lines.append(f"content-length: {len(data or b'')}")
        head = "\r\n".join(lines)
        if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1:
            raise ValueError("a line break in a request's head")
        return f"{head}\r\n\r\n".encode("latin-1")

    def _exchange(self, connection: Any, request: bytes, message: Message, url: str, seconds: float | None) -> Message:
        """Send the request, and read until the message is complete."""
        if connection.sock is None:
            connection.connect()
        connection.is_asked()
        sock = connection.sock
        sock.settimeout(seconds)
        with suppress(BrokenPipeError):  # it may have answered before it closed
            sock.sendall(request)
        came, end = 0, None
        while True:
            data = sock.recv(_PIECE)
            if not data and not came:
                raise RemoteDisconnected("Remote end closed connection without response")
            came += len(data)
            message.take(data)
            if message.status:
                connection.is_answered()
                if end is None and seconds is not None:
                    end = time.monotonic() + seconds
            elif came > _HEAD:
                raise Garbled(f"a head of more than {_HEAD} bytes", message.status_line())
            if message.complete:
                return message
            if not data:
                raise Garbled("it ends in the middle", message.status_line())
            if end is not None and time.monotonic() > end:
                says = f"the answer has not come to its end within {seconds:g} s"
                raise ReadTimeoutError(self._pool, url, says)
            connection.between_pieces()

    def _body(self, connection: Any, message: Message) -> bytes:
        """The body as its server had it before it compressed it: UTF-8."""
        body = bytes(message.body)
        if message.headers.get_all("content-encoding"):
            response = urllib3.HTTPResponse(
                BytesIO(body), headers=dict(message.headers), status=message.status, preload_content=False
            )
            try:
                connection.read_whole(response)
            except (DecodeError, ProtocolError) as error:
                raise Garbled(str(error)[:200], message.status) from error
            body = response.data
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise Garbled(f"no UTF-8: {error.reason} at byte {error.start}", message.status) from error
        return body


def _default_port(pool: urllib3.HTTPConnectionPool) -> int:
    return 443 if pool.scheme == "https" else 80


def _in_terms_of_urllib3(error: BaseException, pool: urllib3.HTTPConnectionPool, url: str) -> BaseException:
    """The error that urllib3's own pool would raise."""
    if isinstance(error, HTTPError):
        return error
    if isinstance(error, ssl.SSLError | CertificateError):
        return SSLError(error)
    if isinstance(error, TimeoutError) and error.errno is None:  # our own limit; the kernel's has a number
        return ReadTimeoutError(pool, url, f"Read timed out. (read timeout={pool.timeout})")
    if isinstance(error, OSError | HTTPException):
        return ProtocolError("Connection aborted.", error)
    return error
