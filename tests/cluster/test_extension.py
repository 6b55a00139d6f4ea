"""A run with what another package brings: its target, its kind of fault, by its provider, proven, judged and told."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import pytest
from extending import command, installed
from fakes import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.full]

EXPERIMENT = f"""\
apiVersion: opensearch-chaos/v1
name: blocked
topology: {ROOT / "topologies" / "3az.yaml"}
load:
  find: {{rate: 20/s, good: ok within 1s}}
  note: {{rate: 20/s, good: ok within 1s}}
  cas: {{rate: 4/s, keys: 3}}
  visibility: {{rate: 1/s}}
  workload: notes
phases:
  healthy: {{for: 20s}}
  blocked: {{for: 20s, inject: {{example.write_block: {{}}, KILL}}}}
  after: {{until: {{green: true, within: 60s}}, undo: all}}
expect:
  - {{find.good: ">= 99%", phase: healthy}}
  - {{note.good: EXPECTED, phase: blocked}}
  - {{example.nodes_left: 0, phase: blocked}}
  - {{acknowledged.lost: 0}}
  - {{cas.violations: 0}}
  - {{documents.unexpected: 0}}
"""


KILL = "node.kill: {target: node c-data}"


@pytest.mark.parametrize(
    ("expected", "kill", "broken"),
    [('"< 10%"', "", set()), ('">= 99%"', "", {"note.good"}), ('"< 10%"', KILL, {"example.nodes_left"})],
)
def test_a_run_with_a_kind_a_provider_a_check_and_a_target_of_another_package(
    tmp_path: Path, expected: str, kill: str, broken: set[str]
) -> None:
    package = installed(tmp_path / "package")
    file, out = tmp_path / "blocked.yaml", tmp_path / "reports"
    file.write_text(EXPERIMENT.replace("EXPECTED", expected).replace(", KILL", f", {kill}" if kill else ""))
    done = command(package, "run", str(file), "--lab", "quiet", "--out", str(out), cwd=ROOT, timeout=600)
    (folder,) = out.glob("*-blocked-*")
    findings = json.loads((folder / "findings.json").read_text())
    failed = {each["metric"] for each in findings["findings"] if each["counts_as"] == "weakness"}
    assert failed == broken, (findings["reasons"], done.stdout, done.stderr)
    assert findings["outcome"] == ("weakness" if broken else "pass") and findings["clean"] is True
    assert done.returncode == (1 if broken else 0)
    fault = findings["faults"][0]
    assert fault["proven"] and (fault["provider"], fault["grade"]) == ("example", "path")
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["lab"]["kind"] == "quiet" and plan["lab"]["shares_processors"] is True
    assert "carried out by example" in (folder / "report.html").read_text()
    assert "block writes to the load" in (folder / "report.html").read_text()
    if kill:
        assert 'id="nodes-left"' in (folder / "report.html").read_text()
        assert "1 nodes left the cluster in “blocked”; wanted was 0" in findings["headline"]
    done = command(package, "report", str(folder), "--redact", cwd=ROOT)
    assert (folder / "redacted" / "report.html").is_file() and str(tmp_path) not in (
        folder / "redacted" / "report.html"
    ).read_text()


def test_a_lab_of_another_package_stays_and_is_reached_on_its_port(tmp_path: Path) -> None:
    """Its gateway is a process of its own, which finds the lab by the kind that is written down in it."""
    package = installed(tmp_path / "package")
    topology = ROOT / "tests" / "cluster" / "data" / "tiny.yaml"
    done = command(package, "lab", "up", str(topology), "--lab", "quiet", "--name", "quiet-one", cwd=ROOT, timeout=300)
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        said = command(package, "lab", "status", cwd=ROOT).stdout
        assert "quiet-one" in said, said
        port = int(re.findall(r"127\.0\.0\.1:(\d+)", done.stdout + said)[0])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/_cluster/health", timeout=10) as answer:
            assert json.load(answer)["status"] == "green"
    finally:
        down = command(package, "lab", "down", "quiet-one", cwd=ROOT)
    assert down.returncode == 0, down.stdout + down.stderr
    assert "quiet-one" not in command(package, "lab", "status", cwd=ROOT).stdout
