"""A host of the box as a machine of its own: an sshd, and around it files, users and a name that no other host has.

A process of its own, in the host's network namespace. It makes a mount namespace, and in that becomes sshd: so all of
it ends with its last process, and whoever takes the lab away finds each of them by the network namespace. A host with
a systemd has a parent for that instead: systemd is process 1 there, of a namespace of processes, and starts sshd.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from box import mounts
from chaos.base.errors import InvalidInput

ASIDE = Path("/run/machine")
"""Where a host finds what this machine has in folders in which the host has files of its own."""
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
KINDS = {
    "mnt": mounts.CLONE_NEWNS,
    "uts": mounts.CLONE_NEWUTS,
    "net": mounts.CLONE_NEWNET,
    "cgroup": mounts.CLONE_NEWCGROUP,
    "ipc": mounts.CLONE_NEWIPC,
    "pid_for_children": mounts.CLONE_NEWPID,
}
"""The namespaces that may be a host's own, and their flags for setns(2)."""
PR_SET_PDEATHSIG = 1


def become(file: Path) -> NoReturn:
    """Make the host that is described there (``machine.Machine``), and become its sshd. Raises LabError."""
    made: dict[str, Any] = json.loads(file.read_text())
    mounts.apart()
    mounts.unshare(mounts.CLONE_NEWUTS)
    socket.sethostname(made["name"])
    same = [Path(folder) for folder in made["same"]]
    mounts.leave_disks(same[0])
    for folder in made["detached"]:
        mounts.detach(Path(folder))
    mounts.empty(Path("/run"), size=mounts.SMALL)
    mounts.empty(Path("/var/log"), size=mounts.SMALL)
    (Path("/run") / "sshd").mkdir(mode=0o755)
    for folder, files in made["files"].items():
        mounts.mixed(Path(folder), ASIDE / folder.strip("/"), files, same)
    for folder in made["folders"]:
        Path(folder).mkdir(mode=0o700)
    os.chdir("/")
    if made["group"] is not None:
        boot(Path(made["group"]), made["command"], made["environment"])
    os.execve(made["command"][0], made["command"], made["environment"])


def boot(group: Path, command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Be the parent of a systemd, in a control group of version 2, and end with it. It ends with us too.

    What it finds of this machine is read-only.
    """
    group.mkdir(exist_ok=True)
    (group / "cgroup.procs").write_text(str(os.getpid()))
    mounts.unshare(mounts.CLONE_NEWPID | mounts.CLONE_NEWCGROUP | mounts.CLONE_NEWIPC)
    if os.fork() == 0:
        mounts.libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        mounts.mount("proc", Path("/proc"), "proc", 0)
        mounts.detach(Path("/sys/fs/cgroup"))
        mounts.mount("none", Path("/sys/fs/cgroup"), "cgroup2", 0)
        mounts.mount("none", Path("/"), None, mounts.MS_REMOUNT | mounts.MS_BIND | mounts.MS_RDONLY)
        os.execve(command[0], list(command), environment)
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]) % 256)


def enter(pid: int, command: Sequence[str]) -> NoReturn:
    """Run ``command`` by root in the host that this process has made, and end as it does.

    Raises InvalidInput when there is no such program.
    """
    held = [(os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC), flag) for kind, flag in KINDS.items()]
    inside = os.stat(f"/proc/{pid}/ns/pid_for_children").st_ino != os.stat("/proc/self/ns/pid").st_ino
    for descriptor, flag in held:
        if mounts.libc.setns(descriptor, flag) != 0:
            raise mounts.failed("setns")
    os.chdir("/")
    if inside and (child := os.fork()) != 0:  # only children are in another namespace of processes
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256)
    if inside:
        mounts.libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    mine = {key: os.environ[key] for key in ("TERM", "LANG", "COLUMNS") if key in os.environ}
    try:
        os.execvpe(command[0], list(command), mine | {"PATH": PATH, "HOME": "/root", "USER": "root"})
    except FileNotFoundError:
        raise InvalidInput(f"there is no program '{command[0]}'") from None
    except OSError as error:
        raise InvalidInput(f"'{command[0]}' cannot be run: {error.strerror}") from None
