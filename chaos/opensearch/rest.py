"""OpenSearch's REST API as all of ours speak it: bounded in bytes and in time, and strict about what an answer is.

One client (:class:`NodeClient`) for probes, sampling, administration, the audit and the failover controller, over
connections that :func:`connection_class` makes. The load goes through opensearch-py, whose behaviour users have, over
the same connections.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from email.errors import MultipartInvariantViolationDefect, StartBoundaryNotFoundDefect
from http.client import HTTPException, HTTPResponse, ImproperConnectionState, RemoteDisconnected
from typing import Any
from urllib.parse import urlencode

import urllib3
from opensearchpy import OpenSearch
from opensearchpy.connection import Urllib3HttpConnection
from opensearchpy.exceptions import TransportError
from urllib3.connection import HTTPConnection, HTTPSConnection

from chaos.base.access import PLAIN, Access, Whose
from chaos.base.addresses import Address
from chaos.base.netsock import Endpoint, Namespace, Socket, discards
from chaos.base.sigv4 import Signer, on_wire
from chaos.base.text import one_line

UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What an answer of another shape than expected ends in; the last one thousands of brackets."""
WORDLESS = frozenset({"/_cluster/voting_config_exclusions"})
"""Where OpenSearch (3.8.0) answers a request that was done with status 200 and no body."""
LARGEST = 16 << 20
"""Bytes that an answer may have, decoded. A cluster state of ours has some 100 kB, a page of the read-back 2 MB."""
_AT_ONCE = 1 << 20
"""Bytes up to which an answer whose length is known is read in one piece, where somebody else watches the time."""
_PIECE = 1 << 16


class Garbled(urllib3.exceptions.HTTPError):
    """What came is no answer: no HTTP, cut short, wrongly framed or encoded, too large, or no JSON where it must be.

    ``status``: its HTTP status, 0 where none could be read. A connection that was closed before anything came, or was
    torn, raises what urllib3 raises for it.
    """

    def __init__(self, says: str, status: int = 0) -> None:
        super().__init__(says)
        self.status = status


def short(error: Exception) -> str:
    """An error of urllib3's in one line, without the objects that it names."""
    if isinstance(error, urllib3.exceptions.ProtocolError) and len(error.args) == 2:  # "Connection aborted.", and why
        return one_line(" ".join(map(str, error.args)))
    return one_line(re.sub(r"^<?[\w.]+\(.*?\)>?: ", "", str(error)) or type(error).__name__) or "no reason"


class _Head(HTTPResponse):
    """http.client's answer, strict where that would read on to the end of a connection that nobody closes."""

    def begin(self) -> None:
        super().begin()
        if any(not isinstance(defect, _HARMLESS) for defect in self.msg.defects):
            raise Garbled("a head that is no HTTP", self.status)
        if self.length is None and not self.chunked and "content-length" in self.msg:
            raise Garbled(f"a length that is none: {self.msg['content-length'][:40]!r}", self.status)

    def _read_next_chunk_size(self) -> int:
        size = int(super()._read_next_chunk_size())  # type: ignore[misc]
        if size < 0:
            raise ValueError("a chunk of less than nothing")
        return size


def _discards(sock: Socket, at_once: bool) -> None:
    with suppress(OSError):  # it is closed
        sock.setsockopt(*discards(at_once))


_HARMLESS = (StartBoundaryNotFoundDefect, MultipartInvariantViolationDefect)
"""Of several parts, which nobody parses: urllib3 overlooks them too."""


