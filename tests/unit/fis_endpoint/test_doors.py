"""Ways to nodes: bytes pass, vanish while a host is silent, and come when it is not; a node that is gone closes."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator

import pytest

from chaos.base.netsock import Endpoint
from chaos.fis_endpoint.doors import Doors
from chaos.targets.labs.processes import wait_until


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(4096):
            self.request.sendall(data)


@pytest.fixture
def node() -> Iterator[Endpoint]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Endpoint("127.0.0.1", server.server_address[1])
        server.shutdown()


def asked(connection: socket.socket, seconds: float) -> bytes | None:
    """What comes within so many seconds; None: nothing."""
    connection.settimeout(seconds)
    try:
        return connection.recv(4096)
    except TimeoutError:
        return None


def test_bytes_wait_while_a_host_is_silent(node: Endpoint) -> None:
    silent: set[str] = set()
    doors = Doors({"a": lambda: node, "b": lambda: node}, silent.__contains__)
    doors.open()
    try:
        with socket.create_connection(("127.0.0.1", doors.ports["a"])) as old:
            old.sendall(b"one")
            assert asked(old, 10) == b"one"
            silent.add("a")
            old.sendall(b"two")
            with socket.create_connection(("127.0.0.1", doors.ports["a"])) as new:
                new.sendall(b"three")
                assert asked(old, 0.3) is None and asked(new, 0.3) is None
                with socket.create_connection(("127.0.0.1", doors.ports["b"])) as other:
                    other.sendall(b"four")
                    assert asked(other, 10) == b"four"
                silent.clear()
                assert asked(old, 10) == b"two" and asked(new, 10) == b"three"
    finally:
        doors.close()


def test_a_node_that_is_gone_closes_and_one_that_went_while_it_was_silent_leaves_nothing(node: Endpoint) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gone = Endpoint("127.0.0.1", taken.getsockname()[1])
    silent = {"b"}
    doors = Doors({"a": lambda: gone, "b": lambda: node}, silent.__contains__)
    doors.open()
    try:
        with socket.create_connection(("127.0.0.1", doors.ports["a"])) as connection:
            assert asked(connection, 10) == b""
        socket.create_connection(("127.0.0.1", doors.ports["b"])).close()
        assert wait_until(lambda: not doors._served, 10)
    finally:
        doors.close()


def test_doors_open_again_where_they_were(node: Endpoint) -> None:
    first = Doors({"a": lambda: node}, lambda _: False)
    first.open()
    ports = dict(first.ports)
    first.close()
    again = Doors({"a": lambda: node}, lambda _: False)
    again.open(ports)
    assert again.ports == ports
    again.close()
