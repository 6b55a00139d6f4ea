"""Evidence from the data path: what a process in one host gets from a node in another, right now.

A *ping* is OpenSearch's own transport keep-alive: the six bytes ``ES\\xff\\xff\\xff\\xff``. The node that accepted the
connection sends the same six bytes back (``TransportKeepAlive.receiveKeepAlive`` in the server's sources), so an
answer is bytes that the *target node itself* returned through that very link. Toxiproxy accepts every connection,
whatever is behind it: a connect alone proves nothing. Client hosts ask ``GET /`` over HTTP instead, and a service of
the lab is asked ``GET /_ping``.

Where no process of ours can be beside a node, it is asked by REST to ask another one, which goes over the connections
that it has to it (:class:`Asked`).

On a secured lab both speak TLS. A connection is made, with its handshake, before anything is timed on it.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote

import urllib3

from chaos.base.errors import FaultError
from chaos.faults.echoes import ALIKE, Http, Transport
from chaos.opensearch.rest import NodeClient
from chaos.targets.protocol import Lab

PING = b"ES\xff\xff\xff\xff"
HTTP_PING = "/?filter_path=version.number"
SERVICE_PING = "/_ping"
"""A path that each service of a lab answers itself (:mod:`chaos.targets.services`)."""
ASKED_SECONDS = 1.0
"""What a node that is asked about another may take by itself."""
PINGS_AT_MOST = 65536
"""Bytes of a burst that should take about a second and may be pings, which carry 300 kB/s at most."""

NOTHING_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

Pair = tuple[str, str]
"""(host that opens the connection, node or service that it speaks to)"""


class Reply(StrEnum):
    """What became of a ping."""

    ANSWERED = "answered"
    SILENT = "silent"
    REFUSED = "refused"
    RESET = "reset"
    CLOSED = "closed"
    UNREACHABLE = "unreachable"
    CUT = "cut off"
    """A node that was asked says that it has no connection to the other, or none that answers."""


ENDED = (Reply.REFUSED, Reply.RESET, Reply.CLOSED)
"""The ways in which a connection is denied or ended."""


@dataclass(frozen=True)
class Echo:
    """``seconds`` is the round trip when answered."""

    reply: Reply
    seconds: float | None = None
    relayed: bool = False
    """Seen through a relay (:attr:`chaos.targets.protocol.Lab.relayed`): a refusal, a reset and a close look alike."""

    def __str__(self) -> str:
        if self.seconds is not None:
            return f"{self.reply}, {self.seconds * 1000:.1f} ms"
        return f"{self.reply}, behind a relay" if self.relayed and self.reply in ENDED else str(self.reply)

    def is_(self, reply: Reply) -> bool:
        """Whether this is that reply, as far as can be told."""
        if self.reply is Reply.CUT:  # how it came to that is not told
            return reply in (Reply.CUT, Reply.SILENT, *ENDED)
        return self.reply is reply or (self.relayed and self.reply in ENDED and reply in ENDED)


def _spoken(lab: Lab, pair: Pair) -> tuple[Http | None, str]:
    """What asks over a pair, with the path of its pings; None: OpenSearch's transport. Services get no password."""
    opener, asked = (lab.wiring[name].kind for name in pair)
    if asked == "service":
        return Http({}), SERVICE_PING
    return (Http(lab.access.headers()) if opener == "client" else None), HTTP_PING


