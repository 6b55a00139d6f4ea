"""Saved answers of real clusters (``answers/``: labs of ours, OpenSearch 3.8.0 and 3.4.0), and the script."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from leftovers import ROWS

from chaos import cli as module
from chaos.base.access import PLAIN
from chaos.base.errors import InvalidInput
from chaos.programs.audit import Row, Status, audit, cluster, saved, script
from chaos.programs.audit.questions import QUESTIONS, snapshots_in

ANSWERS = Path(__file__).parent / "answers"
CHRONIC = {
    # what every lab has: small machines, stock settings, nodes that share their processors
    *("managers.size", "shards.size", "cpu", "detection", "detection.stalled"),
    *("protection.search", "protection.admission", "protection.indexing", "protection.cancellation"),
}


def rows(folder: Path) -> dict[str, Row]:
    return {row.rule.id: row for row in audit(saved.read(folder))}


def test_a_clean_cluster_has_no_row_of_what_is_left_above_info() -> None:
    found = rows(ANSWERS / "clean")
    above = {id for id, row in found.items() if row.status not in (Status.OK, Status.INFO)}
    assert above <= CHRONIC, {id: found[id].value for id in above - CHRONIC}
    infos = {id for id, row in found.items() if row.status is Status.INFO}
    assert infos == {"routing", "snapshots", "snapshots.policies", "indices.managed", "certificates"}
    assert "weight 0: zone c" in found["routing"].value  # a zone that stands by


@pytest.mark.parametrize("rule", ROWS)
def test_what_was_planted_is_found_in_the_answers_of_a_real_cluster(rule: str) -> None:
    status, says = ROWS[rule]
    row = rows(ANSWERS / "planted")[rule]
    assert row.status == status and says in row.value, row.value


def test_defaults_that_are_opensearch_s_are_nothing_that_was_left() -> None:
    """Of nodes that do not tell their settings, as a managed service's do not, the defaults are all there is."""
    for folder in ("clean", "secure"):  # 3.8.0 and 3.4.0
        sheet = saved.read(ANSWERS / folder)
        bare = replace(sheet, nodes=tuple(replace(node, settings={}) for node in sheet.nodes or ()))
        found = {row.rule.id: row for row in audit(bare)}
        for rule in ("left.watermarks", "left.excludes", "left.recovery", "protection.tasks", "replication"):
            assert found[rule].status is Status.OK, (rule, found[rule].value)


def test_the_vote_that_was_taken_is_seen_where_all_managers_are_here() -> None:
    """A manager in each zone, all of them up: by nodes alone that was told as a majority that survives."""
    sheet = saved.read(ANSWERS / "planted")
    assert {node.zone for node in sheet.managers} == {"a", "b", "c"}
    assert sheet.state is not None and len(sheet.state.voters) == 1


def test_a_zone_that_is_decommissioned_is_seen() -> None:
    row = rows(ANSWERS / "decommissioned")["routing"]
    assert row.status is Status.WARN and "zone c is decommissioned (successful)" in row.value
    assert any("/_cluster/decommission/awareness" in command for command in row.commands)


def test_a_clean_cluster_with_security_has_but_its_certificates_unknown() -> None:
    above = {
        id: row.status for id, row in rows(ANSWERS / "secure").items() if row.status not in (Status.OK, Status.INFO)
    }
    assert above.keys() - CHRONIC == {"certificates"} and above["certificates"] is Status.UNKNOWN


def test_certificates_are_unknown_to_who_may_not_ask_and_never_ok() -> None:
    row = rows(ANSWERS / "secure")["certificates"]
    assert row.status is Status.UNKNOWN and "403: No permission to access REST API" in row.value


def test_who_asks_most_is_told_from_the_counts_of_a_real_cluster() -> None:
    """They are of a lab in the middle of a run, which the other answers are not of."""
    row = rows(ANSWERS / "clean")["managers.asked"]
    assert row.status is Status.OK and "nodes_stats 4/s" in row.value and "counted over 0.16 h" in row.value, row.value


