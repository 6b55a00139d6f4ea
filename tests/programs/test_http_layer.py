"""The layer for HTTP as a real process before real servers, without a lab: what clients get, what is written of it, and
what a store's record says of what it lost."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.base.errors import LabError
from chaos.base.netsock import Endpoint
from chaos.base.waiting import wait_until
from chaos.definitions import load_topology
from chaos.definitions.steps import Scene
from chaos.faults.evidence import Evidence, Look
from chaos.faults.kinds.http import HttpCut, HttpDelay, HttpHang, HttpStatus
from chaos.faults.kinds.store import StoreErrors, StoreHang, StoreSlow
from chaos.faults.requests import Answer, ask, recorded
from chaos.instruments.store_requests import FILE, StoreRequests, part
from chaos.provision.mitmproxy import ensure_mitmproxy
from chaos.registry import PROVIDERS
from chaos.targets import security, services
from chaos.targets.labs.http_layer import HttpLayer
from chaos.targets.services.record import Expected, Record, listed
from chaos.targets.wiring import HTTP, LAYER, SERVICE, Wiring

TOPOLOGY = load_topology("3az-remote-store-http")
SHIFT = 100
"""Of the numbers of hosts: no lab of this machine has these addresses outside its namespaces."""
ACCESS = SimpleNamespace(headers=dict, tls=False)


def shifted(plain: Wiring, more: int = 0) -> Wiring:
    """With addresses of this machine's own loopback in place of those of a bridge."""
    hosts = tuple(replace(host, index=host.index + SHIFT + more, network="127.99.0") for host in plain.hosts)
    return replace(plain, hosts=hosts)


class Lab:
    """What evidence, moves and the instrument need of a lab, of one store and its layer."""

    access = ACCESS

    def __init__(self, folder: Path, shift: int = 0) -> None:
        self.wiring, self.topology, self.folder = shifted(Wiring.of_topology("lab", TOPOLOGY), shift), TOPOLOGY, folder
        for name in ("run", "logs"):
            (folder / name).mkdir()
        self.layer = HttpLayer(folder, self.wiring, "store")

    def http_layer(self, host: str) -> HttpLayer:
        assert host == "store"
        return self.layer

    def connect(self, host: str, address: tuple[str, int], timeout: float) -> socket.socket:
        """As a Toxiproxy of that host leads there."""
        entrance = LAYER + self.wiring[host].index
        return socket.create_connection((self.wiring["store"].bridge_address, entrance), timeout)

    @property
    def inside(self) -> Endpoint:
        return Endpoint(self.wiring["store"].loopback, SERVICE)

    def requests(self, service: str) -> Record:
        return Record(self.layer.record, layered=True)

    def expected(self, service: str) -> Expected:
        return Expected(service)

    def keys(self, service: str, seconds: float) -> set[str]:
        return listed(self.inside, service, seconds)

    def answers(self, service: str, seconds: float) -> float | None:
        return 0.001


@contextmanager
def process(
    command: list[str], env: dict[str, str], log: Path, ready: Callable[[], bool]
) -> Iterator[subprocess.Popen[bytes]]:
    with open(log, "ab") as output:
        started = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        assert wait_until(lambda: started.poll() is not None or ready(), 60) and started.poll() is None, log.read_text()
        yield started
    finally:
        started.kill()
        started.wait()


def listens(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, 1.0).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("lab"))
    place = services.Place("store", f"{made.wiring['store'].loopback}:{SERVICE}", made.folder)
    with started(made, list(services.kind(TOPOLOGY.services["store"]).command(place))):
        yield made


@contextmanager
def started(made: Lab, store: list[str]) -> Iterator[None]:
    """A store by this command, and its layer."""
    host, folder = made.wiring["store"], made.folder
    made.layer.prepare()
    environment = made.layer.environment(str(ensure_mitmproxy()))
    entrances = [(host.bridge_address, port) for port in made.wiring.entrances("store")]
    with (
        process(store, dict(os.environ), folder / "store.log", lambda: listens((host.loopback, SERVICE))),
        process(made.layer.command(), environment, folder / "layer.log", lambda: all(map(listens, entrances))),
    ):
        yield


