"""Commands that a phase waits for, as real processes: how they begin, how they end, and that none outlives its run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from unit.run.test_execution import execution

from chaos.base.errors import InvalidInput
from chaos.base.paths import ProcessIdentity
from chaos.faults.ledger import Ledger, Registration, registrations, standing
from chaos.registry import load_experiment
from chaos.run import commanding, keeper, recovery
from chaos.run.commanding import Command
from chaos.run.instruments import Changes
from chaos.targets.labs import network
from chaos.targets.labs.processes import end, wait_until

DEAD = ProcessIdentity(1, 0, "another boot")
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.write(1, b'%d ' % os.getpid()); "
for more in ("", "os.setpgid(0, 0); "):
    subprocess.Popen([sys.executable, "-c", child.replace("os.write", more + "os.write", 1) + "time.sleep(600)"])
os.write(1, b"%d " % os.getpid())  # in one piece: the three have one log, and print() may write its line end apart
time.sleep(600)
"""
"""It, its child, and a child in a process group of its own: none of them heeds SIGTERM."""


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    yield ledger
    ledger.close()


def started(book: Ledger, *words: str, token: str = "abc") -> Command:
    return Command(words, book.path.with_name("log"), book, {"ROOM": "yes"}, token)


def code(command: Command) -> int | None:
    assert wait_until(lambda: command.code() is not None, 30)
    return command.code()


def pids(command: Command, count: int) -> list[int]:
    def printed() -> list[str]:
        return command.log.read_text().split()

    assert wait_until(lambda: len(printed()) == count, 30), printed()
    return [int(word) for word in printed()]


def alive(pid: int) -> bool:
    try:
        return ProcessIdentity.of(pid).alive()
    except ProcessLookupError:
        return False


@pytest.mark.parametrize(
    ("words", "expected", "last"),
    [
        (("true",), 0, []),
        (("sh", "-c", "echo one; echo two >&2; exit 3"), 3, ["one", "two"]),
        (("sh", "-c", "kill -9 $$"), 137, []),
        (("cat",), 0, []),  # nothing is to be read
        (("printf", "%s|", "a b", "$HOME", "*"), 0, ["a b|$HOME|*|"]),  # no shell reads it
        (("sh", "-c", "echo $ROOM; yes | head -1"), 0, ["yes", "y"]),
        ((os.devnull,), 126, [f"{os.devnull}: Permission denied"]),
    ],
)
def test_how_it_ended_and_what_it_said(book: Ledger, words: tuple[str, ...], expected: int, last: list[str]) -> None:
    command = started(book, *words)
    assert code(command) == expected and command.last() == last
    command.over()
    assert standing(book.path) == [] and command.end() == 0


def test_it_is_written_down_before_it_begins(book: Ledger, tmp_path: Path) -> None:
    seen, second = tmp_path / "seen", tmp_path / "second"
    command = started(book, "sh", "-c", f"cp {book.path} {seen}; sleep 600 & echo >{second}; wait")
    assert wait_until(second.exists, 30)  # there are two processes from now on
    (entry,) = standing(book.path)
    assert wait_until(lambda: [each.inverse for each in standing(seen)] == [entry.inverse], 30)
    assert entry.inverse is not None and entry.inverse.arguments["pid"] == command.session.leader.pid
    assert command.end() == 2 and standing(book.path) == []


def test_what_the_ledger_does_not_take_never_begins(book: Ledger, tmp_path: Path) -> None:
    made = tmp_path / "made"
    book.close()
    with pytest.raises(ValueError, match="closed file"):
        started(book, "touch", str(made))
    assert not made.exists()


def test_its_end_takes_all_of_its_session_along_and_nothing_else(book: Ledger, tmp_path: Path) -> None:
    apart = tmp_path / "apart"
    away = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    leaves = f"import os\nif not os.fork(): os.setsid(); open({str(apart)!r}, 'w').write(str(os.getpid())); os.execvp"
    command = started(book, sys.executable, "-c", f"{leaves}('sleep', ['sleep', '600'])\n{STUBBORN}")
    mine = pids(command, 3)
    assert wait_until(lambda: apart.exists() and bool(apart.read_text()), 30)
    other = int(apart.read_text())
    try:
        assert command.end() == 3
        assert not any(map(alive, mine))
        assert alive(other) and away.poll() is None
        assert command.code() == 137 and command.end() == 0
    finally:
        end([other, away.pid])
        away.wait()


RUNNER = """
import sys, time
from pathlib import Path
from chaos.faults.ledger import Ledger
from chaos.run.commanding import Command
book = Ledger(Path(sys.argv[1]))
command = Command(sys.argv[2:], book.path.with_name("log"), book, {}, "abc")
print("begun", flush=True)
time.sleep(600)
"""


def orphaned(ledger: Path, *words: str) -> subprocess.Popen[bytes]:
    """A runner with such a command."""
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, str(ledger), *words], stdout=subprocess.PIPE)
    assert runner.stdout is not None and runner.stdout.readline() == b"begun\n"
    return runner


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(network, "namespaces", lambda prefix="": [])
    return tmp_path


