"""Whom an access is for: where another cluster answers nothing is sent, as if nobody took a connection."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import urllib3
from opensearchpy.exceptions import ConnectionError as NotConnected

from chaos.base.access import PLAIN, Access, Whose
from chaos.base.netsock import Endpoint
from chaos.load.config import ClientHost, DriverConfig, OperationConfig, Target
from chaos.load.connections import single
from chaos.opensearch.rest import NodeClient, opensearch
from chaos.programs.failover.rest import Api, Node

OURS = Access(whose=Whose("ours", "search-staging"))


class Somebody(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.who: tuple[int, object] = (200, {"cluster_uuid": "ours", "cluster_name": "search-staging"})
        self.asked: list[tuple[str, str]] = []


class Handler(BaseHTTPRequestHandler):
    server: Somebody
    protocol_version = "HTTP/1.1"

    def answered(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.asked.append((self.command, self.path))
        status, who = self.server.who if self.path == "/" else (200, {"done": True})
        said = json.dumps(who).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(said)))
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(said)

    do_GET = do_PUT = do_POST = answered

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def there() -> Iterator[Somebody]:
    server = Somebody()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def at(server: Somebody) -> Endpoint:
    return Endpoint("127.0.0.1", server.server_address[1])


def test_a_connection_is_asked_once_whose_it_is_and_again_before_each_change(there: Somebody) -> None:
    client = NodeClient(at(there), access=OURS)
    for _ in range(3):
        assert client.request("GET", "/_cluster/health") == (200, {"done": True})
    client.close()
    assert there.asked == [("GET", "/"), *[("GET", "/_cluster/health")] * 3]
    there.asked.clear()
    client = NodeClient(at(there), access=OURS)
    for _ in range(3):
        assert client.request("PUT", "/_cluster/settings", body={}) == (200, {"done": True})
    client.close()
    assert there.asked == [("GET", "/"), ("PUT", "/_cluster/settings")] * 3


def test_the_load_asks_once_for_each_connection(there: Somebody) -> None:
    client = single(where(there), 0, None, OURS, pool=2)
    for _ in range(3):
        client.transport.perform_request("PUT", "/ours/_doc/1", body=b"{}")
    client.close()
    assert there.asked == [("GET", "/"), *[("PUT", "/ours/_doc/1")] * 3]


def test_another_node_of_the_cluster_is_sent_nothing(there: Somebody) -> None:
    there.who = (200, {"cluster_uuid": "ours", "cluster_name": "search-staging", "name": "b-data"})
    client = NodeClient(at(there), access=OURS.only("a-data"))
    with pytest.raises(urllib3.exceptions.NewConnectionError, match="another node answers there: b-data, and not a-d"):
        client.request("PUT", "/_cluster/settings", body={})
    client.close()
    itself = where(there).model_copy(update={"itself": True})
    library = single(itself, 0, None, OURS, pool=2)
    with pytest.raises(NotConnected):
        library.transport.perform_request("PUT", "/ours/_doc/1", body=b"{}")
    assert {method for method, _ in there.asked} == {"GET"}
    assert single(where(there), 0, None, OURS, pool=2).transport.perform_request("PUT", "/ours/_doc/1", body=b"{}")


def test_what_is_for_one_node_shares_its_tls_context() -> None:
    access = Access(tls=True, whose=OURS.whose)
    assert access.only("a-data").context is access.context and PLAIN.only("a-data") is PLAIN


@pytest.mark.parametrize(
    ("who", "says"),
    [
        ((200, {"cluster_uuid": "theirs", "cluster_name": "search-staging"}), "another cluster answers there"),
        ((200, {"cluster_uuid": "ours", "cluster_name": "a copy"}), "a copy, ours"),
        ((200, {}), "another cluster answers there"),
        ((200, {"cluster_uuid": "_na_", "cluster_name": "one that is being made"}), "another cluster answers there"),
        ((401, "Unauthorized"), "neither this user nor this password"),
    ],
)
def test_another_cluster_is_sent_nothing(there: Somebody, who: tuple[int, object], says: str) -> None:
    there.who = who
    client = NodeClient(at(there), access=OURS)
    with pytest.raises(urllib3.exceptions.NewConnectionError, match=says):
        client.request("PUT", "/_cluster/settings", body={})
    client.close()
    for library in (opensearch(at(there), access=OURS), single(where(there), 0, None, OURS, pool=2)):
        with pytest.raises(NotConnected):
            library.transport.perform_request("PUT", "/ours/_doc/1", body=b"{}")
    assert {method for method, _ in there.asked} == {"GET"}


@pytest.mark.parametrize(
    "who",
    [(200, {"cluster_uuid": "_na_", "cluster_name": "search-staging"}), (503, "not initialized"), (200, "no object")],
)
def test_who_cannot_say_yet_is_not_refused(there: Somebody, who: tuple[int, object]) -> None:
    there.who = who
    client = NodeClient(at(there), access=OURS)
    assert client.request("PUT", "/_cluster/settings", body={}) == (200, {"done": True})
    client.close()


def test_without_it_whoever_answers_is_asked(there: Somebody) -> None:
    there.who = (200, {"cluster_uuid": "theirs", "cluster_name": "any"})
    client = NodeClient(at(there), access=PLAIN)
    assert client.request("PUT", "/_cluster/settings", body={})[0] == 200
    client.close()
    assert there.asked == [("PUT", "/_cluster/settings")]


def where(server: Somebody) -> Target:
    return Target(node="a-data", zone="a", host="127.0.0.1", port=server.server_address[1])


def test_it_is_written_down_and_read_again(there: Somebody, tmp_path: Path) -> None:
    assert Access.from_json(json.loads(json.dumps(OURS.to_json()))) == OURS and PLAIN.to_json() == {}
    config = DriverConfig(
        seed=1,
        out=tmp_path,
        operations=(OperationConfig(name="read", kind="search", rate=1.0),),
        clients=(ClientHost(zone="a"),),
        targets=(where(there),),
        access=OURS,
    )
    assert DriverConfig.model_validate_json(config.model_dump_json()).access == OURS


def test_a_failover_controller_changes_nothing_on_another_cluster(there: Somebody) -> None:
    host, port = there.server_address[:2]
    api, node = Api(OURS), Node("a-data", "a", f"{host!s}:{port}", True, True)
    there.who = (200, {"cluster_uuid": "ours", "cluster_name": "search-staging", "name": "a-data"})
    assert api.ask(node, "PUT", "/_cluster/settings", {}, timeout=5.0).ok
    for who in ({"cluster_uuid": "theirs", "name": "a-data"}, {"cluster_uuid": "ours", "name": "b-data"}):
        there.who = (200, {"cluster_name": "search-staging", **who})
        there.asked.clear()
        assert api.ask(node, "PUT", "/_cluster/settings", {}, timeout=5.0).status == 0
        assert {method for method, _ in there.asked} == {"GET"}
