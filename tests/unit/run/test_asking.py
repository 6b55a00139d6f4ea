"""Commands that expectations name, as real processes and without a cluster: what each end of one comes to."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from unit.run.test_execution import execution

from chaos.base.access import PLAIN, Access
from chaos.base.errors import Aborted
from chaos.base.netsock import Endpoint
from chaos.base.units import Duration
from chaos.definitions.expectations import Expectation
from chaos.faults.ledger import standing
from chaos.programs import checking
from chaos.run.surroundings import environment, urls

SOURCE = Path(__file__).parents[2] / "extension"


def line(*words: str, within: float = 10, text: str = "command = 0") -> Expectation:
    return Expectation(
        metric="command",
        op=None,
        quantity="command",
        unit="count",
        phases=(),
        comparison="==",
        value=0,
        text=text,
        command=words,
        within=Duration(within),
    )


class Node:
    """A server that answers as one node would; ``said``: path to JSON."""

    def __init__(self, said: dict[str, Any]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(said.get(self.path.partition("?")[0], {})).encode()
                self.send_response(200 if self.path.partition("?")[0] in said else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("127.0.0.1", self.server.server_port)


class Lab:
    """Nodes that are there, and what a namespace would be: an endpoint that only this process may open."""

    def __init__(self, nodes: dict[str, Endpoint], *, apart: bool = False, access: Access = PLAIN) -> None:
        self.id, self.access, self.viewers = "fake", access, tuple(nodes)
        self._nodes, self._apart = nodes, apart

    def administration(self, node: str) -> Any:
        at = self._nodes[node]
        return SimpleNamespace(namespace="one", connect=at.connect) if self._apart else at


def ask(tmp_path: Path, *lines: Expectation, lab: Any = None) -> Any:
    (tmp_path / "logs").mkdir(exist_ok=True)
    run = execution(tmp_path, lab=lab or Lab({}), folder=tmp_path, there=None)
    run.experiment = SimpleNamespace(expect=lines)
    run.ask_commands()
    return run


@pytest.mark.parametrize(
    ("code", "outcome"), [(0, "finished"), (1, "finished"), (3, "finished"), (2, "error"), (126, "error")]
)
def test_an_exit_code_and_what_it_comes_to(tmp_path: Path, code: int, outcome: str) -> None:
    run = ask(tmp_path, line("sh", "-c", f"echo because; exit {code}"))
    (asked,) = run.events.of("expect.command")
    assert (asked["exit_code"], asked["log"], asked["last"]) == (code, "expect-1.log", ["because"])
    assert run.outcome == outcome
    assert bool(run.events.of("error")) is (outcome == "error")
    assert standing(run.ledger.path) == []


def test_one_that_is_not_over_in_time_is_ended_with_all_of_its_session_and_has_said_nothing(tmp_path: Path) -> None:
    began = time.monotonic()
    run = ask(tmp_path, line("sh", "-c", "sleep 60 & echo $!; wait", within=0.5))
    (asked,) = run.events.of("expect.command")
    assert asked["exit_code"] is None and "not over within 500ms" in asked["says"]
    assert time.monotonic() - began < 20 and run.outcome == "finished"
    state = Path(f"/proc/{asked['last'][0]}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "ZX"


def test_one_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    run = ask(tmp_path, line("/no/such/program"))
    assert run.outcome == "error"
    assert "expected 0 (holds), 1 (fails) or 3 (inconclusive)" in run.events.of("error")[0]["says"]


def test_each_is_asked_and_a_stop_ends_the_asking(tmp_path: Path) -> None:
    run = ask(tmp_path, line("true", text="a"), line("false", text="b"))
    assert [(each["text"], each["exit_code"]) for each in run.events.of("expect.command")] == [("a", 0), ("b", 1)]
    run.stop.ask("enough")
    with pytest.raises(Aborted):
        run.ask_commands()


def test_it_finds_the_folder_and_the_urls_and_reaches_a_node_through_a_port_of_this_machine(tmp_path: Path) -> None:
    node = Node({"/": {"name": "a-data"}})
    script = (
        "import json, os, urllib.request as r; "
        "u = json.loads(os.environ['OPENSEARCH_CHAOS_NODES']); "
        "assert os.environ['OPENSEARCH_CHAOS_URLS'].split() == list(u.values()); "
        "print(os.environ['OPENSEARCH_CHAOS_RUN'], json.load(r.urlopen(u['a-data']))['name'])"
    )
    run = ask(tmp_path, line(sys.executable, "-c", script), lab=Lab({"a-data": node.endpoint}, apart=True))
    (asked,) = run.events.of("expect.command")
    assert (asked["exit_code"], asked["last"]) == (0, [f"{tmp_path} a-data"])


def ended(connection: socket.socket) -> bool:
    """Whether the other end has closed it, in order or by a reset: which of both depends on what it had read."""
    connection.settimeout(5)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_ports_end_with_the_block_and_a_dead_node_refuses_there_too(tmp_path: Path) -> None:
    gone = socket.create_server(("127.0.0.1", 0))
    dead = Endpoint("127.0.0.1", gone.getsockname()[1])
    gone.close()
    node = Node({"/": {}})
    with urls(Lab({"a": node.endpoint, "b": dead}, apart=True)) as found:  # type: ignore[arg-type]
        ports = {name: int(url.rpartition(":")[2]) for name, url in found.items()}
        assert ports["a"] != node.endpoint.port
        held = socket.create_connection(("127.0.0.1", ports["a"]), 5)
        with socket.create_connection(("127.0.0.1", ports["b"]), 5) as other:
            assert ended(other)  # at once: nobody is behind it
    assert ended(held)
    for port in ports.values():
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", port), 1)


def test_nodes_that_are_reached_from_here_are_named_by_their_own_address() -> None:
    with urls(Lab({"a": Endpoint("10.0.0.7", 9200), "b": Endpoint("::1", 9200)})) as found:  # type: ignore[arg-type]
        assert found == {"a": "http://10.0.0.7:9200", "b": "http://[::1]:9200"}


def test_no_secret_is_put_into_the_environment(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush")
    access = Access(tls=True, ca="/ca.pem", user="me", password=f"file:{secret}")
    with environment(Lab({"a": Endpoint("h", 1)}, access=access), tmp_path, "on") as found:  # type: ignore[arg-type]
        assert found["OPENSEARCH_CHAOS_PASSWORD_FROM"] == f"file:{secret}" and "hush" not in str(found)
        read = checking.Asked.of_environment(found)
    assert (read.access.ca, read.access.user, read.nodes) == ("/ca.pem", "me", {"a": "https://h:1"})


# ---- a check in Python, that of the example package ------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "code", "says"),
    [
        ([{"index": "chaos", "status": "open"}], 0, []),
        ([{"index": "chaos", "status": "open"}, {"index": "old", "status": "close"}], 1, ["closed: old"]),
        ([], 3, ["the cluster says that it has no index at all, not even the load's"]),
        ([{"index": "chaos"}], 2, ["KeyError: 'status'"]),
        (
            None,
            3,
            ["no node answers GET /_cat/indices?format=json&h=index,status&expand_wildcards=all (a: status 404)"],
        ),
    ],
)
def test_a_check_in_python_holds_fails_does_not_know_or_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Any, code: int, says: list[str]
) -> None:
    node = Node({} if rows is None else {"/_cat/indices": rows})
    path = [str(SOURCE), str(SOURCE.parents[1])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    words = (sys.executable, "-m", "oschaos_example.nothing_closed")
    run = ask(tmp_path, line(*words, within=60), lab=Lab({"a": node.endpoint}, apart=True))
    (asked,) = run.events.of("expect.command")
    assert asked["exit_code"] == code
    assert asked["last"][-1:] == says


def test_outside_of_a_run_a_check_in_python_does_not_know() -> None:
    with pytest.raises(checking.Unknown, match="no run asks"):
        checking.Asked.of_environment({})
