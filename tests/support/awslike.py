"""A server on loopback that stands in for AWS: it writes down who asked what as whom, and answers as a test wants."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ACCOUNT = "123456789012"
_SCOPE = re.compile(r"Credential=([^/]+)/\d{8}/([^/]+)/([^/]+)/aws4_request")


@dataclass(frozen=True)
class Asked:
    """One request. ``key``, ``region`` and ``service`` are what it was signed with, empty where it was not."""

    method: str
    target: str
    body: str
    key: str
    region: str
    service: str
    headers: dict[str, str]


Reply = Callable[[Asked], tuple[int, Any]]
"""A status and a body: JSON, or text as it is."""


def identity(account: str = ACCOUNT) -> str:
    """What sts GetCallerIdentity answers."""
    return (
        '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>'
        f"<Arn>arn:aws:iam::{account}:user/tester</Arn><UserId>U</UserId><Account>{account}</Account>"
        "</GetCallerIdentityResult></GetCallerIdentityResponse>"
    )


def knows(reply: Reply | None = None, account: str = ACCOUNT) -> Reply:
    """Answers sts, and all else as ``reply`` says."""

    def answer(asked: Asked) -> tuple[int, Any]:
        if asked.service == "sts" or reply is None:
            return 200, identity(account)
        return reply(asked)

    return answer


class StandIn:
    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.asked: list[Asked] = []
        self.url = ""
        self.port = 0


@contextmanager
def stand_in(reply: Reply | None = None) -> Iterator[StandIn]:
    """One that listens while the block lasts."""
    it = StandIn(reply or knows())

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode(errors="replace")
            scope = _SCOPE.search(self.headers.get("Authorization", ""))
            key, region, service = scope.groups() if scope else ("", "", "")
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, body, key, region, service, headers)
            it.asked.append(asked)
            status, said = it.reply(asked)
            data = (said if isinstance(said, str) else json.dumps(said)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_CONNECT = answer

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    it.port = server.server_address[1]
    it.url = f"http://127.0.0.1:{it.port}"
    try:
        yield it
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
