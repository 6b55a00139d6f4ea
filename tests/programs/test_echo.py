"""The echo beside the nodes: the program itself, and what is said by what it took."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import synthetic
from fakes import topology
from hypothesis import given
from hypothesis import strategies as st

from chaos.base.errors import ChaosError
from chaos.checks import evaluate
from chaos.checks.deciding import FEWEST, Echoes, decides, says
from chaos.history import History
from chaos.history.writer import ECHO
from chaos.instruments import echo
from chaos.report.page import render_html
from chaos.targets.labs.processes import wait_until

PROGRAM = echo.PROGRAM
S = synthetic.S


class Program:
    """The program with three answerers, started as a run starts it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        command = [sys.executable, "-I", "-S", str(PROGRAM), str(file), "3", "20", "1000"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.pids = json.loads(self.process.stdout.readline())

    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    def end(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait(10)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    started = Program(tmp_path / ECHO)
    yield started
    if started.process.poll() is None:
        started.process.kill()
        started.process.wait()


def test_every_question_of_every_second_has_its_time_and_all_ends_with_standard_input(program: Program) -> None:
    assert wait_until(lambda: len(program.lines()) >= 2, 20)
    first, second = program.lines()[:2]
    assert second["t"] - first["t"] == S and first["kind"] == "echo"
    assert [len(line["took_ms"]) for line in (first, second)] == [20, 20]
    assert all(took is None or took >= 2.0 for took in first["took_ms"])  # two visits of a millisecond
    program.end()
    assert program.process.returncode == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in program.pids)


def test_an_answerer_that_stands_still_shows_and_then_nobody_can_decide(program: Program) -> None:
    assert wait_until(lambda: len(program.lines()) >= 1, 20)
    os.kill(program.pids[1], signal.SIGSTOP)
    # seconds without an answer are written as such, after their patience
    assert wait_until(lambda: any(None in line["took_ms"] for line in program.lines()), 30)
    os.kill(program.pids[1], signal.SIGCONT)
    heard = Echoes.of(program.lines(), 0, 2**62)
    assert heard.silent >= 1 and "without an answer" in heard.longest
    if heard.asked >= FEWEST:
        assert decides(heard, 1.0) == "no"


def test_answerers_end_when_who_asks_is_killed(program: Program) -> None:
    program.process.kill()
    program.process.wait()
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in program.pids), 10)


def test_an_answerer_whose_asker_was_gone_before_it_began_ends_too() -> None:
    """Killed right after the fork, it leaves a child whose parent is another one from the first look on."""
    code = (
        f"import sys; sys.path.insert(0, {str(PROGRAM.parent)!r}); import echoing, os, socket; "
        "pairs = [socket.socketpair()]; echoing.answer(0, pairs, pairs[0][0], 0, os.getpid())"
    )
    assert subprocess.run([sys.executable, "-I", "-S", "-c", code], timeout=20).returncode == 0


def test_an_echo_that_cannot_write_is_found_out(tmp_path: Path) -> None:
    for folder in ("history", "logs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "history" / ECHO).symlink_to("/dev/full")
    nothing = lambda *_: None  # noqa: E731
    lab = SimpleNamespace(
        topology=topology("3az"), has_places=lambda zones: True, beside=nullcontext, instrument=nothing, place=nothing
    )
    started = echo.Echo(lab, tmp_path)  # type: ignore[arg-type]
    started.check()  # there is none yet
    try:
        assert started.start()
        started.check()

        def ended() -> bool:
            assert started._process is not None
            return started._process.poll() is not None

        assert wait_until(ended, 20)
        with pytest.raises(ChaosError, match=r"the echo beside the nodes ended: .*No space left"):
            started.check()
    finally:
        started.stop()
    started.check()  # one that was stopped has not ended by itself


@pytest.mark.parametrize(
    ("took", "silent", "answer"),
    [
        ([3.0] * 200, 0, "yes"),
        ([3.0] * 199 + [499.0], 0, "yes"),
        ([3.0] * 199 + [501.0], 0, "doubtful"),
        ([3.0] * 199 + [1001.0], 0, "no"),
        ([3.0] * 1999 + [1001.0] * 2, 0, "doubtful"),
        ([3.0] * 199, 1, "no"),
        ([3.0] * (FEWEST - 1), 0, "not measured"),
        ([], 0, "not measured"),
    ],
)
def test_what_is_said_of_an_objective_of_a_second(took: list[float], silent: int, answer: str) -> None:
    assert decides(Echoes(tuple(took), silent), 1.0) == answer


def test_the_sentence_names_each_objective() -> None:
    heard = Echoes((*[4.0] * 199, 180.0))
    assert says(heard, {"read": 0.1, "write": 1.0}) == (
        "this machine cannot decide 100 ms for reads; this machine can decide 1 s for writes: an echo beside the nodes "
        "took 180 ms at most, of 200 questions"
    )
    assert "200 ms for reads and writes can be decided" in says(heard, {"read": 0.2, "write": 0.2})
    assert "not measured" in says(Echoes(()), {"read": 1.0})
    assert "left 1 question without an answer" in says(Echoes(tuple([4.0] * 199), 1), {"read": 1.0})


@given(st.lists(st.floats(0, 5000), min_size=FEWEST, max_size=300), st.floats(0.05, 5))
def test_a_machine_that_is_slower_never_decides_more(took: list[float], objective: float) -> None:
    order = ["yes", "doubtful", "no"]
    quick, slow = Echoes(tuple(sorted(took))), Echoes(tuple(sorted(each * 2 for each in took)))
    assert order.index(decides(quick, objective)) <= order.index(decides(slow, objective))
    assert order.index(decides(quick, 2 * objective)) <= order.index(decides(quick, objective))


def test_the_record_and_the_report_show_it_phase_by_phase(tmp_path: Path) -> None:
    folder = synthetic.slow_zone().write(tmp_path / "run")
    spans = {
        event["phase"]: event["t"]
        for event in map(json.loads, (folder / "history" / "events.jsonl").read_text().splitlines())
        if event["kind"] == "phase.start"
    }
    slow = spans["slow"] // S * S
    lines = [{"t": slow + n * S, "kind": "echo", "took_ms": [5.0] * 18 + [300.0, None]} for n in range(1, 4)]
    (folder / "history" / ECHO).write_text("".join(json.dumps(line) + "\n" for line in lines))
    history = History.open(folder)
    found = evaluate(history)
    row = found.tables["echo"]["phases"]["slow"]
    assert (row["asked"], row["within"]["250"], row["within"]["500"]) == (60, 54, 57)
    assert found.tables["echo"]["phases"]["healthy"]["asked"] == 0
    assert found.outcome.value == "pass"  # it changes no verdict
    page = render_html(history, found.to_json())
    assert "an echo beside the nodes" in page and "3 questions without an answer" in page


def test_without_an_echo_there_is_no_table() -> None:
    assert "echo" not in evaluate(synthetic.slow_zone().history()).tables