def connection_class(namespace: Namespace | None, *, tls: bool = False) -> type[HTTPConnection]:
    """An urllib3 connection class whose sockets are created in ``namespace`` (None: where we are).

    Where we are, what was asked and not answered is taken back when the connection goes, by whatever end: the kernel
    would otherwise go on delivering the requests of a process that is dead, minutes later, when a network is whole
    again (seen: a load's write made the index anew that another machine had deleted meanwhile).

    Answers are bounded: in bytes (:data:`LARGEST`; read in pieces, so memory is too), and where the connection has a
    timeout the body in time as well, in which all of it must have come. What is no answer raises :class:`Garbled`.
    """
    kind: type[HTTPConnection] = HTTPSConnection if tls else HTTPConnection

    class BoundedConnection(kind):  # type: ignore[misc, valid-type]
        response_class = _Head
        _whole = True
        _answered = True

        def connect(self) -> None:
            super().connect()
            if namespace is None:
                _discards(self.sock, True)

        def close(self) -> None:
            if namespace is None and self._answered and self.sock is not None:
                _discards(self.sock, False)  # nothing is under way: the server is told in order
            super().close()

        def is_asked(self) -> None:
            """Somebody else sends a request over ``sock``: what was not answered is taken back with the connection."""
            self._answered = False

        def is_answered(self) -> None:
            """The head of that answer is read."""
            self._answered = True

        def request(self, *args: Any, preload_content: bool = True, **options: Any) -> None:
            self._whole, self._answered = preload_content, False
            super().request(*args, preload_content=False, **options)

        def getresponse(self) -> urllib3.HTTPResponse:
            try:
                response: urllib3.HTTPResponse = super().getresponse()
            except (RemoteDisconnected, ImproperConnectionState):
                raise  # nothing came; our own mistake
            except (HTTPException, urllib3.exceptions.InvalidHeader) as error:
                raise Garbled(f"no HTTP: {type(error).__name__} {str(error)[:100]}") from error
            self._answered = True
            if not self._whole:
                return response
            try:
                self.read_whole(response)
            except urllib3.exceptions.ProtocolError as error:
                response.close()
                if any(isinstance(inner, OSError) for inner in error.args):
                    raise  # torn
                raise Garbled(str(error)[:200], response.status) from error
            except urllib3.exceptions.DecodeError as error:
                response.close()
                raise Garbled(str(error)[:200], response.status) from error
            except BaseException:
                response.close()
                raise
            return response

        def read_whole(self, response: urllib3.HTTPResponse) -> None:
            """Read the body to its end, so that ``response.data`` has it. Raises :class:`Garbled` where it is too
            large, and what urllib3 raises where it cannot be decoded or does not come in time."""
            length, seconds = response.length_remaining, self.timeout
            if length is not None and length > LARGEST:
                raise Garbled(f"{length} bytes are announced, {LARGEST} are the most", response.status)
            timed = isinstance(seconds, int | float)
            if not timed and length is not None and length <= _AT_ONCE and "content-encoding" not in response.headers:
                response.read(cache_content=True)
                return
            end = time.monotonic() + seconds if timed else None
            body = bytearray()
            try:
                while piece := response.read1(_PIECE):
                    body += piece
                    if len(body) > LARGEST:
                        raise Garbled(f"more than {LARGEST} bytes", response.status)
                    if end is not None and time.monotonic() > end:
                        raise urllib3.exceptions.ReadTimeoutError(
                            None,  # type: ignore[arg-type]
                            response.url or "",
                            f"the answer has not come to its end within {seconds:g} s",
                        )
                    self.between_pieces()
                response._body = bytes(body)
            finally:
                body.clear()  # the traceback of an error holds this frame, for as long as anybody holds the error

        def between_pieces(self) -> None:
            """Called when a piece of an answer was read and more may come."""

    if namespace is None:
        return BoundedConnection
    there: Namespace = namespace

    class NamespacedConnection(BoundedConnection):
        def _new_conn(self) -> Socket:
            # the same translation of errors as urllib3's own, which this overrides
            try:
                with there.entered():
                    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                timeout = self.timeout
                if isinstance(timeout, int | float):
                    sock.settimeout(timeout)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    sock.connect((self._dns_host, self.port))
                except BaseException:
                    sock.close()
                    raise
                return sock
            except TimeoutError as error:
                raise urllib3.exceptions.ConnectTimeoutError(
                    self, f"connecting to {self.host} timed out after {self.timeout} s"
                ) from error
            except OSError as error:
                raise urllib3.exceptions.NewConnectionError(self, f"cannot connect: {error}") from error

    return NamespacedConnection


READS = ("GET", "HEAD")


