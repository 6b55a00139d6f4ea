"""What goes wrong beside the faults: Toxiproxies that die or hang, a full disk, signals at the end of a run."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from clusterkit import (
    DATA,
    Cli,
    await_event,
    cli,
    events,
    fill,
    findings,
    in_effect,
    nothing_left,
    run_folder,
    short,
    tmpfs,
)

from chaos.base.paths import ProcessIdentity
from chaos.faults.ledger import registrations, standing
from chaos.observe.proof import marks, problems
from chaos.opensearch.views import await_green
from chaos.registry import load_experiment
from chaos.run import space
from chaos.targets.labs import traces
from chaos.targets.labs.local import LocalLab

SLOW = DATA / "slow.yaml"


def stage(name: str):
    return lambda event: event["kind"] == "stage" and event["name"] == name


def toxiproxy(lab: LocalLab, host: str) -> int:
    return int(json.loads((lab.folder / "run" / f"toxiproxy-{host}.json").read_text())["pid"])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "hung"])
@pytest.mark.full
def test_a_toxiproxy_that_dies_or_hangs_while_a_fault_holds(tiny, out, number):
    running = Cli("run", SLOW, "--out", out, "--on", tiny.id)
    await_event(running, out, in_effect)
    victim = "c-all" if number is signal.SIGKILL else "a-all"
    os.kill(toxiproxy(tiny, victim), number)
    running.signal(signal.SIGINT)  # the undo comes at once
    code, output = running.end(120)
    assert code == 6, output  # aborted, and dirty on top
    found = findings(out)
    assert found["outcome"] == "aborted" and found["clean"] is False
    said = [e["says"] for e in events(out) if e["kind"] == "fault.failed" and e["stage"] == "undo"]
    words = "cannot be reached" if number is signal.SIGKILL else "it hangs"
    assert said and f"Toxiproxy of {victim}" in said[0] and words in said[0]
    detail = json.loads((run_folder(out) / "clean.json").read_text())["detail"]
    assert any(f"Toxiproxy of {victim}" in line for line in detail)
    assert found["abort"]["faults"] == ["f1"] and found["abort"]["proven"] is False
    # every other host was taken back, and the ledger knows what was not; a leader that is cut off deletes no index
    assert {e.move.where for e in standing(run_folder(out) / "ledger.jsonl")} <= {victim, "cluster"}

    code, output = cli("recover")
    assert code == 0 and f"Toxiproxy of {victim} did not answer" in output, output
    assert nothing_left() == [] and registrations() == []
    assert await_green(tiny, 120)[0]
    assert problems(tiny) == []


@pytest.mark.full
def test_a_toxiproxy_that_dies_makes_the_undo_say_so_and_the_run_inconclusive(out, spotless):
    """With a lab of its own nothing is left in the end; but the fault's end was never proven."""
    file = short(out)
    # a client's Toxiproxy: the cluster itself stays whole
    links = "from clients of zone a to node c-all"
    file.write_text(file.read_text().replace("links: around zone c", f"links: {links}"))
    running = Cli("run", file, "--out", out)
    await_event(running, out, in_effect)
    lab = LocalLab.attach(json.loads((run_folder(out) / "plan.json").read_text())["lab"]["id"])
    os.kill(toxiproxy(lab, "client-a"), signal.SIGKILL)
    code, output = running.end(240)
    assert code == 3, output
    found = findings(out)
    assert found["outcome"] == "inconclusive" and found["clean"] is True
    assert any("not proven to be gone" in reason["says"] for reason in found["reasons"])
    assert any(
        "Toxiproxy of client-a" in e["says"]
        for e in events(out)
        if e["kind"] == "fault.failed" and e["stage"] == "undo"
    )
    assert traces.of(lab.id) == []


@pytest.mark.parametrize("where", ["undo", "read-back"])
@pytest.mark.full
def test_a_signal_at_the_end_of_a_run(tiny, out, where):
    """Its undo is finished, the verdict is aborted, and the lab is as it was."""
    running = Cli("run", short(out), "--out", out, "--on", tiny.id)
    undoing = lambda event: event["kind"] == "fault.undo"  # noqa: E731
    await_event(running, out, undoing if where == "undo" else stage("read-back"))
    running.signal(signal.SIGINT)
    code, output = running.end(120)
    assert code == 4, output
    found = findings(out)
    assert found["outcome"] == "aborted" and found["clean"] is True and "Traceback" not in output
    assert standing(run_folder(out) / "ledger.jsonl") == [] and registrations() == []
    assert problems(tiny) == []


