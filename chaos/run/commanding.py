"""A command of the user's that a phase waits for: it begins when it is written down, and never outlives its run.

Failover controllers of a run begin and end by the same means (:mod:`.controllers`), and its load driver ends by them.

It runs in a session of its own, which is what an end means: every process of that session, whatever groups it is in.
What has left the session (a service manager's, a node that was started with ``setsid``) is not the command's any more.

First a gate is started, which waits on a pipe. Its identity (pid, start time, boot) is written into the ledger with the
inverse that ends its session; only then the gate is told to become the command, which keeps pid and start time. So a
runner that dies in between leaves a gate that ends by itself, and one that dies later leaves what the keeper or
``recover`` ends; the kernel tells the command itself (SIGTERM) at once.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.base import text
from chaos.base.errors import ChaosError, FaultError, InvalidInput
from chaos.base.paths import ProcessIdentity
from chaos.definitions import Experiment
from chaos.faults.ledger import Entry, Ledger, standing
from chaos.faults.moves import Move, Reversible, never, operation
from chaos.targets.labs.processes import wait_until

BEGIN, END = "during.command", "during.end"
GRACE_SECONDS = 3.0
"""From SIGTERM to SIGKILL. An abort has five seconds until everything is undone, and this comes first."""
KILLED_SECONDS = 5.0
"""How long a process may take to be gone after SIGKILL."""
LOG_BYTES = 16 * 2**20
"""What a command may print."""
LAST_LINES, LAST_CHARACTERS = 5, 400
PYTHON = "python"
TOKEN = "OPENSEARCH_CHAOS_DURING"
"""In the environment of the command and of what it starts: whose they are, once who began the session is gone."""
HERE = "this machine"

_GATE = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]) or os.read(0, 1) != b".":
    os._exit(0)
if sys.argv[2] == "alone":
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
elif sys.argv[2] != "heard":
    os.dup2(int(sys.argv[2]), 0)
    os.close(int(sys.argv[2]))
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
try:
    os.execvp(sys.argv[3], sys.argv[3:])
except OSError as error:
    os.write(2, f"{sys.argv[3]}: {error.strerror}\\n".encode())
    os._exit(126)
"""


GO = b"."
"""What the gate waits for."""


def gate(words: Sequence[str], *, heard: bool = False, reads: int | None = None) -> list[str]:
    """What is started instead of ``words``, and becomes them at :data:`GO`. ``heard``: they go on to read what is said
    to the gate, and its end; ``reads``: what is behind this inherited descriptor; else they read nothing."""
    source = "heard" if heard else "alone" if reads is None else str(reads)
    return [sys.executable, "-I", "-S", "-c", _GATE, str(os.getpid()), source, *words]


def ending(session: Session, words: Sequence[str]) -> Reversible:
    """For the ledger: that ``words`` are begun in a session, and what ends it. ``words`` are for people."""
    move = Move(BEGIN, {"host": HERE, "command": list(words)})
    return Reversible(move, Move(END, {"host": HERE, **session.to_json()}))


def meant(words: Sequence[str]) -> list[str]:
    """The words of a command, with the Python that this package is installed in for the program ``python``."""
    return [sys.executable if words[0] == PYTHON else words[0], *words[1:]]


def refuse_absent(experiment: Experiment) -> None:
    """Raises InvalidInput for a command whose program is not here, or may not be executed."""
    waited = [(f"phase {each.name} waits for", each.during.command) for each in experiment.phases if each.during]
    programs = [
        (f"the program {name} of the experiment is", words)
        for name, each in experiment.programs.items()
        for words in (each.command, each.ready)
    ]
    for who, command in [
        *waited,
        *programs,
        *(("the experiment expects something of", each.command) for each in experiment.expect),
    ]:
        if command is not None and shutil.which(meant(command)[0]) is None:
            raise InvalidInput(
                f"{who} a command, and there is no program '{command[0]}'",
                remedy="name one that is there and may be executed (a path is taken from where the run is started)",
            )