def only_of(kind: type[HTTPConnection], access: Access, *, each_change: bool = False) -> type[HTTPConnection]:
    """The same connections, which are none where another cluster, or another node, than the access is for answers: that
    is asked first, by ``GET /``.

    ``each_change``: it is asked again right before every request that is no GET. Behind a balancer that reads HTTP a
    connection leads to one server for no longer than one request. The load cannot ask so often: its writes name an
    alias that no other cluster has, and :mod:`chaos.observe.identity` asks beside it.
    """
    if access.whose is None:
        return kind
    whose: Whose = access.whose

    class KnownConnection(kind):  # type: ignore[misc, valid-type]
        _fresh = False
        """Whether nothing was sent since it was asked."""

        def connect(self) -> None:
            super().connect()
            self._prove()
            self._fresh = True

        def request(self, method: str, *args: Any, **options: Any) -> None:
            if each_change and method not in READS and self.sock is not None and not self._fresh:
                self._prove_again()
            try:
                super().request(method, *args, **options)
            finally:  # where it connected, that was answered: this request was not
                self._fresh = self._answered = False

        def _prove_again(self) -> None:
            """On a connection that was kept. One that its server ends, as balancers do after so many requests, makes
            room for a new one, which is asked as every new one is."""
            if isinstance(self.timeout, int | float):
                self.sock.settimeout(self.timeout)
            self._answered = False
            try:
                why, ends = self._refused()
            except TimeoutError as error:
                self.close()
                raise urllib3.exceptions.ConnectTimeoutError(self, f"{self.host} did not say whose it is") from error
            except (OSError, HTTPException):
                why, ends = None, True
            if why is None and not ends:
                self._answered = True
                return
            self.close()
            self.connect()

        def _prove(self) -> None:
            """Raises what urllib3 raises where nobody takes a connection, and the connection is closed then."""
            self._answered = False
            try:
                why, ends = self._refused()
                self._answered = True
            except TimeoutError as error:
                self.close()
                raise urllib3.exceptions.ConnectTimeoutError(self, f"{self.host} did not say whose it is") from error
            except (OSError, HTTPException) as error:
                self.close()
                raise urllib3.exceptions.NewConnectionError(self, f"it does not say whose it is: {error}") from error
            except BaseException:
                self.close()
                raise
            if why is not None or ends:
                self.close()
                raise urllib3.exceptions.NewConnectionError(self, why or "it keeps no connection")

        def _refused(self) -> tuple[str | None, bool]:
            """Why it is not the one, and whether it ends the connection after an answer."""
            server = str(Address(access.tls, self.host, self.port))
            target, headers = access.signed("GET", server, "/", None, access.headers())
            lines = [f"GET {target} HTTP/1.1", *(f"{key}: {value}" for key, value in headers.items())]
            if "host" not in map(str.lower, headers):
                lines.append(f"host: {self.host}:{self.port}")
            self.sock.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
            answer = HTTPResponse(self.sock, method="GET")
            try:
                answer.begin()
                said = answer.read(_AT_ONCE)
                with suppress(ValueError, RecursionError):
                    return whose.refuses(answer.status, json.loads(said)), answer.will_close
                return whose.refuses(answer.status, None), answer.will_close
            finally:
                answer.close()

    return KnownConnection


