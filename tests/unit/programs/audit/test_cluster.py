"""Reading a cluster: GETs only, whatever it refuses or says; and the command, its errors and its pages."""

from __future__ import annotations

import json
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import synthetic
import urllib3
from pages import Page

from chaos import cli as module
from chaos.base.access import PLAIN, Access
from chaos.base.errors import InvalidInput
from chaos.base.sigv4 import SigV4
from chaos.commands.access import reached
from chaos.history import History
from chaos.programs.audit import RULES, Status, audit, cluster, documentation
from chaos.programs.audit.facts import Sheet
from chaos.programs.audit.questions import Question
from chaos.report import render
from chaos.report.audit import audit_page, rows

EVIL = '<script>document.title="owned"</script>"><img src=x onerror=alert(1)>{{7*7}}\x1b[2J'
SELF_SIGNED = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgkAWFqset5wMPuXPp
N1xhJjNhhP1/U11n5Z7PfaySPBqhRANCAARETCEHQbL6U1v/qRClEuLouI2SXkqF
6rRZ4Kvq0Zkbs5VWXB4n1/TDEYDwzg2S8hxyNRpYCCTHU1TsPWz6Ta+q
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBjDCCATKgAwIBAgIUfiXzEr0j02Nkz2VlRtFHZU0mhVswCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHYXVkaXRlZDAgFw0yNjExMjIwNTMzNTNaGA8yMTI2MTAyOTA1
MzM1M1owEjEQMA4GA1UEAwwHYXVkaXRlZDBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABERMIQdBsvpTW/+pEKUS4ui4jZJeSoXqtFngq+rRmRuzlVZcHifX9MMRgPDO
DZLyHHI1GlgIJMdTVOw9bPpNr6qjZDBiMB0GA1UdDgQWBBTc8oTfGk/XJGUOdDAS
JJ15mvwuQDAfBgNVHSMEGDAWgBTc8oTfGk/XJGUOdDASJJ15mvwuQDAPBgNVHRMB
Af8EBTADAQH/MA8GA1UdEQQIMAaHBH8AAAEwCgYIKoZIzj0EAwIDSAAwRQIhAPm4
rJbEW7SwkUjSqZJKp50EGmGiD4TamcHwsZCZvXlZAiByYI3hmE/cJwJGezJxeLLt
80/znVjxG75e0eZwomhE6Q==
-----END CERTIFICATE-----
"""
"""Made for this test, for 127.0.0.1: protects nothing."""


def answers() -> dict[str, Any]:
    """What OpenSearch 3.8.0 says of a lab with one data node too few copies of ``bare``, by path without query."""
    nodes, stats, copies = {}, {}, []
    for number, zone in enumerate("abc"):
        for roles in (["cluster_manager"], ["data", "ingest"]):
            name = f"{zone}-{'cm' if roles[0] == 'cluster_manager' else 'data'}"
            nodes[f"id-{name}"] = {
                "name": name,
                "roles": roles,
                "attributes": {"zone": zone, "shard_indexing_pressure_enabled": "true"},
                "settings": {
                    "node.name": name,
                    "cluster.routing.allocation.awareness.attributes": "zone",
                    "cluster.routing.allocation.awareness.force.zone.values": ["a", "b", "c"],
                },
                "jvm": {"mem": {"heap_max_in_bytes": 389283840}},
                "os": {"allocated_processors": 2},
            }
            stats[f"id-{name}"] = {
                "name": name,
                "os": {"cpu": {"percent": 20}, "mem": {"total_in_bytes": 16 * 2**30}},
                "jvm": {"mem": {"heap_used_percent": 80, "pools": {"old": {"used_in_bytes": 10, "max_in_bytes": 100}}}},
                "fs": {"total": {"total_in_bytes": 1000, "available_in_bytes": 700}},
                "breakers": {"parent": {"limit_size_in_bytes": 369819648}},
                "timestamp": int(NOW * 1000),
            }
        copies += [
            {"index": "chaos", "shard": "0", "prirep": "rp"[number == 0], "state": "STARTED", "store": "208"}
            | {"node": f"{zone}-data"}
        ]
    copies += [{"index": "bare", "shard": "0", "prirep": "p", "state": "STARTED", "store": "9", "node": "a-data"}]
    return {
        "/": {
            "name": "a-data",
            "version": {"distribution": "opensearch", "number": "3.8.0"},
            "tagline": "The OpenSearch Project: https://opensearch.org/",
        },
        "/_nodes/settings,jvm,os": {"_nodes": {"total": 6, "successful": 6, "failed": 0}, "nodes": nodes},
        "/_nodes/stats/os,jvm,fs,breaker": {"_nodes": {"failed": 0}, "nodes": stats},
        "/_cluster/settings": {
            "persistent": {"cluster.publish.timeout": "3s"},
            "transient": {"cluster.publish.timeout": "4s"},
            "defaults": {
                "cluster.fault_detection.follower_check.interval": "1000ms",
                "cluster.fault_detection.follower_check.timeout": "10000ms",
                "cluster.fault_detection.follower_check.retry_count": "3",
                "cluster.fault_detection.leader_check.interval": "1000ms",
                "cluster.fault_detection.leader_check.timeout": "10000ms",
                "cluster.fault_detection.leader_check.retry_count": "3",
                "cluster.follower_lag.timeout": "90000ms",
                "cluster.max_shards_per_node": "1000",
                "cluster.routing.allocation.awareness.attributes": ["zone"],
                "search_backpressure.mode": "monitor_only",
                "admission_control.transport.mode": "disabled",
                "shard_indexing_pressure.enabled": "false",
                "shard_indexing_pressure.enforced": "false",
                "search.cancel_after_time_interval": "-1",
                "cat.indices.response.limit.number_of_indices": "-1",
                "cat.segments.response.limit.number_of_indices": "-1",
                "cat.shards.response.limit.number_of_shards": "-1",
                "cluster.routing.allocation.enable": "all",
                "cluster.routing.rebalance.enable": "all",
                "cluster.routing.allocation.disk.threshold_enabled": "true",
            },
        },
        "/_all/_settings": {
            name: {"settings": {"index": {"number_of_shards": "1", "number_of_replicas": replicas}}}
            for name, replicas in (("chaos", "2"), ("bare", "0"))
        },
        "/_cat/shards": copies,
        "/_cluster/state/metadata,blocks,routing_table,customs": {
            "metadata": {
                "cluster_coordination": {
                    "last_committed_config": ["id-a-cm", "id-b-cm", "id-c-cm"],
                    "voting_config_exclusions": [],
                },
                "indices": {"chaos": {"state": "open"}, "bare": {"state": "open"}},
            },
        },
        "/_cluster/allocation/explain": {
            **{"index": "bare", "shard": 0, "primary": False, "can_allocate": "no"},
            "unassigned_info": {"reason": "NODE_LEFT"},
        },
        "/_index_template": {"index_templates": []},
        "/_component_template": {},
        "/_template": {},
        "/_data_stream": {"data_streams": []},
        "/_nodes/usage/rest_actions": {
            "_nodes": {"total": 6, "successful": 6, "failed": 0},
            "nodes": {
                id: {"since": 1_000, "timestamp": 101_000, "rest_actions": {"nodes_stats_action": 50}} for id in nodes
            },
        },
        "/_cat/repositories": [{"id": "backup", "type": "s3"}],
        "/_snapshot/backup/_all": {
            "snapshots": [
                {
                    **{"snapshot": "daily", "state": "SUCCESS"},
                    **{"start_time_in_millis": (NOW - 60) * 1000, "end_time_in_millis": NOW * 1000},
                }
            ]
        },
        "/_snapshot": {"backup": {"settings": {"remote_store_index_shallow_copy": "false"}}},
        "/_plugins/_sm/policies/*/_explain": {"policies": [{"name": "daily", "enabled": True}]},
        "/_plugins/_ism/explain/*": {"total_managed_indices": 0},
        "/_plugins/_security/api/certificates": {
            "nodes": {
                "id-a-data": {
                    "name": "a-data",
                    "certificates": {"http": [{"not_after": "2036-01-01T00:00:00Z"}], "transport": []},
                }
            }
        },
    }


NOW = 1_800_000_000.0


PARTS = [path for path in answers() if path != "/"]


class Server:
    """Answers as told, and remembers what it was asked."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.said: dict[str, Any] = answers()
        self.status: dict[str, int] = {}
        self.user: str | None = None
        self.asked: list[tuple[str, str, str | None]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def __getattr__(self, name: str) -> Any:
                if name.startswith("do_"):  # whatever method there is
                    return self.answer
                raise AttributeError(name)

            def answer(self) -> None:
                path = self.path.partition("?")[0]
                given = self.headers.get("authorization")
                server.asked.append((self.command, self.path, given))
                status = server.status.get(path, 200)
                if server.user is not None and given != server.user:
                    status = 401
                body = server.said.get(path, {})
                raw = body if isinstance(body, bytes) else json.dumps(body).encode()
                if status != 200:
                    raw = json.dumps({"error": {"reason": f"no permissions {EVIL}"}, "status": status}).encode()
                self.send_response(status)
                if status == 302:
                    self.send_header("location", "/elsewhere")
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # refused handshakes are meant
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.scheme = "http" if context is None else "https"
        self.port = self._server.server_address[1]
        self.url = f"{self.scheme}://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def read(self, access: Access = PLAIN) -> Sheet:
        return cluster.of_url("127.0.0.1", self.port, access)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    file = tmp_path / "self-signed.pem"
    file.write_text(SELF_SIGNED)
    return file


@pytest.fixture
def secured(pem: Path) -> Iterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    made = Server(context)
    yield made
    made.close()


Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    def call(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["opensearch-chaos", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            module.main()
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int) and "Traceback" not in err
        return ended.value.code, out, err

    return call


def graded(sheet: Sheet) -> dict[str, Status]:
    return {row.rule.id: row.status for row in audit(sheet)}


# ---- reading -------------------------------------------------------------------------------------------


def test_the_facts_of_a_cluster(server: Server) -> None:
    sheet = server.read()
    assert sheet.unread == {} and sheet.version == "3.8.0" and sheet.zones == ("a", "b", "c")
    node = sheet.data[0]
    assert (node.name, node.processors, node.heap, node.cpu) == ("a-data", 2, 389283840, 20)
    assert node.heap_used == 10  # of the old generation
    assert sheet.setting("cluster.publish.timeout", node) == "4s"  # transient before persistent
    assert sheet.setting(sheet.forced, node) == "a,b,c"
    rows = graded(sheet)
    assert rows["awareness.forced"] is rows["zones"] is rows["cpu"] is rows["storage"] is Status.OK
    assert rows["replicas"] is rows["copies.placed"] is rows["managers.size"] is Status.FAIL
    assert rows["detection"] is Status.FAIL  # 32 + 32 s
    assert Status.UNKNOWN not in rows.values()


def test_only_gets_are_ever_sent_and_few_of_them(server: Server, cli: Cli) -> None:
    server.said["/_all/_settings"] = {
        f"i{n}": {"settings": {"index": {"number_of_shards": "1", "number_of_replicas": "2"}}} for n in range(500)
    }
    assert cli("audit", server.url)[0] == 1
    for part in PARTS:  # nor when something is refused
        server.status = {part: 403}
        cli("audit", server.url, "--json")
    assert {method for method, _, _ in server.asked} == {"GET"}
    # without its repositories no repository is asked for its snapshots
    assert len(server.asked) == (len(PARTS) + 1) ** 2 - 1


WRONG = (403, 500, b"<html>", b"", b"null", b"[]", b"7", b'{"nodes": 7}', b'{"nodes": {}}')


@pytest.mark.parametrize(
    ("part", "wrong"),
    # a cluster without repositories is none that says nothing
    [(part, wrong) for part in PARTS for wrong in WRONG if (part, wrong) != ("/_cat/repositories", b"[]")],
)
def test_what_is_refused_or_odd_is_unknown_and_never_an_error(server: Server, part: str, wrong: int | bytes) -> None:
    before = graded(server.read())
    if isinstance(wrong, int):
        server.status[part] = wrong
    else:
        server.said[part] = wrong
    sheet = server.read()
    for rule, status in graded(sheet).items():
        assert status in (before[rule], Status.UNKNOWN), rule
    assert graded(sheet) != before
    if isinstance(wrong, int):
        assert any(f"answered {wrong}: no permissions" in row.value for row in audit(sheet))


def test_a_node_that_does_not_answer_hides_nothing(server: Server) -> None:
    server.said["/_nodes/settings,jvm,os"]["_nodes"]["failed"] = 1
    assert graded(server.read())["zones"] is Status.UNKNOWN
    server.said = answers()
    del server.said["/_nodes/stats/os,jvm,fs,breaker"]["nodes"]["id-b-data"]
    server.said["/_nodes/stats/os,jvm,fs,breaker"]["nodes"]["id-a-cm"]["os"]["cpu"][
        "percent"
    ] = -1  # OpenSearch's "unknown"
    sheet = server.read()
    rows = {row.rule.id: row for row in audit(sheet)}
    assert rows["cpu"].status is rows["storage"].status is rows["heap"].status is Status.UNKNOWN
    assert "b-data" in rows["cpu"].value
    assert next(node.cpu for node in sheet.nodes or () if node.name == "a-cm") is None


def test_a_silent_server_is_unknown_part_by_part() -> None:
    def get(question: Question) -> tuple[int, Any]:
        path = question.path
        if path == "/":
            return 200, answers()["/"]
        raise urllib3.exceptions.ReadTimeoutError(None, path, "Read timed out.")  # type: ignore[arg-type]

    sheet = cluster.read(get, "x")
    assert set(graded(sheet).values()) == {Status.UNKNOWN}
    assert "was not answered" in sheet.why("nodes") and "Read timed out" in sheet.why("nodes")


def test_a_copy_that_moves_is_where_it_was(server: Server) -> None:
    moving = {"index": "chaos", "shard": "0", "prirep": "p", "state": "RELOCATING", "store": "1"}
    gone = {"index": "chaos", "shard": "0", "prirep": "r", "state": "UNASSIGNED", "store": None, "node": None}
    server.said["/_cat/shards"] = [moving | {"node": "a-data -> 10.0.0.1 id-b b-data"}, gone]
    moved, lost = server.read().copies or ()
    assert (moved.node, moved.started) == ("a-data", True) and (lost.node, lost.started) == (None, False)


IN_FILES = {
    # row: (what stands in opensearch.yml, how it is graded, what it says)
    "left.watermarks": (
        {"cluster.routing.allocation.disk.watermark.flood_stage": "99%"},
        Status.WARN,
        "flood_stage: 99% (in opensearch.yml)",
    ),
    "left.excludes": (
        {"cluster.routing.allocation.exclude._name": "b-data"},
        Status.FAIL,
        "b-data (in opensearch.yml); keeps copies off b-data",
    ),
    "left.recovery": (
        {"cluster.routing.allocation.node_concurrent_recoveries": "0"},
        Status.FAIL,
        "node_concurrent_recoveries: 0 (in opensearch.yml)",
    ),
    "protection.tasks": (
        {"cluster_manager.throttling.thresholds.put-mapping.value": "-1"},
        Status.WARN,
        "off: put-mapping",
    ),
    "replication": (
        {"cluster.index.restrict.replication.type": "true"},
        Status.WARN,
        "to which the cluster restricts: bare",
    ),
}


@pytest.mark.parametrize("row", IN_FILES)
@pytest.mark.parametrize("where", ["the nodes", "the defaults"])
def test_what_stands_in_opensearch_yml_is_looked_at(server: Server, where: str, row: str) -> None:
    """The nodes say it; where they do not, the defaults of the node that was asked do."""
    server.said["/_all/_settings"]["bare"]["settings"]["index"]["replication"] = {"type": "SEGMENT"}
    given, status, says = IN_FILES[row]
    nodes = server.said["/_nodes/settings,jvm,os"]["nodes"].values()
    told = [node["settings"] for node in nodes]
    if where == "the defaults":
        told = [server.said["/_cluster/settings"]["defaults"]]
        for node in nodes:
            del node["settings"]
    assert graded(server.read())[row] in (Status.OK, Status.INFO)
    for settings in told:
        settings |= given
    found = {each.rule.id: each for each in audit(server.read())}[row]
    assert found.status is status and says in found.value, found.value
    assert not any("/_cluster/settings" in command for command in found.commands)


# ---- access --------------------------------------------------------------------------------------------


def test_a_user_is_sent_and_no_redirect_is_followed_with_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUDIT_PASSWORD", "sesame")
    access = Access(user="admin", password="env:AUDIT_PASSWORD")
    server.user = access.headers()["authorization"]
    assert graded(server.read(access))["zones"] is Status.OK
    server.status["/_nodes/settings,jvm,os"] = 302
    assert graded(server.read(access))["zones"] is Status.UNKNOWN
    assert not any("elsewhere" in path for _, path, _ in server.asked)


def test_tls_with_its_authority_without_and_unchecked(secured: Server, pem: Path, cli: Cli) -> None:
    assert graded(secured.read(Access(tls=True, ca=str(pem))))["zones"] is Status.OK
    assert cli("audit", secured.url, "--insecure")[0] == 1
    code, _, err = cli("audit", secured.url)
    assert code == 2 and "TLS failed" in err and "--ca" in err and err.count("\n") == 1
    code, _, err = cli("audit", secured.url.replace("https", "http"))
    assert code == 2 and err.count("\n") == 1


@pytest.mark.parametrize(
    "wrong",
    [
        *("ftp://x", "http://", "http://h:99999", "http://h:port", "http://h/path", "http://h?x=1", "http://h:0"),
        *("http://admin:hunter2@h:9200", "http://[::1", "://"),
    ],
)
def test_an_address_that_is_none(wrong: str, cli: Cli) -> None:
    code, out, err = cli("audit", wrong)
    assert code == 2 and err.count("\n") == 1 and out == "" and "hunter2" not in err


def test_an_address_is_host_port_and_access() -> None:
    assert reached("https://search.example")[:2] == ("search.example", 443)
    host, port, access = reached("https://[::1]:9200/", user="u", password="env:P", insecure=True)
    assert (host, port, access) == ("::1", 9200, Access(tls=True, verify=False, user="u", password="env:P"))
    with pytest.raises(InvalidInput, match="use https"):
        reached("http://h:1", ca="ca.pem")
    signed = reached("https://search.example", sigv4="eu-west-1", aws_profile="team")[2]
    assert signed == Access(tls=True, sigv4=SigV4("eu-west-1", profile="team"))
    assert reached("https://x.aoss.amazonaws.com.example")[2].sigv4 is None


# ---- the command ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "an address or a topology"),
        (["3az", "--lab", "x"], "an address or a topology"),
        (["no-such-topology"], "no-such-topology"),
        (["--lab", "no-such-lab"], "no-such-lab"),
        (["3az", "--user", "u", "--password", "env:P"], "of an address only"),
        (["http://127.0.0.1:1"], "cannot be reached"),
        (["http://127.0.0.1:1", "--user", "u"], "belong together"),
        (["http://127.0.0.1:1", "--user", "u", "--password", "hunter2"], "by reference only"),
        (["http://127.0.0.1:1", "--user", "u", "--password", "env:NO_SUCH_THING_HERE"], "NO_SUCH_THING_HERE"),
        (["https://127.0.0.1:1", "--ca", "/no/such.pem"], "/no/such.pem"),
        (["3az", "--sigv4", "eu-central-1"], "of an address only"),
        (["http://127.0.0.1:1", "--sigv4", "not a region"], "no region of AWS"),
        (["http://127.0.0.1:1", "--aws-profile", "p"], "nothing is signed"),
        (["http://127.0.0.1:1", "--sigv4", "eu-west-1", "--user", "u", "--password", "env:P"], "not both"),
        (["http://127.0.0.1:1", "--sigv4", "eu-west-1", "--aws-profile", "no-such-profile"], "no-such-profile"),
        (["https://X.eu-west-1.AOSS.amazonaws.com."], "OpenSearch Serverless"),
        (["https://x.eu-west-1.aoss.amazonaws.com", "--sigv4", "eu-west-1"], "OpenSearch Serverless"),
        (["3az", "--html", "page.txt"], ".html"),
        (["3az", "--html", "/dev/null/page.html"], "cannot write"),
        (["3az", "--workload", "magic"], "--workload"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    arguments: list[str], says: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(tmp_path))
    code, _, err = cli("audit", *arguments)
    assert code == 2 and says in err and err.count("\n") == 1 and "hunter2" not in err


@pytest.mark.parametrize(
    ("status", "said", "says"),
    [
        (401, {}, "refuses this user or password"),
        (403, {}, "answered 403"),
        (503, {}, "answered 503"),
        (200, b"hello", "no OpenSearch"),
        (200, {"version": {"number": "8.1.0"}, "tagline": "You Know, for Search"}, "no OpenSearch"),
        (200, [], "no OpenSearch"),
        (200, {"version": 7}, "no OpenSearch"),
    ],
)
def test_who_does_not_answer_as_opensearch(server: Server, cli: Cli, status: int, said: Any, says: str) -> None:
    server.status["/"], server.said["/"] = status, said
    code, out, err = cli("audit", server.url)
    assert code == 2 and says in err and err.count("\n") == 1 and out == "" and "\x1b" not in err


def test_the_same_rows_as_text_json_and_page(server: Server, cli: Cli, tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    code, out, err = cli("audit", server.url, "--html", page)
    assert code == 1 and err == "" and "FAIL     Every index has replicas: 1 of 2 indices without: bare" in out
    code, out, _ = cli("audit", server.url, "--json")
    found = json.loads(out)
    assert code == found["exit_code"] == 1 and found["outcome"] == "weakness"
    bare = next(row for row in found["rows"] if row["id"] == "replicas")
    assert bare["indices"] == ["bare"] and set(bare) >= {"value", "rule", "source", "remedy", "status"}
    words = Page(page.read_text()).words
    for row in found["rows"]:
        assert row["title"] in words and row["value"] in words and row["source"]["title"] in words
    code, out, _ = cli("audit", server.url, "--workload", "logs", "--zone-attribute", "rack")
    assert code == 1 and "by node.attr.rack" in out and "for logs" in out


def test_the_worst_comes_first(server: Server, cli: Cli) -> None:
    server.status["/_template"] = 403
    code, out, _ = cli("audit", server.url)
    signs = [line[2:9].strip() for line in out.splitlines() if line[:2] == "  " and line[2] != " "]
    order = ["FAIL", "warn", "unknown", "info", "ok"]
    assert code == 1 and signs == sorted(signs, key=order.index) and signs.count("unknown") == 1
    rows = [row["status"] for row in json.loads(cli("audit", server.url, "--json")[1])["rows"]]
    assert rows == sorted(rows, key=["fail", "warn", "unknown", "info", "ok"].index)


def test_exit_3_where_nothing_fails_and_something_is_unknown(server: Server, cli: Cli) -> None:
    for part in PARTS:
        server.status[part] = 403
    code, out, _ = cli("audit", server.url)
    assert code == 3 and f"INCONCLUSIVE  {len(RULES)} rules: {len(RULES)} unknown" in out
    assert out.count("\n") == 3 and all(rule.id in out for rule in RULES)  # in one line


def test_a_topology(cli: Cli) -> None:
    code, out, _ = cli("audit", "3az-tuned", "--json")
    assert code == 1
    assert {row["status"] for row in json.loads(out)["rows"]} == {"ok", "warn", "unknown", "fail"}
    code, out, _ = cli("audit", "--markdown")
    assert code == 0 and out == documentation.markdown()


# ---- pages ---------------------------------------------------------------------------------------------


def hostile(server: Server) -> dict[str, Any]:
    """An audit of a cluster whose every name wants to be markup."""
    text = json.dumps(server.said)
    for name in ("bare", "chaos", "a-data"):
        text = text.replace(json.dumps(name), json.dumps(name + EVIL + "x" * 5000))
    server.said = json.loads(text)
    sheet = server.read()
    return documentation.to_json(sheet, next(iter(documentation.Workload)), audit(sheet))


def test_hostile_names_stay_text(server: Server, tmp_path: Path, cli: Cli) -> None:
    found = hostile(server)
    assert any("<script>" in row["value"] for row in found["rows"])
    page = Page(audit_page(found, tmp_path / "a.html").read_text())
    assert page.open == [] and "<script>" in page.words and page.scripts == []
    assert not {name for name, _ in page.tags} & {"img", "script", "iframe"}
    assert all(not name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert "x" * 1000 not in page.words
    assert all(a["href"].startswith("https://") for tag, a in page.tags if tag == "a")  # type: ignore[union-attr]
    _, out, _ = cli("audit", server.url)
    assert "\x1b" not in out and "<script>" in out


def test_a_page_links_to_no_other_scheme() -> None:
    row = {"status": "fail", "source": {"title": "t", "url": "javascript:alert(1)"}}
    assert [each["url"] for each in rows({"rows": [row, "odd", None]})] == [None]
    assert rows(None) == rows({}) == []


def test_a_run_shows_its_audit_and_a_mailed_one_without_names(server: Server, tmp_path: Path) -> None:
    folder = synthetic.slow_zone().write(tmp_path / "run")
    plain = Page(render(folder).read_text())
    assert "availability checklist" not in plain.words  # as runs from before: nothing is drawn
    server.said = json.loads(json.dumps(server.said).replace('"bare"', '"acme-orders"'))
    server.said["/_template"] = {"acme-old": {"index_patterns": ["x-*"], "settings": {"number_of_replicas": "0"}}}
    server.said["/_plugins/_ism/explain/*"] = {
        "acme-logs": {"policy_id": "p", "retry_info": {"failed": True}, "info": {"cause": "no alias acme-alias"}},
        "total_managed_indices": 1,
    }
    sheet = server.read()
    found = documentation.to_json(sheet, next(iter(documentation.Workload)), audit(sheet))
    (folder / "audit.json").write_text(json.dumps(found))
    assert History.open(folder).audit == found
    page = Page(render(folder).read_text())
    assert "availability checklist" in page.words and "without: acme-orders" in page.words and page.open == []
    assert all(str(a.get("href")).startswith("#") for tag, a in page.tags if tag == "a")
    mailed = render(folder, redact=True).read_text()
    for word in ("acme-old", "acme-alias", "/_template/"):
        assert word in page.words, word
    assert "acme-" not in mailed and "a-data" not in Page(mailed).words
    assert "AWS Big Data Blog" in mailed and "cluster.publish.timeout" in mailed


def test_what_is_unknown_is_one_row_of_a_page() -> None:
    unknown = [{"status": "unknown", "title": f"row {n}", "value": f"why {n % 2}", "source": {}} for n in range(4)]
    found = rows({"rows": [*unknown, {"status": "fail", "title": "bad"}, {"status": "info", "title": "known"}]})
    assert [row["title"] for row in found] == ["bad", "4 rows are unknown", "known"]
    assert found[1]["value"] == "row 0, row 1, row 2, row 3: why 0; why 1"


def test_hostile_names_stay_text_in_a_run(server: Server, tmp_path: Path) -> None:
    folder = synthetic.slow_zone().write(tmp_path / "run")
    (folder / "audit.json").write_text(json.dumps(hostile(server)))
    page = Page(render(folder).read_text())
    assert page.open == [] and "owned" in page.words and "img" not in {name for name, _ in page.tags}