SIGNED = "AWS4-HMAC-SHA256 Credential=secret/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
"""moto checks no signature, but reads the region of a request from it."""


def put(lab: Lab, key: str, verb: str = "PUT", body: bytes | None = b"x" * 900, query: str = "") -> int:
    """A request of node a-data."""
    address = f"{lab.wiring['store'].bridge_address}:{LAYER + lab.wiring['a-data'].index}"
    headers = {"Authorization": SIGNED, "Content-Type": "application/xml"}
    request = urllib.request.Request(f"http://{address}/store/{key}{query}", body, headers, method=verb)
    try:
        with urllib.request.urlopen(request, timeout=3) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def proven(look: Callable[[Any], Look], lab: Lab) -> Look:
    """The first look that proves it; a run repeats them too, because a busy machine is late with anything."""
    seen: list[Look] = []
    assert wait_until(lambda: seen.append(look(lab)) or seen[-1].proven, 60), seen[-1].probes
    return seen[-1]


SOME = {"links": "from role data to service store"}


@pytest.mark.parametrize(
    "params",
    [
        HttpDelay(**SOME, delay="300ms"),
        HttpDelay(**SOME, delay="200ms", share="40%", verbs=["PUT"], paths=["*/segments/data/*"]),
        HttpStatus(**SOME, status=503),
        HttpStatus(**SOME, status=429, share="30%", paths=["*/translog/*"]),
        HttpHang(**SOME),
        HttpHang(**SOME, at="body", share="30%"),
        HttpCut(**SOME),
        HttpCut(**SOME, at="body", share="30%"),
    ],
    ids=lambda params: f"{params.kind}-{params.share.text}",
)
def test_a_fault_of_requests_is_proven_where_it_is_and_nowhere_else_and_then_gone(lab: Lab, params: Any) -> None:
    fault = params.build("f1", Scene.of(TOPOLOGY, 1, "f1"), lab.wiring, PROVIDERS.of(params.kind)[0])
    evidence: Evidence = fault.evidence()
    assert fault.read is not None
    moves = fault.read(lab)
    try:
        proven(evidence.before, lab)
        assert not evidence.in_effect(lab).proven  # type: ignore[arg-type]
        for each in moves:
            each.move.apply(lab)  # type: ignore[arg-type]
        look = proven(evidence.in_effect, lab)
        assert len([probe for probe in look.probes if not probe.control]) == 3
        assert evidence.gone(lab).proven is False  # type: ignore[arg-type]
    finally:
        undone = [each.inverse.apply(lab) for each in moves if each.inverse is not None]  # type: ignore[arg-type]
    assert undone == [True]
    proven(evidence.gone, lab)


@pytest.mark.parametrize(
    ("params", "answered"),
    [
        (StoreErrors(service="store", status=500, prefix="segments"), 500),
        (StoreSlow(service="store", delay="300ms", prefix="segments"), 200),
        (StoreHang(service="store", prefix="segments"), None),
    ],
    ids=lambda params: getattr(params, "kind", ""),
)
def test_a_fault_of_a_store_is_proven_only_once_a_node_has_met_it(lab: Lab, params: Any, answered: int | None) -> None:
    fault = params.build("f1", Scene.of(TOPOLOGY, 1, "f1"), lab.wiring, PROVIDERS.of(params.kind)[0])
    evidence: Evidence = fault.evidence()
    assert fault.read is not None
    moves = fault.read(lab)
    try:
        proven(evidence.before, lab)
        for each in moves:
            each.move.apply(lab)  # type: ignore[arg-type]
        assert not evidence.in_effect(lab).proven, "no node has asked for anything"  # type: ignore[arg-type]
        assert put(lab, "a/0/translog/data/1/x") == 200
        assert not evidence.in_effect(lab).proven, "what a node asked for is of another part"  # type: ignore[arg-type]
        if answered is None:
            with pytest.raises(TimeoutError):
                put(lab, "a/0/segments/data/x")
        else:
            assert put(lab, "a/0/segments/data/x") == answered
        proven(evidence.in_effect, lab)
    finally:
        for each in moves:
            assert each.inverse is not None
            each.inverse.apply(lab)  # type: ignore[arg-type]
    assert put(lab, "a/0/segments/data/x") == 200
    proven(evidence.gone, lab)