def killed(runner: subprocess.Popen[bytes]) -> None:
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    assert runner.stdout is not None
    runner.stdout.close()


@pytest.mark.parametrize("heeds", [True, False])
def test_recover_ends_what_a_killed_runner_left(state: Path, heeds: bool) -> None:
    """``heeds``: the command itself goes with its runner, and its children stay."""
    ledger = state / "run" / "ledger.jsonl"
    program = STUBBORN.replace("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n", "", 1) if heeds else STUBBORN
    runner = orphaned(ledger, sys.executable, "-c", program)
    log = ledger.with_name("log")
    assert wait_until(lambda: len(log.read_text().split()) == 3, 30)
    Registration("run-1", ledger, "nowhere", DEAD).write()
    (entry,) = standing(ledger)
    assert entry.inverse is not None
    mine, leader = [int(word) for word in log.read_text().split()], entry.inverse.arguments["pid"]
    killed(runner)
    if heeds:
        assert wait_until(lambda: not alive(leader), 30), "the kernel tells it"
    assert sum(map(alive, mine)) == 3 - heeds
    assert any("during.command" in each.what for each in recovery.leftovers())
    said: list[str] = []
    assert recovery.recover(said.append).problems == []
    assert any(f"{3 - heeds} processes ended" in each for each in said), said
    assert not any(map(alive, mine)) and registrations() == [] and standing(ledger) == []


def test_the_keeper_ends_it_before_it_asks_for_the_cluster(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "PATIENCE_SECONDS", -1.0)
    ledger = state / "run" / "ledger.jsonl"
    runner = orphaned(ledger, sys.executable, "-c", STUBBORN)
    log = ledger.with_name("log")
    assert wait_until(lambda: len(log.read_text().split()) == 3, 30)
    killed(runner)
    said: list[str] = []
    assert keeper.undo(ledger, "a-cluster-that-is-gone", said.append) is False
    assert not any(alive(int(pid)) for pid in log.read_text().split()) and standing(ledger) == []
    assert any("3 processes ended" in each for each in said), said


def test_a_gate_that_is_never_told_ends_by_itself(tmp_path: Path) -> None:
    made = tmp_path / "made"
    gate = [sys.executable, "-I", "-S", "-c", commanding._GATE, str(os.getpid()), "touch", str(made)]
    process = subprocess.Popen(gate, stdin=subprocess.PIPE)
    process.communicate(timeout=30)
    assert process.returncode == 0 and not made.exists()


def test_another_process_of_the_same_number_is_let_be(book: Ledger) -> None:
    command = started(book, "sleep", "600")
    try:
        leader = command.session.leader
        before = replace(command.session, leader=replace(leader, start_ticks=leader.start_ticks - 1))
        another = replace(command.session, leader=replace(leader, boot_id="another"))
        assert [each.pid for each in command.session.alive()] == [leader.pid]
        assert before.alive() == another.alive() == []
        assert before.end() == another.end() == 0 and alive(leader.pid)
    finally:
        command.end()


def test_a_program_that_is_not_there_is_refused_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        "apiVersion: opensearch-chaos/v1\nname: x\ntopology: 3az\nload: {write: {rate: 1/s, good: ok within 1s}}\n"
        "phases: {one: {during: {command: [no-such-program], within: 1m}}}\nexpect: [{acknowledged.lost: 0}]\n"
    )
    with pytest.raises(InvalidInput, match="phase one waits for a command, and there is no program 'no-such-program'"):
        commanding.refuse_absent(load_experiment(file))


def test_a_failover_controller_begins_once_it_is_written_down_and_whoever_undoes_ends_it(
    book: Ledger, tmp_path: Path
) -> None:
    """Its runner lives, says nothing and keeps the pipe open."""
    words = [sys.executable, "-c", "import sys; print('on', flush=True); sys.stdin.read()"]
    about, log = ["opensearch-chaos", "failover", "--name", "controller-a"], tmp_path / "log"
    process = Changes(book).begin("controller a", words, log, about, cwd=tmp_path).process
    assert wait_until(lambda: log.read_text() == "on\n", 10)
    (entry,) = standing(book.path)
    assert entry.inverse is not None and entry.inverse.arguments["pid"] == process.pid
    said: list[str] = []
    assert commanding.end_commands(book.path, said.append) == []
    assert process.wait(10) != 0 and standing(book.path) == []
    assert said == ["opensearch-chaos failover --name controller-a: 1 process ended"]


def test_the_load_driver_goes_on_while_its_own_run_undoes_and_is_ended_by_whoever_else_does(tmp_path: Path) -> None:
    made = execution(tmp_path)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as driver:
        made.write_down(driver.pid)
        (entry,) = standing(made.ledger.path)
        assert made.remaining() == [] and entry.move.where == commanding.HERE
        assert commanding.end_commands(made.ledger.path, lambda says: None) == []
        assert driver.wait(10) < 0 and standing(made.ledger.path) == []
