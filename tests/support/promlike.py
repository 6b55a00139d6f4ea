"""A server that answers instant queries as a Prometheus does, or does not: for every way in which one can go wrong."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Params = dict[str, str]
Reply = Callable[["Promlike", Params], tuple[int, Any]]


def vector(*values: float | str, at: float | None = None) -> tuple[int, Any]:
    """A vector with an element for each value."""
    moment = time.time() if at is None else at
    result = [{"metric": {"instance": str(n)}, "value": [moment, str(v)]} for n, v in enumerate(values)]
    return 200, {"status": "success", "data": {"resultType": "vector", "result": result}}


def error(status: int, says: str) -> tuple[int, Any]:
    return status, {"status": "error", "errorType": "bad_data", "error": says}


class Promlike:
    """``reply``: what it answers to a query. ``looks_back``: whether it refuses nonsense in ``lookback_delta``."""

    def __init__(self, reply: Reply, *, looks_back: bool = True) -> None:
        self.reply, self.looks_back = reply, looks_back
        self.asked: list[tuple[str, Params, dict[str, str]]] = []
        """Path, parameters and headers of every request."""
        self.over = threading.Event()
        self.url = ""

    def answer(self, params: Params) -> tuple[int, Any]:
        if self.looks_back and not params.get("lookback_delta", "1").replace(".", "").isdigit():
            return error(400, "error parsing lookback delta duration")
        return self.reply(self, params)


@contextmanager
def promlike(reply: Reply, *, looks_back: bool = True, tls: ssl.SSLContext | None = None) -> Iterator[Promlike]:
    """One that listens on loopback while the block lasts. A reply of bytes is sent as it is, one None hangs."""
    it = Promlike(reply, looks_back=looks_back)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            params = {key: values[0] for key, values in parse_qs(parts.query).items()}
            it.asked.append((parts.path, params, {k.lower(): v for k, v in self.headers.items()}))
            status, body = it.answer(params)
            if body is None:
                it.over.wait(30)
                self.close_connection = True
                return
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Location", "http://elsewhere.example/")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    it.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    try:
        yield it
    finally:
        it.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
