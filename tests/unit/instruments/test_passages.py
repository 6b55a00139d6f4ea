"""An external actor changes what a lab's Toxiproxies let pass: seen, told from our own moves, and what it spoils."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import Log

from chaos.base.netsock import Endpoint
from chaos.faults.ledger import Ledger, moves
from chaos.faults.moves import Move, Reversible
from chaos.history import passages as events
from chaos.instruments.passages import SILENT_LOOKS, Passages
from chaos.providers import toxiproxy  # noqa: F401 - its moves


def proxy(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "listen": "10.0.0.1:9200", "upstream": "10.0.0.2:9200", "enabled": True, "toxics": []} | more


SLOW = {"name": "slow", "type": "latency", "stream": "upstream", "toxicity": 1, "attributes": {"latency": 900}}


class Server:
    """A Toxiproxy's ``GET /proxies``. ``proxies`` None: it answers 500."""

    def __init__(self) -> None:
        self.proxies: dict[str, Any] | None = {name: proxy(name) for name in ("in-a-data", "in-b-data")}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = json.dumps(outer.proxies).encode()
                self.send_response(500 if outer.proxies is None or self.path != "/proxies" else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def watch(server: Server, tmp_path: Path) -> Any:
    """One that has seen how things are at the Toxiproxy of zone a's clients."""
    host = SimpleNamespace(name="client-a", kind="client", zone="a")
    reached = {host.name: SimpleNamespace(endpoint=Endpoint("127.0.0.1", server.http.server_port))}
    lab: Any = SimpleNamespace(wiring=SimpleNamespace(hosts=(host,)), toxiproxy=reached.__getitem__)
    log, said, ledger = Log(), [], Ledger(tmp_path / "ledger.jsonl")
    made: Any = Passages(lab, log, partial(moves, ledger.path), said.append)
    assert made.look()
    made.log, made.said, made.ledger = log, said, ledger
    return made


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a proxy is switched off": (
        lambda proxies: proxies["in-a-data"].update(enabled=False),
        "somebody else switched off the proxy in-a-data of client zone a",
    ),
    "a toxic is added": (
        lambda proxies: proxies["in-b-data"]["toxics"].append(SLOW),
        "somebody else added the toxic slow (latency upstream, latency 900) on the proxy in-b-data of client zone a",
    ),
    "a proxy is removed": (
        lambda proxies: proxies.pop("in-b-data"),
        "somebody else removed the proxy in-b-data of client zone a",
    ),
    "a proxy leads elsewhere": (
        lambda proxies: proxies["in-a-data"].update(upstream="10.9.9.9:9200"),
        "somebody else changed upstream of the proxy in-a-data of client zone a from 10.0.0.2:9200 to 10.9.9.9:9200",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_an_external_actor_changes_is_told_once(watch: Any, server: Server, change: str) -> None:
    hand, says = CHANGES[change]
    assert watch.look() and watch.said == []
    hand(server.proxies)
    assert watch.look() and watch.said == [says]
    (event,) = watch.log.of(events.CHANGED)
    assert events.sentence(event) == says and event["since"] > 0 and event["client"] == "a"
    assert watch.look() and watch.said == [says]


def test_a_toxic_that_is_changed_or_taken_away_again_is_told_too(watch: Any, server: Server) -> None:
    assert server.proxies is not None
    toxics = server.proxies["in-a-data"]["toxics"]
    toxics.append(SLOW)
    watch.look()
    toxics[0] = {**SLOW, "attributes": {"latency": 5}}
    watch.look()
    toxics.clear()
    watch.look()
    assert [said.split(" on the proxy")[0] for said in watch.said] == [
        "somebody else added the toxic slow (latency upstream, latency 900)",
        "somebody else changed the toxic slow (latency upstream, latency 5)",
        "somebody else removed the toxic slow (latency upstream, latency 5)",
    ]


def test_what_moves_of_ours_do_and_undo_is_no_news_and_the_same_on_another_proxy_is(watch: Any, server: Server) -> None:
    place = {"host": "client-a", "proxy": "in-a-data"}
    add = Move("toxic.add", {**place, "toxic": "slow", "kind": "latency", "stream": "upstream", "attributes": {}})
    remove = Move("toxic.remove", {**place, "toxic": "slow"})
    off, on = Move("proxy.disable", place), Move("proxy.enable", place)
    watch.ledger.intend("f1", [Reversible(add, remove), Reversible(off, on)])
    assert server.proxies is not None
    for toxics, enabled in (([SLOW], True), ([SLOW], False), ([], True)):
        server.proxies["in-a-data"] |= {"toxics": toxics, "enabled": enabled}
        assert watch.look() and watch.said == []
    server.proxies["in-b-data"]["enabled"] = False
    assert watch.look() and len(watch.said) == 1
    server.proxies["in-a-data"]["toxics"] = [{**SLOW, "name": "another"}]
    assert watch.look() and len(watch.said) == 2


def test_a_move_of_another_package_on_a_proxy_may_do_anything_to_it(watch: Any, server: Server) -> None:
    place = {"host": "client-a", "proxy": "in-a-data"}
    move = Move("toxic.add", {**place, "toxic": "x", "kind": "latency", "stream": "upstream", "attributes": {}})
    watch.ledger.intend("f1", [Reversible(move, None)])
    text = watch.ledger.path.read_text().replace("toxic.add", "their.own")
    watch.ledger.path.write_text(text)
    assert server.proxies is not None
    server.proxies["in-a-data"]["toxics"] = [SLOW]
    assert watch.look() and watch.said == []


def test_one_that_does_not_answer_is_left_alone_for_a_while_and_then_asked_again(watch: Any, server: Server) -> None:
    kept, server.proxies = server.proxies, None
    assert not watch.look()
    server.proxies = kept
    assert kept is not None
    kept["in-a-data"]["enabled"] = False
    for _ in range(SILENT_LOOKS):
        watch.look()
    assert watch.said == []
    watch.look()
    assert len(watch.said) == 1


def test_the_watch_says_from_when_and_until_when_it_looked(watch: Any, server: Server) -> None:
    watch.start()
    assert server.proxies is not None
    server.proxies["in-a-data"]["enabled"] = False
    watch.stop()
    watch.stop()
    assert len(watch.said) == 1
    (over,) = watch.log.of(events.UNWATCHED)
    assert over["host"] == "client-a" and over["last"] > 0 and over["because"] is None


def test_a_toxiproxy_that_never_answers_is_named(watch: Any, server: Server) -> None:
    server.proxies = None
    watch._last.clear()
    watch.start()
    watch.stop()
    (over,) = watch.log.of(events.UNWATCHED)
    assert (over["host"], over["last"]) == ("client-a", None)
