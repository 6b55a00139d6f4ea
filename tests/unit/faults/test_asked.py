"""Links of which a node is asked, because no process of ours can be beside it: what it answers, and what that means."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeLab

from chaos.base.access import Access
from chaos.base.errors import LabError
from chaos.base.netsock import Endpoint
from chaos.faults import evidence
from chaos.faults.evidence import LinkEvidence, apart
from chaos.faults.probes import Asked, Greeted, Line, Reply, between
from chaos.opensearch.rest import NodeClient
from chaos.targets import security
from chaos.targets.wiring import Wiring

KNOWS = {"nodes": {"x": {"name": "c-data"}}}


class Node(ThreadingHTTPServer):
    """Says what it is told to, after so many seconds."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.body, self.asked = 200, b"{}", list[str]()
        self.waits = threading.Event()
        self.waits.set()


class Handler(BaseHTTPRequestHandler):
    server: Node

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.waits.wait(30)
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        return


class Behind(Wiring):
    """Of nodes whose proxies are not reached from here."""

    def reached(self, source: str, node: str) -> bool:
        return False


class AskedLab(FakeLab):
    asks = True

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._node = node
        self.wiring = Behind(self.wiring.lab, self.wiring.hosts)

    def client(self, node: str, *, timeout: float = 5.0) -> Any:
        return NodeClient(Endpoint("127.0.0.1", self._node.server_address[1]), timeout=timeout)


@pytest.fixture
def node() -> Iterator[Node]:
    server = Node()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.waits.set()
    server.shutdown()
    server.server_close()
    thread.join(5)


def test_a_node_that_takes_no_connection_is_told_from_one_that_says_nothing() -> None:
    """Of itself it is asked directly: a killed node is refused, one that stands still is silent."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        class There(FakeLab):
            def client(self, node: str, *, timeout: float = 5.0) -> Any:
                return NodeClient(Endpoint("127.0.0.1", port), timeout=timeout)

        assert Asked(There(), ("c-data", "c-data")).ping(0.2).reply is Reply.SILENT
        assert Asked(There(), ("b-data", "c-data")).ping(0.2).reply is Reply.SILENT
    assert Asked(There(), ("c-data", "c-data")).ping(0.2).reply is Reply.REFUSED
    assert Asked(There(), ("b-data", "c-data")).ping(0.2).reply is Reply.UNREACHABLE  # another's silence proves nothing


@pytest.mark.parametrize(
    ("status", "body", "reply"),
    [
        (200, b'{"_nodes": {"failed": 0}, "nodes": {"x": {"name": "c-data"}}}', Reply.ANSWERED),
        (200, b'{"_nodes": {"total": 0}}', Reply.CUT),
        (200, b'{"_nodes": {"total": 1, "failed": 1}, "nodes": {}}', Reply.CUT),
        (200, b'{"nodes": {"x": {"name": "another"}}}', Reply.CUT),
        (503, b'{"error": "no cluster manager"}', Reply.UNREACHABLE),
        (200, b"[]", Reply.UNREACHABLE),
        (200, b'{"nodes": {"x": {}}}', Reply.UNREACHABLE),
        (200, b"half", Reply.UNREACHABLE),
    ],
)
def test_only_the_answer_of_the_other_node_itself_is_one(node: Node, status: int, body: bytes, reply: Reply) -> None:
    node.status, node.body = status, body
    line = between(AskedLab(node), ("a-data", "c-data"))  # type: ignore[arg-type]
    echo = line.ping(2.0)
    line.close()
    assert isinstance(line, Asked) and echo.reply is reply and (echo.seconds is not None) is (reply is Reply.ANSWERED)
    (asked,) = node.asked
    assert asked.startswith("/_nodes/c-data/http?timeout=2000ms")  # the asked node does not go on waiting


def test_no_answer_in_time_is_silence(node: Node) -> None:
    node.waits.clear()
    echo = between(AskedLab(node), ("a-data", "c-data")).ping(0.1)  # type: ignore[arg-type]
    assert echo.reply is Reply.SILENT and echo.is_(Reply.SILENT) and not echo.is_(Reply.RESET)


def test_a_node_that_says_it_is_cut_off_may_be_so_in_each_way_and_is_never_answered(node: Node) -> None:
    echo = between(AskedLab(node), ("a-data", "c-data")).ping(1.0)  # type: ignore[arg-type]
    assert echo.reply is Reply.CUT and not echo.is_(Reply.ANSWERED) and not echo.is_(Reply.UNREACHABLE)
    assert all(echo.is_(each) for each in (Reply.SILENT, Reply.REFUSED, Reply.RESET, Reply.CLOSED))


def test_what_clients_get_is_asked_of_the_node_itself(node: Node) -> None:
    assert type(between(AskedLab(node), ("client-a", "c-data"))) is Line  # type: ignore[arg-type]
    assert type(between(FakeLab(), ("a-data", "c-data"))) is Line  # type: ignore[arg-type]


def test_pairs_with_a_decommissioned_zone_are_left_out_where_nodes_are_asked(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab: Any = AskedLab(node)
    pairs = [("a-data", "c-data"), ("c-data", "a-data"), ("a-data", "b-data"), ("client-a", "c-data")]
    monkeypatch.setattr(evidence, "decommission_status", lambda *_, **__: {"c": "SUCCESSFUL"})
    assert apart(lab, pairs, between) == {("a-data", "c-data"), ("c-data", "a-data")}
    assert apart(FakeLab(), pairs, between) == frozenset()  # type: ignore[arg-type]

    def nobody(*_: Any, **__: Any) -> dict[str, str]:
        raise LabError("no node answers")

    monkeypatch.setattr(evidence, "decommission_status", nobody)
    assert apart(lab, pairs, between) == frozenset()  # then what cannot be asked is not proven


def test_where_every_touched_pair_is_apart_nothing_is_proven(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    lab: Any = AskedLab(node)
    monkeypatch.setattr(evidence, "decommission_status", lambda *_, **__: {"c": "SUCCESSFUL"})
    looked = LinkEvidence([("a-data", "c-data")], [], lambda *_: "", lambda *_: True)
    assert looked.held(lab).proven is False and looked.still(lab) is None


# ---- through a proxy, to a node that speaks TLS and knows us not ---------------------------------------------


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lab's certificates: its nodes ask for one of us, which we have not."""
    folder = tmp_path_factory.mktemp("lab")
    security.make(folder, FakeLab().wiring)
    return folder / security.FOLDER


