"""The watch over processes, with real processes and a lab that only knows them: what is written of an end, and when."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import PARTS, topology

from chaos.base.errors import LabError
from chaos.base.paths import ProcessIdentity
from chaos.checks.instrument import Child
from chaos.history import ends
from chaos.instruments.process_exits import Exits
from chaos.targets.labs import processes
from chaos.targets.labs.base import Resident
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

SLEEP = ["/bin/sleep", "600"]


@contextmanager
def _entered() -> Iterator[None]:
    yield


def host(name: str) -> Any:
    """A host of whose namespace nobody takes notice."""
    return SimpleNamespace(name=name, zone=name[0], namespace=SimpleNamespace(entered=_entered))


class Recorder:
    """Events as they are written."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []

    def write(self, kind: str, *, t: int | None = None, **fields: Any) -> int:
        self.written.append({"kind": kind, "t": t, **fields})
        return t or 0

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.written if event["kind"] == kind]


class FewProcesses:
    """What the watch asks of a lab: here processes of this machine, started as a lab starts its own."""

    def __init__(self, folder: Path, *, descriptors: bool = True) -> None:
        self.folder, self.descriptors = folder, descriptors
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
        self.wiring = {name: host(name) for name in ("a-data", "b-data")}
        self.commanded: set[ProcessIdentity] = set()
        self.kills = 0
        self.counts = True

    def start(self, name: str, command: list[str] = SLEEP) -> int:
        file = self.folder / f"node-{name}.json"
        started = processes.spawn(
            self.wiring[name],
            command,
            log=self.log(name),
            identity=file,
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin"},
        )
        return started.pid

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def residents(self) -> list[Resident]:
        import json

        files = sorted(self.folder.glob("node-*.json"))
        return [
            Resident("node", file.stem.removeprefix("node-"), ProcessIdentity.from_json(json.loads(file.read_text())))
            for file in files
        ]

    def pidfd(self, resident: Resident) -> int | None:
        if not resident.identity.alive():
            raise ProcessLookupError
        return os.pidfd_open(resident.identity.pid) if self.descriptors else None

    def lives(self, resident: Resident) -> bool:
        return resident.identity.alive()

    def exit_code(self, resident: Resident) -> int | None:
        return processes.exit_code(resident.identity, self.folder / f"node-{resident.name}.json")

    def is_silent(self, resident: Resident) -> bool:
        return processes.is_silent(self.folder / f"node-{resident.name}.json")

    def oom_kills(self, resident: Resident) -> int | None:
        if not self.counts:
            raise LabError("nobody counts")
        return self.kills

    def crash_report(self, resident: Resident) -> Path | None:
        file = self.folder / f"{resident.name}-hs_err.log"
        return file if file.exists() else None

    def was_commanded(self, resident: Resident) -> bool:
        return resident.identity in self.commanded

    def log_end(self, name: str) -> int:
        return self.log(name).stat().st_size if self.log(name).exists() else 0

    def log_lines(self, name: str, since: int = 0) -> list[str]:
        return self.log(name).read_bytes()[since:].decode().splitlines()


class Bench:
    """A lab of few processes with its watch."""

    def __init__(self, folder: Path, **options: bool) -> None:
        self.lab = FewProcesses(folder / "run", **options)
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.events = Recorder()
        self.told: list[dict[str, Any]] = []
        self.heard = threading.Event()
        self.watch = Exits(self.lab, self.events, self.logs, self._unasked)  # type: ignore[arg-type]

    def _unasked(self, fact: dict[str, Any]) -> None:
        self.told.append(fact)
        self.heard.set()

    def first(self) -> dict[str, Any]:
        """The first end that is written down."""
        assert wait_until(lambda: bool(self.events.of_kind(ends.KIND)), 30)
        return self.events.of_kind(ends.KIND)[0]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    if os.geteuid() != 0:
        pytest.skip("processes of a lab run under another uid: needs root")
    tops = Path(tempfile.gettempdir())
    for folder in (tmp_path, *(parent for parent in tmp_path.parents if tops in parent.parents)):
        os.chmod(folder, 0o755)  # for the uid of a lab's processes
    made: list[Bench] = []

    def make(**options: bool) -> Bench:
        made.append(Bench(tmp_path, **options))
        return made[-1]

    yield make
    for each in made:
        each.watch.stop()
        processes.end(resident.identity.pid for resident in each.lab.residents())


