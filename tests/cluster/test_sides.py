"""An experiment with sides on a real lab: its runs alternate in one lab, and what a side changes is in effect."""

from __future__ import annotations

import json
import signal

import pytest
from clusterkit import DATA, Cli, cli, nothing_left

from chaos.base.waiting import wait_until

SIDES = DATA / "sides.yaml"


@pytest.mark.full
def test_sides_run_in_one_lab_and_what_they_change_is_in_effect(out, spotless):
    code, output = cli("run", SIDES, "--out", out)
    assert code == 3, output  # one run of a side decides nothing
    (folder,) = out.iterdir()
    plans = {name: json.loads(next((folder / name).glob("*/plan.json")).read_text()) for name in ("soon", "late")}
    assert {name: plan["side"]["name"] for name, plan in plans.items()} == {"soon": "soon", "late": "late"}
    assert plans["soon"]["lab"]["id"] == plans["late"]["lab"]["id"] and "new lab" not in output
    assert plans["late"]["topology"]["settings"]["index"]["refresh_interval"] == "6s"
    found = json.loads((folder / "compare.json").read_text())
    rows = {row["metric"]: row for row in found["comparisons"]["late"]["metrics"]}
    for name in ("processor", "network", "disk", "goodput"):
        assert rows[f"costs.{name}"]["a"] and rows[f"costs.{name}"]["b"], name
    low, _ = rows["visible.p99"]["shift"]
    assert low > 2, "documents are found seconds later, so the other interval was in effect"
    assert (folder / "compare.html").is_file() and (folder / "compare.md").is_file()
    assert nothing_left() == []


@pytest.mark.full
def test_a_signal_ends_the_sides_and_they_go_on(out, spotless):
    running = Cli("run", SIDES, "--out", out)

    def first_phase() -> bool:
        return any('"phase.start"' in file.read_text() for file in out.glob("*/*/*/history/events.jsonl"))

    assert wait_until(first_phase, 150)
    running.signal(signal.SIGINT)
    code, output = running.end(180)
    assert code == 4 and "go on with" in output, output
    (folder,) = out.iterdir()
    assert nothing_left() == []
    code, output = cli("run", SIDES, "--resume", folder)
    assert code == 3, output
    data = json.loads((folder / "sides.json").read_text())
    assert len(data["runs"]) == 2 and [each["why"] for each in data["cut_off"]] == ["a signal had ended it"]
