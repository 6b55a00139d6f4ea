"""What a game day on the staging box is refused for, by its own command lines: a consent that the runner wrote, files
that changed since they were approved, and a Prometheus of another time. Nothing is changed on the cluster."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from box import plan
from box.office import give
from boxkit import Boxed
from cluster.test_gameday import Team, one_experiment

from chaos.opensearch.rest import NodeClient
from chaos.opensearch.views import administer
from chaos.targets import security
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

pytestmark = [pytest.mark.full, pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen is here")]
BY_HAND = {"gamedays": ["staging"], "until": "2099-01-01", "by": "team-platform"}
LIAR = """
import http.server, json, pathlib, time, urllib.parse
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        off = float(pathlib.Path("off").read_text())
        value = "0.01" if asked["query"] == ["errors"] else "1"
        said = {"resultType": "scalar", "result": [time.time() + off, value]}
        body = json.dumps({"status": "success", "data": said}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 9090), Handler)
pathlib.Path("listens").touch()
server.serve_forever()
"""
"""A Prometheus that answers at once, with the evaluation time of its choice: it moves, as a real one's does."""
ERRORS = {"url": "http://127.0.0.1:9090", "query": "errors", "fresh": "age"}


@pytest.fixture
def team(boxed: Boxed) -> Iterator[Team]:
    made = Team(boxed)
    made.furnish()
    yield made
    made.end()
    with boxed.owned() as lab:
        administer(lab, "DELETE", "/.opensearch-chaos")


def refused(team: Team) -> str:
    code, output = team.chaos("run", team.file)
    assert code == 2, output
    assert not any(line["kind"] in ("experiment.begin", "drill") for line in team.lines())
    return " ".join(output.split())


def test_a_second_party_an_exact_approval_and_guards_of_now(boxed: Boxed, before: object, team: Team) -> None:
    team.serve()
    guard = {"counts": "outcome", "prometheus": ERRORS, "above": "5%"}
    one_experiment(team, "node-dead", guards={"users": guard}, alerts=None)

    # the PUT that the docs once had, by the runner's own user
    with boxed.owned() as lab:
        assert administer(lab, "PUT", "/.opensearch-chaos/_doc/gameday-consent", BY_HAND)[0] == 201
        assert ".opensearch-chaos was made by hand: it is not hidden and it has 1 replicas" in refused(team)
        mended = {"index": {"hidden": True, "number_of_replicas": 2}}
        assert administer(lab, "PUT", "/.opensearch-chaos/_settings", mended)[0] == 200
    assert "the consent is not its operators': it is not signed" in refused(team)
    asked = ("--key", "ops.key", "--until", "2099-01-01", "--by", "team-platform", "--yes")
    code, output = team.chaos("consent", team.file, *asked)
    assert code == 0, output

    # approved, then other files
    target, freezes = team.home / boxed.target, team.folder / "freezes.yaml"
    give(team.home / "off", "0", team.office)
    team.run("python", "-c", LIAR)
    assert wait_until((team.home / "listens").exists, 60, every=0.2)
    was, calendar = target.read_text(), freezes.read_text()
    give(target, f"{was}\nprefix: shop-\n", team.office)
    assert "the target's prefix is shop- and was oschaos-" in refused(team)
    give(target, was, team.office)
    give(freezes, "freezes: [{from: 2099-12-18, to: 2099-12-19, why: shorter}]\n", team.office)
    assert "the file of gameday.freezes.0.yaml: freezes.yaml has another content" in refused(team)
    give(freezes, calendar, team.office)

    # a guard of another time
    for off, when in ((-3600, " s ago"), (86400, " s from now")):
        give(team.home / "off", str(off), team.office)
        said = refused(team)
        assert "guard users: it was evaluated" in said and when in said


OWN = ".opensearch-chaos-consent"
READS = ["indices:data/read/get"]
WRITES = [*READS, "indices:data/write/index", "indices:data/write/bulk*"]


@contextmanager
def allowed(lab: LocalLab) -> Iterator[Callable[[list[str]], None]]:
    """Gives the runner's user actions on the operators' index, beside the role that ``rights`` prints."""
    admin = security.transport(lab.folder, security.USER)
    client = NodeClient(lab.administration(lab.topology.nodes[0].name), access=admin, timeout=20.0)

    def asks(method: str, what: str, body: Any = None) -> None:
        status, answer = client.request(method, f"/_plugins/_security/api/{what}/consents", body=body)
        assert status in (200, 201), answer

    def allow(actions: list[str]) -> None:
        asks("PUT", "roles", {"index_permissions": [{"index_patterns": [OWN], "allowed_actions": actions}]})
        asks("PUT", "rolesmapping", {"users": [plan.CHAOS]})

    try:
        yield allow
    finally:
        asks("DELETE", "rolesmapping")
        asks("DELETE", "roles")
        client.close()


def test_an_index_that_only_the_operators_may_write_is_a_consent(boxed: Boxed, before: object, team: Team) -> None:
    """By real roles of OpenSearch's security."""
    one_experiment(team, "node-dead", consent={"index": OWN})
    settings = {"settings": {"index": {"hidden": True, "number_of_shards": 1, "number_of_replicas": 2}}}

    def gate() -> dict[str, Any]:
        team.chaos("run", team.file)
        said = [line for line in team.lines() if line["kind"] == "gate" and line["name"] == "consent"]
        return said[-1] if said else {"ok": None, "says": ""}

    give(team.home / "run" / "suffer", "so that the day ends at its guard", team.office)
    with boxed.owned() as lab, allowed(lab) as allow:
        assert administer(lab, "PUT", f"/{OWN}", settings)[0] == 200
        try:
            assert administer(lab, "PUT", f"/{OWN}/_doc/gameday-consent", BY_HAND)[0] == 201
            refusal = gate()
            assert refusal["ok"] is False and "indices:data/read/get" in refusal["remedy"], refusal
            allow(READS)
            assert wait_until(lambda: gate()["ok"], 60, every=1.0), team.lines()
            assert gate()["says"].endswith(f"in {OWN}, which the user that runs this may not write")
            allow(WRITES)
            assert wait_until(lambda: gate()["ok"] is False, 60, every=1.0), team.lines()
            assert gate()["says"] == f"the user that runs this may write {OWN}: whose consent is there nobody knows"
            status, kept = administer(lab, "GET", f"/{OWN}/_doc/gameday-consent")
            assert status == 200 and kept["_source"] == BY_HAND and kept["_version"] == 1, (
                "the question changed nothing"
            )
        finally:
            administer(lab, "DELETE", f"/{OWN}")
    assert not any(line["kind"] in ("experiment.begin", "drill") for line in team.lines())
