"""The log shipper: a real rsyslog before a server that refuses for a while, and the account of what became of lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from chaos.base.errors import InvalidInput
from chaos.programs.checking import Unknown
from chaos.programs.shipping import rsyslog
from chaos.programs.shipping.account import Account

BLOCK = {
    "type": "cluster_block_exception",
    "reason": "index [shipped] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark];",
}


def there() -> bool:
    try:
        rsyslog.installed()
    except InvalidInput:
        return False
    return True


needs_rsyslog = pytest.mark.skipif(not there(), reason="rsyslog is not here: python -m chaos.programs.shipping ready")


class Node:
    """As one node of a cluster answers: bulks, refused while ``blocked``, and searches by a range of lines."""

    def __init__(self) -> None:
        self.blocked, self.documents, self.refused = False, dict[str, int](), 0
        self._lock = Lock()
        node = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send(node.answer(self.path))

            do_HEAD = do_GET

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self._send(node.bulk([json.loads(line) for line in body.splitlines()]))

            def _send(self, said: Any) -> None:
                body = json.dumps(said).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def bulk(self, lines: list[Any]) -> dict[str, Any]:
        items = []
        with self._lock:
            for meta, document in zip(lines[::2], lines[1::2], strict=True):
                ((operation, about),) = meta.items()
                id = str(about.get("_id", len(self.documents)))
                if self.blocked:
                    self.refused += 1
                    items.append({operation: {"_index": "shipped", "_id": id, "status": 403, "error": BLOCK}})
                elif operation == "create" and id in self.documents:
                    error = {"type": "version_conflict_engine_exception", "reason": "document already exists"}
                    items.append({operation: {"_index": "shipped", "_id": id, "status": 409, "error": error}})
                else:
                    self.documents[id] = document["line"]
                    items.append({operation: {"_index": "shipped", "_id": id, "status": 201, "result": "created"}})
        errors = any("error" in each for item in items for each in item.values())
        return {"took": 1, "errors": errors, "items": items}

    def answer(self, path: str) -> Any:
        at = urlsplit(path)
        if at.path == "/_cat/nodes":
            return [{"name": "a-data", "node.role": "di"}]
        if at.path == "/_cat/indices":
            return [{"index": "shipped"}]
        if at.path != "/shipped/_search":
            return {"_shards": {"failed": 0}}
        first, last = unquote(parse_qs(at.query)["q"][0]).removeprefix("line:[").removesuffix("]").split(" TO ")
        with self._lock:
            hits = [{"_source": {"line": n}} for n in self.documents.values() if int(first) <= n <= int(last)]
        total = {"value": len(hits), "relation": "eq"}
        return {"timed_out": False, "_shards": {"failed": 0}, "hits": {"total": total, "hits": hits}}


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    yield made
    made.server.shutdown()


def environment(node: Node, folder: Path) -> dict[str, str]:
    nodes = {"OPENSEARCH_CHAOS_NODES": json.dumps({"a-data": node.url}), "OPENSEARCH_CHAOS_RUN": str(folder)}
    return os.environ | nodes


def ship(node: Node, folder: Path, *more: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "chaos.programs.shipping", "ship", "shipped", "--rate", "100", *more]
    return subprocess.Popen(words, env=environment(node, folder), stdout=subprocess.PIPE, text=True)


def judged(node: Node, folder: Path, *more: str) -> tuple[int, str]:
    words = [sys.executable, "-m", "chaos.programs.shipping", "judge", "--least", "50", *more]
    done = subprocess.run(words, env=environment(node, folder), capture_output=True, text=True)
    return done.returncode, done.stdout.strip()


def a_while_refused(node: Node, folder: Path, settings: str) -> str:
    """Taken, refused, taken again, told to end. What it printed."""
    with ship(node, folder, "--settings", settings) as shipper:
        for blocked, until in ((False, lambda: len(node.documents) > 50), (True, lambda: node.refused > 50)):
            node.blocked = blocked
            end = time.monotonic() + 60
            while not until():
                assert time.monotonic() < end and shipper.poll() is None
                time.sleep(0.05)
        node.blocked = False
        time.sleep(1)
        shipper.send_signal(signal.SIGTERM)
        said, _ = shipper.communicate(timeout=90)
    assert shipper.returncode == 0, said
    return said


@needs_rsyslog
def test_by_its_defaults_it_loses_what_is_refused_and_the_check_fails_with_how_many(node: Node, tmp_path: Path) -> None:
    a_while_refused(node, tmp_path, rsyslog.DEFAULTS)
    account = Account.read(tmp_path / "shipper")
    assert account.lost == account.gave_up == node.refused > 50 and account.found == len(node.documents)
    code, says = judged(node, tmp_path)
    assert code == 1 and says.startswith(f"rsyslog lost {account.lost} of {account.sent} lines"), says


@needs_rsyslog
def test_with_retries_it_loses_none_and_stores_none_twice(node: Node, tmp_path: Path) -> None:
    said = a_while_refused(node, tmp_path, rsyslog.RETRYING)
    account = Account.read(tmp_path / "shipper")
    assert (account.lost, account.again, account.drained) == (0, 0, True) and node.refused > 50, said
    assert judged(node, tmp_path) == (0, "")


@needs_rsyslog
def test_where_nothing_is_refused_the_defaults_lose_nothing(node: Node, tmp_path: Path) -> None:
    with ship(node, tmp_path) as shipper:
        end = time.monotonic() + 60
        while len(node.documents) < 60:
            assert time.monotonic() < end and shipper.poll() is None
            time.sleep(0.05)
        shipper.send_signal(signal.SIGTERM)
        shipper.communicate(timeout=90)
    assert judged(node, tmp_path) == (0, "")


@needs_rsyslog
def test_what_still_waits_when_it_has_to_end_is_told_apart_from_what_is_lost(node: Node, tmp_path: Path) -> None:
    node.blocked = True
    with ship(node, tmp_path, "--settings", "retrying", "--drain", "2") as shipper:
        end = time.monotonic() + 60
        while node.refused < 25000:  # more than rsyslog sends again by default
            assert time.monotonic() < end and shipper.poll() is None
            time.sleep(0.05)
        time.sleep(1)
        shipper.send_signal(signal.SIGTERM)
        said, _ = shipper.communicate(timeout=90)
    assert shipper.returncode == 0, said
    code, says = judged(node, tmp_path)
    assert code == 3 and "rsyslog was still sending at its end" in says, says


@needs_rsyslog
def test_it_is_ready_and_a_configuration_that_it_does_not_take_is_told(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "chaos.programs.shipping", "ready"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    conf = tmp_path / "conf"
    conf.write_text('module(load="omnothing")\n')
    assert rsyslog.check(rsyslog.installed(), conf) is not None


def test_where_it_is_not_here_the_command_that_gets_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENSEARCH_CHAOS_CACHE", str(tmp_path))
    if any(Path("/").glob(f"usr/lib/*/{rsyslog.MODULE}")):
        pytest.skip("it is installed on this machine")
    done = subprocess.run([sys.executable, "-m", "chaos.programs.shipping", "ready"], capture_output=True, text=True)
    assert done.returncode == 1 and f"mkdir -p {tmp_path}/rsyslog" in done.stdout
    assert "apt-get download rsyslog rsyslog-elasticsearch libestr0 libfastjson4" in done.stdout


@pytest.mark.parametrize(
    ("documents", "gave_up", "drained", "says"),
    [
        (range(600), 0, True, None),
        ([*range(600), 7, 7], 0, True, "2 documents are there a second time"),
        ([*range(500), 700], 100, True, "rsyslog lost 100 of 600 lines: 500 found, 100 in its error file"),
        (range(500), 0, True, "rsyslog lost 100 of 600 lines: 500 found, none in its error file"),
        (range(500), 0, False, Unknown),
    ],
)
def test_the_account(documents: Any, gave_up: int, drained: bool, says: Any) -> None:
    account = Account.of("shipped", "defaults", 600, documents, gave_up, drained)
    if says is Unknown:
        with pytest.raises(Unknown, match="100 of 600 lines are not there, and rsyslog was still"):
            account.judged(500)
    else:
        assert account.judged(500) == says
    with pytest.raises(Unknown, match="are needed to say anything"):
        account.judged(601)


def test_without_an_account_nothing_is_known(tmp_path: Path) -> None:
    with pytest.raises(Unknown, match="left no account"):
        Account.read(tmp_path)
