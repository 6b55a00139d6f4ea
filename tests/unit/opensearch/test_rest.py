"""What the runner asks of servers: an answer that cannot be read is no answer, and never a traceback."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from apart import examples
from fakes import FakeLab
from load_stub import Server, serving
from opensearchpy.exceptions import OpenSearchException, TransportError
from programs.test_driver import GARBLED
from unit.load.test_outcomes import ABSENT, places, put

from chaos.base.errors import ChaosError, FaultError, LabError
from chaos.base.netsock import Endpoint
from chaos.faults.kinds.settings import effective
from chaos.faults.unread import Heap
from chaos.history import EventWriter
from chaos.instruments.sampler import Sampler
from chaos.load.workloads.documents import WORKLOAD
from chaos.observe.readback import read_back
from chaos.opensearch import administration, counters, rest, views
from chaos.opensearch.rest import LARGEST, Garbled, NodeClient, opensearch
from chaos.providers import process
from chaos.providers import rest as rest_faults
from chaos.targets.labs.toxiproxy import ToxiproxyServer

PATH = "/chaos/_doc/p-1"
"""What the stub answers as the mode says."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[NodeClient]:
    client = NodeClient(Endpoint(server.host, server.port), timeout=30.0)
    yield client
    client.close()


@pytest.mark.parametrize("mode", [*GARBLED, "bomb", "endless"])
def test_an_answer_that_cannot_be_read_is_none(server: Server, client: NodeClient, mode: str) -> None:
    server.mode(mode)
    if mode in ("object", "mistyped"):  # which shape a path's object must have is the asker's to say
        status, answer = client.request("GET", PATH)
        assert status == 200 and answer.get("found", mode) == ("object" if mode == "object" else None)
        return
    with pytest.raises(Garbled) as caught:
        client.request("GET", PATH)
    assert caught.value.status == GARBLED.get(mode, 200)
    server.mode("ok")
    status, answer = client.request("GET", PATH)
    assert (status, answer["found"]) == (200, True)  # over a connection that nothing was left on


def test_a_request_that_opensearch_answers_with_nothing_has_been_done(
    server: Server, client: NodeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "WORDLESS", frozenset({PATH}))
    server.mode("empty")
    assert client.request("DELETE", f"{PATH}?wait_for_removal=false") == (200, None)
    server.mode("html")
    with pytest.raises(Garbled):
        client.request("DELETE", PATH)


@pytest.mark.parametrize("mode", ["trickle", "longer"])
def test_the_whole_body_must_come_in_time(server: Server, mode: str) -> None:
    server.mode(mode)
    client = NodeClient(Endpoint(server.host, server.port), timeout=1.0)
    begin = time.monotonic()
    with closing(client), pytest.raises(urllib3.exceptions.ReadTimeoutError):
        client.request("GET", PATH)
    assert time.monotonic() - begin < 10  # each byte came within the second that a read may take


@pytest.mark.parametrize("mode", ["closed", "torn"])
def test_a_connection_that_ends_is_no_answer_either(server: Server, client: NodeClient, mode: str) -> None:
    server.mode(mode)
    with pytest.raises(urllib3.exceptions.ProtocolError):
        client.request("GET", PATH)


def test_a_list_is_an_answer_of_cat_and_of_nobody_else(server: Server, client: NodeClient) -> None:
    server.mode("list")
    assert client.request("GET", f"/_cat{PATH}") == (200, [])
    with pytest.raises(Garbled, match="another kind"):
        client.request("GET", PATH)
    server.mode("listed_error")
    assert client.request("GET", PATH) == (500, [])
    server.mode("ok")
    with pytest.raises(Garbled, match="another kind"):
        client.request("GET", f"/_cat{PATH}")


