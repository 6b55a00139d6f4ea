"""Links of which a node is asked, because no process of ours can be beside it: what it answers, and what that means."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from fakes import FakeLab

from chaos.base.errors import LabError
from chaos.base.netsock import Endpoint
from chaos.faults import evidence
from chaos.faults.evidence import LinkEvidence, apart
from chaos.faults.probes import Asked, Line, Reply, between
from chaos.opensearch.rest import NodeClient

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


class AskedLab(FakeLab):
    asks = True

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._node = node

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
    assert apart(lab, pairs) == {("a-data", "c-data"), ("c-data", "a-data")}
    assert apart(FakeLab(), pairs) == frozenset()  # type: ignore[arg-type]

    def nobody(*_: Any, **__: Any) -> dict[str, str]:
        raise LabError("no node answers")

    monkeypatch.setattr(evidence, "decommission_status", nobody)
    assert apart(lab, pairs) == frozenset()  # then what cannot be asked is not proven


def test_where_every_touched_pair_is_apart_nothing_is_proven(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    lab: Any = AskedLab(node)
    monkeypatch.setattr(evidence, "decommission_status", lambda *_, **__: {"c": "SUCCESSFUL"})
    looked = LinkEvidence([("a-data", "c-data")], [], lambda *_: "", lambda *_: True)
    assert looked.held(lab).proven is False and looked.still(lab) is None
