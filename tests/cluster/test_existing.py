"""A cluster that exists, as whoever did not start it sees it: by its address alone, through a proxy that writes down
what was asked."""

from __future__ import annotations

import json
import re
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from clusterkit import DATA, Cli, cli

from chaos.definitions.existing import today
from chaos.opensearch.administration import create_index, delete_index
from chaos.opensearch.views import await_green
from chaos.targets.labs.processes import wait_until


class Recorder(ThreadingHTTPServer):
    """Hands requests on to a cluster and keeps (method, path) of each."""

    daemon_threads = True

    def __init__(self, cluster: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.cluster = cluster
        self.asked: list[tuple[str, str]] = []
        self.pretends = ""
        """The identity that is put into answers, where there is one."""
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Recorder
    protocol_version = "HTTP/1.1"  # as OpenSearch and its balancers have it: a connection is kept, and asked once

    def handed_on(self) -> None:
        self.server.asked.append((self.command, self.path))
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length) if length else None
        kind = {"content-type": self.headers.get("content-type") or "application/json"}
        asked = urllib.request.Request(f"{self.server.cluster}{self.path}", body, kind, method=self.command)
        try:
            answer = urllib.request.urlopen(asked, timeout=10)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            said = answer.read()
            if self.server.pretends:
                said = re.sub(rb'"cluster_uuid":"[^"]*"', f'"cluster_uuid":"{self.server.pretends}"'.encode(), said)
            self.send_response(answer.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = handed_on

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def recorder(tiny) -> Iterator[Recorder]:
    server = Recorder(json.loads((tiny.folder / "gateway.json").read_text())["url"])
    thread = threading.Thread(target=server.serve_forever, name="recorder", daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


def test_a_file_is_drafted_and_checked_by_gets_alone(tiny, recorder: Recorder, tmp_path: Path):
    code, output = cli("init", tmp_path, "--from", recorder.url, "--name", "staging")
    assert code == 0, output
    file = tmp_path / "topologies" / "existing" / "staging.yaml"
    assert f"opensearch-chaos target check {file.relative_to(tmp_path)}" in output
    drafted = file.read_text()
    assert "rung: observe" in drafted and all(node.name in drafted for node in tiny.topology.nodes)
    code, output = cli("target", "check", file)
    assert code == 0 and "check: OK  the file is true" in output, output
    code, output = cli("validate", file)
    assert code == 0 and "valid target staging" in output, output
    assert recorder.asked and {method for method, _ in recorder.asked} == {"GET"}


def test_another_cluster_behind_the_address_is_refused(tiny, recorder: Recorder, tmp_path: Path):
    assert cli("init", tmp_path, "--from", recorder.url, "--name", "staging")[0] == 0
    file = tmp_path / "topologies" / "existing" / "staging.yaml"
    text = file.read_text()
    uuid = next(line.split(":")[1].strip(' "') for line in text.splitlines() if "cluster_uuid" in line)
    file.write_text(text.replace(uuid, "another"))
    code, output = cli("target", "check", file, "--json")
    found = json.loads(output)
    assert code == 2 and found["refused"] == [f"endpoint {recorder.url}"]
    assert f"cluster_uuid is {uuid}, and the file says another" in found["rows"][0]["says"]
    code, output = cli("audit", file)
    assert code == 2 and "is not true" in output, output
    code, output = cli("observe", "--on", file, "--for", "10s", "--out", tmp_path / "reports")
    assert code == 2 and "cluster_uuid is" in output and not (tmp_path / "reports").exists(), output


@pytest.mark.full  # the next test observes, too
def test_an_observation_asks_and_changes_nothing(tiny, recorder: Recorder, tmp_path: Path):
    assert cli("init", tmp_path, "--from", recorder.url, "--name", "staging")[0] == 0
    file = tmp_path / "topologies" / "existing" / "staging.yaml"
    code, output = cli("observe", "--on", file, "--for", "12s", "--out", tmp_path / "reports")
    (folder,) = (tmp_path / "reports").iterdir()
    found = json.loads((folder / "summary.json").read_text())
    assert code == (0 if found["enough"] else 3), output  # a busy machine may miss a second
    assert not found["enough"] or "staging: Green for all 12 s; nobody left" in output, output
    assert found["seconds"].keys() == {"green"} and found["samples"] > 8 and found["rates"]
    assert "The published checklist" in (folder / "report.html").read_text()
    code, output = cli("audit", file)
    assert code == 1 and "audit of" in output
    code, output = cli("run", DATA / "slow.yaml", "--on", file)
    assert code == 2 and "slow may not run on staging" in output and "Traceback" not in output, output
    assert {method for method, _ in recorder.asked} == {"GET"}


def test_an_experiment_is_planned_on_it_by_gets_alone(tiny, recorder: Recorder, tmp_path: Path):
    """What is really there decides: an index without copies forbids what a lab would allow, until its owner accepts."""
    create_index(tiny, "orders", {"number_of_shards": 3, "number_of_replicas": 0})
    try:
        assert await_green(tiny, 60)[0]
        assert cli("init", tmp_path, "--from", recorder.url, "--name", "staging")[0] == 0
        file = tmp_path / "topologies" / "existing" / "staging.yaml"
        recorder.asked.clear()
        code, output = cli("plan", DATA / "slow.yaml", "--on", file, "--json")
        found = json.loads(output)
        assert code == 2 and {method for method, _ in recorder.asked} == {"GET"}, output
        assert [row["sign"] for row in found["requires"]] == ["same"] * len(found["requires"]), found
        slow = next(each for each in found["reach"] if each["phase"] == "slow")
        assert slow["hit"] == ["c-all"] and found["rung"] == "zone"
        refused = {row["what"]: row["says"] for row in found["refused"]}
        assert refused.keys() == {"shards", "no provider", "rung", "notes", "caps"}, refused
        assert refused["shards"] == "no active copy elsewhere of 1 shard of orders"
        accepted = "accept_unavailable: [{index: orders, owner: us, until: 2099-01-01}]\n"
        file.write_text(
            file.read_text().replace("rung: observe", f"{accepted}rung: zone\nuntil: {today() + timedelta(days=300)}")
        )
        code, output = cli("plan", DATA / "slow.yaml", "--on", file)
        assert code == 2 and "REFUSED  5 reasons" in output and "REFUSED  phase slow" not in output, output
        assert output.count("no provider: network.latency") == 3 and "what FIS made of it" in output, output
        assert "of orders none, which the file accepts" in output and "provider: none can do this there" in output
        uuid = json.loads(urllib.request.urlopen(recorder.url, timeout=10).read())["cluster_uuid"]
        file.write_text(file.read_text().replace(uuid, "another"))
        code, output = cli("plan", DATA / "slow.yaml", "--on", file)
        assert code == 2 and "another cluster answers there" in output, output
    finally:
        delete_index(tiny, "orders")


@pytest.mark.full  # tests/unit/load/test_queries.py
def test_searches_of_the_team_go_to_what_the_file_allows(tiny, recorder: Recorder, tmp_path: Path):
    create_index(tiny, "orders", {"number_of_shards": 2, "number_of_replicas": 1})
    try:
        assert await_green(tiny, 60)[0]
        assert cli("init", tmp_path, "--from", recorder.url, "--name", "staging")[0] == 0
        file = tmp_path / "topologies" / "existing" / "staging.yaml"
        (queries := tmp_path / "queries.ndjson").write_text('{"index": "orders"}\n{"query": {"match_all": {}}}\n')
        asked = ("observe", "--on", file, "--for", "11s", "--out", tmp_path / "reports", "--queries", queries)
        code, output = cli(*asked, "--rate", "5/s")
        assert code == 2 and "allows to read no index" in output, output
        file.write_text(file.read_text() + "reads: {indices: [orders], most: 10/s}\n")
        code, output = cli(*asked, "--rate", "50/s")
        assert code == 2 and "allows 10/s at most" in output and not (tmp_path / "reports").exists(), output
        recorder.asked.clear()
        code, output = cli(*asked, "--rate", "5/s")
        found = json.loads(next((tmp_path / "reports").glob("*/summary.json")).read_text())
        assert code == (0 if found["enough"] else 3), output  # a busy machine may send them late
        assert found["reads"]["outcomes"].get("ok", 0) >= 0.9 * found["reads"]["scheduled"] >= 40, found["reads"]
        others = {(method, path.partition("?")[0]) for method, path in recorder.asked if method != "GET"}
        assert others == {("POST", "/orders/_search")}
    finally:
        delete_index(tiny, "orders")


def test_what_happens_is_seen_and_another_cluster_ends_it(tiny, recorder: Recorder, tmp_path: Path):
    """A node leaves and comes back; then, behind the same address, somebody else answers."""
    assert cli("init", tmp_path, "--from", recorder.url, "--name", "staging")[0] == 0
    file = tmp_path / "topologies" / "existing" / "staging.yaml"
    running = Cli("observe", "--on", file, "--for", "10m", "--out", tmp_path / "reports")
    try:
        record = None

        def last_seen(nodes: int) -> bool:
            nonlocal record
            record = record or next(iter((tmp_path / "reports").glob("*/observation.jsonl")), None)
            lines = record.read_text().splitlines() if record is not None else []
            return bool(lines) and f'"nodes":{nodes},' in lines[-1]

        assert wait_until(lambda: last_seen(3), 60)
        tiny.kill_node("c-all")
        assert wait_until(lambda: last_seen(2), 60)
        tiny.start_node("c-all")
        assert await_green(tiny, 120)[0] and wait_until(lambda: last_seen(3), 60)
        recorder.pretends = "somebody else"
        code, output = running.end(60)
    finally:
        running.signal(signal.SIGKILL)
    assert code == 4 and "c-all left" in output and "c-all joined" in output, output
    assert "cluster_uuid somebody else answers" in output