@pytest.mark.parametrize(
    ("command", "number", "code", "name", "how"),
    [
        (SLEEP, signal.SIGKILL, None, "SIGKILL", ends.OUTSIDE),
        (SLEEP, signal.SIGTERM, None, "SIGTERM", ends.OUTSIDE),
        (SLEEP, signal.SIGABRT, None, "SIGABRT", ends.UNKNOWN),
        (["/bin/sh", "-c", "until [ -e go ]; do sleep 0.1; done; exit 127"], None, 127, None, ends.ITSELF),
    ],
    ids=["SIGKILL", "SIGTERM", "SIGABRT", "exit code 127"],
)
@pytest.mark.parametrize("descriptors", [True, False], ids=["told", "asked"])
def test_an_end_is_written_down_with_how_it_came(bench, monkeypatch, command, number, code, name, how, descriptors):
    monkeypatch.setattr("chaos.instruments.process_exits.ASK_AN_ENGINE_SECONDS", 0.1)
    at = bench(descriptors=descriptors)
    pid = at.lab.start("a-data", command)
    at.watch.start()
    if number is not None:
        os.kill(pid, number)
    (at.lab.folder / "go").touch()
    fact = at.first()
    assert (fact["name"], fact["node"], fact["zone"], fact["pid"]) == ("a-data", "a-data", "a", pid)
    assert (fact["exit_code"], fact["signal"], fact["how"]) == (code, name, how)
    assert fact["oom_kill"] is False and fact["commanded"] is False and fact["t"] > 0
    assert at.heard.wait(10) and at.told[0]["pid"] == pid


