"""Starting, knowing and ending the processes of a lab's hosts.

A process is started by a thread that stands in the host's namespace (the child inherits it), under an unprivileged
uid, in a session of its own so that a Ctrl-C at the terminal never reaches it. Its identity (pid, start time, boot)
is on disk; what was started but not yet noted is still found by the namespace that it lives in.

Only a parent is told how a process ended, and a lab outlives whoever made it. So a shell stands between: it starts the
process, waits, and writes the exit code down beside the identity, for whoever asks. It is told its script on standard
input, so that nobody who looks for the process by its command line finds the shell too.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from chaos.base.errors import LabError
from chaos.base.paths import ProcessIdentity, write_json
from chaos.base.waiting import wait_until as wait_until
from chaos.provision.unprivileged import NODE_UID
from chaos.targets.wiring import Host

PAUSED_STATES = ("T", "t")
"""The kernel's letters of a paused process: stopped by a signal, or traced by a debugger."""
CODES = ".ended"
"""The suffix of the file beside an identity in which a shell writes how its process ended, a line for each."""
_START = """\
exec 3>&2 2>/dev/null
trap : HUP INT TERM
/bin/sh -c 'echo $$; read _ && exec "$@" </dev/null >&3 2>&3 3>&-' sh {command}
"""
"""The process begins when it has been noted: whoever starts it and dies before leaves none behind."""
_END = """\
code=$?
echo {pid} $code >>{codes}
exit $code
"""


@dataclass(frozen=True)
class Started:
    """A process that was started: its own pid, and the shell that waits for it."""

    pid: int
    shell: subprocess.Popen[bytes]

    def poll(self) -> int | None:
        """Its exit code as a shell says it (128 and the signal), None while it runs."""
        return self.shell.poll()


class Launch(NamedTuple):
    """How a process is started: in which folder, with which environment, and where what it says goes."""

    command: list[str]
    log: Path
    cwd: Path
    env: dict[str, str]


def spawn(
    host: Host,
    command: list[str],
    *,
    log: Path,
    identity: Path,
    cwd: Path,
    env: dict[str, str],
    user: int = NODE_UID,
) -> Started:
    """Start ``command`` in ``host``; its output is appended to ``log``. Raises LabError."""
    if not os.access(command[0], os.X_OK):
        reason = "permission denied" if os.path.exists(command[0]) else "no such file"
        raise LabError(f"cannot start {command[0]} in {host.name}: {reason}")
    with open(log, "ab") as output:
        try:
            with host.namespace.entered():
                shell = subprocess.Popen(
                    ["/bin/sh"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    cwd=cwd,
                    env=env,
                    user=user,
                    group=user,
                    extra_groups=[],
                    start_new_session=True,
                )
        except OSError as error:
            raise LabError(f"cannot start {command[0]} in {host.name}: {error.strerror}") from error
    assert shell.stdin is not None and shell.stdout is not None
    codes = shlex.quote(str(identity.with_suffix(CODES)))
    pid, noted = 0, False
    with suppress(BrokenPipeError), shell.stdin as script, shell.stdout as told:
        script.write(_START.format(command=shlex.join(command)).encode())
        script.flush()
        said = told.readline().strip()
        pid = int(said) if said.isdigit() else 0
        noted = bool(pid) and note(pid, identity, shell.pid)
        if noted:
            # a line for who is to become the process; the shell reads on when that has ended
            script.write(b"\n" + _END.format(pid=pid, codes=codes).encode())
    if not noted:
        raise LabError(f"{command[0]} of {host.name} ended at once: see {log}")
    return Started(pid, shell)


def exit_code(identity: ProcessIdentity, noted: Path) -> int | None:
    """How a process ended that :func:`spawn` started and noted there: as a shell says it, 128 and the signal.

    None while its shell has said nothing, which may be for ever: it may have been killed as well.
    """
    try:
        rows = [line.split() for line in noted.with_suffix(CODES).read_text().splitlines()]
    except OSError:
        return None
    found = [row[1] for row in rows if len(row) == 2 and row[0] == str(identity.pid) and row[1].isdigit()]
    return int(found[-1]) if found else None


def is_silent(noted: Path) -> bool:
    """Whether nobody is left who could say how the process ended that is noted there."""
    try:
        return not ProcessIdentity.from_json(json.loads(noted.read_text())["shell"]).alive()
    except (OSError, ValueError, KeyError):
        return True


def note(pid: int, identity: Path, shell: int | None = None) -> bool:
    """Write down who this process is, and the shell that waits for it; False when it is gone already."""
    try:
        waits = {"shell": ProcessIdentity.of(shell).to_json()} if shell is not None else {}
        write_json(identity, ProcessIdentity.of(pid).to_json() | waits)
    except ProcessLookupError:
        return False
    return True


def command_line(pid: int) -> list[str]:
    """With which arguments a process was started; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="surrogateescape").split("\0")[:-1]
    except OSError:
        return []


def raise_open_files_limit() -> None:
    """Let our children open as many files as the machine allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def send(identity: ProcessIdentity, number: signal.Signals) -> bool:
    """Send a signal to that very process; False when it is gone already."""
    if not identity.alive():
        return False
    try:
        os.kill(identity.pid, number)
    except ProcessLookupError:
        return False
    return True


def end(pids: Iterable[int], seconds: float = 10.0) -> list[int]:
    """SIGKILL these processes (a stopped one dies of it too) and wait. Returns those that would not die."""
    identities = []
    for pid in pids:
        try:
            identities.append(ProcessIdentity.of(pid))
        except ProcessLookupError:
            continue
    for identity in identities:
        send(identity, signal.SIGKILL)

    def gone() -> bool:
        reap(identity.pid for identity in identities)
        return not any(identity.alive() for identity in identities)

    wait_until(gone, seconds)
    return [identity.pid for identity in identities if identity.alive()]


def reap(pids: Iterable[int]) -> None:
    """Collect the exit status of those that are our children; others are init's."""
    for pid in pids:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue
