"""What was asked and not answered is taken back when who asked is gone: no kernel delivers it later."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import urllib3

from chaos.base.errors import FaultError
from chaos.base.netsock import Endpoint
from chaos.opensearch.rest import NodeClient, opensearch
from chaos.targets.labs.toxiproxy import ToxiproxyServer

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
LEFT, TAKEN_BACK = "left", "taken back"


class Quiet:
    """Takes connections and reads requests; answers none of them, or all. ``ends``: how each connection ended."""

    def __init__(self, answers: bool) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.answers, self.ends = answers, list[str]()
        self.over = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                made, _ = self.listener.accept()
                threading.Thread(target=self._read, args=(made,), daemon=True).start()

    def _read(self, made: socket.socket) -> None:
        try:
            while data := made.recv(65536):
                if self.answers and data.endswith(b"}"):  # once a request: its head may come alone
                    made.sendall(ANSWER)
            self.ends.append(LEFT)
        except ConnectionResetError:
            self.ends.append(TAKEN_BACK)
        self.over.set()

    def end(self) -> str:
        assert self.over.wait(10)
        return self.ends[-1]


@pytest.fixture
def quiet(request: pytest.FixtureRequest) -> Iterator[Quiet]:
    made = Quiet(request.param)
    yield made
    made.listener.close()


def by_our_client(port: int, timeout: float) -> None:
    client = NodeClient(Endpoint("127.0.0.1", port), timeout=timeout)
    try:
        with suppress(urllib3.exceptions.HTTPError):
            client.request("PUT", "/_cluster/settings", body={"persistent": {"a": "b"}})
    finally:
        client.close()


def by_opensearch_py(port: int, timeout: float) -> None:
    client = opensearch(Endpoint("127.0.0.1", port), timeout=timeout)
    try:
        with suppress(Exception):
            client.index(index="ours", body={"n": 1})
    finally:
        client.close()


@pytest.mark.parametrize("quiet", [False, True], indirect=True, ids=["unanswered", "answered"])
@pytest.mark.parametrize("send", [by_our_client, by_opensearch_py])
def test_only_what_was_not_answered_is_taken_back(quiet: Quiet, send: Callable[[int, float], None]) -> None:
    send(quiet.port, 60 if quiet.answers else 0.3)
    assert quiet.end() == (LEFT if quiet.answers else TAKEN_BACK)


@pytest.mark.parametrize("quiet", [False], indirect=True)
def test_a_toxiproxy_of_others_is_sent_nothing_by_the_dead(quiet: Quiet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.targets.labs.toxiproxy.TIMEOUT_SECONDS", 0.3)
    with pytest.raises(FaultError):
        ToxiproxyServer("theirs", Endpoint("127.0.0.1", quiet.port)).add_toxic("p", "t", "latency", "upstream", {})
    assert quiet.end() == TAKEN_BACK


DIES = """
import os, signal, sys, threading, time
from chaos.base.netsock import Endpoint
from chaos.opensearch.rest import NodeClient
client = NodeClient(Endpoint("127.0.0.1", int(sys.argv[1])), timeout=60)
threading.Thread(target=client.request, args=("PUT", "/x"), kwargs={"body": {"n": 1}}, daemon=True).start()
print("asked", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("quiet", [False], indirect=True)
def test_a_process_that_is_killed_takes_back_what_it_had_asked(quiet: Quiet) -> None:
    made: Any = subprocess.Popen([sys.executable, "-c", DIES, str(quiet.port)], stdout=subprocess.PIPE)
    with made:
        assert made.stdout.readline() == b"asked\n"
        while not quiet.over.is_set() and not _has_connections(made.pid, quiet.port):
            assert made.poll() is None
        made.kill()
    assert quiet.end() == TAKEN_BACK


def _has_connections(pid: int, port: int) -> bool:
    import psutil

    return any(each.raddr and each.raddr.port == port for each in psutil.Process(pid).net_connections())
