"""A run with what another package brings: its target, its kind of fault, by its provider, proven, judged and told."""

from __future__ import annotations

import json
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
  read: {{rate: 20/s, good: ok within 1s}}
  write: {{rate: 20/s, good: ok within 1s}}
phases:
  healthy: {{for: 20s}}
  blocked: {{for: 20s, inject: {{example.write_block: {{}}}}}}
  after: {{until: {{green: true, within: 60s}}, undo: example.write_block}}
expect:
  - {{write.good: EXPECTED, phase: blocked}}
  - {{acknowledged.lost: 0}}
"""


@pytest.mark.parametrize(("expected", "outcome"), [('">= 99%"', "weakness"), ('"< 10%"', "pass")])
def test_a_run_with_a_kind_a_provider_and_a_target_of_another_package(
    tmp_path: Path, expected: str, outcome: str
) -> None:
    package = installed(tmp_path / "package")
    file, out = tmp_path / "blocked.yaml", tmp_path / "reports"
    file.write_text(EXPERIMENT.replace("EXPECTED", expected))
    done = command(package, "run", str(file), "--lab", "quiet", "--out", str(out), cwd=ROOT, timeout=600)
    (folder,) = out.glob("*-blocked-*")
    findings = json.loads((folder / "findings.json").read_text())
    assert findings["outcome"] == outcome, (findings["reasons"], done.stdout, done.stderr)
    assert done.returncode == {"pass": 0, "weakness": 1}[outcome] and findings["clean"] is True
    (fault,) = findings["faults"]
    assert fault["proven"] and (fault["provider"], fault["grade"]) == ("example", "path")
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["lab"]["kind"] == "quiet" and plan["lab"]["shares_processors"] is True
    assert "carried out by example" in (folder / "report.html").read_text()
    assert "block writes to the load" in (folder / "report.html").read_text()
    done = command(package, "report", str(folder), "--redact", cwd=ROOT)
    assert (folder / "redacted" / "report.html").is_file() and str(tmp_path) not in (
        folder / "redacted" / "report.html"
    ).read_text()