def test_what_is_written_of_requests_names_who_asked_and_no_credential(lab: Lab) -> None:
    since = time.monotonic_ns()
    assert put(lab, "a/0/translog/data/2/y") == 200
    (row,) = [each for each in recorded(lab.layer.record, since) if each.get("verb") == "PUT"]
    assert (row["peer"], row["status"], row["sent"], row["how"]) == ("a-data", 200, 900, "answered")
    assert row["path"] == "/store/a/0/translog/data/2/y" and row["t"] >= since
    for word in ("Credential", "secret", "Signature", "Authorization"):
        assert word not in lab.layer.record.read_text()


def test_a_server_that_is_not_there_ends_connections_and_gives_no_502(lab: Lab, tmp_path: Path) -> None:
    other = Lab(tmp_path, shift=50)
    other.layer.prepare()
    environment = other.layer.environment(str(ensure_mitmproxy()))
    entrances = [(other.wiring["store"].bridge_address, port) for port in other.wiring.entrances("store")]
    with process(other.layer.command(), environment, tmp_path / "log", lambda: all(map(listens, entrances))):
        assert ask(other, ("a-data", "store"), None, 3.0).answer is Answer.CLOSED  # type: ignore[arg-type]


class Forgetful(Lab):
    """A store that has lost keys that it acknowledged."""

    def __init__(self, of: Lab, lost: set[str]) -> None:
        self.__dict__ |= of.__dict__
        self._lost = lost

    def keys(self, service: str, seconds: float) -> set[str]:
        return super().keys(service, seconds) - self._lost


def observed(lab: Lab, folder: Path, do: Callable[[], None]) -> dict[str, Any]:
    """The last line that the instrument writes of what is done meanwhile."""
    observer = StoreRequests(lab, "store", folder / FILE, lambda says: None)
    observer.start()
    do()
    observer.stop()
    lines = [json.loads(line) for line in (folder / FILE).read_text().splitlines()]
    assert [line for line in lines if line["kind"] == "request"]
    last: dict[str, Any] = lines[-1]
    return last


def test_keys_that_a_store_acknowledged_and_has_not_are_missed(lab: Lab, tmp_path: Path) -> None:
    found = observed(lab, tmp_path, lambda: put(lab, "a/0/translog/data/3/z") and None)
    assert found["missing"] == 0 and found["acknowledged"] >= 1
    (tmp_path / "again").mkdir()
    lost = {"a/0/translog/data/3/z"}
    found = observed(Forgetful(lab, lost), tmp_path / "again", lambda: put(lab, "a/0/translog/data/4/z") and None)
    assert found["missing"] == 1 and found["first"] == sorted(lost)


def test_keys_that_nodes_take_away_are_not_missed_and_those_that_others_take_are(lab: Lab, tmp_path: Path) -> None:
    keys = [f"b/0/segments/data/{n}" for n in range(3)]

    def by_nodes() -> None:
        assert [put(lab, key) for key in keys] == [200, 200, 200]
        assert put(lab, keys[0], "DELETE", None) == 204
        body = f"<Delete><Object><Key>{keys[1]}</Key></Object></Delete>".encode()
        assert put(lab, "", "POST", body, query="?delete") == 200

    assert observed(lab, tmp_path, by_nodes)["missing"] == 0

    def past_the_layer() -> None:
        assert put(lab, "b/0/other") == 200
        with lab.inside.connect(2.0) as sock:
            sock.sendall(f"DELETE /store/{keys[2]} HTTP/1.0\r\nHost: s3\r\nAuthorization: {SIGNED}\r\n\r\n".encode())
            assert b" 204 " in sock.recv(200)

    (tmp_path / "again").mkdir()
    found = observed(lab, tmp_path / "again", past_the_layer)
    assert found["missing"] == 1 and found["first"] == [keys[2]]