def test_a_large_answer_is_read_whole(tmp_path: Path) -> None:
    """Below the bound nothing is cut, whatever its framing."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    from threading import Thread

    large = json.dumps({"x": "y" * (LARGEST - 100)}).encode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            if self.path == "/chunked":
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for at in range(0, len(large), 100_000):
                    piece = large[at : at + 100_000]
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                self.wfile.write(b"0\r\n\r\n")
            else:
                self.send_header("content-length", str(len(large)))
                self.end_headers()
                self.wfile.write(large)

        def log_message(self, *_: Any) -> None:
            pass

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=web.serve_forever, args=(0.01,), daemon=True).start()
    client = NodeClient(Endpoint("127.0.0.1", web.server_port), timeout=30)
    try:
        for path in ("/plain", "/chunked", "/plain"):
            assert len(client.request("GET", path)[1]["x"]) == LARGEST - 100
    finally:
        client.close()
        web.shutdown()
        web.server_close()


@pytest.mark.parametrize("mode", [*GARBLED, "listed_error", "endless"])
def test_opensearch_pys_client_raises_its_own_errors_and_preloading_says_so(server: Server, mode: str) -> None:
    server.mode(mode)
    client = opensearch(Endpoint(server.host, server.port), timeout=2.0)
    try:
        if mode == "listed_error":
            with pytest.raises(TransportError) as caught:
                client.transport.perform_request("GET", PATH)
            assert caught.value.status_code == 500
        elif mode not in ("object", "mistyped", "list", "empty", "half_head", "surrogate"):  # to it these are answers
            with pytest.raises((OpenSearchException, RecursionError)):  # it knows no bound for brackets
                client.transport.perform_request("GET", PATH)
        with pytest.raises(LabError, match="could not be written"):
            WORKLOAD.preload(client, 3, "chaos")
    finally:
        client.close()


def test_a_toxiproxy_that_answers_garbage_is_an_error_of_the_fault() -> None:
    class Answer:
        status_code, text = 200, "[}"

        def json(self) -> Any:
            return json.loads(self.text)

    toxiproxy = ToxiproxyServer("a-data", Endpoint("127.0.0.1", 1))
    for text in ("[}", "3", "null", "[" * 100_000):
        Answer.text = text
        toxiproxy._call = lambda *_, **__: Answer()  # type: ignore[method-assign, assignment, return-value]
        for look in (toxiproxy.version, toxiproxy.proxies, lambda: toxiproxy._toxics("x")):
            with pytest.raises(FaultError, match="cannot be read"):
                look()


# ---- JSON of any shape: what the runner asks of nodes ---------------------------------------------------------

NODE = {
    "name": "a-cm",
    "indices": {"search": {"query_total": 1}, "get": {"total": 1}},
    "weighted_routing": {"stats": {"fail_open_count": 0}},
    "process": {"timestamp": 1, "cpu": {"total_in_millis": 1}},
    "os": {"allocated_processors": 2},
    "jvm": {
        "timestamp": 1,
        "mem": {"heap_used_in_bytes": 1, "heap_max_in_bytes": 2},
        "gc": {"collectors": {"old": {"collection_count": 1}}},
    },
    "breakers": {"x": {"tripped": 0}},
}
RECOVERY = {
    "id": 0,
    "primary": True,
    "type": "PEER",
    "stage": "DONE",
    "start_time_in_millis": 1,
    "total_time_in_millis": 1,
    "source": {"name": "a-cm"},
    "target": {"name": "a-cm"},
    "index": {
        "size": {"total_in_bytes": 1, "reused_in_bytes": 1, "recovered_in_bytes": 1},
        "files": {"total": 1, "reused": 1},
    },
    "translog": {"recovered": 1},
}
COPY = {"primary": True, "state": "STARTED", "node": "id", "relocating_node": None}
GOOD: dict[str, Any] = {
    "version": 3,
    "cluster_manager_node": "id",
    "nodes": {"id": NODE},
    "routing_table": {"indices": {"chaos": {"shards": {"0": [COPY]}}}},
    "metadata": {
        "cluster_coordination": {"term": 3, "voting_config_exclusions": [{"node_name": "x"}]},
        "indices": {"chaos": {"settings": {"index": {"number_of_shards": "1"}}, "routing_num_shards": 1024}},
    },
    "chaos": {"settings": {"a": "1"}, "defaults": {"b": "2"}, "shards": [RECOVERY]},
    "persistent": {"a": "1"},
    "transient": {},
    "defaults": {"b": "2"},
    "weights": {"a": "2"},
    "_version": 1,
    "tasks": [{"source": "x", "time_in_queue_millis": 1}],
    "status": "green",
    "number_of_nodes": 9,
    "discovered_cluster_manager": True,
    "_shards": {"total": 1, "successful": 1, "failed": 0},
    "timed_out": False,
    "hits": {"total": {"value": 0}, "hits": []},
    "indices": {"chaos": {"shards": {"0": {"stores": [{}]}}}},
    "shards": [[{"shard": 0}]],
}
"""What every question of the runner is answered in one: each looks for its own."""
ROWS = [{"node": "a-cm", "shard": "0", "store": "1"}]


class Answering(FakeLab):
    """A lab whose nodes all answer with this; None: with what is no answer."""

    answer: Any = GOOD
    rows: Any = ROWS

    def so(self, answer: Any, rows: Any) -> Answering:
        self.answer, self.rows = answer, rows
        return self

    def client(self, node: str, *, timeout: float = 5.0) -> Any:
        def request(method: str, path: str, **_: Any) -> tuple[int, Any]:
            answer = self.rows if path.startswith("/_cat/") else self.answer
            if answer is None:
                raise Garbled("cut short", 200)
            return 200, answer

        return SimpleNamespace(request=request, close=lambda: None)


def spoiled(good: Any) -> Iterator[Any]:
    """An answer with one place of it taken out, or replaced by another kind: some of them in turn, or all."""
    yield {} if isinstance(good, dict) else []
    others = itertools.cycle((None, True, -1, "0", [], {}, [[]], [{}], ABSENT))
    for place in places(good):
        for other in itertools.islice(others, examples(9)):
            answer = json.loads(json.dumps(good))
            put(answer, place, other)
            yield answer


LOOKS: dict[str, Callable[[Any], Any]] = {
    "view": lambda lab: views.view(lab, "a-cm"),
    "views": views.views,
    "term": views.term,
    "served": lambda lab: counters.served(lab, "a-data", 1),
    "process time": lambda lab: counters.process_time(lab, "a-data", 1),
    "processors": lambda lab: counters.processors(lab, "a-data", 1),
    "routing": lambda lab: counters.routing(lab, "a-data", "chaos", 1),
    "recoveries": lambda lab: counters.recoveries(lab, "a-data", "chaos", 0.0, 1),
    "heap": lambda lab: Heap.of(lab, "a-data"),
    "settings of the cluster": lambda lab: effective(lab, "a-data", None),
    "settings of an index": lambda lab: effective(lab, "a-data", "chaos"),
    "canary": lambda lab: rest_faults.canary(lab, "a-data"),
    "await green": lambda lab: views.await_green(lab, 0.0),
    "read back": lambda lab: read_back(lab, "chaos", {"w-1"}, sleep=lambda _: None),
}
"""Looks: what cannot be read is not seen."""
LOOKS_FOR_A_LEADER: dict[str, Callable[[Any], Any]] = {
    "elected": views.elected,
    "leaders": views.leaders,
    "another leader": lambda lab: views.another_leader(lab, "b-cm", "c-cm") or None,
}
COMMANDS: dict[str, Callable[[Any], Any]] = {
    "weights": administration.weights,
    "set weights": lambda lab: administration.set_weights(lab, {"a": 1}),
    "decommission's status": administration.decommission_status,
    "recommission": lambda lab: administration.recommission(lab, "that somebody took out"),
    "exclusions": administration.excluded,
    "create": lambda lab: administration.create_index(lab, "chaos", {}),
    "delete": lambda lab: administration.delete_index(lab, "chaos"),
    "settings": lambda lab: administration.explicit_settings(lab, None),
    "settings of an index": lambda lab: administration.explicit_settings(lab, "chaos"),
    "indices": lambda lab: administration.indices_named(lab, "x", "a-cm"),
    "queue": lambda lab: rest_faults._queued(lab, "x", "a-cm"),
    "node back": lambda lab: process._await_back(lab, "a-data", 9, 0.05),
}
"""Commands and what they hang on: an error in words, where they cannot know."""


@pytest.fixture(scope="module")
def answering() -> Answering:
    return Answering("3az-standby")


@pytest.fixture
def known_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (views, administration):
        monkeypatch.setattr(module, "elected", lambda _: "a-cm")
    monkeypatch.setattr(process, "sleep", lambda _: None)


@pytest.mark.parametrize("name", LOOKS)
def test_a_look_at_garbage_fails_and_is_no_error(name: str, answering: Answering, known_leader: None) -> None:
    look = LOOKS[name]
    assert look(answering.so(GOOD, ROWS))
    look(answering.so(None, None))
    for answer in spoiled(GOOD):
        look(answering.so(answer, ROWS))
    for rows in spoiled(ROWS):
        look(answering.so(GOOD, rows))


@pytest.mark.parametrize("name", LOOKS_FOR_A_LEADER)
def test_a_node_that_answers_garbage_has_no_vote(name: str, answering: Answering) -> None:
    look = LOOKS_FOR_A_LEADER[name]
    assert look(answering.so(GOOD, ROWS)) is not None
    look(answering.so(None, None))
    for rows in [*spoiled(ROWS), [[]], ["a-cm"], [{"node": "nobody-knows"}]]:
        found = look(answering.so(GOOD, rows))
        assert name != "elected" or found in (None, "a-cm")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_answered_with_garbage_is_one_error_in_words(
    name: str, answering: Answering, known_leader: None
) -> None:
    command, failed = COMMANDS[name], 0
    command(answering.so(GOOD, ROWS))
    for answer in [None, *spoiled(GOOD)]:
        try:
            command(answering.so(answer, ROWS))
        except ChaosError as error:
            failed += 1
            assert "\n" not in str(error)
    assert failed  # at the very least where no answer came


def test_a_get_goes_on_to_the_next_node_and_a_change_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = FakeLab("3az-standby")
    asked: list[str] = []

    def client(node: str, *, timeout: float) -> Any:
        def request(method: str, path: str, **_: Any) -> tuple[int, Any]:
            asked.append(node)
            if node != "b-cm":
                raise Garbled("cut short", 200)
            return 200, {"acknowledged": True}

        return SimpleNamespace(request=request, close=lambda: None)

    monkeypatch.setattr(lab, "client", client, raising=False)
    monkeypatch.setattr(views, "elected", lambda _: "a-cm")
    assert views.administer(lab, "GET", "/x") == (200, {"acknowledged": True})
    assert asked[0] == "a-cm" and asked[-1] == "b-cm"
    asked.clear()
    with pytest.raises(LabError, match="PUT /x on a-cm: cut short"):
        views.administer(lab, "PUT", "/x")
    assert asked == ["a-cm"]  # it may have been done: to ask again is for whoever knows what it is


def test_the_sampler_goes_on_and_a_node_that_answers_garbage_was_not_seen(tmp_path: Path) -> None:
    lab = FakeLab("3az-standby")
    garbled = SimpleNamespace(
        request=lambda *_, **__: (_ for _ in ()).throw(Garbled("cut short", 200)), close=lambda: None
    )
    lab.client = lambda node, timeout: garbled  # type: ignore[method-assign, assignment]
    events = EventWriter(tmp_path / "events.jsonl")
    sampler = Sampler(lab, events, "chaos")
    sampler.start()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and "sample" not in (tmp_path / "events.jsonl").read_text():
        time.sleep(0.05)
    sampler.stop()
    events.close()
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    samples = [line for line in lines if line["kind"] == "sample"]
    assert samples and samples[0]["ok"] == 0 and set(samples[0]["answers"].values()) == {None}
    assert not [line for line in lines if line["kind"] == "note"]
