"""Calls of programs that a cluster's owners wrote, as real processes: what they are told, and that none outlasts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from chaos.base.errors import FaultError
from chaos.base.paths import ProcessIdentity
from chaos.run import calling
from chaos.run.calling import Called, call
from chaos.targets.labs.processes import wait_until

QUESTION = {"call": "inject", "id": "f1", "kind": "node.kill", "nodes": ["es-1"]}
SOON = 10.0
"""More than a program takes that answers, on a busy machine; less than one that sleeps."""


def asked(folder: Path, *words: str, within: float = 60.0, **more: Any) -> tuple[Called, float]:
    began = time.monotonic()
    done = call(words, QUESTION, within=within, folder=folder, log=folder / "logs" / "hooks.log", **more)
    return done, time.monotonic() - began


def log(folder: Path) -> str:
    return (folder / "logs" / "hooks.log").read_text(errors="replace")


def alive(pid: int) -> bool:
    try:
        return ProcessIdentity.of(pid).alive()
    except ProcessLookupError:
        return False


def noted(file: Path, count: int = 1) -> list[int]:
    """The processes that a program wrote down."""
    assert wait_until(lambda: file.exists() and len(file.read_text().split()) == count, 30)
    return [int(word) for word in file.read_text().split()]


@pytest.mark.parametrize(
    ("script", "code", "says"),
    [
        ("exit 0", 0, "exit code 0"),
        ("echo no >&2; exit 1", 1, "exit code 1"),
        ("echo one >&2; echo two >&2; echo; exit 3", 3, "exit code 3: two"),
        ("kill -9 $$", 137, "exit code 137"),
        ("printf 'a\\033[2Jb\\n' >&2; exit 2", 2, "exit code 2: a?[2Jb"),
    ],
)
def test_how_it_ended_and_the_last_line_of_what_went_wrong(tmp_path: Path, script: str, code: int, says: str) -> None:
    done, _ = asked(tmp_path, "sh", "-c", script)
    assert (done.code, done.says) == (code, says)
    assert (done.yes, done.no) == (code == 0, code == 1)


def test_it_reads_one_object_and_its_end_and_stands_in_its_folder(tmp_path: Path) -> None:
    done, _ = asked(tmp_path, "sh", "-c", "cat > told; pwd > where; ls /proc/self/fd > open; cat > none")
    assert done.yes and json.loads((tmp_path / "told").read_text()) == QUESTION
    assert (tmp_path / "where").read_text().strip() == str(tmp_path)
    assert (tmp_path / "open").read_text().split() == ["0", "1", "2", "3"]  # 3 is the folder that ls reads
    assert (tmp_path / "none").read_text() == ""


def test_a_question_that_nobody_reads_is_no_hindrance_however_long_it_is(tmp_path: Path) -> None:
    long = {**QUESTION, "links": [["es-1", "es-2"]] * 20_000}
    done = call(["sh", "-c", "exit 0"], long, within=60.0, folder=tmp_path, log=tmp_path / "hooks.log")
    assert done.yes


@pytest.mark.parametrize(
    "words",
    [("/nowhere/hook",), (os.devnull,), ("no-such-program-anywhere",)],
    ids=["no file", "no program", "no name"],
)
def test_a_program_that_is_not_there_fails(tmp_path: Path, words: tuple[str, ...]) -> None:
    done, _ = asked(tmp_path, *words)
    assert not done.yes and not done.no and words[0] in done.says


def test_a_folder_that_is_gone_is_a_failure_too(tmp_path: Path) -> None:
    done, _ = asked(tmp_path / "gone", "true")
    assert done.code is None and "cannot be started" in done.says


STUBBORN = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
WRITES = "open('{0}', 'a').write(f'{{os.getpid()}} '); time.sleep(600)"


def test_at_its_deadline_all_of_its_session_is_ended_whatever_it_heeds(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    child = STUBBORN + WRITES.format(file)
    group = STUBBORN + "os.setpgid(0, 0); " + WRITES.format(file)
    script = tmp_path / "hook.py"
    script.write_text(
        f"import subprocess, sys\n{STUBBORN}\n"
        f"for each in ({child!r}, {group!r}):\n    subprocess.Popen([sys.executable, '-c', each])\n"
        f"{WRITES.format(file)}\n"
    )
    done, took = asked(tmp_path, sys.executable, str(script), within=5.0)
    assert done.code is None and done.says == "not over within 5 s, and was ended" and took < 5.0 + SOON
    assert not any(map(alive, noted(file, 3)))
    assert "2 processes that it had left behind ended" in log(tmp_path)


def test_what_it_leaves_in_its_session_is_ended_and_its_pipes_are_not_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    done, took = asked(tmp_path, "sh", "-c", f"sleep 600 & echo $! > {file}; echo done >&2; exit 0")
    assert done.yes and took < SOON
    assert not any(map(alive, noted(file)))
    assert "1 process that it had left behind ended" in log(tmp_path)


def test_not_even_what_has_emptied_its_environment_outlasts_it(tmp_path: Path) -> None:
    """Its leader is not reaped before, so the session's number alone tells whose it is."""
    file = tmp_path / "pid"
    done, _ = asked(tmp_path, "sh", "-c", f"env -i sleep 600 & echo $! > {file}")
    assert done.yes and not any(map(alive, noted(file)))