def test_a_store_that_does_not_say_what_it_has_is_not_taken_for_one_that_has_all(lab: Lab, tmp_path: Path) -> None:
    class Silent(Forgetful):
        def keys(self, service: str, seconds: float) -> set[str]:
            raise LabError("the store did not list its keys")

    found = observed(Silent(lab, set()), tmp_path, lambda: put(lab, "c") and None)
    assert "missing" not in found and "did not list" in found["why"]


FORGETS = """
import sys
from chaos.targets.services import s3_server
made = s3_server.application
def lying(bucket):
    store = made(bucket)
    def answer(environ, start_response):
        if environ["REQUEST_METHOD"] == "PUT" and "forgotten" in environ["PATH_INFO"]:
            environ["wsgi.input"].read()
            start_response("200 OK", [("Content-Length", "0"), ("ETag", '"0"')])
            return [b""]
        return store(environ, start_response)
    return answer
s3_server.application = lying
s3_server.main()
"""
"""A store that answers 200 to a PUT and forgets it."""


def test_a_store_that_says_it_took_what_it_did_not_is_found(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    liar = Lab(tmp_path / "lab", shift=30)
    host = liar.wiring["store"]
    command = [sys.executable, "-P", "-c", FORGETS, host.loopback, str(SERVICE), "store"]
    with started(liar, command):
        found = observed(liar, tmp_path, lambda: put(liar, "a/0/translog/data/1/kept") and None)
        assert (found["missing"], found["acknowledged"]) == (0, 1)
        (tmp_path / "again").mkdir()
        found = observed(liar, tmp_path / "again", lambda: put(liar, "a/0/translog/data/1/forgotten") and None)
        assert found["missing"] == 1 and found["first"] == ["a/0/translog/data/1/forgotten"]


class Greeter(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"ok\n")

    def log_message(self, *words: Any) -> None:
        return


def test_requests_over_tls_pass_it_with_the_node_s_own_certificate(tmp_path: Path) -> None:
    topology = load_topology("3az-secure").model_copy(update={"http_layer": ("data",)})
    wires = shifted(Wiring.of_topology("lab", topology), 60)
    security.make(tmp_path, wires)
    for name in ("run", "logs"):
        (tmp_path / name).mkdir()
    layer, host = HttpLayer(tmp_path, wires, "a-data", tmp_path / security.FOLDER), wires["a-data"]
    layer.prepare()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown = tmp_path / security.FOLDER / "a-data"
    context.load_cert_chain(shown / "node.pem", shown / "node-key.pem")
    server = ThreadingHTTPServer((host.loopback, HTTP), Greeter)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    access, entrance = security.access(tmp_path), LAYER + wires["client-a"].index

    def connect(opener: str, address: tuple[str, int], timeout: float) -> socket.socket:
        return access.secured(socket.create_connection((host.bridge_address, entrance), timeout), address[0])

    lab: Any = SimpleNamespace(wiring=wires, access=access, connect=connect)
    pair, rule = (
        ("client-a", "a-data"),
        {"id": "x", "peers": ["client-a"], "share": 1.0, "effect": "cut", "where": "body"},
    )
    try:
        with process(
            layer.command(),
            layer.environment(str(ensure_mitmproxy())),
            tmp_path / "layer.log",
            lambda: listens((host.bridge_address, entrance)),
        ):
            got = ask(lab, pair, None, 5.0)
            assert (got.answer, got.status) == (Answer.WHOLE, 200), (tmp_path / "layer.log").read_text()
            layer.add(rule)
            assert ask(lab, pair, None, 5.0).answer is Answer.CUT
    finally:
        server.shutdown()
        server.server_close()


def test_parts_of_a_store_are_told_by_the_keys() -> None:
    assert (
        part("PUT", "/store/x/0/segments/data/f") == "segments"
        and part("PUT", "/store/x/translog/data/1/f") == "translog"
    )
    assert part("PUT", "/store/x/0/translog/metadata/f") == "metadata" and part("GET", "/store") == "list"
    assert part("PUT", "/store/cluster-state/manifest/x") == "state" and part("GET", "/store/tests-1/f") == "other"