def test_who_ends_the_shell_too_leaves_nobody_who_knows(bench):
    """And nobody is waited for who will not speak any more."""
    at = bench()
    pid = at.lab.start("a-data")
    shell = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    at.watch.start()
    os.kill(shell, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    assert at.first()["how"] == ends.UNKNOWN


def test_what_was_asked_for_is_written_down_and_told_nobody(bench):
    at = bench()
    pid = at.lab.start("a-data")
    at.watch.start()
    at.lab.commanded.add(at.lab.residents()[0].identity)
    os.kill(pid, signal.SIGKILL)
    assert at.first()["commanded"] is True
    at.watch.stop()
    assert at.told == []


@pytest.mark.parametrize(
    ("command", "number", "allowed"),
    [
        (SLEEP, signal.SIGTERM, True),
        (SLEEP, signal.SIGKILL, True),
        (["/bin/sh", "-c", "until [ -e go ]; do sleep 0.1; done; exit 1"], None, False),
    ],
    ids=["SIGTERM", "SIGKILL", "by itself"],
)
def test_what_a_phase_lets_others_end_is_told_nobody_and_what_ends_by_itself_is(bench, command, number, allowed):
    at = bench()
    at.lab.start("a-data", command)
    at.watch.start()
    at.watch.allow("roll", ["a-data"])
    if number is None:
        (at.lab.folder / "go").touch()
    else:
        os.kill(at.lab.residents()[0].identity.pid, number)
    fact = at.first()
    assert fact["commanded"] is False and fact.get("during") == ("roll" if allowed else None)
    at.watch.allow_no_more()
    at.watch.stop()
    assert bool(at.told) is not allowed


def test_a_node_that_the_phase_does_not_name_or_after_it_is_unasked(bench):
    at = bench()
    at.lab.start("a-data")
    at.lab.start("b-data")
    at.watch.start()
    at.watch.allow("roll", ["a-data"])
    of = {each.name: each.identity.pid for each in at.lab.residents()}
    os.kill(of["b-data"], signal.SIGTERM)
    assert at.heard.wait(30) and at.told[0]["name"] == "b-data"
    at.watch.allow_no_more()
    os.kill(of["a-data"], signal.SIGTERM)
    assert wait_until(lambda: len(at.told) == 2, 30)
    assert [fact.get("during") for fact in at.events.of_kind(ends.KIND)] == [None, None]


def test_a_process_in_the_place_of_one_that_ended_is_watched_too(bench):
    """Faults start nodes again: the end of the second one is another event."""
    at = bench()
    first = at.lab.start("a-data")
    at.watch.start()
    at.lab.commanded.add(at.lab.residents()[0].identity)
    os.kill(first, signal.SIGKILL)
    at.first()
    second = at.lab.start("a-data", ["/bin/sh", "-c", "echo a fatal error in thread x, exiting; sleep 2; exit 3"])
    assert at.heard.wait(30)
    fact = at.told[0]
    assert (fact["pid"], fact["exit_code"], fact["how"]) == (second, 3, ends.ITSELF)
    assert fact["fatal"] == "fatal error in thread x, exiting" and fact["log_tail"][-1] == f"a {fact['fatal']}"


def test_a_process_that_came_and_went_between_two_looks_is_told(bench):
    at = bench()
    first = at.lab.start("a-data")
    at.watch.start()
    at.lab.commanded.add(at.lab.residents()[0].identity)
    os.kill(first, signal.SIGKILL)
    at.first()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(at.lab, "pidfd", _gone)  # as the kernel answers when it is too late
        at.lab.start("a-data", ["/bin/sh", "-c", "echo it did not start; exit 1"])
        assert at.heard.wait(30)
    assert (at.told[0]["exit_code"], at.told[0]["log_tail"]) == (1, ["it did not start"])


def _gone(resident: Resident) -> int:
    raise ProcessLookupError


def test_the_kernel_s_count_of_kills_and_the_jvm_s_report(bench):
    at = bench()
    pid = at.lab.start("a-data")
    old = at.lab.folder / "a-data-hs_err.log"
    old.write_text("# a report of an earlier one\n")
    at.watch.start()
    at.lab.kills = 1
    os.kill(pid, signal.SIGKILL)
    fact = at.first()
    assert fact["oom_kill"] is True and fact["how"] == ends.OUTSIDE and fact["report"] is None

    report = "#\n#  SIGSEGV (0xb) at pc=0x1\n#\nsiginfo: si_signo: 11 (SIGSEGV), si_code: 1 (SEGV_MAPERR)\n"
    again = at.lab.start("a-data")
    assert wait_until(lambda: ("node", "a-data") in at.watch._watched, 10)
    at.lab.counts = False
    old.write_text(report)
    os.kill(again, signal.SIGABRT)
    assert wait_until(lambda: len(at.events.of_kind(ends.KIND)) == 2, 30)
    fact = at.events.of_kind(ends.KIND)[1]
    assert (fact["oom_kill"], fact["fatal"], fact["sent"], fact["how"]) == (
        None,
        "SIGSEGV (0xb) at pc=0x1",
        False,
        ends.ITSELF,
    )
    assert (at.logs / fact["report"]).read_text() == report


@pytest.mark.parametrize(("to_end", "commanded"), [(False, False), (True, True)])
def test_a_child_of_ours(bench, to_end, commanded):
    at = bench()
    log = at.logs / "driver.log"
    log.write_text("from before\n")
    at.watch.start()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    at.watch.add(Child("driver", "driver", None, child.pid, child.poll, lambda: to_end, log))
    with open(log, "a") as file:
        file.write("what it said\n")
    child.kill()
    fact = at.first()
    assert (fact["what"], fact["signal"], fact["commanded"]) == ("driver", "SIGKILL", commanded)
    assert fact["log_tail"] == ["what it said"]
    child.wait()


def test_the_watch_says_what_it_watched_and_until_when(bench):
    at = bench()
    at.lab.start("a-data")
    at.watch.start()
    assert at.events.of_kind(ends.WATCHED)[0]["processes"] == ["node a-data"]
    at.watch.stop()
    at.watch.stop()
    assert [event["because"] for event in at.events.of_kind(ends.UNWATCHED)] == [None]


def test_a_watch_that_breaks_says_so(bench):
    at = bench()
    pid = at.lab.start("a-data")

    def broken(resident: Resident) -> bool:
        raise RuntimeError("no more")

    at.lab.was_commanded = broken  # type: ignore[method-assign]
    at.watch.start()
    os.kill(pid, signal.SIGKILL)
    at.watch._thread.join(30)
    at.watch.stop()
    assert at.events.of_kind(ends.UNWATCHED)[0]["because"] == "RuntimeError: no more"


def test_who_looks_for_a_process_by_its_command_line_does_not_find_its_shell(bench):
    """A third hand that ends both would leave nobody who knows how the process ended."""
    at = bench()
    pid = at.lab.start("a-data", ["/bin/sleep", "617"])
    lines = {int(p.name): p / "cmdline" for p in Path("/proc").iterdir() if p.name.isdigit()}
    found = []
    for number, file in lines.items():
        try:
            if b"617" in file.read_bytes().split(b"\0"):
                found.append(number)
        except OSError:
            continue
    assert found == [pid]


def test_who_dies_before_a_process_is_noted_leaves_none_behind(bench, monkeypatch):
    at = bench()

    def dies(pid: int, identity: Path, shell: int) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(processes, "note", dies)
    with pytest.raises(KeyboardInterrupt):
        at.lab.start("a-data", ["/bin/sh", "-c", "echo it began"])
    monkeypatch.undo()
    at.lab.start("b-data", ["/bin/sh", "-c", "echo it began"])
    assert wait_until(lambda: at.lab.log("b-data").read_text() == "it began\n", 30)
    assert at.lab.log("a-data").read_text() == ""


def test_a_program_that_is_not_there_is_said(bench):
    at = bench()
    with pytest.raises(LabError, match="cannot start /no/such/program in a-data: no such file"):
        at.lab.start("a-data", ["/no/such/program"])
    text = at.lab.folder / "text"
    text.write_text("no program\n")
    with pytest.raises(LabError, match="permission denied"):
        at.lab.start("a-data", [str(text)])


@pytest.mark.parametrize("move", ["kill_node", "stop_node"])
def test_a_local_lab_knows_which_ends_it_asked_for(tmp_path, monkeypatch, move):
    """That process and no other: the one that takes its place is nobody's to end."""
    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(tmp_path))
    lab = LocalLab.create(topology("3az"), PARTS, id="play")
    children = []

    def started() -> Resident:
        children.append(subprocess.Popen(SLEEP))
        assert processes.note(children[-1].pid, lab._identity_file("a-data"))
        (resident,) = lab.residents()
        return resident

    first = started()
    assert lab.lives(first) and not lab.was_commanded(first)
    getattr(lab, move)("a-data")
    assert lab.was_commanded(first) and not lab.lives(first)
    second = started()
    assert (second.what, second.name) == ("node", "a-data") and not lab.was_commanded(second)
    for child in children:
        child.kill()
        child.wait()
