"""One call of a program that the cluster's owners wrote: it begins, is asked one thing, and is over at its deadline.

What it reads and prints is in memory: a full disk must not keep an undo from being asked for, and a process that it
left behind holds no pipe that anybody would wait for. It runs in a session of its own (:mod:`.commanding`). When it has
ended, or is to, all of that session is ended at once. What has left the session is not the call's any more.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.base.errors import ChaosError, FaultError
from chaos.base.paths import ProcessIdentity, write_json
from chaos.base.text import one_line, plural
from chaos.run.commanding import GO, KILLED_SECONDS, TOKEN, Session, gate, new_token
from chaos.targets.labs.processes import wait_until

PRINTED_BYTES = 1 * 2**20
"""What one call may print, of each kind."""
LOG_BYTES = 16 * 2**20
"""What all calls of a run may print into its log; what comes later is not kept."""


@dataclass(frozen=True)
class Called:
    """How a call went. ``code``: its exit code as a shell says it; None where it was ended, or never began.

    ``says``: the same in words, with the last line that it printed as an error.
    """

    code: int | None
    says: str

    @property
    def yes(self) -> bool:
        return self.code == 0

    @property
    def no(self) -> bool:
        return self.code == 1


def call(
    words: Sequence[str],
    question: Mapping[str, Any],
    *,
    within: float,
    folder: Path,
    log: Path,
    begins: Callable[[Session], None] = lambda session: None,
    over: Callable[[], bool] = lambda: False,
) -> Called:
    """Ask ``question``, as one JSON object on its input, and wait ``within`` seconds at most.

    ``folder``: where it runs. ``begins`` is told of its session before the program itself begins; what that raises is
    raised, and the program never begins. ``over``: nobody wants the answer any more. A failure is an answer.
    """
    began = time.monotonic()
    with ExitStack() as stack:
        asked, printed, wrong = (_memory(stack, name) for name in ("question", "output", "errors"))
        os.write(asked, json.dumps(question).encode() + b"\n")
        os.lseek(asked, 0, os.SEEK_SET)
        token = new_token()
        try:
            process = subprocess.Popen(
                gate(words, reads=asked),
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=wrong,
                pass_fds=(asked,),
                start_new_session=True,
                cwd=folder,
                env={**os.environ, TOKEN: token},
            )
        except OSError as error:
            return Called(None, f"it cannot be started: {error.strerror}")
        session = Session(ProcessIdentity.of(process.pid), token)
        assert process.stdin is not None
        with process.stdin as go:  # closed unsaid, the gate ends by itself
            try:
                begins(session)
            except BaseException:
                process.kill()
                process.wait()
                raise
            with suppress(BrokenPipeError):
                go.write(GO)
                go.flush()

        def long() -> bool:
            return max(os.fstat(printed).st_size, os.fstat(wrong).st_size) > PRINTED_BYTES

        # it is not reaped before its session is ended: its number stays its own, so that all of them are found
        wait_until(lambda: _ended(process.pid) or long() or over(), within)
        ended = _ended(process.pid)
        count, stays = _end(session, process.pid)
        with suppress(subprocess.TimeoutExpired):
            process.wait(KILLED_SECONDS)
        for each in (printed, wrong):
            fcntl.fcntl(each, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)  # whoever has left may hold it, and fill nothing
        last = _last(wrong)
        if long():
            says = f"it printed more than {PRINTED_BYTES // 2**20} MiB, and was ended"
        elif not ended:
            says = "nobody waits for it any more" if over() else f"not over within {within:g} s, and was ended"
        else:
            says = f"exit code {_code(process.returncode)}"
        good = ended and not long()
        code = _code(process.returncode) if good else None
        says = f"{says}: {last}" if last and code not in (0, 1) else says
        left = f"; {plural(count, 'process', 'processes')} that it had left behind ended" if count else ""
        told = f"{says}{f'; {stays}' if stays else ''}"
        _keep(log, question, [printed, wrong], f"{told}{left}, after {time.monotonic() - began:.2f} s")
        return Called(None if stays else code, told)


def _memory(stack: ExitStack, name: str) -> int:
    made = os.memfd_create(f"oschaos-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    stack.callback(os.close, made)
    return made


def _ended(pid: int) -> bool:
    """Whether this child has ended; it is not reaped."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(session: Session, leader: int) -> tuple[int, str]:
    """How many of a session beside its leader were ended, and what does not end, in words."""
    beside = sum(each.pid != leader for each in session.alive())
    try:
        session.end(0.0)
    except ChaosError as error:
        return beside, str(error)
    return beside, ""


def _code(code: int) -> int:
    return code if code >= 0 else 128 - code


def _last(descriptor: int) -> str:
    """The last line that is not empty."""
    size = os.fstat(descriptor).st_size
    read = os.pread(descriptor, 4096, max(0, size - 4096)).decode(errors="replace")
    return next((one_line(line) for line in reversed(read.splitlines()) if line.strip()), "")


def _keep(log: Path, question: Mapping[str, Any], printed: Sequence[int], says: str) -> None:
    """Into the log, as long as there is room; a disk that is full must not stop an undo."""
    when = time.strftime("%H:%M:%S", time.gmtime())
    text = [f"{when} {question['id']} {question['call']} {question['kind']}: {says}\n".encode()]
    text += [said if said.endswith(b"\n") else said + b"\n" for each in printed if (said := _read(each))]
    with suppress(OSError):
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as file:
            if file.tell() < LOG_BYTES:
                file.write(b"".join(text))


def _read(descriptor: int) -> bytes:
    return os.pread(descriptor, PRINTED_BYTES, 0)


# ---- what a dead runner left running ----------------------------------------------------------------------


def noting(note: Path) -> Callable[[Session], None]:
    """For :func:`call`: writes down whose session it is. Raises FaultError where the disk does not take it."""

    def begins(session: Session) -> None:
        try:
            write_json(note, session.to_json())
        except OSError as error:
            raise FaultError(f"{note} cannot be written ({error.strerror}): nothing is begun") from error

    return begins


def end_noted(note: Path) -> int:
    """End the call that was written down there, if it still runs. How many processes that were. Raises FaultError."""
    try:
        said = json.loads(note.read_text())
        session = Session(ProcessIdentity.from_json(said), str(said["token"]))
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    count = session.end(0.0)
    note.unlink(missing_ok=True)
    return count
