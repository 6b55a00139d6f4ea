from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from opensearchpy import OpenSearch, helpers

from chaos.base.errors import LabError
from chaos.base.ids import preload_id, probe_id, write_id
from chaos.load.workloads.documents import (
    GROUPS,
    MAPPING,
    WORKLOAD,
    Requests,
    cas_source,
    check_of,
    check_value,
    document,
    least_hits,
    source,
)


def test_a_document_follows_from_its_id_alone():
    assert document(5) == source("w-5") == source(write_id(5))
    assert source("w-5") != source("p-5")
    assert source("w-5")["check"] == check_value("w-5") < 2**63
    assert set(document(5)) == set(MAPPING["properties"])
    with pytest.raises(ValueError, match="not the id"):
        source("x-1")


def test_least_hits_is_what_preloading_gives():
    documents = 250
    for group in range(GROUPS):
        loaded = sum(source(preload_id(n))["group"] == group for n in range(documents))
        assert least_hits(group, documents) == loaded


def test_requests():
    requests = Requests("chaos", 2000)
    write = requests.of("index", 7)
    assert (write.method, write.path.partition("?")[0]) == ("PUT", "/chaos/_doc/w-7")
    assert json.loads(write.body) == document(7)
    search = requests.of("search", 7)
    group = json.loads(search.body)["query"]["bool"]["filter"][0]["term"]["group"]
    assert search.least_hits == least_hits(group, 2000) == 20
    assert requests.of("search", 7) == search
    assert len({requests.of("search", k).body for k in range(0, 2000, 2)}) == GROUPS
    assert requests.of("get", 3).path.startswith("/chaos/_doc/p-")


def test_the_keys_of_compare_and_set_are_there_before_the_load_and_their_content_follows_from_their_value():
    actions = list(WORKLOAD._actions("chaos", 2, 2))
    assert [action["_id"] for action in actions] == ["p-0", "p-1", "c-0", "c-1"]
    assert json.loads(actions[2]["_source"]) == cas_source("c-0", 0) and cas_source("c-0", 0)["seq"] == 0
    assert set(cas_source("c-0", 3)) == set(MAPPING["properties"])
    assert not 0 <= cas_source("c-0", 3)["group"] < GROUPS  # no search of the load finds it
    assert len({check_of(key, value) for key in ("c-0", "c-1") for value in range(5)}) == 10
    assert check_of("w-3", 7) == check_value("w-3") and source(probe_id(3))["check"] == check_value("v-3")


class Full(BaseHTTPRequestHandler):
    """A node that refuses its first bulks as a whole, and then a document of the next one."""

    refuse = 2
    asked: ClassVar[list[int]] = []
    held: ClassVar[set[str]] = set()

    def _answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self) -> None:
        lines = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode().splitlines()
        if "_bulk" not in self.path:
            self._answer(200, {"_shards": {"failed": 0}, "count": len(self.held)})
            return
        ((kind, _),) = json.loads(lines[0]).items()
        ids = [json.loads(line)[kind]["_id"] for line in lines[::2]]
        self.asked.append(len(ids))
        if len(self.asked) <= self.refuse:
            error = {"type": "circuit_breaking_exception", "reason": "[parent] Data too large"}
            self._answer(429, {"error": {"root_cause": [error], **error}, "status": 429})
            return
        late = ids[:1] if len(self.asked) == self.refuse + 1 else []
        self.held.update(set(ids) - set(late))
        items = [{kind: {"_id": id, "status": 429 if id in late else 201}} for id in ids]
        self._answer(200, {"errors": bool(late), "items": items})

    do_GET = do_PUT = do_POST

    def log_message(self, *words: Any) -> None:
        return


@pytest.mark.parametrize(("refuse", "written"), [(2, True), (99, False)])
def test_documents_before_the_load_wait_for_a_node_that_is_full_for_a_while(
    monkeypatch: pytest.MonkeyPatch, refuse: int, written: bool
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(helpers.actions.time, "sleep", waited.append)
    monkeypatch.setattr(Full, "refuse", refuse)
    monkeypatch.setattr(Full, "asked", [])
    monkeypatch.setattr(Full, "held", set())
    server = ThreadingHTTPServer(("127.0.0.1", 0), Full)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    client = OpenSearch([{"host": "127.0.0.1", "port": server.server_address[1]}])
    try:
        if written:
            WORKLOAD.preload(client, 20, "chaos")
            assert Full.held == {f"p-{n}" for n in range(20)} and Full.asked == [20, 20, 20, 1]
            assert waited == [0.5, 1.0, 2.0]
        else:
            with pytest.raises(LabError, match=r"could not be written: .*429.*Data too large"):
                WORKLOAD.preload(client, 20, "chaos")
            assert len(Full.asked) == 9 and waited == [0.5, 1, 2, 4, 8, 8, 8, 8]
    finally:
        client.close()
        server.shutdown()
        server.server_close()
