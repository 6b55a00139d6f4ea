"""A few tests of the box for the end of CI (``.ci/run``), where the time and the machine are there for them.

They are the tests with the marker ``sample``, in a box that is brought up for them and taken away whatever happens:
after a failure, at the time limit, and after SIGINT, SIGTERM and SIGHUP.

Where they cannot be run, one line says so and why. That is no pass and no failure. A part that runs into the time limit
counts there too: how long a build, a start and a test take depends on what else the machine does and how far away the
Go modules are, so it says nothing of what is tested. A test that hangs does not hide there: each has limits of its own,
and fails at them. A box that does not come up on a machine that has all it needs is a failure.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from chaos.base import paths
from chaos.base.errors import Exit, InvalidInput
from chaos.provision import loops
from kubebox import making, network, parts
from kubebox.making import Box

LIMIT_SECONDS = 3600.0
"""CI takes no longer."""
AWAY_SECONDS = 150.0
"""Kept of it for the end: tests that are interrupted undo what they did, and the box goes."""
NEEDED_SECONDS = 600.0
"""Without so much time it is not begun: the box comes up in two minutes and the tests take four on two free cores."""
BUILDING_SECONDS = 900.0
"""More, where Kubernetes is still to be built: six to ten minutes on two cores."""
ORDERLY_SECONDS = 45.0
"""For a process that was asked to end; then it is killed, with all that it has started."""
EVERY_SECONDS = 0.2
KILLED_TIMES = 5
UNAVAILABLE = 69
"""EX_UNAVAILABLE, sysexits.h: left out."""
NAME = "ci"
GIVEN = "KUBEBOX"
"""The environment variable with the name of a box that is up: tests use it, and neither make nor end one."""
SAMPLE = ("-m", "sample", "tests/cluster/test_on_kubernetes.py")
SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER, linux/prctl.h: what our children leave behind becomes our own child."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class LeftOut(Exception):
    """Why the tests cannot be run here and now, in words."""


def room(passed: float, *, built: bool) -> float:
    """Seconds that the part may take when CI has run for ``passed`` seconds. Raises LeftOut where they are too few.

    ``built``: whether the box's programs are in the cache.
    """
    left = LIMIT_SECONDS - AWAY_SECONDS - passed
    needed = NEEDED_SECONDS + (0.0 if built else BUILDING_SECONDS)
    if left < needed:
        building = "" if built else ", and the box is still to be built"
        raise LeftOut(
            f"too little time: {passed / 60:.0f} of {LIMIT_SECONDS / 60:.0f} minutes have passed{building}, and they "
            f"need {(needed + AWAY_SECONDS) / 60:.0f}"
        )
    return left


def refuse() -> None:
    """Raises LeftOut, or InvalidInput, for what this machine lacks. Nothing is started or changed."""
    making.refuse_unready()
    environment = os.environ | {"PATH": loops.PATH}
    for command, lacks in ((("losetup", "--find"), "loop devices"), (("nft", "list", "tables"), "nf_tables")):
        program = shutil.which(command[0], path=loops.PATH)
        if program is None:
            raise LeftOut(f"{command[0]} is not installed")
        done = subprocess.run([program, *command[1:]], capture_output=True, text=True, env=environment, check=False)
        if done.returncode != 0:
            raise LeftOut(f"no {lacks} can be had here: {' '.join(done.stderr.split())[-200:]}")


# ---- processes -----------------------------------------------------------------------------------------------------


def reason(errors: str) -> str:
    """What a command said last as its error; all that it said where nothing is marked so."""
    said = [line.removeprefix("error: ") for line in errors.splitlines() if line.startswith("error: ")]
    return said[-1] if said else " ".join(errors.split())[-200:]


def call(
    what: str, command: Sequence[str], seconds: float, environment: Mapping[str, str], *, stays: bool = False
) -> tuple[int, str]:
    """A command's exit code, and what it wrote to stderr, which is shown too. It is away at the end in any case.

    ``stays``: where it ends well, what it has left running goes on. Raises LeftOut, which says ``what`` it was, where
    it has not ended after so many seconds. It has a session of its own, so that a Ctrl-C reaches us alone.
    """
    others = set(psutil.Process().children())
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=errors, env=environment, cwd=parts.ROOT, start_new_session=True
        )
        try:
            if not ended(process, seconds):
                limit = f"CI takes {LIMIT_SECONDS / 60:.0f} minutes"
                raise LeftOut(f"the time was over during {what}, and {limit}")
        finally:
            if not (stays and process.returncode == 0):
                end(process, others)
            errors.seek(0)
            told = errors.read()
            sys.stderr.write(told)
    return process.returncode, told


def ended(process: subprocess.Popen[Any], seconds: float) -> bool:
    """Wait so long for a process to end; whether it has. What became our child and has ended meanwhile is reaped, as
    the first process of a machine does: others look whether it is gone."""
    deadline = time.monotonic() + seconds
    while process.poll() is None:
        with contextlib.suppress(ChildProcessError):
            while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if found.si_pid == process.pid:
                    break
                os.waitpid(found.si_pid, 0)
        if time.monotonic() > deadline:
            return process.poll() is not None
        time.sleep(EVERY_SECONDS)
    return True


def end(process: subprocess.Popen[Any], others: set[psutil.Process]) -> None:
    """Ask a process to end as a user would; after a while kill it, and at last all that it has left behind.
    ``others``: our children of before."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        if not ended(process, ORDERLY_SECONDS):
            process.kill()
            process.wait()
    for _ in range(KILLED_TIMES):  # one that is killed may just have started another
        mine = [each for each in psutil.Process().children() if each not in others]
        left = {*mine}
        for each in mine:
            with contextlib.suppress(psutil.NoSuchProcess):
                left.update(each.children(recursive=True))
        if not left:
            return
        for each in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(left, 2)


