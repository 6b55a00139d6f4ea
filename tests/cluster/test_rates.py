"""A rate that changes on a real cluster: two processes share it, and what was due is what its integral demands."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusterkit import cli, events, findings, run_folder

from chaos.base.rates import Profile, ramp
from chaos.history import History
from chaos.targets.labs.local import LocalLab

EXPERIMENT = """\
apiVersion: opensearch-chaos/v1
name: surge
topology: tiny
load:
  processes: 2
  read: {rate: {from: 10/s, to: 40/s, over: 15s}, good: ok within 5s}
  write: {rate: {steps: [{at: 0s, rate: 10/s}, {at: 10s, rate: 20/s}]}, good: ok within 5s}
  streams:
    replay: {operation: get, rate: {times: arrivals.txt, before: 10/s}, good: ok within 5s}
phases:
  healthy: {for: 10s}
  surge: {for: 15s}
expect:
  - {acknowledged.lost: 0}
guards: {max: 3m}
"""


@pytest.mark.full
def test_what_was_due_is_what_the_rates_demand_from_the_first_phase_on(tiny: LocalLab, out: Path) -> None:
    file = out.parent / "surge.yaml"
    file.write_text(EXPERIMENT.replace("topology: tiny", f"topology: {Path(__file__).parent / 'data' / 'tiny.yaml'}"))
    listed = [second + part / 20 for second in range(25) for part in range(20 if second % 4 == 1 else 5)]
    (out.parent / "arrivals.txt").write_text("\n".join(f"{at:.3f}" for at in sorted(listed)))
    code, output = cli("run", file, "--out", out, "--on", tiny.id)
    folder = run_folder(out)
    assert folder is not None and code in (0, 3), output
    found = {each["id"]: each for each in findings(out)["validity"]["checks"]}
    for op in ("read", "write", "replay"):
        assert found[f"offered.{op}"]["ok"] and found[f"schedule.{op}"]["ok"], found
    (began,) = [each["t"] for each in events(out) if each["kind"] == "rates.begin"]
    (first, _) = [each["t"] for each in events(out) if each["kind"] == "phase.start"]
    assert 0 <= first - began < 1e9
    history = History.open(folder)
    told = [each for each in history.driver if each["kind"] == "rates.begin"]
    assert [(each["at"], each["late_ns"]) for each in told] == [(began, 0)] * 2
    arrivals = history.arrivals
    for op, pieces in (("read", ramp(10, 40, 15)), ("write", ((0.0, 10.0, 10.0), (10.0, 20.0, 20.0)))):
        seconds = (arrivals[arrivals.op == op].intended - began) / 1e9
        for at in range(-4, 24):
            due = int(((seconds >= at) & (seconds < at + 1)).sum())
            assert abs(due - Profile(pieces).expected(at, at + 1)) <= 1, (op, at)
    since = arrivals[arrivals.op == "replay"].intended - began
    assert sorted(since[(since >= 0) & (since < 24e9)]) == [round(at * 1e9) for at in sorted(listed) if at < 24]