def test_an_answer_that_was_not_saved_is_unknown_by_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "answers"
    shutil.copytree(ANSWERS / "clean", folder)
    (folder / "state.json").unlink()
    (folder / "settings.status").write_text("000\n")
    (folder / "indices.json").write_text("<html>no</html>")
    (folder / "copies.status").write_text("soon\n")
    found = rows(folder)
    assert "state.json was not saved" in found["managers.votes"].value
    assert "no answer came when it was saved" in found["left.allocation"].value
    assert "indices.json is no JSON" in found["durability"].value
    assert "copies.status holds no HTTP status" in found["copies.started"].value
    for id in ("managers.votes", "left.allocation", "durability", "copies.started", "managers.zones"):
        assert found[id].status is Status.UNKNOWN


def test_without_a_status_the_body_says_it(tmp_path: Path) -> None:
    folder = tmp_path / "answers"
    shutil.copytree(ANSWERS / "clean", folder)
    for file in folder.glob("*.status"):
        file.unlink()
    (folder / "state.json").write_text('{"error": {"reason": "no permissions"}, "status": 403}')
    found = rows(folder)
    assert "answered 403: no permissions" in found["managers.votes"].value
    assert found["unassigned"].status is Status.UNKNOWN and found["left.allocation"].status is Status.OK


@pytest.mark.parametrize("make", [False, True])
def test_a_folder_that_is_none(make: bool, tmp_path: Path) -> None:
    if make:
        (tmp_path / "answers").mkdir()
    with pytest.raises(InvalidInput, match="--print-script"):
        saved.read(tmp_path / "answers")


# ---- the script ----------------------------------------------------------------------------------------


class Served:
    """A clean cluster's answers over HTTP, with one repository, and what was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        by_path = {question.path: question.name for question in QUESTIONS}
        listed = {"/_cat/repositories?format=json&h=id,type": '[{"id":"backup","type":"fs"},{"id":"b.2","type":"s3"}]'}
        listed |= {snapshots_in(name).path: '{"snapshots":[]}' for name in ("backup", "b.2")}
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                served.asked.append((self.command, self.path))
                name = by_path.get(self.path)
                status, body = 200, listed.get(self.path)
                if body is None:
                    assert name is not None, self.path
                    body = (ANSWERS / "clean" / f"{name}.json").read_text()
                    status = int((ANSWERS / "clean" / f"{name}.status").read_text())
                raw = body.encode()
                self.send_response(status)
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def served():
    made = Served()
    yield made
    made.close()


@pytest.mark.skipif(shutil.which("curl") is None, reason="the script needs curl")
def test_the_script_asks_what_the_audit_asks_and_gives_the_same_rows(served: Served, tmp_path: Path) -> None:
    live = {row.rule.id: (row.status, row.value) for row in audit(cluster.of_url("127.0.0.1", served.port, PLAIN))}
    by_tool, served.asked = served.asked, []
    file = tmp_path / "collect.sh"
    file.write_text(script.text())
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    done = subprocess.run(
        ["sh", file, f"http://127.0.0.1:{served.port}/", tmp_path / "answers"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(served.asked) == sorted(by_tool) and {method for method, _ in by_tool} == {"GET"}
    assert {id: (row.status, row.value) for id, row in rows(tmp_path / "answers").items()} == live
    assert live["snapshots"][0] is Status.WARN and "backup holds no snapshot" in live["snapshots"][1]


@pytest.mark.skipif(shutil.which("curl") is None, reason="the script needs curl")
def test_the_script_says_where_nobody_answers(tmp_path: Path) -> None:
    file = tmp_path / "collect.sh"
    file.write_text(script.text())
    done = subprocess.run(
        ["sh", file, "http://127.0.0.1:1", tmp_path / "answers"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "version: not answered" in done.stderr
    with pytest.raises(InvalidInput, match="cannot be reached"):
        saved.read(tmp_path / "answers")
    assert subprocess.run(["sh", file], capture_output=True, check=False, timeout=60).returncode != 0


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def call(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["opensearch-chaos", "audit", *arguments])
        with pytest.raises(SystemExit) as ended:
            module.main()
        return int(str(ended.value.code)), capsys.readouterr().out

    code, out = call("--print-script")
    assert code == 0 and out == script.text()
    code, out = call("--from", str(ANSWERS / "planted"), "--json")
    assert code == 1 and json.loads(out)["outcome"] == "weakness"
    assert call("--from", str(ANSWERS / "planted"), "3az")[0] == 2
    assert call("--print-script", "--json")[0] == 2
