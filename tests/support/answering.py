"""A server on loopback that answers GETs, and POSTs alike, as a test wants it, late, never, or with nonsense."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[[str], tuple[int, Any]]
"""A path with its query, then status and body: JSON, bytes as they are, or None for no answer at all."""


class Answering:
    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.over = threading.Event()
        self.headers: dict[str, str | None] = {}
        """Instead of its own; None: none of that name. The Date is that of now otherwise."""
        self.url = ""


@contextmanager
def answering(reply: Reply) -> Iterator[Answering]:
    """One that listens while the block lasts."""
    it = Answering(reply)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            it.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
            status, body = it.reply(self.path)
            if body is None:
                it.over.wait(30)
                self.close_connection = True
                return
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response_only(status)
            for name, value in {"Date": self.date_time_string(), **it.headers}.items():
                if value is not None:
                    self.send_header(name, value)
            self.send_header("Location", "http://elsewhere.example/")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    it.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield it
    finally:
        it.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
