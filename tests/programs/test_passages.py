"""The watch over a lab's links, against a real Toxiproxy: what others do to it is seen and named."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import Log
from programs.test_standing_driven import answers, free_ports

from chaos.base.errors import FaultError
from chaos.base.netsock import Endpoint
from chaos.faults.ledger import Ledger, moves
from chaos.history import passages as events
from chaos.instruments.passages import Passages
from chaos.provision.toxiproxy import find_toxiproxy
from chaos.targets.labs.processes import wait_until
from chaos.targets.labs.toxiproxy import ToxiproxyServer
from chaos.targets.wiring import Proxy

FOUND = find_toxiproxy()
pytestmark = pytest.mark.skipif(FOUND is None, reason="Toxiproxy has not been built here yet")


@pytest.fixture
def server() -> Iterator[ToxiproxyServer]:
    """With two proxies, to a port without a listener."""
    assert FOUND is not None
    api, one, other = free_ports(3)
    command = [str(FOUND.path), "-host", "127.0.0.1", "-port", str(api)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            made = ToxiproxyServer("client-a", Endpoint("127.0.0.1", api))
            assert wait_until(lambda: answers(made), 20)
            ways = {"to-a-data-http": one, "to-b-data-http": other}
            made.populate([Proxy(name, f"127.0.0.1:{port}", "127.0.0.1:9") for name, port in ways.items()])
            yield made
        finally:
            process.kill()


def test_what_others_do_to_a_real_toxiproxy_is_told_and_a_quiet_one_says_nothing(server, tmp_path):
    host = SimpleNamespace(name="client-a", kind="client", zone="a")
    lab: Any = SimpleNamespace(wiring=SimpleNamespace(hosts=(host,)), toxiproxy={"client-a": server}.__getitem__)
    log, said = Log(), []
    watch = Passages(lab, log, partial(moves, Ledger(tmp_path / "ledger.jsonl").path), said.append)
    assert all(watch.look() for _ in range(3)) and said == []
    server.set_enabled("to-a-data-http", False)
    assert watch.look()
    server.set_enabled("to-a-data-http", True)
    server.add_toxic("to-b-data-http", "theirs", "latency", "upstream", {"latency": 900, "jitter": 0})
    assert watch.look()
    server.remove_toxic("to-b-data-http", "theirs")
    assert watch.look() and watch.look()
    added = "the toxic theirs (latency upstream, jitter 0, latency 900) on the proxy to-b-data-http of client zone a"
    assert said == [
        "somebody else switched off the proxy to-a-data-http of client zone a",
        "somebody else switched on the proxy to-a-data-http of client zone a",
        f"somebody else added {added}",
        f"somebody else removed {added}",
    ]
    assert [event["kind"] for event in log.events] == [events.CHANGED] * 4


def test_a_toxic_of_somebody_else_with_the_name_of_ours_is_not_replaced(server: ToxiproxyServer) -> None:
    server.add_toxic("to-a-data-http", "oschaos-f1-upstream", "latency", "upstream", {"latency": 7, "jitter": 0})
    theirs = server.proxies()["to-a-data-http"]["toxics"]
    server.add_toxic(
        "to-a-data-http", "oschaos-f1-upstream", "latency", "upstream", {"latency": 7, "jitter": 0}
    )  # asked again
    with pytest.raises(FaultError, match="has another toxic oschaos-f1-upstream already"):
        server.add_toxic("to-a-data-http", "oschaos-f1-upstream", "latency", "upstream", {"latency": 3000, "jitter": 0})
    assert server.proxies()["to-a-data-http"]["toxics"] == theirs
    assert server.remove_toxic("to-a-data-http", "oschaos-f1-upstream-2") is False
    assert server.remove_toxic("to-a-data-http", "oschaos-f1-upstream") is True
