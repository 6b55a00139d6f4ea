"""Ways from loopback into pods: real connections, through an API server on loopback."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
from apiserver import Server, serving

from chaos.base.errors import LabError
from chaos.base.waiting import wait_until
from chaos.kubernetes import forwarding
from chaos.kubernetes.forwarding import Listeners, Ways

POD = "opensearch-cluster-data-0"
LONG = "x" * 300_000


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._say(LONG.encode())

    def do_POST(self) -> None:
        self._say(self.rfile.read(int(self.headers["Content-Length"])))

    def _say(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def there() -> Iterator[Server]:
    backend = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    backend.daemon_threads = True
    threading.Thread(target=backend.serve_forever, args=(0.05,), daemon=True).start()
    with serving() as server:
        server.backends[POD] = backend.server_address[:2]  # type: ignore[assignment]
        yield server
    backend.shutdown()
    backend.server_close()


def free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.fixture
def ways(there: Server, tmp_path: Path) -> Ways:
    return Ways("box", str(there.kubeconfig(tmp_path)), "search", 9200, {f"127.0.0.1:{free()}": POD})


def port_of(ways: Ways) -> int:
    return int(next(iter(ways.pods)).rpartition(":")[2])


def asked(port: int, body: str | None = None) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("POST" if body else "GET", "/", body)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def test_requests_come_to_the_pod_and_answers_back_of_any_size(ways: Ways) -> None:
    listeners = Listeners(ways)
    try:
        assert asked(port_of(ways)) == LONG
        assert asked(port_of(ways), LONG) == LONG
    finally:
        listeners.close()


def test_a_way_that_cannot_be_opened_ends_its_connection_and_the_next_is_tried(there: Server, ways: Ways) -> None:
    listeners = Listeners(ways)
    try:
        there.broken = lambda method, path: method == "FORWARD"
        with pytest.raises((http.client.HTTPException, OSError)):
            asked(port_of(ways))
        there.broken = lambda method, path: False
        assert asked(port_of(ways), "again") == "again"
    finally:
        listeners.close()


def test_an_address_that_is_still_held_by_the_ways_of_a_command_before_is_waited_for(ways: Ways) -> None:
    lingering = socket.create_server(("127.0.0.1", port_of(ways)))
    threading.Timer(0.5, lingering.close).start()
    Listeners(ways).close()


def test_an_address_that_is_taken_is_an_error_that_names_it(ways: Ways, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "FREED_SECONDS", 0.3)
    with (
        socket.create_server(("127.0.0.1", port_of(ways))),
        pytest.raises(LabError, match=f"cannot begin at 127.0.0.1:{port_of(ways)}"),
    ):
        Listeners(ways)


USER = """
import sys, json
from pathlib import Path
from chaos.kubernetes import forwarding
forwarding.hold(forwarding.Ways(**json.loads(sys.argv[1])), Path(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


def user(ways: Ways, folder: Path) -> subprocess.Popen[str]:
    import json
    from dataclasses import asdict

    started = subprocess.Popen(
        [sys.executable, "-c", USER, json.dumps(asdict(ways)), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None and started.stdout.readline() == "held\n", (folder / "forward.log").read_text()
    return started


def forwarders(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if forwarding.PROGRAM in words and any(str(folder) in word for word in words):
            found.append(process)
    return found


def test_the_ways_are_one_process_that_ends_after_its_last_user_even_one_that_is_killed(
    ways: Ways, tmp_path: Path
) -> None:
    folder = tmp_path / ("long" * 40)  # longer than the path of a Unix socket may be
    first, second = user(ways, folder), user(ways, folder)
    try:
        assert len(forwarders(folder)) == 1
        assert asked(port_of(ways), "one") == "one"
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        assert not wait_until(lambda: not forwarders(folder), forwarding.LINGER_SECONDS + 1), "the other one uses it"
        assert asked(port_of(ways), "two") == "two"
    finally:
        for each in (first, second):
            each.kill()
            each.wait()
    assert wait_until(lambda: not forwarders(folder), forwarding.LINGER_SECONDS + 20, every=0.2)
    assert [each.name for each in folder.iterdir() if each.name not in ("forward.lock", "forward.log")] == []


def test_ways_that_died_are_opened_again_by_who_holds_them(
    ways: Ways, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "_held", {})
    try:
        forwarding.hold(ways, tmp_path)
        held = forwarding._held[ways.key]
        forwarding.hold(ways, tmp_path)
        assert forwarding._held[ways.key] is held, "they live: nothing is to be done"
        (died,) = forwarders(tmp_path)
        died.kill()
        died.wait(10)
        forwarding.hold(ways, tmp_path)
        assert asked(port_of(ways), "again") == "again"
    finally:
        for held in forwarding._held.values():
            held.close()
    assert wait_until(lambda: not forwarders(tmp_path), forwarding.LINGER_SECONDS + 20, every=0.2)


def test_what_keeps_the_ways_shut_is_told(ways: Ways, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "_held", {})
    with socket.create_server(("127.0.0.1", port_of(ways))), pytest.raises(LabError, match="cannot begin at"):
        forwarding.hold(ways, tmp_path)