@contextlib.contextmanager
def owning() -> Iterator[None]:
    """In this block what our children leave behind becomes our child, and the first signal is a KeyboardInterrupt. All
    that follow it are for nothing: by then it is being undone."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")

    def interrupted(number: int, _: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = {each: signal.signal(each, interrupted) for each in SIGNALS}
    try:
        yield
    finally:
        prctl(SUBREAPER, 0, 0, 0, 0)
        for each, handler in before.items():
            signal.signal(each, handler)


# ---- the part ------------------------------------------------------------------------------------------------------


def in_box(box: Box, deadline: float, calls: Callable[..., tuple[int, str]] = call) -> int:
    """Bring a box up, run the tests in it, take it away. 0, or 1 where a test failed or the box did not come or go.

    ``deadline``: by time.monotonic(). Raises LeftOut at the deadline, and where the box cannot be had here.
    """
    state = Path(tempfile.mkdtemp(prefix="kubebox-sample-"))
    problems: list[str] = []
    try:
        try:
            status = _tested(box, deadline, os.environ | {GIVEN: box.name, paths.STATE_VARIABLE: str(state)}, calls)
        finally:
            problems = box.down() if box.is_left() else []
            for each in problems:
                print(f"could not take the Kubernetes box away: {each}", flush=True)
            shutil.rmtree(state, ignore_errors=True)
    except LeftOut:
        if not problems:
            raise
    return 1 if problems else status


def _tested(box: Box, deadline: float, environment: Mapping[str, str], calls: Callable[..., tuple[int, str]]) -> int:
    kubebox = [sys.executable, str(Path(__file__).parent), "--name", box.name]
    for verb, what, unhad in (
        ("parts", "the build of the box", (Exit.USAGE, Exit.ERROR)),
        ("up", "the start of the box", (Exit.USAGE,)),
    ):
        left = deadline - time.monotonic()
        code, told = calls(what, [*kubebox, verb], left, environment, stays=verb == "up")
        if code in unhad:
            raise LeftOut(reason(told))
        if code != 0:
            print(f"{what} failed (exit code {code}): {reason(told)}", flush=True)
            return 1
    code, _ = calls("the tests", [sys.executable, "-m", "pytest", *SAMPLE], deadline - time.monotonic(), environment)
    return 0 if code == 0 else 1


def run(passed: float) -> int:
    """The exit code: 0 the tests passed, 1 one failed, :data:`UNAVAILABLE` they were left out, which one line says.

    ``passed``: seconds since CI began.
    """
    began = time.monotonic()
    try:
        seconds = room(passed, built=parts.are_built())
        refuse()
        lock = Path("/run") / f"{paths.APP}-kubernetes-{NAME}.lock"
        with paths.locked(lock, blocking=False) as mine, owning():
            if not mine:
                raise LeftOut("another CI on this machine has the box")
            box = Box(NAME)
            if box.is_left() and (problems := box.clear()):
                raise LeftOut(problems[0])
            network.refuse_taken()
            return in_box(box, began + seconds)
    except (LeftOut, InvalidInput) as why:
        print(f"left out: the tests of the Kubernetes box: {why}", flush=True)
        return UNAVAILABLE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
