"""Connections that are kept from one question to the next: how many are made, and what a node's end shows."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3

from chaos.base.netsock import Endpoint
from chaos.opensearch.rest import NodeClient
from chaos.opensearch.reused import Reused


class Node:
    """A server that counts connections and says what it is told to."""

    def __init__(self) -> None:
        self.connections, self.status, self.content = 0, 200, b'{"version": 1}'
        node = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                node.connections += 1
                super().setup()

            def do_GET(self) -> None:
                status = node.status  # the test may set another one while this answer is on its way
                self.send_response(status)
                self.send_header("Content-Length", str(len(node.content)))
                self.end_headers()
                self.wfile.write(node.content)
                self.close_connection |= status == 503

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def shutdown_request(self, request: Any) -> None:
                super().shutdown_request(request)
                node.closed.set()

        self.closed = threading.Event()
        """Whether the server has closed a connection."""
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def cluster(node: Node) -> Iterator[Reused]:
    def client(name: str, *, timeout: float = 5.0) -> NodeClient:
        return NodeClient(Endpoint("127.0.0.1", node.port), timeout=timeout)

    made = Reused(SimpleNamespace(client=client, viewers=("a",), topology=None, zoning=None))  # type: ignore[arg-type]
    yield made
    made.end()


def ask(cluster: Reused, timeout: float = 2.0) -> tuple[int, Any]:
    client = cluster.client("a", timeout=timeout)
    try:
        return client.request("GET", "/_cluster/state")
    finally:
        client.close()


def test_many_questions_are_one_connection(node: Node, cluster: Reused) -> None:
    assert {json.dumps(ask(cluster)) for _ in range(20)} == {'[200, {"version": 1}]'}
    assert node.connections == 1 and cluster.viewers == ("a",)
    assert cluster.client("a", timeout=2.0).fetch("GET", "/") == (200, b'{"version": 1}') and node.connections == 1


def test_a_connection_that_its_server_closed_is_made_anew(node: Node, cluster: Reused) -> None:
    node.status = 503
    assert ask(cluster)[0] == 503 and node.closed.wait(10)
    node.status = 200
    assert ask(cluster)[0] == 200 and node.connections == 2


def test_after_an_answer_that_is_none_all_is_made_anew(node: Node, cluster: Reused) -> None:
    node.content = b"<html>"
    for _ in range(2):
        with pytest.raises(urllib3.exceptions.HTTPError):
            ask(cluster)
    node.content = b"{}"
    assert ask(cluster) == (200, {}) and node.connections == 3


def test_a_password_that_is_refused_is_read_again(node: Node, cluster: Reused) -> None:
    node.status = 401
    ask(cluster)
    ask(cluster)
    assert node.connections == 2


def test_a_node_that_is_gone_does_not_answer(node: Node, cluster: Reused) -> None:
    assert ask(cluster)[0] == 200
    node.server.shutdown()
    node.server.server_close()
    cluster.end()  # as the kernel of a process that died: its connections are reset
    with pytest.raises(urllib3.exceptions.HTTPError):
        ask(cluster)


def test_questions_of_many_threads_do_not_spoil_each_other(node: Node, cluster: Reused) -> None:
    """One that fails drops the client that others are about to ask with."""
    failed: list[Exception] = []

    def many() -> None:
        for number in range(30):
            try:
                if number % 10 == 9:
                    client: Any = cluster.client("a", timeout=2.0)
                    client._drop(client._current())
                ask(cluster)
            except Exception as error:
                failed.append(error)

    threads = [threading.Thread(target=many) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