@dataclass(frozen=True)
class Session:
    """A session by who began it. ``token``: in the environment of its processes."""

    leader: ProcessIdentity
    token: str

    def to_json(self) -> dict[str, Any]:
        return {**self.leader.to_json(), "token": self.token}

    def alive(self) -> list[ProcessIdentity]:
        """Its processes that run. Where the leader is gone those alone that carry the token: a number is used again."""
        leader, found = self.leader, list[ProcessIdentity]()
        if leader.boot_id != ProcessIdentity.me().boot_id:
            return []
        rows = {pid: row for pid in _pids() if (row := _row(pid)) is not None}
        there = rows.get(leader.pid)
        certain = there is not None and there[2] == leader.start_ticks
        for pid, (state, session, ticks) in rows.items():
            if session != leader.pid or state in "ZX" or (pid == leader.pid and not certain):
                continue
            if certain or _carries(pid, self.token):
                found.append(ProcessIdentity(pid, ticks, leader.boot_id))
        return found

    def end(self, grace: float = GRACE_SECONDS) -> int:
        """SIGTERM, and after ``grace`` seconds SIGKILL. How many processes it was. Raises FaultError when one stays."""
        first = self.alive()
        if not first:
            return 0

        def left() -> list[ProcessIdentity]:
            """Those of the beginning are its own for good, though the leader may be gone by now."""
            return list(dict.fromkeys([*(each for each in first if each.alive()), *self.alive()]))

        def gone() -> bool:
            _send(left(), signal.SIGKILL)
            return not left()

        _send(first, signal.SIGTERM)
        if not wait_until(lambda: not left(), grace) and not wait_until(gone, KILLED_SECONDS):
            raise FaultError(f"processes {', '.join(str(each.pid) for each in left())} of a command do not end")
        return len(first)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _row(pid: int) -> tuple[str, int, int] | None:
    """State, session and start time in ticks."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0], int(fields[3]), int(fields[19])


def _carries(pid: int, token: str) -> bool:
    try:
        return f"{TOKEN}={token}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _send(processes: Sequence[ProcessIdentity], number: signal.Signals) -> None:
    for each in processes:
        with suppress(ProcessLookupError):
            if each.alive():
                os.kill(each.pid, number)


@operation(BEGIN, late=never)
def _begin(lab: Any, **_: Any) -> None:
    raise FaultError("a command is started by its own run alone")


@operation(END)
def _end(lab: Any, pid: int, start_ticks: int, boot_id: str, token: str, host: str = HERE) -> None:
    Session(ProcessIdentity(pid, start_ticks, boot_id), token).end()


class Command:
    """One command, from its start to its end. Raises ChaosError when it cannot be started."""

    def __init__(self, words: Sequence[str], log: Path, ledger: Ledger, more: Mapping[str, str], token: str) -> None:
        self.log = log
        self._ledger, self._ended = ledger, False
        with open(log, "ab") as output:
            try:
                self._process = subprocess.Popen(
                    gate(meant(words)),
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env={**os.environ, **more, TOKEN: token},
                )
            except OSError as error:
                raise ChaosError(f"{words[0]} cannot be started: {error.strerror}") from error
        try:
            self.session = Session(ProcessIdentity.of(self._process.pid), token)
        except ProcessLookupError as error:
            raise ChaosError(f"{words[0]} ended before it had begun") from error
        assert self._process.stdin is not None
        with self._process.stdin as gate_pipe:  # closed unsaid, the gate ends by itself
            (self._entry,) = self._written(ledger, ending(self.session, words))
            with suppress(BrokenPipeError):
                gate_pipe.write(GO)
                gate_pipe.flush()

    def _written(self, ledger: Ledger, both: Reversible) -> list[Entry]:
        try:
            return ledger.intend("during", [both])
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise

    def code(self) -> int | None:
        """Its exit code as a shell says it (128 and the signal); None while it runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def printed(self) -> int:
        """Bytes."""
        return self.log.stat().st_size

    def last(self) -> list[str]:
        """The last lines that it printed."""
        with open(self.log, "rb") as file:
            file.seek(max(0, self.printed() - LAST_LINES * 4 * LAST_CHARACTERS))
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines()]
        return [line[:LAST_CHARACTERS] for line in lines if line][-LAST_LINES:]

    def over(self) -> None:
        """It has ended by itself: there is nothing to take back. What it left running in its session is left alone."""
        if not self._ended:
            self._ended = True
            self._ledger.note(self._entry, "undone", "it had ended")

    def tell(self) -> None:
        """Send SIGTERM to the program itself, and to nothing that it began."""
        if self._process.poll() is None:
            self._process.terminate()

    def end(self) -> int:
        """End it, with all of its session; idempotent. How many processes that were. Raises FaultError."""
        if self._ended:
            return 0
        count = self.session.end()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(KILLED_SECONDS)
        self._ended = True
        self._ledger.note(self._entry, "undone")
        return count


def end_commands(ledger: Path, says: Callable[[str], None]) -> list[str]:
    """End what a dead run left running here, wherever its lab is: commands, failover controllers. ``says`` is told.
    What failed, in words."""
    mine = [each for each in standing(ledger) if each.move.operation == BEGIN and each.inverse is not None]
    if not mine:
        return []
    failed = []
    try:
        book = Ledger(ledger)
    except OSError as error:
        return [f"{ledger}: {error.strerror}"]
    try:
        for each in mine:
            assert each.inverse is not None
            given = each.inverse.arguments
            session = Session(ProcessIdentity.from_json(given), str(given["token"]))
            words = shlex.join(each.move.arguments["command"])
            try:
                count = session.end()
            except ChaosError as error:
                failed.append(f"{words}: {error}")
                book.note(each, "undo_failed", str(error))
            else:
                book.note(each, "undone")
                says(f"{words}: {text.plural(count, 'process', 'processes')} ended" if count else f"{words} had ended")
    finally:
        book.close()
    return failed


def program(words: Sequence[str]) -> str:
    """A command's name, for people."""
    return os.path.basename(words[0]) or words[0]


def new_token() -> str:
    return secrets.token_hex(8)
