"""Who answers at an address is asked each second, and the run ends in the second in which somebody else does."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import urllib3

from chaos.base.access import PLAIN, Access, Whose
from chaos.base.addresses import Address
from chaos.base.netsock import Endpoint
from chaos.observe import identity as module
from chaos.observe.identity import Identity
from chaos.opensearch.rest import NodeClient

OURS, THEIRS = ("ours", "search-staging"), ("theirs", "search-staging")
WHOSE = Whose(*OURS)


class Balancer(ThreadingHTTPServer):
    """Reads HTTP and answers each request for the backend that it has at that moment, on connections that live on."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.choose: Callable[[str, str], tuple[str, str]] = lambda method, path: OURS
        self.node = "a-data"
        self.status = 200
        self.asked: list[tuple[str, str, str]] = []
        """(UUID of the cluster that it went to, method, path)."""
        self.connections = self.ends = 0
        """How many there were; how many answers more say that theirs ends."""


class Handler(BaseHTTPRequestHandler):
    server: Balancer
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        self.server.connections += 1
        super().setup()

    def answered(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        uuid, name = self.server.choose(self.command, self.path)
        self.server.asked.append((uuid, self.command, self.path))
        who = {"name": self.server.node, "cluster_uuid": uuid, "cluster_name": name}
        said = json.dumps(who if self.path == "/" else {"done": True}).encode()
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(said)))
        self.send_header("content-type", "application/json")
        if self.server.ends:
            self.server.ends -= 1
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(said)

    do_GET = do_PUT = do_POST = do_DELETE = answered

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Iterator[Balancer]:
    monkeypatch.setattr(module, "PERIOD_SECONDS", 0.02)
    monkeypatch.setattr(module, "HEARD_SECONDS", 0.01)
    server = Balancer()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def address(server: Balancer) -> Address:
    return Address(False, "127.0.0.1", server.server_address[1])