def test_what_leaves_its_session_is_let_be_and_can_fill_nothing(tmp_path: Path) -> None:
    """As a node that it starts does. What it holds of the output takes no more by then."""
    file = tmp_path / "pid"
    daemon = (
        "import os, sys, time\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        f"open({str(file)!r}, 'w').write(str(os.getpid()))\n"
        f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.02)\n"
        "try: os.write(1, b'x' * 100); said = 'written'\n"
        "except OSError as error: said = error.strerror\n"
        f"open({str(tmp_path / 'said')!r}, 'w').write(said)\n"
        "time.sleep(600)\n"
    )
    (tmp_path / "daemon.py").write_text(daemon)
    done, took = asked(tmp_path, "sh", "-c", f"{sys.executable} daemon.py; while ! test -s {file}; do sleep 0.1; done")
    (pid,) = noted(file)
    try:
        assert done.yes and took < 2 * SOON and alive(pid)
        (tmp_path / "go").touch()
        assert wait_until((tmp_path / "said").exists, 30)
        assert wait_until(lambda: (tmp_path / "said").read_text() == "Operation not permitted", 5)
    finally:
        os.kill(pid, 9)


def test_one_that_prints_without_end_is_ended_early(tmp_path: Path) -> None:
    done, took = asked(tmp_path, "sh", "-c", "yes 1234567890 >&2", within=120.0)
    assert done.code is None and done.says.startswith("it printed more than 1 MiB") and took < 60.0
    assert (tmp_path / "logs" / "hooks.log").stat().st_size < calling.PRINTED_BYTES + 4096


def test_the_log_ends_where_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "LOG_BYTES", 100)
    for _ in range(3):
        asked(tmp_path, "sh", "-c", f"echo {'x' * 150}")
    assert log(tmp_path).count("exit code 0") == 1


def test_a_log_that_cannot_be_written_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("in the way")
    assert asked(tmp_path, "true")[0].yes


def test_one_that_nobody_waits_for_any_more_is_ended(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    done, took = asked(tmp_path, "sh", "-c", f"echo $$ > {file}; sleep 600", over=lambda: file.exists())
    assert done.code is None and took < 2 * SOON and not any(map(alive, noted(file)))


def test_what_cannot_be_noted_never_begins(tmp_path: Path) -> None:
    (tmp_path / "calls").write_text("in the way")
    with pytest.raises(FaultError, match="nothing is begun"):
        asked(tmp_path, "touch", str(tmp_path / "made"), begins=calling.noting(tmp_path / "calls" / "note.json"))
    assert not (tmp_path / "made").exists()


RUNNER = """
import sys
from pathlib import Path
from chaos.run.calling import call, noting
call(sys.argv[2:], {"call": "inject", "id": "f1", "kind": "node.kill"}, within=600.0, folder=Path("/"),
     log=Path("/dev/null"), begins=noting(Path(sys.argv[1])))
"""


def test_a_call_of_a_dead_runner_is_found_by_its_note(tmp_path: Path) -> None:
    """The kernel tells the program itself; what it had started goes by the note."""
    note, file = tmp_path / "calls" / "note.json", tmp_path / "pids"
    hook = f"sleep 600 & echo $$ $! > {file}; wait"
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, str(note), "sh", "-c", hook])
    first, second = noted(file, 2)
    assert note.exists() and alive(second)
    runner.kill()
    runner.wait()
    assert wait_until(lambda: not alive(first), 30)
    assert alive(second) and calling.end_noted(note) == 1
    assert not alive(second) and not note.exists() and calling.end_noted(note) == 0


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"pid": 1, "start_ticks": 1, "boot_id": "other", "token": "x"}'])
def test_a_note_that_says_nothing_ends_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "note.json").write_text(text)
    assert calling.end_noted(tmp_path / "note.json") == 0
