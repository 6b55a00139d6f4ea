"""Checks of a team's own on a real cluster: commands by their exit codes, and what befell indices that are not the
load's, which no request of the load could have met."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from clusterkit import DATA, ROOT, cli, events, findings, nothing_left, run_folder

from chaos.observe.proof import problems
from chaos.targets.labs.local import LocalLab

pytestmark = [pytest.mark.cluster, pytest.mark.full]

FILE = """apiVersion: opensearch-chaos/v1
name: own-checks
topology: {topology}
load:
  read:  {{rate: 20/s, good: ok within 4s}}
  write: {{rate: 20/s, good: ok within 4s}}
  documents: 100
phases:
  healthy:   {{for: 15s}}
  meanwhile: {{during: {{command: {meanwhile}, within: 2m}}}}
  over:      {{for: 12s}}
expect:
  - {{phase: [healthy, meanwhile, over], cluster.red: "<= 2s"}}
  - {{phase: [healthy, meanwhile, over], index.blocked: "<= 2s"}}
  - {{phase: over, cluster.yellow: "<= 2s"}}
  - {{command: {nothing_closed}, within: 60s}}
  - {{command: [sh, -c, "echo three orders have no invoice; exit 1"]}}
  - {{command: [sh, -c, exit 3]}}
  - {{acknowledged.lost: 0}}
guards: {{max: 15m}}
"""


def test_a_red_and_a_blocked_index_that_are_not_the_load_s_and_commands_by_their_exit_codes(
    tiny: LocalLab, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "own-checks.yaml"
    python = [sys.executable]
    file.write_text(
        FILE.format(
            topology=DATA / "tiny.yaml",
            meanwhile=json.dumps([*python, str(DATA / "meanwhile.py")]),
            nothing_closed=json.dumps([*python, "-m", "oschaos_example.nothing_closed"]),
        )
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "tests" / "extension"), str(ROOT)]))
    code, output = cli("run", file, "--on", tiny.id, "--out", out, timeout=400)
    found = findings(out)
    by_title: dict[str, dict[str, Any]] = {each["title"]: each for each in found["findings"]}

    def of(title: str) -> dict[str, Any]:
        return next(each for name, each in by_title.items() if title in name)

    assert found["outcome"] == "weakness" and code == 1, (output, found["reasons"])
    red, blocked = of("cluster.red <= 2s in meanwhile"), of("index.blocked <= 2s in meanwhile")
    assert red["verdict"] == blocked["verdict"] == "fail", (red, blocked)
    assert red["measured"] >= 6 and "homeless" in red["says"], red
    assert blocked["measured"] >= 4 and "kept" in blocked["says"] and "index write (api)" in blocked["says"], blocked
    for phase in ("healthy", "over"):
        # what was seen holds until the next look, which may be in the next phase
        assert of(f"cluster.red <= 2s in {phase}")["measured"] <= 1.5, by_title
        assert of(f"index.blocked <= 2s in {phase}")["measured"] <= 1.5, by_title
    assert of("nothing_closed")["verdict"] == "pass", by_title
    said_no = of("exit 1")
    assert said_no["verdict"] == "fail" and "three orders have no invoice" in said_no["says"], said_no
    assert of("exit 3")["verdict"] == "inconclusive", by_title
    assert of("acknowledged.lost")["verdict"] == "pass", by_title
    assert [each["exit_code"] for each in events(out) if each["kind"] == "expect.command"] == [0, 1, 3]
    folder = run_folder(out)
    assert folder is not None
    assert "three orders" in (folder / "logs" / "expect-2.log").read_text()
    page = (folder / "report.html").read_text()
    assert "Indices that were red" in page and "homeless" in page
    assert found["clean"] is True and problems(tiny) == [] and nothing_left() == []
