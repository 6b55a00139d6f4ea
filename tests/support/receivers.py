"""A receiver of announcements on loopback, which answers as told or misbehaves in one of the ways in which one can."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

Behaviour = Callable[["Receiver", socket.socket], None]


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: Any


def answer(status: int, body: str = "", *headers: str) -> bytes:
    data = body.encode()
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(data)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + data


class Receiver:
    """``asked``: requests in their order. ``over`` is set when the block ends, which lets go of who hangs."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.over = threading.Event()
        self.came = threading.Event()
        self.address = ""


def says(status: int, body: str = "", *headers: str) -> Behaviour:
    return lambda _, connection: connection.sendall(answer(status, body, *headers))


def hangs(receiver: Receiver, connection: socket.socket) -> None:
    receiver.over.wait()


def closes_at_once(receiver: Receiver, connection: socket.socket) -> None:
    return


def closes_within(receiver: Receiver, connection: socket.socket) -> None:
    connection.sendall(answer(200, '{"message": "Annotation added", "id": 1}')[:-20])


def is_no_http(receiver: Receiver, connection: socket.socket) -> None:
    connection.sendall(b"220 mail.example ESMTP\r\n")


def drips(receiver: Receiver, connection: socket.socket) -> None:
    """Byte by byte, for ever, in a head that has no end."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not receiver.over.wait(0.02):
        connection.sendall(b"x")


def drips_its_body(receiver: Receiver, connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while not receiver.over.wait(0.02):
        connection.sendall(b"x")


@contextmanager
def receiver(behaviour: Behaviour, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """One that listens on loopback while the block lasts."""
    it = Receiver()
    listening = socket.create_server(("127.0.0.1", 0))
    it.address = f"{'http' if tls is None else 'https'}://127.0.0.1:{listening.getsockname()[1]}"

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError, ValueError):
            if tls is not None:
                connection = tls.wrap_socket(connection, server_side=True)
            it.asked.append(_read(connection))
            it.came.set()
            behaviour(it, connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield it
    finally:
        it.over.set()
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def _read(connection: socket.socket) -> Request:
    file = connection.makefile("rb")
    method, target, _ = file.readline().decode().split(" ", 2)
    headers = {}
    while line := file.readline().decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = file.read(int(headers.get("content-length", 0)))
    return Request(method, target, headers, json.loads(body) if body else None)
