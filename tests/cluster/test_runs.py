"""Whole runs through the command line: verdicts that can be trusted, and nothing left behind whatever dies."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from clusterkit import (
    DATA,
    Cli,
    await_event,
    cli,
    events,
    findings,
    impostors,
    in_effect,
    nothing_left,
    run_folder,
    short,
)

from chaos.faults.ledger import registrations, standing
from chaos.load.workloads.documents import WORKLOAD
from chaos.observe.proof import problems
from chaos.observe.readback import shard_of
from chaos.opensearch.requests import document_path, requiring_alias, write_alias
from chaos.opensearch.views import administer, await_green
from chaos.targets.labs import network

LOSS, FEW = DATA / "loss.yaml", DATA / "few.yaml"
HELD_SECONDS = 20
"""For a fault that holds until the test ends its run; ``short`` has objectives that need no long warm-up."""


@pytest.mark.full
def test_a_planted_weakness_is_a_weakness_with_exactly_the_lost_ids_named(out, spotless):
    code, output = cli("run", LOSS, "--out", out)
    assert code == 1, output
    folder = run_folder(out)
    found = findings(out)
    assert found["outcome"] == "weakness" and found["clean"] is True
    (lost,) = [f for f in found["findings"] if f["metric"] == "acknowledged.lost"]
    assert lost["counts_as"] == "weakness" and lost["measured"] > 0

    readback = json.loads((folder / "history" / "readback.json").read_text())
    (destroyed,) = readback["destroyed_shards"]  # three shards, one copy each, one node lost
    assert readback["complete"] and readback["diverged_count"] == readback["wrong_content_count"] == 0
    from chaos.history import History

    arrivals = History.open(folder).arrivals
    acknowledged = arrivals[(arrivals["op"] == "write") & arrivals["outcome"].isin(["ok", "partial"])]
    ids = {f"w-{k}" for k in acknowledged["k"]} | {f"p-{n}" for n in range(300)}
    expected = {id for id in ids if shard_of(id, 3, 768) == destroyed}
    assert readback["lost_count"] == len(expected) == lost["measured"]
    assert set(readback["lost"]) == set(sorted(expected)[:1000])
    report = (folder / "report.html").read_text()
    assert sorted(expected)[0] in report


def test_a_sabotaged_injection_is_inconclusive(tiny, out):
    """Toxiproxies that answer 200 and do nothing: only the data path can tell."""
    with impostors(tiny, tiny.wiring.hosts):
        judged = [{"phase": "slow", "read.good": ">= 90%"}]  # it holds: nothing is slow
        code, output = cli("run", short(out, 8, expect=judged), "--out", out, "--on", tiny.id)
        assert code == 3, output
        found = findings(out)
        assert found["outcome"] == "inconclusive"
        assert not any(f["counts_as"] == "pass" and f["phase"] == "slow" for f in found["findings"])
        looks = {e["stage"]: e for e in events(out) if e["kind"] == "fault.evidence"}
        assert looks["effect"]["proven"] is False
    assert problems(tiny) == []


@pytest.mark.full
def test_what_is_inconclusive_is_run_once_more_and_the_second_run_names_the_first(tiny, out):
    given = ("--objective", "read=500ms", "--retry-inconclusive", "10m")
    code, output = cli("run", FEW, "--out", out, "--on", tiny.id, *given)
    assert code == 3 and output.count("repeated once (--retry-inconclusive, 10 min of 10 min left)") == 1, output
    plans = {folder: json.loads((folder / "plan.json").read_text()) for folder in sorted(out.iterdir())}
    first, second = sorted(plans, key=lambda folder: "second_of" in plans[folder])
    assert "second_of" not in plans[first] and plans[second]["second_of"]["run"] == first.name
    for same in ("hash", "seed", "command", "experiment"):
        assert plans[first][same] == plans[second][same]
    assert plans[first]["command"].endswith("--objective read=500ms")
    assert plans[first]["experiment"]["good_in_file"] == {"read": 1.0}
    for folder in plans:
        found = json.loads((folder / "findings.json").read_text())
        assert found["outcome"] == "inconclusive" and found["clean"] is True
        assert found["tables"]["within"]["limits"] == [0.05, 0.1, 0.25, 0.5, 1.0]
        assert f"the first, {first.name}," in (folder / "report.html").read_text() or folder == first
    assert problems(tiny) == []


def test_kill_9_in_mid_fault_on_a_lab_that_is_to_live_on(tiny, out):
    file = short(out, HELD_SECONDS)
    running = Cli("run", file, "--out", out, "--on", tiny.id)
    await_event(running, out, in_effect)
    running.signal(signal.SIGKILL)
    running.end()
    assert standing(run_folder(out) / "ledger.jsonl")
    assert problems(tiny) != []

    code, output = cli("run", file, "--out", out, "--on", tiny.id)
    assert code == 2 and "opensearch-chaos recover" in output and "Traceback" not in output
    code, output = cli("recover")
    assert code == 0 and "undone" in output, output
    assert standing(run_folder(out) / "ledger.jsonl") == []
    assert nothing_left() == []
    assert await_green(tiny, 120)[0]
    assert problems(tiny) == []
    code, output = cli("recover")
    assert code == 0 and "nothing is left behind" in output


@pytest.mark.full
def test_kill_9_of_a_run_with_its_own_lab_at_each_stage(out, spotless):
    stages = {
        "while the lab starts": lambda e: e["kind"] == "run.start",
        "while the load is on": lambda e: e["kind"] == "load.start",
        "in mid-fault": in_effect,
    }
    for stage, matches in stages.items():
        shutil.rmtree(out, ignore_errors=True)
        running = Cli("run", short(out, HELD_SECONDS), "--out", out)
        await_event(running, out, matches)
        running.signal(signal.SIGKILL)
        running.end()
        assert nothing_left() != [], stage
        first, second = Cli("recover"), Cli("recover")  # at once: one of them may find nothing more to do
        assert [first.end()[0], second.end()[0]] == [0, 0], stage
        assert nothing_left() == [], stage
        assert not network.namespaces("oschaos-r") or all(
            not r.orphaned for r in __import__("chaos.targets.labs.sweep", fromlist=["known"]).known()
        )
        code, output = cli("report", run_folder(out))
        assert code == 5 and "died" in output, (stage, output)
        assert (run_folder(out) / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("number", "matches"),
    [
        pytest.param(
            signal.SIGINT, lambda e: e["kind"] == "run.start", id="SIGINT while the lab starts", marks=pytest.mark.full
        ),
        pytest.param(
            signal.SIGTERM, lambda e: e["kind"] == "load.start", id="SIGTERM while warming up", marks=pytest.mark.full
        ),
        pytest.param(signal.SIGINT, in_effect, id="SIGINT in mid-fault"),
    ],
)
def test_a_signal_undoes_reports_and_exits(out, spotless, number, matches):
    running = Cli("run", short(out, HELD_SECONDS), "--out", out)
    await_event(running, out, matches)
    running.signal(number)
    code, output = running.end(120)
    assert code == 4, output
    assert findings(out)["outcome"] == "aborted" and findings(out)["clean"] is True
    assert "Traceback" not in output
    assert standing(run_folder(out) / "ledger.jsonl") == [] or not network.namespaces(
        f"oschaos-{json.loads((run_folder(out) / 'plan.json').read_text())['lab']['id']}"
    )
    assert registrations() == [] or all(r.owner.alive() for r in registrations())


def test_a_run_on_a_living_lab_leaves_it_clean(tiny, out):
    """The whole order once more on a lab that lives on; whatever the verdict, the lab proves clean."""
    code, output = cli("run", short(out), "--out", out, "--on", tiny.id)
    assert code in (0, 1, 3), output  # this test is about cleanliness: a busy machine may spoil the load
    found = findings(out)
    assert found["clean"] is True
    assert [fault["proven"] for fault in found["faults"]] == [True]
    (lost,) = [f for f in found["findings"] if f["metric"] == "acknowledged.lost"]
    assert lost["measured"] == 0
    assert problems(tiny) == []
    _, indices = tiny.client("a-all").request("GET", "/_cat/indices?format=json&h=index")
    assert indices == []
    assert os.path.exists(run_folder(out) / "junit.xml") and os.path.exists(run_folder(out) / "audit.json")


@pytest.mark.full  # tests/programs/test_data.py shows that the driver requires the alias
def test_a_write_that_comes_after_all_was_undone_makes_no_index(tiny, out):
    """The kernel, a Toxiproxy or a load balancer may send it long after who made it has gone."""
    running = Cli("run", short(out), "--out", out, "--on", tiny.id)
    await_event(running, out, lambda event: event["kind"] == "load.start")
    (made,) = [event["index"] for event in events(out) if event["kind"] == "index.routing"]
    late = document_path(made, "w-1", "", write_alias(made)), WORKLOAD.content("w-1")
    assert administer(tiny, "PUT", *late)[0] in (200, 201)
    assert administer(tiny, "PUT", requiring_alias(f"/{made}/_doc/w-1"), late[1])[0] == 404, "it is no alias"
    running.end()
    assert administer(tiny, "PUT", *late)[0] == 404
    _, indices = tiny.client("a-all").request("GET", "/_cat/indices?format=json&h=index")
    assert indices == [] and problems(tiny) == []
    assert administer(tiny, "PUT", f"/{made}/_doc/w-1", late[1])[0] == 201, "else this shows nothing"
    assert administer(tiny, "DELETE", f"/{made}")[0] == 200


@pytest.mark.full
def test_the_python_fixtures_work(out):
    """The real test in tests/chaos, run as a user would run it."""
    test = Path(__file__).parents[1] / "chaos" / "test_slow_zone.py"
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "chaos", f"--chaos-out={out}", "-p", "no:cacheprovider", str(test)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path(__file__).parents[2],
    )
    assert answer.returncode == 0, answer.stdout[-3000:] + answer.stderr[-2000:]
    assert "1 passed" in answer.stdout
