"""Starting, knowing and ending the processes of a lab's hosts.

A process is started by a thread that stands in the host's namespace (the child inherits it), under an unprivileged
uid, in a session of its own so that a Ctrl-C at the terminal never reaches it. Its identity (pid, start time, boot)
is on disk; what was started but not yet noted is still found by the namespace that it lives in.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from chaos.errors import LabError
from chaos.lab.wiring import Host
from chaos.places import ProcessIdentity, write_json
from chaos.provision.unprivileged import NODE_UID


def spawn(
    host: Host, command: list[str], *, log: Path, identity: Path, cwd: Path, env: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Start ``command`` in ``host``; its output is appended to ``log``. Raises LabError."""
    with open(log, "ab") as output:
        try:
            with host.namespace.entered():
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=cwd,
                    env=env,
                    user=NODE_UID,
                    group=NODE_UID,
                    extra_groups=[],
                    start_new_session=True,
                )
        except OSError as error:
            raise LabError(f"cannot start {command[0]} in {host.name}: {error.strerror}") from error
    if not note(process.pid, identity):
        raise LabError(f"{command[0]} of {host.name} ended at once: see {log}")
    return process


def note(pid: int, identity: Path) -> bool:
    """Write down who this process is; False when it is gone already."""
    try:
        write_json(identity, ProcessIdentity.of(pid).to_json())
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


def wait_until(condition: Callable[[], bool], seconds: float, *, every: float = 0.02) -> bool:
    """Await a condition; False when it does not hold within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
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