class NodeClient:
    """JSON over HTTP with one server: each request has a deadline, none is repeated, no redirect is followed.

    A redirect could lead the password, or a signature, to another server. Thread-safe. ``timeout`` is for each connect
    and read, in seconds; ``connect`` for the connect alone, where that is another. ``headers`` are sent with every
    request, beside those of ``access``. Raises InvalidInput when secrets or files of ``access`` cannot be read.
    """

    def __init__(
        self,
        server: Endpoint,
        *,
        access: Access = PLAIN,
        timeout: float = 5.0,
        connect: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._access, self._headers = access, {**access.headers(), **(headers or {})}
        self._server = str(Address(access.tls, server.host, server.port))
        if not access.verify:  # as asked for: no need to be told again on every request
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        kind = urllib3.HTTPSConnectionPool if access.tls else urllib3.HTTPConnectionPool
        self._pool = kind(
            *server.address,
            maxsize=4,
            retries=False,
            timeout=urllib3.Timeout(connect=connect or timeout, read=timeout),
            **access.of_pool(),
        )
        known = only_of(connection_class(server.namespace, tls=access.tls), access, each_change=True)
        self._pool.ConnectionCls = known

    def request(
        self, method: str, path: str, *, body: Any = None, timeout: float | None = None, whole: float | None = None
    ) -> tuple[int, Any]:
        """Status and decoded JSON body. Raises ``urllib3.exceptions.HTTPError``, and InvalidInput where requests are
        signed and there is nothing to sign with.

        ``timeout`` as the client's own, for this request; ``whole``: for connect and the first byte of the answer
        together, in seconds; what is left of it is then the time of the whole body.

        Under status 2xx the body is an object, of ``_cat`` a list, of :data:`WORDLESS` none; anything else raises
        :class:`Garbled`, so that it is for everybody who asks what no answer is. Under others it is text where it is no
        JSON, None without any.
        """
        status, data = self.fetch(method, path, body=body, timeout=timeout, whole=whole)
        well = 200 <= status < 300
        try:
            said = json.loads(data.decode("utf-8")) if data else None
        except (ValueError, RecursionError) as error:
            if well:
                raise Garbled(f"{method} {path}: no JSON: {data[:40]!r}", status) from error
            return status, data.decode(errors="replace")
        if well and not data and path.partition("?")[0] in WORDLESS:
            return status, None
        if well and not isinstance(said, list if path.startswith("/_cat/") else dict):
            raise Garbled(f"{method} {path}: JSON of another kind: {data[:40]!r}", status)
        return status, said

    def fetch(
        self, method: str, path: str, *, body: Any = None, timeout: float | None = None, whole: float | None = None
    ) -> tuple[int, bytes]:
        """As :meth:`request`, and whatever the body is: it is not decoded."""
        headers, data = dict(self._headers), None
        if isinstance(body, bytes | str):
            headers["Content-Type"] = "application/x-ndjson"
            data = body.encode() if isinstance(body, str) else body
        elif body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
        target, headers = self._access.signed(method, self._server, path, data, headers)
        options: dict[str, Any] = {"body": data, "headers": headers}
        if whole is not None:
            options["timeout"] = urllib3.Timeout(total=whole)
        elif timeout is not None:
            options["timeout"] = urllib3.Timeout(connect=timeout, read=timeout)
        answer = self._pool.request(method, target, redirect=False, **options)
        return answer.status, answer.data

    def close(self) -> None:
        self._pool.close()


class LibraryConnection(Urllib3HttpConnection):
    """opensearch-py's connection, which raises its own errors also for errors whose body is JSON of another kind, and
    sends what was signed. It follows no redirect."""

    def perform_request(
        self,
        method: str,
        url: str,
        params: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        timeout: int | float | None = None,
        ignore: Collection[int] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        if isinstance(self.http_auth, Signer):
            url, params = on_wire(f"{url}?{urlencode(params)}" if params else url), None
        return super().perform_request(method, url, params, body, timeout, ignore, headers)

    def _raise_error(self, status_code: int, raw_data: str | bytes, content_type: str | None = None) -> None:
        try:
            super()._raise_error(status_code, raw_data, content_type)
        except (AttributeError, RecursionError) as error:  # a list, a number; a thousand brackets
            raise TransportError(status_code, raw_data, None) from error


def opensearch(server: Endpoint, *, access: Access = PLAIN, timeout: float = 60.0) -> OpenSearch:
    """An opensearch-py client of one node, over the same direct path; no retries."""

    class DirectConnection(LibraryConnection):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            known = only_of(connection_class(server.namespace, tls=access.tls), access, each_change=True)
            self.pool.ConnectionCls = known

    return OpenSearch(
        hosts=[{"host": server.host, "port": server.port}],
        connection_class=DirectConnection,
        timeout=timeout,
        max_retries=0,
        **access.of_client(),
    )