@pytest.mark.full
def test_ctrl_c_in_a_pipe_whose_reader_it_ends_first_undoes_all_the_same(tiny, out):
    running = Cli("run", SLOW, "--on", tiny.id, "--out", out)
    await_event(running, out, in_effect)
    assert running.process.stdout is not None
    running.process.stdout.close()
    running.signal(signal.SIGINT)
    assert running.process.wait(120) == 4
    found = findings(out)
    assert found["outcome"] == "aborted" and found["clean"] is True
    assert await_green(tiny, 60)[0] and problems(tiny) == [] and nothing_left() == []


@pytest.mark.full
def test_a_kill_switch_ends_a_run_and_everything_is_undone_in_time(tiny, out, tmp_path):
    switch = tmp_path / "stop"
    file = short(out, guards={"stop_file": str(switch), "max": "5m"})
    data = file.read_text().replace("for: 3s", "for: 2m")
    file.write_text(data)
    running = Cli("run", file, "--out", out, "--on", tiny.id)
    await_event(running, out, in_effect)
    switch.touch()
    code, output = running.end(120)
    assert code == 4, output
    found = findings(out)
    assert (found["outcome"], found["clean"], found["abort"]["guard"]) == ("aborted", True, "stop_file")
    assert found["abort"]["faults"] == ["f1"] and found["abort"]["seconds"] > 0
    assert marks(tiny) == []

    code, output = cli("run", file, "--out", out, "--on", tiny.id)
    assert code == 2 and "remove it" in output


@pytest.mark.full
def test_a_guard_that_says_no_holds_during_the_warm_up(tiny, out):
    guard = {"run": [sys.executable, "-c", "print('not today'); raise SystemExit(1)"], "every": "1s", "timeout": "30s"}
    code, output = cli("run", short(out, guards={"command": guard}), "--out", out, "--on", tiny.id)
    assert code == 4, output
    assert not any(event["kind"] == "phase.start" for event in events(out))
    assert "not today" in findings(out)["summary"]
    assert problems(tiny) == []


@pytest.mark.full  # tests/unit/run/test_execution.py shows it too
def test_of_two_runs_that_begin_at_once_one_is_refused(tiny, out, tmp_path):
    file = short(out)
    first, second = (Cli("run", file, "--out", folder, "--on", tiny.id) for folder in (out, tmp_path / "other"))
    (a, says_a), (b, says_b) = first.end(), second.end()
    assert 2 in (a, b), (says_a, says_b)
    refused, other = (says_a, b) if a == 2 else (says_b, a)
    assert "under way on lab" in refused and other in (0, 1, 3), (says_a, says_b)
    assert problems(tiny) == [] and registrations() == []


def held(out: Path, seconds: str) -> Path:
    """The short experiment, whose fault holds for long: whatever ends it earlier was not the plan."""
    file = short(out)
    file.write_text(file.read_text().replace("for: 3s", f"for: {seconds}"))
    return file


def test_a_disk_that_has_too_little_room_is_refused_before_anything_starts(tmp_path, spotless):
    """600 kB under ``--out``, and none of it is used."""
    with tmpfs(tmp_path / "small", "600k") as small:
        file = short(tmp_path / "reports")
        code, output = cli("run", file, "--out", small / "reports")
        room = space.size(space.of_record(load_experiment(file)).bytes)
        assert code == 2 and f"may need {room} on the disk of" in output and "600 KiB are free" in output, output
        assert "--out" in output and list(small.iterdir()) == []
    assert not (tmp_path / "reports").exists() or list((tmp_path / "reports").iterdir()) == []


def test_a_file_system_without_inodes_left_is_refused(tmp_path, spotless):
    with tmpfs(tmp_path / "small", "1g,nr_inodes=20") as small:
        code, output = cli("run", short(tmp_path / "reports"), "--out", small)
        assert code == 2 and "100 files" in output and list(small.iterdir()) == [], output