class Line:
    """One connection of a pair, kept open over a fault's life, so that *existing* connections are judged too."""

    def __init__(self, lab: Lab, pair: Pair) -> None:
        self._lab = lab
        self.pair = pair
        self._socket: socket.socket | None = None
        self._http, self._path = _spoken(lab, pair)
        self._unanswered = 0
        """Bytes of earlier pings that were still silent: their late echo must not pass for a new one."""

    lasts = True
    """Whether it is one connection that is kept open, so that a new one and an existing one can be told apart."""

    @property
    def what(self) -> str:
        """What is made of it each time, for the report."""
        return f"new connection {self.pair[0]} → {self.pair[1]}"

    @property
    def connected(self) -> bool:
        return self._socket is not None

    @property
    def owes(self) -> bool:
        """Whether earlier pings are unanswered: the next one waits for their answers too."""
        return self._unanswered > 0

    def open(self, timeout: float) -> Echo | None:
        """Connect; None when that worked."""
        address = (self._lab.wiring[self.pair[1]].loopback, self._lab.wiring.port(*self.pair))
        try:
            self._socket = self._lab.connect(self.pair[0], address, timeout)
        except ConnectionRefusedError:
            return self._ended(Reply.REFUSED)
        except TimeoutError:
            return Echo(Reply.SILENT)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return self._ended(Reply.CLOSED)
        except ConnectionResetError:
            return self._ended(Reply.RESET)
        except OSError:
            return Echo(Reply.UNREACHABLE)
        self._unanswered = 0
        return None

    def ping(self, timeout: float) -> Echo:
        """One round trip on this connection, ``timeout`` seconds at most."""
        if self._socket is None and (failed := self.open(timeout)) is not None:
            return failed
        assert self._socket is not None
        began = time.monotonic()
        deadline = began + timeout
        try:
            self._socket.sendall(self._http.request(self._path) if self._http else PING)
            if self._http:
                self._http.answer(lambda most: self._receive(most, deadline))
            else:
                wanted = self._unanswered + len(PING)
                self._unanswered = wanted
                while self._unanswered:
                    self._unanswered -= len(self._receive(self._unanswered, deadline))
        except TimeoutError:
            if self._http:
                self.close()  # a half-read answer is of no use
            return Echo(Reply.SILENT)
        except ConnectionResetError:
            self.close()
            return self._ended(Reply.RESET)
        except EOFError:
            self.close()
            return self._ended(Reply.CLOSED)
        except OSError:
            self.close()
            return self._ended(Reply.RESET)
        return Echo(Reply.ANSWERED, time.monotonic() - began)

    def _ended(self, reply: Reply) -> Echo:
        return Echo(reply, relayed=self._lab.relayed)

    def flood(self, size: int, timeout: float) -> float | None:
        """Seconds for ``size`` bytes to go there and as many to come back; None when they do not within ``timeout``.

        A small burst over the transport is pings, which come back byte for byte; others are questions that the node
        answers at the same length, after a first one that is not timed and says what that length is. So are all bursts
        over TLS, where each ping would come back as a record of its own, of 28 bytes.
        """
        deadline = time.monotonic() + timeout
        try:
            if self._socket is None and self.open(timeout) is not None:
                return None
            if self._http or size > PINGS_AT_MOST or isinstance(self._socket, ssl.SSLSocket):
                message, answer = self._question(size, deadline)
            else:
                message, answer = PING, len(PING)
            count = max(round(size / len(message)), 1)
            seconds = self._exchange(message * count, answer * count, deadline)
        except (OSError, EOFError, ValueError):
            return None
        finally:
            self.close()
        return seconds * size / (len(message) * count)

    def _question(self, size: int, deadline: float) -> tuple[bytes, int]:
        """A question that fits several times into ``size``, and the length of its answer, which is about its own."""
        kind = self._http or Transport()
        quoted = min(kind.LONGEST, size // 8)
        assert self._socket is not None
        self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
        self._socket.sendall(bare := kind.question(quoted, 0))
        answer = kind.answer(lambda most: self._receive(most, deadline))
        question = kind.question(quoted, max(answer - len(bare), 0))
        if abs(len(question) - answer) > ALIKE * answer:
            raise ValueError(f"a question of {len(bare)} bytes was answered with {answer}")
        return question, answer

    def _exchange(self, data: bytes, missing: int, deadline: float) -> float:
        """Seconds to send ``data`` and to get ``missing`` bytes, reading while writing."""
        assert self._socket is not None
        began = time.monotonic()
        left = memoryview(data)
        self._socket.setblocking(False)
        ready = select.poll()
        while missing > 0:
            if (patience := deadline - time.monotonic()) <= 0:
                raise TimeoutError
            ready.register(self._socket, select.POLLIN | (select.POLLOUT if left else 0))
            if not (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):  # else there is more already
                ready.poll(patience * 1000)
            if left:
                with suppress(*NOTHING_YET):
                    left = left[self._socket.send(left[:65536]) :]
            with suppress(*NOTHING_YET):
                if not (got := self._socket.recv(1 << 20)):
                    raise EOFError
                missing -= len(got)
        return time.monotonic() - began

    def ended(self, timeout: float) -> float | None:
        """Seconds from the end of our half of this connection to the end of the other; None when it does not come.

        A ping first: a proxy accepts before it has reached the target.
        """
        if self.ping(timeout).reply is not Reply.ANSWERED:
            return None
        assert self._socket is not None
        began = time.monotonic()
        try:
            self._socket.shutdown(socket.SHUT_WR)
            while True:
                self._receive(65536, began + timeout)
        except EOFError:
            return time.monotonic() - began
        except OSError:
            return None
        finally:
            self.close()

    def _receive(self, size: int, deadline: float) -> bytes:
        assert self._socket is not None
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        data = self._socket.recv(size)
        if not data:
            raise EOFError
        return data

    def close(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.close()
            self._socket = None


class Asked(Line):
    """Between nodes of which neither can be reached from beside: the one is asked by REST what it gets from the other.

    ``GET /_nodes/NAME/http`` of a node goes to NAME over the connections that the node has to it, and its answer comes
    back over them (``TransportNodesAction`` in the server's sources). So there is no new connection and no existing
    one to tell apart. What the way to the asked node takes is in the baseline too.
    """

    lasts = False

    def __init__(self, lab: Lab, pair: Pair) -> None:
        super().__init__(lab, pair)
        self._client: NodeClient | None = None

    @property
    def what(self) -> str:
        return f"{self.pair[0]} asks {self.pair[1]}"

    def ping(self, timeout: float) -> Echo:
        asked, other = self.pair
        patience = max(1, round(timeout * 1000))  # the asked node must not go on waiting
        path = f"/_nodes/{quote(other)}/http?timeout={patience}ms&filter_path=_nodes,nodes.*.name"
        if asked == other:
            path = "/_nodes/_local/http?filter_path=_nodes,nodes.*.name"
        if self._client is None:
            self._client = self._lab.client(asked, timeout=5.0)
        began = time.monotonic()
        try:
            status, said = self._client.request("GET", path, whole=timeout + ASKED_SECONDS)
            seconds = time.monotonic() - began
            names = [node["name"] for node in said.get("nodes", {}).values()] if status == 200 else None
        except urllib3.exceptions.ConnectTimeoutError as error:  # one that was refused is one of these too
            if asked != other:  # the silence of who is asked says nothing of the other
                return Echo(Reply.UNREACHABLE)
            return self._ended(Reply.REFUSED) if denied(error) else Echo(Reply.SILENT)
        except urllib3.exceptions.TimeoutError:
            return Echo(Reply.SILENT)
        except urllib3.exceptions.HTTPError as error:
            return self._ended(Reply.REFUSED) if asked == other and denied(error) else Echo(Reply.UNREACHABLE)
        except (LookupError, TypeError, AttributeError):
            return Echo(Reply.UNREACHABLE)
        if names == [other]:
            return Echo(Reply.ANSWERED, seconds)
        if names is None:
            return Echo(Reply.UNREACHABLE)
        return Echo(Reply.SILENT if seconds >= timeout else Reply.CUT)

    def flood(self, size: int, timeout: float) -> float | None:
        raise FaultError("no bytes at will go over a link of which a node is asked")

    def ended(self, timeout: float) -> float | None:
        raise FaultError("no connection of ours ends where a node is asked")

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def denied(error: BaseException | None) -> bool:
    """Whether a request failed because the other end took no connection, or ended it."""
    while error is not None:
        if isinstance(error, (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)):
            return True
        error = error.__cause__ or error.__context__
    return False


class Greeted(Line):
    """Through the proxy between two nodes that speak TLS, without a certificate that they would take.

    The first flight of a handshake goes there and the node's comes back before it asks who we are (RFC 8446, 2): that
    is the round trip. Nothing is said on such a connection, so there is a new one each time.
    """

    lasts = False

    @property
    def what(self) -> str:
        return f"greeting {self.pair[0]} → {self.pair[1]}"

    def ping(self, timeout: float) -> Echo:
        if (failed := self.open(timeout)) is not None:
            return failed
        assert self._socket is not None
        began = time.monotonic()
        self._socket.settimeout(timeout)
        try:
            with greeting().wrap_socket(self._socket, server_hostname=None):
                pass
        except TimeoutError:
            return Echo(Reply.SILENT)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError, BrokenPipeError):
            return self._ended(Reply.CLOSED)
        except OSError as error:  # a node that refuses us has answered all the same
            if not isinstance(error, ssl.SSLError) or "ALERT" not in (error.reason or ""):
                return self._ended(Reply.CLOSED)
        finally:
            self.close()
        return Echo(Reply.ANSWERED, time.monotonic() - began)


def greeting() -> ssl.SSLContext:
    """For a handshake that trusts nobody with anything: no secret is sent, and no certificate is checked."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.minimum_version = ssl.TLSVersion.TLSv1_3  # else a node would ask first, and a greeting were two round trips
    return made


def between(lab: Lab, pair: Pair) -> Line:
    """What is asked of a pair there."""
    if not lab.asks or lab.wiring[pair[0]].kind == "client":
        return Line(lab, pair)
    if pair[0] == pair[1] or not lab.wiring.reached(*pair):
        return Asked(lab, pair)
    return Greeted(lab, pair) if lab.access.tls else Line(lab, pair)


def together(lines: list[Line], timeout: float, *, pings: int = 1) -> dict[Pair, Echo]:
    """Ping all lines at once; of several pings the fastest counts (noise only ever adds). Silent beats nothing."""

    def measure(line: Line) -> Echo:
        best: Echo | None = None
        for _ in range(pings):
            echo = line.ping(timeout)
            if echo.seconds is None:
                return echo
            if best is None or best.seconds is None or echo.seconds < best.seconds:
                best = echo
        assert best is not None
        return best

    if not lines:
        return {}
    with ThreadPoolExecutor(min(len(lines), 32)) as pool:
        return {line.pair: echo for line, echo in zip(lines, pool.map(measure, lines), strict=True)}


QUIET_SECONDS = 0.010
"""A round trip within this is taken for what the link takes; a longer one may be the machine's."""
PINGS_AT_REST = 3
ROUNDS = 10
PAUSE_SECONDS = 0.1


def at_rest(lines: list[Line], timeout: float) -> dict[Pair, Echo]:
    """What these lines take when nothing is in their way: :func:`together`, and again for those that took long.

    A burst of work holds several pings in a row, and a baseline of 148 ms was seen on a link of 1 ms: nothing that was
    proven against it would have been so. So what took longer than QUIET_SECONDS is asked up to ROUNDS times, some
    PAUSE_SECONDS apart, and the fastest of all counts. A link that takes longer by itself costs that second.
    """
    found = together(lines, timeout, pings=PINGS_AT_REST)
    for _ in range(ROUNDS - 1):
        late = [line for line in lines if (took := found[line.pair].seconds) is not None and took > QUIET_SECONDS]
        if not late:
            break
        time.sleep(PAUSE_SECONDS)
        for pair, echo in together(late, timeout, pings=PINGS_AT_REST).items():
            best = found[pair].seconds
            if echo.seconds is None or (best is not None and echo.seconds < best):
                found[pair] = echo
    return found


def direct(lab: Lab, node: str, timeout: float) -> Echo:
    """A transport ping from inside the node's own host: past every proxy."""
    inside = between(lab, (node, node))
    echo = inside.ping(timeout)
    inside.close()
    return echo
