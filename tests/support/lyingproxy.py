"""An HTTP proxy in front of one real node that changes bulks, or what is answered to them: negative controls.

Everything else goes through as it is. Of each bulk the document in place :data:`PLACE` is the one that is spoilt, or
all that are updated or deleted.
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
Pairs = list[tuple[str, str | None]]
"""A bulk: (action, document), one for each item; a delete has no document."""


@dataclass
class Lie:
    """``sends``: what becomes of the request; ``says``: of the answer, given the ids that were asked for.

    ``times``: how often the request is sent; the last answer counts. ``spoils``: the places of the items that are
    spoilt, given the actions of all.
    """

    sends: Callable[[Pairs], Pairs] = lambda pairs: pairs
    says: Callable[[Answer, list[str], list[int]], None] = lambda answer, ids, places: None
    times: int = 1
    spoils: Callable[[list[str]], list[int]] = lambda names: [PLACE]


def _places_of(action: str) -> Callable[[list[str]], list[int]]:
    return lambda names: [place for place, name in enumerate(names) if name == action]


def _without(action: str) -> Callable[[Pairs], Pairs]:
    return lambda pairs: [pair for pair in pairs if action not in json.loads(pair[0])]


def _with_those_that_were_dropped(action: str, result: str) -> Callable[[Answer, list[str], list[int]], None]:
    def says(answer: Answer, ids: list[str], places: list[int]) -> None:
        like = next(each["index"] for each in answer["items"] if "index" in each)
        for place in places:
            item = {**like, "_id": ids[place], "status": 200, "result": result}
            answer["items"].insert(place, {action: item})

    return says


def _created(id: str, like: Answer) -> Answer:
    return {"index": {**like["index"], "_id": id, "status": 201, "result": "created"}}


def _with_the_one_that_was_dropped(answer: Answer, ids: list[str], places: list[int]) -> None:
    answer["items"].insert(PLACE, _created(ids[PLACE], answer["items"][0]))


def _swapped(answer: Answer, ids: list[str], places: list[int]) -> None:
    items = answer["items"]
    items[PLACE], items[PLACE + 1] = items[PLACE + 1], items[PLACE]


def _without_errors(answer: Answer, ids: list[str], places: list[int]) -> None:
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
    "keeps what was to be deleted": Lie(
        _without("delete"), _with_those_that_were_dropped("delete", "deleted"), spoils=_places_of("delete")
    ),
    "drops updates": Lie(
        _without("update"), _with_those_that_were_dropped("update", "updated"), spoils=_places_of("update")
    ),
    "tells the truth": Lie(spoils=lambda names: []),
}


@dataclass
class Proxy:
    """Where it listens, and the ids of the documents that it spoilt."""

    host: str
    port: int
    spoilt: list[str] = field(default_factory=list)


def _pairs(body: str) -> Pairs:
    lines = iter(body.splitlines())
    return [(line, None if "delete" in json.loads(line) else next(lines)) for line in lines]


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
            places: list[int] = []
            if bulk := "/_bulk" in self.path:
                pairs = _pairs(body.decode())
                actions = [next(iter(json.loads(action).items())) for action, _ in pairs]
                ids = [named.get("_id") or named["routing"] for _, named in actions]
                places = lie.spoils([action for action, _ in actions])
                with lock:
                    self.proxy.spoilt += [ids[place] for place in places]
                lines = [line for pair in lie.sends(pairs) for line in pair if line is not None]
                body = "".join(f"{line}\n" for line in lines).encode()
            headers = {"content-type": self.headers.get("content-type") or "application/json"}
            for _ in range(lie.times if bulk else 1):
                answer = node.request(self.command, url + self.path, body=body, headers=headers, timeout=10)
            data = answer.data
            if bulk and answer.status == 200:
                told = json.loads(data)
                lie.says(told, ids, places)
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