def until(met: Callable[[], Any], seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end
        time.sleep(0.005)


def watched(server: Balancer, whose: Whose = WHOSE, **given: Any) -> tuple[Identity, list[str]]:
    said: list[str] = []
    watch = Identity({address(server): whose}, PLAIN, said.append, **given)
    watch.start()
    until(lambda: len(server.asked) > 2)
    assert not said
    return watch, said


def test_a_balancer_that_changes_clusters_under_a_living_connection_ends_the_run(there: Balancer) -> None:
    watch, said = watched(there)
    assert there.connections == 1
    there.choose = lambda method, path: THEIRS
    until(lambda: said)
    watch.stop()
    assert said == [f"at {address(there)}: another cluster answers there: search-staging, theirs"]


def test_so_does_another_name_with_the_same_uuid_and_another_node_of_the_same_cluster(there: Balancer) -> None:
    watch, said = watched(there)
    there.choose = lambda method, path: ("ours", "a-copy")
    until(lambda: said)
    watch.stop()
    assert said == [f"at {address(there)}: another cluster answers there: a-copy, ours"]


def test_a_url_that_comes_to_lead_to_another_node_of_the_cluster_ends_the_run(there: Balancer) -> None:
    """An attack of ours: two nodes exchange their addresses in mid-run. Name and UUID of the cluster stay right."""
    watch, said = watched(there, Whose(*OURS, "a-data"))
    there.node = "b-data"
    until(lambda: said)
    watch.stop()
    assert said == [f"at {address(there)}: another node answers there: b-data, and not a-data"]


def test_a_balancer_that_goes_by_path_is_found_by_what_the_load_is_told(there: Balancer) -> None:
    """An attack of ours: ``/`` goes to the right cluster and all else to another, so who asks is always told ours."""
    there.choose = lambda method, path: OURS if path == "/" else THEIRS
    status: dict[str, Any] = {"t": 1, "errors": [["read", 429, "rejected", None, 3]]}
    watch, said = watched(there, status=lambda: status, index="oschaos-0123-load")
    status = {"t": 2, "errors": [["read", 404, "index_not_found_exception", None, 7]]}
    until(lambda: said)
    watch.stop()
    assert "no index oschaos-0123-load: another cluster answers, or somebody has deleted it" in said[0]


def test_what_one_of_several_processes_is_told_is_heard_while_another_is_silent(there: Balancer) -> None:
    word: dict[str, Any] = {"t": 1, "newest": 2}
    heard: list[dict[str, Any]] = []

    def status() -> dict[str, Any]:
        heard.append(word)
        return heard[-1]

    watch, said = watched(there, status=status, index="oschaos-0123-load")
    until(lambda: len(heard) > 1)
    word = {"t": 1, "newest": 3, "errors": [["write", 404, "index_not_found_exception", None, 17]]}
    until(lambda: said)
    watch.stop()
    assert "no index oschaos-0123-load" in said[0]


def test_new_connections_are_asked_too(there: Balancer) -> None:
    watch, said = watched(there)
    until(lambda: there.connections > 2)
    watch.stop()
    assert not said and {path for _, _, path in there.asked} == {"/"}


@pytest.mark.parametrize("status", [503, 502, 404])
def test_who_does_not_say_is_no_reason(there: Balancer, status: int) -> None:
    watch, said = watched(there)
    there.status = status
    seen = watch.answered
    until(lambda: watch.answered > seen + 5)
    watch.stop()
    assert not said


def test_who_does_not_know_our_user_any_more_ends_the_run_a_new_password_does_not(there: Balancer) -> None:
    watch, said = watched(there)
    there.status = 401
    until(lambda: said)
    watch.stop()
    assert "knows neither this user nor this password" in said[0]
    assert there.connections >= module.STRANGERS


def test_silence_is_no_reason() -> None:
    said: list[str] = []
    watch = Identity({Address(False, "127.0.0.1", 1): WHOSE}, PLAIN, said.append)
    watch.start()
    until(lambda: watch.asked > 0)
    watch.stop()
    assert not said and watch.answered == 0


def test_a_watch_that_breaks_ends_the_run(there: Balancer, monkeypatch: pytest.MonkeyPatch) -> None:
    watch, said = watched(there)
    monkeypatch.setattr(watch, "_ask", lambda client: 1 / 0)
    until(lambda: said)
    watch.stop()
    assert said[0].startswith("whether the right cluster answers cannot be watched: ZeroDivisionError")


def test_before_each_change_it_is_asked_and_nothing_is_sent_to_another(there: Balancer) -> None:
    client = NodeClient(Endpoint("127.0.0.1", there.server_address[1]), access=Access(whose=WHOSE))
    assert client.request("PUT", "/_cluster/settings", body={})[0] == 200
    assert client.request("GET", "/_cluster/health")[0] == 200
    there.choose = lambda method, path: THEIRS
    for method in ("PUT", "POST", "DELETE"):
        with pytest.raises(urllib3.exceptions.NewConnectionError, match="another cluster answers there"):
            client.request(method, "/_cluster/settings", body={})
    assert {(method, path) for uuid, method, path in there.asked if uuid == "theirs"} == {("GET", "/")}
    there.choose = lambda method, path: OURS
    assert client.request("DELETE", "/oschaos-0123-load")[0] == 200
    client.close()


def test_a_balancer_that_ends_a_connection_after_so_many_requests_costs_no_change(there: Balancer) -> None:
    client = NodeClient(Endpoint("127.0.0.1", there.server_address[1]), access=Access(whose=WHOSE))
    assert client.request("GET", "/_cluster/health")[0] == 200
    for number in range(3):
        there.ends = 1
        assert client.request("PUT", "/_cluster/settings", body={})[0] == 200, number
    client.close()
    assert there.connections == 4 and [m for _, m, _ in there.asked].count("PUT") == 3


def test_many_addresses_are_asked_less_often() -> None:
    def every(count: int) -> float:
        wanted = {Address(False, "127.0.0.1", port): WHOSE for port in range(1, count + 1)}
        return Identity(wanted, PLAIN, print)._every

    assert (every(6), every(25), every(50), every(1000)) == (1.0, 1.0, 2.0, 4.0)
