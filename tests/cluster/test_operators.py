"""Operators' steps on a real cluster: an index of the experiment's own, reroute, and a node that is back when it is
ready. Nothing of it is left."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusterkit import DATA, assert_proven, cli, events, findings, nothing_left

from chaos.observe.proof import problems
from chaos.opensearch.administration import known_by
from chaos.targets.labs.local import LocalLab

pytestmark = [pytest.mark.cluster, pytest.mark.full]

FILE = """apiVersion: opensearch-chaos/v1
name: operators
topology: {topology}
load:
  read:  {{rate: 20/s, good: ok within 4s}}
  write: {{rate: 20/s, good: ok within 4s}}
  documents: 100
phases:
  healthy: {{for: 5s}}
  made:    {{for: 5s, do: {{index_create: {{index: archive, settings: {{number_of_replicas: 1}}}}}}}}
  closed:  {{for: 5s, do: {{index_close: {{index: archive}}}}}}
  opened:  {{for: 8s, do: {{index_open: {{index: archive}}, reroute: {{}}, retry_failed: {{}}}}}}
  restarted:
    inject: {{node.restart: {{target: node c-all, rolling: false, start: in_order, wait: ready}}}}
    until: {{green: true, stable: 2s, within: 120s}}
  over:    {{undo: all, for: 3s, do: {{index_create: {{index: left}}}}}}
expect:
  - {{phase: closed, index.blocked: "<= 1s"}}
  - {{phase: restarted, cluster.red: "<= 1s"}}
  - {{acknowledged.lost: 0}}
guards: {{max: 15m}}
"""


def test_an_index_is_made_closed_opened_and_goes_with_the_run_and_a_restart_waits_for_readiness_alone(
    tiny: LocalLab, tmp_path: Path, out: Path
) -> None:
    file = tmp_path / "operators.yaml"
    file.write_text(FILE.format(topology=DATA / "tiny.yaml"))
    _, output = cli("run", file, "--on", tiny.id, "--out", out, timeout=400)
    found = findings(out)
    done = [each for each in events(out) if each["kind"] == "action.done"]
    assert len(done) == 6 and all(each["ok"] for each in done), (done, output)
    assert_proven(found)
    by = {each["title"]: each for each in found["findings"]}
    closed = by["index.blocked <= 1s in closed"]
    assert closed["verdict"] == "fail" and "archive" in closed["says"], closed
    assert by["acknowledged.lost = 0"]["verdict"] == "pass", by
    assert known_by(tiny, "archive") is None and known_by(tiny, "left") is None
    assert found["clean"] is True and problems(tiny) == [] and nothing_left() == []
