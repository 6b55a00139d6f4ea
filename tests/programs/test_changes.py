"""Updates and deletes of a load of two indices and two processes: what is expected of each index is what was sent."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from programs.test_driver import config, wait_for

from chaos.history import History
from chaos.load import drivers
from chaos.load.config import ClientConfig, IndexConfig, OperationConfig, Target
from chaos.load.workloads import named
from chaos.observe.changed import of_held
from chaos.observe.written import Written

ACTIONS = (6, 2, 2)


class Stored:
    """Documents by index and id, and how often each action came for an index."""

    def __init__(self) -> None:
        self.documents: dict[tuple[str, str], Any] = {}
        self.came: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def bulk(self, index: str, lines: Iterator[str]) -> list[dict[str, Any]]:
        items = []
        with self._lock:
            for line in lines:
                ((action, named_),) = json.loads(line).items()
                key = index, named_["_id"]
                there = key in self.documents
                status, result = (200, "updated") if there else (201, "created")
                if action == "delete":
                    self.documents.pop(key, None)
                    status, result = (200, "deleted") if there else (404, "not_found")
                else:
                    given = json.loads(next(lines))
                    self.documents[key] = given["doc"] if action == "update" else given
                self.came[index, action] += 1
                shards = {"total": 2, "successful": 2, "failed": 0}
                said = {"_index": index, "_id": key[1], "status": status, "result": result, "_shards": shards}
                items.append({action: said})
        return items


@contextmanager
def storing() -> Iterator[tuple[Stored, int]]:
    stored = Stored()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            items = stored.bulk(self.path.split("/")[1], iter(body.splitlines()))
            answer = json.dumps({"errors": False, "items": items}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            pass  # a driver that ends resets its connections

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield stored, server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@pytest.mark.parametrize("processes", [1, 2])
def test_each_index_holds_what_is_expected_of_it(tmp_path: Path, processes: int) -> None:
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "history").mkdir()
    with storing() as (stored, port):
        made = config(
            tmp_path,
            operations=(
                OperationConfig(name="feed", kind="bulk", rate=20, items=10, actions=ACTIONS),
                OperationConfig(name="ship", kind="bulk", rate=20, items=4, actions=ACTIONS, place="other"),
            ),
            indices=(IndexConfig(place="other", index="other", alias=None, workload="documents", copies=2),),
            index="first",
            alias=None,
            copies=2,
            processes=processes,
            targets=(Target(node="a-data", zone="a", host="127.0.0.1", port=port),),
            client=ClientConfig(kind="pinned", node="a-data", timeout_s=10.0),
        )
        driver = drivers.of(made, tmp_path / "driver.log")
        try:
            driver.start()
            driver.go()
            wait_for(lambda: min(stored.came[name, "delete"] for name in ("first", "other")) > 12, 60)
            assert driver.stop()
        finally:
            driver.kill()
    history = History.open(tmp_path)
    assert history.processes == processes and set(history.arrivals.outcome) == {"ok"}, history.wrong
    assert {k % processes for k in (history.changes.item // 10).tolist()} == set(range(processes))
    for index, own in (("first", {"feed": 10}), ("other", {"ship": 4})):
        written = Written.of(history, documents=0, writers=own, stride=10, alone=False)
        assert written.held is not None and not written.open and not written.refused
        assert written.held.counts()["deleted"] == stored.came[index, "delete"]
        assert len(written.held.changes) == stored.came[index, "delete"] + stored.came[index, "update"]
        there = {id: content for (name, id), content in stored.documents.items() if name == index}
        assert written.acknowledged == set(there)
        expected = of_held(named("documents"), written.held)
        assert {id: expected.content(id) for id in there} == there
