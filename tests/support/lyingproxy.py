"""An HTTP proxy in front of one real node that changes bulks, or what is answered to them: negative controls.

Everything else goes through as it is. Of each bulk the document in place :data:`PLACE` is the one that is spoilt.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import urllib3

PLACE = 2

Answer = dict[str, Any]
Pairs = list[tuple[str, str]]
"""A bulk: (action, document), one for each document."""


@dataclass
class Lie:
    """``sends``: what becomes of the request; ``says``: of the answer, given the ids that were asked for.

    ``times``: how often the request is sent; the last answer counts.
    """

    sends: Callable[[Pairs], Pairs] = lambda pairs: pairs
    says: Callable[[Answer, list[str]], None] = lambda answer, ids: None
    times: int = 1


def _created(id: str, like: Answer) -> Answer:
    return {"index": {**like["index"], "_id": id, "status": 201, "result": "created"}}


def _with_the_one_that_was_dropped(answer: Answer, ids: list[str]) -> None:
    answer["items"].insert(PLACE, _created(ids[PLACE], answer["items"][0]))


def _swapped(answer: Answer, ids: list[str]) -> None:
    items = answer["items"]
    items[PLACE], items[PLACE + 1] = items[PLACE + 1], items[PLACE]


def _without_errors(answer: Answer, ids: list[str]) -> None:
    answer["errors"] = False


LIES = {
    "drops one document": Lie(
        lambda pairs: [pair for place, pair in enumerate(pairs) if place != PLACE], _with_the_one_that_was_dropped
    ),
    "hides what failed": Lie(
        lambda pairs: [(a, '{"nobody":"knows this field"}' if p == PLACE else d) for p, (a, d) in enumerate(pairs)],
        _without_errors,
    ),
    "swaps two answers": Lie(says=_swapped),
    "sends everything twice": Lie(times=2),
}


@dataclass
class Proxy:
    """Where it listens, and the ids of the documents that it spoilt."""

    host: str
    port: int
    spoilt: list[str] = field(default_factory=list)


@contextmanager
def lying(url: str, lie: Lie) -> Iterator[Proxy]:
    """A proxy in front of the node at ``url``, for as long as the block lasts."""
    node = urllib3.PoolManager(maxsize=20)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        proxy: ClassVar[Proxy]

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            ids: list[str] = []
            if bulk := "/_bulk" in self.path:
                lines = body.decode().splitlines()
                pairs = list(zip(lines[::2], lines[1::2], strict=True))
                named = [json.loads(action)["index"] for action, _ in pairs]
                ids = [each.get("_id") or each["routing"] for each in named]
                with lock:
                    self.proxy.spoilt.append(ids[PLACE])
                body = "".join(f"{action}\n{document}\n" for action, document in lie.sends(pairs)).encode()
            headers = {"content-type": self.headers.get("content-type") or "application/json"}
            for _ in range(lie.times if bulk else 1):
                answer = node.request(self.command, url + self.path, body=body, headers=headers, timeout=10)
            data = answer.data
            if bulk and answer.status == 200:
                told = json.loads(data)
                lie.says(told, ids)
                data = json.dumps(told).encode()
            self.send_response(answer.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = _pass

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    Handler.proxy = Proxy("127.0.0.1", server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Handler.proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
