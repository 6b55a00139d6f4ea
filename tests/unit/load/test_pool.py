"""The driver's connections: what is an answer there, what is none, and which connection is used again."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from threading import Thread

import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st
from load_stub import Server, serving
from programs.test_driver import GARBLED

from chaos.load.network import connection_class
from chaos.load.pool import KeptConnections, Message
from chaos.opensearch.rest import LARGEST, Garbled

PATH = "/chaos/_doc/p-1"
"""What the stub answers as the mode says."""


SHAPES = {"html", "empty", "list", "object", "mistyped", "nested", "shorter"}
"""Modes whose answers are HTTP and text: what they must say is judged elsewhere."""


@contextmanager
def connections(host: str, port: int, seconds: float | None = 1.0) -> Iterator[KeptConnections]:
    pool = urllib3.HTTPConnectionPool(host, port, timeout=seconds)
    pool.ConnectionCls = connection_class(None)
    kept = KeptConnections(pool, most=2)
    try:
        yield kept
    finally:
        kept.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def kept(server: Server) -> Iterator[KeptConnections]:
    with connections(server.host, server.port, 30.0) as kept:  # for busy machines; no test waits so long
        yield kept


@contextmanager
def answering(*answers: bytes, close: bool = False) -> Iterator[tuple[tuple[str, int], list[bytes]]]:
    """A server that reads a request whenever it has sent an answer; what it read. ``close``: after each answer."""
    listener = socket.create_server(("127.0.0.1", 0))
    read: list[bytes] = []

    def serve() -> None:
        left = list(answers)
        while left:
            with listener.accept()[0] as connection:
                while left and (request := connection.recv(65536)):
                    read.append(request)
                    connection.sendall(left.pop(0))
                    if close:
                        break
                if not close:
                    connection.settimeout(5)
                    with suppress(ConnectionResetError):
                        connection.recv(1)  # its end, or nothing

    thread = Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname(), read
    finally:
        listener.close()
        thread.join(10)


@pytest.mark.parametrize("mode", [mode for mode in [*GARBLED, "bomb", "endless"] if mode not in SHAPES])
def test_what_cannot_be_read_is_no_answer(server: Server, kept: KeptConnections, mode: str) -> None:
    server.mode(mode)
    with pytest.raises(Garbled) as caught:
        kept.urlopen("GET", PATH, headers={})
    assert caught.value.status == (200 if mode == "two_lengths" else GARBLED.get(mode, 200))
    server.mode("ok")
    assert kept.urlopen("GET", PATH, headers={}).status == 200  # over a connection that nothing was left on


@pytest.mark.parametrize("mode", ["trickle", "longer"])
def test_the_whole_body_must_come_in_time(server: Server, mode: str) -> None:
    server.mode(mode)
    begin = time.monotonic()
    with connections(server.host, server.port) as kept, pytest.raises(urllib3.exceptions.ReadTimeoutError):
        kept.urlopen("GET", PATH, headers={})
    assert time.monotonic() - begin < 10  # each byte came within the second that a read may take


@pytest.mark.parametrize("mode", ["closed", "torn"])
def test_a_connection_that_ends_is_no_answer_either(server: Server, kept: KeptConnections, mode: str) -> None:
    server.mode(mode)
    with pytest.raises(urllib3.exceptions.ProtocolError):
        kept.urlopen("GET", PATH, headers={})


def test_a_server_that_takes_no_connection_is_said_to_take_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    with connections(*address) as kept, pytest.raises(urllib3.exceptions.NewConnectionError):
        kept.urlopen("GET", "/", headers={})


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


def test_a_connection_is_used_again_and_the_request_says_what_it_must() -> None:
    with answering(OK, OK) as (address, read), connections(*address) as kept:
        assert kept.urlopen("POST", "/a b/_search", b"{}", headers={"x-one": "1"}).data == b"{}"
        assert kept.urlopen("POST", "/_refresh", headers={"host": "else", "accept-encoding": "gzip"}).status == 200
    first, second = read
    assert first.split(b"\r\n") == [
        b"POST /a%20b/_search HTTP/1.1",
        b"x-one: 1",
        b"host: 127.0.0.1:%d" % address[1],
        b"accept-encoding: identity",
        b"content-length: 2",
        b"",
        b"{}",
    ]
    assert second == b"POST /_refresh HTTP/1.1\r\nhost: else\r\naccept-encoding: gzip\r\ncontent-length: 0\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        OK + b"}",
    ],
    ids=["says that it ends", "old version", "until the end", "more than was announced"],
)
def test_a_connection_that_ends_or_has_more_on_it_is_not_used_again(answer: bytes) -> None:
    with answering(answer, OK, close=True) as (address, read), connections(*address) as kept:
        assert kept.urlopen("GET", "/1", headers={}).data == b"{}"
        assert kept._idle == []
        assert kept.urlopen("GET", "/2", headers={}).data == b"{}"
    assert len(read) == 2


def test_a_kept_connection_that_its_server_closed_makes_room_for_a_new_one() -> None:
    with answering(OK, OK, close=True) as (address, read), connections(*address) as kept:
        kept.urlopen("GET", "/1", headers={})
        (idle,) = kept._idle
        deadline = time.monotonic() + 10
        while idle.is_connected:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert kept.urlopen("GET", "/2", headers={}).data == b"{}"
    assert len(read) == 2


def test_a_line_break_in_a_header_is_not_sent() -> None:
    with answering() as (address, _), connections(*address) as kept, pytest.raises(ValueError, match="line break"):
        kept.urlopen("GET", "/", headers={"x": "1\r\nhost: else"})


def test_a_head_without_an_end_is_no_answer() -> None:
    endless = b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000
    with answering(endless) as (address, _), connections(*address) as kept, pytest.raises(Garbled, match="a head of"):
        kept.urlopen("GET", "/", headers={})


NAMES = st.sampled_from(["x-one", "Warning", "Content-Type", "x"])
VALUES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=8)


@given(
    st.sampled_from([200, 201, 404, 429, 503]),
    st.lists(st.tuples(NAMES, VALUES), max_size=4),
    st.binary(max_size=200),
    st.sampled_from(["length", "chunks", "end"]),
    st.booleans(),
    st.sets(st.integers(1, 300)),
)
def test_an_answer_is_the_same_however_it_is_cut(
    status: int, fields: list[tuple[str, str]], body: bytes, framing: str, interim: bool, cuts: set[int]
) -> None:
    head = f"HTTP/1.1 {status} X\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields)
    sent = head.encode()
    if framing == "length":
        sent += b"content-length: %d\r\n\r\n" % len(body) + body
    elif framing == "chunks":
        sent += b"transfer-encoding: chunked\r\n\r\n"
        sent += b"".join(
            b"%x\r\n%b\r\n" % (len(body[at : at + 64]), body[at : at + 64]) for at in range(0, len(body), 64)
        )
        sent += b"0\r\n\r\n"
    else:
        sent += b"\r\n" + body
    if interim:
        sent = b"HTTP/1.1 100 Continue\r\nx-two: 2\r\n\r\n" + sent
    places = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    message = Message()
    for begin, end in pairwise(places):
        assert not message.complete
        message.take(sent[begin:end])
    assert message.complete is (framing != "end")
    if framing == "end":
        message.take(b"")
    assert message.complete and message.status == status and bytes(message.body) == body
    said = [(name, value) for name, value in message.headers if name not in ("content-length", "transfer-encoding")]
    assert said == [(name.lower(), value) for name, value in fields]
    assert message.reusable is (framing != "end")


@given(st.binary(max_size=60), st.integers(0, 80))
def test_half_an_answer_is_none(body: bytes, at: int) -> None:
    sent = b"HTTP/1.1 200 X\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    message = Message()
    message.take(sent[: min(max(at, 1), len(sent) - 1)])
    assert not message.complete
    with pytest.raises(Garbled):
        message.take(b"")
        assert not message.complete
        raise Garbled("the caller says so where a message is still not complete at the end")


def test_a_body_above_the_bound_is_not_kept() -> None:
    message = Message()
    message.take(b"HTTP/1.1 200 X\r\n\r\n")
    piece = bytes(1 << 20)
    for _ in range(LARGEST >> 20):
        message.take(piece)
    with pytest.raises(Garbled, match="more than"):
        message.take(b"x")
