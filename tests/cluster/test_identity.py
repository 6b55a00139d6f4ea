"""A balancer that reads HTTP and sends a run to another cluster, on connections that live: the run ends at once."""

from __future__ import annotations

import http.client
import itertools
import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from box.impostor import NAME, UUID, answers
from cluster.test_on_existing import ALLOCATION, CALLED, HELD, OVER, There, taken_for_theirs
from cluster.test_one_door import by_one_door
from clusterkit import Cli, await_event, findings, in_effect, run_folder

from chaos.base.netsock import Endpoint
from chaos.base.paths import STATE_VARIABLE
from chaos.opensearch.views import administer
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

pytestmark = pytest.mark.full
AWAY_SECONDS = 6.0
"""How long all requests go to the other cluster."""


class Balancer(ThreadingHTTPServer):
    """``elsewhere``: set while another cluster gets what comes, which takes whatever it is asked to do."""

    daemon_threads = True

    def __init__(self, nodes: list[Endpoint], version: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.nodes, self.turns = nodes, itertools.count()
        self.elsewhere = threading.Event()
        self.said = answers("their-node", version)
        self.strayed: list[tuple[float, str, str]] = []
        """(When, method, path) of what the other cluster was sent."""


class Handler(BaseHTTPRequestHandler):
    server: Balancer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self.take
        raise AttributeError(name)

    def take(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.server.elsewhere.is_set():
            self.server.strayed.append((time.monotonic(), self.command, self.path))
            raw = json.dumps(self.server.said.get(self.path.partition("?")[0], {})).encode()
            status, kind = 200, "application/json"
        else:
            status, kind, raw = self.passed_on(body)
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def passed_on(self, body: bytes) -> tuple[int, str, bytes]:
        node = self.server.nodes[next(self.server.turns) % len(self.server.nodes)]
        made = http.client.HTTPConnection("node")
        try:
            made.sock = node.connect(10.0)
            kept = {key: self.headers[key] for key in ("content-type",) if key in self.headers}
            made.request(self.command, self.path, body, kept)
            answer = made.getresponse()
            return answer.status, answer.headers.get("content-type", "application/json"), answer.read()
        except OSError as error:
            return 502, "application/json", json.dumps({"message": str(error)}).encode()
        finally:
            made.close()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def balancer(tiny: LocalLab) -> Iterator[Balancer]:
    nodes = [tiny.administration(node.name) for node in tiny.topology.data_nodes]
    server = Balancer(nodes, tiny.topology.version)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def there(tiny: LocalLab, balancer: Balancer, tmp_path: Path) -> Iterator[There]:
    with taken_for_theirs(tiny, tmp_path, CALLED) as made:
        yield by_one_door(made, f"http://127.0.0.1:{balancer.server_port}")


def test_the_load_stops_in_the_second_in_which_another_cluster_answers(there: There, balancer: Balancer):
    running = there.begin(HELD % "60s" + OVER)
    await_event(running, there.out, in_effect)
    balancer.elsewhere.set()
    began = time.monotonic()
    assert wait_until(lambda: time.monotonic() - began > AWAY_SECONDS, AWAY_SECONDS + 1)
    balancer.elsewhere.clear()
    code, output = running.end(240)
    assert code == 4 and "Traceback" not in output, output
    at = f"http://127.0.0.1:{balancer.server_port}"
    assert f"aborted: at {at}: another cluster answers there: {NAME}, {UUID}" in output, output
    found = findings(there.out)
    assert found["clean"] is True and found["outcome"] == "aborted"
    index = f"/oschaos-{run_folder(there.out).name.rsplit('-', 1)[1]}-load"
    load = [(at - began, method, path) for at, method, path in balancer.strayed if path.startswith(index)]
    print(len(load), "requests of the load went there, the last after", max((at for at, *_ in load), default=0.0), "s")
    assert max((at for at, *_ in load), default=0.0) < 2.0
    changes = [(method, path) for _, method, path in balancer.strayed if method not in ("GET", "HEAD")]
    for method, path in changes:
        asked = urlsplit(path)
        search = re.fullmatch(rf"{index}/_search", asked.path)
        assert search or (asked.path.startswith(index) and parse_qs(asked.query)["require_alias"] == ["true"]), (
            method,
            path,
        )
    assert ALLOCATION not in str(administer(there.lab, "GET", "/_cluster/settings")[1]) and there.as_before()


def test_of_two_runners_in_one_second_the_slower_is_refused_and_leaves_nothing(
    there: There, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """From two machines, as the suite sees them: each has a state folder of its own."""
    file = there.experiment(HELD % "4s" + OVER)
    outs, runners = [tmp_path / "one", tmp_path / "two"], []
    for number, out in enumerate(outs):
        monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / f"state-{number}"))
        runners.append(Cli("run", file, "--on", there.file, "--out", out))
    ends = [running.end(240) for running in runners]
    (_, output), out = next((end, out) for end, out in zip(ends, outs, strict=True) if end[0] == 2)
    print(output)
    assert "is under way" in output and "Traceback" not in output, output
    assert not out.exists() or list(out.iterdir()) == []
    other = next(end for end in ends if end[0] != 2)
    assert other[0] in (0, 1, 3), other[1]
    assert there.as_before()