@pytest.mark.full  # tests/unit/test_cli.py and tests/unit/faults/test_ledger.py have a disk that takes no more
def test_a_disk_that_fills_up_while_a_fault_holds_ends_the_run_at_once(tiny, tmp_path):
    """The headline is the disk, all is undone, and there is a report: room for both was kept aside.

    Whichever comes first ends the run: the watch over the disk, which leaves a whole record that proves nothing
    (exit 3), or a line of the record that cannot be written (exit 5).
    """
    with tmpfs(tmp_path / "small", "64m") as small:
        out = small / "reports"
        file = held(out, "4m")
        code, output = cli("run", file, "--out", out, "--on", tiny.id, "--dry-run")
        assert code == 0 and output.rstrip().endswith("for the record"), output  # its lab has its room already
        running = Cli("run", file, "--out", out, "--on", tiny.id)
        await_event(running, out, in_effect, 240)
        fill(small)
        code, output = running.end(120)
        found = findings(out)
        outcome = {3: "inconclusive", 5: "error"}[code]
        assert (found["outcome"], found["clean"]) == (outcome, True) and "Traceback" not in output, output
        folder = run_folder(out)
        for told in (found["summary"], (folder / "summary.md").read_text(), (folder / "junit.xml").read_text()):
            assert FULL_DISK.search(told), told
        ended = [event["reason"] for event in events(out) if event["kind"] == "phase.end"]
        assert ended[0] == "elapsed" and ended[1:] in (["aborted"], ["error"]), ended
        if code == 5:
            assert found["abort"]["faults"] == ["f1"] and found["abort"]["proven"] is True
        else:  # nobody asked for this stop, so it is no abort
            assert [event["fault"] for event in events(out) if event["kind"] == "fault.undone"] == ["f1"]
        assert standing(folder / "ledger.jsonl") == [] and registrations() == []
        assert not list(folder.glob(".room-for-*"))
        assert problems(tiny) == []


FULL_DISK = re.compile(r"the disk of .* has \d+ MiB free|cannot be written.*No space left", re.DOTALL)
"""What the headline says, whichever is seen first; the watch may look while the disk is being filled."""


SILENT = "the load driver has given no sign of life for 10 s (its process is stopped)"
KILLED = "he load driver was ended from outside (SIGKILL)"


@pytest.mark.parametrize(
    ("number", "ends", "outcome", "wanted"),
    [
        pytest.param(signal.SIGSTOP, 5, "error", SILENT, id="silent", marks=pytest.mark.full),
        pytest.param(signal.SIGKILL, 3, "inconclusive", KILLED, id="killed", marks=pytest.mark.full),
    ],
)
def test_a_load_driver_that_falls_silent_or_dies_ends_the_run(tiny, out, number, ends, outcome, wanted):
    """Whoever records nothing any more must not go on for the four minutes that were planned."""
    running = Cli("run", held(out, "4m"), "--out", out, "--on", tiny.id)
    await_event(running, out, in_effect, 240)
    lines = (run_folder(out) / "history" / "driver.jsonl").read_text().splitlines()
    driver = ProcessIdentity.of(next(e["pid"] for e in map(json.loads, lines) if e["kind"] == "driver.start"))
    os.kill(driver.pid, number)
    code, output = running.end(120)
    assert code == ends and "Traceback" not in output, output
    found = findings(out)
    assert (found["outcome"], found["clean"]) == (outcome, True) and wanted in found["summary"]
    if number is signal.SIGSTOP:  # a stop that was asked for; an end that nobody asked for is none
        assert found["abort"]["faults"] == ["f1"] and found["abort"]["proven"] is True
    assert [event["fault"] for event in events(out) if event["kind"] == "fault.gone"] == ["f1"]
    assert not driver.alive()
    assert standing(run_folder(out) / "ledger.jsonl") == [] and registrations() == []
    assert problems(tiny) == []


@pytest.mark.full
def test_a_disk_that_is_full_when_the_ledger_is_written(tiny, tmp_path):
    """Nothing is injected that is not written down, and the run ends without a trace on the lab."""
    with tmpfs(tmp_path / "small", "64m") as small:
        out = small / "reports"
        running = Cli("run", short(out), "--out", out, "--on", tiny.id)
        await_event(running, out, lambda event: event["kind"] == "phase.start")
        fill(small)
        code, output = running.end(240)
        assert code in (3, 5, 6), output  # 3: the watch over the disk came first
        assert "Traceback" not in output and FULL_DISK.search(output), output
        applied = {event["fault"] for event in events(out) if event["kind"] == "fault.applied"}
        rows = map(json.loads, (run_folder(out) / "ledger.jsonl").read_text().splitlines())
        assert applied <= {row.get("fault") for row in rows if row["state"] == "intent"}
        assert problems(tiny) == []  # what was undone could not be noted, and is undone
        cli("recover")
        assert nothing_left() == [] and registrations() == []
