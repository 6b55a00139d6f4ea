"""The first process of a machine of the Kubernetes box: what it mounts is seen there alone, and all ends with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from kubebox import making, parts

from chaos.base.waiting import wait_until
from chaos.provision import fetch
from chaos.provision.toxiproxy import find_go

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
    pytest.mark.skipif(find_go() is None, reason="no Go on this machine to build the program with"),
]
SECONDS = 20.0


@pytest.fixture(scope="module")
def program() -> Path:
    fetch.open_folder(parts.folder())
    return parts.built_program("pods", lambda line: None)


class Machine:
    def __init__(self, program: Path, folder: Path, written: object) -> None:
        self.folder = folder
        (folder / "logs").mkdir()
        (folder / "machine.json").write_text(json.dumps(written))
        command = [*making.APART, str(program), "init", str(folder / "machine.json"), str(folder / "logs")]
        with open(folder / "init.log", "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def log(self, name: str = "") -> str:
        file = self.folder / "logs" / f"{name}.log" if name else self.folder / "init.log"
        return file.read_text() if file.exists() else ""

    def processes(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


def line(name: str, script: str, after: Path | None = None) -> dict[str, object]:
    return {"Name": name, "Command": ["/bin/sh", "-c", script], "After": str(after or "")}


@pytest.fixture
def started(program: Path, tmp_path: Path) -> Iterator[list[Machine]]:
    machines: list[Machine] = []
    yield machines
    for machine in machines:
        machine.process.kill()
        machine.process.wait(10)


def test_mounts_are_seen_in_the_machine_alone(program: Path, tmp_path: Path, started: list[Machine]) -> None:
    own, place = tmp_path / "own", tmp_path / "place"
    for folder in (own, place):
        folder.mkdir()
    (own / "mine").touch()
    written = {"Mounts": [(str(own), str(place))], "Programs": [line("look", f"ls {place}; ps -e -o pid= | head -1")]}
    started.append(machine := Machine(program, tmp_path, written))
    assert wait_until(lambda: "look ended: code 0" in machine.log(), SECONDS), machine.log()
    assert machine.log("look").split() == ["mine", "1"]  # its own processes, too
    assert list(place.iterdir()) == []
    assert str(place) not in Path("/proc/mounts").read_text()


def test_a_program_waits_for_the_file_that_it_names(program: Path, tmp_path: Path, started: list[Machine]) -> None:
    go = tmp_path / "go"
    programs = [line("first", "exit 3"), line("late", "echo late", after=go)]
    started.append(machine := Machine(program, tmp_path, {"Mounts": [], "Programs": programs}))
    assert wait_until(lambda: "first ended: code 3" in machine.log(), SECONDS), machine.log()
    assert machine.log("late") == ""
    go.touch()
    assert wait_until(lambda: machine.log("late") == "late\n", SECONDS)


def test_orphans_are_reaped(program: Path, tmp_path: Path, started: list[Machine]) -> None:
    orphan = f"sleep 0.5; touch {tmp_path}/ended"
    programs = [line("parent", f"({orphan}) & exit 0"), line("stays", "exec sleep 600")]
    started.append(machine := Machine(program, tmp_path, {"Mounts": [], "Programs": programs}))
    assert wait_until((tmp_path / "ended").exists, SECONDS), machine.log()
    # the machine's first process, and what stays: no zombie
    assert wait_until(lambda: len(machine.processes()) == 2, SECONDS), machine.processes()


def test_all_ends_with_it_whatever_it_was_doing(program: Path, tmp_path: Path, started: list[Machine]) -> None:
    script = "trap '' TERM INT HUP; setsid sleep 600 & while :; do sleep 600; done"
    started.append(machine := Machine(program, tmp_path, {"Mounts": [], "Programs": [line("stubborn", script)]}))
    assert wait_until(lambda: len(machine.processes()) >= 4, SECONDS)
    found = machine.processes()
    os.kill(machine.process.pid, signal.SIGKILL)
    machine.process.wait(10)
    assert wait_until(lambda: not any(_lives(each) for each in found), SECONDS)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"Mounts": [["/nonexistent/a", "/mnt"]], "Programs": []}, "mount /nonexistent/a on /mnt"),
        ("no machine", "cannot unmarshal"),
    ],
)
def test_what_cannot_be_made_ends_it_with_the_reason(
    program: Path, tmp_path: Path, started: list[Machine], written: object, message: str
) -> None:
    started.append(machine := Machine(program, tmp_path, written))
    assert machine.process.wait(SECONDS) == 1
    assert message in machine.log()


def test_it_starts_nothing_where_it_is_not_the_first_process(program: Path, tmp_path: Path) -> None:
    done = subprocess.run([program, "init", "x", "y"], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 1 and "must be process 1" in done.stderr


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