def speaking(secret: Path, *, answers: bool, late: float = 0.0) -> tuple[socket.socket, threading.Thread]:
    """A node of its own certificate, that takes none but those of its authority; or one that says nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(secret / "ca.pem"))
    context.load_cert_chain(secret / "c-data" / "node.pem", secret / "c-data" / "node-key.pem")
    context.verify_mode = ssl.CERT_REQUIRED

    def serve() -> None:
        held = []
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError:
                return
            if not answers:
                held.append(accepted)
                continue
            accepted.recv(1, socket.MSG_PEEK)  # who asks has begun to count
            time.sleep(late)  # as a link makes it
            with suppress(OSError), context.wrap_socket(accepted, server_side=True) as secured:
                secured.recv(1)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return listener, thread


class ThroughProxy(FakeLab):
    asks, access = True, Access(tls=True)

    def __init__(self, listener: socket.socket) -> None:
        super().__init__()
        self._at = listener.getsockname()

    def connect(self, host: str, address: tuple[str, int], timeout: float) -> socket.socket:
        return socket.create_connection(self._at, timeout)


@pytest.mark.parametrize("late", [0.0, 0.4])
def test_a_greeting_takes_as_long_as_the_way_to_a_node_that_does_not_know_us(secret: Path, late: float) -> None:
    listener, thread = speaking(secret, answers=True, late=late)
    line = between(ThroughProxy(listener), ("a-data", "c-data"))  # type: ignore[arg-type]
    echoes = [line.ping(5.0) for _ in range(2)]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)
    assert isinstance(line, Greeted) and not line.lasts
    assert all(echo.reply is Reply.ANSWERED and (echo.seconds or 0.0) >= late for echo in echoes), echoes


def test_a_proxy_that_accepts_is_no_node_that_answers(secret: Path) -> None:
    listener, thread = speaking(secret, answers=False)
    line = between(ThroughProxy(listener), ("a-data", "c-data"))  # type: ignore[arg-type]
    assert line.ping(0.2).reply is Reply.SILENT
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)
    assert line.ping(0.2).reply is Reply.REFUSED


def test_what_ends_at_once_or_speaks_something_else_has_not_answered() -> None:
    for said in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"):
        listener = socket.create_server(("127.0.0.1", 0))

        def serve(listener: socket.socket = listener, said: bytes = said) -> None:
            accepted, _ = listener.accept()
            accepted.recv(1)
            accepted.sendall(said)
            accepted.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        line = between(ThroughProxy(listener), ("a-data", "c-data"))  # type: ignore[arg-type]
        assert line.ping(5.0).reply in (Reply.CLOSED, Reply.RESET)
        thread.join(5)
        listener.close()
